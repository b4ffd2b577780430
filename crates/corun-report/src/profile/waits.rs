//! The longest waits for a CPU, in written form (`profile --worst`): fields of `corun.profile/1`, explained
//! in `docs/json.md`.

use corun_model::run_log::Waker;
use corun_model::waits;
use serde::{Deserialize, Serialize};

/// One wait; its parts sum to `wait_ns`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wait {
    /// Whose: the kernel's thread id.
    pub tid: u32,
    /// What that task is called.
    pub name: String,
    /// When it began, from the start of the window.
    pub start_ns: u64,
    /// How long it was.
    pub wait_ns: u64,
    /// Whether the task had a CPU at its end, or the window ended first.
    pub over: bool,
    /// For which CPU it waited last.
    pub cpu: u32,
    /// How it began.
    pub began: Began,
    /// The task that woke it; `None` if no task did, or it is unknown.
    #[serde(default)]
    pub waker: Option<Task>,
    /// The occupants of the CPU, in the order of their first turn.
    pub parts: Vec<Part>,
}

/// How a wait began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Began {
    /// The task was preempted, or yielded.
    Preempted,
    /// A task woke it.
    Task,
    /// A hard interrupt did: a timer, or a device.
    Interrupt,
    /// A soft interrupt did.
    SoftInterrupt,
    /// The idle loop did.
    Idle,
    /// Nobody saw it.
    Unknown,
}

/// A task by its number and name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    /// The kernel's thread id.
    pub tid: u32,
    /// The kernel's comm; empty if unknown.
    pub name: String,
}

/// A part of a wait.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// Who held the CPU.
    pub held_by: HeldBy,
    /// Which task, of a task.
    #[serde(default)]
    pub task: Option<Task>,
    /// Id of its tenant in this report, if it is known.
    #[serde(default)]
    pub tenant: Option<u32>,
    /// Of others, how many they were.
    #[serde(default)]
    pub holders: Option<u64>,
    /// The CPU for which the task waited then.
    pub cpu: u32,
    /// For how long.
    pub ns: u64,
    /// In how many turns.
    pub turns: u64,
}

/// Who held a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HeldBy {
    /// A task.
    Task,
    /// Nobody: it was idle, and the task was waking up.
    Idle,
    /// Nobody else: a CPU budget of the task's own was used up.
    Budget,
    /// Several that held it for a shorter time than the listed ones.
    Others,
    /// Nobody knows.
    Unknown,
}

/// The waits in written form, in a window that began at `start_ns`.
pub(super) fn written(waits: &[waits::Wait], start_ns: u64) -> Vec<Wait> {
    waits.iter().map(|wait| one(wait, start_ns)).collect()
}

fn one(wait: &waits::Wait, start_ns: u64) -> Wait {
    let (began, waker) = match &wait.began {
        waits::Began::Preempted => (Began::Preempted, None),
        waits::Began::WokenBy { task, name } => (Began::Task, Some(Task { tid: task.0, name: name.clone() })),
        waits::Began::Woken(Waker::Task(task)) => {
            (Began::Task, Some(Task { tid: task.0, name: String::new() }))
        }
        waits::Began::Woken(Waker::Interrupt | Waker::Timer) => (Began::Interrupt, None),
        waits::Began::Woken(Waker::SoftInterrupt) => (Began::SoftInterrupt, None),
        waits::Began::Woken(Waker::Idle) => (Began::Idle, None),
        waits::Began::Unseen => (Began::Unknown, None),
    };
    Wait {
        tid: wait.task.0,
        name: wait.name.clone(),
        start_ns: wait.began_ns.saturating_sub(start_ns),
        wait_ns: wait.ns(),
        over: wait.is_over,
        cpu: wait.cpu.0,
        began,
        waker,
        parts: wait.parts.iter().map(part).collect(),
    }
}

fn part(part: &waits::Part) -> Part {
    let nobody = |held_by| (held_by, None, None, None);
    let (held_by, task, tenant, holders) = match &part.holder {
        waits::Holder::Task { task, name, tenant } => {
            (HeldBy::Task, Some(Task { tid: task.0, name: name.clone() }), tenant.map(|id| id.0), None)
        }
        waits::Holder::Idle => nobody(HeldBy::Idle),
        waits::Holder::Budget => nobody(HeldBy::Budget),
        waits::Holder::Others { holders } => (HeldBy::Others, None, None, Some(*holders)),
        waits::Holder::Unknown => nobody(HeldBy::Unknown),
    };
    Part { held_by, task, tenant, holders, cpu: part.cpu.0, ns: part.ns, turns: part.turns }
}

/// The conditions for the waits of a window, a sentence for each violation.
pub(super) fn check(waits: &[Wait], window_ns: u64, wrong: &mut Vec<String>) {
    for (n, wait) in waits.iter().enumerate() {
        let who = format!("wait {} (of task {}, {})", n + 1, wait.tid, wait.name);
        let sum_ns = wait.parts.iter().map(|p| p.ns).fold(0, u64::saturating_add);
        if sum_ns != wait.wait_ns {
            wrong.push(format!("{who}: its parts sum to {sum_ns} ns, it was {} ns", wait.wait_ns));
        }
        if wait.start_ns.saturating_add(wait.wait_ns) > window_ns {
            wrong.push(format!("{who}: it ends after the window"));
        }
    }
    if waits.windows(2).any(|pair| pair[0].wait_ns < pair[1].wait_ns) {
        wrong.push("the waits are not in the order of their lengths".to_owned());
    }
}
