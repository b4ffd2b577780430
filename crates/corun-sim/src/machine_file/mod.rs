//! Machine files (`machines/*.toml`): a machine's shape with its sizes, latencies, bandwidths, costs and power.
//!
//! A file gives the shape and may leave out any figure. A missing figure gets the default written at the field below, and
//! [`MachineModel::assumed`] names it, so that a report can list the figures that were not measured. Limits: regular machines only (all
//! sockets equal, one kind of core), one clock (no turbo, no frequency scaling), and one size for all caches of a level.

mod read;

use corun_model::{Linux, Machine};
use thiserror::Error;

/// A modelled machine.
#[derive(Clone, Debug, PartialEq)]
pub struct MachineModel {
    /// Its shape and name.
    pub machine: Machine,
    /// A description, and which of its values are published, measured or assumed.
    pub about: String,
    /// Core clock in cycles per nanosecond (3.0).
    pub ghz: f64,
    /// The scheduler's tick in nanoseconds (4 ms, which is HZ=250).
    pub tick_ns: u64,
    /// Private L1 data cache per core, in bytes (32 KiB).
    pub l1_bytes: u64,
    /// Private L2 cache per core, in bytes (1 MiB).
    pub l2_bytes: u64,
    /// Last-level cache per LLC domain, in bytes (32 MiB).
    pub llc_bytes: u64,
    /// How long an access takes, by where it is served.
    pub latency: Latency,
    /// DRAM bandwidth of a node that programs can reach, in bytes per second (20 GB/s).
    pub node_bandwidth: u64,
    /// Capacity of a link between two nodes in one direction, in bytes per second. `None` if requests never wait for one.
    pub link_bandwidth: Option<u64>,
    /// Bandwidth with which a core's private caches are filled from the last-level cache, in bytes per second. `None` if they are
    /// always warm.
    pub fill_bandwidth: Option<u64>,
    /// The TLB of a core; `None`: it holds all pages whenever a task comes.
    pub tlb: Option<Tlb>,
    /// Rows of DRAM; `None`: every line takes equally long.
    pub rows: Option<Rows>,
    /// Hyperthreads.
    pub smt: Smt,
    /// The costs of the kernel's own work.
    pub costs: Costs,
    /// The release of Linux for CFS's placement and balancing. `None` for the last with CFS.
    pub linux: Option<Linux>,
    /// Power by state; `None`: the machine's energy is unknown.
    pub power: Option<Power>,
    /// Figures that neither a file nor a measurement gave, as `section.field`: they have their defaults.
    pub assumed: Vec<&'static str>,
}

/// How long an access takes, by where it is served, in nanoseconds on an unloaded machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Latency {
    /// A hit in the private L2 (4).
    pub l2_ns: u64,
    /// A hit in the last-level cache (17).
    pub llc_ns: u64,
    /// Any transfer of a line that another core has written: the part that no program hides, because ordered
    /// stores must drain first (50).
    pub transfer_fixed_ns: u64,
    /// The additional latency of such a transfer, beyond one from a core of the same LLC domain (40).
    pub transfer_llc_ns: u64,
    /// The same from another LLC domain of the socket (100).
    pub transfer_socket_ns: u64,
    /// The same from another socket (250).
    pub transfer_remote_ns: u64,
    /// DRAM of the own NUMA node (80).
    pub dram_local_ns: u64,
    /// DRAM of the farthest NUMA node (130).
    pub dram_remote_ns: u64,
    /// How long DRAM is busy with one line while others queue for it; sets how soon load lengthens latency (20).
    pub dram_busy_ns: u64,
}

impl Default for Latency {
    fn default() -> Latency {
        Latency {
            l2_ns: 4,
            llc_ns: 17,
            transfer_fixed_ns: 50,
            transfer_llc_ns: 40,
            transfer_socket_ns: 100,
            transfer_remote_ns: 250,
            dram_local_ns: 80,
            dram_remote_ns: 130,
            dram_busy_ns: 20,
        }
    }
}

/// Rows of DRAM.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rows {
    /// Banks of a node, of which each has a row open.
    pub banks: f64,
    /// The part of a node's bandwidth that is left when no access finds its row open, above 0 and at most 1.
    pub closed: f64,
}

/// A core's TLB for data, all levels together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tlb {
    /// Pages of 4 KiB that it holds.
    pub entries: f64,
    /// How long it takes to look one up in the page tables.
    pub walk_ns: u64,
}

/// How hyperthreads share a core.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Smt {
    /// Throughput of two threads on one core that would each saturate it alone, relative to one of them, 1..=2 (1.15).
    pub throughput: f64,
    /// Instructions per cycle at which one thread saturates a core (3.0).
    pub peak_ipc: f64,
}

impl Default for Smt {
    fn default() -> Smt {
        Smt { throughput: 1.15, peak_ipc: 3.0 }
    }
}

