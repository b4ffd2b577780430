//! What each task of a program does, in its own order: computing, waking others, waiting. A replay starts
//! from this form.

use corun_model::run_log::CpuMask;
use std::collections::BTreeMap;

/// A task's index among those of a run.
pub type Ix = usize;

/// A program as its tasks' scripts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ScriptedProgram {
    /// Every task.
    pub scripts: Vec<Script>,
    /// Those that exist at the beginning. They create the others.
    pub first: Vec<Ix>,
    /// The machine's CPUs at the beginning.
    pub cpus: CpuMask,
    /// CPUs that came or went later.
    pub switched: Vec<Switched>,
    /// When it began, on the clock of the budgets' periods, in nanoseconds.
    pub begin_ns: u64,
}

/// A CPU was switched on or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Switched {
    /// Its number.
    pub cpu: usize,
    /// On, or off.
    pub is_on: bool,
    /// It happened not before and not after these times since the beginning of the stretch, in nanoseconds.
    pub between_ns: [u64; 2],
}

/// A CPU budget: in every period, a program may run for this long, summed over CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Budget {
    /// How long, in nanoseconds.
    pub quota_ns: u64,
    /// The period, in nanoseconds.
    pub period_ns: u64,
    /// At which offset in a period it is refilled, in nanoseconds; `None`: not known.
    pub filled_ns: Option<u64>,
}

impl Budget {
    /// The share of time that it allows, on one CPU or several.
    pub fn share(&self) -> f64 {
        self.quota_ns as f64 / self.period_ns.max(1) as f64
    }

    /// The time from then until it is refilled next, in nanoseconds.
    pub fn filled_after_ns(&self, now_ns: u64) -> u64 {
        let period_ns = self.period_ns.max(1);
        let Some(filled_ns) = self.filled_ns else { return period_ns };
        period_ns - (now_ns % period_ns + period_ns - filled_ns % period_ns) % period_ns
    }
}

/// A task.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Script {
    /// The process that it belongs to.
    pub process: u32,
    /// Whether it is the first of its process.
    pub leads: bool,
    /// Where it may run at first. Empty: it never ran, so this is not known.
    pub may: CpuMask,
    /// The budgets that it has at first, from all groups that contain it. Tasks with budgets of the same
    /// size, refilled at the same time, share them.
    pub budgets: Vec<Budget>,
    /// The task whose end also ends this one, however far it has got. It delays only tasks that wait for it.
    pub ends_with: Option<Ix>,
    /// How long it waited for a CPU, in nanoseconds.
    pub wanted_ns: u64,
    /// Whether it may have been late for timers that the log does not show.
    pub may_be_late: bool,
    /// The part of its process's computing that no other thread took over, although one had nothing else to
    /// do, 0..=1.
    pub kept: f64,
    /// How much of its computing is spinning: at least, likely, at most. `None`: not known.
    pub spun: Option<[Spun; 3]>,
    /// For each of its waits for a futex, the address of that.
    pub futexes: BTreeMap<u32, u64>,
    /// What it does.
    pub ops: Vec<Op>,
}

/// The shares of a task's computing time in which it spins, 0..=1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spun {
    /// While another task of its process wants a CPU in vain.
    pub beside: f64,
    /// Otherwise.
    pub elsewhere: f64,
}

/// How much of the open part of computing counts as spinning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spinning {
    /// As little as possible.
    Least,
    /// As much as is likely.
    Likely,
    /// As much as possible.
    Most,
}

/// If spinning is not known, tasks compute. At most, they wait for a task that wants a CPU in vain.
const UNTOLD: [Spun; 3] = {
    let computes = Spun { beside: 0.0, elsewhere: 0.0 };
    [computes, computes, Spun { beside: 1.0, elsewhere: 0.0 }]
};

/// A step of a task.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// It computes for this long.
    Compute {
        /// How long, in nanoseconds.
        ns: u64,
        /// The part of it in which another task of its process wanted a CPU in vain. It may have spun,
        /// waiting for that task.
        beside_ns: u64,
        /// How long it waited for a CPU before, in nanoseconds.
        queued_ns: u64,
    },
    /// It ends that wait of another task.
    Wake(Ix, u32),
    /// It creates that task.
    Spawn(Ix),
    /// It waits until a task of the program has ended this wait of its own.
    Wait(u32),
    /// It waits for something else.
    Outside(Outside),
    /// It looks whether others have done enough.
    Looks(Look),
    /// It has done as much as it had when that wait of another task was over.
    Passes(Ix, u32),
    /// From now on it has another limit.
    Limit(Change),
}

/// Looks at what others have done, repeated until a wait of the task's own is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// That wait.
    pub wait: u32,
    /// How long it sleeps between two looks, in nanoseconds. It goes on at its first look after the wait
    /// ends; 0: at once.
    pub every_ns: u64,
    /// Whether it is likely to be a look, if that is uncertain. If it is none, the sleeps before it that [may
    /// have been looks](Outside::may_look) are none either. `None`: it is certain.
    pub may: Option<bool>,
}

/// Another limit of a task.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// The new limit.
    pub limit: Limit,
    /// When it was seen, since the beginning of the stretch, in nanoseconds.
    pub at_ns: u64,
    /// Who changed it; `None`: the log does not say.
    pub by: Option<By>,
}

/// Who changes a limit of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// Somebody else. In a solo run, the change comes at the same time, whatever the program has done by
    /// then.
    Others,
    /// The program, when it had done this much.
    Itself,
}

