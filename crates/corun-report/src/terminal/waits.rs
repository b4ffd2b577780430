//! The longest waits for a CPU, one by one.

use super::Style;
use crate::names::Names;
use crate::profile::schema::ProfileReport;
use crate::single_wait::{parts, title};
use crate::words::wrap;

/// Nothing where nobody asked for them.
pub(super) fn lines(report: &ProfileReport, names: &Names, style: &Style) -> String {
    let Some(waits) = &report.worst_waits else { return String::new() };
    if waits.is_empty() {
        return "No task waited for a CPU.\n".to_owned();
    }
    let head = "Longest waits for a CPU, and who held it meanwhile; times count from the start";
    let mut out = String::new();
    wrap(head, style.width).iter().for_each(|line| out.push_str(&format!("{}\n", style.bold(line))));
    for (n, wait) in waits.iter().enumerate() {
        for (first, text) in
            [(true, format!("{:>2}. {}", n + 1, title(wait))), (false, parts(report, names, wait))]
        {
            let indent = if first { 4 } else { 6 };
            for (at, line) in wrap(&text, style.width - indent).iter().enumerate() {
                let before = if first && at == 0 { 0 } else { indent };
                out.push_str(&format!("{}{line}\n", " ".repeat(before)));
            }
        }
    }
    out
}
