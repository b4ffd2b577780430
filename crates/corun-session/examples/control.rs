//! Let a policy schedule two tenants for half a minute under a guard, and print whether it helps.
//!
//! `cargo run -p corun-session --example control -- TENANT TENANT`, with root. Name a tenant as `corun
//! profile --all` lists it, or by a PID. Everything is undone at the end; with Ctrl-C, too.

use corun_policy::guard::Finding;
use corun_report::control::notices::sentence;
use corun_session::control::scope::Tenants;
use corun_session::{supervise_if_asked, ControlOptions, Plan, Stop};
use std::process::ExitCode;

fn main() -> anyhow::Result<ExitCode> {
    // Undoes everything if this process is killed.
    if let Some(code) = supervise_if_asked() {
        return Ok(code);
    }
    let names: Vec<String> = std::env::args().skip(1).collect();
    anyhow::ensure!(names.len() > 1, "name two tenants or more, such as PIDs");
    let tenants = Tenants::Named(names);
    let options = ControlOptions { length_ns: Some(30_000_000_000), ..ControlOptions::new("gang", tenants) };
    let plan = Plan::look_around(options)?;
    plan.covered().for_each(|tenant| println!("may be parked: {}", tenant.name));
    plan.notices().iter().for_each(|notice| println!("note: {}", sentence(notice)));
    let mut control = plan.begin(&Stop::on_signals()?)?;
    let mut decisions = 0;
    for epoch in control.by_ref() {
        decisions += epoch?.taken.len();
    }
    control.undo_all()?;
    match control.finding() {
        Some(Finding::Helps { gain }) => println!("it helps by {:.1} %", 100.0 * gain),
        Some(Finding::DoesNotHelp { gain }) => println!("it does not help ({:.1} %)", 100.0 * gain),
        Some(Finding::Measuring { pairs }) => println!("not known after {pairs} pairs of periods"),
        None => println!("nobody measured"),
    }
    println!("{decisions} decisions");
    Ok(ExitCode::SUCCESS)
}
