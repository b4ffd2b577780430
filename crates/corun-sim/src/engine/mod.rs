//! The engine: integer nanoseconds, events in the order of (time, sequence), and everything that happens
//! between them.
//!
//! The world consists of tenants. Each has a program whose threads run on tasks. A task is a thread, or a
//! vCPU on which a guest schedules threads. A CPU runs one task, and what it executes changes only at events.
//! Between two events, a thread's work advances at the rate that the contention models give its CPU. So
//! nothing happens per nanosecond, and the cost of a run is its number of events.
//!
//! | file | holds |
//! | --- | --- |
//! | [`setup`] | the engine at time 0 |
//! | [`timers`] | the queue of events |
//! | [`cpu`] | executing: settling what a CPU did, arming what it does next, switching |
//! | [`thread`] | a thread's steps, and its waiting |
//! | [`sync`] | barriers, locks, queues |
//! | [`guest`] | the guest scheduler inside a VM |
//! | [`life`] | tenants start, end, are parked |
//! | [`account`] | ledgers and culprits |
//! | [`noise`] | late timers, CPUs that are taken for something else |
//! | [`window`], [`host`] | observations; the five knobs |
//! | [`tracing`] | the trace, if one is kept |
//!
//! Invariants: no clock, thread, float or hash order takes part in a decision. At any instant, every task is
//! in exactly one state, and its time is counted exactly once (see [`checker`](crate::checker)).
//!
//! This file has the state that the other files work on, and the loop over events.

pub mod account;
mod cpu;
mod guest;
mod host;
mod life;
mod noise;
mod setup;
mod sync;
mod thread;
pub mod timers;
mod tracing;
mod window;

use crate::contention::{CharacterId, CpuRate, System};
use crate::cpu_set::CpuSet;
use crate::machine_file::MachineModel;
use crate::program::{Cursor, Shared};
use crate::sched::{CpuIx, Effects, Scheduler, TaskIx};
use account::{Distances, Occupancy, Reason, Tally};
use corun_model::trace::Trace;
use corun_model::{CpuId, Tenant};
use guest::Guest;
use noise::Noise;
use std::rc::Rc;
use std::sync::Arc;
use timers::Timers;

pub use life::{Completion, Completions};
pub use setup::{Setup, TenantSetup};
pub use window::Progress;

use sync::SyncObject;

type ThreadIx = usize;
type TenantIx = usize;

/// The engine cannot go on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The scenario cannot go on, for example because of a deadlock. One sentence.
    #[error("{0}")]
    Scenario(String),
    /// A checker fired: the engine is wrong. This is the finding.
    #[error("checker {checker}: {what}")]
    Bug {
        /// Which checker.
        checker: &'static str,
        /// The finding.
        what: String,
    },
}

/// The purpose of a timer slot.
#[derive(Clone, Copy, Debug)]
enum Slot {
    Tick,
    Contention,
    /// A CPU's present activity ends.
    Step(CpuIx),
    /// A CPU comes to reschedule.
    Resched(CpuIx),
    /// A CPU's slice ends (schedulers that keep slices by timer).
    Slice(CpuIx),
    /// A delayed preemption is due.
    Delay(CpuIx),
    /// A thread's sleep ends.
    Wake(ThreadIx),
    /// A tenant starts.
    Start(TenantIx),
    /// The time of a tenant's phase is up.
    Cut(TenantIx),
    /// A CPU is taken for something else.
    Noise(CpuIx),
    /// One nanosecond is counted too many: [`Engine::miscount_at`].
    Miscount,
}

/// One CPU, on cache lines of its own.
#[derive(Debug)]
#[repr(align(64))]
struct Cpu {
    id: CpuId,
    llc: u32,
    curr: Option<TaskIx>,
    /// Its activity is settled up to this time.
    since_ns: u64,
    /// The progress of its thread.
    rate: u32,
    step: u32,
    resched: u32,
    slice: u32,
    delay: u32,
    switched_in_ns: u64,
    busy_ns: u64,
    idle_ns: u64,
    occupancy: Occupancy,
    /// It must be armed again before time passes.
    dirty: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Unborn,
    Running,
    Waiting,
    Blocked(Reason),
    /// Runnable, but its tenant is parked.
    Parked,
    Ended,
}

/// A task. What every event reads comes first, on as few cache lines as possible.
#[derive(Debug)]
#[repr(C, align(64))]
struct Task {
    /// Its thread; for a vCPU, the one that it runs now.
    thread: Option<ThreadIx>,
    /// Its place among its VM's vCPUs.
    vcpu: Option<usize>,
    tenant: TenantIx,
    /// The CPU it runs or waits on, or was on last.
    cpu: CpuIx,
    /// Its time is counted up to this time.
    since_ns: u64,
    state: State,
    ran: bool,
    /// It was in a run queue.
    queued: bool,
    wait_since_ns: u64,
    wait_mark: u64,
    affinity: Option<Rc<CpuSet>>,
    preempt_delay_ns: u64,
    tally: Tally,
    name: Arc<str>,
    born_ns: u64,
    /// The counters when the last window was closed.
    counters: Option<corun_model::Counters>,
    home_affinity: Option<Rc<CpuSet>>,
    slice_ns: Option<(u64, u64)>,
}

