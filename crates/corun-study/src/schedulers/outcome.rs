//! The runs of a study of schedulers, and the results of its figures (`corun.schedulers-study-result/1`).
//!
//! Runs are independent of each other, so a result does not depend on how they are spread over CPUs.

use super::file::{Figure, Measure, PolicyUse, SchedulersStudy, Shows, Stated, Value};
use super::scenarios::{Cell, RelativeFiles, Tenant};
use corun_model::fairness::jain;
use corun_sim::experiment::{all_or_first, co_runs, Failure, Run};
use corun_sim::metrics::{geometric_mean, relative_speedup, throughput, variation};
use corun_sim::scenario::Scenario;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// The schema of a result.
pub const SCHEMA: &str = "corun.schedulers-study-result/1";

/// The result of a study.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SchedulersOutcome {
    /// [`SCHEMA`].
    pub schema: String,
    /// The version of corun.
    pub corun: String,
    /// The name of the study.
    pub study: String,
    /// Its purpose, in a sentence.
    pub about: String,
    /// Its figures.
    pub figures: Vec<FigureOutcome>,
}

/// A figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FigureOutcome {
    /// Its name.
    pub name: String,
    /// Its title, for people.
    pub title: String,
    /// The kind of table and chart.
    pub shows: Shows,
    /// The modelled machine.
    pub machine: String,
    /// Runs of every cell.
    pub repetitions: u64,
    /// The length of a run as written. `None` if runs last until every program has ended.
    pub duration: Option<String>,
    /// The policies. All are compared with the first.
    pub policies: Vec<String>,
    /// The groups.
    pub groups: Vec<GroupOutcome>,
    /// Stated numbers, next to the results.
    pub stated: Vec<Beside>,
}

/// A group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GroupOutcome {
    /// Its name.
    pub name: String,
    /// Its cells.
    pub cells: Vec<CellOutcome>,
}

/// Programs together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CellOutcome {
    /// The programs. The others disturb the first one.
    pub programs: Vec<String>,
    /// Mean solo speed of each: work per time in runs of a fixed length and for programs that never end, otherwise runs per second.
    pub alone: Vec<f64>,
    /// Speed of each in the co-run, per policy and seed.
    pub speeds: Vec<Vec<Vec<f64>>>,
    /// Joules until all had ended, per policy and seed. `None` if runs have a fixed length, so that they did different work, or if the
    /// machine file has no power figures.
    #[serde(default)]
    pub energy_j: Option<Vec<Vec<f64>>>,
}

/// A stated number, next to the result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Beside {
    /// A description of it.
    pub what: String,
    /// The place where it is stated.
    pub place: String,
    /// The measure that it is compared with.
    pub measure: Measure,
    /// The stated value.
    pub stated: Value,
    /// The result. `None` if its cells were not run.
    pub ours: Option<Value>,
}

/// The mean; 0 for an empty list.
pub fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

impl CellOutcome {
    /// Mean speed of a program under a policy.
    fn speed(&self, policy: usize, program: usize) -> f64 {
        mean(&self.speeds[policy].iter().map(|seed| seed[program]).collect::<Vec<_>>())
    }

    /// Slowdown of each program under a policy.
    pub fn slowdowns(&self, policy: usize) -> Vec<f64> {
        self.alone.iter().enumerate().map(|(i, alone)| alone / self.speed(policy, i)).collect()
    }

    /// The geometric mean of the slowdowns.
    pub fn overall(&self, policy: usize) -> f64 {
        geometric_mean(&self.slowdowns(policy)).unwrap_or(f64::NAN)
    }

    /// Number of tenants whose solo progress the machine makes at once.
    pub fn throughput(&self, policy: usize) -> f64 {
        throughput(&self.slowdowns(policy)).unwrap_or(f64::NAN)
    }

