//! Figure 1: slowdowns in co-runs with four threads of a loop, of streamcluster and of fluidanimate.

use crate::rig::{beside, changed, mean, preset, speeds, subject, vm, NPB, PARSEC, PINNED};
use crate::{percent, save, state};
use corun_report::table::Table;
use corun_study::bars::{Bar, Group, Part};
use std::borrow::Cow;
use std::path::Path;
use toml::Value;

const SEEDS: u32 = 8;
/// The interferers.
const BESIDE: [&str; 3] = ["loop", "streamcluster", "fluidanimate"];
/// The numbers in the paper's text. For lu with the loop it says: more than 1.
const STATED: [(&str, &str, f64); 3] =
    [("sp", "loop", 0.13), ("facesim", "streamcluster", 1.65), ("facesim", "fluidanimate", 0.53)];
/// The programs in the paper's text, which the chart shows.
const NAMED: [&str; 4] = ["facesim", "vips", "lu", "sp"];

/// Slowdowns minus 1 with each interferer.
fn slowdowns(program: &str) -> [f64; 3] {
    let subject = subject(program);
    let speed = |tenants: &[String]| mean(&speeds(tenants, SEEDS), |s| *s);
    let alone = speed(std::slice::from_ref(&subject));
    BESIDE.map(|name| {
        let other = match name {
            "loop" => beside("persistent", 4),
            program => vm("background", &preset(program), 4, PINNED),
        };
        alone / speed(&[subject.clone(), other]) - 1.0
    })
}

pub fn draw(folder: &Path) {
    let mut table = Table::new(&["program", ">loop", ">streamcluster", ">fluidanimate"]);
    let mut groups = Vec::new();
    for program in PARSEC.into_iter().chain(NPB) {
        let ours = slowdowns(&preset(program));
        BESIDE
            .iter()
            .zip(ours)
            .for_each(|(other, x)| state(&format!("figure-1.{program}.{other}"), &percent(x)));
        table.row(std::iter::once(program.to_owned()).chain(ours.map(percent)).collect::<Vec<_>>());
        if NAMED.contains(&program) {
            let bar = |(name, slowdown): (&str, f64)| Bar {
                name: name.into(),
                parts: vec![(Part { name: Cow::Borrowed("slowdown"), colour: "#0072b2" }, slowdown)],
                paper: STATED.iter().find(|s| (s.0, s.1) == (program, name)).map(|s| s.2),
            };
            groups
                .push(Group { name: program.into(), bars: BESIDE.into_iter().zip(ours).map(bar).collect() });
        }
    }
    println!("Figure 1: slowdowns beside four threads of something else\n{}", table.text());
    save(folder, 1, "Slowdowns", "slowdown, 0: as alone", &groups);
}

/// Beyond the paper: what facesim's slowdowns depend on.
pub fn facesim_by_grain() {
    let mut table = Table::new(&["a barrier every", ">loop", ">streamcluster", ">fluidanimate"]);
    for grain in ["4ms", "8ms", "12ms", "16ms", "24ms", "32ms", "50ms"] {
        let program = changed("facesim", |program, _| {
            program.insert("grain".into(), Value::String(grain.into()));
        });
        let ours = slowdowns(&program).map(percent);
        table.row(std::iter::once(grain.to_owned()).chain(ours).collect::<Vec<_>>());
    }
    println!("Figure 1, facesim by the work between two barriers\n{}", table.text());
}
