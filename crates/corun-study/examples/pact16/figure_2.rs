//! Figure 2: the steal time of a thread that shares its core with one persistent loop.

use crate::rig::{beside, preset, seen, subject, Breakdown, Length, SEEDS};
use crate::save;
use corun_report::table::Table;
use corun_study::bars::{Bar, Group, STEAL};
use std::path::Path;

const PROGRAMS: [(&str, &str); 9] = [
    ("canneal", "fine, blocking"),
    ("streamcluster", "fine, blocking"),
    ("facesim", "fine, blocking"),
    ("fluidanimate", "coarse, blocking"),
    ("blackscholes", "hardly"),
    ("swaptions", "hardly"),
    ("sp", "spinning"),
    ("lu", "spinning"),
    ("bt", "spinning"),
];

pub fn draw(folder: &Path) {
    let mut table = Table::new(&["program", "synchronizes", ">steal / compute"]);
    let bars = PROGRAMS.map(|(program, how)| {
        let tenants = [subject(&preset(program)), beside("persistent", 1)];
        let b = Breakdown::of_slowed(&seen(&tenants, SEEDS, Length::Short));
        table.row([program.to_owned(), how.to_owned(), format!("{:.2}", b.steal / b.compute)]);
        Bar { name: program.into(), parts: vec![(STEAL, b.steal / b.compute)], paper: None }
    });
    println!(
        "Figure 2: steal of the slowed thread by its compute time, beside one persistent loop (fair share: 1)\n{}",
        table.text()
    );
    let groups = [Group { name: "one persistent loop beside one thread".into(), bars: bars.to_vec() }];
    save(folder, 2, "Resilience to interference", "steal / compute", &groups);
}
