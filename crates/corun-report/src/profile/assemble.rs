//! From observations to the wire schema: this only computes sums, orders and names.
//!
//! Order is part of the contract (same input, same bytes): tasks by time lost, then id; tenants by id; culprits
//! as the model keeps them, largest first.

use super::schema::{self, ProfileReport};
use super::{waits, ProfileMeta, Subject};
use crate::energy;
use corun_model::counters::Counters;
use corun_model::events::{Events, Migrations};
use corun_model::histogram::{Histogram, Quantile, BUCKETS};
use corun_model::ledger::{BlockReasons, Ledger};
use corun_model::observation::{Account, TaskObservation, TenantObservation};
use corun_model::{Culprits, Observation, TakenBy, TenantId};
use corun_predict::reach::Reach;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Makes the report; see [`ProfileReport::new`].
pub fn report(
    meta: &ProfileMeta,
    seen: &Observation,
    subject: Subject,
    timeline: &[Observation],
) -> ProfileReport {
    let names = Names::of(seen, timeline);
    ProfileReport {
        schema: schema::SCHEMA.to_owned(),
        host: meta.host,
        source: meta.source,
        corun: env!("CARGO_PKG_VERSION").to_owned(),
        date: meta.date.clone(),
        target: meta.target.clone(),
        exit_status: meta.exit_status,
        start_ns: seen.start_ns,
        window_ns: seen.window_ns(),
        cpus: meta.cpus,
        allowed_cpus: match subject {
            Subject::Tenant(id) => Some(Reach::of(seen, id).all().len() as u64).filter(|n| *n > 0),
            Subject::All => None,
        },
        isolated: match subject {
            Subject::Tenant(id) => is_isolated(seen, id),
            Subject::All => None,
        },
        lost: meta.lost,
        servers: meta.servers.clone(),
        subject: subject_section(seen, subject, &names),
        tasks: subject_tasks(seen, subject, &names),
        tenants: seen.by_tenant.iter().map(|t| section(t, &names)).collect(),
        others: other_tasks(seen, subject),
        worst_waits: meta.worst_waits.as_deref().map(|waits| waits::written(waits, seen.start_ns)),
        machine: machine(meta, seen, subject),
        timeline: timeline.iter().map(|part| slot(part, seen.start_ns, subject)).collect(),
        histogram_edges_ns: (0..BUCKETS).map(Histogram::lower_ns).collect(),
        loss: loss(meta, seen),
        own: meta.self_cost.clone(),
        unavailable: seen.unavailable.to_vec(),
        notes: meta.notes.clone(),
    }
}

/// Whether isolation confines any task of this tenant; `None` if it is unknown where any of them may run.
fn is_isolated(seen: &Observation, tenant: TenantId) -> Option<bool> {
    let own = seen.tasks.iter().filter(|task| task.tenant == tenant);
    let mut known =
        own.filter_map(|task| seen.limits.of_task(task.id)).filter(|limits| limits.cpus.is_some());
    let first = known.next()?;
    Some(first.is_isolated || known.any(|limits| limits.is_isolated))
}

/// Names of tenants by id, with the keys that people do not need everywhere.
struct Names<'a> {
    tenants: BTreeMap<TenantId, &'a corun_model::Tenant>,
    seen: &'a Observation,
}

impl<'a> Names<'a> {
    fn of(seen: &'a Observation, timeline: &'a [Observation]) -> Names<'a> {
        let parts = timeline.iter().chain([seen]);
        Names { tenants: parts.flat_map(|o| &o.tenants).map(|t| (t.id, t)).collect(), seen }
    }

    fn tenant(&self, id: TenantId) -> schema::Tenant {
        match self.tenants.get(&id) {
            Some(t) => schema::Tenant { id: id.0, kind: t.kind.name().to_owned(), name: t.name.clone() },
            None => schema::Tenant { id: id.0, kind: "unknown".to_owned(), name: format!("tenant {}", id.0) },
        }
    }

    fn key(&self, id: TenantId) -> String {
        self.tenants.get(&id).map_or_else(String::new, |t| t.key.clone())
    }

    /// A number that no tenant has: the id of "all tenants together".
    fn free_id(&self) -> TenantId {
        TenantId(self.tenants.keys().last().map_or(0, |last| last.0 + 1))
    }
}

