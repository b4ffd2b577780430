//! A line of `corun predict --record`: a window of the subject, and how it was taken.
//!
//! A file may contain anything. A window that no machine can have had is refused here, once, for all readers.

use crate::estimate::Label;
use crate::useful_work::Window;
use serde::{Deserialize, Serialize};

/// A line of a recording.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Unchecked")]
pub struct Recorded {
    /// How it was taken.
    pub label: Label,
    /// The window.
    pub window: Window,
}

#[derive(Deserialize)]
struct Unchecked {
    label: Label,
    window: Window,
}

impl TryFrom<Unchecked> for Recorded {
    type Error = &'static str;

    fn try_from(Unchecked { label, window }: Unchecked) -> Result<Recorded, &'static str> {
        match window.is_sound() {
            true => Ok(Recorded { label, window }),
            false => Err("no machine can have had this window; record it again"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::useful_work::Spent;
    use corun_model::TaskId;

    fn recorded(life_ns: f64) -> Recorded {
        let spent = Spent { life_ns, compute_ns: 50.0, ..Spent::default() };
        let tasks = [(TaskId(7), spent)].into();
        let window = Window { end_ns: 100, wall_ns: 100.0, cpus: 2, tasks, ..Window::default() };
        Recorded { label: Label::Shared, window }
    }

    #[test]
    fn a_line_is_read_as_it_was_written_and_one_that_cannot_be_is_refused() {
        let read = |of: &Recorded| serde_json::from_str::<Recorded>(&serde_json::to_string(of).unwrap());
        assert_eq!(read(&recorded(100.0)).unwrap(), recorded(100.0));
        assert!(read(&recorded(1_000.0)).is_err(), "a task that lives for longer than the window");
    }
}
