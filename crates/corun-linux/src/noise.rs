//! What this machine takes from a program that computes. Threads do nothing but read the clock, and note
//! every gap between two readings.
//!
//! Method: that of Linux's osnoise tracer, but from user space. Two readings are about ten nanoseconds apart.
//! Anything between them took the CPU for that long: another task, an interrupt, the hypervisor. As osnoise
//! does by default, only a gap of more than [`GAP_NS`] counts. After a gap the thread asks the kernel how
//! often it was switched off its CPU. That separates gaps in which another task was scheduled from gaps in
//! which the thread still had the CPU. Neither needs a privilege. A watcher finds out which task was
//! scheduled, from the thread's ledger: [`Spinner::tid`].
//!
//! Limits: the threads occupy the CPUs that they measure, as any program that computes does. Contention that
//! only slows a program down, without taking its CPU, leaves no gap: shared caches, memory, a sibling
//! hyperthread, a lower clock. An event while the thread asks the kernel is seen, but may be classified
//! wrongly.

use crate::clock::now_ns;
use crate::limits;
use crate::sched::{affinity, own_tid, set_affinity};
use corun_model::CpuId;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{channel, Receiver, Sender};
use std::sync::Arc;
use std::thread::JoinHandle;

/// A longer time between two readings of the clock is a gap. This is the default of osnoise
/// (`tracing_thresh`), and about a hundred times as long as a reading.
pub const GAP_NS: u64 = 1_000;
/// Losses are kept in slots of this length.
pub const SLOT_NS: u64 = 100_000_000;
/// All threads are on their CPUs by then.
const START_NS: u64 = 20_000_000;

/// Gaps of one sort, summed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gaps {
    /// How many.
    pub count: u64,
    /// How long they were in total, in nanoseconds.
    pub sum_ns: u64,
    /// How long the longest was, in nanoseconds.
    pub longest_ns: u64,
}

impl Gaps {
    /// The gaps of both.
    #[must_use]
    pub fn plus(&self, other: &Gaps) -> Gaps {
        Gaps {
            count: self.count + other.count,
            sum_ns: self.sum_ns + other.sum_ns,
            longest_ns: self.longest_ns.max(other.longest_ns),
        }
    }
}

/// The losses of one thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// How long it was measured, in nanoseconds.
    pub length_ns: u64,
    /// Gaps in which something else was scheduled, or the thread was throttled or stopped.
    pub off: Gaps,
    /// Gaps in which the thread still had the CPU: interrupts, firmware, the hypervisor.
    pub on: Gaps,
    /// For each slot of [`SLOT_NS`], how much was taken, in nanoseconds; only whole slots.
    pub slots: Vec<u32>,
}

impl Taken {
    /// Adds a gap that ended at `end_ns` after the beginning.
    fn add(&mut self, end_ns: u64, gap_ns: u64, was_switched: bool) {
        let gaps = if was_switched { &mut self.off } else { &mut self.on };
        *gaps = gaps.plus(&Gaps { count: 1, sum_ns: gap_ns, longest_ns: gap_ns });
        let mut from_ns = end_ns.saturating_sub(gap_ns);
        while from_ns < end_ns {
            let slot = (from_ns / SLOT_NS) as usize;
            let until_ns = end_ns.min((slot as u64 + 1) * SLOT_NS);
            if self.slots.len() <= slot {
                self.slots.resize(slot + 1, 0);
            }
            self.slots[slot] += (until_ns - from_ns) as u32;
            from_ns = until_ns;
        }
    }

    fn end(mut self, length_ns: u64) -> Taken {
        self.length_ns = length_ns;
        self.slots.resize((length_ns / SLOT_NS) as usize, 0);
        self
    }

    /// The number of stretches of `slots` consecutive slots in which more than `share` of the time was taken;
    /// and the number of all stretches.
    pub fn disturbed(&self, slots: usize, share: f64) -> (usize, usize) {
        let stretches = self.slots.chunks_exact(slots.max(1));
        let all = stretches.len();
        let most_ns = share * (slots.max(1) as u64 * SLOT_NS) as f64;
        let is_disturbed =
            |stretch: &&[u32]| stretch.iter().map(|ns| u64::from(*ns)).sum::<u64>() as f64 > most_ns;
        (stretches.filter(is_disturbed).count(), all)
    }
}

/// A thread that computes and measures how much time it loses.
pub struct Spinner {
    /// Its number.
    pub tid: u32,
    /// The CPU that it is pinned to; `None`: not pinned.
    pub cpu: Option<CpuId>,
    /// Tells it when to begin and how long to measure; if this is dropped first, it ends without measuring.
    begin: Sender<(u64, u64)>,
    results: Receiver<Taken>,
    /// Dropping this lets the thread end; until then a watcher can see its ledger.
    hold: Sender<()>,
    thread: JoinHandle<()>,
}

/// Threads that compute at the same time.
pub struct Spinners {
    /// Each of them.
    pub all: Vec<Spinner>,
    stop: Arc<AtomicBool>,
}

impl Spinners {
    /// One thread that may use any CPU.
    ///
    /// # Errors
    /// Why it cannot be started.
    pub fn free() -> io::Result<Spinners> {
        Spinners::start(&[None])
    }

    /// A thread on each CPU that this process may use.
    ///
    /// # Errors
    /// Why they cannot be started.
    pub fn on_each_cpu() -> io::Result<Spinners> {
        let cpus: Vec<Option<CpuId>> = affinity(0)?.into_iter().map(Some).collect();
        Spinners::start(&cpus)
    }

