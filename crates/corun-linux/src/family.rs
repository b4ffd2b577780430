//! Processes and all their descendants, even if some of them end. The children of an ended process get
//! another parent, so only an earlier look knows them. So a family is scanned again and again while a probe
//! is loaded, which takes a second.
//!
//! Limit: a process that is created and orphaned between two scans is not found.

use crate::procfs;
use crate::root::{ReadError, Root};
use std::collections::BTreeMap;
use std::sync::mpsc::{channel, RecvTimeoutError};
use std::thread::{scope, Builder};
use std::time::{Duration, Instant};

/// The pause between two scans: this long, or this many times the duration of a scan.
const PAUSE: Duration = Duration::from_millis(20);
const LOOKS: u32 = 10;

/// A family as it lives.
#[derive(Clone, Debug)]
pub struct Family {
    root: Root,
    /// The live processes, and when each started, since numbers are reused.
    members: BTreeMap<u32, u64>,
    /// This process watches and is no member. The processes between it and a root are not either: they only
    /// wait for it.
    watching: Vec<u32>,
}

impl Family {
    /// These processes, and their descendants now.
    ///
    /// # Errors
    /// [`ReadError`] when `/proc` cannot be read.
    pub fn of(root: &Root, pids: &[u32]) -> Result<Family, ReadError> {
        let watching = procfs::between(root, std::process::id(), pids);
        let mut family = Family { root: root.clone(), members: BTreeMap::new(), watching };
        family.add(pids.iter().copied());
        family.look()?;
        Ok(family)
    }

    /// Scans for live processes and new ones.
    ///
    /// # Errors
    /// As [`Family::of`].
    pub fn look(&mut self) -> Result<(), ReadError> {
        let lives =
            |pid, start_ns| procfs::process_stat(&self.root, pid).is_ok_and(|s| s.start_ns == start_ns);
        self.members.retain(|pid, start_ns| lives(*pid, *start_ns));
        let known: Vec<u32> = self.pids().collect();
        let found = procfs::with_descendants_except(&self.root, &known, &self.watching)?;
        self.add(found.into_iter());
        Ok(())
    }

    fn add(&mut self, pids: impl Iterator<Item = u32>) {
        for pid in pids {
            if let Ok(stat) = procfs::process_stat(&self.root, pid) {
                self.members.entry(pid).or_insert(stat.start_ns);
            }
        }
    }

    /// The processes that lived at the last scan, by PID.
    pub fn pids(&self) -> impl Iterator<Item = u32> + '_ {
        self.members.keys().copied()
    }

    /// All threads of the processes between this process and a root. These are not of the family, but
    /// everything else that they start is.
    pub fn tasks_in_between(&self) -> Vec<u32> {
        let others = self.watching.iter().skip(1);
        others.flat_map(|pid| procfs::tasks(&self.root, *pid).unwrap_or_default()).collect()
    }

    /// All threads of the processes that lived at the last scan.
    pub fn tasks(&self) -> Vec<u32> {
        self.pids().flat_map(|pid| procfs::tasks(&self.root, pid).unwrap_or_default()).collect()
    }
}

/// Runs something slow, and scans families meanwhile. If this machine allows no new thread, nobody scans.
pub fn watched_while<'a, T>(families: impl Iterator<Item = &'a mut Family>, work: impl FnOnce() -> T) -> T {
    let mut families: Vec<&mut Family> = families.collect();
    if families.is_empty() {
        return work();
    }
    let (working, is_done) = channel::<()>();
    let look = move || {
        let mut pause = Duration::ZERO;
        while is_done.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
            let began = Instant::now();
            // A process that cannot be read now is read afterwards, and then an error matters.
            let _ = families.iter_mut().try_for_each(|family| family.look());
            pause = PAUSE.max(LOOKS * began.elapsed());
        }
    };
    scope(|scope| {
        let _ = Builder::new().spawn_scoped(scope, look);
        // The handle is gone when the work is done or has failed.
        let _working = working;
        work()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn orphans_of_an_ended_process_stay_in_the_family_and_this_process_does_not_belong_to_it() {
        let root = Root::new("/");
        let mut parent = Command::new("sh").args(["-c", "sleep 60 & wait"]).spawn().unwrap();
        let mut family = Family::of(&root, &[parent.id()]).unwrap();
        let until = Instant::now() + Duration::from_secs(10);
        while family.pids().count() < 2 && Instant::now() < until {
            family.look().unwrap();
        }
        let child = family.pids().find(|pid| *pid != parent.id()).expect("the shell has started it");
        watched_while([&mut family].into_iter(), || {
            parent.kill().unwrap();
            parent.wait().unwrap();
        });
        family.look().unwrap();
        assert_eq!(family.pids().collect::<Vec<_>>(), [child]);
        assert_eq!(family.tasks(), [child]);
        // SAFETY: plain numbers; the test has started the process.
        unsafe { libc::kill(child as i32, libc::SIGKILL) };
        let own = Family::of(&root, &[std::os::unix::process::parent_id()]).unwrap();
        assert!(own.pids().all(|pid| pid != std::process::id()));
    }
}
