//! Machines with nothing, with everything, and in between.

use super::*;
use std::fs;
use tempfile::TempDir;

struct Made(TempDir);

impl Made {
    fn new(files: &[(&str, &str)]) -> Made {
        let made = Made(tempfile::tempdir().unwrap());
        for (file, text) in files {
            made.put(file, text);
        }
        made
    }

    fn put(&self, file: &str, text: &str) {
        let path = Root::new(self.0.path()).path(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn examine(&self, probes: &Probes) -> Vec<Finding> {
        examine(&Root::new(self.0.path()), probes)
    }
}

const ALL: Probes = Probes {
    bpf: Ok(()),
    probe: |_| Ok(()),
    counting: |_, _| Ok(()),
    software_clock: Ok(()),
    slice_ns: Ok(2_800_000),
    rt_priority_max: 0,
    tick_ns: 1_000_000,
};

const NONE: Probes = Probes {
    bpf: Err(libc::EPERM),
    probe: |_| Ok(()),
    counting: |_, _| Err(libc::ENOENT),
    software_clock: Err(libc::EACCES),
    slice_ns: Ok(0),
    rt_priority_max: 0,
    tick_ns: 4_000_000,
};

/// A Zen 5, which has an event for every counter.
const CPU: &str = "processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 26\nmodel\t\t: 2\nmodel name\t: X\nstepping\t: 1\n\
                   flags\t\t: fpu\n";

/// A server with everything, examined by root.
fn server() -> Made {
    Made::new(&[
        ("/proc/self/status", "Name:\tcorun\nCapEff:\t000001ffffffffff\n"),
        ("/proc/self/schedstat", "100 200 3\n"),
        ("/proc/self/mountinfo", "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"),
        ("/sys/fs/cgroup/cgroup.controllers", "cpu memory\n"),
        ("/sys/fs/cgroup/system.slice/cpu.max", "max 100000\n"),
        ("/proc/pressure/cpu", "some avg10=1.25 avg60=0.00 avg300=0.00 total=0\n"),
        ("/proc/stat", "cpu0 10 0 0 90 0 0 0 0\n"),
        ("/proc/cpuinfo", CPU),
        ("/sys/bus/event_source/devices/cpu/type", "4\n"),
        ("/sys/bus/event_source/devices/cpu/format/event", "config:0-7,32-35\n"),
        ("/sys/bus/event_source/devices/cpu/format/umask", "config:8-15\n"),
        ("/proc/sys/kernel/osrelease", "6.12.0\n"),
        ("/proc/sys/kernel/version", "#1 SMP PREEMPT_DYNAMIC\n"),
        ("/proc/sys/kernel/sched_rt_runtime_us", "950000\n"),
        ("/sys/kernel/debug/sched/preempt", "none voluntary (full) lazy\n"),
        ("/sys/kernel/btf/vmlinux", "BTF"),
        ("/sys/kernel/security/lockdown", "none [integrity] confidentiality\n"),
        ("/sys/kernel/sched_ext/state", "disabled\n"),
        ("/sys/class/powercap/intel-rapl:0/name", "package-0\n"),
        ("/sys/class/powercap/intel-rapl:0/max_energy_range_uj", "262143328850\n"),
        ("/sys/class/powercap/intel-rapl:0/energy_uj", "5\n"),
        ("/sys/devices/system/cpu/online", "0\n"),
    ])
}

fn of<'a>(findings: &'a [Finding], what: &str) -> &'a Finding {
    findings.iter().find(|f| f.what == what).unwrap_or_else(|| panic!("no finding on {what}"))
}

#[test]
fn a_server_with_everything_can_do_everything() {
    let findings = server().examine(&ALL);
    for f in &findings {
        assert!(matches!(f.answer, Answer::Yes | Answer::Fact), "{f:?}");
    }
    assert!(verdict(&findings).contains("uses eBPF"));
    assert_eq!(of(&findings, "kernel").found, "Linux 6.12.0, tick 1.00 ms (HZ=1000), preemption full");
    assert_eq!(of(&findings, "topology").found, "X: 1 socket, 1 LLC domain, 1 core, 1 CPU, 1 NUMA node");
}

