//! Beyond the paper: the largest gain from threads that are out of step, if they took no line from each other.
//!
//! A thread takes lines from siblings that compute at the same place of the program. Taking none at all is
//! the upper bound of the gain from getting out of step. So a result between the bounds shows how far they
//! stay in step.

use crate::rig::{beside, mean, seen, speeds, subject, with_sharing, Breakdown, Length, SEEDS};
use crate::{percent, table_2};
use corun_report::table::Table;

/// The change that tenants make to a program.
#[derive(Clone, Copy)]
enum Change {
    Time,
    Compute,
}

impl Change {
    /// The change of a program that shares lines `alone` times as often as its preset in solo runs, and `beside` times in co-runs.
    fn of(self, program: &str, others: &[String], alone: f64, beside: f64) -> f64 {
        let cost = |tenants: &[String]| match self {
            Change::Time => 1.0 / mean(&speeds(tenants, 2 * SEEDS), |s| *s),
            Change::Compute => Breakdown::of_all(&seen(tenants, SEEDS, Length::Short)).compute,
        };
        let program = |times| subject(&with_sharing(program, times));
        let together: Vec<String> = std::iter::once(program(beside)).chain(others.iter().cloned()).collect();
        cost(&together) / cost(&[program(alone)]) - 1.0
    }
}

pub fn print() {
    let (one, four) = (vec![beside("persistent", 1)], vec![beside("persistent", 4)]);
    let intermittent: Vec<String> = table_2::four_loops().collect();
    let rows = [
        ("figure 1, four loops: time", "sp", Change::Time, &four, "+13 %"),
        ("figure 1, four loops: time", "lu", Change::Time, &four, "> +100 %"),
        ("figure 3, one loop: compute", "streamcluster", Change::Compute, &one, "-12 %"),
        ("figure 3, one loop: compute", "sp", Change::Compute, &one, "-49 %"),
        ("figure 3, one loop: compute", "bt", Change::Compute, &one, "-19 %"),
        ("figure 3, one loop: compute", "lu", Change::Compute, &one, "-29 %"),
        ("table 2: time", "sp", Change::Time, &intermittent, "-9 %"),
    ];
    let mut table = Table::new(&[
        "change",
        "of",
        ">preset",
        ">no line taken beside",
        ">four times the sharing",
        ">no line taken beside",
        ">paper",
    ]);
    for (what, program, change, others, paper) in rows {
        let ours = [(1.0, 1.0), (1.0, 0.0), (4.0, 4.0), (4.0, 0.0)];
        let ours = ours.map(|(alone, beside)| percent(change.of(program, others, alone, beside)));
        let row = [what, program].map(str::to_owned).into_iter().chain(ours).chain([paper.to_owned()]);
        table.row(row.collect::<Vec<_>>());
    }
    println!(
        "Out of step: the most that threads could win which take no line from each other beside loops\n{}",
        table.text()
    );
}
