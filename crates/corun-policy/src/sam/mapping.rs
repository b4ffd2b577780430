//! The mapping of tasks to hardware contexts, one to one: ATC'16 §4.4.
//!
//! Applications choose one after the other, the most urgent first. One whose tasks share data takes a socket that nobody has chosen
//! yet, or as few as possible if it does not fit into one. Within its sockets a task takes the most suitable context: one of an empty
//! core, or for pairs one whose other context has a sibling. Among equally good ones it takes those that the application is already on,
//! so that nothing moves without a reason. Tasks that are bound by memory are spread evenly over the sockets, each to its memory if
//! possible. Other tasks stay where they are. If such a task needs its own core, it goes to an empty one.
//!
//! Limit: at most as many tasks as contexts; [`crowd`](super::crowd) maps more.

use corun_model::{Machine, TaskId, TenantId};
use std::collections::BTreeMap;

/// The needs of an application's tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Need {
    /// Its tasks share data: as few sockets as possible.
    pub together: bool,
    /// They share so much that two of them should be on one core.
    pub in_pairs: bool,
    /// They need a core's pipeline: no core is shared, at least not among themselves.
    pub own_cores: bool,
    /// Whether cores are distinguished from contexts.
    pub by_core: bool,
    /// They are bound by memory, and are spread evenly over all sockets.
    pub apart: bool,
}

/// A task, and its present context.
pub(super) type At = (TaskId, Option<usize>);

/// The state of all contexts.
pub(super) struct Occupancy<'a> {
    machine: &'a Machine,
    /// For each context, its holder and whether that needs the whole core.
    holder: Vec<Option<(TenantId, bool)>>,
    /// For each context, the other contexts of its core.
    siblings: Vec<Vec<usize>>,
    /// Contexts of each socket.
    sockets: BTreeMap<u32, Vec<usize>>,
    /// Sockets that an application has chosen.
    chosen: Vec<u32>,
    /// The number of tasks bound by memory on each socket.
    memory: BTreeMap<u32, usize>,
    places: Vec<(TaskId, usize)>,
    /// The socket of each task that is bound by memory: [`Memory`](super::memory::Memory).
    belongs: BTreeMap<TaskId, u32>,
}

