//! `hyperfine --export-json`: commands in order, and the time of every run of each.

use super::{Benchmark, Iteration, Results, Times, Tool, ToolRun};
use crate::field::Field;
use crate::unread::Problem;
use crate::when::seconds_ns;

pub(super) fn read(root: &Field) -> Result<Results, Problem> {
    let benchmark = |result: &Field| -> Result<Benchmark, Problem> {
        let times = result.get("times")?.amounts()?;
        let iterations = times.into_iter().map(|s| Iteration::measured(s, seconds_ns(s))).collect();
        let name = result.get("command")?.text()?.to_owned();
        Ok(Benchmark { name, runs: vec![ToolRun { iterations, ..ToolRun::default() }] })
    };
    let benchmarks = root.get("results")?.list()?.iter().map(benchmark).collect::<Result<_, _>>()?;
    Ok(Results { tool: Tool::Hyperfine, times: Times::OrderOnly, begin: None, benchmarks })
}
