//! Useful work: the part of a window that brought the program forward (PACT'16 §4).
//!
//! ```text
//! useful = t_total - t_steal - t_sync - t_mem
//! ```
//!
//! Method: [`Spent`] sorts a task's ledger by what would happen to each part if the task's program had the machine to itself. Steal goes
//! away if a co-runner took it. Steal by the kernel and by an idle CPU (wake-up latency) would be there alone, too, and so would steal by
//! siblings, as far as co-runners did not take the other CPUs. Waiting for siblings (spinning, a futex, a pipe) may go away, since a
//! sibling may be late only because it was stolen from. I/O, sleep and polls stay. `t_mem` is the share of cycles stalled beyond the core, of
//! the time on a CPU. Without counters it is unknown and stays inside useful work.
//!
//! The [`Yardstick`](crate::yardstick::Yardstick) is the unit of useful work. The cost of context switches is left out of it if it can be
//! inferred ([`crate::switch_cost`]).

use crate::counted::Counted;
use crate::definitions::SPINS;
use crate::reach::{placed, Reach};
use corun_model::fairness::jain;
use corun_model::observation::{Account, TaskObservation};
use corun_model::worker::is_worker;
use corun_model::{Observation, TakenBy, TaskId, TenantId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Where a task's time went, from the predictor's point of view, in nanoseconds (sums over windows, as floats).
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Spent {
    /// Lifetime, without what corun itself stopped and what nobody saw.
    pub life_ns: f64,
    /// On a CPU, not known to spin, memory stalls included.
    pub compute_ns: f64,
    /// The part of its time on a CPU in which it was stalled on memory beyond the core, in nanoseconds, as far as it was counted.
    #[serde(default)]
    pub memory: Counted,
    /// The part of its computing in the kernel, as far as it is known.
    #[serde(default)]
    pub system: Counted,
    /// Spinning.
    pub spin_ns: f64,
    /// Time on a CPU that nobody judged: it may have been spinning.
    pub unjudged_ns: f64,
    /// Blocked in a way that a sibling may end: futex, pipe, the end of a child, or an unknown reason.
    pub sibling_ns: f64,
    /// Blocked by its own wish: devices, timers, polls.
    pub own_ns: f64,
    /// The blocked time that earlier theft may have come out of: timers and polls, and all of it if the source tells no reasons.
    #[serde(default)]
    pub slack_ns: f64,
    /// Waiting for a CPU that a co-runner (or somebody unknown) held.
    pub stolen_ns: f64,
    /// Waiting for a CPU that a sibling held.
    pub queued_ns: f64,
    /// Waiting for a CPU that was idle or the kernel's, or stopped by its own quota: as it would be alone.
    pub other_ns: f64,
    /// Stopped by its own budgets: quotas.
    #[serde(default)]
    pub throttled_ns: f64,
    /// Stopped or frozen by somebody.
    #[serde(default)]
    pub held_ns: f64,
    /// The part of that in which it was frozen.
    #[serde(default)]
    pub frozen_ns: f64,
    /// Times it blocked; `None`: the source cannot tell.
    pub blockings: Option<f64>,
    /// Times it called `sched_yield`; `None`: the source cannot tell.
    #[serde(default)]
    pub yieldings: Option<f64>,
    /// Wake-ups and preemptions: how often it had to wait for a CPU; `None`: the source cannot tell.
    pub queueings: Option<f64>,
    /// Cycles, as far as they were counted.
    #[serde(default)]
    pub cycles: Counted,
    /// Instructions retired, likewise.
    #[serde(default)]
    pub instructions: Counted,
    /// Misses of the last-level cache, likewise.
    #[serde(default)]
    pub misses: Counted,
    /// Time in which nothing was stolen from it but, according to how much was stolen from each, from a sibling. It can have waited no
    /// longer for siblings because of co-runners.
    pub beside_stolen_ns: f64,
}

impl Spent {
    /// Sorts an account of the subject, given what each culprit is to it. Time taken by others than co-runners would be taken alone as well.
    /// Time taken by somebody unknown counts as stolen.
    pub fn of(account: &Account, subject: TenantId, taken_by: &dyn Fn(TenantId) -> TakenBy) -> Spent {
        let parts = account.ledger.parts();
        let on_cpu_ns = account.ledger.on_cpu_ns() as f64;
        let (mut stolen, mut queued, mut idle) = (account.culprits.unattributed_ns(), 0, 0);
        for share in account.culprits.shares() {
            match taken_by(share.tenant) {
                by if by.may_be_co_runner() => stolen += share.steal_ns,
                // The I/O threads of a virtual machine are its own, but they are not among the tasks that queue for each other here.
                TakenBy::Own if share.tenant == subject => queued += share.steal_ns,
                _ => idle += share.steal_ns,
            }
        }
        let own = account.block.map_or(0, |b| b.outside_ns());
        let count =
            |get: fn(&corun_model::Counters) -> Option<u64>| Some(get(account.counters.as_ref()?)? as f64);
        let instructions = count(|c| c.instructions);
        // Some virtual machines lose cycles while everything else is counted.
        let cycles = count(|c| c.cycles).filter(|n| instructions.unwrap_or(0.0) <= MOST_PER_CYCLE * n);
        let memory_ns = cycles.zip(count(|c| c.offcore_stall_cycles)).map(|(cycles, stalls)| {
            if cycles > 0.0 {
                (on_cpu_ns * stalls / cycles).min(on_cpu_ns)
            } else {
                0.0
            }
        });
        let events = &account.events;
        Spent {
            life_ns: (account.ledger.total_ns() - parts.parked_ns - parts.unknown_ns) as f64,
            compute_ns: parts.compute_ns as f64,
            memory: Counted::of(memory_ns, on_cpu_ns),
            system: Counted::of(account.system_ns.map(|ns| ns as f64), on_cpu_ns),
            spin_ns: parts.spin_ns.unwrap_or(0) as f64,
            unjudged_ns: if parts.spin_ns.is_none() { on_cpu_ns } else { 0.0 },
            sibling_ns: (parts.block_ns - own.min(parts.block_ns)) as f64,
            own_ns: own as f64,
            // Without a reason, any blocking may have been a sleep.
            slack_ns: account.block.map_or(parts.block_ns, |b| b.slack_ns()) as f64,
            throttled_ns: parts.throttled_ns as f64,
            held_ns: parts.held_ns() as f64,
            frozen_ns: parts.held.map_or(0, |held| held.frozen_ns) as f64,
            stolen_ns: stolen as f64,
            queued_ns: queued as f64,
            other_ns: (idle + parts.throttled_ns + parts.held_ns()) as f64,
            blockings: events.blocked.map(|n| n as f64),
            yieldings: events.yielded.map(|n| n as f64),
            queueings: events.wakeups.zip(events.preemptions).map(|(w, p)| (w + p) as f64),
            cycles: Counted::of(cycles, on_cpu_ns),
            instructions: Counted::of(instructions, on_cpu_ns),
            misses: Counted::of(count(|c| c.llc_misses), on_cpu_ns),
            beside_stolen_ns: 0.0,
        }
    }

    /// The sum of each field. If either side does not know a field, the sum does not.
    pub fn add(&mut self, o: &Spent) {
        if self.life_ns == 0.0 {
            *self = *o;
            return;
        }
        if o.life_ns == 0.0 {
            return;
        }
        let add = |a: Option<f64>, b: Option<f64>| Some(a? + b?);
        *self = Spent {
            life_ns: self.life_ns + o.life_ns,
            compute_ns: self.compute_ns + o.compute_ns,
            memory: self.memory.plus(o.memory),
            system: self.system.plus(o.system),
            spin_ns: self.spin_ns + o.spin_ns,
            unjudged_ns: self.unjudged_ns + o.unjudged_ns,
            sibling_ns: self.sibling_ns + o.sibling_ns,
            own_ns: self.own_ns + o.own_ns,
            slack_ns: self.slack_ns + o.slack_ns,
            throttled_ns: self.throttled_ns + o.throttled_ns,
            held_ns: self.held_ns + o.held_ns,
            frozen_ns: self.frozen_ns + o.frozen_ns,
            stolen_ns: self.stolen_ns + o.stolen_ns,
            queued_ns: self.queued_ns + o.queued_ns,
            other_ns: self.other_ns + o.other_ns,
            blockings: add(self.blockings, o.blockings),
            yieldings: add(self.yieldings, o.yieldings),
            queueings: add(self.queueings, o.queueings),
            cycles: self.cycles.plus(o.cycles),
            instructions: self.instructions.plus(o.instructions),
            misses: self.misses.plus(o.misses),
            beside_stolen_ns: self.beside_stolen_ns + o.beside_stolen_ns,
        };
    }

    /// Time on a CPU.
    pub fn on_cpu_ns(&self) -> f64 {
        self.compute_ns + self.spin_ns
    }

    /// Whether it spins.
    pub(crate) fn spins(&self) -> bool {
        self.spin_ns > SPINS * self.on_cpu_ns()
    }

    /// Time waiting for siblings, on a CPU or off it.
    pub fn waiting_ns(&self) -> f64 {
        self.spin_ns + self.sibling_ns
    }

    /// How often it blocked until a sibling woke it up.
    pub fn blockings_for_siblings(&self) -> f64 {
        let blocked_ns = self.sibling_ns + self.own_ns;
        let by_sibling = if blocked_ns > 0.0 { self.sibling_ns / blocked_ns } else { 0.0 };
        self.blockings.unwrap_or(0.0) * by_sibling
    }

    /// Memory stalls in all of its time on a CPU, at the rate of the counted part; 0 if none was counted.
    pub fn stalled_ns(&self) -> f64 {
        self.memory.rate().unwrap_or(0.0) * self.on_cpu_ns()
    }

    /// Time in the kernel in all of its computing, at the rate of the known part; 0 if none is known.
    pub fn system_ns(&self) -> f64 {
        (self.system.rate().unwrap_or(0.0) * self.on_cpu_ns()).min(self.compute_ns)
    }

    /// How many of these events per instruction; `None`: not both were counted in nearly all of its time on a CPU.
    pub fn per_instruction(&self, events: Counted) -> Option<f64> {
        let on_cpu_ns = self.on_cpu_ns();
        let instructions = self.instructions.whole(on_cpu_ns).filter(|n| *n > 0.0)?;
        Some(events.whole(on_cpu_ns)? / instructions)
    }

    /// Whether memory stalls were counted in nearly all of its time on a CPU, so that they can be left out of all of it.
    pub fn knows_memory(&self) -> bool {
        self.memory.whole(self.on_cpu_ns()).is_some()
    }

    /// Memory stalls in its computing, if this share of its spinning is stalled.
    pub fn stalled_computing_ns(&self, spin_stalls: f64) -> f64 {
        (self.stalled_ns() - spin_stalls * self.spin_ns).clamp(0.0, self.compute_ns)
    }
}

/// Limit: no CPU retires more instructions in a cycle. If more were counted, cycles were lost.
const MOST_PER_CYCLE: f64 = 16.0;

/// Limit: most tasks that a sum of windows keeps apart. A build that goes on for days has millions.
const MOST_TASKS: usize = 10_000;

/// A window of the subject: its tasks, sorted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Window {
    /// Start on the host's clock.
    pub start_ns: u64,
    /// End on the host's clock.
    pub end_ns: u64,
    /// Wall time that it covers. It is less than from start to end if windows with others between them were merged.
    pub wall_ns: f64,
    /// The subject's tasks.
    pub tasks: BTreeMap<TaskId, Spent>,
    /// Tasks too short-lived to be listed, together.
    pub unlisted: Spent,
    /// CPU time of tasks that nobody looked at, among that of the unlisted ([`crate::unseen`]).
    #[serde(default)]
    pub unseen_ns: f64,
    /// Time that co-runners had CPUs, summed over CPUs.
    pub corunners_ns: f64,
    /// CPUs of the machine.
    pub cpus: usize,
    /// Which of them the tasks may use.
    #[serde(default)]
    pub reach: Reach,
    /// On how many its workers were at the ends of observations, weighted with the length of each.
    #[serde(default)]
    pub placed: Counted,
    /// Steal per co-runner, displacement included; `None`: it could not be charged to anyone.
    #[serde(default, with = "by_culprit", skip_serializing_if = "BTreeMap::is_empty")]
    pub culprits: BTreeMap<Option<TenantId>, f64>,
}

