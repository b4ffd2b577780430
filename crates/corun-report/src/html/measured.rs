//! The box about the measurement: its method, its losses and what it cannot see.

use super::markup::escape;
use crate::energy;
use crate::profile::schema::{Counters, Host, ProfileReport, Source};
use crate::terminal::{lost, probe_cost};
use crate::words::{count, percent, thousands};
use corun_model::duration::human_ns;

/// The box.
pub fn facts(report: &ProfileReport) -> String {
    let rows: String = entries(report)
        .into_iter()
        .map(|(what, text)| format!("<dt>{what}</dt><dd>{}</dd>", escape(&text)))
        .collect();
    format!("<div class=\"box\"><dl>{rows}</dl></div>\n")
}

fn entries(report: &ProfileReport) -> Vec<(&'static str, String)> {
    let not_known = || "not known here".to_owned();
    let mut rows = vec![
        ("Seen by", source(report).to_owned()),
        ("Machine", report.machine.description.clone()),
        ("Window", window(report)),
        ("Machine time", machine_time(report)),
        (
            "Taken by the host below",
            report.machine.host_steal_ns.map_or_else(not_known, |ns| {
                let capacity_ns = report.window_ns.saturating_mul(report.cpus);
                format!("{} ({} % of all CPU time)", human_ns(ns), percent(ns, capacity_ns))
            }),
        ),
        (
            "Energy of the machine",
            report.machine.energy.as_ref().and_then(energy::sentence).unwrap_or_else(not_known),
        ),
        ("Lost", lost(report)),
        ("Cost of measuring", cost(report)),
    ];
    if let Some(layout) = &report.own.layout {
        rows.push(("Placement", layout.clone()));
    }
    if let Some(code) = report.exit_status {
        rows.push(("Exit status", code.to_string()));
    }
    rows.extend(report.unavailable.iter().map(|u| ("Cannot be seen", format!("{}: {}", u.what, u.why))));
    rows
}

fn source(report: &ProfileReport) -> &'static str {
    match (report.host, report.source) {
        (Host::Sim, _) | (_, Source::Sim) => "the modelled machine, which knows everything about itself",
        (_, Source::Ebpf) => {
            "eBPF on every context switch, wake-up, migration and exit: exact times, exact culprits"
        }
        (_, Source::Schedstat) => "the kernel's sums per task (schedstat): exact times, culprits not known",
    }
}

fn window(report: &ProfileReport) -> String {
    let parts = match report.timeline.len() {
        0 => String::new(),
        n => format!(", in {}", count(n as u64, "part")),
    };
    format!("{} on {}{parts}", human_ns(report.window_ns), count(report.cpus, "CPU"))
}

fn machine_time(report: &ProfileReport) -> String {
    let m = &report.machine;
    let said: Vec<String> = [
        ("busy", m.busy_ns),
        ("idle", m.idle_ns),
        ("not seen", m.unknown_ns.filter(|ns| *ns > 0)),
        ("hard interrupts", m.irq_ns),
        ("soft interrupts", m.softirq_ns),
    ]
    .into_iter()
    .filter_map(|(what, ns)| ns.map(|ns| format!("{what} {}", human_ns(ns))))
    .collect();
    if said.is_empty() {
        "not known here".to_owned()
    } else {
        said.join(", ")
    }
}

fn cost(report: &ProfileReport) -> String {
    let own = &report.own;
    let cpu = own.cpu_ns.map(|ns| format!("{} of CPU time for corun itself", human_ns(ns)));
    match (cpu, probe_cost(own)) {
        (None, None) => "not measured".to_owned(),
        (cpu, probes) => cpu.into_iter().chain(probes).collect::<Vec<String>>().join(", "),
    }
}

/// Scheduling events and hardware counters, as far as they are known.
pub fn counts(report: &ProfileReport) -> String {
    let a = &report.subject.account;
    let e = &a.events;
    let mut rows = vec![
        ("blockings", "gave the CPU up to wait for something", e.blocked),
        ("yields", "called sched_yield, and another task ran", e.yielded),
        ("preemptions", "lost the CPU while still runnable", e.preemptions),
        ("wake-ups", "was made runnable", e.wakeups),
        ("migrations", "moved to another CPU", e.migrations),
    ];
    if let Some(m) = &e.migrations_by_distance {
        rows.push(("", "of these to a hyperthread of the same core", Some(m.same_core)));
        rows.push(("", "to another core under the same last-level cache", Some(m.same_llc)));
        rows.push(("", "to another last-level cache of the socket", Some(m.same_socket)));
        rows.push(("", "to another socket", Some(m.other_socket)));
    }
    rows.extend(a.counters.iter().flat_map(hardware));
    let rows: String = rows
        .into_iter()
        .filter_map(|(what, meaning, n)| n.map(|n| (what, meaning, n)))
        .map(|(what, meaning, n)| {
            format!(
                "<tr><td>{what}</td><td class=\"n\">{}</td><td><small>{meaning}</small></td></tr>",
                thousands(n)
            )
        })
        .collect();
    if rows.is_empty() {
        return "<p class=\"lead\">This source counts no events.</p>\n".to_owned();
    }
    format!("<table class=\"counts\">{rows}</table>\n")
}

fn hardware(c: &Counters) -> [(&'static str, &'static str, Option<u64>); 13] {
    [
        ("cycles", "unhalted core cycles", c.cycles),
        ("instructions", "retired", c.instructions),
        ("branches", "retired", c.branches),
        ("branch misses", "mispredicted", c.branch_misses),
        ("L2 misses", "misses of the private L2 cache", c.l2_misses),
        ("LLC references", "references to the last-level cache", c.llc_references),
        ("LLC misses", "misses of the last-level cache", c.llc_misses),
        ("off-core stalls", "cycles stalled on memory beyond the core", c.offcore_stall_cycles),
        ("L2 stalls", "cycles stalled with an L2 miss pending", c.l2_stall_cycles),
        ("coherence, intra", "lines fetched from another core of the socket", c.coherence_intra),
        ("coherence, inter", "lines fetched from another socket", c.coherence_inter),
        ("remote DRAM", "accesses served by another NUMA node", c.remote_dram),
        ("DRAM bytes", "moved between last-level cache and memory", c.dram_bytes),
    ]
}
