//! Which line of a workload file is at fault.

/// The line of an error at byte `start`. A tagged table is read as a whole, so its errors point at its header:
/// the line at or after it that holds the text which the message quotes is the one to name.
pub(super) fn line_at(text: &str, start: usize, what: &str) -> usize {
    let first = text[..start].matches('\n').count();
    let mut rest = text.lines().skip(first);
    let is_table = rest.clone().next().is_some_and(|l| l.starts_with('['));
    let text_of_wrong_type = || what.split_once("string \"")?.1.split('"').next();
    let quoted = what.split('`').nth(1).or_else(text_of_wrong_type).filter(|q| is_table && !q.is_empty());
    first + quoted.and_then(|q| rest.position(|l| l.contains(q))).unwrap_or(0) + 1
}

/// The first line that sets `key`, or the `[program]` line, or 1.
pub fn line_of(text: &str, key: &str) -> usize {
    let sets = |line: &str, key: &str| {
        line.trim_start().strip_prefix(key).is_some_and(|r| r.trim_start().starts_with('='))
    };
    let find = |f: &dyn Fn(&str) -> bool| text.lines().position(f).map(|i| i + 1);
    find(&|l| sets(l, key)).or_else(|| find(&|l| l.trim() == "[program]")).unwrap_or(1)
}

/// The line at fault when `what` reads "`key` is VALUE..." or begins with a text in backticks: the first that sets `key` to
/// that; when it reads "stage `NAME`...": the last that names something so; else as [`line_of`].
pub fn line_saying(text: &str, key: &str, what: &str) -> usize {
    if let Some(name) = what.strip_prefix("stage `").and_then(|w| w.split('`').next()) {
        let names = |line: &str| {
            line.split("name")
                .skip(1)
                .any(|r| r.trim_start_matches([' ', '=']).starts_with(&format!("\"{name}\"")))
        };
        let last = text.lines().enumerate().filter(|(_, line)| names(line)).last();
        return last.map_or_else(|| line_of(text, key), |(i, _)| i + 1);
    }
    let value =
        what.strip_prefix(key).and_then(|w| w.strip_prefix(" is ")).and_then(|w| w.split([';', ',']).next());
    let quoted = what.strip_prefix('`').and_then(|w| w.split('`').next());
    let same = |written: &str| {
        let written = written.trim_start();
        if let Some(quoted) = quoted {
            // A bandwidth is told without its `/s`.
            let after = written.strip_prefix('"').and_then(|w| w.strip_prefix(quoted));
            return after.is_some_and(|rest| rest.starts_with(['"', '/']));
        }
        let token = written.split([',', '}', '#', ' ']).next().unwrap_or("");
        let number = |t: &str| t.parse::<f64>().ok();
        value.is_some_and(|v| token == v || (number(v).is_some() && number(token) == number(v)))
    };
    let says =
        |line: &str| line.split(key).skip(1).filter_map(|r| r.trim_start().strip_prefix('=')).any(same);
    text.lines().position(says).map_or_else(|| line_of(text, key), |i| i + 1)
}
