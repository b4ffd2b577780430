//! Figure 6: the time of programs in co-runs with four interfering threads. Beyond the paper: what it depends on.

use crate::rig::{
    apart, beside, changed, preset, seen, seen_by_seed, seen_disturbed, subject, with_sharing, Breakdown,
    Length, Seen, NPB,
};
use crate::{percent, save};
use corun_report::table::Table;
use corun_sim::metrics::{estimate, geometric_mean};
use corun_study::bars::{Bar, Group, Part, COMPUTE, STEAL, SYNC};
use std::path::Path;
use toml::Value;

const SEEDS: u32 = 8;
const PROGRAMS: [&str; 4] = ["streamcluster", "canneal", "sp", "lu"];
const PATTERNS: [&str; 3] = ["persistent", "periodic", "intermittent"];

/// Runs with four threads of a pattern, or alone. With a pattern "after NAME" the program starts 300 ms later than the loops. With
/// "disturbed NAME" it also runs on a disturbed machine.
fn runs(program: &str, pattern: Option<&str>) -> Vec<Seen> {
    let late = |pattern: &str| [subject(program) + "start = \"300ms\"\n", beside(pattern, 4)];
    match pattern.map(|p| p.split_once(' ').unwrap_or(("with", p))) {
        None => seen(&[subject(program)], SEEDS, Length::Short),
        Some(("after", pattern)) => seen(&late(pattern), SEEDS, Length::Short),
        Some(("disturbed", pattern)) => seen_disturbed(&late(pattern), SEEDS),
        Some((_, "apart")) => {
            let tenants = |seed| std::iter::once(subject(program)).chain(apart(seed)).collect();
            seen_by_seed(tenants, SEEDS)
        }
        Some(_) => seen(&[subject(program), beside(pattern.unwrap_or_default(), 4)], SEEDS, Length::Short),
    }
}

fn run(program: &str, pattern: Option<&str>) -> Breakdown {
    Breakdown::of_all(&runs(program, pattern))
}

/// Time relative to the solo run, with the half width of its 95 % interval over the seeds.
fn time(runs: &[Seen], alone: &Breakdown) -> String {
    let times: Vec<f64> =
        runs.iter().map(|run| Breakdown::of_all(std::slice::from_ref(run)).time() / alone.time()).collect();
    let found = estimate(&times).expect("there is a run");
    format!("{:.2} ± {:.2}", found.mean, found.half_width.expect("there are several"))
}

/// The parts of the time, relative to the solo run.
fn stack(b: &Breakdown, alone: &Breakdown) -> Vec<(Part, f64)> {
    let whole = alone.time();
    vec![(COMPUTE, b.compute / whole), (SYNC, b.sync / whole), (STEAL, b.steal / whole)]
}

