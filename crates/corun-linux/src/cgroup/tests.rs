//! Trees as distributions mount them.

use super::quota::{Quota, Throttling};
use super::*;
use corun_model::TenantKind;
use std::fs;
use tempfile::TempDir;

fn put(dir: &TempDir, file: &str, text: &str) {
    let path = Root::new(dir.path()).path(file);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

const UNIFIED: &str = "\
24 23 0:22 / /proc rw,nosuid - proc proc rw
30 23 0:26 / /sys/fs/cgroup rw,nosuid,nodev,noexec,relatime shared:4 - cgroup2 cgroup2 rw,nsdelegate
";
const HYBRID: &str = "\
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct
37 31 0:34 / /sys/fs/cgroup/freezer rw,relatime - cgroup cgroup rw,freezer
40 31 0:37 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,xattr,name=systemd
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
";

fn machine(mountinfo: &str) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    put(&dir, "/proc/self/mountinfo", mountinfo);
    dir
}

fn cgroups(dir: &TempDir) -> Cgroups {
    Cgroups::discover(&Root::new(dir.path())).unwrap()
}

#[test]
fn a_unified_machine_has_one_tree_with_its_controllers() {
    let dir = machine(UNIFIED);
    put(&dir, "/sys/fs/cgroup/cgroup.controllers", "cpuset cpu io memory pids\n");
    let all = cgroups(&dir);
    assert_eq!(all.trees().len(), 1);
    let v2 = all.v2().unwrap();
    assert!(v2.has_controller("cpu") && !v2.has_controller("freezer"));
    assert_eq!(all.with_controller("cpu"), Some(v2));
    assert_eq!(v2.folder("/system.slice").unwrap(), Path::new("/sys/fs/cgroup/system.slice"));
}

#[test]
fn a_hybrid_machine_has_the_v2_tree_apart_and_the_cpu_controller_in_v1() {
    let dir = machine(HYBRID);
    put(&dir, "/sys/fs/cgroup/unified/cgroup.controllers", "\n");
    let all = cgroups(&dir);
    assert_eq!(all.v2().unwrap().mount, Path::new("/sys/fs/cgroup/unified"));
    let cpu = all.with_controller("cpu").unwrap();
    assert!(!cpu.is_v2() && cpu.has_controller("cpuacct"));
    assert_eq!(all.by_telling()[1].mount, Path::new("/sys/fs/cgroup/systemd"));
}

#[test]
fn a_container_sees_only_its_own_part_of_a_tree() {
    let dir = machine(
        "50 49 0:26 /docker/abc /sys/fs/my\\040cgroup ro,nosuid - cgroup cgroup rw,cpu\n\
         51 49 0:26 /docker/abc /elsewhere ro,nosuid - cgroup cgroup rw,cpu\n",
    );
    let all = cgroups(&dir);
    assert_eq!(all.trees().len(), 1, "one tree mounted twice counts once");
    let tree = all.with_controller("cpu").unwrap();
    assert_eq!(tree.folder("/docker/abc/x").unwrap(), Path::new("/sys/fs/my cgroup/x"));
    assert_eq!(tree.folder("/docker/abcd"), None);
}

#[test]
fn a_machine_without_cgroups_has_no_tree() {
    let all = cgroups(&machine("24 23 0:22 / /proc rw - proc proc rw\n"));
    assert!(all.trees().is_empty() && all.quotas().unwrap().is_empty());
}

#[test]
fn a_task_is_named_after_the_first_tree_that_identifies_it() {
    let m = Membership::parse(
        "9:name=systemd:/system.slice/cron.service\n2:cpu,cpuacct:/\n1:memory:/x/y\n0::/\n",
    );
    assert_eq!((m.v2(), m.v1("cpuacct"), m.v1("freezer")), (Some("/"), Some("/"), None));
    assert_eq!(m.tenant().unwrap().name, "cron.service");
    let m = Membership::parse("2:cpu:/\n1:memory:/x/y\n0::/user.slice/user-0.slice/session-1.scope\n");
    assert_eq!(m.tenant().unwrap().key, "cgroup:/x/y", "the only one that tells");
    let surroundings = Membership::parse("2:cpu:/z\n1:memory:/x/y\n0::/\n");
    assert_eq!(m.tenant_seen_from(&surroundings), None, "whoever looks is in it as well");
    assert_eq!(Membership::parse("0::/a:b (deleted)\n").v2(), Some("/a:b"));
    assert_eq!(Membership::parse("nonsense\n\n"), Membership::default());
}

#[test]
fn if_v1_and_v2_are_mixed_the_tree_that_has_containers_names_them() {
    let id = "0123456789abcdef".repeat(4);
    let of = |systemd: &str, v2: &str| {
        Membership::parse(&format!("4:cpu,cpuacct:{systemd}\n1:name=systemd:{systemd}\n0::{v2}\n"))
            .tenant()
            .unwrap()
    };
    let contained = of(&format!("/docker/{id}"), "/system.slice/containerd.service");
    assert_eq!((contained.kind, contained.name.as_str()), (TenantKind::Container, "docker 0123456789ab"));
    let daemon = of("/system.slice/containerd.service", "/system.slice/containerd.service");
    assert_eq!((daemon.kind, daemon.name.as_str()), (TenantKind::Unit, "containerd.service"));
    let pod = format!("/kubepods/burstable/pod0123456789abcdef0123456789abcdef/{id}");
    assert_eq!(of(&pod, &format!("/docker/{id}")).kind, TenantKind::Pod);
    // Of two that only give a location, the one in the v2 tree.
    assert_eq!(of("/system.slice/ci.service", "/mine").key, "cgroup:/mine");
}

