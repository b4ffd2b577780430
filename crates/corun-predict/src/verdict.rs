//! Was a run disturbed? By how much, when and by whom: the answer of `corun verify`.
//!
//! Method: what the run lost of its wall time ([`crate::loss`]), slot by slot. So the losses of its parts sum to the loss of the whole.
//! Consecutive slots above the limit form an interval. A replay has no slots. If it differs from the sum of the slots by more than was
//! allowed, there are no intervals. The kernel's own threads and the wake-up of an idle CPU take as much time alone, and disturb nobody.
//! A loss below the limit over the whole run is no disturbance, whatever single windows say. The time that corun itself took while it
//! watched is listed apart, and charged to nobody.
//!
//! # Ruling
//!
//! The likely loss decides between clean and disturbed. Its 95 % interval is reported but does not decide: no method is surer than 6 to
//! 9 %, and 2 % are allowed, so hardly any verdict would be clear. A verdict needs evidence, though. It is unclear if what the sums and a
//! replay leave open reaches to the other side of the limit ([`crate::loss::Loss::ruled_ns`]):
//!
//! - The run is only disturbed if the least that it can have lost is more than was allowed. A replay is a model of the run, so it has to
//!   say that by more than its standard error. What the sums say was stolen was stolen.
//! - The run is only clean if the most that it can have lost is hardly more than was allowed: by no more than the best of methods is off.
//!
//! A short run cannot be judged as finely as a long one. On an idle machine, too, a daemon runs for a moment now and then, and a moment is
//! some percent of a tenth of a second. So a run has a [`resolution`]. A loss below it, but above the limit, may be background: that is
//! unclear. So is a run in which a signal ended something from which more had been taken than was allowed ([`crate::cut_short`]), a run
//! that waited for somebody outside of it who lost more than was allowed meanwhile ([`crate::servers`]), and a run from whose CPUs the
//! hypervisor took more than was allowed.
//!
//! Limits: those of the ledger alone. A co-runner that only slows memory down is not seen.

use crate::calibrated::REPLAY;
use crate::counterfactual::AloneTime;
use crate::cut_short::Ended;
pub use crate::cut_short::{CutBy, CutShort};
use crate::definitions::CONFIDENCE;
use crate::estimate::{Culprit, Method};
use crate::hypervisor::Hypervisor;
pub use crate::over_time::Disturbance;
use crate::over_time::{LossOverTime, Tenants};
use crate::predictor::culprits;
pub use crate::ruling::{resolution, Doubt, Ruling, COARSEST, MOMENT_NS};
use crate::servers::Server;
use crate::spans::{Parts, Slots};
use crate::useful_work::{Spent, Window};
use corun_model::{Ledger, Observation, RunLog, TenantId, TenantKind, Unavailable};
use serde::Serialize;
use std::collections::BTreeSet;

/// Definition: the default of `--max-disturbance`.
pub const MAX_DISTURBANCE: f64 = 0.02;

