//! `sam` and `sam_mph`: tasks that share data run close together; tasks that need memory or a core's pipeline run apart. ATC'16.
//!
//! Every epoch the counters of the tasks that ran are combined per application (§4.2). An application is classified by the lines that
//! its tasks fetch from other caches. Tasks are mapped to hardware contexts one to one. There are four levels, which the paper
//! compares:
//!
//! | switches | sharing is decided for | mapping |
//! | --- | --- | --- |
//! | none: SAM | each task alone, by the last epoch | step by step onto one socket ([`reactive`]) |
//! | `tolerance` (M) | the application | all of it onto one socket; the one with most stalls per transfer first ([`mapping`], §3.1,
//! §4.4) |
//! | `history` (P) | in more than 6 of the last 10 epochs ([`application`], §4.3) | |
//! | `hyperthreads` (H) | | tasks with a high IPC do not share cores; those with most stalls do (§3.2) |
//!
//! At every level, tasks that are bound by memory are spread over the sockets, each to its memory ([`memory`]). With `sample` counters
//! are read more often than tasks are mapped, and each sample counts equally; the paper reads them every millisecond.
//!
//! Tasks are confined only if that helps some task: while none shares data or needs memory, every task may run anywhere. With more
//! running tasks than contexts a task is confined to the socket of its context, and the kernel distributes the CPUs.
//!
//! Limits: [`reactive`] contains what is public of SAM itself (ATC'15). Two tasks that share data on hyperthreads of one core share it
//! in caches that no event counts. No event shows which tasks share with each other: pairs are neighbors in the order of their
//! creation. An application in pairs counts as sharing for some seconds more, and is then checked again. If the kernel spreads tasks,
//! the check separates it for a second, so it is later each time. A task that has slept through an epoch keeps its place.

mod application;
mod crowd;
mod mapping;
mod memory;
mod reactive;

use crate::census;
use crate::options::{Kind, OptionSpec, Values};
use crate::scope::Scope;
use crate::settled::Settled;
use application::{Application, Sums, Thresholds};
use corun_model::reason::Sharing;
use corun_model::{
    Action, Counter, CpuId, Decision, Knob, Machine, Observation, Policy, Reason, TaskId, TenantId,
};
use mapping::{At, Need, Occupancy};
use memory::Memory;
use std::collections::BTreeMap;

/// The counters that the policy needs.
pub(crate) const COUNTERS: &[Counter] = &[
    Counter::Cycles,
    Counter::Instructions,
    Counter::L2StallCycles,
    Counter::CoherenceInter,
    Counter::CoherenceIntra,
];
/// A task that wanted a CPU for less than this part of an epoch, in thousandths, is not mapped.
const RUNS_MILLI: u64 = 50;

const fn switch(name: &'static str, default: &'static str, about: &'static str) -> OptionSpec {
    OptionSpec { name, default, kind: Kind::Flag, words: &[], about }
}

/// The options. `on` is the default of the three additions.
const fn options(on: &'static str) -> [OptionSpec; 11] {
    const fn number(
        name: &'static str,
        default: &'static str,
        unit: &'static str,
        about: &'static str,
    ) -> OptionSpec {
        OptionSpec { name, default, kind: Kind::Whole { least: 1, most: 1_000_000, unit }, words: &[], about }
    }
    [
        switch("tolerance", on, "M: applications as a whole, those that tolerate latency least first"),
        switch("history", on, "P: what an application did in the last 10 epochs classifies it"),
        switch("hyperthreads", on, "H: which tasks share a core, by IPC and stalls"),
        number("high", "780", "per million cycles", "lines from other sockets, above which sharing is high"),
        OptionSpec {
            name: "moderate",
            default: "50",
            kind: Kind::Whole { least: 1, most: 100, unit: "percent of high" },
            words: &[],
            about: "above which part of that sharing is moderate",
        },
        number("ipc", "900", "thousandths", "instructions per cycle, above which a core is not shared"),
        number("spc", "550", "cycles", "stalls per transfer, above which a core is shared on purpose"),
        number("memory", "1000", "bytes per 1,000 cycles", "traffic from which a task is bound by memory"),
        OptionSpec {
            name: "remote",
            default: "50",
            kind: Kind::Whole { least: 1, most: 100, unit: "percent" },
            words: &[],
            about: "lines from other nodes' memory, above which a task is away from its own",
        },
        OptionSpec {
            name: "sample",
            default: "epoch",
            kind: Kind::Time { least_ns: 1_000_000, most_ns: 10_000_000_000 },
            words: &["epoch"],
            about: "how often counters are read; at most an epoch",
        },
        OptionSpec {
            name: "epoch",
            default: "100ms",
            kind: Kind::Time { least_ns: 10_000_000, most_ns: 10_000_000_000 },
            words: &[],
            about: "how often tasks are mapped",
        },
    ]
}

pub(crate) const PLAIN: &[OptionSpec] = &options("false");
pub(crate) const MPH: &[OptionSpec] = &options("true");

/// The additions of the paper that are on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Additions {
    tolerance: bool,
    history: bool,
    hyperthreads: bool,
}

