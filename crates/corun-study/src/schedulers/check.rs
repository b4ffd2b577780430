//! Reads and checks a study of schedulers. A bad file is refused in one sentence with file, line and remedy.

use super::file::{Figure, PolicyUse, SchedulersStudy, Shows, SCHEMA};
use super::scenarios::{Cell, RelativeFiles};
use crate::study_file::{read, BadStudy};
use corun_model::workload::line_of;
use corun_sim::scenario::{BadScenario, Scenario};
use std::collections::BTreeSet;
use std::ops::Range;
use std::path::Path;

/// A refusal: the place in the text, and the reason.
type Refusal = (Range<usize>, String);

impl SchedulersStudy {
    /// Reads a study's text. Errors call the file `file`. Other files are looked for in `folder`.
    ///
    /// # Errors
    /// [`BadStudy`] with file, line and remedy.
    pub fn parse(file: &str, text: &str, folder: &Path) -> Result<SchedulersStudy, BadStudy> {
        let at = |line, what: String| BadStudy { file: file.to_owned(), line, what };
        let study: SchedulersStudy = read(file, text)?;
        if study.schema.as_ref() != SCHEMA {
            let what = format!("schema is `{}`, this corun reads `{SCHEMA}`", study.schema.as_ref());
            return Err(at(line_of(text, "schema"), what));
        }
        if study.figures.is_empty() {
            return Err(at(1, "there is no [[figure]]; give one".into()));
        }
        let mut names = BTreeSet::new();
        for figure in &study.figures {
            let line = |span: Range<usize>| text[..span.start.min(text.len())].matches('\n').count() + 1;
            if !names.insert(figure.name.as_ref()) {
                let what =
                    format!("there is another figure `{}`; give each its own name", figure.name.as_ref());
                return Err(at(line(figure.name.span()), what));
            }
            figure.check().map_err(|(span, what)| at(line(span), what))?;
            // An error in the figure's machine, for example, shows only when a program is tried on it.
            let of_figure = |at_fault: &str| {
                let values: Vec<String> =
                    at_fault.split('"').skip(1).step_by(2).map(|value| format!("\"{value}\"")).collect();
                let mut keys = text.lines().enumerate().skip(line(figure.name.span()));
                let has_one = |l: &str| values.iter().any(|value| l.contains(value));
                let is_it = |(_, l): &(usize, &str)| l.starts_with('[') || has_one(l);
                keys.find(is_it).filter(|(_, l)| !l.starts_with('[')).map(|(i, _)| i + 1)
            };
            study.check_scenarios(figure, folder).map_err(|bad| match bad {
                Refused::Here(span, what) => at(line(span), what),
                Refused::Made { line: made, span, what } => {
                    at(of_figure(&made).unwrap_or_else(|| line(span)), what)
                }
                Refused::There(bad) => BadStudy { file: bad.file, line: bad.line, what: bad.what },
            })?;
        }
        Ok(study)
    }

    /// Checks that every program alone, and every policy, makes a valid scenario.
    fn check_scenarios(&self, figure: &Figure, folder: &Path) -> Result<(), Refused> {
        let near = RelativeFiles(folder);
        let try_one = |cell: &Cell, policy: Option<&PolicyUse>, span: Range<usize>| {
            let text = self.scenario(figure, policy, &cell.tenants);
            Scenario::parse(figure.name.as_ref(), &text, &near).map_err(|bad: BadScenario| {
                match bad.file == *figure.name.as_ref() {
                    true => {
                        let line = text.lines().nth(bad.line.saturating_sub(1)).unwrap_or_default();
                        Refused::Made { line: line.to_owned(), span, what: bad.what }
                    }
                    false => Refused::There(bad),
                }
            })
        };
        for group in &figure.groups {
            for name in group.of.iter().chain(&group.with) {
                let scenario = try_one(&Cell::alone(name.as_ref()), None, name.span())?;
                if figure.shows == Shows::Energy && scenario.machine.power.is_none() {
                    let what = format!("the machine `{}` has no [power]; give its file one", figure.machine);
                    return Err(Refused::Here(figure.name.span(), what));
                }
            }
            let cells = group.cells();
            let first = cells.first().ok_or_else(|| {
                Refused::Here(
                    figure.name.span(),
                    format!("the group `{}` has no program; name some", group.name),
                )
            })?;
            for policy in &figure.policies {
                for (of, by) in &policy.instead {
                    let known = |name: &toml::Spanned<String>| name.as_ref() == of.as_ref();
                    if !figure.groups.iter().any(|g| g.of.iter().chain(&g.with).any(known)) {
                        let what = format!(
                            "`{}` is no program of `{}`, so that `{by}` cannot run instead; name one that it has",
                            of.as_ref(),
                            figure.name.as_ref()
                        );
                        return Err(Refused::Here(of.span(), what));
                    }
                    try_one(&Cell::alone(by), None, of.span())?;
                }
                let cell = Cell { tenants: policy.in_place(&first.tenants) };
                try_one(&cell, Some(policy), policy.name.span())?;
            }
        }
        Ok(())
    }
}

