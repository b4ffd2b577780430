//! The live host that can be steered: a watcher observes, a backend acts.
//!
//! It adds what needs both. The backend learns tenants and tasks from every observation. Parked time is
//! separated from blocked time ([`crate::parked`]). While time passes, the backend gets heartbeats.

use crate::backend::{Backend, Inert, KnobSupport};
use crate::clock;
use crate::parked::ParkLog;
use crate::watcher::Watcher;
use corun_model::observation::{Observation, TenantObservation};
use corun_model::{Action, Host, HostError, Machine, Outcome, Refusal, RunLog, TenantId, Trace};
use std::collections::BTreeSet;

/// How often the backend gets a heartbeat from its controller while time passes.
const BEAT_NS: u64 = 25_000_000;

/// This machine, watched and steered. Dropped, it restores everything that the backend changed.
pub struct SteeredHost {
    // Before the watcher, so that nobody stays parked while the probe is unloaded.
    backend: Box<dyn Backend>,
    watcher: Watcher,
    /// Why the backend cannot go on.
    failed: Option<HostError>,
    /// The backend's own process, which belongs to the one that watches.
    helper: Option<u32>,
    parks: ParkLog,
    /// Live tenants that had a CPU or wanted one since this host was made.
    active: BTreeSet<TenantId>,
}

impl SteeredHost {
    /// A host that observes through `watcher` and acts through `backend`.
    pub fn new(watcher: Watcher, backend: Box<dyn Backend>) -> SteeredHost {
        let mut host = SteeredHost {
            backend,
            watcher,
            failed: None,
            helper: None,
            parks: ParkLog::default(),
            active: BTreeSet::new(),
        };
        host.know_helper();
        host
    }

    /// The watcher.
    pub fn watcher(&self) -> &Watcher {
        &self.watcher
    }

    /// The subject's tenant; `None` if everybody is watched alike.
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

    /// What the subject did since the last call; `None` if it is not recorded.
    pub fn take_run_log(&mut self) -> Option<RunLog> {
        self.watcher.take_run_log()
    }

