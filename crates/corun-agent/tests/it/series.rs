//! Tenants come, go, want much or little, and exceed the room. In any order, counters do not fall while their
//! series last, no time is counted twice or left out, and the number of series stays within its limit.

use crate::made::{account, tenant, WINDOW_NS};
use corun_agent::totals::{ByCategory, Series, Totals, CATEGORIES};
use corun_model::observation::TenantObservation;
use corun_model::{Observation, Tenant, TenantId, TenantKind};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

const TENANTS: u32 = 12;
const MS: u64 = 1_000_000;
/// Tenants that people ask for by name, others, and one without series of its own.
const KINDS: [TenantKind; 5] =
    [TenantKind::Unit, TenantKind::Command, TenantKind::Container, TenantKind::SlurmStep, TenantKind::Kernel];

/// The tenants in a window: how long each ran, in milliseconds, and who kept it from a CPU.
type Did = BTreeMap<u32, (u64, u32)>;

/// Short windows, and some as long as series stay after a tenant's end.
fn windows() -> impl Strategy<Value = Vec<(u64, Did)>> {
    let seconds = prop_oneof![4 => 1..4u64, 1 => 60..130u64];
    vec((seconds, btree_map(0..TENANTS, (0..400u64, 0..TENANTS), 0..9)), 1..60)
}

fn seen(start_ns: u64, seconds: u64, did: &Did) -> Observation {
    let named: BTreeSet<u32> = did.iter().flat_map(|(who, (_, by))| [*who, *by]).collect();
    // Several have the same name.
    let called = |n: u32| Tenant {
        kind: KINDS[n as usize % KINDS.len()],
        name: format!("job-{}", n % 7),
        ..tenant(n)
    };
    let of = |(who, (ran_ms, by)): (&u32, &(u64, u32))| TenantObservation {
        id: TenantId(*who),
        tasks: 1,
        account: account(ran_ms * MS, &[(*by, MS)]),
    };
    Observation {
        start_ns,
        end_ns: start_ns + seconds * WINDOW_NS,
        tenants: named.into_iter().map(called).collect(),
        by_tenant: did.iter().map(of).collect(),
        ..Observation::default()
    }
}

fn add(sum: &mut [u64; 9], time: &ByCategory) {
    sum.iter_mut().zip(time).for_each(|(sum, ns)| *sum += ns.unwrap_or(0));
}

/// The same series later: no counter is smaller than before.
fn has_not_fallen(was: &Series, is: &Series) -> Result<(), TestCaseError> {
    for (category, (was_ns, is_ns)) in CATEGORIES.iter().zip(was.time.iter().zip(&is.time)) {
        prop_assert!(was_ns <= is_ns, "{} of {}", category, was.label);
    }
    let waits = |series: &Series| series.waits.as_ref().map_or(0, |waits| waits.total());
    prop_assert!(waits(was) <= waits(is), "waits of {}", was.label);
    let words = |s: &Series| {
        let b = &s.blame;
        [b.own_ns, b.kernel_ns, b.corun_ns, b.idle_ns, b.other_ns, b.unattributed_ns, b.dropped_ns]
    };
    prop_assert!(words(was).iter().zip(words(is)).all(|(was_ns, is_ns)| *was_ns <= is_ns));
    for (who, was_ns, since_ns) in was.blame.listed() {
        let later = is.blame.listed().find(|(other, _, since)| *other == who && *since == since_ns);
        prop_assert!(later.is_none_or(|(_, is_ns, _)| was_ns <= is_ns), "{} by {}", was.label, who);
    }
    Ok(())
}

proptest! {
    #[test]
    fn counters_do_not_fall_and_all_time_is_counted_once_whoever_comes_and_goes(most in 1..6usize, windows in windows()) {
        let mut totals = Totals::new(most);
        let mut before: BTreeMap<(String, u64), Series> = BTreeMap::new();
        let (mut ended, mut start_ns) = ([0; 9], 0);
        for (seconds, did) in windows {
            let seen = seen(start_ns, seconds, &did);
            start_ns = seen.end_ns;
            totals.push(&seen);
            // Series that start again under a name that others had are different ones.
            let now: BTreeMap<(String, u64), Series> =
                totals.series().map(|s| ((s.label.to_string(), s.since_ns), s.clone())).collect();
            prop_assert!(now.values().filter(|s| !s.key.is_empty()).count() <= most);
            for (of, was) in &before {
                match now.get(of) {
                    Some(is) => has_not_fallen(was, is)?,
                    // Its time was counted: nobody takes it over.
                    None => add(&mut ended, &was.time),
                }
            }
            let mut sum = ended;
            now.values().for_each(|s| add(&mut sum, &s.time));
            prop_assert_eq!(sum, totals.node.time.map(|ns| ns.unwrap_or(0)));
            for s in now.values() {
                prop_assert_eq!(s.blame.total_ns(), s.time[3].unwrap_or(0), "the steal of {}", s.label);
            }
            before = now;
        }
    }
}
