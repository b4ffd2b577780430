//! Xen's credit scheduler, as in Xen 4.0.2 (PACT'16's hypervisor): 30 ms slices, 10 ms ticks, BOOST.
//!
//! A task here is a vCPU; a group is a domain (VM) with a weight. Every 30 ms domains get the credits of all pCPUs by weight. Each gets
//! at most one pCPU's credits for each active vCPU, and the others get the rest. Running burns 100 credits per 10 ms. A vCPU with
//! credits is UNDER, one without is OVER, and UNDER runs before OVER. A vCPU that wakes up with credits is BOOSTed, a new one too. It
//! goes before both, takes the CPU from the running vCPU at once, and keeps a full slice. The next tick that finds it running ends the
//! boost. A pCPU whose next vCPU is OVER, or that has none, steals more urgent ones from its peers. A vCPU that wakes up on a busy pCPU
//! asks every idle pCPU that it may use to come and steal. At a tick the running vCPU moves to a more suitable idle pCPU
//! ([`xen_places`](super::xen_places)), and wakes up there. Source: `sched_credit.c` of Xen 4.0.2 and the documentation of its
//! parameters.
//!
//! Slices begin when a pCPU schedules. So pCPUs that run only busy vCPUs keep their phases (PACT'16 §3.4: "the asynchrony remains").
//! Here a tenant's vCPUs start at one instant, so all pCPUs have one phase, unlike any real machine after a while.
//! [`FirstSlice::Random`] gives each pCPU a first slice of random length, up to two slices, so that any phase of two competitors can
//! occur.
//!
//! While a tenant is parked no vCPU is debited, as in the dedicated mode of PACT'16 §2.3, so that the measured program does not pay for
//! it afterwards.
//!
//! Limits: no caps, no soft affinity, no power-saving placement, no rate limit (it came with Xen 4.2). Ticks of all pCPUs coincide (in
//! Xen each pCPU has its own, on multiples of 10 ms after it has idled). A task without a group is a domain of its own at the default
//! weight.

use super::xen_places::Places;
use super::{CpuIx, Effects, Moved, Pick, Resched, Scheduler, TaskIx, TaskParams, Wake};
use crate::cpu_set::CpuSet;
use crate::streams::Stream;
use corun_model::Machine;
use serde::Deserialize;
use std::collections::VecDeque;
use std::rc::Rc;

/// Length of a slice.
const SLICE_NS: u64 = 30_000_000;
const TICK_NS: u64 = 10_000_000;
const TICKS_PER_ACCOUNT: u64 = 3;
/// Credits that running for one tick burns.
const PER_TICK: i64 = 100;
const PER_SLICE: i64 = PER_TICK * TICKS_PER_ACCOUNT as i64;

/// The length of a pCPU's first slice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FirstSlice {
    /// As any other slice, like Xen.
    #[default]
    Whole,
    /// Random, up to two slices: pCPUs are out of phase.
    Random,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Priority {
    Over,
    Under,
    Boost,
}

#[derive(Clone, Debug)]
struct Vcpu {
    domain: usize,
    affinity: Option<Rc<CpuSet>>,
    slice_ns: Option<(u64, u64)>,
    credit: i64,
    /// Run time that does not make a whole credit yet.
    unburnt_ns: u64,
    priority: Priority,
    /// It takes part in the sharing of credits.
    active: bool,
    cpu: CpuIx,
    queued: bool,
}

#[derive(Clone, Debug, Default)]
struct Pcpu {
    curr: Option<TaskIx>,
    since_ns: u64,
    /// The running vCPU goes to another pCPU when this one schedules.
    sends: bool,
    /// Waiting vCPUs: BOOST, then UNDER, then OVER; within each the first come first.
    queue: VecDeque<TaskIx>,
    /// The queue's order may be stale: credits were shared since it was sorted.
    unsorted: bool,
}