fn subject_section(seen: &Observation, subject: Subject, names: &Names) -> schema::Section {
    match subject {
        Subject::Tenant(id) => match seen.by_tenant.iter().find(|t| t.id == id) {
            Some(t) => section(t, names),
            None => section(&TenantObservation { id, tasks: 0, account: Account::default() }, names),
        },
        Subject::All => {
            let id = names.free_id();
            let sum = seen.by_tenant.iter().map(|t| &t.account).fold(Account::default(), |a, b| a.plus(b));
            schema::Section {
                tenant: schema::Tenant { id: id.0, kind: "all".to_owned(), name: "all tenants".to_owned() },
                key: String::new(),
                task_count: seen.by_tenant.iter().map(|t| t.tasks).sum(),
                account: account(&sum, id, names),
            }
        }
    }
}

fn section(t: &TenantObservation, names: &Names) -> schema::Section {
    schema::Section {
        tenant: names.tenant(t.id),
        key: names.key(t.id),
        task_count: t.tasks,
        account: account(&t.account, t.id, names),
    }
}

fn is_subject(t: &TaskObservation, subject: Subject) -> bool {
    subject == Subject::All || subject == Subject::Tenant(t.tenant)
}

fn subject_tasks(seen: &Observation, subject: Subject, names: &Names) -> Vec<schema::Task> {
    let mut tasks: Vec<&TaskObservation> = seen.tasks.iter().filter(|t| is_subject(t, subject)).collect();
    tasks.sort_by_key(|t| {
        let p = t.account.ledger.parts();
        let lost_ns = p.steal_ns + p.throttled_ns + p.parked_ns + p.spin_ns.unwrap_or(0);
        (Reverse(lost_ns), Reverse(t.account.ledger.on_cpu_ns()), t.id)
    });
    tasks.into_iter().map(|t| task(t, seen.start_ns, names)).collect()
}

fn task(t: &TaskObservation, start_ns: u64, names: &Names) -> schema::Task {
    schema::Task {
        tid: t.id.0,
        name: t.name.to_string(),
        tenant: t.tenant.0,
        lifetime_ns: t.account.ledger.total_ns(),
        born_ns: t.born_ns.saturating_sub(start_ns),
        alive: t.alive,
        last_cpu: t.last_cpu.map(|c| c.0),
        account: account(&t.account, t.tenant, names),
    }
}

fn other_tasks(seen: &Observation, subject: Subject) -> Vec<schema::OtherTask> {
    let stirred = |t: &&TaskObservation| {
        t.account.ledger.on_cpu_ns() > 0 || t.account.ledger.total_ns() > t.account.ledger.parts().block_ns
    };
    let mut tasks: Vec<&TaskObservation> =
        seen.tasks.iter().filter(|t| !is_subject(t, subject)).filter(stirred).collect();
    tasks.sort_by_key(|t| (Reverse(t.account.ledger.on_cpu_ns()), t.id));
    tasks
        .into_iter()
        .map(|t| schema::OtherTask {
            tid: t.id.0,
            name: t.name.to_string(),
            tenant: t.tenant.0,
            ledger: ledger(&t.account.ledger),
        })
        .collect()
}

fn account(a: &Account, owner: TenantId, names: &Names) -> schema::Account {
    schema::Account {
        ledger: ledger(&a.ledger),
        block: a.block.as_ref().map(block),
        events: events(&a.events),
        counters: a.counters.as_ref().map(counters),
        culprits: culprits(&a.culprits, owner, names),
        unattributed_ns: a.culprits.unattributed_ns(),
        waits: a.waits.as_ref().map(histogram),
        stretches: a.stretches.as_ref().map(histogram),
    }
}

/// A ledger on the wire.
pub(crate) fn ledger(l: &Ledger) -> schema::Ledger {
    let p = l.parts();
    schema::Ledger {
        compute_ns: p.compute_ns,
        spin_ns: p.spin_ns,
        block_ns: p.block_ns,
        steal_ns: p.steal_ns,
        throttled_ns: p.throttled_ns,
        stopped_ns: p.held.map(|held| held.stopped_ns),
        frozen_ns: p.held.map(|held| held.frozen_ns),
        parked_ns: p.parked_ns,
        unknown_ns: p.unknown_ns,
        total_ns: l.total_ns(),
    }
}

fn block(b: &BlockReasons) -> schema::Block {
    schema::Block {
        futex_ns: b.futex_ns,
        io_ns: b.io_ns,
        sleep_ns: b.sleep_ns,
        poll_ns: b.poll_ns,
        pipe_ns: b.pipe_ns,
        child_ns: b.child_ns,
        other_ns: b.other_ns,
    }
}

fn events(e: &Events) -> schema::Events {
    let by_distance = |m: Migrations| schema::Migrations {
        same_core: m.same_core,
        same_llc: m.same_llc,
        same_socket: m.same_socket,
        other_socket: m.other_socket,
    };
    schema::Events {
        blocked: e.blocked,
        yielded: e.yielded,
        preemptions: e.preemptions,
        wakeups: e.wakeups,
        migrations: e.migrations.map(|m| m.total()),
        migrations_by_distance: e.migrations.map(by_distance),
    }
}

