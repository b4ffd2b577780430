//! The number of threads that a program with a shared page was advised to run, and the reason, as a fact.

use crate::TenantId;

/// The advice to a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Advised {
    /// Its process.
    pub process: u32,
    /// Its tenant.
    pub tenant: TenantId,
    /// The advised number of threads.
    pub width: u32,
    /// The least number of threads that it named.
    pub least: u32,
    /// The largest number of threads that it named.
    pub most: u32,
    /// Its share of the CPUs, in thousandths of one.
    pub dealt_milli: u64,
    /// The limit that decided.
    pub limit: Limit,
}

/// The limit that decided a width.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// The most that the program named. Its share is enough for all its threads.
    Most,
    /// The least that it named. Its share is less.
    Least,
    /// Its share.
    Share,
}