enum Refused {
    /// At this place in the study.
    Here(Range<usize>, String),
    /// In this line of a scenario that was made from the study, for the entry at this place.
    Made { line: String, span: Range<usize>, what: String },
    /// In another file.
    There(BadScenario),
}

impl Figure {
    fn check(&self) -> Result<(), Refusal> {
        let refuse = |span: Range<usize>, what: String| Err((span, what));
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        let name = self.name.as_ref();
        if name.is_empty() || !name.chars().all(is_plain) {
            return refuse(
                self.name.span(),
                format!("`{name}` names a file; use letters, digits and hyphens"),
            );
        }
        if !(1..=1000).contains(self.repetitions.as_ref()) {
            let what = format!("repetitions is {}; give 1 to 1000", self.repetitions.as_ref());
            return refuse(self.repetitions.span(), what);
        }
        if self.shows == Shows::Energy && self.duration.is_some() {
            let what = format!("`{name}` shows energy, which is of whole programs; leave `duration` out");
            return refuse(self.name.span(), what);
        }
        if self.policies.is_empty() || self.groups.is_empty() {
            return refuse(self.name.span(), format!("`{name}` needs a policy and a group"));
        }
        for (i, policy) in self.policies.iter().enumerate() {
            if self.policies[..i].iter().any(|p| p.name == policy.name) {
                let what = format!("there is another policy `{}` in `{name}`", policy.name.as_ref());
                return refuse(policy.name.span(), what + "; give each its own name");
            }
        }
        for group in &self.groups {
            if let Some(size) = &group.size {
                let most = group.of.len() + group.with.len();
                let n = *size.as_ref();
                if n <= group.with.len() || n > most {
                    let what = format!("size is {n}; give {} to {most}", group.with.len() + 1);
                    return refuse(size.span(), what);
                }
            }
            if self.shows == Shows::Pairs && group.cells().iter().any(|c| c.tenants.len() != 2) {
                let what = format!("the group `{}` of `{name}` has no pairs; name one in `with`", group.name);
                return refuse(self.name.span(), what);
            }
        }
        let policies: Vec<&str> = self.policies.iter().map(|p| p.name.as_ref().as_str()).collect();
        let groups: Vec<&str> = self.groups.iter().map(|g| g.name.as_str()).collect();
        let programs: Vec<&str> =
            self.groups.iter().flat_map(|g| &g.of).map(|p| p.as_ref().as_str()).collect();
        for stated in &self.stated {
            let lists = [
                ("policy", &stated.policies, &policies),
                ("group", &stated.groups, &groups),
                ("program", &stated.programs, &programs),
            ];
            for (what, names, known) in lists {
                if let Some(unknown) = names.iter().find(|n| !known.contains(&n.as_ref().as_str())) {
                    let what = format!("`{name}` has no {what} `{}`; name one that it has", unknown.as_ref());
                    return refuse(unknown.span(), what);
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedulers::file::SCHEDULERS;

    fn read(text: &str) -> Result<SchedulersStudy, BadStudy> {
        SchedulersStudy::parse("s.toml", text, Path::new(""))
    }

    #[test]
    fn the_shipped_study_has_the_papers_figures_with_the_policies_and_their_baselines() {
        let study = read(SCHEDULERS).unwrap();
        let names: Vec<&str> = study.figures.iter().map(|f| f.name.as_ref().as_str()).collect();
        assert_eq!(
            names,
            [
                "pact16-fig9",
                "pact16-fig10",
                "pact16-fig10-whole",
                "cc-fig1a",
                "cc-fig1b",
                "cc-fig3-48",
                "cc-fig3-32",
                "cc-fig4",
                "cc-fig5-6",
                "cc-fig7",
                "cc-fig3-48-memory",
                "cc-fig4-memory"
            ]
        );
        let cells = |f: &Figure| f.groups.iter().map(|g| g.cells().len()).collect::<Vec<_>>();
        let all: Vec<Vec<usize>> = study.figures.iter().map(cells).collect();
        // There is only one mix of all eight.
        assert_eq!(
            all,
            [
                vec![9; 4],
                vec![9; 3],
                vec![9; 3],
                vec![2; 4],
                vec![2; 4],
                vec![1],
                vec![1],
                vec![10, 10, 10, 1, 1],
                vec![4; 4],
                vec![2, 2, 2, 2, 1],
                vec![1],
                vec![10, 10, 10, 1]
            ]
        );
        for figure in &study.figures {
            assert!(figure.policies[0].policy.is_none(), "{:?} is compared with nothing", figure.name);
            let does = |p: &PolicyUse| p.policy.is_some() || !p.instead.is_empty();
            assert!(figure.policies[1..].iter().all(does));
            // The paper gives no number for its figure 1.
            assert_eq!(figure.stated.is_empty(), figure.name.as_ref().starts_with("cc-fig1"));
        }
    }

    #[test]
    fn the_quick_part_has_one_cell_of_every_figure() {
        let mut study = read(SCHEDULERS).unwrap();
        study.make_quick();
        assert!(study.figures.iter().all(|f| f.groups.len() == 1 && f.groups[0].cells().len() == 1));
        assert!(study.figures.iter().all(|f| *f.repetitions.as_ref() == 1));
    }

    #[test]
    fn bad_input_is_named_with_its_line_and_the_remedy() {
        let refusal = |from: &str, to: &str| {
            assert!(SCHEDULERS.contains(from), "{from}");
            let line = SCHEDULERS[..SCHEDULERS.find(from).unwrap()].matches('\n').count() + 1;
            let said = read(&SCHEDULERS.replacen(from, to, 1)).unwrap_err().to_string();
            said.strip_prefix(&format!("s.toml:{line}: "))
                .unwrap_or_else(|| panic!("not {line}: {said}"))
                .to_owned()
        };
        assert_eq!(
            refusal("schema = \"corun.schedulers-study/1\"", "schema = \"corun.other/1\""),
            "schema is `corun.other/1`, this corun reads `corun.schedulers-study/1`"
        );
        assert!(refusal("with = [\"streamcluster\"]", "with = [\"nginx\"]").contains("no program `nginx`"));
        assert!(refusal("machine     = \"pact16-xeon-e5620\"", "machine = \"x\"").contains("no machine `x`"));
        assert!(refusal("duration    = \"60s\"", "duration = \"60\"").contains("`60` is not a time"));
        assert!(refusal(
            "scheduler   = { name = \"xen-credit\", first-slice = \"random\" }",
            "scheduler = { name = \"bfs\" }"
        )
        .contains("there is no `bfs`; name one of "));
        assert!(refusal("repetitions = 8", "repetitions = 0").contains("give 1 to 1000"));
        assert!(refusal("shows       = \"pairs\"", "shows = \"bars\"")
            .contains("there is no `bars`; name one of "));
        let fig9 = "name        = \"pact16-fig9\"\ntitle       = \"Delayed preemption: PACT'16 figure 9\"\nshows       = ";
        assert!(refusal(&format!("{fig9}\"pairs\""), &format!("{fig9}\"energy\""))
            .contains("leave `duration` out"));
        assert!(refusal("policies = [\"2 ms\", ", "policies = [\"3 ms\", ").contains("no policy `3 ms`"));
        assert!(refusal("groups   = [\"beside persistent", "groups = [\"alone\"] # [\"")
            .contains("no group `alone`"));
        assert!(refusal("size  = 2", "size  = 20").contains("give 1 to 8"));
        let ladm = "instead = { pdes-fm = \"pdes-ladm\" }";
        let other = "instead = { nginx = \"pdes-ladm\" }";
        assert!(refusal(ladm, other).contains("`nginx` is no program of `cc-fig5-6`"));
        let other = "instead = { pdes-fm = \"nginx\" }";
        assert!(refusal(ladm, other).contains("no program `nginx`"));
        assert!(refusal("name        = \"cc-fig4\"", "name = \"cc fig4\"").contains("use letters"));
    }

    #[test]
    fn energy_of_a_machine_without_power_figures_is_refused_rather_than_zero() {
        let folder = tempfile::tempdir().unwrap();
        let machine = "schema = \"corun.machine/1\"\nname = \"bare\"\nabout = \"x\"\n[shape]\nsockets = 1\ncores-per-llc = 4\n";
        std::fs::write(folder.path().join("bare.toml"), machine).unwrap();
        let read = |shows: &str| {
            let text = format!(
                "schema = \"corun.schedulers-study/1\"\nname = \"s\"\nabout = \"s\"\n[[figure]]\nname = \"f\"\ntitle = \"f\"\nshows = \"{shows}\"\nmachine = \"bare.toml\"\nscheduler = {{ name = \"cfs\" }}\nrepetitions = 1\npolicy = [{{ name = \"CFS\" }}]\n[[figure.group]]\nname = \"g\"\nof = [\"sp\"]\n"
            );
            SchedulersStudy::parse("s.toml", &text, folder.path())
        };
        assert!(read("mixes").is_ok());
        let said = read("energy").unwrap_err().to_string();
        assert!(said.starts_with("s.toml:") && said.contains("has no [power]"), "{said}");
    }

    #[test]
    fn a_policy_or_machine_that_is_unknown_is_refused_before_anything_runs() {
        let refusal = |from: &str, to: &str| read(&SCHEDULERS.replacen(from, to, 1)).unwrap_err().to_string();
        let line = SCHEDULERS.lines().position(|l| l.contains("\"adaptive\"")).unwrap() + 1;
        let said =
            refusal("\"adaptive\"\npolicy = \"delayed_preemption\"", "\"adaptive\"\npolicy = \"delayed\"");
        assert!(said.starts_with(&format!("s.toml:{line}: ")) && said.contains("delayed"), "{said}");
        let said = refusal("machine     = \"cc-sandybridge\"", "machine = \"cc-sandy\"");
        assert!(said.starts_with("s.toml:") && said.contains("cc-sandy"), "{said}");
    }
}
