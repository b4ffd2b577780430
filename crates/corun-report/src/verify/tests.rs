//! The text of a verdict for each kind of run.

use super::*;
use corun_model::What;
use corun_predict::verdict::Disturbance;
use corun_results::output::Spread;

fn report(verdict: Ruling) -> VerifyReport {
    let disturbance = if verdict == Ruling::Clean { 0.004 } else { 0.12 };
    let culprits = vec![Culprit {
        tenant: Some("ffmpeg <1>".into()),
        kind: "command".into(),
        steal_ns: 480_000_000,
        share: 1.0,
    }];
    let intervals = vec![Disturbance {
        start_ns: 0,
        end_ns: 1_000_000_000,
        disturbance: 0.48,
        culprit: Some("ffmpeg <1>".into()),
    }];
    let verdict = Verdict {
        verdict,
        doubt: (verdict == Ruling::Unclear).then_some(Doubt::Short),
        method: Method::Ledger,
        disturbance,
        disturbance_range: [disturbance; 2],
        spare: 0.0,
        stopped_anyway: 0.0,
        may_have_spun: false,
        max_disturbance: 0.02,
        resolution: 0.000_75,
        wall_ns: 4_000_000_000,
        undisturbed_ns: (4e9 * (1.0 - disturbance)) as u64,
        held: Some(0.0),
        outside: Some(0.0),
        servers: None,
        cut_short: None,
        corunners_ns: 600_000_000,
        host_steal: Some(0.0),
        unseen_ns: 0,
        watcher_ns: Some(1_200_000),
        pace: None,
        culprits,
        intervals,
        unavailable: vec![],
    };
    let before =
        [Try { verdict: Ruling::Disturbed, disturbance: 0.3, wall_ns: 5_000_000_000, cpi: Some(1.5) }];
    let meta = VerifyMeta { command: "./bench --all".into(), ..VerifyMeta::default() };
    VerifyReport::new(meta, verdict, &before, &[])
}

#[test]
fn a_clean_run_gets_one_sentence() {
    assert_eq!(
        report(Ruling::Clean).sentence(),
        "clean: 0.4 % of its 4.00 s was lost to others (allowed: 2.0 %)"
    );
}

#[test]
fn a_run_that_waited_for_a_starved_server_says_for_how_long_and_is_not_clean() {
    let mut report = report(Ruling::Unclear);
    (report.judged.doubt, report.judged.disturbance) = (Some(Doubt::Served), 0.004);
    report.judged.outside = Some(0.96);
    report.judged.servers = Some(vec![corun_predict::Server {
        tenant: "redis.service".into(),
        kind: "unit".into(),
        waited_ns: 3_720_000_000,
        queued_ns: [1_760_000_000, 1_880_000_000],
        throttled_ns: [0, 0],
        held_ns: [0, 0],
        culprits: vec![],
        unattributed_ns: 1_880_000_000,
    }]);
    assert_eq!(
        report.sentence(),
        "unclear: 0.4 % of its 4.00 s was lost to others, but those that it waited for were kept from a CPU (allowed: 2.0 %); \
         it waited 96 % of its time for other processes, events or timers, 93 % for `redis.service`: others held the CPUs that \
         those needed for between 44 and 47 % of its time, and corun cannot tell what else delayed those"
    );
    assert!(report.text().contains("nobody should disturb those that it waits for"));
}

#[test]
fn tasks_that_a_command_has_left_running_are_reported() {
    let left = |n| {
        let mut report = report(Ruling::Clean);
        report.meta.still_running = n;
        report.text()
    };
    assert!(!left(None).contains("still there") && !left(Some(0)).contains("still there"));
    assert!(left(Some(1)).contains("1 task that the command started was still there when it ended"));
    assert!(left(Some(3)).contains("3 tasks that the command started were still there when it ended"));
}

#[test]
fn a_run_that_somebody_stopped_says_so_first() {
    let mut report = report(Ruling::Unclear);
    (report.judged.held, report.judged.disturbance) = (Some(0.745), 0.004);
    let text = report.text();
    let said = "unclear: somebody stopped or froze it for 75 % of its tasks' time; 0.4 % of its 4.00 s was lost to others";
    assert_eq!(report.sentence(), format!("{said} (allowed: 2.0 %)"));
    assert!(text.contains("--retries N runs it again, until nobody stops it"), "{text}");
}

