//! Where keys lead.

use crate::machine::{app, neighbours, story, text, window, MS, SECOND};
use corun_model::TenantId;
use corun_top::app::{App, Request, Screen, Sort};
use corun_top::requests::whose;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

fn key(name: &str) -> KeyEvent {
    let code = match name {
        "enter" => KeyCode::Enter,
        "esc" => KeyCode::Esc,
        "tab" => KeyCode::Tab,
        "up" => KeyCode::Up,
        "down" => KeyCode::Down,
        "left" => KeyCode::Left,
        "right" => KeyCode::Right,
        "end" => KeyCode::End,
        "space" => KeyCode::Char(' '),
        "ctrl-c" => return KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL),
        letter => KeyCode::Char(letter.chars().next().unwrap()),
    };
    KeyEvent::new(code, KeyModifiers::NONE)
}

/// Presses keys one after the other; returns the last request.
pub fn press(app: &mut App, keys: &[&str]) -> Option<Request> {
    keys.iter().map(|name| app.on_key(&key(name))).last().flatten()
}

fn everybody() -> App {
    app(20, |n| window(n, &neighbours(), true))
}

fn looks_at(app: &App) -> Option<TenantId> {
    match app.screen() {
        Screen::Tenant { id, .. } => Some(*id),
        _ => None,
    }
}

#[test]
fn enter_goes_from_the_victim_to_its_culprit_and_esc_back_again() {
    let mut app = everybody();
    press(&mut app, &["enter"]);
    assert_eq!(looks_at(&app), Some(TenantId(1)), "who suffers most is chosen first");
    press(&mut app, &["enter"]);
    assert_eq!(looks_at(&app), Some(TenantId(2)), "its largest culprit is chosen first");
    press(&mut app, &["esc", "down", "enter"]);
    assert_eq!(looks_at(&app), Some(TenantId(3)));
    press(&mut app, &["esc", "esc", "esc", "esc"]);
    assert_eq!(app.screen(), &Screen::Overview { chosen: None });
}

#[test]
fn a_selected_tenant_stays_selected_when_others_pass_it() {
    let mut app = app(2, |n| {
        window(
            n,
            &[story(1, "a", 100, &[(2, 50)]), story(2, "b", 100, &[(1, 10)]), story(3, "c", 1, &[])],
            true,
        )
    });
    press(&mut app, &["down"]);
    assert_eq!(app.tenant(), Some(TenantId(2)));
    let next = window(2, &[story(1, "a", 100, &[]), story(2, "b", 100, &[(1, 300)])], true);
    app.on_snapshot(std::sync::Arc::new(corun_top::snapshot::Snapshot::new(2, String::new(), next)));
    assert_eq!((app.tenant(), app.chosen_row()), (Some(TenantId(2)), 0));
}

#[test]
fn a_filter_leaves_tenants_with_these_letters_and_esc_drops_it() {
    let mut app = everybody();
    press(&mut app, &["/", "G", "q"]);
    assert_eq!(app.filter, "Gq", "letters are no keys meanwhile");
    assert!(text(&app, 80, 24).contains("No tenant has `Gq` in its name."));
    press(&mut app, &["esc", "/", "G", "enter"]);
    let names: Vec<&str> = app.rows().iter().map(|row| row.name.as_str()).collect();
    assert_eq!(names, ["nginx.service", "hog", "postgres"]);
    press(&mut app, &["esc"]);
    assert_eq!(app.rows().len(), 5);
}

#[test]
fn every_column_can_be_sorted_by() {
    let mut app = everybody();
    let first = |app: &App| app.rows()[0].name.clone();
    let mut seen = Vec::new();
    for _ in 0..6 {
        seen.push((app.sort, first(&app)));
        press(&mut app, &[">"]);
    }
    assert_eq!(app.sort, Sort::ToOthers, "after the last column comes the first");
    let by = |sort| seen.iter().find(|(s, _)| *s == sort).unwrap().1.as_str();
    assert_eq!((by(Sort::ToOthers), by(Sort::Took), by(Sort::Ran)), ("nginx.service", "hog", "hog"));
    assert_eq!((by(Sort::Name), by(Sort::Lost)), ("hog", "nginx.service"));
    press(&mut app, &["<"]);
    assert_eq!(app.sort, Sort::Lost);
}

#[test]
fn a_held_moment_stays_while_time_goes_on_and_a_second_press_releases_it() {
    let mut app = everybody();
    press(&mut app, &["space"]);
    let next = window(20, &neighbours(), true);
    app.on_snapshot(std::sync::Arc::new(corun_top::snapshot::Snapshot::new(20, "14:03:20".into(), next)));
    assert_eq!(app.shown().unwrap().number, 19);
    assert!(
        text(&app, 80, 24).lines().next().unwrap().ends_with("14:03:19 held 1.00 s back"),
        "{}",
        text(&app, 80, 24)
    );
    press(&mut app, &["space"]);
    assert_eq!(app.shown().unwrap().number, 20);
}

