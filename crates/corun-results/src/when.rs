//! Times that tools write, and where in a run their iterations and tests can have been.
//!
//! Few tools say when an iteration began. Many say how long each took, in the order in which they ran. Then none can have
//! begun before those in front of it were through, nor so late that those behind it would not have fitted in before the end
//! ([`Sequence`]). What a tool does in between (a compiler, warm-ups) makes these bounds wide, but never wrong.

use crate::unread::Problem;

const SECOND_NS: i64 = 1_000_000_000;
/// Clocks that tools read differ by so much from that of the run: they are rounded, and set forward and back.
pub(crate) const TOLERANCE_NS: i64 = 20_000_000;
/// Times that are written with few digits do not sum exactly: such a share of them may be too much.
const ROUNDED: f64 = 0.002;

/// The run within which everything that a tool reports took place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Its beginning, in nanoseconds since 1970.
    pub begin_ns: i64,
    /// Its end.
    pub end_ns: i64,
    /// By how many seconds local time was ahead of UTC.
    pub ahead_s: i64,
}

/// A time that a tool wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stamp {
    /// In nanoseconds since 1970, as if it were UTC where it does not name its zone.
    ns: i64,
    /// Whether it names its zone.
    is_zoned: bool,
    /// What its last digit stands for: the time is as late as that, or later by less than this.
    step_ns: i64,
}

impl Stamp {
    /// Reads ISO 8601, such as `2026-01-02T03:04:05.678+01:00`; `None`: it is something else.
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

    /// How long it was after another, at most; `None`: it was before.
    pub(crate) fn since(&self, before: &Stamp) -> Option<i64> {
        let ns = self.ns.checked_sub(before.ns)?.checked_add(self.step_ns)?;
        (ns >= 0).then_some(ns)
    }

    /// When it can have been, in nanoseconds since 1970, where nothing is known of the run: a time without a zone is local, `ahead_s`
    /// seconds ahead of UTC, or UTC.
    pub(crate) fn anywhere(&self, ahead_s: i64) -> std::ops::Range<i64> {
        let ahead_ns = if self.is_zoned { 0 } else { ahead_s * SECOND_NS };
        let local_ns = self.ns - ahead_ns;
        local_ns.min(self.ns)..local_ns.max(self.ns) + self.step_ns
    }

    /// When it was, at the earliest and at the latest, in nanoseconds since 1970; `None`: not in this run. A time without a
    /// zone is local, or UTC if only that is in the run.
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

/// Whether it names a zone, and by how many seconds that is ahead of UTC; `None`: it is none.
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

/// A length of time that was written in seconds, in nanoseconds.
pub(crate) fn seconds_ns(seconds: f64) -> Option<i64> {
    // The longest that anything here is computed with: 30 years.
    const MOST_S: f64 = 1e9;
    (0.0..MOST_S).contains(&seconds).then_some((seconds * 1e9) as i64)
}

/// Where in a run something can have been.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// When it can have begun at the earliest, in nanoseconds since 1970.
    pub earliest_ns: i64,
    /// When it can have begun at the latest.
    pub latest_ns: i64,
    /// How long it took.
    pub length_ns: i64,
    /// How that is known.
    pub by: By,
}

/// How it is known when something began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// The tool says so.
    Stamp,
    /// It follows from how long everything before and after it took.
    Order,
}

/// Why nobody can tell when something was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotPlaced {
    /// The tool does not tell how long it took.
    NoTime,
    /// It was not in the run that was watched.
    OtherRun,
    /// Several ran at a time, and the tool does not tell when each began.
    AtATime,
    /// The tool says of one of them that it took longer than there was time.
    TooLong,
    /// It is known when it was, but several ran at a time, and what was taken is known only of all of them together.
    Beside,
}

/// Things that followed each other, of which only the lengths are known.
#[derive(Clone, Copy, Debug)]
pub struct Sequence {
    from_ns: i64,
    until_ns: i64,
    before_ns: i64,
    total_ns: i64,
}

impl Sequence {
    /// Things that took `total_ns` together, all between these two instants, and `longest_ns` the longest of them. They cannot have
    /// followed each other if that is longer than the time between.
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

    /// The next of them.
    pub fn next(&mut self, length_ns: i64) -> Span {
        let earliest_ns = self.from_ns + self.before_ns;
        let latest_ns = self.until_ns - (self.total_ns - self.before_ns);
        self.before_ns += length_ns;
        Span { earliest_ns, latest_ns: latest_ns.max(earliest_ns), length_ns, by: By::Order }
    }
}

/// Something that has its own stamp.
pub(crate) fn stamped(stamp: &Stamp, length_ns: i64, run: &Run) -> Result<Span, NotPlaced> {
    let (earliest_ns, latest_ns) = stamp.within(run).ok_or(NotPlaced::OtherRun)?;
    Ok(Span { earliest_ns, latest_ns, length_ns, by: By::Stamp })
}

/// What to say of times that are all outside of the run.
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
    fn what_followed_each_other_is_found_as_well_as_the_gaps_allow() {
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
