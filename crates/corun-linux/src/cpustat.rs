//! What the CPUs did, from `/proc/stat`.
//!
//! Limits: the times are in clock ticks of 10 ms, and most kernels sample them at the scheduler's tick. So a
//! short window is coarse. Interrupt time is exact only with `CONFIG_IRQ_TIME_ACCOUNTING`. The host of a
//! virtual machine may not report what it took. So steal that has been zero since boot is unknown, not zero.

use crate::cpulist;
use crate::procfs::TICK_NS;
use crate::root::{ReadError, Root};
use corun_model::observation::{MachineTime, HOST_STEAL_TICK_NS};
use corun_model::CpuId;
use std::collections::{BTreeMap, BTreeSet};

const _: () = assert!(HOST_STEAL_TICK_NS == TICK_NS);

/// One CPU's time since boot, by activity, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuClock {
    /// Running user code, niced or not, and guests.
    pub user_ns: u64,
    /// Running the kernel for a task.
    pub system_ns: u64,
    /// Idle, even while a task that last ran there waits for I/O.
    pub idle_ns: u64,
    /// In hard interrupts.
    pub irq_ns: u64,
    /// In soft interrupts.
    pub softirq_ns: u64,
    /// Taken by the hypervisor below.
    pub host_steal_ns: u64,
}

impl CpuClock {
    /// Time it was anything but idle.
    pub fn busy_ns(&self) -> u64 {
        self.user_ns + self.system_ns + self.irq_ns + self.softirq_ns + self.host_steal_ns
    }
}

/// All CPUs' time since boot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuStat {
    /// By CPU; CPUs that are offline are not listed.
    pub cpus: BTreeMap<CpuId, CpuClock>,
}

impl CpuStat {
    /// Reads `/proc/stat`.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn read(root: &Root) -> Result<CpuStat, ReadError> {
        let file = "/proc/stat";
        let text = root.read(file)?;
        let cpus: BTreeMap<CpuId, CpuClock> = text.lines().filter_map(cpu_line).collect();
        if cpus.is_empty() {
            return Err(root.unexpected(file, &text, "a list of CPUs' times"));
        }
        Ok(CpuStat { cpus })
    }

    /// The sum over all CPUs.
    pub fn total(&self) -> CpuClock {
        self.cpus.values().fold(CpuClock::default(), |a, b| CpuClock {
            user_ns: a.user_ns + b.user_ns,
            system_ns: a.system_ns + b.system_ns,
            idle_ns: a.idle_ns + b.idle_ns,
            irq_ns: a.irq_ns + b.irq_ns,
            softirq_ns: a.softirq_ns + b.softirq_ns,
            host_steal_ns: a.host_steal_ns + b.host_steal_ns,
        })
    }

    /// What was taken from each CPU between two readings, `elapsed_ns` apart. On a virtual machine whose host
    /// has reported no steal since boot, host steal is unknown. A CPU that was switched off at one of the
    /// readings says nothing: its earlier counts are from another time. A CPU that was off in between may
    /// count all that time as stolen when it comes back. So no CPU gets more than the elapsed time.
    pub fn taken_since(&self, before: &CpuStat, elapsed_ns: u64, is_virtual: bool) -> Taken {
        let is_host_known = !is_virtual || self.total().host_steal_ns > 0;
        let both = self.cpus.iter().filter_map(|(id, now)| Some((*id, now, before.cpus.get(id)?)));
        let taken = |now: &CpuClock, then: &CpuClock| {
            let since = |get: fn(&CpuClock) -> u64| get(now).saturating_sub(get(then));
            TakenFrom {
                host_steal_ns: since(|c| c.host_steal_ns).min(elapsed_ns + TICK_NS),
                irq_ns: since(|c| c.irq_ns),
                softirq_ns: since(|c| c.softirq_ns),
            }
        };
        Taken { is_host_known, cpus: both.map(|(id, now, then)| (id, taken(now, then))).collect() }
    }
}

/// The time taken from CPUs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    is_host_known: bool,
    cpus: BTreeMap<CpuId, TakenFrom>,
}

/// The time taken from one CPU, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct TakenFrom {
    host_steal_ns: u64,
    irq_ns: u64,
    softirq_ns: u64,
}

impl Taken {
    /// What the hypervisor took from a CPU; `None` if unknown.
    pub fn host_steal_ns(&self, cpu: CpuId) -> Option<u64> {
        self.cpus.get(&cpu).filter(|_| self.is_host_known).map(|c| c.host_steal_ns)
    }

    /// From all of them.
    pub fn total(&self) -> MachineTime {
        let sum = |get: fn(&TakenFrom) -> u64| Some(self.cpus.values().map(get).sum());
        MachineTime {
            host_steal_ns: sum(|c| c.host_steal_ns).filter(|_| self.is_host_known),
            irq_ns: sum(|c| c.irq_ns),
            softirq_ns: sum(|c| c.softirq_ns),
        }
    }
}

