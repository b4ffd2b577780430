//! A report of a live run: the estimates, and what else is known about the run at that time.

use super::{Covers, DedicatedWindows, Estimates, PredictMeta, PredictReport, Windows};
use corun_model::{Unavailable, What, Why};
use corun_predict::schedule::Found;
use corun_predict::spinning::Spinning;
use corun_predict::Predictor;

/// What is known about a run when an estimate is made.
pub struct KnownOfRun<'a> {
    /// What makes the estimates.
    pub predictor: &'a Predictor,
    /// The same without dedicated windows; `None` if they were not requested.
    pub ledger_alone: Option<&'a Predictor>,
    /// The result of dedicated windows; `None` if they were not requested.
    pub found: Option<&'a Found>,
    /// The only tenants that may be parked, as the user named them; empty: all.
    pub park: &'a [String],
    /// The unseen values, and why.
    pub missing: Vec<Unavailable>,
    /// The cost of sampling, as a share of one CPU.
    pub spin_cost: Option<f64>,
    /// How long the subject spun.
    pub spinning: Option<Spinning>,
    /// The cost of counting, as a share of the subject's time on a CPU.
    pub counting_cost: Option<f64>,
}

/// Adds the flag that would help.
fn add_flag(u: &mut Unavailable) {
    let flag = match u.what {
        What::WakeUpTime => "; --wake-up TIME gives it",
        What::WakeUps => ": --measure-wake-up does the one, --wake-up TIME the other",
        _ => return,
    };
    u.why = Why::Said(format!("{}{flag}", u.why));
}

impl PredictReport {
    /// A report at `elapsed_ns` after the beginning of a live run.
    pub fn of_run(
        meta: &PredictMeta,
        elapsed_ns: u64,
        covers: Covers,
        mut known: KnownOfRun,
    ) -> PredictReport {
        let windows = known.found.map(|found| Windows::of(found, known.park));
        known.missing.extend(windows.iter().flat_map(Windows::missing));
        known.missing.iter_mut().for_each(add_flag);
        let estimates = Estimates::of(known.predictor);
        let mut report = PredictReport::new(meta, elapsed_ns, &estimates, covers, &known.missing);
        report.unavailable.iter_mut().filter(|u| u.what == What::WakeUps).for_each(add_flag);
        let is_end = |u: &Unavailable| matches!(u.why, Why::DedicatedEnded { .. });
        let why = match report.unavailable.iter().find(|u| is_end(u)) {
            Some(end) => Some(end.why.clone()),
            None => windows.and_then(|w| w.why_too_few()).map(Why::Said),
        };
        if let Some(why) = why {
            report.unavailable.retain(|u| u.what != What::DedicatedWindows);
            report.unavailable.push(Unavailable::new(What::DedicatedWindows, why));
        }
        // The following text says why spinning is unknown.
        if report.unavailable.iter().any(|u| u.what.is_spin_time()) {
            report.unavailable.retain(|u| u.what != What::Spin);
        }
        let of_ledger = |p: &Predictor| match covers {
            Covers::Present => p.estimate().ok(),
            Covers::Run => p.so_far().ok(),
        };
        let without = known.ledger_alone.and_then(of_ledger);
        report.without_dedicated = without.as_ref().map(|e| e.slowdown);
        report.without_dedicated_interval = without.map(|e| e.interval);
        report.dedicated_windows = windows.map(|w| w.summary());
        report.parked_ns = report.dedicated_windows.map(|DedicatedWindows { parked_ns, .. }| parked_ns);
        report.spin_cost = known.spin_cost;
        report.spinning = known.spinning;
        if report.spinning.is_none() && !report.unavailable.iter().any(|u| u.what.is_spin()) {
            report.unavailable.push(Unavailable::new(What::Spinning, Why::NothingJudged));
        }
        report.counting_cost = known.counting_cost;
        report
    }

    /// Drops the parts of an intermediate estimate that a page does not draw: it draws only the slowdown at
    /// that time.
    pub fn thin_out(&mut self) {
        (self.windows, self.culprits, self.unavailable) = Default::default();
        (self.spinning, self.servers) = (None, None);
    }
}
