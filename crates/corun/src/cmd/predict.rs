//! `corun predict`: how much slower is a program than it would be alone, said while it runs.

use crate::date::now;
use crate::lines;
use crate::target::{deserted, usage, SourceFlag, TargetFlags, ANYBODY};
use crate::usage::{check_files, interrupted, stop_on_signals, Usage};
use crate::values::{self, confidence, length_ns};
use anyhow::Context;
use corun_linux::dedicated::{Budget, Dedicated, DedicatedWindow, Hindrance, Unparkable};
use corun_linux::launch;
use corun_linux::root::in_words;
use corun_linux::target::Subject;
use corun_linux::{wake_up, Root};
use corun_model::{Host as _, Observation, TaskId, TenantId, Unavailable, What};
use corun_predict::estimate::{Assignment, Label};
use corun_predict::predictor::{Options, Predictor};
use corun_predict::schedule::{InTheWay, Next, Taken, FIRST_NS, OTHERS, SLOT_NS};
use corun_predict::useful_work::Window;
use corun_predict::{Recorded, Schedule};
use corun_report::describe;
use corun_report::json;
use corun_report::output::{print, write_file};
use corun_report::predict::{live, render, summary, Covers, Estimates, PredictMeta, PredictReport, Windows};
use corun_report::progress::Progress;
use corun_report::verify::{failed, still_running};
use corun_session::end::{left_behind, EndConditions, Ended};
use corun_session::subject_watch::{Opening, Parking, SubjectWatch, WatchOptions};
use corun_session::target::release;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

const EXAMPLES: &str = "\
Examples:
  corun predict -- ./solver in.dat                   a command: one line, kept up to date
  corun predict -p 1234 --for 30s                    a process, with its threads and children
  corun predict --cgroup web.service --for 1m --json out.json
  corun predict --vm web1 --for 30s --html page.html the slowdown over time, with its interval
  corun predict -p 1234 --json-lines | jq .slowdown  every estimate as it is made
  corun predict --dedicated --counters -- ./solver   what memory costs as well

The slowdown is against running alone on this machine: 1 is undisturbed, 2 takes twice as long. Without `--dedicated` \
nothing is touched, and what the program would do alone is derived from its ledger.

Exit status: that of CMD; without CMD 0. 2 is bad usage, 1 a failure of corun's own.
After CMD the answer goes to standard error: standard output is CMD's.";

/// How often an estimate is made, and how many times as long as making one takes must lie between two: a program of hundreds
/// of threads is estimated less often.
const ESTIMATE_NS: u64 = 500_000_000;
const ESTIMATE_TIMES: u64 = 50;
/// The length of a window.
const SLOT: Duration = Duration::from_nanos(SLOT_NS);

/// What counting may take of the program's time on a CPU, from when the first dedicated window may be.
const COUNTING: f64 = 0.03;
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
    /// Write every window as a line of JSON: a prediction can be made from them again, in another way
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Park all co-runners for short windows, to see what the program does alone: more exact, but it touches others
    #[arg(long)]
    dedicated: bool,
    /// Length of a dedicated window, after 20 ms in which the program's threads spread over the CPUs
    #[arg(long, value_name = "TIME", default_value = "40ms", value_parser = length_ns, requires = "dedicated")]
    window: u64,
    /// Share of the co-runners' time that dedicated windows may take, in any 20 s: 2% are six windows, of which the three
    /// that any answer takes come in the first seconds, also of a short run
    #[arg(long, value_name = "SHARE", default_value = "2%", value_parser = values::share, requires = "dedicated")]
    budget: f64,
    /// Only this tenant may be parked, by name or PID; repeat it for more [default: everybody who is not protected]
    #[arg(long, value_name = "NAME", requires = "dedicated", value_parser = values::name())]
    park: Vec<String>,
    /// A tenant that may not be parked, by name or PID
    #[arg(long, value_name = "NAME", requires = "dedicated", value_parser = values::name())]
    protect: Vec<String>,
    /// The program's work was dealt out to its threads at the start: it ends with the slowest of them
    #[arg(long)]
    static_work: bool,
    /// What a wake-up takes on this machine where CPUs sleep, such as 17us: programs whose threads sleep often wait that long
    /// alone, too, but not beside co-runners that keep CPUs awake [default: measured now, if two CPUs are idle]
    #[arg(long, value_name = "TIME", value_parser = length_ns)]
    wake_up: Option<u64>,
    /// How often the interval should hold what the whole run shows, such as 95% or 0.95
    #[arg(long, value_name = "SHARE", default_value_t = 0.95, value_parser = confidence)]
    confidence: f64,
    /// Count hardware events of each task as well. With --dedicated this tells what memory costs, and what CPI and MPKI
    /// would predict. Off by default, since every context switch of the program becomes dearer, in virtual machines by
    /// tens of microseconds; what it came to is said, and counting ends where that is more than 3 % of the program's time
    #[arg(long)]
    counters: bool,
    /// Do not sample where the program's threads are to tell spinning from computing; with --counters, those tell it
    #[arg(long)]
    no_spin: bool,
    /// How to see: eBPF where possible, schedstat (no root, no culprits) otherwise
    #[arg(long, value_enum, default_value = "auto")]
    source: SourceFlag,
    /// Show nothing while it runs; the last estimate still comes
    #[arg(long, short)]
    quiet: bool,
}

