//! `corun profile`: arm the watcher, let the subject run, say where its time went and who took it.

use crate::counting::{self, CountersFlag, Counting};
use crate::course::{left_behind, length_ns, Course, Ended};
use crate::date::now;
use crate::lines;
use crate::target::{release, usage, SourceFlag, Target, ANYBODY_OR_ALL};
use crate::tracing::Tracing;
use crate::usage::{check_files, Usage};
use anyhow::Context;
use corun_linux::clock::process_cpu_ns;
use corun_linux::counters::Theme;
use corun_linux::interrupt::Interrupt;
use corun_linux::launch;
use corun_linux::probe::LiveOptions;
use corun_linux::watcher::{Source, Watcher};
use corun_linux::Root;
use corun_model::{Host, Recording, TaskId, What};
use corun_predict::verdict::{Judge, Verdict, MAX_DISTURBANCE};
use corun_report::output::{print, write_file};
use corun_report::progress::Progress;
use corun_report::verify::still_running;
use corun_report::{
    describe, html, json, perfetto, terminal, LostTime, ProfileMeta, ProfileReport, SelfCost,
};
use std::path::PathBuf;
use std::process::{ExitCode, ExitStatus};
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  corun profile -- make -j4                          a command, followed from its first instruction
  corun profile --html report.html -- ./solver in.dat
  corun profile -p 1234 --for 10s --json report.json a process, with its threads and children
  corun profile --cgroup nginx.service --for 30s     a container, unit, pod or Slurm step
  corun profile --vm web1 --for 10s                  a virtual machine's vCPUs
  corun profile --all --for 5s                       everybody: who steals from whom
  corun profile --counters -- ./solver in.dat        with instructions per cycle and cache misses
  corun profile --counters=whole -- make -j4         the same for many processes that live shortly

Exit status: that of CMD; without CMD 0. 2 is bad usage, 1 a failure of corun's own.
After CMD the report goes to standard error: standard output is CMD's.";

/// Show where a program's time went, and who took it
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, override_usage = usage("profile", ANYBODY_OR_ALL))]
pub struct Args {
    #[command(flatten)]
    target: Target,
    /// Stop after this time, such as 10s [default: when the command ends, or at Ctrl-C]
    #[arg(long = "for", value_name = "TIME", value_parser = length_ns)]
    length_ns: Option<u64>,
    /// Write the report as JSON (schema corun.profile/1); `-` is standard output, instead of the text
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the report as one self-contained HTML page
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write every context switch as a trace for ui.perfetto.dev (needs eBPF)
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Count hardware events as well: cycles, instructions, branches, cache misses. Off by default, since every context
    /// switch of a counted task becomes dearer, in virtual machines by tens of microseconds; the report says what it came
    /// to. `tasks` counts each task by itself, `whole` a CMD with all that it starts as one, also the short-lived
    #[arg(long, value_enum, value_name = "HOW", num_args = 0..=1, require_equals = true, default_missing_value = "tasks")]
    counters: Option<CountersFlag>,
    /// How to see: eBPF where possible, schedstat (no root, no culprits) otherwise
    #[arg(long, value_enum, default_value = "auto")]
    source: SourceFlag,
    /// Tasks that can be followed at a time [default: four times those there are, at least 16384]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(64..=4_194_304))]
    max_tasks: Option<u32>,
    /// Tasks listed one by one in the JSON, those with the most time; the others are in their tenants' sums
    #[arg(long, value_name = "N", default_value_t = 1000)]
    tasks: usize,
    /// Show no progress
    #[arg(long, short)]
    quiet: bool,
}

/// Bytes of the ring of switches: 24 B each, emptied every 20 ms, so some 30 M switches a second fit.
const TRACE_BYTES: u32 = 16 << 20;

