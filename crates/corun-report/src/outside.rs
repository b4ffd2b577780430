//! A statement that a program waits for somebody else's work, for whose, and what kept that from a CPU meanwhile.

use crate::words::{between, name, share, MOSTLY, SMALL};
use corun_predict::servers::{Bounds, Holder, Server};
use std::collections::BTreeMap;

/// A command waits for corun before it begins, which is a large part of a short command's life: that is not reported.
const BEGINNING_NS: f64 = 10e6;

/// What a program waits for outside of it.
#[derive(Clone, Copy, Debug)]
pub struct Outside<'a> {
    /// The least share of its time in which it waited for nothing else, 0..1; `None`: not known.
    pub share: Option<f64>,
    /// The tenants whose tasks it waited for; `None`: not known.
    pub servers: Option<&'a [Server]>,
    /// Its time, in nanoseconds.
    pub wall_ns: u64,
}

impl Outside<'_> {
    /// The statement for a program that waits for outsiders for at least the share `from` of its time, 0..1; `None`: it does not.
    pub fn said(&self, from: f64) -> Option<String> {
        let servers = self.servers.unwrap_or_default();
        let wall_ns = self.wall_ns.max(1) as f64;
        let served = servers.iter().map(|server| server.waited_ns).sum::<u64>() as f64 / wall_ns;
        // The first has all rests of a program none of whose tasks slept, the second those that a task ended.
        let waited = self.share?.max(served).min(1.0);
        if waited < from || waited * wall_ns <= BEGINNING_NS {
            return None;
        }
        let waits =
            format!("it waited {} % of its time for other processes, events or timers", share(waited));
        let Some(first) = servers.first().filter(|_| served >= SMALL) else {
            return Some(waits + ", and corun cannot tell what delayed those");
        };
        let others = match servers.len() {
            1 => String::new(),
            2 => " and another".to_owned(),
            n => format!(" and {} others", n - 1),
        };
        let whom = format!("{} % for `{}`{others}", share(served), name(&first.tenant, 40));
        Some(format!("{waits}, {whom}: {}, and corun cannot tell what else delayed those", self.kept()))
    }

    /// What kept those from a CPU that it waited for.
    fn kept(&self) -> String {
        let servers = self.servers.unwrap_or_default();
        let of = |bounds: fn(&Server) -> Bounds| {
            let end = |n: usize| {
                servers.iter().map(|s| bounds(s)[n]).sum::<u64>() as f64 / self.wall_ns.max(1) as f64
            };
            let [least, most] = [0, 1].map(|n| end(n).min(1.0));
            (most >= SMALL).then(|| between(least, most))
        };
        let queued = of(|s| s.queued_ns).map(|part| {
            format!("others held the CPUs that those needed for {part} of its time{}", mostly(servers))
        });
        let throttled = of(|s| s.throttled_ns)
            .map(|part| format!("CPU budgets of their own stopped those for {part} of its time"));
        let held =
            of(|s| s.held_ns).map(|part| format!("somebody stopped or froze those for {part} of its time"));
        let said: Vec<String> = [queued, throttled, held].into_iter().flatten().collect();
        match said.is_empty() {
            true => "next to nobody kept those from a CPU".to_owned(),
            false => said.join(", "),
        }
    }
}

/// Who held most of the CPU time that servers needed.
fn mostly(servers: &[Server]) -> String {
    let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
    for Holder { tenant, steal_ns, .. } in servers.iter().flat_map(|server| &server.culprits) {
        *sums.entry(tenant).or_default() += steal_ns;
    }
    let all_ns: u64 = servers.iter().map(|server| server.queued_ns[1]).sum();
    match sums.into_iter().max_by_key(|(_, ns)| *ns) {
        Some((who, ns)) if ns as f64 >= MOSTLY * all_ns as f64 => format!(", mostly `{}`", name(who, 40)),
        _ => String::new(),
    }
}
