//! The flags of the kinds of load, and the programs that they make. Every default is that of the workload
//! type.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use corun_load::{affinity, Goal};
use corun_model::duration::{parse_bytes, parse_ns};
use corun_model::workload::{
    BusyBy, Interference, Micro, MicroKind, Parallel, Pattern, Program, Sharing, Sync, Wait,
};
use serde::de::value::{Error, StrDeserializer};
use serde::de::{DeserializeOwned, IntoDeserializer};
use std::fmt::{Display, Formatter};
use std::str::FromStr;

/// A time on the command line, in nanoseconds inside.
#[derive(Clone, Copy, Debug)]
pub struct Ns(pub u64);

impl FromStr for Ns {
    type Err = String;
    fn from_str(text: &str) -> Result<Ns, String> {
        parse_ns(text).map(Ns)
    }
}

impl Display for Ns {
    fn fmt(&self, f: &mut Formatter) -> std::fmt::Result {
        f.write_str(&as_typed(self.0, &[("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000), ("ns", 1)]))
    }
}

/// A size on the command line.
#[derive(Clone, Copy, Debug)]
pub struct Bytes(u64);

impl FromStr for Bytes {
    type Err = String;
    fn from_str(text: &str) -> Result<Bytes, String> {
        parse_bytes(text).map(Bytes)
    }
}

impl Display for Bytes {
    fn fmt(&self, f: &mut Formatter) -> std::fmt::Result {
        f.write_str(&as_typed(self.0, &[("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)]))
    }
}

/// A value in the largest unit that divides it, as one would type it: `50us`, `64KiB`.
fn as_typed(value: u64, units: &[(&str, u64)]) -> String {
    match units.iter().find(|(_, scale)| value > 0 && value.is_multiple_of(*scale)) {
        Some((unit, scale)) => format!("{}{unit}", value / scale),
        None => value.to_string(),
    }
}

/// CPUs on the command line.
#[derive(Clone, Debug, Default)]
pub struct Cpus(Vec<u32>);

impl FromStr for Cpus {
    type Err = String;
    fn from_str(text: &str) -> Result<Cpus, String> {
        affinity::parse(text).map(Cpus)
    }
}

/// One of the names of the values of `T` in workload files.
fn named<T>(names: &'static [&'static str]) -> impl TypedValueParser<Value = T>
where
    T: DeserializeOwned + Clone + Send + std::marker::Sync + 'static,
{
    PossibleValuesParser::new(names).try_map(|name| {
        let name: StrDeserializer<Error> = name.as_str().into_deserializer();
        T::deserialize(name)
    })
}

fn interference() -> Interference {
    Interference::default()
}

fn parallel() -> Parallel {
    Parallel::default()
}

/// How many threads of interference, and where.
#[derive(Debug, clap::Args)]
pub struct Crew {
    /// Threads
    #[arg(long, value_name = "N", default_value_t = interference().threads)]
    threads: u32,
    /// CPUs to pin the threads to in turn, such as 0-3,6 [default: not pinned]
    #[arg(long, value_name = "LIST")]
    cpus: Option<Cpus>,
}

impl Crew {
    /// `load`, by this crew.
    pub fn interference(self, load: Interference) -> Program {
        let cpus = self.cpus.unwrap_or_default().0;
        Program::Interference(Interference { threads: self.threads, cpus, ..load })
    }
}

/// The bursts of periodic interference.
#[derive(Debug, clap::Args)]
pub struct Bursts {
    /// Length of a busy interval
    #[arg(long, value_name = "TIME", default_value_t = Ns(interference().busy))]
    busy: Ns,
    #[command(flatten)]
    clock: Clock,
    /// Share of a CPU each thread asks for, above 0 and up to 1: sets the idle interval
    #[arg(long, value_name = "SHARE", default_value_t = interference().demand)]
    demand: f64,
}

impl Bursts {
    /// Interference with these bursts.
    pub fn interference(self) -> Interference {
        let pattern = Pattern::Periodic;
        let (busy, busy_by) = (self.busy.0, self.clock.busy_by);
        Interference { pattern, busy, busy_by, demand: self.demand, ..interference() }
    }
}

/// What busy intervals are measured by.
#[derive(Debug, clap::Args)]
struct Clock {
    /// By which clock it is that long: `cpu`, a burst that is preempted still computes for all of it; `wall`, what is stolen
    /// from a burst is lost to it
    #[arg(long, value_name = "CLOCK", default_value = "cpu", value_parser = named::<BusyBy>(&["cpu", "wall"]))]
    busy_by: BusyBy,
}

/// The bursts of intermittent interference.
#[derive(Debug, clap::Args)]
pub struct RandomBursts {
    /// Shortest busy interval
    #[arg(long, value_name = "TIME", default_value_t = Ns(interference().busy_min))]
    busy_min: Ns,
    /// Longest busy interval
    #[arg(long, value_name = "TIME", default_value_t = Ns(interference().busy_max))]
    busy_max: Ns,
    #[command(flatten)]
    clock: Clock,
    /// Share of a CPU each thread asks for, above 0 and up to 1: sets the idle intervals
    #[arg(long, value_name = "SHARE", default_value_t = interference().demand)]
    demand: f64,
    /// Seed of the random lengths
    #[arg(long, value_name = "N", default_value_t = interference().seed)]
    seed: u64,
}

impl RandomBursts {
    /// Interference with these bursts.
    pub fn interference(self) -> Interference {
        Interference {
            pattern: Pattern::Intermittent,
            busy_min: self.busy_min.0,
            busy_max: self.busy_max.0,
            busy_by: self.clock.busy_by,
            demand: self.demand,
            seed: self.seed,
            ..interference()
        }
    }
}

/// A share on the command line: `25%` or `0.25`.
#[derive(Clone, Copy, Debug)]
pub struct Share(f64);

impl FromStr for Share {
    type Err = String;
    fn from_str(text: &str) -> Result<Share, String> {
        let (number, whole) = match text.trim().strip_suffix('%') {
            Some(percent) => (percent.trim_end(), 100.0),
            None => (text.trim(), 1.0),
        };
        let share =
            number.parse::<f64>().map_err(|_| format!("`{text}` is not a share such as 25% or 0.25"))?;
        Ok(Share(share / whole))
    }
}

/// The goal of interference, and its victim.
#[derive(Debug, Default, clap::Args)]
#[command(next_help_heading = "Calibrated interference")]
pub struct TargetFlags {
    /// Hold this share of steal, such as 25%: of the time in which the victim's tasks want a CPU, they wait for one
    #[arg(long, value_name = "SHARE", conflicts_with = "target_slowdown")]
    target_steal: Option<Share>,
    /// Hold this slowdown, such as 1.5: how many times longer the victim takes than without the interference
    #[arg(long, value_name = "TIMES")]
    target_slowdown: Option<f64>,
    /// Whom to slow down: a process, with its threads and descendants
    #[arg(long, value_name = "PID")]
    pub victim: Option<u32>,
    /// How long to watch the victim first, to know its CPU rate without the interference [default: 2s]; 0: tell its
    /// slowdown from its steal alone
    #[arg(long, value_name = "TIME")]
    baseline: Option<Ns>,
}

impl TargetFlags {
    /// The goal and its victim's process; `None`: nothing.
    ///
    /// # Errors
    /// One sentence if a flag lacks its partner.
    pub fn goal(&self) -> Result<Option<(Goal, u32)>, String> {
        let steal = self.target_steal.map(|s| Goal::Steal(s.0));
        let slowdown = self.target_slowdown.map(Goal::Slowdown);
        match (steal.or(slowdown), self.victim) {
            (Some(goal), Some(pid)) => Ok(Some((goal, pid))),
            (Some(Goal::Steal(_)), None) => Err("--target-steal needs a victim: --victim PID".into()),
            (Some(Goal::Slowdown(_)), None) => Err("--target-slowdown needs a victim: --victim PID".into()),
            (None, Some(_)) => {
                Err("--victim needs a target: --target-steal 25% or --target-slowdown 1.5".into())
            }
            (None, None) if self.baseline.is_some() => Err("--baseline needs --target-slowdown".into()),
            (None, None) => Ok(None),
        }
    }

    /// How long to watch the victim first, in nanoseconds.
    pub fn baseline_ns(&self) -> u64 {
        self.baseline.map_or(2_000_000_000, |b| b.0)
    }
}

/// A parallel program.
#[derive(Debug, clap::Args)]
pub struct ParallelFlags {
    /// How the threads depend on each other
    #[arg(long, default_value = "barrier",
          value_parser = named::<Sync>(&["barrier", "lock", "pipeline", "queue", "steal", "none"]))]
    sync: Sync,
    /// What they do while they wait
    #[arg(long, default_value = "block",
          value_parser = named::<Wait>(&["spin", "block", "spin-then-block"]))]
    wait: Wait,
    /// Spin-then-block: how long to spin first
    #[arg(long, value_name = "TIME", default_value_t = Ns(parallel().spin))]
    spin: Ns,
    /// Threads
    #[arg(long, value_name = "N", default_value_t = parallel().threads)]
    threads: u32,
    /// Work between two synchronizations, as the time it takes alone
    #[arg(long, value_name = "TIME", default_value_t = Ns(parallel().grain))]
    grain: Ns,
    /// Spread of the grains: each is drawn from grain × (1 ± this), 0 to 1
    #[arg(long, value_name = "SHARE", default_value_t = parallel().imbalance)]
    imbalance: f64,
    /// Iterations of every thread (barrier, lock, none), items (pipeline) or grains in all (queue, steal); 0: endless
    #[arg(long, value_name = "N", default_value_t = parallel().iterations)]
    iterations: u64,
    /// Idle time after each grain's work, as if it waited for a device
    #[arg(long, value_name = "TIME", default_value_t = Ns(parallel().io))]
    io: Ns,
    /// Idle time after each grain's work, by the thread's own wish
    #[arg(long, value_name = "TIME", default_value_t = Ns(parallel().sleep))]
    sleep: Ns,
    /// Lock: share of each grain that is inside the critical section, 0 to 1
    #[arg(long, value_name = "SHARE", default_value_t = parallel().critical)]
    critical: f64,
    /// Lock: number of locks, taken in turn
    #[arg(long, value_name = "N", default_value_t = parallel().locks)]
    locks: u32,
    /// Pipeline: number of stages, each feeding the next; the threads are dealt to them in turn
    #[arg(long, value_name = "N", default_value_t = parallel().stages)]
    stages: u32,
    /// Pipeline: items that fit between two stages
    #[arg(long, value_name = "N", default_value_t = parallel().queue_depth)]
    queue_depth: u32,
    /// Private memory that each thread walks through as it works
    #[arg(long, value_name = "SIZE", default_value_t = Bytes(parallel().footprint))]
    footprint: Bytes,
    /// Memory that all threads share
    #[arg(long, value_name = "SIZE", default_value_t = Bytes(parallel().shared))]
    shared: Bytes,
    /// How they touch it: `write` the same words, or different words of the same lines (`false`)
    #[arg(long, default_value = "none",
          value_parser = named::<Sharing>(&["none", "read", "write", "false"]))]
    sharing: Sharing,
    /// CPUs to pin the threads to in turn, such as 0-3,6 [default: not pinned]
    #[arg(long, value_name = "LIST")]
    cpus: Option<Cpus>,
    /// Seed of the imbalance
    #[arg(long, value_name = "N", default_value_t = parallel().seed)]
    seed: u64,
}

impl From<ParallelFlags> for Parallel {
    fn from(flags: ParallelFlags) -> Parallel {
        Parallel {
            threads: flags.threads,
            sync: flags.sync,
            wait: flags.wait,
            spin: flags.spin.0,
            grain: flags.grain.0,
            imbalance: flags.imbalance,
            shares: Vec::new(),
            io: flags.io.0,
            sleep: flags.sleep.0,
            critical: flags.critical,
            locks: flags.locks,
            stages: flags.stages,
            stage: Vec::new(),
            queue_depth: flags.queue_depth,
            iterations: flags.iterations,
            duration: 0,
            footprint: flags.footprint.0,
            shared: flags.shared.0,
            sharing: flags.sharing,
            cpus: flags.cpus.unwrap_or_default().0,
            seed: flags.seed,
        }
    }
}

/// A micro-benchmark.
#[derive(Debug, clap::Args)]
pub struct MicroFlags {
    /// Threads; an even number for the benchmarks that work in pairs
    #[arg(long, value_name = "N", default_value_t = 2)]
    threads: u32,
    /// Rounds of every thread; 0: endless
    #[arg(long, value_name = "N", default_value_t = 0)]
    iterations: u64,
    /// CPUs to pin the threads to in turn, such as 0-3,6 [default: not pinned]
    #[arg(long, value_name = "LIST")]
    cpus: Option<Cpus>,
}

impl MicroFlags {
    /// The benchmark `name` with these settings.
    pub fn micro(self, name: MicroKind) -> Program {
        Program::Micro(Micro {
            name,
            threads: self.threads,
            iterations: self.iterations,
            duration: 0,
            cpus: self.cpus.unwrap_or_default().0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Args, Command};

    fn parse<T: Args>(line: &str) -> Result<T, clap::Error> {
        let command = T::augment_args(Command::new("test").no_binary_name(true));
        T::from_arg_matches(&command.try_get_matches_from(line.split_whitespace())?)
    }

    #[test]
    fn without_flags_a_program_is_the_default_of_its_type() {
        assert_eq!(Parallel::from(parse::<ParallelFlags>("").unwrap()), Parallel::default());
        let pattern = Pattern::Periodic;
        let load = parse::<Crew>("").unwrap().interference(parse::<Bursts>("").unwrap().interference());
        assert_eq!(load, Program::Interference(Interference { pattern, ..interference() }));
        let pattern = Pattern::Intermittent;
        let load = parse::<Crew>("").unwrap().interference(parse::<RandomBursts>("").unwrap().interference());
        assert_eq!(load, Program::Interference(Interference { pattern, ..interference() }));
        let text =
            "schema = \"corun.workload/1\"\nname = \"x\"\n[program]\nkind = \"micro\"\nname = \"cpu\"\n";
        let micro = corun_model::workload::Workload::parse("x", text).unwrap().program;
        assert_eq!(parse::<MicroFlags>("").unwrap().micro(MicroKind::Cpu), micro);
    }

    #[test]
    fn flags_say_times_sizes_and_names_as_workload_files_do() {
        let line = "--sync queue --wait spin-then-block --spin 5us --grain 500us --footprint 64KiB \
                    --sharing false --cpus 1,0";
        let program = Parallel::from(parse::<ParallelFlags>(line).unwrap());
        assert_eq!(
            (program.sync, program.wait, program.sharing),
            (Sync::Queue, Wait::SpinThenBlock, Sharing::False)
        );
        assert_eq!((program.spin, program.grain, program.footprint), (5_000, 500_000, 65_536));
        assert_eq!(program.cpus, [1, 0]);
    }

    #[test]
    fn defaults_are_shown_as_one_would_type_them() {
        let shown = [Ns(50_000), Ns(1_500_000), Ns(2_000_000_000), Ns(0), Ns(7)].map(|ns| ns.to_string());
        assert_eq!(shown, ["50us", "1500us", "2s", "0", "7ns"]);
        assert_eq!([Bytes(65_536), Bytes(0)].map(|b| b.to_string()), ["64KiB", "0"]);
    }

    #[test]
    fn a_target_and_its_victim_come_together() {
        let goal = |line| parse::<TargetFlags>(line).unwrap().goal();
        assert_eq!(goal(""), Ok(None));
        assert_eq!(goal("--target-steal 25% --victim 7"), Ok(Some((Goal::Steal(0.25), 7))));
        assert_eq!(goal("--target-steal 0.25 --victim 7"), Ok(Some((Goal::Steal(0.25), 7))));
        assert_eq!(goal("--target-slowdown 1.5 --victim 7"), Ok(Some((Goal::Slowdown(1.5), 7))));
        assert!(goal("--target-slowdown 1.5").unwrap_err().contains("--victim PID"));
        assert!(goal("--victim 7").unwrap_err().contains("--target-steal"));
        assert!(goal("--baseline 1s").unwrap_err().contains("--target-slowdown"));
        assert!(parse::<TargetFlags>("--target-steal half --victim 7")
            .unwrap_err()
            .to_string()
            .contains("such as 25%"));
        assert!(parse::<TargetFlags>("--target-steal 25% --target-slowdown 2 --victim 7").is_err());
    }

    #[test]
    fn a_bad_value_is_refused_with_what_would_be_valid() {
        let refusal = |line| parse::<ParallelFlags>(line).unwrap_err().to_string();
        assert!(refusal("--grain 5").contains("`5` is not a time with its unit, such as 500us"));
        assert!(refusal("--cpus 3-1").contains("`3-1` is not a list of CPUs such as 0-3,6"));
        assert!(refusal("--sync spin").contains("barrier, lock, pipeline, queue, steal, none"));
    }
}
