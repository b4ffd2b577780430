//! Timers: a binary heap of (time, sequence) in which every timer has a slot of its own.
//!
//! Whatever can happen at a time has a fixed slot (a CPU's next step, a thread's wake-up), so re-arming moves an
//! entry instead of leaving a stale one behind: the heap never holds more than the slots, and a change of a
//! CPU's progress rate costs one sift. Entries of equal time fire in the order in which they were armed.

/// A binary heap over slots.
#[derive(Clone, Debug, Default)]
pub struct Timers {
    heap: Vec<Entry>,
    /// Per slot: place in the heap plus one; 0 is "not armed".
    place: Vec<u32>,
    seq: u64,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    at_ns: u64,
    seq: u64,
    slot: u32,
}

impl Entry {
    fn before(&self, other: &Entry) -> bool {
        (self.at_ns, self.seq) < (other.at_ns, other.seq)
    }
}

impl Timers {
    /// Adds a slot and returns its number.
    pub fn add_slot(&mut self) -> u32 {
        self.place.push(0);
        self.place.len() as u32 - 1
    }

    /// Arms a slot, moving it when it was armed already.
    pub fn arm(&mut self, slot: u32, at_ns: u64) {
        self.seq += 1;
        let entry = Entry { at_ns, seq: self.seq, slot };
        match self.place[slot as usize] {
            0 => {
                self.heap.push(entry);
                self.up(self.heap.len() - 1, entry);
            }
            place => {
                let i = place as usize - 1;
                if entry.before(&self.heap[i]) {
                    self.up(i, entry);
                } else {
                    self.down(i, entry);
                }
            }
        }
    }

    /// Disarms a slot; nothing happens when it was not armed.
    pub fn disarm(&mut self, slot: u32) {
        let place = std::mem::take(&mut self.place[slot as usize]);
        if place != 0 {
            self.remove(place as usize - 1);
        }
    }

    /// Whether a slot is armed.
    pub fn is_armed(&self, slot: u32) -> bool {
        self.place[slot as usize] != 0
    }

    /// When a slot is due; `None` when it is not armed.
    pub fn due_ns(&self, slot: u32) -> Option<u64> {
        (self.place[slot as usize] as usize).checked_sub(1).map(|at| self.heap[at].at_ns)
    }

    /// When the next timer fires.
    pub fn next_ns(&self) -> Option<u64> {
        self.heap.first().map(|e| e.at_ns)
    }

    /// Takes the next timer that is due at or before `until_ns`: its time and slot.
    pub fn pop(&mut self, until_ns: u64) -> Option<(u64, u32)> {
        let first = *self.heap.first().filter(|e| e.at_ns <= until_ns)?;
        self.place[first.slot as usize] = 0;
        self.remove(0);
        Some((first.at_ns, first.slot))
    }

    fn remove(&mut self, i: usize) {
        let last = self.heap.pop().expect("an armed slot has an entry");
        if i < self.heap.len() {
            if i > 0 && last.before(&self.heap[(i - 1) / 2]) {
                self.up(i, last);
            } else {
                self.down(i, last);
            }
        }
    }

    fn put(&mut self, i: usize, entry: Entry) {
        self.heap[i] = entry;
        self.place[entry.slot as usize] = i as u32 + 1;
    }

    fn up(&mut self, mut i: usize, entry: Entry) {
        while i > 0 {
            let parent = (i - 1) / 2;
            if !entry.before(&self.heap[parent]) {
                break;
            }
            self.put(i, self.heap[parent]);
            i = parent;
        }
        self.put(i, entry);
    }

    fn down(&mut self, mut i: usize, entry: Entry) {
        loop {
            let mut child = 2 * i + 1;
            if child >= self.heap.len() {
                break;
            }
            if child + 1 < self.heap.len() && self.heap[child + 1].before(&self.heap[child]) {
                child += 1;
            }
            if !self.heap[child].before(&entry) {
                break;
            }
            self.put(i, self.heap[child]);
            i = child;
        }
        self.put(i, entry);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn timers_fire_by_time_and_then_by_the_order_in_which_they_were_armed() {
        let mut t = Timers::default();
        let slots: Vec<u32> = (0..4).map(|_| t.add_slot()).collect();
        t.arm(slots[2], 50);
        t.arm(slots[0], 50);
        t.arm(slots[3], 10);
        t.arm(slots[1], 20);
        t.arm(slots[3], 60);
        t.disarm(slots[1]);
        assert_eq!(t.pop(49), None);
        assert_eq!(t.pop(100), Some((50, slots[2])));
        assert_eq!(t.pop(100), Some((50, slots[0])));
        assert_eq!(t.pop(100), Some((60, slots[3])));
        assert_eq!(t.pop(100), None);
    }

    proptest! {
        #[test]
        fn any_sequence_of_arming_pops_in_order(ops in proptest::collection::vec((0u32..16, proptest::option::of(0u64..100)), 1..200)) {
            let mut t = Timers::default();
            (0..16).for_each(|_| { t.add_slot(); });
            let mut armed = std::collections::BTreeMap::new();
            for (seq, (slot, at)) in ops.into_iter().enumerate() {
                match at {
                    Some(at) => { t.arm(slot, at); armed.insert(slot, (at, seq)); }
                    None => { t.disarm(slot); armed.remove(&slot); }
                }
            }
            let mut expected: Vec<_> = armed.into_iter().map(|(slot, key)| (key, slot)).collect();
            expected.sort();
            for (key, slot) in expected {
                prop_assert_eq!(t.pop(u64::MAX), Some((key.0, slot)));
            }
            prop_assert_eq!(t.next_ns(), None);
        }
    }
}
