//! All queues: for nodes' memory, for the links to them, and for lines.
//!
//! A node whose users have all their data there is solved alone, as without links. With links, the two are solved in turn. If any data
//! is spread, all nodes are solved together, from scratch, so that the result depends on the running tasks and not on the past. The
//! number of rounds is small and fixed: an error of a percent in a queue is below the error of its model.

use super::{mark, Slot, System, QUEUE_NOTICEABLE};
use crate::contention::hot_lines;
use crate::contention::membw::Demand;
use crate::contention::regions::NOWHERE;

/// How often a node and its links are solved in turn, and all nodes where data is spread.
const ROUNDS: usize = 3;

/// Whether the demand has moved by a 64th of the capacity, in millionths.
fn has_moved(wanted: u64, solved: u64) -> bool {
    wanted.abs_diff(solved) * 64 >= 1_000_000
}

impl Slot {
    /// Cycles per instruction that this wait for lines costs.
    pub(super) fn line_stall(&self, wait: f64) -> f64 {
        (self.sharing.intra + self.sharing.inter) * self.line_exposed * wait
    }
}

impl System {
    /// The part of a task's spread data on a node.
    pub(super) fn part_on(&self, slot: &Slot, node: usize) -> f64 {
        if slot.interleaved {
            return 1.0 / self.nodes.len() as f64;
        }
        slot.running.map_or(0.0, |r| self.homes[r.program as usize].part(node))
    }

    /// Misses per instruction that go to a node.
    fn misses_to(&self, slot: &Slot, node: usize) -> f64 {
        if slot.in_spread == NOWHERE {
            return if slot.home as usize == node { slot.memory.misses } else { 0.0 };
        }
        let near = if slot.home as usize == node { (slot.memory.misses - slot.far).max(0.0) } else { 0.0 };
        near + slot.far * self.part_on(slot, node)
    }

    /// Cycles that a request of a CPU's task waits for a node and the links to it.
    #[inline]
    fn wait_for(&self, slot: &Slot, node: usize) -> f64 {
        self.nodes[node].wait + self.links.wait(slot.at.node, node)
    }

    /// Cycles that a request of a CPU's task waits, on average.
    #[inline]
    pub(super) fn waits(&self, slot: &Slot) -> f64 {
        if slot.in_node == NOWHERE {
            return 0.0;
        }
        if slot.in_spread == NOWHERE || slot.memory.misses <= 0.0 {
            return self.wait_for(slot, slot.home as usize);
        }
        let all = (0..self.nodes.len()).map(|n| self.misses_to(slot, n) * self.wait_for(slot, n));
        all.sum::<f64>() / slot.memory.misses
    }

    /// The share of a task's misses that goes to nodes other than its own.
    #[inline]
    pub(super) fn remote_part(&self, slot: &Slot) -> f64 {
        if slot.in_spread == NOWHERE || slot.memory.misses <= 0.0 {
            return if slot.home == slot.at.node { 0.0 } else { 1.0 };
        }
        (1.0 - self.misses_to(slot, slot.at.node as usize) / slot.memory.misses).clamp(0.0, 1.0)
    }

    /// Computes the queues of the nodes whose load has moved, and marks their users if it matters.
    pub(super) fn solve_nodes(&mut self) {
        if !std::mem::take(&mut self.nodes_touched) {
            return;
        }
        let spread_moved = has_moved(self.spread_wanted, self.spread_solved);
        let together = spread_moved || !self.spread.is_empty();
        let mut any_moved = spread_moved;
        for n in 0..self.nodes.len() {
            let node = &mut self.nodes[n];
            if !std::mem::replace(&mut node.touched, false) || !has_moved(node.wanted, node.solved) {
                continue;
            }
            any_moved = true;
            match (together, self.links.link) {
                (true, _) => {}
                (false, None) => self.solve_alone(n),
                (false, Some(_)) => self.solve_with_links(n),
            }
        }
        if together && any_moved {
            self.solve_together();
        }
    }

    /// Solves a node whose users wait for nothing else, and marks them if it matters.
    fn solve_alone(&mut self, n: usize) {
        let Self { nodes, slots, demands, dirty, .. } = self;
        let node = &mut nodes[n];
        demands.clear();
        demands.extend(node.users.iter().map(|cpu| slots[*cpu as usize].memory));
        (node.wait, node.solved) = (node.memory.for_users(demands).wait(demands), node.wanted);
        for cpu in &node.users {
            let slot = &slots[*cpu as usize];
            let (then, now) = (slot.memory.cpi(slot.wait), slot.memory.cpi(node.wait));
            if (now - then).abs() > then * QUEUE_NOTICEABLE {
                mark(slots, dirty, *cpu);
            }
        }
    }

    /// The same for a node with its links, from scratch.
    fn solve_with_links(&mut self, n: usize) {
        self.nodes[n].solved = self.nodes[n].wanted;
        (0..self.nodes.len()).for_each(|from| self.links.set(from, n, 0.0));
        for _ in 0..ROUNDS {
            self.queue_for(n);
            self.queue_on_the_way_to(n);
        }
        self.mark_waiting(n);
    }

    fn solve_together(&mut self) {
        let nodes = self.nodes.len();
        for n in 0..nodes {
            (self.nodes[n].wait, self.nodes[n].solved) = (0.0, self.nodes[n].wanted);
            (0..nodes).for_each(|from| self.links.set(from, n, 0.0));
        }
        self.spread_solved = self.spread_wanted;
        for _ in 0..ROUNDS {
            for n in 0..nodes {
                self.queue_for(n);
                self.queue_on_the_way_to(n);
            }
        }
        (0..nodes).for_each(|n| self.mark_waiting(n));
        for i in 0..self.spread.len() {
            self.mark_where_it_matters(self.spread[i]);
        }
    }

