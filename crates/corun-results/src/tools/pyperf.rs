//! `pyperf … -o FILE`: processes, each with some warm-ups and some values. Each has its start time and its duration.

use super::{Benchmark, Iteration, Results, Times, Tool, ToolRun};
use crate::field::Field;
use crate::unread::Problem;
use crate::when::{seconds_ns, Stamp};

const KNOWN: &str = "version 1.0";

pub(super) fn read(root: &Field) -> Result<Results, Problem> {
    let version = root.get("version")?;
    if version.text() != Ok("1.0") {
        return Err(version.is_unknown_version(KNOWN));
    }
    let common = root.find("metadata");
    let benchmarks = root.get("benchmarks")?.list()?;
    let benchmarks =
        benchmarks.iter().map(|field| benchmark(field, common.as_ref())).collect::<Result<_, _>>()?;
    Ok(Results { tool: Tool::Pyperf, times: Times::OfRuns, begin: None, benchmarks })
}

fn benchmark<'a>(field: &Field<'a>, common: Option<&Field<'a>>) -> Result<Benchmark, Problem> {
    let own = field.find("metadata");
    // Metadata common to all benchmarks or all runs is in the outer objects.
    let metadata = |run: Option<&Field<'a>>, name: &str| {
        [run, own.as_ref(), common].into_iter().flatten().find_map(|metadata| metadata.find(name))
    };
    let name =
        metadata(None, "name").ok_or_else(|| field.is_not("a benchmark with a name in its metadata"))?;
    if let Some(unit) = metadata(None, "unit").filter(|unit| unit.text() != Ok("second")) {
        return Err(unit.is_not("`second`"));
    }
    let mut runs = Vec::new();
    for run in field.get("runs")?.list()? {
        let of_run = run.find("metadata");
        let amount = |name| metadata(of_run.as_ref(), name).map_or(Ok(1.0), |field| field.amount());
        let loops = amount("loops")? * amount("inner_loops")?;
        let outer = amount("inner_loops")?;
        let begin = of_run.as_ref().and_then(|m| m.find("date"));
        let begin =
            begin.map(|date| Stamp::parse(date.text()?).ok_or_else(|| date.is_not("a time"))).transpose()?;
        let lasted = of_run.as_ref().and_then(|m| m.find("duration")).map(|d| d.amount()).transpose()?;
        let mut iterations = Vec::new();
        for warm_up in run.find("warmups").map_or(Ok(Vec::new()), |list| list.list())? {
            let pair = warm_up.amounts()?;
            let [count, seconds] = pair[..] else {
                return Err(warm_up.is_not("a pair of loops and seconds"));
            };
            let lasted_ns = seconds_ns(seconds * count * outer);
            iterations.push(Iteration { seconds, lasted_ns, is_warm_up: true });
        }
        // A run that only calibrates the number of loops has no values.
        let values = run.find("values").map_or(Ok(Vec::new()), |values| values.amounts())?;
        iterations.extend(values.into_iter().map(|s| Iteration::measured(s, seconds_ns(s * loops))));
        runs.push(ToolRun { begin, lasted_ns: lasted.and_then(seconds_ns), iterations });
    }
    Ok(Benchmark { name: name.text()?.to_owned(), runs })
}
