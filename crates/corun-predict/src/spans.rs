//! Was a stretch of a run disturbed, and was a test in it starved?
//!
//! Method. The run is kept slot by slot, each with what it lost by the one definition ([`crate::loss`]); whatever the whole run
//! lost less than its slots together, each of them lost less in proportion. A stretch has lost what its slots have.
//!
//! Two things make that less than certain, and both are bounds, not guesses. A slot that reaches beyond the stretch may have
//! lost all of its time inside of it, or as much as possible outside: but nowhere except where its tasks waited, which is known to
//! a tenth of a millisecond where a run log is kept ([`crate::waits`]), and for no longer than any of them did. And a tool may not
//! say exactly when the stretch began: then every place is tried at which it can have been, and it has lost at most what it lost at
//! the worst of them and at least what it lost at the best. What lies on one side of what is allowed by both is clean or disturbed;
//! anything else is unclear.
//!
//! What the hypervisor took is in no ledger ([`crate::hypervisor`]). It is held against the same limits, over the whole stretch and at
//! the worst place. A stretch whose CPUs were idle at times lost no more of its length than was taken; one on several CPUs
//! no larger share than they did.
//!
//! Limits: the stretch of a test case is judged by all tasks of the command, so of tests that run at a time it says what they
//! lost together. Of one of them only this holds: where all tasks together were kept from CPUs for less than starves a test, no
//! test was starved ([`Parts::starved_nobody`]).

use crate::alone::Hints;
use crate::definitions::NEARLY_ALL;
use crate::hypervisor::{spread, Told};
use crate::loss::{without_sleepers, Loss, SLOT_NS};
use crate::ruling::{resolution, Ruling};
use crate::useful_work::Window;
use crate::waits::Waits;
use corun_model::{Observation, RunLog, TenantId};
use serde::Serialize;
use std::collections::BTreeMap;

/// Definition: whoever lost more than this share of its time was starved, and whoever lost less was not. It is a choice: nobody knows how
/// long the test takes alone. A time-out with less to spare than this was close to being missed anyway. Nobody can tell of
/// whoever lost at least less and at most more.
pub const STARVED: f64 = 0.1;
/// Limit: places at which a stretch can have begun are tried at steps of this share of its length.
const CLOSE: f64 = 1.0 / 32.0;
/// Limit: so many are tried at most.
const MOST_PLACES: f64 = 256.0;
/// Definition: where a stretch can have begun must be known to this share of its length before what its tasks did in it is told.
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
    /// Something was stolen from its tasks, but how much of that held it up is not known.
    Part,
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
#[derive(Clone, Debug)]
pub struct Parts<'a> {
    slots: &'a Slots,
    /// What has been seen since the last of them.
    last: Option<Slot>,
    /// What the hypervisor took in each, the last included.
    taken_ns: Vec<f64>,
    allowed: f64,
    kept: f64,
}

