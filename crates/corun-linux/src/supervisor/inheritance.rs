//! What a new task has of others: the slice, policy, nice value and CPUs of the task that made it.
//!
//! A task that is born to one that was changed has what that one was given, and is asked the same two questions about:
//! what is it to get back in the end, and, should it be changed itself, what was it before? Nobody says who made a task.
//! So whatever was changed of its process, of its parent or of its process group, in this order, and shows in it, it
//! inherited; and what it had before is what they had.
//!
//! Limits: a descendant that has left its process group and whose parent has ended can't be told from a stranger, unless it
//! was changed itself before. Whoever chooses by itself exactly what its relatives were given is taken to have inherited it.

use super::undo::{Aspect, Task, Undo};
use std::collections::{BTreeMap, BTreeSet};

/// What was changed of whose relatives.
#[derive(Debug, Default)]
pub struct Inheritance {
    since_ns: u64,
    /// Of the tasks of a process, and of a group, each change once. Nobody is 0.
    of_process: BTreeMap<u32, Vec<Aspect>>,
    of_group: BTreeMap<u32, Vec<Aspect>>,
    /// By TID, start and kind of change: of whom it is known what it had.
    known: BTreeSet<(u32, u64, &'static str)>,
}

impl Inheritance {
    /// What can be inherited of these changes by tasks born at `since_ns` after boot or later.
    pub fn new<'a>(since_ns: u64, changes: impl IntoIterator<Item = &'a Undo>) -> Inheritance {
        let mut all = Inheritance { since_ns, ..Inheritance::default() };
        changes.into_iter().for_each(|undo| all.add(undo));
        all
    }

    /// What is older inherited nothing.
    pub fn since_ns(&self) -> u64 {
        self.since_ns
    }

    /// Whether nothing was changed that can be inherited.
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// Takes a change in.
    pub fn add(&mut self, undo: &Undo) {
        let Undo::Task(task, aspect) = undo else { return };
        self.know(task, aspect.name());
        for (of, number) in [(&mut self.of_process, task.pid), (&mut self.of_group, task.pgid)] {
            // Groups of another PID namespace read 0 and are no groups here.
            if number != 0 {
                let changes = of.entry(number).or_default();
                if !changes.contains(aspect) {
                    changes.push(aspect.clone());
                }
            }
        }
    }

    /// From now on a task has by itself what it has of this kind.
    pub fn know(&mut self, task: &Task, kind: &'static str) {
        self.known.insert((task.tid, task.start_ns, kind));
    }

    /// What was changed of the relatives of a process, the nearest first.
    pub fn near(&self, pid: u32, ppid: u32, pgid: u32) -> Vec<&Aspect> {
        let relatives = [self.of_process.get(&pid), self.of_process.get(&ppid), self.of_group.get(&pgid)];
        let mut near = Vec::new();
        for aspect in relatives.into_iter().flatten().flatten() {
            if !near.contains(&aspect) {
                near.push(aspect);
            }
        }
        near
    }

    /// Whether a task may have inherited from its relatives what was changed of them.
    pub fn may_show(&self, task: &Task, aspect: &Aspect) -> bool {
        task.start_ns >= self.since_ns && !self.known.contains(&(task.tid, task.start_ns, aspect.name()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SINCE_NS: u64 = 100;

    fn task(tid: u32, start_ns: u64) -> Task {
        Task { tid, start_ns, pid: tid, pgid: 50 }
    }

    fn nice(was: i32) -> Aspect {
        Aspect::Nice { was, set: 19 }
    }

    fn inheritance() -> Inheritance {
        let changes = [(5, 0), (6, 1), (7, 2), (5, 0)].map(|(tid, was)| Undo::Task(task(tid, 1), nice(was)));
        Inheritance::new(SINCE_NS, &changes)
    }

    #[test]
    fn the_process_comes_before_the_parent_and_the_parent_before_the_group() {
        let all = inheritance();
        let of = |pid, ppid, pgid| all.near(pid, ppid, pgid).into_iter().cloned().collect::<Vec<_>>();
        assert_eq!(of(7, 6, 50), [nice(2), nice(1), nice(0)]);
        assert_eq!(of(8, 6, 51), [nice(1)]);
        assert_eq!(of(8, 9, 51), []);
    }

    #[test]
    fn nobody_is_a_relative_of_nobody() {
        let of_nobody = Undo::Task(Task { tid: 0, start_ns: 0, pid: 0, pgid: 0 }, nice(0));
        assert!(Inheritance::new(SINCE_NS, [&of_nobody]).near(1, 0, 0).is_empty());
    }

    #[test]
    fn who_is_older_or_was_changed_in_the_same_way_inherited_nothing() {
        let mut all = inheritance();
        assert!(all.may_show(&task(8, SINCE_NS), &nice(0)));
        assert!(!all.may_show(&task(8, SINCE_NS - 1), &nice(0)));
        all.add(&Undo::Task(task(8, SINCE_NS), nice(0)));
        assert!(!all.may_show(&task(8, SINCE_NS), &nice(1)));
        assert!(all.may_show(&task(8, SINCE_NS), &Aspect::Slice { was_ns: 0 }));
    }
}
