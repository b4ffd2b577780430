//! How slots are dealt: everybody gets the same part of them, by weight, but nobody less than it needs.
//!
//! Who does little in a slot, since it waits for something else meanwhile, needs more slots for the same work; the
//! others then have the same less (water filling). When there are not enough for what all need, everybody lacks the same
//! part of it.

/// What one asks of the slots.
#[derive(Clone, Copy, Debug)]
pub(super) struct Claim {
    /// Its weight.
    pub weight: u64,
    /// What it needs of the slots, in thousandths.
    pub need_milli: u64,
}

/// The part of each, in thousandths of the slots: `all_milli` together, since several may run in one.
pub(super) fn deal(claims: &[Claim], all_milli: u64) -> Vec<u64> {
    // Nobody can run in more than all slots.
    let need = |c: &Claim| c.need_milli.min(1_000);
    let needed: u64 = claims.iter().map(need).sum();
    if needed > all_milli {
        return claims.iter().map(|c| need(c) * all_milli / needed).collect();
    }
    let mut by_need: Vec<usize> = (0..claims.len()).collect();
    by_need.sort_by_key(|&i| std::cmp::Reverse(need(&claims[i]) * 1_000 / claims[i].weight.max(1)));
    let mut parts = vec![0; claims.len()];
    let (mut rest, mut weights) = (all_milli, claims.iter().map(|c| c.weight).sum::<u64>());
    for i in by_need {
        let same = rest * claims[i].weight / weights.max(1);
        parts[i] = same.max(need(&claims[i])).min(1_000);
        rest -= parts[i].min(rest);
        weights -= claims[i].weight;
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(claims: &[(u64, u64)], all_milli: u64) -> Vec<u64> {
        let claim = |&(weight, need_milli): &(u64, u64)| Claim { weight, need_milli };
        deal(&claims.iter().map(claim).collect::<Vec<_>>(), all_milli)
    }

    #[test]
    fn who_needs_less_than_the_same_part_gets_the_same_part() {
        assert_eq!(of(&[(100, 510), (100, 250)], 1_000), [510, 490]);
        assert_eq!(of(&[(100, 200), (100, 100), (100, 0)], 1_000), [333, 333, 334]);
        assert_eq!(of(&[(300, 200), (100, 100)], 1_000), [750, 250]);
    }

    #[test]
    fn who_needs_more_gets_it_from_all_others_alike() {
        assert_eq!(of(&[(100, 100), (100, 600), (100, 100)], 1_000), [200, 600, 200]);
    }

    #[test]
    fn where_there_is_not_enough_everybody_lacks_the_same_part() {
        assert_eq!(of(&[(100, 900), (100, 600)], 1_000), [600, 400]);
    }

    #[test]
    fn nobody_runs_in_more_than_all_slots() {
        assert_eq!(of(&[(100, 500), (100, 2_000)], 2_000), [1_000, 1_000]);
    }
}
