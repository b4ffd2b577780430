//! A backend: the code that sets the five knobs on this machine.
//!
//! There are two. The stock backend ([`crate::stock`]) uses what every kernel has since 5.15: the freezer,
//! affinity, `sched_setattr`, weights. The sched_ext backend loads a scheduler of its own. A policy knows
//! neither. A live host ([`crate::steered`]) owns one of them and passes actions to it.
//!
//! A backend learns tenants and tasks from observations, since an action names them only by their numbers
//! there. A backend must be able to undo everything it changes. [`Backend::undo_all`] does so in a normal
//! exit. If the controller is killed, the backend uses its own means: a supervisor process, or a program that
//! the kernel unloads.

use corun_model::why::{KnobMeans, NoKnob};
use corun_model::{Action, HostError, Knob, Observation, Outcome, Refusal, TenantId};
use std::collections::BTreeSet;

/// Carries actions out on this machine.
///
/// The contract, checked by [`corun_model::conformance`] on the host that owns it:
/// - a target that [`learn`](Backend::learn) has not named is refused, and so is a protected one;
/// - [`Outcome::Done`] means that the change is in force and recorded, so that it will be undone in any
///   case;
/// - parking twice is the same as parking once, and `Unpark` of a tenant that is not parked succeeds and
///   does nothing;
/// - a tenant whose parking is refused is not parked, even if it was before;
/// - a tenant that cannot be released stays parked, and every [`beat`](Backend::beat) tries again;
/// - after [`undo_all`](Backend::undo_all) everything is as it was; it may be called at any time and more
///   than once.
pub trait Backend {
    /// `stock` or `sched_ext`: the name on the command line and in JSON.
    fn name(&self) -> &'static str;

    /// What these knobs do here, or why they cannot be set.
    fn support_of(&self, knobs: &[Knob]) -> Vec<KnobSupport>;

    /// The same of every knob.
    fn support(&self) -> Vec<KnobSupport> {
        self.support_of(Knob::ALL)
    }

    /// The state of a parked tenant's runnable tasks. It tells where an observation shows their parked time.
    fn parked_tasks(&self) -> ParkedTasks;

    /// Learns tenants and tasks. It is called with every observation, before the actions that follow from it.
    fn learn(&mut self, seen: &Observation);

    /// Does the slow part of parking a tenant (milliseconds) in advance, so that parking it later takes
    /// microseconds. It stops nothing.
    ///
    /// # Errors
    /// Why parking it would be refused.
    fn prepare(&mut self, tenant: TenantId) -> Result<(), Refusal> {
        let _ = tenant;
        Ok(())
    }

    /// Turns one knob.
    fn apply(&mut self, action: &Action) -> Outcome;

    /// A process of corun's own that the backend runs for safety.
    fn helper(&self) -> Option<u32> {
        None
    }

    /// The tenants that are parked, in part or as a whole.
    fn parked(&self) -> BTreeSet<TenantId>;

    /// Restores everything that was changed.
    ///
    /// # Errors
    /// [`HostError::NotUndone`] with the first change that could not be undone; everything else is restored
    /// nevertheless.
    fn undo_all(&mut self) -> Result<(), HostError>;

    /// Tells the backend that the controller is alive. It is called at least every 50 ms while the controller
    /// waits, and before every observation.
    ///
    /// # Errors
    /// [`HostError::Failed`] if the backend cannot go on (its supervisor has gone, or the kernel removed its
    /// scheduler). By then everything is restored.
    fn beat(&mut self) -> Result<(), HostError> {
        Ok(())
    }
}

/// A backend that sets no knobs, for a host that only watches from some time on.
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

/// How a backend handles a knob.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnobSupport {
    /// Which knob.
    pub knob: Knob,
    /// How the knob is set here, or why it cannot be.
    pub support: Support,
}

/// Whether a knob can be set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Support {
    /// It can.
    Yes {
        /// The mechanism, and how it changes the value.
        how: KnobMeans,
    },
    /// It cannot.
    No {
        /// Why, and what would help.
        why: NoKnob,
    },
}

impl Support {
    /// Whether the knob can be set.
    pub fn is_yes(&self) -> bool {
        matches!(self, Support::Yes { .. })
    }
}

/// How the kernel sees the runnable tasks of a parked tenant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParkedTasks {
    /// Off the run queues (frozen or stopped): a probe counts them as blocked.
    Asleep,
    /// On the run queues but not dispatched: a probe counts them as waiting, and blames whoever runs.
    Queued,
}
