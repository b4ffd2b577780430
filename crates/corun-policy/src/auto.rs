//! `auto`: separates tenants in time when, and only when, that is seen to help. corun's own; nobody tells it what the
//! programs are.
//!
//! The papers' slots (gang scheduling, Controlled Contention) help programs whose threads wait for each other and hurt
//! those that wait for something else. Which is which is not guessed but tried:
//!
//! 1. **Watch**, with nobody parked: how much useful CPU time does each tenant get? (On a CPU and not known to spin.) The
//!    first two slots of a newcomer do not count: programs begin otherwise than they go on.
//! 2. **Try**, when tenants compete for more CPUs than there are and one of them, whose tasks may wait for each other or which
//!    the kernel leaves out (less than a third of its fair share for a second), gets less than its fair share: slots for two
//!    rotations. Those who lack nothing by sharing have theirs together, the others as in Controlled Contention with one
//!    CPU-bound task per CPU. The first goes to who has the least of its share.
//! 3. **Judge** (`trial.rs`): a gain is kept as soon as chance would hardly make it: a large one at once (after the first,
//!    short watch: only a very large one), a small one after some rounds. A round in which somebody nearly has what it is
//!    entitled to goes on for longer. What is not clear is watched and tried again, up to five rounds, and the medians
//!    decide. Who falls behind those it shares slots with has its own from then on, and the round begins again.
//! 4. **Keep** the slots where somebody gains whom they are for (its tasks may wait for each other, and it lacks its fair
//!    share without), all tenants together gain (the geometric mean rises of what they do, or of what they do up to their
//!    fair shares) and nobody falls below what it is entitled to: its fair share, or what it had without slots where that was
//!    less, but for 5 %. Everybody is dealt the same part of the slots; who does less in all of them and would fall below is dealt
//!    more (`trial/parts.rs`), and who had more than its fair share of CPU time while everybody shared gives that back, slot
//!    by slot, to those who had less, and what those whom slots are for lose otherwise all make up for, slowly (`dues.rs`):
//!    what is fair is so over all of the time. (Fair: CPU time by weights, or the part by which everybody would be slowed
//!    down alike, whichever is less.) Where nobody can tell spinning, CPU time shows no gain for a program that waits busily;
//!    slots are then also kept when they cost nobody anything (nor all together, nor who is known to wait what it had beyond
//!    its share) and such a program may be there: several tasks that hardly ever block and are often stolen from.
//! 5. Otherwise **revert**. Who fell below because it waits for something else than a CPU is left alone from then on, and
//!    the rest is tried without it.
//!
//! Tenants that mostly wait for the outside in short bursts (servers) are not parked as long as they take no more than their
//! fair share (`exempt.rs`). Who comes, goes or changes while slots are kept is taken in without a question (`kept.rs`).
//! What was found holds for 1 s, since programs begin otherwise than they go on, but as long as it took to find (kept
//! slots: ten times as long) at least; then twice as long each time it is found again, up to 5 min (or as long as that,
//! where it took so long to find). Slots that leave nothing to others and no CPU idle go on without a question: everybody
//! has its fair share. While nobody is parked it is asked at once when somebody comes to have less than half of what it had
//! when slots were tried (`rest.rs`), and, but not twice in a second, when a tenant comes that has not been tried or one of
//! those that were goes. What was found of kept slots counts as much as what is seen when they are
//! asked about, since threads are in step for a while after slots; the first slot after them is not looked at, since who was
//! parked is owed CPU time.
//!
//! Limits: the first watch has one slot for two tenants, so a program that changes faster than that is judged by chance;
//! where many wait for each other by turns, it may take seconds until slots are kept.

use crate::census::{self, Census, TenantUse};
use crate::gang::{epoch_of, SLOT};
use crate::options::{Kind, OptionSpec, Values};
use crate::slots::{Member, Slots};
use crate::trial::{Rates, Trial, Waits, LACKS_PERCENT};
use corun_model::reason::{Release, Rule, Then};
use corun_model::{Decision, Knob, Machine, Observation, Policy, TenantId};
use dues::{lost_in_slot_ns, Dues};
use exempt::Exempt;
use known::Everybody;
use together::together;
use use_so_far::UseSoFar;
use watch::Watch;

