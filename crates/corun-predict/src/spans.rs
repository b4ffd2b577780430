//! Was a stretch of a run disturbed, and was a test in it starved?
//!
//! Method. The run is kept slot by slot, and the loss of the whole run according to the one definition ([`crate::loss`]) is shared out among
//! its slots. If there is a run log, each slot first gets the time in which the program **stood still** in it: some of its tasks waited for
//! CPUs that co-runners held, and none was on a CPU. Nobody could go on then, whatever the program is. The rest of the run's loss is shared
//! out in proportion to the rest of the slots' losses according to their own ledgers. The loss of a stretch is the loss of its slots.
//!
//! Two things make that less than certain, and both are bounds, not guesses. A slot that reaches beyond the stretch may have lost all of its
//! time inside the stretch, or as much as possible outside of it. But it lost time only where its tasks waited, and for no longer than any of
//! them did; with a run log, that is known to a tenth of a millisecond ([`crate::waits`]). And a tool may not say exactly when the stretch
//! began. Then every possible place is tried. The stretch lost at most the loss at the worst place, and at least the loss at the best. If both are
//! on one side of the limit, the stretch is clean or disturbed. Otherwise it is unclear.
//!
//! No ledger has what the hypervisor took ([`crate::hypervisor`]). It is compared with the same limits, over the whole stretch and at the
//! worst place. A stretch whose CPUs were idle at times lost no more of its length than was taken. A stretch on several CPUs lost no larger
//! share than they did.
//!
//! Limits: all tasks of the command count for the stretch of a test case. So for tests that run at the same time, the answer is what they lost
//! together. For a single one of them, only this holds: if all tasks together were kept from CPUs for less than starves a test, no test was
//! starved ([`Parts::starved_nobody`]).

mod pieces;

use crate::alone::Hints;
use crate::definitions::NEARLY_ALL;
use crate::hypervisor::{spread, Told};
use crate::loss::{has_spare, without_sleepers, Loss, SLOT_NS};
use crate::ruling::{resolution, Ruling};
use crate::useful_work::Window;
use crate::waits::Waits;
use corun_model::{Observation, RunLog, TenantId};
use pieces::{Piece, Places};
use serde::Serialize;
use std::collections::BTreeMap;

/// Definition: a test that lost more than this share of its time was starved, and a test that lost less was not. It is a choice: nobody
/// knows how long the test takes alone. A time-out with less to spare than this was close to being missed anyway. If the least loss is
/// lower and the most is higher, nobody can tell.
pub const STARVED: f64 = 0.1;
/// Limit: places at which a stretch can have begun are tried at steps of this share of its length.
const CLOSE: f64 = 1.0 / 32.0;
/// Limit: at most this many are tried.
const MOST_PLACES: f64 = 256.0;
/// Definition: the beginning of a stretch must be known to this share of its length before its tasks' deeds in it are told.
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
    /// Something was lost, but nobody knows well enough when.
    Place,
    /// Something was stolen from its tasks, but nobody knows how much of that held it up.
    Part,
    /// The theft may have come out of its sleep.
    Spare,
    /// The loss is more than nothing and less than what starves.
    Little,
    /// Its tasks waited for CPUs that the command's own tasks held.
    Siblings,
    /// Somebody stopped or froze it.
    Held,
    /// The hypervisor took CPUs, and nobody knows what that cost.
    Hypervisor,
}

/// What kept a test from its CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// Others took so much that it explains a time-out or a race.
    Starved,
    /// Its own CPU quota stopped it.
    Throttled,
    /// Nothing of that kind: look for the cause in the test.
    NotStarved,
    /// Nobody can tell.
    CannotTell(Unsure),
}

/// The answer for a stretch.
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
    /// The part of that in which co-runners held them, or somebody unknown.
    pub stolen_ns: f64,
    /// How long its own quota stopped its tasks, summed.
    pub throttled_ns: f64,
    /// Who took most; `None`: nobody, or it is not known.
    pub culprit: Option<TenantId>,
}

/// A run whose parts can be judged.
#[derive(Clone, Debug)]
pub struct Parts<'a> {
    slots: &'a Slots,
    /// What has been seen since the last of them.
    last: Option<Slot>,
    /// What the hypervisor took in each, the last included.
    taken_ns: Vec<f64>,
    /// What each lost, the last included: at least, most likely, at most.
    lost_ns: Vec<[f64; 3]>,
    allowed: f64,
}

