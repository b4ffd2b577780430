//! `corun profile`: arm the watcher, let the subject run, report where its time went and who took it.

mod from;

pub use from::{opened, source_of, time_of, why_not};

use crate::beside;
use crate::date::now;
use crate::lines;
use crate::target::{deserted, usage, CountersFlag, SourceFlag, TargetFlags, ANYBODY_OR_ALL};
use crate::usage::{check_files, interrupted, stop_on_signals, Usage};
use crate::values::length_ns;
use anyhow::Context;
use corun_linux::launch::{self, Running};
use corun_linux::sched::autogroups;
use corun_linux::watcher;
use corun_linux::Root;
use corun_predict::verdict::Verdict;
use corun_report::output::{print, write_file};
use corun_report::profile::notes;
use corun_report::progress::Progress;
use corun_report::verify::{failed, still_running};
use corun_report::{html, json, perfetto, terminal, Host, LostTime, ProfileMeta, ProfileReport, SelfCost};
use corun_session::counting::CountedUnit;
use corun_session::end::Ended;
use corun_session::profile::Profiled;
use corun_session::{Error, Profile, ProfileOptions};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{ExitCode, ExitStatus};

const EXAMPLES: &str = "\
Examples:
  corun profile -- make -j4                          a command, followed from its first instruction
  corun profile --html report.html -- ./solver in.dat
  corun profile -p 1234 --for 10s --json report.json a process, with its threads and children
  corun profile --cgroup nginx.service --for 30s     a container, unit, pod or Slurm step
  corun profile --vm web1 --for 10s                  a virtual machine's vCPUs
  corun profile --all --for 5s                       everybody: who steals from whom
  corun profile --worst 5 -p 1234 --for 10s          the five longest waits for a CPU
  corun profile --from /var/lib/corun/ring --cgroup web.service --at 03:10 --for 2m
                                                     what happened at 03:10: an agent's ring
  corun profile --from corun.rec                     what `corun record` saw of everybody
  corun profile --counters -- ./solver in.dat        with instructions per cycle and cache misses
  corun profile --counters=whole -- make -j4         the same for many short-lived processes

Exit status: that of CMD; without CMD 0. 2 is bad usage, 1 a failure of corun's own.
After CMD the report goes to standard error: standard output is CMD's. Where a file is `-`, that is standard output, and \
what CMD writes there goes to standard error.";

/// Show where a program's time went, and who took it
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, override_usage = usage("profile", ANYBODY_OR_ALL))]
pub struct Args {
    #[command(flatten)]
    target: TargetFlags,
    /// Stop after this time, such as 10s [default: when the command ends, or at Ctrl-C]
    #[arg(long = "for", value_name = "TIME", value_parser = length_ns)]
    length_ns: Option<u64>,
    /// Report on a past time instead of watching: from a recording of `corun record`, or the folder of a `corun agent`'s ring
    #[arg(long, value_name = "FILE", conflicts_with_all = ["trace", "worst", "counters", "source", "max_tasks"])]
    from: Option<PathBuf>,
    /// With --from: when the report begins, such as 03:10, 03:10:30 or 2026-01-31T03:10 [default: until the end, for as
    /// long as --for says]
    #[arg(long, value_name = "TIME", requires = "from")]
    at: Option<String>,
    /// With --from: the tenant, by the name that reports show [default: everybody]
    #[arg(long, value_name = "NAME", requires = "from", conflicts_with = "Target")]
    tenant: Option<String>,
    /// Write the report as JSON (schema corun.profile/1); `-` is standard output, instead of the text
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the report as one self-contained HTML page
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write every context switch as a trace for ui.perfetto.dev (needs eBPF)
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Show the N longest waits for a CPU one by one: when, whose, who held the CPU and for how long, who woke the task
    /// (needs eBPF; every context switch of the machine takes longer)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    worst: Option<u16>,
    /// Count hardware events as well: cycles, instructions, branches, cache misses. Off by default: every context
    /// switch of a counted task takes longer, in virtual machines by tens of microseconds. The report says how much
    /// that cost. `tasks` counts each task by itself; `whole` counts a CMD and everything that it starts as one,
    /// including short-lived tasks
    #[arg(long, value_enum, value_name = "HOW", num_args = 0..=1, require_equals = true, default_missing_value = "tasks")]
    counters: Option<CountersFlag>,
    /// How to watch: eBPF where possible, otherwise schedstat (needs no root, names no culprits)
    #[arg(long, value_enum, default_value = "auto")]
    source: SourceFlag,
    /// How many tasks corun can follow at a time [default: four times as many as there are, at least 16384]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(64..=4_194_304))]
    max_tasks: Option<u32>,
    /// How many tasks the JSON lists one by one, those with the most time; the others are in their tenants' sums
    #[arg(long, value_name = "N", default_value_t = 1000)]
    tasks: usize,
    /// Show no progress
    #[arg(long, short)]
    quiet: bool,
}

