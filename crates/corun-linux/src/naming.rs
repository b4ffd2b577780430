//! Tenants under names for people: a kind and a name from a cgroup path, a process group or a kernel thread.
//!
//! Method: a cgroup path is matched against the patterns of each manager, the most specific first: Kubernetes
//! pod, Slurm step, container runtime, virtual machine, LXC, systemd unit. Any other non-root path is a plain
//! cgroup. If managers nest (a container in a container, systemd in a container), the outermost wins, because
//! the host's own `docker ps` or `crictl ps` lists that one.
//!
//! Some paths name no tenant (`None`): the root, `init.scope`, bare system slices, and the places of a
//! person's shells (`session-3.scope`, a terminal's or tmux's scope). Their processes are tenants by process
//! group instead, since a shell makes one for every pipeline.
//!
//! A transient cgroup that corun made for parking is skipped: its processes belong to their previous cgroup.
//!
//! Limits: a path holds ids, not the names that people gave (`web-0`, `my-container`). Names of pods come
//! from elsewhere ([`crate::pods`]). Names of containers would need the runtime's socket, which corun does
//! not use.

use corun_model::TenantKind;

/// The prefix of the names of transient cgroups; [`crate::naming`] skips these.
pub const TRANSIENT_PREFIX: &str = "corun-park.";

/// The name of a tenant, before a host gives it a number.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TenantName {
    /// What sort of thing it is.
    pub kind: TenantKind,
    /// Unique among tenants and stable over time: `pod:<uid>`, `unit:/system.slice/nginx.service`, `pgid:1234`.
    pub key: String,
    /// The name for people: `nginx.service`, `docker 0123456789ab`, `make`.
    pub name: String,
    /// What lies below the tenant, if the path says so: the container inside a pod, the Slurm task.
    pub detail: Option<String>,
}

impl TenantName {
    fn new(kind: TenantKind, key: impl Into<String>, name: impl Into<String>) -> TenantName {
        TenantName { kind, key: key.into(), name: name.into(), detail: None }
    }
}

/// The tenant that a cgroup path names, or `None` (see above). `path` is as in `/proc/PID/cgroup`; leading
/// `/..` (seen from inside a cgroup namespace) is ignored.
pub fn of_cgroup(path: &str) -> Option<TenantName> {
    let path = path.trim_end_matches(" (deleted)");
    let is_telling = |s: &&str| !["", ".", ".."].contains(s) && !s.starts_with(TRANSIENT_PREFIX);
    let segments: Vec<&str> = path.split('/').filter(is_telling).collect();
    pod(&segments)
        .or_else(|| slurm_step(&segments))
        .or_else(|| container(&segments))
        .or_else(|| virtual_machine(&segments))
        .or_else(|| lxc(&segments))
        .or_else(|| match unit(&segments) {
            Unit::Named(name) => Some(name),
            Unit::NotTelling => None,
            Unit::None => any_cgroup(&segments),
        })
}

/// How little a cgroup's name says, to choose among those that one task has in several trees. Managers of
/// pods, jobs, containers or machines say what belongs together; the others only say where a task is.
pub fn vagueness(tenant: &TenantName) -> u8 {
    match tenant.kind {
        TenantKind::Pod => 0,
        TenantKind::SlurmStep => 1,
        TenantKind::Container | TenantKind::Vm | TenantKind::VmIo => 2,
        _ => 3,
    }
}

/// The part of a cgroup's path that is the tenant of this key: the outermost cgroup that is.
pub fn own_part<'a>(path: &'a str, key: &str) -> Option<&'a str> {
    let ends = path.match_indices('/').map(|(at, _)| at).skip(1).chain([path.len()]);
    let mut parts = ends.map(|end| &path[..end]).filter(|part| part.len() > 1);
    parts.find(|part| {
        key.strip_prefix("cgroup:") == Some(part) || of_cgroup(part).is_some_and(|tenant| tenant.key == key)
    })
}

/// A process group outside any identifying cgroup: `pgid` is its number, `leader` the comm of its leader or,
/// if the leader has gone, of the first member seen.
pub fn of_process_group(pgid: u32, leader: &str) -> TenantName {
    TenantName::new(TenantKind::Command, format!("pgid:{pgid}"), leader)
}

/// A kernel thread, by its comm. Softirq and workqueue threads work for others and have separate names.
pub fn of_kernel_thread(comm: &str) -> TenantName {
    let (key, name) = if comm.starts_with("ksoftirqd/") {
        ("kernel:softirq", "kernel (softirq)")
    } else if comm.starts_with("kworker/") {
        ("kernel:workqueues", "kernel (workqueues)")
    } else {
        ("kernel", "kernel")
    };
    TenantName::new(TenantKind::Kernel, key, name)
}

/// The process that watches, separate from its co-runners.
pub fn of_watcher() -> TenantName {
    TenantName::new(TenantKind::Watcher, "watcher", "corun itself")
}

/// A virtual machine's vCPUs.
pub fn of_vm(name: &str) -> TenantName {
    TenantName::new(TenantKind::Vm, format!("vm:{name}"), name)
}

