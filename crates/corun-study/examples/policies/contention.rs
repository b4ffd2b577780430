//! Controlled Contention figures 3 to 6, without LADM: PARSEC and the simulator PDES with a fixed mapping (FM), each
//! with the number of threads that the paper found best, on its two machines under CFS.
//!
//! All programs of a mix start together and end once; a program's time is from its start to its end. They are started
//! from one session, so CFS shares among threads, not among programs; the paper does not say.

use super::matrix::{mean, policy, runs, seconds};
use corun_report::table::Table;
use corun_sim::metrics::{fairness, relative_speedup, throughput};
use corun_sim::streams::Streams;
use corun_study::bars::{chart, Bar, Group, COMPUTE, STEAL, SYNC};
use rayon::prelude::*;
use std::collections::BTreeMap;
use std::path::Path;

const PARSEC: [&str; 8] =
    ["blackscholes", "bodytrack", "canneal", "dedup", "fluidanimate", "streamcluster", "swaptions", "x264"];
const FM: &str = "pdes-fm";
const MAGNY_COURS: &str = "cc-magny-cours-48";

/// What a mix comes to under one scheduler.
#[derive(Clone, Copy, Debug)]
struct Judged {
    fairness: f64,
    throughput: f64,
    /// Against CFS.
    speedup: f64,
}

/// Seconds of each program of a mix.
fn times(machine: &str, mix: &[&str], policy: &str) -> Vec<f64> {
    let tenant = |name: &&str| format!("[[tenant]]\nworkload = \"workloads/papers/{name}.toml\"\n");
    let tenants: String = mix.iter().map(tenant).collect();
    let text = format!(
        "schema = \"corun.scenario/1\"\nmachine = \"{machine}\"\nseeds = [1]\n[scheduler]\nname = \"cfs\"\ngroups = false\n{policy}{tenants}"
    );
    let run = &runs(&text)[0];
    (0..mix.len()).map(|t| seconds(run, t)).collect()
}

/// Seconds of each program alone.
fn solo(machine: &str) -> BTreeMap<&'static str, f64> {
    let programs: Vec<&'static str> = PARSEC.into_iter().chain([FM]).collect();
    programs.par_iter().map(|p| (*p, times(machine, &[p], "")[0])).collect()
}

/// Judges a mix under CFS and under some policies.
fn judge(machine: &str, mix: &[&str], policies: &[String], solo: &BTreeMap<&str, f64>) -> Vec<Judged> {
    let all: Vec<Vec<f64>> =
        std::iter::once(&String::new()).chain(policies).map(|p| times(machine, mix, p)).collect();
    let judged = |times: &Vec<f64>| {
        let slowdowns: Vec<f64> = mix.iter().zip(times).map(|(p, t)| t / solo[p]).collect();
        let pairs: Vec<(f64, f64)> = times.iter().copied().zip(all[0].iter().copied()).collect();
        Judged {
            fairness: fairness(&slowdowns).expect("a mix has programs"),
            throughput: throughput(&slowdowns).expect("a mix has programs"),
            speedup: relative_speedup(&pairs).expect("a mix has programs"),
        }
    };
    all.iter().map(judged).collect()
}

/// Figure 3: relative speed-up of CC over CFS by its degree of contention, nine programs together.
pub fn figure_3(folder: &Path) {
    let mix: Vec<&str> = PARSEC.into_iter().chain([FM]).collect();
    let machines: [(&str, &[u64], u64); 2] = [
        (MAGNY_COURS, &[24, 36, 48, 60, 72, 96, 144, 192], 48),
        ("cc-sandybridge", &[8, 16, 24, 29, 32, 40, 48, 64, 96], 29),
    ];
    let mut groups = Vec::new();
    for (machine, dcs, best) in machines {
        let solo = solo(machine);
        let texts = dcs.iter().map(|dc| policy("controlled_contention", &format!("dc = {dc}")));
        let texts: Vec<String> = texts.chain([policy("controlled_contention", "dc = \"auto\"")]).collect();
        let mut judged: Vec<Judged> =
            texts.par_iter().map(|text| judge(machine, &mix, std::slice::from_ref(text), &solo)[1]).collect();
        judged.push(judge(machine, &mix, &[], &solo)[0]);
        let names: Vec<String> =
            dcs.iter().map(u64::to_string).chain(["auto".into(), "CFS".into()]).collect();
        let mut table = Table::new(&[">DC", ">relative speed-up", ">throughput", ">fairness"]);
        for (name, j) in names.iter().zip(&judged) {
            let numbers = [j.speedup, j.throughput, j.fairness].map(|v| format!("{v:.2}"));
            table.row(std::iter::once(name.clone()).chain(numbers));
        }
        println!("Figure 3, {machine} (the paper's best: DC {best}): against CFS\n{}", table.text());
        let bars = names.iter().zip(&judged).map(|(name, j)| Bar {
            name: name.clone(),
            parts: vec![(COMPUTE, j.speedup)],
            paper: None,
        });
        groups.push(Group { name: machine.into(), bars: bars.collect() });
    }
    let title = "Degree of contention (Controlled Contention figure 3, modelled)";
    super::save(folder, "cc-fig3.svg", &chart(title, "relative speed-up over CFS", &groups));
}

/// `count` different mixes of `size` programs out of `of`, each with `always`.
fn mixes(of: &[&'static str], always: &[&'static str], size: usize, count: usize) -> Vec<Vec<&'static str>> {
    let mut draws = Streams::new(1).stream(&format!("mixes of {size} with {}", always.len()));
    let mut found: Vec<Vec<&str>> = Vec::new();
    // There are fewer mixes than asked for where nearly all programs take part.
    for _ in 0..1_000 {
        let mut rest = of.to_vec();
        let mut mix = always.to_vec();
        while mix.len() < size && !rest.is_empty() {
            mix.push(rest.remove(draws.between(0, rest.len() as u64 - 1) as usize));
        }
        mix.sort_unstable();
        if found.len() < count && !found.contains(&mix) {
            found.push(mix);
        }
    }
    found
}

