//! LLC sharing: each task's resident share of its working set moves with everybody's insertions.
//!
//! Method: a task references its working set uniformly, so the share of references that hit is the resident share of
//! it; `compulsory` references never hit (streams). Every miss inserts a line; in a full cache an insertion evicts a
//! random one. For a step `dt` in which the tasks insert `E` bytes in all:
//!
//! ```text
//! miss share  = compulsory + (1 - compulsory) × (1 - resident / working set)
//! resident'   = (resident + own insertions) / (1 + E / capacity)      once the cache is full
//! ```
//!
//! The step is implicit, so it conserves the cache's bytes for any `dt` and its rest point does not depend on `dt`.
//! Tasks off the CPU insert nothing and decay by the same factor: what they find at their return is what the others
//! left them, so the refill after a switch or a migration to another domain is not a constant but comes out of this
//! model. (The refill of the private L2 does not: some 60 µs for 256 KiB, 0.2 % of a 30 ms slice; it is part of the
//! switch cost.)
//!
//! Rates are held between re-evaluations; [`Domain::wake_ns`] says when a share will have moved far enough since its last.
//!
//! Source: Suh, Rudolph, Devadas 2004 (miss curve against occupied share); random replacement's mean-field equation.
//! Limits: a linear miss curve (no knees, no LRU), working sets of a program's threads are disjoint, a task keeps
//! lines in one domain only.

/// How far a resident share may move before its task's rate is evaluated again.
const STEP: f64 = 1.0 / 32.0;
/// A share that has moved this part of a step is evaluated again.
const NEARLY: f64 = 0.75;
/// Looks at a domain's shares are at least this far apart, in nanoseconds.
const PAUSE_NS: u64 = 50_000;
/// Now and then a smaller step counts, so that shares which come to rest are not left a step beside it: on whichever
/// side they came from.
const SMALL_STEP: f64 = STEP / 8.0;
/// Looks at smaller steps are at least this far apart, in nanoseconds.
const LONG_PAUSE_NS: u64 = 1_000_000;
/// Where the survival product is scaled up again.
const EPOCH: f64 = 1e-100;

/// A running task's lines in a domain.
#[derive(Clone, Copy, Debug)]
pub struct Member {
    /// The CPU it runs on.
    pub cpu: u32,
    /// Bytes of its working set that are resident.
    pub resident: f64,
    /// Bytes of its working set; above 0.
    pub working_set: f64,
    /// Bytes per nanosecond that it inserts of its working set.
    pub reuse: f64,
    /// Bytes per nanosecond that it inserts and never uses again.
    pub stream: f64,
    /// The resident share at which its rate was evaluated.
    pub evaluated: f64,
}

impl Member {
    /// The resident share of its working set, 0..=1.
    pub fn share(&self) -> f64 {
        (self.resident / self.working_set).min(1.0)
    }

    /// Whether its share has moved so far that its rate should be evaluated again.
    pub fn has_moved(&self, step: f64) -> bool {
        self.evaluated >= 0.0 && (self.share() - self.evaluated).abs() >= step * NEARLY
    }
}

/// What a task that does not run left in a domain.
#[derive(Clone, Copy, Debug, Default)]
pub struct Left {
    domain: u32,
    resident: f64,
    survival: f64,
    epoch: u32,
}

/// One last-level cache.
#[derive(Clone, Debug)]
pub struct Domain {
    capacity: f64,
    /// Bytes in use, by anybody.
    filled: f64,
    members: Vec<Member>,
    /// Bytes per nanosecond that the members insert in all, as long as no rate has changed.
    inserted: Option<f64>,
    /// What is left of a byte that was resident at the start, times [`EPOCH`] to the power of minus `epoch`: a
    /// product that would leave the range of a float after a few hundred turnovers of the cache.
    survival: f64,
    epoch: u32,
    now_ns: u64,
    /// When its shares were looked at last, and when for the smaller step.
    looked_ns: u64,
    looked_closely_ns: u64,
}

impl Domain {
    /// An empty cache of this many bytes.
    pub fn new(bytes: u64) -> Domain {
        let capacity = bytes as f64;
        Domain {
            capacity,
            filled: 0.0,
            members: Vec::new(),
            inserted: None,
            survival: 1.0,
            epoch: 0,
            now_ns: 0,
            looked_ns: 0,
            looked_closely_ns: 0,
        }
    }

    /// The tasks that run on it.
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// One of them, to set its insertion rates.
    pub fn member_mut(&mut self, place: usize) -> &mut Member {
        self.inserted = None;
        &mut self.members[place]
    }

