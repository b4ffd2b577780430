//! Evidence from a replay: the run is repeated without its co-runners ([`corun_sim::replay`]), and the time that it takes then is the time
//! that it would have taken alone.
//!
//! Each time, a run is replayed from its beginning. The time beyond what was told before is told for the stretch since then. So the times
//! of stretches sum to the time of the whole. The beginning of a long run is told once and forgotten ([`MOST_EVENTS`]), so that memory
//! and time are bounded.
//!
//! What the log leaves open is tried both ways, and the results are the ends of the evidence. Open are: whether waits for the outside end at
//! their time or after their length, whether siblings share their work, how long wake-ups take, and what threads that spin waited for. If
//! nobody separates spinning from computing, threads may have spun whenever a sibling was off its CPU.

use crate::calibrated::REPLAY;
use crate::counterfactual::AloneTime;
use crate::definitions::NEGLIGIBLE;
use corun_model::run_log::RunLog;
use corun_model::{Observation, TenantId};
use corun_sim::replay::script::{Op, Script, Spinning};
pub use corun_sim::replay::NoReplay;
use corun_sim::replay::{Conditions, Transcriber, Transcript};

/// Limit: this many events are replayed from the beginning each time. Once there are more, their time is told for good.
const MOST_EVENTS: u64 = 30_000;

/// Replays one program's run as it goes on.
#[derive(Clone, Debug)]
pub struct Replayer {
    transcriber: Transcriber,
    wake_up_ns: Option<u64>,
    /// What was told so far about the present stretch of the log: time alone at least, likely, at most.
    told_ns: [f64; 3],
    /// The same for the time in which it looked for something outside of it.
    told_looked_ns: u64,
    /// Up to when anything has been told.
    told_until_ns: Option<u64>,
    failed: Option<NoReplay>,
}

impl Replayer {
    /// Begins. `wake_up_ns`: how long a wake-up takes on this machine if a CPU sleeps; `None`: nobody knows.
    pub fn new(wake_up_ns: Option<u64>) -> Replayer {
        Replayer {
            transcriber: Transcriber::default(),
            wake_up_ns,
            told_ns: [0.0; 3],
            told_looked_ns: 0,
            told_until_ns: None,
            failed: None,
        }
    }

    /// Takes what the program did next. After the first lost event nothing more is told.
    pub fn push(&mut self, log: &RunLog) {
        if log.lost > 0 {
            self.failed = Some(NoReplay::LogIncomplete);
        }
        if self.failed.is_none() {
            self.transcriber.push(log);
        }
    }

    /// Takes how long each of the program's tasks spun in the window up to which its log has been taken, if that is known.
    pub fn see(&mut self, seen: &Observation, subject: TenantId) {
        for task in seen.tasks.iter().filter(|t| t.tenant == subject) {
            let ledger = &task.account.ledger;
            if let Some(spin_ns) = ledger.parts().spin_ns {
                self.transcriber.tell_spinning(task.id, spin_ns, ledger.on_cpu_ns());
            }
        }
    }

    /// Stops telling, for this reason, unless there was another before.
    pub fn give_up(&mut self, why: NoReplay) {
        self.failed.get_or_insert(why);
        self.transcriber = Transcriber::default();
    }

    /// Why nothing more is told; `None`: it goes on.
    pub fn failed(&self) -> Option<NoReplay> {
        self.failed
    }

    /// Whether so much has happened that evidence is due, to bound memory.
    pub fn is_full(&self) -> bool {
        self.transcriber.events() > MOST_EVENTS
    }

    /// What is known about the stretch since the last call. `is_over`: the program has ended. `tells_spinning`: somebody separates
    /// spinning from computing, so a task about which nothing was [told](Replayer::see) did not spin.
    pub fn evidence(&mut self, is_over: bool, tells_spinning: bool) -> Option<AloneTime> {
        if self.failed.is_some() {
            return None;
        }
        let is_full = self.is_full();
        let mut transcript =
            if is_full { self.transcriber.cut(is_over) } else { self.transcriber.so_far(is_over) };
        if tells_spinning {
            transcript.program.scripts.iter_mut().for_each(|s| s.spun = s.spun.or(Some(Default::default())));
        }
        let start_ns = self.told_until_ns.unwrap_or(transcript.start_ns);
        let end_ns = transcript.start_ns + transcript.lasted_ns;
        let alone_ns = match self.alone_ns(&transcript) {
            Ok(alone_ns) => alone_ns,
            Err(why) => {
                self.failed = Some(why);
                return None;
            }
        };
        if end_ns <= start_ns {
            return None;
        }
        // Rounding and other choices may have taken back a little. Later calls make up for that.
        let mut more = [0, 1, 2].map(|i| (alone_ns[i] - self.told_ns[i]).max(0.0));
        more[0] = more[0].min(more[1]);
        more[2] = more[2].max(more[1]);
        (0..3).for_each(|i| self.told_ns[i] += more[i]);
        let looked_ns = transcript.looked_ns.saturating_sub(self.told_looked_ns) as f64;
        self.told_looked_ns = self.told_looked_ns.max(transcript.looked_ns);
        if is_full {
            (self.told_ns, self.told_looked_ns) = ([0.0; 3], 0);
        }
        self.told_until_ns = Some(end_ns);
        Some(AloneTime { start_ns, end_ns, alone_ns: more, tells_spinning, looked_ns })
    }

