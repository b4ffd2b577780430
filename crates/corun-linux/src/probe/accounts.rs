//! From the probe's records to exact sums at a window's edge, and from two sums to an account.
//!
//! A record's intervals partition the task's life. So its sums up to an edge come from one of two sources. If
//! an event came later, the probe made a copy there. Otherwise they are the sums so far plus the open
//! interval up to the edge. The difference of the sums at two edges is the exact content of the window.

use super::occupants::{self, Charges};
use corun_bpf::layout::{state, Acc, GroupRec, Lengths, Occupancy, TaskRec, CLOCK_UNKNOWN};
use corun_model::events::Migrations;
use corun_model::ledger::{BlockReasons, Held, Parts};
use corun_model::{Events, Histogram};
use std::collections::BTreeMap;

/// A task's sums from its first instant up to an edge.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Sums {
    ns: [u64; state::ALL],
    blocked: u64,
    yielded: u64,
    preemptions: u64,
    wakeups: u64,
    migrations: [u64; 4],
    unattributed_ns: u64,
    others_ns: u64,
    culprits: BTreeMap<u32, u64>,
    waits: Histogram,
    stretches: Histogram,
}

/// Whether a task waits across an edge so that only the clock of its quota knows how much of the wait the
/// quota took. This is so if the quota was used up when the wait began, or at some time before.
pub(super) fn asks_the_clock(rec: &TaskRec, edge_ns: u64) -> bool {
    let is_open = rec.edge_ns != edge_ns && rec.since_ns < edge_ns;
    is_open
        && match rec.brief().open_state() {
            state::THROTTLED => true,
            state::WAIT => ![0, CLOCK_UNKNOWN].contains(&rec.throttled_at),
            _ => false,
        }
}

/// The share of a window: the result of [`Sums::since`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Share {
    /// The ledger's parts.
    pub parts: Parts,
    /// The block part by reason.
    pub block: BlockReasons,
    /// Switches, wake-ups, migrations.
    pub events: Events,
    /// Steal by culprit group.
    pub culprits: Charges,
    /// Steal by groups that did not fit into the record.
    pub others_ns: u64,
    /// Steal by nobody known.
    pub unattributed_ns: u64,
    /// Lengths of waits.
    pub waits: Histogram,
    /// Lengths of stretches on a CPU.
    pub stretches: Histogram,
    /// Nanoseconds that this and earlier windows put into the wrong category.
    pub moved_ns: u64,
    /// Whether this and earlier windows differ from the sums: in a category, or only in the culprit.
    pub is_told_otherwise: bool,
}

/// Differences of two readings' times.
struct Settled {
    ns: [u64; state::ALL],
    steal: Charges,
    others_ns: u64,
    unattributed_ns: u64,
    moved_ns: u64,
    is_told_otherwise: bool,
}

impl Share {
    /// The share of a task without events.
    pub(super) fn of_one_state(state: usize, ns: u64) -> Share {
        let mut by_state = [0; state::ALL];
        by_state[state] = ns;
        Share::of_states(&by_state)
    }

    /// The share of several tasks without events, by the state of each.
    pub(super) fn of_states(by_state: &[u64; state::ALL]) -> Share {
        let (parts, block) = categories(by_state);
        let events = Events {
            blocked: Some(0),
            yielded: Some(0),
            preemptions: Some(0),
            wakeups: Some(0),
            migrations: Some(Migrations::default()),
        };
        Share { parts, block, events, ..Share::default() }
    }
}

fn histogram(rec: &TaskRec, count: impl Fn(&Lengths) -> u32) -> Histogram {
    Histogram { counts: std::array::from_fn(|i| count(&rec.lengths[i]).into()) }
}

