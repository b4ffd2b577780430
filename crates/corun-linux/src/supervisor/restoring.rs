//! Undoing everything a journal holds, and what inherited from it.
//!
//! The order is by urgency: first everybody runs again, then tasks and files get back what they had, then transient
//! cgroups are dissolved, at last the tasks that were born meanwhile are looked through. A new task has the slice,
//! policy, nice value and CPUs of the task that made it, so what was born while a change was in force, in the same
//! process or process group or to the same parent, and shows what was set, is given back what its relative had.
//!
//! Limit: a descendant that has left its process group and whose parent has ended can't be told from a stranger.

use super::journal::Contents;
use super::undo::{is_still, Aspect, Task, Undo};
use crate::procfs;
use crate::root::{ReadError, Root};
use std::collections::BTreeSet;
use std::path::PathBuf;

/// What was restored, and what could not be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Restored {
    /// Changes undone.
    pub undone: usize,
    /// What stayed changed, and why.
    pub failed: Vec<(Undo, String)>,
}

impl Restored {
    /// What has to be undone still.
    pub fn left(&self) -> impl Iterator<Item = &Undo> {
        self.failed.iter().map(|(undo, _)| undo)
    }
}

/// Undoes everything. `live` is called before each step: some take long on a machine that is overloaded, and who does this
/// may have to show that it goes on.
pub fn restore(root: &Root, contents: &Contents, live: &mut dyn FnMut()) -> Restored {
    let mut restored = Restored::default();
    for undo in contents.in_force.iter().rev() {
        live();
        // Who cannot be released now is tried again, and reported, below.
        let _ = undo.release(root);
    }
    for undo in contents.in_force.iter().rev() {
        live();
        match undo.perform(root) {
            Ok(()) => restored.undone += 1,
            Err(e) => restored.failed.push((undo.clone(), e.to_string())),
        }
    }
    restore_inheritors(root, contents);
    restored
}

/// Gives back to tasks that were born since the journal was begun what their relatives had.
pub fn restore_inheritors(root: &Root, contents: &Contents) {
    for (tid, aspects) in inheritors(root, contents) {
        for aspect in aspects {
            if aspect.is_inherited_by(tid) {
                // It may end meanwhile; there is nobody else who could refuse.
                let _ = aspect.restore(tid);
            }
        }
    }
}

