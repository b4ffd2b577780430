//! A workload prepared for the model: phases, synchronization objects, characters.

use super::Waiting;
use crate::machine_file::MachineModel;
use crate::replay::script::ScriptedProgram;
use corun_model::workload::{
    Character, Flow, Idle, Interference, Length, MicroKind, Parallel, Pdes, Program, Sync, Workload,
};
use std::sync::Arc;

/// How long partners of `hubench` and `lubench` compute between two turns.
pub const CHUNK_NS: u64 = 50_000;

/// A synchronization object of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Object {
    /// Opens when this many threads have arrived.
    Barrier(u32),
    /// No thread arrives: it only has events for waiting threads.
    News,
    /// Held by one thread at a time.
    Lock,
    /// A first-in, first-out queue with room for `depth` items from `producers` threads.
    Queue {
        /// Items that fit.
        depth: u32,
        /// Threads that put items in, until each has left.
        producers: u32,
    },
    /// The waits of one thread of a recorded program, each ended by a step of another thread.
    Waits,
}

/// The activity of a phase's threads.
#[derive(Clone, Debug, PartialEq)]
pub enum Activity {
    /// Busy and idle intervals.
    Interference(Interference),
    /// Grains of work and a way to depend on each other.
    Parallel(Parallel),
    /// Events of a simulation.
    Pdes(Pdes),
    /// Pairs that meet after every chunk of `chunk_ns`; `rounds` chunks.
    Pairs {
        /// Work between two meetings.
        chunk_ns: u64,
        /// The number of chunks; `u64::MAX`: until asked to stop.
        rounds: u64,
    },
    /// The recorded activity of each thread.
    Recorded(Arc<ScriptedProgram>),
}

/// One phase of a program.
#[derive(Clone, Debug, PartialEq)]
pub struct Phase {
    /// The activity of its threads.
    pub activity: Activity,
    /// The path of items in a pipeline.
    pub flow: Flow,
    /// Its threads: those with a number below this.
    pub threads: u32,
    /// How they wait.
    pub waiting: Waiting,
    /// Its first synchronization object. Their number follows from the activity.
    pub object: usize,
    /// The barrier at which all threads of the program meet before the next phase. They wait as this phase's
    /// threads do.
    pub join: Option<usize>,
    /// Wall time it lasts; `None`: until its work is done.
    pub duration_ns: Option<u64>,
}

impl Phase {
    /// Whether all threads that share lines meet again and again.
    pub fn meets(&self) -> bool {
        match &self.activity {
            Activity::Parallel(p) => p.sync == Sync::Barrier,
            Activity::Pairs { .. } => true,
            Activity::Interference(_) | Activity::Pdes(_) | Activity::Recorded(_) => false,
        }
    }
}

/// A prepared program.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The workload's name.
    pub name: String,
    /// Its phases, in order.
    pub phases: Vec<Phase>,
    /// How often it repeats them; `u64::MAX`: until asked to stop.
    pub laps: u64,
    /// Its synchronization objects.
    pub objects: Vec<Object>,
    /// Its characters: the program's own, then those of its stretches.
    pub characters: Vec<Character>,
    /// The grains of each stretch that has a character of its own. Each thread goes through the stretches
    /// again and again.
    pub stretches: Vec<u64>,
    /// The total number of its threads.
    pub threads: u32,
    /// CPUs its threads are pinned to, round robin; empty: not pinned.
    pub cpus: Vec<u32>,
    /// Threads share memory in pairs rather than all together.
    pub in_pairs: bool,
    /// It never ends by itself.
    pub endless: bool,
    /// The name of its threads: `barrier`, `stage`.
    pub thread_name: &'static str,
}

