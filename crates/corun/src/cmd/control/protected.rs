//! Whom this run would be refused: protected by what it is, or by one of its processes, or another user's whom this one may not
//! touch.

use super::whom::{may_be_stopped, why_not};
use corun_linux::protected::Protection;
use corun_linux::Root;
use corun_model::{Observation, Tenant};

/// What protects tenants from this run.
#[derive(Debug)]
pub struct Protected {
    root: Root,
    protection: Protection,
    /// Whether anybody is going to be touched, which this user must be allowed to do.
    acts: bool,
}

impl Protected {
    /// `protect`: what the user named; `acts`: whether anybody is going to be touched.
    pub fn new(root: &Root, protect: &[String], acts: bool) -> Protected {
        Protected { root: root.clone(), protection: Protection::new(root, protect), acts }
    }

    /// Whether a tenant that was seen would be refused.
    pub fn refuses(&self, seen: &Observation, tenant: &Tenant) -> bool {
        why_not(&self.root, &self.protection, seen, tenant).is_some()
            || self.acts && !may_be_stopped(&self.root, seen, tenant.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corun_model::observation::TaskObservation;
    use corun_model::{TaskId, TenantId, TenantKind};

    /// A process that is nobody's, ended when dropped.
    struct Sleeper(std::process::Child);

    impl Drop for Sleeper {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    #[test]
    fn the_first_process_is_refused_and_a_stranger_is_not() {
        let stranger = Sleeper(std::process::Command::new("sleep").arg("60").spawn().unwrap());
        let protected = Protected::new(&Root::new("/"), &[], true);
        for (pid, refused) in [(1, true), (stranger.0.id(), false)] {
            let tenant = Tenant {
                id: TenantId(pid),
                kind: TenantKind::Command,
                key: format!("pgid:{pid}"),
                name: format!("t{pid}"),
            };
            let task = TaskObservation {
                id: TaskId(pid),
                name: "x".into(),
                tenant: tenant.id,
                born_ns: 0,
                alive: true,
                last_cpu: None,
                account: Default::default(),
            };
            let seen = Observation { tasks: vec![task], ..Observation::default() };
            assert_eq!(protected.refuses(&seen, &tenant), refused, "{pid}");
        }
    }
}
