//! A cell of the matrix: one program and one interferer, as text that both hosts read.

use crate::hash::fnv1a;
use serde::{Deserialize, Serialize};

/// Computing of the first thread of `corun load` before it starts the others, as measured, including exec.
const FIRST_THREAD: &str = "2ms";
/// Logical processes of a simulation, for each of its threads.
const LPS: u64 = 32;
/// Computing of each other thread before it is ready.
const GETTING_READY: &str = "20us";

/// The properties of the live machine that the model needs in addition to its shape.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Setting {
    /// Each session is a scheduling group of its own (autogroup).
    pub grouped: bool,
    /// The chances out of 1024 that a newly idle CPU takes to look for a task.
    pub newidle_ratio: u32,
    /// The kernel's release. Empty for the default of the model.
    #[serde(default)]
    pub kernel: String,
    /// Tasks that wake up again and again on the idle machine: kernel threads, services.
    pub background: Vec<Recurrent>,
}

/// A task of the background.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recurrent {
    /// Mean time from one wake-up to the next.
    pub every_ns: u64,
    /// Mean CPU time after each.
    pub burst_ns: u64,
}

/// Which half of the matrix a cell is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Half {
    /// The model may be fitted on it.
    Fit,
    /// It is predicted only.
    Unseen,
}

impl Half {
    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Half::Fit => "fit",
            Half::Unseen => "unseen",
        }
    }
}

/// The program of a cell: a parallel program, or a simulation (Time Warp) with a mapping in place of a synchronization.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subject {
    /// How its threads depend on each other, or the mapping.
    pub sync: String,
    /// How they wait.
    pub wait: String,
    /// Work between two synchronizations, or of an event, as people write it.
    pub grain: String,
    /// The same in nanoseconds.
    pub grain_ns: u64,
    /// Its threads.
    pub threads: u32,
    /// Iterations of every thread.
    pub iterations: u64,
}

impl Subject {
    /// Its name.
    pub fn name(&self) -> String {
        let words = [self.sync.as_str(), &self.wait, &self.grain];
        words.into_iter().filter(|w| !w.is_empty()).collect::<Vec<_>>().join("-")
    }

    /// Whether it is a simulation.
    fn is_simulation(&self) -> bool {
        ["fm", "pool", "ladm"].contains(&self.sync.as_str())
    }

    /// The program, as the lines of a TOML table.
    fn program(&self) -> String {
        if !self.is_simulation() {
            return format!("kind = \"parallel\"\n{}", self.activity());
        }
        let threads = u64::from(self.threads);
        format!(
            "kind = \"pdes\"\nthreads = {threads}\nmapping = \"{}\"\nidle = \"{}\"\ngrain = \"{}\"\n\
             lps = {}\npopulation = 1\niterations = {}\n",
            self.sync,
            self.wait,
            self.grain,
            threads * LPS,
            threads * self.iterations
        )
    }

    fn activity(&self) -> String {
        format!(
            "threads = {}\nsync = \"{}\"\nwait = \"{}\"\ngrain = \"{}\"\niterations = {}\n",
            self.threads, self.sync, self.wait, self.grain, self.iterations
        )
    }

    /// Its workload file.
    pub fn workload(&self) -> String {
        workload(&self.name(), &self.program())
    }
}

/// The interferer of a cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interferer {
    /// When it is busy.
    pub pattern: String,
    /// Share of a CPU that each thread asks for; none for persistent.
    pub demand: Option<f64>,
    /// Its threads.
    pub threads: u32,
}

impl Interferer {
    /// Its name for people: `periodic 30% x2`.
    pub fn name(&self) -> String {
        let demand = self.demand.map(|d| format!(" {:.0}%", d * 100.0)).unwrap_or_default();
        format!("{}{demand} x{}", self.pattern, self.threads)
    }

    fn program(&self, seed: u64) -> String {
        let demand = self.demand.map(|d| format!("demand = {d:?}\n")).unwrap_or_default();
        format!(
            "kind = \"interference\"\npattern = \"{}\"\n{demand}threads = {}\nseed = {seed}\n",
            self.pattern, self.threads
        )
    }

    /// Its workload file, with this seed of its random lengths.
    pub fn workload(&self, seed: u64) -> String {
        workload(&self.name(), &self.program(seed))
    }
}

fn workload(name: &str, program: &str) -> String {
    format!("schema = \"corun.workload/1\"\nname = \"{name}\"\n\n[program]\n{program}")
}

/// One program with one interferer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// Its name, unique in the matrix.
    pub name: String,
    /// The program.
    pub subject: Subject,
    /// The interferer.
    pub interferer: Interferer,
    /// Which half it is in.
    pub half: Half,
}

impl Cell {
    /// A cell of the unseen half.
    pub fn new(subject: Subject, interferer: Interferer) -> Cell {
        let name = format!("{} + {}", subject.name(), interferer.name());
        Cell { name, subject, interferer, half: Half::Unseen }
    }

    /// The hash that decides its half.
    pub fn hash(&self) -> u64 {
        fnv1a(self.name.as_bytes())
    }

