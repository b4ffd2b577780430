//! Starts a command and holds it before its first instruction, so that a watcher can be armed on its PID.
//!
//! Method: the child of `fork` reports its PID through one pipe and reads from another. [`Held::release`]
//! writes to that pipe, and only then does the child execute the command. If corun dies or gives up first,
//! the read ends and so does the child: nothing is left behind. `Command::spawn` returns only after the exec,
//! so it runs on a thread of its own.
//!
//! The command stays in corun's process group and keeps its terminal: Ctrl-C reaches it directly. Callers who
//! want something else set `process_group` on the [`Command`] that they pass. Signals that somebody sends to
//! corun but that only the command can act on are passed on to it (`relay.rs`).

use crate::limits;
use crate::root::in_words;
use relay::Relay;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus};
use std::thread::JoinHandle;
use std::time::Duration;
use thiserror::Error;

mod refused;
mod relay;

/// A command could not be started.
#[derive(Debug, Error)]
pub enum LaunchError {
    /// There is no such program.
    #[error("no command `{program}`; check its spelling and $PATH")]
    NotFound {
        /// The program.
        program: String,
    },
    /// The program exists but cannot be executed.
    #[error("cannot execute `{program}`: {why}")]
    NotExecutable {
        /// The program.
        program: String,
        /// Why not, and what helps.
        why: String,
    },
    /// The child could not be created at all.
    #[error("cannot start the command: {}", in_words(.0))]
    Fork(io::Error),
}

impl LaunchError {
    /// Whether the user named something that cannot be run (as opposed to a machine out of processes or
    /// memory).
    pub fn is_usage(&self) -> bool {
        !matches!(self, LaunchError::Fork(_))
    }
}

/// A command that waits for [`Held::release`]; dropped unreleased, it never runs.
pub struct Held {
    pid: u32,
    program: OsString,
    /// From before the command runs: its first line may have somebody send a signal.
    relay: Option<Relay>,
    go: Option<File>,
    spawner: Option<JoinHandle<io::Result<Child>>>,
}

impl Held {
    /// Makes the process and holds it.
    ///
    /// # Errors
    /// [`LaunchError::NotFound`], [`LaunchError::Fork`]. [`Held::release`] reports a file that cannot be
    /// executed.
    pub fn start(mut command: Command) -> Result<Held, LaunchError> {
        let program = command.get_program().to_owned();
        if !refused::is_found(&program) {
            return Err(LaunchError::NotFound { program: program.to_string_lossy().into_owned() });
        }
        let (go_read, go_write) = pipe().map_err(LaunchError::Fork)?;
        let (pid_read, pid_write) = pipe().map_err(LaunchError::Fork)?;
        let (go_fd, go_write_fd) = (go_read.as_raw_fd(), go_write.as_raw_fd());
        let pid_fd = pid_write.as_raw_fd();
        // SAFETY: the closure runs between fork and exec and calls only getpid, write, close and read, which are
        // async-signal-safe, on descriptors that this process keeps open until `spawn` has returned.
        unsafe {
            command.pre_exec(move || hold(go_fd, go_write_fd, pid_fd));
        }
        let spawn = move || {
            let spawned = command.spawn();
            drop((go_read, pid_write));
            spawned
        };
        let spawner = limits::start_thread("corun-launch", spawn).map_err(LaunchError::Fork)?;
        let mut pid = [0u8; 4];
        match File::from(pid_read).read_exact(&mut pid) {
            Ok(()) => Ok(Held {
                pid: u32::from_ne_bytes(pid),
                program,
                relay: Some(Relay::to(u32::from_ne_bytes(pid))),
                go: Some(File::from(go_write)),
                spawner: Some(spawner),
            }),
            // The pipe ended without a PID: there was no child.
            Err(ended) => Err(match spawner.join() {
                Ok(Err(e)) => LaunchError::Fork(limits::explained(e)),
                _ => LaunchError::Fork(ended),
            }),
        }
    }