impl Plan {
    /// Prepares a workload. `reseed` is added to the seeds of its draws.
    ///
    /// # Errors
    /// One sentence: the model does not know this program's activity.
    pub fn of(workload: &Workload, model: &MachineModel, reseed: u64) -> Result<Plan, String> {
        let workload = &workload.for_machine(&model.machine.name);
        let own = std::iter::once(&workload.character);
        let mut plan = Plan {
            name: workload.name.clone(),
            phases: Vec::new(),
            laps: 1,
            objects: Vec::new(),
            characters: own.chain(workload.phase.iter().map(|p| &p.character)).cloned().collect(),
            stretches: workload.phase.iter().map(|p| p.rounds).collect(),
            threads: 0,
            cpus: Vec::new(),
            in_pairs: false,
            endless: false,
            thread_name: "thread",
        };
        match &workload.program {
            Program::Interference(i) => {
                let mut i = i.clone();
                i.seed = i.seed.wrapping_add(reseed);
                plan.cpus.clone_from(&i.cpus);
                plan.thread_name = "busy";
                plan.endless = i.duration == 0;
                let duration_ns = (i.duration > 0).then_some(i.duration);
                plan.push(Activity::Interference(i.clone()), i.threads, Waiting::Block, duration_ns)?;
            }
            Program::Parallel(p) => plan.parallel(p, reseed)?,
            Program::Pdes(p) => plan.pdes(p, reseed)?,
            Program::Micro(m) => {
                plan.cpus.clone_from(&m.cpus);
                let (rounds, duration_ns) = match m.length() {
                    Length::Iterations(n) => (n, None),
                    Length::DurationNs(ns) => (u64::MAX, Some(ns)),
                    Length::Endless => (u64::MAX, None),
                };
                plan.endless = rounds == u64::MAX && duration_ns.is_none();
                plan.thread_name = "micro";
                let total_ns = rounds.saturating_mul(round_ns(m.name, model));
                if matches!(m.name, MicroKind::Hubench | MicroKind::Lubench) {
                    plan.in_pairs = true;
                    let rounds = if rounds == u64::MAX { rounds } else { total_ns.div_ceil(CHUNK_NS) };
                    let activity = Activity::Pairs { chunk_ns: CHUNK_NS, rounds };
                    plan.push(activity, m.threads, Waiting::Spin, duration_ns)?;
                } else {
                    let grain = 1_000_000;
                    let iterations = if rounds == u64::MAX { 0 } else { total_ns.div_ceil(grain).max(1) };
                    let p = Parallel {
                        threads: m.threads,
                        sync: Sync::None,
                        grain,
                        iterations,
                        ..Parallel::default()
                    };
                    plan.push(Activity::Parallel(p), m.threads, Waiting::Block, duration_ns)?;
                }
            }
            Program::Command(c) => {
                if c.model.is_empty() {
                    return Err(format!(
                        "`{}` is a command without `[[program.model]]`, so the model does not know what it does; describe its phases",
                        workload.name
                    ));
                }
                for p in &c.model {
                    plan.parallel(p, reseed)?;
                }
                plan.laps = if c.iterations == 0 { u64::MAX } else { c.iterations };
                plan.endless |= c.iterations == 0;
            }
        }
        plan.join_phases();
        Ok(plan)
    }

    /// Prepares a recorded program: a thread for each of its tasks. Their computing includes the cost of waking and going to sleep.
    pub fn recorded(name: &str, program: &Arc<ScriptedProgram>) -> Plan {
        let threads = program.scripts.len() as u32;
        let phase = Phase {
            activity: Activity::Recorded(program.clone()),
            flow: Flow::default(),
            threads,
            waiting: Waiting::Block,
            object: 0,
            join: None,
            duration_ns: None,
        };
        Plan {
            name: name.to_owned(),
            phases: vec![phase],
            laps: 1,
            objects: vec![Object::Waits; threads as usize],
            characters: vec![Character::default()],
            stretches: Vec::new(),
            threads,
            cpus: Vec::new(),
            in_pairs: false,
            endless: false,
            thread_name: "thread",
        }
    }

    /// Whether its work includes the cost of waking and going to sleep.
    pub fn is_recorded(&self) -> bool {
        matches!(self.phases[..], [Phase { activity: Activity::Recorded(_), .. }])
    }

    fn parallel(&mut self, p: &Parallel, reseed: u64) -> Result<(), String> {
        let mut p = p.clone();
        p.seed = p.seed.wrapping_add(reseed);
        if self.cpus.is_empty() {
            self.cpus.clone_from(&p.cpus);
        }
        self.thread_name = match p.sync {
            Sync::Barrier => "barrier",
            Sync::Lock => "lock",
            Sync::Pipeline => "stage",
            Sync::Queue => "queue",
            Sync::Steal => "steal",
            Sync::None => "free",
        };
        let duration_ns = match p.length() {
            Length::DurationNs(ns) => Some(ns),
            Length::Iterations(_) => None,
            Length::Endless => {
                self.endless = true;
                None
            }
        };
        let (threads, waiting) = (p.threads, Waiting::of(&p));
        self.push(Activity::Parallel(p), threads, waiting, duration_ns)
    }

    fn pdes(&mut self, p: &Pdes, reseed: u64) -> Result<(), String> {
        let mut p = p.clone();
        p.seed = p.seed.wrapping_add(reseed);
        self.cpus.clone_from(&p.cpus);
        self.thread_name = "pdes";
        self.endless = p.length() == Length::Endless;
        let duration_ns = match p.length() {
            Length::DurationNs(ns) => Some(ns),
            _ => None,
        };
        let waiting = match p.idle {
            Idle::Spin => Waiting::Spin,
            Idle::Yield | Idle::Block => Waiting::Block,
        };
        let threads = p.threads;
        self.push(Activity::Pdes(p), threads, waiting, duration_ns)
    }

