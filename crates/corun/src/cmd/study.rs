//! `corun study`: a whole experiment, on this machine or on modelled ones: matrix, repetitions, tables,
//! record.

use crate::reading::{result_of, text_of};
use crate::usage::{check_folder, interrupted_by, Usage};
use anyhow::Context;
use corun_report::output::{print, write_file};
use corun_report::places::unread;
use corun_report::progress::Progress;
use corun_study::kinds::{kind_of, own};
use corun_study::study::{Earlier, Files, Listener, Place, Shard, StudyError, StudyFile, Wanted};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Exit code if a checker of the engine fires: corun itself is wrong.
const BUG: u8 = 70;
/// The flags of a kind of study that takes a command.
const COMMAND: &str = "-- CMD";

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
  corun study validate --quick                      how far off is the modelled machine?
  corun study schedulers --shard 2/8 --out parts    the second of eight parts
  corun study programs --out out/programs           what real programs do alone, as workload files
  corun study programs --quick --out out/mine -- ./solver in.dat
  corun study merge parts/shard-*.json --out out/schedulers
  corun study my-study.toml                         a study file of your own (schema corun.pairs/1,
                                                    corun.verify-study/1, corun.control-study/1,
                                                    corun.schedulers-study/1, corun.study/1
                                                    or corun.programs-study/1)

Where programs run live, the machine should be quiet. Programs that are not installed are skipped, \
with the package that has them.

Exit status: 0 done, 2 is bad usage, 1 a failure of corun's own.";

/// Run a whole experiment, on this machine or on modelled ones, and keep its tables
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// `predict`, `verify`, `control`, `control-guest`, `schedulers`, `validate`, `programs`, or a study file; `merge` puts parts together
    study: PathBuf,
    /// The parts to merge: files that --shard wrote; or a command and its arguments (programs)
    #[arg(value_name = "PART|CMD")]
    parts: Vec<PathBuf>,
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
    /// The number of repetitions, instead of the study's
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    repetitions: Option<u32>,
    /// One repetition of the first cell of every group (control) or figure (schedulers); every program once (validate); no co-runs (programs)
    #[arg(long, conflicts_with = "repetitions")]
    quick: bool,
    /// Continue from an earlier result.json of the same study: its runs count too (control), or replace live runs
    /// (validate)
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
    /// Make only this part of the runs: I/N is the Ith of N. Parts merge into what one run makes, to the byte (schedulers)
    #[arg(long, value_name = "I/N")]
    shard: Option<Shard>,
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
    if args.study == Path::new("merge") {
        return merge(&args);
    }
    let (name, text) = read(&args.study)?;
    let folder = args.study.parent().unwrap_or(Path::new(""));
    let file = StudyFile { name: &name, text: &text, folder };
    let kind = kind_of(&file).map_err(refused)?;
    if let Some(part) = args.parts.first().filter(|_| !kind.flags.contains(&COMMAND)) {
        let part = part.display();
        return Err(Usage(format!(
            "one study at a time: `{part}` is too much; parts are for `corun study merge`"
        ))
        .into());
    }
    let given = [
        ("--interferers", !args.interferers.is_empty()),
        ("--policies", !args.policies.is_empty()),
        ("--groups", !args.groups.is_empty()),
        ("--figures", !args.figures.is_empty()),
        ("--quick", args.quick),
        ("--after", args.after.is_some()),
        ("--recordings", args.recordings.is_some()),
        ("--more", args.more),
        ("--shard", args.shard.is_some()),
    ];
    if let Some((flag, _)) = given.iter().find(|(flag, given)| *given && !kind.flags.contains(flag)) {
        return Err(Usage(format!("{flag} is not for a study of this kind; leave it out")).into());
    }
    let mut study = (kind.open)(&file, &wanted(&args)?).map_err(refused)?;
    make_folders(&args)?;
    let place = place(args.inputs.clone(), command(&args))?;
    let progress = Progress::count("running", study.runs(), args.quiet);
    let mut kept = Ok(());
    let done = |what: Option<&str>| {
        progress.step();
        what.iter().for_each(|what| progress.say(what));
    };
    let ran = study.run(&place, &mut Listener { done: &done, keep: &mut |files| kept = keep(&args, files) });
    drop(progress);
    match ran {
        Err(StudyError::Bug(what)) => {
            eprintln!("corun: {what}");
            return Ok(ExitCode::from(BUG));
        }
        Err(StudyError::Interrupted { signal }) => {
            // Later runs can be added to these (`--more`).
            keep(&args, study.files(&place.command))?;
            return Ok(ExitCode::from(interrupted_by(signal)));
        }
        ran => ran.map_err(refused)?,
    }
    print(&if args.json { study.json() } else { study.text() })?;
    keep(&args, study.files(&place.command))?;
    kept?;
    study.fault().map_err(refused)?;
    Ok(ExitCode::SUCCESS)
}

