//! What a terminal says of what could not be seen: what changes the answer, a line each, and how much else there is. The JSON
//! and the page have all of it.

use crate::words::{name, wrap};
use corun_model::{Unavailable, What};

/// What is missed by nobody who did not ask for it.
const COUNTERS: [What; 2] = [What::ExactCounters, What::HardwareCounters];

/// The lines; `counters`: whether hardware events were to be counted.
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

/// A text that is safe on a terminal, in lines after a mark.
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
    fn what_changes_little_is_counted_and_counters_are_missed_by_who_asked_for_them() {
        let all = ["eBPF", "hardware counters", "culprits", "host steal"].map(missing);
        let little = "! 2 more things could not be seen, which change little here; --json lists them";
        assert_eq!(unseen(&all, false), ["! eBPF: why", little]);
        assert_eq!(unseen(&all, true), ["! eBPF: why", "! hardware counters: why", little]);
        let only = "! 1 thing could not be seen, which changes little here; --json lists it";
        assert_eq!(unseen(&all[1..3], false), [only]);
        assert!(unseen(&all[1..2], false).is_empty());
    }

    #[test]
    fn what_is_missing_cannot_steer_the_terminal() {
        let [only] = &unseen(&[missing("a\x1b[2Jb")], false)[..] else { panic!() };
        assert_eq!(only, "! a?[2Jb: why");
    }
}
