//! Coherence: transfers of lines between threads that share them, by distance, while both compute in the same part of
//! the program.
//!
//! Method: with all its siblings computing in step, a thread takes `coherence-pki` transfers per thousand instructions, equally from
//! each of them. A sibling that waits, spins or is off the CPU writes nothing. One at another place of the program has other lines in
//! its private cache. So their parts of the transfers do not happen. In this way out-of-sync execution lowers coherence misses (PACT'16
//! §3.3: "threads with different progression will see fewer cache line invalidations from sibling cores").
//!
//! ```text
//! transfers from distance d = coherence-pki × siblings computing in step at d / (threads - 1)
//! in step                   : places nearer than the reach
//! place                     = solo work since the threads last met
//! reach                     = lines of the private cache / references to the LLC per solo work
//! ```
//!
//! The **reach** is the work after which a private cache holds other lines than before. Beyond it, a line that a sibling wrote has left
//! the sibling's cache, and a thread finds it in the LLC, as an ordinary reference. The reach follows from the machine and the program
//! alone, and cannot be set.
//!
//! Threads in step form a **cohort**. A thread that starts or continues to compute, or has met the others, joins the nearest cohort
//! within its reach or founds one. A thread that is behind and faster catches up. If the threads of a program or phase do not all meet
//! (queues, pipelines, locks, independent threads), there are no places to compare, and all are one cohort. So are the threads of a
//! program that refers to nothing beyond its private caches.
//!
//! A transfer from a hyperthread of the same core is a hit in the shared private cache: it costs an L2 hit, and no
//! event counts it. Within a socket it counts as intra-socket, beyond as inter-socket.
//!
//! Source: PACT'16 §3.3 (figure 4d) and §3.4, ATC'16 §3.1 and figure 1; the reach is ours.
//! Limits: within a cohort every sibling is an equal partner, so there are no neighbors. Programs that share in pairs have one program
//! number per pair. A thread that falls behind while it computes, because its core is slower, stays in step until it next stops or
//! meets: solo runs are calibrated with threads whose cores differ. Threads that compute different parts of the data at one place are
//! assumed to share as often as elsewhere. The rate per instruction does not depend on the number of contenders for a line. Its cost
//! does, if a file gives the number of lines ([`super::hot_lines`]). Transfers do not load links: at 64 bytes each they are a few
//! percent of a link's capacity.

/// Siblings that compute, by where they are as seen from one thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Siblings {
    /// On hyperthreads of the same core.
    pub core: u32,
    /// On other cores of the LLC domain.
    pub llc: u32,
    /// In other LLC domains of the socket.
    pub socket: u32,
    /// In other sockets.
    pub remote: u32,
}

/// Cycles that one transfer exposes, by distance.
#[derive(Clone, Copy, Debug)]
pub struct TransferCycles {
    /// From a hyperthread of the same core.
    pub core: f64,
    /// From another core of the LLC domain.
    pub llc: f64,
    /// From another LLC domain of the socket.
    pub socket: f64,
    /// From another socket.
    pub remote: f64,
}

/// The effect of sharing on one thread, per instruction.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sharing {
    /// Exposed stall cycles.
    pub stall: f64,
    /// Transfers from other cores of the socket.
    pub intra: f64,
    /// Transfers from other sockets.
    pub inter: f64,
}

/// Sharing of a thread with `rate` transfers per instruction when all its siblings compute.
pub fn sharing(rate: f64, threads: u32, siblings: &Siblings, cycles: &TransferCycles) -> Sharing {
    let each = rate / f64::from(threads.max(2) - 1);
    let (core, llc) = (f64::from(siblings.core) * each, f64::from(siblings.llc) * each);
    let (socket, remote) = (f64::from(siblings.socket) * each, f64::from(siblings.remote) * each);
    Sharing {
        stall: core * cycles.core + llc * cycles.llc + socket * cycles.socket + remote * cycles.remote,
        intra: llc + socket,
        inter: remote,
    }
}

/// A thread's place in its program, if its threads meet again and again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The number of the next meeting.
    pub meeting: u64,
    /// Solo work since the last one, in nanoseconds.
    pub work_ns: u64,
    /// From this time on it does more work. The kernel's time comes before.
    pub from_ns: u64,
}

/// The most cohorts of a group. A thread that would found another joins the nearest, so that joining has a bounded cost.
const COHORTS: usize = 64;