pub fn draw(folder: &Path) {
    let mut table = Table::new(&["program", "interference", ">compute", ">sync", ">steal", ">time"]);
    let groups = PROGRAMS.map(|program| {
        let alone = run(&preset(program), None);
        let bars = ["alone"].into_iter().chain(PATTERNS).map(|pattern| {
            let runs = runs(&preset(program), (pattern != "alone").then_some(pattern));
            let parts = stack(&Breakdown::of_all(&runs), &alone);
            let share = |i: usize| format!("{:.2}", parts[i].1);
            table.row([
                program.to_owned(),
                pattern.to_owned(),
                share(0),
                share(1),
                share(2),
                time(&runs, &alone),
            ]);
            Bar { name: pattern.into(), parts, paper: None }
        });
        Group { name: program.into(), bars: bars.collect() }
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
        let alone = run(&preset(program), None);
        let time = |pattern| time(&runs(&preset(program), Some(pattern)), &alone);
        let [persistent, periodic, intermittent] =
            ["persistent", "periodic by wall", "intermittent by wall"].map(time);
        table.row([program.to_owned(), persistent, periodic, intermittent]);
    }
    println!("Figure 6 with bursts by wall time: time in times alone\n{}", table.text());
}

/// The start of the loops within their period.
pub fn by_beginning() {
    const BEGINNINGS: [(&str, &str); 9] = [
        ("persistent, with the program", "persistent"),
        ("persistent, before it", "after persistent"),
        ("periodic, with the program", "periodic"),
        ("periodic, before it: in step", "after periodic"),
        ("periodic, each at a place of its own", "apart"),
        ("intermittent, before it", "after intermittent"),
        ("persistent, before it, disturbed", "disturbed persistent"),
        ("periodic, before it, disturbed", "disturbed periodic"),
        ("intermittent, before it, disturbed", "disturbed intermittent"),
    ];
    let mut table = Table::new(&["program", "loops begin", ">time", ">compute", ">sync"]);
    for program in PROGRAMS {
        let alone = run(&preset(program), None);
        for (name, pattern) in BEGINNINGS {
            let runs = runs(&preset(program), Some(pattern));
            let parts = stack(&Breakdown::of_all(&runs), &alone);
            let share = |i: usize| format!("{:.2}", parts[i].1);
            table.row([program.to_owned(), name.to_owned(), time(&runs, &alone), share(0), share(1)]);
        }
    }
    println!("Figure 6 by how the loops begin, in times alone\n{}", table.text());
}

/// A program with each pattern, as a row of the table. Returns its time and its spinning, relative to the solo run.
fn row(table: &mut Table, name: &str, program: &str) -> [(f64, f64); PATTERNS.len()] {
    let alone = run(program, None);
    let mut cells = vec![name.to_owned()];
    let found = PATTERNS.map(|pattern| {
        let runs = runs(program, Some(pattern));
        let b = Breakdown::of_all(&runs);
        let spin = b.sync / alone.time();
        cells.extend([time(&runs, &alone), format!("{spin:.2}")]);
        (b.time() / alone.time(), spin)
    });
    table.row(cells);
    found
}

fn time_and_spin() -> Table {
    Table::new(&["program", ">persistent", ">spin", ">periodic", ">spin", ">intermittent", ">spin"])
}

/// All programs that spin. The paper's figure has two of them.
pub fn by_spinner() {
    let mut table = time_and_spin();
    let rows = NPB.map(|program| row(&mut table, program, &preset(program)));
    let all = (0..PATTERNS.len()).flat_map(|i| {
        let mean = geometric_mean(&rows.map(|r| r[i].0)).expect("there are programs");
        [mean, rows.iter().map(|r| r[i].1).sum::<f64>() / rows.len() as f64]
    });
    let name = "geometric mean of time, mean of spin".to_owned();
    table.row(std::iter::once(name).chain(all.map(|n| format!("{n:.2}"))).collect::<Vec<_>>());
    println!("Figure 6 of all programs that spin: time and spin in times alone\n{}", table.text());
}

/// lu, its parts alone, and with other lengths.
pub fn by_part_of_lu() {
    let with = |change: &dyn Fn(&mut Vec<Value>)| {
        changed("lu", |program, _| {
            change(program["model"].as_array_mut().expect("lu is described in phases"));
        })
    };
    let lengths = |sweep: &'static str, alone: &'static str| {
        with(&move |phases| {
            for (phase, grain) in phases.iter_mut().zip([sweep, sweep, alone]) {
                phase.as_table_mut().expect("a phase").insert("grain".into(), Value::String(grain.into()));
            }
        })
    };
    let rows = [
        ("lu", preset("lu")),
        ("its sweeps alone", with(&|phases| phases.truncate(2))),
        ("its loops alone", with(&|phases| drop(phases.drain(..2)))),
        ("planes and loops of 0.6 times the length", lengths("2ms", "50ms")),
        ("planes and loops of 1.4 times the length", lengths("5ms", "120ms")),
        ("four times the coherence misses", with_sharing("lu", 4.0)),
    ];
    let mut table = time_and_spin();
    for (name, program) in rows {
        row(&mut table, name, &program);
    }
    println!("Figure 6, lu by what it consists of: time and spin in times alone\n{}", table.text());
}

/// Threads with lu's character and a barrier after every `grain`, instead of its sweeps and loops.
pub fn by_grain() {
    let mut table =
        Table::new(&["grain", ">persistent", ">spin", ">periodic", ">spin", ">intermittent", ">spin"]);
    for grain in ["2ms", "5ms", "10ms", "20ms", "50ms", "100ms"] {
        let program = changed("lu", |program, _| {
            *program = toml::toml! { kind = "parallel" threads = 4 wait = "spin" imbalance = 0.1 };
            program.insert("grain".into(), Value::String(grain.into()));
        });
        let alone = run(&program, None);
        let mut row = vec![grain.to_owned()];
        for pattern in PATTERNS {
            let b = run(&program, Some(pattern));
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

/// lu and sp as they are, and with threads that take lines from each other four times as often.
pub fn by_sharing() {
    const OTHERS: [(&str, u32); 4] =
        [("persistent", 1), ("persistent", 4), ("periodic", 4), ("intermittent", 4)];
    let mut table = Table::new(&["program", "beside", ">time", ">spin", ">compute, against alone"]);
    for (program, times) in [("lu", 1.0), ("lu", 4.0), ("sp", 1.0), ("sp", 4.0)] {
        let program_then = with_sharing(program, times);
        let alone = run(&program_then, None);
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