/// The answer for a run; serializes to `corun.verify/1`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    /// The answer.
    pub verdict: Ruling,
    /// Why it is unclear; `None`: it is not.
    pub doubt: Option<Doubt>,
    /// Share of the wall time that would not have been needed undisturbed, 0..1.
    pub disturbance: f64,
    /// The 95 % interval of `disturbance`, 0..1: that of the slowdown, as `corun predict` has it. It includes what sums and a replay leave
    /// open, and how far off these are.
    pub disturbance_range: [f64; 2],
    /// The part of `disturbance` that may not have been lost, since sums and a replay leave it open, 0..1. It may have come out of a sleep
    /// that would have been longer, or out of time in which its own CPU budget would have stopped it.
    pub spare: f64,
    /// The part of `disturbance` in which its own CPU budget may have stopped it anyway, 0..1.
    pub stopped_anyway: f64,
    /// Whether its tasks may have spun unseen while they waited for each other: then no less was lost, but perhaps more.
    pub may_have_spun: bool,
    /// What that rests on: its ledger, or a replay if the two contradict each other.
    pub method: Method,
    /// What was allowed.
    pub max_disturbance: f64,
    /// The least disturbance that a run of this length can be judged to ([`resolution`]), 0..1.
    pub resolution: f64,
    /// How long the run was, in nanoseconds.
    pub wall_ns: u64,
    /// How long it would have been undisturbed.
    pub undisturbed_ns: u64,
    /// Share of its tasks' lives in which somebody stopped or froze them, 0..1. That is no part of `disturbance`. `None`: not measured.
    pub held: Option<f64>,
    /// The least share of the wall time in which it waited only for processes, events and timers outside of it, 0..1. Nobody knows what
    /// delayed those. `None`: not measured.
    pub outside: Option<f64>,
    /// The tenants outside the program that it waited for, and how long others kept those from a CPU meanwhile. The longest wait comes
    /// first. `None`: not known.
    pub servers: Option<Vec<Server>>,
    /// The task in it that a signal ended, and from which most was taken; `None`: there is none, or it is not known.
    pub cut_short: Option<CutShort>,
    /// How long co-runners had CPUs meanwhile, summed over CPUs, whether it was in the run's way or not.
    pub corunners_ns: u64,
    /// The part of the busy time of the CPUs that it may use which the hypervisor took for others, 0..1. It is in no other number here:
    /// nobody knows what it cost the run. `None`: this machine does not tell.
    pub host_steal: Option<f64>,
    /// CPU time of its tasks that lived too short for anybody to look at them, in nanoseconds. Nobody knows what was taken from them.
    pub unseen_ns: u64,
    /// How long its tasks, summed, waited for a CPU that corun itself held: the cost of watching, no disturbance. `None`: nobody told corun
    /// from co-runners, and it is among them.
    pub watcher_ns: Option<u64>,
    /// How well its time on a CPU was used; `None`: hardware events were not counted, or not in nearly all of it.
    pub pace: Option<Pace>,
    /// Who took the time, most first.
    pub culprits: Vec<Culprit>,
    /// When it was disturbed by more than was allowed, oldest first; empty if `method` is a replay, which tells how much was lost and not
    /// when.
    pub intervals: Vec<Disturbance>,
    /// What could not be known.
    pub unavailable: Vec<Unavailable>,
}

/// How much a run's time on a CPU was worth, according to hardware counters. It has no part in the verdict, since nobody knows what it would
/// be alone. But over two tries it shows whether a co-runner slowed memory down, which no ledger does.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Pace {
    /// Cycles per instruction.
    pub cpi: f64,
    /// Misses of the last-level cache per thousand instructions; `None`: this CPU does not count them.
    pub mpki: Option<f64>,
    /// Share of the time on a CPU that was stalled on memory, 0..1; `None`: likewise.
    pub memory: Option<f64>,
}

impl Pace {
    fn of(all: &Spent) -> Option<Pace> {
        Some(Pace {
            cpi: all.per_instruction(all.cycles)?,
            mpki: all.per_instruction(all.misses).map(|n| 1e3 * n),
            memory: all.memory.rate().filter(|_| all.knows_memory()),
        })
    }
}

/// Judges a run as its windows come in.
#[derive(Clone, Debug)]
pub struct Judge {
    subject: TenantId,
    max_disturbance: f64,
    loss: LossOverTime,
    watcher_ns: Option<u64>,
    life: Ledger,
    /// Whether several tasks computed side by side.
    is_parallel: bool,
    /// How long it waited for nothing but the outside; `None`: a window could not tell.
    outside_ns: Option<u64>,
    servers: Option<Vec<Server>>,
    hypervisor: Hypervisor,
    ended: Ended,
    tenants: Tenants,
    unavailable: BTreeSet<Unavailable>,
    /// The run, slot by slot; `None`: nobody asks for parts of it.
    slots: Option<Slots>,
}

impl Judge {
    /// A judge of this tenant's run who allows this share of its time to be disturbed, 0..1.
    pub fn new(subject: TenantId, max_disturbance: f64) -> Judge {
        Judge {
            subject,
            max_disturbance,
            loss: LossOverTime::default(),
            hypervisor: Hypervisor::default(),
            watcher_ns: None,
            life: Ledger::default(),
            is_parallel: false,
            outside_ns: Some(0),
            servers: None,
            tenants: Tenants::new(),
            ended: Ended::default(),
            unavailable: BTreeSet::new(),
            slots: None,
        }
    }

