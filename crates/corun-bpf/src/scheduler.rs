//! Loading the scheduler, setting its knobs and reading its statistics.
//!
//! The scheduler (`bpf/sched.bpf.c`) runs every ordinary task of the machine from [`Scheduler::start`] on. It
//! stops when the value is dropped, the process ends for any reason, or the kernel removes it. Then the
//! kernel's own scheduler takes over, and [`Scheduler::exit`] says why. Nothing of it outlives the process.

use crate::sched_skel::{types, SchedSkel, SchedSkelBuilder};
use crate::scheduler_exit::SchedulerExit;
use crate::storage::ObjectStorage;
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{Link, MapCore, MapFlags, ProgramInput, ProgramMut};
use std::mem::size_of;
use std::sync::atomic::{AtomicU64, Ordering};
use thiserror::Error;

/// CPUs there can be.
pub const CPUS: usize = 1024;
/// Last-level caches there can be.
pub const LLCS: usize = 64;
/// The cell of all tasks that are in no other.
pub const ROOT_CELL: u32 = 0;
/// No park lasts longer: the kernel removes a scheduler that lets a runnable task wait for 30 s.
pub const PARK_LIMIT_NS: u64 = 20_000_000_000;

/// How the scheduler is set up.
#[derive(Clone, Debug)]
pub struct SchedulerConfig {
    /// The slice of tasks without one of their own.
    pub default_slice_ns: u64,
    /// How far behind the running task a waking task must be to take its CPU.
    pub granularity_ns: u64,
    /// The time after which a park ends by itself; at most [`PARK_LIMIT_NS`] is safe.
    pub park_limit_ns: u64,
    /// The time after which the kernel's watchdog reports a forgotten runnable task: at most 30 s.
    pub watchdog_ms: u32,
    /// The last-level cache of each CPU, numbered from 0 without gaps, by CPU number.
    pub llc_of_cpu: Vec<u8>,
}

impl SchedulerConfig {
    /// The values used everywhere except in tests.
    pub fn new(llc_of_cpu: Vec<u8>) -> SchedulerConfig {
        SchedulerConfig {
            default_slice_ns: 3_000_000,
            granularity_ns: 1_000_000,
            park_limit_ns: PARK_LIMIT_NS,
            watchdog_ms: 30_000,
            llc_of_cpu,
        }
    }
}

/// Why the scheduler could not be started or did not obey.
#[derive(Debug, Error)]
pub enum SchedulerError {
    /// The kernel (or the missing privilege) refused a step.
    #[error("{step}: {why}")]
    Step {
        /// The step that failed.
        step: &'static str,
        /// The error. It is not a `source`, because the sentence contains it already.
        why: libbpf_rs::Error,
    },
    /// The kernel accepted the scheduler and removed it at once.
    #[error("starting the scheduler: {0}")]
    Ejected(SchedulerExit),
    /// The scheduler refused a request.
    #[error("{0}")]
    Refused(&'static str),
    /// More of something than the scheduler has room for.
    #[error("this machine has {n} {what}; the scheduler has room for {limit}")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// How many there are.
        n: usize,
        /// How many there may be.
        limit: usize,
    },
}

fn step(step: &'static str) -> impl FnOnce(libbpf_rs::Error) -> SchedulerError {
    move |why| SchedulerError::Step { step, why }
}

/// The settings of one task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskKnobs {
    /// Bounds of its slice in nanoseconds, equal for a fixed one; `None`: the default slice.
    pub slice_ns: Option<(u64, u64)>,
    /// How long its preemption is delayed when it wakes up, in nanoseconds.
    pub preempt_delay_ns: u64,
    /// The cell it belongs to; `None`: that of its cgroup.
    pub cell: Option<u32>,
    /// Whether it is never parked: then it belongs to the root, whatever its cell.
    pub is_protected: bool,
}

/// A cell, with its statistics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    /// Its number.
    pub id: u32,
    /// The cell in which it shares time with others.
    pub parent: u32,
    /// Its cgroup's id; `None` for one that user space made.
    pub cgroup: Option<u64>,
    /// Its weight, as `cpu.weight`.
    pub weight: u32,
    /// Whether it is parked.
    pub is_parked: bool,
    /// Sum of the weights of its own runnable tasks.
    pub runnable_weight: u32,
    /// CPU time its tasks had.
    pub ran_ns: u64,
    /// Times a task of it got a CPU.
    pub stretches: u64,
    /// How many of these ended with the task still runnable.
    pub preempted: u64,
    /// Parks that ended by themselves, because their lease expired or they reached the limit.
    pub expired_parks: u64,
    /// Stretches by length: entry `i` counts those under 2^(i+6) µs, the last one all longer ones.
    pub lengths: Vec<u64>,
}

