//! The report of a scenario that ran on a modelled machine, for `corun sim`.
//!
//! | file | holds |
//! | --- | --- |
//! | [`mod@policy`] | the decisions of the scenario's policy |
//! | [`mod@recorded`] | the facts about a recording that was replayed |

pub mod policy;
pub mod recorded;

use corun_model::{Observation, Unavailable, What, Why};
use corun_report::sim::{self, SimReport, SimTenant, SimWork};
use corun_report::{describe, Host, ProfileMeta, ProfileReport, Source, Subject};
use corun_sim::engine::Totals;
use corun_sim::experiment::Outcome;
use corun_sim::metrics::{self, Estimate};
use corun_sim::scenario::Scenario;

/// The first run, whole and in windows. `None` if it was not recorded, or nothing was seen.
pub fn first_run(outcome: &Outcome) -> Option<(&Observation, &[Observation])> {
    let recording = outcome.runs[0].recording.as_ref()?;
    Some((recording.whole()?, recording.timeline()))
}

/// The report. `target` is the file that ran; `baseline` the scheduler to compare with. `None` if nothing was seen.
pub fn report(
    scenario: &Scenario,
    outcome: &Outcome,
    target: String,
    baseline: Option<&str>,
) -> Option<SimReport> {
    let (whole, windows) = first_run(outcome)?;
    let machine = &scenario.machine.machine;
    let mut meta = ProfileMeta::new(Host::Sim, Source::Sim, target, machine);
    meta.trace_lost = outcome.runs[0].trace.as_ref().map(|t| t.lost);
    if let [seed, _, ..] = scenario.seeds[..] {
        let all = scenario.seeds.len();
        meta.notes.push(format!(
            "The profile is of the run of seed {seed}, the first of {all}; the others are not in it."
        ));
    }
    let lengths: Vec<f64> = outcome.runs.iter().map(|r| r.end_ns as f64).collect();
    let speedups = outcome.speedups;
    let sum = |f: &dyn Fn(&Totals) -> u64| outcome.runs.iter().map(|r| f(&r.totals)).sum();
    Some(SimReport {
        schema: sim::SCHEMA.into(),
        corun: env!("CARGO_PKG_VERSION").into(),
        scenario: scenario.name.clone(),
        recorded: None,
        machine: describe(machine),
        cpus: machine.cpu_count() as u64,
        scheduler: scenario.scheduler.name.name().into(),
        policy: policy::summary(scenario, outcome, whole),
        baseline: baseline.map(str::to_owned),
        seeds: scenario.seeds.clone(),
        length_ns: wire(metrics::estimate(&lengths)?),
        tenants: outcome
            .tenants
            .iter()
            .map(|t| SimTenant {
                name: t.name.clone(),
                background: t.background,
                completed: t.completed as u64,
                solo_ns: t.solo_ns.map(wire),
                time_ns: t.time_ns.map(wire),
                slowdown: t.slowdown.map(wire),
                baseline_slowdown: t.baseline.map(wire),
            })
            .collect(),
        fairness: outcome.fairness.map(wire),
        throughput: outcome.throughput.map(wire),
        relative_speedup: outcome.relative_speedup.map(wire),
        speedup_mean: speedups.map(|s| s.mean),
        speedup_min: speedups.map(|s| s.min),
        speedup_max: speedups.map(|s| s.max),
        energy_j: outcome.energy_j.map(wire),
        work: SimWork {
            events: sum(&|t| t.events),
            switches: sum(&|t| t.switches),
            wakeups: sum(&|t| t.wakeups),
        },
        profile: ProfileReport::new(&meta, whole, Subject::All, windows),
        unavailable: unavailable(scenario, outcome),
    })
}

/// What is unknown about the scenario.
fn unavailable(scenario: &Scenario, outcome: &Outcome) -> Vec<Unavailable> {
    let mut all = Vec::new();
    if outcome.energy_j.is_none() {
        // A machine file may leave power out; for a live machine the model assumes it.
        let why = match scenario.machine.assumed.contains(&"power") {
            true => Why::PowerNotMeasured,
            false => Why::PowerNotInFile { machine: scenario.machine.machine.name.clone() },
        };
        all.push(Unavailable::new(What::Energy, why));
    }
    if !scenario.machine.assumed.is_empty() {
        let figures = scenario.machine.assumed.join(", ");
        all.push(Unavailable::new(What::MachineFigures, Why::FiguresNotMeasured { figures }));
    }
    let stuck = outcome.tenants.iter().filter(|t| t.slowdown.is_none());
    let no_progress = |tenant: &str| Why::NoProgress { tenant: tenant.to_owned() };
    all.extend(stuck.map(|t| Unavailable::new(What::Slowdown, no_progress(&t.name))));
    all
}

fn wire(e: Estimate) -> sim::Estimate {
    sim::Estimate { mean: e.mean, half_width: e.half_width, min: e.min, max: e.max, n: e.n as u64 }
}
