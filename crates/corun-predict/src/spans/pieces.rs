//! Where in a slot a stretch was, and what it can have lost there.

use super::{Slot, Span, CLOSE, MOST_PLACES};
use crate::waits::Waits;

/// The places at which a stretch can have been: beginnings at even steps.
#[derive(Clone, Copy, Debug)]
pub(super) struct Places {
    pub earliest: f64,
    pub latest: f64,
    pub length: f64,
    pub count: usize,
    pub step: f64,
}

impl Places {
    pub fn of(span: &Span) -> Places {
        let (earliest, latest) = (span.earliest_ns as f64, span.latest_ns.max(span.earliest_ns) as f64);
        let length = span.length_ns.max(1) as f64;
        let count = ((latest - earliest) / (length * CLOSE)).ceil().clamp(1.0, MOST_PLACES) as usize;
        Places { earliest, latest, length, count, step: (latest - earliest) / count as f64 }
    }

    /// The places from which a stretch can reach into a slot.
    pub fn reaching(&self, slot: &Slot) -> std::ops::Range<usize> {
        if self.step <= 0.0 {
            return 0..1;
        }
        let place = |ns: f64| ((ns - self.earliest) / self.step).clamp(0.0, self.count as f64);
        let from = place(slot.start_ns - self.length - self.step).floor() as usize;
        from..place(slot.end_ns).ceil() as usize
    }

    /// Where a stretch can have been that began at a place or before the next.
    pub fn somewhere(&self, place: usize) -> (f64, f64) {
        let from = self.earliest + place as f64 * self.step;
        (from, from + self.step + self.length)
    }

    /// Where it certainly was.
    pub fn certainly(&self, place: usize) -> (f64, f64) {
        let (from, until) = self.somewhere(place);
        (from + self.step, until - self.step)
    }

    /// Where it most likely was.
    pub fn likely(&self, place: usize) -> (f64, f64) {
        let (from, until) = self.somewhere(place);
        (from + self.step / 2.0, until - self.step / 2.0)
    }
}

/// A slot, and when in it something can have been lost.
pub(super) struct Piece<'a> {
    pub slot: &'a Slot,
    waits: &'a Waits,
    pub lost_ns: [f64; 3],
    /// The part of it in which waits are known.
    known: (f64, f64),
    /// How long its tasks waited in that.
    waited_ns: f64,
}

