//! The metrics of an agent: the name, the meaning and the series of each.
//!
//! Times are counters in seconds. Rates, shares and quantiles are left to the scraper. The documentation is
//! compared with [`METRICS`].

use crate::label;
use crate::longest::Longest;
use crate::totals::{Series, Totals, CATEGORIES};
use corun_model::histogram::BUCKETS;
use corun_model::Histogram;
use std::fmt::Error;

/// A metric.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// Its name, as it is scraped.
    pub name: &'static str,
    /// `counter`, `gauge` or `histogram`.
    pub kind: Kind,
    /// Its labels.
    pub labels: &'static [&'static str],
    /// Its meaning.
    pub help: &'static str,
}

/// What sort of metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Never falls, except when its agent or its tenant starts anew.
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
        "Time of the tasks of a tenant, split by the categories of the ledger.";
    BLAME = Counter "corun_blame_seconds_total" ["victim", "culprit"]
        "Time in which tasks of the victim were ready to run while the culprit had the CPU. With dropped time it sums to the victim's steal.";
    BLAME_DROPPED = Counter "corun_blame_dropped_seconds_total" ["victim"]
        "Time that was counted for culprits of the victim which lost their series because others take more.";
    WAIT = Histogram "corun_wait_seconds" ["tenant"]
        "Lengths of waits in the run queue that ended; the sum is the tenant's steal.";
    TENANT_INFO = Gauge "corun_tenant_info" ["tenant", "kind", "key"]
        "1 for each tenant that has series of its own; the key holds the cgroup, container id, pod uid or process group.";
    CONTENDED = Gauge "corun_node_contended_ratio" []
        "Of the time in which tasks ran or were ready to run, the share in which others had the CPU, over the last ten seconds. Throttled time is not included.";
    TASKS = Counter "corun_node_task_seconds_total" ["category"]
        "Time of all tasks of the machine, including tenants whose series have ended.";
    CPU = Counter "corun_node_cpu_seconds_total" ["state"]
        "Time of all CPUs: idle, busy, or unknown.";
    HOST_STEAL = Counter "corun_node_host_steal_seconds_total" []
        "Time that the hypervisor took; absent if this machine does not report it.";
    IRQ = Counter "corun_node_interrupt_seconds_total" ["kind"]
        "Time in interrupts, hard or soft; absent if this machine does not report it.";
    OBSERVED = Counter "corun_observed_seconds_total" []
        "Time that was observed.";
    WINDOWS = Counter "corun_windows_total" []
        "Windows that were observed.";
    SEES_CULPRITS = Gauge "corun_sees_culprits" []
        "1 if the agent sees who holds CPUs (eBPF), 0 if all steal is unattributed (schedstat).";
    LOST_EVENTS = Counter "corun_lost_events_total" []
        "Events that were lost because a buffer was full.";
    UNKNOWN = Counter "corun_unknown_seconds_total" []
        "Time of tasks that fell into no category.";
    UNTRACKED = Counter "corun_untracked_tasks_total" []
        "Tasks that could not be followed, summed over windows.";
    TENANTS = Gauge "corun_tenants" []
        "Tenants that have series of their own.";
    DROPPED = Counter "corun_dropped_tenants_total" []
        "How often a tenant got no series, or lost them to another tenant, and is counted in other from then on.";
    RING_WRITTEN = Counter "corun_ring_intervals_written_total" []
        "Intervals that were written to the ring; absent without a ring.";
    RING_LOST = Counter "corun_ring_intervals_lost_total" []
        "Intervals that could not be written to the ring.";
    RING_BYTES = Gauge "corun_ring_bytes" []
        "Bytes that the ring takes on the disk.";
    OTLP_EXPORTS = Counter "corun_otlp_exports_total" ["outcome"]
        "Exports over OTLP: delivered; rejected by the collector; failed, and tried again. Absent without a collector.";
    OTLP_REJECTED = Counter "corun_otlp_rejected_points_total" []
        "Data points of delivered exports that the collector did not take.";
    REFUSED = Counter "corun_connections_refused_total" []
        "Connections that were refused because there were too many.";
    BROKEN = Counter "corun_connections_broken_total" []
        "Connections that took too long or ended in the middle.";
    OWN_CPU = Counter "corun_agent_cpu_seconds_total" []
        "CPU time of the agent itself, without its probe in the kernel.";
    READY = Gauge "corun_ready" []
        "1 while /readyz answers 200.";
    BUILD = Gauge "corun_build_info" ["version", "source"]
        "1; the version of corun, and how it sees.";
}

