//! The counters of a whole run, from those of its windows.
//!
//! A task is followed from the end of the window in which it first ran, so a program whose threads begin with it has a
//! window without counters, and the sum over its windows would be unknown. Over the whole run little is missing: what was
//! counted is scaled to the whole time on a CPU where it was counted for at least nine tenths of it.

use super::{Grain, LivePerf, Precision, Window};
use corun_model::observation::{Observation, Unavailable};
use corun_model::TenantId;
use std::collections::BTreeMap;

impl LivePerf {
    /// Fills in the counters of the run so far, of which `seen` is the sum of all windows that were
    /// [read](corun_model::CounterSource::read).
    pub fn read_whole(&self, seen: &mut Observation) {
        let ids: Vec<_> = seen.tasks.iter().map(|t| t.id).collect();
        let is_watched = |tenant: TenantId| self.options.of.is_none_or(|of| of == tenant);
        let mut sums: BTreeMap<TenantId, Window> = BTreeMap::new();
        for (n, task) in seen.tasks.iter_mut().enumerate().filter(|(_, t)| is_watched(t.tenant)) {
            let is_twin = n > 0 && ids[n - 1] == task.id || ids.get(n + 1) == Some(&task.id);
            let counted = self.totals.get(&task.id).filter(|_| !is_twin);
            if let Some(counted) = counted {
                sums.entry(task.tenant).or_insert_with(|| self.nothing()).add(counted);
            }
            let of_task = counted.filter(|_| self.options.grain == Grain::Task);
            let counters = of_task.and_then(|w| self.whole(w, task.account.ledger.on_cpu_ns()));
            task.set_counters(counters);
        }
        if let Grain::Tree(tenant) = self.options.grain {
            sums = Window::sum(self.totals.values()).map(|all| (tenant, all)).into_iter().collect();
        }
        for tenant in seen.by_tenant.iter_mut().filter(|t| is_watched(t.id)) {
            let on_cpu_ns = tenant.account.ledger.on_cpu_ns();
            let counted = sums.get(&tenant.id);
            tenant.account.counters = counted.and_then(|w| self.whole(w, on_cpu_ns));
            if tenant.account.counters.is_none() && on_cpu_ns > 0 && self.options.of == Some(tenant.id) {
                let part = 100.0 * counted.map_or(0, Window::enabled_ns) as f64 / on_cpu_ns as f64;
                let why = format!(
                    "only {part:.0} % of its time on a CPU was counted, since its tasks begin and end too fast; counting a \
                     command as a whole misses least"
                );
                seen.unavailable.push(Unavailable { what: "counters of the subject".into(), why });
            }
        }
    }