/// The costs of the kernel's own work, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Costs {
    /// A context switch: charged to the task that comes (1,500).
    pub switch_ns: u64,
    /// Waking one task: charged to the waker (1,500).
    pub wake_ns: u64,
    /// Going to sleep in the kernel: charged to the sleeper (800).
    pub block_ns: u64,
    /// From the wake-up of a task on an idle CPU to its first instruction: idle exit, interrupt (4,000).
    pub idle_exit_ns: u64,
    /// From a preemption's decision on another busy CPU to the switch: interrupt (1,500).
    pub preempt_ns: u64,
    /// A sleep ends late by up to this time (0: a machine without noise).
    pub timer_late_ns: u64,
    /// For how long a CPU is taken for something else, on average (0).
    pub noise_ns: u64,
    /// How often that happens to a busy CPU, on average (0: never).
    pub noise_every_ns: u64,
}

impl Default for Costs {
    fn default() -> Costs {
        Costs {
            switch_ns: 1_500,
            wake_ns: 1_500,
            block_ns: 800,
            idle_exit_ns: 4_000,
            preempt_ns: 1_500,
            timer_late_ns: 0,
            noise_ns: 0,
            noise_every_ns: 0,
        }
    }
}

/// Power by state, in milliwatts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Power {
    /// A core that runs nothing.
    pub core_idle_mw: u64,
    /// A core that runs one thread or more, computing, stalled or spinning.
    pub core_active_mw: u64,
    /// The rest of a package (caches, memory controller, links) while all its cores are idle.
    pub package_idle_mw: u64,
    /// The same while any core runs.
    pub package_active_mw: u64,
}

/// Figures measured on a live machine. `None` if not measured.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Measured {
    /// Core clock in cycles per nanosecond.
    pub ghz: Option<f64>,
    /// The scheduler's tick in nanoseconds.
    pub tick_ns: Option<u64>,
    /// L1 data cache per core, in bytes.
    pub l1_bytes: Option<u64>,
    /// L2 cache per core, in bytes.
    pub l2_bytes: Option<u64>,
    /// Last-level cache per domain, in bytes.
    pub llc_bytes: Option<u64>,
    /// A hit in the last-level cache, in nanoseconds.
    pub llc_ns: Option<u64>,
    /// A transfer from a core of the same LLC domain, in nanoseconds, in all.
    pub transfer_llc_ns: Option<u64>,
    /// A transfer from another socket, in nanoseconds, in all.
    pub transfer_remote_ns: Option<u64>,
    /// Local DRAM, in nanoseconds.
    pub dram_local_ns: Option<u64>,
    /// DRAM bandwidth of a node, in bytes per second.
    pub node_bandwidth: Option<u64>,
    /// A context switch, in nanoseconds.
    pub switch_ns: Option<u64>,
    /// Waking one task, in nanoseconds.
    pub wake_ns: Option<u64>,
    /// Going to sleep, in nanoseconds.
    pub block_ns: Option<u64>,
    /// Idle exit, in nanoseconds.
    pub idle_exit_ns: Option<u64>,
    /// Preemption of another CPU, in nanoseconds.
    pub preempt_ns: Option<u64>,
}

/// A machine file that cannot be used.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{file}:{line}: {what}")]
pub struct BadMachineFile {
    /// The file's name as given.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// The error and the remedy, in one sentence.
    pub what: String,
}

/// The machine files that corun brings along: the machines of the papers.
pub const SHIPPED: [(&str, &str); 6] = [
    ("arms16-i7-950", include_str!("../../../../machines/arms16-i7-950.toml")),
    ("atc16-haswell-80", include_str!("../../../../machines/atc16-haswell-80.toml")),
    ("atc16-ivybridge-40", include_str!("../../../../machines/atc16-ivybridge-40.toml")),
    ("cc-magny-cours-48", include_str!("../../../../machines/cc-magny-cours-48.toml")),
    ("cc-sandybridge", include_str!("../../../../machines/cc-sandybridge.toml")),
    ("pact16-xeon-e5620", include_str!("../../../../machines/pact16-xeon-e5620.toml")),
];

/// A bound, so that a typo does not ask for a million CPUs.
pub const MAX_CPUS: u64 = 8_192;

impl MachineModel {
    /// One of the machines of the papers, by name; `None` for another name.
    pub fn shipped(name: &str) -> Option<MachineModel> {
        let (name, text) = SHIPPED.iter().find(|(n, _)| *n == name)?;
        Some(
            MachineModel::parse(&format!("{name}.toml"), text)
                .expect("shipped machine files are well formed"),
        )
    }

    /// A machine of a given shape with the default figures: for tests and benchmarks.
    pub fn of(machine: Machine) -> MachineModel {
        MachineModel::host(machine, &Measured::default())
    }

