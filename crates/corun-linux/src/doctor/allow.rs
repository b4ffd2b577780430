//! What this machine lets a session start: the limits that corun would run into, reported in advance.

use super::{Finding, Findings, Part};
use crate::cpulist;
use crate::limits::{self, Shortage};
use crate::root::Root;

/// The most that a verb starts: a command and the thread that launches it, one that reads samples, a
/// supervisor, and one more.
const NEEDED: u64 = 5;

pub(super) fn findings(root: &Root) -> Vec<Finding> {
    let mut f = Findings::of(Part::Allow);
    processes(&mut f, root);
    namespace(&mut f, root);
    memory(&mut f, root);
    filter(&mut f, root);
    shown_cpus(&mut f, root);
    f.list
}

fn processes(f: &mut Findings, root: &Root) {
    const WHAT: &str = "processes and threads";
    match limits::allowances(root).first() {
        None => f.fact(WHAT, "no limit is known here"),
        Some(a) if a.free() >= NEEDED => f.yes(WHAT, format!("{} more can be started: {a}", a.free())),
        Some(a) if a.free() > 0 => f.partly(
            WHAT,
            format!("{a}; a verb may start {NEEDED}, and does without what is refused"),
            a.remedy,
        ),
        Some(a) => f.no(WHAT, format!("{a}; no command can be started and nobody controlled"), a.remedy),
    }
}

fn namespace(f: &mut Findings, root: &Root) {
    const WHAT: &str = "PID namespace";
    match limits::without_init(root) {
        Some(Shortage { why, remedy }) => f.no(WHAT, why, remedy),
        None if root.has("/proc/self/ns") => f.yes(WHAT, "children are in the same one as corun"),
        None => f.fact(WHAT, "/proc/self/ns cannot be read"),
    }
}

fn memory(f: &mut Findings, root: &Root) {
    const WHAT: &str = "memory promises";
    match root.value::<u32>("/proc/sys/vm/overcommit_memory", "a mode") {
        Ok(2) => {
            let said = limits::committed(root).map_or_else(String::new, |(limit, promised)| {
                format!(": {} of {} MiB are promised", promised >> 10, limit >> 10)
            });
            f.partly(
                WHAT,
                format!("vm.overcommit_memory is 2{said}; what would pass the limit cannot be started"),
                "`sysctl vm.overcommit_memory=0`, or raise vm.overcommit_ratio",
            );
        }
        Ok(mode) => f.yes(WHAT, format!("not limited (vm.overcommit_memory is {mode})")),
        Err(_) => f.fact(WHAT, "vm.overcommit_memory cannot be read"),
    }
}

fn filter(f: &mut Findings, root: &Root) {
    const WHAT: &str = "system calls (seccomp)";
    match limits::is_filtered(root) {
        true => f.partly(
            WHAT,
            "a filter is in force for this session; which calls it refuses shows only when they are made",
            "start corun outside of this container or sandbox, or with another seccomp profile",
        ),
        false => f.fact(WHAT, "no filter is known of"),
    }
}

/// Whether the files about CPUs come from a layer that shows fewer than there are.
fn shown_cpus(f: &mut Findings, root: &Root) {
    const WHAT: &str = "CPUs that are shown";
    let mounts = root.read("/proc/self/mountinfo").unwrap_or_default();
    let faked = |file: &str| mounts.lines().any(|l| l.contains("lxcfs") && l.split(' ').nth(4) == Some(file));
    let files = ["/proc/cpuinfo", "/proc/stat", "/sys/devices/system/cpu/online"];
    let Some(file) = files.into_iter().find(|file| faked(file)) else { return };
    let listed = |file: &str| root.read(file).ok().and_then(|t| cpulist::parse(&t)).map(|cpus| cpus.len());
    let shown = match listed("/sys/devices/system/cpu/online") {
        Some(n) if faked("/sys/devices/system/cpu/online") => Some(n),
        _ => {
            root.read("/proc/cpuinfo").ok().map(|t| t.lines().filter(|l| l.starts_with("processor")).count())
        }
    };
    let numbers = match (shown, listed("/sys/devices/system/cpu/possible")) {
        (Some(shown), Some(all)) => format!(": {shown} of {all}"),
        _ => String::new(),
    };
    f.partly(
        WHAT,
        format!("lxcfs shows this container its own {file}{numbers}; eBPF sees all CPUs"),
        "start corun on the host to have all CPUs listed",
    );
}