    /// How exact the counters of the whole run are; `None` when nobody ran.
    pub fn precision_of_whole(&self) -> Option<Precision> {
        Precision::of(self.totals.values(), self.turn_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Options, Plan, Reading, Theme};
    use super::*;
    use crate::counters::fixture::{self, Machine};
    use corun_model::ledger::{Ledger, Parts};
    use corun_model::observation::{Account, TaskObservation, TenantObservation};
    use corun_model::TaskId;
    use std::collections::BTreeSet;

    const ME: TenantId = TenantId(0);
    const OTHER: TenantId = TenantId(1);
    const MS: u64 = 1_000_000;

    fn account(on_cpu_ms: u64) -> Account {
        let parts = Parts { compute_ns: on_cpu_ms * MS, ..Parts::default() };
        Account { ledger: Ledger::new(parts, on_cpu_ms * MS).unwrap(), ..Account::default() }
    }

    /// A run of these tasks: number, tenant, time on a CPU in milliseconds.
    fn run(tasks: &[(u32, TenantId, u64)]) -> Observation {
        let task = |&(id, tenant, ms): &(u32, TenantId, u64)| TaskObservation {
            id: TaskId(id),
            name: "t".into(),
            tenant,
            born_ns: 0,
            alive: true,
            last_cpu: None,
            account: account(ms).into(),
        };
        let sum = |of: TenantId| tasks.iter().filter(|t| t.1 == of).map(|t| t.2).sum();
        let tenant = |id: TenantId| TenantObservation { id, tasks: 1, account: account(sum(id)) };
        Observation {
            tasks: tasks.iter().map(task).collect(),
            by_tenant: vec![tenant(ME), tenant(OTHER)],
            ..Observation::default()
        }
    }

    /// A source that has counted a thousand cycles in every millisecond of these tasks' time, all of it.
    fn source(grain: Grain, counted: &[(u32, u64)]) -> LivePerf {
        let reading = |ms| Reading { value: 1_000 * ms, enabled_ns: ms * MS, running_ns: ms * MS };
        let of = |&(id, ms)| (TaskId(id), reading(ms));
        source_of(grain, counted.iter().map(of))
    }

    /// A source with these readings of every event.
    fn source_of(grain: Grain, read: impl Iterator<Item = (TaskId, Reading)>) -> LivePerf {
        let (_dir, root) = fixture::root(Machine::Amd);
        let plan = Plan::make(&root, &[Theme::Pace], &|_, _| Ok(())).unwrap();
        let window = |r: Reading| Window { read: plan.groups.iter().map(|g| vec![r; g.len()]).collect() };
        let totals = read.map(|(id, reading)| (id, window(reading))).collect();
        LivePerf {
            options: Options { grain, ..Options::new(Some(ME)) },
            plan,
            turn_ns: 4 * MS,
            followed: BTreeMap::new(),
            forbidden: BTreeSet::new(),
            said: BTreeSet::new(),
            precision: None,
            totals,
            switch: None,
            own_cost: None,
        }
    }

    fn cycles(account: &Account) -> Option<u64> {
        account.counters.map(|c| c.cycles.unwrap())
    }

    #[test]
    fn a_task_that_was_followed_late_is_scaled_to_its_whole_time_and_one_followed_too_late_is_not() {
        let mut seen = run(&[(1, ME, 100), (2, ME, 100), (3, OTHER, 100)]);
        source(Grain::Task, &[(1, 95), (2, 80), (3, 100)]).read_whole(&mut seen);
        let found: Vec<_> = seen.tasks.iter().map(|t| cycles(&t.account)).collect();
        assert_eq!(found, [Some(100_000), None, None], "whom nobody asked for has none");
        assert_eq!(cycles(&seen.by_tenant[0].account), None, "175 of 200 ms are less than nine tenths");
        let said = seen.unavailable.iter().find(|u| u.what == "counters of the subject").unwrap();
        assert!(said.why.contains("only 88 % of its time"), "{}", said.why);

        let mut seen = run(&[(1, ME, 100), (2, ME, 100), (3, OTHER, 100)]);
        source(Grain::Task, &[(1, 95), (2, 100)]).read_whole(&mut seen);
        assert_eq!(cycles(&seen.by_tenant[0].account), Some(200_000));
        assert!(seen.unavailable.is_empty(), "{:?}", seen.unavailable);
    }

    #[test]
    fn a_command_that_is_counted_as_a_whole_has_a_sum_and_no_tasks() {
        let mut seen = run(&[(1, ME, 10), (2, ME, 90), (3, OTHER, 100)]);
        source(Grain::Tree(ME), &[(1, 100)]).read_whole(&mut seen);
        assert!(seen.tasks.iter().all(|t| t.account.counters.is_none()));
        let sums: Vec<_> = seen.by_tenant.iter().map(|t| cycles(&t.account)).collect();
        assert_eq!(sums, [Some(100_000), None]);
    }

    #[test]
    fn two_tasks_of_one_number_in_one_run_have_no_counters_and_leave_their_tenant_without() {
        let mut seen = run(&[(1, ME, 100), (1, ME, 100)]);
        source(Grain::Task, &[(1, 200)]).read_whole(&mut seen);
        assert!(seen.tasks.iter().all(|t| t.account.counters.is_none()));
        assert_eq!(seen.by_tenant[0].account.counters, None);
    }

    #[test]
    fn how_exact_the_whole_is_follows_from_all_turns_of_the_run() {
        let half = |id, ms| (TaskId(id), Reading { value: ms, enabled_ns: ms * MS, running_ns: ms * MS / 2 });
        let source = source_of(Grain::Task, [half(1, 60), half(2, 40)].into_iter());
        let precision = source.precision_of_whole().unwrap();
        assert_eq!(precision.counted_share, 0.5);
        // 12.5 turns of 4 ms, half of the time: √(0.5 / 12.5).
        assert!((precision.relative_error - 0.2).abs() < 1e-9, "{precision:?}");
    }

    #[test]
    fn tasks_that_were_each_counted_for_too_little_tell_something_together() {
        let little = |id| (TaskId(id), Reading { value: 10, enabled_ns: 4 * MS, running_ns: MS });
        let mut seen = run(&[1, 2, 3, 4, 5].map(|id| (id, ME, 4)));
        source_of(Grain::Task, (1..=5).map(little)).read_whole(&mut seen);
        assert!(seen.tasks.iter().all(|t| t.account.counters.unwrap().cycles.is_none()));
        assert_eq!(cycles(&seen.by_tenant[0].account), Some(200));
    }
}
