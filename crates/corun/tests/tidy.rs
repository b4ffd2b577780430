//! The conventions of this repository that neither rustfmt nor clippy checks: each is a test, and each
//! failure names the place.
//!
//! They read the files as text, from the root of the checkout, and leave out build output.

#[path = "tidy/circles.rs"]
mod circles;

use corun_model::workload::Workload;
use corun_sim::machine_file::MachineModel;
use corun_sim::scenario::{Files, Scenario};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Files aim at 300 lines; a longer file says why it is one file.
const LONG: usize = 600;
/// No file is longer than this.
const TOO_LONG: usize = 1_000;
/// The statement of a long file, near its top.
const REASON: &str = "One file because";
/// No sentence of a document has more words than this.
const MOST_WORDS: usize = 45;
/// Crates that touch no file, clock, thread or hash order.
const PURE: [&str; 5] = ["corun-model", "corun-predict", "corun-results", "corun-sim", "corun-policy"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Every file of the checkout with one of these endings, by its path from the root; all files if no ending is
/// given.
fn files(endings: &[&str]) -> Vec<String> {
    fn walk(root: &Path, below: &Path, found: &mut Vec<String>) {
        for entry in std::fs::read_dir(root.join(below)).unwrap().flatten() {
            let name = entry.file_name().into_string().expect("names are UTF-8");
            let path = below.join(&name);
            let is_built = name.starts_with("target") || name == "out";
            match entry.file_type().unwrap() {
                kind if kind.is_dir() && !is_built && name != ".git" => walk(root, &path, found),
                kind if kind.is_file() => found.push(path.to_str().unwrap().to_owned()),
                _ => {}
            }
        }
    }
    let mut found = Vec::new();
    walk(&root(), Path::new(""), &mut found);
    found.retain(|file| endings.is_empty() || endings.iter().any(|ending| file.ends_with(ending)));
    found.sort();
    assert!(!found.is_empty(), "no file ends with one of {endings:?}");
    found
}

fn read(file: &str) -> String {
    std::fs::read_to_string(root().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// The names that code gives to texts for people.
const FOR_PEOPLE: [&str; 8] = ["why", "because", "reason", "what", "said", "sentence", "verdict", "outcome"];
/// How code would look into one.
const LOOKS: [&str; 16] = [
    "contains",
    "starts_with",
    "ends_with",
    "strip_prefix",
    "strip_suffix",
    "split",
    "split_once",
    "rsplit_once",
    "splitn",
    "find",
    "rfind",
    "replace",
    "replacen",
    "trim_matches",
    "trim_start_matches",
    "trim_end_matches",
];
/// Files that search in texts of others, which have no types.
const FOREIGN: [(&str, &str); 6] = [
    ("crates/corun-model/src/workload/words.rs", "what the TOML reader says"),
    ("crates/corun-model/src/workload/lines.rs", "which line of a file the TOML reader means"),
    ("crates/corun-linux/src/limits.rs", "what libbpf says of a probe"),
    ("crates/corun-linux/src/root.rs", "what the standard library says of an error"),
    ("crates/corun/src/refusal.rs", "what clap says of a command line"),
    ("crates/corun/src/cli.rs", "what the standard library says of an error"),
];

/// Lines outside of tests that search for words in a text for people, by their numbers from 1: by a method,
/// or by a comparison with a text.
fn searches(source: &str) -> Vec<usize> {
    let code = source.split("#[cfg(test)]").next().unwrap_or(source);
    // Whether the expression before is such a text, perhaps from an option or a function.
    let is_one = |before: &str| {
        let ends = [".as_deref()", ".as_str()", "()", "?"];
        let before = ends.iter().fold(before, |text, end| text.strip_suffix(end).unwrap_or(text));
        let start = before.rfind(|c: char| !(c.is_alphanumeric() || c == '_')).map_or(0, |i| i + 1);
        FOR_PEOPLE.contains(&&before[start..])
    };
    let looks = |line: &str| {
        let calls = LOOKS.iter().map(|look| format!(".{look}("));
        let compared = [" == \"", " != \"", " == *\"", " != *\""].map(String::from);
        let found =
            |by: String| line.match_indices(&by).map(|(at, _)| at).any(|at| is_one(line[..at].trim_end()));
        calls.chain(compared).any(found)
    };
    let is_comment = |line: &str| line.trim_start().starts_with("//");
    let lines = code.lines().enumerate().filter(|(_, line)| !is_comment(line) && looks(line));
    lines.map(|(n, _)| n + 1).collect()
}

#[test]
fn no_code_searches_for_words_in_a_sentence_for_people() {
    let is_code = |file: &String| {
        let is_foreign = FOREIGN.iter().any(|(foreign, _)| file == foreign);
        file.starts_with("crates/") && file.contains("/src/") && !file.ends_with("/tests.rs") && !is_foreign
    };
    none(files(&[".rs"]).into_iter().filter(is_code).flat_map(|file| {
        let found = searches(&read(&file));
        found.into_iter().map(move |line| format!("{file}:{line}: make what it looks for a type"))
    }));
}

#[test]
fn a_search_in_a_sentence_is_found_and_one_in_a_file_or_a_test_is_not() {
    let source = "let a = u.why.contains(\"x\");\nlet b = line.contains(\"x\");\n// why.contains(\"x\")\n\
                  let c = d.because.as_deref().split_once(\"; \");\nlet e = outcome().starts_with(\"done\");\n\
                  if *outcome == \"done\" {}\nlet f = what.split(key).next();\nlet g = said.replace(a, b);\n\
                  let h = r.verdict != \"clean\";\nif kind == \"vm\" {}\n\
                  #[cfg(test)]\nassert!(why.contains(\"x\"));\n";
    assert_eq!(searches(source), [1, 4, 5, 6, 7, 8, 9]);
}

/// The place of the sentences of reasons, and all texts for people.
const HAS_SENTENCES: [&str; 2] = ["crates/corun-model/src/why", "crates/corun-report/"];

/// Lines outside of tests that write a reason's sentence themselves, by their numbers from 1: `Why::Said` is
/// for words from elsewhere.
fn own_reasons(source: &str) -> Vec<usize> {
    let code = source.split("#[cfg(test)]").next().unwrap_or(source);
    let is_own = |after: &str| {
        ["\"", "format!", "String::from(\""].iter().any(|own| after.trim_start().starts_with(own))
    };
    let found = code.match_indices("Why::Said(").filter(|(at, call)| is_own(&code[at + call.len()..]));
    found.map(|(at, _)| code[..at].lines().count().max(1)).collect()
}

#[test]
fn reasons_have_their_sentences_in_one_place() {
    let is_code = |file: &String| {
        file.starts_with("crates/")
            && file.contains("/src/")
            && !file.ends_with("/tests.rs")
            && !HAS_SENTENCES.iter().any(|folder| file.starts_with(folder))
    };
    none(files(&[".rs"]).into_iter().filter(is_code).flat_map(|file| {
        let found = own_reasons(&read(&file));
        found.into_iter().map(move |line| format!("{file}:{line}: make it a variant of `Why`"))
    }));
}

#[test]
fn a_reason_in_its_own_words_is_found_and_one_in_the_words_of_an_error_is_not() {
    let source =
        "a(Why::Said(\"x\".into()));\nb(Why::Said(e.to_string()));\nc(Why::Said(\n  format!(\"{x}\")));\n\
                  #[cfg(test)]\na(Why::Said(\"x\".into()));\n";
    assert_eq!(own_reasons(source), [1, 3]);
}

fn crates() -> Vec<String> {
    let folders = std::fs::read_dir(root().join("crates")).unwrap().flatten();
    let mut names: Vec<String> = folders.map(|f| f.file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Fails with one line per finding.
#[track_caller]
fn none(findings: impl IntoIterator<Item = String>) {
    let findings: Vec<String> = findings.into_iter().collect();
    assert!(findings.is_empty(), "\n{}\n", findings.join("\n"));
}

#[test]
fn no_files_import_each_other_in_a_circle() {
    none(crates().into_iter().flat_map(|name| {
        let src = format!("crates/{name}/src/");
        let texts = files(&[".rs"]).into_iter().filter_map(|file| {
            let below = file.strip_prefix(&src)?.to_owned();
            Some((below, read(&file)))
        });
        let found = circles::circles(&texts.collect());
        found.into_iter().map(move |circle| format!("{name}: {circle}"))
    }));
}

#[test]
fn long_files_say_why_they_are_one_file_and_none_is_too_long() {
    none(files(&[".rs", ".c", ".h", ".js", ".css", ".md", "run", ".sh"]).into_iter().filter_map(|file| {
        let text = read(&file);
        let lines = text.lines().count();
        let explained = text.lines().take(60).any(|line| line.contains(REASON));
        match lines {
            _ if lines > TOO_LONG => {
                Some(format!("{file} has {lines} lines; more than {TOO_LONG} are too many"))
            }
            _ if lines > LONG && !explained => {
                Some(format!("{file} has {lines} lines; split it, or say in its header: {REASON} …"))
            }
            _ => None,
        }
    }));
}

#[test]
fn every_source_file_opens_with_its_purpose() {
    none(files(&[".rs", ".c", ".h", "scripts/test", "scripts/need", ".sh"]).into_iter().filter_map(|file| {
        let text = read(&file);
        let mut lines = text.lines().filter(|line| !line.starts_with("#!") && !line.contains("SPDX"));
        let opening = lines.next().unwrap_or_default();
        let is_comment = ["//!", "/*", "# "].iter().any(|start| opening.starts_with(start));
        (!is_comment).then(|| format!("{file} opens with `{opening}`"))
    }));
}

#[test]
fn no_file_has_a_meaningless_name() {
    let empty_names = ["utils", "util", "common", "types", "manager", "helpers", "misc"];
    none(files(&[]).into_iter().filter(|file| {
        Path::new(file).components().any(|part| {
            let part = part.as_os_str().to_str().unwrap();
            empty_names.contains(&part.split('.').next().unwrap())
        })
    }));
}

#[test]
fn nothing_is_left_undone_and_no_path_of_one_machine_appears() {
    // Written in halves, so that this file does not contain them.
    let words = [("TO", "DO"), ("FIX", "ME"), ("XX", "X "), ("/wo", "rk/"), ("/fa", "rm/")];
    let words: Vec<String> = words.iter().map(|(a, b)| format!("{a}{b}")).collect();
    let texts =
        files(&[".rs", ".c", ".h", ".js", ".css", ".md", ".toml", ".sh", "run", "Makefile", "need", "test"]);
    none(texts.iter().flat_map(|file| {
        let text = read(file);
        let found = words.iter().filter(|word| text.contains(word.as_str()));
        found.map(|word| format!("{file} contains `{word}`")).collect::<Vec<_>>()
    }));
}

#[test]
fn no_host_is_named_except_those_that_readers_are_sent_to() {
    let known = [
        "doi.org",
        "docs.kernel.org",
        "github.com",
        "keepachangelog.com",
        "rustup.rs",
        "ui.perfetto.dev",
        "www.debian.org",
        "www.apache.org",
        "www.kernel.org",
        "www.usenix.org",
        "www.w3.org",
    ];
    let is_ours = |file: &String| file != "Cargo.lock" && !file.starts_with("LICENSE");
    none(files(&[]).iter().filter(|file| is_ours(file)).flat_map(|file| {
        let bytes = std::fs::read(root().join(file)).unwrap();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let hosts = text.split("://").skip(1).map(|rest| {
            rest.chars().take_while(|c| c.is_ascii_alphanumeric() || ".-".contains(*c)).collect::<String>()
        });
        let unknown = hosts.filter(|host| host.contains('.') && !known.contains(&host.as_str()));
        unknown.map(|host| format!("{file} names {host}")).collect::<Vec<_>>()
    }));
}

/// The sentences of a Markdown text: the text between full stops or semicolons in its paragraphs and list
/// items. Tables, code and text in brackets or back-quotes do not count: lists of names may be long.
fn sentences(text: &str) -> Vec<String> {
    let mut paragraphs = vec![String::new()];
    let mut in_code = false;
    for line in text.lines().map(str::trim) {
        in_code ^= line.starts_with("```");
        let is_item =
            line.starts_with("- ") || line.split_once(". ").is_some_and(|(n, _)| n.parse::<u8>().is_ok());
        let is_prose = !in_code && !line.is_empty() && !line.starts_with(['|', '#', '`', '<']);
        if is_item || !is_prose {
            paragraphs.push(String::new());
        }
        if is_prose {
            let paragraph = paragraphs.last_mut().expect("there is always one");
            *paragraph += line;
            paragraph.push(' ');
        }
    }
    let ends = |paragraph: &String| {
        let mut prose = String::new();
        let (mut depth, mut quoted) = (0_u32, false);
        for c in paragraph.chars() {
            match c {
                '`' => quoted = !quoted,
                '(' if !quoted => depth += 1,
                ')' if !quoted => depth = depth.saturating_sub(1),
                _ if !quoted && depth == 0 && c != '*' => prose.push(c),
                _ => {}
            }
        }
        let prose = prose.replace(['?', '!', ';'], ".");
        prose.split(". ").map(str::to_owned).collect::<Vec<_>>()
    };
    paragraphs.iter().flat_map(ends).collect()
}

fn words(sentence: &str) -> usize {
    sentence.split_whitespace().filter(|word| word.contains(char::is_alphanumeric)).count()
}

#[test]
fn no_sentence_of_the_documents_is_too_long() {
    let is_read = |file: &String| {
        file != "CHANGELOG.md" && file.matches('/').count() == usize::from(file.starts_with("docs/"))
    };
    none(files(&[".md"]).into_iter().filter(is_read).flat_map(|file| {
        let long = sentences(&read(&file)).into_iter().filter_map(|sentence| {
            let words = words(&sentence);
            (words > MOST_WORDS).then(|| format!("{words} words: {sentence}"))
        });
        long.map(|long| format!("{file}: {long}")).collect::<Vec<_>>()
    }));
}

#[test]
fn sentences_end_at_full_stops_and_list_items_and_leave_out_names() {
    let text = "# Not this\nOne `a. b` (not\nthis. one) two. Three;\n| no. table |\n- four\n1. five. Six";
    let counted: Vec<usize> = sentences(text).iter().map(|s| words(s)).collect();
    assert_eq!(counted.into_iter().filter(|n| *n > 0).collect::<Vec<_>>(), [2, 1, 1, 1, 1, 1]);
}

/// The targets of `[text](target)` in Markdown.
fn links(text: &str) -> Vec<&str> {
    text.split("](").skip(1).filter_map(|rest| rest.split(')').next()).collect()
}

#[test]
fn every_link_between_the_documents_leads_somewhere() {
    none(files(&[".md"]).iter().flat_map(|file| {
        let text = read(file);
        let folder = root().join(Path::new(file).parent().unwrap());
        let local = links(&text).into_iter().map(|link| link.split('#').next().unwrap());
        let broken =
            local.filter(|link| !link.is_empty() && !link.contains("://") && !folder.join(link).exists());
        broken.map(|link| format!("{file} leads to {link}, which is not there")).collect::<Vec<_>>()
    }));
}

#[test]
fn the_index_of_the_documents_names_them_all() {
    let index = read("docs/README.md");
    let documents =
        files(&[".md"]).into_iter().filter_map(|file| file.strip_prefix("docs/").map(str::to_owned));
    let documents = documents.filter(|name| !name.contains('/') && name != "README.md");
    none(documents.filter(|name| !links(&index).contains(&name.as_str())));
}

#[test]
fn every_make_target_and_verb_that_the_documents_name_exists() {
    let makefile = read("Makefile");
    let help = Command::new(assert_cmd::cargo::cargo_bin("corun")).arg("--help").output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    let word =
        |text: &str| -> String { text.chars().take_while(|c| c.is_ascii_lowercase() || *c == '-').collect() };
    none(files(&[".md", ".sh"]).iter().flat_map(|file| {
        let text = read(file);
        let after = |mark: &str| {
            text.split(mark).skip(1).map(word).filter(|w| !w.is_empty()).collect::<BTreeSet<_>>()
        };
        let targets =
            after("`make ").into_iter().filter(|target| !makefile.contains(&format!("\n{target}: ")));
        let verbs = after("`corun ").into_iter().filter(|verb| !help.contains(&format!("\n  {verb} ")));
        let targets = targets.map(|target| format!("{file} names `make {target}`, which is not there"));
        let verbs = verbs.map(|verb| format!("{file} names `corun {verb}`, which is not there"));
        targets.chain(verbs.filter(|f| !f.contains("corun generate"))).collect::<Vec<_>>()
    }));
}

#[test]
fn every_test_that_the_documents_name_exists() {
    let sources: String = files(&[".rs"]).iter().map(|file| read(file)).collect();
    let is_test_name = |word: &&str| {
        // A word with this beginning is a metric: the agent's own tests compare the documents with those.
        !word.starts_with("corun_")
            && word.matches('_').count() > 3
            && word.chars().all(|c| c == '_' || c.is_ascii_lowercase())
    };
    let mut named = 0;
    let mut missing = Vec::new();
    for file in files(&[".md"]) {
        for name in read(&file).split('`').filter(is_test_name) {
            named += 1;
            if !sources.contains(&format!(" fn {name}(")) && !sources.contains(&format!("\nfn {name}(")) {
                missing.push(format!("{file} names {name}, which is not there"));
            }
        }
    }
    assert!(named > 10, "only {named} names of tests were found in the documents");
    none(missing);
}

#[test]
fn the_code_map_is_the_graph_of_dependencies() {
    // A row of the map: | `corun-x` | what it is | the crates of corun that it may use |
    let architecture = read("ARCHITECTURE.md");
    let rows = architecture.lines().filter_map(|line| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [_, name, _, uses, _] = cells[..] else { return None };
        let name = name.strip_prefix('`')?.strip_suffix('`')?;
        name.contains("corun").then(|| {
            let uses = uses.split(['`', ',', ' ']).filter(|word| word.starts_with("corun"));
            (name.to_owned(), uses.map(str::to_owned).collect::<BTreeSet<_>>())
        })
    });
    let map: BTreeMap<String, BTreeSet<String>> = rows.collect();
    let graph: BTreeMap<String, BTreeSet<String>> = crates()
        .into_iter()
        .map(|name| {
            let manifest: toml::Table = read(&format!("crates/{name}/Cargo.toml")).parse().unwrap();
            let uses = ["dependencies", "dev-dependencies", "build-dependencies"].iter();
            let uses =
                uses.filter_map(|section| manifest.get(*section)?.as_table()).flat_map(|table| table.keys());
            let uses = uses.filter(|used| used.starts_with("corun")).cloned().collect();
            (name, uses)
        })
        .collect();
    assert_eq!(map, graph, "ARCHITECTURE.md (left) and the manifests (right) differ");
}

#[test]
fn no_crate_reaches_into_another_without_its_manifest() {
    // A file that a build script or a source includes is a dependency that no manifest shows.
    let of_crates = files(&[".rs", ".c", ".h"]).into_iter().filter(|file| {
        let mut parts = file.split('/');
        parts.next() == Some("crates") && matches!(parts.nth(1), Some("src" | "build.rs"))
    });
    none(of_crates.flat_map(|file| {
        let reaches = |(n, line): (usize, &str)| {
            line.contains("../corun-").then(|| format!("{file}:{}: {}", n + 1, line.trim()))
        };
        read(&file).lines().enumerate().filter_map(reaches).collect::<Vec<_>>()
    }));
}

#[test]
fn the_version_is_the_same_everywhere() {
    let workspace: toml::Table = read("Cargo.toml").parse().unwrap();
    let version = workspace["workspace"]["package"]["version"].as_str().unwrap();
    assert!(read("CITATION.cff").contains(&format!("\nversion: {version}\n")), "CITATION.cff: not {version}");
    let python = read("python/pyproject.toml");
    assert!(python.contains(&format!("\nversion = \"{version}\"\n")), "python/pyproject.toml: not {version}");
    for (file, line) in [
        (
            "packaging/helm/corun-agent/Chart.yaml",
            format!("\nversion: {version}\nappVersion: \"{version}\"\n"),
        ),
        ("docs/packages.md", format!(" corun:{version} ")),
        ("docs/ci.md", format!("/actions/verify@v{version}\n")),
    ] {
        assert!(read(file).contains(&line), "{file}: not {version}");
    }
    let newest = read("CHANGELOG.md");
    let newest = newest.lines().find(|line| line.starts_with("## ")).expect("CHANGELOG.md has a release");
    assert!(
        newest.starts_with(&format!("## {version}")),
        "CHANGELOG.md begins with `{newest}`, not {version}"
    );
}

#[test]
fn the_pure_crates_touch_no_file_clock_thread_or_hash_order() {
    let words = [
        "std::fs",
        "std::env",
        "std::net",
        "std::process",
        "std::thread",
        "std::time",
        "Instant",
        "SystemTime",
        "HashMap",
        "HashSet",
        "unsafe ",
        "println!",
        "libc::",
    ];
    none(
        PURE.iter()
            .flat_map(|name| {
                files(&[".rs"]).into_iter().filter(move |f| f.starts_with(&format!("crates/{name}/src/")))
            })
            .flat_map(|file| {
                let text = read(&file);
                // Unit tests come last in a file and may do more.
                let code = text.split("#[cfg(test)]\nmod ").next().unwrap();
                let code: Vec<&str> =
                    code.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
                let found = words.iter().filter(|word| code.iter().any(|line| line.contains(*word)));
                found.map(|word| format!("{file} uses `{word}`")).collect::<Vec<_>>()
            }),
    );
}

#[test]
fn reports_are_written_as_json_in_one_place_which_escapes_terminal_controls() {
    let place = "crates/corun-report/src/json.rs";
    let reports = ["crates/corun/src/", "crates/corun-report/src/", "crates/corun-study/src/"];
    none(files(&[".rs"]).into_iter().filter_map(|file| {
        let is_meant = file != place && reports.iter().any(|folder| file.starts_with(folder));
        let text = read(&file);
        let is_written = ["to_string", "to_vec", "to_writer"]
            .iter()
            .any(|how| text.contains(&format!("serde_json::{how}")));
        (is_meant && is_written).then(|| format!("{file}: use {place}"))
    }));
}

#[test]
fn code_that_runs_in_the_kernel_is_gpl() {
    none(
        files(&[".c", ".h"]).into_iter().filter(|file| file.starts_with("crates/corun-bpf/src/bpf/")).filter(
            |file| {
                let text = read(file);
                let says_so = text.starts_with("// SPDX-License-Identifier: GPL-2.0")
                    || text.starts_with("/* SPDX-License-Identifier: GPL-2.0");
                let tells_the_kernel =
                    !file.ends_with(".bpf.c") || text.contains("SEC(\"license\") = \"GPL\"");
                !says_so || !tells_the_kernel
            },
        ),
    );
}

/// Reads the files that a scenario names, from its folder.
struct Folder(PathBuf);

impl Files for Folder {
    fn read(&self, path: &str) -> Result<(String, String), String> {
        let text = std::fs::read_to_string(self.0.join(path)).map_err(|error| error.to_string())?;
        Ok((path.to_owned(), text))
    }

    fn host(&self) -> Result<MachineModel, String> {
        Err("a scenario of this repository runs anywhere, so it does not name the host".into())
    }
}

#[test]
fn every_machine_workload_and_scenario_can_be_read() {
    none(files(&[".toml"]).into_iter().filter_map(|file| {
        let text = read(&file);
        let folder = Folder(root().join(Path::new(&file).parent().unwrap()));
        let read = match file.split('/').next().unwrap() {
            "machines" => MachineModel::parse(&file, &text).map(drop).map_err(|e| e.to_string()),
            "workloads" => Workload::parse(&file, &text).map(drop).map_err(|e| e.to_string()),
            "scenarios" => Scenario::parse(&file, &text, &folder).map(drop).map_err(|e| e.to_string()),
            _ => Ok(()),
        };
        read.err()
    }));
}

#[test]
fn no_dependency_needs_a_newer_rust_than_is_declared() {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let platform = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let output = Command::new(cargo)
        .args(["metadata", "--format-version=1", "--locked", "--offline", "--filter-platform", &platform])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let version =
        |text: &str| -> Vec<u32> { text.split('.').take(2).map(|part| part.parse().unwrap()).collect() };
    let workspace: toml::Table = read("Cargo.toml").parse().unwrap();
    let declared = workspace["workspace"]["package"]["rust-version"].as_str().unwrap();
    none(metadata["packages"].as_array().unwrap().iter().filter_map(|package| {
        let needed = package["rust_version"].as_str()?;
        let is_newer = version(needed) > version(declared);
        is_newer.then(|| format!("{} needs Rust {needed}, Cargo.toml says {declared}", package["name"]))
    }));
}

/// The number after a text in a document.
#[track_caller]
fn number_after(document: &str, before: &str) -> f64 {
    let (_, rest) = document.split_once(before).unwrap_or_else(|| panic!("nowhere: {before}"));
    let number: String = rest.chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect();
    number.trim_end_matches('.').parse().unwrap_or_else(|_| panic!("no number behind: {before}"))
}

#[test]
fn the_cost_of_watching_and_the_limit_of_a_verdict_are_the_same_on_every_page() {
    let (readme, specification) = (read("README.md"), read("SPECIFICATION.md"));
    for (short, long) in [
        ("a benchmark that only switches takes ", "under the full ledger with culprits: "),
        ("times as long, on another machine ", "all three cost more: "),
    ] {
        let (shown, measured) = (number_after(&readme, short), number_after(&specification, long));
        assert_eq!(format!("{shown:.2}"), format!("{measured:.2}"), "README: {short}");
    }
    let percent = 100.0 * corun_predict::MAX_DISTURBANCE;
    for (file, before) in [
        ("docs/doctor.md", "A window is disturbed if it lost more than "),
        ("docs/accuracy.md", "with the default limit of "),
    ] {
        assert_eq!(number_after(&read(file), before), percent, "{file}");
    }
    assert_eq!(100.0 * number_after(&read("studies/verify.toml"), "\nmax-disturbance = "), percent);
}