#[test]
fn left_goes_back_in_time_as_far_as_possible_and_right_forward() {
    let mut app = everybody();
    press(&mut app, &["left", "left", "right"]);
    assert_eq!(app.shown().unwrap().number, 18);
    for _ in 0..30 {
        press(&mut app, &["left"]);
    }
    assert_eq!(app.shown().unwrap().number, 0);
    assert_eq!(app.notice.as_deref(), Some("this is the oldest window there is"));
    press(&mut app, &["space"]);
    assert_eq!(app.shown().unwrap().number, 19);
}

#[test]
fn a_key_that_does_nothing_here_says_so() {
    let mut app = everybody();
    press(&mut app, &["enter", ">"]);
    assert!(
        app.notice.as_deref().is_some_and(|said| said.contains("go back to it first")),
        "{:?}",
        app.notice
    );
    press(&mut app, &["/"]);
    assert!(app.notice.is_some() && !app.is_typing);
    app.facts.is_replay = true;
    press(&mut app, &["esc", "space"]);
    assert!(app.notice.as_deref().is_some_and(|said| said.contains("stands still")), "{:?}", app.notice);
    press(&mut app, &["left"]);
    let shown = text(&app, 80, 24);
    assert!(shown.trim_end().ends_with("left earlier  right later  s save  q quit"), "{shown}");
}

#[test]
fn the_folder_of_a_ring_is_cut_before_the_state_of_the_cpus() {
    let mut app = everybody();
    app.facts =
        corun_top::app::Facts { target: format!("/{}", "far/".repeat(30)), is_replay: true, ..app.facts };
    let shown = text(&app, 80, 24);
    let head = shown.lines().next().unwrap();
    assert!(head.contains("~, 2 CPUs 91 % busy ") && head.ends_with("(20 of 20)"), "{head}");
}

#[test]
fn beyond_the_ends_of_a_replay_the_caller_looks_and_the_view_continues_from_there() {
    let mut app = everybody();
    app.facts.is_replay = true;
    assert_eq!(press(&mut app, &["right"]), Some(Request::After));
    for _ in 0..19 {
        assert_eq!(press(&mut app, &["left"]), None);
    }
    assert_eq!((press(&mut app, &["left"]), app.shown().unwrap().number), (Some(Request::Before), 0));
    let snapshots = |date: &str| {
        let snapshot =
            |n| corun_top::snapshot::Snapshot::new(n, format!("{date} {n}"), window(n, &neighbours(), true));
        (0..5).map(|n| std::sync::Arc::new(snapshot(n))).collect()
    };
    app.turn_to(snapshots("yesterday"), true);
    assert_eq!(app.shown().unwrap().date, "yesterday 4");
    press(&mut app, &["left"]);
    assert_eq!(app.shown().unwrap().date, "yesterday 3");
    app.turn_to(snapshots("today"), false);
    assert_eq!(app.shown().unwrap().date, "today 0");
}

#[test]
fn q_and_ctrl_c_leave_s_saves_t_traces_and_w_looks_for_waits() {
    let mut app = everybody();
    assert_eq!(press(&mut app, &["q"]), Some(Request::Quit));
    assert_eq!(press(&mut app, &["ctrl-c"]), Some(Request::Quit));
    assert_eq!(press(&mut app, &["s"]), Some(Request::Save));
    assert_eq!(press(&mut app, &["t"]), Some(Request::Trace));
    assert_eq!(press(&mut app, &["w"]), Some(Request::Worst));
    assert_eq!(whose(&app), None, "everybody's");
    press(&mut app, &["enter"]);
    let shown = app.shown().unwrap().seen.tenant(app.tenant().unwrap()).unwrap().key.clone();
    assert_eq!((press(&mut app, &["w"]), whose(&app)), (Some(Request::Worst), Some(shown)));
    app.facts.is_replay = true;
    for key in ["t", "w"] {
        assert_eq!(press(&mut app, &[key]), None);
        assert_eq!(app.notice.as_deref(), Some("only what happens now can be traced; this is the past"));
    }
}

#[test]
fn every_row_of_the_matrix_sums_to_the_wait() {
    let snapshot = everybody().shown().unwrap().clone();
    for row in &snapshot.rows {
        let account = snapshot.account(row.id).unwrap();
        let by_holder: u64 = snapshot.holders(row.id, account).iter().map(|(_, ns)| ns).sum();
        assert_eq!(by_holder, account.ledger.parts().steal_ns);
        assert_eq!(
            row.lost.total_ns(),
            account.ledger.parts().steal_ns + account.ledger.parts().throttled_ns
        );
    }
    let took: u64 = snapshot.rows.iter().map(|row| row.took_ns).sum();
    assert_eq!(took, (310 + 90 + 12 + 40 + 3) * MS);
    assert_eq!(snapshot.seen.window_ns(), SECOND);
}
