//! Metrics as they are whenever somebody asks, in the format that he asks for.

use crate::metrics::{classic, seconds, Kind, Labels, Metric, Metrics, Own, Page, Rows, Write};
use crate::protobuf::Families;
use crate::totals::Totals;
use corun_model::Histogram;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{
    prometheus_text, text, DescriptorEncoder, EncodeCounterValue, MetricEncoder, NoLabelSet,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};
use std::fmt::Error;
use std::sync::{Arc, Mutex};

/// The formats for scrapers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// The text of Prometheus, version 0.0.4.
    Prometheus,
    /// The text of OpenMetrics 1.0.0.
    OpenMetrics,
    /// The protobuf of Prometheus, with native histograms.
    Protobuf,
}

impl Format {
    /// The one that an `Accept` line asks for most: of several with the same weight, the first.
    pub fn accepted(accept: &str) -> Format {
        let mut best = (Format::Prometheus, 0.0);
        for range in accept.split(',') {
            let mut parts = range.split(';').map(str::trim);
            let kind = parts.next().unwrap_or_default().to_ascii_lowercase();
            let parameters: Vec<(&str, &str)> = parts.filter_map(|p| p.split_once('=')).collect();
            let parameter = |name| parameters.iter().find(|(n, _)| *n == name).map(|(_, value)| *value);
            let weight = parameter("q").map_or(1.0, |q| q.parse().unwrap_or(0.0));
            let format = match &*kind {
                "application/openmetrics-text" => Format::OpenMetrics,
                "application/vnd.google.protobuf"
                    if parameter("proto") == Some("io.prometheus.client.MetricFamily")
                        && parameter("encoding") == Some("delimited") =>
                {
                    Format::Protobuf
                }
                "text/plain" | "text/*" | "*/*" => Format::Prometheus,
                _ => continue,
            };
            if weight > best.1 {
                best = (format, weight);
            }
        }
        best.0
    }

    /// Its `Content-Type`.
    pub fn content_type(self) -> &'static str {
        match self {
            Format::Prometheus => prometheus_text::CONTENT_TYPE,
            Format::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Format::Protobuf => {
                "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited"
            }
        }
    }
}

/// All metrics as they are whenever somebody asks.
pub struct Exposition {
    registry: Registry,
    source: Arc<Metrics>,
}

impl Exposition {
    /// Of these totals, and of what `own` says each time.
    pub fn new(totals: Arc<Mutex<Totals>>, own: impl Fn() -> Own + Send + Sync + 'static) -> Exposition {
        let source = Arc::new(Metrics { totals, own: Box::new(own) });
        let mut registry = Registry::default();
        registry.register_collector(Box::new(Scrape(source.clone())));
        Exposition { registry, source }
    }

    /// All metrics as they are now.
    pub fn encode(&self, format: Format) -> Vec<u8> {
        let (mut text, mut families) = (String::new(), Families::default());
        let done = match format {
            Format::Prometheus => prometheus_text::encode(&mut text, &self.registry),
            Format::OpenMetrics => text::encode(&mut text, &self.registry),
            Format::Protobuf => self.write_to(&mut families),
        };
        done.expect("memory takes all that is written");
        match format {
            Format::Protobuf => families.bytes,
            _ => text.into_bytes(),
        }
    }

    /// The same metrics for somebody else.
    ///
    /// # Errors
    /// Those of the page.
    pub fn write_to(&self, page: &mut dyn Page) -> Result<(), Error> {
        self.source.write_to(page)
    }
}

struct Scrape(Arc<Metrics>);

impl std::fmt::Debug for Scrape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Scrape")
    }
}

impl Collector for Scrape {
    fn encode(&self, encoder: DescriptorEncoder) -> Result<(), Error> {
        self.0.write_to(&mut Text(encoder))
    }
}

/// A text of Prometheus.
struct Text<'a>(DescriptorEncoder<'a>);

impl Page for Text<'_> {
    fn metric(&mut self, metric: &Metric, write: Write) -> Result<(), Error> {
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
        write(&mut Lines(self.0.encode_descriptor(name, metric.help, unit, kind)?))
    }
}

/// The lines of one metric.
struct Lines<'a>(MetricEncoder<'a>);

impl Lines<'_> {
    fn counter(&mut self, labels: Labels, value: &impl EncodeCounterValue) -> Result<(), Error> {
        self.0.encode_family(&labels)?.encode_counter::<NoLabelSet, _, f64>(value, None)
    }
}

impl Rows for Lines<'_> {
    fn seconds(&mut self, labels: Labels, _: u64, ns: u64) -> Result<(), Error> {
        self.counter(labels, &seconds(ns))
    }

    fn count(&mut self, labels: Labels, _: u64, n: u64) -> Result<(), Error> {
        self.counter(labels, &n)
    }

    fn gauge(&mut self, labels: Labels, value: f64) -> Result<(), Error> {
        self.0.encode_family(&labels)?.encode_gauge(&value)
    }

    fn histogram(&mut self, labels: Labels, _: u64, sum_ns: u64, waits: &Histogram) -> Result<(), Error> {
        let mut family = self.0.encode_family(&labels)?;
        family.encode_histogram::<NoLabelSet>(seconds(sum_ns), waits.total(), &classic(waits), None)
    }
}