/// Runs the verb.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let root = Root::new("/");
    let stop = stop_on_signals()?;
    check_files([&args.json, &args.html, &args.record].into_iter().flatten())?;
    let dedicated = args.dedicated.then(|| dedicated(&args)).transpose()?;
    let armed = args.target.target(ANYBODY)?.arm(&root)?;
    if matches!(armed.subject, Subject::All) {
        return Err(Usage(
            "`--all` has no one to predict for; name a program with -p, --cgroup, --vm or -- CMD".into(),
        )
        .into());
    }
    // Not before: whatever stood in the file is gone then.
    let record = args.record.as_deref().map(record).transpose()?;
    let first: Vec<TaskId> = armed.first_task().into_iter().collect();
    let wake_up = args.wake_up.map_or_else(wake_up::measured_ns, |given| Ok(Some(given)));
    let wanted = WatchOptions {
        source: args.source.wanted(),
        spin: !args.no_spin,
        counters: args.counters,
        dedicated,
        wake_up_ns: wake_up.as_ref().ok().copied().flatten(),
    };
    let mut insight = SubjectWatch::start(&root, armed.subject, &first, wanted)?;
    let wake_up_ns = wake_up.unwrap_or_else(|e| {
        insight.lacks(What::WakeUpTime, format!("{}; --wake-up TIME gives it", in_words(&e)));
        None
    });
    let wake_up_ns = wake_up_ns.unwrap_or(0);
    let meta = PredictMeta {
        target: armed.description.clone(),
        machine: describe(insight.watcher().machine()),
        date: Some(now()),
        source: insight.watcher().source().name().into(),
        spin: insight.spin_method().map(|method| method.name().to_owned()),
        counters: args.counters,
    };
    // What came before a command begins is not its run.
    insight.observe()?;
    let begin_ns = insight.now_ns();
    if armed.is_deserted {
        lines::say(&deserted(&armed.description));
    }
    let running = armed.held.map(|held| release(held, &stop)).transpose()?;
    let after_command = running.is_some();
    let end_ns = args.length_ns.map(|ns| begin_ns + ns);
    let end = EndConditions { running, end_ns, stop: stop.clone() };
    let assignment = if args.static_work { Assignment::Static } else { Assignment::Dynamic };
    let options = Options { confidence: args.confidence, assignment, wake_up_ns, ..Options::default() };
    let schedule = args.dedicated.then(|| Schedule::new(insight.tenant(), begin_ns));
    let mut predictors = Predictors::new(&insight, options, schedule, record);
    let mut said = Said {
        meta,
        begin_ns,
        park: args.park.clone(),
        history: Vec::new(),
        keeps_all: args.html.is_some(),
        json_lines: args.json_lines,
        is_unheard: false,
        left: None,
        failed: None,
    };
    let ended = {
        let progress = Progress::line(args.quiet || args.json_lines);
        progress.say("looking; the first estimate takes half a second");
        let mut next_ns = begin_ns + ESTIMATE_NS;
        loop {
            let ended = end.wait(&mut insight, SLOT)?;
            let seen = insight.observe()?;
            let mut now_ns = seen.end_ns;
            predictors.push(&seen, Label::Shared)?;
            if now_ns - begin_ns >= FIRST_NS {
                insight.end_counting_above(COUNTING);
            }
            if ended.is_none() && predictors.is_due(now_ns) {
                match insight.open_dedicated(&seen, OTHERS)? {
                    Opening::NotNow => {}
                    Opening::Hindered(hindrance) => predictors.hindered(&seen, hindrance),
                    Opening::Opened(window) => {
                        predictors.opened(&window)?;
                        now_ns = window.dedicated.end_ns;
                    }
                }
            }
            if ended.is_some() || now_ns >= next_ns {
                let began = Instant::now();
                let is_over = matches!(ended, Some(Ended::Command | Ended::SubjectGone));
                let known = insight.evidence(is_over);
                known.into_iter().for_each(|evidence| predictors.main.push_evidence(evidence));
                let covers = if ended.is_some() { Covers::Run } else { Covers::Present };
                said.estimate(&predictors, covers, now_ns, &insight)?;
                progress.say(&said.live(progress.columns()));
                next_ns = now_ns + ESTIMATE_NS.max(ESTIMATE_TIMES * began.elapsed().as_nanos() as u64);
            }
            if let Some(ended) = ended {
                if let (Ended::Command, [command]) = (ended, &first[..]) {
                    said.left = still_running(left_behind(&seen, Some(insight.tenant()), *command));
                }
                break ended;
            }
            // Of a command that was started the end is awaited.
            if said.is_unheard && !after_command {
                break Ended::Interrupted;
            }
        }
    };
    insight.undo_all()?;
    // A command may go on for long after `--for`: nobody is watched then, and another controller may come.
    drop(insight);
    let recorded = predictors.end_recording();
    let EndConditions { running, .. } = end;
    let status = match (ended, running) {
        (Ended::Interrupted, Some(_)) => None,
        (_, Some(running)) => Some(running.wait().context("collecting the command")?),
        (_, None) => None,
    };
    said.failed = status.and_then(|s| failed(i32::from(launch::exit_code(s)), s.signal()));
    said.write(&args.json, &args.html, after_command)?;
    recorded?;
    Ok(match (ended, status) {
        (_, Some(status)) => ExitCode::from(launch::exit_code(status)),
        (Ended::Interrupted, None) if after_command => interrupted(&stop),
        _ => ExitCode::SUCCESS,
    })
}