    /// The value of a measure under a policy. NaN if one run or one policy is not enough for it.
    pub fn measure(&self, measure: Measure, policy: usize) -> f64 {
        match measure {
            Measure::Gain => self.speed(policy, 0) / self.speed(0, 0) - 1.0,
            Measure::OverallGain => self.overall(0) / self.overall(policy) - 1.0,
            Measure::BehindBest => {
                let others = (0..self.speeds.len()).filter(|&p| p != policy).map(|p| self.overall(p));
                self.overall(policy) / others.reduce(f64::min).unwrap_or(f64::NAN) - 1.0
            }
            Measure::Variation => {
                let speeds: Vec<f64> = self.speeds[policy].iter().map(|seed| seed[0]).collect();
                variation(&speeds).unwrap_or(f64::NAN)
            }
            Measure::ThroughputGain => self.throughput(policy) / self.throughput(0) - 1.0,
            Measure::Fairness => jain(&self.slowdowns(policy)).unwrap_or(f64::NAN),
            Measure::SpeedUp => {
                let (here, base) = (self.slowdowns(policy), self.slowdowns(0));
                let pairs: Vec<(f64, f64)> = here.into_iter().zip(base).collect();
                relative_speedup(&pairs).unwrap_or(f64::NAN)
            }
            Measure::EnergySaving => {
                let energy = |p: usize| self.energy_j.as_ref().map_or(f64::NAN, |all| mean(&all[p]));
                1.0 - energy(policy) / energy(0)
            }
        }
    }
}

impl GroupOutcome {
    /// The mean over the cells that are `wanted`. `None` without any. Ratios of overall slowdowns have a geometric mean. The gain in
    /// throughput is that of the mean throughput.
    pub fn mean(
        &self,
        measure: Measure,
        policy: usize,
        wanted: &dyn Fn(&CellOutcome) -> bool,
    ) -> Option<f64> {
        let cells: Vec<&CellOutcome> = self.cells.iter().filter(|c| wanted(c)).collect();
        let of = |f: &dyn Fn(&CellOutcome) -> f64| cells.iter().map(|c| f(c)).collect::<Vec<_>>();
        let over = |f: &dyn Fn(&CellOutcome) -> f64| mean(&of(f));
        (!cells.is_empty()).then(|| match measure {
            Measure::OverallGain | Measure::BehindBest => {
                geometric_mean(&of(&|c| c.measure(measure, policy) + 1.0)).unwrap_or(f64::NAN) - 1.0
            }
            Measure::ThroughputGain => over(&|c| c.throughput(policy)) / over(&|c| c.throughput(0)) - 1.0,
            _ => over(&|c| c.measure(measure, policy)),
        })
    }
}

impl FigureOutcome {
    /// The result to compare with a stated number.
    fn beside(&self, stated: &Stated) -> Beside {
        let among = |names: &[toml::Spanned<String>], name: &str| {
            names.is_empty() || names.iter().any(|n| n.as_ref() == name)
        };
        let policies: Vec<usize> =
            (1..self.policies.len()).filter(|&p| among(&stated.policies, &self.policies[p])).collect();
        let groups: Vec<&GroupOutcome> =
            self.groups.iter().filter(|g| among(&stated.groups, &g.name)).collect();
        let wanted = |c: &CellOutcome| among(&stated.programs, &c.programs[0]);
        // Every group counts equally, with any number of cells.
        let of_policy = |p: usize| {
            let means: Vec<f64> = groups.iter().filter_map(|g| g.mean(stated.measure, p, &wanted)).collect();
            (!means.is_empty()).then(|| mean(&means))
        };
        let mean_over_policies = || {
            let means: Option<Vec<f64>> = policies.iter().map(|&p| of_policy(p)).collect();
            means.filter(|all| !all.is_empty()).map(|all| mean(&all))
        };
        let most_of_all = || {
            let cells = || groups.iter().flat_map(|g| &g.cells).filter(|c| wanted(c));
            let each = policies.iter().flat_map(|&p| cells().map(move |c| c.measure(stated.measure, p)));
            each.reduce(f64::max)
        };
        let number = |x: Option<f64>| x.filter(|x| x.is_finite()).map(Value::Number);
        let ours = match &stated.value {
            Value::Policy(_) => policies
                .iter()
                .filter_map(|&p| Some((p, of_policy(p)?)))
                .max_by(|a, b| a.1.total_cmp(&b.1))
                .map(|(p, _)| Value::Policy(self.policies[p].clone())),
            Value::Number(_) if stated.most => number(most_of_all()),
            Value::Number(_) => number(mean_over_policies()),
        };
        Beside {
            what: stated.what.clone(),
            place: stated.place.clone(),
            measure: stated.measure,
            stated: stated.value.clone(),
            ours,
        }
    }
}

