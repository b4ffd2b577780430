//! `corun control POLICY`: schedule the co-runners, say what and why, and undo everything at the end.

use crate::cli::Usage;
use crate::course::{Course, Ended};
use crate::insight::split;
use anyhow::Context;
use corun_linux::backend::{Backend, Support};
use corun_linux::interrupt::Interrupt;
use corun_linux::probe::LiveOptions;
use corun_linux::scx::{support, ScxBackend};
use corun_linux::spin::{SpinOptions, SpinSampler};
use corun_linux::steered::SteeredHost;
use corun_linux::stock::{self, StockBackend};
use corun_linux::supervisor;
use corun_linux::target::Subject;
use corun_linux::watcher::Watcher;
use corun_linux::Root;
use corun_model::duration::{human_ns, parse_ns};
use corun_model::{Decision, Host, HostError, Knob, Observation, Policy};
use corun_policy::guard::{Finding, Guard, Wish};
use corun_policy::{Options, Scope};
use corun_report::control::{ControlLine, ControlSummary, Decided, GuardLine, SCHEMA};
use corun_report::progress::Progress;
use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  corun control auto --tenant solver --tenant ffmpeg --for 10m
  corun control gang --all --dry-run --explain       what it would do, touching nothing
  corun control controlled_contention --all -o dc=48 -o slot=200ms --json-lines
  corun control --restore                            after a power cut of corun and its supervisor
  corun policies                                     the policies and their options

A tenant is named as `corun profile --all` names it, or by the PID of one of its processes. Protected are init, logins,
session keepers, kernel threads, the terminal that corun was started from, and who `--protect` names.

The guard measures short periods with and without the policy in turn, and gives the policy up when it does not help.
Everything is undone at the end, whatever ends it; a supervisor does so even when corun is killed.

Exit status: 0; 2 is bad usage (nothing was changed), 1 a failure of corun's own.";

/// The guard's periods are this many epochs long, and at least [`PERIOD_NS`].
const PERIOD_EPOCHS: u64 = 16;
const PERIOD_NS: u64 = 1_000_000_000;

/// Schedule the co-runners so that parallel programs suffer less from each other
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The policy; `corun policies` lists them
    #[arg(required_unless_present = "restore")]
    policy: Option<String>,
    /// A tenant that may be controlled, by name or PID; repeat it for more
    #[arg(long = "tenant", value_name = "NAME", conflicts_with = "all")]
    tenants: Vec<String>,
    /// Everybody may be controlled who is not protected
    #[arg(long)]
    all: bool,
    /// A tenant that may not be touched, by name or PID
    #[arg(long, value_name = "NAME")]
    protect: Vec<String>,
    /// An option of the policy, such as slot=50ms
    #[arg(short = 'o', long = "option", value_name = "NAME=VALUE")]
    options: Vec<String>,
    /// What carries the decisions out
    #[arg(long, value_enum, default_value = "auto")]
    backend: BackendFlag,
    /// Time between two decisions [default: the policy's]
    #[arg(long, value_name = "TIME", value_parser = parse_ns)]
    epoch: Option<u64>,
    /// Stop after this time, such as 10m [default: at Ctrl-C]
    #[arg(long = "for", value_name = "TIME", value_parser = parse_ns)]
    length_ns: Option<u64>,
    /// Decide, but touch nothing
    #[arg(long)]
    dry_run: bool,
    /// Whether to measure that the policy helps, and give it up when it does not; `auto` measures by itself
    #[arg(long, value_enum, default_value = "on")]
    guard: OnOff,
    /// A line for every decision
    #[arg(long)]
    explain: bool,
    /// Write what is decided to standard output, one line of JSON per epoch (schema corun.control/1)
    #[arg(long)]
    json_lines: bool,
    /// Undo what a corun left behind that was killed together with its supervisor, and do nothing else
    #[arg(long, conflicts_with_all = ["policy", "tenants", "all", "dry_run"])]
    restore: bool,
    /// Show nothing while it runs
    #[arg(long, short)]
    quiet: bool,
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
    let scope = scope(&args)?;
    let policy = policy(&args, &scope)?;
    let interrupt = Interrupt::install().context("installing the Ctrl-C handler")?;
    let (watcher, unavailable) = Watcher::start(&root, LiveOptions::new(Subject::All), None)?;
    if !args.quiet {
        unavailable.iter().for_each(|u| eprintln!("corun control: {}: {}", u.what, u.why));
    }
    let epoch_ns = args.epoch.unwrap_or(policy.epoch_ns()).max(1_000_000);
    let guarded = args.guard == OnOff::On && !matches!(policy.name(), "auto" | "observe") && !args.dry_run;
    let end_ns = args.length_ns.map(|ns| watcher.now_ns() + ns);
    let mut control = Control {
        begin_ns: watcher.now_ns(),
        course: Course { running: None, end_ns, interrupt },
        host: host(&root, &args, watcher, policy.as_ref())?,
        guard: guarded.then(|| Guard::new(PERIOD_NS.max(PERIOD_EPOCHS * epoch_ns))),
        in_force: !guarded,
        spin: SpinSampler::start(&root, SpinOptions::default()).ok(),
        summary: ControlSummary::default(),
        policy,
        scope,
        epoch_ns,
        args: &args,
    };
    let ended = control.until_the_end();
    // Whatever happened, nothing stays changed.
    let undone = control.host.undo_all();
    let ended = ended?;
    undone?;
    if !args.json_lines {
        print!("{}", control.conclusion(ended));
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
        0 => println!("nothing was left to undo"),
        n => println!("{n} changes were undone"),
    }
    Ok(ExitCode::SUCCESS)
}

