//! Facts and their sentences, as a table: including facts that no user is likely to meet. Read each row of
//! the snapshots as a user would. The test also checks the conditions for every sentence.

use crate::example::{alone, meta, Did, COMPILER, IDLE, KERNEL, POSTGRES, SUBJECT};
use corun_model::ledger::Held;
use corun_predict::estimate::{Baselines, CannotTell, Culprit, Estimate, Method, Parts, Waited};
use corun_predict::verdict::{CutBy, CutShort, Disturbance, Doubt, Ruling, Verdict};
use corun_report::predict::{Covers, Estimates, PredictMeta, PredictReport};
use corun_report::profile::schema::{Block, LostTime};
use corun_report::verify::{VerifyMeta, VerifyReport};
use corun_report::{answer, ProfileReport, Subject};
use std::fmt::Write;

const MS: u64 = 1_000_000;
const S: u64 = 1_000 * MS;

/// The conditions for every sentence.
fn check(facts: &str, said: &str) {
    for never in
        ["NaN", "inf ", " 0 ns", " -0 ", "-0.00", "  ", "()", "steal -", "siblings -", "memory -", "other -"]
    {
        assert!(!said.contains(never), "{facts}: `{never}` in {said}");
    }
    let is_clean = said.contains("Undisturbed") || said.contains("No neighbor took its CPU");
    assert!(!(is_clean && said.contains("stolen")), "{facts}: {said}");
    assert!(!(is_clean && said.contains("Lost")), "{facts}: {said}");
    for of_time in said.split(" % of its").skip(1).zip(said.split(" % of its")) {
        if !of_time.0.starts_with(" compute") {
            let number = of_time.1.rsplit([' ', '<']).next().unwrap().replace(',', "");
            assert!(number.parse::<f64>().unwrap() <= 100.0, "{facts}: more than all in {said}");
        }
    }
}

fn table(rows: Vec<(&str, String)>) -> String {
    rows.into_iter().fold(String::new(), |mut out, (facts, said)| {
        check(facts, &said);
        let _ = writeln!(out, "{facts}\n    {}", said.trim_end().replace('\n', "\n    "));
        out
    })
}

