//! Whether an agent is alive, and whether it is ready: the answers of `/livez` and `/readyz`.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// An agent that closes no window for this long, and for ten windows, counts as dead.
const MOST_SILENCE: Duration = Duration::from_secs(30);

/// The causes of degradation; each has at most one reason at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// Who holds CPUs is not seen.
    Culprits,
    /// The ring is not written.
    Ring,
    /// A changed configuration is not in force.
    Config,
    /// Tasks are not followed.
    Tasks,
    /// A collector does not get the exports.
    Otlp,
}

/// How an agent does.
#[derive(Clone, Debug)]
pub struct Health {
    last: Option<Instant>,
    window: Duration,
    reasons: BTreeMap<Part, String>,
}

impl Health {
    /// For an agent with such windows, before the first one.
    pub fn new(window: Duration) -> Health {
        Health { last: None, window, reasons: BTreeMap::new() }
    }

    /// A window was closed now; from now on they have this length.
    pub fn window(&mut self, now: Instant, length: Duration) {
        self.last = Some(now);
        self.window = length;
    }

    /// Records why a part does not work, or that it does; returns the previous reason.
    pub fn set(&mut self, part: Part, reason: Option<String>) -> Option<String> {
        match reason {
            Some(reason) => self.reasons.insert(part, reason),
            None => self.reasons.remove(&part),
        }
    }

    /// Why a part does not work.
    pub fn reason(&self, part: Part) -> Option<&String> {
        self.reasons.get(&part)
    }

    /// Whether windows are still closed.
    ///
    /// # Errors
    /// One sentence.
    pub fn lives(&self, now: Instant) -> Result<(), String> {
        let Some(last) = self.last else { return Ok(()) };
        let silence = now.saturating_duration_since(last);
        match silence > MOST_SILENCE.max(10 * self.window) {
            true => Err(format!("no window was closed for {} s", silence.as_secs())),
            false => Ok(()),
        }
    }

    /// Whether everything works that should.
    ///
    /// # Errors
    /// A sentence for every part that does not work.
    pub fn is_ready(&self, now: Instant) -> Result<(), Vec<String>> {
        let mut reasons: Vec<String> = self.lives(now).err().into_iter().collect();
        if self.last.is_none() {
            reasons.push("the first window is not closed yet".into());
        }
        reasons.extend(self.reasons.values().cloned());
        if reasons.is_empty() {
            Ok(())
        } else {
            Err(reasons)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_ready_once_it_has_seen_something_and_as_long_as_everything_works() {
        let now = Instant::now();
        let mut health = Health::new(Duration::from_secs(1));
        assert_eq!(health.is_ready(now).unwrap_err(), ["the first window is not closed yet"]);
        health.window(now, Duration::from_secs(1));
        assert!(health.is_ready(now).is_ok());
        health.set(Part::Ring, Some("the disk is full".into()));
        assert_eq!(health.is_ready(now).unwrap_err(), ["the disk is full"]);
        health.set(Part::Ring, None);
        assert!(health.is_ready(now).is_ok());
        let later = now + Duration::from_secs(40);
        assert_eq!(health.lives(later).unwrap_err(), "no window was closed for 40 s");
        health.window(now, Duration::from_secs(10));
        assert!(health.lives(later).is_ok(), "windows are longer");
    }
}
