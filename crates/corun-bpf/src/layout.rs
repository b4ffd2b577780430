//! The records that the probe shares with user space: a mirror of `bpf/probe.h`, field by field. The sizes are
//! compared with the loaded maps each time the probe starts, so that the two cannot drift apart.

/// Culprit groups kept in each task's own record.
pub const CULPRITS: usize = 8;
/// Hierarchies of cgroup v1 in which a group that has ended can still be named.
pub const HIERARCHIES: usize = 12;
/// Occupancies remembered per CPU.
pub const OCCUPANTS: usize = 2048;
/// Buckets of a histogram, the overflow bucket included.
pub const BUCKETS: usize = 24;
/// System calls that are distinguished, by number.
pub const SYSCALLS: usize = 512;
/// "No task": the CPU has not switched yet.
pub const NO_TID: u32 = u32::MAX;

/// Where a task's time goes; the index into [`Acc::ns`].
pub mod state {
    /// No event yet.
    pub const NEVER: usize = 0;
    /// On a CPU.
    pub const RUN: usize = 1;
    /// Runnable, not running.
    pub const WAIT: usize = 2;
    /// Runnable, but a CPU budget of its own is used up.
    pub const THROTTLED: usize = 3;
    /// The kernel did not report it.
    pub const UNKNOWN: usize = 4;
    /// Blocked in a futex wait.
    pub const BLOCK_FUTEX: usize = 5;
    /// Blocked on a device or uninterruptibly.
    pub const BLOCK_IO: usize = 6;
    /// In a timed sleep.
    pub const BLOCK_SLEEP: usize = 7;
    /// Waiting for events.
    pub const BLOCK_POLL: usize = 8;
    /// Reading or writing a pipe, socket or terminal.
    pub const BLOCK_PIPE: usize = 9;
    /// Waiting for a child.
    pub const BLOCK_CHILD: usize = 10;
    /// Blocked for another reason.
    pub const BLOCK_OTHER: usize = 11;
    /// Number of states whose times are adjacent.
    pub const STATES: usize = 12;
    /// Stopped by a signal or a tracer.
    pub const STOPPED: usize = 12;
    /// Frozen with its cgroup or with the system.
    pub const FROZEN: usize = 13;
    /// Number of all states.
    pub const ALL: usize = 14;

    /// Whether it is ready to run but does not.
    pub fn is_waiting(state: usize) -> bool {
        [WAIT, THROTTLED].contains(&state)
    }
}

/// Groups with fixed numbers.
pub mod group {
    /// The occupant was not seen.
    pub const UNKNOWN: u32 = 0;
    /// The idle task.
    pub const IDLE: u32 = 1;
    /// Kernel threads other than the two kinds below.
    pub const KERNEL: u32 = 2;
    /// `ksoftirqd`.
    pub const SOFTIRQ: u32 = 3;
    /// `kworker`.
    pub const WORKQUEUE: u32 = 4;
    /// The process that watches, if it is separate.
    pub const WATCHER: u32 = 5;
    /// The first group that is found by cgroups and process group.
    pub const FIRST: u32 = 6;
}

/// In place of a clock's value: unknown.
pub const CLOCK_UNKNOWN: u64 = u64::MAX;

/// Flag of a task: its group was assigned and its children inherit it.
pub const STICKY: u32 = 1;
/// Flag of a task: a kernel thread.
pub const KTHREAD: u32 = 2;

/// A group's share of a task's steal.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Culprit {
    /// Nanoseconds it held the CPU while the task waited.
    pub ns: u64,
    /// The group.
    pub group: u32,
    pad: u32,
}

impl Culprit {
    /// A share of `ns` nanoseconds.
    pub fn new(group: u32, ns: u64) -> Culprit {
        Culprit { ns, group, pad: 0 }
    }
}

