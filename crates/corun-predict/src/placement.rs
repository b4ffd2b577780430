//! On how many CPUs a program's tasks were, and whether that decides how fast the program is.
//!
//! Two threads that hand work to each other may be much faster or slower on one CPU than on two. The kernel places them as it likes and may
//! leave them there for a whole run, while parking co-runners makes it place them anew each time. So a run alone has **one** placement,
//! nobody knows which, and no run is like the mean over dedicated windows.
//!
//! Method. Each window has the number of CPUs that its workers were on, at the end of each observation in it. Over the dedicated windows,
//! the logarithm of the rate is regressed on that number. If the slope differs from 0 (Student's test), placement decides. One run may then
//! be off from the mean by the slope times the scatter of the number over windows. More windows do not lessen that. If tasks were on fewer CPUs
//! in dedicated windows than in shared ones, although they had more to choose from, a run alone would be placed differently. That error
//! follows from the slope, too: from that of the shared windows if the dedicated ones have none.
//!
//! Limits: the end of an observation is a sample, so placements that change within a window are not told apart. But those do not last for a
//! run either. Which CPUs they are (hyperthreads of one core, other sockets) does not count. If co-runners leave a program fewer CPUs, that
//! is the slowdown itself and not considered here.

use crate::definitions::{CONFIDENCE, NEGLIGIBLE};
use crate::interval::{degrees, quantile, Spread, FEWEST};
use crate::useful_work::Window;
use corun_model::{Unavailable, What, Why};

/// How much placement may change a run alone, as standard deviations of the logarithm of the slowdown.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Placement {
    /// Since a run has one of the placements that dedicated windows had.
    one_of_several: f64,
    /// Since dedicated windows had another one than shared windows.
    another: f64,
}

/// How the logarithm of a rate depends on a number of CPUs.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Line {
    /// Its slope; 0 if that may be chance.
    slope: f64,
    /// Mean number of CPUs, its standard deviation from window to window, and how many windows.
    mean: f64,
    deviation: f64,
    windows: usize,
}

impl Line {
    /// Through these windows; `None`: it is known for too few of them.
    fn of(windows: &[Window], rate: impl Fn(&Window) -> f64) -> Option<Line> {
        let point = |w: &Window| Some((w.placed.rate()?, rate(w).ln())).filter(|(_, y)| y.is_finite());
        let points: Vec<(f64, f64)> = windows.iter().filter_map(point).collect();
        let n = points.len() as f64;
        if points.len() < FEWEST {
            return None;
        }
        let mean = |of: &dyn Fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / n;
        let (x, y) = (mean(&|p| p.0), mean(&|p| p.1));
        let (xx, xy, yy) =
            (mean(&|p| (p.0 - x).powi(2)), mean(&|p| (p.0 - x) * (p.1 - y)), mean(&|p| (p.1 - y).powi(2)));
        let slope = if xx > 0.0 { xy / xx } else { 0.0 };
        let rest = (yy - slope * xy).max(0.0);
        let error = (rest / (xx * (n - 2.0))).sqrt();
        let is_told = xx > 0.0 && slope.abs() > quantile(points.len() - 2, CONFIDENCE) * error;
        let deviation = (xx * n / (n - 1.0)).sqrt();
        Some(Line { slope: if is_told { slope } else { 0.0 }, mean: x, deviation, windows: points.len() })
    }
}

impl Placement {
    /// In these windows of one behavior, with this rate of work.
    pub fn of(dedicated: &[Window], shared: &[Window], rate: impl Fn(&Window) -> f64) -> Placement {
        let lines = Line::of(dedicated, &rate).zip(Line::of(shared, &rate));
        let Some((alone, beside)) = lines else { return Placement::default() };
        let slope = if alone.slope == 0.0 { beside.slope } else { alone.slope };
        let of_mean = |line: Line| Spread {
            error: line.deviation / (line.windows as f64).sqrt(),
            degrees: line.windows - 1,
        };
        let (fewer, errors) = (beside.mean - alone.mean, [alone, beside].map(of_mean));
        let error = errors[0].error.hypot(errors[1].error);
        let is_another = fewer > quantile(degrees(errors.into_iter()), CONFIDENCE) * error;
        Placement {
            one_of_several: alone.slope.abs() * alone.deviation,
            another: if is_another { slope.abs() * fewer } else { 0.0 },
        }
    }

