//! The machine's figures that the kernel reports: cache sizes, clock, tick.
//!
//! Method: cache sizes are those of the first CPU online, from `cache/index*/`. The clock is
//! `cpufreq/cpuinfo_max_freq` of that CPU or, without frequency scaling, the first `cpu MHz` of
//! `/proc/cpuinfo`. The tick is the resolution of the coarse clock. The last-level cache is that of the LLC
//! domain as [`topology`](crate::topology) has it.
//!
//! Limits: a figure that is missing or makes no sense (some hypervisors report a size of 0) is unknown.
//! Nothing depends on a figure. A machine with several kinds of core has the figures of the first kind. With
//! turbo, the clock is the maximum. In a virtual machine all figures come from the hypervisor.

use crate::root::Root;
use crate::sched;
use crate::topology::{caches, fields, list, CPUS};
use corun_model::machine::Cpu;
use corun_model::Machine;

/// What the kernel reports about a machine besides its topology; `None` if it does not.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Figures {
    /// Core clock in cycles per nanosecond.
    pub ghz: Option<f64>,
    /// The scheduler's tick in nanoseconds.
    pub tick_ns: Option<u64>,
    /// L1 data cache of a core, in bytes.
    pub l1_bytes: Option<u64>,
    /// L2 cache of a core, in bytes, where it is not the last level.
    pub l2_bytes: Option<u64>,
    /// Last-level cache of a domain, in bytes.
    pub llc_bytes: Option<u64>,
}

impl Figures {
    /// The figures of the machine under `root`, which has this topology. The tick is that of the running
    /// kernel.
    pub fn read(root: &Root, machine: &Machine) -> Figures {
        let levels = levels(root, machine);
        let of = |level: u32| levels.iter().find(|l| l.level == level);
        let last = levels.iter().map(|l| l.level).max();
        let l2 = of(2).filter(|l| Some(l.level) != last || !l.is_of_the_domain);
        Figures {
            ghz: ghz(root, machine),
            tick_ns: Some(sched::tick_ns()).filter(|ns| *ns > 0),
            l1_bytes: of(1).and_then(|l| l.bytes),
            l2_bytes: l2.and_then(|l| l.bytes),
            llc_bytes: last_level(&levels),
        }
    }
}

/// The size of the last-level cache of the machine's first CPU in bytes; `None` if the machine does not
/// report it.
pub fn llc_bytes(root: &Root, machine: &Machine) -> Option<u64> {
    last_level(&levels(root, machine))
}

/// A data or unified cache of the first CPU.
struct Level {
    level: u32,
    bytes: Option<u64>,
    /// Other cores of its LLC domain share it, or there are no other cores.
    is_of_the_domain: bool,
}

fn last_level(levels: &[Level]) -> Option<u64> {
    levels.iter().max_by_key(|l| l.level).filter(|l| l.is_of_the_domain)?.bytes
}

fn levels(root: &Root, machine: &Machine) -> Vec<Level> {
    let first = machine.cpus()[0];
    let alone = machine.cpus().iter().all(|c| c.llc != first.llc || c.core == first.core);
    let told = |(dir, level): (String, u32)| {
        let sharers = list(root, &format!("{dir}/shared_cpu_list")).ok().flatten().unwrap_or_default();
        let other = |c: &Cpu| c.llc == first.llc && c.core != first.core && sharers.contains(&c.id);
        let is_of_the_domain = alone || machine.cpus().iter().any(other);
        Level { level, bytes: bytes(root, &format!("{dir}/size")), is_of_the_domain }
    };
    caches(root, &format!("{CPUS}/cpu{}", first.id.0)).unwrap_or_default().into_iter().map(told).collect()
}

/// A size such as `32768K`.
fn bytes(root: &Root, file: &str) -> Option<u64> {
    let text = root.read(file).ok()?;
    let text = text.trim();
    let (digits, scale) = match text.strip_suffix('K') {
        Some(digits) => (digits, 1 << 10),
        None => text.strip_suffix('M').map_or((text, 1), |digits| (digits, 1 << 20)),
    };
    digits.parse::<u64>().ok()?.checked_mul(scale).filter(|bytes| *bytes > 0)
}

