//! The answer in a sentence: how much slower, by what, by whom.
//!
//! Two measures. The loss of wall time is what users wait for, by the same definition as in `verify` and
//! `predict` ([`corun_predict::loss`]). The waiting of tasks relative to their computing shows where it went:
//! `(steal + throttled + parked + spin) / compute`. Spin counts only if it was measured. Blocked time is
//! left out of it: a server that waits for requests is not slow. So is time in which somebody stopped or
//! froze the subject; the sentence reports that first, as a share of its time. If spinning was not measured,
//! it is inside compute, so the measure is a lower bound, and the sentence says so. This measure is no
//! slowdown: tasks wait in parallel, and time stolen from a script that mostly sleeps is a small part of its
//! time. If a program mostly waits for somebody else's work, as a thin client does, that is reported last.

use crate::names::Names;
use crate::outside::Outside;
use crate::profile::schema::{Account, Culprit, Ledger, LostTime, ProfileReport};
use crate::words::{between, count, name, percent, share, spared, MOSTLY, SMALL};
use corun_model::duration::human_ns;
use corun_model::{Taken, TakenBy};
use std::collections::BTreeMap;

/// The cause of throttled time. The sentence does not say who used up the budget: the cgroup may contain
/// others.
const THROTTLED: &str = "throttled by the CPU budget that it is under (a quota, or real-time runtime)";
/// Why tasks wait for each other although they may use other CPUs.
const ISOLATED: &str =
    "these are isolated, and the kernel moves no task between isolated CPUs; pin each to one";
/// Below this share of compute (1 in 200), nothing counts as a disturbance.
const NOTABLE: u64 = 200;
/// From this share of its time on (1 in 100), being stopped or frozen gets a sentence.
const HELD: u64 = 100;
/// The most culprits in the sentence; those after the first only from 1 % of compute on.
const NAMED: usize = 3;

/// What other tenants of one name took: ten compilers are one entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StolenBy {
    /// Their name.
    pub name: String,
    /// Their numbers in the report.
    pub tenants: Vec<u32>,
    /// How much all of them took.
    pub ns: u64,
}

/// Where a subject's lost time went, each part in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// StolenBy by other tenants, largest first.
    pub stolen: Vec<StolenBy>,
    /// StolenBy by its own other tasks.
    pub own_ns: u64,
    /// Waiting on a CPU that was idle: the latency of a wake-up.
    pub idle_ns: u64,
    /// StolenBy by the kernel's own threads: also separate.
    pub kernel_ns: u64,
    /// StolenBy by corun itself: the cost of watching.
    pub watcher_ns: u64,
    /// StolenBy by unknown tenants.
    pub unattributed_ns: u64,
    /// Out of its own CPU budget.
    pub throttled_ns: u64,
    /// Stopped by corun.
    pub parked_ns: u64,
    /// Spinning; 0 also if it was not measured.
    pub spin_ns: u64,
}

impl Lost {
    /// Splits an account's lost time by cause.
    pub fn of(a: &Account) -> Lost {
        let mut taken = Taken { unattributed_ns: a.unattributed_ns, ..Taken::default() };
        a.culprits.iter().for_each(|c| taken.add(c.taken_by(), c.steal_ns));
        Lost {
            stolen: by_name(a.culprits.iter().filter(|c| c.taken_by() == TakenBy::CoRunner)),
            own_ns: taken.own_ns,
            idle_ns: taken.idle_ns,
            kernel_ns: taken.kernel_ns,
            watcher_ns: taken.watcher_ns,
            unattributed_ns: taken.unattributed_ns,
            throttled_ns: a.ledger.throttled_ns,
            parked_ns: a.ledger.parked_ns,
            spin_ns: a.ledger.spin_ns.unwrap_or(0),
        }
    }

    /// StolenBy by other tenants.
    pub fn stolen_ns(&self) -> u64 {
        self.stolen.iter().map(|taken| taken.ns).sum()
    }

    /// All of it.
    pub fn total_ns(&self) -> u64 {
        self.stolen_ns()
            + self.own_ns
            + self.idle_ns
            + self.kernel_ns
            + self.watcher_ns
            + self.unattributed_ns
            + self.throttled_ns
            + self.parked_ns
            + self.spin_ns
    }
}

