//! What was ended within a run before it was done, and how much of its life had been taken from it by then.
//!
//! A time limit within a run (a test runner's, `timeout`) ends it at the same time alone. But what it ended has got less far beside
//! co-runners. Where a replay knows that somebody only waited for that limit, the run has lost what the work was behind; where none
//! does, as of a shell that sleeps and then kills, nothing is known to be lost, and yet the run is not clean.
//!
//! So has a thread that computes until another of its process, which has slept for as long, tells it to stop: a benchmark of a fixed time. Nobody
//! logs flags. What shows is that it ends as soon as that sleep is over.
//!
//! Of what sleeps for times of its own, what was taken may have come out of that, so it is not told.
//!
//! Limit: it is known where a run log is kept.

use crate::definitions::NEARLY_ALL;
use crate::loss::{has_spare, SLOT_NS};
use crate::useful_work::Window;
use corun_model::run_log::{Event, Left, RunLog, Waker, What};
use corun_model::{Observation, TaskId, TenantId};
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Limit: so many that were ended are remembered.
const MOST: usize = 10_000;

/// What ended something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CutBy {
    /// A signal.
    Signal,
    /// A time for which its own program slept.
    Timer,
}

/// Something that was ended before it was done.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CutShort {
    /// What it was called; `None`: not known.
    pub name: Option<String>,
    /// What ended it.
    pub by: CutBy,
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

/// Those that were ended within a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ended {
    /// What tasks were called that ended in the last window, and in the one before.
    names: [BTreeMap<TaskId, Arc<str>>; 2],
    ended: BTreeMap<TaskId, (CutBy, Option<Arc<str>>)>,
    /// When tasks were born, and in which process.
    born: BTreeMap<TaskId, (u64, u32)>,
    /// Since when they sleep, and until when they want to.
    asleep: BTreeMap<TaskId, [u64; 2]>,
    /// By process: the last sleep that was over, of those at about the same time the longest.
    slept: BTreeMap<u32, Slept>,
}

/// A sleep that was over.
#[derive(Clone, Copy, Debug)]
struct Slept {
    by: TaskId,
    from_ns: u64,
    until_ns: u64,
}

impl Slept {
    /// Whether a task that was born then and ends now has lived for as long as this took.
    fn ends(&self, task: TaskId, born_ns: u64, now_ns: u64) -> bool {
        let soon = self.until_ns..=self.until_ns + SLOT_NS;
        let meanwhile_ns = self.until_ns.saturating_sub(born_ns.max(self.from_ns));
        let lived_ns = now_ns.saturating_sub(born_ns);
        task != self.by && soon.contains(&now_ns) && meanwhile_ns as f64 >= NEARLY_ALL * lived_ns as f64
    }
}

impl Ended {
    /// Takes the next window of the run.
    pub fn see(&mut self, seen: &Observation, subject: TenantId) {
        let ended = seen.tasks.iter().filter(|t| t.tenant == subject && !t.alive);
        self.names.swap(0, 1);
        self.names[0] = ended.map(|t| (t.id, t.name.clone())).collect();
        // The log may be ahead of the window.
        for (task, (_, name)) in self.ended.iter_mut().filter(|(_, (_, name))| name.is_none()) {
            *name = self.names[0].get(task).cloned();
        }
    }

    /// Takes what the run's tasks did, event by event.
    pub fn push(&mut self, log: &RunLog) {
        log.events.iter().for_each(|event| self.take(event));
    }

    fn take(&mut self, &Event { t_ns, task, what }: &Event) {
        match what {
            // Whoever had that number before is another.
            What::Born { process, .. } => {
                self.ended.remove(&task);
                if self.born.len() < MOST {
                    self.born.insert(task, (t_ns, process));
                }
            }
            What::SleepsUntil { deadline_ns, .. } => {
                self.asleep.insert(task, [t_ns, deadline_ns]);
            }
            What::Woken(waker) => {
                let over = self.asleep.remove(&task).filter(|_| waker == Waker::Interrupt);
                if let Some([from_ns, _]) = over.filter(|[_, deadline_ns]| t_ns >= *deadline_ns) {
                    let process = self.born.get(&task).map_or(task.0, |(_, process)| *process);
                    if self.slept.len() >= MOST {
                        self.slept.clear();
                    }
                    let slept = Slept { by: task, from_ns, until_ns: t_ns };
                    let last = self.slept.entry(process).or_insert(slept);
                    if t_ns > last.until_ns + SLOT_NS || from_ns < last.from_ns {
                        *last = slept;
                    }
                }
            }
            What::Leaves(left @ (Left::Killed | Left::Ended)) => {
                let (born, _) = (self.born.remove(&task), self.asleep.remove(&task));
                let is_told = born.is_some_and(|(born_ns, process)| {
                    self.slept.get(&process).is_some_and(|slept| slept.ends(task, born_ns, t_ns))
                });
                let by = match left {
                    Left::Killed => CutBy::Signal,
                    _ if is_told => CutBy::Timer,
                    _ => return,
                };
                if self.ended.len() < MOST {
                    let name = self.names.iter().find_map(|names| names.get(&task));
                    self.ended.insert(task, (by, name.cloned()));
                }
            }
            _ => {}
        }
    }

