//! `corun control POLICY`: schedule the co-runners, say what and why, and undo everything at the end.

use crate::counting::Counting;
use crate::course::{length_ns, Course, Ended};
use crate::insight::split;
use crate::lines;
use crate::spoken;
use crate::target::pids;
use crate::usage::Usage;
use anyhow::Context;
use corun_linux::interrupt::Interrupt;
use corun_linux::probe::LiveOptions;
use corun_linux::shares::Shares;
use corun_linux::spin::{SpinOptions, SpinSampler};
use corun_linux::supervisor;
use corun_linux::target::Subject;
use corun_linux::watcher::Watcher;
use corun_linux::Root;
use corun_model::duration::{human_ns, parse_ns};
use corun_model::{Host, HostError, Knob, Observation, Tenant, Unavailable};
use corun_policy::controller::{Controller, Epoch, Mode, Taken};
use corun_policy::guard::Finding;
use corun_policy::{Options, Scope};
use corun_report::control::page::Controlled;
use corun_report::control::{ControlLine, ControlSummary, Decided, GuardLine, SCHEMA};
use corun_report::output::print;
use corun_report::progress::Progress;
use hands::{hands, Hands};
use protected::Protected;
use std::path::PathBuf;
use std::process::ExitCode;
use told::Told;

mod hands;
mod protected;
mod remarks;
mod told;
mod whom;

const EXAMPLES: &str = "\
Examples:
  corun control auto --tenant solver --tenant ffmpeg --for 10m
  corun control gang --all --dry-run --explain       what it would do, touching nothing
  corun control controlled_contention --all --dc 48 -o slot=200ms --json-lines
  corun control controlled_contention --all --dc auto --explain
  corun control gang --tenant a --tenant b --for 30s --html report.html --json report.json
                                                     what was decided, why, and what it gained
  corun control --restore                            after a power cut of corun and its supervisor
  corun policies                                     the policies and their options

A tenant is named as `corun profile --all` names it, by its key (`cgroup:/build`), or by a PID: that process with \
all that descends from it. Protected are init, logins, session keepers, kernel threads, the terminal that corun was started from, \
and who `--protect` names.

The guard measures short periods with and without the policy in turn, and gives the policy up when it does not \
help. Everything is undone at the end, whatever ends it; a supervisor does so even when corun is killed.

A dry run parks nobody. So `auto`, and `--dc auto` while it searches, which go by what their slots do, only tell \
what they would try and why; whether it helps only a real run tells.

Exit status: 0; 2 is bad usage (nothing was changed), 1 a failure of corun's own.";

/// How long it looks around before it takes anybody for not there.
const FIRST_LOOK_NS: u64 = 20_000_000;

/// Bytes of the ring of switches, as for a profile.
const TRACE_BYTES: u32 = 16 << 20;

