//! Barriers, locks and queues, built on event counts as in `corun load`.
//!
//! Every object counts its events. A thread that must wait notes the count, waits for a change, and tries
//! again. Nothing is handed over: as with a futex, the first thread to come takes a lock (barging). Every
//! spinning thread on a CPU sees an event. Of the sleeping threads that an event concerns, it wakes one
//! (locks, queues) or all (barriers, the end of a queue). A put item concerns threads that wait to take, and
//! a taken item those that wait to put. A spinning thread off its CPU sees the event when it returns.

use super::{Doing, Engine, Pending, State, TenantIx, ThreadIx};
use crate::program::Object;
use crate::sched::CpuIx;
use std::collections::{BTreeSet, VecDeque};

/// A synchronization object while its program runs, on cache lines of its own.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub(super) struct SyncObject {
    pub what: Object,
    /// Events so far.
    pub count: u64,
    /// Threads that wait, in the order in which they came.
    pub waiters: Vec<ThreadIx>,
    arrived: u32,
    holder: Option<ThreadIx>,
    items: VecDeque<u64>,
    producers: u32,
    /// Waits that were ended before they began.
    over: BTreeSet<u32>,
}

impl SyncObject {
    pub fn new(what: Object) -> SyncObject {
        let mut object = SyncObject {
            what,
            count: 0,
            waiters: Vec::new(),
            arrived: 0,
            holder: None,
            items: VecDeque::new(),
            producers: 0,
            over: BTreeSet::new(),
        };
        object.begin();
        object
    }

    /// A phase begins. No thread has left a queue yet.
    pub fn begin(&mut self) {
        if let Object::Queue { producers, .. } = self.what {
            self.producers = producers;
        }
    }
}

/// The result of an attempt.
pub(super) enum Tried {
    /// Done. If this was an event of the object, it is here.
    Done(Option<Event>),
    /// Not now.
    Wait,
}

/// An event for waiting threads.
#[derive(Clone, Copy, Debug)]
pub(super) struct Event {
    object: usize,
    what: What,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Opened,
    Released,
    Filled,
    Freed,
    /// For a queue: no thread puts items any more.
    Closed,
    /// This wait is over.
    Over(u32),
}

impl What {
    /// Whether a thread with this pending action may go on because of it.
    fn concerns(self, pending: Pending) -> bool {
        match self {
            What::Opened | What::Released => true,
            What::Filled | What::Closed => matches!(pending, Pending::Take(_)),
            What::Freed => matches!(pending, Pending::Put(..)),
            What::Over(wait) => matches!(pending, Pending::AwaitEnd(_, own) if own == wait),
        }
    }

    /// Whether it wakes all threads that it concerns.
    fn wakes_all(self) -> bool {
        matches!(self, What::Opened | What::Closed)
    }
}

impl Engine {
    /// Whether the object that a thread waits for has had an event since it began to wait.
    pub(super) fn has_moved(&self, thread: ThreadIx) -> bool {
        let t = &self.threads[thread];
        t.pending.object().is_some_and(|o| self.tenants[t.tenant].objects[o].count != t.seen)
    }

    /// Tries what a thread has pending.
    #[inline]
    pub(super) fn attempt(&mut self, thread: ThreadIx) -> Tried {
        let t = &self.threads[thread];
        let (pending, seen) = (t.pending, t.seen);
        let objects = &mut self.tenants[t.tenant].objects;
        match pending {
            Pending::Nothing => Tried::Done(None),
            Pending::Until(at_ns, _) if at_ns <= self.now_ns => Tried::Done(None),
            Pending::Until(..) => Tried::Wait,
            Pending::Meet(o) if objects[o].count != seen => Tried::Done(None),
            Pending::Meet(_) => Tried::Wait,
            Pending::Acquire(o) => {
                let lock = &mut objects[o];
                if lock.holder.is_some() {
                    return Tried::Wait;
                }
                lock.holder = Some(thread);
                Tried::Done(None)
            }
            Pending::Put(o, item) => {
                let queue = &mut objects[o];
                let Object::Queue { depth, .. } = queue.what else { unreachable!("only queues take items") };
                if queue.items.len() >= depth as usize {
                    return Tried::Wait;
                }
                queue.items.push_back(item);
                Tried::Done(Some(Event { object: o, what: What::Filled }))
            }
            Pending::AwaitEnd(o, wait) => match objects[o].over.remove(&wait) {
                true => Tried::Done(None),
                false => Tried::Wait,
            },
            Pending::Take(o) => {
                let queue = &mut objects[o];
                let item = queue.items.pop_front();
                if item.is_none() && queue.producers > 0 {
                    return Tried::Wait;
                }
                self.threads[thread].cursor.took(item);
                Tried::Done(item.map(|_| Event { object: o, what: What::Freed }))
            }
        }
    }

