//! `corun predict`: how much slower a program is than alone, reported while it runs.

use crate::beside;
use crate::date::now;
use crate::lines;
use crate::target::{deserted, usage, SourceFlag, TargetFlags, ANYBODY};
use crate::usage::{check_files, check_folder, interrupted, stop_on_signals, Usage};
use crate::values::{self, confidence, length_ns};
use anyhow::Context;
use corun_linux::dedicated::{Budget, Dedicated};
use corun_linux::launch;
use corun_linux::root::in_words;
use corun_model::Host as _;
use corun_predict::{Assignment, Options, Way};
use corun_report::describe;
use corun_report::json;
use corun_report::output::{is_stdout, print, write_file};
use corun_report::predict::{live, render, summary, Covers, KnownOfRun, PredictMeta, PredictReport};
use corun_report::progress::Progress;
use corun_report::verify::{failed, still_running};
use corun_session::end::Ended;
use corun_session::predict::{PredictWindow, Predicted, WakeUp};
use corun_session::subject_watch::Parking;
use corun_session::{Predict, PredictOptions, Target};
use corun_study::kept;
use corun_study::predict;
use corun_study::predict::again::{all_again, How};
use corun_study::predict::outcome::PredictOutcome;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  corun predict -- ./solver in.dat                   a command: one line, kept up to date
  corun predict -p 1234 --for 30s                    a process, with its threads and children
  corun predict --cgroup web.service --for 1m --json out.json
  corun predict --vm web1 --for 30s --html page.html the slowdown over time, with its interval
  corun predict -p 1234 --json-lines | jq .slowdown  every estimate as it is made
  corun predict --dedicated --counters -- ./solver   what memory costs as well
  corun predict --dedicated --counters --method pact16 -- ./solver   the paper's formula alone
  corun predict --again studies/runs/predict-modelled   the co-runs of a record, once more

The slowdown is against running alone on this machine: 1 is undisturbed, 2 takes twice as long. Without `--dedicated` \
corun touches nothing, and derives from the ledger what the program would do alone.

Exit status: that of CMD; without CMD 0. 2 is bad usage, 1 a failure of corun's own.
After CMD the answer goes to standard error: standard output is CMD's. With `--json-lines`, and where a file is `-`, that is \
standard output, and what CMD writes there goes to standard error.";

