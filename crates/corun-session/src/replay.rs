//! A running replay of a subject: the counterfactual of every verb if a run log is kept.

use corun_linux::watcher::Source;
use corun_model::{Observation, RunLog, TenantId, Unavailable, What, Why};
use corun_predict::replayed::{NoReplay, Replayer};
use corun_predict::{AloneTime, Server, Servers};

/// Bytes for the subject's events between two looks: 25 ms at a million switches a second.
pub(crate) const RECORD_BYTES: u32 = 4 << 20;

/// Replays one subject's run, and keeps the results.
pub(crate) struct Replay {
    replayer: Replayer,
    /// Whom outside of it the subject waits for; `None`: its log ended before it.
    servers: Option<Servers>,
    /// Its results that nobody has asked for yet.
    known: Vec<AloneTime>,
    /// The subject's events since the previous look, up to about the end of the last window.
    log: RunLog,
}

impl Replay {
    /// Starts. `wake_up_ns`: the cost of a wake-up on this machine if a CPU sleeps; `None` if unknown.
    pub(crate) fn new(wake_up_ns: Option<u64>) -> Replay {
        Replay {
            replayer: Replayer::new(wake_up_ns),
            servers: Some(Servers::default()),
            known: Vec::new(),
            log: RunLog::default(),
        }
    }

    /// Takes the subject's events since the last look, and the observations in that time. `tells_spinning`:
    /// spinning is separated from computing.
    pub(crate) fn push(&mut self, log: RunLog, seen: &Observation, subject: TenantId, tells_spinning: bool) {
        self.replayer.push(&log);
        self.replayer.see(seen, subject);
        self.servers.iter_mut().for_each(|servers| servers.push(&log, seen, subject));
        self.log = log;
        if self.replayer.is_full() {
            self.known.extend(self.replayer.evidence(false, tells_spinning));
        }
    }

    /// Replays nothing from now on: it took more than this share of a CPU, in percent.
    pub(crate) fn give_up(&mut self, above_percent: u64) {
        self.replayer.give_up(NoReplay::GivenUp { above_percent });
        self.servers = None;
        self.log = RunLog::default();
    }

    /// Whether no more results will come, so that nothing needs to be recorded.
    pub(crate) fn is_over(&self) -> bool {
        self.replayer.failed().is_some()
    }

    /// The subject's events in the last window, as far as they are in order by now.
    pub(crate) fn log(&self) -> &RunLog {
        &self.log
    }

    /// Whom outside of it the subject has waited for so far; `None`: it is not known.
    pub(crate) fn servers(&self) -> Option<Vec<Server>> {
        self.servers.as_ref()?.found()
    }

    /// Why there is no replay, or only a partial one; `None` if it is complete.
    pub(crate) fn unavailable(&self) -> Option<Unavailable> {
        self.replayer.failed().map(|why| Unavailable { what: What::Replay, why: Why::NoReplay(why) })
    }

    /// The results for the time since the last call, oldest first. `is_over`: the subject has ended.
    pub(crate) fn evidence(&mut self, is_over: bool, tells_spinning: bool) -> Vec<AloneTime> {
        self.known.extend(self.replayer.evidence(is_over, tells_spinning));
        std::mem::take(&mut self.known)
    }
}

/// Why nothing about a subject is recorded; `None` if there is no probe, which is reported anyway.
pub(crate) fn not_recorded(source: Source) -> Option<Unavailable> {
    (source == Source::Ebpf).then(|| Unavailable::new(What::Replay, Why::CgroupNotRecorded))
}