/// The activity of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doing {
    /// Its next step is due.
    Ready,
    /// It computes.
    Work,
    /// It computes until a wall time.
    Busy(u64),
    /// It waits on the CPU, until a wall time if it will sleep then.
    Spin(Option<u64>),
    /// It is on its way to sleep.
    Sinking,
    /// It sleeps.
    Asleep,
    /// It is done.
    Ended,
}

/// What a waiting thread tries again after an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pending {
    Nothing,
    /// A barrier whose count must have moved on.
    Meet(usize),
    Acquire(usize),
    Put(usize, u64),
    Take(usize),
    /// A wait of its own, which another thread ends.
    AwaitEnd(usize, u32),
    /// Sleeps until this time, for this reason.
    Until(u64, Reason),
}

impl Pending {
    /// The object whose events it waits for.
    fn object(self) -> Option<usize> {
        match self {
            Pending::Meet(o)
            | Pending::Acquire(o)
            | Pending::Put(o, _)
            | Pending::Take(o)
            | Pending::AwaitEnd(o, _) => Some(o),
            Pending::Nothing | Pending::Until(..) => None,
        }
    }
}

/// A thread, on cache lines of its own.
#[derive(Debug)]
#[repr(align(64))]
struct Thread {
    tenant: TenantIx,
    index: u32,
    cursor: Cursor,
    /// Its task; in a VM, the vCPU on which it runs or waits.
    task: TaskIx,
    doing: Doing,
    /// Work left, in nanoseconds of solo run time × 2^20; `u64::MAX`: endless.
    work: u64,
    /// The part of the same grain that follows, in nanoseconds of solo run time.
    more_ns: u64,
    /// The present grain, if all threads meet after it and share lines. It gives the thread's place.
    share_ns: Option<u64>,
    /// Kernel time to spend before anything else.
    overhead_ns: u64,
    pending: Pending,
    /// The event count of the object that it waits for, when the wait began.
    seen: u64,
    character: CharacterId,
    /// The contention models' number for the threads that share memory with it.
    program: u32,
    wake: u32,
}

#[derive(Debug)]
struct TenantRun {
    setup: TenantSetup,
    /// The first of its tasks and threads. Each kind is numbered consecutively.
    first_task: TaskIx,
    tasks: usize,
    first_thread: ThreadIx,
    threads: usize,
    guest: Option<Guest>,
    objects: Vec<SyncObject>,
    characters: Vec<CharacterId>,
    /// Whether its threads share lines.
    shares: bool,
    /// The contention models' number of its first sharing group, and the number of groups.
    program: u32,
    groups: u32,
    shared: Shared,
    live_threads: usize,
    started: bool,
    parked: bool,
    started_ns: u64,
    phase: usize,
    phase_ns: u64,
    /// Work done, in nanoseconds of solo run time × 2^20.
    work_done: u128,
    completions: Completions,
    start: u32,
    cut: u32,
}

/// Totals of a run: what happened and how often.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Events taken from the queue.
    pub events: u64,
    /// Ticks of single CPUs.
    pub ticks: u64,
    /// Context switches.
    pub switches: u64,
    /// Wake-ups.
    pub wakeups: u64,
}

/// The running modelled machine.
pub struct Engine {
    now_ns: u64,
    model: Rc<MachineModel>,
    timers: Timers,
    slots: Vec<Slot>,
    tick: u32,
    contend: u32,
    sched: Box<dyn Scheduler>,
    contention: System,
    noise: Noise,
    cpus: Vec<Cpu>,
    busy: CpuSet,
    tasks: Vec<Task>,
    threads: Vec<Thread>,
    tenants: Vec<TenantRun>,
    tenant_names: Vec<Tenant>,
    distances: Distances,
    weights: Vec<u32>,
    /// The values that a policy has set.
    weights_now: Vec<u32>,
    guest_slice_ns: u64,
    /// The time until a spinning thread notices that its wait is over: one transfer of a line.
    notice_ns: u64,
    fx: Effects,
    rates: Vec<CpuRate>,
    dirty: Vec<CpuIx>,
    stirred: bool,
    /// The CPU that acts in the present event.
    acting: Option<CpuIx>,
    window_ns: u64,
    master_ticks: u64,
    unfinished: usize,
    trace: Option<Trace>,
    trace_limit: usize,
    totals: Totals,
    fault: Option<Fault>,
    /// Checks conservation at every event, not only at every observation.
    pub paranoid: bool,
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("now_ns", &self.now_ns).field("totals", &self.totals).finish()
    }
}

impl Engine {
    /// From this time on, the engine is wrong by one nanosecond on its first CPU. It tests whether the
    /// checkers, and everything after them, notice.
    pub fn miscount_at(&mut self, at_ns: u64) {
        let slot = self.add_slot(Slot::Miscount);
        self.timers.arm(slot, at_ns);
    }

