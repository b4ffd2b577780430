//! A parallel discrete-event simulation: PHOLD on Time Warp, as `corun-pdes` runs it.

use super::bad_key::BadKey;
use super::length::Length;
use crate::duration::written_ns;
use serde::Deserialize;

/// Which worker handles which kernel process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mapping {
    /// Fixed mapping: each worker keeps its kernel processes, and is pinned to a CPU.
    Fm,
    /// A work pool: an idle worker takes the one that is furthest behind.
    Pool,
    /// Locality-aware dynamic mapping: others take over from a worker that gets no CPU, and it takes them back.
    Ladm,
}

/// The behavior of a worker that has nothing to handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Idle {
    /// It looks again at once.
    Spin,
    /// It looks again when the scheduler lets it.
    Yield,
    /// It sleeps until something happens.
    Block,
}

/// A simulation: logical processes (LPs) that send each other events, on several workers.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Pdes {
    /// Workers, a thread each (2).
    pub threads: u32,
    /// Which worker handles which kernel process (ladm).
    pub mapping: Mapping,
    /// The behavior of a worker that has nothing to handle (yield).
    pub idle: Idle,
    /// Logical processes (1024).
    pub lps: u32,
    /// Kernel processes: groups of LPs that are mapped to workers. 0 means 16 for each worker, but at most one for each LP (0).
    pub kps: u32,
    /// Events of each LP at the beginning. Every event sends one, so their number stays the same (8).
    pub population: u32,
    /// Probability that an event goes to a random LP instead of its own, 0..=1 (0.25).
    pub remote: f64,
    /// The least delay of an event in ticks of virtual time, at least 1 (100).
    pub look_ahead: u64,
    /// The mean of the random part of the delay, exponentially distributed, in ticks (1000).
    pub mean_delay: u64,
    /// How far beyond global virtual time events are handled, in ticks. 0: as far as memory allows (0).
    pub window: u64,
    /// Work of an event, as solo run time on an idle CPU, without the cost of the engine (10 µs).
    #[serde(deserialize_with = "written_ns")]
    pub grain: u64,
    /// Events to commit in total. This sets the end of virtual time, by the average rate of events. 0: use `duration`.
    pub iterations: u64,
    /// How long to run if `iterations` is 0; both 0: until asked to stop.
    #[serde(deserialize_with = "written_ns")]
    pub duration: u64,
    /// CPUs to pin the workers to, round robin. Empty: only `fm` is pinned, to one CPU after the other.
    pub cpus: Vec<u32>,
    /// Seed of its random numbers.
    pub seed: u64,
}

impl Default for Pdes {
    fn default() -> Self {
        Pdes {
            threads: 2,
            mapping: Mapping::Ladm,
            idle: Idle::Yield,
            lps: 1_024,
            kps: 0,
            population: 8,
            remote: 0.25,
            look_ahead: 100,
            mean_delay: 1_000,
            window: 0,
            grain: 10_000,
            iterations: 0,
            duration: 0,
            cpus: Vec::new(),
            seed: 1,
        }
    }
}

impl Pdes {
    /// How the program ends.
    pub fn length(&self) -> Length {
        Length::of(self.iterations, self.duration)
    }

    /// The end of virtual time, in ticks; `u64::MAX` if no number of events is given.
    pub fn until(&self) -> u64 {
        let (events, at_once) =
            (u128::from(self.iterations), u128::from(self.lps) * u128::from(self.population));
        let lives = u128::from(self.look_ahead) + u128::from(self.mean_delay);
        match self.iterations {
            0 => u64::MAX,
            _ => u64::try_from((events * lives).div_ceil(at_once.max(1))).unwrap_or(u64::MAX).max(1),
        }
    }

    /// The number of kernel processes. The default is 16 for each worker.
    pub fn kernel_processes(&self) -> u32 {
        match self.kps {
            0 => self.threads.saturating_mul(16).min(self.lps),
            given => given,
        }
    }

