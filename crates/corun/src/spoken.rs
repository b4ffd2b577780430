//! Words of the command line, which may be any bytes: as they are for programs and files, as text for people, names and JSON.

use clap::builder::{OsStringValueParser, TypedValueParser};
use std::ffi::OsString;

/// Parses a name: bytes that are not UTF-8 are replaced, as they are in the names that corun reads of others.
pub fn name() -> impl TypedValueParser<Value = String> {
    OsStringValueParser::new().map(|word: OsString| word.to_string_lossy().into_owned())
}

/// A command line for people.
pub fn line(words: &[OsString]) -> String {
    let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
    words.join(" ")
}
