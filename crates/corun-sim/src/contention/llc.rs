//! LLC sharing: each task's resident share of its working set changes with the insertions of all.
//!
//! Method: a task references its working set uniformly, so the share of references that hit is the resident
//! share of it; `compulsory` references never hit (streams). Every miss inserts a line; in a full cache an
//! insertion evicts a random one. For a step `dt` in which the tasks insert `E` bytes in total:
//!
//! ```text
//! miss share  = compulsory + (1 - compulsory) × (1 - resident / working set)
//! resident'   = (resident + own insertions) / (1 + E / capacity)      once the cache is full
//! ```
//!
//! The step is implicit. So it conserves the cache's bytes for any `dt`, and its rest point does not depend on `dt`. Tasks off the CPU
//! insert nothing and decay by the same factor: at their return they find the lines that the others have left. So the refill after a
//! switch or a migration to another domain is not a constant, but a result of this model. (The refill of private caches is in
//! [`super::private`].)
//!
//! Rates are held between evaluations. [`Domain::wake_ns`] returns when a share will have moved far enough for the next one. A share
//! that moves is evaluated half a step ahead, so that its rate is right in the middle of its time. Changes in a domain are summed once
//! for all members, and a member's share is computed from these sums on request. So a change costs the same with any number of members.
//! All are updated on an evaluation, at most a millisecond after a change.
//!
//! Source: Suh, Rudolph, Devadas 2004 (miss curve against occupied share); random replacement's mean-field equation.
//! A task's data may be in [`Part`]s: its hot data and the rest have separate shares, so that the miss curve has a knee at either size.
//! Data that threads share is in each domain once ([`super::regions`]).
//!
//! Limits: between its knees a miss curve is straight. Eviction is random (LRU protects hot data better). A task keeps its own lines in
//! one domain only.

/// How far a resident share may move before its task's rate is evaluated again.
const STEP: f64 = 1.0 / 32.0;
/// A share that has moved this part of a step is evaluated again.
const NEARLY: f64 = 0.75;
/// How far ahead a share that moves is evaluated.
const LEAD: f64 = STEP / 2.0;
/// Evaluations of a domain's shares are at least this far apart, in nanoseconds.
const PAUSE_NS: u64 = 50_000;
/// Sometimes a smaller step counts, so that shares at rest do not stay a step away from their rest point, on
/// either side.
const SMALL_STEP: f64 = STEP / 8.0;
/// Evaluations with the smaller step are at least this far apart, in nanoseconds.
const LONG_PAUSE_NS: u64 = 1_000_000;
/// A cache counts as full from this part of its capacity on.
const FULL: f64 = 0.999;
/// Where the survival product is scaled up again.
const EPOCH: f64 = 1e-100;

/// The owner of lines, and which of its lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The data of the task on this CPU, without its hot part.
    Own(u32),
    /// The hot part of the data of the task on this CPU.
    Hot(u32),
    /// The data of this region, which the threads of a program share.
    Region(u32),
}

/// Lines in a domain that are in use.
#[derive(Clone, Copy, Debug)]
struct Member {
    part: Part,
    /// Bytes of its working set that were resident when `reuse` was set, divided by the domain's survival
    /// then.
    held: f64,
    /// The domain's `fresh` then.
    fresh: f64,
    /// Bytes of its working set; above 0.
    working_set: f64,
    /// Bytes per nanosecond that it inserts of its working set.
    reuse: f64,
    /// Bytes per nanosecond that it inserts and never uses again.
    stream: f64,
    /// The resident share for which its rate was evaluated.
    evaluated: f64,
}

/// The lines that a task left in a domain when it stopped running.
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
    /// Bytes in use, by any task.
    filled: f64,
    members: Vec<Member>,
    /// Bytes per nanosecond that the members insert in total.
    inserted: f64,
    /// The remaining part of a byte that was resident at the start, times [`EPOCH`] to the power of minus `epoch`. The product itself
    /// would leave the range of a float after a few hundred turnovers of the cache.
    survival: f64,
    epoch: u32,
    /// Nanoseconds so far, each divided by the survival when it began. Lines inserted at a constant rate since some time are still
    /// there to this extent: the rate, times the growth of this sum, times the survival.
    fresh: f64,
    now_ns: u64,
    /// The time of its last evaluation, and of the last one with the smaller step.
    looked_ns: u64,
    looked_closely_ns: u64,
    /// The time of the next evaluation, and when it was computed for all members.
    wake_ns: u64,
    planned_ns: u64,
    /// Its shares were evaluated since.
    looked: bool,
}

