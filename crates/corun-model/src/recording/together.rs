//! Ended tenants that are counted together, because a recording cannot keep all separate.
//!
//! If a shell runs thousands of short commands, each is a tenant for a moment. Those with one name and kind become one tenant, `true
//! (1,204 jobs)`. Their accounts are added, and their steal from others is counted under that name. So a command keeps its name,
//! however short it lives. Only if there are too many names too, those that ran least become [`TenantKind::Others`].
//!
//! Limit: steal among them counts as steal by themselves.

use super::lesser_half;
use crate::count::count;
use crate::culprit::{Culprits, Share};
use crate::observation::{Account, Observation, TenantObservation};
use crate::tenant::{Tenant, TenantId, TenantKind};
use crate::unavailable::{Unavailable, What};
use crate::why::Why;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The id of tenants with any name that are counted together, if the host has no such tenant. No host uses this id.
const OTHERS: TenantId = TenantId(u32::MAX - 1);

/// The id of the first name. Each further name has the next lower id.
const FIRST: u32 = u32::MAX - 2;

/// Names with at least this many tenants are joined first. Names with two only follow if that is not enough.
const MANY: usize = 16;

/// The most names under which tenants are counted together.
const MOST_NAMES: usize = 2_000;

/// The tenants of one recording that are counted together, by name.
#[derive(Clone, Debug, Default)]
pub(super) struct Together {
    rows: BTreeMap<Name, Row>,
    subject: Option<TenantId>,
}

/// The tenants of one name and kind.
#[derive(Clone, Debug)]
struct Row {
    id: TenantId,
    kind: TenantKind,
    tenants: u64,
}

/// The new id of each renamed tenant.
pub(super) type Renamed = BTreeMap<TenantId, TenantId>;

/// Tenants that have a task.
pub(super) type Living = BTreeSet<TenantId>;

