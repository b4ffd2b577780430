//! Counters of an agent: the sums of all windows so far, for a bounded number of tenants.
//!
//! A tenant that people ask for by name, such as a container or a step of Slurm, gets series of its own at
//! once. Any other gets them once it has been seen for [`GROWN_UP_NS`], or since the agent began. If there is
//! no room for all, [`Claim`] decides who comes first. A tenant without series is summed in `other`, so
//! nothing is missing from the sums. Threads of the kernel are one tenant, and so is corun. A tenant that
//! ends keeps its series for [`LINGER_NS`], so that its last moments are scraped. Then they all end together.

use crate::admission::{is_asked_for, Claim};
use crate::blame::{left_after, Blame};
use crate::label;
use crate::longest::{self, Longest};
use corun_model::observation::{Account, Loss, TaskObservation, TenantObservation};
use corun_model::{Histogram, Ledger, Observation, TakenBy, Tenant, TenantId, TenantKind};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// The categories of time, as in the JSON of a profile.
pub const CATEGORIES: [&str; 9] =
    ["compute", "spin", "block", "steal", "throttled", "stopped", "frozen", "parked", "unknown"];

/// How long a process group, a unit or another cgroup must live before it has series of its own: a build has
/// thousands that live for less.
pub const GROWN_UP_NS: u64 = 3_000_000_000;
/// How long the series of a tenant stay after its end.
pub const LINGER_NS: u64 = 120_000_000_000;
/// What the contended ratio is of.
pub const RECENT_NS: u64 = 10_000_000_000;

/// Time by category, in nanoseconds; `None` if it was never measured separately.
pub type ByCategory = [Option<u64>; 9];

/// The counts of one tenant.
#[derive(Clone, Debug)]
pub struct Series {
    /// Its label.
    pub label: Arc<str>,
    /// What sort of thing it is.
    pub kind: TenantKind,
    /// Its key; empty if it stands for several.
    pub key: String,
    /// Where its time went.
    pub time: ByCategory,
    /// Lengths of its waits in the run queue; `None` if the source does not have them.
    pub waits: Option<Histogram>,
    /// An example of a long wait; `None` if there was none so far.
    pub longest: Option<Longest>,
    /// Who took its steal.
    pub blame: Blame<Arc<str>>,
    /// The start of its count, on the host's clock.
    pub since_ns: u64,
    /// When it was last seen.
    seen_ns: u64,
    /// Its claim if there is no room for all.
    claim: Claim,
}

/// The counts of the machine.
#[derive(Clone, Debug, Default)]
pub struct Node {
    /// Windows so far.
    pub windows: u64,
    /// Their time.
    pub observed_ns: u64,
    /// Idle, busy and unknown time of CPUs.
    pub cpu_ns: [u64; 3],
    /// What the hypervisor took; `None` if this machine does not say.
    pub host_steal_ns: Option<u64>,
    /// Time in hard and soft interrupts.
    pub irq_ns: Option<u64>,
    /// The same of soft interrupts.
    pub softirq_ns: Option<u64>,
    /// Time of all tasks, including tenants whose series have ended.
    pub time: ByCategory,
    /// The losses.
    pub loss: Loss,
    /// How often a tenant found no room, or lost its place, and is in `other`.
    pub dropped_tenants: u64,
    /// The demand of tasks lately, at the end of the window.
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
    /// In `other`.
    Other(Waiting),
}

/// A tenant without series of its own.
#[derive(Clone, Debug)]
struct Waiting {
    claim: Claim,
    /// The time from which it wants some: by then it has lived for a while.
    from_ns: u64,
    /// Whether it has none because there is no room.
    is_dropped: bool,
}

/// A tenant that has series of its own.
struct Holder {
    claim: Claim,
    has_ended: bool,
    seen_ns: u64,
    label: Arc<str>,
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
    /// How far the time of day is ahead of the host's clock.
    pub ahead_ns: u64,
}

impl Totals {
    /// For at most this many tenants of their own.
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
            ahead_ns: 0,
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

    /// Changes the number of tenants for which there is room. Existing ones stay until they end.
    pub fn set_most(&mut self, most: usize) {
        self.most = most;
    }

