//! A run log: what a program's tasks did, event by event, so that the run can be replayed under other
//! conditions.
//!
//! A [`trace`](crate::trace) shows which tasks ran where on a whole machine. A run log has one program's
//! tasks only, and also the causes: who woke a task, until when it wanted to sleep, which CPUs and how much
//! CPU time it may use.
//!
//! A log that lost events says so ([`RunLog::lost`]), and cannot be replayed from there on. [`mod@file`] is
//! the file format of a run.

pub mod file;

use crate::machine::CpuId;
use crate::tenant::TaskId;

/// A set of CPUs, of the first 128 of a machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuMask(pub u128);

impl CpuMask {
    /// All CPUs that fit into a mask.
    pub const ALL: CpuMask = CpuMask(u128::MAX);

    /// The first CPUs, this many.
    pub fn first(cpus: usize) -> CpuMask {
        CpuMask(if cpus < 128 { (1 << cpus) - 1 } else { u128::MAX })
    }

    /// Whether this CPU is in it.
    pub fn has(self, cpu: usize) -> bool {
        cpu < 128 && self.0 >> cpu & 1 == 1
    }

    /// The CPUs in both.
    #[must_use]
    pub fn and(self, other: CpuMask) -> CpuMask {
        CpuMask(self.0 & other.0)
    }

    /// The set with this CPU.
    #[must_use]
    pub fn with(self, cpu: usize) -> CpuMask {
        CpuMask(self.0 | if cpu < 128 { 1 << cpu } else { 0 })
    }

    /// The set without this CPU.
    #[must_use]
    pub fn without(self, cpu: usize) -> CpuMask {
        CpuMask(self.0 & !CpuMask::default().with(cpu).0)
    }

    /// The number of its CPUs.
    pub fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Whether it is empty.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The numbers of its CPUs.
    pub fn iter(self) -> impl Iterator<Item = usize> {
        (0..128).filter(move |&cpu| self.has(cpu))
    }
}

/// The activity of one program's tasks for a while.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunLog {
    /// The CPUs that were switched on at its end. At its beginning, they are those of the previous log.
    pub cpus: CpuMask,
    /// The start of the complete time, on the host's clock, in nanoseconds.
    pub start_ns: u64,
    /// The end of the complete time.
    pub end_ns: u64,
    /// The number of events that found no room. With any, the log is incomplete.
    pub lost: u64,
    /// The events, in the order of time.
    pub events: Vec<Event>,
}

/// An action of a task, or something that happened to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Its time, in nanoseconds.
    pub t_ns: u64,
    /// The task of the program.
    pub task: TaskId,
    /// What happened.
    pub what: What,
}

/// What happened to a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// It came onto this CPU.
    Runs {
        /// The CPU.
        cpu: CpuId,
        /// The CPUs that it may use.
        may: CpuMask,
    },
    /// It left its CPU.
    Leaves(Left),
    /// It was woken, whether or not it slept.
    Woken(Waker),
    /// This task created it, which need not be part of the program.
    Born {
        /// The creator.
        parent: TaskId,
        /// The process that it belongs to.
        process: u32,
    },
    /// It is about to sleep until then, on the log's clock, even if that time has passed.
    SleepsUntil {
        /// The deadline, in nanoseconds.
        deadline_ns: u64,
        /// Whether it gave the kernel a length rather than a time. Some runtimes give a time that they have
        /// just computed.
        as_length: bool,
    },
    /// From now on, a group that contains it may run for this long in every period; a quota of 0 is no quota.
    /// Earlier budgets do not apply any more.
    Budget {
        /// The quota, summed over CPUs, in nanoseconds.
        quota_ns: u64,
        /// The period, in nanoseconds.
        period_ns: u64,
        /// When it is refilled, in nanoseconds after a multiple of the period on the log's clock; `None`: not
        /// known.
        filled_ns: Option<u64>,
        /// Whether the budget of an outer group follows, which applies as well.
        more: bool,
    },
    /// It asks the kernel for another set of CPUs, for itself or another task, and a task has to leave its
    /// CPU because of that.
    Confines,
}

