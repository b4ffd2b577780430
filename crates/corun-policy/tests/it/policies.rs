//! Properties of every policy: the conformance suite, protection, options and their refusals.

use crate::toy::{who, Toy, Who, MS};
use corun_model::observation::{Account, TaskObservation};
use corun_model::{
    conformance, Action, Decision, Ledger, Observation, Parts, Policy, Reason, TaskId, TenantId, TenantKind,
};
use corun_policy::{by_name, BadPolicy, Kind, Options, Scope, ALL};
use proptest::prelude::*;

/// A machine with all kinds of tenants, some of them protected.
fn everything() -> Toy {
    let kernel = Who { kind: TenantKind::Kernel, ..who("kernel", 3, 300) };
    Toy::new(
        4,
        vec![
            kernel,
            who("sshd", 2, 400),
            who("loop", 4, 1_000),
            who("solver", 4, 900),
            who("server", 2, 100),
            who("build", 3, 800),
        ],
    )
}

fn every_policy(options: &Options) -> Vec<Box<dyn Policy>> {
    ALL.iter().map(|e| by_name(e.name, options).unwrap()).collect()
}

#[test]
fn every_policy_passes_the_conformance_suite() {
    for entry in ALL {
        let mut toy = everything();
        let seen: Vec<_> = (0..60)
            .map(|i| {
                let other = TenantId(5);
                if i == 20 {
                    toy.present.remove(&other);
                }
                if i == 40 {
                    toy.present.insert(other);
                }
                toy.window(by_name(entry.name, &Options::new()).unwrap().epoch_ns())
            })
            .collect();
        conformance::policy(|| by_name(entry.name, &Options::new()).unwrap(), &toy.machine, &seen)
            .unwrap_or_else(|e| panic!("{e}"));
    }
}

#[test]
fn the_registry_agrees_with_every_policy() {
    for entry in ALL {
        let policy = by_name(entry.name, &Options::new()).unwrap();
        assert_eq!((policy.name(), policy.knobs()), (entry.name, entry.knobs));
        assert!(policy.epoch_ns() >= 500_000, "{}", entry.name);
        for option in entry.options {
            assert!(!option.range().is_empty() && !option.unit().is_empty() && !option.about.is_empty());
            let counts = option.default.parse::<u64>().is_ok();
            assert!(!counts || option.range().contains(option.unit()), "{} of what?", option.range());
        }
    }
}

#[test]
fn every_option_takes_its_bounds_and_refuses_values_beyond() {
    for entry in ALL {
        for option in entry.options {
            let set =
                |value: String| by_name(entry.name, &Options::new().set(option.name, value)).map(|_| ());
            match option.kind {
                Kind::Time { least_ns, most_ns } => {
                    let value = format!("{}ns", most_ns + 1);
                    let beyond = BadPolicy::BadValue { policy: entry.name, option, value: value.clone() };
                    assert_eq!(set(value), Err(beyond));
                    if least_ns > 0 {
                        assert!(set(format!("{}ns", least_ns - 1)).is_err());
                    }
                }
                Kind::Whole { least, most, .. } => {
                    assert!(set(least.to_string()).is_ok() && set(most.to_string()).is_ok());
                    assert!(set((most + 1).to_string()).is_err() && set("x".into()).is_err());
                }
                Kind::Flag => assert!(set("true".into()).is_ok() && set("maybe".into()).is_err()),
                Kind::Name => assert!(set(String::new()).is_err()),
            }
            for word in option.words {
                assert!(set((*word).into()).is_ok(), "{} {} {word}", entry.name, option.name);
            }
        }
    }
}

#[test]
fn unknown_names_are_refused_in_one_sentence_with_the_known_ones() {
    let said = |name: &str, options| by_name(name, &options).err().unwrap().to_string();
    let unknown = said("gnag", Options::new());
    assert!(unknown.starts_with("there is no policy `gnag`; name one of observe, auto, gang, "), "{unknown}");
    for (name, option, value, sentence) in [
        ("gang", "dc", "48", "gang has no option `dc`; it has slot, least, together"),
        ("observe", "slot", "1s", "observe has no options; leave `slot` out"),
        (
            "differential",
            "shortest",
            "31ms",
            "differential: `shortest` is 31.0 ms, above `longest`, which is 30.0 ms; exchange them",
        ),
    ] {
        assert_eq!(said(name, Options::new().set(option, value)), sentence);
    }
    assert!(by_name("delayed-preemption", &Options::new().set("delay", "2ms")).is_ok());
}

