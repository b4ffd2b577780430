//! The requirements on the control loop on every host: one suite, called by the tests of the live host and of the modelled machine.
//!
//! It uses `gang`, whose decisions show on any machine with two busy tenants: under the guard, with a tenant that the host refuses, and
//! in a dry run.

use crate::controller::{Controller, Epoch, Mode};
use crate::guard::Arm;
use crate::options::Options;
use crate::scope::Scope;
use corun_model::{Action, Fate, Host, HostError, Machine, Observation, Outcome, Tenant, TenantId};

type Case = (&'static str, fn(&mut RecordingHost, Scope) -> Result<(), String>);

/// Every case.
pub const CASES: &[Case] = &[
    ("under the guard nothing is in force in a time without the policy", guard_alternates),
    ("a refused tenant is left out of plans until the host no longer refuses it", refused_is_left_out),
    ("a dry run decides and touches nothing", dry_run_touches_nothing),
];

/// Runs every case on a fresh host. Its scope needs at least two tenants that are always busy and may be parked.
///
/// # Errors
/// One line per failed case.
pub fn control(mut make: impl FnMut() -> (Box<dyn Host>, Scope)) -> Result<(), String> {
    let mut run = |(name, case): &Case| {
        let (host, scope) = make();
        let mut witness = RecordingHost { host, applied: Vec::new() };
        let done = case(&mut witness, scope);
        let undone = witness.undo_all().map_err(|e| e.to_string());
        done.and(undone).err().map(|e| format!("{name}: {e}"))
    };
    let failed: Vec<String> = CASES.iter().filter_map(&mut run).collect();
    if failed.is_empty() {
        Ok(())
    } else {
        Err(failed.join("\n"))
    }
}

/// A host that remembers its actions.
pub struct RecordingHost {
    host: Box<dyn Host>,
    applied: Vec<Action>,
}

impl Host for RecordingHost {
    fn machine(&self) -> &Machine {
        self.host.machine()
    }

    fn now_ns(&self) -> u64 {
        self.host.now_ns()
    }

    fn advance(&mut self, ns: u64) -> Result<(), HostError> {
        self.host.advance(ns)
    }

    fn observe(&mut self) -> Result<Observation, HostError> {
        self.host.observe()
    }

    fn apply(&mut self, action: &Action) -> Outcome {
        self.applied.push(action.clone());
        self.host.apply(action)
    }

    fn undo_all(&mut self) -> Result<(), HostError> {
        self.host.undo_all()
    }
}

/// Epochs until a guard over a gang has ended its first two periods, of one second each.
const EPOCHS: usize = 400;

fn gang(scope: Scope, mode: Mode) -> Result<Controller, String> {
    // Two tenants with one thread each fit any machine of two CPUs.
    let options = Options::new().set("together", "false").scope(scope);
    Controller::new("gang", options, mode).map_err(|e| e.to_string())
}

fn turn(controller: &mut Controller, host: &mut RecordingHost) -> Result<(Observation, Epoch), String> {
    controller.turn(host, |_, _| false).map_err(|e| e.to_string())
}

/// How long tenants of the scope were parked in a window, in nanoseconds.
fn parked_ns(controller: &Controller, seen: &Observation) -> u64 {
    let covered = seen.by_tenant.iter().filter(|t| controller.covered().contains(&t.id));
    covered.map(|t| t.account.ledger.parts().parked_ns).sum()
}

fn guard_alternates(host: &mut RecordingHost, scope: Scope) -> Result<(), String> {
    let mut controller = gang(scope, Mode { guard: true, ..Mode::default() })?;
    if controller.guard().map(|g| g.arm()) != Some(Arm::Without) || controller.is_in_force() {
        return Err("it does not begin with a time without the policy".into());
    }
    let mut parked = 0;
    for _ in 0..EPOCHS {
        let was_in_force = controller.is_in_force();
        let (seen, epoch) = turn(&mut controller, host)?;
        parked += if was_in_force { parked_ns(&controller, &seen) } else { 0 };
        if !controller.is_in_force() && !epoch.taken.is_empty() {
            return Err("it decided in a time without the policy".into());
        }
        let not_done = epoch.taken.iter().find(|t| t.fate != Fate::Applied(Outcome::Done));
        if let Some(taken) = not_done {
            return Err(format!("{:?} was not done: {:?}", taken.decision.action, taken.fate));
        }
        let Some(undone) = epoch.undone else { continue };
        undone.map_err(|e| e.to_string())?;
        if parked == 0 {
            return Err("nobody was parked while the policy was in force".into());
        }
        // A tenant that was parked until the undo may still show it in the next window.
        turn(&mut controller, host)?;
        let (seen, _) = turn(&mut controller, host)?;
        return match parked_ns(&controller, &seen) {
            0 => Ok(()),
            ns => Err(format!("somebody was parked for {ns} ns in a time without the policy")),
        };
    }
    Err(format!("the guard did not end a time with the policy in {EPOCHS} epochs"))
}

fn refused_is_left_out(host: &mut RecordingHost, scope: Scope) -> Result<(), String> {
    let mut controller = gang(scope, Mode::default())?;
    turn(&mut controller, host)?;
    host.undo_all().map_err(|e| e.to_string())?;
    let first = *controller.covered().first().ok_or("nobody is in the scope")?;
    let mut controller = gang(controller.scope().clone(), Mode::default())?;
    host.applied.clear();
    let names = |action: &Action, id: TenantId| match action {
        Action::Park { tenant } | Action::Unpark { tenant } => *tenant == id,
        _ => false,
    };
    for _ in 0..20 {
        let refuses = |_: &Observation, tenant: &Tenant| tenant.id == first;
        let (seen, _) = controller.turn(host, refuses).map_err(|e| e.to_string())?;
        if seen.refused != [first] || controller.covered().contains(&first) {
            return Err("the policy does not know which tenants the host refuses".into());
        }
        if let Some(action) = host.applied.iter().find(|a| names(a, first)) {
            return Err(format!("{action:?}, though the host refuses that tenant"));
        }
    }
    let mut comes = || turn(&mut controller, host).map(|_| controller.covered().contains(&first));
    for _ in 0..EPOCHS {
        if comes()? {
            return Ok(());
        }
    }
    Err("a tenant that the host no longer refuses is still left out".into())
}

fn dry_run_touches_nothing(host: &mut RecordingHost, scope: Scope) -> Result<(), String> {
    let mut controller = gang(scope, Mode { guard: true, dry_run: true, ..Mode::default() })?;
    let mut decided = 0;
    for _ in 0..20 {
        let (_, epoch) = turn(&mut controller, host)?;
        decided += epoch.taken.len();
        if epoch.taken.iter().any(|t| t.fate != Fate::DryRun) {
            return Err("a decision of a dry run was applied".into());
        }
    }
    match (decided, host.applied.first()) {
        (_, Some(action)) => Err(format!("{action:?} was applied")),
        (0, None) => Err("nothing was decided".into()),
        _ => Ok(()),
    }
}
