//! A recording: consecutive windows summed to one, and kept as a timeline of bounded length.
//!
//! A timeline has at most [`SLOTS`] slots, however long a program runs: if there are more, neighbors are merged in pairs. Slots keep
//! tenants and CPUs, not single tasks, so a machine with thousands of tasks can be recorded for hours. Without the list it is unknown
//! which tasks of two windows are the same. So a task counts in the slot in which it began, or in the first one if it was there before.
//! Then the counts of slots sum to those of the whole. A task that moves to another tenant counts as a task of both; if it comes back,
//! twice. If every command of every shell is a tenant for a moment, ended tenants with one name are counted together (`together.rs`).
//! Their time, and their steal by culprit, is under that name.

mod bound;
mod together;

use crate::limits::Limits;
use crate::observation::{Observation, TaskObservation, TenantObservation};
use crate::tenant::{TaskId, TenantId};
use std::collections::{BTreeMap, BTreeSet};
use together::{living, Living, Renamed, Together};

pub use bound::{bound, Most};

/// The most slots of a timeline.
pub const SLOTS: usize = 240;

/// The most tasks in the list of the sum. If there are more, the half of the ended tasks that ran least is only in the sums of tenants.
pub const MOST_TASKS: usize = 50_000;

/// The most separate tenants in the sum. If there are more, ended tenants with one name are counted together.
const MOST_TENANTS: usize = 5_000;

/// The same for a slot of the timeline.
const MOST_TENANTS_OF_SLOT: usize = 500;

/// Consecutive windows, summed and as a timeline.
#[derive(Clone, Debug, Default)]
pub struct Recording {
    whole: Option<Observation>,
    slots: Vec<Observation>,
    /// The number of windows in a slot, and in the last slot.
    per_slot: usize,
    in_last: usize,
    together: Together,
    /// The tasks that lived at the end of the last window, with their tenants.
    last: BTreeMap<TaskId, TenantId>,
}

impl Recording {
    /// A recording about this tenant, which always stays separate.
    pub fn about(subject: Option<TenantId>) -> Recording {
        Recording { together: Together::without(subject), ..Recording::default() }
    }

    /// Adds the window that follows the last one.
    pub fn push(&mut self, mut window: Observation) {
        let living = living(&window);
        let renamed = self.known_by_name(&window, &living);
        self.together.apply(&renamed, &mut window);
        let slot = self.unlisted(&window);
        self.last = tenants_of_living(&window);
        self.take(window, slot, &living);
    }

    /// Adds the window that follows the last one, and keeps only its sums by tenant: a run of days has more tasks than can be kept.
    pub fn push_sums(&mut self, window: &Observation) {
        let living = living(window);
        let renamed = self.known_by_name(window, &living);
        let mut slot = self.unlisted(window);
        self.last = tenants_of_living(window);
        self.together.apply(&renamed, &mut slot);
        self.take(slot.clone(), slot, &living);
    }

    fn known_by_name(&mut self, window: &Observation, living: &Living) -> Renamed {
        let whole = self.whole.as_ref();
        whole.map(|whole| self.together.of_window(window, whole, living)).unwrap_or_default()
    }

    /// Adds a window to the sum, and its slot to the timeline.
    fn take(&mut self, window: Observation, slot: Observation, living: &Living) {
        match &mut self.whole {
            Some(whole) => {
                whole.extend(&window);
                unlist(whole);
            }
            None => self.whole = Some(window),
        }
        if self.in_last > 0 && self.in_last < self.per_slot {
            self.in_last += 1;
            self.slots.last_mut().expect("a slot has begun").extend(&slot);
        } else {
            if self.slots.len() == SLOTS {
                self.merge_neighbours();
            }
            self.per_slot = self.per_slot.max(1);
            self.slots.push(slot);
            self.in_last = 1;
        }
        self.count_together(living);
    }