impl<'a> Parts<'a> {
    /// A run of these slots. It may lose the share `allowed`, and has lost this much in all.
    pub(crate) fn new(slots: &'a Slots, allowed: f64, lost_ns: f64) -> Parts<'a> {
        let last =
            Slots { window: slots.window.clone(), open: slots.open.clone(), ..Slots::default() }.close();
        let all = || slots.slots.iter().chain(&last);
        let taken_ns = spread(all().map(|slot| &slot.told));
        let lost_ns = shared_out(&all().collect::<Vec<_>>(), &slots.waits, lost_ns);
        Parts { slots, last, taken_ns, lost_ns, allowed }
    }

    /// The answer for a stretch of it that ended when its work was done, as an iteration does.
    pub fn judge(&self, span: &Span) -> Judged {
        self.judge_by(span, |n, _| self.lost_ns[n])
    }

    /// The same for a test case, which a time-out may have ended. The task that waits for a time-out sleeps, so the run took as long as it
    /// would have alone. But theft from tasks that never slept kept them from being done in time. Nobody knows this about any other
    /// theft.
    pub fn judge_test(&self, span: &Span) -> Judged {
        self.judge_by(span, |_, slot| slot.lost_by_test(&self.slots.waits))
    }

    /// Whether no test of a stretch can have been starved, whichever tasks were its own. Then everything that kept any task of the command
    /// from a CPU, in every slot that the stretch may reach into, is less than what starves a test of this length.
    pub fn starved_nobody(&self, span: &Span) -> bool {
        let (from, until) = (span.earliest_ns as f64, (span.latest_ns + span.length_ns) as f64);
        let all = self.slots.slots.iter().chain(&self.last).zip(&self.taken_ns);
        let reached = all.filter(|(slot, _)| slot.end_ns > from && slot.start_ns < until);
        let kept_ns: f64 = reached.map(|(slot, taken_ns)| slot.kept_ns() + taken_ns).sum();
        kept_ns <= STARVED * span.length_ns as f64
    }

    /// `lost_ns`: the loss of the n-th slot, at least, most likely and at most.
    fn judge_by(&self, span: &Span, lost_ns: impl Fn(usize, &Slot) -> [f64; 3]) -> Judged {
        let Slots { slots, waits, .. } = self.slots;
        let places = Places::of(span);
        let mut sums = Sums::new(&places);
        let first = slots.partition_point(|slot| slot.end_ns <= places.earliest);
        let all = slots.iter().chain(&self.last).zip(&self.taken_ns).enumerate();
        for (n, (slot, taken_ns)) in all.skip(first) {
            if slot.start_ns >= places.latest + places.length {
                break;
            }
            sums.add(&places, &Piece::new(slot, waits, lost_ns(n, slot)), *taken_ns);
        }
        sums.judge(&places, self.allowed)
    }
}

/// The slots' parts of the run's loss: at least, most likely and at most. Theft from tasks that had time to spare may have cost nothing.
fn shared_out(slots: &[&Slot], waits: &Waits, lost_ns: f64) -> Vec<[f64; 3]> {
    let still: Vec<f64> = slots.iter().map(|slot| slot.stood_still(waits)).collect();
    let all_still: f64 = still.iter().sum();
    // A run that stood still for longer than it lost made up for it, each slot as much as any other.
    let counted = if all_still > lost_ns { lost_ns / all_still } else { 1.0 };
    let beyond: Vec<f64> =
        slots.iter().zip(&still).map(|(slot, still)| (slot.lost_ns - still).max(0.0)).collect();
    let all_beyond: f64 = beyond.iter().sum();
    let each_beyond = if all_beyond > 0.0 { (lost_ns - all_still).max(0.0) / all_beyond } else { 0.0 };
    let lost = |((slot, still), beyond): ((&&Slot, &f64), &f64)| {
        let likely = still * counted + beyond * each_beyond;
        [(likely - slot.spared_ns).max(0.0), likely, likely]
    };
    slots.iter().zip(&still).zip(&beyond).map(lost).collect()
}

/// A run, slot by slot.
#[derive(Clone, Debug, Default)]
pub(crate) struct Slots {
    slots: Vec<Slot>,
    waits: Waits,
    window: Window,
    open: Slot,
}

/// The data of a slot, in nanoseconds, summed over its tasks.
#[derive(Clone, Debug, Default)]
struct Slot {
    start_ns: f64,
    end_ns: f64,
    /// Most likely lost, according to its own ledger.
    lost_ns: f64,
    /// Stolen from tasks that had time to spare.
    spared_ns: f64,
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
    /// What the hypervisor took.
    told: Told,
    culprits: BTreeMap<Option<TenantId>, f64>,
}

impl Slot {
    /// How long the program stood still in it at least, since co-runners held the CPUs that its tasks waited for. If the log misses a
    /// switch, a running task looks as if it waited. The ledger says how long tasks waited at most.
    fn stood_still(&self, waits: &Waits) -> f64 {
        let (from, until) = waits.known(self.start_ns, self.end_ns);
        (waits.stood_still(from, until).min(self.kept_ns()) - self.excused_ns).max(0.0)
    }

