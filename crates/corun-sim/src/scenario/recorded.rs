//! A recorded program as a scenario: it runs once, with its co-runners as loops that continue until it has ended.

use super::file::SchedulerFile;
use super::{BadScenario, Runs, Scenario, TenantSpec};
use crate::machine_file::MachineModel;
use crate::replay::{Loops, Recorded};
use corun_model::workload::{Character, Interference, Pattern, Program, Workload};
use corun_model::Machine;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Length of the busy intervals of loops that want less than one CPU, in nanoseconds.
const BUSY_NS: u64 = 10_000_000;
/// From this demand on, a loop wants a CPU all the time: a loop cannot express more.
const ALL_THE_TIME: f64 = 0.98;

impl Scenario {
    /// A recorded program, called `name`, with its co-runners. `file` is named in errors. `machine`: a
    /// machine other than the recorded one; tasks may use all its CPUs.
    ///
    /// # Errors
    /// [`BadScenario`]: it has more tasks than the model supports.
    pub fn of_recording(
        file: &str,
        name: &str,
        recorded: &Recorded,
        machine: Option<MachineModel>,
    ) -> Result<Scenario, BadScenario> {
        let is_elsewhere = machine.is_some();
        let same = || MachineModel::of(Machine::synthetic(1, 1, recorded.cpus().max(1) as u32, 1));
        let program = Arc::new(recorded.program_on(is_elsewhere));
        let mut names = BTreeSet::from([name.to_owned()]);
        let mut tenants = vec![tenant(name.to_owned(), Runs::Recorded(program), false)];
        for loops in &recorded.co_runners {
            let mut called = loops.name.clone();
            while !names.insert(called.clone()) {
                called += "'";
            }
            tenants.push(tenant(called.clone(), Runs::Workload(Box::new(workload(called, loops))), true));
        }
        let scenario = Scenario {
            name: name.to_owned(),
            machine: machine.unwrap_or_else(same),
            scheduler: SchedulerFile::default(),
            policy: None,
            tenants,
            seeds: vec![1],
            duration_ns: None,
            horizon_ns: super::check::HORIZON_NS,
            file: file.to_owned(),
            tenants_line: 0,
            scheduler_line: 0,
        };
        scenario.check_size()?;
        Ok(scenario)
    }
}

fn tenant(name: String, runs: Runs, background: bool) -> TenantSpec {
    TenantSpec {
        name,
        runs,
        line: 0,
        pins: Vec::new(),
        allowed: Vec::new(),
        weight: 100,
        session: None,
        vcpus: None,
        start_ns: 0,
        after: None,
        repeat: false,
        background,
        batch: false,
        slice_ns: None,
    }
}

fn workload(name: String, loops: &Loops) -> Workload {
    let always = loops.demand >= ALL_THE_TIME;
    let pattern = if always { Pattern::Persistent } else { Pattern::Periodic };
    let program = Interference {
        pattern,
        busy: BUSY_NS,
        demand: loops.demand,
        threads: loops.tasks,
        ..Interference::default()
    };
    Workload {
        schema: "corun.workload/1".into(),
        name,
        about: String::new(),
        program: Program::Interference(program),
        character: Character::default(),
        phase: Vec::new(),
        on: Vec::new(),
    }
}
