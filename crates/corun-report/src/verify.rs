//! What `corun verify` says: the wire schema `corun.verify/1`, a few lines for people, and JUnit for continuous
//! integration.

use crate::json;
use crate::unseen::unseen;
use crate::words::{between, name, share, waits_for_outside, wrap, SMALL};
use corun_model::duration::human_ns;
use corun_model::Unavailable;
use corun_predict::estimate::{Culprit, Method};
use corun_predict::verdict::{Doubt, Pace, Ruling, Verdict};
use corun_results::output::{junit, Measured, Outcome, State, Tested};
use serde::Serialize;
use std::fmt::Write;

pub mod parts;

/// Name and version of the schema, the first field of every report.
pub const SCHEMA: &str = "corun.verify/1";

/// The verdict on a command, of its last try.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct VerifyReport {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// Version of corun that wrote this.
    pub corun: &'static str,
    /// What was run, and where.
    #[serde(flatten)]
    pub meta: VerifyMeta,
    /// The verdict; what could not be known is also what the machine lacks.
    #[serde(flatten)]
    pub judged: Verdict,
    /// Every try, the last one last.
    pub tries: Vec<Try>,
    /// What a tool measured in the last try.
    pub benchmarks: Vec<Measured>,
    /// The tests that failed in it.
    pub failed_tests: Vec<Tested>,
}

/// One try.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Try {
    /// What was said of it.
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
    /// The command's exit status, 128 and the signal's number where one ended it.
    pub exit_status: i32,
    /// The signal that ended it; `None`: it ended by itself, or was left to itself.
    pub signal: Option<i32>,
    /// Tasks that it had started and that were still there when it ended; `None`: it did not end.
    pub still_running: Option<usize>,
    /// Whether a verdict that is unclear counts as a failure.
    pub strict: bool,
    /// Whether a disturbed run does not.
    pub tolerant: bool,
    /// Whether hardware events were to be counted.
    pub counters: bool,
    /// What counting them cost, as a share of the command's time on a CPU; `None`: not counted, or not known.
    pub counting_cost: Option<f64>,
}

