//! Trees of machines with one socket, two or none, and with counters that nobody may read. Names and ranges
//! are those of the kernel's drivers.

use super::*;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use tempfile::TempDir;

struct Tree(TempDir);

impl Tree {
    fn new() -> Tree {
        Tree(tempfile::tempdir().unwrap())
    }

    fn root(&self) -> Root {
        Root::new(self.0.path())
    }

    fn put(&self, file: &str, text: &str) {
        let path = self.root().path(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// A zone of powercap.
    fn zone(&self, zone: &str, name: &str, range_uj: u64, counted_uj: u64) {
        let of = |file: &str| format!("{POWERCAP}/{zone}/{file}");
        self.put(&of("name"), &format!("{name}\n"));
        self.put(&of("max_energy_range_uj"), &format!("{range_uj}\n"));
        self.put(&of("energy_uj"), &format!("{counted_uj}\n"));
    }

    fn counted(&self, zone: &str, counted_uj: u64) {
        self.put(&format!("{POWERCAP}/{zone}/energy_uj"), &format!("{counted_uj}\n"));
    }
}

const RANGE_UJ: u64 = 262_143_328_850;

/// An Intel laptop: a package with its parts, the platform, and the same package again over MMIO.
fn laptop() -> Tree {
    let tree = Tree::new();
    tree.put("/sys/class/powercap/intel-rapl/enabled", "1\n");
    tree.zone("intel-rapl:0", "package-0", RANGE_UJ, 1_000);
    tree.zone("intel-rapl:0:0", "core", RANGE_UJ, 500);
    tree.zone("intel-rapl:0:1", "uncore", RANGE_UJ, 7);
    tree.zone("intel-rapl:1", "psys", RANGE_UJ, 9_000);
    tree.zone("intel-rapl-mmio:0", "package-0", RANGE_UJ, 1_000);
    tree
}

/// Perf's PMU on AMD's servers: packages alone, one CPU for each of two sockets.
fn power_pmu_of_amd() -> Tree {
    let tree = Tree::new();
    for (file, text) in [
        ("type", "24\n"),
        ("cpumask", "0,64\n"),
        ("format/event", "config:0-7\n"),
        ("events/energy-pkg", "event=0x02\n"),
        ("events/energy-pkg.scale", "2.3283064365386962890625e-10\n"),
        ("events/energy-pkg.unit", "Joules\n"),
    ] {
        tree.put(&format!("{}/power/{file}", format::DEVICES), text);
    }
    tree
}

#[test]
fn a_package_is_counted_once_with_its_cores_and_the_platform() {
    let tree = laptop();
    assert_eq!(Plan::make(&tree.root()).unwrap().names(), ["package", "core", "psys"]);
    let mut meter = EnergyMeter::start(&tree.root());
    tree.counted("intel-rapl:0", 31_000);
    tree.counted("intel-rapl:0:0", 20_500);
    tree.counted("intel-rapl:1", 99_000);
    tree.counted("intel-rapl-mmio:0", 31_000);
    let expected =
        Energy { package_uj: Some(30_000), core_uj: Some(20_000), dram_uj: None, psys_uj: Some(90_000) };
    assert_eq!(meter.read(), Ok(expected));
}

#[test]
fn two_sockets_are_summed_and_two_platforms_are_not_used() {
    let tree = Tree::new();
    for (socket, name) in [(0, "package-0"), (1, "package-1")] {
        tree.zone(&format!("intel-rapl:{socket}"), name, RANGE_UJ, 100);
        tree.zone(&format!("intel-rapl:{socket}:0"), "dram", 65_712_999_613, 10);
    }
    tree.zone("intel-rapl:2", "psys", RANGE_UJ, 5);
    tree.zone("intel-rapl:3", "psys", RANGE_UJ, 5);
    let mut meter = EnergyMeter::start(&tree.root());
    for (zone, counted_uj) in
        [("0", 1_100), ("1", 2_100), ("0:0", 20), ("1:0", 40), ("2", 9_000), ("3", 9_000)]
    {
        tree.counted(&format!("intel-rapl:{zone}"), counted_uj);
    }
    let expected = Energy { package_uj: Some(3_000), dram_uj: Some(40), ..Energy::default() };
    assert_eq!(meter.read(), Ok(expected));
}

#[test]
fn a_counter_that_wraps_loses_nothing() {
    let tree = Tree::new();
    tree.zone("intel-rapl:0", "package-0", 1_000_000, 999_000);
    let mut meter = EnergyMeter::start(&tree.root());
    let mut sum_uj = 0;
    for counted_uj in [999_500, 300, 900] {
        tree.counted("intel-rapl:0", counted_uj);
        sum_uj += meter.read().unwrap().package_uj.unwrap();
    }
    assert_eq!(sum_uj, 1_000 + 900);
}

#[test]
fn a_counter_that_stands_still_is_unknown_and_not_zero() {
    let tree = laptop();
    let mut meter = EnergyMeter::start(&tree.root());
    let mut seen = Observation::default();
    meter.fill(&mut seen);
    assert_eq!(seen.energy, Energy::default());
    assert_eq!(seen.unavailable, [Unavailable::new(What::Energy, Why::NoEnergy(NoEnergy::StandsStill))]);
    // If a processor does not count its cores, the package is still known.
    tree.counted("intel-rapl:0", 2_000);
    assert_eq!(meter.read(), Ok(Energy { package_uj: Some(1_000), ..Energy::default() }));
    // One of two sockets: the sum would be too small.
    tree.zone("intel-rapl:2", "package-1", RANGE_UJ, 1);
    let mut meter = EnergyMeter::start(&tree.root());
    tree.counted("intel-rapl:0", 3_000);
    assert_eq!(meter.read(), Err(NoEnergy::StandsStill));
}

#[test]
fn counters_that_only_root_may_read_are_reported_as_such() {
    let tree = laptop();
    let mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    mode(tree.0.path(), 0o755);
    mode(&tree.root().path("/sys/class/powercap/intel-rapl:0/energy_uj"), 0o000);
    let as_nobody = || {
        // SAFETY: only this thread, which ends with the closure, opens files as another user from here on.
        unsafe { libc::setfsuid(65_534) };
        Plan::make(&tree.root())
    };
    let plan = std::thread::scope(|threads| threads.spawn(as_nobody).join().unwrap());
    assert_eq!(plan, Err(NoEnergy::RootOnly));
}

#[test]
fn a_machine_without_counters_says_so_in_every_window() {
    let mut meter = EnergyMeter::start(&Tree::new().root());
    assert_eq!(meter.read(), Err(NoEnergy::NoCounter));
    assert_eq!(meter.read(), Err(NoEnergy::NoCounter));
}

#[test]
fn a_counter_that_is_not_a_number_is_an_error_with_its_file() {
    let tree = laptop();
    tree.put("/sys/class/powercap/intel-rapl:0/energy_uj", "much\n");
    let Err(NoEnergy::Unreadable { error }) = Plan::make(&tree.root()) else { panic!("it was read") };
    assert!(error.ends_with("energy_uj holds `much`, which is not a number of microjoules"), "{error}");
}

#[test]
fn perfs_pmu_is_used_if_powercap_has_nothing_or_may_not_be_read() {
    let tree = power_pmu_of_amd();
    let plan = Plan::make(&tree.root()).unwrap();
    assert!(plan.is_perf());
    let cpus: Vec<u32> = plan
        .counters
        .iter()
        .map(|(domain, place)| match place {
            Place::Perf { event, cpu, unit_uj } => {
                assert_eq!((*domain, event.kind, event.config), (Domain::Package, 24, 2));
                assert!((unit_uj - 2.328_306_436_538_696e-4).abs() < 1e-18);
                *cpu
            }
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(cpus, [0, 64]);
    // No machine has a PMU with this number, or this user may not use it.
    let mut meter = EnergyMeter::start(&{
        tree.put(&format!("{}/power/type", format::DEVICES), "4000000000\n");
        tree.root()
    });
    let refused = meter.read().unwrap_err();
    assert!(matches!(refused, NoEnergy::Unreadable { .. } | NoEnergy::WholeCpusForbidden), "{refused}");
}

#[test]
fn a_pmu_in_another_unit_is_not_used() {
    let tree = power_pmu_of_amd();
    tree.put(&format!("{}/power/events/energy-pkg.unit", format::DEVICES), "Watts\n");
    assert_eq!(Plan::make(&tree.root()), Err(NoEnergy::NoCounter));
}
