//! What can be done to co-runners: the five knobs, and the backends that can set them.

use super::probes::may_write;
use super::{line, Finding, Findings, Part, Privileges, Probes};
use crate::cgroup::{Cgroups, Tree};
use crate::limits;
use crate::root::Root;
use corun_model::duration::human_ns;
use std::path::Path;

pub(super) fn findings(root: &Root, probes: &Probes, who: &Privileges) -> Vec<Finding> {
    let mut f = Findings::of(Part::Act);
    sched_ext(&mut f, root);
    slices(&mut f, root, probes, who);
    freezer(&mut f, root);
    weights(&mut f, root);
    affinity(&mut f, who);
    real_time(&mut f, root, probes, who);
    f.list
}

fn sched_ext(f: &mut Findings, root: &Root) {
    const WHAT: &str = "sched_ext";
    match line(root, "/sys/kernel/sched_ext/state").as_deref() {
        Some("disabled") => f.yes(WHAT, "no scheduler is loaded, one can be"),
        Some(state) => {
            let name = line(root, "/sys/kernel/sched_ext/root/ops").unwrap_or_else(|| "a scheduler".into());
            f.partly(WHAT, format!("{name} is loaded already ({state})"), format!("stop {name} first"));
        }
        None => f.no(
            WHAT,
            format!("this kernel ({}) has no /sys/kernel/sched_ext", release(root)),
            "use Linux 6.12 or newer with CONFIG_SCHED_CLASS_EXT; the stock backend works without",
        ),
    }
}

fn slices(f: &mut Findings, root: &Root, probes: &Probes, who: &Privileges) {
    const WHAT: &str = "slices (sched_setattr)";
    match probes.slice_ns {
        Ok(ns) if ns > 0 => {
            let found = format!(
                "per task; {} by default, and a running task is stopped at the {} tick only",
                human_ns(ns),
                human_ns(probes.tick_ns)
            );
            if who.has(Privileges::SYS_NICE) {
                f.yes(WHAT, found);
            } else {
                f.partly(WHAT, format!("{found}; of this user's tasks only"), "run as root for all tasks");
            }
        }
        Ok(_) => f.no(
            WHAT,
            format!("this kernel ({}) has no slice per task", release(root)),
            "use Linux 6.12 or newer",
        ),
        Err(_) => {
            f.no(WHAT, "sched_getattr is refused", "leave the container or seccomp filter that forbids it");
        }
    }
}

fn freezer(f: &mut Findings, root: &Root) {
    const WHAT: &str = "freezer (park)";
    let Ok(cgroups) = Cgroups::discover(root) else {
        f.partly(WHAT, "/proc/self/mountinfo cannot be read; only SIGSTOP is left", "mount /proc");
        return;
    };
    let v1 = cgroups.with_controller("freezer").filter(|t| !t.is_v2());
    let may = |tree: &Tree| may_write(root, &tree.mount);
    match (cgroups.v2().filter(|_| has_v2_freezer(root)), v1) {
        (Some(tree), _) if may(tree) => {
            f.yes(WHAT, format!("cgroup.freeze below {} (v2)", tree.mount.display()));
        }
        (_, Some(tree)) if may(tree) => {
            f.yes(WHAT, format!("freezer.state below {} (v1)", tree.mount.display()));
        }
        (Some(tree), _) | (None, Some(tree)) if is_read_only(root, &tree.mount) => f.partly(
            WHAT,
            format!("{} is mounted read-only; SIGSTOP is left", tree.mount.display()),
            "mount it writable, as for a container that is privileged",
        ),
        (Some(tree), _) | (None, Some(tree)) => f.partly(
            WHAT,
            format!("{} may not be written by this user; SIGSTOP is left", tree.mount.display()),
            "run as root",
        ),
        (None, None) => f.partly(
            WHAT,
            "no cgroup can be frozen; SIGSTOP is left, which parents and debuggers notice",
            "mount the cgroup v2 tree (Linux 5.2 or newer)",
        ),
    }
}

