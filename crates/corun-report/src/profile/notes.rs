//! Sentences that a reader of a profile must see.

use crate::words::count;
use corun_model::duration::human_ns;

/// It was interrupted.
pub const INTERRUPTED: &str = "interrupted: this is what was seen until then";
/// A controlled run was interrupted.
pub const CONTROL_INTERRUPTED: &str = "interrupted: this is what was done until then";
/// The subject ended first.
pub const SUBJECT_ENDED: &str = "the subject ended before the time was up";
/// The time is up, and the command goes on.
pub const COMMAND_GOES_ON: &str = "the command goes on; corun waits for its end, and ends with its status";

/// A statement that counters took turns: the share of the time in which each counted, and the relative error
/// of the sums.
pub fn turns_taken(counted_share: f64, relative_error: f64) -> String {
    let (share, error) = (counted_share * 100.0, relative_error * 100.0);
    format!("counters took turns: each was counted {share:.0} % of the time, sums are ± {error:.1} %")
}

/// The cost of counting: how much longer a switch took, and the share of the time on a CPU that this took.
pub fn counting_cost(added_ns: u64, share: f64) -> String {
    let (added, percent) = (human_ns(added_ns), 100.0 * share);
    format!("counting made a switch longer by {added}, {percent:.1} % of the time on a CPU in all")
}

/// A statement that it covers past time.
pub fn past(time: &str) -> String {
    format!("of the past: what was kept from {time}")
}

/// How much of that time was not seen.
pub fn not_kept(missing_ns: u64) -> Option<String> {
    // Windows and the time of day are not read at the same instant.
    (missing_ns >= 100_000_000).then(|| format!("{} of it were not kept", human_ns(missing_ns)))
}

/// A statement that an agent was restarted in that time.
pub fn other_runs(others: usize) -> Option<String> {
    let runs = || count(others as u64, "other run");
    (others > 0).then(|| format!("{} of the agent in that time left out; ask for a shorter time", runs()))
}

/// How processes are grouped for fair shares: every share in the report depends on it.
pub fn layout(has_autogroups: bool) -> &'static str {
    match has_autogroups {
        true => "autogroup on: sessions share the CPU equally, then the tasks in each",
        false => "autogroup off: tasks share the CPU by weight, cgroups first",
    }
}
