//! Spinning separated from work by hardware counters (PACT'16 §2.1, after Rao and Zhou, PPoPP 2014).
//!
//! Method: a loop that only asks whether a lock or barrier has moved is a handful of instructions long, one of them a branch that always
//! goes the same way. So while a task spins, it retires many branches per instruction and mispredicts hardly any, **compared with sibling
//! tasks that compute**. Each task's window is a mixture of two kinds of instructions. The computing kind is known from the windows of all
//! siblings with the fewest branches per instruction. The spinning kind is known from those with the most. It is believed only if it differs
//! from the computing kind in both respects: more branches per instruction by the factor `OTHER_CODE`, at least [`DENSE`] in absolute terms, and
//! fewer mispredictions per branch by as much. If no window does, nobody spins, which is an answer, too. The share of spinning instructions
//! follows from a task's branches per instruction, and time from the cycles that such instructions take.
//!
//! The thresholds: a test-and-branch loop has one branch in two to five instructions (0.2 to 0.5), whatever compiler and lock. Programs that
//! compute have 0.05 to 0.2, with one or more in a hundred mispredicted, while a loop mispredicts once per wait. A tight numeric loop may be
//! as steady, but has few branches per instruction. And siblings are a yardstick only if they do similar work: if every thread runs other
//! code, the one with the most branches need not be spinning. So only tasks of one name that run in the same window are compared (threads
//! have their program's name unless they are named for other work), and at least [`ALIKE`] of their windows must be like the computing kind.
//!
//! Limits: some programs compute in a tight, steady loop, such as `corun load` and many micro-benchmarks. They do not mispredict more often
//! than a spin loop, and no spinning is found in them. Tasks that all spin all the time have no sibling for comparison. Tasks that spin in
//! nearly every window (modelled NPB LU next to four busy loops, for 70 % of its CPU time) leave too few windows that are alike. Nothing is
//! found in them either. A window that is never wholly spinning makes the spinning kind look less dense than it is. So spin is overstated, and
//! the interval allows for that.

use crate::calibrated::OTHER_CODE;
use crate::definitions::{NEGLIGIBLE, SMALL};
use corun_model::{Observation, SpinEstimate, SpinMethod, TaskId, TenantId};
use std::collections::BTreeMap;

/// Definition: branches per instruction of a spin loop, at least: one in five.
pub const DENSE: f64 = 0.2;
/// Definition: branches per instruction that no spin loop exceeds: every second instruction.
const DENSEST: f64 = 0.5;
/// Definition: the least share of windows that are like the computing kind.
pub const ALIKE: f64 = 0.2;
/// Limit: fewest instructions of a task in a window for its rates.
const FEWEST: f64 = 10_000.0;
/// Limit: windows of tasks of one name that are remembered for comparison.
const MEMORY: usize = 4_096;
/// Limit: names that are remembered.
const NAMES: usize = 256;

/// The rates of one task in one window.
#[derive(Clone, Copy, Debug)]
struct Rates {
    /// Branches per instruction.
    density: f64,
    /// Mispredictions per branch.
    mispredicts: f64,
    /// Cycles per instruction.
    cpi: f64,
    instructions: f64,
    cycles: f64,
}

/// Separates spinning from computing for the tasks of one tenant, window after window.
#[derive(Clone, Debug)]
pub struct SpinByCounters {
    subject: TenantId,
    /// For each name of tasks.
    seen: BTreeMap<String, Seen>,
}

/// The remembered windows of tasks of one name.
#[derive(Clone, Debug, Default)]
struct Seen {
    rates: Vec<Rates>,
    next: usize,
}

/// The two kinds of instructions that a tenant's tasks retire.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Kinds {
    computing_density: f64,
    spinning_density: f64,
    spinning_cpi: f64,
}

impl SpinByCounters {
    /// A detector for this tenant's tasks.
    pub fn new(subject: TenantId) -> SpinByCounters {
        SpinByCounters { subject, seen: BTreeMap::new() }
    }

