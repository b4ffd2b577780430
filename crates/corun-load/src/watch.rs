//! Watches a run: progress at fixed times, the time limit, the request to stop.

use crate::clock::now_ns;
use crate::progress::Progress;
use crate::stop::Stop;
use corun_model::workload::Length;
use serde::Serialize;

/// Why a run has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ended {
    /// It has done all its work.
    Completed,
    /// Its time was up.
    TimeUp,
    /// It was asked to stop.
    Stopped,
    /// The victim has ended.
    VictimEnded,
}

/// Watches a run, with these rules.
pub struct Watch<'a> {
    /// The request to stop.
    pub stop: &'a Stop,
    limit_ns: Option<u64>,
    progress_every_ns: Option<u64>,
    on_progress: &'a mut dyn FnMut(&Progress),
}

impl<'a> Watch<'a> {
    /// Ends a run after `limit_ns`, and reports every `progress_every_ns`.
    pub fn new(
        stop: &'a Stop,
        limit_ns: Option<u64>,
        progress_every_ns: Option<u64>,
        on_progress: &'a mut dyn FnMut(&Progress),
    ) -> Watch<'a> {
        Watch { stop, limit_ns, progress_every_ns: progress_every_ns.map(|ns| ns.max(1)), on_progress }
    }

    /// How long a run of this length may last, in nanoseconds.
    pub fn limit_of(&self, length: Length) -> Option<u64> {
        match length {
            Length::DurationNs(ns) => Some(self.limit_ns.map_or(ns, |limit| limit.min(ns))),
            _ => self.limit_ns,
        }
    }

    /// Waits until `is_over`, which rings the bell of the stop. If the time is over or a stop is requested before, calls `cut` once,
    /// and goes on waiting.
    pub fn until(
        &mut self,
        limit_ns: Option<u64>,
        is_over: impl Fn() -> bool,
        mut cut: impl FnMut(),
        mut progress: impl FnMut() -> Progress,
    ) -> Ended {
        let begin_ns = now_ns();
        let mut deadline_ns = limit_ns.map(|ns| begin_ns.saturating_add(ns));
        let mut report_ns = self.progress_every_ns.map(|ns| begin_ns.saturating_add(ns));
        let mut ended = Ended::Completed;
        loop {
            let heard = self.stop.rings();
            if is_over() {
                return ended;
            }
            let now = now_ns();
            if ended == Ended::Completed {
                let time_is_up = deadline_ns.is_some_and(|d| now >= d);
                if time_is_up || self.stop.is_requested() {
                    ended = if time_is_up { Ended::TimeUp } else { Ended::Stopped };
                    deadline_ns = None;
                    cut();
                }
            }
            if report_ns.is_some_and(|r| now >= r) {
                (self.on_progress)(&progress());
                let every = self.progress_every_ns.unwrap_or(u64::MAX);
                report_ns = report_ns.map(|r| r.saturating_add(every).max(now));
            }
            let next_ns = deadline_ns.into_iter().chain(report_ns).min();
            self.stop.listen(heard, next_ns.map(|n| n.saturating_sub(now_ns()).max(1)));
        }
    }
}
