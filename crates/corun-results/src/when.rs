//! Times that tools write, and the possible times of their iterations and tests in a run.
//!
//! Few tools say when an iteration began. Many write the length of each, in order. Then an iteration cannot have begun before the
//! earlier ones had ended. Nor can it have begun so late that the later ones would not fit before the end ([`Sequence`]). Other work of
//! a tool, such as compiling and warm-ups, makes these bounds wide, but never wrong.

use crate::unread::Problem;

const SECOND_NS: i64 = 1_000_000_000;
/// The largest difference between the clocks of tools and that of the run: times are rounded, and clocks get set.
pub(crate) const TOLERANCE_NS: i64 = 20_000_000;
/// Times with few digits do not sum exactly: their sum may be too large by this share.
const ROUNDED: f64 = 0.002;

/// The run that contains everything a tool reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Its beginning, in nanoseconds since 1970.
    pub begin_ns: i64,
    /// Its end.
    pub end_ns: i64,
    /// By how many seconds local time was ahead of UTC.
    pub ahead_s: i64,
}

/// A time in a tool's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stamp {
    /// In nanoseconds since 1970. Without a zone it is read as UTC.
    ns: i64,
    /// Whether it names its zone.
    is_zoned: bool,
    /// The value of its last digit: the true time is at most this much later.
    step_ns: i64,
}

impl Stamp {
    /// Reads ISO 8601, such as `2026-01-02T03:04:05.678+01:00`. `None` for other text.
    pub fn parse(text: &str) -> Option<Stamp> {
        let text = text.trim();
        if !text.is_ascii() || text.len() < 19 {
            return None;
        }
        let number = |from: usize, to: usize| -> Option<i64> {
            let digits = &text[from..to];
            digits.bytes().all(|b| b.is_ascii_digit()).then(|| digits.parse().ok())?
        };
        let is = |at: usize, chars: &str| chars.contains(char::from(text.as_bytes()[at]));
        if !(is(4, "-") && is(7, "-") && is(10, "T ") && is(13, ":") && is(16, ":")) {
            return None;
        }
        let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
        let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
        // Later years do not fit into nanoseconds.
        if !((1970..2200).contains(&year)
            && (1..=12).contains(&month)
            && (1..=31).contains(&day)
            && hour < 24
            && minute < 60
            && second <= 60)
        {
            return None;
        }
        let mut ns = (days(year, month, day) * 86_400 + hour * 3_600 + minute * 60 + second) * SECOND_NS;
        let (mut step_ns, mut rest) = (SECOND_NS, &text[19..]);
        if let Some(fraction) = rest.strip_prefix(['.', ',']) {
            let digits = fraction.bytes().take_while(u8::is_ascii_digit).count();
            for digit in fraction.bytes().take(digits.min(9)) {
                step_ns /= 10;
                ns += i64::from(digit - b'0') * step_ns;
            }
            rest = &fraction[digits..];
        }
        let (is_zoned, ahead_s) = zone(rest.trim_start())?;
        Some(Stamp { ns: ns - ahead_s * SECOND_NS, is_zoned, step_ns })
    }

    /// The longest time since another stamp, in nanoseconds. `None` if it was before that.
    pub(crate) fn since(&self, before: &Stamp) -> Option<i64> {
        let ns = self.ns.checked_sub(before.ns)?.checked_add(self.step_ns)?;
        (ns >= 0).then_some(ns)
    }

    /// The possible times in nanoseconds since 1970, if the run is unknown. A time without a zone may be UTC or local, `ahead_s`
    /// seconds ahead of UTC.
    pub(crate) fn anywhere(&self, ahead_s: i64) -> std::ops::Range<i64> {
        let ahead_ns = if self.is_zoned { 0 } else { ahead_s * SECOND_NS };
        let local_ns = self.ns - ahead_ns;
        local_ns.min(self.ns)..local_ns.max(self.ns) + self.step_ns
    }

