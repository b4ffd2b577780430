//! Where and when runs were made, for a record; and whether those of two records go together.

use corun_linux::sched::autogroups_are_on;
use corun_linux::{topology, Root};
use corun_report::describe;
use serde::{Deserialize, Serialize};

/// Where and when.
#[derive(Clone, Debug)]
pub struct Circumstances {
    /// The machine in one line.
    pub machine: String,
    /// The kernel's release.
    pub kernel: String,
    /// How fair shares are grouped.
    pub shares: &'static str,
}

impl Circumstances {
    /// Those of this machine now.
    ///
    /// # Errors
    /// One sentence: its shape cannot be read.
    pub fn read(root: &Root) -> Result<Circumstances, String> {
        let machine =
            topology::read_machine(root).map_err(|e| format!("reading the machine's shape: {e}"))?;
        Ok(Circumstances {
            machine: describe(&machine),
            kernel: root.read("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned(),
            shares: fair_shares(autogroups_are_on(root)),
        })
    }
}

/// How every record of a live study begins.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RecordHead {
    /// The schema of the record.
    pub schema: String,
    /// The version of corun.
    pub corun: String,
    /// When it began, for people.
    pub date: Option<String>,
    /// The machine, in one line.
    pub machine: String,
    /// The kernel's release.
    pub kernel: String,
}

impl RecordHead {
    /// When it began, in words.
    pub fn when(&self) -> &str {
        self.date.as_deref().unwrap_or("at an unknown date")
    }

    /// What must be the same of records that go together: numbers of two machines do not belong in one table.
    pub fn facts(&self) -> [(&'static str, String); 3] {
        [("schema", self.schema.clone()), ("machine", self.machine.clone()), ("kernel", self.kernel.clone())]
    }
}

/// The first of some facts about two records in which they differ, with what it was and what it is; `None`: they go together.
pub fn first_difference(
    was: impl IntoIterator<Item = (&'static str, String)>,
    is: impl IntoIterator<Item = (&'static str, String)>,
) -> Option<(&'static str, String, String)> {
    let mut pairs = was.into_iter().zip(is);
    pairs.find_map(|((what, was), (_, is))| (was != is).then_some((what, was, is)))
}

/// How fair shares are grouped, in words.
pub fn fair_shares(grouped: bool) -> &'static str {
    if grouped {
        "autogroup: each session is one group"
    } else {
        "no groups: all tasks share alike"
    }
}