#[test]
fn the_sentences_of_a_profile() {
    let busy = |compute_ms: u64| Did { compute_ns: compute_ms * MS, ..Did::default() };
    let held = |stopped_ms: u64, frozen_ms: u64| {
        Some(Held { stopped_ns: stopped_ms * MS, frozen_ns: frozen_ms * MS })
    };
    let report = |did: &Did| ProfileReport::new(&meta(), &alone(did), SUBJECT, &[]);
    let with = |did: &Did, change: &dyn Fn(&mut ProfileReport)| {
        let mut report = report(did);
        change(&mut report);
        report
    };
    let lost = |share: [f64; 3]| {
        let spare = share[1] - share[0];
        move |r: &mut ProfileReport| r.lost = Some(LostTime { wall_ns: S, share, spare, stopped_anyway: 0.0 })
    };
    let blocks = |block: Block| move |r: &mut ProfileReport| r.subject.account.block = Some(block);
    let pipes = |ns| Block { pipe_ns: ns, ..Block::default() };
    let stolen = |compute_ms, ms: u64| Did { stolen: vec![(POSTGRES, ms * MS)], ..busy(compute_ms) };
    let own = |compute_ms, ms: u64| Did { stolen: vec![(SUBJECT, ms * MS)], ..busy(compute_ms) };
    let short = |r: &mut ProfileReport| {
        let l = &mut r.subject.account.ledger;
        r.machine.host_steal_ns = Some(0);
        (r.window_ns, l.compute_ns, l.total_ns, l.block_ns) = (MS, MS, MS, 0);
        r.subject.account.block = Some(Block::default());
    };
    let hypervisor = |r: &mut ProfileReport| r.machine.host_steal_ns = Some(400 * MS);
    let all = ProfileReport::new(&meta(), &alone(&busy(500)), Subject::All, &[]);
    let all_wait = ProfileReport::new(&meta(), &alone(&stolen(500, 1)), Subject::All, &[]);
    let rows: Vec<(&str, ProfileReport)> = vec![
        ("alone on the machine, computes all the time", report(&busy(1_000))),
        ("a run of 1 ms", with(&busy(500), &short)),
        ("a neighbour took a quarter", with(&stolen(750, 250), &lost([0.25; 3]))),
        ("stolen from a sleeper", with(&stolen(100, 50), &lost([0.0, 0.05, 0.05]))),
        ("stolen, and some of it perhaps from its sleep", with(&stolen(500, 300), &lost([0.1, 0.3, 0.3]))),
        ("stolen, and the wall time lost nothing", with(&stolen(500, 300), &lost([0.0; 3]))),
        ("lost by evidence, hardly stolen", with(&stolen(900, 1), &lost([0.03; 3]))),
        ("starved", report(&stolen(0, 1_000))),
        ("only throttled", report(&Did { throttled_ns: 400 * MS, ..busy(500) })),
        ("throttled nearly always", report(&Did { throttled_ns: 980 * MS, ..busy(20) })),
        ("throttled, never ran", report(&Did { throttled_ns: 1_000 * MS, ..busy(0) })),
        ("throttled and stolen", with(&Did { throttled_ns: 400 * MS, ..stolen(500, 100) }, &lost([0.1; 3]))),
        (
            "stolen, perhaps of a time in which its budget stops it",
            with(&Did { throttled_ns: 200 * MS, ..stolen(500, 300) }, &|r| {
                let share = [0.0, 0.1, 0.1];
                r.lost = Some(LostTime { wall_ns: S, share, spare: 0.1, stopped_anyway: 0.1 });
            }),
        ),
        (
            "throttled, and a neighbour took next to nothing",
            report(&Did { throttled_ns: 400 * MS, stolen: vec![(POSTGRES, MS)], ..busy(500) }),
        ),
        ("stopped", report(&Did { held: held(750, 0), ..busy(250) })),
        ("frozen, and asleep otherwise", report(&Did { held: held(0, 900), ..busy(0) })),
        (
            "stopped, frozen, throttled",
            report(&Did { held: held(300, 300), throttled_ns: 200 * MS, ..busy(200) }),
        ),
        ("a CPU that was off", report(&Did { unknown_ns: 300 * MS, ..busy(700) })),
        (
            "a CPU that was off, and a quota",
            report(&Did { unknown_ns: 300 * MS, throttled_ns: 300 * MS, ..busy(400) }),
        ),
        ("nothing was seen", report(&Did { unknown_ns: 1_000 * MS, ..busy(0) })),
        ("little was seen, and that asleep", report(&Did { unknown_ns: 200 * MS, ..busy(0) })),
        ("only the hypervisor", with(&busy(1_000), &hypervisor)),
        ("the hypervisor and a neighbour", with(&stolen(750, 250), &hypervisor)),
        ("the hypervisor and a quota", with(&Did { throttled_ns: 500 * MS, ..busy(500) }, &hypervisor)),
        ("a thin client", with(&busy(10), &blocks(pipes(990 * MS)))),
        ("a thin client that was stolen from", with(&stolen(10, 30), &blocks(pipes(960 * MS)))),
        ("a thin client that never ran", with(&busy(0), &blocks(pipes(1_000 * MS)))),
        (
            "a pipe that waits for its own sleeper",
            with(&busy(10), &blocks(Block { pipe_ns: 990 * MS, sleep_ns: 990 * MS, ..Block::default() })),
        ),
        ("a sleeper", with(&busy(10), &blocks(Block { sleep_ns: 990 * MS, ..Block::default() }))),
        ("its own tasks in each other's way", report(&own(500, 450))),
        ("everything is the subject", report(&own(990, 10))),
        ("computed 9 ms, woke up late", report(&Did { stolen: vec![(IDLE, 2 * MS)], ..busy(9) })),
        ("only the kernel", report(&Did { stolen: vec![(KERNEL, 100 * MS)], ..busy(500) })),
        ("parked by corun", report(&Did { parked_ns: 500 * MS, ..busy(500) })),
        ("nobody knows who", report(&Did { unattributed_ns: 250 * MS, ..busy(500) })),
        (
            "some known, most not",
            report(&Did { unattributed_ns: 250 * MS, stolen: vec![(COMPILER, 20 * MS)], ..busy(500) }),
        ),
        (
            "a shell of short commands, looked at now and then",
            with(&stolen(100, 50), &|r| {
                lost([0.0, 0.01, 0.4])(r);
                r.loss.unseen_ns = S;
            }),
        ),
        ("lost half, alone", with(&stolen(500, 500), &lost([0.5; 3]))),
        (
            "lost half, two tasks that may have spun unseen",
            with(&stolen(500, 500), &|r| {
                lost([0.5; 3])(r);
                r.subject.task_count = 2;
            }),
        ),
        ("spun", report(&Did { spin_ns: Some(300 * MS), ..busy(500) })),
        ("a loss that is no number", with(&stolen(500, 100), &lost([f64::NAN; 3]))),
        (
            "a wall time of nothing",
            with(&stolen(500, 100), &|r| {
                r.lost = Some(LostTime { wall_ns: 0, share: [1.0; 3], spare: 0.0, stopped_anyway: 0.0 })
            }),
        ),
        ("everybody, and nobody waits", all),
        ("everybody, and next to nobody waits", all_wait),
    ];
    let said = rows.iter().map(|(facts, report)| {
        let said = [answer::headline(report)].into_iter().chain(answer::cautions(report));
        (*facts, said.collect::<Vec<_>>().join("\n! "))
    });
    insta::assert_snapshot!(table(said.collect()));
}

