//! The tenants that may never be parked, re-sliced, pinned or re-weighted, and why.
//!
//! - the first process, kernel threads;
//! - corun itself, its supervisor, and all their ancestors: the shell and the terminal, or sshd and login,
//!   that started it;
//! - processes that keep sessions, devices, logs and clusters running: without them, users cannot log in or
//!   stop corun, or the cluster takes the machine for dead and resets it;
//! - what the user names with `--protect`: a tenant's name or key, a process's name or PID.
//!
//! A tenant with one protected process is protected as a whole: it cannot be stopped in part.

use crate::procfs;
use crate::root::Root;
use corun_model::refusal::{Protected, ProtectedBy};
use corun_model::{Tenant, TenantKind};
use std::collections::BTreeSet;

/// Names of processes that keep sessions, devices, logs or a cluster running; a `*` at the end matches
/// anything. A cluster resets a machine whose heartbeats are late.
const KEEPERS: &[&str] = &[
    "systemd*",
    "(sd-pam)",
    "init",
    "runit*",
    "s6-*",
    "dbus-*",
    "dbus",
    "polkitd",
    "sshd*",
    "login",
    "agetty",
    "getty",
    "elogind*",
    "udevd",
    "eudev",
    "rsyslogd",
    "syslog*",
    "journald",
    "auditd",
    "NetworkManager",
    "dhclient",
    "dhcpcd",
    "wpa_supplicant",
    "chronyd",
    "watchdogd",
    "watchdog",
    "multipathd",
    "iscsid",
    "lvmetad",
    "dmeventd",
    "mdadm",
    "sbd",
    "sanlock",
    "wdmd",
    "corosync",
    "pacemaker*",
    "keepalived",
    "sssd*",
    "nslcd",
    "nscd",
    "Xorg",
    "Xwayland",
    "gdm*",
    "sddm*",
    "lightdm*",
    "gnome-shell",
    "kwin_*",
    "plasmashell",
    "sway",
    "weston",
    "tmux: *",
    "tmux",
    "screen",
    "SCREEN",
    "mosh-server",
    "containerd",
    "dockerd",
    "containerd-shim*",
    "conmon",
    "crio",
    "kubelet",
    "libvirtd",
    "virtqemud",
    "slurmd",
    "slurmstepd",
];

/// The tenants and processes to leave alone.
#[derive(Clone, Debug)]
pub struct Protection {
    root: Root,
    /// corun and those it descends from.
    own: BTreeSet<u32>,
    /// What the user named.
    named: Vec<String>,
}

impl Protection {
    /// Protects this process and its current ancestors, and whatever `named` lists.
    pub fn new(root: &Root, named: &[String]) -> Protection {
        let mut own = BTreeSet::from([1]);
        let mut pid = std::process::id();
        while pid > 1 && own.insert(pid) {
            pid = procfs::process_stat(root, pid).map_or(0, |s| s.ppid);
        }
        Protection { root: root.clone(), own, named: named.to_vec() }
    }

    /// Protects one more process of corun's.
    pub fn add(&mut self, pid: u32) {
        self.own.insert(pid);
    }

    /// Why a tenant may not be touched, according to its kind and name; `None` if it may.
    pub fn of_tenant(&self, tenant: &Tenant) -> Option<Protected> {
        let name = &tenant.name;
        let is_session = ["user@", "systemd-", "dbus", "ssh", "getty@", "serial-getty@"];
        let why = if !tenant.kind.is_controllable() {
            ProtectedBy::Kind(tenant.kind)
        } else if let Some(word) = self.named.iter().find(|word| tenant.is_called(word)) {
            ProtectedBy::User { word: word.clone() }
        } else if tenant.kind == TenantKind::Unit && is_session.iter().any(|unit| name.starts_with(unit)) {
            ProtectedBy::SessionUnit
        } else {
            return None;
        };
        Some(Protected { name: Some(name.clone()), pid: None, why })
    }