/// Runs the verb.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    if args.trace.is_some() && matches!(args.source, SourceFlag::Schedstat) {
        return Err(Usage("--trace needs eBPF, schedstat has no switches; drop one of the two".into()).into());
    }
    if args.counters == Some(CountersFlag::Whole) && !args.target.is_command() {
        let what = "--counters=whole counts a command and all that it starts; give one with -- CMD, or use --counters";
        return Err(Usage(what.into()).into());
    }
    // Before the command has run, not after.
    check_files(args.json.iter().chain(&args.html).chain(&args.trace))?;
    let root = Root::new("/");
    let interrupt = Interrupt::install().context("installing the Ctrl-C handler")?;
    let armed = args.target.arm(&root, ANYBODY_OR_ALL)?;
    let options = LiveOptions {
        trace_bytes: if args.trace.is_some() { TRACE_BYTES } else { 0 },
        max_tasks: args.max_tasks,
        // Or a co-runner that is called corun too could not be told from it.
        watcher_apart: true,
        ..LiveOptions::new(armed.subject)
    };
    let counting = corun_bpf::Probe::count_costs();
    let (mut watcher, mut unavailable) = Watcher::start(&root, options, args.source.wanted())?;
    if let (Some(_), Source::Schedstat) = (&args.trace, watcher.source()) {
        // The command that is held has not begun, and never does.
        let why = unavailable
            .iter()
            .find(|u| matches!(u.what, What::Ebpf { .. }))
            .map_or("it cannot be had", |u| &u.why);
        return Err(Usage(format!("--trace needs eBPF: {why}; without a trace, drop --trace")).into());
    }
    let cost = Cost::of_what_begins_now(counting);
    let first = armed.held.as_ref().map(|held| TaskId(held.pid()));
    let counted = args
        .counters
        .map(|how| Counting::start(&root, how, &Theme::ALL, watcher.subject(), first.as_slice()));
    let counters = match counted.transpose() {
        Ok(counters) => counters,
        Err(refused) => {
            unavailable.push(refused);
            None
        }
    };
    armed.deserted.iter().for_each(|said| lines::say(said));
    let running = armed.held.map(|held| release(held, interrupt)).transpose()?;
    let progress = Progress::time("measuring", args.length_ns, args.quiet);
    let end_ns = args.length_ns.map(|ns| watcher.now_ns() + ns);
    let mut watch = Watch {
        recording: Recording::about(watcher.subject()),
        judge: watcher.subject().map(|subject| Judge::new(subject, MAX_DISTURBANCE)),
        watcher: &mut watcher,
        counters,
        course: Course { running, end_ns, interrupt },
        cost,
        trace: Tracing::default(),
    };
    let ended = watch.until_the_end(&progress)?;
    drop(progress);
    let Watch { course: Course { running, .. }, counters, cost, recording, trace, judge, .. } = watch;
    let is_command = running.is_some();
    let (status, running) = match (ended, running) {
        (Ended::Command, Some(running)) => (Some(running.wait().context("collecting the command")?), None),
        (_, running) => (None, running),
    };
    let mut whole = recording.whole().cloned().context("nothing was seen")?;
    let mut meta = meta(&watcher, armed.target, status, &cost, ended, trace_lost(&args.trace, &trace));
    if let (Ended::Command, Some(command)) = (ended, first) {
        meta.notes.extend(still_running(left_behind(&whole, watcher.subject(), command)));
    }
    if ended == Ended::TimeIsUp && is_command {
        meta.notes.push("the command goes on; corun waits for its end, and ends with its status".to_owned());
    }
    meta.lost = judge.map(|judge| lost(&judge.verdict(None)));
    if let Some(counters) = &counters {
        meta.notes.extend(counters.read_whole(&mut whole));
    }
    // Why something that was asked for cannot be seen is known here; the host says that nobody asked for it.
    if args.counters.is_none() {
        unavailable.extend(counting::absent(&root));
    }
    whole.unavailable.retain(|u| unavailable.iter().all(|own| own.what != u.what));
    whole.unavailable.extend(unavailable);
    let report = ProfileReport::new(&meta, &whole, subject(&watcher), recording.timeline());
    let trace_file = || perfetto::encode(trace.trace(), recording.timeline(), subject(&watcher));
    let files: [File; 3] = [
        (&args.json, &|| json::indented(&report.listing_at_most(args.tasks)).into_bytes()),
        (&args.html, &|| html::render(&report).into_bytes()),
        (&args.trace, &trace_file),
    ];
    write(&report, &files, is_command)?;
    // The command may go on for long, and nobody watches any more.
    drop((counters, watcher));
    let status = match running {
        // Measured for as long as was asked; the command goes on, and its status is still ours.
        Some(running) if ended == Ended::TimeIsUp => Some(running.wait().context("collecting the command")?),
        Some(_) => return Ok(ExitCode::from(interrupt.exit_status())),
        None => status,
    };
    Ok(status.map_or(ExitCode::SUCCESS, |s| ExitCode::from(launch::exit_code(s))))
}

