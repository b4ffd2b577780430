//! Man pages and completions: one page per verb that says all that `--help` says, completions that shells accept.

mod printed;

use assert_cmd::cargo::cargo_bin;
use printed::text;
use std::path::Path;
use std::process::{Command, Output};

fn corun(arguments: &[&str]) -> Output {
    Command::new(cargo_bin("corun")).args(arguments).output().unwrap()
}

fn generate(what: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let output = corun(&["generate", what, folder.path().to_str().unwrap()]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    folder
}

fn read(folder: &Path, file: &str) -> String {
    std::fs::read_to_string(folder.join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// The words that begin the lines below the heading `Commands:`, continued lines left out.
fn commands(help: &str) -> Vec<String> {
    let below = help.split("Commands:\n").nth(1).unwrap_or_default();
    let lines = below.lines().take_while(|line| line.starts_with("  "));
    let first_words = lines.filter_map(|line| line[2..].split(' ').next().filter(|word| !word.is_empty()));
    first_words.map(str::to_owned).collect()
}

#[test]
fn every_verb_has_a_page_that_names_all_its_flags() {
    let folder = generate("man");
    let mut pending = vec![vec!["corun".to_owned()]];
    let mut pages = 0;
    while let Some(verbs) = pending.pop() {
        let arguments: Vec<&str> = verbs[1..].iter().map(String::as_str).chain(["--help"]).collect();
        let help = text(&corun(&arguments).stdout);
        let page = read(folder.path(), &format!("{}.1", verbs.join("-")));
        for flag in help.split_whitespace().filter(|word| word.starts_with("--") && word.len() > 2) {
            // What may follow it: a comma, a full stop, `[=<HOW>]`.
            let flag = flag.split(|c: char| !c.is_ascii_alphanumeric() && c != '-').next().unwrap_or(flag);
            assert!(page.contains(&flag.replace('-', "\\-")), "{verbs:?}: the page lacks {flag}");
        }
        pending.extend(commands(&help).into_iter().map(|verb| [verbs.clone(), vec![verb]].concat()));
        pages += 1;
    }
    assert!(pages > 4, "only {pages} pages: the list of commands in --help was not found");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), pages);
}

#[test]
fn completions_name_every_verb_and_bash_accepts_its_own() {
    let folder = generate("completions");
    for file in ["corun.bash", "_corun", "corun.fish"] {
        let script = read(folder.path(), file);
        for verb in commands(&text(&corun(&["--help"]).stdout)) {
            assert!(script.contains(&verb), "{file} lacks {verb}");
        }
    }
    let bash = Command::new("bash").arg("-n").arg(folder.path().join("corun.bash")).output().unwrap();
    assert!(bash.status.success(), "{}", text(&bash.stderr));
}

#[test]
fn a_folder_that_cannot_be_made_is_named() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let output = corun(&["generate", "man", file.path().join("below").to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).starts_with("corun: cannot write into /"), "{}", text(&output.stderr));
}