/// Culprits in a file: JSON has no keys that are numbers or none, so they are pairs.
mod by_culprit {
    use corun_model::TenantId;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use std::collections::BTreeMap;

    type Culprits = BTreeMap<Option<TenantId>, f64>;

    pub fn serialize<S: Serializer>(culprits: &Culprits, to: S) -> Result<S::Ok, S::Error> {
        culprits.iter().collect::<Vec<_>>().serialize(to)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Culprits, D::Error> {
        Ok(Vec::<(Option<TenantId>, f64)>::deserialize(from)?.into_iter().collect())
    }
}

impl Window {
    /// The subject's part of an observation.
    pub fn of(seen: &Observation, subject: TenantId) -> Window {
        let taken_by = |id: TenantId| seen.taken_by(subject, id);
        let is_co_runner = |id: TenantId| seen.is_co_runner(subject, id);
        let mut window = Window {
            start_ns: seen.start_ns,
            end_ns: seen.end_ns,
            wall_ns: seen.window_ns() as f64,
            unseen_ns: seen.loss.unseen_ns as f64,
            cpus: seen.cpus.len(),
            reach: Reach::of(seen, subject),
            placed: placed(seen, subject),
            ..Window::default()
        };
        for task in seen.tasks.iter().filter(|t| t.tenant == subject) {
            let TaskObservation { id, account, .. } = task;
            window.tasks.entry(*id).or_default().add(&Spent::of(account, subject, &taken_by));
        }
        if let Some(all) = seen.by_tenant.iter().find(|t| t.id == subject) {
            window.unlisted = without(&Spent::of(&all.account, subject, &taken_by), window.tasks.values());
            let culprits = &all.account.culprits;
            for share in culprits.shares().iter().filter(|s| is_co_runner(s.tenant)) {
                *window.culprits.entry(Some(share.tenant)).or_default() += share.steal_ns as f64;
            }
            if culprits.unattributed_ns() > 0 {
                window.culprits.insert(None, culprits.unattributed_ns() as f64);
            }
        }
        let corunners: Vec<(TenantId, f64)> = seen
            .by_tenant
            .iter()
            .filter(|t| is_co_runner(t.id))
            .map(|t| (t.id, t.account.ledger.on_cpu_ns() as f64))
            .collect();
        window.corunners_ns = corunners.iter().map(|c| c.1).sum();
        let stolen_ns: f64 = window.all().map(|s| s.stolen_ns).sum();
        let is_apart = |id: TenantId| matches!(taken_by(id), TakenBy::Kernel | TakenBy::Watcher);
        let apart = seen.by_tenant.iter().filter(|t| is_apart(t.id));
        window.see_siblings(apart.map(|t| t.account.ledger.on_cpu_ns() as f64).sum());
        // Displacement is charged to co-runners in proportion to how long they had CPUs.
        let displaced_ns = window.all().map(|s| s.stolen_ns).sum::<f64>() - stolen_ns;
        for (id, ns) in corunners.into_iter().filter(|c| displaced_ns > 0.0 && c.1 > 0.0) {
            *window.culprits.entry(Some(id)).or_default() += displaced_ns * ns / window.corunners_ns;
        }
        window
    }

