//! The state of every task at the last edge, and which tasks have had no event since.
//!
//! Most tasks of a machine sleep through a window. The `seq` of a record shows whether a handler has written
//! to it since the last reading. If not, its task stayed in the same state all the time. Its share is known
//! without copying, subtracting or looking up anything. Only waits are examined, since the occupants of the
//! CPU changed meanwhile, and a quota may have been refilled.

use super::accounts::{Share, Sums};
use corun_bpf::layout::{comm, state, Ended, TaskBrief, TaskRec};
use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

/// The remembered state of one task.
struct Base {
    /// The record's number if the sums were those in it and its open interval; `None` if they were others.
    seq: Option<u32>,
    group: u32,
    /// The last edge at which it existed.
    edge_ns: u64,
    /// Up to an earlier edge; since then the task has been in one state.
    sums: Box<Sums>,
    sums_edge_ns: u64,
    /// How much of these sums was reported in what is now known to be the wrong category.
    owed_ns: u64,
    state: usize,
    name: Arc<str>,
    comm: [u8; 16],
}

impl Base {
    /// The sums up to the last edge.
    fn sums(&self) -> Sums {
        let mut sums = (*self.sums).clone();
        sums.go_on(self.state, self.edge_ns - self.sums_edge_ns);
        sums
    }
}

/// The part of a task's sums that was reported in what is now known to be the wrong category.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Owed {
    /// Whether there is anything.
    pub(super) is_any: bool,
    /// Told in another category, in nanoseconds.
    pub(super) moved_ns: u64,
}

/// A task that has been in one state since the last edge.
pub(super) struct UnchangedTask {
    /// What: a [`state`].
    pub(super) state: usize,
    /// For how long.
    pub(super) ns: u64,
    /// Its name.
    pub(super) name: Arc<str>,
}

/// The remembered state of every task, by serial.
#[derive(Default)]
pub(super) struct Bases(HashMap<u32, Base, BuildHasherDefault<InOrder>>);

/// Serials are given in order, and this keeps them in order: the next look-up is nearby.
#[derive(Default)]
struct InOrder(u64);

impl Hasher for InOrder {
    fn write(&mut self, _: &[u8]) {
        unreachable!("serials are u32");
    }

