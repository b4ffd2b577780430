//! Counters of a modelled task: rates per nanosecond while it runs, and their sums.
//!
//! Method: between two changes of its surroundings a task's events come at constant rates. A settled interval adds rate × time to
//! floating-point sums. Readings are rounded down, so a reading never goes back.
//!
//! Limits: counters do not separate more than the model does. A cycle stalled on memory beyond the core is also one stalled with an L2
//! miss pending, so `offcore_stall_cycles` and `l2_stall_cycles` are equal.

use corun_model::Counters;

/// Events per nanosecond of a running task.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rates {
    /// Retired instructions.
    pub instructions: f64,
    /// Branches.
    pub branches: f64,
    /// Mispredicted branches.
    pub mispredicts: f64,
    /// References to the LLC, including coherence transfers: all misses of the private L2.
    pub references: f64,
    /// References that left the socket's cache: DRAM accesses and inter-socket transfers.
    pub misses: f64,
    /// Cycles stalled beyond the core.
    pub stalls: f64,
    /// Transfers from other cores of the socket.
    pub intra: f64,
    /// Transfers from other sockets.
    pub inter: f64,
    /// DRAM accesses.
    pub dram: f64,
    /// DRAM accesses served by another node.
    pub remote: f64,
}

/// The events of a task so far.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    ran_ns: u64,
    sums: Rates,
}

impl Tally {
    /// Adds `ns` nanoseconds at these rates.
    pub fn add(&mut self, ns: u64, r: &Rates) {
        self.ran_ns += ns;
        let (ns, s) = (ns as f64, &mut self.sums);
        s.instructions += r.instructions * ns;
        s.branches += r.branches * ns;
        s.mispredicts += r.mispredicts * ns;
        s.references += r.references * ns;
        s.misses += r.misses * ns;
        s.stalls += r.stalls * ns;
        s.intra += r.intra * ns;
        s.inter += r.inter * ns;
        s.dram += r.dram * ns;
        s.remote += r.remote * ns;
    }

    /// The counters on a machine with this clock.
    pub fn counters(&self, ghz: f64) -> Counters {
        let s = &self.sums;
        let count = |x: f64| Some(x as u64);
        Counters {
            cycles: count(self.ran_ns as f64 * ghz),
            instructions: count(s.instructions),
            branches: count(s.branches),
            branch_misses: count(s.mispredicts),
            l2_misses: count(s.references),
            llc_references: count(s.references),
            llc_misses: count(s.misses),
            offcore_stall_cycles: count(s.stalls),
            l2_stall_cycles: count(s.stalls),
            coherence_intra: count(s.intra),
            coherence_inter: count(s.inter),
            remote_dram: count(s.remote),
            dram_bytes: count(s.dram * super::membw::LINE),
        }
    }
}
