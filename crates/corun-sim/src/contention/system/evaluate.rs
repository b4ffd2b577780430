//! The slowdown of a task from its own caches, its memory's distance and its siblings, before hyperthreads and queues.

use super::{Slot, System};
use crate::contention::coherence::{sharing, Sharing};
use crate::contention::llc::miss_share;
use crate::contention::private::Cold;
use crate::contention::profile::Own;
use crate::contention::regions::{Missed, NOWHERE};
use crate::contention::tolerance::EXPOSED_QUEUE;
use crate::contention::Running;
use corun_model::workload::Placed;

impl System {
    /// The costs of a CPU's task alone, without hyperthreads and queues.
    pub(super) fn evaluate(&mut self, now_ns: u64, cpu: u32) {
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
        let has_parts = !r.spinning && self.profiles[r.character.0 as usize].parts.is_some();
        let missed = if has_parts { self.missed(now_ns, cpu, r) } else { Missed::default() };
        let Slot { at, in_domain, in_group, cohort, home, ref siblings, .. } = self.slots[cpu as usize];
        let p = if r.spinning { &self.spin } else { &self.profiles[r.character.0 as usize] };
        let mut missing = p.compulsory;
        if has_parts {
            missing += missed.own + missed.hot + missed.shared;
        } else if in_domain != NOWHERE && p.working_set > 0.0 {
            let domain = &mut self.domains[at.llc as usize];
            domain.advance(now_ns);
            missing = miss_share(p.compulsory, domain.evaluate(in_domain as usize));
        }
        let mut shared = Sharing::default();
        let mut line_busy = 0.0;
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
            if p.hot_lines > 0.0 {
                line_busy = sharing(p.transfers, group.threads, &siblings, &p.transfer_busy).stall;
            }
        }
        let cold = self.private.as_ref().map_or(Cold::default(), |private| private.cold(cpu));
        let far = if p.placed == Placed::Interleaved { missing } else { missed.shared };
        let slot = &mut self.slots[cpu as usize];
        (slot.sharing, slot.line_busy, slot.cold_lines) = (shared, line_busy, cold.lines);
        slot.line_exposed = (1.0 - p.hidden).max(EXPOSED_QUEUE);
        let mut dram_cycles = self.numa.cycles(at.node, home);
        if slot.in_spread != NOWHERE {
            (slot.missed, slot.far) = (missed.per_instruction(p.references), far * p.references);
            let spread = far / missing.max(1e-12);
            let slot = &self.slots[cpu as usize];
            let to = |n: usize| self.part_on(slot, n) * self.numa.cycles(at.node, n as u32);
            dram_cycles = (1.0 - spread) * dram_cycles + spread * (0..self.nodes.len()).map(to).sum::<f64>();
        } else if has_parts {
            slot.missed = missed.per_instruction(p.references);
        }
        let stalls = p.memory_stall(missing, dram_cycles) + shared.stall + cold.stall;
        p.own(missing, stalls, &self.model.smt)
    }
}