/// A scenario of a study: some programs together under a policy, or one alone. It runs with all seeds.
struct Scene<'a> {
    figure: &'a Figure,
    policy: Option<&'a PolicyUse>,
    tenants: Vec<Tenant>,
}

/// The scenarios of a figure: each program alone, then all cells under each policy.
fn scenes(figure: &Figure) -> Vec<Scene<'_>> {
    let solo = alone(figure).into_iter().map(|t| Scene { figure, policy: None, tenants: vec![t] });
    let mut scenes: Vec<Scene> = solo.collect();
    for cell in figure.groups.iter().flat_map(super::file::Group::cells) {
        scenes.extend(figure.policies.iter().map(|policy| Scene {
            figure,
            policy: Some(policy),
            tenants: policy.in_place(&cell.tenants),
        }));
    }
    scenes
}

/// How many scenarios a study has.
pub fn scenarios(study: &SchedulersStudy) -> usize {
    study.figures.iter().map(|figure| scenes(figure).len()).sum()
}

/// The different tenants of a figure.
fn alone(figure: &Figure) -> Vec<Tenant> {
    let cells = figure.groups.iter().flat_map(super::file::Group::cells);
    let mut all: Vec<Tenant> = cells.flat_map(|c| c.tenants).collect();
    all.sort();
    all.dedup();
    all
}

/// Runs the wanted scenarios of a study, numbered from 0. Other files are named relative to `folder`. Calls `done` once per scenario,
/// from any thread.
///
/// # Errors
/// [`Failure`] of the first scenario that could not run to its end.
pub fn make(
    study: &SchedulersStudy,
    folder: &Path,
    wanted: impl Fn(usize) -> bool,
    done: &(dyn Fn() + Sync),
) -> Result<Vec<(usize, Vec<Made>)>, Failure> {
    let all = study.figures.iter().flat_map(scenes).enumerate();
    let wanted: Vec<(usize, Scene)> = all.filter(|(number, _)| wanted(*number)).collect();
    let made = |(number, scene): &(usize, Scene)| {
        let made = run_scene(study, scene, folder)?;
        done();
        Ok((*number, made))
    };
    all_or_first(wanted.par_iter().map(made).collect())
}

fn run_scene(study: &SchedulersStudy, scene: &Scene, folder: &Path) -> Result<Vec<Made>, Failure> {
    let Scene { figure, policy, tenants } = scene;
    let fixed = figure.duration.is_some();
    let text = study.scenario(figure, *policy, tenants);
    let scenario = Scenario::parse(figure.name.as_ref(), &text, &RelativeFiles(folder))?;
    let of_run = |run: &Run| -> Result<Made, Failure> {
        let each = (0..tenants.len()).map(|t| speed(run, t, fixed));
        let speeds = each
            .collect::<Option<_>>()
            .ok_or_else(|| scenario.failed("a program made no progress; give a longer `duration`"))?;
        let energy_j = run.energy_uj.filter(|_| !fixed).map(|uj| uj as f64 / 1e6);
        Ok(Made { speeds, energy_j })
    };
    co_runs(&scenario)?.iter().map(of_run).collect()
}

/// Computes the figures from the results of all scenarios, in the order of their numbers.
pub fn figures(study: &SchedulersStudy, made: Vec<Vec<Made>>) -> Vec<FigureOutcome> {
    let mut made = made.into_iter();
    study.figures.iter().map(|figure| of_figure(figure, &mut made)).collect()
}

