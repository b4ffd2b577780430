//! The ledger: where every nanosecond of a task's life in a window went.
//!
//! Only [`Ledger::new`] makes a [`Ledger`], and it refuses parts that do not sum to the total. So every ledger is conserved (invariant
//! 1). PACT'16 §2.1 splits run time into compute, synchronization (spin or block) and steal. A real machine adds other parts: CPU
//! budgets, signals and freezers that stop a task, corun's own parking, and time that the kernel did not show.

use thiserror::Error;

/// The parts of a ledger, in nanoseconds. Plain data: nothing is checked until it becomes a [`Ledger`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parts {
    /// On a CPU. While `spin_ns` is `None` this includes spinning.
    pub compute_ns: u64,
    /// On a CPU, but only waiting for a lock or barrier. `None` if not measured.
    pub spin_ns: Option<u64>,
    /// Off the CPU voluntarily: waiting for a lock, I/O, a timer, an event. While `held` is `None` this includes it.
    pub block_ns: u64,
    /// Runnable but not running, because something else held the CPU.
    pub steal_ns: u64,
    /// Runnable, but its own CPU budget was used up: its cgroup's quota, or the runtime of its real-time group or of its deadline.
    /// Never blamed on a neighbor.
    pub throttled_ns: u64,
    /// Kept from running by a signal, a tracer or a freezer. `None` if not measured.
    pub held: Option<Held>,
    /// Stopped by corun itself (gang, controlled contention, a dedicated window).
    pub parked_ns: u64,
    /// The kernel did not show what the task did, for example because no tracepoint announced a switch.
    pub unknown_ns: u64,
}

impl Parts {
    /// The sum of all parts in nanoseconds. Unmeasured parts count nothing, since they are included in others.
    pub fn sum_ns(&self) -> u64 {
        self.compute_ns
            + self.spin_ns.unwrap_or(0)
            + self.block_ns
            + self.steal_ns
            + self.throttled_ns
            + self.held_ns()
            + self.parked_ns
            + self.unknown_ns
    }

    /// Stopped or frozen time, as far as measured, in nanoseconds.
    pub fn held_ns(&self) -> u64 {
        self.held.map_or(0, |held| held.stopped_ns + held.frozen_ns)
    }
}

/// Time in which something other than corun kept a task from running, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Stopped by a signal (`SIGSTOP`, job control) or held by a tracer.
    pub stopped_ns: u64,
    /// Frozen with its cgroup or with the whole system.
    pub frozen_ns: u64,
}

impl Held {
    /// The field-wise sum.
    #[must_use]
    pub fn plus(&self, o: &Held) -> Held {
        Held { stopped_ns: self.stopped_ns + o.stopped_ns, frozen_ns: self.frozen_ns + o.frozen_ns }
    }
}

/// A conserved account: `parts` sum to `total_ns`. That is the task's lifetime in the window, or for a tenant the sum of its tasks'
/// lifetimes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    parts: Parts,
    total_ns: u64,
}

/// The parts of a would-be ledger do not sum to its total.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("the parts sum to {sum_ns} ns but the lifetime is {total_ns} ns ({parts:?})")]
pub struct Unbalanced {
    /// The sum of the parts.
    pub sum_ns: u64,
    /// The sum that they should have.
    pub total_ns: u64,
    /// The parts themselves.
    pub parts: Parts,
}

impl Ledger {
    /// Makes a ledger.
    ///
    /// # Errors
    /// [`Unbalanced`] if the parts do not sum to `total_ns` to the nanosecond.
    pub fn new(parts: Parts, total_ns: u64) -> Result<Ledger, Unbalanced> {
        let sum_ns = parts.sum_ns();
        if sum_ns == total_ns {
            Ok(Ledger { parts, total_ns })
        } else {
            Err(Unbalanced { sum_ns, total_ns, parts })
        }
    }

    /// The parts.
    pub fn parts(&self) -> &Parts {
        &self.parts
    }

    /// The lifetime that the parts sum to, in nanoseconds.
    pub fn total_ns(&self) -> u64 {
        self.total_ns
    }

    /// Time on a CPU: compute and spin together, in nanoseconds.
    pub fn on_cpu_ns(&self) -> u64 {
        self.parts.compute_ns + self.parts.spin_ns.unwrap_or(0)
    }