    /// The same, but it also keeps the data to judge parts of the run ([`Judge::parts`]): a few hundred bytes a window.
    pub fn of_parts(self) -> Judge {
        Judge { slots: Some(Slots::default()), ..self }
    }

    /// Takes the next window of the run.
    pub fn push(&mut self, seen: &Observation) {
        for t in &seen.tenants {
            self.tenants.insert(t.id, (t.name.clone(), t.kind));
        }
        self.unavailable.extend(seen.unavailable.iter().cloned());
        if let Some(ns) = taken_by_watcher(seen, self.subject) {
            *self.watcher_ns.get_or_insert(0) += ns;
        }
        if let Some(own) = seen.by_tenant.iter().find(|t| t.id == self.subject) {
            self.life = self.life.plus(&own.account.ledger);
            let outside_ns = own.account.waited_outside_ns(seen.window_ns());
            self.outside_ns = self.outside_ns.and_then(|ns| Some(ns + outside_ns?));
        }
        let computed =
            seen.tasks.iter().filter(|t| t.tenant == self.subject && t.account.ledger.on_cpu_ns() > 0);
        self.is_parallel |= computed.count() > 1;
        self.ended.see(seen, self.subject);
        let window = Window::of(seen, self.subject);
        self.hypervisor.add(seen, &window.reach.all());
        if let Some(slots) = &mut self.slots {
            slots.push(seen, self.subject, &window);
        }
        self.loss.push(window, self.max_disturbance, &self.tenants);
    }

    /// Takes the events of the run's tasks, up to about the end of the last window. They tell when in a window its parts lost something, and
    /// what signals ended.
    pub fn push_log(&mut self, log: &RunLog) {
        self.ended.push(log);
        if let Some(slots) = &mut self.slots {
            slots.push_log(log);
        }
    }

