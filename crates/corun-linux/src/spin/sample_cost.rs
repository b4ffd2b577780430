//! The cost of a sample for the interrupted task, measured on this machine: 3 µs on bare metal, several times
//! that if a hypervisor handles its timers.
//!
//! Method: the calling thread is sampled for a short time while it reads the clock again and again. A leap of
//! the clock is an interruption, mostly a sample. There are as many longest leaps as samples, and their
//! median is the cost of one. Ticks, and losing the CPU now and then, do not change it.
//!
//! Limits: the cache lines that a sample displaces are not included.

use super::event::{Event, Ring, Whom};
use super::record::Record;
use crate::clock::now_ns;

/// Between two of these samples, in nanoseconds: long enough that one is over before the next.
const PERIOD_NS: u64 = 60_000;
/// The duration of the trial, in nanoseconds.
const LASTS_NS: u64 = 1_500_000;
/// A shorter leap of the clock is not an interruption, in nanoseconds.
const LEAP_NS: u64 = 700;
/// Fewer samples say nothing.
const FEWEST: usize = 5;

/// The cost of a sample, in nanoseconds; `None` if too few came. Afterwards, the ring of this CPU is empty.
pub(super) fn measure(rings: &mut [(u32, Ring)], with_kernel: bool) -> Option<u64> {
    // SAFETY: no pointers.
    let here = u32::try_from(unsafe { libc::sched_getcpu() }).ok()?;
    let (cpu, ring) = rings.iter_mut().find(|(cpu, _)| *cpu == here)?;
    let event = Event::sampling(Whom::Task(0), *cpu, PERIOD_NS, with_kernel, ring).ok()?;
    let mut leaps = Vec::with_capacity(1_024);
    let (begin_ns, mut last_ns) = (now_ns(), now_ns());
    while last_ns < begin_ns + LASTS_NS {
        let now_ns = now_ns();
        if now_ns - last_ns > LEAP_NS {
            leaps.push(now_ns - last_ns);
        }
        last_ns = now_ns;
    }
    drop(event);
    let mut samples = 0;
    ring.drain(|bytes| {
        samples +=
            usize::from(matches!(Record::parse(bytes), Some(Record::Sample(_) | Record::Opaque { .. })));
    });
    of_sample(leaps, samples)
}

/// The cost of one of this many samples, given the lengths of the interruptions.
fn of_sample(mut leaps: Vec<u64>, samples: usize) -> Option<u64> {
    if samples < FEWEST {
        return None;
    }
    leaps.sort_unstable_by(|a, b| b.cmp(a));
    leaps.truncate(samples);
    leaps.get(leaps.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_and_a_lost_cpu_are_not_mistaken_for_samples() {
        let samples = (0..20).map(|n| 14_000 + n * 100);
        let ticks = [2_000, 2_500, 3_000];
        let leaps: Vec<u64> = samples.chain(ticks).chain([4_000_000]).collect();
        let found = of_sample(leaps, 20).unwrap();
        assert!((14_000..16_000).contains(&found), "{found}");
    }

    #[test]
    fn too_few_samples_say_nothing_and_neither_do_samples_without_a_trace() {
        assert_eq!(of_sample(vec![15_000; 30], FEWEST - 1), None);
        assert_eq!(of_sample(Vec::new(), 20), None);
    }
}
