//! Which system call means which kind of blocking: what the ledger's block reasons rest on.
//!
//! A task that blocks inside a system call is waiting for what that call is for. Calls that are not listed, and
//! kernel threads, count as "other"; the probe turns "pipe" and "other" into I/O when the sleep is uninterruptible.

use corun_bpf::layout::state;

/// The state of each system call by its number on this architecture, for the probe's table.
pub(super) fn block_states() -> [u8; 512] {
    let mut table = [state::BLOCK_OTHER as u8; 512];
    let mut set = |calls: &[libc::c_long], state: usize| {
        for &nr in calls {
            if let Some(entry) = usize::try_from(nr).ok().and_then(|nr| table.get_mut(nr)) {
                *entry = state as u8;
            }
        }
    };
    const FUTEX_WAITV: libc::c_long = 449;
    set(&[libc::SYS_futex, FUTEX_WAITV], state::BLOCK_FUTEX);
    set(&[libc::SYS_nanosleep, libc::SYS_clock_nanosleep], state::BLOCK_SLEEP);
    set(
        &[libc::SYS_ppoll, libc::SYS_pselect6, libc::SYS_epoll_pwait, libc::SYS_epoll_pwait2],
        state::BLOCK_POLL,
    );
    set(&[libc::SYS_io_uring_enter, libc::SYS_io_getevents, libc::SYS_rt_sigtimedwait], state::BLOCK_POLL);
    set(&[libc::SYS_read, libc::SYS_write, libc::SYS_readv, libc::SYS_writev], state::BLOCK_PIPE);
    set(&[libc::SYS_recvfrom, libc::SYS_sendto, libc::SYS_recvmsg, libc::SYS_sendmsg], state::BLOCK_PIPE);
    set(&[libc::SYS_recvmmsg, libc::SYS_sendmmsg, libc::SYS_accept, libc::SYS_accept4], state::BLOCK_PIPE);
    set(&[libc::SYS_splice, libc::SYS_sendfile, libc::SYS_connect], state::BLOCK_PIPE);
    set(&[libc::SYS_fsync, libc::SYS_fdatasync, libc::SYS_pread64, libc::SYS_pwrite64], state::BLOCK_IO);
    set(&[libc::SYS_wait4, libc::SYS_waitid, libc::SYS_clone, libc::SYS_clone3], state::BLOCK_CHILD);
    #[cfg(target_arch = "x86_64")]
    {
        set(&[libc::SYS_poll, libc::SYS_select, libc::SYS_epoll_wait], state::BLOCK_POLL);
        set(&[libc::SYS_fork, libc::SYS_vfork], state::BLOCK_CHILD);
    }
    // Not a way to block: the probe counts a switch inside it as a yield.
    set(&[libc::SYS_sched_yield], state::RUN);
    table
}
