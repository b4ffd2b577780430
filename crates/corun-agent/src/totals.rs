//! Counters of an agent: what all windows so far came to, for a bounded number of tenants.
//!
//! A tenant has series of its own as long as there is room: at once where somebody gave it a name by which it is asked for, as a
//! container or a step of Slurm has; any other once it has been seen for [`GROWN_UP_NS`], or since the agent began. What has none is
//! summed in `other`, so nothing is missing from the sums. Threads of the kernel are one tenant, and so is corun. A tenant that ends
//! keeps its series for [`LINGER_NS`], so that its last moments are scraped, and then they end together.

use crate::blame::Blame;
use crate::label;
use corun_model::observation::{Account, Loss, TenantObservation};
use corun_model::{Histogram, Ledger, Observation, TakenBy, Tenant, TenantId, TenantKind};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Where time goes, as in the JSON of a profile.
pub const CATEGORIES: [&str; 9] =
    ["compute", "spin", "block", "steal", "throttled", "stopped", "frozen", "parked", "unknown"];

/// How long a process group, a unit or another cgroup lives before it has series of its own: a build has thousands that live for
/// less.
pub const GROWN_UP_NS: u64 = 3_000_000_000;
/// How long the series of a tenant stay after its end.
pub const LINGER_NS: u64 = 120_000_000_000;
/// What the contended ratio is of.
pub const RECENT_NS: u64 = 10_000_000_000;

/// Time by category, in nanoseconds; `None`: nobody ever told it from another.
pub type ByCategory = [Option<u64>; 9];

/// What is counted of one tenant.
#[derive(Clone, Debug)]
pub struct Series {
    /// What it is called.
    pub label: Arc<str>,
    /// What sort of thing it is.
    pub kind: TenantKind,
    /// Its key; empty where it stands for several.
    pub key: String,
    /// Where its time went.
    pub time: ByCategory,
    /// Lengths of its waits in the run queue; `None`: the source does not tell.
    pub waits: Option<Histogram>,
    /// Who took its steal.
    pub blame: Blame<Arc<str>>,
    /// Since when it is counted, on the host's clock.
    pub since_ns: u64,
    /// When it was last seen.
    seen_ns: u64,
}

/// What is counted of the machine.
#[derive(Clone, Debug, Default)]
pub struct Node {
    /// Windows so far.
    pub windows: u64,
    /// Their time.
    pub observed_ns: u64,
    /// Idle, busy and unknown time of CPUs.
    pub cpu_ns: [u64; 3],
    /// What the hypervisor below took; `None`: this machine does not tell.
    pub host_steal_ns: Option<u64>,
    /// Time in hard and soft interrupts.
    pub irq_ns: Option<u64>,
    /// The same of soft interrupts.
    pub softirq_ns: Option<u64>,
    /// Time of all tasks, also of tenants whose series have ended.
    pub time: ByCategory,
    /// What was lost.
    pub loss: Loss,
    /// Tenants that found no room and are in `other`.
    pub dropped_tenants: u64,
    /// What tasks wanted lately, by the end of the window.
    recent: VecDeque<(u64, Demand)>,
}

/// What tasks wanted of the CPUs.
#[derive(Clone, Copy, Debug, Default)]
struct Demand {
    had_ns: u64,
    waited_ns: u64,
}

/// Where a tenant's time is counted.
#[derive(Clone, Debug)]
enum Place {
    Own(Arc<str>),
    /// One of the words that stand for several.
    Shared(&'static str),
    /// In `other` for now, until it has lived for a while.
    Young {
        since_ns: u64,
    },
    /// In `other` since there is no room.
    Dropped,
}

/// The counters.
#[derive(Clone, Debug)]
pub struct Totals {
    most: usize,
    began_ns: Option<u64>,
    series: BTreeMap<Arc<str>, Series>,
    labels: BTreeMap<String, Arc<str>>,
    places: BTreeMap<TenantId, Place>,
    /// The machine as a whole.
    pub node: Node,
}

impl Totals {
    /// For at most so many tenants of their own.
    pub fn new(most: usize) -> Totals {
        let series = [
            (label::KERNEL, TenantKind::Kernel),
            (label::CORUN, TenantKind::Watcher),
            (label::OTHER, TenantKind::Others),
        ]
        .map(|(word, kind)| (Arc::from(word), Series::new(word.into(), kind, String::new(), 0)));
        Totals {
            most,
            began_ns: None,
            series: series.into(),
            labels: BTreeMap::new(),
            places: BTreeMap::new(),
            node: Node::default(),
        }
    }

    /// Every tenant's counters, by label.
    pub fn series(&self) -> impl Iterator<Item = &Series> {
        self.series.values()
    }

    /// When the first window began, on the host's clock.
    pub fn began_ns(&self) -> Option<u64> {
        self.began_ns
    }

    /// Changes for how many tenants there is room. Those that are there stay until they end.
    pub fn set_most(&mut self, most: usize) {
        self.most = most;
    }

