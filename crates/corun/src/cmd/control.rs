//! `corun control POLICY`: schedule the co-runners, report what and why, and undo everything at the end.

use crate::lines;
use crate::usage::{stop_on_signals, Usage};
use crate::values;
use corun_linux::supervisor;
use corun_linux::Root;
use corun_model::advice::Advised;
use corun_model::duration::{human_ns, parse_ns};
use corun_model::{Notice, Observation, Refusal};
use corun_policy::controller::Mode;
use corun_policy::guard::Finding;
use corun_policy::Options;
use corun_report::control::advice::Advice;
use corun_report::control::conclusion;
use corun_report::control::notices::sentence;
use corun_report::control::{ControlLine, Decided, GuardLine, SCHEMA};
use corun_report::output::{is_stdout, print};
use corun_report::progress::Progress;
use corun_report::refusal::refusal;
use corun_session::control::scope::Tenants;
use corun_session::control::steering::BackendChoice;
use corun_session::control::ControlEpoch;
use corun_session::end::Ended;
use corun_session::{Control, ControlOptions, Error, Plan};
use record::Record;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

mod check;
mod record;

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

Name a tenant as `corun profile --all` does, by its key (`cgroup:/build`), or by a PID, which means that process with \
all its descendants. Protected are init, logins, session keepers, kernel threads, the terminal that corun was started from, \
and the tenants that `--protect` names.

The guard measures short periods with and without the policy in turn, and gives the policy up when it does not \
help. Everything is undone at the end, whatever ends it; a supervisor does so even when corun is killed.

A dry run parks nobody. So `auto`, and `--dc auto` while it searches, only say what they would try and why. Only a real \
run shows whether it helps.

Exit status: 0; 2 is bad usage (nothing was changed), 1 a failure of corun's own.";

/// Schedule the co-runners so that parallel programs suffer less from each other
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The policy; `corun policies` lists them
    policy: Option<String>,
    /// A tenant that may be controlled, by name or PID; repeat it for more
    #[arg(long = "tenant", value_name = "NAME", conflicts_with = "all", value_parser = values::name())]
    tenants: Vec<String>,
    /// Control every tenant that is not protected
    #[arg(long)]
    all: bool,
    /// A tenant that may not be touched, by name or PID
    #[arg(long, value_name = "NAME", value_parser = values::name())]
    protect: Vec<String>,
    /// An option of the policy, such as slot=50ms
    #[arg(short = 'o', long = "option", value_name = "NAME=VALUE", value_parser = values::name())]
    options: Vec<String>,
    /// The degree of contention: a number, `cpus` or `auto`; the same as -o dc=DC
    #[arg(long, value_name = "DC")]
    dc: Option<String>,
    /// What carries out the decisions
    #[arg(long, value_enum, default_value = "auto")]
    backend: BackendFlag,
    /// Time between two decisions; four times as long while `auto` has nothing to decide [default: the policy's]
    #[arg(long, value_name = "TIME", value_parser = parse_ns)]
    epoch: Option<u64>,
    /// Stop after this time, such as 10m [default: at Ctrl-C]
    #[arg(long = "for", value_name = "TIME", value_parser = values::length_ns)]
    length_ns: Option<u64>,
    /// Decide, but touch nothing
    #[arg(long)]
    dry_run: bool,
    /// Whether to measure if the policy helps, and give it up if it does not; `auto` measures by itself
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
    /// Write the same as a trace for ui.perfetto.dev, alongside every context switch where eBPF sees them
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Only undo the changes that corun left behind when it was killed together with its supervisor
    #[arg(long, conflicts_with_all = ["policy", "tenants", "all", "dry_run", "json", "html", "trace"])]
    restore: bool,
    /// Show nothing while it runs
    #[arg(long, short)]
    quiet: bool,
}

impl Args {
    /// The requested files, with their flags.
    fn files(&self) -> impl Iterator<Item = (&'static str, &PathBuf)> {
        let files = [("--json", &self.json), ("--html", &self.html), ("--trace", &self.trace)];
        files.into_iter().filter_map(|(flag, path)| Some((flag, path.as_ref()?)))
    }