impl Sums {
    fn of(acc: &Acc, rec: &TaskRec) -> Sums {
        Sums {
            ns: acc.by_state(),
            blocked: acc.blocked.into(),
            yielded: acc.yielded.into(),
            preemptions: acc.preemptions.into(),
            wakeups: acc.wakeups.into(),
            migrations: acc.migrations.map(u64::from),
            unattributed_ns: acc.unattributed_ns,
            others_ns: acc.others_ns,
            culprits: acc.culprits.iter().filter(|c| c.ns > 0).map(|c| (c.group, c.ns)).collect(),
            waits: histogram(rec, |l| l.waits),
            stretches: histogram(rec, |l| l.stretches),
        }
    }

    /// The sums of a living task up to `edge_ns`, which has passed. `log` returns the occupancies of a CPU
    /// since some time.
    pub(super) fn at(rec: &TaskRec, edge_ns: u64, log: impl Fn(u32, u64) -> Vec<Occupancy>) -> Sums {
        if rec.edge_ns == edge_ns {
            return Sums::of(&rec.snap, rec);
        }
        let mut sums = Sums::of(&rec.cur, rec);
        let Some(open_ns) = edge_ns.checked_sub(rec.since_ns) else { return sums };
        let state = rec.brief().open_state();
        if !state::is_waiting(state) {
            sums.go_on(state, open_ns);
            return sums;
        }
        // The quota takes the first part of a wait.
        let throttled_ns = match state {
            _ if rec.open_edge_ns == edge_ns => rec.open_throttled_ns.min(open_ns),
            state::THROTTLED => open_ns,
            _ => 0,
        };
        let from_ns = rec.since_ns + throttled_ns;
        sums.go_on(state::THROTTLED, throttled_ns);
        sums.go_on(state::WAIT, edge_ns - from_ns);
        if from_ns < edge_ns {
            let (charges, rest) = occupants::charge(&log(rec.cpu, from_ns), from_ns, edge_ns);
            for (group, ns) in charges {
                *sums.culprits.entry(group).or_default() += ns;
            }
            sums.unattributed_ns += rest;
        }
        sums
    }

    /// Adds an interval in one state.
    pub(super) fn go_on(&mut self, state: usize, ns: u64) {
        self.ns[state] += ns;
    }

    /// The sums of an ended task over its whole life.
    pub(super) fn at_end(rec: &TaskRec) -> Sums {
        Sums::of(&rec.cur, rec)
    }

    /// Adds the sums of an ended task over its whole life.
    pub(super) fn add_ended(&mut self, rec: &TaskRec) {
        let acc = &rec.cur;
        self.ns.iter_mut().zip(acc.ns.iter().chain(&acc.held_ns)).for_each(|(sum, ns)| *sum += ns);
        self.migrations.iter_mut().zip(acc.migrations).for_each(|(sum, n)| *sum += u64::from(n));
        self.blocked += u64::from(acc.blocked);
        self.yielded += u64::from(acc.yielded);
        self.preemptions += u64::from(acc.preemptions);
        self.wakeups += u64::from(acc.wakeups);
        self.unattributed_ns += acc.unattributed_ns;
        self.others_ns += acc.others_ns;
        for culprit in acc.culprits.iter().filter(|c| c.ns > 0) {
            *self.culprits.entry(culprit.group).or_default() += culprit.ns;
        }
        let buckets = self.waits.counts.iter_mut().zip(&mut self.stretches.counts).zip(&rec.lengths);
        for ((waits, stretches), lengths) in buckets {
            *waits += u64::from(lengths.waits);
            *stretches += u64::from(lengths.stretches);
        }
    }

    /// Adds an interval of unknown category.
    pub(super) fn add_unknown(&mut self, ns: u64) {
        self.ns[state::UNKNOWN] += ns;
    }

    /// The sums of an ended task up to an edge before its end.
    pub(super) fn at_edge_before_end(rec: &TaskRec, edge_ns: u64) -> Option<Sums> {
        (rec.edge_ns == edge_ns).then(|| Sums::of(&rec.snap, rec))
    }