/// Xen's credit scheduler.
#[derive(Debug)]
pub struct XenCredit {
    vcpus: Vec<Vcpu>,
    pcpus: Vec<Pcpu>,
    weights: Vec<u64>,
    idle: CpuSet,
    waiting: CpuSet,
    /// pCPUs whose queue begins with a vCPU that is not OVER, which is worth stealing for one that is.
    urgent: CpuSet,
    ticks: u64,
    draws: Stream,
    /// pCPUs that have not had their first slice, if it has a random length.
    first: CpuSet,
    places: Places,
    /// Running costs credits.
    debits: bool,
    /// Credits of all active vCPUs after they were last shared out.
    balance: i64,
}

impl XenCredit {
    /// The scheduler of a machine; `slices` draws slices that are given as a range.
    pub fn new(machine: &Machine, first: FirstSlice, slices: Stream) -> XenCredit {
        let n = machine.cpu_count();
        XenCredit {
            vcpus: Vec::new(),
            pcpus: vec![Pcpu::default(); n],
            weights: Vec::new(),
            idle: CpuSet::full(n),
            waiting: CpuSet::empty(n),
            urgent: CpuSet::empty(n),
            ticks: 0,
            draws: slices,
            first: if first == FirstSlice::Random { CpuSet::full(n) } else { CpuSet::empty(n) },
            places: Places::new(machine),
            debits: true,
            balance: 0,
        }
    }

    fn allowed(&self, task: TaskIx, cpu: CpuIx) -> bool {
        self.vcpus[task].affinity.as_ref().is_none_or(|set| set.contains(cpu))
    }

    /// The running vCPU pays for its time since it was last asked to.
    fn burn(&mut self, now_ns: u64, cpu: CpuIx) {
        let pcpu = &mut self.pcpus[cpu];
        let Some(task) = pcpu.curr else { return };
        if !self.debits {
            pcpu.since_ns = now_ns;
            return;
        }
        let v = &mut self.vcpus[task];
        let per_credit_ns = TICK_NS / PER_TICK as u64;
        let ns = now_ns - pcpu.since_ns + v.unburnt_ns;
        v.credit -= (ns / per_credit_ns) as i64;
        v.unburnt_ns = ns % per_credit_ns;
        pcpu.since_ns = now_ns;
    }

    fn insert(&mut self, cpu: CpuIx, task: TaskIx) {
        let priority = self.vcpus[task].priority;
        let queue = &mut self.pcpus[cpu].queue;
        let at = queue.iter().position(|&t| self.vcpus[t].priority < priority).unwrap_or(queue.len());
        queue.insert(at, task);
        self.vcpus[task].queued = true;
        self.vcpus[task].cpu = cpu;
        self.mark(cpu);
    }

    /// Updates the data for peers after a change of a pCPU's queue.
    fn mark(&mut self, cpu: CpuIx) {
        let first = self.pcpus[cpu].queue.front().map(|&t| self.vcpus[t].priority);
        self.waiting.put(cpu, first.is_some());
        self.urgent.put(cpu, first.is_some_and(|p| p > Priority::Over));
    }

    fn extract(&mut self, cpu: CpuIx, at: usize) -> TaskIx {
        let task = self.pcpus[cpu].queue.remove(at).expect("a place in the queue");
        self.vcpus[task].queued = false;
        self.mark(cpu);
        task
    }

    /// Tells `cpu` and every idle peer that there is work (`__runq_tickle`).
    fn tickle(&self, cpu: CpuIx, task: TaskIx, fx: &mut Effects) {
        let Some(curr) = self.pcpus[cpu].curr else {
            fx.resched.push(Resched { cpu, by: None });
            return;
        };
        if self.vcpus[task].priority > self.vcpus[curr].priority {
            fx.resched.push(Resched { cpu, by: Some(task) });
        }
        // If a vCPU keeps waiting in any case, idle peers may come and steal.
        let idle = |cpu| Resched { cpu, by: None };
        match &self.vcpus[task].affinity {
            None => fx.resched.extend(self.idle.iter().map(idle)),
            Some(set) => fx.resched.extend(self.idle.iter_common(set).map(idle)),
        }
    }

    /// Where a vCPU that becomes runnable goes: to its old pCPU if it may run there, else to the best allowed
    /// one.
    fn choose_cpu(&mut self, task: TaskIx) -> CpuIx {
        let home = self.vcpus[task].cpu;
        if self.allowed(task, home) {
            return home;
        }
        let set = self.vcpus[task].affinity.as_deref().expect("only an affinity forbids a CPU");
        let from = set.next_cyclic(home).unwrap_or(home);
        self.places.best(from, Some(set), &self.idle, true)
    }

