//! The ring of an agent as windows to look at: a stretch of it, and from there to what precedes and follows it.

use crate::cmd::profile::{opened, source_of, time_of};
use crate::date;
use crate::usage::Usage;
use corun_agent::ring::{Reader, Run};
use corun_agent::stretch::{self, Found, Which};
use corun_model::Observation;
use corun_report::{one_line, Source};
use corun_top::app::{App, Facts};
use corun_top::live::Began;
use corun_top::snapshot::Snapshot;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How much of a ring is read at a time unless somebody says so, in nanoseconds: it may have days.
const READ_NS: u64 = 3_600_000_000_000;

/// A stretch of a ring that is looked at.
pub struct Past {
    folder: PathBuf,
    /// When each of its windows began and ended, in nanoseconds since 1970, by the number of its snapshot.
    times: Vec<Range<u64>>,
    /// Who saw it.
    pub began: Began,
}

/// Begins to look: at the time that was asked for, or at the newest hour. What of it cannot be read, or is of other runs, is said.
///
/// # Errors
/// One sentence, when there is no ring or nothing of that time in it.
pub fn open(
    folder: &Path,
    at: Option<&str>,
    length_ns: Option<u64>,
) -> anyhow::Result<(Past, Vec<Arc<Snapshot>>, Option<String>)> {
    let reader = opened(folder)?;
    let (wanted, which) = match (at, length_ns) {
        (None, None) => (time_of(&reader, folder, None, Some(READ_NS))?, Which::Last),
        _ => (time_of(&reader, folder, at, length_ns)?, Which::Longest),
    };
    let found = stretch::read(&reader, wanted, which, snapshot);
    let said = besides(&found);
    let stretch = found.stretch.ok_or_else(|| {
        let why = said.as_ref().map(|said| format!("; {said}")).unwrap_or_default();
        let all = reader.span().map(|all| format!("; it has {}", from_to(&all))).unwrap_or_default();
        Usage(format!("the ring {} has nothing of that time{all}{why}", folder.display()))
    })?;
    let began = began(folder, &stretch.run);
    Ok((Past { folder: folder.to_owned(), times: stretch.times, began }, stretch.windows, said))
}

impl Past {
    /// Turns to what precedes all that is looked at. Says what came of it.
    pub fn before(&mut self, app: &mut App) -> String {
        let first = app.history.at(0).and_then(|snapshot| self.times.get(snapshot.number as usize));
        let Some(first_ns) = first.map(|time| time.start) else { return nothing("precedes") };
        self.turn(app, true, |reader| stretch::before(reader, first_ns, READ_NS))
    }

    /// The same of what follows it: an agent may have written more by now.
    pub fn after(&mut self, app: &mut App) -> String {
        let last = app.history.newest().and_then(|snapshot| self.times.get(snapshot.number as usize));
        let Some(last_ns) = last.map(|time| time.end) else { return nothing("follows") };
        self.turn(app, false, |reader| stretch::after(reader, last_ns, READ_NS))
    }

    fn turn(
        &mut self,
        app: &mut App,
        backwards: bool,
        wanted: impl Fn(&Reader) -> Option<Range<u64>>,
    ) -> String {
        let reader = match Reader::open(&self.folder) {
            Ok(reader) => reader,
            Err(error) => return error.to_string(),
        };
        let none = || nothing(if backwards { "precedes" } else { "follows" });
        let Some(wanted) = wanted(&reader) else { return none() };
        let which = if backwards { Which::Last } else { Which::First };
        let found = stretch::read(&reader, wanted, which, snapshot);
        let said = besides(&found);
        let Some(stretch) = found.stretch else { return said.unwrap_or_else(none) };
        self.began = began(&self.folder, &stretch.run);
        app.facts.clone_from(&self.began.facts);
        let all = stretch.span();
        self.times = stretch.times;
        app.turn_to(stretch.windows, backwards);
        said.unwrap_or_else(|| all.map(|all| from_to(&all)).unwrap_or_default())
    }
}

fn nothing(what: &str) -> String {
    format!("the ring has nothing that {what} this")
}

fn from_to(time: &Range<u64>) -> String {
    format!("{} to {}", date::at(time.start), date::at(time.end))
}

fn began(folder: &Path, run: &Run) -> Began {
    let source = source_of(run);
    let missing = match source {
        Source::Schedstat => {
            vec!["The agent saw without eBPF, so who held the CPUs is not known.".to_owned()]
        }
        _ => Vec::new(),
    };
    Began {
        facts: Facts { target: one_line(&folder.display().to_string()), is_replay: true, missing },
        machine: run.machine.clone(),
        cpus: run.cpus,
        source,
    }
}

/// A window as tables show it.
fn snapshot(number: u64, end_ns: u64, seen: Observation) -> Arc<Snapshot> {
    Arc::new(Snapshot::new(number, date::at(end_ns), seen))
}

/// What must be said of the rest of the time.
fn besides(found: &Found<Arc<Snapshot>>) -> Option<String> {
    let others = found.other_runs;
    let of_others = (others > 0)
        .then(|| format!("the agent was started again in this time; {others} of its runs are not shown"));
    found.damage.as_ref().map(ToString::to_string).or(of_others)
}