#[test]
fn the_sentences_of_verify() {
    let culprit = |who: Option<&str>, share: f64| Culprit {
        tenant: who.map(str::to_owned),
        kind: "command".into(),
        steal_ns: (share * 1e9) as u64,
        share,
    };
    let judged = |verdict, doubt, disturbance: f64| Verdict {
        verdict,
        doubt,
        disturbance,
        disturbance_range: [disturbance; 2],
        spare: 0.0,
        stopped_anyway: 0.0,
        may_have_spun: false,
        method: Method::Ledger,
        max_disturbance: 0.02,
        resolution: 0.001,
        wall_ns: 4 * S,
        undisturbed_ns: (4e9 * (1.0 - disturbance)) as u64,
        held: Some(0.0),
        outside: Some(0.0),
        servers: None,
        cut_short: None,
        corunners_ns: 0,
        host_steal: Some(0.0),
        unseen_ns: 0,
        watcher_ns: None,
        pace: None,
        culprits: vec![culprit(Some("ffmpeg"), 1.0)],
        intervals: vec![],
        unavailable: vec![],
    };
    let clean = || judged(Ruling::Clean, None, 0.004);
    let disturbed = || judged(Ruling::Disturbed, None, 0.12);
    let unclear = |doubt, disturbance| judged(Ruling::Unclear, Some(doubt), disturbance);
    let spares = |disturbance_range, spare, disturbance| Verdict {
        disturbance_range,
        spare,
        ..unclear(Doubt::Spare, disturbance)
    };
    let after = |exit_status, signal| VerifyMeta { exit_status, signal, ..VerifyMeta::default() };
    let cut_by = |by, taken| Some(CutShort { name: Some("cc1".into()), by, after_ns: 3 * S, taken });
    let (cut, timed) = (|taken| cut_by(CutBy::Signal, taken), || cut_by(CutBy::Timer, 0.5));
    let interval = |n: u64, disturbance| Disturbance {
        start_ns: n * 500 * MS,
        end_ns: n * 500 * MS + 300 * MS,
        disturbance,
        culprit: Some("ffmpeg".into()),
    };
    let no = VerifyMeta::default;
    let rows: Vec<(&str, VerifyMeta, Verdict)> = vec![
        ("alone", no(), Verdict { disturbance: 0.0, culprits: vec![], ..clean() }),
        ("a little, as was allowed", no(), clean()),
        ("it may have spun unseen", no(), Verdict { may_have_spun: true, ..disturbed() }),
        (
            "it may have spun unseen, and lost nothing",
            no(),
            Verdict { may_have_spun: true, disturbance: 0.0, culprits: vec![], ..clean() },
        ),
        ("a run of 1 ms", no(), Verdict { wall_ns: MS, resolution: 0.035, ..clean() }),
        ("a run of no time", no(), Verdict { wall_ns: 0, resolution: 0.035, disturbance: 0.0, ..clean() }),
        ("it failed", after(1, None), clean()),
        ("it was killed, and disturbed", after(137, Some(9)), disturbed()),
        (
            "a run of 1 ms that waited for corun to let it begin",
            no(),
            Verdict { outside: Some(0.8), wall_ns: MS, resolution: 0.035, ..clean() },
        ),
        ("a thin client", no(), Verdict { outside: Some(0.962), ..clean() }),
        (
            "it waits for others for less than half of its time",
            no(),
            Verdict { outside: Some(0.31), ..clean() },
        ),
        ("it waits for others for less than may be lost", no(), Verdict { outside: Some(0.01), ..clean() }),
        ("a thin client that was disturbed", no(), Verdict { outside: Some(0.62), ..disturbed() }),
        (
            "nobody measured what it waits for",
            no(),
            Verdict { outside: None, held: None, host_steal: None, ..clean() },
        ),
        (
            "too short to tell",
            no(),
            Verdict { resolution: 0.035, wall_ns: 100 * MS, ..unclear(Doubt::Short, 0.03) },
        ),
        ("stolen from a sleeper", no(), spares([0.0, 0.5], 0.3, 0.3)),
        ("partly from its sleep", no(), spares([0.01, 0.5], 0.29, 0.3)),
        ("lost according to a replay, which may be off by as much", no(), spares([0.0, 0.1], 0.0, 0.04)),
        (
            "stolen, perhaps of a time in which its budget stops it",
            no(),
            Verdict { stopped_anyway: 0.1, ..spares([0.0, 0.1], 0.1, 0.1) },
        ),
        ("stopped", no(), Verdict { held: Some(0.75), ..unclear(Doubt::Held, 0.0) }),
        ("stopped and disturbed", no(), Verdict { held: Some(0.49), ..disturbed() }),
        ("a signal ended what was starved", no(), Verdict { cut_short: cut(0.12), ..disturbed() }),
        (
            "a signal ended the command, which was starved",
            after(137, Some(9)),
            Verdict { cut_short: cut(0.12), ..disturbed() },
        ),
        (
            "a signal ended what was starved, and what waits for it kept its time",
            no(),
            Verdict { cut_short: cut(0.5), ..unclear(Doubt::Cut, 0.004) },
        ),
        ("its own timer ended it", no(), Verdict { cut_short: timed(), ..unclear(Doubt::Cut, 0.004) }),
        ("a signal ended what nobody starved", no(), Verdict { cut_short: cut(0.001), ..clean() }),
        ("it was not seen", no(), unclear(Doubt::Unseen, 0.0)),
        (
            "much of it was too short to look at",
            no(),
            Verdict { disturbance_range: [0.0, 0.5], unseen_ns: S, ..unclear(Doubt::Hasty, 0.01) },
        ),
        (
            "nothing bounds its loss",
            no(),
            Verdict { disturbance_range: [0.0, 0.4], ..unclear(Doubt::Unbounded, 0.01) },
        ),
        ("only the hypervisor", no(), Verdict { host_steal: Some(0.3), ..unclear(Doubt::Hypervisor, 0.0) }),
        ("the hypervisor and a neighbour", no(), Verdict { host_steal: Some(0.3), ..disturbed() }),
        (
            "by many",
            no(),
            Verdict { culprits: vec![culprit(Some("a"), 0.3), culprit(Some("b"), 0.2)], ..disturbed() },
        ),
        (
            "by nobody known",
            no(),
            Verdict { culprits: vec![culprit(None, 0.9), culprit(Some("b"), 0.1)], ..disturbed() },
        ),
        ("by no culprit at all", no(), Verdict { culprits: vec![], ..disturbed() }),
        (
            "now and then",
            no(),
            Verdict { intervals: (0..7).map(|n| interval(n, 0.2 + 0.1 * n as f64)).collect(), ..disturbed() },
        ),
        (
            "all of it",
            no(),
            Verdict {
                intervals: vec![Disturbance { end_ns: 4 * S, ..interval(0, 1.0) }],
                ..judged(Ruling::Disturbed, None, 1.0)
            },
        ),
    ];
    let said = rows
        .into_iter()
        .map(|(facts, meta, verdict)| (facts, VerifyReport::new(meta, verdict, &[], &[]).text()));
    insta::assert_snapshot!(table(said.map(|(facts, said)| (facts, said.replace("\n  ", "\n"))).collect()));
}

