//! What is remembered of every task from the last edge, and who has kept still since.
//!
//! Most tasks of a machine sleep through a window. A record that no handler has written since it was read says so by its
//! `seq`: its task did all the time what it did at the last edge, and nothing has to be copied, subtracted or looked up to
//! know its share. Only a wait is looked into, since the occupants of the CPU changed meanwhile.

use super::accounts::{Share, Sums};
use corun_bpf::layout::{state, Ended, TaskBrief, TaskRec};
use std::collections::{BTreeMap, HashMap};

/// What is remembered of one task.
struct Base {
    /// Up to the edge.
    sums: Sums,
    group: u32,
    edge_ns: u64,
    /// The record's number when the sums were those in it and its open interval; `None` when they were others.
    seq: Option<u32>,
}

/// What is remembered of every task, by serial.
#[derive(Default)]
pub(super) struct Bases(HashMap<u32, Base>);

impl Bases {
    /// Of how many tasks.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether nothing has happened to a task since the last edge, and its share follows from that.
    pub(super) fn is_still(&self, task: &TaskBrief) -> bool {
        let seq = self.0.get(&task.serial).and_then(|base| base.seq);
        seq == Some(task.seq) && task.open_state() != state::WAIT
    }

    /// Carries the sums of a task that kept still on to this edge; its share of the window.
    pub(super) fn carry(&mut self, task: &TaskBrief, edge_ns: u64) -> Share {
        let Some(base) = self.0.get_mut(&task.serial) else { return Share::default() };
        let ns = edge_ns - base.edge_ns;
        base.sums.go_on(task.open_state(), ns);
        (base.edge_ns, base.group) = (edge_ns, task.group);
        Share::of_one_state(task.open_state(), ns)
    }

    /// Remembers a task's sums up to an edge.
    pub(super) fn set(&mut self, rec: &TaskRec, sums: Sums, edge_ns: u64) {
        let is_open = rec.edge_ns != edge_ns && rec.since_ns <= edge_ns;
        self.0.insert(rec.serial, Base { sums, group: rec.group, edge_ns, seq: is_open.then_some(rec.seq) });
    }

    /// A task's share: what its sums have more than those remembered.
    pub(super) fn since(&self, serial: u32, sums: &Sums) -> Share {
        match self.0.get(&serial) {
            Some(base) => sums.since(&base.sums),
            None => sums.since(&Sums::default()),
        }
    }

    /// Whether a task's sums up to this edge are remembered.
    pub(super) fn has(&self, serial: u32, edge_ns: u64) -> bool {
        self.0.get(&serial).is_some_and(|base| base.edge_ns == edge_ns)
    }

    /// Forgets a task whose end has been told.
    pub(super) fn remove(&mut self, serial: u32) {
        self.0.remove(&serial);
    }

    /// Forgets whoever was not there at this edge; the sums of those whose end nobody told (nor will, being `pending`),
    /// by group.
    pub(super) fn gone(&mut self, edge_ns: u64, pending: &[Ended]) -> BTreeMap<u32, Sums> {
        let mut gone: BTreeMap<u32, Sums> = BTreeMap::new();
        for (serial, base) in self.0.extract_if(|_, base| base.edge_ns != edge_ns) {
            if !pending.iter().any(|e| e.rec.serial == serial) {
                gone.entry(base.group).or_default().add(&base.sums);
            }
        }
        gone
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rec(state: usize, seq: u32, since_ns: u64) -> TaskRec {
        TaskRec { tid: 1, serial: 7, group: 9, state: state as u32, seq, since_ns, ..TaskRec::default() }
    }

    fn sums(rec: &TaskRec, edge_ns: u64) -> Sums {
        Sums::at(rec, edge_ns, |_, _| Vec::new())
    }

    /// What is remembered after an edge at 1,000 ns.
    fn after_an_edge(rec: &TaskRec) -> Bases {
        let mut bases = Bases::default();
        bases.set(rec, sums(rec, 1_000), 1_000);
        bases
    }

    #[test]
    fn who_kept_still_has_the_share_that_its_record_would_have_shown() {
        for state in [state::RUN, state::BLOCK_FUTEX, state::BLOCK_OTHER, state::UNKNOWN] {
            let rec = rec(state, 4, 300);
            let mut bases = after_an_edge(&rec);
            assert!(bases.is_still(&rec.brief()));
            let read = bases.since(7, &sums(&rec, 1_700));
            assert_eq!(bases.carry(&rec.brief(), 1_700), read);
            assert_eq!(bases.since(7, &sums(&rec, 1_700)), Share::of_one_state(state, 0), "the same sums");
        }
    }

    #[test]
    fn whom_a_handler_touched_or_who_waits_is_looked_into() {
        let sleeps = rec(state::BLOCK_POLL, 4, 300);
        assert!(!after_an_edge(&sleeps).is_still(&TaskRec { seq: 6, ..sleeps }.brief()), "an event came");
        assert!(!after_an_edge(&sleeps).is_still(&TaskRec { serial: 8, ..sleeps }.brief()), "another task");
        let waits = rec(state::WAIT, 4, 300);
        assert!(!after_an_edge(&waits).is_still(&waits.brief()));
        // Its sums at the edge were the copy made there: those in the record are of later.
        let late = TaskRec { edge_ns: 1_000, ..rec(state::RUN, 4, 1_100) };
        assert!(!after_an_edge(&late).is_still(&late.brief()));
    }

    #[test]
    fn who_is_not_there_any_more_is_gone_unless_its_end_is_pending() {
        let rec = rec(state::RUN, 4, 300);
        let ended = Ended { end_ns: 1_900, rec };
        assert_eq!(after_an_edge(&rec).gone(2_000, &[]).keys().copied().collect::<Vec<_>>(), [9]);
        assert!(after_an_edge(&rec).gone(2_000, &[ended]).is_empty());
        assert!(after_an_edge(&rec).gone(1_000, &[]).is_empty());
    }
}
