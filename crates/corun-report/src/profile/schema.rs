//! The wire schema `corun.profile/1`: the only types of corun that are serialized.
//!
//! Names are a contract: fields are added, never renamed or redefined; `docs/json.md` explains each. Times
//! are integer nanoseconds. `None` is written as `null` and means *unknown*, never zero (invariant 7). Every
//! structure reads back what it writes, so tools and tests can check a file with [`ProfileReport::check`].

use super::waits::Wait;
use corun_model::ledger::BlockReasons;
use corun_model::{TakenBy, TenantKind, Unavailable};
use corun_predict::Server;
use serde::{Deserialize, Serialize};

/// Name and version of the schema, the first field of every report.
pub const SCHEMA: &str = "corun.profile/1";

/// One profile: where a subject's time went in one window, and who took it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProfileReport {
    /// [`SCHEMA`].
    pub schema: String,
    /// Where the tasks ran.
    pub host: Host,
    /// What saw them.
    pub source: Source,
    /// Version of corun that wrote this.
    pub corun: String,
    /// When, as the caller wrote it; `None` leaves reports of the same input byte-identical.
    #[serde(default)]
    pub date: Option<String>,
    /// The target as the user named it: a command line, `pid 123`, a scenario file.
    pub target: String,
    /// Exit status of the command; `None` if there was no command or it was still running.
    #[serde(default)]
    pub exit_status: Option<i32>,
    /// Start of the window on the host's clock (not the time of day).
    pub start_ns: u64,
    /// Length of the window.
    pub window_ns: u64,
    /// Number of CPUs of the machine.
    pub cpus: u64,
    /// CPUs that any of the subject's tasks may use; `None` if unknown.
    #[serde(default)]
    pub allowed_cpus: Option<u64>,
    /// Whether some of its tasks stayed where they were because their CPUs are isolated; `None` if unknown.
    #[serde(default)]
    pub isolated: Option<bool>,
    /// The subject's loss of wall time; `None` if not judged.
    #[serde(default)]
    pub lost: Option<LostTime>,
    /// Whom outside of it the subject waited for, and how long those were kept from a CPU meanwhile, those
    /// first for which it waited longest; `None` if not known.
    #[serde(default)]
    pub servers: Option<Vec<Server>>,
    /// The tenant asked about.
    pub subject: Section,
    /// The subject's tasks, most time lost first.
    pub tasks: Vec<Task>,
    /// Every tenant that had a task in the window, the subject included, in the order of ids.
    pub tenants: Vec<Section>,
    /// Tasks of the co-runners that ran or waited, most CPU time first.
    #[serde(default)]
    pub others: Vec<OtherTask>,
    /// The longest waits for a CPU of the subject's tasks, longest first; `None` if nobody asked for them.
    #[serde(default)]
    pub worst_waits: Option<Vec<Wait>>,
    /// The machine as a whole.
    pub machine: Machine,
    /// Consecutive parts of the window; empty if none were taken.
    #[serde(default)]
    pub timeline: Vec<Slot>,
    /// Lower edge of each bucket of every histogram in this report; the last bucket has no upper edge.
    #[serde(default)]
    pub histogram_edges_ns: Vec<u64>,
    /// The losses.
    pub loss: Loss,
    /// What measuring cost.
    #[serde(rename = "self")]
    pub own: SelfCost,
    /// The unseen values, and why.
    pub unavailable: Vec<Unavailable>,
    /// Anything else that a reader must know: "interrupted after 3.2 s".
    #[serde(default)]
    pub notes: Vec<String>,
}

/// The part of a wall time that would not have been needed alone.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LostTime {
    /// The wall time.
    pub wall_ns: u64,
    /// The share of it, 0..1: the low end of its 95 % interval, the most likely share, the high end.
    pub share: [f64; 3],
    /// The part of the likely share that may not have been lost: it may have come out of the subject's sleep, or of time in which its
    /// own CPU budget would have stopped it, 0..1.
    #[serde(default)]
    pub spare: f64,
    /// The part of the likely share in which its own CPU budget may have stopped it anyway, 0..1.
    #[serde(default)]
    pub stopped_anyway: f64,
}

/// Where tasks ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Host {
    /// This Linux machine.
    Live,
    /// The modelled machine.
    Sim,
}

