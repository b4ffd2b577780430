//! The numbers of `auto` in `docs/policies.md` are the real ones.

use corun_policy::auto::numbers::ALL;
use corun_policy::sequential::{ERROR_PERCENT, PAIRS};

const DOCUMENT: &str = include_str!("../../../../docs/policies.md");

#[test]
fn the_document_has_every_number_of_auto_with_the_consequence_of_leaving_it_out() {
    assert!(ALL.len() <= 8, "{} numbers", ALL.len());
    let rows = ALL.iter().map(|n| format!("| `{}` | {} | {} | {} |\n", n.name, n.value, n.is, n.without));
    let table = rows.collect::<String>();
    assert!(DOCUMENT.contains(&table), "docs/policies.md should have these rows:\n{table}");
}

#[test]
fn the_document_has_the_error_rate_of_the_question() {
    let said = format!("at most {ERROR_PERCENT} % of cases");
    assert!(DOCUMENT.contains(&said) && PAIRS == 5 && DOCUMENT.contains("up to five pairs"), "{said}");
}
