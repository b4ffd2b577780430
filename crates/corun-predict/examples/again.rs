//! A prediction made again from what `corun predict --record FILE` kept: `cargo run --release -p corun-predict --example
//! again FILE...`.
//!
//! For each file a line per second of shared windows: the slowdown from dedicated windows (where there are any), the
//! same from the ledger alone, each with its interval. For whoever works on the predictor: the same windows, another
//! method.

use corun_model::TenantId;
use corun_predict::{Estimate, Label, Options, Predictor, Recorded};
use std::io::BufRead;
use std::process::ExitCode;

fn main() -> ExitCode {
    for path in std::env::args().skip(1) {
        if let Err(why) = again(&path) {
            eprintln!("{why}");
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}

/// Predicts again from a recording; why not, as a sentence.
fn again(path: &str) -> Result<(), String> {
    let file = std::fs::File::open(path).map_err(|e| format!("cannot read {path}: {e}"))?;
    let new = || Predictor::new(TenantId(0), Options::default());
    let (mut main, mut ledger) = (new(), new());
    let (mut first_ns, mut said_ns) = (None, 0);
    println!("{path}");
    for (n, line) in std::io::BufReader::new(file).lines().enumerate() {
        let line = line.map_err(|e| format!("cannot read {path}: {e}"))?;
        let read = serde_json::from_str(&line);
        let Recorded { label, window } =
            read.map_err(|e| format!("{path}:{}: no window of `corun predict --record`: {e}", n + 1))?;
        let end_ns = window.end_ns;
        main.push_window(window.clone(), label);
        if label == Label::Shared {
            ledger.push_window(window, label);
        }
        let first_ns = *first_ns.get_or_insert(end_ns);
        if end_ns.saturating_sub(said_ns) >= 1_000_000_000 {
            said_ns = end_ns;
            let text = |p: &Predictor| p.estimate().map_or_else(|why| why.name().to_owned(), |e| said(&e));
            let at_s = end_ns.saturating_sub(first_ns) as f64 / 1e9;
            println!("  {at_s:6.1} s  {:<40} ledger alone {}", text(&main), text(&ledger));
        }
    }
    Ok(())
}

fn said(e: &Estimate) -> String {
    format!("{:?} {:.3} ({:.3}-{:.3})", e.method, e.slowdown, e.interval[0], e.interval[1])
}
