//! `corun verify -- CMD`: run a benchmark and say whether others disturbed it.

use crate::counting::Counting;
use crate::course::{left_behind, Course, Ended};
use crate::date::now;
use crate::insight::{Insight, Wanted};
use crate::lines;
use crate::spoken;
use crate::target::{release, SourceFlag};
use crate::usage::{check_files, Usage};
use anyhow::Context;
use corun_linux::interrupt::Interrupt;
use corun_linux::launch::{self, Held};
use corun_linux::target::Subject;
use corun_linux::Root;
use corun_model::{Host as _, TaskId};
use corun_predict::verdict::{Judge, Ruling};
use corun_report::describe;
use corun_report::output::write_file;
use corun_report::verify::{Try, VerifyMeta, VerifyReport};
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

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
/// The length of a window: closing one costs about a millisecond of CPU time, which must not be what disturbs the run.
const SLOT: Duration = Duration::from_millis(250);

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

/// `2%` or `0.02`.
pub fn share(text: &str) -> Result<f64, String> {
    let x = number(text)
        .ok_or_else(|| format!("`{text}` is not a share of time; give one such as 2% or 0.02"))?;
    if (0.0..=1.0).contains(&x) {
        Ok(x)
    } else {
        Err(format!("{text} is not between 0 and 100 %; give a share such as 2%"))
    }
}

/// A share, also in per cent; `None`: it is no number.
pub fn number(text: &str) -> Option<f64> {
    match text.strip_suffix('%') {
        Some(percent) => percent.trim().parse::<f64>().ok().map(|x| x / 100.0),
        None => text.trim().parse().ok(),
    }
}

/// Runs the verb.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    if args.json.as_deref() == Some(Path::new("-")) || args.junit.as_deref() == Some(Path::new("-")) {
        return Err(
            Usage("standard output is the command's; name a file for --json and --junit".into()).into()
        );
    }
    check_files(args.json.iter().chain(&args.junit))?;
    let root = Root::new("/");
    let interrupt = Interrupt::install().context("installing the Ctrl-C handler")?;
    let mut before: Vec<Try> = Vec::new();
    let (report, interrupted) = loop {
        let (report, interrupted) = once(&root, &args, interrupt, &before)?;
        let again = report.judged.verdict != Ruling::Clean && report.meta.exit_status == 0;
        // A command that ends well although Ctrl-C was pressed was not interrupted, but its user was heard.
        let may = !interrupted && !interrupt.came();
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
        _ if interrupted => ExitCode::from(interrupt.exit_status()),
        (status, _) => ExitCode::from(status as u8),
    })
}

/// One try. The second value: whether it was interrupted.
fn once(
    root: &Root,
    args: &Args,
    interrupt: Interrupt,
    before: &[Try],
) -> anyhow::Result<(VerifyReport, bool)> {
    let (program, arguments) = args.command.split_first().context("the command is empty")?;
    let mut command = Command::new(program);
    command.args(arguments);
    let held = Held::start(command)?;
    let subject = Subject::command(held.pid(), &program.to_string_lossy());
    let first = [TaskId(held.pid())];
    let wanted = Wanted {
        source: args.source.wanted(),
        spin: !args.no_spin,
        counters: args.counters,
        dedicated: None,
        wake_up_ns: None,
    };
    let mut insight = Insight::start(root, subject, &first, wanted)?;
    let date = Some(now());
    // What came before the command began is not its run.
    insight.observe()?;
    let begin_ns = insight.now_ns();
    let running = release(held, interrupt)?;
    let course = Course { running: Some(running), end_ns: None, interrupt };
    let mut judge = Judge::new(insight.subject(), args.max_disturbance);
    let (ended, end_ns, left) = loop {
        let ended = insight.wait(&course, SLOT)?;
        let now_ns = insight.now_ns();
        let seen = insight.observe()?;
        judge.push(&seen);
        if let Some(ended) = ended {
            break (ended, now_ns, left_behind(&seen, Some(insight.subject()), first[0]));
        }
    };
    let interrupted = ended == Ended::Interrupted;
    let status = match course.running {
        Some(running) if !interrupted => Some(running.wait().context("collecting the command")?),
        _ => None,
    };
    let meta = VerifyMeta {
        command: spoken::line(&args.command),
        date,
        machine: describe(insight.watcher().machine()),
        source: insight.watcher().source().name().into(),
        counters: args.counters,
        counting_cost: insight.counting().and_then(Counting::cost),
        exit_status: i32::from(status.map_or(interrupt.exit_status(), launch::exit_code)),
        signal: status.and_then(|s| s.signal()),
        still_running: (!interrupted).then_some(left),
        strict: args.strict,
    };
    let is_over = matches!(ended, Ended::Command | Ended::SubjectGone);
    insight.evidence(is_over).into_iter().for_each(|evidence| judge.push_evidence(evidence));
    let verdict = judge.verdict(Some(end_ns - begin_ns));
    Ok((VerifyReport::new(meta, verdict, before, &insight.missing()), interrupted))
}
