//! A child process in its own session.
//!
//! With autogroup, the default of most distributions, each session is one scheduling group with one fair share. A study must not depend
//! on how it was started. So every program and every interferer calls `setsid` before it executes, and is one group, as in the scenario
//! of the model. Without autogroup the sessions do no harm.
//!
//! If the study dies, the kernel sends its children SIGTERM. The signal comes when the *thread* that started the child ends, so the
//! starting thread must outlive its children.

use corun_linux::launch::Running;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

/// How long a child may take to end after it was asked to.
const PATIENCE: Duration = Duration::from_secs(2);

/// A child that leads its own session. Dropping it ends it.
#[derive(Debug)]
pub struct Session {
    child: Child,
}

impl Session {
    /// Starts `command` with no input and no output.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn start(mut command: Command) -> io::Result<Session> {
        command.stdin(Stdio::null()).stdout(Stdio::null());
        // SAFETY: between fork and exec the closure makes two system calls and nothing else.
        unsafe {
            command.pre_exec(|| {
                let done = libc::setsid() >= 0 && libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM) == 0;
                done.then_some(()).ok_or_else(io::Error::last_os_error)
            })
        };
        Ok(Session { child: command.spawn()? })
    }

    /// Its PID, which is that of its first thread.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Its exit status, if it has ended.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn ended(&mut self) -> io::Result<Option<ExitStatus>> {
        self.child.try_wait()
    }

    /// Sleeps until it ends or `timeout` is over; `None` has no limit. Returns its exit status if it has ended.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn ends_within(&mut self, timeout: Option<Duration>) -> io::Result<Option<ExitStatus>> {
        let Some(timeout) = timeout else { return self.child.wait().map(Some) };
        any_ends(&[self.child.id()], timeout);
        self.ended()
    }

    /// Asks it to end, and kills it if it has not ended after two seconds.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn stop(&mut self) -> io::Result<ExitStatus> {
        self.signal(libc::SIGTERM);
        if let Some(status) = self.ends_within(Some(PATIENCE))? {
            return Ok(status);
        }
        self.signal(libc::SIGKILL);
        self.child.wait()
    }

    /// Asks it to end, and does not wait.
    pub fn ask_to_end(&self) {
        self.signal(libc::SIGTERM);
    }

    fn signal(&self, signal: i32) {
        // SAFETY: a system call without memory; the group is the child's own, and it is not collected yet.
        unsafe { libc::kill(-(self.child.id() as i32), signal) };
    }
}

/// Makes a command lead its own session. Unlike [`Session::start`] this does not end it with its parent: a session of `corun-session`
/// starts its command from a thread that does not outlive it.
pub fn lead_session(command: &mut Command) {
    command.stdin(Stdio::null()).stdout(Stdio::null());
    // SAFETY: between fork and exec the closure makes one system call and nothing else.
    unsafe { command.pre_exec(|| (libc::setsid() >= 0).then_some(()).ok_or_else(io::Error::last_os_error)) };
}

/// Ends a command that leads a session, with everything that it started, and collects it.
///
/// # Errors
/// The kernel's error.
pub fn end(command: Running) -> io::Result<ExitStatus> {
    // SAFETY: a system call without memory; the group is the child's own, and it is not collected yet.
    let signal = |signal| unsafe { libc::kill(-(command.pid() as i32), signal) };
    signal(libc::SIGTERM);
    if !command.ended_within(PATIENCE) {
        signal(libc::SIGKILL);
    }
    command.wait()
}

/// Sleeps until one of these children ends that were not yet waited for, or until `timeout` is over.
pub fn any_ends(pids: &[u32], timeout: Duration) {
    // SAFETY: pidfd_open takes two integers and returns a descriptor that nobody else owns.
    let open = |pid: &u32| unsafe {
        let pidfd = libc::syscall(libc::SYS_pidfd_open, *pid, 0) as i32;
        (pidfd >= 0).then(|| OwnedFd::from_raw_fd(pidfd))
    };
    let pidfds: Vec<OwnedFd> = pids.iter().filter_map(open).collect();
    let mut ends: Vec<libc::pollfd> = pidfds
        .iter()
        .map(|fd| libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 })
        .collect();
    let ms = timeout.as_millis().clamp(1, i32::MAX as u128) as i32;
    // Without a descriptor (an old kernel) poll has no entries and sleeps.
    // SAFETY: as many entries as are stated.
    unsafe { libc::poll(ends.as_mut_ptr(), ends.len() as libc::nfds_t, ms) };
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Ok(None) = self.ended() {
            let _ = self.stop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Session {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Session::start(command).unwrap()
    }

    #[test]
    fn a_child_leads_its_own_session_and_is_stopped_with_all_that_it_started() {
        let mut session = shell("sleep 600 & wait");
        let pid = session.pid() as i32;
        // SAFETY: a system call without memory.
        assert_eq!(unsafe { libc::getsid(pid) }, pid);
        assert!(session.ended().unwrap().is_none());
        session.stop().unwrap();
        // SAFETY: a system call without memory. Signal 0 only asks whether the group is still there.
        while unsafe { libc::kill(-pid, 0) } == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn a_dropped_child_is_ended() {
        let pid = shell("sleep 600").pid();
        assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists());
    }
}
