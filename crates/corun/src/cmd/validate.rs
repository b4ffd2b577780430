//! `corun validate`: the same programs live and modelled on this machine, and the error of the model.

use super::study::{place, refused};
use crate::reading::{result_of, text_of};
use crate::usage::{check_files, check_folder, Usage};
use corun_report::output::{is_stdout, print, write_file};
use corun_report::places::unread;
use corun_report::progress::Progress;
use corun_study::study::{Earlier, Listener, Study, StudyError, StudyFile};
use corun_study::validate::file::VALIDATE;
use corun_study::validate::runs::{self, Options, Validation};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  corun validate --quick                       every program once, two repetitions: some two minutes
  corun validate --out out/validate            the whole published study, some 25 minutes, kept
  corun validate --cells 'lock spin 1ms'       the cells whose names have all of these words
  corun validate --live result.json --fit-only model a recorded run again, its fit half only

The machine should be quiet: if others use more than a few percent of it during a live run, that run is repeated. \
With root the ledgers are exact (eBPF); without root, they come from schedstat.

Exit status: 0 done, 2 is bad usage, 1 a failure of corun's own.";

/// Compare the modelled machine with this one: slowdowns and ledgers, live and modelled
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// A study file (schema corun.study/1) [default: the published grid]
    #[arg(long, value_name = "FILE")]
    study: Option<PathBuf>,
    /// Every program once and two repetitions
    #[arg(long)]
    quick: bool,
    /// Only this part: the synthetic grid, or the real programs
    #[arg(long, value_enum, value_name = "PART", default_value = "all")]
    only: Part,
    /// Only the cells whose name has every one of these words
    #[arg(long, value_name = "WORDS")]
    cells: Option<String>,
    /// Take the live results from an earlier run's JSON instead of running anything
    #[arg(long, value_name = "FILE", conflicts_with = "live_only")]
    live: Option<PathBuf>,
    /// Run live only, model nothing
    #[arg(long)]
    live_only: bool,
    /// Leave the unseen half out of everything: for work on the model
    #[arg(long)]
    fit_only: bool,
    /// Write the result as JSON (schema corun.validate/1); `-` is standard output, instead of the text
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Keep the run in this folder: tables, cells, machine, figure
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Show no progress
    #[arg(long, short)]
    quiet: bool,
}

/// Which part of a study to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    All,
    Grid,
    Real,
}

/// Runs the verb.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let (name, text) = read(args.study.as_deref())?;
    let options = Options {
        part: match args.only {
            Part::All => runs::Part::All,
            Part::Grid => runs::Part::Grid,
            Part::Real => runs::Part::Real,
        },
        quick: args.quick,
        cells: args.cells.clone(),
        repetitions: None,
        live: args.live.as_deref().map(earlier).transpose()?,
        live_only: args.live_only,
        fit_only: args.fit_only,
    };
    let file = StudyFile { name: &name, text: &text, folder: Path::new("") };
    let mut study = Validation::open(&file, options).map_err(|error| match error {
        StudyError::NothingLeft { such_as } => {
            Usage(format!("no cell is left; --cells takes words of names such as `{such_as}`")).into()
        }
        error => refused(error),
    })?;
    check_files(&args.json)?;
    // Created only if nothing else is wrong.
    args.out.as_deref().map(check_folder).transpose()?;
    let place = place(PathBuf::new(), command(&args))?;
    let progress = Progress::count("running", study.runs(), args.quiet);
    let done = |what: Option<&str>| {
        progress.step();
        what.iter().for_each(|what| progress.say(what));
    };
    study.run(&place, &mut Listener { done: &done, keep: &mut |_| {} }).map_err(refused)?;
    drop(progress);
    if let Some(folder) = &args.out {
        for (name, text) in study.files(&place.command) {
            write_file(&folder.join(name), text.as_bytes())?;
        }
    }
    if let Some(path) = &args.json {
        write_file(path, study.json().as_bytes())?;
    }
    if !args.json.as_deref().is_some_and(is_stdout) {
        print(&study.text())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The name and the text of the study's file.
fn read(path: Option<&Path>) -> Result<(String, String), Usage> {
    let Some(path) = path else { return Ok(("studies/validate.toml".to_owned(), VALIDATE.to_owned())) };
    let name = path.display().to_string();
    let text = text_of(path).map_err(|e| Usage(format!("cannot read {name}: {}", unread(path, &e))))?;
    Ok((name, text))
}

fn earlier(path: &Path) -> Result<Earlier, Usage> {
    let text =
        result_of(path).map_err(|e| Usage(format!("cannot use {}: {}", path.display(), unread(path, &e))))?;
    Ok(Earlier { place: path.to_owned(), text })
}

/// The command that makes the same record again.
fn command(args: &Args) -> String {
    let mut command = "corun validate".to_owned();
    if let Some(study) = &args.study {
        command += &format!(" --study {}", study.display());
    }
    if args.quick {
        command += " --quick";
    }
    match args.only {
        Part::All => {}
        Part::Grid => command += " --only grid",
        Part::Real => command += " --only real",
    }
    if let Some(words) = &args.cells {
        command += &format!(" --cells '{words}'");
    }
    if args.fit_only {
        command += " --fit-only";
    }
    if let Some(live) = &args.live {
        command += &format!(" --live {}", live.display());
    }
    command
}