#[test]
fn an_empty_machine_can_do_nothing_and_says_why_and_what_would_help() {
    let findings = Made::new(&[]).examine(&NONE);
    assert!(verdict(&findings).contains("cannot see anything"));
    let noes = findings.iter().filter(|f| f.answer == Answer::No).count();
    assert!(noes >= 10, "{noes}");
    assert!(findings.iter().all(|f| f.answer != Answer::Yes), "{findings:?}");
}

#[test]
fn every_answer_but_yes_has_a_reason_and_a_remedy() {
    for findings in [Made::new(&[]).examine(&NONE), Made::new(&[]).examine(&ALL), server().examine(&NONE)] {
        for f in findings {
            let lacks = matches!(f.answer, Answer::No | Answer::Partly);
            assert_eq!(f.remedy.is_some(), lacks, "{f:?}");
            assert!(!f.found.is_empty() && f.remedy.as_deref() != Some(""), "{f:?}");
        }
    }
}

#[test]
fn missing_privileges_differ_from_a_kernel_without_ebpf() {
    let m = server();
    m.put("/proc/self/status", "CapEff:\t0000000000000000\n");
    m.put("/proc/sys/kernel/unprivileged_bpf_disabled", "2\n");
    let findings = m.examine(&Probes { bpf: Err(libc::EPERM), ..ALL });
    let ebpf = of(&findings, "eBPF");
    assert_eq!(ebpf.found, "the bpf system call says EPERM, unprivileged BPF is switched off");
    assert!(ebpf.remedy.as_deref().unwrap().starts_with("run as root"));
    assert_eq!(of(&findings, "tracing programs").answer, Answer::No);
    assert_eq!(of(&findings, "affinity (sched_setaffinity)").answer, Answer::Partly);
    assert!(verdict(&findings).contains("uses schedstat"));
    let findings = m.examine(&Probes { bpf: Err(libc::ENOSYS), ..ALL });
    assert_eq!(of(&findings, "eBPF").found, "this kernel has no bpf system call");
}

#[test]
fn a_kernel_that_refuses_the_probe_is_noticed_by_trying() {
    let refuses = |_: &Root| Err("loading the probe into the kernel: Invalid argument".to_owned());
    let findings = server().examine(&Probes { probe: refuses, ..ALL });
    let tracing = of(&findings, "tracing programs");
    assert_eq!(tracing.found, "the probe does not load: loading the probe into the kernel: Invalid argument");
    assert!(verdict(&findings).contains("uses schedstat"));
}

#[test]
fn lockdown_at_confidentiality_forbids_tracing() {
    let m = server();
    m.put("/sys/kernel/security/lockdown", "none integrity [confidentiality]\n");
    assert_eq!(of(&m.examine(&ALL), "tracing programs").answer, Answer::No);
}

#[test]
fn a_virtual_machine_without_a_pmu_and_without_steal_is_told_so() {
    let m = server();
    m.put("/proc/cpuinfo", "processor\t: 0\nmodel name\t: X\nflags\t\t: fpu hypervisor\n");
    let findings = m.examine(&NONE);
    assert!(of(&findings, "hardware counters").found.starts_with("this virtual machine was given no"));
    assert_eq!(of(&findings, "host steal").answer, Answer::Partly);
    m.put("/proc/stat", "cpu0 10 0 0 85 0 0 0 5\n");
    assert_eq!(
        of(&m.examine(&NONE), "host steal").found,
        "the host took 50.0 ms since boot (5.00 % of all CPU time)"
    );
}

