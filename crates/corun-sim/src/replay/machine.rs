//! The machine on which a run is replayed: CPUs, the kernel's queues, quotas; no co-runners.
//!
//! Computing takes the recorded time. Queueing is not replayed. The modelled [`Eevdf`] does it again: each
//! CPU has a queue, turns end at ticks, and a woken task goes where the kernel puts it. So a CPU may be idle
//! while a task waits on another, as on a live machine with more tasks than CPUs. For example, three tasks
//! that meet at a barrier on two CPUs take some 20 % longer than with one queue for both. A wait ends when
//! its waker has done as much as it had when it woke the task. If the waker is already there, there is no
//! wait. If tasks [meet](super::meetings), the last one to arrive wakes the others.
//!
//! Limits. The CPUs share one cache, and no two of them are hyperthreads of one core. All tasks have one
//! weight and are in one group.

mod dispatch;
mod helping;

use super::conditions::Conditions;
use super::meetings::{Meetings, Part};
use super::script::{
    budgets_of, most_events, Budget, By, Ends, Ix, Limit, Look, Op, Outside, Script, ScriptedProgram,
};
use super::ticks::IDLE;
use super::NoReplay;
use crate::sched::{Eevdf, Effects, FairOptions, Scheduler, TaskParams, Wake};
use crate::streams::Streams;
use corun_model::run_log::CpuMask;
use corun_model::Machine as Topology;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

/// A task that only checks why its wait is over computes no longer than this, in nanoseconds.
const LOOK_NS: u64 = 100_000;
/// The weight of a task of nice 0.
const NICE_0: u64 = 1_024;

/// How long a program takes under these conditions until its last task has done its last step, in
/// nanoseconds.
///
/// # Errors
/// [`NoReplay::Contradiction`]: a task waits for a step that never comes. [`NoReplay::Endless`].
pub fn run(program: &ScriptedProgram, conditions: &Conditions) -> Result<u64, NoReplay> {
    let machine = |meetings| Machine::new(program, *conditions, meetings);
    match machine(Meetings::of(&program.scripts)).run() {
        // The supposed meetings were not real. Without them, the log itself is a way to finish.
        Err(NoReplay::Contradiction) => machine(Meetings::default()).run(),
        done => done,
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Unborn,
    /// In the queue of a CPU.
    Ready,
    Running(usize),
    /// Runnable, but held because its budget is used up.
    Held,
    Waiting,
    Ended,
}

struct Task<'a> {
    script: &'a Script,
    state: State,
    next: usize,
    /// What is left to compute in the present step.
    left_ns: u64,
    /// Where it ran last, or runs now.
    cpu: usize,
    /// Whether it has been in a queue yet.
    queued: bool,
    may: CpuMask,
    /// Its budgets, as indexes.
    budgets: Vec<usize>,
    waits_for: Option<u32>,
    waits: Waits,
    /// Which plan for the end of its wait is valid.
    version: u64,
    /// The steps that are waits with a limit, each with the wait whose end also ends it.
    limits: Vec<(usize, u32)>,
    /// An idle CPU has taken over half of what was left of this step.
    helped: bool,
    /// It has ended with another task. Its other steps take no time, and are done for the tasks that wait for
    /// them.
    is_over: bool,
}

/// How a task waits for what another has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waits {
    UntilWoken,
    /// It looks at regular intervals, from this time on.
    Looking {
        since_ns: u64,
        every_ns: u64,
    },
    /// With a limit: no longer than this.
    WithLimit,
}

/// A wait with a limit is over when another task ends it. This lists the waits that nobody ended in the recorded run.
/// Each comes with the next wait, if that is for the same object and the task does no work in between, or else with the
/// next one for the same futex, if that work is a small share of the wait. A task that ends the later wait also ends this
/// one, if it gets there sooner.
fn limits(script: &Script) -> Vec<(usize, u32)> {
    let (mut found, mut next, mut computed_ns) = (Vec::new(), None, 0);
    // For each futex, the wait that ends those before it, and how much was computed after the first of them.
    let mut for_futex: BTreeMap<u64, (u32, u64)> = BTreeMap::new();
    for (place, op) in script.ops.iter().enumerate().rev() {
        match op {
            Op::Wait(wait) => {
                let futex = script.futexes.get(wait).copied();
                next = Some((*wait, futex.unwrap_or(0)));
                for_futex.extend(futex.map(|futex| (futex, (*wait, computed_ns))));
            }
            Op::Outside(outside) if outside.is_limit => {
                let most_ns = (IDLE * outside.lasted_ns as f64) as u64;
                let same = for_futex.get_mut(&outside.futex).filter(|same| computed_ns - same.1 <= most_ns);
                let same = same.map(|same| std::mem::replace(same, (same.0, computed_ns)).0);
                let next = next.filter(|(_, futex)| are_of_one(*futex, outside.futex)).map(|(wait, _)| wait);
                found.extend(next.or(same).map(|wait| (place, wait)));
                if same.is_none() {
                    for_futex.remove(&outside.futex);
                }
            }
            Op::Compute { ns, .. } => {
                computed_ns += ns;
                next = next.filter(|_| *ns <= LOOK_NS);
            }
            Op::Passes(..) | Op::Limit(_) | Op::Looks(_) => {}
            _ => next = None,
        }
    }
    found.reverse();
    found
}

