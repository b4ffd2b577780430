//! A window in protobuf: fields are added, never redefined. Data that are read back may be arbitrary. So this
//! refuses sums that would overflow, ledgers and culprits that do not sum, and windows that contradict
//! themselves.

use crate::field::put;
use corun_model::culprit::Share;
use corun_model::events::Migrations;
use corun_model::histogram::BUCKETS;
use corun_model::ledger::{BlockReasons, Held};
use corun_model::observation::{
    Account as Seen, CpuTime, Loss as Lost, MachineTime, TaskObservation, TenantObservation,
};
use corun_model::{
    CpuId, Culprits, Events as Counts, Histogram, Ledger, Limits, Observation, Parts, TaskId, TenantId,
    TenantKind,
};
use prost::Message;
use std::sync::Arc;

#[derive(Clone, PartialEq, Message)]
pub struct Entry {
    #[prost(message, optional, tag = "1")]
    pub run: Option<Run>,
    #[prost(message, optional, tag = "2")]
    pub window: Option<Window>,
}

/// A run of an agent: the data that all of its windows share. Tenants keep their ids in it.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Run {
    /// Which corun wrote it.
    #[prost(string, tag = "1")]
    pub corun: String,
    /// How it saw: `ebpf` or `schedstat`.
    #[prost(string, tag = "2")]
    pub source: String,
    /// The machine, for people.
    #[prost(string, tag = "3")]
    pub machine: String,
    /// Number of its CPUs.
    #[prost(uint64, tag = "4")]
    pub cpus: u64,
    /// When the run began, in nanoseconds since 1970.
    #[prost(uint64, tag = "5")]
    pub began_unix_ns: u64,
}

#[derive(Clone, PartialEq, Message)]
pub struct Window {
    #[prost(uint64, tag = "1")]
    start_ns: u64,
    #[prost(uint64, tag = "2")]
    length_ns: u64,
    #[prost(message, repeated, tag = "3")]
    tenants: Vec<Tenant>,
    #[prost(message, repeated, tag = "4")]
    tasks: Vec<Task>,
    #[prost(message, repeated, tag = "5")]
    by_tenant: Vec<OfTenant>,
    #[prost(message, repeated, tag = "6")]
    weights: Vec<Pair>,
    #[prost(message, repeated, tag = "7")]
    cpus: Vec<Cpu>,
    #[prost(message, optional, tag = "8")]
    machine: Option<Machine>,
    #[prost(message, optional, tag = "9")]
    loss: Option<Loss>,
    #[prost(message, repeated, tag = "10")]
    unavailable: Vec<Unavailable>,
}

#[derive(Clone, PartialEq, Message)]
struct Tenant {
    #[prost(uint32, tag = "1")]
    id: u32,
    #[prost(string, tag = "2")]
    kind: String,
    #[prost(string, tag = "3")]
    key: String,
    #[prost(string, tag = "4")]
    name: String,
}

#[derive(Clone, PartialEq, Message)]
struct Task {
    #[prost(uint32, tag = "1")]
    id: u32,
    #[prost(string, tag = "2")]
    name: String,
    #[prost(uint32, tag = "3")]
    tenant: u32,
    /// From the beginning of the window.
    #[prost(uint64, tag = "4")]
    born_ns: u64,
    #[prost(bool, tag = "5")]
    alive: bool,
    #[prost(uint32, optional, tag = "6")]
    last_cpu: Option<u32>,
    #[prost(message, optional, tag = "7")]
    account: Option<Account>,
}

#[derive(Clone, PartialEq, Message)]
struct OfTenant {
    #[prost(uint32, tag = "1")]
    id: u32,
    #[prost(uint64, tag = "2")]
    tasks: u64,
    #[prost(message, optional, tag = "3")]
    account: Option<Account>,
}

#[derive(Clone, PartialEq, Message)]
struct Pair {
    #[prost(uint32, tag = "1")]
    id: u32,
    #[prost(uint64, tag = "2")]
    value: u64,
}

