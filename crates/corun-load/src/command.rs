//! A real command as a load: started without a shell, watched, ended with all its children.
//!
//! It runs in its own process group, with no input, and with its output on standard error, so that standard output contains only the
//! report. To stop it corun sends SIGTERM to the group, and SIGKILL after two seconds. Processes that an ended command has left in its
//! group are ended in the same way. If corun itself is killed, the kernel sends the command SIGTERM.
//!
//! During the run corun adopts the command's orphans (`PR_SET_CHILD_SUBREAPER`). So the CPU time of all its descendants is counted,
//! however it ends. They are reaped as they end. Limits: a descendant that leaves the group (a daemon) lives on and is not counted.
//! After its end it stays a zombie until corun ends. The children of a command also live on if corun was killed by SIGKILL.

use crate::clock::{now_ns, sleep_until};
use crate::futex;
use crate::progress::{per_second, share, Progress};
use crate::report::{CommandReport, Report};
use crate::watch::{Ended, Watch};
use crate::LoadError;
use corun_model::workload::Command;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::Stdio;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::Mutex;
use std::thread::Builder;

/// The time between SIGTERM and SIGKILL.
const GRACE_NS: u64 = 2_000_000_000;

/// Runs `command` until it ends, `limit_ns` have passed or it is asked to stop.
///
/// # Errors
/// [`LoadError`] if it does not start, or cannot be watched over.
pub fn run(command: &Command, limit_ns: Option<u64>, watch: &mut Watch) -> Result<Report, LoadError> {
    let begin_ns = now_ns();
    let _adopting = Adopting::orphans();
    let pid = start(command).map_err(|error| LoadError::of_command(&command.argv[0], error))?;
    let (over, stop) = (AtomicU32::new(0), watch.stop);
    let ran = std::thread::scope(|scope| {
        let reap = || {
            let orphans = reap_until_over(pid);
            over.store(1, SeqCst);
            futex::wake(&over, i32::MAX);
            stop.ring();
            orphans
        };
        let reaper = Builder::new().spawn_scoped(scope, reap)?;
        let end_it = || {
            signal_group(pid, libc::SIGTERM);
            futex::wait(&over, 0, Some(GRACE_NS));
            if over.load(SeqCst) == 0 {
                signal_group(pid, libc::SIGKILL);
            }
        };
        let progress = || Progress::of_time("run", now_ns() - begin_ns, limit_ns);
        let ended = watch.until(limit_ns, || over.load(SeqCst) == 1, end_it, progress);
        Ok((ended, reaper.join().expect("reaping does not panic")))
    });
    let (ended, orphans) = ran.map_err(|error| {
        // It cannot be watched, so it is ended.
        signal_group(pid, libc::SIGKILL);
        end_group(pid, Remains::default());
        LoadError::Thread { started: 0, wanted: 1, error }
    })?;
    let wall_ns = now_ns() - begin_ns;
    Ok(report(command, ended, wall_ns, end_group(pid, orphans)))
}

/// Makes orphaned descendants the children of this process while any of these exists.
struct Adopting;

/// The number of these, and the process's flag before the first.
static ADOPTING: Mutex<(u32, libc::c_int)> = Mutex::new((0, 0));

impl Adopting {
    fn orphans() -> Adopting {
        let mut adopting = ADOPTING.lock().expect("nobody panics holding this");
        if adopting.0 == 0 {
            // SAFETY: the kernel writes one int, and then a flag of this process is set.
            unsafe {
                libc::prctl(libc::PR_GET_CHILD_SUBREAPER, &mut adopting.1 as *mut libc::c_int);
                libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1);
            }
        }
        adopting.0 += 1;
        Adopting
    }
}

impl Drop for Adopting {
    fn drop(&mut self) {
        let mut adopting = ADOPTING.lock().expect("nobody panics holding this");
        adopting.0 -= 1;
        if adopting.0 == 0 {
            // SAFETY: sets a flag of this process.
            unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, adopting.1) };
        }
    }
}

fn start(command: &Command) -> io::Result<i32> {
    let output = || io::stderr().as_fd().try_clone_to_owned().map(Stdio::from);
    let mut child = std::process::Command::new(&command.argv[0]);
    child.args(&command.argv[1..]).envs(&command.env);
    child.stdin(Stdio::null()).stdout(output()?).stderr(output()?).process_group(0);
    // SAFETY: between fork and exec the closure makes one system call and nothing else.
    unsafe {
        child.pre_exec(|| match libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM) {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        })
    };
    // `end_group` waits for it instead of the standard library, since it also learns the resources that the command used.
    #[allow(clippy::zombie_processes)]
    child.spawn().map(|child| child.id() as i32)
}

