//! See: where a target's time went, and who took it.

use crate::counting::{self, CountedUnit, Counting, CountingCost};
use crate::end::{left_behind, next_window, EndConditions, Ended};
use crate::error::Error;
use crate::kept_trace::KeptTrace;
use crate::observing_cost::{CostMeter, ObservingCost};
use crate::replay::{not_recorded, Replay, RECORD_BYTES};
use crate::stop::Stop;
use crate::target::{release, Armed, Target};
use corun_linux::clock::process_cpu_ns;
use corun_linux::counters::live::Precision;
use corun_linux::counters::Theme;
use corun_linux::energy::EnergyMeter;
use corun_linux::launch::Running;
use corun_linux::probe::LiveOptions;
use corun_linux::target::Subject;
use corun_linux::watcher::{Source, Watcher};
use corun_linux::Root;
use corun_model::waits::{Longest, Wait};
use corun_model::{
    Host, HostError, Machine, Observation, Recording, TaskId, TenantId, Unavailable, What, Why,
};
use corun_predict::verdict::{Judge, Verdict, MAX_DISTURBANCE};
use std::process::Command;
use std::time::Duration;

/// Bytes of the ring of switches: 24 B each, emptied every 20 ms, so about 30 M switches a second fit.
pub const TRACE_BYTES: u32 = 16 << 20;

/// Watching may cost at most one part in this many of a CPU: closing windows, and replaying.
const WORTH: u32 = 50;
/// The same in percent.
const WORTH_PERCENT: u64 = 100 / WORTH as u64;
/// The additional cost allowed for replays: a short run is replayed once.
const REPLAY_SPARE: Duration = Duration::from_millis(200);

/// How to see.
#[derive(Clone, Debug, Default)]
pub struct ProfileOptions {
    /// The source; `None`: the best one.
    pub source: Option<Source>,
    /// End after this time, in nanoseconds; `None`: with the command, with the subject, or on request.
    pub length_ns: Option<u64>,
    /// Count hardware events. Every context switch of a counted task takes longer.
    pub counters: Option<CountedUnit>,
    /// Keep every context switch; needs eBPF.
    pub trace: bool,
    /// Keep this many of the longest waits for a CPU, one by one; this needs eBPF, and traces every switch.
    pub worst: Option<usize>,
    /// Tasks that can be followed at a time; `None`: four times the present number.
    pub max_tasks: Option<u32>,
}

/// A watched target: an iterator over its windows. Dropping it leaves nothing in the kernel; a command goes
/// on.
pub struct Profile {
    watcher: Watcher,
    counting: Option<Counting>,
    energy: EnergyMeter,
    end: EndConditions,
    ended: Option<Ended>,
    description: String,
    is_deserted: bool,
    first: Option<TaskId>,
    begin_ns: u64,
    slot: Slot,
    cost: CostMeter,
    recording: Recording,
    /// How much of its time the subject lost: the result of `verify`.
    judge: Option<Judge>,
    /// The judge's input about the subject's time alone.
    replay: Option<Replay>,
    /// CPU time of replays during the watch.
    replayed: Duration,
    trace: KeptTrace,
    keeps_trace: bool,
    trace_lost: u64,
    longest: Option<Longest>,
    unavailable: Vec<Unavailable>,
}

impl Profile {
    /// Starts watching, and lets a command begin.
    ///
    /// # Errors
    /// If there is no such target, the machine cannot be watched, or a trace was requested and is not
    /// available. Then a command has not begun.
    pub fn start(target: &Target, options: &ProfileOptions, stop: &Stop) -> Result<Profile, Error> {
        Profile::of(target.arm(&Root::new("/"))?, options, stop)
    }

    /// The same for a command with its own environment and files, which it keeps.
    ///
    /// # Errors
    /// As [`Profile::start`].
    pub fn start_command(command: Command, options: &ProfileOptions, stop: &Stop) -> Result<Profile, Error> {
        Profile::of(Armed::of_command(command)?, options, stop)
    }

