//! Facts about a recording that was replayed on the modelled machine.

use corun_model::{Unavailable, What, Why};
use corun_report::sim::{Loops, SimRecorded};
use corun_sim::replay::Recorded;

/// The facts about the recording, for a report.
pub fn facts(recorded: &Recorded) -> SimRecorded {
    let alone = recorded.alone;
    SimRecorded {
        command: recorded.command.clone(),
        cpus: recorded.cpus() as u64,
        took_ns: recorded.took_ns,
        alone_ns: [alone.least_ns, alone.likely_ns, alone.most_ns],
        may_have_spun: recorded.may_have_spun,
        events: recorded.events,
        left_out_ns: recorded.left_out_ns,
        co_runners: recorded
            .co_runners
            .iter()
            .map(|l| Loops { name: l.name.clone(), tasks: l.tasks, demand: l.demand })
            .collect(),
    }
}

/// The parts of this recording that the modelled machine leaves out.
pub fn left_out(recorded: &Recorded) -> Vec<Unavailable> {
    let mut all = Vec::new();
    if recorded.has_budget() {
        all.push(Unavailable::new(What::Replay, Why::NoBudgetsInModel));
    }
    if recorded.left_out_ns > 0 {
        let left_out_ns = recorded.left_out_ns;
        all.push(Unavailable::new(What::Replay, Why::EventsLost { left_out_ns }));
    }
    all
}
