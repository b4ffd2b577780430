//! The name that people use for a program: its own name, the script that it runs, or its command.

use crate::procfs::{self, command_line};
use crate::root::Root;

/// This many programs may run each other (`sudo timeout 60 nice job`), and this many children of each are
/// read.
const DEEPEST: usize = 8;
const MOST_CHILDREN: usize = 8;

/// Programs that run a script, by name, with any version after it. People know the script.
const INTERPRETERS: &[&str] = &[
    "sh", "bash", "dash", "ash", "zsh", "ksh", "mksh", "fish", "python", "pypy", "perl", "ruby", "node",
    "lua", "php", "Rscript", "julia", "tclsh",
];

/// Whether a process of this name runs scripts.
pub fn is_interpreter(comm: &str) -> bool {
    let version = |rest: &str| rest.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    INTERPRETERS.iter().any(|name| comm.strip_prefix(name).is_some_and(version))
}

/// Programs that run a virtual machine: people know the machine's name.
const EMULATORS: &[&str] = &["qemu-system-", "qemu-kvm"];

/// The name that people use for the program of a process whose comm is `comm`. An interpreter is named after
/// its script, a virtual machine after its guest. A program that runs from a file in memory has the name of
/// that file, which says nothing (`memfd:sealed`, or a descriptor's number). So it is named after its
/// command. A corun process is named after its verb, such as `corun load`; so is the one that watches.
pub fn name(root: &Root, pid: u32, comm: &str) -> String {
    let is_number = !comm.is_empty() && comm.bytes().all(|b| b.is_ascii_digit());
    let is_in_memory = || {
        let program = std::fs::read_link(root.path(format!("/proc/{pid}/exe")));
        program.is_ok_and(|program| program.to_string_lossy().starts_with("/memfd:"))
    };
    let words = || command_line(root, pid).unwrap_or_default();
    let better = if comm == "corun" {
        let verb = words().into_iter().skip(1).find(|word| !word.starts_with('-'));
        let is_verb = |word: &String| word.bytes().all(|b| b.is_ascii_lowercase());
        verb.filter(is_verb).map(|verb| format!("corun {verb}"))
    } else if is_interpreter(comm) {
        script(&words())
    } else if EMULATORS.iter().any(|name| comm.starts_with(name)) {
        guest(&words())
    } else if comm.trim().is_empty() {
        // It has removed its own name.
        words().first().and_then(|first| base(first))
    } else if comm.starts_with("memfd:") || is_number && is_in_memory() {
        words().first().and_then(|first| base(first)).filter(|name| !name.starts_with("memfd:"))
    } else {
        None
    };
    better.unwrap_or_else(|| comm.to_owned())
}

/// The process that gives a job its name, and its comm: that of the program which the leader was told to run.
/// A leader such as `timeout`, `sudo` or `strace` only waits for a child, and its own command line ends with
/// the child's.
pub fn wrapped_program(
    root: &Root,
    leader: u32,
    children: impl Fn(u32) -> Vec<u32>,
) -> Option<(u32, String)> {
    let mut found: Option<(u32, String)> = None;
    for _ in 0..DEEPEST {
        let pid = found.as_ref().map_or(leader, |(pid, _)| *pid);
        let next = children(pid).into_iter().take(MOST_CHILDREN);
        let mut next =
            next.filter_map(|child| Some((child, procfs::process_stat(root, child).ok()?.comm))).peekable();
        // Most have no child, so their command is not read.
        if next.peek().is_none() {
            break;
        }
        let command = command_line(root, pid).unwrap_or_default();
        let is_it = |child: &(u32, String)| {
            ends_with(&command, &command_line(root, child.0).unwrap_or_default(), &child.1)
        };
        match next.find(is_it) {
            Some(child) => found = Some(child),
            None => break,
        }
    }
    found
}

