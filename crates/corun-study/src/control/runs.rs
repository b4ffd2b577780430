//! The runs of the study of control (`studies/control.toml`).
//!
//! Method. A cell is a set of programs, each a tenant. In some groups a co-runner that never ends is one more tenant. In each
//! repetition every program of the cell runs solo once. The cell runs once under the kernel alone and once under each policy, in a new
//! order every time; the order of cells changes too. Every tenant is a cgroup ([`crate::control::tenant_cgroup`]). `corun control` runs
//! as users run it, as its own process. It knows the cgroups that it may touch, but not their contents. As a service would, it starts
//! before the programs; only the co-runner is there already. In a cell of several programs, each program is started again when it ends,
//! until all have ended once, so that contention stays the same. Its mean length over its complete runs counts.
//!
//! A real-time thread that only waits measures the length of a program from its start to its end. The slowdown is that length over the
//! solo length of the same repetition. For the co-runner it is the rate of its CPU time in the second half of its lead, when it is
//! alone, over its rate in the co-run: it only loops, so its CPU time is its work. Involuntary switches are those of processes that
//! were waited for. CPU time of neither the tenants nor the controller is foreign. A run with too much of it is repeated.
//!
//! Nothing may stay frozen: after every run each tenant's cgroup is checked before it is removed.

use crate::control::file::{ControlStudy, Group, DEFAULT};
use crate::control::outcome::{ControlOutcome, ControlRun, SoloRun, TenantRun};
use crate::control::tenant_cgroup::TenantCgroup;
use crate::programs::{Catalogue, Interferer, Program, ProgramSetup};
use crate::session::{any_ends, Session};
use corun_linux::cpustat::CpuStat;
use corun_linux::energy::EnergyMeter;
use corun_linux::{sched, Root};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// The time that the controller has for its first decision, and to undo everything. In an emulated guest it loads its BPF programs for
/// seconds.
const CONTROLLER: Duration = Duration::from_secs(30);
/// The length of a check of the machine before a run, and the pause to the next check.
const LOOK: Duration = Duration::from_millis(150);
const PAUSE: Duration = Duration::from_millis(500);
/// The tenant of the interferers.
pub const CO_RUNNER: &str = "co-runner";

/// The state that all runs of a study share.
pub struct ControlRuns<'a> {
    root: Root,
    study: &'a ControlStudy,
    known: &'a Catalogue,
    setup: &'a ProgramSetup,
    corun: PathBuf,
    folder: PathBuf,
    cpus: usize,
    /// Programs and interferers that are not available here.
    absent: BTreeSet<String>,
}

/// A cell with its available programs.
struct Mix<'a> {
    programs: Vec<&'a Program>,
    co_runner: Vec<&'a Interferer>,
}

/// A program of a mix while that runs.
struct Running<'a> {
    program: &'a Program,
    cgroup: TenantCgroup,
    session: Session,
    begin: Instant,
    /// Lengths of its complete runs, in nanoseconds.
    walls_ns: Vec<u64>,
    preemptions: u64,
}

/// The counters at one moment.
struct Mark {
    at: Instant,
    machine: CpuStat,
    tenants_ns: u64,
    co_runner_ns: u64,
    controller_ns: u64,
}

