//! Machine files (`machines/*.toml`): a machine's shape with its sizes, latencies, bandwidths, costs and power.
//!
//! A file gives the shape and may leave out any figure: what it leaves out gets the default written beside the
//! field below, and [`MachineModel::assumed`] names it, so that a report can say which figures nobody measured.
//! Limits: regular machines only (every socket alike, one kind of core), one clock (no turbo, no frequency
//! scaling), every cache of a level of one size.

use corun_model::duration::{parse_bytes, parse_ns};
use corun_model::machine::Cpu;
use corun_model::workload::{line_at, line_of, line_saying};
use corun_model::{CpuId, Machine};
use serde::Deserialize;
use thiserror::Error;

/// A modelled machine.
#[derive(Clone, Debug, PartialEq)]
pub struct MachineModel {
    /// Its shape and name.
    pub machine: Machine,
    /// What it stands for, and what in it is published, measured or assumed.
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
    /// Hyperthreads.
    pub smt: Smt,
    /// What the kernel's own work costs.
    pub costs: Costs,
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
    /// What such a transfer takes beyond that from a core of the same LLC domain (40).
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

/// What the kernel's own work costs, in nanoseconds.
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
}

impl Default for Costs {
    fn default() -> Costs {
        Costs { switch_ns: 1_500, wake_ns: 1_500, block_ns: 800, idle_exit_ns: 4_000, preempt_ns: 1_500 }
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

/// What was measured on a live machine, field by field; `None`: not measured.
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
    /// What is wrong and what to do, in one sentence.
    pub what: String,
}

/// The machine files that corun brings along: the machines of the papers.
pub const SHIPPED: [(&str, &str); 6] = [
    ("arms16-i7-950", include_str!("../../../machines/arms16-i7-950.toml")),
    ("atc16-haswell-80", include_str!("../../../machines/atc16-haswell-80.toml")),
    ("atc16-ivybridge-40", include_str!("../../../machines/atc16-ivybridge-40.toml")),
    ("cc-magny-cours-48", include_str!("../../../machines/cc-magny-cours-48.toml")),
    ("cc-sandybridge", include_str!("../../../machines/cc-sandybridge.toml")),
    ("pact16-xeon-e5620", include_str!("../../../machines/pact16-xeon-e5620.toml")),
];

/// Bounds that keep a typing slip from asking for a million CPUs.
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

    /// A live machine's model: its shape, what was measured on it, and defaults for the rest.
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
            },
            smt: Smt::default(),
            power: None,
            assumed: Vec::new(),
            machine,
        };
        // A remote access is never nearer than a local one, whatever was measured.
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

    /// Reads the text of a machine file; `file` is only named in errors.
    ///
    /// # Errors
    /// [`BadMachineFile`] with file, line and remedy.
    pub fn parse(file: &str, text: &str) -> Result<MachineModel, BadMachineFile> {
        let at = |line, what: String| BadMachineFile { file: file.to_string(), line, what };
        let read: File = toml::from_str(text).map_err(|e| {
            let what = e.message().lines().collect::<Vec<_>>().join(" ");
            let start = e.span().map_or(0, |s| s.start.min(text.len()));
            at(line_at(text, start, &what), what)
        })?;
        if read.schema != "corun.machine/1" {
            let what = format!("schema is `{}`, this corun reads `corun.machine/1`", read.schema);
            return Err(at(line_of(text, "schema"), what));
        }
        read.model().map_err(|(key, what)| at(line_saying(text, key, &what), what))
    }
}

/// A machine file as written.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct File {
    schema: String,
    name: String,
    #[serde(default)]
    about: String,
    shape: Shape,
    #[serde(default)]
    clock: Clock,
    #[serde(default)]
    cache: Cache,
    #[serde(default)]
    latency: LatencyFile,
    #[serde(default)]
    memory: Memory,
    #[serde(default)]
    smt: SmtFile,
    #[serde(default)]
    costs: CostsFile,
    power: Option<PowerFile>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Shape {
    sockets: u32,
    #[serde(default = "one")]
    llcs_per_socket: u32,
    cores_per_llc: u32,
    #[serde(default = "one")]
    threads_per_core: u32,
    /// NUMA nodes per socket; absent: one per LLC domain.
    nodes_per_socket: Option<u32>,
    #[serde(default)]
    node_distance: Vec<Vec<u32>>,
}