impl VerifyReport {
    /// The report of a last try; `before` are the earlier ones.
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
        }
    }

    /// Indented JSON with a newline at the end.
    pub fn json(&self) -> String {
        json::indented(self)
    }

    /// The verdict in one sentence.
    pub fn sentence(&self) -> String {
        let Verdict { disturbance, disturbance_range: [least, _], wall_ns, .. } = self.judged;
        let is_bound = self.judged.may_have_spun && disturbance >= SMALL;
        let (least_word, most_word) = if is_bound { ("at least ", " at most") } else { ("", "") };
        let took =
            format!("{least_word}{} % of its {} was lost to others", share(disturbance), human_ns(wall_ns));
        let outside = self.judged.outside.and_then(|outside| waits_for_outside(outside, wall_ns));
        let outside = outside.map_or(String::new(), |it| format!("; {it}"));
        let judged = match (self.judged.verdict, self.judged.doubt) {
            (Ruling::Clean, _) => format!("clean: {took} ({})", self.allowed()),
            (Ruling::Unclear, Some(Doubt::Spare)) => format!(
                "unclear: {} of its {} was lost to others, since some of what they took may have come out of its sleep ({})",
                between(least, disturbance),
                human_ns(wall_ns),
                self.allowed()
            ),
            (Ruling::Unclear, Some(Doubt::Hypervisor)) => format!(
                "unclear: {took}, but the hypervisor took {} % of the time that its CPUs were busy, and nobody can tell \
                 what that cost ({})",
                share(self.judged.host_steal.unwrap_or(0.0)),
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
                    d if d > 0.995 => "next to no time".to_owned(),
                    _ => human_ns(self.judged.undisturbed_ns) + most_word,
                };
                let by = self.by_whom();
                format!("disturbed{by}: {took} ({}); alone it would have taken {alone}", self.allowed())
            }
        };
        judged + &outside
    }

    /// Who took most of it: by half of it and more it was mostly him; of less it is said how much.
    fn by_whom(&self) -> String {
        match self.judged.culprits.first() {
            Some(Culprit { tenant: Some(who), share, .. }) if *share >= 0.5 => {
                format!(", mostly by `{}`", name(who, 40))
            }
            Some(Culprit { tenant: Some(who), share: part, .. }) => {
                format!(", most by `{}` ({} % of what was taken)", name(who, 40), share(*part))
            }
            Some(Culprit { tenant: None, .. }) => ", mostly by somebody unknown".to_owned(),
            None => String::new(),
        }
    }

    /// That somebody stopped it for longer than it may be disturbed.
    fn stopped(&self) -> Option<String> {
        let Verdict { held, max_disturbance, .. } = self.judged;
        let held = held.filter(|held| *held > max_disturbance)?;
        Some(format!("somebody stopped or froze it for {} % of its tasks' time", share(held)))
    }

    /// What was allowed; and to what a run of this length can be judged, where that is coarser.
    fn allowed(&self) -> String {
        let Verdict { max_disturbance, resolution, .. } = self.judged;
        let allowed = format!("allowed: {} %", share(max_disturbance));
        if resolution <= max_disturbance {
            return allowed;
        }
        format!("{allowed}; a run this short can only be judged to {} %", share(resolution))
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
        out.push_str(&parts::lines(&self.benchmarks, &self.failed_tests));
        if self.judged.verdict != Ruling::Clean {
            let _ = writeln!(out, "  {}", self.remedy());
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
            let said = "from a replay of what it did, without the others: its ledger alone says otherwise";
            let _ = writeln!(out, "  {said}");
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

    fn failure(&self) -> String {
        match (self.meta.signal, self.meta.still_running) {
            // Who interrupts a run hears the signal's status, not the command's.
            (None, None) if self.meta.exit_status > 128 => {
                format!("interrupted before the command ended ({})", self.meta.exit_status)
            }
            (signal, _) => failed(self.meta.exit_status, signal).unwrap_or_default(),
        }
    }

    /// What to do about a run that is not clean.
    fn remedy(&self) -> &'static str {
        match (self.judged.verdict, self.tries.len()) {
            (Ruling::Unclear, _) if self.stopped().is_some() => {
                "--retries N runs it again, until nobody stops it"
            }
            (Ruling::Unclear, _) => match self.judged.doubt {
                Some(Doubt::Spare) => {
                    "--retries N runs it again; run it once alone to see whether it takes less"
                }
                Some(Doubt::Hypervisor) => {
                    "--retries N runs it again; a machine of its own, or CPUs of its own below, would tell"
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

    /// What was counted, of every try where there were several.
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

    /// The same for those who read formats of continuous integration.
    pub fn outcome(&self) -> Outcome {
        let state = match (self.meta.exit_status, self.judged.verdict) {
            (0, Ruling::Clean) => State::Clean,
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

/// That a command has left so many tasks behind; nothing where it has left none.
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
mod tests {
    use super::*;
    use corun_model::What;
    use corun_predict::verdict::Disturbance;

    fn report(verdict: Ruling) -> VerifyReport {
        let disturbance = if verdict == Ruling::Clean { 0.004 } else { 0.12 };
        let culprits = vec![Culprit {
            tenant: Some("ffmpeg <1>".into()),
            kind: "command".into(),
            steal_ns: 480_000_000,
            share: 1.0,
        }];
        let intervals = vec![Disturbance {
            start_ns: 0,
            end_ns: 1_000_000_000,
            disturbance: 0.48,
            culprit: Some("ffmpeg <1>".into()),
        }];
        let verdict = Verdict {
            verdict,
            doubt: (verdict == Ruling::Unclear).then_some(Doubt::Short),
            method: Method::Ledger,
            disturbance,
            disturbance_range: [disturbance; 2],
            may_have_spun: false,
            max_disturbance: 0.02,
            resolution: 0.000_75,
            wall_ns: 4_000_000_000,
            undisturbed_ns: (4e9 * (1.0 - disturbance)) as u64,
            held: Some(0.0),
            outside: Some(0.0),
            corunners_ns: 600_000_000,
            host_steal: Some(0.0),
            watcher_ns: Some(1_200_000),
            pace: None,
            culprits,
            intervals,
            unavailable: vec![],
        };
        let before =
            [Try { verdict: Ruling::Disturbed, disturbance: 0.3, wall_ns: 5_000_000_000, cpi: Some(1.5) }];
        let meta = VerifyMeta { command: "./bench --all".into(), ..VerifyMeta::default() };
        VerifyReport::new(meta, verdict, &before, &[])
    }

    #[test]
    fn a_clean_run_is_said_in_one_sentence() {
        assert_eq!(
            report(Ruling::Clean).sentence(),
            "clean: 0.4 % of its 4.00 s was lost to others (allowed: 2.0 %)"
        );
    }

    #[test]
    fn what_a_command_has_left_running_is_said() {
        let left = |n| {
            let mut report = report(Ruling::Clean);
            report.meta.still_running = n;
            report.text()
        };
        assert!(!left(None).contains("still there") && !left(Some(0)).contains("still there"));
        assert!(left(Some(1)).contains("1 task that the command started was still there when it ended"));
        assert!(left(Some(3)).contains("3 tasks that the command started were still there when it ended"));
    }

    #[test]
    fn a_run_that_somebody_stopped_says_so_first() {
        let mut report = report(Ruling::Unclear);
        (report.judged.held, report.judged.disturbance) = (Some(0.745), 0.004);
        let text = report.text();
        let said = "unclear: somebody stopped or froze it for 75 % of its tasks' time; 0.4 % of its 4.00 s was lost to others";
        assert_eq!(report.sentence(), format!("{said} (allowed: 2.0 %)"));
        assert!(text.contains("--retries N runs it again, until nobody stops it"), "{text}");
    }

    #[test]
    fn a_disturbed_run_says_by_whom_by_how_much_when_and_how_long_it_would_have_taken() {
        let text = report(Ruling::Disturbed).text();
        for said in
            ["disturbed, mostly by `ffmpeg <1>`", "12 % of its 4.00 s", "3.52 s", "0 s to 1.00 s: 48 %"]
        {
            assert!(text.replace('\n', " ").contains(said), "{said} in {text}");
        }
        assert!(text.contains("tries: 30 %, 12 %"), "{text}");
        assert!(text.contains("corun itself kept its tasks waiting for 1.20 ms"), "{text}");
    }

    #[test]
    fn to_what_a_short_run_can_be_judged_is_said_where_less_was_allowed() {
        let mut short = report(Ruling::Clean);
        assert!(!short.sentence().contains("judged to"));
        short.judged.resolution = 0.03;
        assert!(short.sentence().ends_with("(allowed: 2.0 %; a run this short can only be judged to 3.0 %)"));
    }

    #[test]
    fn what_cannot_be_told_is_neither_clean_nor_a_failure() {
        let mut short = report(Ruling::Unclear);
        (short.judged.disturbance, short.judged.resolution) = (0.03, 0.035);
        assert_eq!(
            short.sentence(),
            "unclear: 3.0 % of its 4.00 s was lost to others (allowed: 2.0 %; a run this short can only be judged to 3.5 %)"
        );
        let value: serde_json::Value = serde_json::from_str(&short.json()).unwrap();
        assert_eq!(value["verdict"], "unclear");
        let xml = short.junit();
        assert!(xml.contains("<skipped message=\"unclear") && xml.contains("failures=\"0\""), "{xml}");
    }

    #[test]
    fn the_json_has_the_fields_of_the_contract() {
        let value: serde_json::Value = serde_json::from_str(&report(Ruling::Disturbed).json()).unwrap();
        assert_eq!(value["schema"], "corun.verify/1");
        assert_eq!(value["verdict"], "disturbed");
        for key in ["disturbance", "wall_ns", "undisturbed_ns", "culprits", "intervals"] {
            assert!(value.get(key).is_some_and(|v| !v.is_null()), "{key}");
        }
    }

    #[test]
    fn junit_fails_the_case_of_a_disturbed_run_only() {
        let xml = report(Ruling::Disturbed).junit();
        assert!(xml.contains("failures=\"1\"") && xml.contains("ffmpeg &lt;1&gt;"), "{xml}");
        assert!(report(Ruling::Clean).junit().contains("failures=\"0\""));
    }

    #[test]
    fn a_command_that_failed_is_no_success_in_junit_however_clean_its_run_was() {
        let mut failed = report(Ruling::Clean);
        failed.meta.exit_status = 7;
        let xml = failed.junit();
        assert!(xml.contains("errors=\"1\"") && xml.contains("failures=\"0\""), "{xml}");
        assert!(xml.contains("the command ended with status 7"), "{xml}");
        assert!(failed.text().starts_with(
            "corun verify: the command ended with status 7, which is the exit status; its run was clean"
        ));
    }

    #[test]
    fn who_was_killed_is_not_said_to_have_ended_with_a_number() {
        let mut killed = report(Ruling::Clean);
        (killed.meta.exit_status, killed.meta.signal) = (137, Some(9));
        assert!(killed
            .text()
            .starts_with("corun verify: the command was killed by SIGKILL (137), which is the exit status"));
        (killed.meta.exit_status, killed.meta.signal) = (162, Some(34));
        assert!(killed.text().contains("killed by signal 34 (162)"));
    }

    #[test]
    fn what_is_not_clean_says_what_to_do_and_what_is_says_nothing() {
        let mut found = report(Ruling::Disturbed);
        assert!(found.text().contains("more --retries"), "{}", found.text());
        found.tries.truncate(1);
        assert!(found.text().contains("--retries N runs it again"), "{}", found.text());
        assert!(report(Ruling::Unclear).text().contains("make it longer"));
        assert!(!report(Ruling::Clean).text().contains("--retries"));
    }

    #[test]
    fn a_strict_gate_takes_what_is_unclear_for_a_failure() {
        let mut short = report(Ruling::Unclear);
        short.meta.strict = true;
        let xml = short.junit();
        assert!(xml.contains("failures=\"1\"") && !xml.contains("<skipped"), "{xml}");
    }

    #[test]
    fn a_tolerant_policy_takes_a_disturbed_run_for_no_failure_but_a_command_that_failed_for_one() {
        let is_failure = |verdict, exit_status| {
            let mut report = report(verdict);
            (report.meta.tolerant, report.meta.exit_status) = (true, exit_status);
            let outcome = report.outcome();
            (outcome.state, outcome.is_failure)
        };
        assert_eq!(is_failure(Ruling::Disturbed, 0), (State::Disturbed, false));
        assert_eq!(is_failure(Ruling::Disturbed, 7), (State::Failed, true));
        assert!(report(Ruling::Disturbed).outcome().is_failure);
    }

    #[test]
    fn counters_that_are_missing_are_said_to_whoever_asked_for_them() {
        let mut blind = report(Ruling::Clean);
        let (what, why) = (What::HardwareCounters, "no PMU".to_owned());
        blind.judged.unavailable.push(Unavailable { what, why });
        assert!(!blind.text().contains("no PMU") && blind.json().contains("no PMU"));
        blind.meta.counters = true;
        assert!(blind.text().contains("no PMU"));
    }

    #[test]
    fn what_is_missing_cannot_steer_the_terminal() {
        let mut blind = report(Ruling::Clean);
        blind
            .judged
            .unavailable
            .push(Unavailable { what: What::Other("a\x1b[2J".into()), why: "b\u{202e}c".into() });
        assert!(blind.text().contains("! a?[2J: b?c"));
    }

    #[test]
    fn what_was_counted_is_told_of_every_try() {
        let mut counted = report(Ruling::Clean);
        let pace = Pace { cpi: 0.75, mpki: Some(1.25), memory: None };
        (counted.judged.pace, counted.tries[1].cpi) = (Some(pace), Some(pace.cpi));
        counted.meta.counting_cost = Some(0.004);
        let wanted =
            "cycles an instruction: 1.50, 0.75; 1.25 LLC misses per 1,000 instructions; counting took 0.4 %";
        let text = counted.text().replace("\n    ", " ");
        assert!(text.contains(wanted), "{text}");
    }
}