/// Whether a command ends with the command of a program with this name. A script is started with its
/// interpreter in front, and has its own name.
fn ends_with(command: &[String], started: &[String], comm: &str) -> bool {
    let is_script = |words: &&[String]| {
        words
            .first()
            .and_then(|word| base(word))
            .is_some_and(|name| !comm.is_empty() && name.starts_with(comm))
    };
    let as_script = (1..started.len().min(3)).map(|at| &started[at..]).find(is_script);
    let is_end =
        |words: &[String]| !words.is_empty() && words.len() < command.len() && command.ends_with(words);
    is_end(started) || as_script.is_some_and(is_end)
}

/// The command of a process; empty if it cannot be read.
pub fn command(root: &Root, pid: u32) -> Vec<String> {
    command_line(root, pid).unwrap_or_default()
}

/// Whether a command tells its program to run one with this name: `nohup nice ./job` does so with `nice` and
/// with `job`.
pub fn is_told(command: &[String], comm: &str) -> bool {
    /// The kernel keeps this much of a name.
    const LONGEST: usize = 15;
    let is_it = |name: String| name == comm || comm.len() == LONGEST && name.starts_with(comm);
    !comm.is_empty() && command.iter().skip(1).filter_map(|word| base(word)).any(is_it)
}

/// Whether a command, which may be the end of another one, starts an interpreter with this name and a script.
pub fn has_script(command: &[String], interpreter: &str) -> bool {
    let is_its = |word: &String| base(word).is_some_and(|name| name == interpreter);
    command.iter().position(is_its).is_some_and(|at| script(&command[at..]).is_some())
}