/// What is accumulated over a task's life. Counts wrap: only the difference of two readings is meaningful.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Acc {
    /// Nanoseconds per [`state`].
    pub ns: [u64; state::STATES],
    /// Voluntary switches: it blocked.
    pub blocked: u32,
    /// Involuntary switches.
    pub preemptions: u32,
    /// Wake-ups.
    pub wakeups: u32,
    /// Calls of `sched_yield` after which another task ran.
    pub yielded: u32,
    /// Steal by group; a slot with 0 ns is free.
    pub culprits: [Culprit; CULPRITS],
    /// Migrations: same core, same LLC, same socket, other socket.
    pub migrations: [u32; 4],
    /// Steal charged to nobody.
    pub unattributed_ns: u64,
    /// Steal charged to groups beyond the [`CULPRITS`] kept here.
    pub others_ns: u64,
    /// Nanoseconds per state from [`state::STATES`] on: rare, and so separate.
    pub held_ns: [u64; state::ALL - state::STATES],
}

impl Acc {
    /// Nanoseconds of every [`state`].
    pub fn by_state(&self) -> [u64; state::ALL] {
        std::array::from_fn(|i| self.ns.iter().chain(&self.held_ns).nth(i).copied().unwrap_or(0))
    }
}

/// How many waits for a CPU, and how many stretches on one, had each length.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lengths {
    /// Waits.
    pub waits: u32,
    /// Stretches on a CPU.
    pub stretches: u32,
}

/// A task's record.
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskRec {
    /// Odd while a handler writes.
    pub seq: u32,
    /// Thread id; 0 if the slot is free.
    pub tid: u32,
    /// Its group.
    pub group: u32,
    /// [`STICKY`], [`KTHREAD`].
    pub flags: u32,
    /// Its [`state`].
    pub state: u32,
    /// The CPU it last ran on or waits for.
    pub cpu: u32,
    /// Whether it ever ran.
    pub ran: u32,
    /// The state read from the task at attach; counts only while `state` is `NEVER`.
    pub guess: u32,
    /// Accounted up to here.
    pub since_ns: u64,
    /// When `state` was entered.
    pub began_ns: u64,
    /// The window edge `snap` was taken at.
    pub edge_ns: u64,
    /// The values of its budgets' clocks when the wait began.
    pub throttled_at: u64,
    /// Sums up to `since_ns`.
    pub cur: Acc,
    /// Lengths of waits and of stretches on a CPU.
    pub lengths: [Lengths; BUCKETS],
    /// Sums up to `edge_ns`.
    pub snap: Acc,
    /// When its account begins: its birth, or the start of the probe.
    pub born_ns: u64,
    /// Unique over the probe's life.
    pub serial: u32,
    /// Process id.
    pub tgid: u32,
    /// Name, NUL-padded.
    pub comm: [u8; 16],
    /// Its location in all cgroup hierarchies at once when its group was found: an address in the kernel.
    pub cgroups: u64,
    /// Its process group then.
    pub pgid: u32,
    /// The group of the processes that it starts; 0: no group of its own choice.
    pub heirs: u32,
    /// The edge of the next field.
    pub open_edge_ns: u64,
    /// How much of the wait that was open at that edge a quota had taken by then.
    pub open_throttled_ns: u64,
}

/// A task's record without its sums: a tenth of the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskBrief {
    /// As in [`TaskRec`], and likewise below. The same number twice means that no handler has written
    /// meanwhile.
    pub seq: u32,
    /// Thread id.
    pub tid: u32,
    /// Process id.
    pub tgid: u32,
    /// Its group.
    pub group: u32,
    /// Its [`state`].
    pub state: u32,
    /// The state read from the task at attach.
    pub guess: u32,
    /// The CPU it last ran on or waits for.
    pub cpu: u32,
    /// Whether it ever ran.
    pub ran: u32,
    /// When its account begins.
    pub born_ns: u64,
    /// Unique over the probe's life.
    pub serial: u32,
    /// Name, NUL-padded.
    pub comm: [u8; 16],
}