fn by_name<'a>(culprits: impl Iterator<Item = &'a Culprit>) -> Vec<StolenBy> {
    let mut sums: BTreeMap<&str, StolenBy> = BTreeMap::new();
    for c in culprits {
        let name = &c.tenant.name;
        let none = || StolenBy { name: name.clone(), tenants: Vec::new(), ns: 0 };
        let taken = sums.entry(name).or_insert_with(none);
        taken.tenants.push(c.tenant.id);
        taken.ns += c.steal_ns;
    }
    let mut sums: Vec<StolenBy> = sums.into_values().collect();
    sums.sort_by_key(|taken| std::cmp::Reverse(taken.ns));
    sums
}

/// The answer in two parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// How much it lost, or that it lost nothing: "Lost 12 % of its 5.20 s to others; waited 31 % of its
    /// compute time".
    pub verdict: String,
    /// The causes and culprits, largest first, each in percent of the base of the verdict: "24 % stolen
    /// (postgres 20, cc1 4.0)".
    pub causes: Vec<String>,
}

/// The answer as one sentence, or more if the first alone would mislead: somebody stopped the subject, or it
/// waits for others.
pub fn headline(report: &ProfileReport) -> String {
    let Answer { verdict, causes } = answer(report);
    let said =
        if causes.is_empty() { format!("{verdict}.") } else { format!("{verdict}: {}.", causes.join(", ")) };
    match for_outside(report) {
        Some(it) => format!("{said} {}.", capital(&it)),
        None => said,
    }
}

/// The answer. If somebody stopped or froze the subject for 1 % of its time or more, that comes first.
pub fn answer(report: &ProfileReport) -> Answer {
    let ran = answer_of_the_rest(report);
    match held(&report.subject.account.ledger).filter(|_| !is_all(report)) {
        Some(held) => {
            let rest = match undisturbed_but(report) {
                Some(rest) => format!("Otherwise {rest}"),
                None => ran.verdict,
            };
            Answer { verdict: format!("{held}. {rest}"), ..ran }
        }
        None => ran,
    }
}

/// A note that it waited for somebody else's work for most of the window. If several of its tasks slept
/// meanwhile, the stated share is lower than the real one.
fn for_outside(report: &ProfileReport) -> Option<String> {
    let Account { ledger, block, .. } = &report.subject.account;
    let block = block.filter(|_| !is_all(report))?;
    let awake_ns = ledger.total_ns.saturating_sub(ledger.block_ns);
    let outside_ns = block.reasons().waited_outside_ns(report.window_ns, awake_ns);
    let share = Some(outside_ns as f64 / report.window_ns.max(1) as f64);
    Outside { share, servers: report.servers.as_deref(), wall_ns: report.window_ns }.said(MOSTLY)
}

/// Who kept it from running regardless of its wishes, and for how much of its time.
fn held(l: &Ledger) -> Option<String> {
    let (stopped_ns, frozen_ns) = (l.stopped_ns.unwrap_or(0), l.frozen_ns.unwrap_or(0));
    let parts = [
        (stopped_ns, "stopped by a signal or a debugger"),
        (frozen_ns, "frozen with its cgroup or the whole system"),
    ];
    let said: Vec<String> = parts
        .into_iter()
        .filter(|&(ns, _)| ns > 0 && ns.saturating_mul(HELD) >= l.total_ns)
        .map(|(ns, how)| format!("{how} for {} % of its time", percent(ns, l.total_ns)))
        .collect();
    (!said.is_empty()).then(|| capital(&said.join(", and ")))
}

/// Of the time in which nobody stopped it.
fn answer_of_the_rest(report: &ProfileReport) -> Answer {
    let account = &report.subject.account;
    let compute_ns = account.ledger.compute_ns;
    let lost = Lost::of(account);
    let alone = |verdict: String| Answer { verdict, causes: Vec::new() };
    if account.ledger.total_ns == 0 {
        return alone(format!("{} had no task in this window", name(&report.subject.tenant.name, 40)));
    }
    if compute_ns == 0 {
        return never_ran(report, &lost);
    }
    let notable = |ns: u64| ns.saturating_mul(NOTABLE) >= compute_ns;
    let of_wall = loss_of_wall(report);
    let is_loss = of_wall.is_some_and(|lost| lost.share[1] >= SMALL);
    if !is_disturbed(report, &lost) {
        return alone(undisturbed(report, &lost));
    }
    if is_all(report) {
        let share = percent(lost.total_ns(), compute_ns);
        return Answer {
            verdict: format!("All tasks together waited {share} % as long as they ran"),
            causes: causes(report, &lost, compute_ns),
        };
    }
    let base = Base::of(&lost, compute_ns);
    let waited = waited(&lost, base, account.ledger.spin_ns.is_some());
    let by_itself = !notable(lost.stolen_ns() + lost.unattributed_ns) && !is_loss;
    let verdict = match of_wall.as_ref().map(|lost| lost_of_wall(lost, report)) {
        _ if by_itself => format!("{}; it {waited}", no_neighbour(report, &lost)),
        Some(lost) if is_loss => format!("{lost}; {waited}"),
        Some(lost) => format!("{lost}, though it {waited}"),
        None => capital(&waited),
    };
    Answer { verdict, causes: causes(report, &lost, base.ns) }
}

