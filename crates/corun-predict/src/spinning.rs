//! How long the subject spun, in all and per task, over all windows that were seen, with an interval.
//!
//! Method: the answers of a detector for each task in each window are added up. In sampled windows, errors are chance. They are independent of
//! each other, and add in squares. Time without samples, or that could not be judged, may hold no spinning or nothing else, however many
//! windows there are. The same is true of the errors of counters or exits. Such errors add as they are.
//!
//! Limits: if there are very many tasks, those that ran least are reported together. If a method is wrong in the same way in every window, that
//! is not in the interval (`docs/spinning.md` compares with programs that know how long they spun).

use crate::definitions::CONFIDENCE;
use corun_model::spin::{SpinEstimate, SpinMethod};
use corun_model::{Observation, TaskId, TenantId};
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Limit: most tasks that are kept apart.
const MOST_TASKS: usize = 10_000;
/// Limit: most tasks that are listed one by one.
const MOST_TOLD: usize = 100;

/// How long a program spun; serializes into `corun.predict/1`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Spinning {
    /// The share of its judged time on a CPU, 0..=1.
    pub share: f64,
    /// Low and high end of the share's interval.
    pub interval: [f64; 2],
    /// How often such an interval should hold it, as far as chance goes, 0..1.
    pub confidence: f64,
    /// Time spent spinning, in nanoseconds, as far as it was judged.
    pub spin_ns: u64,
    /// Time on a CPU.
    pub on_cpu_ns: u64,
    /// How much of the time on a CPU was judged, 0..=1.
    pub judged: f64,
    /// How spinning was separated from computing.
    pub method: &'static str,
    /// For each task, those that spun most first; at most a hundred.
    pub tasks: Vec<TaskSpinning>,
    /// How many tasks are only in the sums, at most: among more than ten thousand, a task that goes on may be counted again.
    pub unlisted_tasks: u64,
}

/// How long a task spun.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TaskSpinning {
    /// The task.
    pub tid: u32,
    /// Its name.
    pub name: String,
    /// Time spent spinning, in nanoseconds; `None`: nothing of it was judged.
    pub spin_ns: Option<u64>,
    /// Time on a CPU.
    pub on_cpu_ns: u64,
    /// The share of its judged time on a CPU; `None`: nothing was judged.
    pub share: Option<f64>,
    /// Low and high end of the share's interval.
    pub interval: Option<[f64; 2]>,
    /// How much of the time on a CPU was judged, 0..=1.
    pub judged: f64,
}

/// Adds up the answers of a detector.
#[derive(Clone, Debug, Default)]
pub struct SpinningSoFar {
    tasks: BTreeMap<TaskId, (Arc<str>, Sum)>,
    /// The tasks that are not kept apart, and how many they were.
    unlisted: Sum,
    unlisted_tasks: u64,
    method: Option<SpinMethod>,
}

impl SpinningSoFar {
    /// Takes the answers for a window.
    pub fn push(&mut self, seen: &Observation, subject: TenantId, found: &BTreeMap<TaskId, SpinEstimate>) {
        let mut listed_ns = 0;
        for task in seen.tasks.iter().filter(|t| t.tenant == subject) {
            let on_cpu_ns = task.account.ledger.on_cpu_ns();
            if on_cpu_ns == 0 {
                continue;
            }
            listed_ns += on_cpu_ns;
            let estimate = found.get(&task.id);
            self.method = estimate.map(|e| e.method).or(self.method);
            let (name, sum) = self.tasks.entry(task.id).or_default();
            name.clone_from(&task.name);
            sum.add(&Sum::of(on_cpu_ns, estimate));
        }
        let all = seen.by_tenant.iter().find(|t| t.id == subject);
        let all_ns = all.map_or(0, |t| t.account.ledger.on_cpu_ns());
        self.unlisted.add(&Sum::of(all_ns.saturating_sub(listed_ns), None));
        if self.tasks.len() > MOST_TASKS {
            self.forget_the_lesser_half();
        }
    }

    fn forget_the_lesser_half(&mut self) {
        let mut times: Vec<f64> = self.tasks.values().map(|(_, s)| s.on_cpu_ns).collect();
        times.sort_by(f64::total_cmp);
        let least = times[times.len() / 2];
        let (unlisted, unlisted_tasks) = (&mut self.unlisted, &mut self.unlisted_tasks);
        self.tasks.retain(|_, (_, sum)| {
            let stays = sum.on_cpu_ns > least;
            if !stays {
                unlisted.add(sum);
                *unlisted_tasks += 1;
            }
            stays
        });
    }

