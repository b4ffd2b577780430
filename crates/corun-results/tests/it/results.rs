//! Files of benchmark tools are read correctly, and unknown content is refused with its place.

use corun_results::tools::{Placed, Times};
use corun_results::when::By;
use corun_results::{NotPlaced, Problem, Results, Run, Tool};

const SECOND: i64 = 1_000_000_000;
const MS: i64 = 1_000_000;
/// A minute from 2026-01-02T03:04:05Z.
const RUN: Run = Run { begin_ns: 1_767_323_045 * SECOND, end_ns: 1_767_323_105 * SECOND, ahead_s: 0 };

fn kept(name: &str) -> String {
    std::fs::read_to_string(format!("{}/tests/corpus/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

fn read(name: &str) -> Results {
    Results::read(&kept(name), &format!("target/criterion/list/{name}/new/{name}")).unwrap()
}

/// Name and seconds of every iteration that is a result.
fn measured(results: &Results) -> Vec<(&str, f64)> {
    let all = results.benchmarks.iter().flat_map(|b| b.runs.iter().map(move |run| (b.name.as_str(), run)));
    let iterations = all.flat_map(|(name, run)| run.iterations.iter().map(move |i| (name, i)));
    iterations
        .filter(|(_, i)| !i.is_warm_up)
        .map(|(name, i)| (name, (i.seconds * 1e12).round() / 1e12))
        .collect()
}

/// The bounds of each start, in milliseconds of the run, and the lengths.
fn spans(placed: &[Placed]) -> Vec<Result<(i64, i64, i64), NotPlaced>> {
    let ms = |ns| (ns - RUN.begin_ns) / MS;
    placed.iter().map(|p| p.span.map(|s| (ms(s.earliest_ns), ms(s.latest_ns), s.length_ns / MS))).collect()
}

/// A file, and its expected results.
type Row = (&'static str, Tool, Times, &'static [(&'static str, f64)]);

#[test]
fn every_tools_results_are_read() {
    let table: [Row; 10] = [
        (
            "hyperfine.json",
            Tool::Hyperfine,
            Times::OrderOnly,
            &[
                ("./bench --small", 1.0),
                ("./bench --small", 1.01),
                ("./bench --small", 1.05),
                ("./bench --large", 2.0),
                ("./bench --large", 2.2),
            ],
        ),
        (
            "sample.json",
            Tool::Criterion,
            Times::OrderOnly,
            &[
                ("list/sample.json", 1.25e-6),
                ("list/sample.json", 1.24e-6),
                ("list/sample.json", 1.253333e-6),
            ],
        ),
        (
            "raw.csv",
            Tool::Criterion,
            Times::OrderOnly,
            &[
                ("Fibonacci/Iterative", 0.915e-6),
                ("Fibonacci/Iterative", 0.982e-6),
                ("Sort, stable/merge/1,000", 0.25e-3),
            ],
        ),
        (
            "cargo-criterion.jsonl",
            Tool::Criterion,
            Times::OrderOnly,
            &[("norm", 4.14e-6), ("norm", 4.166667e-6)],
        ),
        (
            "pyperf.json",
            Tool::Pyperf,
            Times::OfRuns,
            &[("telco", 0.1), ("telco", 0.102), ("telco", 0.101), ("telco", 0.1)],
        ),
        (
            "google-benchmark.json",
            Tool::GoogleBenchmark,
            Times::OrderOnly,
            &[("BM_Copy/8", 5e-6), ("BM_Sort", 3.5e-3)],
        ),
        (
            "pytest-benchmark.json",
            Tool::PytestBenchmark,
            Times::OrderOnly,
            &[
                ("tests/test_bench.py::test_parse[small]", 0.5),
                ("tests/test_bench.py::test_parse[small]", 0.5),
                ("tests/test_bench.py::test_parse[small]", 0.52),
            ],
        ),
        ("go-bench.jsonl", Tool::Go, Times::OfRuns, &[("example/fib.BenchmarkFib10-4", 240e-9)]),
        (
            "go-bench.txt",
            Tool::Go,
            Times::OrderOnly,
            &[("BenchmarkFib10-4", 240e-9), ("BenchmarkFib20-4", 40e-6)],
        ),
        (
            "jmh.json",
            Tool::Jmh,
            Times::OrderOnly,
            &[
                ("org.example.ListBenchmark.add {\"size\":\"10\"}", 4e-6),
                ("org.example.ListBenchmark.add {\"size\":\"10\"}", 5e-6),
                ("org.example.ListBenchmark.add {\"size\":\"10\"}", 4e-6),
                ("org.example.ListBenchmark.add {\"size\":\"10\"}", 2e-6),
            ],
        ),
    ];
    for (file, tool, times, wanted) in table {
        let results = read(file);
        assert_eq!((results.tool, results.times), (tool, times), "{file}");
        assert_eq!(measured(&results), wanted, "{file}");
    }
}

#[test]
fn an_iteration_is_placed_as_exactly_as_its_tool_allows() {
    let results = read("hyperfine.json");
    let placed = results.place(&RUN);
    // All together take 7.26 s of a minute, so 52.74 s are open.
    assert_eq!(
        spans(&placed)[..3],
        [Ok((0, 52_740, 1_000)), Ok((1_000, 53_740, 1_010)), Ok((2_010, 54_750, 1_050))]
    );
    assert!(placed.iter().all(|p| p.span.unwrap().by == By::Order));
    let tight = Run { end_ns: RUN.begin_ns + 7_300 * MS, ..RUN };
    let within: Vec<i64> =
        results.place(&tight).iter().map(|p| p.span.unwrap()).map(|s| s.latest_ns - s.earliest_ns).collect();
    assert_eq!(within, [40 * MS; 5], "what is left open is the same for all");
    let pyperf = read("pyperf.json");
    // The second run began at 2.25 s, took 1.3 s, and warmed up for 0.44 s, so 52 ms of it are open.
    assert_eq!(spans(&pyperf.place(&RUN))[..2], [Ok((2_690, 2_742, 400)), Ok((3_090, 3_142, 408))]);
    let go = read("go-bench.jsonl");
    assert_eq!(spans(&go.place(&RUN)), [Ok((1_220, 1_720, 1_200))], "the last round is the last");
}

#[test]
fn times_that_a_tool_does_not_give_are_not_guessed() {
    let mut value: serde_json::Value = serde_json::from_str(&kept("pytest-benchmark.json")).unwrap();
    value["benchmarks"][0]["stats"].as_object_mut().unwrap().remove("data");
    let results = Results::read(&value.to_string(), "b.json").unwrap();
    assert_eq!(results.times, Times::PerRunOnly);
    assert_eq!(spans(&results.place(&RUN)), [Err(NotPlaced::NoTime)]);
    let text = kept("go-bench.txt");
    let twice = Results::read(&(text.clone() + &text), "b.txt").unwrap();
    assert_eq!(twice.times, Times::PerRunOnly, "the order of lines is not that of names");
    let hyperfine = read("hyperfine.json");
    for (seconds, why) in [(1, NotPlaced::TooLong), (3, NotPlaced::AtATime)] {
        let short = Run { end_ns: RUN.begin_ns + seconds * SECOND, ..RUN };
        assert!(spans(&hyperfine.place(&short)).iter().all(|span| *span == Err(why)), "{seconds}");
    }
}

#[test]
fn every_error_names_its_place() {
    let changed = |name: &str, from: &str, to: &str| {
        let text = kept(name);
        assert!(text.contains(from), "{name} has no {from}");
        Results::read(&text.replace(from, to), name).unwrap_err().to_string()
    };
    let table = [
        (
            "pyperf.json",
            "\"version\": \"1.0\"",
            "\"version\": \"2.0\"",
            "pyperf.json: `version` is \"2.0\", but corun reads version 1.0",
        ),
        (
            "pyperf.json",
            "0.102",
            "-1",
            "pyperf.json: `benchmarks[0].runs[1].values[1]` is not a number of at least 0",
        ),
        (
            "google-benchmark.json",
            "\"json_schema_version\": 1",
            "\"json_schema_version\": 2",
            "google-benchmark.json: `context.json_schema_version` is 2",
        ),
        (
            "pytest-benchmark.json",
            "\"4.0.0\"",
            "\"9.0.0\"",
            "pytest-benchmark.json: `version` is \"9.0.0\", but corun reads versions 3 to 5",
        ),
        ("jmh.json", "\"1.37\"", "\"2.0\"", "jmh.json: `[0].jmhVersion` is \"2.0\""),
        (
            "jmh.json",
            "ops/ms",
            "apples",
            "jmh.json: `[0].primaryMetric.scoreUnit` is not a time an operation",
        ),
        ("hyperfine.json", "\"times\": [2.0, 2.2],", "", "hyperfine.json: `results[1].times` is not there"),
        ("sample.json", ",3000.0", "", "sample.json: `times` is not as long as `iters`"),
        ("raw.csv", "1964000", "many", "raw.csv:3: this is damaged: `sample_measured_value` is no number"),
        (
            "cargo-criterion.jsonl",
            "\"unit\":\"ns\",\"throughput\"",
            "\"unit\":\"x\",\"throughput\"",
            "cargo-criterion.jsonl:1: `unit` is not a unit of time",
        ),
        (
            "go-bench.jsonl",
            "2026-01-02T03:04:07.930000000Z",
            "soon",
            "go-bench.jsonl:8: `Time` is not a time",
        ),
    ];
    for (name, from, to, wanted) in table {
        let said = changed(name, from, to);
        assert!(said.starts_with(wanted), "{said}");
    }
}

#[test]
fn unknown_and_empty_files_are_refused() {
    let problem = |text: &str| Results::read(text, "x.json").unwrap_err().problem;
    assert_eq!(problem("{\"answer\": 42}"), Problem::Unknown);
    assert_eq!(problem("hello"), Problem::Unknown);
    assert_eq!(problem(" \n"), Problem::Empty);
    assert_eq!(problem("{\"results\": []}"), Problem::Empty);
    assert!(matches!(problem("{\"results\": [{\"comm"), Problem::Damaged(_)));
}
