//! The machine's energy counters over a window.
//!
//! Energy is that of the **machine**, never of a task or a tenant: no counter shows whose it was, and nothing here splits it. So the
//! energy of a program's run includes idle CPUs, co-runners, and corun.
//!
//!
//! | counter | what it counts |
//! | --- | --- |
//! | package | the processor as a whole: cores, caches, memory controller, graphics where it is in there; summed over sockets |
//! | core | its cores, a part of the package |
//! | dram | the memory's, not a part of the package |
//! | psys | the platform: packages and whatever else its maker included, on some laptops and servers |
//!
//! Reports quote packages, since machines that count anything count them.

/// Energy by counter, in microjoules, summed over sockets. `None` means that the machine does not report it; never 0 instead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Energy {
    /// The processors as a whole.
    pub package_uj: Option<u64>,
    /// Their cores, part of the packages.
    pub core_uj: Option<u64>,
    /// The memory, not part of the packages.
    pub dram_uj: Option<u64>,
    /// The platform.
    pub psys_uj: Option<u64>,
}

impl Energy {
    /// The energy of this window and the next. It lacks a counter that either lacks.
    #[must_use]
    pub fn plus(&self, next: &Energy) -> Energy {
        let add = |a: Option<u64>, b: Option<u64>| Some(a? + b?);
        Energy {
            package_uj: add(self.package_uj, next.package_uj),
            core_uj: add(self.core_uj, next.core_uj),
            dram_uj: add(self.dram_uj, next.dram_uj),
            psys_uj: add(self.psys_uj, next.psys_uj),
        }
    }

    /// The known counters, with their names.
    pub fn known(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let named = [
            ("package", self.package_uj),
            ("core", self.core_uj),
            ("dram", self.dram_uj),
            ("psys", self.psys_uj),
        ];
        named.into_iter().filter_map(|(name, uj)| Some((name, uj?)))
    }
}

/// Mean power in watts: microjoules over nanoseconds. `None` if no time has passed.
pub fn watts(uj: u64, ns: u64) -> Option<f64> {
    (ns > 0).then(|| uj as f64 * 1e3 / ns as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_has_only_what_both_windows_report() {
        let one = Energy { package_uj: Some(3), core_uj: Some(1), ..Energy::default() };
        let next = Energy { package_uj: Some(4), dram_uj: Some(9), ..Energy::default() };
        assert_eq!(one.plus(&next), Energy { package_uj: Some(7), ..Energy::default() });
        assert_eq!(one.known().collect::<Vec<_>>(), [("package", 3), ("core", 1)]);
    }

    #[test]
    fn watts_are_joules_per_second() {
        assert_eq!(watts(5_000_000, 2_000_000_000), Some(2.5));
        assert_eq!(watts(5, 0), None);
    }
}
