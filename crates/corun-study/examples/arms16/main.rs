//! Redraws figures 1 to 4 and table 6 of ARMS-CC'16 on the modelled machine: `cargo run --release -p corun-study --example arms16 [FOLDER]`.
//!
//! Each VM has one vCPU and one program of SPEC CPU2006, on the paper's Core i7 under CFS. Numbers that the paper states are printed
//! next to ours. Of figures without numbers only the shape can be compared.
//!
//! | file | holds |
//! | --- | --- |
//! | [`migrations`] | figures 1 and 2: eight VMs that the scheduler moves freely |
//! | [`pairings`] | figures 3 and 4: four VMs on two cores, in all pairings |
//! | [`correlations`] | table 6: the correlation of counters with degradation |

mod correlations;
mod migrations;
mod pairings;

use corun_model::observation::{Account, Observation};
use corun_sim::experiment::{perform, Options, Outcome};
use corun_sim::scenario::{Files, Scenario};
use std::path::{Path, PathBuf};

/// A VM with a preset's program: a scenario's tenant, to which more keys may be added.
fn vm(name: &str, program: &str) -> String {
    format!("[[tenant]]\nname = \"{name}\"\nworkload = \"workloads/papers/{program}.toml\"\nvm = {{ vcpus = 1 }}\n")
}

/// Runs tenants on the paper's machine. `head` has more keys of the scenario.
fn run(files: &dyn Files, head: &str, tenants: &str, options: &Options) -> Outcome {
    run_under(files, "3.8", head, tenants, options)
}

/// The same with the placement and balancing of a kernel release.
fn run_under(files: &dyn Files, linux: &str, head: &str, tenants: &str, options: &Options) -> Outcome {
    let text = format!(
        "schema = \"corun.scenario/1\"\nmachine = \"arms16-i7-950\"\n{head}\n[scheduler]\nname = \"cfs\"\nlinux = \"{linux}\"\n{tenants}"
    );
    let scenario = Scenario::parse("figure", &text, files).unwrap_or_else(|e| panic!("{e}"));
    perform(&scenario, options, &|| {}).unwrap_or_else(|e| panic!("{e}"))
}

/// The observation of the first seed's run.
fn seen(outcome: &Outcome) -> &Observation {
    outcome.runs[0].recording.as_ref().and_then(|r| r.whole()).expect("the first seed is recorded")
}

/// The account of a tenant in it.
fn account<'a>(seen: &'a Observation, name: &str) -> &'a Account {
    let id = seen.tenants.iter().find(|t| t.name == name).map(|t| t.id);
    let found = seen.by_tenant.iter().find(|t| Some(t.id) == id);
    &found.unwrap_or_else(|| panic!("{name} had no task")).account
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn percent(x: f64) -> String {
    format!("{:.1} %", x * 100.0)
}

fn save(folder: &Path, name: &str, svg: &str) {
    let path = folder.join(name);
    match corun_report::output::write_file(&path, svg.as_bytes()) {
        Ok(()) => println!("wrote {}\n", path.display()),
        Err(e) => eprintln!("{e}"),
    }
}

fn main() {
    let folder = PathBuf::from(std::env::args().nth(1).unwrap_or_else(|| "out".into()));
    if let Err(e) = std::fs::create_dir_all(&folder) {
        eprintln!("cannot make {}: {e}", folder.display());
        std::process::exit(1);
    }
    migrations::figures_1_and_2();
    pairings::figure_3();
    pairings::figure_4(&folder);
    correlations::table_6();
}
