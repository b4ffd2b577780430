//! The result of scrapes, from invented windows: names, sums, bounds, and cost.

use crate::made::{window, window_of, WINDOW_NS};
use corun_agent::exposition::{takes_gzip, Exposition, Format};
use corun_agent::metrics::{Exports, Kind, Own, METRICS};
use corun_agent::totals::{Totals, CATEGORIES, LINGER_NS};
use corun_model::Histogram;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

/// Samples by name and labels, as a scraper reads them, without exemplars.
pub fn samples(text: &str) -> BTreeMap<(String, BTreeMap<String, String>), f64> {
    let sample = |line: &str| {
        let line = line.split_once(" # {").map_or(line, |(sample, _)| sample);
        let (series, value) = line.rsplit_once(' ').unwrap();
        let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
        let mut labels_of = BTreeMap::new();
        let mut rest = labels.strip_suffix('}').unwrap();
        while let Some((key, after)) = rest.split_once("=\"") {
            let end = after
                .char_indices()
                .scan(false, |escaped, (at, c)| {
                    let is_end = c == '"' && !*escaped;
                    *escaped = c == '\\' && !*escaped;
                    Some((at, is_end))
                })
                .find(|(_, is_end)| *is_end)
                .unwrap()
                .0;
            labels_of.insert(key.trim_start_matches(',').to_owned(), after[..end].to_owned());
            rest = &after[end + 1..];
        }
        ((name.to_owned(), labels_of), value.parse().unwrap())
    };
    let lines: Vec<_> = text.lines().filter(|l| !l.starts_with('#') && !l.is_empty()).map(sample).collect();
    let count = lines.len();
    let samples: BTreeMap<_, _> = lines.into_iter().collect();
    assert_eq!(samples.len(), count, "a series is there twice");
    samples
}

pub fn exposition(totals: &Arc<Mutex<Totals>>) -> Exposition {
    Exposition::new(totals.clone(), || Own {
        source: "ebpf".into(),
        sees_culprits: true,
        is_ready: true,
        ring: Some((3, 1, 4_096)),
        otlp: Some(Exports { delivered: 5, rejected: 1, failed: 2, rejected_points: 7 }),
        connections: (1, 2),
        cpu_ns: 5_000_000,
        began_ns: 0,
    })
}

/// All metrics in one of the two text formats.
pub fn text(exposition: &Exposition, format: Format) -> String {
    String::from_utf8(bytes(exposition, format)).unwrap()
}

/// All metrics in a format.
pub fn bytes(exposition: &Exposition, format: Format) -> Vec<u8> {
    exposition.encode(format).iter().flat_map(|part| part.to_vec()).collect()
}

pub fn totals(most: usize) -> Arc<Mutex<Totals>> {
    Arc::new(Mutex::new(Totals::new(most)))
}

/// What culprits took from each victim, what was dropped with it, and each victim's steal.
fn check_sums(text: &str) {
    let samples = samples(text);
    let sum = |name: &str, label: &str, filter: &dyn Fn(&BTreeMap<String, String>) -> bool| {
        let mut sums: BTreeMap<String, f64> = BTreeMap::new();
        for ((of, labels), value) in samples.iter().filter(|((of, l), _)| of == name && filter(l)) {
            assert!(!of.is_empty());
            *sums.entry(labels[label].clone()).or_default() += value;
        }
        sums
    };
    let is_steal = |l: &BTreeMap<String, String>| l["category"] == "steal";
    let steal = sum("corun_tenant_seconds_total", "tenant", &is_steal);
    let mut blamed = sum("corun_blame_seconds_total", "victim", &|_| true);
    for (victim, seconds) in sum("corun_blame_dropped_seconds_total", "victim", &|_| true) {
        *blamed.entry(victim).or_default() += seconds;
    }
    assert!(steal.len() >= blamed.len() && !blamed.is_empty());
    for (tenant, seconds) in &steal {
        let blamed = blamed.get(tenant).copied().unwrap_or(0.0);
        assert!(
            (seconds - blamed).abs() < 1e-9,
            "{tenant}: {seconds} s stolen, {blamed} s blamed on somebody"
        );
    }
}

