//! What a CPU does: settling the past, arming the next moment, switching from task to task.

use super::account::{Occupancy, Reason};
use super::tracing::task_id;
use super::{Doing, Engine, Pending, State, Task};
use crate::checker;
use crate::contention::{Running, ONE};
use crate::sched::{CpuIx, TaskIx, Wake};
use corun_model::run_log::Waker;
use corun_model::trace::{Left, TraceKind};

/// Parking has no lease here: the controller of the modelled machine cannot die before it.
const FOREVER_NS: u64 = i64::MAX as u64;

/// Fixed-point bits of [`ONE`].
pub(super) const BITS: u32 = ONE.trailing_zeros();

impl Task {
    /// Charges a wait until now to the tenants that held its CPU.
    #[inline]
    fn charge(&mut self, now_ns: u64, occupancy: &Occupancy) {
        occupancy.charge(self.wait_mark, self.since_ns, now_ns, &mut self.tally);
        (self.since_ns, self.wait_mark) = (now_ns, occupancy.mark());
    }
}

impl Engine {
    /// Counts what a CPU did since it was last settled.
    #[inline]
    pub(super) fn settle(&mut self, cpu: CpuIx) {
        if self.cpus[cpu].since_ns != self.now_ns {
            self.count(cpu);
        }
    }

    fn count(&mut self, cpu: CpuIx) {
        let c = &mut self.cpus[cpu];
        let dt = self.now_ns - c.since_ns;
        c.since_ns = self.now_ns;
        let Some(task) = c.curr else {
            c.idle_ns += dt;
            return;
        };
        c.busy_ns += dt;
        let t = &mut self.tasks[task];
        t.since_ns = self.now_ns;
        if let Some(vcpu) = t.vcpu {
            let guest = self.tenants[t.tenant].guest.as_mut();
            guest.expect("a VM has a guest").ran(vcpu, dt);
        }
        let Some(thread) = t.thread else {
            t.tally.compute_ns += dt;
            return;
        };
        let thread = &mut self.threads[thread];
        let overhead = dt.min(thread.overhead_ns);
        thread.overhead_ns -= overhead;
        let rest = dt - overhead;
        match thread.doing {
            Doing::Spin(_) => {
                t.tally.compute_ns += overhead;
                t.tally.spin_ns += rest;
            }
            Doing::Work | Doing::Busy(_) => {
                t.tally.compute_ns += dt;
                let mut done = rest.saturating_mul(u64::from(c.rate));
                if thread.work != u64::MAX {
                    done = done.min(thread.work);
                    thread.work -= done;
                }
                self.tenants[t.tenant].work_done += u128::from(done);
            }
            _ => t.tally.compute_ns += dt,
        }
    }

    /// If a thread has kernel time to spend and will then compute, it takes up that work at once. Nothing can
    /// come between the two, so one event for both is enough.
    fn foresee(&mut self, thread: super::ThreadIx, cpu: CpuIx) {
        let t = &self.threads[thread];
        if !self.is_settled(thread) {
            return;
        }
        let run = &self.tenants[t.tenant];
        if t.cursor.computes_next(&run.setup.plan, &run.shared) {
            if t.pending != Pending::Nothing {
                self.advance(thread, cpu);
            }
            self.advance(thread, cpu);
        }
    }

    /// Whether a thread waits for nothing any more, and nothing can make it wait again. A thread that waits
    /// for a lock or a queue may find that another was faster.
    fn is_settled(&self, thread: super::ThreadIx) -> bool {
        match self.threads[thread].pending {
            Pending::Nothing => true,
            Pending::Meet(_) => self.has_moved(thread),
            Pending::Until(at_ns, _) => at_ns <= self.now_ns,
            Pending::Acquire(_) | Pending::Put(..) | Pending::Take(_) | Pending::AwaitEnd(..) => false,
        }
    }

    /// Reports to the contention models what a CPU runs, if that changed. It looks ahead if that is safe.
    pub(super) fn tell(&mut self, cpu: CpuIx) {
        let mut place = None;
        let running = self.cpus[cpu].curr.and_then(|task| {
            let ix = self.tasks[task].thread?;
            let mut thread = &self.threads[ix];
            if thread.overhead_ns > 0 && thread.doing == Doing::Ready {
                self.foresee(ix, cpu);
                thread = &self.threads[ix];
            }
            place = thread.place(self.now_ns);
            Some(Running {
                task: task as u32,
                program: thread.program,
                character: thread.character,
                spinning: matches!(thread.doing, Doing::Spin(_)),
            })
        });
        if self.contention.set_at(self.now_ns, cpu as u32, running, place) {
            self.cpus[cpu].rate = ONE;
            self.stirred = true;
        } else if let Some(place) = place {
            self.stirred |= self.contention.goes_on(self.now_ns, cpu as u32, place);
        }
    }

