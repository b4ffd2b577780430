//! Why the kernel refuses to count: the meaning of each error of `perf_event_open` on this machine.

use crate::cpustat;
use crate::root::Root;
pub use corun_model::why::NoCounters as Refusal;

/// The meaning of an error of `perf_event_open` on this machine.
pub fn of_errno(root: &Root, errno: i32) -> Refusal {
    let error = name_of(errno);
    match errno {
        libc::ENOENT | libc::ENODEV | libc::EOPNOTSUPP => {
            Refusal::NoPmu { is_virtual: cpustat::is_virtual(root), error }
        }
        libc::EACCES | libc::EPERM => {
            let paranoid = root.read("/proc/sys/kernel/perf_event_paranoid").unwrap_or_default();
            let paranoid = match paranoid.trim() {
                "" => "?",
                level => level,
            };
            Refusal::Forbidden { error, paranoid: paranoid.to_owned() }
        }
        libc::EMFILE | libc::ENFILE => Refusal::NoFiles { error },
        libc::EINVAL => Refusal::CannotEncode,
        libc::EBUSY => Refusal::Busy,
        libc::ENOSYS => Refusal::NoSystemCall,
        _ => Refusal::Other { error },
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
    fn every_error_has_its_own_reason_and_remedy() {
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
            assert!(!refusal.remedy().is_empty());
            assert!(all[..n].iter().all(|r| r.to_string() != refusal.to_string()), "{refusal}");
        }
        assert_eq!(all[1].to_string(), "perf_event_open says EACCES (perf_event_paranoid is 3)");
        assert!(all[0].to_string().starts_with("this kernel drives no performance counters"));
    }

    #[test]
    fn a_virtual_machine_is_told_that_its_host_gives_it_no_counters() {
        let (_dir, root) = fixture::with(&[("/proc/cpuinfo", "flags\t: fpu hypervisor\n")]);
        assert!(matches!(of_errno(&root, libc::ENOENT), Refusal::NoPmu { is_virtual: true, .. }));
    }
}
