//! Watch: everybody on this machine, window by window, for any length of time. Nothing is summed up, so
//! nothing grows.

use crate::end::{next_window, EndConditions, Ended, LOOK};
use crate::error::Error;
use crate::stop::Stop;
use crate::target::Target;
use corun_linux::probe::LiveOptions;
use corun_linux::watcher::{Source, Watcher};
use corun_linux::Root;
use corun_model::{Host, HostError, Machine, Observation, Unavailable};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// A session of months must be small: room for this many tasks if there are few, 0.9 KB each.
const LEAST_TASKS: u32 = 1 << 14;
/// For this many process groups, 0.7 KB each; those that have ended are recycled.
const LEAST_GROUPS: u32 = 1 << 13;
/// Room for ended tasks between two polls, about five thousand. If more end at once, they have no line of
/// their own, but are in all sums.
const ENDED_BYTES: u32 = 4 << 20;

/// How long a pause between two looks is at most, while no process group begins: forty looks a second took a quarter of an idle agent's time.
const MOST_PAUSE: Duration = Duration::from_millis(100);

/// The pause before the next look.
fn pause_after(pause: Duration, has_news: bool) -> Duration {
    match has_news {
        true => LOOK,
        false => (2 * pause).min(MOST_PAUSE),
    }
}

/// How to watch.
#[derive(Clone, Debug)]
pub struct WatchOptions {
    /// The source; `None`: the best one.
    pub source: Option<Source>,
    /// How long a window is.
    pub window: Duration,
    /// Tasks that can be followed at a time; `None`: four times the present number, at least 16,384.
    pub max_tasks: Option<u32>,
}

impl Default for WatchOptions {
    fn default() -> WatchOptions {
        WatchOptions { source: None, window: Duration::from_secs(1), max_tasks: None }
    }
}

/// Closes a window of a [`Watch`] before its time. Clones control the same one, from any thread.
#[derive(Clone, Debug, Default)]
pub struct Close(Arc<(Mutex<bool>, Condvar)>);

impl Close {
    /// Requests it. It happens at once, except for the last 25 ms of a window, which closes then anyway.
    pub fn ask(&self) {
        let (is_asked, came) = &*self.0;
        *is_asked.lock().unwrap_or_else(PoisonError::into_inner) = true;
        came.notify_all();
    }

    /// Waits for a request, but not longer than this; returns whether there was one.
    fn is_asked_within(&self, time: Duration) -> bool {
        let (is_asked, came) = &*self.0;
        let asked = is_asked.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = came.wait_timeout_while(asked, time, |asked| !*asked);
        std::mem::take(&mut *waited.unwrap_or_else(PoisonError::into_inner).0)
    }
}

/// Everybody on this machine: an iterator over windows that ends on request.
pub struct Watch {
    watcher: Watcher,
    end: EndConditions,
    ended: Option<Ended>,
    window: Duration,
    /// The pause before the next look.
    pause: Duration,
    close: Close,
    description: String,
    unavailable: Vec<Unavailable>,
}

impl Watch {
    /// Begins to watch.
    ///
    /// # Errors
    /// When the machine cannot be watched.
    pub fn start(options: &WatchOptions, stop: &Stop) -> Result<Watch, Error> {
        let root = Root::new("/");
        let armed = Target::Everybody.arm(&root)?;
        let live = LiveOptions {
            max_tasks: options.max_tasks,
            least_tasks: LEAST_TASKS,
            least_groups: LEAST_GROUPS,
            ended_bytes: ENDED_BYTES,
            watcher_apart: true,
            ..LiveOptions::new(armed.subject)
        };
        let (watcher, unavailable) = Watcher::start(&root, live, options.source)?;
        Ok(Watch {
            watcher,
            end: EndConditions { running: None, end_ns: None, stop: stop.clone() },
            ended: None,
            window: options.window,
            pause: LOOK,
            close: Close::default(),
            description: armed.description,
            unavailable,
        })
    }

    /// Its target, in words.
    pub fn description(&self) -> &str {
        &self.description
    }

    /// How it sees.
    pub fn source(&self) -> Source {
        self.watcher.source()
    }

    /// The machine's shape.
    pub fn machine(&self) -> &Machine {
        self.watcher.machine()
    }

    /// What its source cannot see, and why. Windows list what is missing in them.
    pub fn unavailable(&self) -> &[Unavailable] {
        &self.unavailable
    }

    /// Sets the length of the following windows.
    pub fn set_window(&mut self, window: Duration) {
        self.window = window;
    }

    /// Closes its windows before their time.
    pub fn close(&self) -> Close {
        self.close.clone()
    }

    fn window(&mut self) -> Result<Observation, HostError> {
        let end_ns = self.watcher.now_ns() + self.window.as_nanos() as u64;
        loop {
            let left = Duration::from_nanos(end_ns.saturating_sub(self.watcher.now_ns()));
            let is_last = left <= LOOK;
            // At its end the watcher waits by itself: so it knows when the window closes.
            let is_closed = !is_last && self.close.is_asked_within(self.pause.min(left - LOOK));
            self.ended = self.end.wait(&mut self.watcher, if is_last { left } else { Duration::ZERO })?;
            self.pause = pause_after(self.pause, self.watcher.take_news());
            let is_closed = is_closed || is_last && self.close.is_asked_within(Duration::ZERO);
            if is_closed || is_last || self.ended.is_some() {
                return self.watcher.observe();
            }
        }
    }
}

impl Iterator for Watch {
    type Item = Result<Observation, Error>;

    /// The next window; `None` after a request to end.
    fn next(&mut self) -> Option<Result<Observation, Error>> {
        next_window(self, |session| &mut session.ended, Watch::window)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_become_rare_while_nothing_happens_and_frequent_as_soon_as_something_does() {
        let mut pause = LOOK;
        for expected in [50, 100, 100, 100] {
            pause = pause_after(pause, false);
            assert_eq!(pause, Duration::from_millis(expected));
        }
        assert_eq!(pause_after(pause, true), LOOK);
    }
}
