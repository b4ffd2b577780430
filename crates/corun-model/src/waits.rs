//! Single waits for a CPU: the longest of a program, each with the holders of the CPU in its parts, and with its cause.
//!
//! [`Longest`] reads a trace with single waits, in order of time, and keeps a given number. It remembers [`MOST_TURNS`] turns of each
//! CPU. In a longer wait the beginning has an unknown holder. A wait's parts sum to it.
//!
//! Limits: an interrupt is part of the task that it interrupts. A preempted task and one that called `sched_yield` look the same.

use crate::machine::CpuId;
use crate::run_log::Waker;
use crate::tenant::{TaskId, TenantId};
use crate::trace::{Left, Trace, TraceEvent, TraceKind, TraceTask};
use std::collections::{BTreeMap, VecDeque};

/// The turns of tasks that are remembered for each CPU.
const MOST_TURNS: usize = 1 << 17;
/// The moves, and the parts due to budgets, that are remembered for one wait.
const MOST_MARKS: usize = 64;
/// The separate holders of a wait. Further ones are joined.
const MOST_HOLDERS: usize = 32;

/// A wait for a CPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The task.
    pub task: TaskId,
    /// The name of the task.
    pub name: String,
    /// When it began, on the host's clock, in nanoseconds.
    pub began_ns: u64,
    /// When the task got a CPU, or when observation ended.
    pub ended_ns: u64,
    /// Whether it got a CPU then.
    pub is_over: bool,
    /// The CPU that it last waited for.
    pub cpu: CpuId,
    /// The cause of the wait.
    pub began: Began,
    /// The holders of the CPU, in the order of their first turn. They sum to the wait.
    pub parts: Vec<Part>,
}

impl Wait {
    /// Its length, in nanoseconds.
    pub fn ns(&self) -> u64 {
        self.ended_ns - self.began_ns
    }
}

/// The cause of a wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Began {
    /// The task was preempted, or yielded.
    Preempted,
    /// A task woke it.
    WokenBy {
        /// The task.
        task: TaskId,
        /// Its name; empty if unknown.
        name: String,
    },
    /// Something else woke it.
    Woken(Waker),
    /// The cause was not seen.
    Unseen,
}

/// A part of a wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The CPU that the task waited for.
    pub cpu: CpuId,
    /// The holder.
    pub holder: Holder,
    /// Its time, in nanoseconds.
    pub ns: u64,
    /// The number of its turns.
    pub turns: u64,
}

/// The holder of a CPU that a task waited for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Holder {
    /// A task.
    Task {
        /// The task.
        task: TaskId,
        /// Its name; empty if unknown.
        name: String,
        /// Its tenant. `None` if unknown.
        tenant: Option<TenantId>,
    },
    /// Nobody: the CPU was idle, and the task was just waking up.
    Idle,
    /// The task's own CPU budget was used up.
    Budget,
    /// Several holders with less time than the separate ones.
    Others {
        /// How many.
        holders: u64,
    },
    /// The holder is unknown.
    Unknown,
}

/// The holder of a CPU, from a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Who {
    Task(TaskId),
    Idle,
    Budget,
    Unknown,
}

impl From<Option<TaskId>> for Who {
    fn from(task: Option<TaskId>) -> Who {
        task.map_or(Who::Idle, Who::Task)
    }
}

/// A task whose wait may go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Open {
    /// The task.
    pub task: TaskId,
    /// The CPU that it waits for.
    pub cpu: CpuId,
    /// The start of the wait, on the host's clock, in nanoseconds.
    pub began_ns: u64,
}

/// The past of a task that may explain its next wait.
#[derive(Clone, Debug, Default)]
struct Before {
    preempted_ns: Option<u64>,
    woken: Option<(u64, Option<Waker>)>,
    /// When it left the run queue of which CPU.
    moves: VecDeque<(u64, CpuId)>,
    /// When a budget was used up, and for how long.
    throttled: VecDeque<(u64, u64)>,
}

