//! The view of the state: a pure function to lines of a terminal, none wider than it.

mod help;
mod matrix;
mod overview;
mod tenant;

use crate::app::{App, Screen};
use crate::fit::{cut, left, right, width, wrap};
use crate::keys::Action;
use crate::sentence;
use crate::snapshot::Snapshot;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;
use ratatui::Frame;

/// Columns and rows below which nothing useful can be shown.
const LEAST: (u16, u16) = (72, 12);

/// The terminal that is drawn on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// Whether colors are wanted.
    pub colour: bool,
    /// Whether more than ASCII can be displayed.
    pub unicode: bool,
}

impl Capabilities {
    fn paint(self, colour: Color) -> Style {
        if self.colour {
            Style::new().fg(colour)
        } else {
            Style::new()
        }
    }

    /// What ran.
    fn ran(self) -> Style {
        self.paint(Color::Green)
    }

    /// What others took.
    fn stolen(self) -> Style {
        self.paint(Color::Red)
    }

    /// The style of other losses.
    fn lost(self) -> Style {
        self.paint(Color::Yellow)
    }

    /// What heads a list.
    fn head(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    /// What explains.
    fn faint(self) -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }

    /// A chosen row, or any other.
    fn row(self, is_chosen: bool) -> Style {
        if is_chosen {
            Style::new().add_modifier(Modifier::REVERSED)
        } else {
            Style::new()
        }
    }

    /// A column's height, 0..=8.
    fn column(self, eighths: usize) -> char {
        let letters = if self.unicode { " ▁▂▃▄▅▆▇█" } else { " .,:-=+*#" };
        letters.chars().nth(eighths.min(8)).unwrap_or(' ')
    }

    /// A bar that is full for `part` of `whole`.
    fn bar(self, part: u64, whole: u64, columns: usize) -> String {
        let full = (part as f64 / whole.max(1) as f64 * columns as f64).round() as usize;
        let full = if part > 0 { full.clamp(1, columns) } else { 0 };
        let letter = if self.unicode { '█' } else { '#' };
        std::iter::repeat_n(letter, full).collect()
    }
}

/// Draws the state.
pub fn draw(frame: &mut Frame, app: &App, caps: Capabilities) {
    let area = frame.area();
    let lines = lines(app, caps, area.width, area.height);
    frame.render_widget(Paragraph::new(lines), area);
}

/// The same as plain text, without the line of keys and without blanks at the ends of lines.
pub fn text(app: &App, caps: Capabilities, columns: u16, rows: u16) -> String {
    // Printed text has no terminal that could be too small.
    let mut lines = lines(app, caps, columns.max(LEAST.0), rows.max(LEAST.1));
    lines.pop();
    let mut text: Vec<String> = lines.iter().map(|line| line.to_string().trim_end().to_owned()).collect();
    while text.last().is_some_and(String::is_empty) {
        text.pop();
    }
    if let Some(notice) = &app.notice {
        text.push(String::new());
        text.extend(wrap(notice, usize::from(columns).max(1), usize::from(rows)));
    }
    text.join("\n") + "\n"
}

fn lines(app: &App, caps: Capabilities, columns: u16, rows: u16) -> Vec<Line<'static>> {
    let (columns, rows) = (usize::from(columns), usize::from(rows));
    if columns < usize::from(LEAST.0) || rows < usize::from(LEAST.1) {
        let quits = app.keys.of(Action::Quit);
        let quits = quits.split(' ').next().unwrap_or_default();
        let (least, most) = LEAST;
        let said = format!(
            "corun top needs {least} columns and {most} rows; here are {columns} and {rows}. {quits} quits."
        );
        return wrap(&said, columns.max(1), rows).into_iter().map(Line::from).collect();
    }
    let mut lines = vec![header(app, caps, columns)];
    let room = rows - 2;
    lines.extend(match (app.is_helping, app.shown()) {
        (true, _) => help::lines(app, caps, columns, room),
        (false, None) => waiting(app, columns),
        (false, Some(snapshot)) => match app.screen() {
            Screen::Overview { .. } => overview::lines(app, snapshot, caps, columns, room),
            Screen::Matrix { .. } => matrix::lines(app, snapshot, caps, columns, room),
            Screen::Tenant { id, focus, culprit, thread } => tenant::lines(
                app,
                snapshot,
                *id,
                tenant::Chosen { focus: *focus, culprit: *culprit, thread: *thread },
                caps,
                columns,
                room,
            ),
        },
    });
    lines.truncate(rows - 1);
    lines.resize(rows - 1, Line::default());
    lines.push(footer(app, caps, columns));
    if !caps.unicode {
        lines
            .iter_mut()
            .flat_map(|line| &mut line.spans)
            .for_each(|span| span.content = ascii(&span.content).into());
    }
    lines
}

fn header(app: &App, caps: Capabilities, columns: usize) -> Line<'static> {
    let mut cpus = String::new();
    if let Some(snapshot) = app.shown() {
        let count = snapshot.seen.cpus.len();
        if count > 0 {
            cpus += &format!(", {count} CPU{}", if count == 1 { "" } else { "s" });
        }
        if let Some(busy) = snapshot.busy_share() {
            cpus += &format!(" {:.0} % busy", busy * 100.0);
        }
    }
    let when = when(app);
    let room = columns.saturating_sub(width(&when) + 1);
    // The path of a ring may be long, and is known.
    let target = cut(&format!("corun top: {}", app.facts.target), room.saturating_sub(width(&cpus)));
    let line = left(&(target + &cpus), room) + " " + &when;
    Line::styled(cut(&line, columns), caps.head().add_modifier(Modifier::REVERSED))
}