#[test]
fn users_who_may_count_whole_cpus_can_read_energy() {
    let m = Made::new(&[("/proc/sys/kernel/perf_event_paranoid", "2\n")]);
    for (file, text) in [
        ("type", "9\n"),
        ("cpumask", "0\n"),
        ("format/event", "config:0-7\n"),
        ("events/energy-pkg", "event=0x02\n"),
        ("events/energy-pkg.scale", "2.3283064365386962890625e-10\n"),
        ("events/energy-pkg.unit", "Joules\n"),
    ] {
        m.put(&format!("/sys/bus/event_source/devices/power/{file}"), text);
    }
    let energy = |m: &Made| of(&m.examine(&NONE), "energy (RAPL)").clone();
    assert_eq!(energy(&m).found, "perf's power PMU counts energy, but not for this user");
    m.put("/proc/sys/kernel/perf_event_paranoid", "0\n");
    assert_eq!(energy(&m).found, "perf's power PMU counts that of the machine: package");
    assert_eq!(
        of(&server().examine(&NONE), "energy (RAPL)").found,
        "powercap counts that of the machine: package"
    );
}

#[test]
fn the_countable_events_are_listed_and_the_others_have_a_reason() {
    let m = server();
    assert_eq!(of(&m.examine(&ALL), "hardware counters").found, "all 13 of amdzen5");
    let six = Probes { counting: |e, _| if e.len() > 6 { Err(libc::EINVAL) } else { Ok(()) }, ..ALL };
    let found = &of(&m.examine(&six), "hardware counters").found.clone();
    assert_eq!(found, "all 13 of amdzen5, in 2 groups that take turns");
    m.put("/proc/cpuinfo", &CPU.replace("26", "23").replace("2\nmodel name", "1\nmodel name"));
    let findings = m.examine(&ALL);
    let zen_1 = of(&findings, "hardware counters");
    assert_eq!(zen_1.answer, Answer::Partly);
    assert!(zen_1.found.starts_with("cycles, instructions, branches, branch_misses"), "{}", zen_1.found);
    assert!(zen_1.found.contains("not offcore_stall_cycles, l2_stall_cycles"), "{}", zen_1.found);
    let user_only = Probes { counting: |_, m| if m.kernel { Err(libc::EACCES) } else { Ok(()) }, ..ALL };
    assert_eq!(of(&server().examine(&user_only), "hardware counters").answer, Answer::Partly);
    let none = Probes { counting: |_, _| Err(libc::EACCES), ..ALL };
    m.put("/proc/sys/kernel/perf_event_paranoid", "4\n");
    let forbidden = of(&m.examine(&none), "hardware counters").clone();
    assert_eq!(forbidden.found, "perf_event_open says EACCES (perf_event_paranoid is 4)");
    assert!(forbidden.remedy.unwrap().contains("sysctl kernel.perf_event_paranoid=2"));
}

#[test]
fn a_kernel_that_gives_groups_more_than_their_share_is_named() {
    for (release, is_wrong) in [
        ("6.12.9-amd64", false),
        ("6.13.0", true),
        ("6.18.44-cloud", true),
        ("6.19.1", false),
        ("7.3.4+deb13-amd64", false),
        ("unreadable", false),
    ] {
        let made = server();
        made.put("/proc/sys/kernel/osrelease", release);
        let found = made.examine(&ALL).iter().any(|f| f.what == "shares of groups");
        assert_eq!(found, is_wrong, "{release}");
    }
}

#[test]
fn the_freezer_names_its_tree_and_falls_back_to_stop_signals() {
    let m = server();
    assert_eq!(of(&m.examine(&ALL), "freezer (park)").found, "cgroup.freeze below /sys/fs/cgroup (v2)");
    let v1 = "31 23 0:27 / /cg/freezer rw - cgroup cgroup rw,freezer\n32 23 0:28 / /cg/cpu rw - cgroup cgroup rw,cpu\n";
    m.put("/proc/self/mountinfo", v1);
    m.put("/cg/freezer/tasks", "");
    m.put("/cg/cpu/bound/cpu.cfs_quota_us", "5000\n");
    m.put("/cg/cpu/bound/cpu.cfs_period_us", "10000\n");
    let findings = m.examine(&ALL);
    assert_eq!(of(&findings, "freezer (park)").found, "freezer.state below /cg/freezer (v1)");
    assert_eq!(of(&findings, "weights (CPU controller)").answer, Answer::Partly);
    assert!(of(&findings, "CPU quotas").found.contains("such as /bound"));
    m.put("/proc/self/mountinfo", "");
    let findings = m.examine(&ALL);
    assert!(of(&findings, "freezer (park)").found.contains("SIGSTOP is left"));
    assert!(of(&findings, "weights (CPU controller)").found.contains("nice is left"));
}

