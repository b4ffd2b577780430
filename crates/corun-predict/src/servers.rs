//! The tasks outside a program that it waited for, and how long others kept those tasks from a CPU meanwhile.
//!
//! A run log says when no task of the program ran or wanted to, and who ended that time. If a task outside the program ended it, the
//! program had waited for that task: its **server**. The ledger of a window says how long each task of the machine was kept from a CPU,
//! and by whom. It does not say when in the window. So log and ledger together give bounds. For example, a program waits for a server for
//! 0.9 s of a window of one second, and the server is in the run queue for 0.5 s. Then both happen at once for 0.4 to 0.5 s.
//!
//! As in a verdict, only what co-runners of the server took counts as taken from it. What its own tasks, the kernel, the wake-up of an
//! idle CPU and the program took would be there in a solo run, too.
//!
//! Limits: only the first server of a chain is known, and not what it waited for in turn. Nor is it known whether it worked for this program
//! when it was kept from a CPU. If a timer, a device or a network ended the wait, there is no server. A log that lost events says nothing.

use corun_model::run_log::{Event, Left, RunLog, Waker, What};
use corun_model::{Observation, TakenBy, TaskId, TenantId, TenantKind};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Limit: this many windows are kept while a wait lasts that began in the first of them. If it lasts longer, two windows become one.
const MOST_WINDOWS: usize = 64;
/// Limit: this many tasks and tenants are kept.
const MOST: usize = 100_000;

/// The least and the most that a time can be, in nanoseconds.
pub type Bounds = [u64; 2];

/// A tenant whose tasks a program waited for. Each cause has bounds of its own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Server {
    /// Its name.
    pub tenant: String,
    /// Its kind.
    pub kind: String,
    /// How long nothing of the program ran until a task of this tenant ended that, in nanoseconds.
    pub waited_ns: u64,
    /// For how much of that others held the CPU that this task wanted.
    pub queued_ns: Bounds,
    /// For how much of that a CPU budget stopped it.
    pub throttled_ns: Bounds,
    /// For how much of that somebody stopped or froze it.
    pub held_ns: Bounds,
    /// Who held the CPU, most first; with `unattributed_ns` they sum to the most of `queued_ns`.
    pub culprits: Vec<Holder>,
    /// The part of that for which it is not known who held the CPU.
    pub unattributed_ns: u64,
}

/// Who held a CPU that a server wanted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Holder {
    /// The tenant's name.
    pub tenant: String,
    /// Its kind.
    pub kind: String,
    /// For how long, in nanoseconds.
    pub steal_ns: u64,
}

/// Finds the servers of one program as its run goes on.
#[derive(Clone, Debug, Default)]
pub struct Servers {
    rest: Rest,
    /// Rests that somebody outside ended, of which windows are still to come.
    spans: Vec<Span>,
    windows: VecDeque<Seen>,
    /// Up to when the log is known.
    log_ns: u64,
    /// The tenants of tasks outside that ran.
    tenant_of: BTreeMap<TaskId, TenantId>,
    names: BTreeMap<TenantId, (String, TenantKind)>,
    served: BTreeMap<TenantId, Served>,
    has_lost: bool,
}

impl Servers {
    /// Takes the next window of the run, and the program's events up to about its end.
    pub fn push(&mut self, log: &RunLog, seen: &Observation, subject: TenantId) {
        if self.has_lost || log.lost > 0 {
            *self = Servers { has_lost: true, ..Servers::default() };
            return;
        }
        self.see(seen, subject);
        if self.log_ns == 0 {
            self.rest.since_ns = Some(log.start_ns);
        }
        self.spans.extend(log.events.iter().filter_map(|event| self.rest.take(event)));
        self.log_ns = self.log_ns.max(log.end_ns);
        while self.windows.front().is_some_and(|window| self.is_settled(window)) {
            let window = self.windows.pop_front().expect("there is one");
            self.settle(&window);
        }
        if self.windows.len() > MOST_WINDOWS {
            let pairs: Vec<Seen> = self.windows.drain(..).collect();
            self.windows = pairs.chunks(2).map(Seen::sum).collect();
        }
    }

    /// The servers so far. The one that the program waited for longest comes first. `None` if they are not known.
    pub fn found(&self) -> Option<Vec<Server>> {
        if self.has_lost {
            return None;
        }
        let mut served = self.served.clone();
        self.windows.iter().for_each(|window| window.add_to(&mut served, &self.spans, &self.tenant_of));
        let mut found: Vec<Server> = served
            .iter()
            .filter(|(_, served)| served.waited_ns > 0)
            .map(|(id, served)| {
                let (tenant, kind) = self.name(*id);
                let mut culprits: Vec<Holder> =
                    served.holders.iter().map(|(id, ns)| self.holder(*id, *ns)).collect();
                culprits.retain(|holder| holder.steal_ns > 0);
                culprits.sort_by_key(|holder| std::cmp::Reverse(holder.steal_ns));
                Server {
                    tenant,
                    kind,
                    waited_ns: served.waited_ns,
                    queued_ns: served.queued_ns,
                    throttled_ns: served.throttled_ns,
                    held_ns: served.held_ns,
                    culprits,
                    unattributed_ns: served.unattributed_ns,
                }
            })
            .collect();
        found.sort_by_key(|server| std::cmp::Reverse(server.waited_ns));
        Some(found)
    }

