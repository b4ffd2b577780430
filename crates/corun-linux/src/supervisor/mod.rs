//! Undo that survives the controller: a journal of changes, and a process that restores them when the
//! controller cannot.
//!
//! Before its first change a controller starts a **supervisor**: this same program again, in a session of its
//! own, real-time, with its memory locked, which only waits. Every change is journaled before it is made. The
//! supervisor restores everything when
//! - the controller dies, however it dies: its end of a socket closes and its pidfd becomes readable;
//! - the controller hangs while something is in force: no heartbeat for the length of the **lease**;
//! - the supervisor itself gets the signal to stop (SIGTERM).
//!
//! In the last two cases it closes its end of the socket first. Every change of the controller begins and
//! ends with a heartbeat, so a controller that wakes up notices this and undoes what it did meanwhile. The
//! supervisor restores again once per lease, in case a controller is held up between a change and its
//! heartbeat, and when the controller has ended.
//!
//! If the supervisor dies, the controller notices in the same way, restores everything itself and stops. If
//! both die at once, the journal remains: the next controller restores first, and `corun control --restore`
//! does nothing else. The journal is locked while either of them lives.
//!
//! | file | does |
//! | --- | --- |
//! | `undo` | one change as a line, and how it is undone |
//! | `journal` | the file |
//! | `inheritance` | what new tasks have of those that were changed |
//! | `restoring` | undoing all of it, inheritors included |
//! | `process` | the supervisor's own loop |
//! | here | the controller's end |
//!
//! Limit: killing a whole control group or container kills both at once; then only the journal is left.

pub mod inheritance;
pub mod journal;
mod process;
pub mod restoring;
pub mod undo;

pub use process::{main, ARGUMENTS};

use crate::cgroup::Cgroups;
use crate::limits;
use crate::procfs;
use crate::root::{in_words, Root};
use journal::{Entry, Journal, JournalError};
use restoring::{Descendants, Restored};
use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::{Duration, Instant};
use thiserror::Error;
use undo::{Aspect, Task, Undo};

/// How long a controller may be silent while something is in force.
pub const LEASE: Duration = Duration::from_secs(2);

/// How long a supervisor may take to start or to end.
const PATIENCE: Duration = Duration::from_secs(10);

/// Heartbeats in a lease: each wakes the supervisor, which runs before everybody else.
const BEATS: u32 = 16;

/// The controller's messages: it is alive; everything is undone.
const BEAT: u8 = b'.';
const DONE: u8 = b'q';
/// The supervisor's message: it watches. Otherwise it says in at most this many bytes why it cannot.
const READY: u8 = b'r';
const MOST_WORDS: usize = 400;

/// The location of the journal, and how to start the supervisor.
#[derive(Clone, Debug)]
pub struct Options {
    /// The journal's folder.
    pub folder: PathBuf,
    /// How long the controller may be silent while something is in force.
    pub lease: Duration,
    /// The program whose `main` passes its further arguments to [`main`].
    pub program: PathBuf,
    /// What makes it do so.
    pub args: Vec<OsString>,
}

impl Default for Options {
    /// This program's hidden verb `supervise`.
    fn default() -> Options {
        Options {
            folder: journal::default_folder(),
            lease: LEASE,
            program: PathBuf::from("/proc/self/exe"),
            args: vec!["supervise".into()],
        }
    }
}

