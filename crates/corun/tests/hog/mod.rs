//! A tenant for tests of control: a process of their own that can be parked.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A busy loop with a session and a name of its own; ended when dropped.
pub struct Hog(pub Child);

impl Hog {
    #[allow(dead_code, reason = "not every binary of tests has a plain loop")]
    pub fn start(folder: &Path, name: &str) -> Hog {
        Hog::running(folder, name, "while :; do :; done")
    }

    /// The same with another script.
    pub fn running(folder: &Path, name: &str, script: &str) -> Hog {
        Hog::by(None, folder, name, script)
    }

    /// A loop of an unprivileged user, who may read `folder`.
    #[allow(dead_code, reason = "not every binary of tests has somebody else's")]
    pub fn of_nobody(folder: &Path, name: &str) -> Hog {
        Hog::by(Some(65534), folder, name, "while :; do :; done")
    }

    fn by(user: Option<u32>, folder: &Path, name: &str, script: &str) -> Hog {
        let program = folder.join(name);
        // A copy could not be started while another test forks with the file still open for writing.
        std::os::unix::fs::symlink("/bin/sh", &program).unwrap();
        let mut command = Command::new(&program);
        command.args(["-c", script]).stdin(Stdio::null());
        user.iter().for_each(|&id| _ = command.uid(id).gid(id));
        // SAFETY: two system calls.
        unsafe {
            command.pre_exec(|| {
                libc::setsid();
                // A test that is killed leaves no loop behind.
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                Ok(())
            })
        };
        Hog(command.spawn().unwrap())
    }
}

impl Drop for Hog {
    fn drop(&mut self) {
        // SAFETY: a signal to the process group that its session began with, which is still there: nobody has waited for it.
        unsafe { libc::kill(-(self.0.id() as i32), libc::SIGKILL) };
        let _ = self.0.wait();
    }
}
