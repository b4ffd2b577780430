//! When to open dedicated windows, which of them count, and when to stop trying: one schedule, for live predictions and for every table of
//! how accurate they are.
//!
//! It takes what was seen and answers what to do next. It parks nobody: the caller does, within the caller's budget
//! ([`corun_model::dedicated`]). Its findings are facts ([`Found`]); `corun-report` makes the sentences.
//!
//! - A window counts if the subject lived to its end and others had at most [`OTHERS`] of the machine in it.
//! - If tenants that may not be parked had more than that just before, no window is opened: it would stop the rest in vain.
//! - After [`FRUITLESS`] in a row that do not count, or were not opened for that reason, no more are opened.
//! - They follow each other at growing distances, so that the windows that a budget allows are spread over a run of any length. The first
//!   few, which any answer needs, come after half of the time that has passed, the others after as long again.

use crate::interval::FEWEST;
use crate::predictor::WantsDedicated;
use corun_model::{Observation, Refusal, Tenant, TenantId};
use std::collections::BTreeMap;

pub use corun_model::dedicated::WINDOW_NS;

/// Definition: the length of a shared window, in nanoseconds.
pub const SLOT_NS: u64 = 200_000_000;
/// Definition: the share of the machine that others may have in a dedicated window that counts.
pub const OTHERS: f64 = 0.05;
/// Definition: the earliest time of the first dedicated window: a program's beginning is not like the rest of it.
pub const FIRST_NS: u64 = 500_000_000;
/// Definition: the least distance between windows.
const SOON_NS: u64 = 150_000_000;
/// Definition: the largest distance. The default budget allows it for ever.
const LATER_NS: u64 = 4_000_000_000;
/// Definition: this many in a row that do not count end it.
const FRUITLESS: usize = 3;

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Go on watching.
    Watch,
    /// Open a window, if the budget allows one now.
    Open,
    /// Open no more.
    GiveUp,
}

/// Why a window does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Void {
    /// The subject ended in it.
    SubjectEnded,
    /// Others ran for this long, in nanoseconds, summed over CPUs.
    OthersRan(u64),
}

/// A window that was opened.
#[derive(Clone, Debug)]
pub struct Taken<'a> {
    /// The observation.
    pub seen: &'a Observation,
    /// Who was parked.
    pub parked: &'a [TenantId],
    /// Who could not be parked, and why.
    pub not_parked: &'a [(TenantId, Refusal)],
    /// How long somebody was parked for it in all, in nanoseconds.
    pub parked_ns: u64,
    /// CPU time of those who were parked, while they were, in nanoseconds.
    pub leaked_ns: u64,
    /// Whether the subject ended in it.
    pub subject_ended: bool,
}

/// Somebody who cannot be parked.
#[derive(Clone, Debug)]
pub struct InTheWay {
    /// Who.
    pub tenant: TenantId,
    /// Why not.
    pub why: Refusal,
    /// How long it was on a CPU in the window before, in nanoseconds.
    pub on_cpu_ns: u64,
}

/// The findings from all windows so far.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// How many were opened.
    pub opened: usize,
    /// How many of them count.
    pub counted: usize,
    /// How many were not opened because of tenants that ran just before.
    pub skipped: usize,
    /// Whether no more are opened, since too many in a row did not count.
    pub given_up: bool,
    /// Whether there was ever anybody who could be parked.
    pub parked_somebody: bool,
    /// How long somebody was parked, in nanoseconds.
    pub parked_ns: u64,
    /// CPU time of those who were parked, while they were, in nanoseconds.
    pub leaked_ns: u64,
    /// CPU time that the machine had in all of them, and just before those that were not opened, in nanoseconds.
    pub machine_ns: f64,
    /// The same for those that do not count.
    pub in_vain_ns: f64,
    /// Co-runners that ran although they should not have.
    pub others: BTreeMap<TenantId, Other>,
}

/// A co-runner that ran although it should not have.
#[derive(Clone, Debug)]
pub struct Other {
    /// Who.
    pub tenant: Tenant,
    /// How long in all windows, in nanoseconds.
    pub on_cpu_ns: u64,
    /// And in those that do not count.
    pub in_vain_ns: u64,
    /// Why it was not parked, or why parking it did not help; `None`: it could have been parked, or nobody asked.
    pub why: Option<Why>,
}

/// Why somebody ran in a dedicated window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// It could not be parked.
    Refused(Refusal),
    /// It was parked, and ran all the same.
    Leaked,
}

/// The dedicated windows of a run.
#[derive(Clone, Debug)]
pub struct Schedule {
    subject: TenantId,
    begin_ns: u64,
    /// When a window was last opened, or not opened because of a tenant that ran, and how many were.
    last_ns: Option<u64>,
    tried: usize,
    /// How many in a row, up to now, did not count.
    fruitless: usize,
    found: Found,
}

impl Schedule {
    /// For this subject, whose run began then on the host's clock.
    pub fn new(subject: TenantId, begin_ns: u64) -> Schedule {
        Schedule { subject, begin_ns, last_ns: None, tried: 0, fruitless: 0, found: Found::default() }
    }

