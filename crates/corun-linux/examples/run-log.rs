//! Records what a command's tasks do, event by event: `run-log FILE CMD [ARGUMENT...]`; `-` prints the events.

use corun_linux::launch::Held;
use corun_linux::probe::{LiveHost, LiveOptions};
use corun_linux::target::Subject;
use corun_linux::Root;
use corun_model::run_log::{file, RunLog};
use corun_model::Host;
use std::process::Command;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [file, program, arguments @ ..] = &args[..] else { panic!("run-log FILE CMD [ARGUMENT...]") };
    let mut command = Command::new(program);
    command.args(arguments);
    let held = Held::start(command).expect("the command starts");
    let subject = Subject::command(held.pid(), program);
    let options = LiveOptions { record_bytes: 8 << 20, ..LiveOptions::new(subject) };
    let mut host = LiveHost::start(&Root::new("/"), options).expect("the probe starts");
    let running = held.release().expect("the command runs");
    let mut log: Option<RunLog> = None;
    let mut ended = false;
    while !ended {
        ended = running.has_ended();
        host.advance(50_000_000).expect("time passes");
        let part = host.take_run_log().expect("it is recorded");
        match &mut log {
            None => log = Some(part),
            Some(log) => {
                log.end_ns = part.end_ns;
                log.lost += part.lost;
                log.events.extend(part.events);
            }
        }
    }
    let log = log.expect("at least one part");
    if file == "-" {
        let at = |ns: u64| ns.saturating_sub(log.start_ns) as f64 / 1e3;
        log.events.iter().for_each(|e| println!("{:12.1} {} {:?}", at(e.t_ns), e.task.0, e.what));
    } else {
        std::fs::write(file, file::write(&log, &args[1..].join(" "))).expect("the file can be written");
    }
    eprintln!("{} events, {} lost", log.events.len(), log.lost);
}
