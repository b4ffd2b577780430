//! The cost of an epoch as a ratio: deciding for 100 tenants with 1,000 tasks, compared with copying the accounts behind the decision.
//! Copying takes about 100 µs. The target is an epoch below 200 µs (`cargo bench -p corun-policy`).

#[path = "it/toy/mod.rs"]
mod toy;

use corun_model::observation::Account;
use corun_policy::{by_name, Options, ALL};
use std::time::{Duration, Instant};
use toy::{who, Toy};

#[test]
fn deciding_costs_no_more_than_a_few_copies_of_the_observation() {
    for entry in ALL {
        let mut policy = by_name(entry.name, &Options::new()).unwrap();
        let mut toy = Toy::new(64, (0..100).map(|i| who(&format!("tenant{i}"), 10, 50 + i * 9)).collect());
        // The least of many is the cost. Anything above is caused by other work on the machine.
        let (mut decide, mut copy) = (Duration::MAX, Duration::MAX);
        for _ in 0..30 {
            let seen = toy.window(policy.epoch_ns());
            let start = Instant::now();
            let decided = policy.decide(&toy.machine, &seen);
            decide = decide.min(start.elapsed());
            let start = Instant::now();
            let copied: Vec<Account> = seen.tasks.iter().map(|t| (*t.account).clone()).collect();
            copy = copy.min(start.elapsed());
            assert_eq!(copied.len(), 1_000);
            toy.carry_out(&decided);
        }
        println!("{}: {decide:?}, a copy {copy:?}", entry.name);
        // With optimization it is below two copies, and without up to eight. A cost quadratic in tasks would be hundreds.
        assert!(decide < 30 * copy, "{}: {decide:?} against {copy:?}", entry.name);
    }
}