    /// Spin time of each task in this window, compared with its siblings in this and earlier windows. `None`: nobody's
    /// branches, mispredictions, instructions and cycles were counted. A task that was not counted (it has just begun)
    /// is assumed to be like those that were, with nothing certain. A task that was not on a CPU is not listed.
    pub fn estimate(&mut self, seen: &Observation) -> Option<BTreeMap<TaskId, SpinEstimate>> {
        let tasks = || seen.tasks.iter().filter(|t| t.tenant == self.subject);
        let ran = || tasks().filter(|t| t.account.ledger.on_cpu_ns() > 0);
        let rates: BTreeMap<TaskId, Option<Rates>> =
            ran().filter_map(|t| Some((t.id, rates(t.account.counters.as_ref()?)?))).collect();
        if rates.is_empty() && ran().next().is_some() {
            return None;
        }
        let mut of_name: BTreeMap<String, Vec<Rates>> = BTreeMap::new();
        for (task, rates) in ran().filter_map(|t| Some((t, (*rates.get(&t.id)?)?))) {
            of_name.entry(unnumbered(&task.name)).or_default().push(rates);
        }
        // A single task waits for nobody.
        let mut kinds: BTreeMap<String, Kinds> = BTreeMap::new();
        for (name, rates) in of_name.into_iter().filter(|(_, rates)| rates.len() > 1) {
            if self.seen.len() >= NAMES && !self.seen.contains_key(&name) {
                continue;
            }
            let seen = self.seen.entry(name.clone()).or_default();
            rates.into_iter().for_each(|r| seen.remember(r));
            kinds.extend(seen.kinds().map(|k| (name, k)));
        }
        let mut found = BTreeMap::new();
        let (mut spun_ns, mut judged_ns) = (0, 0);
        for task in ran().filter(|t| rates.contains_key(&t.id)) {
            let on_cpu_ns = task.account.ledger.on_cpu_ns();
            let (share, low, high) = match (kinds.get(&unnumbered(&task.name)), rates[&task.id]) {
                (Some(kinds), Some(r)) => kinds.shares(&r),
                _ => (0.0, 0.0, 0.0),
            };
            let of = |share: f64| (on_cpu_ns as f64 * share) as u64;
            let method = SpinMethod::Counters;
            let observed_ns = if rates[&task.id].is_some() { on_cpu_ns } else { 0 };
            let (spin_ns, low_ns, high_ns) = (of(share), of(low), of(high));
            (spun_ns, judged_ns) = (spun_ns + spin_ns, judged_ns + on_cpu_ns);
            found.insert(
                task.id,
                SpinEstimate {
                    observed_ns,
                    unjudged_ns: 0,
                    spin_ns,
                    low_ns,
                    high_ns,
                    system_ns: None,
                    method,
                },
            );
        }
        for task in ran().filter(|t| !rates.contains_key(&t.id)) {
            let on_cpu_ns = task.account.ledger.on_cpu_ns();
            let spin_ns = (on_cpu_ns as f64 * spun_ns as f64 / judged_ns as f64) as u64;
            let (low_ns, high_ns, method) = (0, on_cpu_ns, SpinMethod::Counters);
            found.insert(
                task.id,
                SpinEstimate {
                    observed_ns: 0,
                    unjudged_ns: on_cpu_ns,
                    spin_ns,
                    low_ns,
                    high_ns,
                    system_ns: None,
                    method,
                },
            );
        }
        Some(found)
    }
}

/// A task's name without its number: `CPU 0/KVM` and `CPU 1/KVM` are siblings.
fn unnumbered(name: &str) -> String {
    name.chars().filter(|c| !c.is_ascii_digit()).collect()
}

impl Seen {
    fn remember(&mut self, rates: Rates) {
        if self.rates.len() < MEMORY {
            self.rates.push(rates);
        } else {
            self.rates[self.next] = rates;
            self.next = (self.next + 1) % MEMORY;
        }
    }

