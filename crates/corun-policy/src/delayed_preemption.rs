//! `delayed_preemption`: a waking task waits before it may take a CPU. PACT'16 §5.1, equations 1 and 2.
//!
//! Static: the wake-ups of all tasks have the same delay (the paper tries 2 ms and 8 ms), since the running
//! task may yield meanwhile. Adaptive: each task has its own delay, which follows its **lag**
//!
//! ```text
//! lag   = (t_comp - t_fair) / (t_comp + t_idle)        (1)
//! delay = delay + lag × (delay + 10 us)                (2)
//! ```
//!
//! where `t_idle` is synchronization and steal, so that `t_comp + t_idle` is the time that it lived unparked. A task that had more than
//! its fair share waits longer; one that had less waits shorter. The 10 µs let a delay of zero grow again.
//!
//! The paper does not say how it finds `t_fair`; its machine has two VMs with the same number of busy vCPUs. Here the capacity is that
//! of the CPUs on which tasks in scope were seen in the last second, without the time of others. It is split among tenants by weight,
//! and a tenant's part evenly among its tasks, both by max-min fairness. A task whose demand (`census.rs`) reaches a fifth of a CPU
//! wants a whole one, as in Controlled Contention §III.A, since a task that is held up blocks more than it would. Other tasks want
//! their demand. So a worker with eight sleeping helpers is entitled to its tenant's CPU time, not to a ninth of it. Known spinning
//! counts as synchronization, unknown spinning as computing.
//!
//! On the live host a new task inherits the delay of its parent. So the policy always sets its delay, even a delay of zero. Otherwise a
//! task with less than its share would keep its parent's delay.
//!
//! Limits: the delay is kept below `most`, beyond which slices decide anyway. Programs that wait busily gain nothing (§6). A change of
//! less than an eighth is not worth an action.

use crate::census::Census;
use crate::fair;
use crate::options::{Kind, OptionSpec, Values};
use crate::scope::Scope;
use crate::settled::Settled;
use corun_model::observation::TaskObservation;
use corun_model::{Action, CpuId, Decision, Knob, Machine, Observation, Policy, Reason, TaskId, TenantId};
use std::collections::{BTreeMap, BTreeSet};

/// Equation 2's term "to ensure non-zero changes".
const FLOOR_NS: i64 = 10_000;
/// How long a CPU counts as available after a task in scope was seen on it, in nanoseconds.
const SEEN_NS: u64 = 1_000_000_000;
/// A task with at least this demand, in thousandths of a CPU, wants a whole CPU.
const WHOLE_MILLI: u64 = 200;
/// Lags are in millionths.
const UNIT: i64 = 1_000_000;

pub(crate) const OPTIONS: &[OptionSpec] = &[
    OptionSpec {
        name: "delay",
        default: "adaptive",
        kind: Kind::Time { least_ns: 0, most_ns: 1_000_000_000 },
        words: &["adaptive"],
        about: "how long a waking task waits for the running one to yield; adaptive: by its lag",
    },
    OptionSpec {
        name: "most",
        default: "30ms",
        kind: Kind::Time { least_ns: 10_000, most_ns: 1_000_000_000 },
        words: &[],
        about: "no adaptive delay grows longer",
    },
    OptionSpec {
        name: "epoch",
        default: "30ms",
        kind: Kind::Time { least_ns: 1_000_000, most_ns: 10_000_000_000 },
        words: &[],
        about: "how often adaptive delays follow the lag",
    },
];

/// Delays preemption at wake-up.
#[derive(Debug)]
pub struct DelayedPreemption {
    scope: Scope,
    /// The static delay. `None` if adaptive.
    fixed_ns: Option<u64>,
    most_ns: u64,
    epoch_ns: u64,
    delays: Settled<Delay>,
    /// The demand of each task.
    census: Census,
    /// When each CPU was last seen to run a task in scope.
    cpus: BTreeMap<CpuId, u64>,
}

/// The present result of equation 2, and the delay set on the host. `None` before the first.
#[derive(Clone, Copy, Debug, Default)]
struct Delay {
    now_ns: u64,
    told_ns: Option<u64>,
}

impl Delay {
    fn is_news(&self) -> bool {
        self.told_ns.is_none_or(|told_ns| {
            let off_ns = self.now_ns.abs_diff(told_ns);
            off_ns > 0 && (off_ns * 8 >= told_ns || self.now_ns == 0)
        })
    }
}

impl DelayedPreemption {
    pub(crate) fn new(values: &Values) -> DelayedPreemption {
        DelayedPreemption {
            scope: values.scope.clone(),
            fixed_ns: values.number("delay"),
            most_ns: values.number("most").expect("no words"),
            epoch_ns: values.number("epoch").expect("no words"),
            delays: Settled::default(),
            census: Census::new(values.scope.clone(), WHOLE_MILLI / 10),
            cpus: BTreeMap::new(),
        }
    }