    /// The run so far, in parts; `None`: it does not keep them ([`Judge::of_parts`]).
    pub fn parts(&self) -> Option<Parts<'_>> {
        let slots = self.slots.as_ref()?;
        let (loss, ..) = self.loss.clone().end(self.max_disturbance, &self.tenants);
        Some(Parts::new(slots, self.max_disturbance, loss.lost_ns[1].max(0.0)))
    }

    /// What people call a tenant of the run.
    pub fn name_of(&self, tenant: TenantId) -> Option<&str> {
        self.tenants.get(&tenant).map(|(name, _)| name.as_str())
    }

    /// Takes what is known about a stretch of the run by better means than sums, before the verdict.
    pub fn push_evidence(&mut self, evidence: AloneTime) {
        self.loss.known.push(evidence);
    }

    /// Takes whom outside of it the run waited for, before the verdict; `None`: it is not known.
    pub fn know_servers(&mut self, servers: Option<Vec<Server>>) {
        self.servers = servers;
    }

    /// The verdict on the run so far. `ran_ns` is how long the command really ran, if that is less than the windows cover (it ended within
    /// the last).
    pub fn verdict(&self, ran_ns: Option<u64>) -> Verdict {
        let (loss, whole, mut intervals) = self.loss.clone().end(self.max_disturbance, &self.tenants);
        let wall_ns = ran_ns.unwrap_or(whole.wall_ns as u64);
        // The loss of the windows is the loss of the run, even if the last of them reaches beyond its end.
        let share = |lost_ns: f64| if wall_ns > 0 { (lost_ns / wall_ns as f64).clamp(0.0, 1.0) } else { 0.0 };
        let disturbance = share(loss.lost_ns[1]);
        let [least, most] = loss.ruled_ns.map(share);
        let resolution = resolution(wall_ns);
        let life_ns = self.life.total_ns().max(1) as f64;
        let held = self.life.parts().held.map(|held| (held.stopped_ns + held.frozen_ns) as f64 / life_ns);
        let host_steal = self.hypervisor.share();
        let allowed = self.max_disturbance;
        let cut_short = self.ended.worst(&whole);
        let cut = cut_short.as_ref().map_or(0.0, |cut| share(cut.taken_ns()));
        let delayed_ns: u64 = self.servers.iter().flatten().map(|server| server.queued_ns[0]).sum();
        let doubt = match disturbance {
            d if d > allowed && d <= resolution => Some(Doubt::Short),
            _ if least <= allowed && held.is_some_and(|held| held > allowed) => Some(Doubt::Held),
            d if d > allowed && least <= allowed && whole.is_half_seen() => Some(Doubt::Hasty),
            d if d > allowed && least <= allowed => Some(Doubt::Spare),
            d if d <= allowed && cut > allowed.max(resolution) => Some(Doubt::Cut),
            d if d <= allowed && share(delayed_ns as f64) > allowed.max(resolution) => Some(Doubt::Served),
            d if d <= allowed && host_steal.is_some_and(|share| share > allowed.max(resolution)) => {
                Some(Doubt::Hypervisor)
            }
            d if d <= allowed && self.is_unseen() => Some(Doubt::Unseen),
            d if d <= allowed && most > allowed.max(resolution) + REPLAY => {
                Some(if whole.is_half_seen() { Doubt::Hasty } else { Doubt::Unbounded })
            }
            _ => None,
        };
        let verdict = match doubt {
            Some(_) => Ruling::Unclear,
            None if disturbance > allowed => Ruling::Disturbed,
            None => Ruling::Clean,
        };
        intervals.retain_mut(|interval| interval.ends_by(wall_ns));
        Verdict {
            verdict,
            doubt,
            disturbance,
            disturbance_range: loss.interval_ns(CONFIDENCE).map(share),
            spare: disturbance - share(loss.lost_ns[0]),
            stopped_anyway: share(loss.stopped_anyway_ns),
            may_have_spun: self.is_parallel && self.life.parts().spin_ns.is_none(),
            method: if loss.differs_from_sums(allowed) { Method::Replay } else { Method::Ledger },
            max_disturbance: self.max_disturbance,
            resolution,
            wall_ns,
            undisturbed_ns: (wall_ns as f64 * (1.0 - disturbance)) as u64,
            held,
            outside: self.outside_ns.map(|ns| share(ns as f64 + self.loss.known.looked_ns())),
            servers: self.servers.clone(),
            cut_short,
            corunners_ns: whole.corunners_ns as u64,
            host_steal,
            unseen_ns: whole.unseen_ns as u64,
            watcher_ns: self.watcher_ns,
            pace: Pace::of(&whole.total()),
            culprits: culprits(&whole, &self.tenants),
            intervals,
            unavailable: self.unavailable.iter().cloned().collect(),
        }
    }
}

impl Judge {
    /// Whether next to nothing of the run was seen. A command that ran has computed.
    fn is_unseen(&self) -> bool {
        let unknown_ns = self.life.parts().unknown_ns;
        self.life.on_cpu_ns() == 0 || self.life.total_ns() - unknown_ns < unknown_ns
    }
}

/// How long the subject's tasks waited for a CPU that corun itself held; `None`: nobody tells it apart.
fn taken_by_watcher(seen: &Observation, subject: TenantId) -> Option<u64> {
    let watcher = seen.tenants.iter().find(|t| t.kind == TenantKind::Watcher)?.id;
    let account = seen.by_tenant.iter().find(|t| t.id == subject).map(|t| &t.account);
    let shares = account.map_or(&[][..], |a| a.culprits.shares());
    Some(shares.iter().filter(|s| s.tenant == watcher).map(|s| s.steal_ns).sum())
}

#[cfg(test)]
mod tests {
    use super::*;
    use corun_model::culprit::Share;
    use corun_model::observation::{Account, CpuTime, TaskObservation, TenantObservation};
    use corun_model::run_log::{Event, Left, What};
    use corun_model::{Counters, CpuId, Culprits, Ledger, Parts, TaskId, Tenant};