/// Tasks that were born since the journal was begun to relatives of the changed, and what those had, each once.
fn inheritors<'a>(root: &Root, contents: &'a Contents) -> Vec<(u32, Vec<&'a Aspect>)> {
    let changed: Vec<(&Task, &Aspect)> =
        contents.in_force.iter().chain(&contents.undone).filter_map(of_task).collect();
    let mut found = Vec::new();
    if changed.is_empty() {
        return found;
    }
    let known: BTreeSet<(u32, u64)> = changed.iter().map(|(t, _)| (t.tid, t.start_ns)).collect();
    for pid in procfs::processes(root).unwrap_or_default() {
        let Ok(process) = procfs::process_stat(root, pid) else { continue };
        let mut aspects = Vec::new();
        for (task, aspect) in &changed {
            // Groups of another PID namespace read 0 and are no groups here.
            let is_in_group = task.pgid != 0 && task.pgid == process.pgid;
            let is_relative = task.pid == pid || task.pid == process.ppid || is_in_group;
            if is_relative && !aspects.contains(aspect) {
                aspects.push(*aspect);
            }
        }
        if aspects.is_empty() || process.is_kernel {
            continue;
        }
        for tid in procfs::tasks(root, pid).unwrap_or_default() {
            let Ok(stat) = procfs::task_stat(root, pid, tid) else { continue };
            if stat.start_ns >= contents.since_ns && !known.contains(&(tid, stat.start_ns)) {
                found.push((tid, aspects.clone()));
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

/// Who there is to have inherited: tells which changes that are not in force are needed still. Tasks that have ended and
/// are related to the same processes are as one: a group in which tasks come and go for days needs as many lines as
/// they had different values.
pub struct Heirs<'a> {
    root: &'a Root,
    processes: BTreeSet<u32>,
    groups: BTreeSet<u32>,
    kept: BTreeSet<(Task, Aspect)>,
}

impl Heirs<'_> {
    /// Looks through the processes that live now, less those that may not be looked at: to them nothing can be given back.
    ///
    /// # Errors
    /// When another cannot be looked at.
    pub fn look(root: &Root) -> Result<Heirs<'_>, ReadError> {
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
        Ok(Heirs { root, processes, groups, kept: BTreeSet::new() })
    }

    /// Whether a change that is not in force is needed for whoever may have inherited it.
    pub fn need(&mut self, undo: &Undo) -> bool {
        let Some((task, aspect)) = of_task(undo) else { return false };
        // One that lives is known by its lines: what it has it chose itself.
        if is_still(self.root, task).unwrap_or(true) {
            return self.kept.insert((*task, aspect.clone()));
        }
        let or_nobody = |number: u32, of: &BTreeSet<u32>| if of.contains(&number) { number } else { 0 };
        let (pid, pgid) = (or_nobody(task.pid, &self.processes), or_nobody(task.pgid, &self.groups));
        (pid, pgid) != (0, 0) && self.kept.insert((Task { tid: 0, start_ns: 0, pid, pgid }, aspect.clone()))
    }
}

/// One sentence for what could not be undone.
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

/// The transient cgroups below a folder that no journal mentions: what is left when even the journal was lost.
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
    use proptest::prelude::*;
    use std::collections::BTreeMap;
    use std::fs;

    /// A `/proc` of processes with one task each.
    struct Proc(tempfile::TempDir);

    impl Proc {
        fn root(&self) -> Root {
            Root::new(self.0.path())
        }

        fn folder(&self, pid: u32) -> PathBuf {
            self.0.path().join(format!("proc/{pid}"))
        }

        /// Starts a process with this number, in place of whoever had it.
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

    /// What becomes of a process, and of what is changed of it.
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

    /// What restoring would do: changes undone of those who live, and who else would be looked at for having inherited what.
    fn restored(root: &Root, contents: &Contents) -> (Vec<Undo>, Vec<(u32, Vec<Aspect>)>) {
        let lives = |undo: &&Undo| of_task(undo).is_none_or(|(task, _)| is_still(root, task).unwrap());
        let direct = contents.in_force.iter().filter(lives).cloned().collect();
        let owned = |aspects: Vec<&Aspect>| aspects.into_iter().cloned().collect();
        (direct, inheritors(root, contents).into_iter().map(|(tid, of)| (tid, owned(of))).collect())
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

        #[test]
        fn a_compacted_journal_restores_whoever_lives_as_the_whole_one_does(
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
                // Whose task has ended, or given its number to another, is forgotten by its backend.
                in_force.retain(|(task, entry)| {
                    let lives = living.get(&task.pid) == Some(task);
                    if !lives {
                        journal.undone(*entry).unwrap();
                    }
                    lives
                });
            }
            let whole = journal.contents().unwrap();
            let mut heirs = Heirs::look(&root).unwrap();
            journal.compact(|undo| heirs.need(undo)).unwrap();
            let compacted = journal.contents().unwrap();
            prop_assert_eq!(restored(&root, &whole), restored(&root, &compacted));
            // Three values of as many tasks as live, and of as many processes, groups and pairs of them as there are.
            let (tasks, both) = (living.len(), 10 * 10);
            prop_assert!(compacted.undone.len() <= 3 * (tasks + both));
        }
    }

    #[test]
    fn a_group_in_which_tasks_come_and_go_needs_one_line_and_one_that_has_gone_none() {
        let proc = Proc(tempfile::tempdir().unwrap());
        let task = |tid: u32, pgid| Task { tid, start_ns: procfs::TICK_NS, pid: tid, pgid };
        proc.start(&task(5, 5), 1);
        let root = proc.root();
        let mut heirs = Heirs::look(&root).unwrap();
        let slice = |tid, pgid| Undo::Task(task(tid, pgid), Aspect::Slice { was_ns: 0 });
        let needed: Vec<Undo> =
            (10..1_000).map(|tid| slice(tid, 5 + tid % 2)).filter(|undo| heirs.need(undo)).collect();
        assert_eq!(needed, [slice(10, 5)]);
        assert!(heirs.need(&slice(5, 5)) && !heirs.need(&slice(5, 5)), "it lives, and has one line");
    }
}
