//! `corun top`: who keeps whom from a CPU, in a terminal, live.

mod past;

use crate::date::now;
use crate::lines;
use crate::reading;
use crate::target::SourceFlag;
use crate::usage::{interrupted, stop_on_signals, Usage};
use crate::values::length_ns;
use anyhow::Context;
use corun_report::one_line;
use corun_report::output::print;
use corun_report::places::unread;
use corun_report::terminal::Style;
use corun_session::Stop;
use corun_top::app::{App, Request};
use corun_top::event::Event;
use corun_top::keys::Keys;
use corun_top::live::{self, StartError, Wanted};
use corun_top::view::Capabilities;
use corun_top::{requests, terminal};
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc::channel;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  corun top                          who suffers most, and from whom; `?` shows the keys
  sudo corun top                     with root it knows who held the CPUs
  corun top --once                   one frame as text, for a log or a mail
  corun top --every 5s               longer windows
  corun top /var/lib/corun/ring      what an agent saw: the newest hour of its ring
  corun top /var/lib/corun/ring --at 03:10 --for 10m
  corun top corun.rec                what `corun record` saw, from its end back
  corun top --print-keys > ~/.config/corun/top.toml
                                     a file of keys to change; corun reads it from then on

Exit status: 0 when you quit, 128 and its number when a signal ends it, 2 is bad usage, 1 a failure of corun's own.";

/// Show who keeps whom from a CPU, as it happens
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// What to look at instead of this machine: a recording of `corun record`, or the folder of a `corun agent`'s ring
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// With FILE: when to begin, such as 03:10, 03:10:30 or 2026-01-31T03:10 [default: until the end, for as long as
    /// --for says]
    #[arg(long, value_name = "TIME", requires = "file")]
    at: Option<String>,
    /// With FILE: for how long [default: from --at until the end; without --at the newest hour]
    #[arg(long = "for", value_name = "TIME", value_parser = length_ns, requires = "file")]
    length_ns: Option<u64>,
    /// How long a window is, from 100ms to 1h
    #[arg(long, value_name = "TIME", value_parser = length_ns, default_value = "1s")]
    every: u64,
    /// Print one frame as text and end
    #[arg(long)]
    once: bool,
    /// A file of keys [default: corun/top.toml in $XDG_CONFIG_HOME or ~/.config, where it exists]
    #[arg(long, value_name = "FILE")]
    keys: Option<PathBuf>,
    /// Print the keys as such a file and end
    #[arg(long)]
    print_keys: bool,
    /// How to watch: eBPF where possible, otherwise schedstat (needs no root, names no culprits)
    #[arg(long, value_enum, default_value = "auto")]
    source: SourceFlag,
}

/// Rows of a printed frame.
const ROWS: u16 = 40;
/// The shortest and the longest window, in nanoseconds.
const WINDOWS_NS: [u64; 2] = [100_000_000, 3_600_000_000_000];