#[test]
fn tenants_whose_threads_fit_the_cpus_together_share_a_gang() {
    let mut toy =
        Toy::new(4, vec![who("a", 4, 1_000), who("b", 2, 1_000), who("c", 1, 500), who("d", 2, 900)]);
    let mut gang = by_name("gang", &Options::new()).unwrap();
    toy.epoch(gang.as_mut());
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..60 {
        toy.epoch(gang.as_mut());
        let runs = toy.running();
        let threads: u32 = runs.iter().map(|name| toy.tenants[toy.id(name).0 as usize].tasks).sum();
        assert!(threads <= 4, "{runs:?}");
        seen.insert(runs.join(" "));
    }
    assert!(seen.contains("a") && seen.iter().all(|runs| runs == "a" || runs.contains(' ')), "{seen:?}");
}

#[test]
fn tenants_confined_to_one_cpu_take_turns_and_others_run_with_them() {
    let on = |name: &str, cpu| Who { cpus: Some(vec![cpu]), ..who(name, 1, 1_000) };
    let mut toy = Toy::new(4, vec![on("a", 0), on("b", 0), on("c", 1), who("d", 2, 1_000)]);
    let mut gang = by_name("gang", &Options::new()).unwrap();
    toy.epoch(gang.as_mut());
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..60 {
        toy.epoch(gang.as_mut());
        seen.insert(toy.running().join(" "));
    }
    assert!(seen.iter().eq(["a c d", "b c d"]), "{seen:?}");
}

#[test]
fn without_sharing_a_gang_runs_one_tenant_at_a_time_and_gives_each_its_turn() {
    let mut toy =
        Toy::new(4, vec![who("a", 4, 1_000), who("b", 2, 1_000), who("c", 1, 500), who("hardly", 3, 2)]);
    let mut gang = by_name("gang", &Options::new().set("together", "false")).unwrap();
    toy.epoch(gang.as_mut());
    let mut turns = std::collections::BTreeMap::<String, u32>::new();
    for _ in 0..59 {
        toy.epoch(gang.as_mut());
        let runs = toy.running();
        assert_eq!((runs.len(), runs[1]), (2, "hardly"), "{runs:?}");
        *turns.entry(runs[0].to_owned()).or_default() += 1;
    }
    assert!(turns.len() == 3 && turns.values().all(|n| (18..=21).contains(n)), "{turns:?}");
}

#[test]
fn no_tenant_waits_for_one_that_somebody_has_stopped() {
    for name in ["gang", "paired_gang", "auto"] {
        let mut toy = Toy::new(2, vec![who("a", 2, 1_000), who("b", 2, 1_000)]);
        let mut policy = by_name(name, &Options::new()).unwrap();
        let b = toy.id("b");
        let mut parked_a = |toy: &mut Toy, epochs: usize| {
            (0..epochs).filter(|_| (toy.epoch(policy.as_mut()), !toy.running().contains(&"a")).1).count()
        };
        let before = parked_a(&mut toy, 100);
        assert!(name == "auto" || before > 30, "{name}: they take turns, {before}");
        toy.stopped.insert(b);
        // The stop may come in the middle of a slot.
        parked_a(&mut toy, 20);
        assert_eq!(parked_a(&mut toy, 100), 0, "{name}: a has the machine to itself");
        toy.stopped.remove(&b);
        parked_a(&mut toy, 100);
        let again = parked_a(&mut toy, 100);
        assert!(again >= before / 2, "{name}: it has its turns again, {again} as {before}");
    }
}

#[test]
fn slices_and_static_delays_are_set_once_for_each_task_and_for_new_ones() {
    for (name, tasks) in [("differential", 4), ("delayed_preemption", 4)] {
        let mut toy = Toy::new(4, vec![who("a", 4, 1_000), who("b", 3, 1_000)]);
        let late = toy.id("b");
        toy.present.remove(&late);
        let options =
            if name == "differential" { Options::new() } else { Options::new().set("delay", "8ms") };
        let mut policy = by_name(name, &options).unwrap();
        assert_eq!(toy.epoch(policy.as_mut()).len(), tasks);
        assert!(toy.epoch(policy.as_mut()).is_empty());
        toy.present.insert(late);
        assert_eq!(toy.epoch(policy.as_mut()).len(), 3);
    }
}

