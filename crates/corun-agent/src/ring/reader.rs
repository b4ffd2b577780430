//! Reading a ring, segment by segment, oldest first, up to any damage and on after it.
//!
//! The record of everybody by `corun record` is read in the same way: a recording has the same entries and is
//! one segment. It was written at once, so a damaged one is refused as a whole.

use super::entry::{decode, time_of, Entry, KeptWindow};
use super::segment::{scan, Fault, Scan};
use super::wire::Run;
use super::{segment_name, segments, RingError};
use corun_model::run_log::file::{is_recording, places_of_seen, Refused, MOST_BYTES};
use corun_report::places::unread;
use std::collections::VecDeque;
use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A part of a ring that cannot be read; the part before it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The segment.
    pub path: PathBuf,
    /// The first byte that could not be read.
    pub at: u64,
    /// Its error.
    pub what: What,
}

/// The error in a part of a ring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// Its bytes have changed since they were written.
    Bytes(Fault),
    /// An entry is intact, but describes something impossible.
    Entry(String),
    /// It is a recording, which cannot be read.
    Recording(Refused),
    /// The file could not be read.
    File(String),
    /// The segment is missing, though an older and a newer one exist.
    Missing,
}

impl std::fmt::Display for Damage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Damage { path, at, what } = self;
        let path = path.display();
        match what {
            What::Bytes(Fault::NoHeader) => {
                write!(f, "{path} is damaged at its beginning, so nothing of it was read")
            }
            What::Bytes(Fault::OtherFormat(format)) => {
                write!(f, "{path} is of ring format {format}, so nothing of it was read")
            }
            What::Bytes(Fault::Frame) => {
                write!(f, "{path} is damaged at byte {at}, so nothing was read from there on")
            }
            What::Bytes(Fault::Unfinished) => {
                write!(f, "{path} has an entry at byte {at} that was not finished")
            }
            What::Bytes(Fault::Cut) => {
                write!(f, "{path} was cut to {at} bytes; what it had behind them is lost")
            }
            What::Entry(why) => write!(f, "{path} has an entry at byte {at} that cannot be: {why}"),
            What::Recording(refused) => write!(f, "{path}: {refused}"),
            What::File(why) => write!(f, "cannot read {path}: {why}"),
            What::Missing => write!(f, "{path} is missing, so what it held is lost"),
        }
    }
}

/// Reads a ring, or a recording, in its state when it was opened. It takes no lock: an agent may write to it
/// meanwhile.
pub struct Reader {
    folder: PathBuf,
    segments: Vec<Segment>,
}

/// The knowledge about a segment after one pass.
struct Segment {
    number: u64,
    path: PathBuf,
    /// The starts and ends of its windows, in the order in which they were written.
    times: Vec<Range<u64>>,
    /// Whether all of it can be read, according to its bytes; otherwise what cannot.
    damage: Option<Damage>,
}

impl Segment {
    fn of((number, path): (u64, PathBuf)) -> Segment {
        let mut segment = Segment { number, path, times: Vec::new(), damage: None };
        match std::fs::read(&segment.path) {
            Ok(bytes) => {
                let (places, damage) = segment.payloads(&bytes);
                segment.times = places.into_iter().filter_map(|place| time_of(&bytes[place])).collect();
                segment.damage = damage;
            }
            Err(e) => segment.damage = Some(segment.damaged(0, What::File(unread(&segment.path, &e)))),
        }
        segment
    }

    /// A file that is to be a recording.
    fn of_recording(path: &Path, most_bytes: u64) -> Result<Segment, RingError> {
        let refused = |what| RingError::NoRecording { path: path.to_owned(), what };
        let mut bytes = Vec::new();
        let file = File::open(path).map_err(RingError::reading(path))?;
        file.take(most_bytes + 1).read_to_end(&mut bytes).map_err(RingError::reading(path))?;
        if !is_recording(&bytes) {
            return Err(refused(Refused::Other));
        }
        if bytes.len() as u64 > most_bytes {
            return Err(refused(Refused::Damaged("it is longer than any recording")));
        }
        let places = places_of_seen(&bytes).map_err(refused)?;
        let times: Vec<Range<u64>> = places.into_iter().filter_map(|place| time_of(&bytes[place])).collect();
        match times.is_empty() {
            true => Err(RingError::NothingOfEverybody(path.to_owned())),
            false => Ok(Segment { number: 0, path: path.to_owned(), times, damage: None }),
        }
    }

    /// The locations of its payloads in its bytes, and the unreadable part.
    fn payloads(&self, bytes: &[u8]) -> (Vec<Range<usize>>, Option<Damage>) {
        if is_recording(bytes) {
            return match places_of_seen(bytes) {
                Ok(places) => (places, None),
                // It was whole when it was opened.
                Err(refused) => (Vec::new(), Some(self.damaged(0, What::Recording(refused)))),
            };
        }
        let Scan { frames, fault, .. } = scan(bytes);
        (frames, fault.map(|(fault, at)| self.damaged(at, What::Bytes(fault))))
    }

    fn damaged(&self, at: u64, what: What) -> Damage {
        Damage { path: self.path.clone(), at, what }
    }

    fn has_part_in(&self, wanted: &Range<u64>) -> bool {
        self.times.iter().any(|t| overlap(t, wanted))
    }
}

fn overlap(time: &Range<u64>, wanted: &Range<u64>) -> bool {
    time.start < wanted.end && time.end > wanted.start
}

