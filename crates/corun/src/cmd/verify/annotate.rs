//! `corun verify --annotate`: test cases of a JUnit file, judged afterwards by an agent's ring of that time.

use super::parts::{ahead_of_utc_s, copy_of, Watched};
use crate::cmd::profile::{self, opened, why_not};
use crate::lines;
use crate::usage::{check_files, check_read, Usage};
use crate::values::length_ns;
use anyhow::Context;
use corun_agent::past;
use corun_agent::ring::Reader;
use corun_predict::verdict::Judge;
use corun_report::verify::parts::annotated;
use corun_results::time_of;
use std::fs::File;
use std::io::BufReader;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// What the past needs.
#[derive(Debug, clap::Args)]
pub struct Flags {
    /// Run nothing. Say for each test case in this JUnit file of an earlier run whether it was starved, from what an
    /// agent recorded at that time. The answers go to a copy of the file, as with --junit
    #[arg(long, value_name = "FILE", requires_all = ["from", "tenant"],
          conflicts_with_all = ["junit", "results", "bmf", "json", "github", "retries", "command"])]
    pub annotate: Option<PathBuf>,
    /// With --annotate: the folder of the ring of the agent that was watching, or a recording
    #[arg(long, value_name = "FILE", requires = "annotate")]
    from: Option<PathBuf>,
    /// With --annotate: the tenant that ran the tests, by the name that `corun top` and reports show
    #[arg(long, value_name = "NAME", requires = "annotate")]
    tenant: Option<String>,
    /// With --annotate: when the tests began, such as 03:10 or 2026-01-31T03:10 [default: the times in the file]
    #[arg(long, value_name = "TIME", requires = "annotate")]
    at: Option<String>,
    /// With --annotate: for how long they ran, such as 10m [default: the times in the file]
    #[arg(long = "for", value_name = "TIME", value_parser = length_ns, requires = "annotate")]
    length_ns: Option<u64>,
}

/// Judges the cases of `tests` and writes the copy.
///
/// # Errors
/// A mistake of the user, in a sentence; or the system's error.
pub fn run(
    tests: &Path,
    flags: &Flags,
    out: Option<&Path>,
    max_disturbance: f64,
) -> anyhow::Result<ExitCode> {
    let copy = out.map_or_else(|| copy_of(tests), Path::to_owned);
    if copy == tests {
        return Err(Usage("--out is the JUnit file itself, which stays as it is; name another".into()).into());
    }
    check_read([tests], |_| false)?;
    check_files([&copy])?;
    let ring = flags.from.as_deref().context("clap wants --from")?;
    let tenant = flags.tenant.as_deref().context("clap wants --tenant")?;
    let reader = opened(ring)?;
    let unix_ns = match (&flags.at, flags.length_ns) {
        (None, None) => time_of_tests(tests)?,
        (at, length_ns) => profile::time_of(&reader, ring, at.as_deref(), length_ns)?,
    };
    let said = judged(&reader, unix_ns, tenant, max_disturbance, |watched| watched.annotate(tests, &copy))
        .map_err(|no| Usage(why_not(&no, &reader, ring, Some(tenant))))?;
    let (count, failed) = said.map_err(|error| Usage(error.to_string()))?;
    let _ = lines::tell(&annotated(tests, &copy, &count, &failed));
    Ok(ExitCode::SUCCESS)
}

/// When the tests ran, according to their own file.
fn time_of_tests(tests: &Path) -> anyhow::Result<Range<u64>> {
    let file = tests.display().to_string();
    let open = || File::open(tests).map(BufReader::new);
    let ran = time_of(open, &file, ahead_of_utc_s()).map_err(|unread| Usage(unread.to_string()))?;
    let none = || Usage(format!("{file} does not say when its tests ran; say it with --at and --for"));
    let ran = ran.ok_or_else(none)?;
    let of_ring = |ns: i64| u64::try_from(ns).unwrap_or(0);
    Ok(of_ring(ran.start)..of_ring(ran.end).max(of_ring(ran.start) + 1))
}

/// The text about what happened to a tenant in a time.
fn judged<T>(
    reader: &Reader,
    unix_ns: Range<u64>,
    tenant: &str,
    max_disturbance: f64,
    say: impl FnOnce(&Watched) -> T,
) -> Result<T, past::NoPast> {
    let found = past::windows(reader, unix_ns, tenant)?;
    let mut judge = Judge::new(found.tenant.id, max_disturbance).of_parts();
    let mut ran: Option<(Range<u64>, i64)> = None;
    for window in found.windows {
        let seen = &window.seen;
        judge.push(seen);
        let (ran_ns, _) = ran.get_or_insert_with(|| {
            (seen.start_ns..seen.end_ns, window.unix_ns.start as i64 - seen.start_ns as i64)
        });
        ran_ns.end = ran_ns.end.max(seen.end_ns);
    }
    let (ran_ns, ahead_ns) = ran.ok_or(past::NoPast::NoWindow(found.damages))?;
    let watched = Watched::on_clock(&judge, ran_ns, [ahead_ns; 2]).expect("a judge of parts has parts");
    Ok(say(&watched))
}
