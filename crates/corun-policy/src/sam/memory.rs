//! Finds where the memory of memory-bound tasks is. ATC'16 §2 says of SAM: "collocating them with the memory they access".
//!
//! No event shows on which node a task's memory is, only the part that came from another node than the one it runs on. So that part is
//! remembered for every socket on which a task was seen. A task with more than half of its lines from elsewhere is away. It belongs on
//! a socket that it was not seen on yet. Once it was on all, it belongs where the part was least. A task that is not away belongs where
//! it is. So a task goes round the sockets at most once, and memory on all nodes does not move a task for long.
//!
//! Limit: if the memory moves, or the task uses other memory, that is noticed only on the task's present socket.

use super::application::Thresholds;
use super::Running;
use corun_model::{Machine, TaskId};
use std::collections::BTreeMap;

/// A difference below this is no reason to move, in percent of all lines.
const MARGIN: u64 = 10;

/// What is known of one task.
#[derive(Clone, Debug, Default)]
struct Known {
    /// For each socket, the part of its lines that came from another node, in percent.
    remote: BTreeMap<u32, u64>,
    belongs: Option<u32>,
    away: bool,
}

/// What is known of all tasks.
#[derive(Clone, Debug, Default)]
pub(super) struct Memory {
    tasks: BTreeMap<TaskId, Known>,
}

impl Memory {
    /// Takes in an epoch, and forgets tasks that did not run in it.
    pub fn note(&mut self, machine: &Machine, running: &[Running], t: &Thresholds) {
        let mut sockets: Vec<u32> = machine.cpus().iter().map(|c| c.socket).collect();
        sockets.sort_unstable();
        sockets.dedup();
        let mut old = std::mem::take(&mut self.tasks);
        for task in running {
            let mut known = old.remove(&task.id).unwrap_or_default();
            let here = task.at.map(|i| machine.cpus()[i].socket);
            let part = task.did.remote_percent().filter(|_| task.did.is_bound_by_memory(t));
            if let (Some(here), Some(part)) = (here, part) {
                known.see(here, part, &sockets, t.remote);
            }
            self.tasks.insert(task.id, known);
        }
    }

    /// The socket on which a task belongs. `None` if unknown.
    pub fn belongs(&self, task: TaskId) -> Option<u32> {
        self.tasks.get(&task)?.belongs
    }

    /// Whether it is away from its memory.
    pub fn is_away(&self, task: TaskId) -> bool {
        self.tasks.get(&task).is_some_and(|known| known.away)
    }

    /// The socket of every known task.
    pub fn all(&self) -> BTreeMap<TaskId, u32> {
        self.tasks.iter().filter_map(|(&id, known)| Some((id, known.belongs?))).collect()
    }
}

impl Known {
    fn see(&mut self, here: u32, part: u64, sockets: &[u32], away_from: u64) {
        self.remote.insert(here, part);
        (self.away, self.belongs) = (false, Some(here));
        if part <= away_from {
            return;
        }
        // Go round from here, so that not all tasks try the same socket first.
        let after = sockets.iter().position(|&s| s == here).map_or(0, |i| i + 1);
        let others = sockets[after..].iter().chain(&sockets[..after]).copied().filter(|&s| s != here);
        let goal = others.min_by_key(|s| self.remote.get(s).copied().unwrap_or(0));
        let goal = goal.filter(|s| self.remote.get(s).copied().unwrap_or(0) + MARGIN <= part);
        if goal.is_some() {
            (self.away, self.belongs) = (true, goal);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The socket on which a task ends that starts on `begin` and always goes where it belongs, with these parts by socket; and how
    /// often it moved.
    fn ends(remote: [u64; 4], begin: u32) -> (u32, usize) {
        let (mut known, mut at, mut went) = (Known::default(), begin, 0);
        for _ in 0..20 {
            known.see(at, remote[at as usize], &[0, 1, 2, 3], 50);
            let goal = known.belongs.unwrap();
            assert_eq!(known.away, goal != at);
            went += usize::from(goal != at);
            at = goal;
        }
        (at, went)
    }

    #[test]
    fn a_task_goes_round_until_it_is_at_its_memory() {
        assert_eq!(ends([100, 100, 0, 100], 0), (2, 2));
        assert_eq!(ends([100, 100, 0, 100], 2), (2, 0));
        assert_eq!(ends([0, 100, 100, 100], 1), (0, 3));
    }

    #[test]
    fn memory_on_all_nodes_moves_no_task_for_long() {
        assert_eq!(ends([75, 75, 75, 75], 0), (3, 3));
        // If one node has more of the memory, that node.
        assert_eq!(ends([90, 60, 75, 75], 0).0, 1);
    }
}
