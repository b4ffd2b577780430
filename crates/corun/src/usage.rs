//! Mistakes of the user, the checks of every command line (where files go), and how a verb is interrupted.

use anyhow::Context;
use corun_report::output::can_be_written;
use corun_report::places::{can_be_read, unmade, unread};
use corun_session::Stop;
use std::collections::BTreeSet;
use std::io::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// A mistake of the user: one clear sentence, exit code 2.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Usage(pub String);

/// What ends a session at Ctrl-C and similar signals.
///
/// # Errors
/// What the kernel says.
pub fn stop_on_signals() -> anyhow::Result<Stop> {
    Stop::on_signals().context("installing the Ctrl-C handler")
}

/// The exit code that a shell reports for a program that a signal ended: 128 and its number.
pub fn interrupted_by(signal: Option<i32>) -> u8 {
    128 + signal.unwrap_or(libc::SIGINT) as u8
}

/// The exit code of a verb that was interrupted.
pub fn interrupted(stop: &Stop) -> ExitCode {
    ExitCode::from(interrupted_by(stop.signal()))
}

/// Whether these files can be written, each to a place of its own: results that take an hour must not be lost
/// to a mistyped folder.
///
/// # Errors
/// One sentence on the first that cannot.
pub fn check_files<'a>(paths: impl IntoIterator<Item = &'a PathBuf>) -> Result<(), Usage> {
    let mut before = BTreeSet::new();
    paths.into_iter().try_for_each(|path| {
        take_place(&mut before, path)?;
        can_be_written(path).map_err(|e| Usage(e.to_string()))
    })
}

/// Whether a file goes to none of the occupied places; its own is occupied from then on.
///
/// # Errors
/// One sentence.
pub fn take_place<'a>(taken: &mut BTreeSet<&'a Path>, path: &'a Path) -> Result<(), Usage> {
    // A device takes several.
    let is_device = path.exists() && !path.is_file();
    if is_device || taken.insert(path) {
        return Ok(());
    }
    Err(Usage(format!("two files would go to `{}`; give each a place of its own", path.display())))
}

/// Creates a folder unless it exists.
///
/// # Errors
/// One sentence.
pub fn make_folder(folder: &Path) -> Result<(), Usage> {
    let made = std::fs::create_dir_all(folder);
    made.map_err(|e| Usage(format!("cannot make the folder {}: {}", folder.display(), unmade(folder, &e))))
}

/// The same for a folder for files, which must be writable.
///
/// # Errors
/// One sentence.
pub fn check_folder(folder: &Path) -> Result<(), Usage> {
    make_folder(folder)?;
    can_be_written(&folder.join("result.json"))
        .map_err(|e| Usage(format!("cannot write into {}: {}", folder.display(), e.why)))
}

/// Whether these files can be read; one that `may_be` missing is not refused.
///
/// # Errors
/// One sentence on the first that cannot.
pub fn check_read<'a, P: AsRef<Path> + ?Sized + 'a>(
    paths: impl IntoIterator<Item = &'a P>,
    may_be: impl Fn(&Error) -> bool,
) -> Result<(), Usage> {
    paths.into_iter().map(|path| -> &Path { path.as_ref() }).try_for_each(|path| match can_be_read(path) {
        Err(e) if !may_be(&e) => Err(Usage(format!("cannot read {}: {}", path.display(), unread(path, &e)))),
        _ => Ok(()),
    })
}
