//! Parts of the run: a benchmark tool's records, and the test cases of a JUnit file, each judged by its own
//! span.

use corun_predict::spans::{self, Judged, Parts};
use corun_predict::verdict::Judge;
use corun_predict::Ruling;
use corun_report::output::write_file_by;
use corun_report::places::unread;
use corun_report::verify::parts::{case_verdict, is_close, Benchmark, Iteration};
use corun_results::output::Tested;
use corun_results::tools::Benchmark as Named;
use corun_results::{annotate, Annotated, Life, NotPlaced, Problem, Results, Run, Span, Unread};
use corun_session::verify::Verified;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, Error};
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Limit: for this many failed tests the report says what kept them from their CPUs; the copy of the file
/// says it for all.
const MOST_FAILED: usize = 10_000;

/// A file that the command may write.
pub struct Awaited<'a> {
    path: &'a Path,
    before: Option<State>,
}

impl<'a> Awaited<'a> {
    /// This file, as it is now.
    pub fn new(path: &'a Path) -> Awaited<'a> {
        Awaited { path, before: state(path) }
    }

    /// Whether it was written since.
    pub fn is_written(&self) -> bool {
        let now = state(self.path);
        now.is_some() && now != self.before
    }
}

/// The JUnit files that the command may write: one, or those in a folder. Some runners write one for each class of tests.
pub struct AwaitedTests<'a> {
    place: &'a Path,
    before: BTreeMap<PathBuf, State>,
}

impl<'a> AwaitedTests<'a> {
    /// This file, or the files in this folder, as they are now.
    pub fn new(place: &'a Path) -> AwaitedTests<'a> {
        let before = junit_files(place).into_iter().filter_map(|file| state(&file).map(|now| (file, now)));
        AwaitedTests { place, before: before.collect() }
    }

    /// Those that were written since, by name.
    pub fn written(&self) -> Vec<PathBuf> {
        let mut files = junit_files(self.place);
        files.retain(|file| state(file).is_some_and(|now| self.before.get(file) != Some(&now)));
        files
    }
}

/// What changes when a file is written: its inode, and the time of its last change.
type State = (u64, i64, i64);

fn state(path: &Path) -> Option<State> {
    let file = std::fs::metadata(path).ok().filter(|m| m.is_file())?;
    Some((file.ino(), file.ctime(), file.ctime_nsec()))
}

fn junit_files(place: &Path) -> Vec<PathBuf> {
    let Ok(folder) = std::fs::read_dir(place) else { return vec![place.to_owned()] };
    let name_ends = |file: &Path, end: &str| file.as_os_str().as_bytes().ends_with(end.as_bytes());
    let mut files: Vec<PathBuf> = folder.flatten().map(|entry| entry.path()).collect();
    files.retain(|file| name_ends(file, ".xml") && !name_ends(file, &format!(".{COPY}")));
    files.sort();
    files
}

/// The extension of copies.
const COPY: &str = "corun.xml";

/// The copy of a JUnit file with the properties: `a.xml` has `a.corun.xml`.
pub fn copy_of(file: &Path) -> PathBuf {
    file.with_extension(COPY)
}

/// How many seconds this machine's local time is ahead of UTC.
pub fn ahead_of_utc_s() -> i64 {
    i64::from(jiff::Zoned::now().offset().seconds())
}

/// A run that was watched, on the clock of files.
pub struct Watched<'a> {
    run: Run,
    /// How far that clock was ahead of the host's at the beginning and at the end.
    ahead_ns: [i64; 2],
    judge: &'a Judge,
    parts: Parts<'a>,
}

