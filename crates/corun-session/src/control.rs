//! Control: a policy at work on this machine, epoch by epoch.
//!
//! [`Plan::look_around`] finds the tenants that may be touched and notes what its user should know. Nothing is changed
//! yet. [`Plan::begin`] starts the backend, and [`Control`] runs the loop of [`corun_policy::controller`]. Everything is
//! undone at the end, whatever ends it: by [`Control::undo_all`], when it is dropped, and by a supervisor when this
//! process is killed.

mod advice;
pub mod idle;
pub mod protected;
pub mod scope;
pub mod steering;

use crate::counting::Counting;
use crate::end::{next_window, EndConditions, Ended};
use crate::error::{Error, Named};
use crate::local_host::LocalHost;
use crate::profile::TRACE_BYTES;
use crate::stop::Stop;
use crate::subject_watch::split_spinning;
use crate::target::pids;
use advice::Advisor;
use corun_linux::affinities::Affinities;
use corun_linux::energy::EnergyMeter;
use corun_linux::probe::LiveOptions;
use corun_linux::shares::Shares;
use corun_linux::spin::{SpinOptions, SpinSampler};
use corun_linux::target::Subject;
use corun_linux::watcher::Watcher;
use corun_linux::Root;
use corun_model::advice::Advised;
use corun_model::duration::human_ns;
use corun_model::{Host, HostError, Knob, Notice, Observation, Policy, Tenant, TenantId, Trace, Unavailable};
use corun_policy::controller::{Controller, Epoch, Mode, Taken, MOST_EPOCH_NS};
use corun_policy::guard::{period_ns, Finding, PAIRS};
use corun_policy::{Options, Scope};
use protected::Protected;
use scope::Tenants;
use std::collections::BTreeSet;
use std::time::Duration;
use steering::BackendChoice;

/// Observing an epoch and deciding on it takes part of a millisecond.
const LEAST_EPOCH_NS: u64 = 1_000_000;

/// How long it looks for a tenant before it counts as missing.
const FIRST_LOOK_NS: u64 = 20_000_000;

/// What to control, and how.
#[derive(Clone, Debug)]
pub struct ControlOptions {
    /// The policy's name.
    pub policy: String,
    /// Its options. Their scope is replaced.
    pub options: Options,
    /// Guard, dry run, and the time between two decisions.
    pub mode: Mode,
    /// The tenants that it may control.
    pub tenants: Tenants,
    /// Tenants that it may not touch, by name, key or PID.
    pub protect: Vec<String>,
    /// What carries the decisions out.
    pub backend: BackendChoice,
    /// End after this time, in nanoseconds; `None`: on request.
    pub length_ns: Option<u64>,
    /// Record every context switch, if eBPF sees them.
    pub trace: bool,
}

impl ControlOptions {
    /// A policy over these tenants, under a guard.
    pub fn new(policy: impl Into<String>, tenants: Tenants) -> ControlOptions {
        ControlOptions {
            policy: policy.into(),
            options: Options::new(),
            mode: Mode { guard: true, ..Mode::default() },
            tenants,
            protect: Vec::new(),
            backend: BackendChoice::default(),
            length_ns: None,
            trace: false,
        }
    }

    /// Checks that there is such a policy with such options, and that it can decide that often; tenants are
    /// not looked up yet.
    ///
    /// # Errors
    /// If there is not, or it cannot.
    pub fn check(&self) -> Result<(), Error> {
        self.controller(Scope::everyone())?;
        let refused = |ns, why| Err(Error::Refused { what: Named::Epoch(ns), why });
        match self.mode.epoch_ns {
            Some(ns) if ns < LEAST_EPOCH_NS => refused(
                ns,
                format!("it is too short to decide in; give {} or more", human_ns(LEAST_EPOCH_NS)),
            ),
            Some(ns) if ns > MOST_EPOCH_NS => {
                refused(ns, format!("it is too long to wait for; give {} or less", human_ns(MOST_EPOCH_NS)))
            }
            _ => Ok(()),
        }
    }

    /// The policy, with the tenants that it may touch.
    fn controller(&self, scope: Scope) -> Result<Controller, Error> {
        let options = self.options.clone().scope(scope);
        Controller::new(&self.policy, options, self.mode).map_err(|bad| Error::Usage(bad.to_string()))
    }