/// How a task left its CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// It was preempted.
    Preempted,
    /// It yielded, by `sched_yield`.
    Yielded,
    /// It waits for this.
    Waits(For),
    /// It ended, by itself or with its process.
    Ended,
    /// A signal ended it, other than one for its own action just before.
    Killed,
}

/// The event that a task waits for, from its system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum For {
    /// The futex at this address.
    Futex(u64),
    /// A device, or something that cannot be interrupted.
    Device,
    /// A time.
    Sleep,
    /// One of several things.
    Poll,
    /// A pipe, socket or terminal.
    Pipe,
    /// A child.
    Child,
    /// Something else.
    Other,
}

/// The waker of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waker {
    /// A task, of the program or not.
    Task(TaskId),
    /// A hard interrupt: a device.
    Interrupt,
    /// A timer of the kernel: its own sleep or time limit, or one that it set before, such as a `timerfd` or `setitimer`.
    Timer,
    /// A soft interrupt, such as one from the network.
    SoftInterrupt,
    /// The idle loop.
    Idle,
}

/// Signals that a task gets for its own action just before: it would have ended there in any case. By number:
/// ILL, TRAP, ABRT, BUS, FPE, SEGV, PIPE, XCPU, XFSZ and SYS.
const OWN_DOING: [u64; 10] = [4, 5, 6, 7, 8, 11, 13, 24, 25, 31];

/// The bits of a budget's period in a word; the time of its refill is above them. They suffice: no kernel
/// accepts a period of more than a second.
const PERIOD_BITS: u32 = 32;
const PERIOD: u64 = (1 << PERIOD_BITS) - 1;

/// The size of an event in bytes.
const EVENT_BYTES: usize = 32;

/// An event in its written form, in which the probe also sends it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RawEvent {
    /// Its time.
    pub t_ns: u64,
    /// From the lowest bit: task (32), kind (8), how (8), CPU (16).
    pub who: u64,
    /// Depends on the kind.
    pub a: u64,
    /// Depends on the kind.
    pub b: u64,
}

impl RawEvent {
    fn new(t_ns: u64, task: TaskId, kind: u8, how: u8, cpu: u16, a: u64, b: u64) -> RawEvent {
        let who = u64::from(task.0) | u64::from(kind) << 32 | u64::from(how) << 40 | u64::from(cpu) << 48;
        RawEvent { t_ns, who, a, b }
    }

    /// The event; `None`: not a known one.
    pub fn read(self) -> Option<Event> {
        let RawEvent { t_ns, who, a, b } = self;
        let (task, kind, how, cpu) = (TaskId(who as u32), (who >> 32) as u8, (who >> 40) as u8, who >> 48);
        let what = match kind {
            1 => What::Runs { cpu: CpuId(cpu as u32), may: CpuMask(u128::from(a) | u128::from(b) << 64) },
            2 => What::Leaves(match how {
                0 => Left::Preempted,
                1 | 2 => Left::Waits(match a {
                    5 => For::Futex(b),
                    6 => For::Device,
                    7 => For::Sleep,
                    8 => For::Poll,
                    9 => For::Pipe,
                    10 => For::Child,
                    _ => For::Other,
                }),
                3 if b == 0 || OWN_DOING.contains(&b) => Left::Ended,
                3 => Left::Killed,
                4 => Left::Yielded,
                _ => return None,
            }),
            3 => What::Woken(match how {
                0 => Waker::Task(TaskId(a as u32)),
                1 => Waker::Interrupt,
                2 => Waker::SoftInterrupt,
                3 => Waker::Idle,
                4 => Waker::Timer,
                _ => return None,
            }),
            4 => What::Born { parent: TaskId(a as u32), process: b as u32 },
            5 => What::SleepsUntil { deadline_ns: a, as_length: how & 1 == 1 },
            6 => What::Budget {
                quota_ns: a,
                period_ns: b & PERIOD,
                filled_ns: (b >> PERIOD_BITS).checked_sub(1),
                more: how & 1 == 1,
            },
            7 => What::Confines,
            _ => return None,
        };
        Some(Event { t_ns, task, what })
    }
}

