//! Memory bandwidth: requests to a node's DRAM queue up, and the wait grows without bound as the memory saturates.
//!
//! Method: with utilisation `u` a request waits as in an M/D/1 queue whose server is busy `busy` cycles a line,
//!
//! ```text
//! wait = busy × u / (2 (1 - u)),    u = Σ bytes a cycle(wait) / capacity
//! ```
//!
//! and each task's traffic falls as its wait grows (`instructions per cycle = 1 / (base + misses × exposed ×
//! wait)`). The two are solved together for all tasks whose home is the node. The method is regula falsi
//! (Illinois) on the queue's length `y = u / (1 - u)`. It starts from scratch: the result depends on the
//! running tasks, not on the past.
//!
//! **Rows.** A bank of DRAM has one row open, and a line of another row takes longer. If a thread goes through its data in order
//! (`rows` of its accesses), the next line is in the same row, unless another thread used that bank before. Otherwise it is in another
//! row. With accesses at random times, and `b` the bytes that a thread moves of all `B`,
//!
//! ```text
//! kept     = rows × b / (b + (B - b) / banks)
//! capacity = node-bandwidth / (1 + (1 / closed-rows - 1) × (1 - kept, on average by bytes))
//! ```
//!
//! so more streams than banks move less than few. Without banks in the machine file memory has no rows.
//!
//! Source: standard queueing; published loaded-latency curves, flat to about 70 % and steep beyond 90 %; data sheets of DRAM.
//! Limits: one queue per node (no channels), no difference between reads and writes, no
//! priority; write-backs are part of `node-bandwidth`, which is what programs can reach.

use super::tolerance::EXPOSED_QUEUE;
use crate::machine_file::Rows;

/// Bytes of a cache line.
pub const LINE: f64 = 64.0;

/// One task's use of a node.
#[derive(Clone, Copy, Debug)]
pub struct Demand {
    /// Cycles per instruction when DRAM answers without queueing.
    pub base_cpi: f64,
    /// DRAM accesses per instruction.
    pub misses: f64,
    /// Exposed share of the wait.
    pub exposed: f64,
    /// Share of its accesses that follow the one before in a row of DRAM.
    pub rows: f64,
}

impl Demand {
    /// A task with this hidden share of its memory latency.
    pub fn new(base_cpi: f64, misses: f64, hidden: f64) -> Demand {
        Demand { base_cpi, misses, exposed: (1.0 - hidden).max(EXPOSED_QUEUE), rows: 1.0 }
    }

    /// Cycles per instruction when every DRAM access waits `wait` cycles.
    pub fn cpi(&self, wait: f64) -> f64 {
        self.base_cpi + self.misses * self.exposed * wait
    }

    /// Bytes per cycle when every DRAM access waits `wait` cycles.
    pub fn bytes_per_cycle(&self, wait: f64) -> f64 {
        self.misses * LINE / self.cpi(wait)
    }
}

/// A node's memory.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    /// Bytes per cycle that it can move.
    pub capacity: f64,
    /// Cycles that one line keeps it busy.
    pub busy: f64,
    /// Its rows; `None`: every line takes equally long.
    pub rows: Option<Rows>,
}

/// The most steps of the solver; it usually needs four to eight.
const STEPS: usize = 30;
/// The solver stops when the queue that results from the traffic differs from the assumed one by this share
/// of a request.
const CLOSE: f64 = 1e-3;

impl Memory {
    /// The memory for these users: it is slower if more of their accesses find another row open.
    pub fn for_users(&self, demands: &[Demand]) -> Memory {
        let Some(rows) = self.rows else { return *self };
        let all: f64 = demands.iter().map(|d| d.bytes_per_cycle(0.0)).sum();
        if all <= 0.0 {
            return *self;
        }
        let kept = |d: &Demand| {
            let own = d.bytes_per_cycle(0.0);
            own * d.rows * own / (own + (all - own).max(0.0) / rows.banks).max(1e-300)
        };
        let closed = 1.0 - demands.iter().map(kept).sum::<f64>() / all;
        let slower = 1.0 + (1.0 / rows.closed - 1.0) * closed.clamp(0.0, 1.0);
        Memory { capacity: self.capacity / slower, busy: self.busy * slower, ..*self }
    }