    /// The sum of two ledgers. If only one of them measured spinning, the sum has `None`, and the measured spin counts as compute. A
    /// ledger without time on a CPU needs no measurement. The same holds for stopped or frozen time, within the time off the CPU.
    #[must_use]
    pub fn plus(&self, other: &Ledger) -> Ledger {
        let (a, b) = (&self.parts, &other.parts);
        let empty = |l: &Ledger| l.on_cpu_ns() == 0;
        let (compute_ns, spin_ns) = match (a.spin_ns, b.spin_ns) {
            (Some(x), Some(y)) => (a.compute_ns + b.compute_ns, Some(x + y)),
            (Some(x), None) if empty(other) => (a.compute_ns, Some(x)),
            (None, Some(y)) if empty(self) => (b.compute_ns, Some(y)),
            _ => (self.on_cpu_ns() + other.on_cpu_ns(), None),
        };
        let (block_ns, held) = match (a.held, b.held) {
            (Some(x), Some(y)) => (a.block_ns + b.block_ns, Some(x.plus(&y))),
            (Some(x), None) if b.block_ns == 0 => (a.block_ns, Some(x)),
            (None, Some(y)) if a.block_ns == 0 => (b.block_ns, Some(y)),
            _ => (a.block_ns + a.held_ns() + b.block_ns + b.held_ns(), None),
        };
        Ledger {
            parts: Parts {
                compute_ns,
                spin_ns,
                block_ns,
                steal_ns: a.steal_ns + b.steal_ns,
                throttled_ns: a.throttled_ns + b.throttled_ns,
                held,
                parked_ns: a.parked_ns + b.parked_ns,
                unknown_ns: a.unknown_ns + b.unknown_ns,
            },
            total_ns: self.total_ns + other.total_ns,
        }
    }

    /// The same ledger with `spin_ns` of its on-CPU time as spinning, at most what there is.
    #[must_use]
    pub fn with_spin(&self, spin_ns: u64) -> Ledger {
        let on_cpu = self.on_cpu_ns();
        let spin = spin_ns.min(on_cpu);
        let parts = Parts { compute_ns: on_cpu - spin, spin_ns: Some(spin), ..self.parts };
        Ledger { parts, total_ns: self.total_ns }
    }
}

impl Ledger {
    /// The same ledger with `parked_ns` as corun's own parking, at most what there is. It is taken from frozen time, then from stopped
    /// time, and last from block.
    #[must_use]
    pub fn with_parked_block(&self, parked_ns: u64) -> Ledger {
        let mut parts = self.parts;
        let mut to_move_ns = parked_ns;
        let held = parts.held.as_mut().map(|held| [&mut held.frozen_ns, &mut held.stopped_ns]);
        for part in held.into_iter().flatten().chain([&mut parts.block_ns]) {
            let moved_ns = to_move_ns.min(*part);
            *part -= moved_ns;
            to_move_ns -= moved_ns;
        }
        parts.parked_ns += parked_ns - to_move_ns;
        Ledger { parts, total_ns: self.total_ns }
    }

    /// The same ledger with `parked_ns` of its steal as corun's own parking, at most what there is.
    #[must_use]
    pub fn with_parked_steal(&self, parked_ns: u64) -> Ledger {
        let moved_ns = parked_ns.min(self.parts.steal_ns);
        let steal_ns = self.parts.steal_ns - moved_ns;
        let parts = Parts { steal_ns, parked_ns: self.parts.parked_ns + moved_ns, ..self.parts };
        Ledger { parts, total_ns: self.total_ns }
    }
}

impl std::iter::Sum for Ledger {
    fn sum<I: Iterator<Item = Ledger>>(iter: I) -> Ledger {
        iter.fold(Ledger::default(), |a, b| a.plus(&b))
    }
}

/// Why a task was blocked, in nanoseconds, as far as the kernel shows it. The fields sum to the ledger's `block_ns`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockReasons {
    /// In a futex wait: user-space locks, condition variables, barriers, joins.
    pub futex_ns: u64,
    /// Waiting for a block device or in uninterruptible sleep (page faults from disk, file-system locks).
    pub io_ns: u64,
    /// In a timed sleep.
    pub sleep_ns: u64,
    /// Waiting for events: `epoll_wait`, `poll`, `select`.
    pub poll_ns: u64,
    /// Reading from or writing to a pipe, socket or terminal.
    pub pipe_ns: u64,
    /// Waiting for a child process.
    pub child_ns: u64,
    /// Another reason, or an unknown one.
    pub other_ns: u64,
}

impl BlockReasons {
    /// The sum of all reasons, in nanoseconds.
    pub fn sum_ns(&self) -> u64 {
        self.named().iter().map(|(_, ns)| ns).sum()
    }

