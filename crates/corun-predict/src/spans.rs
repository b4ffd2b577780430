//! Was a stretch of a run disturbed, and was a test in it starved?
//!
//! Method. The run is kept slot by slot, each with what it lost by the one definition ([`crate::loss`]); whatever the whole run
//! lost less than its slots together, each of them lost less in proportion. A stretch has lost what its slots have.
//!
//! Two things make that less than certain, and both are bounds, not guesses. A slot that reaches beyond the stretch may have
//! lost all of its time inside of it, or as much as possible outside. And a tool may not say exactly when the stretch began: then it
//! has lost at most what all slots lost in which it can have been, and at least what those lost in which it must have been.
//! What lies on one side of what is allowed by both is clean or disturbed; anything else is unclear.
//!
//! Limits: the stretch of a test case is judged by all tasks of the command, so of tests that run at a time it says what they
//! lost together.

use crate::alone::Hints;
use crate::hypervisor::Hypervisor;
use crate::loss::{Loss, SLOT_NS};
use crate::ruling::{resolution, Ruling};
use crate::useful_work::Window;
use corun_model::{Observation, TenantId};
use serde::Serialize;
use std::collections::BTreeMap;

/// Whoever lost this share of its time was starved: a time-out that is missed by less was too tight alone.
pub const STARVED: f64 = 0.1;
/// A stretch that was not watched for more than the rest of this share cannot be judged.
const WATCHED: f64 = 0.9;
/// Where a stretch can have begun must be known to this share of its length before what its tasks did in it is told.
const PLACED: f64 = 0.5;

/// A stretch of a run, on the host's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// When it can have begun at the earliest.
    pub earliest_ns: u64,
    /// When it can have begun at the latest.
    pub latest_ns: u64,
    /// How long it was.
    pub length_ns: u64,
}

/// Why nobody can tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Unsure {
    /// It was not watched, or not all of it.
    Unwatched,
    /// Something was lost, but when it was is not known well enough.
    Place,
    /// What was stolen may have come out of its sleep.
    Spare,
    /// What was lost is more than nothing and less than what starves.
    Little,
    /// Its tasks waited for CPUs that the command's own tasks held.
    Siblings,
    /// Somebody stopped or froze it.
    Held,
    /// The hypervisor took CPUs, and what that cost is not known.
    Hypervisor,
}

/// What kept a test from its CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// Others took so much that a time-out or a race is explained by it.
    Starved,
    /// Its own CPU quota stopped it.
    Throttled,
    /// Nothing of that kind: look for the cause in the test.
    NotStarved,
    /// Nobody can tell.
    CannotTell(Unsure),
}

/// What is said of a stretch.
#[derive(Clone, Debug, PartialEq)]
pub struct Judged {
    /// As an iteration of a benchmark: was it disturbed by more than was allowed?
    pub verdict: Ruling,
    /// Why that is unclear; `None`: it is not.
    pub unsure: Option<Unsure>,
    /// As a test that failed: what kept it from its CPUs?
    pub cause: Cause,
    /// Share of its time that was lost to others, 0..1: at least, most likely, at most.
    pub lost: [f64; 3],
    /// How long its tasks waited for CPUs, summed: whoever held them.
    pub waited_ns: f64,
    /// The part of that in which co-runners held them, or nobody knows who.
    pub stolen_ns: f64,
    /// How long its own quota stopped its tasks, summed.
    pub throttled_ns: f64,
    /// Who took most; `None`: nobody, or it is not known.
    pub culprit: Option<TenantId>,
}

/// A run of which parts can be judged.
#[derive(Clone, Copy, Debug)]
pub struct Parts<'a> {
    slots: &'a Slots,
    allowed: f64,
    kept: f64,
}

