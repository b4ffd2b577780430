//! A progress bar with the remaining time, on stderr; silent if stderr is no terminal or the user wants
//! quiet.

use corun_model::duration::human_ns;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::{IsTerminal, Write};

/// The activity while the user waits. Dropping it removes it from the screen.
pub struct Progress {
    bar: ProgressBar,
    total: Option<u64>,
}

impl Progress {
    /// Time that passes: `total_ns` of it, or open-ended (until a command exits) if `None`.
    pub fn time(label: &str, total_ns: Option<u64>, quiet: bool) -> Progress {
        let template = match total_ns {
            Some(_) => "{prefix} {bar:30} {msg}",
            None => "{prefix} {spinner} {msg}",
        };
        Progress::new(label, template, total_ns, quiet)
    }

    /// Things that get done: runs, repetitions, cells of a matrix.
    pub fn count(label: &str, total: u64, quiet: bool) -> Progress {
        Progress::new(label, "{prefix} {bar:30} {pos} of {len}, {eta} left {msg}", Some(total), quiet)
    }

    /// One line that is rewritten whenever there is news.
    pub fn line(quiet: bool) -> Progress {
        Progress::new("", "{wide_msg}", None, quiet)
    }

    fn new(label: &str, template: &str, total: Option<u64>, quiet: bool) -> Progress {
        let target = if quiet || !std::io::stderr().is_terminal() {
            ProgressDrawTarget::hidden()
        } else {
            ProgressDrawTarget::stderr_with_hz(10)
        };
        let bar = ProgressBar::with_draw_target(total, target);
        bar.set_style(ProgressStyle::with_template(template).expect("the templates above are well formed"));
        bar.set_prefix(label.to_owned());
        Progress { bar, total }
    }

    /// `elapsed_ns` of the time have passed.
    pub fn elapsed(&self, elapsed_ns: u64) {
        self.bar.set_position(elapsed_ns);
        self.bar.set_message(time_left(elapsed_ns, self.total));
    }

    /// One more thing is done.
    pub fn step(&self) {
        self.bar.inc(1);
    }

    /// Says what is being done now.
    pub fn say(&self, what: &str) {
        self.bar.set_message(what.to_owned());
    }

    /// The width of the terminal.
    pub fn columns(&self) -> usize {
        usize::from(console::Term::stderr().size().1)
    }

    /// Prints a permanent line above the activity.
    pub fn aside(&self, what: &str) {
        // It does not matter whether anybody reads it.
        self.bar.suspend(|| drop(writeln!(std::io::stderr(), "{what}")));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

fn time_left(elapsed_ns: u64, total_ns: Option<u64>) -> String {
    match total_ns {
        Some(total_ns) => {
            format!(
                "{} of {}, {} left",
                human_ns(elapsed_ns),
                human_ns(total_ns),
                human_ns(total_ns.saturating_sub(elapsed_ns))
            )
        }
        None => format!("{} so far; Ctrl-C stops and shows what was seen", human_ns(elapsed_ns)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_remaining_time_is_the_part_that_is_not_over() {
        assert_eq!(time_left(3_000_000_000, Some(10_000_000_000)), "3.00 s of 10.0 s, 7.00 s left");
        assert_eq!(time_left(11_000_000_000, Some(10_000_000_000)), "11.0 s of 10.0 s, 0 s left");
    }

    #[test]
    fn progress_counts_even_if_nobody_sees_it() {
        let runs = Progress::count("runs", 3, true);
        runs.step();
        runs.step();
        assert_eq!(runs.bar.position(), 2);
        assert!(runs.bar.is_hidden());
    }
}
