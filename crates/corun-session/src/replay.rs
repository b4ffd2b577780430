//! A replay of what a subject does, as it goes on: the counterfactual that every verb goes by where a run log is kept.

use corun_linux::watcher::Source;
use corun_model::{Observation, RunLog, TenantId, Unavailable, What, Why};
use corun_predict::replayed::{NoReplay, Replayer};
use corun_predict::AloneTime;

/// Bytes for what the subject does between two looks at it: 25 ms of a million switches a second.
pub(crate) const RECORD_BYTES: u32 = 4 << 20;

/// Replays one subject's run, and keeps what comes of it.
pub(crate) struct Replay {
    replayer: Replayer,
    /// What is known by it and nobody has asked for yet.
    known: Vec<AloneTime>,
    /// What the subject did up to about the last window's end, since the look before.
    log: RunLog,
}

impl Replay {
    /// Begins. `wake_up_ns`: what a wake-up takes on this machine where a CPU sleeps; `None`: it is not known.
    pub(crate) fn new(wake_up_ns: Option<u64>) -> Replay {
        Replay { replayer: Replayer::new(wake_up_ns), known: Vec::new(), log: RunLog::default() }
    }

    /// Takes what the subject has done since the last look, and what was seen of it in that time. `tells_spinning`: somebody tells
    /// spinning from computing.
    pub(crate) fn push(&mut self, log: RunLog, seen: &Observation, subject: TenantId, tells_spinning: bool) {
        self.replayer.push(&log);
        self.replayer.see(seen, subject);
        self.log = log;
        if self.replayer.is_full() {
            self.known.extend(self.replayer.evidence(false, tells_spinning));
        }
    }

    /// Replays nothing from now on: it took more than this share of a CPU, in percent.
    pub(crate) fn give_up(&mut self, above_percent: u64) {
        self.replayer.give_up(NoReplay::GivenUp { above_percent });
        self.log = RunLog::default();
    }

    /// Whether nothing more will be known, so that nothing needs to be recorded.
    pub(crate) fn is_over(&self) -> bool {
        self.replayer.failed().is_some()
    }

    /// What the subject did in the last window, event by event, as far as that is in order by now.
    pub(crate) fn log(&self) -> &RunLog {
        &self.log
    }

    /// Why there is no replay, or none of all; `None`: there is.
    pub(crate) fn unavailable(&self) -> Option<Unavailable> {
        self.replayer.failed().map(|why| Unavailable { what: What::Replay, why: Why::NoReplay(why) })
    }

    /// What is known of the time since the last call, oldest first. `is_over`: the subject has ended.
    pub(crate) fn evidence(&mut self, is_over: bool, tells_spinning: bool) -> Vec<AloneTime> {
        self.known.extend(self.replayer.evidence(is_over, tells_spinning));
        std::mem::take(&mut self.known)
    }
}

/// Why nothing is recorded of a subject; `None`: there is no probe, which is said anyway.
pub(crate) fn not_recorded(source: Source) -> Option<Unavailable> {
    (source == Source::Ebpf).then(|| Unavailable::new(What::Replay, Why::CgroupNotRecorded))
}