    /// Both together.
    pub fn error(self) -> f64 {
        self.one_of_several.hypot(self.another)
    }

    /// A note for the user.
    pub fn unknown(self) -> impl Iterator<Item = Unavailable> {
        let percent = |error: f64| (100.0 * error.exp_m1()).round() as u64;
        let said = |error: f64, why: fn(u64) -> Why| {
            (error > NEGLIGIBLE).then(|| Unavailable { what: What::Placement, why: why(percent(error)) })
        };
        let several = said(self.one_of_several, |percent| Why::OneOfSeveralPlacements { percent });
        let another = said(self.another, |percent| Why::AnotherPlacement { percent });
        several.into_iter().chain(another)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counted::Counted;
    use crate::useful_work::Spent;
    use corun_model::TaskId;

    const WALL_NS: f64 = 100.0;

    /// Windows by the CPUs that the workers were on, and what was done in them.
    fn windows(of: &[(f64, f64)]) -> Vec<Window> {
        let window = |&(cpus, done): &(f64, f64)| {
            let spent = Spent { life_ns: WALL_NS, compute_ns: done, ..Spent::default() };
            let placed = Counted::of(Some(cpus * WALL_NS), WALL_NS);
            Window { wall_ns: WALL_NS, placed, tasks: [(TaskId(1), spent)].into(), ..Window::default() }
        };
        of.iter().map(window).collect()
    }

    fn of(dedicated: &[(f64, f64)], shared: &[(f64, f64)]) -> Placement {
        Placement::of(&windows(dedicated), &windows(shared), |w| w.total().compute_ns / w.wall_ns)
    }

    const SHARED: [(f64, f64); 4] = [(1.0, 20.0), (2.0, 21.0), (1.0, 21.0), (2.0, 20.0)];

    #[test]
    fn a_program_that_is_twice_as_fast_on_two_cpus_may_be_either_alone_however_many_windows_there_are() {
        let both = [(1.0, 40.0), (2.0, 81.0), (1.0, 41.0), (2.0, 79.0)];
        let few = of(&both, &SHARED);
        let many = of(&both.repeat(8), &SHARED);
        assert!((few.error() - 2.0f64.ln() / 2.0 * (4.0f64 / 3.0).sqrt()).abs() < 0.02, "{few:?}");
        assert!((many.error() - 2.0f64.ln() / 2.0).abs() < 0.02, "{many:?}");
        let said: Vec<Why> = many.unknown().map(|u| u.why).collect();
        assert!(matches!(said[..], [Why::OneOfSeveralPlacements { percent: 40..=44 }]), "{said:?}");
    }

    #[test]
    fn one_that_is_as_fast_wherever_it_is_or_always_on_as_many_is_as_sure_as_before() {
        let alike = [(1.0, 80.0), (2.0, 81.0), (1.0, 82.0), (2.0, 80.0)];
        let spread = [(2.0, 40.0), (2.0, 81.0), (2.0, 41.0), (2.0, 79.0)];
        for dedicated in [&alike, &spread] {
            assert_eq!(of(dedicated, &SHARED).error(), 0.0);
            assert_eq!(of(dedicated, &SHARED).unknown().count(), 0);
        }
        assert_eq!(of(&alike[..2], &SHARED).error(), 0.0, "two windows tell nothing");
    }

    #[test]
    fn dedicated_windows_on_fewer_cpus_than_shared_ones_are_no_run_alone_and_on_more_they_are() {
        let slow_on_one = [(1.0, 10.0), (2.0, 20.0), (2.0, 21.0), (2.0, 20.0), (2.0, 21.0)];
        let on = |cpus: f64| of(&[(cpus, 40.0), (cpus, 41.0), (cpus, 40.0)], &slow_on_one);
        let fewer = on(1.0);
        assert!((fewer.error() - 0.8 * 2.05f64.ln()).abs() < 0.05, "{fewer:?}");
        let said: Vec<Why> = fewer.unknown().map(|u| u.why).collect();
        assert!(matches!(said[..], [Why::AnotherPlacement { .. }]), "{said:?}");
        assert_eq!(on(2.0).error(), 0.0, "co-runners had left it fewer");
    }
}