#[test]
fn an_adaptive_delay_grows_with_more_than_a_fair_share_and_not_with_less() {
    // The toy splits evenly. So a tenant with a small demand gets less than its even part of the fair time of all tasks.
    let mut toy = Toy::new(4, vec![who("all", 4, 1_000), who("little", 4, 300)]);
    let mut policy = by_name("delayed_preemption", &Options::new()).unwrap();
    let mut delays = std::collections::BTreeMap::new();
    for _ in 0..40 {
        for d in toy.epoch(policy.as_mut()) {
            let Action::PreemptDelay { task, delay_ns } = d.action else { panic!("{d:?}") };
            assert!(matches!(d.because, Reason::Lag { .. }), "{d:?}");
            delays.insert(task.0 / 1_000, delay_ns);
        }
    }
    assert!(delays[&0] > 1_000_000, "{delays:?}");
    assert_eq!(delays[&1], 0);
}

#[test]
fn sleeping_helpers_do_not_reduce_their_workers_fair_share() {
    // Two programs with one worker each on two CPUs. One has eight more threads that hardly run. Each worker has a CPU.
    let mut toy = Toy::new(2, vec![who("with", 1, 1_000), who("without", 1, 1_000)]);
    let mut policy = by_name("delayed_preemption", &Options::new()).unwrap();
    let mut told = Vec::new();
    for _ in 0..40 {
        let mut seen = toy.window(30 * MS);
        let worker = seen.tasks[0].clone();
        let parts = Parts { compute_ns: 300_000, block_ns: 29_700_000, ..Parts::default() };
        let account = Account { ledger: Ledger::new(parts, 30 * MS).unwrap(), ..Account::default() };
        let helper =
            |i| TaskObservation { id: TaskId(10 + i), account: account.clone().into(), ..worker.clone() };
        seen.tasks.extend((0..8u32).map(helper));
        seen.tasks.sort_by_key(|t| t.id);
        told.extend(policy.decide(&toy.machine, &seen).into_iter().filter_map(|d| match d.action {
            Action::PreemptDelay { task, delay_ns } => (task == worker.id).then_some(delay_ns),
            _ => None,
        }));
    }
    assert!(told.iter().all(|delay_ns| *delay_ns < 1_000_000), "{told:?}");
}

#[test]
fn a_new_task_does_not_keep_the_delay_of_its_parent() {
    let mut toy = Toy::new(4, vec![who("all", 4, 1_000), who("little", 3, 300), who("parked", 2, 300)]);
    let late = ["little", "parked"].map(|name| toy.id(name));
    late.iter().for_each(|id| assert!(toy.present.remove(id)));
    let mut policy = by_name("delayed_preemption", &Options::new()).unwrap();
    (0..40).for_each(|_| drop(toy.epoch(policy.as_mut())));
    toy.present.extend(late);
    toy.parked.insert(toy.id("parked"));
    let told = |decisions: Vec<Decision>| -> Vec<u64> {
        let of_late = |d: &Decision| match d.action {
            Action::PreemptDelay { task, delay_ns } => {
                late.contains(&TenantId(task.0 / 1_000)).then_some(delay_ns)
            }
            _ => None,
        };
        decisions.iter().filter_map(of_late).collect()
    };
    assert_eq!(told(toy.epoch(policy.as_mut())), [0; 5]);
    assert_eq!(told(toy.epoch(policy.as_mut())), []);
}

#[test]
fn a_dedicated_window_belongs_to_one_tenant_and_closes_again() {
    let mut toy = everything();
    let options = Options::new().set("subject", "solver").set("window", "50ms").set("every", "500ms");
    let mut policy = by_name("dedicated", &options.scope(Scope::everyone().protect(["sshd"]))).unwrap();
    let mut alone = 0;
    for _ in 0..100 {
        toy.epoch(policy.as_mut());
        match toy.running().join(" ").as_str() {
            "kernel sshd solver" => alone += 1,
            all => assert_eq!(all, "kernel sshd loop solver server build"),
        }
    }
    assert!((8..=10).contains(&alone), "{alone} of 100 epochs of 50 ms, one in ten");
}

#[test]
fn a_virtual_machine_keeps_its_own_io_threads_in_its_dedicated_windows() {
    let tenants =
        [("vm:web", TenantKind::Vm), ("vm-io:web", TenantKind::VmIo), ("loop", TenantKind::Command)];
    let tenants = tenants.map(|(name, kind)| Who { kind, ..who(name, 2, 900) });
    let mut toy = Toy::new(4, tenants.to_vec());
    let options = Options::new().set("subject", "vm:web").set("every", "200ms");
    let mut policy = by_name("dedicated", &options).unwrap();
    let mut stopped = 0;
    for _ in 0..40 {
        let mut seen = toy.window(policy.epoch_ns());
        seen.tenants.iter_mut().for_each(|t| t.key.clone_from(&t.name));
        let decisions = policy.decide(&toy.machine, &seen);
        toy.carry_out(&decisions);
        assert!(toy.parked.iter().all(|&id| id == toy.id("loop")), "{:?}", toy.parked);
        stopped += toy.parked.len();
    }
    assert!(stopped > 0);
}

