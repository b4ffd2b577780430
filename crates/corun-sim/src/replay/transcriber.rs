//! Turns a run log into scripts: events in the order of time become the steps of each task, in its own order.
//!
//! The log comes in parts, and so may its scripts: [`Transcriber::cut`] returns what has been transcribed and
//! goes on from the present states of the tasks. What a task may use is recorded whenever it comes onto a CPU
//! or its budget has stopped it. A difference, also of the CPUs, becomes a step of the task or of the machine.
//!
//! Two gaps are repaired. If a task runs but the log does not say when it came onto a CPU, it has run since
//! shortly after it was woken. A task may be woken on its way to sleep, so that its wake-up comes before its
//! leaving. Then it counts as woken when it runs again.

mod asleep;
mod cpus;
mod crews;
mod endings;
mod limits;
mod looks;
mod looks_by_children;
mod spinning;
mod states;
mod timer;
mod timers;

use super::confining::Confining;
use super::holding::Holding;
use super::script::{Budget, Ends, Ix, Limit, Op, Outside, Script, ScriptedProgram, Switched};
use super::sleeps::Sleeps;
use super::ticks::Row;
use corun_model::run_log::{CpuMask, Event, For, Left, RunLog, Waker, What};
use corun_model::TaskId;
use looks_by_children::Glance;
use spinning::{Told, Wanted};
use std::collections::BTreeMap;
use std::mem::take;
use timer::{Timer, Up};

/// The time from a wake-up to running, if the log does not record the latter, in nanoseconds.
const ABOUT_NS: u64 = 20_000;
/// The timer counts as what woke a sleeper at most this long after its deadline, in nanoseconds.
const TIMER_NS: u64 = 1_000_000;

/// Turns a run log into scripts.
#[derive(Clone, Debug, Default)]
pub struct Transcriber {
    tasks: Vec<Task>,
    /// The task that has this number now.
    by_tid: BTreeMap<TaskId, Ix>,
    processes: BTreeMap<u32, Process>,
    crews: BTreeMap<u32, crews::Crew>,
    /// The number of tasks on a CPU.
    running: usize,
    /// The CPUs that are switched on. `unlisted`: those that no log lists although a task ran there.
    cpus: CpuMask,
    unlisted: CpuMask,
    /// The CPUs at the beginning of the stretch, and the changes since, at times of the log.
    first_cpus: CpuMask,
    switched: Vec<Switched>,
    begin_ns: Option<u64>,
    /// Events up to this time have been processed.
    now_ns: u64,
    /// When a task last did anything.
    active_ns: u64,
    /// The sleeps of the tasks that a task started.
    of_children: BTreeMap<TaskId, Sleeps>,
    confining: Confining,
    holding: Holding,
    yields: u64,
    events: u64,
    looked_ns: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// The log has not said anything about it.
    #[default]
    Unknown,
    Ready,
    Running,
    Blocked,
    Ended,
}

#[derive(Clone, Debug, Default)]
struct Task {
    script: Script,
    state: State,
    /// When it entered that state.
    since_ns: u64,
    /// Computing since its last step.
    compute_ns: u64,
    beside_ns: u64,
    queued_ns: u64,
    /// The value of its process's clocks of waiting siblings when it began to run.
    wanted: Wanted,
    /// What it computed while a sibling wanted a CPU and no other task ran; and its spinning.
    one_ran_ns: u64,
    spinning: Told,
    /// The number of its waits for others so far.
    waits: u32,
    /// What it waits for.
    what: Option<For>,
    /// A wake-up that came while it did not sleep.
    early: Option<Waker>,
    /// Its step that waited for a thread or a child and was ended from outside, by a signal.
    signalled: Option<usize>,
    /// Whether others were working when something outside ended its last wait.
    amid_work: bool,
    /// A sleep that it has called and that is not over; what it is up to after one; when its last wait was over.
    timer: Option<Timer>,
    up: Option<Up>,
    woken_ns: u64,
    sleeps: Sleeps,
    /// How often it was marked where it stands since it computed last.
    marks: usize,
    /// Who has started it.
    parent: Option<TaskId>,
    /// Its last waits whose time ran out; the earlier ones; and how many were parts of longer waits.
    row: Option<Row>,
    rows: Vec<Row>,
    parts: usize,
    glances: Vec<Glance>,
    /// The task of its process that ended before it, and its own steps until then ([`endings`]).
    outlives: Option<(Ix, usize)>,
    /// It existed before this stretch began.
    is_first: bool,
    /// Where it may run now; empty: not known. The CPU that it was on last.
    may: CpuMask,
    last_cpu: Option<usize>,
    /// Its budgets now; `None`: not known. `told` collects them until the last one has come.
    budgets: Option<Vec<Budget>>,
    told: Vec<Budget>,
}

