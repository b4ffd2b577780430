//! Timers: a tournament of (time, sequence) in which every timer has a slot of its own.
//!
//! Whatever can happen at a time has a fixed slot (a CPU's next step, a thread's wake-up), so re-arming replaces an
//! entry instead of leaving a stale one behind. Slots are the leaves of a binary tree in which every node holds the
//! earlier of its two children: arming a slot plays the matches on its way up, as far as they change, without a
//! branch that depends on who wins. Entries of equal time fire in the order in which they were armed.
//!
//! A timer that was popped keeps its leaf until the next pop: mostly the same slot is armed again before, and its
//! matches are played once instead of twice.

/// A tournament of slots.
#[derive(Clone, Debug)]
pub struct Timers {
    /// Node 1 is the root, node `n` has the children `2n` and `2n + 1`; leaves are the second half.
    tree: Vec<Key>,
    slots: u32,
    seq: u64,
    /// The slot that was popped last, if its leaf is stale.
    popped: Option<u32>,
}

/// Time, sequence number and slot, from the highest bits down, so that the order of keys is that of events.
type Key = u128;

/// The key of a slot that is not armed.
const NEVER: Key = Key::MAX;
/// Bits of a key's slot. What is left are 2^43 sequence numbers: three weeks of arming five million times a second.
const SLOT_BITS: u32 = 21;

fn at_ns(key: Key) -> u64 {
    (key >> 64) as u64
}

impl Default for Timers {
    fn default() -> Timers {
        Timers { tree: vec![NEVER; 2], slots: 0, seq: 0, popped: None }
    }
}

impl Timers {
    /// Adds a slot and returns its number.
    ///
    /// # Panics
    /// Beyond two million slots, which no scenario of at most [`MOST_TASKS`](crate::scenario::MOST_TASKS) tasks needs.
    pub fn add_slot(&mut self) -> u32 {
        assert!(self.slots < 1 << SLOT_BITS, "too many timers");
        let leaves = self.tree.len() / 2;
        if self.slots as usize == leaves {
            // Twice as many leaves: every level moves down by one.
            let mut tree = vec![NEVER; 4 * leaves];
            tree[2 * leaves..3 * leaves].copy_from_slice(&self.tree[leaves..]);
            (1..2 * leaves).rev().for_each(|n| tree[n] = tree[2 * n].min(tree[2 * n + 1]));
            self.tree = tree;
        }
        self.slots += 1;
        self.slots - 1
    }

    /// Arms a slot, moving it when it was armed already.
    pub fn arm(&mut self, slot: u32, at_ns: u64) {
        if self.popped == Some(slot) {
            self.popped = None;
        }
        self.seq += 1;
        self.set(slot, Key::from(at_ns) << 64 | Key::from(self.seq << SLOT_BITS | u64::from(slot)));
    }

    /// Disarms a slot; nothing happens when it was not armed.
    pub fn disarm(&mut self, slot: u32) {
        if self.is_armed(slot) {
            self.set(slot, NEVER);
        }
    }

    /// Whether a slot is armed.
    pub fn is_armed(&self, slot: u32) -> bool {
        self.due_ns(slot).is_some()
    }

    /// When a slot is due; `None` when it is not armed.
    pub fn due_ns(&self, slot: u32) -> Option<u64> {
        let key = self.tree[self.tree.len() / 2 + slot as usize];
        (key != NEVER && self.popped != Some(slot)).then(|| at_ns(key))
    }

    /// When the next timer fires.
    pub fn next_ns(&mut self) -> Option<u64> {
        if let Some(slot) = self.popped.take() {
            self.set(slot, NEVER);
        }
        (self.tree[1] != NEVER).then(|| at_ns(self.tree[1]))
    }

    /// Takes the next timer that is due at or before `until_ns`: its time and slot.
    pub fn pop(&mut self, until_ns: u64) -> Option<(u64, u32)> {
        let next_ns = self.next_ns().filter(|&ns| ns <= until_ns)?;
        let slot = self.tree[1] as u32 & ((1 << SLOT_BITS) - 1);
        self.popped = Some(slot);
        Some((next_ns, slot))
    }

    fn set(&mut self, slot: u32, mut key: Key) {
        let tree = self.tree.as_mut_slice();
        let mut n = tree.len() / 2 + slot as usize;
        tree[n] = key;
        while n > 1 {
            key = key.min(tree[n ^ 1]);
            n /= 2;
            if tree[n] == key {
                return;
            }
            tree[n] = key;
        }
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
        fn any_sequence_of_arming_disarming_and_popping_pops_in_order(
            ops in proptest::collection::vec((0u32..24, proptest::option::weighted(0.8, 0u64..100), any::<bool>()), 1..300),
        ) {
            let mut t = Timers::default();
            (0..24).for_each(|_| { t.add_slot(); });
            let mut armed = std::collections::BTreeMap::new();
            let expect_first = |t: &mut Timers, armed: &mut std::collections::BTreeMap<u32, (u64, usize)>| {
                let first = armed.iter().map(|(slot, key)| (*key, *slot)).min();
                armed.retain(|slot, _| first.is_none_or(|f| f.1 != *slot));
                prop_assert_eq!(t.pop(u64::MAX), first.map(|(key, slot)| (key.0, slot)));
                Ok(())
            };
            for (seq, (slot, at, pops)) in ops.into_iter().enumerate() {
                if pops {
                    expect_first(&mut t, &mut armed)?;
                }
                match at {
                    Some(at) => { t.arm(slot, at); armed.insert(slot, (at, seq)); }
                    None => { t.disarm(slot); armed.remove(&slot); }
                }
                prop_assert_eq!(t.is_armed(slot), at.is_some());
                prop_assert_eq!(t.due_ns(slot), at);
            }
            while !armed.is_empty() {
                expect_first(&mut t, &mut armed)?;
            }
            prop_assert_eq!(t.next_ns(), None);
        }
    }
}
