//! The live host that can be steered: a watcher that sees, a backend that acts.
//!
//! It adds what neither knows alone: the backend learns who is who from every observation; parked time is told from
//! blocked time ([`crate::parked`]); while time passes the backend hears that its controller is well.

use crate::backend::{Backend, KnobSupport};
use crate::clock;
use crate::parked::ParkLog;
use crate::watcher::Watcher;
use corun_model::observation::Observation;
use corun_model::{Action, Host, HostError, Machine, Outcome, TenantId, Trace};
use std::collections::BTreeSet;

/// How often the backend hears from its controller while time passes.
const BEAT_NS: u64 = 25_000_000;

/// This machine, watched and steered. Dropped, it restores everything that the backend changed.
pub struct SteeredHost {
    // Before the watcher, so that nobody stays parked while the probe is unloaded.
    backend: Box<dyn Backend>,
    watcher: Watcher,
    parks: ParkLog,
    /// Tenants that had a CPU or wanted one since this host was made.
    active: BTreeSet<TenantId>,
}

impl SteeredHost {
    /// A host that sees through `watcher` and acts through `backend`.
    pub fn new(watcher: Watcher, backend: Box<dyn Backend>) -> SteeredHost {
        SteeredHost { backend, watcher, parks: ParkLog::default(), active: BTreeSet::new() }
    }

    /// What it sees through.
    pub fn watcher(&self) -> &Watcher {
        &self.watcher
    }

    /// The subject's tenant; `None` when everybody is watched alike.
    pub fn subject(&self) -> Option<TenantId> {
        self.watcher.subject()
    }

    /// Whether any task of the subject is left.
    pub fn subject_lives(&self) -> bool {
        self.watcher.subject_lives()
    }

    /// Switches and wake-ups since the last call; empty without the probe.
    pub fn take_trace(&mut self) -> Trace {
        self.watcher.take_trace()
    }

    /// The backend's name: `stock`, `sched_ext`.
    pub fn backend(&self) -> &'static str {
        self.backend.name()
    }

    /// Every knob: how it is turned here, or why not.
    pub fn support(&self) -> Vec<KnobSupport> {
        self.backend.support()
    }

    /// Tenants that had a CPU or wanted one since this host was made: those that can slow somebody down.
    pub fn active(&self) -> &BTreeSet<TenantId> {
        &self.active
    }

    /// Who is parked.
    pub fn parked(&self) -> Vec<TenantId> {
        self.parks.parked().collect()
    }

    /// Makes ready to park a tenant within microseconds; nothing of it is stopped.
    ///
    /// # Errors
    /// The outcome that parking it would have.
    pub fn prepare(&mut self, tenant: TenantId) -> Result<(), Outcome> {
        self.backend.prepare(tenant)
    }

    fn beat(&mut self) -> Result<(), HostError> {
        let well = self.backend.beat();
        if well.is_err() {
            // Everybody has been restored.
            self.parks.end_all(clock::now_ns());
        }
        well
    }
}

impl Host for SteeredHost {
    fn machine(&self) -> &Machine {
        self.watcher.machine()
    }

    fn now_ns(&self) -> u64 {
        self.watcher.now_ns()
    }

    fn advance(&mut self, ns: u64) -> Result<(), HostError> {
        let end_ns = self.now_ns() + ns;
        loop {
            self.beat()?;
            let left_ns = end_ns.saturating_sub(self.now_ns());
            if left_ns == 0 {
                return Ok(());
            }
            self.watcher.advance(left_ns.min(BEAT_NS))?;
        }
    }

    fn observe(&mut self) -> Result<Observation, HostError> {
        self.beat()?;
        let mut seen = self.watcher.observe()?;
        self.parks.relabel(&mut seen, self.backend.parked_tasks());
        let wanted = |t: &&corun_model::observation::TenantObservation| {
            let ledger = &t.account.ledger;
            ledger.on_cpu_ns() + ledger.parts().steal_ns > 0
        };
        self.active.extend(seen.by_tenant.iter().filter(wanted).map(|t| t.id));
        self.backend.learn(&seen);
        Ok(seen)
    }

    fn apply(&mut self, action: &Action) -> Outcome {
        let before_ns = self.now_ns();
        let outcome = self.backend.apply(action);
        match (action, &outcome) {
            (Action::Park { tenant }, Outcome::Done) => self.parks.begin(*tenant, self.now_ns()),
            (Action::Unpark { tenant }, _) => self.parks.end(*tenant, before_ns),
            _ => {}
        }
        outcome
    }

    fn undo_all(&mut self) -> Result<(), HostError> {
        let before_ns = self.now_ns();
        let undone = self.backend.undo_all();
        self.parks.end_all(before_ns);
        undone
    }
}
