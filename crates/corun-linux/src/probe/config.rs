//! The probe's settings before it is loaded: the sizes of its tables, what it watches, where each CPU sits.

use super::options::LiveOptions;
use super::syscalls;
use crate::cpulist;
use crate::root::Root;
use corun_bpf::layout::Place;
use corun_bpf::Config;
use corun_model::Machine;

/// CPUs beyond this number that do not exist at the start are not provided for: a record of each takes 33 KB,
/// and some kernels allow thousands.
const LAST_SPARE: u32 = 255;

/// The probe's configuration for the machine in its present state.
pub(super) fn config(root: &Root, machine: &Machine, options: &LiveOptions) -> Config {
    let number = |file: &str| root.read(file).ok().and_then(|text| text.trim().parse::<u32>().ok());
    let tid_max = number("/proc/sys/kernel/pid_max").unwrap_or(1 << 22);
    let threads = root
        .read("/proc/loadavg")
        .ok()
        .and_then(|text| text.split_whitespace().nth(3)?.split_once('/')?.1.parse::<u32>().ok())
        .unwrap_or(0);
    // More CPUs may come online.
    let possible = root.read("/sys/devices/system/cpu/possible").ok().and_then(|text| cpulist::parse(&text));
    let last_possible = possible.and_then(|cpus| Some(cpus.last()?.0)).unwrap_or(0).min(LAST_SPARE);
    let last_cpu = machine.cpus().last().map_or(0, |c| c.id.0).max(last_possible);
    // Their location is unknown: far from all others.
    let afar = |cpu: u32| Place::new(u32::MAX - cpu, u32::MAX - cpu, u32::MAX - cpu);
    let mut places: Vec<Place> = (0..=last_cpu).map(afar).collect();
    for c in machine.cpus() {
        places[c.id.0 as usize] = Place::new(c.core, c.llc, c.socket);
    }
    Config {
        tid_max,
        max_tasks: options.max_tasks.unwrap_or((4 * threads).clamp(options.least_tasks, 1 << 20)),
        max_groups: options.max_groups.unwrap_or((2 * threads).clamp(options.least_groups, 1 << 17)),
        max_pairs: options.max_pairs.unwrap_or(1 << 16),
        trace_bytes: options.trace_bytes,
        waits: options.waits,
        record_bytes: options.record_bytes,
        ended_bytes: options.ended_bytes,
        watcher: options.watcher_apart.then(std::process::id),
        block_state_of_syscall: syscalls::block_states(),
        places_of_setaffinity: syscalls::places_of_setaffinity(),
        places,
    }
}
