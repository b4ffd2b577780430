//! A program's character on one machine: its cycles per instruction, part by part (the CPI stack).
//!
//! ```text
//! cpi = computation × stretch                                   smt
//!     + references × (1 - miss share) × exposed(LLC)            llc, regions, tolerance
//!     + references × miss share × exposed(DRAM + wait)          numa, membw, links, tolerance
//!     + transfers × exposed(transfer + wait)                    coherence, hot_lines, tolerance
//!     + lines and pages that private levels lack × exposed      private, tolerance
//! progress = cpi alone / cpi
//! ```
//!
//! *Alone* means one thread on an otherwise idle machine, with its memory on its own node and a warm cache. A workload file's `grain`
//! is given in this run time. So a thread alone progresses at 1. A program whose own threads disturb each other progresses at less than
//! 1 even without co-runners.
//!
//! Source: the classic additive stall model; PACT'16 §4 separates memory time in the same way.
//! Limits: stalls of different kinds do not overlap each other; branch misses are part of `ipc`.

use corun_model::workload::{Character, MemoryUse, Placed};

use super::coherence::TransferCycles;
use super::llc::{miss_share, missing_alone, share_alone};
use super::membw::{Demand, Memory, LINE};
use super::numa::Numa;
use super::private::{Footprint, LEVELS};
use super::smt;
use super::tolerance::{exposed, exposed_transfer};
use crate::machine_file::{MachineModel, Smt};

/// Bytes of a page.
pub const PAGE: f64 = 4096.0;

/// A character, computed for one machine, in cycles and per instruction.
#[derive(Clone, Debug)]
pub struct Profile {
    /// Cycles of computation.
    pub compute: f64,
    /// References to the LLC.
    pub references: f64,
    /// Share of references that miss in a cache of any size.
    pub compulsory: f64,
    /// Bytes of its own data that it would keep in the LLC.
    pub working_set: f64,
    /// Its hot and its shared part. `None` without any, so that all references except streams go to `working_set`.
    pub parts: Option<Parts>,
    /// Which node's memory holds its data.
    pub placed: Placed,
    /// Share of its accesses to DRAM that follow the one before in a row.
    pub rows: f64,
    /// Exposed cycles of a hit in the LLC.
    pub llc_stall: f64,
    /// Share of a latency that is hidden.
    pub hidden: f64,
    /// Transfers with all siblings computing.
    pub transfers: f64,
    /// Exposed cycles of a transfer, by distance.
    pub transfer_stall: TransferCycles,
    /// Lines that transfers go to; 0 if threads never wait for one.
    pub hot_lines: f64,
    /// Cycles for which a transfer keeps a line, by distance.
    pub transfer_busy: TransferCycles,
    /// Branches.
    pub branches: f64,
    /// Mispredicted branches.
    pub mispredicts: f64,
    /// Cycles per instruction alone.
    pub alone_cpi: f64,
    /// Whether it takes part in the cache and bandwidth models: it has a working set, or its traffic alone is more than a 256th of a
    /// node's bandwidth. Others have constant costs and do not disturb others.
    pub memory: bool,
    /// Whether it takes part in the coherence model.
    pub coherent: bool,
    /// Its data in the private levels of its core.
    pub footprints: [Footprint; LEVELS],
    /// Solo work after which its private cache holds other lines: [`coherence`](super::coherence).
    pub reach_ns: u64,
    /// For a program that takes part in neither: its own costs by node of the core and home, computed once.
    pub steady: Vec<Own>,
}

/// Data that is used differently: bytes, and share of all references.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Parts {
    /// References to the thread's own data, without the hot part.
    pub own_refs: f64,
    /// Bytes of it that are used most.
    pub hot: f64,
    /// References to these.
    pub hot_refs: f64,
    /// Bytes that threads share.
    pub shared: f64,
    /// References to these.
    pub shared_refs: f64,
}

impl Parts {
    fn new(memory: &MemoryUse, compulsory: f64) -> Option<Parts> {
        if memory.shared == 0 && memory.hot == 0 {
            return None;
        }
        let reuse = 1.0 - compulsory;
        let own = reuse * (1.0 - memory.shared_refs);
        Some(Parts {
            own_refs: own * (1.0 - memory.hot_refs),
            hot: memory.hot as f64,
            hot_refs: own * memory.hot_refs,
            shared: memory.shared as f64,
            shared_refs: reuse * memory.shared_refs,
        })
    }
}

/// The costs of a task alone, without its hyperthreads and its memory's queue.
#[derive(Clone, Copy, Debug)]
pub struct Own {
    /// Its use of its node's memory.
    pub memory: Demand,
    /// Issue slots that it wants, as a share of the core's.
    pub slots: f64,
}