/// Say how much slower a program is than it would be alone, and why, while it runs
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, override_usage = usage("predict", ANYBODY))]
#[command(mut_arg("all", |all| all.hide(true)))]
pub struct Args {
    #[command(flatten)]
    target: TargetFlags,
    /// Stop after this time, such as 30s [default: when the command ends, or at Ctrl-C]
    #[arg(long = "for", value_name = "TIME", value_parser = length_ns)]
    length_ns: Option<u64>,
    /// Write the last estimate as JSON (schema corun.predict/1); `-` is standard output, instead of the text
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write every estimate to standard output as one line of JSON
    #[arg(long, conflicts_with = "json")]
    json_lines: bool,
    /// Write a page with the slowdown over time
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write every window as a line of JSON, from which predictions can be made again in another way
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Watch nobody: predict the co-runs in a record of `corun study` again (a folder or its result.json), from the
    /// windows that it kept
    #[arg(long, value_name = "RECORD", conflicts_with_all = ["Target", "json", "json_lines", "html", "record", "dedicated", "length_ns"])]
    again: Option<PathBuf>,
    /// Keep the record with these predictions in this folder
    #[arg(long, value_name = "DIR", requires = "again")]
    out: Option<PathBuf>,
    /// Park all co-runners for short windows, to see what the program does alone: more accurate, but it stops others
    /// for moments
    #[arg(long)]
    dedicated: bool,
    /// Length of a dedicated window, after 20 ms in which the program's threads spread over the CPUs
    #[arg(long, value_name = "TIME", default_value = "40ms", value_parser = length_ns, requires = "dedicated")]
    window: u64,
    /// Share of the co-runners' time that dedicated windows may take, in any 20 s. 2% are six windows; the first three,
    /// which every answer needs, come in the first seconds
    #[arg(long, value_name = "SHARE", default_value = "2%", value_parser = values::share, requires = "dedicated")]
    budget: f64,
    /// Only this tenant may be parked, by name or PID; repeat it for more [default: everybody who is not protected]
    #[arg(long, value_name = "NAME", requires = "dedicated", value_parser = values::name())]
    park: Vec<String>,
    /// A tenant that may not be parked, by name or PID
    #[arg(long, value_name = "NAME", requires = "dedicated", value_parser = values::name())]
    protect: Vec<String>,
    /// The program deals out its work to its threads at the start, so it ends with the slowest of them
    #[arg(long)]
    static_work: bool,
    /// How long it takes to wake up a sleeping CPU on this machine, such as 17us. Programs whose threads sleep often
    /// wait for that in a solo run, but not next to co-runners that keep CPUs awake [default: not known]
    #[arg(long, value_name = "TIME", value_parser = length_ns)]
    wake_up: Option<u64>,
    /// Measure the wake-up before the start: two threads meet on two CPUs for 160 ms, if CPUs are idle
    #[arg(long, conflicts_with = "wake_up")]
    measure_wake_up: bool,
    /// How to find the slowdown. `best` weighs everything that is known. `pact16` is PACT'16's formula alone: total
    /// time less steal, synchronization and memory. It needs --dedicated, and --counters to leave memory out
    #[arg(long, value_enum, default_value = "best", requires_if("pact16", "dedicated"))]
    method: MethodFlag,
    /// How often the interval should contain the slowdown of the whole run, such as 95% or 0.95
    #[arg(long, value_name = "SHARE", default_value_t = 0.95, value_parser = confidence)]
    confidence: f64,
    /// Count hardware events of each task as well. With --dedicated, this shows what memory costs, and what CPI and
    /// MPKI would predict. Off by default: every context switch of the program takes longer, in virtual machines by
    /// tens of microseconds. The report says how much that cost, and counting stops where it costs more than 3 % of the
    /// program's time
    #[arg(long)]
    counters: bool,
    /// Do not sample the program's threads to separate spinning from computing; with --counters, the counters do that
    #[arg(long)]
    no_spin: bool,
    /// How to watch: eBPF where possible, otherwise schedstat (needs no root, names no culprits)
    #[arg(long, value_enum, default_value = "auto")]
    source: SourceFlag,
    /// Show nothing while it runs; the last estimate still comes
    #[arg(long, short)]
    quiet: bool,
}

/// The method for a slowdown.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum MethodFlag {
    Best,
    Pact16,
}

impl MethodFlag {
    fn way(self) -> Way {
        match self {
            MethodFlag::Best => Way::Best,
            MethodFlag::Pact16 => Way::Pact16,
        }
    }
}

