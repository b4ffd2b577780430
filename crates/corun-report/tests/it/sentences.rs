//! The headline must be true and useful in every situation.

use crate::example::{alone, meta, timeline, whole, Did, COMPILER, IDLE, KERNEL, POSTGRES, SUBJECT};
use corun_model::culprit::Share;
use corun_model::ledger::Held;
use corun_model::observation::Account;
use corun_model::{Culprits, Observation, TaskId, Tenant, TenantId, TenantKind};
use corun_report::{answer, ProfileMeta, ProfileReport, Source, Subject};

const MS: u64 = 1_000_000;

fn said(seen: &Observation) -> String {
    answer::headline(&ProfileReport::new(&meta(), seen, SUBJECT, &[]))
}

fn busy(compute_ms: u64) -> Did {
    Did { compute_ns: compute_ms * MS, ..Did::default() }
}

#[test]
fn a_victim_reads_who_took_how_much_largest_first() {
    let did = Did { stolen: vec![(KERNEL, 10 * MS), (POSTGRES, 120 * MS), (COMPILER, 25 * MS)], ..busy(500) };
    assert_eq!(
        said(&alone(&did)),
        "Waited at least 31 % of its compute time, spinning not counted: 29 % stolen (postgresql.service 24, \
         build-7 (3f9ac1) 5.0), 2.0 % kernel."
    );
}

#[test]
fn an_undisturbed_subject_is_reported_as_such() {
    assert_eq!(said(&alone(&busy(500))), "Undisturbed: nobody took its CPU.");
    let did = Did { stolen: vec![(POSTGRES, MS)], ..busy(500) };
    assert_eq!(said(&alone(&did)), "Undisturbed: it waited 0.2 % of its compute time, too little to matter.");
}

#[test]
fn throttling_is_never_blamed_on_a_neighbor() {
    let did = Did { throttled_ns: 400 * MS, ..busy(500) };
    assert_eq!(
        said(&alone(&did)),
        "No neighbor took its CPU; it waited at least 80 % of its compute time, spinning not \
         counted: 80 % throttled by the CPU budget that it is under (a quota, or real-time runtime)."
    );
}

#[test]
fn being_stopped_or_frozen_comes_first() {
    let held = |stopped_ms, frozen_ms| Some(Held { stopped_ns: stopped_ms * MS, frozen_ns: frozen_ms * MS });
    let stopped = "Stopped by a signal or a debugger for";
    let cases = [
        // (stopped ms, frozen ms, compute ms, stolen ms of a second, the sentence)
        (750, 0, 250, 0, format!("{stopped} 75 % of its time. Otherwise nobody took its CPU.")),
        (
            0,
            600,
            400,
            0,
            "Frozen with its cgroup or the whole system for 60 % of its time. Otherwise nobody took its CPU.".into(),
        ),
        (
            300,
            200,
            500,
            0,
            format!(
                "{stopped} 30 % of its time, and frozen with its cgroup or the whole system for 20 % of its time. \
                 Otherwise nobody took its CPU."
            ),
        ),
        (
            500,
            0,
            400,
            100,
            format!(
                "{stopped} 50 % of its time. Waited at least 25 % of its compute time, spinning not counted: 25 % \
                 stolen (postgresql.service 25)."
            ),
        ),
        (1000, 0, 0, 0, format!("{stopped} 100 % of its time. It did not run at all.")),
        (
            400,
            0,
            0,
            0,
            format!("{stopped} 40 % of its time. It did not run and did not want to: it was blocked the rest of the time."),
        ),
        (9, 0, 900, 0, "Undisturbed: nobody took its CPU.".into()),
    ];
    for (stopped_ms, frozen_ms, compute_ms, stolen_ms, sentence) in cases {
        let stolen = vec![(POSTGRES, stolen_ms * MS)];
        let did = Did { held: held(stopped_ms, frozen_ms), stolen, ..busy(compute_ms) };
        assert_eq!(said(&alone(&did)), sentence);
    }
}

#[test]
fn stops_of_some_of_everybody_are_not_reported() {
    let held = Some(Held { stopped_ns: 500 * MS, frozen_ns: 0 });
    let seen = alone(&Did { held, ..busy(500) });
    let report = ProfileReport::new(&meta(), &seen, Subject::All, &[]);
    assert_eq!(answer::headline(&report), "No task waited for a CPU.");
}

#[test]
fn its_own_tasks_that_delay_each_other_are_not_neighbors() {
    let did = Did { stolen: vec![(SUBJECT, 450 * MS), (IDLE, 5 * MS)], ..busy(500) };
    assert_eq!(
        said(&alone(&did)),
        "No neighbor took its CPU; it waited at least 91 % of its compute time, spinning not \
         counted: 90 % waiting for its own tasks (while CPUs idled: its tasks may be pinned to one, or the kernel does not \
         balance its CPUs, as with `isolcpus`), 1.0 % waking up on an idle CPU."
    );
}

