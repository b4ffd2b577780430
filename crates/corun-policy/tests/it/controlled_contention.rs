//! Controlled Contention: the paper's worked example, and properties of all slots.

use crate::toy;
use crate::toy::{who, Toy, Who};
use corun_model::reason::{DcSearched, Rule, SlotPart};
use corun_model::Policy;
use corun_model::Reason;
use corun_policy::{by_name, Options};
use proptest::prelude::*;

fn cc(options: &[(&str, &str)]) -> Box<dyn Policy> {
    let options = options.iter().fold(Options::new(), |o, (name, value)| o.set(*name, *value));
    by_name("controlled_contention", &options).unwrap()
}

/// Figure 2 of the paper: weights 20, 43, 20 and 5 on 48 CPUs.
fn worked_example() -> Toy {
    Toy::new(48, vec![who("1", 20, 1_000), who("2", 43, 1_000), who("3", 20, 1_000), who("4", 5, 1_000)])
}

/// The tenants that run in each of the next slots.
fn slots(toy: &mut Toy, policy: &mut dyn Policy, count: usize) -> Vec<String> {
    let mut slots = Vec::new();
    while slots.len() < count {
        // A slot is two epochs.
        toy.epoch(policy);
        slots.push(toy.running().join(" "));
        toy.epoch(policy);
    }
    slots
}

#[test]
fn the_papers_worked_example_runs_1_3_4_and_then_2_4() {
    let mut toy = worked_example();
    let mut policy = cc(&[("dc", "48")]);
    assert_eq!(slots(&mut toy, policy.as_mut(), 4), ["1 3 4", "2 4", "1 3 4", "2 4"]);
}

#[test]
fn a_tenant_heavier_than_the_degree_of_contention_runs_alone_and_the_reason_says_so() {
    let mut toy = worked_example();
    let mut policy = cc(&[("dc", "30")]);
    let said = toy.epoch(policy.as_mut());
    assert!(
        said.iter().all(|d| matches!(d.because.rule(), Some(Rule::Weights { is_alone: true, .. }))),
        "{said:?}"
    );
    toy.epoch(policy.as_mut());
    let slots = slots(&mut toy, policy.as_mut(), 12);
    assert!(slots.contains(&"2".to_string()), "{slots:?}");
    assert!(slots.iter().all(|s| s == "2" || !s.contains('2')), "{slots:?}");
}

#[test]
fn by_usage_tasks_that_get_less_than_a_fifth_of_a_cpu_weigh_nothing_at_any_demand() {
    // 16 tasks that want a whole CPU share two: each gets an eighth of one.
    let crowded = || Toy::new(2, vec![who("one", 8, 1_000), who("other", 8, 1_000)]);
    let parks = |options: &[(&str, &str)]| {
        let (mut toy, mut policy) = (crowded(), cc(options));
        (0..20).filter(|_| !toy.epoch(policy.as_mut()).is_empty()).count()
    };
    assert_eq!(parks(&[("usage", "true")]), 0);
    assert!(parks(&[]) > 0, "by what they want, each of the two runs alone");
}

#[test]
fn a_tenant_without_cpu_bound_tasks_is_never_parked() {
    let mut toy = Toy::new(2, vec![who("loop", 2, 1_000), who("other", 2, 1_000), who("server", 30, 150)]);
    let mut policy = cc(&[]);
    for _ in 0..40 {
        toy.epoch(policy.as_mut());
        assert!(toy.running().contains(&"server"));
        assert_eq!(toy.running().len(), 2);
    }
}

#[test]
fn if_one_ends_early_its_place_in_the_slot_goes_to_one_that_fits() {
    let mut toy = worked_example();
    let mut policy = cc(&[("dc", "48"), ("slot", "1s")]);
    toy.epoch(policy.as_mut());
    assert_eq!(toy.running(), ["1", "3", "4"]);
    let three = toy.id("3");
    toy.present.remove(&three);
    let (one, four) = (toy.id("1"), toy.id("4"));
    toy.present.remove(&one);
    let said = toy.epoch(policy.as_mut());
    assert_eq!(toy.running(), ["2", "4"], "43 + 5 fit into 48 in the middle of the slot");
    assert!(matches!(said[0].because, Reason::Slot { part: SlotPart::FindsRoom, .. }), "{said:?}");
    assert!(toy.present.contains(&four));
}

#[test]
fn a_newcomer_waits_for_its_turn_and_no_other() {
    let mut toy = Toy::new(4, (0..4).map(|i| who(&format!("{i}"), 4, 1_000)).collect());
    let late = toy.id("3");
    toy.present.remove(&late);
    let mut policy = cc(&[("ageing", "1000")]);
    slots(&mut toy, policy.as_mut(), 30);
    toy.present.insert(late);
    toy.epoch(policy.as_mut());
    toy.epoch(policy.as_mut());
    let after = slots(&mut toy, policy.as_mut(), 8);
    let turns = |name: &str| after.iter().filter(|s| *s == name).count();
    assert!((1..=3).contains(&turns("3")), "{after:?}");
    assert!((0..3).all(|i| turns(&i.to_string()) >= 1), "{after:?}");
}

