//! `corun load`: from flags or a workload file to a program, and from its report to terminal and JSON. With a target,
//! the program is interference that a victim's ledger steers.

mod flags;
mod victim;

use crate::lines;
use crate::reading::text_of;
use crate::usage::{check_files, Usage};
use clap::Subcommand;
use corun_linux::limits;
use corun_load::{Goal, Hold, Options, Progress, Report, Stop};
use corun_model::workload::{Interference, MicroKind, Parallel, Pattern, Program, Workload};
use corun_report::json;
use corun_report::output::{is_stdout, print, write_file};
use corun_report::places::unread;
use flags::{Bursts, Crew, MicroFlags, Ns, ParallelFlags, RandomBursts, TargetFlags};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use victim::Victim;

const EXAMPLES: &str = "\
Examples:
  corun load persistent --threads 2 --cpus 0,1          one endless loop on each of two CPUs
  corun load periodic --demand 0.3 --duration 10s       10 ms busy, 23 ms idle, for ten seconds
  corun load parallel --sync barrier --wait spin --grain 500us --iterations 2000
  corun load hubench --duration 5s --json report.json
  corun load workloads/barrier-block.toml               any of these, or a real command, from a file
  corun load --target-steal 25% --victim 4711           it waits for a CPU 25 % of the time
  corun load --target-slowdown 1.5 --victim 4711 --duration 60s

Ctrl-C or SIGTERM ends a load; its report is still printed. Two runs do the same work if they have the same seed \
and --loops-per-ms: give a co-run the pace that the report of its solo run names.

A target is held in closed loop: five times a second the demand of periodic (or intermittent) bursts on all CPUs \
that the victim may use (or --cpus of the kind) is adjusted to what the victim's ledger shows. Steal is the \
victim's wait in the run queue ÷ (wait + time on a CPU), whoever took it. Slowdown is its CPU rate before the \
interference ÷ its rate now, spinning left out where it can be told: right for a program with a given amount to \
compute, misled by phases and by work that comes from outside. Fair share bounds both: a victim that never blocks \
loses at most half to one thread of equal weight.

Exit status: 0; 1 if a target was not held, or a command or corun itself failed; 2 is bad usage.";

/// Make interference, or run a parallel program with known behavior
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, arg_required_else_help = true, after_help = EXAMPLES)]
pub struct Args {
    /// A workload file that describes any of the kinds, or a real command
    #[arg(value_name = "FILE.toml")]
    file: Option<PathBuf>,
    #[command(flatten)]
    how: RunFlags,
    #[command(subcommand)]
    kind: Option<Kind>,
}

/// No CPU gets that far. At too high a pace, a load would check for its end only once in hours.
const MOST_LOOPS_PER_MS: u64 = 100_000_000;

/// How to run it and where to report.
#[derive(Debug, Default, clap::Args)]
#[command(next_help_heading = "Run and report")]
struct RunFlags {
    /// End after this time, such as 10s [default: when its iterations are done, or by Ctrl-C]
    #[arg(long, value_name = "TIME")]
    duration: Option<Ns>,
    /// The pace of the work, as an earlier report names it [default: measured at start-up]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=MOST_LOOPS_PER_MS))]
    loops_per_ms: Option<u64>,
    /// Write the report as JSON (schema corun.load/1) too; `-` is standard output, instead of the text
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the progress as JSON lines (schema corun.load.progress/1)
    #[arg(long)]
    progress_json: bool,
    /// Show no progress
    #[arg(long, short, conflicts_with = "progress_json")]
    quiet: bool,
    #[command(flatten)]
    target: TargetFlags,
}

#[derive(Debug, Subcommand)]
enum Kind {
    /// Interference that never pauses: a while(1) loop (PACT'16 §2.4)
    Persistent {
        #[command(flatten)]
        crew: Crew,
        #[command(flatten)]
        how: RunFlags,
    },
    /// Interference with fixed busy and idle intervals (PACT'16 §2.4)
    Periodic {
        #[command(flatten)]
        bursts: Bursts,
        #[command(flatten)]
        crew: Crew,
        #[command(flatten)]
        how: RunFlags,
    },
    /// Interference with random busy intervals and matching idle ones (PACT'16 §2.4)
    Intermittent {
        #[command(flatten)]
        bursts: RandomBursts,
        #[command(flatten)]
        crew: Crew,
        #[command(flatten)]
        how: RunFlags,
    },
    /// A parallel program: barrier, lock, pipeline, queue, work stealing or independent threads
    Parallel {
        #[command(flatten)]
        program: Box<ParallelFlags>,
        #[command(flatten)]
        how: RunFlags,
    },
    /// Pairs of threads that increment shared counters in turn (ATC'16 §5.1)
    Hubench {
        #[command(flatten)]
        program: MicroFlags,
        #[command(flatten)]
        how: RunFlags,
    },
    /// As hubench, with private computation that hides the latency of sharing (ATC'16 §5.1)
    Lubench {
        #[command(flatten)]
        program: MicroFlags,
        #[command(flatten)]
        how: RunFlags,
    },
    /// Threads that stream through private memory larger than the last-level cache (ATC'16 §5.1)
    Membench {
        #[command(flatten)]
        program: MicroFlags,
        #[command(flatten)]
        how: RunFlags,
    },
    /// Register arithmetic only
    Cpu {
        #[command(flatten)]
        program: MicroFlags,
        #[command(flatten)]
        how: RunFlags,
    },
}

