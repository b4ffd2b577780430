//! The ring of an agent as windows to look at: those of its last run, the newest hour of it.

use crate::cmd::profile::source_of;
use crate::date;
use crate::usage::Usage;
use corun_agent::ring::{Reader, Run};
use corun_top::app::Facts;
use corun_top::event::Event;
use corun_top::live::Began;
use corun_top::moment::Moment;
use std::path::Path;
use std::sync::mpsc::Sender;
use std::sync::Arc;

/// How much of a ring is read, in nanoseconds: it may have days.
const READ_NS: u64 = 3_600_000_000_000;

/// Sends the windows, oldest first. What of the ring cannot be read is said.
///
/// # Errors
/// One sentence, when there is no ring or nothing in it.
pub fn read(folder: &Path, to: &Sender<Event>) -> Result<Began, Usage> {
    let reader = Reader::open(folder).map_err(|error| Usage(error.to_string()))?;
    let nothing = || Usage(format!("the ring {} has no window yet; wait for the agent", folder.display()));
    let end_ns = reader.span().ok_or_else(nothing)?.end;
    let mut run: Option<Arc<Run>> = None;
    let mut moments: Vec<Arc<Moment>> = Vec::new();
    let mut damage = None;
    for window in reader.windows(end_ns.saturating_sub(READ_NS)..u64::MAX) {
        match window {
            Ok(window) => {
                // Another run has other numbers for its tenants.
                if run.as_ref() != Some(&window.run) {
                    moments.clear();
                    run = Some(window.run);
                }
                let date = date::at(window.unix_ns.end);
                moments.push(Arc::new(Moment::new(moments.len() as u64, date, *window.seen)));
            }
            Err(what) => damage = Some(what.to_string()),
        }
    }
    let run = run.ok_or_else(|| damage.clone().map_or_else(nothing, Usage))?;
    for event in moments.into_iter().map(Event::Moment).chain(damage.map(Event::Said)) {
        // Whoever reads them waits until all are sent.
        let _ = to.send(event);
    }
    Ok(Began {
        facts: Facts { target: folder.display().to_string(), is_replay: true, missing: Vec::new() },
        machine: run.machine.clone(),
        cpus: run.cpus,
        source: source_of(&run),
    })
}
