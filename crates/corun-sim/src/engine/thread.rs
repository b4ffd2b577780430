//! A thread's steps one after another, and how it waits.

use super::sync::Tried;
use super::{Doing, Engine, Pending, Reason, State, Thread, ThreadIx};
use crate::contention::coherence::Place;
use crate::program::{Here, Phase, Step, Waiting};
use crate::sched::{CpuIx, Wake};

/// Work is counted in fractions of a nanosecond, which leaves room for 2.4 hours at a time. Longer grains are
/// taken up in parts.
const MOST_AT_ONCE_NS: u64 = 1 << 43;

impl Thread {
    /// Starts this much work, as solo run time; `u64::MAX`: for ever.
    fn take_up(&mut self, ns: u64) {
        self.doing = Doing::Work;
        (self.work, self.more_ns) = match ns {
            u64::MAX => (u64::MAX, 0),
            _ => {
                let part_ns = ns.min(MOST_AT_ONCE_NS);
                (part_ns << super::cpu::BITS, ns - part_ns)
            }
        };
    }

    /// The place in its program of a thread that shares lines and meets the others again and again.
    pub(super) fn place(&self, now_ns: u64) -> Option<Place> {
        let left_ns = (self.work >> super::cpu::BITS).saturating_add(self.more_ns);
        Some(Place {
            meeting: self.cursor.grains(),
            work_ns: self.share_ns?.saturating_sub(left_ns),
            from_ns: now_ns + self.overhead_ns,
        })
    }
}

impl Engine {
    /// Carries out a thread's next step on `cpu`; its previous one is done.
    pub(super) fn advance(&mut self, thread: ThreadIx, cpu: CpuIx) {
        if self.threads[thread].pending != Pending::Nothing {
            return self.try_pending(thread, cpu);
        }
        let t = &mut self.threads[thread];
        if t.more_ns > 0 {
            return t.take_up(t.more_ns);
        }
        let run = &mut self.tenants[t.tenant];
        let plan = &run.setup.plan;
        run.shared.here = Here { now_ns: self.now_ns, cache: self.cpus[cpu].llc };
        let step = t.cursor.next(plan, &mut run.shared);
        match step {
            Step::Work(ns) | Step::Stolen(ns) => {
                t.take_up(ns);
                let meets = run.shares && plan.phases.get(t.cursor.phase()).is_some_and(Phase::meets);
                t.share_ns = meets.then_some(ns);
                let grain = t.cursor.grains().saturating_sub(1);
                t.character = run.characters[plan.character_at(grain)];
                if matches!(step, Step::Stolen(_)) {
                    let task = t.task as u32;
                    self.stirred |= self.contention.new_data(self.now_ns, task);
                }
            }
            Step::Busy(ns) => {
                t.take_up(u64::MAX);
                t.doing = Doing::Busy(self.now_ns.saturating_add(ns));
            }
            Step::Meet(object) => {
                t.seen = run.objects[object].count;
                if !self.meet(thread, object, cpu) {
                    self.threads[thread].pending = Pending::Meet(object);
                    self.wait(thread);
                }
            }
            Step::Await(object) => {
                (t.seen, t.pending) = (run.objects[object].count, Pending::Meet(object));
                self.wait(thread);
            }
            Step::Tell(object) => self.tell_all(thread, object, cpu),
            Step::Acquire(object) => {
                t.pending = Pending::Acquire(object);
                self.try_pending(thread, cpu);
            }
            Step::Put(object, item) => {
                t.pending = Pending::Put(object, item);
                self.try_pending(thread, cpu);
            }
            Step::Take(object) => {
                t.pending = Pending::Take(object);
                self.try_pending(thread, cpu);
            }
            Step::AwaitEnd(object, wait) => {
                t.pending = Pending::AwaitEnd(object, wait);
                self.try_pending(thread, cpu);
            }
            Step::EndWait(object, wait) => self.wait_is_over(thread, object, wait, cpu),
            Step::Release(object) => self.release(thread, object, cpu),
            Step::Leave(object) => self.producer_leaves(thread, object, cpu),
            Step::Sleep(ns) => self.sleep_until(thread, self.now_ns.saturating_add(ns), Reason::Sleep),
            Step::SleepUntil(ns) => {
                let until_ns = run.started_ns.saturating_add(ns);
                self.sleep_until(thread, until_ns, Reason::Sleep);
            }
            Step::Io(ns) => self.sleep_until(thread, self.now_ns.saturating_add(ns), Reason::Io),
            Step::Next => {}
            Step::End => self.thread_ends(thread, cpu),
        }
    }

