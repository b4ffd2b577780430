//! CPU sets: the CPUs that a cgroup allows its tasks.
//!
//! v2 has them in `cpuset.cpus.effective`, which exists only in cgroups that were given the controller; v1
//! has them in `cpuset.effective_cpus` of every cgroup. A task that has not chosen CPUs has these.

use super::{Cgroups, Membership};
use crate::cpulist;
use corun_model::CpuId;

impl Cgroups {
    /// The CPUs that a task's cgroup allows it; `None` if no cgroup says so.
    pub fn cpus_of(&self, tid: u32) -> Option<Vec<CpuId>> {
        let tree = self.with_controller("cpuset")?;
        let membership = Membership::read(&self.root, format!("/proc/{tid}")).ok()?;
        let file = if tree.is_v2() { "cpuset.cpus.effective" } else { "cpuset.effective_cpus" };
        let path = membership.in_tree(tree)?.trim_end_matches('/');
        let mut upwards = std::iter::successors(Some(path), |p| p.rsplit_once('/').map(|(above, _)| above));
        let told = upwards.find_map(|path| self.root.read(tree.folder(path)?.join(file)).ok())?;
        cpulist::parse(&told)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root::Root;

    fn cpus(mountinfo: &str, membership: &str, files: &[(&str, &str)]) -> Option<String> {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::new(dir.path());
        let own = [("/proc/self/mountinfo", mountinfo), ("/proc/7/cgroup", membership)];
        for (file, text) in own.iter().chain(files) {
            std::fs::create_dir_all(root.path(file).parent().unwrap()).unwrap();
            std::fs::write(root.path(file), text).unwrap();
        }
        Cgroups::discover(&root).unwrap().cpus_of(7).map(|cpus| cpulist::format(&cpus))
    }

    #[test]
    fn the_nearest_cgroup_with_the_controller_decides() {
        let v2 = "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        let controllers = ("/sys/fs/cgroup/cgroup.controllers", "cpuset cpu\n");
        let root = ("/sys/fs/cgroup/cpuset.cpus.effective", "0-7\n");
        let pod = ("/sys/fs/cgroup/pods/web/cpuset.cpus.effective", "2-3\n");
        let of = |path: &str, files: &[(&str, &str)]| cpus(v2, &format!("0::{path}\n"), files);
        assert_eq!(of("/pods/web/app", &[controllers, root, pod]).unwrap(), "2-3");
        assert_eq!(of("/pods/db", &[controllers, root, pod]).unwrap(), "0-7");
        assert_eq!(of("/", &[controllers, root]).unwrap(), "0-7");
        assert_eq!(of("/pods/web", &[controllers]), None);
        assert_eq!(of("/pods/web", &[pod]), None, "nobody has the controller");
    }

    #[test]
    fn in_the_first_generation_every_cgroup_decides() {
        let v1 = "32 31 0:29 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n";
        let files = [("/sys/fs/cgroup/cpuset/docker/cpuset.effective_cpus", "1\n")];
        assert_eq!(cpus(v1, "3:cpuset:/docker\n0::/docker\n", &files).unwrap(), "1");
    }
}