#[derive(Clone, PartialEq, Message)]
struct Account {
    #[prost(uint64, tag = "1")]
    compute_ns: u64,
    #[prost(uint64, optional, tag = "2")]
    spin_ns: Option<u64>,
    #[prost(uint64, tag = "3")]
    block_ns: u64,
    #[prost(uint64, tag = "4")]
    steal_ns: u64,
    #[prost(uint64, tag = "5")]
    throttled_ns: u64,
    /// Stopped, frozen; empty if unknown.
    #[prost(uint64, repeated, tag = "6")]
    held_ns: Vec<u64>,
    #[prost(uint64, tag = "7")]
    parked_ns: u64,
    #[prost(uint64, tag = "8")]
    unknown_ns: u64,
    /// Reasons for blocking in the order of `BlockReasons`; empty if unknown.
    #[prost(uint64, repeated, tag = "9")]
    block_reasons_ns: Vec<u64>,
    #[prost(uint64, optional, tag = "10")]
    blocked: Option<u64>,
    #[prost(uint64, optional, tag = "11")]
    yielded: Option<u64>,
    #[prost(uint64, optional, tag = "12")]
    preemptions: Option<u64>,
    #[prost(uint64, optional, tag = "13")]
    wakeups: Option<u64>,
    /// To the same core, LLC, socket and to another socket; empty if unknown.
    #[prost(uint64, repeated, tag = "14")]
    migrations: Vec<u64>,
    #[prost(message, repeated, tag = "15")]
    culprits: Vec<Pair>,
    #[prost(uint64, tag = "16")]
    unattributed_ns: u64,
    /// Counts by bucket, without the zeros at the end.
    #[prost(message, optional, tag = "17")]
    waits: Option<Buckets>,
    #[prost(message, optional, tag = "18")]
    stretches: Option<Buckets>,
    #[prost(uint64, optional, tag = "19")]
    system_ns: Option<u64>,
}

#[derive(Clone, PartialEq, Message)]
struct Buckets {
    #[prost(uint64, repeated, tag = "1")]
    counts: Vec<u64>,
}

#[derive(Clone, PartialEq, Message)]
struct Cpu {
    #[prost(uint32, tag = "1")]
    cpu: u32,
    #[prost(uint64, tag = "2")]
    idle_ns: u64,
    #[prost(uint64, tag = "3")]
    busy_ns: u64,
    #[prost(uint64, tag = "4")]
    unknown_ns: u64,
    #[prost(uint64, optional, tag = "5")]
    host_steal_ns: Option<u64>,
}

#[derive(Clone, PartialEq, Message)]
struct Machine {
    #[prost(uint64, optional, tag = "1")]
    host_steal_ns: Option<u64>,
    #[prost(uint64, optional, tag = "2")]
    irq_ns: Option<u64>,
    #[prost(uint64, optional, tag = "3")]
    softirq_ns: Option<u64>,
}

#[derive(Clone, PartialEq, Message)]
struct Loss {
    #[prost(uint64, tag = "1")]
    events: u64,
    #[prost(uint64, tag = "2")]
    unknown_ns: u64,
    #[prost(uint64, tag = "3")]
    revised_ns: u64,
    #[prost(uint64, tag = "4")]
    untracked_tasks: u64,
    #[prost(uint64, tag = "5")]
    unlisted_tasks: u64,
    #[prost(uint64, tag = "6")]
    unseen_ns: u64,
}

#[derive(Clone, PartialEq, Message)]
struct Unavailable {
    #[prost(string, tag = "1")]
    what: String,
    #[prost(string, tag = "2")]
    why: String,
}

