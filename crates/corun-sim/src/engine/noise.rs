//! The noise of every real machine: timers fire late, and something else takes CPUs from time to time.
//!
//! Without noise, CPUs that begin alike stay alike. Four periodic loops that start together would have all
//! their bursts together for ever. On a live machine, two such loops, each pinned to its own CPU, are out of
//! step after seconds (docs/pact16.md).
//!
//! Method: the end of a sleep is delayed by a time drawn from `[0, timer-late]`. A busy CPU is taken every
//! `noise-every` on average, for `noise` on average: kernel threads, interrupts, the hypervisor. Both are
//! uniform between nothing and twice the average. The running task continues afterwards. Machine files
//! without these figures have no noise.
//!
//! Limits: noise takes nothing from an idle CPU, so a task that wakes there does not wait. The time counts as
//! the task's own, like any kernel work, not as stolen. CPUs are taken independently of each other.

use super::Engine;
use crate::machine_file::Costs;
use crate::sched::CpuIx;
use crate::streams::{Stream, Streams};

/// All draws are around a mean: from nothing to twice the mean.
const WHOLE_PPM: u64 = 1_000_000;

/// Its draws.
#[derive(Debug)]
pub(super) struct Noise {
    late: Stream,
    taken: Stream,
    /// For each CPU, if there is noise: the slot of its events in the timers.
    slots: Vec<u32>,
}

impl Noise {
    pub(super) fn new(streams: &Streams, slots: Vec<u32>) -> Noise {
        Noise { late: streams.stream("late timers"), taken: streams.stream("noise"), slots }
    }

    /// Whether a machine has noise.
    pub(super) fn is_in(costs: &Costs) -> bool {
        costs.noise_ns > 0 && costs.noise_every_ns > 0
    }
}

impl Engine {
    /// When a timer that was set for `at_ns` fires.
    pub(super) fn fires_ns(&mut self, at_ns: u64) -> u64 {
        match self.model.costs.timer_late_ns {
            0 => at_ns,
            most => at_ns + self.noise.late.between(0, most),
        }
    }

    /// At the tick of a busy CPU: whether it is taken before the next one.
    pub(super) fn draw_noise(&mut self, cpu: CpuIx) {
        let Some(&slot) = self.noise.slots.get(cpu) else { return };
        let (tick_ns, every_ns) = (self.sched.tick_ns(), self.model.costs.noise_every_ns);
        if self.noise.taken.between(0, every_ns - 1) < tick_ns {
            let at_ns = self.now_ns + self.noise.taken.between(0, tick_ns - 1);
            self.timers.arm(slot, at_ns);
        }
    }

    /// Something else takes a CPU.
    pub(super) fn take_cpu(&mut self, cpu: CpuIx) {
        let taken_ns = self.noise.taken.around(self.model.costs.noise_ns, WHOLE_PPM);
        self.settle(cpu);
        let Some(thread) = self.cpus[cpu].curr.and_then(|task| self.tasks[task].thread) else { return };
        self.threads[thread].overhead_ns += taken_ns;
        self.soil(cpu);
    }
}

#[cfg(test)]
mod tests {
    use crate::engine::Engine;
    use crate::machine_file::MachineModel;
    use crate::scenario::{Files, Participants, Scenario};
    use corun_model::trace::TraceKind;
    use corun_model::Machine;

    struct Noisy(&'static str);

    impl Files for Noisy {
        fn read(&self, path: &str) -> Result<(String, String), String> {
            let text = "schema = \"corun.machine/1\"\nname = \"two\"\nabout = \"two CPUs\"\n[shape]\nsockets = 1\ncores-per-llc = 2\n[costs]\n";
            Ok((path.to_owned(), format!("{text}{}", self.0)))
        }

        fn host(&self) -> Result<MachineModel, String> {
            Ok(MachineModel::of(Machine::synthetic(1, 1, 2, 1)))
        }
    }

    /// Two periodic loops, each pinned to its own CPU, after 20 s: the difference between the beginnings of
    /// their last bursts, and the share of its time that each computed.
    fn two_loops(costs: &'static str) -> (u64, f64) {
        let text = "schema = \"corun.scenario/1\"\nmachine = \"two.toml\"\nduration = \"20s\"\n[scheduler]\nname = \"eevdf\"\n[[tenant]]\nname = \"loops\"\ncpus = [0, 1]\nprogram = { kind = \"interference\", pattern = \"periodic\", threads = 2 }\n";
        let scenario = Scenario::parse("loops", text, &Noisy(costs)).expect("the scenario is sound");
        let mut engine: Engine =
            scenario.engine(1, Participants::All, 1 << 20).expect("the scenario is sound");
        engine.run_until(20_000_000_000).expect("no checker fires");
        let trace = engine.trace().expect("a trace was asked for");
        let mut last = [0; 2];
        for e in &trace.events {
            if matches!(e.kind, TraceKind::Switch { next: Some(_), .. }) {
                last[e.cpu.0 as usize] = e.t_ns;
            }
        }
        let work_ns: u64 = engine.progress().iter().map(|p| p.work_ns).sum();
        (last[0].abs_diff(last[1]), work_ns as f64 / 40e9)
    }

    #[test]
    fn periodic_loops_stay_in_step_without_noise_and_lose_it_with_noise() {
        let (quiet, share) = two_loops("");
        assert!(quiet < 10_000 && (share - 0.5).abs() < 0.005, "{quiet} ns apart, {share}");
        let (noisy, share) = two_loops("timer-late = \"50us\"\nnoise = \"2ms\"\nnoise-every = \"580ms\"\n");
        assert!(noisy > 200_000 && (share - 0.5).abs() < 0.01, "{noisy} ns apart, {share}");
    }
}