#[test]
fn ids_are_inodes_and_lead_back_to_paths() {
    let dir = machine(UNIFIED);
    put(&dir, "/sys/fs/cgroup/cgroup.controllers", "cpu\n");
    put(&dir, "/sys/fs/cgroup/a/b/cgroup.procs", "12\n7\n");
    put(&dir, "/sys/fs/cgroup/a/cgroup.procs", "12\n0\n");
    let all = cgroups(&dir);
    let v2 = all.v2().unwrap();
    let nodes = all.walk(v2).unwrap();
    assert_eq!(nodes.iter().map(|n| n.path.as_str()).collect::<Vec<_>>(), ["/", "/a", "/a/b"]);
    for node in &nodes {
        assert_eq!(all.id(v2, &node.path).unwrap(), node.id);
    }
    assert!(all.id(v2, "/c").unwrap_err().is_gone());
    assert_eq!(all.processes(v2, "/a").unwrap(), [7, 12]);
}

#[test]
fn quotas_are_found_in_both_generations() {
    let v2 = machine(UNIFIED);
    put(&v2, "/sys/fs/cgroup/cgroup.controllers", "cpu\n");
    put(&v2, "/sys/fs/cgroup/free/cpu.max", "max 100000\n");
    assert!(cgroups(&v2).quotas().unwrap().is_empty());
    put(&v2, "/sys/fs/cgroup/bound/cpu.max", "20000 100000\n");
    put(
        &v2,
        "/sys/fs/cgroup/bound/cpu.stat",
        "usage_usec 9\nnr_periods 5\nnr_throttled 4\nthrottled_usec 321\n",
    );
    let all = cgroups(&v2);
    let bound = Quota { path: "/bound".into(), quota_ns: 20_000_000, period_ns: 100_000_000 };
    assert!(!all.quotas().unwrap().is_empty());
    assert_eq!(all.quotas().unwrap(), [bound]);
    let seen = all.throttling(all.v2().unwrap(), "/bound").unwrap();
    assert_eq!(seen, Some(Throttling { periods: 5, throttled_periods: 4, throttled_ns: 321_000 }));
    assert_eq!(all.throttling(all.v2().unwrap(), "/free").unwrap(), None);

    let v1 = machine(HYBRID);
    for (group, quota) in [("free", "-1\n"), ("bound", "50000\n")] {
        put(&v1, &format!("/sys/fs/cgroup/cpu,cpuacct/{group}/cpu.cfs_quota_us"), quota);
        put(&v1, &format!("/sys/fs/cgroup/cpu,cpuacct/{group}/cpu.cfs_period_us"), "100000\n");
        put(
            &v1,
            &format!("/sys/fs/cgroup/cpu,cpuacct/{group}/cpu.stat"),
            "nr_periods 5\nnr_throttled 4\nthrottled_time 321\n",
        );
    }
    let all = cgroups(&v1);
    assert_eq!(all.quotas().unwrap().iter().map(|q| q.quota_ns).collect::<Vec<_>>(), [50_000_000]);
    let cpu = all.with_controller("cpu").unwrap();
    assert_eq!(all.throttling(cpu, "/bound").unwrap().unwrap().throttled_ns, 321);
}

#[test]
fn a_quota_file_with_nonsense_is_named() {
    let v2 = machine(UNIFIED);
    put(&v2, "/sys/fs/cgroup/cgroup.controllers", "cpu\n");
    put(&v2, "/sys/fs/cgroup/bad/cpu.max", "lots\n");
    let e = cgroups(&v2).quotas().unwrap_err().to_string();
    assert!(e.contains("bad/cpu.max holds `lots`, which is not a quota and a period"), "{e}");
}

#[test]
fn a_path_is_within_itself_and_its_ancestors_but_not_its_namesakes() {
    assert!(is_within("/a/b", "/a") && is_within("/a", "/a") && is_within("/a", "/"));
    assert!(!is_within("/ab", "/a") && !is_within("/a", "/a/b"));
}

#[test]
fn this_machines_trees_can_be_read() {
    let all = Cgroups::discover(&Root::new("/")).unwrap();
    for tree in all.trees() {
        assert!(!all.walk(tree).unwrap().is_empty());
    }
    Membership::read(&Root::new("/"), "/proc/self").unwrap();
}

#[test]
fn a_name_that_is_not_utf8_is_the_folder_that_is_shown_so() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join(OsStr::from_bytes(b"gr\xffp")).join("job");
    fs::create_dir_all(&folder).unwrap();
    let version = Version::V1 { controllers: vec!["freezer".into()] };
    let tree = Tree { version, mount: dir.path().to_owned(), mounted: "/".into() };
    assert_eq!(tree.folder("/gr\u{fffd}p/job"), Some(folder));
    let gone = tree.folder("/gr\u{fffd}x/job").unwrap();
    assert!(!gone.exists() && gone.ends_with("job"));
}
