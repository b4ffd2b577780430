//! All contention models together. Input: which tasks run where. Output: rates and counters.
//!
//! Three rules make it incremental. A change marks its own CPU. If a CPU's demand for issue slots changes, it marks its hyperthreads.
//! The cache, the memory and the sharing group of a CPU mark their other users only after a noticeable change. That is a 32nd of a
//! working set (once a millisecond a 256th), a 64th of a task's cycles per instruction through the queue for memory, or a 64th of a
//! group. A task that uses none of them costs a constant.

use corun_model::machine::Cpu;
use corun_model::workload::{Character, Placed};
use corun_model::Counters;

use super::coherence::{Group, Place, Sharing};
use super::energy::{Energy, Meter};
use super::links::Links;
use super::llc::{Domain, Left, Part};
use super::membw::{Demand, Memory, LINE};
use super::numa::{Homes, Numa};
use super::private::Private;
use super::profile::{spinning, Profile};
use super::regions::{Missed, Regions, NOWHERE};
use super::tally::{Rates, Tally};
use super::{smt, CharacterId, CpuRate, Running, ONE};
use crate::machine_file::MachineModel;

mod cold;
mod evaluate;
mod in_step;
mod lines;
#[cfg(test)]
mod placed;
mod queues;

/// Smaller changes of a rate are ignored: a 2,048th.
const NOTICEABLE: u32 = ONE >> 11;
/// A task's rate is computed again when the queue for its node changes it by this much.
const QUEUE_NOTICEABLE: f64 = 1.0 / 64.0;
/// All contention models together.
#[derive(Debug)]
pub struct System {
    model: MachineModel,
    numa: Numa,
    slope: f64,
    known: Vec<Character>,
    /// By [`CharacterId`].
    profiles: Vec<Profile>,
    spin: Profile,
    slots: Vec<Slot>,
    /// By LLC number.
    domains: Vec<Domain>,
    /// For each LLC number: when its shares will have moved; `u64::MAX`: never.
    wakes_ns: Vec<u64>,
    next_ns: u64,
    /// When a cohort will have caught up with another; `u64::MAX`: never.
    catch_up_ns: u64,
    nodes: Vec<Node>,
    links: Links,
    /// CPUs whose tasks have data on several nodes.
    spread: Vec<u32>,
    /// Millionths of a node's capacity that they would move on each node without waiting: now, and when the
    /// queues were last computed.
    spread_wanted: u64,
    spread_solved: u64,
    regions: Regions,
    /// `None` if private levels are always warm.
    private: Option<Box<Private>>,
    /// CPUs whose private levels are evaluated again. A field only to keep its memory.
    warmed: Vec<u32>,
    /// By program: where its data lives.
    homes: Vec<Homes>,
    /// By program.
    groups: Vec<Group>,
    /// By task.
    tasks: Vec<Task>,
    meter: Meter,
    /// CPUs to evaluate at the next refresh.
    dirty: Vec<u32>,
    /// Programs whose computing threads changed since.
    regrouped: Vec<u32>,
    /// LLC domains whose next wake-up must be planned again.
    unplanned: Vec<u32>,
    /// A node was touched since its queue was computed.
    nodes_touched: bool,
    /// Programs of evaluated CPUs whose transfers may wait for lines.
    contending: Vec<u32>,
    /// Used only while queues are solved; kept for its memory.
    demands: Vec<Demand>,
    /// The same for cohorts in the order of their places.
    abreast: Vec<(u64, u32)>,
    evaluations: u64,
}

/// A CPU, on cache lines of its own.
#[derive(Clone, Debug)]
#[repr(align(64))]
struct Slot {
    at: Cpu,
    running: Option<Running>,
    /// Its counters are settled up to here.
    settled_ns: u64,
    rates: Rates,
    /// The value that the engine knows.
    progress: u32,
    dirty: bool,
    /// The other hyperthreads of its core.
    siblings: Box<[u32]>,
    /// Issue slots that it wants, as a share of the core's.
    demand: f64,
    /// Node of its task's memory.
    home: u32,
    /// Misses per instruction that go to data spread over nodes, and whether they go to all nodes equally.
    far: f64,
    interleaved: bool,
    /// Misses per instruction by target, if its task's data has parts.
    missed: Missed,
    sharing: Sharing,
    /// Lines per instruction that its private caches lack.
    cold_lines: f64,
    /// Cycles per instruction for which its transfers keep lines. Then the wait of each: the value in its
    /// rates, and the value in `memory`.
    line_busy: f64,
    line_exposed: f64,
    line_wait: f64,
    /// Cycles of computation per instruction, stretched by hyperthreads.
    computing: f64,
    memory: Demand,
    /// Cycles that a request waits for its node: the value in its rates.
    wait: f64,
    /// Its part of its node's `wanted`, and of `spread_wanted`.
    wanted: u64,
    spread_wanted: u64,
    /// Its part of the insertions of its region, in bytes per nanosecond.
    into_region: f64,
    /// Places in its LLC domain, of the hot part of its data there, its region, its place among `spread`, in its home node and its
    /// cohort.
    in_domain: u32,
    in_hot: u32,
    region: u32,
    in_spread: u32,
    in_node: u32,
    in_group: u32,
    /// Its cohort in its group, and the place in the program from which its own is counted on.
    cohort: u32,
    place: Option<Place>,
}

