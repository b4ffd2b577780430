//! SAM without its additions: each task alone, step by step.
//!
//! This follows the public parts of SAM (Srikanthan, Dwarkadas, Shen, "Data Sharing or Resource Contention", ATC 2015) that were read:
//! its abstract and introduction, and ATC'16 §2, §4.1, §5.2 and §5.3. According to these it works in intervals and looks at each task.
//! It keeps tasks with high activity within a socket where they are. It consolidates those with high activity between sockets. It
//! spreads those that want cache and memory bandwidth, and puts these where their memory is. They do not say how many move in an
//! interval, and which change places. That is our choice.
//!
//! It knows no applications. Tasks that fetch lines from other sockets move to the socket where most such tasks are, as long as it has
//! free contexts. So two applications that share data meet on one socket even if there are two. If all contexts are taken, the tasks
//! that fetch most from other sockets change places, one from each of two sockets. Such tasks are in the minority on their socket, and
//! their partners are probably on the other. Tasks that are bound by memory go from the socket with most of them to the one with
//! fewest; those away from their memory go first. A task that is away goes to its memory if that leaves no socket with more. At most a
//! quarter of the tasks move in an epoch. Cores and contexts are not distinguished.

use super::application::Thresholds;
use super::memory::Memory;
use super::Running;
use corun_model::{Machine, TaskId};
use std::collections::{BTreeMap, VecDeque};

/// One task in `MOVED_PART` may move in an epoch.
const MOVED_PART: usize = 4;

struct Assignment<'a> {
    machine: &'a Machine,
    /// The context of each task.
    at: Vec<usize>,
    /// The number of tasks on each context.
    holders: Vec<usize>,
    /// The number of free contexts.
    free: usize,
}

impl Assignment<'_> {
    fn socket(&self, task: usize) -> u32 {
        self.machine.cpus()[self.at[task]].socket
    }

    fn free_on(&self, socket: u32) -> Option<usize> {
        let cpus = self.machine.cpus();
        (self.free > 0)
            .then(|| (0..cpus.len()).find(|&i| self.holders[i] == 0 && cpus[i].socket == socket))?
    }

    fn put(&mut self, task: usize, i: usize) {
        let left = self.at[task];
        self.holders[left] -= 1;
        self.free += usize::from(self.holders[left] == 0);
        self.take(task, i);
    }

    fn take(&mut self, task: usize, i: usize) {
        self.free -= usize::from(self.holders[i] == 0);
        self.holders[i] += 1;
        self.at[task] = i;
    }
}

/// Maps the tasks, which come in the order of their ids. `shares` are those that share data.
pub(super) fn map(
    machine: &Machine,
    tasks: &[Running],
    t: &Thresholds,
    memory: &Memory,
    shares: impl Fn(&Running) -> bool,
) -> Vec<(TaskId, usize)> {
    let mut assignment = assigned(machine, tasks);
    let sockets: Vec<u32> = {
        let mut all: Vec<u32> = machine.cpus().iter().map(|c| c.socket).collect();
        all.sort_unstable();
        all.dedup();
        all
    };
    // The number of such tasks on each socket.
    let mut sharing: BTreeMap<u32, usize> = sockets.iter().map(|&s| (s, 0)).collect();
    let those: Vec<usize> = (0..tasks.len()).filter(|&i| shares(&tasks[i])).collect();
    those.iter().for_each(|&i| *sharing.get_mut(&assignment.socket(i)).expect("it is listed") += 1);
    // For each socket, the tasks that fetch most from elsewhere, first; each with its index among all.
    let mut all: Vec<usize> = those.into_iter().filter(|&i| tasks[i].did.far() > t.moderate).collect();
    all.sort_by_key(|&i| (u64::MAX - tasks[i].did.far(), i));
    let mut far: BTreeMap<u32, VecDeque<(usize, usize)>> = BTreeMap::new();
    all.into_iter()
        .enumerate()
        .for_each(|(place, i)| far.entry(assignment.socket(i)).or_default().push_back((place, i)));
    for _ in 0..tasks.len().div_ceil(MOVED_PART) {
        let Some((home, task)) = first(&mut far, |_| true) else { break };
        let fullness = |s: u32| (sharing[&s], u32::MAX - s);
        let fuller = sockets.iter().copied().filter(|&s| fullness(s) > fullness(home));
        let goal = fuller.filter(|&s| assignment.free_on(s).is_some()).max_by_key(|&s| fullness(s));
        if let Some((goal, free)) = goal.and_then(|s| Some((s, assignment.free_on(s)?))) {
            assignment.put(task, free);
            *sharing.get_mut(&home).expect("it is listed") -= 1;
            *sharing.get_mut(&goal).expect("it is listed") += 1;
        } else if assignment.free_on(home).is_none() {
            let Some((_, other)) = first(&mut far, |s| s != home) else { continue };
            let (a, b) = (assignment.at[task], assignment.at[other]);
            assignment.put(task, b);
            assignment.put(other, a);
        }
    }
    spread_memory(&mut assignment, &sockets, tasks, t, memory);
    tasks.iter().zip(&assignment.at).map(|(task, &i)| (task.id, i)).collect()
}