/// The statistics of a CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuStats {
    /// Times a task got it.
    pub switches: u64,
    /// Tasks that woke up onto it while it was idle.
    pub direct: u64,
    /// Tasks it took from a queue.
    pub picked: u64,
    /// Slices renewed because nobody deserved it more.
    pub kept: u64,
    /// Wake-ups that took it at once.
    pub preempts_now: u64,
    /// Wake-ups that took it after their delay.
    pub preempts_late: u64,
    /// Slices that the scheduler's own timer ended.
    pub slice_ends: u64,
    /// Wake-ups of kernel threads bound to it.
    pub kernel: u64,
}

/// What the scheduler had no room for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SchedulerLosses {
    /// Cgroups that share their parent's cell.
    pub cells: u64,
    /// Events of tasks without a record.
    pub tasks: u64,
}

/// The loaded scheduler. Dropping it returns the machine to the kernel's own scheduler.
pub struct Scheduler {
    // Dropped first: nothing is unloaded while it still schedules.
    link: Option<Link>,
    skel: SchedSkel<'static>,
    cpu_count: usize,
    _object: ObjectStorage,
}

impl Scheduler {
    /// Loads the scheduler and gives it the machine.
    ///
    /// # Errors
    /// [`SchedulerError`] naming the step that failed; then the kernel's own scheduler goes on.
    pub fn start(config: &SchedulerConfig) -> Result<Scheduler, SchedulerError> {
        libbpf_rs::set_print(None);
        let cpu_count = config.llc_of_cpu.len();
        let llcs = config.llc_of_cpu.iter().max().map_or(1, |&most| usize::from(most) + 1);
        for (what, n, limit) in [("CPUs", cpu_count, CPUS), ("last-level caches", llcs, LLCS)] {
            if n > limit {
                return Err(SchedulerError::TooMany { what, n, limit });
            }
        }
        let (storage, object) = ObjectStorage::new();
        let mut open = SchedSkelBuilder::default().open(object).map_err(step("opening the scheduler"))?;
        let fixed = open.maps.rodata_data.as_deref_mut().expect("the scheduler has constants");
        fixed.default_slice_ns = config.default_slice_ns;
        fixed.granularity_ns = config.granularity_ns;
        fixed.park_limit_ns = config.park_limit_ns;
        fixed.llcs = llcs as u32;
        fixed.llc_of_cpu[..cpu_count].copy_from_slice(&config.llc_of_cpu);
        let ops = open.struct_ops.corun_mut();
        ops.timeout_ms = config.watchdog_ms;
        if !kernel_schedules_cgroups() {
            ops.cgroup_init = std::ptr::null_mut();
            ops.cgroup_exit = std::ptr::null_mut();
            ops.cgroup_move = std::ptr::null_mut();
            ops.cgroup_set_weight = std::ptr::null_mut();
        }
        let mut skel = open.load().map_err(step("loading the scheduler into the kernel"))?;
        // Since Linux 7.1, a program that is not part of a scheduler must name the one that it calls.
        let progs =
            [&skel.progs.cell_new, &skel.progs.cell_free, &skel.progs.cell_weight, &skel.progs.cell_park];
        for prog in progs {
            // Older kernels do not have this, and do not need it.
            let _ = prog.assoc_struct_ops(&skel.maps.corun);
        }
        let link =
            skel.maps.corun.attach_struct_ops().map_err(step("giving the machine to the scheduler"))?;
        let scheduler = Scheduler { link: Some(link), skel, cpu_count, _object: storage };
        match scheduler.exit() {
            Some(exit) => Err(SchedulerError::Ejected(exit)),
            None => Ok(scheduler),
        }
    }

    /// Returns the machine to the kernel's own scheduler; the counts can still be read.
    pub fn stop(&mut self) {
        self.link = None;
    }

