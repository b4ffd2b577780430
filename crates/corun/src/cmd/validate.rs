//! `corun validate`: the same programs live and modelled on this machine, and how far the model is off.

use crate::reading::{result_of, text_of, why};
use crate::usage::{check_files, check_folder, Usage};
use anyhow::Context;
use corun_linux::probe::LiveOptions;
use corun_linux::sched::autogroups_are_on;
use corun_linux::target::Subject;
use corun_linux::watcher::Watcher;
use corun_linux::{cpustat, Root};
use corun_model::Linux;
use corun_report::describe;
use corun_report::output::{print, write_file};
use corun_report::progress::Progress;
use corun_sim::machine_file::MachineModel;
use corun_study::this_machine::this_machine;
use corun_study::validate::cell::{Cell, Half, Setting};
use corun_study::validate::cell_outcome::{CellOutcome, Live};
use corun_study::validate::file::{Study, VALIDATE};
use corun_study::validate::outcome::{self, MachineNote, Outcome};
use corun_study::validate::real::RealOutcome;
use corun_study::validate::{fit, live, modelled, record, text, verdict};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  corun validate --quick                       every program once, two repetitions: some two minutes
  corun validate --out out/validate            the whole published study, some 25 minutes, kept
  corun validate --cells 'lock spin 1ms'       the cells whose names have all of these words
  corun validate --live result.json --fit-only model a recorded run again, its fit half only

The machine should be quiet: a live run beside which others used more than a few percent of it is made again. \
With root the ledgers are exact (eBPF); without, they come from schedstat.

Exit status: 0 done, 2 is bad usage, 1 a failure of corun's own.";

/// Hold the modelled machine against this one: slowdowns and ledgers, live and modelled
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
    let mut study = read(args.study.as_deref())?;
    // Words and halves are of the grid.
    if args.only == Part::Grid || args.quick || args.fit_only || args.cells.is_some() {
        study.real.clear();
    }
    if args.quick {
        study.repetitions = study.repetitions.min(2);
    }
    let root = Root::new("/");
    let model = this_machine(&root).context("reading the machine's shape")?;
    let recorded = args.live.as_deref().map(recorded).transpose()?;
    let cells = chosen(&args, &study, recorded.as_ref())?;
    check_files(&args.json)?;
    // Made only when nothing else is amiss.
    args.out.as_deref().map(check_folder).transpose()?;
    let LiveResults { lives, mut real, mut note, date } = match &recorded {
        Some(recorded) => {
            let of =
                |cell: &Cell| recorded.cells.iter().find(|c| c.cell == *cell).and_then(|c| c.live.clone());
            LiveResults {
                lives: cells.iter().map(of).collect(),
                // What is not to be looked at now is not looked at in a record either.
                real: if study.real.is_empty() { Vec::new() } else { recorded.real.clone() },
                note: recorded.machine.clone(),
                date: recorded.date.clone(),
            }
        }
        None => run_live(&args, &study, &cells, &root, &model)?,
    };
    note.assumed = model.assumed.iter().map(|&a| a.to_owned()).collect();
    let mut fitted = Vec::new();
    let mut models = vec![None; cells.len()];
    if !args.live_only {
        fitted = fit(&args, &study, &cells, &lives, &model, &note.setting)?;
        note.setting.newidle_ratio = fit::best(&fitted).unwrap_or(note.setting.newidle_ratio);
        let progress = Progress::count("modelling", cells.len() as u64, args.quiet);
        let all = modelled::run(&study, &cells, &model, &note.setting, &|| progress.step())?;
        models = all.into_iter().map(Some).collect();
        let progress = Progress::count("fitting real programs", real.len() as u64, args.quiet);
        for program in &mut real {
            program.model(&study, &model, &note.setting)?;
            progress.step();
        }
    }
    let cells: Vec<CellOutcome> = cells
        .into_iter()
        .zip(lives)
        .zip(models)
        .map(|((cell, live), modelled)| CellOutcome { cell, live, modelled })
        .collect();
    let outcome = Outcome {
        schema: outcome::SCHEMA.into(),
        corun: env!("CARGO_PKG_VERSION").into(),
        date,
        study: study.name.clone(),
        part: part(&args),
        machine: note,
        fitted,
        summary: verdict::summaries(&cells, &real),
        cells,
        real,
    };
    write(&args, &outcome)?;
    Ok(ExitCode::SUCCESS)
}

fn read(path: Option<&Path>) -> anyhow::Result<Study> {
    let (name, text) = match path {
        None => ("studies/validate.toml".to_owned(), VALIDATE.to_owned()),
        Some(path) => {
            let name = path.display().to_string();
            let text = text_of(path).map_err(|e| Usage(format!("cannot read {name}: {}", why(&e))))?;
            (name, text)
        }
    };
    Ok(Study::parse(&name, &text).map_err(|e| Usage(e.to_string()))?)
}

fn recorded(path: &Path) -> anyhow::Result<Outcome> {
    let bad = |what: String| Usage(format!("cannot use {}: {what}", path.display()));
    let text = result_of(path).map_err(|e| bad(why(&e)))?;
    let no_result = |what| bad(format!("{what}; name the JSON of an earlier `corun validate`"));
    Ok(outcome::parse(&text).map_err(no_result)?)
}

