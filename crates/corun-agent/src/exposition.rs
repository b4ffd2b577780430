//! The present metrics on request, in the requested format.

use crate::metrics::{Metrics, Own, Page};
use crate::protobuf::Families;
use crate::text::{Dialect, Text};
use crate::totals::Totals;
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
    /// The preferred format of an `Accept` line: among several with the same weight, the first.
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
            Format::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Format::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Format::Protobuf => {
                "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited"
            }
        }
    }
}

/// All present metrics, on request.
pub struct Exposition {
    source: Metrics,
}

impl Exposition {
    /// Of these totals, and of the result of `own` each time.
    pub fn new(totals: Arc<Mutex<Totals>>, own: impl Fn() -> Own + Send + Sync + 'static) -> Exposition {
        Exposition { source: Metrics { totals, own: Box::new(own) } }
    }

    /// All metrics as they are now.
    pub fn encode(&self, format: Format) -> Vec<u8> {
        match format {
            Format::Prometheus => self.text(Dialect::Prometheus),
            Format::OpenMetrics => self.text(Dialect::OpenMetrics),
            Format::Protobuf => {
                let mut families = Families::default();
                self.write_to(&mut families).expect("memory takes all that is written");
                families.bytes
            }
        }
    }

    fn text(&self, dialect: Dialect) -> Vec<u8> {
        let mut text = Text::new(dialect);
        self.write_to(&mut text).expect("memory takes all that is written");
        text.finish()
    }

    /// The same metrics for somebody else.
    ///
    /// # Errors
    /// Those of the page.
    pub fn write_to(&self, page: &mut dyn Page) -> Result<(), Error> {
        self.source.write_to(page)
    }
}