    /// The backend's name: `stock`, `sched_ext`.
    pub fn backend(&self) -> &'static str {
        self.backend.name()
    }

    /// Every knob: how it is set here, or why it cannot be.
    pub fn support(&self) -> Vec<KnobSupport> {
        self.backend.support()
    }

    /// Tenants of the last window that had a CPU or wanted one since this host was made: those that can slow
    /// others down.
    pub fn active(&self) -> &BTreeSet<TenantId> {
        &self.active
    }

    /// The parked tenants.
    pub fn parked(&self) -> Vec<TenantId> {
        self.parks.parked().collect()
    }

    /// Goes on without its backend, and only watches from now on, if the backend has failed and has restored
    /// everything. Returns why it has failed; `None` if it goes on.
    pub fn watch_only(&mut self) -> Option<String> {
        let HostError::Failed { why, .. } = self.failed.take_if(|e| matches!(e, HostError::Failed { .. }))?
        else {
            return None;
        };
        self.backend = Box::new(Inert);
        self.acting(|_| ());
        Some(why)
    }

    /// Prepares to park a tenant within microseconds; nothing is stopped.
    ///
    /// # Errors
    /// Why parking it would be refused.
    pub fn prepare(&mut self, tenant: TenantId) -> Result<(), Refusal> {
        self.backend.prepare(tenant)
    }

    /// The backend may start a process of its own with its first action.
    fn know_helper(&mut self) {
        let helper = self.backend.helper();
        if let Some(pid) = helper.filter(|_| helper != self.helper) {
            self.watcher.count_as_watcher(pid);
        }
        self.helper = helper;
    }

    fn beat(&mut self) -> Result<(), HostError> {
        let beaten = self.acting(|backend| backend.beat());
        self.failed = beaten.as_ref().err().cloned();
        beaten
    }

    /// Lets the backend act, and then asks it which tenants are parked. Whatever it was asked to do, only the
    /// backend knows.
    fn acting<T>(&mut self, act: impl FnOnce(&mut dyn Backend) -> T) -> T {
        let before_ns = clock::now_ns();
        let done = act(self.backend.as_mut());
        self.parks.become_parked(&self.backend.parked(), before_ns, clock::now_ns());
        self.know_helper();
        done
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
        let wanted = |t: &TenantObservation| {
            let ledger = &t.account.ledger;
            ledger.on_cpu_ns() + ledger.parts().steal_ns > 0
        };
        let active = |t: &&TenantObservation| wanted(t) || self.active.contains(&t.id);
        self.active = seen.by_tenant.iter().filter(active).map(|t| t.id).collect();
        self.acting(|backend| backend.learn(&seen));
        Ok(seen)
    }

    fn apply(&mut self, action: &Action) -> Outcome {
        self.acting(|backend| backend.apply(action))
    }

    fn undo_all(&mut self) -> Result<(), HostError> {
        self.acting(|backend| backend.undo_all())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::ParkedTasks;
    use crate::probe::LiveOptions;
    use crate::root::Root;
    use crate::target::Subject;
    use crate::watcher::Source;

    /// Refuses to release anybody, then does so at a heartbeat.
    #[derive(Default)]
    struct Reluctant {
        parked: BTreeSet<TenantId>,
        held: BTreeSet<TenantId>,
    }

    impl Backend for Reluctant {
        fn name(&self) -> &'static str {
            "reluctant"
        }

        fn support_of(&self, _: &[corun_model::Knob]) -> Vec<KnobSupport> {
            Vec::new()
        }

        fn parked_tasks(&self) -> ParkedTasks {
            ParkedTasks::Asleep
        }

        fn learn(&mut self, _: &Observation) {}

        fn apply(&mut self, action: &Action) -> Outcome {
            match action {
                Action::Park { tenant } => {
                    self.parked.insert(*tenant);
                    Outcome::Done
                }
                Action::Unpark { tenant } => {
                    self.held.insert(*tenant);
                    Outcome::from(Refusal::Controller("not yet".into()))
                }
                _ => Outcome::Done,
            }
        }

        fn parked(&self) -> BTreeSet<TenantId> {
            self.parked.clone()
        }

        fn undo_all(&mut self) -> Result<(), HostError> {
            self.parked.clear();
            Ok(())
        }

        fn beat(&mut self) -> Result<(), HostError> {
            let held = std::mem::take(&mut self.held);
            self.parked.retain(|tenant| !held.contains(tenant));
            Ok(())
        }
    }

    /// Fails at its second heartbeat.
    #[derive(Default)]
    struct Mortal(Reluctant, u32);

    impl Backend for Mortal {
        fn name(&self) -> &'static str {
            "mortal"
        }

        fn support_of(&self, _: &[corun_model::Knob]) -> Vec<KnobSupport> {
            Vec::new()
        }

        fn parked_tasks(&self) -> ParkedTasks {
            ParkedTasks::Asleep
        }

        fn learn(&mut self, _: &Observation) {}

        fn apply(&mut self, action: &Action) -> Outcome {
            self.0.apply(action)
        }

        fn parked(&self) -> BTreeSet<TenantId> {
            self.0.parked()
        }

        fn undo_all(&mut self) -> Result<(), HostError> {
            self.0.undo_all()
        }

        fn beat(&mut self) -> Result<(), HostError> {
            self.1 += 1;
            if self.1 < 2 {
                return Ok(());
            }
            self.0.undo_all()?;
            Err(HostError::Failed { what: "controlling".into(), why: "it is dead".into() })
        }
    }

    /// This machine, watched without privileges; `None` if it cannot be watched, which is reported.
    fn host(backend: Box<dyn Backend>) -> Option<SteeredHost> {
        let options = LiveOptions::new(Subject::All);
        match Watcher::start(&Root::new("/"), options, Some(Source::Schedstat)) {
            Ok((watcher, _)) => Some(SteeredHost::new(watcher, backend)),
            Err(e) => {
                println!("skipped: {e}");
                None
            }
        }
    }

    #[test]
    fn a_host_whose_backend_has_failed_goes_on_watching_and_sets_no_knob() {
        let Some(mut host) = host(Box::<Mortal>::default()) else { return };
        let tenant = TenantId(1);
        host.apply(&Action::Park { tenant });
        host.observe().unwrap();
        assert_eq!((host.watch_only(), host.parked()), (None, vec![tenant]), "it has not failed yet");
        host.observe().unwrap_err();
        assert_eq!(host.watch_only().as_deref(), Some("it is dead"));
        assert_eq!((host.backend(), host.parked()), ("none", vec![]));
        assert!(host.observe().unwrap().end_ns > 0);
        assert!(matches!(host.apply(&Action::Park { tenant }), Outcome::Unsupported { .. }));
        host.undo_all().unwrap();
    }

    #[test]
    fn a_tenant_that_could_not_be_released_counts_as_parked_until_it_is() {
        let Some(mut host) = host(Box::<Reluctant>::default()) else { return };
        let tenant = TenantId(1);
        host.apply(&Action::Park { tenant });
        assert_eq!(host.parked(), [tenant]);
        assert!(matches!(host.apply(&Action::Unpark { tenant }), Outcome::Refused { .. }));
        assert_eq!(host.parked(), [tenant]);
        host.advance(1).unwrap();
        assert_eq!(host.parked(), []);
    }
}
