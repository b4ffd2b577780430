//! The placement of a program's data and its use by threads: details beyond a linear miss curve on each thread's own data. Part of a
//! character ([`super::character`]).
//!
//! ```text
//! references that are no stream   : shared-refs of them to `shared`, the others to the thread's own data
//! references to the own data      : hot-refs of them to `hot`, the others to the rest of `working-set`
//! private-refs-pki                : besides these, to `private`, which stays in the core's own caches when the thread runs alone
//! ```
//!
//! So a thread's miss curve has a knee at `hot` and one at `working-set`. The defaults have the same meaning as a file without these
//! keys.

use super::bad_key::BadKey;
use crate::duration::{human_bytes, written_bytes};
use serde::Deserialize;

/// A larger number per thousand instructions would be more than one for each.
pub(super) const MOST_PKI: f64 = 1_000.0;
/// A pebibyte: no thread uses more repeatedly.
pub(super) const MOST_WORKING_SET: u64 = 1 << 50;

/// Which node's memory holds a program's data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Placed {
    /// Each thread's own data on the node where it first computed; what threads share is spread over these nodes.
    #[default]
    Own,
    /// All of it on the node where the program first computed: the main thread has written it.
    Main,
    /// All of it spread over all nodes.
    Interleaved,
}

/// Placement, shared data and the inner knee of the miss curve.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct MemoryUse {
    /// The placement of its data (`own`).
    pub placed: Placed,
    /// Bytes that all threads of the program refer to, which a cache holds once (0).
    #[serde(deserialize_with = "written_bytes")]
    pub shared: u64,
    /// Share of the LLC references other than streams that go to them, 0..=1 (0).
    pub shared_refs: f64,
    /// Bytes of `working-set` that are used more than the rest (0).
    #[serde(deserialize_with = "written_bytes")]
    pub hot: u64,
    /// Share of the references to the working set that go to them, 0..=1 (0).
    pub hot_refs: f64,
    /// Share of a thread's accesses to DRAM that go to the line after the last one, 0..=1 (1): true for streams, not for pointers.
    pub rows: f64,
    /// Bytes that a thread keeps in its core's private caches, and fetches again after it was away (0).
    #[serde(deserialize_with = "written_bytes")]
    pub private: u64,
    /// References per thousand instructions that hit a line there, but would miss in an empty cache (0): misses of the first level that
    /// hit the second.
    pub private_refs_pki: f64,
}

impl Default for MemoryUse {
    fn default() -> Self {
        MemoryUse {
            placed: Placed::Own,
            shared: 0,
            shared_refs: 0.0,
            hot: 0,
            hot_refs: 0.0,
            rows: 1.0,
            private: 0,
            private_refs_pki: 0.0,
        }
    }
}

impl MemoryUse {
    /// Checks it against the working set of its character.
    ///
    /// # Errors
    /// The key at fault and one sentence with the remedy.
    pub fn check(&self, working_set: u64) -> Result<(), BadKey> {
        part("shared-refs", self.shared_refs, "shared", self.shared)?;
        part("hot-refs", self.hot_refs, "hot", self.hot)?;
        self.check_private()?;
        if !(0.0..=1.0).contains(&self.rows) {
            return Err(BadKey::is("rows", format!("{:?}", self.rows), "; it is a share between 0 and 1"));
        }
        if self.shared > MOST_WORKING_SET {
            let most = human_bytes(MOST_WORKING_SET);
            return Err(BadKey::new("shared", format!("shared is above {most}; give a smaller one")));
        }
        if self.hot > working_set {
            let what = "hot is larger than working-set, of which it is a part; give a smaller one";
            return Err(BadKey::new("hot", what));
        }
        Ok(())
    }

    fn check_private(&self) -> Result<(), BadKey> {
        let (key, refs) = ("private-refs-pki", self.private_refs_pki);
        if !(0.0..=MOST_PKI).contains(&refs) {
            return Err(BadKey::is(
                key,
                format!("{refs:?}"),
                format!("; give a number from 0 to {MOST_PKI}"),
            ));
        }
        match (refs > 0.0, self.private > 0) {
            (true, false) => Err(BadKey::is(key, format!("{refs:?}"), ", but private is 0; give its size")),
            (false, true) => {
                let what = "private has a size, but private-refs-pki is 0; give how many references go to it";
                Err(BadKey::new("private", what))
            }
            _ => Ok(()),
        }
    }
}