impl<'a> Parts<'a> {
    /// A run of these slots, of which `allowed` may be lost. `kept` is the share of what its slots lost that the whole run has
    /// lost.
    pub(crate) fn new(slots: &'a Slots, allowed: f64, kept: f64) -> Parts<'a> {
        Parts { slots, allowed, kept }
    }

    /// What is said of a stretch of it.
    pub fn judge(&self, span: &Span) -> Judged {
        self.slots.judge(span, self.allowed, self.kept)
    }
}

/// A run, slot by slot.
#[derive(Clone, Debug, Default)]
pub(crate) struct Slots {
    slots: Vec<Slot>,
    window: Window,
    open: Slot,
}

/// What is kept of a slot, in nanoseconds: of its tasks, summed.
#[derive(Clone, Debug, Default)]
struct Slot {
    start_ns: f64,
    end_ns: f64,
    lost_ns: [f64; 3],
    waited_ns: f64,
    queued_ns: f64,
    stolen_ns: f64,
    throttled_ns: f64,
    held_ns: f64,
    /// On a CPU, or waiting for one.
    wanted_ns: f64,
    life_ns: f64,
    hypervisor: Hypervisor,
    culprits: BTreeMap<Option<TenantId>, f64>,
}

impl Slots {
    /// Takes the next window of the run.
    pub fn push(&mut self, seen: &Observation, subject: TenantId, window: &Window) {
        self.window.add(window);
        if let Some(own) = seen.by_tenant.iter().find(|t| t.id == subject) {
            let parts = own.account.ledger.parts();
            self.open.waited_ns += parts.steal_ns as f64;
            self.open.held_ns += parts.held.map_or(0, |held| held.stopped_ns + held.frozen_ns) as f64;
            let on_cpu_ns = own.account.ledger.on_cpu_ns();
            self.open.wanted_ns += (on_cpu_ns + parts.steal_ns + parts.throttled_ns) as f64;
            self.open.life_ns += own.account.ledger.total_ns() as f64;
        }
        self.open.hypervisor.add(seen, &window.reach.all());
        if self.window.wall_ns >= SLOT_NS as f64 {
            let closed = self.close();
            self.slots.extend(closed);
        }
    }

    /// What has been seen since the last slot.
    fn close(&mut self) -> Option<Slot> {
        let (window, open) = (std::mem::take(&mut self.window), std::mem::take(&mut self.open));
        let total = window.total();
        (window.end_ns > window.start_ns).then(|| Slot {
            start_ns: window.start_ns as f64,
            end_ns: window.end_ns as f64,
            lost_ns: Loss::of(&window, Hints::default()).lost_ns.map(|ns| ns.max(0.0)),
            queued_ns: total.queued_ns,
            stolen_ns: total.stolen_ns,
            throttled_ns: total.throttled_ns,
            culprits: window.culprits,
            ..open
        })
    }

    fn judge(&self, span: &Span, allowed: f64, kept: f64) -> Judged {
        let mut rest = self.clone_open();
        let last = rest.close();
        let mut sums = Sums::default();
        let (earliest, latest) = (span.earliest_ns as f64, span.latest_ns.max(span.earliest_ns) as f64);
        let length = span.length_ns.max(1) as f64;
        let first = self.slots.partition_point(|slot| slot.end_ns <= earliest);
        for slot in self.slots[first..].iter().chain(&last) {
            if slot.start_ns >= latest + length {
                break;
            }
            let within = |from: f64, to: f64| (slot.end_ns.min(to) - slot.start_ns.max(from)).max(0.0);
            let somewhere = within(earliest, latest + length);
            let certainly = within(latest, earliest + length);
            sums.add(slot, somewhere, certainly, length / (latest + length - earliest), kept);
        }
        sums.judge(length, latest - earliest, allowed)
    }

