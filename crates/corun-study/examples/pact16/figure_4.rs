//! Figure 4: hardware counters of the thread that one persistent loop slows down.

use crate::rig::{beside, per_work, preset, seen, subject, Length, Seen, SEEDS};
use crate::{percent, save, state};
use corun_model::Counters;
use corun_report::table::Table;
use corun_study::bars::{Bar, Group, Part};
use std::borrow::Cow;
use std::path::Path;

/// The programs, and the paper's change in references to the LLC.
const PROGRAMS: [(&str, f64); 4] = [("streamcluster", -0.02), ("sp", -0.37), ("bt", -0.24), ("lu", -0.15)];

/// The slowed thread's counters for the same work.
fn count(runs: &[Seen], counter: fn(&Counters) -> Option<u64>) -> f64 {
    per_work(runs, true, counter)
}

pub fn draw(folder: &Path) {
    let mut table = Table::new(&[
        "program",
        ">OFFCORE_STALL",
        ">MPKI",
        ">LLC references",
        ">paper",
        ">coherence misses",
        ">other L2 misses",
        ">of references alone, coherence",
    ]);
    let groups = PROGRAMS.map(|(program, paper)| {
        let subject = subject(&preset(program));
        let alone = seen(std::slice::from_ref(&subject), SEEDS, Length::Short);
        let slowed = seen(&[subject, beside("persistent", 1)], SEEDS, Length::Short);
        let by = |of: &dyn Fn(&[Seen]) -> f64| of(&slowed) / of(&alone) - 1.0;
        let references = |runs: &[Seen]| count(runs, |c| c.llc_references);
        let coherence = |runs: &[Seen]| count(runs, |c| Some(c.coherence_intra? + c.coherence_inter?));
        let others = |runs: &[Seen]| references(runs) - coherence(runs);
        let mpki = |runs: &[Seen]| count(runs, |c| c.llc_misses) / count(runs, |c| c.instructions);
        let stall = by(&|runs| count(runs, |c| c.offcore_stall_cycles));
        let drops = [stall, by(&mpki), by(&references)];
        state(&format!("figure-4.{program}"), &percent(drops[2]));
        table.row(
            std::iter::once(program.to_owned())
                .chain(drops.map(percent))
                .chain([percent(paper), percent(by(&coherence)), percent(by(&others))])
                .chain([format!("{:.0} %", 100.0 * coherence(&alone) / references(&alone))])
                .collect::<Vec<_>>(),
        );
        let kinds = [("OFFCORE_STALL", "#0072b2"), ("MPKI", "#cc79a7"), ("LLC references", "#009e73")];
        let bars = kinds.into_iter().zip(drops).map(|((name, colour), drop)| Bar {
            name: name.into(),
            parts: vec![(Part { name: Cow::Borrowed(name), colour }, 1.0 + drop)],
            paper: (name == "LLC references").then_some(1.0 + paper),
        });
        Group { name: program.into(), bars: bars.collect() }
    });
    println!(
        "Figure 4: the slowed thread's counters for the same work beside one persistent loop, against alone\n{}",
        table.text()
    );
    save(folder, 4, "Counters of the slowed thread", "alone = 1", &groups);
}
