//! A study's runs on this machine: real processes, each in its own session, watched from outside.
//!
//! Method. All runs have the same pace (loops per millisecond), so a program does the same work solo and in a co-run. The cells of a
//! program run in small groups between solo runs of that program. A co-run is compared with the mean of the two solo runs around it. So
//! slow drift of the machine, as on a shared host, does not enter the slowdowns. Repetitions are whole passes over all cells, so those
//! of one cell are minutes apart. The wall time is that of the program itself, from its first thread's start to its last one's end,
//! without process start and exit.
//!
//! The ledger is that of the program's worker threads from their start to their end, by the probe or `schedstat`. No scheduler can see
//! how much of their CPU time was spinning; the program measures that with its own clock.
//!
//! Each run waits until the machine looks quiet, and counts only if it stayed quiet. CPU time of neither the program nor the interferer
//! must be below a share. That is the time of other processes, of kernel threads, of this study, and of the hypervisor if it reports
//! any. Limits: a hypervisor that does not report steal time is noticed only through the solo runs. The probe costs about 0.3 µs per
//! context switch, in solo runs and co-runs alike.

use crate::hash::fnv1a;
use crate::session::Session;
use crate::validate::cell::{Cell, Interferer, Recurrent, Subject};
use crate::validate::cell_outcome::{Live, LiveRun, Shares};
use crate::validate::file::ValidateStudy;
use crate::validate::real::{Beside, RealOutcome};
use crate::validate::real_program::RealProgram;
use crate::validate::solo_fit::SoloProfile;
use corun_linux::watcher::{Source, Watcher};
use corun_model::workload::draw;
use corun_model::{Host, HostError, Observation, TaskId, TenantId};
use serde::Deserialize;
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};
use thiserror::Error;

/// The longest co-run, relative to the solo length of its program.
const MOST_SLOWDOWN: u64 = 60;
/// Cells between two solo runs of their program.
const GROUP: usize = 4;
/// The length of a check of the machine before a run, in nanoseconds.
const LOOK_NS: u64 = 150_000_000;
/// The pause between two checks.
const PAUSE: Duration = Duration::from_millis(500);
/// How often a polling watcher looks while a program runs. The probe does not poll, so with it nothing of the study runs next to a
/// program: a task that wakes up for a moment makes the scheduler choose again.
const POLL: Duration = Duration::from_millis(20);

/// How long the machine is watched for its background.
const BACKGROUND_NS: u64 = 5_000_000_000;
/// A task with this many wake-ups in that time belongs to the background.
const BACKGROUND_WAKEUPS: u64 = 5;
/// The longest mean burst of such a task.
const BRIEF_NS: u64 = 2_000_000;
/// The most background tasks that are modelled, the most frequent first.
const MOST_BACKGROUND: usize = 16;

