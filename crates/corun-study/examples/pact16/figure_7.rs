//! Figure 7: low-level figures and the slowdown of programs that block. The paper draws them for
//! streamcluster and canneal with periodic and intermittent loops, and gives no numbers. It says that all of
//! them except synchronization rise with the slowdown. It also says that a longer idle time comes with more
//! preemptions and yields.

use crate::rig::{beside, mean, preset, seen, subject, Breakdown, Length, Seen};
use crate::state;
use corun_report::table::Table;

const SEEDS: u32 = 8;

pub fn print() {
    let mut table = Table::new(&[
        "program",
        "loops",
        ">time",
        ">compute",
        ">steal",
        ">block",
        ">cores idle",
        ">preemptions per s of work",
        ">yields (blockings)",
    ]);
    for program in ["streamcluster", "canneal"] {
        for pattern in ["periodic", "intermittent"] {
            let runs = seen(&[subject(&preset(program)), beside(pattern, 4)], SEEDS, Length::Short);
            let b = Breakdown::of_all(&runs);
            let idle = format!("{:.1} %", 100.0 * mean(&runs, |run: &Seen| run.idle_share(4)));
            state(&format!("figure-7.{program}.{pattern}.idle"), &idle);
            state(&format!("figure-7.{program}.{pattern}.time"), &format!("{:.2}", b.time()));
            let per_second =
                |count: fn(&Seen) -> u64| mean(&runs, |run| count(run) as f64 / (run.work_ns / 1e9));
            table.row([
                program.to_owned(),
                pattern.to_owned(),
                format!("{:.2}", b.time()),
                format!("{:.2}", b.compute),
                format!("{:.2}", b.steal),
                format!("{:.2}", b.sync),
                idle,
                format!("{:.1}", per_second(|run| run.subject().account.events.preemptions.unwrap_or(0))),
                format!("{:.0}", per_second(|run| run.subject().account.events.blocked.unwrap_or(0))),
            ]);
        }
    }
    println!("Figure 7: low-level figures beside four loops, per work of one thread alone\n{}", table.text());
}
