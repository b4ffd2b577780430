//! The names of tenants in labels: a short, stable and bounded set of strings, the same for victims and
//! culprits.
//!
//! A tenant's label is its name. While another tenant with that name has series, a distinction follows it:
//! `bash (pgid 4711)`. It keeps its label for life. Some words stand for several tenants, or for none; a
//! tenant with such a name is distinguished from them as well.

use corun_model::tenant::what_tells;
use corun_model::{TakenBy, Tenant, TenantKind};

/// The kernel's threads together.
pub const KERNEL: &str = "kernel";
/// corun itself.
pub const CORUN: &str = "corun";
/// All tenants that have no series of their own.
pub const OTHER: &str = "other";
/// A culprit: the victim's own tenant.
pub const SELF: &str = "self";
/// A culprit: nobody. The CPU was idle while the task was already runnable.
pub const IDLE: &str = "idle";
/// A culprit: nobody knows who.
pub const UNATTRIBUTED: &str = "unattributed";

const TAKEN: [&str; 6] = [KERNEL, CORUN, OTHER, SELF, IDLE, UNATTRIBUTED];

/// The meaning of a label that no single tenant has.
pub fn shared(kind: TenantKind) -> Option<&'static str> {
    match kind.taken_by() {
        TakenBy::Kernel => Some(KERNEL),
        TakenBy::Watcher => Some(CORUN),
        TakenBy::Idle => Some(IDLE),
        _ => (kind == TenantKind::Others).then_some(OTHER),
    }
}

/// The label of a tenant, given the labels of others.
pub fn of(tenant: &Tenant, is_in_use: impl Fn(&str) -> bool) -> String {
    let is_free = |label: &str| !TAKEN.contains(&label) && !is_in_use(label);
    if is_free(&tenant.name) {
        return tenant.name.clone();
    }
    let apart = format!("{} ({})", tenant.name, what_tells(&tenant.key));
    if is_free(&apart) {
        return apart;
    }
    let numbered = (2..).map(|n| format!("{apart} #{n}")).find(|label| is_free(label));
    numbered.expect("there are more numbers than labels")
}

#[cfg(test)]
mod tests {
    use super::*;
    use corun_model::TenantId;

    #[test]
    fn tenants_with_the_same_name_are_distinguished_and_none_has_a_word_that_means_several() {
        let tenant = |name: &str, key: &str| Tenant {
            id: TenantId(1),
            kind: TenantKind::Command,
            key: key.into(),
            name: name.into(),
        };
        let label = |t, used: &[&str]| of(&t, |l| used.contains(&l));
        assert_eq!(label(tenant("bash", "pgid:7"), &[]), "bash");
        assert_eq!(label(tenant("bash", "pgid:7"), &["bash"]), "bash (pgid 7)");
        assert_eq!(label(tenant("bash", "pgid:7"), &["bash", "bash (pgid 7)"]), "bash (pgid 7) #2");
        assert_eq!(label(tenant("other", "pgid:7"), &[]), "other (pgid 7)");
        for kind in TenantKind::ALL {
            assert_eq!(shared(kind).is_some(), !kind.is_co_runner() || kind == TenantKind::Others);
        }
    }
}
