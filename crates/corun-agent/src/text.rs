//! Metrics as text: in Prometheus's format 0.0.4, or in OpenMetrics 1.0.0, which differs in the lines above
//! the samples of a metric and ends with a mark.
//!
//! The page of a thousand tenants has 25,000 lines, half of them for histograms, and a scraper waits for it.
//! So the edges of histograms are formatted once, and so is the beginning of the lines of each histogram.
//! prometheus-client formats each line again; a test compares the two, byte by byte. In both formats edges
//! have Go's format, so that a series is the same in both.

use crate::longest::Longest;
use crate::metrics::{classic, seconds, Kind, Labels, Metric, Page, Rows, Write};
use corun_model::Histogram;
use std::fmt::Error;

/// Which of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// Version 0.0.4 of Prometheus's own.
    Prometheus,
    /// Version 1.0.0 of OpenMetrics.
    OpenMetrics,
}

/// What the text of OpenMetrics ends with.
pub const END_OF_OPEN_METRICS: &[u8] = b"# EOF\n";

/// A page of text.
pub struct Text {
    /// What was written.
    pub bytes: Vec<u8>,
    dialect: Dialect,
    /// The upper edges of a histogram's buckets.
    edges: Vec<String>,
}

impl Text {
    /// One that goes on behind these bytes.
    pub fn new(dialect: Dialect, bytes: Vec<u8>) -> Text {
        let edges = classic(&Histogram::default()).map(|(edge, _)| as_go_writes(edge)).collect();
        Text { bytes, dialect, edges }
    }

    fn put(&mut self, parts: &[&str]) {
        parts.iter().for_each(|part| self.bytes.extend(part.as_bytes()));
    }
}

impl Page for Text {
    fn metric(&mut self, metric: &Metric, write: Write) -> Result<(), Error> {
        let family = match self.dialect {
            Dialect::Prometheus => metric.name,
            Dialect::OpenMetrics => metric.name.strip_suffix("_total").unwrap_or(metric.name),
        };
        self.put(&["# HELP ", family, " ", metric.help, "\n# TYPE ", family, " ", metric.kind.name(), "\n"]);
        if self.dialect == Dialect::OpenMetrics && family.ends_with("_seconds") {
            self.put(&["# UNIT ", family, " seconds\n"]);
        }
        debug_assert!(metric.kind != Kind::Counter || metric.name.ends_with("_total"));
        let Text { bytes, edges, dialect } = self;
        let has_exemplars = *dialect == Dialect::OpenMetrics;
        write(&mut Lines { bytes, edges, name: metric.name, has_exemplars, before: Vec::new() })
    }
}

/// The lines of one metric.
struct Lines<'a> {
    bytes: &'a mut Vec<u8>,
    edges: &'a [String],
    name: &'a str,
    /// Whether its dialect has exemplars.
    has_exemplars: bool,
    /// The beginning of the lines of a histogram's buckets; the buffer is reused.
    before: Vec<u8>,
}

impl Lines<'_> {
    fn line(&mut self, suffix: &str, labels: Labels, value: &str) {
        self.bytes.extend(self.name.as_bytes());
        self.bytes.extend(suffix.as_bytes());
        for (at, (name, value)) in labels.iter().enumerate() {
            self.bytes.push(if at == 0 { b'{' } else { b',' });
            put_label(self.bytes, name, value);
        }
        if !labels.is_empty() {
            self.bytes.push(b'}');
        }
        self.value(value);
    }

    fn exemplar(&mut self, longest: &Longest) {
        self.bytes.extend(b" # {");
        for (at, (name, value)) in longest.labels().iter().enumerate() {
            self.bytes.extend(if at == 0 { &b""[..] } else { b"," });
            put_label(self.bytes, name, value);
        }
        self.bytes.extend(b"} ");
        self.bytes.extend(dtoa::Buffer::new().format_finite(seconds(longest.ns())).as_bytes());
        let ms = longest.unix_ns / 1_000_000;
        self.bytes.extend(format!(" {}.{:03}", ms / 1_000, ms % 1_000).as_bytes());
    }

    fn value(&mut self, value: &str) {
        self.bytes.push(b' ');
        self.bytes.extend(value.as_bytes());
        self.bytes.push(b'\n');
    }
}

impl Rows for Lines<'_> {
    fn seconds(&mut self, labels: Labels, _: u64, ns: u64) -> Result<(), Error> {
        self.line("", labels, dtoa::Buffer::new().format_finite(seconds(ns)));
        Ok(())
    }

    fn count(&mut self, labels: Labels, _: u64, n: u64) -> Result<(), Error> {
        self.line("", labels, itoa::Buffer::new().format(n));
        Ok(())
    }

    fn gauge(&mut self, labels: Labels, value: f64) -> Result<(), Error> {
        self.line("", labels, dtoa::Buffer::new().format_finite(value));
        Ok(())
    }

    fn histogram(
        &mut self,
        labels: Labels,
        _: u64,
        sum_ns: u64,
        waits: &Histogram,
        longest: Option<&Longest>,
    ) -> Result<(), Error> {
        let mut before = std::mem::take(&mut self.before);
        before.clear();
        before.extend(self.name.as_bytes());
        before.extend(b"_bucket{");
        for (name, value) in labels {
            put_label(&mut before, name, value);
            before.push(b',');
        }
        before.extend(b"le=\"");
        let mut cumulative = 0;
        let mut longest = longest.filter(|_| self.has_exemplars);
        for (edge, (upper, n)) in self.edges.iter().zip(classic(waits)) {
            cumulative += n;
            self.bytes.extend(&before);
            self.bytes.extend(edge.as_bytes());
            self.bytes.extend(b"\"} ");
            self.bytes.extend(itoa::Buffer::new().format(cumulative).as_bytes());
            if let Some(longest) = longest.take_if(|longest| seconds(longest.ns()) < upper) {
                self.exemplar(longest);
            }
            self.bytes.push(b'\n');
        }
        self.before = before;
        self.line("_sum", labels, dtoa::Buffer::new().format_finite(seconds(sum_ns)));
        self.line("_count", labels, itoa::Buffer::new().format(waits.total()));
        Ok(())
    }
}

fn put_label(bytes: &mut Vec<u8>, name: &str, value: &str) {
    bytes.extend(name.as_bytes());
    bytes.extend(b"=\"");
    let is_plain = !value.bytes().any(|byte| matches!(byte, b'\\' | b'"' | b'\n'));
    match is_plain {
        true => bytes.extend(value.as_bytes()),
        false => value.bytes().for_each(|byte| match byte {
            b'\\' | b'"' => bytes.extend([b'\\', byte]),
            b'\n' => bytes.extend(b"\\n"),
            _ => bytes.push(byte),
        }),
    }
    bytes.push(b'"');
}

/// A number in the format of Go's `%g`, like every other exporter's bucket labels.
fn as_go_writes(edge: f64) -> String {
    if edge.is_infinite() {
        return "+Inf".to_owned();
    }
    if (1e-4..1e6).contains(&edge) {
        return edge.to_string();
    }
    let text = format!("{edge:e}");
    let parts =
        text.split_once('e').and_then(|(digits, exponent)| Some((digits, exponent.parse::<i32>().ok()?)));
    let (digits, exponent) = parts.expect("so it is written");
    format!("{digits}e{exponent:+03}")
}