    /// The reasons with their names, in a fixed order.
    pub fn named(&self) -> [(&'static str, u64); 7] {
        // Destructured, so that a forgotten reason does not compile.
        let BlockReasons { futex_ns, io_ns, sleep_ns, poll_ns, pipe_ns, child_ns, other_ns } = *self;
        [
            ("futex", futex_ns),
            ("io", io_ns),
            ("sleep", sleep_ns),
            ("poll", poll_ns),
            ("pipe", pipe_ns),
            ("child", child_ns),
            ("other", other_ns),
        ]
    }

    /// The same reasons with `ns` less in total. It is taken from "other" first, since an interrupted task's block appears there, then
    /// from the largest.
    #[must_use]
    pub fn less(&self, ns: u64) -> BlockReasons {
        let BlockReasons {
            mut futex_ns,
            mut io_ns,
            mut sleep_ns,
            mut poll_ns,
            mut pipe_ns,
            mut child_ns,
            mut other_ns,
        } = *self;
        let mut to_take = ns;
        let mut take = |from: &mut u64| {
            let taken = to_take.min(*from);
            *from -= taken;
            to_take -= taken;
        };
        take(&mut other_ns);
        let mut rest = [&mut futex_ns, &mut io_ns, &mut sleep_ns, &mut poll_ns, &mut pipe_ns, &mut child_ns];
        rest.sort_by_key(|ns| std::cmp::Reverse(**ns));
        rest.into_iter().for_each(take);
        BlockReasons { futex_ns, io_ns, sleep_ns, poll_ns, pipe_ns, child_ns, other_ns }
    }

    /// Time waiting for a sibling, or for an unknown reason: a lock, a pipe, the end of a child.
    pub fn for_siblings_ns(&self) -> u64 {
        self.sum_ns() - self.outside_ns()
    }

    /// Time waiting for the outside: a device, a timer, a poll. A solo run has it too.
    pub fn outside_ns(&self) -> u64 {
        // Every reason is named, so that a new one must be put on one side.
        let BlockReasons { futex_ns: _, io_ns, sleep_ns, poll_ns, pipe_ns: _, child_ns: _, other_ns: _ } =
            *self;
        io_ns + sleep_ns + poll_ns
    }

    /// The part of the outside waits that gets shorter if the task comes late: timers and polls. So earlier steal may have come out of
    /// it. A device always takes its own time.
    pub fn slack_ns(&self) -> u64 {
        self.outside_ns() - self.io_ns
    }

    /// Time waiting for things that go on by themselves: the outside, and the other end of a pipe or socket. The program's own tasks
    /// cannot shorten it.
    pub fn apart_ns(&self) -> u64 {
        self.outside_ns() + self.pipe_ns
    }

    /// Time waiting for anything but its process's own locks: the outside, and other processes. A socket looks like a pipe, so a
    /// server's waits for requests are included.
    pub fn beyond_threads_ns(&self) -> u64 {
        self.apart_ns() + self.child_ns
    }

    /// The least time in a window of `wall_ns` in which the tasks waited only for processes, events and timers outside, in nanoseconds.
    /// In it no task was awake, slept or waited for a device, and some task waited for something else, even a lock. So none of them can
    /// have ended the wait. `awake_ns` is their total time on a CPU or kept from one. A sum has less of this time than its parts.
    pub fn waited_outside_ns(&self, wall_ns: u64, awake_ns: u64) -> u64 {
        let own_ns = awake_ns.saturating_add(self.sleep_ns).saturating_add(self.io_ns);
        let waited_ns = self.sum_ns().saturating_sub(self.sleep_ns).saturating_sub(self.io_ns);
        wall_ns.saturating_sub(own_ns).min(waited_ns)
    }

    /// The field-wise sum.
    #[must_use]
    pub fn plus(&self, o: &BlockReasons) -> BlockReasons {
        BlockReasons {
            futex_ns: self.futex_ns + o.futex_ns,
            io_ns: self.io_ns + o.io_ns,
            sleep_ns: self.sleep_ns + o.sleep_ns,
            poll_ns: self.poll_ns + o.poll_ns,
            pipe_ns: self.pipe_ns + o.pipe_ns,
            child_ns: self.child_ns + o.child_ns,
            other_ns: self.other_ns + o.other_ns,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parts() -> impl Strategy<Value = Parts> {
        let ns = 0u64..1 << 50;
        let held =
            (ns.clone(), ns.clone()).prop_map(|(stopped_ns, frozen_ns)| Held { stopped_ns, frozen_ns });
        let measured = (proptest::option::of(ns.clone()), proptest::option::of(held));
        (ns.clone(), measured, ns.clone(), ns.clone(), ns.clone(), ns.clone(), ns).prop_map(
            |(compute_ns, (spin_ns, held), block_ns, steal_ns, throttled_ns, parked_ns, unknown_ns)| Parts {
                compute_ns,
                spin_ns,
                block_ns,
                steal_ns,
                throttled_ns,
                held,
                parked_ns,
                unknown_ns,
            },
        )
    }

    proptest! {
        #[test]
        fn a_ledger_that_sums_is_accepted(p in parts()) {
            prop_assert!(Ledger::new(p, p.sum_ns()).is_ok());
        }

        #[test]
        fn a_ledger_off_by_anything_is_refused(p in parts(), off in 1u64..1 << 40) {
            prop_assert!(Ledger::new(p, p.sum_ns() + off).is_err());
        }

        #[test]
        fn sums_of_ledgers_are_conserved(a in parts(), b in parts()) {
            let a = Ledger::new(a, a.sum_ns()).unwrap();
            let b = Ledger::new(b, b.sum_ns()).unwrap();
            let c = a.plus(&b);
            prop_assert_eq!(c.parts().sum_ns(), c.total_ns());
            prop_assert_eq!(c.total_ns(), a.total_ns() + b.total_ns());
            prop_assert_eq!(c, b.plus(&a));
        }

        #[test]
        fn finding_spin_moves_time_but_makes_none(a in parts(), spin in 0u64..1 << 52) {
            let a = Ledger::new(a, a.sum_ns()).unwrap();
            let b = a.with_spin(spin);
            prop_assert_eq!(b.parts().sum_ns(), a.total_ns());
            prop_assert_eq!(b.on_cpu_ns(), a.on_cpu_ns());
        }
    }

    proptest! {
        #[test]
        fn parking_moves_time_but_makes_none(a in parts(), parked in 0u64..1 << 52) {
            let a = Ledger::new(a, a.sum_ns()).unwrap();
            for b in [a.with_parked_block(parked), a.with_parked_steal(parked)] {
                prop_assert_eq!(b.parts().sum_ns(), a.total_ns());
                prop_assert!(b.parts().parked_ns - a.parts().parked_ns <= parked);
            }
        }

        #[test]
        fn block_reasons_lose_exactly_what_is_taken(ns in proptest::array::uniform7(0u64..1000), taken in 0u64..9000) {
            let [futex_ns, io_ns, sleep_ns, poll_ns, pipe_ns, child_ns, other_ns] = ns;
            let a = BlockReasons { futex_ns, io_ns, sleep_ns, poll_ns, pipe_ns, child_ns, other_ns };
            prop_assert_eq!(a.less(taken).sum_ns(), a.sum_ns().saturating_sub(taken));
        }
    }

    #[test]
    fn parked_time_is_taken_from_frozen_and_stopped_time_before_blocked_time() {
        let held = Some(Held { stopped_ns: 20, frozen_ns: 30 });
        let a = Ledger::new(Parts { block_ns: 10, held, ..Parts::default() }, 60).unwrap();
        let left = |parked_ns| {
            let parts = *a.with_parked_block(parked_ns).parts();
            let held = parts.held.unwrap();
            (held.frozen_ns, held.stopped_ns, parts.block_ns, parts.parked_ns)
        };
        assert_eq!(left(25), (5, 20, 10, 25));
        assert_eq!(left(45), (0, 5, 10, 45));
        assert_eq!(left(99), (0, 0, 0, 60));
    }

    #[test]
    fn a_stop_that_only_one_of_two_measured_is_part_of_the_block_of_both() {
        let held = Some(Held { stopped_ns: 4, frozen_ns: 3 });
        let known = Ledger::new(Parts { block_ns: 5, held, ..Parts::default() }, 12).unwrap();
        let unknown = Ledger::new(Parts { block_ns: 5, ..Parts::default() }, 5).unwrap();
        let sum = *known.plus(&unknown).parts();
        assert_eq!((sum.held, sum.block_ns), (None, 17));
        let ran = Ledger::new(Parts { compute_ns: 5, ..Parts::default() }, 5).unwrap();
        assert_eq!(known.plus(&ran).parts().held, held, "who was never off the CPU was not stopped");
    }

    #[test]
    fn an_unmeasured_spin_makes_the_sum_unmeasured() {
        let known = Ledger::new(Parts { compute_ns: 5, spin_ns: Some(3), ..Parts::default() }, 8).unwrap();
        let unknown = Ledger::new(Parts { compute_ns: 5, ..Parts::default() }, 5).unwrap();
        let sum = known.plus(&unknown);
        assert_eq!(sum.parts().spin_ns, None);
        assert_eq!(sum.parts().compute_ns, 13);
        assert_eq!(
            Ledger::default().plus(&known).parts().spin_ns,
            Some(3),
            "an empty ledger measures nothing"
        );
        let asleep = Ledger::new(Parts { block_ns: 7, ..Parts::default() }, 7).unwrap();
        assert_eq!(known.plus(&asleep).parts().spin_ns, Some(3), "nor does who was on no CPU");
        assert_eq!(asleep.plus(&unknown).parts().spin_ns, None);
    }
}
