//! Tenants that this run would be refused: protected by their identity or by one of their processes; or
//! another user's, which this user may not touch.

use corun_linux::procfs::process_of;
use corun_linux::protected::Protection;
use corun_linux::Root;
use corun_model::refusal;
use corun_model::{Observation, Tenant, TenantId};

/// What protects tenants from this run.
#[derive(Debug)]
pub struct Protected {
    root: Root,
    protection: Protection,
    /// Whether anybody is going to be touched, which this user must be allowed to do.
    acts: bool,
}

impl Protected {
    /// `protect`: the names from the user; `acts`: whether anybody is going to be touched.
    pub fn new(root: &Root, protect: &[String], acts: bool) -> Protected {
        Protected { root: root.clone(), protection: Protection::new(root, protect), acts }
    }

    /// Whether a tenant that was seen would be refused.
    pub fn refuses(&self, seen: &Observation, tenant: &Tenant) -> bool {
        self.why_not(seen, tenant).is_some() || !self.is_allowed(seen, tenant.id)
    }

    /// Why a tenant may not be touched: because of its identity, or of one of its processes.
    pub fn why_not(&self, seen: &Observation, tenant: &Tenant) -> Option<refusal::Protected> {
        let mut processes = self.processes(seen, tenant.id);
        self.protection
            .of_tenant(tenant)
            .or_else(|| processes.find_map(|pid| self.protection.of_process(pid)))
    }

    /// Why a process may not be touched.
    pub fn why_not_process(&self, pid: u32) -> Option<refusal::Protected> {
        self.protection.of_process(pid)
    }

    /// Whether the kernel lets this user stop all of a tenant's processes, if any of them is going to be
    /// stopped.
    pub fn is_allowed(&self, seen: &Observation, tenant: TenantId) -> bool {
        let is_refused = |pid: u32| {
            // SAFETY: signal 0 is sent to nobody; the kernel only says whether it could be.
            let sent = unsafe { libc::kill(pid as i32, 0) };
            sent != 0 && std::io::Error::last_os_error().raw_os_error() == Some(libc::EPERM)
        };
        !(self.acts && self.processes(seen, tenant).any(is_refused))
    }

    /// The processes of a tenant's live tasks.
    fn processes<'a>(&'a self, seen: &'a Observation, tenant: TenantId) -> impl Iterator<Item = u32> + 'a {
        let tasks = seen.tasks.iter().filter(move |t| t.tenant == tenant && t.alive);
        tasks.filter_map(move |t| process_of(&self.root, t.id.0).ok().flatten())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corun_model::observation::TaskObservation;
    use corun_model::{TaskId, TenantKind};
    use std::process::{Command, Stdio};

    #[test]
    fn the_first_process_is_refused_and_a_stranger_is_not() {
        // It ends with its input, whatever happens to this test.
        let mut stranger = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let protected = Protected::new(&Root::new("/"), &[], true);
        for (pid, refused) in [(1, true), (stranger.id(), false)] {
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
        drop(stranger.stdin.take());
        stranger.wait().unwrap();
    }
}
