//! The conditions for every report, and for a task in it whose truth is known.

use super::quarry::{Sample, PERIOD};
use serde_json::Value;

fn ns(v: &Value, key: &str) -> u64 {
    v[key].as_u64().unwrap_or(0)
}

/// The inexact sums of a profile.
pub fn adds_up(report: &Value) -> Vec<String> {
    let mut wrong = Vec::new();
    if ns(report, "window_ns") == 0 || !report["subject"]["ledger"].is_object() {
        wrong.push(format!("no ledger of the subject: {}", report["subject"]));
    }
    let mut same = |what: &str, is: u64, of: u64, where_: &Value| {
        if is != of {
            wrong.push(format!("{what}: {is}, not {of}, of {where_}"));
        }
    };
    let empty = Vec::new();
    let list = |key: &str| report[key].as_array().unwrap_or(&empty);
    for account in
        [&report["subject"]].into_iter().chain(list("tasks")).chain(list("tenants")).chain(list("others"))
    {
        let ledger = &account["ledger"];
        let parts = ledger.as_object().into_iter().flatten().filter(|(part, _)| *part != "total_ns");
        same("parts", parts.map(|(_, v)| v.as_u64().unwrap_or(0)).sum(), ns(ledger, "total_ns"), ledger);
        if let Some(culprits) = account["culprits"].as_array() {
            let named: u64 = culprits.iter().map(|c| ns(c, "steal_ns")).sum();
            same(
                "culprits",
                named + ns(account, "unattributed_ns"),
                ns(ledger, "steal_ns"),
                &account["culprits"],
            );
        }
        if let Some(block) = account["block"].as_object() {
            same(
                "reasons",
                block.values().filter_map(Value::as_u64).sum(),
                ns(ledger, "block_ns"),
                &account["block"],
            );
        }
        if account.get("lifetime_ns").is_some() {
            same("lifetime", ns(ledger, "total_ns"), ns(account, "lifetime_ns"), account);
        }
    }
    for cpu in report["machine"]["per_cpu"].as_array().unwrap_or(&empty) {
        let sum = ns(cpu, "idle_ns") + ns(cpu, "busy_ns") + ns(cpu, "unknown_ns");
        same("a CPU", sum, ns(report, "window_ns"), cpu);
    }
    wrong
}

/// Times between two samples are known to be at least `.0` and at most `.1`, in ns.
type Bounds = (u64, u64);

/// How long this obstacle to a task holds between `from` and `to`. At least: it holds at both ends of a step
/// in which the task got no CPU. At most: it holds at one end.
fn lasts(samples: &[Sample], from: u64, to: u64, holds: impl Fn(&Sample) -> bool) -> Bounds {
    let mut bounds = (0, 0);
    for step in samples.windows(2) {
        let inside = step[1].at_ns.min(to).saturating_sub(step[0].at_ns.max(from));
        let ends = [holds(&step[0]), holds(&step[1])];
        bounds.0 += if ends == [true, true] && step[0].runs == step[1].runs { inside } else { 0 };
        bounds.1 += if ends[0] || ends[1] { inside } else { 0 };
    }
    bounds
}

/// A stretch of time in which a task was throttled. The kernel counts it when it ends, as a whole.
struct Stretch {
    lasted_ns: u64,
    /// The two samples between which it ended.
    ended: (u64, u64),
}

impl Stretch {
    /// All stretches that are counted in the samples. The queues of two CPUs may end theirs in one step.
    fn all(samples: &[Sample]) -> impl Iterator<Item = Stretch> + '_ {
        let steps = samples.windows(2).filter(|s| s[1].throttled_ns > s[0].throttled_ns);
        steps.map(|s| Stretch {
            lasted_ns: s[1].throttled_ns - s[0].throttled_ns,
            ended: (s[0].at_ns, s[1].at_ns),
        })
    }

    /// How much of it lies between `from` and `to`.
    fn inside(&self, from: u64, to: u64) -> Bounds {
        let (first, last) = self.ended;
        let of = |end: u64| end.min(to).saturating_sub(end.saturating_sub(self.lasted_ns).max(from));
        // As a function of its end it is a trapezium: greatest where the end meets an edge, least at an end
        // of the step.
        let turns = [first, last, to.clamp(first, last), (from + self.lasted_ns).clamp(first, last)];
        let all = turns.map(of);
        (all.into_iter().min().unwrap_or(0), all.into_iter().max().unwrap_or(0))
    }
}