/// Runs the verb.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    if let Some(ring) = &args.from {
        check_files(args.json.iter().chain(&args.html))?;
        let report = from::report(ring, args.at.as_deref(), args.length_ns, args.tenant, args.target)?;
        let files: [File; 2] = [
            (&args.json, &|| json::indented(&report.listing_at_most(args.tasks)).into_bytes()),
            (&args.html, &|| html::render(&report).into_bytes()),
        ];
        write(&report, &files, false)?;
        return Ok(ExitCode::SUCCESS);
    }
    let traced = if args.trace.is_some() { "--trace" } else { "--worst" };
    let is_traced = args.trace.is_some() || args.worst.is_some();
    if is_traced && matches!(args.source, SourceFlag::Schedstat) {
        let what = format!("{traced} needs eBPF, schedstat has no switches; drop one of the two");
        return Err(Usage(what).into());
    }
    let options = ProfileOptions {
        source: args.source.wanted(),
        length_ns: args.length_ns,
        counters: args.counters.map(CountersFlag::unit),
        trace: args.trace.is_some(),
        worst: args.worst.map(usize::from),
        max_tasks: args.max_tasks,
    };
    if options.counters == Some(CountedUnit::WholeCommand) && !args.target.is_command() {
        let what = "--counters=whole counts a command and all that it starts; give one with -- CMD, or use --counters";
        return Err(Usage(what.into()).into());
    }
    // Before the command has run, not after.
    check_files(args.json.iter().chain(&args.html).chain(&args.trace))?;
    let stop = stop_on_signals()?;
    let is_stdout_taken = beside::takes_stdout([&args.json, &args.html, &args.trace].into_iter().flatten());
    let begun = match args.target.command() {
        Some(words) => Profile::start_command(beside::command(words, is_stdout_taken)?, &options, &stop),
        None => Profile::start(&args.target.target(ANYBODY_OR_ALL)?, &options, &stop),
    };
    let mut profile = begun.map_err(|e| match e {
        Error::NoTrace { why } => {
            Usage(format!("{traced} needs eBPF: {why}; go without, drop {traced}")).into()
        }
        e => anyhow::Error::from(e),
    })?;
    if profile.is_deserted() {
        lines::say(&deserted(profile.description()));
    }
    let progress = Progress::time("measuring", args.length_ns, args.quiet);
    while let Some(window) = profile.next() {
        window?;
        progress.elapsed(profile.elapsed_ns());
    }
    drop(progress);
    let mut seen = profile.finish()?;
    let is_command = seen.command.is_some();
    let status = match seen.ended {
        Ended::Command => seen.command.take().map(collect).transpose()?,
        _ => None,
    };
    // Events that were read but not kept are missing from a trace, not from the waits.
    let trace_lost = match (&args.trace, args.worst) {
        (Some(_), _) => Some(seen.trace.trace().lost),
        (None, Some(_)) => Some(seen.trace_lost),
        (None, None) => None,
    };
    let worst_waits = seen.worst.take();
    let meta = ProfileMeta { trace_lost, worst_waits, ..meta(&seen, status) };
    let subject = seen.subject.map_or(corun_report::Subject::All, corun_report::Subject::Tenant);
    let timeline = seen.recording.timeline();
    let report = ProfileReport::new(&meta, &seen.whole, subject, timeline);
    let files: [File; 3] = [
        (&args.json, &|| json::indented(&report.listing_at_most(args.tasks)).into_bytes()),
        (&args.html, &|| html::render(&report).into_bytes()),
        (&args.trace, &|| perfetto::encode(seen.trace.trace(), timeline, subject)),
    ];
    write(&report, &files, is_command)?;
    let status = match seen.command {
        // Measured for the requested time; the command goes on, and its status is still ours.
        Some(running) if seen.ended == Ended::TimeIsUp => Some(collect(running)?),
        Some(_) => return Ok(interrupted(&stop)),
        None => status,
    };
    Ok(status.map_or(ExitCode::SUCCESS, |s| ExitCode::from(launch::exit_code(s))))
}

