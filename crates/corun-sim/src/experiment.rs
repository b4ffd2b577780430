//! A scenario's runs: one per seed, the solo runs as the base of slowdowns, and, on request, the same under a baseline scheduler. They
//! run in parallel on the machine's own CPUs.
//!
//! A slowdown compares times if a tenant ended in both runs, and rates of work otherwise (a background loop, a run of fixed length). A
//! tenant's solo run is made once per seed and serves all equal tenants. Runs are independent, so results do not depend on how they are
//! spread over CPUs.

use crate::control::{Control, Controlled};
use crate::engine::{Completion, Completions, Fault, Progress, Totals};
use crate::metrics::{self, Estimate, Speedups};
use crate::scenario::{BadScenario, Participants, Scenario, SchedulerKind, TenantSpec};
use corun_model::fairness::jain;
use corun_model::recording::Recording;
use corun_model::trace::Trace;
use rayon::prelude::*;
use std::collections::BTreeMap;
use thiserror::Error;

/// The first windows of a recording; they grow with the run.
const WINDOW_NS: u64 = 10_000_000;
/// A background tenant's solo run is at most this long.
const SOLO_NS: u64 = 10_000_000_000;

/// An experiment cannot be finished.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Failure {
    /// The scenario is at fault.
    #[error("{0}")]
    Scenario(#[from] BadScenario),
    /// The engine is: a checker fired.
    #[error("a checker of the modelled machine fired with seed {seed}: {what}")]
    Bug {
        /// The seed that leads there.
        seed: u64,
        /// Checker and finding.
        what: String,
    },
}

/// One run.
#[derive(Clone, Debug)]
pub struct Run {
    /// Its seed.
    pub seed: u64,
    /// Its length.
    pub end_ns: u64,
    /// The progress of each tenant.
    pub progress: Vec<Progress>,
    /// Energy used, in microjoules: cores and the rest of the packages; `None`: the machine file has no power
    /// figures.
    pub energy_uj: Option<u64>,
    /// The totals.
    pub totals: Totals,
    /// The recording, only of the first seed's run with all tenants.
    pub recording: Option<Recording>,
    /// The decisions of its policy. `None` without a policy.
    pub control: Option<Control>,
    /// The trace, only on request.
    pub trace: Option<Trace>,
}

/// Options in addition to the standard runs of a scenario.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Also run under this scheduler, without the policy, and compare.
    pub baseline: Option<SchedulerKind>,
    /// Events that the trace of the first seed's run may hold; 0: none.
    pub trace_limit: usize,
    /// For tests of the checkers: every run with all tenants is made wrong at this time; see
    /// [`Engine::miscount_at`](crate::engine::Engine::miscount_at).
    pub miscount_ns: Option<u64>,
}

/// One tenant over all seeds.
#[derive(Clone, Debug)]
pub struct TenantOutcome {
    /// Its name.
    pub name: String,
    /// Whether the run did not wait for its end.
    pub background: bool,
    /// The number of runs that it ended, over all seeds.
    pub completed: usize,
    /// Time in a solo run, in nanoseconds; `None`: it does not end by itself.
    pub solo_ns: Option<Estimate>,
    /// Time in the co-run. `None` if it did not end.
    pub time_ns: Option<Estimate>,
    /// Slowdown; `None`: it made no progress in one of the runs.
    pub slowdown: Option<Estimate>,
    /// Slowdown per seed, in the order of the seeds.
    pub slowdowns: Vec<Option<f64>>,
    /// Slowdown under the baseline.
    pub baseline: Option<Estimate>,
}

/// The results of a scenario.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Per seed: the run with all tenants.
    pub runs: Vec<Run>,
    /// Per tenant.
    pub tenants: Vec<TenantOutcome>,
    /// Jain's fairness over the tenants' slowdowns.
    pub fairness: Option<Estimate>,
    /// System throughput.
    pub throughput: Option<Estimate>,
    /// Relative speed-up against the baseline; `None` without one.
    pub relative_speedup: Option<Estimate>,
    /// Geometric-mean speed-up over solo with its extremes, per tenant means over seeds.
    pub speedups: Option<Speedups>,
    /// Energy of the whole run in joules.
    pub energy_j: Option<Estimate>,
}

