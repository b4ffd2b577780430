//! Lines in last-level caches: when shares are evaluated again, and tasks whose data has parts: hot, shared, or spread over nodes.

use super::{Slot, System};
use crate::contention::llc::{Left, Part};
use crate::contention::membw::LINE;
use crate::contention::numa::Homes;
use crate::contention::regions::{Missed, NOWHERE};
use crate::contention::Running;
use corun_model::workload::Placed;

/// A noticeable change of a region's share: the same as for a task's own data.
const STEP: f64 = 1.0 / 32.0;

impl System {
    /// Marks the tasks whose share of a cache has moved, in the domains that were due.
    pub(super) fn wake(&mut self, now_ns: u64) {
        for llc in 0..self.domains.len() {
            if self.wakes_ns[llc] > now_ns {
                continue;
            }
            self.domains[llc].advance(now_ns);
            let step = self.domains[llc].look();
            for place in 0..self.domains[llc].members() {
                if self.domains[llc].has_moved(place, step) {
                    match self.domains[llc].part(place) {
                        Part::Own(cpu) | Part::Hot(cpu) => self.mark(cpu),
                        Part::Region(region) => self.mark_users(region),
                    }
                }
            }
            self.unplan(llc as u32);
        }
    }

    /// Plans the wake-ups of the domains whose rates changed.
    pub(super) fn plan(&mut self) {
        for llc in self.unplanned.drain(..) {
            self.wakes_ns[llc as usize] = self.domains[llc as usize].wake_ns();
        }
        self.next_ns = self.wakes_ns.iter().copied().min().unwrap_or(u64::MAX);
    }

    /// A thread of a program computes for the first time, on this node.
    pub(super) fn begin(&mut self, program: u32, node: u32) {
        let program = program as usize;
        if self.homes.len() <= program {
            self.homes.resize(program + 1, Homes::default());
        }
        self.homes[program].begin(node);
    }

    /// Lines that are no longer used leave a domain, and others take their place.
    pub(super) fn leave_domain(&mut self, llc: u32, place: u32) -> Left {
        let (left, moved) = self.domains[llc as usize].leave(llc, place as usize);
        match moved {
            Some(Part::Own(cpu)) => self.slots[cpu as usize].in_domain = place,
            Some(Part::Hot(cpu)) => self.slots[cpu as usize].in_hot = place,
            Some(Part::Region(region)) => self.regions.at(region).place = place,
            None => {}
        }
        left
    }

    /// A task that has joined its domain joins it with its other parts, too.
    pub(super) fn join_parts(&mut self, cpu: u32, now: Running) {
        let p = &self.profiles[now.character.0 as usize];
        let (parts, interleaved) = (p.parts, p.placed == Placed::Interleaved);
        let shared = parts.filter(|parts| parts.shared > 0.0);
        let together = shared.is_some() && p.placed == Placed::Own;
        let llc = self.slots[cpu as usize].at.llc;
        if let Some(hot) = parts.map(|parts| parts.hot).filter(|hot| *hot > 0.0) {
            let left = self.tasks[now.task as usize].left_hot;
            let place = self.domains[llc as usize].join(llc, Part::Hot(cpu), hot, &left);
            self.slots[cpu as usize].in_hot = place as u32;
        }
        if let Some(parts) = shared {
            let number = self.regions.of(now.program, llc);
            let region = self.regions.at(number);
            if region.users.is_empty() {
                let domain = &mut self.domains[llc as usize];
                region.place = domain.join(llc, Part::Region(number), parts.shared, &region.left) as u32;
                region.inserted = 0.0;
            }
            region.users.push(cpu);
            self.slots[cpu as usize].region = number;
        }
        if interleaved || (together && self.nodes.len() > 1) {
            let slot = &mut self.slots[cpu as usize];
            (slot.in_spread, slot.interleaved) = (self.spread.len() as u32, interleaved);
            self.spread.push(cpu);
        }
    }

