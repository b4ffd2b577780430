//! The programs of the papers, compiled in so that a study of them runs anywhere.

use corun_sim::machine_file::MachineModel;
use corun_sim::scenario::Files;

macro_rules! presets {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../../../workloads/papers/", $name, ".toml")))),*]
    };
}

/// Their names and texts.
const PRESETS: &[(&str, &str)] = presets![
    "als",
    "blackscholes",
    "bodytrack",
    "bsgd",
    "bt",
    "canneal",
    "cc-canneal",
    "cc-fluidanimate",
    "cc-streamcluster",
    "cg",
    "cpu",
    "dedup",
    "ep",
    "facesim",
    "ferret",
    "fig1-high-ilp",
    "fig1-low-ilp",
    "fluidanimate",
    "ft",
    "gamess",
    "gcc",
    "gobmk",
    "gromacs",
    "hubench",
    "is",
    "lbm",
    "linux-kthreads",
    "linux-kworker",
    "lsgd",
    "lu",
    "lubench",
    "mcf",
    "membench",
    "mg",
    "milc",
    "mongodb-ycsb",
    "namd",
    "pdes-fm",
    "pdes-ladm",
    "pmf",
    "povray",
    "qemu-main",
    "raytrace",
    "rbm",
    "sgd",
    "sjeng",
    "soplex",
    "sp",
    "sphinx3",
    "stream",
    "streamcluster",
    "svd",
    "swaptions",
    "tunkrank",
    "ua",
    "vips",
    "xen-dom0",
    "x264",
];

/// The programs of PARSEC that PACT'16 names: they block.
pub const PARSEC: [&str; 12] = [
    "blackscholes",
    "bodytrack",
    "canneal",
    "dedup",
    "facesim",
    "ferret",
    "fluidanimate",
    "raytrace",
    "streamcluster",
    "swaptions",
    "vips",
    "x264",
];
/// The programs of NPB: they spin.
pub const NPB: [&str; 9] = ["bt", "cg", "ep", "ft", "is", "lu", "mg", "sp", "ua"];

/// Their folder in a scenario.
pub(super) const PAPERS: &str = "workloads/papers/";

/// The presets as a scenario's files, and no others.
#[derive(Clone, Copy, Debug)]
pub struct Presets;

impl Files for Presets {
    fn read(&self, path: &str) -> Result<(String, String), String> {
        let name = path.strip_prefix(PAPERS).and_then(|file| file.strip_suffix(".toml"));
        let text = name.and_then(preset).ok_or_else(|| {
            format!("no program `{}`; name a preset of {PAPERS} or add a [[program]]", name.unwrap_or(path))
        })?;
        Ok((path.to_owned(), text.to_owned()))
    }

    fn host(&self) -> Result<MachineModel, String> {
        Err("a study of schedulers is of a machine of the papers or of a machine file; name one".into())
    }
}

/// The text of the preset of this name.
fn preset(name: &str) -> Option<&'static str> {
    PRESETS.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_program_of_the_papers_is_compiled_in() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../workloads/papers");
        for entry in std::fs::read_dir(folder).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            let Some(name) = name.strip_suffix(".toml") else { continue };
            assert!(preset(name).is_some(), "{name} is not among them");
        }
    }
}
