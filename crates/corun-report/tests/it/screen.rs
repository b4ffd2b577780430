//! The terminal report as a whole.

use crate::example::{alone, meta, timeline, whole, Did, COMPILER, POSTGRES, SUBJECT};
use corun_model::{Culprits, Observation, Unavailable, What};
use corun_report::terminal::{render, Style};
use corun_report::{html, ProfileMeta, ProfileReport, Source, Subject};

fn example() -> ProfileReport {
    let slots = timeline();
    ProfileReport::new(&meta(), &whole(&slots), SUBJECT, &slots)
}

#[test]
fn a_disturbed_program_fits_on_one_screen() {
    for width in [80, 100] {
        let screen = render(&example(), &Style::plain(width));
        assert!(screen.lines().count() <= 38, "{screen}");
        for line in screen.lines() {
            assert!(line.chars().count() <= width, "{width}: {line}");
        }
        insta::assert_snapshot!(format!("disturbed_{width}"), screen);
    }
}

#[test]
fn a_narrow_screen_cuts_off_no_figure() {
    let screen = render(&example(), &Style::plain(60));
    let words: Vec<&str> = screen.split_whitespace().collect();
    assert!(words.join(" ").contains("of task time in a window of 10.0 s"), "{screen}");
}

#[test]
fn a_screen_without_unicode_is_ascii() {
    let style = Style { unicode: false, ..Style::plain(80) };
    let screen = render(&example(), &style);
    assert!(screen.is_ascii());
    insta::assert_snapshot!("disturbed_ascii", screen);
}

#[test]
fn color_changes_no_letter() {
    let plain = render(&example(), &Style::plain(100));
    let colour = render(&example(), &Style { colour: true, ..Style::plain(100) });
    assert_ne!(plain, colour);
    assert_eq!(plain, console_free(&colour));
}

/// The text without its escape sequences `ESC [ … m`.
fn console_free(text: &str) -> String {
    let mut pieces = text.split("\x1b[");
    let first = pieces.next().unwrap_or_default().to_owned();
    pieces.fold(first, |out, piece| out + piece.split_once('m').expect("a colour sequence").1)
}

#[test]
fn the_contents_of_a_culprit_are_shown_if_its_name_does_not_say_them() {
    let slots = timeline();
    let said = |rename: &dyn Fn(&mut Observation)| {
        let mut seen = whole(&slots);
        rename(&mut seen);
        let screen = render(&ProfileReport::new(&meta(), &seen, SUBJECT, &slots), &Style::plain(200));
        let lines = screen.lines().filter_map(|line| line.strip_prefix("Ran in ")).map(str::to_owned);
        lines.collect::<Vec<_>>()
    };
    let [postgres, compiler] = &said(&|_| ())[..] else { panic!("two culprits are notable") };
    assert!(postgres.starts_with("postgresql.service: postgres (900) "), "{postgres}");
    assert!(postgres.contains(", walwriter (901) "), "{postgres}");
    assert!(compiler.starts_with("build-7 (3f9ac1): cc1plus (7000) "), "{compiler}");
    // A single task with its tenant's name has been named already.
    let as_its_program = said(&|seen| {
        seen.tenants.iter_mut().filter(|t| t.id == COMPILER).for_each(|t| t.name = "cc1plus".into());
    });
    assert_eq!(as_its_program.len(), 1, "{as_its_program:?}");
}

#[test]
fn a_process_cannot_draw_on_the_screen_with_its_name() {
    let slots = timeline();
    let report = ProfileReport::new(&meta(), &whole(&slots), Subject::All, &slots);
    let screen = render(&report, &Style::plain(100));
    assert!(!screen.contains('\x1b'), "{screen:?}");
}

#[test]
fn tenants_with_one_name_are_distinguished_in_every_output() {
    let slots = timeline();
    let mut seen = whole(&slots);
    for t in seen.tenants.iter_mut().filter(|t| [POSTGRES, COMPILER].contains(&t.id)) {
        (t.name, t.key) = ("bash".to_owned(), format!("pgid:47{}", t.id.0));
    }
    let report = ProfileReport::new(&meta(), &seen, SUBJECT, &slots);
    let screen = render(&report, &Style::plain(100));
    assert!(screen.replace('\n', " ").contains("stolen (2 named bash 43,"), "{screen}");
    assert!(screen.contains("\nbash (pgid 472)  ") && screen.contains("\nbash (pgid 473)  "), "{screen}");
    assert!(screen.contains(" %  bash (pgid 472)  "), "mostly to: {screen}");
    let page = html::render(&report);
    assert!(page.contains(">bash (pgid 472)<") && page.contains(">bash (pgid 473)<"));
    assert!(!page.contains(">bash<"));
}