/// A NUMA node's memory.
#[derive(Debug)]
struct Node {
    memory: Memory,
    /// CPUs whose tasks live here.
    users: Vec<u32>,
    /// Cycles that a request waits.
    wait: f64,
    /// Millionths of the capacity that the users would move without waiting: now, and when `wait` was
    /// computed.
    wanted: u64,
    solved: u64,
    touched: bool,
}

/// A task, running or not, on cache lines of its own.
#[derive(Clone, Debug, Default)]
#[repr(align(64))]
struct Task {
    tally: Tally,
    /// The CPU it runs on.
    on: Option<u32>,
    /// Node of its memory, once it has computed.
    home: Option<u32>,
    left: Left,
    left_hot: Left,
    counted: bool,
}

impl System {
    /// A quiet machine at time 0.
    pub fn new(model: &MachineModel) -> System {
        let numa = Numa::new(model);
        let memory = Memory {
            capacity: model.node_bandwidth as f64 / 1e9 / model.ghz,
            busy: model.latency.dram_busy_ns as f64 * model.ghz,
            rows: model.rows,
        };
        let cpus = model.machine.cpus();
        let last = |f: fn(&Cpu) -> u32| cpus.iter().map(f).max().map_or(0, |n| n as usize + 1);
        let mut cores = vec![Vec::new(); last(|c| c.core)];
        for (cpu, at) in (0u32..).zip(cpus) {
            cores[at.core as usize].push(cpu);
        }
        let siblings =
            |of: u32, at: &Cpu| cores[at.core as usize].iter().copied().filter(|c| *c != of).collect();
        let llcs = last(|c| c.llc);
        let node = |_| Node { memory, users: Vec::new(), wait: 0.0, wanted: 0, solved: 0, touched: false };
        System {
            slope: smt::slope(&model.smt),
            known: Vec::new(),
            profiles: Vec::new(),
            spin: spinning(model, &numa, &memory),
            slots: (0..).zip(cpus).map(|(cpu, at)| Slot::idle(*at, siblings(cpu, at))).collect(),
            domains: vec![Domain::new(model.llc_bytes); llcs],
            wakes_ns: vec![u64::MAX; llcs],
            next_ns: u64::MAX,
            catch_up_ns: u64::MAX,
            nodes: (0..numa.nodes()).map(node).collect(),
            links: Links::new(numa.nodes(), model.link_bandwidth.map(|b| b as f64 / 1e9 / model.ghz)),
            spread: Vec::new(),
            spread_wanted: 0,
            spread_solved: 0,
            regions: Regions::default(),
            private: cold::private(model),
            warmed: Vec::new(),
            homes: Vec::new(),
            groups: Vec::new(),
            tasks: Vec::new(),
            meter: Meter::new(model),
            dirty: Vec::new(),
            regrouped: Vec::new(),
            unplanned: Vec::new(),
            nodes_touched: false,
            contending: Vec::new(),
            demands: Vec::new(),
            abreast: Vec::new(),
            evaluations: 0,
            model: model.clone(),
            numa,
        }
    }

    /// Registers a character; equal characters have one number.
    pub fn character(&mut self, character: &Character) -> CharacterId {
        let place = self.known.iter().position(|k| k == character).unwrap_or_else(|| {
            let memory = self.nodes[0].memory;
            self.profiles.push(Profile::new(character, &self.model, &self.numa, &memory));
            self.known.push(character.clone());
            self.known.len() - 1
        });
        CharacterId(place as u32)
    }

    /// From `now_ns` on, `cpu` runs this (`None`: idle). First, counters up to now are settled. Returns
    /// whether this differs from before; if so, it starts at [`ONE`].
    #[inline]
    pub fn set(&mut self, now_ns: u64, cpu: u32, running: Option<Running>) -> bool {
        self.set_at(now_ns, cpu, running, None)
    }

