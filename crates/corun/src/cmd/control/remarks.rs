//! What is said before a policy begins: why a run may do nothing, or other than its user thinks.
//!
//! Nothing here is a mistake for certain (others may come by the names that were given), so the run goes on; but who is told
//! only at its end has waited in vain.

use super::whom::{has_tasks, meant, nobody_yet};
use super::Args;
use corun_linux::backend::{KnobSupport, Support};
use corun_model::duration::human_ns;
use corun_model::{Knob, Observation, Policy, Tenant, TenantId, TenantKind};
use corun_policy::guard::{period_ns, PAIRS};
use std::collections::BTreeSet;

/// How the times of `--for` are rounded up, so that one can be typed in.
const SECOND_NS: u64 = 1_000_000_000;

/// Why nobody will be parked, or controlled at all, as things are; nothing where somebody may be. `covered`: whom the policy may touch.
pub fn of_tenants(
    args: &Args,
    policy: &dyn Policy,
    seen: &Observation,
    covered: &BTreeSet<TenantId>,
) -> Vec<String> {
    let here: Vec<&Tenant> =
        seen.tenants.iter().filter(|t| covered.contains(&t.id) && has_tasks(seen, t.id)).collect();
    // Of each that was named, and nobody is in, it is said already.
    if here.is_empty() && nobody_yet(args, seen).next().is_none() && !policy.knobs().is_empty() {
        return vec!["nobody may be controlled now; who comes will be".to_owned()];
    }
    if !policy.knobs().contains(&Knob::Park) {
        return Vec::new();
    }
    let same = the_same(args, seen);
    if !same.is_empty() {
        return same;
    }
    let subject = policy.subject();
    let (alone, others) = match (&here[..], subject) {
        // Who is named has the windows and is not parked, so that one other is enough.
        (here, Some(subject)) => (here.first(), here.iter().filter(|t| !t.is_called(subject)).count()),
        ([one], None) => (Some(one), 0),
        _ => (None, here.len()),
    };
    match alone {
        Some(alone) if others == 0 && nobody_yet(args, seen).next().is_none() => {
            let remedy = if args.all { "" } else { "; name another with --tenant" };
            vec![format!(
                "only {} may be controlled now, and {} parks nobody unless there are two{remedy}",
                alone.name,
                policy.name()
            )]
        }
        _ => Vec::new(),
    }
}

/// Why a run decided nothing; `idle` is what was said of its tenants before it began.
pub fn of_nothing(policy: &dyn Policy, idle: &[String]) -> String {
    match idle.first() {
        _ if policy.knobs().is_empty() => "it only watches".to_owned(),
        Some(why) => why.clone(),
        None => "nothing that it acts upon was seen; `corun policies` says what that is".to_owned(),
    }
}

/// What stock knobs make of a value that is asked for, where that is not the value.
pub fn of_knobs(policy: &dyn Policy, support: &[KnobSupport]) -> Vec<String> {
    let is_inexact = |s: &&KnobSupport| {
        matches!(s.knob, Knob::Slice | Knob::PreemptDelay) && policy.knobs().contains(&s.knob)
    };
    let told = |s: &KnobSupport| match &s.support {
        Support::Yes { how } => Some(format!("{} by stock knobs: {how}", s.knob.name())),
        Support::No { .. } => None,
    };
    support.iter().filter(is_inexact).filter_map(told).collect()
}

/// That so many tenants are other users', and are left alone.
pub fn of_others(tenants: usize) -> Option<String> {
    let them = match tenants {
        0 => return None,
        1 => "1 tenant belongs to another user and is".to_owned(),
        n => format!("{n} tenants belong to other users and are"),
    };
    Some(format!("{them} left alone; run as root to control everybody"))
}

