//! Xen's credit scheduler behaves as its documentation and PACT'16 say.

use crate::rig::{engine, latencies, observe, quantile, stretches, tenant};
use corun_model::trace::TraceKind;
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
fn a_vcpu_whose_thread_another_one_took_halts_instead_of_burning_its_cpu() {
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

#[test]
fn domains_of_equal_weight_share_equally_with_any_number_of_vcpus() {
    let vm = |name, vcpus| {
        format!("[[tenant]]\nname = \"{name}\"\nvm = {{ vcpus = {vcpus} }}\ncpus = [0, 1]\nprogram = {{ kind = \"interference\", threads = {vcpus} }}\n")
    };
    let mut e = engine(&format!(
        "duration = \"1h\"\n[scheduler]\nname = \"xen-credit\"\n{}{}",
        vm("few", 2),
        vm("many", 4)
    ));
    observe(&mut e, 1_000 * MS);
    let seen = observe(&mut e, 20_000 * MS);
    let on = |name| tenant(&seen, name).account.ledger.on_cpu_ns() as f64;
    let share = on("few") / (on("few") + on("many"));
    assert!((0.44..0.56).contains(&share), "{share}, where turns alone would give a third");
}

#[test]
fn a_running_vcpu_moves_at_a_tick_to_a_socket_with_more_than_twice_as_many_idle_cpus() {
    // Four vCPUs begin on the four cores of the first socket, and the other socket idles.
    let placed = |allowed: &str| {
        let mut e = engine(&format!(
            "machine = \"pact16-xeon-e5620\"\nduration = \"1h\"\n[scheduler]\nname = \"xen-credit\"\n[[tenant]]\nname = \"a\"\nvm = {{ vcpus = 4 }}\n{allowed}program = {{ kind = \"interference\", threads = 4 }}\n"
        ));
        let seen = observe(&mut e, 1_000 * MS);
        let far = seen.tasks.iter().filter(|t| t.last_cpu.unwrap().0 >= 4).count();
        let moves: u64 = seen.tasks.iter().map(|t| t.account.events.migrations.unwrap().total()).sum();
        (far, moves)
    };
    // One goes. Then two idle CPUs, including its own, compare with three.
    assert_eq!(placed(""), (1, 1));
    assert_eq!(placed("allowed = [0, 1, 2, 3]\n"), (0, 0));
}

#[test]
fn a_vm_that_starts_later_takes_the_cpu_at_once() {
    let mut e = engine(&vms(LOOP, &format!("start = \"500ms\"\n{LOOP}")));
    observe(&mut e, 1_000 * MS);
    assert!(latencies(e.trace().unwrap(), TaskId(2))[0] < MS, "boosted as whoever wakes up");
}

#[test]
fn slices_of_all_pcpus_begin_together_unless_the_first_is_random() {
    // Two VMs on two pCPUs: how far apart the pCPUs' switches are, in the median.
    let apart_ns = |first: &str| {
        let vm = |name| {
            format!("[[tenant]]\nname = \"{name}\"\nvm = {{ vcpus = 2 }}\ncpus = [0, 1]\nprogram = {{ kind = \"interference\", threads = 2 }}\n")
        };
        let mut e = engine(&format!(
            "duration = \"1h\"\n[scheduler]\nname = \"xen-credit\"\n{first}{}{}",
            vm("a"),
            vm("b")
        ));
        observe(&mut e, 3_000 * MS);
        let switches = |cpu: u32| -> Vec<u64> {
            let events = e.trace().unwrap().events.iter();
            let of = events.filter(|e| e.cpu.0 == cpu && matches!(e.kind, TraceKind::Switch { .. }));
            of.map(|e| e.t_ns).collect()
        };
        let (first, second) = (switches(0), switches(1));
        let nearest = |&t: &u64| second.iter().map(|s| s.abs_diff(t)).min().unwrap();
        quantile(&first.iter().map(nearest).collect::<Vec<_>>(), 0.5)
    };
    let (whole, random) = (apart_ns(""), apart_ns("first-slice = \"random\"\n"));
    assert!(whole < 100_000 && random > MS, "{whole} ns, {random} ns");
}

#[test]
fn domain_0_wakes_up_at_once_for_io_and_costs_computing_programs_what_it_takes() {
    let with = |dom0: &str| {
        let mut e = engine(&format!(
            "duration = \"1h\"\n[scheduler]\nname = \"xen-credit\"\n[[tenant]]\nname = \"a\"\nvm = {{ vcpus = 2 }}\ncpus = [0, 1]\nprogram = {{ kind = \"interference\", threads = 2 }}\n{dom0}"
        ));
        observe(&mut e, 1_000 * MS);
        let seen = observe(&mut e, 5_000 * MS);
        let late = latencies(e.trace().unwrap(), TaskId(3));
        (tenant(&seen, "a").account.ledger.on_cpu_ns() as f64 / 10e9, late)
    };
    let (alone, _) = with("");
    let (beside, late) =
        with("[[tenant]]\nworkload = \"workloads/papers/xen-dom0.toml\"\nvm = { vcpus = 1 }\n");
    assert!(late.len() > 300 && quantile(&late, 0.9) < 50_000, "{} wake-ups", late.len());
    assert!(alone - beside > 0.003 && alone - beside < 0.01, "{alone} {beside}");
}
