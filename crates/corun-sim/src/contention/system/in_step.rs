//! Threads in step: threads of one program join cohorts, leave them, and catch up with others.
//!
//! Places are counted from the place of a thread when its rate last changed. Cohorts are compared by their first members: when a thread
//! comes, and when a faster one from behind (without lost lines) has caught up with one ahead. From then on they are one cohort with
//! one speed. The work at a change grows with the number of cohorts, at most 64 for a program.

use super::{Slot, System, NOWHERE};
use crate::contention::coherence::Place;
use crate::contention::{Running, ONE};

impl System {
    /// A thread continues to compute. Meanwhile it may have met its siblings and begin where they begin, or
    /// it may come from a phase without places. Returns whether rates may change.
    pub fn goes_on(&mut self, now_ns: u64, cpu: u32, place: Place) -> bool {
        let slot = &mut self.slots[cpu as usize];
        let Some(r) = slot.running else { return false };
        if slot.in_group == NOWHERE || slot.place.is_some_and(|before| before.meeting == place.meeting) {
            return false;
        }
        slot.place = Some(place);
        if self.groups[r.program as usize].members().nth(1).is_none() {
            return false;
        }
        self.leave_group(cpu, r);
        self.join_group(now_ns, cpu, r, Some(place));
        true
    }

    pub(super) fn leave_group(&mut self, cpu: u32, was: Running) {
        let slot = &mut self.slots[cpu as usize];
        let (at, cohort, in_group) = (slot.at, slot.cohort, std::mem::replace(&mut slot.in_group, NOWHERE));
        slot.place = None;
        if in_group == NOWHERE {
            return;
        }
        let group = &mut self.groups[was.program as usize];
        if let Some(cpu) = group.leave(cohort, in_group as usize, at.llc, at.socket) {
            self.slots[cpu as usize].in_group = in_group;
        }
        self.regroup(was.program);
    }

    /// A thread joins the siblings at its place.
    pub(super) fn join_group(&mut self, now_ns: u64, cpu: u32, now: Running, place: Option<Place>) {
        let reach = place.map_or(u64::MAX, |_| self.profiles[now.character.0 as usize].reach_ns);
        let here = place.map_or(0, |p| p.work_ns);
        let Self { groups, slots, .. } = self;
        let group = &mut groups[now.program as usize];
        let cohort = group.nearest(reach, |other| slots[other as usize].work_ns(now_ns).abs_diff(here));
        let slot = &mut slots[cpu as usize];
        (slot.cohort, slot.place) = (cohort, place);
        slot.in_group = group.join(cohort, cpu, slot.at.llc, slot.at.socket) as u32;
        self.regroup(now.program);
    }

    /// Computes when the first cohort of each changed program will have caught up with another.
    pub(super) fn plan_catching_up(&mut self, now_ns: u64) {
        for i in 0..self.regrouped.len() {
            let program = self.regrouped[i] as usize;
            self.line_up(now_ns, program);
            let pairs = self.abreast.windows(2).filter_map(|pair| self.catches_up_ns(now_ns, pair));
            let first_ns = pairs.min().unwrap_or(u64::MAX);
            self.groups[program].catch_up_ns = first_ns;
            self.catch_up_ns = self.catch_up_ns.min(first_ns);
        }
        self.regrouped.clear();
    }

    /// The first members of a program's cohorts, in the order of their places.
    fn line_up(&mut self, now_ns: u64, program: usize) {
        let Self { groups, slots, abreast, .. } = self;
        abreast.clear();
        let first = groups[program].first_members();
        abreast.extend(first.map(|(_, cpu)| (slots[cpu as usize].work_ns(now_ns), cpu)));
        abreast.sort_unstable();
    }

    /// When the first of two will be within reach of the second, if it is faster.
    fn catches_up_ns(&self, now_ns: u64, pair: &[(u64, u32)]) -> Option<u64> {
        let [(behind_ns, behind), (ahead_ns, ahead)] = *pair else { return None };
        let progress = |cpu: u32| self.slots[cpu as usize].progress;
        let faster = progress(behind).checked_sub(progress(ahead)).filter(|f| *f > 0)?;
        let to_go_ns = (ahead_ns - behind_ns).saturating_sub(self.reach_ns(behind));
        let ns = (u128::from(to_go_ns) * u128::from(ONE)).div_ceil(u128::from(faster)).max(1);
        Some(now_ns.saturating_add(u64::try_from(ns).unwrap_or(u64::MAX)))
    }

