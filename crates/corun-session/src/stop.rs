//! How to ask a session to end: from another thread, or by Ctrl-C.

use corun_linux::interrupt::Interrupt;
use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;

/// Asks a session to end. Clones ask the same session, from any thread.
///
/// A session that is asked to end closes its window, yields it, and ends. A command that it started is told,
/// too, and has a second to end by itself. After a second request, nothing is waited for any longer.
#[derive(Clone, Debug, Default)]
pub struct Stop {
    requests: Arc<AtomicU32>,
    /// Those from which this one was made [apart](Stop::apart).
    outer: Vec<Arc<AtomicU32>>,
    signals: Option<Interrupt>,
}

impl Stop {
    /// One that only [`Stop::stop`] asks.
    pub fn new() -> Stop {
        Stop::default()
    }

    /// A stop that SIGINT, SIGTERM and SIGHUP also trigger; their handlers stay installed for the rest of the
    /// process. A signal that this process ignores stays ignored.
    ///
    /// # Errors
    /// The kernel's error; for these signals it has no reason to fail.
    pub fn on_signals() -> io::Result<Stop> {
        Ok(Stop { signals: Some(Interrupt::install()?), ..Stop::default() })
    }

    /// A stop for one session alone: a request to this one also applies to it, but not the other way around.
    #[must_use]
    pub fn apart(&self) -> Stop {
        let outer = self.outer.iter().chain([&self.requests]).cloned().collect();
        Stop { requests: Arc::default(), outer, signals: self.signals }
    }

    /// Starts a phase in which a signal ends this process at once: it can take long, and leaves nothing to
    /// print or to undo.
    pub fn at_once<T>(&self, begin: impl FnOnce() -> T) -> T {
        let _ends = self.signals.map(|signals| signals.at_once());
        begin()
    }

    /// Asks the session to end.
    pub fn stop(&self) {
        self.requests.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether it was asked to end.
    pub fn is_asked(&self) -> bool {
        self.requests() > 0 || self.signal().is_some()
    }

    /// Whether it was asked more than once.
    pub fn is_urgent(&self) -> bool {
        let signals = self.signals.map_or(0, |s| u32::from(s.came()) + u32::from(s.came_again()));
        self.requests() + signals > 1
    }

    fn requests(&self) -> u32 {
        let all = self.outer.iter().chain([&self.requests]);
        all.map(|requests| requests.load(Ordering::Relaxed)).sum()
    }

    /// Whether a terminal requested it by Ctrl-C, which a command in the foreground has received as well.
    pub fn is_by_terminal(&self) -> bool {
        self.signals.is_some_and(|s| s.signal() == Some(libc::SIGINT) && !s.was_sent())
    }

    /// The signal that requested it, if one did.
    pub fn signal(&self) -> Option<i32> {
        self.signals.and_then(|signals| signals.signal())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clone_asks_the_same_session_and_the_second_request_is_urgent() {
        let stop = Stop::new();
        let other = stop.clone();
        assert!(!stop.is_asked());
        std::thread::spawn(move || other.stop()).join().unwrap();
        assert!(stop.is_asked() && !stop.is_urgent());
        stop.stop();
        assert!(stop.is_urgent());
        assert_eq!(stop.signal(), None);
    }

    #[test]
    fn a_stop_apart_receives_the_other_ones_request_and_not_the_other_way_around() {
        let (all, other) = (Stop::new(), Stop::new());
        let one = all.apart();
        one.stop();
        assert!(one.is_asked() && !all.is_asked());
        let next = all.apart();
        assert!(!next.is_asked(), "it is no part of the one before");
        all.stop();
        assert!(next.is_asked() && !next.is_urgent() && one.is_urgent() && !other.is_asked());
    }
}
