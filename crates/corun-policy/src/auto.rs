//! `auto`: separates tenants in time while that is seen to help, and only then. It is corun's own policy, and needs no knowledge of the
//! programs.
//!
//! Slots (gang scheduling, Controlled Contention) help programs whose threads wait for each other, and hurt those that wait for
//! something else. The policy does not guess which is which; it tries. The method has three parts:
//!
//! 1. **One account** (`account.rs`): service received by weight, with a bounded lag. `lag = V - Σ charged / (w m)`.
//! 2. **One question** (`question.rs`): do slots help? A sequential test on pairs of a period in which all tenants share and one of
//!    turns. It uses the mean log gain `g` over tenants, limited by the fair share of each. The error rate is that of
//!    [`crate::sequential`].
//! 3. **One decision** (`allocate.rs`): `allocate(accounts, findings)` says which tenants run now, for how long, and why. It is pure.
//!
//! This file connects them. It decides when to ask, and how long an answer holds.
//!
//! ```text
//!  share ── somebody lacks its share, and may wait for itself ──> turns ── pair ──> helps:  keep, until hold is over: share
//!    ^                                                              |              open:   share again, for the next pair
//!    └──────────── hold is over, or something has changed ── rest <─┴─ does not help
//! ```
//!
//! - **Share.** Nobody is parked. The policy measures how much of its fair share each tenant has, for one slot to
//!   [`numbers::WATCH_SLOTS`]. Slots may help if the CPU-bound tasks of several tenants do not fit the CPUs ([`crate::seats`]), and a
//!   tenant whose tasks may wait for each other lacks its share. A newcomer is measured after half as many slots.
//! - **Turns.** Each tenant that lacks its share is its own party. The others are one party together. A tenant that falls behind the
//!   others of its slot becomes a party. When every party has had two turns, the pair is complete.
//! - **Keep.** The turns go on. A new tenant is measured first, and then shares the slots of those that lack nothing. A tenant that has
//!   gone gets no more turns.
//! - **Rest.** Nobody is parked, and no lag is kept. The question is asked early if an untried tenant comes, if one goes, or if the
//!   test says that the neediest tenant has less than when slots were tried.
//! - An answer holds for a second, and twice as long each time it is found again. It holds at least as long as it took to find.
//!
//! Servers are not parked while they have at most their share. A tenant that waits for other things than CPUs
//! is left alone for a while after slots have cost it too much.
//!
//! Limits: a program that changes faster than the slots of a pair is judged by chance. If spinning cannot be seen, slots may be kept
//! without a gain, but at no cost. CPU time of anything but tenants is subtracted from all groups of CPUs equally.

use crate::census::{self, Census, TenantUse, CPU_BOUND_PERCENT};
use crate::gang::{epoch_of, SLOT};
use crate::options::{Kind, OptionSpec, Values};
use crate::parking::Parking;
use crate::seats::{compete, groups, Confined, Group};
use crate::sequential::{Test, Verdict, PAIRS};
use account::{Accounts, Entry};
use allocate::{allocate, parties, Allocation, Findings};
use corun_model::reason::{Kept, Release, Rule, SlotPart, Then};
use corun_model::{Decision, Knob, Machine, Observation, Policy, Reason, TenantId};
use hold::{Hold, Phase, LONGEST_HOLD_NS};
use known::Everybody;
use numbers::{NOTICEABLE_PERCENT, SCATTER_PERCENT, WATCH_SLOTS};
use period::{Did, Period};
use question::{rates, why_kept, Question, Rates, Share};
use shares::{neediest, shared, Shared};
use std::collections::{BTreeMap, BTreeSet};

mod account;
mod allocate;
mod hold;
mod known;
pub mod numbers;
mod period;
mod question;
mod shares;

pub(crate) const OPTIONS: &[OptionSpec] = &[
    SLOT,
    OptionSpec {
        name: "spin",
        default: "true",
        kind: Kind::Flag,
        words: &[],
        about: "use the host's knowledge of spinning; false: judge by CPU time alone",
    },
    OptionSpec {
        name: "hold",
        default: "1s",
        kind: Kind::Time { least_ns: 100_000_000, most_ns: 3_600_000_000_000 },
        words: &[],
        about: "how long a finding holds at first; then twice as long each time, up to 5 min",
    },
];

