//! `differential`: different slices on every CPU. PACT'16 §5.2.
//!
//! Each time a CPU dispatches a task, its slice is drawn at random from [10 ms, 30 ms]. The mean is the same on every CPU, but the CPUs
//! of a parallel program proceed at different speeds. Threads that no longer run in step put less pressure on their shared memory.
//! `corun_slice_ns` in corun-decisions' `decisions.h` draws. This file only sets the range, once per task.
//!
//! Limits: slices are only as precise as in the scheduler (Linux's own rounds them up to the tick). The paper itself finds that tightly
//! coupled CPU-bound programs lose by it.

use crate::options::{BadPolicy, Kind, OptionSpec, Values};
use crate::scope::Scope;
use crate::settled::Settled;
use corun_decisions::{LEAST_SLICE_NS, MOST_SLICE_NS};
use corun_model::{Action, Decision, Knob, Machine, Observation, Policy, Reason};

const BOUND: Kind = Kind::Time { least_ns: LEAST_SLICE_NS, most_ns: MOST_SLICE_NS };

pub(crate) const OPTIONS: &[OptionSpec] = &[
    OptionSpec { name: "shortest", default: "10ms", kind: BOUND, words: &[], about: "the shortest slice" },
    OptionSpec { name: "longest", default: "30ms", kind: BOUND, words: &[], about: "the longest slice" },
];

/// Random slices for every task.
#[derive(Debug)]
pub struct Differential {
    scope: Scope,
    shortest_ns: u64,
    longest_ns: u64,
    done: Settled<()>,
}

impl Differential {
    pub(crate) fn new(values: &Values) -> Result<Differential, BadPolicy> {
        let bound = |name| values.number(name).expect("bounds have no words");
        let (shortest_ns, longest_ns) = (bound("shortest"), bound("longest"));
        if shortest_ns > longest_ns {
            let bounds = [("shortest", shortest_ns), ("longest", longest_ns)];
            return Err(BadPolicy::Exchanged { policy: "differential", bounds });
        }
        Ok(Differential { scope: values.scope.clone(), shortest_ns, longest_ns, done: Settled::default() })
    }
}

impl Policy for Differential {
    fn name(&self) -> &'static str {
        "differential"
    }

    fn knobs(&self) -> &'static [Knob] {
        &[Knob::Slice]
    }

    fn decide(&mut self, _: &Machine, seen: &Observation) -> Vec<Decision> {
        let (min_ns, max_ns) = (self.shortest_ns, self.longest_ns);
        let mut decisions = Vec::new();
        self.done.follow(seen, &self.scope, |task, known| {
            if known.is_none() {
                decisions.push(Decision {
                    action: Action::Slice { task: task.id, min_ns, max_ns },
                    because: Reason::NewTaskSlices,
                });
            }
        });
        decisions
    }
}