/// A culprit has the label of a tenant, or is one of the words.
fn check_names(text: &str) {
    let samples = samples(text);
    let of = |name: &'static str, label: &'static str| {
        samples.keys().filter(move |(of, _)| of == name).map(move |(_, l)| &*l[label])
    };
    let tenants: BTreeSet<&str> = of("corun_tenant_seconds_total", "tenant").collect();
    let words = ["self", "kernel", "corun", "idle", "other", "unattributed"];
    for culprit in of("corun_blame_seconds_total", "culprit") {
        assert!(words.contains(&culprit) || tenants.contains(culprit), "{culprit} is no tenant");
    }
}

#[test]
fn culprits_sum_to_the_steal_of_every_victim_and_categories_to_its_time() {
    let totals = totals(1_000);
    let exposition = exposition(&totals);
    let mut all_ns = 0;
    for n in 0..50 {
        // The victims and culprits change all the time, so more than eight take from each.
        let seen = window_of(n, 30, |victim| (victim + 1 + n as u32 % 13) % 30);
        all_ns += seen.by_tenant.iter().map(|t| t.account.ledger.total_ns()).sum::<u64>();
        totals.lock().unwrap().push(&seen);
        check_sums(&text(&exposition, Format::Prometheus));
        check_names(&text(&exposition, Format::Prometheus));
    }
    let text = text(&exposition, Format::Prometheus);
    let samples = samples(&text);
    let seconds = |name: &str| samples.iter().filter(|((of, _), _)| of == name).map(|(_, v)| v).sum::<f64>();
    assert!((seconds("corun_tenant_seconds_total") - all_ns as f64 / 1e9).abs() < 1e-6);
    assert!((seconds("corun_node_task_seconds_total") - all_ns as f64 / 1e9).abs() < 1e-6);
    let of_web_0: Vec<&str> = samples
        .keys()
        .filter(|(of, l)| of == "corun_blame_seconds_total" && l["victim"] == "web-0.service")
        .map(|(_, l)| &*l["culprit"])
        .collect();
    assert!(of_web_0.contains(&"other") && of_web_0.len() <= 8 + 6, "{of_web_0:?}");
}

#[test]
fn tenants_without_room_are_summed_in_other_and_counted() {
    let totals = totals(5);
    let exposition = exposition(&totals);
    totals.lock().unwrap().push(&window(0, 50));
    let text = text(&exposition, Format::Prometheus);
    check_sums(&text);
    let samples = samples(&text);
    let tenants: BTreeSet<&str> = samples
        .keys()
        .filter(|(of, _)| of == "corun_tenant_seconds_total")
        .map(|(_, l)| &*l["tenant"])
        .collect();
    assert_eq!(tenants.len(), 5 + 1, "{tenants:?}");
    let single = |name: &str| samples[&(name.to_owned(), BTreeMap::new())];
    assert_eq!(single("corun_dropped_tenants_total"), 45.0);
    assert_eq!(single("corun_tenants"), 5.0);
}

/// The seconds of a tenant in the scrape.
fn seconds_of(samples: &BTreeMap<(String, BTreeMap<String, String>), f64>, tenant: &str) -> Option<f64> {
    let its =
        samples.iter().filter(|((name, l), _)| name == "corun_tenant_seconds_total" && l["tenant"] == tenant);
    its.map(|(_, seconds)| *seconds).reduce(|a, b| a + b)
}

/// A window like [`window`], in which only the given tenants ran, for the given times.
fn idle_but(n: u64, tenants: u32, ran: &[(u32, u64)]) -> corun_model::Observation {
    let mut seen = window(n, tenants);
    for (t, task) in seen.tasks.iter_mut().enumerate() {
        let ran_ns = ran.iter().find(|(busy, _)| *busy as usize == t).map_or(0, |(_, ns)| *ns);
        seen.by_tenant[t].account = crate::made::account(ran_ns, &[]);
        task.account = seen.by_tenant[t].account.clone().into();
    }
    seen.check().unwrap();
    seen
}

