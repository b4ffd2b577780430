//! The decision: how many CPUs a process can get, and why. Pure.

use crate::steady::worth;
use std::fmt;

/// A quota of CPU time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quota {
    /// It could not be read.
    Unknown,
    /// There is none.
    None,
    /// The tightest quota that applies, in milli-CPUs.
    Milli(u64),
}

/// What was read over an interval. `None` means that it could not be read.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    /// CPUs that the process may use.
    pub cpus: Option<u32>,
    /// Its quota.
    pub quota: Quota,
    /// The CPUs that weights guarantee the process when everybody competes, in milli-CPUs.
    pub share: Option<u64>,
    /// Length of the interval in nanoseconds; 0 before the second reading.
    pub interval_ns: u64,
    /// CPU time of all threads of the process, in nanoseconds.
    pub used_ns: Option<u64>,
    /// Idle time of all CPUs that the process may use, in nanoseconds.
    pub idle_ns: Option<u64>,
}

/// What limits [`Answer::available`], or why it is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// Nothing was read yet.
    NotYet,
    /// The CPUs that the process may use.
    Cpuset,
    /// The quota.
    Quota,
    /// Neighbors use the rest.
    Neighbours,
    /// Neighbors use so much that only the guarantee of the weights is left.
    Weight,
    /// Neighbors use the rest. One thread more is tried, to see whether they give way to it.
    Trying,
    /// The CPUs that the process may use could not be read.
    NoCpuset,
    /// The used or the idle CPU time could not be read.
    NoUse,
    /// The process was forked from the one that asked. It has to ask again.
    Forked,
}

const REASONS: [Reason; 9] = [
    Reason::NotYet,
    Reason::Cpuset,
    Reason::Quota,
    Reason::Neighbours,
    Reason::Weight,
    Reason::Trying,
    Reason::NoCpuset,
    Reason::NoUse,
    Reason::Forked,
];

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Reason::NotYet => "no interval has passed yet",
            Reason::Cpuset => "these are the CPUs that this process may use",
            Reason::Quota => "the quota of its cgroup allows no more",
            Reason::Neighbours => "neighbors use the rest",
            Reason::Weight => "neighbors use the rest, and only what its weight guarantees is available",
            Reason::Trying => "neighbors use the rest, and one thread more is tried",
            Reason::NoCpuset => "the CPUs that this process may use could not be read",
            Reason::NoUse => "what this process used or what was idle could not be read",
            Reason::Forked => "this process was forked from the one that asked: make a new `Adapt`",
        })
    }
}

/// How many CPUs a process can get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// CPUs while everybody competes, in milli-CPUs. `None` if weights could not be read, or the cgroup is the root.
    pub guaranteed: Option<u32>,
    /// CPUs while neighbors go on as now, in milli-CPUs.
    pub available: Option<u32>,
    /// How many threads would make progress, at least 1. Steadier than `available`.
    pub threads: Option<u32>,
    /// What limits `available`.
    pub reason: Reason,
}

/// All bits of a 24-bit field: unknown.
const UNKNOWN: u64 = (1 << 24) - 1;

impl Answer {
    /// Makes an answer that knows nothing, for this reason.
    pub fn unknown(reason: Reason) -> Answer {
        Answer { guaranteed: None, available: None, threads: None, reason }
    }

    /// Packs the answer into one word, so that it can be read without a lock: 24 bits a number, 12 for threads (0 is unknown), 4 for
    /// the reason.
    pub(crate) fn packed(&self) -> u64 {
        let milli = |value: Option<u32>| value.map_or(UNKNOWN, |milli| u64::from(milli).min(UNKNOWN - 1));
        let reason = REASONS.iter().position(|reason| *reason == self.reason).expect("all are listed") as u64;
        let threads = u64::from(self.threads.unwrap_or(0).min(4_095));
        milli(self.guaranteed) | milli(self.available) << 24 | threads << 48 | reason << 60
    }

