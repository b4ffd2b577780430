//! Machines as their kernels describe them.

use super::*;
use corun_model::Distance;
use std::fs;
use tempfile::TempDir;

/// A sysfs in the making.
struct Sysfs(TempDir);

impl Sysfs {
    fn new(online: &str, model: &str) -> Sysfs {
        let made = Sysfs(tempfile::tempdir().unwrap());
        made.put(&format!("{CPUS}/online"), online);
        made.put("/proc/cpuinfo", &format!("processor\t: 0\nmodel name\t: {model}\n"));
        made
    }

    fn put(&self, file: &str, text: &str) {
        let path = self.root().path(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("{text}\n")).unwrap();
    }

    fn cpu(&self, id: u32, package: i64, core: &str) {
        self.put(&format!("{CPUS}/cpu{id}/topology/physical_package_id"), &package.to_string());
        self.put(&format!("{CPUS}/cpu{id}/topology/core_cpus_list"), core);
    }

    fn cache(&self, cpu: u32, index: u32, level: u32, kind: &str, shared: &str, size: &str) {
        let dir = format!("{CPUS}/cpu{cpu}/cache/index{index}");
        for (file, text) in [
            ("level", level.to_string().as_str()),
            ("type", kind),
            ("shared_cpu_list", shared),
            ("size", size),
        ] {
            self.put(&format!("{dir}/{file}"), text);
        }
    }

    fn node(&self, id: u32, cpus: &str, distance: &str) {
        self.put(&format!("{NODES}/node{id}/cpulist"), cpus);
        self.put(&format!("{NODES}/node{id}/distance"), distance);
    }

    fn root(&self) -> Root {
        Root::new(self.0.path())
    }
}

/// Sockets, LLC domains, cores, CPUs, nodes.
fn shape(m: &Machine) -> (usize, usize, usize, usize, usize) {
    (m.count(|c| c.socket), m.count(|c| c.llc), m.count(|c| c.core), m.cpu_count(), m.count(|c| c.node))
}

#[test]
fn a_small_cloud_machine() {
    let s = Sysfs::new("0-1", "AMD EPYC");
    for cpu in 0..2 {
        s.cpu(cpu, 0, &cpu.to_string());
        s.cache(cpu, 0, 1, "Data", &cpu.to_string(), "48K");
        s.cache(cpu, 1, 1, "Instruction", &cpu.to_string(), "32K");
        s.cache(cpu, 2, 2, "Unified", &cpu.to_string(), "1024K");
        s.cache(cpu, 3, 3, "Unified", "0-1", "32768K");
    }
    s.node(0, "0-1", "10");
    let m = read_machine(&s.root()).unwrap();
    assert_eq!(shape(&m), (1, 1, 2, 2, 1));
    assert_eq!(m.name, "AMD EPYC");
    assert_eq!(m.distance(CpuId(0), CpuId(1)), Distance::SameLlc);
}

/// 2 sockets x 12 cores x 2 threads: CPU n and n + 24 are siblings, even CPUs on socket 0, odd ones on socket 1,
/// as many servers' firmware numbers them.
fn two_sockets(online: &str) -> Sysfs {
    let s = Sysfs::new(online, "Intel(R) Xeon(R) CPU E5-2680 v3 @ 2.50GHz");
    let side = |odd: u32| (0..48).filter(|c| c % 2 == odd).map(CpuId).collect::<Vec<_>>();
    for cpu in cpulist::parse(online).unwrap() {
        let socket = cpu.0 % 2;
        s.cpu(cpu.0, socket.into(), &format!("{},{}", cpu.0 % 24, cpu.0 % 24 + 24));
        s.cache(cpu.0, 0, 1, "Data", &format!("{},{}", cpu.0 % 24, cpu.0 % 24 + 24), "32K");
        s.cache(cpu.0, 3, 3, "Unified", &cpulist::format(&side(socket)), "30720K");
    }
    s.node(0, &cpulist::format(&side(0)), "10 21");
    s.node(1, &cpulist::format(&side(1)), "21 10");
    s
}

#[test]
fn a_two_socket_server_with_hyperthreads() {
    let m = read_machine(&two_sockets("0-47").root()).unwrap();
    assert_eq!(shape(&m), (2, 2, 24, 48, 2));
    assert_eq!(m.distance(CpuId(3), CpuId(27)), Distance::SameCore);
    assert_eq!(m.distance(CpuId(0), CpuId(2)), Distance::SameLlc);
    assert_eq!(m.distance(CpuId(0), CpuId(1)), Distance::OtherSocket);
    assert_eq!(m.node_distance(0, 1), Some(21));
}

