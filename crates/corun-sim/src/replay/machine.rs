//! The machine that a run is replayed on: CPUs, a fair queue, a quota; nobody else.
//!
//! Computing takes the time that it took. Queueing is not replayed but made anew: who wants a CPU while there is one has it, in
//! turns of a slice where there are more tasks than CPUs, least served first. A wait ends when its waker has got as far as it had
//! when it woke the task; if it has already, there is no wait. One queue for all CPUs, so that none is idle while a task that
//! may use it waits; the kernel's balancing is not as good (some per cent where threads sleep often).

mod helping;

use super::conditions::Conditions;
use super::script::{
    budgets_of, most_events, Budget, By, Ends, Ix, Limit, Op, Outside, Script, ScriptedProgram,
};
use super::NoReplay;
use corun_model::run_log::CpuMask;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};

/// Turns of tasks that want the same CPU, in nanoseconds.
const SLICE_NS: u64 = 3_000_000;
/// Who is woken takes the CPU of one that has had so much more, in nanoseconds.
const GRAIN_NS: u64 = 1_000_000;

/// How long a program takes under these conditions, until its last task has done its last step, in nanoseconds.
///
/// # Errors
/// [`NoReplay::Contradiction`]: somebody waits for a step that never comes. [`NoReplay::Endless`].
pub fn run(program: &ScriptedProgram, conditions: &Conditions) -> Result<u64, NoReplay> {
    Machine::new(program, *conditions).run()
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
    may: CpuMask,
    /// Which of the budgets it has.
    budgets: Vec<usize>,
    waits_for: Option<u32>,
    /// An idle CPU has taken over half of what was left of this step.
    helped: bool,
    /// It has ended with another: what it still does takes no time, and is done for those who wait for it.
    is_over: bool,
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
    /// A budget is filled up.
    Period(usize),
    /// A budget is used up, if the running have not changed.
    Exhausted(usize, u64),
    /// A CPU comes or goes, by its number.
    Switches(usize, bool),
    /// A task has another limit, which its script tells at this place.
    Limits(Ix, usize),
}

/// A budget, and who uses it.
#[derive(Clone, Copy, Debug)]
struct Pool {
    budget: Budget,
    left_ns: u64,
    at_ns: u64,
    /// How many run of whom it is planned when they will have used it up, and which plan that is.
    users: u64,
    version: u64,
    throttled: bool,
}

/// Where these budgets are among all that there are.
fn places(all: &[Pool], budgets: &[Budget]) -> Vec<usize> {
    budgets.iter().filter_map(|budget| all.iter().position(|pool| pool.budget == *budget)).collect()
}

struct Machine<'a> {
    conditions: Conditions,
    tasks: Vec<Task<'a>>,
    /// Every CPU that there ever is, and those that are switched on.
    cpus: Vec<(usize, Cpu)>,
    online: CpuMask,
    ready: Vec<Ix>,
    due: BinaryHeap<Due>,
    order: u64,
    /// Waits that were ended before they began.
    ended: BTreeSet<(Ix, u32)>,
    woken: VecDeque<Ix>,
    now_ns: u64,
    last_ns: u64,
    budgets: Vec<Pool>,
    program: &'a ScriptedProgram,
    /// Tasks that have begun and not ended.
    alive: usize,
    /// What may still happen, periods left out: one comes after another for ever.
    pending: usize,
    /// The tasks besides its first that a process has.
    crews: BTreeMap<u32, Vec<Ix>>,
}

