//! The scenario file as written.

use crate::sched::FirstSlice;
use corun_model::duration::written_ns;
use corun_model::workload::{Character, Program};
use corun_model::Linux;
use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;
use toml::Spanned;

/// A scenario file.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct ScenarioFile {
    /// Always `corun.scenario/1`.
    pub schema: String,
    /// Its name; the file's name if absent.
    pub name: Option<String>,
    /// Its purpose, in a sentence.
    #[serde(default)]
    pub about: String,
    /// A machine of the papers, a machine file (ending in `.toml`), or `host`.
    pub machine: Spanned<String>,
    /// One run per seed (`[1]`).
    #[serde(default = "one_seed")]
    pub seeds: Spanned<Vec<u64>>,
    /// How long to run; absent: until every tenant that has an end and is not background has ended.
    #[serde(default)]
    pub duration: Option<Spanned<Time>>,
    /// When to give up on a run that does not end (`10h`).
    #[serde(default)]
    pub horizon: Option<Spanned<Time>>,
    /// The scheduler under it.
    #[serde(default)]
    pub scheduler: Option<Spanned<SchedulerFile>>,
    /// The policy that schedules the tenants from above; absent: none.
    #[serde(default)]
    pub policy: Option<Spanned<PolicyFile>>,
    /// The tenants.
    #[serde(default)]
    pub tenant: Vec<Spanned<TenantFile>>,
}

/// A time as people write it, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Time(pub u64);

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Time, D::Error> {
        written_ns(d).map(Time)
    }
}

/// Which scheduler.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SchedulerKind {
    /// Linux since 6.6.
    #[default]
    Eevdf,
    /// Linux 2.6.23 to 6.5.
    Cfs,
    /// Xen's credit scheduler.
    XenCredit,
}

impl SchedulerKind {
    /// The scheduler of this name, if there is one.
    pub fn by_name(name: &str) -> Option<SchedulerKind> {
        [SchedulerKind::Eevdf, SchedulerKind::Cfs, SchedulerKind::XenCredit]
            .into_iter()
            .find(|k| k.name() == name)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            SchedulerKind::Eevdf => "eevdf",
            SchedulerKind::Cfs => "cfs",
            SchedulerKind::XenCredit => "xen-credit",
        }
    }
}

/// The scheduler and its options.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default, expecting = "a table [scheduler]")]
pub struct SchedulerFile {
    /// Which (eevdf).
    pub name: SchedulerKind,
    /// For EEVDF its release, by default [`Linux::USUAL`]. For CFS the release of placement and balancing, by default the machine's.
    pub linux: Option<Linux>,
    /// EEVDF: the base slice; absent: 0.7 ms × (1 + log2 CPUs).
    pub base_slice: Option<Time>,
    /// EEVDF: how many of 1024 chances a newly idle CPU takes to look for a task, until it has its own
    /// experience. Absent: 512, as after the kernel boots.
    pub newidle_ratio: Option<u32>,
    /// EEVDF, CFS: distance between ticks; absent: the machine's.
    pub tick: Option<Time>,
    /// Xen: the length of a CPU's first slice; absent: as any other.
    pub first_slice: Option<FirstSlice>,
    /// EEVDF, CFS: sessions share CPU time as groups, as with autogroup or cgroups (true).
    pub groups: bool,
    /// Slice of the scheduler inside guests (6 ms).
    pub guest_slice: Time,
}

impl Default for SchedulerFile {
    fn default() -> SchedulerFile {
        SchedulerFile {
            name: SchedulerKind::Eevdf,
            linux: None,
            base_slice: None,
            newidle_ratio: None,
            tick: None,
            first_slice: None,
            groups: true,
            guest_slice: Time(6_000_000),
        }
    }
}

/// A policy and its options.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, expecting = "a table [policy]")]
pub struct PolicyFile {
    /// Which.
    pub name: Spanned<String>,
    /// How often it decides; absent: as often as the policy wants.
    pub epoch: Option<Spanned<Time>>,
    /// Whether a guard measures if it helps, and stops it if not, as `corun control` does.
    #[serde(default)]
    pub guard: bool,
    /// Its options, as `corun policies` lists them.
    #[serde(default)]
    pub options: BTreeMap<String, Spanned<OptionFile>>,
    /// Tenants that it may touch; absent: all.
    pub tenants: Option<Vec<Spanned<String>>>,
    /// Tenants that it may not touch.
    #[serde(default)]
    pub protect: Vec<Spanned<String>>,
}

/// An option's value as people write it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged, expecting = "an option is a whole number of at least 0, a text, true or false")]
pub enum OptionFile {
    /// A number.
    Whole(u64),
    /// True or false.
    Flag(bool),
    /// Anything else.
    Text(String),
}

impl OptionFile {
    /// Its text on a command line.
    pub fn text(&self) -> String {
        match self {
            OptionFile::Whole(n) => n.to_string(),
            OptionFile::Flag(yes) => yes.to_string(),
            OptionFile::Text(text) => text.clone(),
        }
    }
}

/// One tenant.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct TenantFile {
    /// Its name; the workload's if absent.
    pub name: Option<Spanned<String>>,
    /// A workload file.
    pub workload: Option<Spanned<String>>,
    /// A program written here instead.
    pub program: Option<Spanned<Program>>,
    /// Its character, with `program`.
    pub character: Option<Spanned<Character>>,
    /// The number of such tenants, each separate (1).
    pub count: Option<Spanned<u32>>,
    /// Threads, instead of the workload's.
    pub threads: Option<Spanned<u32>>,
    /// CPUs to pin its tasks to, one each in turn.
    pub cpus: Option<Spanned<Vec<u32>>>,
    /// CPUs that all its tasks may use.
    pub allowed: Option<Spanned<Vec<u32>>>,
    /// Its weight as `cpu.weight`: 1 to 10000 (100).
    pub weight: Option<Spanned<u32>>,
    /// The session it shares with others of the same name; absent: its own.
    pub session: Option<String>,
    /// The VM it runs in.
    pub vm: Option<Spanned<VmFile>>,
    /// When it starts (0).
    pub start: Option<Time>,
    /// It starts when the first run of this tenant has ended.
    pub after: Option<Spanned<String>>,
    /// It starts again whenever it ends (false).
    #[serde(default)]
    pub repeat: bool,
    /// The run does not wait for its end (true for tenants that repeat or never end).
    pub background: Option<bool>,
    /// SCHED_BATCH (false).
    #[serde(default)]
    pub batch: bool,
    /// Slices of its tasks: one time, or shortest and longest.
    pub slice: Option<Spanned<SliceFile>>,
}

/// A VM.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct VmFile {
    /// Its vCPUs.
    pub vcpus: u32,
}

/// A slice: fixed, or random between two bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(
    untagged,
    expecting = "a slice is a time such as \"3ms\", or the shortest and the longest such as [\"10ms\", \"30ms\"]"
)]
pub enum SliceFile {
    /// Always this long.
    Fixed(Time),
    /// Between these.
    Between([Time; 2]),
}

impl SliceFile {
    /// Shortest and longest.
    pub fn bounds_ns(self) -> (u64, u64) {
        match self {
            SliceFile::Fixed(t) => (t.0, t.0),
            SliceFile::Between([low, high]) => (low.0, high.0),
        }
    }
}

fn one_seed() -> Spanned<Vec<u64>> {
    Spanned::new(0..0, vec![1])
}
