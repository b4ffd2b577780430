//! The private parts of a core, which a thread must fill again after a switch or a migration: L1, L2, and
//! TLB.
//!
//! Method: a thread goes through its *footprint* again and again: the bytes that it keeps in such a level
//! when it runs alone. Whatever others have loaded meanwhile has evicted part of it. So in its first pass
//! after it returns, the thread misses each missing line once:
//!
//! ```text
//! room        = footprint × min(1, capacity / Σ footprints of those who run on the core)
//! miss share  = 1 - held / footprint      in the first pass, of what the level held when the pass began
//!             = 1 - room / footprint      from then on: 0, but where hyperthreads want more than there is
//! ```
//!
//! The level's bytes are conserved. Once the level is full, the loads of running threads push out what absent
//! threads have left, all by the same factor. So nothing is lost if nothing ran in between or all footprints
//! fit. Everything is lost if a footprint as large as the level ran. A short visit loads only as much as it
//! has time for. A thread that moves to another core, or takes data of another thread (a stolen grain), finds
//! none of it there.
//!
//! A pass ends once. So each return of a thread that finds lines missing costs one more evaluation.
//!
//! Source: Thiébaut and Stone 1987 ("Footprints in the cache"); Mogul and Borg 1991 (the cost after a
//! switch). It is one file because it is one model: coming, leaving and loading use one set of sums. Limits:
//! threads go through a footprint evenly; L1 and L2 are one level; threads share no lines of it; data comes
//! from the last-level cache while the thread stays under it, else from memory; a guest's threads on one vCPU
//! count as one.

use std::collections::BTreeSet;

use super::membw::LINE;

/// Caches, and the TLB.
pub const LEVELS: usize = 2;

/// The share of a room that may be missing without effect. The first pass would be slower by at most a 64th
/// of the cost of an empty level, and its end would be one more evaluation.
const UNNOTICED: f64 = 1.0 / 64.0;

/// Where the survival product is scaled up again.
const EPOCH: f64 = 1e-100;

/// How a thread uses a level.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Footprint {
    /// Bytes that it keeps there when alone; 0: it does not take part.
    pub bytes: f64,
    /// References to them per instruction, one for each line and pass.
    pub references: f64,
    /// Exposed cycles of a missing line that comes from the thread's last-level cache.
    pub near: f64,
    /// The same from memory.
    pub far: f64,
}

/// What an absent thread has left in a level.
#[derive(Clone, Copy, Debug, Default)]
struct Left {
    /// The core, from 1; 0: nowhere.
    core: u32,
    bytes: f64,
    survival: f64,
    epoch: u32,
}

/// A level of one core.
#[derive(Clone, Copy, Debug)]
struct Store {
    /// Bytes of threads that do not run here now.
    idle: f64,
    /// The remaining part of a byte that a thread had left here at the start, times [`EPOCH`] to the power of
    /// minus `epoch`.
    survival: f64,
    epoch: u32,
}

impl Store {
    /// The surviving share of what a thread left.
    fn survived(&self, left: &Left) -> f64 {
        match self.epoch - left.epoch {
            0 => self.survival / left.survival,
            1 => self.survival * EPOCH / left.survival,
            _ => 0.0,
        }
    }
}

/// A thread's way through its footprint.
#[derive(Clone, Copy, Debug, Default)]
struct Pass {
    footprint: Footprint,
    room: f64,
    /// Bytes that were there when it began.
    held: f64,
    /// Its progress, 0..=1, at `from_ns`, and the progress per nanosecond.
    done: f64,
    from_ns: u64,
    per_ns: f64,
    /// Its end, and its key in `due`; `u64::MAX`: not known.
    end_ns: u64,
    first: bool,
    far: bool,
}

impl Pass {
    fn done(&self, now_ns: u64) -> f64 {
        (self.done + (now_ns - self.from_ns) as f64 * self.per_ns).min(1.0)
    }

    fn held(&self, now_ns: u64) -> f64 {
        if !self.first {
            return self.room;
        }
        self.held + (self.room - self.held) * self.done(now_ns)
    }

    /// Starts again with this much of the footprint and this much room.
    fn begin(&mut self, now_ns: u64, held: f64, room: f64) {
        let held = held.min(room);
        self.first = room - held > UNNOTICED * room;
        (self.held, self.room) = (held, room);
        (self.done, self.from_ns, self.per_ns) = (0.0, now_ns, 0.0);
    }

    fn missing(&self) -> f64 {
        let there = if self.first { self.held } else { self.room };
        1.0 - there / self.footprint.bytes
    }
}

