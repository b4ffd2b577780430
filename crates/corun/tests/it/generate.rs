//! Man pages and completions: one page per verb with everything that `--help` says, completions that shells
//! accept.

use crate::printed::text;
use assert_cmd::cargo::cargo_bin;
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

/// The first words of the lines below the heading `Commands:`, without continued lines.
pub fn commands(help: &str) -> Vec<String> {
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
            // The text that may follow it: a comma, a full stop, `[=<HOW>]`.
            let flag = flag.split(|c: char| !c.is_ascii_alphanumeric() && c != '-').next().unwrap_or(flag);
            assert!(page.contains(&flag.replace('-', "\\-")), "{verbs:?}: the page lacks {flag}");
        }
        if help.contains("xit status") {
            assert!(page.contains("\n.SH \"EXIT STATUS\"\n"), "{verbs:?}: no section for the exit status");
        }
        pending.extend(commands(&help).into_iter().map(|verb| [verbs.clone(), vec![verb]].concat()));
        pages += 1;
    }
    assert!(pages > 4, "only {pages} pages: the list of commands in --help was not found");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), pages);
}

/// The text after the options: examples and explanations.
fn after_options(help: &str) -> &str {
    help.split_once("\nExamples:\n").map_or("", |(_, after)| after)
}

#[test]
fn every_help_has_examples_that_fit_and_explains_the_exit_status() {
    let verbs = commands(&text(&corun(&["--help"]).stdout));
    for verb in verbs {
        let help = text(&corun(&[&verb, "--help"]).stdout);
        let after = after_options(&help);
        assert!(after.contains("xit status"), "{verb}: what its exit status means");
        let (examples, prose) = after.split_once("\n\n").unwrap_or((after, ""));
        for line in examples.lines() {
            // Anything else is the rest of an example that was too long for its line.
            let begins =
                ["  corun ", "  sudo corun ", "          "].iter().any(|begin| line.starts_with(begin));
            assert!(begins, "{verb}: `{line}` is no example");
        }
        // A line that ends early, in the middle of a sentence, was broken before the terminal's width was
        // known.
        let lines: Vec<&str> = prose.lines().collect();
        for pair in lines.windows(2).filter(|pair| !pair[0].is_empty() && !pair[1].is_empty()) {
            let first_word = pair[1].split(' ').next().unwrap_or_default();
            let fits = pair[0].chars().count() + 1 + first_word.chars().count() < 80;
            assert!(!fits || pair[0].ends_with(['.', ':']), "{verb}: broken after `{}`", pair[0]);
        }
    }
}

#[test]
fn completions_name_every_verb_and_bash_accepts_its_own() {
    let folder = generate("completions");
    for file in ["corun.bash", "_corun", "corun.fish"] {
        let script = read(folder.path(), file);
        for verb in commands(&text(&corun(&["--help"]).stdout)) {
            assert!(script.contains(&verb), "{file} lacks {verb}");
        }
        for hidden in ["generate", "miscount-at"] {
            assert!(!script.contains(hidden), "{file} offers `{hidden}`");
        }
    }
    let fish = read(folder.path(), "corun.fish");
    let offers = |verb: &str, flag: &str| {
        fish.lines().any(|l| l.contains(&format!(" {verb}\"")) && l.contains(&format!("-l {flag}")))
    };
    assert!(
        offers("profile", "all") && offers("predict", "dedicated") && !offers("predict", "all"),
        "{fish}"
    );
    let bash = Command::new("bash").arg("-n").arg(folder.path().join("corun.bash")).output().unwrap();
    assert!(bash.status.success(), "{}", text(&bash.stderr));
}

#[test]
fn a_folder_that_cannot_be_created_is_named() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let output = corun(&["generate", "man", file.path().join("below").to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2));
    let said = text(&output.stderr);
    assert!(
        said.starts_with("corun: cannot make the folder /") && said.contains("is no folder; name"),
        "{said}"
    );
}