/// Whether that mount is read-only.
fn is_read_only(root: &Root, mount: &Path) -> bool {
    let mounts = root.read("/proc/self/mountinfo").unwrap_or_default();
    // 30 23 0:26 / /sys/fs/cgroup ro,nosuid - cgroup2 cgroup2 rw
    let is_here = |line: &&str| line.split(' ').nth(4).map(Path::new) == Some(mount);
    let options = mounts.lines().rfind(is_here).and_then(|line| line.split(' ').nth(5));
    options.is_some_and(|options| options.split(',').any(|option| option == "ro"))
}

/// Cgroups below the root of the v2 tree can be frozen since Linux 5.2; the root itself cannot.
fn has_v2_freezer(root: &Root) -> bool {
    let release = release(root);
    let mut numbers = release.split(['.', '-']).map_while(|n| n.parse::<u32>().ok());
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= (5, 2)
}

fn weights(f: &mut Findings, root: &Root) {
    const WHAT: &str = "weights (CPU controller)";
    let Ok(cgroups) = Cgroups::discover(root) else {
        f.partly(WHAT, "/proc/self/mountinfo cannot be read; only nice is left", "mount /proc");
        return;
    };
    match cgroups.with_controller("cpu") {
        Some(tree) if tree.is_v2() => {
            f.yes(WHAT, format!("cpu.weight in the v2 tree at {}", tree.mount.display()))
        }
        Some(tree) => f.partly(
            WHAT,
            format!("the controller is in v1 ({}): cpu.shares instead of cpu.weight", tree.mount.display()),
            "boot with systemd.unified_cgroup_hierarchy=1 (cgroup_no_v1=all) to have it in v2",
        ),
        None => f.partly(
            WHAT,
            "no cgroup tree has the CPU controller; nice is left",
            "use a kernel with CONFIG_CGROUP_SCHED and mount cgroup v2",
        ),
    }
    match cgroups.quotas() {
        Ok(quotas) if quotas.is_empty() => f.fact("CPU quotas", "no cgroup has one"),
        Ok(quotas) => f.fact(
            "CPU quotas",
            format!(
                "{} cgroups have one, such as {}; throttling is shown apart from steal",
                quotas.len(),
                quotas[0].path
            ),
        ),
        Err(e) => f.no("CPU quotas", e.to_string(), "run as root; throttling may otherwise look like steal"),
    }
}

fn affinity(f: &mut Findings, who: &Privileges) {
    const WHAT: &str = "affinity (sched_setaffinity)";
    if who.has(Privileges::SYS_NICE) {
        f.yes(WHAT, "of any task");
    } else {
        f.partly(WHAT, "of this user's tasks only", "run as root, or give corun CAP_SYS_NICE");
    }
}

fn real_time(f: &mut Findings, root: &Root, probes: &Probes, who: &Privileges) {
    const WHAT: &str = "SCHED_FIFO for the controller";
    if let Some(none) = limits::no_real_time_budget(root) {
        f.no(WHAT, none.reason(), none.remedy().unwrap_or_default());
    } else if who.has(Privileges::SYS_NICE) {
        f.yes(
            WHAT,
            "this user may set it, so corun need not wait for a CPU behind the tenants that it releases",
        );
    } else if probes.rt_priority_max > 0 {
        f.yes(WHAT, format!("RLIMIT_RTPRIO allows priorities up to {}", probes.rt_priority_max));
    } else {
        let remedy = "run as root, or raise RLIMIT_RTPRIO (`rtprio` in limits.conf)";
        f.no(WHAT, "this user lacks CAP_SYS_NICE and RLIMIT_RTPRIO is 0", remedy);
    }
}

fn release(root: &Root) -> String {
    line(root, "/proc/sys/kernel/osrelease").unwrap_or_else(|| "of unknown version".into())
}