    /// The demand of a CPU's task for a node, with its waits elsewhere, and `also` there.
    fn demand(&self, slot: &Slot, n: usize, also: f64) -> Demand {
        let here = self.misses_to(slot, n);
        let mut elsewhere = 0.0;
        if slot.in_spread != NOWHERE {
            let others = (0..self.nodes.len()).filter(|k| *k != n);
            elsewhere = others.map(|k| self.misses_to(slot, k) * self.wait_for(slot, k)).sum();
        }
        let Demand { base_cpi, .. } = slot.memory;
        let base_cpi = base_cpi + slot.memory.exposed * (elsewhere + here * also);
        Demand { base_cpi, misses: here, ..slot.memory }
    }

    fn queue_for(&mut self, n: usize) {
        let mut demands = std::mem::take(&mut self.demands);
        demands.clear();
        let of = |cpu: &u32| {
            let slot = &self.slots[*cpu as usize];
            self.demand(slot, n, self.links.wait(slot.at.node, n))
        };
        let near = self.nodes[n].users.iter().filter(|c| self.slots[**c as usize].in_spread == NOWHERE);
        demands.extend(near.map(of));
        demands.extend(self.spread.iter().map(of));
        self.nodes[n].wait = self.nodes[n].memory.for_users(&demands).wait(&demands);
        self.demands = demands;
    }

    fn queue_on_the_way_to(&mut self, n: usize) {
        let Some(link) = self.links.link else { return };
        let mut demands = std::mem::take(&mut self.demands);
        for from in (0..self.nodes.len()).filter(|from| *from != n) {
            demands.clear();
            let comes = |cpu: &&u32| self.slots[**cpu as usize].at.node as usize == from;
            let of = |cpu: &u32| self.demand(&self.slots[*cpu as usize], n, self.nodes[n].wait);
            let near = self.nodes[n].users.iter().filter(|c| self.slots[**c as usize].in_spread == NOWHERE);
            demands.extend(near.filter(comes).map(of));
            demands.extend(self.spread.iter().filter(comes).map(of));
            self.links.set(from, n, if demands.is_empty() { 0.0 } else { link.wait(&demands) });
        }
        self.demands = demands;
    }

    fn mark_waiting(&mut self, n: usize) {
        for i in 0..self.nodes[n].users.len() {
            self.mark_where_it_matters(self.nodes[n].users[i]);
        }
    }

    fn mark_where_it_matters(&mut self, cpu: u32) {
        let slot = &self.slots[cpu as usize];
        let (then, now) = (slot.memory.cpi(slot.wait), slot.memory.cpi(self.waits(slot)));
        if (now - then).abs() > then * QUEUE_NOTICEABLE {
            mark(&mut self.slots, &mut self.dirty, cpu);
        }
    }

    /// An evaluated task waits for lines as long as its cohort did last. The new wait is computed later.
    pub(super) fn contend(&mut self, cpu: u32, program: u32) {
        let slot = &mut self.slots[cpu as usize];
        slot.line_wait = self.groups[program as usize].queue(slot.cohort).wait;
        slot.memory.base_cpi += slot.line_stall(slot.line_wait);
        if self.contending.last() != Some(&program) {
            self.contending.push(program);
        }
    }

    /// Computes the queues for the lines of the cohorts whose load has moved, and marks their members if it matters.
    pub(super) fn solve_lines(&mut self) {
        while let Some(program) = self.contending.pop() {
            for cohort in 0..self.groups[program as usize].cohorts() {
                self.solve_cohort(program, cohort);
            }
        }
    }

    fn solve_cohort(&mut self, program: u32, cohort: u32) {
        let Self { groups, slots, profiles, demands, dirty, .. } = self;
        let group = &mut groups[program as usize];
        let (mut transfers, mut busy, mut wanted, mut lines) = (0.0, 0.0, 0.0, 0.0);
        demands.clear();
        for cpu in group.cohort(cohort) {
            let slot = &slots[*cpu as usize];
            let Some(r) = slot.running.filter(|_| slot.line_busy > 0.0) else { continue };
            let base_cpi = slot.memory.cpi(slot.wait) - slot.line_stall(slot.line_wait);
            let misses = slot.sharing.intra + slot.sharing.inter;
            (transfers, busy) = (transfers + misses, busy + slot.line_busy);
            wanted += slot.line_busy / base_cpi;
            lines = profiles[r.character.0 as usize].hot_lines;
            demands.push(Demand { base_cpi, misses, exposed: slot.line_exposed, rows: 1.0 });
        }
        let wanted = if lines > 0.0 { wanted / lines } else { 0.0 };
        let queue = group.queue(cohort);
        if (wanted - queue.solved).abs() * 64.0 < 1.0 && (wanted > 0.0) == (queue.solved > 0.0) {
            return;
        }
        let each = if transfers > 0.0 { busy / transfers } else { 0.0 };
        let wait = hot_lines::wait(lines, each, demands);
        (queue.wait, queue.solved) = (wait, wanted);
        for cpu in group.cohort(cohort) {
            let slot = &slots[*cpu as usize];
            let then = slot.memory.cpi(slot.wait);
            if slot.line_stall(wait - slot.line_wait).abs() > then * QUEUE_NOTICEABLE {
                let slot = &mut slots[*cpu as usize];
                if !std::mem::replace(&mut slot.dirty, true) {
                    dirty.push(*cpu);
                }
            }
        }
    }
}
