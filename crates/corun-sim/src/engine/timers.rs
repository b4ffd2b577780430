//! Timers: a hierarchical timing wheel in which every timer has a fixed slot.
//!
//! Each kind of event has a fixed slot (a CPU's next step, a thread's wake-up). So arming again moves an
//! entry and leaves no stale one behind. Time is cut into buckets of 16 µs. 64 of these form one bucket of
//! the next level, and so on. A timer is in the list of a bucket, on the lowest level that distinguishes its
//! time from the wheel's. When the wheel reaches a bucket, its timers move to lower levels. From the lowest
//! level, they move to a sorted list of what is due in the present 16 µs. Entries of equal time are in the
//! order in which they were armed. Most new entries pass only a few others there. An entry that would pass
//! many goes to a separate heap. Arming and firing cost the same with any number of timers. Many timers in
//! one bucket cost the logarithm of their number.
//!
//! Source: Varghese and Lauck, 1987 (schemes 6 and 7); the list and the heap make it exact.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// All timers.
#[derive(Clone, Debug)]
pub struct Timers {
    slots: Vec<Timer>,
    /// First slot of each bucket's list, level by level.
    heads: Vec<u32>,
    /// Buckets that hold timers, one bit each, for each level.
    occupied: [u64; LEVELS],
    /// The bucket that contains this time is the wheel's present one.
    reached_ns: u64,
    /// Entries due in the present bucket, the soonest last, and entries that were armed again since.
    near: Vec<Key>,
    /// The same, for entries that would have passed more than [`MOST_PASSED`].
    crowd: BinaryHeap<Reverse<Key>>,
    seq: u64,
}

/// Two of them share a cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
struct Timer {
    key: Key,
    /// Neighbors in its bucket's list.
    before: u32,
    after: u32,
    bucket: u32,
}

/// Time, sequence number and slot, from the highest bits down. So the order of keys is the order of events.
type Key = u128;

/// The key of a slot that is not armed.
const NEVER: Key = Key::MAX;
/// Bits for the slot in a key. The rest leaves 2^43 sequence numbers: three weeks of arming five million
/// times a second.
const SLOT_BITS: u32 = 21;
/// Bits of time within a bucket of the lowest level.
const FINEST_BITS: u32 = 14;
/// Bits of a bucket's number within its level.
const LEVEL_BITS: u32 = 6;
const LEVELS: usize = ((u64::BITS - FINEST_BITS).div_ceil(LEVEL_BITS)) as usize;
/// The most sooner entries that a new entry passes on its way into the sorted list.
const MOST_PASSED: usize = 24;
/// No slot.
const NONE: u32 = u32::MAX;
/// In no bucket's list: not armed, or near.
const UNLISTED: u32 = u32::MAX;

fn at_ns(key: Key) -> u64 {
    (key >> 64) as u64
}

fn slot_of(key: Key) -> u32 {
    key as u32 & ((1 << SLOT_BITS) - 1)
}

impl Default for Timers {
    fn default() -> Timers {
        Timers {
            slots: Vec::new(),
            heads: vec![NONE; LEVELS << LEVEL_BITS],
            occupied: [0; LEVELS],
            reached_ns: 0,
            near: Vec::new(),
            crowd: BinaryHeap::new(),
            seq: 0,
        }
    }
}

impl Timers {
    /// Adds a slot and returns its number.
    ///
    /// # Panics
    /// Beyond two million slots. A scenario with at most [`MOST_TASKS`](crate::scenario::MOST_TASKS) tasks
    /// does not need more.
    pub fn add_slot(&mut self) -> u32 {
        assert!(self.slots.len() < 1 << SLOT_BITS, "too many timers");
        self.slots.push(Timer { key: NEVER, before: NONE, after: NONE, bucket: UNLISTED });
        self.slots.len() as u32 - 1
    }

