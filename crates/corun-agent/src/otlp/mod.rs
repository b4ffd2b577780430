//! Metrics for a collector of OpenTelemetry: OTLP over HTTP, in protobuf.
//!
//! They are those of `/metrics`, under the same names. All counters count from their start (cumulative). So
//! the next export makes up for one that does not arrive, and nothing is kept for a collector that is away.
//! An export has a time limit, and a thread of its own.

pub mod known;
pub mod message;
pub mod request;
pub mod target;

use crate::exposition::Exposition;
use crate::metrics::Exports;
use corun_linux::clock::now_unix_ns;
use known::Known;
use message::{ExportMetricsServiceResponse, KeyValue, Status};
use prost::Message;
use request::{request, Clock};
use std::io;
use std::sync::mpsc::{channel, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use target::Target;

/// The time limit of an export, from the name look-up to the last byte of the answer.
pub const MOST_TIME: Duration = Duration::from_secs(10);
/// The time limit of the last one: the user who stops an agent waits for it.
const MOST_LAST_TIME: Duration = Duration::from_secs(2);
/// The longest answer that is read.
const MOST_ANSWER: u64 = 64 << 10;
/// The pause after the first failure; each further failure doubles it.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The longest pause, unless the interval is longer.
const MOST_PAUSE: Duration = Duration::from_secs(60);
/// The longest pause that a collector can request.
const MOST_ASKED: Duration = Duration::from_secs(3_600);
/// At most this many characters of a collector's message are passed on.
const MOST_SAID: usize = 200;

/// What came of an export.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Outcome {
    /// It arrived; this many points were rejected, for this reason.
    Delivered(u64, String),
    /// The collector will never take it.
    Rejected(String),
    /// The collector may accept it later, perhaps not before this time.
    Failed(String, Option<Duration>),
}

/// Exports until it is dropped, which triggers the last export.
pub struct Exporter {
    stop: Option<Sender<()>>,
    ended: Receiver<()>,
}

/// What an exporter works with.
pub struct Work {
    /// Where to.
    pub target: Target,
    /// What.
    pub exposition: Arc<Exposition>,
    /// Counted here.
    pub counts: Arc<Mutex<Exports>>,
    /// How long an export may take.
    pub most_time: Duration,
    /// How far the wall clock is ahead of the host's.
    pub ahead_ns: u64,
    /// Gets a report after each export: why metrics do not arrive, or that they do.
    pub tell: Box<dyn Fn(Option<String>) + Send>,
}

impl Exporter {
    /// Starts it.
    ///
    /// # Errors
    /// If no more threads are possible.
    pub fn start(work: Work) -> io::Result<Exporter> {
        let (stop, stopped) = channel();
        let (done, ended) = channel();
        corun_linux::limits::start_thread("corun-otlp", move || {
            export(&work, &stopped);
            let _ = done.send(());
        })?;
        Ok(Exporter { stop: Some(stop), ended })
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        drop(self.stop.take());
        // A thread that hangs in an export is not waited for.
        let _ = self.ended.recv_timeout(MOST_LAST_TIME);
    }
}

fn export(work: &Work, stopped: &Receiver<()>) {
    let interval = work.target.interval;
    let (mut pause, mut pauses) = (interval, Pauses::new(interval));
    let (mut is_well, mut known) = (true, Known::default());
    while stopped.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
        let outcome = send(work, work.most_time, &mut known);
        is_well = matches!(outcome, Outcome::Delivered(..));
        pause = pauses.after(&outcome, now_unix_ns());
        count(&work.counts, &outcome);
        (work.tell)(said(outcome, &work.target));
    }
    if is_well {
        count(&work.counts, &send(work, work.most_time.min(MOST_LAST_TIME), &mut known));
    }
}

/// The pause after an export.
struct Pauses {
    interval: Duration,
    next: Duration,
}

impl Pauses {
    fn new(interval: Duration) -> Pauses {
        Pauses { interval, next: FIRST_PAUSE }
    }

    /// After a failure it is twice the previous one, reduced by up to half by `chance`: the agents of a fleet
    /// do not come back at the same time.
    fn after(&mut self, outcome: &Outcome, chance: u64) -> Duration {
        match outcome {
            Outcome::Failed(_, asked) => {
                let pause = self.next.mul_f64(1.0 - (chance % 1_000) as f64 / 2_000.0);
                self.next = (2 * self.next).min(self.interval.max(MOST_PAUSE));
                asked.map_or(pause, |asked| asked.min(MOST_ASKED).max(pause))
            }
            _ => {
                self.next = FIRST_PAUSE;
                self.interval
            }
        }
    }
}

fn count(counts: &Mutex<Exports>, outcome: &Outcome) {
    let mut counts = counts.lock().unwrap_or_else(PoisonError::into_inner);
    match outcome {
        Outcome::Delivered(rejected_points, _) => {
            counts.delivered += 1;
            counts.rejected_points += rejected_points;
        }
        Outcome::Rejected(_) => counts.rejected += 1,
        Outcome::Failed(..) => counts.failed += 1,
    }
}

/// Why metrics do not arrive; `None` if they do.
fn said(outcome: Outcome, target: &Target) -> Option<String> {
    let why = match outcome {
        Outcome::Delivered(0, _) => return None,
        Outcome::Delivered(points, why) => format!("it did not take {points} data points: {why}"),
        Outcome::Rejected(why) | Outcome::Failed(why, _) => why,
    };
    let why: String = corun_report::one_line(&why).chars().take(MOST_SAID).collect();
    Some(format!("metrics do not arrive at {}: {why}", target.url))
}

