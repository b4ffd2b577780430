//! Hardware events of a task in a window. A counter that is absent is `None`, never zero (invariant 7).
//!
//! A host that knows its tasks' counters puts them into the observation itself, as the modelled machine does. If counting is separate,
//! because it has a cost and may be switched off, a [`CounterSource`](crate::CounterSource) adds them to the host's observation.

/// One of the fields of [`Counters`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs, reason = "each is the field of Counters of the same name")]
pub enum Counter {
    Cycles,
    Instructions,
    Branches,
    BranchMisses,
    L2Misses,
    LlcReferences,
    LlcMisses,
    OffcoreStallCycles,
    L2StallCycles,
    CoherenceIntra,
    CoherenceInter,
    RemoteDram,
    DramBytes,
}

impl Counter {
    /// Every counter, in the order of the fields.
    pub const ALL: [Counter; 13] = [
        Counter::Cycles,
        Counter::Instructions,
        Counter::Branches,
        Counter::BranchMisses,
        Counter::L2Misses,
        Counter::LlcReferences,
        Counter::LlcMisses,
        Counter::OffcoreStallCycles,
        Counter::L2StallCycles,
        Counter::CoherenceIntra,
        Counter::CoherenceInter,
        Counter::RemoteDram,
        Counter::DramBytes,
    ];

    /// The field's name, which JSON uses too.
    pub fn name(self) -> &'static str {
        match self {
            Counter::Cycles => "cycles",
            Counter::Instructions => "instructions",
            Counter::Branches => "branches",
            Counter::BranchMisses => "branch_misses",
            Counter::L2Misses => "l2_misses",
            Counter::LlcReferences => "llc_references",
            Counter::LlcMisses => "llc_misses",
            Counter::OffcoreStallCycles => "offcore_stall_cycles",
            Counter::L2StallCycles => "l2_stall_cycles",
            Counter::CoherenceIntra => "coherence_intra",
            Counter::CoherenceInter => "coherence_inter",
            Counter::RemoteDram => "remote_dram",
            Counter::DramBytes => "dram_bytes",
        }
    }

    /// The counter of this name.
    pub fn from_name(name: &str) -> Option<Counter> {
        Counter::ALL.into_iter().find(|c| c.name() == name)
    }
}

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
    /// One counter's value.
    pub fn get(&self, counter: Counter) -> Option<u64> {
        let mut copy = *self;
        *copy.field(counter)
    }

    /// Sets one counter; `None` means not counted.
    pub fn set(&mut self, counter: Counter, value: Option<u64>) {
        *self.field(counter) = value;
    }

    fn field(&mut self, counter: Counter) -> &mut Option<u64> {
        match counter {
            Counter::Cycles => &mut self.cycles,
            Counter::Instructions => &mut self.instructions,
            Counter::Branches => &mut self.branches,
            Counter::BranchMisses => &mut self.branch_misses,
            Counter::L2Misses => &mut self.l2_misses,
            Counter::LlcReferences => &mut self.llc_references,
            Counter::LlcMisses => &mut self.llc_misses,
            Counter::OffcoreStallCycles => &mut self.offcore_stall_cycles,
            Counter::L2StallCycles => &mut self.l2_stall_cycles,
            Counter::CoherenceIntra => &mut self.coherence_intra,
            Counter::CoherenceInter => &mut self.coherence_inter,
            Counter::RemoteDram => &mut self.remote_dram,
            Counter::DramBytes => &mut self.dram_bytes,
        }
    }

    /// Instructions per cycle. `None` without both counters, or without cycles.
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

    /// The field-wise sum. It lacks a counter that either side lacks.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_counter_has_a_field_and_a_name_of_its_own() {
        let mut counters = Counters::default();
        for (n, counter) in Counter::ALL.into_iter().enumerate() {
            assert_eq!(Counter::from_name(counter.name()), Some(counter));
            assert_eq!(counters.get(counter), None);
            counters.set(counter, Some(n as u64));
        }
        for (n, counter) in Counter::ALL.into_iter().enumerate() {
            assert_eq!(counters.get(counter), Some(n as u64), "{counter:?} shares a field");
        }
        assert_eq!(Counter::from_name("stalls"), None);
    }

    #[test]
    fn a_sum_lacks_what_either_side_lacks() {
        let mut a = Counters { cycles: Some(5), ..Counters::default() };
        let b = Counters { cycles: Some(7), llc_misses: Some(1), ..Counters::default() };
        assert_eq!((a.plus(&b).cycles, a.plus(&b).llc_misses), (Some(12), None));
        a.set(Counter::LlcMisses, Some(2));
        assert_eq!(a.plus(&b).llc_misses, Some(3));
    }
}
