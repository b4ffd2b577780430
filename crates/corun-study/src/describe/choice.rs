//! Chooses the workload of a stretch: the candidate whose solo run on the modelled machine is most like the live one. No co-run
//! influences the choice.

use super::candidates::{candidates, word, written};
use super::modelled::Bench;
use super::seen::Seen;
use super::stretches::Stretch;
use super::traits::Traits;
use corun_model::workload::Parallel;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

/// The part of a stretch that runs on the modelled machine, in nanoseconds. The rest behaves the same.
const SAMPLE_NS: u64 = 300_000_000;
/// Two candidates whose misfits differ by less than this cannot be told apart.
const ALIKE: f64 = 0.03;

/// The chosen workload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Choice {
    /// Its `[[program.model]]` keys.
    pub phase: String,
    /// How its threads depend on each other, as a workload file writes it.
    pub sync: String,
    /// How far it is from the live run; 0 is equal.
    pub misfit: f64,
    /// Other kinds of dependence that fit as well, so the choice between them is open.
    pub or: Vec<String>,
}

/// Chooses the workload of a stretch. `None` if no thread computed in it.
///
/// # Errors
/// One sentence: the modelled machine cannot run it.
pub fn choose(traits: &Traits, bench: &Bench) -> Result<Option<Choice>, String> {
    let tried: Vec<(Parallel, f64)> = candidates(traits)
        .into_par_iter()
        .map(|p| misfit(traits, &p, bench).map(|misfit| (p, misfit)))
        .collect::<Result<_, String>>()?;
    let best = tried.iter().map(|(_, misfit)| *misfit).min_by(f64::total_cmp);
    // Among those that fit equally well, the simplest comes first.
    let mut fits = tried.iter().filter(|(_, misfit)| best.is_some_and(|best| *misfit < best + ALIKE));
    let Some((p, misfit)) = fits.next() else { return Ok(None) };
    let sync = sync_of(p);
    let mut or: Vec<String> = fits.map(|(p, _)| sync_of(p)).filter(|other| *other != sync).collect();
    or.dedup();
    Ok(Some(Choice { phase: written(p), sync, misfit: *misfit, or }))
}

fn sync_of(p: &Parallel) -> String {
    word(p.sync).into()
}

fn misfit(traits: &Traits, p: &Parallel, bench: &Bench) -> Result<f64, String> {
    let part = (SAMPLE_NS as f64 / traits.wall_ns.max(1) as f64).min(1.0);
    let iterations = ((p.iterations as f64 * part).ceil() as u64).max(1);
    let sample = Parallel { iterations, ..p.clone() };
    let text = format!(
        "schema = \"corun.workload/1\"\nname = \"candidate\"\n[program]\nkind = \"command\"\nargv = [\"it\"]\n[[program.model]]\n{}",
        written(&sample)
    );
    let seen = bench.seen(&text)?;
    let whole =
        Stretch { from_ns: seen.start_ns, to_ns: seen.end_ns, lanes: (0..seen.lanes.len()).collect() };
    Ok(traits.misfit(&Traits::of(&seen, &whole), iterations as f64 / p.iterations as f64))
}

/// The description of a run: its stretches, with the measurements and the choice for each.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Described {
    /// Length of the run, in nanoseconds.
    pub wall_ns: u64,
    /// CPU time of all its tasks.
    pub cpu_ns: u64,
    /// The share of its CPU time that the workload leaves out: helpers, and threads at the edge of a stretch.
    pub left_out: f64,
    /// Share of the run in which at most one thread computed.
    pub serial: f64,
    /// Tasks that began while it ran.
    pub births: usize,
    /// Tasks that ended while it ran.
    pub ends: usize,
    /// Its parts.
    pub parts: Vec<Part>,
}

/// A stretch of a described run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Part {
    /// Its start, as a share of the run.
    pub from: f64,
    /// The measurements.
    pub traits: Traits,
    /// The choice.
    pub is: Choice,
}

/// Describes a solo run.
///
/// # Errors
/// One sentence: no thread computed in it, or the modelled machine cannot run a candidate.
pub fn describe(seen: &Seen, bench: &Bench) -> Result<Described, String> {
    let found = super::stretches::stretches(seen);
    let cpu_ns: u64 = seen.lanes.iter().map(|lane| lane.cpu_before(seen.end_ns)).sum();
    let mut described = Described {
        wall_ns: seen.wall_ns(),
        cpu_ns,
        births: seen.lanes.iter().map(|lane| lane.births.len()).sum(),
        ends: seen.lanes.iter().map(|lane| lane.ends.len()).sum(),
        ..Described::default()
    };
    let (mut kept_ns, mut serial_ns) = (0, 0);
    for stretch in &found {
        let traits = Traits::of(seen, stretch);
        let Some(is) = choose(&traits, bench)? else { continue };
        kept_ns += traits.all_cpu_ns();
        serial_ns += if stretch.lanes.len() == 1 { stretch.wall_ns() } else { 0 };
        let from = (stretch.from_ns - seen.start_ns) as f64 / seen.wall_ns().max(1) as f64;
        described.parts.push(Part { from, traits, is });
    }
    if described.parts.is_empty() {
        return Err("none of its tasks computed while it was recorded".into());
    }
    described.left_out = 1.0 - kept_ns as f64 / cpu_ns.max(1) as f64;
    described.serial = serial_ns as f64 / described.wall_ns.max(1) as f64;
    Ok(described)
}

impl Described {
    /// The workload file, which names the measurements and the open questions.
    pub fn workload(&self, name: &str, about: &str, argv: &[String]) -> String {
        // A string in JSON is also a string in TOML.
        let quoted = |text: &str| serde_json::Value::from(text).to_string();
        let argv: Vec<String> = argv.iter().map(|word| quoted(word)).collect();
        let mut text = format!(
            "schema = \"corun.workload/1\"\nname = {}\nabout = {}\n\n\
             # Made by `corun study programs` from one run alone. Threads that spin while they wait look as if they computed.\n\
             [program]\nkind = \"command\"\nargv = [{}]\n",
            quoted(name),
            quoted(about),
            argv.join(", ")
        );
        for part in &self.parts {
            let or = match &part.is.or[..] {
                [] => String::new(),
                others => format!("; {} would fit as well", others.join(", ")),
            };
            text += &format!(
                "\n# From {:.0} % of the run, {:.0} ms; misfit {:.2}{or}.\n[[program.model]]\n{}",
                part.from * 100.0,
                part.traits.wall_ns as f64 / 1e6,
                part.is.misfit,
                part.is.phase
            );
        }
        text
    }
}
