//! The page of a run under a policy: self-contained, escaped, and with all events.

use crate::example::{meta, timeline, whole, COMPILER, HOSTILE, POSTGRES, SUBJECT};
use corun_model::reason::{Rule, SlotPart};
use corun_model::{Action, Decision, Fate, Observation, Outcome, Reason, TaskId, TenantId};
use corun_report::control::history::History;
use corun_report::control::page::{render, Controlled};
use corun_report::control::report::ControlReport;
use corun_report::control::{ControlSummary, Decided, GuardLine};
use corun_report::{ProfileReport, Subject};

const MS: u64 = 1_000_000;

/// The example's ten seconds under a policy that is in force every other second and parks in turns.
fn happened() -> (History, ControlSummary) {
    happened_in(&timeline())
}

fn happened_in(slots: &[Observation]) -> (History, ControlSummary) {
    let begin_ns = slots[0].start_ns;
    let (mut history, mut summary) = (History::new(begin_ns), ControlSummary::default());
    let covered = [SUBJECT, POSTGRES, COMPILER, HOSTILE];
    for (i, slot) in slots.iter().enumerate() {
        let with = i % 8 >= 4;
        history.window(slot, with, |t| covered.contains(&t.id));
        summary.push(slot, |t| covered.contains(&t.id));
        if !with {
            history.undone(slot.end_ns, "the guard", None);
            continue;
        }
        for turn in 0..4u64 {
            let at_ns = slot.start_ns + turn * 50 * MS;
            let (stop, go) = if turn % 2 == 0 { (POSTGRES, HOSTILE) } else { (HOSTILE, POSTGRES) };
            for action in [Action::Park { tenant: stop }, Action::Unpark { tenant: go }] {
                let (part, rule) = (SlotPart::Runs, Rule::Tried { who: Some("<by>".into()), percent: 19 });
                let decision = Decision { action, because: Reason::Slot { number: Some(turn), part, rule } };
                let decided = Decided::new(&decision, &Fate::Applied(Outcome::Done), slot);
                history.decided(at_ns, &decision, &decided);
            }
        }
    }
    history.undone(slots.last().unwrap().end_ns, "the end", Some("`thaw /x`: <no>".into()));
    (history, summary)
}

fn page(guard: Option<GuardLine>) -> String {
    let (history, summary) = happened();
    let slots = timeline();
    let profile = ProfileReport::new(&meta(), &whole(&slots), Subject::All, &slots);
    let (history, summary) = (&history, &summary);
    render(&Controlled { policy: "gang", backend: "stock", guard, history, summary }, &profile)
}

#[test]
fn the_page_needs_nothing_but_itself_and_a_name_stays_a_name() {
    let page = page(None);
    for outside in ["http:", "https:", "src=", "href=", "@import", "url(", "<script"] {
        assert!(!page.contains(outside), "{outside}");
    }
    assert!(page.contains("default-src 'none'"));
    for escaped in ["&lt;script&gt;alert(1)", "a slot: on trial; &lt;by&gt; has", "&lt;no&gt;"] {
        assert!(page.contains(escaped), "{escaped}");
    }
    assert_eq!(page, self::page(None), "the same input gives the same page");
}

#[test]
fn it_shows_who_was_parked_when_the_decisions_the_gain_and_what_was_undone() {
    let page = page(Some(GuardLine { state: "helps", gain: Some(0.36), pairs: None }));
    assert!(page.contains("gang helps, by 36.0\u{a0}% of useful time (geometric mean over tenants)"));
    for heading in [
        "Who was parked when",
        "A closer look",
        "Who held the CPUs",
        "With and without the policy",
        "What was decided, and why",
        "Who got how much",
        "What was undone",
    ] {
        assert!(page.contains(heading), "{heading}");
    }
    let lanes = page.split("<h2>").find(|s| s.starts_with("Who was parked when")).unwrap();
    // Four turns in each of the twenty slots, one fewer if the last one goes on into the next slot.
    assert!(lanes.matches("<title>parked").count() > 40, "{lanes}");
    let decided = page.split("<h2>").find(|s| s.starts_with("What was decided")).unwrap();
    // Four turns in each of the twenty slots with the policy.
    assert!(decided.contains("<td class=\"n\">80</td>"), "{decided}");
    let periods = page.split("<h2>").find(|s| s.starts_with("With and without")).unwrap();
    assert_eq!(periods.matches("<td>with</td>").count(), 5, "{periods}");
}

#[test]
fn a_policy_that_did_not_help_has_the_same_sentence_as_on_a_terminal() {
    let guard = GuardLine { state: "reverted", gain: Some(0.004), pairs: None };
    let said = guard.sentence("gang").unwrap();
    assert!(page(Some(guard)).contains(&said.replace(" %", "\u{a0}%")), "{said}");
}

