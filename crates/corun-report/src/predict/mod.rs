//! The output of `corun predict`: the wire schema `corun.predict/1`, one line for a terminal, and a page.
//!
//! Names are a contract, as in [`crate::profile::schema`]: fields may be added, `None` is written as `null` and means
//! *unknown*, and [`PredictReport::unavailable`] or [`PredictReport::cannot_tell`] says why.

mod cannot_tell;
mod kept;
mod line;
mod page;
mod run_report;
mod windows;

use crate::json;
use corun_model::Unavailable;
use corun_predict::estimate::{Baselines, CannotTell, Culprit, Estimate, Method, Parts, WindowSummary};
use corun_predict::spinning::Spinning;
use corun_predict::{Predictor, Server};
use serde::Serialize;

pub use cannot_tell::{cannot_tell, cannot_tell_at_end};
pub use line::{line, live, summary};
pub use page::render;
pub use run_report::KnownOfRun;
pub use windows::Windows;

/// Name and version of the schema, the first field of every report.
pub const SCHEMA: &str = "corun.predict/1";

/// Where a prediction was made.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PredictMeta {
    /// What the user named.
    pub target: String,
    /// The machine in one line.
    pub machine: String,
    /// When it began, for people; `None` on a modelled machine.
    pub date: Option<String>,
    /// How the ledger was seen: `ebpf`, `schedstat` or `sim`.
    pub source: String,
    /// How spinning was distinguished from computing: `samples`, `counters`; `None` if it was not.
    pub spin: Option<String>,
    /// Whether hardware events were requested.
    pub counters: bool,
}

/// An estimate, or why there is none yet.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PredictReport {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// Version of corun that wrote this.
    pub corun: &'static str,
    /// What the user named.
    pub target: String,
    /// The machine in one line.
    pub machine: String,
    /// When it began, for people.
    pub date: Option<String>,
    /// How the ledger was seen.
    pub source: String,
    /// How spinning was separated from computing.
    pub spin: Option<String>,
    /// The cost of detecting it, as a share of one CPU.
    pub spin_cost: Option<f64>,
    /// How long the program spun, in total and by task; `None` if it was not measured.
    pub spinning: Option<Spinning>,
    /// Whether hardware events were requested.
    pub counters: bool,
    /// The cost of counting hardware events, as a share of the program's time on a CPU; `None` if not
    /// counted, or not known.
    pub counting_cost: Option<f64>,
    /// Time since the beginning, in nanoseconds.
    pub elapsed_ns: u64,
    /// What the slowdown is of.
    pub covers: Covers,
    /// Time next to the co-runners divided by time alone; 1 is undisturbed.
    pub slowdown: Option<f64>,
    /// Low and high end of the interval.
    pub interval: Option<[f64; 2]>,
    /// How often the interval should contain the result of the whole run, 0..1.
    pub confidence: Option<f64>,
    /// Whether its tasks may have spun unseen while they waited for each other: then the slowdown may be
    /// larger by any amount.
    pub may_have_spun: Option<bool>,
    /// The parts of the slowdown; they sum to `slowdown - 1`, and are all 0 if that is negative.
    pub parts: Option<Parts>,
    /// Who took the time, most first.
    pub culprits: Vec<Culprit>,
    /// The results of simpler predictors for the same windows.
    pub baselines: Baselines,
    /// The windows it rests on.
    pub windows: Vec<WindowSummary>,
    /// The unknowns, with the reason.
    pub unavailable: Vec<Unavailable>,
    /// `dedicated`, `replay` or `ledger`.
    pub method: Option<Method>,
    /// Slowdown of the slowest task, if tasks differ.
    pub slowest_task: Option<f64>,
    /// Phases of the program so far: 1 until its behavior changed for the first time.
    pub phases: Option<usize>,
    /// The share of its tasks' lives in which its own CPU budgets stopped them, 0..=1: they would do so
    /// alone, too.
    pub throttled: Option<f64>,
    /// The same for being stopped or frozen by somebody.
    pub held: Option<f64>,
    /// The part of `held` in which they were frozen.
    pub frozen: Option<f64>,
    /// The slowdown of its present phase: the final result if it goes on like this.
    pub now: Option<f64>,
    /// The slowdown of the run so far, through all phases.
    pub so_far: Option<f64>,
    /// How long co-runners have been parked for dedicated windows, in nanoseconds; `None` if parking is not
    /// allowed.
    pub parked_ns: Option<u64>,
    /// The result of dedicated windows; `None` if they were not requested.
    pub dedicated_windows: Option<DedicatedWindows>,
    /// Next to an estimate from dedicated windows: the slowdown from the ledger alone, for the same run.
    pub without_dedicated: Option<f64>,
    /// And the interval of that.
    pub without_dedicated_interval: Option<[f64; 2]>,
    /// The least share of its time in which it waited for nothing but processes, events and timers outside of
    /// it, 0..1: the delays of those are not seen. `None` if the source does not have it.
    pub outside: Option<f64>,
    /// Whom outside of it it waited for, and how long those were kept from a CPU meanwhile, those first for
    /// which it waited longest; `None` if not known.
    pub servers: Option<Vec<Server>>,
    /// Why there is no estimate yet.
    pub cannot_tell: Option<String>,
    /// The kind of that reason.
    pub cannot_tell_kind: Option<&'static str>,
}

