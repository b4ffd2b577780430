//! Mistakes of the user's, and what is checked of every command line: where files go.

use corun_report::output::can_be_written;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// A mistake of the user's: one clear sentence, exit code 2.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Usage(pub String);

/// A signal came before anything had begun: the exit status, and nothing to say.
#[derive(Debug, thiserror::Error)]
#[error("stopped before it began")]
pub struct Stopped(pub u8);

/// Whether these files can be written, each to a place of its own: what takes an hour to find out should not be lost to a
/// mistyped folder.
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

/// Whether a file goes to none of the places that are taken; its own is one from then on.
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

/// The same for a folder of records, which is made.
///
/// # Errors
/// One sentence.
pub fn check_folder(folder: &Path) -> Result<(), Usage> {
    std::fs::create_dir_all(folder).map_err(|e| {
        Usage(format!("cannot make the folder {}: {e}; choose another place", folder.display()))
    })?;
    check_files([&folder.join("result.json")])
}
