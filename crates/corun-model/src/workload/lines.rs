//! Finds the line of an error in a workload file.

/// The line of an error at byte `start`. A tagged table is read as a whole, so its errors point at its header. The right line is at or
/// after it, and contains the text that the message quotes.
pub(super) fn line_at(text: &str, start: usize, what: &str) -> usize {
    let first = text[..start].matches('\n').count();
    let mut rest = text.lines().skip(first);
    let is_table = rest.clone().next().is_some_and(|l| l.starts_with('['));
    let text_of_wrong_type = || what.split_once("string \"")?.1.split('"').next();
    let quoted = what.split('`').nth(1).or_else(text_of_wrong_type).filter(|q| is_table && !q.is_empty());
    first + quoted.and_then(|q| rest.position(|l| l.contains(q))).unwrap_or(0) + 1
}

/// The first line that sets `key`, or has it in a table within the line, or the `[program]` line, or 1.
pub fn line_of(text: &str, key: &str) -> usize {
    let sets = |line: &str, key: &str| {
        line.trim_start().strip_prefix(key).is_some_and(|r| r.trim_start().starts_with('='))
    };
    let find = |f: &dyn Fn(&str) -> bool| text.lines().position(f).map(|i| i + 1);
    let within = |line: &str| line.split(['{', ',']).skip(1).any(|item| sets(item, key));
    find(&|l| sets(l, key))
        .or_else(|| find(&within))
        .or_else(|| find(&|l| l.trim() == "[program]"))
        .unwrap_or(1)
}
