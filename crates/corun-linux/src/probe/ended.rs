//! The tasks that ended since the last edge.
//!
//! In a storm of threads or short commands, thousands end in a window. Each has a record of a kilobyte, and
//! an account of each would cost more than everything else. So the number of those that are listed is
//! limited. If there are more, the shortest-lived half of the tasks that both began and ended since the edge
//! is summed by group. Their tenant gets every nanosecond and every event, and their number is reported.
//!
//! A task that existed at the last edge is always listed, since a part of its life has been reported already.
//! So is a task whose record explains more than its life.

use super::accounts::Sums;
use corun_bpf::layout::Ended;
use std::collections::BTreeMap;

/// Limit: the most listed tasks that began since the last edge; if there are more, at least half of this many
/// are listed.
const MOST: usize = 512;

/// Tasks that are not listed, together.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Summed {
    /// How many.
    pub(super) tasks: u64,
    /// Their lives, summed.
    pub(super) lives_ns: u64,
    /// What they did.
    pub(super) sums: Sums,
}

/// The tasks that ended since the last edge.
#[derive(Default)]
pub(super) struct EndedTasks {
    listed: Vec<Ended>,
    /// The number of listed tasks that began since the last edge.
    began: usize,
    /// Of these, tasks that lived no longer than this are summed.
    short_ns: u64,
    summed: BTreeMap<u32, Summed>,
}

impl EndedTasks {
    /// Takes in more of them. The last edge was at `since_ns`, and the next one is not before `until_ns`: a
    /// later end belongs to the next window. If `all` are listed, nobody is summed.
    pub(super) fn take_in(&mut self, more: &mut Vec<Ended>, since_ns: u64, until_ns: u64, all: bool) {
        let is_within =
            |e: &Ended| e.rec.born_ns >= since_ns && e.end_ns <= until_ns && explained_ns(e) <= life_ns(e);
        for e in more.drain(..) {
            if is_within(&e) {
                if self.short_ns > 0 && life_ns(&e) <= self.short_ns {
                    self.sum(&e);
                    continue;
                }
                self.began += 1;
            }
            self.listed.push(e);
            if self.began > MOST && !all {
                self.shorten(is_within);
            }
        }
    }

    /// Sums the shortest-lived half of those within the window.
    fn shorten(&mut self, is_within: impl Fn(&Ended) -> bool) {
        let mut lives_ns: Vec<u64> = self.listed.iter().filter(|e| is_within(e)).map(life_ns).collect();
        let middle = lives_ns.len() / 2;
        self.short_ns = *lives_ns.select_nth_unstable(middle).1;
        let mut listed = std::mem::take(&mut self.listed);
        listed.retain(|e| {
            let is_short = is_within(e) && life_ns(e) <= self.short_ns;
            if is_short {
                self.sum(e);
            }
            !is_short
        });
        self.listed = listed;
        self.began = self.listed.iter().filter(|e| is_within(e)).count();
    }

    fn sum(&mut self, e: &Ended) {
        let summed = self.summed.entry(e.rec.group).or_default();
        summed.tasks += 1;
        summed.lives_ns += life_ns(e);
        summed.sums.add_ended(&e.rec);
        summed.sums.add_unknown(life_ns(e) - explained_ns(e));
    }

    /// Tasks whose reported end will be in a later window.
    pub(super) fn listed(&self) -> &[Ended] {
        &self.listed
    }

    /// Closes a window: the tasks to list in it, those of the next one, and the rest by group.
    pub(super) fn up_to(&mut self, edge_ns: u64) -> (Vec<Ended>, Vec<Ended>, BTreeMap<u32, Summed>) {
        let EndedTasks { mut listed, summed, .. } = std::mem::take(self);
        let later = listed.extract_if(.., |e| e.end_ns > edge_ns).collect();
        (listed, later, summed)
    }

    /// Those of the next window.
    pub(super) fn put_back(&mut self, later: Vec<Ended>) {
        self.listed.extend(later);
    }
}

fn life_ns(e: &Ended) -> u64 {
    e.end_ns.saturating_sub(e.rec.born_ns)
}