    /// The result; `None`: nothing was judged.
    pub fn spinning(&self) -> Option<Spinning> {
        let all = self.tasks.values().fold(self.unlisted, |mut all, (_, sum)| {
            all.add(sum);
            all
        });
        let mut tasks: Vec<TaskSpinning> = self
            .tasks
            .iter()
            .map(|(id, (name, sum))| TaskSpinning {
                tid: id.0,
                name: name.to_string(),
                spin_ns: sum.share().map(|_| sum.spin_ns as u64),
                on_cpu_ns: sum.on_cpu_ns as u64,
                share: sum.share(),
                interval: sum.interval(),
                judged: sum.judged_ns / sum.on_cpu_ns,
            })
            .collect();
        tasks.sort_by_key(|t| (std::cmp::Reverse((t.spin_ns, t.on_cpu_ns)), t.tid));
        let more = tasks.len().saturating_sub(MOST_TOLD) as u64;
        tasks.truncate(MOST_TOLD);
        Some(Spinning {
            share: all.share()?,
            interval: all.interval()?,
            confidence: CONFIDENCE,
            spin_ns: all.spin_ns as u64,
            on_cpu_ns: all.on_cpu_ns as u64,
            judged: all.judged_ns / all.on_cpu_ns,
            method: self.method?.name(),
            tasks,
            unlisted_tasks: self.unlisted_tasks + more,
        })
    }
}

/// Times of some tasks in some windows, in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    on_cpu_ns: f64,
    /// The part of that with an estimate.
    judged_ns: f64,
    spin_ns: f64,
    /// How far down and up chance may have moved the spin time, squared; and the errors that are not chance.
    chance: [f64; 2],
    certain: [f64; 2],
}

impl Sum {
    fn of(on_cpu_ns: u64, estimate: Option<&SpinEstimate>) -> Sum {
        let on_cpu = on_cpu_ns as f64;
        let Some(e) = estimate else { return Sum { on_cpu_ns: on_cpu, ..Sum::default() } };
        let part = |ns: u64| ns.min(on_cpu_ns) as f64;
        let spin_ns = part(e.spin_ns);
        let off = [(spin_ns - part(e.low_ns)).max(0.0), (part(e.high_ns) - spin_ns).max(0.0)];
        let judged = Sum { on_cpu_ns: on_cpu, judged_ns: on_cpu, spin_ns, ..Sum::default() };
        if e.method != SpinMethod::Samples {
            return Sum { certain: off, ..judged };
        }
        // Time that could not be judged may be all spinning, or none.
        let unjudged_ns = part(e.unjudged_ns);
        let certain = [off[0].min(unjudged_ns * spin_ns / on_cpu), off[1].min(unjudged_ns)];
        let chance = [0, 1].map(|end| (off[end] - certain[end]).powi(2));
        Sum { chance, certain, ..judged }
    }

    fn add(&mut self, o: &Sum) {
        let plus = |a: [f64; 2], b: [f64; 2]| [a[0] + b[0], a[1] + b[1]];
        *self = Sum {
            on_cpu_ns: self.on_cpu_ns + o.on_cpu_ns,
            judged_ns: self.judged_ns + o.judged_ns,
            spin_ns: self.spin_ns + o.spin_ns,
            chance: plus(self.chance, o.chance),
            certain: plus(self.certain, o.certain),
        };
    }

    fn share(&self) -> Option<f64> {
        (self.judged_ns > 0.0).then(|| self.spin_ns / self.judged_ns)
    }