    /// The sums of a group's ended tasks whose own records were lost. Their culprits are in the table of
    /// pairs.
    pub(super) fn of_unlisted(group: &GroupRec) -> Sums {
        Sums {
            ns: group.dead_ns,
            blocked: group.dead_events[0],
            yielded: group.dead_events[7],
            preemptions: group.dead_events[1],
            wakeups: group.dead_events[2],
            migrations: std::array::from_fn(|i| group.dead_events[3 + i]),
            unattributed_ns: group.dead_unattributed_ns,
            others_ns: group.dead_ns[state::WAIT].saturating_sub(group.dead_unattributed_ns),
            culprits: BTreeMap::new(),
            waits: Histogram { counts: group.dead_waits },
            stretches: Histogram { counts: group.dead_stretches },
        }
    }

    /// The sum of two, field by field; culprits that only one side knows stay known.
    pub(super) fn add(&mut self, o: &Sums) {
        let add = |a: &mut [u64], b: &[u64]| a.iter_mut().zip(b).for_each(|(a, b)| *a += b);
        add(&mut self.ns, &o.ns);
        add(&mut self.migrations, &o.migrations);
        add(&mut self.waits.counts, &o.waits.counts);
        add(&mut self.stretches.counts, &o.stretches.counts);
        self.blocked += o.blocked;
        self.yielded += o.yielded;
        self.preemptions += o.preemptions;
        self.wakeups += o.wakeups;
        self.unattributed_ns += o.unattributed_ns;
        self.others_ns += o.others_ns;
        for (group, ns) in &o.culprits {
            *self.culprits.entry(*group).or_default() += ns;
        }
    }

    /// Forgets the culprits; their time stays, under `others`.
    pub(super) fn forget_culprits(&mut self) {
        self.others_ns += std::mem::take(&mut self.culprits).values().sum::<u64>();
    }

    /// The difference to `base`, with nothing below zero.
    fn settled(&self, base: &Sums) -> Settled {
        let mut ns: [i128; state::ALL] =
            std::array::from_fn(|i| i128::from(self.ns[i]) - i128::from(base.ns[i]));
        let mut steal: BTreeMap<u32, i128> = self.culprits.iter().map(|(&g, &ns)| (g, ns.into())).collect();
        for (&g, &ns) in &base.culprits {
            *steal.entry(g).or_default() -= i128::from(ns);
        }
        let mut loose = [
            i128::from(self.others_ns) - i128::from(base.others_ns),
            i128::from(self.unattributed_ns) - i128::from(base.unattributed_ns),
        ];
        let moved_ns = settle(ns.iter_mut());
        // The culprit of a part of a long wait may be known at one edge, and forgotten by the log at the
        // next: the time stays stolen.
        let mut blamed_ns = settle(loose.iter_mut().chain(steal.values_mut()));
        // The culprits explain the steal, unless one of the two had to be corrected alone.
        let explained: i128 = loose.iter().sum::<i128>() + steal.values().sum::<i128>();
        let missing = ns[state::WAIT] - explained;
        if missing != 0 {
            loose[1] += missing;
            blamed_ns += settle(loose.iter_mut().chain(steal.values_mut()));
        }
        let steal = steal.into_iter().filter(|&(_, ns)| ns > 0).map(|(g, ns)| (g, ns as u64)).collect();
        let [others_ns, unattributed_ns] = loose.map(|ns| ns as u64);
        let is_told_otherwise = moved_ns > 0 || blamed_ns > 0 || missing != 0;
        Settled { ns: ns.map(|ns| ns as u64), steal, others_ns, unattributed_ns, moved_ns, is_told_otherwise }
    }