impl Reader {
    /// Opens the ring in a folder, or a recording in a file, and reads all of it once.
    ///
    /// # Errors
    /// [`RingError`]: the folder cannot be read or holds no segment, or another corun wrote the newest one; the file is no recording, or
    /// not a whole one.
    pub fn open(place: &Path) -> Result<Reader, RingError> {
        if place.is_file() {
            return Ok(Reader {
                folder: place.to_owned(),
                segments: vec![Segment::of_recording(place, MOST_BYTES)?],
            });
        }
        Reader::open_ring(place)
    }

    fn open_ring(folder: &Path) -> Result<Reader, RingError> {
        let segments: Vec<Segment> = segments(folder)?.into_iter().map(Segment::of).collect();
        let newest = segments.last().ok_or_else(|| RingError::NoRing(folder.to_owned()))?;
        match newest.damage {
            Some(Damage { what: What::Bytes(Fault::OtherFormat(format)), .. }) => {
                Err(RingError::OtherFormat { path: newest.path.clone(), format })
            }
            _ => Ok(Reader { folder: folder.to_owned(), segments }),
        }
    }

    /// The windows that overlap this time, in nanoseconds since 1970, in the order in which they were
    /// written; between them, the unreadable parts. Segments without such a window are not read again.
    pub fn windows(&self, wanted: Range<u64>) -> Windows<'_> {
        Windows { reader: self, wanted, next: 0, loaded: VecDeque::new(), run: None }
    }

    /// The starts and ends of the windows, in nanoseconds since 1970, in the order in which they were
    /// written.
    pub fn times(&self) -> impl Iterator<Item = &Range<u64>> {
        self.segments.iter().flat_map(|segment| &segment.times)
    }

    /// The unreadable parts, according to its bytes.
    pub fn damages(&self) -> impl Iterator<Item = &Damage> {
        self.segments.iter().filter_map(|segment| segment.damage.as_ref())
    }

    /// The time from the earliest window to the latest, in nanoseconds since 1970; `None` if there is none.
    pub fn span(&self) -> Option<Range<u64>> {
        self.times().cloned().reduce(|a, b| a.start.min(b.start)..a.end.max(b.end))
    }
}

/// The windows of a time; see [`Reader::windows`].
pub struct Windows<'a> {
    reader: &'a Reader,
    wanted: Range<u64>,
    next: usize,
    loaded: VecDeque<Result<KeptWindow, Damage>>,
    run: Option<Arc<Run>>,
}

impl Windows<'_> {
    /// Reads the next segment; returns whether there was one.
    fn load(&mut self) -> bool {
        let Some(segment) = self.reader.segments.get(self.next) else { return false };
        let before = self.next.checked_sub(1).map(|at| self.reader.segments[at].number);
        if before.is_some_and(|before| before + 1 < segment.number) {
            let path = self.reader.folder.join(segment_name(segment.number - 1));
            self.loaded.push_back(Err(Damage { path, at: 0, what: What::Missing }));
        }
        self.next += 1;
        if !segment.has_part_in(&self.wanted) {
            self.loaded.extend(segment.damage.clone().map(Err));
            return true;
        }
        let bytes = match std::fs::read(&segment.path) {
            Ok(bytes) => bytes,
            Err(e) => {
                self.loaded.push_back(Err(segment.damaged(0, What::File(unread(&segment.path, &e)))));
                return true;
            }
        };
        let (places, damage) = segment.payloads(&bytes);
        for place in places {
            let at = place.start as u64;
            let payload = &bytes[place];
            if !time_of(payload).is_none_or(|time| overlap(&time, &self.wanted)) {
                continue;
            }
            match decode(payload) {
                Ok(Entry::Run(run)) => self.run = Some(Arc::new(run)),
                Ok(Entry::Window { unix_ns, seen }) => {
                    let run = self.run.clone().unwrap_or_default();
                    self.loaded.push_back(Ok(KeptWindow { unix_ns, run, seen }));
                }
                Err(why) => self.loaded.push_back(Err(segment.damaged(at, What::Entry(why)))),
            }
        }
        self.loaded.extend(damage.map(Err));
        true
    }
}

impl Iterator for Windows<'_> {
    type Item = Result<KeptWindow, Damage>;

    fn next(&mut self) -> Option<Result<KeptWindow, Damage>> {
        loop {
            if let Some(loaded) = self.loaded.pop_front() {
                return Some(loaded);
            }
            if !self.load() {
                return None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{encode, Entry};
    use super::*;
    use corun_model::run_log::file::{end, header, seen, window, RunWindow};
    use corun_model::Observation;

    /// A recording of three windows, the last of which is there for a replay only, as where no more fits.
    fn recording() -> Vec<u8> {
        let of_run = |n: u64| {
            let mut part = RunWindow::default();
            (part.log.start_ns, part.log.end_ns) = (n * 1_000, (n + 1) * 1_000);
            window(&part)
        };
        let of_all = |n: u64| {
            let all = Observation { start_ns: n * 1_000, end_ns: (n + 1) * 1_000, ..Observation::default() };
            seen(&encode(&Entry::Window { unix_ns: all.start_ns + 1..all.end_ns + 1, seen: Box::new(all) }))
        };
        [header("x"), of_run(0), of_all(0), of_run(1), of_all(1), of_run(2), end()].concat()
    }

    #[test]
    fn a_recording_as_long_as_they_may_be_is_read_and_one_that_is_a_byte_longer_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("it.rec");
        let whole = recording();
        std::fs::write(&path, &whole).unwrap();
        let most = whole.len() as u64;
        let read = Segment::of_recording(&path, most).unwrap();
        assert_eq!(read.times, [1..1_001, 1_001..2_001], "up to where something was seen of everybody");
        let refused = Segment::of_recording(&path, most - 1).err().unwrap().to_string();
        assert!(refused.ends_with("it is longer than any recording; record it again"), "{refused}");
    }
}
