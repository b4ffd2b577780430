//! Latency tolerance: how much of a stall a program hides behind other work.
//!
//! Method: a program hides a constant share of every memory latency (`hidden`). The rest is *exposed* and adds to its cycles per
//! instruction. A fixed part of a coherence transfer is never hidden: a store that must become visible in order waits for the line,
//! with any number of independent instructions after it.
//!
//! ```text
//! exposed(latency)  = (1 - hidden) × latency
//! exposed(transfer) = fixed + (1 - hidden) × beyond
//! SPC               = stall cycles per inter-socket transfer
//! ```
//!
//! Source: ATC'16 §3.1 (SPC and IPC show tolerance). The split into a fixed and a hideable part is ours. The four numbers of figure 1
//! need it: from two sockets to one, the tolerant loop saves relatively less.
//! Limits: real hiding saturates (reorder buffer, miss registers) and depends on other requests in flight.

/// The exposed cycles of one access that takes `latency` cycles.
pub fn exposed(latency: f64, hidden: f64) -> f64 {
    latency * (1.0 - hidden)
}

/// The exposed cycles of one coherence transfer: a fixed part and `beyond` cycles that can be hidden.
pub fn exposed_transfer(fixed: f64, beyond: f64, hidden: f64) -> f64 {
    fixed + exposed(beyond, hidden)
}

/// The hidden share for a stall of `spc` cycles per inter-socket transfer, if only transfers stall and all of them are between sockets.
pub fn hidden_of_spc(spc: f64, fixed: f64, beyond: f64) -> f64 {
    1.0 - (spc - fixed) / beyond
}

/// No program hides all of its waiting for saturated memory: at least this share is exposed.
pub const EXPOSED_QUEUE: f64 = 0.05;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hidden_share_and_spc_express_the_same() {
        for hidden in [0.0, 0.13, 0.5, 0.9] {
            let spc = exposed_transfer(114.0, 647.0, hidden);
            assert!((hidden_of_spc(spc, 114.0, 647.0) - hidden).abs() < 1e-12);
        }
    }

    #[test]
    fn a_tolerant_program_gains_less_from_a_nearer_transfer() {
        let gain = |hidden| exposed_transfer(114.0, 647.0, hidden) / exposed_transfer(114.0, 88.0, hidden);
        assert!(gain(0.5) < gain(0.1));
    }
}