    /// Arms the moment at which a CPU's present activity ends. Then the CPU is clean again.
    pub(super) fn arm(&mut self, cpu: CpuIx) {
        let c = &mut self.cpus[cpu];
        c.dirty = false;
        let end_ns = c.curr.and_then(|task| {
            let t = &self.tasks[task];
            // A vCPU that was woken for a thread halts at once if another vCPU took that thread.
            let Some(thread) = t.thread else { return Some(self.now_ns) };
            let thread = &self.threads[thread];
            let begin_ns = self.now_ns + thread.overhead_ns;
            let own = match thread.doing {
                Doing::Work if thread.work == u64::MAX => None,
                Doing::Work if c.rate == ONE => Some(begin_ns + ((thread.work + u64::from(ONE) - 1) >> BITS)),
                Doing::Work => Some(begin_ns + thread.work.div_ceil(u64::from(c.rate))),
                Doing::Busy(until) => Some(until.max(begin_ns)),
                Doing::Spin(until) => until.map(|u| u.max(begin_ns)),
                Doing::Ready | Doing::Sinking => Some(begin_ns),
                Doing::Asleep | Doing::Ended => None,
            };
            let Some(vcpu) = t.vcpu else { return own };
            let guest = self.tenants[t.tenant].guest.as_ref().expect("a VM has a guest");
            let rotation = guest.slice_left(vcpu, self.guest_slice_ns).map(|left| self.now_ns + left);
            own.into_iter().chain(rotation).min()
        });
        match end_ns {
            Some(at_ns) => self.timers.arm(c.step, at_ns),
            None => self.timers.disarm(c.step),
        }
    }

    /// A CPU's activity ended: carries out what follows until something takes time again.
    pub(super) fn step(&mut self, cpu: CpuIx) {
        self.settle(cpu);
        while let Some(task) = self.cpus[cpu].curr {
            if self.tasks[task].vcpu.is_some() {
                self.rotate_guest(task);
            }
            let Some(thread) = self.tasks[task].thread else {
                self.leave(cpu, State::Blocked(Reason::Halt));
                continue;
            };
            let t = &mut self.threads[thread];
            if t.overhead_ns > 0 {
                break;
            }
            match t.doing {
                Doing::Work if t.work > 0 => break,
                Doing::Busy(until) if until > self.now_ns => break,
                Doing::Work | Doing::Busy(_) | Doing::Ready => {
                    t.doing = Doing::Ready;
                    self.advance(thread, cpu);
                }
                Doing::Spin(Some(until)) if until <= self.now_ns => {
                    t.doing = Doing::Sinking;
                    t.overhead_ns += self.model.costs.block_ns;
                }
                Doing::Spin(_) => break,
                Doing::Sinking => self.fall_asleep(thread, cpu),
                Doing::Asleep | Doing::Ended => break,
            }
        }
        self.soil(cpu);
    }

    /// A thread that comes to a CPU checks whether its wait is over.
    #[inline]
    pub(super) fn resume(&mut self, task: TaskIx) {
        let Some(thread) = self.tasks[task].thread else { return };
        let t = &self.threads[thread];
        if matches!(t.doing, Doing::Spin(_)) && self.has_moved(thread) {
            self.threads[thread].doing = Doing::Ready;
        }
    }

    /// A CPU chooses its next task.
    pub(super) fn switch(&mut self, cpu: CpuIx) {
        self.settle(cpu);
        let pick = self.sched.pick(self.now_ns, cpu, &mut self.fx);
        self.absorb_moves();
        let c = &mut self.cpus[cpu];
        let prev = std::mem::replace(&mut c.curr, pick.task);
        let still = prev.filter(|&t| self.tasks[t].state == State::Running);
        self.timers.disarm(c.resched);
        match pick.until_ns {
            Some(at_ns) => self.timers.arm(c.slice, at_ns),
            None => self.timers.disarm(c.slice),
        }
        if pick.task == still && pick.task.is_some() {
            self.soil(cpu);
            return;
        }
        self.timers.disarm(c.delay);
        if let Some(prev) = still {
            self.tasks[prev].tally.preemptions += 1;
            self.off_cpu(prev, cpu, State::Waiting);
            self.begin_wait(prev, cpu);
            if let Some(moved) = self.fx.expelled.take() {
                self.fx.moved.push(moved);
                self.take_moves();
            }
        }
        if prev != pick.task {
            self.totals.switches += 1;
            if self.trace.is_some() {
                self.record_switch(cpu, prev, pick.task);
            }
        }
        match pick.task {
            Some(task) => self.on_cpu(task, cpu),
            None => {
                self.busy.remove(cpu);
                let idle = self.tenants.len() as u32;
                self.cpus[cpu].occupancy.enter(self.now_ns, idle);
            }
        }
        self.soil(cpu);
    }