/// The bytes of an entry with a window. An account that tasks share is encoded once: most of a machine's
/// tasks sleep, and have the same one.
pub fn entry_of(seen: &Observation) -> Vec<u8> {
    /// The number of known accounts at a time: few belong to many tasks.
    const MOST: usize = 8;
    let mut window = Window::without_tasks(seen).encode_to_vec();
    let mut shared: Vec<(&Arc<Seen>, Vec<u8>)> = Vec::new();
    let mut task = Vec::new();
    for t in &seen.tasks {
        task.clear();
        Task::without_account(t, seen.start_ns).encode(&mut task).expect("memory takes all that is written");
        let known = shared.iter().position(|(account, _)| Arc::ptr_eq(account, &t.account));
        match known {
            Some(at) => put(ACCOUNT_OF_TASK, &shared[at].1, &mut task),
            None => {
                let account = Account::of(&t.account).encode_to_vec();
                put(ACCOUNT_OF_TASK, &account, &mut task);
                if shared.len() < MOST && Arc::strong_count(&t.account) > 1 {
                    shared.push((&t.account, account));
                }
            }
        }
        put(TASK_OF_WINDOW, &task, &mut window);
    }
    let mut entry = Vec::with_capacity(window.len() + 8);
    put(WINDOW_OF_ENTRY, &window, &mut entry);
    entry
}

/// Tag of `Entry.window`.
const WINDOW_OF_ENTRY: u32 = 2;
/// Tag of `Window.tasks`.
const TASK_OF_WINDOW: u32 = 4;
/// Tag of `Task.account`.
const ACCOUNT_OF_TASK: u32 = 7;

impl Task {
    fn without_account(t: &TaskObservation, start_ns: u64) -> Task {
        Task {
            id: t.id.0,
            name: t.name.to_string(),
            tenant: t.tenant.0,
            born_ns: t.born_ns.saturating_sub(start_ns),
            alive: t.alive,
            last_cpu: t.last_cpu.map(|c| c.0),
            account: None,
        }
    }
}

impl Window {
    fn without_tasks(seen: &Observation) -> Window {
        let tenant = |t: &corun_model::Tenant| Tenant {
            id: t.id.0,
            kind: t.kind.name().to_owned(),
            key: t.key.clone(),
            name: t.name.clone(),
        };
        let cpu = |c: &CpuTime| Cpu {
            cpu: c.cpu.0,
            idle_ns: c.idle_ns,
            busy_ns: c.busy_ns,
            unknown_ns: c.unknown_ns,
            host_steal_ns: c.host_steal_ns,
        };
        let of_tenant = |t: &TenantObservation| OfTenant {
            id: t.id.0,
            tasks: t.tasks,
            account: Some(Account::of(&t.account)),
        };
        let MachineTime { host_steal_ns, irq_ns, softirq_ns } = seen.machine;
        let Lost { events, unknown_ns, revised_ns, untracked_tasks, unlisted_tasks, unseen_ns } = seen.loss;
        Window {
            start_ns: seen.start_ns,
            length_ns: seen.window_ns(),
            tenants: seen.tenants.iter().map(tenant).collect(),
            tasks: Vec::new(),
            by_tenant: seen.by_tenant.iter().map(of_tenant).collect(),
            weights: seen.weights.iter().map(|(id, w)| Pair { id: id.0, value: u64::from(*w) }).collect(),
            cpus: seen.cpus.iter().map(cpu).collect(),
            machine: Some(Machine { host_steal_ns, irq_ns, softirq_ns }),
            loss: Some(Loss { events, unknown_ns, revised_ns, untracked_tasks, unlisted_tasks, unseen_ns }),
            unavailable: seen
                .unavailable
                .iter()
                .map(|u| Unavailable { what: u.what.name(), why: u.why.to_string() })
                .collect(),
        }
    }

