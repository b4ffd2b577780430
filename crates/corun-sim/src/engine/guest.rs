//! The guest inside a VM: which of its threads each vCPU runs.
//!
//! Method: each vCPU has a queue. After a slice, a thread goes to the end of its queue. A wake-up goes to a
//! halted vCPU if there is one, and otherwise to the thread's previous vCPU. Before a vCPU without threads
//! halts, it pulls from the longest queue, but never the only thread of another vCPU. This follows Linux,
//! whose balancing requires more than one runnable thread (`nr_running > 1`). To Linux, a vCPU that waits for
//! a CPU is about to run the thread that was woken there. The guest does not know that its vCPUs are
//! preempted. A thread that holds a lock on a preempted vCPU keeps it, and others spin or sleep. So
//! lock-holder preemption is a result of the model, not a rule.
//!
//! Limits: no weights and no wake-up preemption inside the guest. The papers' guests have a thread for each
//! vCPU, where neither matters.

use super::{Doing, Engine, State, ThreadIx};
use crate::sched::{CpuIx, TaskIx, Wake};
use std::collections::VecDeque;

/// A guest's run queues.
#[derive(Clone, Debug)]
pub(super) struct Guest {
    vcpus: Vec<Vcpu>,
}

#[derive(Clone, Debug, Default)]
struct Vcpu {
    queue: VecDeque<ThreadIx>,
    /// How long its thread has run since it was dispatched.
    used_ns: u64,
}

impl Guest {
    pub fn new(vcpus: usize) -> Guest {
        Guest { vcpus: vec![Vcpu::default(); vcpus] }
    }

    /// A vCPU's thread has run.
    pub fn ran(&mut self, vcpu: usize, ns: u64) {
        self.vcpus[vcpu].used_ns += ns;
    }

    /// The rest of the slice of a vCPU's thread; `None` if no other thread wants the vCPU.
    pub fn slice_left(&self, vcpu: usize, slice_ns: u64) -> Option<u64> {
        let v = &self.vcpus[vcpu];
        (!v.queue.is_empty()).then(|| slice_ns.saturating_sub(v.used_ns))
    }

    /// The next thread for a vCPU: from its own queue, or from the longest queue with more than one thread.
    /// The count includes the thread that the vCPU executes (`is_busy`).
    fn take(&mut self, vcpu: usize, is_busy: impl Fn(usize) -> bool) -> Option<ThreadIx> {
        self.vcpus[vcpu].used_ns = 0;
        if let Some(thread) = self.vcpus[vcpu].queue.pop_front() {
            return Some(thread);
        }
        let runnable = |v: usize| self.vcpus[v].queue.len() + usize::from(is_busy(v));
        let crowded = (0..self.vcpus.len()).filter(|&v| runnable(v) > 1);
        let longest = crowded.max_by_key(|&v| (self.vcpus[v].queue.len(), usize::MAX - v))?;
        self.vcpus[longest].queue.pop_front()
    }
}

impl Engine {
    /// A vCPU without a thread gets one, if there is one.
    pub(super) fn dispatch_guest(&mut self, task: TaskIx) {
        let (tenant, vcpu) = (self.tasks[task].tenant, self.tasks[task].vcpu.expect("a vCPU"));
        if self.tasks[task].thread.is_some() {
            return;
        }
        let Self { tenants, tasks, .. } = self;
        let first = tenants[tenant].first_task;
        let guest = tenants[tenant].guest.as_mut().expect("a VM has a guest");
        let Some(thread) = guest.take(vcpu, |v| tasks[first + v].thread.is_some()) else { return };
        self.tasks[task].thread = Some(thread);
        self.threads[thread].task = task;
        self.threads[thread].overhead_ns += self.model.costs.switch_ns;
    }

    /// A vCPU whose thread has used up its slice continues with the next in its queue.
    pub(super) fn rotate_guest(&mut self, task: TaskIx) {
        let Some(vcpu) = self.tasks[task].vcpu else { return };
        let slice_ns = self.guest_slice_ns;
        let Some(guest) = &mut self.tenants[self.tasks[task].tenant].guest else { return };
        if guest.slice_left(vcpu, slice_ns) != Some(0) {
            return;
        }
        if let Some(thread) = self.tasks[task].thread.take() {
            guest.vcpus[vcpu].queue.push_back(thread);
        }
        self.dispatch_guest(task);
        self.resume(task);
    }

    /// A guest's thread becomes runnable.
    pub(super) fn wake_in_guest(&mut self, thread: ThreadIx, cpu: CpuIx) {
        let tenant = self.threads[thread].tenant;
        let (first, n) = (self.tenants[tenant].first_task, self.tenants[tenant].tasks);
        let halted = |task: TaskIx| matches!(self.tasks[task].state, State::Blocked(_) | State::Unborn);
        let home = self.threads[thread].task;
        let chosen =
            if halted(home) { home } else { (first..first + n).find(|&t| halted(t)).unwrap_or(home) };
        let vcpu = self.tasks[chosen].vcpu.expect("a vCPU");
        self.threads[thread].task = chosen;
        self.threads[thread].doing = Doing::Ready;
        let guest = self.tenants[tenant].guest.as_mut().expect("a VM has a guest");
        guest.vcpus[vcpu].queue.push_back(thread);
        match self.tasks[chosen].state {
            State::Unborn => self.wake_task(chosen, Wake::Fresh),
            State::Blocked(_) => self.wake_task(chosen, Wake::From(cpu)),
            State::Running => {
                let cpu = self.tasks[chosen].cpu;
                self.settle(cpu);
                self.soil(cpu);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vcpu_without_threads_pulls_from_a_crowd_and_never_an_only_thread() {
        let mut guest = Guest::new(3);
        guest.vcpus[1].queue.push_back(7);
        assert_eq!(guest.take(0, |_| false), None, "vCPU 1 is about to run it");
        assert_eq!(guest.take(0, |v| v == 1), Some(7), "vCPU 1 runs another");
        guest.vcpus[2].queue.extend([8, 9]);
        assert_eq!(guest.take(0, |_| false), Some(8));
        assert_eq!(guest.take(0, |_| false), None);
        assert_eq!(guest.take(2, |_| false), Some(9), "its own it always takes");
    }
}
