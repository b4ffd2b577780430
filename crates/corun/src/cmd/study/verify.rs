//! `corun study verify`: are short runs judged rightly?

use super::{circumstances, command, earlier, keep, make_folders, only_of, stage, Args};
use crate::usage::Usage;
use anyhow::Context;
use corun_linux::sched::autogroups_are_on;
use corun_linux::Root;
use corun_report::json;
use corun_report::output::print;
use corun_report::progress::Progress;
use corun_study::record::fair_shares;
use corun_study::verifying::{Bench, VerifyOutcome, VerifyStudy, SCHEMA};
use corun_study::verifying_text::{files, text};
use std::process::ExitCode;

pub(super) fn run(args: &Args, name: &str, written: &str) -> anyhow::Result<ExitCode> {
    let mut study = VerifyStudy::parse(name, written).map_err(|e| Usage(e.to_string()))?;
    only_of(&mut study.programs, |p| &p.name, &args.programs, "program")?;
    only_of(&mut study.corunners, |c| &c.name, &args.interferers, "co-runner")?;
    study.repetitions = args.repetitions.unwrap_or(study.repetitions);
    let found = earlier::<VerifyOutcome>(args)?;
    make_folders(args)?;
    let root = Root::new("/");
    let (corun, stage) = stage(args)?;
    let (date, machine, kernel) = circumstances(&root)?;
    let mut outcome = VerifyOutcome {
        schema: SCHEMA.into(),
        corun: env!("CARGO_PKG_VERSION").into(),
        date: Some(date),
        machine,
        kernel,
        shares: fair_shares(autogroups_are_on(&root)).into(),
        max_disturbance: study.max_disturbance,
        noticeable: study.noticeable,
        ..VerifyOutcome::default()
    };
    if let Some(found) = found {
        if let Some(how) = outcome.differs_from(&found) {
            return Err(super::made_otherwise(&how).into());
        }
        outcome = found;
    }
    let folder = tempfile::tempdir().context("making a temporary folder")?;
    let progress = Progress::count("running", Bench::runs(&study), args.quiet);
    Bench::new(&study, &stage, &corun, folder.path()).run(&mut outcome, &mut |what| {
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