    /// What to do now: open a window from time to time, and at once if the program's behavior has changed.
    pub fn next(&self, now_ns: u64, wants: Option<WantsDedicated>) -> Next {
        if self.found.given_up {
            return Next::GiveUp;
        }
        let Some(last_ns) = self.last_ns else {
            return due(now_ns.saturating_sub(self.begin_ns) >= FIRST_NS);
        };
        // Having too few at first is no reason to take them all from the beginning.
        let passed_ns = last_ns - self.begin_ns;
        let distance_ns = match wants {
            Some(_) if self.found.counted >= FEWEST => SOON_NS,
            _ if self.tried < FEWEST => (passed_ns / 2).clamp(SOON_NS, LATER_NS),
            _ => passed_ns.clamp(SOON_NS, LATER_NS),
        };
        due(now_ns.saturating_sub(last_ns) >= distance_ns)
    }

    /// Takes a window that was opened.
    ///
    /// # Errors
    /// Why it does not count.
    pub fn opened(&mut self, window: &Taken<'_>) -> Result<(), Void> {
        let seen = window.seen;
        self.found.opened += 1;
        self.found.parked_ns += window.parked_ns;
        self.found.leaked_ns += window.leaked_ns;
        self.found.parked_somebody |= !window.parked.is_empty();
        let ran: Vec<(TenantId, u64)> =
            seen.co_runners(self.subject).map(|t| (t.id, t.account.ledger.on_cpu_ns())).collect();
        let others_ns: u64 = ran.iter().map(|r| r.1).sum();
        let in_the_way = others_ns as f64 > OTHERS * machine_ns(seen);
        let counts = match (in_the_way, window.subject_ended) {
            (true, _) => Err(Void::OthersRan(others_ns)),
            (false, true) => Err(Void::SubjectEnded),
            (false, false) => Ok(()),
        };
        // If parking a tenant did not help, nobody says that it came too late.
        let leaked = window.parked.iter().map(|id| (*id, Why::Leaked));
        let refused = window.not_parked.iter().map(|(id, why)| (*id, Why::Refused(why.clone())));
        let why: BTreeMap<TenantId, Why> = leaked.chain(refused).collect();
        self.tried(seen, &ran, &why, counts.err());
        counts
    }

    /// Notes that no window was opened because a tenant had too much of the machine in `seen`, the window before; `parkable`: how many others
    /// could have been parked.
    pub fn not_dedicated(&mut self, seen: &Observation, in_the_way: &[InTheWay], parkable: usize) {
        self.found.skipped += 1;
        self.found.parked_somebody |= parkable > 0;
        let why = in_the_way.iter().map(|o| (o.tenant, Why::Refused(o.why.clone()))).collect();
        let ran: Vec<(TenantId, u64)> = in_the_way.iter().map(|o| (o.tenant, o.on_cpu_ns)).collect();
        let others_ns = ran.iter().map(|r| r.1).sum();
        self.tried(seen, &ran, &why, Some(Void::OthersRan(others_ns)));
    }

    fn tried(
        &mut self,
        seen: &Observation,
        ran: &[(TenantId, u64)],
        why: &BTreeMap<TenantId, Why>,
        void: Option<Void>,
    ) {
        self.last_ns = Some(seen.end_ns);
        self.tried += 1;
        let in_vain = matches!(void, Some(Void::OthersRan(_)));
        self.fruitless = match void {
            None => 0,
            Some(Void::OthersRan(_)) => self.fruitless + 1,
            // A subject that has ended needs no more.
            Some(Void::SubjectEnded) => self.fruitless,
        };
        let found = &mut self.found;
        found.counted += usize::from(void.is_none());
        found.given_up |= self.fruitless >= FRUITLESS;
        found.machine_ns += machine_ns(seen);
        found.in_vain_ns += if in_vain { machine_ns(seen) } else { 0.0 };
        for (id, ns) in ran.iter().filter(|r| r.1 > 0) {
            let Some(tenant) = seen.tenant(*id) else { continue };
            let new = || Other { tenant: tenant.clone(), on_cpu_ns: 0, in_vain_ns: 0, why: None };
            let other = found.others.entry(*id).or_insert_with(new);
            other.tenant = tenant.clone();
            other.on_cpu_ns += ns;
            other.in_vain_ns += if in_vain { *ns } else { 0 };
            other.why = why.get(id).cloned().or(other.why.take());
        }
    }

    /// The findings so far.
    pub fn found(&self) -> &Found {
        &self.found
    }
}

fn due(is_due: bool) -> Next {
    if is_due {
        Next::Open
    } else {
        Next::Watch
    }
}

