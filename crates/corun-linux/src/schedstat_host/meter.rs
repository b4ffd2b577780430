//! From totals that lag to windows that sum.
//!
//! The kernel credits a wait when it ends, and a running task's time at the scheduler's tick. So the increase
//! of a total during a window may belong to the window before, and may exceed the window. A [`Meter`] hands
//! out a total window by window, never more than a window has room for; the rest is handed out later. So
//! every window sums exactly, and over many windows nothing is lost or counted twice. It depends only on its
//! arguments.

/// The part of a growing total that has been handed out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Meter {
    given_ns: u64,
}

impl Meter {
    /// Starts at `total_ns`: earlier time belongs to nobody.
    pub fn starting_at(total_ns: u64) -> Meter {
        Meter { given_ns: total_ns }
    }

    /// Hands out the new part of `total_ns`, but at most `room_ns`.
    pub fn take_ns(&mut self, total_ns: u64, room_ns: u64) -> u64 {
        let taken = total_ns.saturating_sub(self.given_ns).min(room_ns);
        self.given_ns += taken;
        taken
    }

    /// Hands out time that the total does not show yet but will: it is not handed out again then.
    pub fn take_ahead(&mut self, ns: u64) {
        self.given_ns += ns;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_surplus_is_handed_out_later() {
        let mut meter = Meter::starting_at(100);
        assert_eq!(meter.take_ns(150, 20), 20);
        assert_eq!(meter.take_ns(150, 20), 20);
        assert_eq!(meter.take_ns(160, 50), 20);
        assert_eq!(meter.take_ns(90, 50), 0, "a total that went back gives nothing");
    }

    #[test]
    fn time_handed_out_ahead_is_not_handed_out_again() {
        let mut meter = Meter::default();
        meter.take_ahead(30);
        assert_eq!(meter.take_ns(20, 100), 0);
        assert_eq!(meter.take_ns(45, 100), 15);
    }

    proptest! {
        #[test]
        fn no_window_overflows_and_nothing_is_lost_or_doubled(
            windows in proptest::collection::vec((0u64..1000, 0u64..1000), 1..50),
            start in 0u64..1000,
        ) {
            let mut meter = Meter::starting_at(start);
            let (mut total, mut given, mut owed) = (start, 0, 0u64);
            for (gain, room) in windows {
                total += gain;
                owed += gain;
                let taken = meter.take_ns(total, room);
                prop_assert!(taken <= room && (taken == room || taken == owed));
                owed -= taken;
                given += taken;
            }
            prop_assert_eq!(given + owed, total - start);
        }
    }
}
