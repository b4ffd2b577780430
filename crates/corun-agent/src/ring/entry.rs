//! The content of a ring: its writer, and windows with the time of day; the bytes are compressed protobuf.
//!
//! A payload begins with the start and end of its window, in nanoseconds since 1970 (0: it is no window), so
//! that a search for 03:10 skips the others. An observation is kept in full, except the fields for a running
//! policy (limits and refusals), and hardware counters, which an agent does not read.

use super::wire::{self, Run};
use corun_model::Observation;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;
use flate2::Compression;
use prost::Message;
use std::io::{Read, Write};
use std::ops::Range;
use std::sync::Arc;

/// Bytes before the compressed part.
const TIME: usize = 16;
/// The largest size of a decompressed payload.
const MOST_BYTES: u64 = 256 << 20;

/// One entry.
#[derive(Clone, Debug, PartialEq)]
pub enum Entry {
    /// A run begins, or continues in another segment.
    Run(Run),
    /// A window.
    Window {
        /// Its start and end, in nanoseconds since 1970.
        unix_ns: Range<u64>,
        /// The observation.
        seen: Box<Observation>,
    },
}

/// A window as it is read back.
#[derive(Clone, Debug, PartialEq)]
pub struct KeptWindow {
    /// Its start and end, in nanoseconds since 1970.
    pub unix_ns: Range<u64>,
    /// The run that it is of.
    pub run: Arc<Run>,
    /// The observation.
    pub seen: Box<Observation>,
}

/// The bytes of an entry.
pub fn encode(entry: &Entry) -> Vec<u8> {
    match entry {
        Entry::Run(run) => pack(0..0, &wire::Entry { run: Some(run.clone()), window: None }.encode_to_vec()),
        Entry::Window { unix_ns, seen } => pack(unix_ns.clone(), &wire::entry_of(seen)),
    }
}

/// A payload: a message, compressed, preceded by its time.
pub fn pack(unix_ns: Range<u64>, message: &[u8]) -> Vec<u8> {
    let time = [unix_ns.start.to_le_bytes(), unix_ns.end.to_le_bytes()].concat();
    let mut compressed = ZlibEncoder::new(time, Compression::fast());
    compressed
        .write_all(message)
        .and_then(|()| compressed.finish())
        .expect("memory takes all that is written")
}

/// The message of a payload.
///
/// # Errors
/// A sentence, when it is none.
pub fn unpack(payload: &[u8]) -> Result<Vec<u8>, String> {
    let compressed = payload.get(TIME..).ok_or("it is too short")?;
    let mut message = Vec::new();
    let mut decoder = ZlibDecoder::new(compressed).take(MOST_BYTES);
    decoder.read_to_end(&mut message).map_err(|e| e.to_string())?;
    Ok(message)
}

/// The start and end of a payload's window; `None` if it is no window.
pub(super) fn time_of(payload: &[u8]) -> Option<Range<u64>> {
    let at = |at: usize| Some(u64::from_le_bytes(payload.get(at..at + 8)?.try_into().ok()?));
    let time = at(0)?..at(8)?;
    (time.end > 0).then_some(time)
}

/// An entry from its bytes.
///
/// # Errors
/// A sentence, if they are invalid or describe something impossible.
pub fn decode(payload: &[u8]) -> Result<Entry, String> {
    let message = wire::Entry::decode(&*unpack(payload)?).map_err(|e| e.to_string())?;
    match (message, time_of(payload)) {
        (wire::Entry { window: Some(window), .. }, Some(unix_ns)) => {
            Ok(Entry::Window { unix_ns, seen: Box::new(window.observation()?) })
        }
        (wire::Entry { run: Some(run), .. }, None) => Ok(Entry::Run(run)),
        _ => Err("it is neither a window nor a run".into()),
    }
}
