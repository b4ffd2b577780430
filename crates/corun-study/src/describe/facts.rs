//! The facts of a record of programs: each co-run, the errors of the model, and the tables.

use super::outcome::DescribeOutcome;
use super::text::{beside, programs};
use crate::quoted::{block, percent, slug, Facts};
use crate::statistics::median;

/// Reads the facts that documents may quote from the text of a `result.json`.
///
/// # Errors
/// The text is not such a result.
pub fn read(text: &str) -> serde_json::Result<Facts> {
    let o: DescribeOutcome = serde_json::from_str(text)?;
    let errors = o.errors();
    let mut facts = Facts::new();
    facts.insert("co-runs".into(), errors.len().to_string());
    facts.insert("error.median".into(), percent(median(&errors)));
    facts.insert("error.worst".into(), percent(errors.iter().copied().reduce(f64::max)));
    for p in &o.programs {
        for b in &p.beside {
            let name = format!("{}.{}", p.name, slug(&b.interferer));
            let times = |x: Option<f64>| x.map_or("-".into(), |x| format!("{x:.2}×"));
            facts.insert(format!("{name}.live"), times(median(&p.slowdowns(b))));
            facts.insert(format!("{name}.modelled"), times(b.modelled));
        }
    }
    facts.insert("programs".into(), block(&programs(&o).markdown()));
    facts.insert("table".into(), block(&beside(&o).markdown()));
    Ok(facts)
}