    /// The same for a thread at some place of its program.
    #[inline]
    pub fn set_at(&mut self, now_ns: u64, cpu: u32, running: Option<Running>, place: Option<Place>) -> bool {
        let differs = self.slots[cpu as usize].running != running;
        if differs {
            self.change(now_ns, cpu, running, place);
        }
        differs
    }

    fn change(&mut self, now_ns: u64, cpu: u32, running: Option<Running>, place: Option<Place>) {
        self.settle(now_ns, cpu);
        let before = self.slots[cpu as usize].running;
        let at = self.slots[cpu as usize].at;
        match (before.is_some(), running.is_some()) {
            (false, true) => self.meter.start(now_ns, at.core, at.socket),
            (true, false) => self.meter.stop(now_ns, at.core, at.socket),
            _ => {}
        }
        if let Some(r) = before {
            self.leave(now_ns, cpu, r);
            let task = &mut self.tasks[r.task as usize];
            task.on = task.on.filter(|on| *on != cpu);
        }
        let slot = &mut self.slots[cpu as usize];
        (slot.running, slot.progress, slot.sharing) = (running, ONE, Sharing::default());
        (slot.line_busy, slot.cold_lines) = (0.0, 0.0);
        if let Some(r) = running {
            self.task(r.task).on = Some(cpu);
            self.join(now_ns, cpu, r, place);
        }
        self.mark(cpu);
    }

    /// Pushes the CPUs whose rate changed since the previous call. A CPU that starts to run a task has the rate [`ONE`] unless it is
    /// pushed here.
    pub fn refresh(&mut self, now_ns: u64, changed: &mut Vec<CpuRate>) {
        if now_ns >= self.next_ns {
            self.wake(now_ns);
        }
        if now_ns >= self.catch_up_ns {
            self.catch_up(now_ns);
        }
        if now_ns >= self.warm_ns() {
            self.warm_up(now_ns);
        }
        for i in 0..self.regrouped.len() {
            let program = self.regrouped[i] as usize;
            if self.groups[program].take_drift() {
                let Self { groups, slots, dirty, .. } = self;
                groups[program].members().for_each(|cpu| mark(slots, dirty, cpu));
            }
        }
        if !self.dirty.is_empty() {
            // Marks may be added in each of the first four steps, and only by the one before the last three.
            let mut i = 0;
            while i < self.dirty.len() {
                self.evaluate(now_ns, self.dirty[i]);
                i += 1;
            }
            for i in 0..self.dirty.len() {
                self.stretch(self.dirty[i]);
            }
            self.solve_nodes();
            self.solve_lines();
            for i in 0..self.dirty.len() {
                if let Some(rate) = self.finish(now_ns, self.dirty[i]) {
                    changed.push(rate);
                }
            }
            self.dirty.clear();
        }
        if !self.regrouped.is_empty() {
            self.plan_catching_up(now_ns);
        }
        if !self.unplanned.is_empty() {
            self.plan();
        }
    }

    /// When [`refresh`](Self::refresh) should be called again although nothing was [`set`](Self::set): a
    /// cache fills, or threads catch up with others, so rates change without a call.
    pub fn next_ns(&self) -> Option<u64> {
        let next_ns = self.next_ns.min(self.catch_up_ns).min(self.warm_ns());
        (next_ns != u64::MAX).then_some(next_ns)
    }

    /// The number of CPU evaluations so far: the work done, in a unit that does not depend on the machine.
    pub fn evaluations(&self) -> u64 {
        self.evaluations
    }

    /// A task's counters since it started, settled up to `now_ns`.
    pub fn counters(&mut self, now_ns: u64, task: u32) -> Counters {
        if let Some(cpu) = self.task(task).on {
            self.settle(now_ns, cpu);
        }
        self.tasks[task as usize].tally.counters(self.model.ghz)
    }

    /// Energy so far, per core and for the rest of each package; `None` if the machine file has no power
    /// figures.
    pub fn energy_uj(&mut self, now_ns: u64) -> Option<Energy> {
        self.meter.energy(now_ns)
    }

    fn task(&mut self, task: u32) -> &mut Task {
        let task = task as usize;
        if self.tasks.len() <= task {
            self.tasks.resize(task + 1, Task::default());
        }
        &mut self.tasks[task]
    }

    fn mark(&mut self, cpu: u32) {
        mark(&mut self.slots, &mut self.dirty, cpu);
    }

    fn settle(&mut self, now_ns: u64, cpu: u32) {
        self.slots[cpu as usize].settle(now_ns, &mut self.tasks);
    }

