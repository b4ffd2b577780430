//! The unit of useful work: time, time without memory stalls, time in user mode, or instructions.
//!
//! Time computing is always known (PACT'16 §4). If memory stalls were counted, they are left out of it. For a program that does not spin,
//! retired instructions are the work that it has done, whatever held it up in between: they need no difference of two large times.
//!
//! **A thread that spins stalls as well**: the line that it reads in turn comes from another core whenever it was written. The same counter
//! has these stalls, and they lose no work. So two shares are told apart: that of its time spinning for which a program stalls, and that of its
//! time computing. The method is least squares over its tasks in all windows: `stalls = a · computing + b · spinning`. The answer is as good
//! as the two vary independently of each other, and that is part of the error below.
//!
//! **What counters add has to be more than noise.** Dedicated windows are few and short, and some programs (a chess engine) go from twice
//! the instructions per cycle to half from one to the next. So a change by counters in the logarithm of a slowdown counts with the weight
//! `1 - (standard error ÷ change)²`, and not at all if it is smaller than its own error. That is the rule that weighs all estimators
//! ([`crate::combine`]).
//!
//! **Without counters**, time in the kernel is left out of computing if it is known (from samples). A program that waits for its siblings,
//! or serves requests, is in the kernel mostly to wake them and to be woken, and the cost of that depends on co-runners. A sleeping CPU
//! has to be woken by an interrupt, in a virtual machine with the host's help. A CPU with a busy loop never sleeps. redis serves the same
//! requests in 4.4 s of kernel time alone, 2.2 s next to a loop and 3.0 s next to two, with 0.8 to 1.0 s of its own. Other work of the kernel
//! for a program is in proportion to the program's own work. This replaces the cost of context switches that PACT'16 §4 infers.
//!
//! For a program that goes in steps, from one barrier to the next, blockings are the measure (`steps.rs`).
//!
//! Limits: there is one `a` and one `b` for all windows. A program whose loops differ in this gets their mean.

use crate::definitions::SPINS;
use crate::useful_work::{Spent, Window};

/// The unit of useful work. Both sides of a comparison must use the same.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Yardstick {
    /// Time computing (PACT'16 §4).
    Time {
        /// The cost of one blocking, in nanoseconds: no useful work.
        switch_ns: f64,
        /// `Some`: memory stalls are no useful work either, except for those of spinning, which stalls for this share of its time, 0..=1.
        spin_stalls: Option<f64>,
    },
    /// Time computing in user mode.
    UserTime,
    /// How often its tasks blocked for each other, in a program that goes in steps (`steps.rs`).
    Blockings,
    /// Instructions retired, in a program that does not spin: all that it executes is work.
    Instructions,
}

impl Spent {
    /// Useful work, in nanoseconds, instructions or blockings; 0 if it was not counted.
    pub fn useful(&self, by: Yardstick) -> f64 {
        match by {
            Yardstick::Time { switch_ns, spin_stalls } => {
                let switches = self.blockings.unwrap_or(0.0) * switch_ns;
                let stalled = spin_stalls.map_or(0.0, |share| self.stalled_computing_ns(share));
                (self.compute_ns - stalled - switches).max(0.0)
            }
            Yardstick::Blockings => self.blockings_for_siblings(),
            Yardstick::UserTime => (self.compute_ns - self.system_ns()).max(0.0),
            Yardstick::Instructions => self.instructions.rate().unwrap_or(0.0) * self.on_cpu_ns(),
        }
    }
}

/// Limit: a smaller share of a sum is rounding.
const ROUNDING: f64 = 1e-9;
/// Definition: memory stalls can be left out if at least this share of computing remains: the difference of two large times is no good
/// measure.
const REMAINS: f64 = 0.2;

fn never_spins(s: &Spent) -> bool {
    s.spin_ns + s.unjudged_ns <= SPINS * s.on_cpu_ns()
}

