//! How much longer a context switch takes if the tasks are counted.
//!
//! At every switch between counted tasks the kernel saves and restores the CPU's counters. On a physical
//! machine that is about a microsecond. In a virtual machine each register is written through the hypervisor,
//! which can make a switch tens of microseconds longer. A program that blocks ten thousand times a second
//! would then be slowed down by a third. So corun measures the cost on its own machine, in a few
//! milliseconds, and reports it.
//!
//! Method: two threads on one CPU wake each other through pipes, as `perf bench sched pipe` does. Rounds with
//! and without counting alternate, and the fastest of each are compared.

use super::perf_event::{CountOptions, Group, Whose};
use super::plan::Plan;
use crate::limits;
use crate::sched::own_tid;
use corun_model::TaskId;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::sync::mpsc::{channel, Receiver, Sender};
use std::thread::JoinHandle;
use std::time::Instant;

/// A context switch, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SwitchCost {
    /// Between two tasks that are not counted.
    pub bare_ns: u64,
    /// Between two tasks that are.
    pub counted_ns: u64,
}

impl SwitchCost {
    /// What counting adds to a switch, in nanoseconds.
    pub fn added_ns(&self) -> u64 {
        self.counted_ns.saturating_sub(self.bare_ns)
    }

    /// Measures a plan's cost, on a CPU that the calling thread may run on. Takes about 400 switches.
    ///
    /// # Errors
    /// The system's error if threads, pipes or counters are not available.
    pub fn measure(plan: &Plan) -> io::Result<SwitchCost> {
        const ROUNDS: usize = 4;
        const TURNS: u64 = 25;
        let manner = CountOptions { kernel: plan.kernel, inherit: false };
        let (mut bare_ns, mut counted_ns) = (u64::MAX, u64::MAX);
        for _ in 0..ROUNDS {
            bare_ns = bare_ns.min(ping_pong(TURNS, |_| Ok(()))?);
            let mut groups = Vec::new();
            let counted = ping_pong(TURNS, |who| {
                if let Who::Players(players) = who {
                    for (player, events) in
                        players.iter().flat_map(|p| plan.groups.iter().map(move |g| (p, g)))
                    {
                        let group = Group::open(events, Whose::Task(player.0), manner);
                        groups.push(group.map_err(io::Error::from_raw_os_error)?);
                    }
                }
                Ok(())
            })?;
            counted_ns = counted_ns.min(counted);
        }
        Ok(SwitchCost { bare_ns, counted_ns })
    }
}

/// The tasks that are about to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// The thread that will create the two; nothing is created before this returns.
    Creator(TaskId),
    /// The two, before they begin.
    Players([TaskId; 2]),
}

/// Two threads on one CPU that wake each other `turns` times each; in nanoseconds a switch. `before` gets
/// them before they begin.
///
/// # Errors
/// What the system or `before` said.
pub fn ping_pong(turns: u64, mut before: impl FnMut(Who) -> io::Result<()>) -> io::Result<u64> {
    let gone = || io::Error::other("a thread ended too early");
    let (from_b, to_a) = io::pipe()?;
    let (from_a, to_b) = io::pipe()?;
    let (tell, told) = channel();
    let (create, may_create) = channel::<()>();
    let (go_a, may_a) = channel();
    let (go_b, may_b) = channel();
    let creator = limits::start_thread("corun-cost", move || {
        stay_on_one_cpu();
        tell.send(TaskId(own_tid())).map_err(|_| gone())?;
        may_create.recv().map_err(|_| gone())?;
        let a = player(tell.clone(), may_a, from_b, to_b, turns, true)?;
        let b = player(tell, may_b, from_a, to_a, turns, false)?;
        a.join().map_err(|_| gone())?.and(b.join().map_err(|_| gone())?)
    })?;
    let mut play = || {
        before(Who::Creator(told.recv().map_err(|_| gone())?))?;
        create.send(()).map_err(|_| gone())?;
        let players = [told.recv().map_err(|_| gone())?, told.recv().map_err(|_| gone())?];
        before(Who::Players(players))?;
        let start = Instant::now();
        go_b.send(()).map_err(|_| gone())?;
        go_a.send(()).map_err(|_| gone())?;
        Ok(start)
    };
    let started: io::Result<Instant> = play();
    // If the other side still waits for these, it has given up.
    drop((create, go_a, go_b));
    let played = creator.join().map_err(|_| gone())?;
    match started {
        Ok(start) => played
            .map(|()| u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX) / (2 * turns.max(1))),
        // The error of a player that could not be started is the reason; the errors that follow from its
        // absence are not.
        Err(led_to) if led_to.kind() == gone().kind() => Err(played.err().unwrap_or(led_to)),
        Err(refused) => Err(refused),
    }
}

fn player(
    tell: Sender<TaskId>,
    go: Receiver<()>,
    mut from: PipeReader,
    mut to: PipeWriter,
    turns: u64,
    begins: bool,
) -> io::Result<JoinHandle<io::Result<()>>> {
    limits::start_thread("corun-cost", move || {
        let gone = |_| io::Error::other("nobody waits for this thread");
        tell.send(TaskId(own_tid())).map_err(gone)?;
        // A player that waits for the other one must learn that there will be none.
        drop(tell);
        go.recv().map_err(|_| io::Error::other("this thread was not wanted"))?;
        let mut token = [0u8];
        for _ in 0..turns {
            if begins {
                to.write_all(&token)?;
            }
            from.read_exact(&mut token)?;
            if !begins {
                to.write_all(&token)?;
            }
        }
        Ok(())
    })
}

/// Pins the calling thread, and those that it creates, to its current CPU.
fn stay_on_one_cpu() {
    // SAFETY: an all-zero set is valid; the calls read and write only it. Where they fail the thread stays unpinned.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        if let Ok(cpu) = usize::try_from(libc::sched_getcpu()) {
            libc::CPU_SET(cpu, &mut set);
            libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counters::live::accepted;
    use crate::counters::plan::Theme;
    use crate::root::Root;

    #[test]
    fn the_players_are_announced_before_they_play_and_a_refusal_stops_the_game() {
        let mut told = Vec::new();
        let ns = ping_pong(10, |who| {
            told.push(who);
            Ok(())
        });
        assert!(ns.unwrap() > 0);
        let [Who::Creator(creator), Who::Players([a, b])] = told.as_slice() else { panic!("{told:?}") };
        assert!(creator != a && a != b && creator != b);
        let refused = ping_pong(10, |who| match who {
            Who::Creator(_) => Ok(()),
            Who::Players(_) => Err(io::ErrorKind::PermissionDenied.into()),
        });
        assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::PermissionDenied);
    }

    #[test]
    fn the_cost_of_a_switch_can_be_measured_where_there_are_counters() {
        match Plan::make(&Root::new("/"), &[Theme::Pace], &accepted) {
            Ok(plan) => {
                let cost = SwitchCost::measure(&plan).unwrap();
                assert!(cost.bare_ns > 0 && cost.counted_ns > 0, "{cost:?}");
            }
            Err(refusal) => println!("skipped: {refusal}"),
        }
    }
}
