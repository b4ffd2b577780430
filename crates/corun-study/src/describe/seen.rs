//! The activity of a program's tasks, from its run log: when each ran, and what ended each wait.
//!
//! Tasks become **lanes**. A task that begins after another has ended takes over its lane. So a program that starts a thread for every
//! job appears with as many workers as it has at once.

use corun_model::run_log::{Event, Left, RunLog, Waker, What};
use corun_model::TaskId;
use std::collections::BTreeMap;

/// A wait of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waited {
    /// When it began, in nanoseconds.
    pub from_ns: u64,
    /// When it ended, in nanoseconds.
    pub to_ns: u64,
    /// The lane that ended it. `None` if no task of the program did.
    pub by: Option<usize>,
}

/// The activity of successive tasks.
#[derive(Clone, Debug, Default)]
pub struct Lane {
    /// Times on a CPU: from, to, and the total before.
    runs: Vec<(u64, u64, u64)>,
    /// Its waits, in the order of time.
    pub waits: Vec<Waited>,
    /// When its tasks began, except those that existed at the start.
    pub births: Vec<u64>,
    /// When its tasks ended.
    pub ends: Vec<u64>,
}

/// A run of a program.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// When it began, in nanoseconds.
    pub start_ns: u64,
    /// When the last activity of its tasks was.
    pub end_ns: u64,
    /// Its lanes.
    pub lanes: Vec<Lane>,
}

impl Lane {
    /// Its time on a CPU before `t_ns`.
    pub fn cpu_before(&self, t_ns: u64) -> u64 {
        let after = self.runs.partition_point(|(from, ..)| *from < t_ns);
        match after.checked_sub(1) {
            Some(last) => {
                let (from, to, before) = self.runs[last];
                before + t_ns.min(to) - from
            }
            None => 0,
        }
    }

    /// Its time on a CPU between two times.
    pub fn cpu_between(&self, from_ns: u64, to_ns: u64) -> u64 {
        self.cpu_before(to_ns) - self.cpu_before(from_ns)
    }

    fn ran(&mut self, from_ns: u64, to_ns: u64) {
        let before = self.runs.last().map_or(0, |(from, to, before)| before + to - from);
        // A late event must not make a lane run twice at the same time.
        let from_ns = self.runs.last().map_or(from_ns, |(_, to, _)| from_ns.max(*to));
        if to_ns > from_ns {
            self.runs.push((from_ns, to_ns, before));
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Unknown,
    Ready,
    Runs,
    Waits,
    Ended,
}

struct Task {
    lane: usize,
    state: State,
    since_ns: u64,
    /// A wake-up that came before it had gone to sleep.
    early: Option<Waker>,
}

#[derive(Default)]
struct Reader {
    seen: Seen,
    tasks: BTreeMap<TaskId, Task>,
    /// Lanes whose task has ended.
    free: Vec<usize>,
    now_ns: u64,
}

impl Seen {
    /// Reads the parts of a run log, up to the first part that lost events. Also returns how many events were read.
    pub fn of<'a>(logs: impl Iterator<Item = &'a RunLog>) -> (Seen, u64) {
        let mut reader = Reader::default();
        let mut events = 0;
        for log in logs.take_while(|log| log.lost == 0) {
            for event in &log.events {
                if events == 0 {
                    reader.seen.start_ns = event.t_ns;
                }
                reader.now_ns = reader.now_ns.max(event.t_ns);
                reader.take(event);
                events += 1;
            }
        }
        let now_ns = reader.now_ns;
        let running: Vec<(usize, u64)> =
            reader.tasks.values().filter(|t| t.state == State::Runs).map(|t| (t.lane, t.since_ns)).collect();
        let mut seen = reader.seen;
        running.into_iter().for_each(|(lane, since_ns)| seen.lanes[lane].ran(since_ns, now_ns));
        let last = |lane: &Lane| lane.runs.last().map_or(0, |(_, to, _)| *to);
        seen.end_ns = seen.lanes.iter().map(last).max().unwrap_or(0).max(seen.start_ns);
        (seen, events)
    }

    /// Its length.
    pub fn wall_ns(&self) -> u64 {
        self.end_ns - self.start_ns
    }
}

impl Reader {
    fn take(&mut self, e: &Event) {
        let now_ns = self.now_ns;
        if let What::Born { parent, .. } = e.what {
            let is_new = self.tasks.contains_key(&parent);
            // The task that had this number before has ended.
            self.end(e.task);
            let lane = self.free.pop().unwrap_or_else(|| self.add_lane());
            if is_new {
                self.seen.lanes[lane].births.push(now_ns);
            }
            self.tasks.insert(e.task, Task { lane, state: State::Ready, since_ns: now_ns, early: None });
            return;
        }
        if !self.tasks.contains_key(&e.task) {
            let lane = self.add_lane();
            self.tasks.insert(e.task, Task { lane, state: State::Unknown, since_ns: now_ns, early: None });
        }
        let state = self.tasks[&e.task].state;
        match (e.what, state) {
            (_, State::Ended) => {}
            (What::Runs { .. }, _) => {
                if state == State::Waits {
                    let waker = self.task(e.task).early.take().unwrap_or(Waker::Interrupt);
                    self.woken(e.task, waker);
                }
                self.leave_cpu(e.task);
                self.enter(e.task, State::Runs);
                self.task(e.task).early = None;
            }
            (What::Leaves(left), _) => {
                self.leave_cpu(e.task);
                match left {
                    Left::Preempted | Left::Yielded => self.enter(e.task, State::Ready),
                    Left::Waits(_) => self.enter(e.task, State::Waits),
                    Left::Ended | Left::Killed => self.end(e.task),
                }
            }
            (What::Woken(waker), State::Waits) => {
                self.woken(e.task, waker);
                self.enter(e.task, State::Ready);
            }
            (What::Woken(waker), State::Runs) => self.task(e.task).early = Some(waker),
            (What::Woken(_), _) => self.enter(e.task, State::Ready),
            (What::SleepsUntil { .. } | What::Budget { .. } | What::Confines | What::Born { .. }, _) => {}
        }
    }