mod dues;
mod exempt;
mod kept;
mod known;
mod reasons;
mod rest;
mod together;
mod use_so_far;
mod watch;

pub(crate) const OPTIONS: &[OptionSpec] = &[
    SLOT,
    OptionSpec {
        name: "spin",
        default: "true",
        kind: Kind::Flag,
        words: &[],
        about: "use what the host knows of spinning; false: judge by CPU time alone",
    },
    OptionSpec {
        name: "hold",
        default: "1s",
        kind: Kind::Time { least_ns: 100_000_000, most_ns: 3_600_000_000_000 },
        words: &[],
        about: "how long a finding holds at first; then twice as long each time, up to 5 min",
    },
];

const LONGEST_HOLD_NS: u64 = 300_000_000_000;
/// A finding holds for as long as it took at least, since with many tenants a question has many slots; kept slots for so
/// many times as long: who is left to starve loses more than who is in slots in vain.
const KEEP_TIMES: u64 = 10;
/// It is not asked again more often than this.
const CALM_NS: u64 = 1_000_000_000;
/// A first watch of one slot is enough for somebody who has less than this part of its fair share, in hundredths.
const STARVES_PERCENT: u64 = 75;
/// Epochs until it looks again while nobody competes, or what was found holds with nobody parked: no newcomer comes too late.
const IDLE_EPOCHS: u64 = 2 * BEGINNING_SLOTS;
/// Slots for which a newcomer is not looked at.
const BEGINNING_SLOTS: u64 = 2;
/// Who is not seen for longer than this has gone.
const GONE_SLOTS: u64 = 4;
/// Slots that a watch lasts before it looks at smaller losses.
const WATCH_SLOTS: u64 = 4;
/// Of a round.
const ROTATIONS: u64 = 2;
const MOST_ROUNDS: usize = 5;
/// A round in which everybody nearly has what it is entitled to, to so many thousandths, goes on for longer.
const NEARLY_MILLI: u64 = 800;
/// What slots may cost of what a tenant is entitled to, in thousandths.
const TOLERANCE_MILLI: u64 = 50;
/// What all must gain: after the first round, and when all rounds are in or slots were kept before. Less than the latter
/// ends a trial after the second round.
const CLEAR_GAIN_MILLI: i64 = 50;
const LEAST_GAIN_MILLI: i64 = 20;
/// Kept slots that leave less of the machine idle than this, in thousandths, are not asked about: whoever uses all of its own
/// has its fair share by them, and what everybody would do without is not worth making everybody share.
const IDLE_MILLI: u64 = 20;
/// What who is helped must gain after each round. The first watch is one in which somebody had little, and in so short a time
/// chance gives x264 anything from three quarters to all of its share; later watches are not chosen, and medians decide.
const HELPED_MILLI: [i64; MOST_ROUNDS] = [300, 300, 150, 100, CLEAR_GAIN_MILLI];
/// After a short watch, what who is helped must gain: as much as who has less than half gains by having its share. Less
/// may be that it just had little: x264, which has 88 % of its share, was seen with 68 % and then with 140 % of that.
const SURE_GAIN_MILLI: i64 = 1_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The first slot after slots, in which who was parked gets what it is owed; then it is watched.
    Settle {
        slots: u64,
    },
    Watch {
        slots: u64,
    },
    Try,
    Keep {
        until_ns: u64,
    },
    Rest {
        until_ns: u64,
    },
}

