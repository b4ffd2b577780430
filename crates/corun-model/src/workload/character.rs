//! How a program uses the core and the memory system, for the modelled machine. The values are measured or assumed for a solo run. The
//! live host ignores them.

use super::bad_key::BadKey;
use super::memory::{MemoryUse, MOST_PKI, MOST_WORKING_SET};
use crate::duration::{human_bytes, written_bytes};
use serde::Deserialize;

/// The largest number of instructions per cycle of any core.
const MOST_IPC: f64 = 16.0;
/// More lines than threads could ever contend for.
const MOST_HOT_LINES: u32 = 1_000_000;

/// Memory and pipeline character of a program, per thread, in a solo run.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Character {
    /// Instructions per cycle with a perfect memory system (2.0).
    pub ipc: f64,
    /// Branches per thousand instructions (150).
    pub branches_pki: f64,
    /// Mispredicted share of branches, 0..=1 (0.01).
    pub mispredicts: f64,
    /// References to the LLC (L2 misses) per thousand instructions (1).
    pub llc_refs_pki: f64,
    /// Bytes that would have to stay in the LLC to avoid capacity misses, per thread (0).
    #[serde(deserialize_with = "written_bytes")]
    pub working_set: u64,
    /// Share of LLC references that miss in a cache of any size, 0..=1 (0.05).
    pub compulsory: f64,
    /// Transfers of lines that another thread of the program has written, per thousand instructions, while that
    /// thread is running (0).
    pub coherence_pki: f64,
    /// Share of a memory or coherence stall hidden by other work, 0..=1 (0.3): latency tolerance, ATC'16 §3.1.
    pub hidden: f64,
    /// Lines that these transfers go to. Each line goes to one thread at a time. 0 means so many lines that threads never wait for one
    /// (0).
    pub hot_lines: u32,
    /// Placement of its data, shared data, and the bends of its miss curve.
    pub memory: MemoryUse,
}

impl Default for Character {
    fn default() -> Self {
        Character {
            ipc: 2.0,
            branches_pki: 150.0,
            mispredicts: 0.01,
            llc_refs_pki: 1.0,
            working_set: 0,
            compulsory: 0.05,
            coherence_pki: 0.0,
            hidden: 0.3,
            hot_lines: 0,
            memory: MemoryUse::default(),
        }
    }
}

impl Character {
    /// Checks ranges that the types allow but no program can have.
    ///
    /// # Errors
    /// The key at fault and one sentence with the remedy.
    pub fn check(&self) -> Result<(), BadKey> {
        let within = |key, x: f64, low: f64, high: f64| match x {
            x if (low..=high).contains(&x) => Ok(()),
            x => Err(BadKey::is(key, format!("{x:?}"), format!("; give a number from {low} to {high}"))),
        };
        let share = |key, x: f64| match x {
            x if (0.0..=1.0).contains(&x) => Ok(()),
            x => Err(BadKey::is(key, format!("{x:?}"), "; it is a share between 0 and 1")),
        };
        within("ipc", self.ipc, 0.01, MOST_IPC)?;
        within("branches-pki", self.branches_pki, 0.0, MOST_PKI)?;
        within("llc-refs-pki", self.llc_refs_pki, 0.0, MOST_PKI)?;
        within("coherence-pki", self.coherence_pki, 0.0, MOST_PKI)?;
        if self.working_set > MOST_WORKING_SET {
            let most = human_bytes(MOST_WORKING_SET);
            return Err(BadKey::new(
                "working-set",
                format!("working-set is above {most}; give a smaller one"),
            ));
        }
        share("mispredicts", self.mispredicts)?;
        share("compulsory", self.compulsory)?;
        share("hidden", self.hidden)?;
        if self.hot_lines > MOST_HOT_LINES {
            let what = format!("; at most {MOST_HOT_LINES} are allowed, and 0 is as many as one likes");
            return Err(BadKey::is("hot-lines", self.hot_lines, what));
        }
        self.memory.check(self.working_set)
    }
}
