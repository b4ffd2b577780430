//! `corun profile --from FILE`: the same report about a past time, from an agent's ring or a recording.

use crate::target::TargetFlags;
use crate::usage::Usage;
use corun_agent::past::{self, NoPast, Past};
use corun_agent::ring::{Reader, Run};
use corun_report::profile::notes;
use corun_report::{Host, ProfileMeta, ProfileReport, Source, Subject};
use jiff::civil::{DateTime, Time};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan, Zoned};
use std::ops::Range;
use std::path::Path;

/// The report of a part of a ring.
///
/// # Errors
/// A mistake of the user, in a sentence; or an error of the ring.
pub fn report(
    ring: &Path,
    at: Option<&str>,
    length_ns: Option<u64>,
    tenant: Option<String>,
    target: TargetFlags,
) -> anyhow::Result<ProfileReport> {
    let tenant = match tenant {
        Some(name) => Some(name),
        None => target.of_past()?,
    };
    let reader = opened(ring)?;
    let unix_ns = time_of(&reader, ring, at, length_ns)?;
    let past = past::read(&reader, unix_ns.clone(), tenant.as_deref());
    let past = past.map_err(|no| Usage(why_not(&no, &reader, ring, tenant.as_deref())))?;
    Ok(report_of(&past))
}

/// A ring or a recording that can be read.
///
/// # Errors
/// The error in what the user named: it does not exist, it is neither a ring nor a recording, or it belongs
/// to another version of corun.
pub fn opened(ring: &Path) -> Result<Reader, Usage> {
    Reader::open(ring).map_err(|e| Usage(e.to_string()))
}

/// The requested time, in nanoseconds since 1970.
///
/// # Errors
/// A mistake of the user, in a sentence; or the ring is empty.
pub fn time_of(
    reader: &Reader,
    ring: &Path,
    at: Option<&str>,
    length_ns: Option<u64>,
) -> anyhow::Result<Range<u64>> {
    let nothing = || {
        let ring = ring.display();
        Usage(match reader.damages().next() {
            Some(damage) => format!("the ring {ring} holds no window that can be read: {damage}"),
            None => format!("the ring {ring} holds no window yet; wait until its agent has written one"),
        })
    };
    let span = reader.span().ok_or_else(nothing)?;
    Ok(match (at, length_ns) {
        (None, None) => span,
        (None, Some(ns)) => span.end.saturating_sub(ns)..span.end,
        (Some(at), ns) => {
            let from = moment(at, &Zoned::now()).map_err(Usage)?;
            from..ns.map_or(span.end.max(from + 1), |ns| from.saturating_add(ns))
        }
    })
}

/// A time of day, the most recent one, or a date with one; in this machine's time zone.
fn moment(text: &str, now: &Zoned) -> Result<u64, String> {
    let zoned = |at: DateTime| at.to_zoned(now.time_zone().clone()).map_err(|e| e.to_string());
    let last = |time: Time| {
        let today = zoned(now.date().to_datetime(time))?;
        match today > *now {
            true => zoned((now.date() - 1.day()).to_datetime(time)),
            false => Ok(today),
        }
    };
    // A date is tried first: the parser of a time of day also accepts a date.
    let at = match (text.parse::<DateTime>(), text.parse::<Time>()) {
        (Ok(date), _) => zoned(date)?,
        (Err(_), Ok(time)) => last(time)?,
        _ => {
            return Err(format!("`{text}` is no time; give one such as 03:10, 03:10:30 or 2026-01-31T03:10"))
        }
    };
    u64::try_from(at.timestamp().as_nanosecond()).map_err(|_| format!("`{text}` is before 1970"))
}

/// Why a tenant has no data at a time, in a sentence.
pub fn why_not(no: &NoPast, reader: &Reader, ring: &Path, tenant: Option<&str>) -> String {
    match no {
        NoPast::NoWindow(damages) => {
            let span = reader.span().map(|span| format!("; it has {}", in_words(&span))).unwrap_or_default();
            let damage = damages.first().map(|d| format!("; {d}")).unwrap_or_default();
            format!("{} has nothing of that time{span}{damage}", ring.display())
        }
        NoPast::NoTenant(others) => {
            let there = match others.is_empty() {
                true => "no tenant was there".to_owned(),
                false => format!("there were {} and more", others.join(", ")),
            };
            format!("no tenant of that time is called `{}`; {there}", tenant.unwrap_or_default())
        }
    }
}

fn in_words(unix_ns: &Range<u64>) -> String {
    let at = |ns: u64| {
        let moment = Timestamp::from_nanosecond(i128::from(ns)).unwrap_or_default();
        moment.to_zoned(TimeZone::system())
    };
    let (from, to) = (at(unix_ns.start), at(unix_ns.end));
    format!("{} to {}", from.strftime("%Y-%m-%d %H:%M:%S"), to.strftime("%Y-%m-%d %H:%M:%S %Z"))
}

/// The source that an agent's run used.
pub fn source_of(run: &Run) -> Source {
    if run.source == "ebpf" {
        Source::Ebpf
    } else {
        Source::Schedstat
    }
}

fn report_of(past: &Past) -> ProfileReport {
    let subject = past.subject.as_ref().map_or(Subject::All, |t| Subject::Tenant(t.id));
    let mut notes = vec![notes::past(&in_words(&past.unix_ns))];
    notes.extend(notes::not_kept(past.missing_ns));
    notes.extend(notes::other_runs(past.other_runs));
    notes.extend(past.damages.iter().map(ToString::to_string));
    let target = past.subject.as_ref().map_or("everybody", |t| &t.name);
    let (source, machine) = (source_of(&past.run), past.run.machine.clone());
    let meta = ProfileMeta {
        date: Some(in_words(&past.unix_ns)),
        notes,
        ..ProfileMeta::of_described(Host::Live, source, target, machine, past.run.cpus)
    };
    let whole = past.recording.whole().expect("a past has windows");
    ProfileReport::new(&meta, whole, subject, past.recording.timeline())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_of_day_is_the_most_recent_one_and_a_date_is_that_date() {
        let now: Zoned = "2026-03-02T12:00:00+00:00[UTC]".parse().unwrap();
        let said = |text: &str| moment(text, &now).map(in_utc);
        assert_eq!(said("03:10").unwrap(), "2026-03-02T03:10:00Z");
        assert_eq!(said("23:10:30").unwrap(), "2026-03-01T23:10:30Z");
        assert_eq!(said("2026-01-31T03:10").unwrap(), "2026-01-31T03:10:00Z");
        assert_eq!(said("2026-01-31 03:10:05").unwrap(), "2026-01-31T03:10:05Z");
        assert!(said("noon").unwrap_err().starts_with("`noon` is no time; give one such as 03:10"));
    }

    fn in_utc(ns: u64) -> String {
        Timestamp::from_nanosecond(i128::from(ns)).unwrap().to_string()
    }
}