/// The loss of wall time, if it is known. If much of the subject was not looked at, only the most is known.
fn loss_of_wall(report: &ProfileReport) -> Option<LostTime> {
    let lost = report.lost.filter(|lost| lost.wall_ns > 0 && lost.share.iter().all(|x| x.is_finite()))?;
    let [least, likely, most] = lost.share;
    Some(match is_half_seen(report) {
        true => LostTime { share: [least, most, most], spare: lost.spare + most - likely, ..lost },
        false => lost,
    })
}

/// Whether tasks too short-lived to look at used so much CPU time that what they waited may matter.
fn is_half_seen(report: &ProfileReport) -> bool {
    report.loss.unseen_ns.saturating_mul(NOTABLE) > report.window_ns
}

/// Whether it waited for so long, or lost so much, that it matters.
fn is_disturbed(report: &ProfileReport, lost: &Lost) -> bool {
    let is_loss = loss_of_wall(report).is_some_and(|lost| lost.share[1] >= SMALL);
    is_loss || lost.total_ns().saturating_mul(NOTABLE) >= report.subject.account.ledger.compute_ns
}

/// The base of the waiting share: the time computing or, if it waited for longer than that, the sum of both.
#[derive(Clone, Copy)]
struct Base {
    ns: u64,
    name: &'static str,
}

impl Base {
    fn of(lost: &Lost, compute_ns: u64) -> Base {
        match lost.total_ns() {
            lost_ns if lost_ns > compute_ns => {
                Base { ns: compute_ns + lost_ns, name: "the time in which it wanted a CPU" }
            }
            _ => Base { ns: compute_ns, name: "its compute time" },
        }
    }
}

/// Whether tasks may have spun unseen while they waited for each other: then the loss may be higher than
/// reported.
fn may_have_spun(report: &ProfileReport) -> bool {
    report.subject.account.ledger.spin_ns.is_none() && report.subject.task_count > 1
}

/// The loss of wall time: what users wait for.
fn lost_of_wall(lost: &LostTime, report: &ProfileReport) -> String {
    let wall = human_ns(lost.wall_ns);
    let (likely, spare) = (lost.share[1], lost.spare);
    if likely < SMALL {
        format!("Lost almost none of its {wall} to others")
    } else if spare > likely / 2.0 {
        let why = match is_half_seen(report) {
            true => {
                "and nobody knows how long those of its commands waited that were too short-lived to look at"
                    .into()
            }
            false => format!("since {}", spared(spare, lost.stopped_anyway)),
        };
        format!("Lost {} of its {wall} to others, {why}", between(likely - spare, likely))
    } else {
        let bound = if may_have_spun(report) { "at least " } else { "" };
        format!("Lost {bound}{} % of its {wall} to others", share(likely))
    }
}

/// Whether the subject is every tenant together: then nobody is a neighbor.
pub(crate) fn is_all(report: &ProfileReport) -> bool {
    report.subject.tenant.kind == "all"
}

fn waited(lost: &Lost, Base { ns, name }: Base, is_spin_known: bool) -> String {
    let share = percent(lost.total_ns(), ns);
    if is_spin_known {
        format!("waited {share} % of {name}")
    } else {
        format!("waited at least {share} % of {name}, spinning not counted")
    }
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |c| c.to_uppercase().chain(chars).collect())
}

fn undisturbed(report: &ProfileReport, lost: &Lost) -> String {
    let share = percent(lost.total_ns(), report.subject.account.ledger.compute_ns);
    let is_none = lost.total_ns() == 0;
    if is_all(report) {
        return match is_none {
            true => "No task waited for a CPU".to_owned(),
            false => format!("All tasks together waited {share} % as long as they ran, too little to matter"),
        };
    }
    match undisturbed_but(report) {
        Some(how) => format!("Undisturbed: {how}"),
        None => no_neighbour(report, lost),
    }
}

