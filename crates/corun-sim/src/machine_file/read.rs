//! Reads a machine file's text, with defaults for missing figures, and their names. A bad file is refused in one sentence with file,
//! line and remedy.

use super::{BadMachineFile, Costs, Latency, MachineModel, Power, Rows, Smt, Tlb, MAX_CPUS};
use crate::sched::Kernel;
use corun_model::duration::{human_ns, parse_bytes, parse_ns};
use corun_model::machine::Cpu;
use corun_model::workload::{read_file, BadKey};
use corun_model::{CpuId, Linux, Machine};
use serde::Deserialize;

impl MachineModel {
    /// Reads the text of a machine file; `file` is only named in errors.
    ///
    /// # Errors
    /// [`BadMachineFile`] with file, line and remedy.
    pub fn parse(file: &str, text: &str) -> Result<MachineModel, BadMachineFile> {
        let at = |line, what: String| BadMachineFile { file: file.to_string(), line, what };
        let read: File = read_file("corun.machine/1", text).map_err(|(line, what)| at(line, what))?;
        read.model().map_err(|bad| at(bad.line(text), bad.what))
    }
}

/// Bounds, so that a typo does not make a machine that only ticks, or never makes progress.
const LEAST_TICK_NS: u64 = 1_000;
const LEAST_BANDWIDTH: u64 = 1_000_000;
const MOST_NS: u64 = 1_000_000_000;
const MOST_COST_NS: u64 = 10_000_000;
/// Linux supports no more nodes, and the table of their distances has the square of it.
const MOST_NODES: u32 = 1024;
/// The largest distance that firmware can give; 255 means unreachable.
const FARTHEST: u32 = 254;

/// A machine file as written.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct File {
    #[serde(rename = "schema")]
    _schema: String,
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
    #[serde(default)]
    kernel: KernelFile,
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
    /// Bytes per second, written as `20GB/s`.
    fill_bandwidth: Option<String>,
    /// Pages that a core's TLB holds, and the cost of looking up another one.
    tlb_entries: Option<u32>,
    tlb_walk: Option<String>,
}

/// More pages than any TLB holds.
const MOST_ENTRIES: u32 = 1 << 20;

impl Cache {
    fn tlb(&self, read: &mut Reader) -> Result<Option<Tlb>, Bad> {
        let entries = match (self.tlb_entries, &self.tlb_walk) {
            (None, None) => return Ok(None),
            (Some(entries), Some(_)) => entries,
            (entries, _) => {
                let key = if entries.is_some() { "tlb-entries" } else { "tlb-walk" };
                return Err(BadKey::new(key, "tlb-entries and tlb-walk go together; give both or neither"));
            }
        };
        if !(1..=MOST_ENTRIES).contains(&entries) {
            let remedy = format!("; give a number from 1 to {MOST_ENTRIES}");
            return Err(BadKey::is("tlb-entries", entries, remedy));
        }
        let walk_ns = read.ns("cache.tlb-walk", &self.tlb_walk, 0)?;
        Ok(Some(Tlb { entries: f64::from(entries), walk_ns }))
    }
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
    /// The same, for the capacity of a link between nodes in one direction.
    link_bandwidth: Option<String>,
    /// Banks of a node, and the remaining share of its bandwidth when no access finds its row open.
    banks: Option<u32>,
    closed_rows: Option<f64>,
}

/// More banks than any node has.
const MOST_BANKS: u32 = 4_096;

impl Memory {
    fn rows(&self) -> Result<Option<Rows>, Bad> {
        let (banks, closed) = match (self.banks, self.closed_rows) {
            (None, None) => return Ok(None),
            (Some(banks), Some(closed)) => (banks, closed),
            (banks, _) => {
                let key = if banks.is_some() { "banks" } else { "closed-rows" };
                return Err(BadKey::new(key, "banks and closed-rows go together; give both or neither"));
            }
        };
        if !(1..=MOST_BANKS).contains(&banks) {
            return Err(BadKey::is("banks", banks, format!("; give a number from 1 to {MOST_BANKS}")));
        }
        if !(0.01..=1.0).contains(&closed) {
            return Err(BadKey::is("closed-rows", format!("{closed:?}"), "; give a share from 0.01 to 1"));
        }
        Ok(Some(Rows { banks: f64::from(banks), closed }))
    }
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
    timer_late: Option<String>,
    noise: Option<String>,
    noise_every: Option<String>,
}

/// Which Linux runs there.
#[derive(Deserialize, Default)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct KernelFile {
    linux: Option<Linux>,
}