#[test]
fn a_dry_run_parks_nobody_on_the_page() {
    let slots = timeline();
    let profile = ProfileReport::new(&meta(), &whole(&slots), Subject::All, &slots);
    let (mut history, summary) = (History::new(slots[0].start_ns), ControlSummary::default());
    let rule = Rule::Tried { who: Some("it".into()), percent: 19 };
    let slot = Reason::Slot { number: Some(1), part: SlotPart::Waits, rule };
    let action = Action::Park { tenant: POSTGRES };
    let decision = Decision { action, because: Reason::WouldTry(Box::new(slot)) };
    let decided = Decided::new(&decision, &Fate::Proposed, &slots[0]);
    history.decided(slots[0].start_ns, &decision, &decided);
    let (history, summary) = (&history, &summary);
    let controlled = Controlled { policy: "auto", backend: "none", guard: None, history, summary };
    let page = render(&controlled, &profile);
    assert!(page.contains("auto would have tried slots; only a real run shows whether they help"), "{page}");
    assert!(page.contains("would try slots: it has 19") && !page.contains("Who was parked when"), "{page}");
}

#[test]
fn tenants_with_one_name_are_distinguished_by_their_keys_on_the_page_and_in_the_report() {
    let namesakes = |seen: &mut Observation| {
        let of_hostile = seen.tenants.iter_mut().filter(|t| t.id == HOSTILE);
        of_hostile.for_each(|t| t.name = "postgresql.service".into());
    };
    let mut slots = timeline();
    slots.iter_mut().for_each(namesakes);
    let (history, summary) = happened_in(&slots);
    let mut seen = whole(&slots);
    namesakes(&mut seen);
    let profile = ProfileReport::new(&meta(), &seen, Subject::All, &slots);
    let controlled =
        Controlled { policy: "gang", backend: "stock", guard: None, history: &history, summary: &summary };
    let keys = ["/system.slice/postgresql.service", "pgrp:666"];
    let page = render(&controlled, &profile);
    let decided = page.split("<h2>").find(|s| s.starts_with("What was decided")).unwrap();
    for key in ["/system.slice/postgresql.service", "pgrp 666"] {
        assert!(decided.contains(&format!("postgresql.service ({key})")), "{decided}");
        assert!(summary.text().contains(&format!("postgresql.service ({key})")), "{}", summary.text());
    }
    assert!(!page.contains("postgresql.service #"), "{page}");
    let report: serde_json::Value =
        serde_json::from_str(&ControlReport::new(&controlled, &profile).json()).unwrap();
    let reason = &report["reasons"][0];
    assert_eq!(reason["whom"], serde_json::json!(["postgresql.service"]), "{reason}");
    assert_eq!(reason["whom_keys"], serde_json::json!(keys), "{reason}");
    let undone = report["undone"].as_array().unwrap();
    let released = undone.iter().find(|u| u["released"] != serde_json::json!([])).unwrap();
    assert_eq!(released["released_keys"], serde_json::json!(["pgrp:666"]), "{released}");
}

#[test]
fn entries_without_room_and_other_undone_changes_are_given_as_numbers() {
    let slots = timeline();
    let profile = ProfileReport::new(&meta(), &whole(&slots), Subject::All, &slots);
    let (mut history, summary) = (History::new(slots[0].start_ns), ControlSummary::default());
    for (i, task) in (0..2_010u32).map(|n| (u64::from(n), TaskId(n % 2))) {
        let because = match i {
            0..10 => Reason::NewTaskSlices,
            _ => Reason::DedicatedWindow { of: i.to_string() },
        };
        let decision = Decision { action: Action::PreemptDelay { task, delay_ns: i }, because };
        let decided = Decided::new(&decision, &Fate::Applied(Outcome::Done), &slots[0]);
        history.decided(slots[0].start_ns + i, &decision, &decided);
    }
    history.undone(slots[0].end_ns, "the end", None);
    let (history, summary) = (&history, &summary);
    let page =
        render(&Controlled { policy: "gang", backend: "stock", guard: None, history, summary }, &profile);
    assert_eq!(history.left_out(), 1_001);
    assert!(page.contains("Here and above there was no room for 1,001 more."));
    assert!(page.contains("nobody was parked; other knobs put back: 2<"));
}

#[test]
fn a_policy_that_did_nothing_has_a_page_too() {
    let slots = timeline();
    let profile = ProfileReport::new(&meta(), &whole(&slots), Subject::All, &slots);
    let (history, summary) = (&History::new(0), &ControlSummary::default());
    let controlled = Controlled { policy: "observe", backend: "none", guard: None, history, summary };
    let page = render(&controlled, &profile);
    assert!(page.contains("observe would have changed nothing"));
    assert!(!page.contains("Who was parked when") && page.contains("A dry run: nothing was changed"));
    assert!(history.stops(TenantId(1)).next().is_none());
}
