//! The journal: every change that is in force, journaled before it is made, so that any survivor can undo it.
//!
//! It is a text file. The first line names the boot and the controller. Each other line is one [`Undo`] after
//! a sign: `+` while the change is or may be in force, `-` when it has been undone or its target has gone. A
//! sign is one byte and is overwritten in place. Nothing is synced to disk: a power failure also removes the
//! changes (the boot's id shows that).
//!
//! There are two such files, and the journal is the one with the higher **generation** in its first line. A
//! new journal is written to the other file, and so is a **compacted** one when the journal has doubled. The
//! file is emptied, then the lines are written, then the first line, with which it takes over. Then the old
//! file is emptied. A controller that is killed at any instant of this leaves one complete file. Two open
//! files have advantages over renaming one. A supervisor needs no message to find the new one. Both survive a
//! clean-up of their folder. And nothing has to be opened when no file can be.
//!
//! The controller locks the first file (`flock`), and so does its supervisor through the same open file,
//! until both have gone. So a second controller is refused. A journal that can be locked but holds changes in
//! force means that both died.

use super::inheritance::Inheritance;
use super::undo::Undo;
use crate::clock;
use crate::limits;
use crate::procfs::TICK_NS;
use crate::root::{in_words, Root};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use thiserror::Error;

const MAGIC: &str = "corun-journal 1";
const FILES: [&str; 2] = ["journal", "journal.2"];

/// A journal shorter than twice this is not worth compacting.
const LEAST_BYTES: u64 = 64 << 10;

/// The journal cannot be used.
#[derive(Debug, Error)]
pub enum JournalError {
    /// Somebody holds it.
    #[error("corun already controls this machine{}; stop that one first", pid.map_or(String::new(), |pid| format!(" (PID {pid})")))]
    Held {
        /// The controller that holds it; `None` if its journal does not say, or cannot be read from here.
        pid: Option<u32>,
    },
    /// A file or folder could not be used.
    #[error("cannot keep a journal at {}: {}", path.display(), why(.source))]
    Io {
        /// Which.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// The folder belongs to somebody else.
    #[error("{} is not this user's own folder, or others may write to it; remove it", path.display())]
    Foreign {
        /// Which.
        path: PathBuf,
    },
}

/// The kernel's error, and where a journal could be kept: no flag of the user names the folder.
fn why(e: &io::Error) -> String {
    let said = match e.kind() {
        io::ErrorKind::ReadOnlyFilesystem => "the file system can only be read".to_owned(),
        io::ErrorKind::PermissionDenied | io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
            in_words(e)
        }
        _ => return in_words(e),
    };
    // SAFETY: geteuid cannot fail.
    match unsafe { libc::geteuid() } {
        0 => format!("{said}; mount a /run that can be written to"),
        _ => format!("{said}; set XDG_RUNTIME_DIR to a folder of your own that you may write to"),
    }
}

/// A change that is in force, in the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry(u64);

/// An open journal, locked.
#[derive(Debug)]
pub struct Journal {
    files: [File; 2],
    folder: PathBuf,
    /// Which of the files is the journal.
    active: usize,
    generation: u64,
    /// What new tasks may have inherited from changed ones since it was begun.
    inheritance: Inheritance,
    /// Its length, and the length at which it is compacted.
    end: u64,
    compacted_at: u64,
    lines: BTreeMap<Entry, Line>,
    next: Entry,
}

/// A line of the active file that may still matter.
#[derive(Debug)]
struct Line {
    at: u64,
    undo: Undo,
    is_in_force: bool,
}

/// What a journal says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// Its controller's PID; 0 if the first line is missing.
    pub controller: u32,
    /// When it was begun, since boot; older tasks inherited nothing.
    pub since_ns: u64,
    /// Changes that are or may be in force, in the order in which they were made.
    pub in_force: Vec<Undo>,
    /// Changes of tasks that were undone meanwhile: tasks born while they were in force inherited them.
    pub undone: Vec<Undo>,
}