    /// Why the scheduler no longer schedules; `None` while it does.
    pub fn exit(&self) -> Option<SchedulerExit> {
        // SAFETY: a mapped, aligned field; the kernel writes `kind` last.
        let said = unsafe { std::ptr::from_ref(&self.bss().scheduler_exit).read_volatile() };
        (said.kind != 0)
            .then(|| SchedulerExit::new(said.kind as u32, &bytes(&said.reason), &bytes(&said.message)))
    }

    /// Sets a task's knobs; they take effect after the next [`announce`](Scheduler::announce).
    ///
    /// # Errors
    /// When the table of tasks with knobs is full.
    pub fn set_task(&self, tid: u32, knobs: &TaskKnobs) -> Result<(), SchedulerError> {
        let (slice_min_ns, slice_max_ns) = knobs.slice_ns.unwrap_or((0, 0));
        let mut value = [0u8; size_of::<types::knob>()];
        for (at, field) in [slice_min_ns, slice_max_ns, knobs.preempt_delay_ns].iter().enumerate() {
            value[at * 8..at * 8 + 8].copy_from_slice(&field.to_ne_bytes());
        }
        let flags = u32::from(knobs.cell.is_some()) | u32::from(knobs.is_protected) << 1;
        value[24..28].copy_from_slice(&knobs.cell.unwrap_or(ROOT_CELL).to_ne_bytes());
        value[28..32].copy_from_slice(&flags.to_ne_bytes());
        self.skel
            .maps
            .knobs
            .update(&tid.to_ne_bytes(), &value, MapFlags::ANY)
            .map_err(step("setting a task's knobs"))
    }

    /// Makes the scheduler read the knobs that were set: each task's when it next wakes up, runs or ends a
    /// slice.
    pub fn announce(&self) {
        self.word(&self.bss().control.generation).fetch_add(1, Ordering::Release);
    }

    /// The cell of a cgroup, by the id of its folder; `None` if the kernel does not schedule it as one.
    pub fn cell_of_cgroup(&self, id: u64) -> Option<u32> {
        let value = self.skel.maps.cell_of_cgroup.lookup(&id.to_ne_bytes(), MapFlags::ANY).ok()??;
        let cell = u32::from_ne_bytes(value.try_into().ok()?);
        // A cgroup without room for a cell belongs to the cell above, which others share.
        let own = self.word(&self.bss().cells.get(cell as usize)?.cgroup).load(Ordering::Relaxed);
        (cell == ROOT_CELL || own == id).then_some(cell)
    }

    /// Forgets the settings of a task that has ended: another may get its number.
    pub fn forget_task(&self, tid: u32) {
        // Usually the scheduler has done so itself.
        let _ = self.skel.maps.knobs.delete(&tid.to_ne_bytes());
    }

    /// Creates a cell within `parent`, to put tasks into.
    ///
    /// # Errors
    /// If there is no free one or the parent is too deep.
    pub fn new_cell(&self, parent: u32, weight: u32) -> Result<u32, SchedulerError> {
        let args = types::cell_args { parent, weight, ..Default::default() };
        let refused = "the scheduler has no free cell (it has 1024, at most 8 levels deep)";
        Ok(self.call(&self.skel.progs.cell_new, args, refused)?.cell)
    }

    /// Returns a cell that this process created.
    ///
    /// # Errors
    /// While tasks are in it, asleep or not.
    pub fn free_cell(&self, cell: u32) -> Result<(), SchedulerError> {
        let args = types::cell_args { cell, ..Default::default() };
        self.call(&self.skel.progs.cell_free, args, "somebody is in the cell").map(|_| ())
    }

    /// Sets a cell's weight, 1..=10000.
    ///
    /// # Errors
    /// For the root, which shares with nobody.
    pub fn set_weight(&self, cell: u32, weight: u32) -> Result<(), SchedulerError> {
        let args = types::cell_args { cell, weight, ..Default::default() };
        self.call(&self.skel.progs.cell_weight, args, "the root has no weight").map(|_| ())
    }

    /// Parks a cell with everything in it, or lets it run again. It stays parked as long as the
    /// [lease](Scheduler::renew_lease) holds and at most for the limit in [`SchedulerConfig`].
    ///
    /// # Errors
    /// For the root, in which the kernel's own threads are.
    pub fn park(&self, cell: u32, parked: bool) -> Result<(), SchedulerError> {
        let args = types::cell_args { cell, parked: u32::from(parked), ..Default::default() };
        self.call(&self.skel.progs.cell_park, args, "the root cannot be parked").map(|_| ())
    }

