//! An invented machine, for tests: five tenants on two CPUs for ten seconds, assembled slot by slot.
//!
//! Every slot is an [`Observation`] that passes its own check; the whole window is their sum, so timeline and
//! whole agree as they do on a real host. Numbers come from a small fixed generator: same bytes on every run.

use corun_model::culprit::Share;
use corun_model::events::Migrations;
use corun_model::ledger::{BlockReasons, Held};
use corun_model::observation::{Account, CpuTime, Loss, MachineTime, TaskObservation, TenantObservation};
use corun_model::{
    CpuId, Culprits, Energy, Events, Histogram, Ledger, Machine, Observation, Parts, TaskId, Tenant,
    TenantId, TenantKind, Unavailable, What,
};
use corun_report::{Host, ProfileMeta, SelfCost, Source};

pub const SUBJECT: TenantId = TenantId(1);
pub const POSTGRES: TenantId = TenantId(2);
pub const COMPILER: TenantId = TenantId(3);
pub const KERNEL: TenantId = TenantId(4);
pub const IDLE: TenantId = TenantId(5);
pub const HOSTILE: TenantId = TenantId(6);

const MS: u64 = 1_000_000;
pub const SLOT_NS: u64 = 250 * MS;
pub const SLOTS: u64 = 40;

/// The activity of one task in one slot; for the rest of its life it was blocked.
#[derive(Clone, Debug, Default)]
pub struct Did {
    pub compute_ns: u64,
    pub spin_ns: Option<u64>,
    pub stolen: Vec<(TenantId, u64)>,
    pub unattributed_ns: u64,
    pub throttled_ns: u64,
    pub held: Option<Held>,
    pub parked_ns: u64,
    pub unknown_ns: u64,
    pub life_ns: u64,
}

/// A splitmix64 generator: named, seeded, no dependency.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Somewhere in `[from, to)`.
    pub fn within(&mut self, from: u64, to: u64) -> u64 {
        from + self.next() % (to - from)
    }
}

pub fn tenants() -> Vec<Tenant> {
    let tenant = |id: TenantId, kind, key: &str, name: &str| Tenant {
        id,
        kind,
        key: key.to_owned(),
        name: name.to_owned(),
    };
    vec![
        tenant(SUBJECT, TenantKind::Command, "pgrp:4100", "streamcluster"),
        tenant(POSTGRES, TenantKind::Unit, "/system.slice/postgresql.service", "postgresql.service"),
        tenant(COMPILER, TenantKind::Container, "/docker/3f9ac1", "build-7 (3f9ac1)"),
        tenant(KERNEL, TenantKind::Kernel, "kernel", "kernel"),
        tenant(IDLE, TenantKind::Idle, "idle", "idle"),
        tenant(HOSTILE, TenantKind::Command, "pgrp:666", "<script>alert(1)</script>\x1b[31m"),
    ]
}

/// The account of one task.
pub fn account(did: &Did, random: &mut Random) -> Account {
    let steal_ns = did.unattributed_ns + did.stolen.iter().map(|(_, ns)| ns).sum::<u64>();
    let parts = Parts {
        compute_ns: did.compute_ns,
        spin_ns: did.spin_ns,
        block_ns: 0,
        steal_ns,
        throttled_ns: did.throttled_ns,
        held: did.held,
        parked_ns: did.parked_ns,
        unknown_ns: did.unknown_ns,
    };
    let block_ns = did.life_ns.checked_sub(parts.sum_ns()).expect("a task does no more than it lives");
    let shares = did.stolen.iter().map(|&(tenant, steal_ns)| Share { tenant, steal_ns });
    let waits = cut(steal_ns, 5_000, 9 * MS, random);
    let stretches = cut(did.compute_ns, 30_000, 8 * MS, random);
    Account {
        ledger: Ledger::new(Parts { block_ns, ..parts }, did.life_ns).unwrap(),
        block: Some(BlockReasons {
            futex_ns: block_ns / 2,
            io_ns: block_ns / 8,
            sleep_ns: block_ns - block_ns / 2 - block_ns / 8,
            ..BlockReasons::default()
        }),
        events: Events {
            blocked: Some(stretches.total() / 3),
            yielded: Some(0),
            preemptions: Some(stretches.total() - stretches.total() / 3),
            wakeups: Some(stretches.total() / 3),
            migrations: Some(Migrations { same_llc: waits.total() / 7, ..Migrations::default() }),
        },
        counters: None,
        culprits: Culprits::new(shares, did.unattributed_ns, steal_ns).unwrap(),
        waits: Some(waits),
        stretches: Some(stretches),
        system_ns: None,
    }
}