impl Contents {
    /// What new tasks may have inherited from changed ones.
    pub fn inheritance(&self) -> Inheritance {
        Inheritance::new(self.since_ns, self.in_force.iter().chain(&self.undone))
    }
}

/// This user's journal: `/run/corun` if the user may write there.
pub fn default_folder() -> PathBuf {
    // SAFETY: geteuid cannot fail.
    let uid = unsafe { libc::geteuid() };
    match (uid, std::env::var_os("XDG_RUNTIME_DIR")) {
        (0, _) => PathBuf::from("/run/corun"),
        (_, Some(runtime)) if !runtime.is_empty() => PathBuf::from(runtime).join("corun"),
        _ => std::env::temp_dir().join(format!("corun-{uid}")),
    }
}

impl Journal {
    /// Opens and locks the journal in `folder`, creating both if necessary. Its content is kept.
    ///
    /// # Errors
    /// [`JournalError::Held`] while another controller or its supervisor lives.
    pub fn open(folder: &Path) -> Result<Journal, JournalError> {
        own_folder(folder)?;
        let paths = FILES.map(|file| folder.join(file));
        let failed = |source| JournalError::Io { path: paths[0].clone(), source };
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).mode(0o600).custom_flags(libc::O_NOFOLLOW);
        loop {
            let file = options.open(&paths[0]).map_err(failed)?;
            // SAFETY: flock takes a descriptor, which is open, and flags.
            if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } != 0 {
                let e = io::Error::last_os_error();
                if e.kind() != io::ErrorKind::WouldBlock {
                    return Err(failed(limits::explained(e)));
                }
                let held = newest(&paths.map(|path| fs::read(path).unwrap_or_default()), &boot_id());
                let controller = held.map(|held| held.contents.controller);
                return Err(JournalError::Held { pid: controller.filter(|pid| *pid != 0) });
            }
            // Its previous holder may have removed it between the opening and the locking.
            let here = file.metadata().map_err(failed)?.ino();
            if fs::metadata(&paths[0]).is_ok_and(|m| m.ino() == here) {
                let other = options.open(&paths[1]).map_err(failed)?;
                let mut journal = Journal::of([file, other], folder.to_owned());
                let newest = journal.newest().map_err(failed)?.unwrap_or_default();
                (journal.active, journal.generation) = (newest.file, newest.generation);
                return Ok(journal);
            }
        }
    }

    fn of(files: [File; 2], folder: PathBuf) -> Journal {
        Journal {
            files,
            folder,
            active: 0,
            generation: 0,
            inheritance: Inheritance::default(),
            end: 0,
            compacted_at: 0,
            lines: BTreeMap::new(),
            next: Entry(0),
        }
    }

    /// The journal behind inherited descriptors, including the lock: to read, not to write.
    pub fn inherited(files: [OwnedFd; 2], folder: PathBuf) -> Journal {
        Journal::of(files.map(File::from), folder)
    }

    /// Starts a new journal: this process is the controller, and nothing is in force except the rest of an
    /// earlier time.
    ///
    /// # Errors
    /// The kernel's error; the journal is unchanged.
    pub fn begin<'a>(&mut self, left: impl IntoIterator<Item = &'a Undo>) -> io::Result<()> {
        let since_ns = (clock::now_ns() + clock::boot_ahead_ns()).saturating_sub(TICK_NS);
        let mut lines = BTreeMap::new();
        for undo in left {
            self.next.0 += 1;
            lines.insert(self.next, Line { at: 0, undo: undo.clone(), is_in_force: true });
        }
        self.rewrite(since_ns, lines)
    }

    /// Drops the lines of changes that are not in force, except those that are still needed.
    ///
    /// # Errors
    /// The kernel's error; the journal is unchanged.
    pub fn compact(&mut self, mut is_needed: impl FnMut(&Undo) -> bool) -> io::Result<()> {
        // Even if it fails: what has no room is not tried again at once.
        self.compacted_at = 2 * self.end;
        let kept = self.lines.iter().filter(|(_, line)| line.is_in_force || is_needed(&line.undo));
        let kept = kept.map(|(entry, line)| (*entry, Line { undo: line.undo.clone(), ..*line })).collect();
        self.rewrite(self.inheritance.since_ns(), kept)
    }

    /// Whether it has doubled since it was begun or compacted.
    pub fn has_doubled(&self) -> bool {
        self.end >= self.compacted_at
    }

    /// Makes the other file the journal, with these lines.
    fn rewrite(&mut self, since_ns: u64, mut lines: BTreeMap<Entry, Line>) -> io::Result<()> {
        let (active, generation) = (1 - self.active, self.generation + 1);
        let (boot, pid) = (boot_id(), std::process::id());
        let head = format!("{MAGIC} {boot} {pid} {since_ns} {generation}\n");
        let (start, mut body) = (head.len() as u64, String::new());
        for line in lines.values_mut() {
            line.at = start + body.len() as u64;
            body += &text(&line.undo, line.is_in_force);
        }
        let file = &self.files[active];
        file.set_len(0)?;
        file.write_all_at(body.as_bytes(), start)?;
        // Up to here the other file is the journal. A first line without its end does not count.
        file.write_all_at(head.as_bytes(), 0)?;
        // If this one is lost, the previous one must not count as the journal.
        let _ = self.files[self.active].set_len(0);
        self.end = start + body.len() as u64;
        self.compacted_at = 2 * self.end.max(LEAST_BYTES);
        self.inheritance = Inheritance::new(since_ns, lines.values().map(|line| &line.undo));
        (self.active, self.generation, self.lines) = (active, generation, lines);
        Ok(())
    }

    /// Journals a change that is about to be made.
    ///
    /// # Errors
    /// The kernel's error; then the change must not be made.
    pub fn add(&mut self, undo: &Undo) -> io::Result<Entry> {
        let (line, at) = (text(undo, true), self.end);
        self.files[self.active].write_all_at(line.as_bytes(), at)?;
        self.end += line.len() as u64;
        self.next.0 += 1;
        self.lines.insert(self.next, Line { at, undo: undo.clone(), is_in_force: true });
        self.inheritance.add(undo);
        Ok(self.next)
    }

    /// What new tasks may have inherited from changed ones since it was begun.
    pub fn inheritance(&self) -> &Inheritance {
        &self.inheritance
    }

    /// Notes that a change has been undone, or that no target for undoing is left.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn undone(&mut self, entry: Entry) -> io::Result<()> {
        let Some(line) = self.lines.get_mut(&entry) else { return Ok(()) };
        self.files[self.active].write_all_at(b"-", line.at)?;
        line.is_in_force = false;
        if !matches!(line.undo, Undo::Task(..)) {
            self.lines.remove(&entry);
        }
        Ok(())
    }

    /// Its present content. A journal of another boot says nothing. A last line without its end was never
    /// acted on.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn contents(&self) -> io::Result<Contents> {
        Ok(self.newest()?.unwrap_or_default().contents)
    }

    fn newest(&self) -> io::Result<Option<Newest>> {
        let boot = boot_id();
        let newest_now =
            || Ok::<_, io::Error>(newest(&[read(&self.files[0])?, read(&self.files[1])?], &boot));
        // One of the files is complete at any time. But if a controller writes one while it is read here, and
        // then the other, both may seem unfinished.
        match newest_now()? {
            None => newest_now(),
            found => Ok(found),
        }
    }

    /// Removes the files; the lock ends with the last descriptor. The locked file goes last: nobody can start
    /// a journal of their own before, so only this one is removed.
    pub fn remove(&self) {
        for file in FILES.iter().rev() {
            let _ = fs::remove_file(self.folder.join(file));
        }
        // This only succeeds if the folder is otherwise empty.
        let _ = fs::remove_dir(&self.folder);
    }

    /// The folder that it is in.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Second descriptors of the same open files, which share the lock.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn descriptors(&self) -> io::Result<[OwnedFd; 2]> {
        let another = |file: &File| {
            // SAFETY: fcntl duplicates an open descriptor; the result is nobody else's.
            unsafe {
                match libc::fcntl(file.as_raw_fd(), libc::F_DUPFD_CLOEXEC, 3) {
                    fd if fd >= 0 => Ok(OwnedFd::from_raw_fd(fd)),
                    _ => Err(io::Error::last_os_error()),
                }
            }
        };
        Ok([another(&self.files[0])?, another(&self.files[1])?])
    }
}

