//! The ring of an agent, or a recording, as windows to view: a stretch of it, and from there the earlier and
//! later ones.

use crate::cmd::profile::{opened, source_of, time_of};
use crate::date;
use crate::usage::Usage;
use corun_agent::ring::{Reader, Run};
use corun_agent::stretch::{self, Found, Most, Which};
use corun_model::Observation;
use corun_report::{one_line, Source};
use corun_top::app::{App, Facts};
use corun_top::history;
use corun_top::live::Began;
use corun_top::snapshot::Snapshot;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How much is read at a time: no more than is kept, and at most an hour.
const MOST: Most = Most { windows: history::MOST, ns: 3_600_000_000_000 };

/// The displayed stretch of a ring or a recording.
pub struct Past {
    place: PathBuf,
    /// The start and end of each of its windows, in nanoseconds since 1970, by the number of its snapshot.
    times: Vec<Range<u64>>,
    /// Who saw it.
    pub began: Began,
}

/// Starts the view at the requested time, or at the newest hour. Parts that cannot be read, or belong to
/// other runs, are reported.
///
/// # Errors
/// One sentence if there is neither ring nor recording, or it has nothing of that time.
pub fn open(
    place: &Path,
    at: Option<&str>,
    length_ns: Option<u64>,
) -> anyhow::Result<(Past, Vec<Arc<Snapshot>>, Option<String>)> {
    let reader = opened(place)?;
    let asked = time_of(&reader, place, at, length_ns)?;
    let wanted = stretch::part(&reader, &asked, at.is_none(), MOST).unwrap_or(asked);
    let which = if at.is_none() && length_ns.is_none() { Which::Last } else { Which::Longest };
    let found = stretch::read(&reader, wanted, which, snapshot);
    let said = besides(&found);
    let stretch = found.stretch.ok_or_else(|| {
        let why = said.as_ref().map(|said| format!("; {said}")).unwrap_or_default();
        let all = reader.span().map(|all| format!("; it has {}", from_to(&all))).unwrap_or_default();
        Usage(format!("{} has nothing of that time{all}{why}", place.display()))
    })?;
    let began = began(place, &stretch.run);
    Ok((Past { place: place.to_owned(), times: stretch.times, began }, stretch.windows, said))
}

impl Past {
    /// Moves to the time before the view. Returns the result as text.
    pub fn before(&mut self, app: &mut App) -> String {
        let first = app.history.at(0).and_then(|snapshot| self.times.get(snapshot.number as usize));
        let Some(first_ns) = first.map(|time| time.start) else { return nothing("precedes") };
        self.turn(app, true, |reader| stretch::before(reader, first_ns, MOST))
    }

    /// The same for the time after it: an agent may have written more by now.
    pub fn after(&mut self, app: &mut App) -> String {
        let last = app.history.newest().and_then(|snapshot| self.times.get(snapshot.number as usize));
        let Some(last_ns) = last.map(|time| time.end) else { return nothing("follows") };
        self.turn(app, false, |reader| stretch::after(reader, last_ns, MOST))
    }

    fn turn(
        &mut self,
        app: &mut App,
        backwards: bool,
        wanted: impl Fn(&Reader) -> Option<Range<u64>>,
    ) -> String {
        let reader = match Reader::open(&self.place) {
            Ok(reader) => reader,
            Err(error) => return error.to_string(),
        };
        let none = || nothing(if backwards { "precedes" } else { "follows" });
        let Some(wanted) = wanted(&reader) else { return none() };
        let which = if backwards { Which::Last } else { Which::First };
        let found = stretch::read(&reader, wanted, which, snapshot);
        let said = besides(&found);
        let Some(stretch) = found.stretch else { return said.unwrap_or_else(none) };
        self.began = began(&self.place, &stretch.run);
        app.facts.clone_from(&self.began.facts);
        let all = stretch.span();
        self.times = stretch.times;
        app.turn_to(stretch.windows, backwards);
        said.unwrap_or_else(|| all.map(|all| from_to(&all)).unwrap_or_default())
    }
}

fn nothing(what: &str) -> String {
    format!("nothing {what} this")
}

fn from_to(time: &Range<u64>) -> String {
    format!("{} to {}", date::at(time.start), date::at(time.end))
}

fn began(place: &Path, run: &Run) -> Began {
    let source = source_of(run);
    let missing = match source {
        Source::Schedstat => {
            vec!["The agent saw without eBPF, so who held the CPUs is not known.".to_owned()]
        }
        _ => Vec::new(),
    };
    Began {
        facts: Facts { target: one_line(&place.display().to_string()), is_replay: true, missing },
        machine: run.machine.clone(),
        cpus: run.cpus,
        source,
    }
}

/// A window as tables show it.
fn snapshot(number: u64, end_ns: u64, seen: Observation) -> Arc<Snapshot> {
    Arc::new(Snapshot::new(number, date::at(end_ns), seen))
}

/// The necessary remark about the rest of the time.
fn besides(found: &Found<Arc<Snapshot>>) -> Option<String> {
    let others = found.other_runs;
    let of_others = (others > 0)
        .then(|| format!("the agent was started again in this time; {others} of its runs are not shown"));
    found.damage.as_ref().map(ToString::to_string).or(of_others)
}

#[cfg(test)]
mod tests {
    use super::*;
    use corun_agent::ring::{encode, Entry};
    use corun_model::run_log::file::{self, RunWindow};
    use corun_model::run_log::RunLog;
    use corun_top::keys::Keys;

    const QUARTER_NS: u64 = 250_000_000;

    /// A recording of this many windows without events.
    fn recording(windows: u64) -> tempfile::NamedTempFile {
        let mut bytes = [file::header("nothing"), file::seen(&encode(&Entry::Run(Run::default())))].concat();
        for n in 0..windows {
            let time = n * QUARTER_NS..(n + 1) * QUARTER_NS;
            let log = RunLog { start_ns: time.start, end_ns: time.end, ..RunLog::default() };
            bytes.extend(file::window(&RunWindow { log, ..RunWindow::default() }));
            let seen = Observation { start_ns: time.start, end_ns: time.end, ..Observation::default() };
            bytes.extend(file::seen(&encode(&Entry::Window { unix_ns: time, seen: Box::new(seen) })));
        }
        bytes.extend(file::end());
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), bytes).unwrap();
        file
    }

    fn shown(app: &App) -> Vec<u64> {
        (0..app.history.len()).map(|at| app.history.at(at).unwrap().seen.start_ns / QUARTER_NS).collect()
    }

    #[test]
    fn a_long_recording_is_read_part_by_part_and_each_window_is_shown_once() {
        const WINDOWS: u64 = 1_500;
        let file = recording(WINDOWS);
        let (mut past, snapshots, said) = open(file.path(), None, None).unwrap();
        assert_eq!(said, None);
        let mut app = App::new(past.began.facts.clone(), Keys::default());
        app.turn_to(snapshots, true);
        let mut back = vec![shown(&app)];
        while past.before(&mut app) != "nothing precedes this" {
            back.push(shown(&app));
        }
        assert!(back.iter().all(|part| part.len() <= history::MOST), "no more than is kept");
        back.reverse();
        assert_eq!(back.concat(), (0..WINDOWS).collect::<Vec<_>>());
        let mut on = vec![shown(&app)];
        while past.after(&mut app) != "nothing follows this" {
            on.push(shown(&app));
        }
        assert_eq!(on.concat(), back.concat());
    }
}
