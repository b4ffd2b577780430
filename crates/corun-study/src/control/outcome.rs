//! The result of a study of control (`corun.control-study-result/1`), and the metrics of a cell.
//!
//! | metric | formula, over the tenants of a run |
//! | --- | --- |
//! | slowdown | length in the co-run divided by the solo length, in the same repetition |
//! | geometric mean | of the slowdowns |
//! | Jain fairness | `(Σ x)² / (n Σ x²)` of the slowdowns: 1 if all are equal (Controlled Contention, eq. 1)
//! |
//! | throughput | `Σ 1 / slowdown`: solo runs completed in the time of one (Controlled Contention, eq. 2) |
//! | relative speed-up | `n / Σ (slowdown under the policy / by default)`, in the same repetition (Controlled
//! Contention, eq. 3) |
//! | overall gain | geometric mean of the slowdowns by default / under the policy, in the same repetition (PACT'16 §5) |
//! | kept | the co-runner's CPU time divided by an equal share of the CPUs |
//! | energy | of the machine's packages, divided by the tenants' work: `Σ 1 / slowdown` seconds of solo work
//! each second |
//! | variation | standard deviation of the programs' mean slowdown over repetitions, divided by its mean |
//!
//! The value of a cell is the median over repetitions. For a run that was cut off, the slowdowns are lower bounds, and count as such.
//! The relative speed-up is a harmonic mean, so the slowest tenants dominate it: a tenfold speed-up of one tenant does not balance a
//! tenfold slowdown of another.

use crate::circumstances::{first_difference, RecordHead};
use crate::control::file::DEFAULT;
use crate::statistics::median;
use corun_model::fairness::jain;
use corun_sim::metrics::{geometric_mean, relative_speedup, throughput, variation};
use serde::{Deserialize, Serialize};

/// The schema of the result.
pub const SCHEMA: &str = "corun.control-study-result/1";

/// A tenant in a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TenantRun {
    /// The program's name, or `co-runner`.
    pub name: String,
    /// Complete runs; the co-runner has none.
    pub runs: u32,
    /// Mean length of the complete runs, in nanoseconds. `None` if there was none.
    pub wall_ns: Option<u64>,
    /// Length over the solo length: 1 or more, unless the machine's speed changed. `None` without a solo run.
    pub slowdown: Option<f64>,
    /// CPU time in this run, in nanoseconds.
    pub cpu_ns: u64,
    /// Involuntary switches in its complete runs. `None` if it did not end by itself.
    pub preemptions: Option<u64>,
    /// For a co-runner: its CPU time over its fair share; 1 means all of it.
    pub kept: Option<f64>,
}

/// A run of a cell.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ControlRun {
    /// The group.
    pub group: String,
    /// Its programs, joined with ` + `.
    pub cell: String,
    /// The policy; `default` is the kernel alone.
    pub policy: String,
    /// Which repetition, from 1.
    pub repetition: u32,
    /// From the start of the programs until all had ended once, in nanoseconds.
    pub wall_ns: u64,
    /// The programs, and the co-runner last.
    pub tenants: Vec<TenantRun>,
    /// Unused share of the CPUs' time, 0 to 1.
    pub idle: f64,
    /// The controller's share of the CPUs' time, 0 to 1.
    pub controller: f64,
    /// The share of the CPUs' time that neither tenants nor controller used, 0 to 1.
    pub foreign: f64,
    /// Runs before this one that other programs disturbed too much.
    pub rejected: u32,
    /// Whether the run was cut off before its programs ended.
    pub cut_off: bool,
    /// Tenants that were still frozen after the controller had ended. Must be 0.
    pub left_frozen: u32,
    /// Energy of the machine's packages with all programs on them, in microjoules. `None` if unknown.
    #[serde(default)]
    pub package_uj: Option<u64>,
    /// Why the energy is unknown. `None` if it is known, or if the run is older than this field.
    #[serde(default)]
    pub no_energy: Option<String>,
}