/// The live runs cannot go on.
#[derive(Debug, Error)]
pub enum LiveError {
    /// A process of the study could not be started.
    #[error("cannot run {what}: {error}")]
    Process {
        /// The process.
        what: String,
        /// The kernel's error.
        error: io::Error,
    },
    /// A process of the study failed.
    #[error("{what} failed: {how}")]
    Failed {
        /// The process.
        what: String,
        /// How it failed.
        how: String,
    },
    /// The machine can no longer be watched.
    #[error(transparent)]
    Host(#[from] HostError),
}

/// The tasks that wake up again and again on an otherwise idle machine, from watching for [`BACKGROUND_NS`]. Only tasks with short
/// bursts count. A task that computes for long is not background, and makes runs not count.
///
/// # Errors
/// [`LiveError`] if the machine can no longer be watched.
pub fn background(watcher: &mut Watcher) -> Result<Vec<Recurrent>, LiveError> {
    watcher.observe()?;
    watcher.advance(BACKGROUND_NS)?;
    let seen = watcher.observe()?;
    let own = seen.tasks.iter().find(|t| t.id == TaskId(std::process::id())).map(|t| t.tenant);
    let mut all: Vec<Recurrent> = seen
        .tasks
        .iter()
        .filter(|t| Some(t.tenant) != own)
        .filter_map(|t| {
            let wakeups = t.account.events.wakeups.filter(|&n| n >= BACKGROUND_WAKEUPS)?;
            let burst_ns = t.account.ledger.on_cpu_ns() / wakeups;
            let every_ns = seen.window_ns() / wakeups;
            (1..=BRIEF_NS).contains(&burst_ns).then_some(Recurrent { every_ns, burst_ns })
        })
        .collect();
    all.sort_by_key(|r| (r.every_ns, r.burst_ns));
    all.truncate(MOST_BACKGROUND);
    Ok(all)
}

/// The fields that the study needs from a report of `corun load`.
#[derive(Debug, Deserialize)]
struct LoadReport {
    ended: String,
    wall_ns: u64,
    threads: Vec<ThreadReport>,
}

#[derive(Debug, Deserialize)]
struct ThreadReport {
    tid: u32,
    waiting: Option<Waiting>,
}

#[derive(Debug, Deserialize)]
struct Waiting {
    spin_ns: u64,
}

/// One run, whether it counts or not.
struct Made {
    wall_ns: u64,
    ledger: Option<Shares>,
    interferer_demand: f64,
    foreign: f64,
    cut_off: bool,
}

/// A run that counts, and how many before it did not.
struct Tried {
    made: Option<Made>,
    rejected: u32,
}

/// The state that all live runs share.
pub struct Arm<'a> {
    study: &'a ValidateStudy,
    corun: PathBuf,
    loops_per_ms: u64,
    watcher: &'a mut Watcher,
    folder: tempfile::TempDir,
}

