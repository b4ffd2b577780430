//! A simulation (Time Warp) on the modelled machine: the papers' findings about fixed mapping and LADM result
//! from virtual times.

use crate::rig::{engine, scenario};
use corun_sim::experiment::{perform, Options};

/// Slowdowns of a simulation of two workers, and of the slowest of `loops` busy loops with it on two CPUs.
fn beside(keys: &str, loops: u32) -> (f64, f64) {
    let others = match loops {
        0 => String::new(),
        n => format!(
            "[[tenant]]\nname = \"loop\"\nbackground = true\nprogram = {{ kind = \"interference\", threads = {n} }}\n"
        ),
    };
    let s = scenario(&format!(
        "seeds = [1, 2]\n[scheduler]\nname = \"eevdf\"\ngroups = false\n[[tenant]]\nname = \"simulation\"\n\
         program = {{ kind = \"pdes\", threads = 2, {keys}, lps = 64, population = 1, grain = \"20us\" }}\n{others}"
    ));
    let outcome = perform(&s, &Options::default(), &|| {}).unwrap();
    let slowdown = |i: usize| outcome.tenants.get(i).map_or(1.0, |t| t.slowdown.unwrap().mean);
    (slowdown(0), slowdown(1))
}

const FM: &str = "iterations = 40000, mapping = \"fm\", idle = \"spin\"";
const LADM: &str = "iterations = 40000, mapping = \"ladm\", idle = \"block\"";

#[test]
fn ladm_keeps_its_fair_share_with_any_loops_and_fixed_mapping_loses_with_uneven_ones() {
    for loops in 1..=4 {
        let ((fm, _), (ladm, _)) = (beside(FM, loops), beside(LADM, loops));
        // Two workers and this many loops share two CPUs evenly.
        let fair = 1.0 + f64::from(loops) / 2.0;
        println!("{loops} loops: FM {fm:.2}x, LADM {ladm:.2}x, fair {fair:.1}x");
        assert!(ladm < fair * 1.05, "{loops} loops: {ladm}, and its share is {fair}");
        // With an even number, both CPUs have equally many loops. Modelled slices begin and end together
        // there, so no worker is behind.
        let most = if loops % 2 == 1 { 0.9 * fm } else { 1.01 * fm };
        assert!(ladm < most, "{loops} loops: FM {fm}, LADM {ladm}");
    }
}

#[test]
fn fixed_mapping_is_as_slow_as_its_slowest_worker_and_no_faster() {
    // The loop shares the CPU of one of the two workers, which are pinned.
    let (fm, loops) = beside(FM, 1);
    assert!((1.5..2.4).contains(&fm) && (1.5..2.2).contains(&loops), "{fm}, and the loop {loops}");
}

#[test]
fn a_window_makes_workers_wait_for_one_behind_and_none_waits_for_ever() {
    for idle in ["spin", "yield", "block"] {
        for mapping in ["fm", "pool", "ladm"] {
            let keys = format!("iterations = 4000, mapping = \"{mapping}\", idle = \"{idle}\", window = 500");
            let (slowdown, _) = beside(&keys, 1);
            assert!((0.9..4.0).contains(&slowdown), "{mapping}, {idle}: {slowdown}");
        }
    }
}

#[test]
fn no_nanosecond_is_lost_in_any_takeover() {
    for mapping in ["fm", "pool", "ladm"] {
        let mut engine = engine(&format!(
            "[[tenant]]\nname = \"simulation\"\n\
             program = {{ kind = \"pdes\", threads = 4, mapping = \"{mapping}\", grain = \"20us\", iterations = 10000 }}\n\
             [[tenant]]\nname = \"loop\"\nprogram = {{ kind = \"interference\", threads = 3 }}\n"
        ));
        assert!(engine.run_to_end(10_000_000_000).unwrap(), "{mapping}");
        engine.observe().check().unwrap();
    }
}