impl<'a> Machine<'a> {
    fn new(program: &'a ScriptedProgram, conditions: Conditions) -> Machine<'a> {
        let mut budgets: Vec<Pool> = Vec::new();
        for budget in budgets_of(program) {
            if budgets.iter().all(|p| p.budget != budget) {
                let left_ns = budget.quota_ns;
                budgets.push(Pool { budget, left_ns, at_ns: 0, users: 0, version: 0, throttled: false });
            }
        }
        let tasks = program.scripts.iter().map(|script| Task {
            script,
            state: State::Unborn,
            next: 0,
            left_ns: 0,
            served_ns: 0,
            cpu: None,
            may: script.may,
            budgets: places(&budgets, &script.budgets),
            waits_for: None,
            helped: false,
            is_over: false,
        });
        let mut crews: BTreeMap<u32, Vec<Ix>> = BTreeMap::new();
        for (ix, script) in program.scripts.iter().enumerate().filter(|(_, s)| !s.leads) {
            crews.entry(script.process).or_default().push(ix);
        }
        let ever = program.switched.iter().fold(program.cpus, |cpus, s| cpus.with(s.cpu));
        Machine {
            conditions,
            tasks: tasks.collect(),
            cpus: ever.iter().map(|cpu| (cpu, Cpu::default())).collect(),
            online: program.cpus,
            ready: Vec::new(),
            due: BinaryHeap::new(),
            order: 0,
            ended: BTreeSet::new(),
            woken: VecDeque::new(),
            now_ns: 0,
            last_ns: 0,
            budgets,
            program,
            alive: 0,
            pending: 0,
            crews,
        }
    }

    fn run(mut self) -> Result<u64, NoReplay> {
        let most = most_events(self.program);
        for at in 0..self.budgets.len() {
            let first_ns = self.budgets[at].budget.filled_after_ns(self.program.begin_ns);
            self.plan(first_ns, Event::Period(at));
        }
        for s in &self.program.switched {
            self.plan(self.conditions.switches.when_ns(s), Event::Switches(s.cpu, s.is_on));
        }
        for (ix, script) in self.program.scripts.iter().enumerate() {
            for (place, op) in script.ops.iter().enumerate() {
                match op {
                    Op::Limit(change) if self.conditions.maker(change) == By::Others => {
                        self.plan(change.at_ns, Event::Limits(ix, place));
                    }
                    _ => {}
                }
            }
        }
        for &ix in &self.program.first {
            self.enqueue(ix);
        }
        self.settle();
        while self.alive > 0 {
            if self.pending == 0 && !self.budgets.iter().any(|p| p.throttled) {
                return Err(NoReplay::Contradiction);
            }
            if self.order > most {
                return Err(NoReplay::Endless);
            }
            let Some(Reverse((at_ns, _, event))) = self.due.pop() else {
                return Err(NoReplay::Contradiction);
            };
            self.pending -= usize::from(!matches!(event, Event::Period(_)));
            self.now_ns = at_ns;
            self.happens(event);
            self.settle();
        }
        Ok(self.last_ns)
    }

    fn plan(&mut self, at_ns: u64, event: Event) {
        self.order += 1;
        self.pending += usize::from(!matches!(event, Event::Period(_)));
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
                } else if self.ready.iter().any(|&other| self.can(other, at)) {
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
            Event::Period(of) => {
                self.account_budgets();
                let pool = &mut self.budgets[of];
                // How many use it counts from now on.
                (pool.left_ns, pool.users, pool.throttled) = (pool.budget.quota_ns, 0, false);
                let next_ns = self.now_ns + pool.budget.period_ns.max(1);
                self.plan(next_ns, Event::Period(of));
                self.refill_all();
            }
            Event::Exhausted(of, version) => {
                if version != self.budgets[of].version {
                    return;
                }
                self.account_budgets();
                if self.budgets[of].left_ns == 0 {
                    self.budgets[of].throttled = true;
                    for at in 0..self.cpus.len() {
                        if self.cpus[at].1.task.is_some_and(|ix| self.tasks[ix].budgets.contains(&of)) {
                            self.preempt(at);
                        }
                    }
                }
            }
            Event::Switches(cpu, is_on) => {
                self.online = if is_on { self.online.with(cpu) } else { self.online.without(cpu) };
                self.evict();
            }
            Event::Limits(ix, place) => {
                let script = self.tasks[ix].script;
                if let Op::Limit(change) = &script.ops[place] {
                    self.limit(ix, &change.limit);
                    self.evict();
                }
            }
        }
    }

    /// Wakes whom the last event woke, and says when budgets will be used up.
    fn settle(&mut self) {
        while let Some(ix) = self.woken.pop_front() {
            self.wake(ix);
        }
        self.account_budgets();
        for of in 0..self.budgets.len() {
            let running = self.running(of);
            let pool = &mut self.budgets[of];
            if running == pool.users {
                continue;
            }
            (pool.users, pool.version) = (running, pool.version + 1);
            if running > 0 && !pool.throttled {
                let at_ns = self.now_ns + pool.left_ns.div_ceil(running);
                let event = Event::Exhausted(of, pool.version);
                self.plan(at_ns, event);
            }
        }
    }

    /// How many run that have this budget.
    fn running(&self, of: usize) -> u64 {
        let has = |ix: Ix| self.tasks[ix].budgets.contains(&of);
        self.cpus.iter().filter(|(_, c)| c.task.is_some_and(has)).count() as u64
    }

    fn account_budgets(&mut self) {
        for of in 0..self.budgets.len() {
            let used_ns = (self.now_ns - self.budgets[of].at_ns) * self.running(of);
            let pool = &mut self.budgets[of];
            pool.left_ns = pool.left_ns.saturating_sub(used_ns);
            pool.at_ns = self.now_ns;
        }
    }

    /// A task has another limit. Whoever has a CPU that he may not have any more is the caller's business.
    fn limit(&mut self, ix: Ix, limit: &Limit) {
        match limit {
            Limit::May(may) => self.tasks[ix].may = *may,
            Limit::Budgets(budgets) => {
                self.account_budgets();
                self.tasks[ix].budgets = places(&self.budgets, budgets);
            }
        }
    }

    /// Whoever has a CPU that he may not have any more leaves it; then CPUs that are idle are given to who may have them.
    fn evict(&mut self) {
        for at in 0..self.cpus.len() {
            if self.cpus[at].1.task.is_some_and(|ix| !self.can(ix, at)) {
                self.preempt(at);
            }
        }
        self.refill_all();
    }