/// Keeps the longest waits of a tenant's tasks, or of all tasks.
#[derive(Clone, Debug)]
pub struct Longest {
    most: usize,
    whose: Option<TenantId>,
    start_ns: u64,
    turns: BTreeMap<CpuId, VecDeque<(u64, Who)>>,
    before: BTreeMap<TaskId, Before>,
    tasks: BTreeMap<TaskId, TraceTask>,
    young: Vec<TraceEvent>,
    /// The longest first.
    found: Vec<Wait>,
}

impl Longest {
    /// Keeps `most` waits, of this tenant's tasks or of all. A wait that began before `start_ns` counts from there.
    pub fn new(most: usize, whose: Option<TenantId>, start_ns: u64) -> Longest {
        Longest {
            most,
            whose,
            start_ns,
            turns: BTreeMap::new(),
            before: BTreeMap::new(),
            tasks: BTreeMap::new(),
            young: Vec::new(),
            found: Vec::new(),
        }
    }

    /// The least length of a wait that would be kept now.
    pub fn least_ns(&self) -> u64 {
        match self.most {
            0 => u64::MAX,
            most => self.found.get(most - 1).map_or(0, Wait::ns),
        }
    }

    /// Reads the trace since the last call. Events after `settled_ns` wait until the next call, since an older one may still come.
    pub fn push(&mut self, trace: &Trace, settled_ns: u64) {
        self.tasks.extend(trace.tasks.iter().map(|(id, task)| (*id, task.clone())));
        self.young.extend_from_slice(&trace.events);
        self.young.sort_by_key(|e| (e.t_ns, e.cpu));
        let later = self.young.split_off(self.young.partition_point(|e| e.t_ns < settled_ns));
        for event in std::mem::replace(&mut self.young, later) {
            self.read(event);
        }
    }

    fn read(&mut self, TraceEvent { t_ns, cpu, kind }: TraceEvent) {
        match kind {
            TraceKind::Switch { prev, left, next } => {
                self.turn(t_ns, cpu, prev.into(), next.into());
                match (prev, left) {
                    (Some(task), Left::Runnable) => self.of(task).preempted_ns = Some(t_ns),
                    (Some(task), Left::Ended) => {
                        self.before.remove(&task);
                    }
                    _ => {}
                }
            }
            TraceKind::Wakeup { task, waker } => self.of(task).woken = Some((t_ns, waker)),
            TraceKind::Moved { task, from } => mark(&mut self.of(task).moves, (t_ns, from)),
            TraceKind::Throttled { task, ns } => mark(&mut self.of(task).throttled, (t_ns, ns)),
            TraceKind::Waited { task, ns } => {
                self.consider(task, cpu, t_ns.saturating_sub(ns), t_ns, true);
                let before = self.of(task);
                before.moves.clear();
                before.throttled.clear();
            }
        }
    }

    fn of(&mut self, task: TaskId) -> &mut Before {
        self.before.entry(task).or_default()
    }

    /// Notes that `next` has a CPU from now on, and `prev` had it until now.
    fn turn(&mut self, t_ns: u64, cpu: CpuId, prev: Who, next: Who) {
        let turns = self.turns.entry(cpu).or_default();
        match turns.back_mut() {
            None => turns.push_back((0, prev)),
            // The start of its turn was not reported.
            Some((_, who)) if *who != prev => *who = Who::Unknown,
            Some(_) => {}
        }
        turns.push_back((t_ns, next));
        if turns.len() > MOST_TURNS {
            turns.pop_front();
        }
    }

