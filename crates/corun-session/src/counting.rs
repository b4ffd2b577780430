//! Hardware counters of a session's windows, on request.

use corun_linux::counters::live::{accepted, Precision};
use corun_linux::counters::{Grain, LivePerf, Options, Plan, Refusal, Theme};
use corun_linux::Root;
use corun_model::{Counter, CounterSource, Observation, TaskId, TenantId, Unavailable, What, Why};

/// The unit of counting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CountedUnit {
    /// Each task by itself.
    Task,
    /// A command with everything that it starts, including tasks that live shorter than a window.
    WholeCommand,
}

/// Why there are no counters here, for callers who did not ask for them: otherwise that would be the reason.
pub fn absent(root: &Root) -> Option<Unavailable> {
    let refused = Plan::make(root, &[Theme::Work], &accepted).err()?;
    Some(refused_as(refused, false))
}

/// The statement that the kernel counts nothing, for a caller that needs it or does not.
fn refused_as(refusal: Refusal, is_needed: bool) -> Unavailable {
    Unavailable::new(What::HardwareCounters, Why::NoCounters { refusal, is_needed })
}

/// What counting cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CountingCost {
    /// The added time of a context switch, in nanoseconds.
    pub added_ns: u64,
    /// The share of the counted tasks' time on a CPU that this took, 0 to 1.
    pub share: f64,
}

/// Counters of a subject's tasks (of everybody's if there is no subject).
pub struct Counting {
    perf: LivePerf,
    subject: Option<TenantId>,
    /// Switches of the counted tasks in all windows so far, and their time on a CPU; `None` if some window
    /// did not have them.
    switches: Option<u64>,
    on_cpu_ns: u64,
}

impl Counting {
    /// Starts counting `what`; `first` are existing tasks, such as a command that is held.
    ///
    /// # Errors
    /// For the report: nothing can be counted here, and why.
    pub fn start(
        root: &Root,
        unit: CountedUnit,
        what: &[Theme],
        subject: Option<TenantId>,
        first: &[TaskId],
    ) -> Result<Counting, Unavailable> {
        Counting::begin(root, unit, what, subject, first).map_err(|refusal| refused_as(refusal, false))
    }

    fn begin(
        root: &Root,
        unit: CountedUnit,
        what: &[Theme],
        subject: Option<TenantId>,
        first: &[TaskId],
    ) -> Result<Counting, Refusal> {
        let grain = match (unit, subject) {
            (CountedUnit::WholeCommand, Some(subject)) => Grain::Tree(subject),
            _ => Grain::Task,
        };
        let options = Options { root: root.clone(), grain, themes: what.to_vec(), ..Options::new(subject) };
        let mut perf = LivePerf::start(options)?;
        perf.follow(first);
        Ok(Counting { perf, subject, switches: Some(0), on_cpu_ns: 0 })
    }

    /// Counts everybody for a policy that cannot decide without these counters.
    ///
    /// # Errors
    /// One of them cannot be counted here, and why.
    pub fn needed(root: &Root, counters: &[Counter]) -> Result<Counting, Unavailable> {
        let refused = |refusal| refused_as(refusal, true);
        let counting = Counting::begin(root, CountedUnit::Task, &Theme::ALL, None, &[]).map_err(refused)?;
        counting.perf.plan().lacks(counters).map_or(Ok(counting), Err)
    }

    /// Fills in the counters of the window that has just been closed.
    pub fn read(&mut self, seen: &mut Observation) {
        self.perf.read(seen);
        for tenant in seen.by_tenant.iter().filter(|t| self.subject.is_none_or(|s| s == t.id)) {
            let more = tenant.account.events.switches();
            self.switches = self.switches.zip(more).map(|(all, more)| all + more);
            self.on_cpu_ns += tenant.account.ledger.on_cpu_ns();
        }
    }

    /// The cost of counting so far: the switches of the counted tasks, times the added cost of a switch.
    /// `None` if either is unknown.
    pub fn cost(&self) -> Option<CountingCost> {
        let added_ns = self.perf.switch_cost()?.added_ns();
        (self.on_cpu_ns > 0).then_some(())?;
        let share = (self.switches? * added_ns) as f64 / self.on_cpu_ns as f64;
        Some(CountingCost { added_ns, share })
    }

    /// Fills in the counters of the whole run, whose sum is `seen`. Returns how exact they are if they took
    /// turns.
    pub fn read_whole(&self, seen: &mut Observation) -> Option<Precision> {
        self.perf.read_whole(seen);
        self.perf.precision_of_whole().filter(|p| p.counted_share < 0.999)
    }
}
