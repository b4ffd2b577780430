//! The lower part of the screen: distributions, and the measurement.

use super::Style;
use crate::energy;
use crate::profile::schema::{Counters, Histogram, Host, ProfileReport, SelfCost, Source};
use crate::words::{bound, count, name, percent, thousands, wrap};
use corun_model::duration::human_ns;

/// Run-queue waits, stretches on a CPU and the counts of events.
pub fn distributions(report: &ProfileReport, style: &Style) -> String {
    let a = &report.subject.account;
    let mut out = String::new();
    for (what, h) in [("Waits for a CPU", &a.waits), ("Time on a CPU", &a.stretches)] {
        if let Some(h) = h.as_ref().filter(|h| h.total > 0) {
            out.push_str(&entry(what, &quantiles(h), style));
        }
    }
    let events = events(report);
    if !events.is_empty() {
        out.push_str(&entry("Events", &events, style));
    }
    if let Some(text) = a.counters.as_ref().and_then(hardware) {
        out.push_str(&entry("Counters", &text, style));
    }
    out
}

/// Instructions per cycle and how often branches and caches missed; `None` if none of it was counted.
fn hardware(c: &Counters) -> Option<String> {
    let by = |n: Option<u64>, of: Option<u64>| Some(n? as f64 / of.filter(|of| *of > 0)? as f64);
    let said = [
        ipc(c).map(|ipc| format!("{ipc:.2} instructions per cycle")),
        c.instructions.map(|n| format!("{:.2} G instructions", n as f64 / 1e9)),
        by(c.branch_misses, c.branches).map(|x| format!("{:.2} % of branches mispredicted", x * 100.0)),
        by(c.llc_misses, c.instructions).map(|x| format!("{:.2} LLC misses per 1,000 instructions", x * 1e3)),
    ];
    let said: Vec<String> = said.into_iter().flatten().collect();
    (!said.is_empty()).then(|| said.join(", "))
}

/// Instructions per cycle.
pub fn ipc(c: &Counters) -> Option<f64> {
    Some(c.instructions? as f64 / c.cycles.filter(|n| *n > 0)? as f64)
}

/// One entry: a label of fixed width, and wrapped text next to it.
fn entry(label: &str, text: &str, style: &Style) -> String {
    const LABEL: usize = 17;
    wrap(text, style.width - LABEL)
        .iter()
        .enumerate()
        .map(|(i, line)| {
            let label = format!("{:LABEL$}", if i == 0 { label } else { "" });
            format!("{}{line}\n", style.faint(&label))
        })
        .collect()
}

fn quantiles(h: &Histogram) -> String {
    let named = [("p50", h.p50), ("p90", h.p90), ("p99", h.p99)];
    let said: Vec<String> =
        named.iter().filter_map(|(share, edge)| edge.map(|b| format!("{share} {}", bound(b)))).collect();
    let mut out = format!("{} ({})", said.join(", "), thousands(h.total));
    if h.overflow > 0 {
        out.push_str(&format!("; {} longer than the last bucket", thousands(h.overflow)));
    }
    out
}

fn events(report: &ProfileReport) -> String {
    let e = &report.subject.account.events;
    let named = [
        (e.blocked, "blocking"),
        (e.yielded.filter(|n| *n > 0), "yield"),
        (e.preemptions, "preemption"),
        (e.wakeups, "wake-up"),
        (e.migrations, "migration"),
    ];
    let mut said: Vec<String> = named.iter().filter_map(|(n, what)| n.map(|n| count(n, what))).collect();
    if let (Some(m), Some(last)) =
        (e.migrations_by_distance.filter(|_| e.migrations != Some(0)), said.last_mut())
    {
        let by = [
            (m.same_core, "same core"),
            (m.same_llc, "same LLC"),
            (m.same_socket, "same socket"),
            (m.other_socket, "other socket"),
        ];
        let by: Vec<String> =
            by.iter().filter(|(n, _)| *n > 0).map(|(n, d)| format!("{} {d}", thousands(*n))).collect();
        last.push_str(&format!(" ({})", by.join(", ")));
    }
    said.join(", ")
}