/// A virtual machine's I/O and management threads.
pub fn of_vm_io(name: &str) -> TenantName {
    TenantName::new(TenantKind::VmIo, format!("vm-io:{name}"), format!("{name} (I/O)"))
}

/// Undoes systemd's escaping in unit names: `machine-qemu\x2d1\x2dweb` is `machine-qemu-1-web`. Text that is
/// not a complete escape stays as it is.
pub fn unescape(unit: &str) -> String {
    let mut bytes = Vec::with_capacity(unit.len());
    let mut rest = unit.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        let escaped = rest
            .strip_prefix(b"\\x")
            .and_then(|hex| std::str::from_utf8(hex.get(..2)?).ok())
            .filter(|hex| hex.bytes().all(|b| b.is_ascii_hexdigit()))
            .and_then(|hex| u8::from_str_radix(hex, 16).ok());
        match escaped {
            Some(byte) => {
                bytes.push(byte);
                rest = &rest[4..];
            }
            None => {
                bytes.push(first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// `kubepods/burstable/pod<uid>/<id>` (cgroupfs driver) and
/// `kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod<uid with underscores>.slice/<runtime>-<id>.scope`.
fn pod(segments: &[&str]) -> Option<TenantName> {
    let root = segments.iter().position(|s| s.contains("kubepods"))?;
    let (at, uid) =
        segments.iter().enumerate().skip(root).find_map(|(at, s)| pod_uid(s).map(|uid| (at, uid)))?;
    let short = uid.split('-').next().filter(|first| (8..32).contains(&first.len())).unwrap_or(&uid[..12]);
    let mut tenant = TenantName::new(TenantKind::Pod, format!("pod:{uid}"), format!("pod {short}"));
    tenant.detail = segments[at + 1..].iter().find_map(|s| container_id(s)).map(|c| c.id[..12].to_owned());
    Some(tenant)
}

/// The uid in `pod<uid>`, `…-pod<uid>.slice` or `…-pod<uid>.slice:cri-containerd:<id>`: 32 hex digits, dashes aside.
fn pod_uid(segment: &str) -> Option<String> {
    let after = segment.strip_prefix("pod").or_else(|| segment.split_once("-pod").map(|(_, uid)| uid))?;
    let uid = after.split_once(".slice").map_or(after, |(uid, _)| uid).replace('_', "-");
    let hex = uid.bytes().filter(|&b| b != b'-').count();
    (hex == 32 && uid.bytes().all(|b| b == b'-' || b.is_ascii_hexdigit())).then_some(uid)
}

/// `…/slurm/uid_0/job_123/step_0/task_1` (v1) and `/system.slice/slurmstepd.scope/job_123/step_batch/user/task_0` (v2);
/// both may carry the node's name: `slurm_node7`, `node7_slurmstepd.scope`.
fn slurm_step(segments: &[&str]) -> Option<TenantName> {
    let root = segments.iter().position(|s| {
        *s == "slurm" || s.starts_with("slurm_") || s.ends_with("slurmstepd.scope") || *s == "slurmstepd"
    })?;
    let below = &segments[root + 1..];
    let part = |prefix: &str| below.iter().find_map(|s| s.strip_prefix(prefix)).filter(|s| !s.is_empty());
    let job = part("job_")?;
    let id = match part("step_") {
        Some(step) => format!("{job}.{step}"),
        None => job.to_owned(),
    };
    let mut tenant = TenantName::new(TenantKind::SlurmStep, format!("slurm:{id}"), format!("slurm {id}"));
    tenant.detail = part("task_").map(|task| format!("task {task}"));
    Some(tenant)
}

struct ContainerId<'a> {
    /// `docker`, `libpod`, `crio`, `cri-containerd`; `None` when the segment is the bare id.
    runtime: Option<&'a str>,
    /// 64 hex digits.
    id: &'a str,
}

/// `<64 hex>`, `<runtime>-<64 hex>[.scope]` or `<slice>:<runtime>:<64 hex>`. The monitors that container
/// runtimes run next to a container (`libpod-conmon-<id>.scope`) execute none of its code and do not count.
fn container_id(segment: &str) -> Option<ContainerId<'_>> {
    let name = segment.strip_suffix(".scope").unwrap_or(segment);
    let at = name.len().checked_sub(64)?;
    if !name.is_char_boundary(at) || !name[at..].bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    let (before, id) = name.split_at(at);
    if before.is_empty() {
        return Some(ContainerId { runtime: None, id });
    }
    let before = before.strip_suffix(['-', ':'])?;
    let runtime = before.rsplit(':').next().unwrap_or(before);
    (!runtime.ends_with("conmon")).then_some(ContainerId { runtime: Some(runtime), id })
}

fn container(segments: &[&str]) -> Option<TenantName> {
    let (at, found) = segments.iter().enumerate().find_map(|(at, s)| container_id(s).map(|c| (at, c)))?;
    let above = at.checked_sub(1).map(|i| segments[i]);
    let runtime = match found.runtime.or(above) {
        Some("libpod" | "libpod-payload" | "libpod_parent") => "podman",
        Some("cri-containerd" | "nerdctl" | "default" | "k8s.io" | "moby") => "containerd",
        Some("crio") => "cri-o",
        Some("docker" | "buildkit") => "docker",
        _ => "container",
    };
    let name = format!("{runtime} {}", &found.id[..12]);
    Some(TenantName::new(TenantKind::Container, format!("container:{}", found.id), name))
}

/// libvirt (`machine.slice/machine-qemu\x2d1\x2dweb.scope`, `machine/qemu-1-web.libvirt-qemu`), Proxmox
/// (`qemu.slice/100.scope`), systemd-nspawn and machined (`machine-web.scope`, `systemd-nspawn@web.service`).
fn virtual_machine(segments: &[&str]) -> Option<TenantName> {
    segments.windows(2).enumerate().find_map(|(at, pair)| {
        let (parent, unit) = (pair[0], unescape(pair[1]));
        let below = &segments[at + 2..];
        if parent == "qemu.slice" {
            return unit.strip_suffix(".scope").map(|id| machine_part(id, below));
        }
        if parent != "machine.slice" && parent != "machine" {
            return None;
        }
        let machine = unit.strip_prefix("machine-").unwrap_or(&unit);
        let machine = machine.strip_suffix(".scope").unwrap_or(machine);
        if let Some(numbered) = machine.strip_prefix("qemu-") {
            return Some(machine_part(without_number(strip_driver(numbered)), below));
        }
        let name = match machine.strip_prefix("lxc-") {
            Some(numbered) => without_number(strip_driver(numbered)),
            None if unit.starts_with("machine-") => machine,
            None => machine.strip_prefix("systemd-nspawn@")?.strip_suffix(".service")?,
        };
        Some(TenantName::new(TenantKind::Container, format!("machine:{name}"), name))
    })
}

/// Under libvirt with cgroup v1 a machine's vCPUs and its other threads have cgroups of their own.
fn machine_part(name: &str, below: &[&str]) -> TenantName {
    if below.iter().any(|s| *s == "emulator" || s.starts_with("iothread")) {
        of_vm_io(name)
    } else {
        of_vm(name)
    }
}

/// `1-web` is `web`: libvirt numbers the starts of a machine.
fn without_number(numbered: &str) -> &str {
    match numbered.split_once('-') {
        Some((n, name)) if !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()) => name,
        _ => numbered,
    }
}

fn strip_driver(name: &str) -> &str {
    name.strip_suffix(".libvirt-qemu").or_else(|| name.strip_suffix(".libvirt-lxc")).unwrap_or(name)
}

/// `lxc.payload.web`, `lxc.payload/web` and `lxc/web`; the monitor (`lxc.monitor.web`) does not belong to the
/// container.
fn lxc(segments: &[&str]) -> Option<TenantName> {
    let name = segments.iter().enumerate().find_map(|(at, s)| match *s {
        "lxc" | "lxc.payload" => segments.get(at + 1).copied(),
        s => s.strip_prefix("lxc.payload."),
    })?;
    let name = unescape(name);
    Some(TenantName::new(TenantKind::Container, format!("lxc:{name}"), format!("lxc {name}")))
}

enum Unit {
    Named(TenantName),
    /// There is a unit, but it does not say what runs in it.
    NotTelling,
    /// There is no unit in the path.
    None,
}

/// The innermost service or scope; otherwise the innermost slice that somebody created on purpose.
fn unit(segments: &[&str]) -> Unit {
    let is_unit = |s: &str| [".service", ".scope", ".slice"].iter().any(|suffix| s.ends_with(suffix));
    let named = |at: usize| {
        let key = format!("unit:/{}", segments[..=at].join("/"));
        Unit::Named(TenantName::new(TenantKind::Unit, key, unescape(segments[at])))
    };
    if let Some(at) = segments.iter().rposition(|s| s.ends_with(".service") || s.ends_with(".scope")) {
        return if holds_shells(segments[at]) { Unit::NotTelling } else { named(at) };
    }
    match segments.iter().rposition(|s| is_unit(s)) {
        Some(at) if is_bare_slice(segments[at]) => Unit::NotTelling,
        Some(at) => named(at),
        None => Unit::None,
    }
}

/// Units in which a person's shells run, and those that systemd and its user instances keep for themselves.
fn holds_shells(unit: &str) -> bool {
    let session = |prefix: &str| unit.starts_with(prefix) && unit.ends_with(".scope");
    unit == "init.scope"
        || ["session-", "vte-spawn-", "tmux-spawn-"].into_iter().any(session)
        || unit.starts_with("user@") && unit.ends_with(".service")
}

/// Slices that every systemd has: they say nothing about a process directly in them.
fn is_bare_slice(slice: &str) -> bool {
    matches!(
        slice,
        "-.slice" | "system.slice" | "user.slice" | "machine.slice" | "app.slice" | "session.slice"
    ) || slice.starts_with("user-")
}

fn any_cgroup(segments: &[&str]) -> Option<TenantName> {
    let path = segments.join("/");
    (!path.is_empty()).then(|| TenantName::new(TenantKind::Cgroup, format!("cgroup:/{path}"), path))
}

#[cfg(test)]
mod tests;
