//! `Host`: where tasks run. `live` is this Linux machine, `sim` the modelled one. Higher layers cannot tell which.

use crate::action::{Action, Outcome};
use crate::machine::Machine;
use crate::observation::Observation;
use thiserror::Error;

/// A machine that can be watched and, within the five knobs, controlled.
///
/// The contract, which [`crate::conformance`] checks on every host:
/// - [`observe`](Host::observe) covers exactly the time since the previous call, or since the host was made. Its result passes
///   [`Observation::check`].
/// - The clock never goes back, and [`advance`](Host::advance) moves it by at least the given time.
/// - Every action has an [`Outcome`]; none is dropped silently.
/// - [`undo_all`](Host::undo_all) restores everything that this host changed. It may be called at any time, any number of times.
pub trait Host {
    /// The machine's shape.
    fn machine(&self) -> &Machine;

    /// The host's clock in nanoseconds: monotonic, not the time of day.
    fn now_ns(&self) -> u64;

    /// Lets at least `ns` pass: the live host sleeps, the modelled one runs its machine.
    ///
    /// # Errors
    /// [`HostError`] when the host can no longer run.
    fn advance(&mut self, ns: u64) -> Result<(), HostError>;

    /// The events since the previous call.
    ///
    /// # Errors
    /// [`HostError`] if the host can no longer see.
    fn observe(&mut self) -> Result<Observation, HostError>;

    /// Changes one knob.
    fn apply(&mut self, action: &Action) -> Outcome;

    /// Restores everything that was changed.
    ///
    /// # Errors
    /// [`HostError`] naming what could not be restored.
    fn undo_all(&mut self) -> Result<(), HostError>;
}

/// A host stopped working.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum HostError {
    /// The kernel (or the model) refused something the host needs.
    #[error("{what}: {why}")]
    Failed {
        /// The failed operation.
        what: String,
        /// The reason, and the remedy.
        why: String,
    },
    /// Something stayed changed.
    #[error("could not undo {what}: {why}")]
    NotUndone {
        /// The thing that stayed changed.
        what: String,
        /// The reason, and how to restore it by hand.
        why: String,
    },
}
