//! The kind of blocking that each system call means: the basis of the ledger's block reasons.
//!
//! A task that blocks inside a system call waits for the object of that call. Calls that are not listed, and
//! kernel threads, count as "other". The probe turns "pipe" and "other" into I/O if the sleep is
//! uninterruptible. The calls of 32-bit programs have numbers of their own: the second half of the table.

use corun_bpf::layout::{state, SYSCALLS};

/// A table for the probe: of 64-bit programs, and from [`SYSCALLS`] on of 32-bit ones.
type Table = [u8; 2 * SYSCALLS];

/// The state of each system call by its number on this architecture, for the probe's table.
pub(super) fn block_states() -> Table {
    let mut table = [state::BLOCK_OTHER as u8; 2 * SYSCALLS];
    own(&mut table);
    for &(state, calls) in OF_32_BITS.iter().chain(SINCE_5_1_OF_32_BITS) {
        set(&mut table, SYSCALLS, calls, state);
    }
    table
}

/// The places of `sched_setaffinity` in that table. It has the same number in 32-bit programs of x86 and of
/// Arm.
pub(super) fn places_of_setaffinity() -> [u32; 2] {
    [libc::SYS_sched_setaffinity as u32, SYSCALLS as u32 + 241]
}

fn set(table: &mut Table, from: usize, calls: &[libc::c_long], state: usize) {
    for &nr in calls {
        if let Some(nr) = usize::try_from(nr).ok().filter(|&nr| nr < SYSCALLS) {
            table[from + nr] = state as u8;
        }
    }
}

/// Those of programs of this architecture.
fn own(table: &mut Table) {
    let mut set = |calls: &[libc::c_long], state: usize| set(table, 0, calls, state);
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
}

type Calls = &'static [(usize, &'static [libc::c_long])];

/// i386, by `arch/x86/entry/syscalls/syscall_32.tbl`.
#[cfg(target_arch = "x86_64")]
const OF_32_BITS: Calls = &[
    (state::BLOCK_FUTEX, &[240]),
    (state::BLOCK_SLEEP, &[162, 267]),
    // select, _newselect, poll, pselect6, ppoll, epoll_wait, epoll_pwait; io_getevents, io_pgetevents, rt_sigtimedwait
    (state::BLOCK_POLL, &[82, 142, 168, 308, 309, 256, 319, 247, 385, 177]),
    // read, write, readv, writev; socketcall, recvmmsg, sendmmsg, connect, accept4, sendto, sendmsg, recvfrom, recvmsg
    (state::BLOCK_PIPE, &[3, 4, 145, 146, 102, 337, 345, 362, 364, 369, 370, 371, 372]),
    // splice, sendfile, sendfile64
    (state::BLOCK_PIPE, &[313, 187, 239]),
    // fsync, fdatasync, pread64, pwrite64
    (state::BLOCK_IO, &[118, 148, 180, 181]),
    // fork, waitpid, wait4, clone, vfork, waitid
    (state::BLOCK_CHILD, &[2, 7, 114, 120, 190, 284]),
    (state::RUN, &[158]),
];

/// The ARM EABI, by `arch/arm/tools/syscall.tbl`.
#[cfg(target_arch = "aarch64")]
const OF_32_BITS: Calls = &[
    (state::BLOCK_FUTEX, &[240]),
    (state::BLOCK_SLEEP, &[162, 265]),
    // _newselect, poll, pselect6, ppoll, epoll_wait, epoll_pwait; io_getevents, io_pgetevents, rt_sigtimedwait
    (state::BLOCK_POLL, &[142, 168, 335, 336, 252, 346, 245, 399, 177]),
    // read, write, readv, writev; connect, accept, sendto, recvfrom, sendmsg, recvmsg, recvmmsg, accept4, sendmmsg
    (state::BLOCK_PIPE, &[3, 4, 145, 146, 283, 285, 290, 292, 296, 297, 365, 366, 374]),
    // splice, sendfile, sendfile64
    (state::BLOCK_PIPE, &[340, 187, 239]),
    // fsync, fdatasync, pread64, pwrite64
    (state::BLOCK_IO, &[118, 148, 180, 181]),
    // fork, wait4, clone, vfork, waitid
    (state::BLOCK_CHILD, &[2, 114, 120, 190, 280]),
    (state::RUN, &[158]),
];

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const OF_32_BITS: Calls = &[];

/// Since Linux 5.1 a new call has one number on every architecture. Calls with a time have another one for 32
/// bits.
const SINCE_5_1_OF_32_BITS: Calls = &[
    // futex_time64, futex_waitv
    (state::BLOCK_FUTEX, &[422, 449]),
    // clock_nanosleep_time64
    (state::BLOCK_SLEEP, &[407]),
    // pselect6_time64, ppoll_time64, io_pgetevents_time64, rt_sigtimedwait_time64, io_uring_enter, epoll_pwait2
    (state::BLOCK_POLL, &[413, 414, 416, 421, 426, 441]),
    // recvmmsg_time64
    (state::BLOCK_PIPE, &[417]),
    // clone3
    (state::BLOCK_CHILD, &[435]),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn one_number_means_one_call_in_64_bits_and_another_in_32() {
        let table = block_states();
        // 7 is poll and waitpid; 35 is nanosleep and a call that does not wait; 162 is sync and nanosleep;
        // 240 is mq_open and futex.
        let read = |nr: usize| (usize::from(table[nr]), usize::from(table[SYSCALLS + nr]));
        assert_eq!(read(7), (state::BLOCK_POLL, state::BLOCK_CHILD));
        assert_eq!(read(35), (state::BLOCK_SLEEP, state::BLOCK_OTHER));
        assert_eq!(read(162), (state::BLOCK_OTHER, state::BLOCK_SLEEP));
        assert_eq!(read(240), (state::BLOCK_OTHER, state::BLOCK_FUTEX));
    }
}
