//! The study of verdicts (`corun.verify-study/1`, `studies/verify.toml`): how often does `corun verify` call a run on an
//! idle machine disturbed, or a disturbed one clean?
//!
//! Method. Short programs run under `corun verify`, alternately alone and beside a co-runner, so that whatever drifts,
//! drifts for both. What is true is told by the wall clock alone, of which the verdict makes no use: with `slow_ns`, the
//! 95th percentile of the program's runs alone, a co-run of `wall_ns` was **noticeably** disturbed when
//! `1 - slow_ns / wall_ns` reaches the study's `noticeable`. A co-run below that is neither a hit nor a miss. A **miss**
//! is a noticeable one called clean. A **false alarm** is a run alone called disturbed, whatever its length was; how many
//! of them were slow by the same measure is told beside. A verdict that says that it cannot tell is neither; how many there
//! were is told as well.
//!
//! A run alone was on an **idle** machine if others had CPUs for no more of its length than it allows, all CPUs together:
//! they cannot have disturbed it by more, and a verdict never says that they did. So there is no false alarm by construction
//! there; on other runs alone, which are told apart, an alarm may be right, and how many there were is what to look at.
//!
//! Limits: how long others had CPUs is read off the same ledger as the verdict. A co-runner that only slows memory down
//! would be a miss, as it should be.

use crate::programs::{Interferer, Stage};
use crate::record::first_difference;
use crate::study_file::{read, BadStudy};
use corun_model::duration::written_ns;
use corun_model::proportion::wilson;
use corun_model::workload::line_of;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// The schema of a study file.
pub const STUDY_SCHEMA: &str = "corun.verify-study/1";
/// The schema of a result.
pub const SCHEMA: &str = "corun.verify-study-result/1";
/// The study that corun brings along.
pub const VERIFY: &str = include_str!("../../../studies/verify.toml");

/// A study as written.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct VerifyStudy {
    schema: String,
    /// What people call it.
    pub name: String,
    /// What it shows.
    pub about: String,
    /// Runs of every program beside every co-runner, and as many alone.
    pub repetitions: u32,
    /// Share of a run's time that others may cost it.
    pub max_disturbance: f64,
    /// A disturbance that must be found.
    pub noticeable: f64,
    /// How long a co-runner runs before the program, in nanoseconds.
    #[serde(deserialize_with = "written_ns")]
    pub lead: u64,
    /// How much longer at most, in nanoseconds.
    #[serde(deserialize_with = "written_ns")]
    pub spread: u64,
    /// The programs.
    #[serde(rename = "program")]
    pub programs: Vec<Interferer>,
    /// Who runs beside them.
    #[serde(rename = "co-runner")]
    pub corunners: Vec<Interferer>,
}

impl VerifyStudy {
    /// Reads a study's text; `file` is only named in errors.
    ///
    /// # Errors
    /// [`BadStudy`] with file, line and remedy.
    pub fn parse(file: &str, text: &str) -> Result<VerifyStudy, BadStudy> {
        let at = |line, what: String| BadStudy { file: file.to_owned(), line, what };
        let study: VerifyStudy = read(file, text)?;
        let share = |x: f64| x > 0.0 && x < 1.0;
        let bad = [
            (
                study.schema != STUDY_SCHEMA,
                "schema",
                format!("schema is `{}`, give `{STUDY_SCHEMA}`", study.schema),
            ),
            (
                !(1..=1000).contains(&study.repetitions),
                "repetitions",
                format!("repetitions is {}; give 1 to 1000", study.repetitions),
            ),
            (
                !share(study.max_disturbance),
                "max-disturbance",
                "max-disturbance is no share; give one such as 0.02".into(),
            ),
            (!share(study.noticeable), "noticeable", "noticeable is no share; give one such as 0.05".into()),
            (study.programs.is_empty(), "name", "there is no [[program]]; give one".into()),
        ];
        if let Some((_, key, what)) = bad.into_iter().find(|(bad, ..)| *bad) {
            return Err(at(line_of(text, key), what));
        }
        // A name that is there twice is at fault the second time.
        let line = |name: &str| {
            let names = |l: &str| l.trim_start().starts_with("name") && l.contains(&format!("\"{name}\""));
            text.lines().enumerate().filter(|(_, l)| names(l)).last().map_or(1, |(at, _)| at + 1)
        };
        for list in [&study.programs, &study.corunners] {
            let mut names = BTreeSet::new();
            for Interferer { name, recipe, .. } in list {
                if recipe.argv.is_empty() {
                    let what = format!("`{name}` has no argv; give the program and its arguments");
                    return Err(at(line(name), what));
                }
                if !names.insert(name) {
                    let what = format!("`{name}` is there twice; give each a name of its own");
                    return Err(at(line(name), what));
                }
            }
        }
        Ok(study)
    }
}