    /// Keeps a wait if it is among the longest.
    fn consider(&mut self, task: TaskId, cpu: CpuId, began_ns: u64, ended_ns: u64, is_over: bool) {
        let began_ns = began_ns.max(self.start_ns);
        let known = self.tasks.get(&task);
        let is_meant = self.whose.is_none_or(|tenant| known.is_some_and(|task| task.tenant == tenant));
        if !is_meant || ended_ns <= began_ns || ended_ns - began_ns <= self.least_ns() || self.most == 0 {
            return;
        }
        let before = self.before.get(&task).cloned().unwrap_or_default();
        let wait = Wait {
            task,
            name: known.map_or_else(String::new, |task| task.name.clone()),
            began_ns,
            ended_ns,
            is_over,
            cpu,
            began: self.how(&before, began_ns),
            parts: self.parts(&before, cpu, began_ns, ended_ns),
        };
        let at = self.found.partition_point(|other| other.ns() >= wait.ns());
        self.found.insert(at, wait);
        self.found.truncate(self.most);
    }

    /// The cause of a wait: the last event before it.
    fn how(&self, before: &Before, began_ns: u64) -> Began {
        match (before.preempted_ns, before.woken) {
            (Some(t_ns), woken) if woken.is_none_or(|(woken_ns, _)| woken_ns < t_ns) => match t_ns {
                t_ns if t_ns == began_ns || began_ns == self.start_ns => Began::Preempted,
                _ => Began::Unseen,
            },
            (_, Some((_, Some(Waker::Task(task))))) => Began::WokenBy { task, name: self.name(task) },
            (_, Some((_, Some(other)))) => Began::Woken(other),
            _ => Began::Unseen,
        }
    }

    fn name(&self, task: TaskId) -> String {
        self.tasks.get(&task).map_or_else(String::new, |task| task.name.clone())
    }

    /// The holders of the CPUs that a task waited for, one after the other.
    fn parts(&self, before: &Before, cpu: CpuId, began_ns: u64, ended_ns: u64) -> Vec<Part> {
        let mut pieces: Vec<(CpuId, Who, u64)> = Vec::new();
        let mut since_ns = began_ns;
        let moves = before.moves.iter().filter(|(t_ns, _)| (began_ns..ended_ns).contains(t_ns));
        for (until_ns, on) in moves.copied().chain([(ended_ns, cpu)]) {
            self.pieces(before, on, since_ns, until_ns, &mut pieces);
            since_ns = until_ns;
        }
        // In the order of the first turn.
        let mut parts: Vec<(CpuId, Who, u64, u64)> = Vec::new();
        let mut last = None;
        for (cpu, who, ns) in pieces {
            let goes_on = last == Some((cpu, who));
            match parts.iter_mut().find(|part| (part.0, part.1) == (cpu, who)) {
                Some(part) => {
                    part.2 += ns;
                    part.3 += u64::from(!goes_on);
                }
                None => parts.push((cpu, who, ns, 1)),
            }
            last = Some((cpu, who));
        }
        self.shortlist(parts, cpu)
    }

    /// Keeps the most important holders separate, and joins the others.
    fn shortlist(&self, mut parts: Vec<(CpuId, Who, u64, u64)>, cpu: CpuId) -> Vec<Part> {
        let mut others = None;
        if parts.len() > MOST_HOLDERS {
            let mut by_time: Vec<u64> = parts.iter().map(|part| part.2).collect();
            by_time.sort_unstable();
            let least_ns = by_time[by_time.len() - (MOST_HOLDERS - 1)];
            let mut kept = 0;
            let (first, rest): (Vec<_>, Vec<_>) = parts.into_iter().partition(|part| {
                kept += usize::from(part.2 >= least_ns);
                part.2 >= least_ns && kept < MOST_HOLDERS
            });
            parts = first;
            others = Some(Part {
                cpu,
                holder: Holder::Others { holders: rest.len() as u64 },
                ns: rest.iter().map(|part| part.2).sum(),
                turns: rest.iter().map(|part| part.3).sum(),
            });
        }
        let part = |(cpu, who, ns, turns)| Part { cpu, holder: self.holder(who), ns, turns };
        parts.into_iter().map(part).chain(others).collect()
    }

