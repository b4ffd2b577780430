//! The supervisor's own process: it waits until the controller ends or falls silent, or for a signal, and
//! restores.

use super::journal::Journal;
use super::{restoring, say, send, BEAT, DONE, READY};
use crate::limits;
use crate::root::{in_words, Root};
use crate::sched;
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Above the controller's priority, so that a controller in an endless loop cannot keep its supervisor from
/// taking over.
const PRIORITY: u32 = 2;

/// How long and how often it retries what could not be restored at once. A transient cgroup cannot be removed
/// while a process in it is exiting, which on a busy machine takes that process several turns.
const PATIENCE: Duration = Duration::from_secs(5);
const AGAIN: Duration = Duration::from_millis(20);

/// What came while it waited.
enum Event {
    /// A heartbeat.
    Beat,
    /// Everything is undone, so the supervisor's work is done.
    Done,
    /// The controller has ended.
    Ended,
    /// Nothing, for the length of the lease.
    Silence,
    /// This process was asked to stop.
    Signal,
}

/// How many arguments [`main`] takes.
pub const ARGUMENTS: usize = 6;

/// Runs the supervisor. `args`: descriptors of the socket and of the journal's two files, the controller's
/// PID, the lease in milliseconds, the journal's folder, as passed by [`super::Supervised::start`]. Returns
/// when nothing is left to watch over.
pub fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    match Supervisor::new(&args.into_iter().collect::<Vec<_>>()) {
        Ok(supervisor) => supervisor.run(),
        Err(e) => {
            eprintln!("corun supervise: {e}; it is started by corun, not by hand");
            ExitCode::from(2)
        }
    }
}

struct Supervisor {
    socket: OwnedFd,
    /// Readable when the controller has ended; `None` if it had already.
    controller: Option<OwnedFd>,
    signals: OwnedFd,
    lease: Duration,
    journal: Journal,
    root: Root,
}

impl Supervisor {
    fn new(args: &[OsString]) -> io::Result<Supervisor> {
        let wrong = || io::Error::new(io::ErrorKind::InvalidInput, "it takes six arguments");
        let [socket, journal, other, controller, lease, folder] = args else { return Err(wrong()) };
        let number = |arg: &OsString| arg.to_str()?.parse::<u32>().ok();
        let number = |arg| number(arg).ok_or_else(wrong);
        let own = |arg| inherited(number(arg)? as RawFd);
        let (socket, files) = (own(socket)?, [own(journal)?, own(other)?]);
        let journal = Journal::inherited(files, PathBuf::from(folder));
        // Nobody reads what this process prints: its controller reports what it lacks.
        let signals = stop_signals().map_err(limits::explained).inspect_err(|e| {
            let _ = send(&socket, in_words(e).as_bytes());
        })?;
        // It was started as `/proc/self/exe`, and the name `exe` says nothing.
        sched::call_thread(c"corun supervise");
        // Both affect speed, not correctness; without the right to them it is an ordinary process.
        let _ = sched::lock_memory();
        // Only an ordinary thread can ask.
        super::undo::default_slice_ns();
        let _ = sched::become_fifo(PRIORITY);
        let _ = std::fs::write("/proc/self/oom_score_adj", "-1000");
        Ok(Supervisor {
            socket,
            controller: pidfd(number(controller)?),
            signals,
            lease: Duration::from_millis(number(lease)?.into()),
            journal,
            root: Root::new("/"),
        })
    }

    fn run(self) -> ExitCode {
        if say(&self.socket, READY).is_err() {
            return self.end();
        }
        let mut heard = Instant::now();
        loop {
            match self.wait(heard + self.lease) {
                Event::Beat => heard = Instant::now(),
                Event::Done | Event::Ended => return self.end(),
                Event::Silence if self.nothing_in_force() => heard = Instant::now(),
                Event::Silence | Event::Signal => return self.take_over(),
            }
        }
    }

    /// Restores what is in force; returns whether nothing is left.
    fn restore(&self) -> bool {
        let restored = self.journal.contents().map(|c| restoring::restore(&self.root, &c, &mut || {}));
        restored.is_ok_and(|r| r.failed.is_empty())
    }

    /// Restores the rest, if any, and removes the journal unless something could not be restored.
    fn end(&self) -> ExitCode {
        let until = Instant::now() + PATIENCE;
        while !self.restore() {
            if Instant::now() > until {
                return ExitCode::FAILURE;
            }
            std::thread::sleep(AGAIN);
        }
        self.journal.remove();
        ExitCode::SUCCESS
    }

