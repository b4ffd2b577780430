//! The HTML page: self-contained, escaped, complete, the same bytes for the same input.

use crate::example::{alone, meta, timeline, whole, Did, SUBJECT};
use corun_report::{html, json, ProfileMeta, ProfileReport, Subject};

fn report(subject: impl Into<Subject>) -> ProfileReport {
    let slots = timeline();
    ProfileReport::new(&meta(), &whole(&slots), subject, &slots)
}

/// The text of the embedded JSON element.
fn embedded(page: &str) -> &str {
    let (_, rest) = page.split_once("id=\"corun-profile\">").expect("the page embeds its JSON");
    rest.split_once("</script>").expect("the element ends").0
}

#[test]
fn the_page_needs_nothing_but_itself() {
    let page = html::render(&report(SUBJECT));
    for outside in ["http:", "https:", "src=", "href=", "@import", "url("] {
        assert!(!page.contains(outside), "{outside}");
    }
    assert!(page.contains("default-src 'none'"));
}

#[test]
fn a_process_called_script_stays_a_name() {
    let hostile = ProfileMeta {
        target: "</title><script>alert(2)</script>".to_owned(),
        notes: vec!["<img onerror=alert(3)>".to_owned()],
        ..meta()
    };
    let slots = timeline();
    for subject in [Subject::Tenant(SUBJECT), Subject::All] {
        let page = html::render(&ProfileReport::new(&hostile, &whole(&slots), subject, &slots));
        assert_eq!(page.matches("<script").count(), 2, "only the page's own two");
        assert!(page.contains("&lt;script&gt;"));
        assert!(!page.contains("<img") && !page.contains('\x1b'));
    }
}

#[test]
fn the_embedded_json_is_the_report() {
    let report = report(SUBJECT);
    assert_eq!(json::read(embedded(&html::render(&report))).unwrap(), report);
}

#[test]
fn the_same_input_gives_the_same_page() {
    assert_eq!(html::render(&report(SUBJECT)), html::render(&report(SUBJECT)));
}

#[test]
fn the_parts_of_every_bar_fill_the_life_of_its_task() {
    let page = html::render(&report(SUBJECT));
    let (_, rows) = page.split_once("<table class=\"tasks\">").unwrap();
    let (rows, _) = rows.split_once("</table>").unwrap();
    let bars: Vec<f64> = rows
        .split("<div class=\"bar\">")
        .skip(1)
        .map(|bar| {
            bar.split("width:").skip(1).map(|w| w.split('%').next().unwrap().parse::<f64>().unwrap()).sum()
        })
        .collect();
    assert_eq!(bars.len(), 5);
    assert!(bars.iter().all(|width| (width - 100.0).abs() < 0.02), "{bars:?}");
}

#[test]
fn an_overflowing_wait_is_marked_and_says_and_longer() {
    let mut seen = alone(&Did { compute_ns: 500_000_000, unattributed_ns: 1, ..Did::default() });
    for t in &mut seen.by_tenant {
        t.account.waits.as_mut().expect("the example has waits").record(u64::MAX);
    }
    let page = html::render(&ProfileReport::new(&meta(), &seen, SUBJECT, &[]));
    assert!(page.contains("8.59 s and longer: 1"));
    assert!(page.contains("class=\"hatch\""));
    assert!(page.contains("p99 at least 8.59 s"));
}

#[test]
fn an_almost_empty_page_is_still_a_page() {
    let mut seen = alone(&Did::default());
    seen.by_tenant.clear();
    seen.tasks.clear();
    seen.cpus.clear();
    seen.end_ns = seen.start_ns;
    let page = html::render(&ProfileReport::new(&meta(), &seen, SUBJECT, &[]));
    assert!(page.contains("streamcluster had no task in this window"));
    assert!(!page.contains("NaN") && !page.contains("inf%"));
}

#[test]
fn ten_thousand_tasks_and_a_thousand_tenants_make_a_page_of_bounded_length() {
    let report = crowd(10_000, 1_000);
    let page = html::render(&report);
    assert!(page.contains("9,484 more tasks that lost less"));
    assert!(page.matches("<tr").count() < 700, "{}", page.matches("<tr").count());
    let carried = json::read(embedded(&page)).unwrap();
    assert_eq!(
        (carried.tasks.len(), carried.loss.unlisted_tasks),
        (1_000, 9_000),
        "what is left out is counted"
    );
}

/// A report of many tasks and tenants: the subject has all the tasks, every tenant took a little.
fn crowd(tasks: u32, tenants: u32) -> ProfileReport {
    let one = alone(&Did { compute_ns: 500_000_000, stolen: vec![(SUBJECT, 1_000_000)], ..Did::default() });
    let mut report = ProfileReport::new(&meta(), &one, SUBJECT, &[]);
    let task = report.tasks[0].clone();
    report.tasks = (0..tasks)
        .map(|i| {
            let mut t = task.clone();
            t.tid = i + 1;
            t
        })
        .collect();
    let section = report.tenants[0].clone();
    let culprit = section.account.culprits[0].clone();
    report.tenants = (0..tenants)
        .map(|i| {
            let mut s = section.clone();
            s.tenant.id = i + 1;
            s.account.culprits = (1..=20)
                .map(|n| {
                    let mut c = culprit.clone();
                    c.tenant.id = (i + n) % tenants + 1;
                    (c.tenant.name, c.steal_ns) = (format!("tenant-{}", c.tenant.id), 50_000);
                    c
                })
                .collect();
            s
        })
        .collect();
    report.check().expect("a report that holds");
    report
}