    fn holder(&self, who: Who) -> Holder {
        match who {
            Who::Idle => Holder::Idle,
            Who::Budget => Holder::Budget,
            Who::Unknown => Holder::Unknown,
            Who::Task(task) => Holder::Task {
                task,
                name: self.name(task),
                tenant: self.tasks.get(&task).map(|task| task.tenant),
            },
        }
    }

    /// Adds `[from_ns, to_ns)`, spent waiting for `cpu`: the parts due to budgets, and the holders in the rest.
    fn pieces(
        &self,
        before: &Before,
        cpu: CpuId,
        from_ns: u64,
        to_ns: u64,
        into: &mut Vec<(CpuId, Who, u64)>,
    ) {
        let mut since_ns = from_ns;
        for (t_ns, ns) in &before.throttled {
            let (begin_ns, end_ns) = ((*t_ns).max(since_ns), t_ns.saturating_add(*ns).min(to_ns));
            if begin_ns < end_ns {
                self.occupants(cpu, since_ns, begin_ns, into);
                into.push((cpu, Who::Budget, end_ns - begin_ns));
                since_ns = end_ns;
            }
        }
        self.occupants(cpu, since_ns, to_ns, into);
    }

    /// Adds the holders of `cpu` in `[from_ns, to_ns)`.
    fn occupants(&self, cpu: CpuId, from_ns: u64, to_ns: u64, into: &mut Vec<(CpuId, Who, u64)>) {
        if from_ns >= to_ns {
            return;
        }
        let none = VecDeque::new();
        let turns = self.turns.get(&cpu).unwrap_or(&none);
        let mut at = turns.partition_point(|(t_ns, _)| *t_ns <= from_ns);
        let mut since_ns = from_ns;
        while since_ns < to_ns {
            let who = at.checked_sub(1).map_or(Who::Unknown, |before| turns[before].1);
            let until_ns = turns.get(at).map_or(to_ns, |(t_ns, _)| (*t_ns).min(to_ns));
            into.push((cpu, who, until_ns - since_ns));
            since_ns = until_ns;
            at += 1;
        }
    }

    /// The longest waits, the longest first. Waits that may still go on count until `end_ns`.
    pub fn finish(mut self, end_ns: u64, open: &[Open]) -> Vec<Wait> {
        let (events, later): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.young).into_iter().partition(|e| e.t_ns < end_ns);
        events.into_iter().for_each(|event| self.read(event));
        let mut going_on: BTreeMap<TaskId, Open> = open.iter().map(|open| (open.task, *open)).collect();
        for event in later {
            if let TraceKind::Waited { task, ns } = event.kind {
                // The first event after the end shows the wait that reached over the end.
                let began_ns = event.t_ns.saturating_sub(ns);
                let moved = self.before.get(&task).and_then(|b| b.moves.iter().find(|(t, _)| *t >= end_ns));
                let cpu = moved.map_or(event.cpu, |(_, from)| *from);
                if began_ns < end_ns {
                    going_on.insert(task, Open { task, cpu, began_ns });
                }
            }
        }
        for Open { task, cpu, began_ns } in going_on.into_values() {
            self.consider(task, cpu, began_ns, end_ns, false);
        }
        self.found
    }
}

