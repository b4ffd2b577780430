//! The events under a policy, kept for its report: who was parked when, what was decided and why, periods
//! with and without the policy, and what was undone.
//!
//! A policy with slots of 50 ms decides forty times a second, always for the same two reasons. So decisions
//! with one reason are one entry as long as they come without a pause. A different slot number does not make
//! a different reason, nor do different figures in decisions about single tasks. Every list is bounded, and
//! whatever does not fit is counted.

use super::advice::Advice;
use super::because::{because, kept};
use super::Decided;
use crate::words::{count, name};
use corun_model::reason::{Kept, Release, Rule};
use corun_model::recording::lesser_half;
use corun_model::{Action, Decision, Fate, Observation, Outcome, Reason as Cause, Tenant, TenantId};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// The most parked stretches that are kept, over all tenants: 16 MB.
const MOST_STOPS: usize = 1_000_000;
/// The most entries of every other list.
const MOST_ENTRIES: usize = 1_000;
/// The reasons shown on a terminal, the most frequent ones.
const TOLD: usize = 8;
/// A reason that returns after this long is a new entry, in nanoseconds.
const PAUSE_NS: u64 = 2_000_000_000;

/// Decisions for one reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Reason {
    /// The first of them, in nanoseconds since the beginning.
    pub from_ns: u64,
    /// The last of them.
    pub to_ns: u64,
    /// The action: `park`, `let go`, or the knob.
    pub what: &'static str,
    /// The target; empty for decisions about single tasks.
    pub whom: BTreeSet<String>,
    /// Their keys: names may be shared.
    pub whom_keys: BTreeSet<String>,
    /// The same, by number.
    #[serde(skip)]
    pub who: BTreeSet<TenantId>,
    /// Why, as it was said last.
    pub because: String,
    /// What came of it.
    pub outcome: String,
    /// The same as a fact.
    #[serde(skip)]
    pub fate: Fate,
    /// How often it was decided.
    pub times: u64,
    #[serde(skip)]
    key: Cause,
}

impl Reason {
    /// The outcome, if it was not simply done.
    pub fn not_done(&self) -> Option<&str> {
        (self.fate != Fate::Applied(Outcome::Done)).then_some(&*self.outcome)
    }
}

/// A width that became another.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AdvisedAt {
    /// When, in nanoseconds since the beginning.
    pub at_ns: u64,
    /// The advice from then on.
    #[serde(flatten)]
    pub advice: Advice,
}

/// A stretch of time in which the policy was in force, or was not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Period {
    /// When it began, in nanoseconds since the beginning.
    pub from_ns: u64,
    /// When it ended.
    pub to_ns: u64,
    /// Whether the policy was in force.
    pub with: bool,
    /// Useful CPU time of every covered tenant: on a CPU and not known to spin.
    pub useful_ns: BTreeMap<TenantId, u64>,
    /// That of the tenants that did least, beyond the number that is listed.
    pub others_ns: u64,
    /// The energy of the machine's packages, in microjoules; `None` if some window of it does not have it.
    pub package_uj: Option<u64>,
}

impl Period {
    /// Useful CPU time of all covered tenants together.
    pub fn all_useful_ns(&self) -> u64 {
        self.others_ns + self.useful_ns.values().sum::<u64>()
    }

    /// Sums the half that did least if there are too many.
    fn fold(&mut self) {
        if self.useful_ns.len() <= MOST_ENTRIES {
            return;
        }
        for id in lesser_half(self.useful_ns.iter().map(|(id, ns)| (*ns, *id))) {
            self.others_ns += self.useful_ns.remove(&id).unwrap_or(0);
        }
    }
}

/// An instant at which everything was undone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Undone {
    /// When, in nanoseconds since the beginning.
    pub at_ns: u64,
    /// Why: the guard, or the end.
    pub why: &'static str,
    /// The tenants that were parked until then.
    pub released: BTreeSet<TenantId>,
    /// Tasks and tenants with other undone changes.
    pub changed: usize,
    /// What stayed changed, and why.
    pub failed: Option<String>,
}

