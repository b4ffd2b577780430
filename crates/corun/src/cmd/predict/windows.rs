//! The dedicated windows of a run: when the next may be, which of them count, who was in the way of the others, and what they
//! cost. What is said of them is one sentence with the remedy.
//!
//! A window counts if the subject lived to its end and others had at most [`OTHERS`] of the machine in it. Where those who may
//! not be parked had more than that just before, none is opened: it would stop the rest for nothing. After [`FRUITLESS`]
//! windows in a row that do not count no more are opened.

use corun_linux::dedicated::{DedicatedWindow, Hindrance};
use corun_model::refusal::{Protected, ProtectedBy};
use corun_model::{Observation, Refusal, Tenant, TenantId, Unavailable, What};
use corun_predict::interval::FEWEST;
use corun_report::names::Names;
use corun_report::predict::DedicatedWindows;
use corun_report::refusal::{of_whom, refusal, AS_ROOT};
use corun_session::subject_watch::machine_ns;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// What others may have of the machine in a dedicated window that counts.
pub const OTHERS: f64 = 0.05;
/// When the first dedicated window may be: a program's beginning is not like the rest of it.
pub const FIRST_NS: u64 = 500_000_000;
/// They follow each other at growing distances, so that those which the budget allows are spread over a run of any length:
/// the first few, which any answer takes, after half of the time that has passed, the others after as long again. But no
/// sooner and no later than this; the latter is what the default budget allows for ever.
const SOON_NS: u64 = 150_000_000;
const LATER_NS: u64 = 4_000_000_000;
/// So many windows in a row that do not count end it.
const FRUITLESS: usize = 3;
/// A tenant with less of the machine is in nobody's way.
const LEAST: f64 = 0.001;
/// Most tenants that a sentence names.
const NAMED: usize = 3;

/// What is known of the dedicated windows so far.
#[derive(Clone, Debug)]
pub struct Windows {
    subject: TenantId,
    /// Whom alone the user lets be parked, in the user's words.
    park: Vec<String>,
    /// When each was opened, or was not because of who ran.
    tried_ns: Vec<u64>,
    opened: usize,
    counted: usize,
    skipped: usize,
    /// How many in a row, up to now, did not count.
    fruitless: usize,
    /// Whether there was ever anybody who could be parked.
    parked_somebody: bool,
    parked_ns: u64,
    leaked_ns: u64,
    /// CPU time that the machine had in all of them, and just before those that were not opened.
    machine_ns: f64,
    /// The same of those that do not count.
    in_vain_ns: f64,
    others: BTreeMap<TenantId, Other>,
}

/// A co-runner that ran although it should not have.
#[derive(Clone, Debug)]
struct Other {
    tenant: Tenant,
    /// In all windows, and in those that do not count, in nanoseconds.
    on_cpu_ns: u64,
    in_vain_ns: u64,
    /// Why it was not parked, or did not help to park it; `None`: it could have been, or nobody asked.
    why: Option<Why>,
}

/// Why somebody ran in a dedicated window.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Why {
    /// It could not be parked.
    Refused(Refusal),
    /// It was parked, and ran all the same.
    Leaked,
}

impl Other {
    /// Why it ran, in a sentence.
    fn said(&self, why: &Why) -> String {
        match why {
            Why::Refused(why) => refusal(why),
            Why::Leaked => format!("{} {}", self.tenant.name, LEAKED),
        }
    }

    /// What is said of it behind its name; `None`: it is said of one of its processes, or of nobody.
    fn said_of_it(&self, why: &Why) -> Option<String> {
        let is_it = |name: &str| name == self.tenant.name || name == command(&self.tenant);
        match why {
            Why::Leaked => Some(LEAKED.into()),
            Why::Refused(
                why @ (Refusal::Protected(Protected { name: Some(name), pid: None, .. })
                | Refusal::NotInScope { tenant: name }),
            ) if is_it(name) => of_whom(why),
            Why::Refused(_) => None,
        }
    }

    /// Whether it is none of those who may be parked.
    fn is_out_of_scope(&self) -> bool {
        matches!(self.why, Some(Why::Refused(Refusal::NotInScope { .. })))
    }
}

/// What is said of who ran although it was parked.
const LEAKED: &str = "ran although it was parked";

