//! Quotas that are set while the probe watches.
//!
//! The probe asks for throttled time at every wait, or at none: it is told when it starts, since asking has its cost at
//! every switch. On a machine where nothing had a quota then, one that is set later would make its victims' waits look like
//! their neighbours' doing. So the quotas are read again now and then, and what cannot be told is said.

use crate::cgroup::Cgroups;
use crate::root::Root;
use corun_model::observation::Unavailable;
use std::time::{Duration, Instant};

/// Reading thousands of cgroups takes a while: at most this part of the time.
const SHARE: u32 = 200;

/// Whether quotas have been missed.
pub(super) struct Quotas {
    is_probe_asking: bool,
    was_missed: bool,
    next: Instant,
}

impl Quotas {
    /// `is_probe_asking`: whether the probe looks for throttled time.
    pub(super) fn new(is_probe_asking: bool) -> Quotas {
        Quotas { is_probe_asking, was_missed: false, next: Instant::now() + Duration::from_secs(1) }
    }

    /// What cannot be told of the time until now.
    pub(super) fn missed(&mut self, root: &Root) -> Option<Unavailable> {
        let began = Instant::now();
        if !self.is_probe_asking && !self.was_missed && began >= self.next {
            self.was_missed = Cgroups::discover(root).and_then(|c| c.any_quota()).unwrap_or(false);
            self.next = Instant::now() + Duration::from_secs(1).max(began.elapsed() * SHARE);
        }
        self.was_missed.then(|| Unavailable {
            what: "throttling".into(),
            why: "a CPU quota was set after corun had started; what it stops looks stolen; start corun again"
                .into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quota_that_comes_later_is_said_and_one_that_the_probe_knows_of_is_not() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("proc/self/mountinfo", "30 20 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
        write("sys/fs/cgroup/cgroup.controllers", "cpu\n");
        write("sys/fs/cgroup/web/cpu.max", "max 100000\n");
        let here = Root::new(root.path());
        let (mut blind, mut asking) = (Quotas::new(false), Quotas::new(true));
        let look = |now: &mut Quotas| {
            now.next = Instant::now();
            now.missed(&here).is_some()
        };
        assert!(!look(&mut blind), "nobody has one yet");
        write("sys/fs/cgroup/web/cpu.max", "20000 100000\n");
        assert!(look(&mut blind) && !look(&mut asking));
        write("sys/fs/cgroup/web/cpu.max", "max 100000\n");
        assert!(look(&mut blind), "what it stopped has been stopped");
    }
}
