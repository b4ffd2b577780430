//! Undoing everything that a journal holds, and everything inherited from it.
//!
//! The order is by urgency. First everybody runs again. Then tasks and files get back their values, and
//! transient cgroups are dissolved. Finally tasks that were born meanwhile are scanned, and get back their
//! relatives' previous values ([`super::inheritance`]). Until such a task has been found and restored, it may
//! make another that inherits. So the scan repeats until it finds none.
//!
//! Limit: tasks that make another and end, faster than they are found, again and again.

use super::inheritance::Inheritance;
use super::journal::Contents;
use super::undo::{is_still, Aspect, Task, Undo};
use crate::procfs;
use crate::root::{in_words, ReadError, Root};
use std::collections::BTreeSet;
use std::path::PathBuf;

/// The most scans for tasks that were born meanwhile: a program that makes tasks all the time, and itself
/// chooses values that look inherited, is found again and again.
const PASSES: usize = 10;

/// The restored changes, and those that could not be restored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Restored {
    /// Changes undone.
    pub undone: usize,
    /// What stayed changed, and why.
    pub failed: Vec<(Undo, String)>,
}

impl Restored {
    /// The changes that still have to be undone.
    pub fn left(&self) -> impl Iterator<Item = &Undo> {
        self.failed.iter().map(|(undo, _)| undo)
    }
}

/// Undoes everything. `live` is called before each step. Some steps take long on an overloaded machine, and
/// the caller may have to show that it is alive.
pub fn restore(root: &Root, contents: &Contents, live: &mut dyn FnMut()) -> Restored {
    let mut restored = Restored::default();
    for undo in contents.in_force.iter().rev() {
        live();
        // A tenant that cannot be released now is tried again, and reported, below.
        let _ = undo.release(root);
    }
    for undo in contents.in_force.iter().rev() {
        live();
        match undo.perform(root) {
            Ok(()) => restored.undone += 1,
            Err(e) => restored.failed.push((undo.clone(), in_words(&e))),
        }
    }
    restore_inheritors(root, contents, live);
    restored
}

/// Restores tasks that were born since the journal was begun to their relatives' previous values.
fn restore_inheritors(root: &Root, contents: &Contents, live: &mut dyn FnMut()) {
    let mut inheritance = contents.inheritance();
    for _ in 0..PASSES {
        let mut restored = BTreeSet::new();
        for (task, aspects) in inheritors(root, &inheritance) {
            live();
            for aspect in aspects {
                let which = (task, aspect.name());
                // It may end meanwhile; nobody else could refuse.
                if !restored.contains(&which)
                    && aspect.is_inherited_by(task.tid)
                    && aspect.restore(task.tid).is_ok()
                {
                    restored.insert(which);
                }
            }
        }
        if restored.is_empty() {
            return;
        }
        restored.iter().for_each(|(task, kind)| inheritance.know(task, kind));
    }
}

/// Tasks that were born to relatives of changed tasks since the journal was begun, and the previous values of
/// these, the nearest first.
fn inheritors<'a>(root: &Root, inheritance: &'a Inheritance) -> Vec<(Task, Vec<&'a Aspect>)> {
    let mut found = Vec::new();
    if inheritance.is_empty() {
        return found;
    }
    for pid in procfs::processes(root).unwrap_or_default() {
        let Ok(process) = procfs::process_stat(root, pid) else { continue };
        let near = inheritance.near(pid, process.ppid, process.pgid);
        if near.is_empty() || process.is_kernel {
            continue;
        }
        for tid in procfs::tasks(root, pid).unwrap_or_default() {
            let Ok(stat) = procfs::task_stat(root, pid, tid) else { continue };
            let task = Task { tid, start_ns: stat.start_ns, pid, pgid: process.pgid };
            let aspects: Vec<&Aspect> =
                near.iter().filter(|aspect| inheritance.may_show(&task, aspect)).copied().collect();
            if !aspects.is_empty() {
                found.push((task, aspects));
            }
        }
    }
    found
}