impl<'a> Arm<'a> {
    /// Prepares live runs of `study`. `corun` is the path of the corun executable, which provides the loads.
    ///
    /// # Errors
    /// [`LiveError`]: temporary files cannot be made.
    pub fn new(
        study: &'a ValidateStudy,
        corun: &Path,
        loops_per_ms: u64,
        watcher: &'a mut Watcher,
    ) -> Result<Arm<'a>, LiveError> {
        let folder = tempfile::tempdir().map_err(|error| LiveError::Process {
            what: "a study without a temporary folder".into(),
            error,
        })?;
        Ok(Arm { study, corun: corun.to_owned(), loops_per_ms, watcher, folder })
    }

    /// How many runs [`Arm::run`] makes if none is rejected: for a progress bar.
    pub fn runs(study: &ValidateStudy, cells: &[Cell]) -> u64 {
        let of_program = |cells: &[&Cell]| cells.len() + cells.len().div_ceil(GROUP) + 1;
        u64::from(study.repetitions) * by_program(cells).iter().map(|c| of_program(c) as u64).sum::<u64>()
    }

    /// Runs every cell. Calls `done` after every run with a description.
    ///
    /// # Errors
    /// [`LiveError`]; no process of the study is left running.
    pub fn run(&mut self, cells: &[Cell], done: &mut dyn FnMut(&str)) -> Result<Vec<Live>, LiveError> {
        let mut all: Vec<Live> = vec![Live::default(); cells.len()];
        let place = |cell: &Cell| cells.iter().position(|c| c == cell).expect("it is one of them");
        for seed in 1..=u64::from(self.study.repetitions) {
            for of_program in by_program(cells) {
                let mut before = self.solo(&of_program[0].subject, done)?;
                for group in of_program.chunks(GROUP) {
                    let mut tries = Vec::new();
                    for cell in group {
                        tries.push((place(cell), self.until_quiet(|arm| arm.co_run(cell, seed))?));
                        done(&cell.name);
                    }
                    let after = self.solo(&group[0].subject, done)?;
                    let around: Vec<u64> = [before, after].into_iter().flatten().collect();
                    for (i, tried) in tries {
                        all[i].add(seed, tried, &around);
                    }
                    before = after;
                }
            }
        }
        Ok(all)
    }

    /// Solo length of the program, in nanoseconds. `None` without a quiet moment.
    fn solo(&mut self, subject: &Subject, done: &mut dyn FnMut(&str)) -> Result<Option<u64>, LiveError> {
        let text = subject.workload();
        let tried = self.until_quiet(|arm| arm.program(&text, None))?;
        done(&subject.name());
        Ok(tried.made.map(|m| m.wall_ns))
    }

    fn until_quiet(
        &mut self,
        mut make: impl FnMut(&mut Self) -> Result<Made, LiveError>,
    ) -> Result<Tried, LiveError> {
        let mut rejected = 0;
        loop {
            self.wait_for_quiet()?;
            let made = make(self)?;
            if made.foreign <= self.study.foreign {
                return Ok(Tried { made: Some(made), rejected });
            }
            rejected += 1;
            if rejected > self.study.retries {
                return Ok(Tried { made: None, rejected });
            }
        }
    }

    /// Returns when other programs leave the machine alone, or when the patience is over.
    fn wait_for_quiet(&mut self) -> Result<(), LiveError> {
        let begin = Instant::now();
        loop {
            self.watcher.observe()?;
            self.watcher.advance(LOOK_NS)?;
            let seen = self.watcher.observe()?;
            if taken_by_others(&seen, 0) <= self.study.foreign
                || begin.elapsed().as_nanos() as u64 > self.study.patience
            {
                return Ok(());
            }
            std::thread::sleep(PAUSE);
        }
    }

    fn co_run(&mut self, cell: &Cell, seed: u64) -> Result<Made, LiveError> {
        let interferer = self.interferer(&cell.interferer, &cell.name, seed)?;
        self.program(&cell.subject.workload(), Some(interferer))
    }

    /// Starts the interferer of the cell `name` and lets it run for its lead.
    fn interferer(&self, interferer: &Interferer, name: &str, seed: u64) -> Result<Session, LiveError> {
        let session = self.start("interferer", &interferer.workload(seed), None)?;
        // Each repetition has another phase of the interferer, which is not left to chance.
        let phase = draw::bits(seed, fnv1a(name.as_bytes()), 0) % self.study.spread.max(1);
        std::thread::sleep(Duration::from_nanos(self.study.lead + phase));
        Ok(session)
    }

    /// How many runs [`Arm::real`] makes of a program if none is rejected.
    pub fn real_runs(study: &ValidateStudy) -> u64 {
        let n = study.interferers().len();
        1 + u64::from(study.repetitions) * (n + n.div_ceil(GROUP) + 1) as u64
    }

    /// Runs a real program solo, which gives its profile, and then with every interferer, between solo runs. Calls `done` after every
    /// run. A program that is not installed, or had no quiet moment for its profile, is skipped with the reason.
    ///
    /// # Errors
    /// [`LiveError`]; no process of the study is left running.
    pub fn real(
        &mut self,
        program: &RealProgram,
        done: &mut dyn FnMut(&str),
    ) -> Result<RealOutcome, LiveError> {
        if let Err(why) = program.ready(self.folder.path()) {
            return Ok(RealOutcome::skipped(program.clone(), why));
        }
        let mut profile = None;
        self.until_quiet(|arm| {
            let (made, seen) = arm.command(program, None)?;
            profile = seen.and_then(|(seen, tenant)| SoloProfile::of(&seen, tenant, made.wall_ns));
            Ok(made)
        })?;
        done(&program.name);
        let Some(profile) = profile else {
            return Ok(RealOutcome::skipped(program.clone(), "its threads could not be seen".into()));
        };
        let mut beside: Vec<Beside> = self.study.interferers().into_iter().map(Beside::new).collect();
        for seed in 1..=u64::from(self.study.repetitions) {
            let mut before = self.real_solo(program, done)?;
            for group in beside.chunks_mut(GROUP) {
                let mut tries = Vec::new();
                for b in group.iter() {
                    let name = program.beside(&b.interferer);
                    tries.push(self.until_quiet(|arm| {
                        let interferer = arm.interferer(&b.interferer, &name, seed)?;
                        Ok(arm.command(program, Some(interferer))?.0)
                    })?);
                    done(&name);
                }
                let after = self.real_solo(program, done)?;
                let around: Vec<u64> = [before, after].into_iter().flatten().collect();
                for (b, tried) in group.iter_mut().zip(tries) {
                    b.live.get_or_insert_default().add(seed, tried, &around);
                }
                before = after;
            }
        }
        Ok(RealOutcome {
            program: program.clone(),
            profile: Some(profile),
            skipped: None,
            fitted: None,
            beside,
        })
    }

    fn real_solo(
        &mut self,
        program: &RealProgram,
        done: &mut dyn FnMut(&str),
    ) -> Result<Option<u64>, LiveError> {
        let tried = self.until_quiet(|arm| Ok(arm.command(program, None)?.0))?;
        done(&program.name);
        Ok(tried.made.map(|m| m.wall_ns))
    }

    /// Runs a real program to its end, alone or with an interferer that already runs, and closes the window around it. Also returns the
    /// program's tenant in that window, if it was seen.
    fn command(
        &mut self,
        program: &RealProgram,
        interferer: Option<Session>,
    ) -> Result<(Made, Option<(Observation, TenantId)>), LiveError> {
        let failed = |how: String| LiveError::Failed { what: format!("`{}`", program.name), how };
        self.watcher.observe()?;
        let began = Instant::now();
        let mut session = Session::start(program.command(self.folder.path()))
            .map_err(|error| LiveError::Process { what: format!("`{}`", program.name), error })?;
        let status = self.until_ended(&mut session)?;
        let wall_ns = began.elapsed().as_nanos() as u64;
        let seen = self.watcher.observe()?;
        if !status.success() {
            return Err(failed(status.to_string()));
        }
        let other = interferer.as_ref().map(Session::pid);
        drop(interferer);
        let tenant = tenant_of(&seen, session.pid());
        let workers = tenant.map(|t| SoloProfile::main_tasks(&seen, t)).unwrap_or_default();
        let ledger: corun_model::Ledger = workers.iter().map(|t| t.account.ledger).sum();
        let parts = ledger.parts();
        let shares = Shares::of(parts.compute_ns, 0, parts.block_ns, parts.steal_ns);
        let made =
            Made { wall_ns, ledger: shares, cut_off: false, ..Made::around(&seen, session.pid(), other) };
        Ok((made, tenant.map(|t| (seen, t))))
    }

    fn until_ended(&mut self, session: &mut Session) -> Result<ExitStatus, LiveError> {
        let polls = self.watcher.source() == Source::Schedstat;
        loop {
            match session.ends_within(polls.then_some(POLL)) {
                Ok(Some(status)) => return Ok(status),
                Ok(None) => self.watcher.advance(0)?,
                Err(error) => {
                    return Err(LiveError::Process { what: "a program of the study".into(), error })
                }
            }
        }
    }

    fn start(&self, role: &str, workload: &str, limit_ns: Option<u64>) -> Result<Session, LiveError> {
        let process = |error| LiveError::Process { what: format!("the {role}"), error };
        let file = self.folder.path().join(format!("{role}.toml"));
        std::fs::write(&file, workload).map_err(process)?;
        let mut command = Command::new(&self.corun);
        command.arg("load").arg(&file).arg("--quiet");
        command.arg("--loops-per-ms").arg(self.loops_per_ms.to_string());
        command.arg("--json").arg(self.report_of(role));
        if let Some(ns) = limit_ns {
            command.arg("--duration").arg(format!("{ns}ns"));
        }
        Session::start(command).map_err(process)
    }

    fn report_of(&self, role: &str) -> PathBuf {
        self.folder.path().join(format!("{role}.json"))
    }

    /// Runs a program to its end, alone or with an interferer that already runs, and closes the window around it.
    fn program(&mut self, workload: &str, interferer: Option<Session>) -> Result<Made, LiveError> {
        let failed = |how: String| LiveError::Failed { what: "the program of a cell".into(), how };
        let limit_ns = MOST_SLOWDOWN * self.study.programs.work;
        self.watcher.observe()?;
        let mut session = self.start("subject", workload, Some(limit_ns))?;
        let status = self.until_ended(&mut session)?;
        let seen = self.watcher.observe()?;
        if !status.success() {
            return Err(failed(status.to_string()));
        }
        let text = std::fs::read_to_string(self.report_of("subject")).map_err(|e| failed(e.to_string()))?;
        let report: LoadReport = serde_json::from_str(&text).map_err(|e| failed(e.to_string()))?;
        let other = interferer.as_ref().map(Session::pid);
        drop(interferer);
        Ok(made(&seen, &report, session.pid(), other))
    }
}

