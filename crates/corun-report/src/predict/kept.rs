//! What kept a program from running, in a clause: its own budgets, and anybody who stopped or froze it. No
//! co-runner caused that, so it is not part of any slowdown. For a program that did not run at all, the
//! clause also says that others had its CPUs.

use super::PredictReport;
use crate::words::share;
use corun_predict::estimate::Waited;

/// A smaller part of its time is not mentioned.
const NOTABLE: f64 = 0.05;

const THROTTLED: &str = "throttled by the CPU budget that it is under";
const STOPPED: &str = "stopped by a signal or a debugger";
const FROZEN: &str = "frozen with its cgroup or the whole system";
/// Where neither is notable by itself.
const HELD: &str = "stopped or frozen by somebody";
const STARVED: &str = "kept from its CPUs by others";

/// What stopped a program that ran, apart from its slowdown.
pub(super) fn left_out(report: &PredictReport) -> Option<String> {
    let (held, frozen) = (report.held.unwrap_or(0.0), report.frozen.unwrap_or(0.0));
    let throttled = (report.throttled.unwrap_or(0.0), THROTTLED);
    let said = clause(&[throttled], held - frozen, frozen)?;
    Some(format!("{said}, which this leaves out"))
}

/// What kept a program that did not run.
pub(super) fn all_of(waited: &Waited) -> Option<String> {
    let of = |ns: u64| ns as f64 / waited.life_ns.max(1) as f64;
    let others = [(of(waited.throttled_ns), THROTTLED), (of(waited.stolen_ns), STARVED)];
    clause(&others, of(waited.stopped_ns), of(waited.frozen_ns))
}

/// For how much of its time each kept it, if that is notable.
fn clause(others: &[(f64, &str)], stopped: f64, frozen: f64) -> Option<String> {
    let apart = [(stopped, STOPPED), (frozen, FROZEN)];
    let together = [(stopped + frozen, HELD)];
    let is_notable = |cause: &&(f64, &str)| cause.0 >= NOTABLE;
    let held = if apart.iter().any(|cause| is_notable(&cause)) { &apart[..] } else { &together[..] };
    let said: Vec<String> = others
        .iter()
        .chain(held)
        .filter(is_notable)
        .map(|(of, how)| format!("{how} for {} % of its time", share(*of)))
        .collect();
    (!said.is_empty()).then(|| said.join(", "))
}
