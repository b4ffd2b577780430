//! Reading small kernel files under a root path: `/` in production, a folder of fixtures in tests.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use thiserror::Error;

/// Most kernel files are no longer than this.
const PAGE_BYTES: usize = 4096;

/// Where `/proc` and `/sys` hang.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root(PathBuf);

/// A kernel file could not be read, or its content was unexpected.
#[derive(Debug, Error)]
pub enum ReadError {
    /// The file could not be opened or read.
    #[error("cannot read {}: {}", path.display(), in_words(source))]
    Io {
        /// Which file or folder.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// The file was read but makes no sense.
    #[error("{} holds `{text}`, which is not {wanted}", path.display())]
    Unexpected {
        /// Which file.
        path: PathBuf,
        /// Its content (the first line).
        text: String,
        /// The expected content.
        wanted: &'static str,
    },
}

impl ReadError {
    /// Whether the file is missing: the interface does not exist, or the process has gone in the meantime.
    pub fn is_gone(&self) -> bool {
        match self {
            ReadError::Io { source, .. } => {
                // A file of a cgroup that is removed during the read returns ENODEV.
                let gone = [libc::ESRCH, libc::ENODEV];
                source.kind() == io::ErrorKind::NotFound
                    || source.raw_os_error().is_some_and(|code| gone.contains(&code))
            }
            ReadError::Unexpected { .. } => false,
        }
    }

    /// Whether the caller may not read it.
    pub fn is_forbidden(&self) -> bool {
        matches!(self, ReadError::Io { source, .. } if source.kind() == io::ErrorKind::PermissionDenied)
    }
}

impl Root {
    /// A root path; `/` is the machine itself.
    pub fn new(path: impl Into<PathBuf>) -> Root {
        Root(path.into())
    }

    /// The location of an absolute path under this root.
    pub fn path(&self, absolute: impl AsRef<Path>) -> PathBuf {
        let absolute = absolute.as_ref();
        self.0.join(absolute.strip_prefix("/").unwrap_or(absolute))
    }

    /// A file's text; bytes that are not UTF-8 (a process may have any name) are replaced.
    ///
    /// # Errors
    /// [`ReadError::Io`].
    pub fn read(&self, absolute: impl AsRef<Path>) -> Result<String, ReadError> {
        let path = self.path(absolute);
        match read_at_once(&path) {
            Ok(bytes) => Ok(match String::from_utf8(bytes) {
                Ok(text) => text,
                Err(e) => String::from_utf8_lossy(e.as_bytes()).into_owned(),
            }),
            Err(source) => Err(ReadError::Io { path, source }),
        }
    }

    /// A file's text, or `None` when there is no such file.
    ///
    /// # Errors
    /// [`ReadError::Io`] for anything but absence.
    pub fn read_if_there(&self, absolute: impl AsRef<Path>) -> Result<Option<String>, ReadError> {
        match self.read(absolute) {
            Ok(text) => Ok(Some(text)),
            Err(e) if e.is_gone() => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// A file that holds one value.
    ///
    /// # Errors
    /// [`ReadError`]; `wanted` completes "which is not …".
    pub fn value<T: FromStr>(
        &self,
        absolute: impl AsRef<Path>,
        wanted: &'static str,
    ) -> Result<T, ReadError> {
        let text = self.read(&absolute)?;
        text.trim().parse().map_err(|_| self.unexpected(absolute, &text, wanted))
    }

    /// The names in a folder, sorted.
    ///
    /// # Errors
    /// [`ReadError::Io`].
    pub fn names(&self, absolute: impl AsRef<Path>) -> Result<Vec<String>, ReadError> {
        let path = self.path(absolute);
        let listed = std::fs::read_dir(&path).and_then(|entries| {
            entries.map(|e| e.map(|e| e.file_name().to_string_lossy().into_owned())).collect()
        });
        let mut names: Vec<String> = listed.map_err(|source| ReadError::Io { path, source })?;
        names.sort();
        Ok(names)
    }

    /// Whether there is such a file or folder.
    pub fn has(&self, absolute: impl AsRef<Path>) -> bool {
        self.path(absolute).exists()
    }

    /// The error for a file with unexpected content.
    pub fn unexpected(&self, absolute: impl AsRef<Path>, text: &str, wanted: &'static str) -> ReadError {
        let text = text.lines().next().unwrap_or_default().chars().take(80).collect();
        ReadError::Unexpected { path: self.path(absolute), text, wanted }
    }
}

/// A file's bytes. The kernel reports its own files as empty, and a growing buffer takes twice as many system
/// calls.
fn read_at_once(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(PAGE_BYTES);
    File::open(path)?.take(u64::MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The kernel's message for people, without the number that the standard library appends.
pub fn in_words(e: &std::io::Error) -> String {
    let known = match e.kind() {
        _ if e.raw_os_error().is_none() => None,
        _ if e.raw_os_error() == Some(libc::EMFILE) => Some("too many files are open; raise `ulimit -n`"),
        io::ErrorKind::StorageFull => Some("the disk is full; free some space"),
        io::ErrorKind::QuotaExceeded => Some("this user's disk quota is used up; free some space"),
        io::ErrorKind::ReadOnlyFilesystem => Some("the file system can only be read; choose another place"),
        io::ErrorKind::FileTooLarge => Some("it would be larger than `ulimit -f` allows; raise that"),
        _ => None,
    };
    if let Some(known) = known {
        return known.to_owned();
    }
    let said = e.to_string();
    let number = e.raw_os_error().map(|number| format!(" (os error {number})"));
    number.and_then(|number| said.strip_suffix(&number)).unwrap_or(&said).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absolute_paths_stay_under_the_root() {
        assert_eq!(Root::new("/fixture").path("/proc/1/stat"), Path::new("/fixture/proc/1/stat"));
        assert_eq!(Root::new("/").path("/proc/1/stat"), Path::new("/proc/1/stat"));
    }

    #[test]
    fn the_kernels_message_is_shown_without_its_number() {
        let e = std::io::Error::from_raw_os_error(libc::EPERM);
        assert_eq!(in_words(&e), "Operation not permitted");
        assert_eq!(in_words(&std::io::Error::other("it does not answer")), "it does not answer");
    }

    #[test]
    fn errors_name_the_file_and_what_it_should_hold() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("level"), "three\n").unwrap();
        let root = Root::new(dir.path());
        let e = root.value::<u32>("/level", "a cache level").unwrap_err();
        assert!(e.to_string().ends_with("level holds `three`, which is not a cache level"), "{e}");
        let e = root.read("/missing").unwrap_err();
        assert!(e.is_gone() && e.to_string().starts_with("cannot read "), "{e}");
        assert!(root.read_if_there("/missing").unwrap().is_none());
    }
}
