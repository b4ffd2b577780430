//! Fair shares: divides a capacity among several wants (max-min fairness).
//!
//! A want below an equal part is met, and the rest is split among the others. PACT'16 §5.1 calls this "the ideal fair allocation of CPU
//! time" and does not say how to find it.

/// The max-min fair allocation of `capacity` to `wants`, in the unit of both.
pub fn shares(capacity: u64, wants: &[u64]) -> Vec<u64> {
    let mut order: Vec<usize> = (0..wants.len()).collect();
    order.sort_by_key(|&i| (wants[i], i));
    let mut left = capacity;
    let mut got = vec![0; wants.len()];
    for (done, &i) in order.iter().enumerate() {
        let equal = left / (wants.len() - done) as u64;
        got[i] = wants[i].min(equal);
        left -= got[i];
    }
    got
}

/// The same with weights: unmet wants get the rest in proportion to their weights. A weight of 0 counts as 1.
pub fn weighted_shares(capacity: u64, wants: &[(u64, u64)]) -> Vec<u64> {
    let weight = |i: usize| wants[i].1.max(1);
    let mut order: Vec<usize> = (0..wants.len()).collect();
    // The order in which wants are met as the CPU time per weight rises.
    order.sort_by(|&a, &b| {
        let level = |i: usize, by: usize| u128::from(wants[i].0) * u128::from(weight(by));
        level(a, b).cmp(&level(b, a)).then(a.cmp(&b))
    });
    let mut left = capacity;
    let mut weights: u64 = (0..wants.len()).map(weight).sum();
    let mut got = vec![0; wants.len()];
    for i in order {
        let part = (u128::from(left) * u128::from(weight(i)) / u128::from(weights)) as u64;
        got[i] = wants[i].0.min(part);
        left -= got[i];
        weights -= weight(i);
    }
    got
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn small_wants_are_met_and_the_rest_is_split_evenly() {
        assert_eq!(shares(100, &[10, 80, 80]), [10, 45, 45]);
        assert_eq!(shares(100, &[10, 20]), [10, 20]);
        assert_eq!(shares(100, &[]), [0; 0]);
    }

    #[test]
    fn twice_the_weight_is_twice_the_share_of_contended_time() {
        assert_eq!(weighted_shares(90, &[(10, 100), (80, 100), (80, 300)]), [10, 20, 60]);
        assert_eq!(weighted_shares(100, &[(90, 100), (90, 0)]), [90, 10]);
    }

    proptest! {
        #[test]
        fn equal_weights_share_as_no_weights_do(
            capacity in 0u64..1_000_000, wants in proptest::collection::vec(0u64..100_000, 1..20)
        ) {
            let weighted: Vec<(u64, u64)> = wants.iter().map(|w| (*w, 100)).collect();
            prop_assert_eq!(weighted_shares(capacity, &weighted), shares(capacity, &wants));
        }

        #[test]
        fn nobody_gets_more_than_it_wants_and_nothing_is_held_back(
            capacity in 0u64..1_000_000, wants in proptest::collection::vec(0u64..100_000, 1..20)
        ) {
            let got = shares(capacity, &wants);
            prop_assert!(got.iter().zip(&wants).all(|(g, w)| g <= w));
            let (sum, wanted): (u64, u64) = (got.iter().sum(), wants.iter().sum());
            prop_assert!(sum <= capacity);
            prop_assert!(sum + wants.len() as u64 > capacity.min(wanted), "{sum} of {capacity}, {wanted} wanted");
            let most = got.iter().max().unwrap();
            prop_assert!(got.iter().zip(&wants).all(|(g, w)| g == w || g + wants.len() as u64 >= *most));
        }
    }
}