#[test]
fn without_room_names_that_people_ask_for_come_first_and_then_the_greatest_demand() {
    let (totals, most) = (totals(1_000), 1_000);
    let exposition = exposition(&totals);
    totals.lock().unwrap().push(&idle_but(0, most, &[]));
    let (step, busy, idle) = (most, most + 1, most + 2);
    let mut before = samples(&text(&exposition, Format::Prometheus));
    for n in 1..8 {
        let mut seen = idle_but(n, most + 3, &[(busy, 500_000_000)]);
        seen.tenants[step as usize].kind = corun_model::TenantKind::SlurmStep;
        totals.lock().unwrap().push(&seen);
        let text = text(&exposition, Format::Prometheus);
        check_sums(&text);
        let now = samples(&text);
        let seconds = |t: u32| seconds_of(&now, &seen.tenants[t as usize].name);
        let all_ns = |t: u32| seen.by_tenant[t as usize].account.ledger.total_ns();
        assert!(seconds(step).is_some_and(|s| (s - n as f64).abs() < 1e-6), "window {n}: all of it is there");
        assert_eq!(seconds(busy).is_some(), n >= 3, "window {n}: it is 3 s old then");
        assert_eq!(seconds(idle), None, "window {n}");
        // Nothing is lost: a tenant without series now was counted in `other`.
        let others_ns: u64 = (0..most + 3).filter(|t| seconds(*t).is_none()).map(all_ns).sum();
        let of_others = [&now, &before].map(|samples| seconds_of(samples, "other").unwrap_or(0.0));
        let grown = of_others[0] - of_others[1];
        assert!((grown - others_ns as f64 / 1e9).abs() < 1e-6, "window {n}: {grown} s, not {others_ns} ns");
        let single = |name: &str| now[&(name.to_owned(), BTreeMap::new())];
        assert_eq!(single("corun_tenants"), 1_000.0);
        // One for the step; from its third second on another one for the busy tenant, and the idle one.
        assert_eq!(single("corun_dropped_tenants_total"), if n < 3 { 1.0 } else { 3.0 }, "window {n}");
        before = now;
    }
}

#[test]
fn places_do_not_flip_back_and_forth_among_tenants_with_similar_demand() {
    let totals = totals(10);
    let exposition = exposition(&totals);
    let names = || {
        let samples = samples(&text(&exposition, Format::Prometheus));
        let of_tenants = samples.into_keys().filter(|(of, _)| of == "corun_tenant_info");
        of_tenants.map(|(_, l)| l["tenant"].clone()).collect::<BTreeSet<String>>()
    };
    totals.lock().unwrap().push(&window(0, 20));
    let before = names();
    for n in 1..1_000 {
        totals.lock().unwrap().push(&window_of(n, 20, |victim| (victim + 1 + n as u32 % 13) % 20));
    }
    assert_eq!(names(), before);
    assert_eq!(totals.lock().unwrap().node.dropped_tenants, 10);
}

#[test]
fn tenants_that_come_in_one_window_do_not_take_each_others_place() {
    let totals = totals(3);
    totals.lock().unwrap().push(&window(0, 2));
    let mut seen = window(1, 4);
    (2..4).for_each(|t| seen.tenants[t].kind = corun_model::TenantKind::Pod);
    totals.lock().unwrap().push(&seen);
    let samples = samples(&text(&exposition(&totals), Format::Prometheus));
    for t in [1, 2, 3] {
        assert!(seconds_of(&samples, &seen.tenants[t].name).is_some(), "{t}");
    }
    assert_eq!(totals.lock().unwrap().node.dropped_tenants, 1);
}

#[test]
fn counters_never_fall_and_series_end_together_once_their_tenant_has_ended() {
    let totals = totals(1_000);
    let exposition = exposition(&totals);
    let mut before = BTreeMap::new();
    let linger = LINGER_NS / WINDOW_NS;
    for n in 0..2 * linger + 10 {
        let tenants = if n < 5 { 20 } else { 2 };
        totals.lock().unwrap().push(&window(n, tenants));
        let text = text(&exposition, Format::Prometheus);
        let now = samples(&text);
        for (series, value) in
            before.iter().filter(|((name, _), _): &(&(String, _), _)| name.ends_with("_total"))
        {
            let later = now.get(series);
            assert!(later.is_none_or(|later| later >= value), "{series:?} fell");
        }
        let of_ended = now
            .keys()
            .filter(|(_, l)| l.values().any(|v| v == "web-9.service") && !l.contains_key("culprit"));
        let ended = of_ended.count();
        if n >= 5 {
            // Its last window was the fifth.
            assert_eq!(ended > 0, n < 4 + linger, "window {n}: {ended} series");
        }
        before = now;
    }
}

