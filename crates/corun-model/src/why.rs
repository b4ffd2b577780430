//! Why something cannot be seen or done here, and how a knob is set, as facts with their data.
//!
//! Reasons come from every layer, and appear in reports, error messages and files. So `why/words.rs` makes the sentences for all of
//! them, and no other library does. Words of an interface below, such as libbpf's about a probe, are kept as they are ([`Why::Said`]).
//! So are the words in a file.

mod words;

use serde::{Deserialize, Serialize};

/// Why something is unavailable. Its `Display` is the sentence, with a remedy.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", from = "String")]
pub enum Why {
    /// The words of the kernel, of a library, or of a file that is read back.
    Said(String),

    /// eBPF is not available.
    NoEbpf {
        /// The error of the kernel or library, in its own words.
        cause: String,
    },
    /// It is not available, for an unknown reason.
    CannotBeHad,
    /// The schedstat source does not show it.
    SchedstatIsSilent,
    /// schedstat does not say who caused a wait.
    SchedstatNamesNobody,
    /// schedstat counts a stopped task as blocked.
    SchedstatTakesStopsForBlocking,
    /// schedstat counts a used-up budget as a wait for a CPU.
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
        /// The number of CPUs that it is shown.
        shown: usize,
        /// The number of CPUs that it may use.
        usable: usize,
    },
    /// Tenants were counted together.
    TooManyTenants {
        /// Also tenants of different names.
        with_others: bool,
    },

    /// The kernel counts no hardware events.
    NoCounters {
        /// Its answer.
        refusal: NoCounters,
        /// Whether they are needed, so that nothing goes on without.
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
        /// The CPU's name for itself.
        cpu: String,
    },
    /// The model of this CPU is unknown.
    UnknownCpu,
    /// This user may count only in user mode.
    OnlyInUserMode,
    /// No more files may be opened.
    NoFilesForCounters {
        /// Files that each task needs.
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
    /// Too much of the time belonged to tasks that are not followed.
    TooMuchNotFollowed,
    /// Counting makes switches more expensive.
    CountingIsDear {
        /// The added cost of a switch, in nanoseconds.
        added_ns: u64,
        /// More than this share of the tasks' time on a CPU, in percent.
        above_percent: u64,
    },
    /// Counting was ended, since it took too much.
    CountingEnded {
        /// Its cost, in percent of the time on a CPU.
        percent: u64,
        /// The largest allowed cost, in percent.
        most_percent: u64,
    },
    /// More tasks were counted than can be kept apart.
    TooManyCounted,
    /// A part of the time was counted.
    CountedInPart {
        /// The counted part, in percent.
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
        /// The number of processes.
        processes: usize,
        /// The kernel's error for one of them.
        cause: String,
    },
    /// Some tasks may not be watched.
    TasksForbidden {
        /// How many.
        tasks: usize,
    },
    /// Some tasks wait for their turn to be sampled.
    TasksTakeTurns {
        /// How many.
        tasks: usize,
    },
    /// Samples found no room.
    SamplesLost {
        /// How many.
        samples: u64,
    },
    /// No time on a CPU was judged.
    NothingJudged,

    /// The hypervisor took much time, and would also do so in a solo run.
    HypervisorTook {
        /// In percent of the CPUs' busy time.
        percent: u64,
    },
    /// Spinning was not measured for some of the time.
    SpinningNotTold,
    /// The cost of a switch cannot be inferred.
    NoSwitchCost(NoSwitchCost),
    /// Memory stalls were not counted.
    StallsNotCounted,
    /// They were counted in a part of the time.
    StallsCountedInPart {
        /// In percent of the time on a CPU.
        percent: u64,
    },
    /// Its stall time in a solo run is unknown.
    StallsAloneUnknown,
    /// Spinning stalls as well.
    SpinningHidesStalls,
    /// There were too few dedicated windows.
    TooFewDedicated {
        /// How many.
        taken: usize,
        /// A replay stands in for them, instead of the ledger.
        by_replay: bool,
    },
    /// Dedicated windows ended in the middle of a run.
    DedicatedEnded {
        /// The time from its beginning, in nanoseconds.
        after_ns: u64,
        /// The failure, and its consequence.
        cause: String,
    },
    /// It was fast or slow for seconds at a time.
    FastOrSlowForLong,
    /// Alone its speed depends on how many CPUs its tasks are on, which differed.
    OneOfSeveralPlacements {
        /// The effect on the slowdown, in percent.
        percent: u64,
    },
    /// In dedicated windows its tasks were on fewer CPUs than alongside others.
    AnotherPlacement {
        /// The effect on the slowdown, in percent.
        percent: u64,
    },
    /// The cost of a wake-up was not measured, and it matters.
    WakeUpsNotMeasured,
    /// The run cannot be replayed.
    NoReplay(NoReplay),
    /// The activity of the tasks of a cgroup is not recorded.
    CgroupNotRecorded,

    /// No counter shows this machine's energy.
    NoEnergy(NoEnergy),
    /// The power of this machine was not measured.
    PowerNotMeasured,
    /// A machine file has no power figures.
    PowerNotInFile {
        /// The machine.
        machine: String,
    },
    /// Some figures of this machine were not measured.
    FiguresNotMeasured {
        /// The figures, as a list.
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
        /// The part left out, in nanoseconds.
        left_out_ns: u64,
    },
}