impl Domain {
    /// An empty cache of this many bytes.
    pub fn new(bytes: u64) -> Domain {
        let capacity = bytes as f64;
        Domain {
            capacity,
            filled: 0.0,
            members: Vec::new(),
            inserted: 0.0,
            survival: 1.0,
            epoch: 0,
            fresh: 0.0,
            now_ns: 0,
            looked_ns: 0,
            looked_closely_ns: 0,
            wake_ns: u64::MAX,
            planned_ns: 0,
            looked: false,
        }
    }

    /// The number of tasks running on it.
    pub fn members(&self) -> usize {
        self.members.len()
    }

    /// The owner of the lines at `place`.
    pub fn part(&self, place: usize) -> Part {
        self.members[place].part
    }

    /// The share for which the rates of the users of the lines at `place` were evaluated, if they were.
    pub fn evaluated(&self, place: usize) -> Option<f64> {
        Some(self.members[place].evaluated).filter(|e| *e >= 0.0)
    }

    /// Bytes of its working set that are resident.
    fn resident(&self, m: &Member) -> f64 {
        (self.survival * (m.held + m.reuse * (self.fresh - m.fresh))).min(m.working_set)
    }

    /// The resident share of the working set of the task at `place`, 0..=1.
    pub fn share(&self, place: usize) -> f64 {
        let m = &self.members[place];
        self.resident(m) / m.working_set
    }

    /// The share for which its rate is to be evaluated. A moving share counts with its value a little later,
    /// so that its rate is right in the middle of the time for which it holds.
    pub fn evaluate(&mut self, place: usize) -> f64 {
        let m = &self.members[place];
        let (resident, lead) = (self.resident(m), LEAD * m.working_set);
        let eviction = self.eviction();
        let speed = m.reuse - resident * eviction;
        let on_its_way = m.reuse > 0.0 && goes_beyond(2.0 * lead, m, resident, speed.abs(), eviction);
        let then = if on_its_way { resident + lead.copysign(speed) } else { resident };
        let share = (then / m.working_set).clamp(0.0, 1.0);
        self.members[place].evaluated = share;
        share
    }

    /// Whether that share has moved far enough for a new evaluation of its rate.
    pub fn has_moved(&self, place: usize, step: f64) -> bool {
        let evaluated = self.members[place].evaluated;
        evaluated >= 0.0 && (self.share(place) - evaluated).abs() >= step * NEARLY
    }

    /// Sets how many bytes per nanosecond the task at `place` inserts from now on: of its working set, and of data that it never uses
    /// again.
    pub fn set_rates(&mut self, place: usize, reuse: f64, stream: f64) {
        let mut m = self.members[place];
        self.inserted += reuse + stream - (m.reuse + m.stream);
        (m.held, m.fresh) = (self.resident(&m) / self.survival, self.fresh);
        (m.reuse, m.stream) = (reuse, stream);
        self.members[place] = m;
        let at_ns = self.at_ns(self.way(&m, STEP, self.eviction()), self.looked_ns + PAUSE_NS);
        self.wake_ns = self.wake_ns.min(at_ns);
    }

    /// Advances time at the present rates.
    pub fn advance(&mut self, now_ns: u64) {
        let dt = (now_ns - self.now_ns) as f64;
        self.now_ns = now_ns;
        if dt == 0.0 || self.members.is_empty() {
            return;
        }
        self.fresh += dt / self.survival;
        self.filled += self.inserted * dt;
        if self.filled > self.capacity {
            self.survival *= self.capacity / self.filled;
            self.filled = self.capacity;
        }
        if self.survival < EPOCH {
            self.begin_epoch();
        }
    }

    fn begin_epoch(&mut self) {
        let survival = self.survival / EPOCH;
        for i in 0..self.members.len() {
            let held = self.resident(&self.members[i]) / survival;
            (self.members[i].held, self.members[i].fresh) = (held, 0.0);
        }
        (self.survival, self.epoch, self.fresh) = (survival, self.epoch + 1, 0.0);
    }

