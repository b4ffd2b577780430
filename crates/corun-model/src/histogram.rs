//! A log2 histogram of times with an honest overflow bucket.
//!
//! Bucket `i` below the last counts times in `[2^i, 2^(i+1))` units of 1,024 ns. That is about a microsecond, and needs only a shift in
//! the kernel. Bucket 0 also counts all shorter times. The last bucket is overflow: it has only a lower edge. A quantile in it is
//! reported as "at least", never as a number.

/// Number of buckets, the overflow bucket included: the last finite edge is 2^33 ns = 8.6 s.
pub const BUCKETS: usize = 24;

/// Counts of times by powers of two of 1,024 ns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    /// Counts per bucket; the last is overflow.
    pub counts: [u64; BUCKETS],
}

/// A quantile read off a histogram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantile {
    /// The quantile lies below this upper edge (nanoseconds) and at or above half of it.
    Below(u64),
    /// The quantile lies in the overflow bucket: at least this many nanoseconds.
    AtLeast(u64),
}

impl Histogram {
    /// The bucket that a time falls into.
    pub fn bucket_of(ns: u64) -> usize {
        ((ns >> 10).max(1).ilog2() as usize).min(BUCKETS - 1)
    }

    /// Lower edge of a bucket in nanoseconds (0 for the first).
    pub fn lower_ns(bucket: usize) -> u64 {
        if bucket == 0 {
            0
        } else {
            1024 << bucket
        }
    }

    /// Counts one time.
    pub fn record(&mut self, ns: u64) {
        self.counts[Histogram::bucket_of(ns)] += 1;
    }

    /// The number of counted times.
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Times in the overflow bucket.
    pub fn overflow(&self) -> u64 {
        self.counts[BUCKETS - 1]
    }

    /// The `q`-quantile, `q` from 0 to 1. `None` if nothing was counted.
    pub fn quantile(&self, q: f64) -> Option<Quantile> {
        let total = self.total();
        if total == 0 {
            return None;
        }
        let rank = ((q * total as f64).ceil() as u64).clamp(1, total);
        let mut seen = 0;
        for (i, &n) in self.counts.iter().enumerate() {
            seen += n;
            if seen >= rank {
                return Some(if i == BUCKETS - 1 {
                    Quantile::AtLeast(Histogram::lower_ns(i))
                } else {
                    Quantile::Below(Histogram::lower_ns(i + 1))
                });
            }
        }
        unreachable!("the ranks end at the total")
    }

    /// The bucket-wise sum.
    #[must_use]
    pub fn plus(&self, o: &Histogram) -> Histogram {
        let mut sum = self.clone();
        sum.add(o);
        sum
    }

    /// Adds another's counts, bucket by bucket.
    pub fn add(&mut self, o: &Histogram) {
        self.counts.iter_mut().zip(o.counts).for_each(|(sum, count)| *sum += count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_time_falls_into_the_bucket_whose_edges_hold_it() {
        for ns in [0, 1, 1023, 1024, 2047, 2048, 4095, 4096, 1_000_000, (1 << 33) - 1, 1 << 33, u64::MAX] {
            let b = Histogram::bucket_of(ns);
            assert!(Histogram::lower_ns(b) <= ns, "{ns} in {b}");
            assert!(b == BUCKETS - 1 || ns < Histogram::lower_ns(b + 1), "{ns} in {b}");
        }
    }

    #[test]
    fn a_quantile_in_the_overflow_bucket_is_at_least_not_a_number() {
        let mut h = Histogram::default();
        h.record(5_000);
        assert_eq!(h.quantile(0.5), Some(Quantile::Below(8_192)));
        h.record(u64::MAX);
        assert_eq!(h.quantile(0.99), Some(Quantile::AtLeast(1 << 33)));
        assert_eq!(h.overflow(), 1);
        assert_eq!(Histogram::default().quantile(0.5), None);
    }
}