    /// The fair time of each task in scope that wanted to run, in nanoseconds of the last window, in the order of ids.
    fn fair_ns(&mut self, seen: &Observation) -> BTreeMap<TaskId, u64> {
        self.census.take(seen, &BTreeSet::new());
        let covered = self.scope.covered(seen);
        let mut wanting: BTreeMap<TenantId, Vec<(TaskId, u64)>> = BTreeMap::new();
        for task in seen.tasks.iter().filter(|t| covered.contains(&t.tenant)) {
            let ledger = &task.account.ledger;
            let (on_cpu_ns, steal_ns) = (ledger.on_cpu_ns(), ledger.parts().steal_ns);
            if on_cpu_ns + steal_ns > 0 {
                let lived_ns = on_cpu_ns + steal_ns + ledger.parts().block_ns;
                let want_ns = match self.census.demand_milli(task.id) {
                    Some(demand) if demand < WHOLE_MILLI => demand * lived_ns / 1_000,
                    Some(_) => lived_ns,
                    // Its demand is not known yet, so take what it asked for.
                    None => on_cpu_ns + steal_ns,
                };
                wanting.entry(task.tenant).or_default().push((task.id, want_ns));
                if let Some(cpu) = task.last_cpu {
                    self.cpus.insert(cpu, seen.end_ns);
                }
            }
        }
        self.cpus.retain(|_, at_ns| *at_ns + SEEN_NS > seen.end_ns);
        let theirs = |cpu: Option<CpuId>| cpu.is_some_and(|cpu| self.cpus.contains_key(&cpu));
        let others = seen.tasks.iter().filter(|t| !covered.contains(&t.tenant) && theirs(t.last_cpu));
        let others_ns: u64 = others.map(|t| t.account.ledger.on_cpu_ns()).sum();
        let capacity_ns = (self.cpus.len() as u64 * seen.window_ns()).saturating_sub(others_ns);
        let of_tenant = |(id, tasks): (&TenantId, &Vec<(TaskId, u64)>)| {
            (tasks.iter().map(|t| t.1).sum::<u64>(), seen.weight(*id))
        };
        let wants: Vec<(u64, u64)> = wanting.iter().map(of_tenant).collect();
        let parts = fair::weighted_shares(capacity_ns, &wants);
        let of_tasks = |(tasks, part): (Vec<(TaskId, u64)>, u64)| {
            let wants: Vec<u64> = tasks.iter().map(|t| t.1).collect();
            tasks.into_iter().map(|t| t.0).zip(fair::shares(part, &wants))
        };
        wanting.into_values().zip(parts).flat_map(of_tasks).collect()
    }
}

/// Equation 1, in millionths. `None` for a task that did not live in the window, or was parked all the time.
fn lag(task: &TaskObservation, fair_ns: u64) -> Option<i64> {
    let parts = task.account.ledger.parts();
    let idle_ns = parts.block_ns + parts.steal_ns + parts.spin_ns.unwrap_or(0);
    let lived_ns = (parts.compute_ns + idle_ns) as i64;
    (lived_ns > 0).then(|| (parts.compute_ns as i64 - fair_ns as i64) * UNIT / lived_ns)
}

/// Equation 2.
fn follow(delay_ns: u64, lag: i64, most_ns: u64) -> u64 {
    // Below -1 the delay is 0 anyway. A task that was stopped for nearly all of a window would be far below.
    let (delay, lag) = (delay_ns as i64, lag.max(-2 * UNIT));
    (delay + lag * (delay + FLOOR_NS) / UNIT).clamp(0, most_ns as i64) as u64
}

impl Policy for DelayedPreemption {
    fn name(&self) -> &'static str {
        "delayed_preemption"
    }

    fn knobs(&self) -> &'static [Knob] {
        &[Knob::PreemptDelay]
    }

    fn epoch_ns(&self) -> u64 {
        self.epoch_ns
    }

    fn decide(&mut self, _: &Machine, seen: &Observation) -> Vec<Decision> {
        let mut decisions = Vec::new();
        if let Some(delay_ns) = self.fixed_ns {
            self.delays.follow(seen, &self.scope, |task, known| {
                if known.is_none() {
                    decisions.push(Decision {
                        action: Action::PreemptDelay { task: task.id, delay_ns },
                        because: Reason::NewTaskDelay { delay_ns },
                    });
                }
                Delay::default()
            });
            return decisions;
        }
        let fair_ns = self.fair_ns(seen);
        let most_ns = self.most_ns;
        self.delays.follow(seen, &self.scope, |task, known| {
            let mut delay = known.unwrap_or_default();
            let fair_ns = fair_ns.get(&task.id).copied();
            let lag = fair_ns.and_then(|fair| lag(task, fair));
            if let Some(lag) = lag {
                delay.now_ns = follow(delay.now_ns, lag, most_ns);
            }
            if delay.is_news() {
                delay.told_ns = Some(delay.now_ns);
                let percent = |ns: u64| ns * 100 / task.account.ledger.total_ns().max(1);
                let of_its_own = |lag: i64| Reason::Lag {
                    computed_percent: percent(task.account.ledger.parts().compute_ns),
                    fair_percent: percent(fair_ns.unwrap_or(0)),
                    lag_millionths: lag,
                };
                decisions.push(Decision {
                    action: Action::PreemptDelay { task: task.id, delay_ns: delay.now_ns },
                    because: lag.map_or(Reason::NewTaskOwnDelay, of_its_own),
                });
            }
            delay
        });
        decisions
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn equation_2_grows_from_zero_and_falls_back_to_it() {
        assert_eq!(follow(0, UNIT / 2, 30_000_000), 5_000, "half of the 10 us");
        assert_eq!(follow(2_000_000, UNIT / 10, 30_000_000), 2_201_000);
        assert_eq!(follow(2_000_000, -UNIT, 30_000_000), 0);
        assert_eq!(follow(29_000_000, UNIT / 2, 30_000_000), 30_000_000);
        let grown = (0..60).fold(0, |delay, _| follow(delay, UNIT / 5, 30_000_000));
        assert!(
            grown > 8_000_000,
            "{grown}: 60 epochs at a lag of 0.2 lead beyond the paper's longest delay"
        );
    }

    proptest! {
        #[test]
        fn the_sign_of_the_lag_is_the_sign_of_the_change(delay in 0u64..30_000_000, lag in -UNIT..UNIT) {
            let next = follow(delay, lag, 30_000_000);
            prop_assert!(lag >= 0 && next >= delay || lag < 0 && next <= delay);
        }
    }
}