/// Everything that happened.
#[derive(Clone, Debug, Default)]
pub struct History {
    begin_ns: u64,
    end_ns: u64,
    stops: BTreeMap<TenantId, Vec<(u64, u64)>>,
    stops_kept: usize,
    parked: BTreeMap<TenantId, u64>,
    changed: BTreeSet<(Option<TenantId>, Option<u32>)>,
    /// Whether anything was ever changed of anybody.
    has_changed: bool,
    reasons: Vec<Reason>,
    advice: Vec<AdvisedAt>,
    periods: Vec<Period>,
    /// For the current period: whether the policy is in force, and whether it found room.
    present: Option<(bool, bool)>,
    undone: Vec<Undone>,
    left_out: u64,
}

impl History {
    /// Nothing has happened yet. `begin_ns` is the host's clock.
    pub fn new(begin_ns: u64) -> History {
        History { begin_ns, ..History::default() }
    }

    /// Adds a window during which the policy was, or was not, in force; `covers` says which tenants it may
    /// touch.
    pub fn window(&mut self, seen: &Observation, with: bool, covers: impl Fn(&Tenant) -> bool) {
        let (from_ns, to_ns) = (self.since(seen.start_ns), self.since(seen.end_ns));
        self.end_ns = self.end_ns.max(to_ns);
        if self.present.is_none_or(|(present, _)| present != with) {
            let has_room = self.periods.len() < MOST_ENTRIES;
            self.present = Some((with, has_room));
            match has_room {
                true => {
                    let package_uj = Some(0);
                    self.periods.push(Period { from_ns, with, package_uj, ..Period::default() });
                }
                false => self.left_out += 1,
            }
        }
        let (Some((_, true)), Some(period)) = (self.present, self.periods.last_mut()) else { return };
        period.to_ns = to_ns;
        period.package_uj = period.package_uj.zip(seen.energy.package_uj).map(|(sum, more)| sum + more);
        let covered: BTreeSet<TenantId> = seen.tenants.iter().filter(|t| covers(t)).map(|t| t.id).collect();
        for t in seen.by_tenant.iter().filter(|t| covered.contains(&t.id)) {
            *period.useful_ns.entry(t.id).or_default() += t.account.ledger.parts().compute_ns;
        }
        period.fold();
    }

    /// Adds a decision at a time of the host's clock, with its outcome.
    pub fn decided(&mut self, at_ns: u64, decision: &Decision, decided: &Decided) {
        let at_ns = self.since(at_ns);
        self.end_ns = self.end_ns.max(at_ns);
        let took_effect = matches!(decided.fate, Fate::Applied(Outcome::Done) | Fate::DryRun);
        self.has_changed |= decided.fate.is_change(&decision.action);
        match decision.action {
            Action::Park { tenant } if took_effect => drop(self.parked.entry(tenant).or_insert(at_ns)),
            Action::Unpark { tenant } => self.runs_again(tenant, at_ns),
            Action::Weight { tenant, .. } if took_effect => drop(self.changed.insert((Some(tenant), None))),
            _ if took_effect => drop(self.changed.insert((None, decided.task))),
            _ => {}
        }
        self.note_reason(at_ns, decision, decided);
    }

    /// Records that a program was advised another width, at a time of the host's clock.
    pub fn advised(&mut self, at_ns: u64, advice: Advice) {
        let at_ns = self.since(at_ns);
        match self.advice.len() < MOST_ENTRIES {
            true => self.advice.push(AdvisedAt { at_ns, advice }),
            false => self.left_out += 1,
        }
    }

    /// Records that everything was undone, at a time of the host's clock.
    pub fn undone(&mut self, at_ns: u64, why: &'static str, failed: Option<String>) {
        let at_ns = self.since(at_ns);
        self.end_ns = self.end_ns.max(at_ns);
        let released: BTreeSet<TenantId> = self.parked.keys().copied().collect();
        released.iter().for_each(|&tenant| self.runs_again(tenant, at_ns));
        let changed = std::mem::take(&mut self.changed).len();
        if self.undone.len() == MOST_ENTRIES {
            self.left_out += 1;
            return;
        }
        self.undone.push(Undone { at_ns, why, released, changed, failed });
    }

