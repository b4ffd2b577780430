//! Measurements of how the threads of a stretch depend on each other. Live and modelled runs both have them.

use super::seen::{Seen, Waited};
use super::stretches::Stretch;
use serde::{Deserialize, Serialize};

/// Wake-ups by one lane belong together if it computed no longer than this between them, in nanoseconds. A barrier that opens wakes one
/// thread after the other.
const AT_ONCE_NS: u64 = 20_000;

/// The measurements of a stretch.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Traits {
    /// Its length, in nanoseconds.
    pub wall_ns: u64,
    /// CPU time of each thread, in nanoseconds.
    pub cpu_ns: Vec<u64>,
    /// How long each thread waited, for another or for something else, in nanoseconds.
    pub blocked_ns: Vec<u64>,
    /// How often they waited for each other.
    pub waits: u64,
    /// How often they waited for something else, such as a thread of the program that does little.
    pub apart: u64,
    /// How long they waited for something else, in nanoseconds.
    pub apart_ns: u64,
    /// How often a thread let others go on.
    pub openings: u64,
    /// Mean CPU time from one wait to the next, in nanoseconds.
    pub span_ns: u64,
    /// Its standard deviation as a share of the mean, within each thread.
    pub span_varies: f64,
    /// The same as `span_varies`, from one opening to the next.
    pub round_varies: f64,
    /// Of the waits for each other, the share by the thread that had also waited last.
    pub again: f64,
    /// The share of the other threads that an opening lets go on, on average.
    pub together: f64,
    /// For locks: CPU time from being let go on to letting another go on, and from then to the next wait, in nanoseconds. `None` if
    /// there are too few.
    pub hold_and_gap_ns: Option<[u64; 2]>,
}

/// A wake-up of one of a stretch's lanes by another.
#[derive(Clone, Copy, Debug)]
struct Wake {
    at_ns: u64,
    by: usize,
    woken: usize,
}

/// A length with fewer samples is unknown.
const FEW: usize = 5;

impl Traits {
    /// Measures a stretch.
    pub fn of(seen: &Seen, stretch: &Stretch) -> Traits {
        let Stretch { from_ns, to_ns, ref lanes } = *stretch;
        let is_sibling = |w: &Waited| w.by.is_some_and(|by| lanes.contains(&by));
        let clipped = |w: &Waited| w.to_ns.min(to_ns).saturating_sub(w.from_ns.max(from_ns));
        let within = |lane: usize| {
            let waits = &seen.lanes[lane].waits;
            let first = waits.partition_point(|w| w.to_ns <= from_ns);
            waits[first..].iter().take_while(move |w| w.from_ns < to_ns)
        };
        let mut traits = Traits { wall_ns: stretch.wall_ns(), ..Traits::default() };
        let mut wakes = Vec::new();
        let mut spans = Spread::default();
        for &lane in lanes {
            let cpu_ns = seen.lanes[lane].cpu_between(from_ns, to_ns);
            traits.cpu_ns.push(cpu_ns);
            traits.blocked_ns.push(within(lane).map(clipped).sum());
            let mut since_ns = from_ns;
            let mut own = Vec::new();
            for w in within(lane) {
                own.push(seen.lanes[lane].cpu_between(since_ns, w.from_ns.max(since_ns)));
                since_ns = w.to_ns;
                if is_sibling(w) {
                    traits.waits += 1;
                    wakes.extend(w.by.map(|by| Wake { at_ns: w.to_ns, by, woken: lane }));
                } else {
                    traits.apart += 1;
                    traits.apart_ns += clipped(w);
                }
            }
            own.push(seen.lanes[lane].cpu_between(since_ns.min(to_ns), to_ns));
            spans.add(&own);
        }
        wakes.sort_by_key(|w| w.at_ns);
        (traits.span_ns, traits.span_varies) = (spans.mean() as u64, spans.varies());
        traits.openings(seen, stretch, &wakes);
        traits.hold_and_gap_ns = hold_and_gap(seen, stretch, &wakes);
        traits
    }

    /// Measures how threads wake each other.
    fn openings(&mut self, seen: &Seen, stretch: &Stretch, wakes: &[Wake]) {
        let mut opened: Vec<u64> = Vec::new();
        let mut last: Vec<Wake> = Vec::new();
        for &wake in wakes {
            let goes_on = last.first().is_some_and(|first| {
                first.by == wake.by
                    && !last.iter().any(|w| w.woken == wake.woken)
                    && seen.lanes[wake.by].cpu_between(first.at_ns, wake.at_ns)
                        <= AT_ONCE_NS * last.len() as u64
            });
            if !goes_on {
                opened.push(wake.at_ns);
                last.clear();
            }
            last.push(wake);
        }
        self.openings = opened.len() as u64;
        let others = stretch.lanes.len().saturating_sub(1).max(1);
        self.together = wakes.len() as f64 / (opened.len() * others).max(1) as f64;
        let pairs = wakes.windows(2);
        let same = pairs.clone().filter(|pair| pair[0].woken == pair[1].woken).count();
        self.again = same as f64 / pairs.len().max(1) as f64;
        let mut rounds = Spread::default();
        for &lane in &stretch.lanes {
            let lane = &seen.lanes[lane];
            let own: Vec<u64> = opened.windows(2).map(|at| lane.cpu_between(at[0], at[1])).collect();
            rounds.add(&own);
        }
        self.round_varies = rounds.varies();
    }

