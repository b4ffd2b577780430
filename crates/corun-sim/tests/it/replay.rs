//! Same scenario and seed, same bytes: traces, observations and totals.

use crate::rig::scenario;
use corun_sim::scenario::Participants;

const MS: u64 = 1_000_000;

const SMALL: &str = "
[[tenant]]
name = \"stages\"
program = { kind = \"parallel\", sync = \"pipeline\", stages = 2, threads = 3, wait = \"spin-then-block\", grain = \"400us\", imbalance = 0.8 }
background = false
[[tenant]]
name = \"lock\"
program = { kind = \"parallel\", threads = 2, sync = \"lock\", wait = \"spin\", grain = \"150us\", critical = 0.6 }
character = { llc-refs-pki = 20.0, working-set = \"8MiB\", coherence-pki = 3.0 }
[[tenant]]
name = \"noise\"
program = { kind = \"interference\", pattern = \"intermittent\", busy-min = \"100us\", busy-max = \"3ms\", threads = 2 }
";

fn run(seed: u64, scheduler: &str) -> (String, String) {
    let s = scenario(&format!("duration = \"1s\"\n[scheduler]\nname = \"{scheduler}\"\n{SMALL}"));
    let mut e = s.engine(seed, Participants::All, 1 << 20).unwrap();
    e.run_until(100 * MS).unwrap();
    let seen = format!("{:?} {:?}", e.observe(), e.totals());
    (format!("{:?}", e.trace().unwrap()), seen)
}

#[test]
fn a_thousand_replays_of_one_seed_do_not_differ_in_a_byte() {
    let first = run(7, "eevdf");
    assert!(first.0.matches("Switch").count() > 100, "{}", first.0.matches("Switch").count());
    let differences = (1..1000).filter(|_| run(7, "eevdf") != first).count();
    assert_eq!(differences, 0);
}

#[test]
fn every_scheduler_replays_and_another_seed_is_another_run() {
    for scheduler in ["eevdf", "cfs", "cfs\"\nlinux = \"3.8", "xen-credit"] {
        assert_eq!(run(1, scheduler), run(1, scheduler), "{scheduler}");
        assert_ne!(run(1, scheduler), run(2, scheduler), "{scheduler}");
    }
}