impl<'a> Parts<'a> {
    /// A run of these slots, of which `allowed` may be lost. `kept` is the share of what its slots lost that the whole run has
    /// lost.
    pub(crate) fn new(slots: &'a Slots, allowed: f64, kept: f64) -> Parts<'a> {
        let last =
            Slots { window: slots.window.clone(), open: slots.open.clone(), ..Slots::default() }.close();
        let taken_ns = spread(slots.slots.iter().chain(&last).map(|slot| &slot.told));
        Parts { slots, last, taken_ns, allowed, kept }
    }

    /// What is said of a stretch of it that ended when its work was done, as an iteration does.
    pub fn judge(&self, span: &Span) -> Judged {
        let lost_ns = |slot: &Slot| {
            let [least, likely, _] = slot.lost_ns.map(|ns| ns * self.kept);
            [least, likely, likely]
        };
        self.judge_by(span, lost_ns)
    }

    /// The same of a test case, which a time-out may have ended. Whoever waits for that sleeps, and so the run took as long as it
    /// would have alone. But what was stolen from tasks that never slept kept them from being through in time; of all else that was
    /// stolen it is not known.
    pub fn judge_test(&self, span: &Span) -> Judged {
        self.judge_by(span, |slot| slot.lost_by_test(&self.slots.waits))
    }

    /// Whether no test of a stretch can have been starved, whichever tasks were its own: all that kept any task of the command from a
    /// CPU, in every slot that the stretch may reach into, is less than what starves a test of this length.
    pub fn starved_nobody(&self, span: &Span) -> bool {
        let (from, until) = (span.earliest_ns as f64, (span.latest_ns + span.length_ns) as f64);
        let all = self.slots.slots.iter().chain(&self.last).zip(&self.taken_ns);
        let reached = all.filter(|(slot, _)| slot.end_ns > from && slot.start_ns < until);
        let kept_ns: f64 = reached.map(|(slot, taken_ns)| slot.kept_ns() + taken_ns).sum();
        kept_ns <= STARVED * span.length_ns as f64
    }

    /// `lost_ns`: what a slot lost at least, most likely and at most.
    fn judge_by(&self, span: &Span, lost_ns: impl Fn(&Slot) -> [f64; 3]) -> Judged {
        let Slots { slots, waits, .. } = self.slots;
        let places = Places::of(span);
        let mut sums = Sums::new(&places);
        let first = slots.partition_point(|slot| slot.end_ns <= places.earliest);
        for (slot, taken_ns) in slots.iter().chain(&self.last).zip(&self.taken_ns).skip(first) {
            if slot.start_ns >= places.latest + places.length {
                break;
            }
            sums.add(&places, &Piece::new(slot, waits, lost_ns(slot)), *taken_ns);
        }
        sums.judge(&places, self.allowed)
    }
}

/// A run, slot by slot.
#[derive(Clone, Debug, Default)]
pub(crate) struct Slots {
    slots: Vec<Slot>,
    waits: Waits,
    window: Window,
    open: Slot,
}

/// What is kept of a slot, in nanoseconds: of its tasks, summed.
#[derive(Clone, Debug, Default)]
struct Slot {
    start_ns: f64,
    end_ns: f64,
    lost_ns: [f64; 3],
    /// Lost by tasks that never slept, at least and most likely; and stolen from all.
    lost_by_test_ns: [f64; 3],
    /// How long the program can have stood still for other reasons than that tasks that never slept were stolen from.
    excused_ns: f64,
    waited_ns: f64,
    queued_ns: f64,
    stolen_ns: f64,
    throttled_ns: f64,
    held_ns: f64,
    /// On a CPU, or waiting for one.
    wanted_ns: f64,
    life_ns: f64,
    /// What was told of the hypervisor.
    told: Told,
    culprits: BTreeMap<Option<TenantId>, f64>,
}

impl Slot {
    /// What tests lost in it. A shell computes next to nothing, so of what was stolen from it their ledgers tell little; but while it
    /// waits and nothing else runs, its test stands still. Of a switch that nobody told of the log knows nothing, and there a task that
    /// runs looks as if it waited; its ledger says how long tasks did at most.
    fn lost_by_test(&self, waits: &Waits) -> [f64; 3] {
        let (from, until) = waits.known(self.start_ns, self.end_ns);
        let still_ns = waits.stood_still(from, until).min(self.kept_ns()) - self.excused_ns;
        self.lost_by_test_ns.map(|ns| ns.max(still_ns))
    }

    /// How long its tasks were kept from CPUs, summed, whoever did it.
    fn kept_ns(&self) -> f64 {
        self.waited_ns + self.throttled_ns + self.held_ns
    }
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
        self.open.told.add(seen, &window.reach.all());
        if self.window.wall_ns >= SLOT_NS as f64 {
            let closed = self.close();
            self.slots.extend(closed);
        }
    }

