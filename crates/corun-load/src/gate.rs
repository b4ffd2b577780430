//! The gate before a run: threads that are ready wait at it, and it opens for all or for none.

use crate::LoadError;
use std::sync::{Condvar, Mutex, MutexGuard};

/// Opens when all are ready, unless one of them fails. The last to be ready opens it, so no other thread needs a CPU first.
#[derive(Debug)]
pub struct Gate {
    all: usize,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    ready: usize,
    opened: bool,
    failure: Option<LoadError>,
    failed: bool,
}

impl Gate {
    /// A closed gate for `all` threads.
    pub fn new(all: usize) -> Gate {
        Gate { all, state: Mutex::default(), changed: Condvar::new() }
    }

    /// Says that the calling thread is ready, and waits. Returns true if the gate has opened, false if the run is off.
    pub fn pass(&self) -> bool {
        let mut state = self.lock();
        state.ready += 1;
        if state.ready == self.all && !state.failed {
            state.opened = true;
            // A woken thread should not find the lock taken.
            drop(state);
            self.changed.notify_all();
            return true;
        }
        self.wait(state).opened
    }

    /// Calls the run off; the first reason counts.
    pub fn abandon(&self, reason: LoadError) {
        let mut state = self.lock();
        state.failed = true;
        state.failure.get_or_insert(reason);
        drop(state);
        self.changed.notify_all();
    }

    /// Waits until the gate has opened.
    ///
    /// # Errors
    /// The reason why the run is off.
    pub fn opened(&self) -> Result<(), LoadError> {
        match self.wait(self.lock()).failure.take() {
            Some(reason) => Err(reason),
            None => Ok(()),
        }
    }

    fn wait<'a>(&'a self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        let closed = |state: &mut State| !state.opened && !state.failed;
        self.changed.wait_while(state, closed).expect("nobody panics holding the gate")
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nobody panics holding the gate")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ready_threads(gate: &Gate, n: usize, then: impl FnOnce() -> Result<(), LoadError>) -> (usize, bool) {
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..n).map(|_| scope.spawn(|| gate.pass())).collect();
            let opened = then().is_ok();
            (threads.into_iter().filter_map(|t| t.join().unwrap().then_some(())).count(), opened)
        })
    }

    #[test]
    fn all_pass_once_all_are_ready() {
        let gate = Gate::new(3);
        assert_eq!(ready_threads(&gate, 3, || gate.opened()), (3, true));
    }

    #[test]
    fn none_passes_if_one_fails() {
        let gate = Gate::new(4);
        let fail = || {
            gate.abandon(LoadError::Affinity(std::io::Error::other("gone")));
            gate.opened()
        };
        assert_eq!(ready_threads(&gate, 3, fail), (0, false));
    }
}
