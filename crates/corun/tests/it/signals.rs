//! Signals that somebody sends to corun while it measures a command.

use assert_cmd::cargo::CommandCargoExt;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

#[test]
fn a_signal_that_only_the_command_can_act_on_is_passed_on_to_it() {
    for (verb, name, signal) in [
        ("profile", "USR1", libc::SIGUSR1),
        ("verify", "USR2", libc::SIGUSR2),
        ("predict", "QUIT", libc::SIGQUIT),
    ] {
        // Without the signal it ends after ten seconds, with another status.
        let script = format!(
            "trap 'echo saved; exit 7' {name}; echo ready; for i in $(seq 500); do sleep 0.02; done; exit 8"
        );
        let mut command = Command::cargo_bin("corun").unwrap();
        command.args([verb, "-q", "--", "sh", "-c", &script]).stdout(Stdio::piped()).stderr(Stdio::piped());
        // A background job ignores SIGQUIT, and so would all that it starts.
        // SAFETY: signal() is async-signal-safe.
        unsafe {
            command.pre_exec(move || {
                libc::signal(signal, libc::SIG_DFL);
                Ok(())
            });
        }
        let mut corun = command.spawn().unwrap();
        let mut out = BufReader::new(corun.stdout.take().unwrap());
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n", "{verb}");
        // SAFETY: kill takes two integers; the child was not collected, so that the PID is its own.
        assert_eq!(unsafe { libc::kill(corun.id() as i32, signal) }, 0);
        let mut rest = String::new();
        out.read_to_string(&mut rest).unwrap();
        let output = corun.wait_with_output().unwrap();
        assert!(rest.starts_with("saved\n"), "{verb}: the command did not get SIG{name}: {rest}");
        assert_eq!(output.status.code(), Some(7), "{verb}: {}", String::from_utf8_lossy(&output.stderr));
    }
}