/// There is no supervisor, so nothing may be changed.
#[derive(Debug, Error)]
pub enum SuperviseError {
    /// There is no journal.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// It could not be started.
    #[error("cannot start the supervisor: {}", in_words(.0))]
    Start(#[source] io::Error),
    /// It has ended or given up on this controller.
    #[error("the supervisor has {0}; everything it knew of is restored")]
    Lost(&'static str),
    /// The journal could not be written.
    #[error("cannot write the journal: {}", in_words(.0))]
    Write(#[source] io::Error),
}

/// A running supervisor and the journal that it shares with this controller.
#[derive(Debug)]
pub struct Supervised {
    journal: Journal,
    socket: OwnedFd,
    child: Child,
    restored: Restored,
    lease: Duration,
    /// When the last heartbeat was.
    beaten: Option<Instant>,
}

impl Supervised {
    /// Restores the changes of a controller that was killed together with its supervisor, then starts a
    /// supervisor.
    ///
    /// # Errors
    /// [`SuperviseError`]; nothing was changed.
    pub fn start(root: &Root, options: &Options) -> Result<Supervised, SuperviseError> {
        // It could identify neither the controller nor the changed tasks by the numbers that it is given.
        if let Some(why) = limits::without_init(root) {
            return Err(SuperviseError::Start(io::Error::other(why.to_string())));
        }
        limits::has_pidfds().map_err(SuperviseError::Start)?;
        let mut journal = Journal::open(&options.folder)?;
        let left = journal.contents().map_err(SuperviseError::Write)?;
        let restored = restoring::restore(root, &left, &mut || {});
        journal.begin(restored.left()).map_err(SuperviseError::Write)?;
        let (socket, child) = match spawn(&journal, options) {
            Ok(started) => started,
            Err(e) => {
                if restored.failed.is_empty() {
                    journal.remove();
                }
                return Err(SuperviseError::Start(limits::explained(e)));
            }
        };
        Ok(Supervised { journal, socket, child, restored, lease: options.lease, beaten: None })
    }

    /// The supervisor's PID.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The changes of an earlier controller that this one restored first.
    pub fn restored(&self) -> &Restored {
        &self.restored
    }

    /// Reports that the controller is alive, at most [`BEATS`] times in a lease, and checks that somebody
    /// listens.
    ///
    /// # Errors
    /// [`SuperviseError::Lost`] when nobody listens any more.
    pub fn beat(&mut self) -> Result<(), SuperviseError> {
        let is_due = self.beaten.is_none_or(|then| then.elapsed() >= self.lease / BEATS);
        let heard = if is_due {
            self.beaten = Some(Instant::now());
            say(&self.socket, BEAT)
        } else {
            is_open(&self.socket)
        };
        match heard {
            Ok(()) => Ok(()),
            // Nobody has read thousands of beats: the supervisor is stopped, but it exists.
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(()),
            Err(_) => Err(SuperviseError::Lost(match self.child.try_wait() {
                Ok(Some(_)) => "ended",
                _ => "given up on this controller, which was silent for too long",
            })),
        }
    }

    /// Makes one change: journals its undo, makes it, and checks that the supervisor still watches. `known`
    /// is its entry while the same change is in force.
    ///
    /// # Errors
    /// The inner result has the change's own error; the outer one says why it was not made, or was undone
    /// again.
    pub fn change<T>(
        &mut self,
        root: &Root,
        known: Option<Entry>,
        undo: &Undo,
        make: impl FnOnce() -> io::Result<T>,
    ) -> Result<io::Result<(Entry, T)>, SuperviseError> {
        self.beat()?;
        let entry = match known {
            Some(entry) => Ok(entry),
            None => self.journal.add(undo),
        }
        .map_err(SuperviseError::Write)?;
        let made = match make() {
            Ok(made) => made,
            Err(e) => {
                // A change that was in force before still is, with its earlier value.
                if known.is_none() {
                    self.journal.undone(entry).map_err(SuperviseError::Write)?;
                }
                return Ok(Err(e));
            }
        };
        if let Err(lost) = self.beat() {
            let _ = undo.perform(root);
            return Err(lost);
        }
        Ok(Ok((entry, made)))
    }

    /// Notes that a change is undone, or that no target for undoing is left. Its entry is invalid from then
    /// on.
    ///
    /// # Errors
    /// The kernel's error for the journal.
    pub fn undone(&mut self, entry: Entry) -> io::Result<()> {
        self.journal.undone(entry)
    }

    /// The inherited change of this kind that a task shows, if it was not changed itself: its undo, and its
    /// value without it.
    pub fn inherited(&self, root: &Root, task: &Task, kind: &str) -> Option<Aspect> {
        let inheritance = self.journal.inheritance();
        // Most tasks are older; the others' parents are looked up.
        if task.start_ns < inheritance.since_ns() {
            return None;
        }
        let ppid = procfs::process_stat(root, task.pid).ok()?.ppid;
        let near = inheritance.near(task.pid, ppid, task.pgid).into_iter();
        near.filter(|aspect| aspect.name() == kind && inheritance.may_show(task, aspect))
            .find(|aspect| aspect.is_inherited_by(task.tid))
            .cloned()
    }

    /// Whether the journal has doubled since it was begun or compacted.
    pub fn is_worth_compacting(&self) -> bool {
        self.journal.has_doubled()
    }

    /// Drops lines from the journal that nobody needs any more.
    pub fn compact(&mut self, root: &Root) {
        // For a task that cannot be read, its lines are kept; a journal that cannot be rewritten stays as it
        // is.
        if let Ok(mut descendants) = Descendants::look(root) {
            let _ = self.journal.compact(|undo| descendants.need(undo));
        }
    }

    /// Undoes everything that is in force, and marks it.
    ///
    /// # Errors
    /// The kernel's error for the journal.
    pub fn restore(&mut self, root: &Root) -> io::Result<Restored> {
        let contents = self.journal.contents()?;
        // If nobody hears a heartbeat, the supervisor restores as well, which does no harm.
        let restored = restoring::restore(root, &contents, &mut || drop(self.beat()));
        self.journal.begin(restored.left())?;
        Ok(restored)
    }

    /// Restores everything, tells the supervisor to end and waits for it.
    ///
    /// # Errors
    /// The kernel's error for the journal; then the supervisor restores, too.
    pub fn finish(mut self, root: &Root) -> io::Result<Restored> {
        let restored = self.restore(root)?;
        let told = say(&self.socket, DONE);
        if told.is_err() && matches!(self.child.try_wait(), Ok(None)) {
            // It has given up on this controller, and cleans up after it has ended.
            return Ok(restored);
        }
        let until = Instant::now() + PATIENCE;
        while matches!(self.child.try_wait(), Ok(None)) {
            if Instant::now() > until {
                let _ = self.child.kill();
                let _ = self.child.wait();
                break;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        if told.is_err() && restored.failed.is_empty() {
            // It had gone before and could not clean up.
            self.journal.remove();
        }
        Ok(restored)
    }
}

/// Undoes the changes of a controller that was killed together with its supervisor: `corun control
/// --restore`. Transient cgroups that no journal mentions any more are dissolved as well.
///
/// # Errors
/// [`JournalError::Held`] while a controller or a supervisor lives.
pub fn restore(root: &Root, folder: &std::path::Path) -> Result<Restored, SuperviseError> {
    let journal = Journal::open(folder)?;
    let mut restored =
        restoring::restore(root, &journal.contents().map_err(SuperviseError::Write)?, &mut || {});
    let cgroups = Cgroups::discover(root).ok();
    let tree = cgroups.as_ref().and_then(crate::freezer::tree).map(|t| t.mount.clone());
    for stray in tree.iter().flat_map(|mount| restoring::stray_transients(mount)) {
        // A cgroup whose creator lives belongs to a controller with a journal elsewhere.
        if crate::freezer::maker_lives(root, &stray) {
            continue;
        }
        let undo = Undo::Dissolve(stray);
        match undo.perform(root) {
            Ok(()) => restored.undone += 1,
            Err(e) => restored.failed.push((undo, in_words(&e))),
        }
    }
    if restored.failed.is_empty() {
        journal.remove();
    }
    Ok(restored)
}

fn spawn(journal: &Journal, options: &Options) -> io::Result<(OwnedFd, Child)> {
    let (ours, theirs) = socket_pair()?;
    let files = journal.descriptors()?;
    let inherited = [theirs.as_raw_fd(), files[0].as_raw_fd(), files[1].as_raw_fd()];
    let null = OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/null")
        .map_err(|e| io::Error::new(e.kind(), format!("cannot open /dev/null: {}", in_words(&e))))?;
    let mut command = Command::new(&options.program);
    command
        .args(&options.args)
        .args(inherited.map(|fd| fd.to_string()))
        .args([std::process::id().to_string(), options.lease.as_millis().to_string()])
        .arg(journal.folder())
        .current_dir("/")
        .stdin(null.try_clone()?)
        .stdout(null.try_clone()?)
        .stderr(null);
    // SAFETY: the closure runs between fork and exec and makes system calls only, on descriptors that this process
    // keeps open until `spawn` has returned.
    unsafe {
        command.pre_exec(move || {
            libc::setsid();
            for fd in inherited {
                if libc::fcntl(fd, libc::F_SETFD, 0) != 0 {
                    return Err(io::Error::last_os_error());
                }
            }
            Ok(())
        });
    }
    let mut child = limits::start_process(&mut command)?;
    drop((theirs, files));
    match first_words(&ours, PATIENCE) {
        Ok(words) if words == [READY] => Ok((ours, child)),
        other => {
            let _ = child.kill();
            let _ = child.wait();
            let lacks = |words: Vec<u8>| io::Error::other(String::from_utf8_lossy(&words).into_owned());
            Err(other.map_or_else(|e| e, lacks))
        }
    }
}

fn socket_pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends = [0; 2];
    // SAFETY: socketpair fills the two descriptors in; on success they are open and owned by nobody else.
    unsafe {
        let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
        if libc::socketpair(libc::AF_UNIX, kind, 0, ends.as_mut_ptr()) != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok((OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])))
    }
}

/// Sends one byte.
fn say(socket: &OwnedFd, byte: u8) -> io::Result<()> {
    send(socket, &[byte])
}

/// Sends a message, without waiting and without a signal if nobody is there.
fn send(socket: &OwnedFd, message: &[u8]) -> io::Result<()> {
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: send reads as many bytes as it is told of.
    match unsafe { libc::send(socket.as_raw_fd(), message.as_ptr().cast(), message.len(), flags) } {
        n if n == message.len() as isize => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Whether the other end is still open, without waking anybody: it sends nothing once it is ready, so only
/// its end can come.
fn is_open(socket: &OwnedFd) -> io::Result<()> {
    let mut byte = 0u8;
    let flags = libc::MSG_PEEK | libc::MSG_DONTWAIT;
    // SAFETY: recv writes at most the one byte that it is told of.
    match unsafe { libc::recv(socket.as_raw_fd(), (&raw mut byte).cast(), 1, flags) } {
        0 => Err(io::ErrorKind::BrokenPipe.into()),
        n if n < 0 => match io::Error::last_os_error() {
            e if e.kind() == io::ErrorKind::WouldBlock => Ok(()),
            e => Err(e),
        },
        _ => Ok(()),
    }
}

/// A supervisor's first message: it is ready, or what it lacks. An error if it ends before that, or
/// `patience` is over.
fn first_words(socket: &OwnedFd, patience: Duration) -> io::Result<Vec<u8>> {
    let mut ready = libc::pollfd { fd: socket.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    let mut words = vec![0u8; MOST_WORDS];
    // SAFETY: poll gets one valid entry, recv writes at most as many bytes as it is told of.
    let got = unsafe {
        match libc::poll(&mut ready, 1, patience.as_millis() as i32) {
            0 => return Err(io::ErrorKind::TimedOut.into()),
            n if n < 0 => return Err(io::Error::last_os_error()),
            _ => libc::recv(socket.as_raw_fd(), words.as_mut_ptr().cast(), words.len(), libc::MSG_DONTWAIT),
        }
    };
    match got {
        1.. => {
            words.truncate(got as usize);
            Ok(words)
        }
        0 => Err(io::Error::other("it ended before it was ready")),
        _ => Err(io::Error::last_os_error()),
    }
}