impl<'a> Piece<'a> {
    pub fn new(slot: &'a Slot, waits: &'a Waits, lost_ns: [f64; 3]) -> Piece<'a> {
        let (from, until) = waits.known(slot.start_ns, slot.end_ns);
        let waited_ns = waits.within(from, until);
        // Without a wait nobody knows when anything was lost.
        let known = if waited_ns > 0.0 && slot.stolen_ns > 0.0 { (from, until) } else { (from, from) };
        let piece = Piece { slot, waits, lost_ns, known, waited_ns };
        let room = piece.room((slot.start_ns, slot.end_ns));
        Piece { lost_ns: lost_ns.map(|ns| ns.min(room)), ..piece }
    }

    /// How much of a stretch is in it, and how long tasks waited in that, as far as it is known.
    pub fn within(&self, (from, until): (f64, f64)) -> (f64, f64) {
        let length = (until.min(self.slot.end_ns) - from.max(self.slot.start_ns)).max(0.0);
        let (from, until) = (from.max(self.known.0), until.min(self.known.1));
        let waited = if from < until { self.waits.within(from, until) } else { 0.0 };
        (length, waited)
    }

    /// How much of its time a stretch can have lost in it at most, however much was stolen.
    pub fn room(&self, stretch: (f64, f64)) -> f64 {
        let (from, until) = (stretch.0.max(self.known.0), stretch.1.min(self.known.1));
        self.unknown(stretch) + if from < until { self.waits.anybody(from, until) } else { 0.0 }
    }

    /// How much of a stretch is in the part of it where waits are not known.
    pub fn unknown(&self, stretch: (f64, f64)) -> f64 {
        let known = (stretch.1.min(self.known.1) - stretch.0.max(self.known.0)).max(0.0);
        self.within(stretch).0 - known
    }

    /// How much of a loss can have been in these stretches. Theft is in waits; if they are not known, it may be anywhere. The loss for which
    /// the rest of the slot has no room was here.
    pub fn most(&self, lost_ns: f64, stretches: &[(f64, f64)]) -> f64 {
        let (mut most, mut room) = (0.0, 0.0);
        for stretch in stretches {
            let (_, waited) = self.within(*stretch);
            room += self.room(*stretch);
            most += self.unknown(*stretch);
            if waited > 0.0 {
                most += lost_ns * waited / self.slot.stolen_ns.min(self.waited_ns);
            }
        }
        let room_of_rest = self.room((self.slot.start_ns, self.slot.end_ns)) - room;
        most.max(lost_ns - room_of_rest).min(room).min(lost_ns)
    }

    /// How much must have been lost in a stretch: the rest has no room for it.
    pub fn least(&self, lost_ns: f64, (from, until): (f64, f64)) -> f64 {
        if from >= until {
            return 0.0;
        }
        let rest = [(self.slot.start_ns, from), (until, self.slot.end_ns)];
        (lost_ns - self.most(lost_ns, &rest)).max(0.0)
    }

    /// The share of its time that is in a stretch, and the share of its waits.
    pub fn parts(&self, stretch: (f64, f64)) -> [f64; 2] {
        let (length, waited) = self.within(stretch);
        let of_time = length / (self.slot.end_ns - self.slot.start_ns);
        let is_known = self.known == (self.slot.start_ns, self.slot.end_ns);
        [of_time, if is_known { waited / self.waited_ns } else { of_time }]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corun_model::run_log::{CpuMask, Event, Left, RunLog, What};
    use corun_model::{CpuId, TaskId};

    #[test]
    fn tasks_that_wait_side_by_side_take_nothing_from_the_test_after_them() {
        const MS: f64 = 1e6;
        let at = |ms: f64, task, what| Event { t_ns: (ms * MS) as u64, task: TaskId(task), what };
        let runs = What::Runs { cpu: CpuId(0), may: CpuMask::ALL };
        let waits_until = |ms: f64, task| {
            [at(0.0, task, runs), at(0.0, task, What::Leaves(Left::Preempted)), at(ms, task, runs)]
        };
        let mut events = [waits_until(40.0, 1), waits_until(40.0, 2)].concat();
        events.sort_by_key(|event| event.t_ns);
        let mut waits = Waits::default();
        waits.push(&RunLog { end_ns: (100.0 * MS) as u64, events, ..RunLog::default() });
        let slot = Slot { end_ns: 100.0 * MS, stolen_ns: 60.0 * MS, ..Slot::default() };
        let piece = Piece::new(&slot, &waits, [60.0 * MS; 3]);
        let [least, ..] = piece.lost_ns;
        assert_eq!(least, 40.0 * MS, "no more than any of them waited");
        assert_eq!(piece.least(least, (40.0 * MS, 100.0 * MS)), 0.0);
        assert_eq!(piece.least(least, (0.0, 40.0 * MS)), 40.0 * MS);
        assert_eq!(piece.most(least, &[(40.0 * MS, 100.0 * MS)]), 0.0);
    }

    #[test]
    fn what_a_stretch_lost_at_least_is_no_more_than_what_it_lost_at_most() {
        const MS: f64 = 1e6;
        let at = |ms: f64, task, what| Event { t_ns: (ms * MS) as u64, task: TaskId(task), what };
        let runs = What::Runs { cpu: CpuId(0), may: CpuMask::ALL };
        let left = What::Leaves(Left::Preempted);
        // One task waits for 10 ms alone, and then two side by side for 50 ms.
        let events = vec![
            at(0.0, 1, left),
            at(10.0, 1, runs),
            at(20.0, 1, left),
            at(20.0, 2, left),
            at(70.0, 1, runs),
            at(70.0, 2, runs),
        ];
        let mut waits = Waits::default();
        waits.push(&RunLog { end_ns: (100.0 * MS) as u64, events, ..RunLog::default() });
        let slot = Slot { end_ns: 100.0 * MS, stolen_ns: 110.0 * MS, ..Slot::default() };
        let piece = Piece::new(&slot, &waits, [60.0 * MS; 3]);
        for stretch in [(0.0, 15.0), (0.0, 45.0), (15.0, 45.0), (15.0, 100.0)] {
            let stretch = (stretch.0 * MS, stretch.1 * MS);
            let (least, most) = (piece.least(60.0 * MS, stretch), piece.most(60.0 * MS, &[stretch]));
            assert!(least <= most + 1.0, "{stretch:?}: {least} to {most}");
        }
        assert_eq!(
            piece.most(60.0 * MS, &[(0.0, 15.0 * MS)]).round(),
            10.0 * MS,
            "the rest has room for 50 ms"
        );
    }
}