/// What its command is called, which is not its name where it is another corun.
fn command(tenant: &Tenant) -> &str {
    match tenant.name.split_once(' ') {
        Some(("corun", _)) => "corun",
        _ => &tenant.name,
    }
}

impl Windows {
    /// Those of this subject; `park`: whom alone the user lets be parked, if anybody was named.
    pub fn new(subject: TenantId, park: &[String]) -> Windows {
        Windows {
            subject,
            park: park.to_vec(),
            tried_ns: Vec::new(),
            opened: 0,
            counted: 0,
            skipped: 0,
            fruitless: 0,
            parked_somebody: false,
            parked_ns: 0,
            leaked_ns: 0,
            machine_ns: 0.0,
            in_vain_ns: 0.0,
            others: BTreeMap::new(),
        }
    }

    /// Whether one would help now: from time to time, and at once when one is `wanted` since the program's behaviour has
    /// changed. The budget is not considered here.
    pub fn are_due(&self, begin_ns: u64, now_ns: u64, wanted: bool) -> bool {
        if self.has_given_up() {
            return false;
        }
        let Some(last_ns) = self.tried_ns.last() else { return now_ns - begin_ns >= FIRST_NS };
        // That there are too few at first is no reason to take them all from the beginning.
        let passed_ns = last_ns - begin_ns;
        let distance_ns = if wanted && self.counted >= FEWEST {
            SOON_NS
        } else if self.tried_ns.len() < FEWEST {
            (passed_ns / 2).clamp(SOON_NS, LATER_NS)
        } else {
            passed_ns.clamp(SOON_NS, LATER_NS)
        };
        now_ns - last_ns >= distance_ns
    }

    fn has_given_up(&self) -> bool {
        self.fruitless >= FRUITLESS
    }

    /// Notes one. Returns whether it counts.
    pub fn note(&mut self, window: &DedicatedWindow) -> bool {
        let seen = &window.dedicated;
        self.tried_ns.push(seen.end_ns);
        self.opened += 1;
        self.parked_ns += window.parked_ns;
        self.leaked_ns += window.leaked_ns;
        self.parked_somebody |= !window.parked.is_empty();
        let ran: Vec<(TenantId, u64)> =
            seen.co_runners(self.subject).map(|t| (t.id, t.account.ledger.on_cpu_ns())).collect();
        let others_ns: u64 = ran.iter().map(|r| r.1).sum();
        let in_the_way = others_ns as f64 > OTHERS * machine_ns(seen);
        let counts = !window.subject_ended && !in_the_way;
        // Of whom it did not help to park, it is not said that it came too late.
        let held = window.parked.iter().filter_map(|id| seen.tenant(*id));
        let leaked = held.map(|t| (t.id, Why::Leaked));
        let refused = window.not_parked.iter().map(|(id, why)| (*id, Why::Refused(why.clone())));
        let why: Vec<(TenantId, Why)> = refused.chain(leaked).collect();
        self.add(seen, &ran, &why, in_the_way);
        self.counted += usize::from(counts);
        // A subject that has ended is in no need of more.
        self.fruitless = if counts { 0 } else { self.fruitless + usize::from(in_the_way) };
        counts
    }

    /// Notes that none was opened because of who ran in `seen`, the window before.
    pub fn skip(&mut self, seen: &Observation, hindrance: &Hindrance) {
        self.tried_ns.push(seen.end_ns);
        self.skipped += 1;
        self.parked_somebody |= hindrance.parkable > 0;
        let why: Vec<(TenantId, Why)> =
            hindrance.unparkable.iter().map(|u| (u.tenant, Why::Refused(u.why.clone()))).collect();
        let ran: Vec<(TenantId, u64)> =
            hindrance.unparkable.iter().map(|u| (u.tenant, u.on_cpu_ns)).collect();
        self.add(seen, &ran, &why, true);
    }

    fn add(&mut self, seen: &Observation, ran: &[(TenantId, u64)], why: &[(TenantId, Why)], in_vain: bool) {
        self.machine_ns += machine_ns(seen);
        self.in_vain_ns += if in_vain { machine_ns(seen) } else { 0.0 };
        for (id, ns) in ran.iter().filter(|r| r.1 > 0) {
            let Some(tenant) = seen.tenant(*id) else { continue };
            let new = || Other { tenant: tenant.clone(), on_cpu_ns: 0, in_vain_ns: 0, why: None };
            let other = self.others.entry(*id).or_insert_with(new);
            other.tenant = tenant.clone();
            other.on_cpu_ns += ns;
            other.in_vain_ns += if in_vain { *ns } else { 0 };
            other.why = why.iter().find(|w| w.0 == *id).map(|w| w.1.clone()).or(other.why.take());
        }
    }

