//! The journal: every change that is in force, written down before it is made, so that whoever survives can undo it.
//!
//! It is a text file. The first line names the boot and the controller; each other line is one [`Undo`] after a sign,
//! `+` while the change is or may be in force and `-` when it has been undone. A sign is one byte and is overwritten
//! in place, so a tenant that is parked and unparked a hundred times a second has one line, not a hundred. Nothing is
//! synced to disk: a machine that lost its power has lost what was changed too (the boot's id tells).
//!
//! The file is locked (`flock`) by the controller, and through the same open file by its supervisor, until both have
//! gone. So a second controller is refused, and a journal that can be locked but holds changes in force is what two
//! deaths left behind.

use super::undo::Undo;
use crate::clock;
use crate::procfs::TICK_NS;
use crate::root::Root;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use thiserror::Error;

const MAGIC: &str = "corun-journal 1";
const FILE: &str = "journal";

/// The journal cannot be used.
#[derive(Debug, Error)]
pub enum JournalError {
    /// Somebody holds it.
    #[error("corun already controls this machine (PID {pid}); stop that one first")]
    Held {
        /// The controller that does.
        pid: u32,
    },
    /// A file or folder could not be used.
    #[error("cannot keep a journal at {}: {source}", path.display())]
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

/// The place of a change in the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry(u64);

/// An open journal, locked.
#[derive(Debug)]
pub struct Journal {
    file: File,
    path: PathBuf,
    end: u64,
}

/// What a journal says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// Its controller's PID; 0 when the first line is missing.
    pub controller: u32,
    /// When it was begun, after boot; what is older inherited nothing.
    pub since_ns: u64,
    /// Changes that are or may be in force, in the order in which they were made.
    pub in_force: Vec<Undo>,
    /// Changes of tasks that were undone meanwhile: what was born while they were in force inherited them.
    pub undone: Vec<Undo>,
}

