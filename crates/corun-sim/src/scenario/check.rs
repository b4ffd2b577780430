//! Makes a scenario from its text: looks up names, and checks values that the types allow but that make no sense. Every refusal has
//! file, line and remedy.

use super::file::{PolicyFile, ScenarioFile, SchedulerKind, TenantFile, Time};
use super::{BadScenario, Files, PolicySpec, Runs, Scenario, TenantSpec};
use crate::machine_file::{MachineModel, SHIPPED};
use crate::sched::Kernel;
use corun_model::duration::human_ns;
use corun_model::workload::{read_file, BadKey, Mapping, Program, Workload};
use corun_model::{CpuId, Linux};
use std::collections::BTreeSet;
use toml::Spanned;

/// A run that does not end stops after this long.
pub(super) const HORIZON_NS: u64 = 36_000_000_000_000;
/// Bound on horizon and duration: a thousand hours, in which a modelled CPU has a thousand million ticks.
const MOST_NS: u64 = 3_600_000_000_000_000;
/// Bound on ticks and slices: a switch costs more than that.
const LEAST_SLICE_NS: u64 = 1_000;

/// A longer tick or slice is a typo.
const MOST_SLICE_NS: u64 = 1_000_000_000;
/// Bound on seeds, so that a typo does not ask for a billion runs.
const MOST_SEEDS: usize = 10_000;

struct Reader<'a> {
    file: &'a str,
    text: &'a str,
    files: &'a dyn Files,
}

pub(super) fn resolve(file: &str, text: &str, files: &dyn Files) -> Result<Scenario, BadScenario> {
    Reader { file, text, files }.scenario()
}

pub(super) fn on_machine(mut s: Scenario, name: &str, files: &dyn Files) -> Result<Scenario, BadScenario> {
    let model = machine(name, files).map_err(|bad| match bad {
        NoMachine::OfThatName(what) => BadScenario { file: "--machine".into(), line: 0, what },
        NoMachine::InTheFile(bad) => bad,
    })?;
    let mut bound = Vec::new();
    for t in &s.tenants {
        // The file contains CPU numbers, which either machine may lack.
        let place = |&at: &usize| {
            let id = s.machine.machine.cpus()[at].id;
            model.machine.cpus().iter().position(|c| c.id == id).ok_or_else(|| {
                let what = format!(
                    "{} is bound to CPU {}, which {} lacks; it has {} CPUs",
                    t.name,
                    id.0,
                    model.machine.name,
                    model.machine.cpu_count()
                );
                s.bad(t.line, what)
            })
        };
        let places = |cpus: &[usize]| cpus.iter().map(place).collect::<Result<Vec<usize>, BadScenario>>();
        bound.push((places(&t.pins)?, places(&t.allowed)?));
    }
    for (t, (pins, allowed)) in s.tenants.iter_mut().zip(bound) {
        (t.pins, t.allowed) = (pins, allowed);
    }
    s.machine = model;
    s.check_size()?;
    Ok(s)
}

/// Why there is no machine of a name.
enum NoMachine {
    OfThatName(String),
    InTheFile(BadScenario),
}

fn machine(name: &str, files: &dyn Files) -> Result<MachineModel, NoMachine> {
    if name == "host" {
        return files.host().map_err(NoMachine::OfThatName);
    }
    if let Some(model) = MachineModel::shipped(name) {
        return Ok(model);
    }
    if !name.ends_with(".toml") {
        let known: Vec<&str> = SHIPPED.iter().map(|s| s.0).collect();
        return Err(NoMachine::OfThatName(format!(
            "there is no machine `{name}`; name one of {}, a machine file ending in .toml, or host",
            known.join(", ")
        )));
    }
    let (called, text) = files.read(name).map_err(NoMachine::OfThatName)?;
    MachineModel::parse(&called, &text)
        .map_err(|e| NoMachine::InTheFile(BadScenario { file: e.file, line: e.line, what: e.what }))
}