    /// Adds another window of the same subject. If it then has more than [`MOST_TASKS`], the half that lived for the shortest time goes to
    /// the unlisted.
    pub fn add(&mut self, o: &Window) {
        if self.wall_ns == 0.0 {
            *self = o.clone();
            return;
        }
        // Alone it would be ahead by no more than the theft so far, on all CPUs.
        let ahead_ns = match self.reach.is_tightened_by(&o.reach) {
            true => self.all().map(|s| s.stolen_ns).sum::<f64>() * self.cpus.max(1) as f64,
            false => 0.0,
        };
        self.start_ns = self.start_ns.min(o.start_ns);
        self.end_ns = self.end_ns.max(o.end_ns);
        self.wall_ns += o.wall_ns;
        o.tasks.iter().for_each(|(id, s)| self.tasks.entry(*id).or_default().add(s));
        self.unlisted.add(&o.unlisted);
        self.unseen_ns += o.unseen_ns;
        self.corunners_ns += o.corunners_ns;
        self.cpus = self.cpus.max(o.cpus);
        self.reach.add(&o.reach, ahead_ns);
        self.placed = self.placed.plus(o.placed);
        o.culprits.iter().for_each(|(id, ns)| *self.culprits.entry(*id).or_default() += ns);
        if self.tasks.len() > MOST_TASKS {
            let mut lives_ns: Vec<f64> = self.tasks.values().map(|s| s.life_ns).collect();
            let middle = lives_ns.len() / 2;
            let (_, median_ns, _) = lives_ns.select_nth_unstable_by(middle, f64::total_cmp);
            let median_ns = *median_ns;
            self.unlist_where(|spent| spent.life_ns <= median_ns);
        }
    }