    /// Arms a slot, or moves it if it is already armed.
    pub fn arm(&mut self, slot: u32, at_ns: u64) {
        self.seq += 1;
        let key = Key::from(at_ns) << 64 | Key::from(self.seq << SLOT_BITS | u64::from(slot));
        let timer = &mut self.slots[slot as usize];
        timer.key = key;
        if timer.bucket != UNLISTED {
            self.unlist(slot);
        }
        self.place(slot, key);
    }

    /// Disarms a slot, if it is armed.
    pub fn disarm(&mut self, slot: u32) {
        let timer = &mut self.slots[slot as usize];
        timer.key = NEVER;
        if timer.bucket != UNLISTED {
            self.unlist(slot);
        }
    }

    /// Whether a slot is armed.
    pub fn is_armed(&self, slot: u32) -> bool {
        self.slots[slot as usize].key != NEVER
    }

    /// When a slot is due; `None` if it is not armed.
    pub fn due_ns(&self, slot: u32) -> Option<u64> {
        let key = self.slots[slot as usize].key;
        (key != NEVER).then(|| at_ns(key))
    }

    /// Whether no timer is armed. This looks at all of them.
    pub fn is_empty(&self) -> bool {
        self.slots.iter().all(|timer| timer.key == NEVER)
    }

    /// Takes the next timer that is due at or before `until_ns`: its time and slot.
    #[inline]
    pub fn pop(&mut self, until_ns: u64) -> Option<(u64, u32)> {
        loop {
            while let Some((key, is_crowd)) = self.soonest() {
                let timer = &mut self.slots[slot_of(key) as usize];
                let is_armed = timer.key == key;
                if is_armed && at_ns(key) > until_ns {
                    return None;
                }
                if is_crowd {
                    self.crowd.pop();
                } else {
                    self.near.pop();
                }
                if is_armed {
                    timer.key = NEVER;
                    return Some((at_ns(key), slot_of(key)));
                }
            }
            self.turn(until_ns)?;
        }
    }

    /// The soonest entry of the present bucket, and whether it is in the crowd.
    #[inline]
    fn soonest(&self) -> Option<(Key, bool)> {
        match (self.near.last(), self.crowd.peek()) {
            (near, Some(&Reverse(key))) if near.is_none_or(|&near| key < near) => Some((key, true)),
            (near, _) => near.map(|&key| (key, false)),
        }
    }

    /// Queues an entry of the present bucket.
    #[inline]
    fn queue(&mut self, key: Key) {
        let mut place = self.near.len();
        if place > MOST_PASSED && self.near[place - 1 - MOST_PASSED] < key {
            self.crowd.push(Reverse(key));
            return;
        }
        self.near.push(key);
        while let Some(&sooner) = place.checked_sub(1).map(|before| &self.near[before]) {
            if sooner > key {
                break;
            }
            self.near[place] = sooner;
            place -= 1;
        }
        self.near[place] = key;
    }

    /// Moves on to the next bucket with timers, if that begins at or before `until_ns`, and distributes its
    /// timers.
    fn turn(&mut self, until_ns: u64) -> Option<()> {
        let level = self.occupied.iter().position(|&bits| bits != 0)?;
        let number = self.occupied[level].trailing_zeros();
        let shift = FINEST_BITS + level as u32 * LEVEL_BITS;
        let above = u64::MAX.checked_shl(shift + LEVEL_BITS).unwrap_or(0);
        let start_ns = self.reached_ns & above | u64::from(number) << shift;
        if start_ns > until_ns {
            return None;
        }
        self.reached_ns = start_ns;
        self.occupied[level] &= self.occupied[level] - 1;
        let mut slot = std::mem::replace(&mut self.heads[level << LEVEL_BITS | number as usize], NONE);
        while slot != NONE {
            let Timer { key, after, .. } = self.slots[slot as usize];
            self.slots[slot as usize].bucket = UNLISTED;
            match level {
                0 => self.queue(key),
                _ => self.place(slot, key),
            }
            slot = after;
        }
        Some(())
    }

