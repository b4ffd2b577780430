//! The page of a run on a modelled machine: the output of the terminal is on top.

use crate::example::{meta, timeline, whole};
use corun_model::{Unavailable, What};
use corun_report::sim::{self, Estimate, SimReport, SimTenant, SimWork};
use corun_report::{html, ProfileReport, Subject};

fn report() -> SimReport {
    let slots = timeline();
    let of = |mean: f64, half_width: f64| {
        Some(Estimate {
            mean,
            half_width: Some(half_width),
            min: mean - half_width,
            max: mean + half_width,
            n: 3,
        })
    };
    let tenant = |name: &str| SimTenant {
        name: name.into(),
        background: false,
        completed: 3,
        solo_ns: of(1e9, 0.0),
        time_ns: of(2e9, 0.0),
        slowdown: of(2.0, 0.25),
        baseline_slowdown: of(3.0, 0.5),
    };
    let stuck = SimTenant { slowdown: None, baseline_slowdown: None, ..tenant("b") };
    SimReport {
        schema: sim::SCHEMA.into(),
        corun: "0.1.0".into(),
        scenario: "two".into(),
        recorded: None,
        machine: "a machine".into(),
        cpus: 2,
        scheduler: "eevdf".into(),
        policy: None,
        baseline: Some("cfs".into()),
        seeds: vec![1, 2, 3],
        length_ns: of(2e9, 0.0).unwrap(),
        tenants: vec![tenant("a<b"), stuck],
        fairness: of(0.9, 0.05),
        throughput: of(1.5, 0.125),
        relative_speedup: of(1.5, 0.25),
        speedup_mean: Some(0.7),
        speedup_min: Some(0.5),
        speedup_max: Some(1.0),
        energy_j: of(2249.578, 44.417),
        work: SimWork::default(),
        profile: ProfileReport::new(&meta(), &whole(&slots), Subject::All, &slots),
        unavailable: vec![Unavailable { what: What::Slowdown, why: "b made no progress".to_owned().into() }],
    }
}

#[test]
fn the_page_shows_every_slowdown_with_its_interval_and_every_figure_of_the_terminal() {
    let report = report();
    let page = html::render_modelled(&report, "<p>more</p>");
    let (top, profile) = page.split_once("<h2>Where the time went").expect("the profile comes below");
    assert!(profile.contains("<p>more</p>"));
    for part in [
        "How much slower than alone",
        "a&lt;b",
        "2.00x ± 0.25",
        "3.00x ± 0.50",
        "fairness (Jain)",
        "0.900 ± 0.050",
        "system throughput",
        "1.500 ± 0.125",
        "relative speed-up",
        "over cfs",
        "speed-up over alone",
        "0.500 to 1.000",
        "2250 ± 44 J",
        "length",
        "slowdown: b made no progress",
    ] {
        assert!(top.contains(part), "no {part} in\n{top}");
    }
    // A line and its two caps for the one with an interval, and the mark of the baseline.
    assert_eq!((top.matches("\"whisker\"").count(), top.matches("\"mark\"").count()), (3, 1));
    for outside in ["http:", "https:", "src=", "href=", "@import", "url("] {
        assert!(!page.contains(outside), "{outside}");
    }
    let terminal = sim::text(&report);
    for line in ["fairness (Jain)       0.900 ± 0.050\n", "relative speed-up     1.500 ± 0.250 over cfs\n"]
    {
        assert!(terminal.contains(line), "{terminal}");
    }
}

#[test]
fn with_one_seed_there_are_no_whiskers_and_without_a_baseline_no_marks() {
    let mut report = report();
    let slowdown = Estimate { half_width: None, n: 1, ..report.tenants[0].slowdown.unwrap() };
    report.seeds.truncate(1);
    report.baseline = None;
    report.tenants =
        vec![SimTenant { slowdown: Some(slowdown), baseline_slowdown: None, ..report.tenants[0].clone() }];
    let page = html::render_modelled(&report, "");
    assert!(
        !page.contains("\"whisker\"")
            && !page.contains("\"mark\"")
            && !page.contains("<th class=\"n\">baseline")
    );
    assert!(page.contains("One seed, so without intervals"));
}

#[test]
fn of_a_thousand_tenants_most_are_folded_and_the_rest_is_counted() {
    let mut report = report();
    report.tenants = vec![report.tenants[0].clone(); 1_000];
    let page = html::render_modelled(&report, "");
    assert!(page.contains("500 more</summary>") && page.contains("476 more tenants are in the JSON only"));
}
