//! Reuse of the numbers of groups, so that a machine can be watched for days. The probe can distinguish a
//! limited number of groups at a time, and on a busy machine every command of every shell is one.
//!
//! A group is **closed** when nothing refers to it: none of its tasks lives or has just ended, and it is in
//! no CPU's log. From then on nobody joins it. A task that was about to join is in it, and the group is left
//! alone until that task has ended. If nothing refers to it a second later, its number is **free**, and so
//! are the places of its pairs.

use super::tenancy::Tenancy;
use corun_bpf::Probe;
use std::collections::{BTreeMap, BTreeSet};

/// How long a closed group rests, in nanoseconds: longer than any handler can take between looking up a group
/// and using it.
const REST_NS: u64 = 1_000_000_000;
/// The free numbers that are kept ready; all of them are checked whenever new groups are named.
const MOST_FREE: usize = 4_096;

/// The next actions.
#[derive(Debug, Default, PartialEq, Eq)]
struct Turn {
    close: Vec<u32>,
    free: Vec<u32>,
}

/// Closed groups, with the times when they were closed.
#[derive(Default)]
pub(super) struct Recycling {
    closed: BTreeMap<u32, u64>,
    turned_ns: u64,
}

impl Recycling {
    /// Closes and frees groups if numbers have become scarce. `spoken_of` are the groups of all tasks that
    /// live or ended in the last window, and others that must stay.
    pub(super) fn turn(
        &mut self,
        probe: &Probe,
        tenancy: &mut Tenancy,
        now_ns: u64,
        spoken_of: impl FnOnce() -> BTreeSet<u32>,
    ) {
        let are_scarce = 2 * tenancy.named() >= probe.max_groups() || probe.are_pairs_scarce();
        if !self.is_due(are_scarce, now_ns) {
            return;
        }
        let mut spoken_of = spoken_of();
        spoken_of.extend((0..probe.cpu_count()).flat_map(|cpu| probe.occupancies(cpu, 0)).map(|o| o.group));
        let turn = self.choose(tenancy.made_by_the_probe(), &spoken_of, tenancy.free().len(), now_ns);
        turn.close.iter().for_each(|&group| probe.close_group(group));
        if !turn.free.is_empty() {
            // Before a task gets one of the numbers and takes time under it.
            probe.forget_pairs(&turn.free.iter().copied().collect());
        }
        for group in turn.free {
            if probe.reuse_group(group) {
                tenancy.forget(group);
            }
        }
        tenancy.forget_gone();
    }

    /// Whether it is time to look: less than half of the room is left, and some time has passed since the
    /// last look.
    fn is_due(&self, are_scarce: bool, now_ns: u64) -> bool {
        are_scarce && now_ns >= self.turned_ns + REST_NS
    }

    /// Of the named groups that the probe made, those to close and those to free; `free` are free already.
    fn choose(
        &mut self,
        named: impl Iterator<Item = u32>,
        spoken_of: &BTreeSet<u32>,
        free: usize,
        now_ns: u64,
    ) -> Turn {
        self.turned_ns = now_ns;
        let rested = |group: &u32, since_ns: u64| now_ns >= since_ns + REST_NS && !spoken_of.contains(group);
        let wanted = MOST_FREE.saturating_sub(free);
        let free: Vec<u32> =
            self.closed.iter().filter(|(g, &ns)| rested(g, ns)).map(|(&g, _)| g).take(wanted).collect();
        let is_new = |g: &u32| !spoken_of.contains(g) && !self.closed.contains_key(g);
        let close: Vec<u32> = named.filter(is_new).take(MOST_FREE).collect();
        for group in &free {
            self.closed.remove(group);
        }
        self.closed.extend(close.iter().map(|&g| (g, now_ns)));
        Turn { close, free }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(recycling: &mut Recycling, spoken_of: &[u32], now_s: u64) -> Turn {
        let spoken_of = spoken_of.iter().copied().collect();
        recycling.choose([6, 7, 8].into_iter(), &spoken_of, 0, now_s * REST_NS)
    }

    #[test]
    fn a_group_without_references_is_closed_and_is_free_after_a_rest() {
        let mut recycling = Recycling::default();
        assert_eq!(turn(&mut recycling, &[6], 1), Turn { close: vec![7, 8], free: vec![] });
        assert_eq!(turn(&mut recycling, &[6, 8], 2), Turn { close: vec![], free: vec![7] });
    }

    #[test]
    fn a_group_that_a_task_joined_at_the_last_moment_is_free_when_that_task_has_gone() {
        let mut recycling = Recycling::default();
        turn(&mut recycling, &[6, 7], 1);
        assert_eq!(turn(&mut recycling, &[6, 7, 8], 5), Turn::default());
        assert_eq!(turn(&mut recycling, &[6, 7], 6), Turn { close: vec![], free: vec![8] });
    }

    #[test]
    fn nothing_happens_while_half_of_the_room_is_left_nor_twice_in_a_second() {
        let mut recycling = Recycling::default();
        assert!(!recycling.is_due(false, 9 * REST_NS) && recycling.is_due(true, 9 * REST_NS));
        turn(&mut recycling, &[], 9);
        assert!(!recycling.is_due(true, 10 * REST_NS - 1) && recycling.is_due(true, 10 * REST_NS));
    }

    #[test]
    fn only_as_many_numbers_are_free_as_are_worth_checking() {
        let mut recycling = Recycling::default();
        let named = || 0..2 * MOST_FREE as u32;
        assert_eq!(recycling.choose(named(), &BTreeSet::new(), 0, REST_NS).close.len(), MOST_FREE);
        assert_eq!(recycling.choose(named(), &BTreeSet::new(), MOST_FREE - 5, 2 * REST_NS).free.len(), 5);
    }
}