/// A measurement under way.
struct Watch<'a> {
    watcher: &'a mut Watcher,
    counters: Option<Counting>,
    course: Course,
    cost: Cost,
    recording: Recording,
    /// How much of its time the subject lost: what `verify` would say.
    judge: Option<Judge>,
    trace: Tracing,
}

impl Watch<'_> {
    /// Records windows until the command ends, the time is up, the subject is gone or a signal comes.
    fn until_the_end(&mut self, progress: &Progress) -> anyhow::Result<Ended> {
        let begin_ns = self.watcher.now_ns();
        let mut slot = Slot::default();
        loop {
            let ended = self.course.wait(self.watcher, slot.length)?;
            // Its own CPU time: on a machine that is busy it waits for a CPU as others do.
            let began_ns = process_cpu_ns();
            let mut window = self.watcher.observe()?;
            if let Some(counters) = &mut self.counters {
                counters.read(&mut window);
            }
            self.judge.iter_mut().for_each(|judge| judge.push(&window));
            self.recording.push(window);
            slot.learn(Duration::from_nanos(process_cpu_ns() - began_ns));
            self.trace.take(self.watcher.take_trace());
            let elapsed_ns = self.watcher.now_ns() - begin_ns;
            self.cost.sample(self.watcher, Duration::from_nanos(elapsed_ns));
            progress.elapsed(elapsed_ns);
            if let Some(ended) = ended {
                return Ok(ended);
            }
        }
    }
}

/// How long a slot of the timeline is: 100 ms, or longer where observing is expensive, so that it stays below 2 %
/// of a CPU.
struct Slot {
    length: Duration,
}

impl Default for Slot {
    fn default() -> Slot {
        Slot { length: Duration::from_millis(100) }
    }
}

impl Slot {
    fn learn(&mut self, cost: Duration) {
        self.length = self.length.max(50 * cost);
    }
}

/// What measuring costs: corun's own CPU time in the window (loading the probe comes before it, and disturbs nobody whose
/// time is told), and the probe's by the kernel's count over the first half second (counting costs some itself, so it
/// does not go on).
struct Cost {
    cpu_ns_before: u64,
    cpu_ns: u64,
    counting: Option<std::os::fd::OwnedFd>,
    probe: Option<ProbeCost>,
}

/// What the probe has cost while that was counted.
#[derive(Clone, Copy)]
struct ProbeCost {
    ns: u64,
    switches: u64,
    counted_for: Duration,
}

impl ProbeCost {
    fn ns_per_switch(&self) -> Option<u64> {
        self.ns.checked_div(self.switches)
    }

    /// Of the time of `cpus` CPUs.
    fn ppm(&self, cpus: u64) -> Option<u64> {
        let all_ns = self.counted_for.as_nanos() * u128::from(cpus);
        (u128::from(self.ns) * 1_000_000).checked_div(all_ns).and_then(|ppm| ppm.try_into().ok())
    }

    fn switches_per_s(&self) -> Option<u64> {
        let per_s = (u128::from(self.switches) * 1_000_000_000).checked_div(self.counted_for.as_nanos())?;
        per_s.try_into().ok()
    }
}

impl Cost {
    /// The window begins now; `counting` is in force while it is held.
    fn of_what_begins_now(counting: Option<std::os::fd::OwnedFd>) -> Cost {
        Cost { cpu_ns_before: process_cpu_ns(), cpu_ns: 0, counting, probe: None }
    }

