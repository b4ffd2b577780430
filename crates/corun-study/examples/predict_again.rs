//! Judges the study of predictions again from its recordings, with the present predictor: `cargo run --release -p corun-study --example
//! predict_again RESULT RECORDINGS [OUT] [--by-time] [--wake-up-us=N]`.
//!
//! RESULT is the `result.json` or `result.json.gz` of a study that was made with `--recordings RECORDINGS`. Lengths and slowdowns are
//! those of the record. Predictions are made again from the kept windows: the last one before a third of a co-run had passed, and the
//! last of all. So two predictors can be compared on the same co-runs. `--by-time` ignores hardware counters. `--wake-up-us` is the
//! cost of waking a sleeping CPU, for records that do not have it. The record with these predictions goes to the folder OUT.
//!
//! `corun predict --again RECORD` does the same from the windows in the record itself. A folder of recordings has all windows.
//!
//! Limits: the times of the dedicated windows stay as they were. Another schedule needs another study.

use corun_predict::Options;
use corun_study::kept;
use corun_study::predict::again::{again, How};
use corun_study::predict::outcome::PredictOutcome;
use corun_study::predict::runs::recording;
use corun_study::predict::text::{files, text};
use std::fs::File;
use std::io::BufReader;
use std::path::Path;

fn main() {
    let (flags, paths): (Vec<String>, Vec<String>) =
        std::env::args().skip(1).partition(|a| a.starts_with("--"));
    let [result, recordings, out @ ..] = &paths[..] else { panic!("give RESULT RECORDINGS [OUT]") };
    let counts = !flags.iter().any(|f| f == "--by-time");
    let wake_up_us = flags.iter().find_map(|f| f.strip_prefix("--wake-up-us=")?.parse::<u64>().ok());
    let result_text =
        kept::read(Path::new(result), u64::MAX).unwrap_or_else(|e| panic!("cannot read {result}: {e}"));
    let mut outcome: PredictOutcome =
        serde_json::from_str(&result_text).expect("the result of a study of predictions");
    let of_all = outcome.wake_up_ns;
    for run in &mut outcome.runs {
        let path = recording(Path::new(recordings), &run.program, Some((&run.interferer, run.repetition)));
        let wake_up_ns = wake_up_us.map(|us| 1_000 * us).or(run.wake_up_ns).or(of_all);
        let options = Options { wake_up_ns: wake_up_ns.unwrap_or(0), ..Options::default() };
        let file = File::open(&path).unwrap_or_else(|e| panic!("cannot read {}: {e}", path.display()));
        match again(run, BufReader::new(file), How { options, counts }) {
            Ok(now) => *run = now,
            Err(why) => {
                eprintln!("{}:{why}", path.display());
                std::process::exit(2)
            }
        }
        let percent = |x: Option<f64>| {
            x.map_or("    -".into(), |x| format!("{:+5.1}", 100.0 * (x / run.slowdown - 1.0)))
        };
        let [third, end] = [run.predicted, run.at_end].map(|p| p.map(percent).join(" "));
        println!("{:14} {:15} {:5.2}× | {third} | {end}", run.program, run.interferer, run.slowdown);
    }
    println!("\n{}", text(&outcome, true));
    for folder in out {
        for (name, text) in files(&outcome, "corun study predict --recordings DIR") {
            std::fs::write(Path::new(folder).join(name), text).expect("a folder that can be written");
        }
    }
}
