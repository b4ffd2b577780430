//! How many threads to run: the answer within the bounds of the program, in a mode that the user chose.

use crate::adapt::{Adapt, Error};
use crate::decision::{Answer, Reason};
use crate::page::{Page, PageError};
use crate::sources::Cpus;
use std::fmt;
use std::io::Write;
use std::str::FromStr;
use std::sync::atomic::{AtomicU32, AtomicU8, Ordering::Relaxed};
use std::sync::OnceLock;

/// The environment variable that sets the [`Mode`].
pub const VARIABLE: &str = "CORUN_ADAPT";

/// Whether a program adapts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// It does not adapt: it runs as many threads as it would without corun.
    Off,
    /// It does not adapt, but says on standard error what it would do.
    Observe,
    /// It adapts.
    On,
}

/// A word that is no [`Mode`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{VARIABLE} is `{0}`: set it to off, observe or on")]
pub struct NoMode(String);

impl FromStr for Mode {
    type Err = NoMode;

    fn from_str(word: &str) -> Result<Mode, NoMode> {
        match word {
            "off" => Ok(Mode::Off),
            "observe" => Ok(Mode::Observe),
            "on" => Ok(Mode::On),
            other => Err(NoMode(other.to_owned())),
        }
    }
}

impl Mode {
    /// Reads the mode from the environment; `On` if the variable is not set.
    ///
    /// # Errors
    /// The variable has another value.
    pub fn from_environment() -> Result<Mode, NoMode> {
        match std::env::var_os(VARIABLE) {
            None => Ok(Mode::On),
            Some(word) => word.to_string_lossy().parse(),
        }
    }

    fn from_number(number: u8) -> Mode {
        match number {
            0 => Mode::Off,
            1 => Mode::Observe,
            _ => Mode::On,
        }
    }
}

/// How many threads a program runs, between `least` and `most`.
#[derive(Debug)]
pub struct Width {
    adapt: Adapt,
    mode: AtomicU8,
    least: u32,
    most: u32,
    /// Whether its threads never wait for each other.
    are_independent: bool,
    /// The width that observe mode last printed; 0 for none.
    said: AtomicU32,
    page: OnceLock<Page>,
}

/// The number of CPUs that this process may use; 1 if it cannot be read.
pub fn cpus() -> u32 {
    Cpus::allowed().map_or(1, |cpus| cpus.count().max(1))
}

impl Width {
    /// For a program that wants `least` to `most` threads. `least` is raised to 1, and `most` to `least`.
    ///
    /// # Errors
    /// /proc is not mounted.
    pub fn new(mode: Mode, least: u32, most: u32) -> Result<Width, Error> {
        let least = least.max(1);
        Ok(Width {
            adapt: Adapt::new()?,
            mode: AtomicU8::new(mode as u8),
            least,
            most: most.max(least),
            are_independent: false,
            said: AtomicU32::new(0),
            page: OnceLock::new(),
        })
    }

    /// For threads that never wait for each other, such as those of a work-stealing pool. Each of them uses
    /// all CPU time that it gets, even if neighbors leave little. So only the CPUs, a quota and a controller
    /// limit the width.
    #[must_use]
    pub fn independent(self) -> Width {
        Width { are_independent: true, ..self }
    }

    /// How many CPUs the process can get.
    #[inline]
    pub fn answer(&self) -> Answer {
        self.adapt.answer()
    }

    /// Whether it adapts.
    pub fn mode(&self) -> Mode {
        Mode::from_number(self.mode.load(Relaxed))
    }

    /// Sets whether it adapts.
    pub fn set_mode(&self, mode: Mode) {
        self.mode.store(mode as u8, Relaxed);
    }

    /// The least threads that the program runs.
    pub fn least(&self) -> u32 {
        self.least
    }

    /// The most threads that the program runs.
    pub fn most(&self) -> u32 {
        self.most
    }

    /// How many threads to run: the most if the program does not adapt, or nothing is known.
    #[inline]
    pub fn threads(&self) -> u32 {
        match self.mode() {
            Mode::On => self.wished(),
            Mode::Off | Mode::Observe => self.most,
        }
    }

    /// How many threads it would run if it adapted. A living controller's advice comes before what this process sees itself.
    fn wished(&self) -> u32 {
        let advice = self.page.get().and_then(Page::advice);
        let answer = self.answer();
        let own = if self.are_independent { of_independent(&answer) } else { answer.threads };
        advice.or(own).unwrap_or(self.most).clamp(self.least, self.most)
    }

