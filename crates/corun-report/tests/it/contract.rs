//! The JSON contract: names, nulls, sums, and reading back what was written.

use crate::example::{account, alone, meta, task, timeline, whole, window, Did, Random, POSTGRES, SUBJECT};
use crate::fields::names;
use corun_model::ledger::Held;
use corun_model::{TenantId, TenantKind};
use corun_report::{json, ProfileReport, Subject};
use proptest::prelude::*;
use serde_json::Value;

fn example() -> Value {
    let slots = timeline();
    let report = ProfileReport::new(&meta(), &whole(&slots), SUBJECT, &slots);
    serde_json::from_str(&json::indented(&report)).unwrap()
}

fn has_fields(value: &Value, fields: &[&str]) {
    for field in fields {
        assert!(value.get(field).is_some(), "{field} is missing in {value}");
    }
}

const LEDGER: &[&str] = &[
    "compute_ns",
    "spin_ns",
    "block_ns",
    "steal_ns",
    "throttled_ns",
    "stopped_ns",
    "frozen_ns",
    "parked_ns",
    "total_ns",
];
const EVENTS: &[&str] = &["blocked", "yielded", "preemptions", "wakeups", "migrations"];

#[test]
fn every_name_of_the_contract_is_there() {
    let v = example();
    assert_eq!(v["schema"], "corun.profile/1");
    assert_eq!(v["host"], "live");
    assert_eq!(v["source"], "ebpf");
    let top = ["window_ns", "cpus", "subject", "tasks", "tenants", "machine", "loss", "self", "unavailable"];
    has_fields(&v, &top);
    let sections = [&v["subject"], &v["tenants"][0]];
    for section in sections {
        has_fields(section, &["tenant", "ledger", "events", "counters", "culprits", "unattributed_ns"]);
        has_fields(&section["tenant"], &["id", "kind", "name"]);
    }
    let task = &v["tasks"][0];
    has_fields(task, &["tid", "name", "lifetime_ns", "ledger", "events", "culprits", "unattributed_ns"]);
    for account in [&v["subject"], task] {
        has_fields(&account["ledger"], LEDGER);
        has_fields(&account["events"], EVENTS);
        has_fields(&account["culprits"][0], &["tenant", "steal_ns"]);
    }
    has_fields(&v["machine"], &["idle_ns", "busy_ns", "host_steal_ns"]);
    has_fields(&v["loss"], &["events", "unknown_ns"]);
    has_fields(&v["self"], &["cpu_ns", "ns_per_switch"]);
    has_fields(&v["unavailable"][0], &["what", "why"]);
}

#[test]
fn an_unknown_is_null_and_a_zero_is_zero() {
    let v = example();
    assert!(v["subject"]["ledger"]["spin_ns"].is_null(), "spin is not measured yet");
    assert!(v["subject"]["ledger"]["stopped_ns"].is_null(), "nor are stops");
    assert_eq!(v["subject"]["ledger"]["parked_ns"], 0);
    assert!(v["subject"]["counters"].is_null());
    assert!(v["machine"]["irq_ns"].is_null());
    assert!(v["date"].is_null());
    let mut seen = alone(&Did { compute_ns: 5, ..Did::default() });
    seen.cpus.clear();
    seen.by_tenant[0].account.events = corun_model::Events::default();
    let report = ProfileReport::new(&meta(), &seen, SUBJECT, &[]);
    assert_eq!(report.machine.idle_ns, None);
    assert_eq!(report.subject.account.events.migrations, None);
}

#[test]
fn energy_is_the_machines_with_its_power_and_what_is_not_counted_is_null() {
    let slots = timeline();
    let mut seen = whole(&slots);
    let told = |seen: &corun_model::Observation| {
        let report = ProfileReport::new(&meta(), seen, SUBJECT, &[]);
        let screen = corun_report::terminal::render(&report, &corun_report::terminal::Style::plain(100));
        (serde_json::to_value(&report).unwrap()["machine"]["energy"].clone(), screen)
    };
    let (energy, screen) = told(&seen);
    assert!(energy.is_null() && !screen.contains("Energy"), "{energy} {screen}");
    seen.energy.package_uj = Some(5 * seen.window_ns() / 1_000);
    let (energy, screen) = told(&seen);
    assert_eq!((&energy["package_watts"], &energy["dram_uj"]), (&Value::from(5.0), &Value::Null));
    assert_eq!(energy["package_uj"], 5 * seen.window_ns() / 1_000);
    let compute_s = seen.by_tenant.iter().find(|t| t.id == SUBJECT);
    let compute_s = compute_s.map_or(0, |t| t.account.ledger.parts().compute_ns) as f64 / 1e9;
    assert_eq!(energy["j_per_compute_s"], Value::from(50.0 / compute_s));
    assert!(screen.contains("the machine as a whole: packages 50.0 J (5.0 W); "), "{screen}");
}

#[test]
fn its_own_tenant_is_among_the_culprits_and_marked() {
    let v = example();
    let culprits = v["subject"]["culprits"].as_array().unwrap();
    let own: Vec<&Value> = culprits.iter().filter(|c| c["self"] == true).collect();
    assert_eq!(own.len(), 1);
    assert_eq!(own[0]["tenant"]["id"], SUBJECT.0);
    let steals: Vec<u64> = culprits.iter().map(|c| c["steal_ns"].as_u64().unwrap()).collect();
    assert!(steals.is_sorted_by(|a, b| a >= b), "{steals:?}");
}