/// The settings of a study now; `inputs` is the folder of its programs' inputs, and `command` makes the same
/// record again.
pub fn place(inputs: PathBuf, command: String) -> anyhow::Result<Place> {
    Ok(Place {
        corun: std::env::current_exe().context("finding corun's own program file")?,
        version: env!("CARGO_PKG_VERSION"),
        date: jiff::Zoned::now().strftime("%Y-%m-%d %H:%M %Z").to_string(),
        inputs,
        command,
    })
}

/// Puts parts of a study together.
fn merge(args: &Args) -> anyhow::Result<ExitCode> {
    let read = |path: &PathBuf| {
        let name = path.display().to_string();
        let text = result_of(path).map_err(|e| Usage(format!("cannot read {name}: {}", unread(path, &e))))?;
        Ok((name, text))
    };
    let parts: Vec<(String, String)> = args.parts.iter().map(read).collect::<Result<_, Usage>>()?;
    let (study, command) = corun_study::schedulers::merge(&parts).map_err(refused)?;
    make_folders(args)?;
    print(&if args.json { study.json() } else { study.text() })?;
    keep(args, study.files(&command))?;
    Ok(ExitCode::SUCCESS)
}

/// An error in the request is bad usage; everything else is a failure.
pub fn refused(error: StudyError) -> anyhow::Error {
    match error {
        StudyError::Usage(what) => Usage(what).into(),
        StudyError::NothingLeft { such_as } => {
            Usage(format!("nothing is left; --programs takes words of names such as `{such_as}`")).into()
        }
        error => error.into(),
    }
}

/// What the flags ask for.
fn wanted(args: &Args) -> anyhow::Result<Wanted> {
    Ok(Wanted {
        command: args.parts.iter().map(|part| word(part)).collect::<Result<_, Usage>>()?,
        programs: args.programs.clone(),
        interferers: args.interferers.clone(),
        policies: args.policies.clone(),
        groups: args.groups.clone(),
        figures: args.figures.clone(),
        repetitions: args.repetitions,
        quick: args.quick,
        more: more(args)?,
        after: args.after.as_deref().map(after).transpose()?,
        recordings: args.recordings.clone(),
        shard: args.shard,
    })
}

/// A word of a command.
fn word(word: &Path) -> Result<String, Usage> {
    let text = word.to_str().map(str::to_owned);
    text.ok_or_else(|| {
        Usage(format!("`{}` is not UTF-8, as a workload file must be; rename it", word.display()))
    })
}

/// The runs in --out, if these are to be added to them.
fn more(args: &Args) -> Result<Option<Earlier>, Usage> {
    let out = match (args.more, &args.out) {
        (false, _) => return Ok(None),
        (true, Some(out)) => out,
        (true, None) => {
            return Err(Usage("--more adds to an earlier result; name its folder with --out".into()))
        }
    };
    let place = out.join("result.json");
    let text = result_of(&place).map_err(|e| {
        let place = place.display();
        Usage(format!("--more adds to the runs in {place}: {e}; leave --more out the first time"))
    })?;
    Ok(Some(Earlier { place, text }))
}

/// The result of an earlier part of the study.
fn after(path: &Path) -> Result<Earlier, Usage> {
    let text = result_of(path)
        .map_err(|e| Usage(format!("cannot read {}: {}", path.display(), unread(path, &e))))?;
    Ok(Earlier { place: path.to_owned(), text })
}

/// Creates the requested folders. This happens only if nothing else is wrong: a refused user has nothing to
/// clean up.
fn make_folders(args: &Args) -> Result<(), Usage> {
    [&args.out, &args.recordings].into_iter().flatten().try_for_each(|folder| check_folder(folder))
}

/// The name and the text of a study file.
fn read(path: &Path) -> Result<(String, String), Usage> {
    if let Some(own) = own().find(|own| path == Path::new(own.name)) {
        return Ok((own.file.to_owned(), own.text.to_owned()));
    }
    let name = path.display().to_string();
    let text = text_of(path).map_err(|e| {
        let own: Vec<String> = own().map(|own| format!("`{}`", own.name)).collect();
        let own = own.join(", ");
        Usage(format!(
            "cannot read {name}: {}; the studies that corun brings along are {own}",
            unread(path, &e)
        ))
    })?;
    Ok((name, text))
}

/// Writes the files of a record into the named folder, if there is one.
fn keep(args: &Args, files: Files) -> anyhow::Result<()> {
    let Some(out) = &args.out else { return Ok(()) };
    for (name, text) in files {
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
    if !args.parts.is_empty() {
        command += " --";
        args.parts.iter().for_each(|word| command += &format!(" {}", word.display()));
    }
    command
}
