//! Schedulers under the modelled machine, one file each, with one trait.
//!
//! The engine owns time, CPUs and tasks; a scheduler owns its run queues. The engine reports events (a task woke or blocked; a tick)
//! and asks which task to run. The scheduler answers through [`Effects`]: which CPUs must reschedule, which tasks moved. A scheduler
//! reads no clock, and keeps no order except that of its queues.

mod fair;
mod xen_credit;
mod xen_places;

pub use fair::cfs::{Cfs, VintageCfs};
pub use fair::eevdf::Eevdf;
pub use fair::vintage::kernel::Kernel;
pub use fair::{Fair, FairOptions};
pub use xen_credit::{FirstSlice, XenCredit};

use crate::cpu_set::CpuSet;
use std::rc::Rc;

/// A task, by its dense number in the engine.
pub type TaskIx = usize;
/// A CPU, by its place in the machine's list.
pub type CpuIx = usize;

/// A scheduler's initial data of a task.
#[derive(Clone, Debug)]
pub struct TaskParams {
    /// The group (session, cgroup, VM) that it shares CPU time in; `None`: directly on the CPU.
    pub group: Option<usize>,
    /// Its weight inside its group; 1024 is nice 0.
    pub weight: u64,
    /// SCHED_BATCH: it does not preempt others when it wakes up.
    pub batch: bool,
    /// Its own slice in nanoseconds; `None`: the scheduler's default.
    pub slice_ns: Option<(u64, u64)>,
    /// Where it may run; `None`: anywhere.
    pub affinity: Option<Rc<CpuSet>>,
}

/// How a task became runnable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// It is new.
    Fresh,
    /// Woken from a CPU: by the task that runs there, or by a timer of that CPU.
    From(CpuIx),
    /// Put back by the machine itself (unparked, its affinity changed).
    Return,
}

/// The requests of a scheduler.
#[derive(Clone, Debug, Default)]
pub struct Effects {
    /// CPUs that must reschedule.
    pub resched: Vec<Resched>,
    /// Waiting tasks that were moved to another queue.
    pub moved: Vec<Moved>,
    /// The task that ran on the CPU that now picks, if it was put into another CPU's queue.
    pub expelled: Option<Moved>,
}

/// A CPU that must reschedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resched {
    /// Which.
    pub cpu: CpuIx,
    /// The waking task that wants its place; `None`: the running task's time is over.
    pub by: Option<TaskIx>,
}

/// A waiting task that was moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moved {
    /// Which.
    pub task: TaskIx,
    /// The CPU of its new queue.
    pub to: CpuIx,
}

/// The next task to run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pick {
    /// The task. `None` if the CPU idles.
    pub task: Option<TaskIx>,
    /// When its slice ends if the scheduler keeps slices by timer and not by tick.
    pub until_ns: Option<u64>,
}

/// A scheduler under the modelled machine.
pub trait Scheduler {
    /// Its name, as scenarios give it.
    fn name(&self) -> &'static str;

    /// Adds a task that does not run yet. Tasks are numbered from 0 in the order of these calls.
    fn add_task(&mut self, params: &TaskParams);

    /// Adds a group with a share in the unit of `cpu.weight` (100 is the default). Groups are numbered from
    /// 0.
    fn add_group(&mut self, weight: u32);

    /// A task became runnable: queues it and returns where.
    fn wake(&mut self, now_ns: u64, task: TaskIx, how: Wake, fx: &mut Effects) -> CpuIx;

    /// The task that runs on `cpu` blocked, was parked, or ended (`for_good`).
    fn block(&mut self, now_ns: u64, cpu: CpuIx, for_good: bool);

    /// A waiting task leaves its queue without having run (parked, ended, or its affinity changed).
    fn remove(&mut self, now_ns: u64, task: TaskIx);

    /// Chooses the next task of `cpu`. The task that ran so far is back in the queue unless it blocked.
    fn pick(&mut self, now_ns: u64, cpu: CpuIx, fx: &mut Effects) -> Pick;

    /// The tick of a CPU that runs a task.
    fn tick(&mut self, now_ns: u64, cpu: CpuIx, fx: &mut Effects);

    /// The actions of the machine as a whole, once per tick period, after the CPUs' own ticks.
    fn master_tick(&mut self, _now_ns: u64, _fx: &mut Effects) {}

    /// Distance between ticks in nanoseconds.
    fn tick_ns(&self) -> u64;

    /// The longest and shortest slice of a task; equal bounds are a fixed slice, `None` the default again.
    fn set_slice(&mut self, task: TaskIx, bounds_ns: Option<(u64, u64)>);

    /// Where a task may run, from the next time that it is queued.
    fn set_affinity(&mut self, task: TaskIx, affinity: Option<Rc<CpuSet>>);

    /// A group's share.
    fn set_weight(&mut self, now_ns: u64, group: usize, weight: u32);

    /// Sets whether running counts against a task's share from now on. It does not during a measurement.
    fn set_debiting(&mut self, _now_ns: u64, _debits: bool) {}

    /// Whether the scheduler has a task in one of its queues (running or waiting): for the checkers.
    fn queued_on(&self, task: TaskIx) -> Option<CpuIx>;
}
