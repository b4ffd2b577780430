//! The study of control (`corun.control-study/1`, `studies/control.toml`): the gains of each policy, for
//! whom, and who pays.
//!
//! | file | holds |
//! | --- | --- |
//! | [`mod@file`] | the study as written |
//! | [`runs`], [`tenant_cgroup`] | the method and the runs; a tenant as a cgroup of its own |
//! | [`outcome`] | the result, and the metrics of a cell |
//! | [`text`] | tables and record |
//! | [`facts`] | the facts that documents may quote |

pub mod facts;
pub mod file;
pub mod outcome;
pub mod runs;
pub mod tenant_cgroup;
pub mod text;

use crate::programs::Catalogue;
use crate::study::{named, only, only_of, Files, Listener, Place, Study, StudyError, StudyFile, Wanted};
use corun_linux::Root;
use corun_policy::ALL;
use file::{ControlStudy, Group, DEFAULT};
use outcome::{ControlOutcome, SCHEMA};
use runs::ControlRuns;
use std::collections::BTreeSet;
use std::path::PathBuf;
use tenant_cgroup::TenantCgroup;

struct Control {
    study: ControlStudy,
    /// The study for the tables. It includes the cells of an earlier part.
    told: ControlStudy,
    known: Catalogue,
    before: Option<(PathBuf, ControlOutcome)>,
    outcome: ControlOutcome,
}

/// Opens a study of this kind.
///
/// # Errors
/// The file has an error, or lacks what the user asked for.
pub fn open(file: &StudyFile<'_>, wanted: &Wanted) -> Result<Box<dyn Study>, StudyError> {
    let known = Catalogue::own();
    let whole = ControlStudy::parse(file.name, file.text, &known)?;
    if let Some((line, what)) = unknown_policy(&whole, file.text) {
        return Err(StudyError::Usage(format!("{}:{line}: {what}", file.name)));
    }
    let mut study = whole.clone();
    select(&mut study, wanted)?;
    let before = wanted.to_go_on_from("a study of control")?;
    let told = if before.is_some() { whole } else { study.clone() };
    Ok(Box::new(Control { study, told, known, before, outcome: ControlOutcome::default() }))
}

impl Study for Control {
    fn runs(&self) -> u64 {
        ControlRuns::runs(&self.study)
    }

    fn run(&mut self, place: &Place, listener: &mut Listener<'_>) -> Result<(), StudyError> {
        let root = Root::new("/");
        // Fails now rather than after the inputs were made.
        drop(TenantCgroup::new(&root, "probe").map_err(StudyError::Usage)?);
        let at = place.circumstances()?;
        let setup = place.setup()?;
        self.outcome = ControlOutcome {
            head: place.record_head(SCHEMA, &at),
            study: self.study.name.clone(),
            layout: tenant_cgroup::layout(&root),
            backend: self.study.backend.clone(),
            ..ControlOutcome::default()
        };
        if let Some((path, before)) = self.before.take() {
            let refused = |why| StudyError::Usage(format!("{}: {why}", path.display()));
            self.outcome.go_on_from(before).map_err(refused)?;
        }
        let folder = place.scratch()?;
        let told = &self.told;
        let Listener { done, keep } = listener;
        ControlRuns::new(&self.study, &self.known, &setup, &place.corun, folder.path()).run(
            &mut self.outcome,
            &mut |what| done(Some(what)),
            &mut |outcome| keep(named(text::files(told, outcome, &place.command))),
        );
        Ok(())
    }

    fn json(&self) -> String {
        text::json(&self.outcome)
    }

    fn text(&self) -> String {
        text::text(&self.told, &self.outcome, false)
    }

    fn files(&self, command: &str) -> Files {
        named(text::files(&self.told, &self.outcome, command))
    }

    fn fault(&self) -> Result<(), StudyError> {
        let failed = |what: String| Err(StudyError::Failed(what));
        match self.outcome.left_frozen() {
            0 if self.outcome.runs.is_empty() => failed("nothing could be run; the reasons are above".into()),
            0 => Ok(()),
            n => failed(format!("{n} tenants were left frozen")),
        }
    }
}

/// The first policy that `corun control` does not know, with its line in the study's text. Every run with it would fail.
fn unknown_policy(study: &ControlStudy, text: &str) -> Option<(usize, String)> {
    let is_known = |name: &str| ALL.iter().any(|entry| entry.name == name.replace('-', "_"));
    // `corun control` itself checks arguments that begin with a flag.
    let mut called = study.policies.iter().filter_map(|p| p.argv.first()).filter(|a| !a.starts_with('-'));
    let unknown = called.find(|name| !is_known(name))?;
    let says = |line: &str| line.trim_start().starts_with("argv") && line.contains(&format!("\"{unknown}\""));
    let line = text.lines().position(says).map_or(1, |at| at + 1);
    let known: Vec<&str> = ALL.iter().map(|entry| entry.name).collect();
    Some((line, format!("there is no policy `{unknown}`; name one of {}", known.join(", "))))
}

/// Keeps only what the user asked for.
fn select(study: &mut ControlStudy, wanted: &Wanted) -> Result<(), StudyError> {
    only_of(&mut study.groups, |group| &group.name, &wanted.groups, "group")?;
    let all = |of: &dyn Fn(&Group) -> Vec<String>| -> Vec<String> {
        study.groups.iter().flat_map(of).collect::<BTreeSet<_>>().into_iter().collect()
    };
    let mut programs = all(&|g| g.cells.concat());
    let mut policies = all(&|g| g.policies.clone());
    only(&mut programs, &wanted.programs, "program")?;
    only(&mut policies, &wanted.policies, "policy")?;
    for group in &mut study.groups {
        group.cells.retain(|cell| cell.iter().all(|program| programs.contains(program)));
        // The default always stays, since all other policies are compared with it.
        group.policies.retain(|policy| policy == DEFAULT || policies.contains(policy));
    }
    if wanted.quick {
        study.make_quick();
    }
    study.repetitions = if wanted.quick { 1 } else { wanted.repetitions.unwrap_or(study.repetitions) };
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use file::{CONTROL, CONTROL_GUEST};

    #[test]
    fn an_unknown_policy_is_named_with_its_line_before_anything_runs() {
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