    /// A thread goes to sleep until a time, for itself or for a device.
    fn sleep_until(&mut self, thread: ThreadIx, at_ns: u64, reason: Reason) {
        let cost_ns = self.block_ns(thread);
        let t = &mut self.threads[thread];
        if at_ns <= self.now_ns {
            return;
        }
        t.pending = Pending::Until(at_ns, reason);
        t.doing = Doing::Sinking;
        t.overhead_ns += cost_ns;
    }

    /// The time that a thread needs to go to sleep.
    fn block_ns(&self, thread: ThreadIx) -> u64 {
        let is_recorded = self.tenants[self.threads[thread].tenant].setup.plan.is_recorded();
        if is_recorded {
            0
        } else {
            self.model.costs.block_ns
        }
    }

    fn try_pending(&mut self, thread: ThreadIx, cpu: CpuIx) {
        match self.attempt(thread) {
            Tried::Done(event) => {
                let t = &mut self.threads[thread];
                let (tenant, object) = (t.tenant, t.pending.object());
                (t.doing, t.pending) = (Doing::Ready, Pending::Nothing);
                if let Some(o) = object {
                    self.tenants[tenant].objects[o].waiters.retain(|&w| w != thread);
                }
                if let Some(event) = event {
                    self.signal(tenant, event, cpu, thread);
                }
            }
            Tried::Wait => self.wait(thread),
        }
    }

    /// A thread starts or continues to wait for its pending action.
    fn wait(&mut self, thread: ThreadIx) {
        let t = &self.threads[thread];
        if let Some(o) = t.pending.object() {
            let waiters = &mut self.tenants[t.tenant].objects[o].waiters;
            if !waiters.contains(&thread) {
                waiters.push(thread);
            }
        }
        self.wait_anew(thread);
        if self.threads[thread].doing == Doing::Sinking {
            let cost_ns = self.block_ns(thread);
            self.threads[thread].overhead_ns += cost_ns;
        }
    }

    /// Starts the account of a wait again: the count to wait for, and how long it may spin.
    pub(super) fn wait_anew(&mut self, thread: ThreadIx) {
        let t = &self.threads[thread];
        let run = &self.tenants[t.tenant];
        let Some(object) = t.pending.object() else { return };
        let plan = &run.setup.plan;
        // A thread that waits between two phases is already in the next one.
        let phase = plan.ended_by(object).or_else(|| plan.phases.get(t.cursor.phase()));
        let waiting = phase.map_or(Waiting::Block, |phase| phase.waiting);
        let seen = run.objects[object].count;
        let t = &mut self.threads[thread];
        if !matches!(t.pending, Pending::Meet(_)) {
            t.seen = seen;
        }
        t.doing = match waiting {
            Waiting::Spin => Doing::Spin(None),
            Waiting::SpinThenBlock(ns) => Doing::Spin(Some(self.now_ns + ns)),
            Waiting::Block => Doing::Sinking,
        };
    }

    /// The thread that runs on `cpu` leaves it. A native task blocks or ends. A guest's vCPU continues with
    /// another thread or halts.
    pub(super) fn thread_leaves(&mut self, thread: ThreadIx, cpu: CpuIx, state: State) {
        let task = self.threads[thread].task;
        if self.tasks[task].vcpu.is_none() {
            self.leave(cpu, state);
            return;
        }
        self.settle(cpu);
        self.tasks[task].thread = None;
        self.dispatch_guest(task);
        if self.tasks[task].thread.is_none() {
            self.leave(cpu, State::Blocked(super::Reason::Halt));
        } else {
            self.resume(task);
            self.soil(cpu);
        }
    }

    /// A sleeping thread becomes runnable, woken from `cpu`.
    pub(super) fn wake_thread(&mut self, thread: ThreadIx, cpu: CpuIx) {
        let task = self.threads[thread].task;
        if self.tasks[task].vcpu.is_none() {
            self.wake_task(task, Wake::From(cpu));
        } else {
            self.wake_in_guest(thread, cpu);
        }
    }

    /// A thread's timed sleep is over. The timer fires on the CPU where it was set.
    pub(super) fn sleep_over(&mut self, thread: ThreadIx) {
        let t = &mut self.threads[thread];
        if t.doing != Doing::Asleep {
            return;
        }
        t.doing = Doing::Ready;
        let cpu = self.tasks[t.task].cpu;
        self.acting = Some(cpu);
        self.wake_thread(thread, cpu);
    }
}
