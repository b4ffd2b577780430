//! Room on the first thread's stack, even if the session allows little (`ulimit -s`).
//!
//! The kernel checks the limit when the stack grows, and never shrinks a stack. So the limit is raised, the
//! stack grows, and the limit is restored before there is a child that would inherit it.

use std::io;

/// The most that reading a command line and writing a report takes, with room to spare.
const ROOM: usize = 2 << 20;

/// Takes that room.
///
/// # Errors
/// The limit in bytes, if it leaves less and this user may not raise it.
pub fn take_room() -> Result<(), u64> {
    let Ok(before) = limit() else { return Ok(()) };
    // The part above the frame of this function counts, too.
    let wanted = 2 * ROOM as u64;
    if before.rlim_cur >= wanted {
        return Ok(());
    }
    let enough = libc::rlimit { rlim_cur: wanted, rlim_max: before.rlim_max.max(wanted) };
    set_limit(&enough).map_err(|_| before.rlim_cur)?;
    grow();
    // If it cannot be restored, children have more room than they would have had.
    let _ = set_limit(&before);
    Ok(())
}

/// Touches the far end of the room.
#[inline(never)]
fn grow() {
    let mut room = [0u8; ROOM];
    std::hint::black_box(&mut room);
}

fn limit() -> io::Result<libc::rlimit> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: getrlimit writes one structure.
    match unsafe { libc::getrlimit(libc::RLIMIT_STACK, &mut limit) } {
        0 => Ok(limit),
        _ => Err(io::Error::last_os_error()),
    }
}

fn set_limit(limit: &libc::rlimit) -> io::Result<()> {
    // SAFETY: setrlimit reads one structure.
    match unsafe { libc::setrlimit(libc::RLIMIT_STACK, limit) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