/// Where this user's journal is: `/run/corun` for who may write there.
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
    /// Opens and locks the journal in `folder`, making both where they are not there. What it holds is kept.
    ///
    /// # Errors
    /// [`JournalError::Held`] while another controller or its supervisor lives.
    pub fn open(folder: &Path) -> Result<Journal, JournalError> {
        let path = folder.join(FILE);
        let failed = |source| JournalError::Io { path: path.clone(), source };
        own_folder(folder)?;
        loop {
            let mut options = OpenOptions::new();
            options.read(true).write(true).create(true).mode(0o600).custom_flags(libc::O_NOFOLLOW);
            let file = options.open(&path).map_err(failed)?;
            // SAFETY: flock takes a descriptor, which is open, and flags.
            if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } != 0 {
                let e = io::Error::last_os_error();
                if e.kind() != io::ErrorKind::WouldBlock {
                    return Err(failed(e));
                }
                let held = Journal { file, path: path.clone(), end: 0 };
                return Err(JournalError::Held { pid: held.contents().map_or(0, |c| c.controller) });
            }
            // Whoever held it may have removed it between the opening and the locking.
            let here = file.metadata().map_err(failed)?.ino();
            if fs::metadata(&path).is_ok_and(|m| m.ino() == here) {
                let end = file.metadata().map_err(failed)?.len();
                return Ok(Journal { file, path, end });
            }
        }
    }

    /// The journal behind a descriptor that was inherited, lock included.
    pub fn inherited(fd: OwnedFd, path: PathBuf) -> Journal {
        Journal { file: File::from(fd), path, end: 0 }
    }

    /// Begins anew: nothing is in force, and this process is the controller.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn begin(&mut self, root: &Root) -> io::Result<()> {
        let since_ns = (clock::now_ns() + clock::boot_ahead_ns()).saturating_sub(TICK_NS);
        let line = format!("{MAGIC} {} {} {since_ns}\n", boot_id(root), std::process::id());
        self.file.set_len(0)?;
        self.file.write_all_at(line.as_bytes(), 0)?;
        self.end = line.len() as u64;
        Ok(())
    }

    /// Writes a change down that is about to be made.
    ///
    /// # Errors
    /// What the kernel says; the change must not be made then.
    pub fn add(&mut self, undo: &Undo) -> io::Result<Entry> {
        let line = format!("+{undo}\n");
        let at = self.end;
        self.file.write_all_at(line.as_bytes(), at)?;
        self.end += line.len() as u64;
        Ok(Entry(at))
    }

    /// Notes that a change is (about to be) in force again, or has been undone.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn set(&mut self, entry: Entry, in_force: bool) -> io::Result<()> {
        self.file.write_all_at(if in_force { b"+" } else { b"-" }, entry.0)
    }

    /// What it says now. A journal of another boot says nothing, a last line without its end was never acted on.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn contents(&self) -> io::Result<Contents> {
        // By position: controller and supervisor have one open file, so one offset, and may both read just now.
        let (mut bytes, mut chunk) = (Vec::new(), vec![0; 64 << 10]);
        loop {
            match self.file.read_at(&mut chunk, bytes.len() as u64)? {
                0 => break,
                n => bytes.extend_from_slice(&chunk[..n]),
            }
        }
        Ok(parse(&String::from_utf8_lossy(&bytes), &boot_id(&Root::new("/"))))
    }

    /// Removes the file; the lock ends with the last descriptor.
    pub fn remove(&self) {
        let _ = fs::remove_file(&self.path);
        if let Some(folder) = self.path.parent() {
            // Only succeeds when nothing else is in it.
            let _ = fs::remove_dir(folder);
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A second descriptor of the same open file, so of the same lock.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn descriptor(&self) -> io::Result<OwnedFd> {
        // SAFETY: fcntl duplicates an open descriptor; the result is nobody else's.
        unsafe {
            match libc::fcntl(self.file.as_raw_fd(), libc::F_DUPFD_CLOEXEC, 3) {
                fd if fd >= 0 => Ok(OwnedFd::from_raw_fd(fd)),
                _ => Err(io::Error::last_os_error()),
            }
        }
    }
}

/// Makes the folder, for this user alone, or makes sure that it is this user's and nobody else may write to it: a journal
/// tells what to write where.
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

fn boot_id(root: &Root) -> String {
    root.read("/proc/sys/kernel/random/boot_id").map_or_else(|_| "unknown".into(), |id| id.trim().to_owned())
}

fn parse(text: &str, boot: &str) -> Contents {
    let mut lines = text.split_inclusive('\n').filter_map(|l| l.strip_suffix('\n'));
    let head = lines.next().and_then(|l| l.strip_prefix(MAGIC)?.strip_prefix(' '));
    let mut head = head.unwrap_or_default().split(' ');
    if head.next() != Some(boot) {
        return Contents::default();
    }
    let mut number = || head.next()?.parse::<u64>().ok();
    let (controller, since_ns) = (number().unwrap_or(0) as u32, number().unwrap_or(0));
    let mut contents = Contents { controller, since_ns, ..Contents::default() };
    for line in lines {
        match (line.get(..1), line.get(1..).and_then(Undo::parse)) {
            (Some("+"), Some(undo)) => contents.in_force.push(undo),
            (Some("-"), Some(undo @ Undo::Task(..))) => contents.undone.push(undo),
            _ => {}
        }
    }
    contents
}

#[cfg(test)]
mod tests {
    use super::super::undo::{Aspect, Task};
    use super::*;

    fn journal() -> (tempfile::TempDir, Journal) {
        let dir = tempfile::tempdir().unwrap();
        let mut journal = Journal::open(&dir.path().join("corun")).unwrap();
        journal.begin(&Root::new("/")).unwrap();
        (dir, journal)
    }

    fn thaw(n: u32) -> Undo {
        Undo::Thaw(PathBuf::from(format!("/cg/{n}")))
    }

    #[test]
    fn what_is_in_force_can_be_read_back_by_another() {
        let (_dir, mut journal) = journal();
        let first = journal.add(&thaw(1)).unwrap();
        journal.add(&thaw(2)).unwrap();
        journal.set(first, false).unwrap();
        let task = Undo::Task(Task { tid: 5, start_ns: 6, pid: 7, pgid: 8 }, Aspect::Slice { was_ns: 0 });
        let sliced = journal.add(&task).unwrap();
        journal.set(sliced, false).unwrap();
        let other = Journal::inherited(journal.descriptor().unwrap(), journal.path().to_owned());
        let said = other.contents().unwrap();
        assert_eq!((said.in_force, said.undone), (vec![thaw(2)], vec![task]));
        assert_eq!(said.controller, std::process::id());
        journal.set(first, true).unwrap();
        assert_eq!(other.contents().unwrap().in_force, [thaw(1), thaw(2)]);
    }

    #[test]
    fn two_who_read_at_once_both_read_all_of_it() {
        let (_dir, mut journal) = journal();
        let undos: Vec<Undo> = (0..500).map(thaw).collect();
        for undo in &undos {
            journal.add(undo).unwrap();
        }
        let other = Journal::inherited(journal.descriptor().unwrap(), journal.path().to_owned());
        let read = |journal: &Journal| (0..500).all(|_| journal.contents().unwrap().in_force == undos);
        std::thread::scope(|s| {
            let theirs = s.spawn(|| read(&other));
            assert!(read(&journal));
            assert!(theirs.join().unwrap());
        });
    }

    #[test]
    fn a_second_controller_is_refused_by_the_firsts_pid() {
        let (dir, journal) = journal();
        let e = Journal::open(&dir.path().join("corun")).unwrap_err().to_string();
        let expected =
            format!("corun already controls this machine (PID {}); stop that one first", std::process::id());
        assert_eq!(e, expected);
        let copy = journal.descriptor().unwrap();
        drop(journal);
        assert!(Journal::open(&dir.path().join("corun")).is_err(), "the supervisor holds the lock too");
        drop(copy);
        Journal::open(&dir.path().join("corun")).unwrap();
    }

    #[test]
    fn a_line_cut_short_and_another_boot_say_nothing() {
        let text = format!("{MAGIC} boot-1 77 5\n+thaw /cg/1\n+thaw /c");
        let said = parse(&text, "boot-1");
        assert_eq!((said.controller, said.since_ns, said.in_force), (77, 5, vec![thaw(1)]));
        assert_eq!(parse(&text, "boot-2"), Contents::default());
        assert_eq!(parse("", "boot-1"), Contents::default());
        assert_eq!(parse("\n", ""), Contents::default());
    }

    #[test]
    fn a_folder_of_somebody_elses_is_not_trusted() {
        let dir = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/etc", dir.path().join("corun")).unwrap();
        let e = Journal::open(&dir.path().join("corun")).unwrap_err();
        assert!(matches!(e, JournalError::Foreign { .. }), "{e}");
    }

    #[test]
    fn a_folder_that_others_may_write_to_is_not_trusted() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("corun");
        fs::create_dir(&folder).unwrap();
        let allow = |mode| fs::set_permissions(&folder, fs::Permissions::from_mode(mode)).unwrap();
        allow(0o775);
        let e = Journal::open(&folder).unwrap_err();
        assert!(matches!(e, JournalError::Foreign { .. }), "{e}");
        allow(0o755);
        Journal::open(&folder).unwrap();
    }

    #[test]
    fn a_journal_that_is_removed_leaves_no_folder_behind() {
        let (dir, journal) = journal();
        journal.remove();
        assert!(!dir.path().join("corun").exists());
    }
}