/// Makes one run from the window around it and the program's own report.
fn made(seen: &Observation, report: &LoadReport, subject: u32, interferer: Option<u32>) -> Made {
    let workers: BTreeSet<TaskId> = report.threads.iter().map(|t| TaskId(t.tid)).collect();
    let found: Vec<_> = seen.tasks.iter().filter(|t| workers.contains(&t.id)).collect();
    let spin_ns: u64 = report.threads.iter().filter_map(|t| t.waiting.as_ref()).map(|w| w.spin_ns).sum();
    let ledger = (found.len() == workers.len()).then(|| {
        let ledger: corun_model::Ledger = found.iter().map(|t| t.account.ledger).sum();
        let ledger = ledger.with_spin(spin_ns);
        let parts = ledger.parts();
        Shares::of(parts.compute_ns, parts.spin_ns.unwrap_or(0), parts.block_ns, parts.steal_ns)
    });
    Made {
        wall_ns: report.wall_ns,
        ledger: ledger.flatten(),
        cut_off: report.ended != "completed",
        ..Made::around(seen, subject, interferer)
    }
}

fn tenant_of(seen: &Observation, pid: u32) -> Option<TenantId> {
    seen.tasks.iter().find(|t| t.id == TaskId(pid)).map(|t| t.tenant)
}