/// The number of runs in an experiment: for a progress bar.
pub fn runs(scenario: &Scenario, options: &Options) -> usize {
    let per_seed = 1 + kinds(scenario).1 + usize::from(options.baseline.is_some());
    per_seed * scenario.seeds.len()
}

/// Runs a scenario. `done` is called once per finished run, from any thread.
///
/// # Errors
/// [`Failure`]; if several runs fail, that of the first in the order of seeds.
pub fn perform(scenario: &Scenario, options: &Options, done: &(dyn Fn() + Sync)) -> Result<Outcome, Failure> {
    let first = scenario.seeds[0];
    let co_run = |scenario: &Scenario, seed: u64, record: bool, trace_limit: usize| {
        let how =
            RunOptions { record, trace_limit, miscount_ns: options.miscount_ns, ..RunOptions::default() };
        let run = run(scenario, seed, Participants::All, how);
        done();
        run
    };
    let of_seed = |&seed: &u64| {
        let is_first = seed == first;
        co_run(scenario, seed, is_first, if is_first { options.trace_limit } else { 0 })
    };
    let runs: Vec<Run> = all_or_first(scenario.seeds.par_iter().map(of_seed).collect())?;
    let baseline: Vec<Run> = match options.baseline {
        None => Vec::new(),
        Some(kind) => {
            let mut other = scenario.clone();
            other.scheduler.name = kind;
            other.policy = None;
            let seeds = other.seeds.par_iter();
            all_or_first(seeds.map(|&seed| co_run(&other, seed, false, 0)).collect())?
        }
    };
    let (kind_of, kinds) = kinds(scenario);
    let solo_jobs: Vec<(usize, usize)> =
        (0..kinds).flat_map(|k| (0..scenario.seeds.len()).map(move |s| (k, s))).collect();
    let solo_run = |&(kind, s): &(usize, usize)| {
        let tenant = kind_of.iter().position(|&k| k == kind).expect("every kind has a tenant");
        let seed = scenario.seeds[s];
        let how = RunOptions { beside_ns: Some(runs[s].end_ns), ..RunOptions::default() };
        let run = run(scenario, seed, Participants::Solo(tenant), how);
        done();
        run.map(|r| ((kind, s), r))
    };
    let solo: BTreeMap<(usize, usize), Run> = all_or_first(solo_jobs.par_iter().map(solo_run).collect())?;
    let slowdowns = |runs: &[Run]| -> Vec<Vec<Option<f64>>> {
        (0..scenario.tenants.len())
            .map(|t| {
                let of_seed = |s: usize| {
                    let alone = &solo[&(kind_of[t], s)];
                    slowdown(&runs[s].progress[t], runs[s].end_ns, &alone.progress[0], alone.end_ns)
                };
                (0..runs.len()).map(of_seed).collect()
            })
            .collect()
    };
    let here = slowdowns(&runs);
    let there = slowdowns(&baseline);
    let over_seeds = |values: &[Option<f64>]| {
        let all: Option<Vec<f64>> = values.iter().copied().collect();
        all.and_then(|v| metrics::estimate(&v))
    };
    let tenants: Vec<TenantOutcome> = scenario
        .tenants
        .iter()
        .enumerate()
        .map(|(t, spec)| {
            let times = |p: &Progress| mean_time_ns(p);
            let solo_times: Vec<Option<f64>> =
                (0..runs.len()).map(|s| times(&solo[&(kind_of[t], s)].progress[0])).collect();
            let co_times: Vec<Option<f64>> = runs.iter().map(|r| times(&r.progress[t])).collect();
            TenantOutcome {
                name: spec.name.clone(),
                background: spec.background,
                completed: runs.iter().map(|r| r.progress[t].completions.count).sum(),
                solo_ns: over_seeds(&solo_times),
                time_ns: over_seeds(&co_times),
                slowdown: over_seeds(&here[t]),
                slowdowns: here[t].clone(),
                baseline: there.get(t).and_then(|v| over_seeds(v)),
            }
        })
        .collect();
    let per_seed = |f: &dyn Fn(&[f64]) -> Option<f64>| {
        let values: Vec<Option<f64>> = (0..runs.len())
            .map(|s| {
                let all: Option<Vec<f64>> = here.iter().map(|t| t[s]).collect();
                all.and_then(|v| f(&v))
            })
            .collect();
        over_seeds(&values)
    };
    let relative: Vec<Option<f64>> = (0..baseline.len())
        .map(|s| {
            let pairs: Option<Vec<(f64, f64)>> =
                here.iter().zip(&there).map(|(h, b)| Some((h[s]?, b[s]?))).collect();
            pairs.and_then(|p| metrics::relative_speedup(&p))
        })
        .collect();
    let means: Option<Vec<f64>> = tenants.iter().map(|t| t.slowdown.map(|s| s.mean)).collect();
    let energy: Vec<Option<f64>> = runs.iter().map(|r| r.energy_uj.map(|uj| uj as f64 / 1e6)).collect();
    Ok(Outcome {
        fairness: per_seed(&jain),
        throughput: per_seed(&metrics::throughput),
        relative_speedup: over_seeds(&relative),
        speedups: means.and_then(|m| metrics::speedups(&m)),
        energy_j: over_seeds(&energy),
        runs,
        tenants,
    })
}