    /// The sums as windows have reported them, whose sums up to the last edge were `base`. Time that was
    /// reported in the wrong category stays there until as much of that category comes again. So all windows
    /// together are right.
    pub(super) fn as_told(&self, base: &Sums) -> Sums {
        let settled = self.settled(base);
        let mut told = base.clone();
        told.ns.iter_mut().zip(settled.ns).for_each(|(told, ns)| *told += ns);
        for (group, ns) in settled.steal {
            *told.culprits.entry(group).or_default() += ns;
        }
        told.others_ns += settled.others_ns;
        told.unattributed_ns += settled.unattributed_ns;
        // If a window named a culprit for which the record has no room, it is among the others there, and
        // here, too.
        let (others_ns, known) = (&mut told.others_ns, &self.culprits);
        told.culprits.retain(|group, ns| {
            *others_ns += if known.contains_key(group) { 0 } else { *ns };
            known.contains_key(group)
        });
        let Sums { ns, culprits, others_ns, unattributed_ns, .. } = told;
        Sums { ns, culprits, others_ns, unattributed_ns, ..self.clone() }
    }

    /// The increase of these sums since `base`, an earlier reading of the same task.
    pub(super) fn since(&self, base: &Sums) -> Share {
        let Settled { ns, steal, others_ns, unattributed_ns, moved_ns, is_told_otherwise } =
            self.settled(base);
        let histogram = |a: &Histogram, b: &Histogram| Histogram {
            counts: std::array::from_fn(|i| events_since(a.counts[i], b.counts[i])),
        };
        let migrations: [u64; 4] =
            std::array::from_fn(|i| events_since(self.migrations[i], base.migrations[i]));
        let (parts, block) = categories(&ns);
        Share {
            parts,
            block,
            events: Events {
                blocked: Some(events_since(self.blocked, base.blocked)),
                yielded: Some(events_since(self.yielded, base.yielded)),
                preemptions: Some(events_since(self.preemptions, base.preemptions)),
                wakeups: Some(events_since(self.wakeups, base.wakeups)),
                migrations: Some(Migrations {
                    same_core: migrations[0],
                    same_llc: migrations[1],
                    same_socket: migrations[2],
                    other_socket: migrations[3],
                }),
            },
            culprits: steal,
            others_ns,
            unattributed_ns,
            waits: histogram(&self.waits, &base.waits),
            stretches: histogram(&self.stretches, &base.stretches),
            moved_ns,
            is_told_otherwise,
        }
    }
}

/// The number of events between two readings of a count, which wraps at 32 bits. More than half of that
/// cannot come in one window: then the second reading is the older one.
fn events_since(now: u64, base: u64) -> u64 {
    let came = (now as u32).wrapping_sub(base as u32);
    if came <= u32::MAX / 2 {
        came.into()
    } else {
        0
    }
}

/// The ledger's categories of times by state.
fn categories(ns: &[u64; state::ALL]) -> (Parts, BlockReasons) {
    let block = BlockReasons {
        futex_ns: ns[state::BLOCK_FUTEX],
        io_ns: ns[state::BLOCK_IO],
        sleep_ns: ns[state::BLOCK_SLEEP],
        poll_ns: ns[state::BLOCK_POLL],
        pipe_ns: ns[state::BLOCK_PIPE],
        child_ns: ns[state::BLOCK_CHILD],
        other_ns: ns[state::BLOCK_OTHER],
    };
    let parts = Parts {
        compute_ns: ns[state::RUN],
        spin_ns: None,
        block_ns: block.sum_ns(),
        steal_ns: ns[state::WAIT],
        throttled_ns: ns[state::THROTTLED],
        held: Some(Held { stopped_ns: ns[state::STOPPED], frozen_ns: ns[state::FROZEN] }),
        parked_ns: 0,
        unknown_ns: ns[state::UNKNOWN] + ns[state::NEVER],
    };
    (parts, block)
}