    /// For a terminal: how often each decision was made, why, and its outcome. `explained`: whether every
    /// decision was shown.
    pub fn text(&self, explained: bool) -> String {
        let mut all: BTreeMap<(&str, &str, Option<&str>), u64> = BTreeMap::new();
        for r in &self.reasons {
            *all.entry((r.what, &r.because, r.not_done())).or_default() += r.times;
        }
        let mut all: Vec<_> = all.into_iter().collect();
        all.sort_by_key(|(told, times)| (std::cmp::Reverse(*times), *told));
        let mut out = String::new();
        for ((what, because, outcome), times) in all.iter().take(TOLD) {
            let outcome = outcome.map_or_else(String::new, |outcome| format!(" ({outcome})"));
            let told = name(&format!("{what}: {because}{outcome}"), usize::MAX);
            out += &format!("{times:>8} × {told}\n");
        }
        if all.len() > TOLD {
            let more = count((all.len() - TOLD) as u64, "more reason");
            let where_else = if explained { "" } else { "; --explain shows every decision" };
            out += &format!("           and {more}{where_else}\n");
        }
        out
    }

    fn since(&self, clock_ns: u64) -> u64 {
        clock_ns.saturating_sub(self.begin_ns)
    }

    fn runs_again(&mut self, tenant: TenantId, at_ns: u64) {
        let Some(from_ns) = self.parked.remove(&tenant) else { return };
        if self.stops_kept == MOST_STOPS {
            self.left_out += 1;
            return;
        }
        self.stops_kept += 1;
        self.stops.entry(tenant).or_default().push((from_ns, at_ns));
    }

    fn note_reason(&mut self, at_ns: u64, decision: &Decision, decided: &Decided) {
        let what = match decision.action {
            Action::Park { .. } => "park",
            Action::Unpark { .. } => "let go",
            _ => decided.knob,
        };
        let key = decision.because.kind();
        // The figures of a task are shown, those of the last one; the slot number is not.
        let because = decided.task.map_or_else(|| because(&key), |_| decided.because.clone());
        let is_it = |r: &Reason| {
            r.what == what && r.key == key && r.fate == decided.fate && at_ns <= r.to_ns + PAUSE_NS
        };
        // A stretch that still goes on is near the end.
        let recent = self.reasons.len().saturating_sub(100);
        let known = self.reasons[recent..].iter().position(is_it).map(|at| recent + at);
        if known.is_none() && self.reasons.len() == MOST_ENTRIES {
            self.left_out += 1;
            return;
        }
        let at = known.unwrap_or_else(|| {
            self.reasons.push(Reason {
                from_ns: at_ns,
                to_ns: at_ns,
                what,
                whom: BTreeSet::new(),
                whom_keys: BTreeSet::new(),
                who: BTreeSet::new(),
                because: String::new(),
                outcome: decided.outcome.clone(),
                fate: decided.fate.clone(),
                times: 0,
                key,
            });
            self.reasons.len() - 1
        });
        let reason = &mut self.reasons[at];
        (reason.to_ns, reason.because) = (at_ns, because);
        reason.times += 1;
        if let Action::Park { tenant } | Action::Unpark { tenant } | Action::Weight { tenant, .. } =
            decision.action
        {
            reason.who.insert(tenant);
            reason.whom.extend(decided.tenant.clone());
            reason.whom_keys.extend(decided.key.clone());
        }
    }

    /// Its total duration, in nanoseconds.
    pub fn length_ns(&self) -> u64 {
        self.end_ns
    }

    /// When it began, on the host's clock.
    pub fn begin_ns(&self) -> u64 {
        self.begin_ns
    }

    /// The tenants that the policy may touch, as far as they were seen and listed.
    pub fn covered(&self) -> BTreeSet<TenantId> {
        self.periods.iter().flat_map(|p| p.useful_ns.keys()).copied().collect()
    }