/// How long the task was throttled between `from` and `to`. A stretch may last longer than a period, since a
/// task can overdraw its quota until the next tick. So a stretch that began before `to` may still go on at
/// the last sample, unless the quota was lifted meanwhile, which ends it.
fn throttled(samples: &[Sample], from: u64, to: u64) -> Bounds {
    let known = Stretch::all(samples).map(|s| s.inside(from, to)).fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1));
    let is_limited = samples.iter().filter(|s| s.at_ns >= to).all(|s| s.is_limited);
    let goes_on = is_limited && Stretch::all(samples).all(|s| s.ended.0 <= to);
    let last = Stretch::all(samples).last().filter(|_| goes_on);
    (known.0, known.1 + last.map_or(0, |s| to - s.ended.0))
}

/// Compares a task's ledger with the witness's observations and the kernel's counts. `false` if the witness
/// could not run.
///
/// # Errors
/// The errors.
pub fn compare(report: &Value, pid: u32, samples: &[Sample]) -> Result<bool, String> {
    let (from, window) = (ns(report, "start_ns"), ns(report, "window_ns"));
    let to = from + window;
    let period = PERIOD.as_nanos() as u64;
    let Some(task) = report["tasks"].as_array().and_then(|all| all.iter().find(|t| t["tid"] == pid)) else {
        return Err("it is not in the report".into());
    };
    let is_seen = samples.first().is_some_and(|s| s.at_ns <= from)
        && samples.last().is_some_and(|s| s.at_ns >= to + period)
        && samples.windows(2).all(|s| s[1].at_ns - s[0].at_ns < period);
    if !is_seen {
        return Ok(false);
    }
    let ledger = &task["ledger"];
    let life = ns(ledger, "total_ns");
    if life + window / 50 < window {
        return Err(format!("it lived all the time, not {life} of {window} ns"));
    }
    let slack = 10_000_000 + window / 100;
    let is_within = |what: &str, is: u64, (least, most): Bounds| {
        if is + slack < least || is > most + slack {
            return Err(format!("{what} for {is} ns, not {least} to {most}, of {window}: {ledger}"));
        }
        Ok(())
    };
    let held = lasts(samples, from, to, |s| s.is_stopped || s.is_frozen);
    is_within("held", ns(ledger, "stopped_ns") + ns(ledger, "frozen_ns"), held)?;
    if lasts(samples, from, to, |s| s.is_both).1 == 0 {
        is_within("stopped", ns(ledger, "stopped_ns"), lasts(samples, from, to, |s| s.is_stopped))?;
        is_within("frozen", ns(ledger, "frozen_ns"), lasts(samples, from, to, |s| s.is_frozen))?;
    }
    // A task that is moved to another CPU while its quota is used up waits in a queue that the quota has not
    // stopped. The kernel keeps counting for the queue that it left (ARCHITECTURE, known limits).
    let moves = |at: u64| samples.iter().rfind(|s| s.at_ns <= at).map(|s| s.moves);
    let is_moved = moves(from.saturating_sub(period)) != moves(to + period);
    let throttled = throttled(samples, from, to);
    let throttled = (if is_moved { 0 } else { throttled.0 }, throttled.1);
    is_within("throttled", ns(ledger, "throttled_ns"), throttled).map_err(|wrong| {
        let ms = |at: u64| (at as i64 - from as i64) / 1_000_000;
        let known =
            Stretch::all(samples).filter(|s| s.ended.1 > from && s.ended.0.saturating_sub(s.lasted_ns) < to);
        let known = known.map(|s| format!("{} until {}", s.lasted_ns / 1_000_000, ms(s.ended.1)));
        format!("{wrong}; counted, ms: {}", known.collect::<Vec<_>>().join(", "))
    })?;
    let most = life.saturating_sub(held.0 + throttled.0);
    is_within("stolen", ns(ledger, "steal_ns"), (0, most))?;
    Ok(true)
}