/// What dedicated windows came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DedicatedWindows {
    /// How many were opened.
    pub opened: usize,
    /// How many of them count.
    pub counted: usize,
    /// How many were skipped, since they would not have counted: a tenant that may not be parked ran.
    pub skipped: usize,
    /// How long co-runners were parked, in nanoseconds.
    pub parked_ns: u64,
    /// CPU time of parked tenants while they were parked, in nanoseconds; 0: parking held.
    pub leaked_ns: u64,
}

/// What a slowdown is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Covers {
    /// The program's present phase, while it runs.
    Present,
    /// Everything that was seen of it, at the end.
    Run,
}

/// A predictor's results: for the program as it is now, and for the run so far.
#[derive(Clone, Debug)]
pub struct Estimates {
    /// Of the present phase.
    pub now: Result<Estimate, CannotTell>,
    /// Of all phases together.
    pub so_far: Result<Estimate, CannotTell>,
    /// The share of its time in which it waited for somebody else's work, 0..1; `None` if unknown.
    pub outside: Option<f64>,
    /// Whom it waited for; `None` if unknown.
    pub servers: Option<Vec<Server>>,
}

impl Estimates {
    /// Of this predictor.
    pub fn of(predictor: &Predictor) -> Estimates {
        let (now, so_far) =
            predictor.both().map_or_else(|e| (Err(e), Err(e)), |(now, so_far)| (Ok(now), Ok(so_far)));
        let servers = predictor.servers().map(<[Server]>::to_vec);
        Estimates { now, so_far, outside: predictor.outside(), servers }
    }
}

impl PredictReport {
    /// A report at `elapsed_ns` after the beginning.
    pub fn new(
        meta: &PredictMeta,
        elapsed_ns: u64,
        estimates: &Estimates,
        covers: Covers,
        unavailable: &[Unavailable],
    ) -> PredictReport {
        let slowdown = |of: &Result<Estimate, CannotTell>| of.as_ref().ok().map(|e| e.slowdown);
        let estimate = match covers {
            Covers::Present => &estimates.now,
            Covers::Run => &estimates.so_far,
        };
        let known = estimate.as_ref().ok();
        let mut missing: Vec<Unavailable> = known.map_or(Vec::new(), |e| e.unavailable.clone());
        missing.extend(unavailable.iter().filter(|u| !missing.contains(u)).cloned().collect::<Vec<_>>());
        PredictReport {
            schema: SCHEMA,
            corun: env!("CARGO_PKG_VERSION"),
            target: meta.target.clone(),
            machine: meta.machine.clone(),
            date: meta.date.clone(),
            source: meta.source.clone(),
            spin: meta.spin.clone(),
            spin_cost: None,
            spinning: None,
            counters: meta.counters,
            counting_cost: None,
            elapsed_ns,
            covers,
            slowdown: known.map(|e| e.slowdown),
            interval: known.map(|e| e.interval),
            confidence: known.map(|e| e.confidence),
            may_have_spun: known.map(|e| e.may_have_spun),
            parts: known.map(|e| e.parts),
            culprits: known.map_or(Vec::new(), |e| e.culprits.clone()),
            baselines: known.map(|e| e.baselines).unwrap_or_default(),
            windows: known.map_or(Vec::new(), |e| e.windows.clone()),
            unavailable: missing,
            method: known.map(|e| e.method),
            slowest_task: known.and_then(|e| e.slowest_task),
            phases: known.map(|e| e.phases),
            throttled: known.map(|e| e.throttled),
            held: known.map(|e| e.held),
            frozen: known.map(|e| e.frozen),
            now: slowdown(&estimates.now),
            so_far: slowdown(&estimates.so_far),
            parked_ns: None,
            dedicated_windows: None,
            without_dedicated: None,
            without_dedicated_interval: None,
            outside: estimates.outside,
            servers: estimates.servers.clone(),
            cannot_tell: estimate.as_ref().err().map(|why| match covers {
                Covers::Run => cannot_tell_at_end(*why, elapsed_ns),
                Covers::Present => cannot_tell(*why),
            }),
            cannot_tell_kind: estimate.as_ref().err().map(|why| why.name()),
        }
    }