    pub(crate) fn unpacked(word: u64) -> Answer {
        let milli = |field: u64| Some((field & UNKNOWN) as u32).filter(|milli| u64::from(*milli) != UNKNOWN);
        Answer {
            guaranteed: milli(word),
            available: milli(word >> 24),
            threads: Some((word >> 48 & 4_095) as u32).filter(|threads| *threads > 0),
            reason: REASONS[(word >> 60) as usize],
        }
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.available {
            Some(milli) => write!(f, "{} CPUs available: {}", Cpus(milli), self.reason)?,
            None => write!(f, "the number of available CPUs is not known: {}", self.reason)?,
        }
        match self.guaranteed {
            Some(milli) => write!(f, "; {} guaranteed", Cpus(milli)),
            None => f.write_str("; the guaranteed part is not known"),
        }
    }
}

/// Milli-CPUs, displayed as CPUs.
struct Cpus(u32);

impl fmt::Display for Cpus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:02}", self.0 / 1_000, self.0 % 1_000 / 10)
    }
}

/// Decides from a reading how many CPUs the process can get. [`crate::Steady`] sets `threads`. Before the second reading, the number is
/// known only if the guarantee and the limits come to the same one.
///
/// Available is the used plus the idle time, since neighbors had the rest. It is at least the guaranteed share, which neighbors cannot
/// take. A process with few running threads does not see more than it uses plus what is idle, even if it could get more. The rest would
/// come from neighbors, which may or may not give way: [`crate::Steady`] tries that.
pub fn decide(reading: &Reading) -> Answer {
    let Some(cpus) = reading.cpus else { return Answer::unknown(Reason::NoCpuset) };
    let cpus = u64::from(cpus) * 1_000;
    let (most, why_most) = match reading.quota {
        Quota::Milli(quota) if quota < cpus => (quota, Reason::Quota),
        _ => (cpus, Reason::Cpuset),
    };
    let guaranteed = match reading.quota {
        Quota::Unknown => None,
        _ => reading.share.map(|share| share.min(most)),
    };
    let milli = |value: u64| value.min(u64::from(u32::MAX)) as u32;
    let answer = Answer { guaranteed: guaranteed.map(milli), ..Answer::unknown(Reason::NotYet) };
    if reading.interval_ns == 0 {
        // Whatever neighbors do, the number lies between these two.
        let (least, most) = (worth(answer.guaranteed.unwrap_or(0)), worth(milli(most)));
        return Answer { threads: Some(most).filter(|most| *most == least), ..answer };
    }
    let (Some(used), Some(idle)) = (reading.used_ns, reading.idle_ns) else {
        return Answer { reason: Reason::NoUse, ..answer };
    };
    let left = ((u128::from(used) + u128::from(idle)) * 1_000 / u128::from(reading.interval_ns)) as u64;
    // Used and idle time are read one after the other, and their clocks tick apart. So nearly all counts as all.
    let (available, reason) = match guaranteed {
        _ if left + most / 50 >= most => (most, why_most),
        Some(guaranteed) if left < guaranteed => (guaranteed, Reason::Weight),
        _ => (left, Reason::Neighbours),
    };
    Answer { available: Some(milli(available)), reason, ..answer }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A reading with 2 CPUs, no quota and unknown weights over 100 ms. `used` and `idle` are in milliseconds.
    fn reading(used: u64, idle: u64) -> Reading {
        Reading {
            cpus: Some(2),
            quota: Quota::None,
            share: None,
            interval_ns: 100_000_000,
            used_ns: Some(used * 1_000_000),
            idle_ns: Some(idle * 1_000_000),
        }
    }

    #[test]
    fn available_cpus_over_the_whole_space() {
        let r = reading;
        let table = [
            ("alone, all used", r(200, 0), Some(2_000), Reason::Cpuset),
            ("alone, nothing used", r(0, 200), Some(2_000), Reason::Cpuset),
            ("one loop, two threads", r(133, 0), Some(1_330), Reason::Neighbours),
            ("one loop, one thread", r(100, 0), Some(1_000), Reason::Neighbours),
            ("one loop that sleeps half of the time", r(100, 50), Some(1_500), Reason::Neighbours),
            ("starved", r(0, 0), Some(0), Reason::Neighbours),
            (
                "a quota of half a CPU",
                Reading { quota: Quota::Milli(500), ..r(50, 150) },
                Some(500),
                Reason::Quota,
            ),
            (
                "a quota that nobody leaves",
                Reading { quota: Quota::Milli(1_500), ..r(100, 0) },
                Some(1_000),
                Reason::Neighbours,
            ),
            (
                "a quota beyond the CPUs",
                Reading { quota: Quota::Milli(9_000), ..r(200, 0) },
                Some(2_000),
                Reason::Cpuset,
            ),
            (
                "a quota that is not known",
                Reading { quota: Quota::Unknown, ..r(200, 0) },
                Some(2_000),
                Reason::Cpuset,
            ),
            (
                "fewer threads than its weight guarantees CPUs",
                Reading { share: Some(1_500), ..r(100, 0) },
                Some(1_500),
                Reason::Weight,
            ),
            (
                "more than its weight guarantees",
                Reading { share: Some(500), ..r(133, 0) },
                Some(1_330),
                Reason::Neighbours,
            ),
            ("one CPU of the machine", Reading { cpus: Some(1), ..r(100, 0) }, Some(1_000), Reason::Cpuset),
            ("no interval", Reading { interval_ns: 0, ..r(0, 0) }, None, Reason::NotYet),
            ("no CPUs known", Reading { cpus: None, ..r(0, 0) }, None, Reason::NoCpuset),
            ("no use known", Reading { used_ns: None, ..r(0, 0) }, None, Reason::NoUse),
            ("no idle time known", Reading { idle_ns: None, ..r(0, 0) }, None, Reason::NoUse),
        ];
        for (case, reading, available, reason) in table {
            let answer = decide(&reading);
            assert_eq!((answer.available, answer.reason), (available, reason), "{case}");
            assert_eq!(Answer::unpacked(answer.packed()), answer, "{case}");
        }
    }

    #[test]
    fn before_the_second_reading_threads_are_known_if_guarantee_and_limits_agree() {
        let first = Reading { interval_ns: 0, ..reading(0, 0) };
        let table = [
            ("two CPUs, and neighbors may use one", first, None),
            ("one CPU", Reading { cpus: Some(1), ..first }, Some(1)),
            ("a quota of one CPU", Reading { quota: Quota::Milli(1_000), ..first }, Some(1)),
            ("a quota of half a CPU", Reading { quota: Quota::Milli(500), ..first }, Some(1)),
            ("a quota that two threads could use", Reading { quota: Quota::Milli(1_800), ..first }, None),
            ("a guarantee of all CPUs", Reading { share: Some(2_000), ..first }, Some(2)),
            ("a guarantee of one CPU", Reading { share: Some(1_000), ..first }, None),
            ("an unknown quota", Reading { quota: Quota::Unknown, ..first }, None),
        ];
        for (case, reading, threads) in table {
            let answer = decide(&reading);
            assert_eq!((answer.threads, answer.available), (threads, None), "{case}");
        }
    }

    #[test]
    fn the_guarantee_obeys_every_limit_and_is_unknown_if_one_is() {
        let r = reading(100, 0);
        let table = [
            (Reading { share: Some(1_000), ..r }, Some(1_000)),
            (Reading { share: Some(8_000), ..r }, Some(2_000)),
            (Reading { share: Some(1_000), quota: Quota::Milli(300), ..r }, Some(300)),
            (Reading { share: Some(1_000), quota: Quota::Unknown, ..r }, None),
            (Reading { share: None, ..r }, None),
            (Reading { cpus: None, share: Some(1_000), ..r }, None),
        ];
        for (reading, guaranteed) in table {
            assert_eq!(decide(&reading).guaranteed, guaranteed, "{reading:?}");
        }
    }

    #[test]
    fn an_answer_reads_as_a_sentence() {
        let answer = decide(&Reading { share: Some(1_000), ..reading(133, 0) });
        assert_eq!(answer.to_string(), "1.33 CPUs available: neighbors use the rest; 1.00 guaranteed");
        assert_eq!(
            Answer::unknown(Reason::NoCpuset).to_string(),
            "the number of available CPUs is not known: the CPUs that this process may use could not be read; the guaranteed part is not known"
        );
    }

    #[test]
    fn every_reason_survives_packing() {
        for reason in REASONS {
            for threads in [None, Some(1), Some(4_095)] {
                let answer = Answer { guaranteed: Some(0), available: None, threads, reason };
                assert_eq!(Answer::unpacked(answer.packed()), answer);
            }
        }
    }
}
