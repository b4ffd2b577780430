//! Whom a run of `corun control` may touch: the tenants that were named, held against who is there.
//!
//! Everybody who is named must be there when it starts, and be nobody who is protected: a name that matches nobody, or the
//! terminal that corun was started from, is a mistake that would otherwise show as nothing happening. Of who is given by a
//! key (`cgroup:/build`) only the place must be there, since a service names cgroups before the programs come that run in
//! them. PIDs become their tenants' keys, so that a policy plans with these tenants alone.

use super::Args;
use crate::target::pid;
use crate::usage::{take_place, Usage};
use corun_linux::cgroup::{Cgroups, Tree};
use corun_linux::naming;
use corun_linux::procfs::process_of;
use corun_linux::protected::{is_comm, Protection};
use corun_linux::Root;
use corun_model::duration::human_ns;
use corun_model::observation::TaskObservation;
use corun_model::refusal::Protected;
use corun_model::{Observation, Refusal, Tenant, TenantId, TenantKind};
use corun_policy::Scope;
use corun_report::output::can_be_written;
use corun_report::refusal::refusal;
use std::collections::BTreeSet;

/// An epoch takes part of a millisecond to observe and decide on.
const LEAST_EPOCH_NS: u64 = 1_000_000;
/// An hour: the guard counts in several of them.
const MOST_EPOCH_NS: u64 = 3_600_000_000_000;

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
    if let Some(ns) = args.epoch.filter(|ns| *ns > MOST_EPOCH_NS) {
        let (most, given) = (human_ns(MOST_EPOCH_NS), human_ns(ns));
        return Err(Usage(format!("--epoch {given} is too long to wait for; give {most} or less")));
    }
    if args.json_lines && args.to_standard_output() {
        let what = "--json-lines has standard output for itself; give the other file a name instead of `-`";
        return Err(Usage(what.into()));
    }
    // Hours later would be too late to learn that a report cannot be written.
    for (flag, path) in args.files() {
        can_be_written(path).map_err(|e| Usage(format!("{flag} {}: {}", path.display(), e.why)))?;
    }
    let mut taken = BTreeSet::new();
    args.files().try_for_each(|(_, path)| take_place(&mut taken, path))
}

/// Which of the names given with `--protect` nobody has: a slip of the pen there leaves somebody unprotected.
pub fn protecting_nobody<'a>(args: &'a Args, seen: &'a Observation) -> impl Iterator<Item = &'a String> {
    let is_there = |wanted: &String| {
        let pid = pid(wanted);
        let is_meant = |t: &TaskObservation| Some(t.id.0) == pid || is_comm(wanted, &t.name);
        seen.tenants.iter().any(|t| t.is_called(wanted)) || seen.tasks.iter().any(is_meant)
    };
    args.protect.iter().filter(move |wanted| !is_there(wanted))
}

/// What to know before containers are parked by freezing their cgroups; `None` where there is none.
pub fn taken_for_paused(seen: &Observation, covered: &BTreeSet<TenantId>) -> Option<String> {
    let is_one = |t: &&Tenant| t.kind == TenantKind::Container && covered.contains(&t.id);
    let names: Vec<&str> = seen.tenants.iter().filter(is_one).map(|t| t.name.as_str()).collect();
    (!names.is_empty()).then(|| {
        format!(
            "while a container is parked ({}), its runtime takes it for paused and refuses `exec`, and probes that use it \
             fail; sched_ext parks without that",
            names.join(", ")
        )
    })
}