/// One run under `corun verify`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Judged {
    /// The program.
    pub program: String,
    /// Who ran beside it; `None`: nobody.
    pub beside: Option<String>,
    /// How long it took, in nanoseconds.
    pub wall_ns: u64,
    /// What the verdict says would not have been needed, 0..1.
    pub disturbance: f64,
    /// To what a run of this length can be judged, 0..1.
    pub resolution: f64,
    /// Whether it was called disturbed.
    pub alarm: bool,
    /// Whether the verdict was that nobody can tell.
    #[serde(default)]
    pub unclear: bool,
    /// How long co-runners had CPUs while it ran, summed over CPUs.
    pub corunners_ns: u64,
    /// How long corun itself kept the run's tasks waiting.
    pub watcher_ns: Option<u64>,
    /// Who is blamed most.
    pub culprit: Option<String>,
}

impl Judged {
    /// Whether it ran alone on an idle machine: others had no more CPU time than this share of its length.
    pub fn is_idle(&self, share: f64) -> bool {
        self.beside.is_none() && self.corunners_ns as f64 <= share * self.wall_ns as f64
    }
}

/// What came of a study.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct VerifyOutcome {
    /// [`SCHEMA`].
    pub schema: String,
    /// The version of corun.
    pub corun: String,
    /// When it began, for people.
    pub date: Option<String>,
    /// The machine, in one line.
    pub machine: String,
    /// The kernel's release.
    pub kernel: String,
    /// How fair shares are grouped.
    pub shares: String,
    /// What was allowed.
    pub max_disturbance: f64,
    /// What must be found.
    pub noticeable: f64,
    /// All runs, in their order.
    pub runs: Vec<Judged>,
    /// What could not be run, with the reason.
    pub skipped: Vec<(String, String)>,
}

impl VerifyOutcome {
    /// Why `earlier` runs do not belong with those that would be added to them; `self` has none yet.
    pub fn differs_from(&self, earlier: &VerifyOutcome) -> Option<String> {
        let facts = |o: &VerifyOutcome| {
            [
                ("schema", o.schema.clone()),
                ("machine", o.machine.clone()),
                ("kernel", o.kernel.clone()),
                ("fair shares", o.shares.clone()),
                ("max-disturbance", o.max_disturbance.to_string()),
                ("noticeable", o.noticeable.to_string()),
            ]
        };
        let (what, was, is) = first_difference(facts(earlier), facts(self))?;
        Some(format!("{what} was `{was}` and is `{is}`"))
    }
}

/// How many of how many, with the upper end of Wilson's 95 % interval of the share.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    /// How many.
    pub count: usize,
    /// Of how many.
    pub of: usize,
}

impl Rate {
    /// The share is at most this, with 95 % confidence (both sides together); 1 of none.
    pub fn at_most(self) -> f64 {
        if self.of == 0 {
            return 1.0;
        }
        wilson(self.count as f64, self.of as f64).1
    }
}

/// A program's runs alone: their median and 95th percentile, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alone {
    /// The median.
    pub median_ns: u64,
    /// The 95th percentile: slow, but alone.
    pub slow_ns: u64,
}

impl VerifyOutcome {
    /// A program's runs alone; `None` without any.
    pub fn alone(&self, program: &str) -> Option<Alone> {
        let of_program = |r: &&Judged| r.is_idle(self.max_disturbance) && r.program == program;
        let mut walls_ns: Vec<u64> = self.runs.iter().filter(of_program).map(|r| r.wall_ns).collect();
        walls_ns.sort_unstable();
        let at = |percent: usize| {
            walls_ns.get((walls_ns.len() * percent / 100).min(walls_ns.len().checked_sub(1)?))
        };
        Some(Alone { median_ns: *at(50)?, slow_ns: *at(95)? })
    }

