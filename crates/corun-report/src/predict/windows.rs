//! The texts about dedicated windows: who ran in them although it should not have, and if too few of them
//! count, why and what would help.

use super::DedicatedWindows;
use crate::names::Names;
use crate::refusal::{of_whom, refusal, AS_ROOT};
use corun_model::refusal::{Protected, ProtectedBy};
use corun_model::{Refusal, Tenant, Unavailable, What, Why as Because};
use corun_predict::interval::FEWEST;
use corun_predict::schedule::{Found, Other, Why};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// A tenant with less of the machine is no obstacle.
const LEAST: f64 = 0.001;
/// Most tenants that a sentence names.
const NAMED: usize = 3;

/// Why it ran, in a sentence.
fn said(of: &Other, why: &Why) -> String {
    match why {
        Why::Refused(why) => refusal(why),
        Why::Leaked => format!("{} {}", of.tenant.name, LEAKED),
    }
}

/// The text after its name; `None` if it is about one of its processes, or about nobody.
fn said_of_it(of: &Other, why: &Why) -> Option<String> {
    let is_it = |name: &str| name == of.tenant.name || name == command(&of.tenant);
    match why {
        Why::Leaked => Some(LEAKED.into()),
        Why::Refused(
            why @ (Refusal::Protected(Protected { name: Some(name), pid: None, .. })
            | Refusal::NotInScope { tenant: name }),
        ) if is_it(name) => of_whom(why),
        Why::Refused(_) => None,
    }
}

/// Whether it is none of the tenants that may be parked.
fn is_out_of_scope(of: &Other) -> bool {
    matches!(of.why, Some(Why::Refused(Refusal::NotInScope { .. })))
}

/// The text about a tenant that ran although it was parked.
const LEAKED: &str = "ran although it was parked";

/// The name of its command, which is not its own name if it is another corun.
fn command(tenant: &Tenant) -> &str {
    match tenant.name.split_once(' ') {
        Some(("corun", _)) => "corun",
        _ => &tenant.name,
    }
}

/// The texts about them.
#[derive(Clone, Copy, Debug)]
pub struct Windows<'a> {
    found: &'a Found,
    /// The only tenants that the user allows to be parked, in the user's words; empty: everybody.
    park: &'a [String],
}

