//! Hardware counters beside a watcher, where they were asked for: windows with counters, and what a reader must know.

use corun_linux::counters::live::accepted;
use corun_linux::counters::{Grain, LivePerf, Options, Plan, Refusal, Theme};
use corun_linux::Root;
use corun_model::duration::human_ns;
use corun_model::{Counter, CounterSource, Observation, TaskId, TenantId, Unavailable, What};

/// What is counted as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum CountersFlag {
    /// Each task by itself
    Tasks,
    /// A CMD with all that it starts, also what lives shorter than a window
    Whole,
}

/// Why there are none here, for those who did not ask for them: that they did not is no reason then.
pub fn absent(root: &Root) -> Option<Unavailable> {
    let refused = Plan::make(root, &[Theme::Work], &accepted).err()?;
    Some(Unavailable { what: What::HardwareCounters, why: refused.sentence() })
}

/// Counters of a subject's tasks (of everybody's where there is none).
pub struct Counting {
    perf: LivePerf,
    subject: Option<TenantId>,
    /// Switches of whom is counted in all windows so far, and their time on a CPU; `None`: some window did not tell.
    switches: Option<u64>,
    on_cpu_ns: u64,
}

impl Counting {
    /// Begins to count `what`; `first` are tasks that are there already, such as a command that is held.
    ///
    /// # Errors
    /// For the report: nothing can be counted here, and why.
    pub fn start(
        root: &Root,
        how: CountersFlag,
        what: &[Theme],
        subject: Option<TenantId>,
        first: &[TaskId],
    ) -> Result<Counting, Unavailable> {
        Counting::begin(root, how, what, subject, first)
            .map_err(|refusal| Unavailable::new(What::HardwareCounters, refusal.sentence()))
    }

    fn begin(
        root: &Root,
        how: CountersFlag,
        what: &[Theme],
        subject: Option<TenantId>,
        first: &[TaskId],
    ) -> Result<Counting, Refusal> {
        let grain = match (how, subject) {
            (CountersFlag::Whole, Some(subject)) => Grain::Tree(subject),
            _ => Grain::Task,
        };
        let options = Options { root: root.clone(), grain, themes: what.to_vec(), ..Options::new(subject) };
        let mut perf = LivePerf::start(options)?;
        perf.follow(first);
        Ok(Counting { perf, subject, switches: Some(0), on_cpu_ns: 0 })
    }

    /// Counts everybody for a policy that can decide nothing without these.
    ///
    /// # Errors
    /// One of them cannot be counted here, and why.
    pub fn needed(root: &Root, counters: &[Counter]) -> Result<Counting, Unavailable> {
        let refused = |r: Refusal| Unavailable::new(What::HardwareCounters, r.sentence_of_needed());
        let counting = Counting::begin(root, CountersFlag::Tasks, &Theme::ALL, None, &[]).map_err(refused)?;
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

    /// What counting took of the time on a CPU of whom is counted, 0 to 1: its switches times what one costs more.
    /// `None` where either is not known.
    pub fn cost(&self) -> Option<f64> {
        let added_ns = self.perf.switch_cost()?.added_ns();
        (self.on_cpu_ns > 0).then_some(())?;
        Some((self.switches? * added_ns) as f64 / self.on_cpu_ns as f64)
    }

    /// The same in a sentence.
    pub fn cost_sentence(&self) -> Option<String> {
        let added = human_ns(self.perf.switch_cost()?.added_ns());
        let percent = 100.0 * self.cost()?;
        Some(format!("counting made a switch dearer by {added}, {percent:.1} % of the time on a CPU in all"))
    }

    /// Fills in those of the whole run, of which `seen` is the sum; and sentences that a reader must know.
    pub fn read_whole(&self, seen: &mut Observation) -> Vec<String> {
        self.perf.read_whole(seen);
        let turns = self.perf.precision_of_whole().filter(|p| p.counted_share < 0.999).map(|p| {
            let (share, error) = (p.counted_share * 100.0, p.relative_error * 100.0);
            format!("counters took turns: each was counted {share:.0} % of the time, sums are ± {error:.1} %")
        });
        turns.into_iter().chain(self.cost_sentence()).collect()
    }
}