    fn record_switch(&mut self, cpu: CpuIx, prev: Option<TaskIx>, next: Option<TaskIx>) {
        let left = match prev.map(|t| self.tasks[t].state) {
            Some(State::Ended) => Left::Ended,
            Some(State::Blocked(_)) => Left::Blocked,
            _ => Left::Runnable,
        };
        self.record(cpu, TraceKind::Switch { prev: prev.map(task_id), left, next: next.map(task_id) });
    }

    /// A task gets the CPU.
    fn on_cpu(&mut self, task: TaskIx, cpu: CpuIx) {
        self.end_wait(task);
        let (t, c) = (&mut self.tasks[task], &mut self.cpus[cpu]);
        if t.state != State::Waiting || t.cpu != cpu {
            let what =
                format!("task {} runs on CPU index {cpu} from state {:?} on {}", t.name, t.state, t.cpu);
            self.fail(checker::bug("dispatch", what));
            return;
        }
        (t.state, t.ran) = (State::Running, true);
        let (thread, allowed) = (t.thread, checker::affinity(t.affinity.as_deref(), cpu, &t.name));
        c.switched_in_ns = self.now_ns;
        c.occupancy.enter(self.now_ns, t.tenant as u32);
        let is_long = c.occupancy.is_long();
        if let Err(fault) = allowed {
            self.fail(fault);
        }
        if is_long {
            self.prune(cpu);
        }
        if self.busy.is_empty() {
            self.arm_tick();
        }
        self.busy.insert(cpu);
        match thread {
            Some(thread) => self.threads[thread].overhead_ns += self.model.costs.switch_ns,
            None => self.dispatch_guest(task),
        }
        self.resume(task);
    }

    /// A task loses the CPU (it is settled already).
    #[inline]
    fn off_cpu(&mut self, task: TaskIx, cpu: CpuIx, state: State) {
        let stretch_ns = self.now_ns - self.cpus[cpu].switched_in_ns;
        let t = &mut self.tasks[task];
        t.tally.stretches.record(stretch_ns);
        t.state = state;
        t.since_ns = self.now_ns;
    }

    /// The running task of a CPU blocks, ends or is parked, and the CPU goes on with another.
    pub(super) fn leave(&mut self, cpu: CpuIx, state: State) {
        self.settle(cpu);
        let task = self.cpus[cpu].curr.expect("a task runs where one leaves");
        self.sched.block(self.now_ns, cpu, state == State::Ended);
        let tally = &mut self.tasks[task].tally;
        match state {
            State::Parked => tally.preemptions += 1,
            _ => tally.blocked += 1,
        }
        self.off_cpu(task, cpu, state);
        self.switch(cpu);
    }

    pub(super) fn begin_wait(&mut self, task: TaskIx, cpu: CpuIx) {
        let mark = self.cpus[cpu].occupancy.begin_wait();
        let t = &mut self.tasks[task];
        (t.cpu, t.since_ns, t.wait_since_ns, t.wait_mark) = (cpu, self.now_ns, self.now_ns, mark);
    }

    /// Charges a waiting task's wait so far.
    pub(super) fn charge_wait(&mut self, task: TaskIx) {
        let t = &mut self.tasks[task];
        t.charge(self.now_ns, &self.cpus[t.cpu].occupancy);
    }

    fn end_wait(&mut self, task: TaskIx) {
        let t = &mut self.tasks[task];
        let occupancy = &mut self.cpus[t.cpu].occupancy;
        t.charge(self.now_ns, occupancy);
        t.tally.waits.record(self.now_ns - t.wait_since_ns);
        occupancy.end_wait();
    }

    /// A waiting task leaves its queue without having run. It has been charged.
    pub(super) fn give_up_wait(&mut self, task: TaskIx) {
        self.sched.remove(self.now_ns, task);
        let t = &mut self.tasks[task];
        t.state = State::Parked;
        self.cpus[t.cpu].occupancy.end_wait();
    }

    fn prune(&mut self, cpu: CpuIx) {
        for task in 0..self.tasks.len() {
            if self.tasks[task].state == State::Waiting && self.tasks[task].cpu == cpu {
                self.charge_wait(task);
            }
        }
        self.cpus[cpu].occupancy.prune();
        let mark = self.cpus[cpu].occupancy.mark();
        for t in self.tasks.iter_mut().filter(|t| t.state == State::Waiting && t.cpu == cpu) {
            t.wait_mark = mark;
        }
    }