/// Whether futexes at these addresses may belong to one object; 0: none. A condition variable has several.
fn are_of_one(a: u64, b: u64) -> bool {
    const LARGEST: u64 = 48; // pthread_cond_t
    (a == 0) == (b == 0) && a.abs_diff(b) < LARGEST
}

#[derive(Clone, Copy, Debug, Default)]
struct Cpu {
    task: Option<Ix>,
    since_ns: u64,
    version: u64,
    /// It slept, and is now on its way to a task.
    wakes_up: bool,
}

/// A future event: when, its order among events of the same time, what.
type Due = Reverse<(u64, u64, Event)>;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A step on a CPU is over, if its version is still this one.
    Cpu(usize, u64),
    /// A CPU that slept is awake.
    WakesUp(usize),
    /// The kernel's tick on all CPUs.
    Tick,
    /// A wait is over, if its version is still this one.
    Wakes(Ix, u64),
    /// A budget is refilled.
    Period(usize),
    /// A budget is used up, if the running tasks have not changed.
    Exhausted(usize, u64),
    /// A CPU comes or goes, given by its number.
    Switches(usize, bool),
    /// A task gets the limit that its script has at this place.
    Limits(Ix, usize),
}

/// A budget and its users.
#[derive(Clone, Copy, Debug)]
struct Pool {
    budget: Budget,
    left_ns: u64,
    at_ns: u64,
    /// The number of running tasks in the plan for when the budget is used up, and the version of that plan.
    users: u64,
    version: u64,
    throttled: bool,
}

/// The indexes of these budgets in the list of all.
fn places(all: &[Pool], budgets: &[Budget]) -> Vec<usize> {
    budgets.iter().filter_map(|budget| all.iter().position(|pool| pool.budget == *budget)).collect()
}

struct Machine<'a> {
    conditions: Conditions,
    tasks: Vec<Task<'a>>,
    /// Every CPU that ever exists, and those that are switched on.
    cpus: Vec<(usize, Cpu)>,
    online: CpuMask,
    sched: Eevdf,
    /// What the scheduler asks for.
    fx: Effects,
    /// The number of tasks in queues, and whether the next tick is planned.
    ready: usize,
    ticks: bool,
    due: BinaryHeap<Due>,
    order: u64,
    /// Waits that were ended before they began.
    ended: BTreeSet<(Ix, u32)>,
    meetings: Meetings,
    /// The tasks that have come to each meeting.
    met: Vec<Vec<Ix>>,
    now_ns: u64,
    last_ns: u64,
    budgets: Vec<Pool>,
    program: &'a ScriptedProgram,
    /// Tasks that have begun and not ended.
    alive: usize,
    /// The number of events that may still happen, without periods: periods never end.
    pending: usize,
    /// The tasks of each process other than its first.
    crews: BTreeMap<u32, Vec<Ix>>,
}

