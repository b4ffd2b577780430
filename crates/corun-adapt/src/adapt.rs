//! The answer, kept where every thread can read it at once, and renewed by whoever comes first when it is old.

use crate::cgroup::{share_ppm, Quotas};
use crate::decision::{decide, Answer, Reading, Reason};
use crate::sources::{now_ns, used_ns, Cpus, Idle, Stat};
use crate::steady::Steady;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::Mutex;
use std::time::Duration;

/// An answer is renewed when it is older. Idle time comes in ticks of 10 ms, so a fifth is the coarsest error of a CPU.
const OLD: Duration = Duration::from_millis(50);

/// Why there is no [`Adapt`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// /proc is not there.
    #[error("/proc/stat cannot be read: {0}; mount /proc")]
    NoProc(std::io::Error),
}

/// How many CPUs this process can get. Any number of threads may share one.
#[derive(Debug)]
pub struct Adapt {
    /// An [`Answer`], packed.
    answer: AtomicU64,
    /// When the answer is old.
    old_at_ns: AtomicU64,
    changes: AtomicU64,
    inside: Mutex<Inside>,
}

/// What only who renews the answer touches.
#[derive(Debug)]
struct Inside {
    process: u32,
    stat: Stat,
    quotas: Quotas,
    share_ppm: Option<u64>,
    /// When it was last read, what the process had used and what had been idle.
    last: Option<(u64, u64, u64)>,
    steady: Steady,
}

impl Adapt {
    /// Opens what is needed. The first figures come 50 ms later, with [`Adapt::refresh`]. Weights are read here only.
    ///
    /// # Errors
    /// /proc is not there.
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

    /// What can be had, as of the last [`Adapt::refresh`] by anybody: one relaxed load.
    #[inline]
    pub fn answer(&self) -> Answer {
        Answer::unpacked(self.answer.load(Relaxed))
    }

    /// A number that changes when [`Answer::threads`] does.
    #[inline]
    pub fn changes(&self) -> u64 {
        self.changes.load(Relaxed)
    }

    /// Renews the answer if it is older than 50 ms and nobody else is about to. Returns whether it did. Where it did not, this took one look
    /// at the clock; where it did, it read a few files, some tens of microseconds.
    pub fn refresh(&self) -> bool {
        let Some(now) = now_ns() else { return false };
        if now < self.old_at_ns.load(Relaxed) {
            return false;
        }
        let Ok(mut inside) = self.inside.try_lock() else { return false };
        self.old_at_ns.store(now + OLD.as_nanos() as u64, Relaxed);
        let before = inside.steady.threads();
        let answer = inside.next(now);
        self.answer.store(answer.packed(), Relaxed);
        if answer.threads != before {
            self.changes.fetch_add(1, Relaxed);
        }
        true
    }
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
        answer.threads = self.steady.next(answer.available, most);
        if self.steady.is_trying() {
            answer.reason = Reason::Trying;
        }
        answer
    }
}
