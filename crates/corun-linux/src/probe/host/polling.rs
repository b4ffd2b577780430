//! What has to happen now and then while a window is open: the rings are emptied, and new groups get names.

use super::LiveHost;
use crate::clock::now_ns;

/// So many tasks that ended since the last poll are many: their ring has room for a few thousand.
const MANY_ENDED: usize = 500;

impl LiveHost {
    /// Empties the rings and names new groups, so that no ring overflows and no group is forgotten. Returns
    /// whether unnamed groups remain.
    pub(super) fn poll(&mut self) -> bool {
        self.probe.drain_ended(&mut self.drained);
        self.has_news |= self.drained.len() >= MANY_ENDED;
        // A trace names every task.
        let (until_ns, all) = (self.announced_ns.unwrap_or(u64::MAX), self.wants_trace);
        self.ended.take_in(&mut self.drained, self.edge_ns, until_ns, all);
        self.traces.add(&self.probe.drain_trace());
        if let Some(recorder) = &mut self.recorder {
            let lost = self.probe.losses().record_events;
            if !recorder.add(&self.probe.drain_record(), lost, now_ns()) {
                self.probe.record(0);
            }
        }
        let (new, used_again) =
            (self.probe.groups_from(self.tenancy.named()), self.probe.in_use_again(self.tenancy.free()));
        self.has_news |= !new.is_empty() || !used_again.is_empty();
        let are_left = self.tenancy.learn(&new);
        self.tenancy.learn_anew(&used_again);
        self.tenancy.news().iter().for_each(|at| self.probe.cgroups_tell(at));
        are_left
    }

    /// Names every group that exists at the start: at most as many as the table holds.
    pub(super) fn learn_all(&mut self) {
        while self.poll() {}
    }

    /// Whether groups began since the last call, which need names while they live, or many tasks ended. If not, the next poll may come later.
    pub fn take_news(&mut self) -> bool {
        std::mem::take(&mut self.has_news)
    }
}
