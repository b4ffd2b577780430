//! What a session that predicts or verifies sees of its subject: ledgers, with spinning separated from
//! computing if this machine allows it; and, on request, hardware counters and dedicated windows.

use crate::counting::{self, CountedUnit, Counting};
use crate::error::Error;
use crate::local_host::{LocalHost, Watched};
use crate::replay::{not_recorded, Replay, RECORD_BYTES};
use crate::supervise;
use crate::target::pids;
use corun_linux::counters::Theme;
use corun_linux::dedicated::{not_dedicated, Dedicated, DedicatedError, DedicatedWindow, NotDedicated};
use corun_linux::probe::LiveOptions;
use corun_linux::spin::pause_exits::PauseExits;
use corun_linux::spin::{SpinOptions, SpinSampler};
use corun_linux::steered::SteeredHost;
use corun_linux::stock::{self, StockBackend};
use corun_linux::target::Subject;
use corun_linux::watcher::{Source, Watcher};
use corun_linux::Root;
use corun_model::{
    Action, Host, HostError, Machine, Observation, Outcome, RunLog, SpinEstimate, SpinMethod, TaskId, Tenant,
    TenantId, Unavailable, What, Why,
};
use corun_predict::spin::SpinByCounters;
use corun_predict::spinning::{Spinning, SpinningSoFar};
use corun_predict::{AloneTime, Server};
use std::collections::{BTreeMap, BTreeSet};

/// A watcher of one subject that sees more of it than a ledger.
pub struct SubjectWatch {
    host: LocalHost,
    /// When it began, on the host's clock.
    begin_ns: u64,
    /// The dedicated windows that may be opened, if the host is steered.
    dedicated: Option<Dedicated>,
    detectors: Detectors,
    subject: TenantId,
    replay: Option<Replay>,
    /// The unavailable sources.
    unavailable: Vec<Unavailable>,
}

/// Sources that show more of a window than its ledger.
struct Detectors {
    spin: Option<SpinSampler>,
    /// Used instead of samples if the subject is a virtual machine: guests are not examined.
    exits: Option<PauseExits>,
    counting: Option<Counting>,
    by_counters: SpinByCounters,
    /// The results for the subject so far.
    spinning: SpinningSoFar,
}

impl Detectors {
    fn be_dense(&mut self, is_dense: bool) {
        if let Some(spin) = &mut self.spin {
            spin.be_dense(is_dense);
        }
    }

    /// Fills in the counters of a window that has just been closed, and separates spinning from computing in
    /// it. It uses samples if they are taken, exits at PAUSE for virtual CPUs, and otherwise the counters.
    fn fill(&mut self, seen: &mut Observation, subject: TenantId) {
        if let Some(counting) = &mut self.counting {
            counting.read(seen);
        }
        if self.spin.is_some() {
            let found = split_spinning(&mut self.spin, seen, |t| t.id == subject);
            self.spinning.push(seen, subject, &found);
            return;
        }
        let exits = self.exits.as_mut().map(|exits| exits.collect(seen));
        if let Some(found) = exits.or_else(|| self.by_counters.estimate(seen)) {
            seen.split_spin(&found);
            seen.unavailable.retain(|u| u.what != What::Spin);
            self.spinning.push(seen, subject, &found);
        }
    }
}

/// What to watch a subject with.
#[derive(Debug)]
pub struct WatchOptions {
    /// The requested source; `None`: the best one.
    pub source: Option<Source>,
    /// Separate spinning from computing by samples at this rate; `None`: do not.
    pub spin: Option<SpinOptions>,
    /// Count hardware events of each task.
    pub counters: bool,
    /// Dedicated windows. Then nothing is replayed: co-runners that are parked at times are no longer the
    /// same co-runners.
    pub dedicated: Option<Parking>,
    /// The cost of a wake-up on this machine if a CPU sleeps, in nanoseconds; `None` if unknown.
    pub wake_up_ns: Option<u64>,
}

/// Dedicated windows, and the tenants that they may park.
#[derive(Clone, Debug)]
pub struct Parking {
    /// Their length and budget.
    pub windows: Dedicated,
    /// Only these tenants, by name, key or PID; empty: everybody who is not protected.
    pub only: Vec<String>,
    /// None of these.
    pub protect: Vec<String>,
}

