//! `corun doctor`: what can be seen and done on this machine, as a table or as JSON. It changes nothing.

use crate::date::now;
use crate::lines;
use crate::target::SourceFlag;
use crate::usage::{check_files, interrupted, stop_on_signals};
use crate::values::length_ns;
use corun_linux::doctor::{self, Probes};
use corun_linux::{namespaces, Root};
use corun_model::duration::human_ns;
use corun_predict::MAX_DISTURBANCE;
use corun_report::describe;
use corun_report::doctor::DoctorReport;
use corun_report::noise::{self, NoiseReport};
use corun_report::output::{is_stdout, write_file};
use corun_report::terminal::Style;
use corun_session::noise::Noise;
use std::path::PathBuf;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  corun doctor                what can be seen and done here, and why not
  sudo corun doctor           the same for root, who may do more
  corun doctor --json -       for scripts (schema corun.doctor/1)
  corun doctor --noise 30s    how much a program that computes would lose here now, and to whom
  corun doctor --noise 30s --json -
                              the same for scripts (schema corun.noise/1)

Nothing is changed. --noise keeps CPUs busy for as long as it measures, with ordinary threads that others share CPUs with.
Exit status: 0, whatever is found; 1 without /proc, where nearly all of it is read.";

/// Say what corun can see and do on this machine, and why not more
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Write the findings as JSON (schema corun.doctor/1, with --noise corun.noise/1); `-` is standard output, instead of
    /// the table
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Instead, compute for this long and say how much CPU time others took: half of the time with one thread, half
    /// with a thread on each CPU
    #[arg(long, value_name = "TIME", value_parser = noise_ns)]
    noise: Option<u64>,
    /// How to see who took it: eBPF where possible, otherwise schedstat (needs no root, names nobody)
    #[arg(long, value_enum, default_value = "auto", requires = "noise")]
    source: SourceFlag,
}

/// The bounds of --noise: it describes a benchmark of a second, and it keeps CPUs busy.
const NOISE_NS: [u64; 2] = [2_000_000_000, 3_600_000_000_000];

fn noise_ns(text: &str) -> Result<u64, String> {
    let [least, most] = NOISE_NS;
    match length_ns(text)? {
        ns if ns < least => Err(format!("{text} is too short to tell; give at least {}", human_ns(least))),
        ns if ns > most => {
            Err(format!("{text} is long for keeping CPUs busy; give at most {}", human_ns(most)))
        }
        ns => Ok(ns),
    }
}

/// Runs the verb.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    check_files(&args.json)?;
    // Without it almost nothing can be said, and the result would be wrong.
    let root = Root::new("/");
    if let Some(why) = namespaces::no_own_proc(&root).filter(|_| !root.has("/proc/stat")) {
        anyhow::bail!("this machine cannot be examined: {}; {}", why.why, why.remedy);
    }
    if let Some(length_ns) = args.noise {
        return measure_noise(&args, length_ns);
    }
    let report = examined(false);
    if let Some(path) = &args.json {
        write_file(path, report.json().as_bytes())?;
    }
    if !args.json.as_deref().is_some_and(is_stdout) {
        write_file("-".as_ref(), report.table(&Style::of_stdout()).as_bytes())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The findings. If this process has loaded the probe, it is not tried again.
pub fn examined(is_loaded: bool) -> DoctorReport {
    let asked = Probes::ask();
    let probes = if is_loaded { Probes { probe: |_| Ok(()), ..asked } } else { asked };
    let findings = doctor::examine(&Root::new("/"), &probes);
    DoctorReport { verdict: doctor::verdict(&findings), findings }
}

fn measure_noise(args: &Args, length_ns: u64) -> anyhow::Result<ExitCode> {
    let stop = stop_on_signals()?;
    lines::say(&format!("corun doctor: keeping CPUs busy for {} to see who takes them", human_ns(length_ns)));
    let noise = Noise::measure(length_ns, args.source.wanted(), &stop)?;
    let report = NoiseReport {
        schema: noise::SCHEMA,
        corun: env!("CARGO_PKG_VERSION"),
        date: Some(now()),
        machine: noise.machine.as_ref().map(describe),
        source: noise.source.map(|source| source.name().into()),
        max_disturbance: MAX_DISTURBANCE,
        programs: noise.programs.iter().map(|program| program.summary(MAX_DISTURBANCE)).collect(),
        is_interrupted: noise.is_interrupted,
        unavailable: noise.missing.clone(),
    };
    if let Some(path) = &args.json {
        write_file(path, report.json().as_bytes())?;
    }
    if !args.json.as_deref().is_some_and(is_stdout) {
        write_file("-".as_ref(), report.text().as_bytes())?;
    }
    Ok(if noise.is_interrupted { interrupted(&stop) } else { ExitCode::SUCCESS })
}
