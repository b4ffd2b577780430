//! The output of `corun verify`: the wire schema `corun.verify/1`, a few lines for people, and JUnit for
//! continuous integration.

use crate::json;
use crate::outside::Outside;
use crate::unseen::unseen;
use crate::words::{between, name, share, spared, wrap, SMALL};
use corun_model::duration::human_ns;
use corun_model::Unavailable;
use corun_predict::estimate::{Culprit, Method};
use corun_predict::verdict::{CutBy, Doubt, Pace, Ruling, Verdict};
use corun_results::output::{junit, Measured, Outcome, State, Tested};
use serde::Serialize;
use std::fmt::Write;

pub mod parts;

/// Name and version of the schema, the first field of every report.
pub const SCHEMA: &str = "corun.verify/1";

/// The verdict on a command, from its last try.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct VerifyReport {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// Version of corun that wrote this.
    pub corun: &'static str,
    /// The command and the machine.
    #[serde(flatten)]
    pub meta: VerifyMeta,
    /// The verdict; the unknowns also include what the machine lacks.
    #[serde(flatten)]
    pub judged: Verdict,
    /// Every try, the last one last.
    pub tries: Vec<Try>,
    /// The measurements of a tool in all tries.
    pub benchmarks: Vec<Measured>,
    /// The tests that failed in it.
    pub failed_tests: Vec<Tested>,
    /// Failed tests that are not listed, because there are so many.
    pub failed_tests_left_out: u64,
}

/// One try.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Try {
    /// The verdict on it.
    pub verdict: Ruling,
    /// Share of its wall time.
    pub disturbance: f64,
    /// How long it took.
    pub wall_ns: u64,
    /// Cycles per instruction; `None`: not counted.
    pub cpi: Option<f64>,
}

/// Where and what was run.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct VerifyMeta {
    /// The command.
    pub command: String,
    /// When it began, for people.
    pub date: Option<String>,
    /// The machine in one line.
    pub machine: String,
    /// `ebpf` or `schedstat`.
    pub source: String,
    /// The command's exit status; 128 and the signal's number if one ended it.
    pub exit_status: i32,
    /// The signal that ended it; `None` if it ended by itself, or was left running.
    pub signal: Option<i32>,
    /// Tasks that it had started and that still existed when it ended; `None` if it did not end.
    pub still_running: Option<usize>,
    /// Whether an unclear verdict counts as a failure.
    pub strict: bool,
    /// Whether a disturbed run does not.
    pub tolerant: bool,
    /// Whether hardware events were requested.
    pub counters: bool,
    /// The cost of counting them, as a share of the command's time on a CPU; `None` if not counted, or not
    /// known.
    pub counting_cost: Option<f64>,
}

impl VerifyReport {
    /// The report of a last try; `before` has the earlier ones.
    pub fn new(
        meta: VerifyMeta,
        verdict: Verdict,
        before: &[Try],
        unavailable: &[Unavailable],
    ) -> VerifyReport {
        let mut judged = verdict;
        let known = &judged.unavailable;
        let more: Vec<Unavailable> = unavailable.iter().filter(|u| !known.contains(u)).cloned().collect();
        judged.unavailable.extend(more);
        let last = Try {
            verdict: judged.verdict,
            disturbance: judged.disturbance,
            wall_ns: judged.wall_ns,
            cpi: judged.pace.map(|p| p.cpi),
        };
        VerifyReport {
            schema: SCHEMA,
            corun: env!("CARGO_PKG_VERSION"),
            meta,
            judged,
            tries: before.iter().copied().chain([last]).collect(),
            benchmarks: Vec::new(),
            failed_tests: Vec::new(),
            failed_tests_left_out: 0,
        }
    }

    /// Indented JSON with a newline at the end.
    pub fn json(&self) -> String {
        json::indented(self)
    }

    /// Whether every benchmark has as many clean iterations as its tool measures: then nothing disturbed what
    /// counts, whatever happened around it.
    pub fn is_measured_clean(&self) -> bool {
        !self.benchmarks.is_empty() && self.benchmarks.iter().all(Measured::is_complete)
    }

