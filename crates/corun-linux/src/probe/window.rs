//! A window under construction: tasks and CPUs are added one by one; tenants are sums of tasks.

use corun_bpf::layout::{state, TaskBrief};
use corun_model::culprit::Share;
use corun_model::observation::{Account, CpuTime, Loss, TaskObservation, TenantObservation};
use corun_model::{CpuId, Culprits, TaskId, TenantId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// An observation under construction.
pub(super) struct Window {
    pub(super) start_ns: u64,
    pub(super) end_ns: u64,
    pub(super) tasks: Vec<TaskObservation>,
    pub(super) by_tenant: TenantSums,
    pub(super) cpus: Vec<CpuTime>,
    pub(super) loss: Loss,
    /// The accounts of tasks that stayed in one state: the state, and how long.
    pub(super) still: Vec<(usize, u64, Arc<Account>)>,
}

/// A tenant's sums so far.
pub(super) struct TenantSum {
    pub(super) id: TenantId,
    pub(super) tasks: u64,
    pub(super) others_ns: u64,
    pub(super) account: Account,
    /// Its tasks that stayed in one state, by [`state`]: not in the account until the window is closed.
    pub(super) still_ns: [u64; state::ALL],
}

impl TenantSum {
    fn empty(id: TenantId) -> TenantSum {
        TenantSum { id, tasks: 0, others_ns: 0, account: Account::default(), still_ns: [0; state::ALL] }
    }
}

/// The sums of all tenants. They lie one after another: there may be thousands, of half a kilobyte each, which
/// would be moved about inside a map.
#[derive(Default)]
pub(super) struct TenantSums {
    places: BTreeMap<TenantId, usize>,
    sums: Vec<TenantSum>,
}

impl TenantSums {
    fn of(&mut self, id: TenantId) -> &mut TenantSum {
        let place = *self.places.entry(id).or_insert(self.sums.len());
        if place == self.sums.len() {
            self.sums.push(TenantSum::empty(id));
        }
        &mut self.sums[place]
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &TenantSum> {
        self.sums.iter()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut TenantSum> {
        self.sums.iter_mut()
    }

    /// The sums in the order of tenants.
    pub(super) fn observed(self) -> Vec<TenantObservation> {
        let TenantSums { places, mut sums } = self;
        let take = |place: usize| {
            let sum = &mut sums[place];
            TenantObservation { id: sum.id, tasks: sum.tasks, account: std::mem::take(&mut sum.account) }
        };
        places.into_values().map(take).collect()
    }
}

impl Window {
    pub(super) fn new(start_ns: u64, end_ns: u64) -> Window {
        Window {
            start_ns,
            end_ns,
            tasks: Vec::new(),
            by_tenant: TenantSums::default(),
            cpus: Vec::new(),
            loss: Loss::default(),
            still: Vec::new(),
        }
    }

    /// Adds tasks to their tenant's sums; `others_ns` of their steal is still to be divided.
    pub(super) fn add_to_tenant(&mut self, id: TenantId, tasks: u64, account: &Account, others_ns: u64) {
        let t = self.by_tenant.of(id);
        t.tasks += tasks;
        t.others_ns += others_ns;
        t.account.add(account);
    }

    /// The account of this time in one state, created by the first caller that needs it.
    pub(super) fn account_of_still(
        &mut self,
        state: usize,
        ns: u64,
        make: impl FnOnce() -> Option<Account>,
    ) -> Option<Arc<Account>> {
        let known = self.still.iter().find(|(s, n, _)| (*s, *n) == (state, ns));
        if let Some((_, _, account)) = known {
            return Some(account.clone());
        }
        let account = Arc::new(make()?);
        self.still.push((state, ns, account.clone()));
        Some(account)
    }

    /// Adds a task that stayed in one state to its tenant's sums.
    pub(super) fn add_still_to_tenant(&mut self, id: TenantId, state: usize, ns: u64) {
        let t = self.by_tenant.of(id);
        t.tasks += 1;
        t.still_ns[state] += ns;
    }
}

/// Replaces `others` (of `others_ns`) among the culprits by the actual tenants. The table of pairs is read
/// shortly after the edge, so it may hold slightly more: shares are given out until `others_ns` is used up.
pub(super) fn spread(
    culprits: &Culprits,
    others: TenantId,
    others_ns: u64,
    by_culprit: &BTreeMap<TenantId, u64>,
) -> Culprits {
    let mut left_ns = others_ns;
    let mut shares: Vec<Share> = culprits.shares().iter().copied().filter(|s| s.tenant != others).collect();
    for (&tenant, &ns) in by_culprit {
        let steal_ns = ns.min(left_ns);
        left_ns -= steal_ns;
        shares.push(Share { tenant, steal_ns });
    }
    shares.push(Share { tenant: others, steal_ns: culprits.of_ns(others) - (others_ns - left_ns) });
    Culprits::new(shares, culprits.unattributed_ns(), culprits.total_ns())
        .unwrap_or_else(|_| culprits.clone())
}

/// A living task with its account of a window.
pub(super) fn observed(
    task: &TaskBrief,
    name: Arc<str>,
    tenant: TenantId,
    born_ns: u64,
    account: Arc<Account>,
) -> TaskObservation {
    TaskObservation {
        id: TaskId(task.tid),
        name,
        tenant,
        born_ns,
        alive: true,
        last_cpu: (task.ran != 0).then_some(CpuId(task.cpu)),
        account,
    }
}
