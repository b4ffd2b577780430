//! What tenants owe each other over all of the time, not only within slots.
//!
//! - Who had more CPU time than its fair share while everybody shared gives that **back**, a slot of its own for a slot of
//!   another.
//! - Those whom slots are for **lose** otherwise: while everybody shared they spun for threads that were not running, beyond
//!   what they spin in their slots too; when somebody else takes a CPU from one of their threads in a slot, the others
//!   wait for it, so that it costs them more than that CPU; and a CPU that is idle in a slot of theirs is CPU time of their
//!   share that they cannot have at another time. The other tenants make up for that ([`Slots::make_up`]), but no further than to
//!   96.5 % of their own fair shares since the question began: slots and the questions about them are for nobody's profit, and
//!   may not cost anybody more than `auto` promises.
//!
//! Nothing is owed any more once slots are found to help nobody: what each has is for the kernel to say then.

use crate::census::TenantUse;
use crate::slots::Slots;
use crate::trial::{Shared, Trial};
use corun_model::TenantId;
use std::collections::{BTreeMap, BTreeSet};

/// Who has had less than this of its fair share, in thousandths, gives nothing for what others lost.
const GIVES_TO_MILLI: u64 = 965;
/// Older time counts half beyond so much fair CPU time: nobody gives for ever since it had much yesterday.
const MEMORY_NS: u64 = 60_000_000_000;

/// What a tenant had while everybody shared.
#[derive(Clone, Copy, Debug, Default)]
struct WhileShared {
    /// CPU time beyond its fair share.
    ahead_ns: i64,
    on_cpu_ns: u64,
    useful_ns: u64,
}

/// CPU time that a tenant has had, with slots or without, and what was fair.
#[derive(Clone, Copy, Debug, Default)]
struct SoFar {
    had_ns: u64,
    fair_ns: u64,
}

/// What is owed and not yet settled in slots.
#[derive(Clone, Debug, Default)]
pub(super) struct Dues {
    had: BTreeMap<TenantId, WhileShared>,
    so_far: BTreeMap<TenantId, SoFar>,
    /// Since when everybody shares and nobody has reckoned what each had.
    shared_ns: u64,
}

impl Dues {
    /// From now on everybody shares, or what each had until now is not to be reckoned.
    pub(super) fn share_from(&mut self, now_ns: u64) {
        self.shared_ns = now_ns;
    }

    /// Reckons what each had since it was last reckoned, or since the last of them came, going by what was found of them in a
    /// watch: `on_cpu_milli` is the part of a CPU that a tenant had in it, in thousandths.
    pub(super) fn reckon(
        &mut self,
        came_ns: u64,
        now_ns: u64,
        found: &[(TenantId, Shared)],
        on_cpu_milli: impl Fn(&TenantId) -> u64,
    ) {
        let shared_ns = now_ns.saturating_sub(came_ns.max(self.shared_ns));
        self.shared_ns = now_ns;
        for (id, shared) in found {
            let had_milli = on_cpu_milli(id);
            let had = self.had.entry(*id).or_default();
            had.ahead_ns += (had_milli as i64 - shared.fair_milli as i64) * shared_ns as i64 / 1_000;
            had.on_cpu_ns += had_milli * shared_ns / 1_000;
            had.useful_ns += shared.useful_milli * shared_ns / 1_000;
            self.ran(*id, had_milli * shared_ns / 1_000, shared.fair_milli * shared_ns / 1_000);
        }
    }

    /// Takes in what one had in a window, and what was fair.
    pub(super) fn ran(&mut self, id: TenantId, had_ns: u64, fair_ns: u64) {
        let so_far = self.so_far.entry(id).or_default();
        so_far.had_ns += had_ns;
        so_far.fair_ns += fair_ns;
        if so_far.fair_ns > 2 * MEMORY_NS {
            so_far.had_ns /= 2;
            so_far.fair_ns /= 2;
        }
    }

    /// Those who may give something for what others lost.
    pub(super) fn givers(&self) -> BTreeSet<TenantId> {
        let may =
            |s: &SoFar| u128::from(s.had_ns) * 1_000 > u128::from(s.fair_ns) * u128::from(GIVES_TO_MILLI);
        self.so_far.iter().filter(|(_, s)| may(s)).map(|(id, _)| *id).collect()
    }

    /// Forgets who has gone.
    pub(super) fn retain(&mut self, is_here: impl Fn(&TenantId) -> bool) {
        self.had.retain(|id, _| is_here(id));
        self.so_far.retain(|id, _| is_here(id));
    }