/// What became of a dedicated window.
pub enum Opening {
    /// None was requested, or the budget allows none now.
    NotNow,
    /// It would not have counted, so nobody was parked.
    NotDedicated(NotDedicated),
    /// Parking failed, and there will be no more dedicated windows. Everybody runs, and the observations
    /// meanwhile are neither dedicated nor shared.
    Ended,
    /// It was opened.
    Opened(Box<DedicatedWindow>),
}

impl SubjectWatch {
    /// Starts watching. `first` are existing tasks, such as a command that is held.
    ///
    /// # Errors
    /// If the subject is everybody; if the machine cannot be watched at all; or if co-runners are to be
    /// parked and cannot be.
    pub fn start(
        root: &Root,
        subject: Subject,
        first: &[TaskId],
        wanted: WatchOptions,
    ) -> Result<SubjectWatch, Error> {
        let vcpus = match &subject {
            Subject::Vm { vcpus, .. } => Some(vcpus.iter().map(|&tid| TaskId(tid)).collect::<Vec<_>>()),
            _ => None,
        };
        let named = wanted.dedicated.as_ref().map_or(Vec::new(), |parking| pids(&parking.only));
        // In a virtual machine, the guest's activity is not seen.
        let replays = wanted.dedicated.is_none() && vcpus.is_none();
        let record_bytes = if replays { RECORD_BYTES } else { 0 };
        let options =
            LiveOptions { watcher_apart: true, tenants: named, record_bytes, ..LiveOptions::new(subject) };
        let (watcher, mut unavailable) = Watcher::start(root, options, wanted.source)?;
        let no_subject =
            || Error::Usage("everybody is no subject; name a command, a PID, a cgroup or a VM".into());
        let subject = watcher.subject().ok_or_else(no_subject)?;
        let (host, dedicated) = match wanted.dedicated {
            None => (LocalHost::Watched(Box::new(watcher)), None),
            Some(Parking { windows, only, protect }) => {
                supervise::check()?;
                let scope = if only.is_empty() { stock::Scope::All } else { stock::Scope::Only(only) };
                let options = stock::Options { scope, protect, ..stock::Options::default() };
                let mut backend = StockBackend::new(root, options);
                backend.arm().map_err(|e| Error::Usage(e.to_string()))?;
                let host = SteeredHost::new(watcher, Box::new(backend));
                (LocalHost::Steered(Box::new(host)), Some(windows))
            }
        };
        let exits = wanted.spin.as_ref().and(vcpus).map(|vcpus| PauseExits::start(root, &vcpus));
        let is_vm = exits.is_some();
        let exits = exits.transpose().unwrap_or_else(|refused| {
            unavailable.push(refused);
            None
        });
        let spin = wanted.spin.filter(|_| !is_vm);
        let spin = match spin.map(|options| SpinSampler::start(root, options)) {
            None => None,
            Some(Ok(mut sampler)) => {
                sampler.follow(first);
                Some(sampler)
            }
            Some(Err(e)) => {
                unavailable.push(e.unavailable());
                None
            }
        };
        // CPUs can count few events at once, so branches are counted only if nothing else separates spinning
        // from computing.
        let what = if spin.is_some() { &[Theme::Work][..] } else { &[Theme::Pace, Theme::Work] };
        let counting = wanted
            .counters
            .then(|| Counting::start(root, CountedUnit::Task, what, Some(subject), first))
            .transpose()
            .unwrap_or_else(|refused| {
                unavailable.push(refused);
                None
            });
        if !wanted.counters {
            unavailable.extend(counting::absent(root));
        }
        let spinning = SpinningSoFar::default();
        let by_counters = SpinByCounters::new(subject);
        let detectors = Detectors { spin, exits, counting, by_counters, spinning };
        let replay = replays.then(|| Replay::new(wanted.wake_up_ns));
        let begin_ns = host.now_ns();
        Ok(SubjectWatch { host, begin_ns, dedicated, detectors, subject, replay, unavailable })
    }

    /// The watcher.
    pub fn watcher(&self) -> &Watcher {
        self.host.watcher()
    }

