//! A snapshot: one window of time as `top` shows it. The observation behind it is kept without the tasks that
//! slept, so that a report of it can be made later; rows are the content of the tables.

use corun_model::observation::{Account, TaskObservation};
use corun_model::{Observation, TakenBy, TenantId, TenantKind, What};
use corun_report::names::Names;
use corun_report::one_line;
use std::collections::BTreeMap;

/// One window.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Its number, from 0; none is given twice.
    pub number: u64,
    /// When it ended, for people.
    pub date: String,
    /// The observation, without the tasks that slept.
    pub seen: Observation,
    /// Its tenants, in the order of ids.
    pub rows: Vec<Row>,
    names: BTreeMap<TenantId, String>,
}

/// A tenant in a window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Who.
    pub id: TenantId,
    /// Its name; safe on a terminal.
    pub name: String,
    /// What sort of thing it is.
    pub kind: TenantKind,
    /// How many tasks it had.
    pub tasks: u64,
    /// Time on a CPU, in nanoseconds.
    pub ran_ns: u64,
    /// Time for which it wanted a CPU and had none, in nanoseconds, by cause.
    pub lost: Lost,
    /// How long it held a CPU for which others waited, in nanoseconds.
    pub took_ns: u64,
    /// The tenant that held the CPU for most of its waits.
    pub mostly: Option<Holder>,
}

/// Time for which a tenant's tasks wanted a CPU and had none, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// Other tenants held it.
    pub stolen_ns: u64,
    /// Its own other tasks did.
    pub own_ns: u64,
    /// The CPU was idle, and the task was just waking up.
    pub idle_ns: u64,
    /// Kernel threads held it, or corun did.
    pub kernel_ns: u64,
    /// An unknown tenant did.
    pub unknown_ns: u64,
    /// A CPU budget of its own was used up.
    pub throttled_ns: u64,
    /// It was stopped by corun.
    pub parked_ns: u64,
}

impl Lost {
    /// All of it.
    pub fn total_ns(&self) -> u64 {
        self.stolen_ns
            + self.own_ns
            + self.idle_ns
            + self.kernel_ns
            + self.unknown_ns
            + self.throttled_ns
            + self.parked_ns
    }

    /// Possibly somebody else's fault: taken by others, or by an unknown tenant.
    pub fn by_others_ns(&self) -> u64 {
        self.stolen_ns + self.unknown_ns
    }
}

/// The tenant that held a CPU that others waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Holder {
    /// Another tenant.
    Tenant(TenantId),
    /// The waiting tenant's own tasks.
    Own,
    /// Nobody knows.
    Unknown,
}

impl Snapshot {
    /// A window that ended at this date.
    pub fn new(number: u64, date: String, mut seen: Observation) -> Snapshot {
        let before = seen.tasks.len();
        seen.tasks.retain(stirred);
        seen.loss.unlisted_tasks += (before - seen.tasks.len()) as u64;
        let names =
            Names::disambiguated(seen.tenants.iter().map(|t| (t.id.0, t.name.as_str(), t.key.as_str())));
        let names: BTreeMap<TenantId, String> =
            seen.tenants.iter().map(|t| (t.id, one_line(&names.whole(t.id.0)))).collect();
        let mut took: BTreeMap<TenantId, u64> = BTreeMap::new();
        for victim in &seen.by_tenant {
            let is_other = |id: TenantId| seen.taken_by(victim.id, id) != TakenBy::Own;
            for share in victim.account.culprits.shares().iter().filter(|s| is_other(s.tenant)) {
                *took.entry(share.tenant).or_default() += share.steal_ns;
            }
        }
        let rows = seen.by_tenant.iter().map(|t| Row {
            id: t.id,
            name: names.get(&t.id).cloned().unwrap_or_default(),
            kind: seen.tenant(t.id).map_or(TenantKind::Others, |t| t.kind),
            tasks: t.tasks,
            ran_ns: t.account.ledger.on_cpu_ns(),
            lost: lost(&seen, t.id, &t.account),
            took_ns: took.get(&t.id).copied().unwrap_or(0),
            mostly: holders(&seen, t.id, &t.account).first().map(|(holder, _)| *holder),
        });
        Snapshot { number, date, rows: rows.collect(), names, seen }
    }

    /// A tenant's row, if it had a task in this window.
    pub fn row(&self, id: TenantId) -> Option<&Row> {
        self.rows.binary_search_by_key(&id, |row| row.id).ok().map(|at| &self.rows[at])
    }

