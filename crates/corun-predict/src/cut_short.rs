//! Tasks that were ended within a run before they were done, and how much of their lives had been taken from them by then.
//!
//! A time limit within a run (a test runner's, `timeout`) ends it at the same time alone. But the task that it ended got less far alongside
//! co-runners. If a replay knows that somebody only waited for that limit, the run has lost the time by which the work was behind. If no
//! replay does, for example if a shell sleeps and then kills, no loss is known, and yet the run is not clean.
//!
//! The same is true of a task that computes until another task has slept for as long and tells it to stop: a benchmark of a fixed time. The
//! other is of its process, or of one that has started it. Nobody logs flags. But it ends as soon as that sleep is over, and the other does
//! not sleep on: a task that looks again and again whether others are done sleeps when they are. The sleep may have been called in pieces,
//! and with any kind of timer: also as a wait without a limit that a timer's interrupt ends, such as that of a `timerfd` or a signal.
//!
//! A task that sleeps for times of its own is not reported: the theft may have come out of its sleep.
//!
//! Limits: this is known only if there is a run log. No log has a timer's signal to a task that computes, so a single thread that computes
//! until an alarm is not reported.

use crate::definitions::NEARLY_ALL;
use crate::loss::{has_spare, SLOT_NS};
use crate::useful_work::Window;
use corun_model::run_log::{Event, For, Left, RunLog, Waker, What};
use corun_model::{Observation, TaskId, TenantId};
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Limit: this many ended tasks are remembered.
const MOST: usize = 10_000;
/// Limit: as far up it is looked who has started a process.
const MOST_GENERATIONS: usize = 16;

/// What ended something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CutBy {
    /// A signal.
    Signal,
    /// A time for which its own program had slept.
    Timer,
}

/// Something that was ended before it was done.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CutShort {
    /// Its name; `None`: not known.
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

/// The tasks that were ended within a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ended {
    /// The names of the tasks that ended in the last window, and in the one before.
    names: [BTreeMap<TaskId, Arc<str>>; 2],
    ended: BTreeMap<TaskId, (CutBy, Option<Arc<str>>)>,
    /// When tasks were born, and in which process.
    born: BTreeMap<TaskId, (u64, u32)>,
    /// Who has started a process.
    founders: BTreeMap<u32, u32>,
    sleepers: BTreeMap<TaskId, Sleeper>,
    /// The last sleep of each that was over, by process.
    slept: BTreeMap<(u32, TaskId), Slept>,
}

/// A task that sleeps now and then.
#[derive(Clone, Copy, Debug, Default)]
struct Sleeper {
    /// Since when it has slept nearly all the time, and for how long in all.
    from_ns: u64,
    slept_ns: u64,
    /// Until when it wants to sleep, if it falls asleep next.
    deadline_ns: Option<u64>,
    /// Since when it sleeps, and at least until when.
    asleep_ns: Option<[u64; 2]>,
}

impl Sleeper {
    /// It falls asleep.
    fn sleeps(&mut self, until_ns: u64, now_ns: u64) {
        if (self.slept_ns as f64) < NEARLY_ALL * now_ns.saturating_sub(self.from_ns) as f64 {
            (self.from_ns, self.slept_ns) = (now_ns, 0);
        }
        self.asleep_ns = Some([now_ns, until_ns]);
    }

    /// It is woken, by a timer or not. Since when it has slept if its time was over.
    fn wakes(&mut self, is_timer: bool, now_ns: u64) -> Option<u64> {
        let [since_ns, until_ns] = self.asleep_ns.take()?;
        if !is_timer || now_ns < until_ns {
            *self = Sleeper::default();
            return None;
        }
        self.slept_ns += now_ns.saturating_sub(since_ns);
        Some(self.from_ns)
    }
}

/// A sleep that was over.
#[derive(Clone, Copy, Debug)]
struct Slept {
    from_ns: u64,
    until_ns: u64,
}