    /// Counts the events that the policy needs; if that is impossible, it is refused before anything is
    /// touched.
    fn counting(&self, root: &Root) -> Result<Option<Counting>, Error> {
        let entry = corun_policy::entry(&self.policy);
        let Some(entry) = entry.filter(|e| !e.counters.is_empty()) else { return Ok(None) };
        let refused = |lacks: Unavailable| Error::NoCounters { policy: entry.name, lacks };
        Ok(Some(Counting::needed(root, entry.counters).map_err(refused)?))
    }
}

/// A policy that is ready to begin. Nothing was changed.
pub struct Plan {
    options: ControlOptions,
    root: Root,
    watcher: Watcher,
    controller: Controller,
    protected: Protected,
    spin: Option<SpinSampler>,
    counting: Option<Counting>,
    energy: EnergyMeter,
    first: Observation,
    notices: Vec<Notice>,
    unavailable: Vec<Unavailable>,
}

impl Plan {
    /// Looks up the named tenants, and their protections.
    ///
    /// # Errors
    /// If there is no such policy, a tenant is missing or protected, or the machine cannot be watched.
    pub fn look_around(options: ControlOptions) -> Result<Plan, Error> {
        let root = Root::new("/");
        // Whether such a policy with such options exists does not depend on the tenants that it may touch.
        options.check()?;
        let turns_knobs = !options.controller(Scope::everyone())?.policy().knobs().is_empty();
        let mut counting = options.counting(&root)?;
        let acts = turns_knobs && !options.mode.dry_run;
        let live = LiveOptions {
            trace_bytes: if options.trace { TRACE_BYTES } else { 0 },
            tenants: pids(options.tenants.named()),
            watcher_apart: true,
            ..LiveOptions::new(Subject::All)
        };
        let (mut watcher, mut unavailable) = Watcher::start(&root, live, None)?;
        watcher.advance(FIRST_LOOK_NS)?;
        let mut first = watcher.observe()?;
        let energy = EnergyMeter::start(&root);
        // The tenants with tasks are known now; their time is counted from here.
        counting.iter_mut().for_each(|c| c.read(&mut first));
        let protected = Protected::new(&root, &options.protect, acts);
        let scope = scope::scope(&root, &options.tenants, &options.protect, &protected, &first)?;
        let mut controller = options.controller(scope)?;
        controller.policy().subject().map_or(Ok(()), |named| scope::subject(&root, named, &first))?;
        let mut spin = SpinSampler::start(&root, SpinOptions::default())
            .inspect_err(|e| unavailable.push(e.unavailable()))
            .ok();
        controller.look(&mut first, |seen, tenant| protected.refuses(seen, tenant));
        let covered = controller.covered();
        split_spinning(&mut spin, &mut first, |t| covered.contains(&t.id));
        let mut plan = Plan {
            options,
            root,
            watcher,
            controller,
            protected,
            spin,
            counting,
            energy,
            first,
            notices: Vec::new(),
            unavailable,
        };
        plan.notices = plan.notice(acts)?;
        Ok(plan)
    }

    /// The notices for the user.
    fn notice(&self, acts: bool) -> Result<Vec<Notice>, Error> {
        let Plan { options, controller, first, .. } = self;
        let mut notices = Vec::new();
        if acts && options.tenants == Tenants::Everybody {
            let tenants = scope::others_left_alone(&self.protected, first, controller.scope())?;
            notices.extend((tenants > 0).then_some(Notice::OthersLeftAlone { tenants }));
        }
        let awaited = scope::nobody_yet(&options.tenants, first);
        notices.extend(awaited.map(|tenant| Notice::NobodyInIt { tenant: tenant.clone() }));
        let unknown = scope::protecting_nobody(&options.protect, first);
        notices.extend(unknown.map(|name| Notice::ProtectsNobody { name: name.clone() }));
        notices.extend(self.unavailable.iter().cloned().map(Notice::Unseen));
        let policy = controller.policy();
        notices.extend(idle::reasons(&options.tenants, policy, first, controller.covered()));
        let guarded_ns = options.length_ns.filter(|_| controller.guard().is_some());
        let too_short = |ns| too_short_for_guard(policy, ns, controller.epoch_ns());
        notices.extend(guarded_ns.and_then(too_short));
        Ok(notices)
    }

    /// What the user should know before it begins.
    pub fn notices(&self) -> &[Notice] {
        &self.notices
    }

