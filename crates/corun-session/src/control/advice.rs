//! The number of threads that is advised to programs that share a page ([`corun_adapt::Page`]).
//!
//! Method. CPUs are divided by weight among the tenants that wanted some in the last window, and none gets
//! more than it wants (max-min fairness). A program that shares a page wants its stated maximum of threads,
//! however few it runs now. So giving threads up does not cost it its share. Any other tenant wants the CPU
//! time that its tasks used and waited for. A tenant that was parked for the whole window wants none, so the
//! tenants of the current slot have all CPUs.
//!
//! Advice is valid for a second (`corun-adapt`): if its controller dies, the program decides alone. Limits:
//! the CPUs that a tenant may use and its quota are ignored, since the program knows them itself and never
//! runs more than its maximum. Programs of one tenant get equal parts. A page is found within a second.

use corun_adapt::{Peer, Published};
use corun_linux::{procfs, Root};
use corun_model::advice::{Advised, Limit};
use corun_model::{Observation, TenantId};
use std::collections::{BTreeMap, BTreeSet};

/// How often new pages are looked for.
const LOOK_EVERY_NS: u64 = 1_000_000_000;
/// The last thread is advised from this part of a CPU on, in thousandths, as in a program that decides alone.
const LAST_THREAD_MILLI: u64 = 700;

/// Finds pages, and advises the programs that share them.
pub(super) struct Advisor {
    root: Root,
    peers: BTreeMap<u32, Peer>,
    /// Threads that are no process of their own.
    threads: BTreeSet<u32>,
    looked_ns: Option<u64>,
}

impl Advisor {
    pub(super) fn new(root: &Root) -> Advisor {
        Advisor { root: root.clone(), peers: BTreeMap::new(), threads: BTreeSet::new(), looked_ns: None }
    }

    /// Advises each program of `covered` that shares a page, after a window.
    pub(super) fn advise(&mut self, seen: &Observation, covered: &BTreeSet<TenantId>) -> Vec<Advised> {
        self.look(seen, covered);
        let mut programs: BTreeMap<TenantId, Vec<(u32, Published)>> = BTreeMap::new();
        for task in seen.tasks.iter().filter(|t| t.alive && covered.contains(&t.tenant)) {
            let published = self.peers.get(&task.id.0).and_then(Peer::read);
            if let Some(published) = published {
                programs.entry(task.tenant).or_default().push((task.id.0, published));
            }
        }
        self.peers.retain(|_, peer| peer.is_alive());
        if programs.is_empty() {
            return Vec::new();
        }
        let claims: Vec<Claim> = seen
            .by_tenant
            .iter()
            .map(|tenant| {
                let ledger = &tenant.account.ledger;
                let wanted_ns = ledger.on_cpu_ns() + ledger.parts().steal_ns;
                let own = programs.get(&tenant.id).filter(|_| wanted_ns > 0);
                let want_milli = match own {
                    Some(all) => all.iter().map(|(_, p)| u64::from(p.most) * 1_000).sum(),
                    None => wanted_ns * 1_000 / seen.window_ns().max(1),
                };
                Claim { weight: seen.weight(tenant.id), want_milli }
            })
            .collect();
        let dealt = deal(seen.cpus.len() as u64 * 1_000, &claims);
        let mut all = Vec::new();
        for (tenant, milli) in seen.by_tenant.iter().zip(dealt) {
            let own = programs.get(&tenant.id).map(Vec::as_slice).unwrap_or_default();
            for &(process, published) in own.iter().filter(|_| milli > 0) {
                let advised = advised(process, tenant.id, published, milli / own.len() as u64);
                self.peers[&process].advise(advised.width);
                all.push(advised);
            }
        }
        all
    }

