//! Paths in the form that each manager writes, and proof that no path can upset the reader.

use super::*;
use proptest::prelude::*;
use TenantKind::*;

const ID: &str = "4f5c6a7b8c9d0e1f2a3b4c5d6e7f8091a2b3c4d5e6f70819a2b3c4d5e6f70819";

/// Path (`<ID>` stands for a container id), then kind, key and name; `None` for a path that names no tenant.
type Row = (&'static str, Option<(TenantKind, &'static str, &'static str)>);

const PATHS: &[Row] = &[
    // systemd
    ("/system.slice/nginx.service", Some((Unit, "unit:/system.slice/nginx.service", "nginx.service"))),
    (
        "/system.slice/nginx.service/workers",
        Some((Unit, "unit:/system.slice/nginx.service", "nginx.service")),
    ),
    (
        r"/system.slice/system-getty.slice/getty@tty1.service",
        Some((Unit, "unit:/system.slice/system-getty.slice/getty@tty1.service", "getty@tty1.service")),
    ),
    (
        r"/system.slice/dev-disk-by\x2duuid.service",
        Some((Unit, r"unit:/system.slice/dev-disk-by\x2duuid.service", "dev-disk-by-uuid.service")),
    ),
    ("/batch.slice", Some((Unit, "unit:/batch.slice", "batch.slice"))),
    ("/batch.slice/jobs", Some((Unit, "unit:/batch.slice", "batch.slice"))),
    (
        "/user.slice/user-1000.slice/user@1000.service/app.slice/app-firefox-4242.scope",
        Some((
            Unit,
            "unit:/user.slice/user-1000.slice/user@1000.service/app.slice/app-firefox-4242.scope",
            "app-firefox-4242.scope",
        )),
    ),
    ("/system.slice/docker.service", Some((Unit, "unit:/system.slice/docker.service", "docker.service"))),
    // not telling
    ("", None),
    ("/", None),
    ("/init.scope", None),
    ("/../..", None),
    ("/system.slice", None),
    ("/user.slice/user-1000.slice", None),
    ("/user.slice/user-1000.slice/session-3.scope", None),
    ("/user.slice/user-1000.slice/user@1000.service/init.scope", None),
    ("/user.slice/user-1000.slice/user@1000.service/app.slice/vte-spawn-1b9f.scope", None),
    // containers
    ("/docker/<ID>", Some((Container, "container:<ID>", "docker 4f5c6a7b8c9d"))),
    ("/../docker/<ID>", Some((Container, "container:<ID>", "docker 4f5c6a7b8c9d"))),
    ("/docker/<ID>/system.slice/nginx.service", Some((Container, "container:<ID>", "docker 4f5c6a7b8c9d"))),
    ("/docker/buildkit/<ID>", Some((Container, "container:<ID>", "docker 4f5c6a7b8c9d"))),
    ("/system.slice/docker-<ID>.scope", Some((Container, "container:<ID>", "docker 4f5c6a7b8c9d"))),
    ("/system.slice/docker-<ID>.scope (deleted)", Some((Container, "container:<ID>", "docker 4f5c6a7b8c9d"))),
    (
        "/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-<ID>.scope/container",
        Some((Container, "container:<ID>", "podman 4f5c6a7b8c9d")),
    ),
    ("/machine.slice/libpod-<ID>.scope", Some((Container, "container:<ID>", "podman 4f5c6a7b8c9d"))),
    ("/libpod_parent/libpod-<ID>", Some((Container, "container:<ID>", "podman 4f5c6a7b8c9d"))),
    ("/default/<ID>", Some((Container, "container:<ID>", "containerd 4f5c6a7b8c9d"))),
    ("/system.slice/cri-containerd-<ID>.scope", Some((Container, "container:<ID>", "containerd 4f5c6a7b8c9d"))),
    ("/system.slice:cri-containerd:<ID>", Some((Container, "container:<ID>", "containerd 4f5c6a7b8c9d"))),
    ("/system.slice/crio-<ID>.scope", Some((Container, "container:<ID>", "cri-o 4f5c6a7b8c9d"))),
    ("/ecs/a1b2c3/<ID>", Some((Container, "container:<ID>", "container 4f5c6a7b8c9d"))),
    (
        "/machine.slice/libpod-conmon-<ID>.scope",
        Some((Unit, "unit:/machine.slice/libpod-conmon-<ID>.scope", "libpod-conmon-<ID>.scope")),
    ),
    ("/lxc/web", Some((Container, "lxc:web", "lxc web"))),
    ("/lxc/101/ns/system.slice/cron.service", Some((Container, "lxc:101", "lxc 101"))),
    ("/lxc.payload.web/init.scope", Some((Container, "lxc:web", "lxc web"))),
    ("/lxc.payload/web", Some((Container, "lxc:web", "lxc web"))),
    ("/lxc.monitor.web", Some((Cgroup, "cgroup:/lxc.monitor.web", "lxc.monitor.web"))),
    ("/machine.slice/machine-deb.scope/payload", Some((Container, "machine:deb", "deb"))),
    ("/machine.slice/systemd-nspawn@deb.service/payload", Some((Container, "machine:deb", "deb"))),
    // Kubernetes, both drivers, all three classes, several runtimes
    (
        "/kubepods/burstable/pod3f2a9c1e-1b2c-4d5e-8f90-a1b2c3d4e5f6/<ID>",
        Some((Pod, "pod:3f2a9c1e-1b2c-4d5e-8f90-a1b2c3d4e5f6", "pod 3f2a9c1e")),
    ),
    (
        "/kubepods/pod3f2a9c1e-1b2c-4d5e-8f90-a1b2c3d4e5f6",
        Some((Pod, "pod:3f2a9c1e-1b2c-4d5e-8f90-a1b2c3d4e5f6", "pod 3f2a9c1e")),
    ),
    (
        "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod3f2a9c1e_1b2c_4d5e_8f90_a1b2c3d4e5f6.slice/cri-containerd-<ID>.scope",
        Some((Pod, "pod:3f2a9c1e-1b2c-4d5e-8f90-a1b2c3d4e5f6", "pod 3f2a9c1e")),
    ),
    (
        "/kubepods.slice/kubepods-pod3f2a9c1e_1b2c_4d5e_8f90_a1b2c3d4e5f6.slice/crio-<ID>.scope",
        Some((Pod, "pod:3f2a9c1e-1b2c-4d5e-8f90-a1b2c3d4e5f6", "pod 3f2a9c1e")),
    ),
    (
        "/system.slice/containerd.service/kubepods-burstable-pod3f2a9c1e_1b2c_4d5e_8f90_a1b2c3d4e5f6.slice:cri-containerd:<ID>",
        Some((Pod, "pod:3f2a9c1e-1b2c-4d5e-8f90-a1b2c3d4e5f6", "pod 3f2a9c1e")),
    ),
    (
        "/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod0123456789abcdef0123456789abcdef.slice/cri-containerd-<ID>.scope",
        Some((Pod, "pod:0123456789abcdef0123456789abcdef", "pod 0123456789ab")),
    ),
    // Slurm
    ("/slurm/uid_0/job_123/step_0/task_1", Some((SlurmStep, "slurm:123.0", "slurm 123.0"))),
    ("/slurm_node7/uid_1000/job_9/step_batch", Some((SlurmStep, "slurm:9.batch", "slurm 9.batch"))),
    (
        "/system.slice/slurmstepd.scope/job_123/step_batch/user/task_0",
        Some((SlurmStep, "slurm:123.batch", "slurm 123.batch")),
    ),
    (
        "/system.slice/node7_slurmstepd.scope/job_123/step_extern",
        Some((SlurmStep, "slurm:123.extern", "slurm 123.extern")),
    ),
    ("/slurm/uid_0/job_123", Some((SlurmStep, "slurm:123", "slurm 123"))),
    // virtual machines
    (r"/machine.slice/machine-qemu\x2d1\x2dvm1.scope", Some((Vm, "vm:vm1", "vm1"))),
    (r"/machine.slice/machine-qemu\x2d12\x2dweb\x2d01.scope/libvirt/vcpu0", Some((Vm, "vm:web-01", "web-01"))),
    (
        r"/machine.slice/machine-qemu\x2d1\x2dvm1.scope/libvirt/emulator",
        Some((VmIo, "vm-io:vm1", "vm1 (I/O)")),
    ),
    ("/machine/qemu-3-db.libvirt-qemu/vcpu1", Some((Vm, "vm:db", "db"))),
    ("/qemu.slice/100.scope", Some((Vm, "vm:100", "100"))),
    (r"/machine.slice/machine-lxc\x2d7\x2dbox.scope", Some((Container, "machine:box", "box"))),
    // anything else
    ("/experiments/a", Some((Cgroup, "cgroup:/experiments/a", "experiments/a"))),
];

#[test]
fn paths_get_the_names_that_people_know() {
    let fill = |text: &str| text.replace("<ID>", ID);
    for (path, expected) in PATHS {
        let got = of_cgroup(&fill(path)).map(|t| (t.kind, t.key, t.name));
        assert_eq!(got, expected.map(|(kind, key, name)| (kind, fill(key), fill(name))), "{path}");
    }
}

#[test]
fn what_lies_below_the_tenant_is_kept_as_detail() {
    let detail = |path: &str| of_cgroup(&path.replace("<ID>", ID)).unwrap().detail;
    let pod = "/kubepods/pod3f2a9c1e-1b2c-4d5e-8f90-a1b2c3d4e5f6";
    assert_eq!(detail(&format!("{pod}/<ID>")).as_deref(), Some("4f5c6a7b8c9d"));
    assert_eq!(detail(pod), None);
    assert_eq!(detail("/slurm/uid_0/job_1/step_0/task_3").as_deref(), Some("task 3"));
}

#[test]
fn escapes_are_undone_and_other_text_is_left_alone() {
    assert_eq!(unescape(r"machine-qemu\x2d1\x2dvm1.scope"), "machine-qemu-1-vm1.scope");
    for plain in [r"a\x", r"a\xg1", r"a\x2", "a", "", r"\\"] {
        assert_eq!(unescape(plain), plain);
    }
}

#[test]
fn kernel_threads_that_work_for_others_have_separate_names() {
    assert_eq!(of_kernel_thread("ksoftirqd/1").name, "kernel (softirq)");
    assert_eq!(of_kernel_thread("kworker/0:1-events").name, "kernel (workqueues)");
    assert_eq!(of_kernel_thread("kswapd0").name, "kernel");
}

/// Segments that resemble those of the managers, in any order and depth.
fn segment() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z0-9@:._-]{1,12}",
        "[a-z]{1,8}\\.(slice|service|scope)",
        "(docker-|libpod-|crio-|cri-containerd-|)[0-9a-f]{63,65}(\\.scope|)",
        "(kubepods-burstable-|)pod[0-9a-f]{8}[-_][0-9a-f]{4}[-_][0-9a-f]{20}(\\.slice|)",
        "(kubepods|kubepods.slice|slurm|slurmstepd.scope|machine.slice|lxc|user.slice)",
        "(job|step|task)_[0-9a-z]{0,6}",
        "machine-qemu(-|\\\\x2d)[0-9]{1,2}(-|\\\\x2d)[a-z]{1,5}\\.scope",
        "\\PC{0,40}",
    ]
}

