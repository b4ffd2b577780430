//! Prepares a recorded run for a replay: its tasks become scripts, and its co-runners loops.
//!
//! For each co-runner, a recording holds how many of its tasks wanted CPUs, how much CPU time they had, and
//! how long they waited. The model of a co-runner is a number of loops with the same demand, constant over
//! time. It has no bursts, and ignores what the co-runner does for others.

use super::script::ScriptedProgram;
use super::{Alone, Conditions, NoReplay, Transcriber};
use corun_model::run_log::file::{RunFile, RunWindow};
use corun_model::run_log::{CpuMask, Left, What};
use corun_model::TaskId;
use std::collections::{BTreeMap, BTreeSet};

/// A co-runner with less demand than this, summed over its tasks, is left out, 0..=1.
const LEAST_DEMAND: f64 = 0.01;

/// If several tasks wanted CPUs at once for less of the time than this, none of them waits for another by
/// spinning, 0..=1. A shell and its children overlap for a moment.
const LEAST_AT_ONCE: f64 = 0.01;

/// A recorded run, prepared for a replay.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// What ran, in words.
    pub command: String,
    /// What its tasks did. CPUs are those of the recorded machine.
    pub program: ScriptedProgram,
    /// The duration of the run, in nanoseconds.
    pub took_ns: u64,
    /// How long the same would have taken in a solo run on the same CPUs.
    pub alone: Alone,
    /// Whether tasks may have spun while they waited for each other. Then a solo run would have taken less
    /// than `alone`, since a recording does not distinguish spinning from computing.
    pub may_have_spun: bool,
    /// The number of events in it.
    pub events: u64,
    /// How much of the recording's end was left out because events were lost, in nanoseconds.
    pub left_out_ns: u64,
    /// The other tenants that wanted CPUs, highest demand first.
    pub co_runners: Vec<Loops>,
}

/// A co-runner, modelled as loops.
#[derive(Clone, Debug, PartialEq)]
pub struct Loops {
    /// Its name.
    pub name: String,
    /// The number of loops, at least 1.
    pub tasks: u32,
    /// The share of the time in which each wants a CPU, 0..=1.
    pub demand: f64,
}

impl Recorded {
    /// Prepares a recorded run, up to its first lost event.
    ///
    /// # Errors
    /// [`NoReplay`].
    pub fn of(file: &RunFile) -> Result<Recorded, NoReplay> {
        let whole = file.windows.iter().take_while(|w| w.log.lost == 0).count();
        if whole == 0 {
            return Err(NoReplay::LogIncomplete);
        }
        let mut transcriber = Transcriber::default();
        file.windows[..whole].iter().for_each(|w| transcriber.push(&w.log));
        let transcript = transcriber.cut(whole == file.windows.len());
        if transcript.events == 0 || transcript.program.first.is_empty() {
            return Err(NoReplay::Empty);
        }
        let alone = transcript.alone(&Conditions::default())?;
        let recorded_ns = file.windows[whole - 1].log.end_ns - file.windows[0].log.start_ns;
        Ok(Recorded {
            command: file.command.clone(),
            took_ns: transcript.lasted_ns,
            may_have_spun: wanted_at_once(&file.windows[..whole]) >= LEAST_AT_ONCE,
            events: transcript.events,
            left_out_ns: file.length_ns() - recorded_ns,
            co_runners: co_runners(file, whole, recorded_ns),
            program: transcript.program,
            alone,
        })
    }

    /// The number of CPUs of the machine at the beginning.
    pub fn cpus(&self) -> usize {
        self.program.cpus.len()
    }

    /// Whether a CPU budget stopped any of its tasks, or may have.
    pub fn has_budget(&self) -> bool {
        super::script::budgets_of(&self.program).next().is_some()
    }

    /// The scripts with CPUs numbered from 0, without gaps. `is_elsewhere`: on other CPUs, any of which each
    /// task may use.
    pub fn program_on(&self, is_elsewhere: bool) -> ScriptedProgram {
        let mut program = self.program.clone();
        let place = |may: CpuMask| {
            let placed = self.program.cpus.iter().enumerate().filter(|(_, cpu)| may.has(*cpu));
            placed.fold(CpuMask::default(), |mask, (place, _)| mask.with(place))
        };
        for script in &mut program.scripts {
            script.may = if is_elsewhere { CpuMask::default() } else { place(script.may) };
        }
        program
    }
}