    /// Whether a cell is still parked: a park may have ended by itself.
    pub fn is_parked(&self, cell: u32) -> bool {
        let cell = self.bss().cells.get(cell as usize);
        cell.is_some_and(|c| self.word(&c.parked_since_ns).load(Ordering::Relaxed) != 0)
    }

    /// The time until which parked cells may stay parked, on the kernel's monotonic clock. Without renewal
    /// they all run again.
    pub fn renew_lease(&self, until_ns: u64) {
        self.word(&self.bss().control.lease_until_ns).store(until_ns, Ordering::Release);
    }

    /// The cells in use.
    pub fn cells(&self) -> Vec<Cell> {
        let cells = &self.bss().cells;
        // SAFETY: mapped, aligned, plain data that the kernel side writes; each field is whole by itself.
        let copy = |c: &types::cell| unsafe { std::ptr::from_ref(c).read_volatile() };
        let used = cells.iter().enumerate().map(|(i, c)| (i as u32, copy(c))).filter(|(_, c)| c.used != 0);
        used.map(|(id, c)| Cell {
            id,
            parent: c.parent,
            cgroup: (c.cgroup != 0).then_some(c.cgroup),
            weight: c.weight,
            is_parked: c.parked_since_ns != 0,
            runnable_weight: c.own,
            ran_ns: c.ran_ns,
            stretches: c.stretches,
            preempted: c.preempted,
            expired_parks: c.expired,
            lengths: c.lengths.to_vec(),
        })
        .collect()
    }

    /// The CPUs, by number.
    pub fn cpus(&self) -> Vec<CpuStats> {
        // SAFETY: as in `cells`.
        let copy = |c: &types::cpu| unsafe { std::ptr::from_ref(c).read_volatile() };
        self.bss().cpus[..self.cpu_count]
            .iter()
            .map(copy)
            .map(|c| CpuStats {
                switches: c.switches,
                direct: c.direct,
                picked: c.picked,
                kept: c.kept,
                preempts_now: c.preempts_now,
                preempts_late: c.preempts_late,
                slice_ends: c.slice_ends,
                kernel: c.kernel,
            })
            .collect()
    }

    /// What there was no room for.
    pub fn losses(&self) -> SchedulerLosses {
        let losses = &self.bss().losses;
        let read = |field: &u64| self.word(field).load(Ordering::Relaxed);
        SchedulerLosses { cells: read(&losses.cells), tasks: read(&losses.tasks) }
    }

    fn bss(&self) -> &types::bss {
        self.skel.maps.bss_data.as_deref().expect("the scheduler has data")
    }

    fn word(&self, field: &u64) -> &AtomicU64 {
        // SAFETY: an aligned field of the mapped data section, which lives as long as the skeleton; both sides access
        // it as one word.
        unsafe { AtomicU64::from_ptr(std::ptr::from_ref(field).cast_mut()) }
    }

    /// Runs one of the scheduler's own programs.
    fn call(
        &self,
        program: &ProgramMut<'_>,
        mut args: types::cell_args,
        refused: &'static str,
    ) -> Result<types::cell_args, SchedulerError> {
        // SAFETY: the arguments are plain words without padding, and outlive the call.
        let bytes = unsafe {
            let at = std::ptr::from_mut(&mut args).cast::<u8>();
            std::slice::from_raw_parts_mut(at, size_of::<types::cell_args>())
        };
        let input = ProgramInput { context_in: Some(bytes), ..Default::default() };
        let out = program.test_run(input).map_err(step("asking the scheduler"))?;
        match out.return_value {
            0 => Ok(args),
            _ => Err(SchedulerError::Refused(refused)),
        }
    }
}

/// Whether the kernel tells a scheduler about cgroups, according to its `struct sched_ext_ops`.
fn kernel_schedules_cgroups() -> bool {
    use libbpf_rs::btf::types::Struct;
    let Ok(btf) = libbpf_rs::btf::Btf::from_vmlinux() else { return false };
    let ops = btf.type_by_name::<Struct<'_>>("sched_ext_ops");
    ops.is_some_and(|ops| ops.iter().any(|m| m.name.is_some_and(|n| n == "cgroup_init")))
}

fn bytes(text: &[std::ffi::c_char]) -> Vec<u8> {
    text.iter().map(|&c| c as u8).take_while(|&c| c != 0).collect()
}
