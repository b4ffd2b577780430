//! The culprits of a victim: a counter for each of the eight that took most lately, and one for all others.
//!
//! Counters never fall, and all of them sum to the victim's steal. The eight can change: a culprit that takes
//! more lately than the least of them takes its place, and counts from then on. The count of the displaced
//! one is `dropped` with its series. **Lately** is a sum that halves every ten minutes. Until a culprit has a
//! place its time is in `other`.

/// The number of listed culprits.
pub const LISTED: usize = 8;
/// Candidates whose recent share is known, besides.
const CANDIDATES: usize = 8;
/// The half-life of past time.
const HALF_LIFE_S: f64 = 600.0;
/// How much more a culprit must have taken lately to get a place, so that places do not flip back and forth.
const MARGIN: f64 = 2.0;

/// The culprits of a victim, in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Blame<Who> {
    /// The victim's own tenant.
    pub own_ns: u64,
    /// The kernel's threads.
    pub kernel_ns: u64,
    /// corun.
    pub corun_ns: u64,
    /// Nobody: the CPU was idle.
    pub idle_ns: u64,
    /// All other culprits.
    pub other_ns: u64,
    /// Nobody knows.
    pub unattributed_ns: u64,
    /// The time of culprits that have lost their place since.
    pub dropped_ns: u64,
    listed: Vec<Culprit<Who>>,
    candidates: Vec<Culprit<Who>>,
}

#[derive(Clone, Debug, PartialEq)]
struct Culprit<Who> {
    who: Who,
    ns: u64,
    since_ns: u64,
    lately_ns: f64,
}

impl<Who: PartialEq + Clone> Blame<Who> {
    /// A culprit took this much, in a window that began at `from_ns`.
    pub fn add(&mut self, who: &Who, ns: u64, from_ns: u64) {
        let found = |culprits: &mut Vec<Culprit<Who>>| culprits.iter().position(|c| c.who == *who);
        if let Some(at) = found(&mut self.listed) {
            self.listed[at].ns += ns;
            self.listed[at].lately_ns += ns as f64;
            return;
        }
        let at = found(&mut self.candidates);
        let lately_ns = at.map_or(0.0, |at| self.candidates.swap_remove(at).lately_ns) + ns as f64;
        if self.listed.len() < LISTED {
            self.listed.push(Culprit { who: who.clone(), ns, since_ns: from_ns, lately_ns });
            return;
        }
        let at = least(&self.listed);
        let last = &mut self.listed[at];
        if lately_ns > MARGIN * last.lately_ns {
            let new = Culprit { who: who.clone(), ns, since_ns: from_ns, lately_ns };
            let gone = std::mem::replace(last, new);
            self.dropped_ns += gone.ns;
            return;
        }
        self.other_ns += ns;
        if self.candidates.len() == CANDIDATES {
            let at = least(&self.candidates);
            self.candidates.swap_remove(at);
        }
        self.candidates.push(Culprit { who: who.clone(), ns: 0, since_ns: from_ns, lately_ns });
    }

    /// Time has passed, so this factor of it is left.
    pub fn pass(&mut self, left: f64) {
        self.listed.iter_mut().chain(&mut self.candidates).for_each(|c| c.lately_ns *= left);
    }

    /// The listed culprits, with their time and the start of each count.
    pub fn listed(&self) -> impl Iterator<Item = (&Who, u64, u64)> {
        self.listed.iter().map(|c| (&c.who, c.ns, c.since_ns))
    }

    /// All of it.
    pub fn total_ns(&self) -> u64 {
        let listed: u64 = self.listed.iter().map(|c| c.ns).sum();
        let all = [self.own_ns, self.kernel_ns, self.corun_ns, self.idle_ns, self.other_ns];
        listed + all.iter().sum::<u64>() + self.unattributed_ns + self.dropped_ns
    }
}

/// The remaining factor after this long.
pub fn left_after(ns: u64) -> f64 {
    0.5f64.powf(ns as f64 / 1e9 / HALF_LIFE_S)
}

fn least<Who>(culprits: &[Culprit<Who>]) -> usize {
    let lately = |at: &usize| culprits[*at].lately_ns;
    (0..culprits.len()).min_by(|a, b| lately(a).total_cmp(&lately(b))).expect("there are some")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eight_have_counters_and_all_others_share_one() {
        let mut blame = Blame::default();
        for who in 0..12 {
            blame.add(&who, 1_000 - who, 0);
        }
        assert_eq!(blame.listed().count(), LISTED);
        assert_eq!(blame.other_ns, (8..12).map(|who| 1_000 - who).sum::<u64>());
        assert_eq!(blame.total_ns(), (0..12).map(|who| 1_000 - who).sum::<u64>());
    }

    #[test]
    fn the_main_culprit_of_late_has_a_counter_however_late_it_comes() {
        let mut blame = Blame::default();
        let mut sum = 0;
        let mut take = |blame: &mut Blame<u32>, who, ns| {
            blame.add(&who, ns, 7);
            sum += ns;
            assert_eq!(blame.total_ns(), sum);
        };
        (0..8).for_each(|who| take(&mut blame, who, 1_000 + u64::from(who)));
        for second in 0..3_600 {
            let before: Vec<(u32, u64)> = blame.listed().map(|(who, ns, _)| (*who, ns)).collect();
            take(&mut blame, 99, 40);
            blame.pass(left_after(1_000_000_000));
            for (who, ns) in before {
                let now = blame.listed().find(|(w, ..)| **w == who);
                assert!(now.is_none_or(|(_, now, _)| now >= ns), "at {second} a counter fell");
            }
        }
        assert!(blame.listed().any(|(who, ..)| *who == 99));
        assert_eq!(blame.listed().count(), LISTED);
        assert_eq!(blame.dropped_ns, 1_000, "of the one that had taken least");
    }

    #[test]
    fn its_memory_is_bounded_whoever_comes() {
        let mut blame = Blame::default();
        for who in 0..10_000u64 {
            blame.add(&who, who % 97, 0);
            blame.pass(left_after(1_000_000));
        }
        assert!(blame.listed.len() + blame.candidates.len() <= LISTED + CANDIDATES);
    }
}
