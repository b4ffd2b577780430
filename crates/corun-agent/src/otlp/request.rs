//! A request to export: all metrics in the bytes of one message.
//!
//! Each point is encoded at once, and the outer parts are put around the bytes. So only the request is kept,
//! and not a tree of thousands of points as well. Protobuf guarantees that the fields of a message may come
//! in any order, and parts of it one after the other. If a series that the collector knows has ended, it gets
//! one more point, which says so.

use super::known::Known;
use super::message::{
    attribute, Aggregation, HistogramDataPoint, InstrumentationScope, KeyValue, Metric as Described,
    NumberDataPoint, Resource, CUMULATIVE, DATA_POINTS, GAUGE, HISTOGRAM, HISTOGRAM_ATTRIBUTES, METRICS,
    NO_VALUE, NUMBER_ATTRIBUTES, RESOURCE, RESOURCE_METRICS, SCOPE, SCOPE_METRICS, SUM,
};
use crate::exposition::Exposition;
use crate::field::put;
use crate::longest::Longest;
use crate::metrics::{classic, seconds, Kind, Labels, Metric, Page, Rows, Write};
use corun_model::Histogram;
use prost::Message;
use std::fmt::Error;

/// The wall-clock time, now and when the host's clock was 0.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// The offset of a host time. It stays the same for an agent's life: a start that moves would make
    /// another series.
    pub ahead_ns: u64,
    /// Now.
    pub now_unix_ns: u64,
}

impl Clock {
    /// The start of something. If a clock was set back, the start is still not after now.
    fn start(self, since_ns: u64) -> u64 {
        self.ahead_ns.saturating_add(since_ns).min(self.now_unix_ns)
    }
}

/// All present metrics, with these attributes of the sender; and what the collector knows once it has
/// accepted them.
pub fn request(
    exposition: &Exposition,
    resource: &[KeyValue],
    clock: Clock,
    known: &Known,
) -> (Vec<u8>, Known) {
    let mut metrics = Metrics { clock, bytes: Vec::new(), known, there: Known::default() };
    exposition.write_to(&mut metrics).expect("memory takes all that is written");
    let scope = InstrumentationScope { name: "corun".into(), version: env!("CARGO_PKG_VERSION").into() };
    let resource = Resource { attributes: resource.to_vec() };
    let of_scope = [part(SCOPE, &scope.encode_to_vec()), metrics.bytes].concat();
    let of_resource = [part(RESOURCE, &resource.encode_to_vec()), part(SCOPE_METRICS, &of_scope)].concat();
    (part(RESOURCE_METRICS, &of_resource), metrics.there)
}

/// A field with a message in it.
fn part(tag: u32, message: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(message.len() + 12);
    put(tag, message, &mut bytes);
    bytes
}

/// The metrics of a scope.
struct Metrics<'a> {
    clock: Clock,
    bytes: Vec<u8>,
    known: &'a Known,
    there: Known,
}

impl Page for Metrics<'_> {
    fn metric(&mut self, metric: &Metric, write: Write) -> Result<(), Error> {
        let mut points = Points { clock: self.clock, bytes: Vec::new(), series: Vec::new() };
        write(&mut points)?;
        for series in self.known.ended(metric.name, &points.series) {
            points.end(metric.kind, &series);
        }
        self.there.add(metric.name, &points.series);
        if points.bytes.is_empty() {
            return Ok(());
        }
        let (tag, is_monotonic) = match metric.kind {
            Kind::Counter => (SUM, true),
            Kind::Gauge => (GAUGE, false),
            Kind::Histogram => (HISTOGRAM, false),
        };
        let mut data = points.bytes;
        if metric.kind != Kind::Gauge {
            data.extend(Aggregation { temporality: CUMULATIVE, is_monotonic }.encode_to_vec());
        }
        let described = Described {
            name: metric.name.into(),
            description: metric.help.into(),
            unit: unit(metric.name).into(),
        };
        let mut bytes = described.encode_to_vec();
        put(tag, &data, &mut bytes);
        put(METRICS, &bytes, &mut self.bytes);
        Ok(())
    }
}

