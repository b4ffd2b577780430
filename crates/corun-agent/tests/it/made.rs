//! Invented windows of invented tenants.

use corun_model::culprit::Share;
use corun_model::events::Migrations;
use corun_model::ledger::{BlockReasons, Held};
use corun_model::observation::{Account, CpuTime, Loss, MachineTime, TaskObservation, TenantObservation};
use corun_model::{
    CpuId, Culprits, Events, Histogram, Ledger, Observation, Parts, TaskId, Tenant, TenantId, TenantKind,
    Unavailable, What,
};
use std::sync::Arc;

/// Length of a window.
pub const WINDOW_NS: u64 = 1_000_000_000;

/// A tenant of this number: a unit.
pub fn tenant(n: u32) -> Tenant {
    let name = format!("web-{n}.service");
    Tenant { id: TenantId(n), kind: TenantKind::Unit, key: format!("unit:/system.slice/{name}"), name }
}

/// The activity of a tenant that ran for a part of the window, waited for another part and slept.
pub fn account(ran_ns: u64, culprits: &[(u32, u64)]) -> Account {
    let shares = culprits.iter().map(|(id, ns)| Share { tenant: TenantId(*id), steal_ns: *ns });
    let steal_ns = culprits.iter().map(|(_, ns)| ns).sum::<u64>() + 11;
    let parts = Parts {
        compute_ns: ran_ns,
        block_ns: WINDOW_NS - ran_ns - steal_ns - 12,
        steal_ns,
        throttled_ns: 5,
        held: Some(Held { stopped_ns: 4, frozen_ns: 3 }),
        ..Parts::default()
    };
    let mut waits = Histogram::default();
    waits.record(steal_ns);
    Account {
        ledger: Ledger::new(parts, WINDOW_NS).unwrap(),
        block: Some(BlockReasons { futex_ns: parts.block_ns - 7, io_ns: 7, ..BlockReasons::default() }),
        events: Events {
            blocked: Some(3),
            yielded: None,
            preemptions: Some(9),
            wakeups: Some(4),
            migrations: Some(Migrations { same_llc: 2, ..Migrations::default() }),
        },
        counters: None,
        culprits: Culprits::new(shares, 11, steal_ns).unwrap(),
        waits: Some(waits),
        stretches: None,
        system_ns: Some(ran_ns / 2),
    }
}

/// The window with this number, in which `tenants` units of one task ran, each waiting for the next.
pub fn window(n: u64, tenants: u32) -> Observation {
    window_of(n, tenants, |t| (t + 1) % tenants)
}

/// The same, each waiting for the given one.
pub fn window_of(n: u64, tenants: u32, culprit_of: impl Fn(u32) -> u32) -> Observation {
    let start_ns = n * WINDOW_NS;
    let accounts: Vec<Account> = (0..tenants)
        .map(|t| account(1_000_000 + u64::from(t), &[(culprit_of(t), 2_000_000 + n % 1_000)]))
        .collect();
    let seen = Observation {
        start_ns,
        end_ns: start_ns + WINDOW_NS,
        tenants: (0..tenants).map(tenant).collect(),
        tasks: (0..tenants)
            .map(|t| TaskObservation {
                id: TaskId(1_000 + t),
                name: "web".into(),
                tenant: TenantId(t),
                born_ns: start_ns,
                alive: true,
                last_cpu: (t % 2 == 0).then_some(CpuId(1)),
                account: accounts[t as usize].clone().into(),
            })
            .collect(),
        by_tenant: accounts
            .iter()
            .enumerate()
            .map(|(t, account)| TenantObservation {
                id: TenantId(t as u32),
                tasks: 1,
                account: account.clone(),
            })
            .collect(),
        weights: vec![(TenantId(0), 200)],
        cpus: vec![CpuTime {
            cpu: CpuId(0),
            idle_ns: WINDOW_NS - 3_000,
            busy_ns: 2_000,
            unknown_ns: 1_000,
            host_steal_ns: Some(9),
        }],
        machine: MachineTime { host_steal_ns: Some(9), irq_ns: None, softirq_ns: Some(8) },
        loss: Loss { events: n, ..Loss::default() },
        unavailable: vec![Unavailable::new(What::Spin, "nobody looked".to_owned().into())],
        ..Observation::default()
    };
    seen.check().unwrap();
    seen
}

/// Gives tenants other numbers, in the same order.
pub fn renumber(seen: &mut Observation, number: impl Fn(u32) -> u32) {
    let new = |id: TenantId| TenantId(number(id.0));
    seen.tenants.iter_mut().for_each(|t| t.id = new(t.id));
    seen.weights.clear();
    seen.tasks.iter_mut().for_each(|t| {
        t.tenant = new(t.tenant);
        let account = Arc::make_mut(&mut t.account);
        account.culprits = renumbered(&account.culprits, &new);
    });
    for t in &mut seen.by_tenant {
        t.id = new(t.id);
        t.account.culprits = renumbered(&t.account.culprits, &new);
    }
    seen.tenants.sort_by_key(|t| t.id);
    seen.by_tenant.sort_by_key(|t| t.id);
    seen.check().unwrap();
}

fn renumbered(culprits: &Culprits, new: &impl Fn(TenantId) -> TenantId) -> Culprits {
    let shares = culprits.shares().iter().map(|s| Share { tenant: new(s.tenant), ..*s });
    Culprits::new(shares, culprits.unattributed_ns(), culprits.total_ns()).unwrap()
}
