//! Two ways to tell the slowdown of the same windows, each with the weight that its certainty gives it: the one rule.
//!
//! One of the two is the ledger, whose sums speak of all the time there was, but not of structure: neither of memory nor of how long
//! threads would wait for each other anyway, so that it may be wrong by more than it knows. The other sees more and is sure of less:
//! dedicated windows are few and short, and scatter; a replay leaves open what its log does. Method: the mean of both logarithms, weighed
//! by their variances. Where they differ by more than the other's error explains, the rest is an error of the
//! ledger's, and adds to its variance (as between studies in a meta-analysis, DerSimonian and Laird 1986): a ledger that
//! contradicts a certain answer has no say.

/// How an answer is weighed against the ledger's. Errors are standard deviations of logarithms.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Weight {
    /// The share of the answer that sees more, 0..=1; the rest is the ledger's.
    pub share: f64,
    /// How unsure it is.
    pub unsure: f64,
    /// How far the ledger is off, chance apart, as the difference shows.
    pub ledger_error: f64,
    /// How far chance may have moved the ledger.
    pub ledger_chance: f64,
}

impl Weight {
    /// Of an answer that is so `unsure`, and lies `apart` from that of a ledger with these errors.
    pub(crate) fn of(apart: f64, unsure: f64, ledger_chance: f64, ledger_error: f64) -> Weight {
        let contradicts = (apart.powi(2) - unsure.powi(2)).max(0.0).sqrt();
        let ledger_error = ledger_error.max(contradicts);
        Weight { share: 1.0, unsure, ledger_error, ledger_chance }.weighed()
    }

    /// The same of a ledger that cannot be off by more than this.
    pub(crate) fn at_most(self, error: f64) -> Weight {
        Weight { ledger_error: self.ledger_error.min(error), ..self }.weighed()
    }

    fn weighed(self) -> Weight {
        let own = self.unsure.powi(2);
        let ledgers = self.ledger_chance.powi(2) + self.ledger_error.powi(2);
        let share = if own + ledgers > 0.0 { ledgers / (own + ledgers) } else { 1.0 };
        Weight { share, ..self }
    }

    /// The weighted mean of what both say.
    pub(crate) fn mean(&self, own: f64, ledgers: f64) -> f64 {
        self.share * own + (1.0 - self.share) * ledgers
    }
}
