//! `corun load`.

use std::process::ExitCode;

/// Make interference, or run a parallel program with known behaviour
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Runs the verb.
pub fn run(_: Args) -> anyhow::Result<ExitCode> {
    Err(crate::cli::Usage("not built yet".into()).into())
}