/// Makes every part non-negative without changing their sum (unless it is negative itself): a negative part
/// is taken out of the largest ones. Returns how much was moved; this is 0 unless a handler was held up
/// across an edge.
fn settle<'a>(parts: impl Iterator<Item = &'a mut i128>) -> u64 {
    let mut parts: Vec<&mut i128> = parts.collect();
    let mut debt: i128 = 0;
    for p in parts.iter_mut().filter(|p| ***p < 0) {
        debt -= **p;
        **p = 0;
    }
    let moved = debt as u64;
    while debt > 0 {
        let Some(largest) = parts.iter_mut().max_by_key(|p| ***p).filter(|p| ***p > 0) else { break };
        let taken = debt.min(**largest);
        **largest -= taken;
        debt -= taken;
    }
    moved
}

#[cfg(test)]
mod tests {
    use super::*;
    use corun_bpf::layout::Culprit;

    fn rec(state: usize, since_ns: u64) -> TaskRec {
        let mut rec = TaskRec { tid: 1, state: state as u32, since_ns, ..TaskRec::default() };
        rec.cur.ns[state::RUN] = 100;
        rec.cur.ns[state::WAIT] = 50;
        rec.cur.culprits[0] = Culprit::new(7, 50);
        rec
    }

    fn nobody(_: u32, _: u64) -> Vec<Occupancy> {
        Vec::new()
    }

    #[test]
    fn an_open_interval_reaches_to_the_edge() {
        let sums = Sums::at(&rec(state::RUN, 1000), 1300, nobody);
        assert_eq!((sums.ns[state::RUN], sums.ns.iter().sum::<u64>()), (400, 450));
    }

    #[test]
    fn an_open_wait_is_charged_to_the_occupants_so_far() {
        let log = [Occupancy::new(0, 7), Occupancy::new(1100, 8), Occupancy::new(1200, 9)];
        let sums = Sums::at(&rec(state::WAIT, 1000), 1150, |_, _| log.to_vec());
        assert_eq!(sums.culprits, BTreeMap::from([(7, 150), (8, 50)]));
        let share = sums.since(&Sums::default());
        assert_eq!((share.parts.steal_ns, share.unattributed_ns), (200, 0));
    }

    #[test]
    fn an_open_wait_is_split_at_the_refill_of_its_quota() {
        let log = [Occupancy::new(0, 7), Occupancy::new(1100, 8), Occupancy::new(1200, 9)];
        // The beginning of the wait, the clock's value and its edge; how much is throttled then, and who took
        // the rest.
        let cases: [(_, _, _, &[(u32, u64)]); 8] = [
            (state::THROTTLED, (1250, 50), 50, &[(7, 50), (8, 100), (9, 50)]),
            (state::THROTTLED, (1250, 0), 0, &[(7, 100), (8, 100), (9, 50)]),
            (state::THROTTLED, (1250, 250), 250, &[]),
            (state::THROTTLED, (1250, 300), 250, &[]),
            (state::WAIT, (1250, 0), 0, &[(7, 100), (8, 100), (9, 50)]),
            (state::WAIT, (1250, 150), 150, &[(8, 50), (9, 50)]),
            // The clock was not read at this edge.
            (state::THROTTLED, (1100, 50), 250, &[]),
            (state::WAIT, (1100, 50), 0, &[(7, 100), (8, 100), (9, 50)]),
        ];
        for (state, told, throttled_ns, culprits) in cases {
            let mut r = rec(state, 1000);
            r.cur = Acc::default();
            (r.open_edge_ns, r.open_throttled_ns) = told;
            let sums = Sums::at(&r, 1250, |_, _| log.to_vec());
            assert_eq!(sums.ns[state::THROTTLED], throttled_ns, "{state} {told:?}");
            assert_eq!(sums.ns[state::WAIT], 250 - throttled_ns, "{state} {told:?}");
            assert_eq!(sums.culprits, culprits.iter().copied().collect(), "{state} {told:?}");
            assert_eq!(sums.unattributed_ns, 0);
        }
    }