/// A thread on a CPU.
#[derive(Clone, Copy, Debug)]
struct Visitor {
    task: u32,
    passes: [Pass; LEVELS],
}

/// What a thread misses per instruction because private levels do not hold it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cold {
    /// Lines that it fetches into its caches.
    pub lines: f64,
    /// Exposed cycles, including those for the TLB.
    pub stall: f64,
}

/// The private levels of all cores.
#[derive(Clone, Debug)]
pub struct Private {
    capacity: [f64; LEVELS],
    /// By CPU: its core, from 1, and its last-level cache.
    at: Vec<(u32, u32)>,
    /// By core, from 1: its CPUs.
    cpus: Vec<Vec<u32>>,
    /// By core, from 1.
    stores: Vec<[Store; LEVELS]>,
    /// By CPU.
    visitors: Vec<Option<Visitor>>,
    /// By task: what it has left, and the last-level cache where it was, from 1.
    left: Vec<([Left; LEVELS], u32)>,
    /// Ends of first passes: when, and CPU × [`LEVELS`] + level.
    due: BTreeSet<(u64, u32)>,
}

impl Private {
    /// Empty levels of this many bytes, and each CPU's core and last-level cache; 0 bytes: that level always
    /// holds everything.
    pub fn new(capacity: [f64; LEVELS], at: impl Iterator<Item = (u32, u32)>) -> Private {
        let at: Vec<(u32, u32)> = at.map(|(core, llc)| (core + 1, llc + 1)).collect();
        let cores = at.iter().map(|(core, _)| *core as usize + 1).max().unwrap_or(1);
        let mut cpus = vec![Vec::new(); cores];
        for (cpu, (core, _)) in (0u32..).zip(&at) {
            cpus[*core as usize].push(cpu);
        }
        Private {
            capacity,
            visitors: vec![None; at.len()],
            stores: vec![[Store { idle: 0.0, survival: 1.0, epoch: 0 }; LEVELS]; cores],
            left: Vec::new(),
            due: BTreeSet::new(),
            at,
            cpus,
        }
    }

    /// A thread comes to a CPU. Pushes the CPUs of its core whose room changes.
    pub fn come(
        &mut self,
        now_ns: u64,
        cpu: u32,
        task: u32,
        footprints: &[Footprint; LEVELS],
        changed: &mut Vec<u32>,
    ) {
        if footprints.iter().all(|f| f.bytes == 0.0) {
            return;
        }
        let (core, llc) = self.at[cpu as usize];
        self.make_room_for_task(task);
        let mut passes = [Pass::default(); LEVELS];
        for level in 0..LEVELS {
            let footprint = footprints[level];
            if self.capacity[level] == 0.0 || footprint.bytes == 0.0 {
                continue;
            }
            self.push_out(now_ns, core, level);
            let (left, was_under) = (self.left[task as usize].0[level], self.left[task as usize].1);
            let store = &mut self.stores[core as usize][level];
            let there = if left.core == core { left.bytes * store.survived(&left) } else { 0.0 };
            let held = there.min(footprint.bytes);
            store.idle = (store.idle - held).max(0.0);
            passes[level] =
                Pass { footprint, held, end_ns: u64::MAX, far: was_under != llc, ..Pass::default() };
        }
        self.visitors[cpu as usize] = Some(Visitor { task, passes });
        for (level, pass) in passes.iter().enumerate().filter(|(_, p)| p.footprint.bytes > 0.0) {
            self.pass(cpu, level).begin(now_ns, 0.0, 0.0);
            self.share_out(now_ns, core, level, Some((cpu, pass.held)), changed);
        }
    }

    /// The thread on a CPU leaves. Pushes the CPUs of its core whose room changes.
    pub fn go(&mut self, now_ns: u64, cpu: u32, changed: &mut Vec<u32>) {
        let Some(visitor) = self.visitors[cpu as usize] else { return };
        let (core, llc) = self.at[cpu as usize];
        for level in 0..LEVELS {
            let pass = &visitor.passes[level];
            if pass.footprint.bytes == 0.0 {
                continue;
            }
            self.push_out(now_ns, core, level);
            self.forget_end(cpu, level);
            let bytes = pass.held(now_ns);
            let store = &mut self.stores[core as usize][level];
            store.idle += bytes;
            self.left[visitor.task as usize].0[level] =
                Left { core, bytes, survival: store.survival, epoch: store.epoch };
        }
        self.left[visitor.task as usize].1 = llc;
        self.visitors[cpu as usize] = None;
        for level in 0..LEVELS {
            if visitor.passes[level].footprint.bytes > 0.0 {
                self.share_out(now_ns, core, level, None, changed);
            }
        }
    }