    /// When each tenant was parked, in nanoseconds since the beginning; a tenant that is still parked is so
    /// until the end.
    pub fn stops(&self, tenant: TenantId) -> impl Iterator<Item = (u64, u64)> + '_ {
        let open = self.parked.get(&tenant).map(|&from_ns| (from_ns, self.end_ns));
        self.stops.get(&tenant).into_iter().flatten().copied().chain(open)
    }

    /// Every tenant that was ever parked.
    pub fn ever_parked(&self) -> BTreeSet<TenantId> {
        self.stops.keys().chain(self.parked.keys()).copied().collect()
    }

    /// How long a tenant was parked between two times.
    pub fn parked_ns(&self, tenant: TenantId, from_ns: u64, to_ns: u64) -> u64 {
        self.stops(tenant).map(|(from, to)| to.min(to_ns).saturating_sub(from.max(from_ns))).sum()
    }

    /// The decisions and their reasons, in the order of their first occurrence.
    pub fn reasons(&self) -> &[Reason] {
        &self.reasons
    }

    /// The advice, in the order of time.
    pub fn advice(&self) -> &[AdvisedAt] {
        &self.advice
    }

    /// Alternating periods with and without the policy.
    pub fn periods(&self) -> &[Period] {
        &self.periods
    }

    /// The number of decisions, for any reason.
    pub fn decisions(&self) -> u64 {
        self.reasons.iter().map(|r| r.times).sum()
    }

    /// The last finding of a policy that measures its own effect: a clause that begins with a verb. `None` if
    /// it has measured nothing.
    pub fn own_finding(&self) -> Option<String> {
        let done = self.reasons.iter().filter(|r| r.fate == Fate::Applied(Outcome::Done));
        let found = done.filter_map(|r| Some((r.to_ns, own_finding(r)?)));
        Some(found.max_by_key(|(to_ns, _)| *to_ns)?.1)
    }

    /// How long the policy was in force, in nanoseconds, as far as its periods found room.
    pub fn in_force_ns(&self) -> u64 {
        self.periods.iter().filter(|p| p.with).map(|p| p.to_ns - p.from_ns).sum()
    }

    /// The energy of the machine's packages per second of useful CPU time of the covered tenants, in joules,
    /// while the policy was in force, or while it was not. `None` if there was no such time, or not all of it
    /// is known.
    pub fn joules_per_useful_s(&self, with: bool) -> Option<f64> {
        let periods = || self.periods.iter().filter(|p| p.with == with);
        let package_uj = periods().map(|p| p.package_uj).sum::<Option<u64>>()?;
        let useful_ns: u64 = periods().map(Period::all_useful_ns).sum();
        (useful_ns > 0).then(|| package_uj as f64 * 1e3 / useful_ns as f64)
    }

    /// When everything was undone.
    pub fn all_undone(&self) -> &[Undone] {
        &self.undone
    }

    /// Whether anything was ever changed of anybody; in a dry run nothing is.
    pub fn has_changed(&self) -> bool {
        self.has_changed
    }

    /// Entries that found no room.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }
}

