//! What cannot be seen or done here, and why, as facts.
//!
//! Code uses [`What`], never its words. Files contain the name of a `What`, which is read back. An unknown name, such as one of a newer
//! corun, is kept as it is.

use crate::counters::Counter;
use crate::why::Why;
use serde::{Deserialize, Serialize};

/// Something that cannot be seen or done here, with the reason (invariant 7).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Unavailable {
    /// The thing that is unavailable.
    pub what: What,
    /// The reason. Its sentence names a remedy.
    pub why: Why,
}

impl Unavailable {
    /// Makes an entry.
    pub fn new(what: What, why: Why) -> Unavailable {
        Unavailable { what, why }
    }
}

macro_rules! whats {
    ($($(#[$doc:meta])* $variant:ident = $name:literal,)*) => {
        /// A thing that may be unavailable.
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(into = "String", from = "String")]
        pub enum What {
            $($(#[$doc])* $variant,)*
            /// eBPF, and everything that only the probe sees.
            Ebpf {
                /// Whether only a privilege is missing, which root has.
                for_want_of_privilege: bool,
            },
            /// These hardware events.
            Counters(Vec<Counter>),
            /// Dedicated windows without these tenants, which ran in them, as a list.
            WindowsWithout(String),
            /// An unknown name from a file.
            Other(String),
        }

        /// The variants without data.
        const NAMED: &[(What, &str)] = &[$((What::$variant, $name),)*];
    };
}

whats! {
    /// The holders of the CPU while a task waited.
    Culprits = "culprits",
    /// Counts that only a probe in the kernel has.
    Events = "wake-ups, migrations, reasons of blocking, histograms, traces",
    /// How often tasks called `sched_yield`.
    Yields = "calls of sched_yield",
    /// Tasks that begin and end between two looks at `/proc`.
    ShortTasks = "tasks that live between two polls",
    /// What the hypervisor took.
    HostSteal = "host steal",
    /// The program's behavior without the hypervisor, which took much.
    Hypervisor = "hypervisor",
    /// All CPUs of a container that is shown fewer.
    AllCpus = "all CPUs",
    /// Which tasks are stopped or frozen.
    Stops = "stops and freezes",
    /// Which waits are for a real-time budget.
    RealTimeBudgets = "real-time budgets",
    /// Every tenant separately, if there were too many.
    EveryTenant = "every tenant by itself",
    /// Hardware events of tasks.
    HardwareCounters = "hardware counters",
    /// The same, for some time: none was read.
    AllCounters = "all hardware counters",
    /// Counts without an error of sampling.
    ExactCounters = "exact counters",
    /// Hardware events in kernel mode.
    KernelEvents = "hardware events in the kernel",
    /// Counters of the tasks with the least CPU time.
    CountersOfLessBusy = "counters of the less busy tasks",
    /// Counters of tasks that may not be followed.
    CountersOfSomeTasks = "counters of some tasks",
    /// Counters of tasks from their start.
    CountersOfNewTasks = "counters of tasks that have just begun",
    /// Counters of each task, if a command is counted as a whole.
    CountersOfSingleTasks = "counters of single tasks",
    /// Counters of windows that could not be read.
    CountersOfSomeWindows = "counters of some windows",
    /// Counters of the subject over the whole run.
    CountersOfSubject = "counters of the subject",
    /// Counters of tasks that are no longer separate.
    CountersOfEndedTasks = "counters of some tasks that have ended",
    /// A run that counting did not slow down.
    UndisturbedRun = "an undisturbed run",
    /// Spinning as distinct from computing, on this host.
    Spin = "spin",
    /// The same for a predictor: it was unknown for some of the time.
    SpinTime = "spin time",
    /// The same, from samples.
    SpinFromSamples = "spin time from samples",
    /// The same for a virtual machine.
    SpinOfVirtualCpus = "spin time of virtual CPUs",
    /// The same for processes whose code cannot be read.
    SpinOfSomeProcesses = "spin time of some processes",
    /// The same for tasks that may not be watched.
    SpinOfSomeTasks = "spin time of some tasks",
    /// How long the subject spun.
    Spinning = "spinning",
    /// Spinning with system calls.
    SpinInYield = "spinning inside sched_yield",
    /// Samples of all tasks at the same time.
    ContinuousSampling = "continuous sampling of all tasks",
    /// Samples that were lost.
    SomeSamples = "some samples",
    /// The cost of memory.
    Memory = "memory",
    /// The cost of a context switch for the program.
    SwitchCost = "cost of context switches",
    /// The duration of a solo run, from a replay.
    Replay = "replay",
    /// The cost of a wake-up.
    WakeUps = "wake-ups",
    /// The same, as measured before a run.
    WakeUpTime = "what a wake-up takes",
    /// Equal speed in all seconds.
    SteadySpeed = "steady speed",
    /// The CPUs that its tasks would use in a solo run.
    Placement = "placement",
    /// Windows in which the subject ran alone.
    DedicatedWindows = "dedicated windows",
    /// The energy of a run in joules, on a modelled machine or on this one.
    Energy = "energy",
    /// Figures of a modelled machine that were not measured.
    MachineFigures = "figures of the machine",
    /// The slowdown of a tenant.
    Slowdown = "slowdown",
}

impl What {
    /// Its name in files and for people.
    pub fn name(&self) -> String {
        match self {
            What::Ebpf { .. } => "eBPF".into(),
            What::Counters(counters) => counters.iter().map(|c| c.name()).collect::<Vec<_>>().join(", "),
            What::WindowsWithout(whom) => format!("dedicated windows without {whom}"),
            What::Other(name) => name.clone(),
            named => NAMED.iter().find(|(what, _)| what == named).map_or("", |(_, name)| name).into(),
        }
    }

    /// Whether it is spinning time, of any tasks and with any method.
    pub fn is_spin_time(&self) -> bool {
        matches!(
            self,
            What::SpinTime
                | What::SpinFromSamples
                | What::SpinOfVirtualCpus
                | What::SpinOfSomeProcesses
                | What::SpinOfSomeTasks
        )
    }

    /// Whether it is about spinning.
    pub fn is_spin(&self) -> bool {
        self.is_spin_time() || matches!(self, What::Spin | What::Spinning | What::SpinInYield)
    }

    /// Whether an answer is equally good without it, or mentions it elsewhere.
    pub fn matters_little(&self) -> bool {
        matches!(
            self,
            What::Culprits
                | What::HostSteal
                | What::SpinInYield
                | What::ShortTasks
                | What::Events
                | What::Yields
                | What::Energy
        )
    }
}

impl std::fmt::Display for What {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name())
    }
}

impl From<What> for String {
    fn from(what: What) -> String {
        what.name()
    }
}

impl From<String> for What {
    fn from(name: String) -> What {
        if let Some((what, _)) = NAMED.iter().find(|(_, known)| *known == name) {
            return what.clone();
        }
        if name == "eBPF" {
            return What::Ebpf { for_want_of_privilege: false };
        }
        let counters: Option<Vec<Counter>> = name.split(", ").map(Counter::from_name).collect();
        counters.map_or(What::Other(name), What::Counters)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_one_things_and_is_read_back() {
        for (n, (what, name)) in NAMED.iter().enumerate() {
            assert!(NAMED[..n].iter().all(|(_, other)| other != name), "{name}");
            assert_eq!((&What::from(name.to_string()), what.name().as_str()), (what, *name));
        }
        let two = What::Counters(vec![Counter::Cycles, Counter::L2Misses]);
        assert_eq!((two.name().as_str(), What::from(two.name())), ("cycles, l2_misses", two));
        let unknown = What::from("the weather".to_owned());
        assert_eq!(unknown.name(), "the weather");
    }
}
