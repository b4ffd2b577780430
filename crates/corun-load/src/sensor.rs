//! The state of a victim: a watcher's observations in a window, and the share of its progress that it lost.
//!
//! Method. The kernel counts steal, so [`Gauge::Steal`] needs nothing else. A slowdown needs the victim's solo rate. [`Gauge::Rate`]
//! remembers how much it computed per second before the interference began, and compares. Its computing is its time on a CPU minus
//! known spinning.
//!
//! Limits of the rate. It assumes that the victim has a fixed amount of computing, at the pace of the baseline. A program with phases
//! that need less CPU looks slowed. A program that serves requests does not slow down as long as it keeps up. If spinning is unknown, a
//! victim that spins while it waits for its own threads looks less slowed than it is. Disturbance by others during the baseline is part
//! of the baseline.

/// The observations of the victim in one window, summed over its tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// Length of the window in nanoseconds.
    pub window_ns: u64,
    /// Time on a CPU in nanoseconds, spinning included.
    pub run_ns: u64,
    /// The part of it that was spinning. `None` if unknown.
    pub spin_ns: Option<u64>,
    /// Time in the run queue in nanoseconds.
    pub wait_ns: u64,
    /// Whether any task of the victim was left at the end.
    pub alive: bool,
}

/// The watcher of a victim. On a live machine this is its ledger; tests have modelled ones.
pub trait Sensor {
    /// The source of its observations, as in corun's reports: `ebpf`, `schedstat`.
    fn source(&self) -> &'static str;

    /// Lets `ns` nanoseconds pass, and returns the victim's activity in them.
    ///
    /// # Errors
    /// One sentence: the victim can no longer be watched.
    fn window(&mut self, ns: u64) -> Result<Sample, String>;
}

/// If it wants less than this share of one CPU, the victim sleeps, and a window shows nothing about its loss.
const LEAST_WANTED: f64 = 0.002;

/// From a window to the share of its progress that the victim lost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Gauge {
    /// The share of the time without a CPU, of the time in which it wanted one.
    Steal,
    /// Its computing, compared with that in the same time alone.
    Rate {
        /// CPU time per time, alone: 2.0 is two CPUs' worth.
        solo: f64,
        /// Whether that is useful work, without spinning. Then windows with unknown spinning are unknown.
        useful: bool,
    },
}

impl Gauge {
    /// The share of its progress that the victim lost in a window, below 0 if it did more than alone. `None` if the window does not
    /// show it.
    pub fn lost(self, sample: &Sample) -> Option<f64> {
        let window_ns = sample.window_ns as f64;
        match self {
            _ if sample.sleeps() => None,
            Gauge::Steal => Some(sample.wait_ns as f64 / (sample.run_ns + sample.wait_ns) as f64),
            Gauge::Rate { solo, useful } => {
                sample.rate(useful).filter(|_| window_ns > 0.0).map(|rate| 1.0 - rate / solo)
            }
        }
    }
}

impl Sample {
    /// Whether the victim wanted almost no CPU: then nothing can be taken from it, and it is not slower.
    pub fn sleeps(&self) -> bool {
        (self.run_ns + self.wait_ns) as f64 <= LEAST_WANTED * self.window_ns as f64
    }

    /// CPU time per time, without spinning if only `useful` work counts. `None` if spinning is unknown.
    pub fn rate(&self, useful: bool) -> Option<f64> {
        let spin_ns = if useful { self.spin_ns? } else { 0 };
        Some(self.run_ns.saturating_sub(spin_ns) as f64 / (self.window_ns as f64).max(1.0))
    }

    /// This window and the one that follows it. Spinning is unknown if either does not know it.
    #[must_use]
    pub fn plus(&self, next: &Sample) -> Sample {
        let spin_ns = match (self.window_ns, self.spin_ns, next.spin_ns) {
            (0, _, spin_ns) => spin_ns,
            (_, Some(a), Some(b)) => Some(a + b),
            _ => None,
        };
        Sample {
            window_ns: self.window_ns + next.window_ns,
            run_ns: self.run_ns + next.run_ns,
            spin_ns,
            wait_ns: self.wait_ns + next.wait_ns,
            alive: next.alive,
        }
    }
}