    /// The policy.
    pub fn policy(&self) -> &dyn Policy {
        self.controller.policy()
    }

    /// The tenants that existed at the first look and may be touched.
    pub fn covered(&self) -> impl Iterator<Item = &Tenant> {
        let covered = self.controller.covered();
        self.first.tenants.iter().filter(|t| covered.contains(&t.id))
    }

    /// Begins: from here on tenants may be touched.
    ///
    /// # Errors
    /// If nothing here can carry out the decisions.
    pub fn begin(self, stop: &Stop) -> Result<Control, Error> {
        let ControlOptions { tenants, protect, backend, length_ns, mode, .. } = &self.options;
        let policy = self.controller.policy();
        let begin_ns = self.watcher.now_ns();
        let mut notices = Vec::new();
        let choice = (!mode.dry_run).then_some(*backend);
        let host =
            steering::steered(&self.root, (tenants, protect), choice, self.watcher, policy, &mut notices)?;
        if host.backend() == "stock" {
            notices.extend(steering::inexact_knobs(policy, &host));
            let containers = scope::containers(&self.first, self.controller.covered());
            let parks = policy.knobs().contains(&Knob::Park) && !containers.is_empty();
            notices.extend(parks.then_some(Notice::TakenForPaused { containers }));
        }
        let end_ns = length_ns.map(|ns| begin_ns + ns);
        Ok(Control {
            end: EndConditions { running: None, end_ns, stop: stop.clone() },
            ended: None,
            shares: Shares::new(&self.root, host.backend() != "sched_ext"),
            affinities: (!policy.knobs().contains(&Knob::Cpus)).then(|| Affinities::new(&self.root)),
            advisor: (!mode.dry_run).then(|| Advisor::new(&self.root)),
            host,
            controller: self.controller,
            protected: self.protected,
            spin: self.spin,
            counting: self.counting,
            energy: self.energy,
            begin_ns,
            notices,
            unavailable: self.unavailable,
        })
    }
}

/// A notice that the guard cannot find anything in such a short run; its periods end with an epoch.
fn too_short_for_guard(policy: &dyn Policy, length_ns: u64, epoch_ns: u64) -> Option<Notice> {
    let period_ns = period_ns(policy, epoch_ns);
    let needed_ns = period_ns.saturating_add(epoch_ns).saturating_mul(2 * PAIRS as u64);
    (length_ns < needed_ns).then_some(Notice::TooShortForGuard {
        policy: policy.name(),
        length_ns,
        pairs: PAIRS,
        period_ns,
        needed_ns,
    })
}

/// A policy at work: an iterator over its epochs. Dropping it undoes everything.
pub struct Control {
    host: LocalHost,
    controller: Controller,
    protected: Protected,
    spin: Option<SpinSampler>,
    /// Where the policy needs hardware counters.
    counting: Option<Counting>,
    energy: EnergyMeter,
    shares: Shares,
    /// `None`: the policy changes them.
    affinities: Option<Affinities>,
    /// Advice to programs that share a page; `None` in a dry run.
    advisor: Option<Advisor>,
    end: EndConditions,
    ended: Option<Ended>,
    begin_ns: u64,
    notices: Vec<Notice>,
    unavailable: Vec<Unavailable>,
}

/// An epoch of a policy.
pub struct ControlEpoch {
    /// What happened in it.
    pub seen: Observation,
    /// Switches and wake-ups in it, if a trace was requested.
    pub trace: Trace,
    /// The tenants that the policy may touch, among those that were seen.
    pub covered: BTreeSet<TenantId>,
    /// Whether the policy was in force.
    pub was_in_force: bool,
    /// Whether everything was undone at its end, for a time without the policy, and the result of that. A
    /// failure ends the session.
    pub undone: Option<Result<(), HostError>>,
    /// The decisions at its end, in the order in which they were applied.
    pub taken: Vec<Taken>,
    /// The advice to programs that share a page at its end.
    pub advised: Vec<Advised>,
    /// Why the session ended with it; then there are no decisions.
    pub ended: Option<Ended>,
}

impl Control {
    /// What the user should know about how decisions are carried out.
    pub fn notices(&self) -> &[Notice] {
        &self.notices
    }

    /// The unseen values, and why.
    pub fn unavailable(&self) -> &[Unavailable] {
        &self.unavailable
    }

