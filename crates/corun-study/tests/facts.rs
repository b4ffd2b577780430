//! Compares the documents with the records that they quote (`corun_study::facts`), and checks the records of the repository.

use corun_study::facts::{self, Facts};
use corun_study::kept;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The most bytes that the records may take in a checkout.
const MOST: u64 = 1_000_000;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// The documents for readers: those of the root, of `docs` and of `studies`.
fn documents() -> Vec<PathBuf> {
    let folders = ["", "docs", "studies"].map(|folder| root().join(folder));
    let all = folders.iter().flat_map(|folder| std::fs::read_dir(folder).unwrap().flatten());
    let mut documents: Vec<PathBuf> =
        all.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|e| e == "md")).collect();
    documents.sort();
    documents
}

fn records() -> BTreeSet<String> {
    let folders = std::fs::read_dir(root().join("studies/runs")).unwrap().flatten();
    folders.filter(|e| e.path().is_dir()).map(|e| e.file_name().into_string().unwrap()).collect()
}

fn facts_of(record: &str) -> Result<Facts, String> {
    let folder = root().join("studies/runs").join(record);
    let text = kept::record(&folder).map_err(|e| format!("the record `{record}` cannot be read: {e}"))?;
    facts::of(&text).map_err(|e| format!("`{record}`: {e}"))
}

/// `CORUN_FACTS=write` writes the figures into the documents instead of comparing them.
#[test]
fn every_figure_that_a_document_quotes_is_that_of_its_record() {
    let writes = std::env::var("CORUN_FACTS").is_ok_and(|how| how == "write");
    let mut quoted = 0;
    let mut wrong = Vec::new();
    for path in documents() {
        let text = std::fs::read_to_string(&path).unwrap();
        let (right, count) =
            facts::filled(&text, &facts_of).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        quoted += count;
        if right == text {
            continue;
        }
        if writes {
            std::fs::write(&path, right).unwrap();
        } else {
            let line = text.lines().zip(right.lines()).find(|(is, should_be)| is != should_be);
            let (is, should_be) = line.unwrap_or(("fewer lines", "more lines"));
            wrong.push(format!("{}:\n  is        {is}\n  should be {should_be}", path.display()));
        }
    }
    assert!(
        wrong.is_empty(),
        "\n{}\nCORUN_FACTS=write cargo test -p corun-study --test facts\nwrites what the records say",
        wrong.join("\n")
    );
    assert!(quoted > 50, "only {quoted} figures are quoted from records");
}

#[test]
fn every_kept_record_can_be_read_is_quoted_and_says_how_it_was_made() {
    let documents: String = documents().iter().map(|path| std::fs::read_to_string(path).unwrap()).collect();
    for record in records() {
        let facts = facts_of(&record).unwrap();
        assert!(facts.len() > 5, "{record} tells only {facts:?}");
        assert!(documents.contains(&format!("<!--{record}:")), "no document quotes the record {record}");
        let readme = std::fs::read_to_string(root().join("studies/runs").join(&record).join("README.md"));
        let readme = readme.unwrap();
        let is_made_by = |program: &str| readme.contains(&format!("\n```\n{program}"));
        let is_made = ["corun ", "bench/", "cargo run "].into_iter().any(is_made_by);
        assert!(is_made, "{record} does not say what made it");
    }
}

#[test]
fn the_records_take_less_than_a_megabyte() {
    fn size(path: &Path) -> u64 {
        let entries = std::fs::read_dir(path).unwrap().flatten();
        entries.map(|e| if e.path().is_dir() { size(&e.path()) } else { e.metadata().unwrap().len() }).sum()
    }
    let all = size(&root().join("studies/runs"));
    assert!(all < MOST, "studies/runs has {all} bytes; keep only the newest record of each study");
}

/// Classes of the rows of `docs/papers.md`, the worst first. A row without a class has the last one.
const CLASSES: [&str; 7] =
    ["**deviates**", "**in part**", "**unknown**", "**emerges**", "**follows**", "**set**", "no class"];

/// An earlier class of a row is in parentheses.
fn class(cell: &str) -> &'static str {
    let now: String =
        cell.split('(').map(|part| part.split_once(')').map_or(part, |(_, rest)| rest)).collect();
    // "deviate" and "emerge" are plurals, for several things in one row.
    let has = |class: &str| now.contains(class.trim_end_matches("s**").trim_end_matches("**"));
    CLASSES.into_iter().find(|class| has(class)).unwrap_or("no class")
}

/// Claim and class of each row in the tables of papers. The rows of a claim follow each other.
fn papers(text: &str) -> Vec<(String, &'static str)> {
    let mut claim = String::new();
    let mut found = Vec::new();
    let rows = text
        .lines()
        .skip_while(|line| *line != "## PACT'16")
        .take_while(|line| !line.starts_with("## What deviates"));
    for row in rows.filter(|line| line.starts_with("| `") || line.starts_with("| | ")) {
        let cells: Vec<&str> = row[1..row.len() - 1].split('|').map(str::trim).collect();
        assert_eq!(cells.len(), 6, "{row}");
        if !cells[0].is_empty() {
            claim = cells[0].to_owned();
        }
        found.push((claim.clone(), class(cells[4])));
    }
    found
}

#[test]
fn a_row_has_the_worst_class_that_it_has_now() {
    assert_eq!(class("**in part** (was **deviates**): the sign"), "**in part**");
    assert_eq!(class("cycles **emerge**, LLC **deviates**"), "**deviates**");
    assert_eq!(class("IPC's **in part**, coherence's **deviate**"), "**deviates**");
    assert_eq!(class(""), "no class");
}

#[test]
fn the_page_of_the_papers_counts_its_rows_and_names_the_open_question_of_each_deviation() {
    let text = std::fs::read_to_string(root().join("docs/papers.md")).unwrap();
    let rows = papers(&text);
    let (_, counted) = text.split_once("\n## Counted").unwrap();
    for name in CLASSES {
        let count = rows.iter().filter(|row| row.1 == name).count();
        let line = counted.lines().find(|line| line.starts_with(&format!("| {name} | "))).unwrap();
        assert!(line.ends_with(&format!(" | {count} |")), "{line}: there are {count}");
    }
    let (_, told) = text.split_once("\n## What deviates").unwrap();
    for (claim, class) in rows.iter().filter(|row| CLASSES[..2].contains(&row.1)) {
        assert!(told.contains(claim), "{claim} {class}, and nothing says why or what would tell");
    }
    let told = told.lines().filter(|line| line.starts_with("| `"));
    for claim in told.clone().flat_map(|line| line.split(" | ").next().unwrap()[2..].split(", ")) {
        assert!(rows.iter().any(|row| row.0 == claim), "no row has {claim}");
    }
    assert!(told.count() > 10);
}