    /// The scenario of this cell on this machine. Each process has its own session. A live process has a first thread that reads the
    /// workload, starts the others and then sleeps. Its load fades over about 100 ms and takes part in the shares of its group, so it
    /// is modelled too. The threads of a program meet at a gate, asleep, before its time begins. That is the first phase; the program
    /// is the last.
    pub fn scenario(&self, setting: &Setting) -> String {
        if self.subject.is_simulation() {
            // A simulation has only one phase, and its workers have work at once.
            return scenario_of(&self.name, setting, &self.interferer, &self.subject.program())
                + &first_thread("subject");
        }
        let gate = format!(
            "[[tenant.program.model]]\nthreads = {}\nsync = \"none\"\ngrain = \"{GETTING_READY}\"\niterations = 1\n",
            self.subject.threads
        );
        let phases = format!("{gate}[[tenant.program.model]]\n{}", self.subject.activity());
        scenario(&self.name, setting, &self.interferer, &phases) + &first_thread("subject")
    }

    /// Whether its name contains every one of these words.
    pub fn matches(&self, words: &str) -> bool {
        words.split_whitespace().all(|w| self.name.contains(w))
    }
}

/// The first thread of a process of `corun load`: it starts the others and sleeps.
fn first_thread(of: &str) -> String {
    format!(
        "[[tenant]]\nname = \"{of}'s first thread\"\nsession = \"{of}\"\nbackground = true\n[tenant.program]\n\
         kind = \"interference\"\npattern = \"periodic\"\nbusy = \"{FIRST_THREAD}\"\ndemand = 0.00001\n\n"
    )
}

/// A scenario on this machine: a program, given as the phases of its model, with an interferer and the background.
pub fn scenario(name: &str, setting: &Setting, interferer: &Interferer, phases: &str) -> String {
    scenario_of(name, setting, interferer, &format!("kind = \"command\"\nargv = [\"corun\"]\n{phases}"))
}

/// The same, with a program given as the lines of its table.
fn scenario_of(name: &str, setting: &Setting, interferer: &Interferer, program: &str) -> String {
    let recurrent = |(i, r): (usize, &Recurrent)| {
        format!(
            "[[tenant]]\nname = \"background {i}\"\n[tenant.program]\nkind = \"interference\"\npattern = \"periodic\"\n\
             busy = \"{}ns\"\ndemand = {:?}\n\n",
            r.burst_ns,
            r.burst_ns as f64 / r.every_ns as f64
        )
    };
    let linux = match &*setting.kernel {
        "" => String::new(),
        release => format!("linux = \"{release}\"\n"),
    };
    let background: String = setting.background.iter().enumerate().map(recurrent).collect();
    format!(
        "schema = \"corun.scenario/1\"\nname = \"{name}\"\nmachine = \"host\"\n\n\
         [scheduler]\ngroups = {}\nnewidle-ratio = {}\n{linux}\n\
         [[tenant]]\nname = \"interferer\"\nsession = \"interferer\"\n[tenant.program]\n{}\n\
         [[tenant]]\nname = \"subject\"\nsession = \"subject\"\n[tenant.program]\n{program}\n{}{background}",
        setting.grouped,
        setting.newidle_ratio,
        interferer.program(1),
        first_thread("interferer"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use corun_model::workload::{Mapping, Program, Workload};

    fn cell() -> Cell {
        let subject = Subject {
            sync: "lock".into(),
            wait: "spin-then-block".into(),
            grain: "10ms".into(),
            grain_ns: 10_000_000,
            threads: 2,
            iterations: 45,
        };
        Cell::new(subject, Interferer { pattern: "periodic".into(), demand: Some(0.3), threads: 2 })
    }

    #[test]
    fn both_workloads_are_valid_and_agree_with_the_cell() {
        let c = cell();
        assert_eq!(c.name, "lock-spin-then-block-10ms + periodic 30% x2");
        let Program::Parallel(p) = Workload::parse("s", &c.subject.workload()).unwrap().program else {
            panic!()
        };
        assert_eq!((p.grain, p.iterations, p.threads), (10_000_000, 45, 2));
        let Program::Interference(i) = Workload::parse("i", &c.interferer.workload(7)).unwrap().program
        else {
            panic!()
        };
        assert_eq!((i.demand, i.threads, i.seed), (0.3, 2, 7));
    }

    #[test]
    fn a_mapping_makes_it_a_simulation_live_and_modelled() {
        let mut c = cell();
        (c.subject.sync, c.subject.wait, c.subject.grain) = ("ladm".into(), "block".into(), "20us".into());
        let Program::Pdes(p) = Workload::parse("s", &c.subject.workload()).unwrap().program else { panic!() };
        assert_eq!((p.mapping, p.threads, p.lps, p.iterations), (Mapping::Ladm, 2, 64, 90));
        let modelled = c.scenario(&Setting::default());
        assert!(modelled.contains(&c.subject.program()) && !modelled.contains("program.model"), "{modelled}");
    }

    #[test]
    fn a_filter_requires_every_word() {
        assert!(cell().matches("lock periodic") && !cell().matches("lock persistent") && cell().matches(""));
    }
}
