//! Scheduling policies: pure, one file each, named as in the papers; and the loop that runs one of them on a host.
//!
//! Once an epoch a policy is given what a host observed and answers with turns of the five knobs, each with its reason. It
//! cannot tell a live machine from a modelled one.
//!
//! | module | holds |
//! | --- | --- |
//! | [`registry`], [`options`], [`scope`] | every policy by name; its options; whom it may touch |
//! | [`observe`], [`auto`], [`gang`], [`paired_gang`], [`controlled_contention`], [`delayed_preemption`], [`differential`], [`dedicated`], [`sam`] | the policies |
//! | [`slots`], [`parking`], [`dc_search`] | separation in time; who is stopped; the degree of contention, found online |
//! | [`census`], [`settled`], [`fair`] | what each tenant wants and got; what is settled for each task; fair shares |
//! | [`seats`] | whose tasks fit the CPUs together |
//! | [`controller`] | the control loop: a policy at work on a host; whom it refuses, dry runs |
//! | [`guard`], [`sequential`] | does a policy help? the test that says so |
//! | [`conformance`] | what the control loop must do on every host |
//!
//! Absences: no file, clock, thread or hash order; nothing unsafe.

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
