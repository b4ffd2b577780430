//! A part of the past, read back from a ring: windows of one run of an agent, combined as a recording.
//!
//! Windows that could not be written or read leave holes. The result contains what was seen, and says how
//! long the holes are. If a time has several runs of an agent (it was restarted), the one with the largest
//! part of it is read: tenants of another run have other numbers. If a clock was set back, some times occur
//! twice; then both are included.

use crate::ring::{Damage, KeptWindow, Reader, Run};
use corun_model::recording::Recording;
use corun_model::{Observation, Tenant, TenantId};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// The observations of a time.
pub struct Past {
    /// Who saw it.
    pub run: Arc<Run>,
    /// From when to when, in nanoseconds since 1970.
    pub unix_ns: Range<u64>,
    /// The windows combined, and as a timeline.
    pub recording: Recording,
    /// The requested tenant, with its number.
    pub subject: Option<Tenant>,
    /// The part of that time without windows.
    pub missing_ns: u64,
    /// Other runs with a part in that time.
    pub other_runs: usize,
    /// The unreadable parts.
    pub damages: Vec<Damage>,
}

/// Why there is no such part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoPast {
    /// No window lies in that time.
    NoWindow(Vec<Damage>),
    /// No tenant of that time has this name; these are those that lost most.
    NoTenant(Vec<String>),
}

/// The most tenants that are named if one was not found.
const NAMED: usize = 5;

/// Reads the windows that overlap a time. `wanted` is a tenant, under its name for people or in reports.
///
/// # Errors
/// If there is no window, or no such tenant in any.
pub fn read(reader: &Reader, unix_ns: Range<u64>, wanted: Option<&str>) -> Result<Past, NoPast> {
    put_together(reader, unix_ns.clone(), wanted, first_pass(reader, &unix_ns)?)
}

/// Reads the windows that a first pass found. A ring that goes around may have overwritten them since.
fn put_together(
    reader: &Reader,
    unix_ns: Range<u64>,
    wanted: Option<&str>,
    found: FirstPass,
) -> Result<Past, NoPast> {
    let FirstPass { run, others, damages, tenants } = found;
    let subject = wanted.map(|name| called(&tenants, name)).transpose()?;
    let mut recording = Recording::about(subject.as_ref().map(|t| t.id));
    let mut span: Option<Range<u64>> = None;
    let mut end_ns = None;
    for window in of_run(reader, &unix_ns, &run) {
        let KeptWindow { unix_ns, seen, .. } = window;
        let seen = begun_at(*seen, end_ns);
        end_ns = Some(seen.end_ns);
        span = Some(span.map_or(unix_ns.clone(), |s| s.start.min(unix_ns.start)..s.end.max(unix_ns.end)));
        recording.push(seen);
    }
    let Some(span) = span else { return Err(NoPast::NoWindow(damages)) };
    let seen_ns = recording.whole().map_or(0, Observation::window_ns);
    let missing_ns = (span.end - span.start).saturating_sub(seen_ns);
    Ok(Past { run, unix_ns: span, recording, subject, missing_ns, other_runs: others, damages })
}

/// A tenant of the past, and the windows in which it was seen.
pub struct TenantWindows<'a> {
    /// The tenant.
    pub tenant: Tenant,
    /// Its windows, oldest first.
    pub windows: Box<dyn Iterator<Item = KeptWindow> + 'a>,
    /// The unreadable parts.
    pub damages: Vec<Damage>,
}

/// The windows of one run that overlap a time, one by one, and the tenant with the name `wanted`.
///
/// # Errors
/// If there is no window, or no such tenant in any.
pub fn windows<'a>(
    reader: &'a Reader,
    unix_ns: Range<u64>,
    wanted: &str,
) -> Result<TenantWindows<'a>, NoPast> {
    let FirstPass { run, damages, tenants, .. } = first_pass(reader, &unix_ns)?;
    let tenant = called(&tenants, wanted)?;
    let of_run = move |w: &KeptWindow| w.run == run;
    let windows = Box::new(reader.windows(unix_ns).flatten().filter(of_run));
    Ok(TenantWindows { tenant, windows, damages })
}

