//! What a program would do alone, from windows that it shared: the ledger alone.
//!
//! Method. Of a task's life, the time stolen by co-runners would not have been there. Nor would the part of its waiting
//! for siblings that they caused by stealing from a sibling. Call the first `x` and the second `v`, as shares of its
//! life: alone the task would have come as far in `1 - x - v` of the time. Tasks that are bound together (barriers, locks,
//! pipelines) all have the same `x + v`, independent ones have their own; weighting each with its compute time is right
//! for both: a task that computes nothing decides nothing, and the program's work is the sum over its tasks.
//!
//! ```text
//! slowdown = Σ compute_i / (1 - x_i - v_i)  /  Σ compute_i
//! ```
//!
//! `v` cannot be read off a ledger, but it is bounded twice: by how long the task waited at all, and by how long a sibling
//! was stolen from while it was not itself (every nanosecond taken from a sibling delays a waiting task by one at most).
//! The smaller of the two is `v` when the tasks are tightly bound. Whether they are, the windows show: waiting that
//! siblings' steal causes comes and goes with it, waiting of a program's own (a pool without requests, a contended lock)
//! does not. That is the **coupling**, 0 to 1, a regression over windows; see [`coupling`].
//!
//! Threads that queue behind a sibling would do so alone as well, unless co-runners held the other CPUs in the meantime.
//! And however little is taken away, no program computes on more CPUs than there are.
//!
//! Limits: memory contention is not seen (its parts say `None`); a wait for a device that a co-runner keeps busy counts as
//! the program's own; within a window, steals of different tasks are taken to fall independently of each other.

use crate::useful_work::{Spent, Window};

/// What the ledger says of running alone.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Alone {
    /// Time beside co-runners by time alone.
    pub slowdown: f64,
    /// The part of `slowdown - 1` that is steal.
    pub steal: f64,
    /// The part that is waiting for siblings.
    pub sync: f64,
    /// The slowdown of the slowest task that has a fair part of the work.
    pub slowest: f64,
    /// Share of the tasks' lives spent waiting for siblings.
    pub waiting: f64,
}

/// A task is one of the workers when it computes at least this share of what the busiest does.
pub const WORKER: f64 = 0.25;

/// The slowdown of a window, given how tightly the tasks are bound. `None`: the subject computed nothing in it.
pub fn from_ledger(window: &Window, coupling: f64) -> Option<Alone> {
    let total = window.total();
    if total.compute_ns <= 0.0 {
        return None;
    }
    let most = window.all().map(|s| s.compute_ns).fold(0.0, f64::max);
    let (mut slowdown, mut steal, mut sync, mut slowest) = (0.0, 0.0, 0.0, 1.0f64);
    for s in window.all().filter(|s| s.compute_ns > 0.0) {
        let (x, v) = (s.stolen_ns / s.life_ns, coupling * induced_ns(s) / s.life_ns);
        let (weight, left) = (s.compute_ns / total.compute_ns, (1.0 - x - v).max(s.compute_ns / s.life_ns));
        slowdown += weight / left;
        steal += weight * x / left;
        sync += weight * v / left;
        if s.compute_ns >= WORKER * most {
            slowest = slowest.max(1.0 / left);
        }
    }
    // However little is taken away, a program does not compute on more CPUs than the machine has.
    let useful_cpus = total.compute_ns / window.wall_ns;
    let at_most = (window.cpus as f64 / useful_cpus).max(1.0);
    if window.cpus > 0 && slowdown > at_most {
        let scale = (at_most - 1.0) / (slowdown - 1.0);
        (slowdown, steal, sync) = (at_most, steal * scale, sync * scale);
        slowest = slowest.min(at_most);
    }
    let waiting = total.waiting_ns() / total.life_ns;
    Some(Alone { slowdown, steal, sync, slowest, waiting })
}

/// The most that a task can have waited for siblings because of co-runners.
fn induced_ns(s: &Spent) -> f64 {
    s.waiting_ns().min(s.beside_stolen_ns)
}
