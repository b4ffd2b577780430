//! `pytest --benchmark-json FILE`: statistics of every benchmark, and its rounds if `--benchmark-save-data` was given.

use super::{Benchmark, Iteration, Results, Times, Tool, ToolRun};
use crate::field::Field;
use crate::unread::Problem;
use crate::when::seconds_ns;

const KNOWN: &str = "versions 3 to 5";

pub(super) fn read(root: &Field) -> Result<Results, Problem> {
    let version = root.get("version")?;
    let major = version.text()?.split('.').next().and_then(|n| n.parse::<u32>().ok());
    if !major.is_some_and(|n| (3..=5).contains(&n)) {
        return Err(version.is_unknown_version(KNOWN));
    }
    let mut benchmarks = Vec::new();
    let mut tells_rounds = true;
    for field in root.get("benchmarks")?.list()? {
        let stats = field.get("stats")?;
        let of_each = stats.find("iterations").map_or(Ok(1.0), |n| n.amount())?;
        let rounds = stats.find("data").or_else(|| field.find("data"));
        let iterations = match rounds {
            Some(rounds) => {
                let rounds = rounds.amounts()?.into_iter();
                rounds.map(|s| Iteration::measured(s, seconds_ns(s * of_each))).collect()
            }
            None => {
                tells_rounds = false;
                vec![Iteration::measured(stats.get("mean")?.amount()?, None)]
            }
        };
        let name = field.find("fullname").map_or_else(|| field.get("name"), Ok)?.text()?.to_owned();
        benchmarks.push(Benchmark { name, runs: vec![ToolRun { iterations, ..ToolRun::default() }] });
    }
    let times = if tells_rounds { Times::OrderOnly } else { Times::PerRunOnly };
    Ok(Results { tool: Tool::PytestBenchmark, times, begin: None, benchmarks })
}