fn called(tenants: &Lost, wanted: &str) -> Result<Tenant, NoPast> {
    let found = tenants.values().find(|(t, _)| t.is_called(wanted));
    found.map(|(t, _)| t.clone()).ok_or_else(|| NoPast::NoTenant(most_lost(tenants)))
}

/// Tenants with what they lost.
type Lost = BTreeMap<TenantId, (Tenant, u64)>;

/// The content of a time, before it is combined.
struct FirstPass {
    run: Arc<Run>,
    others: usize,
    damages: Vec<Damage>,
    tenants: Lost,
}

fn first_pass(reader: &Reader, unix_ns: &Range<u64>) -> Result<FirstPass, NoPast> {
    let mut damages = Vec::new();
    let mut runs: Vec<(Arc<Run>, u64, Lost)> = Vec::new();
    for window in reader.windows(unix_ns.clone()) {
        let window = match window {
            Ok(window) => window,
            Err(damage) => {
                damages.push(damage);
                continue;
            }
        };
        let at = runs.iter().position(|(run, ..)| *run == window.run).unwrap_or(runs.len());
        if at == runs.len() {
            runs.push((window.run.clone(), 0, Lost::new()));
        }
        let (_, ns, tenants) = &mut runs[at];
        *ns += window.seen.window_ns();
        for t in &window.seen.tenants {
            tenants.entry(t.id).or_insert_with(|| (t.clone(), 0)).0.clone_from(t);
        }
        for t in &window.seen.by_tenant {
            if let Some((_, lost_ns)) = tenants.get_mut(&t.id) {
                *lost_ns += t.account.ledger.parts().steal_ns;
            }
        }
    }
    let others = runs.len().saturating_sub(1);
    let longest = runs.into_iter().max_by_key(|(_, ns, _)| *ns);
    let Some((run, _, tenants)) = longest else { return Err(NoPast::NoWindow(damages)) };
    Ok(FirstPass { run, others, damages, tenants })
}

fn most_lost(tenants: &Lost) -> Vec<String> {
    let mut lost: Vec<&(Tenant, u64)> = tenants.values().filter(|(t, _)| t.kind.is_controllable()).collect();
    lost.sort_by_key(|(t, ns)| (std::cmp::Reverse(*ns), t.id));
    lost.into_iter().take(NAMED).map(|(t, _)| t.name.clone()).collect()
}

fn of_run<'a>(
    reader: &'a Reader,
    unix_ns: &Range<u64>,
    run: &'a Arc<Run>,
) -> impl Iterator<Item = KeptWindow> + 'a {
    reader.windows(unix_ns.clone()).flatten().filter(|w| w.run == *run)
}

/// The same window, as if it had begun when the previous one ended: windows of a recording follow each other.
fn begun_at(seen: Observation, at_ns: Option<u64>) -> Observation {
    let Some(at_ns) = at_ns.filter(|ns| *ns != seen.start_ns) else { return seen };
    let was_ns = seen.start_ns;
    let moved = |ns: u64| at_ns + ns.saturating_sub(was_ns);
    let mut seen = seen;
    (seen.start_ns, seen.end_ns) = (at_ns, moved(seen.end_ns));
    seen.tasks.iter_mut().for_each(|t| t.born_ns = moved(t.born_ns));
    seen
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recorder::Recorder;

    #[test]
    fn a_window_that_the_agent_overwrites_during_the_read_is_missing_and_no_damage() {
        let folder = tempfile::tempdir().unwrap();
        let mut kept = Recorder::open(folder.path(), 1 << 20, 1_000_000_000, &Run::default()).unwrap();
        let seen = Observation { end_ns: 1_000_000_000, ..Observation::default() };
        kept.push(&seen, 2_000_000_000).unwrap();
        kept.flush(2_000_000_000).unwrap();
        drop(kept);
        let reader = Reader::open(folder.path()).unwrap();
        let all = 0..u64::MAX;
        let before = first_pass(&reader, &all).ok().unwrap();
        assert!(put_together(&reader, all.clone(), None, first_pass(&reader, &all).ok().unwrap()).is_ok());
        for file in std::fs::read_dir(folder.path()).unwrap() {
            std::fs::remove_file(file.unwrap().path()).unwrap();
        }
        let after = put_together(&reader, all, None, before);
        assert!(matches!(after, Err(NoPast::NoWindow(_))));
    }
}