    /// Counts tasks that lived for less than this share of the window among the unlisted: over a long run they are many.
    pub fn unlist(&mut self, least: f64) {
        let least_ns = least * self.wall_ns;
        self.unlist_where(|spent| spent.life_ns < least_ns);
    }

    fn unlist_where(&mut self, is_short: impl Fn(&Spent) -> bool) {
        let unlisted = &mut self.unlisted;
        self.tasks.retain(|_, spent| {
            let is_short = is_short(spent);
            if is_short {
                unlisted.add(spent);
            }
            !is_short
        });
        let tasks = &self.tasks;
        self.reach.keep_only(|task| tasks.contains_key(task));
    }

    /// The sum of windows.
    pub fn sum<'a>(windows: impl IntoIterator<Item = &'a Window>) -> Window {
        windows.into_iter().fold(Window::default(), |mut all, w| {
            all.add(w);
            all
        })
    }

    /// Every task; the unlisted together are one.
    pub fn all(&self) -> impl Iterator<Item = &Spent> {
        let unlisted = (self.unlisted.life_ns > 0.0).then_some(&self.unlisted);
        self.tasks.values().chain(unlisted)
    }

    /// The same with their numbers; the unlisted have none.
    pub(crate) fn each(&self) -> impl Iterator<Item = (Option<TaskId>, &Spent)> {
        let unlisted = (self.unlisted.life_ns > 0.0).then_some((None, &self.unlisted));
        self.tasks.iter().map(|(id, s)| (Some(*id), s)).chain(unlisted)
    }

