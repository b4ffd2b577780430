//! Metrics for a scraper that accepts protobuf, as `io.prometheus.client.MetricFamily` defines them: the only
//! Prometheus format in which a histogram can be native as well as classic. Fields have the numbers of that
//! definition.
//!
//! A native histogram has its edges at fractional powers of two of a second, the probe at powers of two of
//! 1,024 ns. So each wait counts with the length of the upper edge of its bucket in the probe, for which
//! there is a narrow native bucket. Quantiles are those upper edges, within the [`SCHEMA`]'s 2.2 %. Waits
//! below the probe's resolution are in the zero bucket, and longer ones than its range are infinite.

use crate::field::put;
use crate::longest::Longest;
use crate::metrics::{classic, edge, seconds, Kind, Labels, Metric, Page, Rows, Write};
use corun_model::histogram::BUCKETS;
use corun_model::Histogram as Waits;
use prost::Message;
use std::fmt::Error;

/// Each power of two of a second has `2^SCHEMA` native buckets.
pub const SCHEMA: i32 = 5;
/// The native bucket of infinite values: its lower edge is the greatest finite number.
pub const INFINITE: i32 = (1024 << SCHEMA) + 1;

/// Tag of `MetricFamily.metric`.
const METRIC: u32 = 4;
/// Tags of a metric: its labels, each with name and value, and its own value.
const LABEL: u32 = 1;
const GAUGE: u32 = 2;
const COUNTER: u32 = 3;
const HISTOGRAM: u32 = 7;

/// A family without its metrics, which are encoded one by one.
#[derive(Clone, PartialEq, Message)]
pub struct Family {
    /// Its name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Its meaning.
    #[prost(string, tag = "2")]
    pub help: String,
    /// `COUNTER`, `GAUGE` or `HISTOGRAM`.
    #[prost(int32, tag = "3")]
    pub kind: i32,
}

/// The value of a gauge or a counter.
#[derive(Clone, PartialEq, Message)]
pub struct Number {
    /// The value, even if it is zero.
    #[prost(double, optional, tag = "1")]
    pub value: Option<f64>,
}

/// A histogram, classic and native.
#[derive(Clone, PartialEq, Message)]
pub struct Histogram {
    /// How many there were.
    #[prost(uint64, optional, tag = "1")]
    pub count: Option<u64>,
    /// What they came to.
    #[prost(double, optional, tag = "2")]
    pub sum: Option<f64>,
    /// The classic buckets.
    #[prost(message, repeated, tag = "3")]
    pub classic: Vec<Bucket>,
    /// The [`SCHEMA`].
    #[prost(sint32, optional, tag = "5")]
    pub schema: Option<i32>,
    /// The greatest length in the zero bucket.
    #[prost(double, optional, tag = "6")]
    pub zero_threshold: Option<f64>,
    /// How many are in it.
    #[prost(uint64, optional, tag = "7")]
    pub zero_count: Option<u64>,
    /// Where the native buckets are.
    #[prost(message, repeated, tag = "12")]
    pub spans: Vec<Span>,
    /// The increase of each over the previous one.
    #[prost(sint64, repeated, tag = "13")]
    pub deltas: Vec<i64>,
}

/// A classic bucket.
#[derive(Clone, PartialEq, Message)]
pub struct Bucket {
    /// The number up to its edge.
    #[prost(uint64, optional, tag = "1")]
    pub cumulative: Option<u64>,
    /// Its upper edge.
    #[prost(double, optional, tag = "2")]
    pub edge: Option<f64>,
    /// An example of what is in it.
    #[prost(message, optional, tag = "3")]
    pub exemplar: Option<Exemplar>,
}

/// An example of what is in a bucket.
#[derive(Clone, PartialEq, Message)]
pub struct Exemplar {
    /// What it is.
    #[prost(message, repeated, tag = "1")]
    pub labels: Vec<Label>,
    /// Its length.
    #[prost(double, optional, tag = "2")]
    pub value: Option<f64>,
    /// When it was.
    #[prost(message, optional, tag = "3")]
    pub at: Option<Timestamp>,
}

/// A label of an exemplar.
#[derive(Clone, PartialEq, Message)]
pub struct Label {
    /// Its name.
    #[prost(string, optional, tag = "1")]
    pub name: Option<String>,
    /// Its value.
    #[prost(string, optional, tag = "2")]
    pub value: Option<String>,
}

/// A time of day.
#[derive(Clone, PartialEq, Message)]
pub struct Timestamp {
    /// Whole seconds since 1970.
    #[prost(int64, tag = "1")]
    pub seconds: i64,
    /// Nanoseconds since then.
    #[prost(int32, tag = "2")]
    pub nanos: i32,
}

/// Native buckets one after another.
#[derive(Clone, PartialEq, Message)]
pub struct Span {
    /// The number of skipped ones before, or the index of the first one.
    #[prost(sint32, optional, tag = "1")]
    pub offset: Option<i32>,
    /// How many there are.
    #[prost(uint32, optional, tag = "2")]
    pub length: Option<u32>,
}

/// All metrics, each with its length in front.
#[derive(Default)]
pub struct Families {
    /// The bytes.
    pub bytes: Vec<u8>,
}

impl Page for Families {
    fn metric(&mut self, metric: &Metric, write: Write) -> Result<(), Error> {
        let kind = match metric.kind {
            Kind::Counter => 0,
            Kind::Gauge => 1,
            Kind::Histogram => 4,
        };
        let family = Family { name: metric.name.into(), help: metric.help.into(), kind };
        let mut lines = Lines { bytes: family.encode_to_vec(), ..Lines::default() };
        write(&mut lines)?;
        prost::encode_length_delimiter(lines.bytes.len(), &mut self.bytes)
            .expect("memory takes all that is written");
        self.bytes.extend(lines.bytes);
        Ok(())
    }
}

