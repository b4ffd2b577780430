//! A recording: consecutive windows summed to one, and kept as a timeline of bounded length.
//!
//! However long a program runs, its timeline has at most [`SLOTS`] slots: when there are more, neighbours are merged
//! two by two. Slots keep tenants and CPUs, not single tasks, so that a machine with thousands of tasks can be recorded
//! for hours. Without the list nobody can tell any more which tasks of two windows are the same, so a task is counted in the
//! slot in which it began (in the first one where it was there before): the counts of slots sum to those of the whole.
//! Where every command of every shell is a tenant for a moment, those that ran least are counted together as
//! [`TenantKind::Others`]: their time, and what they took from whom, is there under that name.

use crate::culprit::{Culprits, Share};
use crate::limits::Limits;
use crate::observation::{Account, Observation, TaskObservation, TenantObservation};
use crate::tenant::{TaskId, Tenant, TenantId, TenantKind};
use crate::unavailable::{Unavailable, What};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Most slots of a timeline.
pub const SLOTS: usize = 240;

/// Most tasks that are listed in the sum. Beyond that, of those that have ended the half that ran least is in its tenants' sums
/// only.
pub const MOST_TASKS: usize = 50_000;

/// Most tenants that are told apart in the sum. Beyond that, of those without a living task the half that ran least is
/// counted together.
const MOST_TENANTS: usize = 5_000;

/// The same of a slot of the timeline.
const MOST_TENANTS_OF_SLOT: usize = 500;

/// Who several tenants are together where the host knows nobody by that name: an id that no host gives.
const OTHERS: TenantId = TenantId(u32::MAX - 1);

/// Consecutive windows, summed and as a timeline.
#[derive(Clone, Debug, Default)]
pub struct Recording {
    whole: Option<Observation>,
    slots: Vec<Observation>,
    /// How many windows make a slot, and how many the last slot has.
    per_slot: usize,
    in_last: usize,
    subject: Option<TenantId>,
}

impl Recording {
    /// A recording about this tenant, who is told apart however little it ran.
    pub fn about(subject: Option<TenantId>) -> Recording {
        Recording { subject, ..Recording::default() }
    }

    /// Adds the window that follows the last one.
    pub fn push(&mut self, window: Observation) {
        let slot = self.unlisted(&window);
        self.take(window, slot);
    }

    /// Adds the window that follows the last one, and keeps its tenants' sums alone: who runs for days has more tasks than can
    /// be kept.
    pub fn push_sums(&mut self, window: &Observation) {
        let slot = self.unlisted(window);
        self.take(slot.clone(), slot);
    }

    /// Adds a window to the sum, and what is kept of it to the timeline.
    fn take(&mut self, window: Observation, slot: Observation) {
        let subject = self.subject;
        match &mut self.whole {
            Some(whole) => {
                whole.extend(&window);
                unlist(whole);
                if fold(whole, MOST_TENANTS, subject) {
                    say_that_folded(whole);
                }
            }
            None => self.whole = Some(window),
        }
        if self.in_last > 0 && self.in_last < self.per_slot {
            self.in_last += 1;
            let last = self.slots.last_mut().expect("a slot has begun");
            last.extend(&slot);
            fold(last, MOST_TENANTS_OF_SLOT, subject);
            return;
        }
        if self.slots.len() == SLOTS {
            self.merge_neighbours();
        }
        self.per_slot = self.per_slot.max(1);
        self.slots.push(slot);
        self.in_last = 1;
    }

