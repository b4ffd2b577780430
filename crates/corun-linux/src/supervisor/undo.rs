//! One change, recorded as its undo: a line of the journal, and the action.
//!
//! A line names the task by its TID and start time, so that a later task with the same number is left alone.
//! Every undo can safely be done twice. If the target has gone, it counts as done.

use crate::root::Root;
use crate::sched::{self, Attributes};
use crate::{cpulist, freezer, procfs};
use corun_model::CpuId;
use std::fmt;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::PathBuf;

/// What undoes one change.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Undo {
    /// Thaws a cgroup that was not frozen before.
    Thaw(PathBuf),
    /// Thaws a transient cgroup, returns its processes and removes it.
    Dissolve(PathBuf),
    /// Continues a process that was not stopped before.
    Continue(Task),
    /// Returns a task to its previous values.
    Task(Task, Aspect),
    /// Writes a control file's former value back.
    File {
        /// The file.
        path: PathBuf,
        /// The previous content.
        was: String,
    },
    /// Returns a session's autogroup to its nice value, through any live process of it.
    Autogroup {
        /// The autogroup's number.
        id: u64,
        /// Its previous nice value.
        was: i32,
    },
}

/// A task and its relations, which show what inherited from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Task {
    /// The task.
    pub tid: u32,
    /// When it started, since boot, to a tick.
    pub start_ns: u64,
    /// Its process.
    pub pid: u32,
    /// Its process group.
    pub pgid: u32,
}

/// The changed aspect of a task.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Aspect {
    /// Its slice; 0 for the kernel's default.
    Slice {
        /// The previous value, in nanoseconds.
        was_ns: u64,
    },
    /// Its policy became SCHED_BATCH.
    Batch {
        /// The previous value.
        was: u32,
    },
    /// Its nice value.
    Nice {
        /// The previous value.
        was: i32,
        /// The new value.
        set: i32,
    },
    /// Its CPUs.
    Cpus {
        /// The previous CPUs; `None` for all.
        was: Option<Vec<CpuId>>,
        /// What they became.
        set: Vec<CpuId>,
    },
}

impl Undo {
    /// Undoes the change.
    ///
    /// # Errors
    /// The kernel's error, unless it says that the target has gone.
    pub fn perform(&self, root: &Root) -> io::Result<()> {
        let done = match self {
            Undo::Thaw(folder) => freezer::set_frozen(folder, false),
            Undo::Dissolve(folder) => freezer::dissolve(folder),
            Undo::Continue(task) => send(root, task, libc::SIGCONT),
            Undo::Task(task, aspect) => match is_still(root, task) {
                Ok(true) => aspect.restore(task.tid),
                other => other.map(|_| ()),
            },
            Undo::File { path, was } => freezer::write_file(path, was),
            Undo::Autogroup { id, was } => restore_autogroup(root, *id, *was),
        };
        match done {
            Err(e) if is_gone(&e) => Ok(()),
            other => other,
        }
    }

    /// Whether the target has gone, so that nothing has to be undone.
    pub fn is_over(&self, root: &Root) -> bool {
        match self {
            Undo::Thaw(path) | Undo::Dissolve(path) | Undo::File { path, .. } => {
                std::fs::metadata(path).is_err_and(|e| is_gone(&e))
            }
            Undo::Continue(task) | Undo::Task(task, _) => {
                is_still(root, task).is_ok_and(|is_still| !is_still)
            }
            Undo::Autogroup { id, .. } => {
                with_autogroup(root, *id, |_| Ok(())).is_ok_and(|found| found.is_none())
            }
        }
    }

    /// The part of an undo that lets a task run again, if there is one: this part is done first for all
    /// changes.
    ///
    /// # Errors
    /// The kernel's error, unless it says that the target has gone.
    pub fn release(&self, root: &Root) -> io::Result<()> {
        match self {
            Undo::Dissolve(folder) => Undo::Thaw(folder.clone()).perform(root),
            Undo::Thaw(_) | Undo::Continue(_) => self.perform(root),
            Undo::Task(..) | Undo::File { .. } | Undo::Autogroup { .. } => Ok(()),
        }
    }
}

