//! Calibrated interference: uses just enough CPU time to hold a victim at a goal.
//!
//! Method. One thread on every target CPU, or as many as fair share needs for the goal, compute in bursts. At the beginning of every
//! cycle all ask for CPU time at once, each for a share of the cycle, and idle for the rest. That share, the *demand*, is set by the
//! controller five times per second, from what the sensor saw of the victim since. The cycle is that of periodic interference (fixed)
//! or intermittent (random): busy ÷ demand according to its settings, the same for all threads.
//!
//! All must begin together. If bursts came one CPU after the other, the scheduler would move a victim with fewer threads than CPUs out
//! of the way. Then the loss would jump at some demand instead of rising with it. Bursts must be CPU time: a thread gets its burst even
//! if it has to wait for it.
//!
//! Limits. The threads are ordinary ones, so they cannot take more than their fair share. The demand then reaches its upper bound, and
//! the report says so. A victim in another session or cgroup is protected by the fair share of its group, with any number of threads.
//! CPU time that others take counts as taken.

use crate::clock::{now_ns, want_exact_timers};
use crate::controller::Controller;
use crate::crew::Crew;
use crate::goal::Goal;
use crate::holding::{Account, Baseline, Held, GRACE_NS};
use crate::interference::burst;
use crate::kernel::Kernel;
use crate::load_thread::LoadThread;
use crate::plan::{threads, Plan};
use crate::progress::{Holding, Progress, Snapshot};
use crate::sensor::{Gauge, LastSpin, Sample, Sensor};
use crate::watch::{Ended, Watch};
use crate::{affinity, Calibration, LoadError, Options, Report, Stop};
use corun_model::duration::human_ns;
use corun_model::workload::{BusyBy, Interference, Length, Pattern};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::OnceLock;

/// The time between two looks at the victim: ten cycles, so that the phase of a look matters little.
const PERIOD_NS: u64 = 200_000_000;

/// A shorter burst is not worth a wake-up.
const LEAST_BURST_NS: u64 = 20_000;

/// Windows at a bound before the report says so.
const IN_VAIN: i32 = 15;

/// After this many windows in which the victim slept, the threads ask for nothing until it wakes up.
const ASLEEP: u32 = 5;

/// A baseline with less than this share of a CPU shows nothing.
const LEAST_RATE: f64 = 0.02;

/// The goal, and the means to hold it.
#[derive(Clone, Debug)]
pub struct Hold {
    /// The goal for the victim.
    pub goal: Goal,
    /// How long to watch the victim first, to know its solo rate; 0: compute the slowdown from steal.
    pub baseline_ns: u64,
    /// Pattern, cycle, seed, CPUs (not empty) and threads of the interference. Its demand only sets the cycle.
    pub load: Interference,
}

impl Hold {
    fn check(&self) -> Result<(), LoadError> {
        self.goal.check()?;
        let refuse = |key, what: &str| Err(LoadError::Program { key, what: what.into() });
        match &self.load {
            l if l.pattern == Pattern::Persistent => {
                refuse("pattern", "persistent interference has no demand that could be adjusted; hold a target with periodic or intermittent, or name no kind")
            }
            l if l.busy_by == BusyBy::Wall => {
                refuse("busy-by", "a target is held by bursts of CPU time; leave busy-by away, or the target")
            }
            l if l.cpus.is_empty() => refuse("cpus", "calibrated interference needs its target CPUs"),
            l => corun_model::workload::Program::Interference(l.clone())
                .check()
                .map_err(|bad| LoadError::Program { key: bad.key, what: bad.what }),
        }
    }

    fn plan(&self) -> Plan {
        Plan {
            what: format!("calibrated interference for {}, {}", self.goal, threads(self.load.threads)),
            unit: "burst",
            threads: Plan::alike("press", self.load.threads),
            cpus: self.load.cpus.clone(),
            length: if self.load.duration == 0 {
                Length::Endless
            } else {
                Length::DurationNs(self.load.duration)
            },
            demand: None,
            waits: false,
            works: true,
        }
    }

    /// Length of the `index`-th cycle in nanoseconds, the same for all threads.
    fn cycle_ns(&self, index: u64) -> u64 {
        let busy_ns = self.load.busy_ns(0, index).expect("persistent interference was refused");
        (busy_ns + self.load.idle_ns(busy_ns)).max(1)
    }

    /// How many threads share a CPU's demand.
    fn threads_per_cpu(&self) -> u64 {
        let distinct = self.load.cpus.iter().collect::<std::collections::BTreeSet<_>>().len() as u64;
        u64::from(self.load.threads).div_ceil(distinct).max(1)
    }

    fn limit(&self, pressed: i32) -> Option<String> {
        match pressed {
            p if p >= IN_VAIN => Some(format!(
                "it uses all the CPU time that it can get, and fair share leaves the victim more than {} would; give it \
                 more weight (run corun load under `nice -n -10`, or the victim under `nice`), give it more threads if \
                 both are in one session and cgroup, or pin the victim to the target CPUs",
                self.goal
            )),
            p if p <= -IN_VAIN => {
                Some(format!("without corun's interference, the victim already loses more than {}", self.goal))
            }
            _ => None,
        }
    }
}

