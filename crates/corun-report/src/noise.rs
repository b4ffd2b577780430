//! The output of `corun doctor --noise`: the wire schema `corun.noise/1`, and a few lines for people.
//!
//! [`corun_model::noise_summary`] defines the base of its shares.

use crate::json;
use crate::table::Table;
use crate::unseen::unseen;
use crate::words::{name, share, wrap};
use corun_model::duration::human_ns;
use corun_model::noise_summary::{Benchmark, Program, Thread, Who};
use corun_model::Unavailable;
use serde::Serialize;
use std::fmt::Write;

/// Name and version of the schema, the first field of every report.
pub const SCHEMA: &str = "corun.noise/1";

/// How noisy a machine is.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NoiseReport {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// Version of corun that wrote this.
    pub corun: &'static str,
    /// When it began, for people.
    pub date: Option<String>,
    /// The machine in one line; `None` if it could not be read.
    pub machine: Option<String>,
    /// `ebpf` or `schedstat`; `None` if only the gaps are known.
    pub source: Option<String>,
    /// A stretch that loses more than this share is disturbed.
    pub max_disturbance: f64,
    /// The programs that computed, one after another.
    pub programs: Vec<Program>,
    /// Whether it ended before its time.
    pub is_interrupted: bool,
    /// The unseen values, and why.
    pub unavailable: Vec<Unavailable>,
}

/// Who took it, in words, with at most `width` characters of a name.
fn words(who: &Who, width: usize) -> String {
    match who {
        Who::Program(called) => format!("`{}`", name(called, width)),
        Who::Programs => "several other programs".into(),
        Who::Kernel => "the kernel's own threads".into(),
        Who::Corun => "corun itself".into(),
        Who::Idle => "CPUs that were slow to wake up".into(),
        Who::Quota => "its CPU quota".into(),
        Who::Stopped => "the process that stopped it".into(),
        Who::Hypervisor => "the hypervisor".into(),
        Who::Interrupts => "interrupts".into(),
        Who::InterruptsOrHypervisor => "interrupts or the hypervisor".into(),
        Who::Unknown => "unknown others".into(),
    }
}

impl NoiseReport {
    /// Indented JSON with a newline at the end.
    pub fn json(&self) -> String {
        json::indented(self)
    }

    /// A sentence per program, then who took how much, and what each CPU lost.
    pub fn text(&self) -> String {
        let mut out = String::new();
        let mut say = |text: &str| {
            for (n, line) in wrap(text, 98).into_iter().enumerate() {
                let _ = writeln!(out, "{}{line}", if n == 0 { "" } else { "  " });
            }
        };
        for program in &self.programs {
            say(&self.sentence(program));
        }
        for program in self.programs.iter().filter(|p| p.benchmarks.len() > 1) {
            say(&format!("{}: {}", shape(program), self.by_length(program)));
        }
        let threads: Vec<&Thread> =
            self.programs.iter().flat_map(|p| &p.threads).filter(|t| t.cpu.is_some()).collect();
        if !threads.is_empty() {
            let _ = write!(out, "\n{}", table(&threads));
        }
        if self.is_interrupted {
            out.push_str("! it was interrupted: this is what was measured until then\n");
        }
        for line in unseen(&self.unavailable, false) {
            let _ = writeln!(out, "{line}");
        }
        out
    }

    fn sentence(&self, program: &Program) -> String {
        const NAMED: usize = 3;
        let taken = format!("{} % of its {} was taken", share(program.taken), human_ns(program.length_ns));
        let takers: Vec<String> = program
            .takers
            .iter()
            .take(NAMED)
            .map(|taker| format!("{} {} %", words(&taker.who, 40), share(taker.share)))
            .collect();
        let by = if takers.is_empty() { String::new() } else { format!(": {}", takers.join(", ")) };
        match shown(program) {
            Some(Benchmark { length_ns, disturbed, of }) => format!(
                "{}: a benchmark of {} would be disturbed in {disturbed} of {of} windows (lose more than {} %); {taken}{by}",
                shape(program),
                human_ns(length_ns),
                share(self.max_disturbance),
            ),
            None => format!("{}: {taken}{by}", shape(program)),
        }
    }

    fn by_length(&self, program: &Program) -> String {
        let each = program
            .benchmarks
            .iter()
            .map(|b| format!("{} of {} windows of {}", b.disturbed, b.of, human_ns(b.length_ns)));
        format!("disturbed are {}", each.collect::<Vec<_>>().join(", "))
    }
}

fn shape(program: &Program) -> String {
    match &program.threads[..] {
        [Thread { cpu: None, .. }] => "one thread on any CPU".into(),
        [Thread { cpu: Some(cpu), .. }] => format!("one thread on CPU {cpu}"),
        threads => format!("a thread on each of {} CPUs", threads.len()),
    }
}