/// Keeps the newest marks.
fn mark<T>(marks: &mut VecDeque<T>, mark: T) {
    if marks.len() == MOST_MARKS {
        marks.pop_front();
    }
    marks.push_back(mark);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ME: TaskId = TaskId(7);
    const HOG: TaskId = TaskId(8);
    const OTHER: TaskId = TaskId(9);

    fn event(t_ns: u64, cpu: u32, kind: TraceKind) -> TraceEvent {
        TraceEvent { t_ns, cpu: CpuId(cpu), kind }
    }

    fn switch(t_ns: u64, cpu: u32, prev: Option<TaskId>, left: Left, next: Option<TaskId>) -> TraceEvent {
        event(t_ns, cpu, TraceKind::Switch { prev, left, next })
    }

    fn waited(t_ns: u64, cpu: u32, ns: u64) -> TraceEvent {
        event(t_ns, cpu, TraceKind::Waited { task: ME, ns })
    }

    fn trace(events: Vec<TraceEvent>) -> Trace {
        let task = |id: TaskId, name: &str, tenant| {
            (id, TraceTask { name: name.into(), process: id.0, tenant: TenantId(tenant) })
        };
        let tasks = [task(ME, "me", 0), task(HOG, "hog", 1), task(OTHER, "other", 2)];
        Trace { events, tasks: tasks.into_iter().collect(), lost: 0 }
    }

    fn longest(events: Vec<TraceEvent>) -> Vec<Wait> {
        let mut longest = Longest::new(3, Some(TenantId(0)), 0);
        longest.push(&trace(events), u64::MAX);
        longest.finish(u64::MAX, &[])
    }

    fn told(wait: &Wait) -> Vec<(u32, &str, u64, u64)> {
        let who = |holder: &Holder| match holder {
            Holder::Task { task, .. } if *task == HOG => "hog",
            Holder::Task { task, .. } if *task == OTHER => "other",
            Holder::Task { .. } => "me",
            Holder::Idle => "idle",
            Holder::Budget => "budget",
            Holder::Others { .. } => "others",
            Holder::Unknown => "unknown",
        };
        wait.parts.iter().map(|p| (p.cpu.0, who(&p.holder), p.ns, p.turns)).collect()
    }

    #[test]
    fn a_wait_is_split_where_the_holder_changed_and_names_the_preempting_task() {
        let waits = longest(vec![
            switch(100, 0, Some(ME), Left::Runnable, Some(HOG)),
            switch(160, 0, Some(HOG), Left::Runnable, Some(OTHER)),
            switch(180, 0, Some(OTHER), Left::Blocked, Some(HOG)),
            switch(200, 0, Some(HOG), Left::Runnable, Some(ME)),
            waited(200, 0, 100),
        ]);
        assert_eq!(told(&waits[0]), [(0, "hog", 80, 2), (0, "other", 20, 1)]);
        assert_eq!((waits[0].ns(), &waits[0].began, waits[0].is_over), (100, &Began::Preempted, true));
    }

    #[test]
    fn a_wait_goes_with_its_task_from_one_cpu_to_the_other() {
        let waits = longest(vec![
            switch(10, 0, None, Left::Runnable, Some(HOG)),
            switch(10, 1, None, Left::Runnable, Some(OTHER)),
            event(90, 1, TraceKind::Wakeup { task: ME, waker: Some(Waker::Task(OTHER)) }),
            event(150, 1, TraceKind::Moved { task: ME, from: CpuId(0) }),
            switch(180, 1, Some(OTHER), Left::Blocked, None),
            switch(190, 1, None, Left::Runnable, Some(ME)),
            waited(190, 1, 90),
        ]);
        assert_eq!(told(&waits[0]), [(0, "hog", 50, 1), (1, "other", 30, 1), (1, "idle", 10, 1)]);
        assert_eq!(waits[0].began, Began::WokenBy { task: OTHER, name: "other".into() });
    }

    #[test]
    fn a_budgets_part_of_a_wait_is_nobodys_and_an_unseen_part_is_unknown() {
        let waits = longest(vec![
            event(100, 0, TraceKind::Wakeup { task: ME, waker: Some(Waker::Interrupt) }),
            event(100, 0, TraceKind::Throttled { task: ME, ns: 40 }),
            switch(170, 0, Some(HOG), Left::Runnable, Some(OTHER)),
            // The start of the next turn was not reported.
            switch(190, 0, Some(HOG), Left::Runnable, Some(ME)),
            waited(190, 0, 90),
        ]);
        assert_eq!(told(&waits[0]), [(0, "budget", 40, 1), (0, "hog", 30, 1), (0, "unknown", 20, 1)]);
        assert_eq!(waits[0].began, Began::Woken(Waker::Interrupt));
    }

    #[test]
    fn only_the_longest_are_kept_longest_first_and_of_the_tenant_alone() {
        let mut events: Vec<TraceEvent> = (1..=9).map(|n| waited(n * 1_000, 0, n * 10)).collect();
        events.push(event(10_000, 0, TraceKind::Waited { task: HOG, ns: 500 }));
        let mut longest = Longest::new(3, Some(TenantId(0)), 0);
        assert_eq!(longest.least_ns(), 0);
        longest.push(&trace(events), u64::MAX);
        assert_eq!(longest.least_ns(), 70);
        let waits = longest.finish(u64::MAX, &[]);
        assert_eq!(waits.iter().map(Wait::ns).collect::<Vec<_>>(), [90, 80, 70]);
    }

    #[test]
    fn a_wait_that_goes_on_at_the_end_counts_until_then() {
        let mut longest = Longest::new(3, Some(TenantId(0)), 0);
        let events = vec![switch(100, 0, Some(ME), Left::Runnable, Some(HOG)), waited(900, 0, 800)];
        longest.push(&trace(events), 400);
        let open = Open { task: ME, cpu: CpuId(0), began_ns: 100 };
        let waits = longest.finish(500, &[open]);
        assert_eq!(waits.len(), 1, "it is told once");
        assert_eq!(
            (waits[0].ns(), waits[0].is_over, told(&waits[0])),
            (400, false, vec![(0, "hog", 400, 1)])
        );
    }

    #[test]
    fn a_crowd_of_holders_is_joined_and_nothing_is_lost() {
        let mut events = vec![switch(0, 0, Some(ME), Left::Runnable, Some(TaskId(100)))];
        let mut t_ns = 0;
        for n in 0..200 {
            t_ns += 10 + u64::from(n);
            events.push(switch(t_ns, 0, Some(TaskId(100 + n)), Left::Runnable, Some(TaskId(101 + n))));
        }
        events.push(waited(t_ns, 0, t_ns));
        let waits = longest(events);
        assert_eq!(waits[0].parts.len(), MOST_HOLDERS);
        assert_eq!(waits[0].parts.iter().map(|p| p.ns).sum::<u64>(), t_ns);
        assert_eq!(waits[0].parts.last().unwrap().holder, Holder::Others { holders: 169 });
    }

    proptest! {
        #[test]
        fn parts_sum_to_the_wait_whatever_was_traced(steps in proptest::collection::vec((0u64..50, 0u32..3, 0u32..5, 0u32..5, 0u8..5, 0u64..200), 0..80)) {
            let mut t_ns = 0;
            let some = |n: u32| (n > 0).then_some(TaskId(6 + n));
            let events: Vec<TraceEvent> = steps.iter().map(|&(step, cpu, a, b, kind, ns)| {
                t_ns += step;
                let task = TaskId(6 + a.max(1));
                event(t_ns, cpu, match kind {
                    0 => TraceKind::Switch { prev: some(a), left: Left::Runnable, next: some(b) },
                    1 => TraceKind::Waited { task, ns },
                    2 => TraceKind::Moved { task, from: CpuId(b) },
                    3 => TraceKind::Throttled { task, ns },
                    _ => TraceKind::Wakeup { task, waker: None },
                })
            }).collect();
            let mut longest = Longest::new(100, None, 0);
            let (first, second) = events.split_at(events.len() / 2);
            longest.push(&trace(first.to_vec()), t_ns / 2);
            longest.push(&trace(second.to_vec()), t_ns);
            for wait in longest.finish(t_ns, &[Open { task: ME, cpu: CpuId(0), began_ns: t_ns / 3 }]) {
                prop_assert_eq!(wait.parts.iter().map(|p| p.ns).sum::<u64>(), wait.ns());
            }
        }
    }
}
