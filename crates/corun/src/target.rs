//! Whom to watch, as a user names it on the command line: the same flags for every verb that watches.

use crate::spoken;
use crate::usage::{Stopped, Usage};
use anyhow::Context;
use corun_linux::interrupt::Interrupt;
use corun_linux::launch::{Held, Running};
use corun_linux::namespaces;
use corun_linux::target::{Subject, TargetError};
use corun_linux::watcher::Source;
use corun_linux::Root;
use std::ffi::OsString;
use std::process::Command;

/// Whom to watch: exactly one of these.
#[derive(Debug, clap::Args)]
#[group(multiple = false)]
pub struct Target {
    /// A running process, with all its threads and descendants; several with commas
    #[arg(short, long, value_name = "PID", value_delimiter = ',')]
    pid: Option<Vec<u32>>,
    /// A cgroup: its path, the end of it, or the name of a unit, container, pod or Slurm step
    #[arg(long, value_name = "NAME", value_parser = spoken::name())]
    cgroup: Option<String>,
    /// A virtual machine: its name, or the PID of its QEMU
    #[arg(long, value_name = "NAME", value_parser = spoken::name())]
    vm: Option<String>,
    /// Everybody on the machine
    #[arg(long)]
    all: bool,
    /// A command to run and watch
    #[arg(last = true, value_name = "CMD")]
    command: Option<Vec<OsString>>,
}

/// Whom a verb can be about.
pub const ANYBODY: &str = "-p PID|--cgroup NAME|--vm NAME|-- CMD...";
/// The same for a verb that can be about everybody as well.
pub const ANYBODY_OR_ALL: &str = "-p PID|--cgroup NAME|--vm NAME|--all|-- CMD...";

/// How a verb with these flags is used: clap's own line leaves out the dashes before a command.
pub fn usage(verb: &str, whom: &str) -> String {
    format!("corun {verb} [OPTIONS] <{whom}>")
}

/// A subject, and the command that is held until the watcher is armed.
pub struct Armed {
    /// Whom.
    pub subject: Subject,
    /// As the user named it.
    pub target: String,
    /// The command, not yet begun.
    pub held: Option<Held>,
    /// To be said once the watcher watches, and not before: that nobody is there yet.
    pub deserted: Option<String>,
}

impl Target {
    /// Whether it is a command to run.
    pub fn is_command(&self) -> bool {
        self.command.is_some()
    }

    /// Finds the subject, of `whom` the verb can be about; a command is started, but held before its first instruction.
    pub fn arm(self, root: &Root, whom: &str) -> anyhow::Result<Armed> {
        let named = |subject: Result<Subject, TargetError>, target: String| match subject {
            Ok(subject) => {
                let deserted = subject
                    .is_deserted(root)
                    .then(|| format!("corun: nobody is in {target} yet; who comes will be watched"));
                Ok(Armed { subject, target, held: None, deserted })
            }
            Err(TargetError::Read(e)) => Err(anyhow::Error::from(e)),
            Err(e) => Err(Usage(e.to_string()).into()),
        };
        match self {
            Target { pid: Some(pids), .. } => {
                let once = |(n, pid): &(usize, &u32)| !pids[..*n].contains(pid);
                let list: Vec<String> =
                    pids.iter().enumerate().filter(once).map(|(_, pid)| pid.to_string()).collect();
                named(Subject::processes(root, &pids), format!("pid {}", list.join(", ")))
            }
            Target { cgroup: Some(name), .. } => {
                named(Subject::cgroup(root, &name), format!("cgroup {name}"))
            }
            Target { vm: Some(name), .. } => named(Subject::vm(root, &name), format!("vm {name}")),
            Target { command: Some(argv), .. } => {
                let (program, arguments) = argv.split_first().context("the command is empty")?;
                let mut command = Command::new(program);
                command.args(arguments);
                let held = Held::start(command)?;
                let subject = Subject::command(held.pid(), &program.to_string_lossy());
                Ok(Armed { subject, target: spoken::line(&argv), held: Some(held), deserted: None })
            }
            Target { all: true, .. } => {
                let target = match namespaces::has_own_pids(root) {
                    true => "everybody in this PID namespace, not on the whole machine",
                    false => "everybody",
                };
                Ok(Armed { subject: Subject::All, target: target.into(), held: None, deserted: None })
            }
            _ => Err(Usage(format!("name whom to watch: {whom}")).into()),
        }
    }
}

/// Those tenants that are named by a PID (`4711`, `pid:4711`): each is that process with its threads and descendants.
pub fn pids(named: &[String]) -> Vec<u32> {
    named.iter().filter_map(|name| pid(name)).collect()
}

/// The PID that a tenant is named by, if it is.
pub fn pid(name: &str) -> Option<u32> {
    name.strip_prefix("pid:").unwrap_or(name).parse().ok()
}

/// Lets a command that was held begin. A command that cannot be executed is the user's mistake.
pub fn release(held: Held, interrupt: Interrupt) -> anyhow::Result<Running> {
    if interrupt.came() {
        // It would not hear of the signal any more, and go on by itself; dropped, it has never begun.
        return Err(Stopped(interrupt.exit_status()).into());
    }
    held.release().map_err(|e| if e.is_usage() { Usage(e.to_string()).into() } else { e.into() })
}

/// How to see.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub enum SourceFlag {
    Auto,
    Ebpf,
    Schedstat,
}

impl SourceFlag {
    /// The source that was asked for; `None`: the best there is.
    pub fn wanted(self) -> Option<Source> {
        match self {
            SourceFlag::Auto => None,
            SourceFlag::Ebpf => Some(Source::Ebpf),
            SourceFlag::Schedstat => Some(Source::Schedstat),
        }
    }
}
