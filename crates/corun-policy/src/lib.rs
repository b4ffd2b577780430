//! Scheduling policies: pure, one file each, named as in the papers; and the loop that runs one of them on a host.
//!
//! Once an epoch a policy gets the observation of a host. It returns changes of the five knobs, each with its reason. It cannot tell a
//! live machine from a modelled one.
//!
//! | module | holds |
//! | --- | --- |
//! | [`registry`], [`options`], [`scope`] | every policy by name; its options; the tenants that it may touch |
//! | [`observe`], [`auto`], [`gang`], [`paired_gang`], [`controlled_contention`], [`delayed_preemption`], [`differential`], [`dedicated`], [`sam`] | the policies |
//! | [`slots`], [`parking`], [`dc_search`] | separation in time; the parked tenants; the degree of contention, found online |
//! | [`census`], [`settled`], [`fair`] | the wants and CPU time of each tenant; the settings of each task; fair shares |
//! | [`seats`] | which tasks fit the CPUs together |
//! | [`controller`] | the control loop: runs a policy on a host; refusals, dry runs |
//! | [`guard`], [`sequential`] | whether a policy helps, and the test for it |
//! | [`conformance`] | the requirements on the control loop on every host |
//!
//! It uses no files, clocks, threads or hash order, and no unsafe code.

pub mod auto;
pub mod census;
pub mod conformance;
pub mod controlled_contention;
pub mod controller;
pub mod dc_search;
pub mod dedicated;
pub mod delayed_preemption;
pub mod differential;
pub mod fair;
pub mod gang;
pub mod guard;
pub mod observe;
pub mod options;
pub mod paired_gang;
pub mod parking;
pub mod registry;
pub mod sam;
pub mod scope;
pub mod seats;
pub mod sequential;
pub mod settled;
pub mod slots;

pub use controller::{Controller, Mode};
pub use options::{BadPolicy, Kind, OptionSpec, Options};
pub use registry::{by_name, entry, Entry, ALL};
pub use scope::Scope;
