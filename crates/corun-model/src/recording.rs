//! A recording: consecutive windows summed to one, and kept as a timeline of bounded length.
//!
//! However long a program runs, its timeline has at most [`SLOTS`] slots: when there are more, neighbours are merged
//! two by two. Slots keep tenants and CPUs, not single tasks, so that a machine with thousands of tasks can be recorded
//! for hours. Without the list nobody can tell any more which tasks of two windows are the same, so a task is counted in the
//! slot in which it began (in the first one where it was there before): the counts of slots sum to those of the whole.

use crate::observation::{Observation, TaskObservation, TenantObservation};

/// Most slots of a timeline.
pub const SLOTS: usize = 240;

/// Most tasks that are listed in the sum. Beyond that, of those that have ended the half that ran least is in its tenants' sums
/// only.
const MOST_TASKS: usize = 50_000;

/// Consecutive windows, summed and as a timeline.
#[derive(Clone, Debug, Default)]
pub struct Recording {
    whole: Option<Observation>,
    slots: Vec<Observation>,
    /// How many windows make a slot, and how many the last slot has.
    per_slot: usize,
    in_last: usize,
}

impl Recording {
    /// Adds the window that follows the last one.
    pub fn push(&mut self, window: Observation) {
        let slot = self.unlisted(&window);
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
            return;
        }
        if self.slots.len() == SLOTS {
            self.merge_neighbours();
        }
        self.per_slot = self.per_slot.max(1);
        self.slots.push(slot);
        self.in_last = 1;
    }

    /// Adds the window that follows the last one, and keeps its tenants' sums alone: who runs for days has more tasks than can
    /// be kept.
    pub fn push_sums(&mut self, window: &Observation) {
        self.push(self.unlisted(window));
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
    whole.loss.unlisted_tasks += (before - whole.tasks.len()) as u64;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observation::Account;
    use crate::{Ledger, Parts, TaskId, TenantId};

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
