//! The gate before a run: threads that are ready wait at it, and it opens for all or for none.

use crate::LoadError;
use std::sync::{Condvar, Mutex};

/// Opens once all are ready, unless one of them fails.
#[derive(Debug, Default)]
pub struct Gate {
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
    /// Says that the calling thread is ready and waits; true if the gate has opened, false if the run is off.
    pub fn pass(&self) -> bool {
        let mut state = self.lock();
        state.ready += 1;
        self.changed.notify_all();
        while !state.opened && !state.failed {
            state = self.changed.wait(state).expect("nobody panics holding the gate");
        }
        state.opened
    }

    /// Calls the run off; the first reason counts.
    pub fn abandon(&self, reason: LoadError) {
        let mut state = self.lock();
        state.failed = true;
        state.failure.get_or_insert(reason);
        self.changed.notify_all();
    }

    /// Waits until `all` are ready and lets them go.
    ///
    /// # Errors
    /// The reason why the run is off.
    pub fn open(&self, all: usize) -> Result<(), LoadError> {
        let mut state = self.lock();
        while state.ready < all && !state.failed {
            state = self.changed.wait(state).expect("nobody panics holding the gate");
        }
        if let Some(reason) = state.failure.take() {
            return Err(reason);
        }
        state.opened = true;
        self.changed.notify_all();
        Ok(())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
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
        let gate = Gate::default();
        assert_eq!(ready_threads(&gate, 3, || gate.open(3)), (3, true));
    }

    #[test]
    fn none_passes_if_one_fails() {
        let gate = Gate::default();
        let fail = || {
            gate.abandon(LoadError::Affinity(std::io::Error::other("gone")));
            gate.open(4)
        };
        assert_eq!(ready_threads(&gate, 3, fail), (0, false));
    }
}