    /// Merges two cohorts if one has caught up with the other.
    pub(super) fn catch_up(&mut self, now_ns: u64) {
        for program in 0..self.groups.len() {
            if self.groups[program].catch_up_ns > now_ns {
                continue;
            }
            self.line_up(now_ns, program);
            for i in 1..self.abreast.len() {
                let ((behind_ns, behind), (ahead_ns, ahead)) = (self.abreast[i - 1], self.abreast[i]);
                if ahead_ns - behind_ns <= self.reach_ns(behind) {
                    let Self { groups, slots, .. } = self;
                    let (from, into) = (slots[behind as usize].cohort, slots[ahead as usize].cohort);
                    groups[program].merge(from, into, |cpu, place| {
                        let slot = &mut slots[cpu as usize];
                        (slot.cohort, slot.in_group) = (into, place);
                    });
                }
            }
            self.groups[program].catch_up_ns = u64::MAX;
            // It is planned again once its rates are known.
            self.regroup(program as u32);
        }
        self.catch_up_ns = self.groups.iter().map(|g| g.catch_up_ns).min().unwrap_or(u64::MAX);
    }

    fn reach_ns(&self, cpu: u32) -> u64 {
        let running = self.slots[cpu as usize].running;
        running.map_or(0, |r| self.profiles[r.character.0 as usize].reach_ns)
    }
}

impl Slot {
    /// Solo work that its thread has done since it last met the others.
    fn work_ns(&self, now_ns: u64) -> u64 {
        self.place.map_or(0, |p| {
            let ns = now_ns.saturating_sub(p.from_ns);
            p.work_ns + (u128::from(ns) * u128::from(self.progress) / u128::from(ONE)) as u64
        })
    }