impl Yardstick {
    /// The best unit for both windows. `switch_ns` is the cost of one blocking, 0 if it is not known; `spin_stalls` is the answer of
    /// [`spin_stalls`] for all windows.
    pub fn of(one: &Spent, other: &Spent, switch_ns: f64, spin_stalls: Option<f64>) -> Yardstick {
        let both = |holds: &dyn Fn(&Spent) -> bool| holds(one) && holds(other);
        if both(&|s| never_spins(s) && s.instructions.whole(s.on_cpu_ns()).is_some_and(|n| n > 0.0)) {
            return Yardstick::Instructions;
        }
        let remains =
            |s: &Spent, share| s.compute_ns - s.stalled_computing_ns(share) >= REMAINS * s.compute_ns;
        let told = |share: &f64| both(&|s| s.knows_memory() && remains(s, *share));
        match spin_stalls.filter(told) {
            None if both(&|s| s.system.whole(s.on_cpu_ns()).is_some()) => Yardstick::UserTime,
            spin_stalls => Yardstick::Time { switch_ns, spin_stalls },
        }
    }

    /// That of PACT'16: time computing without switches, and without all memory stalls if both windows have them.
    pub fn pact16(one: &Spent, other: &Spent, switch_ns: f64) -> Yardstick {
        let knows_memory = one.knows_memory() && other.knows_memory();
        Yardstick::Time { switch_ns, spin_stalls: knows_memory.then_some(0.0) }
    }

    /// Whether this is time without any counts of stalls or work.
    pub fn is_blind(self) -> bool {
        matches!(self, Yardstick::UserTime | Yardstick::Time { spin_stalls: None, .. })
    }

    /// The same if spinning stalls for `more` of its time than is known, or for less.
    pub fn shifted(self, more: f64) -> Yardstick {
        match self {
            Yardstick::Time { switch_ns, spin_stalls: Some(share) } => {
                Yardstick::Time { switch_ns, spin_stalls: Some((share + more).clamp(0.0, 1.0)) }
            }
            other => other,
        }
    }

    /// The same without counters; `switch_ns` is the cost of one blocking.
    pub fn blind(switch_ns: f64) -> Yardstick {
        Yardstick::Time { switch_ns, spin_stalls: None }
    }
}