fn of_figure(figure: &Figure, made: &mut impl Iterator<Item = Vec<Made>>) -> FigureOutcome {
    let mut next = || made.next().expect("every scenario was run");
    let mut solo: BTreeMap<Tenant, f64> = BTreeMap::new();
    for tenant in alone(figure) {
        let speeds: Vec<f64> = next().iter().map(|run| run.speeds[0]).collect();
        solo.insert(tenant, mean(&speeds));
    }
    let mut of_cell = |cell: &Cell| {
        let under: Vec<Vec<Made>> = figure.policies.iter().map(|_| next()).collect();
        CellOutcome {
            programs: cell.tenants.iter().map(|t| t.program.clone()).collect(),
            alone: cell.tenants.iter().map(|t| solo[t]).collect(),
            energy_j: under.iter().map(|runs| runs.iter().map(|run| run.energy_j).collect()).collect(),
            speeds: under.into_iter().map(|runs| runs.into_iter().map(|run| run.speeds).collect()).collect(),
        }
    };
    let mut groups = Vec::new();
    for group in &figure.groups {
        let cells = group.cells().iter().map(&mut of_cell).collect();
        groups.push(GroupOutcome { name: group.name.clone(), cells });
    }
    let mut outcome = FigureOutcome {
        name: figure.name.as_ref().clone(),
        title: figure.title.clone(),
        shows: figure.shows,
        machine: figure.machine.clone(),
        repetitions: *figure.repetitions.as_ref(),
        duration: figure.duration.clone(),
        policies: figure.policies.iter().map(|p| p.name.as_ref().clone()).collect(),
        groups,
        stated: Vec::new(),
    };
    outcome.stated = figure.stated.iter().map(|stated| outcome.beside(stated)).collect();
    outcome
}

/// The result of one run.
#[derive(Clone, Debug, PartialEq)]
pub struct Made {
    /// The speed of each tenant.
    pub speeds: Vec<f64>,
    /// See [`CellOutcome::energy_j`].
    pub energy_j: Option<f64>,
}

