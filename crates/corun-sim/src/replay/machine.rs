//! The machine that a run is replayed on: CPUs, a fair queue, a quota; nobody else.
//!
//! Computing takes the time that it took. Queueing is not replayed but made anew: who wants a CPU while there is one has it, in
//! turns of a slice where there are more tasks than CPUs, least served first. A wait ends when its waker has got as far as it had
//! when it woke the task; if it has already, there is no wait. One queue for all CPUs, so that none is idle while a task that
//! may use it waits; the kernel's balancing is not as good (some per cent where threads sleep often).

use super::script::{Cast, Ends, Ix, Op, Script};
use corun_model::run_log::CpuMask;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};

/// What a program would have alone.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Conditions {
    /// Its CPUs.
    pub cpus: CpuMask,
    /// How long it takes a task to run that is woken where a CPU sleeps, in nanoseconds.
    pub wake_up_ns: u64,
    /// It may run for so long in every so long, in nanoseconds.
    pub budget: Option<(u64, u64)>,
    /// What ends waits of which that is not known.
    pub either: Ends,
    /// What part of the time that tasks computed while a sibling wanted a CPU they spun, 0..=1: that is gone.
    pub spun: f64,
    /// Whether a CPU that has nothing to do takes over half of what a sibling has left to compute until it waits next.
    pub shares_work: bool,
}

/// Turns of tasks that want the same CPU, in nanoseconds.
const SLICE_NS: u64 = 3_000_000;
/// Who is woken takes the CPU of one that has had so much more, in nanoseconds.
const GRAIN_NS: u64 = 1_000_000;
/// Work below this is not worth sharing, in nanoseconds.
const SHARED_NS: u64 = 200_000;

/// How long a program takes under these conditions, until its last task has done its last step, in nanoseconds.
///
/// `None`: somebody waits for a step that never comes. The script contradicts itself.
pub fn run(cast: &Cast, conditions: &Conditions) -> Option<u64> {
    Machine::new(cast, *conditions).run()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Unborn,
    Ready,
    /// On its way to a CPU that sleeps.
    Waking,
    Running(usize),
    Waiting,
    Ended,
}

struct Task<'a> {
    script: &'a Script,
    state: State,
    next: usize,
    /// Left to compute of the present step.
    left_ns: u64,
    /// CPU time served, for the fair queue.
    served_ns: u64,
    cpu: Option<usize>,
    waits_for: Option<u32>,
    /// An idle CPU has taken over half of what was left of this step.
    helped: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Cpu {
    task: Option<Ix>,
    since_ns: u64,
    slice_end_ns: u64,
    version: u64,
}

/// What is to happen: when, in which order of those at once, what.
type Due = Reverse<(u64, u64, Event)>;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A step or slice on a CPU is over, if it still is of this version.
    Cpu(usize, u64),
    /// A task that was woken comes to a CPU that slept.
    Arrives(Ix),
    /// A wait is over.
    Wakes(Ix),
    Period,
    /// The quota is used up, if the running have not changed.
    Exhausted(u64),
}

struct Machine<'a> {
    conditions: Conditions,
    tasks: Vec<Task<'a>>,
    cpus: Vec<(usize, Cpu)>,
    ready: Vec<Ix>,
    due: BinaryHeap<Due>,
    order: u64,
    /// Waits that were ended before they began.
    ended: BTreeSet<(Ix, u32)>,
    woken: VecDeque<Ix>,
    now_ns: u64,
    last_ns: u64,
    quota_left_ns: u64,
    quota_at_ns: u64,
    /// How many run of whom it is planned when they will have used it up, and which plan that is.
    quota_users: u64,
    quota_version: u64,
    throttled: bool,
    first: &'a [Ix],
    /// Tasks that have begun and not ended.
    alive: usize,
    /// What may still happen, periods left out: one comes after another for ever.
    pending: usize,
    /// How many tasks besides its first a process has.
    pools: BTreeMap<u32, usize>,
}