#[test]
fn the_sentences_of_predict() {
    let estimate = |slowdown: f64, interval: [f64; 2]| Estimate {
        slowdown,
        interval,
        confidence: 0.95,
        may_have_spun: false,
        parts: Parts { steal: slowdown - 1.0, ..Parts::default() },
        culprits: vec![Culprit {
            tenant: Some("ffmpeg".into()),
            kind: "command".into(),
            steal_ns: S,
            share: 0.9,
        }],
        baselines: Baselines::default(),
        windows: vec![],
        unavailable: vec![],
        method: Method::Ledger,
        slowest_task: None,
        phases: 1,
        throttled: 0.0,
        held: 0.0,
        frozen: 0.0,
    };
    let nobody = |e: Estimate| Estimate { culprits: vec![], ..e };
    let made_of =
        |e: Estimate, steal, sync, other| Estimate { parts: Parts { steal, sync, other, memory: None }, ..e };
    let waited = |waited| Err(CannotTell::OnlyWaited(waited));
    let rows: Vec<(&str, Result<Estimate, CannotTell>)> = vec![
        ("alone", Ok(nobody(estimate(1.0, [1.0, 1.0])))),
        ("alone, as far as so little tells", Ok(nobody(estimate(1.0, [1.0, 1.4])))),
        ("a little slower", Ok(estimate(1.03, [1.02, 1.05]))),
        ("at half speed", Ok(estimate(2.0, [1.9, 2.1]))),
        ("slower, perhaps", Ok(estimate(1.3, [1.0, 1.3]))),
        ("slower, by nobody known", Ok(nobody(estimate(1.3, [1.2, 1.4])))),
        ("faster than alone", Ok(nobody(estimate(0.9, [0.85, 0.95])))),
        ("made of several parts", Ok(made_of(estimate(2.0, [1.9, 2.1]), 0.6, 0.3, 0.1))),
        ("a part too small to be said", Ok(made_of(estimate(2.0, [1.9, 2.1]), 0.996, 0.004, 0.0))),
        ("a thin client", Ok(nobody(estimate(1.0, [1.0, 1.02])))),
        ("a thin client that is stolen from", Ok(estimate(1.05, [1.03, 1.1]))),
        ("half a thin client, and no more", Ok(nobody(estimate(1.0, [1.0, 1.02])))),
        ("its quota stops it", Ok(Estimate { throttled: 0.78, ..nobody(estimate(1.0, [1.0, 1.0])) })),
        ("somebody stops it, a neighbour steals", Ok(Estimate { held: 0.5, ..estimate(1.3, [1.2, 1.4]) })),
        ("both", Ok(Estimate { held: 0.3, throttled: 0.3, ..nobody(estimate(1.0, [1.0, 1.0])) })),
        ("its threads may have spun", Ok(Estimate { may_have_spun: true, ..estimate(2.0, [1.9, 2.1]) })),
        (
            "its threads may have spun, or not",
            Ok(Estimate { may_have_spun: true, ..estimate(1.01, [0.9, 1.2]) }),
        ),
        ("no number", Ok(nobody(estimate(f64::NAN, [f64::NAN; 2])))),
        ("no end", Ok(nobody(estimate(f64::INFINITY, [1.0, f64::INFINITY])))),
        (
            "frozen, and ran otherwise",
            Ok(Estimate { held: 0.8, frozen: 0.8, ..nobody(estimate(1.0, [1.0, 1.0])) }),
        ),
        ("stopped, then frozen", Ok(Estimate { held: 0.5, frozen: 0.3, ..estimate(1.3, [1.2, 1.4]) })),
        ("a little of each", Ok(Estimate { held: 0.06, frozen: 0.03, ..nobody(estimate(1.0, [1.0, 1.0])) })),
        (
            "next to nothing of each",
            Ok(Estimate { held: 0.02, frozen: 0.01, ..nobody(estimate(1.0, [1.0, 1.0])) }),
        ),
        ("did not run", waited(Waited::default())),
        ("did not run: asleep", waited(Waited { life_ns: S, ..Waited::default() })),
        ("did not run: frozen", waited(Waited { life_ns: S, frozen_ns: S, ..Waited::default() })),
        ("did not run: stopped", waited(Waited { life_ns: S, stopped_ns: S, ..Waited::default() })),
        ("did not run: throttled", waited(Waited { life_ns: S, throttled_ns: S, ..Waited::default() })),
        ("did not run: starved", waited(Waited { life_ns: S, stolen_ns: S, ..Waited::default() })),
        (
            "did not run: half of it frozen, asleep",
            waited(Waited { life_ns: S, frozen_ns: S / 2, ..Waited::default() }),
        ),
        (
            "did not run: all of these",
            waited(Waited {
                life_ns: S,
                throttled_ns: S / 4,
                stopped_ns: S / 4,
                frozen_ns: S / 4,
                stolen_ns: S / 4,
            }),
        ),
        (
            "did not run: a little of each",
            waited(Waited { life_ns: S, stopped_ns: S / 25, frozen_ns: S / 25, ..Waited::default() }),
        ),
    ];
    let meta = PredictMeta {
        target: "./solver".into(),
        machine: "2 CPUs".into(),
        date: None,
        source: "ebpf".into(),
        spin: None,
        counters: false,
    };
    let said = rows.into_iter().map(|(facts, estimate)| {
        let outside = match facts {
            _ if facts.starts_with("a thin client") => Some(0.962),
            _ if facts.starts_with("half a thin client") => Some(0.49),
            _ if facts.starts_with("did not run") => None,
            _ => Some(0.0),
        };
        let estimates = Estimates { now: estimate.clone(), so_far: estimate, outside, servers: None };
        (facts, corun_report::predict::line(&PredictReport::new(&meta, S, &estimates, Covers::Run, &[])))
    });
    insta::assert_snapshot!(table(said.collect()));
}