impl Scenario {
    /// Refuses to run until all foreground tenants have ended if one never does.
    pub(crate) fn check_ends(&self) -> Result<(), BadScenario> {
        let awaited = |t: &&TenantSpec| !t.background && t.runs.is_endless();
        let Some(t) = self.tenants.iter().find(awaited) else { return Ok(()) };
        let what = format!("{} never ends, but with `background = false` the run waits for it", t.name);
        Err(self.bad(t.line, what + "; leave `background` out, or give a `duration`"))
    }
}

impl Reader<'_> {
    fn line(&self, at: usize) -> usize {
        self.text[..at.min(self.text.len())].matches('\n').count() + 1
    }

    fn bad(&self, line: usize, what: impl Into<String>) -> BadScenario {
        BadScenario { file: self.file.to_string(), line, what: what.into() }
    }

    fn at<T>(&self, value: &Spanned<T>, what: impl Into<String>) -> BadScenario {
        self.bad(self.line(value.span().start), what)
    }

    /// An error in a key of a tenant's table, which may be inline or have its own header and lines.
    fn within<T>(&self, table: &Spanned<T>, bad: BadKey) -> BadScenario {
        let from = &self.text[table.span().start..];
        let end = if from.starts_with('{') {
            table.span().len()
        } else {
            from.find("\n[[tenant]]").unwrap_or(from.len())
        };
        self.bad(self.line(table.span().start) + bad.line(&from[..end]) - 1, bad.what)
    }

    fn scenario(&self) -> Result<Scenario, BadScenario> {
        let read: ScenarioFile =
            read_file("corun.scenario/1", self.text).map_err(|(line, what)| self.bad(line, what))?;
        let model = machine(read.machine.as_ref(), self.files).map_err(|bad| match bad {
            NoMachine::OfThatName(what) => self.at(&read.machine, what),
            NoMachine::InTheFile(bad) => bad,
        })?;
        let seeds = read.seeds.as_ref();
        if seeds.is_empty() || seeds.len() > MOST_SEEDS {
            let what = format!("{} seeds are given; give 1 to {MOST_SEEDS}", seeds.len());
            return Err(self.at(&read.seeds, what));
        }
        let mut once = BTreeSet::new();
        if let Some(seed) = seeds.iter().find(|s| !once.insert(**s)) {
            let what = format!("seed {seed} is given twice, and the same seed gives the same run; remove it");
            return Err(self.at(&read.seeds, what));
        }
        for (key, time) in [("duration", &read.duration), ("horizon", &read.horizon)] {
            if let Some(time) = time.as_ref().filter(|t| t.as_ref() == &Time(0)) {
                return Err(self.at(time, format!("{key} is 0; give a time such as 10s")));
            }
            if let Some(time) = time.as_ref().filter(|t| t.as_ref().0 > MOST_NS) {
                let most = human_ns(MOST_NS);
                return Err(self.at(time, format!("{key} is longer than {most}; give a shorter time")));
            }
        }
        let scheduler = read.scheduler.as_ref().map(|s| s.as_ref().clone()).unwrap_or_default();
        if let Some(at) = &read.scheduler {
            let zero = [scheduler.base_slice, scheduler.tick, Some(scheduler.guest_slice)]
                .into_iter()
                .flatten()
                .any(|t| t.0 < LEAST_SLICE_NS);
            if zero {
                return Err(self.at(at, "a tick or slice below 1us makes no sense; give a longer one"));
            }
            let times = [("tick", scheduler.tick), ("base-slice", scheduler.base_slice)];
            let all = times.into_iter().chain([("guest-slice", Some(scheduler.guest_slice))]);
            if let Some((key, _)) = all.into_iter().find(|(_, t)| t.is_some_and(|t| t.0 > MOST_SLICE_NS)) {
                return Err(self.at(
                    at,
                    format!("{key} is longer than {}; give a shorter one", human_ns(MOST_SLICE_NS)),
                ));
            }
            if scheduler.name != SchedulerKind::Eevdf && scheduler.base_slice.is_some() {
                return Err(self.at(at, "only eevdf has a base-slice; leave it out"));
            }
            if scheduler.name != SchedulerKind::XenCredit && scheduler.first_slice.is_some() {
                return Err(self.at(at, "only xen-credit has a first-slice; leave it out"));
            }
            if let Some(what) = scheduler.linux.and_then(|linux| no_such_linux(scheduler.name, linux)) {
                return Err(self.at(at, what));
            }
            match scheduler.newidle_ratio {
                Some(_) if scheduler.name != SchedulerKind::Eevdf => {
                    return Err(self.at(at, "only eevdf has a newidle-ratio; leave it out"));
                }
                Some(ratio @ 1025..) => {
                    let what = format!("newidle-ratio is {ratio}; give 0 to 1024 (of 1024 chances)");
                    return Err(self.at(at, what));
                }
                _ => {}
            }
        }
        if read.tenant.is_empty() {
            return Err(self.bad(1, "a scenario needs at least one [[tenant]]"));
        }
        let policy = read.policy.as_ref().map(|p| self.policy(p.as_ref())).transpose()?;
        let mut tenants = Vec::new();
        let mut names = BTreeSet::new();
        for t in &read.tenant {
            self.tenant(t, &model, &mut names, &mut tenants)?;
        }
        self.resolve_after(&read, &mut tenants)?;
        if let Some(p) = &read.policy {
            let only = p.as_ref().tenants.iter().flatten();
            let is_here = |wanted: &str| names.contains(wanted.strip_prefix("sim/").unwrap_or(wanted));
            if let Some(nobody) = only.chain(&p.as_ref().protect).find(|n| !is_here(n.as_ref())) {
                let known = names.iter().take(10).map(String::as_str).collect::<Vec<_>>().join(", ");
                let what = format!("there is no tenant `{}`; name one of {known}", nobody.as_ref());
                return Err(self.at(nobody, what));
            }
        }
        let name = read.name.clone().unwrap_or_else(|| {
            let stem = self.file.rsplit('/').next().unwrap_or(self.file);
            stem.trim_end_matches(".toml").to_string()
        });
        let scenario = Scenario {
            name,
            machine: model,
            scheduler,
            policy,
            tenants,
            seeds: seeds.clone(),
            duration_ns: read.duration.as_ref().map(|t| t.as_ref().0),
            horizon_ns: read.horizon.as_ref().map_or(HORIZON_NS, |t| t.as_ref().0),
            file: self.file.to_string(),
            tenants_line: self.line(read.tenant[0].span().start),
            scheduler_line: self
                .line(read.scheduler.as_ref().map_or(read.machine.span(), Spanned::span).start),
        };
        if scenario.duration_ns.is_none() && scenario.tenants.iter().all(|t| t.background) {
            let what = "no tenant ever ends (all are background); give a `duration`";
            return Err(self.bad(scenario.tenants_line, what));
        }
        let never = |t: &&TenantSpec| scenario.duration_ns.is_some_and(|end_ns| t.start_ns >= end_ns);
        if let Some(late) = scenario.tenants.iter().find(never) {
            let what = format!("{} starts when the `duration` is over", late.name);
            return Err(self.bad(late.line, what + "; start it earlier, or give a longer `duration`"));
        }
        scenario.check_size()?;
        Ok(scenario)
    }

    fn policy(&self, p: &PolicyFile) -> Result<PolicySpec, BadScenario> {
        let mut scope = corun_policy::Scope::everyone().protect(p.protect.iter().map(Spanned::as_ref));
        if let Some(only) = &p.tenants {
            scope = scope.only(only.iter().map(Spanned::as_ref));
        }
        let given = p.options.iter();
        let options = given.fold(corun_policy::Options::new().scope(scope), |o, (name, value)| {
            o.set(name, value.as_ref().text())
        });
        let policy = PolicySpec::new(p.name.as_ref(), options).map_err(|bad| {
            let is_meant = |name: &str| bad.options().contains(&name.replace('_', "-").as_str());
            let set = p.options.iter().find(|(name, _)| is_meant(name)).map(|(_, value)| value.span());
            self.bad(self.line(set.unwrap_or(p.name.span()).start), bad.to_string())
        })?;
        let policy = policy.guarded(p.guard);
        match &p.epoch {
            Some(epoch) => policy.every(epoch.as_ref().0).map_err(|what| self.at(epoch, what)),
            None => Ok(policy),
        }
    }

    fn tenant(
        &self,
        spanned: &Spanned<TenantFile>,
        model: &MachineModel,
        names: &mut BTreeSet<String>,
        tenants: &mut Vec<TenantSpec>,
    ) -> Result<(), BadScenario> {
        let t = spanned.as_ref();
        let nameless =
            |n: &&Spanned<String>| n.as_ref().trim().is_empty() || n.as_ref().contains(char::is_control);
        if let Some(name) = t.name.as_ref().filter(nameless) {
            return Err(self.at(name, "a tenant's name must be one line of text; give it another"));
        }
        let mut workload = self.workload(spanned)?;
        let line = self.line(spanned.span().start);
        if workload.name.contains(char::is_control) {
            return Err(
                self.bad(line, "its program's name must be one line; give the tenant's program another")
            );
        }
        if let Some(threads) = &t.threads {
            set_threads(&mut workload.program, *threads.as_ref()).map_err(|what| self.at(threads, what))?;
            workload.program.check().map_err(|bad| self.at(threads, bad.what))?;
            workload.on.clear();
        }
        let dense = |cpus: &Option<Spanned<Vec<u32>>>| -> Result<Vec<usize>, BadScenario> {
            let Some(cpus) = cpus else { return Ok(Vec::new()) };
            let place = |id: &u32| {
                model.machine.cpus().iter().position(|c| c.id == CpuId(*id)).ok_or_else(|| {
                    let what = format!(
                        "{} has no CPU {id}; it has {}",
                        model.machine.name,
                        model.machine.cpu_count()
                    );
                    self.at(cpus, what)
                })
            };
            cpus.as_ref().iter().map(place).collect()
        };
        let (mut pins, allowed) = (dense(&t.cpus)?, dense(&t.allowed)?);
        if let Some(at) = t.allowed.as_ref().filter(|cpus| cpus.as_ref().is_empty()) {
            return Err(self.at(at, "allowed names no CPU; name at least one, or leave it out"));
        }
        if let (Some(at), false) = (&t.allowed, pins.is_empty()) {
            let what = "`cpus` pins the tasks already; leave out `allowed`, or `cpus` to leave them a choice";
            return Err(self.at(at, what));
        }
        if t.cpus.is_none() {
            pins = match &workload.program {
                // Fixed mapping pins workers to CPUs as well: to those that it may use, in order. A guest has
                // its own CPUs.
                Program::Pdes(p) if p.mapping == Mapping::Fm && p.cpus.is_empty() && t.vm.is_none() => {
                    let all = 0..model.machine.cpu_count();
                    if allowed.is_empty() {
                        all.collect()
                    } else {
                        allowed.clone()
                    }
                }
                _ => self.own_pins(&workload, model, line)?,
            };
        }
        let weight = t.weight.as_ref().map_or(100, |w| *w.as_ref());
        if let Some(w) = t.weight.as_ref().filter(|w| !(1..=10_000).contains(w.as_ref())) {
            return Err(self.at(w, format!("weight is {weight}; give 1 to 10000 (100 is the default)")));
        }
        let vcpus = t.vm.as_ref().map(|vm| vm.as_ref().vcpus);
        if let Some(vm) = t.vm.as_ref().filter(|vm| vm.as_ref().vcpus == 0) {
            return Err(self.at(vm, "vcpus is 0; a VM needs at least 1"));
        }
        let slice_ns = t.slice.as_ref().map(|s| s.as_ref().bounds_ns());
        if let (Some(at), Some((low, high))) = (&t.slice, slice_ns) {
            if low < LEAST_SLICE_NS || low > high {
                return Err(self.at(at, "a slice must be at least 1us, and its shortest at most its longest"));
            }
        }
        let endless = is_endless(&workload.program);
        let count = t.count.as_ref().map_or(1, |c| *c.as_ref());
        if let Some(at) = t.count.as_ref().filter(|_| count == 0 || count as usize > super::MOST_TASKS) {
            return Err(self.at(at, format!("count is {count}; give 1 to {}", super::MOST_TASKS)));
        }
        let base = t.name.as_ref().map_or_else(|| workload.name.clone(), |n| n.as_ref().clone());
        for copy in 1..=count {
            let mut name = if count == 1 { base.clone() } else { format!("{base}-{copy}") };
            if !names.insert(name.clone()) {
                if t.name.is_some() {
                    return Err(self.bad(line, format!("two tenants are called `{name}`; rename one")));
                }
                let mut numbered = (2..).map(|n| format!("{name}-{n}"));
                name = numbered.find(|n| names.insert(n.clone())).expect("some number is free");
            }
            tenants.push(TenantSpec {
                name,
                runs: Runs::Workload(Box::new(workload.clone())),
                line,
                pins: pins.clone(),
                allowed: allowed.clone(),
                weight,
                session: t.session.clone(),
                vcpus,
                start_ns: t.start.map_or(0, |s| s.0),
                after: None,
                repeat: t.repeat,
                background: t.background.unwrap_or(t.repeat || endless),
                batch: t.batch,
                slice_ns,
            });
        }
        Ok(())
    }

    fn workload(&self, spanned: &Spanned<TenantFile>) -> Result<Workload, BadScenario> {
        let t = spanned.as_ref();
        match (&t.workload, &t.program) {
            (Some(path), None) => {
                if let Some(character) = &t.character {
                    return Err(
                        self.at(character, "`character` goes with `program`; a workload file has its own")
                    );
                }
                let (called, text) = self.files.read(path.as_ref()).map_err(|what| self.at(path, what))?;
                Workload::parse(&called, &text).map_err(|e| BadScenario {
                    file: e.file,
                    line: e.line,
                    what: e.what,
                })
            }
            (None, Some(program)) => {
                program.as_ref().check().map_err(|bad| self.within(program, bad))?;
                let character = t.character.as_ref().map(|c| c.as_ref().clone()).unwrap_or_default();
                if let Some(at) = &t.character {
                    character.check().map_err(|bad| self.within(at, bad))?;
                }
                let name = t.name.as_ref().map_or("tenant", |n| n.as_ref());
                Ok(Workload {
                    schema: "corun.workload/1".into(),
                    name: name.to_string(),
                    about: String::new(),
                    program: program.as_ref().clone(),
                    character,
                    phase: Vec::new(),
                    on: Vec::new(),
                })
            }
            (Some(_), Some(program)) => {
                Err(self.at(program, "a tenant has either a `workload` file or a `program`, not both"))
            }
            (None, None) => {
                let line = self.line(spanned.span().start);
                Err(self.bad(line, "this tenant runs nothing; give it a `workload` file or a `program`"))
            }
        }
    }

    /// The CPUs that the workload itself pins its threads to.
    fn own_pins(&self, w: &Workload, model: &MachineModel, line: usize) -> Result<Vec<usize>, BadScenario> {
        let cpus = match &w.program {
            Program::Pdes(p) => &p.cpus,
            Program::Interference(i) => &i.cpus,
            Program::Parallel(p) => &p.cpus,
            Program::Micro(m) => &m.cpus,
            Program::Command(c) => match c.model.first() {
                Some(p) => &p.cpus,
                None => return Ok(Vec::new()),
            },
        };
        let place = |id: &u32| {
            model.machine.cpus().iter().position(|c| c.id == CpuId(*id)).ok_or_else(|| {
                let what =
                    format!("workload {} is pinned to CPU {id}, which {} lacks", w.name, model.machine.name);
                self.bad(line, what + "; give the tenant `cpus` of its own")
            })
        };
        cpus.iter().map(place).collect()
    }

    /// Looks up the tenants in `after`. No tenant may wait for itself, directly or indirectly.
    fn resolve_after(&self, read: &ScenarioFile, tenants: &mut [TenantSpec]) -> Result<(), BadScenario> {
        for spanned in &read.tenant {
            let Some(after) = &spanned.as_ref().after else { continue };
            let line = self.line(spanned.span().start);
            let Some(first) = tenants.iter().position(|t| t.name == *after.as_ref()) else {
                let known = tenants.iter().take(10).map(|t| t.name.as_str()).collect::<Vec<_>>().join(", ");
                let what =
                    format!("there is no tenant `{}` to start after; name one of {known}", after.as_ref());
                return Err(self.at(after, what));
            };
            if tenants[first].runs.is_endless() {
                let what = format!("`{}` never ends, so nothing can start after it", after.as_ref());
                return Err(self.at(after, what + "; leave `after` out"));
            }
            tenants.iter_mut().filter(|t| t.line == line).for_each(|t| t.after = Some(first));
        }
        for start in 0..tenants.len() {
            let (mut at, mut way) = (start, vec![tenants[start].name.as_str()]);
            while let Some(next) = tenants[at].after {
                way.push(&tenants[next].name);
                if next == start {
                    let what =
                        format!("the scenario deadlocks: {} wait for each other's end", way.join(" after "));
                    return Err(self.bad(tenants[start].line, what + "; leave one `after` out"));
                }
                if way.len() > tenants.len() {
                    break;
                }
                at = next;
            }
        }
        Ok(())
    }
}

