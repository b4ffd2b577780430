//! Private caches and TLBs: threads come to a core, leave it, and refill their footprint once.

use super::System;
use crate::contention::private::Private;
use crate::contention::profile::PAGE;
use crate::contention::Running;
use crate::machine_file::MachineModel;

/// The private levels for which the machine file has figures.
pub(super) fn private(model: &MachineModel) -> Option<Box<Private>> {
    let caches = model.fill_bandwidth.map_or(0.0, |_| model.l2_bytes as f64);
    let tlb = model.tlb.map_or(0.0, |tlb| tlb.entries * PAGE);
    let at = model.machine.cpus().iter().map(|c| (c.core, c.llc));
    (caches + tlb > 0.0).then(|| Box::new(Private::new([caches, tlb], at)))
}

impl System {
    /// A thread continues with data that it has not used before. Returns whether this changes rates.
    pub fn new_data(&mut self, now_ns: u64, task: u32) -> bool {
        let on = self.task(task).on;
        let Some(private) = &mut self.private else { return false };
        let differs = private.new_data(now_ns, task, on);
        if let (true, Some(cpu)) = (differs, on) {
            self.mark(cpu);
        }
        differs
    }

    pub(super) fn join_private(&mut self, now_ns: u64, cpu: u32, now: Running) {
        if let Some(private) = &mut self.private {
            let footprints = &self.profiles[now.character.0 as usize].footprints;
            private.come(now_ns, cpu, now.task, footprints, &mut self.warmed);
            self.mark_warmed();
        }
    }

    pub(super) fn leave_private(&mut self, now_ns: u64, cpu: u32) {
        if let Some(private) = &mut self.private {
            private.go(now_ns, cpu, &mut self.warmed);
            self.mark_warmed();
        }
    }

    /// When the next thread will have gone through its footprint once; `u64::MAX`: never.
    pub(super) fn warm_ns(&self) -> u64 {
        self.private.as_ref().map_or(u64::MAX, |private| private.next_ns())
    }

    /// Marks the threads that have gone through theirs.
    pub(super) fn warm_up(&mut self, now_ns: u64) {
        if let Some(private) = &mut self.private {
            private.end_passes(now_ns, &mut self.warmed);
            self.mark_warmed();
        }
    }

