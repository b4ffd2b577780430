//! What can be seen: the four sources, and what they need.

use super::{line, Finding, Findings, Part, Privileges, Probes};
use crate::counters::refusal::name_of;
use crate::counters::{self, Theme};
use crate::cpustat::{self, CpuStat};
use crate::energy::Plan;
use crate::namespaces;
use crate::procfs;
use crate::root::Root;
use corun_model::duration::human_ns;
use corun_model::why::NoEnergy;

pub(super) const EBPF: &str = "eBPF";
pub(super) const BTF: &str = "kernel types (BTF)";
pub(super) const TRACING: &str = "tracing programs";
pub(super) const SCHEDSTAT: &str = "schedstat";

pub(super) fn findings(root: &Root, probes: &Probes, who: &Privileges) -> Vec<Finding> {
    let mut f = Findings::of(Part::See);
    ebpf(&mut f, root, probes, who);
    tracing(&mut f, root, probes, who);
    hardware_counters(&mut f, root, probes);
    software_clock(&mut f, probes);
    schedstat(&mut f, root);
    pressure(&mut f, root);
    host_steal(&mut f, root);
    energy(&mut f, root, who);
    f.list
}

fn ebpf(f: &mut Findings, root: &Root, probes: &Probes, who: &Privileges) {
    let as_root =
        "run as root, or give corun CAP_BPF and CAP_PERFMON (`setcap cap_bpf,cap_perfmon+ep corun`)";
    match (probes.bpf, namespaces::mismatch(root)) {
        (_, Some(mismatch)) => f.no(EBPF, mismatch.why, mismatch.remedy),
        (Ok(()), None) if who.has_or_admin(Privileges::BPF) => {
            f.yes(EBPF, "the bpf system call works and this user may use it")
        }
        (Ok(()), None) => f.no(EBPF, "unprivileged BPF works, but tracing programs need more", as_root),
        (Err(libc::ENOSYS), None) => {
            f.no(EBPF, "this kernel has no bpf system call", "use a kernel with CONFIG_BPF_SYSCALL")
        }
        (Err(errno), None) => {
            let setting = match line(root, "/proc/sys/kernel/unprivileged_bpf_disabled").as_deref() {
                Some("1" | "2") => ", unprivileged BPF is switched off",
                _ => "",
            };
            let remedy = if who.has_or_admin(Privileges::BPF) {
                "leave the container or the seccomp filter that forbids bpf, or allow it there"
            } else {
                as_root
            };
            f.no(EBPF, format!("the bpf system call says {}{setting}", name_of(errno)), remedy);
        }
    }
    match std::fs::metadata(root.path("/sys/kernel/btf/vmlinux")) {
        Ok(file) => f.yes(BTF, format!("/sys/kernel/btf/vmlinux, {} KiB", file.len() / 1024)),
        Err(_) => f.no(
            BTF,
            "there is no /sys/kernel/btf/vmlinux",
            "use a kernel with CONFIG_DEBUG_INFO_BTF (those of Debian 12, RHEL 8 and newer have it)",
        ),
    }
}

fn tracing(f: &mut Findings, root: &Root, probes: &Probes, who: &Privileges) {
    // `none [integrity] confidentiality`: the one in brackets is in force. Without the file there is no
    // lockdown.
    let lockdown = line(root, "/sys/kernel/security/lockdown");
    let holds = |level: &str| lockdown.as_deref().is_some_and(|l| l.contains(&format!("[{level}]")));
    let level = match &lockdown {
        _ if holds("integrity") => "lockdown is at integrity, which allows them",
        Some(_) => "lockdown is off",
        None => "no lockdown is in the way",
    };
    if holds("confidentiality") {
        let remedy = "boot with lockdown=integrity or without Secure Boot";
        f.no(TRACING, "lockdown is at confidentiality: BPF may not read kernel memory", remedy);
    } else if !who.has_or_admin(Privileges::PERFMON) {
        let remedy = "run as root, or give corun CAP_BPF and CAP_PERFMON";
        f.no(TRACING, "this user lacks CAP_PERFMON", remedy);
    } else if !(f.has(EBPF) && f.has(BTF)) {
        f.yes(TRACING, level);
    } else {
        // Only an attempt shows whether this kernel has everything that the probe reads.
        match (probes.probe)(root) {
            Ok(()) => f.yes(TRACING, format!("{level}; the probe loads here")),
            Err(why) => {
                let remedy = "if no remedy stands here, report it with what `uname -r` says; corun works without, from schedstat";
                f.no(TRACING, format!("the probe does not load: {why}"), remedy);
            }
        }
    }
}

