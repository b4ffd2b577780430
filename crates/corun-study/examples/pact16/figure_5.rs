//! Figure 5: the cost of memory for the other programs in a co-run with one persistent loop.

use crate::rig::{beside, per_work, preset, seen, subject, Length, NPB, PARSEC, SEEDS};
use crate::{percent, save, state};
use corun_report::table::Table;
use corun_study::bars::{Bar, Group, Part};
use std::borrow::Cow;
use std::path::Path;

/// The programs of figure 4.
const ELSEWHERE: [&str; 4] = ["streamcluster", "sp", "bt", "lu"];
/// The paper's least and greatest change.
const STATED: [f64; 2] = [-0.309, 0.802];

pub fn draw(folder: &Path) {
    let mut table = Table::new(&["program", ">slowed thread", ">all threads"]);
    let programs = PARSEC.into_iter().chain(NPB).filter(|p| !ELSEWHERE.contains(p));
    let mut changes = Vec::new();
    for program in programs {
        let subject = subject(&preset(program));
        let alone = seen(std::slice::from_ref(&subject), SEEDS, Length::Short);
        let slowed = seen(&[subject, beside("persistent", 1)], SEEDS, Length::Short);
        let change = |one: bool| {
            let stalls = |runs| per_work(runs, one, |c| c.offcore_stall_cycles);
            stalls(&slowed) / stalls(&alone) - 1.0
        };
        let (of_one, of_all) = (change(true), change(false));
        table.row([program.to_owned(), percent(of_one), percent(of_all)]);
        changes.push((program, of_all));
    }
    let of_all = || changes.iter().map(|c| c.1);
    state("figure-5.least", &percent(of_all().fold(f64::INFINITY, f64::min)));
    state("figure-5.most", &percent(of_all().fold(f64::NEG_INFINITY, f64::max)));
    println!(
        "Figure 5: OFFCORE_STALL for the same work beside one persistent loop, against alone\n{}\
         all threads: {} to {}; paper: {:+.1} % to {:+.1} %\n",
        table.text(),
        percent(of_all().fold(f64::INFINITY, f64::min)),
        percent(of_all().fold(f64::NEG_INFINITY, f64::max)),
        100.0 * STATED[0],
        100.0 * STATED[1],
    );
    let part = Part { name: Cow::Borrowed("OFFCORE_STALL of all threads"), colour: "#0072b2" };
    let bar = |(program, change): &(&str, f64)| Bar {
        name: (*program).into(),
        parts: vec![(part.clone(), 1.0 + change)],
        paper: None,
    };
    let groups = [Group {
        name: "one persistent loop beside one thread".into(),
        bars: changes.iter().map(bar).collect(),
    }];
    save(folder, 5, "What memory costs", "alone = 1", &groups);
}
