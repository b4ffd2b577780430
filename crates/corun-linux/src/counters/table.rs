//! The events of each counter on each micro-architecture: the tables in `events/`, which a generator wrote.
//!
//! A table has an [`Entry`] for every counter that the micro-architecture can count. An entry is a sum of the
//! vendor's events, multiplied by a number of bytes if the counter is in bytes. A counter without an entry
//! cannot be counted there per task. `events/NOTICE.md` names the source of the facts.

use corun_model::Counter;
use regex_lite::Regex;
use serde::Deserialize;
use std::collections::BTreeMap;
use thiserror::Error;

const VENDORS: [&str; 3] = [
    include_str!("../../events/intel.toml"),
    include_str!("../../events/amd.toml"),
    include_str!("../../events/arm.toml"),
];

/// The events of one micro-architecture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// The micro-architecture, in the source's notation: `skylakex`, `amdzen4`, `neoverse-n1`.
    pub name: String,
    /// The version of the vendor's list.
    pub version: String,
    /// The available counters.
    pub entries: BTreeMap<Counter, Entry>,
}

/// How one counter is counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The counter is the sum of these…
    pub sum: Vec<VendorEvent>,
    /// …times this.
    pub times: u64,
    /// How this differs from the definition of the counter.
    pub note: Option<String>,
}

/// An event under its vendor's name, with its encoding in the notation of `perf`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VendorEvent {
    /// `CYCLE_ACTIVITY.STALLS_L2_MISS`.
    pub name: String,
    /// `event=0xa3,umask=0x5,cmask=0x5`.
    pub terms: String,
}

/// A file of tables makes no sense. Tests check the files that corun carries.
#[derive(Debug, Error)]
pub enum TableError {
    /// It is not TOML of the expected form.
    #[error("the event tables cannot be read: {0}")]
    Form(#[from] toml::de::Error),
    /// A pattern of CPUs is no pattern.
    #[error("`{0}` is no pattern of CPUs")]
    Pattern(String),
    /// No counter has this name, or its events are not a sum.
    #[error("the table `{table}` says of `{counter}`: `{count}`")]
    Entry {
        /// Which table.
        table: String,
        /// Which line.
        counter: String,
        /// Its content.
        count: String,
    },
}

#[derive(Deserialize)]
struct File {
    cpus: Vec<(String, String)>,
    tables: BTreeMap<String, Lines>,
}

#[derive(Deserialize)]
struct Lines {
    version: String,
    #[serde(flatten)]
    counters: BTreeMap<String, Line>,
}

#[derive(Deserialize)]
struct Line {
    count: String,
    note: Option<String>,
}

impl Table {
    /// The table for a CPU with this identity; `None` if there is none.
    ///
    /// # Errors
    /// [`TableError`] if the tables make no sense.
    pub fn of(identity: &str) -> Result<Option<Table>, TableError> {
        for text in VENDORS {
            let mut file: File = toml::from_str(text)?;
            for (pattern, name) in &file.cpus {
                if fits(pattern, identity)? {
                    return match file.tables.remove_entry(name) {
                        Some((name, lines)) => Table::parse(name, lines).map(Some),
                        None => Err(TableError::Pattern(pattern.clone())),
                    };
                }
            }
        }
        Ok(None)
    }