/// A solo run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SoloRun {
    /// The program.
    pub program: String,
    /// Which repetition.
    pub repetition: u32,
    /// Its length in nanoseconds.
    pub wall_ns: u64,
    /// Its CPU time in nanoseconds.
    pub cpu_ns: u64,
}

/// The result of a study.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ControlOutcome {
    /// Place and time of the runs, with [`SCHEMA`].
    #[serde(flatten)]
    pub head: RecordHead,
    /// The study's name.
    pub study: String,
    /// How the kernel shares the CPUs between the tenants.
    pub layout: String,
    /// The backend, as the study names it.
    pub backend: String,
    /// All runs of cells.
    pub runs: Vec<ControlRun>,
    /// All solo runs.
    pub solos: Vec<SoloRun>,
    /// Programs that could not be run, with the reason.
    pub skipped: Vec<(String, String)>,
    /// Runs that failed, with the reason.
    pub failed: Vec<String>,
}

impl ControlRun {
    fn slowdowns(&self) -> Vec<f64> {
        self.tenants.iter().filter_map(|t| t.slowdown).collect()
    }

    /// Slowdowns of the programs, without the co-runner.
    pub fn program_slowdowns(&self) -> Vec<f64> {
        self.tenants.iter().filter(|t| t.kept.is_none()).filter_map(|t| t.slowdown).collect()
    }

    /// Geometric mean of all tenants' slowdowns; `None` without any.
    pub fn geometric_mean(&self) -> Option<f64> {
        geometric_mean(&self.slowdowns())
    }

    /// Jain's index of all tenants' slowdowns, 1/n to 1.
    pub fn jain(&self) -> Option<f64> {
        jain(&self.slowdowns())
    }

    /// System throughput: the sum of the tenants' speeds.
    pub fn throughput(&self) -> Option<f64> {
        throughput(&self.slowdowns())
    }

    /// Energy of the machine's packages per second of the tenants' solo work, in joules. It is that of the whole machine, with idle
    /// CPUs and the controller. `None` if the energy or a tenant's work is unknown.
    pub fn joules_per_work_s(&self) -> Option<f64> {
        let is_known = self.tenants.iter().all(|t| t.slowdown.is_some());
        let work_ns = self.throughput().filter(|_| is_known)? * self.wall_ns as f64;
        (work_ns > 0.0).then_some(self.package_uj? as f64 * 1e3 / work_ns)
    }

    /// The relative speed-up of all tenants over another run of the same cell. `None` unless both runs have the same tenants.
    pub fn speed_up(&self, baseline: &ControlRun) -> Option<f64> {
        let by_default = |name: &str| baseline.tenants.iter().find(|t| t.name == name)?.slowdown;
        let pair = |t: &TenantRun| Some((t.slowdown?, by_default(&t.name)?));
        let pairs: Option<Vec<(f64, f64)>> = self.tenants.iter().map(pair).collect();
        relative_speedup(&pairs?)
    }

    /// The CPU time that the co-runner kept, over its fair share.
    pub fn kept(&self) -> Option<f64> {
        self.tenants.iter().find_map(|t| t.kept)
    }

    /// Involuntary switches of the programs per second.
    pub fn preemptions_per_s(&self) -> Option<f64> {
        let known: Vec<u64> = self.tenants.iter().filter_map(|t| t.preemptions).collect();
        (!known.is_empty()).then(|| known.iter().sum::<u64>() as f64 / (self.wall_ns as f64 / 1e9))
    }
}

