//! The present metrics on request, in the requested format.
//!
//! The part on tenants and the machine is written once per window, for the first scraper that asks. Everybody who asks before the next
//! window shares these bytes. A later window reuses their memory, so scrapes need no more memory, however many there are. The part on
//! the agent itself is a few lines, written for each request. It is the same with the compressed page, which exists only if somebody
//! asks for it.

use crate::gzip::{self, Part};
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
        for range in ranges(accept) {
            let weight = range.weight();
            let format = match &*range.kind {
                "application/openmetrics-text" => Format::OpenMetrics,
                "application/vnd.google.protobuf"
                    if range.parameter("proto") == Some("io.prometheus.client.MetricFamily")
                        && range.parameter("encoding") == Some("delimited") =>
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

/// Whether the scraper takes gzip, by its `Accept-Encoding` line.
pub fn takes_gzip(accept_encoding: &str) -> bool {
    ranges(accept_encoding).any(|range| range.kind == "gzip" && range.weight() > 0.0)
}

/// One of the alternatives in an `Accept` line or a similar one.
struct Range<'a> {
    kind: String,
    parameters: Vec<(&'a str, &'a str)>,
}

impl<'a> Range<'a> {
    fn parameter(&self, name: &str) -> Option<&'a str> {
        self.parameters.iter().find(|(n, _)| *n == name).map(|(_, value)| *value)
    }

    /// How welcome it is; 0: not at all.
    fn weight(&self) -> f64 {
        self.parameter("q").map_or(1.0, |q| q.parse().unwrap_or(0.0))
    }
}

fn ranges(line: &str) -> impl Iterator<Item = Range<'_>> {
    line.split(',').map(|range| {
        let mut parts = range.split(';').map(str::trim);
        let kind = parts.next().unwrap_or_default().to_ascii_lowercase();
        Range { kind, parameters: parts.filter_map(|p| p.split_once('=')).collect() }
    })
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
    /// The same, compressed; `None`: nobody has asked for it.
    zipped: Option<Part>,
    /// Memory for that.
    room: Vec<u8>,
}

impl Exposition {
    /// Of these totals, and of the result of `own` each time.
    pub fn new(totals: Arc<Mutex<Totals>>, own: impl Fn() -> Own + Send + Sync + 'static) -> Exposition {
        Exposition { totals, own: Box::new(own), seen: Default::default() }
    }

    /// All metrics as they are now: the parts of one page.
    pub fn encode(&self, format: Format) -> Vec<Bytes> {
        vec![self.seen(format).bytes.clone(), self.own(format).into()]
    }

    /// The same page, compressed by gzip.
    pub fn encode_zipped(&self, format: Format) -> Vec<Bytes> {
        let seen = self.seen(format).zipped();
        gzip::joined(&[seen, Part::of(&self.own(format), Vec::new())])
    }

    fn own(&self, format: Format) -> Vec<u8> {
        let own = (self.own)();
        let mut own = written(format, Vec::new(), |page| of_own(page, &own));
        if format == Format::OpenMetrics {
            own.extend(END_OF_OPEN_METRICS);
        }
        own
    }

    fn seen(&self, format: Format) -> MutexGuard<'_, Seen> {
        let mut seen = lock(&self.seen[format as usize]);
        let totals = lock(&self.totals);
        let windows = Some(totals.node.windows);
        if seen.windows != windows {
            let Seen { bytes, zipped, room, .. } = std::mem::take(&mut *seen);
            let bytes = written(format, room_of(bytes), |page| of_seen(page, &totals)).into();
            let room = zipped.map_or(room, |part| room_of(part.bytes));
            *seen = Seen { windows, bytes, zipped: None, room };
        }
        seen
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

impl Seen {
    fn zipped(&mut self) -> Part {
        let Seen { bytes, zipped, room, .. } = self;
        zipped.get_or_insert_with(|| Part::of(bytes, std::mem::take(room))).clone()
    }
}

/// The memory of a page that was sent. Who is still sending it keeps it.
fn room_of(sent: Bytes) -> Vec<u8> {
    let mut room = Arc::try_unwrap(sent).unwrap_or_else(|sent| Vec::with_capacity(sent.len()));
    room.clear();
    room
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