/// Runs the interference until the victim has ended, the time is over, or `stop` asks.
///
/// # Errors
/// [`LoadError`]; nothing is left running.
pub fn run(
    hold: &Hold,
    sensor: &mut dyn Sensor,
    options: &Options,
    stop: &Stop,
    mut on_progress: impl FnMut(&Progress),
) -> Result<Report, LoadError> {
    hold.check()?;
    affinity::check(&hold.load.cpus)?;
    let calibration = match options.loops_per_ms {
        Some(given) => Calibration::given(given),
        None => Calibration::measure(&mut Kernel::registers()),
    };
    let baseline = baseline(hold, sensor, stop)?;
    let gauge = baseline.map_or(Gauge::Steal, |b| Gauge::Rate { solo: b.rate, useful: b.spin_known });
    let (crew, demand) = (Crew::new(hold.plan()), AtomicU64::new(0));
    let steering =
        Steering { hold, gauge, baseline, crew: &crew, demand: &demand, limit_ns: options.limit_ns };
    std::thread::scope(|scope| {
        let work = || {
            let mut quietly = |_: &Progress| {};
            let mut watch = Watch::new(stop, options.limit_ns, None, &mut quietly);
            press(hold, calibration, &crew, &demand, &mut watch)
        };
        let wanted = hold.load.threads as usize + 1;
        let at_work = std::thread::Builder::new()
            .spawn_scoped(scope, work)
            .map_err(|error| LoadError::Thread { started: 0, wanted, error })?;
        let steered = steering.until(|| at_work.is_finished(), sensor, &mut |progress| {
            if options.progress_every_ns.is_some() {
                on_progress(progress);
            }
        });
        crew.cut.store(true, Relaxed);
        let ended = at_work.join().expect("a crew does not panic")?;
        let (held, victim_lives) = steered?;
        let ended = if victim_lives { ended } else { Ended::VictimEnded };
        Ok(Report { held: Some(held), ..Report::of(&crew, ended, Some(calibration)) })
    })
}

/// Watches the victim alone.
fn baseline(hold: &Hold, sensor: &mut dyn Sensor, stop: &Stop) -> Result<Option<Baseline>, LoadError> {
    if hold.baseline_ns == 0 || matches!(hold.goal, Goal::Steal(_)) {
        return Ok(None);
    }
    let mut seen = Sample::default();
    while seen.window_ns < hold.baseline_ns && !stop.is_requested() {
        let next =
            sensor.window(PERIOD_NS.min(hold.baseline_ns - seen.window_ns)).map_err(LoadError::Sensor)?;
        seen = seen.plus(&next);
        if !next.alive {
            return Err(LoadError::Sensor("the victim ended before the interference began".into()));
        }
    }
    let spin_known = seen.spin_ns.is_some();
    let rate = seen.rate(spin_known).unwrap_or(0.0);
    if rate < LEAST_RATE && !stop.is_requested() {
        let what = format!(
            "the victim used {:.1} % of a CPU in {} before the interference began; that is too little for a slowdown: wait until it works, or hold a steal",
            rate * 100.0,
            human_ns(seen.window_ns)
        );
        return Err(LoadError::Program { key: "victim", what });
    }
    let steal = Gauge::Steal.lost(&seen);
    Ok(Some(Baseline { window_ns: seen.window_ns, rate, steal, spin_known }))
}

/// The threads: bursts at the beginning of every cycle, with the present demand.
fn press(
    hold: &Hold,
    calibration: Calibration,
    crew: &Crew,
    demand: &AtomicU64,
    watch: &mut Watch,
) -> Result<Ended, LoadError> {
    let (first_cycle, sharing) = (OnceLock::new(), hold.threads_per_cpu());
    crew.run(watch, |number| {
        let mut hand = crew.load_thread(number, Kernel::registers(), calibration.pace());
        let (first_cycle, bursts) = (&first_cycle, &crew.tallies[number].iterations);
        want_exact_timers();
        move || {
            let mut begin_ns: u64 = *first_cycle.get_or_init(now_ns);
            for index in 0.. {
                let end_ns = begin_ns + hold.cycle_ns(index);
                begin_ns = end_ns;
                // A thread that got its last burst late continues with the present cycle.
                if now_ns() >= end_ns && !hand.is_cut() {
                    continue;
                }
                let share = f64::from_bits(demand.load(Relaxed));
                let busy_ns = (hold.cycle_ns(index) as f64 * share) as u64 / sharing;
                if !cycle(&mut hand, busy_ns, end_ns) {
                    return;
                }
                bursts.add(u64::from(busy_ns >= LEAST_BURST_NS));
            }
        }
    })
}

