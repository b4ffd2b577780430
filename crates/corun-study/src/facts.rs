//! The figures that documents quote from records, so that no two pages can disagree.
//!
//! A record has **facts**: named texts such as `first-third.ledger.known`, which is `8.6 %`, and whole tables. A document quotes a fact
//! between two invisible comments: `<!--predict:first-third.ledger.known-->8.6 %<!--/-->`, where `predict` is the record's folder in
//! `studies/runs`. [`filled`] returns the document with the record's value in every quotation. The test
//! `every_figure_that_a_document_quotes_is_that_of_its_record` compares the two, or writes the differences.
//!
//! The module `facts` of a study defines the facts of its records. A record of another program, such as `bench/verify.py`, contains its
//! own.

use crate::kinds::KINDS;
use serde::Deserialize;
use std::collections::BTreeMap;

pub use crate::quoted::Facts;

/// The end of a quotation.
const END: &str = "<!--/-->";

/// The facts of a record, from the text of its `result.json`.
///
/// # Errors
/// One sentence: it is not a record of a live study.
pub fn of(text: &str) -> Result<Facts, String> {
    #[derive(Deserialize)]
    struct Head {
        schema: String,
        date: Option<String>,
        facts: Option<Facts>,
    }
    let wrong = |e: serde_json::Error| format!("no record: {e}");
    let head: Head = serde_json::from_str(text).map_err(wrong)?;
    let mut kinds = KINDS.iter().filter_map(|kind| kind.facts);
    let mut facts = match (head.facts, kinds.find(|(schema, _)| *schema == head.schema)) {
        (Some(own), _) => own,
        (None, Some((_, facts))) => facts(text).map_err(wrong)?,
        (None, None) => return Err(format!("not a record with facts: its schema is `{}`", head.schema)),
    };
    let day = head.date.as_deref().and_then(|date| date.split(' ').next());
    facts.insert("date".into(), day.unwrap_or("at an unknown date").to_owned());
    Ok(facts)
}

/// The document with the record's value in each quotation, and how many quotations there are. `facts` returns the facts of a record by
/// name.
///
/// # Errors
/// One sentence: a quotation has no end, or names a record or a fact that does not exist.
pub fn filled(
    document: &str,
    facts: &dyn Fn(&str) -> Result<Facts, String>,
) -> Result<(String, usize), String> {
    let mut out = String::with_capacity(document.len());
    let mut rest = document;
    let mut known: BTreeMap<&str, Facts> = BTreeMap::new();
    let mut count = 0;
    while let Some((before, after)) = rest.split_once("<!--") {
        out += before;
        out += "<!--";
        rest = after;
        let Some((name, quoted)) = after.split_once("-->") else { continue };
        let Some((record, fact)) = name.split_once(':').filter(|_| !name.contains(char::is_whitespace))
        else {
            continue;
        };
        if !known.contains_key(record) {
            known.insert(record, facts(record)?);
        }
        let Some(value) = known[record].get(fact) else {
            return Err(format!(
                "the record `{record}` has no fact `{fact}`; it has {}",
                near(&known[record], fact)
            ));
        };
        let Some((_, after)) = quoted.split_once(END) else {
            return Err(format!("the quotation of `{name}` has no {END}"));
        };
        out += &format!("{name}-->{value}{END}");
        rest = after;
        count += 1;
    }
    Ok((out + rest, count))
}

/// Names of facts that begin like a missing one.
fn near(facts: &Facts, fact: &str) -> String {
    let begins = fact.split('.').next().unwrap_or_default();
    let like: Vec<&str> = facts.keys().map(String::as_str).filter(|name| name.starts_with(begins)).collect();
    let names = if like.is_empty() { facts.keys().map(String::as_str).collect() } else { like };
    names.into_iter().take(40).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quoted::block;

    fn one(record: &str) -> Result<Facts, String> {
        match record {
            "r" => Ok(Facts::from([("error".into(), "4.7 %".into()), ("table".into(), block("| a |"))])),
            other => Err(format!("there is no record `{other}`")),
        }
    }

    #[test]
    fn quotations_are_replaced_and_everything_else_stays() {
        let text =
            "a <!-- note: kept --> b <!--r:error-->5 %<!--/-->, c <!--r:table-->\nold\n<!--/--> d <!-- open";
        let (new, count) = filled(text, &one).unwrap();
        assert_eq!(count, 2);
        assert_eq!(
            new,
            "a <!-- note: kept --> b <!--r:error-->4.7 %<!--/-->, c <!--r:table-->\n\n| a |\n\n<!--/--> d <!-- open"
        );
        assert_eq!(filled(&new, &one).unwrap().0, new, "what is right stays as it is");
    }

    #[test]
    fn a_record_may_contain_its_facts_and_one_of_an_unknown_study_without_any_is_refused() {
        let own =
            r#"{"schema": "corun.verify-bench/1", "date": "2026-01-02 03:04 UTC", "facts": {"misses": "0"}}"#;
        let wanted = Facts::from([("misses".into(), "0".into()), ("date".into(), "2026-01-02".into())]);
        assert_eq!(of(own).unwrap(), wanted);
        let none = r#"{"schema": "corun.verify-bench/1", "date": null}"#;
        assert!(of(none).unwrap_err().contains("not a record with facts"));
    }

    #[test]
    fn a_quotation_of_a_missing_fact_is_refused_with_its_name() {
        assert!(filled("<!--r:none-->1<!--/-->", &one)
            .unwrap_err()
            .contains("has no fact `none`; it has error"));
        assert!(filled("<!--s:error-->1<!--/-->", &one).unwrap_err().contains("no record `s`"));
        assert!(filled("<!--r:error-->1", &one).unwrap_err().contains("`r:error` has no"));
    }
}
