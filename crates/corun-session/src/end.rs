//! When a session ends: the command has ended, the time is up, the subject has gone, or somebody asked it to
//! stop.

use crate::error::Error;
use crate::local_host::Watched;
use crate::stop::Stop;
use corun_linux::launch::Running;
use corun_linux::{procfs, Root};
use corun_model::{HostError, Observation, TaskId, TenantId};
use std::time::Duration;

/// How long one check for an end may wait.
pub(crate) const LOOK: Duration = Duration::from_millis(25);

/// How long a command has to end after the request.
const GRACE: Duration = Duration::from_secs(1);

/// Why a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The command that was started has ended.
    Command,
    /// The requested time is over.
    TimeIsUp,
    /// The subject no longer exists.
    SubjectGone,
    /// A stop was asked for.
    Interrupted,
}

impl Ended {
    /// Whether the subject's run is complete.
    pub fn is_complete(self) -> bool {
        matches!(self, Ended::Command | Ended::SubjectGone)
    }
}

/// The next window of a session; `None` once it has ended. A session that fails has ended.
pub(crate) fn next_window<S, W, E: Into<Error>>(
    session: &mut S,
    ended: impl Fn(&mut S) -> &mut Option<Ended>,
    window: impl FnOnce(&mut S) -> Result<W, E>,
) -> Option<Result<W, Error>> {
    if ended(session).is_some() {
        return None;
    }
    let window = window(session);
    if window.is_err() {
        *ended(session) = Some(Ended::Interrupted);
    }
    Some(window.map_err(E::into))
}

/// Limit: at most this many tasks are checked for existence.
const MOST_ASKED: usize = 64;

/// How many tasks of a subject existed at the end of a window, other than the command itself.
pub fn left_behind(seen: &Observation, subject: Option<TenantId>, command: TaskId) -> usize {
    let root = Root::new("/");
    seen.tasks
        .iter()
        .filter(|t| t.alive && Some(t.tenant) == subject && t.id != command)
        .enumerate()
        // An ending task leaves its CPU after its parent has been told, which may be after the command has
        // ended.
        .filter(|(n, t)| {
            *n >= MOST_ASKED || procfs::process_stat(&root, t.id.0).is_ok_and(|stat| !stat.is_dead())
        })
        .count()
}

/// What ends a session.
pub struct EndConditions {
    /// The started command, if there is one.
    pub running: Option<Running>,
    /// The time at which the session ends by itself, on the host's clock.
    pub end_ns: Option<u64>,
    /// Ends it on request.
    pub stop: Stop,
}

impl EndConditions {
    /// Lets one slot pass, or less if something ends the session.
    ///
    /// # Errors
    /// When the host no longer works.
    pub fn wait(&self, host: &mut impl Watched, slot: Duration) -> Result<Option<Ended>, HostError> {
        let slot_end_ns = host.now_ns() + slot.as_nanos() as u64;
        loop {
            let now_ns = host.now_ns();
            let left_ns = slot_end_ns.min(self.end_ns.unwrap_or(u64::MAX)).saturating_sub(now_ns);
            let piece = Duration::from_nanos(left_ns).min(LOOK);
            match &self.running {
                Some(running) if running.ended_within(piece) => return Ok(Some(Ended::Command)),
                Some(_) => host.advance(0)?,
                None => host.advance(piece.as_nanos() as u64)?,
            }
            if self.stop.is_asked() {
                let ended = self.running.as_ref().is_some_and(|running| self.ends_after_all(running));
                return Ok(Some(if ended { Ended::Command } else { Ended::Interrupted }));
            }
            let now_ns = host.now_ns();
            if self.end_ns.is_some_and(|end| now_ns >= end) {
                return Ok(Some(Ended::TimeIsUp));
            }
            if self.running.is_none() && !host.lives() {
                return Ok(Some(Ended::SubjectGone));
            }
            if now_ns >= slot_end_ns {
                return Ok(None);
            }
        }
    }