#[test]
fn without_culprits_the_holder_is_not_known_rather_than_nobody() {
    let mut seen = alone(&Did { unattributed_ns: 250 * MS, ..busy(500) });
    for t in &mut seen.by_tenant {
        t.account.culprits = Culprits::unknown(t.account.ledger.parts().steal_ns);
    }
    let meta = ProfileMeta { source: Source::Schedstat, ..meta() };
    assert_eq!(
        answer::headline(&ProfileReport::new(&meta, &seen, SUBJECT, &[])),
        "Waited at least 50 % of its compute time, spinning not counted: 50 % waiting for a CPU; who held it is \
         not known."
    );
}

#[test]
fn a_task_that_never_ran_has_no_slowdown_but_a_sentence() {
    let blocked = "It did not run and did not want to: it was blocked all the time. It waited 50 % of its time for other \
                   processes, events or timers, and corun cannot tell what delayed those.";
    assert_eq!(said(&alone(&busy(0))), blocked);
    let starved = Did { stolen: vec![(POSTGRES, 800 * MS)], ..busy(0) };
    assert_eq!(
        said(&alone(&starved)),
        "It did not run at all, though it wanted to for 80 % of its time: 80 % stolen (postgresql.service 80)."
    );
}

#[test]
fn a_subject_without_tasks_is_named_not_divided_by() {
    let mut seen = alone(&busy(10));
    seen.by_tenant.clear();
    seen.tasks.clear();
    assert_eq!(said(&seen), "streamcluster had no task in this window.");
    let report = ProfileReport::new(&meta(), &seen, TenantId(77), &[]);
    assert_eq!(answer::headline(&report), "tenant 77 had no task in this window.");
    assert_eq!(report.subject.account.ledger.total_ns, Account::default().ledger.total_ns());
}

#[test]
fn measured_spinning_counts_as_lost_and_unmeasured_makes_a_lower_bound() {
    let did = Did { spin_ns: Some(100 * MS), ..busy(400) };
    assert_eq!(
        said(&alone(&did)),
        "No neighbor took its CPU; it waited 25 % of its compute time: 25 % spinning."
    );
}

#[test]
fn all_tenants_together_have_no_neighbors_but_still_wait() {
    let seen = alone(&Did { stolen: vec![(POSTGRES, 100 * MS)], ..busy(500) });
    assert_eq!(
        answer::headline(&ProfileReport::new(&meta(), &seen, Subject::All, &[])),
        "All tasks together waited 20 % as long as they ran: 20 % for a CPU that was held (postgresql.service 20)."
    );
}

#[test]
fn culprits_with_one_name_are_summed_in_the_sentence_and_a_single_one_of_them_is_distinguished() {
    let mut seen = alone(&Did { stolen: vec![(POSTGRES, 50 * MS), (COMPILER, 40 * MS)], ..busy(500) });
    for (t, key) in seen.tenants.iter_mut().zip(["pid:1", "pgid:2", "pgid:3"]) {
        (t.name, t.key) = ("cc1".to_owned(), key.to_owned());
    }
    assert!(said(&seen).ends_with(": 18 % stolen (2 named cc1 18)."), "{}", said(&seen));
    let mut seen = whole(&timeline());
    for t in seen.tenants.iter_mut().filter(|t| [SUBJECT, POSTGRES].contains(&t.id)) {
        (t.name, t.key) = ("corun".to_owned(), format!("pgid:{}", t.id.0));
    }
    assert!(said(&seen).contains(" % stolen (corun (pgid 2) 29, "), "{}", said(&seen));
}

#[test]
fn time_without_a_known_culprit_reads_as_no_tenants_name() {
    let did = Did { stolen: vec![(POSTGRES, 50 * MS)], unattributed_ns: 10 * MS, ..busy(500) };
    assert!(said(&alone(&did)).ends_with(", 2.0 % taken by an unknown tenant."));
}

#[test]
fn many_culprits_are_summed_after_the_third() {
    let fourth = TenantId(77);
    let mut seen = alone(&Did { stolen: vec![(POSTGRES, 135 * MS)], ..busy(500) });
    seen.tenants.push(Tenant {
        id: fourth,
        kind: TenantKind::Command,
        key: "pgid:7".into(),
        name: "cc1".into(),
    });
    let stolen = [(POSTGRES, 80), (COMPILER, 40), (crate::example::HOSTILE, 10), (fourth, 5)];
    let shares = stolen.map(|(tenant, ms)| Share { tenant, steal_ns: ms * MS });
    let subject = seen.by_tenant.iter_mut().find(|t| t.id == SUBJECT).unwrap();
    subject.account.culprits = Culprits::new(shares, 0, 135 * MS).unwrap();
    let line = said(&seen);
    assert!(line.ends_with(" 2.0, 1 more 1.0)."), "{line}");
}