impl From<Event> for RawEvent {
    fn from(e: Event) -> RawEvent {
        let raw = |kind, how, cpu, a, b| RawEvent::new(e.t_ns, e.task, kind, how, cpu, a, b);
        match e.what {
            What::Runs { cpu, may } => raw(1, 0, cpu.0 as u16, may.0 as u64, (may.0 >> 64) as u64),
            What::Leaves(Left::Preempted) => raw(2, 0, 0, 0, 0),
            What::Leaves(Left::Ended) => raw(2, 3, 0, 0, 0),
            What::Leaves(Left::Killed) => raw(2, 3, 0, 0, 1),
            What::Leaves(Left::Yielded) => raw(2, 4, 0, 0, 0),
            What::Leaves(Left::Waits(what)) => match what {
                For::Futex(at) => raw(2, 1, 0, 5, at),
                For::Device => raw(2, 2, 0, 6, 0),
                For::Sleep => raw(2, 1, 0, 7, 0),
                For::Poll => raw(2, 1, 0, 8, 0),
                For::Pipe => raw(2, 1, 0, 9, 0),
                For::Child => raw(2, 1, 0, 10, 0),
                For::Other => raw(2, 1, 0, 11, 0),
            },
            What::Woken(Waker::Task(by)) => raw(3, 0, 0, by.0.into(), 0),
            What::Woken(Waker::Interrupt) => raw(3, 1, 0, 0, 0),
            What::Woken(Waker::SoftInterrupt) => raw(3, 2, 0, 0, 0),
            What::Woken(Waker::Idle) => raw(3, 3, 0, 0, 0),
            What::Woken(Waker::Timer) => raw(3, 4, 0, 0, 0),
            What::Born { parent, process } => raw(4, 0, 0, parent.0.into(), process.into()),
            What::SleepsUntil { deadline_ns, as_length } => raw(5, as_length.into(), 0, deadline_ns, 0),
            What::Budget { quota_ns, period_ns, filled_ns, more } => {
                let filled = filled_ns.map_or(0, |ns| ns + 1);
                raw(6, more.into(), 0, quota_ns, period_ns & PERIOD | filled << PERIOD_BITS)
            }
            What::Confines => raw(7, 0, 0, 0, 0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_ended_by_a_signal_was_killed_unless_its_own_action_caused_it() {
        let ends = |b| RawEvent { who: 2 << 32 | 3 << 40, b, ..RawEvent::default() }.read().unwrap().what;
        for (signal, left) in
            [(0, Left::Ended), (9, Left::Killed), (15, Left::Killed), (11, Left::Ended), (13, Left::Ended)]
        {
            assert_eq!(ends(signal), What::Leaves(left), "signal {signal}");
        }
        let killed = Event { t_ns: 1, task: TaskId(7), what: What::Leaves(Left::Killed) };
        assert_eq!(RawEvent::from(killed).read(), Some(killed));
    }

    #[test]
    fn masks_count_and_intersect() {
        let one = CpuMask(0b1010);
        assert_eq!((one.len(), one.iter().collect::<Vec<_>>()), (2, vec![1, 3]));
        assert_eq!(one.and(CpuMask::first(2)), CpuMask(0b10));
        assert_eq!((CpuMask::first(128), CpuMask::first(0).is_empty()), (CpuMask::ALL, true));
        assert!(!CpuMask::ALL.has(128));
        assert_eq!((one.with(0), one.with(128), one.without(3)), (CpuMask(0b1011), one, CpuMask(0b10)));
    }
}