/// The CPU time of the machine in a window, in nanoseconds.
fn machine_ns(seen: &Observation) -> f64 {
    seen.window_ns() as f64 * seen.cpus.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use corun_model::observation::{Account, CpuTime, TenantObservation};
    use corun_model::{CpuId, Ledger, Parts, TenantKind};

    const MS: u64 = 1_000_000;
    const SUBJECT: TenantId = TenantId(0);

    /// 40 ms on two CPUs that end then, in which a co-runner was on a CPU for so long.
    fn seen(end_ms: u64, ran_ms: u64) -> Observation {
        let parts = Parts { compute_ns: ran_ms * MS, ..Parts::default() };
        let account = Account { ledger: Ledger::new(parts, ran_ms * MS).unwrap(), ..Account::default() };
        let cpu =
            |n| CpuTime { cpu: CpuId(n), idle_ns: 0, busy_ns: 40 * MS, unknown_ns: 0, host_steal_ns: None };
        Observation {
            start_ns: (end_ms - 40) * MS,
            end_ns: end_ms * MS,
            tenants: vec![Tenant {
                id: TenantId(1),
                kind: TenantKind::Command,
                key: "pgid:7".into(),
                name: "hog".into(),
            }],
            by_tenant: vec![TenantObservation { id: TenantId(1), tasks: 1, account }],
            cpus: vec![cpu(0), cpu(1)],
            ..Observation::default()
        }
    }

    fn open(schedule: &mut Schedule, end_ms: u64, ran_ms: u64) -> Result<(), Void> {
        let seen = seen(end_ms, ran_ms);
        schedule.opened(&Taken {
            seen: &seen,
            parked: &[],
            not_parked: &[],
            parked_ns: 64 * MS,
            leaked_ns: 0,
            subject_ended: false,
        })
    }

    /// When windows are opened in a run of so long that is looked at every 10 ms, which begins at 1,000 ms.
    fn opened(run_ms: u64, mut wants: impl FnMut(u64) -> Option<WantsDedicated>) -> Vec<u64> {
        let mut schedule = Schedule::new(SUBJECT, 1_000 * MS);
        let mut at = Vec::new();
        for ms in (0..run_ms).step_by(10) {
            if schedule.next((1_000 + ms) * MS, wants(ms)) == Next::Open {
                at.push(ms);
                open(&mut schedule, 1_000 + ms, 0).unwrap();
            }
        }
        at
    }

    #[test]
    fn windows_lie_further_apart_as_the_run_gets_longer_and_never_further_than_four_seconds() {
        assert_eq!(opened(20_000, |_| None), [500, 750, 1_130, 2_260, 4_520, 8_520, 12_520, 16_520]);
        assert_eq!(opened(400, |_| None), [0u64; 0], "a run that is over before its beginning is");
    }

    #[test]
    fn a_change_of_behaviour_asks_for_one_at_once_but_only_after_the_first_three() {
        let changed = |since: u64, until: u64| {
            move |ms: u64| (since..until).contains(&ms).then_some(WantsDedicated::BehaviourChanged)
        };
        assert_eq!(
            opened(7_000, changed(5_000, 5_400)),
            [500, 750, 1_130, 2_260, 4_520, 5_000, 5_150, 5_300]
        );
        assert_eq!(opened(1_200, changed(0, 1_200)), [500, 750, 1_130]);
        assert_eq!(opened(1_200, |_| Some(WantsDedicated::TooFew)), [500, 750, 1_130]);
    }

    #[test]
    fn a_window_counts_if_others_had_little_of_it_and_the_subject_lived_to_its_end() {
        let mut schedule = Schedule::new(SUBJECT, 0);
        assert_eq!(open(&mut schedule, 500, 4), Ok(()));
        assert_eq!(open(&mut schedule, 750, 5), Err(Void::OthersRan(5 * MS)));
        let last = seen(900, 0);
        let taken = |subject_ended| Taken {
            seen: &last,
            parked: &[],
            not_parked: &[],
            parked_ns: 0,
            leaked_ns: 0,
            subject_ended,
        };
        assert_eq!(schedule.opened(&taken(true)), Err(Void::SubjectEnded));
        let found = schedule.found();
        assert_eq!((found.opened, found.counted, found.skipped), (3, 1, 0));
        let other = &found.others[&TenantId(1)];
        assert_eq!((other.on_cpu_ns, other.in_vain_ns), (9 * MS, 5 * MS));
    }

    #[test]
    fn three_in_a_row_that_do_not_count_are_the_last_and_a_good_one_between_begins_anew() {
        let mut schedule = Schedule::new(SUBJECT, 0);
        let now_ns = 100_000 * MS;
        for (at_ms, ran_ms) in [(500, 40), (501, 40), (502, 0), (503, 40), (504, 40)] {
            let _ = open(&mut schedule, at_ms, ran_ms);
            assert_eq!(schedule.next(now_ns, None), Next::Open, "after {at_ms}");
        }
        let before = seen(505, 40);
        let why = Refusal::NotInScope { tenant: "hog".into() };
        schedule.not_dedicated(&before, &[InTheWay { tenant: TenantId(1), why, on_cpu_ns: 40 * MS }], 0);
        assert_eq!(schedule.next(now_ns, Some(WantsDedicated::BehaviourChanged)), Next::GiveUp);
        assert_eq!((schedule.found().skipped, schedule.found().given_up), (1, true));
    }
}
