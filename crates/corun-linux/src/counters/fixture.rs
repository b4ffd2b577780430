//! Machines of three makers as folders, for tests: identity and PMU format as their kernels show them.

use crate::root::Root;
use std::fs;
use tempfile::TempDir;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Machine {
    /// A Skylake server.
    Intel,
    /// A Zen 5 server.
    Amd,
    /// A Neoverse V1 server.
    Arm,
}

pub fn with(files: &[(&str, &str)]) -> (TempDir, Root) {
    let dir = tempfile::tempdir().unwrap();
    let root = Root::new(dir.path());
    for (file, text) in files {
        let path = root.path(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    (dir, root)
}

pub fn root(machine: Machine) -> (TempDir, Root) {
    match machine {
        Machine::Intel => with(&[
            (
                "/proc/cpuinfo",
                "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 85\nstepping\t: 4\n",
            ),
            ("/sys/bus/event_source/devices/cpu/type", "4\n"),
            ("/sys/bus/event_source/devices/cpu/format/event", "config:0-7\n"),
            ("/sys/bus/event_source/devices/cpu/format/umask", "config:8-15\n"),
            ("/sys/bus/event_source/devices/cpu/format/edge", "config:18\n"),
            ("/sys/bus/event_source/devices/cpu/format/any", "config:21\n"),
            ("/sys/bus/event_source/devices/cpu/format/inv", "config:23\n"),
            ("/sys/bus/event_source/devices/cpu/format/cmask", "config:24-31\n"),
            ("/sys/bus/event_source/devices/cpu/format/offcore_rsp", "config1:0-63\n"),
            ("/sys/bus/event_source/devices/cpu/format/ldlat", "config1:0-15\n"),
            ("/sys/bus/event_source/devices/cpu/format/acr_mask", "config3:0-63\n"),
        ]),
        Machine::Amd => with(&[
            (
                "/proc/cpuinfo",
                "processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 26\nmodel\t\t: 2\nstepping\t: 1\n",
            ),
            ("/sys/bus/event_source/devices/cpu/type", "4\n"),
            ("/sys/bus/event_source/devices/cpu/format/event", "config:0-7,32-35\n"),
            ("/sys/bus/event_source/devices/cpu/format/umask", "config:8-15\n"),
            ("/sys/bus/event_source/devices/cpu/format/edge", "config:18\n"),
            ("/sys/bus/event_source/devices/cpu/format/inv", "config:23\n"),
            ("/sys/bus/event_source/devices/cpu/format/cmask", "config:24-31\n"),
        ]),
        Machine::Arm => with(&[
            ("/proc/cpuinfo", "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd40\n"),
            ("/sys/devices/system/cpu/cpu0/regs/identification/midr_el1", "0x00000000411fd401\n"),
            ("/sys/bus/event_source/devices/armv8_pmuv3_0/type", "8\n"),
            ("/sys/bus/event_source/devices/armv8_pmuv3_0/format/event", "config:0-15\n"),
            ("/sys/bus/event_source/devices/armv8_pmuv3_0/format/long", "config1:0\n"),
            ("/sys/bus/event_source/devices/armv8_pmuv3_0/format/rdpmc", "config1:1\n"),
        ]),
    }
}
