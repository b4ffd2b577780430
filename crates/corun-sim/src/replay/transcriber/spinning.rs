//! How much of what tasks computed they spun: what somebody told of it, held against who could get on meanwhile.
//!
//! A task that spins waits without leaving its CPU, which no log shows. Samples tell how much of a task's time that was, and not when. The
//! log tells when another task of its process wanted a CPU in vain: what it waited then, it may have waited for that one.
//!
//! - **Likely** it spun in that time, as far as that is long enough. What it spun besides it would spin alone as well: it came before the
//!   others, which computed longer.
//! - **At most** all of it goes: it waited for other processes, or for who had only just got its CPU back.
//! - **At least** goes what was nobody's. While somebody wanted a CPU in vain and none of the others ran, nobody could end its wait of its
//!   own. What it computed in all may lie in that time. The rest of that time it waited because of who was kept from its CPU.
//!
//! Limits: who was blocked meanwhile is taken to wait for the program.

use super::super::script::{Op, Spun};
use super::Transcriber;
use corun_model::TaskId;

/// What was told of a task.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Told {
    spin_ns: u64,
    on_cpu_ns: u64,
}

/// For how long a task of a process wanted a CPU in vain while the program had fewer than it may have, in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Wanted {
    /// In all.
    pub any_ns: u64,
    /// While one task of it ran, and no other.
    pub one_ran_ns: u64,
}

impl Transcriber {
    /// Takes that a task spun for so long of this time on a CPU, of which nothing was told before, in nanoseconds.
    pub fn tell_spinning(&mut self, task: TaskId, spin_ns: u64, on_cpu_ns: u64) {
        if let Some(&ix) = self.by_tid.get(&task) {
            let Told { spin_ns: spun_ns, on_cpu_ns: ran_ns } = self.tasks[ix].spinning;
            self.tasks[ix].spinning = Told { spin_ns: spun_ns + spin_ns, on_cpu_ns: ran_ns + on_cpu_ns };
        }
    }
}

impl Told {
    /// What a task spun that did this: at least, likely, at most. `one_ran_ns`: of what it computed, as of [`Wanted`]. `None`: nobody told.
    pub(super) fn spun(self, ops: &[Op], one_ran_ns: u64) -> Option<[Spun; 3]> {
        if self.on_cpu_ns == 0 {
            return None;
        }
        let (mut all_ns, mut beside_ns) = (0.0, 0.0);
        for op in ops {
            if let Op::Compute { ns, beside_ns: beside, .. } = op {
                (all_ns, beside_ns) = (all_ns + *ns as f64, beside_ns + (*beside).min(*ns) as f64);
            }
        }
        let spun_ns = part(self.spin_ns as f64, self.on_cpu_ns as f64) * all_ns;
        let of = |ns: f64| Spun {
            beside: part(ns.min(beside_ns), beside_ns),
            elsewhere: part(ns - beside_ns, all_ns - beside_ns),
        };
        let least_ns = (one_ran_ns as f64 - (all_ns - spun_ns)).clamp(0.0, spun_ns.min(beside_ns));
        Some([least_ns, spun_ns.min(beside_ns), spun_ns].map(of))
    }
}

/// What part of a whole that is, 0..=1.
fn part(of: f64, whole: f64) -> f64 {
    if whole > 0.0 {
        (of / whole).clamp(0.0, 1.0)
    } else {
        0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMPUTES: [Op; 2] = [
        Op::Compute { ns: 100, beside_ns: 80, queued_ns: 0 },
        Op::Compute { ns: 100, beside_ns: 40, queued_ns: 0 },
    ];

    /// At least, likely, at most spun of 200 ns, 120 of them beside somebody in want, where this was told.
    fn spun(spin_ns: u64, one_ran_ns: u64) -> [(f64, f64); 3] {
        let told = Told { spin_ns, on_cpu_ns: 100 };
        told.spun(&COMPUTES, one_ran_ns).unwrap().map(|s| (120.0 * s.beside, 80.0 * s.elsewhere))
    }

    #[test]
    fn what_is_spun_is_spun_for_who_wants_a_cpu_as_far_as_that_is_long_enough() {
        assert_eq!(spun(0, 120), [(0.0, 0.0); 3], "it computes, whoever wants a CPU");
        assert_eq!(
            spun(30, 0),
            [(0.0, 0.0), (60.0, 0.0), (60.0, 0.0)],
            "it may have waited for who computed"
        );
        assert_eq!(
            spun(90, 0),
            [(0.0, 0.0), (120.0, 0.0), (120.0, 60.0)],
            "60 ns more than others were in want"
        );
        assert_eq!(Told::default().spun(&COMPUTES, 0), None);
    }

    #[test]
    fn while_nobody_else_ran_all_but_what_it_computed_was_a_wait_for_who_wanted_a_cpu() {
        // Of 200 ns it computed 20: those may lie in the 120 in which nobody else ran.
        assert_eq!(spun(90, 120)[0], (100.0, 0.0));
        assert_eq!(spun(90, 60)[0], (40.0, 0.0));
    }
}