/// How much of its life its record explains.
fn explained_ns(e: &Ended) -> u64 {
    let acc = &e.rec.cur;
    acc.ns.iter().chain(&acc.held_ns).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use corun_bpf::layout::{state, Culprit, TaskRec};

    /// A task whose record explains its life: for a third it waited for group 3, otherwise it ran.
    fn ended(serial: u32, group: u32, born_ns: u64, life_ns: u64) -> Ended {
        let mut rec = TaskRec { tid: serial, serial, group, born_ns, ..TaskRec::default() };
        rec.cur.ns[state::WAIT] = life_ns / 3;
        rec.cur.ns[state::RUN] = life_ns - life_ns / 3;
        rec.cur.culprits[0] = Culprit::new(3, life_ns / 3);
        rec.cur.wakeups = 1;
        rec.lengths[4].waits = 1;
        Ended { end_ns: born_ns + life_ns, rec }
    }

    #[test]
    fn of_a_storm_the_longest_lived_are_listed_and_the_sums_include_all() {
        let mut tasks = EndedTasks::default();
        let life_ns = |n: u32| 1_000 + u64::from(n * 7_919 % 10_007);
        for part in 0..100 {
            let mut more: Vec<Ended> =
                (0..100).map(|n| ended(part * 100 + n, 9 + n % 2, 5_000, life_ns(part * 100 + n))).collect();
            tasks.take_in(&mut more, 5_000, u64::MAX, false);
            assert!(more.is_empty() && tasks.listed().len() <= MOST);
        }
        let (listed, later, summed) = tasks.up_to(1_000_000);
        assert!(later.is_empty() && listed.len() >= MOST / 2, "{}", listed.len());
        let longest = (0..10_000).map(life_ns).max().unwrap();
        assert!(listed.iter().any(|e| super::life_ns(e) == longest));
        let count: u64 = summed.values().map(|s| s.tasks).sum();
        assert_eq!(count + listed.len() as u64, 10_000);
        let all_ns: u64 = (0..10_000).map(life_ns).sum();
        let listed_ns: u64 = listed.iter().map(super::life_ns).sum();
        assert_eq!(summed.values().map(|s| s.lives_ns).sum::<u64>() + listed_ns, all_ns);
        for Summed { tasks, lives_ns, sums } in summed.values() {
            let share = sums.since(&Sums::default());
            assert_eq!(share.parts.sum_ns(), *lives_ns);
            assert_eq!(share.culprits.iter().map(|c| c.1).sum::<u64>(), share.parts.steal_ns);
            assert_eq!((share.events.wakeups, share.waits.counts[4]), (Some(*tasks), *tasks));
        }
    }

    #[test]
    fn tasks_that_existed_before_or_end_in_the_next_window_are_always_listed() {
        let mut tasks = EndedTasks::default();
        let mut more: Vec<Ended> = (0..5_000).map(|n| ended(n, 9, 6_000, 100)).collect();
        more.extend((5_000..5_600).map(|n| ended(n, 9, 4_000, 2_000)));
        more.extend((5_600..6_200).map(|n| ended(n, 9, 9_000, 2_000)));
        tasks.take_in(&mut more, 5_000, 10_000, false);
        let (listed, later, summed) = tasks.up_to(10_000);
        assert_eq!((later.len(), listed.iter().filter(|e| e.rec.born_ns < 5_000).count()), (600, 600));
        assert_eq!(summed[&9].tasks + listed.len() as u64, 5_600);
    }

    #[test]
    fn unexplained_time_is_unknown_and_a_task_with_more_than_its_life_is_listed() {
        let mut tasks = EndedTasks::default();
        let mut more: Vec<Ended> = (0..2_000).map(|n| ended(n, 9, 6_000, 300)).collect();
        more.iter_mut().for_each(|e| e.end_ns += 7);
        more[1_999].end_ns -= 8;
        tasks.take_in(&mut more, 5_000, u64::MAX, false);
        let (listed, _, summed) = tasks.up_to(10_000);
        assert!(listed.iter().any(|e| e.rec.serial == 1_999));
        let Summed { tasks, lives_ns, sums } = &summed[&9];
        let parts = sums.since(&Sums::default()).parts;
        assert_eq!((parts.unknown_ns, parts.sum_ns()), (7 * tasks, *lives_ns));
    }

    #[test]
    fn few_tasks_are_all_listed_and_so_are_all_on_request() {
        for (count, all) in [(MOST, false), (10 * MOST, true)] {
            let mut tasks = EndedTasks::default();
            let mut more = (0..count as u32).map(|n| ended(n, 9, 6_000, 100)).collect();
            tasks.take_in(&mut more, 5_000, u64::MAX, all);
            let (listed, _, summed) = tasks.up_to(10_000);
            assert!(listed.len() == count && summed.is_empty());
        }
    }
}
