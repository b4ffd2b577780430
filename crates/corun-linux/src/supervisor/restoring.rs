//! Undoing everything a journal holds, and what inherited from it.
//!
//! The order is by urgency: first everybody runs again, then tasks and files get back what they had, then transient
//! cgroups are dissolved, at last the tasks that were born meanwhile are looked through. A new task has the slice,
//! policy, nice value and CPUs of the task that made it, so what was born while a change was in force, in the same
//! process or process group or to the same parent, and shows what was set, is given back what its relative had.
//!
//! Limit: a descendant that has left its process group and whose parent has ended can't be told from a stranger.

use super::journal::Contents;
use super::undo::{Aspect, Task, Undo};
use crate::procfs;
use crate::root::Root;
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

/// Undoes everything.
pub fn restore(root: &Root, contents: &Contents) -> Restored {
    let mut restored = Restored::default();
    for undo in contents.in_force.iter().rev() {
        // Who cannot be released now is tried again, and reported, below.
        let _ = undo.release(root);
    }
    for undo in contents.in_force.iter().rev() {
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
    let changed: Vec<(&Task, &Aspect)> = contents
        .in_force
        .iter()
        .chain(&contents.undone)
        .filter_map(|u| match u {
            Undo::Task(task, aspect) => Some((task, aspect)),
            _ => None,
        })
        .collect();
    if changed.is_empty() {
        return;
    }
    let known: BTreeSet<(u32, u64)> = changed.iter().map(|(t, _)| (t.tid, t.start_ns)).collect();
    for pid in procfs::processes(root).unwrap_or_default() {
        let Ok(process) = procfs::process_stat(root, pid) else { continue };
        let relatives: Vec<&(&Task, &Aspect)> = changed
            .iter()
            .filter(|(t, _)| t.pid == pid || t.pid == process.ppid || t.pgid != 0 && t.pgid == process.pgid)
            .collect();
        if relatives.is_empty() || process.is_kernel {
            continue;
        }
        for tid in procfs::tasks(root, pid).unwrap_or_default() {
            let Ok(stat) = procfs::task_stat(root, pid, tid) else { continue };
            if stat.start_ns < contents.since_ns || known.contains(&(tid, stat.start_ns)) {
                continue;
            }
            for (_, aspect) in &relatives {
                if aspect.is_inherited_by(tid) {
                    // It may end meanwhile; there is nobody else who could refuse.
                    let _ = aspect.restore(tid);
                }
            }
        }
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
