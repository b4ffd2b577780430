//! The effect of the keys, and the meaning of the columns.

use super::Capabilities;
use crate::app::App;
use crate::fit::{cut, left, wrap};
use crate::keys::ACTIONS;
use ratatui::text::Line;

/// The meaning of the words on the screens.
const WORDS: [(&str, &str); 6] = [
    ("RAN", "time on a CPU in this window, summed over tasks"),
    ("WAITED", "ready to run without a CPU, for whatever reason"),
    ("STOLEN", "the part of it in which other tenants held the CPU; % of the time it wanted one"),
    ("TOOK", "how long it held a CPU for which others waited"),
    ("P99", "99 % of its waits were shorter (<), or 1 % at least so long (>)"),
    ("MOSTLY FOR", "who held the CPU for most of its waits"),
];

pub(super) fn lines(app: &App, caps: Capabilities, columns: usize, room: usize) -> Vec<Line<'static>> {
    let mut words: Vec<Line> = Vec::new();
    for (word, what) in WORDS {
        let said = wrap(what, columns.saturating_sub(13), 2);
        words.extend(
            said.iter()
                .enumerate()
                .map(|(n, line)| Line::raw(left(if n == 0 { word } else { "" }, 12) + line)),
        );
    }
    let keys: Vec<String> =
        ACTIONS.iter().map(|(action, _, _, what)| left(&app.keys.of(*action), 14) + what).collect();
    // Two columns of keys if one does not fit.
    let most = room.saturating_sub(words.len() + 2).max(1);
    let half = columns / 2;
    let mut lines = vec![Line::styled("Keys", caps.head())];
    if keys.len() <= most {
        lines.extend(keys.iter().map(|key| Line::raw(cut(key, columns))));
    } else {
        let rows = keys.len().div_ceil(2);
        lines.extend((0..rows).map(|at| {
            let second = keys.get(at + rows).map_or("", String::as_str);
            Line::raw(left(&cut(&keys[at], half - 1), half) + &cut(second, half))
        }));
    }
    lines.push(Line::styled("Words", caps.head()));
    lines.extend(words);
    lines
}
