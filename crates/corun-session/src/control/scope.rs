//! The tenants that a controlled run may touch: the named ones, compared with the existing ones.
//!
//! Every named tenant must exist when the run starts, and must not be protected. Without this check, a name
//! that matches nobody, or the terminal that this program was started from, would simply have no effect. For
//! a tenant given by a key (`cgroup:/build`), only the place must exist: a service names cgroups before
//! programs run in them. PIDs become the keys of their tenants, so that a policy plans with these tenants
//! alone.

use super::protected::Protected;
use crate::error::{Error, Named};
use crate::target::pid;
use corun_linux::cgroup::{Cgroups, Tree};
use corun_linux::naming;
use corun_linux::protected::is_comm;
use corun_linux::target::{Subject, TargetError};
use corun_linux::Root;
use corun_model::observation::TaskObservation;
use corun_model::{Observation, Tenant, TenantId, TenantKind};
use corun_policy::Scope;
use std::collections::BTreeSet;

/// The tenants that a policy may control.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tenants {
    /// Every tenant that is not protected.
    Everybody,
    /// These, by name, key or PID.
    Named(Vec<String>),
}

impl Tenants {
    /// Those that were named.
    pub fn named(&self) -> &[String] {
        match self {
            Tenants::Everybody => &[],
            Tenants::Named(names) => names,
        }
    }
}

fn refused(wanted: &str, why: impl Into<String>) -> Error {
    Error::Refused { what: Named::Tenant(wanted.to_owned()), why: why.into() }
}

fn absent(wanted: &str, why: &str) -> Error {
    Error::Absent { what: Named::Tenant(wanted.to_owned()), why: why.to_owned() }
}

/// The protected names that nobody has: a typo there leaves somebody unprotected.
pub fn protecting_nobody<'a>(
    protect: &'a [String],
    seen: &'a Observation,
) -> impl Iterator<Item = &'a String> {
    let is_there = |wanted: &String| {
        let pid = pid(wanted);
        let is_meant = |t: &TaskObservation| Some(t.id.0) == pid || is_comm(wanted, &t.name);
        seen.tenants.iter().any(|t| t.is_called(wanted)) || seen.tasks.iter().any(is_meant)
    };
    protect.iter().filter(move |wanted| !is_there(wanted))
}

/// The containers that may be parked.
pub fn containers(seen: &Observation, covered: &BTreeSet<TenantId>) -> Vec<String> {
    let is_one = |t: &&Tenant| t.kind == TenantKind::Container && covered.contains(&t.id);
    seen.tenants.iter().filter(is_one).map(|t| t.name.clone()).collect()
}

/// The scope, according to the first observation.
///
/// # Errors
/// One sentence about a tenant that does not exist, has no running tasks, is protected, or belongs to another
/// user.
pub fn scope(
    root: &Root,
    tenants: &Tenants,
    protect: &[String],
    protected: &Protected,
    seen: &Observation,
) -> Result<Scope, Error> {
    let of_pid = |wanted: &String| Some(of_process(pid(wanted)?, seen).ok()?.key.clone());
    // A number may be a PID and a name: both are protected.
    let protect = protect.iter().flat_map(|wanted| of_pid(wanted).into_iter().chain([wanted.clone()]));
    let everyone = Scope::everyone().protect(protect);
    let Tenants::Named(names) = tenants else { return Ok(everyone) };
    let mut keys = Vec::new();
    for wanted in names {
        let no = |why| Error::Protected { tenant: wanted.clone(), why };
        let given = pid(wanted);
        if let Some(pid) = given {
            match Subject::processes(root, &[pid]) {
                // The following text says that nobody has it, and who exists.
                Ok(_) | Err(TargetError::NoProcess { .. }) => {}
                Err(e) => return Err(refused(wanted, e.to_string())),
            }
        }
        if let Some(why) = other_of_that_name(wanted, seen) {
            return Err(refused(wanted, why));
        }
        given.and_then(|pid| protected.why_not_process(pid)).map_or(Ok(()), |why| Err(no(why)))?;
        let meant = meant(wanted, seen)?;
        if meant.is_empty() {
            let of_another = |reason| whose_it_is(wanted, seen).map_or(reason, |why| refused(wanted, why));
            may_come(root, wanted, Named::Tenant).map_err(of_another)?;
            keys.push(wanted.clone());
            continue;
        }
        let reasons: Option<Vec<_>> = meant.iter().map(|t| protected.why_not(seen, t)).collect();
        if let Some(why) = reasons.and_then(|all| all.into_iter().next()) {
            return Err(no(why));
        }
        if let Some(tenant) = meant.iter().find(|t| !protected.is_allowed(seen, t.id)) {
            return Err(refused(wanted, format!("{} belongs to another user; run as root", tenant.name)));
        }
        // A name may later match others as well, and tenants may be renamed.
        keys.extend(meant.iter().map(|t| t.key.clone()));
        keys.extend(given.is_none().then(|| wanted.clone()));
    }
    Ok(everyone.only(keys))
}

