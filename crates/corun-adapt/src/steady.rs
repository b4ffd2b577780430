//! Hysteresis: a number of threads that follows the available CPUs without following every wave. Pure.
//!
//! The available CPUs are those that the process used and those that were idle. With too few threads this does not show that a neighbor
//! would give way (a lower weight, `SCHED_IDLE`). So now and then one thread more is **tried**. It stays if it gets its CPU twice in a
//! row, and goes at the first figure that shows otherwise. After failures, tries become rarer.

/// A thread is worth running if it gets seven tenths of a CPU.
const WORTH_MILLI: u32 = 700;
/// A change happens after this many figures in a row that call for it.
const IN_A_ROW: u32 = 2;
/// Figures without a change before one thread more is tried. The pause starts here and grows with failures.
const FIRST_PAUSE: u32 = 16;
const MOST_PAUSE: u32 = 256;

/// How many threads are worth running on this many milli-CPUs: at least one.
pub(crate) fn worth(milli: u32) -> u32 {
    (milli.saturating_add(1_000 - WORTH_MILLI) / 1_000).max(1)
}

/// Decides how many threads would make progress.
#[derive(Clone, Copy, Debug)]
pub struct Steady {
    threads: Option<u32>,
    called_for: u32,
    in_a_row: u32,
    /// Whether the last of the threads is only tried.
    is_trying: bool,
    /// Figures until the next try, and the length of the current pause.
    left: u32,
    pause: u32,
}

impl Default for Steady {
    fn default() -> Steady {
        Steady {
            threads: None,
            called_for: 0,
            in_a_row: 0,
            is_trying: false,
            left: FIRST_PAUSE,
            pause: FIRST_PAUSE,
        }
    }
}

impl Steady {
    /// The last number of threads.
    pub fn threads(&self) -> Option<u32> {
        self.threads
    }

    /// Whether the last of the threads is only tried.
    pub fn is_trying(&self) -> bool {
        self.is_trying
    }

    /// Takes the next figure, in milli-CPUs; an unknown figure changes nothing. Up to `most` threads are tried while neighbors use the
    /// rest. `most` is 0 if something else limits the available CPUs. Returns the number of threads.
    pub fn next(&mut self, available: Option<u32>, most: u32) -> Option<u32> {
        let Some(available) = available else { return self.threads };
        let wanted = worth(available);
        let Some(threads) = self.threads else {
            self.settle(wanted);
            return self.threads;
        };
        if self.is_trying {
            self.judge(threads, wanted);
        } else if wanted == threads {
            self.in_a_row = 0;
            self.rest(threads, most);
        } else {
            self.follow(threads, wanted);
        }
        self.threads
    }

    /// Stays at this many threads until something changes.
    fn settle(&mut self, threads: u32) {
        *self = Steady { threads: Some(threads), ..Steady::default() };
    }

    /// After a while without a change, tries one thread more.
    fn rest(&mut self, threads: u32, most: u32) {
        self.left = self.left.saturating_sub(1);
        if self.left == 0 && threads < most {
            (self.threads, self.is_trying) = (Some(threads + 1), true);
        }
    }

    /// Takes a figure while one thread more is tried.
    fn judge(&mut self, threads: u32, wanted: u32) {
        if wanted < threads {
            let pause = (2 * self.pause).min(MOST_PAUSE);
            *self = Steady { threads: Some(threads - 1), pause, left: pause, ..Steady::default() };
            return;
        }
        self.in_a_row += 1;
        if self.in_a_row >= IN_A_ROW {
            self.settle(threads);
        }
    }

    /// Follows only what all figures in a row call for: the smallest of the larger widths, or the largest of the smaller ones.
    fn follow(&mut self, threads: u32, wanted: u32) {
        let (is_wider, was_wider) = (wanted > threads, self.called_for > threads);
        if self.in_a_row > 0 && is_wider == was_wider {
            self.called_for =
                if is_wider { self.called_for.min(wanted) } else { self.called_for.max(wanted) };
            self.in_a_row += 1;
        } else {
            (self.called_for, self.in_a_row) = (wanted, 1);
        }
        if self.in_a_row >= IN_A_ROW {
            self.settle(self.called_for);
        }
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
            assert_eq!(steady.next(available, 0), threads, "step {step}");
        }
    }

    /// The numbers of threads over `figures` figures of a process that runs as many threads as it is advised. It competes on `cpus`
    /// CPUs with `loops` busy loops, each with `loop_weight` thousandths of the weight of one of its threads.
    fn next_to(cpus: u32, loops: u32, loop_weight: u32, first: u32, figures: usize) -> Vec<u32> {
        let mut steady = Steady { threads: Some(first), ..Steady::default() };
        let mut told = Vec::new();
        for _ in 0..figures {
            let threads = steady.threads().expect("it began with a number");
            let busy = (threads + loops).min(cpus);
            let own = 1_000 * busy * threads * 1_000 / (threads * 1_000 + loops * loop_weight);
            let available = own.min(threads * 1_000) + 1_000 * (cpus - busy);
            steady.next(Some(available), cpus);
            told.push(threads);
        }
        told
    }

    #[test]
    fn with_any_first_number_of_threads_it_ends_with_as_many_as_get_a_cpu() {
        // CPUs, loops, their weight in thousandths, and the number of threads at the end.
        let table = [
            (2, 1, 1_000, 1),
            (2, 2, 1_000, 1),
            (2, 1, 3, 2),
            (2, 2, 3, 2),
            (16, 8, 1_000, 8),
            (16, 15, 3, 16),
        ];
        for (cpus, loops, weight, wanted) in table {
            for first in 1..=cpus {
                let told = next_to(cpus, loops, weight, first, 4_000);
                let (last, rare) = (&told[3_000..], told[3_000..].iter().filter(|n| **n != wanted).count());
                assert!(
                    rare * 100 <= last.len(),
                    "{cpus} CPUs, {loops} loops of {weight}, first {first}: {last:?}"
                );
            }
        }
    }

    #[test]
    fn a_try_that_fails_ends_at_the_first_figure_and_the_next_comes_later() {
        let told = next_to(2, 1, 1_000, 1, 2_000);
        let tries: Vec<usize> = told.iter().enumerate().filter(|(_, n)| **n == 2).map(|(at, _)| at).collect();
        let pauses: Vec<usize> = tries.windows(2).map(|two| two[1] - two[0] - 1).collect();
        assert_eq!(pauses[..6], [32, 64, 128, 256, 256, 256], "{tries:?}");
        assert_eq!(tries[0], FIRST_PAUSE as usize);
    }

    #[test]
    fn nothing_is_tried_if_neighbors_are_not_the_limit_or_every_cpu_has_a_thread() {
        let mut steady = Steady::default();
        for (available, most) in [(1_000, 0), (2_000, 2)] {
            for _ in 0..1_000 {
                steady.next(Some(available), most);
                assert!(!steady.is_trying(), "{available} of {most}");
            }
        }
    }
}
