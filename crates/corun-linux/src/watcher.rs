//! A live host with the best available source: eBPF if it is allowed, otherwise `schedstat`.

use crate::limits;
use crate::namespaces::{self, NamespaceMismatch};
use crate::probe::{LiveError, LiveHost, LiveOptions};
use crate::root::Root;
use crate::schedstat_host::{Options, SchedstatError, SchedstatHost};
use crate::target::Subject;
use corun_model::waits::Open;
use corun_model::{
    Action, Host, HostError, Machine, Observation, Outcome, RunLog, TenantId, Trace, Unavailable, What, Why,
};
use thiserror::Error;

/// How to see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The probe: exact ledger, exact culprits. Needs root (or CAP_BPF and CAP_PERFMON).
    Ebpf,
    /// The kernel's own per-task sums: no privilege, no culprits.
    Schedstat,
}

impl Source {
    /// Its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Source::Ebpf => "ebpf",
            Source::Schedstat => "schedstat",
        }
    }
}

/// This machine, watched through one of the sources.
pub enum Watcher {
    /// Through the probe.
    Ebpf(Box<LiveHost>),
    /// Through `schedstat`.
    Schedstat(Box<SchedstatHost>),
}

/// The machine cannot be watched.
#[derive(Debug, Error)]
pub enum WatchError {
    /// The probe was requested by name and is not available.
    #[error("eBPF cannot be used: {}", limits::of_probe(&Root::new("/"), &.0.to_string()))]
    Ebpf(Box<LiveError>),
    /// `schedstat` was requested by name and is not available.
    #[error(transparent)]
    Schedstat(#[from] SchedstatError),
    /// `/proc` does not allow processes to be identified.
    #[error("this machine cannot be watched: {}; {}", .0.why, .0.remedy)]
    Proc(NamespaceMismatch),
    /// Neither way works.
    #[error("this machine cannot be watched: eBPF: {}; schedstat: {schedstat}", limits::of_probe(&Root::new("/"), &ebpf.to_string()))]
    Neither {
        /// Why not with the probe.
        ebpf: Box<LiveError>,
        /// Why not without.
        schedstat: SchedstatError,
    },
}

impl Watcher {
    /// Starts watching with the best source, or with the requested one. The second result says what this
    /// source cannot see.
    ///
    /// # Errors
    /// [`WatchError`] when no way works.
    pub fn start(
        root: &Root,
        options: LiveOptions,
        wanted: Option<Source>,
    ) -> Result<(Watcher, Vec<Unavailable>), WatchError> {
        if let Some(mismatch) = namespaces::no_own_proc(root) {
            return Err(WatchError::Proc(mismatch));
        }
        let (subject, tenants) = (options.subject.clone(), options.tenants.clone());
        let ebpf = match wanted {
            Some(Source::Schedstat) => None,
            _ => Some(LiveHost::start(root, options)),
        };
        match (ebpf, wanted) {
            (Some(Ok(host)), _) => Ok((Watcher::Ebpf(Box::new(host)), Vec::new())),
            (Some(Err(e)), Some(Source::Ebpf)) => Err(WatchError::Ebpf(Box::new(e))),
            (Some(Err(ebpf)), _) => match Watcher::schedstat(root, subject, tenants) {
                Ok(host) => Ok((host, vec![no_ebpf(&ebpf)])),
                Err(schedstat) => Err(WatchError::Neither { ebpf: Box::new(ebpf), schedstat }),
            },
            (None, _) => Ok((Watcher::schedstat(root, subject, tenants)?, Vec::new())),
        }
    }

    fn schedstat(root: &Root, subject: Subject, tenants: Vec<u32>) -> Result<Watcher, SchedstatError> {
        let options = Options { root: root.clone(), tenants, ..Options::new(subject) };
        Ok(Watcher::Schedstat(Box::new(SchedstatHost::new(options)?)))
    }

    /// The way that was taken.
    pub fn source(&self) -> Source {
        match self {
            Watcher::Ebpf(_) => Source::Ebpf,
            Watcher::Schedstat(_) => Source::Schedstat,
        }
    }

    /// The subject's tenant; `None` if everybody is watched alike.
    pub fn subject(&self) -> Option<TenantId> {
        match self {
            Watcher::Ebpf(host) => host.subject(),
            Watcher::Schedstat(host) => host.subject(),
        }
    }

    /// Whether any task of the subject is left.
    pub fn subject_lives(&self) -> bool {
        match self {
            Watcher::Ebpf(host) => !host.subject_ended(),
            Watcher::Schedstat(host) => host.subject_lives(),
        }
    }

    /// Whether so much began or ended since the last call that somebody has to look often. Without the probe
    /// nobody knows.
    pub fn take_news(&mut self) -> bool {
        match self {
            Watcher::Ebpf(host) => host.take_news(),
            Watcher::Schedstat(_) => true,
        }
    }

    /// Counts another process as part of the one that watches, if that is separate.
    pub fn count_as_watcher(&mut self, pid: u32) {
        if let Watcher::Ebpf(host) = self {
            host.count_as_watcher(pid);
        }
    }

    /// Switches and wake-ups since the last call; empty without the probe.
    pub fn take_trace(&mut self) -> Trace {
        match self {
            Watcher::Ebpf(host) => host.take_trace(),
            Watcher::Schedstat(_) => Trace::default(),
        }
    }

    /// From now on the trace omits single waits that are shorter.
    pub fn set_least_wait(&mut self, least_wait_ns: u64) {
        if let Watcher::Ebpf(host) = self {
            host.set_least_wait(least_wait_ns);
        }
    }

    /// The tasks that wait for a CPU now, of the subject or of everybody; none without the probe.
    pub fn waiting(&mut self) -> Vec<Open> {
        match self {
            Watcher::Ebpf(host) => host.waiting(),
            Watcher::Schedstat(_) => Vec::new(),
        }
    }

    /// What the subject did since the last call, event by event; `None` if it is not recorded, as without the
    /// probe.
    pub fn take_run_log(&mut self) -> Option<RunLog> {
        match self {
            Watcher::Ebpf(host) => host.take_run_log(),
            Watcher::Schedstat(_) => None,
        }
    }

    /// From now on the subject's events are not recorded.
    pub fn stop_run_log(&mut self) {
        if let Watcher::Ebpf(host) = self {
            host.stop_run_log();
        }
    }

    fn host(&self) -> &dyn Host {
        match self {
            Watcher::Ebpf(host) => host.as_ref(),
            Watcher::Schedstat(host) => host.as_ref(),
        }
    }

    fn host_mut(&mut self) -> &mut dyn Host {
        match self {
            Watcher::Ebpf(host) => host.as_mut(),
            Watcher::Schedstat(host) => host.as_mut(),
        }
    }
}

/// Says that there is no eBPF here, and why.
pub fn no_ebpf(why: &LiveError) -> Unavailable {
    let is_forbidden = matches!(why, LiveError::Probe(e) if e.is_forbidden());
    // SAFETY: geteuid cannot fail.
    let for_want_of_privilege = is_forbidden && unsafe { libc::geteuid() } != 0;
    let cause = limits::of_probe(&Root::new("/"), &why.to_string());
    Unavailable::new(What::Ebpf { for_want_of_privilege }, Why::NoEbpf { cause })
}

impl Host for Watcher {
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
        self.host_mut().undo_all()
    }
}