    /// Renews the answer if it is old: see [`Adapt::refresh`]. Observe mode prints a line when the number of threads would change.
    pub fn refresh(&self) -> bool {
        let is_renewed = self.adapt.refresh();
        if is_renewed && self.mode() == Mode::Observe {
            let wished = self.wished();
            // In observe mode the program runs the most threads anyway, so a try would show nothing.
            if self.answer().threads.is_some()
                && self.answer().reason != Reason::Trying
                && self.said.swap(wished, Relaxed) != wished
            {
                let most = self.most;
                say(format_args!("would run {wished} of {most} threads: {}", self.answer()));
            }
        }
        is_renewed
    }

    /// Publishes the bounds, so that a controller can advise a width. Publishing again changes nothing.
    ///
    /// # Errors
    /// The system provides no page.
    pub fn publish(&self) -> Result<&Page, PageError> {
        if let Some(page) = self.page.get() {
            return Ok(page);
        }
        let page = Page::publish(self.least, self.most)?;
        Ok(self.page.get_or_init(|| page))
    }

    /// The published page, if any.
    pub fn page(&self) -> Option<&Page> {
        self.page.get()
    }
}

/// How many independent threads make progress. `None` if nothing limits them.
fn of_independent(answer: &Answer) -> Option<u32> {
    match answer.reason {
        Reason::Cpuset | Reason::Quota => answer.available.map(|milli| milli.div_ceil(1_000)),
        _ => None,
    }
}

/// Prints one line on standard error, in one write and without allocating. A line that is too long is cut.
pub fn say(what: fmt::Arguments<'_>) {
    let mut line = [0; 400];
    let most = line.len() - 1;
    let mut rest = &mut line[..most];
    let _ = write!(rest, "corun: {what}");
    let length = most - rest.len();
    line[length] = b'\n';
    let _ = std::io::stderr().write_all(&line[..=length]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_three_words_are_modes() {
        for (word, mode) in [("off", Mode::Off), ("observe", Mode::Observe), ("on", Mode::On)] {
            assert_eq!(word.parse(), Ok(mode));
            assert_eq!(Mode::from_number(mode as u8), mode);
        }
        for word in ["", "On", "1", "observer"] {
            assert_eq!(word.parse::<Mode>(), Err(NoMode(word.to_owned())));
        }
    }

    #[test]
    fn without_adapting_the_most_threads_run_and_with_it_a_number_within_bounds() {
        for mode in [Mode::Off, Mode::Observe] {
            assert_eq!(Width::new(mode, 1, 7).unwrap().threads(), 7);
        }
        let width = Width::new(Mode::On, 3, 5).unwrap();
        assert_eq!(width.threads(), 5, "nothing is known yet");
        std::thread::sleep(std::time::Duration::from_millis(60));
        assert!(width.refresh());
        let seen = width.answer().threads.expect("this machine can be read");
        assert_eq!(width.threads(), seen.clamp(3, 5));
        let upside_down = Width::new(Mode::Off, 9, 2).unwrap();
        assert_eq!((upside_down.least(), upside_down.most()), (9, 9));
        assert_eq!(Width::new(Mode::Off, 0, 0).unwrap().threads(), 1);
    }

    #[test]
    fn neighbors_do_not_reduce_independent_threads_and_limits_do() {
        let answer =
            |reason, milli| Answer { available: Some(milli), threads: Some(1), ..Answer::unknown(reason) };
        let table = [
            (Reason::Neighbours, 1_000, None),
            (Reason::Weight, 300, None),
            (Reason::Trying, 1_000, None),
            (Reason::Quota, 500, Some(1)),
            (Reason::Quota, 1_500, Some(2)),
            (Reason::Cpuset, 4_000, Some(4)),
        ];
        for (reason, milli, threads) in table {
            assert_eq!(of_independent(&answer(reason, milli)), threads, "{reason:?} {milli}");
        }
        assert_eq!(of_independent(&Answer::unknown(Reason::NoUse)), None);
    }

    #[test]
    fn a_published_width_follows_its_controller_while_that_lives() {
        let width = Width::new(Mode::On, 2, 6).unwrap();
        let page = width.publish().unwrap();
        let peer = crate::page::Peer::find(std::process::id()).unwrap().expect("it was just published");
        for (advised, run) in [(1, 2), (4, 4), (9, 6)] {
            peer.advise(advised);
            assert_eq!(width.threads(), run, "advised {advised}");
        }
        page.forget_advice();
        assert_eq!(width.threads(), 6, "nothing is known by itself");
    }
}