impl<'a> Watched<'a> {
    /// `None` if it was not watched for its parts.
    pub fn new(verified: &'a Verified) -> Option<Watched<'a>> {
        Watched::on_clock(&verified.judge, verified.begin_ns..verified.end_ns, verified.unix_ahead_ns)
    }

    /// A judge's observations from one instant to another of the host's clock. The clock of files is ahead of
    /// it by the given differences at the beginning and at the end.
    pub fn on_clock(judge: &'a Judge, ran_ns: Range<u64>, ahead_ns: [i64; 2]) -> Option<Watched<'a>> {
        let run = Run {
            begin_ns: ran_ns.start as i64 + ahead_ns[0],
            end_ns: ran_ns.end as i64 + ahead_ns[1],
            ahead_s: ahead_of_utc_s(),
        };
        Some(Watched { run, ahead_ns, judge, parts: judge.parts()? })
    }

    fn on_host(&self, span: &Span) -> spans::Span {
        on_host(span, self.ahead_ns)
    }

    fn name_of(&self, judged: &Judged) -> Option<&str> {
        judged.culprit.and_then(|who| self.judge.name_of(who))
    }

    /// The benchmarks of a tool's results.
    ///
    /// # Errors
    /// If the file is not a tool's output.
    pub fn benchmarks(&self, path: &Path, verified: &Verified) -> Result<Vec<Benchmark>, Unread> {
        let file = path.display().to_string();
        let text =
            crate::reading::results_of_tool(path).map_err(|e| Problem::Io(unread(path, &e)).of(&file))?;
        let results = Results::read(&text, &file)?;
        let mut iterations: Vec<Vec<Iteration>> = vec![Vec::new(); results.benchmarks.len()];
        let mut placed = results.place(&self.run);
        let of_files = |ns: u64| ns as i64 + self.ahead_ns[0];
        let life = |&(begin, end): &(u64, u64)| Life { begin_ns: of_files(begin), end_ns: of_files(end) };
        results.narrow(&mut placed, &verified.lives.iter().map(life).collect::<Vec<_>>());
        for placed in placed {
            let seconds = placed.iteration.seconds;
            iterations[placed.benchmark].push(match placed.span {
                Ok(span) => {
                    let judged = self.parts.judge(&self.on_host(&span));
                    let culprit = self.name_of(&judged).map(str::to_owned);
                    let lost = Some((span.length_ns as f64, judged.lost[1]));
                    Iteration { seconds, verdict: judged.verdict, lost, culprit }
                }
                // In a clean run everything is clean; in any other, nobody can tell.
                Err(_) => {
                    let is_clean = verified.verdict.verdict == Ruling::Clean;
                    let verdict = if is_clean { Ruling::Clean } else { Ruling::Unclear };
                    Iteration { seconds, verdict, lost: None, culprit: None }
                }
            });
        }
        let benchmarks = results.benchmarks.iter().zip(iterations);
        let of = |(benchmark, iterations): (&Named, Vec<Iteration>)| Benchmark {
            name: benchmark.name.clone(),
            wanted: iterations.len(),
            iterations,
        };
        Ok(benchmarks.map(of).collect())
    }

    /// Copies a JUnit file, with properties in its test cases; returns the texts about the failed ones, or
    /// about the first of them.
    ///
    /// # Errors
    /// If the file is damaged or of another run, or the copy cannot be written. Nothing is written then.
    pub fn annotate(&self, path: &Path, copy: &Path) -> anyhow::Result<(Annotated, Vec<Tested>)> {
        let file = path.display().to_string();
        let (mut count, mut failed) = (Annotated::default(), Vec::new());
        let mut unread = None;
        let written = write_file_by(copy, |out| {
            let open = || File::open(path).map(BufReader::new);
            let done = annotate(open, out, &file, &self.run, |case| {
                // A test that passed at an unknown time has no times of its own.
                if !case.has_failed && !case.span.as_ref().is_ok_and(is_close) {
                    return Vec::new();
                }
                let judged = case.span.and_then(|span| {
                    let at = self.on_host(&span);
                    // The ledger is that of all tests that ran then.
                    match case.is_beside && !self.parts.starved_nobody(&at) {
                        true => Err(NotPlaced::Beside),
                        false => Ok((self.parts.judge_test(&at), span)),
                    }
                });
                let culprit = judged.as_ref().ok().and_then(|(judged, _)| self.name_of(judged));
                let judged = judged.as_ref().map(|(judged, span)| (judged, span)).map_err(|why| *why);
                let found = case_verdict(&case.name, case.has_failed, judged, culprit);
                if failed.len() < MOST_FAILED {
                    failed.extend(found.tested);
                }
                found.properties
            });
            done.map(|done| count = done).map_err(|why| Error::other(unread.insert(why).to_string()))
        });
        match (unread, written) {
            (Some(unread), _) => Err(unread.into()),
            (None, written) => Ok(written.map(|()| (count, failed))?),
        }
    }
}

/// A stretch on the host's clock. If the clock of files was set meanwhile, the stretch may have been before
/// or after that.
fn on_host(span: &Span, ahead_ns: [i64; 2]) -> spans::Span {
    let [first, last] = ahead_ns;
    let host = |ns: i64| u64::try_from(ns).unwrap_or(0);
    spans::Span {
        earliest_ns: host(span.earliest_ns - first.max(last)),
        latest_ns: host(span.latest_ns - first.min(last)),
        length_ns: host(span.length_ns),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corun_results::when::By;

    #[test]
    fn if_the_clock_of_files_was_set_meanwhile_a_test_may_have_been_on_either_side() {
        let span = Span { earliest_ns: 10_000, latest_ns: 10_001, length_ns: 300, by: By::Stamp };
        let of = |ahead_ns| {
            let spans::Span { earliest_ns, latest_ns, length_ns } = on_host(&span, ahead_ns);
            (earliest_ns, latest_ns, length_ns)
        };
        assert_eq!(of([4_000, 4_000]), (6_000, 6_001, 300));
        assert_eq!(of([4_000, 3_000]), (6_000, 7_001, 300), "set back");
        assert_eq!(of([4_000, 5_000]), (5_000, 6_001, 300), "set forward");
    }
}
