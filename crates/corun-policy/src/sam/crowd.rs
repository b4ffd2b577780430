//! Maps tasks to sockets if more run than there are contexts. The kernel distributes the CPUs of a socket.
//!
//! Sockets have room for the same number of tasks. Applications choose one after the other, as for contexts.
//! If an application's tasks share data, it takes a socket that has room for all of it. It prefers one that
//! no other has chosen and that holds most of it; otherwise it takes as few sockets as possible. Other tasks
//! stay where they are, as long as there is room.

use super::mapping::{At, Need};
use corun_model::{Machine, TaskId};

/// A socket while it fills.
struct Socket {
    number: u32,
    /// A context of the socket, as an index into the machine's list. It stands for the socket.
    context: usize,
    room: usize,
    chosen: bool,
    /// Tasks that are bound by memory.
    memory: usize,
}

/// Maps applications to sockets, the most urgent first. The result has one context of each socket, in the order of the tasks' ids.
pub(super) fn map(machine: &Machine, applications: &[(Need, Vec<At>)]) -> Vec<(TaskId, usize)> {
    let running: usize = applications.iter().map(|a| a.1.len()).sum();
    let mut sockets: Vec<Socket> = Vec::new();
    for (context, cpu) in machine.cpus().iter().enumerate() {
        if sockets.iter().all(|s| s.number != cpu.socket) {
            sockets.push(Socket { number: cpu.socket, context, room: 0, chosen: false, memory: 0 });
        }
    }
    let room = running.div_ceil(sockets.len());
    sockets.iter_mut().for_each(|s| s.room = room);
    let of = |at: Option<usize>| at.map(|i| machine.cpus()[i].socket);
    let mut places = Vec::with_capacity(running);
    for (need, tasks) in applications {
        if need.together {
            together(&mut sockets, tasks, of, &mut places);
            continue;
        }
        let most = if need.apart { tasks.len().div_ceil(sockets.len()) } else { usize::MAX };
        for &(task, at) in tasks {
            let home = of(at);
            let key = |s: &&mut Socket| (s.room > 0, s.memory < most, Some(s.number) == home, s.room);
            let s = sockets.iter_mut().max_by_key(key).expect("a machine has a socket");
            s.room = s.room.saturating_sub(1);
            s.memory += usize::from(need.apart);
            places.push((task, s.context));
        }
    }
    places.sort_unstable();
    places
}

fn together(
    sockets: &mut [Socket],
    tasks: &[At],
    of: impl Fn(Option<usize>) -> Option<u32>,
    places: &mut Vec<(TaskId, usize)>,
) {
    let mut left: Vec<At> = tasks.to_vec();
    while !left.is_empty() {
        let here = |number: u32| left.iter().filter(|t| of(t.1) == Some(number)).count();
        let key =
            |s: &&mut Socket| (s.room >= left.len(), !s.chosen, here(s.number), s.room, u32::MAX - s.number);
        let s = sockets
            .iter_mut()
            .filter(|s| s.room > 0)
            .max_by_key(key)
            .expect("there is room for all that run");
        // Tasks that are already there stay.
        left.sort_by_key(|t| (of(t.1) != Some(s.number), t.0));
        let stay = left.len().min(s.room);
        places.extend(left.drain(..stay).map(|t| (t.0, s.context)));
        s.room -= stay;
        s.chosen = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHARES: Need =
        Need { together: true, in_pairs: false, own_cores: false, by_core: true, apart: false };

    #[test]
    fn applications_that_share_data_have_their_own_sockets_and_no_task_moves_twice() {
        let m = Machine::synthetic(2, 1, 2, 1);
        let tasks =
            |from: u32, at: fn(u32) -> Option<usize>| (from..from + 6).map(|t| (TaskId(t), at(t))).collect();
        let scattered: fn(u32) -> Option<usize> = |t| Some(t as usize % 4);
        let first = map(&m, &[(SHARES, tasks(0, scattered)), (SHARES, tasks(6, scattered))]);
        let socket = |t: u32| m.cpus()[first[t as usize].1].socket;
        assert!((0..6).all(|t| socket(t) == socket(0)) && (6..12).all(|t| socket(t) != socket(0)));
        let at: Vec<(TaskId, Option<usize>)> = first.iter().map(|&(t, i)| (t, Some(i))).collect();
        assert_eq!(map(&m, &[(SHARES, at[..6].to_vec()), (SHARES, at[6..].to_vec())]), first);
    }

    #[test]
    fn every_task_has_a_place_and_sockets_are_equally_full() {
        let m = Machine::synthetic(2, 1, 2, 2);
        let tasks: Vec<At> = (0..20).map(|t| (TaskId(t), Some(0))).collect();
        let alone = Need { together: false, ..SHARES };
        for need in [alone, Need { apart: true, ..alone }, SHARES] {
            let places = map(&m, &[(need, tasks.clone())]);
            let on_first = places.iter().filter(|p| m.cpus()[p.1].socket == 0).count();
            assert_eq!((places.len(), on_first), (20, 10), "{need:?}");
        }
    }
}
