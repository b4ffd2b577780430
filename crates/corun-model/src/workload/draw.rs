//! The random lengths of a workload: the length of its n-th grain or busy interval.
//!
//! A length is a pure function of (seed, lane, index), not the next value of a stream, so it does not depend on the order of calls. So
//! a grain has the same length on the live and on the modelled machine, in solo runs and co-runs, and for any thread that takes it from
//! a queue. The function is SplitMix64's mixer (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", OOPSLA'14),
//! applied to the three numbers in turn.

use super::program::{Interference, Parallel, Pattern};

/// 64 uniformly distributed bits for the `index`-th draw of `lane`.
pub fn bits(seed: u64, lane: u64, index: u64) -> u64 {
    const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;
    fn mix(mut z: u64) -> u64 {
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    [lane, index].iter().fold(mix(seed.wrapping_add(GAMMA)), |state, part| {
        mix(state.wrapping_add(part.wrapping_add(1).wrapping_mul(GAMMA)))
    })
}

/// A uniformly distributed integer in `min..=max`.
fn between(min: u64, max: u64, bits: u64) -> u64 {
    let span = u128::from(max - min) + 1;
    min + ((u128::from(bits) * span) >> 64) as u64
}

/// Rounds a length of at least 0 to the nearest nanosecond, halves up. It is `f64::round` without a function call on targets that have
/// no instruction for it.
pub fn nearest_ns(ns: f64) -> u64 {
    let whole = ns as u64;
    whole.saturating_add(u64::from(ns - whole as f64 >= 0.5))
}

impl Interference {
    /// Length in nanoseconds, by the clock of [`Interference::busy_by`], of the `index`-th busy interval of `thread`;
    /// `None` for persistent interference, which has only one.
    pub fn busy_ns(&self, thread: u32, index: u64) -> Option<u64> {
        match self.pattern {
            Pattern::Persistent => None,
            Pattern::Periodic => Some(self.busy),
            Pattern::Intermittent => {
                Some(between(self.busy_min, self.busy_max, bits(self.seed, u64::from(thread), index)))
            }
        }
    }

    /// Length in nanoseconds of the idle interval that follows `busy_ns`, so that the demand holds for the pair.
    pub fn idle_ns(&self, busy_ns: u64) -> u64 {
        nearest_ns(busy_ns as f64 * (1.0 - self.demand) / self.demand)
    }
}

impl Parallel {
    /// Length in nanoseconds of solo run time of the `index`-th grain of `lane`. A lane is a thread if each
    /// thread has its own grains (barrier, lock, none), a stage in a pipeline, and 0 for the one shared
    /// queue.
    pub fn grain_ns(&self, lane: u32, index: u64) -> u64 {
        let grain = match self.shares.get(lane as usize) {
            Some(share) => nearest_ns(self.grain as f64 * share).max(1),
            None => self.grain,
        };
        let spread = nearest_ns(grain as f64 * self.imbalance);
        let (min, max) = (grain.saturating_sub(spread), grain.saturating_add(spread));
        between(min, max, bits(self.seed, u64::from(lane), index))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mean(values: impl Iterator<Item = u64>) -> f64 {
        let (n, sum) = values.fold((0u64, 0u128), |(n, sum), v| (n + 1, sum + u128::from(v)));
        sum as f64 / n as f64
    }

    #[test]
    fn intermittent_intervals_fill_their_range_and_idle_keeps_the_demand() {
        let load = Interference { pattern: Pattern::Intermittent, demand: 0.25, ..Default::default() };
        let busy: Vec<u64> = (0..10_000).map(|i| load.busy_ns(3, i).unwrap()).collect();
        assert!(busy.iter().all(|b| (1_000_000..=40_000_000).contains(b)));
        assert!(busy.iter().any(|b| *b < 1_100_000) && busy.iter().any(|b| *b > 39_900_000));
        assert!((mean(busy.into_iter()) / 20_500_000.0 - 1.0).abs() < 0.02);
        assert_eq!(load.idle_ns(10_000_000), 30_000_000);
    }

    #[test]
    fn periodic_interference_is_ten_milliseconds_on_and_ten_off_by_default() {
        let load = Interference { pattern: Pattern::Periodic, ..Default::default() };
        assert_eq!((load.busy_ns(0, 7), load.idle_ns(10_000_000)), (Some(10_000_000), 10_000_000));
    }

    #[test]
    fn grains_spread_by_the_imbalance_around_the_grain() {
        let even = Parallel::default();
        assert!((0..100).all(|i| even.grain_ns(0, i) == 1_000_000));
        let uneven = Parallel { imbalance: 0.3, ..Default::default() };
        let grains: Vec<u64> = (0..10_000).map(|i| uneven.grain_ns(1, i)).collect();
        assert!(grains.iter().all(|g| (700_000..=1_300_000).contains(g)));
        assert!((mean(grains.into_iter()) / 1e6 - 1.0).abs() < 0.01);
    }

    #[test]
    fn a_thread_with_a_share_has_grains_of_that_part_and_others_have_whole_ones() {
        let uneven = Parallel { shares: vec![0.5], imbalance: 0.2, ..Default::default() };
        let of = |lane| mean((0..10_000).map(|i| uneven.grain_ns(lane, i)));
        assert!((of(0) / 5e5 - 1.0).abs() < 0.01 && (of(1) / 1e6 - 1.0).abs() < 0.01);
        assert!((0..1_000).all(|i| (400_000..=600_000).contains(&uneven.grain_ns(0, i))));
    }

    #[test]
    fn lanes_and_seeds_draw_independently_and_repeatably() {
        let draw = |seed, lane| (0..1000).map(move |i| bits(seed, lane, i));
        assert!(draw(1, 0).eq(draw(1, 0)));
        for (seed, lane) in [(1, 1), (2, 0), (0, 1)] {
            assert_eq!(draw(1, 0).zip(draw(seed, lane)).filter(|(a, b)| a == b).count(), 0);
        }
        let ones: u32 = draw(7, 7).map(u64::count_ones).sum();
        assert!((31_500..32_500).contains(&ones), "{ones} of 64,000 bits are set");
    }

    #[test]
    fn lengths_are_rounded_as_in_the_standard_library() {
        let edges = [0.0, 0.49999999999999994, 0.5, 1.5, 2.5, 1e15 + 0.5, 4503599627370497.5, 1e17, f64::MAX];
        let drawn = (0..10_000).map(|i| bits(1, 2, i) as f64 / 2f64.powi((i % 64) as i32));
        for ns in edges.into_iter().chain(drawn) {
            assert_eq!(nearest_ns(ns), ns.round() as u64, "{ns:e}");
        }
    }

    #[test]
    fn the_ends_of_a_range_are_reached() {
        assert_eq!((between(5, 9, 0), between(5, 9, u64::MAX)), (5, 9));
        assert_eq!(between(0, u64::MAX, u64::MAX), u64::MAX);
    }
}