impl<'a> Windows<'a> {
    /// The windows' texts; `park`: the only tenants that the user allows to be parked, if any were named.
    pub fn of(found: &'a Found, park: &'a [String]) -> Windows<'a> {
        Windows { found, park }
    }

    /// Their result, for a report.
    pub fn summary(&self) -> DedicatedWindows {
        DedicatedWindows {
            opened: self.found.opened,
            counted: self.found.counted,
            skipped: self.found.skipped,
            parked_ns: self.found.parked_ns,
            leaked_ns: self.found.leaked_ns,
        }
    }

    /// Their names, as everywhere else.
    fn names(&self) -> Names {
        let tenants = self.found.others.values().map(|o| &o.tenant);
        Names::disambiguated(tenants.map(|t| (t.id.0, t.name.as_str(), t.key.as_str())))
    }

    /// The tenants that ran in counted windows although they could not be parked, with the reason.
    pub fn missing(&self) -> Vec<Unavailable> {
        if self.found.counted == 0 {
            return Vec::new();
        }
        // One line for all with the same reason.
        let mut alike: BTreeMap<String, Vec<(&Other, f64)>> = BTreeMap::new();
        for other in self.found.others.values() {
            let share = other.on_cpu_ns as f64 / self.found.machine_ns.max(1.0);
            if let Some(why) = other.why.as_ref().filter(|_| share >= LEAST) {
                let said = said_of_it(other, why).unwrap_or_else(|| said(other, why));
                alike.entry(said).or_default().push((other, share));
            }
        }
        let names = self.names();
        let of = |(why, mut others): (String, Vec<(&Other, f64)>)| {
            others.sort_by_key(|(other, _)| Reverse(other.on_cpu_ns));
            let who: Vec<String> = others
                .iter()
                .map(|(other, share)| {
                    format!("{} ({:.1} % of the machine)", names.whole(other.tenant.id.0), share * 100.0)
                })
                .collect();
            Unavailable {
                what: What::WindowsWithout(who.join(", ")),
                why: Because::Said(match others.as_slice() {
                    [(first, _), ..]
                        if first.why.as_ref().is_some_and(|w| said_of_it(first, w).is_none()) =>
                    {
                        why
                    }
                    [(only, _)] => format!("{} {why}", only.tenant.name),
                    _ => format!("each {why}"),
                }),
            }
        };
        alike.into_iter().map(of).collect()
    }

    /// Why too few of them count, and what would help; `None` if enough do, or none was tried.
    pub fn why_too_few(&self) -> Option<String> {
        if self.found.opened + self.found.skipped == 0 || self.found.counted >= FEWEST {
            return None;
        }
        // Nobody was parked: why not the named ones?
        let nobody_named = !self.park.is_empty() && !self.found.parked_somebody;
        let could_not = |o: &&Other| {
            let is_named = self.park.iter().any(|wanted| o.tenant.is_called(wanted));
            is_named || o.why.is_some() && !is_out_of_scope(o)
        };
        let named =
            self.found.others.values().filter(could_not).max_by_key(|o| (o.why.is_some(), o.on_cpu_ns));
        if nobody_named && named.is_none() {
            return Some(
                "no tenant by the names given with --park was seen, so nobody was parked; `corun profile --all --for 1s` \
                 lists who is there"
                    .to_owned(),
            );
        }
        let mut in_the_way: Vec<&Other> = self
            .found
            .others
            .values()
            .filter(|o| o.in_vain_ns as f64 >= LEAST * self.found.in_vain_ns)
            .collect();
        in_the_way.retain(|o| o.in_vain_ns > 0);
        in_the_way.sort_by_key(|o| Reverse(o.in_vain_ns));
        let no_more = if self.found.given_up { ", and no more were tried" } else { "" };
        let remedy = match named.filter(|_| nobody_named).or(in_the_way.first().copied()) {
            None => "give it more time, or a larger --budget".to_owned(),
            Some(other) => self.remedy(other),
        };
        Some(format!(
            "{}{no_more}: {remedy}. What the program would do alone is derived from its ledger",
            self.so_few(&in_the_way)
        ))
    }

    /// How many there were, how many count, and who was in the way of the others, the worst first.
    fn so_few(&self, in_the_way: &[&Other]) -> String {
        let names = self.names();
        // Who, a verb for the first, and how much of it.
        let who = |verb: Option<&str>, between: &str, and: &str| {
            let of = |(n, o): (usize, &&Other)| {
                let (who, share) =
                    (names.whole(o.tenant.id.0), 100.0 * o.in_vain_ns as f64 / self.found.in_vain_ns);
                let verb = verb.filter(|_| n == 0).map_or_else(String::new, |verb| format!(" {verb}"));
                let of = if n == 0 { " of the machine" } else { "" };
                format!("{who}{between}{verb} {share:.1} %{of}")
            };
            in_the_way.iter().take(NAMED).enumerate().map(of).collect::<Vec<_>>().join(and)
        };
        let before = || format!("since {} just before", who(Some("had"), "", " and "));
        let counted = match (self.found.opened, self.found.counted) {
            (0, _) if in_the_way.is_empty() => return "none was opened, three are needed".to_owned(),
            (0, _) => return format!("none was opened, {}, three are needed", before()),
            (1, 0) => "the only window does not count".to_owned(),
            (1, _) => "only one window counts".to_owned(),
            (opened, 0) => format!("none of {opened} windows counts"),
            (opened, 1) => format!("1 of {opened} windows counts"),
            (opened, counted) => format!("{counted} of {opened} windows count"),
        };
        let why = match (self.found.opened, self.found.counted) {
            _ if in_the_way.is_empty() => String::new(),
            (opened, counted) if opened == counted => format!(" (no other was opened, {})", before()),
            (1, _) => format!(" (in it ran {})", who(None, ",", ", and ")),
            (_, 0) => format!(" (in them ran {})", who(None, ",", ", and ")),
            _ => format!(" (in the others ran {})", who(None, ",", ", and ")),
        };
        format!("{counted}, three are needed{why}")
    }

    /// What would keep this tenant out of dedicated windows.
    fn remedy(&self, other: &Other) -> String {
        let Tenant { name, key, .. } = &other.tenant;
        match &other.why {
            Some(Why::Refused(Refusal::Protected(Protected { why: ProtectedBy::User { word }, .. }))) => {
                format!("leave {word} out of --protect")
            }
            Some(Why::Refused(Refusal::NotInScope { .. })) => {
                // A name that a shell would split has a key in one word.
                let name = if name.contains(' ') { key } else { name };
                format!("name {name} with --park as well, or leave --park away")
            }
            Some(Why::Refused(why)) if why.wants_root() => AS_ROOT.to_owned(),
            Some(why) => format!("{}; try again while it is idle", said(other, why)),
            None if self.found.parked_somebody => {
                format!("{name} came when the others were parked already; try again without it")
            }
            None => format!("{name} came when the window had begun already; try again"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corun_model::observation::{Account, CpuTime, TenantObservation};
    use corun_model::{CpuId, Ledger, Observation, Parts, TenantId, TenantKind};
    use corun_predict::schedule::{InTheWay, Schedule, Taken};

    const MS: u64 = 1_000_000;
    const SUBJECT: TenantId = TenantId(0);

    /// A schedule, and the only tenants that the user allows to be parked.
    struct Tried(Schedule, Vec<String>);

    impl Tried {
        fn letting_park(only: &[&str]) -> Tried {
            Tried(Schedule::new(SUBJECT, 0), only.iter().map(|s| (*s).to_owned()).collect())
        }

        /// Whether it counts.
        fn note(&mut self, w: &Dedicated) -> bool {
            let (seen, parked, not_parked) = (&w.seen, &w.parked[..], &w.not_parked[..]);
            let (parked_ns, leaked_ns) = (64 * MS, 3);
            let taken = Taken { seen, parked, not_parked, parked_ns, leaked_ns, subject_ended: false };
            self.0.opened(&taken).is_ok()
        }

        fn said(&self) -> Windows<'_> {
            Windows::of(self.0.found(), &self.1)
        }
    }

    /// A window that was opened.
    struct Dedicated {
        seen: Observation,
        parked: Vec<TenantId>,
        not_parked: Vec<(TenantId, Refusal)>,
    }

    /// 40 ms on two CPUs in which these co-runners, by name, were on a CPU for the given milliseconds.
    fn seen(at_ms: u64, others: &[(&str, u64)]) -> Observation {
        let of = |(n, (name, _)): (usize, &(&str, u64))| Tenant {
            id: TenantId(n as u32 + 1),
            kind: TenantKind::Command,
            key: format!("pgid:{}", 100 + n),
            name: (*name).into(),
        };
        let account = |ms: u64| {
            let parts = Parts { compute_ns: ms * MS, ..Parts::default() };
            Account { ledger: Ledger::new(parts, ms * MS).unwrap(), ..Account::default() }
        };
        let ran = |(n, (_, ms)): (usize, &(&str, u64))| TenantObservation {
            id: TenantId(n as u32 + 1),
            tasks: 1,
            account: account(*ms),
        };
        Observation {
            start_ns: at_ms * MS,
            end_ns: (at_ms + 40) * MS,
            tenants: others.iter().enumerate().map(of).collect(),
            by_tenant: others.iter().enumerate().map(ran).collect(),
            cpus: [0, 1]
                .map(|n| CpuTime {
                    cpu: CpuId(n),
                    idle_ns: 0,
                    busy_ns: 40 * MS,
                    unknown_ns: 0,
                    host_steal_ns: None,
                })
                .into(),
            ..Observation::default()
        }
    }

    fn protected(name: &str, pid: Option<u32>, why: ProtectedBy) -> Refusal {
        Refusal::Protected(Protected { name: Some(name.into()), pid, why })
    }

    fn by_user(name: &str, word: &str) -> Refusal {
        protected(name, None, ProtectedBy::User { word: word.into() })
    }

    fn window(at_ms: u64, others: &[(&str, u64)], why: Option<Refusal>) -> Dedicated {
        let refused = |(n, why)| (TenantId(n), why);
        let not_parked = (1..=others.len() as u32).zip(why.into_iter().cycle()).map(refused).collect();
        Dedicated { seen: seen(at_ms, others), parked: vec![TenantId(9)], not_parked }
    }

    #[test]
    fn if_too_few_windows_count_the_text_says_who_ran_in_the_others_and_what_helps() {
        let mut windows = Tried::letting_park(&[]);
        assert_eq!(windows.said().why_too_few(), None, "none was tried");
        assert!(windows.note(&window(0, &[], None)));
        assert_eq!(
            windows.said().why_too_few().unwrap(),
            "only one window counts, three are needed: give it more time, or a larger --budget. What the program would do \
             alone is derived from its ledger"
        );
        let protected = || Some(by_user("hog", "hog"));
        assert!(!windows.note(&window(100, &[("hog", 40)], protected())));
        let why = windows.said().why_too_few().unwrap();
        assert!(
            why.starts_with(
                "1 of 2 windows counts, three are needed (in the others ran hog, 50.0 % of the machine): "
            ),
            "{why}"
        );
        assert!(why.contains("leave hog out of --protect"), "{why}");
        assert!(windows.note(&window(200, &[("hog", 1)], protected())));
        assert!(windows.note(&window(300, &[("hog", 1)], protected())));
        assert_eq!(windows.said().why_too_few(), None, "three count");
        let summed = windows.said().summary();
        assert_eq!((summed.opened, summed.counted, summed.parked_ns, summed.leaked_ns), (4, 3, 256 * MS, 12));
    }

    #[test]
    fn an_unparked_runner_is_listed_with_its_share_and_apart_from_its_namesake_and_a_sleeper_is_not() {
        let mut windows = Tried::letting_park(&[]);
        let others = [("sshd", 1), ("cron", 0), ("sshd", 2)];
        assert!(windows.note(&window(0, &others, Some(protected("sshd", None, ProtectedBy::SessionUnit)))));
        let [only] = &windows.said().missing()[..] else { panic!("{:?}", windows.said().missing()) };
        assert_eq!(
            only.what.name(),
            "dedicated windows without sshd (pgid 102) (2.5 % of the machine), sshd (pgid 100) (1.2 % of the machine)"
        );
    }

    #[test]
    fn after_too_many_useless_windows_the_text_says_that_no_more_were_tried() {
        let mut windows = Tried::letting_park(&[]);
        (0..3).for_each(|at_ms| assert!(!windows.note(&window(at_ms, &[("late", 40)], None))));
        let why = windows.said().why_too_few().unwrap();
        assert!(why.contains("and no more were tried") && why.contains("late came when"), "{why}");
    }

    #[test]
    fn a_skipped_window_parks_nobody_and_says_who_ran_just_before() {
        let mut windows = Tried::letting_park(&["solver"]);
        let why = Refusal::NotInScope { tenant: "hog".into() };
        let hog = [InTheWay { tenant: TenantId(1), why, on_cpu_ns: 40 * MS }];
        windows.0.not_dedicated(&seen(500, &[("hog", 40)]), &hog, 0);
        assert!(windows.said().why_too_few().unwrap().contains("no tenant by the names given with --park"));
        windows.0.not_dedicated(&seen(800, &[("hog", 40)]), &hog, 1);
        let summed = windows.said().summary();
        assert_eq!((summed.opened, summed.skipped, summed.parked_ns), (0, 2, 0));
        let why = windows.said().why_too_few().unwrap();
        assert!(
            why.starts_with(
                "none was opened, since hog had 50.0 % of the machine just before, three are needed: "
            ),
            "{why}"
        );
        assert!(why.contains("name hog with --park as well"), "{why}");
    }

    /// The parked tenants of a window in which this one of them was on a CPU all the same.
    fn leaky(at_ms: u64, name: &str) -> Dedicated {
        Dedicated { parked: vec![TenantId(1)], ..window(at_ms, &[(name, 40)], None) }
    }

    #[test]
    fn a_named_tenant_that_could_not_be_parked_was_seen_and_the_text_says_why() {
        let mut windows = Tried::letting_park(&["sshd"]);
        let why = protected("sshd", None, ProtectedBy::SessionUnit);
        windows.note(&Dedicated { parked: Vec::new(), ..window(0, &[("sshd", 1)], Some(why.clone())) });
        let told = windows.said().why_too_few().unwrap();
        assert!(told.contains(&refusal(&why)) && !told.contains("no tenant"), "{told}");
    }

    #[test]
    fn a_tenant_that_ran_although_it_was_parked_did_not_come_too_late() {
        let mut windows = Tried::letting_park(&[]);
        windows.note(&leaky(0, "hog"));
        let why = windows.said().why_too_few().unwrap();
        assert!(
            why.contains("(in it ran hog, 50.0 %") && why.contains("hog ran although it was parked"),
            "{why}"
        );
    }

    #[test]
    fn another_corun_is_left_out_of_protect_by_the_users_word_for_it() {
        let say = |wanted: &str, pid: Option<u32>| {
            let mut windows = Tried::letting_park(&[]);
            let why = protected("corun", pid, ProtectedBy::User { word: wanted.into() });
            let mut seen = window(0, &[("corun load", 40)], Some(why));
            seen.seen.tenants[0].key = "pgid:4711".into();
            windows.note(&seen);
            windows.note(&window(100, &[], None));
            (windows.said().why_too_few().unwrap(), windows.said().missing())
        };
        for (wanted, pid) in
            [("corun", None), ("pgid:4711", None), ("corun", Some(4712)), ("4712", Some(4712))]
        {
            let (why, _) = say(wanted, pid);
            assert!(why.contains(&format!("leave {wanted} out of --protect")), "{wanted}: {why}");
        }
        let (_, missing) = say("corun", None);
        assert_eq!(missing[0].why.to_string(), "corun load is protected: --protect names it");
    }
}