impl Aspect {
    /// The kind of change, in a word.
    pub fn name(&self) -> &'static str {
        match self {
            Aspect::Slice { .. } => "slice",
            Aspect::Batch { .. } => "batch",
            Aspect::Nice { .. } => "nice",
            Aspect::Cpus { .. } => "cpus",
        }
    }

    /// Returns a task to its previous value of this aspect.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn restore(&self, tid: u32) -> io::Result<()> {
        let now = match self {
            Aspect::Cpus { was, .. } => return sched::set_affinity(tid, was.as_deref()),
            // Even for a task that is real-time by now: the nice value applies again when it is not any more.
            Aspect::Nice { was, .. } => return sched::set_nice(tid, *was),
            Aspect::Slice { .. } | Aspect::Batch { .. } => sched::attributes(tid)?,
        };
        // The kernel also reports a slice for a task that has none of its own; writing it back must leave the
        // task without one.
        let own = |a: &Attributes| if a.slice_ns == default_slice_ns() { 0 } else { a.slice_ns };
        let then = match *self {
            Aspect::Slice { was_ns } if now.is_fair() => Attributes { slice_ns: was_ns, ..now },
            Aspect::Batch { was } if now.policy == libc::SCHED_BATCH as u32 => {
                Attributes { policy: was, slice_ns: own(&now), ..now }
            }
            // It has chosen another policy since, and keeps that.
            _ => return Ok(()),
        };
        sched::set_attributes(tid, &then)
    }

    /// Whether an unchanged task that was born to the changed one shows that it inherited the change.
    pub fn is_inherited_by(&self, tid: u32) -> bool {
        let attributes = || sched::attributes(tid).ok().filter(Attributes::is_fair);
        match self {
            // Hardly any program sets its own slice, so one that differs from the kernel's is inherited.
            Aspect::Slice { was_ns } => {
                attributes().is_some_and(|a| a.slice_ns != default_slice_ns() && a.slice_ns != *was_ns)
            }
            Aspect::Batch { was } => {
                attributes().is_some_and(|a| a.policy == libc::SCHED_BATCH as u32 && a.policy != *was)
            }
            Aspect::Nice { was, set } => attributes().is_some_and(|a| a.nice == *set && set != was),
            Aspect::Cpus { set, .. } => sched::affinity(tid).is_ok_and(|cpus| cpus == *set),
        }
    }
}

/// The slice of a task that was given none; 0 if this kernel has no slice per task. It is read from the
/// calling thread, which has no slice of its own at that moment, so that no thread need be started while a
/// tenant is parked. So the first caller must be an ordinary thread. For a real-time thread the kernel does
/// not say, and the next call tries again.
pub fn default_slice_ns() -> u64 {
    use std::sync::OnceLock;
    static DEFAULT: OnceLock<u64> = OnceLock::new();
    if let Some(known) = DEFAULT.get() {
        return *known;
    }
    let Some(before) = sched::attributes(0).ok().filter(Attributes::is_fair) else { return 0 };
    // If that is refused, it has its previous value, which is as good a guess as any.
    let _ = sched::set_attributes(0, &Attributes { slice_ns: 0, ..before });
    let slice_ns = sched::attributes(0).map_or(0, |a| a.slice_ns);
    if before.slice_ns != slice_ns {
        let _ = sched::set_attributes(0, &before);
    }
    *DEFAULT.get_or_init(|| slice_ns)
}

/// Whether the task is still the one that was changed.
///
/// # Errors
/// If that cannot be determined: its entry in `/proc` exists and cannot be read.
pub fn is_still(root: &Root, task: &Task) -> io::Result<bool> {
    procfs::lives(root, task.tid, task.start_ns).map_err(io::Error::other)
}

fn restore_autogroup(root: &Root, id: u64, was: i32) -> io::Result<()> {
    let write = |pid| freezer::write_file(&root.path(format!("/proc/{pid}/autogroup")), &was.to_string());
    with_autogroup(root, id, write).map(|_| ())
}

