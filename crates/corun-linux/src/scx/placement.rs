//! The cell of a tenant: that of its cgroup, or one of its own. Pure.
//!
//! A tenant that is a cgroup (a container, a unit, a pod) already has a cell, with the weight from
//! `cpu.weight`: the cell of the lowest cgroup that contains all of its tasks. Others may share that cgroup
//! (a command or a virtual machine among others, a unit with a container inside). Then the tenant gets a cell
//! of its own within it, next to theirs, so that they are not parked with it.

use crate::cgroup::is_within;
use corun_bpf::ROOT_CELL;
use corun_model::TenantKind;

/// Where a tenant belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Placement {
    /// It is this cell.
    Is(u32),
    /// It needs a cell of its own in this one.
    Within(u32),
}

/// Places a tenant whose tasks are all in or below `cell`; `is_shared` says whether other tenants are, too.
pub(super) fn place(kind: TenantKind, cell: u32, is_shared: impl FnOnce() -> bool) -> Placement {
    let is_cgroup = matches!(
        kind,
        TenantKind::Unit
            | TenantKind::Container
            | TenantKind::Pod
            | TenantKind::SlurmStep
            | TenantKind::Cgroup
    );
    match is_cgroup && cell != ROOT_CELL && !is_shared() {
        true => Placement::Is(cell),
        false => Placement::Within(cell),
    }
}

/// The lowest cgroup that contains all of these; `None` if there are none.
pub(super) fn lowest_common<'a>(paths: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    paths.into_iter().reduce(|a, b| way_up(a).find(|above| is_within(b, above)).unwrap_or("/"))
}

/// A cgroup, its parent, and so on up to the root's children.
pub(super) fn way_up(path: &str) -> impl Iterator<Item = &str> {
    fn above<'a>(path: &&'a str) -> Option<&'a str> {
        path.rsplit_once('/').map(|(above, _)| above).filter(|above| !above.is_empty())
    }
    std::iter::successors(Some(path), above)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cgroup_is_its_own_cell_unless_others_are_in_it() {
        assert_eq!(place(TenantKind::Container, 3, || false), Placement::Is(3));
        assert_eq!(place(TenantKind::Container, 3, || true), Placement::Within(3));
    }

    #[test]
    fn a_command_gets_a_cell_next_to_its_neighbors() {
        assert_eq!(place(TenantKind::Command, 3, || false), Placement::Within(3));
        assert_eq!(place(TenantKind::Vm, ROOT_CELL, || false), Placement::Within(ROOT_CELL));
    }

    #[test]
    fn if_the_kernel_does_not_schedule_cgroups_everybody_gets_a_cell() {
        assert_eq!(place(TenantKind::Unit, ROOT_CELL, || false), Placement::Within(ROOT_CELL));
    }

    #[test]
    fn the_lowest_common_cgroup_is_found_by_whole_names() {
        assert_eq!(lowest_common([]), None);
        assert_eq!(lowest_common(["/pod/a", "/pod/a"]), Some("/pod/a"));
        assert_eq!(lowest_common(["/pod/a", "/pod/a/b", "/pod/ab"]), Some("/pod"));
        assert_eq!(lowest_common(["/pod/a", "/other"]), Some("/"));
    }
}