/// An agent's data besides its totals.
#[derive(Clone, Debug, Default)]
pub struct Own {
    /// How it sees: `ebpf` or `schedstat`.
    pub source: String,
    /// Whether culprits are seen.
    pub sees_culprits: bool,
    /// Whether it is ready.
    pub is_ready: bool,
    /// Written and lost intervals, and bytes of the ring, if there is one.
    pub ring: Option<(u64, u64, u64)>,
    /// The results of exports over OTLP, if there are any.
    pub otlp: Option<Exports>,
    /// Connections that were refused and that broke.
    pub connections: (u64, u64),
    /// Its CPU time.
    pub cpu_ns: u64,
    /// The start of its count, on the host's clock.
    pub began_ns: u64,
}

/// What came of exports over OTLP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exports {
    /// Those that the collector took.
    pub delivered: u64,
    /// Those that it will never take.
    pub rejected: u64,
    /// Those that it may take when they come again.
    pub failed: u64,
    /// Data points of delivered exports that the collector rejected.
    pub rejected_points: u64,
}

/// Labels of a series with their values.
pub type Labels<'a> = &'a [(&'a str, &'a str)];

/// Receives the series of one metric. Counters have the start of their count, on the host's clock.
pub trait Rows {
    /// A counter of time.
    ///
    /// # Errors
    /// When there is no room.
    fn seconds(&mut self, labels: Labels, since_ns: u64, ns: u64) -> Result<(), Error>;
    /// A counter of things.
    ///
    /// # Errors
    /// When there is no room.
    fn count(&mut self, labels: Labels, since_ns: u64, n: u64) -> Result<(), Error>;
    /// A gauge.
    ///
    /// # Errors
    /// When there is no room.
    fn gauge(&mut self, labels: Labels, value: f64) -> Result<(), Error>;
    /// A histogram, with the sum of all lengths, and an example of a long one.
    ///
    /// # Errors
    /// When there is no room.
    fn histogram(
        &mut self,
        labels: Labels,
        since_ns: u64,
        sum_ns: u64,
        waits: &Histogram,
        longest: Option<&Longest>,
    ) -> Result<(), Error>;
}

/// Writes the series of a metric.
pub type Write<'a> = &'a mut dyn FnMut(&mut dyn Rows) -> Result<(), Error>;

/// Receives all metrics, one by one: a text for a scraper, or a message for a collector.
pub trait Page {
    /// The next metric; it may have no series.
    ///
    /// # Errors
    /// When there is no room.
    fn metric(&mut self, metric: &Metric, write: Write) -> Result<(), Error>;
}

/// Passes the metrics of tenants and of the machine to a page. They stay the same until the next window.
///
/// # Errors
/// Those of the page.
pub fn of_seen(page: &mut dyn Page, totals: &Totals) -> Result<(), Error> {
    tenants(page, totals)?;
    node(page, totals)
}

/// As metrics say times.
pub fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

fn tenants(page: &mut dyn Page, totals: &Totals) -> Result<(), Error> {
    page.metric(&TENANT, &mut |rows| {
        totals.series().try_for_each(|s| {
            let told = CATEGORIES.iter().zip(s.time).filter_map(|(of, ns)| Some((*of, ns?)));
            told.into_iter().try_for_each(|(category, ns)| {
                let labels = [("tenant", &*s.label), ("kind", s.kind.name()), ("category", category)];
                rows.seconds(&labels, s.since_ns, ns)
            })
        })
    })?;
    page.metric(&BLAME, &mut |rows| totals.series().try_for_each(|s| blame(rows, s)))?;
    page.metric(&BLAME_DROPPED, &mut |rows| {
        let mut dropped = totals.series().filter(|s| s.blame.dropped_ns > 0);
        dropped.try_for_each(|s| rows.seconds(&[("victim", &s.label)], s.since_ns, s.blame.dropped_ns))
    })?;
    page.metric(&WAIT, &mut |rows| {
        let mut told = totals.series().filter_map(|s| Some((s, s.waits.as_ref()?)));
        told.try_for_each(|(s, waits)| {
            let labels = [("tenant", &*s.label)];
            rows.histogram(&labels, s.since_ns, s.blame.total_ns(), waits, s.longest.as_ref())
        })
    })?;
    page.metric(&TENANT_INFO, &mut |rows| {
        totals.series().filter(|s| !s.key.is_empty()).try_for_each(|s| {
            let labels = [("tenant", &*s.label), ("kind", s.kind.name()), ("key", &*s.key)];
            rows.gauge(&labels, 1.0)
        })
    })
}

fn blame(rows: &mut dyn Rows, s: &Series) -> Result<(), Error> {
    let b = &s.blame;
    let words = [
        (label::SELF, b.own_ns),
        (label::KERNEL, b.kernel_ns),
        (label::CORUN, b.corun_ns),
        (label::IDLE, b.idle_ns),
        (label::OTHER, b.other_ns),
        (label::UNATTRIBUTED, b.unattributed_ns),
    ];
    let words = words.map(|(word, ns)| (word, ns, s.since_ns));
    let listed = b.listed().map(|(who, ns, since_ns)| (&**who, ns, since_ns));
    // A counter that was never above zero has no series yet: most tenants have one or two culprits.
    for (culprit, ns, since_ns) in listed.chain(words).filter(|(_, ns, _)| *ns > 0) {
        rows.seconds(&[("victim", &*s.label), ("culprit", culprit)], since_ns, ns)?;
    }
    Ok(())
}

