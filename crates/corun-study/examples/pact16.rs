//! Redraws figures 2, 3 and 6 of PACT'16 on the modelled machine: `cargo run --release -p corun-study --example pact16 [FOLDER]`.
//!
//! Each program runs on the paper's machine (one node of its Xeon under Xen's credit scheduler) in a VM of four pinned
//! vCPUs, beside loops in a VM pinned alike. Numbers that the paper states stand beside ours; where it has only a
//! picture there is nothing to compare with but the shape.

use corun_report::table::Table;
use corun_sim::experiment::{perform, Options};
use corun_sim::machine_file::MachineModel;
use corun_sim::scenario::{Files, Scenario};
use corun_study::bars::{chart, Bar, Group, COMPUTE, STEAL, SYNC};
use std::path::{Path, PathBuf};

/// The repository's own files.
struct Repository;

impl Files for Repository {
    fn read(&self, path: &str) -> Result<(String, String), String> {
        let full = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
        std::fs::read_to_string(&full).map(|text| (path.to_owned(), text)).map_err(|e| format!("{path}: {e}"))
    }

    fn host(&self) -> Result<MachineModel, String> {
        Err("these figures are of the paper's machine".into())
    }
}

/// Where the time of a program's threads went, per nanosecond of work done.
#[derive(Clone, Copy, Debug, Default)]
struct Breakdown {
    compute: f64,
    sync: f64,
    steal: f64,
}

/// Runs a preset for 20 s beside `loops` interfering threads (0: alone), over four seeds; `slowed` looks only at the
/// thread whose core the first loop shares. Of a pattern "by wall" the bursts end by the clock on the wall.
fn run(program: &str, pattern: &str, loops: u32, slowed: bool) -> Breakdown {
    run_tenant(&format!("workload = \"workloads/papers/{program}.toml\""), pattern, loops, slowed, 4)
}

/// The same of any program, as a scenario names it.
fn run_tenant(program: &str, pattern: &str, loops: u32, slowed: bool, seeds: u32) -> Breakdown {
    let cores = if loops == 1 { "[0]" } else { "[0, 1, 2, 3]" };
    let (pattern, clock) = pattern.split_once(" by ").unwrap_or((pattern, "cpu"));
    let mut text = format!(
        "schema = \"corun.scenario/1\"\nmachine = \"pact16-xeon-e5620\"\nseeds = [1]\nduration = \"20s\"\n[scheduler]\n\
         name = \"xen-credit\"\n[[tenant]]\nname = \"subject\"\n{program}\n\
         vm = {{ vcpus = 4 }}\ncpus = [0, 1, 2, 3]\n"
    );
    if loops > 0 {
        text += &format!(
            "[[tenant]]\nname = \"loop\"\nprogram = {{ kind = \"interference\", pattern = \"{pattern}\", busy-by = \"{clock}\", threads = {loops} }}\n\
             vm = {{ vcpus = {loops} }}\ncpus = {cores}\n"
        );
    }
    let mut sum = Breakdown::default();
    for seed in 1..=seeds {
        let text = text.replace("seeds = [1]", &format!("seeds = [{seed}]"));
        let scenario = Scenario::parse("figure", &text, &Repository).unwrap_or_else(|e| panic!("{e}"));
        let outcome = perform(&scenario, &Options::default(), &|| {}).unwrap_or_else(|e| panic!("{e}"));
        let run = &outcome.runs[0];
        let seen = run.recording.as_ref().and_then(|r| r.whole()).expect("the first seed is recorded");
        let ledger = if slowed { seen.tasks[0].account.ledger } else { seen.by_tenant[0].account.ledger };
        let work_ns = run.progress[0].work_ns as f64 / if slowed { 4.0 } else { 1.0 };
        let parts = ledger.parts();
        sum.compute += parts.compute_ns as f64 / work_ns;
        sum.sync += (parts.spin_ns.unwrap_or(0) + parts.block_ns) as f64 / work_ns;
        sum.steal += parts.steal_ns as f64 / work_ns;
    }
    let n = f64::from(seeds);
    Breakdown { compute: sum.compute / n, sync: sum.sync / n, steal: sum.steal / n }
}

fn stack(b: &Breakdown, alone: &Breakdown) -> Vec<(corun_study::bars::Part, f64)> {
    let whole = alone.compute + alone.sync + alone.steal;
    vec![(COMPUTE, b.compute / whole), (SYNC, b.sync / whole), (STEAL, b.steal / whole)]
}

