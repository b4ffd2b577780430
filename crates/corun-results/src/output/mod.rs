//! An [`Outcome`] in the formats of its readers: JUnit, Bencher's metric format, GitHub's summaries and annotations.

pub mod bencher;
pub mod github;
pub mod junit;

use serde::Serialize;

/// The verdict on a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Nobody disturbed it.
    Clean,
    /// It cannot be told.
    Unclear,
    /// It was disturbed.
    Disturbed,
    /// The command itself failed.
    Failed,
}

impl State {
    /// The verdict as a word.
    pub fn word(self) -> &'static str {
        match self {
            State::Clean => "clean",
            State::Unclear => "unclear",
            State::Disturbed => "disturbed",
            State::Failed => "failed",
        }
    }
}

/// The result of verifying a command.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The command.
    pub command: String,
    /// The verdict.
    pub state: State,
    /// Whether the verdict is a failure. An unclear one may be.
    pub is_failure: bool,
    /// The verdict in a sentence.
    pub sentence: String,
    /// The whole report, in lines.
    pub text: String,
    /// Wall time, in nanoseconds.
    pub wall_ns: u64,
    /// Wall time without the disturbance, in nanoseconds.
    pub undisturbed_ns: u64,
    /// The share of its wall time that it lost to others, 0 to 1.
    pub disturbance: f64,
    /// The benchmarks that it measured.
    pub benchmarks: Vec<Measured>,
    /// Its failed tests.
    pub tests: Vec<Tested>,
}

/// A benchmark over all attempts: as measured, and from clean iterations only.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Measured {
    /// Its name.
    pub name: String,
    /// How many iterations its tool measures in a run.
    pub wanted: usize,
    /// All iterations.
    pub raw: Spread,
    /// Iterations that were certainly not disturbed. `None` if there are none.
    pub cleaned: Option<Spread>,
    /// Number of disturbed iterations.
    pub disturbed: usize,
    /// Number of iterations that cannot be judged.
    pub unclear: usize,
    /// The share of its iterations' time that was lost to others, 0 to 1. `None` if unknown for all of them.
    pub disturbance: Option<f64>,
    /// The main culprit.
    pub culprit: Option<String>,
}

impl Measured {
    /// Whether it has as many clean iterations as its tool measures in a run.
    pub fn is_complete(&self) -> bool {
        self.cleaned.is_some_and(|cleaned| cleaned.count >= self.wanted)
    }
}

/// Statistics of iterations, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// Number of iterations.
    pub count: usize,
    /// Their mean.
    pub mean_s: f64,
    /// The shortest.
    pub least_s: f64,
    /// The longest.
    pub most_s: f64,
    /// Their standard deviation. `None` for a single one.
    pub deviation_s: Option<f64>,
}

impl Spread {
    /// The statistics of these times. `None` for an empty list.
    pub fn of(seconds: impl IntoIterator<Item = f64>) -> Option<Spread> {
        let all: Vec<f64> = seconds.into_iter().collect();
        let count = all.len();
        let mean_s = all.iter().sum::<f64>() / count as f64;
        let squares: f64 = all.iter().map(|s| (s - mean_s).powi(2)).sum();
        (count > 0).then(|| Spread {
            count,
            mean_s,
            least_s: all.iter().copied().fold(f64::INFINITY, f64::min),
            most_s: all.iter().copied().fold(0.0, f64::max),
            deviation_s: (count > 1).then(|| (squares / (count - 1) as f64).sqrt()),
        })
    }
}

/// A failed test.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Tested {
    /// Its name.
    pub name: String,
    /// The possible cause of the failure.
    pub verdict: TestVerdict,
    /// The reason, in a sentence.
    pub why: String,
}

/// The possible cause of a test failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(into = "&'static str")]
pub enum TestVerdict {
    /// Others used the CPUs.
    Starved,
    /// It had used up its own CPU budget.
    Throttled,
    /// Neither of these.
    NotStarved,
    /// The cause is unknown.
    CannotTell,
}

impl TestVerdict {
    /// Its name in tables and properties.
    pub fn name(self) -> &'static str {
        match self {
            TestVerdict::Starved => "starved",
            TestVerdict::Throttled => "throttled",
            TestVerdict::NotStarved => "not starved",
            TestVerdict::CannotTell => "cannot tell",
        }
    }
}

impl From<TestVerdict> for &'static str {
    fn from(verdict: TestVerdict) -> &'static str {
        verdict.name()
    }
}

/// A time for people, such as `1.23 ms`.
pub fn human_s(seconds: f64) -> String {
    let units = [(1.0, "s"), (1e-3, "ms"), (1e-6, "µs")];
    let (unit_s, unit) = units.into_iter().find(|(unit_s, _)| seconds >= *unit_s).unwrap_or((1e-9, "ns"));
    // Four digits, but always all digits before the point.
    let digits = match seconds / unit_s {
        x if x < 10.0 => 3,
        x if x < 100.0 => 2,
        x if x < 1_000.0 => 1,
        _ => 0,
    };
    format!("{:.digits$} {unit}", seconds / unit_s)
}