/// Applies an operation to one process of an autogroup that lives long enough; `None` if there is none. A
/// process that may not be read does not help. A process that could not be read may belong to this autogroup.
fn with_autogroup<T>(
    root: &Root,
    id: u64,
    mut act: impl FnMut(u32) -> io::Result<T>,
) -> io::Result<Option<T>> {
    let mut unknown = None;
    for pid in procfs::processes(root).map_err(io::Error::other)? {
        match procfs::autogroup(root, pid) {
            Ok(Some(group)) if group.id == id => match act(pid) {
                Err(e) if is_gone(&e) => {}
                done => return done.map(Some),
            },
            Err(e) if !e.is_gone() && !e.is_forbidden() => unknown = Some(e),
            _ => {}
        }
    }
    unknown.map_or(Ok(None), |e| Err(io::Error::other(e)))
}

/// Sends a signal to a process, but not to another one that has its number by now.
///
/// # Errors
/// The kernel's error: `ESRCH` if it has gone, `EPERM` if it belongs to somebody else.
pub fn send(root: &Root, task: &Task, signal: i32) -> io::Result<()> {
    // SAFETY: pidfd_open takes two integers and returns a descriptor that nobody else owns; pidfd_send_signal takes
    // it, a number, no siginfo and no flags.
    unsafe {
        let fd = libc::syscall(libc::SYS_pidfd_open, task.pid, 0) as i32;
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        let fd = OwnedFd::from_raw_fd(fd);
        if !is_still(root, &Task { tid: task.pid, ..*task })? {
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
        let none = std::ptr::null::<libc::siginfo_t>();
        match libc::syscall(libc::SYS_pidfd_send_signal, fd.as_raw_fd(), signal, none, 0) {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

fn is_gone(e: &io::Error) -> bool {
    e.kind() == io::ErrorKind::NotFound || matches!(e.raw_os_error(), Some(libc::ESRCH | libc::ENODEV))
}

impl fmt::Display for Undo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Undo::Thaw(folder) => write!(f, "thaw {}", folder.display()),
            Undo::Dissolve(folder) => write!(f, "dissolve {}", folder.display()),
            Undo::Continue(task) => write!(f, "continue {task}"),
            Undo::Task(task, aspect) => write!(f, "{} {task} {aspect}", aspect.name()),
            Undo::File { path, was } => write!(f, "file {was} {}", path.display()),
            Undo::Autogroup { id, was } => write!(f, "autogroup {id} {was}"),
        }
    }
}

impl fmt::Display for Aspect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Aspect::Slice { was_ns } => write!(f, "{was_ns}"),
            Aspect::Batch { was } => write!(f, "{was}"),
            Aspect::Nice { was, set } => write!(f, "{was} {set}"),
            Aspect::Cpus { was, set } => {
                let was = was.as_deref().map_or("all".to_owned(), cpulist::format);
                write!(f, "{was} {}", cpulist::format(set))
            }
        }
    }
}

impl fmt::Display for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {} {}", self.tid, self.start_ns, self.pid, self.pgid)
    }
}

