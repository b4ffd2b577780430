//! The output of `corun control`. Each epoch with decisions is a JSON line (`corun.control/1`), and each
//! decision a line for people. At the end there are a table, and a file of JSON, a page and a trace of all of
//! it.
//!
//! | file | does |
//! | --- | --- |
//! | `decided` | a decision and what came of it |
//! | `advice` | a width that a program was advised, and why |
//! | `history` | keeps what happened |
//! | `notices` | what is said before a policy begins |
//! | `conclusion` | what is said while it is at work, and at the end |
//! | `page`, `lanes` | the page, and its picture of who was parked when |
//! | `tracks` | the same in a trace for ui.perfetto.dev |
//! | `report` | the same as JSON (`corun.control-report/1`) |
//! | here | lines and the table |

pub mod advice;
mod because;
pub mod conclusion;
mod decided;
pub mod history;
mod lanes;
pub mod notices;
pub mod page;
pub mod report;
pub mod tracks;

use crate::energy;
use crate::json;
use crate::table::Table;
use crate::words::percent;
use corun_model::recording::lesser_half;
use corun_model::{Energy, Observation, TenantId, TenantKind, What, Why};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

use advice::Advice;
use decided::called;
pub use decided::Decided;

/// Name and version of the schema, the first field of every line.
pub const SCHEMA: &str = "corun.control/1";

/// One epoch.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ControlLine {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// Since the beginning, in nanoseconds.
    pub t_ns: u64,
    /// The policy's name.
    pub policy: String,
    /// `stock`, `sched_ext`; `none` in a dry run.
    pub backend: String,
    /// The decisions.
    pub decision: Vec<Decided>,
    /// Programs that share a page and were advised another width.
    pub advice: Vec<Advice>,
    /// The guard's statement; `None` if it is off.
    pub guard: Option<GuardLine>,
}

/// What the guard says.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GuardLine {
    /// `measuring`, `helps` or `reverted`.
    pub state: &'static str,
    /// The mean gain in useful time, once it is known.
    pub gain: Option<f64>,
    /// Complete pairs of periods so far.
    pub pairs: Option<usize>,
}

impl GuardLine {
    /// Its finding about a policy, as a sentence without its end; `None` while it measures.
    pub fn sentence(&self, policy: &str) -> Option<String> {
        let percent = self.gain? * 100.0;
        let of = "of useful time (geometric mean over tenants)";
        match self.state {
            "helps" if percent < 0.05 => Some(format!("{policy} helps, by less than 0.1 % {of}")),
            "helps" => Some(format!("{policy} helps, by {percent:.1} % {of}")),
            "reverted" => {
                let clearly = if percent < 0.0 { "" } else { "clearly " };
                Some(format!("{policy} did not {clearly}help ({percent:+.1} % {of}), so it was reverted"))
            }
            _ => None,
        }
    }
}

impl ControlLine {
    /// JSON on one line, with a newline at the end.
    pub fn json_line(&self) -> String {
        json::compact(self) + "\n"
    }
}

/// The most tenants that are listed separately. Beyond that, the half of the ended tenants that ran least is
/// summed.
const MOST_TENANTS: usize = 5_000;
/// A tenant that somebody else stops is named from this share of its time on, and at most this many are.
const HELD: f64 = 0.01;
const MOST_HELD: usize = 5;

/// The result for each tenant, over the whole time.
#[derive(Clone, Debug, Default)]
pub struct ControlSummary {
    tenants: BTreeMap<TenantId, Got>,
    /// The tenants beyond the number that is listed.
    others: Got,
    window_ns: u64,
    /// The machine's energy; `None` if there was no window yet.
    energy: Option<Energy>,
    /// Why not all of that is known.
    no_energy: Option<Why>,
}

/// The time of a tenant over the whole run: sums over its tasks, in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Got {
    /// What people call it.
    pub name: String,
    /// What no other is called.
    pub key: String,
    /// On a CPU.
    pub on_cpu_ns: u64,
    /// On a CPU and not known to spin.
    pub useful_ns: u64,
    /// On a CPU in windows in which spinning was distinguished from computing.
    pub judged_ns: u64,
    /// Of these, spinning.
    pub spin_ns: u64,
    /// Runnable, but something else held the CPU.
    pub steal_ns: u64,
    /// Stopped by its own quota.
    pub throttled_ns: u64,
    /// Stopped by corun.
    pub parked_ns: u64,
    /// Stopped or frozen by somebody else.
    pub held_ns: u64,
    /// All of its tasks' lives.
    pub life_ns: u64,
}

impl Got {
    /// Time when it was not blocked: on a CPU, or kept from one.
    pub fn wanted_ns(&self) -> u64 {
        self.on_cpu_ns + self.steal_ns + self.throttled_ns + self.parked_ns
    }

    /// Whether these are several tenants beyond the number that is listed.
    pub fn is_several(&self) -> bool {
        self.key == TenantKind::Others.name()
    }