    /// A thread arrives at a barrier; the last one opens it.
    pub(super) fn meet(&mut self, thread: ThreadIx, object: usize, cpu: CpuIx) -> bool {
        let tenant = self.threads[thread].tenant;
        let run = &mut self.tenants[tenant];
        let barrier = &mut run.objects[object];
        let Object::Barrier(parties) = barrier.what else { unreachable!("threads meet at barriers") };
        barrier.arrived += 1;
        if barrier.arrived < parties {
            return false;
        }
        barrier.arrived = 0;
        if run.setup.plan.ended_by(object).is_some() {
            self.next_phase(tenant);
        } else {
            run.shared.opened(object);
        }
        self.signal(tenant, Event { object, what: What::Opened }, cpu, thread);
        true
    }

    /// A thread wakes all that wait for an object's next event.
    pub(super) fn tell_all(&mut self, thread: ThreadIx, object: usize, cpu: CpuIx) {
        let tenant = self.threads[thread].tenant;
        self.signal(tenant, Event { object, what: What::Opened }, cpu, thread);
    }

    /// A thread releases a lock.
    pub(super) fn release(&mut self, thread: ThreadIx, object: usize, cpu: CpuIx) {
        let tenant = self.threads[thread].tenant;
        self.tenants[tenant].objects[object].holder = None;
        self.signal(tenant, Event { object, what: What::Released }, cpu, thread);
    }

    /// A thread ends a wait of another.
    pub(super) fn wait_is_over(&mut self, thread: ThreadIx, object: usize, wait: u32, cpu: CpuIx) {
        let tenant = self.threads[thread].tenant;
        self.tenants[tenant].objects[object].over.insert(wait);
        self.signal(tenant, Event { object, what: What::Over(wait) }, cpu, thread);
    }

    /// A thread will put no more items into a queue.
    pub(super) fn producer_leaves(&mut self, thread: ThreadIx, object: usize, cpu: CpuIx) {
        let tenant = self.threads[thread].tenant;
        self.tenants[tenant].objects[object].producers -= 1;
        self.signal(tenant, Event { object, what: What::Closed }, cpu, thread);
    }

    /// An object had an event, caused by `by` on `cpu`: spinning threads on a CPU try at once, and sleeping
    /// ones are woken.
    pub(super) fn signal(&mut self, tenant: TenantIx, event: Event, cpu: CpuIx, by: ThreadIx) {
        let is_recorded = self.tenants[tenant].setup.plan.is_recorded();
        let wake_ns = if is_recorded { 0 } else { self.model.costs.wake_ns };
        let (mut next, mut events) = (Some(event), Vec::new());
        while let Some(event) = next.take().or_else(|| events.pop()) {
            self.tenants[tenant].objects[event.object].count += 1;
            if self.tenants[tenant].objects[event.object].waiters.is_empty() {
                continue;
            }
            let mut waiters = std::mem::take(&mut self.tenants[tenant].objects[event.object].waiters);
            let mut may_wake = true;
            waiters.retain(|&w| match self.threads[w].doing {
                Doing::Spin(_) if self.runs(w) => match self.attempt(w) {
                    Tried::Done(more) => {
                        events.extend(more);
                        self.notice(w);
                        false
                    }
                    Tried::Wait => {
                        self.wait_anew(w);
                        true
                    }
                },
                Doing::Asleep if may_wake && event.what.concerns(self.threads[w].pending) => {
                    may_wake = event.what.wakes_all();
                    self.threads[w].doing = Doing::Ready;
                    self.threads[by].overhead_ns += wake_ns;
                    self.wake_thread(w, cpu);
                    false
                }
                _ => true,
            });
            // A thread that began to wait meanwhile comes after the others. None can, but the order would be
            // wrong otherwise.
            let late = std::mem::replace(&mut self.tenants[tenant].objects[event.object].waiters, waiters);
            self.tenants[tenant].objects[event.object].waiters.extend(late);
        }
    }

    /// Whether a thread is executing now.
    fn runs(&self, thread: ThreadIx) -> bool {
        let task = &self.tasks[self.threads[thread].task];
        task.state == State::Running && task.thread == Some(thread)
    }

    /// A spinning thread sees that its wait is over.
    fn notice(&mut self, thread: ThreadIx) {
        let cpu = self.tasks[self.threads[thread].task].cpu;
        self.settle(cpu);
        let t = &mut self.threads[thread];
        (t.doing, t.pending) = (Doing::Ready, Pending::Nothing);
        t.overhead_ns += self.notice_ns;
        self.soil(cpu);
    }
}
