//! A stretch of a ring, window by window, and from there to the earlier and later ones.
//!
//! All windows of a stretch are of one run of an agent: tenants of another run have other numbers.

use crate::ring::{Damage, Reader, Run};
use corun_model::Observation;
use std::ops::Range;
use std::sync::Arc;

/// Of several runs of an agent in a time, the one to take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// The first.
    First,
    /// The last.
    Last,
    /// The one with most windows; among equals, the last.
    Longest,
}

/// The windows of one run, as the caller keeps them.
#[derive(Clone, Debug)]
pub struct Stretch<T> {
    /// Who saw them.
    pub run: Arc<Run>,
    /// The start and end of each, in nanoseconds since 1970, oldest first.
    pub times: Vec<Range<u64>>,
    /// The caller's result for each.
    pub windows: Vec<T>,
}

/// The readable part of a time.
#[derive(Clone, Debug)]
pub struct Found<T> {
    /// The stretch; `None` if there is no window.
    pub stretch: Option<Stretch<T>>,
    /// The number of other runs with a part in that time.
    pub other_runs: usize,
    /// The last unreadable part.
    pub damage: Option<Damage>,
}

impl<T> Stretch<T> {
    /// From its first window to its last.
    pub fn span(&self) -> Option<Range<u64>> {
        let times = self.times.iter().cloned();
        times.reduce(|a, b| a.start.min(b.start)..a.end.max(b.end))
    }
}

/// The windows of one run that overlap a time. For each, only the result of `keep` is kept, which gets its
/// number in the run, its end and the observation: an hour of whole windows is too much.
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

/// The longest stretch at a time: a ring may have days, a recording four windows a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Most {
    /// Windows.
    pub windows: usize,
    /// From the first to the last, in nanoseconds.
    pub ns: u64,
}

/// The part of a time covered by its last windows, or its first; `None` if it has none.
pub fn part(reader: &Reader, wanted: &Range<u64>, from_its_end: bool, most: Most) -> Option<Range<u64>> {
    let has_part = |time: &&Range<u64>| time.start < wanted.end && time.end > wanted.start;
    let part = ends_of(reader.times().filter(has_part).collect(), from_its_end, most)?;
    Some(part.start.max(wanted.start)..part.end.min(wanted.end))
}

/// The time covered by the last windows before `first_ns`; `None` if there are none. A window counts where
/// most of it is: those of an agent that is late overlap a little.
pub fn before(reader: &Reader, first_ns: u64, most: Most) -> Option<Range<u64>> {
    let is_before = |time: &&Range<u64>| time.start.midpoint(time.end) < first_ns;
    let part = ends_of(reader.times().filter(is_before).collect(), true, most)?;
    Some(part.start..part.end.min(first_ns))
}

/// The time covered by the first windows after `last_ns`; `None` if there are none yet.
pub fn after(reader: &Reader, last_ns: u64, most: Most) -> Option<Range<u64>> {
    let is_after = |time: &&Range<u64>| time.start.midpoint(time.end) >= last_ns;
    let part = ends_of(reader.times().filter(is_after).collect(), false, most)?;
    Some(part.start.max(last_ns)..part.end)
}

/// From the first to the last of these, limited to this much of their end or beginning.
fn ends_of(mut times: Vec<&Range<u64>>, from_its_end: bool, most: Most) -> Option<Range<u64>> {
    // If a clock was set back, some times occur twice.
    times.sort_unstable_by_key(|time| time.start);
    let left_out = times.len().saturating_sub(most.windows);
    let kept = if from_its_end { &times[left_out..] } else { &times[..times.len() - left_out] };
    let (start, end) = (kept.first()?.start, kept.iter().map(|time| time.end).max()?);
    Some(match from_its_end {
        true => start.max(end.saturating_sub(most.ns))..end,
        false => start..end.min(start.saturating_add(most.ns)),
    })
}