    /// The two kinds; `None`: nobody spins, as far as can be told.
    fn kinds(&self) -> Option<Kinds> {
        let mut sorted: Vec<&Rates> = self.rates.iter().collect();
        sorted.sort_by(|a, b| a.density.total_cmp(&b.density));
        // A twentieth from either end, so that one odd window decides nothing.
        let edge = sorted.len() / 20;
        let (computing, spinning) = (sorted.get(edge)?, sorted.get(sorted.len() - 1 - edge)?);
        let alike = sorted.iter().filter(|r| r.density <= OTHER_CODE.sqrt() * computing.density).count();
        let spins = alike as f64 >= ALIKE * sorted.len() as f64
            && spinning.density >= DENSE
            && spinning.density >= OTHER_CODE * computing.density
            && OTHER_CODE * spinning.mispredicts <= computing.mispredicts;
        spins.then_some(Kinds {
            computing_density: computing.density,
            spinning_density: spinning.density,
            spinning_cpi: spinning.cpi,
        })
    }
}

impl Kinds {
    /// Share of a task's cycles spent spinning: best estimate, low, high.
    fn shares(&self, r: &Rates) -> (f64, f64, f64) {
        let share = |densest: f64| {
            let above = (r.density - self.computing_density) / (densest - self.computing_density);
            (r.instructions * above.clamp(0.0, 1.0) * self.spinning_cpi / r.cycles).clamp(0.0, 1.0)
        };
        let best = share(self.spinning_density);
        // The densest window may not be all spinning.
        let low = share(DENSEST.max(self.spinning_density));
        // A tenth of the distance between the kinds is within the spread of windows that only compute.
        (best, low.min(best), (best * (1.0 + SMALL) + NEGLIGIBLE).min(1.0))
    }
}