/// Waits for the end of `pid`, the leader of a group, and reaps other members that end before. The leader is not reaped, so that no
/// other process gets its number until then.
fn reap_until_over(pid: i32) -> Remains {
    let mut orphans = Remains::default();
    let mut whom = libc::P_PGID;
    loop {
        match wait_for_end(whom, pid) {
            Ok(ended) if ended == pid => return orphans,
            Ok(ended) => {
                if let (1.., status, usage) = reap(ended) {
                    orphans.add(false, status, &usage);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // The group has no member: its leader has joined another one.
            Err(_) if whom == libc::P_PGID => whom = libc::P_PID,
            Err(_) => return orphans,
        }
    }
}

/// Waits until a process has ended, without reaping it.
fn wait_for_end(whom: libc::idtype_t, id: i32) -> io::Result<i32> {
    // SAFETY: all-zero is a valid `siginfo_t`, the kernel writes no more than one, and of a child that has ended.
    unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        match libc::waitid(whom, id as libc::id_t, &mut info, libc::WEXITED | libc::WNOWAIT) {
            0 => Ok(info.si_pid()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// Reaps a child if one has ended; a negative number means a child of that group. Returns its number or the kernel's error code, its
/// status and its resource usage.
fn reap(whom: i32) -> (i32, i32, libc::rusage) {
    // SAFETY: all-zero is a valid `rusage`; the kernel writes one of it and one status.
    unsafe {
        let (mut status, mut usage): (i32, libc::rusage) = (0, std::mem::zeroed());
        (libc::wait4(whom, &mut status, libc::WNOHANG, &mut usage), status, usage)
    }
}

fn signal_group(pid: i32, signal: i32) {
    // SAFETY: a system call without memory. The group is the child's own, made before it was started.
    unsafe { libc::kill(-pid, signal) };
}

/// The end of a group: the leader's status, and the resources of all members.
#[derive(Default)]
struct Remains {
    status: i32,
    user_ns: u64,
    system_ns: u64,
    max_rss_bytes: u64,
}

/// Ends the rest of a group whose leader has ended, and reaps all of it. `remains` are the members that were reaped before.
fn end_group(pid: i32, mut remains: Remains) -> Remains {
    let mut kill_ns = Some(now_ns() + GRACE_NS);
    signal_group(pid, libc::SIGTERM);
    loop {
        let (reaped, status, usage) = reap(-pid);
        match reaped {
            0 if kill_ns.is_some_and(|ns| now_ns() >= ns) => {
                signal_group(pid, libc::SIGKILL);
                kill_ns = None;
            }
            0 => sleep_until(now_ns() + 2_000_000),
            1.. => remains.add(reaped == pid, status, &usage),
            _ if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted => {}
            _ => return remains,
        }
    }
}

impl Remains {
    fn add(&mut self, is_leader: bool, status: i32, usage: &libc::rusage) {
        let ns = |t: libc::timeval| t.tv_sec as u64 * 1_000_000_000 + t.tv_usec as u64 * 1_000;
        if is_leader {
            self.status = status;
        }
        self.user_ns += ns(usage.ru_utime);
        self.system_ns += ns(usage.ru_stime);
        self.max_rss_bytes = self.max_rss_bytes.max(usage.ru_maxrss as u64 * 1024);
    }
}

fn report(command: &Command, ended: Ended, wall_ns: u64, remains: Remains) -> Report {
    let Remains { status, user_ns, system_ns, max_rss_bytes } = remains;
    let exit_code = libc::WIFEXITED(status).then(|| libc::WEXITSTATUS(status));
    let iterations = u64::from(ended == Ended::Completed && exit_code == Some(0));
    Report {
        schema: "corun.load/1",
        what: describe(&command.argv),
        ended,
        unit: "run",
        iterations,
        per_second: per_second(iterations, wall_ns),
        wall_ns,
        cpu_ns: user_ns + system_ns,
        demand: share(user_ns + system_ns, wall_ns),
        demand_asked: None,
        calibration: None,
        waiting: None,
        held: None,
        threads: Vec::new(),
        command: Some(CommandReport {
            argv: command.argv.clone(),
            exit_code,
            signal: libc::WIFSIGNALED(status).then(|| libc::WTERMSIG(status)),
            user_ns,
            system_ns,
            max_rss_bytes,
        }),
    }
}

/// The command on one line of at most 80 characters.
fn describe(argv: &[String]) -> String {
    let line = argv.join(" ").split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(80) {
        Some((end, _)) => format!("command `{}…`", &line[..end]),
        None => format!("command `{line}`"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stop::Stop;

    fn sh(script: &str) -> Command {
        let argv = ["sh", "-c", script].map(String::from).to_vec();
        Command { argv, env: Default::default(), model: Vec::new(), iterations: 1 }
    }

    fn run_for(script: &str, limit_ns: Option<u64>) -> Report {
        let stop = Stop::new();
        run(&sh(script), limit_ns, &mut Watch::new(&stop, None, None, &mut |_| {})).unwrap()
    }

    #[test]
    fn the_report_has_the_end_of_the_command_and_its_childrens_usage() {
        let report = run_for("sh -c 'i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done'; exit 3", None);
        let command = report.command.unwrap();
        assert_eq!((report.ended, command.exit_code, command.signal), (Ended::Completed, Some(3), None));
        assert!(report.cpu_ns > 0 && report.cpu_ns == command.user_ns + command.system_ns);
        assert_eq!(report.iterations, 0, "a run that failed is not a run");
    }

    #[test]
    fn a_long_script_is_described_on_one_line() {
        assert_eq!(describe(&sh("\n true\n").argv), "command `sh -c true`");
        assert!(describe(&sh(&"é".repeat(200)).argv).chars().count() < 100);
    }

    #[test]
    fn its_environment_is_set_and_success_counts_as_one_run() {
        let mut command = sh("test \"$COLOUR\" = green");
        command.env.insert("COLOUR".into(), "green".into());
        let stop = Stop::new();
        let report = run(&command, None, &mut Watch::new(&stop, None, None, &mut |_| {})).unwrap();
        assert_eq!((report.iterations, report.command.unwrap().exit_code), (1, Some(0)));
    }

    #[test]
    fn a_command_whose_time_is_up_is_ended_with_its_children() {
        let file = std::env::temp_dir().join(format!("corun-load-{}", std::process::id()));
        let script = format!("sleep 600 & echo $! > {}; wait", file.display());
        let report = run_for(&script, Some(300_000_000));
        assert_eq!((report.ended, report.command.unwrap().signal), (Ended::TimeUp, Some(libc::SIGTERM)));
        let child: i32 = std::fs::read_to_string(&file).unwrap().trim().parse().unwrap();
        std::fs::remove_file(&file).unwrap();
        assert!(!std::path::Path::new(&format!("/proc/{child}")).exists(), "the child outlived the run");
    }

    #[test]
    fn the_work_of_children_that_the_command_did_not_wait_for_is_counted() {
        // The shell ends before it can wait for the loop. The loop's CPU time must still count.
        let report = run_for("sh -c 'while :; do :; done' & wait", Some(400_000_000));
        let used = report.command.unwrap();
        assert_eq!(used.signal, Some(libc::SIGTERM));
        assert!(used.user_ns + used.system_ns > 20_000_000, "{used:?}");
    }

    #[test]
    fn orphans_are_reaped_as_they_end_and_their_work_is_counted() {
        let file = std::env::temp_dir().join(format!("corun-load-zombies-{}", std::process::id()));
        // It looks for zombies of its group until there are none, for 5 s at most.
        let script = format!(
            "i=0; while [ $i -lt 20 ]; do (true &); i=$((i+1)); done
             (sh -c 'n=0; while [ $n -lt 100000 ]; do n=$((n+1)); done' &)
             zombies() {{ cat /proc/[0-9]*/stat 2>/dev/null | awk -v group=$$ '$3 == \"Z\" && $5 == group' | wc -l; }}
             sleep 0.2
             i=0; while [ $i -lt 50 ] && [ $(zombies) -gt 0 ]; do sleep 0.1; i=$((i+1)); done
             zombies > {}; sleep 2",
            file.display()
        );
        let used = run_for(&script, None).command.unwrap();
        let left = std::fs::read_to_string(&file).unwrap();
        std::fs::remove_file(&file).unwrap();
        assert_eq!((left.trim(), used.exit_code), ("0", Some(0)), "zombies before the command's end");
        assert!(used.user_ns + used.system_ns > 20_000_000, "{used:?}");
    }

    #[test]
    fn a_command_that_ignores_the_request_to_end_is_killed() {
        let report = run_for("trap '' TERM; while :; do sleep 1; done", Some(200_000_000));
        assert_eq!(report.command.unwrap().signal, Some(libc::SIGKILL));
    }

    #[test]
    fn a_missing_command_is_one_clear_sentence() {
        let stop = Stop::new();
        let command = Command { argv: vec!["no-such-program".into()], ..sh("") };
        let error = run(&command, None, &mut Watch::new(&stop, None, None, &mut |_| {})).unwrap_err();
        assert!(error.to_string().starts_with("cannot start `no-such-program`: No such file"), "{error}");
        assert!(error.is_usage());
    }
}