    /// Indented JSON with a newline at the end.
    pub fn json(&self) -> String {
        json::indented(self)
    }

    /// JSON on one line, with a newline at the end.
    pub fn json_line(&self) -> String {
        json::compact(self) + "\n"
    }
}

#[cfg(test)]
pub(crate) mod example {
    use super::*;
    use corun_model::What;
    use corun_predict::estimate::Label;
    use corun_predict::spinning::TaskSpinning;

    /// Two threads that wait for each other at barriers.
    pub fn spinning() -> Spinning {
        let task = |tid, name: &str, spin_ns: u64| TaskSpinning {
            tid,
            name: name.into(),
            spin_ns: Some(spin_ns),
            on_cpu_ns: 1_000_000_000,
            share: Some(spin_ns as f64 / 1e9),
            interval: Some([0.0, 1.0]),
            judged: 1.0,
        };
        Spinning {
            share: 0.6342,
            interval: [0.608, 0.6521],
            confidence: 0.95,
            spin_ns: 1_268_400_000,
            on_cpu_ns: 2_000_000_000,
            judged: 1.0,
            method: "samples",
            tasks: vec![task(11, "worker <1>", 968_400_000), task(12, "worker <2>", 300_000_000)],
            unlisted_tasks: 0,
        }
    }

    /// A program that a video encoder slows down to half its speed.
    pub fn estimate() -> Estimate {
        Estimate {
            slowdown: 1.93,
            interval: [1.86, 2.01],
            confidence: 0.95,
            may_have_spun: false,
            parts: Parts { steal: 0.61, sync: 0.27, memory: Some(0.05), other: 0.0 },
            culprits: vec![Culprit {
                tenant: Some("ffmpeg".into()),
                kind: "command".into(),
                steal_ns: 900_000_000,
                share: 0.9,
            }],
            baselines: Baselines { cpu_share: Some(1.6), ..Baselines::default() },
            windows: vec![WindowSummary {
                start_ns: 0,
                end_ns: 1_000_000_000,
                label: Label::Shared,
                useful_cpus: 1.1,
                slowdown: Some(1.93),
            }],
            unavailable: vec![Unavailable {
                what: What::Other("counters".into()),
                why: "not asked for".to_owned().into(),
            }],
            method: Method::Ledger,
            slowest_task: None,
            phases: 1,
            throttled: 0.0,
            held: 0.0,
            frozen: 0.0,
        }
    }

    pub fn report(estimate: Result<Estimate, CannotTell>) -> PredictReport {
        let meta = PredictMeta {
            target: "./solver <in>".into(),
            machine: "2 CPUs".into(),
            date: None,
            source: "ebpf".into(),
            spin: Some("samples".into()),
            counters: false,
        };
        let estimates =
            Estimates { now: estimate.clone(), so_far: estimate, outside: Some(0.0), servers: None };
        PredictReport::new(&meta, 1_000_000_000, &estimates, Covers::Present, &[])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corun_predict::estimate::Waited;

    #[test]
    fn the_json_has_the_fields_of_the_contract() {
        let value: serde_json::Value =
            serde_json::from_str(&example::report(Ok(example::estimate())).json()).unwrap();
        assert_eq!(value["schema"], "corun.predict/1");
        assert_eq!(value["interval"], serde_json::json!([1.86, 2.01]));
        assert_eq!(value["parts"]["memory"], 0.05);
        assert_eq!(value["baselines"]["cpi"], serde_json::Value::Null);
        for key in ["slowdown", "confidence", "culprits", "windows", "unavailable"] {
            assert!(value.get(key).is_some_and(|v| !v.is_null()), "{key}");
        }
    }

    #[test]
    fn without_an_estimate_it_is_null_with_the_reason_and_not_a_number() {
        let report = example::report(Err(CannotTell::OnlyWaited(Waited::default())));
        let value: serde_json::Value = serde_json::from_str(&report.json_line()).unwrap();
        assert_eq!(value["slowdown"], serde_json::Value::Null);
        assert_eq!(value["cannot_tell"], "the program has not run yet; it only waited");
        assert_eq!(value["cannot_tell_kind"], "only_waited");
        assert_eq!(report.json_line().lines().count(), 1);
    }
}