    fn mark_warmed(&mut self) {
        while let Some(cpu) = self.warmed.pop() {
            self.mark(cpu);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::contention::{CharacterId, Running, System, ONE};
    use crate::machine_file::{MachineModel, Tlb};
    use corun_model::workload::{Character, MemoryUse};
    use corun_model::Machine;

    const MS: u64 = 1_000_000;

    /// Two cores of two hyperthreads: CPUs 0 and 2 are one, with 256 KiB.
    fn machine() -> MachineModel {
        let of = MachineModel::of(Machine::synthetic(1, 1, 2, 2));
        MachineModel { l2_bytes: 256 << 10, fill_bandwidth: Some(32_000_000_000), ..of }
    }

    /// A program that computes in its private caches.
    fn keeps(bytes: u64) -> Character {
        let memory = MemoryUse { private: bytes, private_refs_pki: 20.0, ..MemoryUse::default() };
        Character { llc_refs_pki: 0.0, compulsory: 0.0, hidden: 0.5, memory, ..Character::default() }
    }

    struct Run {
        system: System,
        now_ns: u64,
        progress: [u32; 4],
        on: [Option<u32>; 4],
        /// Nanoseconds that each task has run without progress.
        lost_ns: [f64; 4],
    }

    impl Run {
        fn on(model: &MachineModel) -> Run {
            let on = [None; 4];
            Run { system: System::new(model), now_ns: 0, progress: [ONE; 4], on, lost_ns: [0.0; 4] }
        }

        fn set(&mut self, cpu: u32, now: Option<(u32, CharacterId)>) {
            let running =
                now.map(|(task, character)| Running { task, program: task, character, spinning: false });
            if self.system.set(self.now_ns, cpu, running) {
                self.progress[cpu as usize] = ONE;
            }
            self.on[cpu as usize] = now.map(|(task, _)| task);
        }

        fn goes_on(&mut self, ns: u64) {
            let end_ns = self.now_ns + ns;
            loop {
                let mut changed = Vec::new();
                self.system.refresh(self.now_ns, &mut changed);
                changed.iter().for_each(|r| self.progress[r.cpu as usize] = r.progress);
                let next_ns = self.system.next_ns().unwrap_or(end_ns).min(end_ns);
                for cpu in 0..4 {
                    let lost = 1.0 - f64::from(self.progress[cpu]) / f64::from(ONE);
                    if let Some(task) = self.on[cpu] {
                        self.lost_ns[task as usize] += lost * (next_ns - self.now_ns) as f64;
                    }
                }
                self.now_ns = next_ns;
                if next_ns == end_ns {
                    return;
                }
            }
        }

        /// Runs each in turn on CPU 0 for `slice_ns`. Returns the loss of the first in each of its turns after the first.
        fn take_turns(&mut self, kinds: &[CharacterId], slice_ns: u64, turns: u32) -> f64 {
            let mut before = 0.0;
            for turn in 0..turns {
                for (task, kind) in (0..).zip(kinds) {
                    self.set(0, Some((task, *kind)));
                    self.goes_on(slice_ns);
                    self.set(0, None);
                }
                if turn == 0 {
                    before = self.lost_ns[0];
                }
            }
            (self.lost_ns[0] - before) / f64::from(turns - 1)
        }
    }

    /// The time to fetch the lines of 256 KiB at half of a latency each.
    fn all_of_it_ns(latency_ns: u64) -> f64 {
        4096.0 * latency_ns as f64 / 2.0
    }

    fn near(a: f64, b: f64) -> bool {
        (a / b - 1.0).abs() < 0.02
    }

    #[test]
    fn a_thread_alone_pays_once() {
        let mut run = Run::on(&machine());
        let kind = run.system.character(&keeps(256 << 10));
        run.set(0, Some((0, kind)));
        run.goes_on(10 * MS);
        let first = run.lost_ns[0];
        assert!(near(first, all_of_it_ns(80)), "{first} ns, from memory");
        // It leaves and returns, and waits for something; nothing else runs.
        for _ in 0..10 {
            run.set(0, None);
            run.goes_on(MS);
            run.set(0, Some((0, kind)));
            run.goes_on(MS);
        }
        assert_eq!(run.lost_ns[0], first);
        run.set(0, None);
        run.set(1, Some((0, kind)));
        run.goes_on(10 * MS);
        let moved = run.lost_ns[0] - first;
        assert!(near(moved, all_of_it_ns(17)), "{moved} ns, from the cache that both cores are under");
    }

    #[test]
    fn two_that_take_turns_pay_for_each_slice_and_their_footprint() {
        let lost = |mine: u64, others: &[u64], slice_ns: u64| {
            let mut run = Run::on(&machine());
            let kinds: Vec<CharacterId> =
                [&[mine], others].concat().iter().map(|bytes| run.system.character(&keeps(*bytes))).collect();
            run.take_turns(&kinds, slice_ns, 8)
        };
        let full = lost(256 << 10, &[256 << 10], 4 * MS);
        assert!(near(full, all_of_it_ns(17)), "{full}");
        // The cost of each turn is the same, so with half the slice it is twice the share of the time.
        assert!(near(lost(256 << 10, &[256 << 10], 2 * MS), full));
        assert_eq!(lost(128 << 10, &[128 << 10], 4 * MS), 0.0, "both fit");
        let by_neighbour = [64, 128, 192, 256, 1024].map(|kib| lost(192 << 10, &[kib << 10], 4 * MS));
        assert_eq!(by_neighbour[0], 0.0, "both fit");
        assert!(by_neighbour.is_sorted() && by_neighbour[1] > 0.0, "{by_neighbour:?}");
        assert_eq!(by_neighbour[3], by_neighbour[4], "no more than everything is lost");
        // A turn too short for a pass fetches no more than it uses.
        let short = lost(256 << 10, &[256 << 10], 2_000);
        assert!(short > 0.0 && short < 0.1 * full, "{short} of {full}");
    }

    #[test]
    fn hyperthreads_halve_the_room() {
        let mut run = Run::on(&machine());
        let large = run.system.character(&keeps(256 << 10));
        let small = run.system.character(&keeps(128 << 10));
        let lost_beside = |run: &mut Run, mine, other| {
            run.set(0, Some((0, mine)));
            run.set(2, Some((1, other)));
            run.goes_on(10 * MS);
            let before = (run.lost_ns[0], run.system.counters(run.now_ns, 0).llc_references.unwrap());
            run.goes_on(10 * MS);
            let after = run.system.counters(run.now_ns, 0).llc_references.unwrap();
            (run.lost_ns[0] - before.0, after - before.1)
        };
        let (fit, nothing) = lost_beside(&mut run, small, small);
        assert_eq!(nothing, 0, "two halves fit");
        let (halved, references) = lost_beside(&mut run, large, large);
        assert!(halved > fit + 0.1 * 10e6, "{halved} after {fit}");
        let instructions = run.system.counters(run.now_ns, 0).instructions.unwrap() as f64;
        assert!(references > 0 && (references as f64) < instructions * 0.01);
    }

    #[test]
    fn a_tlb_is_filled_like_a_cache() {
        let tlb = Tlb { entries: 512.0, walk_ns: 40 };
        let mut run = Run::on(&MachineModel { fill_bandwidth: None, tlb: Some(tlb), ..machine() });
        let kind = Character { working_set: 4 << 20, ..keeps(256 << 10) };
        let kind = run.system.character(&kind);
        let lost = run.take_turns(&[kind, kind], 20 * MS, 4);
        assert!(near(lost, 512.0 * 40.0 / 2.0), "{lost}");
    }

    #[test]
    fn a_stolen_grain_needs_data_that_is_not_there() {
        let mut run = Run::on(&machine());
        let kind = run.system.character(&keeps(256 << 10));
        run.set(0, Some((0, kind)));
        run.goes_on(10 * MS);
        let before = run.lost_ns[0];
        assert!(run.system.new_data(run.now_ns, 0));
        run.goes_on(10 * MS);
        let stolen = run.lost_ns[0] - before;
        assert!(near(stolen, all_of_it_ns(17)), "{stolen}");
    }

    #[test]
    fn a_program_without_a_footprint_pays_nothing() {
        let without = MachineModel { fill_bandwidth: None, ..machine() };
        for (model, character) in [(without, keeps(256 << 10)), (machine(), keeps(0))] {
            let mut run = Run::on(&model);
            let kind = run.system.character(&character);
            let lost = run.take_turns(&[kind, kind], MS, 4);
            assert_eq!((lost, run.lost_ns[0]), (0.0, 0.0));
            assert!(!run.system.new_data(run.now_ns, 0));
        }
    }
}
