//! The live machine: one leaf reader per kernel interface, and the host that needs no privilege.
//!
//! Every reader takes a [`Root`]: `/` in production, a folder of fixtures in tests. Errors carry the path.
//!
//! | module | reads or does |
//! | --- | --- |
//! | [`root`] | reading small kernel files under a root path |
//! | [`naming`] | a tenant's kind and name, from its cgroup path, process group or kernel thread |
//! | [`target`] | what a user names (a PID, a cgroup, a VM, everything) as a [`Subject`](target::Subject) |

pub mod naming;
pub mod root;
pub mod target;

pub use root::{ReadError, Root};