/// The scope, by what was seen first. `acts`: whether anybody is going to be touched.
///
/// # Errors
/// One sentence on somebody who is not there, has nothing that runs, is protected, or is somebody else's.
pub fn scope(root: &Root, args: &Args, seen: &Observation, acts: bool) -> Result<Scope, Usage> {
    let of_pid = |wanted: &String| Some(of_process(pid(wanted)?, seen).ok()?.key.clone());
    let protected = args.protect.iter().map(|wanted| of_pid(wanted).unwrap_or_else(|| wanted.clone()));
    let everyone = Scope::everyone().protect(protected);
    if args.all {
        return Ok(everyone);
    }
    let protection = Protection::new(root, &args.protect);
    let mut keys = Vec::new();
    for wanted in &args.tenants {
        let refused = |protected| {
            Usage(format!("--tenant {wanted}: {}; name another one", refusal(&Refusal::Protected(protected))))
        };
        let given = pid(wanted);
        given
            .and_then(|pid| protection.of_process(pid))
            .map_or(Ok(()), |protected| Err(refused(protected)))?;
        let meant = meant(wanted, seen)?;
        if meant.is_empty() {
            let why = |why| whose_it_is(wanted, seen).unwrap_or(why);
            may_come(root, wanted).map_err(|no| Usage(format!("--tenant {wanted}: {}", why(no))))?;
            keys.push(wanted.clone());
            continue;
        }
        let reasons: Option<Vec<Protected>> =
            meant.iter().map(|t| why_not(root, &protection, seen, t)).collect();
        if let Some(protected) = reasons.and_then(|all| all.into_iter().next()) {
            return Err(refused(protected));
        }
        if let Some(tenant) = meant.iter().find(|t| acts && !may_be_stopped(root, seen, t.id)) {
            let why = format!("{} belongs to another user; run as root", tenant.name);
            return Err(Usage(format!("--tenant {wanted}: {why}")));
        }
        // A name may come to mean others as well, and these may come to be called otherwise.
        keys.extend(meant.iter().map(|t| t.key.clone()));
        keys.extend(given.is_none().then(|| wanted.clone()));
    }
    Ok(everyone.only(keys))
}

/// Whether somebody may come by a name that nobody has now: only by the key of a place that is there, or of what is made
/// under a name that is known before, as a container is.
///
/// # Errors
/// Why not, and the remedy.
fn may_come(root: &Root, wanted: &str) -> Result<(), String> {
    const LISTED: &str = "`corun profile --all --for 1s` lists who";
    let nothing = || Err(format!("nothing by that name runs here; {LISTED} does"));
    let Some((kind, what)) = wanted.split_once(':') else { return nothing() };
    match kind {
        "cgroup" | "unit" => {
            let cgroups = Cgroups::discover(root).map_err(|e| e.to_string())?;
            let is_there = |tree: &Tree| cgroups.id(tree, what).is_ok();
            match naming::of_cgroup(what) {
                _ if !cgroups.trees().iter().any(is_there) => {
                    Err(format!("there is no such cgroup; make it first, or name another: {LISTED} is there"))
                }
                Some(named) if named.key != wanted => {
                    Err(format!("whoever comes into that cgroup is `{}`; give --tenant that", named.key))
                }
                Some(_) => Ok(()),
                None => {
                    Err(format!("whoever comes into that cgroup has a name of its own; {LISTED} is there"))
                }
            }
        }
        "pgid" => Err(format!("there is no such process group; {LISTED} is there")),
        "container" | "machine" | "lxc" | "pod" | "slurm" | "vm" => Ok(()),
        _ => nothing(),
    }
}

/// Whose a program is that is no tenant by itself; `None` when nothing by that name runs.
fn whose_it_is(wanted: &str, seen: &Observation) -> Option<String> {
    let is_it = |t: &&TaskObservation| t.alive && is_comm(wanted, &t.name);
    let of: BTreeSet<TenantId> = seen.tasks.iter().filter(is_it).map(|t| t.tenant).collect();
    let tenants: Vec<&Tenant> = of.into_iter().filter_map(|id| seen.tenant(id)).collect();
    let listed: Vec<String> = tenants.iter().take(3).map(|t| format!("{} (`{}`)", t.name, t.key)).collect();
    let more = tenants
        .len()
        .checked_sub(3)
        .filter(|more| *more > 0)
        .map_or(String::new(), |n| format!(" and {n} others"));
    (!listed.is_empty()).then(|| {
        format!(
            "that is a program of {}{more}; name that tenant, or give the program's PID",
            listed.join(", ")
        )
    })
}

/// Who is to have the windows of `dedicated` must be there as well.
///
/// # Errors
/// One sentence.
pub fn subject(root: &Root, subject: &str, seen: &Observation) -> Result<(), Usage> {
    match seen.tenants.iter().any(|t| t.is_called(subject) && has_tasks(seen, t.id)) {
        true => Ok(()),
        false => may_come(root, subject).map_err(|why| Usage(format!("-o subject={subject}: {why}"))),
    }
}