/// One cycle of one thread. Returns false if it should stop.
fn cycle(hand: &mut LoadThread, busy_ns: u64, end_ns: u64) -> bool {
    if busy_ns >= LEAST_BURST_NS && !burst(hand, busy_ns) {
        return false;
    }
    hand.idle(end_ns.saturating_sub(now_ns()));
    !hand.is_cut()
}

/// The loop of control.
struct Steering<'a> {
    hold: &'a Hold,
    gauge: Gauge,
    baseline: Option<Baseline>,
    crew: &'a Crew,
    demand: &'a AtomicU64,
    limit_ns: Option<u64>,
}

impl Steering<'_> {
    /// Steers until `is_over` or the victim has ended. Returns what was held, and whether the victim lives.
    fn until(
        &self,
        is_over: impl Fn() -> bool,
        sensor: &mut dyn Sensor,
        on_progress: &mut dyn FnMut(&Progress),
    ) -> Result<(Held, bool), LoadError> {
        let mut controller = Controller::new(self.hold.goal.lost());
        let mut account = Account::new(sensor.source(), self.hold.goal, self.gauge);
        let (mut last, mut limit, mut last_spin) =
            (Snapshot::of(&self.crew.tallies), None, LastSpin::default());
        let mut asleep = 0;
        // Time before the first burst is not an effect of it.
        sensor.window(0).map_err(LoadError::Sensor)?;
        loop {
            let demand = if asleep >= ASLEEP { 0.0 } else { controller.demand() };
            self.demand.store(demand.to_bits(), Relaxed);
            let sample = sensor.window(PERIOD_NS).map_err(LoadError::Sensor)?;
            if is_over() || !sample.alive {
                return Ok((account.outcome(self.baseline, limit), sample.alive));
            }
            asleep = if sample.sleeps() { asleep.saturating_add(1) } else { 0 };
            let second = account.add(&sample, demand);
            controller.saw(self.gauge.lost(&last_spin.fill_in(&sample)));
            if account.passed_ns() >= GRACE_NS {
                limit = self.hold.limit(controller.pressed());
            }
            if let Some(achieved) = second {
                let before = std::mem::replace(&mut last, Snapshot::of(&self.crew.tallies));
                let passed_ns = account.passed_ns();
                let holding = Holding {
                    measure: self.hold.goal.measure(),
                    target: self.hold.goal.value(),
                    achieved,
                    in_band: account.is_held() == Some(true),
                    demand: controller.demand(),
                };
                let progress = Progress::between(&self.crew.plan, &before, &last, passed_ns, self.limit_ns);
                on_progress(&Progress { holding: Some(holding), ..progress });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hold(load: Interference) -> Hold {
        Hold { goal: Goal::Steal(0.25), baseline_ns: 0, load }
    }

    fn periodic() -> Interference {
        Interference { pattern: Pattern::Periodic, cpus: vec![0, 1], threads: 2, ..Interference::default() }
    }

    #[test]
    fn cycles_are_those_of_the_interference_and_the_same_for_all_threads() {
        assert_eq!((hold(periodic()).cycle_ns(0), hold(periodic()).cycle_ns(7)), (20_000_000, 20_000_000));
        let random = hold(Interference { pattern: Pattern::Intermittent, ..periodic() });
        let lengths: Vec<u64> = (0..50).map(|i| random.cycle_ns(i)).collect();
        assert!(lengths.iter().all(|ns| (2_000_000..=80_000_000).contains(ns)), "{lengths:?}");
        assert!(lengths.iter().max().unwrap() > &(2 * lengths.iter().min().unwrap()));
    }

    #[test]
    fn threads_on_one_cpu_share_its_demand() {
        let shares = |threads| hold(Interference { threads, ..periodic() }).threads_per_cpu();
        assert_eq!([1, 2, 3, 4, 8].map(shares), [1, 1, 2, 2, 4]);
    }

    #[test]
    fn loads_that_cannot_be_adjusted_are_refused_with_those_that_can() {
        let refusal = |hold: Hold| hold.check().unwrap_err().to_string();
        assert!(refusal(hold(Interference { pattern: Pattern::Persistent, ..periodic() }))
            .contains("with periodic or intermittent"));
        assert!(refusal(hold(Interference { cpus: Vec::new(), ..periodic() })).contains("its target CPUs"));
        assert!(refusal(hold(Interference { threads: 0, ..periodic() })).contains("threads is 0"));
        assert!(refusal(Hold { goal: Goal::Slowdown(0.9), ..hold(periodic()) }).contains("1.02 to 20"));
    }

    #[test]
    fn a_bound_is_reported_once_it_is_certain() {
        let hold = hold(periodic());
        assert_eq!((hold.limit(IN_VAIN - 1), hold.limit(1 - IN_VAIN)), (None, None));
        assert!(hold.limit(IN_VAIN).unwrap().contains("fair share leaves the victim more than 25 % steal"));
        assert!(hold.limit(-IN_VAIN).unwrap().contains("already loses more than 25 % steal"));
    }
}