    fn leave(&mut self, now_ns: u64, cpu: u32, was: Running) {
        let slot = &mut self.slots[cpu as usize];
        let (at, home) = (slot.at, slot.home as usize);
        let (in_domain, in_node) = (slot.in_domain, slot.in_node);
        (slot.in_domain, slot.in_node) = (NOWHERE, NOWHERE);
        let wanted = std::mem::take(&mut slot.wanted);
        if in_domain != NOWHERE {
            self.domains[at.llc as usize].advance(now_ns);
            self.tasks[was.task as usize].left = self.leave_domain(at.llc, in_domain);
            self.leave_parts(cpu, was);
            self.unplan(at.llc);
            let node = &mut self.nodes[home];
            (node.wanted, node.touched) = (node.wanted - wanted, true);
            self.nodes_touched = true;
            node.users.swap_remove(in_node as usize);
            if let Some(cpu) = node.users.get(in_node as usize) {
                self.slots[*cpu as usize].in_node = in_node;
            }
        }
        self.leave_group(cpu, was);
        self.leave_private(now_ns, cpu);
    }

    fn join(&mut self, now_ns: u64, cpu: u32, now: Running, place: Option<Place>) {
        let at = self.slots[cpu as usize].at;
        let task = self.task(now.task);
        if now.spinning {
            self.slots[cpu as usize].home = task.home.unwrap_or(at.node);
            return;
        }
        let (first, left) = (task.home.is_none(), task.left);
        let mut home = *task.home.get_or_insert(at.node);
        let new = !std::mem::replace(&mut task.counted, true);
        if first {
            self.begin(now.program, home);
        }
        let profile = &self.profiles[now.character.0 as usize];
        if profile.placed == Placed::Main {
            home = self.homes[now.program as usize].main.unwrap_or(home);
        }
        let slot = &mut self.slots[cpu as usize];
        slot.home = home;
        if profile.memory {
            let domain = &mut self.domains[at.llc as usize];
            domain.advance(now_ns);
            // A pure stream has no working set: one byte of it keeps the arithmetic whole.
            let place = domain.join(at.llc, Part::Own(cpu), profile.working_set.max(1.0), &left);
            let node = &mut self.nodes[home as usize];
            (slot.in_domain, slot.in_node) = (place as u32, node.users.len() as u32);
            node.users.push(cpu);
            node.touched = true;
            self.nodes_touched = true;
            if profile.parts.is_some() || profile.placed == Placed::Interleaved {
                self.join_parts(cpu, now);
            }
        }
        self.join_private(now_ns, cpu, now);
        let profile = &self.profiles[now.character.0 as usize];
        if profile.coherent {
            if self.groups.len() <= now.program as usize {
                self.groups.resize(now.program as usize + 1, Group::default());
            }
            self.groups[now.program as usize].threads += u32::from(new);
            self.join_group(now_ns, cpu, now, place);
        }
    }

    fn regroup(&mut self, program: u32) {
        if self.regrouped.last() != Some(&program) {
            self.regrouped.push(program);
        }
    }

    fn unplan(&mut self, llc: u32) {
        if self.unplanned.last() != Some(&llc) {
            self.unplanned.push(llc);
        }
    }

    /// Adds the hyperthreads' part, and reports the task's demand to its node.
    fn stretch(&mut self, cpu: u32) {
        let slot = &self.slots[cpu as usize];
        let Some(r) = slot.running else { return };
        let others: f64 = slot.siblings.iter().map(|c| self.slots[*c as usize].demand).sum();
        let p = if r.spinning { &self.spin } else { &self.profiles[r.character.0 as usize] };
        let slot = &mut self.slots[cpu as usize];
        slot.computing = p.compute * smt::stretch(self.slope, others);
        // `evaluate` left the unstretched sum in `base_cpi`; a CPU is stretched once per refresh.
        slot.memory.base_cpi += slot.computing - p.compute;
        if slot.line_busy > 0.0 {
            self.contend(cpu, r.program);
        }
        let slot = &mut self.slots[cpu as usize];
        if slot.in_node != NOWHERE {
            let node = &mut self.nodes[slot.home as usize];
            let mut wanted = (slot.memory.bytes_per_cycle(0.0) / node.memory.capacity * 1e6) as u64;
            if slot.in_spread != NOWHERE {
                let spread = (wanted as f64 * (slot.far / slot.memory.misses.max(1e-12)).min(1.0)) as u64;
                wanted -= spread;
                self.spread_wanted = self.spread_wanted - slot.spread_wanted + spread;
                slot.spread_wanted = spread;
            }
            node.wanted = node.wanted - slot.wanted + wanted;
            (slot.wanted, node.touched) = (wanted, true);
            self.nodes_touched = true;
        }
    }