    /// What has been seen since the last slot.
    fn close(&mut self) -> Option<Slot> {
        let (window, open) = (std::mem::take(&mut self.window), std::mem::take(&mut self.open));
        let total = window.total();
        let awake = without_sleepers(&window);
        let [least, likely, _] = Loss::of(&awake, Hints::default()).lost_ns;
        // Nobody queues behind a sibling while none runs. A device works on while tasks wait.
        let stolen_or_queued_ns = awake.total().stolen_ns + total.queued_ns;
        let waits_ns = open.waited_ns + total.throttled_ns + open.held_ns;
        (window.end_ns > window.start_ns).then(|| Slot {
            lost_by_test_ns: [least, likely, total.stolen_ns.max(likely)].map(|ns| ns.max(0.0)),
            excused_ns: (waits_ns - stolen_or_queued_ns).max(0.0) + total.own_ns - total.slack_ns,
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

    /// Takes what its tasks did, event by event.
    pub fn push_log(&mut self, log: &RunLog) {
        self.waits.push(log);
    }
}

/// The places at which a stretch can have been: beginnings that follow each other at even steps.
#[derive(Clone, Copy, Debug)]
struct Places {
    earliest: f64,
    latest: f64,
    length: f64,
    count: usize,
    step: f64,
}

impl Places {
    fn of(span: &Span) -> Places {
        let (earliest, latest) = (span.earliest_ns as f64, span.latest_ns.max(span.earliest_ns) as f64);
        let length = span.length_ns.max(1) as f64;
        let count = ((latest - earliest) / (length * CLOSE)).ceil().clamp(1.0, MOST_PLACES) as usize;
        Places { earliest, latest, length, count, step: (latest - earliest) / count as f64 }
    }

    /// The places from which a stretch can reach into a slot.
    fn reaching(&self, slot: &Slot) -> std::ops::Range<usize> {
        if self.step <= 0.0 {
            return 0..1;
        }
        let place = |ns: f64| ((ns - self.earliest) / self.step).clamp(0.0, self.count as f64);
        let from = place(slot.start_ns - self.length - self.step).floor() as usize;
        from..place(slot.end_ns).ceil() as usize
    }

    /// Where a stretch can have been that began at a place or before the next.
    fn somewhere(&self, place: usize) -> (f64, f64) {
        let from = self.earliest + place as f64 * self.step;
        (from, from + self.step + self.length)
    }

    /// Where it certainly was.
    fn certainly(&self, place: usize) -> (f64, f64) {
        let (from, until) = self.somewhere(place);
        (from + self.step, until - self.step)
    }

    /// Where it most likely was.
    fn likely(&self, place: usize) -> (f64, f64) {
        let (from, until) = self.somewhere(place);
        (from + self.step / 2.0, until - self.step / 2.0)
    }
}

/// A slot, and when in it something can have been lost.
struct Piece<'a> {
    slot: &'a Slot,
    waits: &'a Waits,
    lost_ns: [f64; 3],
    /// The part of it in which waits are known.
    known: (f64, f64),
    /// How long its tasks waited in that.
    waited_ns: f64,
}

impl<'a> Piece<'a> {
    fn new(slot: &'a Slot, waits: &'a Waits, lost_ns: [f64; 3]) -> Piece<'a> {
        let (from, until) = waits.known(slot.start_ns, slot.end_ns);
        let waited_ns = waits.within(from, until);
        // Without a wait it is not known when anything was lost.
        let known = if waited_ns > 0.0 && slot.stolen_ns > 0.0 { (from, until) } else { (from, from) };
        let piece = Piece { slot, waits, lost_ns, known, waited_ns };
        let room = piece.room((slot.start_ns, slot.end_ns));
        Piece { lost_ns: lost_ns.map(|ns| ns.min(room)), ..piece }
    }

    /// How much of a stretch is in it, and how long tasks waited in that, as far as it is known.
    fn within(&self, (from, until): (f64, f64)) -> (f64, f64) {
        let length = (until.min(self.slot.end_ns) - from.max(self.slot.start_ns)).max(0.0);
        let (from, until) = (from.max(self.known.0), until.min(self.known.1));
        let waited = if from < until { self.waits.within(from, until) } else { 0.0 };
        (length, waited)
    }

    /// How much of its time a stretch can have lost in it at most, whatever was stolen.
    fn room(&self, stretch: (f64, f64)) -> f64 {
        let (from, until) = (stretch.0.max(self.known.0), stretch.1.min(self.known.1));
        self.unknown(stretch) + if from < until { self.waits.anybody(from, until) } else { 0.0 }
    }

    /// How much of a stretch is in the part of it where waits are not known.
    fn unknown(&self, stretch: (f64, f64)) -> f64 {
        let known = (stretch.1.min(self.known.1) - stretch.0.max(self.known.0)).max(0.0);
        self.within(stretch).0 - known
    }

    /// What can have been lost in these stretches, of all that was: what was stolen is in waits, and where they are not known it may
    /// be anywhere. What there is no room for in the rest of the slot was lost here.
    fn most(&self, lost_ns: f64, stretches: &[(f64, f64)]) -> f64 {
        let (mut most, mut room) = (0.0, 0.0);
        for stretch in stretches {
            let (_, waited) = self.within(*stretch);
            room += self.room(*stretch);
            most += self.unknown(*stretch);
            if waited > 0.0 {
                most += lost_ns * waited / self.slot.stolen_ns.min(self.waited_ns);
            }
        }
        let room_of_rest = self.room((self.slot.start_ns, self.slot.end_ns)) - room;
        most.max(lost_ns - room_of_rest).min(room).min(lost_ns)
    }

    /// What must have been lost in a stretch: the rest has no room for it.
    fn least(&self, lost_ns: f64, (from, until): (f64, f64)) -> f64 {
        if from >= until {
            return 0.0;
        }
        let rest = [(self.slot.start_ns, from), (until, self.slot.end_ns)];
        (lost_ns - self.most(lost_ns, &rest)).max(0.0)
    }

    /// The share of its time that is in a stretch, and the share of its waits.
    fn parts(&self, stretch: (f64, f64)) -> [f64; 2] {
        let (length, waited) = self.within(stretch);
        let of_time = length / (self.slot.end_ns - self.slot.start_ns);
        let is_known = self.known == (self.slot.start_ns, self.slot.end_ns);
        [of_time, if is_known { waited / self.waited_ns } else { of_time }]
    }
}

/// What the slots of a stretch come to.
struct Sums {
    watched_ns: f64,
    /// Lost at each place: at least by what is least, at least by what is likely of each slot, and at most.
    lost_ns: Vec<[f64; 3]>,
    likely_ns: f64,
    all: Slot,
    /// What the hypervisor took at each place at most, and how long the CPUs were busy.
    hypervisor_ns: Vec<[f64; 2]>,
}

impl Sums {
    fn new(places: &Places) -> Sums {
        Sums {
            watched_ns: 0.0,
            lost_ns: vec![[0.0; 3]; places.count],
            likely_ns: 0.0,
            all: Slot::default(),
            hypervisor_ns: vec![[0.0; 2]; places.count],
        }
    }