#[test]
fn the_sentences_of_control_about_a_decision() {
    use corun_model::reason::{Kept, Release, Rule, SlotPart, Then};
    use corun_model::refusal::{Protected, ProtectedBy};
    use corun_model::{Action, CpuId, Decision, Fate, Outcome, Reason, Refusal, TaskId, TenantId};
    use corun_report::control::Decided;

    let seen = alone(&Did::default());
    let slot = |part, rule| Reason::Slot { number: Some(8), part, rule };
    let tried = |who: Option<&str>, percent| Rule::Tried { who: who.map(str::to_owned), percent };
    let parks = |part, rule| (Action::Park { tenant: POSTGRES }, slot(part, rule));
    let lets = |why| (Action::Unpark { tenant: POSTGRES }, Reason::Release(why));
    let of_window = |action| (action, Reason::DedicatedWindow { of: "solver".into() });
    let protected = |why| Refusal::Protected(Protected { name: Some("sshd".into()), pid: Some(7), why });
    let refused = |why| Fate::Applied(Outcome::Refused { why });
    let done = || Fate::Applied(Outcome::Done);
    let lag = |lag_millionths| Reason::Lag { computed_percent: 60, fair_percent: 40, lag_millionths };
    let slice = |min_ns, max_ns| Action::Slice { task: TaskId(12), min_ns, max_ns };
    let rows: Vec<(&str, (Action, Reason), Fate)> = vec![
        ("waits out a slot", parks(SlotPart::Waits, Rule::Single), done()),
        ("tried, and somebody starves", parks(SlotPart::Waits, tried(Some("solver"), 0)), done()),
        ("tried, and nobody lacks anything", parks(SlotPart::Waits, tried(None, 100)), done()),
        (
            "kept, since somebody does nothing without",
            parks(SlotPart::Waits, Rule::Kept(Kept::NothingWithout { who: "solver".into() })),
            done(),
        ),
        ("a dedicated window", of_window(Action::Park { tenant: POSTGRES }), done()),
        ("let go at the end of one", lets(Release::WindowIsOver), done()),
        ("let go, since it helps nobody", lets(Release::HelpNobody { gain_milli: 0 }), done()),
        ("let go, and slots would cost", lets(Release::HelpNobody { gain_milli: -3 }), done()),
        (
            "let go, since somebody would get too little",
            lets(Release::LeavesLess { who: "solver".into(), percent: 0, then: Then::LeftAlone }),
            done(),
        ),
        ("a dry run", parks(SlotPart::Waits, Rule::Single), Fate::DryRun),
        ("a dry run of what only a real one can tell", parks(SlotPart::Waits, Rule::Single), Fate::Proposed),
        ("protected", parks(SlotPart::Waits, Rule::Single), refused(protected(ProtectedBy::Keeper))),
        (
            "protected by the user",
            parks(SlotPart::Waits, Rule::Single),
            refused(protected(ProtectedBy::User { word: "sshd".into() })),
        ),
        (
            "not in scope",
            parks(SlotPart::Waits, Rule::Single),
            refused(Refusal::NotInScope { tenant: "postgresql.service".into() }),
        ),
        ("it has no process any more", parks(SlotPart::Waits, Rule::Single), refused(Refusal::NobodyLeft)),
        (
            "nobody may be parked by this user",
            parks(SlotPart::Waits, Rule::Single),
            refused(Refusal::NotPermitted { whom: "PID 7".into(), error: "Operation not permitted".into() }),
        ),
        (
            "a tenant that nobody knows",
            (Action::Park { tenant: TenantId(999) }, slot(SlotPart::Waits, Rule::Single)),
            refused(Refusal::NoTenant(TenantId(999))),
        ),
        (
            "a task that nobody knows",
            (slice(2 * MS, 30 * MS), lag(204_000)),
            refused(Refusal::NoTask(TaskId(12))),
        ),
        ("no lag at all", (slice(3 * MS, 3 * MS), lag(0)), done()),
        (
            "no delay",
            (Action::PreemptDelay { task: TaskId(12), delay_ns: 0 }, Reason::NewTaskOwnDelay),
            done(),
        ),
        (
            "a slice that no kernel gives",
            (slice(0, 0), lag(-1)),
            refused(Refusal::Slice { min_ns: 0, max_ns: 0, bounds_ns: Some((100_000, 100 * MS)) }),
        ),
        (
            "no CPU is left",
            (Action::Cpus { task: TaskId(12), cpus: vec![] }, Reason::NobodyShares),
            refused(Refusal::NoCpu),
        ),
        (
            "CPUs with a hole",
            (Action::Cpus { task: TaskId(12), cpus: [0, 1, 2, 8].map(CpuId).to_vec() }, Reason::NobodyShares),
            done(),
        ),
        ("a weight", (Action::Weight { tenant: POSTGRES, weight: 1 }, Reason::NobodyShares), done()),
        (
            "a weight that is none",
            (Action::Weight { tenant: POSTGRES, weight: 0 }, Reason::NobodyShares),
            refused(Refusal::Weight(0)),
        ),
    ];
    let said = rows.into_iter().map(|(facts, (action, because), fate)| {
        let decision = Decision { action, because };
        (facts, Decided::new(&decision, &fate, &seen).line(12_300 * MS).trim_start().replacen("  ", " ", 1))
    });
    insta::assert_snapshot!(table(said.collect()));
}