fn dedicated(args: &Args) -> anyhow::Result<Parking> {
    // Never more than was allowed.
    let budget = Budget { per_mille: (args.budget * 1000.0 + 1e-6).floor() as u32, ..Budget::default() };
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

/// The predictor and, beside one that knows dedicated windows, one that does not.
struct Predictors {
    subject: TenantId,
    main: Predictor,
    ledger: Option<Predictor>,
    record: Option<BufWriter<File>>,
    /// Of dedicated windows, where they were asked for.
    schedule: Option<Schedule>,
}

impl Predictors {
    fn new(
        insight: &SubjectWatch,
        options: Options,
        schedule: Option<Schedule>,
        record: Option<BufWriter<File>>,
    ) -> Predictors {
        let one = || Predictor::new(insight.tenant(), options);
        Predictors {
            subject: insight.tenant(),
            main: one(),
            ledger: schedule.is_some().then(one),
            record,
            schedule,
        }
    }

    fn push(&mut self, seen: &Observation, label: Label) -> anyhow::Result<()> {
        let line = Recorded { label, window: Window::of(seen, self.subject) };
        if let Some(record) = &mut self.record {
            writeln!(record, "{}", json::compact(&line)).map_err(unrecorded)?;
        }
        let Recorded { window, .. } = line;
        if let (Label::Shared, Some(ledger)) = (label, &mut self.ledger) {
            ledger.push_window(window.clone(), label);
        }
        self.main.hear_of(seen);
        self.main.push_window(window, label);
        Ok(())
    }

    /// Writes what of the record is still in memory: a full disk would otherwise not be noticed.
    fn end_recording(&mut self) -> anyhow::Result<()> {
        self.record.as_mut().map_or(Ok(()), |record| record.flush()).map_err(unrecorded)
    }

    /// Whether a dedicated window would help now. The budget is not considered here.
    fn is_due(&self, now_ns: u64) -> bool {
        let wants = self.main.wants_dedicated();
        self.schedule.as_ref().is_some_and(|s| s.next(now_ns, wants) == Next::Open)
    }

    /// Takes a dedicated window, if it counts, and what was seen before it.
    fn opened(&mut self, window: &DedicatedWindow) -> anyhow::Result<()> {
        self.push(&window.before, Label::Shared)?;
        let taken = Taken {
            seen: &window.dedicated,
            parked: &window.parked,
            not_parked: &window.not_parked,
            parked_ns: window.parked_ns,
            leaked_ns: window.leaked_ns,
            subject_ended: window.subject_ended,
        };
        match self.schedule.as_mut().map(|s| s.opened(&taken)) {
            Some(Ok(())) => self.push(&window.dedicated, Label::Dedicated),
            _ => Ok(()),
        }
    }

    /// Takes that none was opened because of who ran in `seen`.
    fn hindered(&mut self, seen: &Observation, hindrance: Hindrance) {
        let of = |u: Unparkable| InTheWay { tenant: u.tenant, why: u.why, on_cpu_ns: u.on_cpu_ns };
        let in_the_way: Vec<InTheWay> = hindrance.unparkable.into_iter().map(of).collect();
        self.schedule.iter_mut().for_each(|s| s.hindered(seen, &in_the_way, hindrance.parkable));
    }
}

/// The estimates so far.
struct Said {
    meta: PredictMeta,
    begin_ns: u64,
    /// Whom alone the user lets be parked, if anybody was named.
    park: Vec<String>,
    /// The last one, and for a page those before it.
    history: Vec<PredictReport>,
    keeps_all: bool,
    json_lines: bool,
    /// Nobody reads the lines any more.
    is_unheard: bool,
    /// That the command has left something running, and that it failed.
    left: Option<String>,
    failed: Option<String>,
}

impl Said {
    fn estimate(
        &mut self,
        predictors: &Predictors,
        covers: Covers,
        now_ns: u64,
        insight: &SubjectWatch,
    ) -> anyhow::Result<()> {
        let elapsed_ns = now_ns.saturating_sub(self.begin_ns);
        let mut missing = insight.missing();
        let found = predictors.schedule.as_ref().map(Schedule::found);
        let windows = found.map(|found| Windows::of(found, &self.park));
        missing.extend(windows.iter().flat_map(Windows::missing));
        let estimates = Estimates::of(&predictors.main);
        let mut report = PredictReport::new(&self.meta, elapsed_ns, &estimates, covers, &missing);
        if let Some(why) = windows.and_then(|w| w.why_too_few()) {
            report.unavailable.retain(|u| u.what != What::DedicatedWindows);
            report.unavailable.push(Unavailable { what: What::DedicatedWindows, why });
        }
        // Why nobody told it is in what follows.
        if report.unavailable.iter().any(|u| u.what.is_spin_time()) {
            report.unavailable.retain(|u| u.what != What::Spin);
        }
        let by_ledger = |p: &Predictor| match covers {
            Covers::Present => p.estimate().ok(),
            Covers::Run => p.so_far().ok(),
        };
        let without = predictors.ledger.as_ref().and_then(by_ledger);
        report.without_dedicated = without.as_ref().map(|e| e.slowdown);
        report.without_dedicated_interval = without.map(|e| e.interval);
        report.dedicated_windows = windows.map(|w| w.told());
        report.parked_ns = report.dedicated_windows.map(|w| w.parked_ns);
        report.spin_cost = insight.spin_cost();
        report.spinning = insight.spinning();
        if report.spinning.is_none() && !report.unavailable.iter().any(|u| u.what.is_spin()) {
            let why = "nothing of its time on a CPU was judged";
            report.unavailable.push(Unavailable { what: What::Spinning, why: why.into() });
        }
        report.counting_cost = insight.counting_cost();
        if self.json_lines && !self.is_unheard {
            self.is_unheard = !lines::write(&report.json_line())?;
        }
        if !self.keeps_all {
            self.history.clear();
        }
        if let Some(before) = self.history.last_mut().filter(|_| !report.windows.is_empty()) {
            // A page draws only how slow it was said to be then.
            (before.windows, before.culprits, before.unavailable) = Default::default();
            before.spinning = None;
        }
        self.history.push(report);
        Ok(())
    }

    /// The last estimate in one line of so many columns.
    fn live(&self, columns: usize) -> String {
        self.history.last().map_or_else(String::new, |report| live(report, columns))
    }

    fn write(
        &self,
        json: &Option<PathBuf>,
        html: &Option<PathBuf>,
        after_command: bool,
    ) -> anyhow::Result<()> {
        let last = self.history.last().context("nothing was seen")?;
        let mut shown = summary(last);
        shown.extend(self.failed.iter().map(|failed| format!("! {failed}\n")));
        shown.extend(self.left.iter().map(|left| format!("  {left}\n")));
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
        let stdout_is_taken = self.json_lines || json.as_deref() == Some(Path::new("-"));
        match (stdout_is_taken, after_command) {
            (true, _) => {}
            (false, true) => drop(lines::tell(&shown)),
            (false, false) => print(&shown)?,
        }
        done.map_err(anyhow::Error::from)
    }
}
