//! JUnit files of test runners: finds when each test case ran, and adds properties to it.
//!
//! The file is read as a stream three times: to check it and to sum up the times of suites, to see which cases ran at the same time
//! ([`crowd`]), and to write. The output consists of the file's own bytes with properties between them, so nothing else can change.
//! Nothing is written for a damaged file. Memory holds one text at a time, and a few numbers for every suite and case.
//!
//! The time of a test case comes, best first, from its own `timestamp`; from the `timestamp` and `time` of its suite and the `time` of
//! all its cases; or from the start and end of the run. The last two need cases that ran one after another ([`crate::when::Sequence`]).

mod cases;
mod crowd;
mod splice;

pub(crate) use splice::attribute;

use crate::unread::{Problem, Unread};
use crate::when::{other_clock, stamped, NotPlaced, Run, Sequence, Span, Stamp};
use cases::{Found, Seen};
use crowd::Crowd;
use splice::Splice;
use std::collections::BTreeSet;
use std::io::{BufRead, Write};
use std::ops::Range;

/// A test case of a JUnit file.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// Its class and name, from the file.
    pub name: String,
    /// Whether it failed in its last attempt.
    pub has_failed: bool,
    /// When it ran.
    pub span: Result<Span, NotPlaced>,
    /// Whether another test ran at the same time.
    pub is_beside: bool,
}

/// A property: its name and its value.
pub type Property = (&'static str, String);

/// The numbers of annotated cases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Annotated {
    /// Number of test cases.
    pub cases: u64,
    /// Number of failed ones.
    pub failed: u64,
    /// Number of cases whose time in the run is known.
    pub placed: u64,
}

/// Writes a JUnit file with properties added to its test cases. `open` opens the file from its start, `file` is its name for errors,
/// and `tell` returns the properties of a case.
///
/// # Errors
/// [`Unread`] if the file is damaged, not a JUnit file, without times, or of another run. Then nothing has been written.
pub fn annotate<R: BufRead>(
    mut open: impl FnMut() -> std::io::Result<R>,
    out: &mut dyn Write,
    file: &str,
    run: &Run,
    mut tell: impl FnMut(&Case) -> Vec<Property>,
) -> Result<Annotated, Unread> {
    let io = |error: std::io::Error| Problem::Io(error.to_string()).of(file);
    let mut opened = || open().map_err(io);
    let mut first_pass = FirstPass::default();
    if let Err((problem, at)) = cases::walk(opened()?, |seen| {
        first_pass.see(seen, run);
        Ok(())
    }) {
        let line = cases::line_of(opened()?, at).map_err(io)?;
        return Err(problem.at(file, line));
    }
    first_pass.refuse().map_err(|problem| problem.of(file))?;
    let mut sequences = first_pass.sequences(run);
    let mut spans = Vec::new();
    let walked = cases::walk(opened()?, |seen| {
        if let Seen::Case(found) = seen {
            spans.push(place(&found, &mut sequences, run));
        }
        Ok(())
    });
    walked.map_err(|(problem, _)| problem.of(file))?;
    let crowd = Crowd::of(spans.iter().flatten());
    let mut spans = spans.iter();
    let mut splice = Splice::new(opened()?, out);
    let mut done = Annotated::default();
    let walked = cases::walk(opened()?, |seen| {
        let found = match seen {
            Seen::Case(found) => found,
            Seen::Suite { .. } | Seen::MadeByGo => return Ok(()),
        };
        // The file may have grown since the first reading.
        let span = spans.next().copied().unwrap_or(Err(NotPlaced::NoTime));
        let is_beside = span.as_ref().is_ok_and(|span| crowd.is_around(span));
        let case = Case { name: found.name(), has_failed: found.has_failed, span, is_beside };
        done.cases += 1;
        done.failed += u64::from(case.has_failed);
        done.placed += u64::from(case.span.is_ok());
        splice.put(&found, &tell(&case))
    });
    walked.map_err(|(problem, _)| problem.of(file))?;
    splice.finish().map_err(io)?;
    Ok(done)
}