/// Who is given by a key that nobody has yet.
pub fn nobody_yet<'a>(args: &'a Args, seen: &'a Observation) -> impl Iterator<Item = &'a String> {
    let is_there = |wanted: &String| {
        pid(wanted).is_some() || seen.tenants.iter().any(|t| t.is_called(wanted) && has_tasks(seen, t.id))
    };
    args.tenants.iter().filter(move |wanted| !is_there(wanted))
}

pub fn has_tasks(seen: &Observation, id: TenantId) -> bool {
    seen.tasks.iter().any(|t| t.tenant == id && t.alive)
}

/// Whom a name, a key or a PID means, of those that have tasks; nobody is meant by what may still come.
///
/// # Errors
/// Where it is the PID of nobody.
pub fn meant<'a>(wanted: &str, seen: &'a Observation) -> Result<Vec<&'a Tenant>, Usage> {
    match pid(wanted) {
        Some(pid) => Ok(vec![of_process(pid, seen)?]),
        None => Ok(seen.tenants.iter().filter(|t| t.is_called(wanted) && has_tasks(seen, t.id)).collect()),
    }
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
pub fn why_not(
    root: &Root,
    protection: &Protection,
    seen: &Observation,
    tenant: &Tenant,
) -> Option<Protected> {
    let mut processes = processes(root, seen, tenant.id);
    protection.of_tenant(tenant).or_else(|| processes.find_map(|pid| protection.of_process(pid)))
}

/// How many of those that a policy might touch this user may not stop, where everybody may be controlled.
///
/// # Errors
/// One sentence where that is all of them.
pub fn others_left_alone(
    root: &Root,
    args: &Args,
    seen: &Observation,
    scope: &Scope,
) -> Result<usize, Usage> {
    let protection = Protection::new(root, &args.protect);
    let is_meant = |t: &&Tenant| {
        scope.covers(t) && has_tasks(seen, t.id) && why_not(root, &protection, seen, t).is_none()
    };
    let meant = seen.tenants.iter().filter(is_meant);
    let (mine, others): (Vec<_>, Vec<_>) = meant.partition(|t| may_be_stopped(root, seen, t.id));
    match (mine.len(), others.len()) {
        (0, 1..) => Err(Usage("--all: nobody here may be controlled by this user; run as root".into())),
        (_, others) => Ok(others),
    }
}

/// Whether the kernel would let this user stop all of a tenant's processes.
pub fn may_be_stopped(root: &Root, seen: &Observation, tenant: TenantId) -> bool {
    let refused = |pid: u32| {
        // SAFETY: signal 0 is sent to nobody; the kernel only says whether it could be.
        let sent = unsafe { libc::kill(pid as i32, 0) };
        sent != 0 && std::io::Error::last_os_error().raw_os_error() == Some(libc::EPERM)
    };
    !processes(root, seen, tenant).any(refused)
}

/// The processes of a tenant's living tasks.
fn processes<'a>(root: &'a Root, seen: &'a Observation, tenant: TenantId) -> impl Iterator<Item = u32> + 'a {
    let tasks = seen.tasks.iter().filter(move |t| t.tenant == tenant && t.alive);
    tasks.filter_map(move |t| process_of(root, t.id.0).ok().flatten())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whose_containers_may_be_parked_is_told_what_their_runtime_makes_of_it() {
        let tenant = |(id, kind, name): (u32, TenantKind, &str)| Tenant {
            id: TenantId(id),
            kind,
            key: name.into(),
            name: name.into(),
        };
        let all =
            [(1, TenantKind::Container, "web"), (2, TenantKind::Pod, "db"), (3, TenantKind::Container, "ci")];
        let seen = Observation { tenants: all.map(tenant).into(), ..Observation::default() };
        let told =
            |covered: &[u32]| taken_for_paused(&seen, &covered.iter().map(|id| TenantId(*id)).collect());
        assert!(told(&[1, 2]).is_some_and(|told| told.contains("(web)")));
        assert_eq!(told(&[2]), None);
    }
}