#[test]
fn misleading_facts_come_before_the_numbers() {
    let mut seen = alone(&Did { unknown_ns: 100 * MS, ..busy(500) });
    seen.loss.events = 1203;
    seen.machine.host_steal_ns = Some(400 * MS);
    let meta = ProfileMeta { notes: vec!["Interrupted after 1 s.".to_owned()], ..meta() };
    let cautions = answer::cautions(&ProfileReport::new(&meta, &seen, SUBJECT, &[]));
    assert_eq!(
        cautions,
        [
            "Interrupted after 1 s.",
            "The hypervisor below kept 20 % of this machine's CPU time for others; it is counted as compute.",
            "10 % of its time was not shown by the kernel (unknown).",
            "1,203 events found no room and are missing from these numbers.",
        ]
    );
}

#[test]
fn the_loss_of_wall_time_comes_first_and_says_when_it_is_unclear() {
    let lost = |share: [f64; 3]| {
        let spare = share[1] - share[0];
        let lost = Some(corun_report::LostTime { wall_ns: 5_200 * MS, share, spare, stopped_anyway: 0.0 });
        let did = Did { stolen: vec![(POSTGRES, 500 * MS)], ..busy(500) };
        let report = ProfileReport::new(&ProfileMeta { lost, ..meta() }, &alone(&did), SUBJECT, &[]);
        answer::answer(&report).verdict
    };
    let waited = "waited at least 100 % of its compute time, spinning not counted";
    assert_eq!(lost([0.12, 0.12, 0.2]), format!("Lost 12 % of its 5.20 s to others; {waited}"));
    assert_eq!(lost([0.0; 3]), format!("Lost almost none of its 5.20 s to others, though it {waited}"));
    assert_eq!(
        lost([0.0, 0.39, 0.39]),
        format!(
            "Lost at most 39 % of its 5.20 s to others, since some of what they took may have come out of its sleep; {waited}"
        )
    );
}

#[test]
fn tasks_that_delay_each_other_are_counted_at_a_time_and_on_the_cpus_that_they_may_use() {
    let mut seen = alone(&Did { stolen: vec![(SUBJECT, 450 * MS)], ..busy(500) });
    let subject = seen.by_tenant.iter_mut().find(|t| t.id == SUBJECT).unwrap();
    subject.tasks = 6_002;
    let one = subject.account.clone();
    (1..4).for_each(|_| subject.account.add(&one));
    let said_on = |seen: &Observation, cpus: Option<u64>| {
        let mut report = ProfileReport::new(&meta(), seen, SUBJECT, &[]);
        report.allowed_cpus = cpus;
        answer::headline(&report)
    };
    assert!(
        said_on(&seen, None).contains("its own tasks (4 at a time on 2 CPUs)"),
        "{}",
        said_on(&seen, None)
    );
    assert!(said_on(&seen, Some(1)).contains("(4 at a time on the 1 CPU that they may use)"));
}

#[test]
fn tasks_that_wait_for_each_other_on_isolated_cpus_are_told_that_isolation_is_why() {
    use corun_model::limits::{CpuSet, TaskLimits};
    use corun_model::CpuId;
    let isolated = "isolated, and the kernel moves no task between isolated CPUs; pin each to one";
    // The CPUs that its tasks may use, whether isolation is why, how many live at a time, and whether that is
    // reported.
    let rows: [(Option<&[u32]>, bool, usize, bool); 6] = [
        (None, false, 1, false),
        (Some(&[0, 1]), false, 1, false),
        (Some(&[0]), true, 1, true),
        (Some(&[0]), true, 4, true),
        (Some(&[0]), false, 4, false),
        (Some(&[0, 1]), false, 4, false),
    ];
    for (cpus, is_isolated, tasks, is_said) in rows {
        let mut seen = alone(&Did { stolen: vec![(SUBJECT, 450 * MS)], ..busy(500) });
        let ids: Vec<TaskId> = seen.tasks.iter().filter(|t| t.tenant == SUBJECT).map(|t| t.id).collect();
        let cpus = cpus.map(|cpus| std::sync::Arc::new(cpus.iter().map(|n| CpuId(*n)).collect::<CpuSet>()));
        let limits = |task| TaskLimits { task, process: task, cpus: cpus.clone(), is_isolated };
        seen.limits.tasks = ids.into_iter().map(limits).collect();
        let subject = seen.by_tenant.iter_mut().find(|t| t.id == SUBJECT).unwrap();
        let one = subject.account.clone();
        (1..tasks).for_each(|_| subject.account.add(&one));
        let said = said(&seen);
        assert_eq!(said.contains(isolated), is_said, "{cpus:?} {is_isolated} {tasks}: {said}");
        assert!(!is_said || !said.contains("may be pinned"), "{said}");
    }
}
