//! The notices before a policy begins, and about a run that did nothing: a sentence per notice.

use corun_model::duration::human_ns;
use corun_model::{Notice, Policy, TenantKind};

/// The times of `--for` are rounded up like this, so that users can type one.
const SECOND_NS: u64 = 1_000_000_000;

/// The sentence, with what helps.
pub fn sentence(notice: &Notice) -> String {
    match notice {
        Notice::OthersLeftAlone { tenants } => {
            let them = match tenants {
                1 => "1 tenant belongs to another user and is".to_owned(),
                n => format!("{n} tenants belong to other users and are"),
            };
            format!("{them} left alone; run as root to control everybody")
        }
        Notice::NobodyInIt { tenant } => {
            format!("--tenant {tenant}: it is empty now; processes that come will be controlled")
        }
        Notice::ProtectsNobody { name } => format!(
            "--protect {name}: nothing by that name runs here now; what comes by it later is protected"
        ),
        Notice::Unseen(u) => format!("{}: {}", u.what, u.why),
        Notice::NobodyToControl => "no tenant may be controlled now; one that comes will be".to_owned(),
        Notice::OnlyOne { tenant, policy, by_name } => {
            let remedy = if *by_name { "; name another with --tenant" } else { "" };
            format!(
                "only {tenant} may be controlled now, and {policy} parks nobody unless there are two{remedy}"
            )
        }
        Notice::SameTenant { names: [first, other], tenant } => {
            let (why, remedy) = match tenant.kind {
                TenantKind::Command => ("a process group", "start them with setsid, each by itself"),
                _ => ("a cgroup", "give each a cgroup of its own"),
            };
            format!(
                "--tenant {first} and --tenant {other} are one tenant, {} ({}), since they share {why}; {remedy}",
                tenant.name, tenant.key
            )
        }
        Notice::TooShortForGuard { policy, length_ns, pairs, period_ns, needed_ns } => format!(
            "--for {} is too short for the guard to find out whether {policy} helps, which may take {pairs} pairs of periods of {}; \
             give --for {}s or more, or --guard off",
            human_ns(*length_ns),
            human_ns(*period_ns),
            needed_ns.div_ceil(SECOND_NS)
        ),
        Notice::NoSchedExt { why } => format!("no sched_ext ({why}); using stock knobs"),
        Notice::NotRealTime { why } => format!(
            "it waits for a CPU like everybody else, so parking and thawing may take longer: {why}"
        ),
        Notice::InexactKnob { knob, how } => format!("{} by stock knobs: {how}", knob.name()),
        Notice::TakenForPaused { containers } => format!(
            "while a container is parked ({}), its runtime takes it for paused and refuses `exec`, and probes that use it \
             fail; sched_ext parks without that",
            containers.join(", ")
        ),
    }
}

/// Why a run decided nothing while the policy was in force; `idle` is the notice before it began.
pub fn of_nothing(policy: &dyn Policy, idle: Option<&Notice>, in_force_ns: u64) -> String {
    match idle {
        _ if policy.knobs().is_empty() => "it only watches".to_owned(),
        Some(notice) => sentence(notice),
        None if in_force_ns == 0 => {
            "it was never in force, since the guard first watches for a while without it; give --for longer".to_owned()
        }
        // Its first window opens at the epoch nearest to its due time.
        None => match policy.windows_every_ns().filter(|ns| in_force_ns < ns + 2 * policy.epoch_ns()) {
            Some(every_ns) => format!(
                "its windows come every {}, and it was in force for {}; give --for longer, or a shorter -o every",
                human_ns(every_ns),
                human_ns(in_force_ns)
            ),
            None => format!(
                "nothing that it acts upon was seen in the {} that it was in force; `corun policies` says what that is",
                human_ns(in_force_ns)
            ),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corun_model::duration::parse_ns;
    use corun_model::{Decision, Knob, Machine, Observation};

    /// A policy that decides every 50 ms, and opens a window this often.
    struct Opens(Option<u64>);

    impl Policy for Opens {
        fn name(&self) -> &'static str {
            "opens"
        }

        fn knobs(&self) -> &'static [Knob] {
            &[Knob::Park]
        }

        fn epoch_ns(&self) -> u64 {
            SECOND_NS / 20
        }

        fn windows_every_ns(&self) -> Option<u64> {
            self.0
        }

        fn decide(&mut self, _: &Machine, _: &Observation) -> Vec<Decision> {
            Vec::new()
        }
    }

    #[test]
    fn a_run_that_ends_before_the_first_window_is_told_how_often_they_come() {
        let said = |every_ns, in_force_ns| of_nothing(&Opens(every_ns), None, in_force_ns);
        let every = Some(2 * SECOND_NS);
        let too_short = "its windows come every 2.00 s, and it was in force for 1.50 s; give --for longer, or a shorter -o every";
        assert_eq!(said(every, 3 * SECOND_NS / 2), too_short);
        assert!(said(every, 3 * SECOND_NS).starts_with("nothing that it acts upon was seen in the 3.00 s"));
        assert!(said(None, SECOND_NS).starts_with("nothing that it acts upon"));
        assert!(said(every, 0).starts_with("it was never in force"));
    }

    #[test]
    fn a_length_that_is_enough_for_the_guard_can_be_typed() {
        let needed_ns = 6 * SECOND_NS + 1;
        let notice =
            Notice::TooShortForGuard { policy: "gang", length_ns: 1, pairs: 3, period_ns: 1, needed_ns };
        let told = sentence(&notice);
        let given = told.split("give --for ").nth(1).and_then(|rest| rest.split(' ').next()).unwrap();
        assert!(parse_ns(given).unwrap() >= needed_ns, "{told}");
    }
}