/// Which of those that were named apart are one tenant.
fn the_same(args: &Args, seen: &Observation) -> Vec<String> {
    let named = |wanted: &String| -> Option<(String, &Tenant)> {
        let meant = meant(wanted, seen).ok()?;
        let [one] = meant[..] else { return None };
        Some((wanted.clone(), one))
    };
    let named: Vec<(String, &Tenant)> = args.tenants.iter().filter_map(named).collect();
    let mut said = Vec::new();
    for (at, (wanted, tenant)) in named.iter().enumerate() {
        let is_same = |(other, of): &&(String, &Tenant)| of.id == tenant.id && other != wanted;
        let Some((first, _)) = named[..at].iter().find(is_same) else { continue };
        let (why, remedy) = match tenant.kind {
            TenantKind::Command => ("a process group", "start them with setsid, each by itself"),
            _ => ("a cgroup", "give each a cgroup of its own"),
        };
        said.push(format!(
            "--tenant {first} and --tenant {wanted} are one tenant, {} ({}), since they share {why}; {remedy}",
            tenant.name, tenant.key
        ));
    }
    said
}

/// That the guard will find out nothing in so short a time; its periods end with an epoch.
pub fn of_guard(policy: &str, length_ns: u64, epoch_ns: u64) -> Option<String> {
    let period_ns = period_ns(epoch_ns);
    let needed_ns = period_ns.saturating_add(epoch_ns).saturating_mul(2 * PAIRS as u64);
    (length_ns < needed_ns).then(|| {
        format!(
            "--for {} is too short for the guard to find out whether {policy} helps, which takes {PAIRS} pairs of periods of {}; \
             give --for {}s or more, or --guard off",
            human_ns(length_ns),
            human_ns(period_ns),
            needed_ns.div_ceil(SECOND_NS)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Args as _, FromArgMatches as _};
    use corun_model::duration::parse_ns;

    #[test]
    fn that_nobody_may_be_controlled_is_said_where_it_is_not_yet() {
        let remarks = |given: &[&str]| {
            let given = ["control", "gang"].iter().chain(given);
            let matches = Args::augment_args(clap::Command::new("control")).get_matches_from(given);
            let (args, seen) = (Args::from_arg_matches(&matches).unwrap(), Observation::default());
            let policy = corun_policy::by_name("gang", &corun_policy::Options::new()).unwrap();
            of_tenants(&args, policy.as_ref(), &seen, &BTreeSet::new())
        };
        assert_eq!(remarks(&["--all"]), ["nobody may be controlled now; who comes will be"]);
        assert!(remarks(&["--tenant", "cgroup:/build"]).is_empty(), "that nobody is in it is said of each");
    }

    #[test]
    fn a_run_that_decides_nothing_says_why() {
        let policy = |name| corun_policy::by_name(name, &corun_policy::Options::new()).unwrap();
        let said = |name, idle: &[&str]| {
            of_nothing(policy(name).as_ref(), &idle.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>())
        };
        assert_eq!(said("observe", &[]), "it only watches");
        assert_eq!(said("gang", &["only a may be controlled now"]), "only a may be controlled now");
        assert!(said("gang", &[]).contains("`corun policies` says"));
    }

    #[test]
    fn what_the_guard_needs_is_told_as_a_length_that_is_enough() {
        let (period_ns, epoch_ns) = (SECOND_NS, 50_000_000);
        assert_eq!(period_ns, super::period_ns(epoch_ns));
        let told = of_guard("gang", 2 * SECOND_NS, epoch_ns).unwrap();
        let given = told.split("give --for ").nth(1).and_then(|rest| rest.split(' ').next()).unwrap();
        let enough_ns = parse_ns(given).unwrap();
        assert!(enough_ns >= 2 * PAIRS as u64 * period_ns, "{told}");
        assert_eq!(of_guard("gang", enough_ns, epoch_ns), None);
        assert!(of_guard("gang", enough_ns - SECOND_NS, epoch_ns).is_some());
        assert!(of_guard("gang", SECOND_NS, u64::MAX).is_some(), "absurd, and no overflow");
    }
}
