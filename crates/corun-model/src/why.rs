//! Why something cannot be seen or done here, and how a knob is turned, as facts with their data.
//!
//! A reason is made where it is found and is read in reports, messages of errors, and files of every layer. So its sentence is made
//! in one place for all of them, `why/words.rs`: no other library writes one. What an interface below says in words of its own, such as
//! libbpf of a probe, is kept as it is ([`Why::Said`]), and so is what a file holds.

mod words;

use serde::{Deserialize, Serialize};

/// Why something is unavailable. Its `Display` is the sentence, with what would help.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", from = "String")]
pub enum Why {
    /// In the words of what refused it: the kernel's, a library's, or those of a file that is read back.
    Said(String),

    /// eBPF cannot be had.
    NoEbpf {
        /// What refused it, in its own words.
        cause: String,
    },
    /// It cannot be had, and nobody said why.
    CannotBeHad,
    /// The schedstat source does not tell.
    SchedstatIsSilent,
    /// To schedstat a wait is nobody's doing.
    SchedstatNamesNobody,
    /// To schedstat a stopped task is blocked.
    SchedstatTakesStopsForBlocking,
    /// To schedstat a used-up budget is a wait for a CPU.
    SchedstatTakesBudgetsForWaits,
    /// The kernel counts a call of `sched_yield` as a preemption.
    KernelTakesYieldsForPreemptions,
    /// `/proc` is polled.
    ProcIsPolled,
    /// The schedstat source reads no counters.
    SchedstatReadsNoCounters,
    /// The hypervisor has reported no steal since boot.
    NoHostStealReported,
    /// The probe does not see what a task runs.
    ProbeSeesNoSpinning,
    /// Events are counted only for callers that ask for them.
    CountedOnRequest,
    /// A container is shown fewer CPUs than it may use.
    ShownFewer {
        /// So many are shown.
        shown: usize,
        /// So many may be used.
        usable: usize,
    },
    /// Tenants were counted together.
    TooManyTenants {
        /// Also tenants of different names.
        with_others: bool,
    },

    /// The kernel counts no hardware events.
    NoCounters {
        /// What it answered.
        refusal: NoCounters,
        /// They were needed: nothing goes on without.
        is_needed: bool,
    },
    /// This CPU has no such event.
    NoSuchEvent {
        /// Its table.
        cpu: String,
    },
    /// No event counts it.
    NoEventCountsIt,
    /// There is no table of this CPU's events.
    NoEventTable {
        /// What the CPU calls itself.
        cpu: String,
    },
    /// Nothing says which CPU this is.
    UnknownCpu,
    /// This user may count only in user mode.
    OnlyInUserMode,
    /// No more files may be opened.
    NoFilesForCounters {
        /// So many a task would take.
        files: usize,
        /// The kernel's error.
        error: String,
    },
    /// Counters stood still.
    CountersStoodStill,
    /// Groups of counters take turns.
    CountersTakeTurns,
    /// A task is counted from the end of its first window.
    CountedFromSecondWindow,
    /// A command is counted as a whole.
    CountedAsWhole,
    /// Too much of the time was that of tasks that are not followed.
    TooMuchNotFollowed,
    /// Counting makes switches dearer.
    CountingIsDear {
        /// So much each, in nanoseconds.
        added_ns: u64,
        /// More than this share of the tasks' time on a CPU, in percent.
        above_percent: u64,
    },
    /// Counting was ended, since it took too much.
    CountingEnded {
        /// What it took, in percent of the time on a CPU.
        percent: u64,
        /// What it may take.
        most_percent: u64,
    },
    /// More tasks were counted than can be kept apart.
    TooManyCounted,
    /// A part of the time was counted.
    CountedInPart {
        /// So much of it, in percent.
        percent: u64,
    },
    /// A recording of counters lacks this window.
    NoSuchWindow,