/// What was measured, lost, spent, and what cannot be seen.
pub fn measured(report: &ProfileReport, style: &Style) -> String {
    let mut out = entry("Measured", &how(report), style);
    if let Some(energy) = report.machine.energy.as_ref().and_then(energy::sentence) {
        out.push_str(&entry("Energy", &format!("the machine as a whole: {energy}"), style));
    }
    for u in &report.unavailable {
        out.push_str(&entry("Not seen", &name(&format!("{}: {}", u.what, u.why), 300), style));
    }
    out
}

/// The measurement in one sentence per fact.
pub fn how(report: &ProfileReport) -> String {
    let by = match (report.host, report.source) {
        (Host::Sim, _) | (_, Source::Sim) => "on the modelled machine",
        (_, Source::Ebpf) => "live by eBPF",
        (_, Source::Schedstat) => "live from schedstat (no culprits)",
    };
    let mut said = vec![format!(
        "{by}, {} on {}{}",
        human_ns(report.window_ns),
        count(report.cpus, "CPU"),
        report
            .idle_share()
            .map_or_else(String::new, |s| { format!(" ({} % idle)", percent((s * 1e6) as u64, 1_000_000)) })
    )];
    said.push(lost(report));
    if let Some(ns) = report.own.cpu_ns {
        said.push(format!("corun used {} of CPU", human_ns(ns)));
    }
    said.extend(probe_cost(&report.own));
    if let Some(layout) = &report.own.layout {
        said.push(name(layout, 200));
    }
    if let Some(code) = report.exit_status {
        said.push(format!("exit status {code}"));
    }
    said.join("; ")
}

/// From this many switches a second on, the cost of one is meaningful: below, its caches are cold each time.
const OFTEN_PER_S: u64 = 20_000;

/// The cost of the probes: their share of the CPUs' time, and the cost per switch if there are many.
pub fn probe_cost(own: &SelfCost) -> Option<String> {
    let per_switch = own.ns_per_switch.filter(|_| own.switches_per_s.is_none_or(|n| n >= OFTEN_PER_S));
    let per_switch = per_switch.map(|ns| format!("{ns} ns per switch"));
    let share = own.probe_ppm.map(|ppm| format!("the probe {} % of all CPUs' time", percent(ppm, 1_000_000)));
    match (share, per_switch) {
        (Some(share), Some(per_switch)) => Some(format!("{share} ({per_switch})")),
        (share, per_switch) => share.or(per_switch),
    }
}

/// The losses, or a statement that there were none.
pub fn lost(report: &ProfileReport) -> String {
    let l = &report.loss;
    let task_ns = report.tenants.iter().fold(0, |sum: u64, t| sum.saturating_add(t.account.ledger.total_ns));
    let mut said = Vec::new();
    if l.events > 0 {
        said.push(count(l.events, "event"));
    }
    if l.unknown_ns > 0 {
        said.push(format!("{} % of task time", percent(l.unknown_ns, task_ns)));
    }
    if l.revised_ns > 0 {
        said.push(format!(
            "{} % of task time in the wrong category for a while",
            percent(l.revised_ns, task_ns)
        ));
    }
    if l.untracked_tasks > 0 {
        said.push(format!("{} not followed", count(l.untracked_tasks, "task")));
    }
    if let Some(n) = l.trace_events.filter(|n| *n > 0) {
        said.push(format!("{} of the trace", count(n, "event")));
    }
    let mut out =
        if said.is_empty() { "nothing lost".to_owned() } else { format!("lost: {}", said.join(", ")) };
    if l.unlisted_tasks > 0 {
        out.push_str(&format!("; {} only in the sums", count(l.unlisted_tasks, "task")));
    }
    if l.unseen_ns > 0 {
        let cpu = human_ns(l.unseen_ns);
        out.push_str(&format!(
            "; {cpu} of CPU time by tasks too short-lived to look at, whose waits nobody knows"
        ));
    }
    out
}