/// Only the runs with all tenants, one per seed: for a matrix of scenarios that shares its solo runs.
///
/// # Errors
/// [`Failure`]; if several runs fail, that of the first in the order of seeds.
pub fn co_runs(scenario: &Scenario) -> Result<Vec<Run>, Failure> {
    let one = |&seed: &u64| run(scenario, seed, Participants::All, RunOptions::default());
    all_or_first(scenario.seeds.par_iter().map(one).collect())
}

/// The results of parallel runs or, if some failed, the first failure in their order, which is always the same.
///
/// # Errors
/// That failure.
pub fn all_or_first<T, E, C: FromIterator<T>>(all: Vec<Result<T, E>>) -> Result<C, E> {
    all.into_iter().collect()
}

/// Which tenants are equal in a solo run: the kind of each tenant, and the number of kinds.
fn kinds(scenario: &Scenario) -> (Vec<usize>, usize) {
    let mut firsts: Vec<&TenantSpec> = Vec::new();
    let alike = |a: &TenantSpec, b: &TenantSpec| {
        a.runs == b.runs
            && (&a.pins, &a.allowed, a.vcpus) == (&b.pins, &b.allowed, b.vcpus)
            && (a.batch, a.slice_ns) == (b.batch, b.slice_ns)
    };
    let kind_of = scenario.tenants.iter().map(|t| {
        firsts.iter().position(|f| alike(f, t)).unwrap_or_else(|| {
            firsts.push(t);
            firsts.len() - 1
        })
    });
    let kind_of: Vec<usize> = kind_of.collect();
    (kind_of, firsts.len())
}

/// Options of one run.
#[derive(Clone, Copy, Debug, Default)]
struct RunOptions {
    record: bool,
    trace_limit: usize,
    /// The length of the co-run.
    beside_ns: Option<u64>,
    miscount_ns: Option<u64>,
}

