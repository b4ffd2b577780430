//! How much of the computing of tasks was spinning: samples, compared with which tasks could go on meanwhile.
//!
//! A task that spins waits without leaving its CPU, which no log shows. Samples show what share of a task's
//! time that was, but not when. The log shows when another task of its process wanted a CPU in vain. The task
//! may have waited for that one.
//!
//! - **Likely**: it spun in that time, as far as the time is long enough. The other spinning would also
//!   happen in a solo run: the task was early, and the others computed for longer.
//! - **At most**: all of it goes. It waited for other processes, or for a task that had only just got its CPU
//!   back.
//! - **At least**: the spinning that no other task could have ended. While a task wanted a CPU in vain and no
//!   other task ran, the wait could not end. All computing of the spinning task may lie in that time. For the
//!   rest of that time, it waited because a task was kept from its CPU.
//!
//! Limit: tasks that were blocked meanwhile count as waiting for the program.

use super::super::script::{Op, Spun};
use super::Transcriber;
use corun_model::TaskId;

/// What is known of a task's spinning.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Told {
    spin_ns: u64,
    on_cpu_ns: u64,
}

/// For how long a task of a process wanted a CPU in vain while the program had fewer CPUs than it may have,
/// in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Wanted {
    /// In total.
    pub any_ns: u64,
    /// While exactly one of its tasks ran.
    pub one_ran_ns: u64,
}

impl Transcriber {
    /// Adds that a task spun for this part of a time on a CPU, in nanoseconds. No earlier call has covered
    /// that time.
    pub fn tell_spinning(&mut self, task: TaskId, spin_ns: u64, on_cpu_ns: u64) {
        if let Some(&ix) = self.by_tid.get(&task) {
            let Told { spin_ns: spun_ns, on_cpu_ns: ran_ns } = self.tasks[ix].spinning;
            self.tasks[ix].spinning = Told { spin_ns: spun_ns + spin_ns, on_cpu_ns: ran_ns + on_cpu_ns };
        }
    }
}

impl Told {
    /// What a task with these steps spun: at least, likely, at most. `one_ran_ns`: the part of its computing
    /// as in [`Wanted`]. `None`: not known.
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

/// The share of a whole, 0..=1.
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

    /// At least, likely, at most spun of 200 ns, 120 of them alongside a task that wanted a CPU.
    fn spun(spin_ns: u64, one_ran_ns: u64) -> [(f64, f64); 3] {
        let told = Told { spin_ns, on_cpu_ns: 100 };
        told.spun(&COMPUTES, one_ran_ns).unwrap().map(|s| (120.0 * s.beside, 80.0 * s.elsewhere))
    }

    #[test]
    fn spinning_counts_as_a_wait_for_a_task_without_a_cpu_as_far_as_the_time_is_long_enough() {
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
    fn while_no_other_task_ran_all_but_its_computing_was_a_wait_for_the_task_without_a_cpu() {
        // Of 200 ns, it computed 20: those may lie in the 120 in which no other task ran.
        assert_eq!(spun(90, 120)[0], (100.0, 0.0));
        assert_eq!(spun(90, 60)[0], (40.0, 0.0));
    }
}