fn figure_2(folder: &Path) {
    let mut table = Table::new(&["program", "synchronises", ">steal / compute"]);
    let programs = [
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
    let bars = programs.map(|(program, how)| {
        let b = run(program, "persistent", 1, true);
        table.row([program.to_owned(), how.to_owned(), format!("{:.2}", b.steal / b.compute)]);
        Bar { name: program.into(), parts: vec![(STEAL, b.steal / b.compute)], paper: None }
    });
    println!("Figure 2: steal of the slowed thread by its compute time, beside one persistent loop (fair share: 1)\n{}", table.text());
    let groups = [Group { name: "one persistent loop beside one thread".into(), bars: bars.to_vec() }];
    save(
        folder,
        "pact16-fig2.svg",
        &chart("Resilience to interference (PACT'16 figure 2, modelled)", "steal / compute", &groups),
    );
}

fn figure_3(folder: &Path) {
    let mut table = Table::new(&["program", ">ours", ">paper"]);
    let programs = [("streamcluster", -0.12), ("sp", -0.49), ("bt", -0.19), ("lu", -0.29)];
    let bars = programs.map(|(program, paper)| {
        let (alone, beside) = (run(program, "", 0, false), run(program, "persistent", 1, false));
        let change = beside.compute / alone.compute - 1.0;
        table.row([
            program.to_owned(),
            format!("{:+.0} %", change * 100.0),
            format!("{:+.0} %", paper * 100.0),
        ]);
        Bar { name: program.into(), parts: vec![(COMPUTE, 1.0 + change)], paper: Some(1.0 + paper) }
    });
    println!(
        "Figure 3: compute time for the same work beside one persistent loop, against alone\n{}",
        table.text()
    );
    let groups = [Group { name: "one persistent loop".into(), bars: bars.to_vec() }];
    save(
        folder,
        "pact16-fig3.svg",
        &chart(
            "Compute time under interference (PACT'16 figure 3, modelled)",
            "compute time, alone = 1",
            &groups,
        ),
    );
}

fn figure_6(folder: &Path) {
    let mut table = Table::new(&["program", "interference", ">compute", ">sync", ">steal", ">time"]);
    let groups: Vec<Group> = ["streamcluster", "canneal", "sp", "lu"]
        .iter()
        .map(|program| {
            let alone = run(program, "", 0, false);
            let bars = ["alone", "persistent", "periodic", "intermittent"].map(|pattern| {
                let b = if pattern == "alone" { alone } else { run(program, pattern, 4, false) };
                let parts = stack(&b, &alone);
                let share = |i: usize| format!("{:.2}", parts[i].1);
                let time: f64 = parts.iter().map(|p| p.1).sum();
                table.row([
                    (*program).to_owned(),
                    pattern.to_owned(),
                    share(0),
                    share(1),
                    share(2),
                    format!("{time:.2}"),
                ]);
                Bar { name: pattern.into(), parts, paper: None }
            });
            Group { name: (*program).into(), bars: bars.to_vec() }
        })
        .collect();
    println!(
        "Figure 6: where the time goes beside four interfering threads, in times of the program alone\n{}",
        table.text()
    );
    save(
        folder,
        "pact16-fig6.svg",
        &chart(
            "Four interfering threads (PACT'16 figure 6, modelled)",
            "time for the same work, alone = 1",
            &groups,
        ),
    );
}

/// Beyond the paper: what figure 6 hangs on for spinners. Threads of lu's character with a barrier after every `grain`.
fn figure_6_by_grain() {
    let (_, preset) = Repository.read("workloads/papers/lu.toml").unwrap_or_else(|e| panic!("{e}"));
    let (_, character) = preset.split_once("[character]").expect("the preset has a character");
    let character: Vec<&str> = character.lines().filter(|line| line.contains('=')).collect();
    let character = character.join(", ");
    let patterns = ["persistent", "periodic", "intermittent"];
    let mut table =
        Table::new(&["grain", ">persistent", ">spin", ">periodic", ">spin", ">intermittent", ">spin"]);
    for grain in ["2ms", "5ms", "10ms", "20ms", "50ms", "100ms"] {
        let program = format!(
            "program = {{ kind = \"parallel\", threads = 4, wait = \"spin\", grain = \"{grain}\", imbalance = 0.1 }}\ncharacter = {{ {character} }}"
        );
        let alone = run_tenant(&program, "", 0, false, 8);
        let mut row = vec![grain.to_owned()];
        for pattern in patterns {
            let parts = stack(&run_tenant(&program, pattern, 4, false, 8), &alone);
            row.push(format!("{:.2}", parts.iter().map(|p| p.1).sum::<f64>()));
            row.push(format!("{:.2}", parts[1].1));
        }
        table.row(row);
    }
    println!(
        "Figure 6 by grain: time and spin of spinners beside four interfering threads, in times alone\n{}",
        table.text()
    );
}

fn figure_6_by_wall_time() {
    let mut table = Table::new(&["program", ">persistent", ">periodic", ">intermittent"]);
    for program in ["streamcluster", "canneal", "sp", "lu"] {
        let alone = run(program, "", 0, false);
        let time = |pattern| {
            let parts = stack(&run(program, pattern, 4, false), &alone);
            format!("{:.2}", parts.iter().map(|p| p.1).sum::<f64>())
        };
        let [persistent, periodic, intermittent] =
            ["persistent", "periodic by wall", "intermittent by wall"].map(time);
        table.row([program.to_owned(), persistent, periodic, intermittent]);
    }
    println!("Figure 6 with bursts by wall time: time in times alone\n{}", table.text());
}

fn save(folder: &Path, name: &str, svg: &str) {
    let path = folder.join(name);
    match corun_report::output::write_file(&path, svg.as_bytes()) {
        Ok(()) => println!("wrote {}\n", path.display()),
        Err(e) => eprintln!("{e}"),
    }
}

fn main() {
    let folder = PathBuf::from(std::env::args().nth(1).unwrap_or_else(|| "out".into()));
    if let Err(e) = std::fs::create_dir_all(&folder) {
        eprintln!("cannot make {}: {e}", folder.display());
        std::process::exit(1);
    }
    figure_2(&folder);
    figure_3(&folder);
    figure_6(&folder);
    figure_6_by_wall_time();
    figure_6_by_grain();
}
