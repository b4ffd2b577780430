//! `--dc auto`: finds a degree of contention online, by hill climbing on useful CPU time.
//!
//! The rungs of the ladder are the number of CPUs times 1/2, 3/4, 1, 5/4, 3/2, 2, 3 and 4, without those that let no more run together.
//! Each tried rung runs for some rotations. Its score is the useful part of all CPU time: time on a CPU without spinning. If spinning
//! is unknown, the useful part of a tenant's CPU time is taken to be the running part of its runnable time: threads of a program that
//! wait for one another lose about as much as the one that waits longest. A DC that is too low scores low because CPUs idle. One that
//! is too high scores low because threads spin or wait.
//!
//! The search starts with one CPU-bound task per CPU. It goes up while that is better by 2 %, else down, and stays if neither is. It
//! asks again after 10 s, then 20 s, and so on up to 160 s, and at once when the sum of the weights changes by a quarter.
//!
//! Limit: contention for caches and memory shows in the score only if it makes threads wait for one another.

use crate::census::{knows_spin, TenantUse};
use corun_model::reason::DcSearched;
use corun_model::Observation;

/// Rungs, in quarters of the number of CPUs.
const LADDER: [u64; 8] = [2, 3, 4, 5, 6, 8, 12, 16];
/// The least slots for which a rung is tried; and the slots per tenant.
const SLOTS: u64 = 16;
const SLOTS_PER_TENANT: u64 = 4;
/// A rung must be better by this, in thousandths of the present one's score.
const BETTER_MILLI: u64 = 20;
const FIRST_HOLD_NS: u64 = 10_000_000_000;
const LONGEST_HOLD_NS: u64 = 160_000_000_000;

/// The state of the search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doing {
    /// It measures the present rung.
    Measure,
    /// It tries the next rung in a direction.
    Try { up: bool },
    /// It stays until then.
    Hold { until_ns: u64 },
}

/// The search.
#[derive(Clone, Debug)]
pub struct DcSearch {
    slot_ns: u64,
    /// Degrees of contention that differ in which tenants may run together, ascending.
    rungs: Vec<u64>,
    rung: usize,
    doing: Doing,
    /// The present rung's score, in thousandths of all CPU time.
    score_milli: u64,
    /// Whether it has already gone up, or down, since it last held.
    moved: Option<bool>,
    hold_ns: u64,
    since_ns: Option<u64>,
    useful_ns: u64,
    weights: u64,
}

impl DcSearch {
    /// Starts a search with slots of this length.
    pub fn new(slot_ns: u64) -> DcSearch {
        DcSearch {
            slot_ns,
            rungs: Vec::new(),
            rung: 0,
            doing: Doing::Measure,
            score_milli: 0,
            moved: None,
            hold_ns: FIRST_HOLD_NS,
            since_ns: None,
            useful_ns: 0,
            weights: 0,
        }
    }

    /// Whether it is trying rungs. Their results differ from that of the final one.
    pub fn is_searching(&self) -> bool {
        !self.rungs.is_empty() && !matches!(self.doing, Doing::Hold { .. })
    }

    /// The same search after an interruption: its result holds, and the present measurement starts again.
    pub fn resumed(&self) -> DcSearch {
        DcSearch { since_ns: None, useful_ns: 0, ..self.clone() }
    }

    /// Takes in the last window. Returns the present DC, and how it was found.
    pub fn step(&mut self, cpus: u64, seen: &Observation, uses: &[TenantUse]) -> (u64, Option<DcSearched>) {
        let weights: u64 = uses.iter().map(|u| u.weight).sum();
        if weights.abs_diff(self.weights) * 4 > self.weights.max(1) {
            let rungs = rungs(cpus, uses.iter().map(|u| u.weight));
            let rung = rungs.iter().rposition(|&dc| dc <= cpus).unwrap_or(0);
            *self = DcSearch { rungs, rung, weights, ..DcSearch::new(self.slot_ns) };
        }
        if self.rungs.is_empty() {
            return (cpus, None);
        }
        let since_ns = *self.since_ns.get_or_insert(seen.start_ns);
        self.useful_ns += uses.iter().map(useful_ns).sum::<u64>();
        let tried_ns = seen.end_ns - since_ns;
        let enough_ns = self.slot_ns * SLOTS.max(SLOTS_PER_TENANT * uses.len() as u64);
        match self.doing {
            Doing::Hold { until_ns } if seen.end_ns < until_ns => {}
            Doing::Hold { .. } => self.begin(Doing::Measure),
            Doing::Measure | Doing::Try { .. } if tried_ns >= enough_ns => {
                let score_milli = self.useful_ns * 1_000 / (cpus * tried_ns);
                self.judge(score_milli, seen.end_ns);
            }
            _ => {}
        }
        let useful_milli = self.score_milli;
        let how = match self.doing {
            Doing::Measure => DcSearched::Measured,
            Doing::Try { .. } => DcSearched::Tried { useful_milli, holds: self.rungs[self.rung] },
            Doing::Hold { .. } => DcSearched::Found { useful_milli },
        };
        (self.rungs[self.tried()], Some(how))
    }

