//! `corun verify -- CMD`: run a benchmark and say whether others disturbed it.

mod annotate;
mod github;
mod parts;

use crate::beside;
use crate::date::now;
use crate::lines;
use crate::target::SourceFlag;
use crate::usage::{check_files, check_read, interrupted_by, make_folder, stop_on_signals, Usage};
use crate::values::share;
use anyhow::Context;
use corun_linux::launch;
use corun_predict::verdict::Ruling;
use corun_report::describe;
use corun_report::output::{is_stdout, write_file};
use corun_report::verify::parts::{measured, Benchmark};
use corun_report::verify::{Try, VerifyMeta, VerifyReport};
use corun_results::output::bencher;
use corun_results::output::github::Level;
use corun_session::end::Ended;
use corun_session::target::command_line;
use corun_session::verify::{until_clean, Attempt};
use corun_session::{Stop, Verify, VerifyOptions};
use parts::{Awaited, AwaitedTests, Watched};
use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  corun verify -- ./bench                            exit 0: nobody disturbed it; 3: somebody did
  corun verify --max-disturbance 5% -- make bench    allow others to cost it 5 % of its time
  corun verify --retries 3 -- ./bench                again until a run is clean, at most three times
  corun verify --strict -- ./bench                   a gate: what is unclear does not pass
  corun verify --junit verify.xml --json verify.json -- cargo bench
  corun verify --results b.json --retries 3 -- hyperfine --export-json b.json ./bench
                                                     each iteration by itself, until enough of them are clean
  corun verify --junit t.xml -- pytest --junitxml t.xml
                                                     was a failed test starved?
  corun verify --junit target/surefire-reports -- mvn test
                                                     the same of all JUnit files in a folder
  corun verify --annotate t.xml --from /var/lib/corun/ring --tenant ci-job
                                                     the same afterwards, from an agent's ring

Exit status: 0 the (last) run was clean, or `unclear`: corun cannot tell (with --strict that is 3), or every benchmark of \
--results has its clean iterations; 3 it was disturbed (0 with --policy warn or neutral); \
if CMD failed, CMD's own status. 2 is bad usage, 1 a failure of corun's own. If CMD itself may end with these, use \
--json, which has `verdict` and `exit_status` separately. What corun says goes to standard error: standard output is CMD's. \
Where --json or --bmf is `-`, that is standard output, and what CMD writes there goes to standard error.";

/// The exit status of a disturbed run, and of an unclear one if that counts as a failure.
const DISTURBED: u8 = 3;

/// Run a benchmark and say whether others disturbed it: who, when and by how much
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Share of the run's time that others may cost it, such as 2% or 0.02
    #[arg(long, value_name = "SHARE", default_value = "2%", value_parser = share)]
    max_disturbance: f64,
    /// Run the command again if it was disturbed or the verdict is unclear, at most this often. With --results, the
    /// clean iterations of all runs count. The command runs again until every benchmark has as many of them as it
    /// measures in a run
    #[arg(long, value_name = "N", default_value_t = 0)]
    retries: u32,
    /// Treat an unclear verdict as a failure: exit status 3, and a failure in JUnit
    #[arg(long)]
    strict: bool,
    /// Write the verdict as JSON (schema corun.verify/1)
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the verdict as JUnit XML: a disturbed run is a failure. If CMD itself writes FILE, corun judges its test
    /// cases instead. FILE stays as it is; a copy, such as tests.corun.xml, says for how long each test was stolen
    /// from, throttled and kept waiting, and whether a failed test was starved. FILE may be a folder in which CMD writes
    /// several, as surefire and Gradle do
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Where the copy of the JUnit file goes [default: next to it, such as tests.corun.xml]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    #[command(flatten)]
    past: annotate::Flags,
    /// Read the results that CMD writes to FILE and judge each iteration by itself: of hyperfine, criterion, pyperf, Google
    /// Benchmark, pytest-benchmark, go test -bench and JMH
    #[arg(long, value_name = "FILE")]
    results: Option<PathBuf>,
    /// Write the result in Bencher's metric format (JSON): latency without disturbed iterations, raw, and disturbance in %
    #[arg(long, value_name = "FILE")]
    bmf: Option<PathBuf>,
    /// Show the result in this step of a GitHub workflow: a summary and annotations
    #[arg(long)]
    github: bool,
    /// How to treat a disturbed run
    #[arg(long, value_enum, default_value = "fail")]
    policy: Policy,
    /// Count hardware events of each task as well: cycles per instruction and cache misses of each try. Off by default:
    /// every context switch of the command takes longer, in virtual machines by tens of microseconds
    #[arg(long)]
    counters: bool,
    /// Do not sample the program's threads to separate spinning from computing; with --counters, the counters do that
    #[arg(long)]
    no_spin: bool,
    /// How to watch: eBPF where possible, otherwise schedstat (needs no root, names no culprits)
    #[arg(long, value_enum, default_value = "auto")]
    source: SourceFlag,
    /// Say nothing until the last run has ended; the verdict still comes
    #[arg(long, short)]
    quiet: bool,
    /// The command to run
    #[arg(last = true, required_unless_present = "annotate", value_name = "CMD")]
    command: Vec<OsString>,
}