/// Runs the verb.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    if let Some(record) = &args.again {
        return again(record, &args);
    }
    let stop = stop_on_signals()?;
    check_files([&args.json, &args.html, &args.record].into_iter().flatten())?;
    if args.record.as_deref().is_some_and(is_stdout) {
        return Err(Usage("--record -: windows go to a file; name one".into()).into());
    }
    let files = [&args.json, &args.html].into_iter().flatten();
    let is_stdout_taken = args.json_lines || beside::takes_stdout(files);
    let options = PredictOptions {
        source: args.source.wanted(),
        length_ns: args.length_ns,
        spin: !args.no_spin,
        counters: args.counters,
        dedicated: args.dedicated.then(|| parking(&args)).transpose()?,
        wake_up: match args.wake_up {
            Some(ns) => WakeUp::Given(ns),
            None if args.measure_wake_up => WakeUp::Measured,
            None => WakeUp::Unknown,
        },
        way: args.method.way(),
        assignment: if args.static_work { Assignment::Static } else { Assignment::Dynamic },
        confidence: args.confidence,
    };
    let begun = match args.target.command() {
        Some(words) => Predict::start_command(beside::command(words, is_stdout_taken)?, options, &stop),
        None => Predict::start(&somebody(args.target)?, options, &stop),
    };
    let mut predict = begun?;
    // Not before: then the content of the file is gone.
    let mut record = args.record.as_deref().map(record).transpose()?;
    let meta = PredictMeta {
        target: predict.description().to_owned(),
        machine: describe(predict.watch().watcher().machine()),
        date: Some(now()),
        source: predict.watch().watcher().source().name().into(),
        spin: predict.watch().spin_method().map(|method| method.name().to_owned()),
        counters: args.counters,
    };
    if predict.is_deserted() {
        lines::say(&deserted(predict.description()));
    }
    let is_command = predict.is_command();
    let mut answers = Answers {
        meta,
        park: args.park,
        history: Vec::new(),
        keeps_all: args.html.is_some(),
        json_lines: args.json_lines,
        is_stdout_taken,
        is_unheard: false,
    };
    let progress = Progress::line(args.quiet || args.json_lines);
    progress.say("looking; the first estimate takes half a second");
    while let Some(window) = predict.next() {
        let window = window?;
        if let Some(record) = &mut record {
            window
                .recorded
                .iter()
                .try_for_each(|line| writeln!(record, "{}", json::compact(line)))
                .map_err(unrecorded)?;
        }
        if window.is_estimate_due {
            answers.take(&predict, &window)?;
            progress.say(&answers.live(progress.columns()));
        }
        // The end of a command that was started is awaited.
        if answers.is_unheard && !is_command {
            break;
        }
    }
    drop(progress);
    let left = predict.left_behind().and_then(still_running);
    // A command may go on for long after `--for`: then nobody is watched, and another controller may come.
    let Predicted { ended, command } = predict.finish()?;
    let recorded = record.map_or(Ok(()), |mut record| record.flush()).map_err(unrecorded);
    let status = match command.filter(|_| ended != Ended::Interrupted) {
        Some(running) => Some(running.wait().context("collecting the command")?),
        None => None,
    };
    let failed = status.and_then(|s| failed(i32::from(launch::exit_code(s)), s.signal()));
    answers.write(&args.json, &args.html, After { is_command, left, failed })?;
    recorded?;
    Ok(match (ended, status) {
        (_, Some(status)) => ExitCode::from(launch::exit_code(status)),
        (Ended::Interrupted, None) if is_command => interrupted(&stop),
        _ => ExitCode::SUCCESS,
    })
}

/// Somebody who already runs.
fn somebody(target: TargetFlags) -> Result<Target, Usage> {
    match target.target(ANYBODY)? {
        Target::Everybody => Err(Usage(
            "`--all` has no one to predict for; name a program with -p, --cgroup, --vm or -- CMD".into(),
        )),
        target => Ok(target),
    }
}

/// Predicts the co-runs of a record again.
fn again(record: &Path, args: &Args) -> anyhow::Result<ExitCode> {
    let refused = |why: String| Usage(format!("--again {}: {why}", record.display()));
    let read = if record.is_dir() { kept::record(record) } else { kept::read(record, u64::MAX) };
    let text = read
        .map_err(|e| refused(format!("{}; give the folder of a record, or its result.json", in_words(&e))))?;
    let outcome: PredictOutcome = serde_json::from_str(&text).map_err(|e| {
        refused(format!("no result of `corun study predict` ({e}); give one of studies/runs"))
    })?;
    args.out.iter().try_for_each(|folder| check_folder(folder))?;
    let assignment = if args.static_work { Assignment::Static } else { Assignment::Dynamic };
    let options = Options {
        confidence: args.confidence,
        assignment,
        way: args.method.way(),
        wake_up_ns: args.wake_up.unwrap_or(0),
        ..Options::default()
    };
    let now = all_again(&outcome, How { options, counts: true }).map_err(refused)?;
    print(&predict::text::text(&now, false))?;
    let Some(folder) = &args.out else { return Ok(ExitCode::SUCCESS) };
    let command = format!("corun predict --again {} --out DIR", record.display());
    for (name, text) in predict::text::files(&now, &command) {
        write_file(&folder.join(name), text.as_bytes())?;
    }
    Ok(ExitCode::SUCCESS)
}

fn parking(args: &Args) -> anyhow::Result<Parking> {
    let budget = Budget::of_share(args.budget);
    let windows = Dedicated::new(args.window, budget).map_err(|e| Usage(e.to_string()))?;
    Ok(Parking { windows, only: args.park.clone(), protect: args.protect.clone() })
}