    /// The verdict in one sentence.
    pub fn sentence(&self) -> String {
        if self.judged.verdict != Ruling::Clean && self.is_measured_clean() {
            return format!(
                "clean where it was measured: every benchmark has as many clean iterations as a run of it; of the {} run: {}",
                if self.tries.len() > 1 { "last" } else { "whole" },
                self.sentence_of_run()
            );
        }
        self.sentence_of_run()
    }

    fn sentence_of_run(&self) -> String {
        let Verdict { disturbance, disturbance_range: [least, most], wall_ns, .. } = self.judged;
        let is_bound = self.judged.may_have_spun && disturbance >= SMALL;
        let (least_word, most_word) = if is_bound { ("at least ", " at most") } else { ("", "") };
        let took =
            format!("{least_word}{} % of its {} was lost to others", share(disturbance), human_ns(wall_ns));
        // What delayed those may have cost it more than the verdict allows.
        let from = self.judged.max_disturbance;
        let Verdict { outside, servers, .. } = &self.judged;
        let outside = Outside { share: *outside, servers: servers.as_deref(), wall_ns }.said(from);
        let outside = outside.map_or(String::new(), |it| format!("; {it}"));
        let judged = match (self.judged.verdict, self.judged.doubt) {
            (Ruling::Clean, _) => format!("clean: {took} ({})", self.allowed()),
            (Ruling::Unclear, Some(Doubt::Spare)) => format!(
                "unclear: {} of its {} was lost to others, {} ({})",
                between(least, most.max(disturbance)),
                human_ns(wall_ns),
                self.spare(),
                self.allowed()
            ),
            (Ruling::Unclear, Some(Doubt::Cut)) => {
                format!("unclear: {took}, but {} ({})", self.cut_short().unwrap_or_default(), self.allowed())
            }
            (Ruling::Unclear, Some(Doubt::Served)) => {
                format!("unclear: {took}, but those that it waited for were kept from a CPU ({})", self.allowed())
            }
            (Ruling::Unclear, Some(Doubt::Hypervisor)) => format!(
                "unclear: {took}, but the hypervisor took {} % of the time that its CPUs were busy, and nobody can tell \
                 what that cost ({})",
                share(self.judged.host_steal.unwrap_or(0.0)),
                self.allowed()
            ),
            (Ruling::Unclear, Some(Doubt::Hasty)) => format!(
                "unclear: {} of its {} was lost to others; commands in it that ended before corun could look at them used {} \
                 of CPU time, and nobody knows how long those waited ({})",
                between(least, most.max(disturbance)),
                human_ns(wall_ns),
                human_ns(self.judged.unseen_ns),
                self.allowed()
            ),
            (Ruling::Unclear, Some(Doubt::Unbounded)) => format!(
                "unclear: {} of its {} was lost to others; its waits give no better bound ({})",
                between(least, most),
                human_ns(wall_ns),
                self.allowed()
            ),
            (Ruling::Unclear, Some(Doubt::Unseen)) => format!(
                "unclear: too little was seen of its {} to tell ({})",
                human_ns(wall_ns),
                self.allowed()
            ),
            (Ruling::Unclear, _) => match self.stopped() {
                Some(stopped) => format!("unclear: {stopped}; {took} ({})", self.allowed()),
                None => format!("unclear: {took} ({})", self.allowed()),
            },
            (Ruling::Disturbed, _) => {
                let alone = match disturbance {
                    d if d > 0.995 => "almost no time".to_owned(),
                    _ => human_ns(self.judged.undisturbed_ns) + most_word,
                };
                let by = self.by_whom();
                let stopped = self.stopped().map_or(String::new(), |it| format!(", stopped as often; {it}"));
                format!("disturbed{by}: {took} ({}); alone the same work would have taken {alone}{stopped}", self.allowed())
            }
        };
        // If the command as a whole is the doubt, it has been reported already.
        let is_news = self.judged.doubt != Some(Doubt::Cut) && self.meta.signal.is_none();
        let cut_short = self.cut_short().filter(|_| is_news).map_or(String::new(), |it| format!("; {it}"));
        judged + &cut_short + &outside
    }

