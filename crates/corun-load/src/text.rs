//! Reports and progress for people: a few lines, and a line for each thread.

use crate::calibration::Source;
use crate::progress::Progress;
use crate::report::{CommandReport, Report, ThreadReport};
use crate::watch::Ended;
use corun_model::duration::{human_bytes, human_ns};
use std::fmt::{Display, Formatter, Result};

/// The most threads that are listed.
const MOST_THREADS: usize = 64;

impl Display for Report {
    fn fmt(&self, f: &mut Formatter) -> Result {
        let ended = match (self.ended, &self.command) {
            (Ended::Completed, Some(c)) if c.exit_code != Some(0) => format!("failed: {}", c.how_it_ended()),
            (Ended::Completed, _) => "completed".to_owned(),
            (Ended::TimeUp, _) => "time is up".to_owned(),
            (Ended::Stopped, _) => "stopped".to_owned(),
            (Ended::VictimEnded, _) => "the victim has ended".to_owned(),
        };
        writeln!(f, "{}", self.what)?;
        writeln!(
            f,
            "  {} in {}, {} ({ended})",
            count(self.iterations, self.unit),
            human_ns(self.wall_ns),
            rate(self.per_second)
        )?;
        write!(f, "  CPU {}, achieved demand {}", human_ns(self.cpu_ns), percent(self.demand))?;
        match self.demand_asked {
            Some(asked) => writeln!(f, " of {} asked for", percent(asked))?,
            None => writeln!(f)?,
        }
        if let Some(held) = &self.held {
            write!(f, "{held}")?;
        }
        if let Some(c) = self.calibration {
            let source = match (c.source, c.spread) {
                (Source::Measured, Some(spread)) => format!("measured, spread {}", percent(spread)),
                _ => "given".to_string(),
            };
            writeln!(f, "  pace {} loops/ms ({source})", c.loops_per_ms)?;
        }
        if let Some(c) = &self.command {
            let ended = c.how_it_ended();
            let (user, system) = (human_ns(c.user_ns), human_ns(c.system_ns));
            writeln!(f, "  {ended}; user {user}, system {system}, memory {}", human_bytes(c.max_rss_bytes))?;
        }
        self.table(f)
    }
}

impl CommandReport {
    fn how_it_ended(&self) -> String {
        match (self.exit_code, self.signal) {
            (Some(code), _) => format!("exit status {code}"),
            (None, Some(signal)) => format!("ended by signal {signal}"),
            (None, None) => "ended".to_string(),
        }
    }
}

