//! The metrics of an agent: what each is called and means, and how it is written for a scraper.
//!
//! Times are counters in seconds. Rates, shares and quantiles are the scraper's business. [`METRICS`] is what the documentation is
//! held against.

use crate::label;
use crate::totals::{Series, Totals, CATEGORIES};
use corun_model::histogram::BUCKETS;
use corun_model::Histogram;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{
    prometheus_text, text, DescriptorEncoder, EncodeCounterValue, EncodeLabelSet, MetricEncoder, NoLabelSet,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};
use std::fmt::Error;
use std::sync::{Arc, Mutex, PoisonError};

/// A metric.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// Its name, as it is scraped.
    pub name: &'static str,
    /// `counter`, `gauge` or `histogram`.
    pub kind: Kind,
    /// Its labels.
    pub labels: &'static [&'static str],
    /// What it means.
    pub help: &'static str,
}

/// What sort of metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Never falls, but when its agent or its tenant begins anew.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Counts by length.
    Histogram,
}

impl Kind {
    /// As the text format calls it.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        }
    }
}

macro_rules! metrics {
    ($($id:ident = $kind:ident $name:literal [$($label:literal),*] $help:literal;)*) => {
        $(const $id: Metric = Metric { name: $name, kind: Kind::$kind, labels: &[$($label),*], help: $help };)*
        /// All of them.
        pub const METRICS: &[Metric] = &[$($id),*];
    };
}

metrics! {
    TENANT = Counter "corun_tenant_seconds_total" ["tenant", "kind", "category"]
        "Time of the tasks of a tenant, by what they did with it: the categories of the ledger.";
    BLAME = Counter "corun_blame_seconds_total" ["victim", "culprit"]
        "Time in which tasks of the victim were ready to run while the culprit had the CPU. With what was dropped it sums to the victim's steal.";
    BLAME_DROPPED = Counter "corun_blame_dropped_seconds_total" ["victim"]
        "What culprits of the victim had counted that have no series any more, since others take more.";
    WAIT = Histogram "corun_wait_seconds" ["tenant"]
        "Lengths of waits in the run queue that ended; the sum is the tenant's steal.";
    TENANT_INFO = Gauge "corun_tenant_info" ["tenant", "kind", "key"]
        "1 for each tenant that has series of its own; the key holds the cgroup, container id, pod uid or process group.";
    CONTENDED = Gauge "corun_node_contended_ratio" []
        "Of the time in which tasks ran or were ready to, the share in which others had the CPU, over the last ten seconds. Time without a budget is not in it.";
    TASKS = Counter "corun_node_task_seconds_total" ["category"]
        "Time of all tasks of the machine, also of tenants whose series have ended.";
    CPU = Counter "corun_node_cpu_seconds_total" ["state"]
        "Time of all CPUs: idle, busy, or unknown.";
    HOST_STEAL = Counter "corun_node_host_steal_seconds_total" []
        "Time that the hypervisor below took; absent where this machine does not tell.";
    IRQ = Counter "corun_node_interrupt_seconds_total" ["kind"]
        "Time in interrupts, hard or soft; absent where this machine does not tell.";
    OBSERVED = Counter "corun_observed_seconds_total" []
        "Time that was observed.";
    WINDOWS = Counter "corun_windows_total" []
        "Windows that were observed.";
    SEES_CULPRITS = Gauge "corun_sees_culprits" []
        "1 where it is seen who holds CPUs (eBPF), 0 where all steal is unattributed (schedstat).";
    LOST_EVENTS = Counter "corun_lost_events_total" []
        "Events that found no room.";
    UNKNOWN = Counter "corun_unknown_seconds_total" []
        "Time of tasks that fell into no category.";
    UNTRACKED = Counter "corun_untracked_tasks_total" []
        "Tasks that could not be followed, summed over windows.";
    TENANTS = Gauge "corun_tenants" []
        "Tenants that have series of their own.";
    DROPPED = Counter "corun_dropped_tenants_total" []
        "Tenants that found no room and are counted in other.";
    RING_WRITTEN = Counter "corun_ring_intervals_written_total" []
        "Intervals that were written to the ring; absent without a ring.";
    RING_LOST = Counter "corun_ring_intervals_lost_total" []
        "Intervals that could not be written to the ring.";
    RING_BYTES = Gauge "corun_ring_bytes" []
        "Room that the ring takes on the disk.";
    REFUSED = Counter "corun_connections_refused_total" []
        "Connections that were turned away, since there were too many.";
    BROKEN = Counter "corun_connections_broken_total" []
        "Connections that took too long or ended in the middle.";
    OWN_CPU = Counter "corun_agent_cpu_seconds_total" []
        "CPU time of the agent itself, without that of its probe in the kernel.";
    READY = Gauge "corun_ready" []
        "1 while /readyz answers 200.";
    BUILD = Gauge "corun_build_info" ["version", "source"]
        "1; the version of corun, and how it sees.";
}

