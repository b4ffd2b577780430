//! Results of benchmark tools: runs and iterations.
//!
//! [`Results::read`] recognizes the tool from the content of a file. An unknown version is refused: a number with a changed meaning
//! would be worse than none.

mod criterion;
mod go;
mod google_benchmark;
mod hyperfine;
mod jmh;
mod pyperf;
mod pytest_benchmark;

use crate::field::Field;
use crate::lives::{narrow, Life};
use crate::unread::{Problem, Unread};
use crate::when::{stamped, NotPlaced, Run, Sequence, Span, Stamp};
use serde_json::Value;

/// The tool that wrote a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tool {
    /// `hyperfine --export-json`.
    Hyperfine,
    /// `sample.json` or `raw.csv` of criterion, or `cargo criterion --message-format json`.
    Criterion,
    /// `pyperf … -o`.
    Pyperf,
    /// `--benchmark_out_format=json` of Google Benchmark.
    GoogleBenchmark,
    /// `pytest --benchmark-json`.
    PytestBenchmark,
    /// `go test -bench`, with or without `-json`.
    Go,
    /// `-rf json` of JMH.
    Jmh,
}

impl Tool {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Tool::Hyperfine => "hyperfine",
            Tool::Criterion => "criterion",
            Tool::Pyperf => "pyperf",
            Tool::GoogleBenchmark => "Google Benchmark",
            Tool::PytestBenchmark => "pytest-benchmark",
            Tool::Go => "go test",
            Tool::Jmh => "JMH",
        }
    }

    /// Whether it starts a process for each iteration, one after another.
    fn starts_processes(self) -> bool {
        self == Tool::Hyperfine
    }
}

/// How much a file says about the times of its iterations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Times {
    /// The begin of each of the tool's own runs.
    OfRuns,
    /// Only the order of the iterations, and the length of each.
    OrderOnly,
    /// Nothing: only the command as a whole can be judged, not its iterations.
    PerRunOnly,
}

/// The results of a tool.
#[derive(Clone, Debug, PartialEq)]
pub struct Results {
    /// The tool that wrote the file.
    pub tool: Tool,
    /// How much it says about the times of its iterations.
    pub times: Times,
    /// When the tool began, if it says so.
    pub begin: Option<Stamp>,
    /// Benchmarks in order.
    pub benchmarks: Vec<Benchmark>,
}

/// A benchmark.
#[derive(Clone, Debug, PartialEq)]
pub struct Benchmark {
    /// Its name in the tool.
    pub name: String,
    /// The runs in which the tool measured it.
    pub runs: Vec<ToolRun>,
}

/// A run of the tool: consecutive iterations.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolRun {
    /// When it began, if the tool says so.
    pub begin: Option<Stamp>,
    /// Its whole length, if the tool says so.
    pub lasted_ns: Option<i64>,
    /// Its iterations in order.
    pub iterations: Vec<Iteration>,
}

/// One measurement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Iteration {
    /// Seconds per operation, as the tool reports it.
    pub seconds: f64,
    /// The length of all its operations together. `None` if unknown.
    pub lasted_ns: Option<i64>,
    /// A warm-up: not a result, but it took time before the results.
    pub is_warm_up: bool,
}

impl Iteration {
    fn measured(seconds: f64, lasted_ns: Option<i64>) -> Iteration {
        Iteration { seconds, lasted_ns, is_warm_up: false }
    }
}

/// An iteration, and when it can have run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Placed<'a> {
    /// The benchmark's place in [`Results::benchmarks`].
    pub benchmark: usize,
    /// The iteration, never a warm-up.
    pub iteration: &'a Iteration,
    /// When it can have run.
    pub span: Result<Span, NotPlaced>,
}

impl Results {
    /// Reads the text of a file. `file` is its name; criterion has the name of a benchmark only there.
    ///
    /// # Errors
    /// [`Unread`] with the file, and the key or line that is wrong.
    pub fn read(text: &str, file: &str) -> Result<Results, Unread> {
        let results = read(text, file)?;
        if results.benchmarks.iter().all(|b| b.runs.iter().all(|run| run.iterations.is_empty())) {
            return Err(Problem::Empty.of(file));
        }
        Ok(results)
    }

    /// When its iterations can have run, without warm-ups.
    pub fn place(&self, run: &Run) -> Vec<Placed<'_>> {
        let begin_ns =
            self.begin.and_then(|stamp| stamp.within(run)).map_or(run.begin_ns, |(begin_ns, _)| begin_ns);
        let all: Vec<(usize, &ToolRun)> = self
            .benchmarks
            .iter()
            .enumerate()
            .flat_map(|(n, b)| b.runs.iter().map(move |run| (n, run)))
            .collect();
        // Runs without a timestamp follow each other, in order.
        let without: Vec<&ToolRun> = all.iter().filter(|(_, r)| r.begin.is_none()).map(|(_, r)| *r).collect();
        let mut by_order = match self.times {
            Times::PerRunOnly => Err(NotPlaced::NoTime),
            _ => sequence(&without, begin_ns, run.end_ns),
        };
        let mut placed = Vec::new();
        for (benchmark, tool_run) in all {
            let mut own = tool_run.begin.map(|stamp| own_sequence(&stamp, tool_run, run));
            let sequence = own.as_mut().unwrap_or(&mut by_order);
            for iteration in &tool_run.iterations {
                let span = match (sequence.as_mut(), iteration.lasted_ns) {
                    (Ok(sequence), Some(length_ns)) => Ok(sequence.next(length_ns)),
                    (Err(why), _) => Err(*why),
                    (Ok(_), None) => Err(NotPlaced::NoTime),
                };
                if !iteration.is_warm_up {
                    placed.push(Placed { benchmark, iteration, span });
                }
            }
        }
        placed
    }
}

