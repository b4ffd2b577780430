//! Sums of shared values. Most tasks of a machine sleep through many windows and share one account. Their shared accounts are summed
//! once, and the sum is shared again, over any number of windows.
//!
//! Limit: only a few pairs of shared values are known at a time. Other pairs get their own copy of the sum.

use std::sync::Arc;

/// The most pairs that are known at a time, since few pairs are common.
const MOST: usize = 8;

/// The known sums: the two values, and their sum.
pub(crate) struct SharedSums<'a, T>(Vec<(Arc<T>, &'a Arc<T>, Arc<T>)>);

impl<T> Default for SharedSums<'_, T> {
    fn default() -> Self {
        SharedSums(Vec::new())
    }
}

impl<'a, T: Clone> SharedSums<'a, T> {
    /// Adds one value to another. The sum is shared by all that had the same two values.
    pub(crate) fn add(&mut self, sum: &mut Arc<T>, next: &'a Arc<T>, add: impl Fn(&mut T, &T)) {
        if Arc::strong_count(sum) == 1 || Arc::strong_count(next) == 1 {
            add(Arc::make_mut(sum), next);
            return;
        }
        let known = self.0.iter().find(|(a, b, _)| Arc::ptr_eq(a, sum) && Arc::ptr_eq(b, next));
        if let Some((_, _, known)) = known {
            sum.clone_from(known);
            return;
        }
        let before = sum.clone();
        add(Arc::make_mut(sum), next);
        if self.0.len() < MOST {
            self.0.push((before, next, sum.clone()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(sum: &mut u64, next: &u64) {
        *sum += next;
    }

    /// Twenty that share one value.
    fn sharing(one: u64) -> Vec<Arc<u64>> {
        std::iter::repeat_n(Arc::new(one), 20).collect()
    }

    #[test]
    fn shared_values_share_their_sum_and_others_have_their_own() {
        let mut sums = sharing(100);
        sums.push(Arc::new(70));
        for _ in 0..3 {
            let next: Vec<Arc<u64>> = sharing(10).into_iter().chain([Arc::new(1)]).collect();
            let mut shared = SharedSums::default();
            sums.iter_mut().zip(&next).for_each(|(sum, next)| shared.add(sum, next, add));
        }
        let (of_sleepers, last) = sums.split_at(20);
        assert!(of_sleepers.iter().all(|sum| **sum == 130 && Arc::ptr_eq(sum, &of_sleepers[0])));
        assert_eq!(*last[0], 73);
    }
}