    fn add(&mut self, places: &Places, piece: &Piece, taken_ns: f64) {
        let slot = piece.slot;
        let [least, likely, most] = piece.lost_ns;
        let mut parts = [0.0; 2];
        for place in places.reaching(slot) {
            let of_place = piece.parts(places.likely(place));
            (0..2).for_each(|i| parts[i] += of_place[i] / places.count as f64);
            if taken_ns > 0.0 {
                let somewhere = piece.within(places.somewhere(place)).0 / (slot.end_ns - slot.start_ns);
                self.hypervisor_ns[place][0] += taken_ns.min(slot.told.busy_ns * somewhere);
            }
            self.hypervisor_ns[place][1] += slot.told.busy_ns * of_place[0];
            if most > 0.0 {
                let certainly = places.certainly(place);
                let sums = &mut self.lost_ns[place];
                sums[0] += piece.least(least, certainly);
                sums[1] += piece.least(likely, certainly);
                sums[2] += piece.most(most, &[places.somewhere(place)]);
            }
        }
        let [of_time, of_waits] = parts;
        self.watched_ns += (slot.end_ns - slot.start_ns) * of_time;
        self.likely_ns += likely * of_waits;
        let all = &mut self.all;
        all.waited_ns += slot.waited_ns * of_waits;
        all.queued_ns += slot.queued_ns * of_waits;
        all.stolen_ns += slot.stolen_ns * of_waits;
        all.throttled_ns += slot.throttled_ns * of_waits;
        all.held_ns += slot.held_ns * of_time;
        all.wanted_ns += slot.wanted_ns * of_time;
        all.life_ns += slot.life_ns * of_time;
        for (who, ns) in &slot.culprits {
            *all.culprits.entry(*who).or_default() += ns * of_waits;
        }
    }

