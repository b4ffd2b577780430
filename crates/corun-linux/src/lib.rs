//! The live machine: one leaf reader per kernel interface, and the host that needs no privilege.
//!
//! Every reader takes a [`Root`]: `/` in production, a folder of fixtures in tests. Errors carry the path.
//!
//! | module | reads or does |
//! | --- | --- |
//! | [`root`] | reading small kernel files under a root path |
//! | [`cpulist`], [`topology`] | the machine's shape from sysfs |
//! | [`energy`] | what the machine took in joules |
//! | [`figures`] | its cache sizes, clock and tick |
//! | [`cgroup`] | the cgroup trees, memberships, ids, quotas and throttling |
//! | [`procfs`], [`cpustat`] | processes and threads; what the CPUs did |
//! | [`namespaces`] | whether what eBPF tells means the same here |
//! | [`naming`] | a tenant's kind and name, from its cgroup path, process group or kernel thread |
//! | [`pods`] | what pods are called in their cluster |
//! | [`target`] | what a user names (a PID, a cgroup, a VM, everything) as a [`Subject`](target::Subject) |
//! | [`counters`] | hardware counters of tasks: live, or recorded |
//! | [`tenants`], [`clock`] | numbers for tenants; the clocks |
//! | [`wake_up`] | how long a sleeping CPU takes to wake up |
//! | [`noise`] | what is taken from a program that computes |
//! | [`schedstat_host`] | the live host without privileges: the ledger from `schedstat` |
//! | [`shares`] | the weight of each tenant: what part of contended CPU time it is promised |
//! | [`probe`] | the live host through eBPF |
//! | [`watcher`] | one or the other, whichever can be had |
//! | [`backend`] | what carries the five knobs out: the trait that the stock and the sched_ext backend implement |
//! | [`spin`] | spin time from samples of the instruction pointer |
//! | [`scx`] | the sched_ext backend: a scheduler of our own with the five knobs |
//! | [`stock`] | the stock backend: freezer, signals, slices, weights, affinity |
//! | [`freezer`], [`sched`] | the cgroup freezer and transient cgroups; the scheduler's system calls |
//! | [`protected`] | who may never be parked or changed, and why |
//! | [`supervisor`] | the journal of changes and the process that restores them when the controller cannot |
//! | [`steered`], [`parked`] | a watcher and a backend as one host; parked time told from blocked time |
//! | [`dedicated`] | windows in which every co-runner is parked, within a budget |
//! | [`doctor`] | what can be seen and done here, and why not |
//! | [`allowed`], [`affinities`] | the CPUs that a subject's tasks may use, and its CPU quota; those of the tasks of several tenants |
//! | [`limits`] | why the kernel starts nothing more: `pids.max`, `ulimit -u`, a PID namespace without init, memory, seccomp |
//! | [`launch`] | a command held before its first instruction until a watcher is armed |
//! | [`interrupt`] | Ctrl-C noted, so that a verb can print what it has |

pub mod affinities;
pub mod allowed;
pub mod backend;
pub mod cgroup;
pub mod clock;
pub mod counters;
pub mod cpulist;
pub mod cpustat;
pub mod dedicated;
mod descriptors;
pub mod doctor;
pub mod energy;
mod family;
pub mod figures;
pub mod freezer;
pub mod interrupt;
pub mod launch;
pub mod limits;
pub mod linking;
pub mod namespaces;
pub mod naming;
pub mod noise;
pub mod parked;
pub mod pods;
pub mod probe;
pub mod procfs;
pub mod program;
pub mod protected;
pub mod root;
pub mod sched;
pub mod schedstat_host;
pub mod scx;
pub mod shares;
pub mod spin;
pub mod steered;
pub mod stock;
pub mod supervisor;
pub mod target;
pub mod tenants;
pub mod topology;
pub mod wake_up;
pub mod watcher;

pub use root::{ReadError, Root};
