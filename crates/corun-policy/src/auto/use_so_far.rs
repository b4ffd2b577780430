//! What a tenant did while everybody shared, and what that says of the kind of program it is.

use crate::census::{knows_spin, TenantUse};
use crate::trial::Waits;

/// A burst of a latency-bound tenant is shorter than this.
const BURST_NS: u64 = 5_000_000;

/// Sums over the windows of a watch.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct UseSoFar {
    pub(super) useful_ns: u64,
    pub(super) on_cpu_ns: u64,
    steal_ns: u64,
    block_ns: u64,
    /// `None`: the host cannot tell, for one window at least.
    beyond_threads_ns: Option<u64>,
    wakeups: Option<u64>,
    judged_ns: u64,
    windows: u32,
}

impl UseSoFar {
    pub(super) fn add(&mut self, u: &TenantUse) {
        let first = self.windows == 0;
        let plus = |a: Option<u64>, b: Option<u64>| if first { b } else { a.zip(b).map(|(a, b)| a + b) };
        self.useful_ns += u.useful_ns;
        self.on_cpu_ns += u.on_cpu_ns;
        self.steal_ns += u.steal_ns;
        self.block_ns += u.block_ns;
        self.beyond_threads_ns = plus(self.beyond_threads_ns, u.beyond_threads_ns);
        self.wakeups = plus(self.wakeups, u.wakeups);
        self.judged_ns += u.judged_ns;
        self.windows += 1;
    }

    /// It waits for the outside for a fifth of its time or more, and runs in short bursts.
    pub(super) fn is_latency_bound(&self) -> bool {
        let bursts = self.wakeups.is_some_and(|n| n > 0 && self.on_cpu_ns / n < BURST_NS);
        bursts && self.beyond_threads_ns.is_some_and(|ns| ns * 5 >= self.on_cpu_ns + self.block_ns)
    }

    fn knows_spin(&self, use_spin: bool) -> bool {
        use_spin && knows_spin(self.judged_ns, self.on_cpu_ns)
    }

    /// Its tasks wait when they block or spin for a hundredth of their time. Those of any other wait for nobody, and what
    /// CPU time they get is for the kernel to say, not for slots.
    pub(super) fn waits(&self, use_spin: bool) -> Waits {
        let spin_ns = if use_spin { self.on_cpu_ns.saturating_sub(self.useful_ns) } else { 0 };
        if (self.block_ns + spin_ns) * 100 >= self.on_cpu_ns + self.steal_ns + self.block_ns {
            Waits::Yes
        } else if self.knows_spin(use_spin) {
            Waits::No
        } else {
            Waits::Perhaps
        }
    }

    /// It is blocked for a fifth of its time or more: in slots it may wait where it should run.
    pub(super) fn waits_for_other_things(&self) -> bool {
        self.block_ns * 5 >= self.on_cpu_ns + self.block_ns + self.steal_ns
    }

    /// Several tasks, hardly ever blocked, often stolen from: they may be spinning where nobody sees it.
    pub(super) fn may_spin(&self, weight: u64, use_spin: bool) -> bool {
        let runnable_ns = self.on_cpu_ns + self.steal_ns;
        !self.knows_spin(use_spin)
            && weight >= 2
            && self.block_ns * 10 <= runnable_ns + self.block_ns
            && self.steal_ns * 5 >= runnable_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corun_model::TenantId;

    /// A window of two loops that never wait, of which so much was judged.
    fn loops(judged_ns: u64) -> TenantUse {
        TenantUse {
            id: TenantId(1),
            tasks: 2,
            weight: 2,
            demand_milli: 2_000,
            useful_ns: 1_000,
            on_cpu_ns: 1_000,
            steal_ns: 1_000,
            block_ns: 0,
            beyond_threads_ns: Some(0),
            wakeups: Some(0),
            judged_ns,
        }
    }

    fn seen(windows: &[TenantUse]) -> UseSoFar {
        let mut did = UseSoFar::default();
        windows.iter().for_each(|w| did.add(w));
        did
    }

    #[test]
    fn loops_that_nobody_judged_for_a_window_wait_for_nobody() {
        let did = seen(&[loops(0), loops(1_000)]);
        assert_eq!((did.waits(true), did.may_spin(2, true)), (Waits::No, false));
    }

    #[test]
    fn loops_that_are_hardly_ever_judged_may_spin_and_so_may_all_where_nobody_judges() {
        for (did, use_spin) in
            [(seen(&[loops(0), loops(0), loops(1_000)]), true), (seen(&[loops(1_000)]), false)]
        {
            assert_eq!((did.waits(use_spin), did.may_spin(2, use_spin)), (Waits::Perhaps, true));
        }
    }

    #[test]
    fn who_spins_or_blocks_for_a_hundredth_of_its_time_waits() {
        let spins = TenantUse { useful_ns: 970, ..loops(1_000) };
        let blocks = TenantUse { block_ns: 30, ..loops(0) };
        assert_eq!((seen(&[spins]).waits(true), seen(&[blocks]).waits(false)), (Waits::Yes, Waits::Yes));
        assert_eq!(seen(&[spins]).waits(false), Waits::Perhaps, "what it spins is not to be used");
    }
}
