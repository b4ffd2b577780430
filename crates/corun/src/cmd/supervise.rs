//! `corun supervise`: the process that restores everything when the controller cannot. Started by corun itself.

use corun_linux::supervisor;
use std::ffi::OsString;
use std::process::ExitCode;

/// Watch over a controller (started by corun, not by hand)
#[derive(Debug, clap::Args)]
pub struct Args {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<OsString>,
}

/// Runs the verb.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    Ok(supervisor::main(args.args))
}
