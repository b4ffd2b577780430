//! Targets on made-up machines.

use super::vm::is_vcpu;
use super::*;
use tempfile::TempDir;

struct Made(TempDir);

impl Made {
    fn new() -> Made {
        let made = Made(tempfile::tempdir().unwrap());
        made.put(
            "/proc/self/mountinfo",
            "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n31 23 0:27 / /cgroup/systemd rw - cgroup cgroup rw,name=systemd\n",
        );
        made.cgroup("");
        made.put("/cgroup/systemd/tasks", "");
        made
    }

    fn put(&self, file: &str, text: &str) {
        let path = self.root().path(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn cgroup(&self, path: &str) {
        self.put(&format!("/sys/fs/cgroup{path}/cgroup.procs"), "");
    }

    fn process(&self, pid: u32, state: char, command: &[&str], threads: &[(u32, &str)]) {
        let comm = threads[0].1;
        let flags = if comm.starts_with("vhost-") { 0x0020_0040 } else { 0 };
        self.put(
            &format!("/proc/{pid}/stat"),
            &format!("{pid} ({comm}) {state} 1 {pid} {pid} 0 -1 {flags} 0 0 0 0 1 1 0 0 20 0 1 0 5 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 17 0 0 0 0\n"),
        );
        self.put(&format!("/proc/{pid}/status"), &format!("Name:\t{comm}\nTgid:\t{pid}\n"));
        self.put(
            &format!("/proc/{pid}/cmdline"),
            &command.iter().map(|a| format!("{a}\0")).collect::<String>(),
        );
        self.put(&format!("/proc/{pid}/cgroup"), "0::/\n");
        for (tid, name) in threads {
            self.put(&format!("/proc/{pid}/task/{tid}/comm"), &format!("{name}\n"));
        }
    }

    fn root(&self) -> Root {
        Root::new(self.0.path())
    }
}

fn path_of(subject: Result<Subject, TargetError>) -> String {
    match subject {
        Ok(Subject::Cgroup { path, .. }) => path,
        Ok(other) => panic!("{other:?}"),
        Err(e) => e.to_string(),
    }
}

#[test]
fn missing_processes_are_reported_with_the_remedy() {
    let m = Made::new();
    m.process(10, 'S', &["sleep"], &[(10, "sleep")]);
    m.process(11, 'Z', &[], &[(11, "gone")]);
    m.process(12, 'S', &[], &[(12, "thread")]);
    m.put("/proc/12/status", "Name:\tthread\nTgid:\t10\n");
    let of = |pids: &[u32]| Subject::processes(&m.root(), pids);
    assert_eq!(of(&[10]).unwrap(), Subject::Processes { roots: vec![10], name: "sleep".into() });
    assert_eq!(of(&[10, 99999]).unwrap_err().to_string(), "no process 99999; `ps -e` lists them");
    assert_eq!(of(&[11]).unwrap_err().to_string(), "process 11 (gone) has ended already");
    assert_eq!(of(&[12]).unwrap_err().to_string(), "12 is a thread of process 10; give the process: 10");
}

#[test]
fn a_cgroup_is_found_by_path_by_folder_by_its_end_and_by_its_name() {
    let m = Made::new();
    let id = "4f5c6a7b8c9d0e1f2a3b4c5d6e7f8091a2b3c4d5e6f70819a2b3c4d5e6f70819";
    let docker = format!("/system.slice/docker-{id}.scope");
    m.cgroup("/system.slice/nginx.service/worker");
    m.cgroup(&format!("{docker}/init.scope"));
    m.cgroup(r"/machine.slice/machine-qemu\x2d1\x2dvm1.scope");
    let find = |name: &str| path_of(Subject::cgroup(&m.root(), name));
    for name in [
        "/system.slice/nginx.service",
        "nginx.service",
        "system.slice/nginx.service",
        "/sys/fs/cgroup/system.slice/nginx.service/",
    ] {
        assert_eq!(find(name), "/system.slice/nginx.service", "{name}");
    }
    for name in ["docker 4f5c6a7b8c9d", "4f5c6a7b8c9d", id] {
        assert_eq!(find(name), docker, "{name}");
    }
    assert_eq!(find("machine-qemu-1-vm1.scope"), r"/machine.slice/machine-qemu\x2d1\x2dvm1.scope");
}

#[test]
fn a_cgroup_is_found_by_any_path_to_its_folder_and_the_root_is_refused_by_each_of_its_own() {
    let m = Made::new();
    m.put("/cgroup/systemd/b/tasks", "");
    std::os::unix::fs::symlink("systemd", m.root().path("/cgroup/named")).unwrap();
    let find = |name: &str| path_of(Subject::cgroup(&m.root(), name));
    for name in ["/cgroup/systemd/b", "/cgroup/named/b/", "/b"] {
        assert_eq!(find(name), "/b", "{name}");
    }
    for name in
        ["/", "//", "/sys/fs/cgroup", "/sys/fs/cgroup/", "/cgroup/systemd", "/cgroup/named", "/cgroup"]
    {
        let said = find(name);
        assert!(
            said.contains("is the root cgroup, which all processes here are in; watch"),
            "{name}: {said}"
        );
    }
    assert!(find("/sys/fs").starts_with("no cgroup"), "it holds no trees of version 1");
}

#[test]
fn a_pod_is_found_by_its_name_in_the_cluster_and_not_by_the_logs_of_a_replaced_one() {
    let m = Made::new();
    let (uid, gone) = ("3f2a9c1e-1b2c-4d5e-8f90-a1b2c3d4e5f6", "0f2a9c1e-1b2c-4d5e-8f90-a1b2c3d4e5f6");
    let pod = format!("/kubepods/burstable/pod{uid}");
    m.cgroup(&format!("{pod}/{}", "c".repeat(64)));
    for uid in [uid, gone] {
        m.put(&format!("/var/log/pods/shop_web-0_{uid}/web/0.log"), "");
    }
    for name in ["pod shop/web-0", "shop/web-0", "pod 3f2a9c1e", &format!("pod:{uid}")] {
        assert_eq!(path_of(Subject::cgroup(&m.root(), name)), pod, "{name}");
    }
    assert!(Subject::cgroup(&m.root(), "pod shop/web-1").is_err());
}

#[test]
fn a_cgroup_of_the_v2_tree_has_its_id_and_one_of_a_v1_tree_has_none() {
    let m = Made::new();
    m.cgroup("/a");
    m.put("/cgroup/systemd/b/tasks", "");
    let of = |name: &str| match Subject::cgroup(&m.root(), name).unwrap() {
        Subject::Cgroup { v2_id, mount, .. } => (v2_id.is_some(), mount),
        other => panic!("{other:?}"),
    };
    assert_eq!(of("/a"), (true, "/sys/fs/cgroup".into()));
    assert_eq!(of("/b"), (false, "/cgroup/systemd".into()));
}

#[test]
fn the_processes_of_a_cgroup_are_its_own_and_those_below_it() {
    let m = Made::new();
    m.put("/sys/fs/cgroup/web/cgroup.procs", "7\n0\n");
    m.put("/sys/fs/cgroup/web/worker/cgroup.procs", "12\n13\n");
    let web = Subject::cgroup(&m.root(), "/web").unwrap();
    assert_eq!(web.in_cgroup(&m.root()).unwrap(), Some(vec![7, 12, 13]));
    assert_eq!(Subject::All.in_cgroup(&m.root()).unwrap(), None);
}

#[test]
fn a_cgroup_that_is_empty_goes_on_and_one_that_was_removed_is_over() {
    let m = Made::new();
    m.put("/sys/fs/cgroup/a/cgroup.events", "populated 0\nfrozen 0\n");
    m.put("/cgroup/systemd/b/cgroup.procs", "");
    m.put("/cgroup/systemd/b/c/cgroup.procs", "7\n");
    let [a, b] = ["/a", "/b"].map(|name| Subject::cgroup(&m.root(), name).unwrap());
    let is = |subject: &Subject| (subject.is_deserted(&m.root()), subject.is_removed(&m.root()));
    assert_eq!([is(&a), is(&b)], [(true, false), (false, false)], "who is below it is in it");
    m.put("/sys/fs/cgroup/a/cgroup.events", "populated 1\nfrozen 0\n");
    m.put("/cgroup/systemd/b/c/cgroup.procs", "");
    assert_eq!([is(&a), is(&b)], [(false, false), (true, false)]);
    std::fs::remove_dir_all(m.root().path("/sys/fs/cgroup/a")).unwrap();
    std::fs::remove_dir_all(m.root().path("/cgroup/systemd/b")).unwrap();
    assert!([&a, &b].iter().all(|subject| subject.is_removed(&m.root())));
    assert!(!Subject::All.is_removed(&m.root()));
}

#[test]
fn a_name_that_several_cgroups_end_with_lists_them() {
    let m = Made::new();
    m.cgroup("/a/jobs");
    m.cgroup("/b/jobs/jobs");
    assert_eq!(
        path_of(Subject::cgroup(&m.root(), "jobs")),
        "`jobs` could be any of /a/jobs, /b/jobs; give the whole path"
    );
    let e = path_of(Subject::cgroup(&m.root(), "nothing"));
    assert_eq!(e, "no cgroup `nothing`; `find /sys/fs/cgroup -type d` lists them", "v2's, which tells most");
    m.put("/usr/bin/systemd-cgls", "");
    let e = path_of(Subject::cgroup(&m.root(), "nothing"));
    assert_eq!(e, "no cgroup `nothing`; `systemd-cgls` or `find /sys/fs/cgroup -type d` lists them");
    // Ten trees in one folder are not named one by one.
    let v1 = |(at, name): (usize, &str)| {
        format!("{} 23 0:27 / /sys/fs/cgroup/{name} rw - cgroup cgroup rw,{name}\n", 40 + at)
    };
    let mounts: String = ["cpu", "memory", "pids"].into_iter().enumerate().map(v1).collect();
    m.put("/proc/self/mountinfo", &mounts);
    for tree in ["cpu", "memory", "pids"] {
        m.put(&format!("/sys/fs/cgroup/{tree}/tasks"), "");
    }
    let e = path_of(Subject::cgroup(&m.root(), "nothing"));
    assert!(e.ends_with("`find /sys/fs/cgroup -type d` lists them"), "{e}");
    m.put("/proc/self/mountinfo", "");
    let e = path_of(Subject::cgroup(&m.root(), "x"));
    assert!(e.starts_with("no cgroup tree is mounted here"), "{e}");
}

#[test]
fn a_virtual_machine_is_found_by_name_or_pid_and_its_vcpus_are_apart_from_its_io() {
    let m = Made::new();
    m.process(
        50,
        'S',
        &["qemu-system-x86_64", "-name", "guest=vm1,debug-threads=on", "-m", "64"],
        &[
            (50, "qemu-system-x86"),
            (51, "call_rcu"),
            (52, "CPU 0/KVM"),
            (53, "CPU 1/KVM"),
            (54, "IO mon_iothread"),
        ],
    );
    m.process(60, 'S', &["qemu-system-x86_64"], &[(60, "qemu-system-x86"), (61, "qemu-system-x86")]);
    m.process(70, 'S', &[], &[(70, "vhost-50")]);
    let expected = Subject::Vm { pid: 50, name: "vm1".into(), vcpus: vec![52, 53], io: vec![50, 51, 54, 70] };
    assert_eq!(Subject::vm(&m.root(), "vm1").unwrap(), expected);
    assert_eq!(Subject::vm(&m.root(), "50").unwrap(), expected);
    let e = |name: &str| Subject::vm(&m.root(), name).unwrap_err().to_string();
    assert_eq!(e("web"), "no virtual machine `web` runs here; running: vm1 (PID 50)");
    assert!(e("60").starts_with("process 60 (qemu-system-x86) has no thread named as a vCPU"), "{}", e("60"));
    assert_eq!(e("99"), "no process 99; `ps -e` lists them");
    m.process(80, 'S', &["qemu", "-name", "vm1"], &[(80, "qemu"), (81, "CPU 0/TCG")]);
    assert_eq!(e("vm1"), "2 processes run a virtual machine `vm1`; give one of their PIDs: 50, 80");
}

#[test]
fn guests_have_the_names_that_qemu_was_given() {
    let name =
        |args: &[&str]| crate::program::guest(&args.iter().map(|a| (*a).to_owned()).collect::<Vec<_>>());
    assert_eq!(name(&["q", "-name", "vm1,debug-threads=on"]).as_deref(), Some("vm1"));
    assert_eq!(name(&["q", "-name", "debug-threads=on,guest=a,,b"]).as_deref(), Some("a,b"));
    assert_eq!(name(&["q", "-name", "debug-threads=on"]), None);
    assert_eq!(name(&["q", "-name"]), None);
}

#[test]
fn threads_are_vcpus_only_by_their_names() {
    for yes in ["CPU 0/KVM", "CPU 12/TCG", "ALL CPUs/TCG", "fc_vcpu 3", "vcpu1"] {
        assert!(is_vcpu(yes), "{yes}");
    }
    for no in ["CPU /KVM", "CPU x/KVM", "CPU 0/0", "qemu-system-x86", "vcpu", "worker", "fc_vcpu"] {
        assert!(!is_vcpu(no), "{no}");
    }
}

#[test]
fn a_command_is_named_without_its_folder() {
    assert_eq!(Subject::command(1, "/usr/bin/make").tenant().unwrap().name, "make");
    assert_eq!(Subject::command(1, "./").tenant().unwrap().name, "./");
}
