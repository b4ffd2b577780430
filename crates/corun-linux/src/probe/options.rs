//! The settings of the live host, and why it could not be set up.

use crate::target::Subject;
use crate::topology;
use corun_bpf::ProbeError;
use thiserror::Error;

/// What to watch and how closely.
#[derive(Clone, Debug)]
pub struct LiveOptions {
    /// The subject of the report.
    pub subject: Subject,
    /// Processes that are tenants of their own, each with its threads and its present and future descendants.
    pub tenants: Vec<u32>,
    /// Bytes for switches and wake-ups between two polls, a power of two; 0: no trace.
    pub trace_bytes: u32,
    /// Whether the trace contains single waits, too.
    pub waits: bool,
    /// Bytes for the run log of the subject between two polls, a power of two; 0: none is kept.
    pub record_bytes: u32,
    /// Tasks that can be followed at a time; `None`: four times the present number.
    pub max_tasks: Option<u32>,
    /// At least this many, unless the number is given.
    pub least_tasks: u32,
    /// Process groups in cgroups that can be distinguished at a time; `None`: twice the present number of
    /// tasks.
    pub max_groups: Option<u32>,
    /// At least this many, unless the number is given.
    pub least_groups: u32,
    /// Pairs of them, one of which took time from the other, that can be distinguished at a time beyond each
    /// task's first eight culprits; `None`: 65,536.
    pub max_pairs: Option<u32>,
    /// Bytes for ended tasks between two polls, a power of two.
    pub ended_bytes: u32,
    /// Whether this process is a tenant of its own,
    /// [`TenantKind::Watcher`](corun_model::TenantKind::Watcher). Then the cost of watching is not blamed on
    /// a co-runner. Its children are not included.
    pub watcher_apart: bool,
}

impl LiveOptions {
    /// The default: no trace, room for everybody.
    pub fn new(subject: Subject) -> LiveOptions {
        LiveOptions {
            subject,
            tenants: Vec::new(),
            trace_bytes: 0,
            waits: false,
            record_bytes: 0,
            max_tasks: None,
            least_tasks: 1 << 15,
            max_groups: None,
            least_groups: 1 << 14,
            max_pairs: None,
            ended_bytes: 16 << 20,
            watcher_apart: false,
        }
    }
}

/// The live host could not be set up.
#[derive(Debug, Error)]
pub enum LiveError {
    /// The machine could not be read.
    #[error(transparent)]
    Read(#[from] crate::ReadError),
    /// Its shape could not be read.
    #[error(transparent)]
    Topology(#[from] topology::TopologyError),
    /// The probe could not be started.
    #[error(transparent)]
    Probe(#[from] ProbeError),
    /// Its data would mean something else here.
    #[error("{0}")]
    OtherNamespace(&'static str),
    /// The table of groups was full before anything began.
    #[error("the probe's table of tenants is full")]
    NoGroup,
}