    /// Only what is open: slots are many.
    fn clone_open(&self) -> Slots {
        Slots { slots: Vec::new(), window: self.window.clone(), open: self.open.clone() }
    }
}

/// What the slots of a stretch come to.
#[derive(Default)]
struct Sums {
    watched_ns: f64,
    /// Lost at least, by what is least and by what is likely of each slot; most likely; at most.
    least_ns: [f64; 2],
    likely_ns: f64,
    most_ns: f64,
    all: Slot,
    host_steal: f64,
}

impl Sums {
    fn add(&mut self, slot: &Slot, somewhere: f64, certainly: f64, density: f64, kept: f64) {
        let wall = slot.end_ns - slot.start_ns;
        if wall <= 0.0 || somewhere <= 0.0 {
            return;
        }
        let lost = slot.lost_ns.map(|ns| (ns * kept).min(wall));
        let outside = wall - certainly;
        self.least_ns[0] += (lost[0] - outside).max(0.0);
        self.least_ns[1] += (lost[1] - outside).max(0.0);
        self.most_ns += lost[1].min(somewhere);
        let part = somewhere / wall * density;
        self.likely_ns += lost[1] * part;
        self.watched_ns += somewhere * density;
        let all = &mut self.all;
        all.waited_ns += slot.waited_ns * part;
        all.queued_ns += slot.queued_ns * part;
        all.stolen_ns += slot.stolen_ns * part;
        all.throttled_ns += slot.throttled_ns * part;
        all.held_ns += slot.held_ns * part;
        all.wanted_ns += slot.wanted_ns * part;
        all.life_ns += slot.life_ns * part;
        self.host_steal = self.host_steal.max(slot.hypervisor.share().unwrap_or(0.0));
        for (who, ns) in &slot.culprits {
            *all.culprits.entry(*who).or_default() += ns * part;
        }
    }

    fn judge(self, length: f64, open: f64, allowed: f64) -> Judged {
        let share = |ns: f64| (ns / length).clamp(0.0, 1.0);
        let [least, likely, most] = [self.least_ns[0], self.likely_ns, self.most_ns].map(share);
        let least_likely = share(self.least_ns[1]);
        let Slot {
            waited_ns,
            stolen_ns,
            throttled_ns,
            queued_ns,
            held_ns,
            wanted_ns,
            life_ns,
            ref culprits,
            ..
        } = self.all;
        let of_wanted = |ns: f64| if wanted_ns > 0.0 { ns / wanted_ns } else { 0.0 };
        let held = if life_ns > 0.0 { held_ns / life_ns } else { 0.0 };
        let limit = allowed.max(resolution(length as u64));
        let is_watched = self.watched_ns >= WATCHED * length;
        let is_host_stolen = self.host_steal > limit;

        let unsure = match () {
            () if !is_watched => Some(Unsure::Unwatched),
            () if most <= allowed && held > allowed => Some(Unsure::Held),
            () if most <= allowed && is_host_stolen => Some(Unsure::Hypervisor),
            () if most <= allowed || least > limit => None,
            () if least_likely > limit => Some(Unsure::Spare),
            () if likely > limit => Some(Unsure::Place),
            () => Some(Unsure::Little),
        };
        let verdict = match unsure {
            Some(_) => Ruling::Unclear,
            None if most <= allowed => Ruling::Clean,
            None => Ruling::Disturbed,
        };

        let throttled = of_wanted(throttled_ns);
        let is_placed = open <= PLACED * length;
        let cause = match () {
            () if !is_watched => Cause::CannotTell(Unsure::Unwatched),
            () if least > STARVED && likely >= throttled => Cause::Starved,
            () if throttled > STARVED && is_placed => Cause::Throttled,
            () if throttled > STARVED => Cause::CannotTell(Unsure::Place),
            () if most > limit && least_likely > STARVED => Cause::CannotTell(Unsure::Spare),
            () if most > STARVED && likely > limit => Cause::CannotTell(Unsure::Place),
            () if most > limit => Cause::CannotTell(Unsure::Little),
            () if held > STARVED => Cause::CannotTell(Unsure::Held),
            () if is_host_stolen => Cause::CannotTell(Unsure::Hypervisor),
            () if of_wanted(queued_ns) > STARVED => Cause::CannotTell(Unsure::Siblings),
            () => Cause::NotStarved,
        };
        let most_of = culprits.iter().max_by(|a, b| a.1.total_cmp(b.1));
        let culprit = most_of.and_then(|(who, ns)| who.filter(|_| *ns > 0.0));
        Judged {
            verdict,
            unsure,
            cause,
            lost: [least, likely, most],
            waited_ns,
            stolen_ns,
            throttled_ns,
            culprit,
        }
    }
}
