//! `corun sim --from`: a recorded run as a scenario.

use crate::reading::recording_of;
use crate::usage::Usage;
use corun_model::run_log::file::read;
use corun_model::Machine;
use corun_report::places::unread;
use corun_sim::machine_file::MachineModel;
use corun_sim::replay::Recorded;
use corun_sim::scenario::Scenario;
use std::path::Path;

/// Reads a recording.
///
/// # Errors
/// One sentence: it cannot be read, or cannot be replayed.
pub fn recorded(path: &Path) -> Result<Recorded, Usage> {
    let bytes = recording_of(path)
        .map_err(|e| Usage(format!("cannot read {}: {}", path.display(), unread(path, &e))))?;
    let at = |what: String| Usage(format!("{}: {what}", path.display()));
    let file = read(&bytes).map_err(|e| at(e.to_string()))?;
    Recorded::of(&file).map_err(|e| {
        at(format!("this recording cannot be replayed: {e}; record it again, or another program"))
    })
}

/// The recorded run as a scenario, on this many CPUs or on the recorded ones.
///
/// # Errors
/// One sentence.
pub fn scenario(path: &Path, recorded: &Recorded, cpus: Option<u32>) -> Result<Scenario, Usage> {
    let machine = cpus.map(|n| MachineModel::of(Machine::synthetic(1, 1, n, 1)));
    let name = recorded.command.split_whitespace().next().unwrap_or("program");
    let name = name.rsplit('/').next().filter(|n| !n.is_empty()).unwrap_or("program");
    let file = path.display().to_string();
    Scenario::of_recording(&file, name, recorded, machine).map_err(|e| Usage(e.to_string()))
}