/// Separation in time where it helps.
#[derive(Debug)]
pub struct Auto {
    census: Census,
    parking: Parking,
    use_spin: bool,
    hold: Hold,
    phase: Phase,
    everybody: Everybody,
    accounts: Accounts,
    findings: Findings,
    /// Tenants that can disturb each other.
    groups: Vec<Group>,
    question: Question,
    /// The shares of all tenants in the present question.
    shares: BTreeMap<TenantId, Share>,
    may_spin: bool,
    /// The present or last time in which all share; `all_shared` has all such times of this question.
    shared: Period,
    all_shared: Period,
    /// The present or last turns; `all_turns` has all turns of this question.
    turns: Period,
    all_turns: Period,
    /// Within the turns: slots of tenants that need none of their own. `free` has the time of tenants that take no turns.
    sharing: Period,
    free: Period,
    /// The number of the present slot since the policy began and since the turns began. `runs` has the tenants in it.
    slot: (u64, u64),
    runs: BTreeSet<TenantId>,
    ends_ns: u64,
    /// The turns are those of slots that were kept, with the same parties.
    was_kept: bool,
    /// The share of the neediest tenant when slots were last tried, in hundredths of its fair share.
    tried_percent: u64,
    competes: bool,
    /// Epochs in a slot. `waited_epochs` is the last number of epochs that it asked to wait.
    slot_epochs: u64,
    waited_epochs: u64,
}

impl Auto {
    pub(crate) fn new(values: &Values) -> Auto {
        let number = |name| values.number(name).expect("no words");
        Auto {
            census: Census::new(values.scope.clone(), CPU_BOUND_PERCENT),
            parking: Parking::default(),
            use_spin: number("spin") == 1,
            hold: Hold::new(number("hold")),
            phase: Phase::Share { from_ns: 0, slots: 1 },
            everybody: Everybody::default(),
            accounts: Accounts::default(),
            findings: Findings {
                cpus: 1,
                confined: Confined::new(),
                slot_ns: number("slot"),
                takes_turns: false,
                own: BTreeSet::new(),
                alone: BTreeSet::new(),
                rule: Rule::Single,
            },
            groups: Vec::new(),
            question: Question::default(),
            shares: BTreeMap::new(),
            may_spin: false,
            shared: Period::default(),
            all_shared: Period::default(),
            turns: Period::default(),
            all_turns: Period::default(),
            sharing: Period::default(),
            free: Period::default(),
            slot: (0, 0),
            runs: BTreeSet::new(),
            ends_ns: 0,
            was_kept: false,
            tried_percent: 100,
            competes: false,
            slot_epochs: 1,
            waited_epochs: 1,
        }
    }

    fn slot_ns(&self) -> u64 {
        self.findings.slot_ns
    }

    fn is_taking_turns(&self) -> bool {
        matches!(self.phase, Phase::Turns | Phase::Keep { .. })
    }

    /// Lets all tenants share, and measures them for at least `slots` slots. The first slot after turns does not count, since the
    /// kernel first makes up for the CPU time of the parked tenants.
    fn share(&mut self, seen: &Observation, slots: u64, why: Release) -> Vec<Decision> {
        let settles_ns = if self.is_taking_turns() { self.slot_ns() } else { 0 };
        self.phase = Phase::Share { from_ns: seen.end_ns + settles_ns, slots };
        self.shared = Period::default();
        self.release(why)
    }

    fn release(&mut self, why: Release) -> Vec<Decision> {
        self.findings.takes_turns = false;
        self.runs.clear();
        self.parking.release(why)
    }

    /// Asks the question again.
    fn ask(&mut self, seen: &Observation, slots: u64, why: Release) -> Vec<Decision> {
        self.question = Question::default();
        (self.all_shared, self.all_turns) = (Period::default(), Period::default());
        self.findings.own.clear();
        self.shares.clear();
        self.was_kept = false;
        self.hold.raise(seen.end_ns);
        self.share(seen, slots, why)
    }