/// The sharing-aware mapper.
#[derive(Debug)]
pub struct Sam {
    name: &'static str,
    scope: Scope,
    additions: Additions,
    thresholds: Thresholds,
    mapped_every_ns: u64,
    /// The time between two samples, in nanoseconds.
    sample_ns: u64,
    /// The time since tasks were last mapped, in nanoseconds.
    sampled_ns: u64,
    samples: BTreeMap<TaskId, Samples>,
    memory: Memory,
    applications: BTreeMap<TenantId, Application>,
    /// The confinement set for each task. `None` for no confinement.
    told: Settled<Option<Confinement>>,
}

/// The activity of a task in the samples of an epoch.
#[derive(Clone, Copy, Debug)]
struct Samples {
    wanted_ns: u64,
    did: Option<Sums>,
}

/// The confinement of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Confinement {
    /// A context, as an index into the machine's list.
    Context(usize),
    /// All contexts of a socket.
    Socket(u32),
}

impl Confinement {
    fn cpus(self, machine: &Machine) -> Vec<CpuId> {
        match self {
            Confinement::Context(i) => vec![machine.cpus()[i].id],
            Confinement::Socket(s) => machine.cpus().iter().filter(|c| c.socket == s).map(|c| c.id).collect(),
        }
    }
}

/// A task that ran in the last epoch.
#[derive(Clone, Copy, Debug)]
struct Running {
    id: TaskId,
    application: TenantId,
    /// Its context, as set or as seen: an index into the machine's list.
    at: Option<usize>,
    did: Sums,
}

impl Sam {
    pub(crate) fn new(name: &'static str, values: &Values) -> Sam {
        let number = |name| values.number(name).expect("it has no words");
        let is_on = |name| number(name) == 1;
        let thresholds = Thresholds {
            high: number("high"),
            moderate: number("high") * number("moderate") / 100,
            ipc_milli: number("ipc"),
            spc: number("spc"),
            memory: number("memory"),
            remote: number("remote"),
        };
        let epoch_ns = number("epoch");
        Sam {
            name,
            scope: values.scope.clone(),
            additions: Additions {
                tolerance: is_on("tolerance"),
                history: is_on("history"),
                hyperthreads: is_on("hyperthreads"),
            },
            thresholds,
            mapped_every_ns: epoch_ns,
            sample_ns: values.number("sample").map_or(epoch_ns, |ns| ns.min(epoch_ns)),
            sampled_ns: 0,
            samples: BTreeMap::new(),
            memory: Memory::default(),
            applications: BTreeMap::new(),
            told: Settled::default(),
        }
    }

    /// Adds a sample. Returns whether it ends the epoch.
    fn sample(&mut self, seen: &Observation) -> bool {
        for t in &seen.tasks {
            let ledger = &t.account.ledger;
            let counted = t.account.counters.as_ref().and_then(|c| Sums::of(ledger.on_cpu_ns(), c));
            let so_far = self.samples.entry(t.id).or_insert(Samples { wanted_ns: 0, did: None });
            so_far.wanted_ns += ledger.on_cpu_ns() + ledger.parts().steal_ns;
            if let Some(did) = counted.map(Sums::of_a_million_cycles) {
                so_far.did = Some(so_far.did.map_or(did, |sum| sum.plus(did)));
            }
        }
        self.sampled_ns += seen.window_ns();
        // Half a sample early is better than a whole one late.
        self.sampled_ns + self.sample_ns / 2 >= self.mapped_every_ns
    }

    /// The tasks that ran and were counted, ordered by application.
    fn running(&mut self, machine: &Machine, seen: &Observation) -> Vec<Running> {
        let samples = std::mem::take(&mut self.samples);
        let epoch_ns = if samples.is_empty() { seen.window_ns() } else { self.sampled_ns };
        self.sampled_ns = 0;
        let least_ns = epoch_ns * RUNS_MILLI / 1_000;
        let mut running = Vec::with_capacity(seen.tasks.len());
        self.told.follow(seen, &self.scope, |t, known| {
            let told = known.flatten();
            let ledger = &t.account.ledger;
            let (counted, wanted_ns) = match samples.get(&t.id) {
                Some(samples) => (samples.did, samples.wanted_ns),
                None => (
                    t.account.counters.as_ref().and_then(|c| Sums::of(ledger.on_cpu_ns(), c)),
                    ledger.on_cpu_ns() + ledger.parts().steal_ns,
                ),
            };
            let wanted = wanted_ns >= least_ns;
            if let Some(did) = counted.filter(|_| wanted) {
                let seen_on = |cpu| machine.cpus().binary_search_by_key(&cpu, |c| c.id).ok();
                let at = match told {
                    Some(Confinement::Context(i)) => Some(i),
                    _ => t.last_cpu.and_then(seen_on),
                };
                running.push(Running { id: t.id, application: t.tenant, at, did });
            }
            told
        });
        running.sort_by_key(|t| t.application);
        running
    }

