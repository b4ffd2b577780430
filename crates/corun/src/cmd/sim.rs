//! `corun sim`: a scenario on a modelled machine, compared with solo runs.

mod recording;

use crate::reading::text_of;
use crate::usage::{check_files, Usage};
use anyhow::Context;
use corun_linux::Root;
use corun_model::duration::parse_ns;
use corun_report::output::{is_stdout, print, write_file};
use corun_report::places::unread;
use corun_report::progress::Progress;
use corun_report::sim::{self, SimReport};
use corun_report::{html, perfetto, terminal, Subject};
use corun_sim::experiment::{self, Failure, Options, Outcome};
use corun_sim::machine_file::MachineModel;
use corun_sim::replay::Recorded;
use corun_sim::scenario::{Files, PolicySpec, Scenario, SchedulerKind};
use corun_study::simulated::{first_run, policy, recorded, report};
use corun_study::this_machine::this_machine;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Exit code if a checker of the engine fires: corun itself is wrong.
const BUG: u8 = 70;

/// Events that a trace may hold: about 200 MiB as a Perfetto file.
const TRACE_EVENTS: usize = 4_000_000;

const EXAMPLES: &str = "\
Examples:
  corun sim scenarios/lu-beside-a-loop.toml                 slowdowns, fairness, where the time went
  corun sim scenarios/lu-beside-a-loop.toml --seeds 10      the same with intervals
  corun sim my.toml --machine host --scheduler eevdf        on a model of this machine
  corun sim my.toml --baseline cfs --json out.json          how much better than under CFS
  corun sim my.toml --html report.html --trace run.pftrace  a page, and a timeline
  corun sim --from corun.rec                                a recorded run, with its co-runners
  corun sim --from corun.rec --policy gang --cpus 4         under a policy, on four CPUs

Exit status: 0 done; 2 the scenario is at fault; 70 the model is (the message says how to replay it).";

/// Run programs on a modelled machine and compare with each of them alone
#[derive(Debug, clap::Args)]
#[command(arg_required_else_help = true, after_help = EXAMPLES)]
pub struct Args {
    /// The scenario: machine, scheduler, tenants, seeds
    #[arg(value_name = "SCENARIO.toml", required_unless_present = "from")]
    scenario: Option<PathBuf>,
    /// Instead of a scenario: a recording of `corun record`, with its co-runners as loops that want as much CPU time
    #[arg(long, value_name = "FILE", conflicts_with = "scenario")]
    from: Option<PathBuf>,
    /// The number of CPUs, instead of that of the recorded machine
    #[arg(long, value_name = "N", requires = "from", conflicts_with = "machine", value_parser = clap::value_parser!(u32).range(1..=1024))]
    cpus: Option<u32>,
    /// Another policy, with its defaults; `corun policies` lists them
    #[arg(long, value_name = "NAME", value_parser = policy_by_name)]
    policy: Option<PolicySpec>,
    /// Run this many seeds, from the scenario's first on
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=10_000), conflicts_with = "seed")]
    seeds: Option<u64>,
    /// Run this seed only
    #[arg(long, value_name = "SEED")]
    seed: Option<u64>,
    /// Another machine: one of the papers', a machine file, or `host`
    #[arg(long, value_name = "MACHINE")]
    machine: Option<String>,
    /// Another scheduler: eevdf, cfs, xen-credit
    #[arg(long, value_name = "NAME", value_parser = scheduler)]
    scheduler: Option<SchedulerKind>,
    /// Compare with the same scenario under this scheduler, without its policy
    #[arg(long, value_name = "NAME", value_parser = scheduler)]
    baseline: Option<SchedulerKind>,
    /// Write the report as JSON (schema corun.sim/1); `-` is standard output, instead of the text
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write a page: slowdowns and the other figures, and the first seed's profile
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write the first seed's timeline for ui.perfetto.dev
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Show no progress
    #[arg(long, short)]
    quiet: bool,
    /// For tests of corun itself: the engine miscounts a nanosecond at this time, and a checker must find it
    #[arg(long, hide = true, value_name = "TIME", value_parser = parse_ns)]
    miscount_at: Option<u64>,
}

fn scheduler(name: &str) -> Result<SchedulerKind, String> {
    SchedulerKind::by_name(name).ok_or_else(|| "name one of eevdf, cfs, xen-credit".into())
}

fn policy_by_name(name: &str) -> Result<PolicySpec, String> {
    PolicySpec::new(name, corun_policy::Options::new()).map_err(|bad| bad.to_string())
}

/// The files that a scenario names, relative to its folder; or a flag's, relative to the current one.
struct Folder {
    path: PathBuf,
    /// Which it is, for people.
    which: &'static str,
}

impl Files for Folder {
    fn read(&self, path: &str) -> Result<(String, String), String> {
        let full = self.path.join(path);
        let text = text_of(&full).map_err(|e| match e.kind() {
            std::io::ErrorKind::NotFound => {
                format!("there is no file {}; paths are relative to {}", full.display(), self.which)
            }
            _ => format!("cannot read {}: {}", full.display(), unread(&full, &e)),
        })?;
        Ok((full.display().to_string(), text))
    }

    fn host(&self) -> Result<MachineModel, String> {
        this_machine(&Root::new("/")).map_err(|e| e.to_string())
    }
}

