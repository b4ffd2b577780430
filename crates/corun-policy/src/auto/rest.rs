//! While nothing is touched, since slots were found to help nobody: until when, and what makes it too long.

use super::{Auto, Phase};
use crate::census::TenantUse;
use corun_model::reason::Release;
use corun_model::{Decision, Observation};

impl Auto {
    /// Nothing is touched until the next question.
    pub(super) fn rest(&mut self, seen: &Observation, why: Release) -> Vec<Decision> {
        self.dues.forgive(&mut self.slots);
        self.look_afresh();
        self.phase = Phase::Rest { until_ns: self.hold_until_ns(seen, false) };
        self.slots.stop(why)
    }

    /// Asks at once when somebody comes to starve: what was found of one that had some of its share says nothing of when it
    /// has not even half of that.
    pub(super) fn look_while_resting(
        &mut self,
        cpus: u64,
        seen: &Observation,
        candidates: &[&TenantUse],
    ) -> Vec<Decision> {
        let found = self.watched.found(cpus, seen, candidates, self.use_spin);
        self.look_afresh();
        let least = found.starves().map_or(100, |(percent, _)| percent);
        if self.competing && least * 2 < self.tried_percent {
            self.hold_ns = self.first_hold_ns;
            return self.ask(seen, Release::LessThanTried);
        }
        Vec::new()
    }
}