    /// The PID that the command will have.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Lets the command run.
    ///
    /// # Errors
    /// [`LaunchError`] when it cannot be executed.
    pub fn release(mut self) -> Result<Running, LaunchError> {
        let released = match self.go.take() {
            Some(mut go) => go.write_all(&[1]),
            None => Ok(()),
        };
        // A child that was killed while held leaves a pipe that nobody reads; joining the thread returns its
        // error.
        let joined = self.spawner.take().map(JoinHandle::join);
        match (joined, released) {
            (Some(Ok(Ok(child))), _) => Ok(Running::of(child, self.relay.take())),
            (Some(Ok(Err(error))), _) => {
                let program = self.program.to_string_lossy().into_owned();
                Err(match refused::why(&self.program, &error) {
                    None => LaunchError::NotFound { program },
                    Some(why) => LaunchError::NotExecutable { program, why },
                })
            }
            (_, Err(e)) => Err(LaunchError::Fork(e)),
            (_, Ok(())) => Err(LaunchError::Fork(io::Error::other("the launching thread panicked"))),
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let Some(spawner) = self.spawner.take() else { return };
        // SAFETY: kill takes two integers; the child was not collected yet, so the PID is still its own. Closing the
        // pipe alone would end it too, but not while another held child has inherited our end.
        unsafe { libc::kill(self.pid as i32, libc::SIGKILL) };
        (self.go, self.relay) = (None, None);
        if let Ok(Ok(mut child)) = spawner.join() {
            let _ = child.wait();
        }
    }
}

/// What the child does before it is allowed to run.
fn hold(go_fd: i32, go_write_fd: i32, pid_fd: i32) -> io::Result<()> {
    // SAFETY: all of these are async-signal-safe; the descriptors are open and the buffers outlive the calls. The
    // write end is closed so that the read ends when the parent's copy, the last one, is closed.
    unsafe {
        libc::close(go_write_fd);
        let pid = (libc::getpid() as u32).to_ne_bytes();
        if libc::write(pid_fd, pid.as_ptr().cast(), pid.len()) != pid.len() as isize {
            return Err(io::Error::last_os_error());
        }
        libc::close(pid_fd);
        let mut byte = 0u8;
        loop {
            match libc::read(go_fd, (&raw mut byte).cast(), 1) {
                1 => return Ok(()),
                // The process that would let it run has gone: there is nobody to report to.
                0 => libc::_exit(127),
                _ if *libc::__errno_location() == libc::EINTR => {}
                _ => return Err(io::Error::last_os_error()),
            }
        }
    }
}

fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends = [0; 2];
    // SAFETY: pipe2 fills the two descriptors in; on success they are open and owned by nobody else.
    unsafe {
        if libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok((OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])))
    }
}

/// A command that runs.
#[derive(Debug)]
pub struct Running {
    child: Child,
    /// Signals reach it through this.
    relay: Option<Relay>,
    /// A descriptor that becomes readable when it ends; `None` if this kernel has none, or no descriptor was
    /// left.
    pidfd: Option<OwnedFd>,
}

impl Running {
    fn of(child: Child, relay: Option<Relay>) -> Running {
        // SAFETY: pidfd_open takes two integers and returns a descriptor that nobody else owns. The child was not collected yet,
        // so the PID is its own.
        let pidfd = unsafe {
            let pidfd = libc::syscall(libc::SYS_pidfd_open, child.id(), 0) as i32;
            (pidfd >= 0).then(|| OwnedFd::from_raw_fd(pidfd))
        };
        Running { child, relay, pidfd }
    }

    /// Its PID.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends it a signal; if it has ended, nothing happens.
    pub fn tell(&self, signal: i32) {
        // SAFETY: kill takes two integers; the child was not collected yet, so the PID is still its own.
        unsafe { libc::kill(self.child.id() as i32, signal) };
    }

    /// Whether it has ended. It stays a zombie until [`Running::wait`], so that its last numbers can still be
    /// read.
    pub fn has_ended(&self) -> bool {
        self.ended_within(Duration::ZERO)
    }

