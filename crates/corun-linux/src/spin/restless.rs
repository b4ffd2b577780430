//! Who is not sampled: tasks that wake up so often that it would slow them down.
//!
//! The kernel arms and disarms a task's event at every switch, and a timer is dear to arm in a virtual machine: redis and its
//! clients, with tens of thousands of switches a second, took half as long again by it on one. Who blocks that often does
//! not spin for long in between; that it is unknown is said.

use corun_model::Observation;
use std::collections::{BTreeMap, BTreeSet};

/// Wake-ups of a task, per second of a window, from which on it is left alone: at some 3 µs each, a hundredth of a CPU.
const WAKEUPS_MAX: u64 = 3_000;

/// Windows are added up to so long before they are judged, in nanoseconds: wake-ups come in bursts.
const JUDGED_NS: u64 = 200_000_000;

/// Tasks that are left alone for now.
#[derive(Debug, Default)]
pub struct Restless {
    tasks: BTreeSet<u32>,
    /// Wake-ups by task, and the windows that they were in, since tasks were last judged.
    wakeups: BTreeMap<u32, u64>,
    window_ns: u64,
}

impl Restless {
    /// Takes in a window; who has become restless by it. Who has calmed down, to less than half, is not any more. Where
    /// wake-ups are not counted, nobody is.
    pub fn note(&mut self, seen: &Observation) -> Vec<u32> {
        if !self.tasks.is_empty() {
            let here: BTreeSet<u32> = seen.tasks.iter().map(|t| t.id.0).collect();
            self.tasks.retain(|tid| here.contains(tid));
        }
        for task in &seen.tasks {
            // Most tasks sleep through a window.
            if let Some(wakeups) = task.account.events.wakeups.filter(|n| *n > 0) {
                *self.wakeups.entry(task.id.0).or_default() += wakeups;
            }
        }
        self.window_ns += seen.window_ns();
        if self.window_ns < JUDGED_NS {
            return Vec::new();
        }
        let (wakeups, window_ns) = (std::mem::take(&mut self.wakeups), std::mem::take(&mut self.window_ns));
        let most = |per_s: u64| (u128::from(per_s) * u128::from(window_ns) / 1_000_000_000) as u64;
        let (many, few) = (most(WAKEUPS_MAX), most(WAKEUPS_MAX / 2));
        self.tasks.retain(|tid| wakeups.get(tid).is_some_and(|n| *n >= few));
        let new: Vec<u32> = wakeups.iter().filter(|(_, n)| **n > many).map(|(tid, _)| *tid).collect();
        new.into_iter().filter(|tid| self.tasks.insert(*tid)).collect()
    }

    /// Whether a task is left alone.
    pub fn is(&self, tid: u32) -> bool {
        self.tasks.contains(&tid)
    }

    /// How many are, and from how many wake-ups a second on; `None`: nobody.
    pub fn unavailable(&self) -> Option<String> {
        let n = self.tasks.len();
        let why = || {
            format!(
                "{n} wake up more than {WAKEUPS_MAX} times a second, and sampling them would slow them down"
            )
        };
        (n > 0).then(why)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corun_model::events::Events;
    use corun_model::observation::{Account, TaskObservation};
    use corun_model::{TaskId, TenantId};

    const WINDOW_NS: u64 = 100_000_000;

    /// A window in which task 7 woke up so often.
    fn window(wakeups: Option<u64>) -> Observation {
        let events = Events { wakeups, ..Events::default() };
        let task = TaskObservation {
            id: TaskId(7),
            name: "server".into(),
            tenant: TenantId(1),
            born_ns: 0,
            alive: true,
            last_cpu: None,
            account: Account { events, ..Account::default() },
        };
        Observation { start_ns: 0, end_ns: WINDOW_NS, tasks: vec![task], ..Observation::default() }
    }

    #[test]
    fn who_wakes_up_thousands_of_times_a_second_is_left_alone_until_it_has_calmed_down() {
        let mut restless = Restless::default();
        assert!(restless.note(&window(Some(900))).is_empty(), "a tenth of a second may be a burst");
        assert_eq!(restless.note(&window(Some(900))), [7]);
        assert!(restless.is(7) && restless.unavailable().unwrap().starts_with("1 wake"));
        for wakeups in [200, 200, 0] {
            assert!(restless.note(&window(Some(wakeups))).is_empty());
            assert!(
                restless.is(7),
                "{wakeups} in a tenth of a second are too many, or one window says nothing"
            );
        }
        assert!(restless.note(&window(Some(0))).is_empty() && !restless.is(7));
        assert_eq!(restless.unavailable(), None);
    }

    #[test]
    fn who_is_rarely_woken_up_who_is_gone_and_whose_wake_ups_nobody_counts_are_not() {
        let mut restless = Restless::default();
        for wakeups in [Some(290), Some(290), None, None] {
            assert!(restless.note(&window(wakeups)).is_empty());
        }
        assert_eq!([restless.note(&window(Some(900))), restless.note(&window(Some(900)))], [vec![], vec![7]]);
        restless.note(&Observation::default());
        assert!(!restless.is(7));
    }
}
