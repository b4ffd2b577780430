//! Properties are added to other people's JUnit files, and nothing else in them changes.

use corun_results::when::By;
use corun_results::{annotate, Case, NotPlaced, Problem, Run, Unread};
use proptest::prelude::*;
use std::io::{BufRead, BufReader, Read};

const SECOND: i64 = 1_000_000_000;
const MS: i64 = 1_000_000;
/// A minute from 2026-01-02T03:04:05Z.
const RUN: Run = Run { begin_ns: 1_767_323_045 * SECOND, end_ns: 1_767_323_105 * SECOND, ahead_s: 0 };

fn kept(name: &str) -> String {
    std::fs::read_to_string(format!("{}/tests/corpus/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

const FILES: [&str; 5] = ["nextest.xml", "pytest.xml", "gtest.xml", "surefire.xml", "go-junit.xml"];

/// Its cases, and the output with a property in each.
fn cases(text: &str, run: &Run) -> Result<(Vec<Case>, String), Unread> {
    let (mut cases, mut out) = (Vec::new(), Vec::new());
    annotate(
        || Ok(text.as_bytes()),
        &mut out,
        "tests.xml",
        run,
        |case| {
            cases.push(case.clone());
            vec![("corun.stolen_s", "1.5 <\"é\u{1}>".to_owned())]
        },
    )?;
    Ok((cases, String::from_utf8(out).unwrap()))
}

const OWN: &str = "<property name=\"corun.stolen_s\" value=\"1.5 &lt;&quot;&#xe9;?&gt;\"/>";

/// The bounds of its start, in milliseconds of the run, its length, and the source of the bounds.
type At = Result<(i64, i64, i64, By), NotPlaced>;

/// A case: its name, whether it failed, and when it ran.
type Row = (&'static str, bool, At);

#[test]
fn a_case_is_placed_as_exactly_as_its_runner_allows() {
    let stamped = |at, length, step| Ok((at, at + step, length, By::Stamp));
    let ordered = |earliest, latest, length| Ok((earliest, latest, length, By::Order));
    let table: [(&str, &[Row]); 5] = [
        (
            "nextest.xml",
            &[
                ("pool::net.connects", false, stamped(1_010, 250, 1)),
                ("pool::net.times_out", true, stamped(1_300, 2_000, 1)),
                ("pool::net.closes", false, stamped(5_400, 4, 1)),
            ],
        ),
        (
            "pytest.xml",
            &[
                // The suite took 5 s and its cases 4.5 s, so half a second is open.
                ("tests.test_pool.test_connect", false, ordered(1_000, 1_500, 1_000)),
                ("tests.test_pool.test_wait[a&b]", true, ordered(2_000, 2_500, 3_000)),
                ("tests.test_pool.test_close", false, ordered(5_000, 5_500, 500)),
            ],
        ),
        (
            "gtest.xml",
            &[
                ("Pool.Connects", false, stamped(1_001, 100, 1)),
                ("Pool.Waits", true, stamped(1_102, 2_000, 1)),
            ],
        ),
        (
            "surefire.xml",
            // Without timestamps only the minute of the run and the order are known.
            &[
                ("org.example.PoolTest.connects", false, ordered(0, 9_500, 500)),
                ("org.example.PoolTest.waits", true, ordered(500, 10_000, 49_500)),
                ("org.example.PoolTest.closes", false, ordered(50_000, 59_500, 500)),
            ],
        ),
        (
            "go-junit.xml",
            &[
                ("example/pool.TestConnect", false, ordered(0, 1_750, 250)),
                ("example/pool.TestWait", true, ordered(250, 2_000, 58_000)),
            ],
        ),
    ];
    for (file, wanted) in table {
        let (found, _) = cases(&kept(file), &RUN).unwrap();
        let ms = |ns| (ns - RUN.begin_ns) / MS;
        let found: Vec<(&str, bool, At)> = found
            .iter()
            .map(|case| {
                let at = case.span.map(|s| (ms(s.earliest_ns), ms(s.latest_ns), s.length_ns / MS, s.by));
                (case.name.as_str(), case.has_failed, at)
            })
            .collect();
        assert_eq!(found, wanted, "{file}");
    }
}

/// Written by cargo-nextest 0.9.148, with a limit of three seconds for each test.
#[test]
fn a_real_nextest_runs_time_outs_are_failures_placed_by_their_own_times() {
    let begin_ns = 1_795_866_025 * SECOND;
    let run = Run { begin_ns, end_ns: begin_ns + 15 * SECOND, ahead_s: 0 };
    let (found, written) = cases(&kept("nextest-timeouts.xml"), &run).unwrap();
    let found: Vec<(&str, bool, i64, i64)> = found
        .iter()
        .map(|case| {
            let span = case.span.unwrap();
            assert_eq!((span.by, span.latest_ns - span.earliest_ns, case.is_beside), (By::Stamp, MS, false));
            let name = case.name.strip_prefix("starving::times.").unwrap();
            (name, case.has_failed, (span.earliest_ns - begin_ns) / MS, span.length_ns / MS)
        })
        .collect();
    let wanted = [
        ("a_passes", false, 794, 1_184),
        ("b_starved", true, 1_978, 3_021),
        ("c_hangs", true, 5_000, 3_010),
        ("d_starved_by_processes", true, 8_010, 3_005),
        ("e_too_slow_by_itself", true, 11_015, 3_012),
        ("f_wrong", true, 14_027, 705),
    ];
    assert_eq!(found, wanted);
    assert_eq!(written.matches(OWN).count(), wanted.len());
}

#[test]
fn without_the_added_properties_the_file_is_the_same_byte_for_byte() {
    for file in FILES {
        let text = kept(file);
        let (found, written) = cases(&text, &RUN).unwrap();
        assert_eq!(written.matches(OWN).count(), found.len(), "{file}: one in each case");
        let own_empty = written.replace(&format!("  <properties>{OWN}</properties>"), "  <properties/>");
        let mut rest = own_empty.replace(&format!("<properties>{OWN}</properties>"), "").replace(OWN, "");
        // An empty element has to be opened for it. The blank before its slash stays in place.
        for (opened, shut) in [("\"></testcase>", "\"/>"), ("\" ></testcase>", "\" />")] {
            if !text.contains(opened) {
                rest = rest.replace(opened, shut);
            }
        }
        assert_eq!(rest, text, "{file}");
    }
}

#[test]
fn without_properties_the_file_does_not_change() {
    for file in FILES {
        let text = "\u{feff}".to_owned() + &kept(file);
        let mut out = Vec::new();
        let done = annotate(|| Ok(text.as_bytes()), &mut out, file, &RUN, |_| Vec::new()).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), text, "{file}");
        assert!(done.cases >= 2 && done.failed == 1 && done.placed == done.cases, "{file}: {done:?}");
    }
}

#[test]
fn whoever_marks_the_beginning_of_a_file_gets_properties_in_the_right_places() {
    for file in FILES {
        let plain = cases(&kept(file), &RUN).unwrap().1;
        let marked = cases(&("\u{feff}".to_owned() + &kept(file)), &RUN).unwrap().1;
        assert_eq!(marked, "\u{feff}".to_owned() + &plain, "{file}");
    }
}

#[test]
fn a_file_that_cannot_be_annotated_is_refused_with_its_line_and_nothing_is_written() {
    let said = |text: &str| {
        let mut out = Vec::new();
        let error = annotate(|| Ok(text.as_bytes()), &mut out, "t.xml", &RUN, |_| Vec::new()).unwrap_err();
        assert!(out.is_empty(), "{error}");
        error.to_string()
    };
    let nextest = kept("nextest.xml");
    let table = [
        (
            nextest.split("has elapsed").next().unwrap().to_owned(),
            "t.xml:7: this is damaged: it ends in the middle",
        ),
        (nextest.replace("</failure>", "</failed>"), "t.xml:7: this is damaged: "),
        ("<html><body/></html>".to_owned(), "t.xml:1: this is no JUnit file: its root is `html`"),
        ("not XML".to_owned(), "t.xml:1: this is damaged: this is not XML"),
        (String::new(), "t.xml:1: it holds no result"),
        ("<testsuites/>".to_owned(), "t.xml: it holds no result"),
        (nextest.replace(" time=", " took="), "t.xml: none of its test cases has a time"),
        (
            nextest.replace("2026-01-02", "2026-01-01"),
            "t.xml: its tests ran at `2026-01-01T03:04:06.010+00:00`, outside the run that corun watched",
        ),
        ("<testsuite>".repeat(300), "t.xml:1: this is damaged: more than 256 elements within each other"),
    ];
    for (text, wanted) in table {
        let said = said(&text);
        assert!(said.starts_with(wanted), "{said}");
    }
}

#[test]
fn tests_that_ran_at_a_time_are_not_placed_by_their_order() {
    let text = kept("surefire.xml").replace("time=\"0.5\"", "time=\"40\"");
    let (found, _) = cases(&text, &RUN).unwrap();
    assert!(found.iter().all(|case| case.span == Err(NotPlaced::AtATime)), "{found:?}");
}

#[test]
fn a_test_longer_than_the_available_time_does_not_count_as_simultaneous() {
    let stamped =
        "<testsuite timestamp=\"2026-01-02T03:04:06Z\"><testcase name=\"a\" time=\"1,234.5\"/></testsuite>";
    for text in [kept("surefire.xml").replace("time=\"49.5\"", "time=\"1,490.5\""), stamped.to_owned()] {
        let (found, _) = cases(&text, &RUN).unwrap();
        assert!(found.iter().all(|case| case.span == Err(NotPlaced::TooLong)), "{found:?}");
    }
}

#[test]
fn simultaneous_tests_with_their_own_timestamps_are_recognized() {
    let beside = |text: &str| -> Vec<bool> {
        cases(text, &RUN).unwrap().0.iter().map(|case| case.is_beside).collect()
    };
    assert_eq!(beside(&kept("nextest.xml")), [false; 3]);
    let longer = kept("nextest.xml").replace("time=\"0.250\"", "time=\"0.350\"");
    assert_eq!(beside(&longer), [true, true, false], "the first ended 60 ms after the second had begun");
    let suite = |at| {
        format!(
            "<testsuite timestamp=\"2026-01-02T03:04:{at}Z\" time=\"5\"><testcase name=\"a\" time=\"4.9\"/></testsuite>"
        )
    };
    let two = |first, second| format!("<testsuites>{}{}</testsuites>", suite(first), suite(second));
    assert_eq!(beside(&two("06.000", "08.000")), [true; 2], "suites that ran at a time");
    assert_eq!(beside(&two("06.000", "11.000")), [false; 2]);
}

/// A JUnit file of this many cases that never exists as a whole.
struct Long {
    left: u64,
    chunk: Vec<u8>,
    at: usize,
}

impl Long {
    fn new(cases: u64) -> Long {
        Long { left: cases + 2, chunk: Vec::new(), at: 0 }
    }
}

impl Read for Long {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        if self.at == self.chunk.len() && self.left > 0 {
            self.left -= 1;
            self.at = 0;
            self.chunk = match (self.left, self.chunk.is_empty()) {
                (0, _) => b"</testsuite>".to_vec(),
                (_, true) => b"<testsuite time=\"9\">".to_vec(),
                _ => format!(
                    "<testcase name=\"t\" time=\"0.000001\"><system-out>{}</system-out></testcase>",
                    "x".repeat(1_000)
                )
                .into_bytes(),
            };
        }
        let n = out.len().min(self.chunk.len() - self.at);
        out[..n].copy_from_slice(&self.chunk[self.at..self.at + n]);
        self.at += n;
        Ok(n)
    }
}

/// Counts the bytes written to it.
#[derive(Default)]
struct Count(u64);

impl std::io::Write for Count {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 += bytes.len() as u64;
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_file_larger_than_memory_goes_through_as_a_stream() {
    const CASES: u64 = 20_000;
    let mut out = Count::default();
    let done = annotate(|| Ok(BufReader::new(Long::new(CASES))), &mut out, "long.xml", &RUN, |_| Vec::new())
        .unwrap();
    assert_eq!((done.cases, done.placed), (CASES, CASES));
    let mut input = BufReader::new(Long::new(CASES));
    let mut length = 0;
    while let n @ 1.. = input.fill_buf().unwrap().len() {
        length += n as u64;
        input.consume(n);
    }
    assert_eq!(out.0, length);
}

#[test]
fn a_text_longer_than_fits_and_more_suites_than_anybody_has_are_refused_before_memory_is_full() {
    let read = |text: &str| {
        let open = || Ok(BufReader::new(text.as_bytes()));
        annotate(open, &mut std::io::sink(), "t.xml", &RUN, |_| Vec::new())
    };
    let printed = |mib: usize| {
        let text = "x\n".repeat(mib << 19);
        format!(
            "<testsuite time=\"9\">\n<testcase name=\"a\" time=\"1\"><system-out>{text}</system-out></testcase></testsuite>"
        )
    };
    assert!(read(&printed(31)).is_ok());
    let refused = read(&printed(33)).unwrap_err();
    assert_eq!((&refused.problem, refused.line), (&Problem::LongText, Some(2)));
    assert!(
        refused.to_string().starts_with("t.xml:2: a text that begins here is longer than 32 MiB; have"),
        "{refused}"
    );
    let suites = format!("<testsuites>{}</testsuites>", "<testsuite/>".repeat(100_001));
    let refused = read(&suites).unwrap_err().to_string();
    assert!(refused.contains("more than 100000 suites"), "{refused}");
}

#[test]
fn a_problem_is_a_type_and_not_only_a_sentence() {
    let error = cases("<testsuite><testcase name=\"a\"/></testsuite>", &RUN).unwrap_err();
    assert_eq!((error.problem, error.line), (Problem::NoTimes, None));
}

proptest! {
    #[test]
    fn whatever_is_in_a_file_it_is_refused_or_comes_out_as_it_went_in(
        file in 0..FILES.len(),
        cut in 0_usize..3_000,
        with in ".{0,8}",
    ) {
        let mut text = kept(FILES[file]);
        let mut at = cut.min(text.len());
        while !text.is_char_boundary(at) {
            at -= 1;
        }
        text.insert_str(at, &with);
        let mut out = Vec::new();
        if annotate(|| Ok(text.as_bytes()), &mut out, "t.xml", &RUN, |_| Vec::new()).is_ok() {
            prop_assert_eq!(out, text.into_bytes());
        }
    }
}