    fn write_u32(&mut self, serial: u32) {
        // The table picks places by the low bits, and distinguishes those in one place by the highest seven.
        self.0 = u64::from(serial) | u64::from(serial) << 57;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

impl Bases {
    /// Of how many tasks.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// The activity of a task from the last edge to this one, if it had no event.
    pub(super) fn carry(&mut self, task: &TaskBrief, edge_ns: u64) -> Option<UnchangedTask> {
        let base = self.0.get_mut(&task.serial)?;
        let state = task.open_state();
        if base.seq != Some(task.seq) || state::is_waiting(state) {
            return None;
        }
        let ns = edge_ns - base.edge_ns;
        if base.comm != task.comm {
            (base.comm, base.name) = (task.comm, comm(&task.comm).into());
        }
        (base.state, base.edge_ns, base.group) = (state, edge_ns, task.group);
        Some(UnchangedTask { state, ns, name: base.name.clone() })
    }

    /// Remembers a task's sums up to an edge, and which part of them was reported wrongly.
    pub(super) fn set(&mut self, rec: &TaskRec, sums: Sums, edge_ns: u64, owed: Owed) {
        let sums = match self.0.get(&rec.serial).filter(|_| owed.is_any) {
            Some(base) => sums.as_told(&base.sums()),
            None => sums,
        };
        let is_open = rec.edge_ns != edge_ns && rec.since_ns <= edge_ns;
        let name = self.name(rec);
        let base = Base {
            seq: is_open.then_some(rec.seq),
            group: rec.group,
            edge_ns,
            state: rec.brief().open_state(),
            sums_edge_ns: edge_ns,
            owed_ns: owed.moved_ns,
            sums: Box::new(sums),
            name,
            comm: rec.comm,
        };
        self.0.insert(rec.serial, base);
    }

    /// The name of a task: a remembered name is not created again.
    pub(super) fn name(&self, rec: &TaskRec) -> Arc<str> {
        let known = self.0.get(&rec.serial).filter(|base| base.comm == rec.comm);
        known.map_or_else(|| comm(&rec.comm).into(), |base| base.name.clone())
    }

    /// A task's share: the increase of its sums over the remembered ones.
    pub(super) fn since(&self, serial: u32, sums: &Sums) -> Share {
        sums.since(&self.0.get(&serial).map_or_else(Sums::default, Base::sums))
    }

    /// How much of a task's reported time up to the last edge was known to belong to another category.
    pub(super) fn owed_ns(&self, serial: u32) -> u64 {
        self.0.get(&serial).map_or(0, |base| base.owed_ns)
    }

    /// Whether a task's sums up to this edge are remembered.
    pub(super) fn has(&self, serial: u32, edge_ns: u64) -> bool {
        self.0.get(&serial).is_some_and(|base| base.edge_ns == edge_ns)
    }

    /// Forgets a task whose end has been reported.
    pub(super) fn remove(&mut self, serial: u32) {
        self.0.remove(&serial);
    }

    /// Forgets every task that did not exist at this edge. Returns, by group, the sums of those whose end
    /// nobody reported (nor will, unless it is `pending`).
    pub(super) fn gone(&mut self, edge_ns: u64, pending: &[Ended]) -> BTreeMap<u32, Sums> {
        let mut gone: BTreeMap<u32, Sums> = BTreeMap::new();
        for (serial, base) in self.0.extract_if(|_, base| base.edge_ns != edge_ns) {
            if !pending.iter().any(|e| e.rec.serial == serial) {
                gone.entry(base.group).or_default().add(&base.sums());
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

    /// The remembered state after an edge at 1,000 ns.
    fn after_an_edge(rec: &TaskRec) -> Bases {
        let mut bases = Bases::default();
        bases.set(rec, sums(rec, 1_000), 1_000, Owed::default());
        bases
    }

    #[test]
    fn a_task_without_events_has_the_share_that_its_record_would_have_shown() {
        for state in [state::RUN, state::BLOCK_FUTEX, state::BLOCK_OTHER, state::UNKNOWN] {
            let rec = rec(state, 4, 300);
            let mut bases = after_an_edge(&rec);
            let read = bases.since(7, &sums(&rec, 1_700));
            let still = bases.carry(&rec.brief(), 1_700).unwrap();
            assert_eq!(Share::of_one_state(still.state, still.ns), read);
            assert_eq!(bases.since(7, &sums(&rec, 1_700)), Share::of_one_state(state, 0), "the same sums");
        }
    }

    #[test]
    fn a_task_that_a_handler_touched_or_that_waits_is_examined() {
        let is_still =
            |then: &TaskRec, now: TaskRec| after_an_edge(then).carry(&now.brief(), 1_700).is_some();
        let sleeps = rec(state::BLOCK_POLL, 4, 300);
        assert!(is_still(&sleeps, sleeps));
        assert!(!is_still(&sleeps, TaskRec { seq: 6, ..sleeps }), "an event came");
        assert!(!is_still(&sleeps, TaskRec { serial: 8, ..sleeps }), "another task");
        for waits in [state::WAIT, state::THROTTLED].map(|state| rec(state, 4, 300)) {
            assert!(!is_still(&waits, waits));
        }
        // Its sums at the edge were the copy made there: those in the record are later.
        let late = TaskRec { edge_ns: 1_000, ..rec(state::RUN, 4, 1_100) };
        assert!(!is_still(&late, late));
    }

    #[test]
    fn a_task_that_renames_itself_without_events_gets_its_new_name() {
        let rec = rec(state::RUN, 4, 300);
        let mut bases = after_an_edge(&rec);
        let brief = rec.brief();
        let mut called = |comm| bases.carry(&TaskBrief { comm, ..brief }, 1_700).unwrap().name;
        assert_eq!(&*called(*b"make\0\0\0\0\0\0\0\0\0\0\0\0"), "make");
        assert_eq!(&*called(*b"cc1\0\0\0\0\0\0\0\0\0\0\0\0\0"), "cc1");
    }

    #[test]
    fn a_task_that_no_longer_exists_is_gone_unless_its_end_is_pending() {
        let rec = rec(state::RUN, 4, 300);
        let ended = Ended { end_ns: 1_900, rec };
        assert_eq!(after_an_edge(&rec).gone(2_000, &[]).keys().copied().collect::<Vec<_>>(), [9]);
        assert!(after_an_edge(&rec).gone(2_000, &[ended]).is_empty());
        assert!(after_an_edge(&rec).gone(1_000, &[]).is_empty());
    }
}