    /// The policy.
    pub fn policy(&self) -> &dyn Policy {
        self.controller.policy()
    }

    /// Whether the policy's decisions are in force now.
    pub fn is_in_force(&self) -> bool {
        self.controller.is_in_force()
    }

    /// The guard's finding; `None` if there is no guard.
    pub fn finding(&self) -> Option<Finding> {
        self.controller.finding()
    }

    /// The backend of the decisions: `stock`, `sched_ext`; `none` in a dry run.
    pub fn backend(&self) -> &'static str {
        self.host.backend()
    }

    /// The watcher.
    pub fn watcher(&self) -> &Watcher {
        self.host.watcher()
    }

    /// When it began, on the host's clock.
    pub fn begin_ns(&self) -> u64 {
        self.begin_ns
    }

    /// The host's clock, in nanoseconds.
    pub fn now_ns(&self) -> u64 {
        self.host.now_ns()
    }

    /// Undoes everything.
    ///
    /// # Errors
    /// The changes that could not be undone.
    pub fn undo_all(&mut self) -> Result<(), HostError> {
        self.advisor.iter().for_each(Advisor::withdraw);
        self.host.undo_all()
    }

    fn observe(&mut self) -> Result<Observation, HostError> {
        let mut seen = self.host.observe()?;
        self.counting.iter_mut().for_each(|c| c.read(&mut seen));
        self.energy.fill(&mut seen);
        self.controller.look(&mut seen, |seen, tenant| self.protected.refuses(seen, tenant));
        let covers = |t: &Tenant| self.controller.covered().contains(&t.id);
        split_spinning(&mut self.spin, &mut seen, covers);
        self.shares.fill(&mut seen, covers);
        self.affinities.iter_mut().for_each(|a| a.fill(&mut seen, covers));
        Ok(seen)
    }

    fn epoch(&mut self) -> Result<ControlEpoch, HostError> {
        let slot = Duration::from_nanos(self.controller.wait_ns());
        self.ended = self.end.wait(&mut self.host, slot)?;
        let seen = self.observe()?;
        let (trace, covered) = (self.host.take_trace(), self.controller.covered().clone());
        let was_in_force = self.controller.is_in_force();
        let Epoch { undone, taken } = match self.ended {
            Some(_) => Epoch::default(),
            None => self.controller.epoch(&mut self.host, &seen),
        };
        if let Some(Err(_)) = undone {
            self.ended = Some(Ended::Interrupted);
        }
        let may_advise = self.ended.is_none() && self.controller.is_in_force();
        let advised = match &mut self.advisor {
            Some(advisor) if may_advise => advisor.advise(&seen, &covered),
            other => {
                other.iter().for_each(Advisor::withdraw);
                Vec::new()
            }
        };
        Ok(ControlEpoch { seen, trace, covered, was_in_force, undone, taken, advised, ended: self.ended })
    }
}

impl Iterator for Control {
    type Item = Result<ControlEpoch, Error>;

    /// The next epoch; `None` once the session has ended.
    fn next(&mut self) -> Option<Result<ControlEpoch, Error>> {
        next_window(self, |session| &mut session.ended, Control::epoch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;

    #[test]
    fn a_run_is_too_short_for_the_guard_or_long_enough() {
        let epoch_ns = 50_000_000;
        let [gang, dedicated] =
            ["gang", "dedicated"].map(|name| corun_policy::by_name(name, &Options::new()).unwrap());
        let too_short_for_guard =
            |length_ns, epoch_ns| too_short_for_guard(gang.as_ref(), length_ns, epoch_ns);
        let Some(Notice::TooShortForGuard { period_ns, needed_ns, .. }) =
            too_short_for_guard(2 * SECOND_NS, epoch_ns)
        else {
            panic!("two seconds are enough");
        };
        assert!(needed_ns >= 2 * PAIRS as u64 * period_ns);
        assert_eq!(too_short_for_guard(needed_ns, epoch_ns), None);
        assert!(too_short_for_guard(needed_ns - 1, epoch_ns).is_some());
        assert!(too_short_for_guard(SECOND_NS, u64::MAX).is_some(), "absurd, and no overflow");
        assert!(
            super::too_short_for_guard(dedicated.as_ref(), needed_ns, epoch_ns).is_some(),
            "windows are far apart"
        );
    }
}
