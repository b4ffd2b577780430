//! How long this machine takes from waking a thread up to running it on a CPU that slept.
//!
//! In a virtual machine the host has to wake the CPU first, which takes some twenty microseconds; a program whose threads sleep
//! for as long a hundred thousand times waits for it all the time, but not beside co-runners that keep its CPUs awake. The
//! ledger does not have that time: until its CPU is awake the thread counts as blocked.
//!
//! Method. A thread sleeps, another one waits a moment and wakes it up, [`ROUNDS`] times; a clock is read on either side. The
//! median counts. Where most of the time passed in a run queue
//! (`schedstat`), some CPU was busy and none slept. That is done [`SPELLS`] times with new threads, and the median of those counts:
//! some sleepers are put on a CPU that still looks for work before it sleeps.
//!
//! Limits: it takes some 35 ms, in which one CPU is busy. Where CPUs are busy but give way at once, it comes out too short: 2 to
//! 12 µs beside loops on a machine of two virtual CPUs that takes 22.

use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::{Duration, Instant};

/// How often the thread is woken up.
const ROUNDS: u32 = 50;
/// How often all of that is done.
const SPELLS: usize = 5;
/// How long it sleeps each time.
const SLEEP: Duration = Duration::from_micros(100);
/// No more rounds of a spell are begun after this time.
const PATIENCE: Duration = Duration::from_millis(20);

/// How long it takes, in nanoseconds; `None`: no CPU slept, or the kernel does not tell.
pub fn measured_ns() -> Option<u64> {
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        return None;
    }
    let mut spells_ns: Vec<u64> = (0..SPELLS).filter_map(|_| spell_ns()).collect();
    spells_ns.sort_unstable();
    spells_ns.get(SPELLS / 2).map(|_| spells_ns[spells_ns.len() / 2])
}

/// How long it takes by one sleeper; `None`: its CPU did not sleep, or the kernel does not tell.
fn spell_ns() -> Option<u64> {
    let begin = Instant::now();
    let since_begin_ns = || begin.elapsed().as_nanos() as u64;
    // The round that each has come to.
    let (asleep, woken) = (AtomicU32::new(0), AtomicU32::new(0));
    let sleeper = || {
        let queued_ns = queued_ns()?;
        let mut woken_ns = Vec::new();
        for round in 1..=ROUNDS {
            asleep.store(round, SeqCst);
            while woken.load(SeqCst) < round {
                std::thread::park();
            }
            woken_ns.push(since_begin_ns());
            if woken.load(SeqCst) == ROUNDS {
                break;
            }
        }
        Some((woken_ns, self::queued_ns()? - queued_ns))
    };
    std::thread::scope(|scope| {
        let thread = scope.spawn(sleeper);
        let mut called_ns = Vec::new();
        for round in 1..=ROUNDS {
            while asleep.load(SeqCst) < round && !thread.is_finished() {
                std::hint::spin_loop();
            }
            let slept = Instant::now();
            while slept.elapsed() < SLEEP {
                std::hint::spin_loop();
            }
            let is_last = begin.elapsed() > PATIENCE;
            called_ns.push(since_begin_ns());
            woken.store(if is_last { ROUNDS } else { round }, SeqCst);
            thread.thread().unpark();
            if is_last {
                break;
            }
        }
        let (woken_ns, queued_ns) = thread.join().ok()??;
        told_ns(&called_ns, &woken_ns, queued_ns)
    })
}

/// What calls and wake-ups, and how long the thread was in a run queue in all of them, come to.
fn told_ns(called_ns: &[u64], woken_ns: &[u64], queued_ns: u64) -> Option<u64> {
    let mut took_ns: Vec<u64> =
        called_ns.iter().zip(woken_ns).map(|(called, woken)| woken.saturating_sub(*called)).collect();
    took_ns.sort_unstable();
    let all_ns: u64 = took_ns.iter().sum();
    took_ns.get(took_ns.len() / 2).copied().filter(|_| 2 * queued_ns <= all_ns)
}

/// How long the calling thread has been in run queues.
fn queued_ns() -> Option<u64> {
    std::fs::read_to_string("/proc/thread-self/schedstat").ok()?.split(' ').nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_spent_in_a_run_queue_was_not_for_a_cpu_to_wake_up() {
        let (called, woken) = ([0, 1_000, 2_000], [30, 1_020, 2_900]);
        assert_eq!(told_ns(&called, &woken, 100), Some(30));
        assert_eq!(told_ns(&called, &woken, 800), None);
        assert_eq!(told_ns(&[], &[], 0), None);
    }

    #[test]
    fn it_ends_soon_whatever_others_do_and_no_wake_up_takes_no_time() {
        let begin = Instant::now();
        let found = measured_ns();
        assert!(found.is_none_or(|ns| ns > 0), "{found:?}");
        assert!(begin.elapsed() < Duration::from_secs(10));
    }
}
