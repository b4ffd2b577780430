//! The sentences of reasons: the only file below `corun-report` that has any. A test of the workspace's habits finds others.

use super::{KnobMeans, NoCounters, NoEnergy, NoKnob, NoRealTime, NoReplay, NoSchedExt, NoSwitchCost, Why};
use crate::duration::human_ns;
use std::fmt::{Display, Formatter, Result};

impl Display for Why {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let words = match self {
            Why::Said(words) => words,
            Why::NoEbpf { cause } => return write!(f, "{cause}; `corun doctor` says what would help"),
            Why::CannotBeHad => "it is not available",
            Why::SchedstatIsSilent => "schedstat does not have it; eBPF does, as root",
            Why::SchedstatNamesNobody => {
                "schedstat counts how long a task waited, not for whom; eBPF does both, as root"
            }
            Why::SchedstatTakesStopsForBlocking => {
                "schedstat counts stopped and frozen tasks as blocked; eBPF separates them, as root"
            }
            Why::SchedstatTakesBudgetsForWaits => {
                "schedstat counts them as waiting for a CPU; eBPF separates them, as root"
            }
            Why::KernelTakesYieldsForPreemptions => {
                "the kernel counts a call of sched_yield as a preemption; eBPF separates them, as root"
            }
            Why::ProcIsPolled => "/proc is polled; their CPU time alone shows in their parents' accounts",
            Why::SchedstatReadsNoCounters => "the schedstat source does not read them",
            Why::NoHostStealReported => {
                "this is a virtual machine whose host has reported no steal since boot"
            }
            Why::ProbeSeesNoSpinning => {
                "the probe sees that a task runs, not what it runs; spinning is part of compute"
            }
            Why::CountedOnRequest => "counted only on request, since every context switch takes longer then",
            Why::ShownFewer { shown, usable } => {
                return write!(
                    f,
                    "this container is shown {shown} of the {usable} CPUs that it may use (lxcfs): programs that count CPUs use {shown}, this report uses {usable}"
                )
            }
            Why::TooManyTenants { with_others } => {
                f.write_str(
                    "there were too many to list each, so ended ones with one name are counted together",
                )?;
                if *with_others { ", and the ones that ran least as `others`" } else { "" }
            }
            Why::NoCounters { refusal, is_needed } => {
                let remedy = if *is_needed { refusal.remedy().to_owned() } else { refusal.optional_remedy() };
                return write!(f, "{refusal}; {remedy}");
            }
            Why::NoSuchEvent { cpu } => {
                return write!(f, "this CPU ({cpu}) has no such event, or only for all tasks together")
            }
            Why::NoEventCountsIt => "no event of this CPU counts it",
            Why::NoEventTable { cpu } => return write!(f, "corun has no event table for `{cpu}`"),
            Why::UnknownCpu => "neither /proc/cpuinfo nor sysfs says which CPU this is",
            Why::OnlyInUserMode => {
                "this user may count only its own work in user mode; `sysctl kernel.perf_event_paranoid=1` or lower, or run \
                 as root"
            }
            Why::NoFilesForCounters { files, error } => {
                return write!(
                    f,
                    "counting takes {files} files a task, and no more may be opened ({error}); raise `ulimit -n`, or watch \
                     fewer tasks"
                )
            }
            Why::CountersStoodStill => {
                "some stood still while their task ran, although the kernel reports that it counted; something else, such \
                 as the hypervisor, uses counters of this CPU"
            }
            Why::CountersTakeTurns => {
                "this CPU has fewer counters than are wanted, so groups of them take turns; their counts are scaled to the \
                 whole time"
            }
            Why::CountedFromSecondWindow => {
                "a task is counted from the end of the window in which it first ran; short windows, or counting the command \
                 as a whole, miss less"
            }
            Why::CountedAsWhole => "the command is counted as a whole, with all the tasks that it creates",
            Why::TooMuchNotFollowed => {
                "more than a tenth of the time was that of tasks that the followed ones did not create, or of the first and \
                 last moments of short-lived ones"
            }
            Why::CountingIsDear { added_ns, above_percent } => {
                return write!(
                    f,
                    "counting makes a switch longer by {} here, which is more than {above_percent} % of these tasks' time on \
                     a CPU; count less, or nothing",
                    human_ns(*added_ns)
                )
            }
            Why::CountingEnded { percent, most_percent } => {
                return write!(
                    f,
                    "counting took {percent} % of the program's time on a CPU, since it switches so often, and was ended \
                     above {most_percent} %"
                )
            }
            Why::TooManyCounted => "more tasks were counted than can be listed; their tenants' counters include them",
            Why::CountedInPart { percent } => {
                return write!(
                    f,
                    "only {percent} % of its time on a CPU was counted, since its tasks begin and end too fast; counting a \
                     command as a whole misses least"
                )
            }
            Why::NoSuchWindow => "the recording has no such window",
            Why::Emulated => {
                "it is emulated (TCG), so KVM sees no PAUSE; hardware counters show where virtual CPUs differ"
            }
            Why::NoKvmTracepoint => "this kernel has no tracepoint kvm:kvm_exit, or it may not be read",
            Why::NoPauseExits => "KVM's pause-loop exiting is switched off",
            Why::NoKvm => "neither kvm_intel nor kvm_amd is loaded here",
            Why::KernelNotSampled => {
                "kernel time may not be sampled; run as root or set kernel.perf_event_paranoid to 1 or less"
            }
            Why::CodeUnreadable { processes: 1, cause } => {
                return write!(f, "the code of one process cannot be read: {cause}")
            }
            Why::CodeUnreadable { processes, cause } => {
                return write!(f, "the code of {processes} processes cannot be read: {cause}")
            }
            Why::TasksForbidden { tasks } => return write!(f, "{tasks} may not be watched; run as root"),
            Why::TasksTakeTurns { tasks } => {
                return write!(f, "{tasks} wait for their turn: too few file descriptors (`ulimit -n`)")
            }
            Why::SamplesLost { samples } => return write!(f, "{samples} found no room in the rings"),
            Why::NothingJudged => "nothing of its time on a CPU was judged",
            Why::HypervisorTook { percent } => {
                return write!(
                    f,
                    "it took {percent} % of the time that this machine's CPUs were busy; the slowdown leaves that out, as if it took as much while the program runs alone"
                )
            }
            Why::SpinningNotTold => {
                "spinning was not separated from computing for some of the time, so the slowdown of a program that spins is understated"
            }
            Why::NoSwitchCost(cause) => return write!(f, "{cause}; it stays inside useful work"),
            Why::StallsNotCounted => {
                "without hardware counters memory stalls are part of compute, so their change is not seen"
            }
            Why::StallsCountedInPart { percent } => {
                return write!(
                    f,
                    "events were counted in only {percent} % of its time on a CPU, since its tasks begin and end too fast"
                )
            }
            Why::StallsAloneUnknown => "how long it stalls alone is not known without dedicated windows",
            Why::SpinningHidesStalls => {
                "it spins, and the stalls of spinning cannot be separated from the others: it stalls for nearly all of its \
                 other time, or always spins alike"
            }
            Why::TooFewDedicated { taken, by_replay } => {
                match taken {
                    0 => f.write_str("none was taken")?,
                    1 => f.write_str("1 of the three that are needed was taken")?,
                    n => write!(f, "{n} of the three that are needed were taken")?,
                }
                f.write_str(", so what the program would do alone ")?;
                match by_replay {
                    true => "comes from a replay of what it did",
                    false => "is derived from its ledger; the interval is wider",
                }
            }
            Why::DedicatedEnded { after_ns, cause } => {
                return write!(f, "they ended after {}, and the rest was only watched: {cause}", human_ns(*after_ns))
            }
            Why::FastOrSlowForLong => {
                "it was fast or slow for seconds at a time, so the observations count as only a few windows, and the interval is wider"
            }
            Why::OneOfSeveralPlacements { percent } => {
                return write!(
                    f,
                    "alone, its speed depends on how many CPUs its threads are on, and runs may differ; the slowdown may be {percent} % more or less"
                )
            }
            Why::AnotherPlacement { percent } => {
                return write!(
                    f,
                    "in dedicated windows its threads were on fewer CPUs than alongside others, so a run alone may be {percent} % faster or slower"
                )
            }
            Why::WakeUpsNotMeasured => {
                "threads sleep so often that the cost of waking a sleeping CPU matters, and nobody measured it; measure it on the idle machine, or state it"
            }
            Why::NoReplay(cause) => {
                return write!(f, "{cause}; what the program would have taken alone comes from its ledger")
            }
            Why::CgroupNotRecorded => {
                "the events of a cgroup's tasks are not recorded; name it by a process (-p), or start it with corun"
            }
            Why::NoEnergy(cause) => return write!(f, "{cause}"),
            Why::PowerNotMeasured => {
                "nobody measured the power of this machine; a machine file with [power] can state it"
            }
            Why::PowerNotInFile { machine } => {
                return write!(f, "the machine file of {machine} does not state its power; add [power] to it")
            }
            Why::FiguresNotMeasured { figures } => {
                return write!(
                    f,
                    "nobody measured {figures}, so they have their defaults; a machine file can give them"
                )
            }
            Why::NoProgress { tenant } => {
                return write!(f, "{tenant} made no progress in some run; give it longer")
            }
            Why::NoBudgetsInModel => {
                "the modelled machine has no CPU budgets (quotas), so its figures are without this program's; the replay has \
                 it"
            }
            Why::EventsLost { left_out_ns } => {
                let left_out = human_ns(*left_out_ns);
                return write!(f, "events were lost, so the last {left_out} of the recording are left out");
            }
        };
        f.write_str(words)
    }
}