/// The children of a process's first thread; none if the kernel does not list them.
pub fn children(root: &Root, pid: u32) -> Vec<u32> {
    let listed = root.read(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    listed.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

fn base(path: &str) -> Option<String> {
    path.rsplit('/').next().filter(|name| !name.is_empty()).map(str::to_owned)
}

/// The script that an interpreter was started with; `None` if its text came from elsewhere (`-c`, standard
/// input).
fn script(command: &[String]) -> Option<String> {
    const TAKE_A_VALUE: &[&str] = &["-o", "+o", "-O", "+O", "-W", "-X", "-I", "-r"];
    let mut words = command.iter().skip(1);
    while let Some(word) = words.next() {
        match word.as_str() {
            "-" => return None,
            "--" => return base(words.next()?),
            "-m" => return words.next().cloned(),
            value if TAKE_A_VALUE.contains(&value) => drop(words.next()),
            long if long.starts_with("--") => {}
            // `-c`, `-lc`: the text itself follows.
            short if short.starts_with('-') && short.contains(['c', 'e']) => return None,
            short if short.starts_with(['-', '+']) => {}
            script => return base(script).filter(|_| !is_stream(script)),
        }
    }
    None
}

/// The name of QEMU's guest: `-name vm1,debug-threads=on` or `-name guest=vm1,process=x`. Options are
/// separated by commas; a doubled comma is a literal one.
pub fn guest(command: &[String]) -> Option<String> {
    let at = command.iter().position(|a| a == "-name" || a == "--name")?;
    let value = command.get(at + 1)?.replace(",,", "\0");
    let name = value.split(',').enumerate().find_map(|(i, option)| match option.split_once('=') {
        Some(("guest", name)) => Some(name),
        None if i == 0 => Some(option),
        _ => None,
    })?;
    (!name.is_empty()).then(|| name.replace('\0', ","))
}

/// Whether a path names an open file, as in `bash <(…)`: such a path says nothing.
fn is_stream(path: &str) -> bool {
    path.starts_with("/dev/fd/")
        || path == "/dev/stdin"
        || path.starts_with("/proc/") && path.contains("/fd/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interpreter_is_named_after_its_script_if_it_has_one() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path());
        std::fs::create_dir_all(root.path("/proc/1")).unwrap();
        for (comm, words, called) in [
            ("bash", &["bash", "/opt/ci/build.sh", "all"][..], "build.sh"),
            ("bash", &["bash", "-eu", "-c", "make; make test"], "bash"),
            ("bash", &["bash", "-x", "-o", "pipefail", "build.sh"], "build.sh"),
            ("bash", &["-bash"], "bash"),
            ("sh", &["sh", "-lc", "exec job"], "sh"),
            ("python3.11", &["python3.11", "-u", "train.py", "--epochs", "3"], "train.py"),
            ("python3", &["python3", "-m", "http.server"], "http.server"),
            ("perl", &["perl", "-e", "1 while 1"], "perl"),
            ("qemu-system-x86", &["qemu-system-x86_64", "-name", "guest=web1", "-m", "512"], "web1"),
            ("qemu-system-x86", &["qemu-system-x86_64", "-m", "512"], "qemu-system-x86"),
            ("node", &["node", "--max-old-space-size=4096", "server.js"], "server.js"),
            ("sh", &["sh", "-"], "sh"),
            ("bash", &["bash", "/dev/fd/63", "all"], "bash"),
            ("sh", &["sh", "/proc/self/fd/3"], "sh"),
            ("bash", &["bash", "/dev/stdin"], "bash"),
            ("build.sh", &["/bin/bash", "./build.sh"], "build.sh"),
            ("shuf", &["shuf", "words"], "shuf"),
            ("make", &["make", "all"], "make"),
        ] {
            std::fs::write(root.path("/proc/1/cmdline"), words.join("\0") + "\0").unwrap();
            assert_eq!(name(&root, 1, comm), called, "{words:?}");
        }
        assert_eq!(name(&root, 2, "bash"), "bash", "it has gone");
    }

    #[test]
    fn a_program_that_removed_its_own_name_is_named_after_its_command() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path());
        std::fs::create_dir_all(root.path("/proc/1")).unwrap();
        std::fs::write(root.path("/proc/1/cmdline"), "/opt/worker\0--all\0").unwrap();
        for (comm, called) in [("", "worker"), ("   ", "worker"), ("\n", "worker"), ("x", "x")] {
            assert_eq!(name(&root, 1, comm), called, "{comm:?}");
        }
        assert_eq!(name(&root, 2, ""), "", "it has gone");
    }

    #[test]
    fn a_command_tells_its_program_to_run_what_its_later_words_name() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let command = words("nohup nice -n 5 /opt/a-job-with-a-long-name x");
        for (comm, told) in
            [("nice", true), ("a-job-with-a-lo", true), ("nohup", false), ("a-job", false), ("", false)]
        {
            assert_eq!(is_told(&command, comm), told, "{comm}");
        }
        let scripts = [
            ("bash run.sh", true),
            ("corun verify -- bash -x run.sh", true),
            ("bash -c x", false),
            ("make all", false),
        ];
        for (command, has) in scripts {
            assert_eq!(has_script(&words(command), "bash"), has, "{command}");
        }
    }

    /// A chain of processes: the leader, its child, and so on; each with its comm and command line.
    fn line(of: &[(&str, &[&str])]) -> (tempfile::TempDir, Root) {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path());
        for (n, (comm, words)) in of.iter().enumerate() {
            let (pid, child) = (n + 1, n + 2);
            let proc = root.path(format!("/proc/{pid}"));
            std::fs::create_dir_all(proc.join(format!("task/{pid}"))).unwrap();
            std::fs::write(proc.join("cmdline"), words.join("\0") + "\0").unwrap();
            let fields = " 0".repeat(45);
            std::fs::write(proc.join("stat"), format!("{pid} ({comm}) S {n} 1 1{fields}\n")).unwrap();
            let children = if child <= of.len() { format!("{child} ") } else { String::new() };
            std::fs::write(proc.join(format!("task/{pid}/children")), children).unwrap();
        }
        (folder, root)
    }

    #[test]
    fn a_job_is_named_after_the_program_that_its_leader_was_told_to_run() {
        type Line<'a> = &'a [(&'a str, &'a [&'a str])];
        let table: &[(Line, &str)] = &[
            (&[("timeout", &["timeout", "60", "./job", "2"]), ("job", &["./job", "2"])], "job"),
            (&[("sudo", &["sudo", "-u", "me", "job"]), ("job", &["job"])], "job"),
            (&[("strace", &["strace", "-f", "-o", "log", "job", "-v"]), ("job", &["job", "-v"])], "job"),
            (
                &[
                    ("sudo", &["sudo", "timeout", "60", "make", "all"]),
                    ("timeout", &["timeout", "60", "make", "all"]),
                    ("make", &["make", "all"]),
                    ("sh", &["sh", "-c", "cc x.c"]),
                ],
                "make",
            ),
            // A script has its interpreter in front.
            (
                &[
                    ("timeout", &["timeout", "9", "./run.sh", "x"]),
                    ("run.sh", &["/bin/bash", "./run.sh", "x"]),
                ],
                "run.sh",
            ),
            (&[("timeout", &["timeout", "9", "bash", "run.sh"]), ("bash", &["bash", "run.sh"])], "run.sh"),
            (&[("with-env.sh", &["bash", "with-env.sh", "server"]), ("server", &["server"])], "server"),
            (
                &[
                    ("timeout", &["timeout", "9", "bash", "-c", "job"]),
                    ("bash", &["bash", "-c", "job"]),
                    ("job", &["job"]),
                ],
                "job",
            ),
            (
                &[
                    ("timeout", &["timeout", "9", "bash", "-c", "job 1; job 2"]),
                    ("bash", &["bash", "-c", "job 1; job 2"]),
                    ("job", &["job", "1"]),
                ],
                "bash",
            ),
            // A program that decides by itself what to run is the job.
            (&[("make", &["make", "all"]), ("sh", &["sh", "-c", "all"])], "make"),
            (&[("nginx", &["nginx: master process"]), ("nginx", &["nginx: worker process"])], "nginx"),
            (&[("server", &["server", "-p", "80"]), ("server", &["server", "-p", "80"])], "server"),
            (&[("cargo", &["cargo", "build"]), ("rustc", &["rustc", "--crate-name", "x"])], "cargo"),
            (&[("daemon", &["daemon"]), ("kid", &[""])], "daemon"),
        ];
        for (line_of, called) in table {
            let (_folder, root) = line(line_of);
            let (pid, comm) =
                wrapped_program(&root, 1, |pid| children(&root, pid)).unwrap_or((1, line_of[0].0.to_owned()));
            assert_eq!(name(&root, pid, &comm), *called, "{line_of:?}");
        }
    }

    #[test]
    fn a_program_in_memory_is_named_after_its_command() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path());
        let process = |pid: u32, program: &str, line: &str| {
            let proc = root.path(format!("/proc/{pid}"));
            std::fs::create_dir_all(&proc).unwrap();
            std::os::unix::fs::symlink(program, proc.join("exe")).unwrap();
            std::fs::write(proc.join("cmdline"), line).unwrap();
        };
        process(1, "/memfd:sealed-91 (deleted)", "/usr/bin/agent\0--all\0");
        process(2, "/usr/bin/42", "42\0");
        process(3, "/memfd:x (deleted)", "");
        process(5, "/usr/bin/corun", "corun\0-q\0load\0persistent\0");
        process(6, "/usr/bin/corun", "corun\0--help\0");
        assert_eq!(name(&root, 5, "corun"), "corun load");
        assert_eq!([6, 7].map(|pid| name(&root, pid, "corun")), ["corun", "corun"]);
        assert_eq!(name(&root, 1, "memfd:sealed-91"), "agent");
        assert_eq!(name(&root, 1, "5"), "agent", "older kernels tell the descriptor's number");
        assert_eq!(name(&root, 1, "its-own-name"), "its-own-name");
        assert_eq!(name(&root, 2, "42"), "42");
        assert_eq!(name(&root, 3, "memfd:x"), "memfd:x");
        assert_eq!(name(&root, 4, "memfd:gone"), "memfd:gone");
    }
}
