//! The longest waits for a CPU, one by one.

use super::markup::{escape, section};
use super::tenants::Tenants;
use crate::profile::schema::ProfileReport;
use crate::single_wait::{parts, title};

/// A section; empty if nobody asked for them.
pub fn section_of(report: &ProfileReport, tenants: &Tenants) -> String {
    let Some(waits) = &report.worst_waits else { return String::new() };
    let items: String = waits
        .iter()
        .map(|wait| {
            let parts = parts(report, tenants.names(), wait);
            format!("<li>{}<br><small>{}</small></li>\n", escape(&title(wait)), escape(&parts))
        })
        .collect();
    let content = match items.is_empty() {
        true => "<p class=\"lead\">No task waited for a CPU.</p>\n".to_owned(),
        false => format!("<ol class=\"waits\">\n{items}</ol>\n"),
    };
    let lead = "Each with the occupants of the CPU, in the order of their first turn. Parts sum to the wait. Times count from the start.";
    section("Longest waits for a CPU", lead, &content)
}