impl NoCounters {
    /// The remedy.
    pub fn remedy(&self) -> &'static str {
        match self {
            NoCounters::NoPmu { .. } => "use a metal instance or a VM with a virtual PMU",
            NoCounters::Forbidden { .. } => "`sysctl kernel.perf_event_paranoid=2` or lower, or run as root",
            NoCounters::NoFiles { .. } => "raise `ulimit -n`, or watch fewer tasks",
            NoCounters::CannotEncode => "use a newer kernel",
            NoCounters::Busy => "stop it, or wait until it is done",
            NoCounters::NoSystemCall => {
                "use a kernel with CONFIG_PERF_EVENTS, and allow it in the container's seccomp filter"
            }
            NoCounters::Other { .. } => "use a kernel with CONFIG_PERF_EVENTS",
        }
    }

    /// The remedy, for users who do not need the feature.
    pub fn optional_remedy(&self) -> String {
        // These remedies are too much for users who do not need it.
        let is_dear =
            matches!(self, NoCounters::NoPmu { .. } | NoCounters::CannotEncode | NoCounters::Other { .. });
        format!("{}{}", self.remedy(), if is_dear { "; corun works without" } else { "" })
    }
}

impl Display for NoCounters {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            NoCounters::NoPmu { is_virtual: true, error } => write!(
                f,
                "this virtual machine was given no performance counters (perf_event_open says {error})"
            ),
            NoCounters::NoPmu { is_virtual: false, error } => write!(
                f,
                "this kernel drives no performance counters of this CPU (perf_event_open says {error})"
            ),
            NoCounters::Forbidden { error, paranoid } => {
                write!(f, "perf_event_open says {error} (perf_event_paranoid is {paranoid})")
            }
            NoCounters::NoFiles { error } => write!(f, "no more files can be opened ({error})"),
            NoCounters::CannotEncode => {
                f.write_str("this kernel cannot encode the event (perf_event_open says EINVAL)")
            }
            NoCounters::Busy => {
                f.write_str("another program has the counters for itself (perf_event_open says EBUSY)")
            }
            NoCounters::NoSystemCall => {
                f.write_str("this kernel has no perf_event_open, or a seccomp filter hides it")
            }
            NoCounters::Other { error } => write!(f, "perf_event_open says {error}"),
        }
    }
}

