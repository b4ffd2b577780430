//! The sentence on top: who suffers most, from whom, and by how much.

use crate::fit::cut;
use crate::snapshot::{Holder, Row, Snapshot};
use corun_model::duration::human_ns;
use corun_model::{TakenBy, TenantKind};

/// Below this share of the time in which a tenant wanted a CPU (1 in 200), nothing counts as a disturbance.
const NOTABLE: u64 = 200;
/// Nor does anything shorter than this, per second.
const SHORT_NS: u64 = 1_000_000;
/// The most culprits in the sentence; those after the first only from 1 % of the wait on.
const NAMED: usize = 2;
/// Columns of a name in a sentence.
const NAME: usize = 24;

/// Who suffers most in a window, from whom, and by how much.
pub fn of_everybody(snapshot: &Snapshot) -> String {
    let victims = || snapshot.rows.iter().filter(|row| may_suffer(row.kind));
    let most = |of: fn(&Row) -> u64| victims().max_by_key(|row| of(row)).filter(|row| of(row) > 0);
    if let Some(row) = most(|row| row.lost.by_others_ns()).filter(|row| is_notable(snapshot, row, by_others))
    {
        // A tenant that waited for its own tasks may be meant if the occupants of the CPUs are unknown.
        let how = if row.lost.stolen_ns > 0 { "suffers" } else { "waits" };
        return format!("{} {how} most: it {}.", cut(&row.name, NAME), waited_for_others(snapshot, row));
    }
    let none = "Nobody takes CPU time from others that is worth a word";
    if let Some(row) = most(|row| row.lost.throttled_ns).filter(|row| is_notable(snapshot, row, throttled)) {
        let ns = human_ns(row.lost.throttled_ns);
        return format!("{none}; {} used up its own CPU budget and waited {ns}.", cut(&row.name, NAME));
    }
    if let Some(row) = most(|row| row.lost.own_ns).filter(|row| is_notable(snapshot, row, own)) {
        let ns = human_ns(row.lost.own_ns);
        return format!("{none}; {} waited {ns} for its own tasks.", cut(&row.name, NAME));
    }
    match most(|row| row.lost.total_ns()) {
        Some(row) => {
            let ns = human_ns(row.lost.total_ns());
            format!("{none}; {} waited longest for a CPU, {ns}.", cut(&row.name, NAME))
        }
        None => "Nobody waited for a CPU.".to_owned(),
    }
}

/// What one tenant lost in a window, and to whom.
pub fn of_tenant(snapshot: &Snapshot, row: &Row) -> String {
    let window = human_ns(snapshot.seen.window_ns());
    if row.lost.by_others_ns() > 0 && is_notable(snapshot, row, by_others) {
        return format!("It {}.", waited_for_others(snapshot, row));
    }
    let lost_ns = row.lost.total_ns();
    match (row.ran_ns, lost_ns) {
        (0, 0) => format!("It did not run in {window}, and did not want to."),
        (_, 0) => format!("It ran for {} in {window}, and waited for nobody.", human_ns(row.ran_ns)),
        _ => {
            let why = [
                (row.lost.throttled_ns, "most of it out of its own CPU budget"),
                (row.lost.own_ns, "most of it for its own tasks"),
                (row.lost.idle_ns, "most of it waking up on an idle CPU"),
                (row.lost.kernel_ns, "most of it for the kernel or corun"),
                (row.lost.stolen_ns, "most of it for others"),
                (row.lost.unknown_ns, "most of it for an unknown tenant"),
                (row.lost.parked_ns, "most of it parked by corun"),
            ];
            let (_, why) = why.into_iter().max_by_key(|(ns, _)| *ns).expect("there are seven");
            format!("It waited {} for a CPU in {window}, {why}.", human_ns(lost_ns))
        }
    }
}

fn waited_for_others(snapshot: &Snapshot, row: &Row) -> String {
    let ns = row.lost.by_others_ns();
    let share = percent(ns, row.ran_ns + row.lost.total_ns());
    let window = human_ns(snapshot.seen.window_ns());
    let whom = if row.lost.stolen_ns > 0 { "others" } else { "a CPU" };
    let waited =
        format!("waited {} for {whom} in {window}, {share} % of the time it wanted a CPU", human_ns(ns));
    format!("{waited}; {}", who(snapshot, row))
}

/// Who took it, as a clause.
fn who(snapshot: &Snapshot, row: &Row) -> String {
    let account = snapshot.account(row.id).cloned().unwrap_or_default();
    let is_other = |holder: &Holder| match holder {
        Holder::Tenant(id) => snapshot.taken_by(row.id, *id) == TakenBy::CoRunner,
        _ => false,
    };
    let others: Vec<(Holder, u64)> =
        snapshot.holders(row.id, &account).into_iter().filter(|(holder, _)| is_other(holder)).collect();
    let Some((first, first_ns)) = others.first() else {
        return "who held the CPU is not known".to_owned();
    };
    let mut said = format!("{} took {} of it", cut(snapshot.called(*first), NAME), human_ns(*first_ns));
    for (holder, ns) in
        others.iter().take(NAMED).skip(1).filter(|(_, ns)| ns * 100 >= row.lost.by_others_ns())
    {
        said += &format!(", {} {}", cut(snapshot.called(*holder), NAME), human_ns(*ns));
    }
    said
}

/// Whether it matters that tenants of this kind wait: not for the kernel's threads, nor for corun.
fn may_suffer(kind: TenantKind) -> bool {
    kind.is_co_runner()
}

fn by_others(row: &Row) -> u64 {
    row.lost.by_others_ns()
}

fn throttled(row: &Row) -> u64 {
    row.lost.throttled_ns
}

fn own(row: &Row) -> u64 {
    row.lost.own_ns
}

fn is_notable(snapshot: &Snapshot, row: &Row, of: fn(&Row) -> u64) -> bool {
    let (ns, wanted_ns) = (of(row), row.ran_ns + row.lost.total_ns());
    let long_ns = SHORT_NS * snapshot.seen.window_ns() / 1_000_000_000;
    ns.saturating_mul(NOTABLE) >= wanted_ns && ns > long_ns
}

/// A share in percent, without the sign; never a bare 0 for something.
pub fn percent(part: u64, whole: u64) -> String {
    match part as f64 * 100.0 / whole.max(1) as f64 {
        _ if part == 0 => "0".to_owned(),
        p if p < 0.05 => "<0.1".to_owned(),
        p if p < 9.95 => format!("{p:.1}"),
        p => format!("{p:.0}"),
    }
}
