//! Hardware events of a task in a window. A counter that is absent is `None`, never zero (invariant 7).

/// Hardware events, in the units of their names. All counts are for user and kernel mode of one task.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counters {
    /// Unhalted core cycles.
    pub cycles: Option<u64>,
    /// Retired instructions.
    pub instructions: Option<u64>,
    /// Retired branches.
    pub branches: Option<u64>,
    /// Mispredicted branches.
    pub branch_misses: Option<u64>,
    /// Misses of the private L2 cache.
    pub l2_misses: Option<u64>,
    /// References to the last-level cache.
    pub llc_references: Option<u64>,
    /// Misses of the last-level cache.
    pub llc_misses: Option<u64>,
    /// Cycles stalled on memory beyond the core (PACT'16's OFFCORE_STALL; approximates t_mem of its §4).
    pub offcore_stall_cycles: Option<u64>,
    /// Cycles stalled with an L2 miss pending (ATC'16 §3.3, the S of SPC).
    pub l2_stall_cycles: Option<u64>,
    /// Cache lines fetched from another core of the same socket.
    pub coherence_intra: Option<u64>,
    /// Cache lines fetched from another socket (ATC'16's inter-socket coherence events).
    pub coherence_inter: Option<u64>,
    /// DRAM accesses served by another NUMA node.
    pub remote_dram: Option<u64>,
    /// Bytes moved between LLC and DRAM.
    pub dram_bytes: Option<u64>,
}

impl Counters {
    /// Instructions per cycle; `None` without both counters or without cycles.
    pub fn ipc(&self) -> Option<f64> {
        let cycles = self.cycles?;
        (cycles > 0).then(|| self.instructions.map(|i| i as f64 / cycles as f64))?
    }

    /// Stall cycles per inter-socket coherence event (SPC, ATC'16 §3.1).
    pub fn spc(&self) -> Option<f64> {
        let events = self.coherence_inter?;
        (events > 0).then(|| self.l2_stall_cycles.map(|s| s as f64 / events as f64))?
    }

    /// Misses of the last-level cache per thousand instructions (PACT'16 §2.2).
    pub fn mpki(&self) -> Option<f64> {
        let instructions = self.instructions?;
        (instructions > 0).then(|| self.llc_misses.map(|m| m as f64 * 1e3 / instructions as f64))?
    }

    /// The field-wise sum; what either side lacks, the sum lacks.
    #[must_use]
    pub fn plus(&self, o: &Counters) -> Counters {
        let add = |a: Option<u64>, b: Option<u64>| Some(a? + b?);
        Counters {
            cycles: add(self.cycles, o.cycles),
            instructions: add(self.instructions, o.instructions),
            branches: add(self.branches, o.branches),
            branch_misses: add(self.branch_misses, o.branch_misses),
            l2_misses: add(self.l2_misses, o.l2_misses),
            llc_references: add(self.llc_references, o.llc_references),
            llc_misses: add(self.llc_misses, o.llc_misses),
            offcore_stall_cycles: add(self.offcore_stall_cycles, o.offcore_stall_cycles),
            l2_stall_cycles: add(self.l2_stall_cycles, o.l2_stall_cycles),
            coherence_intra: add(self.coherence_intra, o.coherence_intra),
            coherence_inter: add(self.coherence_inter, o.coherence_inter),
            remote_dram: add(self.remote_dram, o.remote_dram),
            dram_bytes: add(self.dram_bytes, o.dram_bytes),
        }
    }
}
