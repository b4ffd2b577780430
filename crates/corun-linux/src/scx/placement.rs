//! Which cell is a tenant's: that of its cgroup, or one of its own. Pure.
//!
//! A tenant that is a cgroup (a container, a unit, a pod) has a cell already, with the weight that `cpu.weight` gives it:
//! the lowest that all of its tasks are in or below. A command or a virtual machine shares its cgroup with others, so it
//! gets a cell of its own within the lowest one that all of its tasks are in or below, beside theirs.

use corun_bpf::ROOT_CELL;
use corun_model::TenantKind;
use std::collections::BTreeMap;

/// Where a tenant belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Placement {
    /// It is this cell.
    Is(u32),
    /// It needs a cell of its own in this one.
    Within(u32),
}

/// Places a tenant whose tasks are in `cells` (by their cgroups); `parents` tells each cell's parent.
pub(super) fn place(
    kind: TenantKind,
    cells: impl IntoIterator<Item = u32>,
    parents: &BTreeMap<u32, u32>,
) -> Placement {
    let lowest = cells.into_iter().reduce(|a, b| common(a, b, parents)).unwrap_or(ROOT_CELL);
    let is_cgroup = matches!(
        kind,
        TenantKind::Unit
            | TenantKind::Container
            | TenantKind::Pod
            | TenantKind::SlurmStep
            | TenantKind::Cgroup
    );
    match is_cgroup && lowest != ROOT_CELL {
        true => Placement::Is(lowest),
        false => Placement::Within(lowest),
    }
}

/// The lowest cell that both are in or below.
fn common(a: u32, b: u32, parents: &BTreeMap<u32, u32>) -> u32 {
    let above_a: Vec<u32> = way_up(a, parents).collect();
    way_up(b, parents).find(|cell| above_a.contains(cell)).unwrap_or(ROOT_CELL)
}

/// A cell, its parent, and so on up to the root.
fn way_up(cell: u32, parents: &BTreeMap<u32, u32>) -> impl Iterator<Item = u32> + '_ {
    let above =
        move |cell: &u32| (*cell != ROOT_CELL).then(|| parents.get(cell).copied().unwrap_or(ROOT_CELL));
    std::iter::successors(Some(cell), above)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 1 and 2 are in the root, 3 and 4 in 2, 5 in 4.
    fn tree() -> BTreeMap<u32, u32> {
        BTreeMap::from([(1, 0), (2, 0), (3, 2), (4, 2), (5, 4)])
    }

    #[test]
    fn a_cgroup_is_its_own_cell() {
        assert_eq!(place(TenantKind::Container, [3, 3], &tree()), Placement::Is(3));
        assert_eq!(place(TenantKind::Pod, [3, 5], &tree()), Placement::Is(2));
        assert_eq!(place(TenantKind::Pod, [4, 5], &tree()), Placement::Is(4));
    }

    #[test]
    fn a_command_gets_a_cell_beside_its_neighbours() {
        assert_eq!(place(TenantKind::Command, [0, 0], &tree()), Placement::Within(0));
        assert_eq!(place(TenantKind::Command, [3], &tree()), Placement::Within(3));
        assert_eq!(place(TenantKind::Vm, [1, 5], &tree()), Placement::Within(0));
    }

    #[test]
    fn where_the_kernel_does_not_schedule_cgroups_everybody_gets_a_cell() {
        assert_eq!(place(TenantKind::Unit, [0, 0], &BTreeMap::new()), Placement::Within(0));
        assert_eq!(place(TenantKind::Unit, [], &tree()), Placement::Within(0));
    }
}