    fn start(cpus: &[Option<CpuId>]) -> io::Result<Spinners> {
        let stop = Arc::new(AtomicBool::new(false));
        let start = |cpu: &Option<CpuId>| Spinner::start(*cpu, Arc::clone(&stop));
        Ok(Spinners { all: cpus.iter().map(start).collect::<io::Result<_>>()?, stop })
    }

    /// Lets them compute for this long, starting soon; returns approximately when they will have ended.
    pub fn begin(&self, length_ns: u64) -> u64 {
        let begin_ns = now_ns() + START_NS;
        for spinner in &self.all {
            // A thread that has gone is reported when it is collected.
            let _ = spinner.begin.send((begin_ns, length_ns));
        }
        begin_ns + length_ns
    }

    /// Asks them to end now.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// What each of them lost, after all have ended. The threads then sleep until [`Spinners::release`].
    ///
    /// # Errors
    /// If one could not be pinned to its CPU.
    pub fn taken(&self) -> io::Result<Vec<Taken>> {
        let refused = || io::Error::other("a thread could not be kept on its CPU; try again");
        self.all.iter().map(|spinner| spinner.results.recv().map_err(|_| refused())).collect()
    }

    /// Ends the threads.
    pub fn release(self) {
        for Spinner { begin, hold, thread, .. } in self.all {
            drop((begin, hold));
            let _ = thread.join();
        }
    }
}

impl Spinner {
    fn start(cpu: Option<CpuId>, stop: Arc<AtomicBool>) -> io::Result<Spinner> {
        let (begin, begins) = channel();
        let (result, results) = channel();
        let (hold, held) = channel::<()>();
        let (own, tids) = channel();
        let thread = limits::start_thread("corun-noise", move || {
            let _ = own.send(own_tid());
            let is_there = cpu.is_none_or(|cpu| set_affinity(0, Some(&[cpu])).is_ok());
            let Some((begin_ns, length_ns)) = begins.recv().ok().filter(|_| is_there) else { return };
            let _ = result.send(measure(begin_ns, length_ns, &stop));
            let _ = held.recv();
        })?;
        let gone = |_| io::Error::other("a thread ended before it began");
        Ok(Spinner { tid: tids.recv().map_err(gone)?, cpu, begin, results, hold, thread })
    }
}

/// Reads the clock for this long, and notes every gap.
fn measure(begin_ns: u64, length_ns: u64, stop: &AtomicBool) -> Taken {
    std::thread::sleep(std::time::Duration::from_nanos(begin_ns.saturating_sub(now_ns())));
    let mut taken = Taken::default();
    let mut switched = switches();
    // The duration of the query to the kernel itself.
    let mut asking_ns = u64::MAX;
    let first = now_ns();
    let mut last = first;
    while last < first + length_ns && !stop.load(Ordering::Relaxed) {
        let mut now = now_ns();
        let mut gap_ns = now - last;
        while gap_ns > GAP_NS {
            let before = std::mem::replace(&mut switched, switches());
            taken.add(now - first, gap_ns, switched != before);
            let after = now_ns();
            asking_ns = asking_ns.min(after - now);
            gap_ns = after - now - asking_ns;
            now = after;
        }
        last = now;
    }
    taken.end(last - first)
}

/// How often this thread was switched off its CPU.
fn switches() -> i64 {
    // SAFETY: getrusage fills the structure in; of one's own thread it cannot fail.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage);
        usage
    };
    usage.ru_nvcsw + usage.ru_nivcsw
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_gap_counts_in_every_slot_that_it_overlaps() {
        let mut taken = Taken::default();
        taken.add(10 * MS, 3 * MS, false);
        taken.add(230 * MS, 150 * MS, true);
        let taken = taken.end(450 * MS);
        assert_eq!(taken.slots, [23, 100, 30, 0].map(|ms| (ms * MS) as u32));
        assert_eq!((taken.on.sum_ns, taken.off.longest_ns), (3 * MS, 150 * MS));
    }

    #[test]
    fn a_stretch_counts_as_disturbed_by_its_total_loss() {
        let slots = vec![1, 3, 0, 0, 0, 9].into_iter().map(|ms: u32| ms * MS as u32).collect();
        let taken = Taken { slots, ..Taken::default() };
        assert_eq!(taken.disturbed(1, 0.02), (2, 6));
        assert_eq!(taken.disturbed(2, 0.02), (1, 3), "4 ms of 200 are not more than 2 %");
        assert_eq!(taken.disturbed(10, 0.02), (0, 0), "it was too short for one");
    }

    #[test]
    fn a_thread_that_shares_its_cpu_with_a_computing_one_loses_about_half_of_it() {
        let cpu = affinity(0).unwrap()[0];
        let rival_stops = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&rival_stops);
        let rival = std::thread::spawn(move || {
            set_affinity(0, Some(&[cpu])).unwrap();
            while !seen.load(Ordering::Relaxed) {}
        });
        let spinners = Spinners::start(&[Some(cpu)]).unwrap();
        spinners.begin(500 * MS);
        let taken = spinners.taken().unwrap().remove(0);
        rival_stops.store(true, Ordering::Relaxed);
        rival.join().unwrap();
        spinners.release();
        let off = taken.off.sum_ns as f64 / taken.length_ns as f64;
        assert!(off > 0.2, "{taken:?}");
        assert!(taken.off.count > 10 && taken.off.sum_ns > taken.on.sum_ns, "{taken:?}");
    }

    #[test]
    fn threads_that_are_asked_to_stop_end_early_and_report_how_long_they_measured() {
        let spinners = Spinners::free().unwrap();
        spinners.begin(3_600_000 * MS);
        std::thread::sleep(std::time::Duration::from_millis(100));
        spinners.stop();
        let taken = spinners.taken().unwrap();
        spinners.release();
        assert!(taken[0].length_ns < 60_000 * MS, "{taken:?}");
    }
}
