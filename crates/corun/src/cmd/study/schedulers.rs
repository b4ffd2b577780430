//! `corun study schedulers`: what papers show of their schedulers, on modelled machines.

use super::{command, keep, make_folders, Args};
use crate::usage::Usage;
use corun_report::json;
use corun_report::output::print;
use corun_report::progress::Progress;
use corun_sim::experiment::Failure;
use corun_study::schedulers::file::SchedulersStudy;
use corun_study::schedulers::outcome::{self, SchedulersOutcome};
use corun_study::schedulers::text::{files, text};
use std::path::Path;
use std::process::ExitCode;

/// Exit code when a checker of the engine fires: corun itself is wrong.
const BUG: u8 = 70;

pub(super) fn run(args: &Args, name: &str, written: &str) -> anyhow::Result<ExitCode> {
    let folder = args.study.parent().unwrap_or(Path::new(""));
    let mut study = SchedulersStudy::parse(name, written, folder).map_err(|e| Usage(e.to_string()))?;
    select(&mut study, args)?;
    make_folders(args)?;
    let progress = Progress::count("simulating", outcome::scenarios(&study) as u64, args.quiet);
    let figures = outcome::run(&study, folder, &|| progress.step());
    drop(progress);
    let figures = match figures {
        Ok(figures) => figures,
        Err(Failure::Scenario(bad)) => return Err(Usage(bad.to_string()).into()),
        Err(bug @ Failure::Bug { .. }) => {
            eprintln!("corun: {bug}");
            return Ok(ExitCode::from(BUG));
        }
    };
    let outcome = SchedulersOutcome {
        schema: outcome::SCHEMA.into(),
        corun: env!("CARGO_PKG_VERSION").into(),
        study: study.name,
        about: study.about,
        figures,
    };
    match args.json {
        true => print(&json::indented(&outcome))?,
        false => print(&text(&outcome))?,
    }
    keep(args, || files(&outcome, &command(args)))?;
    Ok(ExitCode::SUCCESS)
}

/// Leaves what the flags ask for: what is quick is the first of what was named.
fn select(study: &mut SchedulersStudy, args: &Args) -> anyhow::Result<()> {
    only(study, args)?;
    if args.quick {
        study.make_quick();
    }
    if let Some(n) = args.repetitions {
        study.figures.iter_mut().for_each(|f| *f.repetitions.get_mut() = n.into());
    }
    Ok(())
}

/// Leaves what was asked for: figures, and of them groups and programs.
fn only(study: &mut SchedulersStudy, args: &Args) -> anyhow::Result<()> {
    super::only_of(&mut study.figures, |f| f.name.as_ref(), &args.figures, "figure")?;
    if args.programs.is_empty() {
        return Ok(());
    }
    let known = |name: &String| {
        let groups = study.figures.iter().flat_map(|f| &f.groups).filter(|g| g.size.is_none());
        groups.flat_map(|g| &g.of).any(|p| p.as_ref() == name)
    };
    if let Some(unknown) = args.programs.iter().find(|p| !known(p)) {
        return Err(Usage(format!(
            "no figure has pairs of `{unknown}` and another; --programs is for the first of a pair"
        ))
        .into());
    }
    for figure in &mut study.figures {
        for group in &mut figure.groups {
            group.of.retain(|p| group.size.is_some() || args.programs.contains(p.as_ref()));
        }
        figure.groups.retain(|g| !g.of.is_empty());
    }
    study.figures.retain(|f| !f.groups.is_empty());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use corun_study::schedulers::file::SCHEDULERS;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    #[test]
    fn what_is_quick_is_the_first_of_what_was_named() {
        let line = "study schedulers --quick --figures pact16-fig9 --programs facesim";
        let args = Line::parse_from(line.split(' ')).args;
        let mut study = SchedulersStudy::parse("schedulers", SCHEDULERS, Path::new("")).unwrap();
        select(&mut study, &args).unwrap();
        let [figure] = &study.figures[..] else { panic!("{:?}", study.figures) };
        assert_eq!(figure.groups.len(), 1);
        let of: Vec<&String> = figure.groups[0].of.iter().map(AsRef::as_ref).collect();
        assert_eq!(of, ["facesim"]);
    }
}