    /// The opposite, after it has left its domain.
    pub(super) fn leave_parts(&mut self, cpu: u32, was: Running) {
        let slot = &mut self.slots[cpu as usize];
        let llc = slot.at.llc;
        let in_hot = std::mem::replace(&mut slot.in_hot, NOWHERE);
        let region = std::mem::replace(&mut slot.region, NOWHERE);
        let in_spread = std::mem::replace(&mut slot.in_spread, NOWHERE);
        let inserted = std::mem::take(&mut slot.into_region);
        self.spread_wanted -= std::mem::take(&mut slot.spread_wanted);
        slot.far = 0.0;
        if in_hot != NOWHERE {
            self.tasks[was.task as usize].left_hot = self.leave_domain(llc, in_hot);
        }
        if region != NOWHERE {
            self.region_inserts(region, -inserted);
            let r = self.regions.at(region);
            r.users.retain(|user| *user != cpu);
            if r.users.is_empty() {
                let place = std::mem::replace(&mut r.place, NOWHERE);
                let left = self.leave_domain(llc, place);
                self.regions.at(region).left = left;
            }
        }
        if in_spread != NOWHERE {
            self.spread.swap_remove(in_spread as usize);
            if let Some(cpu) = self.spread.get(in_spread as usize) {
                self.slots[*cpu as usize].in_spread = in_spread;
            }
        }
    }

    fn region_inserts(&mut self, region: u32, more: f64) {
        let r = self.regions.at(region);
        r.inserted = (r.inserted + more).max(0.0);
        let (place, inserted, llc) = (r.place, r.inserted, r.llc);
        self.domains[llc as usize].set_rates(place as usize, inserted, 0.0);
    }

    /// The share of a region has moved: all its users are evaluated again.
    pub(super) fn mark_users(&mut self, region: u32) {
        let Self { regions, slots, dirty, .. } = self;
        let r = regions.at(region);
        r.stale = true;
        r.users.iter().for_each(|cpu| super::mark(slots, dirty, *cpu));
    }

    /// The share of its references that a task misses, by target, without streams.
    pub(super) fn missed(&mut self, now_ns: u64, cpu: u32, r: Running) -> Missed {
        let Slot { at, in_domain, in_hot, region, .. } = self.slots[cpu as usize];
        let p = &self.profiles[r.character.0 as usize];
        let Some(parts) = p.parts else { return Missed::default() };
        let has_own = p.working_set > 0.0;
        let domain = &mut self.domains[at.llc as usize];
        domain.advance(now_ns);
        let mut missed = Missed::default();
        if in_domain != NOWHERE && has_own {
            missed.own = parts.own_refs * (1.0 - domain.evaluate(in_domain as usize));
        }
        if in_hot != NOWHERE {
            missed.hot = parts.hot_refs * (1.0 - domain.evaluate(in_hot as usize));
        }
        if region != NOWHERE {
            missed.shared = parts.shared_refs * (1.0 - self.region_share(region));
        }
        missed
    }

    /// The resident share of a region, as the rates of all its users have it. They are evaluated together, so
    /// a user that comes and goes does not delay the others.
    fn region_share(&mut self, region: u32) -> f64 {
        let r = self.regions.get(region);
        let (place, domain) = (r.place as usize, &mut self.domains[r.llc as usize]);
        match domain.evaluated(place).filter(|_| !r.stale && !domain.has_moved(place, STEP)) {
            Some(share) => share,
            None => {
                let share = domain.evaluate(place);
                self.mark_users(region);
                self.regions.at(region).stale = false;
                share
            }
        }
    }

    /// Sets the insertions of a task with parts from now on.
    pub(super) fn set_parts(&mut self, cpu: u32, instructions: f64, stream: f64) {
        let Slot { at, in_domain, in_hot, region, missed, into_region, .. } = self.slots[cpu as usize];
        let bytes = |misses: f64| instructions * misses * LINE;
        let domain = &mut self.domains[at.llc as usize];
        domain.set_rates(in_domain as usize, bytes(missed.own), stream);
        if in_hot != NOWHERE {
            domain.set_rates(in_hot as usize, bytes(missed.hot), 0.0);
        }
        if region != NOWHERE {
            self.slots[cpu as usize].into_region = bytes(missed.shared);
            self.region_inserts(region, bytes(missed.shared) - into_region);
        }
    }
}
