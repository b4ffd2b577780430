//! `corun policies`: every policy with its options, its knobs, and the backends here that support it.

use corun_linux::backend::{Backend, KnobSupport, Support};
use corun_linux::counters::live::accepted;
use corun_linux::counters::{Plan, Theme};
use corun_linux::scx::support;
use corun_linux::stock::{self, StockBackend};
use corun_linux::Root;
use corun_model::why::NoKnob;
use corun_model::Knob;
use corun_policy::{Entry, ALL};
use corun_report::output::print;
use corun_report::policies::{Listed, ListedBackend, ListedKnob, ListedOption, Listing};
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  corun policies
  corun policies --json | jq '.policies[] | select(.name == \"gang\")'

Exit status: 0.";

/// List the scheduling policies: options, knobs, and what this machine can carry out
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Print JSON (schema corun.policies/1), to standard output
    #[arg(long)]
    json: bool,
}

/// Runs the verb.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let root = Root::new("/");
    let stock = StockBackend::new(&root, stock::Options::default()).support();
    let sched_ext = support::check(&root).err().map(|no| no.to_string());
    let plan = Plan::make(&root, &Theme::ALL, &accepted).map_err(|refusal| refusal.to_string());
    let lacking = |entry: &Entry| match &plan {
        _ if entry.counters.is_empty() => None,
        Ok(plan) => plan.lacks(entry.counters).map(|u| format!("{}: {}", u.what, u.why)),
        Err(why) => Some(why.clone()),
    };
    let policies: Vec<Listed> =
        ALL.iter().map(|entry| listed(entry, &stock, sched_ext.as_deref(), lacking(entry))).collect();
    let listing = Listing { corun: env!("CARGO_PKG_VERSION"), policies };
    print(&if args.json { listing.json() } else { listing.text() })?;
    Ok(ExitCode::SUCCESS)
}

/// `no_sched_ext`: why this kernel has none; corun's own scheduler sets every knob. `no_counters`: why the
/// counters that the policy needs cannot be counted here.
fn listed(
    entry: &Entry,
    support: &[KnobSupport],
    no_sched_ext: Option<&str>,
    no_counters: Option<String>,
) -> Listed {
    let of = |knob: &Knob| {
        let found = support.iter().find(|s| s.knob == *knob);
        let (can, how) = match found.map(|s| &s.support) {
            Some(Support::Yes { how }) => (true, how.to_string()),
            Some(Support::No { why }) => (false, why.to_string()),
            None => (false, NoKnob::UnknownKnob.to_string()),
        };
        ListedKnob { knob: knob.name(), can, how }
    };
    let knobs: Vec<ListedKnob> = entry.knobs.iter().map(of).collect();
    Listed {
        name: entry.name,
        about: entry.about,
        source: entry.source,
        knobs: entry.knobs.iter().map(|k| k.name()).collect(),
        counters: entry.counters.iter().map(|c| c.name()).collect(),
        no_counters,
        options: entry
            .options
            .iter()
            .map(|o| ListedOption {
                name: o.name,
                default: o.default,
                unit: o.unit(),
                range: o.range(),
                about: o.about,
            })
            .collect(),
        backends: vec![
            ListedBackend {
                name: "sched_ext",
                can: no_sched_ext.is_none(),
                knobs: entry
                    .knobs
                    .iter()
                    .map(|k| ListedKnob {
                        knob: k.name(),
                        can: no_sched_ext.is_none(),
                        how: no_sched_ext.unwrap_or("by a scheduler of corun's own").to_owned(),
                    })
                    .collect(),
            },
            ListedBackend { name: "stock", can: knobs.iter().all(|k| k.can), knobs },
        ],
    }
}
