//! Files and folders that somebody named: why one cannot be read, written or created, and what to do instead.
//! Every flag of every verb that names one gives the same errors. They are checked in advance, as far as
//! possible: an hour's work must not be lost to a mistyped name.

use std::fs::{self, File};
use std::io::{Error, ErrorKind, Result};
use std::path::Path;

/// Why a file cannot be read.
pub fn unread(path: &Path, e: &Error) -> String {
    match e.kind() {
        ErrorKind::NotFound => "No such file or directory; name a file that is there".to_owned(),
        ErrorKind::IsADirectory => "it is a folder; name a file in it".to_owned(),
        ErrorKind::NotADirectory => format!("{}; name a file that is there", no_folder(path)),
        ErrorKind::InvalidData => "it is not text in UTF-8; name a text file".to_owned(),
        ErrorKind::PermissionDenied => "no permission to read it; name a file that you may read".to_owned(),
        _ => of_any(path, e),
    }
}

/// Why a folder cannot be read.
pub fn unlisted(path: &Path, e: &Error) -> String {
    match e.kind() {
        ErrorKind::NotFound => "there is no such folder; name one that is there".to_owned(),
        ErrorKind::NotADirectory => format!("{}; name a folder", no_folder(path)),
        ErrorKind::PermissionDenied => {
            "no permission to read it; name a folder that you may read, or run as root".to_owned()
        }
        _ => of_any(path, e),
    }
}

/// Why a file cannot be written.
pub fn unwritten(path: &Path, e: &Error) -> String {
    let folder = above(path);
    match e.kind() {
        // As in /proc.
        ErrorKind::NotFound if folder.is_dir() => {
            format!("no file can be made in {}; choose another place", folder.display())
        }
        ErrorKind::NotFound => format!("the folder {} does not exist; make it first", folder.display()),
        ErrorKind::NotADirectory => format!("{}; choose another place", no_folder(path)),
        ErrorKind::IsADirectory => "it is a folder; name a file in it".to_owned(),
        ErrorKind::PermissionDenied => {
            format!("no permission to create files in {}; choose another place", folder.display())
        }
        _ => of_any(path, e),
    }
}

/// Why a folder cannot be made.
pub fn unmade(path: &Path, e: &Error) -> String {
    match e.kind() {
        ErrorKind::AlreadyExists | ErrorKind::NotADirectory => format!("{}; name a folder", no_folder(path)),
        ErrorKind::NotFound => {
            format!("no folder can be made in {}; choose another place", standing(path).display())
        }
        ErrorKind::PermissionDenied => {
            format!("no permission to create files in {}; choose another place", standing(path).display())
        }
        _ => of_any(path, e),
    }
}

/// Whether an existing file can be read. Nothing is read: from a pipe, it would be lost.
///
/// # Errors
/// What the kernel says, for [`unread`].
pub fn can_be_read(path: &Path) -> Result<()> {
    match fs::metadata(path)? {
        m if m.is_dir() => Err(ErrorKind::IsADirectory.into()),
        m if m.is_file() => File::open(path).map(drop),
        _ => Ok(()),
    }
}

/// What holds for a place of any kind.
fn of_any(path: &Path, e: &Error) -> String {
    match e.kind() {
        ErrorKind::InvalidFilename => "its name is too long; choose a shorter one".to_owned(),
        ErrorKind::StorageFull => "the disk is full; free some space or choose another place".to_owned(),
        ErrorKind::QuotaExceeded => {
            "this user's disk quota is used up; free some space or choose another place".to_owned()
        }
        ErrorKind::ReadOnlyFilesystem => {
            format!("the file system of {} can only be read; choose another place", above(path).display())
        }
        ErrorKind::FileTooLarge => "it would be larger than `ulimit -f` allows; raise that".to_owned(),
        _ if e.raw_os_error() == Some(TOO_MANY_FILES) => {
            "too many files are open; raise `ulimit -n`".to_owned()
        }
        _ => without_number(e),
    }
}

/// The kernel's message, without the number that the standard library appends.
fn without_number(e: &Error) -> String {
    let text = e.to_string();
    let number = e.raw_os_error().map(|number| format!(" (os error {number})"));
    number.and_then(|number| text.strip_suffix(&number)).unwrap_or(&text).to_owned()
}

/// EMFILE.
const TOO_MANY_FILES: i32 = 24;

/// The folder that a path is in.
fn above(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// The nearest existing part of a path.
fn standing(path: &Path) -> &Path {
    let there = path.ancestors().find(|part| !part.as_os_str().is_empty() && part.exists());
    there.unwrap_or(Path::new("."))
}

/// A statement that a part of a path is a file instead of a folder.
fn no_folder(path: &Path) -> String {
    match standing(path) {
        itself if itself == path => "it is no folder".to_owned(),
        part => format!("{} is no folder", part.display()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_obstacle_is_named_however_far_up_the_path_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        let below = file.join("a/b/c");
        let said = unmade(&below, &fs::create_dir_all(&below).unwrap_err());
        assert_eq!(said, format!("{} is no folder; name a folder", file.display()));
        let said = unmade(&file, &fs::create_dir_all(&file).unwrap_err());
        assert_eq!(said, "it is no folder; name a folder");
        let said = unread(&below, &can_be_read(&below).unwrap_err());
        assert_eq!(said, format!("{} is no folder; name a file that is there", file.display()));
    }

    #[test]
    fn a_file_can_be_read_if_it_is_one() {
        let file = tempfile::NamedTempFile::new().unwrap();
        for path in [file.path(), Path::new("/dev/null")] {
            can_be_read(path).unwrap();
        }
        let folder = can_be_read(Path::new("/proc")).unwrap_err();
        assert_eq!(unread(Path::new("/proc"), &folder), "it is a folder; name a file in it");
    }
}
