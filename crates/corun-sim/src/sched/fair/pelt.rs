//! PELT: the kernel's geometric load averages (half-life 32 periods of 1024 µs), in integers.
//!
//! Method: `avg' = avg × y^t + now × (1 - y^t)` with `y^32 = 1/2`. `y^n` for whole periods comes from a table
//! of 32, and a part of a period from linear interpolation. Source: Linux `kernel/sched/pelt.c` (which sums
//! periods one by one instead; both converge on the same averages). Limit: no frequency or capacity scaling,
//! since modelled CPUs of one machine are equal.

/// `round(2^32 × 2^(-n/32))`.
const DECAY: [u64; 33] = decay_table();

const fn decay_table() -> [u64; 33] {
    // 2^(-1/32) in 63-bit fixed point, multiplied up; const so that no platform's powf takes part.
    const STEP: u128 = 9_025_734_193_507_008_925; // 2^63 * 2^(-1/32)
    let mut table = [0; 33];
    let mut x: u128 = 1 << 63;
    let mut n = 0;
    while n < 33 {
        table[n] = ((x + (1 << 30)) >> 31) as u64;
        x = (x * STEP) >> 63;
        n += 1;
    }
    table
}

/// Averages of one entity or queue.
#[derive(Clone, Copy, Debug, Default)]
pub struct Avg {
    /// When they were brought up to date, in units of 1024 ns.
    stamp: u64,
    /// Runnable weight.
    pub load: u64,
    /// Runnable tasks × 1024.
    pub runnable: u64,
    /// Running share × 1024.
    pub util: u64,
}

impl Avg {
    /// Whether the averages are up to `now_ns`, in their own units of time.
    #[inline]
    pub fn is_at(&self, now_ns: u64) -> bool {
        self.stamp >= now_ns >> 10
    }

    /// Brings a queue's averages up to `now_ns`, if they are not [there](Self::is_at) yet. `load`, `runnable`
    /// and whether something ran are the values since the last call.
    #[inline]
    pub fn update(&mut self, now_ns: u64, load: u64, runnable: u64, ran: bool) {
        let keep = self.pass(now_ns);
        let new = (1 << 32) - keep;
        self.load = share(self.load, keep) + share(load, new);
        // A queue has at most 1024 of these for each task, so products with a share stay below 2^64.
        self.runnable = ((self.runnable * keep) >> 32) + (((runnable << 10) * new) >> 32);
        self.util = ((self.util * keep) >> 32) + if ran { new >> 22 } else { 0 };
    }

    /// The same for a single entity, which was queued as a whole or not at all: its load is a share of 2^20.
    #[inline]
    pub fn update_single(&mut self, now_ns: u64, queued: bool, runnable: bool, ran: bool) {
        let keep = self.pass(now_ns);
        let new = (1 << 32) - keep;
        let mix = |old: u64, holds: bool, new: u64| ((old * keep) >> 32) + if holds { new } else { 0 };
        self.load = mix(self.load, queued, new >> 12);
        self.runnable = mix(self.runnable, runnable, new >> 22);
        self.util = mix(self.util, ran, new >> 22);
    }

    /// Moves the clock to `now_ns`. Returns the share, of 2^32, that the old averages keep.
    #[inline]
    fn pass(&mut self, now_ns: u64) -> u64 {
        let now = now_ns >> 10;
        decay(now - std::mem::replace(&mut self.stamp, now))
    }

    /// Starts the clock: nothing before `now_ns` counts.
    pub fn begin(&mut self, now_ns: u64) {
        self.stamp = now_ns >> 10;
    }
}

/// `x × part / 2^32`. Thousands of tasks on one queue weigh more than 2^32.
#[inline]
fn share(x: u64, part: u64) -> u64 {
    ((u128::from(x) * u128::from(part)) >> 32) as u64
}

/// `2^32 × y^(dt/1024)` with `dt` in units of 1024 ns.
#[inline]
fn decay(dt: u64) -> u64 {
    if dt < 1024 {
        // As below, for the first period. This is the usual case, since entities are updated often.
        return DECAY[0] - (DECAY[0] - DECAY[1]) * dt / 1024;
    }
    let (periods, part) = (dt / 1024, dt % 1024);
    let (halvings, n) = (periods / 32, (periods % 32) as usize);
    if halvings >= 32 {
        return 0;
    }
    let step = DECAY[n] - DECAY[n + 1];
    (DECAY[n] - step * part / 1024) >> halvings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_thousand_tasks_on_one_queue_weigh_what_they_weigh() {
        let (mut avg, load) = (Avg::default(), 10_000 * 1_048_576);
        (0..4_000).for_each(|ms| avg.update(ms << 20, load, 10_000, true));
        assert!(avg.load.abs_diff(load) < load / 100, "{}", avg.load);
    }

    #[test]
    fn an_average_halves_in_32_periods_and_settles_at_a_constant_input() {
        let mut a = Avg { load: 1 << 20, ..Avg::default() };
        a.update((32 * 1024) << 10, 0, 0, false);
        assert!(a.load.abs_diff(1 << 19) <= 2, "{}", a.load);
        a.update(2_000_000_000, 4096, 3, true);
        assert!(a.load.abs_diff(4096) <= 2 && a.runnable.abs_diff(3 << 10) <= 2, "{a:?}");
    }

    #[test]
    fn many_small_steps_decay_like_one_large_one() {
        let (mut a, mut b) =
            (Avg { load: 1 << 30, ..Avg::default() }, Avg { load: 1 << 30, ..Avg::default() });
        a.update(64_000_000, 0, 0, false);
        (1..=64).for_each(|i| b.update(i * 1_000_000, 0, 0, false));
        assert!(a.load.abs_diff(b.load) < a.load / 100, "{} {}", a.load, b.load);
    }
}