/// The unit, which is a part of the name. Counts of things have none: their metrics are named after the
/// things.
fn unit(name: &str) -> &'static str {
    let name = name.strip_suffix("_total").unwrap_or(name);
    match name.rsplit('_').next() {
        Some("seconds") => "s",
        Some("bytes") => "By",
        Some("ratio") => "1",
        _ => "",
    }
}

/// The points of a metric.
struct Points {
    clock: Clock,
    bytes: Vec<u8>,
    /// Of which series they are.
    series: Vec<Vec<u8>>,
}

impl Points {
    fn number(&mut self, point: NumberDataPoint, labels: Labels) {
        let point = NumberDataPoint { time_unix_nano: self.clock.now_unix_ns, ..point };
        self.point(point.encode_to_vec(), attributes(NUMBER_ATTRIBUTES, labels));
    }

    fn point(&mut self, mut point: Vec<u8>, series: Vec<u8>) {
        point.extend_from_slice(&series);
        put(DATA_POINTS, &point, &mut self.bytes);
        self.series.push(series);
    }

    /// Says that a series has ended.
    fn end(&mut self, kind: Kind, series: &[u8]) {
        let (time_unix_nano, flags) = (self.clock.now_unix_ns, NO_VALUE);
        let mut point = match kind {
            Kind::Histogram => {
                HistogramDataPoint { time_unix_nano, flags, ..Default::default() }.encode_to_vec()
            }
            _ => NumberDataPoint { time_unix_nano, flags, ..Default::default() }.encode_to_vec(),
        };
        point.extend_from_slice(series);
        put(DATA_POINTS, &point, &mut self.bytes);
    }
}

/// The bytes of the attributes of a point, which are those of a series.
fn attributes(tag: u32, labels: Labels) -> Vec<u8> {
    let mut bytes = Vec::new();
    labels.iter().for_each(|(key, value)| put(tag, &attribute(key, value).encode_to_vec(), &mut bytes));
    bytes
}

impl Rows for Points {
    fn seconds(&mut self, labels: Labels, since_ns: u64, ns: u64) -> Result<(), Error> {
        let start_time_unix_nano = self.clock.start(since_ns);
        let as_double = Some(seconds(ns));
        self.number(NumberDataPoint { start_time_unix_nano, as_double, ..Default::default() }, labels);
        Ok(())
    }

    fn count(&mut self, labels: Labels, since_ns: u64, n: u64) -> Result<(), Error> {
        let start_time_unix_nano = self.clock.start(since_ns);
        let as_int = Some(i64::try_from(n).unwrap_or(i64::MAX));
        self.number(NumberDataPoint { start_time_unix_nano, as_int, ..Default::default() }, labels);
        Ok(())
    }

    fn gauge(&mut self, labels: Labels, value: f64) -> Result<(), Error> {
        self.number(NumberDataPoint { as_double: Some(value), ..Default::default() }, labels);
        Ok(())
    }

    fn histogram(
        &mut self,
        labels: Labels,
        since_ns: u64,
        sum_ns: u64,
        waits: &Histogram,
        _: Option<&Longest>,
    ) -> Result<(), Error> {
        let buckets: Vec<(f64, u64)> = classic(waits).collect();
        let point = HistogramDataPoint {
            start_time_unix_nano: self.clock.start(since_ns),
            time_unix_nano: self.clock.now_unix_ns,
            count: waits.total(),
            sum: Some(seconds(sum_ns)),
            bucket_counts: buckets.iter().map(|(_, n)| *n).collect(),
            explicit_bounds: buckets.iter().map(|(edge, _)| *edge).filter(|edge| edge.is_finite()).collect(),
            flags: 0,
        };
        self.point(point.encode_to_vec(), attributes(HISTOGRAM_ATTRIBUTES, labels));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_a_clock_was_set_back_nothing_begins_in_the_future() {
        let clock = Clock { ahead_ns: 1_000, now_unix_ns: 1_500 };
        assert_eq!([clock.start(300), clock.start(900)], [1_300, 1_500]);
    }

    #[test]
    fn units_are_those_of_the_names() {
        for (name, of) in [
            ("corun_tenant_seconds_total", "s"),
            ("corun_wait_seconds", "s"),
            ("corun_ring_bytes", "By"),
            ("corun_node_contended_ratio", "1"),
            ("corun_windows_total", ""),
        ] {
            assert_eq!(unit(name), of, "{name}");
        }
    }
}
