//! A recording: consecutive windows summed to one, and kept as a timeline of bounded length.
//!
//! However long a program runs, its timeline has at most [`SLOTS`] slots: when there are more, neighbours are merged
//! two by two. Slots keep tenants and CPUs, not single tasks, so that a machine with thousands of tasks can be recorded
//! for hours.

use crate::observation::{Observation, TaskObservation};

/// Most slots of a timeline.
pub const SLOTS: usize = 240;

/// Most tasks that are listed in the sum. Beyond that, of those that have ended the half that ran least is in its tenants' sums
/// only.
pub const MOST_TASKS: usize = 50_000;

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
        let slot = Observation { tasks: Vec::new(), ..window.clone() };
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
                    account,
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
