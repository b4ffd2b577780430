//! JUnit XML according to the schema of continuous integration (Jenkins' `junit-10.xsd`): the elements inside
//! each element, their attributes, and counts that match the content.

use corun_predict::estimate::Culprit;
use corun_predict::verdict::{Disturbance, Ruling, Verdict};
use corun_report::verify::{VerifyMeta, VerifyReport};
use quick_xml::events::Event;
use quick_xml::Reader;
use std::collections::BTreeMap;

/// An element as it was read.
#[derive(Debug, Default)]
struct Element {
    name: String,
    attributes: BTreeMap<String, String>,
    text: String,
    children: Vec<Element>,
}

impl Element {
    fn all(&self, name: &str) -> usize {
        self.children.iter().map(|c| usize::from(c.name == name) + c.all(name)).sum()
    }

    fn attribute(&self, name: &str) -> &str {
        self.attributes.get(name).unwrap_or_else(|| panic!("<{}> lacks {name}", self.name))
    }
}

/// The document's root; panics if it is not XML.
fn read(xml: &str) -> Element {
    let mut reader = Reader::from_str(xml);
    let mut open = vec![Element::default()];
    let element = |start: &quick_xml::events::BytesStart| Element {
        name: String::from_utf8(start.name().as_ref().to_vec()).unwrap(),
        attributes: start
            .attributes()
            .map(|a| a.unwrap())
            .map(|a| {
                (
                    String::from_utf8(a.key.as_ref().to_vec()).unwrap(),
                    String::from_utf8_lossy(&a.value).into(),
                )
            })
            .collect(),
        ..Element::default()
    };
    loop {
        match reader.read_event().unwrap() {
            Event::Start(start) => open.push(element(&start)),
            Event::Empty(start) => {
                let empty = element(&start);
                open.last_mut().unwrap().children.push(empty);
            }
            Event::End(_) => {
                let done = open.pop().unwrap();
                open.last_mut().unwrap().children.push(done);
            }
            Event::Text(text) => open.last_mut().unwrap().text += &String::from_utf8_lossy(&text),
            Event::Eof => break,
            _ => {}
        }
    }
    assert_eq!((open.len(), open[0].children.len()), (1, 1), "one root, and everything closed");
    open.remove(0).children.remove(0)
}

/// The permitted children and attributes of an element; first the required ones, up to the bar. `skipped` for
/// all suites together is not in the schema, but readers know it from other writers.
const RULES: &[(&str, &str, &str)] = &[
    ("testsuites", "testsuite", "| name time tests failures disabled errors skipped"),
    (
        "testsuite",
        "properties testcase system-out system-err",
        "name tests | failures errors time disabled skipped timestamp hostname id package",
    ),
    (
        "testcase",
        "skipped error failure system-out system-err",
        "name classname | time status assertions timestamp",
    ),
    ("skipped", "", "| message type"),
    ("failure", "", "| message type"),
    ("error", "", "| message type"),
];

fn check(e: &Element) {
    let (_, children, attributes) =
        RULES.iter().find(|r| r.0 == e.name).unwrap_or_else(|| panic!("<{}> is no element of JUnit", e.name));
    let (required, allowed) = attributes.split_once('|').unwrap();
    assert!(required.split_whitespace().all(|name| !e.attribute(name).is_empty()), "{e:?}");
    let may = |list: &str, name: &str| list.split_whitespace().any(|n| n == name);
    for (name, value) in &e.attributes {
        assert!(may(required, name) || may(allowed, name), "<{}> has no attribute {name}", e.name);
        let is_count = ["tests", "failures", "errors", "disabled", "skipped"].contains(&name.as_str());
        assert!(!is_count || value.parse::<u32>().is_ok(), "{name}={value}");
        assert!(name != "time" || value.parse::<f64>().is_ok_and(|s| s >= 0.0), "{name}={value}");
    }
    for child in &e.children {
        assert!(may(children, &child.name), "<{}> stands in <{}>", child.name, e.name);
        check(child);
    }
    if e.name.starts_with("testsuite") {
        for (count, of) in [("tests", "testcase"), ("failures", "failure"), ("errors", "error")] {
            assert_eq!(e.attribute(count), e.all(of).to_string(), "{count} of <{}>", e.name);
        }
    }
}

fn report(verdict: Ruling, exit_status: i32) -> VerifyReport {
    let who = "a <b> & \"c\" \u{1b}[2J";
    let judged = Verdict {
        verdict,
        doubt: None,
        method: corun_predict::Method::Ledger,
        disturbance: 0.12,
        disturbance_range: [0.12; 2],
        spare: 0.0,
        stopped_anyway: 0.0,
        may_have_spun: false,
        max_disturbance: 0.02,
        resolution: 0.001,
        wall_ns: 4_000_000_000,
        undisturbed_ns: 3_520_000_000,
        held: Some(0.0),
        outside: Some(0.0),
        servers: None,
        cut_short: None,
        corunners_ns: 600_000_000,
        host_steal: None,
        unseen_ns: 0,
        watcher_ns: None,
        pace: None,
        culprits: vec![Culprit { tenant: Some(who.into()), kind: "command".into(), steal_ns: 1, share: 1.0 }],
        intervals: vec![Disturbance {
            start_ns: 0,
            end_ns: 1_000_000_000,
            disturbance: 0.48,
            culprit: Some(who.into()),
        }],
        unavailable: vec![],
    };
    let command = "./bench --name 'x < y' \u{7}".into();
    VerifyReport::new(VerifyMeta { command, exit_status, ..VerifyMeta::default() }, judged, &[], &[])
}

#[test]
fn junit_is_valid_for_its_readers_whatever_the_result_of_the_run() {
    for (verdict, status, failures, errors) in [
        (Ruling::Clean, 0, 0, 0),
        (Ruling::Disturbed, 0, 1, 0),
        (Ruling::Unclear, 0, 0, 0),
        (Ruling::Clean, 7, 0, 1),
        (Ruling::Disturbed, 139, 0, 1),
    ] {
        let xml = report(verdict, status).junit();
        let root = read(&xml);
        assert_eq!(root.name, "testsuites", "{xml}");
        check(&root);
        assert_eq!((root.all("failure"), root.all("error")), (failures, errors), "{xml}");
        let case = &root.children[0].children[0];
        assert_eq!(case.attribute("time"), "4.000", "seconds: {xml}");
        for bad in &case.children {
            assert!(!bad.attribute("message").is_empty() && !bad.attribute("type").is_empty(), "{xml}");
            assert!(bad.text.contains("corun verify"), "{xml}");
        }
        assert!(!xml.contains('\u{1b}') && !xml.contains('\u{7}'), "{xml}");
    }
}