#[test]
fn for_everybody_the_screen_says_who_loses_how_much_to_whom() {
    let slots = timeline();
    let mut report = ProfileReport::new(&meta(), &whole(&slots), Subject::All, &slots);
    let screen = render(&report, &Style::plain(80));
    insta::assert_snapshot!("everybody_80", screen);
    // However many there are, it shows the ten that lost most.
    let victim = report.tenants[0].clone();
    report.tenants.extend((0..20).map(|n| {
        let mut t = victim.clone();
        (t.tenant.id, t.tenant.name) = (100 + n, format!("victim-{n}"));
        t
    }));
    let screen = render(&report, &Style::plain(80));
    assert!(screen.lines().count() <= 40, "{screen}");
    assert!(screen.lines().all(|line| line.chars().count() <= 80), "{screen}");
    assert!(screen.contains("\nvictim-8 ") && !screen.contains("\nvictim-9 "), "{screen}");
    assert!(screen.contains("\nand 13 more tenants\n"), "{screen}");
}

#[test]
fn schedstat_says_what_it_cannot_know() {
    let mut seen = alone(&Did { compute_ns: 500_000_000, unattributed_ns: 250_000_000, ..Did::default() });
    without_ebpf(&mut seen);
    let meta = ProfileMeta { source: Source::Schedstat, exit_status: None, ..meta() };
    let report = ProfileReport::new(&meta, &seen, SUBJECT, &[]);
    insta::assert_snapshot!("schedstat", render(&report, &Style::plain(80)));
}

/// What remains of an observation when only schedstat was read.
fn without_ebpf(seen: &mut Observation) {
    seen.cpus.clear();
    seen.unavailable
        .push(Unavailable { what: What::Culprits, why: "eBPF needs root; run with sudo".to_owned().into() });
    let accounts = seen.tasks.iter_mut().map(|t| std::sync::Arc::make_mut(&mut t.account));
    for a in accounts.chain(seen.by_tenant.iter_mut().map(|t| &mut t.account)) {
        a.culprits = Culprits::unknown(a.ledger.parts().steal_ns);
        (a.block, a.waits, a.stretches) = (None, None, None);
        a.events = corun_model::Events::default();
    }
}

#[test]
fn a_wait_longer_than_the_histogram_is_at_least_that_long() {
    let mut seen = alone(&Did { compute_ns: 500_000_000, unattributed_ns: 1, ..Did::default() });
    for t in &mut seen.by_tenant {
        let waits = t.account.waits.as_mut().expect("the example has waits");
        (0..5).for_each(|_| waits.record(20_000_000_000));
    }
    let screen = render(&ProfileReport::new(&meta(), &seen, SUBJECT, &[]), &Style::plain(100));
    assert!(screen.contains("p50 at least 8.59 s"), "{screen}");
    assert!(screen.contains("; 5 longer"), "{screen}");
}

#[test]
fn the_cost_of_a_switch_is_reported_only_if_there_are_many() {
    let mut report = example();
    assert!(
        render(&report, &Style::plain(200)).contains("the probe 0.2 % of all CPUs' time (98 ns per switch)")
    );
    (report.own.ns_per_switch, report.own.switches_per_s) = (Some(1_010), Some(900));
    let screen = render(&report, &Style::plain(200));
    assert!(screen.contains("the probe 0.2 % of all CPUs' time;") && !screen.contains("1010 ns"), "{screen}");
}

#[test]
fn a_loss_is_a_share_of_the_available_time() {
    let mut report = example();
    report.loss.unknown_ns = report.tenants.iter().map(|t| t.account.ledger.total_ns).sum::<u64>() / 50;
    assert!(render(&report, &Style::plain(200)).contains("lost: 2.0 % of task time"));
}

#[test]
fn a_short_list_keeps_the_tasks_with_the_most_time_and_counts_the_others() {
    let report = example();
    let short = report.listing_at_most(4);
    let names = |r: &ProfileReport| r.tasks.iter().map(|t| t.tid).collect::<Vec<u32>>();
    assert_eq!(names(&short), [4103, 4100, 4101, 4102], "the sleeper is left out, the order stays");
    let left_out = report.tasks.len() - 4 + report.others.len().saturating_sub(4);
    assert_eq!(short.loss.unlisted_tasks, report.loss.unlisted_tasks + left_out as u64);
    assert_eq!(short.tenants, report.tenants);
    assert_eq!(*report.listing_at_most(1_000), report);
}
