//! The **workers** of a program: the tasks that do a fair part of its work.
//!
//! The least is a quarter of the busiest task's work. Tasks that share the work differ by less, even if it is uneven. Helpers, such as
//! threads that collect garbage, write a log or wait for signals, do far less. A task for a short stage of a pipeline is not a worker
//! in this sense, although the pipeline may wait for it. To find the stages of a pipeline a lower share is needed (`stages` in
//! corun-predict's `dedicated.rs`).

/// The least work of a worker, as a share of that of the busiest task.
pub const LEAST: f64 = 0.25;

/// Whether a task that did `did` is a worker, if the busiest did `most`.
pub fn is_worker(did: f64, most: f64) -> bool {
    did > 0.0 && did >= LEAST * most
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_does_at_least_a_quarter_of_the_busiest_tasks_work_and_not_nothing() {
        let is = |did: f64| is_worker(did, 8.0);
        assert_eq!([0.0, 1.9, 2.0, 8.0].map(is), [false, false, true, true]);
        assert!(!is_worker(0.0, 0.0));
    }
}
