//! The machine's shape, from sysfs.
//!
//! Method, for every CPU online: its socket is `topology/physical_package_id`. Its core is the set in
//! `topology/core_cpus_list` (`thread_siblings_list` before Linux 5.3). Its LLC domain is the set that shares
//! the highest cache level. Its node is the one whose `cpulist` contains it. Sets are distinguished within
//! their parent, so the result nests by construction, whatever a hypervisor reports.
//!
//! Limits: offline CPUs are left out; they leave gaps in the CPU ids. If a level is not described, the next
//! one up replaces it. The LLC domain is the socket if there are no caches, or if the highest cache is
//! private to one core while its socket has several (arm64 firmware often omits the shared cache). Without
//! packages there is one socket; without NUMA there is one node. Cores, domains, sockets and nodes are
//! numbered densely in the order of their first CPU (nodes: of the kernel's numbers, memory-only nodes
//! included).

use crate::cpulist;
use crate::root::{ReadError, Root};
use corun_model::machine::{BadMachine, Cpu};
use corun_model::{CpuId, Machine};
use std::collections::BTreeMap;
use thiserror::Error;

pub(crate) const CPUS: &str = "/sys/devices/system/cpu";
const NODES: &str = "/sys/devices/system/node";

/// The machine's shape could not be read.
#[derive(Debug, Error)]
pub enum TopologyError {
    /// A file exists but holds nonsense, or may not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// Neither sysfs nor `/proc/cpuinfo` lists a CPU: both are hidden here.
    #[error("no CPU is listed under {}: mount sysfs and /proc here", path.display())]
    NoCpus {
        /// Where they were looked for.
        path: std::path::PathBuf,
    },
    /// The data contradict themselves.
    #[error("the machine's description contradicts itself: {0}")]
    Shape(#[from] BadMachine),
}

/// Reads the machine's shape and name.
///
/// # Errors
/// [`TopologyError`]; missing parts are no error, but replaced (see the module's limits).
pub fn read_machine(root: &Root) -> Result<Machine, TopologyError> {
    let (nodes, distances) = numa(root)?;
    let mut sockets = Numbers::default();
    let mut llcs = Numbers::default();
    let mut cores = Numbers::default();
    let online = online(root)?;
    let placed: Vec<Placed> = online.iter().map(|&id| placed(root, id)).collect::<Result<_, _>>()?;
    let cpus = placed.iter().map(|p| {
        let socket = sockets.of(p.package);
        let several_cores = placed.iter().any(|o| o.package == p.package && o.core != p.core);
        let shared = p.llc.as_ref().filter(|l| !several_cores || l.iter().any(|c| !p.core.contains(c)));
        let llc = llcs.of((socket, shared.cloned()));
        let core = cores.of((llc, p.core.clone()));
        Cpu { id: p.id, core, llc, socket, node: nodes.get(&p.id).copied().unwrap_or(0) }
    });
    let cpus: Vec<Cpu> = cpus.collect();
    Ok(Machine::new(name(root)?, cpus, distances)?)
}

/// Numbers keys 0, 1, 2… in the order of their first appearance.
struct Numbers<K>(BTreeMap<K, u32>);

impl<K: Ord> Default for Numbers<K> {
    fn default() -> Self {
        Numbers(BTreeMap::new())
    }
}

impl<K: Ord> Numbers<K> {
    fn of(&mut self, key: K) -> u32 {
        let next = self.0.len() as u32;
        *self.0.entry(key).or_insert(next)
    }
}

/// What sysfs says of one CPU.
struct Placed {
    id: CpuId,
    /// -1 if the firmware does not say.
    package: i64,
    /// The hardware threads of its core, itself included.
    core: Vec<CpuId>,
    /// The CPUs under the highest cache level; `None` without cache information.
    llc: Option<Vec<CpuId>>,
}

fn placed(root: &Root, id: CpuId) -> Result<Placed, ReadError> {
    let dir = format!("{CPUS}/cpu{}", id.0);
    let package_file = format!("{dir}/topology/physical_package_id");
    let package = match root.read_if_there(&package_file)? {
        Some(text) => {
            text.trim().parse().map_err(|_| root.unexpected(&package_file, &text, "a socket's number"))?
        }
        None => -1,
    };
    let siblings = match list(root, &format!("{dir}/topology/core_cpus_list"))? {
        Some(cpus) => Some(cpus),
        None => list(root, &format!("{dir}/topology/thread_siblings_list"))?,
    };
    let core = siblings.filter(|cpus| cpus.contains(&id)).unwrap_or_else(|| vec![id]);
    Ok(Placed { id, package, core, llc: last_level(root, &dir)? })
}

/// The CPUs that share a CPU's highest-level data or unified cache.
fn last_level(root: &Root, dir: &str) -> Result<Option<Vec<CpuId>>, ReadError> {
    let mut highest: Option<(u32, Vec<CpuId>)> = None;
    for (dir, level) in caches(root, dir)? {
        if highest.as_ref().is_some_and(|(l, _)| *l >= level) {
            continue;
        }
        if let Some(cpus) = list(root, &format!("{dir}/shared_cpu_list"))?.filter(|c| !c.is_empty()) {
            highest = Some((level, cpus));
        }
    }
    Ok(highest.map(|(_, cpus)| cpus))
}

/// The folders and levels of a CPU's data and unified caches.
pub(crate) fn caches(root: &Root, cpu_dir: &str) -> Result<Vec<(String, u32)>, ReadError> {
    let all = format!("{cpu_dir}/cache");
    if !root.has(&all) {
        return Ok(Vec::new());
    }
    let mut found = Vec::new();
    for index in root.names(&all)?.iter().filter(|n| n.starts_with("index")) {
        let dir = format!("{all}/{index}");
        let kind = root.read_if_there(format!("{dir}/type"))?.unwrap_or_default();
        if kind.trim() != "Instruction" && root.has(format!("{dir}/level")) {
            let level = root.value(format!("{dir}/level"), "a cache level")?;
            found.push((dir, level));
        }
    }
    Ok(found)
}

/// The CPUs online, from sysfs or, where a container hides it, from `/proc/cpuinfo`.
fn online(root: &Root) -> Result<Vec<CpuId>, TopologyError> {
    if let Some(cpus) = list(root, &format!("{CPUS}/online"))?.filter(|c| !c.is_empty()) {
        return Ok(cpus);
    }
    let cpuinfo = root.read_if_there("/proc/cpuinfo")?.unwrap_or_default();
    let mut cpus: Vec<CpuId> = fields(&cpuinfo)
        .filter(|(key, _)| *key == "processor")
        .filter_map(|(_, n)| n.parse().ok().map(CpuId))
        .collect();
    cpus.sort();
    cpus.dedup();
    if cpus.is_empty() {
        return Err(TopologyError::NoCpus { path: root.path(CPUS) });
    }
    Ok(cpus)
}

/// A file that holds a CPU list; `None` if there is no such file.
pub(crate) fn list(root: &Root, file: &str) -> Result<Option<Vec<CpuId>>, ReadError> {
    let Some(text) = root.read_if_there(file)? else { return Ok(None) };
    cpulist::parse(&text).map(Some).ok_or_else(|| root.unexpected(file, &text, cpulist::WANTED))
}

type Numa = (BTreeMap<CpuId, u32>, Vec<Vec<u32>>);

/// Each CPU's node, and the distance table (empty unless all pairs of nodes are described).
fn numa(root: &Root) -> Result<Numa, ReadError> {
    if !root.has(NODES) {
        return Ok(Numa::default());
    }
    let names = root.names(NODES)?;
    let mut ids: Vec<u32> = names.iter().filter_map(|n| n.strip_prefix("node")?.parse().ok()).collect();
    ids.sort_unstable();
    let mut node_of = BTreeMap::new();
    let mut table = Vec::new();
    for (node, id) in ids.iter().enumerate() {
        for cpu in list(root, &format!("{NODES}/node{id}/cpulist"))?.unwrap_or_default() {
            node_of.insert(cpu, node as u32);
        }
        let row = root.read_if_there(format!("{NODES}/node{id}/distance"))?.unwrap_or_default();
        table.push(row.split_whitespace().filter_map(|d| d.parse().ok()).collect::<Vec<u32>>());
    }
    let square = table.iter().all(|row| row.len() == ids.len());
    Ok((node_of, if square { table } else { Vec::new() }))
}

/// The processor's name for people: its model name, the board's, or the maker's numbers.
fn name(root: &Root) -> Result<String, ReadError> {
    let cpuinfo = root.read_if_there("/proc/cpuinfo")?.unwrap_or_default();
    let field = |wanted: &str| fields(&cpuinfo).find(|(key, _)| *key == wanted).map(|(_, value)| value);
    if let Some(model) = ["model name", "cpu model", "cpu"].into_iter().find_map(field) {
        return Ok(model.to_owned());
    }
    if let Some(board) = root.read_if_there("/sys/firmware/devicetree/base/model")? {
        return Ok(board.trim_matches(['\0', '\n', ' ']).to_owned());
    }
    Ok(match (field("CPU implementer"), field("CPU part")) {
        (Some(maker), Some(part)) => format!("CPU of implementer {maker}, part {part}"),
        _ => "unknown processor".to_owned(),
    })
}

/// The `key : value` lines of `/proc/cpuinfo`.
pub(crate) fn fields(cpuinfo: &str) -> impl Iterator<Item = (&str, &str)> {
    cpuinfo.lines().filter_map(|line| line.split_once(':')).map(|(k, v)| (k.trim(), v.trim()))
}

#[cfg(test)]
mod tests;
