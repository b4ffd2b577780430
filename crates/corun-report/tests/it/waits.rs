//! The longest waits of a report: as text, as JSON, and refused ones.

use crate::example::{meta, timeline, whole, COMPILER, POSTGRES, SUBJECT};
use corun_model::run_log::Waker;
use corun_model::waits::{Began, Holder, Part, Wait};
use corun_model::{CpuId, TaskId, TenantId};
use corun_report::terminal::{render, Style};
use corun_report::{json, ProfileMeta, ProfileReport};

fn part(cpu: u32, holder: Holder, ns: u64, turns: u64) -> Part {
    Part { cpu: CpuId(cpu), holder, ns, turns }
}

fn task(id: u32, name: &str, tenant: TenantId) -> Holder {
    Holder::Task { task: TaskId(id), name: name.into(), tenant: Some(tenant) }
}

/// Three waits of the subject that began `at_ns` after its window.
fn waits(start_ns: u64) -> Vec<Wait> {
    let wait = |at_ns: u64, began, parts: Vec<Part>| {
        let ns: u64 = parts.iter().map(|p| p.ns).sum();
        Wait {
            task: TaskId(4101),
            name: "worker".into(),
            began_ns: start_ns + at_ns,
            ended_ns: start_ns + at_ns + ns,
            is_over: true,
            cpu: CpuId(1),
            began,
            parts,
        }
    };
    let crowd = (0..9).map(|n| part(1, task(700 + n, "cc1", COMPILER), 100_000, 1));
    vec![
        wait(
            1_234_000_000,
            Began::Preempted,
            vec![
                part(0, task(900, "postgres", POSTGRES), 8_000_600, 3),
                part(1, task(4100, "main", SUBJECT), 4_000_600, 1),
                part(1, Holder::Budget, 500_600, 1),
            ],
        ),
        wait(
            2_000_000_000,
            Began::WokenBy { task: TaskId(900), name: "postgres".into() },
            [part(1, Holder::Idle, 60_000, 1)].into_iter().chain(crowd).collect(),
        ),
        Wait {
            is_over: false,
            ..wait(9_000_000_000, Began::Woken(Waker::Interrupt), vec![part(1, Holder::Unknown, 40_000, 1)])
        },
    ]
}

fn report(with: impl Fn(&mut Vec<Wait>)) -> ProfileReport {
    let slots = timeline();
    let seen = whole(&slots);
    let mut waits = waits(seen.start_ns);
    with(&mut waits);
    ProfileReport::new(&ProfileMeta { worst_waits: Some(waits), ..meta() }, &seen, SUBJECT, &slots)
}

#[test]
fn each_wait_names_the_task_the_time_the_place_the_reason_and_the_occupants_of_the_cpu() {
    let screen = render(&report(|_| ()), &Style::plain(100));
    let from = screen.find("Longest waits").expect("they are there");
    let lines: Vec<&str> = screen[from..].lines().take_while(|line| !line.is_empty()).collect();
    insta::assert_snapshot!(lines.join("\n"));
    assert!(screen.lines().all(|line| line.chars().count() <= 100), "{screen}");
}

#[test]
fn a_request_for_waits_of_a_task_without_any_is_answered_and_without_a_request_nothing_is_printed() {
    let none = render(&report(Vec::clear), &Style::plain(80));
    assert!(none.contains("No task waited for a CPU."), "{none}");
    let slots = timeline();
    let unasked = ProfileReport::new(&meta(), &whole(&slots), SUBJECT, &slots);
    assert_eq!(unasked.worst_waits, None);
    assert!(!render(&unasked, &Style::plain(80)).contains("waited for a CPU."));
}

#[test]
fn the_page_has_the_same_text_for_each_wait_as_the_screen() {
    let page = corun_report::html::render(&report(|waits| waits[0].name = "<b>".into()));
    let (_, from) = page.split_once("<h2>Longest waits for a CPU</h2>").expect("they are there");
    let (section, _) = from.split_once("</section>").unwrap();
    assert_eq!(section.matches("<li>").count(), 3, "{section}");
    assert!(
        section.contains("12,502\u{a0}µs from 1.23 s on: &lt;b&gt; (4101) on CPU 1, preempted"),
        "{section}"
    );
    assert!(section.contains("its CPU budget was used up"), "{section}");
    let none = corun_report::html::render(&report(Vec::clear));
    assert!(none.contains("No task waited for a CPU."), "{none}");
    let slots = timeline();
    let unasked = ProfileReport::new(&meta(), &whole(&slots), SUBJECT, &slots);
    assert!(!corun_report::html::render(&unasked).contains("Longest waits"));
}

#[test]
fn waits_are_read_back_as_they_were_written_and_every_field_is_explained() {
    let report = report(|_| ());
    assert_eq!(json::read(&json::indented(&report)).unwrap(), report);
    let documented = include_str!("../../../../docs/json.md");
    let wait = serde_json::to_value(&report.worst_waits.as_ref().unwrap()[0]).unwrap();
    for name in wait.as_object().unwrap().keys() {
        assert!(documented.contains(&format!("`{name}`")), "docs/json.md does not explain {name}");
    }
    for name in wait["parts"][0].as_object().unwrap().keys() {
        assert!(documented.contains(&format!("`parts[].{name}`")), "docs/json.md does not explain {name}");
    }
}

#[test]
fn a_report_whose_waits_do_not_sum_or_end_too_late_is_refused() {
    let wrong = |with: fn(&mut Vec<Wait>)| report(with).check().unwrap_err().join("; ");
    assert!(wrong(|waits| waits[0].parts[0].ns += 1).contains("its parts sum to"));
    assert!(wrong(|waits| waits.reverse()).contains("not in the order of their lengths"));
    assert!(wrong(|waits| {
        waits[0].began_ns += 20_000_000_000;
        waits[0].ended_ns += 20_000_000_000;
    })
    .contains("it ends after the window"));
}
