//! Decides which tenants run now, for how long, and why: one pure function of the accounts and the findings.
//!
//! **Parties.** A tenant that needs slots is its own party. All tenants that lose nothing by sharing are one party: they run together
//! in its turns. A party's lag is the mean of its members' lags, weighted by their claims `w m`.
//!
//! **Rule.** The party that is furthest behind runs, but no party waits longer than a rotation. One that has waited for `slot / part`
//! is next. `part` is its own part of all time,
//!
//! ```text
//! part = T / Σ T,   T = Σ w m / min(CPUs, Σ m)
//! ```
//!
//! Then, in the order of lag, each further tenant runs if there is a CPU for each of its CPU-bound tasks ([`crate::seats`]). Tenants
//! that are left alone (servers) run in all slots, and wait only while their lag is negative.

use super::account::{Account, Accounts};
use crate::seats::{groups, Confined, Seats};
use corun_model::reason::Rule;
use corun_model::TenantId;
use std::cmp::Reverse;
use std::collections::BTreeSet;

/// The facts about the tenants.
#[derive(Clone, Debug)]
pub(super) struct Findings {
    pub cpus: u64,
    pub confined: Confined,
    pub slot_ns: u64,
    /// Tenants take turns; otherwise all share.
    pub takes_turns: bool,
    /// Tenants that need their own slots.
    pub own: BTreeSet<TenantId>,
    /// Tenants that are left alone.
    pub alone: BTreeSet<TenantId>,
    /// Why they take turns.
    pub rule: Rule,
}

/// The next slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Allocation {
    /// Tenants that run.
    pub run: BTreeSet<TenantId>,
    /// Tenants that are parked.
    pub wait: BTreeSet<TenantId>,
    pub for_ns: u64,
    pub why: Rule,
}

/// Tenants with the same turn, and their sums.
#[derive(Clone, Debug)]
pub(super) struct Party {
    pub members: BTreeSet<TenantId>,
    /// Its part of all time is in proportion to this.
    pub turn: u64,
    lag_ns: i64,
    waited_ns: u64,
}

impl Party {
    fn of(members: &[(TenantId, Account)], findings: &Findings) -> Party {
        let wide = members.iter().map(|(id, account)| (*id, account.tasks));
        let cpus: u64 = groups(findings.cpus, &findings.confined, wide).iter().map(|group| group.cpus).sum();
        let claims: u64 = members.iter().map(|(_, a)| a.claim()).sum();
        let want_milli: u64 = members.iter().map(|(_, a)| a.want_milli).sum();
        let lags: i128 = members.iter().map(|(_, a)| i128::from(a.claim()) * i128::from(a.lag_ns)).sum();
        Party {
            members: members.iter().map(|(id, _)| *id).collect(),
            turn: (claims * 1_000 / want_milli.clamp(1, cpus.max(1) * 1_000)).max(1),
            lag_ns: (lags / i128::from(claims.max(1))) as i64,
            waited_ns: members.iter().map(|(_, a)| a.waited_ns).min().unwrap_or(0),
        }
    }
}

/// The parties of all tenants that take turns.
pub(super) fn parties(accounts: &Accounts, findings: &Findings) -> Vec<Party> {
    let all = || accounts.here().filter(|(id, _)| !findings.alone.contains(id)).map(|(id, a)| (*id, *a));
    let (own, shared): (Vec<_>, Vec<_>) = all().partition(|(id, _)| findings.own.contains(id));
    let own = own.chunks(1);
    let shared = (!shared.is_empty()).then_some(shared.as_slice());
    own.chain(shared).map(|members| Party::of(members, findings)).collect()
}

