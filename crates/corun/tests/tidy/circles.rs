//! Files of a crate that import each other in a circle: none can be read, or moved, without all the others.
//!
//! Method: the sources are cut into words. `use` and paths show which file names which; a name that is
//! re-exported by `pub use` counts as that of the file that defines it. A file may name the module that it is
//! a part of: that is no import of a neighbor. Code for tests alone is left out.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A module by its names from the crate's root, which has none.
type Module = Vec<String>;

/// Every circle of a crate: files by their paths below its `src`, with their texts.
pub fn circles(files: &BTreeMap<String, String>) -> Vec<String> {
    let modules: BTreeMap<Module, &String> = files.keys().map(|file| (module(file), file)).collect();
    let crate_ = Crate { words: files.iter().map(|(f, text)| (module(f), words(text))).collect() };
    let arrows: BTreeMap<&Module, BTreeSet<Module>> =
        modules.keys().map(|m| (m, crate_.named_by(m))).collect();
    let mut found = Vec::new();
    for start in modules.keys() {
        let Some(way) = way_back(start, &arrows) else { continue };
        // Every circle is reported once, from its first file.
        if way.iter().all(|m| start <= m) {
            let names: Vec<&str> = way.iter().chain([start]).map(|m| modules[m].as_str()).collect();
            found.push(names.join(" -> "));
        }
    }
    found
}

fn module(file: &str) -> Module {
    let mut parts: Module = file.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
    if matches!(parts.last().map(String::as_str), Some("mod" | "lib" | "main")) {
        parts.pop();
    }
    parts
}

/// The shortest path from a module back to it, without its end.
fn way_back(start: &Module, arrows: &BTreeMap<&Module, BTreeSet<Module>>) -> Option<Vec<Module>> {
    let mut before: BTreeMap<&Module, &Module> = BTreeMap::new();
    let mut queue = VecDeque::from([start]);
    while let Some(at) = queue.pop_front() {
        for next in &arrows[at] {
            if next == start {
                let mut way = vec![at.clone()];
                while way[way.len() - 1] != *start {
                    way.push(before[&way[way.len() - 1]].clone());
                }
                way.reverse();
                return Some(way);
            }
            if !before.contains_key(next) {
                before.insert(next, at);
                queue.push_back(next);
            }
        }
    }
    None
}

struct Crate {
    words: BTreeMap<Module, Vec<String>>,
}

impl Crate {
    /// The modules that one names, without those that contain it.
    fn named_by(&self, module: &Module) -> BTreeSet<Module> {
        let words = &self.words[module];
        let (mut paths, mut local) = (Vec::new(), BTreeMap::new());
        let mut at = 0;
        while at < words.len() {
            if words[at] == "use" {
                let (uses, end) = tree(words, at + 1, &[]);
                let is_handed_on = at > 0 && matches!(words[at - 1].as_str(), "pub" | ")");
                for path in uses.into_iter().filter(|_| !is_handed_on) {
                    local.extend(path.last().cloned().map(|name| (name, path.clone())));
                    paths.push(path);
                }
                at = end;
            } else if is_name(&words[at]) && words.get(at + 1).is_some_and(|w| w == "::") {
                let mut path = vec![words[at].clone()];
                while words.get(at + 1).is_some_and(|w| w == "::")
                    && words.get(at + 2).is_some_and(|w| is_name(w))
                {
                    path.push(words[at + 2].clone());
                    at += 2;
                }
                paths.push(path);
            }
            at += 1;
        }
        let whole = |path: &Vec<String>| {
            self.below_the_root(module, path).or_else(|| {
                let first = self.below_the_root(module, local.get(&path[0])?)?;
                Some(first.into_iter().chain(path[1..].iter().cloned()).collect())
            })
        };
        let named = paths.iter().filter_map(whole).map(|path| self.owner(&path, 0));
        named.filter(|other| !module.starts_with(other)).collect()
    }

    /// A path from the crate's root; `None` if it leads elsewhere.
    fn below_the_root(&self, module: &Module, path: &[String]) -> Option<Vec<String>> {
        let supers = path.iter().take_while(|name| *name == "super").count();
        let (from, rest) = match path.first()?.as_str() {
            "crate" => (&[][..], &path[1..]),
            "self" => (&module[..], &path[1..]),
            "super" => (&module[..module.len().checked_sub(supers)?], &path[supers..]),
            child if self.words.contains_key(&[&module[..], &[child.to_owned()]].concat()) => {
                (&module[..], path)
            }
            _ => return None,
        };
        Some([from, rest].concat())
    }

    /// The module that defines what a path names.
    fn owner(&self, path: &[String], depth: usize) -> Module {
        let n = (0..=path.len()).rev().find(|n| self.words.contains_key(&path[..*n])).unwrap_or(0);
        let (module, rest) = (path[..n].to_vec(), &path[n..]);
        let handed_on = rest.first().and_then(|name| self.handed_on(&module, name));
        match handed_on {
            Some(target) if depth < 5 => self.owner(&[&target[..], &rest[1..]].concat(), depth + 1),
            _ => module,
        }
    }

