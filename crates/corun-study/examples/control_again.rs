//! Writes a record of the study of control again from its runs, with the present metrics and tables: `cargo run -p corun-study
//! --example control_again STUDY DIR COMMAND`.
//!
//! STUDY is the study's file, DIR the record's folder, COMMAND the command that made the record. Nothing is measured, and no run is
//! changed. Edits that were made to the record by hand must be made again.

use corun_study::control::file::ControlStudy;
use corun_study::control::outcome::ControlOutcome;
use corun_study::control::text::files;
use corun_study::kept;
use corun_study::programs::Catalogue;
use std::path::Path;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [study, folder, command] = &args[..] else { panic!("usage: control_again STUDY DIR COMMAND") };
    let read =
        |path: &Path| std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let folder = Path::new(folder);
    let catalogue = Catalogue::own();
    let study = ControlStudy::parse(study, &read(Path::new(study)), &catalogue).expect("a study of control");
    let outcome: ControlOutcome = kept::record(folder)
        .and_then(|text| Ok(serde_json::from_str(&text)?))
        .expect("the result of a study of control");
    for (name, text) in files(&study, &outcome, command) {
        std::fs::write(folder.join(name), text).expect("the folder of a record can be written to");
    }
}