    /// What they came to, for a report.
    pub fn told(&self) -> DedicatedWindows {
        DedicatedWindows {
            opened: self.opened,
            counted: self.counted,
            skipped: self.skipped,
            parked_ns: self.parked_ns,
            leaked_ns: self.leaked_ns,
        }
    }

    /// What they are called, as everywhere else.
    fn names(&self) -> Names {
        let tenants = self.others.values().map(|o| &o.tenant);
        Names::told_apart(tenants.map(|t| (t.id.0, t.name.as_str(), t.key.as_str())))
    }

    /// Who ran in the windows that count although it could not be parked, with the reason.
    pub fn missing(&self) -> Vec<Unavailable> {
        if self.counted == 0 {
            return Vec::new();
        }
        // One line for all of whom the same is true.
        let mut alike: BTreeMap<String, Vec<(&Other, f64)>> = BTreeMap::new();
        for other in self.others.values() {
            let share = other.on_cpu_ns as f64 / self.machine_ns.max(1.0);
            if let Some(why) = other.why.as_ref().filter(|_| share >= LEAST) {
                let said = other.said_of_it(why).unwrap_or_else(|| other.said(why));
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
                why: match others.as_slice() {
                    [(first, _), ..] if first.why.as_ref().is_some_and(|w| first.said_of_it(w).is_none()) => {
                        why
                    }
                    [(only, _)] => format!("{} {why}", only.tenant.name),
                    _ => format!("each {why}"),
                },
            }
        };
        alike.into_iter().map(of).collect()
    }

    /// Why too few of them count, and what would help; `None`: enough do, or none was tried.
    pub fn why_too_few(&self) -> Option<String> {
        if self.tried_ns.is_empty() || self.counted >= FEWEST {
            return None;
        }
        // Nobody was parked: why not those who were named?
        let nobody_named = !self.park.is_empty() && !self.parked_somebody;
        let could_not = |o: &&Other| {
            let is_named = self.park.iter().any(|wanted| o.tenant.is_called(wanted));
            is_named || o.why.is_some() && !o.is_out_of_scope()
        };
        let named = self.others.values().filter(could_not).max_by_key(|o| (o.why.is_some(), o.on_cpu_ns));
        if nobody_named && named.is_none() {
            return Some(
                "no tenant by the names given with --park was seen, so nobody was parked; `corun profile --all --for 1s` \
                 lists who is there"
                    .to_owned(),
            );
        }
        let mut in_the_way: Vec<&Other> =
            self.others.values().filter(|o| o.in_vain_ns as f64 >= LEAST * self.in_vain_ns).collect();
        in_the_way.retain(|o| o.in_vain_ns > 0);
        in_the_way.sort_by_key(|o| Reverse(o.in_vain_ns));
        let no_more = if self.has_given_up() { ", and no more were tried" } else { "" };
        let remedy = match named.filter(|_| nobody_named).or(in_the_way.first().copied()) {
            None => "give it more time, or a larger --budget".to_owned(),
            Some(other) => self.remedy(other),
        };
        Some(format!(
            "{}{no_more}: {remedy}. What the program would do alone is derived from its ledger",
            self.so_few(&in_the_way)
        ))
    }