/// Decides the next slot.
pub(super) fn allocate(accounts: &Accounts, findings: &Findings) -> Allocation {
    let mut slot = Allocation {
        run: accounts.here().map(|(id, _)| *id).collect(),
        wait: BTreeSet::new(),
        for_ns: findings.slot_ns,
        why: findings.rule.clone(),
    };
    if !findings.takes_turns {
        return slot;
    }
    let parties = parties(accounts, findings);
    let turns: u64 = parties.iter().map(|party| party.turn).sum();
    // A window is as long as an epoch, so half a slot counts as a slot.
    let is_due = |waited_ns: u64, turn: u64| {
        let [waited_ns, turn, slot_ns, turns] = [waited_ns, turn, findings.slot_ns, turns].map(u128::from);
        2 * waited_ns * turn + slot_ns * turn > 2 * slot_ns * turns.max(turn)
    };
    let order = |party: &&Party| {
        let first = *party.members.first().expect("it has members");
        (Reverse(is_due(party.waited_ns, party.turn)), Reverse(party.lag_ns), Reverse(party.waited_ns), first)
    };
    let first = parties.iter().min_by_key(order).map(|party| party.members.clone()).unwrap_or_default();
    let mut seats = Seats::new(findings.cpus, &findings.confined);
    for (id, account) in accounts.here().filter(|(id, _)| first.contains(id)) {
        seats.seat(*id, account.tasks);
    }
    let mut others: Vec<_> =
        accounts.here().filter(|(id, _)| !first.contains(id) && !findings.alone.contains(id)).collect();
    others.sort_by_key(|(id, a)| (Reverse(a.lag_ns), Reverse(a.waited_ns), **id));
    for (id, account) in others {
        if !seats.seat_all(*id, account.tasks) {
            slot.wait.insert(*id);
        }
    }
    for (id, account) in accounts.here().filter(|(id, _)| findings.alone.contains(id)) {
        let turn = (account.claim() * 1_000 / account.want_milli.max(1)).max(1);
        if account.lag_ns < 0 && !is_due(account.waited_ns, turn) {
            slot.wait.insert(*id);
        }
    }
    slot.run.retain(|id| !slot.wait.contains(id));
    slot
}

#[cfg(test)]
mod tests {
    use super::super::account::Entry;
    use super::super::numbers::LAG_SLOTS;
    use super::*;
    use corun_model::limits::CpuSet;
    use corun_model::CpuId;
    use std::sync::Arc;

    const SLOT_NS: u64 = 50_000_000;
    const CPUS: u64 = 2;

    /// A tenant: its weight, its tasks, and the part of its tasks' time, in hundredths, in which it computes while it is not parked.
    #[derive(Clone, Copy)]
    struct Does {
        weight: u64,
        tasks: u64,
        percent: u64,
    }

    const BUSY: Does = Does { weight: 100, tasks: 2, percent: 100 };
    const LOOP: Does = Does { tasks: 1, ..BUSY };

    struct Machine {
        accounts: Accounts,
        findings: Findings,
        does: Vec<Does>,
    }

    impl Machine {
        /// A machine with these tenants. Numbers in `own` need their own slots; those in `alone` are left alone.
        fn new(does: &[Does], own: &[u32], alone: &[u32]) -> Machine {
            let ids = |ids: &[u32]| ids.iter().copied().map(TenantId).collect();
            let findings = Findings {
                cpus: CPUS,
                confined: Confined::new(),
                slot_ns: SLOT_NS,
                takes_turns: true,
                own: ids(own),
                alone: ids(alone),
                rule: Rule::Single,
            };
            Machine { accounts: Accounts::default(), findings, does: does.to_vec() }
        }

        /// Lets a slot pass in which these tenants wait.
        fn pass(&mut self, wait: &BTreeSet<TenantId>) {
            let entry = |(i, does): (usize, &Does)| {
                let (id, waited) = (TenantId(i as u32), wait.contains(&TenantId(i as u32)));
                let running =
                    self.does.iter().enumerate().filter(|(i, _)| !wait.contains(&TenantId(*i as u32)));
                let tasks = running.map(|(_, does)| does.tasks).sum::<u64>().max(CPUS);
                let charged_ns =
                    if waited { 0 } else { SLOT_NS * does.tasks * CPUS / tasks * does.percent / 100 };
                Entry {
                    id,
                    weight: does.weight,
                    tasks: does.tasks,
                    want_milli: does.tasks * 1_000,
                    group: (0, CPUS),
                    charged_ns,
                    waited,
                }
            };
            let entries: Vec<Entry> = self.does.iter().enumerate().map(entry).collect();
            self.accounts.book((CPUS, SLOT_NS), SLOT_NS, CPUS * SLOT_NS, &entries);
        }

        /// The tenants that run in each of the next slots.
        fn slots(&mut self, count: usize) -> Vec<Vec<u32>> {
            let mut slots = Vec::new();
            for _ in 0..count {
                let slot = allocate(&self.accounts, &self.findings);
                assert!(slot.run.is_disjoint(&slot.wait));
                slots.push(slot.run.iter().map(|id| id.0).collect());
                self.pass(&slot.wait);
            }
            slots
        }

        fn share(&mut self, slots: u32) {
            (0..slots).for_each(|_| self.pass(&BTreeSet::new()));
        }
    }

    /// The number of these slots in which a tenant runs.
    fn turns(slots: &[Vec<u32>], id: u32) -> usize {
        slots.iter().filter(|run| run.contains(&id)).count()
    }