fn text(undo: &Undo, is_in_force: bool) -> String {
    format!("{}{undo}\n", if is_in_force { '+' } else { '-' })
}

/// The whole file. It is read by position: controller and supervisor share one open file and so one offset,
/// and may both read at this moment.
fn read(file: &File) -> io::Result<Vec<u8>> {
    let (mut bytes, mut chunk) = (Vec::new(), vec![0; 64 << 10]);
    loop {
        match file.read_at(&mut chunk, bytes.len() as u64)? {
            0 => return Ok(bytes),
            n => bytes.extend_from_slice(&chunk[..n]),
        }
    }
}

/// Makes the folder, for this user alone, or checks that it is this user's and nobody else may write to it: a
/// journal says what to write where.
fn own_folder(folder: &Path) -> Result<(), JournalError> {
    let failed = |source| JournalError::Io { path: folder.to_owned(), source };
    match fs::DirBuilder::new().mode(0o700).create(folder) {
        Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(failed(e)),
        _ => {}
    }
    let meta = fs::symlink_metadata(folder).map_err(failed)?;
    // SAFETY: geteuid cannot fail.
    let is_own = meta.uid() == unsafe { libc::geteuid() };
    if meta.is_dir() && is_own && meta.mode() & 0o022 == 0 {
        Ok(())
    } else {
        Err(JournalError::Foreign { path: folder.to_owned() })
    }
}

