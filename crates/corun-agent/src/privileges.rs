//! Privileges: those that an agent keeps once its probe is loaded.
//!
//! It reads maps of the probe, which needs CAP_BPF, and tracepoints stay attached. All other privileges are
//! dropped, even for a process of root's, which then has root's files and nothing more. An attacker who takes
//! over the agent may not load kernel modules, trace processes or read the files of others.

use caps::{CapSet, Capability, CapsHashSet};

/// The kept ones, if they were present.
pub const KEPT: [Capability; 2] = [Capability::CAP_BPF, Capability::CAP_PERFMON];

/// Drops all other capabilities of this thread, and of threads that it starts from now on. New programs get none.
///
/// # Errors
/// One sentence.
pub fn drop_all_but_kept() -> Result<(), String> {
    let done = || {
        let had = caps::read(None, CapSet::Permitted)?;
        let kept: CapsHashSet = KEPT.into_iter().filter(|cap| had.contains(cap)).collect();
        if caps::has_cap(None, CapSet::Effective, Capability::CAP_SETPCAP)? {
            let bounding = caps::read(None, CapSet::Bounding)?;
            bounding.into_iter().try_for_each(|cap| caps::drop(None, CapSet::Bounding, cap))?;
        }
        caps::clear(None, CapSet::Ambient)?;
        caps::set(None, CapSet::Effective, &kept)?;
        caps::set(None, CapSet::Permitted, &kept)?;
        caps::set(None, CapSet::Inheritable, &CapsHashSet::new())
    };
    done().map_err(|e: caps::errors::CapsError| format!("privileges cannot be dropped: {e}"))?;
    // SAFETY: takes numbers only.
    match unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) } {
        0 => Ok(()),
        _ => Err(format!(
            "privileges cannot be dropped: {}",
            corun_linux::root::in_words(&std::io::Error::last_os_error())
        )),
    }
}