/// Whether a tenant may still appear under a name that nobody has now. That is possible only for the key of
/// an existing place, or of something whose name is known in advance, such as a container.
///
/// # Errors
/// Why not, and the remedy.
fn may_come(root: &Root, wanted: &str, named: fn(String) -> Named) -> Result<(), Error> {
    let asked = || named(wanted.to_owned());
    let absent = |why: &str| Err(Error::Absent { what: asked(), why: why.to_owned() });
    let nothing = || absent("nothing by that name runs here");
    let Some((kind, what)) = wanted.split_once(':') else { return nothing() };
    match kind {
        "cgroup" | "unit" => {
            let cgroups = Cgroups::discover(root)?;
            let is_there = |tree: &Tree| cgroups.id(tree, what).is_ok();
            match naming::of_cgroup(what) {
                _ if !cgroups.trees().iter().any(is_there) => {
                    absent("there is no such cgroup; make it first, or name another")
                }
                Some(named) if named.key != wanted => {
                    let why = format!("a process in that cgroup is `{}`; name that", named.key);
                    Err(Error::Refused { what: asked(), why })
                }
                Some(_) => Ok(()),
                None => absent("processes in that cgroup have names of their own; name those"),
            }
        }
        "pgid" => absent("there is no such process group"),
        "container" | "machine" | "lxc" | "pod" | "slurm" | "vm" => Ok(()),
        _ => nothing(),
    }
}

/// The tenant of a program that is no tenant by itself; `None` if nothing with that name runs.
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

/// The tenant that gets the windows of `dedicated` must exist as well.
///
/// # Errors
/// One sentence.
pub fn subject(root: &Root, subject: &str, seen: &Observation) -> Result<(), Error> {
    match seen.tenants.iter().any(|t| t.is_called(subject) && has_tasks(seen, t.id)) {
        true => Ok(()),
        false => may_come(root, subject, Named::Subject),
    }
}

/// Tenants given by a key that nobody has yet.
pub fn nobody_yet<'a>(tenants: &'a Tenants, seen: &'a Observation) -> impl Iterator<Item = &'a String> {
    let is_there = |wanted: &String| {
        pid(wanted).is_some() || seen.tenants.iter().any(|t| t.is_called(wanted) && has_tasks(seen, t.id))
    };
    tenants.named().iter().filter(move |wanted| !is_there(wanted))
}

/// Whether any task of a tenant is alive.
pub fn has_tasks(seen: &Observation, id: TenantId) -> bool {
    seen.tasks.iter().any(|t| t.tenant == id && t.alive)
}

/// The tenants that a name, a key or a PID stands for, among those with tasks; a key of a future tenant
/// stands for none.
///
/// # Errors
/// If it is the PID of nobody.
pub fn meant<'a>(wanted: &str, seen: &'a Observation) -> Result<Vec<&'a Tenant>, Error> {
    match pid(wanted) {
        Some(pid) => Ok(vec![of_process(pid, seen)?]),
        None => Ok(seen.tenants.iter().filter(|t| t.is_called(wanted) && has_tasks(seen, t.id)).collect()),
    }
}

/// Why a number names nobody for certain: it would be a PID, and a tenant of another process has it as its name.
fn other_of_that_name(wanted: &str, seen: &Observation) -> Option<String> {
    let pid = wanted.parse::<u32>().ok()?;
    let of_pid = of_process(pid, seen).ok().map(|t| t.id);
    let is_other = |t: &&Tenant| t.name == wanted && Some(t.id) != of_pid && has_tasks(seen, t.id);
    let other = seen.tenants.iter().find(is_other)?;
    Some(format!("that is a PID and the name of another tenant; give `pid:{pid}` or `{}`", other.key))
}

/// The tenant that a process belongs to.
fn of_process(pid: u32, seen: &Observation) -> Result<&Tenant, Error> {
    let task = seen.tasks.iter().find(|t| t.id.0 == pid && t.alive);
    // Its first thread may have ended before the others.
    let key = format!("pid:{pid}");
    let headless = || seen.tenants.iter().find(|t| t.key == key && has_tasks(seen, t.id));
    let nobody = || absent(&pid.to_string(), "there is no such process");
    task.and_then(|t| seen.tenant(t.tenant)).or_else(headless).ok_or_else(nobody)
}

