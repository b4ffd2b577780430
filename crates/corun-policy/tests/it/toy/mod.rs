//! A very simple machine: CPU time is split fairly among the tenants that are not parked.
#![allow(dead_code)]

use corun_model::ledger::{BlockReasons, Held};
use corun_model::limits::TaskLimits;
use corun_model::observation::{Account, CpuTime, TaskObservation, TenantObservation};
use corun_model::{
    Action, CpuId, Culprits, Decision, Events, Ledger, Limits, Machine, Observation, Parts, Policy, TaskId,
    Tenant, TenantId, TenantKind,
};
use corun_policy::fair;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub const MS: u64 = 1_000_000;

/// A tenant whose tasks are all alike.
#[derive(Clone, Debug)]
pub struct Who {
    pub name: String,
    pub kind: TenantKind,
    pub tasks: u32,
    /// The demand of each task, in thousandths of a CPU.
    pub demand_milli: u64,
    /// The CPUs of its tasks. `None` for all.
    pub cpus: Option<Vec<u32>>,
}

pub fn who(name: &str, tasks: u32, demand_milli: u64) -> Who {
    Who { name: name.into(), kind: TenantKind::Command, tasks, demand_milli, cpus: None }
}

/// The machine in motion.
pub struct Toy {
    pub machine: Machine,
    pub tenants: Vec<Who>,
    /// The present tenants.
    pub present: BTreeSet<TenantId>,
    pub parked: BTreeSet<TenantId>,
    /// Tenants that someone else has stopped.
    pub stopped: BTreeSet<TenantId>,
    pub now_ns: u64,
    /// CPU time that each tenant got.
    pub got_ns: BTreeMap<TenantId, u64>,
}

impl Toy {
    pub fn new(cpus: u32, tenants: Vec<Who>) -> Toy {
        let present = (0..tenants.len() as u32).map(TenantId).collect();
        let machine = Machine::synthetic(1, 1, cpus, 1);
        Toy {
            machine,
            tenants,
            present,
            parked: BTreeSet::new(),
            stopped: BTreeSet::new(),
            now_ns: 0,
            got_ns: BTreeMap::new(),
        }
    }

    pub fn id(&self, name: &str) -> TenantId {
        TenantId(self.tenants.iter().position(|t| t.name == name).expect("a tenant of the test") as u32)
    }

    /// The names of present tenants that are not parked.
    pub fn running(&self) -> Vec<&str> {
        let runs = self.present.iter().filter(|id| !self.parked.contains(id));
        runs.map(|id| self.tenants[id.0 as usize].name.as_str()).collect()
    }

    /// Lets a window pass.
    pub fn window(&mut self, ns: u64) -> Observation {
        let is_off = |id: &TenantId| self.parked.contains(id) || self.stopped.contains(id);
        let runs: Vec<TenantId> = self.present.iter().copied().filter(|id| !is_off(id)).collect();
        let wants: Vec<u64> = runs
            .iter()
            .map(|id| &self.tenants[id.0 as usize])
            .map(|t| u64::from(t.tasks) * t.demand_milli * ns / 1_000)
            .collect();
        let parts = fair::shares(self.machine.cpu_count() as u64 * ns, &wants);
        let got: BTreeMap<TenantId, u64> = runs.iter().copied().zip(parts).collect();
        let (start_ns, end_ns) = (self.now_ns, self.now_ns + ns);
        let (mut tasks, mut limits) = (Vec::new(), Limits::default());
        let mut by_tenant = Vec::new();
        for &id in &self.present {
            let t = &self.tenants[id.0 as usize];
            let mut sum = Account::default();
            for i in 0..t.tasks {
                let parts = if self.parked.contains(&id) {
                    Parts { parked_ns: ns, spin_ns: Some(0), ..Parts::default() }
                } else if self.stopped.contains(&id) {
                    let held = Some(Held { stopped_ns: ns, frozen_ns: 0 });
                    Parts { held, spin_ns: Some(0), ..Parts::default() }
                } else {
                    // A task blocks after it has run, so one that is held up blocks less.
                    let on = (got[&id] / u64::from(t.tasks)).min(ns);
                    let block_ns = (on * (1_000 - t.demand_milli) / t.demand_milli).min(ns - on);
                    *self.got_ns.entry(id).or_default() += on;
                    Parts {
                        compute_ns: on,
                        spin_ns: Some(0),
                        steal_ns: ns - on - block_ns,
                        block_ns,
                        ..Parts::default()
                    }
                };
                let account = Account {
                    ledger: Ledger::new(parts, ns).unwrap(),
                    block: Some(BlockReasons { futex_ns: parts.block_ns, ..BlockReasons::default() }),
                    events: Events::none(),
                    culprits: Culprits::unknown(parts.steal_ns),
                    ..Account::default()
                };
                sum = sum.plus(&account);
                limits.tasks.extend(t.cpus.as_ref().map(|cpus| TaskLimits {
                    task: TaskId(id.0 * 1_000 + i + 1),
                    process: TaskId(id.0 * 1_000 + 1),
                    cpus: Some(Arc::new(cpus.iter().copied().map(CpuId).collect())),
                    is_isolated: false,
                }));
                tasks.push(TaskObservation {
                    id: TaskId(id.0 * 1_000 + i + 1),
                    name: t.name.as_str().into(),
                    tenant: id,
                    born_ns: start_ns,
                    alive: true,
                    last_cpu: Some(CpuId((id.0 * 7 + i) % self.machine.cpu_count() as u32)),
                    account: account.into(),
                });
            }
            by_tenant.push(TenantObservation { id, tasks: u64::from(t.tasks), account: sum });
        }
        self.now_ns = end_ns;
        let named = self.tenants.iter().enumerate().map(|(i, t)| Tenant {
            id: TenantId(i as u32),
            kind: t.kind,
            key: format!("toy/{}", t.name),
            name: t.name.clone(),
        });
        let cpus = self.machine.cpus().iter().map(|c| CpuTime {
            cpu: c.id,
            idle_ns: 0,
            busy_ns: ns,
            unknown_ns: 0,
            host_steal_ns: None,
        });
        let seen = Observation {
            start_ns,
            end_ns,
            tenants: named.collect(),
            tasks,
            by_tenant,
            cpus: cpus.collect(),
            limits,
            ..Observation::default()
        };
        seen.check().unwrap();
        seen
    }

    /// One epoch under a policy: a window, then its decisions, carried out.
    pub fn epoch(&mut self, policy: &mut dyn Policy) -> Vec<Decision> {
        let seen = self.window(policy.epoch_ns());
        let decisions = policy.decide(&self.machine, &seen);
        self.carry_out(&decisions);
        decisions
    }

    /// Parks and unparks. The other knobs have no effect here.
    pub fn carry_out(&mut self, decisions: &[Decision]) {
        for d in decisions {
            match d.action {
                Action::Park { tenant } => assert!(self.parked.insert(tenant), "parked twice: {d:?}"),
                Action::Unpark { tenant } => assert!(self.parked.remove(&tenant), "was not parked: {d:?}"),
                _ => {}
            }
        }
    }
}
