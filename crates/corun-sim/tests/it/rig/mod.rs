//! Shared code of the tests of the modelled machine: scenarios from text, and readings of what they did.
#![allow(dead_code)]

use corun_model::observation::{Observation, TenantObservation};
use corun_model::trace::{Trace, TraceKind};
use corun_model::{Machine, TaskId};
use corun_sim::engine::Engine;
use corun_sim::machine_file::MachineModel;
use corun_sim::scenario::{Files, Participants, Scenario};

/// The repository's files; `host` is a machine of two CPUs.
pub struct Repository;

impl Files for Repository {
    fn read(&self, path: &str) -> Result<(String, String), String> {
        let full = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
        let text = std::fs::read_to_string(&full).map_err(|e| format!("cannot read {path}: {e}"))?;
        Ok((path.to_string(), text))
    }

    fn host(&self) -> Result<MachineModel, String> {
        Ok(MachineModel::of(Machine::synthetic(1, 1, 2, 1)))
    }
}

/// A scenario on the two-CPU host, or on the machine that `body` names.
pub fn scenario(body: &str) -> Scenario {
    let machine = if body.contains("machine =") { "" } else { "machine = \"host\"\n" };
    let text = format!("schema = \"corun.scenario/1\"\n{machine}{body}");
    Scenario::parse("test.toml", &text, &Repository).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

/// The engine of a scenario's run with seed 1, with a trace, checked at every event.
pub fn engine(body: &str) -> Engine {
    let mut engine = scenario(body).engine(1, Participants::All, 1 << 22).unwrap();
    engine.paranoid = true;
    engine
}

/// Runs for a while and observes.
pub fn observe(engine: &mut Engine, ns: u64) -> Observation {
    let until_ns = engine.now_ns() + ns;
    engine.run_until(until_ns).unwrap();
    let seen = engine.observe();
    seen.check().unwrap();
    seen
}

/// A tenant's observation by name.
pub fn tenant<'a>(seen: &'a Observation, name: &str) -> &'a TenantObservation {
    let id = seen.tenants.iter().find(|t| t.name == name).unwrap_or_else(|| panic!("no tenant {name}")).id;
    seen.by_tenant.iter().find(|t| t.id == id).unwrap_or_else(|| panic!("{name} had no task"))
}

/// Lengths of a task's stretches on a CPU, in the order in which they ended.
pub fn stretches(trace: &Trace, task: TaskId) -> Vec<u64> {
    let mut since = None;
    let mut lengths = Vec::new();
    for e in &trace.events {
        if let TraceKind::Switch { prev, next, .. } = e.kind {
            if prev == Some(task) {
                lengths.extend(since.take().map(|s: u64| e.t_ns - s));
            }
            if next == Some(task) {
                since = Some(e.t_ns);
            }
        }
    }
    lengths
}

/// From each wake-up of a task to its next switch-in.
pub fn latencies(trace: &Trace, task: TaskId) -> Vec<u64> {
    let mut woken = None;
    let mut lengths = Vec::new();
    for e in &trace.events {
        match e.kind {
            TraceKind::Wakeup { task: t, .. } if t == task => woken = Some(e.t_ns),
            TraceKind::Switch { next, .. } if next == Some(task) => {
                lengths.extend(woken.take().map(|w: u64| e.t_ns - w));
            }
            _ => {}
        }
    }
    lengths
}

/// The `q`-quantile of some lengths.
pub fn quantile(lengths: &[u64], q: f64) -> u64 {
    let mut sorted = lengths.to_vec();
    sorted.sort_unstable();
    sorted[((sorted.len() - 1) as f64 * q).round() as usize]
}