    /// Its earliest and latest possible time, in nanoseconds since 1970. `None` if not in this run. A time without a zone is local, or
    /// UTC if only that lies in the run.
    pub fn within(&self, run: &Run) -> Option<(i64, i64)> {
        let zones = if self.is_zoned { vec![0] } else { vec![run.ahead_s, 0] };
        zones.into_iter().find_map(|ahead_s| {
            let earliest_ns = self.ns - ahead_s * SECOND_NS;
            let latest_ns = earliest_ns + self.step_ns;
            let is_inside =
                latest_ns >= run.begin_ns - TOLERANCE_NS && earliest_ns <= run.end_ns + TOLERANCE_NS;
            is_inside.then(|| {
                (earliest_ns.clamp(run.begin_ns, run.end_ns), latest_ns.clamp(run.begin_ns, run.end_ns))
            })
        })
    }
}

/// Days since 1970 of a date of the Gregorian calendar.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// Whether the text names a zone, and the zone's seconds ahead of UTC. `None` if it is not a zone.
fn zone(text: &str) -> Option<(bool, i64)> {
    let sign = match text.as_bytes().first() {
        None => return Some((false, 0)),
        Some(b'Z' | b'z') if text.len() == 1 => return Some((true, 0)),
        Some(b'+') => 1,
        Some(b'-') => -1,
        Some(_) => return None,
    };
    let digits = text[1..].replace(':', "");
    let ahead: i64 = digits.bytes().all(|b| b.is_ascii_digit()).then(|| digits.parse().ok())??;
    match digits.len() {
        2 => Some((true, sign * ahead * 3_600)),
        4 => Some((true, sign * (ahead / 100 * 3_600 + ahead % 100 * 60))),
        _ => None,
    }
}

/// Converts seconds to nanoseconds.
pub(crate) fn seconds_ns(seconds: f64) -> Option<i64> {
    // The longest time in any computation here: 30 years.
    const MOST_S: f64 = 1e9;
    (0.0..MOST_S).contains(&seconds).then_some((seconds * 1e9) as i64)
}

/// When something can have run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The earliest possible start, in nanoseconds since 1970.
    pub earliest_ns: i64,
    /// The latest possible start, in nanoseconds since 1970.
    pub latest_ns: i64,
    /// Its length, in nanoseconds.
    pub length_ns: i64,
    /// The source of these bounds.
    pub by: By,
}

/// How the time of something is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// The tool wrote it.
    Stamp,
    /// It follows from the lengths of everything before and after it.
    Order,
}

/// Why the time of something is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotPlaced {
    /// The tool does not give its length.
    NoTime,
    /// It was not in the watched run.
    OtherRun,
    /// Several ran at a time, and the tool does not say when each began.
    AtATime,
    /// According to the tool, one of them took longer than the available time.
    TooLong,
    /// Its time is known, but several ran at a time, and only their total loss is known.
    Beside,
}

/// Consecutive things of known length.
#[derive(Clone, Copy, Debug)]
pub struct Sequence {
    from_ns: i64,
    until_ns: i64,
    before_ns: i64,
    total_ns: i64,
}

impl Sequence {
    /// Things that took `total_ns` together between these two instants, with `longest_ns` the longest of them. Fails if they cannot
    /// have run one after another in that time.
    pub fn new(from_ns: i64, until_ns: i64, total_ns: i64, longest_ns: i64) -> Result<Sequence, NotPlaced> {
        let fits = |ns: i64| ns <= until_ns - from_ns + TOLERANCE_NS + (ns as f64 * ROUNDED) as i64;
        if !fits(longest_ns) {
            return Err(NotPlaced::TooLong);
        }
        if !fits(total_ns) {
            return Err(NotPlaced::AtATime);
        }
        Ok(Sequence { from_ns, until_ns, before_ns: 0, total_ns })
    }

    /// The span of the next one.
    pub fn next(&mut self, length_ns: i64) -> Span {
        let earliest_ns = self.from_ns + self.before_ns;
        let latest_ns = self.until_ns - (self.total_ns - self.before_ns);
        self.before_ns += length_ns;
        Span { earliest_ns, latest_ns: latest_ns.max(earliest_ns), length_ns, by: By::Order }
    }
}

