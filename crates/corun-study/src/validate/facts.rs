//! The facts of a record of `corun validate`: `CELLS.FIGURE`, where CELLS is `fit`, `unseen`, `all` or `real-programs`.

use crate::quoted::{block, percent, slug, Facts};
use crate::validate::outcome::Outcome;
use crate::validate::text::summaries;

/// Reads the facts from the text of a `result.json`.
///
/// # Errors
/// The text is not such a result.
pub fn read(text: &str) -> serde_json::Result<Facts> {
    serde_json::from_str(text).map(|o| facts(&o))
}

/// All facts that a document may quote.
fn facts(o: &Outcome) -> Facts {
    let mut facts = Facts::new();
    for s in &o.summary {
        let cells = slug(&s.cells);
        facts.insert(format!("{cells}.n"), s.n.to_string());
        for (figure, value) in [
            ("median", s.median),
            ("p90", s.p90),
            ("worst", s.worst),
            ("again", s.repeatability),
            ("again.p90", s.repeatability_p90),
        ] {
            facts.insert(format!("{cells}.{figure}"), percent(value));
        }
    }
    let shown: Vec<_> = o.summary.iter().filter(|s| s.cells != "all").collect();
    facts.insert("table".into(), block(&summaries(&shown).markdown()));
    facts
}