/// A process: which of its tasks want a CPU, and which have one.
#[derive(Clone, Copy, Debug, Default)]
struct Process {
    ready: usize,
    running: usize,
    wanted: Wanted,
    since_ns: u64,
    lives: usize,
    /// The task that may have ended it: since the end of that task, the others have only ended.
    ender: Option<Ix>,
}

/// What has been transcribed of a stretch of a run.
#[derive(Clone, Debug, Default)]
pub struct Transcript {
    /// What the tasks did.
    pub program: ScriptedProgram,
    /// When it began, on the log's clock, in nanoseconds.
    pub start_ns: u64,
    /// How long it took: until the last task did something, or until it was cut.
    pub lasted_ns: u64,
    /// How often it called `sched_yield`.
    pub yields: u64,
    /// How long it slept repeatedly while none of its tasks worked, in nanoseconds: perhaps it looked outside.
    pub looked_ns: u64,
    /// The number of events in it.
    pub events: u64,
}

impl Transcriber {
    /// Adds the next part of the log. After lost events everything is a guess, which the caller handles.
    pub fn push(&mut self, log: &RunLog) {
        let before_ns = self.now_ns.max(log.start_ns);
        if self.first_cpus.is_empty() {
            (self.first_cpus, self.cpus) = (log.cpus, log.cpus);
        }
        // An event that comes late happened by now at the latest: time never goes back.
        let mut latest_ns = self.now_ns;
        for event in &log.events {
            latest_ns = latest_ns.max(event.t_ns);
            self.begin_ns.get_or_insert(latest_ns);
            self.take(&Event { t_ns: latest_ns, ..*event });
            self.events += 1;
        }
        self.now_ns = self.now_ns.max(log.end_ns);
        self.sees_cpus(log.cpus, [before_ns, self.now_ns]);
    }

    /// The number of events since the last cut.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// When this stretch began; `None`: nothing has happened in it.
    pub fn start_ns(&self) -> Option<u64> {
        self.begin_ns
    }

    /// The log has been processed up to this time, in nanoseconds.
    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// What has been transcribed until now, without ending the stretch. `is_over`: no task does anything more.
    pub fn so_far(&self, is_over: bool) -> Transcript {
        self.clone().cut(is_over)
    }

    /// Ends the stretch: what follows belongs to another one. `is_over` as above.
    pub fn cut(&mut self, is_over: bool) -> Transcript {
        let at_ns = self.now_ns;
        let start_ns = self.begin_ns.unwrap_or(at_ns);
        let goes_on = !is_over && self.tasks.iter().any(|t| t.state != State::Ended);
        let end_ns = if goes_on { at_ns } else { self.active_ns.max(start_ns) };
        self.tick_all(at_ns);
        let late = self.late(start_ns, end_ns);
        let all_sleep = !self.tasks.iter().any(|t| matches!(t.state, State::Running | State::Ready));
        for ix in 0..self.tasks.len() {
            let task = &self.tasks[ix];
            let timer = task.timer.filter(|_| task.state == State::Blocked);
            let sleeps = timer.is_some() && task.what == Some(For::Sleep);
            if task.state == State::Blocked && goes_on && (all_sleep || sleeps) {
                // Its reason to wait is not known yet. If all tasks wait, it waits for something outside.
                self.waited_outside(ix, at_ns, true);
                self.tasks[ix].since_ns = at_ns;
            } else {
                self.flush(ix, at_ns);
                self.forget_timer(ix);
            }
            self.tasks[ix].timer = timer;
        }
        self.settle_ticks();
        self.find_lookouts_by_children();
        self.forget_marks();
        if goes_on {
            self.find_onlookers(&late, end_ns - start_ns);
        }
        self.find_late();
        let since_start = |ns: u64| ns.saturating_sub(start_ns);
        let mut switched = take(&mut self.switched);
        switched.iter_mut().for_each(|s| s.between_ns = s.between_ns.map(since_start));
        let cpus = std::mem::replace(&mut self.first_cpus, self.cpus);
        let mut program =
            ScriptedProgram { cpus, switched, begin_ns: start_ns, ..ScriptedProgram::default() };
        let mut kept = BTreeMap::new();
        for (ix, task) in self.tasks.iter_mut().enumerate() {
            let (ops, futexes) = (take(&mut task.script.ops), take(&mut task.script.futexes));
            // A script makes a process for each sleep, so only all of them together show a habit.
            let kin = task.parent.and_then(|parent| self.of_children.get(&parent));
            let habit = kin.filter(|_| task.sleeps.are_few()).unwrap_or(&task.sleeps).habit();
            let spun = task.spinning.spun(&ops, task.one_ran_ns);
            let judged = ops.into_iter().map(|op| match op {
                Op::Outside(o) if o.is_sleep => Op::Outside(Outside { ends: habit.unwrap_or(o.ends), ..o }),
                op => op,
            });
            program.scripts.push(Script { ops: judged.collect(), futexes, spun, ..task.script.clone() });
            if task.is_first && !program.scripts[ix].ops.is_empty() {
                program.first.push(ix);
            }
            if task.state != State::Ended {
                kept.insert(ix, kept.len());
            }
        }
        self.tell_kept(&mut program.scripts);
        let transcript = Transcript {
            program,
            start_ns,
            lasted_ns: end_ns - start_ns,
            yields: take(&mut self.yields),
            looked_ns: take(&mut self.looked_ns),
            events: take(&mut self.events),
        };
        self.begin_ns = Some(at_ns);
        self.active_ns = at_ns;
        self.processes.values_mut().for_each(|p| p.ender = None);
        self.tasks.retain(|t| t.state != State::Ended);
        for task in &mut self.tasks {
            (task.is_first, task.parts, task.script.ends_with) = (true, 0, None);
            (task.signalled, task.one_ran_ns, task.spinning) = (None, 0, Told::default());
            (task.script.wanted_ns, task.script.may_be_late, task.up) = (0, false, None);
            (task.script.may, task.script.budgets) = (task.may, task.budgets.clone().unwrap_or_default());
            if let Some(timer) = &mut task.timer {
                // It still sleeps.
                let until_ns = timer.deadline_ns.saturating_sub(at_ns);
                (timer.at, task.script.ops) = (0, vec![Op::Outside(Outside::sleep(0, until_ns))]);
            }
        }
        let by_tid = take(&mut self.by_tid).into_iter();
        self.by_tid = by_tid.filter_map(|(tid, ix)| Some((tid, *kept.get(&ix)?))).collect();
        self.of_children.retain(|parent, _| self.by_tid.contains_key(parent));
        transcript
    }