#[test]
fn a_disturbed_run_names_culprit_amount_and_time_and_how_long_it_would_have_taken() {
    let text = report(Ruling::Disturbed).text();
    for said in ["disturbed, mostly by `ffmpeg <1>`", "12 % of its 4.00 s", "3.52 s", "0 s to 1.00 s: 48 %"] {
        assert!(text.replace('\n', " ").contains(said), "{said} in {text}");
    }
    assert!(text.contains("tries: 30 %, 12 %"), "{text}");
    assert!(text.contains("corun itself kept its tasks waiting for 1.20 ms"), "{text}");
}

#[test]
fn a_replay_gives_the_amount_lost_and_not_when() {
    let said = |verdict| {
        let mut replayed = report(verdict);
        (replayed.judged.method, replayed.judged.intervals) = (Method::Replay, vec![]);
        replayed.text().replace("\n  ", " ")
    };
    let from = "corun found this by replaying the run without the others; the waits of its tasks alone would give another verdict";
    assert!(
        said(Ruling::Disturbed).contains(&format!("{from}. A replay does not show when it was disturbed"))
    );
    let clean = said(Ruling::Clean);
    assert!(clean.contains(from) && !clean.contains("tell when"), "nothing was lost at any time");
}

#[test]
fn the_precision_for_a_short_run_is_reported_if_the_limit_was_lower() {
    let mut short = report(Ruling::Clean);
    assert!(!short.sentence().contains("judged to"));
    short.judged.resolution = 0.03;
    assert!(short
        .sentence()
        .ends_with("(allowed: 2.0 %; a run of this length can be judged to 3.0 % at best)"));
    (short.judged.resolution, short.judged.max_disturbance) = (0.0004, 0.0);
    let long = short.sentence();
    assert!(long.ends_with("(allowed: 0 %; a run of this length can be judged to 0.1 % at best)"), "{long}");
}

#[test]
fn an_unclear_run_is_neither_clean_nor_a_failure() {
    let mut short = report(Ruling::Unclear);
    (short.judged.disturbance, short.judged.resolution) = (0.03, 0.035);
    assert_eq!(
        short.sentence(),
        "unclear: 3.0 % of its 4.00 s was lost to others (allowed: 2.0 %; a run of this length can be judged to 3.5 % at best)"
    );
    let value: serde_json::Value = serde_json::from_str(&short.json()).unwrap();
    assert_eq!(value["verdict"], "unclear");
    let xml = short.junit();
    assert!(xml.contains("<skipped message=\"unclear") && xml.contains("failures=\"0\""), "{xml}");
}

#[test]
fn the_json_has_the_fields_of_the_contract() {
    let value: serde_json::Value = serde_json::from_str(&report(Ruling::Disturbed).json()).unwrap();
    assert_eq!(value["schema"], "corun.verify/1");
    assert_eq!(value["verdict"], "disturbed");
    for key in ["disturbance", "wall_ns", "undisturbed_ns", "culprits", "intervals"] {
        assert!(value.get(key).is_some_and(|v| !v.is_null()), "{key}");
    }
}

#[test]
fn junit_fails_the_case_of_a_disturbed_run_only() {
    let xml = report(Ruling::Disturbed).junit();
    assert!(xml.contains("failures=\"1\"") && xml.contains("ffmpeg &lt;1&gt;"), "{xml}");
    assert!(report(Ruling::Clean).junit().contains("failures=\"0\""));
}

#[test]
fn a_command_that_failed_is_no_success_in_junit_however_clean_its_run_was() {
    let mut failed = report(Ruling::Clean);
    failed.meta.exit_status = 7;
    let xml = failed.junit();
    assert!(xml.contains("errors=\"1\"") && xml.contains("failures=\"0\""), "{xml}");
    assert!(xml.contains("the command ended with status 7"), "{xml}");
    assert!(failed.text().starts_with(
        "corun verify: the command ended with status 7, which is the exit status; its run was clean"
    ));
}

#[test]
fn a_killed_command_is_not_reported_to_have_ended_with_a_number() {
    let mut killed = report(Ruling::Clean);
    (killed.meta.exit_status, killed.meta.signal) = (137, Some(9));
    assert!(killed
        .text()
        .starts_with("corun verify: the command was killed by SIGKILL (137), which is the exit status"));
    (killed.meta.exit_status, killed.meta.signal) = (162, Some(34));
    assert!(killed.text().contains("killed by signal 34 (162)"));
}