    /// How many threads.
    pub fn threads(&self) -> usize {
        self.cpu_ns.len()
    }

    /// CPU time of all.
    pub fn all_cpu_ns(&self) -> u64 {
        self.cpu_ns.iter().sum()
    }

    /// How far another run is from this one; 0 is equal. `part` is the length of the other run as a share of this one's.
    pub fn misfit(&self, other: &Traits, part: f64) -> f64 {
        let factor = |a: f64, b: f64| ((a + 1.0) / (b + 1.0)).ln().abs();
        let blocked = |t: &Traits| {
            let mut all: Vec<f64> =
                t.blocked_ns.iter().map(|ns| *ns as f64 / t.wall_ns.max(1) as f64).collect();
            all.sort_by(f64::total_cmp);
            all
        };
        let apart = blocked(self).iter().zip(blocked(other)).map(|(a, b)| (a - b).abs()).sum::<f64>();
        let waits = self.waits as f64 * part;
        // With few waits it is chance which thread waits.
        let pattern = if waits >= FEW as f64 && other.waits >= FEW as u64 {
            (self.again - other.again).abs() + (self.together - other.together).abs()
        } else {
            0.0
        };
        factor(self.wall_ns as f64 * part, other.wall_ns as f64)
            + apart / self.threads().max(1) as f64
            + COUNT_WEIGHS * factor(waits, other.waits as f64)
            + PATTERN_WEIGHS * pattern
    }
}

/// The weight of a factor e in the number of waits, and of a difference of 1 in who waits, against a factor e in length.
const COUNT_WEIGHS: f64 = 0.1;
const PATTERN_WEIGHS: f64 = 0.2;

/// Median CPU times of threads: from being let go on until they let another go on, and from then until they wait.
fn hold_and_gap(seen: &Seen, stretch: &Stretch, wakes: &[Wake]) -> Option<[u64; 2]> {
    let (mut holds, mut gaps) = (Vec::new(), Vec::new());
    for &lane in &stretch.lanes {
        let run = &seen.lanes[lane];
        let let_go: Vec<u64> = wakes.iter().filter(|w| w.woken == lane).map(|w| w.at_ns).collect();
        let lets_go: Vec<u64> = wakes.iter().filter(|w| w.by == lane).map(|w| w.at_ns).collect();
        let waits = &run.waits;
        let next_wait = |t_ns: u64| {
            let next = waits.get(waits.partition_point(|w| w.from_ns < t_ns))?;
            Some(next.from_ns)
        };
        let next_of = |all: &[u64], t_ns: u64| all.get(all.partition_point(|at| *at <= t_ns)).copied();
        for &at_ns in &let_go {
            let Some(then_ns) = next_of(&lets_go, at_ns) else { continue };
            if next_wait(at_ns).is_none_or(|wait_ns| wait_ns >= then_ns) {
                holds.push(run.cpu_between(at_ns, then_ns));
            }
        }
        for &at_ns in &lets_go {
            let Some(wait_ns) = next_wait(at_ns) else { continue };
            if next_of(&lets_go, at_ns).is_none_or(|again_ns| again_ns > wait_ns) {
                gaps.push(run.cpu_between(at_ns, wait_ns));
            }
        }
    }
    let median = |mut all: Vec<u64>| {
        all.sort_unstable();
        (all.len() >= FEW).then(|| all[all.len() / 2])
    };
    Some([median(holds)?, median(gaps)?])
}

/// Mean and variation of lengths. Each group has its own mean.
#[derive(Default)]
struct Spread {
    n: usize,
    sum: f64,
    squares: f64,
}

impl Spread {
    fn add(&mut self, all: &[u64]) {
        let mean = all.iter().sum::<u64>() as f64 / all.len().max(1) as f64;
        self.n += all.len();
        self.sum += mean * all.len() as f64;
        // Relative to the mean of the group: threads with other shares of the work vary by the same share.
        if mean > 0.0 {
            self.squares += all.iter().map(|x| (*x as f64 / mean - 1.0).powi(2)).sum::<f64>();
        }
    }

    fn mean(&self) -> f64 {
        self.sum / self.n.max(1) as f64
    }

    fn varies(&self) -> f64 {
        (self.squares / self.n.max(1) as f64).sqrt()
    }
}
