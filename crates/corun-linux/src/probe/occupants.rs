//! The occupants of a CPU during a stretch of time, from its log. This is the walk that the probe makes in
//! the kernel when a wait ends, for waits that are still open when a window closes.

use corun_bpf::layout::{group, Occupancy};

/// Time by group, in the order in which a backward walk meets them.
pub(super) type Charges = Vec<(u32, u64)>;

/// Charges `[from_ns, to_ns)` to the occupants in `log` (oldest first; each ends where the next begins). The
/// second result is the time before the log or of unknown groups.
pub(super) fn charge(log: &[Occupancy], from_ns: u64, to_ns: u64) -> (Charges, u64) {
    let mut charges = Charges::new();
    let mut unattributed_ns = 0;
    let mut to_ns = to_ns.max(from_ns);
    for o in log.iter().rev() {
        if to_ns == from_ns {
            break;
        }
        let start_ns = o.start_ns.max(from_ns);
        if start_ns < to_ns {
            let ns = to_ns - start_ns;
            match charges.iter_mut().find(|(g, _)| *g == o.group) {
                _ if o.group == group::UNKNOWN => unattributed_ns += ns,
                Some((_, sum)) => *sum += ns,
                None => charges.push((o.group, ns)),
            }
            to_ns = start_ns;
        }
    }
    (charges, unattributed_ns + to_ns - from_ns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn log(entries: &[(u64, u32)]) -> Vec<Occupancy> {
        entries.iter().map(|&(start_ns, group)| Occupancy::new(start_ns, group)).collect()
    }

    #[test]
    fn a_wait_over_several_occupants_is_split_at_their_changes() {
        let log = log(&[(0, 7), (100, 8), (150, 7), (180, 9)]);
        assert_eq!(charge(&log, 50, 200), (vec![(9, 20), (7, 80), (8, 50)], 0));
    }

    #[test]
    fn time_that_the_log_does_not_reach_or_know_is_unattributed() {
        assert_eq!(charge(&log(&[(100, 7)]), 40, 130), (vec![(7, 30)], 60));
        assert_eq!(charge(&log(&[(0, group::UNKNOWN)]), 40, 130), (vec![], 90));
        assert_eq!(charge(&[], 40, 130), (vec![], 90));
    }

    proptest! {
        #[test]
        fn every_nanosecond_is_charged_once(steps in proptest::collection::vec((0u64..1000, 0u32..6), 0..40), from in 0u64..9000, len in 0u64..9000) {
            let mut at = 0;
            let entries: Vec<(u64, u32)> = steps.iter().map(|&(step, g)| { at += step; (at, g) }).collect();
            let log = log(&entries);
            let (charges, rest) = charge(&log, from, from + len);
            prop_assert_eq!(charges.iter().map(|c| c.1).sum::<u64>() + rest, len);
            // Compared with the definition, one sampled instant after the other.
            for (g, ns) in charges {
                let held = (from..from + len).filter(|&t| entries.iter().rev().find(|e| e.0 <= t).is_some_and(|e| e.1 == g));
                prop_assert_eq!(held.count() as u64, ns);
            }
        }
    }
}
