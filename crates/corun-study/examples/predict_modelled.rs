//! Co-runs of the modelled machine as a record that can be predicted again: `cargo run --release -p corun-study --example predict_modelled FOLDER`.
//!
//! The programs are synthetic ones of every kind, on two CPUs without hardware counters and with several
//! interferers, and those of PACT'16, on its machine with counters and with four loops. Windows, schedule and
//! budget are those of `corun predict --dedicated`. The truth is the same run to its end, with the interferer
//! and solo. FOLDER/predict-modelled has the co-runs with dedicated windows. FOLDER/predict-modelled-replay
//! has every second synthetic one without them, with a replay.
//!
//! `corun predict --again FOLDER/predict-modelled` predicts them again, and `scripts/keep-record FOLDER/predict-modelled predict-modelled` keeps them.

#[path = "../../corun-predict/tests/rig/mod.rs"]
mod rig;

use corun_predict::Options;
use corun_sim::scenario::{Participants, Scenario};
use corun_study::circumstances::RecordHead;
use corun_study::predict::again::{all_again, forget_counts, How};
use corun_study::predict::outcome::{CoRun, PredictOutcome, SCHEMA};
use corun_study::predict::text::files;
use corun_study::predict::windows::KeptWindows;
use corun_study::schedulers::presets::{NPB, PARSEC};
use rayon::prelude::*;
use rig::{interferers, pact16, programs, synthetic, time_ns, windows, Sampling};
use std::path::PathBuf;

/// Every fifth synthetic program is used. The number has no factor in common with the numbers of kinds, waits and grains.
const EVERY: usize = 5;
const SEED: u64 = 1;

/// A program with an interferer.
struct Case {
    program: String,
    interferer: String,
    scenario: Scenario,
    has_counters: bool,
}

fn cases() -> Vec<Case> {
    let case = |program: &str, interferer: &str, scenario, has_counters| Case {
        program: program.to_owned(),
        interferer: interferer.to_owned(),
        scenario,
        has_counters,
    };
    let mut found = Vec::new();
    for (name, program) in programs(2).into_iter().step_by(EVERY) {
        for interferer in interferers(2) {
            let short: String = interferer.replace("pattern = ", "").replace(", threads = ", "-");
            let scenario = synthetic(2, &program, &interferer);
            found.push(case(&name.replace(" / ", "/"), &short.replace('"', ""), scenario, false));
        }
    }
    // Half of the programs that block, and all that spin.
    for program in PARSEC.into_iter().step_by(2).chain(NPB) {
        found.push(case(program, "4 loops", pact16(program, true, 4), true));
    }
    found
}

fn co_run(case: &Case, how: Sampling) -> CoRun {
    let wall_ns = time_ns(&case.scenario, SEED, Participants::All);
    let solo_ns = time_ns(&case.scenario, SEED, Participants::Solo(0));
    let (mut recorded, evidence) = windows(&case.scenario, SEED, wall_ns, how);
    let evidence: Vec<_> = evidence.into_iter().collect();
    if !case.has_counters {
        recorded.iter_mut().for_each(|r| forget_counts(&mut r.window));
    }
    CoRun {
        program: case.program.clone(),
        interferer: case.interferer.clone(),
        repetition: 1,
        wall_ns,
        solo_ns,
        slowdown: wall_ns as f64 / solo_ns as f64,
        error: Some(0.0),
        windows: Some(KeptWindows::of(&recorded, &evidence)),
        ..CoRun::default()
    }
}

fn main() {
    let folder = PathBuf::from(std::env::args().nth(1).expect("give the folder of the records"));
    for (name, dedicated) in [("predict-modelled", true), ("predict-modelled-replay", false)] {
        let how = Sampling { dedicated, replay: !dedicated, wake_up_ns: 0 };
        let mut cases = cases();
        if how.replay {
            cases = cases.into_iter().filter(|case| !case.has_counters).step_by(2).collect();
        }
        let runs = cases.par_iter().map(|case| co_run(case, how)).collect();
        let outcome = PredictOutcome {
            head: RecordHead {
                schema: SCHEMA.into(),
                corun: env!("CARGO_PKG_VERSION").into(),
                date: Some("on the modelled machine".into()),
                machine: "modelled: 2 CPUs, and that of PACT'16".into(),
                kernel: "modelled: fair shares by session, and Xen's credit scheduler".into(),
            },
            known_to: 0.06,
            shares: "each program is one group".into(),
            runs,
            ..PredictOutcome::default()
        };
        let outcome =
            all_again(&outcome, How { options: Options::default(), counts: true }).expect("windows");
        let folder = folder.join(name);
        std::fs::create_dir_all(&folder).expect("a folder that can be made");
        let command = format!("corun predict --again studies/runs/{name} --out DIR");
        for (file, text) in files(&outcome, &command) {
            std::fs::write(folder.join(file), text).expect("a folder that can be written");
        }
        println!("{}: {} co-runs", folder.display(), outcome.runs.len());
    }
}