/// A cell under a policy, over all repetitions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CellSummary {
    /// The group.
    pub group: String,
    /// The programs.
    pub cell: String,
    /// The policy.
    pub policy: String,
    /// Repetitions that count.
    pub n: usize,
    /// Repetitions that were cut off.
    pub cut_off: usize,
    /// Slowdown of each tenant.
    pub slowdowns: Vec<(String, f64)>,
    /// Geometric mean of the programs' slowdowns, its least and its greatest.
    pub slowdown: Option<[f64; 3]>,
    /// Geometric mean over all tenants.
    pub geometric_mean: Option<f64>,
    /// Jain's index.
    pub jain: Option<f64>,
    /// System throughput.
    pub throughput: Option<f64>,
    /// The relative speed-up over the default. `None` for the default itself, and if the default was not run.
    pub speed_up: Option<f64>,
    /// Geometric mean over all tenants of the slowdown under the default over the slowdown here. `None` as above.
    pub overall: Option<f64>,
    /// Throughput over that of the default, minus 1.
    pub more_throughput: Option<f64>,
    /// The CPU time that the co-runner kept, over its fair share.
    pub kept: Option<f64>,
    /// Unused share of the machine, 0 to 1.
    pub idle: Option<f64>,
    /// The controller's share of the machine, 0 to 1.
    pub controller: Option<f64>,
    /// Involuntary switches of the programs per second.
    pub preemptions_per_s: Option<f64>,
    /// Energy of the machine's packages per second of the tenants' solo work, in joules.
    #[serde(default)]
    pub joules_per_work_s: Option<f64>,
    /// Variation from run to run. `None` if there was one run.
    pub variation: Option<f64>,
}