fn ghz(root: &Root, machine: &Machine) -> Option<f64> {
    let most = format!("{CPUS}/cpu{}/cpufreq/cpuinfo_max_freq", machine.cpus()[0].id.0);
    let khz = root.read(most).ok().and_then(|text| text.trim().parse::<f64>().ok());
    let cpuinfo = root.read("/proc/cpuinfo").unwrap_or_default();
    let mhz = || fields(&cpuinfo).find(|(key, _)| *key == "cpu MHz")?.1.parse::<f64>().ok();
    let sensible = |ghz: &f64| (0.01..=20.0).contains(ghz);
    khz.map(|khz| khz / 1e6).filter(sensible).or_else(|| mhz().map(|mhz| mhz / 1e3).filter(sensible))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::read_machine;
    use std::fs;
    use tempfile::TempDir;

    fn put(dir: &TempDir, file: &str, text: &str) {
        let path = Root::new(dir.path()).path(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("{text}\n")).unwrap();
    }

    /// Two CPUs; for each cache its level, kind, size and whether both share it.
    fn machine(cpuinfo: &str, caches: &[(u32, &str, &str, bool)]) -> TempDir {
        let dir = tempfile::tempdir().unwrap();
        put(&dir, &format!("{CPUS}/online"), "0-1");
        put(&dir, "/proc/cpuinfo", cpuinfo);
        for cpu in 0..2 {
            put(&dir, &format!("{CPUS}/cpu{cpu}/topology/physical_package_id"), "0");
            put(&dir, &format!("{CPUS}/cpu{cpu}/topology/core_cpus_list"), &cpu.to_string());
            for (index, (level, kind, size, shared)) in caches.iter().enumerate() {
                let cache = format!("{CPUS}/cpu{cpu}/cache/index{index}");
                put(&dir, &format!("{cache}/level"), &level.to_string());
                put(&dir, &format!("{cache}/type"), kind);
                put(&dir, &format!("{cache}/size"), size);
                let sharers = if *shared { "0-1".to_owned() } else { cpu.to_string() };
                put(&dir, &format!("{cache}/shared_cpu_list"), &sharers);
            }
        }
        dir
    }

    fn figures(dir: &TempDir) -> Figures {
        let root = Root::new(dir.path());
        Figures::read(&root, &read_machine(&root).unwrap())
    }

    const EPYC: [(u32, &str, &str, bool); 4] = [
        (1, "Data", "48K", false),
        (1, "Instruction", "32K", false),
        (2, "Unified", "1024K", false),
        (3, "Unified", "32M", true),
    ];

    #[test]
    fn reported_cache_sizes_and_clock_are_used() {
        let dir = machine("processor\t: 0\ncpu MHz\t\t: 2600.000", &EPYC);
        let f = figures(&dir);
        assert_eq!((f.l1_bytes, f.l2_bytes, f.llc_bytes), (Some(48 << 10), Some(1 << 20), Some(32 << 20)));
        assert_eq!(f.ghz, Some(2.6));
        assert!(f.tick_ns.is_some_and(|ns| ns >= 100_000));
        put(&dir, &format!("{CPUS}/cpu0/cpufreq/cpuinfo_max_freq"), "3700000");
        assert_eq!(figures(&dir).ghz, Some(3.7), "what the clock can be, not what it happens to be");
    }

    #[test]
    fn missing_figures_stay_unknown() {
        let f = figures(&machine("processor\t: 0\nCPU part\t: 0xd0c", &[]));
        assert_eq!(f, Figures { tick_ns: f.tick_ns, ..Figures::default() });
        let odd = [(1, "Data", "0K", false), (2, "Unified", "many", false), (3, "Unified", "0K", true)];
        let f = figures(&machine("processor\t: 0\ncpu MHz\t\t: 0.000", &odd));
        assert_eq!(f, Figures { tick_ns: f.tick_ns, ..Figures::default() });
    }

    #[test]
    fn a_cache_of_one_core_is_not_the_last_level_of_several() {
        // Firmware of arm64 machines often leaves out the shared cache.
        let f = figures(&machine("processor\t: 0", &[EPYC[0], EPYC[2]]));
        assert_eq!((f.l2_bytes, f.llc_bytes), (Some(1 << 20), None));
        // A last level that all cores share is no core's own cache.
        let f = figures(&machine("processor\t: 0", &[EPYC[0], (2, "Unified", "512K", true)]));
        assert_eq!((f.l1_bytes, f.l2_bytes, f.llc_bytes), (Some(48 << 10), None, Some(512 << 10)));
    }
}
