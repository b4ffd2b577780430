//! BPF programs in the kernel, whoever loaded them.

use std::collections::BTreeSet;

/// Ids of all BPF programs that are in the kernel now, whoever loaded them; empty without the privilege to
/// look.
pub fn loaded_programs() -> BTreeSet<u32> {
    libbpf_rs::query::ProgInfoIter::default().map(|p| p.id).collect()
}

/// Ids of the BPF programs that a process holds open, from its descriptors; empty if it cannot be read.
pub fn programs_of(pid: u32) -> BTreeSet<u32> {
    let Ok(descriptors) = std::fs::read_dir(format!("/proc/{pid}/fdinfo")) else { return BTreeSet::new() };
    let id = |text: String| text.lines().find_map(|l| l.strip_prefix("prog_id:")?.trim().parse().ok());
    descriptors.flatten().filter_map(|d| id(std::fs::read_to_string(d.path()).ok()?)).collect()
}
