//! `corun study control`: what does control win, for whom, and who pays?

use super::{circumstances, command, keep, make_folders, only, only_of, stage, Args};
use crate::reading::{result_of, why};
use crate::usage::Usage;
use anyhow::Context;
use corun_linux::Root;
use corun_policy::ALL;
use corun_report::output::print;
use corun_report::progress::Progress;
use corun_study::control_file::{ControlStudy, DEFAULT};
use corun_study::control_outcome::{ControlOutcome, SCHEMA};
use corun_study::control_text::{files, json, text};
use corun_study::controlling::ControlLab;
use corun_study::programs::Catalogue;
use corun_study::tenant_cgroup;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::ExitCode;

pub(super) fn run(args: &Args, name: &str, written: &str, known: &Catalogue) -> anyhow::Result<ExitCode> {
    let whole = ControlStudy::parse(name, written, known).map_err(|e| Usage(e.to_string()))?;
    if let Some((line, what)) = unknown_policy(&whole, written) {
        return Err(Usage(format!("{name}:{line}: {what}")).into());
    }
    let mut study = whole.clone();
    select(&mut study, args)?;
    let before = match &args.after {
        Some(path) => Some((path, read_result(path)?)),
        None => None,
    };
    // What an earlier part has run is told, too.
    let told = if args.after.is_some() { &whole } else { &study };
    let root = Root::new("/");
    // Found out now rather than after the inputs were made.
    drop(tenant_cgroup::TenantCgroup::new(&root, "probe").map_err(Usage)?);
    make_folders(args)?;
    let (date, machine, kernel) = circumstances(&root)?;
    let (corun, stage) = stage(args)?;
    let mut outcome = ControlOutcome {
        schema: SCHEMA.into(),
        corun: env!("CARGO_PKG_VERSION").into(),
        date: Some(date),
        study: study.name.clone(),
        machine,
        kernel,
        layout: tenant_cgroup::layout(&root),
        backend: study.backend.clone(),
        ..ControlOutcome::default()
    };
    if let Some((path, before)) = before {
        outcome.go_on_from(before).map_err(|why| Usage(format!("{}: {why}", path.display())))?;
    }
    let folder = tempfile::tempdir().context("making a temporary folder")?;
    let progress = Progress::count("running", ControlLab::runs(&study), args.quiet);
    let mut kept = Ok(());
    ControlLab::new(&study, known, &stage, &corun, folder.path()).run(
        &mut outcome,
        &mut |what| {
            progress.step();
            progress.say(what);
        },
        // After every cell, so that a study that is ended early is not lost.
        &mut |outcome| kept = keep(args, || files(told, outcome, &command(args))),
    );
    drop(progress);
    match args.json {
        true => print(&json(&outcome))?,
        false => print(&text(told, &outcome, false))?,
    }
    kept?;
    anyhow::ensure!(outcome.left_frozen() == 0, "{} tenants were left frozen", outcome.left_frozen());
    anyhow::ensure!(!outcome.runs.is_empty(), "nothing could be run; the reasons are above");
    Ok(ExitCode::SUCCESS)
}

fn read_result(path: &Path) -> anyhow::Result<ControlOutcome> {
    let text = result_of(path).map_err(|e| Usage(format!("cannot read {}: {}", path.display(), why(&e))))?;
    Ok(serde_json::from_str(&text)
        .map_err(|e| Usage(format!("{} is no result of a study of control: {e}", path.display())))?)
}

/// The first policy that `corun control` does not know, with its line in the study's text: every run would fail alike.
fn unknown_policy(study: &ControlStudy, text: &str) -> Option<(usize, String)> {
    let is_known = |name: &str| ALL.iter().any(|entry| entry.name == name.replace('-', "_"));
    // Whoever writes flags first is left to `corun control`.
    let mut called = study.policies.iter().filter_map(|p| p.argv.first()).filter(|a| !a.starts_with('-'));
    let unknown = called.find(|name| !is_known(name))?;
    let says = |line: &str| line.trim_start().starts_with("argv") && line.contains(&format!("\"{unknown}\""));
    let line = text.lines().position(says).map_or(1, |at| at + 1);
    let known: Vec<&str> = ALL.iter().map(|entry| entry.name).collect();
    Some((line, format!("there is no policy `{unknown}`; name one of {}", known.join(", "))))
}

/// Leaves what the flags ask for.
fn select(study: &mut ControlStudy, args: &Args) -> anyhow::Result<()> {
    only_of(&mut study.groups, |group| &group.name, &args.groups, "group")?;
    let all = |of: &dyn Fn(&corun_study::control_file::Group) -> Vec<String>| -> Vec<String> {
        study.groups.iter().flat_map(of).collect::<BTreeSet<_>>().into_iter().collect()
    };
    let mut programs = all(&|g| g.cells.concat());
    let mut policies = all(&|g| g.policies.clone());
    only(&mut programs, &args.programs, "program")?;
    only(&mut policies, &args.policies, "policy")?;
    for group in &mut study.groups {
        group.cells.retain(|cell| cell.iter().all(|program| programs.contains(program)));
        // Everything is compared with the default.
        group.policies.retain(|policy| policy == DEFAULT || policies.contains(policy));
    }
    if args.quick {
        study.make_quick();
    }
    study.repetitions = if args.quick { 1 } else { args.repetitions.unwrap_or(study.repetitions) };
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use corun_study::control_file::{CONTROL, CONTROL_GUEST};

    #[test]
    fn a_policy_that_nobody_knows_is_named_with_its_line_before_anything_runs() {
        let own = Catalogue::own();
        let unknown = |text: &str| unknown_policy(&ControlStudy::parse("c.toml", text, &own).unwrap(), text);
        for shipped in [CONTROL, CONTROL_GUEST] {
            assert_eq!(unknown(shipped), None);
        }
        let slip = CONTROL.replace("[\"gang\", ", "[\"gangg\", ");
        let at = CONTROL.lines().position(|line| line.starts_with("argv = [\"gang\", ")).unwrap() + 1;
        let (line, what) = unknown(&slip).unwrap();
        assert_eq!(line, at);
        assert!(what.starts_with("there is no policy `gangg`; name one of observe, auto, gang, "), "{what}");
    }
}
