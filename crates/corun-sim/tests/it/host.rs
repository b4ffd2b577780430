//! The modelled machine as a host: the suite that every host passes, and the five knobs.

use crate::rig::{engine, latencies, observe, quantile, scenario, tenant};
use corun_model::{conformance, Action, CpuId, Host, Outcome, Refusal, TaskId, TenantId};
use corun_sim::scenario::Participants;

const MS: u64 = 1_000_000;

const MIX: &str = "
[[tenant]]
name = \"spin\"
program = { kind = \"parallel\", threads = 3, wait = \"spin\", grain = \"300us\", imbalance = 0.5 }
[[tenant]]
name = \"block\"
program = { kind = \"parallel\", threads = 2, sync = \"lock\", wait = \"block\", grain = \"200us\", critical = 0.5 }
background = false
[[tenant]]
name = \"loop\"
program = { kind = \"interference\", pattern = \"intermittent\", threads = 2 }
duration = \"never\"
";

fn mix() -> String {
    MIX.replace("duration = \"never\"\n", "")
}

#[test]
fn it_passes_the_conformance_suite_under_every_scheduler() {
    for scheduler in ["eevdf", "cfs", "cfs\"\nlinux = \"3.14", "xen-credit"] {
        let s = scenario(&format!("duration = \"10s\"\n[scheduler]\nname = \"{scheduler}\"\n{}", mix()));
        let made = conformance::host(|| Box::new(s.engine(1, Participants::All, 0).unwrap()));
        made.unwrap_or_else(|failed| panic!("{scheduler}: {failed}"));
    }
}

#[test]
fn the_control_loop_passes_its_suite_under_every_scheduler() {
    for scheduler in ["eevdf", "cfs", "cfs\"\nlinux = \"3.14", "xen-credit"] {
        let s = scenario(&format!("duration = \"60s\"\n[scheduler]\nname = \"{scheduler}\"\n{}", mix()));
        let made = corun_policy::conformance::control(|| {
            (Box::new(s.engine(1, Participants::All, 0).unwrap()), corun_policy::Scope::everyone())
        });
        made.unwrap_or_else(|failed| panic!("{scheduler}: {failed}"));
    }
}

#[test]
fn a_parked_tenant_does_not_run_and_its_time_is_parked_time() {
    let mut e = engine(&mix());
    observe(&mut e, 50 * MS);
    let id = TenantId(2);
    assert_eq!(e.apply(&Action::Park { tenant: id }), Outcome::Done);
    let seen = observe(&mut e, 100 * MS);
    let parts = *tenant(&seen, "loop").account.ledger.parts();
    assert_eq!(parts.compute_ns, 0);
    assert!(parts.parked_ns > 0);
    e.undo_all().unwrap();
    let seen = observe(&mut e, 100 * MS);
    assert!(tenant(&seen, "loop").account.ledger.on_cpu_ns() > 0);
    assert_eq!(tenant(&seen, "loop").account.ledger.parts().parked_ns, 0);
}

#[test]
fn a_confined_task_stays_on_its_cpus_until_it_is_undone() {
    let mut e = engine(&mix());
    observe(&mut e, 20 * MS);
    for task in 1..=7 {
        let action = Action::Cpus { task: TaskId(task), cpus: vec![CpuId(1)] };
        assert_eq!(e.apply(&action), Outcome::Done);
    }
    let seen = observe(&mut e, 100 * MS);
    assert_eq!(seen.cpus[0].busy_ns, 0);
    assert!(seen.cpus[1].busy_ns > 99 * MS);
    e.undo_all().unwrap();
    let seen = observe(&mut e, 100 * MS);
    assert!(seen.cpus[0].busy_ns > 50 * MS);
}

#[test]
fn a_weight_changes_the_shares_and_undoing_restores_them() {
    let mut e = engine(
        "[[tenant]]\nname = \"a\"\nprogram = { kind = \"interference\", threads = 2 }\nbackground = false\n[[tenant]]\nname = \"b\"\nprogram = { kind = \"interference\", threads = 2 }\n",
    );
    let share = |e: &mut corun_sim::engine::Engine| {
        observe(e, 500 * MS);
        let seen = observe(e, 2_000 * MS);
        let on = |name| tenant(&seen, name).account.ledger.on_cpu_ns() as f64;
        on("a") / (on("a") + on("b"))
    };
    let before = share(&mut e);
    assert!((0.47..0.53).contains(&before), "{before}");
    assert_eq!(e.apply(&Action::Weight { tenant: TenantId(0), weight: 400 }), Outcome::Done);
    let heavier = share(&mut e);
    assert!((0.75..0.85).contains(&heavier), "{heavier}");
    e.undo_all().unwrap();
    let after = share(&mut e);
    assert!((0.47..0.53).contains(&after), "{after}");
}

#[test]
fn a_preemption_delay_lets_the_running_task_continue() {
    let fair = "[[tenant]]\nname = \"hog\"\nprogram = { kind = \"interference\", cpus = [0] }\nbackground = false\n[[tenant]]\nname = \"light\"\nslice = \"100us\"\nprogram = { kind = \"interference\", pattern = \"periodic\", busy = \"200us\", demand = 0.1, cpus = [0] }\n";
    let xen = "[scheduler]\nname = \"xen-credit\"\n[[tenant]]\nname = \"hog\"\nvm = { vcpus = 1 }\ncpus = [0]\nprogram = { kind = \"interference\" }\nbackground = false\n[[tenant]]\nname = \"light\"\nvm = { vcpus = 1 }\ncpus = [0]\nprogram = { kind = \"interference\", pattern = \"periodic\", busy = \"1ms\", demand = 0.05 }\n";
    let median_wait_ns = |body: &str, delay_ns: u64| {
        let mut e = engine(body);
        e.apply(&Action::PreemptDelay { task: TaskId(2), delay_ns });
        observe(&mut e, 1_000 * MS);
        quantile(&latencies(e.trace().unwrap(), TaskId(2)), 0.5)
    };
    assert!(median_wait_ns(fair, 0) < 100_000);
    let delayed = median_wait_ns(fair, 2 * MS);
    assert!((1_900_000..=2_100_000).contains(&delayed), "{delayed}");
    // Xen's slices are longer than that.
    let delayed = median_wait_ns(xen, 8 * MS);
    assert!((7_900_000..=8_100_000).contains(&delayed), "{delayed}");
}

#[test]
fn values_without_meaning_are_refused_with_a_reason() {
    let mut e = engine(&mix());
    observe(&mut e, 10 * MS);
    let online: Vec<CpuId> = e.machine().cpus().iter().map(|c| c.id).collect();
    for (action, why) in [
        (Action::Weight { tenant: TenantId(0), weight: 0 }, Refusal::Weight(0)),
        (
            Action::Slice { task: TaskId(1), min_ns: 5, max_ns: 4 },
            Refusal::Slice { min_ns: 5, max_ns: 4, bounds_ns: None },
        ),
        (
            Action::Cpus { task: TaskId(1), cpus: vec![CpuId(9)] },
            Refusal::CpuNotThere { cpu: CpuId(9), online },
        ),
        (Action::Park { tenant: TenantId(9) }, Refusal::NoTenant(TenantId(9))),
    ] {
        assert_eq!(e.apply(&action), Outcome::Refused { why });
    }
}

#[test]
fn a_task_that_has_not_run_yet_has_zero_counters_not_unknown_ones() {
    let two = "[scheduler]\nname = \"xen-credit\"\n[[tenant]]\nname = \"a\"\nvm = { vcpus = 1 }\ncpus = [0]\nprogram = { kind = \"interference\" }\nbackground = false\n[[tenant]]\nname = \"b\"\nvm = { vcpus = 1 }\ncpus = [0]\nprogram = { kind = \"interference\" }\n";
    let mut e = engine(two);
    let first = observe(&mut e, 10 * MS);
    let cycles = |seen: &corun_model::Observation, name| {
        tenant(seen, name).account.counters.as_ref().and_then(|c| c.cycles)
    };
    let both = ["a", "b"].map(|name| cycles(&first, name));
    assert!(both.contains(&Some(0)) && both.iter().all(Option::is_some), "{both:?}");
    let mut all = first;
    all.extend(&observe(&mut e, 100 * MS));
    assert!(["a", "b"].iter().all(|name| cycles(&all, name) > Some(0)));
}