    /// Puts an armed slot that is in no list into the right one for its time.
    fn place(&mut self, slot: u32, key: Key) {
        // Whatever is in the past is due now.
        let at_ns = at_ns(key).max(self.reached_ns);
        let apart = (at_ns ^ self.reached_ns) >> FINEST_BITS;
        if apart == 0 {
            return self.queue(key);
        }
        let level = apart.ilog2() / LEVEL_BITS;
        let number = at_ns >> (FINEST_BITS + level * LEVEL_BITS) & ((1 << LEVEL_BITS) - 1);
        let bucket = level << LEVEL_BITS | number as u32;
        let first = std::mem::replace(&mut self.heads[bucket as usize], slot);
        let timer = &mut self.slots[slot as usize];
        (timer.before, timer.after, timer.bucket) = (NONE, first, bucket);
        match self.slots.get_mut(first as usize) {
            Some(first) => first.before = slot,
            None => self.occupied[level as usize] |= 1 << number,
        }
    }

    /// Removes a slot from its bucket's list.
    fn unlist(&mut self, slot: u32) {
        let Timer { before, after, bucket, .. } = self.slots[slot as usize];
        self.slots[slot as usize].bucket = UNLISTED;
        if let Some(after) = self.slots.get_mut(after as usize) {
            after.before = before;
        }
        match self.slots.get_mut(before as usize) {
            Some(before) => before.after = after,
            None => {
                self.heads[bucket as usize] = after;
                if after == NONE {
                    self.occupied[(bucket >> LEVEL_BITS) as usize] &=
                        !(1 << (bucket & ((1 << LEVEL_BITS) - 1)));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn timers_fire_in_order_of_time_and_then_of_arming() {
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

    #[test]
    fn a_crowd_within_one_bucket_fires_in_order_too() {
        let mut t = Timers::default();
        let due_ns = |slot: u32| u64::from(slot * 37 % 50);
        let mut expected: Vec<(u64, u32)> = (0..200).map(|_| t.add_slot()).map(|s| (due_ns(s), s)).collect();
        expected.iter().for_each(|&(at_ns, slot)| t.arm(slot, at_ns));
        assert!(!t.crowd.is_empty() && t.near.len() > MOST_PASSED);
        expected.sort();
        assert_eq!(std::iter::from_fn(|| t.pop(u64::MAX)).take(200).collect::<Vec<_>>(), expected);
    }

    /// A time at any distance: near, in the next buckets, and on every level of the wheel.
    fn time() -> impl Strategy<Value = u64> {
        (0u64..200, 0u32..56).prop_map(|(ns, shift)| ns << shift)
    }

    proptest! {
        #[test]
        fn any_sequence_of_arming_disarming_and_popping_pops_in_order(
            ops in proptest::collection::vec(
                (0u32..24, proptest::option::weighted(0.8, time()), proptest::option::of(time())),
                1..300,
            ),
        ) {
            let mut t = Timers::default();
            (0..24).for_each(|_| { t.add_slot(); });
            let mut armed = std::collections::BTreeMap::new();
            let expect_first = |t: &mut Timers, armed: &mut std::collections::BTreeMap<u32, (u64, usize)>, until_ns| {
                let first = armed.iter().map(|(slot, key)| (*key, *slot)).min().filter(|f| f.0.0 <= until_ns);
                armed.retain(|slot, _| first.is_none_or(|f| f.1 != *slot));
                prop_assert_eq!(t.pop(until_ns), first.map(|(key, slot)| (key.0, slot)));
                Ok(())
            };
            for (seq, (slot, at, pops)) in ops.into_iter().enumerate() {
                if let Some(until_ns) = pops {
                    expect_first(&mut t, &mut armed, until_ns)?;
                }
                match at {
                    Some(at) => { t.arm(slot, at); armed.insert(slot, (at, seq)); }
                    None => { t.disarm(slot); armed.remove(&slot); }
                }
                prop_assert_eq!(t.is_armed(slot), at.is_some());
                prop_assert_eq!(t.due_ns(slot), at);
                prop_assert_eq!(t.is_empty(), armed.is_empty());
            }
            while !armed.is_empty() {
                expect_first(&mut t, &mut armed, u64::MAX)?;
            }
            prop_assert!(t.is_empty());
        }
    }
}
