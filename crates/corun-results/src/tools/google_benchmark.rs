//! Google Benchmark's JSON: repetitions of benchmarks in order, after a context with the start time of the program.

use super::{unit_s, Benchmark, Iteration, Results, Times, Tool, ToolRun};
use crate::field::Field;
use crate::unread::Problem;
use crate::when::{seconds_ns, Stamp};

const KNOWN: &str = "schema version 1";

pub(super) fn read(root: &Field) -> Result<Results, Problem> {
    let context = root.get("context")?;
    if let Some(version) = context.find("json_schema_version") {
        if version.amount() != Ok(1.0) {
            return Err(version.is_unknown_version(KNOWN));
        }
    }
    let begin = context.find("date");
    let begin =
        begin.map(|date| Stamp::parse(date.text()?).ok_or_else(|| date.is_not("a time"))).transpose()?;
    let mut benchmarks: Vec<Benchmark> = Vec::new();
    for entry in root.get("benchmarks")?.list()? {
        let is_aggregate = entry.find("run_type").is_some_and(|kind| kind.text() == Ok("aggregate"));
        // An entry that ended in an error has no time.
        if is_aggregate || entry.find("error_occurred").is_some() {
            continue;
        }
        let unit = entry.find("time_unit");
        let unit = match &unit {
            Some(unit) => unit_s(unit.text()?).ok_or_else(|| unit.is_not("a unit of time"))?,
            None => 1e-9,
        };
        let seconds = entry.get("real_time")?.amount()? * unit;
        let count = entry.get("iterations")?.amount()?;
        let name = entry.find("run_name").map_or_else(|| entry.get("name"), Ok)?.text()?.to_owned();
        if benchmarks.last().is_none_or(|last| last.name != name) {
            benchmarks.push(Benchmark { name, runs: vec![ToolRun::default()] });
        }
        let last = benchmarks.last_mut().expect("one was pushed");
        last.runs[0].iterations.push(Iteration::measured(seconds, seconds_ns(seconds * count)));
    }
    // Repetitions of several benchmarks may have been interleaved at random, and the file does not say so.
    let is_repeated = benchmarks.iter().any(|b| b.runs[0].iterations.len() > 1);
    let times = if is_repeated && benchmarks.len() > 1 { Times::PerRunOnly } else { Times::OrderOnly };
    Ok(Results { tool: Tool::GoogleBenchmark, times, begin, benchmarks })
}