/// Separation in time where it helps.
#[derive(Debug)]
pub struct Auto {
    census: Census,
    slots: Slots,
    slot_ns: u64,
    /// Epochs in a slot, as long as they are here, and for how many it asked to wait last.
    slot_epochs: u64,
    waited_epochs: u64,
    use_spin: bool,
    first_hold_ns: u64,
    hold_ns: u64,
    /// What was found last: to keep the slots, or not.
    keeps: bool,
    phase: Phase,
    since_ns: Option<u64>,
    /// When the present question was raised, and when the last one was answered.
    raised_ns: Option<u64>,
    asked_ns: u64,
    dues: Dues,
    exempt: Exempt,
    /// It is asked about slots that were kept.
    was_kept: bool,
    /// The watch before this round was a short one.
    glimpsed: bool,
    /// What everybody did since somebody was last parked or the question began.
    watched: Watch,
    /// While slots are kept: what those who share one do in it, since it was last looked at, and what those do who have none.
    sharing: Watch,
    free: Watch,
    /// Since slots are kept, somebody has come, gone or been given slots of its own.
    regrouped: bool,
    /// CPU time that nobody took since slots are kept or it was last looked at, and how long that is.
    idle_ns: u64,
    kept_ns: u64,
    trial: Trial,
    /// Somebody may spin unseen.
    hidden: bool,
    /// There are tenants that want more CPUs than there are.
    competing: bool,
    everybody: Everybody,
    /// What part of its fair share, in hundredths, who lacked most had when slots were tried last.
    tried_percent: u64,
    /// Whom the slots are for.
    members: Vec<TenantId>,
    why: Rule,
}

impl Auto {
    pub(crate) fn new(values: &Values) -> Auto {
        let number = |name| values.number(name).expect("no words");
        let slot_ns = number("slot");
        Auto {
            census: Census::new(values.scope.clone(), 20),
            slots: Slots::unaged(slot_ns),
            slot_ns,
            slot_epochs: 1,
            waited_epochs: 1,
            use_spin: number("spin") == 1,
            first_hold_ns: number("hold"),
            hold_ns: number("hold"),
            keeps: false,
            phase: Phase::Watch { slots: 1 },
            since_ns: None,
            raised_ns: None,
            asked_ns: 0,
            dues: Dues::default(),
            exempt: Exempt::default(),
            was_kept: false,
            glimpsed: false,
            watched: Watch::default(),
            sharing: Watch::default(),
            free: Watch::default(),
            regrouped: false,
            idle_ns: 0,
            kept_ns: 0,
            trial: Trial::default(),
            hidden: false,
            competing: false,
            everybody: Everybody::default(),
            tried_percent: 0,
            members: Vec::new(),
            why: Rule::Single,
        }
    }

    /// Everybody shares, to be watched for so many slots at least.
    fn watch(&mut self, seen: &Observation, slots: u64, why: Release) -> Vec<Decision> {
        let was_shared = matches!(self.phase, Phase::Settle { .. } | Phase::Watch { .. });
        if !was_shared {
            self.dues.share_from(seen.end_ns);
        }
        self.phase = match self.phase {
            Phase::Try | Phase::Keep { .. } => Phase::Settle { slots },
            _ => Phase::Watch { slots },
        };
        self.look_afresh();
        self.slots.stop(why)
    }

    /// What was seen until now is not looked at.
    fn look_afresh(&mut self) {
        (self.watched, self.since_ns) = (Watch::default(), None);
    }

    /// Everybody shares, and all evidence is forgotten.
    fn ask(&mut self, seen: &Observation, why: Release) -> Vec<Decision> {
        self.ask_for(seen, 1, why)
    }

    /// The same, to be watched for so many slots at least.
    fn ask_for(&mut self, seen: &Observation, slots: u64, why: Release) -> Vec<Decision> {
        self.trial = Trial::default();
        (self.was_kept, self.raised_ns) = (false, None);
        self.members.clear();
        let decisions = self.watch(seen, slots, why);
        self.dues.share_from(seen.end_ns);
        decisions
    }

    /// Until when a finding holds: for longer each time it is the same.
    fn hold_until_ns(&mut self, seen: &Observation, keeps: bool) -> u64 {
        if std::mem::replace(&mut self.keeps, keeps) != keeps {
            self.hold_ns = self.first_hold_ns;
        }
        let times = if keeps { KEEP_TIMES } else { 1 };
        let took_ns = seen.end_ns.saturating_sub(self.raised_ns.unwrap_or(seen.start_ns));
        let until_ns = seen.end_ns + self.hold_ns.max(times * took_ns);
        self.hold_ns = (2 * self.hold_ns).min(LONGEST_HOLD_NS);
        self.asked_ns = seen.end_ns;
        until_ns
    }

