//! Dedicated windows: short times in which every co-runner is parked, so that the subject shows how fast it
//! is alone.
//!
//! PACT'16 §2.3 takes the other vCPUs off the run queues for a pre-defined period and asks for it again when
//! the program changes phase. Here a window takes these steps. Close the current window, and prepare to park
//! every tenant that had a CPU or wanted one since the host was made. Park them, and close the short window
//! that this took. Let the subject's threads spread over the free CPUs ([`SETTLE_NS`]). Wait, close the
//! dedicated window, and unpark everybody. The window ends early if the subject ends, and everybody is
//! unparked whatever fails.
//!
//! What it costs the co-runners is bounded by a **budget**: in any period of `over_ns`, they are parked for
//! at most `per_mille` of it. Protected tenants go on, and so do those that have not run since the host was
//! made. Whatever ran in a dedicated window although it should not have is measured and reported
//! (`leaked_ns`, `not_parked`). [`crate::stock`]'s `parking` explains what happens to the fair share of
//! parked tenants.

use crate::steered::SteeredHost;
use corun_model::dedicated::Spending;
pub use corun_model::dedicated::{Budget, SETTLE_NS};
use corun_model::duration::human_ns;
use corun_model::{Action, Host, HostError, Observation, Outcome, Refusal, TenantId};
use thiserror::Error;

/// How often the subject is checked inside a window.
const LOOK_NS: u64 = 5_000_000;

/// A dedicated window is not possible.
#[derive(Debug, Error)]
pub enum DedicatedError {
    /// The window can never be within the budget.
    #[error(
        "a dedicated window of {} never fits into a budget of {} in any {}; make it shorter, or the budget larger",
        human_ns(*window_ns), human_ns(budget.allowance_ns()), human_ns(budget.over_ns)
    )]
    NeverFits {
        /// The window's length.
        window_ns: u64,
        /// The budget.
        budget: Budget,
    },
    /// It would exceed the budget now.
    #[error("the budget allows the next dedicated window in {}", human_ns(*in_ns))]
    TooSoon {
        /// When it will not.
        in_ns: u64,
    },
    /// There is no subject, so nobody would run.
    #[error("a dedicated window needs a subject: a command, a PID, a cgroup or a VM")]
    NoSubject,
    /// The host cannot go on; everybody is unparked.
    #[error(transparent)]
    Host(#[from] HostError),
}

/// What a dedicated window showed.
#[derive(Clone, Debug)]
pub struct DedicatedWindow {
    /// The window that was open, up to the moment when everybody was parked.
    pub before: Observation,
    /// The dedicated window.
    pub dedicated: Observation,
    /// The parked tenants.
    pub parked: Vec<TenantId>,
    /// Tenants that were not parked although they might disturb, and why.
    pub not_parked: Vec<(TenantId, Refusal)>,
    /// How long co-runners were parked, all steps included, in nanoseconds.
    pub parked_ns: u64,
    /// CPU time of parked tenants while they were parked, in nanoseconds: 0 if parking held.
    pub leaked_ns: u64,
    /// Whether the subject ended inside the window, so that it is shorter than requested.
    pub subject_ended: bool,
}

/// Opens dedicated windows within a budget.
#[derive(Clone, Debug)]
pub struct Dedicated {
    spending: Spending,
}

impl Default for Dedicated {
    /// Windows of the usual length within the usual budget.
    fn default() -> Dedicated {
        Dedicated { spending: Spending::default() }
    }
}

impl Dedicated {
    /// Windows of `window_ns` each.
    ///
    /// # Errors
    /// [`DedicatedError::NeverFits`].
    pub fn new(window_ns: u64, budget: Budget) -> Result<Dedicated, DedicatedError> {
        let spending = Spending::new(window_ns, budget);
        Ok(Dedicated { spending: spending.ok_or(DedicatedError::NeverFits { window_ns, budget })? })
    }

    /// The length of a window in nanoseconds.
    pub fn window_ns(&self) -> u64 {
        self.spending.window_ns()
    }

    /// The time until the budget allows the next window, in nanoseconds; 0: now.
    pub fn due_in_ns(&self, now_ns: u64) -> u64 {
        self.spending.due_in_ns(now_ns)
    }

    /// Opens one window. When this returns, everybody runs again, also after an error.
    ///
    /// # Errors
    /// [`DedicatedError`].
    pub fn run(&mut self, host: &mut SteeredHost) -> Result<DedicatedWindow, DedicatedError> {
        self.run_and_tell(host, &mut |_| ())
    }

