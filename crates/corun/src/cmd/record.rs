//! `corun record`: keep what a program does, event by event, for `corun sim --from`; and everybody's
//! activity, for `corun top`.

use crate::lines;
use crate::target::{usage, TargetFlags, RECORDED};
use crate::usage::{check_files, interrupted, stop_on_signals, Usage};
use crate::values::length_ns;
use anyhow::Context;
use corun_agent::recorder::{kept, run_of};
use corun_agent::ring::{encode, Entry};
use corun_linux::clock::unix_ahead_ns;
use corun_linux::launch;
use corun_model::duration::human_ns;
use corun_model::run_log::file;
use corun_report::output::{is_stdout, print, write_file_by};
use corun_report::progress::Progress;
use corun_session::end::Ended;
use corun_session::{Record, RecordOptions};
use std::path::PathBuf;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  corun record -- ./solver in.dat                  a command, from its first instruction to its end
  corun record -o web.rec -p 1234 --for 10s        a process, with its threads and children
  corun sim --from corun.rec                       what it would have taken alone
  corun sim --from corun.rec --policy auto         and next to the same co-runners under a policy
  corun top corun.rec                              step through it: who kept whom from a CPU

A recording holds who ran when, who woke whom and until when tasks slept: 32 bytes an event, two events a switch. \
It needs eBPF. Of others it keeps only sums, four times a second.

Exit status: that of CMD; without CMD 0. 2 is bad usage, 1 a failure of corun's own.
After CMD the summary goes to standard error: standard output is CMD's.";

/// Record a program's run, to replay it alone, under a policy or on other CPUs
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, override_usage = usage("record", RECORDED), mut_arg("all", |all| all.hide(true)), mut_arg("vm", |vm| vm.hide(true)))]
pub struct Args {
    #[command(flatten)]
    target: TargetFlags,
    /// Where to write the recording
    #[arg(short, long, value_name = "FILE", default_value = "corun.rec")]
    output: PathBuf,
    /// Stop after this time, such as 10s [default: when the command ends, or at Ctrl-C]
    #[arg(long = "for", value_name = "TIME", value_parser = length_ns)]
    length_ns: Option<u64>,
    /// Show no progress
    #[arg(long, short)]
    quiet: bool,
}

/// The recording in numbers.
#[derive(Default)]
struct Sums {
    events: u64,
    lost: u64,
    bytes: u64,
    start_ns: Option<u64>,
    end_ns: u64,
    /// How much of its end can only be replayed.
    unseen_ns: u64,
}

/// Runs the verb.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    if is_stdout(&args.output) {
        return Err(Usage("-o -: a recording goes to a file; name one, such as corun.rec".into()).into());
    }
    check_files([&args.output])?;
    let stop = stop_on_signals()?;
    let is_command = args.target.is_command();
    let target = args.target.target(RECORDED)?;
    let mut record = Record::start(&target, &RecordOptions { length_ns: args.length_ns }, &stop)?;
    let progress = Progress::time("recording", args.length_ns, args.quiet);
    let mut sums = Sums::default();
    let (mut bytes, mut failed) = (0, None);
    write_file_by(&args.output, |out| {
        let mut write = |part: Vec<u8>| {
            bytes += part.len() as u64;
            out.write_all(&part)
        };
        write(file::header(record.description()))?;
        let mut room = file::Room::default();
        let run = Entry::Run(run_of(record.source(), record.machine()));
        write(file::seen(&encode(&run)))?;
        // Windows follow each other, even if somebody sets the clock meanwhile.
        let ahead_ns = unix_ahead_ns();
        let unix_ns = |ns: u64| ns.saturating_add_signed(ahead_ns);
        for window in record.by_ref() {
            let window = match window {
                Ok(window) => window,
                Err(e) => {
                    failed = Some(e);
                    break;
                }
            };
            write(file::window(&window.run))?;
            let log = &window.run.log;
            sums.events += log.events.len() as u64;
            sums.lost += log.lost;
            let start_ns = *sums.start_ns.get_or_insert(log.start_ns);
            sums.end_ns = log.end_ns;
            let time = unix_ns(window.seen.start_ns)..unix_ns(window.seen.end_ns);
            let seen = file::seen(&kept(window.seen, time));
            match room.takes(&seen) {
                true => write(seen)?,
                false => sums.unseen_ns += log.end_ns - log.start_ns,
            }
            progress.elapsed(sums.end_ns.saturating_sub(start_ns));
        }
        write(file::end())
    })?;
    drop(progress);
    if let Some(e) = failed {
        return Err(e.into());
    }
    sums.bytes = bytes;
    let said = sums.text(&args.output);
    match is_command {
        true => drop(lines::tell(&said)),
        false => print(&said)?,
    }
    let ended = record.ended();
    match record.finish() {
        Some(_) if ended == Some(Ended::Interrupted) => Ok(interrupted(&stop)),
        Some(running) => {
            let status = running.wait().context("collecting the command")?;
            Ok(ExitCode::from(launch::exit_code(status)))
        }
        None => Ok(ExitCode::SUCCESS),
    }
}

impl Sums {
    fn text(&self, file: &std::path::Path) -> String {
        let length_ns = self.end_ns.saturating_sub(self.start_ns.unwrap_or(self.end_ns));
        let lost = match self.lost {
            0 => String::new(),
            n => format!("{n} events found no room: the run can be replayed up to the first of them\n"),
        };
        let unseen = match self.unseen_ns {
            0 => String::new(),
            ns => format!(
                "its last {} are there for a replay, not for `corun top`: no more fits\n",
                human_ns(ns)
            ),
        };
        let (events, length, bytes) = (self.events, human_ns(length_ns), self.bytes);
        let file = file.display();
        format!("recorded {events} events in {length}\n{lost}{unseen}wrote {file} ({bytes} bytes)\n")
    }
}
