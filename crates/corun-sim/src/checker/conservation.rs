//! Conservation: every nanosecond of every task and CPU is counted exactly once. The run time of tasks equals
//! the busy time of CPUs. Engine and scheduler agree on the place of every queued task.

use super::bug;
use crate::engine::Fault;

/// A CPU's busy and idle time in the window so far must sum to the window so far.
///
/// # Errors
/// The sums that differ.
pub fn conservation_of_cpu(cpu: usize, window: (u64, u64), busy_ns: u64, idle_ns: u64) -> Result<(), Fault> {
    let length_ns = window.1 - window.0;
    if busy_ns + idle_ns == length_ns {
        return Ok(());
    }
    let what = format!("CPU index {cpu} was busy {busy_ns} and idle {idle_ns} of {length_ns} ns");
    Err(bug("conservation", what))
}

/// A task's counted time must be its life inside the window (at most that once it has ended).
///
/// # Errors
/// The sums that differ.
pub fn conservation_of_task(
    name: &str,
    window: (u64, u64),
    born_ns: u64,
    alive: bool,
    counted_ns: u64,
) -> Result<(), Fault> {
    let life_ns = window.1.saturating_sub(born_ns.max(window.0));
    if alive && counted_ns == life_ns || !alive && counted_ns <= life_ns {
        return Ok(());
    }
    Err(bug("conservation", format!("task {name} has {counted_ns} ns counted of a life of {life_ns} ns")))
}

/// The run time of all tasks must equal the busy time of all CPUs.
///
/// # Errors
/// The sums that differ.
pub fn conservation_of_machine(on_cpu_ns: u64, busy_ns: u64) -> Result<(), Fault> {
    if on_cpu_ns == busy_ns {
        return Ok(());
    }
    Err(bug("conservation", format!("tasks ran {on_cpu_ns} ns while CPUs were busy {busy_ns} ns")))
}

/// A runnable task is in exactly the queue where the engine believes it, any other in none.
///
/// # Errors
/// Where engine and scheduler disagree.
pub fn queued_once(name: &str, engine: Option<usize>, scheduler: Option<usize>) -> Result<(), Fault> {
    if engine == scheduler {
        return Ok(());
    }
    let what = format!("task {name} is on {engine:?} for the engine and on {scheduler:?} for the scheduler");
    Err(bug("queues", what))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nanosecond_too_many_or_too_few_is_found() {
        assert!(conservation_of_cpu(0, (10, 30), 15, 5).is_ok());
        assert!(conservation_of_cpu(0, (10, 30), 15, 6).is_err());
        assert!(conservation_of_task("t", (10, 30), 20, true, 10).is_ok());
        assert!(conservation_of_task("t", (10, 30), 20, true, 9).is_err());
        assert!(conservation_of_task("t", (10, 30), 5, false, 9).is_ok());
        assert!(conservation_of_task("t", (10, 30), 5, false, 21).is_err());
        assert!(conservation_of_machine(5, 6).is_err());
        assert!(queued_once("t", Some(1), None).is_err() && queued_once("t", None, None).is_ok());
    }
}
