//! Reading a workload file's text, with the checks that need more than a type. Bad input is one sentence that
//! names file, line and remedy.

use super::character::Character;
use super::flow::Flow;
use super::program::{Command, Interference, Length, Micro, MicroKind, Parallel, Pattern, Program, Sync};
use super::variation::{OnMachine, Phase};
use super::words::read_file;
use crate::duration::human_ns;
use serde::Deserialize;
use thiserror::Error;

/// A program described once.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Workload {
    /// Always `corun.workload/1`.
    pub schema: String,
    /// What people call it.
    pub name: String,
    /// One sentence on what it stands for, and what in it is measured or assumed.
    #[serde(default)]
    pub about: String,
    /// What it runs.
    pub program: Program,
    /// How it uses core and memory; read by the modelled machine only.
    #[serde(default)]
    pub character: Character,
    /// Phases with characters of their own, in turn; empty: `character` all along.
    #[serde(default)]
    pub phase: Vec<Phase>,
    /// Its size on particular machines.
    #[serde(default)]
    pub on: Vec<OnMachine>,
}

/// A workload file that cannot be used.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{file}:{line}: {what}")]
pub struct BadWorkload {
    /// The file's name as given.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// What is wrong and what to do, in one sentence.
    pub what: String,
}

/// Bounds that keep a typing slip from asking for a million threads.
pub const MAX_THREADS: u32 = 10_000;

/// Most locks of a program: as many as its threads could each hold several of.
pub const MAX_LOCKS: u32 = 100_000;

impl Workload {
    /// Reads the text of a workload file; `file` is only named in errors.
    ///
    /// # Errors
    /// [`BadWorkload`] with file, line and remedy.
    pub fn parse(file: &str, text: &str) -> Result<Workload, BadWorkload> {
        let at = |line, what: String| BadWorkload { file: file.to_string(), line, what };
        let workload: Workload =
            read_file("corun.workload/1", text).map_err(|(line, what)| at(line, what))?;
        let checks = workload.program.check().and_then(|()| workload.check_variation());
        checks.map_err(|(key, what)| at(line_saying(text, key, &what), what))?;
        Ok(workload)
    }
}

/// The line of an error at byte `start`. A tagged table is read as a whole, so its errors point at its header:
/// the line at or after it that holds the text which the message quotes is the one to name.
pub(super) fn line_at(text: &str, start: usize, what: &str) -> usize {
    let first = text[..start].matches('\n').count();
    let mut rest = text.lines().skip(first);
    let is_table = rest.clone().next().is_some_and(|l| l.starts_with('['));
    let text_of_wrong_type = || what.split_once("string \"")?.1.split('"').next();
    let quoted = what.split('`').nth(1).or_else(text_of_wrong_type).filter(|q| is_table && !q.is_empty());
    first + quoted.and_then(|q| rest.position(|l| l.contains(q))).unwrap_or(0) + 1
}

/// The first line that sets `key`, or the `[program]` line, or 1.
pub fn line_of(text: &str, key: &str) -> usize {
    let sets = |line: &str, key: &str| {
        line.trim_start().strip_prefix(key).is_some_and(|r| r.trim_start().starts_with('='))
    };
    let find = |f: &dyn Fn(&str) -> bool| text.lines().position(f).map(|i| i + 1);
    find(&|l| sets(l, key)).or_else(|| find(&|l| l.trim() == "[program]")).unwrap_or(1)
}