/// The share of its time spinning for which the program stalls on memory, 0..=1, and the standard error of that; `None`: nothing
/// tells.
pub fn spin_stalls(windows: &[Window]) -> Option<(f64, f64)> {
    if never_spins(&Window::sum(windows).total()) {
        return Some((0.0, 0.0));
    }
    // Every task of every window, weighted as samples of its time on a CPU are.
    let points = || {
        windows.iter().flat_map(Window::all).filter_map(|s| {
            let on_cpu_ns = s.on_cpu_ns();
            let stalled_ns = s.memory.whole(on_cpu_ns).filter(|_| on_cpu_ns > 0.0)?;
            Some((s.compute_ns, s.spin_ns, stalled_ns, 1.0 / on_cpu_ns))
        })
    };
    let sum = |of: fn((f64, f64, f64, f64)) -> f64| points().map(of).sum::<f64>();
    let (cc, cs, ss) =
        (sum(|(c, _, _, w)| w * c * c), sum(|(c, s, _, w)| w * c * s), sum(|(_, s, _, w)| w * s * s));
    let (cm, sm) = (sum(|(c, _, m, w)| w * c * m), sum(|(_, s, m, w)| w * s * m));
    let determinant = cc * ss - cs * cs;
    let degrees = points().count() as f64 - 2.0;
    if degrees < 1.0 || determinant <= ROUNDING * cc * ss {
        return None;
    }
    let (a, b) = ((cm * ss - sm * cs) / determinant, (sm * cc - cm * cs) / determinant);
    let squares: f64 = points().map(|(c, s, m, w)| w * (m - a * c - b * s).powi(2)).sum();
    let error = (squares / degrees * cc / determinant).sqrt();
    Some((b.clamp(0.0, 1.0), error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counted::Counted;
    use corun_model::TaskId;

    #[test]
    fn work_is_measured_in_instructions_where_nobody_spins_and_in_time_without_stalls_where_enough_remains() {
        let ran = |spin_ns: f64, stalled_ns: f64, instructions: Option<f64>| Spent {
            compute_ns: 1_000.0 - spin_ns,
            spin_ns,
            memory: Counted::of(Some(stalled_ns), 1_000.0),
            instructions: Counted::of(instructions, 1_000.0),
            ..Spent::default()
        };
        let by = |one: Spent, other: Spent| Yardstick::of(&one, &other, 7.0, Some(0.25));
        let time = |memory: bool| Yardstick::Time { switch_ns: 7.0, spin_stalls: memory.then_some(0.25) };
        let (calm, spins) = (ran(5.0, 300.0, Some(4_000.0)), ran(200.0, 300.0, Some(4_000.0)));
        assert_eq!(by(calm, calm), Yardstick::Instructions);
        assert_eq!(calm.useful(Yardstick::Instructions), 4_000.0);
        assert_eq!(by(calm, spins), time(true), "what a loop that waits executes is no work");
        assert_eq!(by(calm, Spent { unjudged_ns: 1_000.0, ..calm }), time(true), "it may spin");
        assert_eq!(by(spins, ran(200.0, 700.0, None)), time(false), "an eighth of computing is left");
        assert_eq!(by(calm, Spent { compute_ns: 1_000.0, ..Spent::default() }), time(false));
    }

    #[test]
    fn without_counters_time_in_the_kernel_is_no_work_where_it_was_told_on_both_sides() {
        let ran = |system_ns: Option<f64>, stalled: Option<f64>| Spent {
            compute_ns: 1_000.0,
            system: Counted::of(system_ns, 1_000.0),
            memory: Counted::of(stalled, 1_000.0),
            ..Spent::default()
        };
        let (told, untold) = (ran(Some(300.0), None), ran(None, None));
        assert_eq!(Yardstick::of(&told, &told, 7.0, None), Yardstick::UserTime);
        assert_eq!(told.useful(Yardstick::UserTime), 700.0);
        assert_eq!(Yardstick::of(&told, &untold, 7.0, None), Yardstick::blind(7.0), "one side is not known");
        let counted = ran(Some(300.0), Some(100.0));
        let by = Yardstick::of(&counted, &counted, 7.0, Some(0.0));
        assert_eq!(by, Yardstick::Time { switch_ns: 7.0, spin_stalls: Some(0.0) }, "stalls were counted");
    }

    /// Windows of one task with these shares of spinning, in which computing stalls for `a` of its time and spinning for `b`.
    fn windows(spins: &[f64], a: f64, b: f64) -> Vec<Window> {
        let window = |spin: &f64| {
            let (compute_ns, spin_ns) = (1_000.0 * (1.0 - spin), 1_000.0 * spin);
            let stalled = Counted::of(Some(a * compute_ns + b * spin_ns), 1_000.0);
            let spent = Spent { life_ns: 1_000.0, compute_ns, spin_ns, memory: stalled, ..Spent::default() };
            Window { wall_ns: 1_000.0, tasks: [(TaskId(1), spent)].into(), ..Window::default() }
        };
        spins.iter().map(window).collect()
    }

    #[test]
    fn stalls_of_spinning_are_told_from_those_of_computing_where_spinning_varies() {
        let (found, error) = spin_stalls(&windows(&[0.1, 0.2, 0.4, 0.6, 0.3], 0.4, 0.3)).unwrap();
        assert!((found - 0.3).abs() < 1e-9 && error < 1e-6, "{found} {error}");
        let all = Window::sum(&windows(&[0.1, 0.6], 0.4, 0.3)).total();
        assert!((all.stalled_computing_ns(found) - 0.4 * all.compute_ns).abs() < 1e-6);
        assert_eq!(spin_stalls(&windows(&[0.3; 9], 0.4, 0.3)), None, "always the same mixture");
        assert_eq!(spin_stalls(&windows(&[0.0; 9], 0.4, 0.3)), Some((0.0, 0.0)), "it does not spin");
        let mut odd = windows(&[0.30, 0.31, 0.32, 0.33], 0.4, 0.3);
        odd.extend(windows(&[0.31, 0.32], 0.6, 0.3));
        assert!(spin_stalls(&odd).unwrap().1 > 1.0, "hardly any variation, and other stalls now and then");
        assert_eq!(spin_stalls(&windows(&[0.1, 0.6], 0.4, 0.3)), None, "two points make no line");
    }
}
