//! ATC'16's statements about its mapper, on its machines with its own programs: the shapes, not the sizes.

use crate::rig::scenario;
use corun_model::{Host, Outcome};
use corun_policy::{by_name, Options};
use corun_sim::scenario::Participants;

const EPOCH_NS: u64 = 100_000_000;

/// Work per nanosecond of each of these programs, with their numbers of threads, over the last part of the epochs.
fn speeds(machine: &str, apps: &[(&str, usize)], policy: &str, options: Options, epochs: u32) -> Vec<f64> {
    let mut text = format!("machine = \"{machine}\"\nduration = \"1h\"\n[scheduler]\nname = \"cfs\"\n");
    for (name, threads) in apps {
        text += &format!(
            "[[tenant]]\nworkload = \"workloads/papers/{name}.toml\"\nthreads = {threads}\nrepeat = true\n"
        );
    }
    let mut engine = scenario(&text).engine(1, Participants::All, 0).unwrap();
    let mut policy = by_name(policy, &options).unwrap();
    let mut begin = (0, Vec::new());
    for epoch in 0..epochs {
        if epoch == 10 {
            // A policy that looks every ten epochs has done so.
            begin = (engine.now_ns(), engine.progress().iter().map(|p| p.work_ns).collect());
        }
        engine.advance(EPOCH_NS).unwrap();
        let seen = Host::observe(&mut engine).unwrap();
        for d in policy.decide(engine.machine(), &seen) {
            assert_eq!(engine.apply(&d.action), Outcome::Done, "{d:?}");
        }
    }
    let elapsed_ns = (engine.now_ns() - begin.0) as f64;
    let speed = |(p, before): (&corun_sim::engine::Progress, u64)| (p.work_ns - before) as f64 / elapsed_ns;
    engine.progress().iter().zip(begin.1).map(speed).collect()
}

const SMALL: &str = "atc16-ivybridge-40";
const LARGE: &str = "atc16-haswell-80";

/// How much faster the slowest of some programs is under the policy than under Linux alone.
fn least_gain(machine: &str, apps: &[(&str, usize)], policy: &str) -> f64 {
    let of = |policy| speeds(machine, apps, policy, Options::new(), 25);
    of(policy).iter().zip(of("observe")).map(|(a, b)| a / b).fold(f64::MAX, f64::min)
}

#[test]
fn applications_and_not_tasks_distinguish_two_programs_that_share_data() {
    let mix = [("sgd", 20), ("lsgd", 20)];
    let (whole, tasks) = (least_gain(SMALL, &mix, "sam_mph"), least_gain(SMALL, &mix, "sam"));
    println!("SGD and LSGD: SAM-MPH {whole:.2}, SAM {tasks:.2}, of Linux' speed");
    assert!(whole > 1.1, "{whole}: a socket each saves the transfers between sockets");
    assert!(whole > tasks + 0.03, "{whole} against {tasks}");
}

#[test]
fn a_program_that_computes_much_keeps_its_cores_except_under_a_mapper_that_sees_only_sharing() {
    let alone = [("lubench", 20)];
    let (sam, mph) = (least_gain(SMALL, &alone, "sam"), least_gain(SMALL, &alone, "sam_mph"));
    println!("LuBench: SAM {sam:.2}, SAM-MPH {mph:.2}, of Linux' speed");
    assert!(sam < 0.95, "{sam}: two threads on a core hide nothing from each other");
    assert!(mph > 0.97, "{mph}");
}

#[test]
fn threads_that_stall_much_for_each_other_share_a_core() {
    let pairs = [("hubench", 20)];
    let (sam, mph) = (least_gain(LARGE, &pairs, "sam"), least_gain(LARGE, &pairs, "sam_mph"));
    println!("HuBench: SAM {sam:.1}, SAM-MPH {mph:.1} times Linux' speed");
    assert!(sam > 2.0, "{sam}: on one socket transfers are short");
    assert!(mph > 1.5 * sam, "{mph} against {sam}: on one core there are none");
}

#[test]
fn pairs_that_were_examined_again_are_restored() {
    // The machine's kernel spreads them as soon as they are released, after 6 s.
    let speed = |epochs| speeds(SMALL, &[("hubench", 20)], "sam_mph", Options::new(), epochs)[0];
    let (before, all) = (speed(25), speed(110));
    println!("HuBench in pairs {before:.2}, over 10 s with a look {all:.2}");
    assert!(all < 0.97 * before, "{all} against {before}: the look takes them apart");
    assert!(all > 0.8 * before, "{all} against {before}");
}

#[test]
fn if_no_program_shares_data_nothing_is_confined() {
    let mut engine = scenario(
        "machine = \"atc16-ivybridge-40\"\nduration = \"1h\"\n[[tenant]]\nworkload = \"workloads/papers/cpu.toml\"\nrepeat = true\n\
         [[tenant]]\nname = \"loops\"\nprogram = { kind = \"interference\", threads = 60 }\n",
    )
    .engine(1, Participants::All, 0)
    .unwrap();
    for name in ["sam", "sam_mph"] {
        let mut policy = by_name(name, &Options::new()).unwrap();
        for _ in 0..12 {
            engine.advance(EPOCH_NS).unwrap();
            let seen = Host::observe(&mut engine).unwrap();
            assert_eq!(policy.decide(engine.machine(), &seen), []);
        }
    }
}

#[test]
fn more_tasks_than_contexts_are_kept_on_sockets_and_not_on_contexts() {
    let mut engine = scenario(
        "machine = \"atc16-ivybridge-40\"\nduration = \"1h\"\n[[tenant]]\nworkload = \"workloads/papers/sgd.toml\"\nthreads = 30\nrepeat = true\n\
         [[tenant]]\nworkload = \"workloads/papers/lsgd.toml\"\nthreads = 30\nrepeat = true\n",
    )
    .engine(1, Participants::All, 0)
    .unwrap();
    let mut policy = by_name("sam_mph", &Options::new()).unwrap();
    let mut sockets = std::collections::BTreeMap::new();
    for _ in 0..20 {
        engine.advance(EPOCH_NS).unwrap();
        let seen = Host::observe(&mut engine).unwrap();
        for d in policy.decide(engine.machine(), &seen) {
            assert_eq!(engine.apply(&d.action), Outcome::Done);
            let corun_model::Action::Cpus { task, cpus } = d.action else { panic!("it turns no other knob") };
            let of = |c| engine.machine().cpu(c).unwrap().socket;
            assert!(cpus.len() == 20 && cpus.iter().all(|&c| of(c) == of(cpus[0])), "{task:?}: {cpus:?}");
            sockets.insert(task, of(cpus[0]));
        }
    }
    let on = |tasks: std::ops::Range<u32>, s| {
        sockets.iter().filter(|(t, at)| tasks.contains(&(t.0 - 1)) && **at == s).count()
    };
    let (first, second) = (on(0..30, 0).max(on(0..30, 1)), on(30..60, 0).max(on(30..60, 1)));
    assert!(first >= 25 && second >= 25, "{first} and {second} of 30 on one socket");
}