    const MS: u64 = 1_000_000;
    const SUBJECT: TenantId = TenantId(0);
    const IDLE: CpuTime =
        CpuTime { cpu: CpuId(0), idle_ns: 100 * MS, busy_ns: 0, unknown_ns: 0, host_steal_ns: None };

    /// An account of nothing but time on a CPU.
    fn ran(ns: u64) -> Account {
        let parts = Parts { compute_ns: ns, ..Parts::default() };
        Account { ledger: Ledger::new(parts, ns).unwrap(), ..Account::default() }
    }

    /// A run of one task that took `wall_ms` and waited so many milliseconds for CPUs that others held.
    fn run(wall_ms: u64, waits_ms: &[(TenantKind, u64)]) -> Observation {
        let kinds = || [TenantKind::Command].into_iter().chain(waits_ms.iter().map(|w| w.0));
        let tenants = kinds().enumerate().map(|(n, kind)| Tenant {
            id: TenantId(n as u32),
            kind,
            key: n.to_string(),
            name: format!("{} {n}", kind.name()),
        });
        let share = |(n, w): (usize, &(TenantKind, u64))| Share {
            tenant: TenantId(n as u32 + 1),
            steal_ns: w.1 * MS,
        };
        let steal_ns = waits_ms.iter().map(|w| w.1 * MS).sum();
        let parts = Parts { compute_ns: wall_ms * MS - steal_ns, steal_ns, ..Parts::default() };
        let account = Account {
            ledger: Ledger::new(parts, wall_ms * MS).unwrap(),
            culprits: Culprits::new(waits_ms.iter().enumerate().map(share), 0, steal_ns).unwrap(),
            ..Account::default()
        };
        let task = TaskObservation {
            id: TaskId(7),
            name: "bench".into(),
            tenant: SUBJECT,
            born_ns: 0,
            alive: false,
            last_cpu: None,
            account: account.clone().into(),
        };
        let others = waits_ms.iter().enumerate().map(|(n, w)| TenantObservation {
            id: TenantId(n as u32 + 1),
            tasks: 1,
            account: ran(w.1 * MS),
        });
        Observation {
            end_ns: wall_ms * MS,
            tenants: tenants.collect(),
            tasks: vec![task],
            by_tenant: [TenantObservation { id: SUBJECT, tasks: 1, account }]
                .into_iter()
                .chain(others)
                .collect(),
            ..Observation::default()
        }
    }

    /// The same, so long after the beginning.
    fn later(at_ms: u64, seen: Observation) -> Observation {
        Observation { start_ns: at_ms * MS, end_ns: at_ms * MS + seen.end_ns, ..seen }
    }

    #[test]
    fn a_run_is_told_when_it_was_disturbed_and_a_moment_at_its_end_belongs_to_what_came_before() {
        let mut judge = Judge::new(SUBJECT, 0.02);
        judge.push(&run(200, &[]));
        judge.push(&later(200, run(200, &[(TenantKind::Command, 100)])));
        judge.push(&later(400, run(200, &[])));
        judge.push(&later(600, run(3, &[(TenantKind::Command, 1)])));
        let when: Vec<(u64, u64)> =
            judge.verdict(None).intervals.iter().map(|i| (i.start_ns / MS, i.end_ns / MS)).collect();
        assert_eq!(when, [(200, 400)]);
    }

    fn verdict(wall_ms: u64, waits_ms: &[(TenantKind, u64)]) -> Verdict {
        let mut judge = Judge::new(SUBJECT, MAX_DISTURBANCE);
        judge.push(&run(wall_ms, waits_ms));
        judge.verdict(None)
    }

    #[test]
    fn what_a_corunner_took_disturbs_and_what_the_kernel_or_corun_itself_took_does_not() {
        let found = verdict(1000, &[(TenantKind::Command, 100)]);
        assert_eq!(found.verdict, Ruling::Disturbed);
        assert!((found.disturbance - 0.1).abs() < 1e-9, "{found:?}");
        assert!(found.undisturbed_ns.abs_diff(900 * MS) <= 1, "{found:?}");
        assert_eq!((found.watcher_ns, found.culprits[0].kind.as_str()), (None, "command"));
        let found = verdict(1000, &[(TenantKind::Watcher, 60), (TenantKind::Kernel, 40)]);
        assert_eq!((found.verdict, found.disturbance, found.watcher_ns), (Ruling::Clean, 0.0, Some(60 * MS)));
        assert!(found.culprits.is_empty(), "{found:?}");
    }