    /// A thread continues with data that it has not used before, on this CPU or on none. Returns whether it
    /// finds less than before.
    pub fn new_data(&mut self, now_ns: u64, task: u32, cpu: Option<u32>) -> bool {
        let visitor = cpu.and_then(|cpu| Some((cpu, self.visitors[cpu as usize]?)));
        let Some((cpu, visitor)) = visitor else {
            if let Some(left) = self.left.get_mut(task as usize) {
                left.0 = [Left::default(); LEVELS];
            }
            return false;
        };
        let core = self.at[cpu as usize].0;
        for level in (0..LEVELS).filter(|l| visitor.passes[*l].footprint.bytes > 0.0) {
            self.push_out(now_ns, core, level);
            self.forget_end(cpu, level);
            let pass = self.pass(cpu, level);
            let (held, room) = (pass.held(now_ns), pass.room);
            pass.begin(now_ns, 0.0, room);
            self.stores[core as usize][level].idle += held;
        }
        true
    }

    /// The present misses of the thread on a CPU.
    pub fn cold(&self, cpu: u32) -> Cold {
        let Some(visitor) = &self.visitors[cpu as usize] else { return Cold::default() };
        let mut cold = Cold::default();
        for (level, pass) in visitor.passes.iter().enumerate().filter(|(_, p)| p.footprint.bytes > 0.0) {
            let f = &pass.footprint;
            let lines = f.references * pass.missing();
            cold.stall += lines * if pass.far { f.far } else { f.near };
            if level == 0 {
                cold.lines = lines;
            }
        }
        cold
    }

    /// From now on the thread on a CPU executes this many instructions per nanosecond.
    pub fn set_rate(&mut self, now_ns: u64, cpu: u32, instructions: f64) {
        for level in 0..LEVELS {
            let Some(visitor) = &mut self.visitors[cpu as usize] else { return };
            let pass = &mut visitor.passes[level];
            if !pass.first || pass.footprint.bytes == 0.0 {
                continue;
            }
            (pass.done, pass.from_ns) = (pass.done(now_ns), now_ns);
            pass.per_ns = instructions * pass.footprint.references * LINE / pass.footprint.bytes;
            let ns = (1.0 - pass.done) / pass.per_ns;
            self.forget_end(cpu, level);
            if ns < 1e15 {
                let end_ns = now_ns + ns.ceil().max(1.0) as u64;
                self.pass(cpu, level).end_ns = end_ns;
                self.due.insert((end_ns, cpu * LEVELS as u32 + level as u32));
            }
        }
    }

    /// When the next first pass of a thread ends; `u64::MAX`: none will.
    pub fn next_ns(&self) -> u64 {
        self.due.first().map_or(u64::MAX, |(end_ns, _)| *end_ns)
    }

    /// Ends the first passes that are due, and pushes their CPUs.
    pub fn end_passes(&mut self, now_ns: u64, changed: &mut Vec<u32>) {
        while let Some((end_ns, place)) = self.due.first().copied().filter(|(end_ns, _)| *end_ns <= now_ns) {
            self.due.remove(&(end_ns, place));
            let (cpu, level) = (place / LEVELS as u32, place as usize % LEVELS);
            let pass = self.pass(cpu, level);
            (pass.first, pass.far, pass.end_ns) = (false, false, u64::MAX);
            changed.push(cpu);
        }
    }

    fn pass(&mut self, cpu: u32, level: usize) -> &mut Pass {
        let visitor = self.visitors[cpu as usize].as_mut().expect("a thread is on this CPU");
        &mut visitor.passes[level]
    }

    fn make_room_for_task(&mut self, task: u32) {
        if self.left.len() <= task as usize {
            self.left.resize(task as usize + 1, Default::default());
        }
    }

    fn forget_end(&mut self, cpu: u32, level: usize) {
        let end_ns = std::mem::replace(&mut self.pass(cpu, level).end_ns, u64::MAX);
        if end_ns != u64::MAX {
            self.due.remove(&(end_ns, cpu * LEVELS as u32 + level as u32));
        }
    }

    /// Bytes of the running threads on a core.
    fn held(&self, now_ns: u64, core: u32, level: usize) -> f64 {
        let visitors =
            self.cpus[core as usize].iter().filter_map(|cpu| self.visitors[*cpu as usize].as_ref());
        visitors.map(|v| v.passes[level]).filter(|p| p.footprint.bytes > 0.0).map(|p| p.held(now_ns)).sum()
    }

