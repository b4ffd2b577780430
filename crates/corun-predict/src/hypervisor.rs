//! How much the hypervisor took from the CPUs that a program may use.
//!
//! No ledger has it. A task whose CPU is taken away looks as if it computed for longer (to the probe), or as if it was not there (to
//! `schedstat`). Nobody knows what it costs a program, only how much was taken from CPUs while they had something to do. Taking from an idle
//! CPU costs nobody anything, so no CPU has lost more than the time that it was busy.

use crate::reach::Set;
use corun_model::observation::{CpuTime, HOST_STEAL_TICK_NS};
use corun_model::{CpuId, Observation};
use std::collections::BTreeMap;

/// How much it took so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hypervisor {
    /// As far as it is known; `None`: it is not known for some CPU that was busy.
    taken_ns: Option<u64>,
    busy_ns: u64,
    windows: u64,
}

impl Hypervisor {
    /// Adds a window of a program that may use these CPUs; an empty set is all of them.
    pub fn add(&mut self, seen: &Observation, reach: &Set) {
        let within = || busy(seen, reach);
        let taken_ns: Option<u64> = within().map(|c| Some(c.host_steal_ns?.min(c.busy_ns))).sum();
        let known_ns = if self.windows == 0 { Some(0) } else { self.taken_ns };
        self.taken_ns = known_ns.zip(taken_ns).map(|(a, b)| a + b);
        self.busy_ns += within().map(|c| c.busy_ns).sum::<u64>();
        self.windows += 1;
    }

    /// The share of the CPUs' busy time that it took, 0..=1; `None`: this machine does not tell.
    pub fn share(&self) -> Option<f64> {
        let taken_ns = self.taken_ns?;
        Some(if self.busy_ns > 0 { taken_ns as f64 / self.busy_ns as f64 } else { 0.0 })
    }
}

/// The busy CPUs among those that a program may use.
fn busy<'a>(seen: &'a Observation, reach: &'a Set) -> impl Iterator<Item = &'a CpuTime> {
    seen.cpus.iter().filter(|c| c.busy_ns > 0 && (reach.is_empty() || reach.contains(&c.cpu.0)))
}

/// How much it took in a slot of a run, CPU by CPU, as the kernel reported it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Told {
    /// Only those from which it took something, in nanoseconds.
    taken_ns: BTreeMap<CpuId, f64>,
    /// How long the CPUs were busy, summed.
    pub busy_ns: f64,
}

impl Told {
    /// Adds a window of a program that may use these CPUs; an empty set is all of them.
    pub fn add(&mut self, seen: &Observation, reach: &Set) {
        for cpu in busy(seen, reach) {
            self.busy_ns += cpu.busy_ns as f64;
            let taken_ns = cpu.host_steal_ns.unwrap_or(0).min(cpu.busy_ns);
            if taken_ns > 0 {
                *self.taken_ns.entry(cpu.cpu).or_default() += taken_ns as f64;
            }
        }
    }
}

/// How much it took in each slot, in nanoseconds. The kernel reports it in ticks, each when it is full. The first tick reported in a slot
/// may have filled up ever since the tick before. So it is spread over that time, as far as CPUs were busy. The rest belongs to the slot.
pub(crate) fn spread<'a>(slots: impl Iterator<Item = &'a Told>) -> Vec<f64> {
    let (mut taken_ns, mut busy_ns): (Vec<f64>, Vec<f64>) = (Vec::new(), Vec::new());
    // For each CPU, the first slot after the last one in which something was reported.
    let mut since: BTreeMap<CpuId, usize> = BTreeMap::new();
    for (slot, told) in slots.enumerate() {
        taken_ns.push(0.0);
        busy_ns.push(told.busy_ns);
        for (cpu, ns) in &told.taken_ns {
            let first_ns = ns.min(HOST_STEAL_TICK_NS as f64);
            taken_ns[slot] += ns - first_ns;
            let since = since.insert(*cpu, slot + 1).unwrap_or(0);
            let all_ns: f64 = busy_ns[since..].iter().sum();
            let of_slots = taken_ns[since..].iter_mut().zip(&busy_ns[since..]);
            of_slots.for_each(|(taken_ns, busy_ns)| *taken_ns += first_ns * busy_ns / all_ns);
        }
    }
    taken_ns
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(cpus: &[(u64, Option<u64>)]) -> Observation {
        let cpu = |(n, &(busy_ns, host_steal_ns)): (usize, &(u64, Option<u64>))| CpuTime {
            cpu: CpuId(n as u32),
            idle_ns: 100 - busy_ns,
            busy_ns,
            unknown_ns: 0,
            host_steal_ns,
        };
        Observation {
            end_ns: 100,
            cpus: cpus.iter().enumerate().map(cpu).collect(),
            ..Observation::default()
        }
    }

    #[test]
    fn only_busy_cpus_that_the_program_may_use_have_lost_anything() {
        let of = |seen: &[Observation], reach: &[u32]| {
            let mut hypervisor = Hypervisor::default();
            seen.iter().for_each(|seen| hypervisor.add(seen, &reach.iter().copied().collect()));
            hypervisor.share()
        };
        let both = seen(&[(100, Some(30)), (20, Some(30))]);
        assert_eq!(of(std::slice::from_ref(&both), &[0]), Some(0.3));
        assert_eq!(of(std::slice::from_ref(&both), &[1]), Some(1.0), "no more than it was busy");
        assert_eq!(of(std::slice::from_ref(&both), &[]), Some(50.0 / 120.0));
        assert_eq!(of(&[both.clone(), seen(&[(100, Some(0))])], &[0]), Some(0.15));
        assert_eq!(of(&[both, seen(&[(100, None)])], &[0]), None, "nobody knows what it took in all");
        assert_eq!(of(&[seen(&[(0, Some(9))])], &[]), Some(0.0), "an idle CPU loses nothing");
        assert_eq!(Hypervisor::default().share(), None);
    }

    #[test]
    fn a_tick_was_taken_since_the_one_before_it_and_what_is_more_when_it_was_told() {
        const TICK: u64 = HOST_STEAL_TICK_NS;
        let told = |ticks: [u64; 2]| {
            let mut told = Told::default();
            let mut seen = seen(&ticks.map(|n| (100, Some(n * TICK))));
            seen.cpus.iter_mut().for_each(|cpu| cpu.busy_ns = 10 * TICK);
            told.add(&seen, &Set::new());
            told
        };
        let of = |slots: &[[u64; 2]]| -> Vec<f64> {
            let told: Vec<Told> = slots.iter().map(|ticks| told(*ticks)).collect();
            spread(told.iter()).iter().map(|ns| ns / TICK as f64).collect()
        };
        assert_eq!(of(&[[0, 0], [0, 0]]), [0.0; 2]);
        assert_eq!(of(&[[0, 0], [1, 0], [0, 0], [0, 0], [0, 0], [1, 0]]), [0.5, 0.5, 0.25, 0.25, 0.25, 0.25]);
        assert_eq!(of(&[[0, 0], [5, 0], [2, 0]]), [0.5, 4.5, 2.0], "a burst is where it was told");
        assert_eq!(of(&[[1, 0], [0, 1]]), [1.5, 0.5], "each CPU has a clock of its own");
        assert_eq!(told([1, 2]).busy_ns, 20.0 * TICK as f64);
    }
}