/// What an agent knows besides its totals.
#[derive(Clone, Debug, Default)]
pub struct Own {
    /// How it sees: `ebpf` or `schedstat`.
    pub source: String,
    /// Whether culprits are seen.
    pub sees_culprits: bool,
    /// Whether it is ready.
    pub is_ready: bool,
    /// Intervals written and lost, and bytes of the ring, if there is one.
    pub ring: Option<(u64, u64, u64)>,
    /// Connections that were refused and that broke.
    pub connections: (u64, u64),
    /// Its CPU time.
    pub cpu_ns: u64,
}

/// The two text formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// That of Prometheus, version 0.0.4.
    Prometheus,
    /// OpenMetrics 1.0.0.
    OpenMetrics,
}

impl Format {
    /// The one that an `Accept` line asks for.
    pub fn accepted(accept: &str) -> Format {
        match accept.contains("application/openmetrics-text") {
            true => Format::OpenMetrics,
            false => Format::Prometheus,
        }
    }

    /// Its `Content-Type`.
    pub fn content_type(self) -> &'static str {
        match self {
            Format::Prometheus => prometheus_text::CONTENT_TYPE,
            Format::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// What is scraped.
pub struct Exposition {
    registry: Registry,
}

impl Exposition {
    /// Of these totals, and of what `own` says at each scrape.
    pub fn new(totals: Arc<Mutex<Totals>>, own: impl Fn() -> Own + Send + Sync + 'static) -> Exposition {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(Scrape { totals, own: Box::new(own) }));
        Exposition { registry }
    }

    /// All metrics as they are now.
    pub fn encode(&self, format: Format) -> String {
        let mut out = String::new();
        let done = match format {
            Format::Prometheus => prometheus_text::encode(&mut out, &self.registry),
            Format::OpenMetrics => text::encode(&mut out, &self.registry),
        };
        done.expect("a string takes all that is written");
        out
    }
}

struct Scrape {
    totals: Arc<Mutex<Totals>>,
    own: Box<dyn Fn() -> Own + Send + Sync>,
}

impl std::fmt::Debug for Scrape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Scrape")
    }
}

/// The rows of one metric.
struct Rows<'a>(MetricEncoder<'a>);

impl<'a> Rows<'a> {
    fn of<'s>(encoder: &'s mut DescriptorEncoder<'_>, metric: &'s Metric) -> Result<Rows<'s>, Error> {
        let (suffix, kind) = match metric.kind {
            Kind::Counter => ("_total", MetricType::Counter),
            Kind::Gauge => ("", MetricType::Gauge),
            Kind::Histogram => ("", MetricType::Histogram),
        };
        let name = metric.name.strip_suffix(suffix).expect("counters end in _total");
        // The unit is a part of the name that the library adds.
        let (name, unit) = match name.strip_suffix("_seconds") {
            Some(name) => (name, Some(&Unit::Seconds)),
            None => (name, None),
        };
        Ok(Rows(encoder.encode_descriptor(name, metric.help, unit, kind)?))
    }

    fn count(&mut self, labels: &impl EncodeLabelSet, value: &impl EncodeCounterValue) -> Result<(), Error> {
        self.0.encode_family(labels)?.encode_counter::<NoLabelSet, _, f64>(value, None)
    }

    fn gauge(&mut self, labels: &impl EncodeLabelSet, value: f64) -> Result<(), Error> {
        self.0.encode_family(labels)?.encode_gauge(&value)
    }
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

const NONE: [(&str, &str); 0] = [];

impl Collector for Scrape {
    fn encode(&self, mut e: DescriptorEncoder) -> Result<(), Error> {
        let own = (self.own)();
        let totals = self.totals.lock().unwrap_or_else(PoisonError::into_inner);
        tenants(&mut e, &totals)?;
        node(&mut e, &totals)?;
        agent(&mut e, &totals, &own)
    }
}

fn tenants(e: &mut DescriptorEncoder, totals: &Totals) -> Result<(), Error> {
    let mut rows = Rows::of(e, &TENANT)?;
    for s in totals.series() {
        for (category, ns) in CATEGORIES.iter().zip(s.time) {
            if let Some(ns) = ns {
                let labels = [("tenant", &*s.label), ("kind", s.kind.name()), ("category", *category)];
                rows.count(&labels, &seconds(ns))?;
            }
        }
    }
    let mut rows = Rows::of(e, &BLAME)?;
    for s in totals.series() {
        blame(&mut rows, s)?;
    }
    let mut rows = Rows::of(e, &BLAME_DROPPED)?;
    for s in totals.series().filter(|s| s.blame.dropped_ns > 0) {
        rows.count(&[("victim", &*s.label)], &seconds(s.blame.dropped_ns))?;
    }
    let mut rows = Rows::of(e, &WAIT)?;
    for s in totals.series() {
        if let Some(waits) = &s.waits {
            let labels = [("tenant", &*s.label)];
            let sum = seconds(s.blame.total_ns());
            rows.0.encode_family(&labels)?.encode_histogram::<NoLabelSet>(
                sum,
                waits.total(),
                &buckets(waits),
                None,
            )?;
        }
    }
    let mut rows = Rows::of(e, &TENANT_INFO)?;
    for s in totals.series().filter(|s| !s.key.is_empty()) {
        rows.gauge(&[("tenant", &*s.label), ("kind", s.kind.name()), ("key", &*s.key)], 1.0)?;
    }
    Ok(())
}