#[test]
fn the_sentences_of_control_in_the_end() {
    use corun_report::control::GuardLine;
    let guard = |state, gain| GuardLine { state, gain, pairs: Some(3) }.sentence("auto");
    let said = [
        ("nothing is known yet", guard("measuring", None)),
        ("it helps", guard("helps", Some(0.36))),
        ("it helps by next to nothing", guard("helps", Some(0.0004))),
        ("it gains nothing", guard("reverted", Some(0.0))),
        ("it costs", guard("reverted", Some(-0.12))),
    ];
    let said = said.map(|(facts, said)| (facts, said.unwrap_or_else(|| "(nothing)".into())));
    insta::assert_snapshot!(table(said.into()));
}

#[test]
fn the_answer_to_whether_control_helped() {
    use corun_model::reason::{Kept, Release, Rule, SlotPart};
    use corun_model::{Action, Decision, Fate, Outcome, Reason, TaskId};
    use corun_report::control::history::History;
    use corun_report::control::page::Controlled;
    use corun_report::control::{ControlSummary, Decided, GuardLine};

    let seen = alone(&Did::default());
    let slot = Reason::Slot { number: Some(8), part: SlotPart::Waits, rule: Rule::Single };
    let parks = Decision { action: Action::Park { tenant: POSTGRES }, because: slot };
    let since = |rule| Decision {
        because: Reason::Slot { number: None, part: SlotPart::Waits, rule },
        ..parks.clone()
    };
    let kept = since(Rule::Kept(Kept::More { who: "solver".into(), times_percent: 242 }));
    let free = since(Rule::Kept(Kept::Free));
    let tried = since(Rule::Tried { who: None, percent: 50 });
    let lets = Decision {
        action: Action::Unpark { tenant: POSTGRES },
        because: Reason::Release(Release::HelpNobody { gain_milli: 3 }),
    };
    let delays = Decision {
        action: Action::PreemptDelay { task: TaskId(12), delay_ns: 1 },
        because: Reason::NewTaskSlices,
    };
    let done = Fate::Applied(Outcome::Done);
    let answer = |backend, guard, decided: &[(&Decision, Fate)]| {
        let mut history = History::new(seen.start_ns);
        for (n, (decision, fate)) in decided.iter().enumerate() {
            history.decided(seen.start_ns + n as u64, decision, &Decided::new(decision, fate, &seen));
        }
        history.window(&seen, true, |_| true);
        history.undone(seen.end_ns, "the end", None);
        let summary = ControlSummary::default();
        Controlled { policy: "gang", backend, guard, history: &history, summary: &summary }.answer()
    };
    let guard = |state, gain, pairs| Some(GuardLine { state, gain, pairs });
    let measuring = |pairs| guard("measuring", None, Some(pairs));
    let helps = || guard("helps", Some(0.36), None);
    let own = |decided: &[&Decision]| {
        let decided: Vec<(&Decision, Fate)> = decided.iter().map(|d| (*d, done.clone())).collect();
        answer("stock", None, &decided)
    };
    let said = vec![
        ("it helped", answer("stock", helps(), &[(&parks, done.clone())])),
        ("the guard saw nothing yet", answer("stock", measuring(0), &[(&parks, done.clone())])),
        ("the guard saw one pair", answer("stock", measuring(1), &[(&parks, done.clone())])),
        ("nothing was decided under a guard", answer("stock", measuring(4), &[])),
        ("it asked by itself, and kept slots", own(&[&tried, &kept])),
        ("it asked by itself, and slots cost nothing", own(&[&tried, &free])),
        ("it asked by itself, and ended too early", own(&[&tried])),
        ("it asked by itself, and slots help nobody", own(&[&tried, &lets])),
        ("no guard, and somebody was parked", answer("stock", None, &[(&parks, done.clone())])),
        ("no guard, and knobs were turned", answer("stock", None, &[(&delays, done)])),
        ("a dry run that would park", answer("none", None, &[(&parks, Fate::DryRun)])),
        ("a dry run of what only a real run tells", answer("none", None, &[(&parks, Fate::Proposed)])),
        ("a dry run in which nothing was decided", answer("none", None, &[])),
    ];
    insta::assert_snapshot!(table(said));
}
