//! The effect of a container's limits on restored values.

use super::actors::{backend, seen, Actors};
use super::{alone, is_root, PATIENCE};
use corun_linux::backend::Backend;
use corun_linux::cgroup::Cgroups;
use corun_linux::{freezer, sched, Root};
use corun_model::{Action, CpuId, Outcome, TaskId};
use std::path::PathBuf;

/// A cgroup of the controller of CPU sets, removed when dropped.
struct CpuSet(PathBuf);

impl CpuSet {
    /// `None` if there is no such controller, or none can be made.
    fn make() -> Option<CpuSet> {
        let cgroups = Cgroups::discover(&Root::new("/")).ok()?;
        let mount = cgroups.with_controller("cpuset")?.mount.clone();
        let set = CpuSet(mount.join(format!("corun-test.{}.cpus", std::process::id())));
        std::fs::create_dir(&set.0).ok()?;
        let mems = std::fs::read_to_string(mount.join("cpuset.mems")).unwrap_or_default();
        // A cpuset of the first generation is useless without it.
        let _ = freezer::write_file(&set.0.join("cpuset.mems"), mems.trim());
        set.become_of("0").then_some(set)
    }

    fn become_of(&self, cpus: &str) -> bool {
        freezer::write_file(&self.0.join("cpuset.cpus"), cpus).is_ok()
    }
}

impl Drop for CpuSet {
    fn drop(&mut self) {
        let parent = self.0.parent().unwrap();
        for pid in freezer::processes_in(&self.0).unwrap_or_default() {
            let _ = freezer::move_into(parent, pid);
        }
        let _ = std::fs::remove_dir(&self.0);
    }
}

#[test]
fn a_task_with_the_cpus_of_its_container_gets_cpus_that_the_container_is_given_later() {
    let cpus = sched::affinity(0).unwrap();
    if !is_root() || cpus != [CpuId(0), CpuId(1)] {
        return println!("skipped: needs root and CPUs 0 and 1");
    }
    let _alone = alone();
    let Some(set) = CpuSet::make() else { return println!("skipped: no CPU set can be made") };
    let actors = Actors::spinning(1);
    let pid = actors.pids()[0];
    freezer::move_into(&set.0, pid).unwrap();
    assert_eq!(sched::affinity(pid).unwrap(), [CpuId(0)]);
    let folder = tempfile::tempdir().unwrap();
    let mut backend = backend(folder.path(), &[pid]);
    backend.learn(&seen(&[&[pid]]));
    let action = Action::Cpus { task: TaskId(pid), cpus: vec![CpuId(0)] };
    assert_eq!(backend.apply(&action), Outcome::Done);
    backend.undo_all().unwrap();
    assert!(set.become_of("0-1"));
    assert_eq!(sched::affinity(pid).unwrap(), cpus);
    assert!(actors.run(PATIENCE));
}
