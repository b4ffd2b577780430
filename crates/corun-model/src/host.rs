//! `Host`: where tasks run. `live` is this Linux machine, `sim` the modelled one; nothing above can tell which.

use crate::action::{Action, Outcome};
use crate::machine::Machine;
use crate::observation::Observation;
use thiserror::Error;

/// A machine that can be watched and, within the five knobs, steered.
///
/// The contract, checked by [`crate::conformance`] on every host:
/// - [`observe`](Host::observe) covers exactly the time since the previous call (or since the host was made),
///   and what it returns passes [`Observation::check`];
/// - the clock never goes back, and [`advance`](Host::advance) moves it by at least what was asked;
/// - every action has an [`Outcome`]; nothing is dropped silently;
/// - after [`undo_all`](Host::undo_all) nothing that this host changed is left changed, and it may be called
///   at any time, any number of times.
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

    /// What happened since the previous call.
    ///
    /// # Errors
    /// [`HostError`] when the host can no longer see.
    fn observe(&mut self) -> Result<Observation, HostError>;

    /// Turns one knob.
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
        /// What was tried.
        what: String,
        /// Why it failed and what would help.
        why: String,
    },
    /// Something stayed changed.
    #[error("could not undo {what}: {why}")]
    NotUndone {
        /// What stayed changed.
        what: String,
        /// Why, and how to restore it by hand.
        why: String,
    },
}