    fn judge(self, places: &Places, allowed: f64) -> Judged {
        let (length, open) = (places.length, places.latest - places.earliest);
        let share = |ns: f64| (ns / length).clamp(0.0, 1.0);
        let over = |i: usize| self.lost_ns.iter().map(move |sums| sums[i]);
        let best = |i: usize| share(over(i).fold(f64::INFINITY, f64::min));
        let (least, least_likely) = (best(0), best(1));
        let most = share(over(2).fold(0.0, f64::max));
        let likely = share(self.likely_ns).clamp(least_likely.min(most), most);
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
        let is_watched = self.watched_ns >= NEARLY_ALL * length;
        let by_hypervisor = |[taken_ns, busy_ns]: &[f64; 2]| taken_ns / busy_ns.max(length);
        let hypervisor = self.hypervisor_ns.iter().map(by_hypervisor).fold(0.0, f64::max);

        let unsure = match () {
            () if !is_watched => Some(Unsure::Unwatched),
            () if most <= allowed && held > allowed => Some(Unsure::Held),
            () if most <= allowed && hypervisor > limit => Some(Unsure::Hypervisor),
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
            () if most > STARVED && likely > limit && open > CLOSE * length => {
                Cause::CannotTell(Unsure::Place)
            }
            () if most > STARVED && likely > limit => Cause::CannotTell(Unsure::Part),
            () if most > STARVED => Cause::CannotTell(Unsure::Spare),
            () if held > STARVED => Cause::CannotTell(Unsure::Held),
            () if hypervisor > STARVED => Cause::CannotTell(Unsure::Hypervisor),
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

#[cfg(test)]
mod tests {
    use super::*;
    use corun_model::run_log::{CpuMask, Event, Left, What};
    use corun_model::{CpuId, TaskId};

    #[test]
    fn tasks_that_wait_side_by_side_take_nothing_from_the_test_after_them() {
        const MS: f64 = 1e6;
        let at = |ms: f64, task, what| Event { t_ns: (ms * MS) as u64, task: TaskId(task), what };
        let runs = What::Runs { cpu: CpuId(0), may: CpuMask::ALL };
        let waits_until = |ms: f64, task| {
            [at(0.0, task, runs), at(0.0, task, What::Leaves(Left::Preempted)), at(ms, task, runs)]
        };
        let mut events = [waits_until(40.0, 1), waits_until(40.0, 2)].concat();
        events.sort_by_key(|event| event.t_ns);
        let mut waits = Waits::default();
        waits.push(&RunLog { end_ns: (100.0 * MS) as u64, events, ..RunLog::default() });
        let slot = Slot { end_ns: 100.0 * MS, stolen_ns: 60.0 * MS, ..Slot::default() };
        let piece = Piece::new(&slot, &waits, [60.0 * MS; 3]);
        let [least, ..] = piece.lost_ns;
        assert_eq!(least, 40.0 * MS, "no more than any of them waited");
        assert_eq!(piece.least(least, (40.0 * MS, 100.0 * MS)), 0.0);
        assert_eq!(piece.least(least, (0.0, 40.0 * MS)), 40.0 * MS);
        assert_eq!(piece.most(least, &[(40.0 * MS, 100.0 * MS)]), 0.0);
    }

    #[test]
    fn what_a_stretch_lost_at_least_is_no_more_than_what_it_lost_at_most() {
        const MS: f64 = 1e6;
        let at = |ms: f64, task, what| Event { t_ns: (ms * MS) as u64, task: TaskId(task), what };
        let runs = What::Runs { cpu: CpuId(0), may: CpuMask::ALL };
        let left = What::Leaves(Left::Preempted);
        // One task waits for 10 ms alone, and then two side by side for 50 ms.
        let events = vec![
            at(0.0, 1, left),
            at(10.0, 1, runs),
            at(20.0, 1, left),
            at(20.0, 2, left),
            at(70.0, 1, runs),
            at(70.0, 2, runs),
        ];
        let mut waits = Waits::default();
        waits.push(&RunLog { end_ns: (100.0 * MS) as u64, events, ..RunLog::default() });
        let slot = Slot { end_ns: 100.0 * MS, stolen_ns: 110.0 * MS, ..Slot::default() };
        let piece = Piece::new(&slot, &waits, [60.0 * MS; 3]);
        for stretch in [(0.0, 15.0), (0.0, 45.0), (15.0, 45.0), (15.0, 100.0)] {
            let stretch = (stretch.0 * MS, stretch.1 * MS);
            let (least, most) = (piece.least(60.0 * MS, stretch), piece.most(60.0 * MS, &[stretch]));
            assert!(least <= most + 1.0, "{stretch:?}: {least} to {most}");
        }
        assert_eq!(
            piece.most(60.0 * MS, &[(0.0, 15.0 * MS)]).round(),
            10.0 * MS,
            "the rest has room for 50 ms"
        );
    }
}