    #[test]
    fn two_programs_take_turns_and_weights_say_how_often() {
        let mut alike = Machine::new(&[BUSY, BUSY], &[0, 1], &[]);
        alike.share(1);
        assert_eq!(alike.slots(4).concat(), [0, 1, 0, 1]);
        let mut heavy = Machine::new(&[Does { weight: 300, ..BUSY }, BUSY], &[0, 1], &[]);
        heavy.share(1);
        let slots = heavy.slots(400);
        assert!((295..=305).contains(&turns(&slots, 0)), "{}", turns(&slots, 0));
    }

    #[test]
    fn loops_that_fit_the_cpus_run_together_and_a_program_that_needs_both_cpus_alone() {
        let mut machine = Machine::new(&[BUSY, LOOP, LOOP], &[0], &[]);
        machine.share(1);
        let slots = machine.slots(40);
        assert!(slots.iter().all(|run| *run == [0] || *run == [1, 2]), "{slots:?}");
        assert!((19..=21).contains(&turns(&slots, 0)));
        // The same if both loops need slots.
        let mut machine = Machine::new(&[BUSY, LOOP, LOOP], &[0, 1, 2], &[]);
        machine.share(1);
        assert!(machine.slots(40).iter().all(|run| *run == [0] || *run == [1, 2]));
    }

    #[test]
    fn a_loop_on_another_cpu_runs_in_every_slot_and_one_on_the_same_cpu_takes_turns() {
        let on = |cpu| vec![Arc::new(CpuSet::from([CpuId(cpu)]))];
        let mut machine = Machine::new(&[LOOP, LOOP, LOOP], &[0, 1, 2], &[]);
        machine.findings.confined = [(TenantId(0), on(0)), (TenantId(1), on(0)), (TenantId(2), on(1))].into();
        machine.share(1);
        let slots = machine.slots(40);
        assert!(slots.iter().all(|run| *run == [0, 2] || *run == [1, 2]), "{slots:?}");
        assert!((19..=21).contains(&turns(&slots, 0)), "{slots:?}");
    }

    #[test]
    fn tenants_that_lose_nothing_by_sharing_have_their_slots_together_and_enough_of_them() {
        let mut machine = Machine::new(&[BUSY, BUSY, BUSY, BUSY], &[0], &[]);
        machine.share(1);
        let slots = machine.slots(400);
        assert!((95..=105).contains(&turns(&slots, 0)), "a quarter: {}", turns(&slots, 0));
        assert!(slots.iter().all(|run| *run == [0] || *run == [1, 2, 3]));
    }

    #[test]
    fn others_make_up_for_losses_in_slots_until_they_are_behind_by_the_bound() {
        let mut machine = Machine::new(&[Does { percent: 80, ..BUSY }, BUSY], &[0], &[]);
        machine.share(1);
        let slots = machine.slots(1_000);
        let more = turns(&slots, 0) as i64 - turns(&slots, 1) as i64;
        let most = 2 * LAG_SLOTS as i64;
        assert!((1..=most + 1).contains(&more), "{more} slots more of a thousand");
        let later = &slots[500..];
        assert!((249..=251).contains(&turns(later, 1)), "then both have the same");
    }

    #[test]
    fn a_tenant_gives_back_an_earlier_excess_and_waits_no_longer_than_a_rotation() {
        // Four threads have two thirds of the machine while all share, but half of it is their fair share.
        let mut machine = Machine::new(&[BUSY, Does { tasks: 4, ..BUSY }], &[0], &[]);
        machine.share(40);
        let slots = machine.slots(60);
        assert!(turns(&slots, 0) > turns(&slots, 1) + 5, "{slots:?}");
        assert!(slots.windows(3).all(|w| turns(w, 1) > 0), "{slots:?}");
        let later = machine.slots(40);
        assert!((19..=21).contains(&turns(&later, 0)), "nobody gives for ever: {later:?}");
    }

    #[test]
    fn a_tenant_left_alone_waits_only_for_an_excess_over_its_share() {
        // A third of the machine is 67 % of a CPU. In another tenant's slot it has 50 % of a CPU, or a whole one.
        for (percent, waits) in [(50, 0..=0), (100, 30..=50)] {
            let rider = Does { percent, ..BUSY };
            let mut machine = Machine::new(&[BUSY, BUSY, rider], &[0, 1], &[2]);
            machine.share(1);
            let slots = machine.slots(120);
            let waited = slots.len() - turns(&slots, 2);
            assert!(waits.contains(&waited), "{waited} of 120 at {percent} %");
        }
    }

    #[test]
    fn while_slots_are_not_found_to_help_no_tenant_waits() {
        let mut machine = Machine::new(&[BUSY, BUSY], &[0], &[]);
        machine.findings.takes_turns = false;
        machine.share(1);
        assert!(machine.slots(10).iter().all(|run| *run == [0, 1]));
    }
}
