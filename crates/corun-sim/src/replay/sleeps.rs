//! Does a task sleep until a time, or for a length? What it did decides, since what it asks of the kernel
//! misleads. Some runtimes sleep until a time that they have just computed. A loop that wants to begin every
//! 10 ms may compute the length that is left.
//!
//! Of two series, the steadier one is what the program meant: the length from the call to the deadline, or
//! the step from one deadline to the next. The median absolute deviation says how steady a series is, and a
//! few outliers do not change it.
//!
//! A late task looks at a clock and does not sleep until a time that has passed. So if a task is often late,
//! its steps differ, but each is a whole number of one beat. Then the distance from whole numbers counts.

use super::script::Ends;

/// The fewest sleeps that show a habit.
pub(super) const FEWEST: usize = 5;
/// This many are kept, the newest.
const MOST: usize = 64;
/// One series must be this many times as steady as the other.
const CLEARLY: u64 = 4;
/// Smaller deviations come from reading the clock. If both series are this steady, they do not tell. The
/// computing of a program is hardly ever this steady, disturbed or not.
const STEADY_NS: u64 = 1_000;

/// Lengths that differ by less are one. A sleep that is asked for as a length may begin a little late.
const SAME_NS: u64 = 100_000;

/// The timed sleeps of one task, or of all tasks that another one started.
#[derive(Clone, Debug, Default)]
pub(super) struct Sleeps {
    /// When each was called and until when it should last, in nanoseconds, oldest first.
    calls: Vec<(u64, u64)>,
    as_length: usize,
    seen: usize,
}

impl Sleeps {
    /// `late_ns`: how long its process has wanted CPUs in vain. If a task comes this close to its deadline,
    /// it set the deadline only then.
    pub(super) fn add(&mut self, called_ns: u64, deadline_ns: u64, as_length: bool, late_ns: u64) {
        let length_ns = deadline_ns.saturating_sub(called_ns);
        let as_length = as_length || length_ns > 0 && length_ns.saturating_mul(CLEARLY) <= late_ns;
        if self.calls.len() == MOST {
            self.calls.remove(0);
        }
        self.calls.push((called_ns, deadline_ns));
        self.as_length += usize::from(as_length);
        self.seen += 1;
    }

    /// Whether they are too few to show a habit.
    pub(super) fn are_few(&self) -> bool {
        self.seen < FEWEST
    }

    /// What ends its sleeps. `None`: they show no habit, and the task gave some as a length and others as a time.
    /// So each ends in its own way.
    pub(super) fn habit(&self) -> Option<Ends> {
        let is_mixed = 0 < self.as_length && self.as_length < self.seen;
        Some(self.ends()).filter(|ends| *ends != Ends::Either || !is_mixed)
    }

    /// What ends its sleeps, if all are alike.
    pub(super) fn ends(&self) -> Ends {
        if self.calls.len() < FEWEST {
            // Too few for a habit. A length that is given is meant, unless it is another each time: that may be what is left of a period.
            let lengths = || self.calls.iter().map(|(called, deadline)| deadline.saturating_sub(*called));
            let differ_ns = lengths().max().zip(lengths().min()).map_or(0, |(most, least)| most - least);
            let is_meant = self.seen > 0 && self.as_length == self.seen && differ_ns <= SAME_NS;
            return if is_meant { Ends::AfterItsLength } else { Ends::Either };
        }
        let lengths = || self.calls.iter().map(|(called, deadline)| deadline.wrapping_sub(*called) as i64);
        let steps: Vec<i64> = self.calls.windows(2).map(|w| w[1].1.wrapping_sub(w[0].1) as i64).collect();
        let (mut length, mut step) = (deviations(lengths()), deviations(steps.iter().copied()));
        if length[0] > STEADY_NS {
            step = off_beat(&steps).filter(|off| off[0] < step[0]).unwrap_or(step);
        }
        if length[0].max(step[0]) <= STEADY_NS {
            // Most of them were not disturbed and show nothing. The few disturbed ones do.
            (length[0], step[0]) = (length[1], step[1]);
        }
        if step[0].max(STEADY_NS).saturating_mul(CLEARLY) <= length[0] {
            Ends::AtItsTime
        } else if length[0].max(STEADY_NS).saturating_mul(CLEARLY) <= step[0] {
            Ends::AfterItsLength
        } else {
            Ends::Either
        }
    }
}

/// How far steps are from whole numbers of a beat: the median and the mean. The beat is the step that fits
/// them best. `None`: they are too few, or not clearly nearer than by chance.
fn off_beat(steps: &[i64]) -> Option<[u64; 2]> {
    let off = |beat: i64| {
        let from_whole = |step: &i64| step - (step + beat / 2).div_euclid(beat).max(1) * beat;
        let mut all: Vec<u64> = steps.iter().map(|step| from_whole(step).unsigned_abs()).collect();
        all.sort_unstable();
        let mean = all.iter().map(|&ns| u128::from(ns)).sum::<u128>() / all.len() as u128;
        (beat, [all[all.len() / 2], mean as u64])
    };
    let per_beat = |(beat, off): &(i64, [u64; 2])| off[0] as f64 / *beat as f64;
    let beats = steps.iter().filter(|step| **step > 0);
    let best = beats.map(|beat| off(*beat)).min_by(|a, b| per_beat(a).total_cmp(&per_beat(b)));
    // By chance they would be a quarter of a beat off.
    let is_clear = |(beat, off): &(i64, [u64; 2])| off[0] * 4 * CLEARLY <= beat.unsigned_abs();
    best.filter(|best| steps.len() >= 2 * FEWEST && is_clear(best)).map(|(_, off)| off)
}

