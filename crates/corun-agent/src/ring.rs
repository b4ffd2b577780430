//! A bounded ring on disk: the windows of the last hours, from which every report of them can be made again.
//!
//! A ring is a folder of **segments** (`segment.rs`), whose disk space is reserved when they are created.
//! When all space is used, the oldest segment is overwritten. So a disk that others fill takes nothing away:
//! a ring that cannot grow goes around earlier. A segment holds **entries** (`entry.rs`): its writer, and
//! windows with the time of day. Each entry has its length and a checksum, and is on the disk before the next
//! one is made. A killed writer loses only the entry in progress.
//!
//! A reader (`reader.rs`) takes no lock: it reads next to a writer. It reports whatever it cannot read, with
//! file and byte, and goes on with the next segment. It also reads the entries of a recording (`corun
//! record`).

mod entry;
mod oldest;
mod reader;
mod segment;
mod wire;
mod writer;

pub use entry::{decode, encode, pack, unpack, Entry, KeptWindow};
pub use oldest::oldest_ns;
pub use reader::{Damage, Reader, What, Windows};
pub use segment::{scan, Fault, Scan, FORMAT};
pub use wire::Run;
pub use writer::{Writer, LEAST_BYTES};

use corun_model::run_log::file::Refused;
use corun_report::places::{unlisted, unmade, unread, unwritten};
use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Why a ring cannot be opened, written or read: one sentence with the path and, if there is one, the remedy.
#[derive(Debug, Error)]
pub enum RingError {
    /// Another process writes to it.
    #[error("the ring {} is in use by another agent; stop it, or choose another folder", .0.display())]
    InUse(PathBuf),
    /// There is no segment in the folder.
    #[error("{} is no ring: it holds no segment; name the folder that `corun agent` writes to", .0.display())]
    NoRing(PathBuf),
    /// A file that is not a recording, or an incomplete one.
    #[error("{}: {what}", .path.display())]
    NoRecording {
        /// The file.
        path: PathBuf,
        /// Why.
        what: Refused,
    },
    /// A recording that has only what a replay needs.
    #[error("{}: this recording has no windows of everybody; record it again, with this corun", .0.display())]
    NothingOfEverybody(PathBuf),
    /// Another corun wrote it.
    #[error("{} is of ring format {format}, this corun reads format {FORMAT}; read it with the corun that wrote it", .path.display())]
    OtherFormat {
        /// The segment.
        path: PathBuf,
        /// Its format.
        format: u32,
    },
    /// Somebody removed or moved it while it was written.
    #[error("somebody has removed the ring {}, or its newest segment; it is created again", .0.display())]
    Removed(PathBuf),
    /// Too small to hold anything.
    #[error("a ring of {0} bytes is too small; give it at least {least}", least = writer::LEAST_BYTES)]
    TooSmall(u64),
    /// One window is larger than a segment.
    #[error("a window takes {bytes} bytes, a segment of the ring holds {most}; make the ring larger")]
    WindowTooLarge {
        /// Its size.
        bytes: u64,
        /// What there is.
        most: u64,
    },
    /// What the operating system says.
    #[error("cannot {doing} {}: {why}", .path.display())]
    Io {
        /// The attempted operation.
        doing: &'static str,
        /// Where.
        path: PathBuf,
        /// Why not, and what to do instead.
        why: String,
        /// What kind of failure it is.
        kind: io::ErrorKind,
    },
}

impl RingError {
    /// Whether another folder, or another size, would help.
    pub fn is_usage(&self) -> bool {
        use io::ErrorKind::{
            AlreadyExists, InvalidFilename, IsADirectory, NotADirectory, NotFound, PermissionDenied,
            ReadOnlyFilesystem,
        };
        match self {
            RingError::InUse(_)
            | RingError::TooSmall(_)
            | RingError::NoRing(_)
            | RingError::NoRecording { .. }
            | RingError::NothingOfEverybody(_) => true,
            RingError::Io { kind, .. } => matches!(
                kind,
                AlreadyExists
                    | InvalidFilename
                    | IsADirectory
                    | NotADirectory
                    | NotFound
                    | PermissionDenied
                    | ReadOnlyFilesystem
            ),
            RingError::OtherFormat { .. } | RingError::Removed(_) | RingError::WindowTooLarge { .. } => false,
        }
    }

    /// Whether others would have to make room for it.
    fn is_of_full_disk(&self) -> bool {
        matches!(self, RingError::Io { kind, .. } if is_full(*kind))
    }

    fn listing(folder: &Path) -> impl FnOnce(io::Error) -> RingError {
        RingError::io("read the folder", folder, unlisted)
    }

    fn making_folder(folder: &Path) -> impl FnOnce(io::Error) -> RingError {
        RingError::io("make the folder", folder, unmade)
    }

    fn reading(path: &Path) -> impl FnOnce(io::Error) -> RingError {
        RingError::io("read", path, unread)
    }

    fn writing(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> RingError {
        RingError::io(doing, path, unwritten)
    }

    /// It may be written, but the kernel does not lock anything for this process.
    fn locking(path: &Path) -> impl FnOnce(io::Error) -> RingError {
        RingError::io("lock", path, |_, e| e.to_string())
    }

    fn io(doing: &'static str, path: &Path, why: Why) -> impl FnOnce(io::Error) -> RingError {
        let path = path.to_owned();
        move |e| RingError::Io { doing, why: why(&path, &e), kind: e.kind(), path }
    }
}

fn is_full(kind: io::ErrorKind) -> bool {
    matches!(kind, io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// The error for an operation on a place.
type Why = fn(&Path, &io::Error) -> String;

/// Name of the segment of this number.
fn segment_name(number: u64) -> String {
    format!("segment-{number:012}")
}

/// The segments of a folder by number, oldest first; other files do not belong to corun.
fn segments(folder: &Path) -> Result<Vec<(u64, PathBuf)>, RingError> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(RingError::listing(folder))? {
        let entry = entry.map_err(RingError::listing(folder))?;
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix("segment-")?.parse().ok());
        found.extend(number.filter(|n| segment_name(*n).as_str() == name).map(|n| (n, entry.path())));
    }
    found.sort_unstable();
    Ok(found)
}