    fn of(armed: Armed, options: &ProfileOptions, stop: &Stop) -> Result<Profile, Error> {
        let root = Root::new("/");
        let first = armed.first_task();
        let is_traced = options.trace || options.worst.is_some();
        let replays = matches!(armed.subject, Subject::Command { .. } | Subject::Processes { .. });
        let is_cgroup = matches!(armed.subject, Subject::Cgroup { .. });
        let live = LiveOptions {
            trace_bytes: if is_traced { TRACE_BYTES } else { 0 },
            waits: options.worst.is_some(),
            record_bytes: if replays { RECORD_BYTES } else { 0 },
            max_tasks: options.max_tasks,
            // Otherwise a co-runner with the name of this program would be indistinguishable from it.
            watcher_apart: true,
            ..LiveOptions::new(armed.subject)
        };
        let kernel_counts = corun_bpf::Probe::count_costs();
        let (watcher, mut unavailable) = stop.at_once(|| Watcher::start(&root, live, options.source))?;
        if is_cgroup {
            unavailable.extend(not_recorded(watcher.source()));
        }
        let energy = EnergyMeter::start(&root);
        if is_traced && watcher.source() == Source::Schedstat {
            let of_ebpf = unavailable.iter().find(|u| matches!(u.what, What::Ebpf { .. }));
            let why = of_ebpf.map_or(Why::CannotBeHad, |u| u.why.clone());
            return Err(Error::NoTrace { why });
        }
        let cost = CostMeter::of_what_begins_now(kernel_counts);
        let counting = options
            .counters
            .map(|unit| Counting::start(&root, unit, &Theme::ALL, watcher.subject(), first.as_slice()))
            .transpose()
            .unwrap_or_else(|refused| {
                unavailable.push(refused);
                None
            });
        if options.counters.is_none() {
            unavailable.extend(counting::absent(&root));
        }
        let running = armed.held.map(|held| release(held, stop)).transpose()?;
        let begin_ns = watcher.now_ns();
        let subject = watcher.subject();
        let end_ns = options.length_ns.map(|ns| begin_ns + ns);
        Ok(Profile {
            recording: Recording::about(watcher.subject()),
            judge: watcher.subject().map(|subject| Judge::new(subject, MAX_DISTURBANCE)),
            replay: (replays && watcher.source() == Source::Ebpf).then(|| Replay::new(None)),
            replayed: Duration::ZERO,
            watcher,
            counting,
            energy,
            end: EndConditions { running, end_ns, stop: stop.clone() },
            ended: None,
            description: armed.description,
            is_deserted: armed.is_deserted,
            first,
            begin_ns,
            slot: Slot::default(),
            cost,
            trace: KeptTrace::default(),
            keeps_trace: options.trace,
            trace_lost: 0,
            longest: options.worst.map(|most| Longest::new(most, subject, begin_ns)),
            unavailable,
        })
    }

    /// The target in words.
    pub fn description(&self) -> &str {
        &self.description
    }

    /// Whether it is a cgroup that was empty at the start: later processes in it are watched.
    pub fn is_deserted(&self) -> bool {
        self.is_deserted
    }

    /// The subject's tenant; `None`: everybody is watched alike.
    pub fn subject(&self) -> Option<TenantId> {
        self.watcher.subject()
    }

    /// How it sees.
    pub fn source(&self) -> Source {
        self.watcher.source()
    }

    /// The machine's shape.
    pub fn machine(&self) -> &Machine {
        self.watcher.machine()
    }

    /// What its source cannot see, and why. Windows list what is missing in them.
    pub fn unavailable(&self) -> &[Unavailable] {
        &self.unavailable
    }

    /// Sets the length of the following windows; they are longer if observing is expensive. The default is
    /// 100 ms.
    pub fn set_window(&mut self, length: Duration) {
        self.slot = Slot { length };
    }

    /// Time since it began, in nanoseconds.
    pub fn elapsed_ns(&self) -> u64 {
        self.watcher.now_ns() - self.begin_ns
    }

    fn window(&mut self) -> Result<Observation, HostError> {
        self.ended = self.end.wait(&mut self.watcher, self.slot.length)?;
        // Its own CPU time: on a busy machine it waits for a CPU as others do.
        let began_ns = process_cpu_ns();
        let mut seen = self.watcher.observe()?;
        if let Some(counting) = &mut self.counting {
            counting.read(&mut seen);
        }
        self.energy.fill(&mut seen);
        self.judge.iter_mut().for_each(|judge| judge.push(&seen));
        self.recording.push(seen.clone());
        self.slot.learn(Duration::from_nanos(process_cpu_ns() - began_ns));
        self.follow(&seen);
        let trace = self.watcher.take_trace();
        if let Some(longest) = &mut self.longest {
            longest.push(&trace, seen.end_ns);
            self.watcher.set_least_wait(longest.least_ns());
            self.trace_lost = trace.lost;
        }
        if self.keeps_trace {
            self.trace.take(trace);
        }
        self.cost.sample(&self.watcher, Duration::from_nanos(self.elapsed_ns()));
        Ok(seen)
    }

    /// Takes the subject's events, for a replay, unless that costs too much. If nobody replays them, they are
    /// not recorded.
    fn follow(&mut self, seen: &Observation) {
        let (Some(replay), Some(subject)) = (&mut self.replay, self.watcher.subject()) else { return };
        let Some(log) = self.watcher.take_run_log() else { return };
        let began_ns = process_cpu_ns();
        replay.push(log, seen, subject, false);
        self.replayed += Duration::from_nanos(process_cpu_ns() - began_ns);
        let elapsed = Duration::from_nanos(self.watcher.now_ns() - self.begin_ns);
        if self.replayed > REPLAY_SPARE + elapsed / WORTH {
            replay.give_up(WORTH_PERCENT);
        }
        if replay.is_over() {
            self.watcher.stop_run_log();
        }
    }