fn record(path: &Path) -> anyhow::Result<BufWriter<File>> {
    let refused = |e| {
        format!("--record cannot write {}: {}; name a file that can be made", path.display(), in_words(&e))
    };
    Ok(BufWriter::new(File::create(path).map_err(|e| Usage(refused(e)))?))
}

/// Why a window could not be recorded.
fn unrecorded(e: std::io::Error) -> anyhow::Error {
    anyhow::anyhow!("cannot write --record: {}", in_words(&e))
}

/// The texts about a command after its estimates.
struct After {
    is_command: bool,
    /// That it has left something running.
    left: Option<String>,
    /// That it failed.
    failed: Option<String>,
}

/// The estimates so far.
struct Answers {
    meta: PredictMeta,
    /// The only tenants that may be parked; empty: all.
    park: Vec<String>,
    /// The last one and, for a page, those before it.
    history: Vec<PredictReport>,
    keeps_all: bool,
    json_lines: bool,
    is_stdout_taken: bool,
    /// Nobody reads the lines any more.
    is_unheard: bool,
}

impl Answers {
    /// Takes the estimate that is due.
    fn take(&mut self, predict: &Predict, window: &PredictWindow) -> anyhow::Result<()> {
        let covers = if window.ended.is_some() { Covers::Run } else { Covers::Present };
        let elapsed_ns = window.end_ns.saturating_sub(predict.begin_ns());
        let watch = predict.watch();
        let known = KnownOfRun {
            predictor: predict.predictor(),
            ledger_alone: predict.ledger_alone(),
            found: predict.found(),
            park: &self.park,
            missing: watch.missing(),
            spin_cost: watch.spin_cost(),
            spinning: watch.spinning(),
            counting_cost: watch.counting_cost(),
        };
        let report = PredictReport::of_run(&self.meta, elapsed_ns, covers, known);
        if self.json_lines && !self.is_unheard {
            self.is_unheard = !lines::write(&report.json_line())?;
        }
        if !self.keeps_all {
            self.history.clear();
        }
        if !report.windows.is_empty() {
            self.history.last_mut().into_iter().for_each(PredictReport::thin_out);
        }
        self.history.push(report);
        Ok(())
    }

    /// The last estimate in one line of this many columns.
    fn live(&self, columns: usize) -> String {
        self.history.last().map_or_else(String::new, |report| live(report, columns))
    }

    fn write(&self, json: &Option<PathBuf>, html: &Option<PathBuf>, after: After) -> anyhow::Result<()> {
        let last = self.history.last().context("nothing was seen")?;
        let mut shown = summary(last);
        shown.extend(after.failed.iter().map(|failed| format!("! {failed}\n")));
        shown.extend(after.left.iter().map(|left| format!("  {left}\n")));
        let mut done = Ok(());
        let mut write = |path: &Option<PathBuf>, bytes: &dyn Fn() -> String| {
            let Some(path) = path else { return };
            match write_file(path, bytes().as_bytes()) {
                Ok(()) => shown.push_str(&format!("wrote {}\n", path.display())),
                Err(e) => done = std::mem::replace(&mut done, Ok(())).and(Err(e)),
            }
        };
        write(html, &|| render(&self.history));
        write(json, &|| last.json());
        match (self.is_stdout_taken, after.is_command) {
            (true, _) => {}
            (false, true) => drop(lines::tell(&shown)),
            (false, false) => print(&shown)?,
        }
        done.map_err(anyhow::Error::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use corun_predict::schedule::WINDOW_NS;

    #[derive(Parser)]
    struct Verb {
        #[command(flatten)]
        args: Args,
    }

    #[test]
    fn windows_and_intervals_have_the_librarys_defaults() {
        let Verb { args } = Verb::parse_from(["predict", "--dedicated", "--", "true"]);
        assert_eq!((args.window, Budget::of_share(args.budget)), (WINDOW_NS, Budget::default()));
        assert_eq!(args.confidence, PredictOptions::default().confidence);
    }
}
