//! Writing a report to the user's file: whole or not at all.
//!
//! A regular file is written next to its place and renamed into it. So a reader never sees half a report, and
//! a full disk leaves the old one. The new one has the owner and permissions of the old one: `sudo` does not
//! take a user's file away. Pipes, terminals and devices cannot be replaced by renaming, and are written
//! directly.

use crate::places::unwritten;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use thiserror::Error;

/// A report that could not be written; one sentence that names the path.
#[derive(Debug, Error)]
#[error("cannot write {}: {why}", called(path))]
pub struct OutputError {
    /// The path that the user gave.
    pub path: PathBuf,
    /// Why, and what would help.
    pub why: String,
}

/// A path as people call it.
fn called(path: &Path) -> String {
    if path == Path::new("-") {
        return "to standard output".to_owned();
    }
    path.display().to_string()
}

/// Whether a path is standard output, by its sign or by its name. A file behind it is not replaced then:
/// others write there, too.
pub fn is_stdout(path: &Path) -> bool {
    ["-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"].iter().any(|name| path == Path::new(name))
}

/// Writes `bytes` to `path`; `-` is standard output.
///
/// # Errors
/// [`OutputError`] if the folder is missing or not accessible, the disk is full, or the path is a folder.
/// Then nothing half-written is left behind.
pub fn write_file(path: &Path, bytes: &[u8]) -> Result<(), OutputError> {
    let done = if is_stdout(path) { to_stdout(bytes) } else { to_path(path, |out| out.write_all(bytes)) };
    done.map_err(|e| OutputError { path: path.to_owned(), why: unwritten(path, &e) })
}

/// The same for output that is too long to keep: `fill` writes it, and if it fails, nothing is written. It
/// does not write to standard output.
///
/// # Errors
/// As [`write_file`].
pub fn write_file_by(
    path: &Path,
    fill: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<(), OutputError> {
    let fill = |file: &mut fs::File| {
        let mut out = io::BufWriter::new(file);
        fill(&mut out).and_then(|()| out.flush())
    };
    to_path(path, fill).map_err(|e| OutputError { path: path.to_owned(), why: unwritten(path, &e) })
}

/// Writes to standard output. A reader that has read enough and has gone, such as `head`, is no failure.
///
/// # Errors
/// As [`write_file`].
pub fn print(text: &str) -> Result<(), OutputError> {
    write_file(Path::new("-"), text.as_bytes())
}

/// Whether `path` can be written, as far as that is known in advance: results that take an hour must not be
/// lost to a mistyped folder. Nothing is left there.
///
/// # Errors
/// As [`write_file`].
pub fn can_be_written(path: &Path) -> Result<(), OutputError> {
    let tried = || match place(path)? {
        (_, Some(m)) if m.is_dir() => Err(io::Error::from(io::ErrorKind::IsADirectory)),
        // Opening a pipe can block, and closing it again would end it for its reader.
        (_, Some(m)) if !m.is_file() => Ok(()),
        (place, _) => replaceable(&place).map(drop),
    };
    let tried = if is_stdout(path) { Ok(()) } else { tried() };
    tried.map_err(|e| OutputError { path: path.to_owned(), why: unwritten(path, &e) })
}

fn to_stdout(bytes: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        done => done,
    }
}

fn to_path(path: &Path, fill: impl FnOnce(&mut fs::File) -> io::Result<()>) -> io::Result<()> {
    match place(path)? {
        (_, Some(m)) if m.is_dir() => Err(io::Error::from(io::ErrorKind::IsADirectory)),
        (place, Some(m)) if !m.is_file() => fill(&mut fs::OpenOptions::new().write(true).open(place)?),
        (place, old) => replace(&place, old.as_ref(), fill),
    }
}

/// The file to be replaced, and what is known about it. A symbolic link keeps its target, and the target is
/// replaced. It is found once and examined in place. Otherwise, a user who may write in the folder could
/// exchange it meanwhile, and so get a root-owned report under another owner.
fn place(path: &Path) -> io::Result<(PathBuf, Option<fs::Metadata>)> {
    let is_link = fs::symlink_metadata(path).is_ok_and(|m| m.is_symlink());
    let place = match fs::metadata(path) {
        // Standard output by its name, say, which may be a pipe without a place.
        Ok(m) if is_link && !m.is_file() => return Ok((path.to_owned(), Some(m))),
        Ok(_) if is_link => fs::canonicalize(path)?,
        _ => path.to_owned(),
    };
    // A link without a target is replaced itself.
    if is_link && place == path {
        return Ok((place, None));
    }
    match fs::symlink_metadata(&place) {
        Ok(m) if m.is_symlink() => {
            Err(io::Error::other("it was exchanged for a link meanwhile; choose another place"))
        }
        Ok(m) => Ok((place, Some(m))),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok((place, None)),
        Err(e) => Err(e),
    }
}

/// A temporary file next to `path`.
fn replaceable(path: &Path) -> io::Result<tempfile::NamedTempFile> {
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    tempfile::Builder::new()
        .prefix(".corun-")
        .permissions(fs::Permissions::from_mode(0o666)) // less the umask, as for any new file
        .tempfile_in(folder)
}