#[test]
fn an_unclean_run_gets_advice_and_a_clean_one_none() {
    let mut found = report(Ruling::Disturbed);
    assert!(found.text().contains("more --retries"), "{}", found.text());
    found.tries.truncate(1);
    assert!(found.text().contains("--retries N runs it again"), "{}", found.text());
    assert!(report(Ruling::Unclear).text().contains("make it longer"));
    assert!(!report(Ruling::Clean).text().contains("--retries"));
}

#[test]
fn running_it_again_is_not_advised_if_that_cannot_happen() {
    for ruling in [Ruling::Disturbed, Ruling::Unclear] {
        let mut failed = report(ruling);
        (failed.meta.exit_status, failed.meta.still_running) = (124, Some(0));
        let said = failed.text();
        assert!(said.contains("\n  --retries does not repeat a failed command\n"), "{said}");
        assert_eq!(said.matches("--retries").count(), 1, "{said}");
        (failed.meta.exit_status, failed.meta.still_running) = (130, None);
        assert!(!failed.text().contains("--retries"), "{}", failed.text());
    }
}

#[test]
fn a_strict_gate_counts_an_unclear_run_as_a_failure() {
    let mut short = report(Ruling::Unclear);
    short.meta.strict = true;
    let xml = short.junit();
    assert!(xml.contains("failures=\"1\"") && !xml.contains("<skipped"), "{xml}");
}

#[test]
fn a_tolerant_policy_accepts_a_disturbed_run_but_not_a_failed_command() {
    let is_failure = |verdict, exit_status| {
        let mut report = report(verdict);
        (report.meta.tolerant, report.meta.exit_status) = (true, exit_status);
        let outcome = report.outcome();
        (outcome.state, outcome.is_failure)
    };
    assert_eq!(is_failure(Ruling::Disturbed, 0), (State::Disturbed, false));
    assert_eq!(is_failure(Ruling::Disturbed, 7), (State::Failed, true));
    assert!(report(Ruling::Disturbed).outcome().is_failure);
}

#[test]
fn a_disturbed_run_is_no_failure_once_every_benchmark_has_its_clean_iterations() {
    let spread = |count| Spread { count, mean_s: 1.0, least_s: 1.0, most_s: 1.0, deviation_s: None };
    let benchmark = |clean| Measured {
        name: "b".into(),
        wanted: 10,
        raw: spread(20),
        cleaned: Some(spread(clean)),
        disturbed: 20 - clean,
        unclear: 0,
        disturbance: Some(0.1),
        culprit: None,
    };
    let mut run = report(Ruling::Disturbed);
    run.benchmarks = vec![benchmark(12), benchmark(9)];
    assert!(run.outcome().is_failure && !run.is_measured_clean());
    run.benchmarks[1] = benchmark(10);
    let outcome = run.outcome();
    assert_eq!((outcome.state, outcome.is_failure), (State::Clean, false));
    let said = "clean where it was measured: every benchmark has as many clean iterations as a run of it; of the last run: disturbed";
    assert!(outcome.sentence.starts_with(said), "{}", outcome.sentence);
    assert!(!run.text().contains("--retries"), "{}", run.text());
}

#[test]
fn missing_counters_are_reported_to_users_who_asked_for_them() {
    let mut blind = report(Ruling::Clean);
    let (what, why) = (What::HardwareCounters, "no PMU".to_owned().into());
    blind.judged.unavailable.push(Unavailable { what, why });
    assert!(!blind.text().contains("no PMU") && blind.json().contains("no PMU"));
    blind.meta.counters = true;
    assert!(blind.text().contains("no PMU"));
}

#[test]
fn missing_items_cannot_control_the_terminal() {
    let mut blind = report(Ruling::Clean);
    blind
        .judged
        .unavailable
        .push(Unavailable { what: What::Other("a\x1b[2J".into()), why: "b\u{202e}c".to_owned().into() });
    assert!(blind.text().contains("! a?[2J: b?c"));
}

#[test]
fn the_counts_of_every_try_are_reported() {
    let mut counted = report(Ruling::Clean);
    let pace = Pace { cpi: 0.75, mpki: Some(1.25), memory: None };
    (counted.judged.pace, counted.tries[1].cpi) = (Some(pace), Some(pace.cpi));
    counted.meta.counting_cost = Some(0.004);
    let wanted =
        "cycles an instruction: 1.50, 0.75; 1.25 LLC misses per 1,000 instructions; counting took 0.4 %";
    let text = counted.text().replace("\n    ", " ");
    assert!(text.contains(wanted), "{text}");
}
