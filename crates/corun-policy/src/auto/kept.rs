//! While slots are kept: who comes, who goes, who comes to need slots of its own, and until when it is not asked again.
//!
//! A tenant that comes shares the slots of those who need none of their own, after a while in which it is seen whether it is a
//! server. Those who share a slot are by themselves what everybody is without slots: they are watched in it, and who falls behind
//! the others and may wait for its own tasks is given slots of its own. So nobody has to be asked when one program begins,
//! ends, or changes.

use super::watch::Watch;
use super::{Auto, Phase, IDLE_MILLI, KEEP_TIMES, LONGEST_HOLD_NS, ROTATIONS, STARVES_PERCENT, WATCH_SLOTS};
use crate::census::{self, TenantUse};
use crate::trial::Trial;
use corun_model::reason::{Kept, Release, Rule};
use corun_model::{Decision, Observation, TenantId};

impl Auto {
    /// Keeps slots, or asks about them.
    pub(super) fn keep(
        &mut self,
        cpus: u64,
        seen: &Observation,
        uses: &[TenantUse],
        candidates: &[&TenantUse],
        until_ns: u64,
    ) -> Vec<Decision> {
        self.regroup(cpus, seen, candidates);
        if !self.trial.is_for_somebody() {
            return self.ask(seen, Release::NobodyNeedsSlots);
        }
        if seen.end_ns >= until_ns && !self.keeps_on(cpus, seen) {
            return self.ask_again(seen);
        }
        if self.slots.is_over(seen) {
            self.share_out(seen);
        }
        self.turn(cpus, seen, uses)
    }

    /// Whether kept slots need not be asked about now, since all of the machine is used by those who take turns: then they are
    /// kept for longer.
    fn keeps_on(&mut self, cpus: u64, seen: &Observation) -> bool {
        let (idle_ns, kept_ns) = (std::mem::take(&mut self.idle_ns), std::mem::take(&mut self.kept_ns));
        let most_ns = cpus * kept_ns * IDLE_MILLI / 1_000;
        let others_ns = std::mem::take(&mut self.free).on_cpu_ns();
        let keeps = idle_ns <= most_ns && others_ns <= most_ns;
        if keeps {
            self.phase = Phase::Keep { until_ns: seen.end_ns + self.hold_ns };
            self.hold_ns = (2 * self.hold_ns).min(LONGEST_HOLD_NS);
        }
        keeps
    }

    /// Everybody shares, to be watched. What was found of kept slots still counts, for as much as what is seen now, unless others
    /// shared them.
    fn ask_again(&mut self, seen: &Observation) -> Vec<Decision> {
        match self.regrouped {
            true => self.trial = Trial::default(),
            false => self.trial.sum_up(),
        }
        (self.was_kept, self.raised_ns) = (true, None);
        self.watch(seen, 1, Release::TimeToAsk)
    }

    /// Who of those that share slots starves among them, and what part of its fair share it has.
    fn falls_behind(&self, cpus: u64, seen: &Observation, sharing: &[&TenantUse]) -> Option<(u64, TenantId)> {
        let found = self.sharing.found(cpus, seen, sharing, self.use_spin);
        found.starves().filter(|(percent, _)| *percent < STARVES_PERCENT)
    }

    /// When slots that are tried are not good: who starves among those who share some is given its own, and they are tried
    /// on; whether somebody was.
    pub(super) fn split(&mut self, cpus: u64, seen: &Observation, uses: &[TenantUse]) -> bool {
        let shares = |u: &&TenantUse| self.members.contains(&u.id) && !self.trial.needs_slots(u.id);
        let sharing: Vec<&TenantUse> = uses.iter().filter(shares).collect();
        let falls_behind = self.falls_behind(cpus, seen, &sharing);
        if let Some((_, id)) = falls_behind {
            self.trial.give_own(id);
            self.trial.start_over(ROTATIONS);
            self.sharing = Watch::default();
            self.share_out(seen);
        }
        falls_behind.is_some()
    }

    /// While slots are kept: takes in who has come, lets go who has gone, and gives slots of its own to one who shared them
    /// with others and falls behind.
    fn regroup(&mut self, cpus: u64, seen: &Observation, candidates: &[&TenantUse]) {
        let before = self.members.len();
        self.members.retain(|id| self.everybody.is_here(*id));
        self.trial.keep(&self.members);
        let mut is_new = self.members.len() < before;
        for u in candidates {
            let known = self.everybody.get(u.id);
            // Who never waits for long is not to be parked, and that must be seen first.
            if !known.tried && seen.end_ns >= known.begun_ns + WATCH_SLOTS * self.slot_ns {
                self.everybody.tried(u.id);
                self.members.push(u.id);
                self.trial.join(u.id, seen.weight(u.id), u.want_milli());
                is_new = true;
            }
        }
        let shares = |u: &&&TenantUse| self.members.contains(&u.id) && !self.trial.needs_slots(u.id);
        let sharing: Vec<&TenantUse> = candidates.iter().filter(shares).copied().collect();
        let enough_ns = WATCH_SLOTS.max(sharing.len() as u64) * self.slot_ns;
        if self.sharing.lasted_ns() >= enough_ns && !is_new {
            if let Some((percent, id)) = self.falls_behind(cpus, seen, &sharing) {
                self.trial.give_own(id);
                self.why = Rule::Kept(Kept::OwnSlots { who: census::name(seen, id), percent });
                is_new = true;
            }
            self.sharing = Watch::default();
        }
        if let (true, Phase::Keep { until_ns }) = (is_new, self.phase) {
            (self.regrouped, self.sharing) = (true, Watch::default());
            self.phase =
                Phase::Keep { until_ns: until_ns.min(seen.end_ns + KEEP_TIMES * self.first_hold_ns) };
            self.share_out(seen);
        }
    }
}