    /// Puts the vCPU that ran on `cpu` where it goes from there, as if it woke up there.
    fn send(&mut self, cpu: CpuIx, task: TaskIx, fx: &mut Effects) {
        let to = self.places.best(cpu, self.vcpus[task].affinity.as_deref(), &self.idle, true);
        let v = &mut self.vcpus[task];
        if v.priority == Priority::Under {
            v.priority = Priority::Boost;
        }
        self.insert(to, task);
        if to != cpu {
            fx.expelled = Some(Moved { task, to });
            fx.resched.push(Resched { cpu: to, by: None });
        }
    }

    /// Shares credits out: every 30 ms (`csched_acct`).
    fn account(&mut self) {
        let mut active = vec![0i64; self.weights.len()];
        self.vcpus.iter().filter(|v| v.active).for_each(|v| active[v.domain] += 1);
        let weight = |domain: usize| self.weights[domain] as i64;
        let total: i64 = (0..active.len()).filter(|&d| active[d] > 0).map(weight).sum();
        if total == 0 {
            return;
        }
        let part = |of: i64, weight: i64, all: i64| (of * weight + all - 1) / all;
        let (mut pool, mut left) = (PER_SLICE * self.pcpus.len() as i64, total);
        let mut each = vec![0i64; active.len()];
        for domain in (0..active.len()).filter(|&d| active[d] > 0) {
            left -= weight(domain);
            let owed = part(-self.balance.min(0), weight(domain), total);
            let most = active[domain] * PER_SLICE + owed;
            let fair = part(pool, weight(domain), total);
            if fair > most && left > 0 {
                // The others may have the part that this one cannot use.
                pool += part(fair - most, total, left);
            }
            each[domain] = part(fair.min(most), 1, active[domain]);
        }
        self.balance = 0;
        for v in self.vcpus.iter_mut().filter(|v| v.active) {
            v.credit += each[v.domain];
            if v.credit < 0 {
                v.priority = Priority::Over;
                v.credit = v.credit.max(-PER_SLICE);
            } else {
                v.priority = Priority::Under;
                if v.credit > PER_SLICE {
                    v.active = false;
                    v.credit = 0;
                }
            }
            self.balance += v.credit;
        }
        for cpu in 0..self.pcpus.len() {
            self.pcpus[cpu].unsorted = true;
            self.mark(cpu);
        }
    }

    fn sort(&mut self, cpu: CpuIx) {
        if std::mem::take(&mut self.pcpus[cpu].unsorted) {
            let vcpus = &self.vcpus;
            let queue = self.pcpus[cpu].queue.make_contiguous();
            queue.sort_by_key(|&t| std::cmp::Reverse(vcpus[t].priority));
            self.mark(cpu);
        }
    }

    /// Takes a vCPU from a peer's queue. A pCPU whose next vCPU is OVER takes one that is not. A pCPU without
    /// any takes any.
    fn steal(&mut self, cpu: CpuIx, than: Option<Priority>) -> Option<TaskIx> {
        let peers = if than.is_some() { &self.urgent } else { &self.waiting };
        let mut from = cpu + 1;
        for _ in 0..2 {
            while let Some(peer) = peers.next(from) {
                from = peer + 1;
                if peer == cpu || self.pcpus[peer].curr.is_none() {
                    continue;
                }
                let queue = &self.pcpus[peer].queue;
                let better = |t: TaskIx| than.is_none_or(|p| self.vcpus[t].priority > p);
                let at = queue.iter().take_while(|&&t| better(t)).position(|&t| self.allowed(t, cpu));
                if let Some(at) = at {
                    return Some(self.extract(peer, at));
                }
            }
            from = 0;
        }
        None
    }
}