    fn add(&mut self, more: &Got) {
        self.on_cpu_ns += more.on_cpu_ns;
        self.useful_ns += more.useful_ns;
        self.judged_ns += more.judged_ns;
        self.spin_ns += more.spin_ns;
        self.steal_ns += more.steal_ns;
        self.throttled_ns += more.throttled_ns;
        self.parked_ns += more.parked_ns;
        self.held_ns += more.held_ns;
        self.life_ns += more.life_ns;
    }
}

impl ControlSummary {
    /// The total duration, in nanoseconds.
    pub fn window_ns(&self) -> u64 {
        self.window_ns
    }

    /// The time of each tenant that ran at all, the one that ran most first.
    pub fn busiest(&self) -> Vec<&Got> {
        let mut all: Vec<&Got> =
            self.tenants.values().chain([&self.others]).filter(|s| s.on_cpu_ns > 0).collect();
        all.sort_by_key(|s| std::cmp::Reverse(s.on_cpu_ns));
        all
    }

    /// Adds an epoch; `counts` says which tenants are listed.
    pub fn push(&mut self, seen: &Observation, counts: impl Fn(&corun_model::Tenant) -> bool) {
        self.window_ns += seen.window_ns();
        self.energy = Some(self.energy.map_or(seen.energy, |sum| sum.plus(&seen.energy)));
        let why = || seen.unavailable.iter().find(|u| u.what == What::Energy).map(|u| u.why.clone());
        self.no_energy = self.no_energy.take().or_else(why);
        for t in &seen.by_tenant {
            let Some(tenant) = seen.tenant(t.id).filter(|t| counts(t)) else { continue };
            let parts = t.account.ledger.parts();
            let got = self.tenants.entry(t.id).or_default();
            got.name.clone_from(&tenant.name);
            got.key.clone_from(&tenant.key);
            got.add(&Got {
                on_cpu_ns: t.account.ledger.on_cpu_ns(),
                useful_ns: parts.compute_ns,
                judged_ns: parts.spin_ns.map_or(0, |spin_ns| parts.compute_ns + spin_ns),
                spin_ns: parts.spin_ns.unwrap_or(0),
                steal_ns: parts.steal_ns,
                throttled_ns: parts.throttled_ns,
                parked_ns: parts.parked_ns,
                held_ns: parts.held_ns(),
                life_ns: t.account.ledger.total_ns(),
                ..Got::default()
            });
        }
        if self.tenants.len() > MOST_TENANTS {
            self.fold(seen);
        }
    }

    /// Sums the half that ran least of those that a window does not have.
    fn fold(&mut self, seen: &Observation) {
        let here: BTreeSet<TenantId> = seen.by_tenant.iter().map(|t| t.id).collect();
        let gone = self.tenants.iter().filter(|(id, _)| !here.contains(id));
        for id in lesser_half(gone.map(|(id, got)| (got.on_cpu_ns, *id))) {
            if let Some(got) = self.tenants.remove(&id) {
                self.others.add(&got);
            }
        }
        let called = TenantKind::Others.name();
        (self.others.name, self.others.key) = (called.to_owned(), called.to_owned());
    }

    /// The machine's energy, or why it is unknown, as a sentence with its end.
    pub fn energy(&self) -> Option<String> {
        let written = self.energy.as_ref().and_then(|sum| energy::written(sum, self.window_ns, None));
        match (written.as_ref().and_then(energy::sentence), &self.no_energy) {
            (Some(took), _) => Some(format!("Energy of the machine: {took}.")),
            (None, Some(why)) => Some(format!("Energy of the machine: unavailable: {why}.")),
            (None, None) => None,
        }
    }

    /// For a terminal: who got how much.
    pub fn text(&self) -> String {
        let mut table = Table::new(&["tenant", ">CPUs", ">waited", ">parked"]);
        let cpus = |ns: u64| format!("{:.2}", ns as f64 / self.window_ns.max(1) as f64);
        let share = |ns: u64, of: u64| format!("{:.1} %", ns as f64 * 100.0 / of.max(1) as f64);
        let busiest = self.busiest();
        for s in busiest.iter().take(20) {
            let shares_name = busiest.iter().filter(|other| other.name == s.name).count() > 1;
            table.row([
                called(&s.name, Some(s.key.as_str()).filter(|_| shares_name)),
                cpus(s.on_cpu_ns),
                share(s.steal_ns, s.life_ns),
                share(s.parked_ns, s.life_ns),
            ]);
        }
        table.text() + &self.held().map_or(String::new(), |held| held + "\n")
    }

