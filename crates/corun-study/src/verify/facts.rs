//! The facts of a record of verdicts: the numbers of false alarms and misses, and their confidence bounds.

use crate::quoted::{percent, Facts};
use crate::verify::outcome::VerifyOutcome;

/// Reads the facts from the text of a `result.json`.
///
/// # Errors
/// The text is not such a result.
pub fn read(text: &str) -> serde_json::Result<Facts> {
    serde_json::from_str(text).map(|o| facts(&o))
}

/// All facts that a document may quote.
fn facts(o: &VerifyOutcome) -> Facts {
    let (alarms, misses) = (o.false_alarms(|_| true), o.misses(|_| true));
    let by_clock = o.alarms_against_the_clock();
    let [alone, disturbed] = o.unclear();
    let pairs = [
        ("alarms", alarms.count.to_string()),
        ("alarms.of", alarms.of.to_string()),
        ("alarms.at-most", percent(Some(alarms.at_most()))),
        ("alarms-by-the-clock", by_clock.count.to_string()),
        ("alarms-by-the-clock.of", by_clock.of.to_string()),
        ("misses", misses.count.to_string()),
        ("misses.of", misses.of.to_string()),
        ("misses.at-most", percent(Some(misses.at_most()))),
        ("unclear.alone", alone.count.to_string()),
        ("unclear.alone.of", alone.of.to_string()),
        ("unclear.disturbed", disturbed.count.to_string()),
    ];
    pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}