impl NoEnergy {
    /// The reason, without the remedy.
    pub fn reason(&self) -> String {
        match self {
            NoEnergy::NoCounter => "neither powercap nor perf's power PMU counts energy here".into(),
            NoEnergy::RootOnly => "powercap's counters may be read by root only".into(),
            NoEnergy::WholeCpusForbidden => "perf's power PMU counts energy, but not for this user".into(),
            NoEnergy::Unreadable { error } => format!("an energy counter cannot be read: {error}"),
            NoEnergy::StandsStill => "an energy counter is shown here and stands still".into(),
        }
    }

    /// The remedy.
    pub fn remedy(&self) -> &'static str {
        match self {
            NoEnergy::RootOnly => "run as root",
            NoEnergy::WholeCpusForbidden => "run as root, or give corun CAP_PERFMON",
            NoEnergy::NoCounter | NoEnergy::Unreadable { .. } | NoEnergy::StandsStill => {
                "use a physical machine with an Intel or AMD CPU and its RAPL driver"
            }
        }
    }
}

impl Display for NoEnergy {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "{}; {}", self.reason(), self.remedy())
    }
}

impl NoRealTime {
    /// The reason, without the remedy.
    pub fn reason(&self) -> String {
        match self {
            NoRealTime::KernelGivesNone => {
                "the kernel gives real-time tasks no time (kernel.sched_rt_runtime_us is 0)".into()
            }
            NoRealTime::CgroupGivesNone { folder } => {
                format!("the cgroup {folder} gives real-time tasks no time (cpu.rt_runtime_us is 0)")
            }
            NoRealTime::Filtered => "a seccomp filter forbids it".into(),
            NoRealTime::UserMayNot => {
                "this user may not (it lacks CAP_SYS_NICE, and `ulimit -r` is 0)".into()
            }
            NoRealTime::Other { error } => error.clone(),
        }
    }