impl<'a> Machine<'a> {
    fn new(cast: &'a Cast, conditions: Conditions) -> Machine<'a> {
        let tasks = cast.scripts.iter().map(|script| Task {
            script,
            state: State::Unborn,
            next: 0,
            left_ns: 0,
            served_ns: 0,
            cpu: None,
            waits_for: None,
            helped: false,
        });
        let mut pools = BTreeMap::new();
        for script in cast.scripts.iter().filter(|s| !s.leads) {
            *pools.entry(script.process).or_insert(0) += 1;
        }
        Machine {
            conditions,
            tasks: tasks.collect(),
            cpus: conditions.cpus.iter().map(|cpu| (cpu, Cpu::default())).collect(),
            ready: Vec::new(),
            due: BinaryHeap::new(),
            order: 0,
            ended: BTreeSet::new(),
            woken: VecDeque::new(),
            now_ns: 0,
            last_ns: 0,
            quota_left_ns: conditions.budget.map_or(0, |b| b.0),
            quota_at_ns: 0,
            quota_users: 0,
            quota_version: 0,
            throttled: false,
            first: &cast.first,
            alive: 0,
            pending: 0,
            pools,
        }
    }

    fn run(mut self) -> Option<u64> {
        if let Some((_, period_ns)) = self.conditions.budget {
            self.plan(period_ns, Event::Period);
        }
        for &ix in self.first {
            self.enqueue(ix);
        }
        self.settle();
        while self.alive > 0 {
            if self.pending == 0 && !self.throttled {
                return None;
            }
            let Reverse((at_ns, _, event)) = self.due.pop()?;
            self.pending -= usize::from(event != Event::Period);
            self.now_ns = at_ns;
            self.happens(event);
            self.settle();
        }
        Some(self.last_ns)
    }

    fn plan(&mut self, at_ns: u64, event: Event) {
        self.order += 1;
        self.pending += usize::from(event != Event::Period);
        self.due.push(Reverse((at_ns, self.order, event)));
    }

    fn happens(&mut self, event: Event) {
        match event {
            Event::Cpu(at, version) => {
                if self.cpus[at].1.version != version {
                    return;
                }
                self.charge(at);
                let Some(ix) = self.cpus[at].1.task else { return };
                if self.tasks[ix].left_ns == 0 {
                    self.advance(at);
                    self.refill(at);
                } else if self.ready.iter().any(|&other| self.may(other, at)) {
                    self.preempt(at);
                } else {
                    self.cpus[at].1.slice_end_ns = self.now_ns + SLICE_NS;
                    self.plan_cpu(at);
                }
            }
            Event::Arrives(ix) => {
                if self.tasks[ix].state == State::Waking {
                    self.enqueue(ix);
                }
            }
            Event::Wakes(ix) => self.woken.push_back(ix),
            Event::Period => {
                let Some((quota_ns, period_ns)) = self.conditions.budget else { return };
                self.account_quota();
                // How many use it counts from now on.
                (self.quota_left_ns, self.quota_users) = (quota_ns, 0);
                self.throttled = false;
                self.plan(self.now_ns + period_ns, Event::Period);
                (0..self.cpus.len()).for_each(|at| self.refill(at));
            }
            Event::Exhausted(version) => {
                if version != self.quota_version {
                    return;
                }
                self.account_quota();
                if self.quota_left_ns == 0 {
                    self.throttled = true;
                    for at in 0..self.cpus.len() {
                        if let Some(ix) = self.leave(at) {
                            self.tasks[ix].state = State::Ready;
                            self.ready.push(ix);
                        }
                    }
                }
            }
        }
    }

    /// Wakes whom the last event woke, and says when the quota will be used up.
    fn settle(&mut self) {
        while let Some(ix) = self.woken.pop_front() {
            self.wake(ix);
        }
        if self.conditions.budget.is_some() {
            self.account_quota();
            let running = self.running();
            if running == self.quota_users {
                return;
            }
            (self.quota_users, self.quota_version) = (running, self.quota_version + 1);
            if running > 0 && !self.throttled {
                let at_ns = self.now_ns + self.quota_left_ns.div_ceil(running);
                self.plan(at_ns, Event::Exhausted(self.quota_version));
            }
        }
    }

    fn running(&self) -> u64 {
        self.cpus.iter().filter(|(_, c)| c.task.is_some()).count() as u64
    }

    fn account_quota(&mut self) {
        let used_ns = (self.now_ns - self.quota_at_ns) * self.running();
        self.quota_left_ns = self.quota_left_ns.saturating_sub(used_ns);
        self.quota_at_ns = self.now_ns;
    }

    fn may(&self, ix: Ix, at: usize) -> bool {
        let may = self.tasks[ix].script.may.and(self.conditions.cpus);
        may.is_empty() || may.has(self.cpus[at].0)
    }

    fn charge(&mut self, at: usize) {
        let cpu = &mut self.cpus[at].1;
        let Some(ix) = cpu.task else { return };
        let ns = self.now_ns - cpu.since_ns;
        cpu.since_ns = self.now_ns;
        let task = &mut self.tasks[ix];
        task.left_ns = task.left_ns.saturating_sub(ns);
        task.served_ns += ns;
    }

    /// Whoever runs on a CPU does not any more; what it is then is the caller's business.
    fn leave(&mut self, at: usize) -> Option<Ix> {
        self.charge(at);
        if self.conditions.budget.is_some() {
            self.account_quota();
        }
        let cpu = &mut self.cpus[at].1;
        cpu.version += 1;
        cpu.task.take()
    }

    fn preempt(&mut self, at: usize) {
        if let Some(ix) = self.leave(at) {
            self.tasks[ix].state = State::Ready;
            self.ready.push(ix);
        }
        self.refill(at);
    }

    /// Gives a CPU that is idle to the least served of those that may run there, until one computes.
    fn refill(&mut self, at: usize) {
        while self.cpus[at].1.task.is_none() && !self.throttled {
            let candidates = self.ready.iter().enumerate().filter(|(_, &ix)| self.may(ix, at));
            let Some((place, &ix)) = candidates.min_by_key(|(_, &ix)| self.tasks[ix].served_ns) else {
                if self.conditions.shares_work {
                    self.help(at);
                }
                return;
            };
            self.ready.remove(place);
            self.account_quota();
            self.put(ix, at);
            self.advance(at);
        }
    }

    fn put(&mut self, ix: Ix, at: usize) {
        let now_ns = self.now_ns;
        let cpu = &mut self.cpus[at].1;
        (cpu.task, cpu.since_ns, cpu.slice_end_ns) = (Some(ix), now_ns, now_ns + SLICE_NS);
        cpu.version += 1;
        (self.tasks[ix].state, self.tasks[ix].cpu) = (State::Running(at), Some(at));
    }

    /// A CPU that would idle computes along with a task of several in its process: both have half of what is left of the step.
    fn help(&mut self, at: usize) {
        let best = (0..self.cpus.len())
            .filter_map(|other| {
                let cpu = &self.cpus[other].1;
                let ix = cpu.task?;
                let task = &self.tasks[ix];
                let is_pool = !task.script.leads && self.pools[&task.script.process] >= 2;
                let left_ns = task.left_ns.saturating_sub(self.now_ns - cpu.since_ns);
                (is_pool && !task.helped && self.may(ix, at) && left_ns > SHARED_NS)
                    .then_some((left_ns, other, ix))
            })
            .max();
        let Some((_, other, ix)) = best else { return };
        self.charge(other);
        // The two take the same time from now on, so that the helper needs no life of its own. That its CPU does not count as taken
        // meanwhile makes the program look a little too fast, never too slow: this is the fast end of what may be.
        let task = &mut self.tasks[ix];
        task.left_ns = task.left_ns.div_ceil(2);
        task.helped = true;
        self.plan_cpu(other);
    }

    fn plan_cpu(&mut self, at: usize) {
        let cpu = &mut self.cpus[at].1;
        let Some(ix) = cpu.task else { return };
        cpu.version += 1;
        let at_ns = (self.now_ns + self.tasks[ix].left_ns).min(cpu.slice_end_ns.max(self.now_ns));
        let event = Event::Cpu(at, cpu.version);
        self.plan(at_ns, event);
    }

    /// A task stops waiting.
    fn wake(&mut self, ix: Ix) {
        if self.tasks[ix].state == State::Unborn {
            return self.enqueue(ix);
        }
        let is_idle = |at: usize| self.cpus[at].1.task.is_none() && self.may(ix, at);
        if self.conditions.wake_up_ns > 0 && (0..self.cpus.len()).any(is_idle) {
            self.tasks[ix].state = State::Waking;
            self.plan(self.now_ns + self.conditions.wake_up_ns, Event::Arrives(ix));
        } else {
            self.enqueue(ix);
        }
    }

    /// What the task on a CPU has been served until now.
    fn served_on(&self, at: usize) -> Option<u64> {
        let cpu = &self.cpus[at].1;
        cpu.task.map(|ix| self.tasks[ix].served_ns + (self.now_ns - cpu.since_ns))
    }

    /// A task wants a CPU.
    fn enqueue(&mut self, ix: Ix) {
        self.alive += usize::from(self.tasks[ix].state == State::Unborn);
        self.tasks[ix].state = State::Ready;
        let served = (0..self.cpus.len()).filter_map(|at| self.served_on(at));
        let least_ns = served.chain(self.ready.iter().map(|&ix| self.tasks[ix].served_ns)).min();
        // Who has slept is not owed the time that it slept.
        let floor_ns = least_ns.map_or(0, |ns| ns.saturating_sub(SLICE_NS / 2));
        self.tasks[ix].served_ns = self.tasks[ix].served_ns.max(floor_ns);
        self.ready.push(ix);
        let idle = |at: &usize| self.cpus[*at].1.task.is_none() && self.may(ix, *at);
        let own = self.tasks[ix].cpu.filter(idle);
        if let Some(at) = own.or_else(|| (0..self.cpus.len()).find(idle)) {
            self.refill(at);
            return;
        }
        if self.throttled {
            return;
        }
        let most = (0..self.cpus.len())
            .filter(|&at| self.may(ix, at))
            .filter_map(|at| Some((self.served_on(at)?, at)))
            .max();
        if let Some((_, at)) = most.filter(|(ns, _)| *ns > self.tasks[ix].served_ns + GRAIN_NS) {
            self.preempt(at);
        }
    }

    /// The task on a CPU goes on, through steps that take no time, until it computes, waits or ends.
    fn advance(&mut self, at: usize) {
        loop {
            let Some(ix) = self.cpus[at].1.task else { return };
            if self.tasks[ix].left_ns > 0 {
                self.plan_cpu(at);
                return;
            }
            self.tasks[ix].helped = false;
            let script = self.tasks[ix].script;
            let Some(op) = script.ops.get(self.tasks[ix].next) else {
                self.leave(at);
                self.tasks[ix].state = State::Ended;
                self.alive -= 1;
                self.last_ns = self.last_ns.max(self.now_ns);
                return;
            };
            self.tasks[ix].next += 1;
            match op {
                Op::Compute { ns, beside_ns } => {
                    let spun_ns = (self.conditions.spun * *beside_ns as f64) as u64;
                    self.tasks[ix].left_ns = ns - spun_ns.min(*ns);
                }
                Op::Wake(other, wait) => self.ends_wait(*other, *wait),
                Op::Spawn(child) => {
                    self.tasks[*child].served_ns = self.tasks[ix].served_ns;
                    if self.tasks[*child].state == State::Unborn {
                        self.woken.push_back(*child);
                    }
                }
                Op::Wait(wait) => {
                    if self.ended.remove(&(ix, *wait)) {
                        continue;
                    }
                    self.tasks[ix].waits_for = Some(*wait);
                    self.sleeps(at, ix);
                    return;
                }
                Op::Outside(outside) => {
                    let ends =
                        if outside.ends == Ends::Either { self.conditions.either } else { outside.ends };
                    let until_ns = match ends {
                        Ends::AtItsTime => outside.until_ns,
                        _ => self.now_ns + outside.lasted_ns,
                    };
                    if until_ns <= self.now_ns {
                        continue;
                    }
                    self.plan(until_ns, Event::Wakes(ix));
                    self.sleeps(at, ix);
                    return;
                }
            }
        }
    }

    fn sleeps(&mut self, at: usize, ix: Ix) {
        self.leave(at);
        self.tasks[ix].state = State::Waiting;
        self.last_ns = self.last_ns.max(self.now_ns);
    }

    fn ends_wait(&mut self, ix: Ix, wait: u32) {
        if self.tasks[ix].waits_for == Some(wait) && self.tasks[ix].state == State::Waiting {
            self.tasks[ix].waits_for = None;
            self.woken.push_back(ix);
        } else {
            self.ended.insert((ix, wait));
        }
    }
}