/// Takes the task that fetches most from elsewhere, of those on some sockets. Returns it with its socket.
fn first(
    far: &mut BTreeMap<u32, VecDeque<(usize, usize)>>,
    on: impl Fn(u32) -> bool,
) -> Option<(u32, usize)> {
    let heads = far.iter_mut().filter(|(s, _)| on(**s)).filter(|(_, queue)| !queue.is_empty());
    let (socket, queue) = heads.min_by_key(|(_, queue)| queue[0].0)?;
    queue.pop_front().map(|(_, task)| (*socket, task))
}

/// Each task stays on its present context. Of two on one context, one goes to a free one, near if possible.
fn assigned<'a>(machine: &'a Machine, tasks: &[Running]) -> Assignment<'a> {
    let n = machine.cpu_count();
    let mut assignment =
        Assignment { machine, at: vec![usize::MAX; tasks.len()], holders: vec![0; n], free: n };
    for (task, running) in tasks.iter().enumerate() {
        if let Some(i) = running.at.filter(|&i| assignment.holders[i] == 0) {
            assignment.take(task, i);
        }
    }
    let mut next = 0;
    for (task, running) in tasks.iter().enumerate() {
        if assignment.at[task] != usize::MAX {
            continue;
        }
        let near = running.at.and_then(|i| assignment.free_on(machine.cpus()[i].socket));
        let anywhere = || assignment.holders.iter().position(|&h| h == 0);
        // If none is free, all contexts get the same number of additional tasks.
        let i = near.or_else(|| (assignment.free > 0).then(anywhere)?).unwrap_or(next % n);
        next += usize::from(assignment.holders[i] > 0);
        assignment.take(task, i);
    }
    assignment
}

/// Moves memory-bound tasks from the socket with most of them to the one with fewest, if the difference is at least two. Then moves
/// tasks to their memory.
fn spread_memory(
    assignment: &mut Assignment<'_>,
    sockets: &[u32],
    tasks: &[Running],
    t: &Thresholds,
    memory: &Memory,
) {
    let bound: Vec<usize> = (0..tasks.len()).filter(|&i| tasks[i].did.is_bound_by_memory(t)).collect();
    let most_moves = bound.len().div_ceil(MOVED_PART);
    for _ in 0..most_moves {
        let count = |s: u32| bound.iter().filter(|&&i| assignment.socket(i) == s).count();
        let Some(most) = sockets.iter().copied().max_by_key(|&s| (count(s), u32::MAX - s)) else { return };
        let roomy = sockets.iter().copied().filter(|&s| assignment.free_on(s).is_some());
        let Some(least) = roomy.min_by_key(|&s| (count(s), s)) else { return };
        if count(most) < count(least) + 2 {
            break;
        }
        // A task that is away from its memory has least to lose, most of all if its memory is there.
        let key = |&i: &usize| (memory.belongs(tasks[i].id) != Some(least), !memory.is_away(tasks[i].id), i);
        let there = bound.iter().copied().filter(|&i| assignment.socket(i) == most);
        let task = there.min_by_key(key).expect("it has most of them");
        let free = assignment.free_on(least).expect("it is roomy");
        assignment.put(task, free);
    }
    let away = bound.iter().copied().filter(|&i| memory.is_away(tasks[i].id));
    for task in away.take(most_moves) {
        let here = assignment.socket(task);
        let Some(home) = memory.belongs(tasks[task].id).filter(|&s| s != here) else { continue };
        let count = |s: u32| bound.iter().filter(|&&i| assignment.socket(i) == s).count();
        if let Some(free) = assignment.free_on(home).filter(|_| count(home) <= count(here)) {
            assignment.put(task, free);
        }
    }
}