    /// Lets everybody off.
    pub(super) fn forgive(&mut self, slots: &mut Slots) {
        self.had.clear();
        self.so_far.clear();
        slots.forgive();
    }

    /// Has it settled in slots.
    pub(super) fn settle(&mut self, trial: &Trial, slots: &mut Slots, cpus: u64) {
        let had = std::mem::take(&mut self.had);
        let lost_ns = |(id, had): (&TenantId, &WhileShared)| {
            let could_ns = had.on_cpu_ns * trial.useful_milli(*id) / 1_000;
            (*id, if trial.needs_slots(*id) { could_ns.saturating_sub(had.useful_ns) } else { 0 })
        };
        slots.repay(&had.iter().map(|(id, had)| (*id, had.ahead_ns)).collect(), cpus);
        slots.make_up(&had.iter().map(lost_ns).collect(), cpus);
    }
}

/// What one whom slots are for may have lost in a window of its slot in which others had a CPU for so long: as much as its
/// other threads could wait for meanwhile, and no more than was waited, spinning or with a CPU idle. And what a CPU that its
/// CPU-bound tasks could have used was idle: CPU time that is its by its share and that it could not take, since it
/// may have it in its slots only.
pub(super) fn lost_in_slot_ns(
    u: &TenantUse,
    useful_ns: u64,
    idle_ns: u64,
    others_ns: u64,
    (cpus, window_ns): (u64, u64),
) -> u64 {
    let usable = u.weight.min(cpus);
    let waited_ns = idle_ns + u.on_cpu_ns.saturating_sub(useful_ns);
    let kept_from_ns = waited_ns.min(others_ns * usable.saturating_sub(1));
    kept_from_ns.max(idle_ns.min((usable * window_ns).saturating_sub(u.on_cpu_ns + others_ns)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_threads(weight: u64, on_cpu_ns: u64) -> TenantUse {
        TenantUse {
            id: TenantId(1),
            tasks: weight as u32,
            weight,
            demand_milli: weight * 1_000,
            useful_ns: 0,
            on_cpu_ns,
            steal_ns: 0,
            block_ns: 0,
            beyond_threads_ns: None,
            wakeups: None,
            judged_ns: 0,
        }
    }

    #[test]
    fn who_has_nearly_its_fair_share_gives_and_who_has_less_does_not_whatever_it_had_long_ago() {
        let mut dues = Dues::default();
        dues.ran(TenantId(1), 970, 1_000);
        dues.ran(TenantId(2), 960, 1_000);
        assert_eq!(dues.givers(), BTreeSet::from([TenantId(1)]));
        let second_ns = 1_000_000_000;
        (0..600).for_each(|_| dues.ran(TenantId(1), 2 * second_ns, second_ns));
        (0..300).for_each(|_| dues.ran(TenantId(1), second_ns / 2, second_ns));
        assert_eq!(dues.givers(), BTreeSet::new(), "ten minutes of twice its share, then five of half");
    }

    #[test]
    fn who_has_one_thread_loses_a_cpu_and_no_more() {
        assert_eq!(lost_in_slot_ns(&of_threads(1, 90), 90, 100, 10, (2, 100)), 0);
    }

    #[test]
    fn threads_that_waited_for_another_lost_what_they_waited_and_at_most_while_it_was_kept_from_running() {
        let two = of_threads(2, 190);
        assert_eq!(lost_in_slot_ns(&two, 184, 0, 10, (2, 100)), 6, "spinning");
        assert_eq!(lost_in_slot_ns(&two, 190, 4, 10, (2, 100)), 4, "blocked");
        assert_eq!(lost_in_slot_ns(&two, 120, 0, 10, (2, 100)), 10, "it spins for itself as well");
        assert_eq!(
            lost_in_slot_ns(&of_threads(8, 390), 300, 0, 10, (4, 100)),
            30,
            "on four CPUs there are three others"
        );
    }

    #[test]
    fn a_cpu_that_was_idle_is_lost_to_as_many_tasks_as_could_have_used_it() {
        assert_eq!(
            lost_in_slot_ns(&of_threads(2, 178), 178, 22, 0, (2, 100)),
            22,
            "its threads waited for each other"
        );
        assert_eq!(
            lost_in_slot_ns(&of_threads(1, 95), 95, 105, 0, (2, 100)),
            5,
            "one thread has no use for two CPUs"
        );
    }
}
