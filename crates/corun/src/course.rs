//! The course of a measurement: slots of time, one after the other, until the command ends, the time is up, the
//! subject is gone or a signal comes.

use corun_linux::interrupt::Interrupt;
use corun_linux::launch::Running;
use corun_linux::steered::SteeredHost;
use corun_linux::watcher::Watcher;
use corun_model::duration::parse_ns;
use corun_model::{Host, Observation, TaskId, TenantId};
use std::time::Duration;

/// Parses how long to measure: some time, not none.
///
/// # Errors
/// One sentence that names the text and the remedy.
pub fn length_ns(text: &str) -> Result<u64, String> {
    match parse_ns(text)? {
        0 => Err(format!("`{text}` is no time at all; give one such as 10s")),
        ns => Ok(ns),
    }
}

/// How long one look for an end may wait.
const LOOK: Duration = Duration::from_millis(25);

/// How long a command has to end after a signal.
const GRACE: Duration = Duration::from_secs(1);

/// Why a measurement ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The command that was started.
    Command,
    /// `--for` is over.
    TimeIsUp,
    /// What was watched is no longer there.
    SubjectGone,
    /// Ctrl-C or SIGTERM.
    Interrupted,
}

/// How many tasks of a subject were there at the end of a window, other than the command itself.
pub fn left_behind(seen: &Observation, subject: Option<TenantId>, command: TaskId) -> usize {
    seen.tasks.iter().filter(|t| t.alive && Some(t.tenant) == subject && t.id != command).count()
}

/// A live host that knows whether its subject is still there.
pub trait Watched: Host {
    /// Whether any task of the subject is left.
    fn lives(&self) -> bool;
}

impl Watched for Watcher {
    fn lives(&self) -> bool {
        self.subject_lives()
    }
}

impl Watched for SteeredHost {
    fn lives(&self) -> bool {
        self.subject_lives()
    }
}

/// A measurement under way.
pub struct Course {
    /// The command that was started, if one was.
    pub running: Option<Running>,
    /// When the measurement ends by itself, on the watcher's clock.
    pub end_ns: Option<u64>,
    /// Ctrl-C and SIGTERM.
    pub interrupt: Interrupt,
}

impl Course {
    /// Lets one slot pass, or less if something ends the measurement.
    ///
    /// # Errors
    /// When the host no longer works.
    pub fn wait(&self, host: &mut impl Watched, slot: Duration) -> anyhow::Result<Option<Ended>> {
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
            if let Some(signal) = self.interrupt.signal() {
                // A terminal has sent it to the command too; who ends corun alone means both. Let that end first, if it will.
                match &self.running {
                    Some(running) if signal != libc::SIGINT => running.tell(signal),
                    _ => {}
                }
                let ended = self.running.as_ref().is_some_and(|r| self.ends_after_all(r));
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

    /// Whether a command that was told to end does so soon. Who asks a second time has no time for that.
    fn ends_after_all(&self, running: &Running) -> bool {
        let looks = GRACE.as_millis() / LOOK.as_millis();
        (0..looks).any(|_| self.interrupt.came_again() || running.ended_within(LOOK)) && running.has_ended()
    }
}