    /// A task starts to run, or a region to be used; returns its place. `number` is this domain's.
    pub fn join(&mut self, number: u32, part: Part, working_set: f64, left: &Left) -> usize {
        let survival = match self.epoch - left.epoch.min(self.epoch) {
            _ if left.domain != number || left.survival <= 0.0 => 0.0,
            0 => self.survival / left.survival,
            1 => self.survival * EPOCH / left.survival,
            _ => 0.0,
        };
        let held = (left.resident * survival).min(working_set) / self.survival;
        // -1: not evaluated (yet, or never: a pure stream has no share).
        let (fresh, evaluated) = (self.fresh, -1.0);
        self.members.push(Member { part, held, fresh, working_set, reuse: 0.0, stream: 0.0, evaluated });
        self.members.len() - 1
    }

    /// The task at `place` stops. Returns the lines that it leaves, and the owner of the lines that now have its place.
    pub fn leave(&mut self, number: u32, place: usize) -> (Left, Option<Part>) {
        let m = self.members.swap_remove(place);
        self.inserted -= m.reuse + m.stream;
        let resident = self.resident(&m);
        let left = Left { domain: number, resident, survival: self.survival, epoch: self.epoch };
        (left, self.members.get(place).map(|m| m.part))
    }

    /// Notes that the shares are evaluated now; returns the step that counts this time.
    pub fn look(&mut self) -> f64 {
        (self.looked_ns, self.looked) = (self.now_ns, true);
        if self.now_ns < self.looked_closely_ns + LONG_PAUSE_NS {
            return STEP;
        }
        self.looked_closely_ns = self.now_ns;
        SMALL_STEP
    }

    /// The time of the next evaluation: when the first member's share will have moved noticeably; `u64::MAX` if none will. All members
    /// are updated after an evaluation, and again after a long pause. In between only members with new rates count.
    pub fn wake_ns(&mut self) -> u64 {
        let all_again_ns = self.planned_ns + LONG_PAUSE_NS;
        if self.looked || self.now_ns >= all_again_ns {
            self.plan();
            return self.wake_ns;
        }
        self.wake_ns.min(all_again_ns).max(self.now_ns + 1)
    }

    fn plan(&mut self) {
        (self.planned_ns, self.looked) = (self.now_ns, false);
        // From scratch, so that no rounding stays.
        self.inserted = self.members.iter().map(|m| m.reuse + m.stream).sum();
        self.wake_ns = self.at_ns(self.first_way(STEP), self.looked_ns + PAUSE_NS);
        // Eviction begins when the cache is full, so shares at rest move again.
        let room = self.capacity * FULL - self.filled;
        if room > 0.0 && self.inserted > 0.0 {
            self.wake_ns = self.wake_ns.min(self.at_ns((room, self.inserted), self.now_ns));
        }
        let close_ns = self.looked_closely_ns + LONG_PAUSE_NS;
        if self.wake_ns > close_ns {
            self.wake_ns = self.wake_ns.min(self.at_ns(self.first_way(SMALL_STEP), close_ns));
        }
    }

    /// When a distance will have been covered, `(bytes, bytes per nanosecond)`, but not before `from_ns`.
    fn at_ns(&self, (way, speed): (f64, f64), from_ns: u64) -> u64 {
        match way / speed {
            ns if ns < 1e15 => (self.now_ns + ns.max(1.0) as u64).max(from_ns),
            _ => u64::MAX,
        }
    }

    /// The share of the cache that is evicted in a nanosecond.
    fn eviction(&self) -> f64 {
        let full = self.filled >= self.capacity * FULL;
        if full {
            self.inserted / self.capacity
        } else {
            0.0
        }
    }

    /// The distance of the first member to arrive, and its speed. Movement so far counts, so changes among others delay nothing.
    fn first_way(&self, step: f64) -> (f64, f64) {
        let eviction = self.eviction();
        let mut first = (1.0, 0.0);
        for m in self.members.iter().filter(|m| m.evaluated >= 0.0) {
            let (way, speed) = self.way(m, step, eviction);
            if way * first.1 < first.0 * speed {
                first = (way, speed);
            }
        }
        first
    }