    /// Reads both, `counted_for` after the watcher was armed.
    fn sample(&mut self, watcher: &Watcher, counted_for: Duration) {
        self.cpu_ns = process_cpu_ns() - self.cpu_ns_before;
        let (Watcher::Ebpf(host), Some(_)) = (watcher, &self.counting) else { return };
        let (ns, switches) = (host.probe_cost().1, host.switches());
        self.probe = Some(ProbeCost { ns, switches, counted_for });
        if counted_for > Duration::from_millis(500) {
            self.counting = None;
        }
    }
}

/// What a verdict says of the wall time.
fn lost(verdict: &Verdict) -> LostTime {
    let [least, most] = verdict.disturbance_range;
    LostTime { wall_ns: verdict.wall_ns, share: [least, verdict.disturbance, most] }
}

fn trace_lost(wanted: &Option<PathBuf>, trace: &Tracing) -> Option<u64> {
    wanted.as_ref().map(|_| trace.trace().lost)
}

fn meta(
    watcher: &Watcher,
    target: String,
    status: Option<ExitStatus>,
    cost: &Cost,
    ended: Ended,
    trace_lost: Option<u64>,
) -> ProfileMeta {
    let cpus = watcher.machine().cpu_count() as u64;
    let mut notes = Vec::new();
    match ended {
        Ended::Interrupted => notes.push("interrupted: this is what was seen until then".to_owned()),
        Ended::SubjectGone => notes.push("the subject ended before the time was up".to_owned()),
        Ended::Command | Ended::TimeIsUp => {}
    }
    ProfileMeta {
        host: corun_report::Host::Live,
        source: source(watcher),
        target,
        machine: describe(watcher.machine()),
        cpus,
        date: Some(now()),
        exit_status: status.map(|s| i32::from(launch::exit_code(s))),
        self_cost: SelfCost {
            cpu_ns: Some(cost.cpu_ns),
            ns_per_switch: cost.probe.and_then(|c| c.ns_per_switch()),
            probe_ppm: cost.probe.and_then(|c| c.ppm(cpus)),
            switches_per_s: cost.probe.and_then(|c| c.switches_per_s()),
            layout: layout(),
        },
        lost: None,
        trace_lost,
        notes,
    }
}

/// Where a watcher's ledgers come from, as reports name it.
pub fn source(watcher: &Watcher) -> corun_report::Source {
    match watcher.source() {
        Source::Ebpf => corun_report::Source::Ebpf,
        Source::Schedstat => corun_report::Source::Schedstat,
    }
}

/// How processes are grouped for fair shares here: every share in the report depends on it.
fn layout() -> Option<String> {
    let autogroup = std::fs::read_to_string("/proc/sys/kernel/sched_autogroup_enabled").ok()?;
    Some(match autogroup.trim() {
        "1" => "autogroup on: sessions share the CPU equally, then the tasks in each".into(),
        _ => "autogroup off: tasks share the CPU by weight, cgroups first".into(),
    })
}

fn subject(watcher: &Watcher) -> corun_report::Subject {
    watcher.subject().map_or(corun_report::Subject::All, corun_report::Subject::Tenant)
}

/// Where a file was asked for, and what to write there.
type File<'a> = (&'a Option<PathBuf>, &'a dyn Fn() -> Vec<u8>);

/// Writes what was asked for and shows the report, on standard error after a command, whose standard output is its
/// own. What goes to a terminal does not depend on whether the files could be written.
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
    let to_stdout = wanted().any(|(path, _)| path.as_os_str() == "-");
    match (to_stdout, after_command) {
        (true, _) => {}
        (false, true) => {
            let text = terminal::render(report, &terminal::Style::of_stderr());
            let _ = lines::tell(&(text + &shown));
        }
        (false, false) => print(&(terminal::render(report, &terminal::Style::of_stdout()) + &shown))?,
    }
    done.map_err(anyhow::Error::from)
}
