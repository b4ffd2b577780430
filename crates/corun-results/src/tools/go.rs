//! `go test -bench`: lines such as `BenchmarkFib-8  300  412 ns/op`. With `-json` each line has the time at which it was written.
//!
//! A benchmark ran between the line before its result and the result. That line may be its name, or the result of another.

use super::{Benchmark, Iteration, Results, Times, Tool, ToolRun};
use crate::field::Field;
use crate::unread::{Problem, Unread};
use crate::when::{seconds_ns, Stamp};
use serde_json::Value;
use std::collections::BTreeMap;

/// A result: the benchmark's name, and its last round.
fn result(line: &str) -> Option<(&str, Iteration)> {
    let mut words = line.split_whitespace();
    let name = words.next().filter(|name| name.starts_with("Benchmark"))?;
    let count: u64 = words.next()?.parse().ok()?;
    let rest: Vec<&str> = words.collect();
    let ns: f64 = rest.windows(2).find(|pair| pair[1] == "ns/op")?[0].parse().ok()?;
    let seconds = Some(ns * 1e-9).filter(|s| s.is_finite() && *s >= 0.0)?;
    Some((name, Iteration::measured(seconds, seconds_ns(seconds * count as f64))))
}

/// Adds a run to the benchmark with that name, since `-count` repeats it.
fn add(benchmarks: &mut Vec<Benchmark>, name: String, run: ToolRun) {
    match benchmarks.iter_mut().find(|b| b.name == name) {
        Some(known) => known.runs.push(run),
        None => benchmarks.push(Benchmark { name, runs: vec![run] }),
    }
}

/// `None` if no line is a result.
pub(super) fn read_text(text: &str) -> Option<Results> {
    let mut benchmarks = Vec::new();
    // With -count the whole list of benchmarks repeats, so the order of names is not that of lines.
    let mut names: Vec<&str> = Vec::new();
    for (name, iteration) in text.lines().filter_map(result) {
        names.push(name);
        add(&mut benchmarks, name.to_owned(), ToolRun { iterations: vec![iteration], ..ToolRun::default() });
    }
    names.dedup();
    let is_in_order = names.len() == benchmarks.len();
    let times = if is_in_order { Times::OrderOnly } else { Times::PerRunOnly };
    (!benchmarks.is_empty()).then_some(Results { tool: Tool::Go, times, begin: None, benchmarks })
}

/// The last output of a package.
#[derive(Default)]
struct Written {
    /// The beginning of a line that has not ended.
    line: String,
    /// When the last whole line ended.
    at: Option<Stamp>,
}

pub(super) fn read_events(values: &[(Value, u64)], file: &str) -> Result<Results, Unread> {
    let mut packages: BTreeMap<&str, Written> = BTreeMap::new();
    let mut benchmarks = Vec::new();
    for (value, line) in values {
        let read =
            |benchmarks: &mut Vec<Benchmark>, packages: &mut BTreeMap<_, Written>| -> Result<(), Problem> {
                let event = Field::root(value);
                let package = value.get("Package").and_then(Value::as_str).unwrap_or_default();
                let time = event.get("Time")?;
                let at = Stamp::parse(time.text()?).ok_or_else(|| time.is_not("a time"))?;
                let written = packages.entry(package).or_default();
                let output = event.find("Output").map_or(Ok(""), |output| output.text())?;
                written.line.push_str(output);
                if written.line.ends_with('\n') || output.is_empty() {
                    let ended = std::mem::take(&mut written.line);
                    let before = written.at.replace(at);
                    if let Some((name, iteration)) = result(&ended) {
                        let lasted_ns = before.and_then(|before| at.since(&before));
                        let run = ToolRun { begin: before, lasted_ns, iterations: vec![iteration] };
                        add(benchmarks, format!("{package}.{name}").trim_start_matches('.').to_owned(), run);
                    }
                }
                Ok(())
            };
        read(&mut benchmarks, &mut packages).map_err(|problem| problem.at(file, *line))?;
    }
    Ok(Results { tool: Tool::Go, times: Times::OfRuns, begin: None, benchmarks })
}