    fn push(
        &mut self,
        activity: Activity,
        threads: u32,
        waiting: Waiting,
        duration_ns: Option<u64>,
    ) -> Result<(), String> {
        let object = self.objects.len();
        let flow = match &activity {
            Activity::Parallel(p) => Flow::of(p).map_err(|bad| bad.what)?,
            _ => Flow::default(),
        };
        match &activity {
            Activity::Interference(_) | Activity::Recorded(_) => {}
            Activity::Pdes(_) => self.objects.push(Object::News),
            Activity::Pairs { .. } => {
                self.objects.extend((0..threads / 2).map(|_| Object::Barrier(2)));
            }
            Activity::Parallel(p) => match p.sync {
                Sync::Barrier => self.objects.push(Object::Barrier(threads)),
                Sync::Lock => self.objects.extend((0..p.locks).map(|_| Object::Lock)),
                Sync::Pipeline => {
                    let depth = p.queue_depth;
                    let queue = |producers| Object::Queue { depth, producers };
                    self.objects.extend(flow.producers().into_iter().map(queue));
                }
                Sync::Queue | Sync::Steal | Sync::None => {}
            },
        }
        self.threads = self.threads.max(threads);
        self.phases.push(Phase { activity, flow, threads, waiting, object, join: None, duration_ns });
        Ok(())
    }

    /// If another phase follows, all threads of the program meet.
    fn join_phases(&mut self) {
        let last = self.phases.len() - usize::from(self.laps == 1);
        for phase in &mut self.phases[..last] {
            phase.join = Some(self.objects.len());
            self.objects.push(Object::Barrier(self.threads));
        }
    }

    /// The character of a thread's `grain`-th grain, by its place in `characters`.
    pub fn character_at(&self, grain: u64) -> usize {
        let all: u64 = self.stretches.iter().sum();
        let Some(mut left) = grain.checked_rem(all) else { return 0 };
        for (i, &rounds) in self.stretches.iter().enumerate() {
            match left.checked_sub(rounds) {
                Some(rest) => left = rest,
                None => return i + 1,
            }
        }
        unreachable!("the remainder lies in some stretch")
    }

    /// The phase that an object ends, if it is the barrier between two.
    pub fn ended_by(&self, object: usize) -> Option<&Phase> {
        self.phases.iter().find(|p| p.join == Some(object))
    }

    /// Whether its threads ever wait for each other by spinning.
    pub fn spins(&self) -> bool {
        self.phases.iter().any(|p| p.waiting != Waiting::Block)
    }
}

/// Solo run time of one round of a micro-benchmark: the time of the inner loops of `corun load` on such a machine.
fn round_ns(kind: MicroKind, model: &MachineModel) -> u64 {
    /// Increments in a round of `hubench` and `lubench`, each of which fetches the partner's line.
    const INCREMENTS: u64 = 16;
    let transfer_ns = model.latency.transfer_fixed_ns + model.latency.transfer_llc_ns;
    match kind {
        MicroKind::Hubench => INCREMENTS * transfer_ns,
        MicroKind::Lubench => INCREMENTS * (transfer_ns + 1_000),
        // A MiB at half the node's bandwidth, which is about the limit of one core.
        MicroKind::Membench => ((1u64 << 20) * 2_000_000_000 / model.node_bandwidth.max(1)).max(1),
        MicroKind::Cpu => 1_000_000,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corun_model::Machine;

    #[test]
    fn stretches_follow_each_other_and_repeat() {
        let plain = "schema = \"corun.workload/1\"\nname = \"two-faced\"\n[program]\nkind = \"parallel\"\niterations = 9\n";
        let stretch = |rounds, ipc| format!("[[phase]]\nrounds = {rounds}\ncharacter = {{ ipc = {ipc} }}\n");
        let ipc = |text: &str| -> Vec<f64> {
            let workload = Workload::parse("w.toml", text).unwrap();
            let plan = Plan::of(&workload, &MachineModel::of(Machine::synthetic(1, 1, 2, 1)), 0).unwrap();
            (0..7).map(|grain| plan.characters[plan.character_at(grain)].ipc).collect()
        };
        let text = plain.to_owned() + &stretch(3, "0.8") + &stretch(2, "2.5");
        assert_eq!(ipc(&text), [0.8, 0.8, 0.8, 2.5, 2.5, 0.8, 0.8]);
        assert_eq!(ipc(plain), [2.0; 7]);
    }
}