    /// Share of a run's time that it would not have needed if it had been as fast as a slow run alone: 0 or less where it
    /// was. `None`: the program never ran alone.
    pub fn truth(&self, run: &Judged) -> Option<f64> {
        Some(1.0 - self.alone(&run.program)?.slow_ns as f64 / run.wall_ns as f64)
    }

    /// Whether a run was disturbed so much that it must be found.
    pub fn is_noticeable(&self, run: &Judged) -> bool {
        self.truth(run).is_some_and(|truth| truth >= self.noticeable)
    }

    /// False alarms among the runs alone that are `wanted`.
    pub fn false_alarms(&self, wanted: impl Fn(&Judged) -> bool) -> Rate {
        self.rate(|r| r.is_idle(self.max_disturbance) && wanted(r), |r| r.alarm)
    }

    /// Alarms in runs alone that were not slow by the clock, whatever others did meanwhile: the ledger has no say in which
    /// runs these are.
    pub fn alarms_against_the_clock(&self) -> Rate {
        self.rate(|r| r.beside.is_none() && !self.is_noticeable(r), |r| r.alarm)
    }

    /// Misses among the noticeably disturbed co-runs that are `wanted`.
    pub fn misses(&self, wanted: impl Fn(&Judged) -> bool) -> Rate {
        self.rate(|r| r.beside.is_some() && self.is_noticeable(r) && wanted(r), |r| !r.alarm && !r.unclear)
    }

    /// Verdicts that say nothing: of all runs alone, and of the noticeably disturbed co-runs.
    pub fn unclear(&self) -> [Rate; 2] {
        let disturbed = |r: &Judged| r.beside.is_some() && self.is_noticeable(r);
        [self.rate(|r| r.beside.is_none(), |r| r.unclear), self.rate(disturbed, |r| r.unclear)]
    }

    /// How many of the runs that are `among` are `wrong`.
    fn rate(&self, among: impl Fn(&Judged) -> bool, wrong: impl Fn(&Judged) -> bool) -> Rate {
        let runs: Vec<&Judged> = self.runs.iter().filter(|r| among(r)).collect();
        Rate { count: runs.iter().filter(|r| wrong(r)).count(), of: runs.len() }
    }
}

/// The fields of `corun.verify/1` that the study reads.
#[derive(Debug, Deserialize)]
struct Verdict {
    verdict: String,
    disturbance: f64,
    resolution: f64,
    wall_ns: u64,
    corunners_ns: u64,
    watcher_ns: Option<u64>,
    culprits: Vec<Culprit>,
    exit_status: i32,
}

#[derive(Debug, Deserialize)]
struct Culprit {
    tenant: Option<String>,
}

/// Everything that the runs of a study share.
pub struct Bench<'a> {
    study: &'a VerifyStudy,
    stage: &'a Stage,
    corun: &'a Path,
    verdict: PathBuf,
}

