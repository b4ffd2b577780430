//! From the victim's loss to the demand: a proportional-integral controller. Pure.
//!
//! The actuator is the *demand*: the share of every CPU that the interference asks for, 0 to 1. The controlled number is the share of
//! its progress that the victim loses (see [`crate::goal`]). Between them are the kernel's scheduler and the victim's way to wait. The
//! loss rises with the demand: by about as much with a program that computes on every CPU, several times faster if one late thread
//! keeps its siblings waiting, slower if the victim seldom wants a CPU. It stops rising where fair share protects the victim.
//!
//! Method. The velocity form of a PI controller: each window changes the demand by `(KP · (e − e′) + KI · e) ÷ gain`. `e` is the
//! missing part of the requested loss, and `e′` was the missing part before. The result is kept between 0 and 1. The demand itself is
//! the integral, so clamping it is the anti-windup: a controller that stood at a bound for an hour leaves it with the first error of
//! the other sign. The *gain* is the observed loss per demand, smoothed and bounded, so that a step has the same effect on any victim.
//!
//! Stability. With a loss of `g · demand`, seen one window late, the loop is stable for `KI · g ÷ gain < 1`. The bounds of the gain
//! keep that for any `g` up to sixteen times that of a program that never blocks. Settling from the start takes about ten windows. If
//! the loss does not depend on the demand, the demand runs into a bound. [`Controller::pressed`] returns for how many windows it has
//! been there in vain.

/// The factor of the change of the error.
const KP: f64 = 0.15;
/// The factor of the error.
const KI: f64 = 0.25;
/// Weight of the newest window in the gain.
const LEARNING: f64 = 0.2;
/// The bounds of the gain.
const GAIN: (f64, f64) = (0.25, 4.0);
/// A smaller demand shows nothing about the gain.
const LEAST_TELLING: f64 = 0.02;

/// The state of the loop.
#[derive(Clone, Copy, Debug)]
pub struct Controller {
    wanted: f64,
    demand: f64,
    missing: Option<f64>,
    gain: f64,
    pressed: i32,
}

impl Controller {
    /// A controller that makes the victim lose `wanted` of its progress, above 0 and below 1.
    pub fn new(wanted: f64) -> Controller {
        // Half of the demand for a program that never blocks. More could be far too much for another program.
        Controller { wanted, demand: wanted / 2.0, missing: None, gain: 1.0, pressed: 0 }
    }

    /// The present demand, 0 to 1.
    pub fn demand(&self) -> f64 {
        self.demand
    }

    /// Takes in the loss of the window that has passed at [`Controller::demand`], and sets the next demand. Without a loss (an unknown
    /// window) the demand stays.
    pub fn saw(&mut self, lost: Option<f64>) {
        let Some(lost) = lost else { return };
        if self.demand >= LEAST_TELLING {
            let seen = (lost / self.demand).clamp(GAIN.0, GAIN.1);
            self.gain += LEARNING * (seen - self.gain);
        }
        let missing = self.wanted - lost;
        let change = KP * (missing - self.missing.unwrap_or(missing)) + KI * missing;
        let aimed = self.demand + change / self.gain;
        self.pressed = match aimed {
            a if a >= 1.0 => self.pressed.max(0).saturating_add(1),
            a if a <= 0.0 => self.pressed.min(0).saturating_sub(1),
            _ => 0,
        };
        self.demand = aimed.clamp(0.0, 1.0);
        self.missing = Some(missing);
    }

