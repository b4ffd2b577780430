//! The losses of a program that computed, summed up: the takers, and the losses of benchmarks of several
//! lengths.

use super::{Program as Measured, Thread as MeasuredThread};
use corun_linux::noise::{Gaps, SLOT_NS};
use corun_model::noise_summary::{Benchmark, Program, Taker, Thread, Who};
use corun_model::{TakenBy, TenantId, TenantKind};
use std::collections::BTreeMap;

/// Benchmarks with this many slots are examined: a tenth of a second, a second, ten.
const SLOTS: [usize; 3] = [1, 10, 100];

impl Measured {
    /// A summary: who took how much, and what benchmarks of several lengths would lose. A benchmark that
    /// loses more than the share `allowed` is disturbed.
    pub fn summary(&self, allowed: f64) -> Program {
        of_program(self, allowed)
    }
}

fn of_program(program: &Measured, allowed: f64) -> Program {
    let threads = || program.threads.iter();
    let length_ns = threads().map(|t| t.taken.length_ns).max().unwrap_or(0);
    let measured_ns: u64 = threads().map(|t| t.taken.length_ns).sum();
    let benchmarks = SLOTS.into_iter().filter_map(|slots| {
        let (disturbed, of) = threads()
            .map(|t| t.taken.disturbed(slots, allowed))
            .fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        (of > 0).then_some(Benchmark { length_ns: slots as u64 * SLOT_NS, disturbed, of })
    });
    let mut takers: Vec<Taker> = takers(program)
        .into_iter()
        .filter(|(_, ns)| *ns > 0)
        .map(|(who, ns)| Taker { who, share: share(ns, measured_ns) })
        .collect();
    takers.sort_by(|a, b| b.share.total_cmp(&a.share));
    Program {
        length_ns,
        taken: share(threads().map(|t| gaps(t).sum_ns).sum(), measured_ns),
        benchmarks: benchmarks.collect(),
        takers,
        threads: threads().map(thread).collect(),
    }
}

/// Who took how much, in nanoseconds.
fn takers(program: &Measured) -> BTreeMap<Who, u64> {
    let mut sums: BTreeMap<Who, u64> = BTreeMap::new();
    let mut add = |who, ns| *sums.entry(who).or_default() += ns;
    for (tenant, ns) in &program.takers {
        add(tenant.map_or(Who::Unknown, |id| who(program, id)), *ns);
    }
    for thread in &program.threads {
        match &thread.account {
            Some(account) => {
                add(Who::Quota, account.ledger.parts().throttled_ns);
                add(Who::Stopped, account.ledger.parts().held_ns());
            }
            None => add(Who::Unknown, thread.taken.off.sum_ns),
        }
        let on_ns = thread.taken.on.sum_ns;
        let host_ns = thread.host_steal_ns.unwrap_or(0).min(on_ns);
        add(Who::Hypervisor, host_ns);
        let rest = match thread.host_steal_ns {
            Some(_) => Who::Interrupts,
            None => Who::InterruptsOrHypervisor,
        };
        add(rest, on_ns - host_ns);
    }
    sums
}

fn who(program: &Measured, id: TenantId) -> Who {
    let Some(tenant) = program.tenants.iter().find(|t| t.id == id) else { return Who::Unknown };
    match tenant.kind.taken_by() {
        TakenBy::Kernel => Who::Kernel,
        TakenBy::Idle => Who::Idle,
        TakenBy::Watcher => Who::Corun,
        _ if tenant.kind == TenantKind::Others => Who::Programs,
        _ => Who::Program(tenant.name.clone()),
    }
}

fn gaps(thread: &MeasuredThread) -> Gaps {
    thread.taken.on.plus(&thread.taken.off)
}

fn thread(thread: &MeasuredThread) -> Thread {
    let taken = &thread.taken;
    let all = gaps(thread);
    let of = |ns| share(ns, taken.length_ns);
    Thread {
        cpu: thread.cpu.map(|cpu| cpu.0),
        taken: of(all.sum_ns),
        off_cpu: of(taken.off.sum_ns),
        on_cpu: of(taken.on.sum_ns),
        gaps_per_s: all.count as f64 / (taken.length_ns.max(1) as f64 / 1e9),
        longest_ns: all.longest_ns,
        longest_is_on_cpu: taken.on.longest_ns > taken.off.longest_ns,
    }
}

fn share(ns: u64, of_ns: u64) -> f64 {
    ns as f64 / of_ns.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use corun_linux::noise::Taken;
    use corun_model::observation::Account;
    use corun_model::{CpuId, Ledger, Parts, Tenant};
    use corun_predict::verdict::MAX_DISTURBANCE;

    const MS: u64 = 1_000_000;

    fn measured() -> Measured {
        let parts = Parts { compute_ns: 700 * MS, throttled_ns: 300 * MS, ..Parts::default() };
        let account = Account { ledger: Ledger::new(parts, 1000 * MS).unwrap(), ..Account::default() };
        let gaps =
            |count, sum_ms, longest_ms| Gaps { count, sum_ns: sum_ms * MS, longest_ns: longest_ms * MS };
        let taken = Taken {
            length_ns: 1000 * MS,
            off: gaps(10, 400, 90),
            on: gaps(40, 50, 5),
            slots: vec![45 * MS as u32; 10],
        };
        let thread = |cpu, account, host_steal_ns| MeasuredThread {
            cpu: Some(CpuId(cpu)),
            taken: taken.clone(),
            account,
            host_steal_ns,
        };
        let tenant =
            Tenant { id: TenantId(3), kind: TenantKind::Command, key: "k".into(), name: "make".into() };
        Measured {
            threads: vec![thread(0, Some(account), Some(20 * MS)), thread(1, None, None)],
            takers: [(Some(TenantId(3)), 100 * MS), (Some(TenantId(9)), MS)].into(),
            tenants: vec![tenant],
        }
    }

    #[test]
    fn takers_have_the_names_of_their_kinds_and_unknown_ones_are_reported_as_unknown() {
        let told = of_program(&measured(), MAX_DISTURBANCE);
        let of = |who: Who| told.takers.iter().find(|t| t.who == who).map(|t| (t.share * 2000.0).round());
        assert_eq!(of(Who::Program("make".into())), Some(100.0));
        assert_eq!(of(Who::Quota), Some(300.0));
        assert_eq!(of(Who::Unknown), Some(401.0), "a tenant without a name, and a thread without a ledger");
        assert_eq!(of(Who::Hypervisor), Some(20.0));
        assert_eq!(of(Who::Interrupts), Some(30.0));
        assert_eq!(of(Who::InterruptsOrHypervisor), Some(50.0));
        assert_eq!(of(Who::Stopped), None, "nothing is left out");
        assert!(told.takers.is_sorted_by(|a, b| a.share >= b.share));
    }

    #[test]
    fn windows_are_those_of_all_threads_and_only_of_lengths_that_fit() {
        let told = of_program(&measured(), MAX_DISTURBANCE);
        let told: Vec<_> = told.benchmarks.iter().map(|b| (b.length_ns / MS, b.disturbed, b.of)).collect();
        assert_eq!(told, [(100, 20, 20), (1000, 2, 2)]);
    }

    #[test]
    fn the_longest_gap_is_that_of_either_kind() {
        let told = thread(&measured().threads[0]);
        assert_eq!((told.longest_ns, told.longest_is_on_cpu), (90 * MS, false));
        assert!((told.taken - 0.45).abs() < 1e-9 && (told.gaps_per_s - 50.0).abs() < 1e-9);
    }
}
