//! The kind of machine: facts that explain the other answers.

use super::{line, Finding, Findings, Part, Probes};
use crate::cpustat;
use crate::figures::llc_bytes;
use crate::root::Root;
use crate::topology::read_machine;
use corun_model::duration::human_ns;
use corun_model::Linux;

pub(super) fn findings(root: &Root, probes: &Probes) -> Vec<Finding> {
    let mut f = Findings::of(Part::Machine);
    topology(&mut f, root);
    let below = if cpustat::is_virtual(root) { "a virtual machine" } else { "no hypervisor below" };
    f.fact("virtualised", below);
    kvm(&mut f, root);
    scheduler(&mut f, root, probes);
    autogroup(&mut f, root);
    group_shares(&mut f, root);
    f.list
}

fn topology(f: &mut Findings, root: &Root) {
    match read_machine(root) {
        Ok(m) => {
            let plural = |n: usize, one: &str| format!("{n} {one}{}", if n == 1 { "" } else { "s" });
            let (cores, cpus) = (m.count(|c| c.core), m.cpu_count());
            let size = llc_bytes(root, &m);
            let size = size.map_or(String::new(), |b| format!(" of {} MiB", b >> 20));
            let shape = [
                plural(m.count(|c| c.socket), "socket"),
                format!("{}{size}", plural(m.count(|c| c.llc), "LLC domain")),
                plural(cores, "core"),
                format!("{}{}", plural(cpus, "CPU"), if cpus > cores { " (hyperthreads)" } else { "" }),
                plural(m.count(|c| c.node), "NUMA node"),
            ];
            f.fact("topology", format!("{}: {}", m.name, shape.join(", ")));
        }
        Err(e) => f.no("topology", e.to_string(), "mount sysfs at /sys"),
    }
}

fn kvm(f: &mut Findings, root: &Root) {
    let path = std::path::Path::new("/dev/kvm");
    if !root.has(path) {
        f.fact("KVM", "no /dev/kvm: virtual machines run here by emulation only");
    } else if super::probes::may_write(root, path) {
        f.fact("KVM", "/dev/kvm can be used");
    } else {
        f.fact("KVM", "/dev/kvm is there, but not for this user (group kvm)");
    }
}

fn scheduler(f: &mut Findings, root: &Root, probes: &Probes) {
    let version = line(root, "/proc/sys/kernel/version").unwrap_or_default();
    let release = line(root, "/proc/sys/kernel/osrelease").unwrap_or_default();
    let model = match line(root, "/sys/kernel/debug/sched/preempt") {
        // `none voluntary (full) lazy`: the one in parentheses is in force.
        Some(modes) => modes.split(['(', ')']).nth(1).map(|mode| format!("preemption {mode}")),
        None => version
            .split_whitespace()
            .find(|word| word.starts_with("PREEMPT"))
            .map(|word| format!("{word} (which mode is in force cannot be read here)")),
    };
    let model = model.unwrap_or_else(|| "no preemption inside the kernel".into());
    let hz = 1_000_000_000 / probes.tick_ns.max(1);
    f.fact("kernel", format!("Linux {release}, tick {} (HZ={hz}), {model}", human_ns(probes.tick_ns)));
}

fn autogroup(f: &mut Findings, root: &Root) {
    let found = match line(root, "/proc/sys/kernel/sched_autogroup_enabled").as_deref() {
        Some("1") => "on: terminal sessions share CPUs evenly, however many tasks each has",
        Some(_) => "off",
        None => "not in this kernel",
    };
    f.fact("autogroup", found);
}

/// Whether groups get the share of their weights ([`Linux::STRETCH_WHO_RUNS`]).
fn group_shares(f: &mut Findings, root: &Root) {
    let release = line(root, "/proc/sys/kernel/osrelease").unwrap_or_default();
    if Linux::of(&release).is_some_and(|linux| Linux::STRETCH_WHO_RUNS.contains(&linux)) {
        let found = "not as weights say: under Linux 6.13 to 6.18 a session or container whose threads wake up often \
                     may get far more CPU time than its share, at its neighbors' cost";
        f.fact("shares of groups", found);
    }
}
