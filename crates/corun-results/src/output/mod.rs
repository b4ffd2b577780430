//! An [`Outcome`], written for who reads it: JUnit, Bencher's metric format, GitHub's summaries and annotations.

pub mod bencher;
pub mod github;
pub mod junit;

use serde::Serialize;

/// What is said of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Nobody disturbed it.
    Clean,
    /// Nobody can tell.
    Unclear,
    /// Somebody did.
    Disturbed,
    /// The command itself failed.
    Failed,
}

impl State {
    /// As a word.
    pub fn word(self) -> &'static str {
        match self {
            State::Clean => "clean",
            State::Unclear => "unclear",
            State::Disturbed => "disturbed",
            State::Failed => "failed",
        }
    }
}

/// What came of verifying a command.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The command.
    pub command: String,
    /// What is said of it.
    pub state: State,
    /// Whether that is a failure: what is unclear may be.
    pub is_failure: bool,
    /// The verdict in a sentence.
    pub sentence: String,
    /// All that is said of it, in lines.
    pub text: String,
    /// How long it took.
    pub wall_ns: u64,
    /// How long it would have taken undisturbed.
    pub undisturbed_ns: u64,
    /// Share of its wall time that was lost to others, 0..1.
    pub disturbance: f64,
    /// The benchmarks that it measured.
    pub benchmarks: Vec<Measured>,
    /// Its tests that failed.
    pub tests: Vec<Tested>,
}

/// A benchmark: as it was measured, and by its clean iterations alone, of all tries.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Measured {
    /// Its name.
    pub name: String,
    /// How many iterations its tool measures in a run.
    pub wanted: usize,
    /// All iterations.
    pub raw: Spread,
    /// Those that nobody disturbed for certain; `None`: there are none.
    pub cleaned: Option<Spread>,
    /// How many were disturbed.
    pub disturbed: usize,
    /// Of how many nobody can tell.
    pub unclear: usize,
    /// Share of its iterations' time that was lost to others, 0..1; `None`: of none it is known.
    pub disturbance: Option<f64>,
    /// Who took most of it.
    pub culprit: Option<String>,
}

impl Measured {
    /// Whether it has as many clean iterations as its tool measures in a run.
    pub fn is_complete(&self) -> bool {
        self.cleaned.is_some_and(|cleaned| cleaned.count >= self.wanted)
    }
}

/// Times of a few iterations, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// How many.
    pub count: usize,
    /// Their mean.
    pub mean_s: f64,
    /// The shortest.
    pub least_s: f64,
    /// The longest.
    pub most_s: f64,
    /// Their standard deviation; `None`: there is only one.
    pub deviation_s: Option<f64>,
}

impl Spread {
    /// That of some times; `None`: there are none.
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

/// A test that failed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Tested {
    /// Its name.
    pub name: String,
    /// What may have made it fail.
    pub verdict: TestVerdict,
    /// Why, in a sentence.
    pub why: String,
}

/// What may have made a test fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(into = "&'static str")]
pub enum TestVerdict {
    /// Others held the CPUs.
    Starved,
    /// A CPU budget of its own was used up.
    Throttled,
    /// Neither.
    NotStarved,
    /// Nobody knows.
    CannotTell,
}

impl TestVerdict {
    /// What people, tables and properties call it.
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
    // Four digits, of which those before the point are all shown.
    let digits = match seconds / unit_s {
        x if x < 10.0 => 3,
        x if x < 100.0 => 2,
        x if x < 1_000.0 => 1,
        _ => 0,
    };
    format!("{:.digits$} {unit}", seconds / unit_s)
}