    /// The tenant that is watched.
    pub fn tenant(&self) -> TenantId {
        self.subject
    }

    /// What cannot be seen here, and why, as far as is known by now: samples may have been lost, or tasks
    /// refused, since.
    pub fn missing(&self) -> Vec<Unavailable> {
        let of_samples = self.detectors.spin.iter().flat_map(SpinSampler::unavailable);
        let of_replay = self.replay.as_ref().and_then(Replay::unavailable);
        self.unavailable.iter().cloned().chain(of_samples).chain(of_replay).collect()
    }

    /// Notes that something is not available, and why.
    pub fn lacks(&mut self, what: What, why: Why) {
        self.unavailable.push(Unavailable { what, why });
    }

    /// How spinning is separated from computing; `None` if it is not.
    pub fn spin_method(&self) -> Option<SpinMethod> {
        match &self.detectors {
            Detectors { spin: Some(_), .. } => Some(SpinMethod::Samples),
            Detectors { exits: Some(_), .. } => Some(SpinMethod::PauseExits),
            Detectors { counting: Some(_), .. } => Some(SpinMethod::Counters),
            _ => None,
        }
    }

    /// How long the subject spun so far, in total and by task; `None` if unknown.
    pub fn spinning(&self) -> Option<Spinning> {
        self.detectors.spinning.spinning()
    }

    /// The cost of sampling, as a share of one CPU.
    pub fn spin_cost(&self) -> Option<f64> {
        self.detectors.spin.as_ref().map(|s| s.cost().share())
    }

    /// The cost of counting, as a share of the subject's time on a CPU; `None` if nothing is counted, or it
    /// is unknown.
    pub fn counting_cost(&self) -> Option<f64> {
        Some(self.detectors.counting.as_ref()?.cost()?.share)
    }

    /// Ends counting once it has taken more than this share of the subject's time on a CPU: it would slow the
    /// subject down, and more so with co-runners than alone.
    pub fn end_counting_above(&mut self, most: f64) {
        let Some(cost) = self.counting_cost().filter(|cost| *cost > most) else { return };
        let percent = |share: f64| (100.0 * share).round() as u64;
        self.detectors.counting = None;
        self.unavailable.push(Unavailable {
            what: What::HardwareCounters,
            why: Why::CountingEnded { percent: percent(cost), most_percent: percent(most) },
        });
    }

    /// Takes the subject's events since the last look, for the replay, and the observations meanwhile.
    fn follow(&mut self, seen: &Observation) {
        let Some(replay) = &mut self.replay else { return };
        let Some(log) = self.host.take_run_log() else {
            self.replay = None;
            self.unavailable.extend(not_recorded(self.host.watcher().source()));
            return;
        };
        replay.push(log, seen, self.subject, self.detectors.spin.is_some());
    }

    /// The subject's events in the last window, as far as they are in order by now; `None` if they are not
    /// recorded.
    pub fn run_log(&self) -> Option<&RunLog> {
        self.replay.as_ref().map(Replay::log)
    }

    /// Whom outside of it the subject has waited for so far; `None`: it is not known.
    pub fn servers(&self) -> Option<Vec<Server>> {
        self.replay.as_ref()?.servers()
    }

    /// The results of a replay for the time since the last call, oldest first. `is_over`: the subject has
    /// ended.
    pub fn evidence(&mut self, is_over: bool) -> Vec<AloneTime> {
        let tells_spinning = self.detectors.spin.is_some();
        self.replay.as_mut().map_or_else(Vec::new, |replay| replay.evidence(is_over, tells_spinning))
    }

    /// After this error goes on without dedicated windows, and says why, if that is what failed.
    ///
    /// # Errors
    /// This error, if the machine can no longer be watched.
    fn or_watch_only(&mut self, error: HostError) -> Result<(), HostError> {
        let LocalHost::Steered(host) = &mut self.host else { return Err(error) };
        let cause = host.watch_only().ok_or(error)?;
        let after_ns = self.host.now_ns().saturating_sub(self.begin_ns);
        self.dedicated = None;
        self.lacks(What::DedicatedWindows, Why::DedicatedEnded { after_ns, cause });
        Ok(())
    }