impl Results {
    /// Narrows the possible times of iterations that are processes, using the lives of the run's processes in order of time.
    pub fn narrow(&self, placed: &mut [Placed], lives: &[Life]) {
        let spans: Result<Vec<Span>, NotPlaced> = placed.iter().map(|p| p.span).collect();
        let Ok(mut spans) = spans else { return };
        if self.tool.starts_processes() {
            narrow(&mut spans, lives);
            placed.iter_mut().zip(spans).for_each(|(placed, span)| placed.span = Ok(span));
        }
    }
}

/// The iterations of consecutive runs.
fn sequence(runs: &[&ToolRun], from_ns: i64, until_ns: i64) -> Result<Sequence, NotPlaced> {
    let lengths = runs.iter().flat_map(|run| &run.iterations).map(|i| i.lasted_ns);
    let (mut total_ns, mut longest_ns) = (0_i64, 0);
    for length_ns in lengths {
        let length_ns = length_ns.ok_or(NotPlaced::NoTime)?;
        total_ns = total_ns.saturating_add(length_ns);
        longest_ns = length_ns.max(longest_ns);
    }
    Sequence::new(from_ns, until_ns, total_ns, longest_ns)
}

/// The iterations of a run with a timestamp.
fn own_sequence(stamp: &Stamp, tool_run: &ToolRun, run: &Run) -> Result<Sequence, NotPlaced> {
    let whole = stamped(stamp, tool_run.lasted_ns.unwrap_or(0), run)?;
    let until_ns = tool_run.lasted_ns.map_or(run.end_ns, |ns| (whole.latest_ns + ns).min(run.end_ns));
    sequence(&[tool_run], whole.earliest_ns, until_ns)
}

fn read(text: &str, file: &str) -> Result<Results, Unread> {
    let text = text.trim_start_matches('\u{feff}').trim();
    if text.is_empty() {
        return Err(Problem::Empty.of(file));
    }
    if text.starts_with(criterion::CSV_HEADER) {
        return criterion::read_csv(text, file);
    }
    if !text.starts_with(['{', '[']) {
        return go::read_text(text).ok_or_else(|| Problem::Unknown.of(file));
    }
    let value = match serde_json::from_str::<Value>(text) {
        Ok(value) => value,
        Err(error) => return read_lines(text, file, &error),
    };
    let root = Field::root(&value);
    let read = match &value {
        Value::Array(_) => jmh::read(&root),
        _ if value.get("sampling_mode").is_some() => criterion::read_sample(&root, file),
        _ if value.get("results").is_some() => hyperfine::read(&root),
        _ if value.get("context").is_some() => google_benchmark::read(&root),
        _ if value.get("machine_info").is_some() => pytest_benchmark::read(&root),
        _ if value.get("benchmarks").is_some() => pyperf::read(&root),
        _ if is_a_line_of_a_stream(&value) => return read_lines(text, file, &"one line"),
        _ => Err(Problem::Unknown),
    };
    read.map_err(|problem| problem.of(file))
}

fn is_a_line_of_a_stream(value: &Value) -> bool {
    value.get("reason").is_some() || value.get("Action").is_some()
}

/// Streams of JSON, with one value per line.
fn read_lines(text: &str, file: &str, error: &dyn std::fmt::Display) -> Result<Results, Unread> {
    let lines = text.lines().zip(1..).filter(|(line, _)| line.starts_with('{'));
    let mut values: Vec<(Value, u64)> = Vec::new();
    for (line, n) in lines {
        match serde_json::from_str::<Value>(line) {
            Ok(value) => values.push((value, n)),
            Err(_) if values.is_empty() => return Err(Problem::Damaged(error.to_string()).of(file)),
            Err(error) => return Err(Problem::Damaged(error.to_string()).at(file, n)),
        }
    }
    match values.first() {
        Some((first, _)) if first.get("reason").is_some() => criterion::read_messages(&values, file),
        Some((first, _)) if first.get("Action").is_some() => go::read_events(&values, file),
        _ => Err(Problem::Damaged(error.to_string()).of(file)),
    }
}

/// A unit of time in seconds.
fn unit_s(unit: &str) -> Option<f64> {
    match unit {
        "s" | "second" => Some(1.0),
        "ms" => Some(1e-3),
        "us" | "µs" => Some(1e-6),
        "ns" => Some(1e-9),
        _ => None,
    }
}
