//! Bursts of interference by two clocks. A burst of CPU time is always complete, however long it takes. A
//! burst of wall time loses what is stolen.

use crate::rig::{observe, scenario, tenant};

const SECOND_NS: u64 = 1_000_000_000;

/// CPU time in a second of bursts of 10 ms, one every 20 ms, on a CPU with three loops; and how often the
/// program slept.
fn beside_loops(busy_by: &str) -> (u64, u64) {
    let text = format!(
        "duration = \"1s\"\n[scheduler]\ngroups = false\n[[tenant]]\nname = \"bursts\"\ncpus = [0]\nprogram = {{ kind = \"interference\", pattern = \"periodic\", busy-by = \"{busy_by}\" }}\n\
         [[tenant]]\nname = \"loops\"\ncpus = [0, 0, 0]\nprogram = {{ kind = \"interference\", threads = 3 }}\n"
    );
    let mut engine = scenario(&text).engine(1, corun_sim::scenario::Participants::All, 0).unwrap();
    engine.paranoid = true;
    let seen = observe(&mut engine, SECOND_NS);
    let parts = tenant(&seen, "bursts").account.ledger.parts();
    assert_eq!(parts.spin_ns.unwrap_or(0), 0, "a burst computes");
    (parts.compute_ns, tenant(&seen, "bursts").account.events.blocked.unwrap())
}

#[test]
fn a_burst_of_cpu_time_is_complete_and_one_of_wall_time_ends_on_time() {
    let ((cpu_ns, cpu_bursts), (wall_ns, wall_bursts)) = (beside_loops("cpu"), beside_loops("wall"));
    assert!(cpu_ns / cpu_bursts >= 9_900_000, "{cpu_ns} ns in {cpu_bursts} bursts");
    assert!((30..=50).contains(&wall_bursts), "{wall_bursts} bursts by wall time");
    assert!(
        cpu_bursts < 28 && wall_ns / wall_bursts < 8_000_000,
        "{cpu_bursts}; {wall_ns} ns in {wall_bursts}"
    );
}

#[test]
fn a_burst_of_wall_time_is_cut_short_when_the_time_is_up() {
    let text = "[[tenant]]\nname = \"bursts\"\nprogram = { kind = \"interference\", pattern = \"periodic\", busy = \"10s\", busy-by = \"wall\", duration = \"1s\" }\n";
    let mut engine = scenario(text).engine(1, corun_sim::scenario::Participants::All, 0).unwrap();
    assert!(engine.run_to_end(60 * SECOND_NS).unwrap());
    assert!(engine.now_ns() < SECOND_NS + 10_000_000, "{} ns", engine.now_ns());
}
