//! The tenant table of a live host: numbers for names, kept for as long as the host runs.

use crate::naming::TenantName;
use corun_model::{Tenant, TenantId};
use std::collections::BTreeMap;

/// Tenants by number and by key.
#[derive(Clone, Debug, Default)]
pub struct Tenants {
    all: Vec<Tenant>,
    by_key: BTreeMap<String, TenantId>,
}

impl Tenants {
    /// The number of a tenant, a new one if its key is new. A known tenant takes the newer name: a process group is
    /// called as the shell that made it until its leader executes the command.
    pub fn number(&mut self, name: TenantName) -> TenantId {
        if let Some(&id) = self.by_key.get(&name.key) {
            self.all[id.0 as usize].name = name.name;
            return id;
        }
        let id = TenantId(self.all.len() as u32);
        self.by_key.insert(name.key.clone(), id);
        self.all.push(Tenant { id, kind: name.kind, key: name.key, name: name.name });
        id
    }

    /// All tenants so far, in the order of their numbers.
    pub fn all(&self) -> &[Tenant] {
        &self.all
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
        assert_eq!(t.all().iter().map(|t| t.name.as_str()).collect::<Vec<_>>(), ["make", "kernel"]);
    }
}
