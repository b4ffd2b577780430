//! From windows into a ring and back: bounded, and with complete sums.

use crate::made::{renumber, window, window_of, WINDOW_NS};
use corun_agent::past::{self, NoPast};
use corun_agent::recorder::Recorder;
use corun_agent::ring::{Reader, Run};
use corun_agent::stretch::{self, Which};
use corun_model::culprit::Share;
use corun_model::recording::{bound, Most};
use corun_model::{Culprits, Observation, TenantId, TenantKind};
use std::path::Path;

const EPOCH_NS: u64 = 1_800_000_000_000_000_000;

fn recorder(folder: &Path, began_unix_ns: u64) -> Recorder {
    let run =
        Run { source: "ebpf".into(), machine: "two CPUs".into(), cpus: 2, began_unix_ns, ..Run::default() };
    Recorder::open(folder, 1 << 20, 2 * WINDOW_NS, &run).unwrap()
}

fn push(recorder: &mut Recorder, seen: &Observation) {
    recorder.push(seen, EPOCH_NS + seen.end_ns).unwrap();
}

fn steal_ns(seen: &Observation) -> u64 {
    seen.by_tenant.iter().map(|t| t.account.ledger.parts().steal_ns).sum()
}

#[test]
fn a_time_is_combined_from_its_windows_and_a_hole_in_it_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let mut kept = recorder(folder.path(), 1);
    let windows: Vec<Observation> = (0..12).map(|n| window(n, 4)).collect();
    // The seventh and eighth are never seen.
    windows.iter().enumerate().filter(|(n, _)| ![6, 7].contains(n)).for_each(|(_, w)| push(&mut kept, w));
    kept.flush(EPOCH_NS + 12 * WINDOW_NS).unwrap();
    assert_eq!((kept.counts().0, kept.counts().1), (5, 0), "two windows each");
    let reader = Reader::open(folder.path()).unwrap();
    let all = past::read(&reader, 0..u64::MAX, None).ok().unwrap();
    let whole = all.recording.whole().unwrap();
    whole.check().unwrap();
    let expected: u64 =
        windows.iter().enumerate().filter(|(n, _)| ![6, 7].contains(n)).map(|(_, w)| steal_ns(w)).sum();
    assert_eq!(steal_ns(whole), expected);
    assert_eq!((whole.window_ns(), all.missing_ns), (10 * WINDOW_NS, 2 * WINDOW_NS));
    assert_eq!((all.unix_ns.clone(), all.other_runs), (EPOCH_NS..EPOCH_NS + 12 * WINDOW_NS, 0));
    assert_eq!(
        whole.by_tenant.iter().map(|t| t.tasks).collect::<Vec<_>>(),
        [1; 4],
        "the same tasks all the time"
    );

    let at = |n: u64| EPOCH_NS + n * WINDOW_NS;
    let some = past::read(&reader, at(2)..at(4), Some("web-1.service")).ok().unwrap();
    assert_eq!(some.subject.map(|t| t.id), Some(TenantId(1)));
    assert_eq!(some.recording.whole().unwrap().window_ns(), 2 * WINDOW_NS);
    let nobody = past::read(&reader, at(2)..at(4), Some("nobody")).err().unwrap();
    assert!(matches!(nobody, NoPast::NoTenant(there) if there.len() == 4));
    assert!(matches!(past::read(&reader, 1..2, None).err().unwrap(), NoPast::NoWindow(_)));
}

#[test]
fn an_interval_in_which_a_task_moved_to_another_tenant_is_read_back() {
    let folder = tempfile::tempdir().unwrap();
    let mut kept = recorder(folder.path(), 1);
    let mut windows: Vec<Observation> = (0..4).map(|n| window(n, 3)).collect();
    // The third task belongs to the second tenant from the second window on, like one that is put into a
    // job's cgroup.
    for seen in &mut windows[1..] {
        let gone = seen.by_tenant.pop().unwrap();
        seen.tasks[2].tenant = TenantId(1);
        seen.by_tenant[1].account.add(&gone.account);
        seen.by_tenant[1].tasks += 1;
        seen.check().unwrap();
    }
    windows.iter().for_each(|seen| push(&mut kept, seen));
    let reader = Reader::open(folder.path()).unwrap();
    let all = past::read(&reader, 0..u64::MAX, None).ok().unwrap();
    assert!(all.damages.is_empty(), "{:?}", all.damages);
    assert_eq!(all.missing_ns, 0);
    let whole = all.recording.whole().unwrap();
    whole.check().unwrap();
    assert_eq!(steal_ns(whole), windows.iter().map(steal_ns).sum::<u64>());
}

#[test]
fn of_two_runs_the_one_with_most_of_a_time_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let mut first = recorder(folder.path(), 1);
    (0..8).for_each(|n| push(&mut first, &window(n, 2)));
    drop(first);
    let mut second = recorder(folder.path(), 2);
    (8..12).for_each(|n| push(&mut second, &window(n, 2)));
    let reader = Reader::open(folder.path()).unwrap();
    let all = past::read(&reader, 0..u64::MAX, None).ok().unwrap();
    assert_eq!((all.run.began_unix_ns, all.other_runs), (1, 1));
    assert_eq!(all.recording.whole().unwrap().window_ns(), 8 * WINDOW_NS);
}