    /// A task becomes runnable.
    pub(super) fn wake_task(&mut self, task: TaskIx, how: Wake) {
        let now_ns = self.now_ns;
        let t = &mut self.tasks[task];
        match t.state {
            State::Blocked(reason) => t.tally.block(reason, now_ns - t.since_ns),
            State::Parked => t.tally.parked_ns += now_ns - t.since_ns,
            State::Unborn => t.born_ns = now_ns,
            state => {
                let what = format!("task {} woke up in state {state:?}", t.name);
                return self.fail(checker::bug("wake-up", what));
            }
        }
        t.since_ns = now_ns;
        let parked_until_ns = self.tenants[t.tenant].parked.then_some(FOREVER_NS);
        if !corun_decisions::may_run(now_ns, parked_until_ns, false) {
            t.state = State::Parked;
            return;
        }
        // A task that was parked before it began returns to no queue.
        let how = if how == Wake::Return && !t.queued { Wake::Fresh } else { how };
        (t.state, t.queued) = (State::Waiting, true);
        t.tally.wakeups += 1;
        self.totals.wakeups += 1;
        let before = t.cpu;
        let fresh = !t.ran;
        let cpu = self.sched.wake(now_ns, task, how, &mut self.fx);
        if !fresh {
            let distance = self.distances.between(before, cpu);
            self.tasks[task].tally.migrate(distance);
        }
        self.begin_wait(task, cpu);
        if self.trace.is_some() {
            let waker = self.waker(task, how).map(task_id).map(Waker::Task);
            self.record(cpu, TraceKind::Wakeup { task: task_id(task), waker });
        }
    }

    /// The task behind a wake-up; `None`: a timer, a device or the machine.
    fn waker(&self, task: TaskIx, how: Wake) -> Option<TaskIx> {
        let Wake::From(cpu) = how else { return None };
        let thread = self.tasks[task].thread.map(|thread| &self.threads[thread]);
        let is_timed = thread.is_some_and(|t| matches!(t.pending, Pending::Until(..)));
        self.cpus[cpu].curr.filter(|_| !is_timed)
    }

    /// Notes which waiting tasks the scheduler moved.
    #[inline]
    fn absorb_moves(&mut self) {
        if !self.fx.moved.is_empty() {
            self.take_moves();
        }
    }

    fn take_moves(&mut self) {
        for i in 0..self.fx.moved.len() {
            let m = self.fx.moved[i];
            self.charge_wait(m.task);
            let t = &mut self.tasks[m.task];
            t.tally.migrate(self.distances.between(t.cpu, m.to));
            self.cpus[t.cpu].occupancy.end_wait();
            (t.cpu, t.wait_mark) = (m.to, self.cpus[m.to].occupancy.begin_wait());
        }
        self.fx.moved.clear();
    }

    /// Does what the scheduler asks for.
    #[inline]
    pub(super) fn absorb(&mut self) {
        self.absorb_moves();
        if !self.fx.resched.is_empty() {
            self.reschedule();
        }
    }

    fn reschedule(&mut self) {
        let mut next = 0;
        while let Some(&r) = self.fx.resched.get(next) {
            next += 1;
            let c = &self.cpus[r.cpu];
            let (resched, delay) = (c.resched, c.delay);
            if c.curr.is_none() {
                if !self.timers.is_armed(resched) {
                    self.timers.arm(resched, self.now_ns + self.model.costs.idle_exit_ns);
                }
                continue;
            }
            let delay_ns = r.by.map_or(0, |t| self.tasks[t].preempt_delay_ns);
            if delay_ns > 0 {
                let armed_ns = self.timers.due_ns(delay);
                let due_ns = corun_decisions::preempt_due_ns(self.now_ns, delay_ns, armed_ns);
                if armed_ns != Some(due_ns) {
                    self.timers.arm(delay, due_ns);
                }
            } else if r.by.is_some() && self.acting != Some(r.cpu) {
                if !self.timers.is_armed(resched) {
                    self.timers.arm(resched, self.now_ns + self.model.costs.preempt_ns);
                }
            } else {
                self.switch(r.cpu);
            }
        }
        self.fx.resched.clear();
    }

    /// A thread on its way to sleep falls asleep, unless what it waits for has happened meanwhile.
    fn fall_asleep(&mut self, thread: super::ThreadIx, cpu: CpuIx) {
        let reason = match self.threads[thread].pending {
            Pending::Until(at_ns, reason) if at_ns > self.now_ns => {
                let fires_ns = self.fires_ns(at_ns);
                self.timers.arm(self.threads[thread].wake, fires_ns);
                reason
            }
            Pending::Until(..) => {
                self.threads[thread].pending = Pending::Nothing;
                self.threads[thread].doing = Doing::Ready;
                return;
            }
            _ if self.has_moved(thread) => {
                self.threads[thread].doing = Doing::Ready;
                return;
            }
            _ => Reason::Futex,
        };
        self.threads[thread].doing = Doing::Asleep;
        self.thread_leaves(thread, cpu, State::Blocked(reason));
    }
}
