//! corun's BPF programs and the thin layer that loads them: the only crate that needs clang and libbpf.
//!
//! [`Probe`] loads `bpf/probe.bpf.c` and returns its records as they are; `corun-linux` interprets them for a
//! ledger. [`Births`] loads `bpf/births.bpf.c`: who starts whom while the probe is loaded. [`Scheduler`] loads `bpf/sched.bpf.c`; `corun-linux` decides which knobs to set, too. The BPF C is
//! GPL-2.0, as the kernel asks; the rest is Apache-2.0 OR MIT.

mod births;
mod config;
pub mod layout;
mod mapping;
mod probe;
mod programs;
mod scheduler;
mod scheduler_exit;
mod storage;

pub use births::{Birth, Births};
pub use config::Config;
pub use probe::{Losses, Probe, ProbeError, ProgramCost};

pub use libbpf_rs::ErrorKind;
pub use programs::{loaded_programs, programs_of};
pub use scheduler::{
    Cell, CpuStats, Scheduler, SchedulerConfig, SchedulerError, SchedulerLosses, TaskKnobs, PARK_LIMIT_NS,
    ROOT_CELL,
};
pub use scheduler_exit::{Ending, SchedulerExit};

#[allow(missing_docs, clippy::all, clippy::undocumented_unsafe_blocks)]
mod skel {
    include!(concat!(env!("OUT_DIR"), "/probe.skel.rs"));
}

#[allow(missing_docs, clippy::all, clippy::undocumented_unsafe_blocks)]
mod births_skel {
    include!(concat!(env!("OUT_DIR"), "/births.skel.rs"));
}

#[allow(missing_docs, clippy::all, clippy::undocumented_unsafe_blocks)]
mod sched_skel {
    include!(concat!(env!("OUT_DIR"), "/sched.skel.rs"));
}