#[test]
fn after_a_clock_is_set_back_both_times_are_there() {
    let folder = tempfile::tempdir().unwrap();
    let mut kept = recorder(folder.path(), 1);
    // The host's own clock goes on; the time of day is ten seconds earlier from the fifth window on.
    let back_ns = |n: u64| if n < 4 { 0 } else { 10 * WINDOW_NS };
    for n in 0..8 {
        let seen = window(n, 2);
        kept.push(&seen, EPOCH_NS + 20 * WINDOW_NS + seen.end_ns - back_ns(n)).unwrap();
    }
    let reader = Reader::open(folder.path()).unwrap();
    let at = |n: u64| EPOCH_NS + n * WINDOW_NS;
    assert_eq!(reader.span(), Some(at(14)..at(24)));
    let length = |from: u64, to: u64| {
        let past = past::read(&reader, at(from)..at(to), None).ok().unwrap();
        past.recording.whole().unwrap().check().unwrap();
        past.recording.whole().unwrap().window_ns() / WINDOW_NS
    };
    assert_eq!((length(20, 24), length(14, 18), length(14, 24)), (4, 4, 8));
}

#[test]
fn a_window_before_1970_is_kept_as_such() {
    let folder = tempfile::tempdir().unwrap();
    let mut kept = recorder(folder.path(), 1);
    (0..2).for_each(|n| kept.push(&window(n, 2), 0).unwrap());
    let reader = Reader::open(folder.path()).unwrap();
    let all = past::read(&reader, 0..u64::MAX, None).ok().unwrap();
    assert_eq!((all.recording.whole().unwrap().window_ns(), all.damages), (2 * WINDOW_NS, vec![]));
}

#[test]
fn a_window_of_any_size_is_bounded_and_its_sums_are_complete() {
    let mut seen = window_of(0, 300, |t| (t + 7) % 300);
    renumber(&mut seen, |t| 10 * t);
    // Everybody kept one of them waiting.
    let steal = seen.by_tenant[0].account.culprits.total_ns();
    let shares = (0..300).map(|t| Share { tenant: TenantId(10 * t), steal_ns: u64::from(t) });
    let sum: u64 = (0..300).sum();
    seen.by_tenant[0].account.culprits = Culprits::new(shares, steal - sum, steal).unwrap();
    let before = seen.clone();
    let most = Most { tenants: 100, tasks: 50, culprits: 8 };
    bound(&mut seen, &most);
    seen.check().unwrap();
    assert!(seen.tenants.len() <= most.tenants + 1 && seen.tasks.len() <= most.tasks);
    assert!(seen.by_tenant.iter().all(|t| t.account.culprits.shares().len() <= most.culprits));
    assert_eq!(steal_ns(&seen), steal_ns(&before));
    assert_eq!(seen.loss.unlisted_tasks, 250);
    assert_eq!(seen.by_tenant.iter().map(|t| t.tasks).sum::<u64>(), 300);
    assert!(seen.tenants.iter().any(|t| t.kind == TenantKind::Others));
    let small = window(0, 5);
    let mut same = small.clone();
    bound(&mut same, &most);
    assert_eq!(same, small, "what fits is left as it is");
}

#[test]
fn the_windows_before_and_after_one_are_its_neighbors_however_late_the_agent_was_each_time() {
    const WINDOWS: u64 = 12;
    let folder = tempfile::tempdir().unwrap();
    let mut kept = Recorder::open(folder.path(), 1 << 20, WINDOW_NS, &Run::default()).unwrap();
    for n in 0..WINDOWS {
        let seen = window(n, 2);
        // So windows overlap, or have a gap between them.
        kept.push(&seen, EPOCH_NS + seen.end_ns + 1_000 * (n * n % 7)).unwrap();
    }
    let reader = Reader::open(folder.path()).unwrap();
    let of = |time| {
        let number = |_, _, seen: Observation| seen.start_ns / WINDOW_NS;
        stretch::read(&reader, time, Which::Last, number).stretch.unwrap()
    };
    let all = of(0..u64::MAX);
    assert!(all.times.windows(2).any(|t| t[0].end > t[1].start), "none overlap: {:?}", all.times);
    let most = stretch::Most { windows: 100, ns: u64::MAX };
    let few = stretch::Most { windows: 3, ..most };
    for (n, time) in (0..WINDOWS).zip(&all.times) {
        let before = stretch::before(&reader, time.start, most).map(|time| of(time).windows);
        assert_eq!(before.unwrap_or_default(), (0..n).collect::<Vec<_>>());
        let after = stretch::after(&reader, time.end, most).map(|time| of(time).windows);
        assert_eq!(after.unwrap_or_default(), (n + 1..WINDOWS).collect::<Vec<_>>());
        let last = stretch::before(&reader, time.start, few).map(|time| of(time).windows);
        assert!(last.unwrap_or_default().ends_with(&(n.saturating_sub(3)..n).collect::<Vec<_>>()));
        let first = stretch::after(&reader, time.end, few).map(|time| of(time).windows);
        let expected: Vec<u64> = (n + 1..WINDOWS).take(3).collect();
        assert!(first.unwrap_or_default().starts_with(&expected));
    }
}