fn counters(c: &Counters) -> schema::Counters {
    schema::Counters {
        cycles: c.cycles,
        instructions: c.instructions,
        branches: c.branches,
        branch_misses: c.branch_misses,
        l2_misses: c.l2_misses,
        llc_references: c.llc_references,
        llc_misses: c.llc_misses,
        offcore_stall_cycles: c.offcore_stall_cycles,
        l2_stall_cycles: c.l2_stall_cycles,
        coherence_intra: c.coherence_intra,
        coherence_inter: c.coherence_inter,
        remote_dram: c.remote_dram,
        dram_bytes: c.dram_bytes,
    }
}

fn culprits(c: &Culprits, owner: TenantId, names: &Names) -> Vec<schema::Culprit> {
    c.largest_first()
        .into_iter()
        .map(|s| schema::Culprit {
            tenant: names.tenant(s.tenant),
            steal_ns: s.steal_ns,
            own: names.seen.taken_by(owner, s.tenant) == TakenBy::Own,
        })
        .collect()
}

fn histogram(h: &Histogram) -> schema::Histogram {
    let bound = |q| {
        h.quantile(q).map(|edge| match edge {
            Quantile::Below(ns) => schema::Bound::BelowNs(ns),
            Quantile::AtLeast(ns) => schema::Bound::AtLeastNs(ns),
        })
    };
    schema::Histogram {
        counts: h.counts.to_vec(),
        total: h.total(),
        overflow: h.overflow(),
        p50: bound(0.5),
        p90: bound(0.9),
        p99: bound(0.99),
    }
}

fn machine(meta: &ProfileMeta, seen: &Observation, subject: Subject) -> schema::Machine {
    let sum = |of: fn(&corun_model::observation::CpuTime) -> u64| {
        (!seen.cpus.is_empty()).then(|| seen.cpus.iter().map(of).sum())
    };
    let compute_ns = of_subject(seen, subject).map(|t| t.account.ledger.parts().compute_ns).sum();
    schema::Machine {
        description: meta.machine.clone(),
        idle_ns: sum(|c| c.idle_ns),
        busy_ns: sum(|c| c.busy_ns),
        unknown_ns: sum(|c| c.unknown_ns),
        host_steal_ns: seen.machine.host_steal_ns,
        irq_ns: seen.machine.irq_ns,
        softirq_ns: seen.machine.softirq_ns,
        energy: energy::written(&seen.energy, seen.window_ns(), Some(compute_ns)),
        per_cpu: seen
            .cpus
            .iter()
            .map(|c| schema::Cpu {
                cpu: c.cpu.0,
                idle_ns: c.idle_ns,
                busy_ns: c.busy_ns,
                unknown_ns: c.unknown_ns,
            })
            .collect(),
    }
}

/// The tenants that are asked about.
fn of_subject(seen: &Observation, subject: Subject) -> impl Iterator<Item = &TenantObservation> {
    seen.by_tenant.iter().filter(move |t| match subject {
        Subject::All => true,
        Subject::Tenant(id) => t.id == id,
    })
}

fn slot(part: &Observation, start_ns: u64, subject: Subject) -> schema::Slot {
    let of_subject = of_subject(part, subject);
    let mut held: Vec<schema::Held> = part
        .by_tenant
        .iter()
        .map(|t| schema::Held { tenant: t.id.0, on_cpu_ns: t.account.ledger.on_cpu_ns() })
        .filter(|h| h.on_cpu_ns > 0)
        .collect();
    held.sort_by_key(|h| (Reverse(h.on_cpu_ns), h.tenant));
    schema::Slot {
        start_ns: part.start_ns.saturating_sub(start_ns),
        end_ns: part.end_ns.saturating_sub(start_ns),
        ledger: ledger(&of_subject.map(|t| t.account.ledger).sum()),
        held,
        idle_ns: (!part.cpus.is_empty()).then(|| part.cpus.iter().map(|c| c.idle_ns).sum()),
    }
}

fn loss(meta: &ProfileMeta, seen: &Observation) -> schema::Loss {
    schema::Loss {
        events: seen.loss.events,
        unknown_ns: seen.loss.unknown_ns,
        revised_ns: seen.loss.revised_ns,
        untracked_tasks: seen.loss.untracked_tasks,
        unlisted_tasks: seen.loss.unlisted_tasks,
        unseen_ns: seen.loss.unseen_ns,
        trace_events: meta.trace_lost,
    }
}