    /// A tenant's account, if it had a task in this window.
    pub fn account(&self, id: TenantId) -> Option<&Account> {
        let at = self.seen.by_tenant.binary_search_by_key(&id, |t| t.id).ok()?;
        Some(&self.seen.by_tenant[at].account)
    }

    /// Its tasks that did more than sleep, those that lost most first.
    pub fn tasks(&self, id: TenantId) -> Vec<&TaskObservation> {
        let mut tasks: Vec<_> = self.seen.tasks.iter().filter(|t| t.tenant == id).collect();
        let lost_ns = |t: &TaskObservation| self.lost(id, &t.account).total_ns();
        tasks.sort_by_key(|t| std::cmp::Reverse((lost_ns(t), t.account.ledger.on_cpu_ns())));
        tasks
    }

    /// The losses of a tenant's account, by cause.
    pub fn lost(&self, id: TenantId, account: &Account) -> Lost {
        lost(&self.seen, id, account)
    }

    /// Who held the CPU during an account's waits, largest share first.
    pub fn holders(&self, id: TenantId, account: &Account) -> Vec<(Holder, u64)> {
        holders(&self.seen, id, account)
    }

    /// The relation of a tenant's CPU time to another that waited for it.
    pub fn taken_by(&self, waited: TenantId, id: TenantId) -> TakenBy {
        self.seen.taken_by(waited, id)
    }

    /// What a holder is called.
    pub fn called(&self, holder: Holder) -> &str {
        match holder {
            Holder::Tenant(id) => self.name(id),
            Holder::Own => "its own tasks",
            Holder::Unknown => "not known",
        }
    }

    /// The name of a tenant; safe on a terminal.
    pub fn name(&self, id: TenantId) -> &str {
        self.names.get(&id).map_or("somebody", String::as_str)
    }

    /// Whether the occupants of the CPUs are known.
    pub fn knows_culprits(&self) -> bool {
        self.seen.unavailable.iter().all(|u| u.what != What::Culprits)
    }

    /// The busy part of the CPUs, 0..1; `None` if unknown.
    pub fn busy_share(&self) -> Option<f64> {
        let busy_ns: u64 = self.seen.cpus.iter().map(|c| c.busy_ns).sum();
        let known_ns: u64 = self.seen.cpus.iter().map(|c| c.busy_ns + c.idle_ns).sum();
        (known_ns > 0).then(|| busy_ns as f64 / known_ns as f64)
    }

    /// The memory that it takes, approximately, in bytes.
    pub fn bytes(&self) -> usize {
        let account = size_of::<Account>();
        let tenant = account + size_of::<Row>() + 200;
        let shares: usize = self.seen.by_tenant.iter().map(|t| t.account.culprits.shares().len()).sum();
        self.seen.by_tenant.len() * tenant + self.seen.tasks.len() * (account + 100) + shares * 16
    }
}

/// Whether a task did more than sleep.
fn stirred(task: &TaskObservation) -> bool {
    let ledger = &task.account.ledger;
    ledger.total_ns() > ledger.parts().block_ns + ledger.parts().held_ns()
}

fn lost(seen: &Observation, id: TenantId, account: &Account) -> Lost {
    let parts = account.ledger.parts();
    let taken = seen.taken(id, &account.culprits);
    Lost {
        stolen_ns: taken.co_runners_ns,
        own_ns: taken.own_ns,
        idle_ns: taken.idle_ns,
        kernel_ns: taken.kernel_ns + taken.watcher_ns,
        unknown_ns: taken.unattributed_ns,
        throttled_ns: parts.throttled_ns,
        parked_ns: parts.parked_ns,
    }
}

fn holders(seen: &Observation, id: TenantId, account: &Account) -> Vec<(Holder, u64)> {
    let mut sums: BTreeMap<Holder, u64> = BTreeMap::new();
    for share in account.culprits.shares() {
        let holder = match seen.taken_by(id, share.tenant) {
            TakenBy::Own => Holder::Own,
            _ => Holder::Tenant(share.tenant),
        };
        *sums.entry(holder).or_default() += share.steal_ns;
    }
    sums.insert(Holder::Unknown, account.culprits.unattributed_ns());
    let mut holders: Vec<(Holder, u64)> = sums.into_iter().filter(|(_, ns)| *ns > 0).collect();
    holders.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
    holders
}