/// Makes a request with the present metrics, and sends it. Once it has arrived, the collector knows its
/// content.
fn send(work: &Work, time: Duration, known: &mut Known) -> Outcome {
    let resource: Vec<KeyValue> =
        work.target.resource.iter().map(|(key, value)| message::attribute(key, value)).collect();
    let clock = Clock { ahead_ns: work.ahead_ns, now_unix_ns: now_unix_ns() };
    let (body, there) = request(&work.exposition, &resource, clock, known);
    let outcome = post(&work.target, &body, time);
    let outcome = outcome.unwrap_or_else(|e| Outcome::Failed(why_not(&e, time), None));
    if matches!(outcome, Outcome::Delivered(..)) {
        *known = there;
    }
    outcome
}

fn why_not(e: &ureq::Error, time: Duration) -> String {
    match e {
        ureq::Error::Timeout(_) => format!("there was no answer for {} s", time.as_secs()),
        ureq::Error::Io(e) => corun_linux::root::in_words(e),
        e => e.to_string(),
    }
}

fn post(target: &Target, body: &[u8], time: Duration) -> Result<Outcome, ureq::Error> {
    let config = ureq::Agent::config_builder()
        .timeout_global(Some(time))
        .http_status_as_error(false)
        // Only the host named by the operator gets the metrics.
        .max_redirects(0)
        .proxy(None)
        .max_idle_connections(0)
        .user_agent(concat!("corun/", env!("CARGO_PKG_VERSION")));
    let mut post = config.build().new_agent().post(&target.url).content_type("application/x-protobuf");
    for (name, value) in &target.headers {
        post = post.header(name, value);
    }
    let mut answer = post.send(body)?;
    let asked =
        answer.headers().get("retry-after").and_then(|value| value.to_str().ok()?.trim().parse().ok());
    let status = answer.status().as_u16();
    let body = match answer.body_mut().with_config().limit(MOST_ANSWER).read_to_vec() {
        Ok(body) => body,
        // Whether all points were accepted is unknown.
        Err(e) if answer.status().is_success() => return Err(e),
        Err(_) => Vec::new(),
    };
    Ok(outcome(status, asked.map(Duration::from_secs), &body))
}

/// The meaning of an answer in the specification of OTLP/HTTP.
fn outcome(status: u16, asked: Option<Duration>, body: &[u8]) -> Outcome {
    let why = || {
        let said = Status::decode(body).map(|status| status.message).unwrap_or_default();
        let colon = if said.is_empty() { "" } else { ": " };
        format!("it answers {status}{colon}{said}")
    };
    match status {
        200..=299 => {
            let answer = ExportMetricsServiceResponse::decode(body).unwrap_or_default();
            let partial = answer.partial_success.unwrap_or_default();
            Outcome::Delivered(partial.rejected_data_points.max(0) as u64, partial.error_message)
        }
        429 | 502 | 503 | 504 => Outcome::Failed(why(), asked),
        300..=399 => Outcome::Rejected(format!("it answers {status}, and a redirection is not followed")),
        _ => Outcome::Rejected(why()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(asked: Option<u64>) -> Outcome {
        Outcome::Failed("away".into(), asked.map(Duration::from_secs))
    }

    #[test]
    fn pauses_double_up_to_a_minute_or_the_interval_and_start_again_once_it_arrived() {
        let interval = Duration::from_secs(20);
        let mut pauses = Pauses::new(interval);
        let longest: Vec<u64> = (0..9).map(|_| pauses.after(&failed(None), 0).as_secs()).collect();
        assert_eq!(longest, [1, 2, 4, 8, 16, 32, 60, 60, 60]);
        assert_eq!(pauses.after(&failed(None), 999).as_millis(), 30_030);
        assert_eq!(pauses.after(&Outcome::Delivered(0, String::new()), 0), interval);
        assert_eq!(pauses.after(&failed(None), 0).as_secs(), 1);
        // The collector's requested pause is not shortened, but limited.
        assert_eq!(pauses.after(&failed(Some(90)), 0).as_secs(), 90);
        assert_eq!(pauses.after(&failed(Some(u64::MAX)), 0), MOST_ASKED);
        assert_eq!(pauses.after(&failed(Some(0)), 0).as_secs(), 8);
        assert_eq!(pauses.after(&Outcome::Rejected("no".into()), 0), interval);
    }

    #[test]
    fn answers_have_the_meaning_in_the_specification() {
        let status = |code| outcome(code, None, &[]);
        for code in [429, 502, 503, 504] {
            assert!(matches!(status(code), Outcome::Failed(..)), "{code}");
        }
        for code in [301, 307, 400, 401, 404, 413, 500, 501] {
            assert!(matches!(status(code), Outcome::Rejected(_)), "{code}");
        }
        assert_eq!(status(200), Outcome::Delivered(0, String::new()));
        assert_eq!(outcome(200, None, b"no protobuf"), Outcome::Delivered(0, String::new()));
        let said = Status { message: "too old".into() }.encode_to_vec();
        assert_eq!(outcome(400, None, &said), Outcome::Rejected("it answers 400: too old".into()));
        let asked = Some(Duration::from_secs(7));
        assert_eq!(outcome(503, asked, &said), Outcome::Failed("it answers 503: too old".into(), asked));
    }
}