    /// Counts ended tenants together if the whole or a slot has too many.
    fn count_together(&mut self, living: &Living) {
        let Some(whole) = &mut self.whole else { return };
        for (is_of_slot, most) in [(true, MOST_TENANTS_OF_SLOT), (false, MOST_TENANTS)] {
            let fullest = self.slots.iter().map(|slot| &slot.tenants).max_by_key(|t| t.len());
            let part = fullest.filter(|_| is_of_slot).unwrap_or(&whole.tenants);
            if part.len() <= most {
                continue;
            }
            let renamed = self.together.of_part(part, whole, living, most / 2);
            for sum in self.slots.iter_mut().chain([&mut *whole]) {
                self.together.apply(&renamed, sum);
            }
            if !renamed.is_empty() {
                Together::say(whole, false);
            }
        }
        for slot in &mut self.slots {
            self.together.fold_slot_into_others(slot, MOST_TENANTS_OF_SLOT);
        }
        if self.together.fold_into_others(whole, living, MOST_TENANTS) {
            Together::say(whole, true);
        }
    }

    /// A window without its list of tasks. Its tenants count only tasks that they did not have in the window before.
    fn unlisted(&self, window: &Observation) -> Observation {
        let mut by_tenant = window.by_tenant.clone();
        let goes_on = |t: &&TaskObservation| {
            t.born_ns <= window.start_ns && self.last.get(&t.id).is_some_and(|tenant| *tenant == t.tenant)
        };
        for task in window.tasks.iter().filter(goes_on) {
            if let Ok(i) = by_tenant.binary_search_by_key(&task.tenant, |t: &TenantObservation| t.id) {
                by_tenant[i].tasks = by_tenant[i].tasks.saturating_sub(1);
            }
        }
        Observation {
            start_ns: window.start_ns,
            end_ns: window.end_ns,
            tenants: window.tenants.clone(),
            tasks: Vec::new(),
            by_tenant,
            weights: window.weights.clone(),
            refused: window.refused.clone(),
            cpus: window.cpus.clone(),
            limits: Limits { tasks: Vec::new(), quotas: window.limits.quotas.clone() },
            machine: window.machine,
            energy: window.energy,
            loss: window.loss,
            unavailable: window.unavailable.clone(),
        }
    }

    fn merge_neighbours(&mut self) {
        let mut slots = std::mem::take(&mut self.slots).into_iter();
        while let Some(mut slot) = slots.next() {
            if let Some(next) = slots.next() {
                slot.extend(&next);
            }
            self.slots.push(slot);
        }
        self.per_slot *= 2;
    }

    /// All windows as one. `None` without any.
    pub fn whole(&self) -> Option<&Observation> {
        self.whole.as_ref()
    }

    /// The timeline, oldest first.
    pub fn timeline(&self) -> &[Observation] {
        &self.slots
    }
}

fn tenants_of_living(window: &Observation) -> BTreeMap<TaskId, TenantId> {
    window.tasks.iter().filter(|t| t.alive).map(|t| (t.id, t.tenant)).collect()
}

/// Removes tasks from the list if there are too many, as on a machine that builds for days.
fn unlist(whole: &mut Observation) {
    if whole.tasks.len() <= MOST_TASKS {
        return;
    }
    let ran_ns = |t: &TaskObservation| t.account.ledger.on_cpu_ns();
    let mut ended: Vec<u64> = whole.tasks.iter().filter(|t| !t.alive).map(ran_ns).collect();
    ended.sort_unstable();
    let median_ns = ended.get(ended.len() / 2).copied().unwrap_or(0);
    let before = whole.tasks.len();
    whole.tasks.retain(|t| t.alive || ran_ns(t) > median_ns);
    let listed: BTreeSet<TaskId> = whole.tasks.iter().map(|t| t.id).collect();
    whole.limits.tasks.retain(|t| listed.contains(&t.task));
    whole.loss.unlisted_tasks += (before - whole.tasks.len()) as u64;
}

