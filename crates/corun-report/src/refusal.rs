//! Why a knob was not set, in a sentence.

use corun_model::duration::human_ns;
use corun_model::refusal::{Protected, ProtectedBy};
use corun_model::{CpuId, Refusal, TenantKind};

/// The remedy if only root may do it.
pub const AS_ROOT: &str = "run as root";

/// The sentence, without a full stop.
pub fn refusal(why: &Refusal) -> String {
    match why {
        Refusal::NoTenant(id) => format!("no tenant {} is known", id.0),
        Refusal::NoTask(id) => format!("no task {id} is known"),
        Refusal::NobodyLeft => "no process of it is left".into(),
        Refusal::Protected(protected) => {
            format!("{} {}", whom(protected), of_whom(why).unwrap_or_default())
        }
        Refusal::NotInScope { tenant } => format!("{tenant} {}", of_whom(why).unwrap_or_default()),
        Refusal::NotPermitted { whom, error } => {
            format!("{whom} may not be changed by this user ({error}); {AS_ROOT}")
        }
        Refusal::HasGone { whom } => format!("{whom} has gone"),
        Refusal::Kernel { whom, error } => format!("{whom}: {error}"),
        Refusal::Slice { min_ns, max_ns, bounds_ns: Some((least_ns, most_ns)) } => {
            let [least, most, min, max] = [*least_ns, *most_ns, *min_ns, *max_ns].map(human_ns);
            format!("slices are {least} to {most} long, not {min} to {max}")
        }
        Refusal::Slice { min_ns, max_ns, bounds_ns: None } => {
            format!("a slice from {min_ns} to {max_ns} ns makes no sense")
        }
        Refusal::Weight(weight) => format!("a weight is 1 to 10000, not {weight}"),
        Refusal::NoCpu => "a task needs at least one CPU".into(),
        Refusal::CpuNotThere { cpu, online } => {
            format!("CPU {} is not there; online are {}", cpu.0, ranges(online))
        }
        Refusal::RealTime(task) => format!("task {task} is real-time: the fair scheduler's knobs don't apply"),
        Refusal::IdleClass(task) => format!("task {task} is SCHED_IDLE and preempts nobody"),
        Refusal::ForegroundJob { name, pid } => format!(
            "{name} (PID {pid}) is the foreground job of a terminal and cannot be frozen here; a stop signal would hand the \
             terminal back to its shell"
        ),
        Refusal::NoSlices => "this kernel has no slice per task; use Linux 6.12 or newer".into(),
        Refusal::SharesSession { with, pid } => format!(
            "it has no cgroup of its own and shares its session with {with} (PID {pid}); start it with `setsid`, or switch \
             autogroups off (`sysctl kernel.sched_autogroup_enabled=0`) so that nice counts"
        ),
        Refusal::NoGroup => "this tenant shares no group of its own that could have a weight".into(),
        Refusal::ObservesOnly => "this host only observes; it sets no knob".into(),
        Refusal::Controller(why) => why.clone(),
    }
}

/// The text after the name of a tenant, if the reason applies to the tenant as a whole.
pub fn of_whom(why: &Refusal) -> Option<String> {
    match why {
        Refusal::Protected(Protected { why, .. }) => Some(format!("is protected: {}", by(why))),
        Refusal::NotInScope { .. } => Some("is not among the tenants that may be controlled".into()),
        _ => None,
    }
}

/// The protected process or tenant.
fn whom(protected: &Protected) -> String {
    match (&protected.name, protected.pid) {
        (Some(name), Some(pid)) => format!("{name} (PID {pid})"),
        (Some(name), None) => name.clone(),
        (None, Some(pid)) => format!("PID {pid}"),
        (None, None) => "it".into(),
    }
}

fn by(why: &ProtectedBy) -> String {
    let by = match why {
        ProtectedBy::Kind(TenantKind::Idle) => "it is nobody",
        ProtectedBy::Kind(TenantKind::Watcher) => "it is corun itself",
        ProtectedBy::Kind(TenantKind::Others) => {
            "it stands for several tenants that corun does not list separately"
        }
        ProtectedBy::Kind(_) | ProtectedBy::KernelThread => "it is the kernel's",
        ProtectedBy::FirstProcess => "it is the first process",
        ProtectedBy::Corun => "corun is it or was started from it",
        ProtectedBy::Keeper => "it keeps sessions, devices, logs or a cluster running",
        ProtectedBy::SessionUnit => "it keeps sessions running",
        ProtectedBy::User { .. } => "--protect names it",
        ProtectedBy::Unreadable(error) => error,
    };
    by.to_owned()
}

/// `0-3,5`, as the kernel writes it.
pub(crate) fn ranges(cpus: &[CpuId]) -> String {
    let runs = cpus.chunk_by(|a, b| a.0 + 1 == b.0).map(|run| match run {
        [one] => one.0.to_string(),
        [first, .., last] => format!("{}-{}", first.0, last.0),
        [] => String::new(),
    });
    runs.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use corun_model::{TaskId, TenantId};

    #[test]
    fn a_refusal_is_a_sentence_that_names_the_target_and_the_remedy() {
        let protected = |name: Option<&str>, pid, why| {
            Refusal::Protected(Protected { name: name.map(str::to_owned), pid, why })
        };
        let cpus = [0, 1, 2, 5].map(CpuId).to_vec();
        for (why, sentence) in [
            (Refusal::NoTenant(TenantId(9)), "no tenant 9 is known"),
            (
                protected(Some("kernel"), None, ProtectedBy::Kind(TenantKind::Kernel)),
                "kernel is protected: it is the kernel's",
            ),
            (
                protected(Some("systemd"), Some(1), ProtectedBy::FirstProcess),
                "systemd (PID 1) is protected: it is the first process",
            ),
            (
                protected(Some("build"), None, ProtectedBy::User { word: "pgid:7".into() }),
                "build is protected: --protect names it",
            ),
            (
                protected(None, Some(7), ProtectedBy::Unreadable("no access".into())),
                "PID 7 is protected: no access",
            ),
            (
                Refusal::NotInScope { tenant: "web".into() },
                "web is not among the tenants that may be controlled",
            ),
            (
                Refusal::NotPermitted { whom: "task 7".into(), error: "operation not permitted".into() },
                "task 7 may not be changed by this user (operation not permitted); run as root",
            ),
            (
                Refusal::Slice { min_ns: 50_000, max_ns: 60_000, bounds_ns: Some((100_000, 100_000_000)) },
                "slices are 100 µs to 100 ms long, not 50.0 µs to 60.0 µs",
            ),
            (Refusal::Weight(0), "a weight is 1 to 10000, not 0"),
            (Refusal::CpuNotThere { cpu: CpuId(9), online: cpus }, "CPU 9 is not there; online are 0-2,5"),
            (Refusal::RealTime(TaskId(7)), "task 7 is real-time: the fair scheduler's knobs don't apply"),
        ] {
            assert_eq!(refusal(&why), sentence);
        }
    }
}