    fn holder(&self, id: TenantId, steal_ns: u64) -> Holder {
        let (tenant, kind) = self.name(id);
        Holder { tenant, kind, steal_ns }
    }

    fn name(&self, id: TenantId) -> (String, String) {
        match self.names.get(&id) {
            Some((name, kind)) => (name.clone(), kind.name().to_owned()),
            None => (format!("tenant {}", id.0), TenantKind::Others.name().to_owned()),
        }
    }

    fn see(&mut self, seen: &Observation, subject: TenantId) {
        if self.names.len() > MOST {
            let served = &self.served;
            let is_said = |id: &TenantId| served.iter().any(|(s, by)| s == id || by.holders.contains_key(id));
            self.names.retain(|id, _| is_said(id));
        }
        for tenant in &seen.tenants {
            self.names.insert(tenant.id, (tenant.name.clone(), tenant.kind));
        }
        if self.tenant_of.len() > MOST {
            self.tenant_of.clear();
        }
        let mut window = Seen { start_ns: seen.start_ns, end_ns: seen.end_ns, ..Seen::default() };
        for task in &seen.tasks {
            let ledger = &task.account.ledger;
            match seen.taken_by(subject, task.tenant) {
                TakenBy::Own => {
                    let awake_ns = ledger.total_ns() - ledger.parts().block_ns;
                    window.awake_ns = window.awake_ns.max(awake_ns);
                }
                TakenBy::CoRunner => {
                    if ledger.on_cpu_ns() > 0 {
                        self.tenant_of.insert(task.id, task.tenant);
                    }
                    let (parts, mut kept) = (ledger.parts(), Kept::default());
                    kept.throttled_ns = parts.throttled_ns;
                    kept.held_ns = parts.held.map_or(0, |held| held.stopped_ns + held.frozen_ns);
                    kept.unattributed_ns = task.account.culprits.unattributed_ns();
                    for share in task.account.culprits.shares().iter().filter(|share| share.tenant != subject)
                    {
                        if seen.taken_by(task.tenant, share.tenant) == TakenBy::CoRunner {
                            *kept.holders.entry(share.tenant).or_default() += share.steal_ns;
                        }
                    }
                    if kept.queued_ns() + kept.throttled_ns + kept.held_ns > 0 {
                        window.kept.entry(task.id).or_default().add(&kept);
                    }
                }
                _ => {}
            }
        }
        self.windows.push_back(window);
    }

    /// Whether it is known who ended each rest that reaches into a window.
    fn is_settled(&self, window: &Seen) -> bool {
        window.end_ns <= self.log_ns && self.rest.since_ns.is_none_or(|since_ns| since_ns >= window.end_ns)
    }

    fn settle(&mut self, window: &Seen) {
        window.add_to(&mut self.served, &self.spans, &self.tenant_of);
        self.spans.retain(|span| span.to_ns > window.end_ns);
    }
}

/// A time in which no task of the program ran or wanted to, and the task that ended it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Span {
    from_ns: u64,
    to_ns: u64,
    by: TaskId,
}

/// The tasks of a program that run or want to, and since when none does.
#[derive(Clone, Debug, Default)]
struct Rest {
    known: BTreeSet<TaskId>,
    awake: BTreeSet<TaskId>,
    /// The tasks that were woken while they were still awake, and who woke them.
    early: BTreeMap<TaskId, Option<TaskId>>,
    since_ns: Option<u64>,
}

impl Rest {
    /// Takes the next event. Returns a rest that a task outside the program has ended with it.
    fn take(&mut self, &Event { t_ns, task, what }: &Event) -> Option<Span> {
        match what {
            What::Leaves(Left::Waits(_)) => {
                self.is_first(task);
                self.is_off(task, t_ns);
                None
            }
            What::Leaves(Left::Ended | Left::Killed) => {
                self.is_first(task);
                self.known.remove(&task);
                self.early.remove(&task);
                self.is_off(task, t_ns);
                None
            }
            What::Woken(waker) => {
                let by = if let Waker::Task(by) = waker { Some(by) } else { None };
                if self.awake.contains(&task) {
                    self.early.insert(task, by);
                    return None;
                }
                self.early.remove(&task);
                self.known.insert(task);
                self.is_on(task, by, t_ns)
            }
            // Whoever starts it need not have let the program wait for that.
            What::Born { .. } => {
                self.known.insert(task);
                self.is_on(task, None, t_ns)
            }
            What::Runs { .. } | What::Leaves(Left::Preempted | Left::Yielded) => {
                let by = self.early.remove(&task).flatten();
                if self.is_first(task) {
                    return None;
                }
                self.is_on(task, by, t_ns)
            }
            What::SleepsUntil { .. } | What::Budget { .. } | What::Confines => None,
        }
    }