#[test]
fn a_young_tenant_is_in_other_and_no_short_lived_one_makes_series() {
    let totals = totals(1_000);
    let exposition = exposition(&totals);
    totals.lock().unwrap().push(&window(0, 2));
    let series_before = samples(&text(&exposition, Format::Prometheus)).len();
    for n in 1..300 {
        let mut seen = window(n, 3);
        // The third one is a different one in every window.
        let id = corun_model::TenantId(10 + n as u32);
        seen.tenants[2].id = id;
        seen.tenants[2].key = format!("unit:{n}");
        seen.tenants[2].name = format!("short-{n}.service");
        seen.by_tenant[2].id = id;
        seen.by_tenant[1].account = crate::made::account(1_000, &[(id.0, 5_000)]);
        totals.lock().unwrap().push(&seen);
    }
    let text = text(&exposition, Format::Prometheus);
    assert!(!text.contains("short-"), "{text}");
    check_sums(&text);
    assert!(samples(&text).len() <= series_before + 30);
}

#[test]
fn a_tenant_that_people_ask_for_by_name_has_series_from_its_first_moment_on() {
    let totals = totals(1_000);
    let exposition = exposition(&totals);
    totals.lock().unwrap().push(&window(0, 2));
    let mut seen = window(1, 4);
    seen.tenants[2].kind = corun_model::TenantKind::SlurmStep;
    seen.tenants[2].name = "slurm 47.batch".into();
    totals.lock().unwrap().push(&seen);
    let text = text(&exposition, Format::Prometheus);
    let samples = samples(&text);
    let all_ns = seen.by_tenant[2].account.ledger.total_ns();
    let is_its = |(name, labels): &(String, BTreeMap<String, String>)| {
        name == "corun_tenant_seconds_total" && labels["tenant"] == "slurm 47.batch"
    };
    let seconds: f64 = samples.iter().filter(|(series, _)| is_its(series)).map(|(_, s)| s).sum();
    assert!((seconds - all_ns as f64 / 1e9).abs() < 1e-9, "{seconds} s of {all_ns} ns");
    assert!(text.contains(r#"victim="web-1.service",culprit="slurm 47.batch""#), "{text}");
    assert!(!text.contains("web-3.service"), "a unit is young: {text}");
    check_sums(&text);
}

#[test]
fn every_metric_is_described_and_has_its_stated_labels() {
    let totals = totals(10);
    totals.lock().unwrap().push(&window(0, 40));
    for format in [Format::Prometheus, Format::OpenMetrics] {
        let text = text(&exposition(&totals), format);
        for ((name, labels), _) in samples(&text) {
            let base = ["_bucket", "_sum", "_count"].iter().find_map(|s| name.strip_suffix(s));
            let metric = METRICS.iter().find(|m| m.name == name || Some(m.name) == base);
            let metric = metric.unwrap_or_else(|| panic!("{name} is not described"));
            assert_eq!(base.is_some(), metric.kind == Kind::Histogram, "{name}");
            let has: BTreeSet<&str> = labels.keys().map(|k| &**k).filter(|k| *k != "le").collect();
            assert_eq!(has, metric.labels.iter().copied().collect(), "{name}");
        }
    }
    let text = text(&exposition(&totals), Format::Prometheus);
    for metric in METRICS {
        assert!(
            text.contains(&format!("# TYPE {} {}\n", metric.name, metric.kind.name())),
            "{}",
            metric.name
        );
    }
}

#[test]
fn a_scraper_gets_its_preferred_format() {
    let protobuf =
        "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited";
    for (accept, format) in [
        ("", Format::Prometheus),
        ("*/*", Format::Prometheus),
        ("text/html, application/xhtml+xml, */*;q=0.8", Format::Prometheus),
        ("application/openmetrics-text; version=1.0.0; charset=utf-8,text/plain;q=0.5", Format::OpenMetrics),
        ("text/plain;version=0.0.4;q=0.5,application/openmetrics-text;q=0.4", Format::Prometheus),
        (&format!("{protobuf},application/openmetrics-text;version=1.0.0;q=0.8,*/*;q=0.1"), Format::Protobuf),
        (&format!("{protobuf};q=0.3,application/openmetrics-text;version=1.0.0;q=0.6"), Format::OpenMetrics),
        (
            "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=text",
            Format::Prometheus,
        ),
        ("application/openmetrics-text;q=0", Format::Prometheus),
        ("application/openmetrics-text;q=much", Format::Prometheus),
    ] {
        assert_eq!(Format::accepted(accept), format, "{accept}");
    }
}

#[test]
fn scrapers_share_what_was_seen_in_a_window_and_each_gets_what_the_agent_knows_of_itself_now() {
    let totals = totals(30);
    let asked = Arc::new(std::sync::atomic::AtomicU64::new(0));
    let of_own = asked.clone();
    let exposition = Exposition::new(totals.clone(), move || Own {
        cpu_ns: 1_000_000_000 * of_own.fetch_add(1, std::sync::atomic::Ordering::Relaxed),
        ..Own::default()
    });
    let single = |text: &str, name: &str| samples(text)[&(name.to_owned(), BTreeMap::new())];
    let mut passed = 0;
    let mut pass = || {
        totals.lock().unwrap().push(&window(passed, 20));
        passed += 1;
    };
    for format in [Format::Prometheus, Format::OpenMetrics, Format::Protobuf] {
        pass();
        let first = exposition.encode(format);
        let second = exposition.encode(format);
        assert!(Arc::ptr_eq(&first[0], &second[0]), "{format:?} is written twice");
        let before = first[0].to_vec();
        pass();
        assert_ne!(*exposition.encode(format)[0], before, "{format:?} is of the window before");
        assert_eq!(*first[0], before, "who is slow is still sent what it began with");
    }
    for _ in 0..3 {
        let before = text(&exposition, Format::Prometheus);
        let after = text(&exposition, Format::Prometheus);
        let own = |text: &str| single(text, "corun_agent_cpu_seconds_total");
        assert_eq!(own(&after), own(&before) + 1.0, "no window has passed");
        pass();
        let later = text(&exposition, Format::Prometheus);
        let windows = |text: &str| single(text, "corun_windows_total");
        assert_eq!((windows(&after), windows(&later)), (windows(&before), windows(&before) + 1.0));
    }
    // The memory of a page is that of the page before, unless somebody still reads that one.
    let memory = |page: &[Arc<Vec<u8>>]| (page[0].as_ptr(), page[0].capacity());
    let first = memory(&exposition.encode(Format::Prometheus));
    for _ in 0..100 {
        pass();
        assert_eq!(memory(&exposition.encode(Format::Prometheus)), first);
    }
}

#[test]
fn a_scraper_that_takes_gzip_gets_the_same_page_and_it_is_compressed_once_in_a_window() {
    for (line, takes) in [
        ("gzip", true),
        ("deflate, gzip;q=1.0, *;q=0.5", true),
        ("GZIP", true),
        ("", false),
        ("identity", false),
        ("gzip;q=0", false),
    ] {
        assert_eq!(takes_gzip(line), takes, "{line}");
    }
    let totals = totals(30);
    let exposition = exposition(&totals);
    for passed in 0..5 {
        totals.lock().unwrap().push(&window(passed, 20));
        for format in [Format::Prometheus, Format::OpenMetrics, Format::Protobuf] {
            let page = exposition.encode_zipped(format);
            let zipped: Vec<u8> = page.iter().flat_map(|part| part.to_vec()).collect();
            let mut read = Vec::new();
            std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(&zipped[..]), &mut read).unwrap();
            assert!(read == bytes(&exposition, format), "{format:?} differs");
            assert!(zipped.len() < read.len() / 3, "{} of {} bytes", zipped.len(), read.len());
            assert!(
                Arc::ptr_eq(&page[1], &exposition.encode_zipped(format)[1]),
                "{format:?} is compressed twice"
            );
        }
    }
}

#[test]
fn the_longest_wait_of_each_tenant_lately_is_an_exemplar_in_its_bucket() {
    let totals = totals(30);
    totals.lock().unwrap().ahead_ns = 1_700_000_000_000_000_000;
    totals.lock().unwrap().push(&window(0, 3));
    let exposition = exposition(&totals);
    // A wait of 2,000,011 ns, the window's end, and who had the CPU.
    let line = r#"corun_wait_seconds_bucket{tenant="web-0.service",le="0.004194304"} 1 # {tid="1000",thread="web",culprit="web-1.service"} 0.001572864 1700000001.000"#;
    let of_open_metrics = text(&exposition, Format::OpenMetrics);
    assert!(of_open_metrics.lines().any(|l| l == line), "{of_open_metrics}");
    assert_eq!(of_open_metrics.matches(" # {").count(), 3, "one for each tenant");
    assert!(!text(&exposition, Format::Prometheus).contains(" # {"), "that format has none");
    // A shorter one does not take its place.
    let mut shorter = window(1, 3);
    for task in &mut shorter.tasks {
        let mut waits = Histogram::default();
        waits.record(5_000);
        Arc::make_mut(&mut task.account).waits = Some(waits);
    }
    totals.lock().unwrap().push(&shorter);
    assert!(text(&exposition, Format::OpenMetrics).contains("0.001572864 1700000001.000"));
}

#[test]
fn a_name_of_any_characters_is_escaped() {
    let totals = totals(10);
    let mut seen = window(0, 2);
    seen.tenants[0].name = "a\"b\\c\nd".into();
    totals.lock().unwrap().push(&seen);
    let text = text(&exposition(&totals), Format::Prometheus);
    assert!(text.contains(r#"tenant="a\"b\\c\nd""#), "{text}");
    check_sums(&text);
}

#[test]
fn categories_have_the_names_of_the_json_of_a_profile() {
    let ledger = serde_json::to_value(corun_report::profile::schema::Ledger::default()).unwrap();
    let fields: BTreeSet<String> = ledger.as_object().unwrap().keys().cloned().collect();
    let mut named: BTreeSet<String> = CATEGORIES.iter().map(|c| format!("{c}_ns")).collect();
    named.insert("total_ns".into());
    assert_eq!(fields, named);
}

#[test]
fn contention_is_the_share_of_waiting_for_others_and_excludes_throttling() {
    let mut totals = Totals::new(10);
    assert_eq!(totals.contended_ratio(), None, "nothing was seen yet");
    for n in 0..30 {
        totals.push(&window(n, 4));
    }
    let seen = window(29, 4);
    let had: u64 = seen.by_tenant.iter().map(|t| t.account.ledger.on_cpu_ns()).sum();
    let waited: u64 = seen.by_tenant.iter().map(|t| t.account.ledger.parts().steal_ns).sum();
    let ratio = totals.contended_ratio().unwrap();
    assert!((ratio - waited as f64 / (had + waited) as f64).abs() < 1e-3, "{ratio}");
}

/// The number of windows for a long time; `CORUN_WINDOWS=1000000` for a week.
#[test]
fn a_long_time_with_tenants_that_come_and_go_makes_it_no_larger() {
    let windows: u64 = std::env::var("CORUN_WINDOWS").map_or(3_000, |n| n.parse().unwrap());
    let totals = totals(50);
    let exposition = exposition(&totals);
    let size = |n: u64| {
        let text = text(&exposition, Format::Prometheus);
        assert!(text.lines().count() < 60 * 60, "at window {n}");
        check_sums(&text);
    };
    for n in 0..windows {
        let mut seen = window_of(n, 12, |victim| (victim + 1 + (n % 11) as u32) % 12);
        // Each is replaced after 40 to 51 windows.
        for (t, tenant) in seen.tenants.iter_mut().enumerate() {
            let life = n / (40 + t as u64);
            tenant.key = format!("unit:{t}:{life}");
            tenant.name = format!("job-{t}-{life}.service");
        }
        crate::made::renumber(&mut seen, |t| 1_000_000 * t + (n / (40 + u64::from(t))) as u32);
        totals.lock().unwrap().push(&seen);
        if n % (windows / 20) == 0 {
            size(n);
        }
    }
}

#[test]
fn the_documentation_has_every_metric_unchanged() {
    let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/agent.md");
    let text = std::fs::read_to_string(file).unwrap();
    let row = |m: &corun_agent::metrics::Metric| {
        let labels: Vec<String> = m.labels.iter().map(|l| format!("`{l}`")).collect();
        format!("| `{}` | {} | {} | {} |", m.name, m.kind.name(), labels.join(", "), m.help)
    };
    let expected: Vec<String> = METRICS.iter().map(row).collect();
    let found: Vec<&str> = text.lines().filter(|l| l.starts_with("| `corun_")).collect();
    assert_eq!(found, expected);
}
