//! When a program had begun: its first windows are not like the rest, and do not represent it.
//!
//! For half a second its threads have yet to start, and the kernel's averages of their load, which decide how it shares CPUs, take 0.35 s to
//! fill. After that, many programs prepare on one thread what they then do on all. The end of that is the truncation that leaves the
//! least standard error of the mean (MSER: White, "An effective truncation heuristic for bias reduction in simulation output", 1997). The
//! mean is that of the logarithm of how many CPUs its tasks wanted. For threads that spin or compute, steal does not change that.
//!
//! Limits: a beginning of more than half of what was seen does not count as one. A later change is a change of phase.

use crate::calibrated::OTHER_PHASE;
use crate::interval::FEWEST;
use crate::useful_work::{wall_ns, Window};

/// Definition: until then every program begins.
pub(crate) const LEAST_NS: u64 = 500_000_000;
/// Definition: the shortest stretch that counts as one value, in nanoseconds of wall time.
const BATCH_NS: f64 = 150_000_000.0;

/// When the program had begun, according to its shared windows since `begin_ns`; `None`: there is not as much after it, or it computed
/// nothing any more.
pub(crate) fn over_ns(windows: &[Window], begin_ns: u64) -> Option<u64> {
    let least_ns = begin_ns + LEAST_NS;
    let after = |ns: u64| &windows[windows.partition_point(|w| w.start_ns < ns)..];
    let computes = |w: &Window| w.total().compute_ns > 0.0;
    let is_enough = |ns: &u64| {
        let rest = after(*ns);
        wall_ns(rest) >= LEAST_NS as f64 && rest.len() >= FEWEST && rest.iter().any(computes)
    };
    truncation(windows).map(|ns| ns.max(least_ns)).filter(is_enough).or(Some(least_ns).filter(is_enough))
}

/// The cut that leaves the least standard error of the mean, if the part before it differs.
fn truncation(windows: &[Window]) -> Option<u64> {
    let mut values: Vec<(u64, f64)> = Vec::new();
    let (mut start_ns, mut wall_ns, mut wanted_ns) = (None, 0.0, 0.0);
    for window in windows {
        let from_ns = *start_ns.get_or_insert(window.start_ns);
        (wall_ns, wanted_ns) = (wall_ns + window.wall_ns, wanted_ns + window.wanted_ns());
        if wall_ns >= BATCH_NS {
            values.extend((wanted_ns > 0.0).then(|| (from_ns, f64::ln(wanted_ns / wall_ns))));
            (start_ns, wall_ns, wanted_ns) = (None, 0.0, 0.0);
        }
    }
    let mean = |values: &[(u64, f64)]| values.iter().map(|v| v.1).sum::<f64>() / values.len() as f64;
    let squared_error = |rest: &[(u64, f64)]| {
        let mean = mean(rest);
        rest.iter().map(|v| (v.1 - mean).powi(2)).sum::<f64>() / (rest.len() as f64).powi(2)
    };
    let errors = (0..=values.len() / 2).map(|cut| (cut, squared_error(&values[cut..])));
    let (cut, _) = errors.min_by(|a, b| a.1.total_cmp(&b.1))?;
    let (before, rest) = values.split_at(cut);
    let differs = !before.is_empty() && (mean(before) - mean(rest)).abs() >= OTHER_PHASE;
    differs.then(|| rest[0].0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::useful_work::Spent;
    use corun_model::TaskId;

    const WINDOW_NS: u64 = 200_000_000;

    /// Windows of a program of which this many tasks compute in each.
    fn windows(tasks: &[u32]) -> Vec<Window> {
        let spent = Spent { life_ns: WINDOW_NS as f64, compute_ns: WINDOW_NS as f64, ..Spent::default() };
        let of = |(i, n): (usize, &u32)| {
            let start_ns = i as u64 * WINDOW_NS;
            let tasks = (0..*n).map(|t| (TaskId(t), spent)).collect();
            Window {
                start_ns,
                end_ns: start_ns + WINDOW_NS,
                wall_ns: WINDOW_NS as f64,
                tasks,
                ..Window::default()
            }
        };
        tasks.iter().enumerate().map(of).collect()
    }

    #[test]
    fn what_is_prepared_on_one_thread_is_the_beginning_and_what_follows_is_not() {
        let mut prepares = vec![1; 7];
        prepares.extend([2, 2, 1, 2, 2, 2, 2, 2, 2]);
        assert_eq!(over_ns(&windows(&prepares), 0), Some(7 * WINDOW_NS));
        assert_eq!(over_ns(&windows(&[2; 16]), 0), Some(LEAST_NS));
    }

    #[test]
    fn a_few_other_windows_later_on_and_a_beginning_of_more_than_half_are_none() {
        let mut pauses = vec![2; 9];
        pauses.extend([1, 1, 2, 2, 2, 2]);
        assert_eq!(over_ns(&windows(&pauses), 0), Some(LEAST_NS));
        let mut long = vec![1; 12];
        long.extend([2; 6]);
        assert_eq!(over_ns(&windows(&long), 0), Some(LEAST_NS));
        assert_eq!(over_ns(&windows(&[1; 4]), 0), None, "there is not as much after it");
    }
}
