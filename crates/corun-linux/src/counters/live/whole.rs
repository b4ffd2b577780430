//! The counters of a whole run, from those of its windows.
//!
//! A task is followed from the end of the window in which it first ran, so a program whose threads begin with it has a
//! window without counters, and the sum over its windows would be unknown. Over the whole run little is missing: what was
//! counted is scaled to the whole time on a CPU where it was counted for at least nine tenths of it.

use super::{whole, Grain, LivePerf, Precision, Window};
use corun_model::observation::{Observation, Unavailable};
use corun_model::{Counters, TenantId};
use std::collections::BTreeMap;

impl LivePerf {
    /// Fills in the counters of the run so far, of which `seen` is the sum of all windows that were
    /// [read](corun_model::CounterSource::read).
    pub fn read_whole(&self, seen: &mut Observation) {
        let ids: Vec<_> = seen.tasks.iter().map(|t| t.id).collect();
        let is_watched = |tenant: TenantId| self.options.of.is_none_or(|of| of == tenant);
        let mut sums: BTreeMap<TenantId, Window> = BTreeMap::new();
        for (n, task) in seen.tasks.iter_mut().enumerate().filter(|(_, t)| is_watched(t.tenant)) {
            let is_twin = n > 0 && ids[n - 1] == task.id || ids.get(n + 1) == Some(&task.id);
            let counted = self.totals.get(&task.id).filter(|_| !is_twin);
            if let Some(counted) = counted {
                let sum = sums.entry(task.tenant);
                sum.and_modify(|sum| *sum = sum.plus(counted)).or_insert(*counted);
            }
            let of_task = counted.filter(|_| self.options.grain == Grain::Task);
            task.account.counters = of_task.and_then(|w| w.of(task.account.ledger.on_cpu_ns()));
        }
        if let Grain::Tree(tenant) = self.options.grain {
            let all = self.totals.values().copied().reduce(|a, b| a.plus(&b));
            sums = all.map(|all| (tenant, all)).into_iter().collect();
        }
        for tenant in seen.by_tenant.iter_mut().filter(|t| is_watched(t.id)) {
            let on_cpu_ns = tenant.account.ledger.on_cpu_ns();
            let counted = sums.get(&tenant.id);
            tenant.account.counters = counted.and_then(|w| w.of(on_cpu_ns));
            if tenant.account.counters.is_none() && on_cpu_ns > 0 && self.options.of == Some(tenant.id) {
                let part = 100.0 * counted.map_or(0, |w| w.enabled_ns) as f64 / on_cpu_ns as f64;
                let why = format!(
                    "only {part:.0} % of its time on a CPU was counted, since its tasks begin and end too fast; counting a \
                     command as a whole misses least"
                );
                seen.unavailable.push(Unavailable { what: "counters of the subject".into(), why });
            }
        }
    }

    /// How exact the counters of the whole run are; `None` when nobody ran.
    pub fn precision_of_whole(&self) -> Option<Precision> {
        Precision::of(&self.turns, self.turn_ns)
    }
}

impl Window {
    /// Scaled to a time on a CPU of which this is nearly all; else `None`.
    fn of(&self, on_cpu_ns: u64) -> Option<Counters> {
        whole(self.counters, self.enabled_ns, on_cpu_ns)
    }
}