/// The rates of a task; `None` in the outer sense when a counter is absent, in the inner when too little ran.
fn rates(c: &corun_model::Counters) -> Option<Option<Rates>> {
    let (branches, misses) = (c.branches? as f64, c.branch_misses? as f64);
    let (instructions, cycles) = (c.instructions? as f64, c.cycles? as f64);
    Some((instructions >= FEWEST && branches > 0.0 && cycles > 0.0).then(|| Rates {
        density: branches / instructions,
        mispredicts: misses / branches,
        cpi: cycles / instructions,
        instructions,
        cycles,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use corun_model::ledger::{Ledger, Parts};
    use corun_model::observation::{Account, TaskObservation};
    use corun_model::Counters;

    const MS: u64 = 1_000_000;

    /// A task that ran for 100 ms of which it spun a share, at 1 GHz.
    fn task(id: u32, spin: f64, density: f64, mispredicts: f64) -> TaskObservation {
        let on_cpu_ns = 100 * MS;
        let spinning = on_cpu_ns as f64 * spin;
        // Computing retires 2 instructions a cycle, spinning 1 with 0.4 branches.
        let computing = (on_cpu_ns as f64 - spinning) * 2.0;
        let branches = computing * density + spinning * 0.4;
        let counters = Counters {
            cycles: Some(on_cpu_ns),
            instructions: Some((computing + spinning) as u64),
            branches: Some(branches as u64),
            branch_misses: Some((computing * density * mispredicts + spinning * 0.4 * 1e-4) as u64),
            ..Counters::default()
        };
        let ledger =
            Ledger::new(Parts { compute_ns: on_cpu_ns, ..Parts::default() }, on_cpu_ns).expect("sums");
        TaskObservation {
            id: TaskId(id),
            name: "t".into(),
            tenant: TenantId(0),
            born_ns: 0,
            alive: true,
            last_cpu: None,
            account: Account { ledger, counters: Some(counters), ..Account::default() }.into(),
        }
    }

    fn window(tasks: Vec<TaskObservation>) -> Observation {
        Observation { end_ns: 100 * MS, tasks, ..Observation::default() }
    }

    fn found(tasks: Vec<TaskObservation>) -> Vec<f64> {
        let mut detector = SpinByCounters::new(TenantId(0));
        let estimates = detector.estimate(&window(tasks)).expect("counters are there");
        estimates.values().map(|e| e.spin_ns as f64 / (100 * MS) as f64).collect()
    }

    #[test]
    fn a_spinning_task_is_told_from_siblings_that_compute() {
        let spin = found(vec![task(1, 0.0, 0.1, 0.01), task(2, 1.0, 0.1, 0.01), task(3, 0.3, 0.1, 0.01)]);
        assert!(spin[0] < 0.01 && spin[1] > 0.95, "{spin:?}");
        assert!((spin[2] - 0.3).abs() < 0.05, "{spin:?}");
    }

    #[test]
    fn a_tight_numeric_loop_is_not_spinning() {
        // As steady as a spin loop, but with few branches per instruction.
        let spin = found(vec![task(1, 0.0, 0.1, 0.01), task(2, 0.0, 0.12, 1e-5)]);
        assert_eq!(spin, [0.0, 0.0]);
    }

    #[test]
    fn many_branches_that_are_mispredicted_are_a_search_not_a_spin() {
        let spin = found(vec![task(1, 0.0, 0.1, 0.01), task(2, 0.0, 0.3, 0.05)]);
        assert_eq!(spin, [0.0, 0.0]);
    }

    #[test]
    fn siblings_that_are_alike_do_not_spin() {
        assert_eq!(found(vec![task(1, 0.0, 0.15, 0.01), task(2, 0.0, 0.16, 0.01)]), [0.0, 0.0]);
    }

    #[test]
    fn siblings_of_which_each_does_something_else_are_no_yardstick() {
        let kernels = (0..12).map(|n| task(n, 0.0, 0.05 + 0.03 * f64::from(n), 0.01 / f64::from(n + 1)));
        assert_eq!(found(kernels.collect()), [0.0; 12]);
    }

    #[test]
    fn tasks_of_other_names_and_tasks_that_are_alone_are_not_compared() {
        let named = |name: &str, t: TaskObservation| TaskObservation { name: name.into(), ..t };
        let (computes, spins) = (|| task(1, 0.0, 0.1, 0.01), || task(2, 1.0, 0.1, 0.01));
        assert_eq!(found(vec![named("cc1", computes()), named("as", spins())]), [0.0, 0.0]);
        let numbered = found(vec![named("CPU 0/KVM", computes()), named("CPU 1/KVM", spins())]);
        assert!(numbered[0] < 0.01 && numbered[1] > 0.95, "{numbered:?}");
        let mut detector = SpinByCounters::new(TenantId(0));
        for alone in [computes(), spins()] {
            let found = detector.estimate(&window(vec![alone])).unwrap();
            assert!(found.values().all(|e| e.spin_ns == 0), "one after the other: {found:?}");
        }
    }

    #[test]
    fn without_counters_there_is_no_answer_rather_than_zero() {
        let mut blind = task(1, 0.5, 0.1, 0.01);
        blind.set_counters(None);
        assert_eq!(SpinByCounters::new(TenantId(0)).estimate(&window(vec![blind])), None);
    }

    #[test]
    fn a_task_that_has_just_begun_is_taken_to_spin_as_its_siblings_do_with_nothing_certain() {
        let mut blind = task(3, 0.0, 0.1, 0.01);
        blind.set_counters(None);
        let tasks = vec![task(1, 0.0, 0.1, 0.01), task(2, 1.0, 0.1, 0.01), blind];
        let found = SpinByCounters::new(TenantId(0)).estimate(&window(tasks)).unwrap();
        let all = 100 * MS;
        let guess = found[&TaskId(3)];
        assert_eq!((guess.observed_ns, guess.low_ns, guess.high_ns), (0, 0, all));
        assert!((guess.spin_ns as f64 / all as f64 - 0.5).abs() < 0.05, "{guess:?}");
    }
}