/// The span of something with its own stamp.
pub(crate) fn stamped(stamp: &Stamp, length_ns: i64, run: &Run) -> Result<Span, NotPlaced> {
    let (earliest_ns, latest_ns) = stamp.within(run).ok_or(NotPlaced::OtherRun)?;
    Ok(Span { earliest_ns, latest_ns, length_ns, by: By::Stamp })
}

/// The error for times that are all outside the run.
pub(crate) fn other_clock(stamp: &str) -> Problem {
    Problem::OtherClock(format!("`{stamp}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: i64 = 1_767_323_045 * SECOND_NS;
    const MS: i64 = 1_000_000;

    #[test]
    fn a_time_is_read_in_every_way_that_tools_write_it() {
        for (text, ns, is_zoned, step_ns) in [
            ("2026-01-02T03:04:05", AT, false, SECOND_NS),
            ("2026-01-02 03:04:05.25", AT + 250 * MS, false, 10 * MS),
            ("2026-01-02T03:04:05.678Z", AT + 678 * MS, true, MS),
            ("2026-01-02T03:04:05.678901+00:00", AT + 678_901_000, true, 1_000),
            ("2026-01-02T04:34:05.123456789+01:30", AT + 123_456_789, true, 1),
            ("2026-01-01T19:04:05-0800", AT, true, SECOND_NS),
        ] {
            assert_eq!(Stamp::parse(text), Some(Stamp { ns, is_zoned, step_ns }), "{text}");
        }
        for text in [
            "",
            "yesterday",
            "2026-13-02T03:04:05",
            "2026-01-02T03:04:05 CET",
            "2026-01-02",
            "é".repeat(19).as_str(),
        ] {
            assert_eq!(Stamp::parse(text), None, "{text}");
        }
        assert_eq!((days(1970, 1, 1), days(2000, 3, 1), days(1969, 12, 31)), (0, 11_017, -1));
    }

    #[test]
    fn a_time_without_a_zone_is_local_or_else_utc_and_else_of_another_run() {
        let stamp = Stamp::parse("2026-01-02T03:04:05.000").unwrap();
        let run = |begin_ns, ahead_s| Run { begin_ns, end_ns: begin_ns + 10 * SECOND_NS, ahead_s };
        let hour = 3_600 * SECOND_NS;
        assert_eq!(
            stamp.within(&run(AT - hour - SECOND_NS, 3_600)),
            Some((AT - hour, AT - hour + MS)),
            "local"
        );
        assert_eq!(stamp.within(&run(AT - SECOND_NS, 3_600)), Some((AT, AT + MS)), "UTC");
        assert_eq!(stamp.within(&run(AT + hour, 3_600)), None);
        let zoned = Stamp::parse("2026-01-02T03:04:05Z").unwrap();
        assert_eq!(
            zoned.within(&run(AT + SECOND_NS / 2, 3_600)),
            Some((AT + SECOND_NS / 2, AT + SECOND_NS)),
            "whole seconds"
        );
        assert_eq!(zoned.within(&run(AT - hour, 3_600)), None, "whoever names a zone means it");
    }

    #[test]
    fn a_sequence_is_placed_as_well_as_the_gaps_allow() {
        let mut sequence = Sequence::new(100, 160, 50, 30).unwrap();
        let spans = [20, 30].map(|length_ns| sequence.next(length_ns));
        assert_eq!(spans.map(|s| (s.earliest_ns, s.latest_ns)), [(100, 110), (120, 130)]);
        let mut tight = Sequence::new(0, 50, 51, 51).unwrap();
        assert_eq!(tight.next(51).latest_ns, 0, "rounding is no mistake");
        let two = |longest_ns| Sequence::new(0, SECOND_NS, 2 * SECOND_NS, longest_ns).err();
        assert_eq!(two(SECOND_NS), Some(NotPlaced::AtATime));
        assert_eq!(two(2 * SECOND_NS), Some(NotPlaced::TooLong), "it is one");
    }
}
