//! Which CPUs are switched on, and how that changes.

use super::super::script::Switched;
use super::Transcriber;
use corun_model::run_log::CpuMask;

impl Transcriber {
    /// These CPUs are switched on at the end of that time.
    pub(super) fn sees_cpus(&mut self, cpus: CpuMask, between_ns: [u64; 2]) {
        self.unlisted = CpuMask(self.unlisted.0 & !cpus.0);
        let cpus = CpuMask(cpus.0 | self.unlisted.0);
        let changed = CpuMask(cpus.0 ^ self.cpus.0);
        let switched = changed.iter().map(|cpu| Switched { cpu, is_on: cpus.has(cpu), between_ns });
        self.switched.extend(switched);
        self.tick_all(self.now_ns);
        self.cpus = cpus;
    }

    /// A task runs on this CPU, so the CPU is switched on, whether or not it is listed.
    pub(super) fn runs_on(&mut self, cpu: usize, now_ns: u64) {
        if cpu < 128 && !self.cpus.is_empty() && !self.cpus.has(cpu) {
            self.tick_all(now_ns);
            self.switched.push(Switched { cpu, is_on: true, between_ns: [self.now_ns, now_ns] });
            (self.cpus, self.unlisted) = (self.cpus.with(cpu), self.unlisted.with(cpu));
        }
    }
}