    /// A live machine's model: its shape, its measured figures, and defaults for the rest.
    pub fn host(machine: Machine, measured: &Measured) -> MachineModel {
        let mut assumed = vec!["latency.l2", "latency.transfer-socket", "latency.dram-busy", "smt", "power"];
        let (latency, costs) = (Latency::default(), Costs::default());
        let mut take = |name, value: Option<u64>, default| {
            value.unwrap_or_else(|| {
                assumed.push(name);
                default
            })
        };
        let fixed = latency.transfer_fixed_ns;
        let beyond = |total: Option<u64>| total.map(|ns| ns.saturating_sub(fixed));
        let mut model = MachineModel {
            about: String::new(),
            ghz: measured.ghz.unwrap_or(3.0),
            tick_ns: take("clock.tick", measured.tick_ns, 4_000_000),
            l1_bytes: take("cache.l1", measured.l1_bytes, 32 << 10),
            l2_bytes: take("cache.l2", measured.l2_bytes, 1 << 20),
            llc_bytes: take("cache.llc", measured.llc_bytes, 32 << 20),
            node_bandwidth: take("memory.node-bandwidth", measured.node_bandwidth, 20_000_000_000),
            link_bandwidth: None,
            fill_bandwidth: None,
            tlb: None,
            rows: None,
            latency: Latency {
                llc_ns: take("latency.llc", measured.llc_ns, latency.llc_ns),
                transfer_llc_ns: take(
                    "latency.transfer-llc",
                    beyond(measured.transfer_llc_ns),
                    latency.transfer_llc_ns,
                ),
                transfer_remote_ns: take(
                    "latency.transfer-remote",
                    beyond(measured.transfer_remote_ns),
                    latency.transfer_remote_ns,
                ),
                dram_local_ns: take("latency.dram-local", measured.dram_local_ns, latency.dram_local_ns),
                ..latency
            },
            costs: Costs {
                switch_ns: take("costs.switch", measured.switch_ns, costs.switch_ns),
                wake_ns: take("costs.wake", measured.wake_ns, costs.wake_ns),
                block_ns: take("costs.block", measured.block_ns, costs.block_ns),
                idle_exit_ns: take("costs.idle-exit", measured.idle_exit_ns, costs.idle_exit_ns),
                preempt_ns: take("costs.preempt", measured.preempt_ns, costs.preempt_ns),
                ..costs
            },
            smt: Smt::default(),
            linux: None,
            power: None,
            assumed: Vec::new(),
            machine,
        };
        // A remote access is never faster than a local one, whatever the measurement says.
        model.latency.dram_remote_ns = model.latency.dram_remote_ns.max(model.latency.dram_local_ns);
        if measured.ghz.is_none() {
            assumed.push("clock.ghz");
        }
        if model.machine.count(|c| c.node) > 1 {
            assumed.push("latency.dram-remote");
        }
        assumed.sort_unstable();
        model.assumed = assumed;
        model
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corun_model::machine::Cpu;

    #[test]
    fn the_machines_of_the_papers_have_the_shapes_that_the_papers_give() {
        let shape = |name: &str| {
            let m = MachineModel::shipped(name).unwrap();
            let count = |f: fn(&Cpu) -> u32| m.machine.count(f);
            (count(|c| c.socket), count(|c| c.llc), count(|c| c.core), m.machine.cpu_count(), m.ghz)
        };
        assert_eq!(shape("pact16-xeon-e5620"), (2, 2, 8, 8, 2.4));
        assert_eq!(shape("atc16-ivybridge-40"), (2, 2, 20, 40, 2.2));
        assert_eq!(shape("atc16-haswell-80"), (4, 4, 40, 80, 1.9));
        assert_eq!(shape("arms16-i7-950"), (1, 1, 4, 8, 3.06));
        assert_eq!(shape("cc-magny-cours-48").3, 48);
        assert_eq!(shape("cc-magny-cours-48").1, 8);
        assert_eq!(shape("cc-sandybridge").3, 32);
        for (name, _) in SHIPPED {
            assert_eq!(MachineModel::shipped(name).unwrap().machine.name, name);
        }
        assert!(MachineModel::shipped("no-such-machine").is_none());
    }

    #[test]
    fn a_host_lists_its_figures_that_were_not_measured() {
        let measured = Measured {
            ghz: Some(2.6),
            transfer_llc_ns: Some(110),
            dram_local_ns: Some(150),
            ..Measured::default()
        };
        let m = MachineModel::host(Machine::synthetic(1, 1, 2, 1), &measured);
        assert_eq!((m.ghz, m.latency.transfer_llc_ns), (2.6, 60));
        assert!(m.latency.dram_remote_ns >= m.latency.dram_local_ns);
        assert!(!m.assumed.contains(&"clock.ghz") && m.assumed.contains(&"costs.switch"));
    }
}
