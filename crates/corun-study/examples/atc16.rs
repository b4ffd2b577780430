//! Redraws ATC'16 on the modelled machines: figures 2, 4, 5 and 6, sensitivity and overhead: `cargo run --release -p corun-study
//! --example atc16 [FOLDER]`.
//!
//! `--quick` makes each run five times shorter. `--sample` reads counters every millisecond, as the paper does, instead of every 100
//! ms. `--linux RELEASE` names the kernel for placement and balancing; 3.14 is the paper's. `--background` adds the threads of an idle
//! Linux. `--record FILE` also writes the figures as a record that documents quote. `--only
//! alone,mixes-40,mixes-80,mongodb,thresholds,overhead` makes some parts, and leaves the rest of a record as it is.
//!
//! Programs are the presets of `workloads/papers`, run again and again for twenty seconds. A speed is work per time. A program's best
//! static mapping is the one of [`mappings`] with the fastest solo run. Numbers that the paper states are printed next to ours. Of
//! figures without numbers only the shape can be compared.

use corun_model::{Host, Outcome};
use corun_policy::{by_name, Options, Scope};
use corun_report::table::Table;
use corun_sim::machine_file::MachineModel;
use corun_sim::metrics::geometric_mean;
use corun_sim::scenario::{Participants, Scenario};
use corun_study::bars::{chart, Bar, Group, Part};
use corun_study::facts::{self, Facts};
use corun_study::paper_figures::PaperFigures;
use corun_study::schedulers::presets::Presets;
use rayon::prelude::*;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::Instant;

/// The figures for the record, by name, each with that of the paper.
static STATED: Mutex<BTreeMap<String, String>> = Mutex::new(BTreeMap::new());
/// Whether counters are read every millisecond.
static SAMPLED: AtomicBool = AtomicBool::new(false);
/// The kernel for placement and balancing. Unset: the last kernel with CFS.
static LINUX_IS: OnceLock<String> = OnceLock::new();
/// Whether the threads of an idle Linux run as well.
static BACKGROUND: AtomicBool = AtomicBool::new(false);
/// Their presets: one thread per CPU, and one for the machine.
const KTHREADS: [&str; 2] = ["linux-kworker", "linux-kthreads"];

