//! Queues between stages: no thread sleeps while there is an item, or room, for it.

use crate::rig::scenario;
use corun_sim::scenario::Participants;

const S: u64 = 1_000_000_000;

#[test]
fn producers_and_consumers_of_a_queue_with_room_for_one_item_never_all_sleep() {
    for threads in [3, 5, 7] {
        let text = format!(
            "[[tenant]]\nname = \"pipe\"\nprogram = {{ kind = \"parallel\", sync = \"pipeline\", threads = {threads}, stages = 2, queue-depth = 1, wait = \"block\", grain = \"300us\", imbalance = 0.9, iterations = 3000 }}\n[[tenant]]\nname = \"loop\"\nbackground = true\nprogram = {{ kind = \"interference\", pattern = \"intermittent\", threads = 2 }}\n"
        );
        for seed in 1..=4 {
            let mut engine = scenario(&text).engine(seed, Participants::All, 0).unwrap();
            assert!(engine.run_to_end(60 * S).unwrap(), "{threads} threads, seed {seed}: nobody goes on");
        }
    }
}