    /// A task is awake, since `by` has woken it.
    fn is_on(&mut self, task: TaskId, by: Option<TaskId>, now_ns: u64) -> Option<Span> {
        self.awake.insert(task);
        let from_ns = self.since_ns.take()?;
        let by = by.filter(|by| !self.known.contains(by))?;
        Some(Span { from_ns, to_ns: now_ns.max(from_ns), by })
    }

    /// Whether nothing was known of a task that is or was awake now. Then it may have been all the time, and nothing is known of the rest.
    fn is_first(&mut self, task: TaskId) -> bool {
        let is_first = self.known.insert(task);
        if is_first {
            self.awake.insert(task);
            self.since_ns = None;
        }
        is_first
    }

    /// A task is not awake any more.
    fn is_off(&mut self, task: TaskId, now_ns: u64) {
        if self.awake.remove(&task) && self.awake.is_empty() {
            self.since_ns = Some(now_ns);
        }
    }
}

/// How long a task was kept from a CPU, in nanoseconds.
#[derive(Clone, Debug, Default)]
struct Kept {
    holders: BTreeMap<TenantId, u64>,
    unattributed_ns: u64,
    throttled_ns: u64,
    held_ns: u64,
}

impl Kept {
    fn queued_ns(&self) -> u64 {
        self.holders.values().sum::<u64>() + self.unattributed_ns
    }

    fn add(&mut self, other: &Kept) {
        other.holders.iter().for_each(|(id, ns)| *self.holders.entry(*id).or_default() += ns);
        self.unattributed_ns += other.unattributed_ns;
        self.throttled_ns += other.throttled_ns;
        self.held_ns += other.held_ns;
    }
}

/// What a window says of it.
#[derive(Clone, Debug, Default)]
struct Seen {
    start_ns: u64,
    end_ns: u64,
    /// A task of the program was awake for so long, so the program did not rest then.
    awake_ns: u64,
    /// Tasks outside of it that were kept from a CPU.
    kept: BTreeMap<TaskId, Kept>,
}

impl Seen {
    /// Windows that follow each other.
    fn sum(windows: &[Seen]) -> Seen {
        let mut sum = windows[0].clone();
        for next in &windows[1..] {
            sum.end_ns = next.end_ns;
            sum.awake_ns += next.awake_ns;
            next.kept.iter().for_each(|(task, kept)| sum.kept.entry(*task).or_default().add(kept));
        }
        sum
    }

    fn add_to(
        &self,
        served: &mut BTreeMap<TenantId, Served>,
        spans: &[Span],
        tenant_of: &BTreeMap<TaskId, TenantId>,
    ) {
        let mut waited: BTreeMap<TaskId, u64> = BTreeMap::new();
        for span in spans {
            let ns = span.to_ns.min(self.end_ns).saturating_sub(span.from_ns.max(self.start_ns));
            *waited.entry(span.by).or_default() += ns;
        }
        let window_ns = self.end_ns.saturating_sub(self.start_ns);
        let (all_ns, most_ns) = (waited.values().sum::<u64>(), window_ns.saturating_sub(self.awake_ns));
        let none = Kept::default();
        for (task, ns) in waited {
            let ns = if all_ns > most_ns { part(ns, most_ns, all_ns) } else { ns };
            if let (Some(tenant), 1..) = (tenant_of.get(&task), ns) {
                served.entry(*tenant).or_default().add(ns, self.kept.get(&task).unwrap_or(&none), window_ns);
            }
        }
    }
}

/// What is known of a server so far.
#[derive(Clone, Debug, Default)]
struct Served {
    waited_ns: u64,
    queued_ns: Bounds,
    throttled_ns: Bounds,
    held_ns: Bounds,
    holders: BTreeMap<TenantId, u64>,
    unattributed_ns: u64,
}

impl Served {
    /// The program waited for `ns` of a window for a task that was kept from a CPU for so long in that window.
    fn add(&mut self, ns: u64, kept: &Kept, window_ns: u64) {
        let both = |kept_ns: u64| [(ns + kept_ns).saturating_sub(window_ns), kept_ns.min(ns)];
        let add = |to: &mut Bounds, [least, most]: Bounds| *to = [to[0] + least, to[1] + most];
        self.waited_ns += ns;
        add(&mut self.throttled_ns, both(kept.throttled_ns));
        add(&mut self.held_ns, both(kept.held_ns));
        let queued_ns = kept.queued_ns();
        let [least, most] = both(queued_ns);
        add(&mut self.queued_ns, [least, most]);
        let mut left_ns = most;
        for (holder, ns) in &kept.holders {
            let ns = part(*ns, most, queued_ns);
            left_ns -= ns;
            *self.holders.entry(*holder).or_default() += ns;
        }
        // What rounding leaves is as little known.
        self.unattributed_ns += left_ns;
    }
}

/// `ns` times `part` of `whole`, rounded down.
fn part(ns: u64, part: u64, whole: u64) -> u64 {
    (u128::from(ns) * u128::from(part) / u128::from(whole.max(1))) as u64
}

#[cfg(test)]
mod tests;