fn of_task(undo: &Undo) -> Option<(&Task, &Aspect)> {
    match undo {
        Undo::Task(task, aspect) => Some((task, aspect)),
        _ => None,
    }
}

/// The tasks that may have inherited: they decide which changes that are no longer in force are still needed.
/// Ended tasks that are related to the same processes count as one. A group in which tasks come and go for
/// days needs as many lines as they had different values.
pub struct Descendants<'a> {
    root: &'a Root,
    processes: BTreeSet<u32>,
    groups: BTreeSet<u32>,
    kept: BTreeSet<(Task, Aspect)>,
}

impl Descendants<'_> {
    /// Scans the live processes, except those that may not be read: these cannot be restored.
    ///
    /// # Errors
    /// When another cannot be looked at.
    pub fn look(root: &Root) -> Result<Descendants<'_>, ReadError> {
        let (mut processes, mut groups) = (BTreeSet::new(), BTreeSet::new());
        for pid in procfs::processes(root)? {
            match procfs::process_stat(root, pid) {
                Ok(process) => {
                    processes.extend([pid, process.ppid]);
                    groups.insert(process.pgid);
                }
                Err(e) if e.is_gone() || e.is_forbidden() => {}
                Err(e) => return Err(e),
            }
        }
        Ok(Descendants { root, processes, groups, kept: BTreeSet::new() })
    }

    /// Whether a change that is no longer in force is needed for a task that may have inherited it.
    pub fn need(&mut self, undo: &Undo) -> bool {
        let Some((task, aspect)) = of_task(undo) else { return false };
        // A live task is known by its lines: its present values are its own choice.
        if is_still(self.root, task).unwrap_or(true) {
            return self.kept.insert((*task, aspect.clone()));
        }
        let or_nobody = |number: u32, of: &BTreeSet<u32>| if of.contains(&number) { number } else { 0 };
        let (pid, pgid) = (or_nobody(task.pid, &self.processes), or_nobody(task.pgid, &self.groups));
        (pid, pgid) != (0, 0) && self.kept.insert((Task { tid: 0, start_ns: 0, pid, pgid }, aspect.clone()))
    }
}

/// One sentence for the changes that could not be undone.
pub fn complaint(failed: &[(Undo, String)]) -> Option<(String, String)> {
    let (undo, why) = failed.first()?;
    let more = match failed.len() - 1 {
        0 => String::new(),
        more => format!(" (and {more} more)"),
    };
    let by_hand = match undo {
        Undo::Thaw(folder) | Undo::Dissolve(folder) => {
            format!("; `echo 0 > {}/cgroup.freeze` thaws it", folder.display())
        }
        Undo::Continue(task) => format!("; `kill -CONT {}` continues it", task.pid),
        Undo::Task(task, Aspect::Cpus { .. }) => format!("; `taskset -p` shows the CPUs of {}", task.tid),
        Undo::Task(task, _) => format!("; `chrt -p {}` shows how it is scheduled", task.tid),
        Undo::File { path, was } => format!("; `echo {was} > {}` restores it", path.display()),
        Undo::Autogroup { was, .. } => {
            format!("; `echo {was} > /proc/PID/autogroup` restores it for a session")
        }
    };
    Some((format!("`{undo}`{more}"), format!("{why}{by_hand}")))
}

