//! The random numbers of a logical process. They are part of its state, so a rollback takes draws back too.

use rand_core::{Rng as _, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// A stream of random numbers: PCG XSL RR 128/64, seeded with the seed of the run and the number of the logical process.
#[derive(Clone, Debug)]
pub struct Rng(Pcg64Mcg);

impl Rng {
    pub(crate) fn new(seed: u64, lp: u32) -> Rng {
        // The generator drops two bits of its seed, so seed and number are mixed over all bits.
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&mixed(seed ^ mixed(u64::from(lp))).to_le_bytes());
        bytes[8..].copy_from_slice(&mixed(seed.wrapping_add(mixed(!u64::from(lp)))).to_le_bytes());
        Rng(Pcg64Mcg::from_seed(bytes))
    }

    /// A random number of 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A random number in `[0, end)`, uniform up to a bias below 2^-64 of the range; 0 if `end` is 0.
    pub fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(end)) >> 64) as u64
    }

    /// True with a probability of `ppm` millionths; from 1,000,000 on always.
    pub fn chance(&mut self, ppm: u32) -> bool {
        self.below(1_000_000) < u64::from(ppm)
    }

    /// An exponentially distributed number of ticks with this mean: at least 0, and at most 45 times the mean.
    pub fn exponential(&mut self, mean: u64) -> u64 {
        // 53 bits, so that the sum is exact. The half keeps the logarithm away from zero.
        let unit = ((self.bits() >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
        (-unit.ln() * mean as f64) as u64
    }
}

/// SplitMix64's finalizer: every bit of the result depends on every bit of `x`.
pub(crate) fn mixed(x: u64) -> u64 {
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_differ_by_seed_and_process_and_draws_stay_in_range() {
        let first = |seed, lp| Rng::new(seed, lp).bits();
        let firsts: std::collections::BTreeSet<u64> =
            (0..100).flat_map(|seed| (0..100).map(move |lp| first(seed, lp))).collect();
        assert_eq!(firsts.len(), 10_000);
        let mut rng = Rng::new(7, 3);
        let draws: Vec<u64> = (0..1_000).map(|_| rng.below(4)).collect();
        assert!((0..4).all(|v| draws.contains(&v)) && draws.iter().all(|d| *d < 4));
        assert_eq!(rng.below(0), 0);
        assert!(!(0..1_000).any(|_| rng.chance(0)) && (0..1_000).all(|_| rng.chance(1_000_000)));
    }

    #[test]
    fn an_exponential_draw_has_the_requested_mean() {
        let mut rng = Rng::new(1, 1);
        let sum: u64 = (0..100_000).map(|_| rng.exponential(1_000)).sum();
        assert!((98_000_000..102_000_000).contains(&sum), "{sum}");
    }
}
