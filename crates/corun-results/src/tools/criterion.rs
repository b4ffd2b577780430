//! criterion: `sample.json` and `raw.csv` of a benchmark, or the output of `cargo criterion --message-format json` for many.

use super::{unit_s, Benchmark, Iteration, Results, Times, Tool, ToolRun};
use crate::field::Field;
use crate::unread::{Problem, Unread};
use crate::when::seconds_ns;
use serde_json::Value;

/// The first line of `raw.csv`.
pub(super) const CSV_HEADER: &str =
    "group,function,value,throughput_num,throughput_type,sample_measured_value,unit,iteration_count";

fn results(benchmarks: Vec<Benchmark>) -> Results {
    Results { tool: Tool::Criterion, times: Times::OrderOnly, begin: None, benchmarks }
}

/// A sample: the total time of `count` operations.
fn sample(count: f64, seconds: f64) -> Iteration {
    let each = if count > 0.0 { seconds / count } else { seconds };
    Iteration::measured(each, seconds_ns(seconds))
}

fn benchmark(name: String, iterations: Vec<Iteration>) -> Benchmark {
    Benchmark { name, runs: vec![ToolRun { iterations, ..ToolRun::default() }] }
}

pub(super) fn read_sample(root: &Field, file: &str) -> Result<Results, Problem> {
    let (counts, times) = (root.get("iters")?.amounts()?, root.get("times")?.amounts()?);
    if counts.len() != times.len() {
        return Err(root.get("times")?.is_not("as long as `iters`"));
    }
    let iterations = counts.into_iter().zip(times).map(|(n, ns)| sample(n, ns * 1e-9)).collect();
    Ok(results(vec![benchmark(name_in(file), iterations)]))
}

/// `…/criterion/GROUP/FUNCTION/new/sample.json` belongs to `GROUP/FUNCTION`.
fn name_in(file: &str) -> String {
    let parts: Vec<&str> = file.split('/').filter(|part| !part.is_empty()).collect();
    let end = parts.len().saturating_sub(2);
    let begin = parts.iter().rposition(|part| *part == "criterion").map_or(0, |n| n + 1);
    match parts.get(begin..end) {
        Some(name) if begin > 0 && !name.is_empty() => name.join("/"),
        _ => file.to_owned(),
    }
}

pub(super) fn read_messages(values: &[(Value, u64)], file: &str) -> Result<Results, Unread> {
    let read = |value: &Value| -> Result<Benchmark, Problem> {
        let message = Field::root(value);
        let unit = message.get("unit")?;
        let unit = unit_s(unit.text()?).ok_or_else(|| unit.is_not("a unit of time"))?;
        let counts = message.get("iteration_count")?.amounts()?;
        let values = message.get("measured_values")?.amounts()?;
        if counts.len() != values.len() {
            return Err(message.get("measured_values")?.is_not("as long as `iteration_count`"));
        }
        let iterations = counts.into_iter().zip(values).map(|(n, value)| sample(n, value * unit)).collect();
        Ok(benchmark(message.get("id")?.text()?.to_owned(), iterations))
    };
    let is_benchmark =
        |value: &Value| value.get("reason").and_then(Value::as_str) == Some("benchmark-complete");
    let complete = values.iter().filter(|(value, _)| is_benchmark(value));
    let benchmarks = complete.map(|(value, line)| read(value).map_err(|problem| problem.at(file, *line)));
    Ok(results(benchmarks.collect::<Result<_, _>>()?))
}

pub(super) fn read_csv(text: &str, file: &str) -> Result<Results, Unread> {
    let mut benchmarks: Vec<Benchmark> = Vec::new();
    for (line, n) in text.lines().zip(1..).skip(1).filter(|(line, _)| !line.trim().is_empty()) {
        let cells = cells(line);
        let damaged = |what: &str| Problem::Damaged(what.to_owned()).at(file, n);
        let [group, function, value, _, _, measured, unit, count] = &cells[..] else {
            return Err(damaged("a line needs 8 cells"));
        };
        let amount = |text: &String| text.parse::<f64>().ok().filter(|x| x.is_finite() && *x >= 0.0);
        let measured =
            amount(measured).ok_or_else(|| damaged("`sample_measured_value` is no number of at least 0"))?;
        let count = amount(count).ok_or_else(|| damaged("`iteration_count` is no number of at least 0"))?;
        let unit = unit_s(unit).ok_or_else(|| damaged("`unit` is no unit of time"))?;
        let parts = [group, function, value].into_iter().filter(|part| !part.is_empty());
        let name = parts.map(String::as_str).collect::<Vec<_>>().join("/");
        if benchmarks.last().is_none_or(|last| last.name != name) {
            benchmarks.push(benchmark(name, Vec::new()));
        }
        let last = benchmarks.last_mut().expect("one was pushed");
        last.runs[0].iterations.push(sample(count, measured * unit));
    }
    Ok(results(benchmarks))
}

/// The cells of a line of CSV.
fn cells(line: &str) -> Vec<String> {
    let mut cells = vec![String::new()];
    let mut is_quoted = false;
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        let cell = cells.last_mut().expect("there is always one");
        match c {
            '"' if is_quoted && chars.peek() == Some(&'"') => cell.extend(chars.next()),
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => cells.push(String::new()),
            c => cell.push(c),
        }
    }
    cells
}
