//! What a signal ended within a run, and how much of its life had been taken from it by then.
//!
//! A time limit within a run (a test runner's, `timeout`) ends it at the same time alone. But what it ended has got less far beside
//! co-runners. Where a replay knows that somebody only waited for that limit, the run has lost what the work was behind; where none
//! does, as of a shell that sleeps and then kills, nothing is known to be lost, and yet the run is not clean.
//!
//! Of what sleeps for times of its own, what was taken may have come out of that, so it is not told.
//!
//! Limit: it is known where a run log is kept.

use crate::loss::has_spare;
use crate::useful_work::Window;
use corun_model::run_log::{Left, RunLog, What};
use corun_model::{Observation, TaskId, TenantId};
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Limit: so many that were ended are remembered.
const MOST: usize = 10_000;

/// Something that a signal ended.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CutShort {
    /// What it was called; `None`: not known.
    pub name: Option<String>,
    /// How long it had lived, in nanoseconds.
    pub after_ns: u64,
    /// The part of that in which it waited for a CPU that co-runners had, 0..1.
    pub taken: f64,
}

impl CutShort {
    /// How long it waited for CPUs that co-runners had, in nanoseconds.
    pub fn taken_ns(&self) -> f64 {
        self.after_ns as f64 * self.taken
    }
}

/// Those that signals ended within a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Killed {
    /// What tasks were called that ended in the last window, and in the one before.
    ended: [BTreeMap<TaskId, Arc<str>>; 2],
    killed: BTreeMap<TaskId, Option<Arc<str>>>,
}

impl Killed {
    /// Takes the next window of the run.
    pub fn see(&mut self, seen: &Observation, subject: TenantId) {
        let ended = seen.tasks.iter().filter(|t| t.tenant == subject && !t.alive);
        self.ended.swap(0, 1);
        self.ended[0] = ended.map(|t| (t.id, t.name.clone())).collect();
        // The log may be ahead of the window.
        for (task, name) in self.killed.iter_mut().filter(|(_, name)| name.is_none()) {
            *name = self.ended[0].get(task).cloned();
        }
    }

    /// Takes what the run's tasks did, event by event.
    pub fn push(&mut self, log: &RunLog) {
        for event in &log.events {
            match event.what {
                What::Leaves(Left::Killed) if self.killed.len() < MOST => {
                    let name = self.ended.iter().find_map(|ended| ended.get(&event.task));
                    self.killed.insert(event.task, name.cloned());
                }
                // The number has been given anew.
                What::Born { .. } => drop(self.killed.remove(&event.task)),
                _ => {}
            }
        }
    }

    /// The one from which most was taken of a run that was this in all; of those from which as much was, the one that lived longest.
    pub fn worst(&self, whole: &Window) -> Option<CutShort> {
        let spent = self.killed.iter().filter_map(|(task, name)| Some((name, whole.tasks.get(task)?)));
        let worst = spent.filter(|(_, s)| s.life_ns > 0.0 && !has_spare(s)).max_by(|(_, a), (_, b)| {
            (a.stolen_ns, a.life_ns).partial_cmp(&(b.stolen_ns, b.life_ns)).expect("numbers")
        });
        worst.map(|(name, s)| CutShort {
            name: name.as_deref().map(str::to_owned),
            after_ns: s.life_ns as u64,
            taken: (s.stolen_ns / s.life_ns).min(1.0),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::useful_work::Spent;
    use corun_model::observation::TaskObservation;
    use corun_model::run_log::Event;

    const SUBJECT: TenantId = TenantId(0);

    fn window(ended: &[u32]) -> Observation {
        let task = |id: &u32| TaskObservation {
            id: TaskId(*id),
            name: format!("job {id}").into(),
            tenant: SUBJECT,
            born_ns: 0,
            alive: false,
            last_cpu: None,
            account: Default::default(),
        };
        Observation { tasks: ended.iter().map(task).collect(), ..Observation::default() }
    }

    fn log(ends: &[(u32, Left)]) -> RunLog {
        let event =
            |&(task, left): &(u32, Left)| Event { t_ns: 1, task: TaskId(task), what: What::Leaves(left) };
        RunLog { events: ends.iter().map(event).collect(), ..RunLog::default() }
    }

    /// A run of tasks that lived so long, and were stolen from for so long.
    fn whole(tasks: &[(u32, f64, f64)]) -> Window {
        let spent = |&(id, life_ns, stolen_ns): &(u32, f64, f64)| {
            (TaskId(id), Spent { life_ns, stolen_ns, ..Spent::default() })
        };
        Window { tasks: tasks.iter().map(spent).collect(), ..Window::default() }
    }

    #[test]
    fn of_those_that_signals_ended_the_one_from_which_most_was_taken_is_told_by_its_name() {
        let run = whole(&[(1, 100.0, 0.0), (2, 80.0, 40.0), (3, 90.0, 30.0), (4, 90.0, 60.0)]);
        let mut killed = Killed::default();
        killed.see(&window(&[2]), SUBJECT);
        killed.push(&log(&[(2, Left::Killed), (4, Left::Ended)]));
        killed.see(&window(&[3]), SUBJECT);
        killed.push(&log(&[(3, Left::Killed)]));
        let worst = killed.worst(&run);
        assert_eq!(worst, Some(CutShort { name: Some("job 2".into()), after_ns: 80, taken: 0.5 }));
        assert_eq!(Killed::default().worst(&run), None);
        let sleeper = Spent { life_ns: 100.0, stolen_ns: 50.0, slack_ns: 30.0, ..Spent::default() };
        let run = Window { tasks: [(TaskId(2), sleeper)].into(), ..run };
        assert_eq!(killed.worst(&run), None, "it may have come out of its sleep");
    }

    #[test]
    fn a_name_comes_from_the_window_before_or_after_and_one_that_was_not_seen_has_none() {
        for (before, after, name) in
            [(&[2][..], &[][..], Some("job 2")), (&[], &[2], Some("job 2")), (&[], &[], None)]
        {
            let mut killed = Killed::default();
            killed.see(&window(before), SUBJECT);
            killed.push(&log(&[(2, Left::Killed)]));
            killed.see(&window(after), SUBJECT);
            let worst = killed.worst(&whole(&[(2, 10.0, 5.0)])).unwrap();
            assert_eq!(worst.name.as_deref(), name);
        }
    }

    #[test]
    fn a_number_that_was_given_anew_is_another_task() {
        let mut killed = Killed::default();
        killed.push(&log(&[(2, Left::Killed)]));
        let what = What::Born { parent: TaskId(1), process: 2 };
        killed.push(&RunLog { events: vec![Event { t_ns: 2, task: TaskId(2), what }], ..RunLog::default() });
        assert_eq!(killed.worst(&whole(&[(2, 10.0, 5.0)])), None);
    }
}
