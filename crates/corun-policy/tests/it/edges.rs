//! Policies decide without a panic on any observation: windows of any length, weights out of range, tenants
//! that come and go within a slot, refused tenants, parks that fail.

use crate::toy::{who, Toy, MS};
use corun_model::{Action, Observation, TenantId};
use corun_policy::{by_name, Options, ALL};
use proptest::prelude::*;

const TENANTS: u32 = 6;

/// The changes in an epoch.
#[derive(Clone, Debug)]
struct Epoch {
    window_ns: u64,
    comes_or_goes: u32,
    /// The tenant whose tasks change, their new number, and their new demand.
    changes: (usize, u32, u64),
    weights: Vec<u32>,
    refused: u32,
    host_steal_ns: Option<u64>,
    /// No decision is carried out.
    in_vain: bool,
}

fn epoch() -> impl Strategy<Value = Epoch> {
    let window_ns = prop_oneof![3 => Just(25 * MS), 1 => 0..100 * MS, 1 => 1..100_000 * MS];
    let weights = proptest::collection::vec(prop_oneof![Just(0), 1u32..10_001, Just(u32::MAX)], 0..6);
    let changes = (0..TENANTS as usize, 1u32..40, 1u64..=1_000);
    let host_steal_ns = proptest::option::of(0..1_000_000 * MS);
    // An index beyond the last tenant means no tenant.
    (window_ns, 0..TENANTS + 2, changes, weights, 0..2 * TENANTS, host_steal_ns, any::<bool>()).prop_map(
        |(window_ns, comes_or_goes, changes, weights, refused, host_steal_ns, in_vain)| Epoch {
            window_ns,
            comes_or_goes,
            changes,
            weights,
            refused,
            host_steal_ns,
            in_vain,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn no_policy_falls_over_whatever_it_is_shown(
        cpus in 1u32..6,
        slot_ms in 1u64..200,
        dc in prop_oneof![Just("auto"), Just("cpus"), Just("1"), Just("100000")],
        epochs in proptest::collection::vec(epoch(), 1..150),
    ) {
        for entry in ALL {
            let given = [("slot", format!("{slot_ms}ms")), ("dc", dc.to_owned())].into_iter();
            let has = |name: &str| entry.options.iter().any(|o| o.name == name);
            let options = given.filter(|o| has(o.0)).fold(Options::new(), |all, (name, value)| all.set(name, value));
            let mut policy = by_name(entry.name, &options).unwrap();
            let mut toy = Toy::new(cpus, (0..TENANTS).map(|i| who(&format!("t{i}"), 1 + i, 900)).collect());
            for epoch in &epochs {
                let id = TenantId(epoch.comes_or_goes);
                if epoch.comes_or_goes < TENANTS && !toy.present.remove(&id) {
                    toy.present.insert(id);
                }
                let (which, tasks, demand_milli) = epoch.changes;
                (toy.tenants[which].tasks, toy.tenants[which].demand_milli) = (tasks, demand_milli);
                let weights = (0..).map(TenantId).zip(epoch.weights.iter().copied()).collect();
                let refused = (0..TENANTS).filter(|&i| i == epoch.refused).map(TenantId).collect();
                let mut seen = Observation { weights, refused, ..toy.window(epoch.window_ns) };
                seen.machine.host_steal_ns = epoch.host_steal_ns;
                for decision in policy.decide(&toy.machine, &seen) {
                    match decision.action {
                        _ if epoch.in_vain => {}
                        Action::Park { tenant } => drop(toy.parked.insert(tenant)),
                        Action::Unpark { tenant } => drop(toy.parked.remove(&tenant)),
                        _ => {}
                    }
                }
                prop_assert!(policy.epochs_to_wait() > 0);
            }
        }
    }
}
