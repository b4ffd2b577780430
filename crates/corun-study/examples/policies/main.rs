//! Redraws what the papers show of their schedulers, on the modelled machines:
//! `cargo run --release -p corun-study --example policies [FOLDER] [FIGURE…]`.
//!
//! PACT'16 figures 9 (delayed preemption) and 10 (differential scheduling); Controlled Contention figures 3 (degree of
//! contention), 4 (against CFS and gang scheduling), 5 and 6 (the same with the simulator PDES, without LADM). Numbers
//! that the papers state stand beside ours; most of these figures are pictures only.

mod contention;
mod matrix;
mod pact16;

use std::path::{Path, PathBuf};

/// Writes a figure.
fn save(folder: &Path, name: &str, svg: &str) {
    let path = folder.join(name);
    match corun_report::output::write_file(&path, svg.as_bytes()) {
        Ok(()) => println!("wrote {}\n", path.display()),
        Err(e) => eprintln!("{e}"),
    }
}

/// A figure's name and how it is drawn.
type Figure = (&'static str, fn(&Path));

fn main() {
    let mut args = std::env::args().skip(1);
    let folder = PathBuf::from(args.next().unwrap_or_else(|| "out".into()));
    let wanted: Vec<String> = args.collect();
    if let Err(e) = std::fs::create_dir_all(&folder) {
        eprintln!("cannot make {}: {e}", folder.display());
        std::process::exit(1);
    }
    let figures: [Figure; 5] = [
        ("pact16-fig9", pact16::figure_9),
        ("pact16-fig10", pact16::figure_10),
        ("cc-fig3", contention::figure_3),
        ("cc-fig4", contention::figure_4),
        ("cc-fig5-6", contention::figures_5_and_6),
    ];
    for (name, draw) in figures {
        if wanted.is_empty() || wanted.iter().any(|w| w == name) {
            draw(&folder);
        }
    }
}