    /// How many bytes a member's share still has to move until it has moved by `step` since its last
    /// evaluation, and its speed. The speed is 0 if it comes to rest before.
    fn way(&self, m: &Member, step: f64, eviction: f64) -> (f64, f64) {
        if m.evaluated < 0.0 {
            return (1.0, 0.0);
        }
        let resident = self.resident(m);
        let speed = m.reuse - resident * eviction;
        let ahead = resident - m.evaluated * m.working_set;
        let (moved, noticeable) = (ahead.abs(), step * m.working_set);
        if moved >= noticeable * NEARLY {
            return (0.0, 1.0);
        }
        let least = (noticeable * NEARLY - moved).min(noticeable * 0.5);
        if !goes_beyond(least, m, resident, speed.abs(), eviction) {
            return (1.0, 0.0);
        }
        // A member that was evaluated ahead reaches that point first.
        let way = if ahead * speed < 0.0 { noticeable + moved } else { noticeable - moved };
        (way, speed.abs())
    }
}

/// Whether a share with this speed has more than this many bytes to go until it comes to rest. Shares approach their rest point
/// exponentially, with the falling rate of misses plus the eviction rate, reuse / (working set × missing) + eviction. The distance is
/// speed / rate. Without divisions:
fn goes_beyond(bytes: f64, m: &Member, resident: f64, speed: f64, eviction: f64) -> bool {
    let missing = (m.working_set - resident).max(m.working_set * 1e-3);
    speed * missing > (m.reuse + eviction * missing) * bytes
}

/// Share of references that miss with this share of the working set resident.
pub fn miss_share(compulsory: f64, resident: f64) -> f64 {
    compulsory + (1.0 - compulsory) * (1.0 - resident)
}

/// The resident share at which a task alone in a cache comes to rest: its own stream evicts part of its
/// working set. `ratio` is the working set divided by the capacity.
pub fn share_alone(compulsory: f64, ratio: f64) -> f64 {
    let reuse = 1.0 - compulsory;
    if ratio * reuse < 1e-9 {
        return 1.0;
    }
    // reuse × (1 - x) = x × ratio × (reuse × (1 - x) + compulsory), solved for x.
    let b = ratio + reuse;
    ((b - (b * b - 4.0 * ratio * reuse * reuse).max(0.0).sqrt()) / (2.0 * ratio * reuse)).clamp(0.0, 1.0)
}

