//! The kernel's own data about the machine at the end of a window, besides the probe: what was taken from
//! CPUs, and what the subject's tasks may use.

use crate::allowed::{shown_fewer, Allowed, Member};
use crate::cpustat::{self, CpuStat, Taken};
use crate::root::Root;
use corun_bpf::layout::TaskBrief;
use corun_model::{CpuId, Limits, TenantId, Unavailable, What, Why};

/// The data of the machine as a whole are read at most this often.
const STAT_NS: u64 = 50_000_000;

/// Reads `/proc/stat`, affinities and quotas.
pub(super) struct MachineReader {
    root: Root,
    cpu_stat: Option<(u64, CpuStat)>,
    is_virtual: bool,
    allowed: Allowed,
    shown_fewer: Option<Unavailable>,
}

impl MachineReader {
    /// Nothing was read yet.
    pub(super) fn new(root: &Root) -> MachineReader {
        MachineReader {
            root: root.clone(),
            cpu_stat: None,
            is_virtual: cpustat::is_virtual(root),
            allowed: Allowed::new(root),
            shown_fewer: shown_fewer(root),
        }
    }

    /// What was taken from the CPUs since the last reading. It is counted in ticks of 10 ms, and a reading
    /// walks all interrupts of all CPUs. So short windows share a reading, which belongs to the last of them.
    pub(super) fn taken(&mut self, end_ns: u64) -> Taken {
        if let Some((_, stat)) = self.cpu_stat.as_ref().filter(|(read_ns, _)| end_ns < read_ns + STAT_NS) {
            return stat.taken_since(stat, 0, self.is_virtual);
        }
        let Ok(now) = CpuStat::read(&self.root) else { return Taken::default() };
        let before = self.cpu_stat.replace((end_ns, now.clone()));
        before.map_or_else(Taken::default, |(then_ns, before)| {
            now.taken_since(&before, end_ns - then_ns, self.is_virtual)
        })
    }

    /// What the machine allows the subject; these are its tasks that lived in the window or still live.
    pub(super) fn limits(
        &mut self,
        subject: TenantId,
        tasks: impl Iterator<Item = (TaskBrief, bool)>,
    ) -> Limits {
        let member = |(task, alive): (TaskBrief, bool)| Member {
            tid: task.tid,
            pid: task.tgid,
            alive,
            last_cpu: (task.ran != 0).then_some(CpuId(task.cpu)),
        };
        let members: Vec<Member> = tasks.map(member).collect();
        self.allowed.look(subject, &members)
    }

    /// What this host never sees, and a note if this container is shown fewer CPUs than it may use.
    pub(super) fn unavailable(&self) -> impl Iterator<Item = Unavailable> {
        let never = [
            Unavailable::new(What::Spin, Why::ProbeSeesNoSpinning),
            Unavailable::new(What::HardwareCounters, Why::CountedOnRequest),
        ];
        never.into_iter().chain(self.shown_fewer.clone())
    }
}
