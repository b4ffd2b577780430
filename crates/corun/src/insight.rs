//! What a verb that predicts sees: the watcher's observations, with spinning told from computing where this machine
//! lets; and, where they were asked for, hardware counters and dedicated windows.

use crate::counting::{self, CountersFlag, Counting};
use crate::course::{Course, Ended};
use crate::target::pids;
use crate::usage::Usage;
use corun_linux::counters::Theme;
use corun_linux::dedicated::{hindrance, Dedicated, DedicatedWindow, Hindrance};
use corun_linux::probe::LiveOptions;
use corun_linux::spin::pause_exits::PauseExits;
use corun_linux::spin::{SpinOptions, SpinSampler};
use corun_linux::steered::SteeredHost;
use corun_linux::stock::{self, StockBackend};
use corun_linux::target::Subject;
use corun_linux::watcher::{Source, Watcher};
use corun_linux::Root;
use corun_model::{Host, Observation, SpinEstimate, SpinMethod, TaskId, Tenant, TenantId, Unavailable, What};
use corun_predict::replayed::Replayer;
use corun_predict::spin::SpinByCounters;
use corun_predict::spinning::{Spinning, SpinningSoFar};
use corun_predict::Evidence;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// A watcher of one subject, with what tells more of it than a ledger.
pub struct Insight {
    eyes: Eyes,
    lenses: Lenses,
    subject: TenantId,
    replay: Option<Replay>,
    /// What could not be had at all.
    unavailable: Vec<Unavailable>,
}

/// A replay of what the subject does, as it goes on.
struct Replay {
    replayer: Replayer,
    /// What is known by it and nobody has asked for yet.
    known: Vec<Evidence>,
}

/// Bytes for what the subject does between two looks at it: 25 ms of a million switches a second.
const RECORD_BYTES: u32 = 4 << 20;

/// Who looks, and whether co-runners may be parked.
enum Eyes {
    Watching(Box<Watcher>),
    Parking(Box<SteeredHost>, Dedicated),
}

/// What tells more of a window than its ledger.
struct Lenses {
    spin: Option<SpinSampler>,
    /// Instead of samples, where the subject is a virtual machine: guests are not looked into.
    exits: Option<PauseExits>,
    counting: Option<Counting>,
    by_counters: SpinByCounters,
    /// What was found of the subject so far.
    spinning: SpinningSoFar,
}

impl Lenses {
    fn be_dense(&mut self, is_dense: bool) {
        if let Some(spin) = &mut self.spin {
            spin.be_dense(is_dense);
        }
    }