/// Cuts a time into pieces of several orders of magnitude.
fn cut(mut left_ns: u64, shortest_ns: u64, longest_ns: u64, random: &mut Random) -> Histogram {
    let mut h = Histogram::default();
    while left_ns > 0 {
        let span = longest_ns.ilog2() - shortest_ns.ilog2();
        let ns = (shortest_ns << (random.next() % u64::from(span + 1))).min(longest_ns).min(left_ns);
        h.record(ns);
        left_ns -= ns;
    }
    h
}

/// A window made of named tasks; tenants are the sums of them.
pub fn window(start_ns: u64, end_ns: u64, tasks: Vec<TaskObservation>) -> Observation {
    let mut by_tenant: Vec<TenantObservation> = Vec::new();
    for t in tenants() {
        let of: Vec<&TaskObservation> = tasks.iter().filter(|x| x.tenant == t.id).collect();
        if !of.is_empty() {
            by_tenant.push(TenantObservation {
                id: t.id,
                tasks: of.len() as u64,
                account: of.iter().fold(Account::default(), |a, x| a.plus(&x.account)),
            });
        }
    }
    let busy_ns: u64 = tasks.iter().map(|t| t.account.ledger.on_cpu_ns()).sum();
    let window_ns = end_ns - start_ns;
    let busy = [busy_ns.div_ceil(2).min(window_ns), (busy_ns / 2).min(window_ns)];
    let cpu = |cpu: usize| CpuTime {
        host_steal_ns: None,
        cpu: CpuId(cpu as u32),
        idle_ns: window_ns - busy[cpu],
        busy_ns: busy[cpu],
        unknown_ns: 0,
    };
    Observation {
        limits: Default::default(),
        start_ns,
        end_ns,
        tenants: tenants(),
        tasks,
        by_tenant,
        weights: Vec::new(),
        refused: Default::default(),
        cpus: vec![cpu(0), cpu(1)],
        machine: MachineTime {
            host_steal_ns: Some(window_ns / 400),
            irq_ns: None,
            softirq_ns: Some(window_ns / 300),
        },
        energy: Energy::default(),
        loss: Loss { unknown_ns: 0, ..Loss::default() },
        unavailable: vec![Unavailable {
            what: What::HardwareCounters,
            why: "this virtual machine has no PMU; run on bare metal or enable vPMU".to_owned().into(),
        }],
    }
}

pub fn task(id: u32, name: &str, tenant: TenantId, born_ns: u64, account: Account) -> TaskObservation {
    TaskObservation {
        id: TaskId(id),
        name: name.into(),
        tenant,
        born_ns,
        alive: true,
        last_cpu: (account.ledger.on_cpu_ns() > 0).then_some(CpuId(id % 2)),
        account: account.into(),
    }
}