type Column = (&'static str, fn(&ThreadReport) -> Option<String>);

/// The columns of the table. One that is empty in every row is left out.
const COLUMNS: &[Column] = &[
    ("thread", |t| Some(t.name.clone())),
    ("CPU", |t| t.cpu.map(|c| c.to_string())),
    ("iterations", |t| Some(t.iterations.to_string())),
    ("per second", |t| Some(digits(t.per_second))),
    ("demand", |t| Some(percent(t.demand))),
    ("work", |t| t.work_ns.map(human_ns)),
    ("spin", |t| t.waiting.map(|w| human_ns(w.spin_ns))),
    ("block", |t| t.waiting.map(|w| human_ns(w.block_ns))),
    ("waits", |t| t.waiting.map(|w| w.waits.to_string())),
    ("yields", |t| Some(t.yields.to_string())),
    ("preempted", |t| Some(t.preemptions.to_string())),
];

impl Report {
    fn table(&self, f: &mut Formatter) -> Result {
        let shown = &self.threads[..self.threads.len().min(MOST_THREADS)];
        let columns: Vec<(&str, Vec<String>)> = COLUMNS
            .iter()
            .map(|(head, cell)| (*head, shown.iter().map(cell).collect::<Vec<_>>()))
            .filter(|(_, cells)| cells.iter().any(Option::is_some))
            .map(|(head, cells)| (head, cells.into_iter().map(|c| c.unwrap_or_else(|| "-".into())).collect()))
            .collect();
        let widths = columns.iter().map(|(head, cells)| {
            let width = |cell: &str| cell.chars().count();
            cells.iter().map(|c| width(c)).chain([width(head)]).max().unwrap_or(0)
        });
        let widths: Vec<usize> = widths.collect();
        let line = |cells: Vec<&str>| {
            let pad = |(i, (cell, width)): (usize, (&&str, &usize))| match i {
                0 => format!("{cell:<width$}"),
                _ => format!("{cell:>width$}"),
            };
            cells.iter().zip(&widths).enumerate().map(pad).collect::<Vec<_>>().join("  ")
        };
        if !shown.is_empty() {
            writeln!(f, "\n  {}", line(columns.iter().map(|(head, _)| *head).collect()))?;
        }
        for row in 0..shown.len() {
            writeln!(f, "  {}", line(columns.iter().map(|(_, cells)| cells[row].as_str()).collect()))?;
        }
        match self.threads.len() - shown.len() {
            0 => Ok(()),
            more => writeln!(f, "  … and {more} more threads; the JSON has them all"),
        }
    }
}

impl Display for Progress {
    fn fmt(&self, f: &mut Formatter) -> Result {
        write!(f, "{:>7}", human_ns(self.wall_ns))?;
        if let Some(done) = self.done {
            write!(f, " {:>4.0} %", done * 100.0)?;
        }
        if let Some(holding) = &self.holding {
            return write!(f, "  {holding}");
        }
        let Some(demand) = self.demand else { return Ok(()) };
        write!(
            f,
            "  {}  {}  demand {}",
            count(self.iterations, self.unit),
            rate(self.per_second),
            percent(demand)
        )?;
        if self.threads.len() > 1 {
            let each =
                self.threads.iter().take(8).map(|t| digits(t.per_second)).collect::<Vec<_>>().join(" ");
            let more = if self.threads.len() > 8 { " …" } else { "" };
            write!(f, "  per thread {each}{more}")?;
        }
        Ok(())
    }
}

/// "1 round", "2 rounds", "3 ms of work".
fn count(n: u64, unit: &str) -> String {
    match unit.split_once(' ') {
        _ if n == 1 => format!("1 {unit}"),
        None => format!("{n} {unit}s"),
        Some(("sweep", rest)) => format!("{n} sweeps {rest}"),
        Some(_) => format!("{n} {unit}"),
    }
}

fn rate(per_second: f64) -> String {
    format!("{}/s", digits(per_second))
}

/// Enough digits to compare two runs.
fn digits(x: f64) -> String {
    let decimals = match x.abs() {
        100_000.0.. => 0,
        1_000.0.. => 1,
        10.0.. => 2,
        _ => 3,
    };
    format!("{x:.decimals$}")
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Waiting;

    fn report() -> Report {
        let waiting = Waiting { waits: 10, wait_ns: 5_000_000, spin_ns: 4_000_000, ..Default::default() };
        let thread = |i: usize| ThreadReport {
            name: format!("barrier-{i}"),
            tid: 7,
            cpu: None,
            iterations: 1000,
            per_second: 976.5625,
            wall_ns: 1_024_000_000,
            cpu_ns: 1_004_000_000,
            demand: 0.98,
            work_ns: Some(1_000_000_000),
            yields: 1,
            preemptions: 2,
            waiting: Some(waiting),
        };
        Report {
            schema: "corun.load/1",
            what: "barrier, 2 threads, spinning, grain 1.00 ms".into(),
            ended: Ended::Completed,
            unit: "round",
            iterations: 1000,
            per_second: 976.5625,
            wall_ns: 1_024_000_000,
            cpu_ns: 2_008_000_000,
            demand: 0.98,
            demand_asked: None,
            calibration: Some(crate::calibration::Calibration::given(62_500)),
            waiting: Some(waiting),
            held: None,
            threads: (0..2).map(thread).collect(),
            command: None,
        }
    }

    #[test]
    fn a_report_is_a_few_lines_and_a_table_without_empty_columns() {
        let expected = "\
barrier, 2 threads, spinning, grain 1.00 ms
  1000 rounds in 1.02 s, 976.56/s (completed)
  CPU 2.01 s, achieved demand 98.0 %
  pace 62500 loops/ms (given)

  thread     iterations  per second  demand    work     spin  block  waits  yields  preempted
  barrier-0        1000      976.56  98.0 %  1.00 s  4.00 ms    0 s     10       1          2
  barrier-1        1000      976.56  98.0 %  1.00 s  4.00 ms    0 s     10       1          2
";
        assert_eq!(report().to_string(), expected);
    }

    #[test]
    fn thousands_of_threads_do_not_flood_the_terminal() {
        let mut report = report();
        report.threads = vec![report.threads[0].clone(); 1000];
        let text = report.to_string();
        assert!(text.ends_with("… and 936 more threads; the JSON has them all\n"), "{text}");
    }

    #[test]
    fn counts_agree_with_their_unit() {
        assert_eq!((count(1, "round"), count(2, "round")), ("1 round".into(), "2 rounds".into()));
        assert_eq!(count(0, "ms of work"), "0 ms of work");
        assert_eq!(count(3, "sweep of 16 increments"), "3 sweeps of 16 increments");
    }
}