    /// How many there were and count, and who was in the way of the others, the first most.
    fn so_few(&self, in_the_way: &[&Other]) -> String {
        let names = self.names();
        // Who, a word of what it did, and how much of it.
        let who = |between: &str, and: &str| {
            let of = |(n, o): (usize, &&Other)| {
                let (who, share) =
                    (names.whole(o.tenant.id.0), 100.0 * o.in_vain_ns as f64 / self.in_vain_ns);
                match n {
                    0 => format!("{who}{between} {share:.1} % of the machine"),
                    _ => format!("{who}{} {share:.1} %", between.trim_end_matches(" had")),
                }
            };
            in_the_way.iter().take(NAMED).enumerate().map(of).collect::<Vec<_>>().join(and)
        };
        let before = || format!("since {} just before", who(" had", " and "));
        let counted = match (self.opened, self.counted) {
            (0, _) if in_the_way.is_empty() => return "none was opened, three are needed".to_owned(),
            (0, _) => return format!("none was opened, {}, three are needed", before()),
            (1, 0) => "the only window does not count".to_owned(),
            (1, _) => "only one window counts".to_owned(),
            (opened, 0) => format!("none of {opened} windows counts"),
            (opened, 1) => format!("1 of {opened} windows counts"),
            (opened, counted) => format!("{counted} of {opened} windows count"),
        };
        let why = match (self.opened, self.counted) {
            _ if in_the_way.is_empty() => String::new(),
            (opened, counted) if opened == counted => format!(" (no other was opened, {})", before()),
            (1, _) => format!(" (in it ran {})", who(",", ", and ")),
            (_, 0) => format!(" (in them ran {})", who(",", ", and ")),
            _ => format!(" (in the others ran {})", who(",", ", and ")),
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
                // What a shell would take for two words has a key of one.
                let name = if name.contains(' ') { key } else { name };
                format!("name {name} with --park as well, or leave --park away")
            }
            Some(Why::Refused(why)) if why.wants_root() => AS_ROOT.to_owned(),
            Some(why) => format!("{}; try again while it is idle", other.said(why)),
            None if self.parked_somebody => {
                format!("{name} came when the others were parked already; try again without it")
            }
            None => format!("{name} came when the window had begun already; try again"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corun_linux::dedicated::Unparkable;
    use corun_model::observation::{Account, CpuTime, TenantObservation};
    use corun_model::{CpuId, Ledger, Parts, TenantKind};

    const MS: u64 = 1_000_000;
    const SUBJECT: TenantId = TenantId(0);

    /// 40 ms on two CPUs in which these co-runners, by name, were on a CPU for so many milliseconds.
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

    fn window(at_ms: u64, others: &[(&str, u64)], why: Option<Refusal>) -> DedicatedWindow {
        let refused = |(n, why)| (TenantId(n), why);
        let not_parked = (1..=others.len() as u32).zip(why.into_iter().cycle()).map(refused).collect();
        DedicatedWindow {
            before: Observation::default(),
            dedicated: seen(at_ms, others),
            parked: vec![TenantId(9)],
            not_parked,
            parked_ns: 64 * MS,
            leaked_ns: 3,
            subject_ended: false,
        }
    }

    #[test]
    fn of_windows_too_few_of_which_count_it_is_said_who_ran_in_the_others_and_what_helps() {
        let mut windows = Windows::new(SUBJECT, &[]);
        assert_eq!(windows.why_too_few(), None, "none was tried");
        assert!(windows.note(&window(0, &[], None)));
        assert_eq!(
            windows.why_too_few().unwrap(),
            "only one window counts, three are needed: give it more time, or a larger --budget. What the program would do \
             alone is derived from its ledger"
        );
        let protected = || Some(by_user("hog", "hog"));
        assert!(!windows.note(&window(100, &[("hog", 40)], protected())));
        let why = windows.why_too_few().unwrap();
        assert!(
            why.starts_with(
                "1 of 2 windows counts, three are needed (in the others ran hog, 50.0 % of the machine): "
            ),
            "{why}"
        );
        assert!(why.contains("leave hog out of --protect"), "{why}");
        assert!(windows.note(&window(200, &[("hog", 1)], protected())));
        assert!(windows.note(&window(300, &[("hog", 1)], protected())));
        assert_eq!(windows.why_too_few(), None, "three count");
        let told = windows.told();
        assert_eq!((told.opened, told.counted, told.parked_ns, told.leaked_ns), (4, 3, 256 * MS, 12));
    }

    #[test]
    fn who_ran_unparked_is_listed_with_its_share_and_told_from_its_namesake_and_who_slept_is_not() {
        let mut windows = Windows::new(SUBJECT, &[]);
        let others = [("sshd", 1), ("cron", 0), ("sshd", 2)];
        assert!(windows.note(&window(0, &others, Some(protected("sshd", None, ProtectedBy::SessionUnit)))));
        let [only] = &windows.missing()[..] else { panic!("{:?}", windows.missing()) };
        assert_eq!(
            only.what.name(),
            "dedicated windows without sshd (pgid 102) (2.5 % of the machine), sshd (pgid 100) (1.2 % of the machine)"
        );
    }

    #[test]
    fn three_windows_in_a_row_that_do_not_count_are_the_last_and_a_good_one_between_begins_anew() {
        let mut windows = Windows::new(SUBJECT, &[]);
        let bad = |at_ms| window(at_ms, &[("late", 40)], None);
        let due = |w: &Windows| w.are_due(0, 100_000 * MS, false);
        assert!(due(&windows));
        for (at_ms, is_bad) in [(0, true), (1, true), (2, false), (3, true), (4, true)] {
            windows.note(&if is_bad { bad(at_ms) } else { window(at_ms, &[], None) });
            assert!(due(&windows), "after {at_ms}");
        }
        windows.note(&bad(5));
        assert!(!due(&windows));
        let why = windows.why_too_few().unwrap();
        assert!(why.contains("and no more were tried") && why.contains("late came when"), "{why}");
    }

    #[test]
    fn a_window_that_was_not_opened_parks_nobody_and_says_who_ran_just_before() {
        let mut windows = Windows::new(SUBJECT, &["solver".into()]);
        let why = Refusal::NotInScope { tenant: "hog".into() };
        let unparkable = vec![Unparkable { tenant: TenantId(1), why, on_cpu_ns: 40 * MS }];
        windows.skip(&seen(500, &[("hog", 40)]), &Hindrance { unparkable: unparkable.clone(), parkable: 0 });
        assert!(windows.why_too_few().unwrap().contains("no tenant by the names given with --park"));
        windows.skip(&seen(800, &[("hog", 40)]), &Hindrance { unparkable, parkable: 1 });
        assert_eq!((windows.told().opened, windows.told().skipped, windows.told().parked_ns), (0, 2, 0));
        let why = windows.why_too_few().unwrap();
        assert!(
            why.starts_with(
                "none was opened, since hog had 50.0 % of the machine just before, three are needed: "
            ),
            "{why}"
        );
        assert!(why.contains("name hog with --park as well"), "{why}");
    }

    /// Whom a window parked in which this one of its tenants was on a CPU all the same.
    fn leaky(at_ms: u64, name: &str) -> DedicatedWindow {
        DedicatedWindow { parked: vec![TenantId(1)], ..window(at_ms, &[(name, 40)], None) }
    }

    #[test]
    fn who_was_named_and_could_not_be_parked_was_seen_and_it_is_said_why_not() {
        let mut windows = Windows::new(SUBJECT, &["sshd".into()]);
        let why = protected("sshd", None, ProtectedBy::SessionUnit);
        windows.note(&DedicatedWindow { parked: Vec::new(), ..window(0, &[("sshd", 1)], Some(why.clone())) });
        let told = windows.why_too_few().unwrap();
        assert!(told.contains(&refusal(&why)) && !told.contains("no tenant"), "{told}");
    }

    #[test]
    fn who_ran_although_it_was_parked_did_not_come_too_late() {
        let mut windows = Windows::new(SUBJECT, &[]);
        windows.note(&leaky(0, "hog"));
        let why = windows.why_too_few().unwrap();
        assert!(
            why.contains("(in it ran hog, 50.0 %") && why.contains("hog ran although it was parked"),
            "{why}"
        );
    }

    #[test]
    fn another_corun_is_left_out_of_protect_by_the_word_that_the_user_gave() {
        let say = |wanted: &str, pid: Option<u32>| {
            let mut windows = Windows::new(SUBJECT, &[]);
            let why = protected("corun", pid, ProtectedBy::User { word: wanted.into() });
            let mut seen = window(0, &[("corun load", 40)], Some(why));
            seen.dedicated.tenants[0].key = "pgid:4711".into();
            windows.note(&seen);
            windows.note(&window(100, &[], None));
            (windows.why_too_few().unwrap(), windows.missing())
        };
        for (wanted, pid) in
            [("corun", None), ("pgid:4711", None), ("corun", Some(4712)), ("4712", Some(4712))]
        {
            let (why, _) = say(wanted, pid);
            assert!(why.contains(&format!("leave {wanted} out of --protect")), "{wanted}: {why}");
        }
        let (_, missing) = say("corun", None);
        assert_eq!(missing[0].why, "corun load is protected: --protect names it");
    }
}
