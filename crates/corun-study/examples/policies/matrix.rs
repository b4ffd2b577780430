//! Scenarios made from a few words, their runs, and what the runs are judged by.

use corun_sim::experiment::{co_runs, Run};
use corun_sim::machine_file::MachineModel;
use corun_sim::scenario::{Files, Scenario};
use std::path::Path;

/// The repository's own files.
struct Repository;

impl Files for Repository {
    fn read(&self, path: &str) -> Result<(String, String), String> {
        let full = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
        std::fs::read_to_string(&full).map(|text| (path.to_owned(), text)).map_err(|e| format!("{path}: {e}"))
    }

    fn host(&self) -> Result<MachineModel, String> {
        Err("these figures are of the papers' machines".into())
    }
}

/// Runs a scenario's text, with its solo runs left to the caller. What is wrong with it is wrong with this example.
pub fn runs(text: &str) -> Vec<Run> {
    let scenario = Scenario::parse("figure", text, &Repository).unwrap_or_else(|e| panic!("{e}\n{text}"));
    co_runs(&scenario).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

/// A `[policy]` table; `options` as in a scenario, empty for none.
pub fn policy(name: &str, options: &str) -> String {
    format!("[policy]\nname = \"{name}\"\noptions = {{ {options} }}\n")
}

/// How long a tenant's first run took, in seconds.
pub fn seconds(run: &Run, tenant: usize) -> f64 {
    let first = run.progress[tenant].completions.first().expect("every tenant of these runs ends");
    (first.end_ns - first.start_ns) as f64 / 1e9
}

/// Work per second: what a run of fixed length is judged by.
pub fn rate(run: &Run, tenant: usize) -> f64 {
    run.progress[tenant].work_ns as f64 / run.end_ns as f64
}

/// The mean.
pub fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// The geometric mean.
pub fn geometric(values: &[f64]) -> f64 {
    mean(&values.iter().map(|v| v.ln()).collect::<Vec<_>>()).exp()
}

/// Standard deviation over mean.
pub fn variation(values: &[f64]) -> f64 {
    let m = mean(values);
    let squares: f64 = values.iter().map(|v| (v - m) * (v - m)).sum();
    (squares / (values.len() - 1).max(1) as f64).sqrt() / m
}
