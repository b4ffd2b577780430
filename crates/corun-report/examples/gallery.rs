//! Writes every kind of report of an invented machine into a folder, for viewing: `cargo run -p corun-report
//! --example gallery -- out`

#[path = "../tests/it/example.rs"]
#[allow(dead_code, reason = "shared with the tests")]
mod example;

use corun_report::terminal::{render, Style};
use corun_report::{html, json, output, ProfileReport, Subject};
use std::path::Path;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::args().nth(1).ok_or("say where to: gallery FOLDER")?;
    let slots = example::timeline();
    let seen = example::whole(&slots);
    for (name, subject) in [("subject", Subject::Tenant(example::SUBJECT)), ("all", Subject::All)] {
        let report = ProfileReport::new(&example::meta(), &seen, subject, &slots);
        let path = |ending: &str| Path::new(&folder).join(format!("{name}.{ending}"));
        output::write_file(&path("html"), html::render(&report).as_bytes())?;
        output::write_file(&path("json"), json::indented(&report).as_bytes())?;
        println!("{}", render(&report, &Style::of_stdout()));
    }
    Ok(())
}