/// Fills a temporary file next to `path` and renames it into the place of `old`; on any error the temporary
/// file is removed.
fn replace(
    path: &Path,
    old: Option<&fs::Metadata>,
    fill: impl FnOnce(&mut fs::File) -> io::Result<()>,
) -> io::Result<()> {
    let mut file = replaceable(path)?;
    if let Some(old) = old {
        // Before anything is in it. A user who may not give a file away keeps it; the old group's permissions
        // do not apply to the new one then.
        let given = std::os::unix::fs::fchown(file.as_file(), Some(old.uid()), Some(old.gid())).is_ok();
        let mode = old.mode() & if given { 0o777 } else { 0o707 };
        file.as_file().set_permissions(fs::Permissions::from_mode(mode))?;
    }
    fill(file.as_file_mut())?;
    file.as_file().sync_all()?;
    file.persist(path).map_err(|e| e.error)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(folder: &Path) -> Vec<String> {
        let names = fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    }

    #[test]
    fn a_report_replaces_the_old_one_and_leaves_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("report.json");
        write_file(&path, b"old").unwrap();
        write_file(&path, b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(entries(folder.path()), ["report.json"]);
    }

    #[test]
    fn a_failure_halfway_keeps_the_old_report_and_leaves_nothing_behind() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("report.json");
        write_file(&path, b"old").unwrap();
        let full = replace(&path, None, |file| {
            file.write_all(b"half")?;
            Err(io::Error::from(io::ErrorKind::StorageFull))
        });
        assert!(full.is_err());
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(entries(folder.path()), ["report.json"]);
    }

    #[test]
    fn an_unwritable_path_is_known_in_advance_and_trying_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let (old, new) = (folder.path().join("old.json"), folder.path().join("new.json"));
        fs::write(&old, "old").unwrap();
        for path in [&old, &new, Path::new("-"), Path::new("/dev/null")] {
            can_be_written(path).unwrap();
        }
        assert_eq!(fs::read(&old).unwrap(), b"old");
        assert_eq!(entries(folder.path()), ["old.json"]);
        let long = folder.path().join("x".repeat(300));
        assert!(can_be_written(&long)
            .unwrap_err()
            .to_string()
            .ends_with("its name is too long; choose a shorter one"));
        for path in [&folder.path().join("no/report.json"), folder.path(), &long] {
            let before = can_be_written(path).unwrap_err().to_string();
            assert_eq!(before, write_file(path, b"x").unwrap_err().to_string());
        }
    }

    #[test]
    fn a_full_device_is_one_sentence_that_names_it() {
        let error = write_file(Path::new("/dev/full"), b"x").unwrap_err().to_string();
        assert_eq!(
            error,
            "cannot write /dev/full: the disk is full; free some space or choose another place"
        );
    }

    #[test]
    fn a_missing_folder_and_a_folder_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let missing = folder.path().join("no/report.json");
        let error = write_file(&missing, b"x").unwrap_err().to_string();
        assert!(error.contains("report.json") && error.contains("does not exist"), "{error}");
        let error = write_file(folder.path(), b"x").unwrap_err().to_string();
        assert!(error.contains("it is a folder"), "{error}");
        let error = can_be_written(Path::new("/proc/report.json")).unwrap_err().to_string();
        assert!(error.ends_with("no file can be made in /proc; choose another place"), "{error}");
    }

    #[test]
    fn standard_output_has_its_name_and_not_its_sign() {
        let error = OutputError { path: PathBuf::from("-"), why: "the disk is full".into() };
        assert_eq!(error.to_string(), "cannot write to standard output: the disk is full");
    }

    #[test]
    fn a_replaced_file_keeps_its_owner_and_its_permissions() {
        let folder = tempfile::tempdir().unwrap();
        let (real, link) = (folder.path().join("real.json"), folder.path().join("link.json"));
        fs::write(&real, b"old").unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        fs::set_permissions(&real, fs::Permissions::from_mode(0o4640)).unwrap();
        // Only root may give a file away; anybody may give it to its present owner.
        let given = std::os::unix::fs::chown(&real, Some(65534), Some(65534)).is_ok();
        fs::set_permissions(&real, fs::Permissions::from_mode(0o4640)).unwrap();
        let before = fs::metadata(&real).unwrap();
        assert!(!given || (before.uid(), before.gid()) == (65534, 65534));
        for path in [&real, &link] {
            write_file(path, b"new").unwrap();
            let after = fs::metadata(&real).unwrap();
            assert_eq!((after.uid(), after.gid()), (before.uid(), before.gid()));
            assert_eq!(after.mode() & 0o7777, 0o640, "a report is no program to be run as its owner");
        }
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    }

    #[test]
    fn a_device_is_written_not_replaced() {
        write_file(Path::new("/dev/null"), b"x").unwrap();
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
    }

    #[test]
    fn a_link_to_a_device_is_written_and_one_without_a_target_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let (device, nowhere) = (folder.path().join("device"), folder.path().join("nowhere"));
        std::os::unix::fs::symlink("/dev/null", &device).unwrap();
        std::os::unix::fs::symlink("/no/such/place", &nowhere).unwrap();
        for path in [&device, &nowhere] {
            can_be_written(path).unwrap();
            write_file(path, b"x").unwrap();
        }
        assert!(fs::symlink_metadata(&device).unwrap().is_symlink());
        assert_eq!(fs::read(&nowhere).unwrap(), b"x");
    }

    #[test]
    fn a_link_stays_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let (real, link) = (folder.path().join("real.json"), folder.path().join("link.json"));
        fs::write(&real, b"old").unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        write_file(&link, b"new").unwrap();
        assert_eq!(fs::read(&real).unwrap(), b"new");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    }
}