/// How many tenants that a policy might touch belong to other users, if everybody may be controlled.
///
/// # Errors
/// Where that is all of them.
pub fn others_left_alone(protected: &Protected, seen: &Observation, scope: &Scope) -> Result<usize, Error> {
    let is_meant =
        |t: &&Tenant| scope.covers(t) && has_tasks(seen, t.id) && protected.why_not(seen, t).is_none();
    let meant = seen.tenants.iter().filter(is_meant);
    let (mine, others): (Vec<_>, Vec<_>) = meant.partition(|t| protected.is_allowed(seen, t.id));
    match (mine.len(), others.len()) {
        (0, 1..) => {
            let why = "nobody here may be controlled by this user; run as root".into();
            Err(Error::Refused { what: Named::Everybody, why })
        }
        (_, others) => Ok(others),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corun_model::TaskId;

    #[test]
    fn a_process_whose_first_thread_has_ended_is_still_its_tenant() {
        let tenant =
            Tenant { id: TenantId(4), kind: TenantKind::Command, key: "pid:70".into(), name: "job".into() };
        let task = |id, alive| TaskObservation {
            id: TaskId(id),
            name: "job".into(),
            tenant: TenantId(4),
            born_ns: 0,
            alive,
            last_cpu: None,
            account: Default::default(),
        };
        let of = |tasks| Observation { tenants: vec![tenant.clone()], tasks, ..Observation::default() };
        assert_eq!(of_process(70, &of(vec![task(70, false), task(71, true)])).unwrap().id, TenantId(4));
        assert!(of_process(70, &of(vec![task(70, false), task(71, false)])).is_err());
    }

    #[test]
    fn a_number_that_is_a_pid_and_the_name_of_another_tenant_names_nobody() {
        let tenant = |id, key: &str, name: &str| Tenant {
            id: TenantId(id),
            kind: TenantKind::Command,
            key: key.into(),
            name: name.into(),
        };
        let task = |id, tenant| TaskObservation {
            id: TaskId(id),
            name: "job".into(),
            tenant: TenantId(tenant),
            born_ns: 0,
            alive: true,
            last_cpu: None,
            account: Default::default(),
        };
        let of = |tenants, tasks| Observation { tenants, tasks, ..Observation::default() };
        let lxc = tenant(1, "cgroup:/101", "101");
        let (job, own) = (tenant(2, "pgid:101", "job"), tenant(2, "pgid:101", "101"));
        // The tenants, their tasks, what is given, and the remedy.
        let rows = [
            (vec![lxc.clone(), job.clone()], vec![task(70, 1), task(101, 2)], "101", Some("`cgroup:/101`")),
            (vec![lxc.clone()], vec![task(70, 1)], "101", Some("`cgroup:/101`")),
            (vec![lxc.clone(), job.clone()], vec![task(70, 1), task(101, 2)], "pid:101", None),
            (vec![lxc.clone(), job.clone()], vec![task(101, 2)], "101", None),
            (vec![own], vec![task(101, 2)], "101", None),
            (vec![lxc, job], vec![task(70, 1), task(101, 2)], "102", None),
        ];
        for (row, (tenants, tasks, wanted, remedy)) in rows.into_iter().enumerate() {
            let why = other_of_that_name(wanted, &of(tenants, tasks));
            assert_eq!(why.is_some(), remedy.is_some(), "row {row}: {why:?}");
            assert!(why.unwrap_or_default().contains(remedy.unwrap_or_default()), "row {row}");
        }
    }

    #[test]
    fn containers_that_may_be_parked_are_distinguished_from_pods_and_from_those_left_alone() {
        let tenant = |(id, kind, name): (u32, TenantKind, &str)| Tenant {
            id: TenantId(id),
            kind,
            key: name.into(),
            name: name.into(),
        };
        let all =
            [(1, TenantKind::Container, "web"), (2, TenantKind::Pod, "db"), (3, TenantKind::Container, "ci")];
        let seen = Observation { tenants: all.map(tenant).into(), ..Observation::default() };
        let parked = |covered: &[u32]| containers(&seen, &covered.iter().map(|id| TenantId(*id)).collect());
        assert_eq!(parked(&[1, 2]), ["web"]);
        assert!(parked(&[2]).is_empty());
    }
}