impl Args {
    fn resolve(self) -> anyhow::Result<(Program, RunFlags)> {
        Ok(match self.kind {
            None => {
                let program = match self.file {
                    Some(file) => read(&file)?,
                    None if self.how.target.victim.is_some() => Program::Interference(calibrated()),
                    None => return Err(Usage("name a kind of load or a workload file".into()).into()),
                };
                (program, self.how)
            }
            Some(Kind::Persistent { crew, how }) => {
                (crew.interference(Interference { pattern: Pattern::Persistent, ..Default::default() }), how)
            }
            Some(Kind::Periodic { bursts, crew, how }) => (crew.interference(bursts.interference()), how),
            Some(Kind::Intermittent { bursts, crew, how }) => (crew.interference(bursts.interference()), how),
            Some(Kind::Parallel { program, how }) => (Program::Parallel(Parallel::from(*program)), how),
            Some(Kind::Hubench { program, how }) => (program.micro(MicroKind::Hubench), how),
            Some(Kind::Lubench { program, how }) => (program.micro(MicroKind::Lubench), how),
            Some(Kind::Membench { program, how }) => (program.micro(MicroKind::Membench), how),
            Some(Kind::Cpu { program, how }) => (program.micro(MicroKind::Cpu), how),
        })
    }
}

/// The kind that presses on a victim unless one is named.
fn calibrated() -> Interference {
    Interference { pattern: Pattern::Periodic, ..Interference::default() }
}

fn read(file: &Path) -> Result<Program, Usage> {
    let name = file.display();
    let text = text_of(file).map_err(|error| {
        if file.to_str().is_some_and(Kind::has_subcommand) {
            return Usage(format!("flags go behind a kind of load: corun load {name} [OPTIONS]"));
        }
        let hint = match file.extension() {
            Some(_) => String::new(),
            None => {
                let all = Kind::augment_subcommands(clap::Command::new("load"));
                let names: Vec<&str> = all.get_subcommands().map(clap::Command::get_name).collect();
                format!("; a kind of load is one of {}", names.join(", "))
            }
        };
        Usage(format!("cannot read {name}: {}{hint}", unread(file, &error)))
    })?;
    let workload = Workload::parse(&name.to_string(), &text).map_err(|bad| Usage(bad.to_string()))?;
    Ok(workload.program)
}

/// Runs the verb.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    // A user who names a target without a victim need not name a kind.
    args.how.target.goal().map_err(Usage)?;
    let (program, how) = args.resolve()?;
    check_files(&how.json)?;
    let options = Options {
        loops_per_ms: how.loops_per_ms,
        limit_ns: how.duration.map(|d| d.0),
        progress_every_ns: (!how.quiet).then_some(1_000_000_000),
    };
    let tell = |progress: &Progress| match how.progress_json {
        true => lines::say(&json::compact(progress)),
        false => lines::say(&progress.to_string()),
    };
    let stop = Stop::on_signals();
    let report = match how.target.goal().map_err(Usage)? {
        None => corun_load::run(&program, &options, stop, tell),
        Some((goal, pid)) => {
            let mut victim = Victim::watch(pid, matches!(goal, Goal::Slowdown(_)))?;
            let hold = Hold {
                goal,
                baseline_ns: how.target.baseline_ns(),
                load: pressing(program, goal, victim.cpus())?,
            };
            corun_load::hold::run(&hold, &mut victim, &options, stop, tell)
        }
    };
    let report = report.map_err(|error| {
        let error = error.with_cause(limits::explained);
        if error.is_usage() {
            anyhow::Error::new(Usage(error.to_string()))
        } else {
            anyhow::Error::new(error)
        }
    })?;
    write(&report, how.json.as_deref())?;
    Ok(exit_code(&report))
}

/// The interference of `program`, on the CPUs of the victim and with the threads that the goal needs.
fn pressing(program: Program, goal: Goal, victims_cpus: &[u32]) -> Result<Interference, Usage> {
    let Program::Interference(load) = program else {
        let what = "only interference can hold a target: periodic, intermittent, or name no kind";
        return Err(Usage(what.into()));
    };
    let cpus = if load.cpus.is_empty() { victims_cpus.to_vec() } else { load.cpus };
    let needed = goal.threads_per_cpu().saturating_mul(cpus.len() as u32);
    Ok(Interference { threads: load.threads.max(needed), cpus, ..load })
}

fn write(report: &Report, json: Option<&Path>) -> anyhow::Result<()> {
    if !json.is_some_and(is_stdout) {
        print(&report.to_string())?;
    }
    if let Some(path) = json {
        write_file(path, json::indented(report).as_bytes())?;
    }
    Ok(())
}

/// 0, unless a command failed by itself or a target was not held.
fn exit_code(report: &Report) -> ExitCode {
    let failed = |c: &corun_load::report::CommandReport| c.exit_code != Some(0);
    match &report.command {
        Some(command) if report.ended == corun_load::Ended::Completed && failed(command) => {
            lines::say("corun: the command failed; its report says how");
            ExitCode::from(1)
        }
        _ if report.held.as_ref().is_some_and(|h| !h.held) => {
            lines::say("corun: the target was not held; the report says how far it was");
            ExitCode::from(1)
        }
        _ => ExitCode::SUCCESS,
    }
}