/// The share of all references that miss at the rest point of a task alone in a cache. Its parts are given as
/// share of references and bytes relative to the capacity; `compulsory` is its stream. With `m` misses, the
/// resident share of a part is `refs / (refs + m × bytes)`. The answer is the largest `m` that the parts
/// produce together.
pub fn missing_alone(compulsory: f64, parts: &[(f64, f64)]) -> f64 {
    let made = |m: f64| {
        let missed = |(refs, bytes): &(f64, f64)| refs * (m * bytes) / (refs + m * bytes).max(1e-300);
        compulsory + parts.iter().map(missed).sum::<f64>()
    };
    let (mut low, mut high) = (1e-12, 1.0);
    if made(low) <= low {
        return 0.0;
    }
    for _ in 0..60 {
        let middle = 0.5 * (low + high);
        *(if made(middle) > middle { &mut low } else { &mut high }) = middle;
    }
    0.5 * (low + high)
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
                let reuse = refs * (1.0 - compulsory) * (1.0 - domain.share(place));
                domain.set_rates(place, reuse, refs * compulsory);
            }
            domain.advance(t + 10_000);
            let resident: f64 = domain.members.iter().map(|m| domain.resident(m)).sum();
            assert!(resident <= domain.filled + 1.0 && domain.filled <= domain.capacity + 1.0);
        }
    }

    fn shares(tasks: &[(f64, f64, f64)], ns: u64) -> Vec<f64> {
        let mut domain = Domain::new(12 << 20);
        for (i, t) in tasks.iter().enumerate() {
            domain.join(0, Part::Own(i as u32), t.0, &Left::default());
        }
        run(&mut domain, tasks, ns);
        (0..tasks.len()).map(|place| domain.share(place)).collect()
    }

    #[test]
    fn a_working_set_that_fits_becomes_resident_and_one_that_does_not_gets_the_whole_cache() {
        let fits = shares(&[(6.0 * MIB, 1.0, 0.0)], 100_000_000)[0];
        let not = shares(&[(24.0 * MIB, 1.0, 0.0)], 100_000_000)[0];
        assert!(fits > 0.99 && (not - 0.5).abs() < 0.01, "{fits} {not}");
    }

    #[test]
    fn the_rest_point_of_a_task_alone_is_the_computed_one() {
        for (mib, compulsory) in [(6.0, 0.05), (6.0, 0.5), (12.0, 0.2), (48.0, 0.05), (1.0, 0.9)] {
            let got = shares(&[(mib * MIB, 1.0, compulsory)], 400_000_000)[0];
            let want = share_alone(compulsory, mib / 12.0);
            assert!((got - want).abs() < 0.01, "{mib} MiB, {compulsory}: {got} against {want}");
        }
    }

    #[test]
    fn parts_alone_come_to_rest_like_a_single_one_of_their_size() {
        for (mib, compulsory) in [(6.0, 0.05), (24.0, 0.0), (12.0, 0.2), (48.0, 0.05)] {
            let (ratio, reuse) = (mib / 12.0, 1.0 - compulsory);
            let one = miss_share(compulsory, share_alone(compulsory, ratio));
            let halves = [(reuse / 2.0, ratio / 2.0); 2];
            assert!((missing_alone(compulsory, &[(reuse, ratio)]) - one).abs() < 1e-6, "{mib} {compulsory}");
            assert!((missing_alone(compulsory, &halves) - one).abs() < 1e-6, "{mib} {compulsory}");
        }
        assert_eq!(missing_alone(0.0, &[(1.0, 0.5)]), 0.0);
    }

    #[test]
    fn what_is_used_more_stays_when_a_stream_passes() {
        // Nine tenths of the references go to an eighth of the data.
        let hot = missing_alone(0.2, &[(0.72, 0.125), (0.08, 0.875)]);
        let even = missing_alone(0.2, &[(0.8, 1.0)]);
        assert!(hot < 0.7 * even, "{hot} against {even}");
    }

    #[test]
    fn a_task_with_more_references_holds_more() {
        let s = shares(&[(16.0 * MIB, 2.0, 0.0), (16.0 * MIB, 0.5, 0.0)], 300_000_000);
        assert!(s[0] > 1.3 * s[1], "{s:?}");
        assert!(((s[0] + s[1]) * 16.0 - 12.0).abs() < 0.1, "{s:?}");
    }

    #[test]
    fn a_task_that_was_away_finds_what_others_left_it() {
        let mut domain = Domain::new(12 << 20);
        domain.join(0, Part::Own(0), 8.0 * MIB, &Left::default());
        run(&mut domain, &[(8.0 * MIB, 1.0, 0.0)], 100_000_000);
        let (left, _) = domain.leave(0, 0);
        domain.advance(200_000_000);
        domain.join(0, Part::Own(0), 8.0 * MIB, &left);
        assert!(domain.share(0) > 0.98, "nobody else ran");
        let (left, _) = domain.leave(0, 0);
        domain.join(0, Part::Own(1), 1.0, &Left::default());
        run(&mut domain, &[(1.0, 0.5, 1.0)], 24_000_000);
        domain.join(0, Part::Own(0), 8.0 * MIB, &left);
        let kept = domain.share(1);
        assert!((0.2..0.7).contains(&kept), "a stream as large as the cache passed: {kept}");
        domain.leave(0, 1);
        domain.join(0, Part::Own(2), 8.0 * MIB, &Left { domain: 1, ..left });
        assert_eq!(domain.share(1), 0.0, "another domain's lines are not here");
    }

    #[test]
    fn a_cache_that_becomes_full_is_evaluated_then_although_nothing_else_changes() {
        let mut d = Domain::new(12 << 20);
        d.join(0, Part::Own(0), 4.0 * MIB, &Left::default());
        (d.filled, d.members[0].held) = (4.0 * MIB, 4.0 * MIB);
        d.evaluate(0);
        d.set_rates(0, 0.0, 1.0);
        d.look();
        let filled = d.wake_ns() as f64 / (8.0 * MIB);
        assert!(
            (0.998..=1.0).contains(&filled),
            "a stream of a byte per nanosecond has 8 MiB to fill: {filled}"
        );
    }

    #[test]
    fn one_long_step_reaches_the_same_rest_as_many_short_ones() {
        let mut d = Domain::new(12 << 20);
        d.join(0, Part::Own(0), 8.0 * MIB, &Left::default());
        (d.filled, d.members[0].held) = (d.capacity, 4.0 * MIB);
        // At rest its own insertions replace exactly the evictions by the stream.
        d.set_rates(0, 0.5, 1.0);
        d.advance(1_000_000_000);
        assert!((d.share(0) * 8.0 - 4.0).abs() < 0.05, "{}", d.share(0));
    }
}
