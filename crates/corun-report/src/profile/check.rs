//! The conditions for every profile, checked on the file itself: time is conserved, culprits explain the
//! steal.

use super::schema::{Account, Ledger, ProfileReport, SCHEMA};
use super::waits;
use corun_predict::Server;

impl Ledger {
    /// The sum of the parts; a part that was not measured is inside another. Numbers from a file may
    /// overflow: saturates.
    pub fn sum_ns(&self) -> u64 {
        let parts = [self.block_ns, self.steal_ns, self.throttled_ns, self.parked_ns, self.unknown_ns];
        parts.into_iter().fold(self.on_cpu_ns().saturating_add(self.held_ns()), u64::saturating_add)
    }

    /// Stopped and frozen together.
    pub fn held_ns(&self) -> u64 {
        self.stopped_ns.unwrap_or(0).saturating_add(self.frozen_ns.unwrap_or(0))
    }

    /// Compute and spin together.
    pub fn on_cpu_ns(&self) -> u64 {
        self.compute_ns.saturating_add(self.spin_ns.unwrap_or(0))
    }
}

impl ProfileReport {
    /// Checks all conditions of a profile.
    ///
    /// # Errors
    /// One sentence per contradiction.
    pub fn check(&self) -> Result<(), Vec<String>> {
        let mut wrong = Vec::new();
        if self.schema != SCHEMA {
            wrong.push(format!("the schema is `{}`, not `{SCHEMA}`", self.schema));
        }
        account(&self.subject.account, "the subject", &mut wrong);
        for t in &self.tenants {
            account(&t.account, &format!("tenant {} ({})", t.tenant.id, t.tenant.name), &mut wrong);
        }
        for t in &self.tasks {
            let who = format!("task {} ({})", t.tid, t.name);
            account(&t.account, &who, &mut wrong);
            if t.lifetime_ns != t.account.ledger.total_ns {
                wrong.push(format!("{who}: its ledger is not of its lifetime"));
            }
            if t.lifetime_ns > self.window_ns {
                wrong.push(format!("{who}: it lived longer than the window"));
            }
        }
        for t in &self.others {
            ledger(&t.ledger, &format!("task {} ({})", t.tid, t.name), &mut wrong);
        }
        self.servers.iter().flatten().for_each(|server| self::server(server, &mut wrong));
        waits::check(self.worst_waits.as_deref().unwrap_or_default(), self.window_ns, &mut wrong);
        for (i, s) in self.timeline.iter().enumerate() {
            ledger(&s.ledger, &format!("timeline part {i}"), &mut wrong);
        }
        for c in &self.machine.per_cpu {
            if c.idle_ns.saturating_add(c.busy_ns).saturating_add(c.unknown_ns) != self.window_ns {
                wrong.push(format!("CPU {}: idle, busy and unknown do not sum to the window", c.cpu));
            }
        }
        if wrong.is_empty() {
            Ok(())
        } else {
            Err(wrong)
        }
    }
}

fn ledger(l: &Ledger, who: &str, wrong: &mut Vec<String>) {
    if l.sum_ns() != l.total_ns {
        wrong.push(format!("{who}: the parts sum to {} ns, the total is {} ns", l.sum_ns(), l.total_ns));
    }
}

fn server(s: &Server, wrong: &mut Vec<String>) {
    for [least, most] in [s.queued_ns, s.throttled_ns, s.held_ns] {
        if least > most || most > s.waited_ns {
            wrong.push(format!(
                "server {}: {least} to {most} ns of {} ns waited for it",
                s.tenant, s.waited_ns
            ));
        }
    }
    let charged = s.culprits.iter().map(|c| c.steal_ns).fold(s.unattributed_ns, u64::saturating_add);
    if charged != s.queued_ns[1] {
        wrong.push(format!("server {}: culprits explain {charged} ns of {} ns", s.tenant, s.queued_ns[1]));
    }
}

fn account(a: &Account, who: &str, wrong: &mut Vec<String>) {
    ledger(&a.ledger, who, wrong);
    let charged = a.culprits.iter().map(|c| c.steal_ns).fold(a.unattributed_ns, u64::saturating_add);
    if charged != a.ledger.steal_ns {
        wrong.push(format!("{who}: culprits explain {charged} ns of {} ns stolen", a.ledger.steal_ns));
    }
    if a.culprits.windows(2).any(|w| w[0].steal_ns < w[1].steal_ns) {
        wrong.push(format!("{who}: culprits are not in order"));
    }
    if let Some(b) = &a.block {
        let sum = b.named().iter().map(|(_, ns)| *ns).fold(0, u64::saturating_add);
        if sum != a.ledger.block_ns {
            wrong.push(format!("{who}: block reasons sum to {sum} ns of {} ns blocked", a.ledger.block_ns));
        }
    }
    for h in [&a.waits, &a.stretches].into_iter().flatten() {
        if h.counts.iter().copied().fold(0, u64::saturating_add) != h.total
            || h.counts.last().copied().unwrap_or(0) != h.overflow
        {
            wrong.push(format!("{who}: a histogram's total or overflow is not that of its counts"));
        }
    }
}