    /// Touches nothing until the next question, and forgets all lags.
    fn rest(&mut self, seen: &Observation, why: Release) -> Vec<Decision> {
        self.accounts.clear();
        self.phase = Phase::Rest { until_ns: self.hold.answer(seen.end_ns, false) };
        self.shared = Period::default();
        self.release(why)
    }

    /// Tenants that could take turns: CPU-bound, not servers, not left alone.
    fn candidates<'a>(&self, uses: &'a [TenantUse], now_ns: u64) -> Vec<&'a TenantUse> {
        let is_alone = |id: TenantId| self.everybody.get(id).alone_until_ns > now_ns;
        let did = |id: TenantId| self.shared.of(id).or_else(|| self.free.of(id));
        let is_server = |id: TenantId| did(id).is_some_and(Did::is_server);
        uses.iter().filter(|u| u.weight > 0 && !is_alone(u.id) && !is_server(u.id)).collect()
    }

    /// Takes in the last window.
    fn note(&mut self, seen: &Observation, uses: &[TenantUse], candidates: &[&TenantUse]) {
        let (window_ns, taken_ns, cpus) = (seen.window_ns(), seen.taken_ns(), self.findings.cpus);
        let takes_turns = self.is_taking_turns();
        let capacity_ns = |of: &dyn Fn(&TenantUse) -> bool| {
            let own_ns: u64 = uses.iter().filter(|u| of(u)).map(|u| u.on_cpu_ns).sum();
            (cpus * window_ns).saturating_sub(taken_ns.saturating_sub(own_ns))
        };
        let turns_ns = capacity_ns(&|u| self.shares.contains_key(&u.id));
        let shared_ns = capacity_ns(&|u| candidates.iter().any(|c| c.id == u.id));
        let all_ns = capacity_ns(&|u| u.weight > 0);
        let parked = self.parking.parked().clone();
        let is_parked = |id: TenantId| parked.contains(&id);
        match self.phase {
            Phase::Share { from_ns, .. } if seen.start_ns < from_ns => {}
            Phase::Share { .. } | Phase::Rest { .. } => self.shared.add(window_ns, shared_ns, uses.iter()),
            Phase::Turns | Phase::Keep { .. } => {
                self.turns.add(window_ns, turns_ns, uses.iter().filter(|u| !is_parked(u.id)));
                // A task that is to be parked runs on for a moment, as it also starts late.
                self.turns.add(0, 0, uses.iter().filter(|u| is_parked(u.id)));
                let is_free = |u: &&TenantUse| !self.shares.contains_key(&u.id);
                self.free.add(window_ns, all_ns, uses.iter().filter(is_free));
                let taking: Vec<TenantId> =
                    self.runs.iter().copied().filter(|id| self.shares.contains_key(id)).collect();
                if taking.len() > 1 && taking.iter().all(|id| !self.findings.own.contains(id)) {
                    self.sharing.add(window_ns, turns_ns, uses.iter().filter(|u| taking.contains(&u.id)));
                }
            }
        }
        if !self.competes && !takes_turns || matches!(self.phase, Phase::Rest { .. }) {
            return;
        }
        let group = |id: TenantId| {
            let at = self.groups.iter().position(|group| group.members.contains(&id));
            at.map_or((0, cpus), |at| (at, self.groups[at].cpus))
        };
        let entry = |u: &TenantUse| Entry {
            id: u.id,
            weight: seen.weight(u.id),
            tasks: u.weight,
            want_milli: u.want_milli(),
            group: group(u.id),
            charged_ns: self.charged_ns(u, taken_ns),
            waited: is_parked(u.id),
        };
        let entries: Vec<Entry> = uses.iter().filter(|u| u.weight > 0).map(entry).collect();
        self.accounts.book((cpus, self.slot_ns()), window_ns, all_ns, &entries);
    }

    /// CPU time of a window that counts as service.
    fn charged_ns(&self, u: &TenantUse, taken_ns: u64) -> u64 {
        let spun_ns = u.on_cpu_ns.saturating_sub(u.useful_ns);
        if !self.is_taking_turns() {
            // If it also spins in its own slots, that is not a loss.
            let own = self.all_turns.of(u.id).filter(|did| did.useful_ns > 0);
            let part = |did: &Did| {
                let whole = u128::from(u.useful_ns) * u128::from(did.on_cpu_ns) / u128::from(did.useful_ns);
                u64::try_from(whole).unwrap_or(u64::MAX)
            };
            return own.map_or(u.useful_ns, part).min(u.on_cpu_ns);
        }
        if !self.findings.own.contains(&u.id) {
            return u.on_cpu_ns;
        }
        // Threads spin for a sibling whose CPU another tenant has.
        let others_ns = taken_ns.saturating_sub(u.on_cpu_ns);
        let siblings = u.weight.min(self.findings.cpus).saturating_sub(1);
        u.on_cpu_ns - spun_ns.min(others_ns * siblings)
    }

    /// While all share: checks whether slots may help a tenant.
    fn look(&mut self, seen: &Observation, candidates: &[&TenantUse], slots: u64) -> Vec<Decision> {
        let looked_ns = self.shared.lasted_ns;
        // With many tenants turns are slower.
        let slots = slots.max(candidates.len() as u64 / self.findings.cpus);
        let is_long = looked_ns >= WATCH_SLOTS.max(slots) * self.slot_ns();
        if looked_ns < slots * self.slot_ns() {
            return Vec::new();
        }
        let found = shared((self.findings.cpus, &self.groups), seen, candidates, &self.shared);
        let needy = neediest(&found);
        let begun_ns = needy.map_or(0, |s| self.everybody.get(s.id).begun_ns);
        if begun_ns > seen.end_ns - looked_ns {
            let is_over = seen.end_ns >= begun_ns;
            return if is_over { self.share(seen, 1, Release::Begun) } else { Vec::new() };
        }
        let is_asked = self.question.pairs() > 0;
        let needs = |s: &Shared| s.lacks() || s.may_spin && is_long || self.findings.own.contains(&s.id);
        let own: BTreeSet<TenantId> = found.iter().filter(|s| needs(s)).map(|s| s.id).collect();
        if !self.competes || own.is_empty() {
            return match () {
                () if !self.competes && (is_asked || is_long) => {
                    self.accounts.clear();
                    self.ask(seen, 1, Release::NoCompetition)
                }
                () if is_long => self.ask(seen, 1, Release::HasItsShare),
                () => Vec::new(),
            };
        }
        self.take_turns(seen, &found, own)
    }

    /// Begins the second half of a pair.
    fn take_turns(&mut self, seen: &Observation, found: &[Shared], own: BTreeSet<TenantId>) -> Vec<Decision> {
        let (who, percent) = match neediest(found) {
            Some(s) => (Some(census::name(seen, s.id)), s.percent()),
            None => (None, 100),
        };
        self.tried_percent = percent;
        self.accounts.here().for_each(|(id, _)| self.everybody.tried(*id));
        self.may_spin = found.iter().any(|s| s.may_spin);
        let share = |s: &Shared| {
            let (weight, fair_milli, needs) = (seen.weight(s.id), s.fair_milli, own.contains(&s.id));
            (s.id, Share { weight, fair_milli, part_milli: 0, needs })
        };
        self.shares = found.iter().map(share).collect();
        let same = own == self.findings.own;
        self.findings.own = own;
        self.findings.rule = Rule::Tried { who, percent };
        if std::mem::take(&mut self.was_kept) && same {
            return self.judge(seen);
        }
        if !same {
            self.all_turns = Period::default();
        }
        self.start_turns();
        self.turn(seen)
    }

    /// Begins the turns of this pair again.
    fn start_turns(&mut self) {
        self.phase = Phase::Turns;
        self.slot.1 = 0;
        (self.turns, self.sharing, self.free) = (Period::default(), Period::default(), Period::default());
    }

    /// Begins the next slot, if the present one is over.
    fn turn(&mut self, seen: &Observation) -> Vec<Decision> {
        if !self.is_slot_over(seen) {
            return Vec::new();
        }
        self.findings.takes_turns = true;
        let here = self.accounts.here().map(|(id, _)| *id);
        self.findings.alone = here.filter(|id| !self.shares.contains_key(id)).collect();
        let Allocation { run, wait, for_ns, why } = allocate(&self.accounts, &self.findings);
        self.slot = (self.slot.0 + 1, self.slot.1 + 1);
        self.ends_ns = seen.end_ns + for_ns;
        self.runs = run;
        let of = |part| Reason::Slot { number: Some(self.slot.0), part, rule: why.clone() };
        self.parking.change(wait, &of(SlotPart::Waits), &of(SlotPart::Runs))
    }

    /// Whether the slot is over: at the epoch nearest to its end, or when no tenant is left in it.
    fn is_slot_over(&self, seen: &Observation) -> bool {
        let is_here = |id: &TenantId| self.accounts.here().any(|(here, _)| here == id);
        seen.end_ns + seen.window_ns() / 2 >= self.ends_ns || !self.runs.iter().any(is_here)
    }

    /// Whether every party has had two turns.
    fn is_pair_complete(&self, seen: &Observation) -> bool {
        let turns = parties(&self.accounts, &self.findings).len() as u64 * WATCH_SLOTS / 2;
        self.slot.1 >= turns.max(WATCH_SLOTS) && self.is_slot_over(seen)
    }

    /// Notes for each tenant which part of the time its party gets. Slots of several parties at once count for each.
    fn deal(&mut self) {
        let parties = parties(&self.accounts, &self.findings);
        let all: u64 = parties.iter().map(|party| party.turn).sum();
        let ran_ns = |id: &TenantId| self.turns.of(*id).map_or(0, |did| did.capacity_ns);
        let ran_ns: u64 = parties.iter().filter_map(|p| p.members.iter().map(ran_ns).max()).sum();
        let times_milli = (ran_ns * 1_000).checked_div(self.turns.capacity_ns).unwrap_or(1_000);
        for party in &parties {
            for id in &party.members {
                if let Some(share) = self.shares.get_mut(id) {
                    share.part_milli = (party.turn * times_milli / all.max(1)).min(1_000);
                }
            }
        }
    }

    /// After a pair: keep, rest, or another pair?
    fn judge(&mut self, seen: &Observation) -> Vec<Decision> {
        self.deal();
        let pair = rates(&self.shared, &self.turns, &self.shares);
        if pair.len() < 2 {
            return self.ask(seen, 1, Release::Single);
        }
        self.question.pair(&pair, self.shared.lasted_ns as f64 / self.slot_ns() as f64);
        self.all_shared.extend(&self.shared);
        self.all_turns.extend(&self.turns);
        let all = rates(&self.all_shared, &self.all_turns, &self.shares);
        let (id, worst) = all.iter().min_by_key(|(_, r)| r.kept_milli()).expect("a pair is of two");
        let (id, percent) = (*id, worst.kept_milli() / 10);
        let costs = percent < 100 - NOTICEABLE_PERCENT;
        let gain_milli = self.question.gain_milli();
        let leaves_less = |then| Release::LeavesLess { who: census::name(seen, id), percent, then };
        match self.question.verdict(self.may_spin) {
            Verdict::Helps if !costs => self.keep(seen, &all),
            Verdict::Open => self.share(seen, WATCH_SLOTS, Release::NotSure { gain_milli }),
            Verdict::Helps if self.question.pairs() < PAIRS => {
                self.share(seen, WATCH_SLOTS, leaves_less(Then::NotClear))
            }
            _ if costs && self.shared.of(id).is_some_and(Did::waits_for_other_things) => {
                self.everybody.leave_alone(id, seen.end_ns, self.hold.first_ns, LONGEST_HOLD_NS);
                self.ask(seen, 1, leaves_less(Then::LeftAlone))
            }
            Verdict::Helps => self.rest(seen, leaves_less(Then::GivenUp)),
            Verdict::DoesNotHelp => self.rest(seen, Release::HelpNobody { gain_milli }),
        }
    }

    fn keep(&mut self, seen: &Observation, all: &BTreeMap<TenantId, Rates>) -> Vec<Decision> {
        self.findings.rule = Rule::Kept(why_kept(seen, all, self.question.gain_milli()));
        self.phase = Phase::Keep { until_ns: self.hold.answer(seen.end_ns, true) };
        self.was_kept = true;
        (self.turns, self.sharing) = (Period::default(), Period::default());
        self.turn(seen)
    }

    /// While slots are kept: adds new tenants, removes those that have gone, and asks again in time.
    fn look_while_keeping(
        &mut self,
        seen: &Observation,
        candidates: &[&TenantUse],
        until_ns: u64,
    ) -> Vec<Decision> {
        let parties = self.shares.len();
        self.forget_who_has_gone();
        for u in candidates {
            let known = self.everybody.get(u.id);
            // First it must be known whether it is a server.
            if !known.tried && seen.end_ns >= known.begun_ns + WATCH_SLOTS * self.slot_ns() {
                self.everybody.tried(u.id);
                let (weight, fair_milli) = (seen.weight(u.id), 0);
                self.shares.insert(u.id, Share { weight, fair_milli, part_milli: 0, needs: false });
                self.was_kept = false;
            }
        }
        self.was_kept &= self.shares.len() == parties;
        if self.findings.own.is_empty() {
            return self.ask(seen, 1, Release::NobodyNeedsSlots);
        }
        if let Some((who, percent)) = self.split(seen, candidates) {
            self.findings.rule = Rule::Kept(Kept::OwnSlots { who, percent });
            self.was_kept = false;
        }
        if seen.end_ns >= until_ns {
            self.question = Question::default();
            (self.all_shared, self.all_turns) = (Period::default(), Period::default());
            self.hold.raise(seen.end_ns);
            return self.share(seen, 1, Release::TimeToAsk);
        }
        self.turn(seen)
    }

    fn forget_who_has_gone(&mut self) {
        self.shares.retain(|id, _| self.everybody.is_here(*id));
        self.findings.own.retain(|id| self.everybody.is_here(*id));
    }

    /// Gives its own slots to a tenant that shares slots and lacks its share in them. Tenants that share a slot are in the same
    /// situation as all tenants without slots.
    fn split(&mut self, seen: &Observation, candidates: &[&TenantUse]) -> Option<(String, u64)> {
        let shares = |u: &&&TenantUse| self.shares.contains_key(&u.id) && !self.findings.own.contains(&u.id);
        let sharing: Vec<&TenantUse> = candidates.iter().filter(shares).copied().collect();
        if self.sharing.lasted_ns < WATCH_SLOTS.max(sharing.len() as u64) * self.slot_ns() {
            return None;
        }
        let found = shared((self.findings.cpus, &self.groups), seen, &sharing, &self.sharing);
        self.sharing = Period::default();
        let lacks = neediest(&found).filter(|s| s.lacks())?;
        self.findings.own.insert(lacks.id);
        self.shares.entry(lacks.id).and_modify(|share| share.needs = true);
        Some((census::name(seen, lacks.id), lacks.percent()))
    }

    /// While nothing is touched: whether the neediest tenant has less than when slots were tried, by more than chance.
    fn has_become_less(&mut self, seen: &Observation, candidates: &[&TenantUse]) -> bool {
        let found = shared((self.findings.cpus, &self.groups), seen, candidates, &self.shared);
        self.shared = Period::default();
        let Some(now) = neediest(&found).filter(|_| self.competes) else { return false };
        let mut test = Test::new(SCATTER_PERCENT as f64 / 100.0, 0.0);
        test.push((self.tried_percent.max(1) as f64 / now.percent().max(1) as f64).ln(), WATCH_SLOTS as f64);
        test.verdict() == Verdict::Helps
    }

    /// Advances the phase, and decides.
    fn step(&mut self, machine: &Machine, seen: &Observation) -> Vec<Decision> {
        let slot_ns = self.slot_ns();
        self.findings.cpus = machine.cpu_count() as u64;
        let mut uses = self.census.take(seen, self.parking.parked());
        self.findings.confined.clone_from(self.census.confined());
        let wide = uses.iter().filter(|u| u.weight > 0).map(|u| (u.id, u.weight));
        self.groups = groups(self.findings.cpus, &self.findings.confined, wide);
        if !self.use_spin {
            uses.iter_mut().for_each(|u| (u.useful_ns, u.judged_ns) = (u.on_cpu_ns, 0));
        }
        self.hold.raise_first(seen.start_ns);
        self.everybody.look(seen, &uses, WATCH_SLOTS * slot_ns / 2);
        self.accounts.retain(|id| self.everybody.is_here(*id));
        let candidates = self.candidates(&uses, seen.end_ns);
        let tasks = candidates.iter().map(|u| (u.id, u.weight));
        self.competes = compete(self.findings.cpus, &self.findings.confined, tasks);
        self.note(seen, &uses, &candidates);
        let candidates = self.candidates(&uses, seen.end_ns);
        let has_come = candidates.iter().any(|u| !self.everybody.get(u.id).tried);
        let has_gone = self.shares.keys().any(|id| !self.everybody.is_here(*id));
        match self.phase {
            Phase::Share { from_ns, .. } if seen.start_ns < from_ns => Vec::new(),
            Phase::Share { slots, .. } => self.look(seen, &candidates, slots),
            Phase::Turns if has_gone => {
                self.forget_who_has_gone();
                match self.findings.own.is_empty() || self.shares.len() < 2 {
                    true => self.ask(seen, 1, Release::HelpedHasGone),
                    false => self.turn(seen),
                }
            }
            Phase::Turns if self.is_pair_complete(seen) => match self.split(seen, &candidates) {
                Some(_) => {
                    self.all_turns = Period::default();
                    self.start_turns();
                    self.turn(seen)
                }
                None => self.judge(seen),
            },
            Phase::Turns => self.turn(seen),
            Phase::Keep { until_ns } => self.look_while_keeping(seen, &candidates, until_ns),
            Phase::Rest { .. } if (has_come || has_gone) && self.hold.is_calm(seen.end_ns) => {
                self.hold.begin_again();
                self.ask(seen, 1, if has_come { Release::TenantHasCome } else { Release::TenantHasGone })
            }
            Phase::Rest { until_ns } if seen.end_ns >= until_ns => self.ask(seen, 1, Release::TimeToAsk),
            Phase::Rest { .. } if self.shared.lasted_ns >= WATCH_SLOTS * slot_ns => {
                if self.has_become_less(seen, &candidates) {
                    self.hold.begin_again();
                    return self.ask(seen, 1, Release::LessThanTried);
                }
                Vec::new()
            }
            Phase::Rest { .. } => Vec::new(),
        }
    }
}

impl Policy for Auto {
    fn name(&self) -> &'static str {
        "auto"
    }

    fn knobs(&self) -> &'static [Knob] {
        &[Knob::Park]
    }

    fn epoch_ns(&self) -> u64 {
        epoch_of(self.slot_ns())
    }

    fn judges_itself(&self) -> bool {
        true
    }

    fn epochs_to_wait(&self) -> u64 {
        match self.phase {
            // So that a newcomer is noticed in time.
            Phase::Rest { .. } => WATCH_SLOTS,
            Phase::Share { .. } if !self.competes => WATCH_SLOTS,
            Phase::Share { .. } => 1,
            // Looking has a cost for all. It is usually larger than the idle time of a tenant that ends or sleeps in its slot.
            Phase::Turns | Phase::Keep { .. } => self.slot_epochs,
        }
    }

    fn decide(&mut self, machine: &Machine, seen: &Observation) -> Vec<Decision> {
        if self.waited_epochs == 1 {
            let epoch_ns = seen.window_ns().max(1);
            self.slot_epochs = ((self.slot_ns() + epoch_ns / 2) / epoch_ns).max(1);
        }
        let decisions = self.step(machine, seen);
        self.waited_epochs = self.epochs_to_wait();
        decisions
    }
}