fn one() -> u32 {
    1
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Clock {
    ghz: Option<f64>,
    tick: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Cache {
    l1: Option<String>,
    l2: Option<String>,
    llc: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct LatencyFile {
    l2: Option<String>,
    llc: Option<String>,
    transfer_fixed: Option<String>,
    transfer_llc: Option<String>,
    transfer_socket: Option<String>,
    transfer_remote: Option<String>,
    dram_local: Option<String>,
    dram_remote: Option<String>,
    dram_busy: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Memory {
    /// Bytes per second, written as `20GB/s`.
    node_bandwidth: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct SmtFile {
    throughput: Option<f64>,
    peak_ipc: Option<f64>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct CostsFile {
    switch: Option<String>,
    wake: Option<String>,
    block: Option<String>,
    idle_exit: Option<String>,
    preempt: Option<String>,
}

/// Watts, per core and per package.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct PowerFile {
    core_idle_w: f64,
    core_active_w: f64,
    package_idle_w: f64,
    package_active_w: f64,
}

/// The key at fault and one sentence with the remedy.
type Bad = (&'static str, String);

impl File {
    fn model(self) -> Result<MachineModel, Bad> {
        let machine = self.shape.machine(&self.name)?;
        let mut read = Reader { assumed: Vec::new() };
        let (l, c) = (Latency::default(), Costs::default());
        let (lf, cf) = (&self.latency, &self.costs);
        let latency = Latency {
            l2_ns: read.ns("latency.l2", &lf.l2, l.l2_ns)?,
            llc_ns: read.ns("latency.llc", &lf.llc, l.llc_ns)?,
            transfer_fixed_ns: read.ns("latency.transfer-fixed", &lf.transfer_fixed, l.transfer_fixed_ns)?,
            transfer_llc_ns: read.ns("latency.transfer-llc", &lf.transfer_llc, l.transfer_llc_ns)?,
            transfer_socket_ns: read.ns(
                "latency.transfer-socket",
                &lf.transfer_socket,
                l.transfer_socket_ns,
            )?,
            transfer_remote_ns: read.ns(
                "latency.transfer-remote",
                &lf.transfer_remote,
                l.transfer_remote_ns,
            )?,
            dram_local_ns: read.ns("latency.dram-local", &lf.dram_local, l.dram_local_ns)?,
            dram_remote_ns: read.ns("latency.dram-remote", &lf.dram_remote, l.dram_remote_ns)?,
            dram_busy_ns: read.ns("latency.dram-busy", &lf.dram_busy, l.dram_busy_ns)?,
        };
        if latency.dram_remote_ns < latency.dram_local_ns {
            return Err((
                "dram-remote",
                "dram-remote is below dram-local; the farthest node cannot be nearer".into(),
            ));
        }
        let costs = Costs {
            switch_ns: read.ns("costs.switch", &cf.switch, c.switch_ns)?,
            wake_ns: read.ns("costs.wake", &cf.wake, c.wake_ns)?,
            block_ns: read.ns("costs.block", &cf.block, c.block_ns)?,
            idle_exit_ns: read.ns("costs.idle-exit", &cf.idle_exit, c.idle_exit_ns)?,
            preempt_ns: read.ns("costs.preempt", &cf.preempt, c.preempt_ns)?,
        };
        let smt = Smt {
            throughput: read.number("smt.throughput", self.smt.throughput, 1.15, 1.0, 2.0)?,
            peak_ipc: read.number("smt.peak-ipc", self.smt.peak_ipc, 3.0, 0.1, 16.0)?,
        };
        let bandwidth = self.memory.node_bandwidth.map(|t| t.trim_end_matches("/s").to_string());
        let model = MachineModel {
            machine,
            about: self.about,
            ghz: read.number("clock.ghz", self.clock.ghz, 3.0, 0.01, 20.0)?,
            tick_ns: read.ns("clock.tick", &self.clock.tick, 4_000_000)?,
            l1_bytes: read.bytes("cache.l1", &self.cache.l1, 32 << 10)?,
            l2_bytes: read.bytes("cache.l2", &self.cache.l2, 1 << 20)?,
            llc_bytes: read.bytes("cache.llc", &self.cache.llc, 32 << 20)?,
            node_bandwidth: read.bytes("memory.node-bandwidth", &bandwidth, 20_000_000_000)?,
            latency,
            smt,
            costs,
            power: self.power.map(|p| p.milliwatts()).transpose()?,
            assumed: read.assumed,
        };
        for (key, zero) in [
            ("tick", model.tick_ns == 0),
            ("llc", model.llc_bytes == 0),
            ("node-bandwidth", model.node_bandwidth == 0),
        ] {
            if zero {
                return Err((key, format!("{key} is 0; leave it out to get the default")));
            }
        }
        Ok(model)
    }
}

impl Shape {
    fn machine(&self, name: &str) -> Result<Machine, Bad> {
        let levels = [
            ("sockets", self.sockets),
            ("llcs-per-socket", self.llcs_per_socket),
            ("cores-per-llc", self.cores_per_llc),
            ("threads-per-core", self.threads_per_core),
            ("nodes-per-socket", self.nodes_per_socket.unwrap_or(1)),
        ];
        if let Some((key, _)) = levels.iter().find(|(_, n)| *n == 0) {
            return Err((key, format!("{key} is 0; a machine needs at least 1")));
        }
        let count = levels[..4].iter().fold(1u64, |n, (_, x)| n.saturating_mul(u64::from(*x)));
        if count > MAX_CPUS {
            return Err(("sockets", format!("this makes {count} CPUs; at most {MAX_CPUS} are allowed")));
        }
        let nodes = self.nodes_per_socket.unwrap_or(self.llcs_per_socket);
        if self.llcs_per_socket % nodes != 0 {
            let what = format!(
                "nodes-per-socket is {nodes}, which does not divide the {} LLC domains of a socket",
                self.llcs_per_socket
            );
            return Err(("nodes-per-socket", what));
        }
        let (per_node, cores) =
            (self.llcs_per_socket / nodes, self.sockets * self.llcs_per_socket * self.cores_per_llc);
        // Cores first and hyperthreads last, as Linux numbers them.
        let cpus = (0..self.threads_per_core * cores)
            .map(|id| {
                let core = id % cores;
                let llc = core / self.cores_per_llc;
                Cpu { id: CpuId(id), core, llc, socket: llc / self.llcs_per_socket, node: llc / per_node }
            })
            .collect();
        let count = (self.sockets * nodes) as usize;
        if !self.node_distance.is_empty() && self.node_distance.len() != count {
            let what = format!("node-distance has {} rows for {count} NUMA nodes", self.node_distance.len());
            return Err(("node-distance", what));
        }
        let table = self.node_distance.clone();
        if let Some((i, _)) = table.iter().enumerate().find(|(i, row)| row.get(*i) != Some(&10)) {
            let what = format!("node-distance[{i}][{i}] is not 10, the distance of a node to itself");
            return Err(("node-distance", what));
        }
        if table.iter().flatten().any(|d| *d < 10) {
            return Err(("node-distance", "a node-distance is below 10, which is local".into()));
        }
        Machine::new(name, cpus, table).map_err(|e| ("node-distance", e.to_string()))
    }
}

impl PowerFile {
    fn milliwatts(&self) -> Result<Power, Bad> {
        let milliwatts = |key: &'static str, w: f64| match w {
            w if (0.0..=100_000.0).contains(&w) => Ok((w * 1e3 + 0.5) as u64),
            w => Err((key, format!("{key} is {w}; give watts from 0 to 100000"))),
        };
        Ok(Power {
            core_idle_mw: milliwatts("core-idle-w", self.core_idle_w)?,
            core_active_mw: milliwatts("core-active-w", self.core_active_w)?,
            package_idle_mw: milliwatts("package-idle-w", self.package_idle_w)?,
            package_active_mw: milliwatts("package-active-w", self.package_active_w)?,
        })
    }
}

/// Reads values with units and notes which were left out.
struct Reader {
    assumed: Vec<&'static str>,
}

impl Reader {
    fn ns(&mut self, name: &'static str, text: &Option<String>, default: u64) -> Result<u64, Bad> {
        self.value(name, text, default, parse_ns)
    }

    fn bytes(&mut self, name: &'static str, text: &Option<String>, default: u64) -> Result<u64, Bad> {
        self.value(name, text, default, parse_bytes)
    }

    fn value(
        &mut self,
        name: &'static str,
        text: &Option<String>,
        default: u64,
        parse: fn(&str) -> Result<u64, String>,
    ) -> Result<u64, Bad> {
        match text {
            Some(text) => parse(text).map_err(|what| (key(name), what)),
            None => {
                self.assumed.push(name);
                Ok(default)
            }
        }
    }

    fn number(
        &mut self,
        name: &'static str,
        x: Option<f64>,
        default: f64,
        low: f64,
        high: f64,
    ) -> Result<f64, Bad> {
        match x {
            Some(x) if (low..=high).contains(&x) => Ok(x),
            Some(x) => Err((key(name), format!("{} is {x}; give a number from {low} to {high}", key(name)))),
            None => {
                self.assumed.push(name);
                Ok(default)
            }
        }
    }
}

/// The key of `section.key`.
fn key(name: &'static str) -> &'static str {
    name.split_once('.').map_or(name, |(_, key)| key)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str = r#"
schema = "corun.machine/1"
name = "small"

[shape]
sockets = 2
cores-per-llc = 2
threads-per-core = 2
node-distance = [[10, 21], [21, 10]]

[clock]
ghz = 2.5

[latency]
dram-local = "70ns"
"#;

    #[test]
    fn a_file_gives_the_shape_and_says_what_it_left_to_defaults() {
        let m = MachineModel::parse("small.toml", SMALL).unwrap();
        assert_eq!((m.machine.cpu_count(), m.machine.count(|c| c.node)), (8, 2));
        assert_eq!((m.machine.node_distance(0, 1), m.ghz, m.latency.dram_local_ns), (Some(21), 2.5, 70));
        assert!(m.assumed.contains(&"latency.dram-remote") && !m.assumed.contains(&"latency.dram-local"));
        assert!(m.assumed.contains(&"cache.llc") && m.power.is_none());
    }

    fn refusal(from: &str, to: &str) -> String {
        assert!(SMALL.contains(from));
        MachineModel::parse("m.toml", &SMALL.replace(from, to)).unwrap_err().to_string()
    }

    #[test]
    fn bad_input_is_one_sentence_with_file_and_line() {
        assert_eq!(
            refusal("sockets = 2", "sockets = 0"),
            "m.toml:6: sockets is 0; a machine needs at least 1"
        );
        assert_eq!(
            refusal("\"70ns\"", "\"70\""),
            "m.toml:15: `70` is not a time with its unit, such as 500us, 10ms or 2s"
        );
        assert_eq!(refusal("ghz = 2.5", "ghz = 0"), "m.toml:12: ghz is 0; give a number from 0.01 to 20");
        assert!(refusal("sockets = 2", "sockets = 4000").contains("this makes 16000 CPUs; at most 8192"));
        assert!(refusal("[[10, 21], [21, 10]]", "[[10]]").starts_with("m.toml:9: node-distance has 1 rows"));
        assert!(refusal("[[10, 21], [21, 10]]", "[[10, 5], [5, 10]]").contains("below 10"));
        assert!(refusal("ghz =", "gigahertz =").contains("unknown field `gigahertz`"));
        assert!(refusal("machine/1", "machine/7").starts_with("m.toml:2: schema is `corun.machine/7`"));
    }

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
    fn a_host_says_which_of_its_figures_nobody_measured() {
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
