//! Frames, compared with reviewed ones.

use crate::machine::{app, frame, neighbours, story, text, window, Story, PLAIN};
use crate::walk::press;
use corun_model::{Observation, TenantKind};
use corun_top::app::App;
use corun_top::fit::width;
use corun_top::view::Capabilities;
use ratatui::backend::TestBackend;
use ratatui::style::Color;
use ratatui::Terminal;

fn everybody() -> App {
    app(20, |n| window(n, &neighbours(), true))
}

#[test]
fn the_first_screen_says_who_suffers_most_from_whom_and_by_how_much() {
    insta::assert_snapshot!(text(&everybody(), 80, 24));
}

#[test]
fn a_wider_terminal_has_room_for_longer_names() {
    insta::assert_snapshot!(text(&everybody(), 120, 40));
}

#[test]
fn the_matrix_has_victims_down_and_culprits_across() {
    let mut app = everybody();
    press(&mut app, &["m"]);
    insta::assert_snapshot!(text(&app, 80, 24));
}

#[test]
fn a_tenant_has_its_ledger_over_time_its_culprits_its_waits_and_its_threads() {
    let mut app = everybody();
    press(&mut app, &["enter"]);
    insta::assert_snapshot!(text(&app, 80, 24));
}

#[test]
fn the_help_explains_every_key_on_the_smallest_usual_terminal() {
    let mut app = everybody();
    press(&mut app, &["?"]);
    let shown = text(&app, 80, 24);
    for (_, _, _, what) in corun_top::keys::ACTIONS {
        let beginning: String = what.chars().take(20).collect();
        assert!(shown.contains(&beginning), "{what} is not in\n{shown}");
    }
    insta::assert_snapshot!(shown);
}

#[test]
fn without_root_it_says_what_is_missing_and_names_nobody() {
    let mut app = app(3, |n| window(n, &neighbours(), false));
    app.facts.missing = vec!["Who held the CPUs is not seen without eBPF: Operation not permitted.".into()];
    insta::assert_snapshot!(text(&app, 80, 24));
}

#[test]
fn without_root_a_tenant_waited_and_nothing_is_reported_as_stolen_from_it() {
    let mut app = app(3, |n| window(n, &neighbours(), false));
    press(&mut app, &["enter"]);
    let shown = text(&app, 80, 24);
    let has = |beginning: &str| shown.lines().any(|line| line.starts_with(beginning));
    assert!(has("waited  ") && !has("stolen  "), "{shown}");
    let words = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("waited for an unknown tenant 41 %"), "{shown}");
    assert!(words.contains("not counted without eBPF"), "{shown}");
    press(&mut app, &["esc", "down", "down", "down", "enter"]);
    let little = app.tenant();
    let shown = text(&app, 80, 24);
    assert!(!shown.contains("most of it for others"), "{little:?}: {shown}");
    press(&mut app, &["esc", "m"]);
    assert!(text(&app, 80, 24).contains("Who held the CPUs is not known."));
}

#[test]
fn a_machine_without_tenants_says_so_and_so_does_one_that_was_not_seen_yet() {
    let none = text(&app(1, |_| Observation { end_ns: 1, ..Observation::default() }), 80, 24);
    assert!(
        none.contains("Nobody waited for a CPU.") && none.contains("Nobody had a task in this window."),
        "{none}"
    );
    assert!(text(&app(0, |_| Observation::default()), 80, 24).contains("Looking at everybody …"));
}

#[test]
fn of_two_thousand_tenants_a_page_is_shown_and_how_many_there_are() {
    let names: Vec<String> = (0..2_000).map(|n| format!("worker-{n}")).collect();
    let stories: Vec<Story> =
        (0..2_000u32).map(|n| story(n, &names[n as usize], u64::from(n % 7) + 1, &[])).collect();
    let mut app = app(2, |n| window(n, &stories, true));
    assert!(text(&app, 80, 24).contains("  1 to 18 of 2000 tenants"), "{}", text(&app, 80, 24));
    press(&mut app, &["end"]);
    let last = text(&app, 80, 24);
    assert!(last.contains("to 2000 of 2000 tenants") && last.contains("\n> "), "{last}");
}