fn chosen(args: &Args, study: &Study, recorded: Option<&Outcome>) -> anyhow::Result<Vec<Cell>> {
    if args.only == Part::Real {
        return Ok(Vec::new());
    }
    let mut cells = if args.quick { study.quick_cells() } else { study.cells() };
    if let Some(words) = &args.cells {
        cells.retain(|c| c.matches(words));
    }
    if let Some(recorded) = recorded {
        cells.retain(|c| recorded.cells.iter().any(|r| r.cell == *c && r.live.is_some()));
    }
    if args.fit_only {
        cells.retain(|c| c.half == Half::Fit);
    }
    if cells.is_empty() {
        return Err(Usage(
            "no cell is left; --cells takes words of names such as `barrier-spin-1ms + persistent x2`".into(),
        )
        .into());
    }
    Ok(cells)
}

fn part(args: &Args) -> String {
    let whole = match (args.only, args.quick) {
        (Part::Real, _) => "real programs",
        (_, true) => "quick",
        (Part::Grid, _) => "whole grid",
        (Part::All, _) => "whole grid and real programs",
    };
    let filter = args.cells.as_ref().map(|w| format!(", cells `{w}`")).unwrap_or_default();
    format!("{whole}{filter}{}", if args.fit_only { ", fit half" } else { "" })
}

/// Tries the values of the number that is fitted, on the cells of the fit half that were run live.
fn fit(
    args: &Args,
    study: &Study,
    cells: &[Cell],
    lives: &[Option<Live>],
    model: &MachineModel,
    setting: &Setting,
) -> anyhow::Result<Vec<fit::Tried>> {
    let slowdown = |live: &Option<Live>| live.as_ref().and_then(Live::slowdown);
    let known: Vec<(Cell, f64)> = cells
        .iter()
        .zip(lives)
        .filter_map(|(cell, live)| Some((cell.clone(), slowdown(live)?)))
        .filter(|(cell, _)| cell.half == Half::Fit)
        .collect();
    let progress = Progress::count("fitting", (known.len() * fit::RATIOS.len()) as u64, args.quiet);
    Ok(fit::newidle_ratio(study, &known, model, setting, &|| progress.step())?)
}

/// What was measured, now or in an earlier run.
struct LiveResults {
    lives: Vec<Option<Live>>,
    real: Vec<RealOutcome>,
    note: MachineNote,
    date: Option<String>,
}

fn run_live(
    args: &Args,
    study: &Study,
    cells: &[Cell],
    root: &Root,
    model: &MachineModel,
) -> anyhow::Result<LiveResults> {
    let date = jiff::Zoned::now().strftime("%Y-%m-%d %H:%M %Z").to_string();
    let loops_per_ms = corun_study::pace::pace();
    let (mut watcher, _) = Watcher::start(root, LiveOptions::new(Subject::All), None)?;
    let kernel = root.read("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned();
    let setting = Setting {
        // A kernel from before EEVDF, or with a name of its own, is modelled as the usual one.
        kernel: Linux::of(&kernel)
            .filter(|l| *l >= Linux::FIRST_EEVDF)
            .map(|_| kernel.clone())
            .unwrap_or_default(),
        grouped: autogroups_are_on(root),
        newidle_ratio: 512,
        background: live::background(&mut watcher)?,
    };
    let note = MachineNote {
        shape: describe(&model.machine),
        cpus: model.machine.cpu_count() as u64,
        processor: processor(root),
        kernel,
        is_virtual: cpustat::is_virtual(root),
        setting,
        source: Some(watcher.source().name().into()),
        loops_per_ms: Some(loops_per_ms),
        assumed: Vec::new(),
    };
    let corun = std::env::current_exe().context("finding corun's own program file")?;
    let runs = live::Arm::runs(study, cells) + study.real.len() as u64 * live::Arm::real_runs(study);
    let progress = Progress::count("running live", runs, args.quiet);
    let mut done = |what: &str| {
        progress.step();
        progress.say(what);
    };
    let mut arm = live::Arm::new(study, &corun, loops_per_ms, &mut watcher)?;
    let lives = arm.run(cells, &mut done)?;
    let real: Result<Vec<RealOutcome>, _> = study.real.iter().map(|p| arm.real(p, &mut done)).collect();
    Ok(LiveResults { lives: lives.into_iter().map(Some).collect(), real: real?, note, date: Some(date) })
}

fn processor(root: &Root) -> String {
    let text = root.read("/proc/cpuinfo").unwrap_or_default();
    let name = text.lines().find_map(|l| l.strip_prefix("model name")?.split_once(':'));
    name.map_or("unknown".into(), |(_, name)| name.trim().to_owned())
}

fn write(args: &Args, outcome: &Outcome) -> anyhow::Result<()> {
    if let Some(folder) = &args.out {
        for (name, text) in record::files(outcome, &command(args)) {
            write_file(&folder.join(name), text.as_bytes())?;
        }
    }
    if let Some(path) = &args.json {
        write_file(path, outcome::json(outcome).as_bytes())?;
    }
    if args.json.as_deref() != Some(Path::new("-")) {
        print(&text::terminal(outcome, args.fit_only))?;
    }
    Ok(())
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