    /// Tenants that could be separated: CPU-bound, not latency-bound, not to be left alone.
    fn candidates<'a>(&self, uses: &'a [TenantUse], now_ns: u64) -> Vec<&'a TenantUse> {
        let alone = |id: &TenantId| self.everybody.get(*id).alone_until_ns > now_ns;
        let did = |id: TenantId| self.watched.of(id).or_else(|| self.free.of(id));
        let latency = |id: &TenantId| did(*id).is_some_and(UseSoFar::is_latency_bound);
        uses.iter().filter(|u| u.weight > 0 && !alone(&u.id) && !latency(&u.id)).collect()
    }

    fn useful_ns(&self, on_cpu_ns: u64, useful_ns: u64) -> u64 {
        if self.use_spin {
            useful_ns
        } else {
            on_cpu_ns
        }
    }

    /// While everybody shares: is there somebody whom slots might help?
    fn weigh(
        &mut self,
        cpus: u64,
        seen: &Observation,
        uses: &[TenantUse],
        candidates: &[&TenantUse],
        watched_ns: u64,
    ) -> Vec<Decision> {
        let enough = watched_ns >= WATCH_SLOTS * self.slot_ns;
        // Many tenants take turns more slowly.
        if watched_ns < candidates.len() as u64 * self.slot_ns / 2 && !enough {
            return Vec::new();
        }
        let mut found = self.watched.found(cpus, seen, candidates, self.use_spin);
        // Who is left out is helped as those are whose tasks wait for each other.
        let left_out = found.of.iter_mut().filter(|(id, _)| self.everybody.get(*id).is_left_out());
        left_out.for_each(|(_, shared)| shared.waits = Waits::Yes);
        if enough {
            self.everybody.weigh(&found.of);
        }
        let starves = found.starves();
        self.hidden = found.of.iter().any(|(_, shared)| shared.may_spin);
        let begun_ns = starves.map_or(0, |(_, id)| self.everybody.get(id).begun_ns);
        if begun_ns > seen.end_ns - watched_ns {
            let is_over = seen.end_ns >= begun_ns;
            return if is_over { self.watch(seen, 1, Release::Begun) } else { Vec::new() };
        }
        if self.competing {
            // Before the last of them came there was nothing to share.
            let beginning_ns = BEGINNING_SLOTS * self.slot_ns;
            let begun_ns = found.of.iter().map(|(id, _)| self.everybody.get(*id).begun_ns).max();
            let came_ns = begun_ns.map_or(0, |begun_ns| begun_ns.saturating_sub(beginning_ns));
            let on_cpu_milli = |id: &TenantId| self.watched.on_cpu_milli(*id);
            self.dues.reckon(came_ns, seen.end_ns, &found.of, on_cpu_milli);
        }
        let least = starves.map_or(100, |(percent, _)| percent);
        let limit = if enough { LACKS_PERCENT } else { STARVES_PERCENT };
        let again = self.trial.rounds() > 0;
        if !self.competing || !again && least >= limit && !(enough && self.hidden) {
            // In a later round the competition is over.
            return if again || enough { self.ask(seen, Release::NoCompetition) } else { Vec::new() };
        }
        if again && enough && least >= LACKS_PERCENT && !self.hidden {
            // What it had for another moment would say as little.
            return self.ask_for(seen, WATCH_SLOTS, Release::HasItsShare);
        }
        for u in uses.iter().filter(|u| u.weight > 0) {
            self.everybody.tried(u.id);
        }
        self.tried_percent = if again { self.tried_percent.min(least) } else { least };
        self.members = found.of.iter().map(|f| f.0).collect();
        self.watch_exempt(cpus, seen, uses);
        self.trial.keep(&self.members);
        self.share_out(seen);
        for (id, shared) in found.of {
            self.trial.without(id, shared);
        }
        self.trial.begin(found.capacity_milli, ROTATIONS);
        self.slots.favour(starves.map(|(_, id)| id));
        self.glimpsed = !enough && !self.was_kept;
        let who = starves.map(|(_, id)| census::name(seen, id));
        self.why = Rule::Tried { who, percent: least };
        (self.phase, self.since_ns) = (Phase::Try, None);
        (self.sharing, self.free) = (Watch::default(), Watch::default());
        self.turn(cpus, seen, uses)
    }

    /// After a round: keep, revert, go on or look again?
    fn judge(&mut self, cpus: u64, seen: &Observation, uses: &[TenantUse]) -> Vec<Decision> {
        let rates = self.trial.rates();
        let welfare_milli = self.trial.welfare_milli();
        let gain_milli = welfare_milli.max(self.trial.fairness_milli());
        let (id, worst) = match rates.iter().min_by_key(|(_, r)| r.kept_milli()) {
            Some((id, r)) => (*id, *r),
            None => return self.ask(seen, Release::Single),
        };
        let round = self.trial.rounds() + 1;
        let last = round >= MOST_ROUNDS;
        let least_milli = if last || self.was_kept { LEAST_GAIN_MILLI } else { CLEAR_GAIN_MILLI };
        let helped_milli = self.trial.helped_milli().unwrap_or(i64::MIN);
        let hidden = self.hidden && self.trial.costs_nobody(TOLERANCE_MILLI);
        let gains = gain_milli.min(helped_milli) >= least_milli || hidden;
        let fell = worst.kept_milli() < 1_000 - TOLERANCE_MILLI;
        let surely_milli = match (self.was_kept, self.glimpsed) {
            (true, _) => LEAST_GAIN_MILLI,
            (_, true) => SURE_GAIN_MILLI,
            _ => HELPED_MILLI[round.min(MOST_ROUNDS) - 1],
        };
        let sure = helped_milli >= surely_milli || hidden && !self.glimpsed;
        if gains && !fell && sure {
            self.why = Rule::Kept(reasons::kept(seen, &rates, gain_milli));
            self.share_out(seen);
            self.dues.settle(&self.trial, &mut self.slots, cpus);
            self.phase = Phase::Keep { until_ns: self.hold_until_ns(seen, true) };
            (self.idle_ns, self.kept_ns, self.regrouped) = (0, 0, false);
            self.sharing = Watch::default();
            return self.turn(cpus, seen, uses);
        }
        if gains && fell && worst.kept_milli() >= NEARLY_MILLI && self.trial.go_on() {
            return self.turn(cpus, seen, uses);
        }
        if self.split(cpus, seen, uses) {
            return self.turn(cpus, seen, uses);
        }
        self.trial.close();
        if fell && last {
            return self.give_up(seen, id, worst);
        }
        if last || round >= 2 && gain_milli.min(helped_milli) < LEAST_GAIN_MILLI && !hidden {
            return self.rest(seen, Release::HelpNobody { gain_milli: welfare_milli });
        }
        let why = match gains && !fell {
            true => Release::NotSure { gain_milli: helped_milli.max(gain_milli) },
            false => leaves_less(seen, id, worst, Then::NotClear),
        };
        // What was clear at once has been kept by now.
        self.watch(seen, WATCH_SLOTS, why)
    }

    /// After the last round somebody has less than it is entitled to.
    fn give_up(&mut self, seen: &Observation, id: TenantId, r: Rates) -> Vec<Decision> {
        if !self.watched.of(id).is_some_and(UseSoFar::waits_for_other_things) {
            return self.rest(seen, leaves_less(seen, id, r, Then::GivenUp));
        }
        self.everybody.leave_alone(id, seen.end_ns, self.first_hold_ns, LONGEST_HOLD_NS);
        self.ask(seen, leaves_less(seen, id, r, Then::LeftAlone))
    }

    /// Deals the slots by what is known so far.
    fn share_out(&mut self, seen: &Observation) {
        let known = self.trial.shares();
        let share = |id: &TenantId| known.get(id).unwrap_or(&1_000) * seen.weight(*id) / 100;
        self.slots.share_out(self.members.iter().map(|id| (*id, share(id))).collect());
    }

    fn turn(&mut self, cpus: u64, seen: &Observation, uses: &[TenantUse]) -> Vec<Decision> {
        let here = uses.iter().filter(|u| u.weight > 0 && self.members.contains(&u.id));
        let members: Vec<Member> =
            here.map(|u| Member { id: u.id, weight: u.weight, demand_milli: u.demand_milli }).collect();
        let is_seen = |id: &TenantId| uses.iter().any(|u| u.id == *id);
        let away = self.members.iter().filter(|id| !is_seen(id)).count();
        if members.len() + away < 2 {
            return self.ask(seen, Release::Single);
        }
        let begun = self.slots.begun();
        self.slots.bench(self.exempt.ahead().into_iter().filter(is_seen).collect());
        let choose = |queue: &[Member]| together(queue, cpus, |id| self.trial.needs_slots(id));
        let decisions = self.slots.turn(seen, &members, &self.why, choose);
        if self.slots.begun() != begun {
            self.trial.slot(self.slots.running());
        }
        decisions
    }

    /// A trial goes on without who has gone, as long as there is somebody to be helped and somebody to wait for.
    fn go_on_without(&mut self, cpus: u64, seen: &Observation, uses: &[TenantUse]) -> Vec<Decision> {
        self.members.retain(|id| self.everybody.is_here(*id));
        self.trial.keep(&self.members);
        match self.trial.is_for_somebody() {
            true => self.turn(cpus, seen, uses),
            false => self.ask(seen, Release::HelpedHasGone),
        }
    }

    /// Notes what the last window says.
    fn note(&mut self, cpus: u64, seen: &Observation, uses: &[TenantUse]) {
        let (taken_ns, window_ns) = (seen.taken_ns(), seen.window_ns());
        if let Phase::Watch { .. } | Phase::Rest { .. } = self.phase {
            self.watched.add(window_ns, taken_ns, uses.iter());
        }
        if let Phase::Try | Phase::Keep { .. } = self.phase {
            let is_member = |u: &&TenantUse| self.members.contains(&u.id);
            let members_ns: u64 = uses.iter().filter(is_member).map(|u| u.on_cpu_ns).sum();
            let all_ns = cpus * window_ns;
            self.trial.had(all_ns.saturating_sub(taken_ns.saturating_sub(members_ns)), window_ns);
        }
        let idle_ns = (cpus * window_ns).saturating_sub(taken_ns);
        if let Phase::Keep { .. } = self.phase {
            self.idle_ns += idle_ns;
            self.kept_ns += window_ns;
        }
        if let Phase::Try | Phase::Keep { .. } = self.phase {
            let running = self.slots.running();
            if running.len() > 1 && running.iter().all(|id| !self.trial.needs_slots(*id)) {
                self.sharing.add(window_ns, taken_ns, uses.iter().filter(|u| running.contains(&u.id)));
            }
            let free = uses.iter().filter(|u| !self.members.contains(&u.id));
            self.free.add(window_ns, taken_ns, free);
            uses.iter().for_each(|u| self.exempt.ran(u, window_ns, cpus * self.slot_ns));
            for u in uses.iter().filter(|u| self.members.contains(&u.id)) {
                self.dues.ran(u.id, u.on_cpu_ns, self.trial.fair_milli(u.id) * window_ns / 1_000);
            }
            self.slots.let_give(self.dues.givers());
        }
        let alone = if let &[id] = self.slots.running() { uses.iter().find(|u| u.id == id) } else { None };
        if let Some(u) = alone.filter(|u| self.trial.needs_slots(u.id)) {
            let useful_ns = self.useful_ns(u.on_cpu_ns, u.useful_ns);
            let others_ns = taken_ns.saturating_sub(u.on_cpu_ns);
            let lost_ns = lost_in_slot_ns(u, useful_ns, idle_ns, others_ns, (cpus, window_ns));
            let of = |m: &TenantId| (*m, if *m == u.id { lost_ns } else { 0 });
            self.slots.make_up(&self.members.iter().map(of).collect(), cpus);
        }
        for u in uses {
            match self.phase {
                Phase::Try | Phase::Keep { .. } if !self.slots.parked().contains(&u.id) => {
                    let useful_ns = self.useful_ns(u.on_cpu_ns, u.useful_ns);
                    self.trial.ran(u.id, useful_ns, u.on_cpu_ns, window_ns);
                }
                // It runs on for a moment until it is parked, as it begins late.
                Phase::Try => self.trial.ran(u.id, self.useful_ns(u.on_cpu_ns, u.useful_ns), u.on_cpu_ns, 0),
                _ => {}
            }
        }
    }

    /// What becomes of the phase, and what is decided.
    fn step(&mut self, machine: &Machine, seen: &Observation) -> Vec<Decision> {
        let cpus = machine.cpu_count() as u64;
        let uses = self.census.take(seen, self.slots.parked());
        if !self.everybody.has_looked() {
            self.dues.share_from(seen.start_ns);
        }
        self.everybody.look(seen, &uses, BEGINNING_SLOTS * self.slot_ns, GONE_SLOTS * self.slot_ns);
        self.dues.retain(|id| self.everybody.is_here(*id));
        self.note(cpus, seen, &uses);
        let candidates = self.candidates(&uses, seen.end_ns);
        self.competing = candidates.len() >= 2 && candidates.iter().map(|u| u.weight).sum::<u64>() > cpus;
        let since_ns = *self.since_ns.get_or_insert(seen.start_ns);
        self.raised_ns.get_or_insert(seen.start_ns);
        let took_ns = seen.end_ns - since_ns;
        let calm = seen.end_ns >= self.asked_ns + CALM_NS;
        let has_come = uses.iter().any(|u| u.weight > 0 && !self.everybody.get(u.id).tried);
        let has_gone = self.members.iter().any(|id| !self.everybody.is_here(*id));
        match self.phase {
            Phase::Settle { slots } if took_ns >= self.slot_ns => {
                (self.phase, self.since_ns) = (Phase::Watch { slots }, None);
                Vec::new()
            }
            Phase::Watch { slots } if took_ns >= slots * self.slot_ns => {
                self.weigh(cpus, seen, &uses, &candidates, took_ns)
            }
            Phase::Settle { .. } | Phase::Watch { .. } => Vec::new(),
            Phase::Try if has_gone => self.go_on_without(cpus, seen, &uses),
            Phase::Try if self.trial.is_due() && self.slots.is_over(seen) => self.judge(cpus, seen, &uses),
            Phase::Rest { .. } if calm && (has_come || has_gone) => {
                self.hold_ns = self.first_hold_ns;
                self.ask(seen, if has_come { Release::TenantHasCome } else { Release::TenantHasGone })
            }
            Phase::Keep { until_ns } => self.keep(cpus, seen, &uses, &candidates, until_ns),
            Phase::Rest { until_ns } if seen.end_ns >= until_ns => self.ask(seen, Release::TimeToAsk),
            Phase::Rest { .. } if took_ns >= WATCH_SLOTS * self.slot_ns => {
                self.look_while_resting(cpus, seen, &candidates)
            }
            Phase::Try => self.turn(cpus, seen, &uses),
            Phase::Rest { .. } => Vec::new(),
        }
    }
}

