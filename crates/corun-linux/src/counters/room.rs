//! How many events are really counted at the same time.
//!
//! The kernel accepts as many events as the CPU reports counters. In a virtual machine there may be fewer. If
//! the host keeps a counter for itself (its NMI watchdog takes one), the guest's last counter is programmed
//! and read, but never moves. The guest's kernel does not know that: it reports that the event was counted
//! all the time, and the count is zero. So corun tries it: it opens instructions several times in one group,
//! and all of them have to count.
//!
//! Limits: this is tried once, on one CPU, with one event. A CPU with additional fixed counters (Intel) may
//! hold more events of other kinds than the test shows. No limit applies there unless a copy was lost.
//! Counters that other programs use meanwhile count as missing.

use super::perf_event::{CountOptions, Event, Group, Whose};

/// No CPU has more counters for one event than this.
const MOST: usize = 16;

/// `PERF_COUNT_HW_INSTRUCTIONS`: every step of every program executes some.
const INSTRUCTIONS: Event = Event { kind: 0, config: 1, config1: 0, config2: 0 };

/// Steps between opening and reading: tens of microseconds.
const STEPS: u64 = 100_000;

/// How many events of one group are accepted, and how many of these are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// As many as the kernel accepts.
    pub claimed: usize,
    /// As many as were counted; fewer if a layer below the kernel keeps counters for itself.
    pub counted: usize,
}

impl Room {
    /// Tries it on the calling thread, with instructions.
    pub fn measure(manner: CountOptions) -> Room {
        Room::found(|events| counts(events, manner))
    }

    /// The same, from the counts of this many copies; `None` if they were refused.
    fn found(count: impl Fn(usize) -> Option<Vec<u64>>) -> Room {
        let mut room = Room { claimed: 0, counted: 0 };
        for events in 1..=MOST {
            let Some(counts) = count(events) else { break };
            room.claimed = events;
            if counts.iter().all(|&n| n >= STEPS) && room.counted + 1 == events {
                room.counted = events;
            }
        }
        room
    }

    /// Whether a group of this many events is counted, if the kernel accepts it.
    pub fn holds(self, events: usize) -> bool {
        self.counted == self.claimed || events <= self.counted.max(1)
    }

    /// Whether the kernel would count this many events of several groups at once although there is no room
    /// for them.
    pub fn deceives(self, events: usize) -> bool {
        !self.holds(events) && events <= self.claimed
    }
}

/// The counts of this many copies of the event over [`STEPS`] steps; `None` if they were refused.
fn counts(events: usize, manner: CountOptions) -> Option<Vec<u64>> {
    let group = Group::open(&vec![INSTRUCTIONS; events], Whose::Mine, manner).ok()?;
    for n in 0..STEPS {
        std::hint::black_box(n);
    }
    Some(group.read().ok()?.iter().map(|r| r.value).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine that accepts this many events and counts only the first of them.
    fn machine(claimed: usize, counted: usize) -> Room {
        Room::found(|events| {
            let of = |n| if n < counted { 3_000_000 - n as u64 } else { 126 };
            (events <= claimed).then(|| (0..events).map(of).collect())
        })
    }

    #[test]
    fn a_counter_that_a_lower_layer_keeps_is_found_missing() {
        assert_eq!(machine(6, 5), Room { claimed: 6, counted: 5 });
        assert_eq!(machine(6, 6), Room { claimed: 6, counted: 6 });
        assert_eq!(machine(0, 0), Room { claimed: 0, counted: 0 });
        assert_eq!(machine(4, 0), Room { claimed: 4, counted: 0 });
    }

    #[test]
    fn only_an_observed_loss_limits_a_group() {
        let (short, full) = (machine(6, 5), machine(6, 6));
        assert!(short.holds(5) && !short.holds(6) && short.deceives(6) && !short.deceives(7));
        assert!(
            full.holds(6) && full.holds(9) && !full.deceives(6),
            "the kernel itself refuses what is too much"
        );
        assert!(machine(4, 0).holds(1), "one event may always be tried");
    }

    #[test]
    fn copies_of_one_event_agree_in_as_many_counters_as_there_are_here() {
        let manner = CountOptions { kernel: false, inherit: false };
        let room = Room::measure(manner);
        if room.claimed == 0 {
            return println!("skipped: nothing can be counted here");
        }
        assert!((1..=room.claimed).contains(&room.counted), "{room:?}");
        let counts = counts(room.counted, manner).unwrap();
        assert!(counts.iter().all(|&n| n >= STEPS), "{counts:?} of {room:?}");
    }
}
