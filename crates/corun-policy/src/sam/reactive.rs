//! SAM without its additions: each task by itself, step by step.
//!
//! What is public of SAM (Srikanthan, Dwarkadas, Shen, "Data Sharing or Resource Contention", ATC 2015) and was read for this: its abstract
//! and introduction, and ATC'16 §2, §4.1, §5.2 and §5.3. They say that it goes interval by interval, looks at each task, keeps tasks of high
//! activity within a socket where they are, consolidates those of high activity between sockets, spreads those that want cache
//! and memory bandwidth, and puts these where their memory is. How many move in an interval, and who changes places with
//! whom, they do not say: that is ours.
//!
//! It knows nothing of applications. Tasks that fetch lines from other sockets are moved to the socket where most of such tasks
//! are, as long as it has free contexts: so two applications that share data meet on one socket although there are two.
//! Where all contexts are taken, the tasks that fetch most from other sockets change places, one from each of two sockets:
//! those are in the minority where they are, and whom they miss is elsewhere, if it works out. Tasks that are bound by
//! memory go from the socket that has most of them to the one that has fewest, those first that are away from their memory; and
//! one that is away goes where its memory is, where that leaves no socket with more. At most a quarter of the tasks move in an
//! epoch; cores and contexts are not told apart.

use super::application::Thresholds;
use super::memory::Memory;
use super::Running;
use corun_model::{Machine, TaskId};
use std::collections::{BTreeMap, VecDeque};

/// One part of the tasks in so many moves in an epoch.
const MOVED_PART: usize = 4;

struct Assignment<'a> {
    machine: &'a Machine,
    /// By task, its context.
    at: Vec<usize>,
    /// By context, how many hold it.
    holders: Vec<usize>,
    /// Contexts that nobody holds.
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

/// Maps the tasks, which come in the order of their ids; `shares` are those that share data.
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
    // How many of them are on each socket.
    let mut sharing: BTreeMap<u32, usize> = sockets.iter().map(|&s| (s, 0)).collect();
    let those: Vec<usize> = (0..tasks.len()).filter(|&i| shares(&tasks[i])).collect();
    those.iter().for_each(|&i| *sharing.get_mut(&assignment.socket(i)).expect("it is listed") += 1);
    // Of each socket, who fetches most from elsewhere, first; each with its place among all.
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

/// Takes the task that fetches most from elsewhere, of those on some sockets; with its socket.
fn first(
    far: &mut BTreeMap<u32, VecDeque<(usize, usize)>>,
    on: impl Fn(u32) -> bool,
) -> Option<(u32, usize)> {
    let heads = far.iter_mut().filter(|(s, _)| on(**s)).filter(|(_, queue)| !queue.is_empty());
    let (socket, queue) = heads.min_by_key(|(_, queue)| queue[0].0)?;
    queue.pop_front().map(|(_, task)| (*socket, task))
}

/// Everybody on the context he is on; who shares one with another goes to a free one, near if there is one.
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
        // Where none is free, all have equally many more.
        let i = near.or_else(|| (assignment.free > 0).then(anywhere)?).unwrap_or(next % n);
        next += usize::from(assignment.holders[i] > 0);
        assignment.take(task, i);
    }
    assignment
}

/// Tasks that are bound by memory go from where most of them are to where fewest are, where two more are than there; then, to where
/// their memory is.
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
        // Who is away from his memory has least to lose, above all where it is there.
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