    /// A statement that a signal ended something in it after more had been taken from it than the run may
    /// lose.
    fn cut_short(&self) -> Option<String> {
        let Verdict { cut_short, max_disturbance, wall_ns, .. } = &self.judged;
        let cut = cut_short.as_ref().filter(|cut| cut.taken_ns() > max_disturbance * *wall_ns as f64)?;
        let who =
            cut.name.as_ref().map_or("a task of it".to_owned(), |who| format!("`{}` in it", name(who, 40)));
        let (after, taken) = (human_ns(cut.after_ns), share(cut.taken));
        Some(match cut.by {
            CutBy::Signal => format!("{who} was ended by a signal after {after}, of which others had taken {taken} %"),
            CutBy::Timer => format!(
                "{who} computed until a timer of the program was over, and others had taken {taken} % of those {after}"
            ),
        })
    }

    /// Why its likely loss may be none.
    fn spare(&self) -> String {
        let Verdict { disturbance, spare, stopped_anyway, max_disturbance, .. } = self.judged;
        match disturbance - spare > max_disturbance {
            true => "and a replay of it is no more certain".to_owned(),
            false => format!("since {}", spared(spare, stopped_anyway)),
        }
    }

    /// The main culprit: "mostly" from half on; below that, the amount is given.
    fn by_whom(&self) -> String {
        match self.judged.culprits.first() {
            Some(Culprit { tenant: Some(who), share, .. }) if *share >= 0.5 => {
                format!(", mostly by `{}`", name(who, 40))
            }
            Some(Culprit { tenant: Some(who), share: part, .. }) => {
                format!(", most by `{}` ({} % of what was taken)", name(who, 40), share(*part))
            }
            Some(Culprit { tenant: None, .. }) => ", mostly by an unknown tenant".to_owned(),
            None => String::new(),
        }
    }

    /// A statement that somebody stopped it for longer than it may be disturbed.
    fn stopped(&self) -> Option<String> {
        let Verdict { held, max_disturbance, .. } = self.judged;
        let held = held.filter(|held| *held > max_disturbance)?;
        Some(format!("somebody stopped or froze it for {} % of its tasks' time", share(held)))
    }

    /// The limit; and the precision for a run of this length, if that is coarser.
    fn allowed(&self) -> String {
        let Verdict { max_disturbance, resolution, .. } = self.judged;
        let allowed = format!("allowed: {} %", share(max_disturbance));
        if resolution <= max_disturbance {
            return allowed;
        }
        let finest = share(resolution);
        format!(
            "{allowed}; a run of this length can be judged to {} % at best",
            finest.trim_start_matches('<')
        )
    }