/// The upper edge of a bucket in seconds; the last one is infinite.
pub fn edge(bucket: usize) -> f64 {
    match bucket + 1 {
        BUCKETS => f64::INFINITY,
        next => seconds(Histogram::lower_ns(next)),
    }
}

/// The buckets of a classic histogram, by their upper edges in seconds: each joins two of the probe's, so
/// each edge is four times the previous one.
pub fn classic(waits: &Histogram) -> impl Iterator<Item = (f64, u64)> + '_ {
    let pairs = waits.counts.chunks(2).enumerate();
    pairs.map(|(at, two)| (edge(2 * at + two.len() - 1), two.iter().sum()))
}

fn node(page: &mut dyn Page, totals: &Totals) -> Result<(), Error> {
    let node = &totals.node;
    let since_ns = totals.began_ns().unwrap_or(0);
    let mut single = |metric: &Metric, ns: Option<u64>| {
        page.metric(metric, &mut |rows| ns.map_or(Ok(()), |ns| rows.seconds(&[], since_ns, ns)))
    };
    single(&HOST_STEAL, node.host_steal_ns)?;
    single(&OBSERVED, Some(node.observed_ns))?;
    single(&UNKNOWN, Some(node.loss.unknown_ns))?;
    let mut counted = |metric: &Metric, n: u64| page.metric(metric, &mut |rows| rows.count(&[], since_ns, n));
    counted(&WINDOWS, node.windows)?;
    counted(&LOST_EVENTS, node.loss.events)?;
    counted(&UNTRACKED, node.loss.untracked_tasks)?;
    counted(&DROPPED, node.dropped_tenants)?;
    page.metric(&CONTENDED, &mut |rows| {
        totals.contended_ratio().map_or(Ok(()), |ratio| rows.gauge(&[], ratio))
    })?;
    let mut by = |metric: &Metric, label: &str, parts: &[(&str, Option<u64>)]| {
        page.metric(metric, &mut |rows| {
            let mut told = parts.iter().filter_map(|(part, ns)| Some((*part, (*ns)?)));
            told.try_for_each(|(part, ns)| rows.seconds(&[(label, part)], since_ns, ns))
        })
    };
    let categories: Vec<(&str, Option<u64>)> = CATEGORIES.into_iter().zip(node.time).collect();
    by(&TASKS, "category", &categories)?;
    let [idle, busy, unknown] = node.cpu_ns.map(Some);
    by(&CPU, "state", &[("idle", idle), ("busy", busy), ("unknown", unknown)])?;
    by(&IRQ, "kind", &[("hard", node.irq_ns), ("soft", node.softirq_ns)])?;
    let tenants = totals.series().filter(|s| !s.key.is_empty()).count();
    page.metric(&TENANTS, &mut |rows| rows.gauge(&[], tenants as f64))
}

/// Passes the metrics of the agent itself to a page.
///
/// # Errors
/// Those of the page.
pub fn of_own(page: &mut dyn Page, own: &Own) -> Result<(), Error> {
    let mut counted =
        |metric: &Metric, n: u64| page.metric(metric, &mut |rows| rows.count(&[], own.began_ns, n));
    counted(&REFUSED, own.connections.0)?;
    counted(&BROKEN, own.connections.1)?;
    if let Some((written, lost, _)) = own.ring {
        counted(&RING_WRITTEN, written)?;
        counted(&RING_LOST, lost)?;
    }
    if let Some(exports) = own.otlp {
        counted(&OTLP_REJECTED, exports.rejected_points)?;
        let outcomes =
            [("delivered", exports.delivered), ("rejected", exports.rejected), ("failed", exports.failed)];
        page.metric(&OTLP_EXPORTS, &mut |rows| {
            outcomes.iter().try_for_each(|(outcome, n)| rows.count(&[("outcome", outcome)], own.began_ns, *n))
        })?;
    }
    page.metric(&OWN_CPU, &mut |rows| rows.seconds(&[], own.began_ns, own.cpu_ns))?;
    let mut gauge = |metric: &Metric, labels: Labels, value: f64| {
        page.metric(metric, &mut |rows| rows.gauge(labels, value))
    };
    if let Some((_, _, bytes)) = own.ring {
        gauge(&RING_BYTES, &[], bytes as f64)?;
    }
    gauge(&SEES_CULPRITS, &[], f64::from(u8::from(own.sees_culprits)))?;
    gauge(&READY, &[], f64::from(u8::from(own.is_ready)))?;
    gauge(&BUILD, &[("version", env!("CARGO_PKG_VERSION")), ("source", &own.source)], 1.0)
}
