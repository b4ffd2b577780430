//! `corun run --adapt -- CMD`: runs a program that adapts its threads, with the library of corun-preload
//! loaded first.
//!
//! It becomes the program, so that signals, the exit status and the process number are the program's own.

use crate::lines;
use crate::usage::Usage;
use corun_adapt::Mode;
use corun_linux::linking::is_static;
use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

const LIBRARY: &str = "libcorun_preload.so";
/// Names the library, if it is somewhere else.
const VARIABLE: &str = "CORUN_PRELOAD";
const PRELOAD: &str = "LD_PRELOAD";

const EXAMPLES: &str = "\
Examples:
  corun run --adapt -- ./simulation
  corun run --adapt --observe -- ./simulation
  corun run --adapt --clauses -- python3 train.py

Exit status: that of CMD; 2 where it cannot be run.";

/// Run a program with as many threads as it can get CPUs for
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, override_usage = "corun run --adapt [OPTIONS] -- CMD...")]
pub struct Args {
    /// Let parallel regions of OpenMP and calls of OpenBLAS use as many threads as would make progress
    #[arg(long)]
    adapt: bool,
    /// Change nothing, and say on standard error what would change
    #[arg(long)]
    observe: bool,
    /// Also let the program see as few CPUs as it can get, where it asks how many there are
    #[arg(long)]
    count: bool,
    /// Also lower the number of threads that a region asks for by the clause `num_threads`
    #[arg(long)]
    clauses: bool,
    /// The program and its arguments
    #[arg(last = true, value_name = "CMD", required = true)]
    command: Vec<OsString>,
}

/// Runs the verb.
///
/// # Errors
/// Nothing is requested, the library or the program is missing, or the program cannot be executed.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    if !args.adapt {
        return Err(Usage("say what to do with the program: --adapt".into()).into());
    }
    let library = library()?;
    let (name, arguments) = args.command.split_first().expect("clap requires a command");
    if found(name).is_some_and(|program| is_static(&program)) {
        let name = name.to_string_lossy();
        lines::say(&format!("corun: {name} is linked statically, so it runs, and no hook reaches it"));
    }
    let mut command = Command::new(name);
    command.args(arguments).env(PRELOAD, preloaded(&library, env::var_os(PRELOAD)));
    command.env(corun_adapt::VARIABLE, mode(args.observe)?);
    if args.count {
        command.env("CORUN_ADAPT_COUNT", "1");
    }
    if args.clauses {
        command.env("CORUN_ADAPT_CLAUSES", "1");
    }
    let error = command.exec();
    let name = name.to_string_lossy();
    Err(Usage(match error.kind() {
        ErrorKind::NotFound => format!("{name} is not found: name a program in PATH, or its path"),
        _ => format!("{name} cannot be run: {error}"),
    })
    .into())
}

/// The mode of the hooks: from the environment, unless flags say otherwise.
fn mode(observes: bool) -> Result<OsString, Usage> {
    Mode::from_environment().map_err(|no_mode| Usage(no_mode.to_string()))?;
    Ok(match env::var_os(corun_adapt::VARIABLE) {
        _ if observes => "observe".into(),
        Some(given) => given,
        None => "on".into(),
    })
}

/// The library, next to this program or in `make install`'s folder.
fn library() -> Result<PathBuf, Usage> {
    if let Some(named) = env::var_os(VARIABLE) {
        let library = PathBuf::from(named);
        return match library.is_file() {
            true => usable(library),
            false => Err(Usage(format!("{VARIABLE} is {}: no such file", library.display()))),
        };
    }
    let folder = env::current_exe().ok().and_then(|program| Some(program.parent()?.to_owned()));
    let folder = folder.unwrap_or_default();
    let places = ["", "../lib", "../lib/corun"].map(|place| folder.join(place).join(LIBRARY));
    match places.into_iter().find(|place| place.is_file()) {
        Some(library) => usable(library),
        None => Err(Usage(format!(
            "{LIBRARY} is neither next to corun nor in ../lib: run `make build`, or set {VARIABLE} to its path"
        ))),
    }
}

/// The dynamic linker splits its list at spaces and colons.
fn usable(library: PathBuf) -> Result<PathBuf, Usage> {
    let library = fs::canonicalize(&library).unwrap_or(library);
    if library.to_string_lossy().contains([' ', ':']) {
        let library = library.display();
        return Err(Usage(format!(
            "{library} cannot be preloaded: move it to a path without spaces and colons"
        )));
    }
    Ok(library)
}

/// The value for preloading, after the previous one.
fn preloaded(library: &Path, before: Option<OsString>) -> OsString {
    match before.filter(|before| !before.is_empty()) {
        Some(mut list) => {
            list.push(":");
            list.push(library);
            list
        }
        None => library.into(),
    }
}

/// The file that a command names.
fn found(name: &OsStr) -> Option<PathBuf> {
    let name = Path::new(name);
    if name.components().count() > 1 {
        return Some(name.to_owned());
    }
    let is_program = |path: &PathBuf| {
        fs::metadata(path).is_ok_and(|about| about.is_file() && about.permissions().mode() & 0o111 != 0)
    };
    env::split_paths(&env::var_os("PATH")?).map(|folder| folder.join(name)).find(is_program)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn earlier_preloaded_libraries_stay_in_front() {
        let library = Path::new("/l.so");
        assert_eq!(preloaded(library, None), "/l.so");
        assert_eq!(preloaded(library, Some("".into())), "/l.so");
        assert_eq!(preloaded(library, Some("/a.so:/b.so".into())), "/a.so:/b.so:/l.so");
    }
}