/// Schedule the co-runners so that parallel programs suffer less from each other
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The policy; `corun policies` lists them
    policy: Option<String>,
    /// A tenant that may be controlled, by name or PID; repeat it for more
    #[arg(long = "tenant", value_name = "NAME", conflicts_with = "all", value_parser = spoken::name())]
    tenants: Vec<String>,
    /// Everybody may be controlled who is not protected
    #[arg(long)]
    all: bool,
    /// A tenant that may not be touched, by name or PID
    #[arg(long, value_name = "NAME", value_parser = spoken::name())]
    protect: Vec<String>,
    /// An option of the policy, such as slot=50ms
    #[arg(short = 'o', long = "option", value_name = "NAME=VALUE", value_parser = spoken::name())]
    options: Vec<String>,
    /// The degree of contention: a number, `cpus` or `auto`; the same as -o dc=DC
    #[arg(long, value_name = "DC")]
    dc: Option<String>,
    /// What carries the decisions out
    #[arg(long, value_enum, default_value = "auto")]
    backend: BackendFlag,
    /// Time between two decisions; four of them while `auto` has nothing to decide [default: the policy's]
    #[arg(long, value_name = "TIME", value_parser = parse_ns)]
    epoch: Option<u64>,
    /// Stop after this time, such as 10m [default: at Ctrl-C]
    #[arg(long = "for", value_name = "TIME", value_parser = length_ns)]
    length_ns: Option<u64>,
    /// Decide, but touch nothing
    #[arg(long)]
    dry_run: bool,
    /// Whether to measure that the policy helps, and give it up when it does not; `auto` measures by itself
    #[arg(long, value_enum, num_args = 0..=1, default_value = "on", default_missing_value = "on")]
    guard: OnOff,
    /// A line for every decision, on standard error
    #[arg(long)]
    explain: bool,
    /// Write what is decided to standard output, one line of JSON per epoch (schema corun.control/1)
    #[arg(long)]
    json_lines: bool,
    /// Write what was decided and why, what each tenant got and where its time went, as JSON (schema corun.control-report/1)
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write what was decided, when and why, who was parked when, and what it gained, as one self-contained HTML page
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write the same as a trace for ui.perfetto.dev, beside every context switch where eBPF sees them
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Undo what a corun left behind that was killed together with its supervisor, and do nothing else
    #[arg(long, conflicts_with_all = ["policy", "tenants", "all", "dry_run", "json", "html", "trace"])]
    restore: bool,
    /// Show nothing while it runs
    #[arg(long, short)]
    quiet: bool,
}

impl Args {
    /// The files that were asked for, with their flags.
    fn files(&self) -> impl Iterator<Item = (&'static str, &PathBuf)> {
        let files = [("--json", &self.json), ("--html", &self.html), ("--trace", &self.trace)];
        files.into_iter().filter_map(|(flag, path)| Some((flag, path.as_ref()?)))
    }

