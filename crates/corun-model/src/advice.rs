//! How many threads a program was advised to run that shares a page, and what decided it, as a fact.

use crate::TenantId;

/// What a program was advised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Advised {
    /// Its process.
    pub process: u32,
    /// Its tenant.
    pub tenant: TenantId,
    /// How many threads.
    pub width: u32,
    /// The least and the most that it named.
    pub least: u32,
    /// See `least`.
    pub most: u32,
    /// What it was dealt of the CPUs, in thousandths of one.
    pub dealt_milli: u64,
    /// What decided.
    pub limit: Limit,
}

/// What decided a width.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// The most that the program named: what it was dealt is enough for all of its threads.
    Most,
    /// The least that it named: it was dealt less.
    Least,
    /// What it was dealt.
    Share,
}
