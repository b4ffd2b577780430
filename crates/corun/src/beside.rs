//! A command next to an answer for programs: standard output belongs to the answer, and the command's own
//! output goes to standard error. Mixed, neither could be read.

use crate::usage::Usage;
use anyhow::Context;
use corun_report::output::is_stdout;
use std::ffi::OsString;
use std::io;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Whether one of these files is standard output.
pub fn takes_stdout<'a>(files: impl IntoIterator<Item = &'a PathBuf>) -> bool {
    files.into_iter().any(|path| is_stdout(path))
}

/// The command with these words; `is_stdout_taken` by an answer.
///
/// # Errors
/// There are no words, or no descriptor is left.
pub fn command(words: &[OsString], is_stdout_taken: bool) -> anyhow::Result<Command> {
    let Some((program, arguments)) = words.split_first() else {
        return Err(Usage("the command is empty; name a program".into()).into());
    };
    let mut command = Command::new(program);
    command.args(arguments);
    if is_stdout_taken {
        let apart = io::stderr().as_fd().try_clone_to_owned();
        command.stdout(Stdio::from(apart.context("giving the command another standard output")?));
    }
    Ok(command)
}