/// How little a subject that ran was disturbed, as a clause; `None` if the disturbance matters, or not
/// everything that might have disturbed was seen.
fn undisturbed_but(report: &ProfileReport) -> Option<String> {
    let account = &report.subject.account;
    let (compute_ns, lost) = (account.ledger.compute_ns, Lost::of(account));
    if compute_ns == 0 || is_disturbed(report, &lost) || !is_all_seen(report) {
        return None;
    }
    Some(match lost.total_ns() {
        0 => "nobody took its CPU".to_owned(),
        ns => format!("it waited {} % of its compute time, too little to matter", percent(ns, compute_ns)),
    })
}

/// Whether the report shows everything that might have disturbed: the hypervisor took almost nothing, and the
/// kernel showed the subject's time.
fn is_all_seen(report: &ProfileReport) -> bool {
    host_steal(report).is_none() && unknown(&report.subject.account.ledger).is_none()
}

/// A statement that no neighbor is the cause, as far as that is certain.
fn no_neighbour(report: &ProfileReport, lost: &Lost) -> String {
    let what = match lost.stolen_ns() + lost.unattributed_ns {
        0 => "its CPU",
        _ => "much of its CPU time",
    };
    match () {
        () if host_steal(report).is_some() => {
            format!("No neighbor on this machine took {what}, but the hypervisor may have")
        }
        () if unknown(&report.subject.account.ledger).is_some() => {
            format!("As far as corun could see, no neighbor took {what}")
        }
        () => format!("No neighbor took {what}"),
    }
}

/// What the hypervisor took, if it is notable: its time, and that of all CPUs.
fn host_steal(report: &ProfileReport) -> Option<(u64, u64)> {
    let capacity_ns = report.window_ns.saturating_mul(report.cpus).max(1);
    let ns = report.machine.host_steal_ns.filter(|ns| ns.saturating_mul(NOTABLE) >= capacity_ns)?;
    Some((ns.min(capacity_ns), capacity_ns))
}

/// Time that the kernel did not show, if it is notable.
fn unknown(ledger: &Ledger) -> Option<u64> {
    Some(ledger.unknown_ns).filter(|ns| *ns > 0 && ns.saturating_mul(NOTABLE) >= ledger.total_ns)
}

fn never_ran(report: &ProfileReport, lost: &Lost) -> Answer {
    let total_ns = report.subject.account.ledger.total_ns;
    if lost.total_ns() == 0 {
        let ledger = &report.subject.account.ledger;
        let verdict = match ledger.held_ns() {
            _ if ledger.unknown_ns > ledger.block_ns => {
                "Whether it ran is not known: the kernel did not show its time"
            }
            _ if unknown(ledger).is_some() => {
                "As far as corun could see, it did not run and did not want to: it was blocked"
            }
            0 => "It did not run and did not want to: it was blocked all the time",
            _ if ledger.block_ns == 0 => "It did not run at all",
            _ => "It did not run and did not want to: it was blocked the rest of the time",
        };
        let verdict = verdict.to_owned();
        return Answer { verdict, causes: Vec::new() };
    }
    Answer {
        verdict: format!(
            "It did not run at all, though it wanted to for {} % of its time",
            percent(lost.total_ns(), total_ns)
        ),
        causes: causes(report, lost, total_ns),
    }
}

/// The causes that matter, largest first, each with its percent of `base_ns`.
fn causes(report: &ProfileReport, lost: &Lost, base_ns: u64) -> Vec<String> {
    let pc = |ns| percent(ns, base_ns);
    let blind = lost.stolen.is_empty() && lost.own_ns + lost.idle_ns + lost.kernel_ns + lost.watcher_ns == 0;
    let unattributed =
        if blind { "waiting for a CPU; who held it is not known" } else { "taken by an unknown tenant" };
    let stolen = if is_all(report) { "for a CPU that was held" } else { "stolen" };
    let mut causes = [
        (lost.stolen_ns(), format!("{stolen} ({})", culprits(report, &lost.stolen, base_ns))),
        (lost.own_ns, own(report, lost.own_ns)),
        (lost.idle_ns, "waking up on an idle CPU".to_owned()),
        (lost.kernel_ns, "kernel".to_owned()),
        (lost.watcher_ns, "corun itself".to_owned()),
        (lost.unattributed_ns, unattributed.to_owned()),
        (lost.throttled_ns, THROTTLED.to_owned()),
        (lost.parked_ns, "parked by corun".to_owned()),
        (lost.spin_ns, "spinning".to_owned()),
    ];
    causes.sort_by_key(|(ns, _)| std::cmp::Reverse(*ns));
    let largest = causes[0].0;
    let worth_a_word = |ns: u64| ns == largest || ns.saturating_mul(NOTABLE) >= base_ns;
    causes
        .iter()
        .filter(|(ns, _)| *ns > 0 && worth_a_word(*ns))
        .map(|(ns, what)| format!("{} % {what}", pc(*ns)))
        .collect()
}

