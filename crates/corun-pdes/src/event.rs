//! The order of all events, and messages: each carries an event or takes one back.

use std::cmp::Ordering;

/// The place of an event in the order of all events: by time, then by sender, then by the sender's count of sends.
///
/// None of these depends on which worker did what when. So the order is the same for every mapping and every number of workers. An
/// event that is sent again after a rollback has the place of the event that was taken back; `instance` tells the two apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub time: u64,
    pub sender: u32,
    pub serial: u64,
    pub instance: u32,
}

impl Key {
    /// A key before every event of this time.
    pub fn at(time: u64) -> Key {
        Key { time, sender: 0, serial: 0, instance: 0 }
    }
}

/// An event on its way to `to`. Without an event it is an anti-message, which takes back the event of the same key.
#[derive(Clone, Debug)]
pub(crate) struct Message<E> {
    pub key: Key,
    pub to: u32,
    pub event: Option<E>,
}

impl<E> Message<E> {
    /// Makes the anti-message for the event of this key.
    pub fn anti(key: Key, to: u32) -> Message<E> {
        Message { key, to, event: None }
    }
}

/// The order is reversed, since a [`std::collections::BinaryHeap`] returns the greatest first. An anti-message comes right before
/// its event, so the two meet at the top of the heap.
impl<E> Ord for Message<E> {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        (other.key, other.event.is_some()).cmp(&(self.key, self.event.is_some()))
    }
}

impl<E> PartialOrd for Message<E> {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }

    /// The heap calls this most. Usually the times differ, and comparing them is enough.
    #[inline]
    fn le(&self, other: &Self) -> bool {
        if self.key.time != other.key.time {
            return self.key.time > other.key.time;
        }
        self.cmp(other) != Ordering::Greater
    }
}

impl<E> PartialEq for Message<E> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<E> Eq for Message<E> {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BinaryHeap;

    #[test]
    fn the_earliest_comes_first_and_an_anti_message_right_before_its_event() {
        let key = |time, sender, serial, instance| Key { time, sender, serial, instance };
        let ordered = [
            (key(1, 9, 9, 9), true),
            (key(2, 0, 7, 0), true),
            (key(2, 1, 0, 0), false),
            (key(2, 1, 0, 0), true),
            (key(2, 1, 0, 1), true),
            (key(2, 1, 1, 0), false),
        ];
        let messages = ordered.iter().rev();
        let mut heap: BinaryHeap<Message<()>> =
            messages.map(|&(key, carries)| Message { key, to: 0, event: carries.then_some(()) }).collect();
        for expected in ordered {
            let message = heap.pop().unwrap();
            assert!(heap.iter().all(|later| later <= &message && later.cmp(&message) != Ordering::Greater));
            assert_eq!((message.key, message.event.is_some()), expected);
        }
    }
}