fn boot_id() -> String {
    Root::new("/")
        .read("/proc/sys/kernel/random/boot_id")
        .map_or_else(|_| "unknown".into(), |id| id.trim().to_owned())
}

/// The state of the journal in two files.
#[derive(Debug, Default)]
struct Newest {
    file: usize,
    generation: u64,
    contents: Contents,
}

/// Finds the journal of this boot; `None` if neither file is one.
fn newest(files: &[Vec<u8>; 2], boot: &str) -> Option<Newest> {
    let said = files.iter().enumerate().filter_map(|(file, bytes)| {
        let (generation, contents) = parse(&String::from_utf8_lossy(bytes), boot)?;
        Some(Newest { file, generation, contents })
    });
    said.max_by_key(|said| said.generation)
}

/// A file's generation and content; `None` unless its first line is complete and of this boot.
fn parse(text: &str, boot: &str) -> Option<(u64, Contents)> {
    let mut lines = text.split_inclusive('\n').filter_map(|l| l.strip_suffix('\n'));
    let mut head = lines.next()?.strip_prefix(MAGIC)?.strip_prefix(' ')?.split(' ');
    if head.next() != Some(boot) {
        return None;
    }
    let mut number = || head.next()?.parse::<u64>().ok();
    let (controller, since_ns) = (number()? as u32, number()?);
    let generation = head.next().map_or(Some(0), |n| n.parse().ok())?;
    let mut contents = Contents { controller, since_ns, ..Contents::default() };
    for line in lines {
        match (line.get(..1), line.get(1..).and_then(Undo::parse)) {
            (Some("+"), Some(undo)) => contents.in_force.push(undo),
            (Some("-"), Some(undo @ Undo::Task(..))) => contents.undone.push(undo),
            _ => {}
        }
    }
    Some((generation, contents))
}

#[cfg(test)]
mod tests;