/// Waits for the command's end.
fn collect(running: Running) -> anyhow::Result<ExitStatus> {
    running.wait().context("collecting the command")
}

fn meta(seen: &Profiled, status: Option<ExitStatus>) -> ProfileMeta {
    let cpus = seen.machine.cpu_count() as u64;
    let note = match (seen.ended, &seen.command) {
        (Ended::Interrupted, _) => Some(notes::INTERRUPTED),
        (Ended::SubjectGone, _) => Some(notes::SUBJECT_ENDED),
        (Ended::TimeIsUp, Some(_)) => Some(notes::COMMAND_GOES_ON),
        _ => None,
    };
    let mut all: Vec<String> = note.into_iter().map(str::to_owned).collect();
    all.extend(status.and_then(|s| failed(i32::from(launch::exit_code(s)), s.signal())));
    all.extend(seen.left_behind.and_then(still_running));
    all.extend(seen.turns_taken.map(|t| notes::turns_taken(t.counted_share, t.relative_error)));
    all.extend(seen.counting_cost.map(|cost| notes::counting_cost(cost.added_ns, cost.share)));
    ProfileMeta {
        date: Some(now()),
        exit_status: status.map(|s| i32::from(launch::exit_code(s))),
        self_cost: SelfCost {
            cpu_ns: Some(seen.cost.cpu_ns),
            ns_per_switch: seen.cost.probe.and_then(|c| c.ns_per_switch()),
            probe_ppm: seen.cost.probe.and_then(|c| c.ppm(cpus)),
            switches_per_s: seen.cost.probe.and_then(|c| c.switches_per_s()),
            layout: autogroups(&Root::new("/")).map(|on| notes::layout(on).to_owned()),
        },
        lost: seen.verdict.as_ref().map(lost),
        servers: seen.verdict.as_ref().and_then(|verdict| verdict.servers.clone()),
        notes: all,
        ..ProfileMeta::new(Host::Live, source(seen.source), seen.description.as_str(), &seen.machine)
    }
}

/// The verdict's statement about the wall time.
fn lost(verdict: &Verdict) -> LostTime {
    let [least, most] = verdict.disturbance_range;
    LostTime {
        wall_ns: verdict.wall_ns,
        share: [least, verdict.disturbance, most],
        spare: verdict.spare,
        stopped_anyway: verdict.stopped_anyway,
    }
}

/// The source of a watcher's ledgers, under its name in reports.
pub fn source(source: watcher::Source) -> corun_report::Source {
    match source {
        watcher::Source::Ebpf => corun_report::Source::Ebpf,
        watcher::Source::Schedstat => corun_report::Source::Schedstat,
    }
}

/// The requested files, and their content.
type File<'a> = (&'a Option<PathBuf>, &'a dyn Fn() -> Vec<u8>);

/// Writes the requested files and shows the report, on standard error after a command, whose standard output
/// is its own. The terminal output does not depend on whether the files could be written.
fn write(report: &ProfileReport, files: &[File], after_command: bool) -> anyhow::Result<()> {
    let wanted = || files.iter().filter_map(|(path, bytes)| Some((path.as_ref()?, bytes)));
    let mut done = Ok(());
    let mut shown = String::new();
    for (path, bytes) in wanted() {
        match write_file(path, &bytes()) {
            Ok(()) => shown.push_str(&format!("wrote {}\n", path.display())),
            Err(e) => done = done.and(Err(e)),
        }
    }
    match (beside::takes_stdout(wanted().map(|(path, _)| path)), after_command) {
        (true, _) => {}
        (false, true) => {
            let text = terminal::render(report, &terminal::Style::of_stderr());
            let _ = lines::tell(&(text + &shown));
        }
        (false, false) => print(&(terminal::render(report, &terminal::Style::of_stdout()) + &shown))?,
    }
    done.map_err(anyhow::Error::from)
}
