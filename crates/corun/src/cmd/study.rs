//! `corun study`: a whole experiment, on this machine or on modelled ones: matrix, repetitions, tables, record.

mod control;
mod predict;
mod schedulers;
mod verify;

use crate::reading::{result_of, text_of, why};
use crate::usage::{check_folder, Usage};
use anyhow::Context;
use corun_linux::{topology, Root};
use corun_report::describe;
use corun_report::output::write_file;
use corun_study::control_file::{self, CONTROL, CONTROL_GUEST};
use corun_study::pairs::{self, PREDICT};
use corun_study::programs::{Catalogue, Stage};
use corun_study::schedulers::file::{self as schedulers_file, SCHEDULERS};
use corun_study::verifying::{STUDY_SCHEMA as VERIFY_SCHEMA, VERIFY};
use serde::de::DeserializeOwned;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  corun study predict --out out/study               how good are predictions of slowdown?
  corun study predict --programs x264,cg-active --repetitions 1
  corun study control --quick                       what does control win? A few cells
  corun study control --out out/study               all of it (needs root)
  corun study control-guest                         the same, on a kernel with sched_ext
  corun study verify --out out/study                are short runs judged rightly?
  corun study verify --repetitions 3 --out out/study --more
  corun study schedulers --out out/schedulers       the papers' figures, on modelled machines
  corun study schedulers --quick                    a cell of each, in a minute
  corun study schedulers --figures pact16-fig9 --programs facesim
  corun study my-study.toml                         a study file of your own (schema corun.pairs/1,
                                                    corun.verify-study/1, corun.control-study/1 or
                                                    corun.schedulers-study/1)

Where programs run live, the machine should be quiet. Programs that are not installed are skipped, \
with the package that has them.

Exit status: 0 done, 2 is bad usage, 1 a failure of corun's own.";

/// The studies that corun brings along.
const OWN: [(&str, &str, &str); 5] = [
    ("predict", "studies/predict.toml", PREDICT),
    ("verify", "studies/verify.toml", VERIFY),
    ("control", "studies/control.toml", CONTROL),
    ("control-guest", "studies/control-guest.toml", CONTROL_GUEST),
    ("schedulers", "studies/schedulers.toml", SCHEDULERS),
];

/// Run a whole experiment, on this machine or on modelled ones, and keep its tables
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// `predict`, `verify`, `control`, `control-guest`, `schedulers`, or a study file
    study: PathBuf,
    /// Only these programs, with commas
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    programs: Vec<String>,
    /// Only these interferers, with commas (predict, verify)
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    interferers: Vec<String>,
    /// Only these policies, with commas (control)
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    policies: Vec<String>,
    /// Only these groups of cells, with commas (control)
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    groups: Vec<String>,
    /// Only these figures, with commas (schedulers)
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    figures: Vec<String>,
    /// Other than the study's number of repetitions
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    repetitions: Option<u32>,
    /// One repetition of the first cell of every group (control) or figure (schedulers)
    #[arg(long, conflicts_with = "repetitions")]
    quick: bool,
    /// Go on from an earlier result.json of the same study: its runs count too (control)
    #[arg(long, value_name = "FILE")]
    after: Option<PathBuf>,
    /// A folder for the programs' inputs, used again by a later study
    #[arg(long, value_name = "DIR", default_value = "out/inputs")]
    inputs: PathBuf,
    /// Keep the run in this folder
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Keep the windows of every run in this folder, so that they can be predicted again in another way (predict)
    #[arg(long, value_name = "DIR")]
    recordings: Option<PathBuf>,
    /// Add to the runs that are in --out already (predict, verify)
    #[arg(long)]
    more: bool,
    /// Print the result as JSON, to standard output, instead of tables
    #[arg(long)]
    json: bool,
    /// Show no progress
    #[arg(long, short)]
    quiet: bool,
}

/// Runs the verb.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let known = Catalogue::own();
    let (name, text) = read(&args.study)?;
    let what = kind(&name, &text)?;
    let given = [
        ("--interferers", !args.interferers.is_empty(), "predict, verify"),
        ("--policies", !args.policies.is_empty(), "control"),
        ("--groups", !args.groups.is_empty(), "control"),
        ("--figures", !args.figures.is_empty(), "schedulers"),
        ("--quick", args.quick, "control, schedulers"),
        ("--after", args.after.is_some(), "control"),
        ("--recordings", args.recordings.is_some(), "predict"),
        ("--more", args.more, "predict, verify"),
    ];
    if let Some((flag, ..)) = given.iter().find(|(_, given, of)| *given && !of.contains(what)) {
        return Err(Usage(format!("{flag} is not for a study of this kind; leave it out")).into());
    }
    match what {
        "control" => control::run(&args, &name, &text, &known),
        "verify" => verify::run(&args, &name, &text),
        "schedulers" => schedulers::run(&args, &name, &text),
        _ => predict::run(&args, &name, &text, &known),
    }
}

/// Makes the folders that were asked for. Only when nothing else is amiss: who is refused has nothing to clear away.
fn make_folders(args: &Args) -> Result<(), Usage> {
    [&args.out, &args.recordings].into_iter().flatten().try_for_each(|folder| check_folder(folder))
}