/// The transient cgroups below a folder that no journal mentions: the remains if even the journal was lost.
pub fn stray_transients(mount: &std::path::Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut to_visit = vec![mount.to_owned()];
    while let Some(folder) = to_visit.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|t| t.is_dir()) {
                match crate::freezer::is_transient(&entry.path()) {
                    true => found.push(entry.path()),
                    false => to_visit.push(entry.path()),
                }
            }
        }
    }
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::super::journal::{Entry, Journal};
    use super::*;
    use crate::sched::own_tid;
    use crate::{clock, sched};
    use proptest::prelude::*;
    use std::collections::BTreeMap;
    use std::fs;
    use std::sync::mpsc;

    /// A `/proc` of processes with one task each.
    struct Proc(tempfile::TempDir);

    impl Proc {
        fn root(&self) -> Root {
            Root::new(self.0.path())
        }

        fn folder(&self, pid: u32) -> PathBuf {
            self.0.path().join(format!("proc/{pid}"))
        }

        /// Starts a process with this number, in place of the previous one.
        fn start(&self, task: &Task, ppid: u32) {
            let (pid, pgid, ticks) = (task.pid, task.pgid, task.start_ns / procfs::TICK_NS);
            let stat = format!(
                "{pid} (p) S {ppid} {pgid} 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 {ticks}{}",
                " 0".repeat(18)
            );
            let own = self.folder(pid).join(format!("task/{pid}"));
            fs::create_dir_all(&own).unwrap();
            fs::write(own.join("stat"), &stat).unwrap();
            fs::write(self.folder(pid).join("stat"), stat).unwrap();
        }

        fn end(&self, pid: u32) {
            let _ = fs::remove_dir_all(self.folder(pid));
        }
    }

    /// What happens to a process, and to the changes made to it.
    #[derive(Clone, Debug)]
    enum Happens {
        Start { pid: u32, ppid: u32, pgid: u32 },
        Change { pid: u32, was: i32 },
        Undo { nth: usize },
        End { pid: u32 },
    }

    fn happens() -> impl Strategy<Value = Happens> {
        let pid = || 2u32..10;
        prop_oneof![
            3 => (pid(), 1u32..10, 0u32..10).prop_map(|(pid, ppid, pgid)| Happens::Start { pid, ppid, pgid }),
            4 => (pid(), 0i32..3).prop_map(|(pid, was)| Happens::Change { pid, was }),
            2 => (0usize..20).prop_map(|nth| Happens::Undo { nth }),
            3 => pid().prop_map(|pid| Happens::End { pid }),
        ]
    }

    /// The result of restoring: undone changes of live tasks, and the other tasks that would be checked for
    /// inherited changes.
    fn restored(root: &Root, contents: &Contents) -> (Vec<Undo>, Vec<(u32, Vec<Aspect>)>) {
        let lives = |undo: &&Undo| of_task(undo).is_none_or(|(task, _)| is_still(root, task).unwrap());
        let direct = contents.in_force.iter().filter(lives).cloned().collect();
        let owned = |aspects: Vec<&Aspect>| aspects.into_iter().cloned().collect();
        let inheritance = contents.inheritance();
        let descendants = inheritors(root, &inheritance).into_iter();
        (direct, descendants.map(|(task, of)| (task.tid, owned(of))).collect())
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

        #[test]
        fn a_compacted_journal_restores_every_live_task_as_the_whole_one_does(
            all in proptest::collection::vec(happens(), 1..120),
        ) {
            let (proc, folder) = (Proc(tempfile::tempdir().unwrap()), tempfile::tempdir().unwrap());
            fs::create_dir(proc.0.path().join("proc")).unwrap();
            let root = proc.root();
            let mut journal = Journal::open(&folder.path().join("corun")).unwrap();
            journal.begin([]).unwrap();
            let mut now_ns = journal.contents().unwrap().since_ns.next_multiple_of(procfs::TICK_NS);
            let mut living: BTreeMap<u32, Task> = BTreeMap::new();
            let mut in_force: Vec<(Task, Entry)> = Vec::new();
            for happens in all {
                now_ns += procfs::TICK_NS;
                match happens {
                    Happens::Start { pid, ppid, pgid } => {
                        let task = Task { tid: pid, start_ns: now_ns, pid, pgid };
                        living.insert(pid, task);
                        proc.start(&task, ppid);
                    }
                    Happens::Change { pid, was } => {
                        if let Some(task) = living.get(&pid) {
                            let undo = Undo::Task(*task, Aspect::Nice { was, set: 19 });
                            in_force.push((*task, journal.add(&undo).unwrap()));
                        }
                    }
                    Happens::Undo { nth } if nth < in_force.len() => {
                        journal.undone(in_force.remove(nth).1).unwrap();
                    }
                    Happens::Undo { .. } => {}
                    Happens::End { pid } => {
                        proc.end(pid);
                        living.remove(&pid);
                    }
                }
                // If a task has ended, or another has its number, its backend forgets it.
                in_force.retain(|(task, entry)| {
                    let lives = living.get(&task.pid) == Some(task);
                    if !lives {
                        journal.undone(*entry).unwrap();
                    }
                    lives
                });
            }
            let whole = journal.contents().unwrap();
            let mut descendants = Descendants::look(&root).unwrap();
            journal.compact(|undo| descendants.need(undo)).unwrap();
            let compacted = journal.contents().unwrap();
            prop_assert_eq!(restored(&root, &whole), restored(&root, &compacted));
            // Three values for as many tasks as live, and for all their processes, groups and pairs of these.
            let (tasks, both) = (living.len(), 10 * 10);
            prop_assert!(compacted.undone.len() <= 3 * (tasks + both));
        }
    }

    #[test]
    fn a_group_in_which_tasks_come_and_go_needs_one_line_and_one_that_has_gone_needs_none() {
        let proc = Proc(tempfile::tempdir().unwrap());
        let task = |tid: u32, pgid| Task { tid, start_ns: procfs::TICK_NS, pid: tid, pgid };
        proc.start(&task(5, 5), 1);
        let root = proc.root();
        let mut descendants = Descendants::look(&root).unwrap();
        let slice = |tid, pgid| Undo::Task(task(tid, pgid), Aspect::Slice { was_ns: 0 });
        let needed: Vec<Undo> =
            (10..1_000).map(|tid| slice(tid, 5 + tid % 2)).filter(|undo| descendants.need(undo)).collect();
        assert_eq!(needed, [slice(10, 5)]);
        assert!(
            descendants.need(&slice(5, 5)) && !descendants.need(&slice(5, 5)),
            "it lives, and has one line"
        );
    }

    /// A thread that reports its identity, makes another on request, and ends when nobody can make requests
    /// any more.
    fn thread(own: mpsc::Sender<u32>, tell: mpsc::Receiver<mpsc::Receiver<()>>) {
        own.send(own_tid()).unwrap();
        let mut born = Vec::new();
        while let Ok(until) = tell.recv() {
            let own = own.clone();
            born.push(std::thread::spawn(move || {
                own.send(own_tid()).unwrap();
                let _ = until.recv();
            }));
        }
        born.into_iter().for_each(|b| b.join().unwrap());
    }

    #[test]
    fn a_child_of_a_task_that_is_not_restored_yet_is_restored_as_well() {
        let (cpus, pid) = (sched::affinity(0).unwrap(), std::process::id());
        if cpus.len() < 2 {
            return println!("skipped: there is one CPU only");
        }
        let set = cpus[..1].to_vec();
        let since_ns = clock::now_ns() + clock::boot_ahead_ns() - procfs::TICK_NS;
        let (own, ids) = mpsc::channel();
        let (tell, told) = mpsc::channel();
        let made = std::thread::spawn(move || thread(own, told));
        let maker = ids.recv().unwrap();
        sched::set_affinity(maker, Some(&set)).unwrap();
        // Whose change they inherited has ended.
        let ended = Task { tid: pid, start_ns: 1, pid, pgid: 0 };
        let undo = Undo::Task(ended, Aspect::Cpus { was: Some(cpus.clone()), set: set.clone() });
        let contents = Contents { since_ns, in_force: vec![undo], ..Contents::default() };
        let (end, until) = mpsc::channel();
        let (mut until, mut late) = (Some(until), None);
        restore_inheritors(&Root::new("/"), &contents, &mut || {
            // By now every task has been found, and none has been restored.
            if let Some(until) = until.take() {
                tell.send(until).unwrap();
                late = Some(ids.recv().unwrap());
                assert_eq!(sched::affinity(late.unwrap()).unwrap(), set);
            }
        });
        let found = [maker, late.unwrap()].map(|tid| sched::affinity(tid).unwrap());
        drop((end, tell));
        made.join().unwrap();
        assert_eq!(found, [cpus.clone(), cpus]);
    }
}