/// One slot: four threads of the subject; postgres and, in the middle, a compiler preempt them.
fn slot(index: u64, random: &mut Random) -> Observation {
    let start_ns = 5_000 * MS + index * SLOT_NS;
    let compiling = (12..30).contains(&index);
    let (mut taken_by_postgres, mut taken_by_compiler) = (0, 0);
    let mut tasks = Vec::new();
    for n in 0..4u32 {
        let compute_ns = if compiling { random.within(38, 52) } else { random.within(62, 80) } * MS;
        let postgres_ns = random.within(24, 46) * MS + 137;
        let compiler_ns = if compiling { random.within(30, 44) * MS } else { 0 };
        let own_ns = random.within(4, 12) * MS;
        taken_by_postgres += postgres_ns / 2;
        taken_by_compiler += compiler_ns * 3 / 4;
        let did = Did {
            compute_ns: compute_ns + 211,
            stolen: vec![
                (POSTGRES, postgres_ns),
                (COMPILER, compiler_ns),
                (SUBJECT, own_ns),
                (KERNEL, random.within(100_000, 900_000)),
                (IDLE, random.within(10_000, 90_000)),
                (HOSTILE, if n == 0 { 3 * MS } else { 0 }),
            ],
            unattributed_ns: random.within(0, 40_000),
            throttled_ns: if n == 3 && index.is_multiple_of(8) { 20 * MS } else { 0 },
            life_ns: SLOT_NS,
            ..Did::default()
        };
        tasks.push(task(4100 + n, "streamcluster", SUBJECT, start_ns, account(&did, random)));
    }
    let helper = Did { compute_ns: 2 * MS, life_ns: SLOT_NS, ..Did::default() };
    tasks.push(task(4110, "progress <bar>", SUBJECT, start_ns, account(&helper, random)));
    let mut co_runner = |id, name: &str, tenant, compute_ns: u64, wait_ns: u64| {
        let did = Did {
            compute_ns,
            stolen: vec![(SUBJECT, wait_ns / 2), (COMPILER, wait_ns / 4), (POSTGRES, wait_ns / 4)],
            life_ns: SLOT_NS,
            ..Did::default()
        };
        tasks.push(task(id, name, tenant, start_ns, account(&did, random)));
    };
    co_runner(900, "postgres", POSTGRES, taken_by_postgres, 9 * MS);
    co_runner(901, "walwriter", POSTGRES, taken_by_postgres / 8, 4 * MS);
    if compiling {
        co_runner(7000, "cc1plus", COMPILER, taken_by_compiler, 30 * MS);
    }
    co_runner(12, "ksoftirqd/0", KERNEL, 600_000, 0);
    co_runner(666, "<script>", HOSTILE, 3 * MS, 0);
    tasks.sort_by_key(|t| t.id);
    let seen = window(start_ns, start_ns + SLOT_NS, tasks);
    seen.check().expect("a slot that holds");
    seen
}

/// The forty slots of the window.
pub fn timeline() -> Vec<Observation> {
    let mut random = Random(7);
    (0..SLOTS).map(|i| slot(i, &mut random)).collect()
}

/// The whole window: the sum of the slots.
pub fn whole(slots: &[Observation]) -> Observation {
    let (start_ns, end_ns) = (slots[0].start_ns, slots[slots.len() - 1].end_ns);
    let mut tasks: Vec<TaskObservation> = Vec::new();
    for t in slots.iter().flat_map(|s| &s.tasks) {
        match tasks.iter_mut().find(|x| x.id == t.id) {
            Some(sum) => sum.account = sum.account.plus(&t.account).into(),
            None => tasks.push(t.clone()),
        }
    }
    for t in &mut tasks {
        t.alive = t.born_ns + t.account.ledger.total_ns() == end_ns;
    }
    tasks.sort_by_key(|t| t.id);
    let mut seen = window(start_ns, end_ns, tasks);
    seen.loss.unlisted_tasks = 0;
    seen.check().expect("a window that holds");
    seen
}

pub fn meta() -> ProfileMeta {
    let machine = Machine::synthetic(1, 1, 2, 1);
    ProfileMeta {
        exit_status: Some(0),
        self_cost: SelfCost {
            cpu_ns: Some(21_000_000),
            ns_per_switch: Some(98),
            probe_ppm: Some(2_400),
            switches_per_s: Some(49_000),
            layout: None,
        },
        ..ProfileMeta::new(Host::Live, Source::Ebpf, "./streamcluster 10 20 128 16384 -t 4", &machine)
    }
}

/// A subject with one task for one second, for tests of single cases.
pub fn alone(did: &Did) -> Observation {
    let did = Did { life_ns: 1_000 * MS, ..did.clone() };
    let t = task(4100, "streamcluster", SUBJECT, 0, account(&did, &mut Random(1)));
    let seen = window(0, 1_000 * MS, vec![t]);
    seen.check().expect("a window that holds");
    seen
}
