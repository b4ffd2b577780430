//! Hyperthread sharing: threads of one core compete for its issue slots by their IPC demand.
//!
//! Method: a thread demands the share of the core's slots that its instruction rate would need with idle siblings. Its own cycles of
//! computation stretch linearly with the demand of its siblings:
//!
//! ```text
//! demand  = min(1, ipc without siblings / peak ipc)
//! stretch = 1 + (2 / throughput - 1) × Σ demand of the siblings
//! ```
//!
//! so two threads that each saturate the core reach `throughput` together. Two threads that mostly stall do not notice each other, and
//! stalls themselves are not stretched.
//!
//! Source: ATC'16 §3.2 (IPC decides whether sharing a core pays), Bulpin and Pratt 2005 (a linear model by demand).
//! Limits: no functional units (two integer threads conflict as much as an integer and a float one), no
//! fairness of fetch policies; L1 and L2 are [`super::private`]'s; beyond two siblings the linear form is an extrapolation.

use crate::machine_file::Smt;

/// The slope of the stretch against the siblings' demand.
pub fn slope(smt: &Smt) -> f64 {
    2.0 / smt.throughput - 1.0
}

/// The share of a core's slots that a thread wants if it needs `cpi` cycles per instruction without siblings.
pub fn demand(cpi: f64, smt: &Smt) -> f64 {
    (1.0 / (cpi * smt.peak_ipc)).min(1.0)
}

/// The factor on a thread's cycles of computation, given the sum of its siblings' demands.
pub fn stretch(slope: f64, siblings: f64) -> f64 {
    1.0 + slope * siblings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_saturating_threads_reach_the_throughput_of_the_machine_file() {
        let smt = Smt { throughput: 1.15, peak_ipc: 3.0 };
        let each = 1.0 / stretch(slope(&smt), demand(1.0 / 3.5, &smt));
        assert!((2.0 * each - 1.15).abs() < 1e-12);
    }

    #[test]
    fn stalling_threads_share_a_core_almost_for_free() {
        let smt = Smt::default();
        let slowdown = stretch(slope(&smt), demand(10.0, &smt));
        assert!(slowdown < 1.05, "{slowdown}");
    }
}