/// A change to a server, the topic, the answer, and a word that it must contain.
#[test]
fn limits_on_what_a_session_may_start_are_reported_in_advance() {
    const FULL: &[(&str, &str)] = &[
        ("/proc/self/mountinfo", "31 23 0:27 / /cg/pids rw - cgroup cgroup rw,pids\n"),
        ("/proc/self/cgroup", "4:pids:/a\n"),
        ("/cg/pids/a/pids.max", "6\n"),
    ];
    const RT: &[(&str, &str)] = &[
        ("/proc/self/mountinfo", "31 23 0:27 / /cg/cpu rw - cgroup cgroup rw,cpu\n"),
        ("/proc/self/cgroup", "4:cpu:/a\n"),
        ("/cg/cpu/a/cpu.rt_runtime_us", "0\n"),
    ];
    const LXCFS: &[(&str, &str)] = &[
        ("/proc/self/mountinfo", "31 23 0:27 /proc/stat /proc/stat rw - fuse.lxcfs lxcfs rw\n"),
        ("/sys/devices/system/cpu/possible", "0-7\n"),
    ];
    const READ_ONLY: &[(&str, &str)] =
        &[("/proc/self/mountinfo", "30 23 0:26 / /nowhere ro,nosuid - cgroup2 cgroup2 rw\n")];
    let processes = "processes and threads";
    let in_use = |n: &'static str| [FULL, &[("/cg/pids/a/pids.current", n)]].concat();
    for (changed, what, answer, word) in [
        (
            in_use("1\n"),
            processes,
            Answer::Yes,
            "5 more can be started: processes and threads in the cgroup /a",
        ),
        (in_use("3\n"), processes, Answer::Partly, "limited to 6 (pids.max; in use: 3)"),
        (in_use("6\n"), processes, Answer::No, "no command can be started"),
        (vec![], processes, Answer::Fact, "no limit is known"),
        (
            vec![
                ("/proc/sys/vm/overcommit_memory", "2\n"),
                ("/proc/meminfo", "CommitLimit: 2048 kB\nCommitted_AS: 1024 kB\n"),
            ],
            "memory promises",
            Answer::Partly,
            "1 of 2 MiB",
        ),
        (vec![("/proc/sys/vm/overcommit_memory", "1\n")], "memory promises", Answer::Yes, "not limited"),
        (
            vec![("/proc/self/status", "Seccomp:\t2\n")],
            "system calls (seccomp)",
            Answer::Partly,
            "a filter is in force",
        ),
        (RT.to_vec(), "SCHED_FIFO for the controller", Answer::No, "/cg/cpu/a gives real-time tasks no time"),
        (
            LXCFS.to_vec(),
            "CPUs that are shown",
            Answer::Partly,
            "lxcfs shows this container its own /proc/stat: 1 of 8",
        ),
        (READ_ONLY.to_vec(), "freezer (park)", Answer::Partly, "mounted read-only"),
    ] {
        let made = server();
        changed.iter().for_each(|(path, text)| made.put(path, text));
        let findings = made.examine(&ALL);
        let finding = of(&findings, what);
        assert_eq!(finding.answer, answer, "{finding:?}");
        assert!(finding.found.contains(word), "{finding:?}");
    }
}

#[test]
fn a_loaded_scheduler_is_named() {
    let m = server();
    m.put("/sys/kernel/sched_ext/state", "enabled\n");
    m.put("/sys/kernel/sched_ext/root/ops", "scx_lavd\n");
    assert_eq!(of(&m.examine(&ALL), "sched_ext").remedy.as_deref(), Some("stop scx_lavd first"));
}

#[test]
fn this_machine_can_be_examined_twice_with_the_same_answers() {
    let answers = || -> Vec<(&str, Answer)> {
        examine(&Root::new("/"), &Probes::ask()).into_iter().map(|f| (f.what, f.answer)).collect()
    };
    assert_eq!(answers(), answers());
}
