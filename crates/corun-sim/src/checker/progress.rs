//! Progress: no runnable task waits without end. Schedulers here are fair or share credits. So a wait far beyond a slice times the
//! number of competitors means that a scenario's weights starve a task.

use crate::engine::Fault;
use corun_model::duration::human_ns;

/// A wait of this length is starvation.
pub const STARVED_NS: u64 = 60_000_000_000;

/// Checks one waiting task.
///
/// # Errors
/// The task that starves.
pub fn progress(task: &str, tenant: &str, wait_since_ns: u64, now_ns: u64) -> Result<(), Fault> {
    if now_ns - wait_since_ns <= STARVED_NS {
        return Ok(());
    }
    Err(Fault::Scenario(format!(
        "the scenario starves {task} of {tenant}: runnable for {} without running; give it more weight or more CPUs",
        human_ns(now_ns - wait_since_ns)
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_minute_in_the_run_queue_is_starvation() {
        assert!(progress("t", "x", 5, STARVED_NS).is_ok());
        let said = progress("t", "x", 5, STARVED_NS + 5 + 1_500_000_000).unwrap_err().to_string();
        assert!(
            said.starts_with("the scenario starves t of x: runnable for 61.5 s without running"),
            "{said}"
        );
    }
}
