//! JMH's `-rf json`: forks of iterations with a fixed length.

use super::{unit_s, Benchmark, Iteration, Results, Times, Tool, ToolRun};
use crate::field::Field;
use crate::unread::Problem;
use crate::when::seconds_ns;

const KNOWN: &str = "versions 1.x";

pub(super) fn read(root: &Field) -> Result<Results, Problem> {
    let benchmarks = root.list()?.iter().map(benchmark).collect::<Result<_, _>>()?;
    Ok(Results { tool: Tool::Jmh, times: Times::OrderOnly, begin: None, benchmarks })
}

fn benchmark(field: &Field) -> Result<Benchmark, Problem> {
    if let Some(version) = field.find("jmhVersion") {
        if !version.text()?.starts_with("1.") {
            return Err(version.is_unknown_version(KNOWN));
        }
    }
    let metric = field.get("primaryMetric")?;
    let unit = metric.get("scoreUnit")?;
    let seconds =
        seconds_of(unit.text()?).ok_or_else(|| unit.is_not("a time an operation or operations a time"))?;
    let length = |name| field.find(name).and_then(|time| length_s(time.text().ok()?)).and_then(seconds_ns);
    let (warm_up_ns, lasted_ns) = (length("warmupTime"), length("measurementTime"));
    let warm_ups = field.find("warmupIterations").map_or(Ok(0.0), |n| n.amount())?;
    // No benchmark has more warm-ups, but a file may contain any number.
    let warm_ups = warm_ups.min(10_000.0) as usize;
    let mut runs = Vec::new();
    for fork in metric.get("rawData")?.list()? {
        let warm_up = Iteration { seconds: 0.0, lasted_ns: warm_up_ns, is_warm_up: true };
        let measured = |score| {
            let seconds = seconds(score);
            Iteration::measured(seconds, lasted_ns.or_else(|| seconds_ns(seconds)))
        };
        let scores = fork.amounts()?.into_iter().map(measured);
        let iterations = std::iter::repeat_n(warm_up, warm_ups).chain(scores).collect();
        runs.push(ToolRun { iterations, ..ToolRun::default() });
    }
    let mut name = field.get("benchmark")?.text()?.to_owned();
    if let Some(parameters) = field.find("params") {
        name += &format!(" {}", parameters.json());
    }
    Ok(Benchmark { name, runs })
}

/// The function that converts a score of this unit into seconds per operation.
fn seconds_of(unit: &str) -> Option<Box<dyn Fn(f64) -> f64>> {
    let (above, below) = unit.split_once('/')?;
    match (above, below) {
        ("ops", time) => {
            let time_s = unit_s(time)?;
            Some(Box::new(move |score| if score > 0.0 { time_s / score } else { 0.0 }))
        }
        (time, "op") => {
            let time_s = unit_s(time)?;
            Some(Box::new(move |score| score * time_s))
        }
        _ => None,
    }
}

/// `10 s` in seconds. `None` if an iteration lasts one operation.
fn length_s(text: &str) -> Option<f64> {
    let (number, unit) = text.split_once(' ')?;
    Some(number.parse::<f64>().ok().filter(|x| *x >= 0.0)? * unit_s(unit)?)
}
