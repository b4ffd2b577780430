//! Tenants start, go from phase to phase, end, start again, and are parked.

use super::{Doing, Engine, Pending, Reason, State, TenantIx, ThreadIx};
use crate::program::{Cursor, Shared};
use crate::sched::{CpuIx, TaskIx, Wake};

/// One run of a program from start to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// When it started.
    pub start_ns: u64,
    /// When its last phase began. With a single phase, this is `start_ns`.
    pub last_phase_ns: u64,
    /// When its last thread was done.
    pub end_ns: u64,
    /// The iterations that it did. If the run was cut short, so were the last of them.
    pub iterations: u64,
}

/// The record of a tenant's runs. Its size does not grow with their number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Completions {
    /// How many there were.
    pub count: usize,
    /// Their total duration in nanoseconds.
    pub took_ns: u128,
    /// The first.
    pub first: Option<Completion>,
    /// The last.
    pub last: Option<Completion>,
}

impl Completions {
    /// Counts one more.
    pub fn add(&mut self, run: Completion) {
        self.count += 1;
        self.took_ns += u128::from(run.end_ns - run.start_ns);
        self.first.get_or_insert(run);
        self.last = Some(run);
    }
}

impl Engine {
    pub(super) fn start_tenant(&mut self, tenant: TenantIx) {
        let run = &mut self.tenants[tenant];
        run.started = true;
        for thread in run.first_thread..run.first_thread + run.threads {
            self.threads[thread].doing = Doing::Asleep;
        }
        self.begin_run(tenant);
        let run = &self.tenants[tenant];
        let (threads, tasks) =
            (run.first_thread..run.first_thread + run.threads, run.first_task..run.first_task + run.tasks);
        let in_guest = run.guest.is_some();
        if self.trace.is_some() {
            tasks.clone().for_each(|t| self.name_in_trace(t));
        }
        if in_guest {
            // A vCPU beyond the number of threads starts halted.
            for task in tasks.skip(threads.len()) {
                let t = &mut self.tasks[task];
                (t.state, t.born_ns, t.since_ns) = (State::Blocked(Reason::Halt), self.now_ns, self.now_ns);
            }
            threads.for_each(|t| self.wake_in_guest(t, 0));
        } else {
            for task in tasks {
                self.threads[self.tasks[task].thread.expect("native")].doing = Doing::Ready;
                self.wake_task(task, Wake::Fresh);
            }
        }
    }

    /// Resets a program to its beginning.
    fn begin_run(&mut self, tenant: TenantIx) {
        let now_ns = self.now_ns;
        let run = &mut self.tenants[tenant];
        (run.started_ns, run.phase_ns, run.live_threads, run.phase) = (now_ns, now_ns, run.threads, 0);
        run.shared = Shared::new(run.setup.plan.phases.len());
        let plan = run.setup.plan.clone();
        for (object, &what) in run.objects.iter_mut().zip(&plan.objects) {
            *object = super::SyncObject::new(what);
        }
        for thread in run.first_thread..run.first_thread + run.threads {
            let t = &mut self.threads[thread];
            t.cursor = Cursor::new(t.index);
            (t.work, t.more_ns, t.pending) = (0, 0, Pending::Nothing);
        }
        self.arm_cut(tenant);
    }

    fn arm_cut(&mut self, tenant: TenantIx) {
        let run = &self.tenants[tenant];
        match run.setup.plan.phases.get(run.phase).and_then(|p| p.duration_ns) {
            Some(ns) => self.timers.arm(run.cut, self.now_ns + ns),
            None => self.timers.disarm(run.cut),
        }
    }

    /// All threads have met between two phases.
    pub(super) fn next_phase(&mut self, tenant: TenantIx) {
        let run = &mut self.tenants[tenant];
        run.phase = (run.phase + 1) % run.setup.plan.phases.len();
        run.phase_ns = self.now_ns;
        run.shared.begin_phase(run.phase);
        // Threads that put items into queues have left the queues of an earlier phase.
        run.objects.iter_mut().for_each(super::SyncObject::begin);
        self.arm_cut(tenant);
    }

    /// The time of a tenant's phase is up: the computing and sleeping of its threads end now.
    pub(super) fn cut(&mut self, tenant: TenantIx) {
        let run = &mut self.tenants[tenant];
        run.shared.cut = true;
        for thread in run.first_thread..run.first_thread + run.threads {
            let task = self.threads[thread].task;
            if self.tasks[task].state == State::Running && self.tasks[task].thread == Some(thread) {
                let cpu = self.tasks[task].cpu;
                self.settle(cpu);
                self.soil(cpu);
            }
            let t = &mut self.threads[thread];
            match (t.doing, t.pending) {
                (Doing::Work, _) => (t.work, t.more_ns) = (0, 0),
                (Doing::Busy(_), _) => t.doing = Doing::Busy(self.now_ns),
                (Doing::Asleep, Pending::Until(_, reason)) => {
                    t.pending = Pending::Until(self.now_ns, reason);
                    self.timers.disarm(t.wake);
                    self.sleep_over(thread);
                }
                (_, Pending::Until(_, reason)) => t.pending = Pending::Until(self.now_ns, reason),
                _ => {}
            }
        }
        self.acting = None;
    }

