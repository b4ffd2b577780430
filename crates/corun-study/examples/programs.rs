//! Checks whether the programs of the live studies run here, and prints how long they take solo and in a co-run.
//!
//! ```text
//! cargo run --release -p corun-study --example programs -- FOLDER CORUN [INTERFERER [PROGRAM...]]
//! ```
//!
//! FOLDER keeps the inputs, CORUN is the path of the corun executable. Run it on a quiet machine: no run is rejected here.

use corun_study::programs::{Catalogue, Program, ProgramSetup};
use std::path::Path;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);
const LEAD: Duration = Duration::from_millis(300);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, corun, more @ ..] = &arguments[..] else {
        return Err("give a folder for inputs and the program file of corun".into());
    };
    let catalogue = Catalogue::own();
    let name = more.first().map_or("persistent-2", String::as_str);
    let interferer = catalogue.interferer(name).ok_or_else(|| format!("no interferer `{name}`"))?;
    let setup = ProgramSetup::new(Path::new(folder), Path::new(corun), corun_study::pace::pace())?;
    setup.prepare(&interferer.recipe)?;
    let asked = |p: &&Program| more.len() < 2 || more[1..].contains(&p.name);
    for program in catalogue.programs.iter().filter(asked) {
        match setup.prepare(&program.recipe) {
            Err(why) => println!("{:16} {why}", program.name),
            Ok(()) => {
                let alone = setup.run(program, None, LIMIT)?;
                let beside = setup.run(program, Some((interferer, LEAD)), LIMIT)?;
                let seconds = |ns: u64| ns as f64 / 1e9;
                let good = if alone.is_good() && beside.is_good() { "" } else { "  FAILED or cut off" };
                println!(
                    "{:16} alone {:6.2} s, beside {name} {:6.2} s: {:.2}x{good}",
                    program.name,
                    seconds(alone.wall_ns),
                    seconds(beside.wall_ns),
                    beside.wall_ns as f64 / alone.wall_ns as f64
                );
            }
        }
    }
    Ok(())
}
