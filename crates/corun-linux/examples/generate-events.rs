//! Writes the event tables `events/{intel,amd,arm}.toml` from the event lists of a Linux source tree.
//!
//! `cargo run -p corun-linux --example generate-events -- LINUX/tools/perf/pmu-events/arch "Linux 6.12.117"`
//!
//! Method: `events/wanted.toml` lists for every counter the events that would count it, best first. The
//! source has a folder of JSON files per micro-architecture and a `mapfile.csv` that names the CPUs of each
//! folder. Only the encodings and names of the wanted events are copied: no descriptions, no metrics. Events
//! of Arm cores are often only named in their folder (`ArchStdEvent`) and described in
//! `arm64/common-and-microarch.json`.

use serde_json::Value;
use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

type Table = toml::Table;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [arch, source] = args.as_slice() else {
        return Err(
            "say where the event lists are and what they are of: generate-events DIR \"Linux 6.12\"".into()
        );
    };
    let events = Path::new(env!("CARGO_MANIFEST_DIR")).join("events");
    let wanted: Table = fs::read_to_string(events.join("wanted.toml"))?.parse()?;
    for (vendor, folder) in [("intel", "x86"), ("amd", "x86"), ("arm", "arm64")] {
        let list = Source::read(&Path::new(arch).join(folder))?;
        let wants = wanted[vendor].as_table().ok_or("a vendor is a table")?;
        fs::write(events.join(format!("{vendor}.toml")), written(&list, wants, folder, source)?)?;
    }
    Ok(())
}

/// One architecture's folder of the source.
struct Source {
    dir: PathBuf,
    /// Pattern of the CPUs, version, folder.
    cpus: Vec<[String; 3]>,
    /// Encodings of the events that several folders share, by name.
    shared: BTreeMap<String, String>,
}

impl Source {
    fn read(dir: &Path) -> Result<Source, Box<dyn Error>> {
        let mapfile = fs::read_to_string(dir.join("mapfile.csv"))?;
        let lines = mapfile.lines().filter(|l| l.ends_with(",core"));
        let cpus = lines.filter_map(|l| {
            let mut fields = l.split(',').map(str::to_owned);
            Some([fields.next()?, fields.next()?, fields.next()?])
        });
        let shared = match dir.join("common-and-microarch.json") {
            file if file.exists() => encodings(&file, &BTreeMap::new())?.into_iter().collect(),
            _ => BTreeMap::new(),
        };
        Ok(Source { dir: dir.to_owned(), cpus: cpus.collect(), shared })
    }

    /// The encodings of all events of one folder, by name.
    fn events(&self, folder: &str) -> Result<BTreeMap<String, String>, Box<dyn Error>> {
        let mut all = BTreeMap::new();
        for entry in fs::read_dir(self.dir.join(folder))? {
            let file = entry?.path();
            if file.extension().is_some_and(|e| e == "json") {
                all.extend(encodings(&file, &self.shared)?);
            }
        }
        Ok(all)
    }
}

/// The encodings in one file, as `perf` writes them: `event=0xa3,umask=0x5,cmask=5`.
fn encodings(
    file: &Path,
    shared: &BTreeMap<String, String>,
) -> Result<Vec<(String, String)>, Box<dyn Error>> {
    let json: Value = serde_json::from_str(&fs::read_to_string(file)?)?;
    let mut found = Vec::new();
    for event in json.as_array().into_iter().flatten() {
        let text = |key: &str| event.get(key).and_then(Value::as_str);
        if let Some(terms) = text("ArchStdEvent").and_then(|name| shared.get(name)) {
            found.push((text("ArchStdEvent").unwrap_or_default().to_owned(), terms.clone()));
        }
        // Events of another unit (the memory controller, the efficiency cores) and those the vendor withdrew.
        if text("Unit").is_some() || text("Deprecated") == Some("1") {
            continue;
        }
        if let (Some(name), Some(code)) = (text("EventName"), text("EventCode")) {
            found.push((name.to_owned(), terms(event, code).map_err(|e| format!("{name}: {e}"))?));
        }
    }
    Ok(found)
}