    /// Whether one of them is standard output.
    fn to_standard_output(&self) -> bool {
        self.files().any(|(_, path)| path.as_os_str() == "-")
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum BackendFlag {
    Auto,
    #[value(name = "sched_ext")]
    SchedExt,
    Stock,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum OnOff {
    On,
    Off,
}

/// Runs the verb.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let root = Root::new("/");
    if args.restore {
        return restore(&root);
    }
    if args.policy.is_none() {
        let what = "name a policy, such as `corun control auto --all`; `corun policies` lists them";
        return Err(Usage(what.into()).into());
    }
    // Whether there is such a policy with such options does not depend on whom it may touch.
    let turns_knobs = !controller(&args, Scope::everyone())?.policy().knobs().is_empty();
    whom::check(&args)?;
    let mut counting = counting(&root, &args)?;
    let acts = turns_knobs && !args.dry_run;
    let interrupt = Interrupt::install().context("installing the Ctrl-C handler")?;
    let options = LiveOptions {
        trace_bytes: if args.trace.is_some() { TRACE_BYTES } else { 0 },
        tenants: pids(&args.tenants),
        watcher_apart: true,
        ..LiveOptions::new(Subject::All)
    };
    let (mut watcher, mut unavailable) = Watcher::start(&root, options, None)?;
    watcher.advance(FIRST_LOOK_NS)?;
    let mut first = watcher.observe()?;
    // Whose tasks are there is known now; what they did is counted from here.
    counting.iter_mut().for_each(|c| c.read(&mut first));
    let mut controller = controller(&args, whom::scope(&root, &args, &first, acts)?)?;
    controller.policy().subject().map_or(Ok(()), |named| whom::subject(&root, named, &first))?;
    let mut spin = SpinSampler::start(&root, SpinOptions::default())
        .inspect_err(|e| unavailable.push(e.unavailable()))
        .ok();
    let protected = Protected::new(&root, &args.protect, acts);
    controller.look(&mut first, |seen, tenant| protected.refuses(seen, tenant));
    let covered = controller.covered();
    if acts && args.all {
        let others = whom::others_left_alone(&root, &args, &first, controller.scope())?;
        remarks::of_others(others)
            .filter(|_| !args.quiet)
            .iter()
            .for_each(|told| lines::say(&format!("corun control: {told}")));
    }
    split(&mut spin, &mut first, |t| covered.contains(&t.id));
    for wanted in whom::nobody_yet(&args, &first) {
        lines::say(&format!(
            "corun control: --tenant {wanted}: nobody is in it now; who comes will be controlled"
        ));
    }
    for wanted in whom::protecting_nobody(&args, &first) {
        lines::say(&format!(
            "corun control: --protect {wanted}: nothing by that name runs here now; what comes by it later is protected"
        ));
    }
    if !args.quiet {
        unavailable.iter().for_each(|u| lines::say(&format!("corun control: {}: {}", u.what, u.why)));
    }
    let policy = controller.policy();
    let idle = remarks::of_tenants(&args, policy, &first, covered);
    if !args.quiet {
        let short = args.length_ns.filter(|_| controller.guard().is_some());
        let short = short.and_then(|ns| remarks::of_guard(policy.name(), ns, controller.epoch_ns()));
        idle.iter().chain(&short).for_each(|remark| lines::say(&format!("corun control: {remark}")));
    }
    let end_ns = args.length_ns.map(|ns| watcher.now_ns() + ns);
    let begin_ns = watcher.now_ns();
    let host = hands(&root, &args, watcher, policy)?;
    if host.backend() == "stock" && !args.quiet {
        let told = remarks::of_knobs(policy, &host.support());
        told.iter().for_each(|how| lines::say(&format!("corun control: {how}")));
    }
    if host.backend() == "stock" && policy.knobs().contains(&Knob::Park) {
        if let Some(warning) = whom::taken_for_paused(&first, covered) {
            lines::say(&format!("corun control: {warning}"));
        }
    }
    let mut control = Control {
        begin_ns,
        course: Course { running: None, end_ns, interrupt },
        shares: Shares::new(&root, host.backend() != "sched_ext"),
        host,
        controller,
        guard_told: None,
        spin,
        counting,
        summary: ControlSummary::default(),
        told: Told::new(&args, begin_ns, unavailable),
        idle,
        protected,
        args: &args,
    };
    let ended = control.until_the_end();
    // Whatever happened, nothing stays changed.
    let undone = control.host.undo_all();
    let undone = control.undone("the end", undone);
    let interrupted = matches!(ended, Ok(Ended::Interrupted));
    let written = control.write(interrupted);
    let ended = ended?;
    undone?;
    written?;
    if !args.json_lines && !args.to_standard_output() {
        print(&control.conclusion(ended))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn restore(root: &Root) -> anyhow::Result<ExitCode> {
    let restored = supervisor::restore(root, &supervisor::journal::default_folder())
        .map_err(|e| Usage(e.to_string()))?;
    if let Some((what, why)) = supervisor::restoring::complaint(&restored.failed) {
        anyhow::bail!("could not undo {what}: {why}");
    }
    match restored.undone {
        0 => print("nothing was left to undo\n")?,
        1 => print("one change was undone\n")?,
        n => print(&format!("{n} changes were undone\n"))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// The policy as it was asked for, with whom it may touch.
fn controller(args: &Args, scope: Scope) -> anyhow::Result<Controller> {
    let name = args.policy.as_deref().unwrap_or_default();
    let mut options = Options::new().scope(scope);
    for given in &args.options {
        let Some((key, value)) = given.split_once('=') else {
            let what = format!("-o {given} has no value; give NAME=VALUE, such as -o slot=50ms");
            return Err(Usage(what).into());
        };
        options = options.set(key, value);
    }
    if let Some(dc) = &args.dc {
        if options.given().any(|(name, _)| name == "dc") {
            return Err(Usage("--dc and -o dc=DC say the same; leave one of them out".into()).into());
        }
        options = options.set("dc", dc);
    }
    let mode = Mode { guard: args.guard == OnOff::On, dry_run: args.dry_run, epoch_ns: args.epoch };
    Ok(Controller::new(name, options, mode).map_err(|what| match &args.dc {
        Some(_) if what.contains("`dc`") => Usage(format!("--dc: {what}")),
        _ => Usage(what),
    })?)
}

/// Counts what the policy needs counted; refused before anything is touched where that cannot be.
fn counting(root: &Root, args: &Args) -> anyhow::Result<Option<Counting>> {
    let entry = args.policy.as_deref().and_then(corun_policy::entry);
    let Some(entry) = entry.filter(|e| !e.counters.is_empty()) else { return Ok(None) };
    let refused = |u: Unavailable| {
        let what = format!(
            "{} decides by hardware counters, and this machine lacks {}: {}; `corun sim` runs it on a modelled machine",
            entry.name, u.what, u.why
        );
        Usage(what)
    };
    Ok(Some(Counting::needed(root, entry.counters).map_err(refused)?))
}

/// A policy at work.
struct Control<'a> {
    host: Hands,
    controller: Controller,
    protected: Protected,
    /// The guard's state as it was told last; `None`: nothing was told yet, and the first epoch is news whatever it brings.
    guard_told: Option<Option<&'static str>>,
    spin: Option<SpinSampler>,
    /// Where the policy needs hardware counters.
    counting: Option<Counting>,
    shares: Shares,
    course: Course,
    summary: ControlSummary,
    told: Told,
    /// Why nobody could be controlled at the start, where that was so.
    idle: Vec<String>,
    begin_ns: u64,
    args: &'a Args,
}

impl Control<'_> {
    fn until_the_end(&mut self) -> anyhow::Result<Ended> {
        let progress = Progress::line(self.args.quiet || self.args.json_lines || self.args.explain);
        loop {
            let ended = self.host.wait(&self.course, self.controller.wait_ns())?;
            let seen = self.observe()?;
            let covers = |t: &Tenant| self.controller.covered().contains(&t.id);
            self.summary.push(&seen, covers);
            self.told.window(self.host.take_trace(), &seen, self.controller.is_in_force(), covers);
            if let Some(ended) = ended {
                return Ok(ended);
            }
            let decided = self.epoch(&seen)?;
            if !self.say(&seen, decided, &progress)? {
                return Ok(Ended::Interrupted);
            }
        }
    }

    fn observe(&mut self) -> anyhow::Result<Observation> {
        let mut seen = self.host.host().observe()?;
        self.counting.iter_mut().for_each(|c| c.read(&mut seen));
        self.controller.look(&mut seen, |seen, tenant| self.protected.refuses(seen, tenant));
        let covers = |t: &Tenant| self.controller.covered().contains(&t.id);
        split(&mut self.spin, &mut seen, covers);
        self.shares.fill(&mut seen, covers);
        Ok(seen)
    }

    /// Decides and applies, as far as the guard allows, and keeps what came of it.
    fn epoch(&mut self, seen: &Observation) -> anyhow::Result<Vec<Decided>> {
        let Epoch { undone, taken } = self.controller.epoch(self.host.host(), seen);
        if let Some(undone) = undone {
            self.undone("the guard: a time without the policy", undone)?;
        }
        let mut keep = |Taken { at_ns, decision, fate }: &Taken| {
            let decided = Decided::new(decision, fate, seen);
            self.told.decided(*at_ns, decision, &decided);
            decided
        };
        Ok(taken.iter().map(&mut keep).collect())
    }

    /// Notes that everything was undone, and what came of that.
    fn undone(&mut self, why: &'static str, done: Result<(), HostError>) -> anyhow::Result<()> {
        let failed = done.as_ref().err().map(ToString::to_string);
        self.told.undone(self.host.host().now_ns(), why, failed);
        Ok(done?)
    }

    /// Writes the files that were asked for.
    fn write(&self, interrupted: bool) -> anyhow::Result<()> {
        let notes = if interrupted {
            vec!["interrupted: this is what was done until then".into()]
        } else {
            Vec::new()
        };
        let controlled = Controlled {
            policy: self.controller.policy().name(),
            backend: self.host.backend(),
            guard: self.controller.finding().map(guard_line),
            history: self.told.history(),
            summary: &self.summary,
        };
        self.told.write(self.args, &controlled, self.host.watcher(), notes)
    }

    /// Tells an epoch. Returns whether anybody still listens.
    fn say(
        &mut self,
        seen: &Observation,
        decided: Vec<Decided>,
        progress: &Progress,
    ) -> anyhow::Result<bool> {
        let t_ns = seen.end_ns.saturating_sub(self.begin_ns);
        if self.args.explain {
            let told: String = decided.iter().map(|d| d.line(t_ns) + "\n").collect();
            if !lines::tell(&told)? {
                return Ok(false);
            }
        }
        let guard = self.controller.finding().map(guard_line);
        let name = self.controller.policy().name();
        let state = guard.as_ref().map(|g| g.state);
        let is_news = self.guard_told.replace(state) != Some(state);
        let found = guard.as_ref().and_then(|g| g.sentence(name));
        if let Some(found) = found.filter(|_| is_news && !self.args.quiet) {
            progress.aside(&format!("{}: the guard: {found}.", human_ns(t_ns)));
        }
        progress.say(&format!(
            "{} {}: {}, {} decisions{}",
            human_ns(t_ns),
            name,
            if self.controller.is_in_force() { "in force" } else { "not in force" },
            decided.len(),
            guard.as_ref().map_or(String::new(), |g| format!(", guard: {}", g.state))
        ));
        if self.args.json_lines && (is_news || !decided.is_empty()) {
            let line = ControlLine {
                schema: SCHEMA,
                t_ns,
                policy: name.to_owned(),
                backend: self.host.backend().to_owned(),
                decision: decided,
                guard,
            };
            return lines::write(&line.json_line());
        }
        Ok(true)
    }

    fn conclusion(&self, ended: Ended) -> String {
        let name = self.controller.policy().name();
        let by = match &self.host {
            Hands::None(_) => ", a dry run: nothing was touched".to_owned(),
            Hands::Steering(_) => format!(" by {}", self.host.backend()),
        };
        let interrupted = if ended == Ended::Interrupted { ", interrupted" } else { "" };
        let history = self.told.history();
        let mut out = format!(
            "corun control: {name}{by}{interrupted}\n\n{}{}",
            self.summary.text(),
            history.text(self.args.explain)
        );
        if history.reasons().is_empty() {
            out += &format!(
                "Nothing to do for {name}: {}.\n",
                remarks::of_nothing(self.controller.policy(), &self.idle)
            );
        }
        if let Some(finding) = self.controller.finding() {
            let found = guard_line(finding).sentence(name).unwrap_or_else(|| {
                let Finding::Measuring { pairs } = finding else { return String::new() };
                let s = if pairs == 1 { "" } else { "s" };
                format!("not enough was seen for a finding ({pairs} pair{s} of periods)")
            });
            out += &format!("The guard: {found}.\n");
        }
        if history.has_changed() {
            out += "Everything that was changed is as it was.\n";
        }
        out
    }
}

fn guard_line(finding: Finding) -> GuardLine {
    match finding {
        Finding::Measuring { pairs } => GuardLine { state: "measuring", gain: None, pairs: Some(pairs) },
        Finding::Helps { gain } => GuardLine { state: "helps", gain: Some(gain), pairs: None },
        Finding::DoesNotHelp { gain } => GuardLine { state: "reverted", gain: Some(gain), pairs: None },
    }
}