/// The common properties of tenants that are counted together: their kind and their name.
type Name = (&'static str, String);

impl Together {
    /// Starts with no tenants. The subject always stays separate.
    pub(super) fn without(subject: Option<TenantId>) -> Together {
        Together { subject, ..Together::default() }
    }

    /// The tenants of a window that began and ended in it, and whose name is already counted together.
    pub(super) fn of_window(
        &mut self,
        window: &Observation,
        whole: &Observation,
        living: &Living,
    ) -> Renamed {
        if self.rows.is_empty() {
            return Renamed::new();
        }
        let is_known = |t: &Tenant| whole.tenant(t.id).is_some();
        let is_its = |t: &&Tenant| self.may_go(t, living) && !is_known(t) && self.rows.contains_key(&of(t));
        let ended: Vec<&Tenant> = window.tenants.iter().filter(is_its).collect();
        self.join(ended, window)
    }

    /// The ended tenants of every name with several, names with many first, until at most `most` of the tenants in a part of the whole
    /// are left.
    pub(super) fn of_part(
        &mut self,
        part: &[Tenant],
        whole: &Observation,
        living: &Living,
        most: usize,
    ) -> Renamed {
        let mut named: BTreeMap<Name, usize> = BTreeMap::new();
        for t in part.iter().filter(|t| self.may_go(t, living)) {
            *named.entry(of(t)).or_default() += 1;
        }
        let mut left = part.len();
        let mut chosen: BTreeSet<Name> = BTreeSet::new();
        for alike in [MANY, 2] {
            if left <= most {
                break;
            }
            named.retain(|name, tenants| {
                let is_room = self.rows.len() + chosen.len() < MOST_NAMES || self.rows.contains_key(name);
                let is_chosen = *tenants >= alike && is_room;
                if is_chosen {
                    left -= *tenants - 1;
                    chosen.insert(name.clone());
                }
                !is_chosen
            });
        }
        let is_its = |t: &&Tenant| self.may_go(t, living) && chosen.contains(&of(t));
        let gone: Vec<&Tenant> = whole.tenants.iter().filter(is_its).collect();
        self.join(gone, whole)
    }

    /// Adds tenants to the rows of their names.
    fn join(&mut self, gone: Vec<&Tenant>, sum: &Observation) -> Renamed {
        let mut renamed = Renamed::new();
        for tenant in gone {
            let next = TenantId(FIRST - self.rows.len() as u32);
            let row = self.rows.entry(of(tenant)).or_insert(Row { id: next, kind: tenant.kind, tenants: 0 });
            // A tenant without a task is only mentioned. It was counted when it had one.
            let had = sum.by_tenant.binary_search_by_key(&tenant.id, |t| t.id);
            row.tenants += u64::from(had.is_ok_and(|i| sum.by_tenant[i].tasks > 0));
            renamed.insert(tenant.id, row.id);
        }
        renamed
    }

    /// Whether a tenant may be counted together with others of its name.
    fn may_go(&self, t: &Tenant, living: &Living) -> bool {
        self.may_be_spared(t) && !living.contains(&t.id) && !self.is_row(t.id)
    }

    fn may_be_spared(&self, t: &Tenant) -> bool {
        t.kind.is_controllable() && Some(t.id) != self.subject
    }

    /// Whether an id belongs to a row. No host uses ids that large.
    fn is_row(&self, id: TenantId) -> bool {
        id.0 <= FIRST && id.0 > FIRST - self.rows.len() as u32
    }

    /// Counts tenants under the ids of their names, and updates the names of those.
    pub(super) fn apply(&self, renamed: &Renamed, sum: &mut Observation) {
        let rows: BTreeSet<TenantId> = renamed.values().copied().collect();
        let called = self.rows.iter().filter(|(_, row)| rows.contains(&row.id));
        count_as(sum, renamed, called.map(|((_, name), row)| row.tenant(name)).collect());
    }

    /// If the whole has more than `most` tenants, counts the half of the ended ones that ran least together, under any name. Returns
    /// whether there were too many.
    pub(super) fn fold_into_others(&self, whole: &mut Observation, living: &Living, most: usize) -> bool {
        let is_over = whole.tenants.len() > most;
        if is_over {
            lesser_into_others(whole, |t| self.may_go(t, living));
        }
        is_over
    }

    /// The same for a slot. Here living tenants and rows may be joined too.
    pub(super) fn fold_slot_into_others(&self, slot: &mut Observation, most: usize) {
        if slot.tenants.len() > most {
            lesser_into_others(slot, |t| self.may_be_spared(t));
        }
    }

    /// Notes in a sum that some of its tenants are several.
    pub(super) fn say(whole: &mut Observation, with_others: bool) {
        let why = Why::TooManyTenants { with_others };
        match whole.unavailable.iter_mut().find(|u| u.what == What::EveryTenant) {
            Some(said) if with_others => said.why = why,
            Some(_) => {}
            None => whole.unavailable.push(Unavailable::new(What::EveryTenant, why)),
        }
    }
}

impl Row {
    fn tenant(&self, name: &str) -> Tenant {
        let one = match self.kind {
            TenantKind::Command => "job",
            TenantKind::Unit => "unit",
            TenantKind::Container => "container",
            TenantKind::Pod => "pod",
            TenantKind::SlurmStep => "step",
            TenantKind::Vm | TenantKind::VmIo => "VM",
            _ => "cgroup",
        };
        Tenant {
            id: self.id,
            kind: self.kind,
            key: format!("ended:{}:{name}", self.kind.name()),
            name: format!("{name} ({})", count(self.tenants, one)),
        }
    }
}

fn of(tenant: &Tenant) -> Name {
    (tenant.kind.name(), tenant.name.clone())
}

/// Tenants with a task at the end of a window.
pub(super) fn living(window: &Observation) -> Living {
    window.tasks.iter().filter(|t| t.alive).map(|t| t.tenant).collect()
}

/// The tenant for several tenants with any name.
pub(super) fn others(sum: &Observation) -> Tenant {
    let known = sum.tenants.iter().find(|t| t.kind == TenantKind::Others).cloned();
    known.unwrap_or_else(|| {
        let called = || TenantKind::Others.name().to_owned();
        Tenant { id: OTHERS, kind: TenantKind::Others, key: called(), name: called() }
    })
}

/// Joins the half that ran least of the tenants that `may_go`, with any name.
pub(super) fn lesser_into_others(sum: &mut Observation, may_go: impl Fn(&Tenant) -> bool) {
    let ran_ns: BTreeMap<TenantId, u64> =
        sum.by_tenant.iter().map(|t| (t.id, t.account.ledger.on_cpu_ns())).collect();
    let candidates = sum.tenants.iter().filter(|t| may_go(t));
    let least = lesser_half(candidates.map(|t| (ran_ns.get(&t.id).copied().unwrap_or(0), t.id)));
    let others = others(sum);
    let renamed = least.into_iter().map(|id| (id, others.id)).collect();
    count_as(sum, &renamed, vec![others]);
}

/// Counts tenants under other ids, with the given names. Their accounts are added, and as culprits they are replaced.
fn count_as(sum: &mut Observation, renamed: &Renamed, called: Vec<Tenant>) {
    if renamed.is_empty() {
        return;
    }
    let id_now = |id: TenantId| renamed.get(&id).copied().unwrap_or(id);
    let blamed_now = |account: &Account| {
        let culprits = &account.culprits;
        culprits.shares().iter().any(|s| renamed.contains_key(&s.tenant)).then(|| {
            let shares = culprits.shares().iter().map(|s| Share { tenant: id_now(s.tenant), ..*s });
            Culprits::new(shares, culprits.unattributed_ns(), culprits.total_ns())
                .expect("the same shares under other names")
        })
    };
    for task in &mut sum.tasks {
        task.tenant = id_now(task.tenant);
        if let Some(culprits) = blamed_now(&task.account) {
            Arc::make_mut(&mut task.account).culprits = culprits;
        }
    }
    let mut by_tenant: BTreeMap<TenantId, TenantObservation> = BTreeMap::new();
    for mut tenant in std::mem::take(&mut sum.by_tenant) {
        if let Some(culprits) = blamed_now(&tenant.account) {
            tenant.account.culprits = culprits;
        }
        let id = id_now(tenant.id);
        let none = || TenantObservation { id, tasks: 0, account: Account::default() };
        let together = by_tenant.entry(id).or_insert_with(none);
        together.tasks += tenant.tasks;
        together.account.add(&tenant.account);
    }
    sum.by_tenant = by_tenant.into_values().collect();
    sum.weights.retain(|(id, _)| !renamed.contains_key(id));
    sum.refused.retain(|id| !renamed.contains_key(id));
    let is_here = sum.tenants.iter().any(|t| renamed.contains_key(&t.id));
    sum.tenants.retain(|t| !renamed.contains_key(&t.id));
    for tenant in called.into_iter().filter(|_| is_here) {
        match sum.tenants.binary_search_by_key(&tenant.id, |t| t.id) {
            Ok(at) => sum.tenants[at] = tenant,
            Err(at) => sum.tenants.insert(at, tenant),
        }
    }
}