/// The replacement if only ASCII can be displayed.
fn ascii(text: &str) -> String {
    let letter = |c: char| match c {
        'µ' => 'u',
        '…' => '~',
        c if c.is_ascii() => c,
        _ => '?',
    };
    text.chars().map(letter).collect()
}

/// Which snapshot is shown.
fn when(app: &App) -> String {
    let Some(snapshot) = app.shown() else { return String::new() };
    let newest = app.history.newest().map_or(snapshot.seen.end_ns, |m| m.seen.end_ns);
    let back_ns = newest.saturating_sub(snapshot.seen.end_ns);
    let back = corun_model::duration::human_ns(back_ns);
    let place = || format!("({} of {})", app.place() + 1, app.history.len());
    match (app.facts.is_replay, app.is_held()) {
        (true, _) => format!("{} {}", snapshot.date, place()),
        (false, false) if app.ended.is_some() => format!("{} ended", snapshot.date),
        (false, false) => snapshot.date.clone(),
        (false, true) if back_ns == 0 => format!("{} held", snapshot.date),
        (false, true) => format!("{} held {back} back", snapshot.date),
    }
}

fn waiting(app: &App, columns: usize) -> Vec<Line<'static>> {
    let said = app.ended.clone().unwrap_or_else(|| "Looking at everybody …".to_owned());
    wrap(&said, columns, 5).into_iter().map(Line::from).collect()
}

fn footer(app: &App, caps: Capabilities, columns: usize) -> Line<'static> {
    if app.is_typing {
        return Line::from(cut(
            &format!("only names with: {}_  (enter keeps it, esc drops it)", app.filter),
            columns,
        ));
    }
    if let Some(notice) = app.notice.as_ref().or(app.ended.as_ref()) {
        return Line::styled(cut(notice, columns), caps.head());
    }
    let wanted: &[(Action, &str)] = match (app.is_helping, app.screen()) {
        (true, _) => &[(Action::Help, "any key goes back")],
        (_, Screen::Overview { .. }) if app.facts.is_replay => &[
            (Action::Help, "help"),
            (Action::Enter, "closer"),
            (Action::Matrix, "matrix"),
            (Action::Earlier, "earlier"),
            (Action::Later, "later"),
            (Action::Save, "save"),
            (Action::Quit, "quit"),
        ],
        (_, Screen::Matrix { .. }) if app.facts.is_replay => &[
            (Action::Help, "help"),
            (Action::Enter, "closer"),
            (Action::Back, "back"),
            (Action::Earlier, "earlier"),
            (Action::Later, "later"),
            (Action::Save, "save"),
            (Action::Quit, "quit"),
        ],
        (_, Screen::Overview { .. }) => &[
            (Action::Help, "help"),
            (Action::Enter, "closer"),
            (Action::Matrix, "matrix"),
            (Action::Filter, "filter"),
            (Action::SortNext, "sort"),
            (Action::Pause, "hold"),
            (Action::Save, "save"),
            (Action::Quit, "quit"),
        ],
        (_, Screen::Matrix { .. }) => &[
            (Action::Help, "help"),
            (Action::Enter, "closer"),
            (Action::Back, "back"),
            (Action::Pause, "hold"),
            (Action::Save, "save"),
            (Action::Quit, "quit"),
        ],
        (_, Screen::Tenant { .. }) => &[
            (Action::Help, "help"),
            (Action::Enter, "culprit"),
            (Action::Focus, "threads"),
            (Action::Back, "back"),
            (Action::Earlier, "earlier"),
            (Action::Save, "save"),
            (Action::Quit, "quit"),
        ],
    };
    let first = |action| app.keys.of(action).split(' ').next().unwrap_or_default().to_owned();
    let said = |(action, what): &(Action, &str)| format!("{} {what}", first(*action));
    let said: Vec<String> = wanted.iter().filter(|(a, _)| !first(*a).is_empty()).map(said).collect();
    Line::styled(cut(&said.join("  "), columns), caps.faint())
}

/// The sentence, followed by what is missing if nobody can be named.
fn sentence_lines(
    app: &App,
    snapshot: &Snapshot,
    caps: Capabilities,
    said: &str,
    columns: usize,
) -> Vec<Line<'static>> {
    let said = wrap(said, columns, 3).into_iter();
    let mut lines: Vec<Line> = said.map(|line| Line::styled(line, caps.head())).collect();
    if !snapshot.knows_culprits() {
        let missing = app.facts.missing.iter().flat_map(|why| wrap(why, columns, 2));
        lines.extend(missing.take(3).map(|line| Line::styled(line, caps.faint())));
    }
    lines
}

/// For a list that is longer than its room, the start of the page with the selected row.
fn page(chosen: usize, room: usize) -> usize {
    chosen / room.max(1) * room.max(1)
}

/// A row's first columns: a mark that needs no color.
fn mark(is_chosen: bool) -> &'static str {
    if is_chosen {
        "> "
    } else {
        "  "
    }
}

/// A time as wide as a column, empty for zero.
fn time(ns: u64) -> String {
    match ns {
        0 => right("-", 7),
        ns => right(&corun_model::duration::human_ns(ns), 7),
    }
}

/// What a tenant took from others, as wide as a column; empty if it is unknown.
fn taken_time(snapshot: &Snapshot, ns: u64) -> String {
    if snapshot.knows_culprits() {
        time(ns)
    } else {
        right("?", 7)
    }
}

/// A share as wide as a column.
fn share(part: u64, whole: u64) -> String {
    match part {
        0 => right("-", 5),
        part => right(&(sentence::percent(part, whole) + "%"), 5),
    }
}

fn plain(text: String) -> Span<'static> {
    Span::raw(text)
}
