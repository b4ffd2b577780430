//! `corun study`: a whole experiment on this machine: matrix, repetitions, tables, record.

use crate::cli::Usage;
use anyhow::Context;
use corun_linux::cpustat::CpuStat;
use corun_linux::sched::autogroups_are_on;
use corun_linux::{topology, Root};
use corun_report::describe;
use corun_report::output::write_file;
use corun_report::progress::Progress;
use corun_study::pairs::{Pairs, PREDICT};
use corun_study::predicting::{Lab, PredictOutcome, SCHEMA};
use corun_study::predicting_text::{files, text};
use corun_study::programs::{Catalogue, Stage};
use corun_study::record::fair_shares;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  corun study predict --out studies/runs/today      how good are predictions made in the first third of a run?
  corun study predict --programs x264,cg-active --repetitions 1
  corun study my-study.toml                         a study file of your own (schema corun.pairs/1)

The machine should be quiet. Programs that are not installed are skipped, with the package that has them.";

/// How long one look at the machine takes before a run.
const LOOK: Duration = Duration::from_millis(150);

/// Run a whole experiment on this machine, and keep its tables
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// `predict`, or a study file
    study: PathBuf,
    /// Only these programs, with commas
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    programs: Vec<String>,
    /// Only these interferers, with commas
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    interferers: Vec<String>,
    /// Other than the study's number of repetitions
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    repetitions: Option<u32>,
    /// A folder for the programs' inputs, used again by a later study
    #[arg(long, value_name = "DIR", default_value = "out/inputs")]
    inputs: PathBuf,
    /// Keep the run in this folder
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Show no progress
    #[arg(long, short)]
    quiet: bool,
}

/// Runs the verb.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let known = Catalogue::own();
    let mut study = read(&args.study, &known)?;
    let only = |names: &mut Vec<String>, wanted: &[String], what: &str| -> anyhow::Result<()> {
        if let Some(unknown) = wanted.iter().find(|w| !names.contains(w)) {
            let all = names.join(", ");
            return Err(Usage(format!("the study has no {what} `{unknown}`; it has {all}")).into());
        }
        if !wanted.is_empty() {
            names.retain(|n| wanted.contains(n));
        }
        Ok(())
    };
    only(&mut study.programs, &args.programs, "program")?;
    only(&mut study.interferers, &args.interferers, "interferer")?;
    study.repetitions = args.repetitions.unwrap_or(study.repetitions);
    let root = Root::new("/");
    let machine = topology::read_machine(&root).context("reading the machine's shape")?;
    let corun = std::env::current_exe().context("finding corun's own program file")?;
    let stage = Stage::new(&args.inputs, &corun, corun_study::live::pace())
        .with_context(|| format!("making {}", args.inputs.display()))?;
    let mut outcome = PredictOutcome {
        schema: SCHEMA.into(),
        corun: env!("CARGO_PKG_VERSION").into(),
        date: Some(jiff::Zoned::now().strftime("%Y-%m-%d %H:%M %Z").to_string()),
        machine: describe(&machine),
        kernel: root.read("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned(),
        shares: fair_shares(autogroups_are_on(&root)).into(),
        ..PredictOutcome::default()
    };
    let folder = tempfile::tempdir().context("making a temporary folder")?;
    let mut foreign = || busy(&root).unwrap_or(0.0);
    let progress = Progress::count("running", Lab::runs(&study), args.quiet);
    Lab::new(&study, &known, &stage, &corun, folder.path(), &mut foreign).run(&mut outcome, &mut |what| {
        progress.step();
        progress.say(what);
    });
    drop(progress);
    print!("{}", text(&outcome, false));
    if let Some(out) = &args.out {
        std::fs::create_dir_all(out).with_context(|| format!("making {}", out.display()))?;
        for (name, text) in files(&outcome, &command(&args)) {
            write_file(&out.join(name), text.as_bytes())?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn read(path: &Path, known: &Catalogue) -> anyhow::Result<Pairs> {
    let (name, text) = if path == Path::new("predict") {
        ("studies/predict.toml".to_owned(), PREDICT.to_owned())
    } else {
        let name = path.display().to_string();
        let text = std::fs::read_to_string(path)
            .map_err(|e| Usage(format!("cannot read {name}: {e}; name `predict` or a study file")))?;
        (name, text)
    };
    Ok(Pairs::parse(&name, &text, known).map_err(|e| Usage(e.to_string()))?)
}

/// Share of the machine's CPU time that is in use now.
fn busy(root: &Root) -> Option<f64> {
    let before = CpuStat::read(root).ok()?.total().busy_ns();
    std::thread::sleep(LOOK);
    let after = CpuStat::read(root).ok()?.total().busy_ns();
    let cpus = std::thread::available_parallelism().map_or(1, usize::from) as f64;
    Some(after.saturating_sub(before) as f64 / (LOOK.as_nanos() as f64 * cpus))
}

/// The command that makes the same record again.
fn command(args: &Args) -> String {
    let mut command = format!("corun study {}", args.study.display());
    for (flag, names) in [("programs", &args.programs), ("interferers", &args.interferers)] {
        if !names.is_empty() {
            command += &format!(" --{flag} {}", names.join(","));
        }
    }
    if let Some(n) = args.repetitions {
        command += &format!(" --repetitions {n}");
    }
    command
}
