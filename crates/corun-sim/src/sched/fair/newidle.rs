//! Newly-idle balancing: a CPU that has run out of tasks may pull one before it idles.
//!
//! Method, after `sched_balance_newidle` of Linux 6.18 (and of the stable kernels since late 2025, with "Proportional newidle
//! balance"): a domain is searched only with the probability with which searches have paid off. After about a thousand chances the
//! domain updates that. So on a machine where it seldom pays, CPUs mostly go idle although a neighbor has a waiting task. Older kernels
//! always search. In either case the CPU's average idle time must be longer than a search.
//!
//! Limits: the kernel measures the length of a search; here it is a constant. A chance counts only while some CPU really has a task to
//! give; the kernel's flag for that (`rd->overloaded`) may be stale.

use super::balance::Idle;
use super::queues::Discipline;
use super::Fair;
use crate::sched::{CpuIx, Effects};

/// The time that a newly idle CPU needs to check one CPU of a domain.
const SEARCH_NS: u64 = 150;

impl<D: Discipline> Fair<D> {
    /// A CPU ran out of tasks: tries to pull one before it idles.
    pub(super) fn newly_idle(&mut self, now_ns: u64, cpu: CpuIx, fx: &mut Effects) -> bool {
        if D::VINTAGE {
            return self.newly_idle_then(now_ns, cpu, fx);
        }
        if self.q.overloaded.is_empty() {
            return false;
        }
        for level in 0..self.domains.of_cpu[cpu].len() {
            if self.overloaded_in(cpu, level) == 0 {
                continue;
            }
            let domain = self.domains.of_cpu[cpu][level];
            let cost = SEARCH_NS * self.domains.all[domain].span.len() as u64;
            if self.q.cpus[cpu].avg_idle_ns < cost {
                return false;
            }
            let mut stands_for = 1;
            if D::PROPORTIONAL_NEWIDLE {
                match self.q.cpus[cpu].newidle[level].throw(&mut self.q.dice) {
                    Some(chances) => stands_for = chances,
                    None => continue,
                }
            }
            let pulled = self.balance(now_ns, cpu, level, Idle::Newly, fx) > Some(0);
            self.q.cpus[cpu].newidle[level].count(if pulled { stands_for } else { 0 });
            if pulled {
                return true;
            }
        }
        false
    }

    /// A CPU stops being idle.
    pub(super) fn leave_idle(&mut self, now_ns: u64, cpu: CpuIx) {
        let state = &mut self.q.cpus[cpu];
        let idle = now_ns - state.idle_since_ns;
        if D::VINTAGE {
            return self.note_idle_then(cpu, idle);
        }
        // As the kernel's update_avg: an eighth of the difference, capped at twice the migration cost.
        state.avg_idle_ns = if idle >= state.avg_idle_ns {
            state.avg_idle_ns + (idle - state.avg_idle_ns) / 8
        } else {
            state.avg_idle_ns - (state.avg_idle_ns - idle) / 8
        }
        .min(2 * self.opts.migration_cost_ns);
    }
}