    /// A thread has done all its steps.
    pub(super) fn thread_ends(&mut self, thread: ThreadIx, cpu: CpuIx) {
        let tenant = self.threads[thread].tenant;
        let run = &mut self.tenants[tenant];
        run.live_threads -= 1;
        let last = run.live_threads == 0;
        let repeat = run.setup.repeat;
        self.threads[thread].doing = if repeat { Doing::Asleep } else { Doing::Ended };
        if last {
            self.complete(tenant);
            if repeat {
                return self.run_again(tenant, thread, cpu);
            }
        }
        let state = if repeat { State::Blocked(Reason::Futex) } else { State::Ended };
        self.thread_leaves(thread, cpu, state);
        if last && self.tenants[tenant].guest.is_some() {
            self.vm_ends(tenant);
        }
    }

    fn complete(&mut self, tenant: TenantIx) {
        let run = &mut self.tenants[tenant];
        let first = run.completions.count == 0;
        run.completions.add(Completion {
            start_ns: run.started_ns,
            last_phase_ns: run.phase_ns,
            end_ns: self.now_ns,
            iterations: run.shared.iterations,
        });
        self.timers.disarm(run.cut);
        if first && !run.setup.background {
            self.unfinished -= 1;
        }
        for next in self.tenants.iter().filter(|t| first && t.setup.after == Some(tenant)) {
            self.timers.arm(next.start, next.setup.start_ns.max(self.now_ns));
        }
    }

    /// A repeating program starts again: its last thread wakes the others.
    fn run_again(&mut self, tenant: TenantIx, last: ThreadIx, cpu: CpuIx) {
        self.begin_run(tenant);
        let run = &self.tenants[tenant];
        for thread in run.first_thread..run.first_thread + run.threads {
            if thread != last {
                self.threads[last].overhead_ns += self.model.costs.wake_ns;
                self.threads[thread].doing = Doing::Ready;
                self.wake_thread(thread, cpu);
            }
        }
        self.threads[last].doing = Doing::Ready;
    }

    fn vm_ends(&mut self, tenant: TenantIx) {
        let run = &self.tenants[tenant];
        for task in run.first_task..run.first_task + run.tasks {
            self.count_until_now(task);
            let t = &mut self.tasks[task];
            if matches!(t.state, State::Blocked(_)) {
                t.state = State::Ended;
            }
        }
    }

    /// Counts the time until now of a task that does not run.
    pub(super) fn count_until_now(&mut self, task: TaskIx) {
        let now_ns = self.now_ns;
        let t = &mut self.tasks[task];
        match t.state {
            State::Waiting => self.charge_wait(task),
            State::Blocked(reason) => t.tally.block(reason, now_ns - t.since_ns),
            State::Parked => t.tally.parked_ns += now_ns - t.since_ns,
            State::Running => {
                let cpu = t.cpu;
                self.settle(cpu);
            }
            State::Unborn | State::Ended => {}
        }
        self.tasks[task].since_ns = now_ns;
    }

    /// Stops a tenant's tasks. All leave at one instant. A CPU that runs out of tasks first looks for tasks
    /// to pull, which takes longer than a switch. So a CPU with a waiting task takes it before another CPU
    /// can.
    pub(super) fn park(&mut self, tenant: TenantIx) {
        self.tenants[tenant].parked = true;
        self.sched.set_debiting(self.now_ns, false);
        let run = &self.tenants[tenant];
        let mut cpus = Vec::new();
        for task in run.first_task..run.first_task + run.tasks {
            self.count_until_now(task);
            match self.tasks[task].state {
                State::Running => cpus.push(self.tasks[task].cpu),
                State::Waiting => self.give_up_wait(task),
                _ => {}
            }
        }
        cpus.sort_by_key(|&cpu| self.cpus[cpu].occupancy.open_waits() == 0);
        for cpu in cpus {
            self.leave(cpu, State::Parked);
        }
        self.finish_instant();
    }

    /// Lets a parked tenant's tasks run again.
    pub(super) fn unpark(&mut self, tenant: TenantIx) {
        self.tenants[tenant].parked = false;
        self.sched.set_debiting(self.now_ns, self.tenants.iter().all(|t| !t.parked));
        let run = &self.tenants[tenant];
        for task in run.first_task..run.first_task + run.tasks {
            if self.tasks[task].state == State::Parked {
                self.wake_task(task, Wake::Return);
            }
        }
        self.finish_instant();
    }

    /// Restricts a task to CPUs, and moves it there if it is elsewhere.
    pub(super) fn confine(&mut self, task: TaskIx, to: Option<std::rc::Rc<crate::cpu_set::CpuSet>>) {
        let forbidden = |cpu: CpuIx| to.as_ref().is_some_and(|set| !set.contains(cpu));
        let (state, cpu) = (self.tasks[task].state, self.tasks[task].cpu);
        self.tasks[task].affinity.clone_from(&to);
        self.sched.set_affinity(task, to.clone());
        if matches!(state, State::Running | State::Waiting) && forbidden(cpu) {
            self.count_until_now(task);
            if state == State::Running {
                self.leave(cpu, State::Parked);
            } else {
                self.give_up_wait(task);
            }
            self.wake_task(task, Wake::Return);
        }
        self.finish_instant();
    }

    /// Which task waits for what, if nothing can ever happen again.
    pub(super) fn describe_deadlock(&self) -> String {
        let stuck: Vec<String> = self
            .tenants
            .iter()
            .filter(|t| t.started && t.live_threads > 0)
            .map(|t| {
                let waiting = (t.first_thread..t.first_thread + t.threads)
                    .filter(|&i| self.threads[i].pending != Pending::Nothing)
                    .count();
                format!("{} ({waiting} of {} threads wait for each other)", t.setup.name, t.threads)
            })
            .collect();
        format!("the scenario deadlocks at {} ns: {}", self.now_ns, stuck.join(", "))
    }
}
