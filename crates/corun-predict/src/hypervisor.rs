//! What the hypervisor below took from the CPUs that a program may use.
//!
//! It is in no ledger: a task whose CPU is taken away looks as if it computed for longer (to the probe), or as if it was not there
//! (to `schedstat`). What it costs a program is not known, only how much was taken from CPUs while they had something to do. What it takes
//! from an idle CPU costs nobody anything, so no CPU has lost more than it was busy.

use crate::reach::Set;
use corun_model::Observation;

/// What it took so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hypervisor {
    /// As far as it was told; `None`: nobody told of some CPU that was busy.
    taken_ns: Option<u64>,
    busy_ns: u64,
    windows: u64,
}

impl Hypervisor {
    /// Adds a window of a program that may use these CPUs; an empty set is all of them.
    pub fn add(&mut self, seen: &Observation, reach: &Set) {
        let within =
            || seen.cpus.iter().filter(|c| c.busy_ns > 0 && (reach.is_empty() || reach.contains(&c.cpu.0)));
        let taken_ns: Option<u64> = within().map(|c| Some(c.host_steal_ns?.min(c.busy_ns))).sum();
        let known_ns = if self.windows == 0 { Some(0) } else { self.taken_ns };
        self.taken_ns = known_ns.zip(taken_ns).map(|(a, b)| a + b);
        self.busy_ns += within().map(|c| c.busy_ns).sum::<u64>();
        self.windows += 1;
    }

    /// Of the time that the CPUs were busy, the share that it took, 0..=1; `None`: this machine does not tell.
    pub fn share(&self) -> Option<f64> {
        let taken_ns = self.taken_ns?;
        Some(if self.busy_ns > 0 { taken_ns as f64 / self.busy_ns as f64 } else { 0.0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corun_model::observation::CpuTime;
    use corun_model::CpuId;

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
}
