//! What is said of those that a program waits for, as a table: the same in profile, verify and predict.

use crate::example::{alone, meta, Did, SUBJECT};
use corun_predict::servers::{Bounds, Holder, Server};
use corun_report::profile::schema::Block;
use corun_report::{answer, ProfileReport};

const MS: u64 = 1_000_000;

/// A server for which a client waited for so many of 1,000 ms.
fn server(
    tenant: &str,
    waited_ms: u64,
    [queued, throttled, held]: [Bounds; 3],
    holders: &[(&str, u64)],
) -> Server {
    let ns = |bounds: Bounds| bounds.map(|ms| ms * MS);
    let holder = |&(tenant, ms): &(&str, u64)| Holder {
        tenant: tenant.to_owned(),
        kind: "command".to_owned(),
        steal_ns: ms * MS,
    };
    let culprits: Vec<Holder> = holders.iter().map(holder).collect();
    let known_ns: u64 = culprits.iter().map(|c| c.steal_ns).sum();
    Server {
        tenant: tenant.to_owned(),
        kind: "unit".to_owned(),
        waited_ns: waited_ms * MS,
        queued_ns: ns(queued),
        throttled_ns: ns(throttled),
        held_ns: ns(held),
        culprits,
        unattributed_ns: queued[1] * MS - known_ns,
    }
}

/// The report on a client that computed for 10 ms and waited for 990.
fn report(servers: Option<Vec<Server>>) -> ProfileReport {
    let did = Did { compute_ns: 10 * MS, ..Did::default() };
    let mut report = ProfileReport::new(&meta(), &alone(&did), SUBJECT, &[]);
    report.subject.account.block = Some(Block { pipe_ns: 990 * MS, ..Block::default() });
    ProfileReport { servers, ..report }
}

#[test]
fn the_sentences_about_those_that_a_program_waits_for() {
    const NO: Bounds = [0, 0];
    let redis = |bounds, holders: &[(&str, u64)]| vec![server("redis.service", 930, bounds, holders)];
    let rows: Vec<(&str, Option<Vec<Server>>)> = vec![
        ("nobody knows", None),
        ("only timers, devices and networks ended its waits", Some(vec![])),
        ("a server that nobody kept", Some(redis([NO; 3], &[]))),
        ("a server that was kept for a moment", Some(redis([[0, 3], NO, NO], &[("loop", 3)]))),
        ("a starved server", Some(redis([[440, 470], NO, NO], &[("loop", 470)]))),
        (
            "a server starved by many",
            Some(redis([[440, 470], NO, NO], &[("a", 200), ("b", 170), ("c", 100)])),
        ),
        ("a server starved by nobody known", Some(redis([[440, 470], NO, NO], &[]))),
        ("perhaps starved, perhaps while it was idle", Some(redis([[0, 250], NO, NO], &[("loop", 250)]))),
        ("a throttled server", Some(redis([NO, [600, 700], NO], &[]))),
        ("a stopped server", Some(redis([NO, NO, [800, 800]], &[]))),
        ("all of it", Some(redis([[100, 200], [0, 300], [50, 100]], &[("loop", 150)]))),
        (
            "two servers",
            Some(vec![
                server("redis.service", 500, [[200, 250], NO, NO], &[("loop", 250)]),
                server("postgresql.service", 300, [NO, NO, NO], &[]),
            ]),
        ),
        (
            "three servers, starved by one of a name",
            Some(vec![
                server("redis.service", 500, [[200, 250], NO, NO], &[("cc1", 120), ("other", 130)]),
                server("postgresql.service", 300, [[0, 50], NO, NO], &[("cc1", 50)]),
                server("sshd.service", 1, [NO, NO, NO], &[]),
            ]),
        ),
        ("a server that it hardly needed", Some(vec![server("redis.service", 2, [[1, 2], NO, NO], &[])])),
    ];
    let mut said = String::new();
    for (facts, servers) in rows {
        let report = report(servers);
        report.check().unwrap_or_else(|wrong| panic!("{facts}: {wrong:?}"));
        said += &format!("{facts}\n    {}\n", answer::headline(&report));
    }
    insta::assert_snapshot!(said);
}

#[test]
fn a_report_in_which_a_servers_time_does_not_sum_is_refused() {
    let of = |change: fn(&mut Server)| {
        let mut starved = server("redis", 900, [[400, 500], [0, 0], [0, 0]], &[("loop", 500)]);
        change(&mut starved);
        report(Some(vec![starved])).check().is_ok()
    };
    assert!(of(|_| {}));
    assert!(!of(|s| s.culprits[0].steal_ns += 1));
    assert!(!of(|s| s.unattributed_ns += 1));
    assert!(!of(|s| s.queued_ns[0] = s.queued_ns[1] + 1));
    assert!(!of(|s| s.held_ns[1] = s.waited_ns + 1));
}
