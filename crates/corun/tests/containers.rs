//! Real containers: podman runs two on one CPU, and corun says who they are and which takes time from the
//! other. Their root file system is a shell from a package. It needs root, and podman, crun and
//! busybox-static from Debian.

mod serving;

use serde_json::Value;
use serving::{run, said, Agent};
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

/// Its shell needs no library.
const SHELL: &str = "/bin/busybox";

/// Containers with a storage of their own; dropping ends them.
struct Podman<'a>(&'a Path);

impl Podman<'_> {
    fn new(folder: &Path) -> Podman<'_> {
        let bin = folder.join("root/bin");
        fs::create_dir_all(&bin).unwrap();
        fs::copy(SHELL, bin.join("sh")).unwrap();
        Podman(folder)
    }

    fn run(&self, args: &[&str]) -> Output {
        // crun refuses a machine with both generations of cgroups. So it does not see the second one.
        let script = "[ ! -d /sys/fs/cgroup/unified ] || umount /sys/fs/cgroup/unified; exec podman \"$@\"";
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "private", "sh", "-c", script, "podman"]);
        command.arg("--root").arg(self.0.join("storage")).arg("--runroot").arg(self.0.join("run"));
        command
            .args(["--cgroup-manager", "cgroupfs", "--events-backend", "file"])
            .args(args)
            .output()
            .unwrap()
    }

    /// Starts an endless loop on the first CPU, and returns its id; or why that is impossible here.
    fn spins(&self) -> Result<String, String> {
        let root = self.0.join("root");
        let limits = ["--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1000:1000"];
        let where_ = ["--network", "none", "--cpuset-cpus", "0", "--rootfs", root.to_str().unwrap()];
        let spin = ["/bin/sh", "-c", "while :; do :; done"];
        let started = self.run(&[&["run", "--detach", "--rm"], &limits[..], &where_, &spin].concat());
        match started.status.success() {
            true => Ok(String::from_utf8_lossy(&started.stdout).trim().to_owned()),
            false => Err(said(&started)),
        }
    }
}

impl Drop for Podman<'_> {
    fn drop(&mut self) {
        self.run(&["rm", "--all", "--force", "--time", "0"]);
    }
}

#[test]
fn containers_of_podman_are_tenants_and_the_culprits_of_each_other() {
    // SAFETY: takes nothing and cannot fail.
    if unsafe { libc::geteuid() } != 0 {
        return println!("skipped: containers with their own CPUs need root");
    }
    let is_there = |tool: &str| Command::new(tool).arg("--version").output().is_ok();
    if !is_there("podman") || !is_there("crun") || !Path::new(SHELL).exists() {
        return println!("skipped: no containers here (Debian: podman, crun, busybox-static)");
    }
    let folder = tempfile::tempdir().unwrap();
    let podman = Podman::new(folder.path());
    let ids = match (podman.spins(), podman.spins()) {
        (Ok(hurt), Ok(hurts)) => [hurt, hurts],
        (Err(why), _) | (_, Err(why)) => {
            return println!("skipped: podman cannot run a container here: {why}")
        }
    };
    let agent = Agent::start(&[]);
    if agent.sum("corun_sees_culprits", &[]) == 0.0 {
        return println!("skipped: culprits cannot be seen here");
    }
    let [hurt, hurts] = ids.each_ref().map(|id| format!("podman {}", &id[..12]));
    let both = [format!("victim=\"{hurt}\""), format!("culprit=\"{hurts}\"")];
    agent.until("the blame", |a| {
        (a.sum("corun_blame_seconds_total", &both.each_ref().map(String::as_str)) > 1.0).then_some(())
    });
    for id in &ids {
        let key = format!("key=\"container:{id}\"");
        assert_eq!(agent.sum("corun_tenant_info", &["kind=\"container\"", &key]), 1.0, "{key}");
    }
    // One is named by the beginning of its id.
    let output = run(&["profile", "--cgroup", &ids[0][..6], "--for", "1s", "--quiet", "--json", "-"]);
    assert!(output.status.success(), "{}", said(&output));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["subject"]["key"], format!("container:{}", ids[0]), "{report}");
    let culprits = report["subject"]["culprits"].as_array().unwrap();
    assert!(culprits.iter().any(|culprit| culprit["tenant"]["name"] == hurts), "{culprits:?}");
}