/// The last known share of spinning in the victim's time on a CPU. A window with unknown spinning must not stop the controller, which
/// would keep its old demand. It does not count in any account.
#[derive(Clone, Copy, Debug, Default)]
pub struct LastSpin {
    share: Option<f64>,
}

impl LastSpin {
    /// The window, with the last known share of spinning if it is unknown.
    pub fn fill_in(&mut self, sample: &Sample) -> Sample {
        if let Some(spin_ns) = sample.spin_ns.filter(|_| sample.run_ns > 0) {
            self.share = Some(spin_ns as f64 / sample.run_ns as f64);
        }
        let likely = || Some((self.share? * sample.run_ns as f64) as u64);
        Sample { spin_ns: sample.spin_ns.or_else(likely), ..*sample }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::Controller;

    const SECOND: u64 = 1_000_000_000;

    fn sample(run_ms: u64, wait_ms: u64, spin_ms: Option<u64>) -> Sample {
        let ns = |ms: u64| ms * 1_000_000;
        Sample {
            window_ns: SECOND,
            run_ns: ns(run_ms),
            spin_ns: spin_ms.map(ns),
            wait_ns: ns(wait_ms),
            alive: true,
        }
    }

    fn near(lost: Option<f64>, expected: f64) -> bool {
        lost.is_some_and(|lost| (lost - expected).abs() < 1e-9)
    }

    #[test]
    fn steal_is_the_waiting_share_of_the_time_in_which_it_wanted_a_cpu() {
        assert!(near(Gauge::Steal.lost(&sample(1500, 500, None)), 0.25));
        assert_eq!(Gauge::Steal.lost(&sample(1, 0, None)), None, "a victim that sleeps tells nothing");
    }

    #[test]
    fn a_slowdown_is_the_missing_computing() {
        let alone = Gauge::Rate { solo: 1.8, useful: false };
        assert!(near(alone.lost(&sample(1200, 300, None)), 1.0 / 3.0));
        assert!(near(alone.lost(&sample(0, 1000, None)), 1.0), "a victim that gets nothing has lost all");
        let computing = Gauge::Rate { solo: sample(1800, 0, Some(300)).rate(true).unwrap(), useful: true };
        assert!(near(computing.lost(&sample(1800, 0, Some(800))), 1.0 / 3.0), "spinning is no progress");
        assert_eq!(computing.lost(&sample(1800, 0, None)), None, "what is unknown is not compared");
        assert!(near(alone.lost(&sample(1800, 0, Some(800))), 0.0), "nor is more known than before");
    }

    #[test]
    fn a_window_with_unknown_spinning_uses_the_last_known_share() {
        let gauge = Gauge::Rate { solo: 1.5, useful: true };
        let held = |fill_in: bool| {
            let (mut controller, mut last) = (Controller::new(1.0 / 3.0), LastSpin::default());
            last.fill_in(&sample(2000, 0, Some(500)));
            let mut lost = 0.0;
            for window in 0..40 {
                let run_ms = (2000.0 * (1.0 - controller.demand())) as u64;
                let truth = sample(run_ms, 2000 - run_ms, Some(run_ms / 4));
                lost = gauge.lost(&truth).unwrap();
                // One window in ten knows it.
                let seen = if window % 10 == 9 { truth } else { Sample { spin_ns: None, ..truth } };
                controller.saw(gauge.lost(&if fill_in { last.fill_in(&seen) } else { seen }));
            }
            lost
        };
        assert!((held(true) - 1.0 / 3.0).abs() < 0.01, "{}", held(true));
        assert!(held(false) < 0.3, "it would still be on its way: {}", held(false));
        assert_eq!(LastSpin::default().fill_in(&sample(100, 0, None)).spin_ns, None, "nobody ever knew");
    }

    #[test]
    fn windows_add_up_and_an_unknown_is_not_a_zero() {
        let sum = sample(100, 10, Some(5)).plus(&sample(200, 20, Some(6)));
        assert_eq!(
            (sum.window_ns, sum.run_ns, sum.wait_ns, sum.spin_ns),
            (2 * SECOND, 300_000_000, 30_000_000, Some(11_000_000))
        );
        assert_eq!(sum.plus(&sample(1, 1, None)).spin_ns, None);
        assert_eq!(Sample::default().plus(&sample(1, 1, Some(1))).spin_ns, Some(1_000_000));
    }
}
