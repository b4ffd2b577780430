//! The supervisor of a program that parks others: the same program in a process of its own, which undoes
//! everything if the first one is killed.

use crate::error::Error;
use corun_linux::supervisor;
use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether this program becomes a supervisor when it is started as one.
static IS_PROVIDED: AtomicBool = AtomicBool::new(false);

/// Becomes the supervisor if a session has started this program as one, and returns its exit code when
/// nothing is left to watch over. A program that controls tenants, or parks co-runners for dedicated windows,
/// calls this first in `main`:
///
/// ```no_run
/// use std::process::ExitCode;
///
/// fn main() -> ExitCode {
///     if let Some(code) = corun_session::supervise_if_asked() {
///         return code;
///     }
///     // Sessions.
///     ExitCode::SUCCESS
/// }
/// ```
pub fn supervise_if_asked() -> Option<ExitCode> {
    IS_PROVIDED.store(true, Ordering::Relaxed);
    let asked = supervisor::Options::default().args;
    let given: Vec<OsString> = std::env::args_os().skip(1).collect();
    let rest = given.strip_prefix(&asked[..])?;
    (rest.len() == supervisor::ARGUMENTS).then(|| supervisor::main(rest.to_vec()))
}

/// Whether anybody may be parked: somebody has to undo it if this process is killed.
pub(crate) fn check() -> Result<(), Error> {
    match IS_PROVIDED.load(Ordering::Relaxed) {
        true => Ok(()),
        false => {
            let what = "this program has no supervisor to undo what it does; call corun_session::supervise_if_asked first in main";
            Err(Error::Usage(what.into()))
        }
    }
}