/// A reason's statement about whether the policy helps.
fn own_finding(reason: &Reason) -> Option<String> {
    let because = &reason.because;
    Some(match &reason.key {
        Cause::Slot { rule: Rule::Kept(Kept::Free), .. } => {
            "lets tenants take turns; whether that helps cannot be seen here".into()
        }
        Cause::Slot { rule: Rule::Kept(why), .. } => format!("helps: {}", kept(why)),
        Cause::Slot { rule: Rule::Tried { .. }, .. } => {
            "tried slots; too little was seen to tell whether they help".into()
        }
        Cause::Release(Release::HelpNobody { .. } | Release::NotSure { .. } | Release::LeavesLess { .. }) => {
            format!("let everybody run in the end: {because}")
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use corun_model::observation::{Account, TenantObservation};
    use corun_model::reason::{Kept, Rule, SlotPart};
    use corun_model::{Ledger, Parts, Refusal, TaskId, TenantKind};

    fn seen(start_ns: u64, end_ns: u64) -> Observation {
        let tenant = |id, name: &str| Tenant {
            id: TenantId(id),
            kind: TenantKind::Command,
            key: name.into(),
            name: name.into(),
        };
        let tenants = vec![tenant(1, "solver"), tenant(2, "loop")];
        let ran = |t: &Tenant| TenantObservation { id: t.id, tasks: 1, account: Account::default() };
        let by_tenant = tenants.iter().map(ran).collect();
        Observation { start_ns, end_ns, tenants, by_tenant, ..Observation::default() }
    }

    fn decide(history: &mut History, at_ns: u64, action: Action, because: Cause, outcome: &Outcome) {
        let decision = Decision { action, because };
        let decided = Decided::new(&decision, &Fate::Applied(outcome.clone()), &seen(0, at_ns));
        history.decided(at_ns, &decision, &decided);
    }

    fn waits() -> Cause {
        Cause::Slot { number: Some(1), part: SlotPart::Waits, rule: Rule::Single }
    }

    #[test]
    fn alternating_slots_are_one_reason_and_every_parked_stretch_is_kept() {
        let mut history = History::new(1_000);
        let tenant = TenantId(2);
        for slot in 0..5 {
            let at_ns = 1_000 + slot * 100;
            let of = |part| {
                let rule = Rule::Kept(Kept::More { who: "solver".into(), times_percent: 971 });
                Cause::Slot { number: Some(slot), part, rule }
            };
            decide(&mut history, at_ns, Action::Park { tenant }, of(SlotPart::Waits), &Outcome::Done);
            decide(&mut history, at_ns + 50, Action::Unpark { tenant }, of(SlotPart::Runs), &Outcome::Done);
        }
        let told: Vec<(&str, &str, u64)> =
            history.reasons().iter().map(|r| (r.what, r.because.as_str(), r.times)).collect();
        let kept = "kept, since solver does 9.71 times as much as without slots";
        let (waits, runs) = (format!("skips a slot: {kept}"), format!("a slot: {kept}"));
        assert_eq!(told, [("park", waits.as_str(), 5), ("let go", runs.as_str(), 5)]);
        assert_eq!(history.text(false), format!("       5 × let go: {runs}\n       5 × park: {waits}\n"));
        assert_eq!(history.stops(tenant).nth(1), Some((100, 150)));
        assert_eq!(history.parked_ns(tenant, 25, 125), 25 + 25);
    }

    #[test]
    fn a_refused_decision_parks_nobody_and_a_pause_makes_a_new_entry() {
        let mut history = History::new(0);
        let park = || Action::Park { tenant: TenantId(1) };
        let refused = Outcome::from(Refusal::NobodyLeft);
        decide(&mut history, 5, park(), waits(), &refused);
        decide(&mut history, 6 + PAUSE_NS, park(), waits(), &refused);
        assert!(history.ever_parked().is_empty());
        assert_eq!(history.reasons().iter().map(|r| r.times).collect::<Vec<_>>(), [1, 1]);
    }

    #[test]
    fn reasons_beyond_the_list_are_counted_and_a_reader_who_saw_every_decision_is_not_sent_to_it() {
        let mut history = History::new(0);
        for reason in 0..=TOLD as u64 {
            let why = Cause::DedicatedWindow { of: reason.to_string() };
            decide(&mut history, reason, Action::Park { tenant: TenantId(2) }, why, &Outcome::Done);
        }
        assert!(history.text(false).ends_with("and 1 more reason; --explain shows every decision\n"));
        assert!(history.text(true).ends_with("and 1 more reason\n"), "{}", history.text(true));
    }

    #[test]
    fn only_an_executed_action_with_an_effect_counts_as_a_change() {
        let mut history = History::new(0);
        let (tenant, task) = (TenantId(2), TaskId(7));
        let refused = Outcome::from(Refusal::NobodyLeft);
        decide(&mut history, 1, Action::Park { tenant }, waits(), &refused);
        decide(&mut history, 2, Action::Unpark { tenant }, waits(), &Outcome::Done);
        decide(
            &mut history,
            3,
            Action::PreemptDelay { task, delay_ns: 0 },
            Cause::NewTaskSlices,
            &Outcome::Done,
        );
        let dry = Decision { action: Action::Park { tenant }, because: waits() };
        history.decided(4, &dry, &Decided::new(&dry, &Fate::DryRun, &seen(0, 4)));
        assert!(!history.has_changed());
        decide(&mut history, 5, Action::Park { tenant }, waits(), &Outcome::Done);
        assert!(history.has_changed());
    }

    #[test]
    fn a_period_in_which_thousands_of_commands_end_lists_the_busiest_and_sums_all() {
        let mut history = History::new(0);
        for n in 0..100u32 {
            let mut window = Observation { end_ns: u64::from(n) + 1, ..Observation::default() };
            for i in n * 100..(n + 1) * 100 {
                let id = TenantId(i);
                let (key, name) = (i.to_string(), "cc1".to_owned());
                window.tenants.push(Tenant { id, kind: TenantKind::Command, key, name });
                let parts = Parts { compute_ns: u64::from(i), ..Parts::default() };
                let account =
                    Account { ledger: Ledger::new(parts, u64::from(i)).unwrap(), ..Account::default() };
                window.by_tenant.push(TenantObservation { id, tasks: 1, account });
            }
            history.window(&window, true, |_| true);
        }
        let period = &history.periods()[0];
        assert!(period.useful_ns.len() <= MOST_ENTRIES, "{}", period.useful_ns.len());
        assert_eq!(period.all_useful_ns(), (0..10_000u64).sum::<u64>());
        assert!(history.covered().contains(&TenantId(9_999)));
    }

    #[test]
    fn a_period_without_room_is_counted_once_and_is_not_reported_as_a_part_of_another() {
        let mut history = History::new(0);
        let most = MOST_ENTRIES as u64;
        for period in 0..most + 5 {
            for window in 0..2 {
                let at_ns = period * 20 + window * 10;
                history.window(&seen(at_ns, at_ns + 10), period % 2 == 1, |_| true);
            }
        }
        let last = history.periods().last().unwrap();
        assert_eq!((last.from_ns, last.to_ns), ((most - 1) * 20, most * 20));
        assert_eq!((history.periods().len(), history.left_out()), (MOST_ENTRIES, 5));
    }

    #[test]
    fn advice_is_kept_with_its_time_and_the_rest_is_counted() {
        let mut history = History::new(10);
        let advice = super::super::advice::tests::advice();
        for at_ns in 0..MOST_ENTRIES as u64 + 3 {
            history.advised(20 + at_ns, advice.clone());
        }
        assert_eq!((history.advice().len(), history.left_out()), (MOST_ENTRIES, 3));
        let first = serde_json::to_value(&history.advice()[0]).unwrap();
        assert_eq!((&first["at_ns"], &first["width"]), (&10.into(), &1.into()), "{first}");
    }

    #[test]
    fn undoing_releases_parked_tenants_and_counts_other_changes() {
        let mut history = History::new(0);
        decide(&mut history, 10, Action::Park { tenant: TenantId(2) }, waits(), &Outcome::Done);
        for tid in [7, 8, 7] {
            let slice = Action::Slice { task: TaskId(tid), min_ns: 1, max_ns: 2 };
            decide(&mut history, 20, slice, Cause::NewTaskSlices, &Outcome::Done);
        }
        history.undone(40, "the end", None);
        let undone = &history.all_undone()[0];
        assert_eq!((undone.released.len(), undone.changed), (1, 2));
        assert_eq!(history.stops(TenantId(2)).collect::<Vec<_>>(), [(10, 40)]);
        assert_eq!(history.reasons()[1].times, 3, "decisions about single tasks are told together");
    }

    #[test]
    fn energy_is_reported_per_useful_time_with_and_without_the_policy_and_never_in_part() {
        let mut history = History::new(0);
        let window = |at_ns: u64, package_uj| {
            let mut seen = seen(at_ns, at_ns + 10);
            let parts = Parts { compute_ns: 7, ..Parts::default() };
            seen.by_tenant.iter_mut().for_each(|t| t.account.ledger = Ledger::new(parts, 7).unwrap());
            seen.energy.package_uj = package_uj;
            seen
        };
        for (at_ns, with, package_uj) in [(0, false, Some(3)), (10, false, Some(5)), (20, true, Some(4))] {
            history.window(&window(at_ns, package_uj), with, |t| t.name == "loop");
        }
        assert_eq!(history.joules_per_useful_s(true), Some(4e3 / 7.0));
        assert_eq!(history.joules_per_useful_s(false), Some(8e3 / 14.0));
        history.window(&window(30, None), true, |t| t.name == "loop");
        assert_eq!(history.joules_per_useful_s(true), None);
        assert!(history.joules_per_useful_s(false).is_some());
    }

    #[test]
    fn periods_with_and_without_follow_each_other() {
        let mut history = History::new(0);
        for (at_ns, with) in [(0, false), (10, false), (20, true), (30, false)] {
            history.window(&seen(at_ns, at_ns + 10), with, |t| t.name == "loop");
        }
        let told: Vec<(u64, u64, bool)> =
            history.periods().iter().map(|p| (p.from_ns, p.to_ns, p.with)).collect();
        assert_eq!(told, [(0, 20, false), (20, 30, true), (30, 40, false)]);
        assert_eq!(history.covered().into_iter().collect::<Vec<_>>(), [TenantId(2)]);
    }
}