impl KernelFile {
    fn linux(&self) -> Result<Option<Linux>, Bad> {
        match self.linux {
            Some(linux) if Kernel::of(linux).is_none() => {
                let what = "only the placement and balancing of 2.6.32, 3.8 and 3.14 have separate models";
                Err(BadKey::new("linux", format!("{what}; give one of these, or leave it out")))
            }
            linux => Ok(linux),
        }
    }
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

type Bad = BadKey;

impl File {
    fn model(self) -> Result<MachineModel, Bad> {
        let machine = self.shape.machine(&self.name)?;
        let (mut read, mut none) = (Reader { assumed: Vec::new() }, Reader { assumed: Vec::new() });
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
            // A missing figure has no line.
            let key = if lf.dram_remote.is_some() { "dram-remote" } else { "dram-local" };
            let (local, remote) = (latency.dram_local_ns, latency.dram_remote_ns);
            let remedy = "the farthest node cannot be nearer; give a dram-remote of at least as much";
            let what = format!("dram-local is {local} ns and dram-remote {remote} ns, but {remedy}");
            return Err(BadKey::new(key, what));
        }
        let costs = Costs {
            switch_ns: read.ns("costs.switch", &cf.switch, c.switch_ns)?,
            wake_ns: read.ns("costs.wake", &cf.wake, c.wake_ns)?,
            block_ns: read.ns("costs.block", &cf.block, c.block_ns)?,
            idle_exit_ns: read.ns("costs.idle-exit", &cf.idle_exit, c.idle_exit_ns)?,
            preempt_ns: read.ns("costs.preempt", &cf.preempt, c.preempt_ns)?,
            // The default is none; nothing is assumed.
            timer_late_ns: none.ns("costs.timer-late", &cf.timer_late, 0)?,
            noise_ns: none.ns("costs.noise", &cf.noise, 0)?,
            noise_every_ns: none.ns("costs.noise-every", &cf.noise_every, 0)?,
        };
        if (costs.noise_ns == 0) != (costs.noise_every_ns == 0) {
            // A missing figure has no line.
            let key = if cf.noise.is_some() { "noise" } else { "noise-every" };
            let what = "noise and noise-every are how long and how often; give both or neither";
            return Err(BadKey::new(key, what));
        }
        if costs.noise_ns > costs.noise_every_ns / 2 {
            let what = "noise lasts longer than half of noise-every, so the CPUs would do little else";
            return Err(BadKey::new("noise", format!("{what}; give it less, or a longer noise-every")));
        }
        let smt = Smt {
            throughput: read.number("smt.throughput", self.smt.throughput, 1.15, 1.0, 2.0)?,
            peak_ipc: read.number("smt.peak-ipc", self.smt.peak_ipc, 3.0, 0.1, 16.0)?,
        };
        let rows = self.memory.rows()?;
        let tlb = self.cache.tlb(&mut none)?;
        let per_second = |t: String| t.trim_end_matches("/s").to_string();
        let bandwidth = self.memory.node_bandwidth.map(per_second);
        // Without a figure requests never wait for links; nothing is assumed.
        let link = self.memory.link_bandwidth.map(per_second);
        let link_bandwidth = match &link {
            Some(_) => Some(none.bytes("memory.link-bandwidth", &link, 0)?),
            None => None,
        };
        let fill = self.cache.fill_bandwidth.map(per_second);
        let fill_bandwidth = match &fill {
            Some(_) => Some(none.bytes("cache.fill-bandwidth", &fill, 0)?),
            None => None,
        };
        let model = MachineModel {
            machine,
            about: self.about,
            ghz: read.number("clock.ghz", self.clock.ghz, 3.0, 0.01, 20.0)?,
            tick_ns: read.ns("clock.tick", &self.clock.tick, 4_000_000)?,
            l1_bytes: read.bytes("cache.l1", &self.cache.l1, 32 << 10)?,
            l2_bytes: read.bytes("cache.l2", &self.cache.l2, 1 << 20)?,
            llc_bytes: read.bytes("cache.llc", &self.cache.llc, 32 << 20)?,
            node_bandwidth: read.bytes("memory.node-bandwidth", &bandwidth, 20_000_000_000)?,
            link_bandwidth,
            fill_bandwidth,
            tlb,
            rows,
            latency,
            smt,
            costs,
            linux: self.kernel.linux()?,
            power: self.power.map(|p| p.milliwatts()).transpose()?,
            assumed: read.assumed,
        };
        for (key, zero) in [
            ("tick", model.tick_ns == 0),
            ("llc", model.llc_bytes == 0),
            ("node-bandwidth", model.node_bandwidth == 0),
        ] {
            if zero {
                return Err(BadKey::is(key, 0, "; leave it out to get the default"));
            }
        }
        if model.tick_ns < LEAST_TICK_NS {
            return Err(BadKey::new("tick", "a tick below 1us makes no sense; give a longer one"));
        }
        if model.node_bandwidth < LEAST_BANDWIDTH {
            let what = "a node-bandwidth below 1MB/s makes no sense; give more, such as 20GB/s";
            return Err(BadKey::new("node-bandwidth", what));
        }
        if model.link_bandwidth.is_some_and(|b| b < LEAST_BANDWIDTH) {
            let what =
                "a link-bandwidth below 1MB/s makes no sense; give more, such as 5GB/s, or leave it out";
            return Err(BadKey::new("link-bandwidth", what));
        }
        if model.fill_bandwidth.is_some_and(|b| b < LEAST_BANDWIDTH) {
            let what =
                "a fill-bandwidth below 1MB/s makes no sense; give more, such as 20GB/s, or leave it out";
            return Err(BadKey::new("fill-bandwidth", what));
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
            return Err(BadKey::is(key, 0, "; a machine needs at least 1"));
        }
        let count = levels[..4].iter().fold(1u64, |n, (_, x)| n.saturating_mul(u64::from(*x)));
        if count > MAX_CPUS {
            let what = format!("this makes {count} CPUs; at most {MAX_CPUS} are allowed");
            return Err(BadKey::new("sockets", what));
        }
        let nodes = self.nodes_per_socket.unwrap_or(self.llcs_per_socket);
        if !self.llcs_per_socket.is_multiple_of(nodes) {
            let rest =
                format!(", which does not divide the {} LLC domains of a socket", self.llcs_per_socket);
            return Err(BadKey::is("nodes-per-socket", nodes, rest));
        }
        let made = self.sockets * nodes;
        if made > MOST_NODES {
            let what = format!("this makes {made} NUMA nodes; at most {MOST_NODES} are allowed");
            return Err(BadKey::new("sockets", what + "; give fewer sockets, or nodes-per-socket"));
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
        let count = made as usize;
        if !self.node_distance.is_empty() && self.node_distance.len() != count {
            let what = format!("node-distance has {} rows for {count} NUMA nodes", self.node_distance.len());
            return Err(BadKey::new("node-distance", what + "; give one for each"));
        }
        let table = self.node_distance.clone();
        if let Some((i, row)) = table.iter().enumerate().find(|(_, row)| row.len() != count) {
            let what = format!("node-distance[{i}] has {} numbers for {count} NUMA nodes", row.len());
            return Err(BadKey::new("node-distance", what + "; give one for each"));
        }
        if let Some((i, _)) = table.iter().enumerate().find(|(i, row)| row.get(*i) != Some(&10)) {
            let what = format!("node-distance[{i}][{i}] is not 10, the distance of a node to itself");
            return Err(BadKey::new("node-distance", what));
        }
        if table.iter().flatten().any(|d| *d < 10) {
            let what = format!("a node-distance is below 10, which is local; give 10 to {FARTHEST}");
            return Err(BadKey::new("node-distance", what));
        }
        if let Some(far) = table.iter().flatten().find(|d| **d > FARTHEST) {
            let what = format!("a node-distance is {far}; give 10 to {FARTHEST}");
            return Err(BadKey::new("node-distance", what));
        }
        Machine::new(name, cpus, table).map_err(|e| BadKey::new("node-distance", e.to_string()))
    }
}

impl PowerFile {
    fn milliwatts(&self) -> Result<Power, Bad> {
        let milliwatts = |key: &'static str, w: f64| match w {
            w if (0.0..=100_000.0).contains(&w) => Ok((w * 1e3 + 0.5) as u64),
            w => Err(BadKey::is(key, format!("{w:?}"), "; give watts from 0 to 100000")),
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
        let ns = self.value(name, text, default, parse_ns)?;
        let most_ns = match name {
            // Something may happen arbitrarily seldom.
            "costs.noise-every" => u64::MAX,
            "costs.noise" => MOST_NS,
            _ if name.starts_with("costs.") => MOST_COST_NS,
            _ => MOST_NS,
        };
        match text {
            Some(text) if ns > most_ns => {
                let (most, key) = (human_ns(most_ns), key(name));
                let what = format!("`{text}` is longer than {most}, which {key} never is; give less");
                Err(BadKey::text(key, text, what))
            }
            _ => Ok(ns),
        }
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
            Some(text) => parse(text).map_err(|what| BadKey::text(key(name), text, what)),
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
            Some(x) => {
                Err(BadKey::is(key(name), format!("{x:?}"), format!("; give a number from {low} to {high}")))
            }
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
mod tests;
