//! Figure 6: where the time goes beside four interfering threads; and, beyond the paper, what that hangs on.

use crate::rig::{beside, changed, preset, seen, subject, with_sharing, Breakdown, Length, SEEDS};
use crate::{percent, save};
use corun_report::table::Table;
use corun_study::bars::{Bar, Group, Part, COMPUTE, STEAL, SYNC};
use std::path::Path;
use toml::Value;

const PROGRAMS: [&str; 4] = ["streamcluster", "canneal", "sp", "lu"];

/// Beside four threads of a pattern, or alone.
fn run(program: &str, pattern: Option<&str>, seeds: u32) -> Breakdown {
    let mut tenants = vec![subject(program)];
    tenants.extend(pattern.map(|p| beside(p, 4)));
    Breakdown::of_all(&seen(&tenants, seeds, Length::Short))
}

/// In times of the program alone.
fn stack(b: &Breakdown, alone: &Breakdown) -> Vec<(Part, f64)> {
    let whole = alone.time();
    vec![(COMPUTE, b.compute / whole), (SYNC, b.sync / whole), (STEAL, b.steal / whole)]
}

pub fn draw(folder: &Path) {
    let mut table = Table::new(&["program", "interference", ">compute", ">sync", ">steal", ">time"]);
    let groups = PROGRAMS.map(|program| {
        let alone = run(&preset(program), None, SEEDS);
        let bars = ["alone", "persistent", "periodic", "intermittent"].map(|pattern| {
            let b = if pattern == "alone" { alone } else { run(&preset(program), Some(pattern), SEEDS) };
            let parts = stack(&b, &alone);
            let share = |i: usize| format!("{:.2}", parts[i].1);
            let time: f64 = parts.iter().map(|p| p.1).sum();
            table.row([
                program.to_owned(),
                pattern.to_owned(),
                share(0),
                share(1),
                share(2),
                format!("{time:.2}"),
            ]);
            Bar { name: pattern.into(), parts, paper: None }
        });
        Group { name: program.into(), bars: bars.to_vec() }
    });
    println!(
        "Figure 6: where the time goes beside four interfering threads, in times of the program alone\n{}",
        table.text()
    );
    save(folder, 6, "Four interfering threads", "time for the same work, alone = 1", &groups);
}

pub fn by_wall_time() {
    let mut table = Table::new(&["program", ">persistent", ">periodic", ">intermittent"]);
    for program in PROGRAMS {
        let alone = run(&preset(program), None, SEEDS);
        let time =
            |pattern| format!("{:.2}", run(&preset(program), Some(pattern), SEEDS).time() / alone.time());
        let [persistent, periodic, intermittent] =
            ["persistent", "periodic by wall", "intermittent by wall"].map(time);
        table.row([program.to_owned(), persistent, periodic, intermittent]);
    }
    println!("Figure 6 with bursts by wall time: time in times alone\n{}", table.text());
}

/// Threads of lu's character with a barrier after every `grain`.
pub fn by_grain() {
    const SEEDS: u32 = 8;
    let mut table =
        Table::new(&["grain", ">persistent", ">spin", ">periodic", ">spin", ">intermittent", ">spin"]);
    for grain in ["2ms", "5ms", "10ms", "20ms", "50ms", "100ms"] {
        let program = changed("lu", |program, _| {
            program.insert("grain".into(), Value::String(grain.into()));
        });
        let alone = run(&program, None, SEEDS);
        let mut row = vec![grain.to_owned()];
        for pattern in ["persistent", "periodic", "intermittent"] {
            let b = run(&program, Some(pattern), SEEDS);
            row.push(format!("{:.2}", b.time() / alone.time()));
            row.push(format!("{:.2}", b.sync / alone.time()));
        }
        table.row(row);
    }
    println!(
        "Figure 6 by grain: time and spin of spinners beside four interfering threads, in times alone\n{}",
        table.text()
    );
}

/// lu and sp as they are, and with threads that take each other's lines four times as often.
pub fn by_sharing() {
    const SEEDS: u32 = 8;
    const OTHERS: [(&str, u32); 4] =
        [("persistent", 1), ("persistent", 4), ("periodic", 4), ("intermittent", 4)];
    let mut table = Table::new(&["program", "beside", ">time", ">spin", ">compute, against alone"]);
    for (program, times) in [("lu", 1.0), ("lu", 4.0), ("sp", 1.0), ("sp", 4.0)] {
        let program_then = with_sharing(program, times);
        let alone = run(&program_then, None, SEEDS);
        for (pattern, threads) in OTHERS {
            let tenants = [subject(&program_then), beside(pattern, threads)];
            let b = Breakdown::of_all(&seen(&tenants, SEEDS, Length::Short));
            table.row([
                format!("{program}, sharing x{times}"),
                format!("{threads} {pattern}"),
                format!("{:.2}", b.time() / alone.time()),
                format!("{:.2}", b.sync / alone.time()),
                percent(b.compute / alone.compute - 1.0),
            ]);
        }
    }
    println!("Figure 6 by sharing: time and spin in times alone, and compute time\n{}", table.text());
}
