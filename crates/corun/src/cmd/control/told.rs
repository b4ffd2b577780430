//! What a run of `corun control` tells afterwards: the files that were asked for.

use super::Args;
use crate::cmd::profile::source;
use crate::date::now;
use crate::lines;
use crate::tracing::Tracing;
use anyhow::Context;
use corun_linux::watcher::Watcher;
use corun_model::{Decision, Host, Observation, Recording, Tenant, Trace, Unavailable};
use corun_report::control::history::History;
use corun_report::control::page::{self, Controlled};
use corun_report::control::report::ControlReport;
use corun_report::control::{tracks, Decided};
use corun_report::output::write_file;
use corun_report::{perfetto, ProfileMeta, ProfileReport, Subject};

/// What has happened so far.
pub struct Told {
    history: History,
    recording: Recording,
    trace: Tracing,
    unavailable: Vec<Unavailable>,
    /// Whether a file was asked for: what only they need is not kept otherwise.
    wanted: bool,
}

impl Told {
    /// Nothing has happened yet; `begin_ns` is the host's clock.
    pub fn new(args: &Args, begin_ns: u64, unavailable: Vec<Unavailable>) -> Told {
        Told {
            history: History::new(begin_ns),
            recording: Recording::default(),
            trace: Tracing::default(),
            unavailable,
            wanted: args.files().next().is_some(),
        }
    }

    /// Takes a window during which the policy was, or was not, in force.
    pub fn window(&mut self, more: Trace, seen: &Observation, with: bool, covers: impl Fn(&Tenant) -> bool) {
        self.history.window(seen, with, covers);
        if !self.wanted {
            return;
        }
        self.recording.push_sums(seen);
        self.trace.take(more);
    }

    /// Takes a decision with what came of it.
    pub fn decided(&mut self, now_ns: u64, decision: &Decision, decided: &Decided) {
        self.history.decided(now_ns, decision, decided);
    }

    /// Takes that everything was undone.
    pub fn undone(&mut self, now_ns: u64, why: &'static str, failed: Option<String>) {
        self.history.undone(now_ns, why, failed);
    }

    /// What has happened.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// Writes the files that were asked for and says so.
    pub fn write(
        &self,
        args: &Args,
        controlled: &Controlled,
        watcher: &Watcher,
        notes: Vec<String>,
    ) -> anyhow::Result<()> {
        if !self.wanted {
            return Ok(());
        }
        let mut whole = self.recording.whole().cloned().context("nothing was seen")?;
        whole.unavailable.extend(self.unavailable.iter().cloned());
        let meta = ProfileMeta {
            date: Some(now()),
            trace_lost: args.trace.is_some().then_some(self.trace.trace().lost),
            notes,
            ..ProfileMeta::new(corun_report::Host::Live, source(watcher), whom(args), watcher.machine())
        };
        let profile = ProfileReport::new(&meta, &whole, Subject::All, self.recording.timeline());
        if let Some(path) = &args.json {
            write_file(path, ControlReport::new(controlled, &profile).json().as_bytes())?;
        }
        if let Some(path) = &args.html {
            write_file(path, page::render(controlled, &profile).as_bytes())?;
        }
        if let Some(path) = &args.trace {
            let mut bytes = perfetto::encode(self.trace.trace(), self.recording.timeline(), Subject::All);
            bytes.extend(tracks::encode(controlled.policy, &self.history, &profile));
            write_file(path, &bytes)?;
        }
        for (_, path) in args.files().filter(|(_, path)| path.as_os_str() != "-") {
            lines::say(&format!("wrote {}", path.display()));
        }
        Ok(())
    }
}

/// The policy with its options, and whom it may touch.
fn whom(args: &Args) -> String {
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
