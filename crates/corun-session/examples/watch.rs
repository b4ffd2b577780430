//! Watch a process for five seconds, and print who stole how much CPU time from it.
//!
//! `cargo run -p corun-session --example watch -- PID`; with root it names the culprits.

use anyhow::Context;
use corun_model::TenantId;
use corun_session::{Profile, ProfileOptions, Stop, Target};
use std::cmp::Reverse;
use std::collections::BTreeMap;

fn main() -> anyhow::Result<()> {
    let pid = std::env::args().nth(1).and_then(|pid| pid.parse().ok()).context("give a PID")?;
    let options = ProfileOptions { length_ns: Some(5_000_000_000), ..ProfileOptions::default() };
    let mut profile = Profile::start(&Target::Processes(vec![pid]), &options, &Stop::on_signals()?)?;
    let subject = profile.subject();
    let mut stolen: BTreeMap<TenantId, u64> = BTreeMap::new();
    for window in &mut profile {
        for tenant in window?.by_tenant.iter().filter(|t| Some(t.id) == subject) {
            for share in tenant.account.culprits.shares() {
                *stolen.entry(share.tenant).or_default() += share.steal_ns;
            }
        }
    }
    let whole = profile.finish()?.whole;
    let mut culprits: Vec<(TenantId, u64)> = stolen.into_iter().collect();
    culprits.sort_by_key(|(_, ns)| Reverse(*ns));
    println!("in {:.1} s of process {pid}:", whole.window_ns() as f64 / 1e9);
    for (id, ns) in culprits {
        let name = whole.tenant(id).map_or("?", |tenant| tenant.name.as_str());
        println!("{:8.1} ms were taken by {name}", ns as f64 / 1e6);
    }
    Ok(())
}
