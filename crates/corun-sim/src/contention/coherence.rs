//! Coherence: transfers of lines between threads that share them, by distance, and only while both compute.
//!
//! Method: with all its siblings computing, a thread takes `coherence-pki` transfers per thousand instructions,
//! equally from each of them. A sibling that waits, spins or is off the CPU writes nothing, so its part of the
//! transfers does not happen: that is how out-of-sync execution lowers coherence misses (PACT'16 §3.3).
//!
//! ```text
//! transfers from distance d = coherence-pki × siblings computing at d / (threads - 1)
//! ```
//!
//! A transfer from a hyperthread of the same core is a hit in the shared private cache: it costs an L2 hit, and no
//! event counts it. Within a socket it counts as intra-socket, beyond as inter-socket.
//!
//! Source: PACT'16 §3.3 (figure 4d), ATC'16 §3.1 and figure 1.
//! Limits: every sibling is an equal partner (no neighbours; programs that share in pairs are one program number
//! per pair), the rate per instruction does not rise when fewer threads contend for a line, links do not queue.

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

/// What sharing does to one thread, per instruction.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sharing {
    /// Exposed stall cycles.
    pub stall: f64,
    /// Transfers from other cores of the socket.
    pub intra: f64,
    /// Transfers from other sockets.
    pub inter: f64,
}

/// Sharing of a thread that makes `rate` transfers per instruction when all its siblings compute.
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

/// The threads of one program that compute now, counted by place.
#[derive(Clone, Debug, Default)]
pub struct Group {
    /// Threads that have been seen.
    pub threads: u32,
    members: Vec<u32>,
    by_llc: Vec<u32>,
    by_socket: Vec<u32>,
    /// Changes since all members' rates were evaluated.
    drift: u32,
}

fn slot(counts: &mut Vec<u32>, i: u32) -> &mut u32 {
    if counts.len() <= i as usize {
        counts.resize(i as usize + 1, 0);
    }
    &mut counts[i as usize]
}

impl Group {
    /// A thread starts to compute on `cpu`; returns its place.
    pub fn join(&mut self, cpu: u32, llc: u32, socket: u32) -> usize {
        *slot(&mut self.by_llc, llc) += 1;
        *slot(&mut self.by_socket, socket) += 1;
        self.members.push(cpu);
        self.drift += 1;
        self.members.len() - 1
    }

    /// The thread at `place` stops; returns the CPU of the thread that now has its place.
    pub fn leave(&mut self, place: usize, llc: u32, socket: u32) -> Option<u32> {
        self.by_llc[llc as usize] -= 1;
        self.by_socket[socket as usize] -= 1;
        self.members.swap_remove(place);
        self.drift += 1;
        self.members.get(place).copied()
    }

    /// CPUs that run a computing thread of it.
    pub fn members(&self) -> &[u32] {
        &self.members
    }

    /// A thread's siblings, of which `core` are on its own core.
    pub fn siblings(&self, core: u32, llc: u32, socket: u32) -> Siblings {
        let (in_llc, in_socket) = (self.by_llc[llc as usize], self.by_socket[socket as usize]);
        Siblings {
            core,
            llc: in_llc - 1 - core,
            socket: in_socket - in_llc,
            remote: self.members.len() as u32 - in_socket,
        }
    }

    /// Whether all members should be evaluated again; starts a new count when so. Groups of up to 64 threads are
    /// evaluated at every change, larger ones when 1/64 of them changed: the cost per change stays bounded.
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
    fn siblings_are_counted_by_place() {
        let mut g = Group { threads: 4, ..Group::default() };
        let places: Vec<usize> =
            [(0, 0, 0), (1, 0, 0), (2, 1, 0), (3, 2, 1)].map(|(c, l, s)| g.join(c, l, s)).into();
        assert_eq!(g.siblings(0, 0, 0), Siblings { core: 0, llc: 1, socket: 1, remote: 1 });
        assert_eq!(g.leave(places[0], 0, 0), Some(3));
        assert_eq!(g.siblings(0, 0, 0), Siblings { core: 0, llc: 0, socket: 1, remote: 1 });
        assert_eq!(g.members(), [3, 1, 2]);
    }
}