    /// Stops watching and sums up. A command that has ended is collected; one that goes on is returned.
    ///
    /// # Errors
    /// If nothing was seen, since the first window was never requested.
    pub fn finish(mut self) -> Result<Profiled, Error> {
        let nothing = || Error::Usage("nothing was seen; let at least one window pass".into());
        let mut whole = self.recording.whole().cloned().ok_or_else(nothing)?;
        let ended = self.ended.unwrap_or(Ended::Interrupted);
        let counters = self.counting.as_ref();
        let turns_taken = counters.and_then(|counting| counting.read_whole(&mut whole));
        let left_behind = match (ended, self.first) {
            (Ended::Command, Some(command)) => Some(left_behind(&whole, self.watcher.subject(), command)),
            _ => None,
        };
        let worst = self.longest.take().map(|mut longest| {
            let open = self.watcher.waiting();
            longest.push(&self.watcher.take_trace(), whole.end_ns);
            longest.finish(whole.end_ns, &open)
        });
        if let (Some(judge), Some(replay)) = (&mut self.judge, &mut self.replay) {
            let evidence = replay.evidence(ended.is_complete(), false);
            evidence.into_iter().for_each(|evidence| judge.push_evidence(evidence));
            judge.know_servers(replay.servers());
            self.unavailable.extend(replay.unavailable());
        }
        // This knows why something requested cannot be seen; the host reports that nobody asked for it.
        whole.unavailable.retain(|u| self.unavailable.iter().all(|own| own.what != u.what));
        whole.unavailable.extend(self.unavailable);
        Ok(Profiled {
            whole,
            recording: self.recording,
            subject: self.watcher.subject(),
            source: self.watcher.source(),
            machine: self.watcher.machine().clone(),
            description: self.description,
            verdict: self.judge.map(|judge| judge.verdict(None)),
            cost: self.cost.cost(),
            turns_taken,
            counting_cost: counters.and_then(Counting::cost),
            trace: self.trace,
            trace_lost: self.trace_lost,
            worst,
            ended,
            left_behind,
            command: self.end.running,
        })
    }
}

impl Iterator for Profile {
    type Item = Result<Observation, Error>;

    /// The next window; `None` once the session has ended.
    fn next(&mut self) -> Option<Result<Observation, Error>> {
        next_window(self, |session| &mut session.ended, Profile::window)
    }
}

/// The whole observation.
pub struct Profiled {
    /// The sum of all windows.
    pub whole: Observation,
    /// The windows, as a timeline of bounded length.
    pub recording: Recording,
    /// The subject's tenant; `None`: everybody was watched alike.
    pub subject: Option<TenantId>,
    /// How it was seen.
    pub source: Source,
    /// The machine's shape.
    pub machine: Machine,
    /// The target in words.
    pub description: String,
    /// How much of its time the subject lost to others; `None` if there was no subject.
    pub verdict: Option<Verdict>,
    /// What watching cost.
    pub cost: ObservingCost,
    /// How exact the counters are, if they took turns.
    pub turns_taken: Option<Precision>,
    /// What counting cost.
    pub counting_cost: Option<CountingCost>,
    /// Every context switch, if a trace was requested.
    pub trace: KeptTrace,
    /// Switches, wake-ups and waits that found no room in the ring, if they were traced.
    pub trace_lost: u64,
    /// The longest waits for a CPU, longest first, on request.
    pub worst: Option<Vec<Wait>>,
    /// Why it ended.
    pub ended: Ended,
    /// Tasks that a command has left behind; `None` if it has not ended, or there was none.
    pub left_behind: Option<usize>,
    /// The command, if there was one. [`Running::wait`] collects it.
    pub command: Option<Running>,
}

/// The length of a window: 100 ms, or longer if observing is expensive, so that it stays below 2 % of a CPU.
struct Slot {
    length: Duration,
}

impl Default for Slot {
    fn default() -> Slot {
        Slot { length: Duration::from_millis(100) }
    }
}

impl Slot {
    fn learn(&mut self, cost: Duration) {
        self.length = self.length.max(WORTH * cost);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_become_longer_if_observing_is_expensive_and_never_shorter() {
        let mut slot = Slot::default();
        slot.learn(Duration::from_millis(1));
        assert_eq!(slot.length, Duration::from_millis(100));
        slot.learn(Duration::from_millis(4));
        slot.learn(Duration::from_millis(1));
        assert_eq!(slot.length, Duration::from_millis(200));
    }
}
