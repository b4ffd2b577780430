//! What is said of a server outside that a command waits for. How long that was kept from a CPU is known otherwise: by the kernel's own sums,
//! or since the test stopped it.

use corun_linux::watcher::Source;
use corun_predict::servers::Server;
use corun_session::{Error, Stop, Verify, VerifyOptions};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command};
use std::thread;
use std::time::Duration;

const MS: u64 = 1_000_000;

/// A process that ends with its group when it is dropped.
struct Outside(Child);

impl Outside {
    /// A script on CPU 0, in a group of its own.
    fn start(script: &str, folder: &Path) -> Outside {
        let mut command = Command::new("taskset");
        command.args(["-c", "0", "sh", "-c", script]).current_dir(folder).process_group(0);
        Outside(command.spawn().unwrap())
    }

    /// How long its first thread has waited for a CPU, in nanoseconds.
    fn queued_ns(&self) -> u64 {
        let sums = std::fs::read_to_string(format!("/proc/{}/schedstat", self.0.id())).unwrap();
        sums.split(' ').nth(1).and_then(|ns| ns.parse().ok()).unwrap()
    }

    fn signal(&self, signal: i32) {
        // SAFETY: plain numbers; the child has not been waited for.
        unsafe { libc::kill(self.0.id() as i32, signal) };
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        // SAFETY: a signal to a group that this process made, whose leader has not been waited for.
        unsafe { libc::kill(-(self.0.id() as i32), libc::SIGKILL) };
        let _ = self.0.wait();
    }
}

/// A server that does `work` for each request.
fn server(work: &str, folder: &Path) -> Outside {
    for pipe in ["requests", "answers"] {
        assert!(Command::new("mkfifo").arg(folder.join(pipe)).status().unwrap().success());
    }
    let script = format!("exec 3<>requests 4<>answers; while read n <&3; do {work}; echo $n >&4; done");
    Outside::start(&script, folder)
}

/// A client that makes so many requests, judged; `meanwhile` gets whether it goes on. The servers, and how long it took.
fn client(requests: u32, folder: &Path, meanwhile: impl FnOnce(&Stop) + Send) -> Option<(Vec<Server>, u64)> {
    let script = format!(
        "exec 3<>requests 4<>answers; n=0; while [ $n -lt {requests} ]; do echo $n >&3; read x <&4; n=$((n+1)); done"
    );
    let mut command = Command::new("sh");
    command.args(["-c", &script]).current_dir(folder);
    let options = VerifyOptions { source: Some(Source::Ebpf), spin: false, ..VerifyOptions::default() };
    let mut run = match Verify::start(command, &options, &Stop::new()) {
        Ok(run) => run,
        Err(e @ (Error::Watch(_) | Error::Usage(_))) => {
            println!("skipped: {e}");
            return None;
        }
        Err(e) => panic!("{e}"),
    };
    let over = Stop::new();
    thread::scope(|scope| {
        let asked = over.clone();
        scope.spawn(move || meanwhile(&asked));
        let is_well = run.by_ref().all(|window| window.is_ok());
        over.stop();
        assert!(is_well);
    });
    let verdict = run.finish().verdict;
    Some((verdict.servers.expect("the log is complete"), verdict.wall_ns))
}

/// The one that it waited for nearly always.
fn only(servers: &[Server], wall_ns: u64) -> &Server {
    let first = servers.first().unwrap_or_else(|| panic!("no server"));
    assert!(first.waited_ns > wall_ns / 2 && first.waited_ns <= wall_ns, "{servers:?} of {wall_ns}");
    for server in servers {
        for [least, most] in [server.queued_ns, server.throttled_ns, server.held_ns] {
            assert!(least <= most && most <= server.waited_ns, "{server:?}");
        }
        let charged: u64 = server.culprits.iter().map(|c| c.steal_ns).sum();
        assert_eq!(charged + server.unattributed_ns, server.queued_ns[1], "{server:?}");
    }
    first
}

#[test]
fn a_server_beside_a_loop_was_kept_from_its_cpu_as_long_as_the_kernel_says_and_by_that() {
    let folder = tempfile::tempdir().unwrap();
    let served = server("i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done", folder.path());
    let _loop = Outside::start("while :; do :; done", folder.path());
    let before_ns = served.queued_ns();
    let Some((servers, wall_ns)) = client(40, folder.path(), |_| {}) else { return };
    let queued_ns = served.queued_ns() - before_ns;
    let found = only(&servers, wall_ns);
    // What other tests of this binary do is somebody else, too; what the kernel and an idle CPU took is not counted.
    let [least, most] = found.queued_ns;
    assert!(least <= queued_ns && most <= queued_ns + 5 * MS, "{found:?}, the kernel says {queued_ns}");
    assert!(queued_ns > wall_ns / 5, "the loop had its part: {queued_ns} of {wall_ns}");
    if found.kind != "command" {
        return println!("here the server and the loop are one tenant, so nobody else took its CPU");
    }
    assert!(2 * most > queued_ns && least > 0, "{found:?}, the kernel says {queued_ns}");
    assert!(found.culprits.iter().any(|holder| holder.kind == "command"), "{found:?}");
}

#[test]
fn a_server_that_takes_its_time_was_kept_from_a_cpu_no_longer_than_the_kernel_says() {
    let folder = tempfile::tempdir().unwrap();
    let served = server("sleep .03", folder.path());
    let before_ns = served.queued_ns();
    let Some((servers, wall_ns)) = client(20, folder.path(), |_| {}) else { return };
    let queued_ns = served.queued_ns() - before_ns;
    let found = only(&servers, wall_ns);
    assert!(found.queued_ns[1] <= queued_ns + 5 * MS, "{found:?}, the kernel says {queued_ns}");
    assert_eq!((found.throttled_ns, found.held_ns), ([0, 0], [0, 0]), "{found:?}");
}

#[test]
fn a_server_that_somebody_stops_is_not_said_to_be_kept_by_a_neighbor() {
    let folder = tempfile::tempdir().unwrap();
    let served = server("i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done", folder.path());
    let mut stopped_ns = 0;
    let stops = |over: &Stop| {
        while !over.is_asked() {
            let began = std::time::Instant::now();
            served.signal(libc::SIGSTOP);
            thread::sleep(Duration::from_millis(60));
            served.signal(libc::SIGCONT);
            stopped_ns += began.elapsed().as_nanos() as u64;
            thread::sleep(Duration::from_millis(20));
        }
    };
    let Some((servers, wall_ns)) = client(20, folder.path(), stops) else { return };
    let found = only(&servers, wall_ns);
    let [least, most] = found.held_ns;
    assert!(
        least > 0 && most > wall_ns / 3 && most <= stopped_ns,
        "{found:?}, stopped for {stopped_ns} of {wall_ns}"
    );
}
