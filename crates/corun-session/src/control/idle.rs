//! Why a policy will park nobody, or control nobody at all, in the present situation.

use super::scope::{has_tasks, meant, nobody_yet, Tenants};
use corun_model::{Knob, Notice, Observation, Policy, Tenant, TenantId};
use std::collections::BTreeSet;

/// The reasons; empty if somebody may be parked. `covered`: the tenants that the policy may touch.
pub fn reasons(
    tenants: &Tenants,
    policy: &dyn Policy,
    seen: &Observation,
    covered: &BTreeSet<TenantId>,
) -> Vec<Notice> {
    let here: Vec<&Tenant> =
        seen.tenants.iter().filter(|t| covered.contains(&t.id) && has_tasks(seen, t.id)).collect();
    // Named tenants without tasks have been reported already.
    let is_awaited = nobody_yet(tenants, seen).next().is_some();
    if here.is_empty() && !is_awaited && !policy.knobs().is_empty() {
        return vec![Notice::NobodyToControl];
    }
    if !policy.knobs().contains(&Knob::Park) {
        return Vec::new();
    }
    let same = named_twice(tenants, seen);
    if !same.is_empty() {
        return same;
    }
    let (alone, others) = match (&here[..], policy.subject()) {
        // The subject has the windows and is not parked, so one other tenant is enough.
        (here, Some(subject)) => (here.first(), here.iter().filter(|t| !t.is_called(subject)).count()),
        ([one], None) => (Some(one), 0),
        _ => (None, here.len()),
    };
    match alone {
        Some(alone) if others == 0 && !is_awaited => vec![Notice::OnlyOne {
            tenant: alone.name.clone(),
            policy: policy.name(),
            by_name: *tenants != Tenants::Everybody,
        }],
        _ => Vec::new(),
    }
}

/// Those of the named tenants that are the same one.
fn named_twice(tenants: &Tenants, seen: &Observation) -> Vec<Notice> {
    let named = |wanted: &String| -> Option<(String, &Tenant)> {
        let meant = meant(wanted, seen).ok()?;
        let [one] = meant[..] else { return None };
        Some((wanted.clone(), one))
    };
    let named: Vec<(String, &Tenant)> = tenants.named().iter().filter_map(named).collect();
    let again = |(at, (wanted, tenant)): (usize, &(String, &Tenant))| {
        let is_same = |(other, of): &&(String, &Tenant)| of.id == tenant.id && other != wanted;
        let (first, _) = named[..at].iter().find(is_same)?;
        Some(Notice::SameTenant { names: [first.clone(), wanted.clone()], tenant: (*tenant).clone() })
    };
    named.iter().enumerate().filter_map(again).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use corun_model::observation::TaskObservation;
    use corun_model::{TaskId, TenantKind};

    fn seen(names: &[&str]) -> Observation {
        let tenant = |(n, name): (usize, &&str)| Tenant {
            id: TenantId(n as u32),
            kind: TenantKind::Command,
            key: format!("pgid:{n}"),
            name: (*name).into(),
        };
        let task = |n: usize| TaskObservation {
            id: TaskId(100 + n as u32),
            name: "x".into(),
            tenant: TenantId(n as u32),
            born_ns: 0,
            alive: true,
            last_cpu: None,
            account: Default::default(),
        };
        Observation {
            tenants: names.iter().enumerate().map(tenant).collect(),
            tasks: (0..names.len()).map(task).collect(),
            ..Observation::default()
        }
    }

    fn of_gang(tenants: &Tenants, seen: &Observation) -> Vec<Notice> {
        let policy = corun_policy::by_name("gang", &corun_policy::Options::new()).unwrap();
        let covered = seen.tenants.iter().map(|t| t.id).collect();
        reasons(tenants, policy.as_ref(), seen, &covered)
    }

    #[test]
    fn the_lack_of_controllable_tenants_is_noticed_if_there_are_none_yet() {
        let named = Tenants::Named(vec!["cgroup:/build".into()]);
        assert_eq!(of_gang(&Tenants::Everybody, &seen(&[])), [Notice::NobodyToControl]);
        assert!(of_gang(&named, &seen(&[])).is_empty(), "that nobody is in it is said of each");
    }

    #[test]
    fn one_tenant_is_not_enough_for_a_policy_that_parks_and_two_are() {
        let alone = of_gang(&Tenants::Everybody, &seen(&["a"]));
        assert_eq!(alone, [Notice::OnlyOne { tenant: "a".into(), policy: "gang", by_name: false }]);
        assert!(of_gang(&Tenants::Everybody, &seen(&["a", "b"])).is_empty());
    }

    #[test]
    fn two_names_of_one_tenant_are_noticed_as_the_same() {
        let names = ["a".to_owned(), "pgid:0".to_owned()];
        let found = of_gang(&Tenants::Named(names.to_vec()), &seen(&["a", "b"]));
        assert!(
            matches!(&found[..], [Notice::SameTenant { names: said, .. }] if *said == names),
            "{found:?}"
        );
    }
}
