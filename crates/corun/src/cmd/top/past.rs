//! The ring of an agent as windows to look at: a stretch of it, and from there to what precedes and follows it.

use crate::cmd::profile::{source_of, time_of};
use crate::date;
use crate::usage::Usage;
use corun_agent::ring::{Reader, Run};
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

/// Of several runs of an agent in a time, which is shown: tenants of another run have other numbers.
#[derive(Clone, Copy)]
enum Which {
    First,
    Last,
    Longest,
}

/// The windows of one run.
struct Stretch {
    run: Arc<Run>,
    times: Vec<Range<u64>>,
    snapshots: Vec<Arc<Snapshot>>,
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
    let reader = Reader::open(folder).map_err(|error| Usage(error.to_string()))?;
    let (wanted, which) = match (at, length_ns) {
        (None, None) => (time_of(&reader, folder, None, Some(READ_NS))?, Which::Last),
        _ => (time_of(&reader, folder, at, length_ns)?, Which::Longest),
    };
    let (stretch, said) = read(&reader, wanted, which);
    let stretch = stretch.ok_or_else(|| {
        let why = said.as_ref().map(|said| format!("; {said}")).unwrap_or_default();
        let all = reader.span().map(|all| format!("; it has {}", from_to(&all))).unwrap_or_default();
        Usage(format!("the ring {} has nothing of that time{all}{why}", folder.display()))
    })?;
    let Stretch { run, times, snapshots } = stretch;
    Ok((Past { folder: folder.to_owned(), times, began: began(folder, &run) }, snapshots, said))
}

impl Past {
    /// Turns to what precedes all that is looked at. Says what came of it.
    pub fn before(&mut self, app: &mut App) -> String {
        let first = app.history.at(0).and_then(|snapshot| self.times.get(snapshot.number as usize));
        let Some(first_ns) = first.map(|time| time.start) else { return nothing("precedes") };
        self.turn(app, true, |reader| {
            let end_ns = reader.times().map(|time| time.end).filter(|end| *end <= first_ns).max()?;
            Some(end_ns.saturating_sub(READ_NS)..end_ns)
        })
    }

    /// The same of what follows it: an agent may have written more by now.
    pub fn after(&mut self, app: &mut App) -> String {
        let last = app.history.newest().and_then(|snapshot| self.times.get(snapshot.number as usize));
        let Some(last_ns) = last.map(|time| time.end) else { return nothing("follows") };
        self.turn(app, false, |reader| {
            let start_ns = reader.times().map(|time| time.start).filter(|start| *start >= last_ns).min()?;
            Some(start_ns..start_ns.saturating_add(READ_NS))
        })
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
        let (stretch, said) = read(&reader, wanted, which);
        let Some(Stretch { run, times, snapshots }) = stretch else { return said.unwrap_or_else(none) };
        self.began = began(&self.folder, &run);
        let all = times.iter().cloned().reduce(|a, b| a.start.min(b.start)..a.end.max(b.end));
        self.times = times;
        app.turn_to(snapshots, backwards);
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
    Began {
        facts: Facts { target: folder.display().to_string(), is_replay: true, missing: Vec::new() },
        machine: run.machine.clone(),
        cpus: run.cpus,
        source: source_of(run),
    }
}

/// The windows of one run in a time, and what must be said of the rest.
fn read(reader: &Reader, wanted: Range<u64>, which: Which) -> (Option<Stretch>, Option<String>) {
    let mut runs: Vec<Stretch> = Vec::new();
    let mut said = None;
    for window in reader.windows(wanted) {
        let window = match window {
            Ok(window) => window,
            Err(damage) => {
                said = Some(damage.to_string());
                continue;
            }
        };
        let at = runs.iter().position(|s| s.run == window.run).unwrap_or(runs.len());
        if at == runs.len() {
            runs.push(Stretch { run: window.run, times: Vec::new(), snapshots: Vec::new() });
        }
        let Stretch { times, snapshots, .. } = &mut runs[at];
        let date = date::at(window.unix_ns.end);
        snapshots.push(Arc::new(Snapshot::new(snapshots.len() as u64, date, *window.seen)));
        times.push(window.unix_ns);
    }
    let others = runs.len().saturating_sub(1);
    let chosen = match which {
        Which::First => runs.into_iter().next(),
        Which::Last => runs.into_iter().next_back(),
        Which::Longest => runs.into_iter().rev().max_by_key(|s| s.times.len()),
    };
    let of_others = (others > 0)
        .then(|| format!("the agent was started again in this time; {others} of its runs are not shown"));
    (chosen, said.or(of_others))
}
