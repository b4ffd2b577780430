//! `corun verify -- CMD`: run a benchmark and say whether others disturbed it.

use crate::date::now;
use crate::lines;
use crate::target::SourceFlag;
use crate::usage::{check_files, interrupted_by, stop_on_signals, Usage};
use crate::values::share;
use anyhow::Context;
use corun_linux::launch;
use corun_predict::verdict::Ruling;
use corun_report::describe;
use corun_report::output::write_file;
use corun_report::verify::{Try, VerifyMeta, VerifyReport};
use corun_session::end::Ended;
use corun_session::target::command_line;
use corun_session::{Stop, Verify, VerifyOptions};
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  corun verify -- ./bench                            exit 0: nobody disturbed it; 3: somebody did
  corun verify --max-disturbance 5% -- make bench    allow others to cost it 5 % of its time
  corun verify --retries 3 -- ./bench                again until a run is clean, at most three times
  corun verify --strict -- ./bench                   a gate: what is too short to tell does not pass
  corun verify --junit verify.xml --json verify.json -- cargo bench

Exit status: 0 the (last) run was clean, or `unclear`: too short to tell (with --strict that is 3); 3 it was disturbed; \
where CMD failed, CMD's own status. 2 is bad usage, 1 a failure of corun's own. Where CMD may end with these itself, ask for \
--json: `verdict` and `exit_status` are apart there. What corun says goes to standard error: standard output is CMD's.";

/// The exit status of a disturbed run, and of an unclear one where that counts as a failure.
const DISTURBED: u8 = 3;

/// Run a benchmark and say whether others disturbed it, by how much, when and who
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Share of the run's time that others may cost it, such as 2% or 0.02
    #[arg(long, value_name = "SHARE", default_value = "2%", value_parser = share)]
    max_disturbance: f64,
    /// Run the command again when it was disturbed or the verdict is unclear, at most this often
    #[arg(long, value_name = "N", default_value_t = 0)]
    retries: u32,
    /// Take a verdict that is unclear for a failure: exit status 3, and a failure in JUnit
    #[arg(long)]
    strict: bool,
    /// Write the verdict as JSON (schema corun.verify/1)
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the verdict as JUnit XML: a disturbed run is a failure
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Count hardware events of each task as well: cycles per instruction and cache misses of each try. Off by default,
    /// since every context switch of the command becomes dearer, in virtual machines by tens of microseconds
    #[arg(long)]
    counters: bool,
    /// Do not sample where the program's threads are to tell spinning from computing; with --counters, those tell it
    #[arg(long)]
    no_spin: bool,
    /// How to see: eBPF where possible, schedstat (no root, no culprits) otherwise
    #[arg(long, value_enum, default_value = "auto")]
    source: SourceFlag,
    /// Say nothing until the last run has ended; the verdict still comes
    #[arg(long, short)]
    quiet: bool,
    /// The command to run
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// Runs the verb.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    if args.json.as_deref() == Some(Path::new("-")) || args.junit.as_deref() == Some(Path::new("-")) {
        return Err(
            Usage("standard output is the command's; name a file for --json and --junit".into()).into()
        );
    }
    check_files(args.json.iter().chain(&args.junit))?;
    let stop = stop_on_signals()?;
    let mut before: Vec<Try> = Vec::new();
    let (report, interrupted) = loop {
        let (report, interrupted) = once(&args, &stop, &before)?;
        let again = report.judged.verdict != Ruling::Clean && report.meta.exit_status == 0;
        // A command that ends well although Ctrl-C was pressed was not interrupted, but its user was heard.
        let may = !interrupted && !stop.is_asked();
        if !(again && may) || before.len() as u32 >= args.retries {
            break (report, interrupted);
        }
        if !args.quiet {
            lines::say(&format!("corun verify: {}; running it again", report.sentence()));
        }
        before.clone_from(&report.tries);
    };
    let _ = lines::tell(&report.text());
    if let Some(path) = &args.json {
        write_file(path, report.json().as_bytes())?;
    }
    if let Some(path) = &args.junit {
        write_file(path, report.junit().as_bytes())?;
    }
    Ok(match (report.meta.exit_status, report.judged.verdict) {
        (0, Ruling::Disturbed) => ExitCode::from(DISTURBED),
        (0, Ruling::Unclear) if args.strict => ExitCode::from(DISTURBED),
        (0, Ruling::Clean | Ruling::Unclear) => ExitCode::SUCCESS,
        _ if interrupted => ExitCode::from(interrupted_by(stop.signal())),
        (status, _) => ExitCode::from(status as u8),
    })
}

/// One try. The second value: whether it was interrupted.
fn once(args: &Args, stop: &Stop, before: &[Try]) -> anyhow::Result<(VerifyReport, bool)> {
    let options = VerifyOptions {
        source: args.source.wanted(),
        max_disturbance: args.max_disturbance,
        spin: !args.no_spin,
        counters: args.counters,
    };
    let mut run = Verify::start(&args.command, &options, stop)?;
    let date = Some(now());
    run.by_ref().try_for_each(|window| window.map(drop))?;
    let run = run.finish();
    let interrupted = run.ended == Ended::Interrupted;
    let status = match run.command {
        Some(running) if !interrupted => Some(running.wait().context("collecting the command")?),
        _ => None,
    };
    let meta = VerifyMeta {
        command: command_line(&args.command),
        date,
        machine: describe(&run.machine),
        source: run.source.name().into(),
        counters: args.counters,
        counting_cost: run.counting_cost,
        exit_status: i32::from(status.map_or(interrupted_by(stop.signal()), launch::exit_code)),
        signal: status.and_then(|s| s.signal()),
        still_running: run.left_behind,
        strict: args.strict,
    };
    Ok((VerifyReport::new(meta, run.verdict, before, &run.missing), interrupted))
}
