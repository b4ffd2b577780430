//! This machine, window by window: a session in a thread of its own, so that a key never waits for a window.

use crate::app::Facts;
use crate::event::Event;
use crate::snapshot::Snapshot;
use corun_linux::limits::start_thread;
use corun_linux::watcher;
use corun_model::What;
use corun_report::{describe, one_line, Source};
use corun_session::watch::{Watch, WatchOptions};
use corun_session::{Error, Stop};
use std::io;
use std::sync::mpsc::{channel, Sender};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// The length of the first window of a view, in nanoseconds: short, so that something is visible soon.
pub const FIRST_NS: u64 = 200_000_000;

/// How to watch.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// The source; `None`: the best one.
    pub source: Option<watcher::Source>,
    /// How long the first window is.
    pub first: Duration,
    /// The length of the other windows.
    pub every: Duration,
    /// The date, for people.
    pub now: fn() -> String,
}

/// Facts that are known once a session has begun.
#[derive(Clone, Debug)]
pub struct Began {
    /// For the state.
    pub facts: Facts,
    /// The machine, for people.
    pub machine: String,
    /// Number of its CPUs.
    pub cpus: u64,
    /// What sees.
    pub source: Source,
}

/// A session that goes on until it is stopped.
#[derive(Debug)]
pub struct Live {
    thread: Option<JoinHandle<()>>,
    stop: Stop,
}

impl Drop for Live {
    /// Nothing stays in the kernel.
    fn drop(&mut self) {
        self.stop.stop();
        // A thread that panicked has reported that already.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Why nobody is watched.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// What the session says.
    #[error(transparent)]
    Session(#[from] Error),
    /// There can be no more threads.
    #[error("cannot start a thread: {0}")]
    Thread(#[from] io::Error),
}

/// Starts watching everybody; each window is sent.
///
/// # Errors
/// When the machine cannot be watched.
pub fn start(wanted: Wanted, stop: &Stop, to: Sender<Event>) -> Result<(Began, Live), StartError> {
    let (began, beginning) = channel();
    let stop = stop.clone();
    let own = stop.clone();
    let thread = start_thread("corun-watch", move || {
        let options = WatchOptions { source: wanted.source, window: wanted.first, max_tasks: None };
        let mut watch = match Watch::start(&options, &own) {
            Ok(watch) => watch,
            Err(error) => {
                // The caller that waits for the start gets the error.
                let _ = began.send(Err(error));
                return;
            }
        };
        let facts =
            Facts { target: watch.description().to_owned(), is_replay: false, missing: missing(&watch) };
        let _farewell = Farewell(to.clone());
        let source = source(&watch);
        let cpus = watch.machine().cpu_count() as u64;
        let _ = began.send(Ok(Began { facts, machine: describe(watch.machine()), cpus, source }));
        follow(&mut watch, &wanted, &to);
    })?;
    let live = Live { thread: Some(thread), stop };
    match beginning.recv() {
        Ok(began) => Ok((began?, live)),
        Err(_) => Err(Error::Stopped { signal: None }.into()),
    }
}

/// Reports the end of data, however the thread ends.
struct Farewell(Sender<Event>);

impl Drop for Farewell {
    fn drop(&mut self) {
        // A receiver that has gone needs no message.
        let _ = self.0.send(Event::Ended("nothing more is seen: the session has ended".to_owned()));
    }
}

fn follow(watch: &mut Watch, wanted: &Wanted, to: &Sender<Event>) {
    for number in 0.. {
        let event = match watch.next() {
            Some(Ok(seen)) => Event::Snapshot(Arc::new(Snapshot::new(number, (wanted.now)(), seen))),
            Some(Err(error)) => Event::Ended(one_line(&format!("nothing more can be seen: {error}"))),
            None => return,
        };
        // Nobody looks any more.
        if to.send(event).is_err() {
            return;
        }
        watch.set_window(wanted.every);
    }
}

/// What sees, as reports name it.
fn source(watch: &Watch) -> Source {
    match watch.source() {
        watcher::Source::Ebpf => Source::Ebpf,
        watcher::Source::Schedstat => Source::Schedstat,
    }
}

/// Why nobody can be named, a sentence each; empty if they can.
fn missing(watch: &Watch) -> Vec<String> {
    let of_probe = watch.unavailable().iter().filter(|u| matches!(u.what, What::Ebpf { .. }));
    let why: Vec<String> = of_probe
        .map(|u| one_line(&format!("Who held the CPUs is not seen without eBPF: {}.", u.why)))
        .collect();
    match source(watch) {
        Source::Schedstat if why.is_empty() => vec!["Who held the CPUs is not seen by schedstat.".to_owned()],
        _ => why,
    }
}