    fn refill_all(&mut self) {
        (0..self.cpus.len()).for_each(|at| self.refill(at));
    }

    /// Whether a task may be on this CPU: one that is switched on; of those that it may use, if there is one.
    fn may(&self, ix: Ix, at: usize) -> bool {
        let cpu = self.cpus[at].0;
        let may = self.tasks[ix].may.and(self.online);
        self.online.has(cpu) && (may.is_empty() || may.has(cpu))
    }

    fn is_throttled(&self, ix: Ix) -> bool {
        self.tasks[ix].budgets.iter().any(|of| self.budgets[*of].throttled)
    }

    /// Whether a task may be on this CPU now.
    fn can(&self, ix: Ix, at: usize) -> bool {
        self.may(ix, at) && !self.is_throttled(ix)
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
        self.account_budgets();
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
        self.refill_idle();
    }

    /// Whoever waits where it may not run goes to a CPU that is idle: limits may have changed since it began to wait.
    fn refill_idle(&mut self) {
        for at in 0..self.cpus.len() {
            if self.cpus[at].1.task.is_none() && self.ready.iter().any(|&ix| self.can(ix, at)) {
                self.refill(at);
            }
        }
    }

    /// Gives a CPU that is idle to the least served of those that may run there, until one computes.
    fn refill(&mut self, at: usize) {
        while self.cpus[at].1.task.is_none() {
            let candidates = self.ready.iter().enumerate().filter(|(_, &ix)| self.can(ix, at));
            let Some((place, &ix)) = candidates.min_by_key(|(_, &ix)| self.tasks[ix].served_ns) else {
                if self.conditions.shares_work && self.online.has(self.cpus[at].0) {
                    self.help(at);
                }
                return;
            };
            self.ready.remove(place);
            self.account_budgets();
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
        let task = &self.tasks[ix];
        self.alive += usize::from(task.state == State::Unborn && task.script.ends_with.is_none());
        self.tasks[ix].state = State::Ready;
        let served = (0..self.cpus.len()).filter_map(|at| self.served_on(at));
        let least_ns = served.chain(self.ready.iter().map(|&ix| self.tasks[ix].served_ns)).min();
        // Who has slept is not owed the time that it slept.
        let floor_ns = least_ns.map_or(0, |ns| ns.saturating_sub(SLICE_NS / 2));
        self.tasks[ix].served_ns = self.tasks[ix].served_ns.max(floor_ns);
        self.ready.push(ix);
        if self.is_throttled(ix) {
            return;
        }
        let idle = |at: &usize| self.cpus[*at].1.task.is_none() && self.may(ix, *at);
        let own = self.tasks[ix].cpu.filter(idle);
        if let Some(at) = own.or_else(|| (0..self.cpus.len()).find(idle)) {
            self.refill(at);
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
                if self.can(ix, at) {
                    self.plan_cpu(at);
                } else {
                    self.leave(at);
                    self.enqueue(ix);
                }
                return;
            }
            self.tasks[ix].helped = false;
            let script = self.tasks[ix].script;
            let Some(op) = script.ops.get(self.tasks[ix].next) else {
                self.leave(at);
                self.ends(ix);
                return;
            };
            self.tasks[ix].next += 1;
            match op {
                Op::Compute { .. } | Op::Outside(_) if self.tasks[ix].is_over => {}
                Op::Outside(Outside { may_look: Some(likely), .. }) if self.conditions.looks(*likely) => {}
                Op::Looks(_, likely) if !self.conditions.looks(*likely) => {}
                Op::Compute { ns, beside_ns, .. } => {
                    self.tasks[ix].left_ns = ns - script.spun_in(*ns, *beside_ns, self.conditions.spun);
                    if self.conditions.shares_work && self.has_helper(ix) {
                        self.shares(ix);
                    }
                }
                Op::Limit(change) => {
                    if self.conditions.maker(change) == By::Itself {
                        self.limit(ix, &change.limit);
                    }
                }
                Op::Wake(other, wait) | Op::Passes(other, wait) => self.ends_wait(*other, *wait),
                Op::Spawn(child) => {
                    self.tasks[*child].served_ns = self.tasks[ix].served_ns;
                    if self.tasks[*child].state == State::Unborn {
                        self.woken.push_back(*child);
                    }
                }
                Op::Wait(wait) | Op::Looks(wait, _) => {
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
        self.has_got_so_far(ix);
    }

    fn ends(&mut self, ix: Ix) {
        self.tasks[ix].state = State::Ended;
        self.alive -= usize::from(self.tasks[ix].script.ends_with.is_none());
        self.has_got_so_far(ix);
        self.tasks.iter_mut().filter(|t| t.script.ends_with == Some(ix)).for_each(|t| t.is_over = true);
    }

    fn has_got_so_far(&mut self, ix: Ix) {
        if self.tasks[ix].script.ends_with.is_none() {
            self.last_ns = self.last_ns.max(self.now_ns);
        }
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
