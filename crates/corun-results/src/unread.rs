//! Why a file could not be read, in one sentence.

use std::fmt;

/// The longest text in a file, in MiB. The output of a test is in memory while it is read.
pub(crate) const MOST_TEXT_MIB: usize = 32;

/// A file that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}{}: {problem}", Line(.line))]
pub struct Unread {
    /// The file, as the user named it.
    pub file: String,
    /// The line of the error, if there is one.
    pub line: Option<u64>,
    /// The error.
    pub problem: Problem,
}

struct Line<'a>(&'a Option<u64>);

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |line| write!(f, ":{line}"))
    }
}

/// An error in a file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// The system could not read or write it.
    #[error("{0}")]
    Io(String),
    /// It is not the format that it seems to be.
    #[error("this is damaged: {0}")]
    Damaged(String),
    /// It is not a known format.
    #[error(
        "corun does not know this format; it reads results of hyperfine, criterion, pyperf, Google Benchmark, \
         pytest-benchmark, go test and JMH"
    )]
    Unknown,
    /// An unknown version of a format.
    #[error("`{key}` is {found}, but corun reads {known}; write the results in that version")]
    Version {
        /// The key of the version.
        key: String,
        /// The version in the file.
        found: String,
        /// The known version.
        known: &'static str,
    },
    /// A value that is missing or of the wrong type.
    #[error("`{key}` is not {wanted}")]
    Value {
        /// Its place.
        key: String,
        /// The type that it should have.
        wanted: &'static str,
    },
    /// A file without results.
    #[error("it holds no result")]
    Empty,
    /// XML that is not from a test runner.
    #[error("this is no JUnit file: its root is `{0}`, not `testsuites` or `testsuite`")]
    NotJUnit(String),
    /// A text that is too long to keep in memory.
    #[error(
        "a text that begins here is longer than {MOST_TEXT_MIB} MiB; have the test runner keep what tests print in a file of its own"
    )]
    LongText,
    /// Tests without times.
    #[error(
        "none of its test cases has a time, so nobody can tell when they ran; ask the test runner for times"
    )]
    NoTimes,
    /// Times outside the run.
    #[error(
        "its tests ran at {0}, outside the run that corun watched: this is the file of another run, or its clock was another"
    )]
    OtherClock(String),
}

impl Problem {
    /// Adds the file.
    pub fn of(self, file: &str) -> Unread {
        Unread { file: file.to_owned(), line: None, problem: self }
    }

    /// Adds the file and the line.
    pub fn at(self, file: &str, line: u64) -> Unread {
        Unread { file: file.to_owned(), line: Some(line), problem: self }
    }
}