    /// Restores while the controller lives: it finds the socket closed before it can make another lasting
    /// change. A controller that was held up in the middle of a change makes it when it goes on, and could be
    /// held up again before it notices. So everything is restored again and again until the controller has
    /// ended.
    fn take_over(&self) -> ExitCode {
        // SAFETY: shutdown takes an open socket.
        unsafe { libc::shutdown(self.socket.as_raw_fd(), libc::SHUT_RDWR) };
        if let Some(controller) = &self.controller {
            let mut pause = AGAIN;
            loop {
                let wait = match self.restore() {
                    true => {
                        pause = AGAIN;
                        self.lease
                    }
                    // At a priority above everybody else's, a long failure must not be retried at full speed.
                    false => {
                        let longer = (pause * 2).min(self.lease);
                        std::mem::replace(&mut pause, longer)
                    }
                };
                if wait_readable(&[controller.as_raw_fd()], Some(Instant::now() + wait)).is_some() {
                    break;
                }
            }
        }
        self.end()
    }

    fn nothing_in_force(&self) -> bool {
        self.journal.contents().is_ok_and(|c| c.in_force.is_empty())
    }

    fn wait(&self, until: Instant) -> Event {
        let Some(controller) = &self.controller else { return Event::Ended };
        let fds = [self.socket.as_raw_fd(), controller.as_raw_fd(), self.signals.as_raw_fd()];
        match wait_readable(&fds, Some(until)) {
            None => Event::Silence,
            Some(1) => Event::Ended,
            Some(2) => Event::Signal,
            Some(_) => {
                let mut bytes = [0u8; 1];
                // SAFETY: recv writes at most the one byte that it is told of.
                let got = unsafe {
                    libc::recv(self.socket.as_raw_fd(), bytes.as_mut_ptr().cast(), 1, libc::MSG_DONTWAIT)
                };
                match (got, bytes[0]) {
                    (1, DONE) => Event::Done,
                    (1, BEAT) => Event::Beat,
                    (0, _) => Event::Ended,
                    _ => Event::Beat,
                }
            }
        }
    }
}

/// Waits until one of the descriptors is readable or has hung up, and returns which; `None` when the time is
/// over.
fn wait_readable(fds: &[RawFd], until: Option<Instant>) -> Option<usize> {
    let mut waits: Vec<libc::pollfd> =
        fds.iter().map(|&fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 }).collect();
    loop {
        let ms = until.map_or(-1, |until| {
            until.saturating_duration_since(Instant::now()).as_millis().min(i32::MAX as u128 - 1) as i32 + 1
        });
        // SAFETY: poll gets as many valid entries as it is told of.
        let ready = unsafe { libc::poll(waits.as_mut_ptr(), waits.len() as libc::nfds_t, ms) };
        match ready {
            0 => return None,
            n if n < 0 => {}
            _ => return waits.iter().position(|w| w.revents != 0),
        }
        if until.is_some_and(|until| Instant::now() >= until) {
            return None;
        }
    }
}

/// A descriptor that the controller passed on becomes this process's own again.
fn inherited(fd: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: fcntl fails on a number that is no open descriptor; one that is open was passed for this process to own.
    unsafe {
        if fd < 3 || libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) != 0 {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "a descriptor is not open"));
        }
        Ok(OwnedFd::from_raw_fd(fd))
    }
}

fn pidfd(pid: u32) -> Option<OwnedFd> {
    // SAFETY: pidfd_open takes two integers and returns a descriptor that nobody else owns; getppid cannot fail.
    unsafe {
        let fd = libc::syscall(libc::SYS_pidfd_open, pid, 0) as i32;
        let fd = (fd >= 0).then(|| OwnedFd::from_raw_fd(fd));
        // If the controller had ended before, somebody else could have its PID; but then this process has a
        // new parent.
        fd.filter(|_| libc::getppid() as u32 == pid)
    }
}

/// Blocks the signals that would end this process and makes them readable instead.
fn stop_signals() -> io::Result<OwnedFd> {
    // SAFETY: the set is initialised before it is used, and signalfd returns a descriptor that nobody else owns.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGQUIT] {
            libc::sigaddset(&mut set, signal);
        }
        if libc::sigprocmask(libc::SIG_BLOCK, &set, std::ptr::null_mut()) != 0 {
            return Err(io::Error::last_os_error());
        }
        match libc::signalfd(-1, &set, libc::SFD_CLOEXEC) {
            fd if fd >= 0 => Ok(OwnedFd::from_raw_fd(fd)),
            _ => Err(io::Error::last_os_error()),
        }
    }
}
