//! The tenants that a policy may touch. Protected tenants are refused in any case, and observations say which tenants would be refused.
//! So a policy can plan around them.

use corun_model::{Observation, Tenant, TenantId};
use std::collections::BTreeSet;

/// The tenants that a policy may touch, by name or key. Kernel tasks and idle are never among them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scope {
    only: Option<BTreeSet<String>>,
    protected: BTreeSet<String>,
}

impl Scope {
    /// Every tenant that can be controlled.
    pub fn everyone() -> Scope {
        Scope::default()
    }

    /// Only these, by name or key.
    #[must_use]
    pub fn only(mut self, tenants: impl IntoIterator<Item = impl Into<String>>) -> Scope {
        self.only = Some(tenants.into_iter().map(Into::into).collect());
        self
    }

    /// Excludes these, by name or key, even if they are in [`only`](Scope::only).
    #[must_use]
    pub fn protect(mut self, tenants: impl IntoIterator<Item = impl Into<String>>) -> Scope {
        self.protected.extend(tenants.into_iter().map(Into::into));
        self
    }

    /// Whether a tenant may be touched.
    pub fn covers(&self, tenant: &Tenant) -> bool {
        let named = |set: &BTreeSet<String>| set.iter().any(|wanted| tenant.is_called(wanted));
        tenant.kind.is_controllable() && !named(&self.protected) && self.only.as_ref().is_none_or(named)
    }

    /// The tenants of an observation that may be touched and would not be refused. This compares names, so call it once per
    /// observation.
    pub fn covered(&self, seen: &Observation) -> BTreeSet<TenantId> {
        let is_refused = |t: &Tenant| seen.refused.binary_search(&t.id).is_ok();
        seen.tenants.iter().filter(|t| !is_refused(t) && self.covers(t)).map(|t| t.id).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corun_model::TenantKind;

    fn tenant(name: &str, kind: TenantKind) -> Tenant {
        Tenant { id: TenantId(0), kind, key: format!("key/{name}"), name: name.into() }
    }

    #[test]
    fn protection_wins_and_the_kernel_is_never_touched() {
        let scope = Scope::everyone().only(["a", "key/b", "kernel"]).protect(["key/a"]);
        assert!(!scope.covers(&tenant("a", TenantKind::Command)));
        assert!(scope.covers(&tenant("b", TenantKind::Command)));
        assert!(!scope.covers(&tenant("c", TenantKind::Command)));
        assert!(!scope.covers(&tenant("kernel", TenantKind::Kernel)));
        assert!(Scope::everyone().covers(&tenant("c", TenantKind::Pod)));
        let group = Tenant { key: "pgid:12".into(), ..tenant("sh", TenantKind::Command) };
        let covers = |wanted: &str| Scope::everyone().only([wanted]).covers(&group);
        assert!(covers("pgid:12") && covers("sh (pgid 12)") && !covers("pgid:1") && !covers("12"));
    }
}
