//! The snapshots that can still be shown: the newest, as many as fit.

use crate::snapshot::Snapshot;
use std::collections::VecDeque;
use std::sync::Arc;

/// Most snapshots that are kept.
pub const MOST: usize = 600;
/// The most memory that they take, approximately, in bytes.
const ROOM: usize = 48 << 20;

/// The newest snapshots, oldest first.
#[derive(Clone, Debug, Default)]
pub struct History {
    snapshots: VecDeque<Arc<Snapshot>>,
    bytes: usize,
}

impl History {
    /// Of these, oldest first, as many as fit: the newest, or the oldest.
    pub fn of(snapshots: Vec<Arc<Snapshot>>, newest: bool) -> History {
        let mut history = History::default();
        for snapshot in snapshots {
            if !newest && !history.has_room_for(&snapshot) {
                break;
            }
            history.push(snapshot);
        }
        history
    }

    fn has_room_for(&self, snapshot: &Snapshot) -> bool {
        self.is_empty() || self.snapshots.len() < MOST && self.bytes + snapshot.bytes() <= ROOM
    }

    /// Adds the newest one; the oldest make room for it.
    pub fn push(&mut self, snapshot: Arc<Snapshot>) {
        self.bytes += snapshot.bytes();
        self.snapshots.push_back(snapshot);
        while self.snapshots.len() > MOST || self.bytes > ROOM && self.snapshots.len() > 1 {
            let gone = self.snapshots.pop_front().expect("there is one");
            self.bytes -= gone.bytes();
        }
    }

    /// The newest one.
    pub fn newest(&self) -> Option<&Arc<Snapshot>> {
        self.snapshots.back()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.snapshots.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.snapshots.is_empty()
    }

    /// The position of a snapshot by its number; for one that has gone, that of the oldest.
    pub fn place(&self, number: u64) -> usize {
        self.snapshots.partition_point(|m| m.number < number).min(self.snapshots.len().saturating_sub(1))
    }

    /// The one at a place.
    pub fn at(&self, place: usize) -> Option<&Arc<Snapshot>> {
        self.snapshots.get(place)
    }

    /// At most this many that end with the one at a position, oldest first.
    pub fn until(&self, place: usize, most: usize) -> impl Iterator<Item = &Arc<Snapshot>> {
        let end = (place + 1).min(self.snapshots.len());
        self.snapshots.range(end.saturating_sub(most)..end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corun_model::Observation;

    #[test]
    fn the_newest_moments_are_kept_and_a_view_of_one_that_has_gone_shows_the_oldest() {
        let mut history = History::default();
        for number in 0..1_000 {
            history.push(Arc::new(Snapshot::new(number, String::new(), Observation::default())));
        }
        assert_eq!(history.len(), MOST);
        assert_eq!(history.at(history.place(3)).unwrap().number, 400);
        assert_eq!(history.at(history.place(700)).unwrap().number, 700);
        let last: Vec<u64> = history.until(history.place(999), 3).map(|m| m.number).collect();
        assert_eq!(last, [997, 998, 999]);
        let all =
            (0..1_000).map(|number| Arc::new(Snapshot::new(number, String::new(), Observation::default())));
        let (newest, oldest) = (History::of(all.clone().collect(), true), History::of(all.collect(), false));
        let ends = |h: &History| (h.at(0).unwrap().number, h.newest().unwrap().number, h.len());
        assert_eq!((ends(&newest), ends(&oldest)), ((400, 999, MOST), (0, 599, MOST)));
    }
}