    /// Checks ranges that the types allow but no simulation can have.
    ///
    /// # Errors
    /// The key at fault and one sentence with the remedy.
    pub(super) fn check(&self) -> Result<(), BadKey> {
        if self.lps == 0 {
            return Err(BadKey::is("lps", 0, "; give at least 1 logical process"));
        }
        if u64::from(self.lps) * u64::from(self.population) > MOST_EVENTS {
            let what = format!(
                "lps × population are {} events; at most {MOST_EVENTS} are allowed",
                u64::from(self.lps) * u64::from(self.population)
            );
            return Err(BadKey::new("lps", what));
        }
        if self.population == 0 {
            return Err(BadKey::is("population", 0, ", so nothing would ever happen; give at least 1"));
        }
        let kps = self.kernel_processes();
        if kps > self.lps {
            return Err(BadKey::is("kps", kps, format!("; give at most the {} lps", self.lps)));
        }
        if self.threads > kps {
            let what = format!(
                "{} threads need a kernel process each, and there are {kps}; give more lps and kps, or fewer threads",
                self.threads
            );
            return Err(BadKey::new("threads", what));
        }
        if self.look_ahead == 0 {
            return Err(BadKey::is(
                "look-ahead",
                0,
                ", which leaves the order of events open; give at least 1",
            ));
        }
        for (key, ticks) in
            [("look-ahead", self.look_ahead), ("mean-delay", self.mean_delay), ("window", self.window)]
        {
            if ticks > MOST_TICKS {
                return Err(BadKey::is(key, ticks, format!("; give at most {MOST_TICKS} ticks")));
            }
        }
        if self.iterations > MOST_ITERATIONS {
            let rest = format!("; give at most {MOST_ITERATIONS}");
            return Err(BadKey::is("iterations", self.iterations, rest));
        }
        if self.grain > MOST_GRAIN_NS {
            return Err(BadKey::new(
                "grain",
                "grain is above 10ms; give a shorter one, since a run stops between events",
            ));
        }
        Ok(())
    }
}

/// The most events at once: the default memory of Time Warp.
const MOST_EVENTS: u64 = 1_000_000;
/// The longest delay and window, so that no sum of virtual times overflows.
const MOST_TICKS: u64 = 1_000_000_000_000;
/// The most events of a run, for the same reason.
const MOST_ITERATIONS: u64 = 1_000_000_000_000;
/// The longest work of an event.
const MOST_GRAIN_NS: u64 = 10_000_000;

#[cfg(test)]
mod tests {
    use super::super::{Program, Workload};
    use super::*;

    fn read(keys: &str) -> Result<Pdes, String> {
        let text =
            format!("schema = \"corun.workload/1\"\nname = \"p\"\n[program]\nkind = \"pdes\"\n{keys}\n");
        let workload = Workload::parse("p.toml", &text).map_err(|bad| bad.to_string())?;
        let Program::Pdes(pdes) = workload.program else { panic!("another kind") };
        Ok(pdes)
    }

    #[test]
    fn a_simulation_is_read_with_units_and_defaults() {
        let pdes = read("mapping = \"fm\"\ngrain = \"2us\"\nlook-ahead = 5\niterations = 8192").unwrap();
        assert_eq!((pdes.mapping, pdes.idle, pdes.grain), (Mapping::Fm, Idle::Yield, 2_000));
        assert_eq!(
            pdes.until(),
            1_005,
            "each event lives for 1,005 ticks, so one life of all is 8,192 events"
        );
        assert_eq!((pdes.kernel_processes(), pdes.length()), (32, Length::Iterations(8_192)));
        assert_eq!(read("").unwrap(), Pdes::default());
        assert_eq!(read("").unwrap().until(), u64::MAX);
    }

    #[test]
    fn impossible_values_of_a_simulation_are_refused_with_their_line() {
        let refused = |keys: &str| read(keys).unwrap_err();
        let table = [
            ("lps = 0", "p.toml:5: lps is 0; give at least 1 logical process"),
            ("population = 0", "p.toml:5: population is 0, so nothing would ever happen; give at least 1"),
            ("lps = 2000000\npopulation = 2", "p.toml:5: lps × population are 4000000 events; at most 1000000 are allowed"),
            ("kps = 2000", "p.toml:5: kps is 2000; give at most the 1024 lps"),
            ("threads = 3\nlps = 2", "p.toml:5: 3 threads need a kernel process each, and there are 2; give more lps and kps, or fewer threads"),
            ("look-ahead = 0", "p.toml:5: look-ahead is 0, which leaves the order of events open; give at least 1"),
            ("window = 1000000000001", "p.toml:5: window is 1000000000001; give at most 1000000000000 ticks"),
            ("iterations = 1000000000001", "p.toml:5: iterations is 1000000000001; give at most 1000000000000"),
            ("grain = \"11ms\"", "p.toml:5: grain is above 10ms; give a shorter one, since a run stops between events"),
            ("threads = 0", "p.toml:5: threads is 0; a program needs at least 1"),
            ("remote = 1.5", "p.toml:5: remote is 1.5; it is a share between 0 and 1"),
            ("mapping = \"gang\"", "p.toml:5: there is no `gang`; name one of fm, pool, ladm"),
        ];
        for (keys, said) in table {
            assert_eq!(refused(keys), said);
        }
    }
}
