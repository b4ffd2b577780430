//! Hot lines: a line that several threads write is at one of them at a time, and the others wait.
//!
//! Method: the transfers of a cohort ([`super::coherence`]) go to `hot-lines` lines equally. Each line is a server. A transfer keeps it
//! busy for its whole latency, hidden or not; `S` is the average over the cohort's threads:
//!
//! ```text
//! u    = Σ transfers a cycle(wait) × S / lines
//! wait = (threads - 1) / threads × S × u / (2 (1 - u))
//! ```
//!
//! which is the closed M/D/1 of [`super::membw`]: threads that wait longer ask less often. The factor in
//! front exists because no thread waits for itself. So a transfer takes longer with more contending threads
//! and with larger distances between them. A thread that joins its siblings on one socket takes load off the
//! line for all of them.
//!
//! Source: standard queueing; every directory protocol passes hot lines on one by one.
//! Limits: all lines are equally hot; the number of transfers per instruction is that of the program.

use super::membw::{Demand, Memory, LINE};

/// Cycles that a transfer waits for its line. There are `lines`, and each transfer keeps one for `busy`
/// cycles. `demands` has the transfers of each thread as its `misses`.
pub fn wait(lines: f64, busy: f64, demands: &[Demand]) -> f64 {
    if demands.len() < 2 || busy <= 0.0 {
        return 0.0;
    }
    let threads = demands.len() as f64;
    let others = (threads - 1.0) / threads;
    Memory { capacity: LINE * lines / busy, busy: busy * others, rows: None }.wait(demands)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(threads: usize, busy: f64, lines: f64) -> f64 {
        wait(lines, busy, &vec![Demand { base_cpi: 1.5, misses: 4e-3, exposed: 0.5, rows: 1.0 }; threads])
    }

    #[test]
    fn a_transfer_waits_longer_with_more_contenders_and_larger_distances() {
        let by_threads: Vec<f64> = [1, 2, 4, 8, 20].map(|n| of(n, 600.0, 4.0)).into();
        assert_eq!(by_threads[0], 0.0);
        assert!(by_threads.windows(2).all(|w| w[0] < w[1]), "{by_threads:?}");
        assert!(of(8, 200.0, 4.0) < 0.2 * of(8, 600.0, 4.0));
        assert!(of(20, 600.0, 1e6) < 0.01 * 600.0, "with lines enough nobody waits");
    }

    #[test]
    fn no_line_is_passed_on_more_often_than_its_time_allows() {
        let threads = 48;
        let wait = of(threads, 600.0, 1.0);
        let transfers = threads as f64 * 4e-3 / (1.5 + 4e-3 * 0.5 * wait);
        assert!(transfers * 600.0 <= 1.0, "{wait}: busy for {} of its time", transfers * 600.0);
    }
}