    fn take(&mut self, e: &Event) {
        let now_ns = e.t_ns;
        let ix = match e.what {
            What::Born { parent, process } => {
                self.born(e.task, parent, process, now_ns);
                return;
            }
            _ => self.task(e.task, now_ns),
        };
        if self.tasks[ix].state == State::Ended {
            return;
        }
        match e.what {
            What::Runs { cpu, may } => {
                self.runs_on(cpu.0 as usize, now_ns);
                self.runs(ix, cpu.0 as usize, may, now_ns);
            }
            What::Leaves(left) => self.leaves(ix, left, now_ns),
            What::Woken(waker) => self.woken(ix, waker, now_ns),
            What::SleepsUntil { deadline_ns, as_length } => {
                self.sleeps_until(ix, deadline_ns, as_length, now_ns)
            }
            What::Budget { quota_ns, period_ns, filled_ns, more } => {
                if quota_ns > 0 && period_ns > 0 {
                    let budget = Budget { quota_ns, period_ns, filled_ns };
                    self.holding.is_told(budget, now_ns);
                    self.tasks[ix].told.push(budget);
                }
                if !more {
                    self.has_budgets(ix, now_ns);
                }
            }
            What::Confines => self.confining.happens(),
            What::Born { .. } => {}
        }
    }

    /// The task with that number. If none was seen, a new one that existed before.
    fn task(&mut self, tid: TaskId, now_ns: u64) -> Ix {
        if let Some(&ix) = self.by_tid.get(&tid) {
            return ix;
        }
        self.add(tid, tid.0, true, now_ns)
    }

    fn add(&mut self, tid: TaskId, process: u32, is_first: bool, now_ns: u64) -> Ix {
        let script = Script { process, leads: process == tid.0, ..Script::default() };
        let ix = self.tasks.len();
        self.tasks.push(Task { script, since_ns: now_ns, is_first, ..Task::default() });
        self.by_tid.insert(tid, ix);
        self.processes.entry(process).or_default().lives += 1;
        ix
    }

    fn born(&mut self, tid: TaskId, parent: TaskId, process: u32, now_ns: u64) {
        let started_by = parent;
        let parent = self.by_tid.get(&parent).copied();
        // The previous task with that number has ended.
        if let Some(old) = self.by_tid.get(&tid).copied() {
            self.enter(old, State::Ended, now_ns);
        }
        let ix = self.add(tid, process, parent.is_none(), now_ns);
        self.tasks[ix].parent = Some(started_by);
        self.goes_on(ix);
        if let Some(parent) = parent {
            self.goes_on(parent);
            self.flush(parent, now_ns);
            self.tasks[parent].script.ops.push(Op::Spawn(ix));
        } else {
            self.waited_outside(ix, now_ns, false);
        }
        self.enter(ix, State::Ready, now_ns);
    }

