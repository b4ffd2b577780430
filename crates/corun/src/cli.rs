//! The command line: one subcommand per verb, exit codes, and the format of errors.
//!
//! Exit codes: 0 fine, 1 corun failed, 2 usage or bad input; `profile -- CMD`, `predict -- CMD` and
//! `run -- CMD` exit with CMD's own status, `verify -- CMD` with 3 when the run was disturbed.

use clap::{CommandFactory, Parser, Subcommand};
use corun_linux::root::in_words;
use corun_linux::watcher::WatchError;
use corun_model::HostError;
use corun_report::{one_line, printable};
use corun_session::Error;
use std::process::ExitCode;

use crate::cmd;
use crate::lines;
use crate::refusal::sentence;
use crate::spread::spread;
use crate::usage::{interrupted_by, Usage};

/// corun says who slows your program down on a shared Linux machine, by how much and why
#[derive(Debug, Parser)]
#[command(name = "corun", version, disable_help_subcommand = true)]
pub struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Doctor(cmd::doctor::Args),
    Agent(cmd::agent::Args),
    Profile(cmd::profile::Args),
    Top(cmd::top::Args),
    Predict(cmd::predict::Args),
    Verify(cmd::verify::Args),
    Record(cmd::record::Args),
    Control(cmd::control::Args),
    Run(cmd::run::Args),
    Policies(cmd::policies::Args),
    Load(cmd::load::Args),
    Sim(cmd::sim::Args),
    Validate(cmd::validate::Args),
    Study(cmd::study::Args),
    #[command(hide = true)]
    Generate(cmd::generate::Args),
}

/// A sentence without the numbers that the standard library appends to the kernel's messages.
fn without_numbers(what: &str) -> String {
    let mut parts = what.split(" (os error ");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |so_far, part| match part.split_once(')') {
        Some((number, rest)) if number.parse::<i32>().is_ok() => so_far + rest,
        _ => so_far + " (os error " + part,
    })
}

/// What would help on the command line: the libraries below know no flags.
fn flag_that_helps(error: &Error, has_source: bool) -> Option<&'static str> {
    match error {
        Error::Watch(WatchError::Ebpf(_)) if has_source => {
            Some("`corun doctor` says why, `--source schedstat` does without")
        }
        Error::Watch(WatchError::Ebpf(_)) => Some("`corun doctor` says why"),
        Error::NoSchedExt { .. } => Some("`--backend stock` does without"),
        Error::Host(HostError::NotUndone { .. }) => Some("`corun control --restore` tries again"),
        _ => None,
    }
}

/// Whether the given verb has a flag for the source.
fn has_source() -> bool {
    let verb = std::env::args_os().nth(1).unwrap_or_default();
    let cli = Cli::command();
    let given = cli.get_subcommands().find(|known| *known.get_name() == *verb);
    given.is_some_and(|verb| verb.get_arguments().any(|flag| flag.get_long() == Some("source")))
}

/// Runs the command line and returns the exit code.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let given: Vec<String> =
                std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
            let Some(what) = sentence(&error, &Cli::command(), &given) else { error.exit() };
            lines::say(&format!("corun: {}", one_line(&what)));
            return ExitCode::from(2);
        }
    };
    let done = match cli.verb {
        Verb::Doctor(args) => cmd::doctor::run(args),
        Verb::Agent(args) => cmd::agent::run(args),
        Verb::Profile(args) => cmd::profile::run(args),
        Verb::Top(args) => cmd::top::run(args),
        Verb::Predict(args) => cmd::predict::run(args),
        Verb::Verify(args) => cmd::verify::run(args),
        Verb::Record(args) => cmd::record::run(args),
        Verb::Control(args) => cmd::control::run(args),
        Verb::Run(args) => cmd::run::run(args),
        Verb::Policies(args) => cmd::policies::run(args),
        Verb::Load(args) => cmd::load::run(args),
        Verb::Sim(args) => spread(|| cmd::sim::run(args)),
        Verb::Validate(args) => spread(|| cmd::validate::run(args)),
        Verb::Study(args) => spread(|| cmd::study::run(args)),
        Verb::Generate(args) => cmd::generate::run(args, Cli::command()),
    };
    done.unwrap_or_else(|error| {
        let of_session = error.downcast_ref::<Error>();
        if let Some(Error::Stopped { signal }) = of_session {
            return ExitCode::from(interrupted_by(*signal));
        }
        // It may quote the name of somebody else's process, or an argument.
        let flag = of_session.and_then(|error| flag_that_helps(error, has_source()));
        let flag = flag.map_or_else(String::new, |flag| format!("; {flag}"));
        let what = in_full(&error) + &flag;
        let usage = error.downcast_ref::<Usage>().is_some() || of_session.is_some_and(Error::is_usage);
        lines::say(&format!("corun: {}", if usage { one_line(&what) } else { printable(&what) }));
        ExitCode::from(if usage { 2 } else { 1 })
    })
}

/// An error with its causes. A cause that the error already contains is not repeated.
fn in_full(error: &anyhow::Error) -> String {
    let said = error.chain().map(|e| match e.downcast_ref::<std::io::Error>() {
        Some(e) => in_words(e),
        None => without_numbers(&e.to_string()),
    });
    said.reduce(|all, cause| if all.contains(&cause) { all } else { format!("{all}: {cause}") })
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::{in_full, without_numbers};
    use anyhow::Context;

    #[test]
    fn a_cause_is_reported_once() {
        let e = || std::io::Error::from_raw_os_error(2);
        let read = corun_linux::root::ReadError::Io { path: "/proc/stat".into(), source: e() };
        let whole = "looking around: cannot read /proc/stat: No such file or directory";
        assert_eq!(in_full(&Err::<(), _>(read).context("looking around").unwrap_err()), whole);
        assert_eq!(
            in_full(&Err::<(), _>(e()).context("reading a").unwrap_err()),
            "reading a: No such file or directory"
        );
    }

    #[test]
    fn a_cause_with_a_remedy_is_reported_once_and_with_it() {
        use corun_linux::root::ReadError;
        use corun_linux::schedstat_host::SchedstatError;
        for (errno, cause) in [
            (libc::EMFILE, "too many files are open; raise `ulimit -n`"),
            (libc::ENOSPC, "the disk is full; free some space"),
            (libc::EROFS, "the file system can only be read; choose another place"),
            (libc::EACCES, "Permission denied"),
        ] {
            let source = std::io::Error::from_raw_os_error(errno);
            let read = SchedstatError::Read(ReadError::Io { path: "/proc/self/schedstat".into(), source });
            assert_eq!(in_full(&read.into()), format!("cannot read /proc/self/schedstat: {cause}"));
        }
    }

    #[test]
    fn the_kernels_message_is_shown_without_its_number_wherever_it_is() {
        let e = |errno| std::io::Error::from_raw_os_error(errno);
        let what = without_numbers(&format!("a: {}; b: {}", e(2), e(11)));
        assert_eq!(what, "a: No such file or directory; b: Resource temporarily unavailable");
        for kept in ["", "plain", "a (os error x) b", "a (os error 2"] {
            assert_eq!(without_numbers(kept), kept);
        }
    }
}