    /// Lets time pass with the present rates.
    pub fn advance(&mut self, now_ns: u64) {
        let dt = (now_ns - self.now_ns) as f64;
        self.now_ns = now_ns;
        if dt == 0.0 || self.members.is_empty() {
            return;
        }
        let inserted = self.inserted() * dt;
        self.filled += inserted;
        let excess = self.filled - self.capacity;
        let keep = if excess > 0.0 { self.capacity / (self.capacity + excess) } else { 1.0 };
        self.filled *= keep;
        for m in &mut self.members {
            m.resident = ((m.resident + m.reuse * dt) * keep).min(m.working_set);
        }
        self.survival *= keep;
        if self.survival < EPOCH {
            (self.survival, self.epoch) = (self.survival / EPOCH, self.epoch + 1);
        }
    }

    /// Bytes per nanosecond that all insert.
    fn inserted(&mut self) -> f64 {
        let members = &self.members;
        *self.inserted.get_or_insert_with(|| members.iter().map(|m| m.reuse + m.stream).sum())
    }

    /// A task starts to run; returns its place. `number` is this domain's.
    pub fn join(&mut self, number: u32, cpu: u32, working_set: f64, left: &Left) -> usize {
        let survival = match self.epoch - left.epoch.min(self.epoch) {
            _ if left.domain != number || left.survival <= 0.0 => 0.0,
            0 => self.survival / left.survival,
            1 => self.survival * EPOCH / left.survival,
            _ => 0.0,
        };
        let resident = (left.resident * survival).min(working_set);
        self.inserted = None;
        // -1: not evaluated (yet, or never: a pure stream has no share).
        self.members.push(Member { cpu, resident, working_set, reuse: 0.0, stream: 0.0, evaluated: -1.0 });
        self.members.len() - 1
    }

    /// The task at `place` stops; returns what it leaves and the CPU of the task that now has its place.
    pub fn leave(&mut self, number: u32, place: usize) -> (Left, Option<u32>) {
        let m = self.members.swap_remove(place);
        self.inserted = None;
        let left = Left { domain: number, resident: m.resident, survival: self.survival, epoch: self.epoch };
        (left, self.members.get(place).map(|m| m.cpu))
    }

    /// Notes that the shares are looked at now; returns the step that counts this time.
    pub fn look(&mut self) -> f64 {
        self.looked_ns = self.now_ns;
        if self.now_ns < self.looked_closely_ns + LONG_PAUSE_NS {
            return STEP;
        }
        self.looked_closely_ns = self.now_ns;
        SMALL_STEP
    }

    /// When to look again: when the first member's share will have moved noticeably; `u64::MAX` when none will.
    pub fn wake_ns(&mut self) -> u64 {
        let inserted = self.inserted();
        let full = self.filled >= self.capacity * 0.999;
        let eviction = if full { inserted / self.capacity } else { 0.0 };
        let at_ns = |step: f64, from_ns: u64| match self.until_moved_ns(step, eviction) {
            ns if ns < 1e15 => (self.now_ns + ns.max(1.0) as u64).max(from_ns),
            _ => u64::MAX,
        };
        let wake_ns = at_ns(STEP, self.looked_ns + PAUSE_NS);
        let close_ns = self.looked_closely_ns + LONG_PAUSE_NS;
        if wake_ns <= close_ns {
            return wake_ns;
        }
        wake_ns.min(at_ns(SMALL_STEP, close_ns))
    }

    /// Nanoseconds until the first member's share will have moved by `step` since its rate was evaluated, infinite when
    /// none will; `eviction` is the part of the cache that is evicted in one. What it has moved already counts, so
    /// changes among others put nothing off. All members are gone through at every change, so what decides is written
    /// without divisions.
    fn until_moved_ns(&self, step: f64, eviction: f64) -> f64 {
        // The first to arrive: its way, and how fast it goes it; both times its working set.
        let (mut way, mut speed) = (1.0, 0.0);
        for m in self.members.iter().filter(|m| m.evaluated >= 0.0) {
            let moved = (m.resident - m.evaluated * m.working_set).abs();
            let noticeable = step * m.working_set;
            if moved >= noticeable * NEARLY {
                return 0.0;
            }
            let (its_way, its_speed) = (noticeable - moved, (m.reuse - m.resident * eviction).abs());
            // Shares approach their rest point exponentially, at the rate at which misses fall plus the eviction's,
            // reuse / (working set × missing) + eviction; the way to it is speed / rate. Both sides times working set × missing:
            let missing = (m.working_set - m.resident).max(m.working_set * 1e-3);
            let least = (noticeable * NEARLY - moved).min(noticeable * 0.5);
            if its_speed * missing > (m.reuse + eviction * missing) * least
                && its_way * speed < way * its_speed
            {
                (way, speed) = (its_way, its_speed);
            }
        }
        way / speed
    }
}

/// Share of references that miss with this share of the working set resident.
pub fn miss_share(compulsory: f64, resident: f64) -> f64 {
    compulsory + (1.0 - compulsory) * (1.0 - resident)
}