/// A program, and its number of threads.
type App = (&'static str, usize);

const SMALL: &str = "atc16-ivybridge-40";
const LARGE: &str = "atc16-haswell-80";

/// Table 2: the mixes of the 40-CPU machine.
const MIXES_40: [&[App]; 30] = [
    &[("als", 12), ("sgd", 14), ("lsgd", 14)],
    &[("als", 12), ("sgd", 14), ("bsgd", 14)],
    &[("als", 12), ("bsgd", 14), ("lsgd", 14)],
    &[("als", 12), ("svd", 14), ("bsgd", 14)],
    &[("als", 12), ("svd", 14), ("lsgd", 14)],
    &[("als", 12), ("svd", 14), ("sgd", 14)],
    &[("als", 12), ("svd", 14), ("rbm", 14)],
    &[("als", 12), ("sgd", 14), ("rbm", 14)],
    &[("pmf", 12), ("sgd", 14), ("rbm", 14)],
    &[("pmf", 12), ("sgd", 14), ("bsgd", 14)],
    &[("pmf", 12), ("sgd", 14), ("lsgd", 14)],
    &[("sgd", 20), ("bsgd", 20)],
    &[("sgd", 20), ("lsgd", 20)],
    &[("sgd", 20), ("svd", 20)],
    &[("bsgd", 20), ("lsgd", 20)],
    &[("lsgd", 20), ("als", 20)],
    &[("lsgd", 20), ("svd", 20)],
    &[("bsgd", 20), ("svd", 20)],
    &[("sgd", 6), ("bsgd", 6), ("membench", 4), ("cpu", 4)],
    &[("bsgd", 6), ("lsgd", 6), ("membench", 4), ("cpu", 4)],
    &[("sgd", 6), ("lsgd", 6), ("membench", 4), ("cpu", 4)],
    &[("sgd", 10), ("bsgd", 10)],
    &[("sgd", 10), ("lsgd", 10)],
    &[("lsgd", 10), ("bsgd", 10)],
    &[("lsgd", 10), ("als", 10)],
    &[("svd", 10), ("sgd", 10)],
    &[("svd", 10), ("bsgd", 10)],
    &[("svd", 10), ("lsgd", 10)],
    &[("svd", 8), ("lsgd", 8)],
    &[("svd", 6), ("lsgd", 6)],
];

/// Table 3: the mixes of the 80-CPU machine.
const MIXES_80: [&[App]; 11] = [
    &[("sgd", 20), ("bsgd", 20), ("svd", 20)],
    &[("sgd", 20), ("bsgd", 20), ("svd", 20), ("als", 20)],
    &[("sgd", 20), ("bsgd", 20), ("svd", 20), ("lsgd", 20)],
    &[("sgd", 20), ("bsgd", 20), ("rbm", 20), ("lsgd", 20)],
    &[("sgd", 20), ("bsgd", 20), ("rbm", 20), ("svd", 20)],
    &[("sgd", 20), ("bsgd", 20), ("rbm", 20), ("als", 20)],
    &[("sgd", 16), ("svd", 16), ("als", 16), ("lsgd", 16), ("bsgd", 16)],
    &[("sgd", 16), ("svd", 16), ("pmf", 16), ("bsgd", 16), ("lsgd", 16)],
    &[("rbm", 16), ("lsgd", 16), ("svd", 16), ("pmf", 16), ("bsgd", 16)],
    &[("rbm", 16), ("lsgd", 16), ("svd", 16), ("pmf", 16), ("als", 16)],
    &[("svd", 16), ("sgd", 16), ("rbm", 16), ("bsgd", 16), ("lsgd", 16)],
];

/// Table 1: the programs alone.
const ALONE: [App; 15] = [
    ("hubench", 20),
    ("lubench", 10),
    ("lubench", 20),
    ("membench", 10),
    ("membench", 20),
    ("sgd", 20),
    ("bsgd", 20),
    ("lsgd", 20),
    ("rbm", 20),
    ("svd", 20),
    ("pmf", 10),
    ("pmf", 20),
    ("als", 10),
    ("als", 20),
    ("tunkrank", 20),
];

/// A mapper of tasks: its name, its policy, its options.
type Mapper = (&'static str, Option<&'static str>, &'static [(&'static str, &'static str)]);

const LINUX: Mapper = ("Linux", None, &[]);
const SAM: Mapper = ("SAM", Some("sam"), &[]);
const M: Mapper = ("SAM-M", Some("sam"), &[("tolerance", "true")]);
const MP: Mapper = ("SAM-MP", Some("sam"), &[("tolerance", "true"), ("history", "true")]);
const MPH: Mapper = ("SAM-MPH", Some("sam_mph"), &[]);

/// The length of each run, in nanoseconds.
#[derive(Clone, Copy)]
struct Length(u64);

/// Each program's work per nanosecond on a machine in a co-run, under a mapper or, for one program, pinned.
fn speeds(machine: &str, apps: &[App], mapper: Mapper, pins: &[usize], length: Length) -> Vec<f64> {
    run(machine, apps, mapper.1, mapper.2, pins, length)
}

/// The same under a policy with options.
fn speeds_with(
    machine: &str,
    apps: &[App],
    policy: &str,
    options: &[(&str, &str)],
    length: Length,
) -> Vec<f64> {
    run(machine, apps, Some(policy), options, &[], length)
}

fn run(
    machine: &str,
    apps: &[App],
    policy: Option<&str>,
    options: &[(&str, &str)],
    pins: &[usize],
    length: Length,
) -> Vec<f64> {
    let mut text = format!(
        "schema = \"corun.scenario/1\"\nmachine = \"{machine}\"\nduration = \"1h\"\n[scheduler]\nname = \"cfs\"\ngroups = false\n{}",
        LINUX_IS.get().map_or(String::new(), |release| format!("linux = \"{release}\"\n"))
    );
    for (name, threads) in apps {
        text += &format!(
            "[[tenant]]\nworkload = \"workloads/papers/{name}.toml\"\nthreads = {threads}\nrepeat = true\n"
        );
        if !pins.is_empty() {
            text += &format!("cpus = {pins:?}\n");
        }
    }
    if BACKGROUND.load(Ordering::Relaxed) {
        let cpus: Vec<usize> =
            (0..MachineModel::shipped(machine).expect("it is shipped").machine.cpu_count()).collect();
        let tenant = |name: &str| format!("[[tenant]]\nworkload = \"workloads/papers/{name}.toml\"\n");
        text += &format!("{}threads = {}\ncpus = {cpus:?}\n", tenant(KTHREADS[0]), cpus.len());
        text += &tenant(KTHREADS[1]);
    }
    let scenario = Scenario::parse("figure", &text, &Presets).unwrap_or_else(|e| panic!("{e}"));
    let mut engine = scenario.engine(1, Participants::All, 0).unwrap_or_else(|e| panic!("{e}"));
    let scope = Scope::everyone().protect(KTHREADS);
    let mut options =
        options.iter().fold(Options::new().scope(scope), |o, (name, value)| o.set(*name, *value));
    if policy.is_some() && SAMPLED.load(Ordering::Relaxed) {
        options = options.set("sample", "1ms");
    }
    let mut policy = by_name(policy.unwrap_or("observe"), &options).unwrap_or_else(|e| panic!("{e}"));
    while engine.now_ns() < length.0 {
        engine.advance(policy.epoch_ns()).expect("no checker fires");
        let seen = Host::observe(&mut engine).expect("no checker fires");
        for decision in policy.decide(engine.machine(), &seen) {
            assert_eq!(engine.apply(&decision.action), Outcome::Done, "{decision:?}");
        }
    }
    let elapsed_ns = engine.now_ns() as f64;
    engine.progress()[..apps.len()].iter().map(|p| p.work_ns as f64 / elapsed_ns).collect()
}

/// Static mappings of this many threads: the CPUs in turn, one per thread.
fn mappings(machine: &str, threads: usize) -> Vec<Vec<usize>> {
    let model = MachineModel::shipped(machine).expect("it is shipped");
    let cpus = model.machine.cpus();
    let by = |key: &dyn Fn(usize) -> (u32, u32, u32)| {
        let mut all: Vec<usize> = (0..cpus.len()).collect();
        all.sort_by_key(|&i| key(i));
        all.truncate(threads);
        all
    };
    // A core's first context is before its others in the list.
    let context = |i: usize| cpus[..i].iter().filter(|c| c.core == cpus[i].core).count() as u32;
    let rank = |i: usize| cpus[..i].iter().filter(|c| c.socket == cpus[i].socket).count() as u32;
    let mut all = vec![
        // Socket after socket: the cores of each first, or both contexts of a core in turn.
        by(&|i| (cpus[i].socket, context(i), cpus[i].core)),
        by(&|i| (cpus[i].socket, cpus[i].core, context(i))),
        // One thread per core: socket after socket, or alternating between sockets.
        by(&|i| (context(i), cpus[i].socket, cpus[i].core)),
        by(&|i| (context(i), rank(i), cpus[i].socket)),
    ];
    all.sort_unstable();
    all.dedup();
    all
}

/// The best solo speed of every program under a static mapping.
fn best(machine: &str, apps: impl Iterator<Item = App>, length: Length) -> BTreeMap<App, f64> {
    let all: std::collections::BTreeSet<App> = apps.collect();
    let of = |app: App| {
        let speed = |pins: Vec<usize>| speeds(machine, &[app], LINUX, &pins, length)[0];
        let most = mappings(machine, app.1).into_iter().map(speed).fold(0.0, f64::max);
        (app, most)
    };
    all.into_par_iter().map(of).collect()
}

/// Speed-ups over the best static mapping: for each cell, mapper and program.
fn speedups(machine: &str, cells: &[&[App]], mappers: &[Mapper], length: Length) -> Vec<Vec<Vec<f64>>> {
    let best = best(machine, cells.iter().flat_map(|c| c.iter().copied()), length);
    let jobs: Vec<(usize, usize)> =
        (0..cells.len()).flat_map(|c| (0..mappers.len()).map(move |m| (c, m))).collect();
    let run = |&(c, m): &(usize, usize)| {
        let speeds = speeds(machine, cells[c], mappers[m], &[], length);
        cells[c].iter().zip(speeds).map(|(app, speed)| speed / best[app]).collect::<Vec<f64>>()
    };
    let flat: Vec<Vec<f64>> = jobs.par_iter().map(run).collect();
    flat.chunks(mappers.len()).map(<[Vec<f64>]>::to_vec).collect()
}

fn mean(values: &[f64]) -> f64 {
    geometric_mean(values).expect("there are some")
}

/// The least or the largest of some gains, in percent.
fn of_all(gains: &[f64], which: fn(f64, f64) -> f64) -> String {
    percent(gains.iter().copied().reduce(which).expect("there are mixes"))
}

/// The gain of one mapper over another: the geometric means of each mix, averaged.
fn gain(of: &[Vec<Vec<f64>>], mapper: usize, over: usize) -> f64 {
    let ratios: Vec<f64> = of.iter().map(|cell| mean(&cell[mapper]) / mean(&cell[over])).collect();
    mean(&ratios) - 1.0
}

/// Per mapper the geometric means over mixes of the slowest and of the fastest program's speed-up.
fn spread(of: &[Vec<Vec<f64>>], mapper: usize) -> (f64, f64) {
    let ends = |f: fn(f64, f64) -> f64| -> Vec<f64> {
        of.iter().map(|cell| cell[mapper].iter().copied().reduce(f).expect("a mix has programs")).collect()
    };
    (mean(&ends(f64::min)), mean(&ends(f64::max)))
}

fn percent(x: f64) -> String {
    format!("{:+.0} %", x * 100.0)
}

fn name_of(cell: &[App]) -> String {
    cell.iter().map(|(name, n)| format!("{n} {}", name.to_uppercase())).collect::<Vec<_>>().join(", ")
}

/// A table of cells by mappers.
fn table(title: &str, cells: &[&[App]], mappers: &[Mapper], of: &[Vec<Vec<f64>>]) {
    let heads: Vec<String> = mappers.iter().map(|m| format!(">{}", m.0)).collect();
    let mut columns = vec!["programs"];
    columns.extend(heads.iter().map(String::as_str));
    let mut rows = Table::new(&columns);
    for (cell, by_mapper) in cells.iter().zip(of) {
        let speed = by_mapper.iter().map(|s| format!("{:.2}", mean(s)));
        rows.row(std::iter::once(name_of(cell)).chain(speed).collect::<Vec<_>>());
    }
    println!("{title}\n{}", rows.text());
}

/// The mappers in a chart, and their colors.
const DRAWN: [(&str, &str); 3] = [("Linux", "#999999"), ("SAM", "#f0c000"), ("SAM-MPH", "#0072b2")];

/// A chart of some cells, numbered from `first`. Single programs have their names.
fn draw(file: &Path, title: &str, first: usize, cells: &[&[App]], mappers: &[Mapper], of: &[Vec<Vec<f64>>]) {
    let bar = |by_mapper: &[Vec<f64>], (name, colour): (&'static str, &'static str)| {
        let place = mappers.iter().position(|m| m.0 == name).expect("every table has those that are drawn");
        let part = Part { name: Cow::Borrowed(name), colour };
        Bar { name: String::new(), parts: vec![(part, mean(&by_mapper[place]))], paper: None }
    };
    let group = |(n, (cell, by_mapper)): (usize, (&&[App], &Vec<Vec<f64>>))| Group {
        name: if cell.len() == 1 { name_of(cell) } else { format!("{}", first + n) },
        bars: DRAWN.map(|drawn| bar(by_mapper, drawn)).to_vec(),
    };
    let groups: Vec<Group> = cells.iter().zip(of).enumerate().map(group).collect();
    std::fs::write(file, chart(title, "speed, best static mapping alone = 1", &groups))
        .expect("the folder can be written to");
}

/// Prints figures next to the paper's, and keeps them under `part` and a name.
fn stated(part: &str, rows: &[(&str, &str, String, &str)]) {
    let mut table = Table::new(&["what the paper states", ">ours", ">paper"]);
    for (name, what, ours, paper) in rows {
        table.row([(*what).to_owned(), ours.clone(), (*paper).to_owned()]);
        STATED.lock().expect("nobody panics").insert(format!("{part}.{name}"), ours.clone());
    }
    println!("{}", table.text());
}

/// The mean gain over Linux of single programs: of all, and without HuBench, whose sixfold gain would dominate.
fn alone_gains(part: &str, of: &[Vec<Vec<f64>>], mph: usize, paper: &str) {
    let is_hubench = |i: usize| ALONE[i].0 == "hubench";
    let others: Vec<_> = (0..of.len()).filter(|&i| !is_hubench(i)).map(|i| of[i].clone()).collect();
    let hubench: Vec<_> = (0..of.len()).filter(|&i| is_hubench(i)).map(|i| of[i].clone()).collect();
    // The paper does not say which mean it uses.
    let ratios = of.iter().map(|cell| mean(&cell[mph]) / mean(&cell[0]));
    let arithmetic = ratios.sum::<f64>() / of.len() as f64 - 1.0;
    stated(
        part,
        &[
            ("mph-linux", "SAM-MPH over Linux, on average", percent(gain(of, mph, 0)), paper),
            ("mph-linux-no-hubench", "without HuBench", percent(gain(&others, mph, 0)), ""),
            ("mph-linux-arithmetic", "as an arithmetic mean", percent(arithmetic), ""),
            ("mph-linux-hubench", "HuBench", percent(gain(&hubench, mph, 0)), ""),
        ],
    );
}

fn alone(folder: &Path, length: Length) {
    let cells: Vec<&[App]> = ALONE.iter().map(std::slice::from_ref).collect();
    let mappers = [LINUX, SAM, M, MP, MPH];
    let of = speedups(SMALL, &cells, &mappers, length);
    table("Alone on 40 CPUs (ATC'16 figure 2, modelled)", &cells, &mappers, &of);
    draw(
        &folder.join("atc16-fig2.svg"),
        "Alone on 40 CPUs (ATC'16 figure 2, modelled)",
        1,
        &cells,
        &mappers,
        &of,
    );
    alone_gains("alone-40", &of, 4, "+25 %");
    for (program, threads) in [("lubench", 20), ("pmf", 20), ("rbm", 20), ("svd", 20), ("als", 20)] {
        let cell = ALONE.iter().position(|app| *app == (program, threads)).expect("it is listed");
        let one = std::slice::from_ref(&of[cell]);
        let (mph, sam) = (percent(gain(one, 4, 1)), percent(gain(one, 1, 0)));
        stated(
            &format!("alone-40.{program}"),
            &[("mph-sam", "SAM-MPH over SAM", mph, "more"), ("sam-linux", "SAM over Linux", sam, "")],
        );
    }
    let mappers = [LINUX, SAM, MPH];
    let of = speedups(LARGE, &cells, &mappers, length);
    table("Alone on 80 CPUs (ATC'16 figure 4, modelled)", &cells, &mappers, &of);
    draw(
        &folder.join("atc16-fig4.svg"),
        "Alone on 80 CPUs (ATC'16 figure 4, modelled)",
        1,
        &cells,
        &mappers,
        &of,
    );
    alone_gains("alone-80", &of, 2, "+57 %");
}

fn mixes_40(folder: &Path, length: Length) {
    let mappers = [LINUX, SAM, M, MP, MPH];
    let of = speedups(SMALL, &MIXES_40, &mappers, length);
    table("Mixes on 40 CPUs (ATC'16 figure 5, modelled)", &MIXES_40, &mappers, &of);
    for (file, mixes) in [("atc16-fig5-1.svg", 0..15), ("atc16-fig5-2.svg", 15..30)] {
        let (first, cells, of) = (mixes.start + 1, &MIXES_40[mixes.clone()], &of[mixes]);
        draw(&folder.join(file), "Mixes on 40 CPUs (ATC'16 figure 5, modelled)", first, cells, &mappers, of);
    }
    let means: Vec<f64> = of.iter().map(|cell| mean(&cell[4])).collect();
    let first = &of[..11];
    let pair = |m: usize| format!("{}, {}", percent(gain(first, m, 0)), percent(gain(first, m, 1)));
    let ends = |m: usize| format!("{:.3}, {:.3}", spread(&of, m).0, spread(&of, m).1);
    let over_sam: Vec<f64> = of.iter().map(|cell| gain(std::slice::from_ref(cell), 4, 1)).collect();
    let least = format!("{:.3}", means.iter().copied().fold(f64::MAX, f64::min));
    stated(
        "mixes-40",
        &[
            ("mph-linux", "SAM-MPH over Linux, 30 mixes", percent(gain(&of, 4, 0)), "+27 %"),
            ("mph-sam", "SAM-MPH over SAM", percent(gain(&of, 4, 1)), "+9 %"),
            ("mph-sam-most", "most of a mix", of_all(&over_sam, f64::max), "+24 %"),
            ("static-mean", "against the best static mapping: mean", format!("{:.3}", mean(&means)), "0.976"),
            ("static-least", "least", least, "0.93"),
            ("1-11.m", "mixes 1 to 11: SAM-M over Linux, SAM", pair(2), "+21 %, +5 %"),
            ("1-11.mp", "SAM-MP over Linux, SAM", pair(3), "+25 %, +8 %"),
            ("1-11.mph", "SAM-MPH over Linux, SAM", pair(4), "+30 %, +13 %"),
            ("ends.mph", "slowest and fastest program of a mix: SAM-MPH", ends(4), "0.953, 1.000"),
            ("ends.sam", "SAM", ends(1), "0.860, 0.932"),
            ("ends.linux", "Linux", ends(0), "0.710, 0.839"),
        ],
    );
}

fn mixes_80(folder: &Path, length: Length) {
    let mappers = [LINUX, SAM, MPH];
    let of = speedups(LARGE, &MIXES_80, &mappers, length);
    table("Mixes on 80 CPUs (ATC'16 figure 6, modelled)", &MIXES_80, &mappers, &of);
    draw(
        &folder.join("atc16-fig6.svg"),
        "Mixes on 80 CPUs (ATC'16 figure 6, modelled)",
        1,
        &MIXES_80,
        &mappers,
        &of,
    );
    let gains: Vec<f64> = of.iter().map(|cell| gain(std::slice::from_ref(cell), 2, 0)).collect();
    let ends = |m: usize| format!("{:.3}, {:.3}", spread(&of, m).0, spread(&of, m).1);
    let over_sam: Vec<f64> = of.iter().map(|cell| gain(std::slice::from_ref(cell), 2, 1)).collect();
    stated(
        "mixes-80",
        &[
            ("mph-linux", "SAM-MPH over Linux, 11 mixes", percent(gain(&of, 2, 0)), "+43 %"),
            ("mph-sam", "SAM-MPH over SAM", percent(gain(&of, 2, 1)), "+21 %"),
            ("mph-sam-most", "most of a mix", of_all(&over_sam, f64::max), "+27 %"),
            ("most", "best mix over Linux", of_all(&gains, f64::max), "+61 %"),
            ("least", "least", of_all(&gains, f64::min), "+29 %"),
            ("ends.mph", "slowest and fastest program of a mix: SAM-MPH", ends(2), "0.889, 0.989"),
            ("ends.sam", "SAM", ends(1), "0.734, 0.822"),
            ("ends.linux", "Linux", ends(0), "0.571, 0.795"),
        ],
    );
}

/// Section 5.2: MongoDB under load from YCSB, over Linux; the paper's larger machine first.
fn mongodb(length: Length) {
    let app = [("mongodb-ycsb", 20)];
    let over_linux = |machine| {
        let speed = |mapper| mean(&speeds(machine, &app, mapper, &[], length));
        format!("{:+.1} %", 100.0 * (speed(MPH) / speed(LINUX) - 1.0))
    };
    println!("MongoDB (ATC'16 section 5.2, modelled)");
    stated(
        "mongodb",
        &[("80", "80 CPUs", over_linux(LARGE), "+3.67 %"), ("40", "40 CPUs", over_linux(SMALL), "+6.6 %")],
    );
}

fn sensitivity(length: Length) {
    let change = |apps: &[App], options: &'static [(&'static str, &'static str)]| {
        let plain = mean(&speeds(SMALL, apps, MPH, &[], length));
        percent(mean(&speeds(SMALL, apps, ("", Some("sam_mph"), options), &[], length)) / plain - 1.0)
    };
    println!("Thresholds (ATC'16 section 5.4, modelled)");
    stated(
        "thresholds",
        &[
            ("ipc-pmf", "IPC 20 % higher: PMF", change(&[("pmf", 20)], &[("ipc", "1080")]), "-7 %"),
            (
                "ipc-sgd",
                "IPC 30 % lower: SGD, 20 threads",
                change(&[("sgd", 20)], &[("ipc", "630")]),
                "-18 %",
            ),
            (
                "coherence-8",
                "coherence 30 % higher: mix 8",
                change(MIXES_40[7], &[("high", "1014")]),
                "-15 %",
            ),
            ("coherence-1", "coherence 50 % lower: mix 1", change(MIXES_40[0], &[("high", "390")]), "-30 %"),
        ],
    );
    // Whether any threshold matters: the worst change up to half, in steps of a quarter, for all single programs and mixes 1 to 11.
    let apps: Vec<&[App]> =
        ALONE.iter().map(std::slice::from_ref).chain(MIXES_40[..11].iter().copied()).collect();
    let brief = Length(length.0.min(4_000_000_000));
    for (name, what, at) in [("ipc", "IPC", 900), ("high", "coherence", 780)] {
        let percents = [-50i64, -25, 0, 25, 50];
        let cells: Vec<(usize, i64)> =
            (0..apps.len()).flat_map(|i| percents.map(move |percent| (i, percent))).collect();
        let speed = |&(i, percent): &(usize, i64)| {
            let value = (at * (100 + percent) / 100).to_string();
            mean(&speeds_with(SMALL, apps[i], "sam_mph", &[(name, &value)], brief))
        };
        let all: Vec<f64> = cells.par_iter().map(speed).collect();
        let losses = cells.iter().zip(&all).map(|(&(i, percent), speed)| {
            let plain = all[i * percents.len() + 2];
            (speed / plain - 1.0, i, percent)
        });
        let (loss, i, by) = losses.min_by(|a, b| a.0.total_cmp(&b.0)).expect("there are cells");
        let worst = format!("{} ({}, {by:+} %)", percent(loss), name_of(apps[i]));
        stated(
            "thresholds",
            &[(&format!("worst-{name}"), &format!("{what} by up to half: worst"), worst, "")],
        );
    }
}

/// The median time of one decision here, with 80 running tasks.
fn overhead() {
    let microseconds = |apps: usize| {
        let mut text = format!("schema = \"corun.scenario/1\"\nmachine = \"{LARGE}\"\nduration = \"1h\"\n[scheduler]\nname = \"cfs\"\n");
        text += &format!("[[tenant]]\nname = \"a\"\ncount = {apps}\nworkload = \"workloads/papers/sgd.toml\"\nthreads = {}\nrepeat = true\n", 80 / apps);
        let scenario = Scenario::parse("overhead", &text, &Presets).unwrap_or_else(|e| panic!("{e}"));
        let mut engine = scenario.engine(1, Participants::All, 0).unwrap_or_else(|e| panic!("{e}"));
        let mut policy = by_name("sam_mph", &Options::new()).expect("it is listed");
        let mut took: Vec<u128> = (0..40)
            .map(|_| {
                engine.advance(policy.epoch_ns()).expect("no checker fires");
                let seen = Host::observe(&mut engine).expect("no checker fires");
                let began = Instant::now();
                let decisions = policy.decide(engine.machine(), &seen);
                let ns = began.elapsed().as_nanos();
                decisions.iter().for_each(|d| assert_eq!(engine.apply(&d.action), Outcome::Done));
                ns
            })
            .collect();
        took.sort_unstable();
        format!("{:.0} us", took[took.len() / 2] as f64 / 1e3)
    };
    println!("One mapping call with 80 running tasks, without carrying it out (ATC'16 section 5.5; the paper's with it)");
    let forty = "40 of them (the paper: every task its own)";
    stated(
        "overhead",
        &[("one", "one application", microseconds(1), "14 us"), ("forty", forty, microseconds(40), "230 us")],
    );
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let has = |flag: &str| args.iter().any(|a| a == flag);
    let after = |flag: &str| args.iter().position(|a| a == flag).and_then(|i| args.get(i + 1));
    SAMPLED.store(has("--sample"), Ordering::Relaxed);
    BACKGROUND.store(has("--background"), Ordering::Relaxed);
    let release = after("--linux");
    if let Some(release) = release {
        LINUX_IS.set(release.clone()).expect("it is set once");
    }
    let length = Length(if has("--quick") { 4_000_000_000 } else { 20_000_000_000 });
    let record = after("--record");
    let only = after("--only");
    let values = [record, release, only];
    let folder = args.iter().find(|a| !a.starts_with('-') && !values.contains(&Some(*a)));
    let folder = PathBuf::from(folder.map_or("out/atc16", String::as_str));
    std::fs::create_dir_all(&folder).expect("the folder can be made");
    let parts: [(&str, &dyn Fn()); 6] = [
        ("alone", &|| alone(&folder, length)),
        ("mixes-40", &|| mixes_40(&folder, length)),
        ("mixes-80", &|| mixes_80(&folder, length)),
        ("mongodb", &|| mongodb(length)),
        ("thresholds", &|| sensitivity(length)),
        ("overhead", &overhead),
    ];
    let named: Option<Vec<&str>> = only.map(|names| names.split(',').collect());
    for (name, make) in parts {
        if named.as_ref().is_none_or(|named| named.contains(&name)) {
            make();
        }
    }
    if let Some(file) = record {
        let kept = std::fs::read_to_string(file).ok().filter(|_| only.is_some());
        let mut stated = kept.map_or_else(Facts::new, |text| facts::of(&text).expect("it is such a record"));
        stated.extend(std::mem::take(&mut *STATED.lock().expect("nobody panics")));
        std::fs::write(file, PaperFigures::of(stated).text()).expect("the record can be written");
    }
}