/// A share of references and the bytes that they go to: both or neither.
fn part(refs_key: &'static str, refs: f64, key: &'static str, bytes: u64) -> Result<(), BadKey> {
    if !(0.0..=1.0).contains(&refs) {
        return Err(BadKey::is(refs_key, format!("{refs:?}"), "; it is a share between 0 and 1"));
    }
    match (refs > 0.0, bytes > 0) {
        (true, false) => {
            Err(BadKey::is(refs_key, format!("{refs:?}"), format!(", but {key} is 0; give its size")))
        }
        (false, true) => {
            let what =
                format!("{key} has a size, but {refs_key} is 0; give the share of references that go to it");
            Err(BadKey::new(key, what))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::file::Workload;
    use super::*;

    fn of(character: &str) -> Result<Workload, String> {
        let text = format!(
            "schema = \"corun.workload/1\"\nname = \"m\"\n[program]\nkind = \"parallel\"\n[character]\n{character}\n"
        );
        Workload::parse("m.toml", &text).map_err(|bad| bad.to_string())
    }

    #[test]
    fn placement_shared_data_and_knees_are_read() {
        let given = "working-set = \"2MiB\"\nmemory = { placed = \"main\", shared = \"16MiB\", shared-refs = 0.5, hot = \"64KiB\", hot-refs = 0.9 }";
        let memory = of(given).unwrap().character.memory;
        let hot = MemoryUse { hot: 64 << 10, hot_refs: 0.9, ..MemoryUse::default() };
        assert_eq!(memory, MemoryUse { placed: Placed::Main, shared: 16 << 20, shared_refs: 0.5, ..hot });
        assert_eq!(of("ipc = 1.0").unwrap().character.memory, MemoryUse::default());
    }

    #[test]
    fn impossible_values_are_refused_at_their_line() {
        let refused = |given: &str| of(given).unwrap_err();
        assert_eq!(
            refused("ipc = 1.0\nmemory = { shared-refs = 1.5 }"),
            "m.toml:7: shared-refs is 1.5; it is a share between 0 and 1"
        );
        assert_eq!(
            refused("memory = { hot-refs = 0.5 }"),
            "m.toml:6: hot-refs is 0.5, but hot is 0; give its size"
        );
        let said = refused("memory = { shared = \"1MiB\" }");
        assert!(
            said.starts_with("m.toml:6: shared has a size, but shared-refs is 0; give the share"),
            "{said}"
        );
        let said = refused("working-set = \"1MiB\"\nmemory = { hot = \"2MiB\", hot-refs = 0.5 }");
        assert!(said.starts_with("m.toml:7: hot is larger than working-set"), "{said}");
        let said = refused("memory = { private = \"128KiB\" }");
        assert!(
            said.starts_with("m.toml:6: private has a size, but private-refs-pki is 0; give how"),
            "{said}"
        );
        assert_eq!(
            refused("memory = { private-refs-pki = 9.0 }"),
            "m.toml:6: private-refs-pki is 9.0, but private is 0; give its size"
        );
        let said = refused("memory = { private-refs-pki = 2000.0 }");
        assert_eq!(said, "m.toml:6: private-refs-pki is 2000.0; give a number from 0 to 1000");
        let said = refused("memory = { rows = -1.0 }");
        assert_eq!(said, "m.toml:6: rows is -1.0; it is a share between 0 and 1");
        let said = refused("memory = { placed = \"there\" }");
        assert!(said.starts_with("m.toml:6: there is no `there`; name one of own, main"), "{said}");
        let said = refused("memory = { shared = \"2000000GiB\", shared-refs = 0.1 }");
        assert!(said.starts_with("m.toml:6: shared is above"), "{said}");
    }
}