    /// The present rung, or the one that is being tried.
    fn tried(&self) -> usize {
        match self.doing {
            Doing::Try { up } => self.next(up).unwrap_or(self.rung),
            _ => self.rung,
        }
    }

    /// The rung above or below, if there is one.
    fn next(&self, up: bool) -> Option<usize> {
        match up {
            true => Some(self.rung + 1).filter(|&r| r < self.rungs.len()),
            false => self.rung.checked_sub(1),
        }
    }

    fn begin(&mut self, doing: Doing) {
        (self.doing, self.since_ns, self.useful_ns) = (doing, None, 0);
    }

    fn judge(&mut self, score_milli: u64, now_ns: u64) {
        let direction = match self.doing {
            Doing::Try { up } => {
                if score_milli * 1_000 > self.score_milli * (1_000 + BETTER_MILLI) {
                    self.rung = self.next(up).unwrap_or(self.rung);
                    (self.score_milli, self.moved) = (score_milli, Some(up));
                    Some(up)
                } else if up && self.moved.is_none() {
                    Some(false)
                } else {
                    None
                }
            }
            _ => {
                (self.score_milli, self.moved) = (score_milli, None);
                Some(true)
            }
        };
        let towards = match direction {
            Some(true) if self.next(true).is_none() && self.moved.is_none() => Some(false),
            other => other,
        };
        match towards.filter(|&up| self.next(up).is_some()) {
            Some(up) => self.begin(Doing::Try { up }),
            None => {
                self.begin(Doing::Hold { until_ns: now_ns + self.hold_ns });
                self.hold_ns = (2 * self.hold_ns).min(LONGEST_HOLD_NS);
            }
        }
    }
}

/// The ladder for tenants of these weights, without rungs that let no more run together than the one below.
fn rungs(cpus: u64, weights: impl Iterator<Item = u64>) -> Vec<u64> {
    let most = (cpus * LADDER[LADDER.len() - 1] / 4).max(1) as usize;
    // The possible sums of weights.
    let mut sums = vec![false; most + 1];
    sums[0] = true;
    for weight in weights.map(|w| w as usize).filter(|w| (1..=most).contains(w)) {
        for sum in (weight..=most).rev() {
            sums[sum] |= sums[sum - weight];
        }
    }
    let mut rungs: Vec<u64> = Vec::new();
    let mut reached = None;
    for dc in LADDER.map(|quarters| (cpus * quarters / 4).max(1)) {
        let reaches = sums[..=dc as usize].iter().rposition(|there| *there);
        if reaches != reached {
            rungs.push(dc);
            reached = reaches;
        }
    }
    rungs
}

/// The useful part of a tenant's CPU time, in nanoseconds.
fn useful_ns(u: &TenantUse) -> u64 {
    if knows_spin(u.judged_ns, u.on_cpu_ns) {
        return u.useful_ns;
    }
    let runnable_ns = (u.on_cpu_ns + u.steal_ns).max(1);
    (u128::from(u.on_cpu_ns) * u128::from(u.on_cpu_ns) / u128::from(runnable_ns)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rungs_that_change_nothing_are_left_out() {
        assert_eq!(rungs(8, [8, 8, 8].into_iter()), [4, 8, 16, 24]);
        assert_eq!(rungs(48, [20, 43, 20, 5].into_iter()), [24, 36, 48, 72, 96]);
        assert_eq!(rungs(2, std::iter::empty()), [1]);
    }
}
