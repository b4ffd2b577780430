//! Was work assigned to threads, or do they take it from each other? The computing time of each thread
//! decides.
//!
//! Assigned work does not depend on who had CPUs. Shared work goes where the CPUs are: a thread that had a
//! CPU for more of the time in which it wanted one did more of the work. All threads wanted a CPU for equally
//! long. Let `c` be what a thread computed, `d` the time for which it computed or wanted to, and `r = c / d`,
//! so that `ln c = ln r + ln d`. Then work is shared to this extent:
//!
//! ```text
//! cov(ln c, ln r) / (cov(ln c, ln r) + var(ln d))
//! ```
//!
//! summed over the threads of each process, weighted with their computing. It is 1 if all wanted a CPU for
//! equally long, and 0 if the work of a thread is unrelated to its CPU time. Limit: with two threads this may
//! be chance. Then the two ends are close together, or the interval is wide.

use super::script::Script;
use std::collections::BTreeMap;

/// How much of the work of tasks was shared, 0..=1.
pub(super) fn share_of_work(scripts: &[Script]) -> f64 {
    let mut crews: BTreeMap<u32, Vec<[f64; 3]>> = BTreeMap::new();
    for script in scripts.iter().filter(|s| !s.leads) {
        let computed_ns = script.compute_ns() as f64;
        if computed_ns > 0.0 {
            let wanted_ns = computed_ns + script.wanted_ns as f64;
            let of = [computed_ns, computed_ns.ln(), wanted_ns.ln()];
            crews.entry(script.process).or_default().push(of);
        }
    }
    let (mut together, mut apart) = (0.0, 0.0);
    for crew in crews.values() {
        let all: f64 = crew.iter().map(|t| t[0]).sum();
        let mean = |of: &dyn Fn(&[f64; 3]) -> f64| crew.iter().map(|t| t[0] * of(t)).sum::<f64>() / all;
        let (c, d) = (mean(&|t| t[1]), mean(&|t| t[2]));
        together += all * mean(&|t| (t[1] - c) * (t[1] - c - (t[2] - d)));
        apart += all * mean(&|t| (t[2] - d).powi(2));
    }
    let together = together.max(0.0);
    if together > 0.0 {
        together / (together + apart)
    } else {
        0.0
    }
}

#[cfg(test)]
mod tests {
    use super::super::script::Op;
    use super::*;

    /// Threads that computed this long and waited this long for a CPU.
    fn shared(threads: &[(u64, u64)]) -> f64 {
        let script = |&(ns, wanted_ns): &(u64, u64)| Script {
            process: 1,
            wanted_ns,
            ops: vec![Op::Compute { ns, beside_ns: 0, queued_ns: 0 }],
            ..Script::default()
        };
        share_of_work(&threads.iter().map(script).collect::<Vec<_>>())
    }

    #[test]
    fn work_is_shared_as_far_as_threads_with_a_cpu_did_it() {
        assert!(shared(&[(600, 0), (300, 300)]) > 0.99, "both wanted one all the time");
        assert!(shared(&[(600, 0), (300, 290), (400, 210)]) > 0.98);
        assert!(shared(&[(450, 0), (450, 450)]) < 0.01, "each did its part, and one took twice as long");
        assert!(shared(&[(600, 600), (300, 300)]) < 0.01, "dealt out unequally, and stolen from alike");
        assert!(shared(&[(600, 400), (300, 0)]) < 0.01, "who had less did more");
        assert_eq!((shared(&[(500, 500)]), shared(&[])), (0.0, 0.0));
    }
}