#[test]
fn a_virtual_machines_io_threads_have_no_slots_of_their_own() {
    for name in ["auto", "gang", "paired_gang", "controlled_contention"] {
        let tenants = [
            ("vm:a", TenantKind::Vm),
            ("vm-io:a", TenantKind::VmIo),
            ("vm-io:b", TenantKind::VmIo),
            ("vm:b", TenantKind::Vm),
        ];
        let mut toy = Toy::new(2, tenants.map(|(name, kind)| Who { kind, ..who(name, 2, 900) }).to_vec());
        let machines = [toy.id("vm:a"), toy.id("vm:b")];
        let mut policy = by_name(name, &Options::new()).unwrap();
        let mut parked = std::collections::BTreeSet::new();
        for _ in 0..40 {
            let mut seen = toy.window(policy.epoch_ns());
            seen.tenants.iter_mut().for_each(|t| t.key.clone_from(&t.name));
            let decisions = policy.decide(&toy.machine, &seen);
            toy.carry_out(&decisions);
            assert!(toy.parked.iter().all(|id| machines.contains(id)), "{name}: {:?}", toy.parked);
            assert!(toy.parked.len() < 2, "{name}: both machines are parked");
            parked.extend(toy.parked.iter().copied());
        }
        assert!(name == "auto" || parked.len() == 2, "{name}: {parked:?}");
    }
}