fn hardware_counters(f: &mut Findings, root: &Root, probes: &Probes) {
    const WHAT: &str = "hardware counters";
    let plan = match counters::Plan::make(root, &Theme::ALL, &probes.counting) {
        Ok(plan) => plan,
        Err(refusal) => return f.no(WHAT, refusal.to_string(), refusal.optional_remedy()),
    };
    let cpu = plan.table.as_deref().unwrap_or("a CPU without an event table");
    let turns = match plan.groups.len() {
        1 => String::new(),
        n => format!(", in {n} groups that take turns"),
    };
    match plan.refused.first() {
        None => f.yes(WHAT, format!("all {} of {cpu}{turns}", plan.counters.len())),
        Some(first) => {
            let names: Vec<&str> = plan.counters.keys().map(|c| c.name()).collect();
            let found = format!("{} of {cpu}{turns}; not {}: {}", names.join(", "), first.what, first.why);
            f.partly(WHAT, found, "corun does without what is missing; a physical machine may have more");
        }
    }
}

fn software_clock(f: &mut Findings, probes: &Probes) {
    const WHAT: &str = "software clock sampling";
    match probes.software_clock {
        Ok(()) => f.yes(WHAT, "instruction pointers can be sampled without a PMU"),
        Err(errno @ (libc::EACCES | libc::EPERM)) => f.no(
            WHAT,
            format!("perf_event_open says {}", name_of(errno)),
            "`sysctl kernel.perf_event_paranoid=2` or lower, or run as root",
        ),
        Err(errno) => f.no(
            WHAT,
            format!("perf_event_open says {}", name_of(errno)),
            "use a kernel with CONFIG_PERF_EVENTS, and allow it in the container's seccomp filter",
        ),
    }
}

fn schedstat(f: &mut Findings, root: &Root) {
    if let Some(mismatch) = namespaces::no_own_proc(root).filter(|_| root.has("/proc/stat")) {
        return f.no(SCHEDSTAT, mismatch.why, mismatch.remedy);
    }
    match procfs::schedstat_counts(root) {
        Ok(Some(true)) => f.yes(SCHEDSTAT, "every task's time on and waiting for a CPU, without root"),
        Ok(Some(false)) => {
            f.no(SCHEDSTAT, "the kernel shows zeros", "`sysctl kernel.task_delayacct=1` switches it on");
        }
        Ok(None) => {
            f.no(SCHEDSTAT, "there is no /proc/self/schedstat", "use a kernel with CONFIG_SCHED_INFO");
        }
        Err(error) => f.no(SCHEDSTAT, error.to_string(), "allow corun to read its own files in /proc"),
    }
}

fn pressure(f: &mut Findings, root: &Root) {
    const WHAT: &str = "pressure (PSI)";
    match line(root, "/proc/pressure/cpu") {
        Some(text) => {
            let average = text.lines().next().and_then(|l| l.split("avg10=").nth(1)?.split(' ').next());
            f.yes(WHAT, format!("some task waited for a CPU {} % of the last 10 s", average.unwrap_or("?")));
        }
        None => f.no(WHAT, "there is no /proc/pressure", "boot with psi=1 on a kernel with CONFIG_PSI"),
    }
}

fn host_steal(f: &mut Findings, root: &Root) {
    const WHAT: &str = "host steal";
    let Ok(stat) = CpuStat::read(root) else {
        f.no(WHAT, "/proc/stat cannot be read", "mount /proc");
        return;
    };
    let total = stat.total();
    let stolen_ns = total.host_steal_ns;
    match (cpustat::is_virtual(root), stolen_ns) {
        (false, 0) => f.yes(WHAT, "none: this machine has no hypervisor below"),
        (true, 0) => f.partly(
            WHAT,
            "none since boot: the host took nothing, or does not report it",
            "ask the provider whether steal time is reported; corun counts it as unknown",
        ),
        (_, ns) => {
            let percent = 100.0 * ns as f64 / (total.busy_ns() + total.idle_ns) as f64;
            f.yes(
                WHAT,
                format!("the host took {} since boot ({percent:.2} % of all CPU time)", human_ns(ns)),
            );
        }
    }
}

fn energy(f: &mut Findings, root: &Root, who: &Privileges) {
    const WHAT: &str = "energy (RAPL)";
    let paranoid = line(root, "/proc/sys/kernel/perf_event_paranoid").and_then(|p| p.parse::<i32>().ok());
    let counts_whole_cpus = who.has_or_admin(Privileges::PERFMON) || paranoid.is_some_and(|p| p <= 0);
    let seen = Plan::make(root).and_then(|plan| match plan.is_perf() && !counts_whole_cpus {
        true => Err(NoEnergy::WholeCpusForbidden),
        false => Ok(plan),
    });
    match seen {
        Ok(plan) => {
            let means = if plan.is_perf() { "perf's power PMU" } else { "powercap" };
            f.yes(WHAT, format!("{means} counts that of the machine: {}", plan.names().join(", ")));
        }
        Err(why) => f.no(WHAT, why.reason(), why.remedy()),
    }
}