/// The bytes of one family; the other buffers are reused.
#[derive(Default)]
struct Lines {
    bytes: Vec<u8>,
    series: Vec<u8>,
    part: Vec<u8>,
}

impl Lines {
    fn series(&mut self, labels: Labels, tag: u32, value: &impl Message) -> Result<(), Error> {
        self.series.clear();
        for (name, value) in labels {
            self.part.clear();
            put(1, name.as_bytes(), &mut self.part);
            put(2, value.as_bytes(), &mut self.part);
            put(LABEL, &self.part, &mut self.series);
        }
        self.part.clear();
        value.encode(&mut self.part).expect("memory takes all that is written");
        put(tag, &self.part, &mut self.series);
        put(METRIC, &self.series, &mut self.bytes);
        Ok(())
    }
}

impl Rows for Lines {
    fn seconds(&mut self, labels: Labels, _: u64, ns: u64) -> Result<(), Error> {
        self.series(labels, COUNTER, &Number { value: Some(seconds(ns)) })
    }

    fn count(&mut self, labels: Labels, _: u64, n: u64) -> Result<(), Error> {
        self.series(labels, COUNTER, &Number { value: Some(n as f64) })
    }

    fn gauge(&mut self, labels: Labels, value: f64) -> Result<(), Error> {
        self.series(labels, GAUGE, &Number { value: Some(value) })
    }

    fn histogram(
        &mut self,
        labels: Labels,
        _: u64,
        sum_ns: u64,
        waits: &Waits,
        mut longest: Option<&Longest>,
    ) -> Result<(), Error> {
        let mut cumulative = 0;
        let classic = classic(waits).map(|(edge, n)| {
            cumulative += n;
            let exemplar = longest.take_if(|longest| seconds(longest.ns()) < edge).map(exemplar);
            Bucket { cumulative: Some(cumulative), edge: Some(edge), exemplar }
        });
        let histogram = Histogram { sum: Some(seconds(sum_ns)), classic: classic.collect(), ..native(waits) };
        self.series(labels, HISTOGRAM, &histogram)
    }
}

fn exemplar(longest: &Longest) -> Exemplar {
    let label = |(name, value): (&str, String)| Label { name: Some(name.into()), value: Some(value) };
    let second = 1_000_000_000;
    Exemplar {
        labels: longest.labels().into_iter().map(label).collect(),
        value: Some(seconds(longest.ns())),
        at: Some(Timestamp {
            seconds: (longest.unix_ns / second) as i64,
            nanos: (longest.unix_ns % second) as i32,
        }),
    }
}

/// The native part.
fn native(waits: &Waits) -> Histogram {
    let (zero, longer) = waits.counts.split_first().expect("there are buckets");
    let filled = longer.iter().zip(1..).filter(|(n, _)| **n > 0);
    let (mut spans, mut deltas) = (Vec::new(), Vec::new());
    let (mut next, mut before) = (0, 0);
    for (n, bucket) in filled {
        let number = number(bucket);
        spans.push(Span { offset: Some(number - next), length: Some(1) });
        deltas.push(n.wrapping_sub(before) as i64);
        (next, before) = (number + 1, *n);
    }
    if spans.is_empty() {
        // Without any it would count as a classic one.
        spans.push(Span { offset: Some(0), length: Some(0) });
    }
    Histogram {
        count: Some(waits.total()),
        schema: Some(SCHEMA),
        zero_threshold: Some(edge(0)),
        zero_count: Some(*zero),
        spans,
        deltas,
        ..Histogram::default()
    }
}

/// The index of the native bucket for an upper edge of the probe's.
fn number(bucket: usize) -> i32 {
    match bucket {
        last if last >= BUCKETS - 1 => INFINITE,
        _ => (edge(bucket).log2() * f64::from(1 << SCHEMA)).ceil() as i32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_upper_edge_is_in_its_native_bucket_and_no_other_one_is() {
        let upper = |number: i32| (f64::from(number) / f64::from(1 << SCHEMA)).exp2();
        for bucket in 1..BUCKETS - 1 {
            let (edge, number) = (edge(bucket), number(bucket));
            assert!(upper(number - 1) < edge && edge <= upper(number), "bucket {bucket}");
            assert!(upper(number) / upper(number - 1) < 1.022, "bucket {bucket}");
        }
        assert_eq!(number(BUCKETS - 1), INFINITE);
        assert_eq!((upper(INFINITE), upper(INFINITE - 2).is_finite()), (f64::INFINITY, true));
    }

    #[test]
    fn deltas_and_spans_give_the_number_in_each_bucket() {
        let mut waits = Waits::default();
        [1_000, 5_000, 5_000, 5_000, 9_000, u64::MAX].into_iter().for_each(|ns| waits.record(ns));
        let native = native(&waits);
        assert_eq!((native.count, native.zero_count), (Some(6), Some(1)));
        assert_eq!(native.deltas, [3, -2, 0]);
        let offsets: Vec<i32> = native.spans.iter().map(|s| s.offset.unwrap()).collect();
        let of = [5_000, 9_000].map(|ns| number(Waits::bucket_of(ns)));
        assert_eq!(offsets, [of[0], of[1] - of[0] - 1, INFINITE - of[1] - 1]);
    }
}