    /// This knows why something requested cannot be seen; the host reports that nobody asked for it.
    fn say_once(&self, seen: &mut Observation) {
        seen.unavailable.retain(|u| !self.unavailable.iter().any(|own| own.what == u.what));
    }

    /// Opens a dedicated window, if they were requested and the budget allows one now; nobody is parked
    /// afterwards. None is opened if co-runners that cannot be parked had more than `most` of the machine in
    /// `seen`, the last window.
    ///
    /// # Errors
    /// If the machine can no longer be watched, or a tenant could not be released.
    pub fn open_dedicated(&mut self, seen: &Observation, most: f64) -> Result<Opening, DedicatedError> {
        let (LocalHost::Steered(host), Some(dedicated)) = (&mut self.host, &mut self.dedicated) else {
            return Ok(Opening::NotNow);
        };
        if dedicated.due_in_ns(host.now_ns()) > 0 {
            return Ok(Opening::NotNow);
        }
        let not_dedicated = not_dedicated(host, seen, self.subject);
        if not_dedicated.on_cpu_ns() as f64 > most * machine_ns(seen) {
            return Ok(Opening::NotDedicated(not_dedicated));
        }
        let (detectors, subject) = (&mut self.detectors, self.subject);
        // All knowledge about the program alone comes from a few short windows.
        detectors.be_dense(true);
        let window = dedicated.run_and_tell(host, &mut |seen| detectors.fill(seen, subject));
        detectors.be_dense(false);
        let mut window = match window {
            Err(DedicatedError::Host(error)) => {
                self.or_watch_only(error)?;
                let mut unknown = self.host.observe()?;
                self.detectors.fill(&mut unknown, self.subject);
                return Ok(Opening::Ended);
            }
            window => window?,
        };
        self.say_once(&mut window.before);
        self.say_once(&mut window.dedicated);
        Ok(Opening::Opened(Box::new(window)))
    }
}

impl Host for SubjectWatch {
    fn machine(&self) -> &Machine {
        self.host.machine()
    }

    fn now_ns(&self) -> u64 {
        self.host.now_ns()
    }

    fn advance(&mut self, ns: u64) -> Result<(), HostError> {
        let end_ns = self.now_ns() + ns;
        self.host.advance(ns).or_else(|error| {
            self.or_watch_only(error)?;
            self.host.advance(end_ns.saturating_sub(self.now_ns()))
        })
    }

    fn observe(&mut self) -> Result<Observation, HostError> {
        let seen = self.host.observe();
        let mut seen = seen.or_else(|error| {
            self.or_watch_only(error)?;
            self.host.observe()
        })?;
        self.detectors.fill(&mut seen, self.subject);
        self.say_once(&mut seen);
        self.follow(&seen);
        Ok(seen)
    }

    fn apply(&mut self, action: &Action) -> Outcome {
        self.host.apply(action)
    }

    fn undo_all(&mut self) -> Result<(), HostError> {
        self.host.undo_all()
    }
}

impl Watched for SubjectWatch {
    fn subject(&self) -> Option<TenantId> {
        Some(self.subject)
    }

    fn lives(&self) -> bool {
        self.host.lives()
    }
}

/// The available CPU time in a window, in nanoseconds.
pub fn machine_ns(seen: &Observation) -> f64 {
    seen.window_ns() as f64 * seen.cpus.len() as f64
}

/// Separates spinning from computing in a window that has just been closed, and follows the live tasks of the
/// tenants of interest. Returns the result for each task.
pub fn split_spinning(
    spin: &mut Option<SpinSampler>,
    seen: &mut Observation,
    of_interest: impl Fn(&Tenant) -> bool,
) -> BTreeMap<TaskId, SpinEstimate> {
    let Some(sampler) = spin else { return BTreeMap::new() };
    let found = sampler.collect(seen);
    seen.split_spin(&found);
    seen.unavailable.retain(|u| u.what != What::Spin);
    let tenants: BTreeSet<TenantId> = seen.tenants.iter().filter(|t| of_interest(t)).map(|t| t.id).collect();
    let living: Vec<TaskId> =
        seen.tasks.iter().filter(|t| t.alive && tenants.contains(&t.tenant)).map(|t| t.id).collect();
    sampler.follow(&living);
    found
}
