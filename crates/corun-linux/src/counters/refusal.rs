//! Why the kernel will not count, and what would help: each error of `perf_event_open` in words.

use crate::cpustat;
use crate::root::Root;

/// A no, with its reason and a remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The reason.
    pub why: String,
    /// What would help.
    pub remedy: String,
    /// That is much to ask of somebody who does not need it.
    is_dear: bool,
}

impl Refusal {
    fn new(why: impl Into<String>, remedy: impl Into<String>) -> Refusal {
        Refusal { why: why.into(), remedy: remedy.into(), is_dear: false }
    }

    fn dear(self) -> Refusal {
        Refusal { is_dear: true, ..self }
    }

    /// Reason and remedy as one sentence, for somebody who can do without.
    pub fn sentence(&self) -> String {
        format!("{}; {}", self.why, self.optional_remedy())
    }

    /// The remedy, for somebody who can do without.
    pub fn optional_remedy(&self) -> String {
        format!("{}{}", self.remedy, if self.is_dear { "; corun works without" } else { "" })
    }

    /// Reason and remedy as one sentence, for somebody who needs what is refused.
    pub fn sentence_of_needed(&self) -> String {
        format!("{}; {}", self.why, self.remedy)
    }
}

/// What an error of `perf_event_open` means on this machine.
pub fn of_errno(root: &Root, errno: i32) -> Refusal {
    match errno {
        libc::ENOENT | libc::ENODEV | libc::EOPNOTSUPP => {
            let name = name_of(errno);
            let why = if cpustat::is_virtual(root) {
                format!(
                    "this virtual machine was given no performance counters (perf_event_open says {name})"
                )
            } else {
                format!(
                    "this kernel drives no performance counters of this CPU (perf_event_open says {name})"
                )
            };
            Refusal::new(why, "use a metal instance or a VM with a virtual PMU").dear()
        }
        libc::EACCES | libc::EPERM => {
            let paranoid = root.read("/proc/sys/kernel/perf_event_paranoid").unwrap_or_default();
            let paranoid = match paranoid.trim() {
                "" => "?",
                level => level,
            };
            Refusal::new(
                format!("perf_event_open says {} (perf_event_paranoid is {paranoid})", name_of(errno)),
                "`sysctl kernel.perf_event_paranoid=2` or lower, or run as root",
            )
        }
        libc::EMFILE | libc::ENFILE => Refusal::new(
            format!("no more files can be opened ({})", name_of(errno)),
            "raise `ulimit -n`, or watch fewer tasks",
        ),
        libc::EINVAL => Refusal::new(
            "this kernel cannot encode the event (perf_event_open says EINVAL)",
            "use a newer kernel",
        )
        .dear(),
        libc::EBUSY => Refusal::new(
            "another program has the counters for itself (perf_event_open says EBUSY)",
            "stop it, or wait until it is done",
        ),
        libc::ENOSYS => Refusal::new(
            "this kernel has no perf_event_open, or a seccomp filter hides it",
            "use a kernel with CONFIG_PERF_EVENTS, and allow it in the container's seccomp filter",
        ),
        _ => Refusal::new(
            format!("perf_event_open says {}", name_of(errno)),
            "use a kernel with CONFIG_PERF_EVENTS",
        )
        .dear(),
    }
}

/// An error's name, for the few that `perf_event_open` returns.
pub fn name_of(errno: i32) -> String {
    let known = [
        (libc::EPERM, "EPERM"),
        (libc::EACCES, "EACCES"),
        (libc::ENOENT, "ENOENT"),
        (libc::ENODEV, "ENODEV"),
        (libc::ENOSYS, "ENOSYS"),
        (libc::EINVAL, "EINVAL"),
        (libc::EBUSY, "EBUSY"),
        (libc::EOPNOTSUPP, "EOPNOTSUPP"),
        (libc::EMFILE, "EMFILE"),
        (libc::ENFILE, "ENFILE"),
    ];
    let found = known.iter().find(|(number, _)| *number == errno);
    found.map_or_else(|| format!("error {errno}"), |(_, name)| (*name).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counters::fixture;

    #[test]
    fn every_error_has_a_reason_of_its_own_and_a_remedy() {
        let (_dir, root) = fixture::with(&[("/proc/sys/kernel/perf_event_paranoid", "3\n")]);
        let errors = [
            libc::ENOENT,
            libc::EACCES,
            libc::EMFILE,
            libc::EINVAL,
            libc::EBUSY,
            libc::ENOSYS,
            libc::EOPNOTSUPP,
            libc::E2BIG,
        ];
        let all: Vec<Refusal> = errors.iter().map(|&errno| of_errno(&root, errno)).collect();
        for (n, refusal) in all.iter().enumerate() {
            assert!(!refusal.remedy.is_empty());
            assert!(all[..n].iter().all(|r| r.why != refusal.why), "{}", refusal.why);
        }
        assert_eq!(all[1].why, "perf_event_open says EACCES (perf_event_paranoid is 3)");
        assert!(all[0].why.starts_with("this kernel drives no performance counters"));
    }

    #[test]
    fn a_virtual_machine_is_told_that_it_was_given_none() {
        let (_dir, root) = fixture::with(&[("/proc/cpuinfo", "flags\t: fpu hypervisor\n")]);
        assert!(of_errno(&root, libc::ENOENT).why.starts_with("this virtual machine was given no"));
    }
}
