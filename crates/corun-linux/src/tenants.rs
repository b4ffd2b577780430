//! The tenant table of a live host: numbers for names.
//!
//! A number is given once and never again. So it means the same tenant everywhere: in observations, in a
//! policy's memory, in reports. The table is no history: on a machine that builds for days, every command of
//! every shell is a tenant for a moment. Tenants that the host no longer mentions are forgotten when there
//! are many of them, the least recently mentioned first. So a unit that soon starts again keeps its number.

use crate::naming::TenantName;
use crate::pods;
use crate::root::Root;
use corun_model::{Tenant, TenantId, TenantKind};
use std::collections::BTreeMap;

/// Most tenants that are remembered although nobody mentions them any more.
const MOST_GONE: usize = 4_096;

/// Tenants by number and by key.
#[derive(Clone, Debug, Default)]
pub struct Tenants {
    by_id: BTreeMap<TenantId, NumberedTenant>,
    by_key: BTreeMap<String, TenantId>,
    next: u32,
    /// Where names of pods are looked up.
    root: Option<Root>,
    /// Advances whenever [`Tenants::forget`] lists the tenants in use.
    round: u64,
}

/// A tenant, and the last round in which it was mentioned.
#[derive(Clone, Debug)]
struct NumberedTenant {
    tenant: Tenant,
    round: u64,
}

impl Tenants {
    /// The table of a machine, which knows the names of its pods.
    pub fn new(root: &Root) -> Tenants {
        Tenants { root: Some(root.clone()), ..Tenants::default() }
    }

    /// The number of a tenant, a new one if its key is new. A known tenant takes the newer name: until a
    /// group's leader executes the command, the group has the name of the shell that made it.
    pub fn number(&mut self, name: TenantName) -> TenantId {
        if let Some(&id) = self.by_key.get(&name.key) {
            if let Some(known) = self.by_id.get_mut(&id) {
                if !has_id(&known.tenant) && known.tenant.kind != TenantKind::Pod {
                    known.tenant.name = name.name;
                }
                known.round = self.round;
            }
            return id;
        }
        let id = TenantId(self.next);
        self.next += 1;
        self.by_key.insert(name.key.clone(), id);
        // A pod is looked up once, because a look-up reads the names of all pods.
        let root = self.root.as_ref().filter(|_| name.kind == TenantKind::Pod);
        let called = root.and_then(|root| pods::name(root, &name.key)).map(|called| format!("pod {called}"));
        let mut tenant = Tenant { id, kind: name.kind, key: name.key, name: called.unwrap_or(name.name) };
        self.tell_apart(&mut tenant);
        self.by_id.insert(id, NumberedTenant { tenant, round: self.round });
        id
    }

    /// If a tenant is named by the start of its id, extends its name, and those of tenants with the same
    /// name, until they differ.
    fn tell_apart(&mut self, tenant: &mut Tenant) {
        if !has_id(tenant) {
            return;
        }
        let is_same = |other: &Tenant| has_id(other) && longer(other, 0) == longer(tenant, 0);
        let same: Vec<TenantId> =
            self.by_id.values().filter(|known| is_same(&known.tenant)).map(|known| known.tenant.id).collect();
        for id in same {
            let Some(other) = self.by_id.get_mut(&id).map(|known| &mut known.tenant) else { continue };
            let [ours, theirs] =
                [&*tenant, &*other].map(|t| t.key.split_once(':').map_or("", |(_, id)| id).to_owned());
            let common = ours.bytes().zip(theirs.bytes()).take_while(|(a, b)| a == b).count();
            for tenant in [&mut *tenant, other] {
                let so_far = tenant.name.split_once(' ').map_or(0, |(_, id)| id.len());
                tenant.name = longer(tenant, so_far.max(common + 1));
            }
        }
    }

    /// A tenant that has not been forgotten.
    pub fn get(&self, id: TenantId) -> Option<&Tenant> {
        self.by_id.get(&id).map(|known| &known.tenant)
    }

    /// The number of the tenant with this key.
    pub fn with_key(&self, key: &str) -> Option<TenantId> {
        self.by_key.get(key).copied()
    }

    /// Forgets tenants that are not mentioned, except for as many as are worth keeping.
    pub fn forget(&mut self, is_spoken_of: impl Fn(TenantId) -> bool) {
        self.round += 1;
        let mut gone: Vec<(u64, TenantId)> = Vec::new();
        for (&id, known) in &mut self.by_id {
            match is_spoken_of(id) {
                true => known.round = self.round,
                false => gone.push((known.round, id)),
            }
        }
        gone.sort_unstable();
        for (_, id) in &gone[..gone.len().saturating_sub(MOST_GONE)] {
            if let Some(known) = self.by_id.remove(id) {
                self.by_key.remove(&known.tenant.key);
            }
        }
    }
}