/// The resident share at which a task alone in a cache comes to rest: its own stream evicts part of its working
/// set. `ratio` is working set by capacity.
pub fn share_alone(compulsory: f64, ratio: f64) -> f64 {
    let reuse = 1.0 - compulsory;
    if ratio * reuse < 1e-9 {
        return 1.0;
    }
    // reuse × (1 - x) = x × ratio × (reuse × (1 - x) + compulsory), solved for x.
    let b = ratio + reuse;
    ((b - (b * b - 4.0 * ratio * reuse * reuse).max(0.0).sqrt()) / (2.0 * ratio * reuse)).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: f64 = 1048576.0;

    /// Runs tasks given as (working set, references in bytes per ns, compulsory share), in small steps.
    fn run(domain: &mut Domain, tasks: &[(f64, f64, f64)], ns: u64) {
        let start = domain.now_ns;
        for t in (start..start + ns).step_by(10_000) {
            for (place, (_, refs, compulsory)) in tasks.iter().enumerate() {
                let m = domain.member_mut(place);
                m.reuse = refs * (1.0 - compulsory) * (1.0 - m.share());
                m.stream = refs * compulsory;
            }
            domain.advance(t + 10_000);
            let resident: f64 = domain.members().iter().map(|m| m.resident).sum();
            assert!(resident <= domain.filled + 1.0 && domain.filled <= domain.capacity + 1.0);
        }
    }

    fn shares(tasks: &[(f64, f64, f64)], ns: u64) -> Vec<f64> {
        let mut domain = Domain::new(12 << 20);
        for (i, t) in tasks.iter().enumerate() {
            domain.join(0, i as u32, t.0, &Left::default());
        }
        run(&mut domain, tasks, ns);
        domain.members().iter().map(Member::share).collect()
    }

    #[test]
    fn a_working_set_that_fits_becomes_resident_and_one_that_does_not_gets_the_whole_cache() {
        let fits = shares(&[(6.0 * MIB, 1.0, 0.0)], 100_000_000)[0];
        let not = shares(&[(24.0 * MIB, 1.0, 0.0)], 100_000_000)[0];
        assert!(fits > 0.99 && (not - 0.5).abs() < 0.01, "{fits} {not}");
    }

    #[test]
    fn the_rest_point_of_a_task_alone_is_the_one_computed() {
        for (mib, compulsory) in [(6.0, 0.05), (6.0, 0.5), (12.0, 0.2), (48.0, 0.05), (1.0, 0.9)] {
            let got = shares(&[(mib * MIB, 1.0, compulsory)], 400_000_000)[0];
            let want = share_alone(compulsory, mib / 12.0);
            assert!((got - want).abs() < 0.01, "{mib} MiB, {compulsory}: {got} against {want}");
        }
    }

    #[test]
    fn who_references_more_holds_more() {
        let s = shares(&[(16.0 * MIB, 2.0, 0.0), (16.0 * MIB, 0.5, 0.0)], 300_000_000);
        assert!(s[0] > 1.3 * s[1], "{s:?}");
        assert!(((s[0] + s[1]) * 16.0 - 12.0).abs() < 0.1, "{s:?}");
    }

    #[test]
    fn a_task_that_was_away_finds_what_others_left_it() {
        let mut domain = Domain::new(12 << 20);
        domain.join(0, 0, 8.0 * MIB, &Left::default());
        run(&mut domain, &[(8.0 * MIB, 1.0, 0.0)], 100_000_000);
        let (left, _) = domain.leave(0, 0);
        domain.advance(200_000_000);
        domain.join(0, 0, 8.0 * MIB, &left);
        assert!(domain.members()[0].share() > 0.98, "nobody else ran");
        let (left, _) = domain.leave(0, 0);
        domain.join(0, 1, 1.0, &Left::default());
        run(&mut domain, &[(1.0, 0.5, 1.0)], 24_000_000);
        domain.join(0, 0, 8.0 * MIB, &left);
        let kept = domain.members()[1].share();
        assert!((0.2..0.7).contains(&kept), "a stream as large as the cache passed: {kept}");
        domain.leave(0, 1);
        domain.join(0, 2, 8.0 * MIB, &Left { domain: 1, ..left });
        assert_eq!(domain.members()[1].share(), 0.0, "another domain's lines are not here");
    }

    #[test]
    fn one_long_step_comes_to_the_same_rest_as_many_short_ones() {
        let mut d = Domain::new(12 << 20);
        d.join(0, 0, 8.0 * MIB, &Left::default());
        (d.filled, d.members[0].resident) = (d.capacity, 4.0 * MIB);
        // At rest: own insertions replace exactly what the stream evicts.
        (d.members[0].reuse, d.members[0].stream) = (0.5, 1.0);
        d.advance(1_000_000_000);
        assert!((d.members[0].resident - 4.0 * MIB).abs() < 0.05 * MIB, "{}", d.members[0].resident);
    }
}