impl Undo {
    /// Reads what [`Display`](fmt::Display) wrote; `None` for anything else, including a truncated line.
    pub fn parse(line: &str) -> Option<Undo> {
        let (verb, rest) = line.split_once(' ')?;
        let folder = || rest.starts_with('/').then(|| PathBuf::from(rest));
        match verb {
            "thaw" => return folder().map(Undo::Thaw),
            "dissolve" => return folder().map(Undo::Dissolve),
            "file" => {
                let (was, path) = rest.split_once(' ')?;
                let path = path.starts_with('/').then(|| PathBuf::from(path))?;
                return Some(Undo::File { path, was: was.to_owned() });
            }
            "autogroup" => {
                let (id, was) = rest.split_once(' ')?;
                return Some(Undo::Autogroup { id: id.parse().ok()?, was: was.parse().ok()? });
            }
            _ => {}
        }
        let fields: Vec<&str> = rest.split(' ').collect();
        let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
        let small = |at: usize| u32::try_from(number(at)?).ok();
        let signed = |at: usize| fields.get(at)?.parse::<i32>().ok();
        let cpus = |at: usize| match *fields.get(at)? {
            "all" => Some(None),
            list => cpulist::parse(list).filter(|c| !c.is_empty()).map(Some),
        };
        let task = Task { tid: small(0)?, start_ns: number(1)?, pid: small(2)?, pgid: small(3)? };
        let (undo, length) = match verb {
            "continue" => (Undo::Continue(task), 4),
            "slice" => (Undo::Task(task, Aspect::Slice { was_ns: number(4)? }), 5),
            "batch" => (Undo::Task(task, Aspect::Batch { was: small(4)? }), 5),
            "nice" => (Undo::Task(task, Aspect::Nice { was: signed(4)?, set: signed(5)? }), 6),
            "cpus" => (Undo::Task(task, Aspect::Cpus { was: cpus(4)?, set: cpus(5)?? }), 6),
            _ => return None,
        };
        (fields.len() == length).then_some(undo)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn task() -> impl Strategy<Value = Task> {
        (1u32.., 0u64.., 1u32.., 0u32..).prop_map(|(tid, start_ns, pid, pgid)| Task {
            tid,
            start_ns,
            pid,
            pgid,
        })
    }

    fn cpus() -> impl Strategy<Value = Vec<CpuId>> {
        proptest::collection::btree_set(0u32..4096, 1..20)
            .prop_map(|s| s.into_iter().map(CpuId).collect::<Vec<_>>())
    }

    fn undo() -> impl Strategy<Value = Undo> {
        let path = || "(/[^/\\n]{1,12}){1,4}".prop_map(PathBuf::from);
        let aspect = prop_oneof![
            (0u64..1 << 40).prop_map(|was_ns| Aspect::Slice { was_ns }),
            (0u32..7).prop_map(|was| Aspect::Batch { was }),
            (-20i32..20, -20i32..20).prop_map(|(was, set)| Aspect::Nice { was, set }),
            (proptest::option::of(cpus()), cpus()).prop_map(|(was, set)| Aspect::Cpus { was, set }),
        ];
        prop_oneof![
            path().prop_map(Undo::Thaw),
            path().prop_map(Undo::Dissolve),
            task().prop_map(Undo::Continue),
            (task(), aspect).prop_map(|(t, a)| Undo::Task(t, a)),
            (path(), "[0-9a-z]{1,8}").prop_map(|(path, was)| Undo::File { path, was }),
            (0u64.., -20i32..20).prop_map(|(id, was)| Undo::Autogroup { id, was }),
        ]
    }

    proptest! {
        #[test]
        fn a_line_holds_all_of_an_undo(u in undo()) {
            prop_assert_eq!(Undo::parse(&u.to_string()), Some(u));
        }

        #[test]
        fn any_text_is_read_or_refused(text in "[a-z]{0,9} ?[ 0-9/,a-z-]{0,40}") {
            let _ = Undo::parse(&text);
        }
    }

    #[test]
    fn a_task_that_reuses_the_number_is_left_alone() {
        let root = Root::new("/");
        let pid = std::process::id();
        let other = Task { tid: pid, start_ns: 1, pid, pgid: 0 };
        let e = send(&root, &other, libc::SIGKILL).unwrap_err();
        assert_eq!(e.raw_os_error(), Some(libc::ESRCH));
        Undo::Task(other, Aspect::Nice { was: 19, set: 0 }).perform(&root).unwrap();
        assert!(sched::attributes(pid).unwrap().nice < 19);
    }

    #[test]
    fn a_task_that_cannot_be_read_does_not_count_as_gone() {
        let dir = tempfile::tempdir().unwrap();
        // A folder can be opened, but not read as a file.
        std::fs::create_dir_all(dir.path().join("proc/5/stat")).unwrap();
        let task = Task { tid: 5, start_ns: 1, pid: 5, pgid: 5 };
        let undo = Undo::Task(task, Aspect::Nice { was: 0, set: 5 });
        undo.perform(&Root::new(dir.path())).unwrap_err();
        undo.perform(&Root::new(dir.path().join("nowhere"))).unwrap();
    }

    /// Runs on a thread of its own, so its changes end with that thread.
    fn aside<T: Send + 'static>(test: impl FnOnce() -> T + Send + 'static) -> T {
        std::thread::spawn(test).join().unwrap()
    }

