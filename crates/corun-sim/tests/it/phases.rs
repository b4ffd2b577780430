//! Programs of several phases, done once or repeated.

use crate::rig::scenario;
use corun_model::Parts;
use corun_sim::scenario::{Participants, Scenario};

const MS: u64 = 1_000_000;

/// Two threads: one computes for 5 ms, then each does its share of 4 ms, two of them before a barrier.
fn iterative(how: &str, laps: u32) -> Scenario {
    let model = format!(
        "[{{ threads = 1, sync = \"none\", wait = \"{how}\", grain = \"5ms\", iterations = 1 }}, \
         {{ threads = 2, sync = \"pipeline\", wait = \"{how}\", grain = \"1ms\", queue-depth = 1, iterations = 4 }}, \
         {{ threads = 2, wait = \"{how}\", grain = \"2ms\", iterations = 2 }}]"
    );
    let duration = if laps == 0 { "duration = \"1h\"\n" } else { "" };
    scenario(&format!(
        "{duration}[[tenant]]\nname = \"it\"\nprogram = {{ kind = \"command\", argv = [\"it\"], iterations = {laps}, model = {model} }}\n"
    ))
}

/// Its end, the activity of each of its threads until then, and its iterations.
fn run(scenario: &Scenario) -> (u64, Vec<Parts>, u64) {
    let mut engine = scenario.engine(1, Participants::All, 0).unwrap();
    engine.paranoid = true;
    assert!(engine.run_to_end(10_000 * MS).unwrap(), "it ends");
    let seen = engine.observe();
    let parts = seen.tasks.iter().map(|t| *t.account.ledger.parts()).collect();
    let run = engine.progress()[0].completions.first.unwrap();
    (run.end_ns - run.start_ns, parts, run.iterations)
}

#[test]
fn laps_through_phases_take_as_many_times_as_long() {
    for how in ["spin", "block"] {
        let (once_ns, _, once) = run(&iterative(how, 1));
        let (all_ns, _, all) = run(&iterative(how, 20));
        // 5 ms, then four items through two stages, then two rounds of 2 ms.
        assert!(once_ns.abs_diff(14 * MS) < MS, "{how}: {once_ns} ns");
        assert!(
            all_ns.abs_diff(20 * once_ns) < 10 * MS,
            "{how}: {once_ns} ns once, {all_ns} ns twenty times"
        );
        assert_eq!((once, all), (1 + 4 + 2, 20 * 7), "{how}");
    }
}

#[test]
fn a_thread_that_is_done_with_a_phase_waits_in_the_way_of_its_program() {
    let of_the_second = |how: &str| {
        let parts = run(&iterative(how, 20)).1[1];
        (parts.spin_ns.unwrap(), parts.block_ns)
    };
    let (spun_ns, slept_ns) = of_the_second("spin");
    assert!(spun_ns > 20 * 5 * MS && slept_ns < MS, "{spun_ns} {slept_ns}");
    let (spun_ns, slept_ns) = of_the_second("block");
    assert!(slept_ns > 20 * 5 * MS && spun_ns == 0, "{spun_ns} {slept_ns}");
}

#[test]
fn endless_phases_continue_until_the_time_is_up() {
    let mut engine = iterative("spin", 0).engine(1, Participants::All, 0).unwrap();
    assert!(engine.progress()[0].endless);
    engine.run_until(1_400 * MS).unwrap();
    engine.check().unwrap();
    let work_ns = engine.progress()[0].work_ns;
    // 5 + 4 + 4 + 4 + 4 ms of work in each 14 ms.
    assert!(work_ns.abs_diff(100 * 21 * MS) < 30 * MS, "{work_ns}");
}