    /// Whether a command ends soon after a stop request. A second request leaves it no time for that.
    fn ends_after_all(&self, running: &Running) -> bool {
        // A signal to this process alone is meant for both.
        if !self.stop.is_by_terminal() {
            running.tell(self.stop.signal().unwrap_or(libc::SIGTERM));
        }
        let looks = GRACE.as_millis() / LOOK.as_millis();
        (0..looks).any(|_| self.stop.is_urgent() || running.ended_within(LOOK)) && running.has_ended()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corun_model::observation::TaskObservation;
    use corun_model::{Host, Machine};
    use corun_sim::engine::Engine;
    use corun_sim::machine_file::MachineModel;
    use corun_sim::scenario::{Files, Participants, Scenario};
    use std::process::Command;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_live_task_is_left_behind_and_one_that_is_ending_or_gone_is_not() {
        let spawn = |program: &str, argument: &str| Command::new(program).arg(argument).spawn().unwrap();
        let (mut runs, mut ended) = (spawn("sleep", "60"), spawn("true", ""));
        // It has ended and has not been collected.
        while !procfs::process_stat(&Root::new("/"), ended.id()).unwrap().is_dead() {
            std::thread::yield_now();
        }
        let mut gone = spawn("true", "");
        gone.wait().unwrap();
        let subject = TenantId(7);
        let task = |id: u32, tenant: TenantId, alive: bool| TaskObservation {
            id: TaskId(id),
            name: "job".into(),
            tenant,
            born_ns: 0,
            alive,
            last_cpu: None,
            account: Default::default(),
        };
        let left = |tasks: &[TaskObservation]| {
            let seen = Observation { tasks: tasks.to_vec(), ..Observation::default() };
            left_behind(&seen, Some(subject), TaskId(1))
        };
        let counts = [
            left(&[task(runs.id(), subject, true)]),
            left(&[task(ended.id(), subject, true)]),
            left(&[task(gone.id(), subject, true)]),
            left(&[task(runs.id(), TenantId(8), true)]),
            left(&[task(runs.id(), subject, false)]),
            left(&[task(1, subject, true)]),
        ];
        runs.kill().unwrap();
        runs.wait().unwrap();
        ended.wait().unwrap();
        assert_eq!(counts, [1, 0, 0, 0, 0, 0]);
    }

    struct TwoCpus;

    impl Files for TwoCpus {
        fn read(&self, path: &str) -> Result<(String, String), String> {
            Err(format!("{path} is not needed"))
        }

        fn host(&self) -> Result<MachineModel, String> {
            Ok(MachineModel::of(Machine::synthetic(1, 1, 2, 1)))
        }
    }

    impl Watched for Engine {
        fn subject(&self) -> Option<TenantId> {
            Some(TenantId(0))
        }

        fn lives(&self) -> bool {
            !self.is_finished()
        }
    }

    /// A modelled machine on which one program runs for 100 ms.
    fn modelled() -> Engine {
        let text = "schema = \"corun.scenario/1\"\nmachine = \"host\"\n[[tenant]]\nname = \"subject\"\n\
                    program = { kind = \"parallel\", threads = 1, sync = \"none\", grain = \"10ms\", iterations = 10 }\n";
        Scenario::parse("test.toml", text, &TwoCpus).unwrap().engine(1, Participants::All, 0).unwrap()
    }

    fn until(end_ns: Option<u64>) -> EndConditions {
        EndConditions { running: None, end_ns, stop: Stop::new() }
    }

    /// Lets windows of 30 ms pass, and returns how many did and what ended the last one.
    fn windows(host: &mut Engine, end: &EndConditions) -> (usize, Ended) {
        let mut passed = 1;
        loop {
            match end.wait(host, Duration::from_millis(30)).unwrap() {
                Some(ended) => return (passed, ended),
                None => passed += 1,
            }
        }
    }

    #[test]
    fn a_window_lasts_as_long_as_requested() {
        let mut host = modelled();
        assert_eq!(until(None).wait(&mut host, Duration::from_millis(30)).unwrap(), None);
        assert_eq!(Host::now_ns(&host), 30 * MS);
    }

    #[test]
    fn a_session_ends_when_its_time_is_up_even_within_a_window() {
        let mut host = modelled();
        assert_eq!(windows(&mut host, &until(Some(70 * MS))), (3, Ended::TimeIsUp));
        assert_eq!(Host::now_ns(&host), 70 * MS);
    }

    #[test]
    fn a_session_ends_with_its_subject() {
        let (passed, ended) = windows(&mut modelled(), &until(Some(10_000 * MS)));
        assert_eq!(ended, Ended::SubjectGone);
        assert!((4..=5).contains(&passed), "a program of 100 ms was there for {passed} windows of 30 ms");
    }

    #[test]
    fn a_stop_ends_a_session_before_anything_else_does() {
        let mut host = modelled();
        let end = until(Some(70 * MS));
        end.stop.stop();
        assert_eq!(windows(&mut host, &end), (1, Ended::Interrupted));
        assert!(Host::now_ns(&host) < 30 * MS);
    }
}
