//! Simpler predictors, fed with the same windows, for comparison.
//!
//! CPI and MPKI are those of PACT'16 §4: the shared metric divided by the metric alone, over all tasks. They do not see that a program can
//! spin or wait instead of working. CPU share sees what the scheduler gave but not how it was used. Run-queue latency sees waiting for a CPU
//! but not its consequences. The last one is the paper's own formula for useful work.

use crate::estimate::Baselines;
use crate::switch_cost::switch_cost_ns;
use crate::useful_work::{Spent, Window};
use crate::yardstick::Yardstick;

/// The baselines with dedicated windows, or with `None` from shared ones alone.
pub fn baselines(dedicated: Option<&Window>, shared: &Window) -> Baselines {
    let beside = shared.total();
    let queueing = |s: &Spent| {
        let ran_ns = s.life_ns - s.stolen_ns - s.queued_ns - s.other_ns;
        (ran_ns > 0.0).then(|| s.life_ns / ran_ns)
    };
    let Some(dedicated) = dedicated else {
        let wanted_ns = beside.on_cpu_ns() + beside.stolen_ns + beside.queued_ns;
        return Baselines {
            cpu_share: (beside.on_cpu_ns() > 0.0).then(|| wanted_ns / beside.on_cpu_ns()),
            runq_latency: queueing(&beside),
            ..Baselines::default()
        };
    };
    let alone = dedicated.total();
    let ratio = |beside: Option<f64>, alone: Option<f64>| {
        let (beside, alone) = (beside?, alone?);
        (alone > 0.0 && beside > 0.0).then(|| beside / alone)
    };
    let cpi = |s: &Spent| s.per_instruction(s.cycles);
    let mpki = |s: &Spent| s.per_instruction(s.misses);
    let cpus = |s: &Spent, w: &Window| Some(s.on_cpu_ns() / w.wall_ns);
    let useful = |s: &Spent, w: &Window| {
        let switch_ns = switch_cost_ns(dedicated).or_else(|_| switch_cost_ns(shared)).unwrap_or(0.0);
        match Yardstick::pact16(&alone, &beside, switch_ns) {
            by if by.is_blind() => None,
            by => Some(s.useful(by) / w.wall_ns),
        }
    };
    Baselines {
        pact16: ratio(useful(&alone, dedicated), useful(&beside, shared)),
        cpi: ratio(cpi(&beside), cpi(&alone)),
        mpki: ratio(mpki(&beside), mpki(&alone)),
        cpu_share: ratio(cpus(&alone, dedicated), cpus(&beside, shared)),
        runq_latency: ratio(queueing(&beside), queueing(&alone)),
    }
}