    /// The source of a name that a module re-exports.
    fn handed_on(&self, module: &Module, name: &str) -> Option<Vec<String>> {
        let words = self.words.get(module)?;
        let at = |i: &usize| words[*i] == "use" && *i > 0 && matches!(words[*i - 1].as_str(), "pub" | ")");
        let uses = (0..words.len()).filter(at).flat_map(|i| tree(words, i + 1, &[]).0);
        let path = uses.into_iter().find(|path| path.last().is_some_and(|last| last == name))?;
        self.below_the_root(module, &path)
    }
}

/// The paths of a `use`, from a position on, and its end.
fn tree(words: &[String], mut at: usize, before: &[String]) -> (Vec<Vec<String>>, usize) {
    let (mut all, mut path) = (Vec::new(), before.to_vec());
    let end = |path: &mut Vec<String>, all: &mut Vec<Vec<String>>| {
        if path.len() > before.len() {
            all.push(std::mem::replace(path, before.to_vec()));
        }
    };
    while at < words.len() {
        match words[at].as_str() {
            "{" => {
                let (more, after) = tree(words, at + 1, &path);
                all.extend(more);
                (path, at) = (before.to_vec(), after);
            }
            "," => end(&mut path, &mut all),
            "}" | ";" => break,
            "as" => at += 1,
            "self" if !path.is_empty() && path.len() == before.len() => all.push(path.clone()),
            name if is_name(name) => path.push(name.to_owned()),
            _ => {}
        }
        at += 1;
    }
    end(&mut path, &mut all);
    (all, at)
}

fn is_name(word: &str) -> bool {
    word.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// A source in words, with `::` as one, without comments, texts, and code for tests alone.
fn words(text: &str) -> Vec<String> {
    let chars: Vec<char> = text.chars().collect();
    let (mut words, mut at) = (Vec::new(), 0);
    let starts = |at: usize, with: &str| with.chars().enumerate().all(|(i, c)| chars.get(at + i) == Some(&c));
    while at < chars.len() {
        let from = at;
        if starts(at, "//") {
            while at < chars.len() && chars[at] != '\n' {
                at += 1;
            }
        } else if starts(at, "r\"") || starts(at, "r#") {
            let hashes = chars[at + 1..].iter().take_while(|c| **c == '#').count();
            let end = format!("\"{}", "#".repeat(hashes));
            at += hashes + 2;
            while at < chars.len() && !starts(at, &end) {
                at += 1;
            }
            at += end.len();
        } else if chars[at] == '"' {
            at += 1;
            while at < chars.len() && chars[at] != '"' {
                at += if chars[at] == '\\' { 2 } else { 1 };
            }
            at += 1;
        } else if chars[at] == '\'' {
            // A letter, or the name of a lifetime.
            at += match (chars.get(at + 1), chars.get(at + 2)) {
                (Some('\\'), _) => 2 + chars[at + 2..].iter().skip(1).take_while(|c| **c != '\'').count() + 2,
                (_, Some('\'')) => 3,
                _ => 1,
            };
        } else if is_name(&chars[at].to_string()) {
            while chars.get(at).is_some_and(|c| c.is_alphanumeric() || *c == '_') {
                at += 1;
            }
            words.push(chars[from..at].iter().collect());
        } else {
            at += if starts(at, "::") { 2 } else { 1 };
            if !chars[from].is_whitespace() {
                words.push(chars[from..at].iter().collect());
            }
        }
    }
    without_tests(words)
}

fn without_tests(words: Vec<String>) -> Vec<String> {
    const TESTS: [&str; 7] = ["#", "[", "cfg", "(", "test", ")", "]"];
    let mut kept = Vec::new();
    let mut at = 0;
    while at < words.len() {
        if !TESTS.iter().enumerate().all(|(i, word)| words.get(at + i).is_some_and(|w| w == word)) {
            kept.push(words[at].clone());
            at += 1;
            continue;
        }
        let mut depth = 0;
        at += TESTS.len();
        while at < words.len() {
            depth += match words[at].as_str() {
                "{" => 1,
                "}" => -1,
                _ => 0,
            };
            at += 1;
            if depth == 0 && matches!(words[at - 1].as_str(), "}" | ";") {
                break;
            }
        }
    }
    kept
}

#[test]
fn a_circle_is_found_in_every_notation() {
    let found = |a: &str, b: &str| {
        let root = "mod a; mod b; pub use b::{B, other::Thing as C};".to_owned();
        let files = [("lib.rs", root), ("a.rs", a.to_owned()), ("b.rs", b.to_owned())];
        circles(&files.map(|(file, text)| (file.to_owned(), text)).into())
    };
    let circle = ["a.rs -> b.rs -> a.rs"];
    for (a, b) in [
        ("use crate::b::B;", "use crate::a::A;"),
        ("use crate::{b::{self, B}, other};", "fn f() { super::a::g() }"),
        ("use crate::B;", "use super::a;"),
        ("fn f<'a>(x: &'a str) { let _ = ('\"', r#\"\"\"#); crate::B::new() }", "use crate::a::A as C;"),
    ] {
        assert_eq!(found(a, b), circle, "{a} | {b}");
    }
    for (a, b) in [
        ("use crate::b::B;", "// use crate::a::A;\nconst A: &str = \"crate::a::A\";"),
        ("use crate::b::B;", "#[cfg(test)]\nmod tests { use crate::a::A; }"),
        ("use crate::b::B;", "use other::a::A;"),
        ("use crate::b::B;", "use super::*;"),
    ] {
        assert!(found(a, b).is_empty(), "{a} | {b}");
    }
}
