//! A described program on the modelled machine: solo, as a recording would show it, and in a co-run with an interferer.

use super::seen::Seen;
use crate::statistics::median;
use crate::validate::cell::Interferer;
use corun_model::TenantId;
use corun_sim::engine::Engine;
use corun_sim::machine_file::MachineModel;
use corun_sim::replay::modelled::run_log;
use corun_sim::scenario::{Files, Participants, Scenario};
use std::time::Duration;

/// The most switches and wake-ups of a run that are read.
const TRACED: usize = 1 << 22;
/// The name of the described program's file in the scenario.
const SUBJECT: &str = "subject.toml";
const INTERFERER: &str = "interferer.toml";
/// An interferer runs for this long before the program, both modelled and live.
pub const LEAD: Duration = Duration::from_millis(300);

/// The machine, and how its kernel shares the CPUs.
#[derive(Clone, Debug)]
pub struct Bench {
    /// The machine.
    pub machine: MachineModel,
    /// Each session is a scheduling group of its own (autogroup).
    pub grouped: bool,
    /// The kernel's release. Empty for the default of the model.
    pub kernel: String,
}

struct Texts<'a> {
    bench: &'a Bench,
    subject: &'a str,
    interferer: &'a str,
}

impl Files for Texts<'_> {
    fn read(&self, path: &str) -> Result<(String, String), String> {
        let text = if path == INTERFERER { self.interferer } else { self.subject };
        Ok((path.to_owned(), text.to_owned()))
    }

    fn host(&self) -> Result<MachineModel, String> {
        Ok(self.bench.machine.clone())
    }
}

impl Bench {
    fn scenario(&self, workload: &str, beside: Option<&Interferer>) -> Result<Scenario, String> {
        let linux =
            if self.kernel.is_empty() { String::new() } else { format!("linux = \"{}\"\n", self.kernel) };
        let mut text = format!(
            "schema = \"corun.scenario/1\"\nmachine = \"host\"\n[scheduler]\ngroups = {}\n{linux}\
             [[tenant]]\nname = \"subject\"\nsession = \"subject\"\nworkload = \"{SUBJECT}\"\n",
            self.grouped
        );
        if beside.is_some() {
            text += &format!(
                "start = \"{}ms\"\n[[tenant]]\nname = \"interferer\"\nsession = \"interferer\"\nworkload = \"{INTERFERER}\"\n",
                LEAD.as_millis()
            );
        }
        let interferer = beside.map_or(String::new(), |i| i.workload(1));
        let files = Texts { bench: self, subject: workload, interferer: &interferer };
        Scenario::parse("description", &text, &files).map_err(|e| e.to_string())
    }

    fn ended(
        &self,
        scenario: &Scenario,
        participants: Participants,
        seed: u64,
        traced: usize,
    ) -> Result<Engine, String> {
        let mut engine = scenario.engine(seed, participants, traced).map_err(|e| e.to_string())?;
        match engine.run_to_end(scenario.horizon_ns) {
            Ok(true) => Ok(engine),
            Ok(false) => Err("it does not end on the modelled machine".into()),
            Err(fault) => Err(fault.to_string()),
        }
    }

    /// What a recording of the solo run would show.
    ///
    /// # Errors
    /// One sentence: the workload cannot be run, or makes too many events to be read.
    pub fn seen(&self, workload: &str) -> Result<Seen, String> {
        let scenario = self.scenario(workload, None)?;
        let engine = self.ended(&scenario, Participants::All, 1, TRACED)?;
        let trace = engine.trace().ok_or("the modelled machine kept no trace")?;
        let cpus = self.machine.machine.cpu_count();
        let log = run_log(trace, TenantId(0), cpus, engine.now_ns(), &[]);
        match log.lost {
            0 => Ok(Seen::of([log].iter()).0),
            _ => Err("it switches too often to be looked at on the modelled machine".into()),
        }
    }

    /// The solo length of the program in nanoseconds, and its slowdown in a co-run with an interferer: medians over seeds.
    ///
    /// # Errors
    /// One sentence: the workload cannot be run.
    pub fn slowdown(&self, workload: &str, beside: &Interferer, seeds: u64) -> Result<(u64, f64), String> {
        let scenario = self.scenario(workload, Some(beside))?;
        let wall = |participants, seed| {
            let mut engine = self.ended(&scenario, participants, seed, 0)?;
            let run = engine.progress()[0].completions.first.ok_or("its program did not end")?;
            Ok::<f64, String>((run.end_ns - run.start_ns) as f64)
        };
        let all = |participants| {
            (1..=seeds).map(|seed| wall(participants, seed)).collect::<Result<Vec<f64>, String>>()
        };
        let alone_ns = median(&all(Participants::Solo(0))?).unwrap_or(1.0);
        let beside_ns = median(&all(Participants::All)?).unwrap_or(1.0);
        Ok((alone_ns.round() as u64, beside_ns / alone_ns))
    }
}