    /// The virtual machine is emulated.
    Emulated,
    /// There is no tracepoint of KVM.
    NoKvmTracepoint,
    /// KVM does not watch for PAUSE.
    NoPauseExits,
    /// KVM is not loaded.
    NoKvm,
    /// The kernel's own code may not be sampled.
    KernelNotSampled,
    /// The code of some processes cannot be read.
    CodeUnreadable {
        /// So many processes.
        processes: usize,
        /// What the kernel says of one.
        cause: String,
    },
    /// Some tasks may not be watched.
    TasksForbidden {
        /// So many.
        tasks: usize,
    },
    /// Some tasks wait for their turn to be sampled.
    TasksTakeTurns {
        /// So many.
        tasks: usize,
    },
    /// Samples found no room.
    SamplesLost {
        /// So many.
        samples: u64,
    },
    /// No time on a CPU was judged.
    NothingJudged,

    /// The hypervisor took much, and would alone.
    HypervisorTook {
        /// In percent of the CPUs' busy time.
        percent: u64,
    },
    /// Nobody told spinning from computing for some of the time.
    SpinningNotTold,
    /// What a switch costs cannot be inferred.
    NoSwitchCost(NoSwitchCost),
    /// Memory stalls were not counted.
    StallsNotCounted,
    /// They were counted in a part of the time.
    StallsCountedInPart {
        /// In percent of the time on a CPU.
        percent: u64,
    },
    /// How long it stalls alone is not known.
    StallsAloneUnknown,
    /// Spinning stalls as well.
    SpinningHidesStalls,
    /// There were too few dedicated windows.
    TooFewDedicated {
        /// So many.
        taken: usize,
        /// A replay stands in for them, instead of the ledger.
        by_replay: bool,
    },
    /// Dedicated windows ended in the middle of a run.
    DedicatedEnded {
        /// So long after its beginning, in nanoseconds.
        after_ns: u64,
        /// What failed, and what became of it.
        cause: String,
    },
    /// It was fast or slow for seconds at a time.
    FastOrSlowForLong,
    /// Alone its speed depends on how many CPUs its tasks are on, which differed.
    OneOfSeveralPlacements {
        /// By so much of the slowdown, in percent.
        percent: u64,
    },
    /// In dedicated windows its tasks were on fewer CPUs than alongside others.
    AnotherPlacement {
        /// That makes so much of the slowdown, in percent.
        percent: u64,
    },
    /// Nobody measured what a wake-up takes, and it matters.
    WakeUpsNotMeasured,
    /// The run cannot be replayed.
    NoReplay(NoReplay),
    /// What the tasks of a cgroup do is not recorded.
    CgroupNotRecorded,

    /// No counter tells this machine's energy.
    NoEnergy(NoEnergy),
    /// Nobody measured what power this machine takes.
    PowerNotMeasured,
    /// A machine file says nothing of power.
    PowerNotInFile {
        /// The machine.
        machine: String,
    },
    /// Nobody measured some figures of this machine.
    FiguresNotMeasured {
        /// Which, as a list.
        figures: String,
    },
    /// A tenant made no progress in some run.
    NoProgress {
        /// Its name.
        tenant: String,
    },
    /// The modelled machine has no CPU budgets.
    NoBudgetsInModel,
    /// Events were lost, so the rest of a recording is left out.
    EventsLost {
        /// So much of it, in nanoseconds.
        left_out_ns: u64,
    },
}

/// Why the kernel counts no hardware events. Its `Display` is the reason, without what would help.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NoCounters {
    /// There are none here.
    NoPmu {
        /// In a virtual machine.
        is_virtual: bool,
        /// The kernel's error.
        error: String,
    },
    /// This user may not.
    Forbidden {
        /// The kernel's error.
        error: String,
        /// The setting `perf_event_paranoid`.
        paranoid: String,
    },
    /// No more files can be opened.
    NoFiles {
        /// The kernel's error.
        error: String,
    },
    /// This kernel cannot encode the event.
    CannotEncode,
    /// Another program has them for itself.
    Busy,
    /// There is no such system call.
    NoSystemCall,
    /// Another error.
    Other {
        /// The kernel's error.
        error: String,
    },
}

/// Why this machine's energy cannot be told. Its `Display` is the reason, with what would help.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NoEnergy {
    /// Nothing here counts it.
    NoCounter,
    /// powercap's counters may be read by root only.
    RootOnly,
    /// perf's power PMU may be read by who may count whole CPUs.
    WholeCpusForbidden,
    /// A counter could not be read.
    Unreadable {
        /// The error, in words.
        error: String,
    },
    /// A counter is shown and does not count.
    StandsStill,
}