impl Scheduler for XenCredit {
    fn name(&self) -> &'static str {
        "xen-credit"
    }

    fn add_task(&mut self, params: &TaskParams) {
        let domain = params.group.unwrap_or_else(|| {
            self.weights.push(256);
            self.weights.len() - 1
        });
        self.vcpus.push(Vcpu {
            domain,
            affinity: params.affinity.clone(),
            slice_ns: params.slice_ns,
            credit: 0,
            unburnt_ns: 0,
            priority: Priority::Under,
            active: false,
            cpu: 0,
            queued: false,
        });
    }

    fn add_group(&mut self, weight: u32) {
        // Xen's default weight is 256 where cgroups say 100.
        self.weights.push(u64::from(weight) * 256 / 100);
    }

    fn wake(&mut self, now_ns: u64, task: TaskIx, how: Wake, fx: &mut Effects) -> CpuIx {
        let _ = now_ns;
        if how == Wake::Fresh {
            // A new vCPU starts on the emptiest pCPU it may use.
            let load = |c: CpuIx| self.pcpus[c].queue.len() + usize::from(self.pcpus[c].curr.is_some());
            let usable = (0..self.pcpus.len()).filter(|&c| self.allowed(task, c));
            self.vcpus[task].cpu = usable.min_by_key(|&c| (load(c), c)).unwrap_or(0);
        }
        if self.vcpus[task].priority == Priority::Under && how != Wake::Return {
            self.vcpus[task].priority = Priority::Boost;
        }
        let cpu = self.choose_cpu(task);
        self.insert(cpu, task);
        self.tickle(cpu, task, fx);
        cpu
    }

    fn block(&mut self, now_ns: u64, cpu: CpuIx, _: bool) {
        self.burn(now_ns, cpu);
        (self.pcpus[cpu].curr, self.pcpus[cpu].sends) = (None, false);
    }

    fn remove(&mut self, now_ns: u64, task: TaskIx) {
        let _ = now_ns;
        let cpu = self.vcpus[task].cpu;
        let at = self.pcpus[cpu].queue.iter().position(|&t| t == task).expect("a waiting vCPU is queued");
        self.extract(cpu, at);
    }

    fn pick(&mut self, now_ns: u64, cpu: CpuIx, fx: &mut Effects) -> Pick {
        self.burn(now_ns, cpu);
        let sends = std::mem::take(&mut self.pcpus[cpu].sends);
        match self.pcpus[cpu].curr.take() {
            Some(prev) if sends => self.send(cpu, prev, fx),
            Some(prev) => self.insert(cpu, prev),
            None => {}
        }
        self.sort(cpu);
        let local = self.pcpus[cpu].queue.front().map(|&t| self.vcpus[t].priority);
        let stolen = match local {
            Some(Priority::Under | Priority::Boost) => None,
            worse => self.steal(cpu, worse),
        };
        let task = match (stolen, local) {
            (Some(task), _) => {
                fx.moved.push(Moved { task, to: cpu });
                Some(task)
            }
            (None, Some(_)) => Some(self.extract(cpu, 0)),
            (None, None) => None,
        };
        self.pcpus[cpu].curr = task;
        self.pcpus[cpu].since_ns = now_ns;
        let Some(task) = task else {
            self.idle.insert(cpu);
            return Pick::default();
        };
        self.idle.remove(cpu);
        self.vcpus[task].cpu = cpu;
        let slice = match self.vcpus[task].slice_ns {
            None if self.first.contains(cpu) => {
                self.first.remove(cpu);
                self.draws.between(1, 2 * SLICE_NS)
            }
            None => SLICE_NS,
            own => {
                corun_decisions::slice_ns(own, SLICE_NS, self.draws.between(0, u64::from(u32::MAX)) as u32)
            }
        };
        Pick { task: Some(task), until_ns: Some(now_ns + slice) }
    }

    fn tick(&mut self, now_ns: u64, cpu: CpuIx, fx: &mut Effects) {
        self.burn(now_ns, cpu);
        let Some(task) = self.pcpus[cpu].curr else { return };
        let v = &mut self.vcpus[task];
        if v.priority == Priority::Boost {
            v.priority = Priority::Under;
        }
        if !v.active {
            v.active = true;
        } else if self.places.best(cpu, v.affinity.as_deref(), &self.idle, false) != cpu {
            self.pcpus[cpu].sends = true;
            fx.resched.push(Resched { cpu, by: None });
        }
        self.sort(cpu);
    }

    fn master_tick(&mut self, _: u64, _: &mut Effects) {
        self.ticks += 1;
        if self.ticks.is_multiple_of(TICKS_PER_ACCOUNT) {
            self.account();
        }
    }

    fn tick_ns(&self) -> u64 {
        TICK_NS
    }

    fn set_slice(&mut self, task: TaskIx, bounds_ns: Option<(u64, u64)>) {
        self.vcpus[task].slice_ns = bounds_ns;
    }

    fn set_affinity(&mut self, task: TaskIx, affinity: Option<Rc<CpuSet>>) {
        self.vcpus[task].affinity = affinity;
    }

    fn set_debiting(&mut self, now_ns: u64, debits: bool) {
        (0..self.pcpus.len()).for_each(|cpu| self.burn(now_ns, cpu));
        self.debits = debits;
    }

    fn set_weight(&mut self, _: u64, group: usize, weight: u32) {
        self.weights[group] = u64::from(weight) * 256 / 100;
    }

    fn queued_on(&self, task: TaskIx) -> Option<CpuIx> {
        let v = &self.vcpus[task];
        (v.queued || self.pcpus[v.cpu].curr == Some(task)).then_some(v.cpu)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::streams::Streams;

    /// A machine of four pCPUs, and as many vCPUs of one domain, none of which runs yet.
    fn four() -> XenCredit {
        let slices = Streams::new(1).stream("slices");
        let mut xen = XenCredit::new(&Machine::synthetic(1, 1, 4, 1), FirstSlice::Whole, slices);
        xen.add_group(100);
        for _ in 0..4 {
            let affinity = Some(Rc::new(CpuSet::of(4, [0])));
            xen.add_task(&TaskParams {
                group: Some(0),
                weight: 1024,
                batch: false,
                slice_ns: None,
                affinity,
            });
        }
        xen
    }

    /// Wakes a vCPU and lets its pCPU schedule. Returns the vCPU that runs there then.
    fn started(xen: &mut XenCredit, now_ns: u64, task: TaskIx) -> Option<TaskIx> {
        let mut fx = Effects::default();
        let cpu = xen.wake(now_ns, task, Wake::Fresh, &mut fx);
        xen.pick(now_ns, cpu, &mut fx).task
    }

    #[test]
    fn a_vcpu_that_wakes_on_a_busy_pcpu_asks_every_idle_pcpu_that_it_may_use() {
        let mut xen = four();
        assert_eq!(started(&mut xen, 0, 0), Some(0));
        let asked = |xen: &mut XenCredit, task, set: Option<CpuSet>| {
            xen.set_affinity(task, set.map(Rc::new));
            let mut fx = Effects::default();
            assert_eq!(xen.wake(1_000, task, Wake::From(0), &mut fx), 0, "it was there");
            fx.resched.iter().filter(|r| r.by.is_none()).map(|r| r.cpu).collect::<Vec<_>>()
        };
        assert_eq!(asked(&mut xen, 1, None), [1, 2, 3]);
        assert_eq!(asked(&mut xen, 2, Some(CpuSet::of(4, [0, 3]))), [3]);
        let mut fx = Effects::default();
        assert_eq!(xen.pick(2_000, 2, &mut fx).task, Some(1), "an idle one that comes takes him");
        assert_eq!(fx.moved, [Moved { task: 1, to: 2 }]);
    }

    #[test]
    fn no_vcpu_is_debited_during_a_measurement() {
        let mut xen = four();
        started(&mut xen, 0, 0);
        let mut fx = Effects::default();
        xen.tick(TICK_NS, 0, &mut fx);
        assert_eq!(xen.vcpus[0].credit, -PER_TICK);
        xen.set_debiting(2 * TICK_NS, false);
        assert_eq!(xen.vcpus[0].credit, -2 * PER_TICK, "what ran before is paid for");
        xen.tick(5 * TICK_NS, 0, &mut fx);
        xen.set_debiting(6 * TICK_NS, true);
        assert_eq!(xen.vcpus[0].credit, -2 * PER_TICK);
        xen.tick(7 * TICK_NS, 0, &mut fx);
        assert_eq!(xen.vcpus[0].credit, -3 * PER_TICK);
    }
}