    /// The data that running threads have loaded so far replaces what others left.
    fn push_out(&mut self, now_ns: u64, core: u32, level: usize) {
        let room = (self.capacity[level] - self.held(now_ns, core, level)).max(0.0);
        let store = &mut self.stores[core as usize][level];
        if store.idle <= room {
            return;
        }
        store.survival *= room / store.idle;
        store.idle = room;
        if room < LINE {
            // Nothing of the old data is left.
            *store = Store { idle: 0.0, survival: 1.0, epoch: store.epoch + 2 };
        } else if store.survival < EPOCH {
            (store.survival, store.epoch) = (store.survival / EPOCH, store.epoch + 1);
        }
    }

    /// Computes the room of every thread on a core; `new` is about to come, with what is left of its bytes.
    fn share_out(
        &mut self,
        now_ns: u64,
        core: u32,
        level: usize,
        new: Option<(u32, f64)>,
        changed: &mut Vec<u32>,
    ) {
        let of = |v: &Option<Visitor>| v.as_ref().map_or(0.0, |v| v.passes[level].footprint.bytes);
        let wanted: f64 = self.cpus[core as usize].iter().map(|cpu| of(&self.visitors[*cpu as usize])).sum();
        let part = (self.capacity[level] / wanted.max(1.0)).min(1.0);
        for i in 0..self.cpus[core as usize].len() {
            let cpu = self.cpus[core as usize][i];
            let bytes = of(&self.visitors[cpu as usize]);
            if bytes == 0.0 {
                continue;
            }
            let pass = self.pass(cpu, level);
            let held = new.filter(|n| n.0 == cpu).map_or_else(|| pass.held(now_ns), |n| n.1);
            let room = bytes * part;
            if pass.room != room {
                pass.begin(now_ns, held, room);
                self.forget_end(cpu, level);
                changed.push(cpu);
            }
        }
        self.push_out(now_ns, core, level);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const CAPACITY: f64 = 4096.0 * LINE;

    fn footprint(part: f64) -> [Footprint; LEVELS] {
        let caches = Footprint { bytes: part * CAPACITY, references: 0.01, near: 10.0, far: 50.0 };
        [caches, Footprint::default()]
    }

    /// Two cores of two hyperthreads under one cache.
    fn two_cores() -> Private {
        Private::new([CAPACITY, 0.0], [(0, 0), (1, 0), (0, 0), (1, 0)].into_iter())
    }

    /// A thread runs on CPU 0 until it has its whole footprint. Returns what it missed at first.
    fn visits(p: &mut Private, now_ns: &mut u64, task: u32, part: f64) -> f64 {
        p.come(*now_ns, 0, task, &footprint(part), &mut Vec::new());
        let missed = p.cold(0).lines / 0.01;
        p.set_rate(*now_ns, 0, 1.0);
        if p.next_ns() != u64::MAX {
            *now_ns = p.next_ns();
            p.end_passes(*now_ns, &mut Vec::new());
        }
        assert_eq!(p.cold(0), Cold::default());
        *now_ns += 1_000_000;
        p.go(*now_ns, 0, &mut Vec::new());
        missed
    }

    #[test]
    fn the_loss_is_what_others_loaded_since_and_at_most_everything() {
        let after = |parts: &[f64]| {
            let (mut p, mut now_ns) = (two_cores(), 0);
            assert_eq!(visits(&mut p, &mut now_ns, 0, 0.5), 1.0);
            for (task, part) in (1..).zip(parts) {
                visits(&mut p, &mut now_ns, task, *part);
            }
            visits(&mut p, &mut now_ns, 0, 0.5)
        };
        assert_eq!(after(&[]), 0.0);
        assert_eq!(after(&[0.5]), 0.0, "both fit");
        assert!((after(&[0.75]) - 0.5).abs() < 1e-9, "half of it had to go");
        assert_eq!(after(&[1.0]), 1.0);
        assert_eq!(after(&[1.0, 1.0]), 1.0);
        assert!((after(&[0.5, 0.25]) - 0.25).abs() < 1e-9, "a quarter of all lines of those who are away");
        // A thread that returns again and again loads nothing again.
        let (mut p, mut now_ns) = (two_cores(), 0);
        visits(&mut p, &mut now_ns, 0, 0.5);
        (0..100).for_each(|_| assert!(visits(&mut p, &mut now_ns, 1, 0.25) <= 1.0));
        assert_eq!(visits(&mut p, &mut now_ns, 0, 0.5), 0.0);
    }

    #[test]
    fn hyperthreads_have_half_of_the_room_each() {
        let mut p = two_cores();
        let mut changed = Vec::new();
        p.come(0, 0, 0, &footprint(1.0), &mut changed);
        p.set_rate(0, 0, 1.0);
        let warm_ns = p.next_ns();
        p.end_passes(warm_ns, &mut changed);
        changed.clear();
        p.come(warm_ns, 2, 1, &footprint(1.0), &mut changed);
        assert!(changed.contains(&0), "the one that was there has less now");
        assert_eq!((p.cold(0).lines, p.cold(2).lines), (0.005, 0.01));
        p.set_rate(warm_ns, 2, 1.0);
        let shared_ns = p.next_ns();
        p.end_passes(shared_ns, &mut changed);
        assert_eq!((p.cold(0).lines, p.cold(2).lines), (0.005, 0.005));
        // After the other has left, it has all of it again, after a pass.
        changed.clear();
        p.go(shared_ns, 2, &mut changed);
        assert_eq!((p.cold(0).lines, &changed[..]), (0.005, &[0][..]));
        p.set_rate(shared_ns, 0, 1.0);
        let alone_ns = p.next_ns();
        p.end_passes(alone_ns, &mut changed);
        assert_eq!(p.cold(0).lines, 0.0);
    }

    #[test]
    fn short_visits_load_as_much_as_they_have_time_for() {
        let (mut p, mut lines) = (two_cores(), 0.0);
        for visit in 0..20 {
            // A pass takes 409,600 instructions.
            let now_ns = visit * 40_960;
            p.come(now_ns, 0, 0, &footprint(1.0), &mut Vec::new());
            p.set_rate(now_ns, 0, 1.0);
            lines += p.cold(0).lines * 40_960.0;
            p.go(now_ns + 40_960, 0, &mut Vec::new());
        }
        // Each goes through a tenth; what earlier visits loaded of it is there.
        let expected = 4096.0 * (1.0 - 0.9f64.powi(20));
        assert!((lines / expected - 1.0).abs() < 0.01, "{lines} instead of {expected}");
    }

    #[test]
    fn data_of_others_is_fetched_and_all_data_on_another_core_too() {
        let (mut p, mut now_ns) = (two_cores(), 0);
        visits(&mut p, &mut now_ns, 0, 0.5);
        p.come(now_ns, 0, 0, &footprint(0.5), &mut Vec::new());
        assert!(p.new_data(now_ns, 0, Some(0)));
        assert_eq!(p.cold(0).lines, 0.01);
        p.go(now_ns, 0, &mut Vec::new());
        p.come(now_ns, 1, 0, &footprint(0.5), &mut Vec::new());
        assert_eq!(
            (p.cold(1).lines, p.cold(1).stall),
            (0.01, 0.1),
            "from the cache that both cores are under"
        );
        p.go(now_ns, 1, &mut Vec::new());
        let mut far = Private::new([CAPACITY, 0.0], [(0, 0), (1, 1)].into_iter());
        visits(&mut far, &mut now_ns, 0, 0.5);
        far.come(now_ns, 1, 0, &footprint(0.5), &mut Vec::new());
        assert_eq!(far.cold(1).stall, 0.5, "from memory");
    }

    proptest! {
        #[test]
        fn no_level_holds_more_than_it_can(
            steps in proptest::collection::vec((0u32..4, 0u32..6, 1u64..600_000), 1..200),
        ) {
            let (mut p, mut now_ns) = (two_cores(), 0);
            let mut on = [None; 4];
            for (cpu, task, ns) in steps {
                now_ns += ns;
                p.end_passes(now_ns, &mut Vec::new());
                if on[cpu as usize].take().is_some() {
                    p.go(now_ns, cpu, &mut Vec::new());
                } else if !on.contains(&Some(task)) {
                    on[cpu as usize] = Some(task);
                    p.come(now_ns, cpu, task, &footprint(0.3 + 0.2 * f64::from(task)), &mut Vec::new());
                }
                (0..4).for_each(|cpu| p.set_rate(now_ns, cpu, 1.0));
                for core in 1..=2 {
                    p.push_out(now_ns, core, 0);
                    let held = p.held(now_ns, core, 0) + p.stores[core as usize][0].idle;
                    prop_assert!(held <= CAPACITY * (1.0 + 1e-9), "{held} of {CAPACITY}");
                }
                let missing = (0..4).map(|cpu| p.cold(cpu).lines / 0.01);
                prop_assert!(missing.into_iter().all(|m| (0.0..=1.0).contains(&m)));
            }
        }
    }
}
