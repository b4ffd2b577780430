//! The output for a scraper that accepts protobuf: the same samples as in the text, and histograms that are
//! native as well.

use crate::made::{account, window};
use crate::metrics::{bytes, exposition, samples, text, totals};
use corun_agent::exposition::Format;
use corun_agent::metrics::METRICS;
use corun_agent::protobuf::{Histogram, Number};
use corun_model::observation::Account;
use corun_model::Histogram as Waits;
use prost::Message;
use std::collections::BTreeMap;

/// A family as it is sent: its own fields, and its series.
#[derive(Clone, PartialEq, Message)]
struct Family {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    help: String,
    #[prost(int32, tag = "3")]
    kind: i32,
    #[prost(message, repeated, tag = "4")]
    series: Vec<Series>,
}

/// One series.
#[derive(Clone, PartialEq, Message)]
struct Series {
    #[prost(message, repeated, tag = "1")]
    labels: Vec<Label>,
    #[prost(message, optional, tag = "2")]
    gauge: Option<Number>,
    #[prost(message, optional, tag = "3")]
    counter: Option<Number>,
    #[prost(message, optional, tag = "7")]
    histogram: Option<Histogram>,
}

/// A label.
#[derive(Clone, PartialEq, Message)]
struct Label {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    value: String,
}

fn families(mut bytes: &[u8]) -> Vec<Family> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        found.push(Family::decode_length_delimited(&mut bytes).unwrap());
    }
    found
}

/// Indexes of the native buckets with the number in each.
fn native(histogram: &Histogram) -> Vec<(i32, i64)> {
    let (mut number, mut count, mut deltas) = (0, 0, histogram.deltas.iter());
    let mut found = Vec::new();
    for span in &histogram.spans {
        number += span.offset();
        for _ in 0..span.length() {
            count += deltas.next().unwrap();
            found.push((number, count));
            number += 1;
        }
    }
    assert_eq!(deltas.next(), None);
    found
}

#[test]
fn it_has_the_samples_of_the_text() {
    let totals = totals(20);
    (0..3).for_each(|n| totals.lock().unwrap().push(&window(n, 30)));
    let exposition = exposition(&totals);
    let mut found = BTreeMap::new();
    for family in families(&bytes(&exposition, Format::Protobuf)) {
        let metric = METRICS.iter().find(|m| m.name == family.name).unwrap();
        assert_eq!(family.help, metric.help);
        for s in family.series {
            let labels: BTreeMap<String, String> = s.labels.into_iter().map(|l| (l.name, l.value)).collect();
            let mut add = |suffix: &str, edge: Option<f64>, value: f64| {
                let mut labels = labels.clone();
                labels.extend(edge.map(|edge| ("le".to_owned(), edge.to_string())));
                let series = (format!("{}{suffix}", family.name), labels);
                assert!(found.insert(series, value).is_none(), "{} is there twice", family.name);
            };
            match (family.kind, s.counter, s.gauge, s.histogram) {
                (0, Some(number), None, None) | (1, None, Some(number), None) => {
                    add("", None, number.value.unwrap());
                }
                (4, None, None, Some(h)) => {
                    h.classic.iter().for_each(|b| add("_bucket", b.edge, b.cumulative() as f64));
                    add("_count", None, h.count() as f64);
                    add("_sum", None, h.sum());
                    let native: i64 = native(&h).iter().map(|(_, n)| n).sum();
                    assert_eq!(native as u64 + h.zero_count(), h.count());
                }
                other => panic!("{}: {other:?}", family.name),
            }
        }
    }
    let of_text =
        samples(&text(&exposition, Format::Prometheus)).into_iter().map(|((name, mut labels), value)| {
            labels.get_mut("le").into_iter().for_each(|le| *le = le.parse::<f64>().unwrap().to_string());
            ((name, labels), value)
        });
    let of_text: BTreeMap<_, _> =
        of_text.filter(|((name, _), _)| name != "corun_agent_cpu_seconds_total").collect();
    found.retain(|(name, _), _| name != "corun_agent_cpu_seconds_total");
    assert_eq!(found, of_text);
}

#[test]
fn the_longest_wait_is_an_exemplar_of_its_classic_bucket() {
    let totals = totals(20);
    totals.lock().unwrap().ahead_ns = 1_700_000_000_000_000_000;
    totals.lock().unwrap().push(&window(0, 2));
    let families = families(&bytes(&exposition(&totals), Format::Protobuf));
    let family = families.iter().find(|f| f.name == "corun_wait_seconds").unwrap();
    let of_tenants: Vec<_> = family.series.iter().filter_map(|s| s.histogram.as_ref()).collect();
    let exemplars =
        of_tenants.iter().flat_map(|h| &h.classic).filter_map(|b| Some((b.edge(), b.exemplar.as_ref()?)));
    let exemplars: Vec<_> = exemplars.collect();
    assert_eq!(exemplars.len(), 2, "{exemplars:?}");
    for (edge, exemplar) in exemplars {
        assert_eq!((edge, exemplar.value), (0.004194304, Some(0.001572864)));
        assert_eq!(exemplar.at.as_ref().map(|at| (at.seconds, at.nanos)), Some((1_700_000_001, 0)));
        let names: Vec<&str> = exemplar.labels.iter().map(|label| label.name()).collect();
        assert_eq!(names, ["tid", "thread", "culprit"]);
    }
}

#[test]
fn a_native_bucket_holds_the_probes_count_up_to_its_edge() {
    let lengths = [700, 2_047, 2_048, 3_000_000, 4_100_000, 4_200_000, 10_000_000_000];
    let mut waits = Waits::default();
    lengths.into_iter().for_each(|ns| waits.record(ns));
    let totals = totals(20);
    let mut seen = window(0, 2);
    seen.by_tenant[0].account = Account { waits: Some(waits), ..account(1_000_000, &[(1, 5_000)]) };
    totals.lock().unwrap().push(&seen);
    let families = families(&bytes(&exposition(&totals), Format::Protobuf));
    let family = families.iter().find(|f| f.name == "corun_wait_seconds").unwrap();
    let of_first =
        family.series.iter().find(|s| s.labels.iter().any(|l| l.value == "web-0.service")).unwrap();
    let histogram = of_first.histogram.as_ref().unwrap();
    assert_eq!((histogram.zero_threshold(), histogram.zero_count()), (2.048e-6, 2));
    let scale = f64::from(1 << histogram.schema());
    let upper: Vec<(f64, i64)> =
        native(histogram).into_iter().map(|(number, n)| ((f64::from(number) / scale).exp2(), n)).collect();
    // 4.096 µs, 4.19 ms twice, 8.39 ms, and longer than 8.59 s.
    let expected = [(4.096e-6, 1), (4.194304e-3, 2), (8.388608e-3, 1), (f64::INFINITY, 1)];
    assert_eq!(upper.len(), expected.len(), "{upper:?}");
    for ((upper, n), (edge, expected)) in upper.into_iter().zip(expected) {
        assert!(
            edge <= upper && upper <= edge * 1.022 && n == expected,
            "{upper} {n}, not {edge} {expected}"
        );
    }
}
