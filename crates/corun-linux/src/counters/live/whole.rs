//! The counters of a whole run, from those of its windows.
//!
//! A task is followed from the end of the window in which it first ran. If a program's threads start with it,
//! its first window has no counters, and the sum over its windows would be unknown. Over the whole run little
//! is missing. If at least nine tenths of a task's time on a CPU were counted, the count is scaled to the
//! whole time.
//!
//! Tenants have sums of their own, so single tasks need not be kept for them. Of the ended tasks, only this
//! many are kept, as in the [recording](corun_model::recording) that lists them.

use super::{Grain, LivePerf, Precision, Window};
use corun_model::observation::Observation;
use corun_model::recording::lesser_half;
use corun_model::{TaskId, TenantId, Unavailable, What, Why};
use std::collections::BTreeMap;

/// The counts of all windows so far.
#[derive(Debug, Default)]
pub(super) struct Totals {
    all: Option<Window>,
    by_tenant: BTreeMap<TenantId, Window>,
    /// Of the tasks that have ended, only those that ran most.
    by_task: BTreeMap<TaskId, Window>,
    /// Tasks whose counts are only in the sums above.
    unlisted: u64,
}

impl Totals {
    /// Adds the counts of a task in a window.
    pub(super) fn add(&mut self, task: TaskId, window: &Window) {
        add(&mut self.all, window);
        self.by_task.entry(task).and_modify(|sum| sum.add(window)).or_insert_with(|| window.clone());
    }

    /// Adds the counts of a task of this tenant.
    pub(super) fn add_to(&mut self, tenant: TenantId, window: &Window) {
        self.by_tenant.entry(tenant).and_modify(|sum| sum.add(window)).or_insert_with(|| window.clone());
    }

    /// If there are more than this many tasks, drops half of the ended ones, those that ran least.
    pub(super) fn unlist(&mut self, most: usize, lives: impl Fn(TaskId) -> bool) {
        if self.by_task.len() <= most {
            return;
        }
        let ended = self.by_task.iter().filter(|(task, _)| !lives(**task));
        for task in lesser_half(ended.map(|(task, w)| (w.enabled_ns(), *task))) {
            self.by_task.remove(&task);
            self.unlisted += 1;
        }
    }
}

fn add(sum: &mut Option<Window>, more: &Window) {
    match sum {
        Some(sum) => sum.add(more),
        None => *sum = Some(more.clone()),
    }
}

impl LivePerf {
    /// Fills in the counters of the run so far; `seen` is the sum of all windows that were
    /// [read](corun_model::CounterSource::read).
    pub fn read_whole(&self, seen: &mut Observation) {
        let ids: Vec<_> = seen.tasks.iter().map(|t| t.id).collect();
        let is_watched = |tenant: TenantId| self.options.of.is_none_or(|of| of == tenant);
        let mut forgotten = false;
        for (n, task) in seen.tasks.iter_mut().enumerate().filter(|(_, t)| is_watched(t.tenant)) {
            let is_twin = n > 0 && ids[n - 1] == task.id || ids.get(n + 1) == Some(&task.id);
            let counted = self.totals.by_task.get(&task.id);
            forgotten |= counted.is_none();
            let of_task = counted.filter(|_| !is_twin && self.options.grain == Grain::Task);
            let counters = of_task.and_then(|w| self.whole(w, task.account.ledger.on_cpu_ns()));
            task.set_counters(counters);
        }
        if forgotten && self.totals.unlisted > 0 {
            seen.unavailable.push(Unavailable::new(What::CountersOfEndedTasks, Why::TooManyCounted));
        }
        for tenant in seen.by_tenant.iter_mut().filter(|t| is_watched(t.id)) {
            let on_cpu_ns = tenant.account.ledger.on_cpu_ns();
            let counted = match self.options.grain {
                Grain::Task => self.totals.by_tenant.get(&tenant.id),
                Grain::Tree(of) => self.totals.all.as_ref().filter(|_| of == tenant.id),
            };
            tenant.account.counters = counted.and_then(|w| self.whole(w, on_cpu_ns));
            if tenant.account.counters.is_none() && on_cpu_ns > 0 && self.options.of == Some(tenant.id) {
                let part = 100.0 * counted.map_or(0, Window::enabled_ns) as f64 / on_cpu_ns as f64;
                let why = Why::CountedInPart { percent: part.round() as u64 };
                seen.unavailable.push(Unavailable { what: What::CountersOfSubject, why });
            }
        }
    }

