//! Finds workers without a sign of life, by beats that stand still, and decides how often to look. Pure: times are nanoseconds since
//! any one instant.

use std::collections::TryReserveError;

/// The most steps of an observer between two looks, so that looking costs nothing compared with the steps.
const MOST_STEPS: u64 = 128;
/// While the observer takes this many steps, a worker without a new beat may still be in the middle of one.
const STEPS_OF_PATIENCE: u64 = 4;

/// What one observer, itself a worker, knows of the workers' beats.
#[derive(Clone, Debug)]
pub struct Beats {
    stale_after_ns: u64,
    last_ns: u64,
    was_away: bool,
    seen: Box<[Seen]>,
    /// Steps of the observer since the last look, and how many there are until the next.
    steps: u32,
    every: u32,
    /// How long a step of the observer takes. It at most doubles from look to look, so that a look after a time without a CPU counts
    /// little.
    step_ns: Option<u64>,
}

/// The last beat of a worker, when it was new, and whether it was new at the last look.
#[derive(Clone, Copy, Debug)]
struct Seen {
    beat: u64,
    at_ns: u64,
    is_new: bool,
}

impl Beats {
    /// A worker is stale if it shows no new beat for longer than `stale_after_ns`, and for longer than a few steps of the observer
    /// take. At `now_ns` nothing is known yet.
    pub fn new(workers: usize, stale_after_ns: u64, now_ns: u64) -> Beats {
        Beats::try_new(workers, stale_after_ns, now_ns).expect("there is memory for this many workers")
    }

    /// Like `new`, but fails if there is no memory for this many workers.
    pub(crate) fn try_new(
        workers: usize,
        stale_after_ns: u64,
        now_ns: u64,
    ) -> Result<Beats, TryReserveError> {
        let mut seen = Vec::new();
        seen.try_reserve_exact(workers)?;
        seen.resize(workers, Seen { beat: 0, at_ns: now_ns, is_new: false });
        Ok(Beats {
            stale_after_ns,
            last_ns: now_ns,
            was_away: true,
            seen: seen.into(),
            steps: 0,
            every: 1,
            step_ns: None,
        })
    }

    /// Counts a step of the observer, after which it beats. Returns whether it is time to look: at least twice within `stale_after_ns`,
    /// unless steps are longer.
    #[inline]
    pub fn stepped(&mut self) -> bool {
        self.steps += 1;
        self.steps >= self.every
    }

    /// Looks at all workers. `worker` returns the beat of one, and whether it sleeps, which does not count as standing still. An
    /// observer that did not look for long was off its own CPU: it knows nothing about the others and begins again.
    pub fn look(&mut self, now_ns: u64, worker: impl Fn(usize) -> (u64, bool)) {
        let passed_ns = now_ns - self.last_ns;
        if self.steps > 0 {
            let step_ns = (passed_ns / u64::from(self.steps)).max(1);
            let step_ns = self.step_ns.map_or(step_ns, |before| step_ns.min(2 * before));
            (self.step_ns, self.steps) = (Some(step_ns), 0);
            self.every = (self.patience_ns() / 2 / step_ns).clamp(1, MOST_STEPS) as u32;
        }
        self.was_away = passed_ns > self.patience_ns();
        self.last_ns = now_ns;
        for (number, seen) in self.seen.iter_mut().enumerate() {
            let (beat, is_asleep) = worker(number);
            let is_new = beat != seen.beat;
            let at_ns = if is_new || self.was_away || is_asleep { now_ns } else { seen.at_ns };
            *seen = Seen { beat, at_ns, is_new };
        }
    }

    fn patience_ns(&self) -> u64 {
        self.stale_after_ns.max(STEPS_OF_PATIENCE * self.step_ns.unwrap_or(0))
    }

    /// Whether a worker was stale at the last look.
    pub fn is_stale(&self, worker: usize) -> bool {
        self.last_ns - self.seen[worker].at_ns > self.patience_ns()
    }

    /// Whether a worker's beat was new at the last look.
    pub fn is_new(&self, worker: usize) -> bool {
        self.seen[worker].is_new
    }

    /// Whether the observer itself was off its CPU before the last look.
    pub fn was_away(&self) -> bool {
        self.was_away
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: u64 = 1_000;

    /// When the observer finds worker 1 stale, with steps of this length. Worker 1 beats until `stops_ns`; worker 0 observes.
    fn found_stale(step_ns: u64, stops_ns: u64) -> Option<u64> {
        let mut beats = Beats::new(2, 200 * US, 0);
        let mut now_ns = 0;
        while now_ns < stops_ns + 100 * step_ns + 5_000 * US {
            now_ns += step_ns;
            if beats.stepped() {
                let beat = now_ns.min(stops_ns) / step_ns;
                beats.look(now_ns, |worker| (if worker == 0 { 0 } else { beat }, worker == 0));
                if beats.is_stale(1) {
                    return Some(now_ns);
                }
            }
        }
        None
    }

    #[test]
    fn with_steps_of_any_length_only_a_worker_that_stops_is_found_and_soon() {
        let stops_ns = 50_000 * US;
        for micros in [1, 5, 20, 100, 300, 2_000] {
            let patience_ns = (200 * US).max(4 * micros * US);
            let found_ns = found_stale(micros * US, stops_ns).expect("it stopped for good");
            assert!(found_ns > stops_ns + patience_ns / 2, "{micros} us: found too soon, {found_ns}");
            assert!(found_ns < stops_ns + 3 * patience_ns, "{micros} us: found too late, {found_ns}");
        }
    }

    #[test]
    fn an_observer_that_was_away_for_long_knows_nothing_and_soon_looks_as_often_as_before() {
        let mut beats = Beats::new(2, 200 * US, 0);
        let mut now_ns = 0;
        let mut looks = |beats: &mut Beats, steps: u32| {
            for _ in 0..steps {
                now_ns += 10 * US;
                if beats.stepped() {
                    beats.look(now_ns, |_| (7, false));
                }
            }
            now_ns += 4_000 * US;
            now_ns
        };
        let back_ns = looks(&mut beats, 1_000);
        assert!(beats.is_stale(1), "it stands still for 10 ms");
        beats.stepped();
        beats.look(back_ns, |_| (7, false));
        assert!(beats.was_away() && !beats.is_stale(1), "the observer had no CPU for 4 ms");
        looks(&mut beats, 200);
        assert!((5..=10).contains(&beats.every), "100 us are 10 steps, {}", beats.every);
    }
}