/// What saw the tasks, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// eBPF on the scheduler's tracepoints: exact ledger, exact culprits.
    Ebpf,
    /// The kernel's own per-task sums: the ledger without culprits.
    Schedstat,
    /// The model knows everything.
    Sim,
}

/// The name of a tenant everywhere in a report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tenant {
    /// Its number in this report.
    pub id: u32,
    /// Its kind: `command`, `unit`, `container`, `kernel`, `idle`…
    pub kind: String,
    /// What people call it.
    pub name: String,
}

/// One tenant's account.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Section {
    /// Who.
    pub tenant: Tenant,
    /// Its stable key: the cgroup path, container id, process group…
    #[serde(default)]
    pub key: String,
    /// How many tasks it had.
    #[serde(default)]
    pub task_count: u64,
    /// Where their time went, summed.
    #[serde(flatten)]
    pub account: Account,
}

/// One task of the subject.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Task {
    /// Kernel thread id (a number of the same kind on the modelled machine).
    pub tid: u32,
    /// The kernel's comm.
    pub name: String,
    /// Id of its tenant at the end of the window.
    #[serde(default)]
    pub tenant: u32,
    /// How much of the window it lived for: its ledger's total.
    pub lifetime_ns: u64,
    /// When it was first seen, from the start of the window.
    #[serde(default)]
    pub born_ns: u64,
    /// Whether it still existed at the end.
    #[serde(default)]
    pub alive: bool,
    /// The CPU it last ran on; `None` if it did not run.
    #[serde(default)]
    pub last_cpu: Option<u32>,
    /// Where its time went.
    #[serde(flatten)]
    pub account: Account,
}

/// A co-runner's task, in short.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OtherTask {
    /// Kernel thread id.
    pub tid: u32,
    /// The kernel's comm.
    pub name: String,
    /// Id of its tenant.
    pub tenant: u32,
    /// Where its time went.
    pub ledger: Ledger,
}

/// Where time went, and what happened.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Account {
    /// The conserved ledger.
    pub ledger: Ledger,
    /// Its block part by reason; `None` if the source does not have it.
    #[serde(default)]
    pub block: Option<Block>,
    /// Scheduling events.
    pub events: Events,
    /// Hardware events; `None` if the machine has no counters.
    pub counters: Option<Counters>,
    /// Who held the CPU while it waited, largest share first.
    pub culprits: Vec<Culprit>,
    /// The part of the steal that could not be charged to anyone.
    pub unattributed_ns: u64,
    /// Lengths of waits in the run queue; `None` if the source does not have them.
    #[serde(default)]
    pub waits: Option<Histogram>,
    /// Lengths of stretches on a CPU; `None` if the source does not have them.
    #[serde(default)]
    pub stretches: Option<Histogram>,
}

/// The parts sum to `total_ns`; an unmeasured spin is inside compute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ledger {
    /// On a CPU.
    pub compute_ns: u64,
    /// On a CPU but only waiting for a lock or barrier; `None` if not measured.
    pub spin_ns: Option<u64>,
    /// Off the CPU voluntarily.
    pub block_ns: u64,
    /// Runnable but not running.
    pub steal_ns: u64,
    /// Runnable but a CPU budget of its own was used up: a quota, or real-time runtime.
    pub throttled_ns: u64,
    /// Stopped by a signal or held by a tracer; `None` if not measured, and then part of `block_ns`.
    #[serde(default)]
    pub stopped_ns: Option<u64>,
    /// Frozen with its cgroup or with the system; `None`: in the same case.
    #[serde(default)]
    pub frozen_ns: Option<u64>,
    /// Stopped by corun itself.
    pub parked_ns: u64,
    /// Not shown by the kernel.
    #[serde(default)]
    pub unknown_ns: u64,
    /// The lifetime; for a tenant the sum of its tasks' lifetimes.
    pub total_ns: u64,
}

/// Why it was blocked; the reasons sum to the ledger's `block_ns`. A reason that an older version did not
/// distinguish is in `other_ns`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Block {
    /// User-space locks, condition variables, barriers, joins.
    pub futex_ns: u64,
    /// Block devices and uninterruptible sleep.
    pub io_ns: u64,
    /// Timed sleep.
    pub sleep_ns: u64,
    /// `epoll_wait`, `poll`, `select`.
    pub poll_ns: u64,
    /// Pipes, sockets, terminals.
    pub pipe_ns: u64,
    /// Waiting for a child process.
    pub child_ns: u64,
    /// Anything else.
    pub other_ns: u64,
}