impl Profile {
    /// Computes a character's figures for a machine.
    pub fn new(c: &Character, model: &MachineModel, numa: &Numa, memory: &Memory) -> Profile {
        let cycles = |ns: u64| ns as f64 * model.ghz;
        let l = &model.latency;
        let hidden = c.hidden.clamp(0.0, 1.0);
        let transfer = |ns: u64| exposed_transfer(cycles(l.transfer_fixed_ns), cycles(ns), hidden);
        let busy = |ns: u64| cycles(l.transfer_fixed_ns) + cycles(ns);
        let references = c.llc_refs_pki / 1e3;
        let parts = Parts::new(&c.memory, c.compulsory.clamp(0.0, 1.0));
        let mut p = Profile {
            compute: 1.0 / c.ipc.max(0.01),
            references,
            compulsory: c.compulsory.clamp(0.0, 1.0),
            working_set: c.working_set.saturating_sub(c.memory.hot) as f64,
            parts,
            placed: c.memory.placed,
            rows: c.memory.rows,
            llc_stall: exposed(cycles(l.llc_ns), hidden),
            hidden,
            transfers: c.coherence_pki / 1e3,
            transfer_stall: TransferCycles {
                core: exposed(cycles(l.l2_ns), hidden),
                llc: transfer(l.transfer_llc_ns),
                socket: transfer(l.transfer_socket_ns),
                remote: transfer(l.transfer_remote_ns),
            },
            hot_lines: f64::from(c.hot_lines),
            // Hyperthreads of one core already have the line.
            transfer_busy: TransferCycles {
                core: 0.0,
                llc: busy(l.transfer_llc_ns),
                socket: busy(l.transfer_socket_ns),
                remote: busy(l.transfer_remote_ns),
            },
            branches: c.branches_pki / 1e3,
            mispredicts: c.branches_pki / 1e3 * c.mispredicts,
            alone_cpi: 0.0,
            memory: false,
            coherent: c.coherence_pki > 0.0,
            footprints: footprints(c, model, numa, hidden),
            reach_ns: u64::MAX,
            steady: Vec::new(),
        };
        let resident = share_alone(p.compulsory, p.working_set / model.llc_bytes as f64);
        let missing = match &p.parts {
            Some(parts) => {
                let by = |refs, bytes: f64| (refs, bytes / model.llc_bytes as f64);
                let own = by(parts.own_refs, p.working_set);
                missing_alone(
                    p.compulsory,
                    &[own, by(parts.hot_refs, parts.hot), by(parts.shared_refs, parts.shared)],
                )
            }
            None if p.working_set > 0.0 => miss_share(p.compulsory, resident),
            None => p.compulsory,
        };
        let alone = p.demand(p.compute + p.memory_stall(missing, numa.cycles(0, 0)), missing);
        p.alone_cpi = alone.cpi(memory.for_users(&[alone]).wait(&[alone]));
        // A program that refers to nothing beyond its caches keeps its lines: infinity becomes the largest integer.
        let lines = model.l2_bytes as f64 / LINE;
        p.reach_ns = (lines / references * p.alone_cpi / model.ghz) as u64;
        let traffic = alone.bytes_per_cycle(0.0);
        let placed = p.parts.is_some() || p.placed == Placed::Interleaved;
        p.memory = references > 0.0 && (p.working_set > 0.0 || placed || traffic * 256.0 > memory.capacity);
        if !p.memory && !p.coherent && p.footprints == <[Footprint; LEVELS]>::default() {
            let nodes = 0..numa.nodes() as u32;
            let pairs = nodes.clone().flat_map(|node| nodes.clone().map(move |home| (node, home)));
            let stalls = |(node, home)| p.memory_stall(p.compulsory, numa.cycles(node, home));
            p.steady = pairs.map(|pair| p.own(p.compulsory, stalls(pair), &model.smt)).collect();
        }
        p
    }

    /// Exposed cycles in LLC and DRAM, without queueing.
    pub fn memory_stall(&self, missing: f64, dram_cycles: f64) -> f64 {
        self.references * ((1.0 - missing) * self.llc_stall + missing * exposed(dram_cycles, self.hidden))
    }

    /// Its own costs with this share of misses and these stalls per instruction.
    pub fn own(&self, missing: f64, stalls: f64, smt: &Smt) -> Own {
        let cpi = self.compute + stalls;
        Own { memory: self.demand(cpi, missing), slots: smt::demand(cpi, smt) }
    }

    /// Its use of a node's memory.
    pub fn demand(&self, base_cpi: f64, missing: f64) -> Demand {
        Demand { rows: self.rows, ..Demand::new(base_cpi, self.references * missing, self.hidden) }
    }
}

/// A program's data in the private levels, if its file and the machine's define it.
fn footprints(c: &Character, model: &MachineModel, numa: &Numa, hidden: f64) -> [Footprint; LEVELS] {
    let mut both = <[Footprint; LEVELS]>::default();
    let kept = c.memory.private_refs_pki / 1e3;
    if c.memory.private == 0 {
        return both;
    }
    if let Some(bandwidth) = model.fill_bandwidth {
        let fill = LINE * 1e9 / bandwidth as f64 * model.ghz;
        let line = |cycles: f64| exposed(cycles, hidden).max(fill);
        both[0] = Footprint {
            bytes: c.memory.private.min(model.l2_bytes) as f64,
            references: kept,
            near: line(model.latency.llc_ns as f64 * model.ghz),
            far: line(numa.cycles(0, 0)),
        };
    }
    if let Some(tlb) = model.tlb {
        // One walk for all lines of a page.
        let walk = exposed(tlb.walk_ns as f64 * model.ghz, hidden) * LINE / PAGE;
        both[1] = Footprint {
            bytes: (c.memory.private.saturating_add(c.working_set) as f64).min(tlb.entries * PAGE),
            references: kept + c.llc_refs_pki / 1e3 * (1.0 - c.compulsory.clamp(0.0, 1.0)),
            near: walk,
            far: walk,
        };
    }
    both
}

/// A loop that polls a flag in its own L1: many branches, hardly any mispredicted (PACT'16 §2.1), a third of a core.
pub fn spinning(model: &MachineModel, numa: &Numa, memory: &Memory) -> Profile {
    let character = Character {
        ipc: 1.0,
        branches_pki: 400.0,
        mispredicts: 0.0001,
        llc_refs_pki: 0.0,
        working_set: 0,
        compulsory: 0.0,
        coherence_pki: 0.0,
        hidden: 0.0,
        hot_lines: 0,
        memory: MemoryUse::default(),
    };
    Profile::new(&character, model, numa, memory)
}