    fn runs(&mut self, ix: Ix, cpu: usize, may: CpuMask, now_ns: u64) {
        match self.tasks[ix].state {
            State::Blocked => {
                let task = &mut self.tasks[ix];
                // Its wake-up came before its leaving, or was not recorded.
                let waker = task.early.take().unwrap_or(Waker::Interrupt);
                self.ended_wait(ix, waker, now_ns);
            }
            State::Running => self.flush(ix, now_ns),
            State::Ready => self.looks_late(ix, now_ns),
            _ => {}
        }
        self.tasks[ix].early = None;
        if !may.is_empty() && self.tasks[ix].may != may {
            let is_new = self.tasks[ix].may.is_empty();
            self.tasks[ix].may = may;
            match is_new {
                // This made no difference before it ran.
                true => self.tasks[ix].script.may = may,
                false => {
                    let by = self.confining.by(self.tasks[ix].last_cpu, may);
                    self.limited(ix, Limit::May(may), by, now_ns);
                }
            }
        }
        self.tasks[ix].last_cpu = Some(cpu);
        self.enter(ix, State::Running, now_ns);
    }

    fn leaves(&mut self, ix: Ix, left: Left, now_ns: u64) {
        self.must_run(ix, now_ns);
        self.flush(ix, now_ns);
        match left {
            Left::Preempted => self.enter(ix, State::Ready, now_ns),
            Left::Yielded => {
                self.yields += 1;
                self.enter(ix, State::Ready, now_ns);
            }
            Left::Waits(what) => {
                if !self.is_falling_asleep(ix) {
                    self.forget_timer(ix);
                }
                self.tasks[ix].what = Some(what);
                self.enter(ix, State::Blocked, now_ns);
            }
            Left::Ended | Left::Killed => {
                self.may_have_been_killed(ix, left == Left::Killed);
                self.enter(ix, State::Ended, now_ns);
            }
        }
    }

    /// It does something, so it runs.
    fn must_run(&mut self, ix: Ix, now_ns: u64) {
        let task = &mut self.tasks[ix];
        let since_ns = match task.state {
            State::Running | State::Ended => return,
            State::Unknown => self.begin_ns.unwrap_or(now_ns),
            State::Ready => (task.since_ns + ABOUT_NS).min(now_ns),
            State::Blocked => {
                let waker = task.early.take().unwrap_or(Waker::Interrupt);
                self.ended_wait(ix, waker, now_ns);
                now_ns
            }
        };
        self.enter(ix, State::Running, now_ns);
        self.tasks[ix].since_ns = since_ns;
    }

    fn woken(&mut self, ix: Ix, waker: Waker, now_ns: u64) {
        match self.tasks[ix].state {
            State::Blocked => {
                self.ended_wait(ix, waker, now_ns);
                self.enter(ix, State::Ready, now_ns);
            }
            State::Unknown => {
                // It has waited since before the log began.
                self.tasks[ix].since_ns = self.begin_ns.unwrap_or(now_ns);
                self.ended_wait(ix, waker, now_ns);
                self.enter(ix, State::Ready, now_ns);
            }
            State::Running => self.tasks[ix].early = Some(waker),
            State::Ready | State::Ended => {}
        }
    }