/// A degree of contention, and the state of its search.
fn searched(reason: &Reason) -> Option<(u64, DcSearched)> {
    match reason.rule()? {
        Rule::Weights { dc, search, .. } => Some((*dc, (*search)?)),
        _ => None,
    }
}

#[test]
fn the_degree_of_contention_is_found_online_and_the_reason_says_how() {
    let mut toy = Toy::new(8, vec![who("a", 8, 1_000), who("b", 8, 500), who("c", 8, 500)]);
    let mut policy = cc(&[("dc", "auto"), ("slot", "10ms")]);
    let mut reasons = Vec::new();
    for _ in 0..800 {
        reasons.extend(toy.epoch(policy.as_mut()).into_iter().map(|d| d.because));
    }
    let searched: Vec<(u64, DcSearched)> = reasons.iter().filter_map(searched).collect();
    assert!(searched.iter().any(|s| s.1 == DcSearched::Measured));
    assert!(searched.iter().any(|s| matches!(s.1, DcSearched::Tried { .. })));
    let is_found = |s: &&(u64, DcSearched)| matches!(s.1, DcSearched::Found { .. });
    let found = searched.iter().rev().find(is_found).expect("it settles");
    // One CPU-bound task per CPU leaves half of the CPUs idle when b or c runs. With 16 two can run together.
    assert_eq!(found.0, 16);
}

#[test]
fn an_interrupted_policy_keeps_its_degree_of_contention() {
    let mut toy = Toy::new(8, vec![who("a", 8, 1_000), who("b", 8, 500), who("c", 8, 500)]);
    let mut policy = cc(&[("dc", "auto"), ("slot", "10ms")]);
    assert!(!policy.is_searching(), "it has seen nobody yet");
    toy.epoch(policy.as_mut());
    assert!(policy.is_searching());
    while policy.is_searching() {
        toy.epoch(policy.as_mut());
        assert!(toy.now_ns < 20_000 * toy::MS, "it settles");
    }
    // The guard undoes all changes for a while.
    toy.parked.clear();
    toy.window(1_000 * toy::MS);
    let mut renewed = policy.renewed().expect("it knows more than a fresh one");
    assert!(!renewed.is_searching());
    let said: Vec<Reason> = (0..4).flat_map(|_| toy.epoch(renewed.as_mut())).map(|d| d.because).collect();
    let is_found = |r: &Reason| matches!(searched(r), Some((16, DcSearched::Found { .. })));
    assert!(!said.is_empty() && said.iter().all(is_found), "{said:?}");
    assert!(cc(&[("dc", "16")]).renewed().is_none(), "a fresh one knows as much");
}

fn crowd() -> impl Strategy<Value = (u32, Vec<Who>)> {
    // Far enough from 20 % that rounding does not decide.
    let one = (1u32..30, prop_oneof![20u64..=190, 210u64..=1_000]);
    (1u32..32, proptest::collection::vec(one, 1..8)).prop_map(|(cpus, tenants)| {
        let named =
            tenants.into_iter().enumerate().map(|(i, (tasks, demand))| who(&format!("{i}"), tasks, demand));
        (cpus, named.collect())
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn weights_are_respected_and_nobody_starves((cpus, tenants) in crowd(), dc in 1u64..64) {
        let mut toy = Toy::new(cpus, tenants);
        let mut policy = cc(&[("dc", &dc.to_string())]);
        let weights: Vec<u64> = toy.tenants.iter().map(|t| if t.demand_milli >= 200 { u64::from(t.tasks) } else { 0 }).collect();
        let mut slots_of = vec![0; weights.len()];
        // New tasks run freely until they have been seen for long enough.
        (0..20).for_each(|_| drop(toy.epoch(policy.as_mut())));
        for _ in 0..60 {
            toy.epoch(policy.as_mut());
            let runs = toy.running();
            let heavy: Vec<usize> = runs.iter().map(|n| n.parse().unwrap()).filter(|&i: &usize| weights[i] > 0).collect();
            let sum: u64 = heavy.iter().map(|&i| weights[i]).sum();
            prop_assert!(sum <= dc || heavy.len() <= 1, "{heavy:?} weigh {sum} with DC {dc}");
            heavy.iter().for_each(|&i| slots_of[i] += 1);
            prop_assert!((0..weights.len()).all(|i| weights[i] > 0 || runs.contains(&toy.tenants[i].name.as_str())));
        }
        // 60 half slots: with n tenants that cannot share, each has its turn at least every n slots.
        let n = weights.iter().filter(|w| **w > 0).count();
        for (i, &slots) in slots_of.iter().enumerate().filter(|(i, _)| weights[*i] > 0) {
            prop_assert!(slots * n >= 60 - 2 * n, "tenant {i} had {slots} of 60 half slots among {n}");
        }
    }
}
