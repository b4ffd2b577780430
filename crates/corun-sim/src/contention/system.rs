//! All contention models together: who runs where goes in, rates and counters come out.
//!
//! Incremental by three rules. A change marks its own CPU; a CPU's demand for issue slots that moved marks its
//! hyperthreads; the cache, the memory and the sharing group of a CPU mark their other users only when they moved
//! by a noticeable amount (a 32nd of a working set, once a millisecond a 256th; a 64th of a task's cycles per
//! instruction by a longer or shorter queue for memory; a 64th of a group). A task that uses none of them costs a constant.

use corun_model::machine::Cpu;
use corun_model::workload::Character;
use corun_model::Counters;

use super::coherence::{sharing, Group, Place, Sharing};
use super::energy::{Energy, Meter};
use super::llc::{miss_share, Domain, Left};
use super::membw::{Demand, Memory, LINE};
use super::numa::Numa;
use super::profile::{spinning, Own, Profile};
use super::tally::{Rates, Tally};
use super::{smt, CharacterId, CpuRate, Running, ONE};
use crate::machine_file::MachineModel;

mod in_step;

/// Rates that move by less than this are left alone: a 2,048th.
const NOTICEABLE: u32 = ONE >> 11;
/// The queue for a node makes a task's rate worked out again when it changes that by this much.
const QUEUE_NOTICEABLE: f64 = 1.0 / 64.0;
/// "Not a member".
const NOWHERE: u32 = u32::MAX;

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
    /// By LLC number: when its shares will have moved; `u64::MAX`: never.
    wakes_ns: Vec<u64>,
    next_ns: u64,
    /// When a cohort will have caught up with another; `u64::MAX`: never.
    catch_up_ns: u64,
    nodes: Vec<Node>,
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
    /// A node was touched since its queue was worked out.
    nodes_touched: bool,
    /// Used by [`Self::solve_nodes`] only; kept for its memory.
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
    /// As the engine knows it.
    progress: u32,
    dirty: bool,
    /// The other hyperthreads of its core.
    siblings: Box<[u32]>,
    /// Issue slots that it wants, as a share of the core's.
    demand: f64,
    /// Node of its task's memory.
    home: u32,
    sharing: Sharing,
    /// Cycles of computation per instruction, stretched by hyperthreads.
    computing: f64,
    memory: Demand,
    /// Cycles that a request waits for its node, as its rates have it.
    wait: f64,
    /// What it adds to its node's `wanted`.
    wanted: u64,
    /// Places in its LLC domain, its home node and its cohort.
    in_domain: u32,
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
    /// Millionths of the capacity that the users would move without waiting: now, and when `wait` was worked out.
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
    counted: bool,
}

