//! The cost of a wake-up. Two threads wait for each other, first with a CPU each, which sleeps while its
//! thread waits, then in turns on one CPU. The cost is the difference.
//!
//! In a virtual machine the host has to wake the CPU first, which takes about ten microseconds. Asking the
//! host to do so costs the waker some more. A program whose threads sleep that long a hundred thousand times
//! waits for wake-ups all the time. But if co-runners leave it only one CPU, they keep that CPU awake, and it
//! does not. The ledger does not show that time: until its CPU is awake, the thread counts as blocked.
//!
//! Method. Two threads compute for [`GRAIN`] and meet, [`ROUNDS`] times. The first to arrive sleeps and is
//! woken by the other. So it arrives last in the next round, if a wake-up takes longer than their computing
//! differs. A round then takes one of them a whole wake-up and its computing. So the wake-up is the time of a
//! round on two CPUs, minus what one of them computes in a round on one CPU. This is repeated [`SPELLS`]
//! times with new threads, and the median counts.
//!
//! Limits: the measurement takes about 160 ms, in which two CPUs are busy half of the time. In shorter spells
//! the result was a tenth shorter. On a shared host it changes by a quarter within minutes. If threads waited
//! in run queues for much of the time, some CPU was busy or both threads were put on the same one. Such a
//! spell does not count.

use crate::clock::thread_cpu_ns;
use crate::procfs::schedstat;
use crate::sched::{affinity, own_tid, set_affinity};
use crate::{limits, Root};
use corun_model::CpuId;
use std::hint::black_box;
use std::io;
use std::sync::mpsc::{channel, Receiver};
use std::sync::Barrier;
use std::thread::Builder;
use std::time::{Duration, Instant};

/// How often the threads meet.
const ROUNDS: u32 = 1_000;
/// How often the measurement is repeated.
const SPELLS: usize = 3;
/// Approximate computing before a meeting: shorter than the sleep, so that the CPU does sleep.
const GRAIN: Duration = Duration::from_micros(10);
/// The part of a spell that threads may wait in run queues if it is to count.
const QUEUED: f64 = 0.1;

/// How long a wake-up takes, in nanoseconds; `None` if too few CPUs were idle, or the kernel does not say.
///
/// # Errors
/// Why the two threads could not be started.
pub fn measured_ns() -> io::Result<Option<u64>> {
    let Some(cpus) = affinity(0).ok().filter(|cpus| cpus.len() > 1) else { return Ok(None) };
    let turns = turns_in(GRAIN);
    let mut spells_ns = Vec::new();
    for _ in 0..SPELLS {
        spells_ns.extend(spell_ns(turns, &cpus)?);
    }
    spells_ns.sort_unstable();
    // If some had to be discarded, the others may have been disturbed as well.
    Ok((spells_ns.len() > SPELLS / 2).then(|| spells_ns[spells_ns.len() / 2]))
}

/// How long it takes with two new threads.
fn spell_ns(turns: u32, cpus: &[CpuId]) -> io::Result<Option<u64>> {
    // If CPUs are busy, do not add to their load.
    let is_quiet = |apart: &Took| apart.queued_ns as f64 <= QUEUED * apart.wall_ns as f64;
    let Some(apart) = meet(turns, cpus)?.filter(is_quiet) else { return Ok(None) };
    let together = meet(turns, &cpus[..1])?;
    Ok(together.map(|t| apart.wall_ns.saturating_sub(t.computed_ns) / u64::from(ROUNDS)))
}

/// How long the two threads took, each the mean of both, in nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Took {
    wall_ns: u64,
    computed_ns: u64,
    queued_ns: u64,
}

/// Two threads that compute and meet on these CPUs; `None` if the kernel does not say, or did not allow them.
///
/// # Errors
/// Why they could not be started.
fn meet(turns: u32, cpus: &[CpuId]) -> io::Result<Option<Took>> {
    let barrier = Barrier::new(2);
    let one = |both_are_there: Receiver<()>| {
        // Alone it would wait at the barrier forever.
        both_are_there.recv().ok()?;
        let is_there = set_affinity(0, Some(cpus)).is_ok();
        // The other one waits at the barrier, whatever happened to this one.
        barrier.wait();
        let (begin, computed_ns, queued_ns) = (Instant::now(), thread_cpu_ns(), queued_ns());
        for _ in 0..ROUNDS {
            compute(turns);
            barrier.wait();
        }
        let wall_ns = begin.elapsed().as_nanos() as u64;
        let took = Took {
            wall_ns,
            computed_ns: thread_cpu_ns() - computed_ns,
            queued_ns: self::queued_ns()? - queued_ns?,
        };
        is_there.then_some(took)
    };
    let took = std::thread::scope(|scope| {
        let start = || {
            let (go, both_are_there) = channel();
            let thread = Builder::new().spawn_scoped(scope, move || one(both_are_there));
            thread.map(|thread| (go, thread)).map_err(limits::explained)
        };
        let threads = [start()?, start()?];
        for (go, _) in &threads {
            // A thread that has gone is reported when it is joined.
            let _ = go.send(());
        }
        let [a, b] = threads.map(|(_, thread)| thread.join().ok().flatten());
        Ok::<_, io::Error>(a.zip(b))
    })?;
    let mean = |(a, b): &(Took, Took), get: fn(&Took) -> u64| u64::midpoint(get(a), get(b));
    Ok(took.map(|both| Took {
        wall_ns: mean(&both, |t| t.wall_ns),
        computed_ns: mean(&both, |t| t.computed_ns),
        queued_ns: mean(&both, |t| t.queued_ns),
    }))
}

/// How long the calling thread has been in run queues.
fn queued_ns() -> Option<u64> {
    Some(schedstat(&Root::new("/"), std::process::id(), own_tid()).ok()?.wait_ns)
}

/// Work that takes the same time on any CPU.
fn compute(turns: u32) {
    for turn in 0..turns {
        black_box(turn);
    }
}

/// How much of it takes this long.
fn turns_in(time: Duration) -> u32 {
    const TRIED: u32 = 100_000;
    let begin_ns = thread_cpu_ns();
    compute(TRIED);
    let took_ns = (thread_cpu_ns() - begin_ns).max(1);
    (u128::from(TRIED) * time.as_nanos() / u128::from(took_ns)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_ends_soon_whatever_others_do_and_a_wake_up_takes_some_time() {
        let begin = Instant::now();
        let found = measured_ns().unwrap();
        assert!(found.is_none_or(|ns| ns > 0), "{found:?}");
        assert!(begin.elapsed() < Duration::from_secs(10));
    }

    #[test]
    fn on_one_cpu_threads_take_turns_and_nothing_is_measured() {
        let first = affinity(0).unwrap()[0];
        match meet(turns_in(GRAIN), &[first]).unwrap() {
            Some(took) => assert!(took.computed_ns <= took.wall_ns, "{took:?}"),
            None => println!("skipped: this kernel has no schedstat"),
        }
        std::thread::scope(|scope| {
            let confined = || {
                set_affinity(0, Some(&[first])).unwrap();
                measured_ns().unwrap()
            };
            assert_eq!(scope.spawn(confined).join().unwrap(), None);
        });
    }
}