impl Made {
    /// The CPU time of others in the window around a program: of the interferer, and of any other tenant.
    fn around(seen: &Observation, subject: u32, interferer: Option<u32>) -> Made {
        let cpu_ns = |tenant: Option<TenantId>| -> u64 {
            let of = seen.by_tenant.iter().filter(|t| Some(t.id) == tenant);
            of.map(|t| t.account.ledger.on_cpu_ns()).sum()
        };
        let interferer_ns = cpu_ns(interferer.and_then(|pid| tenant_of(seen, pid)));
        let subject_ns = cpu_ns(tenant_of(seen, subject));
        Made {
            wall_ns: seen.window_ns(),
            ledger: None,
            interferer_demand: interferer_ns as f64 / seen.window_ns().max(1) as f64,
            foreign: taken_by_others(seen, subject_ns + interferer_ns),
            cut_off: false,
        }
    }
}

/// Share of the machine's CPU time in a window that nothing of the study used, including time that the hypervisor stole.
fn taken_by_others(seen: &Observation, own_ns: u64) -> f64 {
    let busy_ns: u64 = seen.cpus.iter().map(|c| c.busy_ns).sum();
    let taken_ns = busy_ns.saturating_sub(own_ns) + seen.machine.host_steal_ns.unwrap_or(0);
    taken_ns as f64 / (seen.window_ns().max(1) as f64 * seen.cpus.len().max(1) as f64)
}

impl Live {
    fn add(&mut self, seed: u64, tried: Tried, solo_ns: &[u64]) {
        self.rejected += tried.rejected;
        let n = solo_ns.len() as u64;
        match (tried.made, n) {
            (Some(made), 1..) => {
                let solo_ns = solo_ns.iter().sum::<u64>() / n;
                self.runs.push(LiveRun {
                    seed,
                    wall_ns: made.wall_ns,
                    solo_ns,
                    slowdown: made.wall_ns as f64 / solo_ns as f64,
                    ledger: made.ledger,
                    interferer_demand: made.interferer_demand,
                    foreign: made.foreign,
                    cut_off: made.cut_off,
                });
            }
            _ => self.missing += 1,
        }
    }
}

