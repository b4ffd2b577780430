//! Hysteresis: a number of threads that follows what is available, and not every wave of it. Pure.

/// A thread is worth having when it gets seven tenths of a CPU.
const WORTH_MILLI: u32 = 700;
/// A change has to be called for so many times in a row.
const IN_A_ROW: u32 = 2;

/// How many threads would make progress.
#[derive(Clone, Copy, Debug, Default)]
pub struct Steady {
    threads: Option<u32>,
    called_for: u32,
    in_a_row: u32,
}

impl Steady {
    /// What was last told.
    pub fn threads(&self) -> Option<u32> {
        self.threads
    }

    /// Takes the next figure, in milli-CPUs; what is unknown changes nothing. Returns the number of threads.
    pub fn next(&mut self, available: Option<u32>) -> Option<u32> {
        let Some(available) = available else { return self.threads };
        let wanted = (available.saturating_add(1_000 - WORTH_MILLI) / 1_000).max(1);
        if self.threads.is_none_or(|threads| threads == wanted) {
            (self.threads, self.in_a_row) = (Some(wanted), 0);
            return self.threads;
        }
        // Only what all of them call for: the least wide of wider ones, the widest of narrower ones.
        let is_wider = Some(wanted) > self.threads;
        let was_wider = Some(self.called_for) > self.threads;
        if self.in_a_row > 0 && is_wider == was_wider {
            self.called_for =
                if is_wider { self.called_for.min(wanted) } else { self.called_for.max(wanted) };
            self.in_a_row += 1;
        } else {
            (self.called_for, self.in_a_row) = (wanted, 1);
        }
        if self.in_a_row >= IN_A_ROW {
            (self.threads, self.in_a_row) = (Some(self.called_for), 0);
        }
        self.threads
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_follow_after_two_figures_and_never_one() {
        let mut steady = Steady::default();
        let table = [
            (None, None),
            (Some(2_000), Some(2)),
            (Some(1_300), Some(2)),
            (Some(2_000), Some(2)),
            (Some(1_300), Some(2)),
            (Some(1_300), Some(1)),
            (None, Some(1)),
            (Some(1_690), Some(1)),
            (Some(1_700), Some(1)),
            (Some(1_700), Some(2)),
            (Some(16_000), Some(2)),
            (Some(8_000), Some(8)),
            (Some(0), Some(8)),
            (Some(3_000), Some(3)),
            (Some(0), Some(3)),
            (Some(0), Some(1)),
        ];
        for (step, (available, threads)) in table.into_iter().enumerate() {
            assert_eq!(steady.next(available), threads, "step {step}");
        }
    }
}
