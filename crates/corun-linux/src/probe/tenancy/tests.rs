//! Tests of naming: the owner of a task, and the names of jobs and watched commands.

use super::*;
use crate::cgroup::Cgroups;
use crate::naming::TRANSIENT_PREFIX;
use std::fs;
use std::path::Path;

/// A machine in a folder, with a v2 tree and v1 trees of two controllers.
struct Machine {
    _folder: tempfile::TempDir,
    root: Root,
    cgroups: Cgroups,
}

const V1: [(&str, u64); 2] = [("cpu", 1), ("memory", 2)];

impl Machine {
    fn new() -> Machine {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path());
        let mounts =
            "30 23 0:26 / /cg/v2 rw - cgroup2 cgroup2 rw\n31 23 0:27 / /cg/cpu rw - cgroup cgroup rw,cpu\n\
                      32 23 0:28 / /cg/memory rw - cgroup cgroup rw,memory\n";
        put(&root, "/proc/self/mountinfo", mounts);
        put(&root, "/proc/self/cgroup", "2:memory:/here\n1:cpu:/\n0::/\n");
        for tree in ["v2", "cpu", "memory"] {
            fs::create_dir_all(root.path(format!("/cg/{tree}"))).unwrap();
        }
        let cgroups = Cgroups::discover(&root).unwrap();
        Machine { _folder: folder, root, cgroups }
    }

    /// A group in these cgroups, with its process group and the name of its leader.
    fn group(&self, v2: &str, v1: &[(&str, &str)], pgid: u32, called: &str) -> GroupRec {
        let mut rec = GroupRec::default();
        (rec.tid, rec.tgid, rec.key.pgid) = (pgid, pgid, pgid);
        rec.comm[..called.len()].copy_from_slice(called.as_bytes());
        rec.key.at.cgroup = self.id("v2", v2);
        for (n, (controller, path)) in v1.iter().enumerate() {
            let number = V1.iter().find(|(name, _)| name == controller).unwrap().1;
            rec.v1[n] = number << 56 | self.id(controller, path);
            rec.key.at.v1 = rec.key.at.v1.wrapping_mul(31) ^ rec.v1[n];
        }
        rec
    }

    fn id(&self, tree: &str, path: &str) -> u64 {
        fs::create_dir_all(self.root.path(format!("/cg/{tree}{path}"))).unwrap();
        let tree = self.cgroups.trees().iter().find(|t| t.mount.ends_with(tree)).unwrap();
        self.cgroups.id(tree, path).unwrap()
    }
}