    #[test]
    fn the_clock_is_read_if_a_quota_may_have_taken_a_part_of_an_open_wait() {
        let asks = |state, throttled_at, since_ns, edge_ns| {
            asks_the_clock(&TaskRec { throttled_at, edge_ns, ..rec(state, since_ns) }, 1250)
        };
        assert!(asks(state::THROTTLED, 0, 1000, 900));
        assert!(asks(state::WAIT, 5, 1000, 900), "its quota has been used up before");
        assert!(!asks(state::WAIT, 0, 1000, 900), "it has no quota, or one that was never used up");
        assert!(!asks(state::WAIT, CLOCK_UNKNOWN, 1000, 900));
        assert!(!asks(state::RUN, 5, 1000, 900));
        assert!(!asks(state::THROTTLED, 5, 1000, 1250), "the probe has closed this window");
        assert!(!asks(state::THROTTLED, 5, 1250, 900), "it began later");
    }

    #[test]
    fn a_record_that_saw_the_edge_answers_with_its_copy() {
        let mut r = rec(state::RUN, 2000);
        r.edge_ns = 1300;
        r.snap.ns[state::RUN] = 77;
        assert_eq!(Sums::at(&r, 1300, nobody).ns[state::RUN], 77);
    }

    #[test]
    fn a_task_without_events_stays_in_its_initial_state() {
        let mut r = rec(state::NEVER, 1000);
        r.cur = Acc::default();
        r.guess = state::BLOCK_POLL as u32;
        assert_eq!(Sums::at(&r, 1300, nobody).ns[state::BLOCK_POLL], 300);
        r.guess = 99;
        assert_eq!(
            Sums::at(&r, 1300, nobody).ns[state::UNKNOWN],
            300,
            "a guess that makes no sense is no guess"
        );
    }

    #[test]
    fn shares_sum_to_the_time_between_two_edges() {
        let first = Sums::at(&rec(state::RUN, 1000), 1300, nobody);
        let second = Sums::at(&rec(state::RUN, 1000), 1700, nobody);
        let share = second.since(&first);
        assert_eq!((share.parts.compute_ns, share.parts.sum_ns(), share.moved_ns), (400, 400, 0));
    }

    #[test]
    fn a_late_event_moves_time_but_loses_none() {
        let mut base = Sums::default();
        base.ns[state::RUN] = 500;
        let mut now = Sums::default();
        now.ns[state::RUN] = 480;
        now.ns[state::BLOCK_IO] = 620;
        let share = now.since(&base);
        assert_eq!((share.parts.sum_ns(), share.parts.compute_ns, share.moved_ns), (600, 0, 20));
    }

    #[test]
    fn time_in_another_category_is_counted_once_and_that_of_another_culprit_is_not() {
        let read = |waited: u64, throttled: u64, culprits: &[(u32, u64)]| {
            let mut sums = Sums { culprits: culprits.iter().copied().collect(), ..Sums::default() };
            (sums.ns[state::WAIT], sums.ns[state::THROTTLED]) = (waited, throttled);
            sums.unattributed_ns = waited - sums.culprits.values().sum::<u64>();
            sums
        };
        // The report at the last edge, the current knowledge, and how much of the former was in another
        // category.
        let cases = [
            ("stolen as it was, by another", read(100, 0, &[(7, 100)]), read(150, 0, &[(8, 150)]), 0),
            ("a wait longer than the log", read(1_000, 0, &[(7, 1_000)]), read(1_500, 0, &[(7, 200)]), 0),
            ("stolen, and was throttled", read(100, 0, &[(7, 100)]), read(0, 150, &[]), 100),
            ("throttled, and was stolen", read(0, 100, &[]), read(150, 0, &[(7, 150)]), 100),
            ("a part of it", read(100, 0, &[(7, 60), (8, 40)]), read(70, 80, &[(7, 70)]), 30),
        ];
        for (what, told, now, moved_ns) in cases {
            let share = now.since(&told);
            assert_eq!(share.moved_ns, moved_ns, "{what}");
            assert!(share.is_told_otherwise, "{what}");
            assert_eq!(now.since(&now.as_told(&told)).moved_ns, moved_ns, "{what}: it is still owed");
        }
    }