/// What limits the CPU time of a task.
#[derive(Clone, Debug, PartialEq)]
pub enum Limit {
    /// Where it may run.
    May(CpuMask),
    /// Its budgets.
    Budgets(Vec<Budget>),
}

/// A wait that no task of the program ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outside {
    /// How long it took, in nanoseconds. 0 if the task did not block, because the time was already over.
    pub lasted_ns: u64,
    /// When it was over, since the beginning of the replayed stretch, in nanoseconds.
    pub until_ns: u64,
    /// What decides when it is over.
    pub ends: Ends,
    /// Whether the task had set a time to sleep until, or a limit for its wait.
    pub is_sleep: bool,
    /// Whether it waited for something else, with that as the limit.
    pub is_limit: bool,
    /// The address of the futex that it waited for with that limit; 0: none.
    pub futex: u64,
    /// It may have been a look at what others had done, with no time of its own: whether that is likely.
    pub may_look: Option<bool>,
}

impl Outside {
    /// A sleep of this length that ended then, in nanoseconds, with nothing else known yet.
    pub fn sleep(lasted_ns: u64, until_ns: u64) -> Outside {
        let (ends, may_look) = (Ends::Either, None);
        Outside { lasted_ns, until_ns, ends, is_sleep: true, is_limit: false, futex: 0, may_look }
    }
}

/// What decides when a wait for something outside the program ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ends {
    /// A time, regardless of when the wait began.
    AtItsTime,
    /// A length: it ends this long after it began.
    AfterItsLength,
    /// One of the two; the log does not say which.
    Either,
}

/// How long steps compute, in nanoseconds.
pub(super) fn computes_ns(ops: &[Op]) -> u64 {
    ops.iter().map(|op| if let Op::Compute { ns, .. } = op { *ns } else { 0 }).sum()
}

impl Script {
    /// How long it computes, in nanoseconds.
    pub fn compute_ns(&self) -> u64 {
        computes_ns(&self.ops)
    }

    /// How much of a step that computes for this long is spinning, in nanoseconds. `beside_ns`: as in
    /// [`Op::Compute`].
    pub(super) fn spun_in(&self, ns: u64, beside_ns: u64, how: Spinning) -> u64 {
        let [least, likely, most] = self.spun.unwrap_or(UNTOLD);
        let Spun { beside, elsewhere } = match how {
            Spinning::Least => least,
            Spinning::Likely => likely,
            Spinning::Most => most,
        };
        let beside_ns = beside_ns.min(ns);
        let spun_ns = beside * beside_ns as f64 + elsewhere * (ns - beside_ns) as f64;
        (spun_ns as u64).min(ns)
    }

    /// How much of all its computing is spinning, in nanoseconds.
    pub fn spun_ns(&self, how: Spinning) -> u64 {
        let of = |op: &Op| match op {
            Op::Compute { ns, beside_ns, .. } => self.spun_in(*ns, *beside_ns, how),
            _ => 0,
        };
        self.ops.iter().map(of).sum()
    }
}

impl ScriptedProgram {
    /// The same program, but as if its tasks had been in time. If a task may have been late, what it did next
    /// was due only when it did it: instead of waiting for a CPU, it would have waited anyway. `None`: no
    /// task may have been late.
    pub(super) fn as_if_in_time(&self) -> Option<ScriptedProgram> {
        self.scripts.iter().any(|s| s.may_be_late).then(|| {
            let mut program = self.clone();
            for script in program.scripts.iter_mut().filter(|s| s.may_be_late) {
                script.ops = script.ops.iter().flat_map(due_when_done).collect();
            }
            program
        })
    }
}

/// A step, preceded by a wait as long as the task waited for a CPU.
fn due_when_done(op: &Op) -> impl Iterator<Item = Op> {
    let queued_ns = if let Op::Compute { queued_ns, .. } = op { *queued_ns } else { 0 };
    let wait = Outside { ends: Ends::AfterItsLength, ..Outside::sleep(queued_ns, 0) };
    (queued_ns > 0).then_some(Op::Outside(wait)).into_iter().chain([op.clone()])
}

/// No program takes more events: each step takes some, and so does each millisecond of its computing and
/// waiting.
pub(super) fn most_events(program: &ScriptedProgram) -> u64 {
    let of = |op: &Op| match op {
        Op::Compute { ns, .. } => 200 + ns / 250_000,
        Op::Outside(outside) => 200 + outside.lasted_ns / 250_000,
        _ => 200,
    };
    1_000_000 + program.scripts.iter().flat_map(|s| &s.ops).map(of).sum::<u64>()
}

/// Every budget that a task ever has.
pub(super) fn budgets_of(program: &ScriptedProgram) -> impl Iterator<Item = Budget> + '_ {
    fn later(op: &Op) -> &[Budget] {
        match op {
            Op::Limit(Change { limit: Limit::Budgets(budgets), .. }) => budgets,
            _ => &[],
        }
    }
    program.scripts.iter().flat_map(|s| s.budgets.iter().chain(s.ops.iter().flat_map(later))).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_refilled_at_its_time_in_every_period() {
        let of = |filled_ns| Budget { quota_ns: 6, period_ns: 20, filled_ns };
        let after = |filled_ns, now_ns| of(filled_ns).filled_after_ns(now_ns);
        assert_eq!((after(Some(7), 0), after(Some(7), 26), after(Some(7), 1_000)), (7, 1, 7));
        assert_eq!(after(Some(7), 47), 20, "it has just been");
        assert_eq!(after(None, 47), 20, "nobody knows");
    }
}