    /// For how many windows it has wanted a demand above 1; below 0: a demand below 0.
    pub fn pressed(&self) -> i32 {
        self.pressed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corun_model::workload::draw::bits;
    use std::collections::VecDeque;

    /// Runs the loop with a plant that returns the loss at a demand, `delay` windows late and with `noise` to either side. Returns the
    /// losses and demands of all windows.
    fn run(
        wanted: f64,
        windows: u64,
        delay: usize,
        noise: f64,
        plant: impl Fn(u64, f64) -> f64,
    ) -> Vec<(f64, f64)> {
        let mut controller = Controller::new(wanted);
        let mut under_way = VecDeque::from(vec![0.0; delay]);
        (0..windows)
            .map(|window| {
                let demand = controller.demand();
                under_way.push_back(plant(window, demand));
                let uniform = bits(7, 0, window) as f64 / u64::MAX as f64;
                let lost = under_way.pop_front().unwrap() + noise * (2.0 * uniform - 1.0);
                controller.saw(Some(lost));
                (lost, demand)
            })
            .collect()
    }

    fn mean(course: &[(f64, f64)]) -> f64 {
        course.iter().map(|(lost, _)| lost).sum::<f64>() / course.len() as f64
    }

    /// Fair share: the loss is the demand, up to half.
    fn fair(_: u64, demand: f64) -> f64 {
        demand.min(0.5)
    }

    #[test]
    fn it_settles_on_a_program_that_never_blocks_within_ten_windows_and_stays() {
        for wanted in [0.1, 0.25, 0.4, 0.48] {
            let course = run(wanted, 60, 0, 0.0, fair);
            assert!(
                course[15..].iter().all(|(lost, _)| (lost - wanted).abs() < 0.01),
                "{wanted}: {course:?}"
            );
            assert!(course.iter().all(|(lost, _)| *lost < wanted + 0.02), "{wanted} is not passed by far");
        }
    }

    #[test]
    fn it_settles_with_any_gain_of_the_victim() {
        for gain in [0.3, 0.6, 1.0, 2.0, 4.0, 8.0] {
            for delay in [0, 1] {
                let course = run(0.2, 100, delay, 0.0, |_, demand| (gain * demand).min(0.95));
                let end = &course[50..];
                assert!(
                    end.iter().all(|(lost, _)| (lost - 0.2).abs() < 0.02),
                    "gain {gain}, {delay}: {end:?}"
                );
            }
        }
    }

    #[test]
    fn noise_is_not_amplified_and_does_not_move_the_mean() {
        let course = run(0.3, 2000, 0, 0.06, fair);
        let end = &course[50..];
        assert!((mean(end) - 0.3).abs() < 0.005, "{}", mean(end));
        let spread = end.iter().map(|(_, d)| (d - 0.3).powi(2)).sum::<f64>() / end.len() as f64;
        // Uniform noise of ±6 points has a standard deviation of 3.5.
        assert!(spread.sqrt() < 0.035, "{}", spread.sqrt());
    }

    #[test]
    fn a_dead_zone_and_a_curve_are_overcome() {
        let course = run(0.3, 100, 1, 0.0, |_, demand| ((demand - 0.2).max(0.0) * 1.2).sqrt().min(0.7));
        assert!(course[60..].iter().all(|(lost, _)| (lost - 0.3).abs() < 0.05), "{:?}", &course[60..]);
    }

    #[test]
    fn a_goal_beyond_fair_share_is_tried_in_vain_and_reported() {
        let mut controller = Controller::new(0.6);
        for _ in 0..40 {
            controller.saw(Some(fair(0, controller.demand())));
        }
        assert_eq!(controller.demand(), 1.0);
        assert!(controller.pressed() > 10, "{}", controller.pressed());
    }

    #[test]
    fn an_hour_at_a_bound_is_forgotten_at_once() {
        let plant = |window, demand: f64| if window < 18_000 { 0.1 } else { demand };
        let course = run(0.4, 18_050, 0, 0.0, plant);
        assert_eq!(course[17_999].1, 1.0);
        assert!(
            course[18_020..].iter().all(|(lost, _)| (lost - 0.4).abs() < 0.02),
            "{:?}",
            &course[18_000..]
        );
    }

    #[test]
    fn a_victim_that_others_disturb_enough_is_left_alone_and_that_is_reported() {
        let mut controller = Controller::new(0.2);
        for _ in 0..40 {
            controller.saw(Some(0.35 + controller.demand() * 0.5));
        }
        assert_eq!(controller.demand(), 0.0);
        assert!(controller.pressed() < -10);
    }

    #[test]
    fn time_that_others_take_counts() {
        let course = run(0.3, 60, 0, 0.0, |_, demand| 0.15 + demand * 0.85);
        assert!(course[20..].iter().all(|(lost, _)| (lost - 0.3).abs() < 0.02), "{course:?}");
    }

    #[test]
    fn a_change_of_the_victim_is_followed() {
        let plant = |window, demand: f64| if window < 50 { demand } else { 2.5 * demand };
        let course = run(0.25, 120, 0, 0.0, plant);
        assert!((course[50].0 - 0.625).abs() < 0.05, "it is hit at first");
        assert!(course[80..].iter().all(|(lost, _)| (lost - 0.25).abs() < 0.02));
    }

    #[test]
    fn an_unknown_window_changes_nothing() {
        let mut controller = Controller::new(0.25);
        controller.saw(Some(0.1));
        let before = controller.demand();
        controller.saw(None);
        assert_eq!(controller.demand(), before);
    }
}
