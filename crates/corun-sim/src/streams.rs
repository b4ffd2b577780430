//! Named seeded generators: one stream per purpose, so that a draw added for one purpose never shifts another.
//!
//! A stream is PCG XSL RR 128/64 (Lehmer), seeded from the run's seed and the FNV-1a hash of the stream's name.
//! Draws are integers from integers; no floating point takes part.

use corun_model::workload::draw::bits;
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// Makes the streams of one run.
#[derive(Clone, Copy, Debug)]
pub struct Streams {
    seed: u64,
}

impl Streams {
    /// The streams of this seed.
    pub fn new(seed: u64) -> Streams {
        Streams { seed }
    }

    /// The stream of this name: the same name gives the same stream.
    pub fn stream(&self, name: &str) -> Stream {
        let mut hash = 0xcbf2_9ce4_8422_2325u64;
        for byte in name.bytes() {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        // The generator drops two bits of its seed, so seed and name are mixed over all of them.
        let mut seed = [0; 16];
        seed[..8].copy_from_slice(&bits(self.seed, hash, 0).to_le_bytes());
        seed[8..].copy_from_slice(&bits(self.seed, hash, 1).to_le_bytes());
        Stream { pcg: Pcg64Mcg::from_seed(seed) }
    }
}

/// One stream of draws.
#[derive(Clone, Debug)]
pub struct Stream {
    pcg: Pcg64Mcg,
}

impl Stream {
    /// A draw from `[low, high]`, all equally likely except for a bias below 2^-64 of the range.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        let Some(span) = high.checked_sub(low) else { return low };
        let product = u128::from(self.pcg.next_u64()) * (u128::from(span) + 1);
        low + (product >> 64) as u64
    }

    /// A draw around `mean`, uniform in `mean × [1 - spread, 1 + spread]`; `spread` in millionths.
    pub fn around(&mut self, mean: u64, spread_ppm: u64) -> u64 {
        let off = (u128::from(mean) * u128::from(spread_ppm.min(1_000_000)) / 1_000_000) as u64;
        if off == 0 {
            return mean;
        }
        self.between(mean - off, mean.saturating_add(off))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_depends_on_seed_and_name_only() {
        let draw = |seed, name| Streams::new(seed).stream(name).between(0, u64::MAX);
        assert_eq!(draw(1, "imbalance"), draw(1, "imbalance"));
        let seeds: std::collections::BTreeSet<u64> = (0..1000).map(|seed| draw(seed, "imbalance")).collect();
        assert_eq!(seeds.len(), 1000, "seeds that differ in any bit are different seeds");
        assert_ne!(draw(1, "imbalance"), draw(1, "slices"));
    }

    #[test]
    fn draws_stay_in_their_range_and_reach_both_ends() {
        let mut s = Streams::new(7).stream("range");
        let draws: Vec<u64> = (0..1000).map(|_| s.between(3, 6)).collect();
        assert!(draws.iter().all(|d| (3..=6).contains(d)));
        assert!((3..=6).all(|v| draws.contains(&v)));
        assert_eq!(s.between(5, 5), 5);
        assert_eq!(s.around(1000, 0), 1000);
        assert!((0..1000).map(|_| s.around(1000, 200_000)).all(|d| (800..=1200).contains(&d)));
    }
}
