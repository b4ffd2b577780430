//! Checks values that the types of a workload file allow, but that no program can have.

use super::bad_key::BadKey;
use super::flow::Flow;
use super::length::Length;
use super::program::{Command, Interference, Micro, MicroKind, Parallel, Pattern, Program, Sync};
use crate::duration::human_ns;

/// The most threads, so that a typing error does not ask for a million.
pub const MAX_THREADS: u32 = 10_000;
/// The most locks of a program: several for each of its threads.
pub const MAX_LOCKS: u32 = 100_000;

impl Program {
    /// Checks ranges that the types allow but no program can have.
    ///
    /// # Errors
    /// The key at fault and one sentence with the remedy.
    pub fn check(&self) -> Result<(), BadKey> {
        match self {
            Program::Interference(i) => check_interference(i),
            Program::Parallel(p) => check_parallel(p),
            Program::Micro(m) => check_micro(m),
            Program::Pdes(p) => {
                threads(p.threads)?;
                share("remote", p.remote)?;
                p.check()
            }
            Program::Command(c) => check_command(c),
        }
    }
}

type Check = Result<(), BadKey>;

/// The longest idle interval of interference: a thousand hours.
const MOST_IDLE_NS: u64 = 3_600_000_000_000_000;

fn threads(n: u32) -> Check {
    match n {
        0 => Err(BadKey::is("threads", 0, "; a program needs at least 1")),
        1..=MAX_THREADS => Ok(()),
        _ => Err(BadKey::is("threads", n, format!("; at most {MAX_THREADS} are allowed"))),
    }
}

fn share(key: &'static str, x: f64) -> Check {
    if (0.0..=1.0).contains(&x) {
        Ok(())
    } else {
        Err(BadKey::is(key, format!("{x:?}"), "; it is a share between 0 and 1"))
    }
}

fn check_interference(i: &Interference) -> Check {
    threads(i.threads)?;
    share("demand", i.demand)?;
    if i.pattern != Pattern::Persistent && i.demand == 0.0 {
        return Err(BadKey::is("demand", 0, ", so it would never run; give a share above 0"));
    }
    match i.pattern {
        Pattern::Periodic if i.busy == 0 => {
            Err(BadKey::is("busy", 0, "; give the length of a busy interval"))
        }
        Pattern::Intermittent if i.busy_min == 0 || i.busy_min > i.busy_max => {
            Err(BadKey::new("busy-min", "busy-min must be above 0 and at most busy-max"))
        }
        Pattern::Periodic => check_idle(i, i.busy),
        Pattern::Intermittent => check_idle(i, i.busy_max),
        Pattern::Persistent => Ok(()),
    }
}

/// An idle interval must not be longer than anyone would watch.
fn check_idle(i: &Interference, busy_ns: u64) -> Check {
    if i.idle_ns(busy_ns) <= MOST_IDLE_NS {
        return Ok(());
    }
    let (most, busy) = (human_ns(MOST_IDLE_NS), human_ns(busy_ns));
    let what = format!(", so it would be idle for more than {most} after {busy}; give a larger share");
    Err(BadKey::is("demand", format!("{:?}", i.demand), what))
}

fn check_parallel(p: &Parallel) -> Check {
    threads(p.threads)?;
    share("imbalance", p.imbalance)?;
    share("critical", p.critical)?;
    if p.grain == 0 {
        return Err(BadKey::is("grain", 0, "; give the work between two synchronizations, such as 1ms"));
    }
    let flow = Flow::of(p)?;
    check_shares(p, &flow)?;
    match p.sync {
        Sync::Lock if p.locks == 0 => Err(BadKey::is("locks", 0, "; give at least 1")),
        Sync::Lock if p.locks > MAX_LOCKS => {
            Err(BadKey::is("locks", p.locks, format!("; at most {MAX_LOCKS} are allowed")))
        }
        Sync::Pipeline if p.queue_depth == 0 => {
            Err(BadKey::is("queue-depth", 0, ", so no item could pass; give at least 1"))
        }
        _ => Ok(()),
    }
}

/// The largest factor of a thread's grain.
const MOST_SHARE: f64 = 1_000.0;

/// Shares are for threads that have their own grains, or for stages.
fn check_shares(p: &Parallel, flow: &Flow) -> Check {
    if p.shares.is_empty() {
        return Ok(());
    }
    let (lanes, what) = match p.sync {
        Sync::Barrier | Sync::Lock | Sync::None => (p.threads as usize, "threads"),
        Sync::Pipeline => (flow.stages() as usize, "stages"),
        Sync::Queue | Sync::Steal => {
            return Err(BadKey::new("shares", "shares are of threads that have grains of their own, which those of a queue have not; leave them out"));
        }
    };
    if p.shares.len() > lanes {
        let what = format!("shares has {} figures for {lanes} {what}; give one for each", p.shares.len());
        return Err(BadKey::new("shares", what));
    }
    match p.shares.iter().find(|x| !(**x > 0.0 && **x <= MOST_SHARE)) {
        Some(x) => {
            Err(BadKey::new("shares", format!("shares has {x:?}; give a number above 0, up to {MOST_SHARE}")))
        }
        None => Ok(()),
    }
}

fn check_command(c: &Command) -> Check {
    if c.argv.is_empty() {
        return Err(BadKey::new("argv", "argv is empty; give the program and its arguments"));
    }
    c.model.iter().try_for_each(check_parallel)?;
    if c.iterations == 1 {
        return Ok(());
    }
    let wrong = |what: &str| Err(BadKey::is("iterations", c.iterations, format!(", {what}")));
    match c.model.iter().position(|p| p.length() == Length::Endless) {
        _ if c.model.is_empty() => wrong("but there are no phases to go through; describe them as [[program.model]]"),
        Some(i) => wrong(&format!(
            "but phase {} never ends, so it is gone through once at most; give that phase iterations, or a duration",
            i + 1
        )),
        None => Ok(()),
    }
}

fn check_micro(m: &Micro) -> Check {
    threads(m.threads)?;
    match m.name {
        MicroKind::Hubench | MicroKind::Lubench if m.threads % 2 == 1 => {
            Err(BadKey::is("threads", m.threads, "; hubench and lubench share in pairs, give an even number"))
        }
        _ => Ok(()),
    }
}