    /// Cycles that a request waits in the queue, with these demands.
    pub fn wait(&self, demands: &[Demand]) -> f64 {
        let used = |y: f64| {
            let wait = self.busy * 0.5 * y;
            demands.iter().map(|d| d.bytes_per_cycle(wait)).sum::<f64>() / self.capacity
        };
        // f falls with y, f(0) >= 0. At its root, the queue produces the traffic that produces the same
        // queue.
        let f = |y: f64| used(y) * (1.0 + y) - y;
        let at_rest = used(0.0);
        if at_rest < 1.0 / 64.0 {
            return self.busy * 0.5 * at_rest;
        }
        let mut high = if at_rest < 0.9 { at_rest / (1.0 - at_rest) } else { 8.0 };
        let mut f_high = f(high);
        while f_high > 0.0 && high < 1e6 {
            high *= 4.0;
            f_high = f(high);
        }
        let (mut low, mut f_low) = (0.0, at_rest);
        let (mut y, mut moved_low) = (0.0, None);
        for _ in 0..STEPS {
            y = (low * f_high - high * f_low) / (f_high - f_low);
            let f_y = f(y);
            if f_y.abs() < CLOSE {
                break;
            }
            // An end that does not move twice loses half its weight, so that it moves too.
            let again = moved_low == Some(f_y > 0.0);
            moved_low = Some(f_y > 0.0);
            if f_y > 0.0 {
                (low, f_low) = (y, f_y);
                f_high *= if again { 0.5 } else { 1.0 };
            } else {
                (high, f_high) = (y, f_y);
                f_low *= if again { 0.5 } else { 1.0 };
            }
        }
        self.busy * 0.5 * y
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMORY: Memory = Memory { capacity: 16.0, busy: 44.0, rows: None };

    fn streams(n: usize) -> Vec<Demand> {
        vec![Demand::new(20.0, 0.5, 0.8); n]
    }

    fn used(n: usize) -> f64 {
        let d = streams(n);
        let wait = MEMORY.wait(&d);
        d.iter().map(|d| d.bytes_per_cycle(wait)).sum::<f64>() / MEMORY.capacity
    }

    #[test]
    fn the_queue_and_the_traffic_agree() {
        for n in [1, 2, 5, 8, 10, 12, 20, 40, 200] {
            let (u, wait) = (used(n), MEMORY.wait(&streams(n)));
            let expected = MEMORY.busy * u / (2.0 * (1.0 - u));
            assert!((wait - expected).abs() <= 0.01 * expected + 0.01, "{n}: {wait} against {expected}");
        }
    }

    #[test]
    fn no_task_gets_more_than_the_memory_can_move_and_waiting_grows_with_load() {
        let mut last = 0.0;
        for n in 1..60 {
            let wait = MEMORY.wait(&streams(n));
            assert!(used(n) < 1.0 && wait > last, "{n}: used {}, wait {wait} after {last}", used(n));
            last = wait;
        }
        assert!(used(60) > 0.95);
    }

    #[test]
    fn more_streams_than_banks_move_less_than_few_and_random_accesses_always_do() {
        let rows = Some(Rows { banks: 32.0, closed: 0.6 });
        let capacity = |n: usize, rows_kept: f64| {
            let demands = vec![Demand { rows: rows_kept, ..streams(1)[0] }; n];
            Memory { rows, ..MEMORY }.for_users(&demands).capacity / MEMORY.capacity
        };
        let by_streams: Vec<f64> = [1, 8, 24, 48, 1000].map(|n| capacity(n, 1.0)).into();
        assert!(by_streams[0] == 1.0 && by_streams.windows(2).all(|w| w[0] > w[1]), "{by_streams:?}");
        assert!((by_streams[4] - 0.6).abs() < 0.02, "{by_streams:?}");
        assert!([1, 8, 48].iter().all(|n| (capacity(*n, 0.0) - 0.6).abs() < 1e-12));
        assert_eq!(MEMORY.for_users(&streams(48)).capacity, MEMORY.capacity);
    }

    #[test]
    fn idle_memory_makes_no_task_wait() {
        assert_eq!(MEMORY.wait(&[]), 0.0);
        assert!(MEMORY.wait(&[Demand::new(1.0, 1e-5, 0.3)]) < 0.01);
    }
}