    /// The window, if it is possible.
    pub fn observation(self) -> Result<Observation, String> {
        let mut sum = Sum::default();
        let end_ns = self.start_ns.checked_add(self.length_ns).ok_or("it never ended")?;
        sum.add(end_ns)?;
        let mut seen = Observation {
            start_ns: self.start_ns,
            end_ns,
            limits: Limits::default(),
            machine: match self.machine {
                Some(Machine { host_steal_ns, irq_ns, softirq_ns }) => {
                    sum.add_all(host_steal_ns.into_iter().chain(irq_ns).chain(softirq_ns))?;
                    MachineTime { host_steal_ns, irq_ns, softirq_ns }
                }
                None => MachineTime::default(),
            },
            loss: match self.loss {
                Some(Loss { events, unknown_ns, revised_ns, untracked_tasks, unlisted_tasks, unseen_ns }) => {
                    sum.add_all([
                        events,
                        unknown_ns,
                        revised_ns,
                        untracked_tasks,
                        unlisted_tasks,
                        unseen_ns,
                    ])?;
                    Lost { events, unknown_ns, revised_ns, untracked_tasks, unlisted_tasks, unseen_ns }
                }
                None => Lost::default(),
            },
            unavailable: self
                .unavailable
                .into_iter()
                .map(|u| corun_model::Unavailable::new(u.what.into(), u.why.into()))
                .collect(),
            ..Observation::default()
        };
        for Tenant { id, kind, key, name } in self.tenants {
            let kind = TenantKind::from_name(&kind).ok_or("it has a tenant of an unknown kind")?;
            seen.tenants.push(corun_model::Tenant { id: TenantId(id), kind, key, name });
        }
        for t in self.tasks {
            let born_ns = self.start_ns.checked_add(t.born_ns).filter(|ns| *ns <= end_ns);
            seen.tasks.push(TaskObservation {
                id: TaskId(t.id),
                name: t.name.into(),
                tenant: TenantId(t.tenant),
                born_ns: born_ns.ok_or("it has a task of the future")?,
                alive: t.alive,
                last_cpu: t.last_cpu.map(CpuId),
                account: t.account.unwrap_or_default().account(&mut sum)?.into(),
            });
        }
        for t in self.by_tenant {
            let account = t.account.unwrap_or_default().account(&mut sum)?;
            sum.add(t.tasks)?;
            seen.by_tenant.push(TenantObservation { id: TenantId(t.id), tasks: t.tasks, account });
        }
        for Pair { id, value } in self.weights {
            let weight = u32::try_from(value).map_err(|_| "it has too great a weight")?;
            seen.weights.push((TenantId(id), weight));
        }
        for Cpu { cpu, idle_ns, busy_ns, unknown_ns, host_steal_ns } in self.cpus {
            sum.add_all([idle_ns, busy_ns, unknown_ns].into_iter().chain(host_steal_ns))?;
            seen.cpus.push(CpuTime { cpu: CpuId(cpu), idle_ns, busy_ns, unknown_ns, host_steal_ns });
        }
        let in_order = seen.tenants.windows(2).all(|t| t[0].id < t[1].id)
            && seen.by_tenant.windows(2).all(|t| t[0].id < t[1].id)
            && seen.weights.windows(2).all(|w| w[0].0 < w[1].0);
        if !in_order {
            return Err("its tenants are out of order".into());
        }
        seen.check().map_err(|wrong| wrong.join("; "))?;
        Ok(seen)
    }
}

impl Account {
    fn of(a: &Seen) -> Account {
        let p = a.ledger.parts();
        let buckets = |h: &Histogram| {
            let used = h.counts.iter().rposition(|n| *n > 0).map_or(0, |last| last + 1);
            Buckets { counts: h.counts[..used].to_vec() }
        };
        let migrations = |m: Migrations| vec![m.same_core, m.same_llc, m.same_socket, m.other_socket];
        Account {
            compute_ns: p.compute_ns,
            spin_ns: p.spin_ns,
            block_ns: p.block_ns,
            steal_ns: p.steal_ns,
            throttled_ns: p.throttled_ns,
            held_ns: p.held.map(|h| vec![h.stopped_ns, h.frozen_ns]).unwrap_or_default(),
            parked_ns: p.parked_ns,
            unknown_ns: p.unknown_ns,
            block_reasons_ns: a.block.iter().flat_map(BlockReasons::named).map(|(_, ns)| ns).collect(),
            blocked: a.events.blocked,
            yielded: a.events.yielded,
            preemptions: a.events.preemptions,
            wakeups: a.events.wakeups,
            migrations: a.events.migrations.map(migrations).unwrap_or_default(),
            culprits: a
                .culprits
                .shares()
                .iter()
                .map(|s| Pair { id: s.tenant.0, value: s.steal_ns })
                .collect(),
            unattributed_ns: a.culprits.unattributed_ns(),
            waits: a.waits.as_ref().map(buckets),
            stretches: a.stretches.as_ref().map(buckets),
            system_ns: a.system_ns,
        }
    }

