//! Scheduling events of a task or tenant in a window (PACT'16 table 1).

use crate::machine::Distance;

/// Migrations by how far the task moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Migrations {
    /// To another hardware thread of the same core.
    pub same_core: u64,
    /// To another core of the same last-level cache.
    pub same_llc: u64,
    /// To another last-level cache of the same socket.
    pub same_socket: u64,
    /// To another socket.
    pub other_socket: u64,
}

impl Migrations {
    /// All of them.
    pub fn total(&self) -> u64 {
        self.same_core + self.same_llc + self.same_socket + self.other_socket
    }

    /// Counts one move over `distance`; staying on the same CPU is no move.
    pub fn count(&mut self, distance: Distance) {
        match distance {
            Distance::SameCpu => {}
            Distance::SameCore => self.same_core += 1,
            Distance::SameLlc => self.same_llc += 1,
            Distance::SameSocket => self.same_socket += 1,
            Distance::OtherSocket => self.other_socket += 1,
        }
    }
}

/// What happened to a task, as counts. `None` means that this source cannot tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Events {
    /// Times it blocked: voluntary context switches.
    pub blocked: Option<u64>,
    /// Times it called `sched_yield` and another task ran. It stayed runnable, so this is not blocking.
    pub yielded: Option<u64>,
    /// Involuntary switches: it was still runnable when it lost the CPU. If calls of `sched_yield` are unknown they are included, as
    /// the kernel counts them.
    pub preemptions: Option<u64>,
    /// Times it was made runnable.
    pub wakeups: Option<u64>,
    /// Moves to another CPU.
    pub migrations: Option<Migrations>,
}

impl Events {
    /// The field-wise sum. It lacks a count that either side lacks.
    #[must_use]
    pub fn plus(&self, o: &Events) -> Events {
        let add = |a: Option<u64>, b: Option<u64>| Some(a? + b?);
        Events {
            blocked: add(self.blocked, o.blocked),
            yielded: add(self.yielded, o.yielded),
            preemptions: add(self.preemptions, o.preemptions),
            wakeups: add(self.wakeups, o.wakeups),
            migrations: match (self.migrations, o.migrations) {
                (Some(a), Some(b)) => Some(Migrations {
                    same_core: a.same_core + b.same_core,
                    same_llc: a.same_llc + b.same_llc,
                    same_socket: a.same_socket + b.same_socket,
                    other_socket: a.other_socket + b.other_socket,
                }),
                _ => None,
            },
        }
    }

    /// How often it left a CPU, for any reason. `None` if the source cannot tell.
    pub fn switches(&self) -> Option<u64> {
        Some(self.blocked? + self.preemptions? + self.yielded.unwrap_or(0))
    }

    /// No events of any kind, all of them known.
    pub fn none() -> Events {
        Events {
            blocked: Some(0),
            yielded: Some(0),
            preemptions: Some(0),
            wakeups: Some(0),
            migrations: Some(Migrations::default()),
        }
    }
}
