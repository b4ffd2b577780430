//! Prints the facts that a document may quote from a record: `cargo run -p corun-study --example facts studies/runs/predict`.

use corun_study::{facts, kept};
use std::path::Path;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::args().nth(1).ok_or("give the folder of a record")?;
    for (name, value) in facts::of(&kept::record(Path::new(&folder))?)? {
        println!("{name}: {}", value.trim());
    }
    Ok(())
}