    fn account(self, sum: &mut Sum) -> Result<Seen, String> {
        let held = match *self.held_ns {
            [] => None,
            [stopped_ns, frozen_ns] => Some(Held { stopped_ns, frozen_ns }),
            _ => return Err("it was held in an unknown way".into()),
        };
        let block = match *self.block_reasons_ns {
            [] => None,
            [futex_ns, io_ns, sleep_ns, poll_ns, pipe_ns, child_ns, other_ns] => {
                Some(BlockReasons { futex_ns, io_ns, sleep_ns, poll_ns, pipe_ns, child_ns, other_ns })
            }
            _ => return Err("it blocked for unknown reasons".into()),
        };
        let migrations = match *self.migrations {
            [] => None,
            [same_core, same_llc, same_socket, other_socket] => {
                Some(Migrations { same_core, same_llc, same_socket, other_socket })
            }
            _ => return Err("it has moved in an unknown way".into()),
        };
        let parts = Parts {
            compute_ns: self.compute_ns,
            spin_ns: self.spin_ns,
            block_ns: self.block_ns,
            steal_ns: self.steal_ns,
            throttled_ns: self.throttled_ns,
            held,
            parked_ns: self.parked_ns,
            unknown_ns: self.unknown_ns,
        };
        let events = [self.blocked, self.yielded, self.preemptions, self.wakeups];
        sum.add_all([
            self.compute_ns,
            self.spin_ns.unwrap_or(0),
            self.block_ns,
            self.steal_ns,
            self.throttled_ns,
            self.parked_ns,
            self.unknown_ns,
            self.unattributed_ns,
            self.system_ns.unwrap_or(0),
        ])?;
        sum.add_all(self.held_ns.into_iter().chain(self.block_reasons_ns).chain(self.migrations))?;
        sum.add_all(events.into_iter().flatten().chain(self.culprits.iter().map(|c| c.value)))?;
        let ledger = Ledger::new(parts, parts.sum_ns()).map_err(|e| e.to_string())?;
        let shares = self.culprits.into_iter().map(|c| Share { tenant: TenantId(c.id), steal_ns: c.value });
        let culprits =
            Culprits::new(shares, self.unattributed_ns, self.steal_ns).map_err(|e| e.to_string())?;
        Ok(Seen {
            ledger,
            block,
            events: Counts {
                blocked: self.blocked,
                yielded: self.yielded,
                preemptions: self.preemptions,
                wakeups: self.wakeups,
                migrations,
            },
            counters: None,
            culprits,
            waits: self.waits.map(|b| b.histogram(sum)).transpose()?,
            stretches: self.stretches.map(|b| b.histogram(sum)).transpose()?,
            system_ns: self.system_ns,
        })
    }
}

impl Buckets {
    fn histogram(self, sum: &mut Sum) -> Result<Histogram, String> {
        let mut counts = [0; BUCKETS];
        counts
            .get_mut(..self.counts.len())
            .ok_or("it has a histogram of too many buckets")?
            .copy_from_slice(&self.counts);
        sum.add_all(self.counts)?;
        Ok(Histogram { counts })
    }
}

/// The sum of all numbers of a window. If it does not overflow, no partial sum does.
#[derive(Default)]
struct Sum(u64);

impl Sum {
    fn add(&mut self, number: u64) -> Result<(), String> {
        self.0 = self.0.checked_add(number).ok_or("its numbers are too great")?;
        Ok(())
    }

    fn add_all(&mut self, numbers: impl IntoIterator<Item = u64>) -> Result<(), String> {
        numbers.into_iter().try_for_each(|number| self.add(number))
    }
}