/// Runs the verb.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let keys = keys(args.keys.as_deref())?;
    if args.print_keys {
        print(&keys.to_toml())?;
        return Ok(ExitCode::SUCCESS);
    }
    let [least, most] = WINDOWS_NS;
    if !(least..=most).contains(&args.every) {
        return Err(Usage("--every is from 100ms to 1h; give a time between the two".into()).into());
    }
    if !args.once {
        refuse_no_terminal()?;
    }
    let style = Style::of_stdout();
    let caps = Capabilities { colour: style.colour && !args.once, unicode: style.unicode };
    let stop = stop_on_signals()?;
    let (to, events) = channel();
    let wanted = Wanted {
        source: args.source.wanted(),
        first: Duration::from_nanos(if args.once { args.every } else { live::FIRST_NS.min(args.every) }),
        every: Duration::from_nanos(args.every),
        now,
    };
    let mut past = None;
    let mut beginning = (Vec::new(), None);
    let (began, live) = match &args.file {
        Some(file) => {
            let (opened, snapshots, said) = past::open(file, args.at.as_deref(), args.length_ns)?;
            beginning = (snapshots, said);
            (past.insert(opened).began.clone(), None)
        }
        None => {
            let (began, live) = live::start(wanted, &stop, to.clone()).map_err(|error| match error {
                StartError::Session(error) => anyhow::Error::from(error),
                error => error.into(),
            })?;
            (began, Some(live))
        }
    };
    let mut app = App::new(began.facts.clone(), keys);
    let (snapshots, said) = beginning;
    // A requested time is shown from its beginning on.
    app.turn_to(snapshots, args.at.is_none());
    app.notice = said;
    if args.once {
        drop(to);
        let columns = u16::try_from(style.width).unwrap_or(u16::MAX);
        let frame = terminal::once(&mut app, caps, columns, ROWS, &events);
        drop(live);
        return match frame {
            Some(frame) => {
                print(&frame)?;
                Ok(ExitCode::SUCCESS)
            }
            None if stop.signal().is_some() => Ok(interrupted(&stop)),
            None => anyhow::bail!(app.ended.unwrap_or_else(|| "nothing was seen".into())),
        };
    }
    let mut traces = Vec::new();
    let perform = |request, app: &mut App| match request {
        Request::Save => requests::save(app, past.as_ref().map_or(&began, |past| &past.began), Path::new("")),
        Request::Before => past.as_mut().map(|past| past.before(app)).unwrap_or_default(),
        Request::After => past.as_mut().map(|past| past.after(app)).unwrap_or_default(),
        Request::Trace => match requests::trace(&began, now(), PathBuf::new(), stop.clone(), to.clone()) {
            Ok(trace) => {
                traces.push(trace);
                requests::tracing()
            }
            Err(error) => one_line(&format!("no trace: {error}")),
        },
        Request::Worst => {
            let whose = requests::whose(app);
            match requests::worst(&began, whose, now(), PathBuf::new(), stop.clone(), to.clone()) {
                Ok(look) => {
                    traces.push(look);
                    requests::looking()
                }
                Err(error) => one_line(&format!("no waits: {error}")),
            }
        }
        Request::Quit => String::new(),
    };
    let done = terminal::run(&mut app, caps, &events, &stop, perform);
    // It also stops the traces, which are written up to that point.
    drop(live);
    for trace in traces {
        // A thread that panicked has reported that already.
        let _ = trace.join();
        events.try_iter().for_each(|event| {
            if let Event::Said(said) = event {
                lines::say(&format!("corun: {said}"));
            }
        });
    }
    done.context("the terminal")?;
    Ok(ended(&stop))
}

/// If a signal ended it, the status is that of shells; quitting is success.
fn ended(stop: &Stop) -> ExitCode {
    match stop.signal() {
        Some(_) => interrupted(stop),
        None => ExitCode::SUCCESS,
    }
}

/// The alternative if nothing can be drawn.
fn refuse_no_terminal() -> Result<(), Usage> {
    const INSTEAD: &str = "`corun top --once` prints one frame, `corun profile --all --for 10s` a report";
    if !std::io::stdout().is_terminal() {
        return Err(Usage(format!("standard output is no terminal; {INSTEAD}")));
    }
    match std::env::var("TERM") {
        Ok(term) if term != "dumb" && !term.is_empty() => Ok(()),
        Ok(term) if term == "dumb" => {
            Err(Usage(format!("this terminal cannot be drawn on (TERM is `dumb`); {INSTEAD}")))
        }
        _ => Err(Usage(format!("TERM does not say which terminal this is; set it, or {INSTEAD}"))),
    }
}

/// The keys of the named file, or of the user's own, if it exists.
fn keys(named: Option<&Path>) -> anyhow::Result<Keys> {
    let set = |key: &str| std::env::var_os(key).filter(|value| !value.is_empty()).map(PathBuf::from);
    let own = || {
        let folder = set("XDG_CONFIG_HOME").or_else(|| Some(set("HOME")?.join(".config")))?;
        Some(folder.join("corun/top.toml")).filter(|file| file.exists())
    };
    let Some(file) = named.map(Path::to_owned).or_else(own) else { return Ok(Keys::default()) };
    let text = reading::text_of(&file).map_err(|error| {
        Usage(format!("cannot read the keys in {}: {}", file.display(), unread(&file, &error)))
    })?;
    let refused = |error| {
        Usage(format!("{}: {error}; `corun top --print-keys` shows how it is written", file.display()))
    };
    Ok(Keys::read(&text).map_err(refused)?)
}
