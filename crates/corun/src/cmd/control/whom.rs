//! Whom a run of `corun control` may touch: the tenants that were named, held against who is there.
//!
//! Everybody who is named must be there when it starts, unless a key is given (`cgroup:/build`), and be nobody who is
//! protected: a name that matches nobody, or the terminal that corun was started from, is a mistake that would otherwise
//! show as nothing happening. PIDs become their tenants' keys, so that a policy plans with these tenants alone.

use super::Args;
use crate::cli::Usage;
use corun_linux::protected::Protection;
use corun_linux::Root;
use corun_model::duration::human_ns;
use corun_model::{Observation, Tenant, TenantId};
use corun_policy::Scope;
use corun_report::output::can_be_written;

/// An epoch takes part of a millisecond to observe and decide on.
const LEAST_EPOCH_NS: u64 = 1_000_000;

/// What must be right before anybody is looked at.
///
/// # Errors
/// One sentence.
pub fn check(args: &Args) -> Result<(), Usage> {
    if args.tenants.is_empty() && !args.all {
        let what = "name whom to control: --tenant NAME (more than once for several), or --all";
        return Err(Usage(what.into()));
    }
    if let Some(empty) = args.tenants.iter().chain(&args.protect).find(|t| t.trim().is_empty()) {
        return Err(Usage(format!(
            "`{empty}` is no tenant's name; `corun profile --all --for 1s` lists them"
        )));
    }
    if let Some(ns) = args.epoch.filter(|ns| *ns < LEAST_EPOCH_NS) {
        let (least, given) = (human_ns(LEAST_EPOCH_NS), human_ns(ns));
        return Err(Usage(format!("--epoch {given} is too short to decide in; give {least} or more")));
    }
    // Hours later would be too late to learn that a report cannot be written.
    let files = [("--html", &args.html), ("--trace", &args.trace)];
    for (flag, path) in files.iter().filter_map(|(flag, path)| Some((flag, path.as_ref()?))) {
        can_be_written(path).map_err(|e| Usage(format!("{flag} {}: {}", path.display(), e.why)))?;
    }
    Ok(())
}

/// The scope, by what was seen first.
///
/// # Errors
/// One sentence on somebody who is not there, has nothing that runs, or is protected.
pub fn scope(root: &Root, args: &Args, seen: &Observation) -> Result<Scope, Usage> {
    let everyone = Scope::everyone().protect(args.protect.iter().cloned());
    if args.all {
        return Ok(everyone);
    }
    let protection = Protection::new(root, &args.protect);
    let mut keys = Vec::new();
    for wanted in &args.tenants {
        let refused = |why| Usage(format!("--tenant {wanted}: {why}; name another one"));
        let pid = wanted.parse::<u32>().ok();
        let meant: Vec<&Tenant> = match pid {
            Some(pid) => {
                protection.of_process(pid).map_or(Ok(()), |why| Err(refused(why)))?;
                vec![of_process(pid, seen)?]
            }
            None => seen.tenants.iter().filter(|t| t.is_called(wanted) && has_tasks(seen, t.id)).collect(),
        };
        // A key is no slip of the pen: who is given by it may come later (a cgroup that is empty so far).
        if meant.is_empty() && wanted.contains(':') {
            keys.push(wanted.clone());
            continue;
        }
        if meant.is_empty() {
            return Err(Usage(format!(
                "--tenant {wanted}: nothing by that name runs here; `corun profile --all --for 1s` lists who does"
            )));
        }
        let reasons: Option<Vec<String>> =
            meant.iter().map(|t| why_not(root, &protection, seen, t)).collect();
        if let Some(why) = reasons.and_then(|all| all.into_iter().next()) {
            return Err(refused(why));
        }
        keys.push(if pid.is_some() { meant[0].key.clone() } else { wanted.clone() });
    }
    Ok(everyone.only(keys))
}

fn has_tasks(seen: &Observation, id: TenantId) -> bool {
    seen.tasks.iter().any(|t| t.tenant == id && t.alive)
}

/// The tenant that a process belongs to.
fn of_process(pid: u32, seen: &Observation) -> Result<&Tenant, Usage> {
    let task = seen.tasks.iter().find(|t| t.id.0 == pid && t.alive);
    task.and_then(|t| seen.tenant(t.tenant)).ok_or_else(|| {
        Usage(format!(
            "--tenant {pid}: there is no such process; `corun profile --all --for 1s` lists who is there"
        ))
    })
}

/// Why a tenant may not be touched: by what it is, or by one of its processes.
fn why_not(root: &Root, protection: &Protection, seen: &Observation, tenant: &Tenant) -> Option<String> {
    let process_of = |tid: u32| {
        let status = root.read(format!("/proc/{tid}/status")).ok()?;
        status.lines().find_map(|l| l.strip_prefix("Tgid:")?.trim().parse::<u32>().ok())
    };
    let mut tasks = seen.tasks.iter().filter(|t| t.tenant == tenant.id && t.alive);
    protection.of_tenant(tenant).or_else(|| tasks.find_map(|t| protection.of_process(process_of(t.id.0)?)))
}