fn scope(args: &Args) -> anyhow::Result<Scope> {
    if args.tenants.is_empty() && !args.all {
        return Err(Usage(
            "name whom to control: --tenant NAME (more than once for several), or --all".into(),
        )
        .into());
    }
    if let Some(empty) = args.tenants.iter().chain(&args.protect).find(|t| t.trim().is_empty()) {
        return Err(Usage(format!(
            "`{empty}` is no tenant's name; `corun profile --all --for 1s` lists them"
        ))
        .into());
    }
    // PIDs are the backend's to resolve; the policy plans with names.
    let names = args.tenants.iter().filter(|t| t.parse::<u32>().is_err());
    let scope = if args.all || args.tenants.iter().any(|t| t.parse::<u32>().is_ok()) {
        Scope::everyone()
    } else {
        Scope::everyone().only(names.cloned())
    };
    Ok(scope.protect(args.protect.iter().cloned()))
}

fn policy(args: &Args, scope: &Scope) -> anyhow::Result<Box<dyn Policy>> {
    let name = args.policy.as_deref().unwrap_or_default();
    let mut options = Options::new().scope(scope.clone());
    for given in &args.options {
        let Some((key, value)) = given.split_once('=') else {
            return Err(Usage(format!("`{given}` is no option; give NAME=VALUE, such as slot=50ms")).into());
        };
        options = options.set(key, value);
    }
    Ok(corun_policy::by_name(name, &options).map_err(Usage)?)
}

fn host(root: &Root, args: &Args, watcher: Watcher, policy: &dyn Policy) -> anyhow::Result<Hands> {
    if args.dry_run {
        return Ok(Hands::None(Box::new(watcher)));
    }
    let options = stock::Options {
        scope: if args.all { stock::Scope::All } else { stock::Scope::Only(args.tenants.clone()) },
        protect: args.protect.clone(),
        ..stock::Options::default()
    };
    let backend = backend(root, args, options, policy)?;
    let lacking: Vec<String> = backend
        .support()
        .into_iter()
        .filter(|s| policy.knobs().contains(&s.knob))
        .filter_map(|s| match s.support {
            Support::Yes { .. } => None,
            Support::No { why } => Some(format!("{}: {why}", s.knob.name())),
        })
        .collect();
    if !lacking.is_empty() {
        let what = lacking.join("; ");
        return Err(Usage(format!("{} cannot be carried out here: {what}", policy.name())).into());
    }
    Ok(Hands::Steering(Box::new(SteeredHost::new(watcher, backend))))
}

/// The backend that was asked for. `auto` takes sched_ext where this kernel has it and stock knobs elsewhere, and says
/// why it could not have the first.
fn backend(
    root: &Root,
    args: &Args,
    options: stock::Options,
    policy: &dyn Policy,
) -> anyhow::Result<Box<dyn Backend>> {
    let usage = |e: HostError| anyhow::Error::from(Usage(e.to_string()));
    if args.backend == BackendFlag::SchedExt {
        support::check(root).map_err(Usage)?;
        return Ok(Box::new(ScxBackend::start(root, options).map_err(usage)?));
    }
    if args.backend == BackendFlag::Auto && support::check(root).is_ok() && !policy.knobs().is_empty() {
        match ScxBackend::start(root, options.clone()) {
            Ok(backend) => return Ok(Box::new(backend)),
            Err(e) => eprintln!("corun control: no sched_ext ({e}); using stock knobs"),
        }
    }
    let mut backend = StockBackend::new(root, options);
    if !policy.knobs().is_empty() {
        backend.arm().map_err(usage)?;
    }
    Ok(Box::new(backend))
}

/// What decisions are handed to.
enum Hands {
    /// Nothing: a dry run.
    None(Box<Watcher>),
    /// A backend.
    Steering(Box<SteeredHost>),
}

impl Hands {
    fn host(&mut self) -> &mut dyn Host {
        match self {
            Hands::None(watcher) => watcher.as_mut(),
            Hands::Steering(host) => host.as_mut(),
        }
    }