/// Why a thread may not be real-time. Its `Display` is the reason with what would help.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoRealTime {
    /// The kernel gives real-time tasks no time.
    KernelGivesNone,
    /// The cgroup that it is in gives them none.
    CgroupGivesNone {
        /// Its folder.
        folder: String,
    },
    /// A filter of system calls forbids it.
    Filtered,
    /// This user may not.
    UserMayNot,
    /// Another error.
    Other {
        /// In words.
        error: String,
    },
}

/// Why sched_ext cannot be had. Its `Display` is the reason, with what would help where that is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoSchedExt {
    /// Tasks have other numbers there than here.
    OtherNamespace {
        /// Why.
        why: &'static str,
        /// What would help.
        remedy: &'static str,
    },
    /// This kernel has none.
    NotInKernel {
        /// Its release.
        release: String,
    },
    /// Another scheduler is loaded.
    AnotherLoaded {
        /// Its name.
        name: String,
        /// What the kernel calls its state.
        state: String,
    },
    /// It could not be begun, in the words of what refused it.
    Failed {
        /// These words.
        said: String,
    },
}

/// Why it cannot be inferred what a context switch costs a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NoSwitchCost {
    /// There are fewer than three tasks.
    TooFewTasks,
    /// Nobody counted how often they block.
    BlockingsUnknown,
    /// Their work differs too much.
    UnequalWork,
    /// They block about equally often.
    EqualBlockings,
    /// Their time does not grow with it.
    NoGrowth,
}

/// Why a run cannot be replayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NoReplay {
    /// Some of what the program did found no room in the run log, or it did more than is worth recording.
    LogIncomplete,
    /// It waits by giving its CPU away, and what it waits for is not recorded.
    WaitsByYielding,
    /// The log contradicts itself: a task waits in it for one that never wakes it.
    Contradiction,
    /// Its sleeps and budgets are such that it would take for ever.
    Endless,
    /// Nothing happened in it.
    Empty,
    /// Replaying it took too much, and was given up.
    GivenUp {
        /// More than this share of a CPU, in percent.
        above_percent: u64,
    },
}

/// By what means a knob is turned here, and what becomes of the value. Its `Display` is the clause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KnobMeans {
    /// A file of the freezer's.
    Freezer {
        /// Its name.
        file: &'static str,
        /// Where the tree of cgroups is mounted.
        mount: String,
    },
    /// Signals, where no cgroup can be made.
    StopSignals,
    /// The slice of a task, which ends at a tick.
    TaskSlice {
        /// From one tick to the next, in nanoseconds.
        tick_ns: u64,
    },
    /// A scheduling class that never preempts at wake-up.
    Batch {
        /// A shorter delay is none, in nanoseconds.
        least_ns: u64,
    },
    /// The kernel's affinity.
    Affinity,
    /// The weight of a cgroup, in this file, and nice elsewhere.
    CgroupWeight {
        /// Its name.
        file: &'static str,
    },
    /// Nice values alone.
    Nice,
    /// A scheduler of corun's own does not dispatch.
    NotDispatched,
    /// It ends slices by a timer.
    SliceTimer,
    /// It waits so long before it preempts.
    PreemptTimer,
    /// It shares over all levels of cgroups.
    FairShares,
}

impl KnobMeans {
    /// Whether what is done is the value that was asked for, and no other that comes near it.
    pub fn is_exact(&self) -> bool {
        match self {
            KnobMeans::TaskSlice { .. } | KnobMeans::Batch { .. } => false,
            KnobMeans::Freezer { .. }
            | KnobMeans::StopSignals
            | KnobMeans::Affinity
            | KnobMeans::CgroupWeight { .. }
            | KnobMeans::Nice
            | KnobMeans::NotDispatched
            | KnobMeans::SliceTimer
            | KnobMeans::PreemptTimer
            | KnobMeans::FairShares => true,
        }
    }
}

/// Why a knob cannot be turned here. Its `Display` is the clause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoKnob {
    /// This kernel has no slice per task.
    NoTaskSlice,
    /// The backend does not know the knob.
    UnknownKnob,
}

impl From<Why> for String {
    fn from(why: Why) -> String {
        why.to_string()
    }
}

impl From<String> for Why {
    fn from(said: String) -> Why {
        Why::Said(said)
    }
}