    /// How long the busiest task computes, in nanoseconds.
    pub(crate) fn busiest_ns(&self) -> f64 {
        self.all().map(|s| s.compute_ns).fold(0.0, f64::max)
    }

    /// Its workers ([`corun_model::worker`]), according to how long they compute.
    pub(crate) fn workers(&self) -> impl Iterator<Item = &Spent> {
        let busiest_ns = self.busiest_ns();
        self.all().filter(move |s| is_worker(s.compute_ns, busiest_ns))
    }

    /// On how many tasks computing is spread, if each had as much: Jain's index times their number. 1 if one does it all; 0 if nobody
    /// computes.
    pub fn spread_on(&self) -> f64 {
        let compute: Vec<f64> = self.all().map(|s| s.compute_ns).collect();
        jain(&compute).map_or(0.0, |index| index * compute.len() as f64)
    }

    /// How long its tasks wanted CPUs, summed over them: they were on one, spinning included, or waited for one.
    pub fn wanted_ns(&self) -> f64 {
        self.all().map(|s| s.on_cpu_ns() + s.stolen_ns + s.queued_ns + s.other_ns).sum()
    }

    /// The sum over all tasks.
    pub fn total(&self) -> Spent {
        self.all().fold(Spent::default(), |mut sum, s| {
            sum.add(s);
            sum
        })
    }
}

/// Wall time that windows cover, in nanoseconds.
pub(crate) fn wall_ns(windows: &[Window]) -> f64 {
    windows.iter().map(|w| w.wall_ns).sum()
}

