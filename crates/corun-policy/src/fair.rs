//! Fair shares: how much of a capacity each of several wants gets when they are weighed alike (max-min fairness).
//!
//! Whoever wants less than an equal part gets what it wants; what is left over is split among the others. PACT'16
//! §5.1 calls it "the ideal fair allocation of CPU time" and does not say how it is found.

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

    proptest! {
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
