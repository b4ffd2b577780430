//! Multiplexing: what an event would have counted if it had been counted all the time.
//!
//! A CPU has few counters. If more groups are open than fit, the kernel lets them take turns of a few
//! milliseconds. It reports how long a group was wanted (enabled) and how long it counted (running). The
//! count is scaled by the ratio of the two, as `perf stat` does.
//!
//! The error: turns are a sample of the task's time. With `n` of `N` turns seen, the relative standard error
//! of the sum is `cv · √((1 − n/N) / n)`, where `cv` is the variation of the turns (their standard deviation
//! divided by their mean). The error is given for `cv = 1`, the variation of an exponential distribution;
//! steady programs are well below. It does not hold for a program that changes in step with the turns.

/// The count of one event, since it was opened or between two times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// Counted events.
    pub value: u64,
    /// How long the task ran with the event wanted, in nanoseconds.
    pub enabled_ns: u64,
    /// How long of that it was counted, in nanoseconds.
    pub running_ns: u64,
}

impl Reading {
    /// The counts since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Reading) -> Reading {
        Reading {
            value: self.value.saturating_sub(earlier.value),
            enabled_ns: self.enabled_ns.saturating_sub(earlier.enabled_ns),
            running_ns: self.running_ns.saturating_sub(earlier.running_ns),
        }
    }

    /// Both together.
    #[must_use]
    pub fn plus(&self, more: &Reading) -> Reading {
        Reading {
            value: self.value + more.value,
            enabled_ns: self.enabled_ns + more.enabled_ns,
            running_ns: self.running_ns + more.running_ns,
        }
    }

    /// The count scaled to the whole time. `None` if the task ran, but was counted for so little of its time,
    /// with turns of `turn_ns`, that the error may be as large as the count.
    pub fn scaled(&self, turn_ns: u64) -> Option<u64> {
        match (self.running_ns, self.enabled_ns) {
            (running, enabled) if running >= enabled => Some(self.value),
            _ if self.relative_error(turn_ns) >= 1.0 => None,
            (running, enabled) => Some(times(self.value, enabled, running)),
        }
    }

    /// The share of the task's time in which it was counted, 0 to 1; `None` if it did not run.
    pub fn counted_share(&self) -> Option<f64> {
        (self.enabled_ns > 0).then(|| (self.running_ns as f64 / self.enabled_ns as f64).min(1.0))
    }

    /// The relative standard error of [`scaled`](Reading::scaled) for turns of `turn_ns` (see the module's
    /// text): 0 if all was counted, at most 1, since less than one turn says nothing.
    pub fn relative_error(&self, turn_ns: u64) -> f64 {
        let Some(share) = self.counted_share() else { return 0.0 };
        let turns = (self.running_ns as f64 / turn_ns.max(1) as f64).max(f64::MIN_POSITIVE);
        ((1.0 - share) / turns).sqrt().min(1.0)
    }
}

/// `value × to ÷ from`, rounded to the nearest, without intermediate overflow; the result saturates.
pub fn times(value: u64, to: u64, from: u64) -> u64 {
    let from = u128::from(from.max(1));
    u64::try_from((u128::from(value) * u128::from(to) + from / 2) / from).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn half_counted_is_doubled_and_never_counted_is_unknown() {
        let half = Reading { value: 10, enabled_ns: 100, running_ns: 50 };
        assert_eq!((half.scaled(4), half.counted_share()), (Some(20), Some(0.5)));
        assert_eq!(Reading { value: 0, enabled_ns: 100, running_ns: 0 }.scaled(4), None);
        assert_eq!(Reading::default().scaled(4), Some(0), "who did not run did nothing");
        assert_eq!(Reading::default().relative_error(4_000_000), 0.0);
    }

    #[test]
    fn a_moment_of_a_long_time_says_nothing_and_all_of_a_short_time_says_all() {
        let moment = Reading { value: 7, enabled_ns: 40, running_ns: 1 };
        assert_eq!((moment.scaled(4), moment.scaled(1)), (None, Some(280)));
        assert_eq!(moment.plus(&Reading { value: 7, enabled_ns: 20, running_ns: 19 }).scaled(4), Some(42));
        assert_eq!(Reading { value: 7, enabled_ns: 1, running_ns: 1 }.scaled(4), Some(7));
    }

    #[test]
    fn the_error_is_zero_if_all_was_counted_and_falls_with_the_number_of_turns() {
        let of = |running_ns, enabled_ns| Reading { value: 1, enabled_ns, running_ns }.relative_error(4);
        assert_eq!(of(400, 400), 0.0);
        assert_eq!(of(200, 400), 0.1);
        assert!(of(800, 1600) < of(200, 400));
        assert_eq!(of(0, 400), 1.0);
    }

    proptest! {
        #[test]
        fn a_count_of_the_whole_time_stays_as_it_is(value: u64, ns in 1u64..) {
            prop_assert_eq!(Reading { value, enabled_ns: ns, running_ns: ns }.scaled(1), Some(value));
        }

        #[test]
        fn scaling_never_loses_a_count_and_is_exact_to_half_an_event(
            value in 0u64..1 << 50, running_ns in 1u64..1 << 40, more_ns in 0u64..1 << 40,
        ) {
            let enabled_ns = running_ns + more_ns;
            let scaled = Reading { value, enabled_ns, running_ns }.scaled(1).unwrap();
            prop_assert!(scaled >= value);
            let exact = value as u128 * enabled_ns as u128;
            let got = scaled as u128 * running_ns as u128;
            prop_assert!(exact.abs_diff(got) * 2 <= running_ns as u128);
        }

        #[test]
        fn windows_add_up_to_the_whole(
            a in (0u64..1 << 40, 0u64..1 << 40, 0u64..1 << 40), b in (0u64..1 << 40, 0u64..1 << 40, 0u64..1 << 40),
        ) {
            let first = Reading { value: a.0, enabled_ns: a.1, running_ns: a.2 };
            let both = Reading { value: a.0 + b.0, enabled_ns: a.1 + b.1, running_ns: a.2 + b.2 };
            let second = both.since(&first);
            prop_assert_eq!(second, Reading { value: b.0, enabled_ns: b.1, running_ns: b.2 });
            prop_assert_eq!(first.plus(&second), both);
        }

    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(8))]

        /// Turns that vary as the formula assumes, one in `groups` of them counted, in random order: the
        /// stated error must be neither far too small nor far too large. The relative error has a
        /// distribution with heavy tails. Over 400 repetitions its root mean square is known to well within a
        /// factor of 1.5.
        #[test]
        fn the_stated_error_is_the_observed_error(seed: u64, groups in 2u64..5, turns in 40u64..200) {
            let mut state = seed | 1;
            let mut uniform = move || {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                ((state >> 33) as f64 + 0.5) / (1u64 << 31) as f64
            };
            let (mut squares, mut stated) = (0.0, 0.0);
            for _ in 0..400 {
                let (mut all, mut reading) = (0u64, Reading::default());
                for _ in 0..turns * groups {
                    let count = (-uniform().ln() * 1e6) as u64;
                    all += count;
                    reading.enabled_ns += 4;
                    if uniform() < 1.0 / groups as f64 {
                        reading.value += count;
                        reading.running_ns += 4;
                    }
                }
                let got = reading.scaled(4).unwrap() as f64;
                squares += (got / all as f64 - 1.0).powi(2);
                stated += reading.relative_error(4);
            }
            let (happened, stated) = ((squares / 400.0f64).sqrt(), stated / 400.0);
            prop_assert!((happened / stated).ln().abs() < 1.5f64.ln(), "happened {happened}, stated {stated}");
        }
    }
}