impl<'a> Machine<'a> {
    fn new(program: &'a ScriptedProgram, conditions: Conditions, meetings: Meetings) -> Machine<'a> {
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
            cpu: 0,
            queued: false,
            may: script.may,
            budgets: places(&budgets, &script.budgets),
            waits_for: None,
            waits: Waits::UntilWoken,
            version: 0,
            limits: limits(script),
            helped: false,
            is_over: false,
        });
        let mut crews: BTreeMap<u32, Vec<Ix>> = BTreeMap::new();
        for (ix, script) in program.scripts.iter().enumerate().filter(|(_, s)| !s.leads) {
            crews.entry(script.process).or_default().push(ix);
        }
        let ever = program.switched.iter().fold(program.cpus, |cpus, s| cpus.with(s.cpu));
        let options = FairOptions { newidle_ratio: conditions.newidle_ratio, ..FairOptions::default() };
        let topology = Topology::synthetic(1, 1, ever.len().max(1) as u32, 1);
        Machine {
            conditions,
            tasks: tasks.collect(),
            cpus: ever.iter().map(|cpu| (cpu, Cpu::default())).collect(),
            online: program.cpus,
            sched: Eevdf::new(&topology, options, None, &Streams::new(1)),
            fx: Effects::default(),
            ready: 0,
            ticks: false,
            due: BinaryHeap::new(),
            order: 0,
            ended: BTreeSet::new(),
            met: vec![Vec::new(); meetings.len()],
            meetings,
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
        if self.cpus.is_empty() {
            return Err(NoReplay::Contradiction);
        }
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
        let params = TaskParams { group: None, weight: NICE_0, batch: false, slice_ns: None, affinity: None };
        for ix in 0..self.tasks.len() {
            self.sched.add_task(&params);
            self.confine(ix);
        }
        for &ix in &self.program.first {
            self.wake(ix, Wake::Fresh);
        }
        (0..self.cpus.len()).for_each(|at| self.switch(at));
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
                if self.cpus[at].1.version == version {
                    self.charge(at);
                    self.go_on(at);
                }
            }
            Event::WakesUp(at) => {
                self.cpus[at].1.wakes_up = false;
                self.switch(at);
            }
            Event::Tick => self.tick(),
            Event::Wakes(ix, version) => {
                if self.tasks[ix].version == version {
                    self.tasks[ix].waits_for = None;
                    self.wake(ix, Wake::From(self.tasks[ix].cpu));
                }
            }
            Event::Period(of) => {
                self.account_budgets();
                let pool = &mut self.budgets[of];
                // From now on, this many use it.
                (pool.left_ns, pool.users, pool.throttled) = (pool.budget.quota_ns, 0, false);
                let next_ns = self.now_ns + pool.budget.period_ns.max(1);
                self.plan(next_ns, Event::Period(of));
                self.enforce();
            }
            Event::Exhausted(of, version) => {
                if version != self.budgets[of].version {
                    return;
                }
                self.account_budgets();
                if self.budgets[of].left_ns == 0 {
                    self.budgets[of].throttled = true;
                    self.enforce();
                }
            }
            Event::Switches(cpu, is_on) => {
                self.online = if is_on { self.online.with(cpu) } else { self.online.without(cpu) };
                (0..self.tasks.len()).for_each(|ix| self.confine(ix));
                self.enforce();
            }
            Event::Limits(ix, place) => {
                let script = self.tasks[ix].script;
                if let Op::Limit(change) = &script.ops[place] {
                    self.limit(ix, &change.limit);
                    self.enforce();
                }
            }
        }
    }

    /// Does what the scheduler asks for, and plans when budgets will be used up.
    fn settle(&mut self) {
        self.dispatch();
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

    /// How many running tasks have this budget.
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

    /// A task gets another limit. If it is on a CPU that it may no longer use, the caller handles that.
    fn limit(&mut self, ix: Ix, limit: &Limit) {
        match limit {
            Limit::May(may) => {
                self.tasks[ix].may = *may;
                self.confine(ix);
            }
            Limit::Budgets(budgets) => {
                self.account_budgets();
                self.tasks[ix].budgets = places(&self.budgets, budgets);
            }
        }
    }

    /// A task computes on its CPU until its step is over.
    fn plan_cpu(&mut self, at: usize, ix: Ix) {
        let cpu = &mut self.cpus[at].1;
        cpu.version += 1;
        let event = Event::Cpu(at, cpu.version);
        self.plan(self.now_ns + self.tasks[ix].left_ns, event);
    }

    /// The task on a CPU goes on through steps that take no time. `true`: it now computes; `false`: it waits
    /// or has ended.
    fn advance(&mut self, at: usize, ix: Ix) -> bool {
        loop {
            if self.tasks[ix].left_ns > 0 {
                let stays = self.may(ix, at) && !self.is_held(ix);
                if stays {
                    self.plan_cpu(at, ix);
                } else {
                    self.goes_elsewhere(at, ix);
                }
                return stays;
            }
            self.tasks[ix].helped = false;
            let (script, place) = (self.tasks[ix].script, self.tasks[ix].next);
            let Some(op) = script.ops.get(place) else {
                self.leave(at, ix, State::Ended);
                self.ends(ix);
                return false;
            };
            self.tasks[ix].next += 1;
            match self.meetings.part(ix, place) {
                Some(Part::Wakes) => continue,
                Some(Part::Comes(meeting)) if self.comes(ix, meeting, at) => continue,
                Some(Part::Comes(_)) => {
                    self.sleeps(at, ix);
                    return false;
                }
                None => {}
            }
            match op {
                Op::Compute { .. } | Op::Outside(_) if self.tasks[ix].is_over => {}
                Op::Outside(Outside { may_look: Some(likely), .. }) if self.conditions.looks(*likely) => {}
                Op::Looks(Look { may: Some(likely), .. }) if !self.conditions.looks(*likely) => {}
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
                Op::Wake(other, wait) | Op::Passes(other, wait) => self.ends_wait(*other, *wait, at),
                Op::Spawn(child) => {
                    if self.tasks[*child].state == State::Unborn {
                        self.sched.begins_near(*child, at);
                        self.wake(*child, Wake::Fresh);
                    }
                }
                Op::Wait(wait) | Op::Looks(Look { wait, .. }) => {
                    if self.ended.remove(&(ix, *wait)) {
                        continue;
                    }
                    self.tasks[ix].waits_for = Some(*wait);
                    self.tasks[ix].waits = match op {
                        Op::Looks(Look { every_ns: every_ns @ 1.., .. }) => {
                            Waits::Looking { since_ns: self.now_ns, every_ns: *every_ns }
                        }
                        _ => Waits::UntilWoken,
                    };
                    self.sleeps(at, ix);
                    return false;
                }
                Op::Outside(outside) => {
                    let limits = &self.tasks[ix].limits;
                    let next = limits.binary_search_by_key(&place, |limit| limit.0).ok();
                    let next = next.map(|at| limits[at].1);
                    if next.is_some_and(|wait| self.ended.contains(&(ix, wait))) {
                        continue;
                    }
                    let ends =
                        if outside.ends == Ends::Either { self.conditions.either } else { outside.ends };
                    let until_ns = match ends {
                        Ends::AtItsTime => outside.until_ns,
                        _ => self.now_ns + outside.lasted_ns,
                    };
                    if until_ns <= self.now_ns {
                        continue;
                    }
                    (self.tasks[ix].waits_for, self.tasks[ix].waits) = (next, Waits::WithLimit);
                    self.plan_waking(until_ns, ix);
                    self.sleeps(at, ix);
                    return false;
                }
            }
        }
    }

    /// A task comes to a meeting. Returns whether all have come, so that they go on.
    fn comes(&mut self, ix: Ix, meeting: usize, at: usize) -> bool {
        if self.met[meeting].len() + 1 < self.meetings.size(meeting) {
            self.met[meeting].push(ix);
            return false;
        }
        for other in std::mem::take(&mut self.met[meeting]) {
            self.wake(other, Wake::From(at));
        }
        true
    }

    fn sleeps(&mut self, at: usize, ix: Ix) {
        self.leave(at, ix, State::Waiting);
        self.has_got_so_far(ix);
    }

    fn ends(&mut self, ix: Ix) {
        self.alive -= usize::from(self.tasks[ix].script.ends_with.is_none());
        self.has_got_so_far(ix);
        self.tasks.iter_mut().filter(|t| t.script.ends_with == Some(ix)).for_each(|t| t.is_over = true);
    }

    fn has_got_so_far(&mut self, ix: Ix) {
        if self.tasks[ix].script.ends_with.is_none() {
            self.last_ns = self.last_ns.max(self.now_ns);
        }
    }

    /// A task's wait will be over at that time.
    fn plan_waking(&mut self, at_ns: u64, ix: Ix) {
        self.tasks[ix].version += 1;
        self.plan(at_ns, Event::Wakes(ix, self.tasks[ix].version));
    }

    /// The task on this CPU has done enough to end another task's wait.
    fn ends_wait(&mut self, ix: Ix, wait: u32, at: usize) {
        let task = &mut self.tasks[ix];
        if task.waits_for != Some(wait) || task.state != State::Waiting {
            self.ended.insert((ix, wait));
            return;
        }
        (task.waits_for, task.version) = (None, task.version + 1);
        match task.waits {
            // The waiting task sees that at its next look.
            Waits::Looking { since_ns, every_ns } if !(self.now_ns - since_ns).is_multiple_of(every_ns) => {
                let looks = (self.now_ns - since_ns) / every_ns + 1;
                self.plan_waking(since_ns + looks * every_ns, ix);
                return;
            }
            Waits::WithLimit => {
                self.ended.insert((ix, wait));
            }
            _ => {}
        }
        self.wake(ix, Wake::From(at));
    }
}