    #[test]
    fn tasks_that_compute_side_by_side_may_have_spun_unless_somebody_tells() {
        for (tasks, tells, may_have_spun) in [(1, false, false), (2, false, true), (2, true, false)] {
            let mut seen = run(1000, &[(TenantKind::Command, 100)]);
            seen.tasks =
                (0..tasks).map(|n| TaskObservation { id: TaskId(n), ..seen.tasks[0].clone() }).collect();
            if tells {
                let own = &mut seen.by_tenant[0].account;
                own.ledger = own.ledger.with_spin(0);
            }
            let mut judge = Judge::new(SUBJECT, MAX_DISTURBANCE);
            judge.push(&seen);
            assert_eq!(judge.verdict(None).may_have_spun, may_have_spun, "{tasks} {tells}");
        }
    }

    #[test]
    fn the_pace_of_a_run_is_told_where_it_was_counted_and_is_no_part_of_the_verdict() {
        let mut seen = run(1000, &[]);
        let mut judge = Judge::new(SUBJECT, MAX_DISTURBANCE);
        judge.push(&seen);
        assert_eq!(judge.verdict(None).pace, None);
        let counters = Counters {
            cycles: Some(2_000_000),
            instructions: Some(1_000_000),
            llc_misses: Some(5_000),
            offcore_stall_cycles: Some(500_000),
            ..Counters::default()
        };
        seen.tasks[0].set_counters(Some(counters));
        seen.by_tenant[0].account.counters = Some(counters);
        let mut judge = Judge::new(SUBJECT, MAX_DISTURBANCE);
        judge.push(&seen);
        let found = judge.verdict(None);
        let pace = Pace { cpi: 2.0, mpki: Some(5.0), memory: Some(0.25) };
        assert_eq!((found.pace, found.verdict), (Some(pace), Ruling::Clean));
    }

    #[test]
    fn nobody_loses_more_than_corunners_had_cpus() {
        let mut seen = run(1000, &[(TenantKind::Command, 100)]);
        seen.by_tenant[1].account = ran(30 * MS);
        let mut judge = Judge::new(SUBJECT, MAX_DISTURBANCE);
        judge.push(&seen);
        let found = judge.verdict(None);
        assert!((found.disturbance - 0.03).abs() < 1e-9 && found.corunners_ns == 30 * MS, "{found:?}");
    }

    #[test]
    fn a_run_that_lost_nothing_is_not_clean_where_a_signal_ended_what_was_starved_in_it() {
        for (left, stolen_ms, is_cut) in
            [(Left::Killed, 100, true), (Left::Ended, 100, false), (Left::Killed, 15, false)]
        {
            let mut seen = run(1000, &[(TenantKind::Command, stolen_ms)]);
            // It was in the run's way for no longer than this.
            seen.by_tenant[1].account = ran(10 * MS);
            let mut judge = Judge::new(SUBJECT, MAX_DISTURBANCE);
            judge.push(&seen);
            let ends = Event { t_ns: 1000 * MS, task: TaskId(7), what: What::Leaves(left) };
            judge.push_log(&RunLog { events: vec![ends], ..RunLog::default() });
            let found = judge.verdict(None);
            assert!(found.disturbance <= MAX_DISTURBANCE, "{found:?}");
            assert_eq!(found.doubt == Some(Doubt::Cut), is_cut, "{found:?}");
            let cut = found.cut_short.map(|cut| (cut.name, cut.after_ns, (cut.taken * 1e3).round() as u64));
            let told = (Some("bench".to_owned()), 1000 * MS, stolen_ms);
            assert_eq!(cut, (left == Left::Killed).then_some(told));
        }
    }

