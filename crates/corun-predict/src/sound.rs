//! Whether a window from a file can have been measured.
//!
//! A live window conserves time because the probe does. A file may contain anything: a negative count, a task that did more than it lived
//! for, more windows than there is time to compute with. Such a window is refused before the method sees it.

use crate::useful_work::{Spent, Window};

/// Limit: no time in nanoseconds and no count is this large: 30 years.
const MOST: f64 = 1e18;
/// Limit: the rounding of a sum of times.
const ROUNDING: f64 = 1.001;

/// Whether a time in nanoseconds, or a count, can have been measured.
fn is_amount(amount: f64) -> bool {
    (0.0..MOST).contains(&amount)
}

impl Spent {
    /// Whether there can have been such a task: no time and no count is negative or infinite, and its parts take no longer than it lived.
    fn is_sound(&self) -> bool {
        // Every field by name, so that the compiler asks for a new one.
        let &Spent {
            life_ns,
            compute_ns,
            memory,
            system,
            spin_ns,
            unjudged_ns,
            sibling_ns,
            own_ns,
            slack_ns,
            throttled_ns,
            held_ns,
            frozen_ns,
            stolen_ns,
            queued_ns,
            other_ns,
            blockings,
            yieldings,
            queueings,
            cycles,
            instructions,
            misses,
            beside_stolen_ns,
        } = self;
        let times = [life_ns, compute_ns, spin_ns, unjudged_ns, sibling_ns, own_ns, slack_ns];
        let others = [throttled_ns, held_ns, frozen_ns, stolen_ns, queued_ns, other_ns, beside_stolen_ns];
        let counts = [blockings, yieldings, queueings].into_iter().flatten();
        let counted =
            [memory, system, cycles, instructions, misses].into_iter().flat_map(|c| [c.sum, c.in_ns]);
        let parts_ns = compute_ns + spin_ns + sibling_ns + own_ns + stolen_ns + queued_ns + other_ns;
        times.into_iter().chain(others).chain(counts).chain(counted).all(is_amount)
            && parts_ns <= ROUNDING * life_ns + 1.0
    }
}

impl Window {
    /// Whether there can have been such a window. A file may contain anything, even a window that would take for ever to compute with:
    /// [`crate::Recorded`] refuses it.
    pub(crate) fn is_sound(&self) -> bool {
        /// Limit: the kernel knows no more CPUs.
        const MOST_CPUS: usize = 8_192;
        /// Limit: the tasks too short-lived to be listed are worth this many tasks that live all the time.
        const MOST_UNLISTED: f64 = 10_000.0;
        let lives = |s: &Spent, tasks: f64| s.life_ns <= ROUNDING * tasks * self.wall_ns;
        self.start_ns < self.end_ns
            && self.wall_ns >= 1.0
            && is_amount(self.wall_ns)
            && [self.corunners_ns, self.placed.sum, self.placed.in_ns].into_iter().all(is_amount)
            && self.culprits.values().all(|ns| is_amount(*ns))
            && (1..=MOST_CPUS).contains(&self.cpus)
            && self.tasks.values().chain([&self.unlisted]).all(Spent::is_sound)
            && self.tasks.values().all(|s| lives(s, 1.0))
            && lives(&self.unlisted, MOST_UNLISTED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corun_model::TaskId;
    use serde_json::json;
    use std::collections::BTreeMap;

    #[test]
    fn a_window_with_any_negative_or_endless_amount_is_not_sound() {
        let spent =
            Spent { life_ns: 1_000.0, blockings: Some(1.0), yieldings: Some(1.0), ..Spent::default() };
        let spent = Spent { queueings: Some(1.0), ..spent };
        let tasks = BTreeMap::from([(TaskId(1), spent)]);
        let sound = Window { end_ns: 1_000, wall_ns: 1_000.0, cpus: 2, tasks, ..Window::default() };
        assert!(sound.is_sound());
        let busier = BTreeMap::from([(TaskId(1), Spent { compute_ns: 600.0, stolen_ns: 500.0, ..spent })]);
        assert!(!Window { tasks: busier, ..sound.clone() }.is_sound(), "it did more than it lived for");
        let mut tried = 0;
        let mut all = serde_json::to_value(spent).unwrap();
        let names: Vec<String> = all.as_object().unwrap().keys().cloned().collect();
        for name in names {
            let was = all[&name].clone();
            for wrong in [-1.0, 1e300] {
                all[&name] =
                    if was.is_object() { json!({ "sum": wrong, "in_ns": 1.0 }) } else { json!(wrong) };
                let mut window = sound.clone();
                window.unlisted = serde_json::from_value(all.clone()).unwrap();
                assert!(!window.is_sound(), "{name}: {wrong}");
                tried += 1;
            }
            all[&name] = was;
        }
        assert_eq!(tried, 44);
    }
}