/// Why the kernel counts no hardware events. Its `Display` is the reason, without a remedy.
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

/// Why this machine's energy is unknown. Its `Display` is the reason, with a remedy.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NoEnergy {
    /// Nothing here counts it.
    NoCounter,
    /// powercap's counters may be read by root only.
    RootOnly,
    /// perf's power PMU needs the right to count whole CPUs.
    WholeCpusForbidden,
    /// A counter could not be read.
    Unreadable {
        /// The error, in words.
        error: String,
    },
    /// A counter is shown and does not count.
    StandsStill,
}

/// Why a thread may not be real-time. Its `Display` is the reason, with a remedy.
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
        /// The error, in words.
        error: String,
    },
}

/// Why sched_ext is not available. Its `Display` is the reason, with a remedy if one is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoSchedExt {
    /// Tasks have other numbers there than here.
    OtherNamespace {
        /// Why.
        why: &'static str,
        /// The remedy.
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
        /// The kernel's name for its state.
        state: String,
    },
    /// It could not start, in the words of the kernel or library.
    Failed {
        /// The words.
        said: String,
    },
}

/// Why the cost of a context switch cannot be inferred.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NoSwitchCost {
    /// There are fewer than three tasks.
    TooFewTasks,
    /// Their number of blockings was not counted.
    BlockingsUnknown,
    /// Their work differs too much.
    UnequalWork,
    /// They block about equally often.
    EqualBlockings,
    /// Their time does not grow with the number of blockings.
    NoGrowth,
}

/// Why a run cannot be replayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NoReplay {
    /// The run log is incomplete: it was full, or the program did more than is worth recording.
    LogIncomplete,
    /// It waits by yielding its CPU, and the event that it waits for is not recorded.
    WaitsByYielding,
    /// The log contradicts itself: a task in it waits for another that never wakes it.
    Contradiction,
    /// Its sleeps and budgets would make it take forever.
    Endless,
    /// Nothing happened in it.
    Empty,
    /// The replay took too much, and was stopped.
    GivenUp {
        /// More than this share of a CPU, in percent.
        above_percent: u64,
    },
}

/// How a knob is set here, and how exactly. Its `Display` is the clause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KnobMeans {
    /// A file of the freezer.
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
        /// The period of the tick, in nanoseconds.
        tick_ns: u64,
    },
    /// A scheduling class that never preempts at wake-up.
    Batch {
        /// The shortest delay with an effect, in nanoseconds.
        least_ns: u64,
    },
    /// The kernel's affinity.
    Affinity,
    /// The weight of a cgroup in this file, and nice values elsewhere.
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
    /// It waits before it preempts.
    PreemptTimer,
    /// It shares over all levels of cgroups.
    FairShares,
}

impl KnobMeans {
    /// Whether the knob gets exactly the requested value.
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

/// Why a knob cannot be set here. Its `Display` is the clause.
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