/// The time in which the tests of a JUnit file can have run according to its own times, in nanoseconds since 1970. A time without a
/// zone may be UTC or local, `ahead_s` seconds ahead of UTC; the result covers both. `None` if the file has no times of day, or only
/// that of its writing, as files made from output of `go test`.
///
/// # Errors
/// [`Unread`] if the file is damaged or not a JUnit file.
pub fn time_of<R: BufRead>(
    mut open: impl FnMut() -> std::io::Result<R>,
    file: &str,
    ahead_s: i64,
) -> Result<Option<Range<i64>>, Unread> {
    let io = |error: std::io::Error| Problem::Io(error.to_string()).of(file);
    let mut stretch = Stretch::default();
    let walked = cases::walk(open().map_err(io)?, |seen| {
        stretch.see(seen, ahead_s);
        Ok(())
    });
    match walked {
        Ok(()) => Ok(stretch.whole()),
        Err((problem, at)) => Err(problem.at(file, cases::line_of(open().map_err(io)?, at).map_err(io)?)),
    }
}

/// The time that suites and cases with a timestamp cover.
#[derive(Default)]
struct Stretch {
    /// The possible start of each suite, and the total time of its cases.
    suites: Vec<(Option<Range<i64>>, i64)>,
    cases: Option<Range<i64>>,
    is_made_by_go: bool,
}

impl Stretch {
    fn see(&mut self, seen: Seen, ahead_s: i64) {
        let begun = |stamp: Option<(String, Stamp)>| stamp.map(|(_, stamp)| stamp.anywhere(ahead_s));
        match seen {
            Seen::Suite { stamp, time_ns } => {
                let begun = begun(stamp).map(|b| b.start..b.end.saturating_add(time_ns.unwrap_or(0)));
                self.suites.push((begun, 0));
            }
            Seen::Case(found) => {
                let length_ns = found.time_ns.unwrap_or(0);
                if let Some(begun) = begun(found.stamp) {
                    let ran = begun.start..begun.end.saturating_add(length_ns);
                    self.cases = Some(self.cases.take().map_or(ran.clone(), |all| both(&all, &ran)));
                } else if let Some((_, total_ns)) = self.suites.get_mut(found.suite) {
                    *total_ns = total_ns.saturating_add(length_ns);
                }
            }
            Seen::MadeByGo => self.is_made_by_go = true,
        }
    }

    fn whole(self) -> Option<Range<i64>> {
        let of_suites = self.suites.into_iter().filter_map(|(begun, total_ns)| {
            let begun = begun?;
            Some(begun.start..begun.end.max(begun.start.saturating_add(total_ns)))
        });
        let all = of_suites.chain(self.cases).reduce(|a, b| both(&a, &b));
        all.filter(|_| !self.is_made_by_go)
    }
}

fn both(a: &Range<i64>, b: &Range<i64>) -> Range<i64> {
    a.start.min(b.start)..a.end.max(b.end)
}

/// The results of the first reading.
#[derive(Default)]
struct FirstPass {
    suites: Vec<Suite>,
    has_cases: bool,
    has_times: bool,
    is_of_this_run: bool,
    /// A timestamp outside the run.
    elsewhere: Option<String>,
    is_made_by_go: bool,
}

/// A suite with its own cases, without those of nested suites.
#[derive(Default)]
struct Suite {
    stamp: Option<Stamp>,
    time_ns: Option<i64>,
    /// Total time of its cases without a timestamp. `None` if some have no time.
    total_ns: Option<i64>,
    /// The longest of these cases.
    longest_ns: i64,
}