    /// A few lines for a terminal.
    pub fn text(&self) -> String {
        let mut out = String::new();
        let first = match self.meta.exit_status {
            0 => self.sentence(),
            _ => format!("{}, which is the exit status; its run was {}", self.failure(), self.sentence()),
        };
        for l in wrap(&format!("corun verify: {first}"), 100) {
            let _ = writeln!(out, "{l}");
        }
        if self.judged.verdict == Ruling::Disturbed {
            for i in self.judged.intervals.iter().take(5) {
                let who = i.culprit.as_deref().map_or("not known".to_owned(), |c| name(c, 40));
                let _ = writeln!(
                    out,
                    "  {} to {}: {} %, {who}",
                    human_ns(i.start_ns),
                    human_ns(i.end_ns),
                    share(i.disturbance)
                );
            }
            if self.judged.intervals.len() > 5 {
                let _ = writeln!(out, "  and {} more", self.judged.intervals.len() - 5);
            }
        }
        out.push_str(&parts::lines(&self.benchmarks, &self.failed_tests, self.failed_tests_left_out));
        if let Some(remedy) = self.remedy() {
            let _ = writeln!(out, "  {remedy}");
        }
        if self.tries.len() > 1 {
            let all: Vec<String> = self.tries.iter().map(|t| format!("{} %", share(t.disturbance))).collect();
            let _ = writeln!(out, "  tries: {}", all.join(", "));
        }
        if let Some(left) = self.meta.still_running.and_then(still_running) {
            let _ = writeln!(out, "  {left}");
        }
        if let Some(pace) = &self.judged.pace {
            for (n, l) in wrap(&self.paces(pace), 96).into_iter().enumerate() {
                let _ = writeln!(out, "{}{l}", if n == 0 { "  " } else { "    " });
            }
        }
        if self.judged.method == Method::Replay {
            let said = "corun found this by replaying the run without the others; the waits of its tasks alone would give another verdict";
            let when = match self.judged.verdict {
                Ruling::Disturbed => ". A replay does not show when it was disturbed",
                _ => "",
            };
            for l in wrap(&format!("{said}{when}"), 96) {
                let _ = writeln!(out, "  {l}");
            }
        }
        if let (Some(taken), true) = (self.judged.host_steal, self.judged.doubt != Some(Doubt::Hypervisor)) {
            if taken > self.judged.max_disturbance {
                let of_busy = "of the time that its CPUs were busy, which is not counted";
                let _ = writeln!(out, "  the hypervisor took {} % {of_busy}", share(taken));
            }
        }
        if let Some(own_ns) = self.judged.watcher_ns.filter(|&ns| ns > 0) {
            let _ = writeln!(
                out,
                "  corun itself kept its tasks waiting for {}, which is not counted",
                human_ns(own_ns)
            );
        }
        for l in unseen(&self.judged.unavailable, self.meta.counters) {
            let _ = writeln!(out, "{l}");
        }
        out
    }

    /// Whether corun got a stop signal before the command ended. The sender of that signal gets the signal's
    /// status, not the command's.
    fn is_interrupted(&self) -> bool {
        let VerifyMeta { exit_status, signal, still_running, .. } = self.meta;
        signal.is_none() && still_running.is_none() && exit_status > 128
    }

    fn failure(&self) -> String {
        match self.meta.exit_status {
            status if self.is_interrupted() => format!("interrupted before the command ended ({status})"),
            status => failed(status, self.meta.signal).unwrap_or_default(),
        }
    }