    /// How long the stretch would have taken alone, in nanoseconds: at least, likely, at most.
    fn alone_ns(&self, transcript: &Transcript) -> Result<[f64; 3], NoReplay> {
        let wall_ns = transcript.lasted_ns as f64;
        let unknown = Conditions::default();
        let wake_up_ns = self.wake_up_ns.unwrap_or(unknown.wake_up_ns);
        let conditions = Conditions { wake_up_ns, ..unknown };
        let again = |conditions| transcript.alone(&conditions);
        let alone = again(conditions)?;
        let mut ends = vec![alone.least_ns as f64, alone.most_ns as f64];
        let scripts = &transcript.program.scripts;
        let waits = scripts.iter().flat_map(|s| &s.ops).filter(|op| matches!(op, Op::Wait(_))).count();
        if self.wake_up_ns.is_none() && waits as f64 * wake_up_ns as f64 > NEGLIGIBLE * wall_ns {
            for wake_up_ns in [0, 2 * wake_up_ns] {
                ends.push(again(Conditions { wake_up_ns, ..conditions })?.likely_ns as f64);
            }
        }
        let spun_ns = |how| scripts.iter().map(|s| s.spun_ns(how)).sum::<u64>() as f64;
        let [least_ns, likely_ns, most_ns] = [Spinning::Least, Spinning::Likely, Spinning::Most].map(spun_ns);
        let matters_ns = REPLAY * (scripts.iter().map(Script::compute_ns).sum::<u64>() as f64 - likely_ns);
        if likely_ns - least_ns > matters_ns {
            ends.push(again(Conditions { spun: Spinning::Least, ..conditions })?.most_ns as f64);
        }
        if most_ns - likely_ns > matters_ns {
            ends.push(again(Conditions { spun: Spinning::Most, ..conditions })?.least_ns as f64);
        }
        let least = ends.iter().copied().fold(f64::INFINITY, f64::min);
        let most = ends.iter().copied().fold(0.0, f64::max);
        Ok([least, alone.likely_ns as f64, most])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corun_model::run_log::{CpuMask, Event, Left, What};
    use corun_model::{CpuId, TaskId};

    const MS: u64 = 1_000_000;

    /// A task that is off its CPU for every other millisecond, from `from_ms` to `to_ms`.
    fn log(from_ms: u64, to_ms: u64) -> RunLog {
        let cpus = CpuMask::first(2);
        let at = |ms: u64, what| Event { t_ns: ms * MS, task: TaskId(1), what };
        let on = What::Runs { cpu: CpuId(0), may: cpus };
        let off = What::Leaves(Left::Preempted);
        let events = (from_ms..to_ms).map(|ms| at(ms, if ms % 2 == 0 { on } else { off })).collect();
        RunLog { cpus, start_ns: from_ms * MS, end_ns: to_ms * MS, events, ..RunLog::default() }
    }

    #[test]
    fn what_is_told_of_stretches_sums_to_what_is_told_of_the_whole() {
        for parts in [1, 4, 50] {
            let mut replayer = Replayer::new(Some(0));
            let (mut alone, mut wall) = (0.0, 0);
            for part in 0..parts {
                replayer.push(&log(part * 1_000 / parts, (part + 1) * 1_000 / parts));
                let told = replayer.evidence(part + 1 == parts, true).unwrap();
                let [least, likely, most] = told.alone_ns;
                assert!(0.0 <= least && least <= likely && likely <= most);
                (alone, wall) = (alone + likely, wall + told.end_ns - told.start_ns);
            }
            assert!((alone / MS as f64 - 500.0).abs() < 2.0 && wall >= 999 * MS, "{parts} {alone} {wall}");
        }
    }

    #[test]
    fn a_long_run_is_forgotten_piece_by_piece_and_keeps_its_sum() {
        let mut replayer = Replayer::new(Some(0));
        let (mut alone, parts) = (0.0, 100);
        for part in 0..parts {
            replayer.push(&log(part * 1_000, (part + 1) * 1_000));
            alone += replayer.evidence(false, true).unwrap().alone_ns[1];
            assert!(replayer.transcriber.events() <= MOST_EVENTS + 1_000);
        }
        assert!((alone / (parts * 500 * MS) as f64 - 1.0).abs() < 0.01, "{alone}");
    }

    #[test]
    fn who_is_given_up_tells_nothing_more_and_the_first_reason() {
        let mut replayer = Replayer::new(Some(0));
        replayer.push(&log(0, 100));
        let given_up = NoReplay::GivenUp { above_percent: 2 };
        replayer.give_up(given_up);
        replayer.push(&log(100, 200));
        assert_eq!((replayer.evidence(true, true), replayer.failed()), (None, Some(given_up)));
        assert_eq!(replayer.transcriber.events(), 0, "nothing more is kept, either");
        replayer.give_up(NoReplay::Endless);
        assert_eq!(replayer.failed(), Some(given_up));
    }

    #[test]
    fn of_an_incomplete_log_nothing_more_is_told_and_it_is_said_why() {
        let mut replayer = Replayer::new(Some(0));
        replayer.push(&log(0, 100));
        assert!(replayer.evidence(false, true).is_some());
        replayer.push(&RunLog { lost: 1, ..log(100, 200) });
        assert_eq!(replayer.evidence(true, true), None);
        assert_eq!(replayer.failed(), Some(NoReplay::LogIncomplete));
        replayer.push(&log(200, 300));
        assert_eq!(replayer.evidence(true, true), None);
    }
}