/// What a disturbed run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Policy {
    /// As a failure: exit status 3, and an error in GitHub
    Fail,
    /// With a warning in GitHub: exit status 0
    Warn,
    /// With a notice in GitHub: exit status 0
    Neutral,
}

impl Policy {
    fn level(self) -> Level {
        match self {
            Policy::Fail => Level::Error,
            Policy::Warn => Level::Warning,
            Policy::Neutral => Level::Notice,
        }
    }
}

impl Args {
    /// The place of the copy of the command's JUnit file. Something that is not a file, such as
    /// `/dev/stderr`, has none.
    fn copy(&self) -> Option<PathBuf> {
        let junit = self.junit.as_deref().filter(|path| path.is_file() || !path.exists())?;
        Some(self.copy_of(junit))
    }

    fn copy_of(&self, junit: &Path) -> PathBuf {
        self.out.clone().unwrap_or_else(|| parts::copy_of(junit))
    }

    fn check(&self) -> Result<(), Usage> {
        if self.out.is_some() && self.junit.is_none() {
            return Err(Usage(
                "--out is where a copy of a JUnit file goes; name that with --junit or --annotate".into(),
            ));
        }
        if self.out.is_some() && self.junit.as_ref().is_some_and(|path| path.is_dir()) {
            return Err(Usage(COPIES_OF_SEVERAL.into()));
        }
        let files = [("--results", &self.results), ("--junit", &self.junit), ("--out", &self.out)];
        if let Some((flag, _)) = files.iter().find(|(_, path)| path.as_deref().is_some_and(is_stdout)) {
            return Err(Usage(format!(
                "{flag} is a file, and standard output is none; name one instead of `-`"
            )));
        }
        let copy = self.copy();
        let summary = self.github.then(github::summary_file).transpose()?;
        // The command may make the folder of its own files.
        let copy = copy.filter(|path| self.out.is_some() || is_folder_there(path));
        let junit = self.junit.as_ref().filter(|path| !path.is_dir() && is_folder_there(path));
        let written = [self.json.as_ref(), junit, self.bmf.as_ref(), copy.as_ref(), summary.as_ref()];
        if self.results.is_some() && self.results == self.junit {
            return Err(Usage(
                "--results and --junit name the same file; JUnit files go with --junit alone".into(),
            ));
        }
        check_files(written.into_iter().flatten())?;
        // The command is to write it, and may create its folder.
        check_read(self.results.iter(), |e| e.kind() == ErrorKind::NotFound)
    }
}

const COPIES_OF_SEVERAL: &str =
    "--out names the copy of one JUnit file; leave it out where --junit is a folder of them";

fn is_folder_there(file: &Path) -> bool {
    file.parent().is_none_or(|folder| folder.as_os_str().is_empty() || folder.exists())
}

/// Runs the verb.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    if let Some(tests) = &args.past.annotate {
        return annotate::run(tests, &args.past, args.out.as_deref(), args.max_disturbance);
    }
    args.check()?;
    let stop = stop_on_signals()?;
    let mut benchmarks: Vec<Benchmark> = Vec::new();
    let make = |last: Option<&Tried>| {
        if let Some(last) = last.filter(|_| !args.quiet) {
            lines::say(&format!("corun verify: {}; running it again", last.report.sentence()));
        }
        let before = last.map_or(&[][..], |last| &last.report.tries);
        once(&args, &stop, before, &mut benchmarks)
    };
    let came_to = |tried: &Tried| Attempt {
        is_clean: match args.results {
            Some(_) => tried.report.is_measured_clean(),
            None => tried.report.judged.verdict == Ruling::Clean,
        },
        has_failed: tried.report.meta.exit_status != 0 || tried.wrong.is_some() || tried.interrupted,
    };
    let Tried { report, interrupted, is_annotated, wrong } = until_clean(args.retries, &stop, make, came_to)?;
    let _ = lines::tell(&report.text());
    if let Some(path) = &args.json {
        write_file(path, report.json().as_bytes())?;
    }
    // The command's output is never overwritten.
    if let Some(path) = args.junit.as_ref().filter(|path| !is_annotated && !path.is_dir()) {
        if let Some(folder) = path.parent().filter(|_| !is_folder_there(path)) {
            make_folder(folder)?;
        }
        write_file(path, report.junit().as_bytes())?;
    }
    let outcome = report.outcome();
    if let Some(path) = &args.bmf {
        write_file(path, bencher::write(&outcome).as_bytes())?;
    }
    if args.github {
        github::show(&outcome, args.policy.level())?;
    }
    match wrong {
        Some(wrong) if report.meta.exit_status == 0 => return Err(Usage(wrong).into()),
        // Its own status says more than its incomplete file.
        Some(wrong) => lines::say(&format!("corun verify: {wrong}")),
        None => {}
    }
    Ok(match report.meta.exit_status {
        0 if outcome.is_failure => ExitCode::from(DISTURBED),
        0 => ExitCode::SUCCESS,
        _ if interrupted => ExitCode::from(interrupted_by(stop.signal())),
        status => ExitCode::from(status as u8),
    })
}

