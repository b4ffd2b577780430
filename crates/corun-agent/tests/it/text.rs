//! The text, compared with that of prometheus-client.

use crate::made::window;
use crate::metrics::{exposition, samples, text, totals};
use corun_agent::exposition::{Exposition, Format};
use corun_agent::longest::Longest;
use corun_agent::metrics::{classic, seconds, Kind, Labels, Metric, Page, Rows, Write};
use corun_model::Histogram;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{prometheus_text, text as open_metrics};
use prometheus_client::encoding::{DescriptorEncoder, EncodeCounterValue, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};
use std::collections::BTreeMap;
use std::fmt::Error;

struct Scrape(Exposition);

impl std::fmt::Debug for Scrape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Scrape")
    }
}

impl Collector for Scrape {
    fn encode(&self, encoder: DescriptorEncoder) -> Result<(), Error> {
        self.0.write_to(&mut Descriptors(encoder))
    }
}

struct Descriptors<'a>(DescriptorEncoder<'a>);

impl Page for Descriptors<'_> {
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

    fn histogram(
        &mut self,
        labels: Labels,
        _: u64,
        sum_ns: u64,
        waits: &Histogram,
        _: Option<&Longest>,
    ) -> Result<(), Error> {
        let buckets: Vec<(f64, u64)> = classic(waits).collect();
        let mut family = self.0.encode_family(&labels)?;
        family.encode_histogram::<NoLabelSet>(seconds(sum_ns), waits.total(), &buckets, None)
    }
}

/// A page with waits of every length, and names that must be escaped.
fn page() -> Exposition {
    let totals = totals(30);
    for n in 0..5 {
        let mut seen = window(n, 20);
        seen.tenants[0].name = "a\"b\\c\nd".into();
        seen.tenants[1].name = "λ {x=\"y\"}".into();
        for (at, t) in seen.by_tenant.iter_mut().enumerate() {
            if let Some(waits) = &mut t.account.waits {
                (0..36).for_each(|bits| waits.record((1 << bits) + at as u64));
            }
        }
        totals.lock().unwrap().push(&seen);
    }
    exposition(&totals)
}

fn registry() -> Registry {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Scrape(page())));
    registry
}

#[test]
fn the_text_equals_a_librarys_to_the_byte() {
    let mut theirs = String::new();
    prometheus_text::encode(&mut theirs, &registry()).unwrap();
    let ours = text(&page(), Format::Prometheus);
    for (at, (ours, theirs)) in ours.lines().zip(theirs.lines()).enumerate() {
        assert_eq!(ours, theirs, "line {at}");
    }
    assert_eq!(ours.len(), theirs.len());
    assert!(ours.contains("le=\"4.096e-06\"") && ours.contains("le=\"+Inf\""), "{ours}");
}

#[test]
fn open_metrics_has_the_same_descriptions_and_samples_as_the_other_format() {
    let mut theirs = String::new();
    open_metrics::encode(&mut theirs, &registry()).unwrap();
    let ours = text(&page(), Format::OpenMetrics);
    let said = |text: &str| -> Vec<String> {
        text.lines().filter(|line| line.starts_with('#')).map(str::to_owned).collect()
    };
    assert_eq!(said(&ours), said(&theirs));
    assert!(ours.ends_with("\n# EOF\n"));
    assert_eq!(samples(&ours), samples(&text(&page(), Format::Prometheus)));
    // The library writes edges otherwise: 4.096e-6.
    let with_numbers = |text: &str| -> BTreeMap<String, f64> {
        let number = |(mut series, value): ((String, BTreeMap<String, String>), f64)| {
            if let Some(edge) = series.1.get_mut("le") {
                *edge = edge.parse::<f64>().unwrap().to_string();
            }
            (format!("{series:?}"), value)
        };
        samples(text).into_iter().map(number).collect()
    };
    assert_eq!(with_numbers(&ours), with_numbers(&theirs));
}