/// Why a scheduler has no such release, in a sentence; `None`: it has.
fn no_such_linux(scheduler: SchedulerKind, linux: Linux) -> Option<&'static str> {
    match scheduler {
        SchedulerKind::Eevdf if linux < Linux::FIRST_EEVDF => {
            Some("eevdf came with Linux 6.6; give a later release, or name = \"cfs\"")
        }
        SchedulerKind::Cfs if linux != Linux::LAST_CFS && Kernel::of(linux).is_none() => Some(
            "cfs is modelled as in Linux 2.6.32, 3.8, 3.14 and 6.5; give one of these, or leave linux out",
        ),
        SchedulerKind::XenCredit => {
            Some("linux is a release of Linux, which xen-credit is not part of; leave it out")
        }
        _ => None,
    }
}

fn set_threads(program: &mut Program, threads: u32) -> Result<(), String> {
    match program {
        Program::Interference(i) => i.threads = threads,
        Program::Parallel(p) => p.threads = threads,
        Program::Micro(m) => m.threads = threads,
        Program::Pdes(p) => p.threads = threads,
        Program::Command(_) => {
            return Err("a command's threads are those of its model; change the workload".into())
        }
    }
    Ok(())
}

/// Whether a program never ends by itself.
pub(super) fn is_endless(program: &Program) -> bool {
    use corun_model::workload::Length;
    match program {
        Program::Interference(i) => i.duration == 0,
        Program::Parallel(p) => p.length() == Length::Endless,
        Program::Micro(m) => m.length() == Length::Endless,
        Program::Pdes(p) => p.length() == Length::Endless,
        Program::Command(c) => c.is_endless(),
    }
}
