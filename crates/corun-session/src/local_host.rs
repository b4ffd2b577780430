//! This machine as a host: only watched, or also steered.

use corun_linux::backend::KnobSupport;
use corun_linux::steered::SteeredHost;
use corun_linux::watcher::Watcher;
use corun_model::{Action, Host, HostError, Machine, Observation, Outcome, RunLog, TenantId, Trace};

/// A host that knows its subject, if it has one, and whether the subject still exists.
pub trait Watched: Host {
    /// The watched tenant; `None`: everybody alike.
    fn subject(&self) -> Option<TenantId>;

    /// Whether any task of the subject is left.
    fn lives(&self) -> bool;
}

impl Watched for Watcher {
    fn subject(&self) -> Option<TenantId> {
        Watcher::subject(self)
    }

    fn lives(&self) -> bool {
        self.subject_lives()
    }
}

/// This machine. Dropping it undoes every change made through it.
pub enum LocalHost {
    /// It is watched, and nobody is touched.
    Watched(Box<Watcher>),
    /// A backend turns its knobs.
    Steered(Box<SteeredHost>),
}

impl LocalHost {
    /// The watcher.
    pub fn watcher(&self) -> &Watcher {
        match self {
            LocalHost::Watched(watcher) => watcher,
            LocalHost::Steered(host) => host.watcher(),
        }
    }

    /// The backend of its knobs: `stock`, `sched_ext`, or `none`.
    pub fn backend(&self) -> &'static str {
        match self {
            LocalHost::Watched(_) => "none",
            LocalHost::Steered(host) => host.backend(),
        }
    }

    /// The effect of each knob; empty if none is set.
    pub fn support(&self) -> Vec<KnobSupport> {
        match self {
            LocalHost::Watched(_) => Vec::new(),
            LocalHost::Steered(host) => host.support(),
        }
    }

    /// Switches and wake-ups since the last call; empty without the probe.
    pub fn take_trace(&mut self) -> Trace {
        match self {
            LocalHost::Watched(watcher) => watcher.take_trace(),
            LocalHost::Steered(host) => host.take_trace(),
        }
    }

    /// What the subject did since the last call; `None` if it is not recorded.
    pub fn take_run_log(&mut self) -> Option<RunLog> {
        match self {
            LocalHost::Watched(watcher) => watcher.take_run_log(),
            LocalHost::Steered(host) => host.take_run_log(),
        }
    }

    fn host(&self) -> &dyn Host {
        match self {
            LocalHost::Watched(watcher) => watcher.as_ref(),
            LocalHost::Steered(host) => host.as_ref(),
        }
    }

    fn host_mut(&mut self) -> &mut dyn Host {
        match self {
            LocalHost::Watched(watcher) => watcher.as_mut(),
            LocalHost::Steered(host) => host.as_mut(),
        }
    }
}

impl Host for LocalHost {
    fn machine(&self) -> &Machine {
        self.host().machine()
    }

    fn now_ns(&self) -> u64 {
        self.host().now_ns()
    }

    fn advance(&mut self, ns: u64) -> Result<(), HostError> {
        self.host_mut().advance(ns)
    }

    fn observe(&mut self) -> Result<Observation, HostError> {
        self.host_mut().observe()
    }

    fn apply(&mut self, action: &Action) -> Outcome {
        self.host_mut().apply(action)
    }

    fn undo_all(&mut self) -> Result<(), HostError> {
        match self {
            // Nothing was changed.
            LocalHost::Watched(_) => Ok(()),
            LocalHost::Steered(host) => host.undo_all(),
        }
    }
}

impl Watched for LocalHost {
    fn subject(&self) -> Option<TenantId> {
        self.watcher().subject()
    }

    fn lives(&self) -> bool {
        self.watcher().subject_lives()
    }
}