    /// Looks for new pages of tenants that wanted a CPU.
    fn look(&mut self, seen: &Observation, covered: &BTreeSet<TenantId>) {
        if self.looked_ns.is_some_and(|at| seen.end_ns < at + LOOK_EVERY_NS) {
            return;
        }
        self.looked_ns = Some(seen.end_ns);
        let living: BTreeSet<u32> = seen.tasks.iter().filter(|t| t.alive).map(|t| t.id.0).collect();
        self.threads.retain(|tid| living.contains(tid));
        for task in seen.tasks.iter().filter(|t| t.alive && covered.contains(&t.tenant)) {
            let tid = task.id.0;
            if self.peers.contains_key(&tid) || self.threads.contains(&tid) {
                continue;
            }
            match procfs::process_of(&self.root, tid) {
                Ok(Some(process)) if process == tid => {
                    // A page of another version, or of somebody else: that program decides alone.
                    if let Ok(Some(peer)) = Peer::find(tid) {
                        self.peers.insert(tid, peer);
                    }
                }
                Ok(_) => drop(self.threads.insert(tid)),
                Err(_) => {}
            }
        }
    }

    /// Withdraws all advice: programs decide alone at once.
    pub(super) fn withdraw(&self) {
        self.peers.values().for_each(Peer::withdraw);
    }
}

impl Drop for Advisor {
    fn drop(&mut self) {
        self.withdraw();
    }
}

/// The advice to a program with this many thousandths of CPUs.
fn advised(process: u32, tenant: TenantId, Published { least, most, .. }: Published, milli: u64) -> Advised {
    let (most, fits) = (most.max(least).max(1), threads(milli));
    let limit = match fits {
        fits if fits >= most => Limit::Most,
        fits if fits < least => Limit::Least,
        _ => Limit::Share,
    };
    Advised { process, tenant, width: fits.clamp(least, most), least, most, dealt_milli: milli, limit }
}

/// This many threads can use this many thousandths of CPUs.
fn threads(milli: u64) -> u32 {
    let whole = milli / 1_000 + u64::from(milli % 1_000 >= LAST_THREAD_MILLI);
    u32::try_from(whole).unwrap_or(u32::MAX).max(1)
}

/// What a tenant may claim.
#[derive(Clone, Copy, Debug)]
struct Claim {
    weight: u64,
    want_milli: u64,
}

/// Divides `milli` thousandths of CPUs by weight; none gets more than it wants.
fn deal(milli: u64, claims: &[Claim]) -> Vec<u64> {
    let mut dealt = vec![0; claims.len()];
    let mut left_milli = milli;
    let mut open: Vec<usize> = (0..claims.len()).filter(|&i| claims[i].want_milli > 0).collect();
    while !open.is_empty() {
        let weights: u64 = open.iter().map(|&i| claims[i].weight).sum();
        let part = |i: usize| left_milli * claims[i].weight / weights.max(1);
        let (content, rest): (Vec<usize>, Vec<usize>) =
            open.iter().partition(|&&i| claims[i].want_milli <= part(i));
        if content.is_empty() {
            rest.iter().for_each(|&i| dealt[i] = part(i));
            break;
        }
        for &i in &content {
            dealt[i] = claims[i].want_milli;
        }
        left_milli -= content.iter().map(|&i| claims[i].want_milli).sum::<u64>();
        open = rest;
    }
    dealt
}

#[cfg(test)]
mod tests {
    use super::*;
    use corun_adapt::{Mode, Width};
    use corun_model::ledger::{Ledger, Parts};
    use corun_model::observation::{Account, CpuTime, TaskObservation, TenantObservation};
    use corun_model::{CpuId, TaskId, Tenant, TenantKind};
    use std::sync::Arc;

    fn claim(weight: u64, want_milli: u64) -> Claim {
        Claim { weight, want_milli }
    }

