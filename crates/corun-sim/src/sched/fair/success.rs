//! How often a newly idle CPU's search has paid off: see `newidle.rs`.

use crate::streams::Stream;

/// Chances after which a domain updates its rate. Success is counted per this many.
const STOCK: u32 = 1024;

/// The success of newly-idle balancing in one domain of one CPU.
#[derive(Clone, Copy, Debug)]
pub struct Success {
    /// The number of 1024 chances to take.
    ratio: u32,
    chances: u32,
    successes: u32,
}

impl Success {
    /// As if 512 chances had been as successful as this.
    pub fn of(ratio: u32) -> Success {
        Success { ratio, chances: STOCK / 2, successes: ratio / 2 }
    }

    /// Whether to look now; if so, how many chances that represents.
    pub fn throw(&mut self, dice: &mut Stream) -> Option<u32> {
        let weight = 1 + self.ratio;
        if dice.between(0, u64::from(STOCK) - 1) > u64::from(weight) {
            self.count(0);
            return None;
        }
        Some((STOCK + weight / 2) / weight)
    }

    /// Counts a chance with this many successes.
    pub fn count(&mut self, successes: u32) {
        self.chances += 1;
        self.successes += successes;
        if self.chances >= STOCK {
            self.ratio = self.successes;
            self.chances /= 2;
            self.successes /= 2;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::streams::Streams;

    /// How many of `n` chances are taken if looking pays off in `pays` of 1024.
    fn taken(success: &mut Success, dice: &mut Stream, pays: u64, n: u32) -> u32 {
        (0..n)
            .filter(|_| match success.throw(dice) {
                Some(stands_for) => {
                    let paid = dice.between(0, 1023) < pays;
                    success.count(if paid { stands_for } else { 0 });
                    true
                }
                None => false,
            })
            .count() as u32
    }

    #[test]
    fn chances_are_taken_as_often_as_they_have_paid_off() {
        let mut dice = Streams::new(1).stream("dice");
        let (mut always, mut seldom) = (Success::of(512), Success::of(512));
        let first = taken(&mut always, &mut dice, 1024, 400);
        assert!((150..250).contains(&first), "{first} of 400 at even odds");
        taken(&mut always, &mut dice, 1024, 20_000);
        taken(&mut seldom, &mut dice, 50, 20_000);
        assert!(taken(&mut always, &mut dice, 1024, 1000) > 700);
        let late = taken(&mut seldom, &mut dice, 50, 1000);
        assert!(late < 200, "{late} of 1000 although 5 % pay");
    }
}
