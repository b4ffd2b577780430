//! Why a file could not be read, in one sentence.

use std::fmt;

/// Limit: a text in a file, in MiB. What a test printed is in memory while it is read.
pub(crate) const MOST_TEXT_MIB: usize = 32;

/// A file that is not what it should be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}{}: {problem}", Line(.line))]
pub struct Unread {
    /// The file, as the user named it.
    pub file: String,
    /// Its line, where one is at fault.
    pub line: Option<u64>,
    /// What is wrong.
    pub problem: Problem,
}

struct Line<'a>(&'a Option<u64>);

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |line| write!(f, ":{line}"))
    }
}

/// What is wrong with a file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// The system could not read or write it.
    #[error("{0}")]
    Io(String),
    /// Not the format that it seems to be.
    #[error("this is damaged: {0}")]
    Damaged(String),
    /// None of the formats that are known.
    #[error(
        "corun does not know this format; it reads results of hyperfine, criterion, pyperf, Google Benchmark, \
         pytest-benchmark, go test and JMH"
    )]
    Unknown,
    /// A version of a format that is not known.
    #[error("`{key}` is {found}, but corun reads {known}; write the results in that version")]
    Version {
        /// Where the version stands.
        key: String,
        /// What stands there.
        found: String,
        /// What is known.
        known: &'static str,
    },
    /// A value that is not there or is of another sort.
    #[error("`{key}` is not {wanted}")]
    Value {
        /// Its place.
        key: String,
        /// What it should be.
        wanted: &'static str,
    },
    /// A file in which nothing was measured.
    #[error("it holds no result")]
    Empty,
    /// XML, but not of a test runner.
    #[error("this is no JUnit file: its root is `{0}`, not `testsuites` or `testsuite`")]
    NotJUnit(String),
    /// A text longer than is kept in memory.
    #[error(
        "a text that begins here is longer than {MOST_TEXT_MIB} MiB; have the test runner keep what tests print in a file of its own"
    )]
    LongText,
    /// Tests without times.
    #[error(
        "none of its test cases has a time, so nobody can tell when they ran; ask the test runner for times"
    )]
    NoTimes,
    /// Times that are not those of the run.
    #[error(
        "its tests ran at {0}, outside the run that corun watched: this is the file of another run, or its clock was another"
    )]
    OtherClock(String),
}

impl Problem {
    /// The same with its file.
    pub fn of(self, file: &str) -> Unread {
        Unread { file: file.to_owned(), line: None, problem: self }
    }

    /// The same with its file and line.
    pub fn at(self, file: &str, line: u64) -> Unread {
        Unread { file: file.to_owned(), line: Some(line), problem: self }
    }
}
