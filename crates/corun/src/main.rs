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

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main()
}