/// The line at fault when `what` reads "`key` is VALUE..." or begins with a text in backticks: the first that sets `key` to
/// that; when it reads "stage `NAME`...": the last that names something so; else as [`line_of`].
pub fn line_saying(text: &str, key: &str, what: &str) -> usize {
    if let Some(name) = what.strip_prefix("stage `").and_then(|w| w.split('`').next()) {
        let names = |line: &str| {
            line.split("name")
                .skip(1)
                .any(|r| r.trim_start_matches([' ', '=']).starts_with(&format!("\"{name}\"")))
        };
        let last = text.lines().enumerate().filter(|(_, line)| names(line)).last();
        return last.map_or_else(|| line_of(text, key), |(i, _)| i + 1);
    }
    let value =
        what.strip_prefix(key).and_then(|w| w.strip_prefix(" is ")).and_then(|w| w.split([';', ',']).next());
    let quoted = what.strip_prefix('`').and_then(|w| w.split('`').next());
    let same = |written: &str| {
        let written = written.trim_start();
        if let Some(quoted) = quoted {
            // A bandwidth is told without its `/s`.
            let after = written.strip_prefix('"').and_then(|w| w.strip_prefix(quoted));
            return after.is_some_and(|rest| rest.starts_with(['"', '/']));
        }
        let token = written.split([',', '}', '#', ' ']).next().unwrap_or("");
        let number = |t: &str| t.parse::<f64>().ok();
        value.is_some_and(|v| token == v || (number(v).is_some() && number(token) == number(v)))
    };
    let says =
        |line: &str| line.split(key).skip(1).filter_map(|r| r.trim_start().strip_prefix('=')).any(same);
    text.lines().position(says).map_or_else(|| line_of(text, key), |i| i + 1)
}

impl Program {
    /// Checks ranges that the types allow but no program can have.
    ///
    /// # Errors
    /// The key at fault and one sentence with the remedy.
    pub fn check(&self) -> Result<(), (&'static str, String)> {
        match self {
            Program::Interference(i) => check_interference(i),
            Program::Parallel(p) => check_parallel(p),
            Program::Micro(m) => check_micro(m),
            Program::Command(c) => check_command(c),
        }
    }
}

