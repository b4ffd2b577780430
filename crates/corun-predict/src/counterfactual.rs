//! What is known about a run alone by better means than sums: the seam for a replay of the recorded run.
//!
//! Sums of time tell how much was stolen, but not whether it mattered. Theft may have shortened a sleep, or it may have hit a task that
//! nobody waited for. The order of events can tell. A source that knows it says of a stretch of the run how long the subject would have
//! taken alone for the work in that stretch ([`AloneTime`]). Its answer is preferred to sums, within the bounds that hold in any case.

use serde::{Deserialize, Serialize};

/// How long the subject would have taken alone for the work in a stretch of its run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct AloneTime {
    /// Start of the stretch on the host's clock, in nanoseconds.
    pub start_ns: u64,
    /// Its end; after its start.
    pub end_ns: u64,
    /// The time alone, in nanoseconds: at least, most likely, at most, in this order. It may be longer than the stretch: a program may
    /// take longer alone.
    pub alone_ns: [f64; 3],
    /// Whether spinning was separated from computing. If not, this says little about a program that spins.
    #[serde(default)]
    pub tells_spinning: bool,
    /// How long it slept again and again while none of its tasks was at work, in nanoseconds. Perhaps it looked for something outside of
    /// it, and nobody knows what delayed that.
    #[serde(default)]
    pub looked_ns: f64,
}

/// How much of a stretch evidence covers, and the loss in that part.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Covered {
    /// Time that evidence covers, in nanoseconds.
    pub wall_ns: f64,
    /// Lost in that time, in nanoseconds: at least, most likely, at most. Less than 0 if it would take longer alone.
    pub lost_ns: [f64; 3],
    /// Whether [`AloneTime::tells_spinning`] is true in all of it.
    pub tells_spinning: bool,
}

/// All evidence of a run, in the order of time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Counterfactual(Vec<AloneTime>);

/// Limit: most stretches that are kept apart; beyond it, neighbours become one.
const MOST: usize = 4_096;

impl Counterfactual {
    /// Adds what is known about another stretch. A stretch that is empty, is out of order or begins before the last one ended cannot be
    /// counted once, and is left out.
    pub fn push(&mut self, evidence: AloneTime) {
        let [least, likely, most] = evidence.alone_ns;
        let is_ordered = 0.0 <= least && least <= likely && likely <= most && most.is_finite();
        let is_later = self.0.last().is_none_or(|last| last.end_ns <= evidence.start_ns);
        if !is_ordered || !is_later || evidence.end_ns <= evidence.start_ns {
            return;
        }
        if self.0.len() == MOST {
            self.0 = self.0.chunks(2).map(together).collect();
        }
        self.0.push(evidence);
    }

    /// For how long it may have looked for something outside of it, in nanoseconds.
    pub fn looked_ns(&self) -> f64 {
        self.0.iter().map(|e| e.looked_ns).sum()
    }

    /// What is known about this stretch of the host's clock. Evidence that reaches beyond it counts in proportion.
    pub fn of(&self, start_ns: u64, end_ns: u64) -> Covered {
        let first = self.0.partition_point(|e| e.end_ns <= start_ns);
        let within = self.0[first..].iter().take_while(|e| e.start_ns < end_ns);
        let mut covered = Covered { tells_spinning: true, ..Covered::default() };
        for e in within {
            let length_ns = (e.end_ns - e.start_ns) as f64;
            let part_ns = (e.end_ns.min(end_ns) - e.start_ns.max(start_ns)) as f64;
            let [least, likely, most] =
                e.alone_ns.map(|alone_ns| (length_ns - alone_ns) * part_ns / length_ns);
            covered.wall_ns += part_ns;
            covered.tells_spinning &= e.tells_spinning;
            covered.lost_ns =
                [covered.lost_ns[0] + most, covered.lost_ns[1] + likely, covered.lost_ns[2] + least];
        }
        covered
    }
}

/// Two consecutive stretches as one. The time between them is assumed to have lost as much as they did.
fn together(pair: &[AloneTime]) -> AloneTime {
    let [a, b] = pair else { return pair[0] };
    let of = |e: &AloneTime| (e.end_ns - e.start_ns) as f64;
    let stretch = (b.end_ns - a.start_ns) as f64 / (of(a) + of(b));
    let alone = |i: usize| (a.alone_ns[i] + b.alone_ns[i]) * stretch;
    let alone_ns = [alone(0), alone(1), alone(2)];
    let tells_spinning = a.tells_spinning && b.tells_spinning;
    let looked_ns = a.looked_ns + b.looked_ns;
    AloneTime { start_ns: a.start_ns, end_ns: b.end_ns, alone_ns, tells_spinning, looked_ns }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn evidence(start_ns: u64, alone_ns: [f64; 3]) -> AloneTime {
        let end_ns = start_ns + 100;
        AloneTime { start_ns, end_ns, alone_ns, tells_spinning: true, looked_ns: 0.0 }
    }

    #[test]
    fn what_lies_in_a_stretch_counts_in_proportion() {
        let mut known = Counterfactual::default();
        known.push(evidence(0, [40.0, 50.0, 80.0]));
        known.push(evidence(200, [100.0, 100.0, 120.0]));
        assert_eq!(known.of(0, 100).lost_ns, [20.0, 50.0, 60.0]);
        let half = known.of(50, 200);
        assert_eq!((half.wall_ns, half.lost_ns), (50.0, [10.0, 25.0, 30.0]));
        assert_eq!(known.of(200, 300).lost_ns, [-20.0, 0.0, 0.0], "it may take longer alone");
        assert_eq!(known.of(100, 200).wall_ns, 0.0, "nobody knows");
    }

    #[test]
    fn what_cannot_be_or_would_count_twice_is_left_out() {
        let mut known = Counterfactual::default();
        known.push(evidence(100, [50.0; 3]));
        let before = known.clone();
        for wrong in [
            evidence(150, [50.0; 3]),
            evidence(300, [60.0, 50.0, 70.0]),
            evidence(300, [f64::NAN; 3]),
            evidence(300, [0.0, 1.0, f64::INFINITY]),
            AloneTime { end_ns: 300, ..evidence(300, [50.0; 3]) },
        ] {
            known.push(wrong);
        }
        assert_eq!(known, before);
    }

    #[test]
    fn a_long_run_keeps_its_loss_when_neighbours_become_one() {
        let mut known = Counterfactual::default();
        (0..3 * MOST as u64).for_each(|i| known.push(evidence(i * 100, [20.0, 25.0, 75.0])));
        assert!(known.0.len() <= MOST);
        let all = known.of(0, 300 * MOST as u64);
        let wall_ns = 300.0 * MOST as f64;
        assert_eq!((all.wall_ns, all.lost_ns), (wall_ns, [0.25, 0.75, 0.8].map(|x| x * wall_ns)));
    }
}