    /// Fills in the counters of a window that has just been closed, and tells spinning from computing in it: by samples
    /// where they are taken, of virtual CPUs by their exits at PAUSE, else by the counters.
    fn look(&mut self, seen: &mut Observation, subject: TenantId) {
        if let Some(counting) = &mut self.counting {
            counting.read(seen);
        }
        if self.spin.is_some() {
            let found = split(&mut self.spin, seen, |t| t.id == subject);
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

/// What to look with.
pub struct Wanted {
    /// The source that was asked for; `None`: the best there is.
    pub source: Option<Source>,
    /// Tell spinning from computing by samples.
    pub spin: bool,
    /// Count hardware events of each task.
    pub counters: bool,
    /// Dedicated windows. Nothing is replayed then: where others are parked at times, the run is no longer one beside them.
    pub dedicated: Option<Parking>,
    /// What a wake-up takes on this machine where a CPU sleeps, in nanoseconds; `None`: nobody knows.
    pub wake_up_ns: Option<u64>,
}

/// Dedicated windows, and whom they may park.
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
    /// None was asked for, or the budget allows none now.
    NotNow,
    /// It would not have counted, so nobody was parked.
    Hindered(Hindrance),
    /// It was opened.
    Opened(Box<DedicatedWindow>),
}

impl Insight {
    /// Begins to watch. `first` are tasks that are there already, such as a command that is held.
    ///
    /// # Errors
    /// When the machine cannot be watched at all, or co-runners are to be parked and cannot be.
    pub fn start(root: &Root, subject: Subject, first: &[TaskId], wanted: Wanted) -> anyhow::Result<Insight> {
        let vcpus = match &subject {
            Subject::Vm { vcpus, .. } => Some(vcpus.iter().map(|&tid| TaskId(tid)).collect::<Vec<_>>()),
            _ => None,
        };
        let named = wanted.dedicated.as_ref().map_or(Vec::new(), |parking| pids(&parking.only));
        // Of a virtual machine what its guest does is not seen.
        let replays = wanted.dedicated.is_none() && vcpus.is_none();
        let record_bytes = if replays { RECORD_BYTES } else { 0 };
        let options =
            LiveOptions { watcher_apart: true, tenants: named, record_bytes, ..LiveOptions::new(subject) };
        let (watcher, mut unavailable) = Watcher::start(root, options, wanted.source)?;
        let subject = watcher.subject().expect("a verb that predicts has one subject");
        let eyes = match wanted.dedicated {
            None => Eyes::Watching(Box::new(watcher)),
            Some(Parking { windows, only, protect }) => {
                let scope = if only.is_empty() { stock::Scope::All } else { stock::Scope::Only(only) };
                let options = stock::Options { scope, protect, ..stock::Options::default() };
                let mut backend = StockBackend::new(root, options);
                backend.arm().map_err(|e| Usage(e.to_string()))?;
                Eyes::Parking(Box::new(SteeredHost::new(watcher, Box::new(backend))), windows)
            }
        };
        let exits = wanted.spin.then_some(()).and(vcpus).map(|vcpus| PauseExits::start(root, &vcpus));
        let is_vm = exits.is_some();
        let exits = exits.transpose().unwrap_or_else(|refused| {
            unavailable.push(refused);
            None
        });
        let spin = match (wanted.spin && !is_vm).then(|| SpinSampler::start(root, SpinOptions::default())) {
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
        // What CPUs can count at once is little: branches only where nothing else tells spinning from computing.
        let what = if spin.is_some() { &[Theme::Work][..] } else { &[Theme::Pace, Theme::Work] };
        let counting = wanted
            .counters
            .then(|| Counting::start(root, CountersFlag::Tasks, what, Some(subject), first))
            .transpose()
            .unwrap_or_else(|refused| {
                unavailable.push(refused);
                None
            });
        if !wanted.counters {
            unavailable.extend(counting::absent(root));
        }
        let spinning = SpinningSoFar::default();
        let lenses = Lenses { spin, exits, counting, by_counters: SpinByCounters::new(subject), spinning };
        let replay =
            replays.then(|| Replay { replayer: Replayer::new(wanted.wake_up_ns), known: Vec::new() });
        Ok(Insight { eyes, lenses, subject, replay, unavailable })
    }

    /// What it sees through.
    pub fn watcher(&self) -> &Watcher {
        match &self.eyes {
            Eyes::Watching(watcher) => watcher,
            Eyes::Parking(host, _) => host.watcher(),
        }
    }

    /// The host's clock.
    pub fn now_ns(&self) -> u64 {
        self.watcher().now_ns()
    }

    /// The tenant that is watched.
    pub fn subject(&self) -> TenantId {
        self.subject
    }

    /// What cannot be seen here, and why, as far as is known by now: samples may have been lost, or tasks refused, since.
    pub fn missing(&self) -> Vec<Unavailable> {
        let of_samples = self.lenses.spin.iter().flat_map(SpinSampler::unavailable);
        let of_replay = self.replay.as_ref().and_then(|r| r.replayer.failed()).map(|why| Unavailable {
            what: What::Replay,
            why: format!("{why}; what the program would have taken alone is told by its ledger"),
        });
        self.unavailable.iter().cloned().chain(of_samples).chain(of_replay).collect()
    }

    /// Notes that something cannot be had, and why.
    pub fn lacks(&mut self, what: What, why: String) {
        self.unavailable.push(Unavailable { what, why });
    }

    /// How spinning is told from computing, for a report.
    pub fn spin(&self) -> Option<String> {
        let method = match &self.lenses {
            Lenses { spin: Some(_), .. } => SpinMethod::Samples,
            Lenses { exits: Some(_), .. } => SpinMethod::PauseExits,
            Lenses { counting: Some(_), .. } => SpinMethod::Counters,
            _ => return None,
        };
        Some(method.name().to_owned())
    }

    /// How long the subject spun so far, in all and by task; `None`: nobody told.
    pub fn spinning(&self) -> Option<Spinning> {
        self.lenses.spinning.told()
    }

    /// What sampling has cost, as a share of one CPU.
    pub fn spin_cost(&self) -> Option<f64> {
        self.lenses.spin.as_ref().map(|s| s.cost().share())
    }

    /// The counters, where they were asked for and are there.
    pub fn counting(&self) -> Option<&Counting> {
        self.lenses.counting.as_ref()
    }

    /// Ends counting once it has taken more than this share of the subject's time on a CPU: it would slow down what it is to
    /// watch, and beside co-runners otherwise than alone.
    pub fn end_counting_above(&mut self, most: f64) {
        let Some(cost) = self.counting().and_then(Counting::cost).filter(|cost| *cost > most) else { return };
        self.lenses.counting = None;
        self.unavailable.push(Unavailable {
            what: What::HardwareCounters,
            why: format!(
                "counting took {:.0} % of the program's time on a CPU, since it switches so often, and was ended above {:.0} %",
                100.0 * cost,
                100.0 * most
            ),
        });
    }

    /// Lets a slot pass, or less if something ends the measurement.
    ///
    /// # Errors
    /// When the machine can no longer be watched.
    pub fn wait(&mut self, course: &Course, slot: Duration) -> anyhow::Result<Option<Ended>> {
        match &mut self.eyes {
            Eyes::Watching(watcher) => course.wait(watcher.as_mut(), slot),
            Eyes::Parking(host, _) => course.wait(host.as_mut(), slot),
        }
    }

    /// Closes the window.
    ///
    /// # Errors
    /// When the machine can no longer be watched.
    pub fn observe(&mut self) -> anyhow::Result<Observation> {
        let mut seen = match &mut self.eyes {
            Eyes::Watching(watcher) => watcher.observe()?,
            Eyes::Parking(host, _) => host.observe()?,
        };
        self.lenses.look(&mut seen, self.subject);
        self.say_once(&mut seen);
        self.follow();
        Ok(seen)
    }

    /// Takes what the subject has done since the last look, for the replay.
    fn follow(&mut self) {
        let Eyes::Watching(watcher) = &mut self.eyes else { return };
        let Some(replay) = &mut self.replay else { return };
        let Some(log) = watcher.take_run_log() else {
            // Nothing is recorded here: of a cgroup, or without the probe, which is said anyway.
            self.replay = None;
            if watcher.source() == Source::Ebpf {
                self.unavailable.push(Unavailable {
                    what: What::Replay,
                    why: "what the tasks of a cgroup do is not recorded; name it by a process (-p), or start it with corun".into(),
                });
            }
            return;
        };
        replay.replayer.push(&log);
        if replay.replayer.is_full() {
            replay.known.extend(replay.replayer.evidence(false, self.lenses.spin.is_some()));
        }
    }

    /// What a replay of the run tells of the time since the last call, oldest first. `is_over`: the subject has ended.
    pub fn evidence(&mut self, is_over: bool) -> Vec<Evidence> {
        let knows_spinning = self.lenses.spin.is_some();
        let Some(replay) = &mut self.replay else { return Vec::new() };
        replay.known.extend(replay.replayer.evidence(is_over, knows_spinning));
        std::mem::take(&mut replay.known)
    }

    /// Why something that was asked for cannot be seen is known here; the host says that nobody asked for it.
    fn say_once(&self, seen: &mut Observation) {
        seen.unavailable.retain(|u| !self.unavailable.iter().any(|own| own.what == u.what));
    }

    /// Opens a dedicated window, if they were asked for and the budget allows one now; nobody is parked afterwards. None is
    /// opened where co-runners that cannot be parked had more than `most` of the machine in `seen`, the last window.
    ///
    /// # Errors
    /// When the machine can no longer be watched or steered; everybody runs then.
    pub fn dedicated(&mut self, seen: &Observation, most: f64) -> anyhow::Result<Opening> {
        let Eyes::Parking(host, dedicated) = &mut self.eyes else { return Ok(Opening::NotNow) };
        if dedicated.due_in_ns(host.now_ns()) > 0 {
            return Ok(Opening::NotNow);
        }
        let hindrance = hindrance(host, seen, self.subject);
        if hindrance.on_cpu_ns() as f64 > most * machine_ns(seen) {
            return Ok(Opening::Hindered(hindrance));
        }
        let (lenses, subject) = (&mut self.lenses, self.subject);
        // All that is known of the program alone comes from a few short windows.
        lenses.be_dense(true);
        let window = dedicated.run_and_tell(host, &mut |seen| lenses.look(seen, subject));
        lenses.be_dense(false);
        let mut window = window?;
        self.say_once(&mut window.before);
        self.say_once(&mut window.dedicated);
        Ok(Opening::Opened(Box::new(window)))
    }

    /// Restores whatever was changed.
    ///
    /// # Errors
    /// Naming what stayed changed.
    pub fn finish(&mut self) -> anyhow::Result<()> {
        match &mut self.eyes {
            Eyes::Watching(_) => Ok(()),
            Eyes::Parking(host, _) => Ok(host.undo_all()?),
        }
    }
}

/// CPU time that there was in a window, in nanoseconds.
pub fn machine_ns(seen: &Observation) -> f64 {
    seen.window_ns() as f64 * seen.cpus.len() as f64
}

/// Tells spinning from computing in a window that has just been closed, and follows what lives of the tenants that
/// are of interest. Returns what was found of each task.
pub fn split(
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
