//! Virtual machines, found by name or by the PID of their process. Their vCPUs are the threads with a vCPU's
//! name; their other threads and the kernel's vhost threads are I/O.
//!
//! Limit: QEMU names its threads only with `-name …,debug-threads=on`, as libvirt starts it. Without that, no
//! thread can be recognized as a vCPU, and that is reported.

use super::{live_process, Subject, TargetError};
use crate::cgroup::Membership;
use crate::procfs;
use crate::program;
use crate::root::{ReadError, Root};
use corun_model::TenantKind;

impl Subject {
    /// A virtual machine, by its name or the PID of its process.
    ///
    /// # Errors
    /// [`TargetError`] if there is none, more than one with that name, or its vCPUs cannot be recognized.
    pub fn vm(root: &Root, name_or_pid: &str) -> Result<Subject, TargetError> {
        let mut vms = Vec::new();
        for pid in procfs::processes(root)? {
            // A process may end at any time; then it is no virtual machine.
            if let Ok(Some(vm)) = Threads::read(root, pid) {
                vms.push((vm_name(root, pid), pid, vm));
            }
        }
        let named: Vec<u32> =
            vms.iter().filter(|(name, ..)| name == name_or_pid).map(|&(_, pid, _)| pid).collect();
        let pid = match (&named[..], name_or_pid.parse::<u32>()) {
            ([pid], _) => *pid,
            ([], Ok(pid)) => {
                let stat = live_process(root, pid)?;
                if !vms.iter().any(|&(_, p, _)| p == pid) {
                    return Err(TargetError::NoVcpus { pid, comm: stat.comm });
                }
                pid
            }
            ([], Err(_)) => {
                let running = vms.into_iter().map(|(name, pid, _)| (name, pid)).collect();
                return Err(TargetError::NoVm { name: name_or_pid.to_owned(), running });
            }
            (_, _) => return Err(TargetError::AmbiguousVm { name: name_or_pid.to_owned(), pids: named }),
        };
        let found = vms.into_iter().find(|&(_, p, _)| p == pid);
        let (name, _, Threads { vcpus, mut io }) = found.expect("the PID was picked from these");
        io.extend(vhost_threads(root, pid)?);
        Ok(Subject::Vm { pid, name, vcpus, io })
    }
}

/// The threads of a virtual machine's process.
struct Threads {
    vcpus: Vec<u32>,
    io: Vec<u32>,
}

impl Threads {
    /// `None` if no thread has a vCPU's name.
    fn read(root: &Root, pid: u32) -> Result<Option<Threads>, ReadError> {
        let (mut vcpus, mut io) = (Vec::new(), Vec::new());
        for tid in procfs::tasks(root, pid)? {
            let comm = root.read_if_there(format!("/proc/{pid}/task/{tid}/comm"))?.unwrap_or_default();
            if is_vcpu(comm.trim_end()) {
                vcpus.push(tid)
            } else {
                io.push(tid)
            }
        }
        Ok((!vcpus.is_empty()).then_some(Threads { vcpus, io }))
    }
}

/// Whether a thread's name is that of a vCPU: `CPU 0/KVM`, `CPU 12/TCG`, `ALL CPUs/TCG` (QEMU), `fc_vcpu 0`
/// (Firecracker), `vcpu0` (Cloud Hypervisor), `crosvm_vcpu0`.
pub fn is_vcpu(comm: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if let Some((cpu, accelerator)) = comm.split_once('/') {
        let known = ["KVM", "TCG", "HVF", "MSHV", "XEN"].contains(&accelerator);
        return known && (cpu == "ALL CPUs" || cpu.strip_prefix("CPU ").is_some_and(is_number));
    }
    ["fc_vcpu ", "crosvm_vcpu", "vcpu"].iter().any(|prefix| comm.strip_prefix(prefix).is_some_and(is_number))
}

/// The guest's name from QEMU's `-name`, otherwise from its cgroup, otherwise `vm <pid>`.
fn vm_name(root: &Root, pid: u32) -> String {
    let from_command = || program::guest(&procfs::command_line(root, pid).ok()?);
    let from_cgroup = || {
        let tenant = Membership::read(root, format!("/proc/{pid}")).ok()?.tenant()?;
        let is_vm = matches!(tenant.kind, TenantKind::Vm | TenantKind::VmIo);
        tenant.key.split_once(':').filter(|_| is_vm).map(|(_, name)| name.to_owned())
    };
    from_command().or_else(from_cgroup).unwrap_or_else(|| format!("vm {pid}"))
}

/// Kernel threads that carry a virtual machine's network traffic are named after its process.
fn vhost_threads(root: &Root, pid: u32) -> Result<Vec<u32>, ReadError> {
    let name = format!("vhost-{pid}");
    let is_its =
        |thread: &u32| procfs::process_stat(root, *thread).is_ok_and(|s| s.is_kernel && s.comm == name);
    Ok(procfs::processes(root)?.into_iter().filter(is_its).collect())
}
