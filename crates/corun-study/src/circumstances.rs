//! The machine and the date of runs, for a record, and a check whether two records may be combined.

use corun_linux::sched::autogroups_are_on;
use corun_linux::{topology, Root};
use corun_report::describe;
use serde::{Deserialize, Serialize};

/// The machine on which runs are made.
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
    /// Reads those of this machine.
    ///
    /// # Errors
    /// One sentence: the shape of the machine cannot be read.
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

/// The first fields of every record of a live study.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RecordHead {
    /// The schema of the record.
    pub schema: String,
    /// The version of corun.
    pub corun: String,
    /// The date of the first run, for people.
    pub date: Option<String>,
    /// The machine, in one line.
    pub machine: String,
    /// The kernel's release.
    pub kernel: String,
}

impl RecordHead {
    /// The date of the first run, in words.
    pub fn when(&self) -> &str {
        self.date.as_deref().unwrap_or("at an unknown date")
    }

    /// The facts that two records must share to be combined: numbers of two machines do not belong in one table.
    pub fn facts(&self) -> [(&'static str, String); 3] {
        [("schema", self.schema.clone()), ("machine", self.machine.clone()), ("kernel", self.kernel.clone())]
    }
}

/// The first of these facts in which two records differ, with the old and the new value. `None` if they may be combined.
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
