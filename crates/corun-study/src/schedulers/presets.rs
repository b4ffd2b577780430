//! The programs of the papers, brought along so that a study of them runs anywhere.

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
    "x264",
];

/// The text of the preset of this name.
pub(super) fn preset(name: &str) -> Option<&'static str> {
    PRESETS.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_program_of_the_papers_is_brought_along() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../workloads/papers");
        for entry in std::fs::read_dir(folder).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            let Some(name) = name.strip_suffix(".toml") else { continue };
            assert!(preset(name).is_some(), "{name} is not among them");
        }
    }
}
