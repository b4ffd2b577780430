//! The model of the machine that corun runs on: its shape and the facts of the kernel, and defaults for the rest. Nothing is measured:
//! latencies and costs belong in a machine file.

use corun_linux::figures::Figures;
use corun_linux::topology::{read_machine, TopologyError};
use corun_linux::Root;
use corun_sim::machine_file::{MachineModel, Measured};

/// The model of the machine under `root`.
///
/// # Errors
/// [`TopologyError`]: its shape cannot be read.
pub fn this_machine(root: &Root) -> Result<MachineModel, TopologyError> {
    let machine = read_machine(root)?;
    let Figures { ghz, tick_ns, l1_bytes, l2_bytes, llc_bytes } = Figures::read(root, &machine);
    let told = Measured { ghz, tick_ns, l1_bytes, l2_bytes, llc_bytes, ..Measured::default() };
    Ok(MachineModel::host(machine, &told))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_model_of_this_machine_has_its_tick_and_the_caches_that_the_kernel_reports() {
        let root = Root::new("/");
        let model = this_machine(&root).unwrap();
        let told = Figures::read(&root, &model.machine);
        assert_eq!(Some(model.tick_ns), told.tick_ns);
        assert!(!model.assumed.contains(&"clock.tick") && model.assumed.contains(&"costs.switch"));
        assert_eq!(told.llc_bytes.is_none(), model.assumed.contains(&"cache.llc"));
        assert_eq!(model.llc_bytes, told.llc_bytes.unwrap_or(model.llc_bytes));
    }
}