    /// Why a process may not be touched; `None` if it may, or it has gone.
    pub fn of_process(&self, pid: u32) -> Option<Protected> {
        let protected = |name, why| Some(Protected { name, pid: Some(pid), why });
        let stat = match procfs::process_stat(&self.root, pid) {
            Ok(stat) => stat,
            Err(e) if e.is_gone() => return None,
            Err(e) => return protected(None, ProtectedBy::Unreadable(e.to_string())),
        };
        let is_meant = |word: &&String| is_comm(word, &stat.comm) || word.parse() == Ok(pid);
        let why = if pid == 1 {
            ProtectedBy::FirstProcess
        } else if stat.is_kernel {
            ProtectedBy::KernelThread
        } else if self.own.contains(&pid) {
            ProtectedBy::Corun
        } else if KEEPERS.iter().any(|k| matches(k, &stat.comm)) {
            ProtectedBy::Keeper
        } else if let Some(word) = self.named.iter().find(is_meant) {
            ProtectedBy::User { word: word.clone() }
        } else {
            return None;
        };
        protected(Some(stat.comm), why)
    }
}

/// Whether a process with this name has this `comm`; the kernel keeps 15 bytes.
pub fn is_comm(name: &str, comm: &str) -> bool {
    const KEPT_BYTES: usize = 15;
    name.as_bytes().iter().take(KEPT_BYTES).eq(comm.as_bytes())
}

fn matches(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => name == pattern,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corun_model::TenantId;

    fn tenant(kind: TenantKind, name: &str) -> Tenant {
        Tenant { id: TenantId(1), kind, key: format!("key:{name}"), name: name.into() }
    }

    #[test]
    fn the_first_process_the_kernel_and_corun_itself_are_protected() {
        let protection = Protection::new(&Root::new("/"), &[]);
        let me = std::process::id();
        let why = |pid| protection.of_process(pid).map(|protected| protected.why);
        assert_eq!((why(1), why(me)), (Some(ProtectedBy::FirstProcess), Some(ProtectedBy::Corun)));
        // SAFETY: getppid cannot fail.
        let parent = unsafe { libc::getppid() } as u32;
        assert!(why(parent).is_some());
        let kernel = protection.of_tenant(&tenant(TenantKind::Kernel, "kernel")).unwrap();
        assert_eq!(kernel.why, ProtectedBy::Kind(TenantKind::Kernel));
    }

    #[test]
    fn what_the_user_names_is_protected_and_others_are_not() {
        let named = ["build".to_owned(), "key:web".to_owned(), "pgid:7".to_owned()];
        let protection = Protection::new(&Root::new("/"), &named);
        let why = |tenant: &Tenant| protection.of_tenant(tenant).map(|protected| protected.why);
        let of = |kind, name| why(&tenant(kind, name));
        let by = |word: &str| Some(ProtectedBy::User { word: word.into() });
        assert_eq!(of(TenantKind::Command, "build"), by("build"));
        assert_eq!(of(TenantKind::Container, "web"), by("key:web"));
        let group = Tenant { key: "pgid:7".into(), ..tenant(TenantKind::Command, "sh") };
        assert_eq!(why(&group), by("pgid:7"), "as `--tenant pgid:7` names it");
        assert_eq!(of(TenantKind::Container, "db"), None);
        assert_eq!(of(TenantKind::Unit, "nginx.service"), None);
        assert_eq!(of(TenantKind::Unit, "systemd-logind.service"), Some(ProtectedBy::SessionUnit));
    }

    #[test]
    fn session_keepers_are_known_by_their_names() {
        assert!(KEEPERS.iter().any(|k| matches(k, "systemd-logind")));
        assert!(KEEPERS.iter().any(|k| matches(k, "sshd-session")));
        assert!(KEEPERS.iter().any(|k| matches(k, "pacemakerd")) && KEEPERS.contains(&"corosync"));
        assert!(!KEEPERS.iter().any(|k| matches(k, "initdb")));
    }
}