/// Threads that are in step, counted by distance.
#[derive(Clone, Debug, Default)]
struct Cohort {
    members: Vec<u32>,
    by_llc: Vec<u32>,
    by_socket: Vec<u32>,
    queue: Queue,
}

/// The cost of waiting for the lines of a cohort.
#[derive(Clone, Copy, Debug, Default)]
pub struct Queue {
    /// Cycles that a transfer waits.
    pub wait: f64,
    /// The load for which that was computed.
    pub solved: f64,
}

/// The threads of one program that compute now, in cohorts.
#[derive(Clone, Debug)]
pub struct Group {
    /// Threads that have been seen.
    pub threads: u32,
    /// Those without members are kept for their memory.
    cohorts: Vec<Cohort>,
    /// Changes since all members' rates were evaluated.
    drift: u32,
    /// When one cohort will have caught up with another; `u64::MAX`: never.
    pub catch_up_ns: u64,
}

impl Default for Group {
    fn default() -> Group {
        Group { threads: 0, cohorts: Vec::new(), drift: 0, catch_up_ns: u64::MAX }
    }
}

fn slot(counts: &mut Vec<u32>, i: u32) -> &mut u32 {
    if counts.len() <= i as usize {
        counts.resize(i as usize + 1, 0);
    }
    &mut counts[i as usize]
}

impl Group {
    /// The cohort of a thread, given its distance to a member of each: the nearest if it is within `reach`,
    /// else an empty one.
    pub fn nearest(&self, reach: u64, distance: impl Fn(u32) -> u64) -> u32 {
        match self.first_members().map(|(cohort, cpu)| (distance(cpu), cohort)).min() {
            Some((d, nearest)) if d <= reach => nearest,
            Some((_, nearest)) => self.empty().unwrap_or(nearest),
            None => 0,
        }
    }

    /// A CPU of each cohort with members.
    pub fn first_members(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        (0..).zip(&self.cohorts).filter_map(|(i, c)| Some((i, *c.members.first()?)))
    }

    /// Moves the members of one cohort to another. Calls `moved` with the CPU of each and its place there.
    pub fn merge(&mut self, from: u32, into: u32, mut moved: impl FnMut(u32, u32)) {
        let c = std::mem::take(&mut self.cohorts[from as usize]);
        let to = &mut self.cohorts[into as usize];
        self.drift += c.members.len() as u32;
        for (i, cpu) in (to.members.len() as u32..).zip(&c.members) {
            moved(*cpu, i);
        }
        to.members.extend(c.members);
        for (counts, by) in [(&mut to.by_llc, c.by_llc), (&mut to.by_socket, c.by_socket)] {
            (0..).zip(by).for_each(|(i, n)| *slot(counts, i) += n);
        }
    }

    fn empty(&self) -> Option<u32> {
        let place = self.cohorts.iter().position(|c| c.members.is_empty()).unwrap_or(self.cohorts.len());
        (place < COHORTS).then_some(place as u32)
    }

    /// A thread starts to compute on `cpu` in a cohort; returns its place there.
    pub fn join(&mut self, cohort: u32, cpu: u32, llc: u32, socket: u32) -> usize {
        self.drift += 1;
        if self.cohorts.len() <= cohort as usize {
            self.cohorts.resize(cohort as usize + 1, Cohort::default());
        }
        let c = &mut self.cohorts[cohort as usize];
        *slot(&mut c.by_llc, llc) += 1;
        *slot(&mut c.by_socket, socket) += 1;
        c.members.push(cpu);
        c.members.len() - 1
    }

    /// The thread at a place of a cohort stops; returns the CPU of the thread that now has its place.
    pub fn leave(&mut self, cohort: u32, place: usize, llc: u32, socket: u32) -> Option<u32> {
        self.drift += 1;
        let c = &mut self.cohorts[cohort as usize];
        c.by_llc[llc as usize] -= 1;
        c.by_socket[socket as usize] -= 1;
        c.members.swap_remove(place);
        c.members.get(place).copied()
    }