const SCHEDULERS: [&str; 4] = ["CFS", "gang", "CC", "auto"];

fn policies() -> Vec<String> {
    vec![policy("gang", ""), policy("controlled_contention", "dc = 48"), policy("auto", "")]
}

/// Means over mixes, per scheduler.
fn means(judged: &[Vec<Judged>]) -> Vec<Judged> {
    (0..SCHEDULERS.len())
        .map(|s| {
            let of = |f: fn(&Judged) -> f64| mean(&judged.iter().map(|m| f(&m[s])).collect::<Vec<_>>());
            Judged {
                fairness: of(|j| j.fairness),
                throughput: of(|j| j.throughput),
                speedup: of(|j| j.speedup),
            }
        })
        .collect()
}

fn bars(values: &[Judged], f: fn(&Judged) -> f64) -> Vec<Bar> {
    let parts = [STEAL, SYNC, COMPUTE, corun_study::bars::Part { name: "auto", colour: "#009e73" }];
    let bar = |((name, part), j): ((&&str, _), &Judged)| Bar {
        name: (*name).into(),
        parts: vec![(part, f(j))],
        paper: None,
    };
    SCHEDULERS.iter().zip(parts).zip(values).map(bar).collect()
}

fn row(name: String, means: &[Judged]) -> Vec<String> {
    let by =
        |f: fn(&Judged) -> f64| means.iter().map(|j| format!("{:.2}", f(j))).collect::<Vec<_>>().join(" / ");
    vec![name, by(|j| j.throughput), by(|j| j.fairness), by(|j| j.speedup)]
}

/// Mixes of so many programs, and what each comes to under every scheduler.
struct Size {
    programs: usize,
    mixes: Vec<Vec<&'static str>>,
    judged: Vec<Vec<Judged>>,
}

/// Mixes of several sizes under every scheduler.
fn sizes(always: &[&'static str], sizes: &[usize]) -> Vec<Size> {
    let solo = solo(MAGNY_COURS);
    sizes
        .iter()
        .map(|&size| {
            let mixes = mixes(&PARSEC, always, size, 10);
            let judged = mixes.par_iter().map(|m| judge(MAGNY_COURS, m, &policies(), &solo)).collect();
            Size { programs: size, mixes, judged }
        })
        .collect()
}

/// A figure of merit: its name, and how it is read.
type Measure = (&'static str, fn(&Judged) -> f64);

const MEASURES: [Measure; 3] =
    [("throughput", |j| j.throughput), ("fairness", |j| j.fairness), ("relative speed-up", |j| j.speedup)];

/// Figure 4: throughput, fairness and relative speed-up of CFS, gang scheduling and CC by the number of programs.
pub fn figure_4(folder: &Path) {
    let mut results = sizes(&[], &[2, 4, 6, 8]);
    results.extend(sizes(&[FM], &[9]));
    report("Figure 4: PARSEC, up to ten mixes of each size (nine: with FM)", &results);
    draw(
        folder,
        "cc-fig4.svg",
        "Programs together on 48 CPUs (Controlled Contention figure 4, modelled)",
        &results,
    );
}

/// Figures 5 and 6 without LADM: the same with FM in every mix, as means and mix by mix.
pub fn figures_5_and_6(folder: &Path) {
    let results = sizes(&[FM], &[2, 4, 6, 8]);
    report("Figure 5 without LADM: FM in every mix", &results);
    let mut table = Table::new(&["mix", ">throughput", ">fairness", ">relative speed-up"]);
    for (mix, judged) in results.iter().flat_map(|r| r.mixes.iter().zip(&r.judged)) {
        table.row(row(mix.join(" "), judged));
    }
    println!("Figure 6 without LADM, mix by mix: CFS / gang / CC / auto\n{}", table.text());
    let title = "PDES among PARSEC on 48 CPUs (Controlled Contention figures 5 and 6, modelled)";
    draw(folder, "cc-fig5-6.svg", title, &results);
}

fn draw(folder: &Path, file: &str, title: &str, results: &[Size]) {
    let groups = MEASURES.iter().flat_map(|(what, f)| {
        results.iter().map(move |r| Group {
            name: format!("{what}, {}", r.programs),
            bars: bars(&means(&r.judged), *f),
        })
    });
    let groups: Vec<Group> = groups.collect();
    super::save(folder, file, &chart(title, "tenants' worth; index; ratio", &groups));
}

fn report(title: &str, results: &[Size]) {
    let mut table = Table::new(&[">programs", ">mixes", ">throughput", ">fairness", ">relative speed-up"]);
    let mut all = Vec::new();
    for r in results {
        let means = means(&r.judged);
        let mut cells = row(r.programs.to_string(), &means);
        cells.insert(1, r.mixes.len().to_string());
        table.row(cells);
        all.push(means);
    }
    println!("{title}; CFS / gang / CC (DC 48) / auto\n{}", table.text());
    let overall = means(&all);
    for (name, j) in SCHEDULERS.iter().zip(&overall).skip(1) {
        println!(
            "{name}: relative speed-up {:.2}, throughput {:+.0} %, fairness {:.2} against {:.2}",
            j.speedup,
            (j.throughput / overall[0].throughput - 1.0) * 100.0,
            j.fairness,
            overall[0].fairness
        );
    }
    println!("(paper, figure 4: CC's relative speed-up 1.25, throughput about +10 %, fairness better than CFS's)\n");
}