    /// Puts the parts together: the rate, the counters' rates and the insertions into the cache.
    fn finish(&mut self, now_ns: u64, cpu: u32) -> Option<CpuRate> {
        self.evaluations += 1;
        let wait = self.waits(&self.slots[cpu as usize]);
        let remote = self.remote_part(&self.slots[cpu as usize]);
        let slot = &mut self.slots[cpu as usize];
        slot.dirty = false;
        let r = slot.running?;
        slot.settle(now_ns, &mut self.tasks);
        let p = if r.spinning { &self.spin } else { &self.profiles[r.character.0 as usize] };
        slot.wait = wait;
        let mut cpi = slot.memory.cpi(slot.wait);
        if slot.line_busy > 0.0 {
            let wait = self.groups[r.program as usize].queue(slot.cohort).wait;
            // `memory` has the previous wait.
            cpi += slot.line_stall(wait - slot.line_wait);
            slot.memory.base_cpi += slot.line_stall(wait - slot.line_wait);
            slot.line_wait = wait;
        }
        let instructions = self.model.ghz / cpi;
        let dram = instructions * slot.memory.misses;
        slot.rates = Rates {
            instructions,
            branches: instructions * p.branches,
            mispredicts: instructions * p.mispredicts,
            references: instructions
                * (p.references + slot.cold_lines + slot.sharing.intra + slot.sharing.inter),
            misses: dram + instructions * slot.sharing.inter,
            stalls: instructions * (cpi - slot.computing),
            intra: instructions * slot.sharing.intra,
            inter: instructions * slot.sharing.inter,
            dram,
            remote: dram * remote,
        };
        if slot.in_domain != NOWHERE {
            let domain = &mut self.domains[slot.at.llc as usize];
            domain.advance(now_ns);
            let stream = instructions * p.references * p.compulsory * LINE;
            if p.parts.is_some() {
                self.set_parts(cpu, instructions, stream);
            } else {
                domain.set_rates(slot.in_domain as usize, dram * LINE - stream, stream);
            }
            let llc = self.slots[cpu as usize].at.llc;
            self.unplan(llc);
        }
        if let Some(private) = &mut self.private {
            private.set_rate(now_ns, cpu, instructions);
        }
        let slot = &mut self.slots[cpu as usize];
        let p = if r.spinning { &self.spin } else { &self.profiles[r.character.0 as usize] };
        let progress = ((p.alone_cpi / cpi * f64::from(ONE) + 0.5) as u32).clamp(1, ONE);
        if progress.abs_diff(slot.progress) < NOTICEABLE {
            return None;
        }
        slot.place_anew(now_ns);
        slot.progress = progress;
        Some(CpuRate { cpu, progress })
    }
}

fn mark(slots: &mut [Slot], dirty: &mut Vec<u32>, cpu: u32) {
    if !std::mem::replace(&mut slots[cpu as usize].dirty, true) {
        dirty.push(cpu);
    }
}

impl Slot {
    /// Counts the events of its task since it was last settled.
    #[inline]
    fn settle(&mut self, now_ns: u64, tasks: &mut [Task]) {
        let ns = now_ns - std::mem::replace(&mut self.settled_ns, now_ns);
        if let (Some(r), true) = (self.running, ns > 0) {
            tasks[r.task as usize].tally.add(ns, &self.rates);
        }
    }

    fn idle(at: Cpu, siblings: Box<[u32]>) -> Slot {
        Slot {
            at,
            siblings,
            running: None,
            settled_ns: 0,
            rates: Rates::default(),
            progress: ONE,
            dirty: false,
            demand: 0.0,
            home: at.node,
            far: 0.0,
            interleaved: false,
            missed: Missed::default(),
            sharing: Sharing::default(),
            cold_lines: 0.0,
            line_busy: 0.0,
            line_exposed: 0.0,
            line_wait: 0.0,
            computing: 1.0,
            memory: Demand { base_cpi: 1.0, misses: 0.0, exposed: 1.0, rows: 1.0 },
            wait: 0.0,
            wanted: 0,
            spread_wanted: 0,
            into_region: 0.0,
            in_domain: NOWHERE,
            in_hot: NOWHERE,
            region: NOWHERE,
            in_spread: NOWHERE,
            in_node: NOWHERE,
            in_group: NOWHERE,
            cohort: 0,
            place: None,
        }
    }
}