    fn task(&mut self, id: TaskId) -> &mut Task {
        self.tasks.get_mut(&id).expect("it was added")
    }

    fn add_lane(&mut self) -> usize {
        self.seen.lanes.push(Lane::default());
        self.seen.lanes.len() - 1
    }

    fn enter(&mut self, id: TaskId, state: State) {
        let now_ns = self.now_ns;
        let task = self.task(id);
        (task.state, task.since_ns) = (state, now_ns);
    }

    fn leave_cpu(&mut self, id: TaskId) {
        let Task { lane, state, since_ns, .. } = *self.task(id);
        if state == State::Runs {
            let now_ns = self.now_ns;
            self.seen.lanes[lane].ran(since_ns, now_ns);
        }
    }

    fn woken(&mut self, id: TaskId, waker: Waker) {
        let by = match waker {
            Waker::Task(by) if by != id => self.tasks.get(&by).map(|task| task.lane),
            _ => None,
        };
        let Task { lane, since_ns, .. } = *self.task(id);
        let waited = Waited { from_ns: since_ns, to_ns: self.now_ns, by: by.filter(|by| *by != lane) };
        self.seen.lanes[lane].waits.push(waited);
    }

    fn end(&mut self, id: TaskId) {
        let now_ns = self.now_ns;
        let Some(task) = self.tasks.get_mut(&id).filter(|task| task.state != State::Ended) else { return };
        (task.state, task.since_ns) = (State::Ended, now_ns);
        let lane = task.lane;
        self.seen.lanes[lane].ends.push(now_ns);
        self.free.push(lane);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corun_model::machine::CpuId;
    use corun_model::run_log::{CpuMask, For};

    fn log(events: &[(u64, u32, What)]) -> RunLog {
        let event = |&(t_ns, task, what): &(u64, u32, What)| Event { t_ns, task: TaskId(task), what };
        RunLog { events: events.iter().map(event).collect(), ..RunLog::default() }
    }

    fn runs() -> What {
        What::Runs { cpu: CpuId(0), may: CpuMask::ALL }
    }

    #[test]
    fn a_wait_goes_from_the_leaving_to_the_wake_up_and_has_the_lane_that_ended_it() {
        let waits = What::Leaves(Left::Waits(For::Futex(1)));
        let by = What::Woken(Waker::Task(TaskId(1)));
        let (seen, events) = Seen::of(
            [log(&[
                (0, 1, runs()),
                (10, 2, What::Born { parent: TaskId(1), process: 1 }),
                (12, 2, runs()),
                (20, 2, waits),
                (50, 2, by),
                (55, 2, runs()),
                (60, 2, waits),
                (90, 2, What::Woken(Waker::Interrupt)),
                (91, 2, runs()),
                (95, 2, What::Leaves(Left::Ended)),
                (100, 1, What::Leaves(Left::Ended)),
            ])]
            .iter(),
        );
        assert_eq!((events, seen.wall_ns(), seen.lanes.len()), (11, 100, 2));
        let second = &seen.lanes[1];
        let waited = |from_ns, to_ns, by| Waited { from_ns, to_ns, by };
        assert_eq!(second.waits, [waited(20, 50, Some(0)), waited(60, 90, None)]);
        assert_eq!((second.cpu_before(1_000), second.cpu_between(15, 57)), (8 + 5 + 4, 5 + 2));
        assert_eq!((&second.births[..], &second.ends[..]), (&[10][..], &[95][..]));
    }

    #[test]
    fn a_task_that_begins_after_another_ended_continues_its_lane() {
        let born = What::Born { parent: TaskId(1), process: 1 };
        let mut events = vec![(0, 1, runs())];
        for n in 0..5 {
            let at = 100 * n + 10;
            let task = 2 + n as u32;
            events.extend([
                (at, task, born),
                (at + 1, task, runs()),
                (at + 50, task, What::Leaves(Left::Ended)),
            ]);
        }
        let (seen, _) = Seen::of([log(&events)].iter());
        assert_eq!((seen.lanes.len(), seen.lanes[1].births.len()), (2, 5));
        assert_eq!(seen.lanes[1].cpu_before(u64::MAX), 5 * 49);
    }

    #[test]
    fn nothing_is_read_from_the_first_part_with_lost_events_on() {
        let lossy = RunLog { lost: 1, ..log(&[(500, 1, runs())]) };
        let (seen, events) =
            Seen::of([log(&[(0, 1, runs()), (9, 1, What::Leaves(Left::Preempted))]), lossy].iter());
        assert_eq!((events, seen.end_ns), (2, 9));
    }
}