fn put(root: &Root, file: &str, text: &str) {
    let path = root.path(file);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn key_and_name(tenancy: &mut Tenancy, rec: &GroupRec) -> (String, String) {
    let group = tenancy.named() as u32;
    tenancy.learn(&[*rec]);
    let tenant = tenancy.tenant(tenancy.of(group)).unwrap();
    (tenant.key.clone(), tenant.name.clone())
}

#[test]
fn the_most_specific_cgroup_names_the_owner_of_a_task_otherwise_its_process_group_does() {
    let m = Machine::new();
    let (a, b) = ("a".repeat(64), "b".repeat(64));
    let docker = |id: &str| format!("/docker/{id}");
    let pod = format!("/kubepods/burstable/pod0123456789abcdef0123456789abcdef/{a}");
    let emulator = "/machine/qemu-1-web.libvirt-qemu/emulator";
    let vcpu = "/machine/qemu-1-web.libvirt-qemu/vcpu0";
    let (in_a, in_b) = (format!("container:{a}"), format!("container:{b}"));
    let session = "/user.slice/user-0.slice/session-1.scope";
    // v2, cpu, memory; the tenant's key.
    let cases: &[(&str, &str, &str, &str)] = &[
        ("/", "/", "/", "pgid:70"),
        ("/build", "/", "/", "cgroup:/build"),
        ("/", "/build", "/", "cgroup:/build"),
        ("/", "/", "/build", "cgroup:/build"),
        ("/", "/", "/build/job/1", "cgroup:/build/job/1"),
        // A deeper cgroup is more specific, in whichever tree; otherwise the first tree wins.
        ("/build", "/", "/build/job", "cgroup:/build/job"),
        ("/build/job", "/build", "/", "cgroup:/build/job"),
        ("/x", "/y", "/z", "cgroup:/x"),
        ("/", "/y", "/z", "cgroup:/y"),
        // A cgroup that also contains this process is its surroundings.
        ("/", "/", "/here", "pgid:70"),
        ("/", "/", "/here/job", "cgroup:/here/job"),
        // Managers of containers, pods and machines know what belongs together, in any tree.
        ("/", &docker(&a), "/", &in_a),
        ("/", "/", &docker(&b), &in_b),
        ("/system.slice/docker.service", &docker(&a), &docker(&a), &in_a),
        (&docker(&b), "/", &pod, "pod:0123456789abcdef0123456789abcdef"),
        ("/", emulator, "/", "vm-io:web"),
        ("/", vcpu, "/machine/qemu-1-web.libvirt-qemu", "vm:web"),
        ("/system.slice/web.service", "/", "/", "unit:/system.slice/web.service"),
        (session, "/", "/", "pgid:70"),
        ("/init.scope", "/", "/build", "cgroup:/build"),
    ];
    let mut tenancy = Tenancy::new(&m.root);
    for (v2, cpu, memory, key) in cases {
        let v1 = [("cpu", *cpu), ("memory", *memory)];
        let told = key_and_name(&mut tenancy, &m.group(v2, &v1, 70, "job")).0;
        assert_eq!(told, *key, "{v2} {cpu} {memory}");
    }
}

#[test]
fn a_pod_has_its_name_in_the_cluster_under_every_runtime_and_driver() {
    let m = Machine::new();
    let id = "c".repeat(64);
    let uid = |n: u32| format!("3f2a9c1e-1b2c-4d5e-8f90-00000000000{n}");
    let slice = |n: u32| format!("kubepods-burstable-pod{}.slice", uid(n).replace('-', "_"));
    let above = "/kubepods.slice/kubepods-burstable.slice";
    // containerd and CRI-O, with the drivers cgroupfs and systemd, in v2 and in v1.
    let cases = [
        (format!("/kubepods/burstable/pod{}/{id}", uid(1)), "/".to_owned()),
        ("/".to_owned(), format!("/kubepods/burstable/pod{}/{id}", uid(2))),
        (format!("{above}/{}/cri-containerd-{id}.scope", slice(3)), "/".to_owned()),
        ("/".to_owned(), format!("{above}/{}/crio-{id}.scope", slice(4))),
        ("/system.slice/containerd.service".to_owned(), format!("{above}/{}/crio-{id}.scope", slice(5))),
    ];
    let mut tenancy = Tenancy::new(&m.root);
    for (n, (v2, cpu)) in (1..).zip(&cases) {
        put(&m.root, &format!("/var/log/pods/shop_web-{n}_{}/web/0.log", uid(n)), "");
        let told = key_and_name(&mut tenancy, &m.group(v2, &[("cpu", cpu)], 70, "web"));
        assert_eq!(told, (format!("pod:{}", uid(n)), format!("pod shop/web-{n}")), "{v2} {cpu}");
    }
}

#[test]
fn a_process_group_is_one_tenant_whatever_it_runs_and_is_named_after_its_script_or_program() {
    let m = Machine::new();
    put(&m.root, "/proc/70/cmdline", "bash\0/opt/build.sh\0");
    let mut tenancy = Tenancy::new(&m.root);
    let names = [(70, "bash"), (70, "bash"), (71, "timeout"), (72, "setsid")];
    let told = names.map(|(pgid, comm)| key_and_name(&mut tenancy, &m.group("/", &[], pgid, comm)));
    let told: Vec<(&str, &str)> = told.iter().map(|(k, n)| (k.as_str(), n.as_str())).collect();
    assert_eq!(
        told,
        [("pgid:70", "build.sh"), ("pgid:70", "build.sh"), ("pgid:71", "timeout"), ("pgid:72", "setsid")]
    );
    // Its leader executes another program.
    let mut comm = [0; 16];
    comm[..3].copy_from_slice(b"job");
    let last = tenancy.named() as u32 - 1;
    tenancy.call_anew(&[], |group| if group == last { comm } else { tenancy_comm(group) });
    assert_eq!(tenancy.tenant(tenancy.of(last)).unwrap().name, "job");
}

#[test]
fn a_job_or_watched_command_is_named_after_the_program_that_its_leader_was_told_to_run() {
    use corun_model::observation::Account;
    use corun_model::{Ledger, Parts, TaskId};
    let m = Machine::new();
    for leader in [70, 80] {
        put(&m.root, &format!("/proc/{leader}/cmdline"), "timeout\09\0./job\0");
        put(&m.root, &format!("/proc/{leader}/task/{leader}/children"), "71 ");
    }
    put(&m.root, "/proc/71/cmdline", "./job\0");
    put(&m.root, "/proc/71/stat", &format!("71 (job) R 70 70 70{}\n", " 0".repeat(45)));
    let mut tenancy = Tenancy::new(&m.root);
    let watched = Subject::command(80, "/usr/bin/timeout").tenant().unwrap();
    let watched = tenancy.assign(group::FIRST + 9, watched);
    let job = m.group("/", &[], 70, "timeout");
    assert_eq!(key_and_name(&mut tenancy, &job).1, "timeout");
    let tenant = tenancy.of(tenancy.named() as u32 - 1);
    let task = |tenant, name: &str, ns| {
        let parts = Parts { compute_ns: ns, ..Parts::default() };
        let account = Account { ledger: Ledger::new(parts, ns).unwrap(), ..Account::default() };
        TaskObservation {
            id: TaskId(71),
            name: name.into(),
            tenant,
            born_ns: 0,
            alive: true,
            last_cpu: None,
            account: account.into(),
        }
    };
    let called = |tenancy: &Tenancy| [tenant, watched].map(|id| tenancy.tenant(id).unwrap().name.clone());
    let asked = tenancy.cost().1;
    for (name, ns, wanted) in [("timeout", 5, "timeout"), ("job", 0, "job"), ("job", 5, "job")] {
        tenancy.call_anew(&[task(tenant, name, ns), task(watched, name, ns)], |_| job.comm);
        assert_eq!(called(&tenancy), [wanted; 2], "{name} {ns}");
    }
    // Nobody is asked twice.
    for _ in 0..10 {
        tenancy.call_anew(&[task(tenant, "job", 5), task(watched, "worker", 5)], |_| job.comm);
    }
    assert_eq!((called(&tenancy), tenancy.cost().1), (["job".into(), "job".into()], asked + 2));
}

#[test]
fn a_watched_command_is_named_after_what_it_executes_in_its_place() {
    use corun_model::TaskId;
    // The command, the successive names of its first task, and the resulting name of the command.
    let cases: [(&[&str], &str, &[&str], &str); 9] = [
        (&["corun", "profile", "--", "nohup", "./job", "9"], "nohup", &["nohup", "job"], "job"),
        (&["taskset", "-c", "0", "nice", "/opt/job"], "taskset", &["nice", "job"], "job"),
        (&["bash", "-c", "echo 1; exec ./job 9"], "bash", &["bash", "job"], "job"),
        (&["corun", "verify", "--", "bash", "-c", "wait"], "bash", &["corun", "bash"], "bash"),
        (&["nohup", "./build.sh"], "nohup", &["build.sh"], "build.sh"),
        (&["setpriv", "a-program-with-a-long-name"], "setpriv", &["a-program-with-"], "a-program-with-"),
        // Its own name for itself, and the programs of its script, are not what it was told to execute.
        (&["./server", "--port", "80"], "server", &["main-loop"], "server"),
        (&["bash", "./run.sh"], "bash", &["sleep"], "bash"),
        (&["./job", "9"], "job", &["job"], "job"),
    ];
    for (command, name, seen, wanted) in cases {
        let m = Machine::new();
        put(&m.root, "/proc/80/cmdline", &format!("{}\0", command.join("\0")));
        let mut tenancy = Tenancy::new(&m.root);
        let watched = Subject::command(80, name).tenant().unwrap();
        let tenant = tenancy.assign(group::FIRST + 9, watched);
        for name in seen {
            let task = TaskObservation {
                id: TaskId(80),
                name: (*name).into(),
                tenant,
                born_ns: 0,
                alive: true,
                last_cpu: None,
                account: Default::default(),
            };
            tenancy.call_anew(&[task], |_| [0; 16]);
        }
        assert_eq!(tenancy.tenant(tenant).unwrap().name, wanted, "{command:?}");
    }
}

fn tenancy_comm(group: u32) -> [u8; 16] {
    let mut comm = [0; 16];
    let name: &[u8] = if group == group::FIRST + 2 { b"timeout" } else { b"bash" };
    comm[..name.len()].copy_from_slice(name);
    comm
}

#[test]
fn naming_three_thousand_short_commands_reads_nothing_and_ten_thousand_cgroups_a_bounded_number_at_a_time() {
    let m = Machine::new();
    let mut tenancy = Tenancy::new(&m.root);
    let commands: Vec<GroupRec> = (1..=3_000).map(|pgid| m.group("/", &[], pgid, "true")).collect();
    let before = tenancy.cost();
    assert!(!tenancy.learn(&commands));
    let (looks, asked) = tenancy.cost();
    assert!(looks <= before.0 + 1 && asked == before.1, "{looks} looks, {asked} processes asked");
    // As if there were ten thousand: groups without a path are looked up all the same.
    let mut gone = commands[0];
    let crowd = (0..10_000).map(|n| {
        gone.key.at.cgroup = u64::MAX - n;
        gone
    });
    let crowd: Vec<GroupRec> = crowd.collect();
    let mut rounds = 0;
    while tenancy.learn(&crowd[tenancy.named() - 3_000 - group::FIRST as usize..]) {
        rounds += 1;
        assert!(tenancy.cost().0 <= looks + (rounds + 1) * (MOST_LOOKS + 1));
    }
    assert_eq!((rounds, tenancy.named()), (9, 13_000 + group::FIRST as usize));
}

#[test]
fn a_short_lived_command_belongs_to_its_own_cgroup_and_not_to_that_of_its_process_group() {
    let m = Machine::new();
    // The leader lives, but the command has ended.
    put(&m.root, "/proc/70/cgroup", "0::/shell\n");
    let mut tenancy = Tenancy::new(&m.root);
    let mut of = |cgroup: &str| key_and_name(&mut tenancy, &m.group(cgroup, &[], 70, "cc")).0;
    assert_eq!(of("/build"), "cgroup:/build");
    assert_eq!(of("/shell"), "cgroup:/shell");
    // A parked task belongs to its previous cgroup.
    let parked = format!("/build/{TRANSIENT_PREFIX}1.2.3");
    assert!(Path::new(&parked).starts_with("/build"));
    assert_eq!(of(&parked), "cgroup:/build");
    // If a cgroup has gone, a task that was in it says more than nothing.
    let mut gone = GroupRec::default();
    (gone.tid, gone.key.pgid, gone.key.at.cgroup) = (71, 70, u64::MAX);
    assert_eq!(key_and_name(&mut tenancy, &gone).0, "cgroup:/shell");
}