    /// Whether one of them is standard output.
    fn to_standard_output(&self) -> bool {
        self.files().any(|(_, path)| is_stdout(path))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum BackendFlag {
    Auto,
    #[value(name = "sched_ext")]
    SchedExt,
    Stock,
}

impl BackendFlag {
    fn choice(self) -> BackendChoice {
        match self {
            BackendFlag::Auto => BackendChoice::Auto,
            BackendFlag::SchedExt => BackendChoice::SchedExt,
            BackendFlag::Stock => BackendChoice::Stock,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum OnOff {
    On,
    Off,
}

/// Runs the verb.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    if args.restore {
        return restore(&Root::new("/"));
    }
    let Some(policy) = &args.policy else {
        let what = "name a policy, such as `corun control auto --all`; `corun policies` lists them";
        return Err(Usage(what.into()).into());
    };
    let options = ControlOptions {
        policy: policy.clone(),
        options: given(&args, true)?,
        mode: Mode { guard: args.guard == OnOff::On, dry_run: args.dry_run, epoch_ns: args.epoch },
        tenants: if args.all { Tenants::Everybody } else { Tenants::Named(args.tenants.clone()) },
        protect: args.protect.clone(),
        backend: args.backend.choice(),
        length_ns: args.length_ns,
        trace: args.trace.is_some(),
    };
    // Whether such a policy with such options exists does not depend on the tenants that it may touch.
    check_policy(&args, &options)?;
    check::check(&args)?;
    let stop = stop_on_signals()?;
    let plan = stop.at_once(|| Plan::look_around(options)).map_err(in_flags)?;
    say(&args, plan.notices());
    let idle = plan.notices().iter().find(|notice| notice.is_idleness()).cloned();
    let mut control = plan.begin(&stop).map_err(in_flags)?;
    say(&args, control.notices());
    let mut session = Session {
        args: &args,
        record: Record::new(&args, &control),
        guard_told: None,
        widths: BTreeMap::new(),
    };
    let ended = session.until_the_end(&mut control);
    // Whatever happened, nothing stays changed.
    let undone = control.undo_all();
    session.record.undone(control.now_ns(), "the end", &undone);
    let is_interrupted = matches!(ended, Ok(Ended::Interrupted));
    let written = session.record.write(&args, &control, is_interrupted);
    ended?;
    undone?;
    if !args.json_lines && !args.to_standard_output() {
        let controlled = session.record.controlled(&control);
        let policy = control.policy();
        print(&conclusion::conclusion(&controlled, policy, is_interrupted, args.explain, idle.as_ref()))?;
    }
    // The terminal output does not depend on whether the files could be written.
    written?;
    Ok(ExitCode::SUCCESS)
}

/// Prints what a user should know; in quiet mode, only the warnings.
fn say(args: &Args, notices: &[Notice]) {
    let is_said = |notice: &&Notice| notice.is_warning() || !args.quiet;
    let said = notices.iter().filter(is_said);
    said.for_each(|notice| lines::say(&format!("corun control: {}", sentence(notice))));
}

/// A session's refusal, in the words of the command line.
fn in_flags(error: Error) -> anyhow::Error {
    match error {
        Error::Refused { what, why } => Usage(format!("{}: {why}", check::flag(&what))).into(),
        Error::Absent { what, why } => {
            let listed = "`corun profile --all --for 1s` lists who is there";
            Usage(format!("{}: {why}; {listed}", check::flag(&what))).into()
        }
        error @ Error::NoCounters { .. } => {
            Usage(format!("{error}; `corun sim` runs it on a modelled machine")).into()
        }
        Error::Protected { tenant, why } => {
            let why = refusal(&Refusal::Protected(why));
            Usage(format!("--tenant {tenant}: {why}; name another one")).into()
        }
        error => error.into(),
    }
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

/// Whether such a policy with such options exists. If only --dc is wrong, the error names that flag.
fn check_policy(args: &Args, options: &ControlOptions) -> anyhow::Result<()> {
    let Err(refused) = options.check() else { return Ok(()) };
    let others = ControlOptions { options: given(args, false)?, ..options.clone() };
    match args.dc.is_some() && others.check().is_ok() {
        true => Err(Usage(format!("--dc: {refused}")).into()),
        false => Err(in_flags(refused)),
    }
}

/// The policy's options as given, with or without --dc.
fn given(args: &Args, with_dc: bool) -> Result<Options, Usage> {
    let mut options = Options::new();
    for given in &args.options {
        let Some((key, value)) = given.split_once('=') else {
            return Err(Usage(format!("-o {given} has no value; give NAME=VALUE, such as -o slot=50ms")));
        };
        options = options.set(key, value);
    }
    let Some(dc) = args.dc.as_ref().filter(|_| with_dc) else { return Ok(options) };
    if options.given().any(|(name, _)| name == "dc") {
        return Err(Usage("--dc and -o dc=DC say the same; leave one of them out".into()));
    }
    Ok(options.set("dc", dc))
}

/// The messages about a policy at work.
struct Session<'a> {
    args: &'a Args,
    record: Record,
    /// The last reported state of the guard; `None`: nothing was reported yet, and the first epoch is news in
    /// any case.
    guard_told: Option<Option<&'static str>>,
    /// The last advice to each process that shares a page.
    widths: BTreeMap<u32, u32>,
}

impl Session<'_> {
    fn until_the_end(&mut self, control: &mut Control) -> anyhow::Result<Ended> {
        let progress = Progress::line(self.args.quiet || self.args.json_lines || self.args.explain);
        while let Some(epoch) = control.next() {
            let ControlEpoch { seen, trace, covered, was_in_force, undone, taken, advised, ended } = epoch?;
            self.record.window(trace, &seen, was_in_force, |t| covered.contains(&t.id));
            if let Some(ended) = ended.filter(|_| undone.is_none()) {
                return Ok(ended);
            }
            if let Some(undone) = undone {
                self.record.undone(control.now_ns(), "the guard: a time without the policy", &undone);
                undone?;
            }
            let decided = taken.iter().map(|taken| self.record.decided(taken, &seen)).collect();
            let advice = self.news(&advised, &seen);
            if !self.tell(control, &seen, decided, advice, &progress)? {
                break;
            }
        }
        Ok(Ended::Interrupted)
    }

    /// The programs that share a page and are advised another width than before.
    fn news(&mut self, advised: &[Advised], seen: &Observation) -> Vec<Advice> {
        let before = std::mem::take(&mut self.widths);
        self.widths = advised.iter().map(|a| (a.process, a.width)).collect();
        let is_news = |a: &&Advised| before.get(&a.process) != Some(&a.width);
        advised.iter().filter(is_news).map(|a| self.record.advised(a, seen)).collect()
    }

    /// Reports an epoch. Returns whether anybody still listens.
    fn tell(
        &mut self,
        control: &Control,
        seen: &Observation,
        decided: Vec<Decided>,
        advice: Vec<Advice>,
        progress: &Progress,
    ) -> anyhow::Result<bool> {
        let t_ns = seen.end_ns.saturating_sub(control.begin_ns());
        if self.args.explain {
            let advice = advice.iter().map(|a| format!("{}: {}\n", human_ns(t_ns), a.line()));
            let told: String = advice.chain(decided.iter().map(|d| d.line(t_ns) + "\n")).collect();
            if !lines::tell(&told)? {
                return Ok(false);
            }
        }
        let guard = control.finding().map(guard_line);
        let name = control.policy().name();
        let state = guard.as_ref().map(|g| g.state);
        let is_news = self.guard_told.replace(state) != Some(state);
        let found = guard.as_ref().and_then(|g| g.sentence(name));
        if let Some(found) = found.filter(|_| is_news && !self.args.quiet) {
            progress.aside(&format!("{}: the guard: {found}.", human_ns(t_ns)));
        }
        let is_in_force = control.is_in_force();
        progress.say(&conclusion::progress(t_ns, name, is_in_force, decided.len(), guard.as_ref()));
        if self.args.json_lines && (is_news || !decided.is_empty() || !advice.is_empty()) {
            let line = ControlLine {
                schema: SCHEMA,
                t_ns,
                policy: name.to_owned(),
                backend: control.backend().to_owned(),
                decision: decided,
                advice,
                guard,
            };
            return lines::write(&line.json_line());
        }
        Ok(true)
    }
}

fn guard_line(finding: Finding) -> GuardLine {
    match finding {
        Finding::Measuring { pairs } => GuardLine { state: "measuring", gain: None, pairs: Some(pairs) },
        Finding::Helps { gain } => GuardLine { state: "helps", gain: Some(gain), pairs: None },
        Finding::DoesNotHelp { gain } => GuardLine { state: "reverted", gain: Some(gain), pairs: None },
    }
}