impl System {
    /// A quiet machine at time 0.
    pub fn new(model: &MachineModel) -> System {
        let numa = Numa::new(model);
        let memory = Memory {
            capacity: model.node_bandwidth as f64 / 1e9 / model.ghz,
            busy: model.latency.dram_busy_ns as f64 * model.ghz,
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
            groups: Vec::new(),
            tasks: Vec::new(),
            meter: Meter::new(model),
            dirty: Vec::new(),
            regrouped: Vec::new(),
            unplanned: Vec::new(),
            nodes_touched: false,
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

    /// From `now_ns` on `cpu` runs this (`None`: idle). Counters up to now are settled first. Returns whether that is
    /// something else than before, which then starts at [`ONE`].
    #[inline]
    pub fn set(&mut self, now_ns: u64, cpu: u32, running: Option<Running>) -> bool {
        self.set_at(now_ns, cpu, running, None)
    }

    /// The same, of a thread at some place of its program.
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
        if let Some(r) = running {
            self.task(r.task).on = Some(cpu);
            self.join(now_ns, cpu, r, place);
        }
        self.mark(cpu);
    }

    /// Pushes the CPUs whose rate changed since the previous call. A CPU that starts to run something runs it at
    /// [`ONE`] unless it is pushed here.
    pub fn refresh(&mut self, now_ns: u64, changed: &mut Vec<CpuRate>) {
        if now_ns >= self.next_ns {
            self.wake(now_ns);
        }
        if now_ns >= self.catch_up_ns {
            self.catch_up(now_ns);
        }
        for i in 0..self.regrouped.len() {
            let program = self.regrouped[i] as usize;
            if self.groups[program].take_drift() {
                let Self { groups, slots, dirty, .. } = self;
                groups[program].members().for_each(|cpu| mark(slots, dirty, cpu));
            }
        }
        if !self.dirty.is_empty() {
            // Marks may be added in each of the first three steps, and only by the one before the last two.
            let mut i = 0;
            while i < self.dirty.len() {
                self.evaluate(now_ns, self.dirty[i]);
                i += 1;
            }
            for i in 0..self.dirty.len() {
                self.stretch(self.dirty[i]);
            }
            self.solve_nodes();
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

    /// When [`refresh`](Self::refresh) should be called again although nothing was [`set`](Self::set): a cache
    /// fills, or threads catch up with others, and rates move by themselves.
    pub fn next_ns(&self) -> Option<u64> {
        let next_ns = self.next_ns.min(self.catch_up_ns);
        (next_ns != u64::MAX).then_some(next_ns)
    }

    /// How many CPUs were evaluated so far: the work done, in a unit that does not depend on the machine.
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

    /// Energy so far, per core and for the rest of each package; `None` when the machine file says nothing of power.
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
            let domain = &mut self.domains[at.llc as usize];
            domain.advance(now_ns);
            let (left, moved) = domain.leave(at.llc, in_domain as usize);
            self.tasks[was.task as usize].left = left;
            if let Some(cpu) = moved {
                self.slots[cpu as usize].in_domain = in_domain;
            }
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
    }

    fn join(&mut self, now_ns: u64, cpu: u32, now: Running, place: Option<Place>) {
        let at = self.slots[cpu as usize].at;
        let task = self.task(now.task);
        if now.spinning {
            self.slots[cpu as usize].home = task.home.unwrap_or(at.node);
            return;
        }
        let home = *task.home.get_or_insert(at.node);
        let (left, new) = (task.left, !std::mem::replace(&mut task.counted, true));
        let profile = &self.profiles[now.character.0 as usize];
        let slot = &mut self.slots[cpu as usize];
        slot.home = home;
        if profile.memory {
            let domain = &mut self.domains[at.llc as usize];
            domain.advance(now_ns);
            // A pure stream has no working set: one byte of it keeps the arithmetic whole.
            let place = domain.join(at.llc, cpu, profile.working_set.max(1.0), &left);
            let node = &mut self.nodes[home as usize];
            (slot.in_domain, slot.in_node) = (place as u32, node.users.len() as u32);
            node.users.push(cpu);
            node.touched = true;
            self.nodes_touched = true;
        }
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

    /// Marks the tasks whose share of a cache has moved, in the domains that were due.
    fn wake(&mut self, now_ns: u64) {
        for llc in 0..self.domains.len() {
            if self.wakes_ns[llc] > now_ns {
                continue;
            }
            self.domains[llc].advance(now_ns);
            let step = self.domains[llc].look();
            for place in 0..self.domains[llc].members() {
                if self.domains[llc].has_moved(place, step) {
                    self.mark(self.domains[llc].cpu(place));
                }
            }
            self.unplan(llc as u32);
        }
    }

    /// What a CPU's task suffers by itself, without hyperthreads and queues.
    fn evaluate(&mut self, now_ns: u64, cpu: u32) {
        let slot = &mut self.slots[cpu as usize];
        let demand = match slot.running {
            None => 0.0,
            Some(r) => {
                let p = if r.spinning { &self.spin } else { &self.profiles[r.character.0 as usize] };
                let own = match p.steady.get(slot.at.node as usize * self.numa.nodes() + slot.home as usize) {
                    Some(own) => *own,
                    None => self.evaluate_shared(now_ns, cpu, r),
                };
                self.slots[cpu as usize].memory = own.memory;
                own.slots
            }
        };
        let slot = &mut self.slots[cpu as usize];
        if !slot.siblings.is_empty() && (demand - slot.demand).abs() > 1.0 / 64.0 {
            slot.demand = demand;
            for i in 0..slot.siblings.len() {
                let sibling = self.slots[cpu as usize].siblings[i];
                if self.slots[sibling as usize].running.is_some() {
                    self.mark(sibling);
                }
            }
        }
    }

    /// The same for a task that shares a cache or lines with others.
    fn evaluate_shared(&mut self, now_ns: u64, cpu: u32, r: Running) -> Own {
        let Slot { at, in_domain, in_group, cohort, home, ref siblings, .. } = self.slots[cpu as usize];
        let p = if r.spinning { &self.spin } else { &self.profiles[r.character.0 as usize] };
        let mut missing = p.compulsory;
        if in_domain != NOWHERE && p.working_set > 0.0 {
            let domain = &mut self.domains[at.llc as usize];
            domain.advance(now_ns);
            missing = miss_share(p.compulsory, domain.evaluate(in_domain as usize));
        }
        let mut shared = Sharing::default();
        if in_group != NOWHERE {
            let partner = |c: &&u32| {
                let s = &self.slots[**c as usize];
                let same = s.in_group != NOWHERE && s.cohort == cohort;
                same && s.running.is_some_and(|o| o.program == r.program)
            };
            let partners = siblings.iter().filter(partner).count() as u32;
            let group = &self.groups[r.program as usize];
            let siblings = group.siblings(cohort, partners, at.llc, at.socket);
            shared = sharing(p.transfers, group.threads, &siblings, &p.transfer_stall);
        }
        self.slots[cpu as usize].sharing = shared;
        let stalls = p.memory_stall(missing, self.numa.cycles(at.node, home)) + shared.stall;
        p.own(missing, stalls, &self.model.smt)
    }

    /// Adds the hyperthreads' part, and tells the node what the task wants of it.
    fn stretch(&mut self, cpu: u32) {
        let slot = &self.slots[cpu as usize];
        let Some(r) = slot.running else { return };
        let others: f64 = slot.siblings.iter().map(|c| self.slots[*c as usize].demand).sum();
        let p = if r.spinning { &self.spin } else { &self.profiles[r.character.0 as usize] };
        let slot = &mut self.slots[cpu as usize];
        slot.computing = p.compute * smt::stretch(self.slope, others);
        // `evaluate` left the unstretched sum in `base_cpi`; a CPU is stretched once per refresh.
        slot.memory.base_cpi += slot.computing - p.compute;
        if slot.in_node != NOWHERE {
            let node = &mut self.nodes[slot.home as usize];
            let wanted = (slot.memory.bytes_per_cycle(0.0) / node.memory.capacity * 1e6) as u64;
            node.wanted = node.wanted - slot.wanted + wanted;
            (slot.wanted, node.touched) = (wanted, true);
            self.nodes_touched = true;
        }
    }

    /// Works out the queues of the nodes whose load has moved, and marks their users where it matters.
    fn solve_nodes(&mut self) {
        if !std::mem::take(&mut self.nodes_touched) {
            return;
        }
        for n in 0..self.nodes.len() {
            let node = &mut self.nodes[n];
            if !std::mem::replace(&mut node.touched, false)
                || node.wanted.abs_diff(node.solved) * 64 < 1_000_000
            {
                continue;
            }
            self.demands.clear();
            self.demands.extend(node.users.iter().map(|c| self.slots[*c as usize].memory));
            (node.wait, node.solved) = (node.memory.wait(&self.demands), node.wanted);
            for i in 0..self.nodes[n].users.len() {
                let cpu = self.nodes[n].users[i];
                let Slot { memory, wait, .. } = &self.slots[cpu as usize];
                let (then, now) = (memory.cpi(*wait), memory.cpi(self.nodes[n].wait));
                if (now - then).abs() > then * QUEUE_NOTICEABLE {
                    self.mark(cpu);
                }
            }
        }
    }

    /// Puts the parts together: the rate, the counters' rates and the insertions into the cache.
    fn finish(&mut self, now_ns: u64, cpu: u32) -> Option<CpuRate> {
        self.evaluations += 1;
        let slot = &mut self.slots[cpu as usize];
        slot.dirty = false;
        let r = slot.running?;
        slot.settle(now_ns, &mut self.tasks);
        let p = if r.spinning { &self.spin } else { &self.profiles[r.character.0 as usize] };
        let queued = slot.in_node != NOWHERE;
        slot.wait = if queued { self.nodes[slot.home as usize].wait } else { 0.0 };
        let cpi = slot.memory.cpi(slot.wait);
        let instructions = self.model.ghz / cpi;
        let dram = instructions * slot.memory.misses;
        slot.rates = Rates {
            instructions,
            branches: instructions * p.branches,
            mispredicts: instructions * p.mispredicts,
            references: instructions * (p.references + slot.sharing.intra + slot.sharing.inter),
            misses: dram + instructions * slot.sharing.inter,
            stalls: instructions * (cpi - slot.computing),
            intra: instructions * slot.sharing.intra,
            inter: instructions * slot.sharing.inter,
            dram,
            remote: if slot.home == slot.at.node { 0.0 } else { dram },
        };
        if slot.in_domain != NOWHERE {
            let domain = &mut self.domains[slot.at.llc as usize];
            domain.advance(now_ns);
            let stream = instructions * p.references * p.compulsory * LINE;
            domain.set_rates(slot.in_domain as usize, dram * LINE - stream, stream);
            if self.unplanned.last() != Some(&slot.at.llc) {
                self.unplanned.push(slot.at.llc);
            }
        }
        let progress = ((p.alone_cpi / cpi * f64::from(ONE) + 0.5) as u32).clamp(1, ONE);
        if progress.abs_diff(slot.progress) < NOTICEABLE {
            return None;
        }
        slot.place_anew(now_ns);
        slot.progress = progress;
        Some(CpuRate { cpu, progress })
    }

    /// Plans the wake-ups of the domains whose rates changed.
    fn plan(&mut self) {
        for llc in self.unplanned.drain(..) {
            self.wakes_ns[llc as usize] = self.domains[llc as usize].wake_ns();
        }
        self.next_ns = self.wakes_ns.iter().copied().min().unwrap_or(u64::MAX);
    }
}

fn mark(slots: &mut [Slot], dirty: &mut Vec<u32>, cpu: u32) {
    if !std::mem::replace(&mut slots[cpu as usize].dirty, true) {
        dirty.push(cpu);
    }
}

impl Slot {
    /// Counts what its task did since it was settled last.
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
            sharing: Sharing::default(),
            computing: 1.0,
            memory: Demand { base_cpi: 1.0, misses: 0.0, exposed: 1.0 },
            wait: 0.0,
            wanted: 0,
            in_domain: NOWHERE,
            in_node: NOWHERE,
            in_group: NOWHERE,
            cohort: 0,
            place: None,
        }
    }
}