impl Block {
    /// The same in the model's form.
    pub fn reasons(&self) -> BlockReasons {
        BlockReasons {
            futex_ns: self.futex_ns,
            io_ns: self.io_ns,
            sleep_ns: self.sleep_ns,
            poll_ns: self.poll_ns,
            pipe_ns: self.pipe_ns,
            child_ns: self.child_ns,
            other_ns: self.other_ns,
        }
    }

    /// The reasons with their names, in a fixed order.
    pub fn named(&self) -> [(&'static str, u64); 7] {
        [
            ("futex", self.futex_ns),
            ("io", self.io_ns),
            ("sleep", self.sleep_ns),
            ("poll", self.poll_ns),
            ("pipe", self.pipe_ns),
            ("child", self.child_ns),
            ("other", self.other_ns),
        ]
    }
}

/// Scheduling events as counts; `None` if this source does not have them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Events {
    /// Times it blocked: voluntary switches.
    #[serde(default)]
    pub blocked: Option<u64>,
    /// Calls of `sched_yield` after which another task ran.
    #[serde(default)]
    pub yielded: Option<u64>,
    /// Involuntary switches.
    pub preemptions: Option<u64>,
    /// Times made runnable.
    pub wakeups: Option<u64>,
    /// Moves to another CPU, all distances together.
    pub migrations: Option<u64>,
    /// The same by distance.
    #[serde(default)]
    pub migrations_by_distance: Option<Migrations>,
}

/// Moves to another CPU by distance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Migrations {
    /// To another hardware thread of the core.
    pub same_core: u64,
    /// To another core of the last-level cache.
    pub same_llc: u64,
    /// To another last-level cache of the socket.
    pub same_socket: u64,
    /// To another socket.
    pub other_socket: u64,
}

/// Hardware events; a counter that the machine lacks is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[allow(
    missing_docs,
    reason = "the fields are those of corun_model::Counters, documented there and in docs/json.md"
)]
pub struct Counters {
    pub cycles: Option<u64>,
    pub instructions: Option<u64>,
    pub branches: Option<u64>,
    pub branch_misses: Option<u64>,
    pub l2_misses: Option<u64>,
    pub llc_references: Option<u64>,
    pub llc_misses: Option<u64>,
    pub offcore_stall_cycles: Option<u64>,
    pub l2_stall_cycles: Option<u64>,
    pub coherence_intra: Option<u64>,
    pub coherence_inter: Option<u64>,
    pub remote_dram: Option<u64>,
    pub dram_bytes: Option<u64>,
}

/// One tenant's part of somebody's steal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Culprit {
    /// Who held the CPU.
    pub tenant: Tenant,
    /// How long, while the victim waited.
    pub steal_ns: u64,
    /// Whether it is the victim's own: of the same tenant, whose tasks delayed each other, or an I/O thread
    /// of the same virtual machine.
    #[serde(rename = "self", default)]
    pub own: bool,
}

impl Culprit {
    /// Its relation to the victim. A kind that this version does not know counts as a co-runner.
    pub fn taken_by(&self) -> TakenBy {
        match TenantKind::from_name(&self.tenant.kind) {
            _ if self.own => TakenBy::Own,
            Some(kind) => kind.taken_by(),
            None => TakenBy::CoRunner,
        }
    }
}

/// A log2 histogram of times; the report's `histogram_edges_ns` has each bucket's lower edge. The last bucket is
/// overflow: everything longer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Histogram {
    /// Counts per bucket; the last is overflow.
    pub counts: Vec<u64>,
    /// All counts.
    pub total: u64,
    /// The last bucket's count.
    pub overflow: u64,
    /// Quantiles; `None` when nothing was counted.
    pub p50: Option<Bound>,
    /// 90 % are no longer than this.
    pub p90: Option<Bound>,
    /// 99 % are no longer than this.
    pub p99: Option<Bound>,
}

/// A quantile from a histogram: only bucket edges are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// It lies below this edge and at or above half of it.
    BelowNs(u64),
    /// It lies in the overflow bucket: this long or longer.
    AtLeastNs(u64),
}