/// One run: until all tenants with an end have ended, or for the scenario's duration. A solo run of a tenant
/// that never ends takes at most as long as the co-run.
fn run(scenario: &Scenario, seed: u64, participants: Participants, how: RunOptions) -> Result<Run, Failure> {
    let RunOptions { record, trace_limit, beside_ns, miscount_ns } = how;
    let mut engine = scenario.engine(seed, participants, trace_limit)?;
    if let Some(at_ns) = miscount_ns {
        engine.miscount_at(at_ns);
    }
    let failure = |fault: Fault| match fault {
        Fault::Scenario(what) => Failure::Scenario(scenario.failed(what)),
        bug => Failure::Bug { seed, what: bug.to_string() },
    };
    let endless = engine.progress().iter().all(|p| p.endless);
    let limit_ns = match (participants, endless) {
        (Participants::Solo(_), true) => Some(beside_ns.unwrap_or(SOLO_NS).min(SOLO_NS)),
        // In a solo run, a tenant may take its time even if the co-run is cut off.
        (Participants::Solo(_), false) => None,
        (Participants::All, _) => scenario.duration_ns,
    };
    if participants == Participants::All && limit_ns.is_none() {
        scenario.check_ends()?;
    }
    let horizon_ns = limit_ns.unwrap_or(scenario.horizon_ns);
    let mut recording = record.then(Recording::default);
    let policy = scenario.policy.as_ref().filter(|_| participants == Participants::All);
    let mut controlled = policy.map(|p| Controlled::new(p, record));
    loop {
        let now_ns = engine.now_ns();
        let window_ns = match &controlled {
            Some(controlled) => controlled.wait_ns(),
            None if record => WINDOW_NS.max(now_ns / 128),
            None => horizon_ns,
        };
        let until_ns = horizon_ns.min(now_ns.saturating_add(window_ns));
        let ended = match limit_ns {
            Some(_) => engine.run_until(until_ns).map(|()| false),
            None => engine.run_to_end(until_ns),
        };
        let ended = ended.map_err(failure)?;
        if controlled.is_some() || recording.is_some() {
            let mut window = engine.try_observe().map_err(failure)?;
            if let Some(controlled) = &mut controlled {
                controlled.epoch(&mut engine, &mut window);
            }
            if let Some(recording) = &mut recording {
                recording.push(window);
            }
        }
        if ended || engine.now_ns() >= horizon_ns {
            break;
        }
    }
    if limit_ns.is_none() && !engine.is_finished() {
        let late = |(t, p): (usize, &Progress)| {
            let place = if let Participants::Solo(only) = participants { only } else { t };
            (p.completions.count == 0
                && !p.endless
                && (participants != Participants::All || !scenario.tenants[t].background))
                .then_some(place)
        };
        let late: Vec<usize> = engine.progress().iter().enumerate().filter_map(late).collect();
        return Err(Failure::Scenario(scenario.not_ended(&late)));
    }
    engine.check().map_err(failure)?;
    let energy_uj = engine.energy().map(|e| e.cores_uj.iter().chain(&e.packages_uj).sum());
    Ok(Run {
        seed,
        end_ns: engine.now_ns(),
        progress: engine.progress(),
        energy_uj,
        totals: engine.totals(),
        recording,
        control: controlled.map(Controlled::finish),
        trace: engine.trace().cloned(),
    })
}

/// Mean time of a tenant's completed runs.
fn mean_time_ns(p: &Progress) -> Option<f64> {
    let Completions { count, took_ns, .. } = p.completions;
    (count > 0).then(|| took_ns as f64 / count as f64)
}

fn slowdown(co: &Progress, co_end_ns: u64, solo: &Progress, solo_end_ns: u64) -> Option<f64> {
    // A program of fixed duration takes that time with any amount of work, so its rate shows its speed.
    if let (Some(a), Some(b), false) = (mean_time_ns(co), mean_time_ns(solo), co.timed) {
        return Some(a / b);
    }
    let rate = |p: &Progress, end_ns: u64| {
        // A tenant that has started again still works.
        let only = |c: &&Completion| p.completions.count == 1 && p.timed && p.started_ns == Some(c.start_ns);
        let until_ns = p.completions.last.as_ref().filter(only).map_or(end_ns, |c| c.end_ns);
        let first_ns = p.completions.first.map(|c| c.start_ns).or(p.started_ns)?;
        let active_ns = until_ns.saturating_sub(first_ns);
        (active_ns > 0 && p.work_ns > 0).then(|| p.work_ns as f64 / active_ns as f64)
    };
    Some(rate(solo, solo_end_ns)? / rate(co, co_end_ns)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timed_program_that_has_started_again_is_judged_over_all_of_its_time() {
        let run = Completion { start_ns: 0, last_phase_ns: 0, end_ns: 10_000, iterations: 1 };
        let mut completions = Completions::default();
        completions.add(run);
        let timed = |started_ns, work_ns| Progress {
            name: "x".into(),
            completions,
            started_ns: Some(started_ns),
            work_ns,
            endless: false,
            timed: true,
        };
        let solo = timed(0, 10_000);
        let of = |co: &Progress| slowdown(co, 15_000, &solo, 10_000);
        assert_eq!(of(&timed(0, 5_000)), Some(2.0), "it has ended");
        assert_eq!(of(&timed(10_000, 5_000)), Some(3.0), "it has begun again");
    }
}
