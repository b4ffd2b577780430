//! A terminal's list of what could not be seen: a line for each item that changes the answer, and the number
//! of others. The JSON and the page contain all of it.

use crate::words::{name, wrap};
use corun_model::{Unavailable, What};

/// Items that only a user who asked for them misses.
const COUNTERS: [What; 2] = [What::ExactCounters, What::HardwareCounters];

/// The lines; `counters` says whether hardware events were requested.
pub fn unseen(unavailable: &[Unavailable], counters: bool) -> Vec<String> {
    let is_missed = |u: &&Unavailable| counters || !COUNTERS.contains(&u.what);
    let is_little = |u: &&Unavailable| u.what.matters_little();
    let (little, much): (Vec<&Unavailable>, Vec<&Unavailable>) =
        unavailable.iter().filter(is_missed).partition(is_little);
    let mut said: Vec<String> = much.iter().map(|u| format!("{}: {}", u.what, u.why)).collect();
    if !little.is_empty() {
        let more = if said.is_empty() { "" } else { "more " };
        said.push(match little.len() {
            1 => format!("1 {more}thing could not be seen, which changes little here; --json lists it"),
            n => format!("{n} {more}things could not be seen, which change little here; --json lists them"),
        });
    }
    said.iter().flat_map(|text| marked(text)).collect()
}

/// A text that is safe on a terminal, in lines after a bullet.
fn marked(text: &str) -> Vec<String> {
    let lines = wrap(&name(text, usize::MAX), 96).into_iter().enumerate();
    lines.map(|(n, line)| format!("{} {line}", if n == 0 { "!" } else { " " })).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn missing(what: &str) -> Unavailable {
        Unavailable::new(what.to_owned().into(), "why".to_owned().into())
    }

    #[test]
    fn minor_items_are_counted_and_counters_are_missed_only_on_request() {
        let all = ["eBPF", "hardware counters", "culprits", "host steal"].map(missing);
        let little = "! 2 more things could not be seen, which change little here; --json lists them";
        assert_eq!(unseen(&all, false), ["! eBPF: why", little]);
        assert_eq!(unseen(&all, true), ["! eBPF: why", "! hardware counters: why", little]);
        let only = "! 1 thing could not be seen, which changes little here; --json lists it";
        assert_eq!(unseen(&all[1..3], false), [only]);
        assert!(unseen(&all[1..2], false).is_empty());
    }

    #[test]
    fn missing_items_cannot_control_the_terminal() {
        let [only] = &unseen(&[missing("a\x1b[2Jb")], false)[..] else { panic!() };
        assert_eq!(only, "! a?[2Jb: why");
    }
}
