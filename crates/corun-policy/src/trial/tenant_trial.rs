//! What one tenant did in the periods of a question, without slots and within.

/// Who has less than this part of its fair share lacks it, in hundredths.
pub(crate) const LACKS_PERCENT: u64 = 90;

/// Older time in slots counts half beyond so much.
const MEMORY_NS: u64 = 10_000_000_000;

/// Useful CPU time of a tenant in the periods of a question, in thousandths of a CPU.
#[derive(Clone, Debug, Default)]
pub(super) struct TenantTrial {
    pub(super) weight: u64,
    pub(super) want_milli: u64,
    pub(super) fair_milli: u64,
    pub(super) waits: Waits,
    pub(super) may_spin: bool,
    /// It has slots of its own: they are for it.
    pub(super) own: bool,
    /// Per round, with everybody sharing.
    pub(super) without: Vec<u64>,
    /// Per round, while it ran in slots, as long as it shared them with the same.
    pub(super) running: Vec<u64>,
    /// Slots that it was given in the last round.
    pub(super) slots: u64,
    pub(super) useful_ns: u64,
    pub(super) on_cpu_ns: u64,
    pub(super) ran_ns: u64,
}

impl TenantTrial {
    /// Takes in a window in which it ran. While slots are kept the round goes on, and older time counts half now and then: what
    /// a program did ten minutes ago is not what it does.
    pub(super) fn ran(&mut self, useful_ns: u64, on_cpu_ns: u64, window_ns: u64) {
        self.useful_ns += useful_ns;
        self.on_cpu_ns += on_cpu_ns;
        self.ran_ns += window_ns;
        if self.ran_ns > 2 * MEMORY_NS {
            for sum in [&mut self.useful_ns, &mut self.on_cpu_ns, &mut self.ran_ns] {
                *sum /= 2;
            }
        }
    }

    /// Its rate in the slots of the present round.
    pub(super) fn running_milli(&self) -> u64 {
        (self.useful_ns * 1_000).checked_div(self.ran_ns).unwrap_or(0)
    }

    /// Its tasks may wait for each other, and it has less than its fair share where everybody shares.
    pub(super) fn lacks(&self) -> bool {
        self.waits != Waits::No && median(&self.without) * 100 < self.fair_milli * LACKS_PERCENT
    }

    /// The median over the rounds, the present one included; `None`: nothing is known yet.
    pub(super) fn running(&self) -> Option<u64> {
        let mut all = self.running.clone();
        if self.ran_ns > 0 {
            all.push(self.running_milli());
        }
        (!all.is_empty()).then(|| median(&all))
    }

    /// Ends the round.
    pub(super) fn close(&mut self) {
        if self.ran_ns > 0 {
            self.running.push(self.running_milli());
        }
        (self.useful_ns, self.on_cpu_ns, self.ran_ns) = (0, 0, 0);
    }

    /// Begins the next.
    pub(super) fn begin(&mut self) {
        (self.slots, self.useful_ns, self.on_cpu_ns, self.ran_ns) = (0, 0, 0, 0);
    }

    /// Forgets what it did in slots: it shares them with others now.
    pub(super) fn forget(&mut self) {
        self.running.clear();
        (self.useful_ns, self.on_cpu_ns, self.ran_ns) = (0, 0, 0);
    }
}

/// A tenant while everybody shared.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shared {
    /// Its weight.
    pub weight: u64,
    /// CPUs that it wants, in thousandths.
    pub want_milli: u64,
    /// Its fair share, and what it did: thousandths of a CPU of useful time.
    pub fair_milli: u64,
    /// See `fair_milli`.
    pub useful_milli: u64,
    /// Whether its tasks wait for each other.
    pub waits: Waits,
    /// Whether they may spin where nobody sees it.
    pub may_spin: bool,
}

/// Whether a tenant's tasks wait for each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Waits {
    /// They neither block nor spin.
    #[default]
    No,
    /// They do not block, and nobody can tell whether they spin.
    Perhaps,
    /// They do.
    Yes,
}

/// The median; of an even number the mean of the middle two; 0 of none.
pub(super) fn median(values: &[u64]) -> u64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    match sorted.len() {
        0 => 0,
        n if n % 2 == 1 => sorted[n / 2],
        n => (sorted[n / 2 - 1] + sorted[n / 2]) / 2,
    }
}