    /// What tests lost in it. A shell computes next to nothing, so ledgers tell little about theft from it. But while it waits and nothing
    /// else runs, its test stands still.
    fn lost_by_test(&self, waits: &Waits) -> [f64; 3] {
        let still_ns = self.stood_still(waits);
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
            excused_ns: (waits_ns - stolen_or_queued_ns).max(0.0) + (total.own_ns - total.slack_ns).max(0.0),
            start_ns: window.start_ns as f64,
            end_ns: window.end_ns as f64,
            lost_ns: Loss::of(&window, Hints::default()).lost_ns[1].max(0.0),
            spared_ns: window.all().filter(|s| has_spare(s)).map(|s| s.stolen_ns).sum(),
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

    const MS: f64 = 1e6;

    /// Slots of 100 ms, in each of which the only task waited for so long at first, and lost so much by its ledger; and what is shared
    /// out to them of what the run lost, in milliseconds.
    fn shared(slots_ms: &[(f64, f64, f64)], lost_ms: f64) -> Vec<[f64; 3]> {
        let mut waits = Waits::default();
        let (mut slots, mut events) = (Vec::new(), Vec::new());
        for (n, &(still, by_ledger, spared)) in slots_ms.iter().enumerate() {
            let start_ns = n as f64 * 100.0 * MS;
            let at = |ns: f64, what| Event { t_ns: ns as u64, task: TaskId(1), what };
            let runs = What::Runs { cpu: CpuId(0), may: CpuMask::ALL };
            events.extend([at(start_ns, What::Leaves(Left::Preempted)), at(start_ns + still * MS, runs)]);
            slots.push(Slot {
                start_ns,
                end_ns: start_ns + 100.0 * MS,
                lost_ns: by_ledger * MS,
                spared_ns: spared * MS,
                waited_ns: still * MS,
                ..Slot::default()
            });
        }
        let end_ns = slots.len() as u64 * 100 * MS as u64;
        waits.push(&RunLog { end_ns, events, ..RunLog::default() });
        let slots: Vec<&Slot> = slots.iter().collect();
        let shared = shared_out(&slots, &waits, lost_ms * MS);
        shared.into_iter().map(|slot| slot.map(|ns| (ns / MS).round())).collect()
    }

    #[test]
    fn a_slot_loses_what_it_stood_still_for_whatever_its_ledger_makes_of_its_tasks() {
        let none = [0.0; 3];
        let all = |ms: f64| [ms; 3];
        assert_eq!(shared(&[(26.0, 2.0, 0.0), (0.0, 0.0, 0.0)], 26.0), [all(26.0), none]);
        // The run lost more than it stood still: the rest was lost where ledgers say so.
        assert_eq!(shared(&[(26.0, 2.0, 0.0), (10.0, 40.0, 0.0)], 50.0), [all(26.0), all(24.0)]);
        // It made up for a part, in its sleep or since its quota would have stopped it.
        assert_eq!(shared(&[(40.0, 40.0, 0.0), (20.0, 20.0, 0.0)], 30.0), [all(20.0), all(10.0)]);
        assert_eq!(shared(&[(40.0, 40.0, 30.0)], 40.0), [[10.0, 40.0, 40.0]], "it had time to spare");
        assert_eq!(shared(&[(0.0, 0.0, 0.0)], 0.0), [none]);
    }
}