/// That slots leave somebody less than it is entitled to.
fn leaves_less(seen: &Observation, id: TenantId, of: Rates, then: Then) -> Release {
    Release::LeavesLess { who: census::name(seen, id), percent: of.kept_milli() / 10, then }
}

impl Policy for Auto {
    fn name(&self) -> &'static str {
        "auto"
    }

    fn knobs(&self) -> &'static [Knob] {
        &[Knob::Park]
    }

    fn epoch_ns(&self) -> u64 {
        epoch_of(self.slot_ns)
    }

    fn judges_itself(&self) -> bool {
        true
    }

    fn epochs_to_wait(&self) -> u64 {
        match self.phase {
            Phase::Rest { .. } => IDLE_EPOCHS,
            Phase::Watch { .. } if !self.competing => IDLE_EPOCHS,
            // A look costs everybody; who ends or falls idle in its slot leaves less idle by it than that in most.
            Phase::Try | Phase::Keep { .. } => self.slot_epochs,
            _ => 1,
        }
    }

    fn decide(&mut self, machine: &Machine, seen: &Observation) -> Vec<Decision> {
        if self.waited_epochs == 1 {
            let epoch_ns = seen.window_ns().max(1);
            self.slot_epochs = ((self.slot_ns + epoch_ns / 2) / epoch_ns).max(1);
        }
        let decisions = self.step(machine, seen);
        self.waited_epochs = self.epochs_to_wait();
        decisions
    }
}
