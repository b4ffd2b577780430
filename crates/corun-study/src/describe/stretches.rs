//! Cuts a run into stretches with a constant number of computing lanes: serial parts, and threads that come and go.

use super::seen::Seen;

/// A lane with at least this share of the program's CPU time is a worker; the others are its helpers.
const WORKER: f64 = 0.05;
/// A run is divided into this many equal parts. So the ends of a stretch are known to one part.
const PARTS: u64 = 100;
/// A worker computes in a part if it has at least this share of it.
const COMPUTES: f64 = 0.05;
/// A stretch of fewer parts belongs to the one next to it.
const SHORTEST: usize = 3;

/// A stretch of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// When it begins, in nanoseconds.
    pub from_ns: u64,
    /// When it ends, in nanoseconds.
    pub to_ns: u64,
    /// The lanes that compute in it, by their number.
    pub lanes: Vec<usize>,
}

impl Stretch {
    /// Its length.
    pub fn wall_ns(&self) -> u64 {
        self.to_ns - self.from_ns
    }
}

/// The workers of a run, by their lanes.
pub fn workers(seen: &Seen) -> Vec<usize> {
    let cpu_ns: Vec<u64> = seen.lanes.iter().map(|lane| lane.cpu_before(seen.end_ns)).collect();
    let all_ns: u64 = cpu_ns.iter().sum();
    let is_worker = |lane: &usize| cpu_ns[*lane] > 0 && cpu_ns[*lane] as f64 >= WORKER * all_ns as f64;
    (0..cpu_ns.len()).filter(is_worker).collect()
}

/// The stretches of a run, in order of time. Empty if no thread computed.
pub fn stretches(seen: &Seen) -> Vec<Stretch> {
    let workers = workers(seen);
    let edge = |part: u64| {
        seen.start_ns + (u128::from(seen.wall_ns()) * u128::from(part) / u128::from(PARTS)) as u64
    };
    let computing = |part: u64| {
        let (from_ns, to_ns) = (edge(part), edge(part + 1));
        let computes = |lane: &&usize| {
            seen.lanes[**lane].cpu_between(from_ns, to_ns) as f64 >= COMPUTES * (to_ns - from_ns) as f64
        };
        workers.iter().filter(computes).count()
    };
    // Consecutive parts with the same number: how many lanes compute, and how many parts.
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for part in 0..PARTS {
        // If no lane computes, the program waits for something outside. That belongs to the stretch before.
        let count = match computing(part) {
            0 => runs.last().map_or(1, |(count, _)| *count),
            count => count,
        };
        match runs.last_mut() {
            Some((last, parts)) if *last == count => *parts += 1,
            _ => runs.push((count, 1)),
        }
    }
    smooth(&mut runs);
    let mut part = 0;
    let stretch = |(count, parts): (usize, usize)| {
        let (from_ns, to_ns) = (edge(part), edge(part + parts as u64));
        part += parts as u64;
        let mut lanes = workers.clone();
        lanes.sort_by_key(|lane| std::cmp::Reverse(seen.lanes[*lane].cpu_between(from_ns, to_ns)));
        lanes.truncate(count);
        lanes.sort_unstable();
        Stretch { from_ns, to_ns, lanes }
    };
    if workers.is_empty() {
        return Vec::new();
    }
    runs.into_iter().map(stretch).collect()
}

/// Joins short sequences with the longer one next to them, the shortest first.
fn smooth(runs: &mut Vec<(usize, usize)>) {
    loop {
        let shortest = (0..runs.len()).min_by_key(|i| runs[*i].1);
        let Some(i) = shortest.filter(|i| runs.len() > 1 && runs[*i].1 < SHORTEST) else { return };
        let (_, parts) = runs.remove(i);
        let before = i.checked_sub(1);
        let into = match before {
            Some(before) if i == runs.len() || runs[before].1 >= runs[i].1 => before,
            _ => i,
        };
        runs[into].1 += parts;
        // Sequences that were apart may be equal now.
        runs.dedup_by(|next, last| {
            let alike = next.0 == last.0;
            last.1 += if alike { next.1 } else { 0 };
            alike
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_sequence_joins_the_longer_of_its_neighbors() {
        let mut runs = vec![(1, 30), (2, 1), (1, 9), (2, 59), (1, 1)];
        smooth(&mut runs);
        assert_eq!(runs, [(1, 40), (2, 60)]);
        let mut one = vec![(2, 1)];
        smooth(&mut one);
        assert_eq!(one, [(2, 1)]);
    }
}
