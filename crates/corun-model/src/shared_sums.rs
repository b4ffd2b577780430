//! Sums of what many share. Most of a machine's tasks sleep through window after window, and those that do have one account
//! together: what they have in common stays so, however many windows are summed, and is summed once.
//!
//! Limit: a few pairs of what is shared are known at a time; whoever has another pair has a sum of its own, which is the same sum.

use std::sync::Arc;

/// Most pairs that are known at a time: few are of many.
const MOST: usize = 8;

/// The sums that are known: of which two, and what they came to.
pub(crate) struct SharedSums<'a, T>(Vec<(Arc<T>, &'a Arc<T>, Arc<T>)>);

impl<T> Default for SharedSums<'_, T> {
    fn default() -> Self {
        SharedSums(Vec::new())
    }
}

impl<'a, T: Clone> SharedSums<'a, T> {
    /// Adds one to another, which stays shared by all who had the same two.
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

    /// Twenty that share one.
    fn sharing(one: u64) -> Vec<Arc<u64>> {
        std::iter::repeat_n(Arc::new(one), 20).collect()
    }

    #[test]
    fn who_shares_shares_the_sum_and_everybody_else_has_one_of_its_own() {
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
