//! The least time of a program on any machine with any co-runners. A program that cannot fit before the horizon is refused without a
//! simulation.
//!
//! Method: nothing runs faster than in a solo run. So each grain takes at least its solo time, and each of a
//! phase's threads does its part of the grains. Limits: this is a lower bound. Grains count with the shortest
//! length of their spread, and waiting for each other does not count.

use super::plan::{Activity, Phase, Plan};
use corun_model::workload::{Length, Parallel, Pattern, Sync};

/// A lower bound on the time of a program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Least {
    /// From its start to its end, in nanoseconds.
    pub time_ns: u128,
    /// Of CPU time, all threads together, in nanoseconds.
    pub cpu_ns: u128,
    /// Pieces of work, all threads together.
    pub grains: u128,
}

impl Plan {
    /// The least time of the program. `None` if it never ends by itself.
    pub fn least(&self) -> Option<Least> {
        let sum = |a: Least, b: Least| Least {
            time_ns: a.time_ns + b.time_ns,
            cpu_ns: a.cpu_ns + b.cpu_ns,
            grains: a.grains + b.grains,
        };
        let laps = u128::from(self.laps);
        let all = |once: Least| Least {
            time_ns: once.time_ns.saturating_mul(laps),
            cpu_ns: once.cpu_ns.saturating_mul(laps),
            grains: once.grains.saturating_mul(laps),
        };
        (!self.endless).then(|| all(self.phases.iter().map(of_phase).fold(Least::default(), sum)))
    }
}

impl Plan {
    /// Whether its threads want a CPU from the first instant to the last: they wait for nothing.
    pub fn always_runs(&self) -> bool {
        self.phases.iter().all(|phase| match &phase.activity {
            Activity::Interference(i) => i.pattern == Pattern::Persistent,
            Activity::Parallel(p) => p.sync == Sync::None && p.io == 0 && p.sleep == 0,
            Activity::Pairs { .. } | Activity::Pdes(_) | Activity::Recorded(_) => false,
        })
    }
}

fn of_phase(phase: &Phase) -> Least {
    if let Some(duration_ns) = phase.duration_ns {
        return Least { time_ns: duration_ns.into(), ..Least::default() };
    }
    match &phase.activity {
        Activity::Interference(_) => Least::default(),
        Activity::Recorded(program) => Least {
            time_ns: program.scripts.iter().map(|s| s.compute_ns().into()).max().unwrap_or(0),
            cpu_ns: program.scripts.iter().map(|s| u128::from(s.compute_ns())).sum(),
            grains: program.scripts.iter().map(|s| s.ops.len() as u128).sum(),
        },
        Activity::Pairs { chunk_ns, rounds } => {
            let (each, threads) = (u128::from(*rounds), u128::from(phase.threads));
            let each_ns = u128::from(*chunk_ns) * each;
            Least { time_ns: each_ns, cpu_ns: each_ns * threads, grains: each * threads }
        }
        Activity::Parallel(p) => of_grains(p),
        Activity::Pdes(p) => {
            let events = u128::from(p.iterations);
            let cpu_ns = events * u128::from(p.grain);
            Least { time_ns: cpu_ns / u128::from(p.threads), cpu_ns, grains: events }
        }
    }
}

fn of_grains(p: &Parallel) -> Least {
    let Length::Iterations(iterations) = p.length() else { return Least::default() };
    let (iterations, threads) = (u128::from(iterations), u128::from(p.threads));
    let least_share = p.shares.iter().copied().fold(1.0, f64::min);
    let shortest_ns = (p.grain as f64 * (1.0 - p.imbalance) * least_share) as u128;
    // Every thread does `iterations` grains, or they are distributed. In a pipeline, those of one stage
    // count.
    let (each, all) = match p.sync {
        Sync::Barrier | Sync::Lock | Sync::None => (iterations, iterations * threads),
        Sync::Queue | Sync::Steal | Sync::Pipeline => (iterations.div_ceil(threads), iterations),
    };
    let waits_ns = u128::from(p.io) + u128::from(p.sleep);
    Least { time_ns: each * (shortest_ns + waits_ns), cpu_ns: all * shortest_ns, grains: all }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine_file::MachineModel;
    use corun_model::workload::Workload;
    use corun_model::Machine;

    const MS: u128 = 1_000_000;

    fn least(program: &str) -> Option<Least> {
        let text = format!("schema = \"corun.workload/1\"\nname = \"w\"\n[program]\n{program}");
        let workload = Workload::parse("w.toml", &text).unwrap();
        Plan::of(&workload, &MachineModel::of(Machine::synthetic(1, 1, 2, 1)), 0).unwrap().least()
    }

    #[test]
    fn every_thread_does_its_rounds_or_its_part_of_the_grains() {
        let of = |sync: &str| {
            least(&format!("kind = \"parallel\"\nsync = \"{sync}\"\nthreads = 4\ngrain = \"2ms\"\nimbalance = 0.5\nio = \"1ms\"\niterations = 10\n"))
        };
        assert_eq!(of("barrier"), Some(Least { time_ns: 20 * MS, cpu_ns: 40 * MS, grains: 40 }));
        assert_eq!(of("steal"), Some(Least { time_ns: 6 * MS, cpu_ns: 10 * MS, grains: 10 }));
    }

    #[test]
    fn phases_follow_each_other_and_a_time_is_that_time() {
        let two = "kind = \"command\"\nargv = [\"x\"]\n[[program.model]]\nthreads = 1\nsync = \"none\"\niterations = 3\n[[program.model]]\nthreads = 2\nduration = \"5ms\"\n";
        assert_eq!(least(two), Some(Least { time_ns: 8 * MS, cpu_ns: 3 * MS, grains: 3 }));
        let again = |n: u32| two.replace("[\"x\"]", &format!("[\"x\"]\niterations = {n}"));
        assert_eq!(least(&again(5)), Some(Least { time_ns: 40 * MS, cpu_ns: 15 * MS, grains: 15 }));
        assert_eq!(least(&again(0)), None);
        assert_eq!(least("kind = \"interference\"\n"), None);
        assert_eq!(least("kind = \"interference\"\nduration = \"7ms\"\n").map(|l| l.time_ns), Some(7 * MS));
    }
}