    /// The same, but `told` is called with every observation right after it was made. The caller can add what
    /// else it knows about that time (spinning, counters). Co-runners are parked meanwhile, so it must be
    /// quick.
    ///
    /// # Errors
    /// [`DedicatedError`].
    pub fn run_and_tell(
        &mut self,
        host: &mut SteeredHost,
        told: &mut dyn FnMut(&mut Observation),
    ) -> Result<DedicatedWindow, DedicatedError> {
        let subject = host.subject().ok_or(DedicatedError::NoSubject)?;
        let in_ns = self.due_in_ns(host.now_ns());
        if in_ns > 0 {
            return Err(DedicatedError::TooSoon { in_ns });
        }
        let mut before = host.observe()?;
        told(&mut before);
        let (ready, not_parked) = co_runners(host, &before, subject);
        let start_ns = host.now_ns();
        let opened = self.open(host, &mut before, ready, not_parked, told);
        let mut let_go = true;
        for tenant in host.parked() {
            let_go &= host.apply(&Action::Unpark { tenant }) == Outcome::Done;
        }
        // The journal still lists any tenant that this could not release. If that does not help either, it is
        // reported at once.
        let undone = if let_go { Ok(()) } else { host.undo_all() };
        let end_ns = host.now_ns();
        self.spending.spend(start_ns, end_ns);
        undone?;
        let opened = opened?;
        Ok(DedicatedWindow { before, parked_ns: end_ns - start_ns, ..opened })
    }

    /// The part of a window in which tenants may be parked.
    fn open(
        &self,
        host: &mut SteeredHost,
        before: &mut Observation,
        ready: Vec<TenantId>,
        mut not_parked: Vec<(TenantId, Refusal)>,
        told: &mut dyn FnMut(&mut Observation),
    ) -> Result<DedicatedWindow, HostError> {
        let mut parked = Vec::new();
        for tenant in ready {
            match host.apply(&Action::Park { tenant }) {
                Outcome::Done => parked.push(tenant),
                Outcome::Unsupported { why } | Outcome::Refused { why } => not_parked.push((tenant, why)),
            }
        }
        let mut sliver = host.observe()?;
        told(&mut sliver);
        before.extend(&sliver);
        let mut closed_after = |wanted_ns: u64| {
            let until_ns = host.now_ns() + wanted_ns;
            let mut left_ns = wanted_ns;
            while left_ns > 0 && host.subject_lives() {
                host.advance(left_ns.min(LOOK_NS))?;
                left_ns = until_ns.saturating_sub(host.now_ns());
            }
            let mut seen = host.observe()?;
            told(&mut seen);
            Ok::<Observation, HostError>(seen)
        };
        let settling = closed_after(SETTLE_NS)?;
        let dedicated = closed_after(self.window_ns())?;
        let accounts = settling.by_tenant.iter().chain(&dedicated.by_tenant);
        let leaked = accounts.filter(|t| parked.contains(&t.id));
        Ok(DedicatedWindow {
            leaked_ns: leaked.map(|t| t.account.ledger.on_cpu_ns()).sum(),
            subject_ended: !host.subject_lives(),
            before: Observation::default(),
            dedicated,
            parked,
            not_parked,
            parked_ns: 0,
        })
    }
}

/// A tenant that would run in a dedicated window although it should not.
#[derive(Clone, Debug, Default)]
pub struct NotDedicated {
    /// Co-runners that cannot be parked.
    pub unparkable: Vec<Unparkable>,
    /// How many others can.
    pub parkable: usize,
}

/// A co-runner that cannot be parked.
#[derive(Clone, Debug)]
pub struct Unparkable {
    /// Who.
    pub tenant: TenantId,
    /// Why not.
    pub why: Refusal,
    /// How long it was on a CPU in the given window, in nanoseconds.
    pub on_cpu_ns: u64,
}

impl NotDedicated {
    /// How long they were on a CPU in total, in nanoseconds.
    pub fn on_cpu_ns(&self) -> u64 {
        self.unparkable.iter().map(|u| u.on_cpu_ns).sum()
    }
}

/// The tenants that a dedicated window would leave running, judged by the window `seen`. Nobody is stopped.
pub fn not_dedicated(host: &mut SteeredHost, seen: &Observation, subject: TenantId) -> NotDedicated {
    let (ready, not) = co_runners(host, seen, subject);
    let ran =
        |id: TenantId| seen.by_tenant.iter().find(|t| t.id == id).map_or(0, |t| t.account.ledger.on_cpu_ns());
    let unparkable =
        not.into_iter().map(|(tenant, why)| Unparkable { tenant, why, on_cpu_ns: ran(tenant) }).collect();
    NotDedicated { unparkable, parkable: ready.len() }
}

/// Tenants that are now ready to be parked, and those that cannot be, with the reason.
fn co_runners(
    host: &mut SteeredHost,
    seen: &Observation,
    subject: TenantId,
) -> (Vec<TenantId>, Vec<(TenantId, Refusal)>) {
    let here: Vec<TenantId> =
        seen.co_runners(subject).map(|t| t.id).filter(|id| host.active().contains(id)).collect();
    let (mut ready, mut not) = (Vec::new(), Vec::new());
    for tenant in here {
        match host.prepare(tenant) {
            Ok(()) => ready.push(tenant),
            Err(why) => not.push((tenant, why)),
        }
    }
    (ready, not)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_that_can_never_be_within_the_budget_is_refused() {
        let e = Dedicated::new(500_000_000, Budget::default()).unwrap_err();
        assert_eq!(
            e.to_string(),
            "a dedicated window of 500 ms never fits into a budget of 400 ms in any 20.0 s; make it shorter, or the \
             budget larger"
        );
        Dedicated::new(100_000_000, Budget::default()).unwrap();
    }
}