#[test]
fn offline_cpus_leave_holes_and_nothing_else() {
    let m = read_machine(&two_sockets("0-2,5,27").root()).unwrap();
    assert_eq!(m.cpus().iter().map(|c| c.id.0).collect::<Vec<_>>(), [0, 1, 2, 5, 27]);
    assert_eq!(shape(&m), (2, 2, 5, 5, 2));
    assert!(m.cpu(CpuId(3)).is_none());
}

#[test]
fn a_socket_with_several_core_complexes_has_several_llc_domains() {
    // One socket, 4 core complexes of 4 cores, no SMT; two NUMA nodes per socket (NPS2) plus one with memory
    // only.
    let s = Sysfs::new("0-15", "AMD EPYC 7302");
    for cpu in 0..16u32 {
        s.cpu(cpu, 0, &cpu.to_string());
        s.cache(cpu, 2, 2, "Unified", &cpu.to_string(), "512K");
        s.cache(cpu, 3, 3, "Unified", &format!("{}-{}", cpu / 4 * 4, cpu / 4 * 4 + 3), "16384K");
    }
    s.node(0, "0-7", "10 12 17");
    s.node(1, "8-15", "12 10 17");
    s.node(3, "", "17 17 10");
    let m = read_machine(&s.root()).unwrap();
    assert_eq!(shape(&m), (1, 4, 16, 16, 2));
    assert_eq!(m.distance(CpuId(0), CpuId(3)), Distance::SameLlc);
    assert_eq!(m.distance(CpuId(0), CpuId(4)), Distance::SameSocket);
    assert_eq!((m.node_distance(0, 1), m.node_distance(0, 2)), (Some(12), Some(17)));
}

#[test]
fn an_arm_machine_whose_shared_cache_is_not_described_has_one_llc_domain_per_socket() {
    let s = Sysfs::new("0-3", "");
    s.put(
        "/proc/cpuinfo",
        "processor\t: 0\nBogoMIPS\t: 50.00\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\n\nprocessor\t: 1\n",
    );
    for cpu in 0..4 {
        s.cpu(cpu, 36, &cpu.to_string());
        s.cache(cpu, 0, 1, "Data", &cpu.to_string(), "64K");
        s.cache(cpu, 2, 2, "Unified", &cpu.to_string(), "1024K");
    }
    let m = read_machine(&s.root()).unwrap();
    assert_eq!(shape(&m), (1, 1, 4, 4, 1));
    assert_eq!(m.name, "CPU of implementer 0x41, part 0xd0c");
    s.put("/sys/firmware/devicetree/base/model", "Raspberry Pi 4 Model B\0");
    assert_eq!(read_machine(&s.root()).unwrap().name, "Raspberry Pi 4 Model B");
}

#[test]
fn if_a_container_hides_sysfs_the_cpus_come_from_cpuinfo() {
    let s = Sysfs(tempfile::tempdir().unwrap());
    s.put("/proc/cpuinfo", "processor\t: 0\nmodel name\t: X\n\nprocessor\t: 3\nmodel name\t: X\n");
    let m = read_machine(&s.root()).unwrap();
    assert_eq!(shape(&m), (1, 1, 2, 2, 1));
    assert_eq!(m.distance(CpuId(0), CpuId(3)), Distance::SameLlc);
}

#[test]
fn caches_that_span_sockets_and_cores_that_span_caches_are_split() {
    let s = Sysfs::new("0-3", "made up by a hypervisor");
    for cpu in 0..4u32 {
        s.cpu(cpu, (cpu / 2).into(), "0-3");
        s.cache(cpu, 3, 3, "Unified", "0-3", "1M");
    }
    assert_eq!(shape(&read_machine(&s.root()).unwrap()), (2, 2, 2, 4, 1));
}

#[test]
fn nonsense_and_missing_files_are_reported_with_the_file() {
    let s = Sysfs::new("0-x", "m");
    let e = read_machine(&s.root()).unwrap_err().to_string();
    assert!(e.ends_with("cpu/online holds `0-x`, which is not a list of CPUs such as 0-3,5"), "{e}");
    let empty = tempfile::tempdir().unwrap();
    let e = read_machine(&Root::new(empty.path())).unwrap_err().to_string();
    assert!(e.starts_with("no CPU is listed under "), "{e}");
}

#[test]
fn this_machine_can_be_read() {
    let m = read_machine(&Root::new("/")).unwrap();
    let online = std::thread::available_parallelism().unwrap().get();
    assert!(m.cpu_count() >= online && !m.name.is_empty());
}