impl<'a> Occupancy<'a> {
    /// A machine with empty contexts.
    pub fn new(machine: &'a Machine, belongs: BTreeMap<TaskId, u32>) -> Occupancy<'a> {
        let cpus = machine.cpus();
        let mut sockets: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        let mut cores: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        for (i, cpu) in cpus.iter().enumerate() {
            sockets.entry(cpu.socket).or_default().push(i);
            cores.entry(cpu.core).or_default().push(i);
        }
        let others = |i: usize| cores[&cpus[i].core].iter().copied().filter(|&c| c != i).collect();
        Occupancy {
            machine,
            holder: vec![None; cpus.len()],
            siblings: (0..cpus.len()).map(others).collect(),
            memory: sockets.keys().map(|&s| (s, 0)).collect(),
            sockets,
            chosen: Vec::new(),
            places: Vec::new(),
            belongs,
        }
    }

    /// The context of each task, as an index into the machine's list, in the order of ids.
    pub fn finish(mut self) -> Vec<(TaskId, usize)> {
        self.places.sort_unstable();
        self.places
    }

    /// Gives an application's tasks their contexts.
    pub fn place(&mut self, who: TenantId, need: Need, tasks: &[At]) {
        if need.together {
            return self.together(who, need, tasks);
        }
        let bound = self.memory.values().sum::<usize>() + tasks.len();
        let most = if need.apart { bound.div_ceil(self.sockets.len()) } else { usize::MAX };
        let (known, others): (Vec<At>, Vec<At>) =
            tasks.iter().copied().partition(|t| need.apart && self.belongs.contains_key(&t.0));
        known.iter().chain(&others).for_each(|&task| self.alone(who, need, task, most));
    }

    fn together(&mut self, who: TenantId, need: Need, tasks: &[At]) {
        let sockets = self.sockets_for(need, tasks);
        self.chosen.extend(&sockets);
        if need.in_pairs {
            return tasks.chunks(2).for_each(|pair| self.pair(who, need, &sockets, pair));
        }
        let mut left: Vec<At> = tasks.to_vec();
        let mut theirs = vec![false; self.holder.len()];
        left.iter().filter_map(|t| t.1).for_each(|i| theirs[i] = true);
        let near: Vec<bool> = (0..self.holder.len()).map(|i| sockets.contains(&self.socket(i))).collect();
        for _ in 0..tasks.len() {
            let i = self.best(who, need, |i| near[i], |i| theirs[i]);
            // Not even all sockets had room for all tasks.
            let i = i
                .or_else(|| self.best(who, need, |_| true, |i| theirs[i]))
                .expect("there are as many contexts as tasks");
            let stays = left.iter().position(|t| t.1 == Some(i)).unwrap_or_else(|| self.mover(&left, &near));
            let (task, was) = left.remove(stays);
            was.into_iter().for_each(|i| theirs[i] = false);
            self.take(i, who, need, task);
        }
    }

    /// Puts two tasks onto one core: their own if they have one, or else an empty one. If none is empty, anywhere.
    fn pair(&mut self, who: TenantId, need: Need, sockets: &[u32], pair: &[At]) {
        let core = |i: usize| self.machine.cpus()[i].core;
        let theirs = pair[0].1.map(core).filter(|&c| pair.iter().all(|t| t.1.map(core) == Some(c)));
        let is_whole = |i: &usize| self.is_free(*i) && self.siblings[*i].iter().all(|&s| self.is_free(s));
        let near = (0..self.holder.len()).filter(|&i| sockets.contains(&self.socket(i)));
        let chosen = near.filter(is_whole).min_by_key(|&i| (Some(core(i)) != theirs, i)).map(core);
        for &(task, at) in pair {
            let here = |i: usize| at == Some(i);
            let on_core = |i: usize| chosen == Some(self.machine.cpus()[i].core);
            let i = self.best(who, need, on_core, here);
            let i = i.or_else(|| self.best(who, need, |i| sockets.contains(&self.socket(i)), here));
            let i = i
                .or_else(|| self.best(who, need, |_| true, here))
                .expect("there are as many contexts as tasks");
            self.take(i, who, need, task);
        }
    }

    /// One of the remaining tasks that must move in any case: off the sockets, or from a context that is taken.
    fn mover(&self, left: &[At], near: &[bool]) -> usize {
        let must_move = |t: &At| t.1.is_none_or(|i| !near[i] || !self.is_free(i));
        left.iter().position(must_move).unwrap_or(left.len() - 1)
    }

    /// Places one task alone, on a socket with fewer than `most` tasks that are bound by memory.
    fn alone(&mut self, who: TenantId, need: Need, (task, at): At, most: usize) {
        let here = |i: usize| at == Some(i);
        let socket = at.map(|i| self.socket(i));
        let allowed = |i: usize| self.memory[&self.socket(i)] < most;
        // Only a better context is a reason to leave the socket, not an equal one.
        let near = self.best(who, need, |i| allowed(i) && socket == Some(self.socket(i)), here);
        let far = self.best(who, need, allowed, here);
        let rank = |i: Option<usize>| i.map_or(u8::MAX, |i| self.rank(i, who, need));
        let found = if rank(far) < rank(near) { far } else { near };
        let home = need.apart.then(|| self.belongs.get(&task).copied()).flatten();
        let home = home.and_then(|s| self.best(who, need, |i| allowed(i) && s == self.socket(i), here));
        let i = home
            .or(found)
            .or_else(|| self.best(who, need, |_| true, here))
            .expect("there are as many contexts as tasks");
        self.take(i, who, need, task);
    }

    /// The sockets for tasks that should be together.
    fn sockets_for(&self, need: Need, tasks: &[At]) -> Vec<u32> {
        let mut room: Vec<(u32, usize)> =
            self.sockets.keys().map(|&s| (s, self.room(s, need))).filter(|r| r.1 > 0).collect();
        let here = |s: u32| tasks.iter().filter(|t| t.1.is_some_and(|i| self.socket(i) == s)).count();
        let fits = room.iter().filter(|r| r.1 >= tasks.len());
        // One that nobody has chosen, preferably the one that holds most of the tasks.
        let best = fits.max_by_key(|r| (!self.chosen.contains(&r.0), here(r.0), u32::MAX - r.0));
        if let Some(&(socket, _)) = best {
            return vec![socket];
        }
        room.sort_by_key(|&(s, n)| (usize::MAX - n, usize::MAX - here(s), s));
        let mut missing = tasks.len();
        let enough = room.into_iter().take_while(|&(_, n)| {
            let more = missing > 0;
            missing = missing.saturating_sub(n);
            more
        });
        let few: Vec<u32> = enough.map(|r| r.0).collect();
        if missing > 0 {
            return self.sockets.keys().copied().collect();
        }
        few
    }

    /// How many tasks with such a need fit well on a socket.
    fn room(&self, socket: u32, need: Need) -> usize {
        let free = self.sockets[&socket].iter().filter(|&&i| self.is_free(i));
        match need.own_cores {
            false => free.count(),
            // Of an empty core only one context counts.
            true => free.filter(|&&i| self.siblings[i].iter().all(|&s| self.is_free(s) && i < s)).count(),
        }
    }

    /// The best free context among some. Those in `on_now` come first.
    fn best(
        &self,
        who: TenantId,
        need: Need,
        of: impl Fn(usize) -> bool,
        on_now: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        let free = (0..self.holder.len()).filter(|&i| self.is_free(i) && of(i));
        free.min_by_key(|&i| (self.rank(i, who, need), !on_now(i), i))
    }

    /// How suitable a context is; 0 is best.
    fn rank(&self, i: usize, who: TenantId, need: Need) -> u8 {
        if !need.by_core {
            return 0;
        }
        let beside = |f: &dyn Fn((TenantId, bool)) -> bool| {
            self.siblings[i].iter().any(|&s| self.holder[s].is_some_and(f))
        };
        let own = beside(&|(other, _)| other == who);
        let any = beside(&|_| true);
        if need.in_pairs {
            return if own { 0 } else { 1 + u8::from(any) };
        }
        match (need.own_cores, any) {
            (_, false) => 0,
            (true, true) if own => 3,
            // A task that needs a whole core is a bad neighbor to one of that kind, and not a good one to others.
            (_, true) => 1 + u8::from(beside(&|(_, wants_core)| wants_core)),
        }
    }

    fn take(&mut self, i: usize, who: TenantId, need: Need, task: TaskId) {
        self.holder[i] = Some((who, need.own_cores));
        self.places.push((task, i));
        *self.memory.entry(self.socket(i)).or_default() += usize::from(need.apart);
    }

    fn socket(&self, i: usize) -> u32 {
        self.machine.cpus()[i].socket
    }

    fn is_free(&self, i: usize) -> bool {
        self.holder[i].is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SHARES: Need =
        Need { together: true, in_pairs: false, own_cores: false, by_core: true, apart: false };
    const COMPUTES: Need = Need { own_cores: true, ..SHARES };
    const NOTHING: Need = Need { together: false, ..SHARES };

    /// Two sockets of ten cores with two contexts each, as on ATC'16's first machine.
    fn machine() -> Machine {
        Machine::synthetic(2, 1, 10, 2)
    }

    /// Maps applications of these sizes and needs, all new. Returns the contexts of each.
    fn map(machine: &Machine, of: &[(usize, Need)]) -> Vec<Vec<usize>> {
        let at = |_: usize| None;
        again(machine, of, at)
    }

    fn again(
        machine: &Machine,
        of: &[(usize, Need)],
        at: impl Fn(usize) -> Option<usize>,
    ) -> Vec<Vec<usize>> {
        let mut occupancy = Occupancy::new(machine, BTreeMap::new());
        let mut next = 0;
        let mut ids = Vec::new();
        for (app, &(n, need)) in of.iter().enumerate() {
            let tasks: Vec<At> = (next..next + n).map(|t| (TaskId(t as u32), at(t))).collect();
            occupancy.place(TenantId(app as u32), need, &tasks);
            ids.push(tasks);
            next += n;
        }
        let places: BTreeMap<TaskId, usize> = occupancy.finish().into_iter().collect();
        ids.iter().map(|tasks| tasks.iter().map(|t| places[&t.0]).collect()).collect()
    }

    fn count(machine: &Machine, at: &[usize], level: impl Fn(&corun_model::machine::Cpu) -> u32) -> usize {
        at.iter().map(|&i| level(&machine.cpus()[i])).collect::<std::collections::BTreeSet<_>>().len()
    }

    #[test]
    fn two_applications_that_share_data_get_a_socket_each_and_a_core_per_task_if_possible() {
        let m = machine();
        for n in [10, 20] {
            let at = map(&m, &[(n, SHARES), (n, SHARES)]);
            assert_eq!((count(&m, &at[0], |c| c.socket), count(&m, &at[1], |c| c.socket)), (1, 1));
            assert_ne!(m.cpus()[at[0][0]].socket, m.cpus()[at[1][0]].socket);
            assert_eq!(count(&m, &at[0], |c| c.core), 10);
        }
    }

    #[test]
    fn computing_tasks_are_spread_and_share_cores_with_other_kinds() {
        // Mix 1 of table 2: SGD and LSGD choose first, and ALS gets the rest.
        let m = machine();
        let at = map(&m, &[(14, SHARES), (14, SHARES), (12, COMPUTES)]);
        assert_eq!((count(&m, &at[0], |c| c.socket), count(&m, &at[1], |c| c.socket)), (1, 1));
        assert_eq!(count(&m, &at[2], |c| c.core), 12, "no two of it on one core");
        let alone = map(&m, &[(20, COMPUTES)]);
        assert_eq!(count(&m, &alone[0], |c| c.core), 20, "rather on two sockets than on hyperthreads");
        assert_eq!(count(&m, &map(&m, &[(10, COMPUTES)])[0], |c| c.socket), 1);
    }

    #[test]
    fn pairs_fill_cores() {
        let m = machine();
        let at = map(&m, &[(8, Need { in_pairs: true, ..SHARES })]);
        assert_eq!((count(&m, &at[0], |c| c.core), count(&m, &at[0], |c| c.socket)), (4, 1));
        let scattered = again(&m, &[(8, Need { in_pairs: true, ..SHARES })], |t| Some(7 * t % 40));
        let core = |t: usize| m.cpus()[scattered[0][t]].core;
        assert!((0..4).all(|p| core(2 * p) == core(2 * p + 1)), "neighbors, wherever they were");
    }

    #[test]
    fn memory_bound_tasks_are_on_all_sockets_evenly() {
        let m = Machine::synthetic(4, 1, 10, 2);
        let at = map(&m, &[(6, SHARES), (8, Need { apart: true, ..NOTHING })]);
        let on = |s: u32| at[1].iter().filter(|&&i| m.cpus()[i].socket == s).count();
        assert_eq!([on(0), on(1), on(2), on(3)], [2; 4]);
    }

    #[test]
    fn memory_bound_tasks_go_to_their_memory_if_the_sockets_stay_even() {
        let m = Machine::synthetic(2, 1, 10, 2);
        let need = Need { apart: true, ..NOTHING };
        let placed = |belongs: &[(u32, u32)]| {
            let of: BTreeMap<TaskId, u32> = belongs.iter().map(|&(t, s)| (TaskId(t), s)).collect();
            let mut occupancy = Occupancy::new(&m, of);
            // Four tasks, all on the first socket.
            let tasks: Vec<At> = (0..4).map(|t| (TaskId(t), Some(t as usize))).collect();
            occupancy.place(TenantId(0), need, &tasks);
            occupancy.finish().iter().map(|&(_, i)| m.cpus()[i].socket).collect::<Vec<_>>()
        };
        assert_eq!(placed(&[(0, 1), (1, 0), (2, 1), (3, 0)]), [1, 0, 1, 0]);
        assert_eq!(placed(&[(0, 0), (1, 0), (2, 0), (3, 0)]), [0, 0, 1, 1]);
    }

    #[test]
    fn an_application_too_large_for_one_socket_has_as_few_as_possible() {
        let m = Machine::synthetic(4, 1, 4, 2);
        assert_eq!(count(&m, &map(&m, &[(12, SHARES)])[0], |c| c.socket), 2);
    }

    /// All possible needs of an application.
    const NEEDS: [Need; 7] = [
        SHARES,
        COMPUTES,
        Need { in_pairs: true, ..SHARES },
        NOTHING,
        Need { own_cores: true, ..NOTHING },
        Need { apart: true, ..NOTHING },
        Need { by_core: false, ..SHARES },
    ];

    fn applications() -> impl Strategy<Value = Vec<(usize, Need)>> {
        proptest::collection::vec((1usize..9, proptest::sample::select(&NEEDS[..])), 1..7)
    }

    proptest! {
        #[test]
        fn every_task_has_a_context_and_no_context_has_two_while_another_has_none(of in applications()) {
            let m = Machine::synthetic(2, 1, 12, 2);
            let mut holders = [0usize; 48];
            map(&m, &of).iter().flatten().for_each(|&i| holders[i] += 1);
            prop_assert_eq!(holders.iter().sum::<usize>(), of.iter().map(|o| o.0).sum::<usize>());
            prop_assert!(holders.iter().max().unwrap() - holders.iter().min().unwrap() <= 1);
        }

        #[test]
        fn tasks_keep_their_places_while_nothing_changes(of in applications()) {
            let m = Machine::synthetic(2, 1, 16, 2);
            let mut at = map(&m, &of);
            for _ in 0..3 {
                let flat: Vec<usize> = at.iter().flatten().copied().collect();
                at = again(&m, &of, |t| Some(flat[t]));
            }
            let flat: Vec<usize> = at.iter().flatten().copied().collect();
            prop_assert_eq!(again(&m, &of, |t| Some(flat[t])), at);
        }
    }
}