    fn backend(&self) -> &'static str {
        match self {
            Hands::None(_) => "none",
            Hands::Steering(host) => host.backend(),
        }
    }

    fn undo_all(&mut self) -> anyhow::Result<()> {
        match self {
            Hands::None(_) => Ok(()),
            Hands::Steering(host) => Ok(host.undo_all()?),
        }
    }

    /// Lets an epoch pass, or less if something ends the run.
    fn wait(&mut self, course: &Course, ns: u64) -> anyhow::Result<Option<Ended>> {
        match self {
            Hands::None(watcher) => course.wait(watcher.as_mut(), Duration::from_nanos(ns)),
            Hands::Steering(host) => course.wait(host.as_mut(), Duration::from_nanos(ns)),
        }
    }
}

/// A policy at work.
struct Control<'a> {
    host: Hands,
    policy: Box<dyn Policy>,
    scope: Scope,
    guard: Option<Guard>,
    /// Whether the policy's decisions are in force now.
    in_force: bool,
    spin: Option<SpinSampler>,
    course: Course,
    summary: ControlSummary,
    begin_ns: u64,
    epoch_ns: u64,
    args: &'a Args,
}

impl Control<'_> {
    fn until_the_end(&mut self) -> anyhow::Result<Ended> {
        let progress = Progress::line(self.args.quiet || self.args.json_lines || self.args.explain);
        loop {
            let ended = self.host.wait(&self.course, self.epoch_ns)?;
            let seen = self.observe()?;
            self.summary.push(&seen, |t| self.scope.covers(t));
            if let Some(ended) = ended {
                return Ok(ended);
            }
            let decided = self.epoch(&seen)?;
            self.say(&seen, decided, &progress)?;
        }
    }

    fn observe(&mut self) -> anyhow::Result<Observation> {
        let mut seen = self.host.host().observe()?;
        split(&mut self.spin, &mut seen, |t| self.scope.covers(t));
        Ok(seen)
    }

    /// Decides and applies, as far as the guard allows.
    fn epoch(&mut self, seen: &Observation) -> anyhow::Result<Vec<Decided>> {
        let scope = &self.scope;
        let wish = self.guard.as_mut().map_or(Wish::With, |g| g.push(seen, |t| scope.covers(t)));
        if wish == Wish::Without {
            if std::mem::replace(&mut self.in_force, false) {
                self.host.undo_all()?;
            }
            return Ok(Vec::new());
        }
        if !std::mem::replace(&mut self.in_force, true) {
            // A policy that was interrupted does not know what was undone: it begins anew.
            self.policy = policy(self.args, &self.scope)?;
        }
        let decisions: Vec<Decision> = self.policy.decide(self.host.host().machine(), seen);
        let apply = |decision: &Decision| {
            let outcome = match &mut self.host {
                Hands::None(_) => None,
                Hands::Steering(host) => Some(host.apply(&decision.action)),
            };
            Decided::new(decision, outcome.as_ref(), seen)
        };
        Ok(decisions.iter().map(apply).collect())
    }

    fn say(&mut self, seen: &Observation, decided: Vec<Decided>, progress: &Progress) -> anyhow::Result<()> {
        let t_ns = seen.end_ns.saturating_sub(self.begin_ns);
        decided.iter().for_each(|d| self.summary.decided(d));
        if self.args.explain {
            decided.iter().for_each(|d| eprintln!("{}", d.line(t_ns)));
        }
        let guard = self.guard.as_ref().map(|g| guard_line(g.finding()));
        progress.say(&format!(
            "{} {}: {}, {} decisions{}",
            human_ns(t_ns),
            self.policy.name(),
            if self.in_force { "in force" } else { "not in force" },
            decided.len(),
            guard.as_ref().map_or(String::new(), |g| format!(", guard: {}", g.state))
        ));
        if self.args.json_lines {
            let line = ControlLine {
                schema: SCHEMA,
                t_ns,
                policy: self.policy.name().to_owned(),
                backend: self.host.backend().to_owned(),
                decision: decided,
                guard,
            };
            let mut out = std::io::stdout().lock();
            out.write_all(line.json_line().as_bytes())
                .and_then(|()| out.flush())
                .context("writing a line")?;
        }
        Ok(())
    }

    fn conclusion(&self, ended: Ended) -> String {
        let mut out = format!(
            "corun control: {} by {}{}\n\n{}",
            self.policy.name(),
            self.host.backend(),
            if ended == Ended::Interrupted { ", interrupted" } else { "" },
            self.summary.text()
        );
        if self.summary.is_empty() {
            out +=
                "No tenant by the names given was seen; `corun profile --all --for 1s` lists who is there.\n";
        }
        out += match self.guard.as_ref().map(Guard::finding) {
            Some(Finding::Helps { gain }) => format!(
                "The guard: it helps, by {:.1} % of useful time (geometric mean over tenants).\n",
                gain * 100.0
            ),
            Some(Finding::DoesNotHelp { gain }) => format!(
                "The guard: it did not help ({:+.1} % of useful time, geometric mean over tenants), so it was reverted.\n",
                gain * 100.0
            ),
            Some(Finding::Measuring { pairs }) => {
                format!("The guard: not enough was seen for a finding ({pairs} pairs of periods).\n")
            }
            None => String::new(),
        }
        .as_str();
        if self.policy.knobs().contains(&Knob::Park) && self.host.backend() != "none" {
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