/// Whether a tenant is named by the start of its id: `docker 0123456789ab`.
fn has_id(tenant: &Tenant) -> bool {
    let id = tenant.key.split_once(':').map_or("", |(_, id)| id);
    let shown = tenant.name.split_once(' ').map_or("", |(_, shown)| shown);
    matches!(tenant.kind, TenantKind::Container | TenantKind::Pod)
        && !shown.is_empty()
        && id.starts_with(shown)
}

/// The name of a tenant with this many characters of its id, by default as few as possible.
fn longer(tenant: &Tenant, characters: usize) -> String {
    const FEWEST: usize = 8;
    let (sort, shown) = tenant.name.split_once(' ').unwrap_or((&tenant.name, ""));
    let id = tenant.key.split_once(':').map_or("", |(_, id)| id);
    let most = if characters == 0 { FEWEST.min(shown.len()) } else { characters };
    format!("{sort} {}", id.chars().take(most).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn containers_whose_ids_begin_alike_are_named_by_as_much_of_them_as_necessary() {
        let mut t = Tenants::default();
        let id = |end: &str| format!("{}{end}", "a".repeat(64 - end.len()));
        let docker = |id: &str| naming::of_cgroup(&format!("/docker/{id}")).unwrap();
        let all = [id("b"), id("cc"), "0".repeat(64), id("d")].map(|id| t.number(docker(&id)));
        let names = all.map(|id| t.get(id).unwrap().name.clone());
        let lengths = names.clone().map(|name| name.len() - "docker ".len());
        assert_eq!(lengths, [64, 63, 12, 64], "{names:?}");
        assert_eq!(names.iter().collect::<std::collections::BTreeSet<_>>().len(), 4);
        assert_eq!(t.number(docker(&id("b"))), all[0]);
        assert_eq!(t.get(all[0]).unwrap().name, names[0], "the longer name stays");
    }
    use crate::naming;

    #[test]
    fn a_pod_has_its_name_in_the_cluster_if_that_is_known_and_keeps_it() {
        let folder = tempfile::tempdir().unwrap();
        let uid = |n: u32| format!("3f2a9c1e-1b2c-4d5e-8f90-00000000000{n}");
        for n in [1, 2] {
            // A pod of a stateful set that was recreated: its logs exist twice.
            std::fs::create_dir_all(folder.path().join(format!("var/log/pods/shop_web-0_{}", uid(n))))
                .unwrap();
        }
        let mut t = Tenants::new(&Root::new(folder.path()));
        let pod = |n| naming::of_cgroup(&format!("/kubepods/burstable/pod{}", uid(n))).unwrap();
        for _ in 0..2 {
            let names = [1, 2, 3].map(|n| t.number(pod(n))).map(|id| t.get(id).unwrap().name.clone());
            assert_eq!(names, ["pod shop/web-0", "pod shop/web-0", "pod 3f2a9c1e"]);
        }
        let id = t.with_key(&format!("pod:{}", uid(3))).unwrap();
        std::fs::remove_dir_all(folder.path().join("var")).unwrap();
        assert_eq!(t.number(pod(4)), TenantId(3));
        assert_ne!(t.get(id).unwrap().name, t.get(TenantId(3)).unwrap().name, "ids tell them apart");
    }

    #[test]
    fn a_key_keeps_its_number_and_takes_its_newest_name() {
        let mut t = Tenants::default();
        let a = t.number(naming::of_process_group(7, "bash"));
        let b = t.number(naming::of_kernel_thread("kswapd0"));
        assert_eq!(t.number(naming::of_process_group(7, "make")), a);
        assert_eq!((a, b), (TenantId(0), TenantId(1)));
        assert_eq!([a, b].map(|id| t.get(id).unwrap().name.as_str()), ["make", "kernel"]);
    }

    #[test]
    fn a_hundred_thousand_commands_leave_a_bounded_table_and_no_number_is_given_twice() {
        let mut t = Tenants::default();
        let lasting = t.number(naming::of_process_group(1, "server"));
        let mut last = lasting;
        for round in 0..100 {
            for n in 0..1_000 {
                let id = t.number(naming::of_process_group(2 + n, &format!("cc{}", round % 7)));
                // The same process groups again and again: if they are still known, they have the same
                // number.
                last = last.max(id);
            }
            for n in 0..1_000 {
                let id = t.number(naming::of_process_group(10_000 + round * 1_000 + n, "cc"));
                assert!(id > last, "a new key has a number that nobody ever had");
                last = id;
            }
            t.forget(|id| id == lasting);
            assert!(t.by_id.len() <= MOST_GONE + 1, "{} after round {round}", t.by_id.len());
        }
        assert_eq!(t.number(naming::of_process_group(1, "server")), lasting);
        let newest = t.number(naming::of_process_group(10_000 + 99_999, "cc"));
        assert_eq!(newest, last, "who was spoken of lately is known");
        assert!(t.number(naming::of_process_group(10_000, "cc")) > last, "who was forgotten is somebody new");
    }
}
