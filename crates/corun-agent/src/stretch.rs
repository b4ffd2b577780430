//! A stretch of a ring, window by window, and from there to what precedes and follows it.
//!
//! All windows of a stretch are of one run of an agent: tenants of another run have other numbers.

use crate::ring::{Damage, Reader, Run};
use corun_model::Observation;
use std::ops::Range;
use std::sync::Arc;

/// Of several runs of an agent in a time, which is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// The first.
    First,
    /// The last.
    Last,
    /// The one with most windows; of several, the last.
    Longest,
}

/// The windows of one run, as the caller keeps them.
#[derive(Clone, Debug)]
pub struct Stretch<T> {
    /// Who saw them.
    pub run: Arc<Run>,
    /// When each began and ended, in nanoseconds since 1970, oldest first.
    pub times: Vec<Range<u64>>,
    /// What is kept of each.
    pub windows: Vec<T>,
}

/// What was read of a time.
#[derive(Clone, Debug)]
pub struct Found<T> {
    /// The stretch; `None`: there is no window.
    pub stretch: Option<Stretch<T>>,
    /// How many other runs have a part in that time.
    pub other_runs: usize,
    /// What could not be read last.
    pub damage: Option<Damage>,
}

impl<T> Stretch<T> {
    /// From its first window to its last.
    pub fn span(&self) -> Option<Range<u64>> {
        let times = self.times.iter().cloned();
        times.reduce(|a, b| a.start.min(b.start)..a.end.max(b.end))
    }
}

/// The windows of one run that have a part in a time. Of each is kept what `keep` makes of its number in the run, when it ended and what was
/// seen: an hour of whole windows is more than fits.
pub fn read<T>(
    reader: &Reader,
    wanted: Range<u64>,
    which: Which,
    keep: impl Fn(u64, u64, Observation) -> T,
) -> Found<T> {
    let mut runs: Vec<Stretch<T>> = Vec::new();
    let mut damage = None;
    for window in reader.windows(wanted) {
        let window = match window {
            Ok(window) => window,
            Err(found) => {
                damage = Some(found);
                continue;
            }
        };
        let at = runs.iter().position(|s| s.run == window.run).unwrap_or(runs.len());
        if at == runs.len() {
            runs.push(Stretch { run: window.run, times: Vec::new(), windows: Vec::new() });
        }
        let Stretch { times, windows, .. } = &mut runs[at];
        windows.push(keep(windows.len() as u64, window.unix_ns.end, *window.seen));
        times.push(window.unix_ns);
    }
    let other_runs = runs.len().saturating_sub(1);
    let stretch = match which {
        Which::First => runs.into_iter().next(),
        Which::Last => runs.into_iter().next_back(),
        Which::Longest => runs.into_iter().rev().max_by_key(|s| s.windows.len()),
    };
    Found { stretch, other_runs, damage }
}

/// A time of `length_ns` that ends with the last window before `first_ns`; `None`: there is none.
pub fn before(reader: &Reader, first_ns: u64, length_ns: u64) -> Option<Range<u64>> {
    let end_ns = reader.times().map(|time| time.end).filter(|end| *end <= first_ns).max()?;
    Some(end_ns.saturating_sub(length_ns)..end_ns)
}

/// A time of `length_ns` that begins with the first window after `last_ns`; `None`: there is none yet.
pub fn after(reader: &Reader, last_ns: u64, length_ns: u64) -> Option<Range<u64>> {
    let start_ns = reader.times().map(|time| time.start).filter(|start| *start >= last_ns).min()?;
    Some(start_ns..start_ns.saturating_add(length_ns))
}
