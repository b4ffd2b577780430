//! The target and the source, in the user's words on the command line: the same flags for every verb that
//! watches.

use crate::pid;
use crate::usage::Usage;
use crate::values;
use corun_linux::watcher::Source;
use corun_session::counting::CountedUnit;
use corun_session::Target;
use std::ffi::OsString;

/// The target: exactly one of these.
#[derive(Debug, clap::Args)]
#[group(id = "Target", multiple = false)]
pub struct TargetFlags {
    /// A running process, with all its threads and descendants; several with commas
    #[arg(short, long, value_name = "PID", value_delimiter = ',', value_parser = pid::watched())]
    pid: Option<Vec<u32>>,
    /// A cgroup: its path, the end of it, or the name of a unit, container, pod or Slurm step
    #[arg(long, value_name = "NAME", value_parser = values::name())]
    cgroup: Option<String>,
    /// A virtual machine: its name, or the PID of its QEMU
    #[arg(long, value_name = "NAME", value_parser = values::name())]
    vm: Option<String>,
    /// Everybody on the machine
    #[arg(long)]
    all: bool,
    /// A command to run and watch
    #[arg(last = true, value_name = "CMD")]
    command: Option<Vec<OsString>>,
}

/// The possible targets of a verb.
pub const ANYBODY: &str = "-p PID|--cgroup NAME|--vm NAME|-- CMD...";
/// The same for a verb that can also be about everybody.
pub const ANYBODY_OR_ALL: &str = "-p PID|--cgroup NAME|--vm NAME|--all|-- CMD...";

/// The same for a verb that records.
pub const RECORDED: &str = "-p PID|--cgroup NAME|-- CMD...";

/// The usage of a verb with these flags: clap's own line leaves out the dashes before a command.
pub fn usage(verb: &str, whom: &str) -> String {
    format!("corun {verb} [OPTIONS] <{whom}>")
}

impl TargetFlags {
    /// Whether it is a command to run.
    pub fn is_command(&self) -> bool {
        self.command.is_some()
    }

    /// The words of the command to run, if it is one.
    pub fn command(&self) -> Option<&[OsString]> {
        self.command.as_deref()
    }

    /// The tenant of a past time; `None`: everybody.
    ///
    /// # Errors
    /// A ring does not know the named target.
    pub fn of_past(self) -> Result<Option<String>, Usage> {
        match self {
            TargetFlags { pid: Some(_), .. } => {
                Err(Usage("a ring keeps tenants, not single processes; name one with --tenant".into()))
            }
            TargetFlags { command: Some(_), .. } => Err(Usage(
                "--from reads what has passed; a command would run now: drop one of the two".into(),
            )),
            TargetFlags { cgroup, vm, .. } => Ok(cgroup.or(vm)),
        }
    }

    /// The target, out of `whom` the verb can be about.
    ///
    /// # Errors
    /// None was named.
    pub fn target(self, whom: &str) -> Result<Target, Usage> {
        match self {
            TargetFlags { pid: Some(pids), .. } => Ok(Target::Processes(pids)),
            TargetFlags { cgroup: Some(name), .. } => Ok(Target::Cgroup(name)),
            TargetFlags { vm: Some(name), .. } => Ok(Target::Vm(name)),
            TargetFlags { command: Some(words), .. } => Ok(Target::Command(words)),
            TargetFlags { all: true, .. } => Ok(Target::Everybody),
            _ => Err(Usage(format!("name whom to watch: {whom}"))),
        }
    }
}

/// The message once an empty cgroup is watched.
pub fn deserted(target: &str) -> String {
    format!("corun: {target} is empty; processes that come will be watched")
}

/// How to see.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub enum SourceFlag {
    Auto,
    Ebpf,
    Schedstat,
}

impl SourceFlag {
    /// The requested source; `None`: the best one.
    pub fn wanted(self) -> Option<Source> {
        match self {
            SourceFlag::Auto => None,
            SourceFlag::Ebpf => Some(Source::Ebpf),
            SourceFlag::Schedstat => Some(Source::Schedstat),
        }
    }
}

/// The unit of counting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum CountersFlag {
    /// Each task by itself
    Tasks,
    /// A CMD with everything that it starts, including tasks that live shorter than a window
    Whole,
}

impl CountersFlag {
    /// For a session.
    pub fn unit(self) -> CountedUnit {
        match self {
            CountersFlag::Tasks => CountedUnit::Task,
            CountersFlag::Whole => CountedUnit::WholeCommand,
        }
    }
}