    /// The remedy, if one is known.
    pub fn remedy(&self) -> Option<&'static str> {
        Some(match self {
            NoRealTime::KernelGivesNone => "set it to 950000, its default",
            NoRealTime::CgroupGivesNone { .. } => {
                "write 10000 into that file, or start corun in another cgroup"
            }
            NoRealTime::Filtered => "start corun outside of this container or sandbox",
            NoRealTime::UserMayNot => "run as root",
            NoRealTime::Other { .. } => return None,
        })
    }
}

impl Display for NoRealTime {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.write_str(&self.reason())?;
        self.remedy().map_or(Ok(()), |remedy| write!(f, "; {remedy}"))
    }
}

impl Display for NoSchedExt {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            NoSchedExt::OtherNamespace { why, remedy } => write!(f, "{why}; {remedy}"),
            NoSchedExt::NotInKernel { release } => write!(
                f,
                "this kernel ({release}) has no sched_ext; use Linux 6.12 or newer with CONFIG_SCHED_CLASS_EXT"
            ),
            NoSchedExt::AnotherLoaded { name, state } => {
                write!(f, "the scheduler {name} is loaded already ({state}); stop it first")
            }
            NoSchedExt::Failed { said } => f.write_str(said),
        }
    }
}

impl Display for NoSwitchCost {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.write_str(match self {
            NoSwitchCost::TooFewTasks => "it takes three tasks to compare",
            NoSwitchCost::BlockingsUnknown => "the number of blockings is not known",
            NoSwitchCost::UnequalWork => "the tasks' work differs too much to be called equal",
            NoSwitchCost::EqualBlockings => "all tasks block about equally often",
            NoSwitchCost::NoGrowth => {
                "what remains of the tasks' time does not grow with how often they block"
            }
        })
    }
}

impl Display for NoReplay {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.write_str(match self {
            NoReplay::LogIncomplete => {
                "some events found no room in the run log, or the program did more than is worth recording"
            }
            NoReplay::WaitsByYielding => {
                "the program waits by yielding its CPU repeatedly, and the event that it waits for is not recorded"
            }
            NoReplay::Contradiction => "a task in it waits for another that never wakes it",
            NoReplay::Endless => "with its sleeps and CPU budgets it would not end",
            NoReplay::Empty => "nothing happened in it",
            NoReplay::GivenUp { above_percent } => {
                return write!(f, "the replay took more than {above_percent} % of a CPU, so it was stopped")
            }
        })
    }
}

impl std::error::Error for NoReplay {}

impl Display for KnobMeans {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.write_str(match self {
            KnobMeans::Freezer { file, mount } => return write!(f, "{file} below {mount}"),
            KnobMeans::StopSignals => {
                "SIGSTOP and SIGCONT, as no cgroup can be made: of processes that may be signalled and are not in a \
                 terminal's foreground"
            }
            KnobMeans::TaskSlice { tick_ns } => {
                return write!(
                    f,
                    "sched_setattr, 0.1 to 100 ms; a running task is stopped at the {} tick only, and a range is drawn from \
                     once an epoch",
                    human_ns(*tick_ns)
                )
            }
            KnobMeans::Batch { least_ns } => {
                return write!(
                    f,
                    "SCHED_BATCH: the task never preempts at wake-up, whatever the delay; one below {} is none",
                    human_ns(*least_ns)
                )
            }
            KnobMeans::Affinity => "sched_setaffinity",
            KnobMeans::CgroupWeight { file } => return write!(f, "{file}, or nice where there is no cgroup"),
            KnobMeans::Nice => "nice",
            KnobMeans::NotDispatched => "not dispatched, without freezing; for at most 20 s at a time",
            KnobMeans::SliceTimer => {
                "ended by a timer of its own, not by the tick; a range is drawn from at every dispatch"
            }
            KnobMeans::PreemptTimer => "a timer per CPU",
            KnobMeans::FairShares => "fair shares over all levels of cgroups, and of commands within them",
        })
    }
}

impl Display for NoKnob {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.write_str(match self {
            NoKnob::NoTaskSlice => "this kernel has no slice per task; use Linux 6.12 or newer",
            NoKnob::UnknownKnob => "this backend does not know the knob",
        })
    }
}
