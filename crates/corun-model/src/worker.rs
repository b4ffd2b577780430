//! Which tasks of a program are its **workers**: those that have a fair part of its work.
//!
//! A quarter of what the busiest does is the least. Tasks that share a program's work out differ by less, also where the work is
//! uneven, and helpers (a thread that collects garbage, writes a log or waits for signals) do far less. A task of a pipeline whose
//! stage is short is no worker in this sense, although the pipeline may wait for it: who looks for the stages of a pipeline looks
//! for less (`stages` in corun-predict's `dedicated.rs`).

/// The least that a worker does, as a share of what the busiest task of its program does.
pub const LEAST: f64 = 0.25;

/// Whether a task that did so much is a worker, where the busiest did `most`.
pub fn is_worker(did: f64, most: f64) -> bool {
    did > 0.0 && did >= LEAST * most
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_does_a_quarter_of_what_the_busiest_does_and_not_nothing() {
        let is = |did: f64| is_worker(did, 8.0);
        assert_eq!([0.0, 1.9, 2.0, 8.0].map(is), [false, false, true, true]);
        assert!(!is_worker(0.0, 0.0));
    }
}
