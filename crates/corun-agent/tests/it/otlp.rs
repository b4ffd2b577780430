//! Exports over OTLP, decoded by the messages of OpenTelemetry's own crate and compared with the scrape; and
//! the effect of collectors that are away, slow, overloaded or wrong.

use crate::made::{window, window_of, WINDOW_NS};
use crate::metrics::{exposition, samples, text, totals};
use corun_agent::config::Otlp;
use corun_agent::exposition::{Exposition, Format};
use corun_agent::metrics::Exports;
use corun_agent::otlp::known::Known;
use corun_agent::otlp::message::{attribute, NO_VALUE};
use corun_agent::otlp::request::{request, Clock};
use corun_agent::otlp::{Exporter, Work};
use corun_agent::totals::LINGER_NS;
use opentelemetry_proto::tonic::collector::metrics::v1::{
    ExportMetricsPartialSuccess, ExportMetricsServiceRequest, ExportMetricsServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::{any_value, KeyValue};
use opentelemetry_proto::tonic::metrics::v1::{metric::Data, number_data_point::Value, Metric};
use prost::Message;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{channel, Receiver};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// How far the wall clock is ahead here.
const AHEAD_NS: u64 = 1_700_000_000_000_000_000;

type Labels = BTreeMap<String, String>;
type Series = (String, Labels);

fn labels(attributes: &[KeyValue]) -> Labels {
    let text = |kv: &KeyValue| match kv.value.as_ref().and_then(|v| v.value.clone()) {
        Some(any_value::Value::StringValue(text)) => (kv.key.clone(), text),
        other => panic!("{}: {other:?}", kv.key),
    };
    attributes.iter().map(text).collect()
}

/// The metrics of a request from the sender with the attributes.
fn metrics(bytes: &[u8]) -> (Labels, Vec<Metric>) {
    let request = ExportMetricsServiceRequest::decode(bytes).unwrap();
    let [of_resource] = &request.resource_metrics[..] else { panic!("{request:?}") };
    let [of_scope] = &of_resource.scope_metrics[..] else { panic!("{of_resource:?}") };
    assert_eq!(of_scope.scope.as_ref().unwrap().name, "corun");
    (labels(&of_resource.resource.as_ref().unwrap().attributes), of_scope.metrics.clone())
}

/// All points, with the names and numbers that the text format has for them, and with their starts.
fn points(metrics: &[Metric], now_ns: u64) -> (BTreeMap<Series, f64>, BTreeMap<Series, u64>) {
    let (mut values, mut starts) = (BTreeMap::new(), BTreeMap::new());
    let mut add = |name: String, labels: Labels, value: f64, start: Option<u64>| {
        let series = (name, labels);
        assert!(values.insert(series.clone(), value).is_none(), "{series:?} is there twice");
        starts.extend(start.map(|start| (series, start)));
    };
    for metric in metrics {
        let name = |suffix: &str| format!("{}{suffix}", metric.name);
        assert!(!metric.description.is_empty(), "{}", metric.name);
        assert_eq!(metric.name.contains("_seconds"), metric.unit == "s", "{}", metric.name);
        match metric.data.as_ref().unwrap() {
            Data::Sum(sum) => {
                assert!(sum.is_monotonic && sum.aggregation_temporality == 2, "{}", metric.name);
                for p in &sum.data_points {
                    assert_eq!(p.time_unix_nano, now_ns);
                    assert!(p.start_time_unix_nano <= now_ns);
                    let value = match p.value.unwrap() {
                        Value::AsDouble(value) => value,
                        Value::AsInt(value) => value as f64,
                    };
                    add(name(""), labels(&p.attributes), value, Some(p.start_time_unix_nano));
                }
            }
            Data::Gauge(gauge) => {
                for p in &gauge.data_points {
                    let Some(Value::AsDouble(value)) = p.value else { panic!("{p:?}") };
                    add(name(""), labels(&p.attributes), value, None);
                }
            }
            Data::Histogram(histogram) => {
                assert_eq!(histogram.aggregation_temporality, 2);
                for p in &histogram.data_points {
                    assert_eq!(p.bucket_counts.len(), p.explicit_bounds.len() + 1);
                    assert_eq!(p.count, p.bucket_counts.iter().sum::<u64>());
                    let edges = p.explicit_bounds.iter().copied();
                    let mut sum = 0;
                    for (edge, n) in edges.chain([f64::INFINITY]).zip(&p.bucket_counts) {
                        sum += n;
                        let mut of = labels(&p.attributes);
                        of.insert("le".into(), edge.to_string());
                        add(name("_bucket"), of, sum as f64, None);
                    }
                    let start = Some(p.start_time_unix_nano);
                    add(name("_count"), labels(&p.attributes), p.count as f64, start);
                    add(name("_sum"), labels(&p.attributes), p.sum.unwrap(), None);
                }
            }
            other => panic!("{other:?}"),
        }
    }
    (values, starts)
}

fn exported(exposition: &Exposition, now_ns: u64) -> (BTreeMap<Series, f64>, BTreeMap<Series, u64>) {
    let clock = Clock { ahead_ns: AHEAD_NS, now_unix_ns: AHEAD_NS + now_ns };
    let (bytes, _) = request(exposition, &[attribute("host.name", "")], clock, &Known::default());
    let (resource, metrics) = metrics(&bytes);
    assert_eq!(resource["host.name"], "", "an empty text is a text");
    points(&metrics, AHEAD_NS + now_ns)
}

/// The same from the text format, whose edges have another format.
fn scraped(exposition: &Exposition) -> BTreeMap<Series, f64> {
    let edge = |text: &mut String| *text = text.parse::<f64>().unwrap().to_string();
    let plain = |((name, mut labels), value): (Series, f64)| {
        labels.get_mut("le").map(edge);
        ((name, labels), value)
    };
    samples(&text(exposition, Format::Prometheus)).into_iter().map(plain).collect()
}

/// What culprits took from each victim, and each victim's steal.
fn check_sums(values: &BTreeMap<Series, f64>) {
    let mut owed: BTreeMap<&str, f64> = BTreeMap::new();
    let mut blamed = 0;
    for ((name, labels), value) in values {
        match &**name {
            "corun_tenant_seconds_total" if labels["category"] == "steal" => {
                *owed.entry(&labels["tenant"]).or_default() += value;
            }
            "corun_blame_seconds_total" | "corun_blame_dropped_seconds_total" => {
                *owed.entry(&labels["victim"]).or_default() -= value;
                blamed += 1;
            }
            _ => {}
        }
    }
    assert!(blamed > 0 && owed.values().all(|left| left.abs() < 1e-9), "{owed:?}");
}

#[test]
fn the_export_equals_the_scrape_and_its_sums_agree() {
    let totals = totals(20);
    let exposition = exposition(&totals);
    for n in 0..50 {
        totals.lock().unwrap().push(&window_of(n, 30, |victim| (victim + 1 + n as u32 % 13) % 30));
        let (values, _) = exported(&exposition, 60 * WINDOW_NS);
        let scraped = scraped(&exposition);
        let differs = |series: &&Series| values.get(*series) != scraped.get(*series);
        let differing: Vec<&Series> = values.keys().chain(scraped.keys()).filter(differs).take(5).collect();
        assert!(differing.is_empty(), "{differing:?}");
        check_sums(&values);
    }
}

#[test]
fn no_start_is_after_now_if_the_clock_was_set_back() {
    let totals = totals(20);
    (20..30).for_each(|n| totals.lock().unwrap().push(&window(n, 5)));
    let now_ns = 5 * WINDOW_NS;
    let (_, starts) = exported(&exposition(&totals), now_ns);
    let now = AHEAD_NS + now_ns;
    assert!(starts.values().all(|start| *start <= now) && starts.values().any(|start| *start == now));
}

#[test]
fn a_counter_that_starts_again_has_a_later_start_and_every_other_keeps_its_own() {
    let totals = totals(100);
    let exposition = exposition(&totals);
    let (mut values, mut starts) = (BTreeMap::new(), BTreeMap::new());
    let mut anew = 0;
    let linger = LINGER_NS / WINDOW_NS;
    for n in 0..2 * linger + 400 {
        // Ten tenants are away for a while, and the main culprit of the first changes: a place is lost and
        // taken again.
        let tenants = if (5..linger + 20).contains(&n) { 12 } else { 22 };
        let taker = |victim| if victim == 0 { 1 + (n / 20) as u32 % 11 } else { (victim + 1) % tenants };
        totals.lock().unwrap().push(&window_of(n, tenants, taker));
        let (new_values, new_starts) = exported(&exposition, 1_000_000 * WINDOW_NS);
        for (series, start) in &new_starts {
            match starts.get(series) {
                Some(before) if before == start => {
                    assert!(new_values[series] >= values[series], "{series:?} fell")
                }
                Some(before) => {
                    assert!(before < start, "{series:?} began before it had ended");
                    anew += 1;
                }
                None if n > 0 => assert!(*start >= AHEAD_NS, "{series:?}"),
                None => assert_eq!(*start, AHEAD_NS, "{series:?}"),
            }
        }
        // Ended series are remembered: they must not start at the same time again.
        starts.extend(new_starts);
        values.extend(new_values);
    }
    assert!(anew > 20, "{anew} began anew");
}

/// The series of a request: those with a value, and those that have ended.
fn series(bytes: &[u8]) -> [BTreeSet<Series>; 2] {
    let [mut live, mut ended] = [BTreeSet::new(), BTreeSet::new()];
    for metric in metrics(bytes).1 {
        let points: Vec<(u32, &[KeyValue])> = match metric.data.as_ref().unwrap() {
            Data::Sum(sum) => sum.data_points.iter().map(|p| (p.flags, &*p.attributes)).collect(),
            Data::Gauge(gauge) => gauge.data_points.iter().map(|p| (p.flags, &*p.attributes)).collect(),
            Data::Histogram(histogram) => {
                histogram.data_points.iter().map(|p| (p.flags, &*p.attributes)).collect()
            }
            other => panic!("{other:?}"),
        };
        for (flags, attributes) in points {
            let of = if flags == NO_VALUE { &mut ended } else { &mut live };
            assert!(of.insert((metric.name.clone(), labels(attributes))), "{} is there twice", metric.name);
        }
    }
    [live, ended]
}

#[test]
fn after_a_series_has_ended_the_next_delivered_export_says_so() {
    let totals = totals(100);
    let exposition = exposition(&totals);
    let export = |known: &Known| {
        let clock = Clock { ahead_ns: AHEAD_NS, now_unix_ns: 2 * AHEAD_NS };
        let (bytes, there) = request(&exposition, &[], clock, known);
        (series(&bytes), there)
    };
    (0..5).for_each(|n| totals.lock().unwrap().push(&window(n, 20)));
    let ([before, ended], known) = export(&Known::default());
    assert_eq!(ended, BTreeSet::new());
    (5..LINGER_NS / WINDOW_NS + 7).for_each(|n| totals.lock().unwrap().push(&window(n, 2)));
    let ([after, ended], later) = export(&known);
    assert_eq!(ended, &before - &after);
    for metric in ["corun_tenant_seconds_total", "corun_wait_seconds", "corun_tenant_info"] {
        assert!(ended.iter().any(|(name, _)| name == metric), "no series of {metric} has ended");
    }
    // The next one makes up for one that does not arrive.
    assert_eq!(export(&known).0, [after.clone(), ended]);
    assert_eq!(export(&later).0, [after, BTreeSet::new()]);
}

/// A collector that answers each request as instructed, with the requests that it got.
struct Collector {
    address: SocketAddr,
    got: Receiver<(String, Vec<u8>)>,
}

type Answers = dyn Fn(usize, &mut TcpStream) + Send;

fn collector(answer: Box<Answers>) -> Collector {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (to, got) = channel();
    std::thread::spawn(move || {
        for (n, stream) in listener.incoming().enumerate() {
            let mut stream = stream.unwrap();
            let Some(request) = read(&mut stream) else { continue };
            answer(n, &mut stream);
            if to.send(request).is_err() {
                return;
            }
        }
    });
    Collector { address, got }
}

fn read(stream: &mut TcpStream) -> Option<(String, Vec<u8>)> {
    let (mut bytes, mut part) = (Vec::new(), [0; 4096]);
    loop {
        if let Some(at) = bytes.windows(4).position(|w| w == b"\r\n\r\n") {
            let head = String::from_utf8(bytes[..at].to_vec()).unwrap();
            let length =
                |line: &str| line.to_lowercase().strip_prefix("content-length: ")?.parse::<usize>().ok();
            let length = head.lines().find_map(length)?;
            let body = &bytes[at + 4..];
            if body.len() == length {
                return Some((head, body.to_vec()));
            }
        }
        match stream.read(&mut part).ok()? {
            0 => return None,
            n => bytes.extend(&part[..n]),
        }
    }
}

fn say(stream: &mut TcpStream, status: &str, body: &[u8]) {
    let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n", body.len());
    let _ = stream.write_all(&[head.as_bytes(), body].concat());
}

/// An exporter to an address, its counts, and its reports.
fn exporter(url: String) -> (Exporter, Arc<Mutex<Exports>>, Receiver<Option<String>>) {
    let totals = totals(100);
    totals.lock().unwrap().push(&window(0, 30));
    let counts = Arc::new(Mutex::new(Exports::default()));
    let (to, told) = channel();
    let headers = BTreeMap::from([("Authorization".to_owned(), "Bearer x".to_owned())]);
    let otlp = Otlp { headers, interval: 10_000_000, ..Otlp::new(url) };
    let target = otlp.target(vec![("service.name".into(), "corun".into())]).unwrap();
    let work = Work {
        target,
        exposition: Arc::new(exposition(&totals)),
        counts: counts.clone(),
        most_time: Duration::from_millis(300),
        ahead_ns: AHEAD_NS,
        tell: Box::new(move |trouble| drop(to.send(trouble))),
    };
    (Exporter::start(work).unwrap(), counts, told)
}

#[test]
fn a_collector_gets_whole_exports_and_the_last_one_when_the_agent_ends() {
    let at = collector(Box::new(|_, stream| say(stream, "200 OK", &[])));
    let (exporter, counts, told) = exporter(format!("http://{}", at.address));
    for _ in 0..3 {
        assert_eq!(told.recv().unwrap(), None);
    }
    drop(exporter);
    let before = told.try_iter().count();
    let delivered = counts.lock().unwrap().delivered;
    assert!(delivered >= 4 + before as u64, "{delivered} delivered, {before} more were told of");
    for _ in 0..delivered {
        let (head, body) = at.got.recv().unwrap();
        let head = head.to_lowercase();
        assert!(head.starts_with("post /v1/metrics http/1.1\r\n"), "{head}");
        for line in ["content-type: application/x-protobuf", "authorization: bearer x"] {
            assert!(head.contains(line), "{head}");
        }
        let (resource, metrics) = metrics(&body);
        assert_eq!(resource["service.name"], "corun");
        assert!(metrics.iter().any(|m| m.name == "corun_wait_seconds"));
    }
}

#[test]
fn whatever_a_collector_does_is_counted_reported_and_over_in_bounded_time() {
    let elsewhere = collector(Box::new(|_, stream| say(stream, "200 OK", &[])));
    let moved = format!("307 Moved\r\nLocation: http://{}/v1/metrics", elsewhere.address);
    let partial = ExportMetricsServiceResponse {
        partial_success: Some(ExportMetricsPartialSuccess {
            rejected_data_points: 3,
            error_message: "too\nold".into(),
        }),
    };
    let partial = partial.encode_to_vec();
    let (delivered, rejected, failed) = ((1, 0, 0), (0, 1, 0), (0, 0, 1));
    let cases: Vec<(Box<Answers>, _, &str)> = vec![
        (Box::new(|_, s| say(s, "429 Too Many", &[])), failed, "it answers 429"),
        (Box::new(|_, s| say(s, "503 Away\r\nRetry-After: 0", &[])), failed, "it answers 503"),
        (Box::new(|_, s| say(s, "400 Bad", b"\x12\x03why")), rejected, "it answers 400: why"),
        (Box::new(|_, s| say(s, "404 Not Found", b"<html>")), rejected, "it answers 404"),
        (Box::new(move |_, s| say(s, &moved, &[])), rejected, "a redirection is not followed"),
        (
            Box::new(move |_, s| say(s, "200 OK", &partial)),
            delivered,
            "it did not take 3 data points: too old",
        ),
        (Box::new(|_, _| ()), failed, "metrics do not arrive"),
        (Box::new(|_, s| drop(s.write_all(b"what\r\n\r\n"))), failed, "metrics do not arrive"),
        // A collector that never finishes: neither the silence, nor a line, nor a body.
        (Box::new(|_, _| std::thread::sleep(Duration::from_secs(2))), failed, "there was no answer"),
        (
            Box::new(|_, s| {
                let _ = s.write_all(b"HTTP/1.1 200 OK\r\nX: ");
                while s.write_all(b"x").is_ok() {
                    std::thread::sleep(Duration::from_millis(20));
                }
            }),
            failed,
            "there was no answer",
        ),
        (
            Box::new(|_, s| {
                let _ = s.write_all(b"HTTP/1.1 200 OK\r\n\r\n");
                while s.write_all(&[0; 4096]).is_ok() {}
            }),
            failed,
            "metrics do not arrive",
        ),
    ];
    for (answer, (delivered, rejected, failed), words) in cases {
        let at = collector(answer);
        let (exporter, counts, told) = exporter(format!("http://{}/v1/metrics", at.address));
        let said = told.recv().unwrap().unwrap_or_else(|| panic!("{words}: it says that all is well"));
        assert!(said.contains(words) && !said.contains('\n'), "{words}: {said}");
        assert!(said.contains(&at.address.to_string()), "{said}");
        let counts = counts.lock().unwrap();
        assert!(
            counts.delivered >= delivered && counts.rejected >= rejected && counts.failed >= failed,
            "{words}: {counts:?}"
        );
        let other = [(delivered, counts.delivered), (rejected, counts.rejected), (failed, counts.failed)];
        assert!(other.iter().all(|(is, counted)| (*is > 0) == (*counted > 0)), "{words}: {counts:?}");
        assert_eq!(counts.rejected_points, 3 * counts.delivered, "{words}");
        drop(counts);
        drop(exporter);
    }
    assert!(elsewhere.got.try_recv().is_err(), "the redirection was followed");
}

#[test]
fn a_collector_that_comes_back_gets_the_counts_of_the_meantime() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = port.local_addr().unwrap();
    drop(port);
    let (exporter, counts, told) = exporter(format!("http://{address}"));
    let away = told.recv().unwrap().unwrap();
    assert!(away.contains("onnection refused"), "{away}");
    let listener = TcpListener::bind(address).unwrap();
    std::thread::spawn(move || {
        let mut stream = listener.accept().unwrap().0;
        let _ = read(&mut stream);
        say(&mut stream, "200 OK", &[]);
    });
    while told.recv().unwrap().is_some() {}
    let counts = *counts.lock().unwrap();
    assert!(counts.delivered == 1 && counts.failed >= 1, "{counts:?}");
    drop(exporter);
}