    /// Updates every application with the epoch (§4.2 and §4.3).
    fn classify(&mut self, running: &[Running]) {
        let mut old = std::mem::take(&mut self.applications);
        for tasks in running.chunk_by(|a, b| a.application == b.application) {
            let id = tasks[0].application;
            let mut application = old.remove(&id).unwrap_or_default();
            application.window(tasks.iter().map(|t| t.did), &self.thresholds, self.additions.history);
            self.applications.insert(id, application);
        }
    }

    /// What an application's tasks need, and its priority in choosing (§4.4).
    fn need(&self, id: TenantId) -> Need {
        let application = &self.applications[&id];
        let h = self.additions.hyperthreads;
        let sharing = application.sharing();
        let in_pairs =
            h && sharing == Sharing::High && application.spc().is_some_and(|s| s > self.thresholds.spc);
        Need {
            together: sharing > Sharing::Low,
            in_pairs,
            own_cores: h && !in_pairs && application.computes(),
            by_core: h,
            apart: application.wants_memory(),
        }
    }

    /// Maps applications one after the other, in the paper's order.
    fn map(&mut self, machine: &Machine, running: &[Running]) -> Vec<(TaskId, usize)> {
        let of_one = |tasks: &[Running]| {
            let id = tasks[0].application;
            (id, self.need(id), tasks.iter().map(|t| (t.id, t.at)).collect())
        };
        let mut order: Vec<(TenantId, Need, Vec<At>)> =
            running.chunk_by(|a, b| a.application == b.application).map(of_one).collect();
        order.sort_by_key(|(id, ..)| self.applications[id].rank());
        if is_crowded(machine, running) {
            let applications: Vec<(Need, Vec<At>)> =
                order.into_iter().map(|(_, need, tasks)| (need, tasks)).collect();
            return crowd::map(machine, &applications);
        }
        let mut occupancy = Occupancy::new(machine, self.memory.all());
        for (id, need, tasks) in order {
            occupancy.place(id, need, &tasks);
            self.applications.get_mut(&id).expect("it is listed").placed(need.in_pairs);
        }
        occupancy.finish()
    }

    /// Whether a task alone counts as sharing data: by the last epoch, or by its application's history.
    fn shares(&self, task: &Running) -> bool {
        match self.additions.history {
            true => self.applications[&task.application].sharing() > Sharing::Low,
            false => task.did.far().max(task.did.near()) > self.thresholds.moderate,
        }
    }

    /// Whether confinement would help any task.
    fn serves(&self) -> bool {
        self.applications.values().any(|a| a.sharing() > Sharing::Low || a.wants_memory())
    }
}

fn why(tenant: String, application: &Application, machine: &Machine, home: Confinement) -> Reason {
    let (socket, core) = match home {
        Confinement::Context(i) => (machine.cpus()[i].socket, Some(machine.cpus()[i].core)),
        Confinement::Socket(s) => (s, None),
    };
    application.because(tenant, socket, core)
}

/// Whether more tasks run than there are contexts.
fn is_crowded(machine: &Machine, running: &[Running]) -> bool {
    running.len() > machine.cpu_count()
}

impl Policy for Sam {
    fn name(&self) -> &'static str {
        self.name
    }

    fn knobs(&self) -> &'static [Knob] {
        &[Knob::Cpus]
    }

    fn epoch_ns(&self) -> u64 {
        self.sample_ns
    }

    fn decide(&mut self, machine: &Machine, seen: &Observation) -> Vec<Decision> {
        if self.sample_ns < self.mapped_every_ns && !self.sample(seen) {
            return Vec::new();
        }
        let mut running = self.running(machine, seen);
        self.memory.note(machine, &running, &self.thresholds);
        self.classify(&running);
        let mut decisions = Vec::new();
        if !self.serves() {
            let all: Vec<CpuId> = machine.cpus().iter().map(|c| c.id).collect();
            self.told.follow(seen, &self.scope, |task, known| {
                if known.flatten().is_some() {
                    let action = Action::Cpus { task: task.id, cpus: all.clone() };
                    decisions.push(Decision { action, because: Reason::NobodyShares });
                }
                None
            });
            return decisions;
        }
        let additions = self.additions;
        let places = if additions.tolerance || additions.hyperthreads {
            self.map(machine, &running)
        } else {
            running.sort_unstable_by_key(|t| t.id);
            reactive::map(machine, &running, &self.thresholds, &self.memory, |t| self.shares(t))
        };
        let crowded = is_crowded(machine, &running);
        let mut places = places.into_iter().peekable();
        self.told.follow(seen, &self.scope, |task, known| {
            let told = known.flatten();
            let Some((_, at)) = places.next_if(|p| p.0 == task.id) else { return told };
            let home = if crowded {
                Confinement::Socket(machine.cpus()[at].socket)
            } else {
                Confinement::Context(at)
            };
            if told != Some(home) {
                let action = Action::Cpus { task: task.id, cpus: home.cpus(machine) };
                let because =
                    why(census::name(seen, task.tenant), &self.applications[&task.tenant], machine, home);
                decisions.push(Decision { action, because });
            }
            Some(home)
        });
        decisions
    }
}
