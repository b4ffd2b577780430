//! One wait for a CPU in words: which task, when, where, how it began, and who held the CPU meanwhile, in
//! microseconds. Rounded parts sum to the rounded wait. A figure keeps its unit at line breaks.

use crate::names::Names;
use crate::profile::schema::ProfileReport;
use crate::profile::waits::{Began, HeldBy, Part, Task, Wait};
use crate::words::{count, name, thousands};
use corun_model::duration::human_ns;

/// The most parts of a wait that are listed one by one; the shortest of the others are summed.
const PARTS: usize = 5;

/// `12,345 µs from 1.23 s on: worker (4711) on CPU 1, preempted`.
pub fn title(wait: &Wait) -> String {
    let of = |task: &Task| match task.name.is_empty() {
        true => format!("task {}", task.tid),
        false => format!("{} ({})", name(&task.name, 15), task.tid),
    };
    let began = match (wait.began, &wait.waker) {
        (Began::Preempted, _) => "preempted".to_owned(),
        (Began::Task, Some(waker)) => format!("woken by {}", of(waker)),
        (Began::Task, None) => "woken by a task".to_owned(),
        (Began::Interrupt, _) => "woken by an interrupt".to_owned(),
        (Began::SoftInterrupt, _) => "woken by a soft interrupt".to_owned(),
        (Began::Idle, _) => "woken by the idle loop".to_owned(),
        (Began::Unknown, _) => "its beginning was not seen".to_owned(),
    };
    let goes_on = if wait.over { "" } else { ", and not over at the end" };
    let who = of(&Task { tid: wait.tid, name: wait.name.clone() });
    let at = human_ns(wait.start_ns);
    format!("{}\u{a0}µs from {at} on: {who} on CPU {}, {began}{goes_on}", us(wait.wait_ns), wait.cpu)
}

/// The tasks that held the CPU, in the order of their first turn.
pub fn parts(report: &ProfileReport, names: &Names, wait: &Wait) -> String {
    let mut by_time: Vec<u64> = wait.parts.iter().map(|p| p.ns).collect();
    by_time.sort_unstable_by_key(|ns| std::cmp::Reverse(*ns));
    let least_ns = by_time.get(PARTS - 1).copied().unwrap_or(0);
    let (mut said, mut rest, mut rest_us) = (Vec::new(), 0, 0);
    let mut so_far_ns = 0;
    for part in &wait.parts {
        // Times are rounded where parts meet, so that they sum to the whole.
        let begin_us = rounded_us(so_far_ns);
        so_far_ns += part.ns;
        let part_us = rounded_us(so_far_ns) - begin_us;
        if part.ns >= least_ns && said.len() < PARTS {
            said.push(format!("{}\u{a0}µs {}", thousands(part_us), held_by(report, names, wait, part)));
        } else {
            rest += part.holders.unwrap_or(1);
            rest_us += part_us;
        }
    }
    if rest > 0 {
        said.push(format!("{}\u{a0}µs {}", thousands(rest_us), count(rest, "other")));
    }
    said.join(", ")
}

fn held_by(report: &ProfileReport, names: &Names, wait: &Wait, part: &Part) -> String {
    let who = match (part.held_by, &part.task) {
        (HeldBy::Task, Some(task)) => {
            let of = part.tenant.map(|id| (id, names.within(id, 24)));
            match of {
                Some((id, _)) if id == report.subject.tenant.id => {
                    format!("{} ({}), its own", name(&task.name, 15), task.tid)
                }
                // If its name says it already, it is not repeated.
                Some((_, tenant)) if tenant != task.name => {
                    format!("{} ({}) of {tenant}", name(&task.name, 15), task.tid)
                }
                _ if task.name.is_empty() => format!("task {}", task.tid),
                _ => format!("{} ({})", name(&task.name, 15), task.tid),
            }
        }
        (HeldBy::Task, None) => "a task".to_owned(),
        (HeldBy::Idle, _) => "idle".to_owned(),
        (HeldBy::Budget, _) => "its CPU budget was used up".to_owned(),
        (HeldBy::Others, _) => count(part.holders.unwrap_or(0), "other"),
        (HeldBy::Unknown, _) => "not known".to_owned(),
    };
    let on = if part.cpu == wait.cpu { String::new() } else { format!(" on CPU {}", part.cpu) };
    let turns = if part.turns > 1 { format!(" in {} turns", thousands(part.turns)) } else { String::new() };
    format!("{who}{on}{turns}")
}

fn rounded_us(ns: u64) -> u64 {
    ns.saturating_add(500) / 1_000
}

fn us(ns: u64) -> String {
    thousands(rounded_us(ns))
}