    /// The tenants that did not run because somebody else stopped or froze them, as a sentence with its end;
    /// `None` if there are none.
    fn held(&self) -> Option<String> {
        let is_held = |got: &&Got| got.held_ns as f64 >= HELD * got.life_ns.max(1) as f64;
        let mut held: Vec<&Got> = self.tenants.values().filter(is_held).collect();
        held.sort_by_key(|got| std::cmp::Reverse(got.held_ns));
        let of = |got: &&Got| format!("{} for {} % of its time", got.name, percent(got.held_ns, got.life_ns));
        let mut named: Vec<String> = held.iter().take(MOST_HELD).map(of).collect();
        if held.len() > MOST_HELD {
            named.push(format!("{} more", held.len() - MOST_HELD));
        }
        (!named.is_empty()).then(|| format!("Stopped or frozen, not by corun: {}.", named.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::decided::tests::{decision, seen};
    use super::*;
    use corun_model::observation::{Account, TenantObservation};
    use corun_model::{Action, Fate, Ledger, Outcome, Parts, Tenant};

    #[test]
    fn a_line_has_the_fields_of_the_contract() {
        let park = decision(Action::Park { tenant: TenantId(3) });
        let line = ControlLine {
            schema: SCHEMA,
            t_ns: 5,
            policy: "gang".into(),
            backend: "stock".into(),
            decision: vec![Decided::new(&park, &Fate::Applied(Outcome::Done), &seen())],
            advice: vec![advice::tests::advice()],
            guard: Some(GuardLine { state: "measuring", gain: None, pairs: Some(1) }),
        };
        let value: serde_json::Value = serde_json::from_str(&line.json_line()).unwrap();
        assert_eq!(value["schema"], "corun.control/1");
        assert_eq!(value["decision"][0]["tenant"], "ffmpeg");
        assert_eq!(value["decision"][0]["key"], "k");
        assert_eq!(value["decision"][0]["knob"], "park");
        assert_eq!(value["decision"][0]["value"], true);
        assert_eq!(value["decision"][0]["because"], "the dedicated window is over");
        assert_eq!(value["advice"][0]["tenant"], "ffmpeg");
        assert_eq!(value["advice"][0]["width"], 1);
        assert_eq!(value["guard"]["state"], "measuring");
        assert!(value["decision"][0].get("task").is_none());
    }

    #[test]
    fn the_guards_finding_is_a_sentence_about_the_policy() {
        let line = |state, gain| GuardLine { state, gain, pairs: None };
        let said = |state, gain| line(state, gain).sentence("gang");
        let of = "of useful time (geometric mean over tenants)";
        assert_eq!(said("helps", Some(0.123)), Some(format!("gang helps, by 12.3 % {of}")));
        let no = format!("gang did not help (-4.0 % {of}), so it was reverted");
        assert_eq!(said("reverted", Some(-0.04)), Some(no));
        assert_eq!(said("measuring", None), None);
    }

    #[test]
    fn two_tenants_with_one_name_are_shown_with_their_keys() {
        let mut summary = ControlSummary::default();
        let got = |key: &str| Got { name: "ffmpeg".into(), key: key.into(), on_cpu_ns: 1, ..Got::default() };
        summary.tenants = BTreeMap::from([(TenantId(3), got("k")), (TenantId(4), got("other"))]);
        assert!(summary.text().contains("ffmpeg (k)") && summary.text().contains("ffmpeg (other)"));
    }

    #[test]
    fn a_tenant_that_somebody_else_has_stopped_is_named() {
        let mut summary = ControlSummary::default();
        let got = |held_ns| Got { name: "hog".into(), held_ns, life_ns: 100, ..Got::default() };
        summary.tenants = BTreeMap::from([(TenantId(3), got(71)), (TenantId(4), got(0))]);
        let said = summary.text();
        assert!(said.ends_with("Stopped or frozen, not by corun: hog for 71 % of its time.\n"), "{said}");
        summary.tenants.remove(&TenantId(3));
        assert!(!summary.text().contains("Stopped"));
    }

    #[test]
    fn of_thirty_thousand_commands_those_that_ran_least_are_one_line_and_nothing_is_lost() {
        let mut summary = ControlSummary::default();
        for n in 0..300u32 {
            let mut window = Observation { end_ns: 10, ..Observation::default() };
            for i in n * 100..(n + 1) * 100 {
                let (id, ran_ns) = (TenantId(i), 1 + u64::from(i % 100));
                window.tenants.push(Tenant { id, key: i.to_string(), ..seen().tenants[0].clone() });
                let parts = Parts { compute_ns: ran_ns, ..Parts::default() };
                let account = Account { ledger: Ledger::new(parts, ran_ns).unwrap(), ..Account::default() };
                window.by_tenant.push(TenantObservation { id, tasks: 1, account });
            }
            summary.push(&window, |_| true);
        }
        let listed = summary.busiest();
        assert!(listed.len() <= MOST_TENANTS + 1, "{}", listed.len());
        assert_eq!(listed.iter().map(|got| got.on_cpu_ns).sum::<u64>(), 300 * (1..=100).sum::<u64>());
        assert_eq!((listed[0].name.as_str(), listed[1].on_cpu_ns), ("others", 100));
    }
}