/// Groups cells by program, in the order of the programs.
fn by_program(cells: &[Cell]) -> Vec<Vec<&Cell>> {
    let mut groups: Vec<Vec<&Cell>> = Vec::new();
    for cell in cells {
        match groups.iter_mut().find(|g| g[0].subject == cell.subject) {
            Some(group) => group.push(cell),
            None => groups.push(vec![cell]),
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validate::file::VALIDATE;
    use corun_model::ledger::Parts;
    use corun_model::observation::{Account, CpuTime, TaskObservation, TenantObservation};
    use corun_model::{CpuId, Ledger};

    fn task(id: u32, tenant: u32, compute_ns: u64, steal_ns: u64) -> TaskObservation {
        let parts = Parts { compute_ns, steal_ns, ..Parts::default() };
        let ledger = Ledger::new(parts, compute_ns + steal_ns).unwrap();
        TaskObservation {
            id: TaskId(id),
            name: "t".into(),
            tenant: TenantId(tenant),
            born_ns: 0,
            alive: false,
            last_cpu: None,
            account: Account { ledger, ..Account::default() }.into(),
        }
    }

    /// A program (PID 10, worker 11) with an interferer (PID 20) and a stranger (PID 30) on two CPUs for 100 ns.
    fn window() -> Observation {
        let tasks = vec![task(10, 1, 2, 0), task(11, 1, 60, 40), task(20, 2, 90, 10), task(30, 3, 8, 0)];
        let by_tenant = [1, 2, 3].map(|id| {
            let own = tasks.iter().filter(|t| t.tenant == TenantId(id));
            let account = own.fold(Account::default(), |a, t| a.plus(&t.account));
            TenantObservation { id: TenantId(id), tasks: 1, account }
        });
        let cpu = |cpu, busy_ns| CpuTime {
            cpu: CpuId(cpu),
            idle_ns: 100 - busy_ns,
            busy_ns,
            unknown_ns: 0,
            host_steal_ns: None,
        };
        Observation {
            start_ns: 0,
            end_ns: 100,
            tasks,
            by_tenant: by_tenant.to_vec(),
            cpus: vec![cpu(0, 100), cpu(1, 60)],
            ..Observation::default()
        }
    }

    fn report(tid: u32) -> LoadReport {
        let waiting = Some(Waiting { spin_ns: 20 });
        LoadReport { ended: "completed".into(), wall_ns: 100, threads: vec![ThreadReport { tid, waiting }] }
    }

    #[test]
    fn a_run_is_the_workers_ledger_with_their_own_spinning_and_the_time_of_strangers() {
        let m = made(&window(), &report(11), 10, Some(20));
        assert_eq!(m.ledger, Shares::of(40, 20, 0, 40));
        assert!((m.interferer_demand - 0.9).abs() < 1e-9);
        // 160 ns busy, of which 62 are the program's and 90 the interferer's.
        assert!((m.foreign - 8.0 / 200.0).abs() < 1e-9, "{}", m.foreign);
    }

    #[test]
    fn a_worker_that_was_not_seen_leaves_the_ledger_unknown() {
        assert_eq!(made(&window(), &report(99), 10, None).ledger, None);
    }

    #[test]
    fn a_repetition_without_a_quiet_moment_is_missing_and_its_attempts_are_counted() {
        let mut live = Live::default();
        live.add(1, Tried { made: None, rejected: 5 }, &[100]);
        let made = || Some(made(&window(), &report(11), 10, Some(20)));
        live.add(2, Tried { made: made(), rejected: 1 }, &[40, 60]);
        live.add(3, Tried { made: made(), rejected: 0 }, &[]);
        assert_eq!((live.runs.len(), live.rejected, live.missing), (1, 6, 2));
        assert!((live.runs[0].slowdown - 2.0).abs() < 1e-9);
    }

    #[test]
    fn cells_are_grouped_by_program_and_every_group_has_a_solo_run_on_both_sides() {
        let study = ValidateStudy::parse("v", VALIDATE).unwrap();
        let cells = study.cells();
        assert_eq!(by_program(&cells).len(), 24);
        // Per program and pass: 8 co-runs and 3 solo runs.
        assert_eq!(Arm::runs(&study, &cells), 3 * 24 * 11);
    }
}