/// The CPUs that are switched on; `None` if this machine does not say.
pub fn online(root: &Root) -> Option<BTreeSet<CpuId>> {
    let list = root.read("/sys/devices/system/cpu/online").ok()?;
    cpulist::parse(&list).map(|cpus| cpus.into_iter().collect())
}

/// No machine has been up for longer than this: 21 years.
const MOST_TICKS: u64 = 1 << 36;

/// `cpu7 user nice system idle iowait irq softirq steal guest guest_nice`; guest time is part of user and nice.
fn cpu_line(line: &str) -> Option<(CpuId, CpuClock)> {
    let mut fields = line.split_ascii_whitespace();
    let id = fields.next()?.strip_prefix("cpu")?.parse().ok()?;
    let ticks: Vec<u64> = fields.map_while(|f| f.parse().ok()).collect();
    if ticks.iter().any(|t| *t > MOST_TICKS) {
        return None;
    }
    let ns = |field: usize| ticks.get(field).copied().unwrap_or(0) * TICK_NS;
    let clock = CpuClock {
        user_ns: ns(0) + ns(1),
        system_ns: ns(2),
        idle_ns: ns(3) + ns(4),
        irq_ns: ns(5),
        softirq_ns: ns(6),
        host_steal_ns: ns(7),
    };
    (ticks.len() >= 4).then_some((CpuId(id), clock))
}

/// Whether this machine runs under a hypervisor: from the `hypervisor` CPU flag of x86, or from the
/// firmware's names.
pub fn is_virtual(root: &Root) -> bool {
    let cpuinfo = root.read("/proc/cpuinfo").unwrap_or_default();
    let flagged = cpuinfo
        .lines()
        .find(|l| l.starts_with("flags"))
        .is_some_and(|l| l.split_ascii_whitespace().any(|f| f == "hypervisor"));
    let maker = root.read("/sys/class/dmi/id/sys_vendor").unwrap_or_default();
    flagged
        || root.has("/sys/hypervisor/type")
        || ["QEMU", "Amazon EC2", "Google", "VMware", "Xen", "OpenStack"].iter().any(|m| maker.starts_with(m))
            && !root.read("/sys/class/dmi/id/product_name").unwrap_or_default().contains("metal")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<CpuStat, ReadError> {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("proc")).unwrap();
        std::fs::write(dir.path().join("proc/stat"), text).unwrap();
        CpuStat::read(&Root::new(dir.path()))
    }

    #[test]
    fn ticks_become_nanoseconds_and_offline_cpus_are_absent() {
        let s = read("cpu  9 9 9 9 9 9 9 9 9 9\ncpu0 1 2 3 4 5 6 7 8 1 0\ncpu3 1 0 0 100\nintr 7\n").unwrap();
        assert_eq!(s.cpus.keys().copied().collect::<Vec<_>>(), [CpuId(0), CpuId(3)]);
        let cpu0 = s.cpus[&CpuId(0)];
        assert_eq!((cpu0.idle_ns, cpu0.busy_ns()), (9 * TICK_NS, 27 * TICK_NS));
        assert_eq!(s.cpus[&CpuId(3)].host_steal_ns, 0);
        assert!(read("nothing\n").is_err());
    }

    #[test]
    fn a_host_that_never_reported_steal_is_unknown_not_zero() {
        let never = read("cpu0 1 0 0 100 0 0 0 0\n").unwrap();
        let total = |now: &CpuStat, is_virtual| now.taken_since(&never, 10 * TICK_NS, is_virtual).total();
        assert_eq!(total(&never, true).host_steal_ns, None);
        assert_eq!(total(&never, false).host_steal_ns, Some(0));
        let later = read("cpu0 1 0 0 100 0 1 2 5\n").unwrap();
        let seen = total(&later, true);
        assert_eq!((seen.host_steal_ns, seen.irq_ns), (Some(5 * TICK_NS), Some(TICK_NS)));
    }

    #[test]
    fn a_cpu_that_was_off_is_not_charged_to_the_hypervisor() {
        let both = read("cpu0 100 0 0 100 0 0 0 7\ncpu1 100 0 0 100 0 0 0 7\n").unwrap();
        let one = read("cpu0 110 0 0 100 0 0 0 7\n").unwrap();
        let back = read("cpu0 120 0 0 100 0 0 0 8\ncpu1 100 0 0 104 0 0 0 207\n").unwrap();
        let steal = |now: &CpuStat, before| {
            let taken = now.taken_since(before, 10 * TICK_NS, true);
            (taken.host_steal_ns(CpuId(0)), taken.host_steal_ns(CpuId(1)), taken.total().host_steal_ns)
        };
        let ticks = |n| Some(n * TICK_NS);
        assert_eq!(steal(&one, &both), (ticks(0), None, ticks(0)), "it went");
        assert_eq!(steal(&back, &one), (ticks(1), None, ticks(1)), "it came");
        assert_eq!(steal(&back, &both).1, ticks(11), "it was off in between: no more than what passed");
    }

    #[test]
    fn this_machines_cpus_can_be_read() {
        assert!(CpuStat::read(&Root::new("/")).unwrap().total().busy_ns() > 0);
    }
}