impl TaskBrief {
    /// The [`state`] that it has been in since its last event.
    pub fn open_state(&self) -> usize {
        let state = match self.state as usize {
            state::NEVER => self.guess as usize,
            state => state,
        };
        // A guess that makes no sense is ignored.
        if state < state::ALL {
            state
        } else {
            state::UNKNOWN
        }
    }
}

impl TaskRec {
    /// The same record without its sums.
    pub fn brief(&self) -> TaskBrief {
        TaskBrief {
            seq: self.seq,
            tid: self.tid,
            tgid: self.tgid,
            group: self.group,
            state: self.state,
            guess: self.guess,
            cpu: self.cpu,
            ran: self.ran,
            born_ns: self.born_ns,
            serial: self.serial,
            comm: self.comm,
        }
    }
}

/// A task's record up to its sums: the part that every event touches.
#[repr(C, align(64))]
#[derive(Clone, Copy)]
pub(crate) struct TaskHead {
    pub(crate) seq: u32,
    pub(crate) tid: u32,
    pub(crate) group: u32,
    flags: u32,
    pub(crate) state: u32,
    pub(crate) cpu: u32,
    pub(crate) ran: u32,
    pub(crate) guess: u32,
    times_ns: [u64; 4],
}

const _: () = assert!(std::mem::offset_of!(TaskRec, cur) == size_of::<TaskHead>());

/// From `start_ns` until the next occupancy, `group` held the CPU.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Occupancy {
    /// Its start.
    pub start_ns: u64,
    /// Who.
    pub group: u32,
    pad: u32,
}

impl Occupancy {
    /// An occupancy from `start_ns` on.
    pub fn new(start_ns: u64, group: u32) -> Occupancy {
        Occupancy { start_ns, group, pad: 0 }
    }
}

/// What a CPU did.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuAcc {
    /// Ran a task.
    pub busy_ns: u64,
    /// Ran its idle task.
    pub idle_ns: u64,
    /// Nobody saw.
    pub unknown_ns: u64,
}

/// A CPU's record, without its log.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct CpuHead {
    /// Odd while a handler writes.
    pub seq: u32,
    /// The running task; [`NO_TID`] before the first switch.
    pub tid: u32,
    /// Its record; 0 if it has none.
    pub slot: u32,
    /// Its group: that of the newest occupancy.
    pub group: u32,
    /// Start of the newest occupancy.
    pub occupied_ns: u64,
    /// Accounted up to here.
    pub since_ns: u64,
    /// The edge `snap` was taken at.
    pub edge_ns: u64,
    /// By how much the monotonic clock was ahead of the run queue's.
    pub lead_ns: u64,
    /// When that was measured.
    pub lead_at_ns: u64,
    /// Switches.
    pub switches: u64,
    /// Sums up to `since_ns`.
    pub cur: CpuAcc,
    /// Sums up to `edge_ns`.
    pub snap: CpuAcc,
    /// Occupancies ever written; the newest is open.
    pub head: u64,
    pad: u64,
}

/// A CPU's record.
#[repr(C, align(64))]
#[derive(Clone, Copy)]
pub(crate) struct CpuRec {
    pub head: CpuHead,
    pub log: [Occupancy; OCCUPANTS],
}

/// The location of a task in all cgroup trees at once.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Location {
    /// Id of its cgroup in the v2 tree.
    pub cgroup: u64,
    /// Its cgroups in the hierarchies of v1, mixed into one number; 0 if there are none.
    pub v1: u64,
}

impl Location {
    /// As the kernel sees it.
    pub(crate) fn bytes(&self) -> [u8; size_of::<Location>()] {
        // SAFETY: plain data without holes.
        unsafe { std::mem::transmute(*self) }
    }
}

/// The key of a group: a process group in its cgroups.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupKey {
    /// Its cgroups.
    pub at: Location,
    /// Process group; 0 if the cgroups decide.
    pub pgid: u32,
    pad: u32,
}

