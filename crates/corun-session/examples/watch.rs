//! Watch a process for five seconds, and print who stole how much CPU time from it.
//!
//! `cargo run -p corun-session --example watch -- PID`; with root it names the culprits.

use corun_model::TenantId;
use corun_session::{Profile, ProfileOptions, Stop, Target};
use std::collections::BTreeMap;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let pid = std::env::args().nth(1).ok_or("give a PID")?.parse()?;
    let options = ProfileOptions { length_ns: Some(5_000_000_000), ..ProfileOptions::default() };
    let mut profile = Profile::start(&Target::Processes(vec![pid]), &options, &Stop::on_signals()?)?;
    let subject = profile.subject();
    let mut stolen: BTreeMap<TenantId, u64> = BTreeMap::new();
    for window in &mut profile {
        let seen = window?;
        for tenant in seen.by_tenant.iter().filter(|t| Some(t.id) == subject) {
            for share in tenant.account.culprits.shares() {
                *stolen.entry(share.tenant).or_default() += share.steal_ns;
            }
        }
    }
    let whole = profile.finish()?.whole;
    for (id, ns) in stolen {
        let name = whole.tenant(id).map_or("?", |tenant| tenant.name.as_str());
        println!("{name} stole {:.1} ms", ns as f64 / 1e6);
    }
    Ok(())
}