    #[test]
    fn time_reported_in_the_wrong_category_is_corrected_by_later_windows() {
        let read = |waited: u64, throttled: u64| {
            let mut sums = Sums::default();
            (sums.ns[state::WAIT], sums.ns[state::THROTTLED]) = (waited, throttled);
            sums.culprits.insert(7, waited);
            sums
        };
        // Throttled across an edge, and known when it ends; then twice as long within a window.
        let (mut told, mut all) = (Sums::default(), Parts::default());
        for now in [read(50, 0), read(5, 80), read(25, 160)] {
            let share = now.since(&told);
            assert_eq!(
                share.culprits.iter().map(|c| c.1).sum::<u64>() + share.unattributed_ns,
                share.parts.steal_ns
            );
            all.steal_ns += share.parts.steal_ns;
            all.throttled_ns += share.parts.throttled_ns;
            told = now.as_told(&told);
        }
        assert_eq!((all.steal_ns, all.throttled_ns), (50, 135), "185 in all");
        let share = read(80, 160).since(&told);
        assert_eq!(
            (all.steal_ns + share.parts.steal_ns, all.throttled_ns + share.parts.throttled_ns),
            (80, 160)
        );
    }

    #[test]
    fn a_report_names_nobody_whom_the_record_does_not() {
        let read = |culprits: &[(u32, u64)], others_ns: u64| {
            let mut sums =
                Sums { culprits: culprits.iter().copied().collect(), others_ns, ..Sums::default() };
            sums.ns[state::WAIT] = culprits.iter().map(|c| c.1).sum::<u64>() + others_ns;
            sums
        };
        // A wait that was open at an edge had a ninth culprit, which is among the others when it ends.
        let told = read(&[(7, 50), (9, 30)], 0);
        let now = read(&[(7, 60)], 40);
        let told = now.as_told(&told);
        assert_eq!(told.culprits.keys().collect::<Vec<_>>(), [&7]);
        assert_eq!(told.culprits[&7] + told.others_ns + told.unattributed_ns, told.ns[state::WAIT]);
        assert_eq!(told.ns[state::WAIT], 100);
    }

    #[test]
    fn a_count_that_wraps_between_two_readings_gives_the_number_of_events() {
        let read = |count: u32| {
            let mut r = rec(state::RUN, 1000);
            (r.cur.blocked, r.cur.preemptions, r.cur.wakeups, r.cur.migrations) =
                (count, count, count, [count; 4]);
            (r.lengths[3].waits, r.lengths[3].stretches) = (count, count);
            Sums::at(&r, 1300, nobody)
        };
        let share = read(4).since(&read(u32::MAX - 5));
        let came = Migrations { same_core: 10, same_llc: 10, same_socket: 10, other_socket: 10 };
        let events = Events {
            blocked: Some(10),
            yielded: Some(0),
            preemptions: Some(10),
            wakeups: Some(10),
            migrations: Some(came),
        };
        assert_eq!(share.events, events);
        assert_eq!((share.waits.counts[3], share.stretches.counts[3]), (10, 10));
        let backwards = read(7).since(&read(8));
        assert_eq!((backwards.events.blocked, backwards.waits.counts[3]), (Some(0), 0));
    }

    #[test]
    fn culprits_always_explain_the_steal() {
        let mut base = Sums::default();
        base.ns[state::WAIT] = 100;
        base.culprits.insert(7, 100);
        let mut now = Sums::default();
        now.ns[state::WAIT] = 160;
        now.culprits.insert(7, 90);
        now.culprits.insert(8, 70);
        let share = now.since(&base);
        let explained =
            share.culprits.iter().map(|c| c.1).sum::<u64>() + share.others_ns + share.unattributed_ns;
        assert_eq!((share.parts.steal_ns, explained), (60, 60));
    }
}