fn terms(event: &Value, code: &str) -> Result<String, String> {
    // `0xB7, 0xBB`: two codes for one event; the kernel picks whichever register is free.
    let code = number(code.split(',').next().unwrap_or(code))?;
    let mut terms = format!("event={code:#x}");
    let fields = [
        ("UMask", "umask"),
        ("CounterMask", "cmask"),
        ("Invert", "inv"),
        ("EdgeDetect", "edge"),
        ("AnyThread", "any"),
    ];
    for (key, term) in fields {
        let value = event.get(key).and_then(Value::as_str).map_or(Ok(0), number)?;
        if value > 0 {
            write!(terms, ",{term}={value:#x}").map_err(|e| e.to_string())?;
        }
    }
    let response = event.get("MSRIndex").and_then(Value::as_str).is_some_and(|index| {
        let index = index.to_ascii_lowercase();
        index.starts_with("0x1a6") || index.starts_with("0x1a7")
    });
    if response {
        let value = number(event.get("MSRValue").and_then(Value::as_str).unwrap_or("0"))?;
        write!(terms, ",offcore_rsp={value:#x}").map_err(|e| e.to_string())?;
    }
    Ok(terms)
}

fn number(text: &str) -> Result<u64, String> {
    let text = text.trim();
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(hex) => u64::from_str_radix(hex, 16),
        None => text.parse(),
    }
    .map_err(|e| format!("`{text}`: {e}"))
}

/// One vendor's file.
fn written(list: &Source, wants: &Table, folder: &str, source: &str) -> Result<String, Box<dyn Error>> {
    let mut out = String::from("# Written by examples/generate-events.rs; change wanted.toml instead. NOTICE.md says whose facts these are.\n");
    writeln!(
        out,
        "source = {:?}\n\n# Which CPUs a table is for: the first pattern that fits decides.\ncpus = [",
        format!("{source}, tools/perf/pmu-events/arch/{folder}")
    )?;
    let names: Vec<&str> =
        wants["tables"].as_array().into_iter().flatten().filter_map(|t| t.as_str()).collect();
    let cpus = list.cpus.iter().filter(|[_, _, folder]| names.contains(&folder.as_str()));
    for [pattern, _, folder] in cpus {
        writeln!(out, "    [{pattern:?}, {:?}],", table_name(folder))?;
    }
    out.push_str("]\n");
    for name in names {
        let version = list.cpus.iter().find(|[_, _, f]| f == name).map(|[_, version, _]| version);
        let version = version.ok_or_else(|| format!("the source has no {name}"))?;
        let events = list.events(name)?;
        writeln!(out, "\n[tables.{}]\nversion = {version:?}", table_name(name))?;
        for (counter, alternatives) in wants.iter().filter(|(key, _)| *key != "tables") {
            let alternatives = alternatives.as_array().ok_or("alternatives are a list")?;
            let text =
                |a: &toml::Value, key: &str| a.get(key).and_then(toml::Value::as_str).map(str::to_owned);
            let first = alternatives
                .iter()
                .find_map(|a| Some((encoded(&text(a, "count")?, &events)?, text(a, "note"))));
            match first {
                Some((count, Some(note))) => {
                    writeln!(out, "{counter} = {{ count = {count:?}, note = {note:?} }}")?
                }
                Some((count, None)) => writeln!(out, "{counter} = {{ count = {count:?} }}")?,
                None => {}
            }
        }
    }
    Ok(out)
}

/// `arm/neoverse-n1` is the table `neoverse-n1`.
fn table_name(folder: &str) -> &str {
    folder.rsplit('/').next().unwrap_or(folder)
}

/// A sum, with the encoding of every event after its name; `None` if the folder lacks one of them.
fn encoded(count: &str, events: &BTreeMap<String, String>) -> Option<String> {
    let (times, sum) = count.split_once(" * ").map_or(("", count), |(n, sum)| (n, sum));
    let terms: Option<Vec<String>> =
        sum.split(" + ").map(|name| Some(format!("{name}/{}/", events.get(name)?))).collect();
    let sum = terms?.join(" + ");
    Some(if times.is_empty() { sum } else { format!("{times} * {sum}") })
}
