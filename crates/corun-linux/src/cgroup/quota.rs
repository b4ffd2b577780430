//! CPU quotas (bandwidth limits) and how long they throttled whom.
//!
//! v2 has them in `cpu.max` (`20000 100000` or `max 100000`, µs) and `cpu.stat` (`throttled_usec`), v1 in
//! `cpu.cfs_quota_us` (-1: none), `cpu.cfs_period_us` and `cpu.stat` (`throttled_time`, ns).
//!
//! Limit: the kernel counts throttled time per cgroup and CPU, summed: a cgroup that is throttled on two CPUs
//! for 10 ms has 20 ms. It says nothing about single tasks.

use super::{Cgroups, Tree};
use crate::root::ReadError;

/// A cgroup's CPU quota.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quota {
    /// The cgroup's path in the tree of the CPU controller.
    pub path: String,
    /// CPU time it may use in a period, in nanoseconds.
    pub quota_ns: u64,
    /// The period, in nanoseconds.
    pub period_ns: u64,
}

/// How often and how long a quota throttled a cgroup since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Throttling {
    /// Periods in which the cgroup wanted to run.
    pub periods: u64,
    /// Periods in which it was stopped.
    pub throttled_periods: u64,
    /// How long it was stopped, summed over CPUs, in nanoseconds.
    pub throttled_ns: u64,
}

impl Cgroups {
    /// The quota of one cgroup itself (not of its ancestors); `None` if it has none.
    ///
    /// # Errors
    /// [`ReadError`] if a file exists but holds nonsense.
    pub fn quota(&self, tree: &Tree, path: &str) -> Result<Option<Quota>, ReadError> {
        let Some(folder) = tree.folder(path) else { return Ok(None) };
        let made = |quota_us: u64, period_us: u64| Quota {
            path: path.to_owned(),
            quota_ns: quota_us * 1000,
            period_ns: period_us * 1000,
        };
        if tree.is_v2() {
            let file = folder.join("cpu.max");
            let Some(text) = self.root.read_if_there(&file)? else { return Ok(None) };
            let wanted = "a quota and a period, such as `max 100000`";
            let (quota, period) =
                text.trim().split_once(' ').ok_or_else(|| self.root.unexpected(&file, &text, wanted))?;
            if quota == "max" {
                return Ok(None);
            }
            match (quota.parse(), period.parse()) {
                (Ok(quota), Ok(period)) => Ok(Some(made(quota, period))),
                _ => Err(self.root.unexpected(&file, &text, wanted)),
            }
        } else {
            let file = folder.join("cpu.cfs_quota_us");
            if !self.root.has(&file) {
                return Ok(None);
            }
            let quota: i64 = self.root.value(&file, "a quota in microseconds")?;
            let Ok(quota) = u64::try_from(quota) else { return Ok(None) };
            let period = self.root.value(folder.join("cpu.cfs_period_us"), "a period in microseconds")?;
            Ok(Some(made(quota, period)))
        }
    }

    /// Every quota on this machine; empty if there is no CPU controller.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn quotas(&self) -> Result<Vec<Quota>, ReadError> {
        let Some(tree) = self.with_controller("cpu") else { return Ok(Vec::new()) };
        let mut found = Vec::new();
        for node in self.walk(tree)? {
            found.extend(self.quota(tree, &node.path)?);
        }
        Ok(found)
    }

    /// How a cgroup has been throttled; `None` if the kernel does not count it (the root, a cgroup whose tree
    /// has no CPU controller, a cgroup that has gone).
    ///
    /// # Errors
    /// [`ReadError`] when `cpu.stat` cannot be read.
    pub fn throttling(&self, tree: &Tree, path: &str) -> Result<Option<Throttling>, ReadError> {
        let Some(folder) = tree.folder(path) else { return Ok(None) };
        let Some(text) = self.root.read_if_there(folder.join("cpu.stat"))? else { return Ok(None) };
        let field = |name: &str| {
            text.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix(' ')?.trim().parse::<u64>().ok())
        };
        let throttled_ns = field("throttled_time").or_else(|| field("throttled_usec").map(|us| us * 1000));
        Ok(throttled_ns.map(|throttled_ns| Throttling {
            periods: field("nr_periods").unwrap_or(0),
            throttled_periods: field("nr_throttled").unwrap_or(0),
            throttled_ns,
        }))
    }
}