/// The machine's energy, summed over sockets, in microjoules: of everybody on it, including idle CPUs. `None`
/// if it does not report it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct MachineEnergy {
    /// The processors as a whole.
    pub package_uj: Option<u64>,
    /// Their cores, a part of the packages.
    pub core_uj: Option<u64>,
    /// The memory, which is no part of them.
    pub dram_uj: Option<u64>,
    /// The platform.
    pub psys_uj: Option<u64>,
    /// Mean power of the packages, in watts.
    pub package_watts: Option<f64>,
    /// The energy of the packages per second in which a task of the subject computed, in joules; spinning
    /// does not count as computing if it is known.
    pub j_per_compute_s: Option<f64>,
}

/// The machine as a whole, summed over CPUs. `None` if this machine or source does not have it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// Its description for people.
    #[serde(default)]
    pub description: String,
    /// Time the idle tasks ran.
    pub idle_ns: Option<u64>,
    /// Time any other task ran.
    pub busy_ns: Option<u64>,
    /// Time nobody saw.
    #[serde(default)]
    pub unknown_ns: Option<u64>,
    /// Time in which the hypervisor below ran somebody else.
    pub host_steal_ns: Option<u64>,
    /// Time in hard interrupts, shown as compute of the interrupted tasks.
    #[serde(default)]
    pub irq_ns: Option<u64>,
    /// Time in soft interrupts, likewise.
    #[serde(default)]
    pub softirq_ns: Option<u64>,
    /// Its energy in joules; `None` if nothing is known.
    #[serde(default)]
    pub energy: Option<MachineEnergy>,
    /// Its time per CPU; empty if the source does not have it.
    #[serde(default)]
    pub per_cpu: Vec<Cpu>,
}

/// One CPU; the three sum to the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cpu {
    /// The kernel's number.
    pub cpu: u32,
    /// Time its idle task ran.
    pub idle_ns: u64,
    /// Time any other task ran.
    pub busy_ns: u64,
    /// Time nobody saw.
    pub unknown_ns: u64,
}

/// One part of the window.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slot {
    /// From the start of the window.
    pub start_ns: u64,
    /// From the start of the window.
    pub end_ns: u64,
    /// The subject's ledger in it.
    pub ledger: Ledger,
    /// The occupants of the CPUs: time on a CPU by tenant id, largest first, without those that did not run.
    pub held: Vec<Held>,
    /// Idle time of all CPUs; `None` if the source does not have it.
    pub idle_ns: Option<u64>,
}

/// One tenant's time on the CPUs in a part of the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// Id of the tenant.
    pub tenant: u32,
    /// Its time on any CPU.
    pub on_cpu_ns: u64,
}

/// The losses of the measurement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Loss {
    /// Events that found no room.
    pub events: u64,
    /// Task time in no category.
    pub unknown_ns: u64,
    /// Task time that a part of the window put into one category and that later turned out to belong to
    /// another.
    #[serde(default)]
    pub revised_ns: u64,
    /// Tasks that could not be followed.
    #[serde(default)]
    pub untracked_tasks: u64,
    /// Tasks that are in their tenant's sums but not listed one by one.
    #[serde(default)]
    pub unlisted_tasks: u64,
    /// CPU time of tasks that lived too short to be looked at: it is in their tenant's sums, and how long they waited is not.
    #[serde(default)]
    pub unseen_ns: u64,
    /// Trace events that found no room; `None` if no trace was taken.
    #[serde(default)]
    pub trace_events: Option<u64>,
}

/// What measuring cost.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SelfCost {
    /// CPU time of corun itself in the window.
    pub cpu_ns: Option<u64>,
    /// Mean cost of the probes per context switch. If switches are rare, it reflects cold caches rather than
    /// a noticeable cost: `probe_ppm` shows that.
    pub ns_per_switch: Option<u64>,
    /// The probes' part of all CPUs' time, in parts per million.
    #[serde(default)]
    pub probe_ppm: Option<u64>,
    /// Context switches a second, over all CPUs, while the cost of the probes was counted.
    #[serde(default)]
    pub switches_per_s: Option<u64>,
    /// How the command was placed (session, cgroup), if that affects its share from the kernel.
    #[serde(default)]
    pub layout: Option<String>,
}
