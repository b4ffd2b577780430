//! Processes and all their descendants, even if some of them end. The children of an ended process get another parent, so `/proc` no longer
//! shows whose they are. Loading a probe takes a second. Meanwhile [`Births`](corun_bpf::Births) may record which process starts which, so
//! that no process started in that second is lost.
//!
//! Limit: if the parent of a process ended before the family was first scanned, the process is not a member.

use crate::procfs;
use crate::root::{ReadError, Root};
use corun_bpf::Birth;
use std::collections::{BTreeMap, BTreeSet};

/// A family as it lives.
#[derive(Clone, Debug)]
pub struct Family {
    root: Root,
    /// The live processes, and when each started, since numbers are reused.
    members: BTreeMap<u32, u64>,
    /// All that have ever been members, unless their number is somebody else's now.
    ever: BTreeSet<u32>,
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
        let mut family = Family {
            root: root.clone(),
            members: BTreeMap::new(),
            ever: pids.iter().copied().collect(),
            watching,
        };
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
                self.ever.insert(pid);
            }
        }
    }

    /// Takes which processes were started since before the family was first looked at, in order. Those that a member has started are
    /// members, whoever has ended since.
    pub fn adopt(&mut self, births: &[Birth]) {
        for &Birth { parent, child } in births {
            let is_member =
                self.ever.contains(&parent) || self.watching.iter().skip(1).any(|pid| *pid == parent);
            if is_member && !self.watching.contains(&child) {
                self.ever.insert(child);
            } else {
                self.ever.remove(&child);
            }
        }
        self.add(self.ever.clone().into_iter());
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command};

    fn sleeper() -> Child {
        Command::new("sleep").arg("60").spawn().unwrap()
    }

    #[test]
    fn whoever_a_member_has_started_is_one_even_if_all_between_have_ended() {
        const GONE: u32 = u32::MAX - 1;
        let root = Root::new("/");
        let (mut founder, mut orphan, mut other) = (sleeper(), sleeper(), sleeper());
        let born = |parent, child| Birth { parent, child };
        for (births, is_orphan_found) in [
            (vec![], false),
            (vec![born(founder.id(), orphan.id())], true),
            (vec![born(founder.id(), GONE), born(GONE, orphan.id())], true),
            (vec![born(GONE, orphan.id()), born(founder.id(), GONE)], false),
            (vec![born(founder.id(), GONE), born(1, GONE), born(GONE, orphan.id())], false),
            (vec![born(founder.id(), orphan.id()), born(1, orphan.id())], false),
        ] {
            let mut family = Family::of(&root, &[founder.id()]).unwrap();
            family.adopt(&births);
            family.look().unwrap();
            let found: Vec<u32> = family.pids().collect();
            assert_eq!(found.contains(&orphan.id()), is_orphan_found, "{births:?}: {found:?}");
            assert!(found.contains(&founder.id()) && !found.contains(&other.id()), "{births:?}: {found:?}");
        }
        for child in [&mut founder, &mut orphan, &mut other] {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    #[test]
    fn who_has_ended_is_no_member_and_neither_is_this_process() {
        let root = Root::new("/");
        let mut child = sleeper();
        let mut family = Family::of(&root, &[child.id()]).unwrap();
        assert_eq!(family.tasks(), [child.id()]);
        child.kill().unwrap();
        child.wait().unwrap();
        family.look().unwrap();
        assert_eq!(family.pids().count(), 0);
        let own = Family::of(&root, &[std::os::unix::process::parent_id()]).unwrap();
        assert!(own.pids().all(|pid| pid != std::process::id()));
    }
}