/// Of the candidates for removal, given with their activity: the half with the least.
pub fn lesser_half<T: Ord>(did: impl Iterator<Item = (u64, T)>) -> Vec<T> {
    let mut did: Vec<(u64, T)> = did.collect();
    did.sort_unstable();
    let half = did.len().div_ceil(2);
    did.into_iter().take(half).map(|(_, who)| who).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::culprit::{Culprits, Share};
    use crate::observation::Account;
    use crate::tenant::{Tenant, TenantKind};
    use crate::unavailable::What;
    use crate::{Ledger, Parts};

    #[test]
    fn of_a_hundred_thousand_ended_tasks_those_that_ran_most_are_listed_and_sums_have_all() {
        let mut recording = Recording::default();
        for window in 0..4u64 {
            let task = |n: u64| {
                let ran_ns = 1 + n % 100;
                let parts = Parts { compute_ns: ran_ns, ..Parts::default() };
                let account = Account { ledger: Ledger::new(parts, ran_ns).unwrap(), ..Account::default() };
                TaskObservation {
                    id: TaskId((window * 25_000 + n) as u32),
                    name: "cc1".into(),
                    tenant: TenantId(0),
                    born_ns: window,
                    alive: n == 0,
                    last_cpu: None,
                    account: account.into(),
                }
            };
            recording.push(Observation {
                start_ns: window,
                end_ns: window + 1,
                tasks: (0..25_000).map(task).collect(),
                ..Observation::default()
            });
        }
        let whole = recording.whole().unwrap();
        assert!(whole.tasks.len() <= MOST_TASKS, "{}", whole.tasks.len());
        assert_eq!(whole.tasks.len() as u64 + whole.loss.unlisted_tasks, 100_000);
        assert!(whole.tasks.iter().all(|t| t.alive || t.account.ledger.on_cpu_ns() > 30));
    }

    /// A window in which a hundred commands began, waited for each other, ran and ended, with a server that hardly ran. `name` makes
    /// the name of a command from its number.
    fn window_of_commands(n: u64, name: impl Fn(u64) -> String) -> Observation {
        let (mut tasks, mut tenants) = (Vec::new(), Vec::new());
        for i in 0..=100 {
            let id = if i == 0 { 0 } else { n * 100 + i } as u32;
            let (ran_ns, waited_ns) = if i == 0 { (1, 999) } else { (1 + i, 10) };
            let parts = Parts { compute_ns: ran_ns, steal_ns: waited_ns, ..Parts::default() };
            let shares = [Share { tenant: TenantId((n * 100 + 7) as u32), steal_ns: waited_ns }];
            let account = Account {
                ledger: Ledger::new(parts, ran_ns + waited_ns).unwrap(),
                culprits: Culprits::new(shares, 0, waited_ns).unwrap(),
                ..Account::default()
            };
            let name = name(u64::from(id));
            tasks.push(TaskObservation {
                id: TaskId(id),
                name: name.as_str().into(),
                tenant: TenantId(id),
                born_ns: n * 1_000,
                alive: i == 0,
                last_cpu: None,
                account: account.into(),
            });
            tenants.push(Tenant {
                id: TenantId(id),
                kind: TenantKind::Command,
                key: format!("pgid:{id}"),
                name,
            });
        }
        Observation {
            start_ns: n * 1_000,
            end_ns: (n + 1) * 1_000,
            by_tenant: tasks
                .iter()
                .map(|t| TenantObservation { id: t.tenant, tasks: 1, account: (*t.account).clone() })
                .collect(),
            weights: tenants.iter().map(|t| (t.id, 200)).collect(),
            tasks,
            tenants,
            ..Observation::default()
        }
    }

    /// Thirty thousand commands with names from `name`. Checks properties that hold for any way of counting together.
    fn thirty_thousand(name: impl Fn(u64) -> String) -> Recording {
        let mut recording = Recording::about(Some(TenantId(0)));
        for n in 0..300 {
            let window = window_of_commands(n, &name);
            window.check().unwrap();
            recording.push(window);
        }
        let whole = recording.whole().unwrap();
        whole.check().unwrap();
        assert!(whole.tenants.len() <= MOST_TENANTS + 1, "{}", whole.tenants.len());
        assert_eq!(whole.unavailable.iter().filter(|u| u.what == What::EveryTenant).count(), 1);
        assert!(whole.tenants.windows(2).all(|t| t[0].id < t[1].id));
        let sum = |of: fn(&TenantObservation) -> u64| whole.by_tenant.iter().map(of).sum::<u64>();
        assert_eq!(sum(|t| t.tasks), 30_001);
        assert_eq!(sum(|t| t.account.ledger.on_cpu_ns()), 300 * (1 + (2..=101).sum::<u64>()));
        assert_eq!(sum(|t| t.account.culprits.total_ns()), 300 * (999 + 100 * 10));
        let server = &whole.by_tenant[0];
        assert_eq!(
            (server.id, server.tasks, server.account.culprits.total_ns()),
            (TenantId(0), 1, 300 * 999)
        );
        let timeline = recording.timeline();
        for slot in timeline {
            slot.check()
                .unwrap_or_else(|wrong| assert!(wrong.iter().all(|w| w.contains("its tasks sum to"))));
            assert!(slot.tenants.len() <= MOST_TENANTS_OF_SLOT + 1, "{}", slot.tenants.len());
            assert!(slot.by_tenant.iter().any(|t| t.id == TenantId(0)), "the subject is told apart");
        }
        let in_slots = timeline.iter().flat_map(|slot| &slot.by_tenant);
        assert_eq!(
            in_slots.map(|t| t.account.ledger.on_cpu_ns()).sum::<u64>(),
            sum(|t| t.account.ledger.on_cpu_ns())
        );
        recording
    }

    #[test]
    fn thirty_thousand_commands_of_three_names_keep_their_names_and_nothing_is_lost() {
        let names = ["cc1", "as", "sh"];
        let recording = thirty_thousand(|id| match id {
            0 => "server".into(),
            id => names[id as usize % 3].into(),
        });
        let whole = recording.whole().unwrap();
        let called: Vec<&str> = whole.tenants.iter().map(|t| t.name.as_str()).collect();
        assert_eq!(called[0], "server", "the subject has its name");
        assert!(called.iter().all(|name| !name.contains("others")), "{called:?}");
        for name in names {
            let several: Vec<&Tenant> =
                whole.tenants.iter().filter(|t| t.name.starts_with(&format!("{name} ("))).collect();
            let [row] = several[..] else { panic!("{several:?}") };
            assert_eq!(
                (row.kind, row.key.as_str()),
                (TenantKind::Command, format!("ended:command:{name}").as_str())
            );
            let seen = whole.by_tenant.iter().find(|t| t.id == row.id).unwrap();
            let alone = whole.tenants.iter().filter(|t| t.name == name).count() as u64;
            assert_eq!(seen.tasks + alone, 10_000, "all of them are there");
            assert!(alone < 500, "most are counted together: {alone} are not");
            assert_eq!(row.name, format!("{name} ({} jobs)", crate::count::thousands(seen.tasks)));
            // Every hundredth took the time that all waited for: a third for each name.
            let server = &whole.by_tenant[0].account.culprits;
            let alone_ns: u64 =
                whole.tenants.iter().filter(|t| t.name == name).map(|t| server.of_ns(t.id)).sum();
            assert_eq!(server.of_ns(row.id) + alone_ns, 100 * 999);
        }
        let known: BTreeSet<TenantId> = whole.tenants.iter().map(|t| t.id).collect();
        let in_slots = recording.timeline().iter().flat_map(|slot| &slot.by_tenant);
        assert!(
            in_slots.into_iter().all(|t| known.contains(&t.id)),
            "who is in a slot has a name in the whole"
        );
    }

    #[test]
    fn if_every_command_has_its_own_name_those_that_ran_least_are_others() {
        let recording = thirty_thousand(|id| format!("job-{id}"));
        let whole = recording.whole().unwrap();
        let others: Vec<&Tenant> = whole.tenants.iter().filter(|t| t.kind == TenantKind::Others).collect();
        assert_eq!(others.len(), 1);
        assert!(
            whole.unavailable.iter().any(|u| u.why == crate::why::Why::TooManyTenants { with_others: true }),
            "{:?}",
            whole.unavailable
        );
    }

    #[test]
    fn a_tenant_with_a_task_or_of_another_kind_is_never_counted_with_ended_ones() {
        let mut recording = Recording::default();
        for n in 0..80 {
            let mut window = window_of_commands(n, |_| "true".into());
            // A container with the same name, and a command that goes on.
            let at = window.tenants.len() - 1;
            window.tenants[at].kind = TenantKind::Container;
            window.tasks[1].alive = n == 79;
            recording.push(window);
        }
        let whole = recording.whole().unwrap();
        assert!(whole.tenants.iter().any(|t| t.id == TenantId(79 * 100 + 1) && t.name == "true"));
        let rows: Vec<&Tenant> = whole.tenants.iter().filter(|t| t.key.starts_with("ended:")).collect();
        let kinds: Vec<TenantKind> = rows.iter().map(|t| t.kind).collect();
        assert!(kinds.contains(&TenantKind::Command) && kinds.contains(&TenantKind::Container), "{rows:?}");
        assert!(rows.iter().any(|t| t.name.ends_with(" containers)")), "{rows:?}");
    }

    #[test]
    fn a_task_that_goes_on_is_counted_once_whether_tasks_are_listed_or_not() {
        let seen = |window: u64| {
            let task = |id: u32, born_ns: u64| TaskObservation {
                id: TaskId(id),
                name: "make".into(),
                tenant: TenantId(0),
                born_ns,
                alive: id < 3,
                last_cpu: None,
                account: Default::default(),
            };
            // Two tasks that stay, and in every window one that begins and ends in it.
            let (start_ns, end_ns) = (window * 10, window * 10 + 10);
            let tasks = vec![task(1, start_ns), task(2, start_ns), task(3, start_ns + 5)];
            let of = TenantObservation { id: TenantId(0), tasks: 3, account: Account::default() };
            Observation { start_ns, end_ns, tasks, by_tenant: vec![of], ..Observation::default() }
        };
        let windows = 3 * SLOTS as u64;
        let (mut listed, mut sums) = (Recording::default(), Recording::default());
        for window in (0..windows).map(seen) {
            sums.push_sums(&window);
            listed.push(window);
        }
        for recording in [listed, sums] {
            let count = |o: &Observation| o.by_tenant[0].tasks;
            assert_eq!(recording.whole().map(count), Some(2 + windows));
            assert_eq!(recording.timeline().iter().map(count).sum::<u64>(), 2 + windows);
        }
    }

    #[test]
    fn a_task_that_goes_over_to_another_tenant_is_counted_by_both_and_once_by_each() {
        let seen = |window: u64| {
            let (start_ns, end_ns) = (window * 10, window * 10 + 10);
            // One task stays with each tenant. A third moves between the second window and the third.
            let of = [(1, 0), (2, 1), (3, u32::from(window >= 2))];
            let task = |(id, tenant): (u32, u32)| TaskObservation {
                id: TaskId(id),
                name: "make".into(),
                tenant: TenantId(tenant),
                born_ns: 0,
                alive: true,
                last_cpu: None,
                account: Default::default(),
            };
            let by_tenant = [0, 1].map(|id| TenantObservation {
                id: TenantId(id),
                tasks: of.iter().filter(|(_, tenant)| *tenant == id).count() as u64,
                account: Account::default(),
            });
            let (tasks, by_tenant) = (of.map(task).into(), by_tenant.into());
            Observation { start_ns, end_ns, tasks, by_tenant, ..Observation::default() }
        };
        let (mut listed, mut sums) = (Recording::default(), Recording::default());
        for window in (0..6).map(seen) {
            sums.push_sums(&window);
            listed.push(window);
        }
        for recording in [listed, sums] {
            let whole: Vec<u64> = recording.whole().unwrap().by_tenant.iter().map(|t| t.tasks).collect();
            let slots =
                |i: usize| recording.timeline().iter().map(|slot| slot.by_tenant[i].tasks).sum::<u64>();
            assert_eq!((whole, [slots(0), slots(1)]), (vec![2, 2], [2, 2]));
        }
    }

    #[test]
    fn a_timeline_covers_everything_however_long_and_never_grows_over_its_bound() {
        let mut r = Recording::default();
        for i in 0..5000u64 {
            r.push(Observation { start_ns: i * 10, end_ns: i * 10 + 10, ..Observation::default() });
            let slots = r.timeline();
            assert!(slots.len() <= SLOTS);
            assert_eq!((slots[0].start_ns, slots[slots.len() - 1].end_ns), (0, i * 10 + 10));
            assert!(slots.windows(2).all(|w| w[0].end_ns == w[1].start_ns));
        }
        assert_eq!(r.whole().unwrap().window_ns(), 50_000);
        let longest = r.timeline().iter().map(Observation::window_ns).max().unwrap();
        assert!(r.timeline()[1..r.timeline().len() - 1].iter().all(|s| s.window_ns() == longest));
    }
}