    #[test]
    fn cpus_are_divided_by_weight_and_what_one_does_not_want_goes_to_the_others() {
        let table: [(&[Claim], &[u64]); 5] = [
            (&[claim(100, 8_000), claim(100, 8_000)], &[2_000, 2_000]),
            (&[claim(100, 8_000), claim(300, 8_000)], &[1_000, 3_000]),
            (&[claim(100, 8_000), claim(100, 500)], &[3_500, 500]),
            (&[claim(100, 8_000), claim(100, 0)], &[4_000, 0]),
            (&[claim(100, 1_000), claim(100, 500)], &[1_000, 500]),
        ];
        for (claims, dealt) in table {
            assert_eq!(deal(4_000, claims), dealt, "{claims:?}");
        }
        assert_eq!([0, 699, 1_699, 1_700, 3_999].map(threads), [1, 1, 1, 2, 4]);
    }

    /// A window of 100 ms on four CPUs: this process, which used one CPU, and a neighbor with the given
    /// demand.
    fn window(neighbour_cpus: u64) -> Observation {
        let account = |ns: u64| {
            let parts = Parts { compute_ns: ns, ..Parts::default() };
            Account { ledger: Ledger::new(parts, ns).unwrap(), ..Account::default() }
        };
        let (own, other) = (account(100_000_000), account(neighbour_cpus * 100_000_000));
        let tenant = |id, name: &str| Tenant {
            id: TenantId(id),
            kind: TenantKind::Command,
            key: name.into(),
            name: name.into(),
        };
        let task = TaskObservation {
            id: TaskId(std::process::id()),
            name: "own".into(),
            tenant: TenantId(1),
            born_ns: 0,
            alive: true,
            last_cpu: None,
            account: Arc::new(own.clone()),
        };
        let of = |id, account| TenantObservation { id: TenantId(id), tasks: 1, account };
        let cpu = |n| CpuTime {
            cpu: CpuId(n),
            idle_ns: 0,
            busy_ns: 100_000_000,
            unknown_ns: 0,
            host_steal_ns: None,
        };
        Observation {
            start_ns: 0,
            end_ns: 100_000_000,
            tenants: vec![tenant(1, "own"), tenant(2, "other")],
            tasks: vec![task],
            by_tenant: vec![of(1, own), of(2, other)],
            cpus: (0..4).map(cpu).collect(),
            ..Observation::default()
        }
    }

    #[test]
    fn a_width_says_which_bound_decided_it() {
        let published = Published { least: 2, most: 4, progress: 0 };
        let table = [(500, 2, Limit::Least), (2_000, 2, Limit::Share), (9_000, 4, Limit::Most)];
        for (milli, width, limit) in table {
            let advised = advised(1, TenantId(1), published, milli);
            assert_eq!((advised.width, advised.limit), (width, limit), "{milli}");
        }
    }

    #[test]
    fn a_program_that_shares_a_page_keeps_its_share_and_decides_alone_once_the_controller_has_gone() {
        let width = Width::new(Mode::On, 1, 8).unwrap();
        let page = width.publish().unwrap();
        let covered = BTreeSet::from([TenantId(1)]);
        let mut advisor = Advisor::new(&Root::new("/"));
        // It used one CPU, and wants eight: next to one that wants four it gets half, next to one that wants
        // one it gets the rest.
        for (neighbour, share) in [(4, 2), (1, 3), (0, 4)] {
            let advised = advisor.advise(&window(neighbour), &covered);
            assert_eq!(advised.iter().map(|a| a.width).collect::<Vec<_>>(), [share]);
            assert_eq!((width.threads(), advised[0].most), (share, 8));
            assert_eq!((advised[0].dealt_milli, advised[0].limit), (u64::from(share) * 1_000, Limit::Share));
        }
        drop(advisor);
        assert_eq!(page.advice(), None, "what was advised is taken back");
        let mut untouched = Advisor::new(&Root::new("/"));
        assert_eq!(
            untouched.advise(&window(4), &BTreeSet::new()),
            [],
            "nobody is advised who may not be touched"
        );
    }
}