    /// What to do about a run that is not clean.
    fn remedy(&self) -> Option<&'static str> {
        match self.meta.exit_status {
            _ if self.judged.verdict == Ruling::Clean || self.is_measured_clean() => None,
            0 => Some(self.what_helps()),
            _ if self.is_interrupted() => None,
            _ => Some("--retries does not repeat a failed command"),
        }
    }

    fn what_helps(&self) -> &'static str {
        match (self.judged.verdict, self.tries.len()) {
            (Ruling::Unclear, _) if self.stopped().is_some() => {
                "--retries N runs it again, until nobody stops it"
            }
            (Ruling::Unclear, _) => match self.judged.doubt {
                Some(Doubt::Spare | Doubt::Unbounded) => {
                    "--retries N runs it again; run it once alone to see whether it takes less"
                }
                Some(Doubt::Cut) => match self.judged.cut_short.as_ref().map(|cut| cut.by) {
                    Some(CutBy::Timer) => {
                        "--retries N runs it again; its time shows nothing, so let it do a fixed amount of work"
                    }
                    _ => "--retries N runs it again; with a longer time limit it would get as far as alone",
                },
                Some(Doubt::Served) => "--retries N runs it again; nobody should disturb those that it waits for, either",
                Some(Doubt::Hypervisor) => {
                    "--retries N runs it again; a machine or CPUs of its own would show it"
                }
                Some(Doubt::Hasty) => {
                    "with eBPF corun sees every task; `corun doctor` says what that needs here"
                }
                Some(Doubt::Unseen) => "`corun doctor` says what cannot be seen here, and what would help",
                _ => "--retries N runs it again; or make it longer, so that there is enough to judge",
            },
            (_, 1) => {
                "--retries N runs it again until nobody disturbs it, --max-disturbance SHARE allows more"
            }
            _ => "more --retries may find a quieter moment, --max-disturbance SHARE allows more",
        }
    }

    /// The counts of every try, if there were several.
    fn paces(&self, last: &Pace) -> String {
        let mut said = format!("{:.2} cycles an instruction", last.cpi);
        if self.tries.len() > 1 {
            let of = |t: &Try| t.cpi.map_or("not known".to_owned(), |x| format!("{x:.2}"));
            let all: Vec<String> = self.tries.iter().map(of).collect();
            said = format!("cycles an instruction: {}", all.join(", "));
        }
        if let Some(mpki) = last.mpki {
            let _ = write!(said, "; {mpki:.2} LLC misses per 1,000 instructions");
        }
        if let Some(memory) = last.memory {
            let _ = write!(said, "; {} % of its time on a CPU stalled on memory", share(memory));
        }
        if let Some(cost) = self.meta.counting_cost {
            let _ = write!(said, "; counting took {} %", share(cost));
        }
        said
    }

    /// JUnit XML: one test case.
    pub fn junit(&self) -> String {
        junit::write(&self.outcome())
    }

    /// The same for readers of formats of continuous integration.
    pub fn outcome(&self) -> Outcome {
        let state = match (self.meta.exit_status, self.judged.verdict) {
            (0, Ruling::Clean) => State::Clean,
            (0, _) if self.is_measured_clean() => State::Clean,
            (0, Ruling::Unclear) => State::Unclear,
            (0, Ruling::Disturbed) => State::Disturbed,
            _ => State::Failed,
        };
        Outcome {
            command: name(&self.meta.command, 200),
            state,
            is_failure: match state {
                State::Clean => false,
                State::Unclear => self.meta.strict && !self.meta.tolerant,
                State::Disturbed => !self.meta.tolerant,
                State::Failed => true,
            },
            sentence: if state == State::Failed { self.failure() } else { self.sentence() },
            text: self.text(),
            wall_ns: self.judged.wall_ns,
            undisturbed_ns: self.judged.undisturbed_ns,
            disturbance: self.judged.disturbance,
            benchmarks: self.benchmarks.clone(),
            tests: self.failed_tests.clone(),
        }
    }
}

/// A statement that a command has left this many tasks behind; empty if none.
pub fn still_running(tasks: usize) -> Option<String> {
    let (they, do_) = match tasks {
        0 => return None,
        1 => ("1 task that the command started was".to_owned(), "it does"),
        n => (format!("{n} tasks that the command started were"), "they do"),
    };
    Some(format!("{they} still there when it ended; what {do_} afterwards is no part of this"))
}

/// How a command ended that did not end well.
pub fn failed(exit_status: i32, signal: Option<i32>) -> Option<String> {
    match (signal, exit_status) {
        (Some(signal), _) => {
            Some(format!("the command was killed by {} ({exit_status})", signal_name(signal)))
        }
        (None, 0) => None,
        (None, status) => Some(format!("the command ended with status {status}")),
    }
}

/// What people call a signal.
fn signal_name(signal: i32) -> String {
    const NAMES: [(i32, &str); 16] = [
        (1, "HUP"),
        (2, "INT"),
        (3, "QUIT"),
        (4, "ILL"),
        (5, "TRAP"),
        (6, "ABRT"),
        (7, "BUS"),
        (8, "FPE"),
        (9, "KILL"),
        (11, "SEGV"),
        (13, "PIPE"),
        (14, "ALRM"),
        (15, "TERM"),
        (24, "XCPU"),
        (25, "XFSZ"),
        (31, "SYS"),
    ];
    let known = NAMES.iter().find(|n| n.0 == signal);
    known.map_or(format!("signal {signal}"), |(_, name)| format!("SIG{name}"))
}

#[cfg(test)]
mod tests;
