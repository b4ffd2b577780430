//! Energy per core and per package, by state.
//!
//! Method: a core draws its active power while it runs at least one thread (computing, stalled or spinning), and its idle power
//! otherwise. The rest of a package draws its active power while any of its cores runs. Only the time in each state is tracked, as
//! integers. Energy is computed on request.
//!
//! Source: RAPL's two domains, as Controlled Contention §VI.C reads them (without DRAM).
//! Limits: constant clock and voltage, no sleep states by depth, no power that depends on what a core executes or on
//! a second hyperthread.

use crate::machine_file::{MachineModel, Power};

/// Energy used since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Energy {
    /// Per core, in microjoules, in the order of core numbers.
    pub cores_uj: Vec<u64>,
    /// Per package beyond its cores, in microjoules, in the order of socket numbers.
    pub packages_uj: Vec<u64>,
}

/// How long something has been active, for each number of its active parts.
#[derive(Clone, Copy, Debug, Default)]
struct Active {
    parts: u32,
    since_ns: u64,
    total_ns: u64,
}

impl Active {
    fn start(&mut self, now_ns: u64) -> bool {
        self.parts += 1;
        if self.parts == 1 {
            self.since_ns = now_ns;
        }
        self.parts == 1
    }

    fn stop(&mut self, now_ns: u64) -> bool {
        self.parts -= 1;
        if self.parts == 0 {
            self.total_ns += now_ns - self.since_ns;
        }
        self.parts == 0
    }

    fn ns(&self, now_ns: u64) -> u64 {
        self.total_ns + if self.parts > 0 { now_ns - self.since_ns } else { 0 }
    }
}

/// Time in each state, of every core and package.
#[derive(Clone, Debug)]
pub struct Meter {
    power: Option<Power>,
    cores: Vec<Active>,
    packages: Vec<Active>,
}

impl Meter {
    /// A machine that has been idle since time 0.
    pub fn new(model: &MachineModel) -> Meter {
        let count = |f: fn(&corun_model::machine::Cpu) -> u32| {
            vec![Active::default(); model.machine.cpus().iter().map(f).max().map_or(0, |n| n as usize + 1)]
        };
        Meter { power: model.power, cores: count(|c| c.core), packages: count(|c| c.socket) }
    }

    /// A hardware thread of `core` starts to run something.
    pub fn start(&mut self, now_ns: u64, core: u32, socket: u32) {
        if self.cores[core as usize].start(now_ns) {
            self.packages[socket as usize].start(now_ns);
        }
    }

    /// A hardware thread of `core` becomes idle.
    pub fn stop(&mut self, now_ns: u64, core: u32, socket: u32) {
        if self.cores[core as usize].stop(now_ns) {
            self.packages[socket as usize].stop(now_ns);
        }
    }

    /// Energy so far; `None` if the machine file has no power figures.
    pub fn energy(&self, now_ns: u64) -> Option<Energy> {
        let p = self.power?;
        let uj = |parts: &[Active], idle_mw: u64, active_mw: u64| {
            let one = |a: &Active| {
                let active_ns = u128::from(a.ns(now_ns));
                let idle_ns = u128::from(now_ns) - active_ns;
                // Milliwatts × nanoseconds are picojoules.
                ((active_ns * u128::from(active_mw) + idle_ns * u128::from(idle_mw)) / 1_000_000) as u64
            };
            parts.iter().map(one).collect()
        };
        Some(Energy {
            cores_uj: uj(&self.cores, p.core_idle_mw, p.core_active_mw),
            packages_uj: uj(&self.packages, p.package_idle_mw, p.package_active_mw),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn energy_is_power_times_the_time_in_each_state() {
        let model = MachineModel::shipped("cc-sandybridge").unwrap();
        let mut meter = Meter::new(&model);
        meter.start(1_000_000_000, 0, 0);
        meter.start(1_500_000_000, 0, 0);
        meter.stop(2_000_000_000, 0, 0);
        meter.stop(3_000_000_000, 0, 0);
        let e = meter.energy(4_000_000_000).unwrap();
        assert_eq!(
            e.cores_uj[0],
            2 * 9_000_000 + 2 * 800_000,
            "two seconds active at 9 W, two idle at 0.8 W"
        );
        assert_eq!(e.cores_uj[1], 4 * 800_000);
        assert_eq!(e.packages_uj, [2 * 30_000_000 + 2 * 14_000_000, 4 * 14_000_000]);
    }

    #[test]
    fn a_machine_without_power_figures_has_unknown_energy_rather_than_zero() {
        let model = MachineModel::of(corun_model::Machine::synthetic(1, 1, 2, 1));
        assert_eq!(Meter::new(&model).energy(1_000), None);
    }
}
