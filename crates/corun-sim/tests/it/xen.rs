//! Xen's credit scheduler behaves as its documentation and PACT'16 say.

use crate::rig::{engine, latencies, observe, quantile, stretches, tenant};
use corun_model::TaskId;

const MS: u64 = 1_000_000;

fn vms(first: &str, second: &str) -> String {
    format!(
        "[scheduler]\nname = \"xen-credit\"\n[[tenant]]\nname = \"a\"\nvm = {{ vcpus = 1 }}\ncpus = [0]\nbackground = false\n{first}\n[[tenant]]\nname = \"b\"\nvm = {{ vcpus = 1 }}\ncpus = [0]\n{second}\n"
    )
}

const LOOP: &str = "program = { kind = \"interference\" }";

#[test]
fn busy_vms_take_turns_every_30_ms_and_share_equally() {
    let mut e = engine(&vms(LOOP, LOOP));
    observe(&mut e, 100 * MS);
    let seen = observe(&mut e, 6_000 * MS);
    let median = quantile(&stretches(e.trace().unwrap(), TaskId(1)), 0.5);
    assert!(median.abs_diff(30 * MS) < MS, "{median}");
    let share = tenant(&seen, "a").account.ledger.on_cpu_ns() as f64 / 6e9;
    assert!((0.47..0.53).contains(&share), "{share}");
}

#[test]
fn a_vm_that_wakes_up_takes_the_cpu_at_once_and_keeps_its_slice() {
    let periodic =
        "program = { kind = \"interference\", pattern = \"periodic\", busy = \"12ms\", demand = 0.3 }";
    let mut e = engine(&vms(periodic, LOOP));
    observe(&mut e, 3_000 * MS);
    let trace = e.trace().unwrap();
    assert!(quantile(&latencies(trace, TaskId(1)), 0.9) < 50_000, "boosted at wake-up");
    let runs = stretches(trace, TaskId(1));
    assert!(quantile(&runs, 0.1) > 11 * MS, "a burst of 12 ms is not interrupted: {}", quantile(&runs, 0.1));
}

#[test]
fn weights_share_the_cpu_when_credits_are_short() {
    let heavy = format!("weight = 300\n{LOOP}");
    // All pCPUs of the pool are contended, as credits are shared over all of them.
    let body = vms(&heavy, LOOP)
        + "[[tenant]]\nname = \"c\"\nvm = { vcpus = 1 }\ncpus = [1]\nweight = 300\nprogram = { kind = \"interference\" }\n[[tenant]]\nname = \"d\"\nvm = { vcpus = 1 }\ncpus = [1]\nprogram = { kind = \"interference\" }\n";
    let mut e = engine(&body);
    observe(&mut e, 1_000 * MS);
    let seen = observe(&mut e, 20_000 * MS);
    let on = |name| tenant(&seen, name).account.ledger.on_cpu_ns() as f64;
    let share = on("a") / (on("a") + on("b"));
    assert!((0.68..0.82).contains(&share), "{share}");
}

#[test]
fn an_idle_pcpu_steals_a_waiting_vcpu() {
    let mut e = engine(
        "[scheduler]\nname = \"xen-credit\"\n[[tenant]]\nname = \"w\"\nprogram = { kind = \"parallel\", threads = 4, sync = \"none\", grain = \"50ms\", iterations = 10 }\n",
    );
    assert!(e.run_to_end(10_000 * MS).unwrap());
    // 4 × 500 ms of work on two pCPUs take a second.
    assert!(e.now_ns() < 1_080 * MS, "{}", e.now_ns());
}

#[test]
fn a_lock_holder_whose_vcpu_is_preempted_makes_the_others_spin() {
    let spin_share = |interferer: &str| {
        let mut e = engine(&format!(
            "[scheduler]\nname = \"xen-credit\"\n[[tenant]]\nname = \"locks\"\nvm = {{ vcpus = 2 }}\ncpus = [0, 1]\nprogram = {{ kind = \"parallel\", threads = 2, sync = \"lock\", wait = \"spin\", grain = \"1ms\", critical = 0.3 }}\nbackground = false\n{interferer}"
        ));
        let seen = observe(&mut e, 3_000 * MS);
        let ledger = tenant(&seen, "locks").account.ledger;
        ledger.parts().spin_ns.unwrap() as f64 / ledger.on_cpu_ns() as f64
    };
    let alone = spin_share("");
    let beside = spin_share(
        "[[tenant]]\nname = \"loop\"\nvm = { vcpus = 1 }\ncpus = [0]\nprogram = { kind = \"interference\" }\n",
    );
    assert!(beside > 2.0 * alone && beside > 0.1, "spinning {alone} alone, {beside} beside a loop");
}

#[test]
fn a_guest_shares_a_vcpu_among_its_threads() {
    let mut e = engine(
        "[scheduler]\nname = \"xen-credit\"\n[[tenant]]\nname = \"vm\"\nvm = { vcpus = 2 }\nprogram = { kind = \"parallel\", threads = 6, sync = \"barrier\", grain = \"20ms\", iterations = 10 }\n",
    );
    assert!(e.run_to_end(10_000 * MS).unwrap());
    // Six threads' 20 ms on two vCPUs are 60 ms a round.
    let end_ns = e.now_ns();
    assert!((600 * MS..640 * MS).contains(&end_ns), "{end_ns}");
}

#[test]
fn a_vcpu_whose_thread_was_taken_by_another_halts_instead_of_burning_its_cpu() {
    // Stages of unequal steps on as many vCPUs: threads wake up and are pulled to other vCPUs all the time.
    let mut e = engine(
        "machine = \"pact16-xeon-e5620\"\n[scheduler]\nname = \"xen-credit\"\n[[tenant]]\nname = \"a\"\nvm = { vcpus = 4 }\ncpus = [0, 1, 2, 3]\nprogram = { kind = \"parallel\", threads = 4, sync = \"pipeline\", wait = \"block\", grain = \"40ms\", imbalance = 0.5, stages = 4, queue-depth = 2, iterations = 200 }\n",
    );
    assert!(e.run_to_end(100_000 * MS).unwrap());
    let work_ns = e.progress()[0].work_ns as f64;
    let seen = e.observe();
    let compute_ns = tenant(&seen, "a").account.ledger.parts().compute_ns as f64;
    assert!(compute_ns / work_ns < 1.1, "{compute_ns} ns on a CPU for {work_ns} ns of work");
}
