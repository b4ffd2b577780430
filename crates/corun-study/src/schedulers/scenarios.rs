//! Which programs run together, and their scenarios.

use super::file::{Figure, Group, PolicyUse, SchedulersStudy};
use super::presets::{Presets, PAPERS};
use corun_sim::machine_file::MachineModel;
use corun_sim::scenario::Files;
use corun_sim::streams::Streams;
use std::path::Path;
use toml::{Table, Value};

/// The name of the second program of a pair, which may be the same as the first.
const BACKGROUND: &str = "background";

/// Programs that run together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    /// The tenants. The others disturb the first one.
    pub tenants: Vec<Tenant>,
}

/// A program of a cell. Its name matters: seed and name decide where in a tick it starts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tenant {
    /// A preset, or one of the study's programs.
    pub program: String,
    /// Its name in the scenario.
    pub name: String,
}

impl Tenant {
    fn new(program: &str, name: &str) -> Tenant {
        Tenant { program: program.to_owned(), name: name.to_owned() }
    }
}

impl Cell {
    /// One program.
    pub fn alone(program: &str) -> Cell {
        Cell { tenants: vec![Tenant::new(program, program)] }
    }

    /// The programs, in words.
    pub fn name(&self) -> String {
        self.tenants.iter().map(|t| t.program.as_str()).collect::<Vec<_>>().join(" ")
    }
}

impl Group {
    /// The cells of a group: each of `of` with `with`, or different mixes drawn from them.
    pub fn cells(&self) -> Vec<Cell> {
        let names =
            |all: &[toml::Spanned<String>]| all.iter().map(|n| n.as_ref().clone()).collect::<Vec<_>>();
        let (of, with) = (names(&self.of), names(&self.with));
        let Some(size) = &self.size else {
            let beside = |program: &String| {
                let with = with.iter().enumerate().map(|(i, w)| match i {
                    0 => Tenant::new(w, BACKGROUND),
                    _ => Tenant::new(w, &format!("{BACKGROUND} {}", i + 1)),
                });
                Cell { tenants: std::iter::once(Tenant::new(program, program)).chain(with).collect() }
            };
            return of.iter().map(beside).collect();
        };
        let mixes = mixes(&of, &with, *size.as_ref(), self.mixes.unwrap_or(1));
        let cell = |mix: Vec<String>| Cell { tenants: mix.iter().map(|p| Tenant::new(p, p)).collect() };
        mixes.into_iter().map(cell).collect()
    }
}

/// At most `count` different mixes of `size` programs out of `of`, each with `with`.
fn mixes(of: &[String], with: &[String], size: usize, count: usize) -> Vec<Vec<String>> {
    let mut draws = Streams::new(1).stream(&format!("mixes of {size} with {}", with.len()));
    let mut found: Vec<Vec<String>> = Vec::new();
    // If nearly all programs take part, fewer mixes exist than were asked for.
    for _ in 0..1_000 {
        let mut rest = of.to_vec();
        let mut mix = with.to_vec();
        while mix.len() < size && !rest.is_empty() {
            mix.push(rest.remove(draws.between(0, rest.len() as u64 - 1) as usize));
        }
        mix.sort_unstable();
        if found.len() < count && !found.contains(&mix) {
            found.push(mix);
        }
    }
    found
}

impl PolicyUse {
    /// The tenants of a cell under this policy. A replacement keeps the name, and so the same random choices.
    pub fn in_place(&self, tenants: &[Tenant]) -> Vec<Tenant> {
        let taken = |t: &Tenant| {
            let other = self.instead.iter().find(|(of, _)| *of.as_ref() == t.program);
            Tenant { program: other.map_or(&t.program, |(_, by)| by).clone(), name: t.name.clone() }
        };
        tenants.iter().map(taken).collect()
    }
}

/// The files that scenarios name: presets, and those in the study's folder.
pub struct RelativeFiles<'a>(pub &'a Path);

impl Files for RelativeFiles<'_> {
    fn read(&self, path: &str) -> Result<(String, String), String> {
        if path.starts_with(PAPERS) {
            return Presets.read(path);
        }
        let full = self.0.join(path);
        let named = full.display().to_string();
        std::fs::read_to_string(&full)
            .map(|text| (named.clone(), text))
            .map_err(|e| format!("cannot read {named}: {e}; paths are relative to the study's folder"))
    }

    fn host(&self) -> Result<MachineModel, String> {
        Presets.host()
    }
}

impl SchedulersStudy {
    /// The scenario of some tenants of a figure under a policy, or without one.
    pub fn scenario(&self, figure: &Figure, policy: Option<&PolicyUse>, tenants: &[Tenant]) -> String {
        let mut all = Table::new();
        let mut set = |key: &str, value: Value| all.insert(key.to_owned(), value);
        set("schema", "corun.scenario/1".into());
        set("machine", figure.machine.as_str().into());
        let seeds = (1..=*figure.repetitions.as_ref()).map(|seed| Value::Integer(seed as i64));
        set("seeds", Value::Array(seeds.collect()));
        let alone = match tenants {
            [only] => self.programs.iter().find(|p| p.name == only.program).and_then(|p| p.alone.as_ref()),
            _ => None,
        };
        if let Some(duration) = figure.duration.as_ref().or(alone) {
            set("duration", duration.as_str().into());
        }
        set("scheduler", Value::Table(figure.scheduler.clone()));
        if let Some((policy, name)) = policy.and_then(|p| Some((p, p.policy.as_deref()?))) {
            let options = ("options".to_owned(), Value::Table(policy.options.clone()));
            set("policy", Value::Table(Table::from_iter([("name".to_owned(), name.into()), options])));
        }
        let tenants = tenants.iter().map(|t| Value::Table(self.tenant(figure, t)));
        set("tenant", Value::Array(tenants.collect()));
        toml::to_string(&all).expect("a table of plain values is TOML")
    }

    fn tenant(&self, figure: &Figure, tenant: &Tenant) -> Table {
        let mut all = figure.tenant.clone();
        all.insert("name".into(), tenant.name.as_str().into());
        match self.programs.iter().find(|p| p.name == tenant.program) {
            Some(own) => all.extend(own.tenant.clone()),
            None => {
                all.insert("workload".into(), format!("{PAPERS}{}.toml", tenant.program).into());
            }
        }
        all
    }
}
