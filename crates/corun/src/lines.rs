//! Lines on standard output and standard error, each written at once.

use anyhow::Context;
use std::io::{ErrorKind, Write};

/// Writes a line of JSON, its newline included. Returns whether anybody still reads: `head` may have seen
/// enough.
///
/// # Errors
/// If standard output cannot be written for another reason.
pub fn write(line: &str) -> anyhow::Result<bool> {
    to(std::io::stdout().lock(), line)
}

/// The same on standard error, for people; any number of lines.
///
/// # Errors
/// If standard error cannot be written for another reason.
pub fn tell(lines: &str) -> anyhow::Result<bool> {
    to(std::io::stderr().lock(), lines)
}

/// The same if a missing reader or terminal is no reason to stop.
pub fn say(line: &str) {
    let _ = tell(&format!("{line}\n"));
}

fn to(mut out: impl Write, lines: &str) -> anyhow::Result<bool> {
    match out.write_all(lines.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() == ErrorKind::BrokenPipe => Ok(false),
        done => done.map(|()| true).context("writing a line"),
    }
}
