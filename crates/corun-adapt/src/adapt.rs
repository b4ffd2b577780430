//! The answer, kept where every thread can read it at once. When it is old, the first thread that comes renews it.

use crate::cgroup::{share_ppm, Quotas};
use crate::decision::{decide, Answer, Reading, Reason};
use crate::sources::{now_ns, spent_ns, used_ns, Cpus, Idle, Stat};
use crate::steady::Steady;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::Mutex;
use std::time::Duration;

/// An older answer is renewed. Idle time comes in ticks of 10 ms, so it is wrong by a fifth of a CPU at most.
const OLD: Duration = Duration::from_millis(50);
/// Reading takes at most one part in 100 of the CPU time of the threads that read. With a hundred CPUs, /proc/stat takes a millisecond,
/// and one late thread makes all others of a parallel region wait.
const PARTS: u64 = 100;

/// Why [`Adapt::new`] fails.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// /proc is not mounted.
    #[error("/proc/stat cannot be read: {0}; mount /proc")]
    NoProc(std::io::Error),
}

/// How many CPUs this process can get. Any number of threads may share one.
#[derive(Debug)]
pub struct Adapt {
    /// An [`Answer`], packed.
    answer: AtomicU64,
    /// When the answer gets old, on the monotonic clock.
    old_at_ns: AtomicU64,
    changes: AtomicU64,
    inside: Mutex<Inside>,
}

/// Only the thread that renews the answer uses this.
#[derive(Debug)]
struct Inside {
    process: u32,
    stat: Stat,
    quotas: Quotas,
    share_ppm: Option<u64>,
    /// The last reading: when it was, the CPU time used by the process, and the idle time of the CPUs, in nanoseconds.
    last: Option<(u64, u64, u64)>,
    steady: Steady,
}

impl Adapt {
    /// Opens the files that it reads later. The first figures come after 50 ms, with [`Adapt::refresh`]. Weights are read only here.
    ///
    /// # Errors
    /// /proc is not mounted.
    pub fn new() -> Result<Adapt, Error> {
        let root = Path::new("/");
        let inside = Inside {
            process: std::process::id(),
            stat: Stat::open(root).map_err(Error::NoProc)?,
            quotas: Quotas::open(root),
            share_ppm: share_ppm(root),
            last: None,
            steady: Steady::default(),
        };
        let adapt = Adapt {
            answer: AtomicU64::new(Answer::unknown(Reason::NotYet).packed()),
            old_at_ns: AtomicU64::new(0),
            changes: AtomicU64::new(0),
            inside: Mutex::new(inside),
        };
        adapt.refresh();
        Ok(adapt)
    }

    /// The answer of the last [`Adapt::refresh`] by any thread. Costs one relaxed load.
    #[inline]
    pub fn answer(&self) -> Answer {
        Answer::unpacked(self.answer.load(Relaxed))
    }

    /// A number that changes whenever [`Answer::threads`] does.
    #[inline]
    pub fn changes(&self) -> u64 {
        self.changes.load(Relaxed)
    }

    /// Renews the answer if it is older than 50 ms and older than a hundred times the duration of the last reading, unless another
    /// thread is renewing it. Returns whether it did. Renewing reads a few files and takes some tens of microseconds. Otherwise this
    /// only reads the clock.
    pub fn refresh(&self) -> bool {
        let Some(now) = now_ns() else { return false };
        if now < self.old_at_ns.load(Relaxed) {
            return false;
        }
        let Ok(mut inside) = self.inside.try_lock() else { return false };
        let before = self.answer().threads;
        let began = spent_ns();
        let answer = inside.next(now);
        // CPU time, since waiting for a CPU meanwhile would not be a cost of reading.
        let took = spent_ns().zip(began).map(|(end, begin)| end.saturating_sub(begin));
        // The first answer needs two readings, so it is not delayed further.
        let took = took.filter(|_| answer.reason != Reason::NotYet);
        self.old_at_ns.store(old_at(now, took), Relaxed);
        self.answer.store(answer.packed(), Relaxed);
        if answer.threads != before {
            self.changes.fetch_add(1, Relaxed);
        }
        true
    }
}

/// When an answer of `now_ns` gets old, if reading it took `took_ns`.
fn old_at(now_ns: u64, took_ns: Option<u64>) -> u64 {
    now_ns + (OLD.as_nanos() as u64).max(PARTS * took_ns.unwrap_or(0))
}

