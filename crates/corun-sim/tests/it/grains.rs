//! A grain ends when its work is done, at any length.

use crate::rig::scenario;
use corun_sim::scenario::Participants;

const HOUR_NS: u64 = 3_600_000_000_000;

/// When a program of one thread ends; `None`: not within ten hours.
fn over_ns(length: &str) -> Option<u64> {
    let text = format!(
        "[scheduler]\ntick = \"1s\"\n[[tenant]]\nname = \"long\"\nprogram = {{ kind = \"parallel\", sync = \"none\", threads = 1, {length} }}\n"
    );
    let mut engine = scenario(&text).engine(1, Participants::All, 0).unwrap();
    engine.run_to_end(10 * HOUR_NS).unwrap().then(|| engine.now_ns())
}

#[test]
fn a_grain_of_hours_takes_as_long_as_its_parts_do() {
    for hours in [2, 3, 5, 8] {
        let at_once = over_ns(&format!("grain = \"{hours}h\", iterations = 1")).expect("it ends");
        let in_parts = over_ns(&format!("grain = \"1h\", iterations = {hours}")).expect("it ends");
        assert!(at_once.abs_diff(in_parts) < 1_000_000, "{hours} hours: {at_once} and {in_parts} ns");
        assert!(at_once.abs_diff(hours * HOUR_NS) < 1_000_000_000, "{hours} hours: {at_once} ns");
    }
}

#[test]
fn a_grain_of_hours_is_cut_short_when_the_time_is_up() {
    let over_ns = over_ns("grain = \"9h\", duration = \"4h\"").expect("it ends");
    assert!(over_ns.abs_diff(4 * HOUR_NS) < 1_000_000_000, "{over_ns} ns");
}