    /// Waits until it ends, a signal comes or `timeout` is over; returns whether it has ended (it is not
    /// collected).
    pub fn ended_within(&self, timeout: Duration) -> bool {
        // SAFETY: poll gets one valid entry, whose descriptor is open; waitid fills a zeroed siginfo in and, by WNOWAIT, leaves the
        // child as it is.
        unsafe {
            if !timeout.is_zero() {
                let fd = self.pidfd.as_ref().map_or(-1, AsRawFd::as_raw_fd);
                let mut waits = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
                let ms = timeout.as_millis().clamp(1, i32::MAX as u128) as i32;
                // Without a descriptor poll ignores the entry and sleeps.
                libc::poll(&mut waits, 1, ms);
            }
            let mut info: libc::siginfo_t = std::mem::zeroed();
            let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
            let asked = libc::waitid(libc::P_PID, self.child.id(), &mut info, flags);
            asked != 0 || info.si_pid() != 0
        }
    }

    /// Collects it, waiting until it has ended.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn wait(mut self) -> io::Result<ExitStatus> {
        // Once it is collected, its PID may be another's.
        while !self.ended_within(Duration::from_secs(1)) {}
        drop(self.relay);
        self.child.wait()
    }
}

/// The exit code that a shell would report: the command's own, or 128 and the signal that ended it.
pub fn exit_code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|s| 128 + s)).unwrap_or(1);
    (code & 0xff) as u8
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::procfs;
    use crate::root::Root;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn a_held_command_runs_nothing_until_it_is_released() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("ran");
        let held = Held::start(shell(&format!("echo $$ > {}", file.display()))).unwrap();
        let pid = held.pid();
        assert!(procfs::process_stat(&Root::new("/"), pid).unwrap().comm != "sh");
        std::thread::sleep(Duration::from_millis(20));
        assert!(!file.exists());
        let running = held.release().unwrap();
        assert_eq!(running.pid(), pid);
        assert!(running.wait().unwrap().success());
        assert_eq!(std::fs::read_to_string(file).unwrap().trim(), pid.to_string());
    }

    #[test]
    fn a_command_that_is_never_released_leaves_nothing_behind() {
        let held = Held::start(shell("exit 7")).unwrap();
        let pid = held.pid();
        drop(held);
        assert!(procfs::process_stat(&Root::new("/"), pid).unwrap_err().is_gone());
    }

    #[test]
    fn exit_codes_are_those_of_the_command_even_if_a_signal_ended_it() {
        let code =
            |script: &str| exit_code(Held::start(shell(script)).unwrap().release().unwrap().wait().unwrap());
        assert_eq!(code("exit 7"), 7);
        assert_eq!(code("kill -9 $$"), 137);
    }

    #[test]
    fn a_command_that_is_missing_or_cannot_be_executed_is_named() {
        let e = Held::start(Command::new("no-such-command")).err().unwrap();
        assert_eq!(e.to_string(), "no command `no-such-command`; check its spelling and $PATH");
        assert!(e.is_usage());
        let e = Held::start(Command::new("/dev/null")).unwrap().release().unwrap_err();
        assert!(e.to_string().starts_with("cannot execute `/dev/null`: Permission denied"), "{e}");
    }

    #[test]
    fn an_ended_command_stays_readable_until_it_is_collected() {
        let running = Held::start(shell("exit 3")).unwrap().release().unwrap();
        while !running.ended_within(Duration::from_secs(10)) {}
        assert!(running.has_ended());
        assert!(procfs::process_stat(&Root::new("/"), running.pid()).unwrap().is_dead());
        assert_eq!(exit_code(running.wait().unwrap()), 3);
    }

    #[test]
    fn a_command_that_runs_has_not_ended() {
        let mut command = Command::new("sleep");
        command.arg("60").process_group(0);
        let running = Held::start(command).unwrap().release().unwrap();
        assert!(!running.ended_within(Duration::from_millis(5)) && !running.has_ended());
        // SAFETY: kill takes two integers; the PID is our own child's.
        assert_eq!(unsafe { libc::kill(running.pid() as i32, libc::SIGTERM) }, 0);
        assert_eq!(exit_code(running.wait().unwrap()), 143);
    }
}