proptest! {
    #[test]
    fn any_path_gets_one_name_that_extra_slashes_do_not_change(segments in proptest::collection::vec(segment(), 0..7)) {
        let path = format!("/{}", segments.join("/"));
        let tenant = of_cgroup(&path);
        prop_assert_eq!(&tenant, &of_cgroup(&path.replace('/', "//")));
        prop_assert_eq!(&tenant, &of_cgroup(&format!("/..{path}")));
        if let Some(t) = tenant {
            prop_assert!(!t.key.is_empty() && !t.name.is_empty());
        }
    }

    #[test]
    fn a_container_is_found_by_its_whole_id_wherever_it_is(
        above in proptest::collection::vec("[a-z]{1,9}(\\.slice)?", 0..4),
        runtime in "(docker-|crio-|libpod-|)",
        id in "[0-9a-f]{64}",
        below in proptest::collection::vec("[a-z]{1,9}(\\.service)?", 0..3),
    ) {
        let above = above.into_iter().filter(|s| !["lxc", "slurm"].contains(&s.as_str()));
        let path: Vec<String> = above.chain([format!("{runtime}{id}")]).chain(below).collect();
        let tenant = of_cgroup(&path.join("/")).unwrap();
        prop_assert_eq!(tenant.key, format!("container:{id}"));
    }

    #[test]
    fn two_pods_never_share_a_key(a in "[0-9a-f]{32}", b in "[0-9a-f]{32}") {
        let key = |uid: &str| of_cgroup(&format!("/kubepods/pod{uid}")).unwrap().key;
        prop_assert_eq!(key(&a) == key(&b), a == b);
    }

    #[test]
    fn escaping_any_name_and_undoing_it_gives_the_name_back(name in "[a-z0-9 /@-]{0,20}") {
        let escaped: String = name
            .bytes()
            .map(|b| if b.is_ascii_alphanumeric() { char::from(b).to_string() } else { format!("\\x{b:02x}") })
            .collect();
        prop_assert_eq!(unescape(&escaped), name);
    }
}
