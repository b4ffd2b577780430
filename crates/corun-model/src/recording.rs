//! A recording: consecutive windows summed to one, and kept as a timeline of bounded length.
//!
//! However long a program runs, its timeline has at most [`SLOTS`] slots: when there are more, neighbours are merged
//! two by two. Slots keep tenants and CPUs, not single tasks, so that a machine with thousands of tasks can be recorded
//! for hours.

use crate::observation::Observation;

/// Most slots of a timeline.
pub const SLOTS: usize = 240;

/// Consecutive windows, summed and as a timeline.
#[derive(Clone, Debug, Default)]
pub struct Recording {
    whole: Option<Observation>,
    slots: Vec<Observation>,
    /// How many windows make a slot, and how many the last slot has.
    per_slot: usize,
    in_last: usize,
}

impl Recording {
    /// Adds the window that follows the last one.
    pub fn push(&mut self, window: Observation) {
        let slot = Observation { tasks: Vec::new(), ..window.clone() };
        match &mut self.whole {
            Some(whole) => whole.extend(&window),
            None => self.whole = Some(window),
        }
        if self.in_last > 0 && self.in_last < self.per_slot {
            self.in_last += 1;
            self.slots.last_mut().expect("a slot has begun").extend(&slot);
            return;
        }
        if self.slots.len() == SLOTS {
            self.merge_neighbours();
        }
        self.per_slot = self.per_slot.max(1);
        self.slots.push(slot);
        self.in_last = 1;
    }

    fn merge_neighbours(&mut self) {
        let mut slots = std::mem::take(&mut self.slots).into_iter();
        while let Some(mut slot) = slots.next() {
            if let Some(next) = slots.next() {
                slot.extend(&next);
            }
            self.slots.push(slot);
        }
        self.per_slot *= 2;
    }

    /// All windows as one; `None` when there was none.
    pub fn whole(&self) -> Option<&Observation> {
        self.whole.as_ref()
    }

    /// The timeline, oldest first.
    pub fn timeline(&self) -> &[Observation] {
        &self.slots
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeline_covers_everything_however_long_and_never_grows_over_its_bound() {
        let mut r = Recording::default();
        for i in 0..5000u64 {
            r.push(Observation { start_ns: i * 10, end_ns: i * 10 + 10, ..Observation::default() });
            let slots = r.timeline();
            assert!(slots.len() <= SLOTS);
            assert_eq!((slots[0].start_ns, slots[slots.len() - 1].end_ns), (0, i * 10 + 10));
            assert!(slots.windows(2).all(|w| w[0].end_ns == w[1].start_ns));
        }
        assert_eq!(r.whole().unwrap().window_ns(), 50_000);
        let longest = r.timeline().iter().map(Observation::window_ns).max().unwrap();
        assert!(r.timeline()[1..r.timeline().len() - 1].iter().all(|s| s.window_ns() == longest));
    }
}