/// The part of `all` that is not in `listed`: the tasks that were too many or too short-lived for a line of their own.
fn without<'a>(all: &Spent, listed: impl Iterator<Item = &'a Spent>) -> Spent {
    let mut sum = Spent::default();
    listed.for_each(|s| sum.add(s));
    let less = |a: f64, b: f64| (a - b).max(0.0);
    let less_some = |a: Option<f64>, b: Option<f64>| match (a, b) {
        (Some(a), Some(b)) => Some(less(a, b)),
        (a, None) if sum.life_ns == 0.0 => a,
        _ => None,
    };
    // If some task has no line, nobody knows how long the tenant spun, and all of its time on a CPU counts as computing. That of the
    // listed tasks may be judged all the same.
    let on_cpu_ns = less(all.on_cpu_ns(), sum.on_cpu_ns());
    let is_unjudged = all.unjudged_ns > 0.0;
    let rest = Spent {
        life_ns: less(all.life_ns, sum.life_ns),
        compute_ns: if is_unjudged { on_cpu_ns } else { less(all.compute_ns, sum.compute_ns) },
        memory: all.memory.less(sum.memory),
        system: all.system.less(sum.system),
        spin_ns: if is_unjudged { 0.0 } else { less(all.spin_ns, sum.spin_ns) },
        unjudged_ns: if is_unjudged { on_cpu_ns } else { 0.0 },
        sibling_ns: less(all.sibling_ns, sum.sibling_ns),
        own_ns: less(all.own_ns, sum.own_ns),
        slack_ns: less(all.slack_ns, sum.slack_ns),
        throttled_ns: less(all.throttled_ns, sum.throttled_ns),
        held_ns: less(all.held_ns, sum.held_ns),
        frozen_ns: less(all.frozen_ns, sum.frozen_ns),
        stolen_ns: less(all.stolen_ns, sum.stolen_ns),
        queued_ns: less(all.queued_ns, sum.queued_ns),
        other_ns: less(all.other_ns, sum.other_ns),
        blockings: less_some(all.blockings, sum.blockings),
        yieldings: less_some(all.yieldings, sum.yieldings),
        queueings: less_some(all.queueings, sum.queueings),
        cycles: all.cycles.less(sum.cycles),
        instructions: all.instructions.less(sum.instructions),
        misses: all.misses.less(sum.misses),
        beside_stolen_ns: 0.0,
    };
    if rest.life_ns > 0.0 {
        rest
    } else {
        Spent::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::yardstick::Yardstick;
    use corun_model::culprit::Share;
    use corun_model::ledger::{BlockReasons, Ledger, Parts};
    use corun_model::observation::TenantObservation;
    use corun_model::{Counters, Culprits, Events, Tenant, TenantKind};

    const KERNEL: TenantId = TenantId(8);

    fn takes(id: TenantId) -> TakenBy {
        match id {
            TenantId(0) => TakenBy::Own,
            KERNEL => TakenBy::Kernel,
            _ => TakenBy::CoRunner,
        }
    }

    fn account() -> Account {
        let parts =
            Parts { compute_ns: 400, spin_ns: Some(100), block_ns: 200, steal_ns: 300, ..Parts::default() };
        let share = |tenant, steal_ns| Share { tenant, steal_ns };
        let shares = [share(TenantId(0), 50), share(TenantId(1), 200), share(KERNEL, 20)];
        Account {
            ledger: Ledger::new(parts, 1_000).unwrap(),
            block: Some(BlockReasons { futex_ns: 120, io_ns: 80, ..BlockReasons::default() }),
            events: Events { blocked: Some(4), ..Events::none() },
            counters: Some(Counters {
                cycles: Some(1_000),
                offcore_stall_cycles: Some(200),
                ..Counters::default()
            }),
            culprits: Culprits::new(shares, 30, 300).unwrap(),
            ..Account::default()
        }
    }

    #[test]
    fn a_machines_own_io_threads_take_nothing_that_it_would_have_alone() {
        let stolen_by = |io: &str| {
            let tenant = |id, kind, key: &str| Tenant { id, kind, key: key.into(), name: key.into() };
            let tenants = vec![
                tenant(TenantId(0), TenantKind::Vm, "vm:web"),
                tenant(TenantId(1), TenantKind::VmIo, io),
                tenant(KERNEL, TenantKind::Kernel, "kernel"),
            ];
            let of = |id: u32| TenantObservation { id: TenantId(id), tasks: 1, account: account() };
            let by_tenant = vec![of(0), of(1)];
            let seen = Observation { end_ns: 1_000, tenants, by_tenant, ..Observation::default() };
            let window = Window::of(&seen, TenantId(0));
            (window.unlisted.stolen_ns, window.unlisted.other_ns, window.corunners_ns)
        };
        assert_eq!(stolen_by("vm-io:db"), (230.0, 20.0, 500.0));
        assert_eq!(stolen_by("vm-io:web"), (30.0, 220.0, 0.0));
    }

    #[test]
    fn every_nanosecond_of_a_ledger_is_sorted_once() {
        let s = Spent::of(&account(), TenantId(0), &takes);
        assert_eq!(
            (s.stolen_ns, s.queued_ns, s.other_ns),
            (230.0, 50.0, 20.0),
            "unattributed counts as stolen"
        );
        assert_eq!((s.sibling_ns, s.own_ns), (120.0, 80.0));
        let sum = s.compute_ns + s.spin_ns + s.sibling_ns + s.own_ns + s.stolen_ns + s.queued_ns + s.other_ns;
        assert_eq!(sum, s.life_ns);
    }

    #[test]
    fn who_is_woken_up_for_a_device_is_not_woken_up_by_a_sibling() {
        let s = Spent::of(&account(), TenantId(0), &takes);
        assert!((s.blockings_for_siblings() - 4.0 * 120.0 / 200.0).abs() < 1e-9);
    }

    #[test]
    fn useful_work_is_compute_without_memory_stalls_and_switches() {
        let s = Spent::of(&account(), TenantId(0), &takes);
        // A fifth of 500 ns on a CPU was stalled; four blockings of 5 ns.
        assert_eq!(
            s.useful(Yardstick::Time { switch_ns: 5.0, spin_stalls: Some(0.0) }),
            400.0 - 100.0 - 20.0
        );
        assert_eq!(s.useful(Yardstick::Time { switch_ns: 5.0, spin_stalls: None }), 400.0 - 20.0);
        let half = Yardstick::Time { switch_ns: 0.0, spin_stalls: Some(0.5) };
        assert_eq!(s.useful(half), 400.0 - 50.0, "half of 100 ns of spinning was stalled, too");
        let blind = Account { counters: None, ..account() };
        let s = Spent::of(&blind, TenantId(0), &takes);
        assert!(!s.knows_memory());
        assert_eq!(s.useful(Yardstick::Time { switch_ns: 0.0, spin_stalls: Some(0.0) }), 400.0);
    }

    #[test]
    fn cycles_that_cannot_be_are_unknown_and_the_instructions_are_not() {
        let of = |cycles| {
            let counters =
                Counters { cycles: Some(cycles), instructions: Some(1_700), ..account().counters.unwrap() };
            Spent::of(&Account { counters: Some(counters), ..account() }, TenantId(0), &takes)
        };
        assert!(of(500).knows_memory() && of(500).cycles.sum == 500.0);
        for lost in [0, 30] {
            assert_eq!((of(lost).cycles, of(lost).memory), (Counted::default(), Counted::default()));
            assert_eq!(of(lost).instructions.sum, 1_700.0);
        }
    }

    #[test]
    fn a_window_that_was_not_counted_is_taken_to_stall_as_the_others_do() {
        let counted = Spent::of(&account(), TenantId(0), &takes);
        let mut all = Spent::of(&Account { counters: None, ..account() }, TenantId(0), &takes);
        (0..9).for_each(|_| all.add(&counted));
        assert!(all.knows_memory());
        assert_eq!((all.memory.sum, all.stalled_ns()), (900.0, 1_000.0));
    }
}