impl ControlOutcome {
    /// Every cell under every policy that was run, in the order of the study's groups.
    pub fn summaries(&self) -> Vec<CellSummary> {
        let mut keys: Vec<(&str, &str, &str)> = Vec::new();
        for run in &self.runs {
            let key = (run.group.as_str(), run.cell.as_str(), run.policy.as_str());
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
        keys.iter().map(|(group, cell, policy)| self.summary(group, cell, policy)).collect()
    }

    /// A cell under a policy.
    pub fn summary(&self, group: &str, cell: &str, policy: &str) -> CellSummary {
        let runs: Vec<&ControlRun> =
            self.runs.iter().filter(|r| r.group == group && r.cell == cell && r.policy == policy).collect();
        let of = |f: &dyn Fn(&ControlRun) -> Option<f64>| {
            median(&runs.iter().filter_map(|r| f(r)).collect::<Vec<_>>())
        };
        let by_default = |run: &ControlRun| {
            let same = |r: &&ControlRun| {
                r.group == run.group
                    && r.cell == run.cell
                    && r.repetition == run.repetition
                    && r.policy == DEFAULT
            };
            self.runs.iter().find(same).filter(|_| run.policy != DEFAULT)
        };
        let programs: Vec<f64> = runs.iter().filter_map(|r| geometric_mean(&r.program_slowdowns())).collect();
        let edge = |f: fn(f64, f64) -> f64| programs.iter().copied().reduce(f);
        let tenants = runs.first().map_or(&[][..], |r| &r.tenants[..]);
        let slowdown_of = |name: &str| of(&|r| r.tenants.iter().find(|t| t.name == name)?.slowdown);
        CellSummary {
            group: group.to_owned(),
            cell: cell.to_owned(),
            policy: policy.to_owned(),
            n: runs.len(),
            cut_off: runs.iter().filter(|r| r.cut_off).count(),
            slowdowns: tenants.iter().filter_map(|t| Some((t.name.clone(), slowdown_of(&t.name)?))).collect(),
            slowdown: median(&programs).and_then(|m| Some([m, edge(f64::min)?, edge(f64::max)?])),
            geometric_mean: of(&ControlRun::geometric_mean),
            jain: of(&ControlRun::jain),
            throughput: of(&ControlRun::throughput),
            speed_up: of(&|r| r.speed_up(by_default(r)?)),
            overall: of(&|r| Some(by_default(r)?.geometric_mean()? / r.geometric_mean()?)),
            more_throughput: of(&|r| Some(r.throughput()? / by_default(r)?.throughput()? - 1.0)),
            kept: of(&ControlRun::kept),
            idle: of(&|r| Some(r.idle)),
            controller: of(&|r| Some(r.controller)),
            preemptions_per_s: of(&ControlRun::preemptions_per_s),
            joules_per_work_s: of(&ControlRun::joules_per_work_s),
            variation: variation(&programs),
        }
    }

    /// Adds the runs of an earlier part of the same study.
    ///
    /// # Errors
    /// The earlier part is of another study or another machine: their numbers do not belong in one table.
    pub fn go_on_from(&mut self, before: ControlOutcome) -> Result<(), String> {
        let facts = |o: &ControlOutcome| o.head.facts().into_iter().chain([("study", o.study.clone())]);
        if let Some((what, before, now)) = first_difference(facts(&before), facts(self)) {
            return Err(format!("its {what} is `{before}`, here it is `{now}`; start again, without it"));
        }
        *self = before;
        Ok(())
    }

    /// Why the machine's energy is unknown for some run.
    pub fn no_energy(&self) -> Option<&str> {
        self.runs.iter().find_map(|run| run.no_energy.as_deref())
    }

    /// Tenants that a controller left frozen, over all runs.
    pub fn left_frozen(&self) -> u32 {
        self.runs.iter().map(|r| r.left_frozen).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(crate) fn run(policy: &str, repetition: u32, slowdowns: [f64; 2]) -> ControlRun {
        let tenant = |name: &str, slowdown, kept| TenantRun {
            name: name.into(),
            slowdown: Some(slowdown),
            kept,
            preemptions: kept.is_none().then_some(100),
            ..TenantRun::default()
        };
        ControlRun {
            group: "g".into(),
            cell: "c".into(),
            policy: policy.into(),
            repetition,
            wall_ns: 2_000_000_000,
            tenants: vec![
                tenant("p", slowdowns[0], None),
                tenant("co-runner", slowdowns[1], Some(2.0 / slowdowns[1])),
            ],
            ..ControlRun::default()
        }
    }

    #[test]
    fn the_metrics_of_a_run_are_those_of_the_table() {
        let run = run("default", 1, [8.0, 2.0]);
        assert_eq!(run.geometric_mean(), Some(4.0));
        assert_eq!(run.throughput(), Some(0.625));
        assert!((run.jain().unwrap() - 100.0 / (2.0 * 68.0)).abs() < 1e-12);
        assert_eq!(run.kept(), Some(1.0));
        assert_eq!(run.preemptions_per_s(), Some(50.0));
        assert_eq!(ControlRun::default().jain(), None);
        // 1.25 seconds of work in two.
        let counted = ControlRun { package_uj: Some(50_000_000), ..run };
        assert_eq!(counted.joules_per_work_s(), Some(40.0));
        assert_eq!(ControlRun { package_uj: None, ..counted }.joules_per_work_s(), None);
    }

    #[test]
    fn a_study_continues_only_from_its_own_runs() {
        let part = |study: &str| ControlOutcome {
            study: study.into(),
            runs: vec![run("default", 1, [2.0, 2.0])],
            ..ControlOutcome::default()
        };
        let mut now = ControlOutcome { study: "control".into(), ..ControlOutcome::default() };
        assert!(now.go_on_from(part("other")).unwrap_err().starts_with("its study is `other`"));
        now.go_on_from(part("control")).unwrap();
        assert_eq!(now.runs.len(), 1);
    }

    #[test]
    fn a_cell_is_compared_with_the_default_of_its_own_repetition() {
        let runs = vec![
            run("default", 1, [8.0, 2.0]),
            run("gang", 1, [2.0, 2.0]),
            run("default", 2, [4.0, 1.0]),
            run("gang", 2, [2.0, 2.0]),
            run("gang", 3, [3.0, 2.0]),
        ];
        let outcome = ControlOutcome { runs, ..ControlOutcome::default() };
        let gang = outcome.summary("g", "c", "gang");
        let near = |a: f64, b: f64| (a - b).abs() < 1e-9;
        let [median, least, most] = gang.slowdown.unwrap();
        assert!(gang.n == 3 && near(median, 2.0) && near(least, 2.0) && near(most, 3.0));
        // In the first repetition, four times as fast and equally fast; in the second, twice and half as
        // fast. The third has no run of the default.
        assert!(near(gang.speed_up.unwrap(), (1.6 + 0.8) / 2.0) && near(gang.overall.unwrap(), 1.5));
        assert_eq!(outcome.summary("g", "c", "default").speed_up, None);
        assert!((gang.variation.unwrap() - 0.2474).abs() < 1e-3);
        assert_eq!(outcome.summaries().len(), 2);
    }
}