impl Slept {
    /// Whether a task that was born then and ends now has lived for as long as this sleep.
    fn ends(&self, born_ns: u64, now_ns: u64) -> bool {
        let soon = self.until_ns..=self.until_ns + SLOT_NS;
        let meanwhile_ns = self.until_ns.saturating_sub(born_ns.max(self.from_ns));
        let lived_ns = now_ns.saturating_sub(born_ns);
        soon.contains(&now_ns) && meanwhile_ns as f64 >= NEARLY_ALL * lived_ns as f64
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

    /// Takes the events of the run's tasks.
    pub fn push(&mut self, log: &RunLog) {
        log.events.iter().for_each(|event| self.take(event));
    }

    fn take(&mut self, &Event { t_ns, task, what }: &Event) {
        match what {
            // The task that had that number before is another.
            What::Born { process, parent } => {
                self.ended.remove(&task);
                self.sleepers.remove(&task);
                if self.born.len() < MOST {
                    self.born.insert(task, (t_ns, process));
                    if process == task.0 {
                        self.founders.insert(process, self.process_of(parent));
                    }
                }
            }
            What::SleepsUntil { deadline_ns, .. } => {
                self.sleeper(task).deadline_ns = Some(deadline_ns);
            }
            What::Leaves(Left::Waits(what)) => {
                // A timer that is no limit of the wait may end these.
                let is_open = matches!(what, For::Poll | For::Pipe | For::Other);
                let sleeper = self.sleeper(task);
                match sleeper.deadline_ns.take().or(is_open.then_some(0)) {
                    Some(until_ns) => sleeper.sleeps(until_ns, t_ns),
                    None => *sleeper = Sleeper::default(),
                }
            }
            What::Woken(waker) => {
                let sleeper = self.sleepers.get_mut(&task);
                let over = sleeper.and_then(|sleeper| {
                    sleeper.wakes(matches!(waker, Waker::Interrupt | Waker::Timer), t_ns)
                });
                if let Some(from_ns) = over {
                    if self.slept.len() >= MOST {
                        self.slept.clear();
                    }
                    self.slept.insert((self.process_of(task), task), Slept { from_ns, until_ns: t_ns });
                }
            }
            What::Leaves(left @ (Left::Killed | Left::Ended)) => {
                self.sleepers.remove(&task);
                let is_told = self.born.get(&task).is_some_and(|born| self.is_told(task, *born, t_ns));
                self.born.remove(&task);
                self.founders.remove(&task.0);
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

    fn sleeper(&mut self, task: TaskId) -> &mut Sleeper {
        if self.sleepers.len() >= MOST {
            self.sleepers.clear();
        }
        self.sleepers.entry(task).or_default()
    }

    /// The process of a task.
    fn process_of(&self, task: TaskId) -> u32 {
        self.born.get(&task).map_or(task.0, |(_, process)| *process)
    }

    /// Whether a task that was born then and ends now was told so by one that had slept for as long: of its process, or of one that has
    /// started it.
    fn is_told(&self, task: TaskId, (born_ns, process): (u64, u32), now_ns: u64) -> bool {
        let founder =
            |process: &u32| self.founders.get(process).copied().filter(|founder| founder != process);
        let processes = std::iter::successors(Some(process), founder).take(MOST_GENERATIONS);
        let sleeps_on = |by: &TaskId| {
            let asleep_ns = self.sleepers.get(by).and_then(|sleeper| sleeper.asleep_ns);
            asleep_ns.is_some_and(|[_, until_ns]| until_ns > now_ns)
        };
        let of = |process| self.slept.range((process, TaskId(0))..=(process, TaskId(u32::MAX)));
        processes
            .flat_map(of)
            .any(|((_, by), slept)| *by != task && slept.ends(born_ns, now_ns) && !sleeps_on(by))
    }

    /// The task from which most was taken, in a run that was this in all; if several are equal, the one that lived longest.
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

    /// What is said of task 2, which ends at `ends_ms` after others had taken half of its time. It is of process `process`, which the
    /// first task of process 1 has started; the other events are those of tasks of process 1, by their time in milliseconds.
    fn told(process: u32, ends_ms: u64, events: &[(u64, u32, What)]) -> Option<CutShort> {
        let ms = 1_000_000;
        let born = |process| What::Born { parent: TaskId(1), process };
        let own = [(0, 2, born(process)), (0, 3, born(1)), (ends_ms, 2, What::Leaves(Left::Ended))];
        let mut all: Vec<(u64, u32, What)> = own.iter().chain(events).copied().collect();
        all.sort_by_key(|(at_ms, ..)| *at_ms);
        let event =
            |&(at_ms, task, what): &(u64, u32, What)| Event { t_ns: at_ms * ms, task: TaskId(task), what };
        let mut ended = Ended::default();
        ended.push(&RunLog { events: all.iter().map(event).collect(), ..RunLog::default() });
        let life_ns = (ends_ms * ms) as f64;
        let spent = Spent { life_ns, stolen_ns: life_ns / 2.0, ..Spent::default() };
        ended.worst(&Window { tasks: [(TaskId(2), spent)].into(), ..Window::default() })
    }

    /// A task sleeps in one system call, with a limit or without, until an interrupt ends that.
    fn sleeps(task: u32, what: For, limit: bool, [from_ms, until_ms]: [u64; 2]) -> Vec<(u64, u32, What)> {
        let until = What::SleepsUntil { deadline_ns: until_ms * 1_000_000, as_length: true };
        let asleep = [
            (from_ms, task, What::Leaves(Left::Waits(what))),
            (until_ms, task, What::Woken(Waker::Interrupt)),
        ];
        limit.then_some((from_ms, task, until)).into_iter().chain(asleep).collect()
    }

    #[test]
    fn who_computes_until_another_has_slept_for_as_long_was_ended_by_that_sleep() {
        let one = |what, limit, until_ms| sleeps(1, what, limit, [1, until_ms]);
        let pieces = |step: u64, pause: u64, until: u64| {
            let starts = (1..until).step_by((step + pause) as usize);
            starts.flat_map(move |from| sleeps(1, For::Sleep, true, [from, from + step])).collect::<Vec<_>>()
        };
        let naps = |task: u32| {
            let nap = |ms| sleeps(task, For::Sleep, true, [ms, ms + 10]);
            (1..1_100).step_by(10).flat_map(nap).collect::<Vec<_>>()
        };
        let waits_on = |mut events: Vec<(u64, u32, What)>, at_ms| {
            events.push((at_ms, 1, What::Leaves(Left::Waits(For::Futex(64)))));
            events
        };
        let woken = vec![
            (1, 1, What::Leaves(Left::Waits(For::Pipe))),
            (1_001, 1, What::Woken(Waker::Task(TaskId(9)))),
        ];
        for (facts, events, ends_ms, processes) in [
            (
                "one sleep, and it waits for its thread",
                waits_on(one(For::Sleep, true, 1_001), 1_002),
                1_010,
                &[1, 2][..],
            ),
            ("a lock's limit", one(For::Futex(64), true, 1_001), 1_010, &[1, 2]),
            ("a poll's limit", one(For::Poll, true, 1_001), 1_010, &[1, 2]),
            ("a timerfd that is read", one(For::Pipe, false, 1_001), 1_010, &[1, 2]),
            ("a timerfd that is polled", one(For::Poll, false, 1_001), 1_010, &[1, 2]),
            ("an alarm while it pauses", one(For::Other, false, 1_001), 1_010, &[1, 2]),
            (
                "and another thread looks around",
                [one(For::Sleep, true, 1_001), naps(3)].concat(),
                1_010,
                &[1, 2],
            ),
            ("another thread slept", sleeps(3, For::Sleep, true, [1, 1_001]), 1_010, &[1, 2]),
            ("in ten pieces", pieces(100, 1, 1_000), 1_015, &[1, 2]),
            ("in a thousand pieces", pieces(1, 0, 1_000), 1_010, &[1, 2]),
            ("it works half of the time in between", pieces(50, 50, 1_000), 960, &[]),
            ("it looks whether others are done", pieces(100, 0, 1_100), 1_045, &[]),
            ("it went on", one(For::Sleep, true, 1_001), 1_300, &[]),
            ("it went on for longer", one(For::Sleep, true, 501), 1_300, &[]),
            ("it had ended before", one(For::Sleep, true, 1_001), 900, &[]),
            ("a lock without a limit", one(For::Futex(64), false, 1_001), 1_010, &[]),
            ("somebody sent something", woken, 1_010, &[]),
            ("a device was done", one(For::Device, false, 1_001), 1_010, &[]),
        ] {
            for process in [1, 2] {
                let found = told(process, ends_ms, &events);
                assert_eq!(
                    found.is_some(),
                    processes.contains(&process),
                    "{facts}, process {process}: {found:?}"
                );
                assert!(found.is_none_or(|cut| cut.by == CutBy::Timer && cut.taken == 0.5), "{facts}");
            }
        }
    }

    #[test]
    fn a_sleep_of_a_process_that_has_started_neither_ends_nothing() {
        let stranger = |task| {
            let born = (0, task, What::Born { parent: TaskId(77), process: task });
            [vec![born], sleeps(task, For::Sleep, true, [1, 1_001])].concat()
        };
        assert_eq!(told(1, 1_010, &stranger(50)), None);
        assert_eq!(told(2, 1_010, &stranger(50)), None);
    }
}
