//! Run a command, and print how much slower it is than it would be alone, while it runs and at the end.
//!
//! `cargo run -p corun-session --example predict -- COMMAND...`

use corun_session::{Predict, PredictOptions, Stop, Target};

fn main() -> anyhow::Result<()> {
    let target = Target::command(std::env::args_os().skip(1));
    let mut predict = Predict::start(&target, PredictOptions::default(), &Stop::on_signals()?)?;
    while let Some(window) = predict.next() {
        if window?.is_estimate_due {
            if let Ok(estimate) = predict.present() {
                eprintln!("now {:.2} times as long as alone", estimate.slowdown);
            }
        }
    }
    match predict.so_far() {
        Ok(run) => {
            let [low, high] = run.interval;
            println!("the run took {:.2} times as long as alone ({low:.2} to {high:.2})", run.slowdown);
        }
        Err(why) => println!("nothing can be said of the run: {}", why.name()),
    }
    if let Some(command) = predict.finish()?.command {
        std::process::exit(command.wait()?.code().unwrap_or(1));
    }
    Ok(())
}