    /// Of the time in which tasks ran or wanted to, the share in which they waited for a CPU that somebody else had, over the
    /// last ten seconds. Time without a budget is no such wait, nor is that on an idle CPU.
    pub fn contended_ratio(&self) -> Option<f64> {
        let recent = &self.node.recent;
        let sum = |of: fn(&Demand) -> u64| recent.iter().map(|(_, d)| of(d)).sum::<u64>();
        let (had_ns, waited_ns) = (sum(|d| d.had_ns), sum(|d| d.waited_ns));
        match had_ns + waited_ns {
            0 => (!recent.is_empty()).then_some(0.0),
            all => Some(waited_ns as f64 / all as f64),
        }
    }

    /// Counts a window.
    pub fn push(&mut self, seen: &Observation) {
        let began_ns = *self.began_ns.get_or_insert(seen.start_ns);
        let is_first = began_ns == seen.start_ns;
        if is_first {
            self.series.values_mut().for_each(|s| s.since_ns = began_ns);
        }
        self.places.retain(|id, _| seen.tenant(*id).is_some());
        for t in &seen.by_tenant {
            if let Some(tenant) = seen.tenant(t.id) {
                self.place(tenant, seen, is_first);
            }
        }
        self.node.add(seen);
        for t in &seen.by_tenant {
            self.add(t, seen);
        }
        let end_ns = seen.end_ns;
        for s in self.series.values_mut() {
            s.blame.pass(seen.window_ns());
        }
        self.end(|s| s.seen_ns + LINGER_NS <= end_ns);
    }

    /// Finds a place for a tenant that did something, unless it has one.
    fn place(&mut self, tenant: &Tenant, seen: &Observation, is_first: bool) {
        let now_ns = seen.end_ns;
        let place = match self.places.get(&tenant.id) {
            Some(Place::Own(_) | Place::Shared(_)) => return,
            Some(Place::Young { since_ns }) if now_ns - since_ns < GROWN_UP_NS => return,
            Some(Place::Young { .. }) => self.own(tenant, seen.start_ns),
            Some(Place::Dropped) => match self.has_room() {
                true => self.own(tenant, seen.start_ns),
                false => return,
            },
            None => match label::shared(tenant.kind) {
                Some(word) => Place::Shared(word),
                None if is_first || is_asked_for(tenant.kind) || self.labels.contains_key(&tenant.key) => {
                    self.own(tenant, seen.start_ns)
                }
                None => Place::Young { since_ns: seen.start_ns },
            },
        };
        let is_dropped = |place: &Place| matches!(place, Place::Dropped);
        let was_dropped = self.places.get(&tenant.id).is_some_and(is_dropped);
        self.node.dropped_tenants += u64::from(is_dropped(&place) && !was_dropped);
        self.places.insert(tenant.id, place);
    }

    fn has_room(&self) -> bool {
        self.labels.len() < self.most
    }

    /// Series of its own: those it had when it was last there, or new ones where there is room.
    fn own(&mut self, tenant: &Tenant, from_ns: u64) -> Place {
        if let Some(label) = self.labels.get(&tenant.key) {
            return Place::Own(label.clone());
        }
        if !self.has_room() {
            // Whoever has ended makes room first.
            let ended = self.series.values().filter(|s| !s.key.is_empty()).min_by_key(|s| s.seen_ns);
            let newest_ns = self.series.values().map(|s| s.seen_ns).max().unwrap_or(0);
            match ended.map(|s| (s.label.clone(), s.seen_ns)) {
                Some((label, seen_ns)) if seen_ns < newest_ns => self.end(|s| s.label == label),
                _ => return Place::Dropped,
            }
        }
        let label: Arc<str> = label::of(tenant, |label| self.series.contains_key(label)).into();
        self.labels.insert(tenant.key.clone(), label.clone());
        let series = Series::new(label.clone(), tenant.kind, tenant.key.clone(), from_ns);
        self.series.insert(label.clone(), series);
        Place::Own(label)
    }

    /// Ends series of tenants of their own.
    fn end(&mut self, ends: impl Fn(&Series) -> bool) {
        let labels = &mut self.labels;
        self.series.retain(|_, s| {
            let is_over = !s.key.is_empty() && ends(s);
            if is_over {
                labels.remove(&s.key);
            }
            !is_over
        });
    }

    fn label_of(&self, id: TenantId, seen: &Observation) -> Arc<str> {
        match self.places.get(&id) {
            Some(Place::Own(label)) if self.series.contains_key(label) => label.clone(),
            Some(Place::Shared(word)) => Arc::from(*word),
            Some(_) => Arc::from(label::OTHER),
            // Somebody who is only spoken of: an ended tenant, or the idle CPU.
            None => match seen.tenant(id) {
                Some(t) => match (label::shared(t.kind), self.labels.get(&t.key)) {
                    (Some(word), _) => Arc::from(word),
                    (None, Some(label)) => label.clone(),
                    (None, None) => Arc::from(label::OTHER),
                },
                None => Arc::from(label::OTHER),
            },
        }
    }