fn blame(rows: &mut Rows, s: &Series) -> Result<(), Error> {
    let b = &s.blame;
    let words = [
        (label::SELF, b.own_ns),
        (label::KERNEL, b.kernel_ns),
        (label::CORUN, b.corun_ns),
        (label::IDLE, b.idle_ns),
        (label::OTHER, b.other_ns),
        (label::UNATTRIBUTED, b.unattributed_ns),
    ];
    let listed = b.listed().map(|(who, ns)| (&**who, ns));
    // One that never took anything has no series yet: most tenants have one or two culprits.
    for (culprit, ns) in listed.chain(words).filter(|(_, ns)| *ns > 0) {
        rows.count(&[("victim", &*s.label), ("culprit", culprit)], &seconds(ns))?;
    }
    Ok(())
}

/// Upper edges in seconds with counts, every second edge of the histogram's own: each is four times the one before.
fn buckets(waits: &Histogram) -> Vec<(f64, u64)> {
    let pair = |at: usize| waits.counts[at] + waits.counts.get(at + 1).copied().unwrap_or(0);
    let finite = (0..BUCKETS - 2).step_by(2);
    let edges = finite.map(|at| (seconds(Histogram::lower_ns(at + 2)), pair(at)));
    let last = BUCKETS - 2;
    edges.chain([(f64::INFINITY, pair(last))]).collect()
}

fn node(e: &mut DescriptorEncoder, totals: &Totals) -> Result<(), Error> {
    let node = &totals.node;
    let mut rows = Rows::of(e, &CONTENDED)?;
    if let Some(ratio) = totals.contended_ratio() {
        rows.gauge(&NONE, ratio)?;
    }
    let mut rows = Rows::of(e, &TASKS)?;
    for (category, ns) in CATEGORIES.iter().zip(node.time) {
        if let Some(ns) = ns {
            rows.count(&[("category", *category)], &seconds(ns))?;
        }
    }
    let mut rows = Rows::of(e, &CPU)?;
    for (state, ns) in ["idle", "busy", "unknown"].iter().zip(node.cpu_ns) {
        rows.count(&[("state", *state)], &seconds(ns))?;
    }
    let mut rows = Rows::of(e, &HOST_STEAL)?;
    if let Some(ns) = node.host_steal_ns {
        rows.count(&NONE, &seconds(ns))?;
    }
    let mut rows = Rows::of(e, &IRQ)?;
    for (kind, ns) in [("hard", node.irq_ns), ("soft", node.softirq_ns)] {
        if let Some(ns) = ns {
            rows.count(&[("kind", kind)], &seconds(ns))?;
        }
    }
    Rows::of(e, &OBSERVED)?.count(&NONE, &seconds(node.observed_ns))?;
    Rows::of(e, &WINDOWS)?.count(&NONE, &node.windows)?;
    Rows::of(e, &LOST_EVENTS)?.count(&NONE, &node.loss.events)?;
    Rows::of(e, &UNKNOWN)?.count(&NONE, &seconds(node.loss.unknown_ns))?;
    Rows::of(e, &UNTRACKED)?.count(&NONE, &node.loss.untracked_tasks)
}

fn agent(e: &mut DescriptorEncoder, totals: &Totals, own: &Own) -> Result<(), Error> {
    let tenants = totals.series().filter(|s| !s.key.is_empty()).count();
    Rows::of(e, &TENANTS)?.gauge(&NONE, tenants as f64)?;
    Rows::of(e, &DROPPED)?.count(&NONE, &totals.node.dropped_tenants)?;
    if let Some((written, lost, bytes)) = own.ring {
        Rows::of(e, &RING_WRITTEN)?.count(&NONE, &written)?;
        Rows::of(e, &RING_LOST)?.count(&NONE, &lost)?;
        Rows::of(e, &RING_BYTES)?.gauge(&NONE, bytes as f64)?;
    }
    Rows::of(e, &REFUSED)?.count(&NONE, &own.connections.0)?;
    Rows::of(e, &BROKEN)?.count(&NONE, &own.connections.1)?;
    Rows::of(e, &OWN_CPU)?.count(&NONE, &seconds(own.cpu_ns))?;
    Rows::of(e, &SEES_CULPRITS)?.gauge(&NONE, f64::from(u8::from(own.sees_culprits)))?;
    Rows::of(e, &READY)?.gauge(&NONE, f64::from(u8::from(own.is_ready)))?;
    let labels = [("version", env!("CARGO_PKG_VERSION")), ("source", &*own.source)];
    Rows::of(e, &BUILD)?.gauge(&labels, 1.0)
}
