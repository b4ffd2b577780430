//! Whether a program goes in steps: from one meeting of its tasks to the next, each time with about the same work.
//!
//! At a barrier all tasks but the last one to come block, whoever was stolen from and wherever they run. So the same work takes as many
//! blockings with co-runners as alone: 0 to 4 % more or fewer in six programs. The time in user mode was up to 35 % less, since threads
//! that take turns on one CPU need not send each other what they have written, and have the memory's bandwidth to themselves. So blockings
//! are the measure of work if dedicated windows are compared with others. If tasks block by chance, for a lock, for a full queue or for a
//! row of another frame, the same work takes 0.02 to 4 times as many.
//!
//! Method. What happens by chance scatters, and what belongs to each step does not. With barriers, the number of blockings per time
//! computing varies from window to window by 1 to 10 %. In other programs it varies by 13 to 500 %, in at least one kind of window. So it
//! must be the same in all dedicated windows, and in all others, and must not differ between them by more than caches and memory can
//! explain.
//!
//! Limits: a window has to have some ten steps. A program whose steps come in groups of different kinds (decision trees, level by level)
//! does not go in steps here. Long windows are alike whatever happens, so for long runs the dedicated windows tell.

use crate::calibrated::{SAME_WORK, STEPS_VARY};
use crate::interval::FEWEST;
use crate::useful_work::{Spent, Window};

/// Whether these windows, alone and shared, are those of a program that goes in steps.
pub(crate) fn goes_in_steps(alone: &[Window], beside: &[Window]) -> bool {
    let rate = |windows| Some(regular(windows)?.ln());
    rate(alone).zip(rate(beside)).is_some_and(|(a, b)| (a - b).abs() <= SAME_WORK.ln())
}

/// Blockings per nanosecond of computing, if that is the same in all windows.
fn regular(windows: &[Window]) -> Option<f64> {
    let sum = |w: &Window, get: fn(&Spent) -> f64| w.workers().map(get).sum::<f64>();
    let points: Vec<(f64, f64)> =
        windows.iter().map(|w| (sum(w, Spent::blockings_for_siblings), sum(w, |s| s.compute_ns))).collect();
    let n = points.len() as f64;
    let (blockings, compute_ns) = points.iter().fold((0.0, 0.0), |all, p| (all.0 + p.0, all.1 + p.1));
    let rate = blockings / compute_ns;
    let squares: f64 = points.iter().map(|p| (p.0 - rate * p.1).powi(2)).sum();
    let varies = (squares / (n - 1.0)).sqrt() / (blockings / n);
    (points.len() >= FEWEST && varies <= STEPS_VARY).then_some(rate)
}

#[cfg(test)]
mod tests {
    use super::*;
    use corun_model::TaskId;

    /// Windows of two tasks, by how often both together blocked while each computed for 50 ns of 100.
    fn windows(blockings: &[f64]) -> Vec<Window> {
        let window = |both: &f64| {
            let spent = Spent {
                life_ns: 100.0,
                compute_ns: 50.0,
                sibling_ns: 50.0,
                blockings: Some(both / 2.0),
                ..Spent::default()
            };
            let tasks = [(TaskId(1), spent), (TaskId(2), spent)].into();
            Window { wall_ns: 100.0, tasks, ..Window::default() }
        };
        blockings.iter().map(window).collect()
    }

    #[test]
    fn blockings_that_are_as_many_in_every_window_are_steps() {
        let regular = windows(&[20.0, 21.0, 20.0, 19.0]);
        assert!(goes_in_steps(&regular, &windows(&[30.0, 31.0, 30.0, 29.0])), "memory may do that");
        assert!(!goes_in_steps(&regular, &windows(&[50.0, 51.0, 50.0, 49.0])), "that it may not");
        assert!(!goes_in_steps(&regular, &windows(&[20.0, 10.0, 30.0, 20.0])), "chance beside others");
        assert!(!goes_in_steps(&windows(&[20.0, 10.0, 30.0, 20.0]), &regular), "and alone");
    }

    #[test]
    fn who_never_blocks_does_not_go_in_steps_and_two_windows_tell_nothing() {
        assert!(!goes_in_steps(&windows(&[0.0; 4]), &windows(&[0.0; 4])));
        assert!(!goes_in_steps(&windows(&[20.0; 2]), &windows(&[20.0; 4])));
    }
}