/// The benchmark in the sentence: one of a second, or a shorter one if the measurement was too short.
fn shown(program: &Program) -> Option<Benchmark> {
    program.benchmarks.iter().rfind(|b| b.length_ns <= 1_000_000_000).copied()
}

fn table(threads: &[&Thread]) -> String {
    let mut table = Table::new(&[">CPU", ">taken", ">by tasks", ">by interrupts", ">gaps/s", ">longest"]);
    for t in threads {
        let during = if t.longest_is_on_cpu { "an interrupt" } else { "a task" };
        table.row([
            t.cpu.map_or(String::new(), |cpu| cpu.to_string()),
            format!("{} %", share(t.taken)),
            format!("{} %", share(t.off_cpu)),
            format!("{} %", share(t.on_cpu)),
            format!("{:.0}", t.gaps_per_s),
            format!("{}, {during}", human_ns(t.longest_ns)),
        ]);
    }
    table.text()
}

#[cfg(test)]
mod tests {
    use super::*;
    use corun_model::noise_summary::Taker;
    use corun_model::What;

    fn thread(cpu: Option<u32>) -> Thread {
        Thread {
            cpu,
            taken: 0.12,
            off_cpu: 0.1,
            on_cpu: 0.02,
            gaps_per_s: 251.4,
            longest_ns: 4_000_000,
            longest_is_on_cpu: false,
        }
    }

    fn report() -> NoiseReport {
        let benchmark = |length_ns, disturbed, of| Benchmark { length_ns, disturbed, of };
        let free = Program {
            length_ns: 15_000_000_000,
            taken: 0.004,
            benchmarks: vec![benchmark(100_000_000, 3, 150), benchmark(1_000_000_000, 0, 15)],
            takers: vec![Taker { who: Who::Interrupts, share: 0.004 }],
            threads: vec![thread(None)],
        };
        let on_each = Program {
            taken: 0.12,
            benchmarks: vec![benchmark(1_000_000_000, 20, 30), benchmark(10_000_000_000, 2, 2)],
            takers: vec![
                Taker { who: Who::Program("cargo".into()), share: 0.1 },
                Taker { who: Who::InterruptsOrHypervisor, share: 0.02 },
            ],
            threads: vec![thread(Some(0)), thread(Some(1))],
            ..free.clone()
        };
        NoiseReport {
            schema: SCHEMA,
            corun: "0",
            date: None,
            machine: None,
            source: Some("ebpf".into()),
            max_disturbance: 0.02,
            programs: vec![free, on_each],
            is_interrupted: false,
            unavailable: Vec::new(),
        }
    }

    #[test]
    fn each_program_has_a_sentence_with_the_loss_of_a_benchmark_and_its_causes() {
        let text = report().text().replace("\n  ", " ");
        let first = "one thread on any CPU: a benchmark of 1.00 s would be disturbed in 0 of 15 windows (lose more than 2.0 %); \
                     0.4 % of its 15.0 s was taken: interrupts 0.4 %";
        let second = "a thread on each of 2 CPUs: a benchmark of 1.00 s would be disturbed in 20 of 30 windows (lose more than \
                      2.0 %); 12 % of its 15.0 s was taken: `cargo` 10 %, interrupts or the hypervisor 2.0 %";
        assert!(text.contains(first), "{text}");
        assert!(text.contains(second), "{text}");
        assert!(
            text.contains("disturbed are 20 of 30 windows of 1.00 s, 2 of 2 windows of 10.0 s"),
            "{text}"
        );
        assert!(text.contains("251  4.00 ms, a task"), "{text}");
    }

    #[test]
    fn unseen_time_and_an_early_end_are_reported() {
        let mut blind = report();
        blind.unavailable.push(Unavailable::new(What::Other("who".into()), "no root\x1b".to_owned().into()));
        blind.is_interrupted = true;
        let text = blind.text();
        assert!(text.contains("! who: no root?") && text.contains("! it was interrupted"), "{text}");
    }

    #[test]
    fn the_json_names_its_schema_and_who_took_what() {
        let value: serde_json::Value = serde_json::from_str(&report().json()).unwrap();
        assert_eq!(value["schema"], SCHEMA);
        let taker = &value["programs"][1]["takers"][0];
        assert_eq!((taker["kind"].as_str(), taker["name"].as_str()), (Some("program"), Some("cargo")));
        assert_eq!(value["programs"][0]["threads"][0]["cpu"], serde_json::Value::Null);
        assert_eq!(value["programs"][0]["benchmarks"][0]["of"], 150);
    }
}