impl<'a> ControlRuns<'a> {
    /// Prepares runs of `study` in `folder`. `corun` is the path of the corun executable.
    pub fn new(
        study: &'a ControlStudy,
        known: &'a Catalogue,
        setup: &'a ProgramSetup,
        corun: &Path,
        folder: &Path,
    ) -> ControlRuns<'a> {
        ControlRuns {
            root: Root::new("/"),
            study,
            known,
            setup,
            corun: corun.to_owned(),
            folder: folder.to_owned(),
            cpus: std::thread::available_parallelism().map_or(1, usize::from),
            absent: BTreeSet::new(),
        }
    }

    /// How many runs [`ControlRuns::run`] makes when nothing is skipped: for a progress bar.
    pub fn runs(study: &ControlStudy) -> u64 {
        let programs: BTreeSet<&String> =
            study.groups.iter().flat_map(|g| g.cells.iter().flatten()).collect();
        let beside: usize = study.groups.iter().map(|g| g.cells.len() * g.policies.len()).sum();
        u64::from(study.repetitions) * (programs.len() + beside) as u64
    }

    /// Makes all runs, after those groups that `outcome` already holds. Calls `done` after each run with a description, and `keep`
    /// after each cell.
    pub fn run(
        &mut self,
        outcome: &mut ControlOutcome,
        done: &mut dyn FnMut(&str),
        keep: &mut dyn FnMut(&ControlOutcome),
    ) {
        self.prepare(outcome);
        // With a real-time priority this thread notices at once when a program ends. Without that right it notices a little later.
        let fair = sched::attributes(0);
        let _ = sched::become_fifo(2);
        let is_ours = |run: &&ControlRun| self.study.groups.iter().any(|g| g.name == run.group);
        let before = outcome.runs.iter().filter(is_ours).map(|r| r.repetition).max().unwrap_or(0);
        for repetition in before + 1..=before + self.study.repetitions {
            let mut alone = BTreeMap::new();
            let cells: Vec<(&Group, &Vec<String>)> =
                self.study.groups.iter().flat_map(|g| g.cells.iter().map(move |c| (g, c))).collect();
            for i in ControlStudy::order(u64::from(repetition), cells.len()) {
                let (group, cell) = cells[i];
                if let Some(mix) = self.mix(group, cell) {
                    self.cell(group, &mix, repetition, i as u64, &mut alone, outcome, done);
                    keep(outcome);
                }
            }
        }
        if let Ok(fair) = fair {
            let _ = sched::set_attributes(0, &fair);
        }
    }

    /// Makes all inputs, and notes what is not available.
    fn prepare(&mut self, outcome: &mut ControlOutcome) {
        let names: BTreeSet<&String> = self
            .study
            .groups
            .iter()
            .flat_map(|g| g.co_runner.iter().chain(g.cells.iter().flatten()))
            .collect();
        for name in names {
            let of_program = self.known.program(name).map(|p| &p.recipe);
            let recipe = of_program.or_else(|| self.known.interferer(name).map(|i| &i.recipe));
            if let Some(why) = recipe.and_then(|recipe| self.setup.prepare(recipe).err()) {
                outcome.skipped.retain(|(skipped, _)| skipped != name);
                outcome.skipped.push((name.clone(), why));
                self.absent.insert(name.clone());
            }
        }
    }

    /// The cell without the programs that are not available. `None` if too few are left.
    fn mix(&self, group: &Group, cell: &[String]) -> Option<Mix<'a>> {
        let here = |name: &&String| !self.absent.contains(*name);
        let programs: Vec<&Program> =
            cell.iter().filter(here).filter_map(|n| self.known.program(n)).collect();
        let co_runner: Vec<&Interferer> =
            group.co_runner.iter().filter(here).filter_map(|n| self.known.interferer(n)).collect();
        let enough = programs.len() >= cell.len().min(2) && co_runner.len() == group.co_runner.len();
        enough.then_some(Mix { programs, co_runner })
    }

    #[allow(clippy::too_many_arguments, reason = "the place of one cell in the whole study")]
    fn cell(
        &self,
        group: &Group,
        mix: &Mix<'a>,
        repetition: u32,
        place: u64,
        alone: &mut BTreeMap<String, u64>,
        outcome: &mut ControlOutcome,
        done: &mut dyn FnMut(&str),
    ) {
        let name = mix.programs.iter().map(|p| p.name.as_str()).collect::<Vec<_>>().join(" + ");
        for program in &mix.programs {
            if !alone.contains_key(&program.name) {
                let solo = Mix { programs: vec![program], co_runner: Vec::new() };
                match self.tried(&solo, DEFAULT, &BTreeMap::new()) {
                    Ok(run) => {
                        let wall_ns = run.wall_ns;
                        alone.insert(program.name.clone(), wall_ns);
                        let cpu_ns = run.tenants[0].cpu_ns;
                        outcome.solos.push(SoloRun {
                            program: program.name.clone(),
                            repetition,
                            wall_ns,
                            cpu_ns,
                        });
                    }
                    Err(why) => outcome.failed.push(format!("{} alone: {why}", program.name)),
                }
                done(&program.name);
            }
        }
        for i in ControlStudy::order(u64::from(repetition) << 32 | place, group.policies.len()) {
            let policy = &group.policies[i];
            match self.tried(mix, policy, alone) {
                Ok(run) => outcome.runs.push(ControlRun {
                    group: group.name.clone(),
                    cell: name.clone(),
                    policy: policy.clone(),
                    repetition,
                    ..run
                }),
                Err(why) => outcome.failed.push(format!("{name}, {policy}: {why}")),
            }
            done(&format!("{name}: {policy}"));
        }
    }

    /// A run that counts, or the last one that was made.
    fn tried(
        &self,
        mix: &Mix<'a>,
        policy: &str,
        alone: &BTreeMap<String, u64>,
    ) -> Result<ControlRun, String> {
        let mut rejected = 0;
        loop {
            self.wait_for_quiet();
            let run = self.once(mix, policy, alone)?;
            if run.foreign <= self.study.foreign || rejected == self.study.retries {
                return Ok(ControlRun { rejected, ..run });
            }
            rejected += 1;
        }
    }

    fn wait_for_quiet(&self) {
        let begin = Instant::now();
        loop {
            let before = CpuStat::read(&self.root).map(|s| s.total().busy_ns()).unwrap_or(0);
            std::thread::sleep(LOOK);
            let after = CpuStat::read(&self.root).map(|s| s.total().busy_ns()).unwrap_or(0);
            let share = after.saturating_sub(before) as f64 / (LOOK.as_nanos() as f64 * self.cpus as f64);
            // The clock of /proc/stat ticks every 10 ms, so one tick more is not a disturbance.
            let tick = 1e7 / (LOOK.as_nanos() as f64 * self.cpus as f64);
            if share <= self.study.foreign.max(tick)
                || begin.elapsed().as_nanos() as u64 > self.study.patience
            {
                return;
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Runs a mix once, under the kernel alone or a policy.
    fn once(&self, mix: &Mix<'a>, policy: &str, alone: &BTreeMap<String, u64>) -> Result<ControlRun, String> {
        let cgroup = |name: &str| TenantCgroup::new(&self.root, name);
        let mut cgroups: Vec<TenantCgroup> = Vec::new();
        for program in &mix.programs {
            cgroups.push(cgroup(&program.name)?);
        }
        let beside = match &mix.co_runner[..] {
            [] => None,
            interferers => Some(self.co_runner(interferers, cgroup(CO_RUNNER)?)?),
        };
        let mut tenants: Vec<String> = cgroups.iter().map(TenantCgroup::key).collect();
        tenants.extend(beside.iter().map(|b| b.cgroup.key()));
        let controller = match self.study.policy(policy) {
            Some(policy) => Some(self.controller(&policy.argv, &tenants)?),
            None => None,
        };
        let mut running = Vec::new();
        let mark = |running: &[Running]| {
            let of = |c: &TenantCgroup| c.cpu_ns().unwrap_or(0);
            Ok::<Mark, String>(Mark {
                at: Instant::now(),
                machine: CpuStat::read(&self.root).map_err(|e| e.to_string())?,
                tenants_ns: running.iter().map(|r| of(&r.cgroup)).sum(),
                co_runner_ns: beside.as_ref().map_or(0, |b| of(&b.cgroup)),
                controller_ns: controller.as_ref().map_or(0, |c| of(&c.cgroup)),
            })
        };
        let before = mark(&running)?;
        let mut energy = EnergyMeter::start(&self.root);
        for (program, cgroup) in mix.programs.iter().zip(cgroups) {
            let session = self.start(program, &cgroup)?;
            let begin = Instant::now();
            running.push(Running { program, cgroup, session, begin, walls_ns: Vec::new(), preemptions: 0 });
        }
        let longest =
            mix.programs.iter().map(|p| alone.get(&p.name).copied().unwrap_or(p.solo)).max().unwrap_or(0);
        let limit = Duration::from_nanos((longest as f64 * self.study.most_slowdown) as u64);
        let cut_off = self.until_all_ended(&mut running, before.at, limit)?;
        let after = mark(&running)?;
        let energy = energy.read();
        let controlled = controller.map(Controller::end);
        let left_frozen = running.iter().map(|r| &r.cgroup).chain(beside.as_ref().map(|b| &b.cgroup));
        let left_frozen = left_frozen.filter(|c| c.is_frozen()).count() as u32;
        controlled.transpose()?;

        let window_ns = (after.at - before.at).as_nanos() as u64;
        let machine_ns = window_ns as f64 * self.cpus as f64;
        let (busy, idle) = {
            let (a, b) = (after.machine.total(), before.machine.total());
            (a.busy_ns().saturating_sub(b.busy_ns()), a.idle_ns.saturating_sub(b.idle_ns))
        };
        let tenants_ns = after.tenants_ns.saturating_sub(before.tenants_ns);
        let co_runner_ns = after.co_runner_ns.saturating_sub(before.co_runner_ns);
        let controller_ns = after.controller_ns.saturating_sub(before.controller_ns);
        let own = tenants_ns + co_runner_ns + controller_ns;
        let mut tenants: Vec<TenantRun> =
            running.iter().map(|r| r.result(alone.get(&r.program.name).copied(), window_ns)).collect();
        if let Some(beside) = &beside {
            let rate = co_runner_ns as f64 / window_ns as f64;
            tenants.push(TenantRun {
                name: CO_RUNNER.into(),
                runs: 0,
                wall_ns: None,
                slowdown: (rate > 0.0).then(|| beside.rate_alone / rate),
                cpu_ns: co_runner_ns,
                preemptions: None,
                kept: Some(rate * mix.tenants() as f64 / self.cpus as f64),
            });
        }
        Ok(ControlRun {
            wall_ns: window_ns,
            tenants,
            idle: (idle as f64 / machine_ns).min(1.0),
            controller: controller_ns as f64 / machine_ns,
            foreign: busy.saturating_sub(own) as f64 / machine_ns,
            cut_off,
            left_frozen,
            package_uj: energy.as_ref().ok().and_then(|energy| energy.package_uj),
            no_energy: energy.err().map(|why| why.to_string()),
            ..ControlRun::default()
        })
    }

    fn start(&self, program: &Program, cgroup: &TenantCgroup) -> Result<Session, String> {
        let mut command = self.setup.command(&program.recipe);
        cgroup.hold(&mut command).map_err(|e| format!("cannot hold {}: {e}", program.name))?;
        Session::start(command).map_err(|e| format!("cannot start {}: {e}", program.name))
    }

    /// Waits until every program has ended at least once, and starts those that ended earlier again. Returns whether time ran out.
    fn until_all_ended(
        &self,
        running: &mut [Running],
        begin: Instant,
        limit: Duration,
    ) -> Result<bool, String> {
        loop {
            let pids: Vec<u32> = running.iter().map(|r| r.session.pid()).collect();
            let Some(left) = limit.checked_sub(begin.elapsed()) else { return Ok(true) };
            any_ends(&pids, left);
            let now = Instant::now();
            // A program that ends after its check is noticed in the next round.
            let mut done = Vec::new();
            for (at, r) in running.iter_mut().enumerate() {
                let before = preemptions_of_the_dead();
                let Some(status) = r.session.ended().map_err(|e| e.to_string())? else { continue };
                r.preemptions += preemptions_of_the_dead().saturating_sub(before);
                r.walls_ns.push((now - r.begin).as_nanos() as u64);
                if !status.success() {
                    return Err(format!("{} failed ({status})", r.program.name));
                }
                done.push(at);
            }
            if running.iter().all(|r| !r.walls_ns.is_empty()) {
                return Ok(false);
            }
            for at in done {
                let r = &mut running[at];
                r.session = self.start(r.program, &r.cgroup)?;
                r.begin = Instant::now();
            }
        }
    }

    /// Starts the co-runner and lets it run for its lead.
    fn co_runner(&self, interferers: &[&Interferer], cgroup: TenantCgroup) -> Result<CoRunner, String> {
        let mut sessions = Vec::new();
        for interferer in interferers {
            let mut command = self.setup.command(&interferer.recipe);
            cgroup.hold(&mut command).map_err(|e| format!("cannot hold {}: {e}", interferer.name))?;
            sessions
                .push(Session::start(command).map_err(|e| format!("cannot start {}: {e}", interferer.name))?);
        }
        let half = Duration::from_nanos(self.study.lead / 2);
        std::thread::sleep(half);
        let (at, before) = (Instant::now(), cgroup.cpu_ns());
        std::thread::sleep(half);
        let used = cgroup.cpu_ns().zip(before).map(|(after, before)| after.saturating_sub(before));
        let used = used.filter(|&ns| ns > 0).ok_or("the co-runner does nothing")?;
        let rate_alone = used as f64 / at.elapsed().as_nanos() as f64;
        Ok(CoRunner { _sessions: sessions, cgroup, rate_alone })
    }

    /// Starts `corun control` and waits for its first decisions.
    ///
    /// The study runs the program, not the library. Users pay for a controller with the CPU time of a whole process. It has its own
    /// cgroup, in which nothing else of the study runs.
    fn controller(&self, policy: &[String], tenants: &[String]) -> Result<Controller, String> {
        let cgroup = TenantCgroup::new(&self.root, "control")?;
        let lines = self.folder.join("control.jsonl");
        let complaint = self.folder.join("control.txt");
        let (out, err) = (std::fs::File::create(&lines), std::fs::File::create(&complaint));
        let cannot = |e: std::io::Error| format!("cannot start corun control: {e}");
        // A session discards the output of its command. A shell writes the controller's output to a file.
        drop(out.map_err(cannot)?);
        let mut command = Command::new("sh");
        command.args(["-c", "exec \"$0\" \"$@\" > \"$LINES\""]).arg(&self.corun).arg("control").args(policy);
        command.args(["--json-lines", "--quiet", "--backend", &self.study.backend]);
        tenants.iter().for_each(|t| {
            command.args(["--tenant", t]);
        });
        command.env("LINES", &lines).stderr(err.map_err(cannot)?);
        cgroup.hold(&mut command).map_err(cannot)?;
        let session = Session::start(command).map_err(cannot)?;
        let mut controller = Controller { session, cgroup, complaint };
        let begin = Instant::now();
        while std::fs::metadata(&lines).map_or(0, |m| m.len()) == 0 {
            if controller.session.ended().ok().flatten().is_some() || begin.elapsed() > CONTROLLER {
                return Err(format!("corun control did not begin: {}", controller.complaint()));
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(controller)
    }
}

impl Mix<'_> {
    fn tenants(&self) -> usize {
        self.programs.len() + usize::from(!self.co_runner.is_empty())
    }
}

impl Running<'_> {
    fn result(&self, alone_ns: Option<u64>, window_ns: u64) -> TenantRun {
        let complete = self.walls_ns.len() as u64;
        let wall_ns = (complete > 0).then(|| self.walls_ns.iter().sum::<u64>() / complete);
        // A program that was cut off takes at least this long.
        let at_least = wall_ns.unwrap_or(window_ns);
        TenantRun {
            name: self.program.name.clone(),
            runs: complete as u32,
            wall_ns,
            slowdown: alone_ns.map(|alone| at_least as f64 / alone as f64),
            cpu_ns: self.cgroup.cpu_ns().unwrap_or(0),
            preemptions: (complete > 0).then_some(self.preemptions),
            kept: None,
        }
    }
}

/// The tenant that never ends.
struct CoRunner {
    _sessions: Vec<Session>,
    cgroup: TenantCgroup,
    /// CPUs that it used while it ran alone.
    rate_alone: f64,
}

/// `corun control` while it runs.
struct Controller {
    session: Session,
    cgroup: TenantCgroup,
    complaint: PathBuf,
}

impl Controller {
    /// Asks it to undo everything and to end.
    fn end(mut self) -> Result<(), String> {
        self.session.ask_to_end();
        let ended = self.session.ends_within(Some(CONTROLLER)).map_err(|e| e.to_string())?;
        match ended {
            Some(status) if status.success() => Ok(()),
            Some(status) => Err(format!("corun control failed ({status}): {}", self.complaint())),
            None => Err("corun control did not end when it was asked to".into()),
        }
    }

    fn complaint(&self) -> String {
        let text = std::fs::read_to_string(&self.complaint).unwrap_or_default();
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }
}

/// Involuntary switches of all children that were waited for, and of their children.
fn preemptions_of_the_dead() -> u64 {
    // SAFETY: all-zero is a valid rusage, which the kernel fills in.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_CHILDREN, &mut usage);
        usage
    };
    usage.ru_nivcsw as u64
}