/// The median and the mean absolute deviation of a series from its median.
fn deviations(series: impl Iterator<Item = i64>) -> [u64; 2] {
    let mut all: Vec<i64> = series.collect();
    all.sort_unstable();
    let middle = all.get(all.len() / 2).copied().unwrap_or(0);
    let mut off: Vec<u64> = all.into_iter().map(|x| x.abs_diff(middle)).collect();
    off.sort_unstable();
    let mean = off.iter().map(|&x| u128::from(x)).sum::<u128>() / off.len().max(1) as u128;
    [off.get(off.len() / 2).copied().unwrap_or(0), mean as u64]
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// A task that computes for these times between sleeps.
    fn of(computes_ms: &[u64], mut deadline: impl FnMut(u64, u64) -> u64, as_length: bool) -> Ends {
        let (mut sleeps, mut now) = (Sleeps::default(), 0);
        for (i, ms) in computes_ms.iter().enumerate() {
            now += ms * MS;
            let until = deadline(i as u64, now);
            sleeps.add(now, until, as_length, 0);
            now = now.max(until);
        }
        sleeps.ends()
    }

    #[test]
    fn a_sleep_has_the_kind_that_its_deadlines_show_whatever_the_kernel_was_asked() {
        let disturbed = [4, 7, 4, 9, 5, 8, 4, 6, 9, 4];
        let late = [14, 17, 14, 19, 15, 18, 14, 16, 19, 14];
        let mostly_alone = [4, 4, 9, 4, 4, 30, 4, 4, 4, 4];
        let every_10_ms = |i: u64, _| (i + 1) * 10 * MS;
        let for_6_ms = |_, now| now + 6 * MS;
        for as_length in [false, true] {
            for computes in [&disturbed, &late] {
                assert_eq!(of(computes, every_10_ms, as_length), Ends::AtItsTime, "{computes:?}");
                assert_eq!(of(computes, for_6_ms, as_length), Ends::AfterItsLength, "{computes:?}");
            }
        }
        assert_eq!(of(&mostly_alone, every_10_ms, false), Ends::AtItsTime);
        assert_eq!(of(&mostly_alone, for_6_ms, false), Ends::AfterItsLength);
        assert_eq!(of(&[4; 10], for_6_ms, false), Ends::Either, "undisturbed, both are the same");
    }

    #[test]
    fn a_task_that_is_often_late_and_sleeps_for_the_rest_keeps_its_times() {
        // Every 10 ms, sometimes late by up to four beats. The task reads a clock a microsecond before it
        // calls the sleep.
        let skips = [4, 1, 2, 4, 1, 5, 3, 1, 4, 2, 5, 1, 3, 4];
        let mut due = 0;
        let mut sleeps = Sleeps::default();
        for (i, beats) in (0..).zip(skips) {
            due += beats * 10 * MS;
            let left_ns = [300, 2_300, 900, 2_600, 1_200][i % 5] * 1_000;
            sleeps.add(due - left_ns, due + i as u64 * 700 % 1_500, false, 0);
        }
        assert_eq!(sleeps.ends(), Ends::AtItsTime);
        // The same lengths, called whenever something else was over: neither series is steady.
        let mut sleeps = Sleeps::default();
        for i in 0..14u64 {
            let called_ns = i * 20 * MS + i * i * 1_370_000 % (13 * MS);
            sleeps.add(
                called_ns,
                called_ns + [300, 2_300, 900, 2_600, 1_200][i as usize % 5] * 1_000,
                false,
                0,
            );
        }
        assert_ne!(sleeps.ends(), Ends::AtItsTime);
    }

    #[test]
    fn with_few_sleeps_a_length_is_a_length_and_a_time_may_be_either() {
        assert_eq!(of(&[4, 9], |_, now| now + 6 * MS, true), Ends::AfterItsLength);
        assert_eq!(of(&[4, 9], |_, now| now + 6 * MS, false), Ends::Either);
        assert_eq!(of(&[4, 7, 5], |i, _| (i + 1) * 10 * MS, true), Ends::Either, "what is left of a period");
        assert_eq!(Sleeps::default().ends(), Ends::Either);
    }

    #[test]
    fn a_single_time_is_a_length_if_its_program_was_late_by_much_more() {
        for (late_ns, ends) in [(3 * MS, Ends::Either), (4 * MS, Ends::AfterItsLength)] {
            let mut sleeps = Sleeps::default();
            sleeps.add(7 * MS, 8 * MS, false, late_ns);
            assert_eq!(sleeps.ends(), ends);
        }
    }

    #[test]
    fn lengths_that_differ_each_time_are_still_lengths() {
        let mut n = 1u64;
        let mut random = move |_: u64, now: u64| {
            n = n.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            now + (n >> 33) % (2 * MS)
        };
        let computes = [4, 17, 4, 29, 5, 18, 4, 36, 9, 24];
        assert_eq!(of(&computes, &mut random, false), Ends::AfterItsLength);
    }
}