#[test]
fn a_quiet_machine_is_reported_as_quiet_and_a_quota_has_no_culprit() {
    let quiet = text(&app(1, |n| window(n, &[story(1, "web", 500, &[])], true)), 80, 24);
    assert!(quiet.contains("Nobody waited for a CPU."), "{quiet}");
    let quota = [Story { throttled_ms: 300, ..story(1, "db", 200, &[]) }];
    let quota = text(&app(1, |n| window(n, &quota, true)), 80, 24).replace('\n', " ");
    assert!(quota.contains("db used up its own CPU budget and waited 300 ms"), "{quota}");
}

#[test]
fn names_that_are_wide_or_control_terminals_stay_in_their_column() {
    let stories = [
        story(1, "数据库服务器-非常长的名字-真的很长", 400, &[(2, 200)]),
        story(2, "evil\x1b[2J\x1b]0;title\x07\u{202e}name", 500, &[(1, 100)]),
        story(3, "line\nbreak\ttab", 10, &[]),
    ];
    for (columns, rows) in [(72, 12), (80, 24), (81, 25), (120, 40), (200, 50)] {
        let mut app = app(3, |n| window(n, &stories, true));
        for keys in [&["down"][..], &["m"], &["esc", "enter"], &["tab"], &["?"]] {
            press(&mut app, keys);
            for line in frame(&app, columns, rows, PLAIN) {
                assert!(line.chars().all(|c| !c.is_control() && c != '\u{202e}'), "{line:?}");
                assert!(width(&line) <= usize::from(columns), "{line}");
            }
        }
    }
    insta::assert_snapshot!(text(&app(3, |n| window(n, &stories, true)), 80, 12));
}

#[test]
fn without_color_no_cell_has_one_and_the_selected_row_has_a_mark() {
    let colours = |colour: bool| {
        let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
        let caps = Capabilities { colour, unicode: true };
        terminal.draw(|frame| corun_top::view::draw(frame, &everybody(), caps)).unwrap();
        let cells = terminal.backend().buffer().content().to_vec();
        cells.iter().filter(|cell| cell.fg != Color::Reset || cell.bg != Color::Reset).count()
    };
    assert_eq!(colours(false), 0);
    assert!(colours(true) > 0);
    assert!(text(&everybody(), 80, 24).contains("\n> nginx.service"));
}

#[test]
fn without_unicode_bars_and_charts_are_ascii() {
    let mut app = everybody();
    press(&mut app, &["enter"]);
    let shown = frame(&app, 80, 24, Capabilities { colour: false, unicode: false }).join("\n");
    assert!(shown.is_ascii(), "{shown}");
}

#[test]
fn a_small_terminal_says_how_large_it_must_be() {
    let small = text(&everybody(), 40, 10);
    assert_eq!(small.trim_end(), "corun top needs 72 columns and 12 rows;\nhere are 40 and 10. q quits.");
    // Printed text is wide enough wherever it is printed.
    let printed = corun_top::view::text(&everybody(), PLAIN, 40, 10);
    assert!(printed.contains("  TENANT ") && printed.contains("> nginx.service"), "{printed}");
    // Nothing panics on the way there.
    for columns in (1..100).step_by(3) {
        for rows in 1..15 {
            frame(&everybody(), columns, rows, PLAIN);
        }
    }
}

#[test]
fn kernel_threads_never_suffer() {
    let stories = [
        Story { kind: TenantKind::Kernel, ..story(1, "kernel", 100, &[(2, 300)]) },
        story(2, "hog", 900, &[]),
    ];
    let shown = text(&app(1, |n| window(n, &stories, true)), 80, 24);
    assert!(shown.contains("Nobody waited for a CPU."), "{shown}");
}