impl GroupKey {
    /// As the kernel sees it.
    pub(crate) fn bytes(&self) -> [u8; size_of::<GroupKey>()] {
        // SAFETY: plain data without holes.
        unsafe { std::mem::transmute(*self) }
    }
}

/// A group.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct GroupRec {
    /// What makes it.
    pub key: GroupKey,
    /// The first member seen.
    pub tid: u32,
    /// Ended tasks whose own line was lost; their sums follow.
    pub unlisted: u32,
    /// The first member's process.
    pub tgid: u32,
    hierarchies: u32,
    /// Name of that process; later of the one that leads the process group, when it executes a program. NUL-padded.
    pub comm: [u8; 16],
    /// Its cgroups of v1 except roots: the hierarchy's number in the highest byte, and the cgroup's id. 0: no
    /// more of them.
    pub v1: [u64; HIERARCHIES],
    /// As [`Acc::by_state`].
    pub dead_ns: [u64; state::ALL],
    /// As [`Acc::unattributed_ns`].
    pub dead_unattributed_ns: u64,
    /// How often they blocked, were preempted, were woken up, moved (by distance: the same core, last-level cache, socket,
    /// another socket), and yielded.
    pub dead_events: [u64; 8],
    /// Lengths of waits.
    pub dead_waits: [u64; BUCKETS],
    /// Lengths of stretches on a CPU.
    pub dead_stretches: [u64; BUCKETS],
}

/// Steal that did not fit into a task's record.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PairSteal {
    /// Group whose task waited.
    pub victim: u32,
    /// Group that held the CPU.
    pub culprit: u32,
    /// How long in total, in nanoseconds.
    pub ns: u64,
}

/// Where a CPU sits.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Place {
    /// Physical core.
    pub core: u32,
    /// LLC domain.
    pub llc: u32,
    /// Socket.
    pub socket: u32,
    pad: u32,
}

impl Place {
    /// A CPU's location; the numbers are unique over the machine.
    pub fn new(core: u32, llc: u32, socket: u32) -> Place {
        Place { core, llc, socket, pad: 0 }
    }
}

/// An ended task.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Ended {
    /// When it left its CPU for the last time.
    pub end_ns: u64,
    /// Its record as it was then.
    pub rec: TaskRec,
}

/// A switch or wake-up, or an event of a single wait.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct TraceEvent {
    /// When.
    pub t_ns: u64,
    /// Where.
    pub cpu: u32,
    /// 0 switch, 1 wake-up, 2 the end of a wait, 3 a move while waiting, 4 a part of a wait that budgets took.
    pub kind: u8,
    /// How `prev` left: 0 runnable, 1 blocked, 2 uninterruptible, 3 ended, 4 stopped or frozen. For a
    /// wake-up, what caused it: 0 a task, 1 an interrupt, 2 a soft one, 3 the idle loop.
    pub left: u8,
    /// For a length, the bits above `prev`.
    pub high: u16,
    /// The task that left (switch) or woke another; 0: the idle task, or an interrupt. For a move, the CPU
    /// that it came from.
    pub prev: u32,
    /// The task that came (switch), or was woken, waited or was moved.
    pub next: u32,
}

impl TraceEvent {
    /// The length that it reports, in nanoseconds, of a wait or a part of one.
    pub fn length_ns(&self) -> u64 {
        u64::from(self.high) << 32 | u64::from(self.prev)
    }
}

/// An action of a task of the subject, for the run log.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordEvent {
    /// When.
    pub t_ns: u64,
    /// From the lowest bit: tid (32), kind (8), how (8), CPU (16).
    pub who: u64,
    /// By kind, as in `probe.h`.
    pub a: u64,
    /// By kind, as in `probe.h`.
    pub b: u64,
}

/// A fixed-size NUL-padded name as text.
pub fn comm(bytes: &[u8; 16]) -> String {
    let end = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}
