//! The threads of a load, from start to end. Each is named, pinned and prepared (its memory is touched). Then all start together. The
//! calling thread watches them until the last has ended.

use crate::clock::{now_ns, thread_cpu_ns, CpuClock};
use crate::gate::Gate;
use crate::kernel::Kernel;
use crate::load_thread::{LoadThread, Pace};
use crate::plan::Plan;
use crate::progress::{Progress, Snapshot};
use crate::tally::{Start, Tally, Used};
use crate::watch::{Ended, Watch};
use crate::{affinity, LoadError};
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::thread;

/// Enough for any load, and little enough for ten thousand of them.
const STACK_BYTES: usize = 256 * 1024;

/// The threads of a plan, with their counters.
#[derive(Debug)]
pub struct Crew {
    /// The plan.
    pub plan: Plan,
    /// The counters of each thread, in order.
    pub tallies: Vec<Tally>,
    /// Set when all should stop.
    pub cut: AtomicBool,
    /// Threads that have not ended.
    pub running: AtomicUsize,
}

impl Crew {
    /// The crew of `plan`, not yet at work.
    pub fn new(plan: Plan) -> Crew {
        let tallies = plan.threads.iter().map(|_| Tally::default()).collect();
        Crew { plan, tallies, cut: AtomicBool::new(false), running: AtomicUsize::new(0) }
    }

    /// Whether all should stop.
    pub fn is_cut(&self) -> bool {
        self.cut.load(Relaxed)
    }

    /// Makes thread number `thread` with `kernel`.
    pub fn load_thread<'a>(&'a self, thread: usize, kernel: Kernel<'a>, pace: Pace) -> LoadThread<'a> {
        LoadThread { kernel, pace, cut: &self.cut, loops: &self.tallies[thread].loops }
    }

    /// Runs the program. Calls `prepare` in each thread with its number. It returns the thread's work, and its time is not part of the
    /// run.
    ///
    /// # Errors
    /// [`LoadError::Thread`] or [`LoadError::Affinity`]. Then no thread has begun its work, and all have ended.
    pub fn run<Job: FnOnce()>(
        &self,
        watch: &mut Watch,
        prepare: impl Fn(usize) -> Job + Sync,
    ) -> Result<Ended, LoadError> {
        let gate = Gate::new(self.plan.threads.len());
        self.running.store(self.plan.threads.len(), SeqCst);
        thread::scope(|scope| {
            // If anything fails here, no thread works forever.
            let _cut = CutAtTheEnd(&self.cut);
            for (number, planned) in self.plan.threads.iter().enumerate() {
                let (gate, prepare, stop) = (&gate, &prepare, watch.stop);
                let body = move || {
                    match self.plan.cpu(number).map_or(Ok(()), affinity::pin_this_thread) {
                        Ok(()) => {
                            let job = prepare(number);
                            if gate.pass() {
                                self.work(number, job);
                            }
                        }
                        Err(error) => gate.abandon(LoadError::Affinity(error)),
                    }
                    self.running.fetch_sub(1, SeqCst);
                    stop.ring();
                };
                let builder = thread::Builder::new().name(planned.name.clone()).stack_size(STACK_BYTES);
                if let Err(error) = builder.spawn_scoped(scope, body) {
                    let wanted = self.plan.threads.len();
                    gate.abandon(LoadError::Thread { started: number, wanted, error });
                    break;
                }
            }
            gate.opened()?;
            Ok(self.watched_by(watch))
        })
    }

    /// Watches the threads until the last has ended.
    fn watched_by(&self, watch: &mut Watch) -> Ended {
        let limit_ns = watch.limit_of(self.plan.length);
        let begin_ns = now_ns();
        let mut last = Snapshot::of(&self.tallies);
        watch.until(
            limit_ns,
            || self.running.load(SeqCst) == 0,
            || self.cut.store(true, Relaxed),
            || {
                let before = std::mem::replace(&mut last, Snapshot::of(&self.tallies));
                Progress::between(&self.plan, &before, &last, now_ns() - begin_ns, limit_ns)
            },
        )
    }

    fn work(&self, number: usize, job: impl FnOnce()) {
        let tally = &self.tallies[number];
        let before = switches();
        let start = Start {
            wall_ns: now_ns(),
            cpu_ns: thread_cpu_ns(),
            clock: CpuClock::of_this_thread(),
            // SAFETY: a system call without arguments.
            tid: unsafe { libc::syscall(libc::SYS_gettid) } as i32,
        };
        tally.start.set(start).expect("a thread starts once");
        job();
        let used = Used {
            cpu_ns: thread_cpu_ns() - start.cpu_ns,
            wall_ns: now_ns() - start.wall_ns,
            yields: switches().0 - before.0,
            preemptions: switches().1 - before.1,
        };
        tally.used.set(used).expect("a thread ends once");
    }
}

/// Voluntary and involuntary context switches of the calling thread so far.
fn switches() -> (u64, u64) {
    // SAFETY: all-zero is a valid `rusage`, and the kernel writes no more than one.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_THREAD, &mut usage);
        usage
    };
    (usage.ru_nvcsw as u64, usage.ru_nivcsw as u64)
}

/// Ends the work of all threads when it is dropped.
struct CutAtTheEnd<'a>(&'a AtomicBool);

impl Drop for CutAtTheEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stop::Stop;
    use corun_model::workload::Length;

    fn plan(threads: u32, cpus: Vec<u32>) -> Plan {
        Plan {
            what: "test".into(),
            unit: "round",
            threads: Plan::alike("test", threads),
            cpus,
            length: Length::Endless,
            demand: None,
            waits: false,
            works: false,
        }
    }

    #[test]
    fn threads_have_their_names_and_cpus_and_all_are_reported() {
        let cpus = affinity::allowed_cpus().unwrap();
        let crew = Crew::new(plan(3, cpus.clone()));
        let (stop, seen) = (Stop::new(), std::sync::Mutex::new(Vec::new()));
        let ended = crew
            .run(&mut Watch::new(&stop, None, None, &mut |_| {}), |number| {
                let seen = &seen;
                move || {
                    let name = thread::current().name().unwrap().to_string();
                    seen.lock().unwrap().push((number, name, affinity::allowed_cpus().unwrap()));
                }
            })
            .unwrap();
        assert_eq!(ended, Ended::Completed);
        let mut seen = seen.into_inner().unwrap();
        seen.sort();
        for (i, (number, name, allowed)) in seen.into_iter().enumerate() {
            assert_eq!((number, name, allowed), (i, format!("test-{i}"), vec![cpus[i % cpus.len()]]));
            assert!(crew.tallies[i].used.get().is_some());
        }
    }

    #[test]
    fn a_thread_that_cannot_be_pinned_calls_the_run_off() {
        let (crew, stop) = (Crew::new(plan(2, vec![0, 8191])), Stop::new());
        let run = crew.run(&mut Watch::new(&stop, None, None, &mut |_| {}), |_| || unreachable!("it is off"));
        assert!(matches!(run, Err(LoadError::Affinity(_))));
    }
}