    #[test]
    fn a_moment_is_allowed_of_a_long_run_and_cannot_be_judged_of_a_short_one() {
        assert_eq!(
            verdict(100, &[(TenantKind::Command, 3)]).verdict,
            Ruling::Unclear,
            "3 % of a tenth of a second"
        );
        assert_eq!(verdict(100, &[(TenantKind::Command, 2)]).verdict, Ruling::Clean, "what was allowed");
        assert_eq!(verdict(1000, &[(TenantKind::Command, 30)]).verdict, Ruling::Disturbed, "3 % of a second");
        assert_eq!(verdict(1000, &[(TenantKind::Command, 3)]).verdict, Ruling::Clean);
    }

    #[test]
    fn a_run_of_a_hundred_thousand_short_tasks_is_judged_without_keeping_them_apart() {
        let mut judge = Judge::new(SUBJECT, MAX_DISTURBANCE);
        for window in 0..1_000 {
            let mut seen = later(window * 100, run(100, &[(TenantKind::Command, 20)]));
            let account = seen.tasks[0].account.clone();
            let n = 100;
            let task = |i| TaskObservation { id: TaskId((window * n + i) as u32), ..seen.tasks[0].clone() };
            seen.tasks = (0..n).map(task).collect();
            seen.cpus = (0..n as u32).map(|cpu| CpuTime { cpu: CpuId(cpu), ..IDLE }).collect();
            let (own, other) = seen.by_tenant.split_first_mut().unwrap();
            (1..n).for_each(|_| own.account.add(&account));
            other[0].account = ran(n * 20 * MS);
            judge.push(&seen);
            let kept = [judge.loss.losses.whole(), &judge.loss.open].map(|w| w.tasks.len());
            assert!(kept.iter().all(|n| *n <= 10_000), "{kept:?} after window {window}");
        }
        let found = judge.verdict(None);
        assert!((found.disturbance - 0.2).abs() < 1e-6, "{found:?}");
        assert_eq!((found.verdict, found.intervals.len()), (Ruling::Disturbed, 1));
    }

    #[test]
    fn a_run_whose_server_certainly_lost_more_than_was_allowed_is_not_called_clean() {
        for (least_ms, ruling, doubt) in
            [(0, Ruling::Clean, None), (20, Ruling::Clean, None), (50, Ruling::Unclear, Some(Doubt::Served))]
        {
            let mut judge = Judge::new(SUBJECT, MAX_DISTURBANCE);
            judge.push(&run(1_000, &[]));
            judge.know_servers(Some(vec![Server {
                tenant: "database".into(),
                kind: "unit".into(),
                waited_ns: 900 * MS,
                queued_ns: [least_ms * MS, 600 * MS],
                throttled_ns: [0, 0],
                held_ns: [0, 0],
                culprits: vec![],
                unattributed_ns: 600 * MS,
            }]));
            let found = judge.verdict(None);
            assert_eq!((found.verdict, found.doubt), (ruling, doubt), "{least_ms} ms: {found:?}");
        }
    }

    #[test]
    fn no_interval_ends_after_the_run() {
        let mut judge = Judge::new(SUBJECT, MAX_DISTURBANCE);
        judge.push(&run(20, &[(TenantKind::Command, 5)]));
        let found = judge.verdict(Some(10 * MS));
        let [only] = &found.intervals[..] else { panic!("{found:?}") };
        assert_eq!((only.start_ns, only.end_ns), (0, 10 * MS));
        assert!((only.disturbance - 0.5).abs() < 1e-9 && (found.disturbance - 0.5).abs() < 1e-9, "{found:?}");
    }

    #[test]
    fn a_twentieth_is_found_in_a_run_of_any_length() {
        for wall_ms in [20, 60, 100, 180, 1000] {
            let found = verdict(wall_ms, &[(TenantKind::Command, wall_ms / 20)]);
            assert_eq!(found.verdict, Ruling::Disturbed, "{wall_ms} ms: {found:?}");
            assert!(found.resolution <= COARSEST);
        }
        assert_eq!(resolution(0), COARSEST);
    }
}
