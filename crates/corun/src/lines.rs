//! JSON lines on standard output, each as soon as it is made.

use anyhow::Context;
use std::io::{ErrorKind, Write};

/// Writes a line, its newline included. Returns whether anybody still reads: whoever pipes into `head` has seen enough.
///
/// # Errors
/// When standard output cannot be written for another reason.
pub fn write(line: &str) -> anyhow::Result<bool> {
    let mut out = std::io::stdout().lock();
    match out.write_all(line.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() == ErrorKind::BrokenPipe => Ok(false),
        done => done.map(|()| true).context("writing a line"),
    }
}
