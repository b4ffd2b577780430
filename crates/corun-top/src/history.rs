//! The moments that can still be looked at: the newest, as many as fit.

use crate::moment::Moment;
use std::collections::VecDeque;
use std::sync::Arc;

/// Most moments that are kept.
const MOST: usize = 600;
/// Most room that they take, in bytes, more or less.
const ROOM: usize = 48 << 20;

/// The newest moments, oldest first.
#[derive(Clone, Debug, Default)]
pub struct History {
    moments: VecDeque<Arc<Moment>>,
    bytes: usize,
}

impl History {
    /// Of these, oldest first, as many as fit: the newest, or the oldest.
    pub fn of(moments: Vec<Arc<Moment>>, newest: bool) -> History {
        let mut history = History::default();
        for moment in moments {
            if !newest && !history.has_room_for(&moment) {
                break;
            }
            history.push(moment);
        }
        history
    }

    fn has_room_for(&self, moment: &Moment) -> bool {
        self.is_empty() || self.moments.len() < MOST && self.bytes + moment.bytes() <= ROOM
    }

    /// Adds the newest one; the oldest make room for it.
    pub fn push(&mut self, moment: Arc<Moment>) {
        self.bytes += moment.bytes();
        self.moments.push_back(moment);
        while self.moments.len() > MOST || self.bytes > ROOM && self.moments.len() > 1 {
            let gone = self.moments.pop_front().expect("there is one");
            self.bytes -= gone.bytes();
        }
    }

    /// The newest one.
    pub fn newest(&self) -> Option<&Arc<Moment>> {
        self.moments.back()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.moments.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.moments.is_empty()
    }

    /// The place of a moment by its number; of one that has gone, that of the oldest.
    pub fn place(&self, number: u64) -> usize {
        self.moments.partition_point(|m| m.number < number).min(self.moments.len().saturating_sub(1))
    }

    /// The one at a place.
    pub fn at(&self, place: usize) -> Option<&Arc<Moment>> {
        self.moments.get(place)
    }

    /// Up to so many that end with the one at a place, oldest first.
    pub fn until(&self, place: usize, most: usize) -> impl Iterator<Item = &Arc<Moment>> {
        let end = (place + 1).min(self.moments.len());
        self.moments.range(end.saturating_sub(most)..end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corun_model::Observation;

    #[test]
    fn the_newest_moments_are_kept_and_who_looks_at_one_that_has_gone_sees_the_oldest() {
        let mut history = History::default();
        for number in 0..1_000 {
            history.push(Arc::new(Moment::new(number, String::new(), Observation::default())));
        }
        assert_eq!(history.len(), MOST);
        assert_eq!(history.at(history.place(3)).unwrap().number, 400);
        assert_eq!(history.at(history.place(700)).unwrap().number, 700);
        let last: Vec<u64> = history.until(history.place(999), 3).map(|m| m.number).collect();
        assert_eq!(last, [997, 998, 999]);
        let all =
            (0..1_000).map(|number| Arc::new(Moment::new(number, String::new(), Observation::default())));
        let (newest, oldest) = (History::of(all.clone().collect(), true), History::of(all.collect(), false));
        let ends = |h: &History| (h.at(0).unwrap().number, h.newest().unwrap().number, h.len());
        assert_eq!((ends(&newest), ends(&oldest)), ((400, 999, MOST), (0, 599, MOST)));
    }
}