/// The share of the time in which at least two tasks wanted CPUs, 0..=1.
fn wanted_at_once(windows: &[RunWindow]) -> f64 {
    let mut want: BTreeSet<TaskId> = BTreeSet::new();
    let (mut at_once_ns, mut since_ns) = (0, 0);
    for event in windows.iter().flat_map(|window| &window.log.events) {
        if want.len() > 1 {
            at_once_ns += event.t_ns.saturating_sub(since_ns);
        }
        since_ns = event.t_ns;
        match event.what {
            What::Runs { .. } | What::Woken(_) | What::Born { .. } => {
                want.insert(event.task);
            }
            What::Leaves(Left::Waits(_) | Left::Ended | Left::Killed) => {
                want.remove(&event.task);
            }
            _ => {}
        }
    }
    let length_ns: u64 = windows.iter().map(|window| window.log.end_ns - window.log.start_ns).sum();
    at_once_ns as f64 / length_ns.max(1) as f64
}

/// The co-runners of the first windows, which last this long in total.
fn co_runners(file: &RunFile, windows: usize, length_ns: u64) -> Vec<Loops> {
    // The demand, and the demand weighted with the number of tasks that had it.
    let mut wanted: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
    for other in file.windows[..windows].iter().flat_map(|w| &w.co_runners) {
        let ns = other.ran_ns as f64 + other.waited_ns as f64;
        let (sum, weighed) = wanted.entry(&other.name).or_default();
        (*sum, *weighed) = (*sum + ns, *weighed + ns * f64::from(other.tasks));
    }
    let mut loops: Vec<Loops> = Vec::new();
    for (name, (sum, weighed)) in wanted {
        let demand = sum / length_ns.max(1) as f64;
        if demand < LEAST_DEMAND {
            continue;
        }
        // At least as many as would want a CPU all the time.
        let tasks = (weighed / sum).round().max(demand.floor()).clamp(1.0, MOST_LOOPS);
        loops.push(Loops { name: name.to_owned(), tasks: tasks as u32, demand: (demand / tasks).min(1.0) });
    }
    loops.sort_by(|a, b| {
        let all = |l: &Loops| f64::from(l.tasks) * l.demand;
        all(b).total_cmp(&all(a))
    });
    loops.truncate(MOST_CO_RUNNERS);
    loops
}

/// More loops of one co-runner than this make no difference.
const MOST_LOOPS: f64 = 1_000.0;
/// The model has at most this many co-runners, those with the highest demand.
const MOST_CO_RUNNERS: usize = 50;

#[cfg(test)]
mod tests {
    use super::*;
    use corun_model::run_log::file::CoRunner;
    use corun_model::run_log::{Event, For, RunLog};
    use corun_model::CpuId;

    #[test]
    fn tasks_want_cpus_at_once_if_one_waits_for_a_cpu_or_both_run() {
        let runs = What::Runs { cpu: CpuId(0), may: CpuMask::ALL };
        let preempted = What::Leaves(Left::Preempted);
        let sleeps = What::Leaves(Left::Waits(For::Sleep));
        let at_once = |events: &[(u64, u32, What)]| {
            let of = |&(t_ns, task, what): &(u64, u32, What)| Event { t_ns, task: TaskId(task), what };
            let events = events.iter().map(of).collect();
            let log = RunLog { end_ns: 100, events, ..RunLog::default() };
            wanted_at_once(&[RunWindow { log, co_runners: Vec::new() }])
        };
        assert_eq!(at_once(&[(0, 1, runs), (100, 1, sleeps)]), 0.0);
        assert_eq!(at_once(&[(0, 1, runs), (40, 1, sleeps), (40, 2, runs), (100, 2, sleeps)]), 0.0);
        let turns = [(0, 1, runs), (20, 1, preempted), (20, 2, runs), (70, 2, sleeps), (70, 1, runs)];
        assert_eq!(at_once(&turns), 0.5, "one waits while the other runs");
    }

    #[test]
    fn a_co_runner_becomes_as_many_loops_as_wanted_cpus_and_is_left_out_if_demand_is_low() {
        let other =
            |name: &str, tasks, ran_ns, waited_ns| CoRunner { name: name.into(), tasks, ran_ns, waited_ns };
        let window = |start_ns, co_runners| RunWindow {
            log: RunLog { start_ns, end_ns: start_ns + 1_000, ..RunLog::default() },
            co_runners,
        };
        let file = RunFile {
            windows: vec![
                window(
                    0,
                    vec![other("loops", 2, 1_000, 1_000), other("late", 0, 0, 0), other("daemon", 1, 9, 0)],
                ),
                window(1_000, vec![other("loops", 2, 1_500, 500), other("late", 1, 500, 0)]),
            ],
            ..RunFile::default()
        };
        let loops = |name: &str, tasks, demand| Loops { name: name.into(), tasks, demand };
        assert_eq!(co_runners(&file, 2, 2_000), [loops("loops", 2, 1.0), loops("late", 1, 0.25)]);
        assert_eq!(Recorded::of(&file).err(), Some(NoReplay::Empty));
    }
}
