//! The format of numbers and names for people, the same in every output.

pub use corun_model::count::{count, thousands};
use corun_model::duration::human_ns;

use crate::profile::schema::Bound;

/// A smaller share of the wall time does not count as lost.
pub(crate) const SMALL: f64 = 0.005;

/// `part` of `whole` in percent, without the sign: at most three digits, never a bare 0 for something, and
/// never 100 for less.
pub fn percent(part: u64, whole: u64) -> String {
    if part == 0 || whole == 0 {
        return "0".to_owned();
    }
    match part as f64 * 100.0 / whole as f64 {
        p if p < 0.05 => "<0.1".to_owned(),
        p if p < 9.95 => format!("{p:.1}"),
        p if p >= 99.5 && part < whole => format!("{:.1}", p.min(99.9)),
        p => thousands(p.round() as u64),
    }
}

/// A share in percent, in the same format; `?` for something that is not a number.
pub fn share(x: f64) -> String {
    if !x.is_finite() {
        return "?".to_owned();
    }
    percent((x * 1e9).round() as u64, 1_000_000_000)
}

/// Two shares as bounds: `between 3.0 and 12 %`, `at most 12 %`.
pub fn between(least: f64, most: f64) -> String {
    let (low, high) = (share(least), share(most));
    match () {
        () if low == "0" => format!("at most {high} %"),
        () if low == high => format!("{high} %"),
        () => format!("between {low} and {high} %"),
    }
}

/// Why this share of its time may not have been lost; its own budget may account for `stopped_anyway`.
pub fn spared(spare: f64, stopped_anyway: f64) -> &'static str {
    if 2.0 * stopped_anyway > spare {
        "its own CPU budget may have stopped it meanwhile anyway"
    } else {
        "some of what they took may have come out of its sleep"
    }
}

/// This share of the wall time or more is most of it.
pub const MOSTLY: f64 = 0.5;

/// A quantile: `under 8.19 ms`, or `at least 8.39 s` if it lies in the overflow bucket.
pub fn bound(b: Bound) -> String {
    match b {
        Bound::BelowNs(ns) => format!("under {}", human_ns(ns)),
        Bound::AtLeastNs(ns) => format!("at least {}", human_ns(ns)),
    }
}

/// Whether a character does something other than being visible: it controls the terminal, reverses the
/// direction of the following text, or has no width. A process may have any of them in its name.
pub fn steers(c: char) -> bool {
    let formats = ['\u{61c}', '\u{feff}'].contains(&c)
        || ('\u{200b}'..='\u{200f}').contains(&c)
        || ('\u{2028}'..='\u{202e}').contains(&c)
        || ('\u{2060}'..='\u{2069}').contains(&c);
    c.is_control() || formats
}

/// A name that is safe on a terminal and at most `width` characters long.
pub fn name(text: &str, width: usize) -> String {
    let clean: Vec<char> = text.chars().map(|c| if steers(c) { '?' } else { c }).collect();
    if clean.len() <= width {
        return clean.into_iter().collect();
    }
    clean.into_iter().take(width.saturating_sub(1)).chain(['~']).collect()
}

/// Text of several lines that is safe on a terminal, such as an error that quotes names from others.
pub fn printable(text: &str) -> String {
    text.chars().map(|c| if steers(c) && !matches!(c, '\n' | '\t') { '?' } else { c }).collect()
}

/// A sentence that is safe on a terminal and stays one line, whatever it quotes. A word that nobody would
/// read to its end is shortened in the middle.
pub fn one_line(text: &str) -> String {
    const LONG: usize = 256;
    let short = |word: &str| {
        let chars: Vec<char> = word.chars().collect();
        if chars.len() <= LONG {
            return word.to_owned();
        }
        let (first, last) = (&chars[..LONG / 2], &chars[chars.len() - LONG / 4..]);
        first.iter().chain(&['…']).chain(last).collect()
    };
    printable(text).split(['\n', '\t', ' ']).map(short).collect::<Vec<_>>().join(" ").trim_end().to_owned()
}

/// Breaks text into lines of at most `width` characters, at spaces. A longer word gets a line of its own, and
/// a number keeps its percent sign.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.replace(" %", "\u{a0}%").split(' ') {
        let word = word.replace('\u{a0}', " ");
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(&word);
            }
            _ => lines.push(word),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_never_rounded_to_nothing() {
        assert_eq!(percent(0, 100), "0");
        assert_eq!(percent(1, 1_000_000), "<0.1");
        assert_eq!(percent(42, 1000), "4.2");
        assert_eq!(percent(424, 1000), "42");
        assert_eq!(percent(12_345, 1000), "1,235");
        assert_eq!(percent(5, 0), "0");
    }

    #[test]
    fn less_than_all_is_never_rounded_to_all() {
        let of_ten_thousand = |part| percent(part, 10_000);
        assert_eq!([9_940, 9_950, 9_970, 9_999].map(of_ten_thousand), ["99", "99.5", "99.7", "99.9"]);
        assert_eq!([10_000, 10_040].map(of_ten_thousand), ["100", "100"], "all, and more than all");
        assert_eq!([0.999_6, 1.0].map(share), ["99.9", "100"]);
        assert_eq!(between(0.999, 1.0), "between 99.9 and 100 %");
    }

    #[test]
    fn two_bounds_become_one_if_they_are_alike_and_at_most_if_the_lower_is_zero() {
        assert_eq!(between(0.03, 0.12), "between 3.0 and 12 %");
        assert_eq!(between(0.0, 0.12), "at most 12 %");
        assert_eq!(between(0.1201, 0.1202), "12 %");
    }

    #[test]
    fn lines_break_at_spaces_and_lose_no_word() {
        assert_eq!(wrap("aa bb cc", 5), ["aa bb", "cc"]);
        assert_eq!(wrap("a-long-word b", 3), ["a-long-word", "b"]);
        assert_eq!(wrap("", 3), [""]);
        assert_eq!(wrap("at 50 % of it", 6), ["at", "50 %", "of it"]);
    }

    #[test]
    fn a_name_cannot_control_the_terminal() {
        assert_eq!(name("ok", 8), "ok");
        assert_eq!(name("a\x1b[2Jb", 20), "a?[2Jb");
        assert_eq!(name("a\u{9b}2J\u{202e}b\u{2066}c\u{200b}\u{61c}\u{feff}", 20), "a?2J?b?c???");
        assert_eq!(name("\u{e9}t\u{e9} \u{5d0}\u{1f600}", 20), "\u{e9}t\u{e9} \u{5d0}\u{1f600}");
        assert_eq!(name("a-very-long-name", 8), "a-very-~");
        assert_eq!(printable("line 3:\n\ta\x1b[2Jb"), "line 3:\n\ta?[2Jb");
        assert_eq!(printable("a\u{2029}b\nc"), "a?b\nc");
    }

    #[test]
    fn a_sentence_stays_one_line_whatever_it_quotes() {
        assert_eq!(one_line("`a\nb\tc\x1b` is no file"), "`a b c?` is no file");
        let said = one_line(&format!("m.toml:7: `{}` is no size", "x".repeat(5000)));
        assert!(said.starts_with("m.toml:7: `xx") && said.contains("x…x") && said.ends_with("x` is no size"));
        assert!(said.chars().count() < 300, "{said}");
        let path = format!("/{}", "a-folder/".repeat(25));
        assert_eq!(one_line(&path), path);
    }
}