#[test]
fn the_subject_is_the_sum_of_its_tasks_and_of_the_timeline() {
    let v = example();
    for part in LEDGER.iter().filter(|&p| !v["subject"]["ledger"][p].is_null()) {
        let sum = |list: &Value| {
            list.as_array().unwrap().iter().map(|t| t["ledger"][part].as_u64().unwrap()).sum::<u64>()
        };
        let whole = v["subject"]["ledger"][part].as_u64().unwrap();
        assert_eq!(sum(&v["tasks"]), whole, "{part} of the tasks");
        assert_eq!(sum(&v["timeline"]), whole, "{part} of the timeline");
    }
}

#[test]
fn what_was_written_reads_back_the_same() {
    let slots = timeline();
    for subject in [Subject::Tenant(SUBJECT), Subject::Tenant(POSTGRES), Subject::All] {
        let report = ProfileReport::new(&meta(), &whole(&slots), subject, &slots);
        assert_eq!(json::read(&json::indented(&report)).unwrap(), report);
    }
}

#[test]
fn the_same_input_gives_the_same_bytes() {
    let written = || {
        let slots = timeline();
        json::indented(&ProfileReport::new(&meta(), &whole(&slots), SUBJECT, &slots))
    };
    assert_eq!(written(), written());
}

#[test]
fn a_file_whose_numbers_do_not_sum_is_refused() {
    let slots = timeline();
    let good = json::indented(&ProfileReport::new(&meta(), &whole(&slots), SUBJECT, &slots));
    let spoil = |change: fn(&mut Value)| {
        let mut v: Value = serde_json::from_str(&good).unwrap();
        change(&mut v);
        json::read(&v.to_string()).unwrap_err().to_string()
    };
    let ledger = spoil(|v| v["subject"]["ledger"]["compute_ns"] = 1.into());
    assert!(ledger.contains("the subject: the parts sum to"), "{ledger}");
    let culprits = spoil(|v| v["tasks"][0]["unattributed_ns"] = 0.into());
    assert!(culprits.contains("culprits explain"), "{culprits}");
    let version = spoil(|v| v["schema"] = "corun.profile/2".into());
    assert_eq!(version, "the schema is `corun.profile/2`, this corun reads `corun.profile/1`");
    let huge = spoil(|v| v["subject"]["ledger"]["compute_ns"] = u64::MAX.into());
    assert!(huge.contains("the subject"), "{huge}");
    assert!(json::read("{").is_err());
}

#[test]
fn all_tenants_together_are_a_subject_without_neighbors_of_its_own() {
    let slots = timeline();
    let seen = whole(&slots);
    let report = ProfileReport::new(&meta(), &seen, Subject::All, &slots);
    report.check().unwrap();
    assert_eq!(report.tasks.len(), seen.tasks.len());
    assert_eq!(report.subject.tenant.kind, "all");
    assert!(seen.tenants.iter().all(|t| t.id != TenantId(report.subject.tenant.id)));
    assert!(seen.tenants.iter().any(|t| t.kind == TenantKind::Idle));
}

#[test]
fn every_field_is_explained_in_the_documentation() {
    let slots = timeline();
    let mut seen = whole(&slots);
    seen.by_tenant[0].account.counters = Some(corun_model::Counters::default());
    seen.energy.package_uj = Some(1);
    let report = ProfileReport::new(&meta(), &seen, SUBJECT, &slots);
    let mut found = std::collections::BTreeSet::new();
    names(&serde_json::to_value(&report).unwrap(), &mut found);
    assert!(found.len() > 80, "{found:?}");
    let documented = include_str!("../../../../docs/json.md");
    let explained = |name: &String| {
        [format!("`{name}`"), format!(".{name}`"), format!("\"{name}\"")]
            .iter()
            .any(|n| documented.contains(n))
    };
    let missing: Vec<&String> = found.iter().filter(|name| !explained(name)).collect();
    assert!(missing.is_empty(), "docs/json.md does not explain {missing:?}");
}

prop_compose! {
    fn did()(
        compute_ns in 0u64..200_000_000,
        spin_ns in proptest::option::of(0u64..100_000_000),
        stolen in proptest::collection::vec((1u32..7, 0u64..40_000_000), 0..6),
        unattributed_ns in 0u64..1_000_000,
        throttled_ns in 0u64..100_000_000,
        held in proptest::option::of((0u64..50_000_000, 0u64..50_000_000)),
        parked_ns in 0u64..50_000_000,
        unknown_ns in 0u64..1_000_000,
    ) -> Did {
        let stolen = stolen.into_iter().map(|(id, ns)| (TenantId(id), ns)).collect();
        let held = held.map(|(stopped_ns, frozen_ns)| Held { stopped_ns, frozen_ns });
        let life_ns = 1_000_000_000;
        Did { compute_ns, spin_ns, stolen, unattributed_ns, throttled_ns, held, parked_ns, unknown_ns, life_ns }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn time_is_conserved_from_the_observation_to_the_file(tasks in proptest::collection::vec((1u32..5, did()), 1..8)) {
        let mut random = Random(3);
        let tasks = tasks
            .iter()
            .enumerate()
            .map(|(i, (tenant, did))| task(i as u32 + 1, "t", TenantId(*tenant), 0, account(did, &mut random)))
            .collect();
        let seen = window(0, 1_000_000_000, tasks);
        for subject in [Subject::Tenant(SUBJECT), Subject::All] {
            let report = ProfileReport::new(&meta(), &seen, subject, &[]);
            prop_assert!(report.check().is_ok(), "{:?}", report.check());
            let back = json::read(&json::indented(&report)).unwrap();
            for t in &back.tasks {
                let l = &t.account.ledger;
                prop_assert_eq!(l.sum_ns(), t.lifetime_ns);
                let charged: u64 = t.account.culprits.iter().map(|c| c.steal_ns).sum();
                prop_assert_eq!(charged + t.account.unattributed_ns, l.steal_ns);
            }
        }
    }
}
