//! `corun`: flags and glue. Every verb is one file in `cmd/`; what a verb does lives in the libraries.

mod cli;
mod cmd;
mod counting;
mod course;
mod date;
mod insight;
mod lines;
mod reading;
mod refusal;
mod target;
mod tracing;

use std::process::ExitCode;

fn main() -> ExitCode {
    // Whoever started it may ignore the ends of its children; here they are waited for.
    // SAFETY: sets the default action, before there is another thread.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
    cli::main()
}