    fn add(&mut self, t: &TenantObservation, seen: &Observation) {
        let victim = self.label_of(t.id, seen);
        let shares: Vec<(Arc<str>, TakenBy, u64)> = t
            .account
            .culprits
            .shares()
            .iter()
            .map(|s| {
                let culprit = self.label_of(s.tenant, seen);
                // Who has the same series is the same to whoever reads it, but for those who have none of their own.
                let is_same = culprit == victim && &*culprit != label::OTHER;
                let by = if is_same { TakenBy::Own } else { seen.taken_by(t.id, s.tenant) };
                (culprit, by, s.steal_ns)
            })
            .collect();
        let series = self.series.get_mut(&victim).expect("every label has series");
        series.seen_ns = seen.end_ns;
        series.add(&t.account);
        series.blame.unattributed_ns += t.account.culprits.unattributed_ns();
        for (culprit, by, ns) in shares {
            let blame = &mut series.blame;
            match by {
                TakenBy::Own => blame.own_ns += ns,
                TakenBy::Kernel => blame.kernel_ns += ns,
                TakenBy::Watcher => blame.corun_ns += ns,
                TakenBy::Idle => blame.idle_ns += ns,
                TakenBy::Unattributed => blame.unattributed_ns += ns,
                TakenBy::CoRunner if &*culprit == label::OTHER => blame.other_ns += ns,
                TakenBy::CoRunner => blame.add(&culprit, ns, seen.start_ns),
            }
        }
    }
}

/// Whether whoever made it asks for it by its name, from its first moment on.
fn is_asked_for(kind: TenantKind) -> bool {
    use TenantKind::{Container, Pod, SlurmStep, Vm, VmIo};
    matches!(kind, Container | Pod | SlurmStep | Vm | VmIo)
}

impl Series {
    fn new(label: Arc<str>, kind: TenantKind, key: String, since_ns: u64) -> Series {
        Series {
            label,
            kind,
            key,
            time: ByCategory::default(),
            waits: None,
            blame: Blame::default(),
            since_ns,
            seen_ns: 0,
        }
    }

    fn add(&mut self, account: &Account) {
        add_time(&mut self.time, &account.ledger);
        if let Some(waits) = &account.waits {
            self.waits.get_or_insert_default().add(waits);
        }
    }
}

fn add_time(time: &mut ByCategory, ledger: &Ledger) {
    let p = ledger.parts();
    let parts = [
        Some(p.compute_ns),
        p.spin_ns,
        Some(p.block_ns),
        Some(p.steal_ns),
        Some(p.throttled_ns),
        p.held.map(|h| h.stopped_ns),
        p.held.map(|h| h.frozen_ns),
        Some(p.parked_ns),
        Some(p.unknown_ns),
    ];
    for (sum, part) in time.iter_mut().zip(parts) {
        if let Some(ns) = part {
            *sum.get_or_insert(0) += ns;
        }
    }
}

impl Node {
    fn add(&mut self, seen: &Observation) {
        self.windows += 1;
        self.observed_ns += seen.window_ns();
        for cpu in &seen.cpus {
            let parts = [cpu.idle_ns, cpu.busy_ns, cpu.unknown_ns];
            self.cpu_ns.iter_mut().zip(parts).for_each(|(sum, ns)| *sum += ns);
        }
        let add = |sum: &mut Option<u64>, ns: Option<u64>| {
            if let Some(ns) = ns {
                *sum.get_or_insert(0) += ns;
            }
        };
        add(&mut self.host_steal_ns, seen.machine.host_steal_ns);
        add(&mut self.irq_ns, seen.machine.irq_ns);
        add(&mut self.softirq_ns, seen.machine.softirq_ns);
        self.loss.events += seen.loss.events;
        self.loss.unknown_ns += seen.loss.unknown_ns;
        self.loss.revised_ns += seen.loss.revised_ns;
        self.loss.untracked_tasks += seen.loss.untracked_tasks;
        self.loss.unlisted_tasks += seen.loss.unlisted_tasks;
        let mut demand = Demand::default();
        for t in &seen.by_tenant {
            add_time(&mut self.time, &t.account.ledger);
            let is_idle = |id| seen.tenant(id).is_some_and(|t: &Tenant| t.kind == TenantKind::Idle);
            let culprits = &t.account.culprits;
            let idle_ns: u64 =
                culprits.shares().iter().filter(|s| is_idle(s.tenant)).map(|s| s.steal_ns).sum();
            demand.had_ns += t.account.ledger.on_cpu_ns();
            demand.waited_ns += culprits.total_ns() - idle_ns;
        }
        self.recent.push_back((seen.end_ns, demand));
        while self.recent.front().is_some_and(|(ns, _)| ns + RECENT_NS <= seen.end_ns) {
            self.recent.pop_front();
        }
    }
}