impl FirstPass {
    fn see(&mut self, seen: Seen, run: &Run) {
        let stamp = match seen {
            Seen::Suite { stamp, time_ns } => {
                let begun = stamp.as_ref().map(|s| s.1);
                self.suites.push(Suite { stamp: begun, time_ns, total_ns: Some(0), longest_ns: 0 });
                stamp
            }
            Seen::Case(found) => {
                self.has_cases = true;
                self.has_times |= found.time_ns.is_some();
                if let (None, Some(suite)) = (&found.stamp, self.suites.get_mut(found.suite)) {
                    suite.total_ns = suite.total_ns.zip(found.time_ns).map(|(a, b)| a.saturating_add(b));
                    suite.longest_ns = found.time_ns.map_or(0, |ns| ns.max(suite.longest_ns));
                }
                found.stamp
            }
            Seen::MadeByGo => {
                self.is_made_by_go = true;
                None
            }
        };
        if let Some((text, stamp)) = stamp {
            match stamp.within(run) {
                Some(_) => self.is_of_this_run = true,
                None => self.elsewhere = self.elsewhere.take().or(Some(text)),
            }
        }
    }

    /// Fails if no case can be placed.
    fn refuse(&self) -> Result<(), Problem> {
        match &self.elsewhere {
            _ if !self.has_cases => Err(Problem::Empty),
            _ if !self.has_times => Err(Problem::NoTimes),
            Some(stamp) if !self.is_of_this_run => Err(other_clock(stamp)),
            _ => Ok(()),
        }
    }

    /// The sequence of cases in each suite.
    fn sequences(&self, run: &Run) -> Vec<Result<Sequence, NotPlaced>> {
        let (mut stamps, mut shared) = (BTreeSet::new(), BTreeSet::new());
        for stamp in self.suites.iter().filter_map(|s| s.stamp) {
            if !stamps.insert(stamp) {
                shared.insert(stamp);
            }
        }
        let between = |suite: &Suite| {
            // go-junit-report writes the time of writing, gotestsum that of its start. Neither is the start of the suite.
            let Some(stamp) = suite.stamp.filter(|_| !self.is_made_by_go) else {
                return Ok((run.begin_ns, run.end_ns));
            };
            let (earliest_ns, latest_ns) = stamp.within(run).ok_or(NotPlaced::OtherRun)?;
            // Suites with the same timestamp did not begin together: it is that of the whole.
            let own_ns = suite.time_ns.filter(|_| !shared.contains(&stamp));
            let until_ns = own_ns.map_or(run.end_ns, |ns| latest_ns.saturating_add(ns));
            Ok((earliest_ns, until_ns.min(run.end_ns)))
        };
        // Without timestamps, the cases of all suites follow each other in the run.
        let all_ns: i64 = self.suites.iter().filter_map(|s| s.total_ns).fold(0, i64::saturating_add);
        let longest_ns = self.suites.iter().map(|s| s.longest_ns).max().unwrap_or(0);
        let mut sequences = Vec::new();
        let mut before_ns = 0_i64;
        for suite in &self.suites {
            let total_ns = suite.total_ns.ok_or(NotPlaced::NoTime);
            let is_stamped = suite.stamp.is_some() && !self.is_made_by_go;
            sequences.push(total_ns.and_then(|total_ns| {
                let (mut from_ns, mut until_ns) = between(suite)?;
                if !is_stamped {
                    Sequence::new(run.begin_ns, run.end_ns, all_ns, longest_ns)?;
                    from_ns = from_ns.saturating_add(before_ns);
                    until_ns = until_ns.saturating_sub(all_ns - before_ns - total_ns);
                }
                Sequence::new(from_ns, until_ns, total_ns, suite.longest_ns)
            }));
            if !is_stamped {
                before_ns = before_ns.saturating_add(suite.total_ns.unwrap_or(0));
            }
        }
        sequences
    }
}

/// Finds when a case ran. The cases of a suite come in order.
fn place(found: &Found, sequences: &mut [Result<Sequence, NotPlaced>], run: &Run) -> Result<Span, NotPlaced> {
    let length_ns = found.time_ns.ok_or(NotPlaced::NoTime)?;
    if let Some((_, stamp)) = &found.stamp {
        return stamped(stamp, length_ns, run);
    }
    match sequences.get_mut(found.suite) {
        Some(Ok(sequence)) => Ok(sequence.next(length_ns)),
        Some(Err(why)) => Err(*why),
        None => Err(NotPlaced::NoTime),
    }
}
