//! A backend: what carries the five knobs out on this machine.
//!
//! There are two. The stock backend ([`crate::stock`]) uses what every kernel from 5.15 on has: the freezer, affinity,
//! `sched_setattr`, weights. The sched_ext backend loads a scheduler of its own. A policy knows neither; a live host
//! ([`crate::steered`]) owns one of them and hands actions to it.
//!
//! A backend learns who is who from observations, since an action names a tenant or task only by its number there.
//! Whatever it changes it must be able to change back: [`Backend::undo_all`] when all goes well, and by its own means
//! (a supervisor process, a program that the kernel unloads) when the controller is killed.

use corun_model::why::{KnobMeans, NoKnob};
use corun_model::{Action, HostError, Knob, Observation, Outcome, Refusal, TenantId};
use std::collections::BTreeSet;

/// Carries actions out on this machine.
///
/// The contract, checked by [`corun_model::conformance`] on the host that owns it:
/// - a target that [`learn`](Backend::learn) has not named is refused, as is one that is protected;
/// - [`Outcome::Done`] means that the change is in force and is remembered, so that it is undone in any event;
/// - parking twice is parking once, and an `Unpark` of a tenant that is not parked is done by doing nothing;
/// - who is refused to be parked is not parked, also when it was before;
/// - who cannot be let go is parked still, and is tried again at every [`beat`](Backend::beat);
/// - after [`undo_all`](Backend::undo_all) everything is as it was; it may be called at any time and again.
pub trait Backend {
    /// `stock` or `sched_ext`: the name on the command line and in JSON.
    fn name(&self) -> &'static str;

    /// What these knobs do here, or why they cannot be turned.
    fn support_of(&self, knobs: &[Knob]) -> Vec<KnobSupport>;

    /// The same of every knob.
    fn support(&self) -> Vec<KnobSupport> {
        self.support_of(Knob::ALL)
    }

    /// What becomes of the runnable tasks of a parked tenant: tells where an observation shows their parked time.
    fn parked_tasks(&self) -> ParkedTasks;

    /// Takes note of tenants and tasks; called with every observation before the actions that it leads to.
    fn learn(&mut self, seen: &Observation);

    /// Does for a tenant what takes milliseconds, so that parking it later takes microseconds. Nothing of it is stopped.
    ///
    /// # Errors
    /// Why parking it would be refused.
    fn prepare(&mut self, tenant: TenantId) -> Result<(), Refusal> {
        let _ = tenant;
        Ok(())
    }

    /// Turns one knob.
    fn apply(&mut self, action: &Action) -> Outcome;

    /// A process of corun's own that the backend runs to be safe.
    fn helper(&self) -> Option<u32> {
        None
    }

    /// Who is parked, in part or as a whole.
    fn parked(&self) -> BTreeSet<TenantId>;

    /// Restores everything that was changed.
    ///
    /// # Errors
    /// [`HostError::NotUndone`] naming the first thing that stayed changed; everything else is restored nevertheless.
    fn undo_all(&mut self) -> Result<(), HostError>;

    /// Says that the controller is well; called at least every 50 ms while it waits, and before every observation.
    ///
    /// # Errors
    /// [`HostError::Failed`] when the backend is not able to go on (its supervisor is gone, its scheduler was thrown
    /// out); everything is restored by then.
    fn beat(&mut self) -> Result<(), HostError> {
        Ok(())
    }
}

/// A backend that turns nothing: that of a host which only watches from some time on.
#[derive(Clone, Copy, Debug, Default)]
pub struct Inert;

impl Backend for Inert {
    fn name(&self) -> &'static str {
        "none"
    }

    fn support_of(&self, _: &[Knob]) -> Vec<KnobSupport> {
        Vec::new()
    }

    fn parked_tasks(&self) -> ParkedTasks {
        ParkedTasks::Asleep
    }

    fn learn(&mut self, _: &Observation) {}

    fn prepare(&mut self, _: TenantId) -> Result<(), Refusal> {
        Err(Refusal::ObservesOnly)
    }

    fn apply(&mut self, _: &Action) -> Outcome {
        Outcome::Unsupported { why: Refusal::ObservesOnly }
    }

    fn parked(&self) -> BTreeSet<TenantId> {
        BTreeSet::new()
    }

    fn undo_all(&mut self) -> Result<(), HostError> {
        Ok(())
    }
}

/// What a backend makes of a knob.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnobSupport {
    /// Which knob.
    pub knob: Knob,
    /// How it is turned here, or why not.
    pub support: Support,
}

/// Whether a knob can be turned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Support {
    /// It can.
    Yes {
        /// By what means, and what becomes of the value.
        how: KnobMeans,
    },
    /// It cannot.
    No {
        /// Why, and what would help.
        why: NoKnob,
    },
}

impl Support {
    /// Whether the knob can be turned.
    pub fn is_yes(&self) -> bool {
        matches!(self, Support::Yes { .. })
    }
}

/// What the runnable tasks of a parked tenant are to the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParkedTasks {
    /// Off the run queues (frozen or stopped): a probe takes them for blocked.
    Asleep,
    /// On the run queues but not dispatched: a probe takes them for waiting, and blames whoever runs.
    Queued,
}