type Check = Result<(), (&'static str, String)>;

/// Bound on the idle intervals of interference: a thousand hours.
const MOST_IDLE_NS: u64 = 3_600_000_000_000_000;

fn threads(n: u32) -> Check {
    match n {
        0 => Err(("threads", "threads is 0; a program needs at least 1".into())),
        1..=MAX_THREADS => Ok(()),
        _ => Err(("threads", format!("threads is {n}; at most {MAX_THREADS} are allowed"))),
    }
}

fn share(key: &'static str, x: f64) -> Check {
    if (0.0..=1.0).contains(&x) {
        Ok(())
    } else {
        Err((key, format!("{key} is {x:?}; it is a share between 0 and 1")))
    }
}

fn check_interference(i: &Interference) -> Check {
    threads(i.threads)?;
    share("demand", i.demand)?;
    if i.pattern != Pattern::Persistent && i.demand == 0.0 {
        return Err(("demand", "demand is 0, so it would never run; give a share above 0".into()));
    }
    match i.pattern {
        Pattern::Periodic if i.busy == 0 => {
            Err(("busy", "busy is 0; give the length of a busy interval".into()))
        }
        Pattern::Intermittent if i.busy_min == 0 || i.busy_min > i.busy_max => {
            Err(("busy-min", "busy-min must be above 0 and at most busy-max".into()))
        }
        Pattern::Periodic => check_idle(i, i.busy),
        Pattern::Intermittent => check_idle(i, i.busy_max),
        Pattern::Persistent => Ok(()),
    }
}

/// An idle interval ends while somebody can still see it.
fn check_idle(i: &Interference, busy_ns: u64) -> Check {
    if i.idle_ns(busy_ns) <= MOST_IDLE_NS {
        return Ok(());
    }
    let what = format!(
        "demand is {:?}, so it would be idle for more than {} after {}; give a larger share",
        i.demand,
        human_ns(MOST_IDLE_NS),
        human_ns(busy_ns)
    );
    Err(("demand", what))
}

fn check_parallel(p: &Parallel) -> Check {
    threads(p.threads)?;
    share("imbalance", p.imbalance)?;
    share("critical", p.critical)?;
    if p.grain == 0 {
        return Err(("grain", "grain is 0; give the work between two synchronisations, such as 1ms".into()));
    }
    Flow::of(p)?;
    match p.sync {
        Sync::Lock if p.locks == 0 => Err(("locks", "locks is 0; give at least 1".into())),
        Sync::Lock if p.locks > MAX_LOCKS => {
            Err(("locks", format!("locks is {}; at most {MAX_LOCKS} are allowed", p.locks)))
        }
        Sync::Pipeline if p.queue_depth == 0 => {
            Err(("queue-depth", "queue-depth is 0, so no item could pass; give at least 1".into()))
        }
        _ => Ok(()),
    }
}

fn check_command(c: &Command) -> Check {
    if c.argv.is_empty() {
        return Err(("argv", "argv is empty; give the program and its arguments".into()));
    }
    c.model.iter().try_for_each(check_parallel)?;
    if c.iterations == 1 {
        return Ok(());
    }
    let wrong = |what: &str| Err(("iterations", format!("iterations is {}, {what}", c.iterations)));
    match c.model.iter().position(|p| p.length() == Length::Endless) {
        _ if c.model.is_empty() => wrong("but there are no phases to go through; describe them as [[program.model]]"),
        Some(i) => wrong(&format!(
            "but phase {} never ends, so it is gone through once at most; give that phase iterations, or a duration",
            i + 1
        )),
        None => Ok(()),
    }
}

fn check_micro(m: &Micro) -> Check {
    threads(m.threads)?;
    match m.name {
        MicroKind::Hubench | MicroKind::Lubench if m.threads % 2 == 1 => Err((
            "threads",
            format!("threads is {}; hubench and lubench share in pairs, give an even number", m.threads),
        )),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::{BusyBy, Sharing, Wait};

    const BARRIER: &str = r#"
schema = "corun.workload/1"
name = "fine-barrier"

[program]
kind = "parallel"
threads = 4
sync = "barrier"
wait = "spin-then-block"
grain = "500us"
iterations = 100
footprint = "64KiB"
sharing = "false"
"#;

    #[test]
    fn a_parallel_program_is_read_with_units_and_defaults() {
        let w = Workload::parse("w.toml", BARRIER).unwrap();
        let Program::Parallel(p) = w.program else { panic!("not parallel") };
        assert_eq!((p.threads, p.wait, p.grain, p.footprint), (4, Wait::SpinThenBlock, 500_000, 65_536));
        assert_eq!((p.length(), p.sharing, p.spin), (Length::Iterations(100), Sharing::False, 50_000));
    }

    fn refusal(from: &str, to: &str) -> String {
        Workload::parse("w.toml", &BARRIER.replace(from, to)).unwrap_err().to_string()
    }

    #[test]
    fn bad_input_is_one_sentence_with_file_and_line() {
        assert_eq!(
            refusal("threads = 4", "threads = 0"),
            "w.toml:7: threads is 0; a program needs at least 1"
        );
        assert_eq!(
            refusal("\"500us\"", "\"500\""),
            "w.toml:10: `500` is not a time with its unit, such as 500us, 10ms or 2s"
        );
        assert!(refusal("wait =", "weight =").contains("unknown field `weight`"));
        assert!(refusal("workload/1", "workload/9").starts_with("w.toml:2: schema is `corun.workload/9`"));
        assert!(refusal("sync = \"barrier\"", "sync = \"pipeline\"\nstages = 9").contains("9 stages need"));
        assert!(refusal("name =", "name").starts_with("w.toml:3:"));
    }

    #[test]
    fn a_value_of_the_wrong_type_is_refused_at_its_line_with_what_it_should_be() {
        let time = "expected a time in quotes with its unit, such as \"10ms\"";
        let said = refusal("\"500us\"", "500");
        assert_eq!(said, format!("w.toml:10: invalid type: integer `500`, {time}"));
        let size = "expected a size in quotes with its unit, such as \"64KiB\"";
        let said = refusal("\"64KiB\"", "64");
        assert_eq!(said, format!("w.toml:12: invalid type: integer `64`, {size}"));
        let said = refusal("footprint = \"64KiB\"", "cpus = \"0-3\"");
        assert!(said.starts_with("w.toml:12: invalid type: string \"0-3\", expected a list"), "{said}");
        let said = refusal("footprint = \"64KiB\"", "cpus = [\"0-3\"]");
        assert!(said.contains("w.toml:12: invalid type: string \"0-3\", expected a whole number"), "{said}");
    }

    #[test]
    fn interference_defaults_are_those_of_the_paper() {
        let text = "schema = \"corun.workload/1\"\nname = \"i\"\n[program]\nkind = \"interference\"\npattern = \"intermittent\"\n";
        let Program::Interference(i) = Workload::parse("i.toml", text).unwrap().program else { panic!() };
        assert_eq!((i.busy, i.busy_min, i.busy_max, i.demand), (10_000_000, 1_000_000, 40_000_000, 0.5));
        assert_eq!(i.busy_by, BusyBy::Cpu);
        let by_wall = format!("{text}busy-by = \"wall\"\n");
        let Program::Interference(i) = Workload::parse("i.toml", &by_wall).unwrap().program else { panic!() };
        assert_eq!(i.busy_by, BusyBy::Wall);
    }

    #[test]
    fn interference_that_would_hardly_ever_run_is_refused() {
        let of = |demand: &str| {
            let text = format!("schema = \"corun.workload/1\"\nname = \"i\"\n[program]\nkind = \"interference\"\npattern = \"periodic\"\ndemand = {demand}\n");
            Workload::parse("i.toml", &text).map_err(|bad| bad.to_string())
        };
        assert!(of("0.000001").is_ok());
        let said = of("1e-300").unwrap_err();
        assert!(said.starts_with("i.toml:6: demand is 1e-300, so it would be idle"), "{said}");
        assert!(said.ends_with("be idle for more than 1000 h after 10.0 ms; give a larger share"), "{said}");
    }

    #[test]
    fn phases_may_be_gone_through_again_and_again_if_each_has_an_end() {
        let of = |iterations: &str, phase: &str| {
            let text = format!("schema = \"corun.workload/1\"\nname = \"c\"\n[program]\nkind = \"command\"\nargv = [\"c\"]\n{iterations}\n{phase}");
            let command = |w: Workload| match w.program {
                Program::Command(c) => (c.iterations, c.is_endless()),
                _ => panic!("it is a command"),
            };
            Workload::parse("c.toml", &text).map(command).map_err(|bad| bad.to_string())
        };
        let ends = "[[program.model]]\nthreads = 4\niterations = 3\n[[program.model]]\nduration = \"5ms\"\n";
        assert_eq!(of("", ends), Ok((1, false)));
        assert_eq!(of("iterations = 250", ends), Ok((250, false)));
        assert_eq!(of("iterations = 0", ends), Ok((0, true)));
        let endless = "[[program.model]]\nthreads = 4\n";
        assert_eq!(of("", endless), Ok((1, true)));
        let said = of("iterations = 250", &format!("{ends}{endless}")).unwrap_err();
        assert!(said.starts_with("c.toml:6: iterations is 250, but phase 3 never ends"), "{said}");
        let said = of("iterations = 250", "").unwrap_err();
        assert!(said.starts_with("c.toml:6: iterations is 250, but there are no phases"), "{said}");
    }

    #[test]
    fn pairs_need_an_even_number_of_threads() {
        let text = "schema = \"corun.workload/1\"\nname = \"h\"\n[program]\nkind = \"micro\"\nname = \"hubench\"\nthreads = 3\n";
        assert!(Workload::parse("h.toml", text)
            .unwrap_err()
            .to_string()
            .starts_with("h.toml:6: threads is 3"));
    }
}
