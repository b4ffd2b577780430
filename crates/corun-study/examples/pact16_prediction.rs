//! Redraws figure 8 of PACT'16 on the modelled machine: `cargo run --release -p corun-study --example pact16_prediction [FOLDER]`.
//!
//! Each program of the paper runs on its machine with one and four persistent loops, and with streamcluster of one and four threads.
//! Its slowdown is predicted in the first third of the run, from a dedicated window and the shared one after it. The prediction by
//! useful work, and those by simpler predictors from the same windows, are compared with the slowdown of the whole run. The paper gives
//! only means.

#[path = "../../corun-predict/tests/rig/mod.rs"]
mod rig;

use corun_report::table::Table;
use corun_study::bars::{chart, Bar, Group, Part};
use corun_study::schedulers::presets::{NPB, PARSEC};
use rayon::prelude::*;
use rig::{outcome, pact16, Outcome, Sampling};
use std::path::{Path, PathBuf};

/// The interferers: their names, whether they are loops, and their threads.
const INTERFERERS: [(&str, bool, u32); 4] = [
    ("1-persistent", true, 1),
    ("4-persistent", true, 4),
    ("1-stcluster", false, 1),
    ("4-stcluster", false, 4),
];
const SEEDS: u64 = 3;

/// The programs that the paper names.
fn all_programs() -> impl Iterator<Item = &'static str> {
    PARSEC.into_iter().chain(NPB)
}

/// One predictor: its name, the paper's mean error, and its prediction.
struct Predictor {
    name: &'static str,
    paper: Option<f64>,
    colour: &'static str,
    of: fn(&Case) -> Option<f64>,
}

const PREDICTORS: [Predictor; 9] = [
    Predictor {
        name: "useful work",
        paper: None,
        colour: "#0072b2",
        of: |c| Some(c.dedicated.estimate.slowdown),
    },
    Predictor {
        name: "PACT'16's formula",
        paper: Some(0.045),
        colour: "#000000",
        of: |c| c.dedicated.estimate.baselines.pact16,
    },
    Predictor {
        name: "CPI",
        paper: Some(0.152),
        colour: "#d55e00",
        of: |c| c.dedicated.estimate.baselines.cpi,
    },
    Predictor {
        name: "MPKI",
        paper: Some(0.203),
        colour: "#cc79a7",
        of: |c| c.dedicated.estimate.baselines.mpki,
    },
    // Instructions per wall time: CPI of a program whose CPU share is known too.
    Predictor {
        name: "CPI × CPU share",
        paper: None,
        colour: "#e69f00",
        of: |c| Some(c.dedicated.estimate.baselines.cpi? * c.dedicated.estimate.baselines.cpu_share?),
    },
    Predictor {
        name: "MPKI × CPU share",
        paper: None,
        colour: "#f0e442",
        of: |c| Some(c.dedicated.estimate.baselines.mpki? * c.dedicated.estimate.baselines.cpu_share?),
    },
    Predictor {
        name: "CPU share",
        paper: None,
        colour: "#999999",
        of: |c| c.dedicated.estimate.baselines.cpu_share,
    },
    Predictor {
        name: "run-queue latency",
        paper: None,
        colour: "#56b4e9",
        of: |c| c.dedicated.estimate.baselines.runq_latency,
    },
    Predictor {
        name: "ledger alone",
        paper: None,
        colour: "#009e73",
        of: |c| Some(c.ledger.estimate.slowdown),
    },
];

/// A program with an interferer, and one seed.
struct Case {
    program: &'static str,
    interferer: usize,
    dedicated: Outcome,
    ledger: Outcome,
}

impl Case {
    fn error(&self, predictor: &Predictor) -> f64 {
        (predictor.of)(self).map_or(f64::NAN, |slowdown| (slowdown / self.dedicated.truth - 1.0).abs())
    }
}

/// Mean error of a predictor over the cases that `keep` accepts.
fn mape(cases: &[Case], predictor: &Predictor, keep: impl Fn(&Case) -> bool) -> f64 {
    let errors: Vec<f64> = cases.iter().filter(|c| keep(c)).map(|c| c.error(predictor)).collect();
    errors.iter().sum::<f64>() / errors.len() as f64
}