/// One try.
struct Tried {
    report: VerifyReport,
    interrupted: bool,
    /// Whether the command wrote a JUnit file of its own.
    is_annotated: bool,
    /// The error in a file that the command wrote.
    wrong: Option<String>,
}

/// `before` has the earlier tries, `benchmarks` their measurements.
fn once(args: &Args, stop: &Stop, before: &[Try], benchmarks: &mut Vec<Benchmark>) -> anyhow::Result<Tried> {
    let options = VerifyOptions {
        source: args.source.wanted(),
        max_disturbance: args.max_disturbance,
        spin: !args.no_spin,
        counters: args.counters,
        parts: args.results.is_some() || args.junit.is_some(),
    };
    let (results, tests) =
        (args.results.as_deref().map(Awaited::new), args.junit.as_deref().map(AwaitedTests::new));
    let is_stdout_taken = beside::takes_stdout([&args.json, &args.bmf].into_iter().flatten());
    let command = beside::command(&args.command, is_stdout_taken)?;
    let mut run = Verify::start(command, &options, stop)?;
    let date = Some(now());
    run.by_ref().try_for_each(|window| window.map(drop))?;
    let mut run = run.finish();
    let interrupted = run.ended == Ended::Interrupted;
    let status = match run.command.take() {
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
        tolerant: args.policy != Policy::Fail,
    };
    let has_failed = meta.exit_status != 0;
    let mut report = VerifyReport::new(meta, run.verdict.clone(), before, &run.missing);
    let tests = tests.map_or(Vec::new(), |tests| tests.written());
    let is_annotated = !tests.is_empty();
    let mut wrong = None;
    if let Some(watched) = Watched::new(&run) {
        if let Some(path) = &args.results {
            match results.is_some_and(|file| file.is_written()) {
                true => match watched.benchmarks(path, &run) {
                    Ok(last) => {
                        *benchmarks = Benchmark::pool(std::mem::take(benchmarks), &last);
                        report.benchmarks = benchmarks.iter().filter_map(measured).collect();
                    }
                    Err(unread) => wrong = Some(unread.to_string()),
                },
                // A command that failed may not have reached its results.
                false if has_failed => {}
                false => {
                    let why = match run.left_behind {
                        None | Some(0) => "the command did not write it; name the file that it writes",
                        Some(_) => "the command ended without it, but what it started still runs; have the command wait for that",
                    };
                    wrong = Some(format!("{}: {why}", path.display()));
                }
            }
        }
        for path in &tests {
            match watched.annotate(path, &args.copy_of(path)) {
                Ok((count, failed)) => {
                    report.failed_tests_left_out += count.failed.saturating_sub(failed.len() as u64);
                    report.failed_tests.extend(failed);
                }
                Err(error) => wrong = Some(error.to_string()),
            }
        }
    }
    if let Some(folder) = args.junit.as_ref().filter(|path| path.is_dir()) {
        match (&args.out, is_annotated) {
            (Some(_), _) => wrong = Some(COPIES_OF_SEVERAL.into()),
            (None, false) if !has_failed => {
                wrong = Some(format!("{}: the command wrote no JUnit file (.xml) in it", folder.display()));
            }
            _ => {}
        }
    }
    Ok(Tried { report, interrupted, is_annotated, wrong })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Verb {
        #[command(flatten)]
        args: Args,
    }

    #[test]
    fn the_default_limit_is_the_librarys() {
        let Verb { args } = Verb::parse_from(["verify", "--", "true"]);
        assert_eq!(args.max_disturbance, VerifyOptions::default().max_disturbance);
    }
}
