//! What a new task has from others: the slice, policy, nice value and CPUs of the task that made it.
//!
//! A task born to a changed one has the changed values. The same two questions arise for it: what should it
//! get back in the end, and, if it is changed itself, what did it have before? Nobody records which task made
//! it. So if a change of its process, its parent or its process group, in this order, shows in it, it
//! inherited that change. Its previous values are theirs.
//!
//! Limits: a descendant that has left its process group and whose parent has ended looks like a stranger,
//! unless it was changed itself before. A task that chooses exactly the values of its relatives counts as
//! having inherited them.

use super::undo::{Aspect, Task, Undo};
use std::collections::{BTreeMap, BTreeSet};

/// The changes, by the relatives that may have inherited them.
#[derive(Debug, Default)]
pub struct Inheritance {
    since_ns: u64,
    /// For the tasks of a process, and for a group, each change once. 0 stands for nobody.
    of_process: BTreeMap<u32, Vec<Aspect>>,
    of_group: BTreeMap<u32, Vec<Aspect>>,
    /// By TID, start and kind of change: the tasks whose previous values are known.
    known: BTreeSet<(u32, u64, &'static str)>,
}

impl Inheritance {
    /// What tasks can inherit from these changes if they were born `since_ns` after boot or later.
    pub fn new<'a>(since_ns: u64, changes: impl IntoIterator<Item = &'a Undo>) -> Inheritance {
        let mut all = Inheritance { since_ns, ..Inheritance::default() };
        changes.into_iter().for_each(|undo| all.add(undo));
        all
    }

    /// Older tasks inherited nothing.
    pub fn since_ns(&self) -> u64 {
        self.since_ns
    }

    /// Whether there is no change that can be inherited.
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// Takes a change in.
    pub fn add(&mut self, undo: &Undo) {
        let Undo::Task(task, aspect) = undo else { return };
        self.know(task, aspect.name());
        for (of, number) in [(&mut self.of_process, task.pid), (&mut self.of_group, task.pgid)] {
            // Groups of another PID namespace are 0 and count as no groups here.
            if number != 0 {
                let changes = of.entry(number).or_default();
                if !changes.contains(aspect) {
                    changes.push(aspect.clone());
                }
            }
        }
    }

    /// From now on a task's value of this kind is its own.
    pub fn know(&mut self, task: &Task, kind: &'static str) {
        self.known.insert((task.tid, task.start_ns, kind));
    }

    /// The changes of the relatives of a process, the nearest first.
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

    /// Whether a task may have inherited the changes of its relatives.
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
    fn a_task_that_is_older_or_was_changed_in_the_same_way_inherited_nothing() {
        let mut all = inheritance();
        assert!(all.may_show(&task(8, SINCE_NS), &nice(0)));
        assert!(!all.may_show(&task(8, SINCE_NS - 1), &nice(0)));
        all.add(&Undo::Task(task(8, SINCE_NS), nice(0)));
        assert!(!all.may_show(&task(8, SINCE_NS), &nice(1)));
        assert!(all.may_show(&task(8, SINCE_NS), &Aspect::Slice { was_ns: 0 }));
    }
}
