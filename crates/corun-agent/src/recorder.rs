//! The input of an agent's ring: windows summed over an interval, each bounded. A recording keeps windows in
//! the same form.

use crate::ring::{encode, Entry, RingError, Run, Writer};
use corun_linux::clock::now_unix_ns;
use corun_linux::watcher::Source;
use corun_model::recording::{bound, Most};
use corun_model::{Machine, Observation};
use std::ops::Range;
use std::path::Path;

/// The part of an interval that is kept one by one.
const MOST: Most = Most { tenants: 2_000, tasks: 4_096, culprits: 64 };

/// A run that begins now.
pub fn run_of(source: Source, machine: &Machine) -> Run {
    Run {
        corun: env!("CARGO_PKG_VERSION").into(),
        source: source.name().into(),
        machine: corun_report::describe(machine),
        cpus: machine.cpu_count() as u64,
        began_unix_ns: now_unix_ns(),
    }
}

/// A window of this time of day as the bytes of an entry, bounded.
pub fn kept(mut seen: Observation, unix_ns: Range<u64>) -> Vec<u8> {
    bound(&mut seen, &MOST);
    encode(&Entry::Window { unix_ns, seen: Box::new(seen) })
}

/// Puts windows into a ring.
pub struct Recorder {
    writer: Writer,
    interval_ns: u64,
    sum: Option<Observation>,
    written: u64,
    lost: u64,
}

impl Recorder {
    /// Opens the ring.
    ///
    /// # Errors
    /// As [`Writer::open`].
    pub fn open(folder: &Path, bytes: u64, interval_ns: u64, run: &Run) -> Result<Recorder, RingError> {
        let writer = Writer::open(folder, bytes, encode(&Entry::Run(run.clone())))?;
        Ok(Recorder { writer, interval_ns, sum: None, written: 0, lost: 0 })
    }

    /// Adds a window that ended at this time of day. When an interval is full it is written.
    ///
    /// # Errors
    /// If it could not be written: then it is lost, and the next one is tried as usual.
    pub fn push(&mut self, seen: &Observation, now_unix_ns: u64) -> Result<(), RingError> {
        match &mut self.sum {
            Some(sum) if sum.end_ns == seen.start_ns => sum.extend(seen),
            // The first one, or one after a loss.
            sum => *sum = Some(seen.clone()),
        }
        match self.sum.as_ref().is_some_and(|sum| sum.window_ns() >= self.interval_ns) {
            true => self.flush(now_unix_ns),
            false => Ok(()),
        }
    }

    /// Writes what there is.
    ///
    /// # Errors
    /// As [`Recorder::push`].
    pub fn flush(&mut self, now_unix_ns: u64) -> Result<(), RingError> {
        let Some(seen) = self.sum.take() else { return Ok(()) };
        // A machine whose clock was never set has this window all the same: 0 means that there is none.
        let now_unix_ns = now_unix_ns.max(1);
        let unix_ns = now_unix_ns.saturating_sub(seen.window_ns())..now_unix_ns;
        let written = self.writer.append(&kept(seen, unix_ns));
        match written {
            Ok(()) => self.written += 1,
            Err(_) => self.lost += 1,
        }
        written
    }

    /// Written and lost intervals, and the bytes of the ring.
    pub fn counts(&self) -> (u64, u64, u64) {
        (self.written, self.lost, self.writer.used())
    }
}