    /// The share of the time in which tasks ran or wanted to that they waited for a CPU that somebody else
    /// had, over the last ten seconds. Time without a budget is no such wait, nor is waiting for an idle CPU.
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
        self.find_places(seen, is_first);
        self.node.add(seen);
        for t in &seen.by_tenant {
            self.add(t, seen);
        }
        for task in &seen.tasks {
            self.note_wait(task, seen);
        }
        let (end_ns, left) = (seen.end_ns, left_after(seen.window_ns()));
        for s in self.series.values_mut() {
            s.blame.pass(left);
            s.claim.pass(left);
        }
        for place in self.places.values_mut() {
            if let Place::Other(waiting) = place {
                waiting.claim.pass(left);
            }
        }
        self.end(|s| s.seen_ns + LINGER_NS <= end_ns);
    }

    /// Finds a place for every active tenant that has none.
    fn find_places(&mut self, seen: &Observation, is_first: bool) {
        let mut wanting = Vec::new();
        for t in &seen.by_tenant {
            let Some(tenant) = seen.tenant(t.id) else { continue };
            let labels = &self.labels;
            let new = || match (label::shared(tenant.kind), labels.get(&tenant.key)) {
                (Some(word), _) => Place::Shared(word),
                (None, Some(label)) => Place::Own(label.clone()),
                (None, None) => {
                    let is_at_once = is_first || is_asked_for(tenant.kind);
                    let from_ns = seen.start_ns + if is_at_once { 0 } else { GROWN_UP_NS };
                    Place::Other(Waiting { claim: Claim::new(tenant.kind), from_ns, is_dropped: false })
                }
            };
            match self.places.entry(t.id).or_insert_with(new) {
                Place::Other(waiting) if waiting.from_ns <= seen.end_ns => {
                    wanting.push((waiting.claim.after(&t.account.ledger), tenant));
                }
                _ => {}
            }
        }
        if !wanting.is_empty() {
            self.admit(wanting, seen);
        }
    }

    /// Gives series to tenants that want some, as long as there is room, and then in place of those that have
    /// ended or have the smaller claim.
    fn admit(&mut self, mut wanting: Vec<(Claim, &Tenant)>, seen: &Observation) {
        wanting.sort_by(|(a, s), (b, t)| b.compare(a).then(s.id.cmp(&t.id)));
        let is_room_for_all = self.labels.len() + wanting.len() <= self.most;
        let mut holders = if is_room_for_all { Vec::new() } else { self.holders(seen) };
        let mut gone = BTreeMap::new();
        for (claim, tenant) in wanting {
            if self.labels.len() >= self.most {
                let gives_way = |holder: &mut Holder| holder.has_ended || claim.beats(&holder.claim);
                let Some(holder) = holders.pop_if(gives_way) else {
                    if let Some(Place::Other(waiting)) = self.places.get_mut(&tenant.id) {
                        self.node.dropped_tenants += u64::from(!waiting.is_dropped);
                        waiting.is_dropped = true;
                    }
                    continue;
                };
                if let Some(series) = self.series.remove(&holder.label) {
                    self.labels.remove(&series.key);
                    gone.insert(series.key, Holder { claim: series.claim, ..holder });
                }
            }
            let label = self.own(tenant, seen.start_ns);
            let before = self.places.insert(tenant.id, Place::Own(label.clone()));
            if let (Some(Place::Other(waiting)), Some(series)) = (before, self.series.get_mut(&label)) {
                series.claim = waiting.claim;
            }
        }
        self.drop_all(&gone, seen);
    }

    /// Tenants with series of their own, in the order of keeping them: the first to give way comes last.
    fn holders(&self, seen: &Observation) -> Vec<Holder> {
        let of_own = |t: &TenantObservation| match self.places.get(&t.id) {
            Some(Place::Own(label)) => Some((label.clone(), t.account.ledger)),
            _ => None,
        };
        let did: BTreeMap<Arc<str>, Ledger> = seen.by_tenant.iter().filter_map(of_own).collect();
        let newest_ns = self.series.values().map(|s| s.seen_ns).max().unwrap_or(0);
        let own = self.series.values().filter(|s| !s.key.is_empty());
        let mut holders: Vec<Holder> = own
            .map(|s| Holder {
                claim: did.get(&s.label).map_or(s.claim, |did| s.claim.after(did)),
                has_ended: s.seen_ns < newest_ns,
                seen_ns: s.seen_ns,
                label: s.label.clone(),
            })
            .collect();
        // All that have not ended were seen last.
        holders.sort_by(|a, b| {
            b.seen_ns.cmp(&a.seen_ns).then(b.claim.compare(&a.claim)).then_with(|| a.label.cmp(&b.label))
        });
        holders
    }

    /// The label of a tenant's new series, or of its present ones.
    fn own(&mut self, tenant: &Tenant, from_ns: u64) -> Arc<str> {
        if let Some(label) = self.labels.get(&tenant.key) {
            return label.clone();
        }
        let label: Arc<str> = label::of(tenant, |label| self.series.contains_key(label)).into();
        self.labels.insert(tenant.key.clone(), label.clone());
        let series = Series::new(label.clone(), tenant.kind, tenant.key.clone(), from_ns);
        self.series.insert(label.clone(), series);
        label
    }

    /// Tenants that lost their place, by key, are in `other` from now on.
    fn drop_all(&mut self, gone: &BTreeMap<String, Holder>, seen: &Observation) {
        if gone.is_empty() {
            return;
        }
        for (id, place) in &mut self.places {
            let holder = seen.tenant(*id).and_then(|tenant| gone.get(&tenant.key));
            if let (Place::Own(_), Some(Holder { claim, has_ended, .. })) = (&*place, holder) {
                let is_dropped = !has_ended;
                self.node.dropped_tenants += u64::from(is_dropped);
                *place = Place::Other(Waiting { claim: *claim, from_ns: seen.start_ns, is_dropped });
            }
        }
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
            // A tenant that is only mentioned: an ended one, or the idle CPU.
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
        if let Some(Place::Other(waiting)) = self.places.get_mut(&t.id) {
            waiting.claim = waiting.claim.after(&t.account.ledger);
        }
        let victim = self.label_of(t.id, seen);
        let shares: Vec<(Arc<str>, TakenBy, u64)> = t
            .account
            .culprits
            .shares()
            .iter()
            .map(|s| {
                let culprit = self.label_of(s.tenant, seen);
                // Tenants with the same series are the same for a reader, except those that have none of
                // their own.
                let is_same = culprit == victim && &*culprit != label::OTHER;
                let by = if is_same { TakenBy::Own } else { seen.taken_by(t.id, s.tenant) };
                (culprit, by, s.steal_ns)
            })
            .collect();
        let series = self.series.get_mut(&victim).expect("every label has series");
        series.seen_ns = seen.end_ns;
        series.add(&t.account);
        series.claim = series.claim.after(&t.account.ledger);
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

impl Totals {
    /// Keeps the longest wait of a task if it is that of its tenant.
    fn note_wait(&mut self, task: &TaskObservation, seen: &Observation) {
        let Some(bucket) = longest::bucket_of(task) else { return };
        let Some(Place::Own(label)) = self.places.get(&task.tenant) else { return };
        let gives_way = |known: &Longest| known.gives_way(bucket, seen.end_ns);
        if !self.series.get(label).is_some_and(|s| s.longest.as_ref().is_none_or(gives_way)) {
            return;
        }
        let culprit = longest::main_culprit(&task.account).map(|id| match id == task.tenant {
            true => Arc::from(label::SELF),
            false => self.label_of(id, seen),
        });
        let longest = Longest {
            task: task.id,
            thread: task.name.clone(),
            culprit,
            ended_ns: seen.end_ns,
            unix_ns: seen.end_ns + self.ahead_ns,
            bucket,
        };
        let label = label.clone();
        self.series.entry(label).and_modify(|s| s.longest = Some(longest));
    }
}

impl Series {
    fn new(label: Arc<str>, kind: TenantKind, key: String, since_ns: u64) -> Series {
        Series {
            label,
            kind,
            key,
            time: ByCategory::default(),
            waits: None,
            longest: None,
            blame: Blame::default(),
            since_ns,
            seen_ns: 0,
            claim: Claim::new(kind),
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
        self.loss.add(&seen.loss);
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
