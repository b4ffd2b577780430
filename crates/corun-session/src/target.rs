//! The target of a session.

use crate::error::Error;
use crate::stop::Stop;
use corun_linux::launch::{Held, Running};
use corun_linux::namespaces;
use corun_linux::target::Subject;
use corun_linux::watcher::WatchError;
use corun_linux::Root;
use corun_model::TaskId;
use std::ffi::OsString;
use std::process::Command;

/// The target of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A command to run, with its arguments: it is followed from its first instruction, with everything that
    /// it starts.
    Command(Vec<OsString>),
    /// Processes that already run, with all their threads and descendants.
    Processes(Vec<u32>),
    /// A cgroup: its path, the end of it, or the name of a unit, container, pod or Slurm step.
    Cgroup(String),
    /// A virtual machine: its name, or the PID of its QEMU.
    Vm(String),
    /// Everybody on the machine.
    Everybody,
}

impl Target {
    /// A command to run, with its arguments.
    pub fn command<Word: Into<OsString>>(words: impl IntoIterator<Item = Word>) -> Target {
        Target::Command(words.into_iter().map(Into::into).collect())
    }

    /// The target in words.
    fn description(&self, root: &Root) -> String {
        match self {
            Target::Command(words) => command_line(words),
            Target::Processes(pids) => {
                let once = |(n, pid): &(usize, &u32)| !pids[..*n].contains(pid);
                let list: Vec<String> =
                    pids.iter().enumerate().filter(once).map(|(_, pid)| pid.to_string()).collect();
                format!("pid {}", list.join(", "))
            }
            Target::Cgroup(name) => format!("cgroup {name}"),
            Target::Vm(name) => format!("vm {name}"),
            Target::Everybody => match namespaces::has_own_pids(root) {
                true => "everybody in this PID namespace, not on the whole machine".into(),
                false => "everybody".into(),
            },
        }
    }

    /// Finds the subject. A command is started, but held before its first instruction.
    ///
    /// # Errors
    /// [`Error::Usage`] if there is no such target; another error if it cannot be looked up or started.
    pub fn arm(&self, root: &Root) -> Result<Armed, Error> {
        let names_who_runs = matches!(self, Target::Processes(_) | Target::Cgroup(_) | Target::Vm(_));
        if let Some(mismatch) = namespaces::no_own_proc(root).filter(|_| names_who_runs) {
            return Err(WatchError::Proc(mismatch).into());
        }
        let (subject, held) = match self {
            Target::Command(words) => {
                let Some((program, arguments)) = words.split_first() else {
                    return Err(Error::Usage("the command is empty; name a program".into()));
                };
                let mut command = Command::new(program);
                command.args(arguments);
                return Armed::of_command(command);
            }
            Target::Processes(pids) => (Subject::processes(root, pids)?.with_family(root)?, None),
            Target::Cgroup(name) => (Subject::cgroup(root, name)?, None),
            Target::Vm(name) => (Subject::vm(root, name)?, None),
            Target::Everybody => (Subject::All, None),
        };
        let is_deserted = subject.is_deserted(root);
        Ok(Armed { subject, description: self.description(root), held, is_deserted })
    }
}

/// Makes the process of a command, and holds it before its first instruction.
///
/// # Errors
/// If there is no such command, or no more processes are possible. [`release`] reports a file that cannot be
/// executed.
pub fn hold(command: Command) -> Result<(Subject, Held), Error> {
    let program = command.get_program().to_string_lossy().into_owned();
    let held = Held::start(command)?;
    Ok((Subject::command(held.pid(), &program), held))
}

/// A command line for people.
pub fn command_line(words: &[OsString]) -> String {
    let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
    words.join(" ")
}

/// A target that was found; its command, if it is one, waits for its watcher.
pub struct Armed {
    /// The subject.
    pub subject: Subject,
    /// The target in words.
    pub description: String,
    /// The command, not yet begun.
    pub held: Option<Held>,
    /// Whether it is an empty cgroup.
    pub is_deserted: bool,
}

impl Armed {
    /// A command with its environment and its files. It is started, but held before its first instruction.
    ///
    /// # Errors
    /// As [`hold`].
    pub fn of_command(command: Command) -> Result<Armed, Error> {
        let words = [command.get_program()].into_iter().chain(command.get_args());
        let description = command_line(&words.map(OsString::from).collect::<Vec<_>>());
        let (subject, held) = hold(command)?;
        Ok(Armed { subject, description, held: Some(held), is_deserted: false })
    }

    /// The command's first task, if the target is a command.
    pub fn first_task(&self) -> Option<TaskId> {
        self.held.as_ref().map(|held| TaskId(held.pid()))
    }
}

/// Lets a held command begin.
///
/// # Errors
/// [`Error::Stopped`] if a stop was already requested: the command would not receive it, and go on by itself.
/// Another error if it cannot be executed.
pub fn release(held: Held, stop: &Stop) -> Result<Running, Error> {
    if stop.is_asked() {
        // Dropped, it has never begun.
        return Err(Error::Stopped { signal: stop.signal() });
    }
    Ok(held.release()?)
}

/// The PID in a tenant's name (`4711`, `pid:4711`), if there is one.
pub fn pid(name: &str) -> Option<u32> {
    name.strip_prefix("pid:").unwrap_or(name).parse().ok()
}

/// The PIDs among the names of tenants. Each stands for that process with its threads and descendants.
pub fn pids(names: &[String]) -> Vec<u32> {
    names.iter().filter_map(|name| pid(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_name_is_the_callers_mistake_with_a_remedy() {
        let root = Root::new("/");
        let nobody = Target::Processes(vec![u32::MAX >> 1]).arm(&root).err().unwrap();
        assert!(nobody.is_usage() && nobody.to_string().contains("`ps -e` lists them"), "{nobody}");
        assert!(Target::Command(Vec::new()).arm(&root).err().unwrap().is_usage());
        for absent in ["no-such-command", "./no-such-command"] {
            let refused = Target::command([absent]).arm(&root).err().unwrap();
            assert!(refused.is_usage() && refused.to_string().contains(absent), "{refused}");
        }
        // A file that exists and is no program is noticed when it is to run.
        let folder = tempfile::tempdir().unwrap();
        let no_program = folder.path().join("notes.txt");
        std::fs::write(&no_program, "").unwrap();
        let armed = Target::command([&no_program]).arm(&root).unwrap();
        let refused = release(armed.held.unwrap(), &Stop::new()).err().unwrap();
        assert!(refused.is_usage(), "{refused}");
    }

    #[test]
    fn a_command_never_runs_if_a_stop_came_first() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ran");
        let armed = Target::command(["touch".as_ref(), file.as_os_str()]).arm(&Root::new("/")).unwrap();
        let stop = Stop::new();
        stop.stop();
        let refused = release(armed.held.unwrap(), &stop).err().unwrap();
        assert!(matches!(refused, Error::Stopped { signal: None }));
        assert!(!file.exists());
    }

    #[test]
    fn a_tenant_is_named_by_a_pid_or_not() {
        assert_eq!(pids(&["12".into(), "pid:13".into(), "pgid:14".into(), "web".into()]), [12, 13]);
    }
}
