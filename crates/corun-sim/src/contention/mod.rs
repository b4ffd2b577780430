//! Contention: how fast every running task progresses, given who else runs where; and what its counters show.
//!
//! This is the only thing that the engine knows of caches, buses and hyperthreads. The engine says what changes
//! ([`System::set`]), asks once per instant for the rates that changed ([`System::refresh`]) and moves the work
//! of exactly those CPUs; a program without memory character costs nothing.
//!
//! Contract with the engine:
//! - indices are dense: `cpu` is the place in [`Machine::cpus`](corun_model::Machine::cpus), `task` and `program`
//!   are the engine's own numbers (a program's threads share memory with each other and with nobody else);
//! - between two calls of `set` for one CPU its rate holds until `refresh` reports another one;
//! - all times are integer nanoseconds, all rates are fixed point ([`ONE`]); the same calls give the same
//!   answers on every machine (IEEE + - * / only).

use corun_model::workload::Character;
use corun_model::Counters;

use crate::machine_file::MachineModel;

/// Progress of one nanosecond of solo work per nanosecond, as fixed point: 2^20.
pub const ONE: u32 = 1 << 20;

/// A character known to the system, by number: [`System::character`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct CharacterId(pub u32);

/// What a CPU runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Running {
    /// The task whose counters this feeds.
    pub task: u32,
    /// The program it belongs to: threads of one program share memory.
    pub program: u32,
    /// How it uses core and memory now.
    pub character: CharacterId,
    /// It only waits: a tight loop that touches nothing beyond its own L1.
    pub spinning: bool,
}

/// A CPU whose rate changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuRate {
    /// Which.
    pub cpu: u32,
    /// Its task's new progress: nanoseconds of solo work per nanosecond, fixed point ([`ONE`]); at least 1.
    pub progress: u32,
}

/// All contention models together.
#[derive(Debug)]
pub struct System {
    on: Vec<Option<Running>>,
}

impl System {
    /// A quiet machine.
    pub fn new(machine: &MachineModel) -> System {
        System { on: vec![None; machine.machine.cpu_count()] }
    }

    /// Registers a character; equal characters may share a number.
    pub fn character(&mut self, _: &Character) -> CharacterId {
        CharacterId(0)
    }

    /// From `now_ns` on `cpu` runs this (`None`: idle). Counters up to now are settled first.
    pub fn set(&mut self, _now_ns: u64, cpu: u32, running: Option<Running>) {
        self.on[cpu as usize] = running;
    }

    /// Pushes the CPUs whose rate changed since the previous call. A CPU that starts to run something runs it at
    /// [`ONE`] unless it is pushed here.
    pub fn refresh(&mut self, _now_ns: u64, _changed: &mut Vec<CpuRate>) {}

    /// A task's counters since it started, settled up to `now_ns`.
    pub fn counters(&mut self, _now_ns: u64, _task: u32) -> Option<Counters> {
        None
    }

    /// Energy so far, in microjoules: per core (by core number) and for the rest of each package; `None` when the
    /// machine file says nothing of power.
    pub fn energy_uj(&mut self, _now_ns: u64) -> Option<Energy> {
        None
    }
}

/// Energy used since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Energy {
    /// Per core, in microjoules, in the order of core numbers.
    pub cores_uj: Vec<u64>,
    /// Per package beyond its cores, in microjoules, in the order of socket numbers.
    pub packages_uj: Vec<u64>,
}