impl Inside {
    fn next(&mut self, now: u64) -> Answer {
        if std::process::id() != self.process {
            return Answer::unknown(Reason::Forked);
        }
        let cpus = Cpus::allowed().ok();
        let read = cpus.as_ref().and_then(|cpus| self.stat.read(cpus));
        let used = used_ns();
        let last = self.last;
        self.last = used.zip(read).map(|(used, read)| (now, used, read.idle_ns));
        let since = |now: Option<u64>, before: u64| now.and_then(|now| now.checked_sub(before));
        let on_all = |ppm: u64, Idle { online, .. }: Idle| ppm * u64::from(online) / 1_000;
        let mut answer = decide(&Reading {
            cpus: cpus.map(|cpus| cpus.count()),
            quota: self.quotas.read(),
            share: self.share_ppm.zip(read).map(|(ppm, read)| on_all(ppm, read)),
            interval_ns: last.map_or(0, |(then, ..)| now - then),
            used_ns: last.and_then(|(_, before, _)| since(used, before)),
            idle_ns: last.and_then(|(.., before)| since(read.map(|read| read.idle_ns), before)),
        });
        let most = match answer.reason {
            Reason::Neighbours | Reason::Weight => cpus.map_or(0, |cpus| cpus.count()),
            _ => 0,
        };
        // Before the second reading, `decide` may know the number from the limits alone.
        answer.threads = self.steady.next(answer.available, most).or(answer.threads);
        if self.steady.is_trying() {
            answer.reason = Reason::Trying;
        }
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decision::Quota;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_forked_child_has_to_ask_again_and_its_parent_goes_on() {
        let adapt = Adapt::new().unwrap();
        std::thread::sleep(OLD);
        // SAFETY: the child only reads files, which is allowed between a fork and its end, and allocates nothing.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let is_told = adapt.refresh() && adapt.answer() == Answer::unknown(Reason::Forked);
            // SAFETY: it ends the child.
            unsafe { libc::_exit(i32::from(!is_told)) };
        }
        let mut status = 1;
        // SAFETY: the child is this process's own.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        assert_eq!(status, 0, "the child was told something else");
        assert!(adapt.refresh() && adapt.answer().reason != Reason::Forked);
    }

    #[test]
    fn reading_is_as_rare_as_it_is_expensive() {
        for (took, old_at_ns) in
            [(None, 57), (Some(0), 57), (Some(MS / 2), 57), (Some(MS), 107), (Some(5 * MS), 507)]
        {
            assert_eq!(old_at(7 * MS, took), old_at_ns * MS, "{took:?}");
        }
    }

    /// How long a process with this many threads on two CPUs waits for the answer `wanted`, after a busy neighbor comes or goes
    /// `phase_ms` after a reading. `before` and `after` are the used and the idle thousandths of a CPU.
    fn reaction_ms(threads: u32, before: [u64; 2], after: [u64; 2], phase_ms: u64, wanted: u32) -> u64 {
        let interval_ms = OLD.as_millis() as u64;
        let mut steady = Steady::default();
        let mut answer = |[used, idle]: [u64; 2]| {
            let reading = Reading {
                cpus: Some(2),
                quota: Quota::None,
                share: None,
                interval_ns: interval_ms * MS,
                used_ns: Some(used * interval_ms * MS / 1_000),
                idle_ns: Some(idle * interval_ms * MS / 1_000),
            };
            steady.next(decide(&reading).available, 0)
        };
        for _ in 0..3 {
            assert_eq!(answer(before), Some(threads));
        }
        let mixed =
            [0, 1].map(|of| (before[of] * phase_ms + after[of] * (interval_ms - phase_ms)) / interval_ms);
        let mut at_ms = interval_ms - phase_ms;
        let mut now = mixed;
        while answer(now) != Some(wanted) {
            now = after;
            at_ms += interval_ms;
            assert!(at_ms < 10_000, "never");
        }
        at_ms
    }

    #[test]
    fn a_neighbor_that_comes_or_goes_is_noticed_within_three_readings() {
        for phase_ms in 0..OLD.as_millis() as u64 {
            let comes = reaction_ms(2, [2_000, 0], [1_333, 0], phase_ms, 1);
            let goes = reaction_ms(1, [1_000, 0], [1_000, 1_000], phase_ms, 2);
            assert!(comes.max(goes) <= 3 * OLD.as_millis() as u64, "{phase_ms}: {comes} and {goes} ms");
        }
    }
}