    /// Counts its place from here on, before its progress changes.
    pub(super) fn place_anew(&mut self, now_ns: u64) {
        let work_ns = self.work_ns(now_ns);
        if let Some(p) = &mut self.place {
            (p.work_ns, p.from_ns) = (work_ns, p.from_ns.max(now_ns));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contention::CharacterId;
    use crate::machine_file::MachineModel;
    use corun_model::workload::Character;
    use proptest::prelude::*;

    /// A program that shares lines, on four cores with one cache; and its reach.
    fn four_cores() -> (System, CharacterId, u64) {
        let mut system = System::new(&MachineModel::shipped("pact16-xeon-e5620").unwrap());
        let character = Character { llc_refs_pki: 20.0, coherence_pki: 5.0, ..Character::default() };
        let character = system.character(&character);
        let reach_ns = system.profiles[character.0 as usize].reach_ns;
        (system, character, reach_ns)
    }

    fn place(meeting: u64, work_ns: u64, from_ns: u64) -> Option<Place> {
        Some(Place { meeting, work_ns, from_ns })
    }

    fn running(cpu: u32, character: CharacterId) -> Option<Running> {
        Some(Running { task: cpu, program: 0, character, spinning: false })
    }

    /// Refreshes until nothing changes any more, or until a time.
    fn settle(system: &mut System, from_ns: u64, to_ns: u64) {
        let mut now_ns = Some(from_ns);
        while let Some(at) = now_ns.filter(|n| *n <= to_ns) {
            system.refresh(at, &mut Vec::new());
            now_ns = system.next_ns();
        }
    }

    /// Partners whose lines each CPU takes.
    fn partners(system: &System) -> Vec<usize> {
        let in_step = |a: &Slot, b: &Slot| b.in_group != NOWHERE && b.cohort == a.cohort;
        let slots = system.slots[..4].iter();
        slots.map(|a| system.slots[..4].iter().filter(|b| in_step(a, b)).count() - 1).collect()
    }

    #[test]
    fn the_reach_is_the_work_that_fills_a_private_cache() {
        let (system, character, reach_ns) = four_cores();
        let p = &system.profiles[character.0 as usize];
        let references = reach_ns as f64 * system.model.ghz / p.alone_cpi * p.references;
        assert!((references - 4096.0).abs() < 1.0, "256 KiB are 4,096 lines, not {references}");
        let nothing_beyond = Character { llc_refs_pki: 0.0, coherence_pki: 5.0, ..Character::default() };
        let (mut system, ..) = four_cores();
        let kept = system.character(&nothing_beyond);
        assert_eq!(system.profiles[kept.0 as usize].reach_ns, u64::MAX);
    }

    #[test]
    fn threads_at_other_places_do_not_take_each_others_lines() {
        let (mut system, character, reach_ns) = four_cores();
        for (cpu, work_ns) in
            [(0, 50 * reach_ns), (1, 50 * reach_ns + reach_ns / 2), (2, 50 * reach_ns), (3, 0)]
        {
            system.set_at(0, cpu, running(cpu, character), place(1, work_ns, 0));
        }
        settle(&mut system, 0, 1_000);
        assert_eq!(partners(&system), [2, 2, 2, 0]);
        assert!(system.slots[3].progress > system.slots[0].progress);
        let transfers = |system: &mut System, task| system.counters(1_000, task).coherence_intra;
        assert_eq!(transfers(&mut system, 3), Some(0));
        assert!(transfers(&mut system, 0) > Some(0));
    }

    #[test]
    fn a_thread_that_was_away_is_out_of_step_until_the_threads_meet_again() {
        let (mut system, character, reach_ns) = four_cores();
        let away_ns = 20 * reach_ns;
        (0..4).for_each(|cpu| assert!(system.set_at(0, cpu, running(cpu, character), place(1, 0, 0))));
        settle(&mut system, 0, 1_000);
        assert_eq!(partners(&system), [3, 3, 3, 3]);
        system.set(1_000, 0, None);
        settle(&mut system, 1_000, away_ns);
        system.set_at(away_ns, 0, running(0, character), place(1, 1_000, away_ns));
        settle(&mut system, away_ns, away_ns + 1_000);
        assert_eq!(partners(&system), [0, 2, 2, 2]);
        // Three have waited for it, and it goes on without a stop.
        let met_ns = away_ns + 2_000;
        let spinning = |cpu| running(cpu, character).map(|r| Running { spinning: true, ..r });
        (1..4)
            .for_each(|cpu| assert!(system.set_at(met_ns - 1_000, cpu, spinning(cpu), place(1, away_ns, 0))));
        (1..4).for_each(|cpu| {
            assert!(system.set_at(met_ns, cpu, running(cpu, character), place(2, 0, met_ns)))
        });
        assert!(system.goes_on(met_ns, 0, place(2, 0, met_ns).unwrap()));
        assert_eq!(partners(&system), [3, 3, 3, 3]);
        assert!(!system.goes_on(met_ns, 0, place(2, 0, met_ns).unwrap()), "it has met them already");
    }

    #[test]
    fn a_thread_from_a_phase_without_places_begins_where_its_siblings_do() {
        let (mut system, character, reach_ns) = four_cores();
        // It was the last to arrive where the phase ends, and computes on without a stop.
        system.set_at(0, 0, running(0, character), None);
        system.goes_on(1_000, 0, place(2, 0, 1_000).unwrap());
        (1..4)
            .for_each(|cpu| assert!(system.set_at(1_000, cpu, running(cpu, character), place(2, 0, 1_000))));
        let later_ns = 20 * reach_ns;
        settle(&mut system, 1_000, later_ns);
        assert_eq!(partners(&system), [3, 3, 3, 3]);
        let [a, b] = [0, 1].map(|cpu: usize| system.slots[cpu].work_ns(later_ns));
        assert!(a > reach_ns && a.abs_diff(b) < reach_ns, "{a} {b}");
    }

    #[test]
    fn a_thread_behind_is_faster_and_in_step_again_after_catching_up() {
        let (mut system, character, reach_ns) = four_cores();
        for cpu in 0..4 {
            let work_ns = if cpu == 0 { 0 } else { 2 * reach_ns };
            system.set_at(0, cpu, running(cpu, character), place(1, work_ns, 0));
        }
        settle(&mut system, 0, 1_000);
        let (behind, ahead) = (system.slots[0].progress, system.slots[1].progress);
        let needs_ns = reach_ns as f64 * f64::from(ONE) / f64::from(behind - ahead);
        settle(&mut system, 1_000, (needs_ns * 0.9) as u64);
        assert_eq!(partners(&system), [0, 2, 2, 2]);
        settle(&mut system, (needs_ns * 0.9) as u64, (needs_ns * 1.1) as u64);
        assert_eq!(partners(&system), [3, 3, 3, 3]);
        let [a, b] = [0, 1].map(|cpu: usize| system.slots[cpu].progress);
        assert!(a.abs_diff(b) <= ONE >> 10 && a < ahead, "{a} {b}, before {behind} {ahead}");
    }

    proptest! {
        #[test]
        fn whoever_computes_has_one_place_in_one_cohort(
            changes in proptest::collection::vec((0u32..16, 0u64..40, 0u64..3, any::<bool>(), any::<bool>()), 1..150),
        ) {
            let mut system = System::new(&MachineModel::of(corun_model::Machine::synthetic(2, 1, 4, 2)));
            let c = Character { llc_refs_pki: 20.0, coherence_pki: 5.0, ..Character::default() };
            let character = system.character(&c);
            let mut now_ns = 0;
            for (cpu, step, meeting, leaves, goes_on) in changes {
                now_ns += step * 20_000;
                let here = place(meeting, step * 100_000, now_ns);
                match (leaves, goes_on) {
                    (true, _) => system.set(now_ns, cpu, None),
                    (_, true) => system.goes_on(now_ns, cpu, here.unwrap()),
                    _ => system.set_at(now_ns, cpu, running(cpu, character), here),
                };
                settle(&mut system, now_ns, now_ns);
                let Some(group) = system.groups.first() else { continue };
                let computing = |c: &u32| system.slots[*c as usize].in_group != NOWHERE;
                let mut counted: Vec<u32> = group.members().collect();
                counted.sort_unstable();
                prop_assert_eq!(counted, (0..16).filter(computing).collect::<Vec<_>>());
                for cpu in (0..16u32).filter(computing) {
                    let slot = &system.slots[cpu as usize];
                    prop_assert_eq!(group.member(slot.cohort, slot.in_group), Some(cpu));
                }
            }
        }
    }
}