    fn parse(name: String, lines: Lines) -> Result<Table, TableError> {
        let mut entries = BTreeMap::new();
        for (counter, line) in lines.counters {
            let parsed = Counter::from_name(&counter).zip(Entry::parse(&line));
            let (key, entry) = parsed.ok_or_else(|| TableError::Entry {
                table: name.clone(),
                counter,
                count: line.count.clone(),
            })?;
            entries.insert(key, entry);
        }
        Ok(Table { name, version: lines.version, entries })
    }
}

impl Entry {
    /// `64 * NAME/event=0x1/ + OTHER/event=0x2/`.
    fn parse(line: &Line) -> Option<Entry> {
        let (times, sum) = match line.count.split_once(" * ") {
            Some((times, sum)) => (times.parse().ok()?, sum),
            None => (1, line.count.as_str()),
        };
        let event = |text: &str| {
            let (name, terms) = text.strip_suffix('/')?.split_once('/')?;
            Some(VendorEvent { name: name.to_owned(), terms: terms.to_owned() })
        };
        Some(Entry {
            sum: sum.split(" + ").map(event).collect::<Option<_>>()?,
            times,
            note: line.note.clone(),
        })
    }
}

/// Whether a pattern matches this CPU: with its stepping or, like most patterns, all steppings.
fn fits(pattern: &str, identity: &str) -> Result<bool, TableError> {
    let regex =
        Regex::new(&format!("^(?:{pattern})$")).map_err(|_| TableError::Pattern(pattern.to_owned()))?;
    let any_stepping = identity.rsplit_once('-').map_or("", |(model, _stepping)| model);
    Ok(regex.is_match(identity) || regex.is_match(any_stepping))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counters::fixture::{self, Machine};
    use crate::counters::format::{core_pmu, Format};

    fn every_table() -> Vec<(Machine, Table)> {
        let machines = [Machine::Intel, Machine::Amd, Machine::Arm];
        let mut all = Vec::new();
        for (machine, text) in machines.into_iter().zip(VENDORS) {
            let file: File = toml::from_str(text).unwrap();
            all.extend(file.tables.into_iter().map(|(n, l)| (machine, Table::parse(n, l).unwrap())));
        }
        all
    }

    #[test]
    fn well_known_cpus_find_their_tables() {
        let known = [
            ("GenuineIntel-6-1A-5", Some("nehalemep"), "Xeon X5570"),
            ("GenuineIntel-6-2C-2", Some("westmereep-dp"), "Xeon X5650"),
            ("GenuineIntel-6-2D-7", Some("jaketown"), "Xeon E5-2680"),
            ("GenuineIntel-6-3E-4", Some("ivytown"), "Xeon E5-2680 v2"),
            ("GenuineIntel-6-3F-2", Some("haswellx"), "Xeon E5-2680 v3"),
            ("GenuineIntel-6-4F-1", Some("broadwellx"), "Xeon E5-2680 v4"),
            ("GenuineIntel-6-55-4", Some("skylakex"), "Xeon Gold 6148"),
            ("GenuineIntel-6-55-7", Some("cascadelakex"), "Xeon Gold 6248"),
            ("GenuineIntel-6-6A-6", Some("icelakex"), "Xeon Platinum 8375C"),
            ("GenuineIntel-6-8F-8", Some("sapphirerapids"), "Xeon Platinum 8480"),
            ("GenuineIntel-6-AD-1", Some("graniterapids"), "Xeon 6980P"),
            ("GenuineIntel-6-8E-C", Some("skylake"), "Core i7-8665U"),
            ("AuthenticAMD-23-1-2", Some("amdzen1"), "EPYC 7601"),
            ("AuthenticAMD-23-31-0", Some("amdzen2"), "EPYC 7742"),
            ("AuthenticAMD-25-1-1", Some("amdzen3"), "EPYC 7763"),
            ("AuthenticAMD-25-11-1", Some("amdzen4"), "EPYC 9654"),
            ("AuthenticAMD-26-2-1", Some("amdzen5"), "EPYC 9755"),
            ("0x00000000410fd0c0", Some("neoverse-n1"), "Ampere Altra, Graviton2"),
            ("0x00000000410fd400", Some("neoverse-v1"), "Graviton3"),
            ("0x00000000410fd4f0", Some("neoverse-n2-v2"), "Graviton4, Grace"),
            ("GenuineIntel-6-97-2", None, "Core i9-12900K: two sorts of cores"),
            ("GenuineIntel-15-4-1", None, "Pentium 4"),
            ("AuthenticAMD-21-2-0", None, "Opteron 6300"),
            ("0x00000000410fd0b0", None, "Cortex-A76"),
        ];
        for (identity, name, cpu) in known {
            let found = Table::of(identity).unwrap();
            assert_eq!(found.as_ref().map(|t| t.name.as_str()), name, "{cpu} is {identity}");
        }
    }

    #[test]
    fn every_event_of_every_table_can_be_encoded_for_its_pmu() {
        let (mut tables, mut events) = (0, 0);
        for (machine, table) in every_table() {
            let (_dir, root) = fixture::root(machine);
            let format = Format::read(&root, &core_pmu(&root).unwrap()).unwrap();
            tables += 1;
            for (counter, entry) in &table.entries {
                assert!(entry.times == if *counter == Counter::DramBytes { 64 } else { 1 }, "{counter:?}");
                for event in &entry.sum {
                    let encoded = format.encode(&event.terms);
                    let encoded = encoded.unwrap_or_else(|e| panic!("{} {}: {e}", table.name, event.name));
                    assert!(encoded.config != 0, "{} {} counts nothing", table.name, event.name);
                    // The response mask of an off-core event lies in a word of its own.
                    assert_eq!(encoded.config1 != 0, event.terms.contains("offcore_rsp"), "{}", event.name);
                    events += 1;
                }
            }
        }
        assert!(tables >= 32 && events >= 350, "{tables} tables, {events} events");
    }

    #[test]
    fn every_table_counts_the_pace_and_two_thirds_count_coherence_between_sockets_or_stalls() {
        let pace = [Counter::Cycles, Counter::Instructions, Counter::Branches, Counter::BranchMisses];
        let tables = every_table();
        for (_, table) in &tables {
            assert!(pace.iter().all(|c| table.entries.contains_key(c)), "{}", table.name);
            assert!(table.entries.contains_key(&Counter::L2Misses), "{}", table.name);
        }
        let having = |c| tables.iter().filter(|(_, t)| t.entries.contains_key(&c)).count() * 3;
        assert!(having(Counter::OffcoreStallCycles) >= tables.len() * 2);
        assert!(having(Counter::LlcMisses) >= tables.len() * 2);
    }

    #[test]
    fn nonsense_is_refused_with_its_line() {
        let line = |count: &str| Line { count: count.into(), note: None };
        for bad in ["", "NAME", "x * NAME/event=1/", "NAME/event=1", "A/event=1/ B/event=2"] {
            assert_eq!(Entry::parse(&line(bad)), None, "{bad}");
        }
        let counters = BTreeMap::from([("stalls".to_owned(), line("NAME/event=1/"))]);
        let e = Table::parse("t".into(), Lines { version: "v1".into(), counters }).unwrap_err();
        assert_eq!(e.to_string(), "the table `t` says of `stalls`: `NAME/event=1/`");
        assert!(matches!(fits("(", "x"), Err(TableError::Pattern(_))));
    }
}