    /// CPUs that run a computing thread of it.
    pub fn members(&self) -> impl Iterator<Item = u32> + '_ {
        self.cohorts.iter().flat_map(|c| &c.members).copied()
    }

    /// The largest number of cohorts so far.
    pub fn cohorts(&self) -> u32 {
        self.cohorts.len() as u32
    }

    /// CPUs of a cohort's threads.
    pub fn cohort(&self, cohort: u32) -> &[u32] {
        &self.cohorts[cohort as usize].members
    }

    /// The queue for a cohort's lines.
    pub fn queue(&mut self, cohort: u32) -> &mut Queue {
        &mut self.cohorts[cohort as usize].queue
    }

    /// The CPU at a place of a cohort.
    #[cfg(test)]
    pub fn member(&self, cohort: u32, place: u32) -> Option<u32> {
        self.cohorts.get(cohort as usize)?.members.get(place as usize).copied()
    }

    /// The siblings of a cohort's thread; `core` of them are on its own core.
    pub fn siblings(&self, cohort: u32, core: u32, llc: u32, socket: u32) -> Siblings {
        let c = &self.cohorts[cohort as usize];
        let (in_llc, in_socket) = (c.by_llc[llc as usize], c.by_socket[socket as usize]);
        Siblings {
            core,
            llc: in_llc - 1 - core,
            socket: in_socket - in_llc,
            remote: c.members.len() as u32 - in_socket,
        }
    }

    /// Whether all members should be evaluated again; if so, starts a new count. Groups of up to 64 threads
    /// are evaluated at every change, larger ones when 1/64 of them changed: the cost per change stays
    /// bounded.
    pub fn take_drift(&mut self) -> bool {
        let drifted = self.drift > 0 && self.drift * 64 >= self.threads;
        if drifted {
            self.drift = 0;
        }
        drifted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CYCLES: TransferCycles = TransferCycles { core: 10.0, llc: 150.0, socket: 200.0, remote: 600.0 };

    #[test]
    fn threads_that_do_not_run_at_the_same_time_transfer_nothing() {
        let all = sharing(1e-3, 4, &Siblings { llc: 3, ..Siblings::default() }, &CYCLES);
        let two = sharing(1e-3, 4, &Siblings { llc: 1, ..Siblings::default() }, &CYCLES);
        assert!((two.intra * 3.0 - all.intra).abs() < 1e-15);
        assert_eq!(sharing(1e-3, 4, &Siblings::default(), &CYCLES), Sharing::default());
    }

    #[test]
    fn hyperthreads_of_one_core_share_without_coherence_events() {
        let s = sharing(1e-3, 2, &Siblings { core: 1, ..Siblings::default() }, &CYCLES);
        assert_eq!((s.intra, s.inter), (0.0, 0.0));
        assert!(s.stall > 0.0 && s.stall < 0.1 * 1e-3 * CYCLES.llc);
    }

    #[test]
    fn siblings_are_counted_by_distance() {
        let mut g = Group { threads: 4, ..Group::default() };
        let places: Vec<usize> =
            [(0, 0, 0), (1, 0, 0), (2, 1, 0), (3, 2, 1)].map(|(c, l, s)| g.join(0, c, l, s)).into();
        assert_eq!(g.siblings(0, 0, 0, 0), Siblings { core: 0, llc: 1, socket: 1, remote: 1 });
        assert_eq!(g.leave(0, places[0], 0, 0), Some(3));
        assert_eq!(g.siblings(0, 0, 0, 0), Siblings { core: 0, llc: 0, socket: 1, remote: 1 });
        assert_eq!(g.members().collect::<Vec<_>>(), [3, 1, 2]);
    }

    #[test]
    fn a_thread_joins_the_nearest_cohort_within_its_reach_or_founds_one() {
        let mut g = Group { threads: 200, ..Group::default() };
        let mut at = Vec::new();
        let mut come = |here: u64, reach: u64| {
            let cohort =
                g.nearest(reach, |cpu: u32| at.get(cpu as usize).map_or(0, |p: &u64| p.abs_diff(here)));
            g.join(cohort, at.len() as u32, 0, 0);
            at.push(here);
            cohort
        };
        assert_eq!([1_000, 1_050, 1_500, 1_460].map(|here| come(here, 100)), [0, 0, 1, 1]);
        assert_eq!(come(1_240, u64::MAX), 0, "1,240 is nearer to 1,000 than to 1,500");
        let last = (0..150).map(|i| come(10_000 * (i + 1), 100)).max();
        assert_eq!(last, Some(63), "there is a bound, and beyond it the nearest");
        assert_eq!(g.siblings(1, 0, 0, 0).llc, 1);
    }
}
