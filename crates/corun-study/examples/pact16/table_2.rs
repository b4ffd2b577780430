//! Table 2: sp with four intermittent loops of low demand, each on its own core.

use crate::rig::{loops, mean, preset, seen, subject, vm, Length, Seen, SEEDS};
use crate::state;
use corun_report::table::Table;

/// The demand of each loop, as a share of its core.
const DEMANDS: [f64; 4] = [0.05, 0.08, 0.10, 0.15];

/// The four loops.
pub fn four_loops() -> impl Iterator<Item = String> {
    DEMANDS.iter().enumerate().map(|(core, &demand)| {
        let program = loops("intermittent", 1, Some(demand));
        vm(&format!("loop {core}"), &program, 1, &format!("cpus = [{core}]"))
    })
}

pub fn print() {
    let subject = subject(&preset("sp"));
    let alone = seen(std::slice::from_ref(&subject), SEEDS, Length::Whole);
    let tenants: Vec<String> = std::iter::once(subject).chain(four_loops()).collect();
    let beside = seen(&tenants, SEEDS, Length::Whole);
    let seconds = |run: &Seen| run.took_ns.expect("sp ends") as f64 / 1e9;
    let cpus = |run: &Seen| run.subject().account.ledger.on_cpu_ns() as f64 / 1e9 / seconds(run);
    let mut table = Table::new(&["sp", ">alone", ">paper", ">beside loops", ">paper", ">change", ">paper"]);
    let mut row = |what: &str, of: &dyn Fn(&Seen) -> f64, unit: &str, paper: [f64; 3]| {
        let (a, b) = (mean(&alone, of), mean(&beside, of));
        let show = |x: f64| format!("{x:.0} {unit}");
        let change = |x: f64| format!("{:+.1} %", 100.0 * x);
        let [alone, beside, changed] = paper;
        state(&format!("table-2.{}", what.replace(' ', "-")), &change(b / a - 1.0));
        let changes = [change(b / a - 1.0), change(changed)];
        table.row([what.to_owned(), show(a), show(alone), show(b), show(beside)].into_iter().chain(changes));
    };
    row("CPU", &|run| 100.0 * cpus(run), "%", [400.0, 363.0, -0.092]);
    row("run time", &seconds, "s", [1004.0, 914.0, -0.090]);
    println!("Table 2: sp beside intermittent loops that want 5, 8, 10 and 15 %\n{}", table.text());
}
