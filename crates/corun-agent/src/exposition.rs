//! The present metrics on request, in the requested format.
//!
//! The part on tenants and the machine is written once per window, for the first scraper that asks. Everybody who asks before the next
//! window shares these bytes. A later window reuses their memory, so scrapes need no more memory, however many there are. The part on
//! the agent itself is a few lines, written for each request.

use crate::metrics::{of_own, of_seen, Own, Page};
use crate::protobuf::Families;
use crate::text::{Dialect, Text, END_OF_OPEN_METRICS};
use crate::totals::Totals;
use std::fmt::Error;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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

/// How many there are.
const FORMATS: usize = 3;

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

/// Bytes that several requests can share.
pub type Bytes = Arc<Vec<u8>>;

/// All present metrics, on request.
pub struct Exposition {
    totals: Arc<Mutex<Totals>>,
    own: Box<dyn Fn() -> Own + Send + Sync>,
    /// What was seen, by format.
    seen: [Mutex<Seen>; FORMATS],
}

/// What was seen, as it is sent.
#[derive(Default)]
struct Seen {
    /// Up to which window; `None`: nothing is written yet.
    windows: Option<u64>,
    bytes: Bytes,
}

impl Exposition {
    /// Of these totals, and of the result of `own` each time.
    pub fn new(totals: Arc<Mutex<Totals>>, own: impl Fn() -> Own + Send + Sync + 'static) -> Exposition {
        Exposition { totals, own: Box::new(own), seen: Default::default() }
    }

    /// All metrics as they are now: the parts of one page.
    pub fn encode(&self, format: Format) -> Vec<Bytes> {
        let seen = self.seen(format);
        let own = (self.own)();
        let mut own = written(format, Vec::new(), |page| of_own(page, &own));
        if format == Format::OpenMetrics {
            own.extend(END_OF_OPEN_METRICS);
        }
        vec![seen, own.into()]
    }

    fn seen(&self, format: Format) -> Bytes {
        let mut seen = lock(&self.seen[format as usize]);
        let totals = lock(&self.totals);
        let windows = Some(totals.node.windows);
        if seen.windows != windows {
            seen.windows = None;
            // Who is still sending what was written before keeps it.
            let before = Arc::try_unwrap(std::mem::take(&mut seen.bytes));
            let mut room = before.unwrap_or_else(|sent| Vec::with_capacity(sent.len()));
            room.clear();
            *seen = Seen { bytes: written(format, room, |page| of_seen(page, &totals)).into(), windows };
        }
        seen.bytes.clone()
    }

    /// The same metrics for somebody else.
    ///
    /// # Errors
    /// Those of the page.
    pub fn write_to(&self, page: &mut dyn Page) -> Result<(), Error> {
        let own = (self.own)();
        of_seen(page, &lock(&self.totals))?;
        of_own(page, &own)
    }
}

/// Writes in a format, into the room that there is.
fn written(format: Format, room: Vec<u8>, write: impl Fn(&mut dyn Page) -> Result<(), Error>) -> Vec<u8> {
    const TAKEN: &str = "memory takes all that is written";
    let dialect = match format {
        Format::Prometheus => Dialect::Prometheus,
        Format::OpenMetrics => Dialect::OpenMetrics,
        Format::Protobuf => {
            let mut families = Families { bytes: room };
            write(&mut families).expect(TAKEN);
            return families.bytes;
        }
    };
    let mut text = Text::new(dialect, room);
    write(&mut text).expect(TAKEN);
    text.bytes
}

/// What a thread that panicked left is still the newest there is.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
