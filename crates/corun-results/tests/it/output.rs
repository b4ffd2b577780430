//! Outcomes have the form that their readers expect, whatever names contain.

use corun_results::output::{bencher, github, human_s, junit, Measured, Spread, TestVerdict, Tested};
use corun_results::{Outcome, State};

fn outcome(state: State) -> Outcome {
    let name = "a|b <1>\n`x`".to_owned();
    let spread = |seconds: &[f64]| Spread::of(seconds.iter().copied()).unwrap();
    Outcome {
        command: "./bench \"all\" & more".into(),
        state,
        is_failure: state == State::Disturbed,
        sentence: "disturbed, mostly by `x: y, 50 %`".into(),
        text: "first line\n  second <line>\n".into(),
        wall_ns: 4_000_000_000,
        undisturbed_ns: 3_000_000_000,
        disturbance: 0.25,
        benchmarks: vec![Measured {
            name: name.clone(),
            wanted: 3,
            raw: spread(&[1.0, 2.0]),
            cleaned: Some(spread(&[1.0])),
            disturbed: 1,
            unclear: 0,
            disturbance: Some(0.2),
            culprit: Some("make -j8".into()),
        }],
        tests: vec![Tested { name, verdict: TestVerdict::Starved, why: "line\nbreak 100 %".into() }],
    }
}

#[test]
fn junit_has_one_case_whose_state_is_that_of_the_run() {
    let xml = junit::write(&outcome(State::Disturbed));
    assert!(xml.contains("<testcase name=\"./bench &quot;all&quot; &amp; more\" classname=\"corun.verify\" time=\"4.000\">"), "{xml}");
    assert!(xml.contains("failures=\"1\" errors=\"0\" skipped=\"0\""), "{xml}");
    assert!(xml.contains("type=\"disturbed\">first line\n  second &lt;line&gt;</failure>"), "{xml}");
    let counts = |state| {
        let xml = junit::write(&outcome(state));
        ["failures=\"1\"", "errors=\"1\"", "skipped=\"1\""].map(|count| xml.contains(count))
    };
    assert_eq!(counts(State::Failed), [false, true, false]);
    assert_eq!(counts(State::Unclear), [false, false, true]);
    assert_eq!(counts(State::Clean), [false; 3]);
}

#[test]
fn bencher_gets_the_cleaned_latency_in_nanoseconds_and_the_raw_one_apart() {
    let read =
        |outcome: &Outcome| serde_json::from_str::<serde_json::Value>(&bencher::write(outcome)).unwrap();
    let all = read(&outcome(State::Disturbed));
    let of = &all["a|b <1>\n`x`"];
    assert_eq!(of["latency"]["value"], 1e9);
    assert_eq!(
        (&of["latency-raw"]["value"], &of["latency-raw"]["upper_value"]),
        (&1.5e9.into(), &2e9.into())
    );
    assert_eq!(of["disturbance"]["value"], 20.0);
    let mut plain = outcome(State::Clean);
    plain.benchmarks.clear();
    assert_eq!(read(&plain)["./bench \"all\" & more"]["latency"]["value"], 3e9);
    let mut nothing_clean = outcome(State::Disturbed);
    nothing_clean.benchmarks[0].cleaned = None;
    assert!(read(&nothing_clean)["a|b <1>\n`x`"].get("latency").is_none());
}

#[test]
fn no_name_breaks_a_table_or_becomes_markdown() {
    let summary = github::summary(&outcome(State::Disturbed));
    let rows: Vec<&str> = summary.lines().filter(|line| line.contains("1&gt;")).collect();
    assert_eq!(rows.len(), 2, "{summary}");
    assert_eq!(rows[0].matches('|').count(), 8, "{summary}");
    assert!(
        rows[0]
            .starts_with("| <code>a&#124;b &lt;1&gt; &#96;x&#96;</code> | 1.500 s | 1.000 s | 2 | 1 | 0 |"),
        "{summary}"
    );
}

#[test]
fn an_annotation_is_one_line_whose_parts_end_where_they_should() {
    let lines = github::annotations(&outcome(State::Disturbed), github::Level::Warning);
    assert_eq!(
        lines.lines().collect::<Vec<_>>(),
        [
            "::warning title=disturbed run::disturbed, mostly by `x: y, 50 %25`",
            "::notice title=starved%3A a|b <1>%0A`x`::line%0Abreak 100 %25",
        ]
    );
    let mut clean = outcome(State::Clean);
    clean.tests[0].verdict = TestVerdict::NotStarved;
    assert_eq!(github::annotations(&clean, github::Level::Error), "");
}

#[test]
fn a_time_is_told_in_four_digits() {
    let told = [1.5, 0.0123456, 1.2345e-5, 240e-9, 0.0].map(human_s);
    assert_eq!(told, ["1.500 s", "12.35 ms", "12.35 µs", "240.0 ns", "0.000 ns"]);
}