    fn interval(&self) -> Option<[f64; 2]> {
        let share = self.share()?;
        let [low, high] = [0, 1].map(|end| self.certain[end] + self.chance[end].sqrt());
        Some([(share - low / self.judged_ns).max(0.0), (share + high / self.judged_ns).min(1.0)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corun_model::observation::{Account, TaskObservation, TenantObservation};
    use corun_model::{Ledger, Parts};

    const SUBJECT: TenantId = TenantId(0);
    const MS: u64 = 1_000_000;

    /// A window of the subject's tasks by their time on a CPU, in milliseconds.
    fn window(tasks: &[(u32, u64)]) -> Observation {
        let account = |ms: u64| {
            let parts = Parts { compute_ns: ms * MS, ..Parts::default() };
            Account { ledger: Ledger::new(parts, ms * MS).unwrap(), ..Account::default() }
        };
        let task = |&(id, ms): &(u32, u64)| TaskObservation {
            id: TaskId(id),
            name: format!("worker {id}").into(),
            tenant: SUBJECT,
            born_ns: 0,
            alive: true,
            last_cpu: None,
            account: account(ms).into(),
        };
        let all = account(tasks.iter().map(|t| t.1).sum());
        Observation {
            end_ns: 200 * MS,
            tasks: tasks.iter().map(task).collect(),
            by_tenant: vec![TenantObservation { id: SUBJECT, tasks: tasks.len() as u64, account: all }],
            ..Observation::default()
        }
    }

    fn estimate(spin_ms: u64, off_ms: u64, unjudged_ms: u64) -> SpinEstimate {
        SpinEstimate {
            observed_ns: 100 * MS,
            unjudged_ns: unjudged_ms * MS,
            spin_ns: spin_ms * MS,
            low_ns: (spin_ms - off_ms) * MS,
            high_ns: (spin_ms + off_ms) * MS,
            system_ns: None,
            method: SpinMethod::Samples,
        }
    }

    #[test]
    fn spinning_adds_up_by_task_and_in_all_and_many_windows_make_it_surer() {
        let mut so_far = SpinningSoFar::default();
        let found = BTreeMap::from([(TaskId(1), estimate(80, 10, 0)), (TaskId(2), estimate(20, 10, 0))]);
        let wide = |s: &SpinningSoFar| s.spinning().map(|t| t.interval[1] - t.interval[0]);
        assert_eq!(wide(&so_far), None);
        so_far.push(&window(&[(1, 100), (2, 100)]), SUBJECT, &found);
        let once = wide(&so_far).unwrap();
        (1..100).for_each(|_| so_far.push(&window(&[(1, 100), (2, 100)]), SUBJECT, &found));
        let spinning = so_far.spinning().unwrap();
        assert!((spinning.share - 0.5).abs() < 1e-9 && (spinning.judged - 1.0).abs() < 1e-9, "{spinning:?}");
        assert_eq!((spinning.spin_ns, spinning.on_cpu_ns), (10_000 * MS, 20_000 * MS));
        assert_eq!(spinning.tasks.iter().map(|t| t.tid).collect::<Vec<_>>(), [1, 2]);
        assert!(
            (spinning.tasks[0].share.unwrap() - 0.8).abs() < 1e-9 && spinning.tasks[0].name == "worker 1"
        );
        let all = wide(&so_far).unwrap();
        assert!((once / all - 10.0).abs() < 1e-6, "{once} {all}");
    }

    #[test]
    fn what_could_not_be_judged_is_not_surer_after_a_hundred_windows_and_what_nobody_looked_at_is_unknown() {
        let mut so_far = SpinningSoFar::default();
        let found = BTreeMap::from([(TaskId(1), estimate(50, 20, 20))]);
        (0..100).for_each(|_| so_far.push(&window(&[(1, 100), (2, 100)]), SUBJECT, &found));
        let spinning = so_far.spinning().unwrap();
        assert!((spinning.judged - 0.5).abs() < 1e-9, "{spinning:?}");
        assert!(
            (spinning.interval[0] - 0.39).abs() < 1e-9 && (spinning.interval[1] - 0.7).abs() < 1e-9,
            "{spinning:?}"
        );
        assert_eq!(
            (spinning.tasks[1].spin_ns, spinning.tasks[1].share, spinning.tasks[1].interval),
            (None, None, None)
        );
    }

    #[test]
    fn a_hundred_thousand_short_tasks_are_summed_and_not_all_kept() {
        let mut so_far = SpinningSoFar::default();
        for w in 0..1_000 {
            let tasks: Vec<(u32, u64)> = (0..100).map(|i| (w * 100 + i, 1)).chain([(1 << 30, 50)]).collect();
            let found = tasks.iter().map(|t| (TaskId(t.0), estimate(1, 1, 0))).collect();
            so_far.push(&window(&tasks), SUBJECT, &found);
            assert!(so_far.tasks.len() <= MOST_TASKS + 101, "{}", so_far.tasks.len());
        }
        let spinning = so_far.spinning().unwrap();
        assert_eq!(spinning.on_cpu_ns, 150_000 * MS, "their time counts all the same");
        assert_eq!(spinning.tasks.len() as u64 + spinning.unlisted_tasks, 100_001);
        assert!(spinning.tasks.iter().any(|t| t.tid == 1 << 30), "who ran most is listed");
    }
}
