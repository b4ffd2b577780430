//! The cost of a context switch (PACT'16 §4), inferred as in the paper. Take the tasks of one program, with equal work: the time that
//! remains after steal and memory grows with how often a task blocked, by the cost of one switch.
//!
//! Limits: that regression needs tasks with equal work that block differently often. Otherwise it says why it cannot tell, and the cost
//! (microseconds per blocking) stays inside useful work.

use crate::definitions::{CONFIDENCE, NEGLIGIBLE};
use crate::interval::quantile;
use crate::useful_work::{Spent, Window};
use crate::yardstick::Yardstick;
use corun_model::why::NoSwitchCost;
use corun_model::worker::is_worker;

/// Definition: the remaining times of tasks with equal work lie this close together, as a share of their mean.
const EQUAL: f64 = 0.2;
/// Definition: a context switch costs less than this, in nanoseconds; a larger slope is unequal work, not switches.
const DEAREST_NS: f64 = 100_000.0;

/// The cost of one blocking (sleep and wake-up), in nanoseconds, inferred from the tasks of a window.
///
/// # Errors
/// Why it cannot be inferred.
pub fn switch_cost_ns(window: &Window) -> Result<f64, NoSwitchCost> {
    let most = window.tasks.values().map(|s| s.compute_ns).fold(0.0, f64::max);
    let workers: Vec<&Spent> = window.tasks.values().filter(|s| is_worker(s.compute_ns, most)).collect();
    if workers.len() < 3 {
        return Err(NoSwitchCost::TooFewTasks);
    }
    let by = Yardstick::Time {
        switch_ns: 0.0,
        spin_stalls: workers.iter().all(|s| s.knows_memory()).then_some(0.0),
    };
    let points: Option<Vec<(f64, f64)>> =
        workers.iter().map(|s| Some((s.blockings?, s.useful(by)))).collect();
    let points = points.ok_or(NoSwitchCost::BlockingsUnknown)?;
    let n = points.len() as f64;
    let mean = |get: fn(&(f64, f64)) -> f64| points.iter().map(get).sum::<f64>() / n;
    let (mean_k, mean_t) = (mean(|p| p.0), mean(|p| p.1));
    let apart = points.iter().map(|p| (p.1 - mean_t).abs()).fold(0.0, f64::max);
    if apart > EQUAL * mean_t {
        return Err(NoSwitchCost::UnequalWork);
    }
    let var = points.iter().map(|p| (p.0 - mean_k).powi(2)).sum::<f64>();
    if var.sqrt() < NEGLIGIBLE * mean_k.max(1.0) * n.sqrt() {
        return Err(NoSwitchCost::EqualBlockings);
    }
    let slope = points.iter().map(|p| (p.0 - mean_k) * (p.1 - mean_t)).sum::<f64>() / var;
    let residual = points.iter().map(|p| (p.1 - mean_t - slope * (p.0 - mean_k)).powi(2)).sum::<f64>();
    let error = (residual / (n - 2.0) / var).sqrt();
    match slope {
        s if s <= 0.0 || s > DEAREST_NS || s < quantile(workers.len() - 2, CONFIDENCE) * error => {
            Err(NoSwitchCost::NoGrowth)
        }
        s => Ok(s),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corun_model::TaskId;

    #[test]
    fn the_cost_of_a_switch_is_inferred_where_equal_tasks_block_differently_often() {
        let task = |id: u32, blockings: f64| {
            let compute_ns = 1e9 + 4_000.0 * blockings;
            (TaskId(id), Spent { life_ns: 2e9, compute_ns, blockings: Some(blockings), ..Spent::default() })
        };
        let window =
            |tasks: Vec<(TaskId, Spent)>| Window { tasks: tasks.into_iter().collect(), ..Window::default() };
        let cost = switch_cost_ns(&window(vec![task(1, 100.0), task(2, 2_000.0), task(3, 9_000.0)])).unwrap();
        assert!((cost - 4_000.0).abs() < 1.0, "{cost}");
        let alike = switch_cost_ns(&window(vec![task(1, 100.0), task(2, 100.0), task(3, 100.0)]));
        assert_eq!(alike, Err(NoSwitchCost::EqualBlockings));
        assert!(switch_cost_ns(&window(vec![task(1, 100.0)])).is_err());
        let mut unequal = task(3, 9_000.0);
        unequal.1.compute_ns *= 2.0;
        assert!(switch_cost_ns(&window(vec![task(1, 100.0), task(2, 2_000.0), unequal])).is_err());
    }
}