/// What a study is about, by its schema.
fn kind(name: &str, text: &str) -> Result<&'static str, Usage> {
    let kinds = [
        (pairs::SCHEMA, "predict"),
        (control_file::SCHEMA, "control"),
        (VERIFY_SCHEMA, "verify"),
        (schedulers_file::SCHEMA, "schedulers"),
    ];
    let all = kinds.map(|(schema, _)| schema).join(", ");
    let Some((at, line)) = text.lines().enumerate().find(|(_, line)| line.starts_with("schema")) else {
        return Err(Usage(format!("{name}:1: no line says the `schema`; give one of {all}")));
    };
    let found = kinds.iter().find(|(schema, _)| line.contains(schema)).map(|(_, kind)| *kind);
    found.ok_or_else(|| {
        let remedy = "`corun validate --study` takes corun.study/1";
        Usage(format!("{name}:{}: no study has this schema; give one of {all} ({remedy})", at + 1))
    })
}

fn read(path: &Path) -> anyhow::Result<(String, String)> {
    if let Some((_, name, text)) = OWN.iter().find(|(own, ..)| path == Path::new(own)) {
        return Ok(((*name).to_owned(), (*text).to_owned()));
    }
    let name = path.display().to_string();
    let text = text_of(path).map_err(|e| {
        let own = OWN.map(|(own, ..)| format!("`{own}`")).join(", ");
        Usage(format!("cannot read {name}: {}; the studies that corun brings along are {own}", why(&e)))
    })?;
    Ok((name, text))
}

/// Leaves of `names` those that are `wanted`: all, if nothing is.
fn only(names: &mut Vec<String>, wanted: &[String], what: &str) -> anyhow::Result<()> {
    only_of(names, |name| name, wanted, what)
}

/// Leaves of `all` those whose name is `wanted`: all, if nothing is.
fn only_of<T>(
    all: &mut Vec<T>,
    name: impl Fn(&T) -> &String,
    wanted: &[String],
    what: &str,
) -> anyhow::Result<()> {
    if let Some(unknown) = wanted.iter().find(|w| !all.iter().any(|one| name(one) == *w)) {
        let all: Vec<&str> = all.iter().map(|one| name(one).as_str()).collect();
        return Err(Usage(format!("the study has no {what} `{unknown}`; it has {}", all.join(", "))).into());
    }
    if !wanted.is_empty() {
        all.retain(|one| wanted.contains(name(one)));
    }
    Ok(())
}

/// corun itself and the folder of inputs.
fn stage(args: &Args) -> anyhow::Result<(PathBuf, Stage)> {
    let corun = std::env::current_exe().context("finding corun's own program file")?;
    let stage = Stage::new(&args.inputs, &corun, corun_study::live::pace())
        .with_context(|| format!("making {}", args.inputs.display()))?;
    Ok((corun, stage))
}

/// Runs that do not go with those of --out.
fn made_otherwise(how: &str) -> Usage {
    Usage(format!("the runs in --out were made otherwise ({how}); leave --more out, with another folder"))
}

/// What earlier runs of the study have found, if these are to be added to it.
fn earlier<T: DeserializeOwned>(args: &Args) -> anyhow::Result<Option<T>> {
    let out = match (args.more, &args.out) {
        (false, _) => return Ok(None),
        (true, Some(out)) => out,
        (true, None) => {
            return Err(Usage("--more adds to an earlier result; name its folder with --out".into()).into())
        }
    };
    let file = out.join("result.json");
    let place = file.display();
    let found = result_of(&file).map_err(|e| {
        Usage(format!("--more adds to the runs in {place}: {e}; leave --more out the first time"))
    })?;
    let no_result = |e| {
        Usage(format!("--more adds to the runs in {place}, which is no such result: {e}; name another folder with --out"))
    };
    Ok(Some(serde_json::from_str(&found).map_err(no_result)?))
}

/// Now, the machine and its kernel, for a record.
fn circumstances(root: &Root) -> anyhow::Result<(String, String, String)> {
    let machine = topology::read_machine(root).context("reading the machine's shape")?;
    let date = jiff::Zoned::now().strftime("%Y-%m-%d %H:%M %Z").to_string();
    let kernel = root.read("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned();
    Ok((date, describe(&machine), kernel))
}

/// Writes the files of a record into the folder that was named, if one was.
fn keep<Name: AsRef<Path>>(args: &Args, files: impl FnOnce() -> Vec<(Name, String)>) -> anyhow::Result<()> {
    let Some(out) = &args.out else { return Ok(()) };
    for (name, text) in files() {
        write_file(&out.join(name), text.as_bytes())?;
    }
    Ok(())
}

/// The command that makes the same record again.
fn command(args: &Args) -> String {
    let mut command = format!("corun study {}", args.study.display());
    let lists = [
        ("groups", &args.groups),
        ("programs", &args.programs),
        ("interferers", &args.interferers),
        ("policies", &args.policies),
        ("figures", &args.figures),
    ];
    for (flag, names) in lists {
        if !names.is_empty() {
            command += &format!(" --{flag} '{}'", names.join(","));
        }
    }
    if let Some(n) = args.repetitions {
        command += &format!(" --repetitions {n}");
    }
    if args.quick {
        command += " --quick";
    }
    command
}