#[test]
fn a_named_tenant_has_dedicated_windows_even_if_it_may_not_be_touched() {
    let scopes =
        [Scope::everyone().only(["loop"]), Scope::everyone().protect(["solver", "sshd", "server", "build"])];
    for scope in scopes {
        let mut toy = everything();
        let options = Options::new().set("subject", "solver").set("window", "50ms").set("every", "500ms");
        let mut policy = by_name("dedicated", &options.scope(scope.clone())).unwrap();
        let mut parked = |toy: &mut Toy| {
            toy.epoch(policy.as_mut());
            toy.parked.iter().copied().collect::<Vec<_>>()
        };
        let all: Vec<Vec<TenantId>> = (0..30).map(|_| parked(&mut toy)).collect();
        let only_the_loop = all.iter().filter(|parked| **parked == [toy.id("loop")]).count();
        assert!(only_the_loop >= 2 && all.iter().all(|p| p.len() < 2), "{scope:?}: {all:?}");
        // No tenant is parked for one that has gone.
        let solver = toy.id("solver");
        toy.present.remove(&solver);
        assert!((0..30).all(|_| parked(&mut toy).is_empty()), "{scope:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn no_policy_touches_a_protected_tenant_or_one_out_of_scope(
        cpus in 1u32..8,
        crowd in proptest::collection::vec((1u32..6, 1u64..=1_000), 2..7),
        protected in proptest::collection::btree_set(0usize..7, 0..4),
        only in proptest::option::of(proptest::collection::btree_set(0usize..7, 1..5)),
    ) {
        let tenants: Vec<Who> =
            crowd.iter().enumerate().map(|(i, &(tasks, demand))| who(&format!("t{i}"), tasks, demand)).collect();
        let names = |set: &std::collections::BTreeSet<usize>| set.iter().map(|i| format!("t{i}")).collect::<Vec<_>>();
        let mut scope = Scope::everyone().protect(names(&protected));
        if let Some(only) = &only {
            scope = scope.only(names(only));
        }
        let allowed = |tenant: TenantId| {
            let i = tenant.0 as usize;
            !protected.contains(&i) && only.as_ref().is_none_or(|o| o.contains(&i))
        };
        for mut policy in every_policy(&Options::new().scope(scope)) {
            let mut toy = Toy::new(cpus, tenants.clone());
            for _ in 0..60 {
                for d in toy.epoch(policy.as_mut()) {
                    let touched = match d.action {
                        Action::Park { tenant } | Action::Unpark { tenant } | Action::Weight { tenant, .. } => tenant,
                        Action::Slice { task, .. } | Action::PreemptDelay { task, .. } | Action::Cpus { task, .. } => {
                            TenantId(task.0 / 1_000)
                        }
                    };
                    prop_assert!(allowed(touched), "{} touched {touched:?}: {:?}", policy.name(), d.because);
                }
            }
        }
    }

    #[test]
    fn under_every_policy_that_parks_everybody_gets_on(
        cpus in 1u32..8, crowd in proptest::collection::vec((1u32..6, 1u64..=1_000), 2..7)
    ) {
        let tenants: Vec<Who> =
            crowd.iter().enumerate().map(|(i, &(tasks, demand))| who(&format!("t{i}"), tasks, demand)).collect();
        for mut policy in every_policy(&Options::new()) {
            let mut toy = Toy::new(cpus, tenants.clone());
            for _ in 0..400 {
                toy.epoch(policy.as_mut());
            }
            for (i, t) in tenants.iter().enumerate() {
                // Alone in one of as many slots as there are tenants. Under controlled contention the light ones run in all slots, so a
                // heavy one may have half of that: 3 slots shared by 4 instead of 6 of its own.
                let cpus_milli = (u64::from(t.tasks) * t.demand_milli).min(u64::from(cpus) * 1_000);
                let least = toy.now_ns * cpus_milli / 1_000 / tenants.len() as u64;
                let got = toy.got_ns.get(&TenantId(i as u32)).copied().unwrap_or(0);
                prop_assert!(got * 10 >= least * 4, "{}: t{i} got {got} of {least}", policy.name());
            }
        }
    }
}

#[test]
fn auto_does_not_judge_a_newcomer_by_its_first_slots() {
    // Decisions in the second after it has come. It wants a quarter of a CPU per task for `slow_epochs` epochs, then all.
    let decisions = |slow_epochs: u32| {
        let mut toy = Toy::new(2, vec![who("loops", 2, 1_000), who("pipeline", 2, 250)]);
        let pipeline = toy.id("pipeline");
        toy.present.remove(&pipeline);
        let mut auto = by_name("auto", &Options::new()).unwrap();
        assert!((0..20).all(|_| toy.epoch(auto.as_mut()).is_empty()), "nobody competes");
        toy.present.insert(pipeline);
        let mut epoch = |n| {
            toy.tenants[pipeline.0 as usize].demand_milli = if n < slow_epochs { 250 } else { 990 };
            toy.epoch(auto.as_mut()).len()
        };
        (0..40).map(&mut epoch).sum::<usize>()
    };
    assert_eq!(decisions(4), 0, "100 ms are its beginning");
    assert!(decisions(40) > 0, "who goes on like that may need slots");
}

#[test]
fn auto_subtracts_steal_of_the_host_from_running_tasks_only_once() {
    // A pipeline that wants a CPU and has half of one, with loops. A probe sees time that the hypervisor took from a running task as
    // the task's. So it is in the time of both and in the host's steal.
    let tries = |host_steal_ns: u64| {
        let mut toy = Toy::new(2, vec![who("loops", 2, 1_000), who("pipeline", 2, 250)]);
        let mut auto = by_name("auto", &Options::new()).unwrap();
        let mut epoch = || {
            let mut seen = toy.window(auto.epoch_ns());
            seen.machine.host_steal_ns = Some(host_steal_ns);
            let decisions = auto.decide(&toy.machine, &seen);
            toy.carry_out(&decisions);
            decisions.len()
        };
        (0..40).map(|_| epoch()).sum::<usize>()
    };
    assert!(tries(0) > 0);
    assert_eq!(tries(25 * MS), tries(0));
}

#[test]
fn no_tenant_waits_for_a_refused_one() {
    // A tenant that comes later, wants as much as the others, and is refused in any case.
    for name in ["gang", "paired_gang", "controlled_contention"] {
        let mut toy = Toy::new(2, vec![who("a", 2, 1_000), who("b", 2, 1_000), who("sshd", 2, 1_000)]);
        let sshd = toy.id("sshd");
        let mut policy = by_name(name, &Options::new()).unwrap();
        let mut epoch = |refused: Vec<TenantId>| {
            let seen = Observation { refused, ..toy.window(policy.epoch_ns()) };
            let decisions = policy.decide(&toy.machine, &seen);
            toy.carry_out(&decisions);
            toy.parked.clone()
        };
        assert!((0..20).any(|_| epoch(Vec::new()).contains(&sshd)), "{name}");
        epoch(vec![sshd]);
        for _ in 0..20 {
            let parked = epoch(vec![sshd]);
            assert!(!parked.contains(&sshd) && parked.len() < 2, "{name}: {parked:?}");
        }
    }
}
