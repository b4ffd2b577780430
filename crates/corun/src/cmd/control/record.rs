//! The events that a run of `corun control` keeps, and the files that it writes of them.

use super::{guard_line, Args};
use crate::cmd::profile::source;
use crate::date::now;
use crate::lines;
use anyhow::Context;
use corun_model::advice::Advised;
use corun_model::{HostError, Observation, Recording, Tenant, Trace, Unavailable};
use corun_policy::controller::Taken;
use corun_report::control::advice::Advice;
use corun_report::control::history::History;
use corun_report::control::page::{self, Controlled};
use corun_report::control::report::ControlReport;
use corun_report::control::{tracks, ControlSummary, Decided};
use corun_report::output::write_file;
use corun_report::profile::notes;
use corun_report::{perfetto, ProfileMeta, ProfileReport, Subject};
use corun_session::kept_trace::KeptTrace;
use corun_session::Control;
use std::path::PathBuf;

/// The events so far.
pub struct Record {
    history: History,
    summary: ControlSummary,
    recording: Recording,
    trace: KeptTrace,
    unavailable: Vec<Unavailable>,
    /// Whether a file was requested: events that only files need are not kept otherwise.
    writes_files: bool,
}

impl Record {
    /// Nothing has happened yet.
    pub fn new(args: &Args, control: &Control) -> Record {
        Record {
            history: History::new(control.begin_ns()),
            summary: ControlSummary::default(),
            recording: Recording::default(),
            trace: KeptTrace::default(),
            unavailable: control.unavailable().to_vec(),
            writes_files: args.files().next().is_some(),
        }
    }

    /// Adds a window during which the policy was, or was not, in force.
    pub fn window(&mut self, more: Trace, seen: &Observation, with: bool, covers: impl Fn(&Tenant) -> bool) {
        self.summary.push(seen, &covers);
        self.history.window(seen, with, covers);
        if self.writes_files {
            self.recording.push_sums(seen);
            self.trace.take(more);
        }
    }

    /// Adds a decision with its outcome, and returns its text.
    pub fn decided(&mut self, Taken { at_ns, decision, fate }: &Taken, seen: &Observation) -> Decided {
        let decided = Decided::new(decision, fate, seen);
        self.history.decided(*at_ns, decision, &decided);
        decided
    }

    /// Records that a program was advised another width, and returns the text.
    pub fn advised(&mut self, advised: &Advised, seen: &Observation) -> Advice {
        let advice = Advice::new(advised, seen);
        self.history.advised(seen.end_ns, advice.clone());
        advice
    }

    /// Records that everything was undone, and the result of that.
    pub fn undone(&mut self, now_ns: u64, why: &'static str, done: &Result<(), HostError>) {
        self.history.undone(now_ns, why, done.as_ref().err().map(ToString::to_string));
    }

    /// The events, for a report.
    pub fn controlled<'a>(&'a self, control: &Control) -> Controlled<'a> {
        Controlled {
            policy: control.policy().name(),
            backend: control.backend(),
            guard: control.finding().map(guard_line),
            history: &self.history,
            summary: &self.summary,
        }
    }

    /// Writes the requested files and says so.
    pub fn write(&self, args: &Args, control: &Control, is_interrupted: bool) -> anyhow::Result<()> {
        if !self.writes_files {
            return Ok(());
        }
        let (controlled, watcher) = (self.controlled(control), control.watcher());
        let mut whole = self.recording.whole().cloned().context("nothing was seen")?;
        whole.unavailable.extend(self.unavailable.iter().cloned());
        let (source, machine) = (source(watcher.source()), corun_model::Host::machine(watcher));
        let meta = ProfileMeta {
            date: Some(now()),
            trace_lost: args.trace.is_some().then_some(self.trace.trace().lost),
            notes: is_interrupted.then(|| notes::CONTROL_INTERRUPTED.to_owned()).into_iter().collect(),
            ..ProfileMeta::new(corun_report::Host::Live, source, target(args), machine)
        };
        let profile = ProfileReport::new(&meta, &whole, Subject::All, self.recording.timeline());
        let json = || ControlReport::new(&controlled, &profile).json().into_bytes();
        let html = || page::render(&controlled, &profile).into_bytes();
        let trace = || {
            let mut bytes = perfetto::encode(self.trace.trace(), self.recording.timeline(), Subject::All);
            bytes.extend(tracks::encode(controlled.policy, &self.history, &profile));
            bytes
        };
        // One that cannot be written does not prevent the others.
        let mut done = Ok(());
        let mut write = |path: &Option<PathBuf>, bytes: &dyn Fn() -> Vec<u8>| {
            if let Some(Err(e)) = path.as_ref().map(|path| write_file(path, &bytes())) {
                done = Err(e);
            }
        };
        write(&args.json, &json);
        write(&args.html, &html);
        write(&args.trace, &trace);
        done?;
        for (_, path) in args.files().filter(|(_, path)| path.as_os_str() != "-") {
            lines::say(&format!("wrote {}", path.display()));
        }
        Ok(())
    }
}

/// The policy with its options, and the tenants that it may touch.
fn target(args: &Args) -> String {
    let mut text = args.policy.clone().unwrap_or_default();
    args.options.iter().for_each(|o| text += &format!(" {o}"));
    match args.all {
        true => text += " for everybody",
        false => text += &format!(" for {}", args.tenants.join(", ")),
    }
    if args.dry_run {
        text += ", dry run";
    }
    text
}