fn run() -> Vec<Case> {
    let all: Vec<(&str, usize, u64)> = all_programs()
        .flat_map(|p| (0..INTERFERERS.len()).flat_map(move |i| (1..=SEEDS).map(move |seed| (p, i, seed))))
        .collect();
    let each = |&(program, interferer, seed): &(&'static str, usize, u64)| {
        let (_, loops, threads) = INTERFERERS[interferer];
        let scenario = pact16(program, loops, threads);
        let how = |dedicated| Sampling { dedicated, replay: false, wake_up_ns: 0 };
        let (dedicated, ledger) = (outcome(&scenario, seed, how(true)), outcome(&scenario, seed, how(false)));
        Case { program, interferer, dedicated, ledger }
    };
    all.par_iter().map(each).collect()
}

fn main() {
    let folder = PathBuf::from(std::env::args().nth(1).unwrap_or_else(|| "out".into()));
    let cases = run();
    let percent = |x: f64| format!("{:.1} %", x * 100.0);

    let names: Vec<String> = PREDICTORS.iter().map(|p| format!(">{}", p.name)).collect();
    let heads: Vec<&str> =
        ["program", ">slowdown"].into_iter().chain(names.iter().map(String::as_str)).collect();
    let mut programs = Table::new(&heads);
    for program in all_programs() {
        let of: Vec<&Case> = cases.iter().filter(|c| c.program == program).collect();
        let truth = of.iter().map(|c| c.dedicated.truth).sum::<f64>() / of.len() as f64;
        let errors = PREDICTORS.iter().map(|p| percent(mape(&cases, p, |c| c.program == program)));
        programs
            .row([program.to_owned(), format!("{truth:.2}")].into_iter().chain(errors).collect::<Vec<_>>());
    }
    println!(
        "Mean absolute error of the predicted slowdown, by program (over interferers and {SEEDS} seeds)\n{}",
        programs.markdown()
    );

    let mut means = Table::new(&[
        "predictor",
        ">1-persistent",
        ">4-persistent",
        ">1-stcluster",
        ">4-stcluster",
        ">all",
        ">paper",
        ">intervals that hold it",
    ]);
    for p in &PREDICTORS {
        let by = (0..INTERFERERS.len()).map(|i| percent(mape(&cases, p, |c| c.interferer == i)));
        let all = percent(mape(&cases, p, |_| true));
        let paper = p.paper.map_or("-".into(), percent);
        let held = |of: fn(&Case) -> &Outcome| {
            format!("{} of {}", cases.iter().filter(|c| of(c).is_covered()).count(), cases.len())
        };
        let held = match p.name {
            "useful work" => held(|c| &c.dedicated),
            "ledger alone" => held(|c| &c.ledger),
            _ => "-".into(),
        };
        means.row(std::iter::once(p.name.to_owned()).chain(by).chain([all, paper, held]).collect::<Vec<_>>());
    }
    println!("By interferer\n{}", means.markdown());

    let of = |p: &str, predictor: usize| mape(&cases, &PREDICTORS[predictor], |c| c.program == p);
    let is_beaten = |p: &&str| of(p, 0) >= of(p, 2).min(of(p, 3));
    let beaten: Vec<&str> = all_programs().filter(is_beaten).collect();
    println!("programs on which CPI or MPKI is as good as useful work: {beaten:?}\n");
    draw(&folder, &cases);
}

fn draw(folder: &Path, cases: &[Case]) {
    let groups: Vec<Group> = PREDICTORS
        .iter()
        .map(|p| {
            let bar = |i: usize| {
                let part = Part { name: p.name.into(), colour: p.colour };
                let height = 100.0 * mape(cases, p, |c| c.interferer == i);
                Bar { name: INTERFERERS[i].0.into(), parts: vec![(part, height)], paper: None }
            };
            let all = Part { name: p.name.into(), colour: p.colour };
            let mean = Bar {
                name: "all".into(),
                parts: vec![(all, 100.0 * mape(cases, p, |_| true))],
                paper: p.paper.map(|x| 100.0 * x),
            };
            Group { name: p.name.into(), bars: (0..INTERFERERS.len()).map(bar).chain([mean]).collect() }
        })
        .collect();
    let svg = chart(
        "Error of the predicted slowdown (PACT'16 figure 8, modelled)",
        "mean absolute error, percent",
        &groups,
    );
    let path = folder.join("pact16-fig8.svg");
    let written = std::fs::create_dir_all(folder)
        .map_err(|e| format!("cannot make {}: {e}", folder.display()))
        .and_then(|()| corun_report::output::write_file(&path, svg.as_bytes()).map_err(|e| e.to_string()));
    match written {
        Ok(()) => println!("wrote {}", path.display()),
        Err(e) => eprintln!("{e}"),
    }
}
