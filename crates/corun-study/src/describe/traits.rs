//! What a stretch of a run shows of how its threads depend on each other, in numbers that a live and a modelled run both have.

use super::seen::{Seen, Waited};
use super::stretches::Stretch;
use serde::{Deserialize, Serialize};

/// Wake-ups by one lane belong together if it computed for no longer between them, in nanoseconds: a barrier that opens wakes
/// one thread after the other.
const AT_ONCE_NS: u64 = 20_000;

/// What a stretch shows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Traits {
    /// Its length, in nanoseconds.
    pub wall_ns: u64,
    /// CPU time of each thread.
    pub cpu_ns: Vec<u64>,
    /// How long each waited, for each other or for something else.
    pub blocked_ns: Vec<u64>,
    /// How often they waited for each other.
    pub waits: u64,
    /// How often for something else, which may be another thread of the program that does little.
    pub apart: u64,
    /// And for how long.
    pub apart_ns: u64,
    /// Occasions at which one let others go on.
    pub openings: u64,
    /// CPU time from one wait to the next: the mean, and the standard deviation as a share of it, within each thread.
    pub span_ns: u64,
    /// See `span_ns`.
    pub span_varies: f64,
    /// The same from one opening to the next.
    pub round_varies: f64,
    /// Of waits for each other, the share that were of the thread that had waited last, too.
    pub again: f64,
    /// How many of the other threads an opening let go on, as a share.
    pub together: f64,
    /// Lock-like: CPU time from being let go on to letting another go on, and from that to the next wait. `None`: too few.
    pub hold_and_gap_ns: Option<[u64; 2]>,
}

/// A wake-up of one of a stretch's lanes by another.
#[derive(Clone, Copy, Debug)]
struct Wake {
    at_ns: u64,
    by: usize,
    woken: usize,
}

/// Fewer samples of a length tell nothing of it.
const FEW: usize = 5;

impl Traits {
    /// Those of a stretch.
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

    /// What the wake-ups of each other tell.
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

    /// How far another run is from this one: 0 is alike. Its length may be another part of the same.
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
        // Of a handful of waits it is chance who waits.
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

/// What a factor e in the number of waits, and a whole in who waits, weigh beside a factor e in length.
const COUNT_WEIGHS: f64 = 0.1;
const PATTERN_WEIGHS: f64 = 0.2;

/// The medians of what threads compute from being let go on until they let another go on, and from then until they wait.
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

/// Mean and variation of lengths, each group around a mean of its own.
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
        // As a share of the group's own mean: threads with other shares of the work vary by as much.
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
