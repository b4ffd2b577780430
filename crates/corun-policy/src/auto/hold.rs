//! How long an answer holds: at least as long as it took to find, and twice as long each time it is found again.

use super::numbers::{LONGEST_HOLD_MINUTES, QUESTION_PERCENT};

pub(super) const LONGEST_HOLD_NS: u64 = LONGEST_HOLD_MINUTES * 60_000_000_000;

/// The phase of the policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// All tenants share, and are measured from then on, for at least this many slots.
    Share {
        from_ns: u64,
        slots: u64,
    },
    Turns,
    Keep {
        until_ns: u64,
    },
    Rest {
        until_ns: u64,
    },
}

/// The last answer, and the open question.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hold {
    pub first_ns: u64,
    next_ns: u64,
    /// The last answer: whether to keep slots.
    keeps: Option<bool>,
    raised_ns: Option<u64>,
    answered_ns: u64,
}

impl Hold {
    /// The first answer holds for `first_ns`.
    pub fn new(first_ns: u64) -> Hold {
        Hold { first_ns, next_ns: first_ns, keeps: None, raised_ns: None, answered_ns: 0 }
    }

    /// Notes that a question is asked.
    pub fn raise(&mut self, now_ns: u64) {
        self.raised_ns = Some(now_ns);
    }

    /// Notes that the first question is asked, unless one was.
    pub fn raise_first(&mut self, now_ns: u64) {
        self.raised_ns.get_or_insert(now_ns);
    }

    /// Notes the answer. Returns until when it holds. A starving tenant loses more than one that takes turns in vain, so keeping slots
    /// holds longer.
    pub fn answer(&mut self, now_ns: u64, keeps: bool) -> u64 {
        if self.keeps.replace(keeps) != Some(keeps) {
            self.next_ns = self.first_ns;
        }
        let took_ns = now_ns - self.raised_ns.unwrap_or(now_ns);
        let least_ns = if keeps { took_ns * 100 / QUESTION_PERCENT } else { took_ns };
        let until_ns = now_ns + self.next_ns.max(least_ns);
        self.next_ns = (2 * self.next_ns).min(LONGEST_HOLD_NS);
        self.answered_ns = now_ns;
        until_ns
    }

    /// Starts again after a change: the next answer holds as long as the first.
    pub fn begin_again(&mut self) {
        self.keeps = None;
    }

    /// Whether enough time has passed since the last answer that another question is no disturbance.
    pub fn is_calm(&self, now_ns: u64) -> bool {
        now_ns >= self.answered_ns + self.first_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;

    #[test]
    fn an_answer_holds_for_twice_as_long_each_time_and_for_as_long_as_it_took() {
        let mut hold = Hold::new(SECOND_NS);
        let mut answer = |keeps, took_ns| {
            hold.raise(100 * SECOND_NS - took_ns);
            hold.answer(100 * SECOND_NS, keeps) / SECOND_NS - 100
        };
        assert_eq!([answer(false, 0), answer(false, 0), answer(false, 0)], [1, 2, 4]);
        assert_eq!([answer(true, 0), answer(true, 0), answer(false, 0)], [1, 2, 1]);
        assert_eq!([answer(false, 3 * SECOND_NS), answer(true, 3 * SECOND_NS)], [3, 30]);
        assert_eq!((0..20).map(|_| answer(true, 0)).max(), Some(60 * LONGEST_HOLD_MINUTES));
    }
}
