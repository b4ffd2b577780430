//! Reading a ring, segment by segment, oldest first, up to any damage and on behind it.

use super::entry::{decode, time_of, Entry, KeptWindow};
use super::segment::{scan, Fault, Scan};
use super::wire::Run;
use super::{segment_name, segments, RingError};
use corun_linux::root::in_words;
use std::collections::VecDeque;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What of a ring cannot be read: what precedes it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The segment.
    pub path: PathBuf,
    /// The byte in it from which nothing could be read.
    pub at: u64,
    /// What is wrong with it.
    pub what: What,
}

/// What is wrong with a part of a ring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// Its bytes are not as they were written.
    Bytes(Fault),
    /// An entry is as it was written, but says what no machine can have seen.
    Entry(String),
    /// The file could not be read.
    File(String),
    /// The segment is not there, though an older and a newer one are.
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
            What::File(why) => write!(f, "cannot read {path}: {why}"),
            What::Missing => write!(f, "{path} is missing, so what it held is lost"),
        }
    }
}

/// Reads a ring. It takes no lock: an agent may write to it meanwhile.
pub struct Reader {
    folder: PathBuf,
    segments: Vec<(u64, PathBuf)>,
}

impl Reader {
    /// Opens the ring in a folder, as it is now.
    ///
    /// # Errors
    /// [`RingError`]: the folder cannot be read or holds no segment, or another corun wrote all there is.
    pub fn open(folder: &Path) -> Result<Reader, RingError> {
        let segments = segments(folder)?;
        let (_, newest) = segments.last().ok_or_else(|| RingError::NoRing(folder.to_owned()))?;
        let bytes = std::fs::read(newest).map_err(RingError::io("read", newest))?;
        match scan(&bytes).fault {
            Some((Fault::OtherFormat(format), _)) => {
                Err(RingError::OtherFormat { path: newest.clone(), format })
            }
            _ => Ok(Reader { folder: folder.to_owned(), segments }),
        }
    }

    /// The windows that have a part in this time, in nanoseconds since 1970, in the order in which they were written; between
    /// them, what could not be read.
    pub fn windows(&self, wanted: Range<u64>) -> Windows<'_> {
        Windows { reader: self, wanted, next: 0, loaded: VecDeque::new(), run: None }
    }

    /// The time from the earliest window to the latest, in nanoseconds since 1970; `None`: there is none.
    pub fn span(&self) -> Option<Range<u64>> {
        let times = self.segments.iter().flat_map(|(_, path)| {
            let bytes = std::fs::read(path).unwrap_or_default();
            scan(&bytes).frames.into_iter().filter_map(|f| time_of(&bytes[f])).collect::<Vec<_>>()
        });
        times.reduce(|a, b| a.start.min(b.start)..a.end.max(b.end))
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
    /// Reads the next segment; whether there was one.
    fn load(&mut self) -> bool {
        let Some((number, path)) = self.reader.segments.get(self.next) else { return false };
        let before = self.next.checked_sub(1).map(|at| self.reader.segments[at].0);
        if before.is_some_and(|before| before + 1 < *number) {
            let path = self.reader.folder.join(segment_name(number - 1));
            self.loaded.push_back(Err(Damage { path, at: 0, what: What::Missing }));
        }
        self.next += 1;
        let damage = |at, what| Damage { path: path.clone(), at, what };
        let bytes = match std::fs::read(path) {
            Ok(bytes) => bytes,
            Err(e) => {
                self.loaded.push_back(Err(damage(0, What::File(in_words(&e)))));
                return true;
            }
        };
        let Scan { frames, fault, .. } = scan(&bytes);
        for place in frames {
            let at = place.start as u64;
            let payload = &bytes[place];
            let is_wanted = |t: Range<u64>| t.start < self.wanted.end && t.end > self.wanted.start;
            if !time_of(payload).is_none_or(is_wanted) {
                continue;
            }
            match decode(payload) {
                Ok(Entry::Run(run)) => self.run = Some(Arc::new(run)),
                Ok(Entry::Window { unix_ns, seen }) => {
                    let run = self.run.clone().unwrap_or_default();
                    self.loaded.push_back(Ok(KeptWindow { unix_ns, run, seen }));
                }
                Err(why) => self.loaded.push_back(Err(damage(at, What::Entry(why)))),
            }
        }
        self.loaded.extend(fault.map(|(fault, at)| Err(damage(at, What::Bytes(fault)))));
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
