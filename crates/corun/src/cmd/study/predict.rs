//! `corun study predict`: how good are predictions made in the first third of a run?

use super::{circumstances, command, earlier, keep, make_folders, only, stage, Args};
use crate::usage::Usage;
use anyhow::Context;
use corun_linux::cpustat::CpuStat;
use corun_linux::sched::autogroups_are_on;
use corun_linux::Root;
use corun_report::json;
use corun_report::output::print;
use corun_report::progress::Progress;
use corun_study::pairs::Pairs;
use corun_study::predicting::{Lab, PredictOutcome, SCHEMA};
use corun_study::predicting_text::{files, text};
use corun_study::programs::Catalogue;
use corun_study::record::fair_shares;
use std::process::ExitCode;
use std::time::Duration;

/// How long one look at the machine takes before a run.
const LOOK: Duration = Duration::from_millis(150);

pub(super) fn run(args: &Args, name: &str, written: &str, known: &Catalogue) -> anyhow::Result<ExitCode> {
    let mut study = Pairs::parse(name, written, known).map_err(|e| Usage(e.to_string()))?;
    only(&mut study.programs, &args.programs, "program")?;
    only(&mut study.interferers, &args.interferers, "interferer")?;
    study.repetitions = args.repetitions.unwrap_or(study.repetitions);
    let found = earlier::<PredictOutcome>(args)?;
    make_folders(args)?;
    let root = Root::new("/");
    let (corun, stage) = stage(args)?;
    let stage = stage.with_length(study.length);
    let (date, machine, kernel) = circumstances(&root)?;
    let mut outcome = PredictOutcome {
        schema: SCHEMA.into(),
        corun: env!("CARGO_PKG_VERSION").into(),
        date: Some(date),
        machine,
        kernel,
        known_to: study.known_to,
        restarting: study.restarting.clone(),
        shares: fair_shares(autogroups_are_on(&root)).into(),
        ..PredictOutcome::default()
    };
    if let Some(found) = found {
        if let Some(how) = outcome.differs_from(&found) {
            return Err(super::made_otherwise(&how).into());
        }
        outcome = found;
    }
    let folder = tempfile::tempdir().context("making a temporary folder")?;
    let mut foreign = || busy(&root).unwrap_or(0.0);
    let progress = Progress::count("running", Lab::runs(&study), args.quiet);
    let lab = Lab::new(&study, known, &stage, &corun, folder.path(), &mut foreign);
    lab.recording(args.recordings.as_deref()).run(&mut outcome, &mut |what| {
        progress.step();
        progress.say(what);
    });
    drop(progress);
    match args.json {
        true => print(&json::indented(&outcome))?,
        false => print(&text(&outcome, false))?,
    }
    keep(args, || files(&outcome, &command(args)))?;
    Ok(ExitCode::SUCCESS)
}

/// Share of the machine's CPU time that is in use now.
fn busy(root: &Root) -> Option<f64> {
    let before = CpuStat::read(root).ok()?.total().busy_ns();
    std::thread::sleep(LOOK);
    let after = CpuStat::read(root).ok()?.total().busy_ns();
    let cpus = std::thread::available_parallelism().map_or(1, usize::from) as f64;
    Some(after.saturating_sub(before) as f64 / (LOOK.as_nanos() as f64 * cpus))
}
