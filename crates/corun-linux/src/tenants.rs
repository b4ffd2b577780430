//! The tenant table of a live host: numbers for names.
//!
//! A number is given once and never again, so it means the same tenant wherever it still stands: in observations, in what a
//! policy remembers, in reports. The table itself is no history: on a machine that builds for days every command of every
//! shell is a tenant for a moment. Whom the host does not speak of any more is forgotten when there are many of them, those
//! first that were spoken of longest ago: a unit that is started again soon has the number that it had.

use crate::naming::TenantName;
use corun_model::{Tenant, TenantId};
use std::collections::BTreeMap;

/// Most tenants that nobody speaks of any more and that are remembered all the same.
const MOST_GONE: usize = 4_096;

/// Tenants by number and by key.
#[derive(Clone, Debug, Default)]
pub struct Tenants {
    by_id: BTreeMap<TenantId, Known>,
    by_key: BTreeMap<String, TenantId>,
    next: u32,
    /// Goes on whenever the table is [told](Tenants::forget) who is spoken of.
    round: u64,
}

/// A tenant, and the last round in which it was spoken of.
#[derive(Clone, Debug)]
struct Known {
    tenant: Tenant,
    round: u64,
}

impl Tenants {
    /// The number of a tenant, a new one if its key is new. A known tenant takes the newer name: a process group is
    /// called as the shell that made it until its leader executes the command.
    pub fn number(&mut self, name: TenantName) -> TenantId {
        if let Some(&id) = self.by_key.get(&name.key) {
            if let Some(known) = self.by_id.get_mut(&id) {
                known.tenant.name = name.name;
                known.round = self.round;
            }
            return id;
        }
        let id = TenantId(self.next);
        self.next += 1;
        self.by_key.insert(name.key.clone(), id);
        let tenant = Tenant { id, kind: name.kind, key: name.key, name: name.name };
        self.by_id.insert(id, Known { tenant, round: self.round });
        id
    }

    /// A tenant that has not been forgotten.
    pub fn get(&self, id: TenantId) -> Option<&Tenant> {
        self.by_id.get(&id).map(|known| &known.tenant)
    }

    /// The number of the tenant with this key.
    pub fn with_key(&self, key: &str) -> Option<TenantId> {
        self.by_key.get(key).copied()
    }

    /// Forgets those that are not spoken of, but for as many as are worth remembering.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::naming;

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
                // The same process groups again and again: sometimes still known, and then with the number they had.
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