    /// A window without its list of tasks: its tenants count those that are in no window before.
    fn unlisted(&self, window: &Observation) -> Observation {
        let known = self.whole.as_ref().map_or(&[][..], |whole| &whole.by_tenant);
        let mut by_tenant = window.by_tenant.clone();
        for task in window.tasks.iter().filter(|t| t.born_ns <= window.start_ns) {
            let at = |list: &[TenantObservation]| list.binary_search_by_key(&task.tenant, |t| t.id).ok();
            if let (Some(_), Some(i)) = (at(known), at(&by_tenant)) {
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
            loss: window.loss,
            unavailable: window.unavailable.clone(),
        }
    }

    fn merge_neighbours(&mut self) {
        let mut slots = std::mem::take(&mut self.slots).into_iter();
        while let Some(mut slot) = slots.next() {
            if let Some(next) = slots.next() {
                slot.extend(&next);
                fold(&mut slot, MOST_TENANTS_OF_SLOT, self.subject);
            }
            self.slots.push(slot);
        }
        self.per_slot *= 2;
    }

    /// All windows as one; `None` when there was none.
    pub fn whole(&self) -> Option<&Observation> {
        self.whole.as_ref()
    }

    /// The timeline, oldest first.
    pub fn timeline(&self) -> &[Observation] {
        &self.slots
    }
}

/// Takes tasks out of the list when they are too many, as they are on a machine that builds for days.
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

/// Of those who can be spared when there are too many, with what each did: the half that did least.
pub fn lesser_half<T: Ord>(did: impl Iterator<Item = (u64, T)>) -> Vec<T> {
    let mut did: Vec<(u64, T)> = did.collect();
    did.sort_unstable();
    let half = did.len().div_ceil(2);
    did.into_iter().take(half).map(|(_, who)| who).collect()
}

/// Counts tenants together when they are too many: their accounts become one, and whom they stole from had it stolen by
/// that one. Who has a living task goes on under its own name. Returns whether there were too many.
fn fold(sum: &mut Observation, most: usize, subject: Option<TenantId>) -> bool {
    if sum.tenants.len() <= most {
        return false;
    }
    let ran_ns: BTreeMap<TenantId, u64> =
        sum.by_tenant.iter().map(|t| (t.id, t.account.ledger.on_cpu_ns())).collect();
    let living: BTreeSet<TenantId> = sum.tasks.iter().filter(|t| t.alive).map(|t| t.tenant).collect();
    let may_go = |t: &&Tenant| t.kind.is_controllable() && Some(t.id) != subject && !living.contains(&t.id);
    let candidates = sum.tenants.iter().filter(may_go);
    let least = lesser_half(candidates.map(|t| (ran_ns.get(&t.id).copied().unwrap_or(0), t.id)));
    let gone: BTreeSet<TenantId> = least.into_iter().collect();

    let known = sum.tenants.iter().find(|t| t.kind == TenantKind::Others).map(|t| t.id);
    let others = known.unwrap_or(OTHERS);
    let id_now = |id: TenantId| if gone.contains(&id) { others } else { id };
    let renamed = |account: &Account| {
        let culprits = &account.culprits;
        culprits.shares().iter().any(|s| gone.contains(&s.tenant)).then(|| {
            let shares = culprits.shares().iter().map(|s| Share { tenant: id_now(s.tenant), ..*s });
            Culprits::new(shares, culprits.unattributed_ns(), culprits.total_ns())
                .expect("the same shares under other names")
        })
    };
    for task in &mut sum.tasks {
        task.tenant = id_now(task.tenant);
        if let Some(culprits) = renamed(&task.account) {
            Arc::make_mut(&mut task.account).culprits = culprits;
        }
    }
    let mut by_tenant: BTreeMap<TenantId, TenantObservation> = BTreeMap::new();
    for mut tenant in std::mem::take(&mut sum.by_tenant) {
        if let Some(culprits) = renamed(&tenant.account) {
            tenant.account.culprits = culprits;
        }
        let id = id_now(tenant.id);
        let together = by_tenant.entry(id).or_insert_with(|| TenantObservation {
            id,
            tasks: 0,
            account: Account::default(),
        });
        together.tasks += tenant.tasks;
        together.account.add(&tenant.account);
    }
    sum.by_tenant = by_tenant.into_values().collect();
    sum.weights.retain(|(id, _)| !gone.contains(id));
    sum.tenants.retain(|t| !gone.contains(&t.id));
    if known.is_none() {
        let called = || TenantKind::Others.name().to_owned();
        // No id is greater: they stay in order.
        sum.tenants.push(Tenant { id: others, kind: TenantKind::Others, key: called(), name: called() });
    }
    true
}

fn say_that_folded(sum: &mut Observation) {
    if sum.unavailable.iter().all(|u| u.what != What::EveryTenant) {
        let why = format!(
            "there were more than {MOST_TENANTS}, so of those that have ended the ones that ran least are counted \
             together as `others`"
        );
        sum.unavailable.push(Unavailable::new(What::EveryTenant, why));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Ledger, Parts};

    #[test]
    fn of_a_hundred_thousand_ended_tasks_those_that_ran_most_are_listed_and_the_sums_have_all() {
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

    /// A window in which a hundred commands began, waited for each other, ran and ended beside a server that hardly ran.
    fn window_of_commands(n: u64) -> Observation {
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
            tasks.push(TaskObservation {
                id: TaskId(id),
                name: "cc1".into(),
                tenant: TenantId(id),
                born_ns: n * 1_000,
                alive: i == 0,
                last_cpu: None,
                account: account.into(),
            });
            let key = format!("pgid:{id}");
            tenants.push(Tenant { id: TenantId(id), kind: TenantKind::Command, key, name: "cc1".into() });
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

    #[test]
    fn of_thirty_thousand_commands_those_that_ran_least_are_counted_together_and_nothing_is_lost() {
        let mut recording = Recording::about(Some(TenantId(0)));
        for n in 0..300 {
            let window = window_of_commands(n);
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
        let server = &whole.by_tenant[0];
        assert_eq!(
            (server.id, server.tasks, server.account.culprits.total_ns()),
            (TenantId(0), 1, 300 * 999)
        );
        let kept = server.account.culprits.shares().len();
        assert!(kept <= MOST_TENANTS, "{kept}");
        for slot in recording.timeline() {
            assert!(slot.tenants.len() <= MOST_TENANTS_OF_SLOT + 1, "{}", slot.tenants.len());
            assert!(slot.by_tenant.iter().any(|t| t.id == TenantId(0)), "the subject is told apart");
        }
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
            // Two that stay, and in every window one that begins and ends in it.
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