    /// How exact the counters of the whole run are; `None` if nobody ran.
    pub fn precision_of_whole(&self) -> Option<Precision> {
        Precision::of(self.totals.all.iter(), self.turn_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Followed, Options, Plan, Reading, Theme};
    use super::*;
    use crate::counters::fixture::{self, Machine};
    use corun_model::ledger::{Ledger, Parts};
    use corun_model::observation::{Account, TaskObservation, TenantObservation};
    use std::collections::BTreeSet;

    const ME: TenantId = TenantId(0);
    const OTHER: TenantId = TenantId(1);
    /// A task of the other tenant.
    const NOT_MINE: TaskId = TaskId(9);
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

    fn reading(ms: u64) -> Reading {
        Reading { value: 1_000 * ms, enabled_ns: ms * MS, running_ns: ms * MS }
    }

    /// A source that has counted a thousand cycles in every millisecond of all of these tasks' time.
    fn source(grain: Grain, counted: &[(u32, u64)]) -> LivePerf {
        let of = |&(id, ms)| (TaskId(id), reading(ms));
        source_of(grain, counted.iter().map(of))
    }

    /// A source with these readings of every event.
    fn source_of(grain: Grain, read: impl Iterator<Item = (TaskId, Reading)>) -> LivePerf {
        let (_dir, root) = fixture::root(Machine::Amd);
        let plan = Plan::make(&root, &[Theme::Pace], &|_, _| Ok(())).unwrap();
        let window = |r: Reading| Window { read: plan.groups.iter().map(|g| vec![r; g.len()]).collect() };
        let mut totals = Totals::default();
        for (id, reading) in read {
            totals.add(id, &window(reading));
            totals.add_to(if id == NOT_MINE { OTHER } else { ME }, &window(reading));
        }
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
    fn a_task_followed_late_is_scaled_to_its_whole_time_and_one_followed_too_late_is_not() {
        let mut seen = run(&[(1, ME, 100), (2, ME, 100), (9, OTHER, 100)]);
        source(Grain::Task, &[(1, 95), (2, 80), (9, 100)]).read_whole(&mut seen);
        let found: Vec<_> = seen.tasks.iter().map(|t| cycles(&t.account)).collect();
        assert_eq!(found, [Some(100_000), None, None], "whom nobody asked for has none");
        assert_eq!(cycles(&seen.by_tenant[0].account), None, "175 of 200 ms are less than nine tenths");
        let said = seen.unavailable.iter().find(|u| u.what == What::CountersOfSubject).unwrap();
        assert_eq!(said.why, Why::CountedInPart { percent: 88 });

        let mut seen = run(&[(1, ME, 100), (2, ME, 100), (9, OTHER, 100)]);
        source(Grain::Task, &[(1, 95), (2, 100)]).read_whole(&mut seen);
        assert_eq!(cycles(&seen.by_tenant[0].account), Some(200_000));
        assert!(seen.unavailable.is_empty(), "{:?}", seen.unavailable);
    }

    #[test]
    fn a_command_that_is_counted_as_a_whole_has_a_sum_and_no_tasks() {
        let mut seen = run(&[(1, ME, 10), (2, ME, 90), (9, OTHER, 100)]);
        source(Grain::Tree(ME), &[(1, 100)]).read_whole(&mut seen);
        assert!(seen.tasks.iter().all(|t| t.account.counters.is_none()));
        let sums: Vec<_> = seen.by_tenant.iter().map(|t| cycles(&t.account)).collect();
        assert_eq!(sums, [Some(100_000), None]);
    }

    #[test]
    fn two_tasks_with_one_number_in_one_run_have_no_counters_but_their_tenant_has() {
        let mut seen = run(&[(1, ME, 100), (1, ME, 100)]);
        source(Grain::Task, &[(1, 200)]).read_whole(&mut seen);
        assert!(seen.tasks.iter().all(|t| t.account.counters.is_none()));
        assert_eq!(cycles(&seen.by_tenant[0].account), Some(200_000));
    }

    #[test]
    fn of_a_hundred_thousand_ended_tasks_those_that_ran_most_are_kept_and_the_sums_include_all() {
        let mut source = source(Grain::Task, &[]);
        for n in 0..100_000 {
            let reading = reading(1 + u64::from(n) % 100);
            let window = Window { read: source.plan.groups.iter().map(|g| vec![reading; g.len()]).collect() };
            source.totals.add(TaskId(n), &window);
            source.totals.add_to(ME, &window);
            source.totals.unlist(10_000, |task| task == TaskId(0));
        }
        assert!(source.totals.by_task.len() <= 10_000, "{}", source.totals.by_task.len());
        assert_eq!(source.totals.by_task.len() as u64 + source.totals.unlisted, 100_000);
        assert!(source.totals.by_task.contains_key(&TaskId(0)), "who lives is kept, however little it ran");
        // The last one ran for 100 ms, number 100 for 1.
        let mut seen = run(&[(100, ME, 1), (99_999, ME, 100)]);
        seen.by_tenant[0].account = account((1..=100).sum::<u64>() * 1_000);
        source.read_whole(&mut seen);
        let found: Vec<_> = seen.tasks.iter().map(|t| cycles(&t.account)).collect();
        assert_eq!(found, [None, Some(100_000)]);
        assert_eq!(cycles(&seen.by_tenant[0].account), Some(5_050_000_000));
        assert_eq!(seen.unavailable[0].what, What::CountersOfEndedTasks);
    }

    #[test]
    fn counts_before_a_task_was_listed_belong_to_its_first_tenant_and_later_ones_to_the_current_one() {
        let mut source = source(Grain::Task, &[]);
        let of = |ms: u64| source_of(Grain::Task, [(TaskId(1), reading(ms))].into_iter()).totals.all.unwrap();
        let followed = Followed { groups: Vec::new(), last: of(0).read, tenant: None };
        source.followed.insert(TaskId(1), followed);
        for (ms, listed, sum_ms) in [(7, None, 7), (5, Some(ME), 12), (3, None, 15), (2, Some(OTHER), 17)] {
            source.followed.get_mut(&TaskId(1)).unwrap().last = of(sum_ms).read;
            let seen = listed.map_or_else(Observation::default, |tenant| run(&[(1, tenant, ms)]));
            source.add_to_tenants(&BTreeMap::from([(TaskId(1), of(ms))]), &seen);
        }
        let counted_ms = |id| source.totals.by_tenant.get(&id).map(|w| w.enabled_ns() / MS);
        assert_eq!([ME, OTHER].map(counted_ms), [Some(15), Some(2)]);
    }

    #[test]
    fn the_precision_of_the_whole_follows_from_all_turns_of_the_run() {
        let half = |id, ms| (TaskId(id), Reading { value: ms, enabled_ns: ms * MS, running_ns: ms * MS / 2 });
        let source = source_of(Grain::Task, [half(1, 60), half(2, 40)].into_iter());
        let precision = source.precision_of_whole().unwrap();
        assert_eq!(precision.counted_share, 0.5);
        // 12.5 turns of 4 ms, half of the time: √(0.5 / 12.5).
        assert!((precision.relative_error - 0.2).abs() < 1e-9, "{precision:?}");
    }

    #[test]
    fn tasks_that_were_each_counted_for_too_little_are_meaningful_together() {
        let little = |id| (TaskId(id), Reading { value: 10, enabled_ns: 4 * MS, running_ns: MS });
        let mut seen = run(&[1, 2, 3, 4, 5].map(|id| (id, ME, 4)));
        source_of(Grain::Task, (1..=5).map(little)).read_whole(&mut seen);
        assert!(seen.tasks.iter().all(|t| t.account.counters.unwrap().cycles.is_none()));
        assert_eq!(cycles(&seen.by_tenant[0].account), Some(200));
    }
}
