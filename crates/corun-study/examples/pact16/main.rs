//! Redraws figures 1 to 7 of PACT'16, its table 2 and its section on affinity on the modelled machine: `cargo run --release -p
//! corun-study --example pact16 [--record FILE] [FOLDER [PART…]]`. Parts are `figure-1` to `figure-7`, `table-2`, `out-of-step`,
//! `affinity`, `first-slice` and `domain-0`.
//!
//! Each program runs on the paper's machine (one node of its Xeon under Xen's credit scheduler) in a VM of four pinned vCPUs, with
//! loops in another pinned VM. Numbers that the paper states are printed next to ours. Of figures without numbers only the shape can be
//! compared. If ours differ, the run is repeated with one assumption changed. These changes do not go into the presets.

mod affinity;
mod figure_1;
mod figure_2;
mod figure_3;
mod figure_4;
mod figure_5;
mod figure_6;
mod figure_7;
mod hypervisor;
mod out_of_step;
mod rig;
mod table_2;

use corun_study::bars::{chart, Group};
use corun_study::paper_figures::PaperFigures;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// The figures so far, by name: the record that documents quote.
static STATED: Mutex<BTreeMap<String, String>> = Mutex::new(BTreeMap::new());

/// Keeps a figure for the record.
fn state(name: &str, figure: &str) {
    STATED.lock().expect("nobody panics").insert(name.to_owned(), figure.to_owned());
}

/// The name of a part, and the function that makes it.
type Part = (&'static str, fn(&Path));

/// All parts.
const PARTS: [Part; 12] = [
    ("figure-1", |folder| {
        figure_1::draw(folder);
        figure_1::facesim_by_grain();
    }),
    ("figure-2", figure_2::draw),
    ("figure-3", figure_3::draw),
    ("figure-4", figure_4::draw),
    ("figure-5", figure_5::draw),
    ("figure-6", |folder| {
        figure_6::draw(folder);
        figure_6::by_spinner();
        figure_6::by_wall_time();
        figure_6::by_beginning();
        figure_6::by_part_of_lu();
        figure_6::by_grain();
        figure_6::by_sharing();
    }),
    ("figure-7", |_| figure_7::print()),
    ("table-2", |_| table_2::print()),
    ("out-of-step", |_| out_of_step::print()),
    ("affinity", |_| affinity::print()),
    ("first-slice", |_| hypervisor::first_slice()),
    ("domain-0", |_| hypervisor::with_domain_0()),
];

/// Writes a figure's chart.
fn save(folder: &Path, figure: u32, title: &str, unit: &str, groups: &[Group]) {
    let path = folder.join(format!("pact16-fig{figure}.svg"));
    let title = format!("{title} (PACT'16 figure {figure}, modelled)");
    match corun_report::output::write_file(&path, chart(&title, unit, groups).as_bytes()) {
        Ok(()) => println!("wrote {}\n", path.display()),
        Err(e) => eprintln!("{e}"),
    }
}

/// A change in percent.
fn percent(change: f64) -> String {
    // Adding 0 takes the sign from a zero.
    format!("{:+.0} %", (change * 100.0).round() + 0.0)
}

fn main() {
    let mut args: Vec<String> = std::env::args().skip(1).collect();
    let record = args.iter().position(|a| a == "--record").map(|i| {
        args.remove(i);
        if i == args.len() {
            eprintln!("--record needs the name of a file");
            std::process::exit(2);
        }
        args.remove(i)
    });
    let folder = PathBuf::from(args.first().map_or("out", String::as_str));
    if let Err(e) = std::fs::create_dir_all(&folder) {
        eprintln!("cannot make {}: {e}", folder.display());
        std::process::exit(1);
    }
    let wanted = args.get(1..).unwrap_or_default();
    if let Some(w) = wanted.iter().find(|w| PARTS.iter().all(|(name, _)| name != w)) {
        let names = PARTS.map(|(name, _)| name).join(", ");
        eprintln!("there is no part `{w}`; there are {names}");
        std::process::exit(2);
    }
    for (name, make) in PARTS {
        if wanted.is_empty() || wanted.iter().any(|w| w == name) {
            make(&folder);
        }
    }
    if let Some(file) = record {
        let stated = std::mem::take(&mut *STATED.lock().expect("nobody panics"));
        if let Err(e) = std::fs::write(&file, PaperFigures::of(stated).text()) {
            eprintln!("cannot write {file}: {e}");
            std::process::exit(1);
        }
    }
}
