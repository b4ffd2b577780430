//! Data flow within a loop: which values come around, and what decides the exit.
//!
//! An instruction is linked to those that may read its result, along the paths of the loop (reaching
//! definitions). An instruction whose result comes around to itself carries a value from iteration to
//! iteration: a pointer that walks, a sum, a counter.

use super::flow::Flow;
use super::step::{Address, Carry, Place};
use iced_x86::{Mnemonic, OpKind, Register};

/// The links within one loop.
pub struct Chains<'a> {
    flow: &'a Flow,
    inside: &'a [bool],
    /// For each node, the nodes that wrote what it reads.
    from: Vec<Vec<(usize, Place)>>,
    /// For each node, all nodes whose result may have reached it; empty outside.
    sources: Vec<Vec<bool>>,
    /// For each node, how the value that comes around through it changes; `None` if none comes around.
    round: Vec<Option<Carry>>,
}

impl<'a> Chains<'a> {
    /// Links the nodes that are `inside`.
    pub fn new(flow: &'a Flow, inside: &'a [bool]) -> Chains<'a> {
        let n = flow.nodes.len();
        let (from, sources) = (vec![Vec::new(); n], vec![Vec::new(); n]);
        let mut chains = Chains { flow, inside, from, sources, round: vec![None; n] };
        for writer in chains.members() {
            for &place in &flow.nodes[writer].step.defines {
                chains.link(writer, place);
            }
        }
        for node in chains.members() {
            chains.sources[node] = chains.all_sources(node);
        }
        for node in chains.members() {
            chains.round[node] = chains.comes_round(node);
        }
        chains
    }

    fn members(&self) -> Vec<usize> {
        (0..self.inside.len()).filter(|&n| self.inside[n]).collect()
    }

    fn link(&mut self, writer: usize, place: Place) {
        let mut seen = vec![false; self.inside.len()];
        let mut to_do: Vec<usize> = self.flow.nodes[writer].next().collect();
        while let Some(node) = to_do.pop() {
            if !self.inside[node] || std::mem::replace(&mut seen[node], true) {
                continue;
            }
            let step = &self.flow.nodes[node].step;
            if step.uses.contains(&place) {
                self.from[node].push((writer, place));
            }
            if !step.defines.contains(&place) {
                to_do.extend(self.flow.nodes[node].next());
            }
        }
    }

    /// All nodes whose result may have reached `node`; itself if its value comes around.
    fn all_sources(&self, node: usize) -> Vec<bool> {
        let mut seen = vec![false; self.inside.len()];
        let mut to_do: Vec<usize> = self.from[node].iter().map(|(writer, _)| *writer).collect();
        while let Some(writer) = to_do.pop() {
            if !std::mem::replace(&mut seen[writer], true) {
                to_do.extend(self.from[writer].iter().map(|(w, _)| *w));
            }
        }
        seen
    }

    fn comes_round(&self, node: usize) -> Option<Carry> {
        if !self.sources[node][node] {
            return None;
        }
        let ring = (0..self.inside.len()).filter(|&s| self.sources[node][s] && self.sources[s][node]);
        let carries: Vec<Carry> = ring.map(|s| self.flow.nodes[s].step.carry).collect();
        Some(if carries.contains(&Carry::Compute) {
            Carry::Compute
        } else if carries.contains(&Carry::Count) {
            Carry::Count
        } else {
            Carry::Copy
        })
    }

    /// All nodes whose result may have reached `node` through its `places`.
    fn sources_through(&self, node: usize, places: &[Place]) -> Vec<usize> {
        let direct: Vec<usize> =
            self.from[node].iter().filter(|(_, p)| places.contains(p)).map(|(w, _)| *w).collect();
        let through = |n: usize| direct.iter().any(|&d| d == n || self.sources[d][n]);
        (0..self.inside.len()).filter(|&n| through(n)).collect()
    }

    fn changes(&self, node: usize) -> bool {
        matches!(self.round[node], Some(Carry::Count | Carry::Compute))
    }

    /// Nodes through which a changing value comes around.
    pub fn changing(&self) -> Vec<usize> {
        self.members().into_iter().filter(|&n| self.changes(n)).collect()
    }

    /// Nodes that show progress of the loop: they compute with a value that comes around, or load from an
    /// address that moves, or would leave if nobody interfered.
    pub fn progress(&self) -> Vec<usize> {
        let moves = |node: usize| {
            let step = &self.flow.nodes[node].step;
            let moved = || self.sources_through(node, &step.address_uses);
            step.load.is_some() && moved().into_iter().any(|s| self.changes(s))
        };
        let computes = |node: usize| {
            self.round[node] == Some(Carry::Compute) && self.flow.nodes[node].step.carry == Carry::Compute
        };
        let gets_on = |&n: &usize| computes(n) || moves(n) || self.retries(n);
        self.members().into_iter().filter(gets_on).collect()
    }

    /// Those of them that would leave if nobody interfered.
    pub fn retrying(&self) -> Vec<usize> {
        self.members().into_iter().filter(|&n| self.retries(n)).collect()
    }

    /// The back edges of those of them that only read again, such as a sequence lock's second look: leaving
    /// there does no work, unlike after a compare and exchange.
    pub fn rereads(&self) -> Vec<(usize, usize)> {
        let only_reads = |&n: &usize| {
            let mut writers = self.from[n].iter().filter(|(_, p)| *p == Place::Flags);
            writers.all(|(w, _)| self.flow.nodes[*w].step.instruction.mnemonic() == Mnemonic::Cmp)
        };
        let back = |n: usize| self.flow.nodes[n].next().filter(|&to| self.inside[to]).map(move |to| (n, to));
        self.retrying().into_iter().filter(only_reads).flat_map(back).collect()
    }

    fn is_exit(&self, node: usize) -> bool {
        let node = &self.flow.nodes[node];
        let stays = |next: Option<usize>| next.is_some_and(|n| self.inside[n]);
        node.step.is_conditional() && !(stays(node.falls_to) && stays(node.jumps_to))
    }

    /// Whether an exit depends on memory that others may write to, and on nothing that changes by itself.
    pub fn asks_memory(&self) -> bool {
        self.members().into_iter().filter(|&n| self.is_exit(n)).any(|exit| {
            let sources = || (0..self.inside.len()).filter(|&s| self.sources[exit][s]);
            let asks = sources().any(|s| self.flow.nodes[s].step.load.is_some());
            asks && !sources().any(|s| self.changes(s))
        })
    }

    /// Whether a branch only checks if memory has changed since its first read in the same iteration: a
    /// compare and exchange with the loaded value, a sequence lock's second look. Such a loop ends if nobody
    /// interferes; a wait goes on.
    fn retries(&self, node: usize) -> bool {
        let writers: Vec<usize> =
            self.from[node].iter().filter(|(_, p)| *p == Place::Flags).map(|(w, _)| *w).collect();
        self.is_exit(node) && !writers.is_empty() && writers.iter().all(|&w| self.compares_with_itself(w))
    }

    fn compares_with_itself(&self, node: usize) -> bool {
        let step = &self.flow.nodes[node].step;
        let instruction = &step.instruction;
        let sides = match instruction.mnemonic() {
            Mnemonic::Cmp => [self.operand(node, 0), self.operand(node, 1)],
            Mnemonic::Cmpxchg => [step.load, self.loaded(node, Place::Register(0), 4)],
            _ => return false,
        };
        sides[0].is_some() && sides[0] == sides[1]
    }

    /// The address from which an operand's value was loaded.
    fn operand(&self, node: usize, operand: u32) -> Option<Address> {
        let step = &self.flow.nodes[node].step;
        match step.instruction.op_kind(operand) {
            OpKind::Register => {
                let n = super::step::number(step.instruction.op_register(operand))?;
                self.loaded(node, Place::Register(n), 4)
            }
            OpKind::Memory if step.load.is_some() => step.load,
            OpKind::Memory => {
                let slot = step.uses.iter().find(|p| matches!(p, Place::Slot(_)))?;
                self.loaded(node, *slot, 4)
            }
            _ => None,
        }
    }

    /// The one address from which everything in `place` was loaded when it came to `node`, through moves alone.
    fn loaded(&self, node: usize, place: Place, depth: u32) -> Option<Address> {
        let mut found = None;
        for &(writer, _) in self.from[node].iter().filter(|(_, p)| *p == place) {
            let step = &self.flow.nodes[writer].step;
            let source = match step.instruction.mnemonic() {
                _ if step.load.is_some() => step.load,
                Mnemonic::Mov | Mnemonic::Movzx | Mnemonic::Movsxd if depth > 0 => {
                    let from =
                        *step.uses.iter().find(|p| **p != Place::Register(Register::RBP.number() as u8))?;
                    self.loaded(writer, from, depth - 1)
                }
                _ => None,
            };
            if source.is_none() || found.is_some() && found != Some(source) {
                return None;
            }
            found = Some(source);
        }
        found?
    }
}