    /// The present time.
    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// The machine.
    pub fn model(&self) -> &MachineModel {
        &self.model
    }

    /// The totals until now.
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// Whether every tenant that has an end and is not in the background has ended once.
    pub fn is_finished(&self) -> bool {
        self.unfinished == 0
    }

    /// Runs until `until_ns`.
    ///
    /// # Errors
    /// [`Fault`] if the scenario cannot go on or a checker fires.
    pub fn run_until(&mut self, until_ns: u64) -> Result<(), Fault> {
        while let Some((at_ns, slot)) = self.timers.pop(until_ns) {
            self.event(at_ns, slot)?;
        }
        self.now_ns = self.now_ns.max(until_ns);
        Ok(())
    }

    /// Runs until every tenant that has an end has ended, and at most until `horizon_ns`. Returns `false` if
    /// the horizon came first.
    ///
    /// # Errors
    /// [`Fault`], for example a deadlock: nothing can ever happen again.
    pub fn run_to_end(&mut self, horizon_ns: u64) -> Result<bool, Fault> {
        while !self.is_finished() {
            match self.timers.pop(horizon_ns) {
                Some((at_ns, slot)) => self.event(at_ns, slot)?,
                // A parked tenant waits for its controller, not for an event.
                None if !self.timers.is_empty() || self.tenants.iter().any(|t| t.parked) => {
                    self.now_ns = self.now_ns.max(horizon_ns);
                    return Ok(false);
                }
                None => return Err(Fault::Scenario(self.describe_deadlock())),
            }
        }
        Ok(true)
    }

    fn event(&mut self, at_ns: u64, slot: u32) -> Result<(), Fault> {
        debug_assert!(at_ns >= self.now_ns, "time goes back");
        self.now_ns = at_ns;
        self.totals.events += 1;
        self.acting = None;
        match self.slots[slot as usize] {
            Slot::Tick => self.tick(),
            Slot::Contention => self.stirred = true,
            Slot::Step(cpu) => {
                self.acting = Some(cpu);
                self.step(cpu);
            }
            Slot::Resched(cpu) | Slot::Slice(cpu) | Slot::Delay(cpu) => {
                self.acting = Some(cpu);
                self.switch(cpu);
            }
            Slot::Wake(thread) => self.sleep_over(thread),
            Slot::Start(tenant) => self.start_tenant(tenant),
            Slot::Cut(tenant) => self.cut(tenant),
            Slot::Noise(cpu) => self.take_cpu(cpu),
            Slot::Miscount => self.cpus[0].busy_ns += 1,
        }
        self.finish_instant();
        if self.paranoid {
            self.check_everything();
        }
        if self.fault.is_none() {
            return Ok(());
        }
        self.fault.take().map_or(Ok(()), Err)
    }

    /// The tick of all busy CPUs. It stops when none is left and starts again with the first.
    fn tick(&mut self) {
        let mut from = 0;
        while let Some(cpu) = self.busy.next(from) {
            from = cpu + 1;
            self.totals.ticks += 1;
            self.acting = Some(cpu);
            self.sched.tick(self.now_ns, cpu, &mut self.fx);
            self.absorb();
            self.draw_noise(cpu);
        }
        self.acting = None;
        self.sched.master_tick(self.now_ns, &mut self.fx);
        self.absorb();
        self.check_progress();
        if !self.busy.is_empty() {
            self.arm_tick();
        }
    }

    /// On all CPUs, ticks come at multiples of their distance.
    fn arm_tick(&mut self) {
        let period = self.sched.tick_ns();
        self.timers.arm(self.tick, (self.now_ns / period + 1) * period);
    }

    /// Everything that must be done before time passes: reschedule, update rates, arm.
    fn finish_instant(&mut self) {
        self.absorb();
        for i in 0..self.dirty.len() {
            self.tell(self.dirty[i]);
        }
        if std::mem::take(&mut self.stirred) {
            self.rates.clear();
            self.contention.refresh(self.now_ns, &mut self.rates);
            for i in 0..self.rates.len() {
                let CpuRate { cpu, progress } = self.rates[i];
                self.settle(cpu as usize);
                self.cpus[cpu as usize].rate = progress;
                self.soil(cpu as usize);
            }
            match self.contention.next_ns() {
                Some(at_ns) => self.timers.arm(self.contend, at_ns.max(self.now_ns + 1)),
                None => self.timers.disarm(self.contend),
            }
        }
        while let Some(cpu) = self.dirty.pop() {
            self.arm(cpu);
        }
    }

    /// Notes that a CPU must be armed again.
    fn soil(&mut self, cpu: CpuIx) {
        if !std::mem::replace(&mut self.cpus[cpu].dirty, true) {
            self.dirty.push(cpu);
        }
    }

    fn fail(&mut self, fault: Fault) {
        self.fault.get_or_insert(fault);
    }
}