    /// A task stops waiting because `waker` woke it.
    fn ended_wait(&mut self, ix: Ix, waker: Waker, now_ns: u64) {
        let task = &self.tasks[ix];
        let is_time = task
            .timer
            .is_some_and(|t| (t.deadline_ns..t.deadline_ns.saturating_add(TIMER_NS)).contains(&now_ns));
        let by = match waker {
            Waker::Task(by) if !is_time => self.by_tid.get(&by).copied(),
            _ => None,
        };
        let by = by.filter(|&by| by != ix && self.tasks[by].state != State::Ended);
        let Some(by) = by else {
            let is_outsider = matches!(waker, Waker::Task(by) if !self.by_tid.contains_key(&by));
            // Nothing else outside can end a wait for a child or a thread.
            let is_for_own = matches!(task.what, Some(For::Futex(1..) | For::Child));
            let is_signal = is_outsider && is_for_own;
            self.tasks[ix].amid_work = self.is_anybody_at_work();
            self.waited_outside(ix, now_ns, false);
            self.tasks[ix].woken_ns = now_ns;
            if waker == Waker::Timer {
                self.kept_by_a_timer(ix, now_ns);
            }
            self.tasks[ix].signalled = is_signal.then(|| self.tasks[ix].script.ops.len() - 1);
            return;
        };
        if self.tasks[by].state != State::Blocked {
            // If a waker sleeps, another CPU recorded its leaving before its last action.
            self.must_run(by, now_ns);
            self.flush(by, now_ns);
        }
        let had_limit = self.tasks[ix].timer.is_some();
        self.drop_timer(ix);
        self.flush(ix, now_ns);
        let stop = self.stop(ix, by, now_ns);
        let task = &mut self.tasks[ix];
        (task.up, task.woken_ns) = (None, now_ns);
        let ops = &mut task.script.ops;
        if let Some(row) =
            task.row.take_if(|row| had_limit && task.what.is_some_and(|what| row.is_for(ops, what)))
        {
            row.take_away(ops);
            task.parts += row.count();
        }
        if let Some(stop) = stop {
            task.script.ops.push(stop);
            return self.goes_on(ix);
        }
        let wait = task.waits;
        task.waits += 1;
        task.script.ops.push(Op::Wait(wait));
        if let Some(For::Futex(futex @ 1..)) = task.what {
            task.script.futexes.insert(wait, futex);
        }
        self.goes_on(ix);
        self.tasks[by].script.ops.push(Op::Wake(ix, wait));
        self.ticked_by_child(ix, by, now_ns);
    }

    /// Until now, a task has waited for something outside the program.
    fn waited_outside(&mut self, ix: Ix, now_ns: u64, is_cut: bool) {
        let begin_ns = self.begin_ns.unwrap_or(now_ns);
        let what = self.tasks[ix].what;
        let timer = self.tasks[ix].timer;
        let is_time = timer.is_some_and(|t| now_ns + t.slack_ns() >= t.deadline_ns || is_cut);
        if !is_time {
            self.drop_timer(ix);
        }
        self.flush(ix, now_ns);
        let task = &mut self.tasks[ix];
        let lasted_ns = now_ns.saturating_sub(task.since_ns.max(begin_ns));
        let until_ns = now_ns.saturating_sub(begin_ns);
        match task.timer.take() {
            Some(timer) if is_time => {
                task.script.ops[timer.at] = Op::Outside(timer.ran_out(what, lasted_ns, until_ns));
                if !is_cut {
                    self.gets_up(ix, lasted_ns, now_ns);
                }
                // The task has only gone to sleep since.
                self.ticks(ix, timer.at, what.unwrap_or(For::Other), [timer.called_ns, now_ns]);
            }
            _ => {
                // A request to a device takes its time from when it was made. So does the kernel's work as it
                // ends a task whose last call was a futex: no futex is at address 0.
                let has_length = matches!(what, Some(For::Device | For::Futex(0)));
                if !has_length {
                    self.goes_on(ix);
                }
                let task = &mut self.tasks[ix];
                task.up = None;
                let ends = if has_length { Ends::AfterItsLength } else { Ends::Either };
                let outside = Outside { ends, is_sleep: false, ..Outside::sleep(lasted_ns, until_ns) };
                task.script.ops.push(Op::Outside(outside));
            }
        }
    }

    /// Turns what it has computed into a step.
    fn flush(&mut self, ix: Ix, now_ns: u64) {
        if self.tasks[ix].state == State::Running {
            let process = self.tasks[ix].script.process;
            self.tick(process, now_ns);
            let wanted = self.processes[&process].wanted;
            let task = &mut self.tasks[ix];
            task.compute_ns += now_ns.saturating_sub(task.since_ns);
            task.beside_ns += wanted.any_ns - task.wanted.any_ns;
            task.one_ran_ns += wanted.one_ran_ns - task.wanted.one_ran_ns;
            (task.since_ns, task.wanted) = (task.since_ns.max(now_ns), wanted);
            self.active_ns = self.active_ns.max(now_ns);
        }
        let task = &mut self.tasks[ix];
        let (ns, beside_ns) = (take(&mut task.compute_ns), take(&mut task.beside_ns));
        if ns > 0 {
            let queued_ns = take(&mut task.queued_ns);
            for budget in task.budgets.clone().unwrap_or_default() {
                if let Some(since_ns) = self.holding.runs(budget, ns, now_ns, self.cpus.len()) {
                    self.has_gone(budget, since_ns);
                }
            }
            let task = &mut self.tasks[ix];
            task.marks = 0;
            task.script.ops.push(Op::Compute { ns, beside_ns: beside_ns.min(ns), queued_ns });
        }
    }
}
