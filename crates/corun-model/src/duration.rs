//! Times and sizes as people write them: `10ms`, `2s`, `1m30s`, `64KiB`. Inside they are integers.

use serde::de::{Error, Visitor};
use serde::Deserializer;
use std::fmt::Formatter;

/// Parses a time such as `100ns`, `50us`, `10ms`, `1.5s`, `2m`, `1h` into nanoseconds.
///
/// # Errors
/// One sentence that names the text and the remedy.
pub fn parse_ns(text: &str) -> Result<u64, String> {
    let units = [
        ("ns", 1.0),
        ("us", 1e3),
        ("µs", 1e3),
        ("ms", 1e6),
        ("s", 1e9),
        ("m", 60e9),
        ("min", 60e9),
        ("h", 3600e9),
    ];
    parse(text, &units, "a time with its unit, such as 500us, 10ms or 2s")
}

/// The same for a field of a file, with serde's `deserialize_with`.
///
/// # Errors
/// As [`parse_ns`].
pub fn written_ns<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    let text = from.deserialize_str(Quoted("a time in quotes with its unit, such as \"10ms\""))?;
    parse_ns(&text).map_err(Error::custom)
}

/// Parses a size such as `4096B`, `64KiB`, `1MiB`, `2GB` into bytes.
///
/// # Errors
/// One sentence that names the text and the remedy.
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    let units = [
        ("B", 1.0),
        ("KiB", 1024.0),
        ("MiB", 1048576.0),
        ("GiB", 1073741824.0),
        ("KB", 1e3),
        ("kB", 1e3),
        ("MB", 1e6),
        ("GB", 1e9),
    ];
    parse(text, &units, "a size with its unit, such as 64KiB or 2MiB")
}

/// [`parse_bytes`] for a field of a file, with serde's `deserialize_with`.
///
/// # Errors
/// As [`parse_bytes`].
pub fn written_bytes<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    let text = from.deserialize_str(Quoted("a size in quotes with its unit, such as \"64KiB\""))?;
    parse_bytes(&text).map_err(Error::custom)
}

/// A text in a file. It carries the expected form for error messages.
struct Quoted(&'static str);

impl Visitor<'_> for Quoted {
    type Value = String;

    fn expecting(&self, f: &mut Formatter) -> std::fmt::Result {
        f.write_str(self.0)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<String, E> {
        Ok(text.to_owned())
    }
}

fn parse(text: &str, units: &[(&str, f64)], wanted: &str) -> Result<u64, String> {
    let bad = || format!("`{text}` is not {wanted}");
    let mut rest = text.trim();
    if rest == "0" {
        return Ok(0);
    }
    if rest.is_empty() {
        return Err(bad());
    }
    let mut total = 0.0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(bad)?;
        let number: f64 = rest[..digits].parse().map_err(|_| bad())?;
        rest = &rest[digits..];
        let letters = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let scale = units.iter().find(|(u, _)| *u == rest[..letters].trim()).ok_or_else(bad)?.1;
        total += number * scale;
        rest = &rest[letters..];
    }
    if total.is_finite() && total < 9e18 {
        Ok(total.round() as u64)
    } else {
        Err(format!("`{text}` is too large; give less"))
    }
}

/// Writes a time for people, with three significant digits: `1.23 ms`, `45.6 s`.
pub fn human_ns(ns: u64) -> String {
    let ns_f = ns as f64;
    let (value, unit) = match ns {
        0 => return "0 s".to_owned(),
        1..1_000 => return format!("{ns} ns"),
        1_000..1_000_000 => (ns_f / 1e3, "µs"),
        1_000_000..1_000_000_000 => (ns_f / 1e6, "ms"),
        1_000_000_000..36_000_000_000_000 => (ns_f / 1e9, "s"),
        _ => (ns_f / 3.6e12, "h"),
    };
    format!("{} {unit}", three_digits(value))
}

/// Writes a size for people, with three significant digits: `64.0 KiB`, `1.50 GiB`.
pub fn human_bytes(bytes: u64) -> String {
    let units = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    // The unit in which the size has at most three digits before the point.
    let step = (1..units.len()).take_while(|s| bytes as f64 / 1024f64.powi(*s as i32) >= 999.5).count();
    match bytes {
        0..1024 => format!("{bytes} B"),
        _ => format!("{} {}", three_digits(bytes as f64 / 1024f64.powi(step as i32 + 1)), units[step]),
    }
}

fn three_digits(value: f64) -> String {
    let decimals = if value >= 99.95 {
        0
    } else if value >= 9.995 {
        1
    } else {
        2
    };
    format!("{value:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_people_write_them() {
        assert_eq!(parse_ns("10ms"), Ok(10_000_000));
        assert_eq!(parse_ns("1.5s"), Ok(1_500_000_000));
        assert_eq!(parse_ns("1m30s"), Ok(90_000_000_000));
        assert_eq!(parse_ns("0"), Ok(0));
        for bad in ["", "10", "ms", "10 parsecs", "-1s", "1e9s"] {
            assert!(parse_ns(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn sizes_are_read_as_people_write_them() {
        assert_eq!(parse_bytes("64KiB"), Ok(65_536));
        assert_eq!(parse_bytes("0"), Ok(0));
        assert!(parse_bytes("64").is_err());
    }

    #[test]
    fn times_are_written_with_three_digits() {
        assert_eq!(human_ns(999), "999 ns");
        assert_eq!(human_ns(1_234_567), "1.23 ms");
        assert_eq!(human_ns(45_600_000_000), "45.6 s");
        assert_eq!(human_ns(123_400_000), "123 ms");
        assert_eq!(human_ns(36_000_000_000_000), "10.0 h");
    }

    #[test]
    fn sizes_are_written_with_three_digits() {
        assert_eq!(human_bytes(1023), "1023 B");
        assert_eq!(human_bytes(65_536), "64.0 KiB");
        assert_eq!(human_bytes(1_048_575), "1.00 MiB");
        assert_eq!(human_bytes(3 << 29), "1.50 GiB");
        assert_eq!(human_bytes(u64::MAX), "16.0 EiB");
    }
}