    /// The one from which most was taken of a run that was this in all; of those from which as much was, the one that lived longest.
    pub fn worst(&self, whole: &Window) -> Option<CutShort> {
        let spent = self.ended.iter().filter_map(|(task, how)| Some((how, whole.tasks.get(task)?)));
        let worst = spent.filter(|(_, s)| s.life_ns > 0.0 && !has_spare(s)).max_by(|(_, a), (_, b)| {
            (a.stolen_ns, a.life_ns).partial_cmp(&(b.stolen_ns, b.life_ns)).expect("numbers")
        });
        worst.map(|((by, name), s)| CutShort {
            name: name.as_deref().map(str::to_owned),
            by: *by,
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
        let mut killed = Ended::default();
        killed.see(&window(&[2]), SUBJECT);
        killed.push(&log(&[(2, Left::Killed), (4, Left::Ended)]));
        killed.see(&window(&[3]), SUBJECT);
        killed.push(&log(&[(3, Left::Killed)]));
        let worst = killed.worst(&run);
        assert_eq!(
            worst,
            Some(CutShort { name: Some("job 2".into()), by: CutBy::Signal, after_ns: 80, taken: 0.5 })
        );
        assert_eq!(Ended::default().worst(&run), None);
        let sleeper = Spent { life_ns: 100.0, stolen_ns: 50.0, slack_ns: 30.0, ..Spent::default() };
        let run = Window { tasks: [(TaskId(2), sleeper)].into(), ..run };
        assert_eq!(killed.worst(&run), None, "it may have come out of its sleep");
    }

    #[test]
    fn a_name_comes_from_the_window_before_or_after_and_one_that_was_not_seen_has_none() {
        for (before, after, name) in
            [(&[2][..], &[][..], Some("job 2")), (&[], &[2], Some("job 2")), (&[], &[], None)]
        {
            let mut killed = Ended::default();
            killed.see(&window(before), SUBJECT);
            killed.push(&log(&[(2, Left::Killed)]));
            killed.see(&window(after), SUBJECT);
            let worst = killed.worst(&whole(&[(2, 10.0, 5.0)])).unwrap();
            assert_eq!(worst.name.as_deref(), name);
        }
    }

    #[test]
    fn a_number_that_was_given_anew_is_another_task() {
        let mut killed = Ended::default();
        killed.push(&log(&[(2, Left::Killed)]));
        let what = What::Born { parent: TaskId(1), process: 2 };
        killed.push(&RunLog { events: vec![Event { t_ns: 2, task: TaskId(2), what }], ..RunLog::default() });
        assert_eq!(killed.worst(&whole(&[(2, 10.0, 5.0)])), None);
    }

    #[test]
    fn who_computes_until_a_sibling_has_slept_for_as_long_was_ended_by_that_sleep() {
        let ms = 1_000_000;
        let told = |slept_ms: u64, ends_ms: u64, process: u32| {
            let at = |t_ms: u64, task, what| Event { t_ns: t_ms * ms, task: TaskId(task), what };
            let until = What::SleepsUntil { deadline_ns: (1 + slept_ms) * ms, as_length: true };
            let events = vec![
                at(0, 2, What::Born { parent: TaskId(1), process }),
                at(1, 1, until),
                at(1 + slept_ms, 1, What::Woken(Waker::Interrupt)),
                at(ends_ms, 2, What::Leaves(Left::Ended)),
                at(ends_ms, 1, What::Leaves(Left::Ended)),
            ];
            let mut ended = Ended::default();
            ended.push(&RunLog { events, ..RunLog::default() });
            let s = |life: u64| Spent {
                life_ns: (life * ms) as f64,
                stolen_ns: (life * ms / 2) as f64,
                ..Spent::default()
            };
            let tasks = [(TaskId(1), Spent { stolen_ns: 0.0, ..s(ends_ms) }), (TaskId(2), s(ends_ms))];
            ended.worst(&Window { tasks: tasks.into(), ..Window::default() })
        };
        let cut = told(1_000, 1_010, 1).expect("it was told to stop");
        assert_eq!((cut.by, cut.after_ns, cut.taken), (CutBy::Timer, 1_010 * ms, 0.5));
        assert_eq!(told(1_000, 1_300, 1), None, "it went on");
        assert_eq!(told(500, 1_300, 1), None, "it went on for longer");
        assert_eq!(told(1_000, 900, 1), None, "it had ended before");
        assert_eq!(told(1_000, 1_010, 2), None, "another process");
    }
}
