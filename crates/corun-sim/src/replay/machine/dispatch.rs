//! Which task runs where: this carries out what the modelled scheduler decides.

use super::{Event, Ix, Machine, State, Wake};
use crate::cpu_set::CpuSet;
use crate::sched::Scheduler;
use std::rc::Rc;

impl Machine<'_> {
    /// Whether a task may be on this CPU. The CPU must be switched on, and one of those that the task may
    /// use, if any of them is on.
    pub(super) fn may(&self, ix: Ix, at: usize) -> bool {
        let cpu = self.cpus[at].0;
        let may = self.tasks[ix].may.and(self.online);
        self.online.has(cpu) && (may.is_empty() || may.has(cpu))
    }

    /// Whether a task may not be on any CPU.
    pub(super) fn is_held(&self, ix: Ix) -> bool {
        self.online.is_empty() || self.tasks[ix].budgets.iter().any(|of| self.budgets[*of].throttled)
    }

    /// Tells the scheduler where a task may be.
    pub(super) fn confine(&mut self, ix: Ix) {
        let all = self.cpus.len();
        let may = CpuSet::of(all, (0..all).filter(|&at| self.may(ix, at)));
        self.sched.set_affinity(ix, (may.len() < all).then(|| Rc::new(may)));
    }

    fn set(&mut self, ix: Ix, state: State) {
        let before = std::mem::replace(&mut self.tasks[ix].state, state);
        self.ready += usize::from(state == State::Ready);
        self.ready -= usize::from(before == State::Ready);
    }

    /// A task becomes runnable.
    pub(super) fn wake(&mut self, ix: Ix, how: Wake) {
        let task = &self.tasks[ix];
        self.alive += usize::from(task.state == State::Unborn && task.script.ends_with.is_none());
        if self.is_held(ix) {
            self.set(ix, State::Held);
        } else {
            self.queue(ix, how);
        }
    }

    fn queue(&mut self, ix: Ix, how: Wake) {
        let is_new = !std::mem::replace(&mut self.tasks[ix].queued, true);
        self.set(ix, State::Ready);
        self.sched.wake(self.now_ns, ix, if is_new { Wake::Fresh } else { how }, &mut self.fx);
    }

    /// Adds what the task on a CPU has computed until now.
    pub(super) fn charge(&mut self, at: usize) {
        let cpu = &mut self.cpus[at].1;
        let ns = self.now_ns - std::mem::replace(&mut cpu.since_ns, self.now_ns);
        if let Some(ix) = cpu.task {
            self.tasks[ix].left_ns = self.tasks[ix].left_ns.saturating_sub(ns);
        }
    }

    /// The task on a CPU stops running. The caller decides who runs there next.
    pub(super) fn leave(&mut self, at: usize, ix: Ix, state: State) {
        self.charge(at);
        self.account_budgets();
        let cpu = &mut self.cpus[at].1;
        (cpu.task, cpu.version) = (None, cpu.version + 1);
        self.sched.block(self.now_ns, at, state != State::Waiting);
        self.set(ix, state);
    }

    /// The task on a CPU may not stay there.
    pub(super) fn goes_elsewhere(&mut self, at: usize, ix: Ix) {
        self.leave(at, ix, State::Held);
        // A task that has left a CPU is in no queue before the next one has the CPU.
        self.pick(at);
        if !self.is_held(ix) {
            self.queue(ix, Wake::Return);
        }
    }

    /// Limits have changed. A task that may be nowhere is held, and a held task that may be somewhere is
    /// queued. A task on a CPU that it may no longer use moves to another.
    pub(super) fn enforce(&mut self) {
        for ix in 0..self.tasks.len() {
            let held = self.is_held(ix);
            match self.tasks[ix].state {
                State::Held if !held => self.queue(ix, Wake::Return),
                State::Running(at) if held || !self.may(ix, at) => {
                    self.goes_elsewhere(at, ix);
                    self.go_on(at);
                }
                State::Ready if held || self.sched.queued_on(ix).is_none_or(|at| !self.may(ix, at)) => {
                    self.sched.remove(self.now_ns, ix);
                    self.set(ix, State::Held);
                    if !held {
                        self.queue(ix, Wake::Return);
                    }
                }
                _ => {}
            }
        }
    }

    /// Lets the scheduler choose the next task of a CPU.
    fn pick(&mut self, at: usize) -> Option<Ix> {
        self.account_budgets();
        let before = self.cpus[at].1.task;
        let next = self.sched.pick(self.now_ns, at, &mut self.fx).task;
        self.fx.moved.clear();
        if next == before {
            return next;
        }
        if let Some(ix) = before {
            self.set(ix, State::Ready);
        }
        let cpu = &mut self.cpus[at].1;
        (cpu.task, cpu.since_ns, cpu.version) = (next, self.now_ns, cpu.version + 1);
        if let Some(ix) = next {
            self.set(ix, State::Running(at));
            self.tasks[ix].cpu = at;
        }
        next
    }

    /// A CPU reschedules.
    pub(super) fn switch(&mut self, at: usize) {
        self.charge(at);
        let before = self.cpus[at].1.task;
        let next = self.pick(at);
        if next != before {
            self.runs(at, next);
        }
    }

    /// A CPU goes on with its task, or with another if that task has left.
    pub(super) fn go_on(&mut self, at: usize) {
        let task = self.cpus[at].1.task;
        let task = task.or_else(|| self.pick(at));
        self.runs(at, task);
    }

    /// A CPU goes on with this task, and with others after it, until one computes. Otherwise it idles.
    fn runs(&mut self, at: usize, mut task: Option<Ix>) {
        while let Some(ix) = task {
            if self.advance(at, ix) {
                return;
            }
            task = self.pick(at);
        }
        if self.conditions.shares_work && self.online.has(self.cpus[at].0) {
            self.help(at);
        }
    }

    /// The kernel's tick on all CPUs. Each CPU reschedules before the next one looks at its queue.
    pub(super) fn tick(&mut self) {
        self.ticks = false;
        for at in 0..self.cpus.len() {
            if self.cpus[at].1.task.is_some() {
                self.sched.tick(self.now_ns, at, &mut self.fx);
                self.dispatch();
            }
        }
        self.sched.master_tick(self.now_ns, &mut self.fx);
    }

    /// Does what the scheduler asks for. A CPU that sleeps takes time to wake up.
    pub(super) fn dispatch(&mut self) {
        self.fx.moved.clear();
        let mut next = 0;
        while let Some(cpu) = self.fx.resched.get(next).map(|resched| resched.cpu) {
            next += 1;
            let wake_up_ns = self.conditions.wake_up_ns;
            if self.cpus[cpu].1.task.is_some() || wake_up_ns == 0 {
                self.switch(cpu);
            } else if !std::mem::replace(&mut self.cpus[cpu].1.wakes_up, true) {
                self.plan(self.now_ns + wake_up_ns, Event::WakesUp(cpu));
            }
        }
        self.fx.resched.clear();
        // If no task waits for a CPU, ticks change nothing.
        if self.ready > 0 && !std::mem::replace(&mut self.ticks, true) {
            let tick_ns = self.sched.tick_ns();
            self.plan((self.now_ns / tick_ns + 1) * tick_ns, Event::Tick);
        }
    }
}
