//! Parsers of flag values: lengths of time, shares, and names, which may be any bytes.

use clap::builder::{OsStringValueParser, TypedValueParser};
use corun_model::duration::parse_ns;
use std::ffi::OsString;

/// Parses a name: bytes that are not UTF-8 are replaced, as in the names that corun reads of others.
pub fn name() -> impl TypedValueParser<Value = String> {
    OsStringValueParser::new().map(|word: OsString| word.to_string_lossy().into_owned())
}

/// Parses the length of a measurement: more than zero.
///
/// # Errors
/// One sentence that names the text and the remedy.
pub fn length_ns(text: &str) -> Result<u64, String> {
    match parse_ns(text)? {
        0 => Err(format!("`{text}` is no time at all; give one such as 10s")),
        ns => Ok(ns),
    }
}

/// Parses a share of time: `2%` or `0.02`.
///
/// # Errors
/// One sentence that names the text and the remedy.
pub fn share(text: &str) -> Result<f64, String> {
    let x = number(text)
        .ok_or_else(|| format!("`{text}` is not a share of time; give one such as 2% or 0.02"))?;
    if (0.0..=1.0).contains(&x) {
        Ok(x)
    } else {
        Err(format!("{text} is not between 0 and 100 %; give a share such as 2%"))
    }
}

/// Parses the confidence of an interval.
///
/// # Errors
/// One sentence that names the text and the remedy.
pub fn confidence(text: &str) -> Result<f64, String> {
    let x = number(text).ok_or_else(|| format!("`{text}` is not a number; give 95% or 0.95"))?;
    if x > 0.0 && x < 1.0 {
        Ok(x)
    } else {
        Err(format!("{text} is not between 0 and 100 %; give 95% or 0.95"))
    }
}

/// A share, also in per cent; `None` if it is not a number.
fn number(text: &str) -> Option<f64> {
    match text.strip_suffix('%') {
        Some(percent) => percent.trim().parse::<f64>().ok().map(|x| x / 100.0),
        None => text.trim().parse().ok(),
    }
}
