//! One suite that every host and every policy must pass, written once (invariant 5).
//!
//! A host's tests call [`host`] with a way to make a fresh host that has some work on it; the live host's tests
//! and the simulator's call the same function. Each case is a sentence, and a failure names it.

use crate::action::{Action, Knob, Outcome};
use crate::host::Host;
use crate::observation::Observation;
use crate::policy::Policy;
use crate::tenant::{TaskId, TenantId};

type HostCase = (&'static str, fn(&mut dyn Host) -> Result<(), String>);

/// Every case that a host must pass.
pub const HOST_CASES: &[HostCase] = &[
    ("time is conserved in every window", time_is_conserved),
    ("windows follow each other without gap or overlap", windows_are_seamless),
    ("the clock never goes back and advances by what was asked", clock_advances),
    ("an empty window is a valid observation", empty_window),
    ("a window sees the tasks that run in it", sees_tasks),
    ("every action has an outcome, also on a target that is not there", actions_have_outcomes),
    ("undo_all may be called at any time and twice", undo_is_idempotent),
];

/// Runs every case on a fresh host.
///
/// # Errors
/// One line per failed case.
pub fn host(mut make: impl FnMut() -> Box<dyn Host>) -> Result<(), String> {
    let failed: Vec<String> = HOST_CASES
        .iter()
        .filter_map(|(name, case)| case(make().as_mut()).err().map(|e| format!("{name}: {e}")))
        .collect();
    if failed.is_empty() {
        Ok(())
    } else {
        Err(failed.join("\n"))
    }
}

/// Runs every policy case: the same observations give the same decisions twice, and only declared knobs turn.
///
/// # Errors
/// One sentence that names the contradiction.
pub fn policy(
    mut make: impl FnMut() -> Box<dyn Policy>,
    machine: &crate::Machine,
    seen: &[Observation],
) -> Result<(), String> {
    let (mut a, mut b) = (make(), make());
    for (epoch, o) in seen.iter().enumerate() {
        let (x, y) = (a.decide(machine, o), b.decide(machine, o));
        if x != y {
            return Err(format!("{}: epoch {epoch} was decided differently the second time", a.name()));
        }
        for d in &x {
            if !a.knobs().contains(&d.action.knob()) {
                return Err(format!(
                    "{} turned {}, which it does not declare",
                    a.name(),
                    d.action.knob().name()
                ));
            }
        }
    }
    Ok(())
}

const STEP_NS: u64 = 20_000_000;

fn see(host: &mut dyn Host, ns: u64) -> Result<Observation, String> {
    host.advance(ns).map_err(|e| e.to_string())?;
    let seen = host.observe().map_err(|e| e.to_string())?;
    seen.check().map_err(|wrong| wrong.join("; "))?;
    Ok(seen)
}

fn time_is_conserved(host: &mut dyn Host) -> Result<(), String> {
    for _ in 0..5 {
        see(host, STEP_NS)?;
    }
    Ok(())
}

fn windows_are_seamless(host: &mut dyn Host) -> Result<(), String> {
    let mut end_ns = see(host, STEP_NS)?.end_ns;
    for _ in 0..3 {
        let next = see(host, STEP_NS)?;
        if next.start_ns != end_ns {
            return Err(format!("a window ended at {end_ns} and the next started at {}", next.start_ns));
        }
        end_ns = next.end_ns;
    }
    Ok(())
}

fn clock_advances(host: &mut dyn Host) -> Result<(), String> {
    for _ in 0..3 {
        let before = host.now_ns();
        host.advance(STEP_NS).map_err(|e| e.to_string())?;
        let moved = host.now_ns().checked_sub(before).ok_or("the clock went back")?;
        if moved < STEP_NS {
            return Err(format!("asked for {STEP_NS} ns, the clock moved {moved} ns"));
        }
    }
    Ok(())
}

fn empty_window(host: &mut dyn Host) -> Result<(), String> {
    see(host, 0)?;
    see(host, 0).map(|_| ())
}

fn sees_tasks(host: &mut dyn Host) -> Result<(), String> {
    let seen = see(host, 5 * STEP_NS)?;
    if seen.tasks.iter().any(|t| t.account.ledger.on_cpu_ns() > 0) {
        Ok(())
    } else {
        Err("no task ran in 100 ms".into())
    }
}

fn actions_have_outcomes(host: &mut dyn Host) -> Result<(), String> {
    let nobody = TaskId(u32::MAX);
    let nowhere = TenantId(u32::MAX);
    let turned = |knob: &Knob| match knob {
        Knob::Slice => Action::Slice { task: nobody, min_ns: 3_000_000, max_ns: 3_000_000 },
        Knob::PreemptDelay => Action::PreemptDelay { task: nobody, delay_ns: 2_000_000 },
        Knob::Cpus => Action::Cpus { task: nobody, cpus: vec![] },
        Knob::Park => Action::Park { tenant: nowhere },
        Knob::Weight => Action::Weight { tenant: nowhere, weight: 100 },
    };
    for action in Knob::ALL.iter().map(turned) {
        match host.apply(&action) {
            Outcome::Done => return Err(format!("{action:?} was done to a target that is not there")),
            Outcome::Unsupported { .. } | Outcome::Refused { .. } => {}
        }
    }
    host.undo_all().map_err(|e| e.to_string())
}

fn undo_is_idempotent(host: &mut dyn Host) -> Result<(), String> {
    host.undo_all().map_err(|e| e.to_string())?;
    see(host, STEP_NS)?;
    host.undo_all().map_err(|e| e.to_string())?;
    host.undo_all().map_err(|e| e.to_string())
}