/// Runs the verb.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let recording = args.from.as_deref().map(recording::recorded).transpose()?;
    let scenario = read(&args, recording.as_ref())?;
    check_files([&args.json, &args.html, &args.trace].into_iter().flatten())?;
    let options = Options {
        baseline: args.baseline,
        trace_limit: if args.trace.is_some() { TRACE_EVENTS } else { 0 },
        miscount_ns: args.miscount_at,
    };
    let progress = Progress::count("simulating", experiment::runs(&scenario, &options) as u64, args.quiet);
    let outcome = experiment::perform(&scenario, &options, &|| progress.step());
    drop(progress);
    let outcome = match outcome {
        Ok(outcome) => outcome,
        Err(Failure::Scenario(bad)) => return Err(Usage(bad.to_string()).into()),
        Err(Failure::Bug { seed, what }) => {
            eprintln!("corun: the modelled machine is wrong: {what}");
            eprintln!(
                "corun: scenario {}, seed {seed}; replay with: {}",
                args.source().display(),
                args.replay(seed)
            );
            return Ok(ExitCode::from(BUG));
        }
    };
    let target = args.source().display().to_string();
    let made = report(&scenario, &outcome, target, args.baseline.map(|b| b.name()));
    let mut report = made.context("nothing was seen")?;
    if let Some(recording) = &recording {
        report.unavailable.extend(recorded::left_out(recording));
        report.recorded = Some(recorded::facts(recording));
    }
    write(&scenario, &report, &outcome, &args)?;
    Ok(ExitCode::SUCCESS)
}

fn read(args: &Args, recorded: Option<&Recorded>) -> anyhow::Result<Scenario> {
    let path = args.source();
    let bad = |e: corun_sim::scenario::BadScenario| Usage(e.to_string());
    let mut scenario = match recorded {
        Some(recorded) => recording::scenario(path, recorded, args.cpus)?,
        None => {
            let text = text_of(path)
                .map_err(|e| Usage(format!("cannot read {}: {}", path.display(), unread(path, &e))))?;
            let beside = path.parent().unwrap_or(Path::new("")).to_path_buf();
            let folder = Folder { path: beside, which: "the scenario's folder" };
            Scenario::parse(&path.display().to_string(), &text, &folder).map_err(bad)?
        }
    };
    if let Some(policy) = &args.policy {
        scenario.policy = Some(policy.clone());
    }
    if let Some(machine) = &args.machine {
        let here = Folder { path: PathBuf::new(), which: "the current folder" };
        scenario = scenario.on_machine(machine, &here).map_err(bad)?;
    }
    if let Some(kind) = args.scheduler {
        scenario.scheduler.name = kind;
    }
    let first = scenario.seeds[0];
    match (args.seed, args.seeds) {
        (Some(seed), _) => scenario.seeds = vec![seed],
        (None, Some(n)) => {
            let too_many = || Usage(format!("--seeds {n}: from {first} on there are fewer; give less"));
            let last = first.checked_add(n - 1).ok_or_else(too_many)?;
            scenario.seeds = (first..=last).collect();
        }
        (None, None) => {}
    }
    Ok(scenario)
}

impl Args {
    /// The file that says what runs.
    fn source(&self) -> &Path {
        self.from.as_deref().or(self.scenario.as_deref()).unwrap_or(Path::new(""))
    }

    /// The command that repeats the same run.
    fn replay(&self, seed: u64) -> String {
        let from = if self.from.is_some() { "--from " } else { "" };
        let mut command = format!("corun sim {from}{} --seed {seed}", self.source().display());
        if let Some(cpus) = self.cpus {
            command += &format!(" --cpus {cpus}");
        }
        if let Some(policy) = &self.policy {
            command += &format!(" --policy {}", policy.name);
        }
        if let Some(machine) = &self.machine {
            command += &format!(" --machine {machine}");
        }
        if let Some(kind) = self.scheduler {
            command += &format!(" --scheduler {}", kind.name());
        }
        if let Some(kind) = self.baseline {
            command += &format!(" --baseline {}", kind.name());
        }
        if let Some(at_ns) = self.miscount_at {
            command += &format!(" --miscount-at {at_ns}ns");
        }
        command
    }
}

/// Writes the requested files; the terminal comes last.
fn write(scenario: &Scenario, report: &SimReport, outcome: &Outcome, args: &Args) -> anyhow::Result<()> {
    let is_shown = args.html.is_some() || args.trace.is_some();
    let shown = first_run(outcome).filter(|_| is_shown);
    let controlled = shown.and_then(|r| policy::Kept::of(scenario, r, &outcome.runs[0]));
    if let Some(path) = &args.json {
        write_file(path, sim::json(report).as_bytes())?;
    }
    if let Some(path) = &args.html {
        let decisions = controlled.as_ref().map_or_else(String::new, |c| c.sections(&report.profile));
        write_file(path, html::render_modelled(report, &decisions).as_bytes())?;
    }
    if let (Some(path), Some(trace), Some((_, windows))) = (&args.trace, &outcome.runs[0].trace, shown) {
        let mut bytes = perfetto::encode(trace, windows, Subject::All);
        bytes.extend(controlled.iter().flat_map(|c| c.tracks(&report.profile)));
        write_file(path, &bytes)?;
    }
    if !args.json.as_deref().is_some_and(is_stdout) {
        // For a recording the question is how long it takes; --html has where time goes on the modelled
        // machine.
        let profile = match report.recorded {
            Some(_) => String::new(),
            None => terminal::render(&report.profile, &terminal::Style::of_stdout()),
        };
        let written = [&args.json, &args.html, &args.trace].into_iter().flatten();
        let wrote: String = written.map(|path| format!("wrote {}\n", path.display())).collect();
        print(&format!("{}\n{profile}{wrote}", sim::text(report)))?;
    }
    Ok(())
}
