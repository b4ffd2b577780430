//! The kernel's CPU lists: `0-3,5` means CPUs 0, 1, 2, 3 and 5; an empty list means none.

use corun_model::CpuId;

/// What [`parse`] accepts, to complete "which is not …".
pub const WANTED: &str = "a list of CPUs such as 0-3,5";

/// More CPUs than any kernel supports: a guard against nonsense such as `0-4000000000`.
const CPUS_MAX: u32 = 1 << 20;

/// Reads a list; `None` if it is not one. The result is sorted and holds every CPU once.
pub fn parse(text: &str) -> Option<Vec<CpuId>> {
    let mut cpus = Vec::new();
    for part in text.trim().split(',').map(str::trim).filter(|p| !p.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        if first > last || last >= CPUS_MAX {
            return None;
        }
        cpus.extend((first..=last).map(CpuId));
    }
    cpus.sort();
    cpus.dedup();
    Some(cpus)
}

/// Writes a list as the kernel does.
pub fn format(cpus: &[CpuId]) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for CpuId(n) in cpus {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == *n => *last = *n,
            _ => ranges.push((*n, *n)),
        }
    }
    let text = |(a, b): &(u32, u32)| if a == b { a.to_string() } else { format!("{a}-{b}") };
    ranges.iter().map(text).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lists_are_read_and_nonsense_is_refused() {
        let ids = |text| parse(text).map(|cpus| cpus.into_iter().map(|c| c.0).collect::<Vec<_>>());
        assert_eq!(ids("0-2,5\n"), Some(vec![0, 1, 2, 5]));
        assert_eq!(ids("5,0-2,1"), Some(vec![0, 1, 2, 5]));
        assert_eq!(ids("\n"), Some(vec![]));
        for bad in ["3-1", "a", "0-", "-1", "0-4000000000"] {
            assert_eq!(ids(bad), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(set in proptest::collection::btree_set(0u32..300, 0..40)) {
            let cpus: Vec<CpuId> = set.into_iter().map(CpuId).collect();
            prop_assert_eq!(parse(&format(&cpus)), Some(cpus));
        }
    }
}
