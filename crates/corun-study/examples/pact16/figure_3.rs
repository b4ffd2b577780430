//! Figure 3: compute time for the same work falls when one thread is slowed.

use crate::rig::{beside, preset, seen, subject, Breakdown, Length, SEEDS};
use crate::{percent, save, state};
use corun_report::table::Table;
use corun_study::bars::{Bar, Group, COMPUTE};
use std::path::Path;

/// The programs, and the paper's change.
const PROGRAMS: [(&str, f64); 4] = [("streamcluster", -0.12), ("sp", -0.49), ("bt", -0.19), ("lu", -0.29)];

pub fn draw(folder: &Path) {
    let mut table = Table::new(&["program", ">ours", ">paper"]);
    let bars = PROGRAMS.map(|(program, paper)| {
        let compute = |tenants: &[String]| Breakdown::of_all(&seen(tenants, SEEDS, Length::Short)).compute;
        let subject = subject(&preset(program));
        let alone = compute(std::slice::from_ref(&subject));
        let change = compute(&[subject, beside("persistent", 1)]) / alone - 1.0;
        state(&format!("figure-3.{program}"), &percent(change));
        table.row([program.to_owned(), percent(change), percent(paper)]);
        Bar { name: program.into(), parts: vec![(COMPUTE, 1.0 + change)], paper: Some(1.0 + paper) }
    });
    println!(
        "Figure 3: compute time for the same work beside one persistent loop, against alone\n{}",
        table.text()
    );
    let groups = [Group { name: "one persistent loop".into(), bars: bars.to_vec() }];
    save(folder, 3, "Compute time under interference", "compute time, alone = 1", &groups);
}