/// The speed of a tenant. `None` if it made no progress.
fn speed(run: &Run, tenant: usize, fixed: bool) -> Option<f64> {
    let progress = &run.progress[tenant];
    if fixed || progress.endless {
        let work = progress.work_ns as f64 / run.end_ns as f64;
        return (work > 0.0).then_some(work);
    }
    let first = progress.completions.first?;
    Some(1e9 / (first.end_ns - first.start_ns) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedulers::text::{files, text};

    /// Two loops on one CPU under Xen, also with twice the slice.
    const TINY: &str = r#"
        schema = "corun.schedulers-study/1"
        name = "tiny"
        about = "Loops beside loops."
        [[program]]
        name = "loop"
        tenant = { program = { kind = "interference", threads = 1 } }
        [[program]]
        name = "half"
        tenant = { program = { kind = "interference", threads = 1, pattern = "periodic", demand = 0.5 } }
        [[figure]]
        name = "tiny"
        title = "Loops"
        shows = "pairs"
        machine = "pact16-xeon-e5620"
        scheduler = { name = "xen-credit" }
        tenant = { vm = { vcpus = 1 }, cpus = [0] }
        repetitions = 2
        duration = "3s"
        policy = [{ name = "Xen" }, { name = "DP", policy = "delayed_preemption", options = { delay = "8ms" } }]
        [[figure.group]]
        name = "beside a loop"
        of = ["loop", "half"]
        with = ["loop"]
        [[figure.stated]]
        what = "loops lose nothing"
        place = "nowhere"
        measure = "gain"
        programs = ["loop"]
        value = 0.0
        [[figure.stated]]
        what = "the only one is the best"
        place = "nowhere"
        measure = "overall-gain"
        value = "DP"
    "#;

    fn outcome(text: &str) -> SchedulersOutcome {
        let study = SchedulersStudy::parse("tiny.toml", text, Path::new("")).unwrap();
        let made = make(&study, Path::new(""), |_| true, &|| ()).unwrap();
        let figures = figures(&study, made.into_iter().map(|(_, made)| made).collect());
        SchedulersOutcome {
            schema: SCHEMA.into(),
            study: study.name,
            figures,
            ..SchedulersOutcome::default()
        }
    }

    #[test]
    fn two_loops_on_one_cpu_have_half_of_it_each_and_appear_next_to_the_stated_numbers() {
        let outcome = outcome(TINY);
        let figure = &outcome.figures[0];
        let cells = &figure.groups[0].cells;
        assert_eq!(
            (figure.groups.len(), cells.len(), cells[0].speeds.len(), cells[0].speeds[0].len()),
            (1, 2, 2, 2)
        );
        for policy in 0..2 {
            let slowdowns = cells[0].slowdowns(policy);
            assert!(slowdowns.iter().all(|s| (1.9..2.1).contains(s)), "{slowdowns:?}");
            assert!((cells[0].measure(Measure::Fairness, policy) - 1.0).abs() < 0.01);
            assert!((cells[0].throughput(policy) - 1.0).abs() < 0.05);
        }
        assert!(cells[1].slowdowns(0)[0] < 1.9, "half a CPU is less than a loop wants");
        let Some(Value::Number(gain)) = figure.stated[0].ours else { panic!("{:?}", figure.stated) };
        assert!(gain.abs() < 0.05, "{gain}");
        assert_eq!(figure.stated[1].ours, Some(Value::Policy("DP".into())));
    }

    #[test]
    fn a_record_has_tables_a_chart_per_figure_and_a_result_that_is_read_back() {
        let outcome = outcome(TINY);
        let files = files(&outcome, "corun study tiny.toml");
        let of = |name: &str| &files.iter().find(|(n, _)| n == name).unwrap().1;
        assert!(of("tiny.svg").contains("half / loop") && of("README.md").contains("loops lose nothing"));
        let again: SchedulersOutcome = serde_json::from_str(of("result.json")).unwrap();
        // The last bit of a number may get lost in the text.
        assert_eq!(text(&again), text(&outcome));
        assert_eq!(again.figures[0].stated, outcome.figures[0].stated);
        let text = text(&outcome);
        assert!(text.contains("Loops (tiny)") && text.contains("variation, DP"), "{text}");
    }

    #[test]
    fn measures_match_their_names() {
        let cell = CellOutcome {
            programs: vec!["a".into(), "b".into()],
            alone: vec![1.0, 1.0],
            speeds: vec![vec![vec![0.5, 0.25]], vec![vec![0.6, 0.25]], vec![vec![0.5, 0.5]]],
            energy_j: Some(vec![vec![80.0, 120.0], vec![60.0, 70.0], vec![110.0, 110.0]]),
        };
        let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-9, "{a} is not {b}");
        close(cell.measure(Measure::Gain, 1), 0.2);
        close(cell.overall(0), 8f64.sqrt());
        close(cell.measure(Measure::OverallGain, 2), 2f64.sqrt() - 1.0);
        close(cell.measure(Measure::BehindBest, 1), (0.25f64 / 0.15).sqrt() - 1.0);
        let best_left_alone =
            CellOutcome { speeds: vec![vec![vec![0.5; 2]], vec![vec![0.4; 2]]], ..cell.clone() };
        close(best_left_alone.measure(Measure::BehindBest, 1), 0.25);
        close(cell.measure(Measure::ThroughputGain, 2), 1.0 / 0.75 - 1.0);
        // Harmonic mean of the speed-ups 1 and 2.
        close(cell.measure(Measure::SpeedUp, 2), 4.0 / 3.0);
        assert!(cell.measure(Measure::Variation, 1).is_nan(), "one run does not tell");
        close(cell.measure(Measure::EnergySaving, 1), 0.35);
        close(cell.measure(Measure::EnergySaving, 2), -0.1);
        let unknown = CellOutcome { energy_j: None, ..cell };
        assert!(unknown.measure(Measure::EnergySaving, 1).is_nan(), "unknown is not none");
    }
}