    #[test]
    fn a_task_that_has_chosen_another_policy_since_keeps_it() {
        let other = libc::SCHED_OTHER as u32;
        let aspects = [Aspect::Batch { was: other }, Aspect::Slice { was_ns: 0 }];
        for aspect in aspects.clone() {
            aside(move || {
                let idle = libc::SCHED_IDLE as u32;
                sched::set_attributes(0, &Attributes { policy: idle, ..sched::attributes(0).unwrap() })
                    .unwrap();
                aspect.restore(0).unwrap();
                assert_eq!(sched::attributes(0).unwrap().policy, idle);
            });
        }
        for aspect in aspects {
            aside(move || {
                if sched::become_fifo(1).is_err() {
                    return println!("skipped: no real-time here");
                }
                let chosen = sched::attributes(0).unwrap();
                aspect.restore(0).unwrap();
                assert_eq!(sched::attributes(0).unwrap(), chosen);
            });
        }
    }

    #[test]
    fn a_task_that_has_become_real_time_since_has_its_nice_value_when_it_is_not_any_more() {
        aside(|| {
            let before = sched::attributes(0).unwrap();
            let set = before.nice + 5;
            sched::set_attributes(0, &Attributes { nice: set, ..before }).unwrap();
            if sched::become_fifo(1).is_err() {
                return println!("skipped: no real-time here");
            }
            Aspect::Nice { was: before.nice, set }.restore(0).unwrap();
            let fair = libc::sched_param { sched_priority: 0 };
            // SAFETY: of this thread, with a valid parameter.
            assert_eq!(unsafe { libc::sched_setscheduler(0, libc::SCHED_OTHER, &fair) }, 0);
            assert_eq!(sched::attributes(0).unwrap().nice, before.nice);
        });
    }

    #[test]
    fn an_autogroup_gets_its_nice_value_back_through_any_live_process_of_it() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::new(dir.path());
        let file = |pid: u32| dir.path().join(format!("proc/{pid}/autogroup"));
        for (pid, group) in [(5, "/autogroup-1 nice 0\n"), (6, "/autogroup-12 nice 7\n"), (7, "")] {
            std::fs::create_dir_all(file(pid).parent().unwrap()).unwrap();
            std::fs::write(file(pid), group).unwrap();
        }
        let undo = Undo::Autogroup { id: 12, was: -3 };
        assert!(!undo.is_over(&root));
        undo.perform(&root).unwrap();
        let held = [5, 6, 7].map(|pid| std::fs::read_to_string(file(pid)).unwrap());
        assert!(held[0] == "/autogroup-1 nice 0\n" && held[1].starts_with("-3") && held[2].is_empty());
        let gone = Undo::Autogroup { id: 13, was: 0 };
        assert!(gone.is_over(&root));
        gone.perform(&root).unwrap();
        // A folder can be opened, but not read as a file: nothing can be determined about such a task.
        std::fs::create_dir_all(file(4)).unwrap();
        std::fs::write(file(6), "/autogroup-12 nice 7\n").unwrap();
        undo.perform(&root).unwrap();
        assert!(!gone.is_over(&root) && gone.perform(&root).is_err());
    }

    #[test]
    fn a_target_that_has_gone_needs_no_undoing() {
        let root = Root::new("/");
        let task = Task { tid: std::process::id(), start_ns: 1, pid: std::process::id(), pgid: 0 };
        for gone in [
            Undo::Thaw(PathBuf::from("/nowhere/at/all")),
            Undo::Dissolve(PathBuf::from("/nowhere/corun-park.1.1")),
            Undo::File { path: PathBuf::from("/nowhere/cpu.weight"), was: "100".into() },
            Undo::Task(task, Aspect::Nice { was: 19, set: 0 }),
        ] {
            assert!(gone.is_over(&root));
            gone.perform(&root).unwrap();
        }
        assert!(!Undo::File { path: PathBuf::from("/proc/self/stat"), was: String::new() }.is_over(&root));
    }
}