impl<'a> Bench<'a> {
    /// Runs with the program file of corun itself; verdicts are written into `folder`.
    pub fn new(study: &'a VerifyStudy, stage: &'a Stage, corun: &'a Path, folder: &Path) -> Bench<'a> {
        Bench { study, stage, corun, verdict: folder.join("verdict.json") }
    }

    /// How many runs [`Bench::run`] makes when nothing is skipped: for a progress bar.
    pub fn runs(study: &VerifyStudy) -> u64 {
        2 * u64::from(study.repetitions) * (study.programs.len() * study.corunners.len()) as u64
    }

    /// Makes all runs, in addition to those that are there; `done` is called after each.
    pub fn run(&self, outcome: &mut VerifyOutcome, done: &mut dyn FnMut(&str)) {
        let mut ready = |all: &'a [Interferer]| -> Vec<&'a Interferer> {
            let mut ready = Vec::new();
            for one in all {
                match self.stage.prepare(&one.recipe) {
                    Ok(()) => ready.push(one),
                    Err(why) => outcome.skipped.push((one.name.clone(), why)),
                }
            }
            ready
        };
        let (programs, corunners) = (ready(&self.study.programs), ready(&self.study.corunners));
        outcome.skipped.sort();
        outcome.skipped.dedup();
        for repetition in 0..self.study.repetitions {
            for program in &programs {
                for (n, corunner) in corunners.iter().enumerate() {
                    for beside in [None, Some(*corunner)] {
                        // Every phase of a co-runner equally often, also where there are few repetitions.
                        let step = u64::from(repetition) * corunners.len() as u64 + n as u64;
                        match self.once(program, beside, step) {
                            Ok(run) => outcome.runs.push(run),
                            Err(why) => outcome.skipped.push((program.name.clone(), why)),
                        }
                        done(&program.name);
                    }
                }
            }
        }
    }

    fn once(&self, program: &Interferer, beside: Option<&Interferer>, step: u64) -> Result<Judged, String> {
        let _running = match beside {
            Some(corunner) => {
                let running = self.stage.start(&corunner.recipe).map_err(|e| e.to_string())?;
                // The golden ratio's fraction falls evenly into the spread, however many steps there are.
                let more = (step as f64 * 0.618_033_988_75).fract();
                std::thread::sleep(Duration::from_nanos(
                    self.study.lead + (self.study.spread as f64 * more) as u64,
                ));
                Some(running)
            }
            None => None,
        };
        let command = self.stage.command(&program.recipe);
        let mut verify = Command::new(self.corun);
        verify.args([
            "verify",
            "--quiet",
            "--max-disturbance",
            &self.study.max_disturbance.to_string(),
            "--json",
        ]);
        verify.arg(&self.verdict).arg("--").arg(command.get_program()).args(command.get_args());
        verify.envs(&program.recipe.env);
        let _ = std::fs::remove_file(&self.verdict);
        let output = verify
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .output()
            .map_err(|e| e.to_string())?;
        let text = std::fs::read_to_string(&self.verdict)
            .map_err(|_| format!("corun verify: {}", String::from_utf8_lossy(&output.stderr).trim()))?;
        let found: Verdict = serde_json::from_str(&text).map_err(|e| format!("corun verify's JSON: {e}"))?;
        if found.exit_status != 0 {
            return Err(format!("it failed with status {}", found.exit_status));
        }
        Ok(Judged {
            program: program.name.clone(),
            beside: beside.map(|c| c.name.clone()),
            wall_ns: found.wall_ns,
            disturbance: found.disturbance,
            resolution: found.resolution,
            alarm: found.verdict == "disturbed",
            unclear: found.verdict == "unclear",
            corunners_ns: found.corunners_ns,
            watcher_ns: found.watcher_ns,
            culprit: found.culprits.into_iter().next().and_then(|c| c.tenant),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(beside: Option<&str>, wall_ns: u64, alarm: bool) -> Judged {
        Judged {
            program: "p".into(),
            beside: beside.map(str::to_owned),
            wall_ns,
            disturbance: 0.0,
            resolution: 0.02,
            alarm,
            unclear: false,
            corunners_ns: 0,
            watcher_ns: None,
            culprit: None,
        }
    }

    fn outcome(runs: Vec<Judged>) -> VerifyOutcome {
        VerifyOutcome { noticeable: 0.05, runs, ..VerifyOutcome::default() }
    }

    #[test]
    fn the_study_that_corun_brings_along_is_read_and_makes_enough_runs() {
        let study = VerifyStudy::parse("studies/verify.toml", VERIFY).unwrap();
        assert!(Bench::runs(&study) >= 400, "200 alone and 200 beside somebody");
        assert!(study.corunners.len() >= 4 && study.noticeable == 0.05);
    }

    #[test]
    fn a_bad_study_is_named_with_its_line() {
        let refusal = |text: &str| VerifyStudy::parse("v.toml", text).unwrap_err().to_string();
        let text = VERIFY.replace("noticeable = 0.05", "noticeable = 5");
        assert!(refusal(&text).contains("noticeable is no share"), "{}", refusal(&text));
        assert!(refusal(&VERIFY.replace(STUDY_SCHEMA, "x")).starts_with("v.toml:1: schema is `x`"));
        assert!(refusal(&VERIFY.replace("repetitions = 16", "repetitions = 0")).contains("is 0; give 1 to"));
        let line = |name: &str| VERIFY.lines().position(|l| l.contains(name)).unwrap() + 1;
        let said = refusal(&VERIFY.replace("\"pigz-long\"", "\"pigz-short\""));
        assert!(said.starts_with(&format!("v.toml:{}: `pigz-short` is there twice", line("\"pigz-long\""))));
        let argv = "argv = [\"{corun}\", \"load\", \"persistent\", \"--cpus\"";
        let said = refusal(&VERIFY.replace(argv, "argv = [] # ["));
        assert!(said.starts_with(&format!("v.toml:{}: `pinned` has no argv", line("\"pinned\""))), "{said}");
    }

    #[test]
    fn a_disturbed_run_counts_only_when_it_is_slower_than_the_slow_ones_alone() {
        let alone = (0..20).map(|i| run(None, 100 + i, false));
        let beside = [run(Some("c"), 118, false), run(Some("c"), 126, false), run(Some("c"), 150, true)];
        let o = outcome(alone.chain(beside).collect());
        assert_eq!(o.alone("p"), Some(Alone { median_ns: 110, slow_ns: 119 }));
        assert_eq!(o.misses(|_| true), Rate { count: 1, of: 2 });
        assert_eq!(o.false_alarms(|_| true), Rate { count: 0, of: 20 });
    }

    #[test]
    fn who_says_that_he_cannot_tell_misses_nothing_and_alarms_nobody_but_is_counted() {
        let unclear = |beside, ns| Judged { unclear: true, ..run(beside, ns, false) };
        let o = outcome(vec![run(None, 100, false), unclear(None, 101), unclear(Some("c"), 150)]);
        assert_eq!((o.misses(|_| true).count, o.false_alarms(|_| true).count), (0, 0));
        assert_eq!(o.unclear(), [Rate { count: 1, of: 2 }, Rate { count: 1, of: 1 }]);
    }

    #[test]
    fn an_alarm_alone_is_false_even_if_the_run_was_slow() {
        let o = outcome(vec![run(None, 100, false), run(None, 200, true)]);
        assert_eq!(o.false_alarms(|_| true), Rate { count: 1, of: 2 });
    }

    #[test]
    fn by_the_clock_a_slow_run_alone_says_nothing_of_alarms_even_if_the_machine_was_not_idle() {
        let mut busy = run(None, 101, true);
        busy.corunners_ns = busy.wall_ns;
        let o = outcome(vec![run(None, 100, false), run(None, 102, false), busy]);
        assert_eq!(o.alarms_against_the_clock(), Rate { count: 1, of: 3 });
        let slow = outcome(vec![run(None, 100, false), run(Some("c"), 200, true)]);
        assert_eq!(slow.alarms_against_the_clock(), Rate { count: 0, of: 1 });
    }

    #[test]
    fn nothing_of_many_is_not_a_certain_nothing() {
        let at_most = Rate { count: 0, of: 200 }.at_most();
        assert!((at_most - 0.0188).abs() < 1e-3, "{at_most}");
        assert_eq!(Rate { count: 0, of: 0 }.at_most(), 1.0);
    }

    #[test]
    fn a_program_that_is_not_there_is_skipped_with_the_reason() {
        let folder = tempfile::tempdir().unwrap();
        let stage = Stage::new(folder.path(), Path::new("/no/corun"), 1).unwrap();
        let mut study = VerifyStudy::parse("v.toml", VERIFY).unwrap();
        study.programs.truncate(1);
        study.programs[0].recipe.prepare = None;
        study.programs[0].recipe.argv = vec!["no-such-program".into()];
        let mut outcome = VerifyOutcome::default();
        Bench::new(&study, &stage, Path::new("/no/corun"), folder.path()).run(&mut outcome, &mut |_| ());
        assert!(outcome.runs.is_empty());
        assert!(
            outcome.skipped.iter().any(|(_, why)| why.contains("is not installed")),
            "{:?}",
            outcome.skipped
        );
    }
}
