//! A set of CPUs as bits, by dense CPU index.

/// A set of CPUs of one machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CpuSet {
    words: Vec<u64>,
    len: usize,
}

impl CpuSet {
    /// No CPU of a machine with `cpus` CPUs.
    pub fn empty(cpus: usize) -> CpuSet {
        CpuSet { words: vec![0; cpus.div_ceil(64)], len: 0 }
    }

    /// Every CPU of a machine with `cpus` CPUs.
    pub fn full(cpus: usize) -> CpuSet {
        CpuSet::of(cpus, 0..cpus)
    }

    /// These CPUs of a machine with `cpus` CPUs.
    pub fn of(cpus: usize, members: impl IntoIterator<Item = usize>) -> CpuSet {
        let mut set = CpuSet::empty(cpus);
        members.into_iter().for_each(|c| set.insert(c));
        set
    }

    /// Adds a CPU.
    pub fn insert(&mut self, cpu: usize) {
        self.put(cpu, true);
    }

    /// Removes a CPU.
    pub fn remove(&mut self, cpu: usize) {
        self.put(cpu, false);
    }

    /// Adds or removes a CPU; returns by how much the set grew.
    #[inline]
    pub fn put(&mut self, cpu: usize, is_in: bool) -> i32 {
        let (word, bit) = (&mut self.words[cpu / 64], 1 << (cpu % 64));
        if (*word & bit != 0) == is_in {
            return 0;
        }
        *word ^= bit;
        let grown = if is_in { 1 } else { -1 };
        self.len = self.len.wrapping_add_signed(grown);
        grown as i32
    }

    /// Whether a CPU is in it.
    pub fn contains(&self, cpu: usize) -> bool {
        self.words[cpu / 64] & 1 << (cpu % 64) != 0
    }

    /// The number of CPUs in it.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The first CPU at or after `from`, wrapping around once; `None` if the set is empty.
    pub fn next_cyclic(&self, from: usize) -> Option<usize> {
        self.next(from).or_else(|| self.next(0))
    }

    /// The first CPU at or after `from`.
    pub fn next(&self, from: usize) -> Option<usize> {
        let mut word = from / 64;
        let mut bits = *self.words.get(word)? & (!0 << (from % 64));
        while bits == 0 {
            word += 1;
            bits = *self.words.get(word)?;
        }
        Some(word * 64 + bits.trailing_zeros() as usize)
    }

    /// The first CPU at or after `from` that is also in `other`.
    pub fn next_common(&self, other: &CpuSet, from: usize) -> Option<usize> {
        let mut word = from / 64;
        let both = |w: usize| Some(self.words.get(w)? & other.words.get(w)?);
        let mut bits = both(word)? & (!0 << (from % 64));
        while bits == 0 {
            word += 1;
            bits = both(word)?;
        }
        Some(word * 64 + bits.trailing_zeros() as usize)
    }

    /// The CPUs that are also in `other`, in ascending order.
    pub fn iter_common<'a>(&'a self, other: &'a CpuSet) -> impl Iterator<Item = usize> + 'a {
        let mut words = self.words.iter().zip(&other.words).map(|(a, b)| a & b).enumerate();
        let (mut word, mut bits) = (0, 0);
        std::iter::from_fn(move || {
            while bits == 0 {
                (word, bits) = words.next()?;
            }
            let cpu = word * 64 + bits.trailing_zeros() as usize;
            bits &= bits - 1;
            Some(cpu)
        })
    }

    /// Its CPUs in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        let mut from = 0;
        std::iter::from_fn(move || {
            let cpu = self.next(from)?;
            from = cpu + 1;
            Some(cpu)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_set_holds_exactly_what_was_put_in(members in proptest::collection::btree_set(0usize..200, 0..50), from in 0usize..200) {
            let set = CpuSet::of(200, members.iter().copied());
            prop_assert_eq!(set.len(), members.len());
            prop_assert_eq!(set.iter().collect::<Vec<_>>(), members.iter().copied().collect::<Vec<_>>());
            prop_assert_eq!(set.next(from), members.range(from..).next().copied());
            prop_assert_eq!(set.next_cyclic(from), members.range(from..).next().or(members.first()).copied());
            let even = CpuSet::of(200, (0..200).step_by(2));
            prop_assert_eq!(set.next_common(&even, from), members.range(from..).find(|c| *c % 2 == 0).copied());
            let both: Vec<usize> = members.iter().copied().filter(|c| c % 2 == 0).collect();
            prop_assert_eq!(set.iter_common(&even).collect::<Vec<_>>(), both);
            let (mut put, was_in) = (set.clone(), members.contains(&from));
            prop_assert_eq!(put.put(from, true), i32::from(!was_in));
            prop_assert_eq!((put.put(from, false), put.put(from, false)), (-1, 0));
            put.put(from, was_in);
            prop_assert_eq!(put, set);
        }
    }
}