/// What its own tasks took from each other, and why they did although there were enough CPUs.
fn own(report: &ProfileReport, own_ns: u64) -> String {
    // There may have been thousands of tasks, but few at a time, and those that are blocked need no CPU.
    let ledger = &report.subject.account.ledger;
    let wanted_ns = ledger.on_cpu_ns() + ledger.steal_ns;
    let wanted = (wanted_ns + report.window_ns / 2) / report.window_ns.max(1);
    let may_use = report.allowed_cpus.unwrap_or(report.cpus);
    if wanted <= may_use {
        let idle_ns: u64 = report.machine.per_cpu.iter().map(|cpu| cpu.idle_ns).sum();
        let is_long = own_ns > report.window_ns / 5;
        let may_use_them = may_use >= report.cpus && !is_all(report);
        let why = match (is_long && idle_ns > own_ns / 2, report.isolated) {
            (true, Some(true)) => format!(" (while CPUs idled: {ISOLATED})"),
            (true, Some(false)) if may_use_them => {
                " (while CPUs idled: its tasks may be pinned to one, or in a cpuset without `sched_load_balance`)".into()
            }
            (true, None) if may_use_them => {
                " (while CPUs idled: its tasks may be pinned to one, or the kernel does not balance its CPUs, as with `isolcpus`)".into()
            }
            _ => String::new(),
        };
        return format!("waiting for its own tasks{why}");
    }
    let on = if report.isolated == Some(true) {
        format!("{}: {ISOLATED}", count(may_use, "CPU"))
    } else if may_use < report.cpus {
        format!("the {} that they may use", count(may_use, "CPU"))
    } else {
        count(report.cpus, "CPU")
    };
    format!("waiting for its own tasks ({wanted} at a time on {on})")
}

fn culprits(report: &ProfileReport, stolen: &[StolenBy], base_ns: u64) -> String {
    let names = Names::of(report);
    let who = |taken: &StolenBy| match taken.tenants[..] {
        [one] => names.within(one, 24),
        _ => format!("{} named {}", taken.tenants.len(), name(&taken.name, 24)),
    };
    let named = stolen.iter().take(NAMED).skip(1).filter(|taken| taken.ns * 100 >= base_ns).count() + 1;
    let mut said: Vec<String> = stolen
        .iter()
        .take(named)
        .map(|taken| format!("{} {}", who(taken), percent(taken.ns, base_ns)))
        .collect();
    let rest = || stolen.iter().skip(named);
    let rest_ns: u64 = rest().map(|taken| taken.ns).sum();
    if rest_ns > 0 {
        let tenants: usize = rest().map(|taken| taken.tenants.len()).sum();
        said.push(format!("{tenants} more {}", percent(rest_ns, base_ns)));
    }
    said.join(", ")
}

/// Further facts that a reader needs before believing the headline, worst first; usually empty.
pub fn cautions(report: &ProfileReport) -> Vec<String> {
    let mut said = report.notes.clone();
    if let Some((ns, capacity_ns)) = host_steal(report) {
        said.push(format!(
            "The hypervisor below kept {} % of this machine's CPU time for others; it is counted as compute.",
            percent(ns, capacity_ns)
        ));
    }
    let ledger = &report.subject.account.ledger;
    if let Some(unknown_ns) = unknown(ledger) {
        let share = percent(unknown_ns, ledger.total_ns);
        said.push(format!("{share} % of its time was not shown by the kernel (unknown)."));
    }
    if report.loss.events > 0 {
        let lost = count(report.loss.events, "event");
        said.push(format!("{lost} found no room and are missing from these numbers."));
    }
    if report.loss.untracked_tasks > 0 {
        let lost = count(report.loss.untracked_tasks, "task");
        said.push(format!("{lost} could not be followed: the table of tasks was full."));
    }
    said
}
